"""The server: any bytes, counted reasons, replay from bytes alone, bounded memory."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.domains import Box
from dpbandits.local import Client, Server, Spec
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.privacy import LocalDP
from flat import spec_with
from internals.server import counts


def spec_of(*, epsilon=4.0, learner="tree", **changes):
    base = {
        "contexts": Box(low=[0, 0], high=[1, 1]),
        "arms": range(3),
        "privacy": LocalDP(epsilon=epsilon),
        "learner": learner,
        "reports_per_version": 50,
    }
    return spec_with(**(base | changes))


def reports_for(spec, policy, n, seed=0):
    rng, client, out = np.random.default_rng(seed), Client(spec, budget=1e9), []
    for context in rng.random((n, 2)):
        arm = client.choose(policy, context)
        reward = float(rng.random() < (0.9 if arm == int(3 * context[0]) else 0.1))
        out.append(client.report(reward))
    return out


def run(spec, n_batches=20, size=40):
    server, batches, policies = Server(spec), [], []
    for batch in range(n_batches):
        policy = server.publish()
        policies.append(policy.to_json(spec))
        batches.append(reports_for(spec, policy, size, seed=batch))
        server.absorb(batches[-1])
    return server, batches, policies


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"learner": "smooth"},
        {"learner": "smooth", "chooser": "client", "mechanism": "laplace"},
        {"mechanism": "signed"},
        {"learner": "eliminate", "epsilon": 8.0},
        {"chooser": "client"},
        {"mechanism": "hadamard"},
        {"learner": "ma2025-printed", "n_users": 400},
    ],
    ids=str,
)
def test_bytes_alone_rebuild_every_decision(change):
    spec = spec_of(**change)
    server, batches, policies = run(spec)
    again = Server(Spec.from_json(spec.to_json()))
    for batch, policy in zip(batches, policies, strict=True):
        assert again.publish().to_json(spec) == policy
        again.absorb(batch)
    assert again.publish().to_json(spec) == server.publish().to_json(spec)
    whole = Server.replay(spec, batches)
    assert whole.publish().to_json(spec) == server.publish().to_json(spec)
    assert len(server.publish().splits) > 0 or change.get("learner") == "eliminate"


def test_ma2025_is_served_too():
    spec = spec_of(learner="ma2025", n_users=2400, chooser="client", mechanism="paper-laplace")
    server, _, _ = run(spec, n_batches=3)
    assert server.totals.accepted == 120


def test_the_server_has_no_way_in_for_raw_data():
    """Every public method, and what it may be given."""
    methods = {
        name: set(inspect.signature(member).parameters) - {"self"}
        for name, member in inspect.getmembers(Server, callable)
        if not name.startswith("_")
    }
    # What other servers counted or learned is made of reports too: sums, never a context, an arm or a reward.
    assert methods == {
        "absorb": {"reports"},
        "publish": set(),
        "estimate": set(),
        "diagnostics": set(),
        "readout": {"confidence"},
        "replay": {"spec", "batches"},
        "merge": {"counts"},
        "check_merge": {"counts"},
        "nonces": set(),
        "remember": {"terms"},
        "attach": {"source", "server"},
        "attach_target": {"name", "server"},
        "sums_of": {"source", "server"},
        "attach_sums": {"source", "sums", "published"},
        "check_target": {"name", "target"},
        "attach_evidence": {"name", "target", "evidence", "published"},
        "source_sums": set(),
        "evidence": set(),
        # What a log keeps: reports again, versions that were published, and all of it as arrays.
        "sift": {"reports"},
        "count": {"sifted"},
        "absorb_again": {"records"},
        "begin_with": {"published"},
        "republish": {"published"},
        "to_arrays": set(),
        "restore": {"spec", "arrays", "options"},
    }
    assert set(inspect.signature(Server).parameters) == {"spec", "key", "least_open", "clock", "robust"}


def test_reasons_are_counted_apart():
    spec = spec_of()
    server = Server(spec)
    good = reports_for(spec, server.publish(), 3)
    other = reports_for(spec_of(seed=9), Server(spec_of(seed=9)).publish(), 1)
    late = good[0][:5] + (7).to_bytes(4, "little") + good[0][9:]
    bad_payload = good[0][:HEADER_BYTES] + b"\xff" * (len(good[0]) - HEADER_BYTES)
    tally = server.absorb([*good, good[1], *other, late, bad_payload, b"", b"x" * 10_000, "text", None, 7])
    assert (tally.accepted, tally.repeated, tally.foreign, tally.closed) == (3, 1, 1, 1)
    assert tally.malformed == 6
    assert server.absorb(good).repeated == 3
    assert server.totals.accepted == 3


def test_versions_close_with_the_window():
    spec = spec_of(window=2, reports_per_version=10)
    server = Server(spec)
    kept = reports_for(spec, server.publish(), 40)
    for version in range(1, 5):
        assert server.absorb(kept[version : version + 1]).accepted == (1 if version <= 3 else 0)
        server.absorb(reports_for(spec, server.publish(), 10, seed=version))
        server.publish()
    assert server.absorb(kept[20:21]).closed == 1


def test_memory_is_bounded_by_window_and_bins():
    spec = spec_of(window=3, reports_per_version=100)
    server, _, _ = run(spec, n_batches=30, size=100)
    nonces = len(counts(server).nonces())
    assert nonces <= 100 * 2 * (spec.protocol.window + 2)
    assert server.memory_bytes <= 16 * nonces + 8 * 2 * 1024 * (spec.protocol.window + 1)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_arbitrary_bytes_never_stop_the_server(reports):
    server = Server(spec_of())
    tally = server.absorb(reports)
    assert tally.accepted + tally.malformed + tally.foreign + tally.closed + tally.repeated == len(reports)
    server.publish()


@given(st.integers(0, 10_000), st.sampled_from(["signed", "oue", "hadamard", "krr", "laplace"]))
def test_corrupted_reports_never_stop_the_server(seed, mechanism):
    spec = spec_of(mechanism=mechanism, reports_per_version=1)
    server = Server(spec)
    rng = np.random.default_rng(seed)
    reports = []
    for report in reports_for(spec, server.publish(), 5, seed):
        spoiled = np.frombuffer(report, np.uint8).copy()
        spoiled[rng.integers(len(spoiled))] ^= np.uint8(1 << rng.integers(8))
        reports.append(spoiled.tobytes()[: rng.integers(1, len(spoiled) + 1)])
    tally = server.absorb(reports)
    assert tally.accepted + tally.malformed + tally.foreign + tally.closed + tally.repeated == 5
    assert server.publish().version in (0, 1)
