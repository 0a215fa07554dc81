"""A server that goes on after its process has ended: same reports, same versions, refusals of anything else.

What kills, full disks and torn writes do to it is tested in tests/faults.
"""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError, StateError
from dpbandits.local import (
    Client,
    DurableServer,
    ReportCounts,
    Server,
    SourceClient,
    SourceSpec,
    Spec,
)
from dpbandits.local.server.gathering import Gathering
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP, SimulatedNoise
from dpbandits.privacy.reports import ReportMechanism
from dpbandits.state.journal import Journal
from flat import changed, gp_spec_with, spec_with
from internals.server import held_back, learner, records_logged, snapshot_every

SPEC = spec_with(
    contexts=Box(low=[0], high=[1]),
    arms=range(2),
    privacy=LocalDP(epsilon=2.0),
    learner="tree",
    reports_per_version=6,
    seed=5,
)


@pytest.fixture
def snapshots(monkeypatch):
    """How many records go between snapshots."""
    return lambda *, every: snapshot_every(monkeypatch, every)


def opened(folder, spec=SPEC, *, least_open=0.0, **options):
    return DurableServer.open(spec, folder, least_open=least_open, **options)


def report_of(policy, x):
    client = Client(SPEC)
    client.choose(policy, [x])
    return client.report(float(x > 0.5))


def serve(server, n_batches, start=0):
    """Batches of three reports, a publication after each; what was confirmed and published."""
    seen = []
    for batch in range(start, start + n_batches):
        policy = server.publish()
        reports = [report_of(policy, x) for x in np.random.default_rng(batch).random(3)]
        seen.append((policy.to_json(SPEC), reports, server.absorb(reports)))
    return seen


def test_a_new_process_goes_on_where_the_old_one_stopped(tmp_path):
    with opened(tmp_path) as first:
        seen = serve(first, 5)
        now, totals = first.publish().to_json(SPEC), first.server.totals
    with opened(tmp_path) as second:
        assert second.server.totals == totals
        assert second.publish().to_json(SPEC) == now
        for _, reports, _ in seen[-2:]:  # still in the window: repeated sendings are known
            assert second.absorb(reports).repeated == 3
        serve(second, 4, start=5)
        after, totals = second.publish().to_json(SPEC), second.server.totals
    replayed = opened(tmp_path)
    assert replayed.publish().to_json(SPEC) == after
    assert replayed.server.totals.accepted == totals.accepted == 27
    assert totals.repeated == 6  # what does not count is not kept


def test_it_is_the_plain_server(tmp_path):
    plain, durable = Server(SPEC), opened(tmp_path)
    for batch in range(8):
        policy = plain.publish()
        assert durable.publish().to_json(SPEC) == policy.to_json(SPEC)
        reports = [report_of(policy, x) for x in np.random.default_rng(batch).random(3)]
        junk = [b"", b"\x00" * 40, None, reports[0]]
        assert plain.absorb([*reports, *junk]) == durable.absorb([*reports, *junk])


def gp_spec():
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=SPEC.contexts, n_features=4)
    return gp_spec_with(
        domain=SPEC.contexts,
        features=features,
        reward_range=(0, 1),
        privacy=JointDP(epsilon=4.0, delta=1e-6),
        noise=SimulatedNoise(1),
        n_candidates=3,
    )


def test_gaussian_process_servers_go_on_too(tmp_path):
    spec = gp_spec()

    def server():
        return DurableServer.open(spec, tmp_path)

    with server() as first:
        for user in range(12):
            if user % 4 == 0:
                policy = first.publish()
            client = Client(spec)
            client.choose(policy, np.random.default_rng(user).random((3, 1)))
            assert first.absorb([client.report(0.5)]).accepted == 1
    with server() as second:
        assert second.server.totals.accepted == 12
        mean = second.publish().mean
    assert server().publish().version == 4
    assert np.abs(mean).max() > 0.0


