"""What forgers achieve together is bounded: secret groups, medians, surprise; and a number shows them."""

import itertools
import pickle
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dpbandits.domains import Box
from dpbandits.errors import CorruptState, IncompatibleState, InvalidParameter
from dpbandits.local import (
    Client,
    DurableServer,
    ReportCounts,
    Robust,
    Server,
    aggregate,
)
from dpbandits.local.learners.base import combined_estimate, grouped_estimate, raised_variance
from dpbandits.local.server.aggregation import read_counts, sums_digest, write_counts, write_reports
from dpbandits.privacy import LocalDP
from dpbandits.privacy.reports import MECHANISMS, mechanism
from flat import changed, spec_with
from internals.server import learner, snapshot_every
from reproduction.forgers import strongest

SPEC = spec_with(
    contexts=Box(low=[0], high=[1]),
    arms=range(2),
    privacy=LocalDP(epsilon=2.0),
    mechanism="signed",
    reports_per_version=40,
    max_leaves=4,
    learner="tree",
    seed=5,
)
ROBUST = Robust(bytes(range(32)), groups=5)
FINITE = ("signed", "oue", "hadamard", "krr")


def reports_to(published, n, spec=SPEC, seed=0):
    client, rng, out = Client(spec, budget=1e9), np.random.default_rng(seed), []
    for x in rng.random(n):
        client.choose(published, [x])
        out.append(client.report(float(x > 0.5)))
    return out


def counted(published, reports, robust=ROBUST, spec=SPEC):
    counts = ReportCounts(spec, [published], robust=robust)
    counts.absorb(reports)
    return counts


PUBLISHED = Server(SPEC).publish()
REPORTS = reports_to(PUBLISHED, 200)


# -- groups -------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2), min_size=len(REPORTS), max_size=len(REPORTS)))
def test_shards_of_one_secret_add_up_to_one_process(shards):
    whole, merged = counted(PUBLISHED, REPORTS), ReportCounts(SPEC, [PUBLISHED], robust=ROBUST)
    for shard in range(3):
        merged.merge(counted(PUBLISHED, [r for r, s in zip(REPORTS, shards, strict=True) if s == shard]))
    assert sums_digest(merged) == sums_digest(whole)
    assert len(whole.versions[0].n) == 5


def test_groups_are_the_sums_of_no_groups_and_others_for_another_secret():
    plain, whole = counted(PUBLISHED, REPORTS, None), counted(PUBLISHED, REPORTS)
    assert sum(whole.versions[0].n) == 200
    assert np.array_equal(sum(whole.versions[0].sums), plain.versions[0].sums[0])
    other = counted(PUBLISHED, REPORTS, Robust(bytes(32), groups=5))
    assert sums_digest(other) != sums_digest(whole)
    for wrong in (other, plain):
        with pytest.raises(IncompatibleState, match="other groups"):
            whole.merge(wrong)


def test_files_are_grouped_as_the_server_groups(tmp_path):
    write_reports(tmp_path / "a", REPORTS[:120])
    write_reports(tmp_path / "b", REPORTS[100:])  # twenty lie in both
    counts, _ = aggregate([tmp_path / "a", tmp_path / "b"], SPEC, [PUBLISHED], robust=ROBUST)
    assert sums_digest(counts) == sums_digest(counted(PUBLISHED, REPORTS))
    write_counts(tmp_path / "counts", counts)
    assert sums_digest(read_counts(tmp_path / "counts", robust=ROBUST)) == sums_digest(counts)
    for wrong in (None, Robust(bytes(32), groups=5), Robust(bytes(range(32)), groups=3)):
        with pytest.raises(IncompatibleState, match="other groups"):
            read_counts(tmp_path / "counts", robust=wrong)


def test_nobody_chooses_a_group_by_the_nonce():
    """Reports whose nonces are alike in all but one byte, and divide by every number of groups, spread.

    One of thirteen groups would get none of 400 reports once in 1e12 runs.
    """
    step = 3 * 5 * 7 * 11 * 13
    for groups in (3, 5, 7, 11, 13):
        robust = Robust(bytes(range(32)), groups=groups)
        made = [
            report[:9] + (step * groups * (k + 1)).to_bytes(8, "little") + report[17:]
            for k, report in enumerate(2 * REPORTS)
        ]
        n = np.array(counted(PUBLISHED, made, robust).versions[0].n)
        assert n.min() > 0
        assert n.sum() == 400


