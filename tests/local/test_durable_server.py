"""A server that goes on after its process has ended: same reports, same versions, refusals of anything else.

What kills, full disks and torn writes do to it is tested in tests/faults.
"""

import copy
import os
import pickle
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError, StateError
from dpbandits.local import (
    Client,
    DurableServer,
    GPSpec,
    ReportCounts,
    Server,
    SourceClient,
    SourceSpec,
    Spec,
)
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP, SimulatedNoise
from internals.server import learner

SPEC = Spec(
    domain=Box(low=[0], high=[1]),
    n_arms=2,
    privacy=LocalDP(epsilon=2.0),
    learner="tree",
    reports_per_version=6,
    seed=5,
)


def opened(folder, spec=SPEC):
    return DurableServer.open(spec, folder)


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
    assert replayed.server.totals == totals
    assert totals.accepted == 27


def test_it_is_the_plain_server(tmp_path):
    plain, durable = Server(SPEC), opened(tmp_path)
    for batch in range(8):
        policy = plain.publish()
        assert durable.publish().to_json(SPEC) == policy.to_json(SPEC)
        reports = [report_of(policy, x) for x in np.random.default_rng(batch).random(3)]
        junk = [b"", b"\x00" * 40, None, reports[0]]
        assert plain.absorb([*reports, *junk]) == durable.absorb([*reports, *junk])


def gp_spec():
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=SPEC.domain, n_features=4)
    return GPSpec(
        domain=SPEC.domain,
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
    other = Spec(domain=Box(low=[0], high=[1]), n_arms=3, privacy=LocalDP(epsilon=2.0))
    with pytest.raises(IncompatibleState):
        opened(tmp_path, other)


def test_versions_that_come_out_otherwise_are_refused(tmp_path):
    with opened(tmp_path) as server:
        serve(server, 3)
    changed = replace(SPEC, seed=6)
    changed.__dict__["digest"] = SPEC.digest  # a server that passes for this one, and draws otherwise
    with pytest.raises(IncompatibleState, match="comes out otherwise"):
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


# -- merging and attaching ---------------------------------------------------------------------------

TREE = Spec(
    domain=Box(low=[0], high=[1]),
    n_arms=2,
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
            with pytest.raises(ProtocolError, match="behind its log"):
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
        patch.setattr(Server, "absorb", interrupted)
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