def test_only_one_server_uses_a_folder(tmp_path):
    with opened(tmp_path) as first:
        with pytest.raises(StateError, match="another server"):
            opened(tmp_path)
        first.publish()
    with pytest.raises(ProtocolError, match="closed"):
        first.publish()
    opened(tmp_path).close()


def test_another_specs_log_is_refused(tmp_path):
    opened(tmp_path).close()
    other = Spec(contexts=Box(low=[0], high=[1]), arms=range(3), privacy=LocalDP(epsilon=2.0))
    with pytest.raises(IncompatibleState):
        opened(tmp_path, other)


def test_a_spec_whose_four_bytes_collide_is_another(tmp_path):
    with opened(tmp_path) as server:
        serve(server, 3)
    changed = replace(SPEC, seed=6)
    changed.__dict__["digest"] = SPEC.digest  # as a server elsewhere would find it
    with pytest.raises(IncompatibleState, match="another subject"):
        opened(tmp_path, changed)


def test_every_change_of_what_was_confirmed_is_refused(tmp_path):
    with opened(tmp_path / "server") as server:
        serve(server, 2)
    for name in ("reports.log", "reports.log.end"):
        path = tmp_path / "server" / name
        whole = path.read_bytes()
        damaged = [whole[:cut] for cut in range(0, len(whole), 7)]
        damaged += [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
        for data in damaged:
            path.write_bytes(data)
            with pytest.raises((CorruptState, IncompatibleState)):
                opened(tmp_path / "server")
        path.unlink()
        with pytest.raises(CorruptState):
            opened(tmp_path / "server")
        path.write_bytes(whole)
    with opened(tmp_path / "server") as server:
        assert server.server.totals.accepted == 6


def test_a_full_disk_counts_nothing_and_the_batch_can_be_sent_again(tmp_path, monkeypatch):
    server = opened(tmp_path)
    policy = server.publish()
    reports = [report_of(policy, x) for x in (0.1, 0.9)]
    for name in ("write", "fsync", "replace"):
        with monkeypatch.context() as failing:
            failing.setattr(os, name, _full_disk)
            with pytest.raises(OSError, match="no space"):
                server.absorb(reports)
        assert server.server.totals.accepted == 0
    # the last attempt wrote the record and not the end: it counts, and so the batch has been absorbed
    assert server.absorb(reports).repeated == 2
    assert server.server.totals.accepted == 2
    server.close()
    assert opened(tmp_path).server.totals.accepted == 2


def test_a_version_that_could_not_be_kept_is_kept_before_anything_follows(tmp_path, monkeypatch):
    server = opened(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", _full_disk)
        with pytest.raises(OSError, match="no space"):
            server.publish()
    serve(server, 3)
    now = server.publish().to_json(SPEC)
    server.close()
    assert opened(tmp_path).publish().to_json(SPEC) == now


def _full_disk(*_arguments, **_options):
    raise OSError("no space left on device")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied(tmp_path, duplicate):
    with pytest.raises(ProtocolError):
        duplicate(opened(tmp_path))


def test_a_forked_child_cannot_use_it(tmp_path, monkeypatch):
    server = opened(tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (server.publish, lambda: server.absorb([])):
        with pytest.raises(ForkedState):
            call()


def test_files_are_private(tmp_path):
    with opened(tmp_path / "server") as server:
        serve(server, 1)
    assert (tmp_path / "server").stat().st_mode & 0o777 == 0o700
    assert {path.name for path in (tmp_path / "server").iterdir()} == {
        "reports.log",
        "reports.log.end",
        "server.lock",
    }
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "server").iterdir())


# -- what is written --------------------------------------------------------------------------------


def log_bytes(folder):
    return sum(path.stat().st_size for path in folder.iterdir() if path.name.startswith("reports.log"))


def test_nothing_is_written_of_what_does_not_count(tmp_path):
    """A report of 200 MB stayed on disk for ever."""
    with opened(tmp_path) as server:
        good = report_of(server.publish(), 0.3)
        assert server.absorb([good]).accepted == 1
        before = log_bytes(tmp_path)
        late = good[:5] + (7).to_bytes(4, "little") + good[9:]
        other = Client(replace(SPEC, seed=6))
        other.choose(Server(other.spec).publish(), [0.3])
        junk = [bytes(1 << 20), b"", None, late, other.report(1.0), good[:-1] + bytes([255]), good]
        tally = server.absorb(junk)
        assert (tally.accepted, tally.malformed, tally.closed) == (0, 4, 1)
        assert (tally.foreign, tally.repeated) == (1, 1)
        assert log_bytes(tmp_path) == before
        fresh = report_of(server.publish(), 0.4)
        assert server.absorb([*junk, fresh]).accepted == 1
        assert log_bytes(tmp_path) < before + 4 * len(fresh) + 200
    with opened(tmp_path) as again:
        assert again.server.totals.accepted == 2


@pytest.mark.parametrize("name", ["smooth", "tree", "eliminate", "explore"])
def test_another_processor_may_round_otherwise(tmp_path, monkeypatch, name):
    """Versions are taken as they were published: what is computed anew may differ, and decides nothing."""
    spec = replace(SPEC, learner=name, chooser="client", privacy=LocalDP(epsilon=8.0))

    def serve_on(server, seeds):
        for seed in seeds:
            server.absorb(reports_to(spec, server.publish(), 6, seed))
        return server.publish()

    with opened(tmp_path, spec) as server:
        now = serve_on(server, range(12))
        texts = [one.to_json(spec) for one in server.server.open_versions]
    with monkeypatch.context() as elsewhere:
        rounded_otherwise(elsewhere)
        with opened(tmp_path, spec) as server:
            assert server.publish().to_json(spec) == now.to_json(spec)
            assert [one.to_json(spec) for one in server.server.open_versions] == texts
            later = serve_on(server, range(12, 24))
    with opened(tmp_path, spec) as server:
        assert server.publish().to_json(spec) == later.to_json(spec)
        assert server.server.totals.accepted == 24 * 6
    assert name in ("explore", "eliminate") or len(later.splits) > 0


def rounded_otherwise(monkeypatch):
    """Estimates that differ in their last bits, so that what rests on a threshold may turn over."""
    real = ReportMechanism.__subclasses__

    def perturbed(estimate):
        def nudged(*arguments):
            signed, count = estimate(*arguments)
            return signed * (1.0 + 1e-3), count * (1.0 - 1e-3)

        return nudged

    todo = real()
    while todo:
        one = todo.pop()
        todo += one.__subclasses__()
        if "estimate" in vars(one):
            monkeypatch.setattr(one, "estimate", perturbed(one.estimate))


def test_gaussian_processes_too(tmp_path, monkeypatch):
    spec = gp_spec()

    def serve_on(server, users):
        for user in users:
            client = Client(spec)
            client.choose(server.publish(), np.random.default_rng(user).random((3, 1)))
            assert server.absorb([client.report(0.5)]).accepted == 1

    with opened(tmp_path, spec) as server:
        serve_on(server, range(6))
        now = server.publish().to_json(spec)
    real = np.linalg.eigh

    def eigh(*arguments):
        values, vectors = real(*arguments)
        return values * (1.0 + 1e-9), vectors

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(np.linalg, "eigh", eigh)
        with opened(tmp_path, spec) as server:
            assert server.server.current.to_json(spec) == now
            serve_on(server, range(6, 9))
    with opened(tmp_path, spec) as server:
        assert server.server.totals.accepted == 9


# -- snapshots --------------------------------------------------------------------------------------


def learned(spec, folder):
    """Everything that a folder says, and what comes next."""
    with opened(folder, spec) as server:
        return server.server.to_arrays()


def same_arrays(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert np.array_equal(array, right[name]), name


SNAPSHOTS = [
    {"learner": "smooth"},
    {"learner": "tree"},
    {"learner": "eliminate", "chooser": "client"},
    {"learner": "ma2025", "chooser": "client", "n_users": 400, "mechanism": "paper-laplace"},
    {"learner": "ma2025-printed", "chooser": "client", "n_users": 400, "mechanism": "paper-laplace"},
    {"learner": "explore", "constants": {"depth": 2.0}},
    {"epsilons": (1.0, 8.0)},
]


@pytest.mark.parametrize("change", SNAPSHOTS, ids=str)
def test_a_snapshot_is_the_log(tmp_path, snapshots, change):
    """Opened by its snapshot or by its whole log, a folder is the same server, in every number."""
    spec = changed(SPEC, privacy=LocalDP(epsilon=8.0), **change)
    snapshots(every=5)
    with opened(tmp_path, spec) as server:
        for seed in range(11):
            server.absorb(reports_to(spec, server.publish(), 6, seed))
        now = server.server.to_arrays()
    assert (tmp_path / "server.state").exists()
    same_arrays(learned(spec, tmp_path), now)
    (tmp_path / "server.state").unlink()
    same_arrays(learned(spec, tmp_path), now)


def test_a_snapshot_keeps_nonces_of_both_generations(tmp_path, snapshots):
    """What was seen before the last turn is refused after a restart too, while its version is open."""
    snapshots(every=1)
    spec = changed(SPEC, privacy=LocalDP(epsilon=8.0), window=2)
    with opened(tmp_path, spec) as server:
        for seed in range(6):
            server.absorb(reports_to(spec, server.publish(), 6, seed))
        now = server.server.to_arrays()
    assert now["nonces.old"].size
    same_arrays(learned(spec, tmp_path), now)


def test_a_snapshot_keeps_sources_and_targets(tmp_path, snapshots):
    snapshots(every=1)
    with opened(tmp_path, TREE) as server:
        told(server)
        server.absorb(reports_to(TREE, server.publish(), 4, seed=12))
        now, doubts = server.server.to_arrays(), learner(server.server).doubts
    with opened(tmp_path, TREE) as again:
        assert learner(again.server).doubts == doubts
        same_arrays(again.server.to_arrays(), now)
        with pytest.raises(ProtocolError, match="another name"):
            again.attach_target("the other", other_target())
    (tmp_path / "server.state").unlink()
    with opened(tmp_path, TREE) as again:
        assert learner(again.server).doubts == doubts


def test_a_gaussian_process_snapshot_is_the_log(tmp_path, snapshots):
    snapshots(every=3)
    spec = gp_spec()
    with opened(tmp_path, spec) as server:
        for user in range(8):
            client = Client(spec)
            client.choose(server.publish(), np.random.default_rng(user).random((3, 1)))
            server.absorb([client.report(0.5)])
        now = server.server.to_arrays()
    same_arrays(learned(spec, tmp_path), now)
    (tmp_path / "server.state").unlink()
    same_arrays(learned(spec, tmp_path), now)


def test_any_damage_to_a_snapshot_costs_time_only(tmp_path, snapshots):
    snapshots(every=3)
    with opened(tmp_path) as server:
        serve(server, 6)
        now = server.publish().to_json(SPEC)
    path = tmp_path / "server.state"
    whole = path.read_bytes()
    damaged = [whole[:cut] for cut in range(0, len(whole), 97)]
    damaged += [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(0, len(whole), 89)]
    for data in [*damaged, b"", bytes(100)]:
        path.write_bytes(data)
        with opened(tmp_path) as server:
            assert server.publish().to_json(SPEC) == now
            assert server.server.totals.accepted == 18


@pytest.mark.parametrize("n", [[], {}, "7", None, 1.5, -1])
def test_a_tally_that_is_no_count_is_refused(n):
    """Found by the fuzzer: it was taken, and the next batch of reports ended in Python's own error."""
    server = Server(SPEC)
    arrays = server.to_arrays()
    numbers = json.loads(arrays["numbers"].tobytes())
    numbers["totals"]["accepted"] = n
    arrays["numbers"] = np.frombuffer(json.dumps(numbers).encode(), dtype=np.uint8)
    with pytest.raises(IncompatibleState):
        Server.restore(SPEC, arrays)


def test_a_snapshot_ahead_of_its_log_is_refused(tmp_path, snapshots):
    """A log that was cut, or swapped for an older one, is not hidden by what was kept beside it."""
    snapshots(every=2)
    files = [tmp_path / name for name in ("reports.log", "reports.log.end")]
    with opened(tmp_path) as server:
        serve(server, 1)
    older = [path.read_bytes() for path in files]
    with opened(tmp_path) as server:
        serve(server, 3)
    for path, data in zip(files, older, strict=True):
        path.write_bytes(data)
    with pytest.raises(CorruptState):
        opened(tmp_path)
    for path in files:
        path.unlink()
    with pytest.raises(CorruptState):
        opened(tmp_path)


@pytest.mark.parametrize("kind", [b"B", b"A", b"P", b"M", b"S", b"T"])
@pytest.mark.parametrize(
    "content", [b"", b"\x02\x00\x00\x00\x08", b"\xff" * 40], ids=["empty", "short", "wild"]
)
def test_a_record_that_another_writer_left_is_refused_as_such(tmp_path, kind, content):
    """Its checksum is right, and what it says cannot be read."""
    opened(tmp_path).close()
    log = Journal(tmp_path / "reports.log", kind="local server", subject=SPEC.fingerprint)
    log.settle()
    log.append(kind, content)
    with pytest.raises((CorruptState, IncompatibleState)):
        opened(tmp_path)


def test_a_disk_that_refuses_a_snapshot_refuses_no_report(tmp_path, monkeypatch, snapshots):
    snapshots(every=3)
    with opened(tmp_path) as server:
        with monkeypatch.context() as failing:
            failing.setattr("dpbandits.state.format.write_durably", _full_disk)
            policy = server.publish()
            for x in (0.1, 0.4, 0.8):
                assert server.absorb([report_of(policy, x)]).accepted == 1
        assert not (tmp_path / "server.state").exists()
    with opened(tmp_path) as server:
        assert server.server.totals.accepted == 3


# -- merging and attaching ---------------------------------------------------------------------------

TREE = spec_with(
    contexts=Box(low=[0], high=[1]),
    arms=range(2),
    privacy=LocalDP(epsilon=8.0),
    learner="tree",
    reports_per_version=6,
    window=3,
    seed=5,
)


def reports_to(spec, policy, n, seed):
    client, rng = Client(spec, budget=1e9), np.random.default_rng(seed)

    def report(x):
        client.choose(policy, [x])
        return client.report(float(x > 0.5))

    return [report(x) for x in rng.random(n)]


def source_server(n=200):
    source = SourceSpec(target=TREE, name="past", n_users=200, privacy=LocalDP(epsilon=8.0), looks=False)
    server, device, rng = (
        Server(source.reports),
        SourceClient(source.reports, budget=1e9),
        np.random.default_rng(1),
    )
    policy, batch = server.publish(), []
    for x in rng.random(n):
        arm = int(rng.integers(2))
        device.observe(policy, [x], arm)
        batch.append(device.report(float((x > 0.5) == arm)))
    server.absorb(batch)
    return source, server


def other_target():
    server = Server(replace(TREE, seed=6))
    server.absorb(reports_to(server.spec, server.publish(), 20, seed=8))
    server.publish()
    return server


def told(server, upto=5):
    """All that a server can be told, between reports; the last versions published."""
    policies, source, other = [], source_server(), other_target()
    steps = (
        lambda: server.absorb(reports_to(TREE, server.publish(), 4, seed=2)),
        lambda: policies.append(server.attach(*source).to_json(TREE)),
        lambda: server.merge(shard(server.publish(), 5)),
        lambda: policies.append(server.publish().to_json(TREE)),
        lambda: policies.append(server.attach_target("other", other).to_json(TREE)),
    )
    for step in steps[:upto]:
        step()
    return policies


def shard(policy, n, seed=3):
    counts = ReportCounts(TREE, [policy])
    counts.absorb(reports_to(TREE, policy, n, seed))
    return counts


@pytest.mark.parametrize("upto", range(1, 6))
def test_counts_sources_and_targets_are_on_disk(tmp_path, upto):
    with opened(tmp_path, TREE) as first:
        told(first, upto)
        now, totals, doubts = first.publish().to_json(TREE), first.server.totals, learner(first.server).doubts
        evidence = first.server.evidence()
    with opened(tmp_path, TREE) as second:
        assert second.publish().to_json(TREE) == now
        assert second.server.totals == totals
        assert learner(second.server).doubts == doubts
        assert np.array_equal(second.server.evidence().local.moment, evidence.local.moment)
        assert second.absorb(reports_to(TREE, second.publish(), 7, seed=4)).accepted == 7
        after = second.publish().to_json(TREE)
    assert opened(tmp_path, TREE).publish().to_json(TREE) == after != now


def test_a_disk_that_refuses_leaves_merge_and_attach_undone_or_done(tmp_path, monkeypatch):
    """At every point of writing: what the log holds is what the server has, whatever the caller was told."""
    source, other = source_server(), other_target()
    for steps in range(40):
        folder = tmp_path / str(steps)
        with opened(folder, TREE) as server:
            server.publish()
            left = [steps]

            def refusing(name, real, left=left):
                def write(*arguments):
                    left[0] -= 1
                    if left[0] == 0:
                        raise OSError("full")
                    return real(*arguments)

                monkeypatch.setattr(os, name, write)

            for name in ("write", "fsync", "replace"):
                refusing(name, getattr(os, name))
            for call in (
                lambda server=server: server.merge(shard(server.publish(), 4)),
                lambda server=server: server.attach(*source),
                lambda server=server: server.attach_target("other", other),
            ):
                with suppress(OSError):
                    call()
            monkeypatch.undo()
            now, totals = server.publish().to_json(TREE), server.server.totals
        with opened(folder, TREE) as again:
            assert again.publish().to_json(TREE) == now
            assert again.server.totals == totals


def test_what_is_refused_is_not_written(tmp_path):
    with opened(tmp_path, TREE) as server:
        told(server, 3)
        size = (tmp_path / "reports.log").stat().st_size
        counts = shard(server.publish(), 5)
        server.merge(counts)
        after = (tmp_path / "reports.log").stat().st_size
        assert after > size
        with pytest.raises(ProtocolError, match="both"):
            server.merge(counts)
        source, fed = source_server()
        with pytest.raises(IncompatibleState):
            server.attach(replace(source, name="another"), fed)
        with pytest.raises(IncompatibleState):
            server.attach_target("me", server.server)
        assert (tmp_path / "reports.log").stat().st_size == after
    opened(tmp_path, TREE).close()


def test_a_server_changed_behind_its_log_is_refused_and_the_log_stays_whole(tmp_path):
    """Otherwise the next version would be one that no log rebuilds, and the folder could not be opened."""
    with opened(tmp_path, TREE) as server:
        told(server, 1)
        server.server.attach(*source_server())
        for call in (server.publish, lambda: server.absorb([]), lambda: server.attach(*source_server())):
            with pytest.raises(ProtocolError, match="outside its log"):
                call()
    with opened(tmp_path, TREE) as again:
        assert again.server.totals.accepted == 4


def test_gaussian_process_servers_merge_and_refuse_to_attach(tmp_path):
    with DurableServer.open(gp_spec(), tmp_path) as server:
        published = server.publish()
        counts = ReportCounts(gp_spec(), [published])
        client = Client(gp_spec())
        client.choose(published, [[0.1], [0.7]])
        counts.absorb([client.report(1.0)])
        assert server.merge(counts) == 1
        for call in (
            lambda: server.attach(*source_server()),
            lambda: server.attach_target("other", other_target()),
        ):
            with pytest.raises(ProtocolError, match="only"):
                call()
    with DurableServer.open(gp_spec(), tmp_path) as again:
        assert again.server.totals.accepted == 1


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError, ProtocolError])
def test_what_comes_between_the_log_and_its_step_strands_no_report(tmp_path, monkeypatch, interruption):
    """The report is on disk and not counted: no further call may go on from there, a new server may."""
    server = opened(tmp_path)
    first, second = (report_of(server.publish(), x) for x in (0.2, 0.8))
    server.absorb([first])

    def interrupted(*_):
        raise interruption

    with monkeypatch.context() as patch:
        patch.setattr(Server, "count", interrupted)
        with pytest.raises(interruption):
            server.absorb([second])
    with pytest.raises(ProtocolError, match="open the folder again"):
        server.absorb([second])
    server.close()
    with opened(tmp_path) as again:
        assert again.server.totals.accepted == 2
        assert again.absorb([first, second]).repeated == 2