def test_a_group_depends_on_every_byte_and_the_secret():
    records = np.frombuffer(b"".join(REPORTS), dtype=np.uint8).reshape(len(REPORTS), -1)
    groups = ROBUST.group_of(records)
    assert np.array_equal(groups, Robust(bytes(range(32)), groups=5).group_of(records))
    assert not np.array_equal(groups, Robust(bytes(range(1, 33)), groups=5).group_of(records))
    for place in range(records.shape[1]):
        changed = records.copy()
        changed[:, place] ^= 1
        assert not np.array_equal(groups, ROBUST.group_of(changed))


def test_reports_of_one_group_alone_still_count_by_class():
    spec = replace(SPEC, epsilons=(1.0, 2.0))
    published, clients = (
        Server(spec).publish(),
        [Client(spec, privacy=LocalDP(epsilon=e), budget=1e9) for e in (1, 2)],
    )
    reports = []
    for k in range(60):
        clients[k % 2].choose(published, [k / 60])
        reports.append(clients[k % 2].report(1.0))
    counts, plain = counted(published, reports, spec=spec), counted(published, reports, None, spec)
    n = np.array(counts.versions[0].n).reshape(5, 2)
    assert np.array_equal(n.sum(axis=0), plain.versions[0].n)
    taken = counts.versions[0].take()
    assert len(taken) == 5
    assert [sum(n for _, _, n in parts) for parts in taken] == n.sum(axis=1).tolist()


