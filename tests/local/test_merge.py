"""Counts of shards add up to one process's, bit for bit; other lineages and repeated reports do not."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.domains import Box
from dpbandits.errors import (
    CorruptState,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    MissingExtra,
    ProtocolError,
)
from dpbandits.local import Client, PublishedArms, Server
from dpbandits.local.server.aggregation import (
    aggregate,
    read_counts,
    read_records,
    sums_digest,
    write_counts,
    write_reports,
)
from dpbandits.local.server.counting import ReportCounts
from dpbandits.privacy import LocalDP
from dpbandits.state import State, write_state
from flat import spec_with
from internals.server import counts as counts_of

BASE = spec_with(
    contexts=Box(low=[0, 0], high=[1, 1]),
    arms=range(3),
    privacy=LocalDP(epsilon=4.0),
    reports_per_version=60,
    mechanism="signed",
    learner="tree",
)


def crowd(spec=BASE, versions=3, size=60, seed=0):
    """Published versions and the reports that answer them, mixed."""
    server, rng, client = Server(spec), np.random.default_rng(seed), Client(spec, budget=1e9)
    policies, reports = [], []
    for _ in range(versions):
        policy, batch = server.publish(), []
        policies.append(policy)
        for context in rng.random((size, 2)):
            arm = client.choose(policy, context)
            batch.append(client.report(float(rng.random() < 0.3 + 0.2 * arm)))
        server.absorb(batch)
        reports += batch
    return policies, reports


POLICIES, REPORTS = crowd()


def counted(reports, spec=BASE, policies=POLICIES):
    counts = ReportCounts(spec, policies)
    counts.absorb(reports)
    return counts


def same(left, right):
    return sums_digest(left) == sums_digest(right)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=len(REPORTS), max_size=len(REPORTS)), st.permutations(range(4)))
def test_any_shards_in_any_order_add_up_to_one_process(shards, order):
    whole = counted(REPORTS)
    merged = ReportCounts(BASE, POLICIES)
    for shard in order:
        merged.merge(counted([r for r, s in zip(REPORTS, shards, strict=True) if s == shard]))
    assert same(merged, whole)
    assert merged.accepted == len(REPORTS)
    assert all(
        sums.dtype == np.int64 for v in merged.versions.values() for sums in v.sums if sums is not None
    )


def test_a_server_that_merges_publishes_what_one_that_absorbs_does():
    alone, merging = Server(BASE), Server(BASE)
    for policy in POLICIES:
        batch = [r for r in REPORTS if int.from_bytes(r[5:9], "little") == policy.version]
        for server in (alone, merging):
            assert server.publish().to_json(BASE) == policy.to_json(BASE)
        alone.absorb(batch)
        shards = [counted(batch[:20]), counted(batch[20:])]
        assert [merging.merge(shard) for shard in shards] == [20, 40]
        assert merging.absorb(batch[:5]).repeated == 5
    assert alone.publish().to_json(BASE) == merging.publish().to_json(BASE)
    assert merging.totals.accepted == alone.totals.accepted == len(REPORTS)


def test_counts_of_another_lineage_are_refused_and_change_nothing():
    whole = counted(REPORTS[:60])
    before = sums_digest(whole)
    other = replace(BASE, seed=5)
    policies, reports = crowd(other)
    with pytest.raises(IncompatibleState, match="another spec"):
        whole.merge(counted(reports, other, policies))
    # same spec, same version number, another policy: a server that heard other reports
    changed = replace(POLICIES[1], arms=(POLICIES[1].arms + 1) % 3)
    with pytest.raises(IncompatibleState, match="lineage"):
        whole.merge(counted(REPORTS[60:], policies=[POLICIES[0], changed, POLICIES[2]]))
    with pytest.raises(IncompatibleState, match="lineage"):
        whole.open(changed)
    assert sums_digest(whole) == before


def test_a_version_that_is_not_open_is_refused():
    late = ReportCounts(BASE, POLICIES[:1])
    with pytest.raises(IncompatibleState, match="lineage"):
        late.merge(counted(REPORTS))


def test_a_report_in_two_shards_is_refused_and_changes_nothing():
    left, right = counted(REPORTS[:50]), counted(REPORTS[49:])
    before = sums_digest(left)
    with pytest.raises(ProtocolError, match="both"):
        left.merge(right)
    assert sums_digest(left) == before


def test_counts_survive_arrays_and_files(tmp_path):
    whole = counted(REPORTS)
    assert same(ReportCounts.from_arrays(BASE, POLICIES, whole.to_arrays()), whole)
    write_counts(tmp_path / "counts.state", whole)
    again = read_counts(tmp_path / "counts.state")
    assert same(again, whole)
    assert again.spec == BASE
    arrays = whole.to_arrays()
    with pytest.raises(IncompatibleState):
        ReportCounts.from_arrays(BASE, POLICIES[:1], arrays)
    for bad in (
        {"0/0/sums": arrays["0/0/sums"][:, :0]},
        {"0/7/sums": arrays["0/0/sums"]},
        {"0/0/sums": arrays["0/0/sums"] + 0.5},
        {"0/n": -arrays["0/n"]},
        {"0/n": 0 * arrays["0/n"]},
        {"0/x/sums": arrays["0/0/sums"]},
        {"sums": arrays["0/0/sums"]},
        {"nonces": arrays["nonces"][:-1]},  # a report without a nonce
        {"nonces": np.repeat(arrays["nonces"][:1], len(arrays["nonces"]))},
        {"0/n": arrays["0/n"] + 1},
        {"0/0/sums": arrays["0/0/sums"] + 2**62},
        {"\N{SUPERSCRIPT TWO}/n": arrays["0/n"]},
        {"9" * 5000 + "/n": arrays["0/n"]},
        {"0/\N{SUPERSCRIPT TWO}/sums": arrays["0/0/sums"]},
    ):
        with pytest.raises(IncompatibleState):
            ReportCounts.from_arrays(BASE, POLICIES, arrays | bad)


def test_counts_without_nonces_do_not_vanish_in_a_merge():
    arrays = counted(REPORTS).to_arrays()
    del arrays["nonces"]
    with pytest.raises(IncompatibleState, match="nonces"):
        ReportCounts.from_arrays(BASE, POLICIES, arrays)


@pytest.mark.parametrize(
    "public", [{}, {"spec": 7, "published": []}, {"spec": BASE.to_json(), "published": 3}]
)
def test_a_forged_counts_file_is_refused_with_the_library_s_own_error(tmp_path, public):
    state = State(kind="local.report_counts", version=1, lineage="a", position=0, public=public)
    write_state(tmp_path / "counts.state", state)
    with pytest.raises(IncompatibleState):
        read_counts(tmp_path / "counts.state")


def test_files_with_reports_that_the_server_has_are_counted_without_them(tmp_path):
    """One report sent both ways must not keep all the others out."""
    server, whole = Server(BASE), Server(BASE)
    first = [r for r in REPORTS if r[5:9] == bytes(4)]
    assert server.absorb(first[:2]).accepted == 2
    write_reports(tmp_path / "a", first[:30])
    write_reports(tmp_path / "b", [*first[30:], first[3]])
    paths = [tmp_path / "a", tmp_path / "b"]
    counts, _ = aggregate(paths, BASE, server.open_versions)
    with pytest.raises(ProtocolError, match="without"):
        server.merge(counts)
    counts, tally = aggregate(paths, BASE, server.open_versions, without=server.nonces())
    assert (tally.accepted, tally.repeated) == (58, 3)
    assert server.merge(counts) == 58
    whole.absorb(first)
    assert same(counts_of(server), counts_of(whole))


def test_the_command_leaves_out_what_was_counted_before(tmp_path):
    paths, contract = files_of(tmp_path), contract_files(tmp_path)
    write_counts(tmp_path / "before", counted(REPORTS[:10]))
    arguments = [
        "local",
        "aggregate",
        *map(str, paths),
        *contract,
        "--without",
        str(tmp_path / "before"),
        "--json",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["accepted"] == len(REPORTS) - 10


def test_the_command_says_how_odd_the_reports_are(tmp_path):
    """Honest ones are above 5 with probability below 1e-6 (fixed seeds); forgers who say all are above it."""
    last = POLICIES[-1]
    everything = len(last.splits) + 1
    plane = np.packbits(np.ones(everything, dtype=np.uint8)).tobytes()
    head = REPORTS[-1][:9]
    forged = [head + (10**6 + k).to_bytes(8, "little") + plane + bytes(len(plane)) for k in range(60)]
    anomalies = []
    for name, reports in (("honest", REPORTS[-60:]), ("forged", forged)):
        path = tmp_path / f"{name}.reports"
        write_reports(path, reports)
        result = CliRunner().invoke(
            app, ["local", "aggregate", str(path), *contract_files(tmp_path), "--json"]
        )
        assert result.exit_code == 0, result.output
        values = json.loads(result.output)
        assert values["accepted"] == 60
        anomalies.append(values["anomaly"])
        assert values["anomaly"] == pytest.approx(counted(reports).anomaly, abs=0.01)
    assert anomalies[0] < 5 < anomalies[1]


def files_of(folder, *, repeats=True):
    """Five files: a report sent twice within a file, across files, and forged ones."""
    parts = [REPORTS[:40], REPORTS[40:90], REPORTS[90:91], REPORTS[91:170], REPORTS[170:]]
    if repeats:
        forged = REPORTS[0][:17] + REPORTS[1][17:]  # another payload under a nonce that the first file has
        noise = bytes(len(REPORTS[0]))
        extra = [[REPORTS[3]], [REPORTS[60], REPORTS[5], noise], [REPORTS[91]], [forged, REPORTS[100]], []]
        parts = [part + more for part, more in zip(parts, extra, strict=True)]
    paths = []
    for index, part in enumerate(parts):
        for length in sorted({len(report) for report in part}):
            path = folder / f"{index}-{length}.reports"
            write_reports(path, [report for report in part if len(report) == length])
            paths.append(path)
    return paths


def one_process(paths):
    counts = ReportCounts(BASE, POLICIES)
    tally = counts.absorb([])
    for path in paths:
        tally.add(counts.absorb([row.tobytes() for row in np.asarray(read_records(path)[0])]))
    return counts, tally


@pytest.mark.parametrize("repeats", [False, True])
def test_files_counted_apart_are_one_process(tmp_path, repeats):
    paths = files_of(tmp_path, repeats=repeats)
    counts, tally = aggregate(paths, BASE, POLICIES)
    whole, expected = one_process(paths)
    assert same(counts, whole)
    assert tally == expected
    assert tally.accepted == len(REPORTS)
    assert tally.repeated == (6 if repeats else 0)


def test_torn_and_foreign_files(tmp_path):
    write_reports(tmp_path / "a", REPORTS[:7])
    torn = tmp_path / "torn"
    torn.write_bytes((tmp_path / "a").read_bytes()[:-3])
    counts, tally = aggregate([torn], BASE, POLICIES)
    assert (counts.accepted, tally.malformed) == (6, 1)
    (tmp_path / "text").write_text("no reports here, but long enough")
    with pytest.raises(CorruptState):
        aggregate([tmp_path / "text"], BASE, POLICIES)
    with pytest.raises(InvalidData):
        write_reports(tmp_path / "mixed", [b"x" * 20, b"y" * 21])
    with pytest.raises(FileExistsError):
        write_reports(tmp_path / "a", REPORTS[:7])
    assert aggregate([], BASE, POLICIES)[0].accepted == 0


def test_no_cluster_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtra, match="cluster"):
        aggregate([], BASE, POLICIES, cluster="tcp://127.0.0.1:1")


@pytest.mark.parametrize("cluster", [5, b"tcp://127.0.0.1:1", ["local:2"]])
def test_a_cluster_of_another_kind_is_refused(cluster):
    with pytest.raises(InvalidParameter, match="cluster"):
        aggregate([], BASE, POLICIES, cluster=cluster)


@pytest.mark.filterwarnings("default")
def test_what_workers_raise_is_raised_here_and_written_nowhere_else(tmp_path, capfd):
    pytest.importorskip("distributed")
    (tmp_path / "text").write_text("somebody's secret")
    with pytest.raises(CorruptState):
        aggregate([tmp_path / "text"], BASE, POLICIES, cluster="local:1")
    written = capfd.readouterr()
    assert not written.out
    assert "Traceback" not in written.err
    assert "CorruptState" not in written.err


def contract_files(folder):
    (folder / "spec.json").write_text(BASE.to_json())
    (folder / "policies.jsonl").write_text("\n".join(policy.to_json(BASE) for policy in POLICIES))
    return ["--spec", str(folder / "spec.json"), "--published", str(folder / "policies.jsonl")]


def test_the_command_counts_files(tmp_path):
    paths, contract = files_of(tmp_path), contract_files(tmp_path)
    arguments = ["local", "aggregate", *map(str, paths), *contract, "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.output)
    whole, tally = one_process(paths)
    anomaly = pytest.approx(whole.anomaly, abs=0.01)
    assert printed == vars(tally) | {"files": len(paths), "digest": sums_digest(whole), "anomaly": anomaly}
    assert same(read_counts(tmp_path / "out"), whole)


@pytest.mark.filterwarnings("default")
def test_a_two_worker_cluster_is_one_process_bit_for_bit(tmp_path):
    distributed = pytest.importorskip("distributed")
    paths = files_of(tmp_path)
    whole, expected = one_process(paths)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc://"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        counts, tally = aggregate(paths, BASE, POLICIES, cluster=client)
    assert same(counts, whole)
    assert tally == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_two_worker_processes_by_address_through_the_command(tmp_path):
    distributed = pytest.importorskip("distributed")
    paths, contract = files_of(tmp_path), contract_files(tmp_path)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        arguments = ["local", "aggregate", *map(str, paths), *contract, "--json"]
        result = CliRunner().invoke(app, [*arguments, "--cluster", cluster.scheduler_address])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["digest"] == sums_digest(one_process(paths)[0])


def test_policies_of_another_spec_are_refused():
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(POLICIES[0].to_json(BASE), replace(BASE, seed=9))