def test_a_refusal_of_the_disk_does_not_stop_a_server_whose_step_was_not_written(tmp_path, monkeypatch):
    server = opened(tmp_path)
    report = report_of(server.publish(), 0.2)
    with monkeypatch.context() as patch:
        patch.setattr("dpbandits.state.journal.write_through", _full_disk)
        with pytest.raises(OSError, match="no space"):
            server.absorb([report])
    assert server.absorb([report]).accepted == 1


# -- many threads ------------------------------------------------------------------------------------


def absorbed_apart(server, batches):
    """A thread a batch, all at the same time; what each of them got or what stopped it."""
    with ThreadPoolExecutor(len(batches)) as threads:
        with held_back(server, len(batches)):
            calls = [threads.submit(server.absorb, batch) for batch in batches]
        return [call.exception() or call.result() for call in calls]


def test_reports_of_many_threads_are_one_record(tmp_path):
    with opened(tmp_path) as server:
        policy = server.publish()
        reports = [report_of(policy, x) for x in np.linspace(0.0, 1.0, 20)]
        plain = Server(SPEC)
        plain.publish()
        before = records_logged(server)
        batches = [[one] for one in reports] + [[b"junk", None], []]
        with patch("os.fsync", wraps=os.fsync) as written:
            tallies = absorbed_apart(server, batches)
        assert records_logged(server) == before + 1
        assert written.call_count == 3  # the log, its end, and the end's name
        assert tallies == [plain.absorb(batch) for batch in batches]
        assert server.server.totals == plain.totals
        now = server.publish().to_json(SPEC)
        assert now == plain.publish().to_json(SPEC)
    with opened(tmp_path) as again:
        assert again.publish().to_json(SPEC) == now
        assert again.absorb(reports).repeated == 20