# -- medians ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [3, 5, 7])
def test_forgers_in_fewer_than_half_of_the_groups_stay_within_the_honest_ones(groups):
    one, rng = mechanism("signed", n_cells=4, epsilon=1.0), np.random.default_rng(1)
    honest = [one.simulate(*rng.integers(1, 9, (2, 4)), rng) for _ in range(groups)]
    n = [40] * groups
    forged = one.aggregate(np.frombuffer(bytes([0xF0, 0]) * 40, np.uint8).reshape(40, 2))  # + in every cell
    for bad in itertools.combinations(range(groups), groups // 2):
        sums = [forged if k in bad else honest[k] for k in range(groups)]
        signed, count, total, _ = grouped_estimate([[(one, s, m)] for s, m in zip(sums, n, strict=True)])
        good = [combined_estimate([(one, honest[k], 40)]) for k in range(groups) if k not in bad]
        for place, found in enumerate((signed, count)):
            means = np.array([each[place] for each in good]) / 40
            assert (found / total >= means.min(axis=0) - 1e-12).all()
            assert (found / total <= means.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize("groups", [3, 9, 15])
def test_the_moments_say_what_a_median_costs(groups):
    """Ten thousand medians of sums of 50 reports; six standard errors are one chance in a billion."""
    one, rng = mechanism("signed", n_cells=2, epsilon=1.0), np.random.default_rng(2)
    n, runs = 50, 10_000
    a, b, theta = map(float, one.rates)
    draws = rng.choice([1.0, -1.0, 0.0], p=[theta, theta, 1 - 2 * theta], size=(runs, groups * n))
    means = (draws / (a - b)).reshape(runs, groups, n).mean(axis=2)
    variance = np.median(means, axis=1).var() * groups * n
    sums = np.zeros((2, 2), dtype=np.int64)
    moments = grouped_estimate([[(one, sums, n)] for _ in range(groups)])[3]
    assert variance == pytest.approx(moments.signed_other, rel=6 * np.sqrt(2 / runs))
    assert moments.signed_other > one.moments.signed_other


# -- surprise -----------------------------------------------------------------------------------------


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.floats(0.5, 10.0))
def test_an_update_moves_a_belief_by_so_many_of_its_deviations_at_most(noise, belief, error, surprise):
    told = {"belief": np.array(belief), "error": np.array(error), "surprise": surprise}
    variance = float(raised_variance(np.array(noise), **told))
    assert variance >= noise
    assert abs(error) * belief / (belief + variance) <= surprise * np.sqrt(belief) * (1 + 1e-9)
    if error**2 <= surprise**2 * (belief + noise):
        assert variance == noise


@pytest.mark.parametrize("name", ["tree", "smooth"])
def test_a_flood_moves_what_is_believed_no_farther_than_its_surprise(name):
    spec = replace(SPEC, learner=name)
    moved = {}
    for robust in (None, Robust(bytes(32), surprise=2.0)):
        server = Server(spec, robust=robust)
        published = server.publish()
        mean, variance = learner(server).posterior()
        report = reports_to(published, 1, spec)[0]
        # one cell, always +: 2,000 reports that a device could have sent
        flood = [report[:9] + k.to_bytes(8, "little") + bytes([0x80, 0]) for k in range(2000)]
        assert server.absorb(flood).accepted == 2000
        server.publish()
        after, _ = learner(server).posterior()
        arm = published.arms[0]
        moved[robust is None] = abs(after[:, arm] - mean[0, arm]).max() / np.sqrt(variance[0, arm])
    assert moved[False] <= 2.0
    assert moved[True] > 2.0


def test_a_flood_of_answers_moves_a_question_no_farther_either():
    """What is believed in every cell of the grid: before lengths are learned, a Gaussian update."""
    spec = changed(SPEC, mechanism="auto", learner="questions", constants={"parts": 1.0})
    moved = {}
    for robust in (None, Robust(bytes(32), surprise=0.5)):
        server = Server(spec, robust=robust)
        published, before = server.publish(), server.estimate()
        report = reports_to(published, 1, spec)[0]
        flood = [report[:9] + k.to_bytes(8, "little") + report[17:] for k in range(400)]
        assert server.absorb(flood).accepted == 400
        server.publish()
        moved[robust is None] = (np.abs(server.estimate().mean - before.mean) / before.sd).max()
    assert moved[False] <= 0.5 + 1e-9
    assert moved[True] > 0.5


# -- the weight of a report ---------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_one_bit_and_sixteen_signed_bins_weigh_what_the_mechanism_gives(epsilon):
    """One bit: (e^epsilon + 1)/(e^epsilon - 1). Every bin's sign: enumerated over payloads elsewhere."""
    grown = np.exp(epsilon)
    bit = changed(SPEC, privacy=LocalDP(epsilon=epsilon), mechanism="krr", max_leaves=1)
    assert bit.protocol.weight == pytest.approx((grown + 1) / (grown - 1), rel=1e-8)
    many = changed(SPEC, privacy=LocalDP(epsilon=epsilon), mechanism="signed", max_leaves=16)
    a, b, _ = many.protocol.mechanism_for(16).rates
    assert many.protocol.weight == pytest.approx(float(16 / Fraction(a - b)), rel=1e-12)
    if epsilon == 1.0:
        assert many.protocol.weight == pytest.approx(39.2, abs=0.1)
    said = " ".join(many.statement().annex().split())
    found = float(re.search(r"as far as ([\d.,]+) honest people", said)[1].replace(",", ""))
    assert many.protocol.weight <= found <= 1.03 * many.protocol.weight


def test_the_largest_class_counts_and_diagnostics_say_the_current_version():
    spec = replace(SPEC, epsilons=(0.5, 2.0))
    assert spec.protocol.weight == replace(SPEC, privacy=LocalDP(epsilon=0.5)).protocol.weight
    shown = Server(SPEC).diagnostics()
    assert shown["weight"] == SPEC.protocol.mechanism_for(1).weights[1] < SPEC.protocol.weight


# -- anomalies ----------------------------------------------------------------------------------------


def payloads(one):
    """All valid ones of a mechanism with few cells."""
    every = np.array(list(itertools.product(range(256), repeat=one.report_bytes)), dtype=np.uint8)
    return [row.tobytes() for row in every[one.valid(every)]]


@pytest.mark.parametrize("n_cells", [1, 2, 3])
@pytest.mark.parametrize("name", ["signed", "oue", "hadamard"])
def test_the_excess_of_an_honest_report_has_mean_zero_and_its_variance(name, n_cells):
    """Exactly, over all payloads, for every input."""
    one = mechanism(name, n_cells=n_cells, epsilon=1.0)
    every = payloads(one)
    found = [one.excess(one.aggregate(np.frombuffer(p, np.uint8)[None]), 1) for p in every]
    for cell, positive in itertools.product(range(n_cells), (True, False)):
        chances = np.array([float(one.likelihood(p, cell, positive=positive)) for p in every])
        values = np.array([value for value, _ in found])
        assert chances @ values == pytest.approx(0.0, abs=1e-9)
        assert chances @ values**2 == pytest.approx(found[0][1], rel=1e-9)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_no_honest_crowd_looks_forged(name):
    """All in one cell, in one sign, or spread: 30 crowds each; 6 deviations are one chance in a billion.

    The statistic of `krr` is a sum of half chi squares, with a longer tail: 10.
    """
    rng, most = np.random.default_rng(3), {"krr": 10.0}.get(name, 6.0)
    for n_cells in (1, 2, 8):
        one = mechanism(name, n_cells=n_cells, epsilon=1.0)
        alone, spread, none = (
            np.zeros(n_cells, dtype=int),
            np.full(n_cells, 4000 // n_cells),
            np.zeros(n_cells, int),
        )
        alone[0] = 4000
        for crowd in ((alone, none), (none, alone), (spread, none), (spread // 2, spread // 2)):
            n = int(sum(crowd).sum())
            for _ in range(10):
                excess, variance = one.excess(one.simulate(*crowd, rng), n)
                assert excess <= most * np.sqrt(variance)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("n", [100, 1000])
def test_how_often_a_crowd_who_all_answer_alike_looks_odd(n, epsilon):
    """As `Server.diagnostics` says of one bit, exactly; of several versions Chernoff's bound says it."""
    bit = mechanism("krr", n_cells=1, epsilon=epsilon)
    law = binom.pmf(np.arange(n + 1), n, float(bit.rates[1]))
    found = np.array([bit.excess(np.array([n - lies, lies]), n)[0] for lies in range(n + 1)])
    spread = np.sqrt(bit.excess(np.array([n, 0]), n)[1])
    assert 1e-3 < law[found > 5.0 * spread].sum() < 8.1e-3
    assert law[found > 20.0 * spread].sum() < 1e-6
    rates = np.linspace(0.01, 0.49, 100)
    moments = np.log(np.exp(rates[:, None] * found) @ law)
    for versions in (2, 10, 32, 400):
        assert (versions * moments - rates * 20.0 * spread * np.sqrt(versions)).min() < np.log(1.1e-6)


def test_forgers_who_fill_every_cell_show_and_those_who_send_a_bit_do_not():
    """5% of 40,000, in 16 cells; of one bit the page says that nothing shows."""
    rng = np.random.default_rng(4)
    one = mechanism("signed", n_cells=16, epsilon=1.0)
    wanted = np.where(np.arange(16) < 5, 1.0, -1.0)
    sums = one.simulate(np.full(16, 1500), np.full(16, 875), rng) + strongest(one, wanted, 2000, rng)
    excess, variance = one.excess(sums, 40_000)
    assert excess > 8.0 * np.sqrt(variance)
    bit = mechanism("krr", n_cells=1, epsilon=1.0)
    told = bit.simulate(np.array([22_000]), np.array([16_000]), rng) + strongest(bit, np.ones(1), 2000, rng)
    excess, variance = bit.excess(told, 40_000)
    assert excess < np.sqrt(variance)
    # where nobody honest is, and every report says the opposite, even a bit shows
    excess, variance = bit.excess(strongest(bit, np.ones(1), 4000, rng), 4000)
    assert excess > 8.0 * np.sqrt(variance)


def test_a_strongest_report_is_one_that_weighs_most():
    rng = np.random.default_rng(0)
    for name in ("signed", "krr"):
        one = mechanism(name, n_cells=5, epsilon=1.0)
        wanted = np.array([1.0, -1.0, -1.0, 1.0, 1.0])
        sums = strongest(one, wanted, 50, rng)
        assert one.possible(sums, 50)
        assert one.estimate(sums, 50)[0] @ wanted == pytest.approx(50 * one.weights[1], rel=1e-9)


def test_a_server_shows_the_operator_and_keeps_it():
    """Devices draw their own noise: an honest crowd has six deviations once in 4e8 runs, two sides."""
    server = Server(changed(SPEC, max_leaves=1))
    published = server.publish()
    server.absorb(reports_to(published, 300, server.spec))
    server.publish()
    honest = server.diagnostics()
    assert abs(honest["anomaly"]) < 6
    report = reports_to(server.publish(), 1, server.spec)[0]
    server.absorb([report[:9] + k.to_bytes(8, "little") + bytes([0x80, 0]) for k in range(1, 4000)])
    server.publish()
    shown = server.diagnostics()
    assert shown["anomaly"] > 6
    assert shown["recent_anomaly"] > 6
    assert Server.restore(server.spec, server.to_arrays()).diagnostics() == shown


# -- a folder -----------------------------------------------------------------------------------------


def test_a_folder_keeps_its_bounds_and_is_the_same_server_again(tmp_path, monkeypatch):
    alone = Server(SPEC, robust=ROBUST)
    with DurableServer.open(SPEC, tmp_path / "a", least_open=0.0, robust=ROBUST) as server:
        for step in range(3):
            published = server.publish()
            assert alone.publish().to_json(SPEC) == published.to_json(SPEC)
            reports = reports_to(published, 60, seed=step)
            alone.absorb(reports[:40])
            server.absorb(reports[:40])
            alone.merge(counted(published, reports[40:]))
            server.merge(counted(published, reports[40:]))
    for every in (1000, 1):
        snapshot_every(monkeypatch, every)
        with DurableServer.open(SPEC, tmp_path / "a", least_open=0.0) as server:
            assert server.server.robust.mark == ROBUST.mark
            late = reports_to(server.publish(), 1, seed=50 + every)
            alone.publish()
            assert server.absorb(late).accepted == alone.absorb(late).accepted == 1
    mine, other = alone.to_arrays(), server.server.to_arrays()
    assert all(np.array_equal(mine[name], other[name]) for name in mine if name != "numbers")
    with DurableServer.open(SPEC, tmp_path / "a", least_open=0.0, robust=ROBUST) as server:
        assert server.server.totals.accepted == 182
    with pytest.raises(IncompatibleState, match="other bounds"):
        DurableServer.open(SPEC, tmp_path / "a", robust=Robust(bytes(32), groups=5))
    for folder in ("a", "new"):
        with pytest.raises(InvalidParameter, match="robust"):
            DurableServer.open(SPEC, tmp_path / folder, robust="secret")


def test_a_folder_without_its_bounds_is_refused_and_one_that_has_none_takes_none(tmp_path):
    DurableServer.open(SPEC, tmp_path / "a", robust=ROBUST).close()
    kept = (tmp_path / "a" / "robust.json").read_bytes()
    (tmp_path / "a" / "robust.json").unlink()
    with pytest.raises(IncompatibleState, match="another subject"):
        DurableServer.open(SPEC, tmp_path / "a")
    for torn in (b"", kept[:40], kept.replace(b"5", b"6"), b"[]"):
        (tmp_path / "a" / "robust.json").write_bytes(torn)
        with pytest.raises((CorruptState, IncompatibleState)):
            DurableServer.open(SPEC, tmp_path / "a")
    (tmp_path / "a" / "robust.json").write_bytes(kept)
    DurableServer.open(SPEC, tmp_path / "a").close()
    DurableServer.open(SPEC, tmp_path / "b").close()
    with pytest.raises(IncompatibleState, match="or with none"):
        DurableServer.open(SPEC, tmp_path / "b", robust=ROBUST)


def test_a_crash_before_the_first_record_leaves_nothing_to_stumble_over(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir(mode=0o700)
    (folder / "robust.json").write_bytes(b"torn")
    with DurableServer.open(SPEC, folder) as server:
        assert server.server.robust is None
    assert not (folder / "robust.json").exists()


def test_a_folder_that_lost_its_log_keeps_its_secret(tmp_path):
    """Whoever puts the log back finds what its reports were grouped by."""
    DurableServer.open(SPEC, tmp_path / "a", robust=ROBUST).close()
    log = (tmp_path / "a" / "reports.log").read_bytes()
    (tmp_path / "a" / "reports.log").unlink()
    for robust in (None, Robust(bytes(32))):
        with pytest.raises((CorruptState, IncompatibleState)):
            DurableServer.open(SPEC, tmp_path / "a", robust=robust)
    (tmp_path / "a" / "reports.log").write_bytes(log)
    with DurableServer.open(SPEC, tmp_path / "a") as server:
        assert server.server.robust.mark == ROBUST.mark


# -- what is shown, and what is refused ----------------------------------------------------------------


def test_the_secret_is_nowhere_but_in_its_file(tmp_path):
    secret = b"\x7fa secret of thirty-two bytes...."
    robust = Robust(secret, groups=3)
    server = Server(SPEC, robust=robust)
    published = server.publish()
    server.absorb(reports_to(published, 50))
    seen = [
        repr(robust),
        repr(server),
        server.guarantee.explain(),
        published.to_json(SPEC),
        str(server.diagnostics()),
    ]
    seen += [str({k: v.tobytes() for k, v in server.to_arrays().items()})]
    write_counts(tmp_path / "counts", counted(published, REPORTS, robust))
    told = " ".join(seen).encode() + (tmp_path / "counts").read_bytes()
    assert secret.hex().encode() not in told
    assert secret not in told
    assert repr(secret)[2:-1].encode() not in told
    # workers of a cluster are told it
    assert pickle.loads(pickle.dumps(robust)).mark == robust.mark  # noqa: S301


@pytest.mark.parametrize(
    "call",
    [
        lambda: Robust(b"short"),
        lambda: Robust("k" * 32),
        lambda: Robust(bytes(32), groups=2),
        lambda: Robust(bytes(32), groups=17),
        lambda: Robust(bytes(32), groups=0),
        lambda: Robust(bytes(32), surprise=0.0),
        lambda: Server(SPEC, robust=bytes(32)),
        lambda: ReportCounts(SPEC, robust=5),
    ],
)
def test_natural_mistakes_are_answered_by_a_message(call):
    with pytest.raises(InvalidParameter, match=r"expected|at least|at most"):
        call()
