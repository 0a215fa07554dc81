"""Single reports take another path than batches: results and state are those of the batch path."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.domains import Box
from dpbandits.local import Client, DurableServer, GPSpec, ReportCounts, ReportKey, Server
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.local.server.counting import Absorbed
from dpbandits.local.server.nonces import NonceSet
from dpbandits.local.server.robust import Robust
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP
from flat import spec_with

BOX = Box(low=[0], high=[1])
KEY, ROBUST = ReportKey(b"k" * 32), Robust(b"g" * 32, groups=3)


def bins_spec(**changes):
    base = {"contexts": BOX, "arms": range(3), "privacy": LocalDP(epsilon=2.0), "learner": "tree"}
    return spec_with(**(base | {"reports_per_version": 6, "window": 1, "seed": 5} | changes))


def weights_spec():
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.5), domain=BOX, n_features=4, scale=1.0)
    return GPSpec(
        domain=BOX, features=features, reward_range=(0, 1), privacy=JointDP(epsilon=4.0, delta=1e-4)
    )


SERVERS = {
    "krr": (bins_spec(mechanism="krr"), {}),
    "oue": (bins_spec(mechanism="oue"), {}),
    "signed": (bins_spec(mechanism="signed"), {}),
    "hadamard": (bins_spec(mechanism="hadamard"), {}),
    "laplace": (bins_spec(mechanism="laplace"), {}),
    "keyed": (bins_spec(), {"key": KEY}),
    "grouped": (bins_spec(mechanism="oue"), {"robust": ROBUST}),
    "classes": (bins_spec(mechanism="oue", epsilons=(1.0, 2.0)), {"key": KEY, "robust": ROBUST}),
    "questions": (bins_spec(learner="questions"), {}),
    "weights": (weights_spec(), {}),
}


def device_reports(spec, published, n, rng, key):
    out = []
    for _ in range(n):
        client = Client(spec)
        client.choose(published, rng.random((4, 1)) if isinstance(spec, GPSpec) else rng.random(1))
        report = client.report(float(rng.random()))
        out.append(report if key is None else key.signed(report, spec))
    return out


def mixed_reports(spec, versions, rng, key):
    """Return good, repeated, late, altered, foreign and torn reports, and other bytes, in any order."""
    good = [one for version in versions for one in device_reports(spec, version, 5, rng, key)]
    other = bins_spec(seed=6)
    foreign = device_reports(other, Server(other).publish(), 2, rng, None)
    spoiled = []
    for report in good:
        flipped = np.frombuffer(report, np.uint8).copy()
        flipped[rng.integers(len(flipped))] ^= np.uint8(1 << rng.integers(8))
        full = bytes([*report[:HEADER_BYTES], *rng.integers(0, 256, len(report) - HEADER_BYTES).tolist()])
        answering = report[:5] + int(rng.integers(4)).to_bytes(4, "little") + report[9:]
        spoiled += [flipped.tobytes(), full, answering, report[: rng.integers(len(report))], report + b"x"]
    signed = [key.signed(one[:-16], spec) for one in spoiled if len(one) > 16] if key else []
    one = good[0]
    strange = [None, 7, "report", b"", bytearray(one), bytes(HEADER_BYTES), bytes(40)]
    # One is of another contract, whose reports are as long, and one of a version that there never was.
    strange += [one[:1] + bytes([one[1] ^ 1]) + one[2:], one[:5] + (2**31).to_bytes(4, "little") + one[9:]]
    every = [*good, *good[::2], *foreign, *spoiled, *signed, *strange]
    return [every[place] for place in rng.permutation(len(every))]


def state_of(server):
    """Return the whole state of a server, except its number of calls."""
    arrays = server.to_arrays()
    numbers = json.loads(arrays.pop("numbers").tobytes())
    del numbers["changes"]
    return numbers, {name: (one.dtype, one.shape, one.tobytes()) for name, one in arrays.items()}


def absorbed(server, batches):
    tally = Absorbed()
    for batch in batches:
        tally.add(server.absorb(batch))
    return tally


@pytest.mark.parametrize("name", SERVERS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31))
def test_one_by_one_they_come_to_what_they_come_to_together(name, seed):
    """Reports come in two rounds, so that versions have closed and published ones depend on counts."""
    spec, options = SERVERS[name]
    rng = np.random.default_rng(seed)
    servers = [Server(spec, **options) for _ in range(3)]
    versions, tallies = [], []
    for _ in range(3):
        published = [server.publish() for server in servers]
        versions.append(published[0])
        reports = mixed_reports(spec, versions, rng, options.get("key"))
        ways = (
            [reports],
            [[one] for one in reports],
            [[one, None] for one in reports],  # two at a time, of which one is no report
        )
        together, alone, beside = (
            absorbed(server, batches) for server, batches in zip(servers, ways, strict=True)
        )
        beside.malformed -= len(reports)
        servers[2].totals.malformed -= len(reports)
        assert alone == together == beside
        tallies.append(alone)
        assert servers[0].memory_bytes == servers[1].memory_bytes
        states = [state_of(server) for server in servers]
        assert states[1] == states[0]
        assert states[2] == states[0]
    total = Absorbed()
    for tally in tallies:
        total.add(tally)
    assert min(total.accepted, total.malformed, total.foreign, total.closed, total.repeated) > 0
    assert (total.forged > 0) == ("key" in options)


@pytest.mark.parametrize("name", ["krr", "classes"])
def test_each_report_has_the_fate_that_it_has_among_others(name):
    spec, options = SERVERS[name]
    published = Server(spec).publish()
    reports = mixed_reports(spec, [published], np.random.default_rng(3), options.get("key"))
    counts, alone = (ReportCounts(spec, [published], **options) for _ in range(2))
    together, fates = counts.sift(reports), []
    for one in reports:
        sifted = alone.sift([one])
        assert len(sifted.records) == len(sifted.nonces) == len(sifted.parts) == sifted.tally.accepted
        alone.count(sifted)
        fates.append(int(sifted.fates[0]))
    assert fates == together.fates.tolist()


def test_a_nonce_counts_once_whatever_way_it_comes():
    """Reports come alone and in a batch, of two lengths, before and after a state is saved."""
    spec, _ = SERVERS["oue"]
    published = Server(spec).publish()
    first, second, third = device_reports(spec, published, 3, np.random.default_rng(1), None)
    counts = ReportCounts(spec, [published])
    assert counts.absorb([first]).accepted == 1
    assert counts.absorb([first, second]).repeated == 1
    assert counts.absorb([second]).repeated == 1
    record = np.frombuffer(third, np.uint8).reshape(1, -1)
    nonce = np.frombuffer(third[9:17], "<u8").astype(np.uint64)
    assert counts.absorb_records(record, without=nonce).repeated == 1
    assert counts.absorb_records(record).accepted == 1
    assert counts.absorb([third]).repeated == 1
    assert counts.absorb([third, third]).repeated == 2


def test_a_folder_of_reports_that_came_alone_is_read_again(tmp_path):
    spec, options = SERVERS["classes"]
    first = Server(spec).publish()
    reports = mixed_reports(spec, [first], np.random.default_rng(4), KEY)
    with (
        DurableServer.open(spec, tmp_path / "alone", **options) as alone,
        DurableServer.open(spec, tmp_path / "together", **options) as together,
    ):
        tallies = [alone.absorb([one]) for one in reports]
        assert together.absorb_each([[one] for one in reports]) == tallies
        whole = absorbed(Server(spec, **options), [reports])
        assert alone.server.totals == together.server.totals == whole
        kept = state_of(alone.server)
    with DurableServer.open(spec, tmp_path / "alone", key=KEY) as again:
        numbers, arrays = state_of(again.server)
        numbers["totals"] = kept[0]["totals"]  # reports that did not count are not in the log
        assert (numbers, arrays) == kept


@given(st.lists(st.lists(st.integers(0, 60), max_size=20), max_size=20))
def test_nonces_that_come_alone_are_in_the_set(batches):
    seen, nonces = set(), NonceSet(np.array([3, 2**64 - 1], dtype=np.uint64))
    seen |= {3, 2**64 - 1}
    for batch in batches:
        new = sorted(set(batch) - seen)
        nonces.put(np.array(new, dtype=np.uint64))
        seen |= set(new)
        assert {value for value in (*range(61), 2**64 - 1, 2**63) if value in nonces} == seen
        asked = np.array([*range(61), 2**64 - 1], dtype=np.uint64)
        assert set(asked[nonces.contains(asked)].tolist()) == seen
        assert len(nonces) == len(seen)
    assert nonces.sorted().tolist() == sorted(seen)
    assert nonces.nbytes == 8 * len(seen)


def test_many_nonces_that_come_alone_are_kept_in_runs():
    """None of twenty thousand nonces is lost when the set becomes a run."""
    values = np.random.default_rng(0).permutation(20_000).astype(np.uint64)
    nonces = NonceSet()
    for place in range(len(values)):
        nonces.put(values[place : place + 1])
    assert len(nonces) == 20_000
    assert all(value in nonces for value in range(20_000))
    assert 20_000 not in nonces
    assert nonces.sorted().tolist() == list(range(20_000))