def test_one_report_through_many_threads_counts_once(tmp_path):
    with opened(tmp_path) as server:
        report = report_of(server.publish(), 0.3)
        tallies = absorbed_apart(server, [[report]] * 8)
        assert sorted((one.accepted, one.repeated) for one in tallies) == [(0, 1)] * 7 + [(1, 0)]
        assert server.server.totals.accepted == 1


def test_no_thread_returns_before_its_report_is_on_disk(tmp_path, monkeypatch):
    with opened(tmp_path) as server:
        policy = server.publish()
        reports = [report_of(policy, x) for x in (0.1, 0.5, 0.9)]
        written, written_through = threading.Event(), os.fsync
        with monkeypatch.context() as slow, ThreadPoolExecutor(3) as threads:
            slow.setattr(os, "fsync", lambda file: written.wait(60) and written_through(file))
            calls = [threads.submit(server.absorb, [report]) for report in reports]
            done, _ = wait(calls, timeout=0.5)
            assert not done
            written.set()
            assert [call.result(60).accepted for call in calls] == [1, 1, 1]


def test_a_refused_write_stops_one_thread_and_the_others_write_for_themselves(tmp_path, monkeypatch):
    with opened(tmp_path) as server:
        policy = server.publish()
        reports = [report_of(policy, x) for x in (0.1, 0.5, 0.9)]
        full = iter([True])
        with monkeypatch.context() as failing:
            failing.setattr(
                os,
                "write",
                lambda *given, write=os.write: _full_disk() if next(full, False) else write(*given),
            )
            got = absorbed_apart(server, [[report] for report in reports])
        assert [type(one).__name__ for one in got].count("OSError") == 1
        assert sum(one.accepted for one in got if not isinstance(one, OSError)) == 2
        assert server.absorb(reports).accepted == 1
    with opened(tmp_path) as again:
        assert again.absorb(reports).repeated == 3


def test_a_thread_that_is_interrupted_while_it_waits_is_no_longer_acted_for():
    acted, gate = [], threading.Lock()

    def act(given):
        acted.append(given)
        return given

    @contextmanager
    def turn():
        with gate:
            yield

    gathering = Gathering(act, turn)
    with ThreadPoolExecutor(1) as threads:
        with gate:
            first = threads.submit(gathering, "first")
            signal.signal(signal.SIGALRM, _interrupt)
            with pytest.raises(KeyboardInterrupt):  # it may come as soon as the timer runs
                _interrupted_soon(gathering)
        assert first.result(60) == "first"
    assert gathering("third") == "third"
    assert acted == [["first"], ["third"]]


def _interrupt(*_):
    raise KeyboardInterrupt


def _interrupted_soon(gathering):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    gathering("second")


def test_closing_waits_for_a_call_under_way(tmp_path, monkeypatch):
    """Otherwise another server could write to the log while this one still does."""
    server = opened(tmp_path)
    report, written, written_through = report_of(server.publish(), 0.3), threading.Event(), os.fsync
    with monkeypatch.context() as slow, ThreadPoolExecutor(2) as threads:
        slow.setattr(os, "fsync", lambda file: written.wait(60) and written_through(file))
        absorbing = threads.submit(server.absorb, [report])
        done, _ = wait([absorbing], timeout=0.2)
        closing = threads.submit(server.close)
        more, _ = wait([closing], timeout=0.3)
        assert not done | more
        written.set()
        assert absorbing.result(60).accepted == 1
        closing.result(60)
    with opened(tmp_path) as again:
        assert again.absorb([report]).repeated == 1


SENDERS = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from dpbandits.local import DurableServer, Spec

spec, data, size = Spec.from_json(sys.argv[1]), Path(sys.argv[3]).read_bytes(), int(sys.argv[4])
server = DurableServer.open(spec, sys.argv[2], least_open=0.0)

def send(start):
    for at in range(start, len(data), 8 * size):
        server.absorb([data[at : at + size]])
        os.write(1, data[at : at + size])

with ThreadPoolExecutor(8) as threads:
    list(threads.map(send, range(0, 8 * size, size)))
"""


@pytest.mark.parametrize("confirmed_before", [1, 100, 400])
def test_what_threads_were_confirmed_survives_kill_9(tmp_path, confirmed_before):
    """Killed after a number of confirmations, not after a time: a fast machine would be done by then."""
    with opened(tmp_path / "server") as server:
        policy = server.publish()
        reports = [report_of(policy, x) for x in np.random.default_rng(0).random(1000)]
    (tmp_path / "reports").write_bytes(b"".join(reports))
    size = len(reports[0])
    given = [SPEC.to_json(), tmp_path / "server", tmp_path / "reports", str(size)]
    with subprocess.Popen([sys.executable, "-c", SENDERS, *given], stdout=subprocess.PIPE) as senders:
        said = senders.stdout.read(confirmed_before * size)
        senders.kill()
        said += senders.stdout.read()
    confirmed = [said[at : at + size] for at in range(0, len(said) - size + 1, size)]
    assert senders.returncode == -signal.SIGKILL
    with opened(tmp_path / "server") as again:
        assert again.absorb(confirmed).repeated == len(confirmed) >= confirmed_before
        tally = again.absorb(reports)
        assert tally.accepted + tally.repeated == len(reports)
        assert tally.accepted > 0  # it was killed in the middle
