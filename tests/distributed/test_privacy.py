"""Exact laws of small cases, and what one aggregator sees: never more than epsilon."""

import math
from itertools import combinations, product

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.audit.bounds import event_bound
from dpbandits.distributed import DistributedSpec, IdealAggregation, Report
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.privacy.definitions import DistributedDP, from_config
from dpbandits.privacy.histogram import ReportHistogram


def small(epsilon=1.0, **more):
    return DistributedSpec(
        contexts=dpb.Schema(x=dpb.Range(0, 1)),
        arms=["a", "b"],
        privacy=DistributedDP(epsilon=epsilon, **more),
        horizon=100,
        tuning=dpb.distributed.DistributedTuning(cells=2, min_batch=2),
    )


def law(rate, window):
    """Probabilities of the noise from -window to window."""
    steps = np.abs(np.arange(-window, window + 1))
    return (1.0 - math.exp(-rate)) / (1.0 + math.exp(-rate)) * np.exp(-rate * steps)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("k", [1, 3])
def test_the_largest_ratio_over_all_reports_and_outcomes_is_a_reports_share_of_epsilon(epsilon, k):
    # Beyond the window the ratio of two Laplace laws is constant, so the window has the largest one.
    histogram = ReportHistogram(length=3, privacy=DistributedDP(epsilon=epsilon, reports_per_user=k))
    others, window = histogram.counted(np.array([1, 2, 2])), 5
    logs, worst = np.log(law(histogram.rate, 3 * window)), 0.0
    sums = [others + histogram.counted(np.array([bucket])) for bucket in range(3)]
    outcomes = np.array(list(product(range(-1, window), repeat=3)))
    for one, two in combinations(sums, 2):
        seen = [logs[outcomes - exact + 3 * window].sum(axis=1) for exact in (one, two)]
        worst = max(worst, np.abs(seen[0] - seen[1]).max())
    assert worst <= epsilon / k + 1e-12
    assert worst == pytest.approx(epsilon / k, rel=1e-9)


def test_one_aggregators_noise_suffices_and_the_other_ones_helps_nobody_to_attack():
    """The law of (own noise, released sum) is the law of own noise times that of the sum with one noise."""
    histogram = ReportHistogram(length=2, privacy=DistributedDP(epsilon=1.0))
    noise = law(histogram.rate, 40)
    own, honest = np.meshgrid(np.arange(81) - 40, np.arange(81) - 40, indexing="ij")
    joint = noise[own + 40] * noise[honest + 40]
    for exact in (0, 1):  # one bucket of two neighbours
        view = {}
        for mine, other, chance in zip(own.ravel(), honest.ravel(), joint.ravel(), strict=True):
            view[mine, exact + mine + other] = chance
        for (mine, released), chance in view.items():
            assert chance == noise[mine + 40] * noise[released - mine - exact + 40]


def test_noise_has_the_stated_law_and_variance():
    histogram = ReportHistogram(length=60_000, privacy=DistributedDP(epsilon=1.0))
    drawn = histogram.noise(dpb.SimulatedNoise(5))
    # six standard errors; the fourth moment of a Laplace law is six times the squared variance
    half = histogram.noise_variance / 2.0
    assert abs(np.mean(drawn**2) - half) < 6.0 * half * math.sqrt(5.0 / len(drawn))
    expected = law(histogram.rate, 3)
    for value in range(-3, 4):
        chance = expected[value + 3]
        error = math.sqrt(chance * (1.0 - chance) / len(drawn))
        assert abs(np.mean(drawn == value) - chance) < 6.0 * error


def test_the_view_of_one_aggregator_has_the_honest_noise_alone():
    spec = small()
    aggregation = IdealAggregation(spec, noise=dpb.SimulatedNoise(1))
    aggregation.upload_buckets(0, np.array([0, 0, 3, spec.silent]))
    released = aggregation.collect(0)
    exact = spec.histogram.counted(np.array([0, 0, 3, spec.silent]))
    source = dpb.SimulatedNoise(1)
    noises = [spec.histogram.noise(source) for _ in range(2)]
    assert not np.array_equal(*noises)
    assert np.array_equal(released.sums, exact + sum(noises))
    for aggregator in (0, 1):
        view = aggregation.unsafe_view(0, aggregator=aggregator)
        assert np.array_equal(view, exact + noises[1 - aggregator])


def test_an_attack_on_one_aggregators_view_finds_no_more_than_epsilon():
    """Attack by the likelihood ratio on 20,480 people, each alone in a cell; false alarms below 1e-9.

    Neighbours differ in one person's reward. With the noise of a cell's two buckets, each person is a
    separate observation.
    """
    spec = DistributedSpec(
        contexts=dpb.Schema(x=dpb.Range(0, 1)),
        arms=["a", "b"],
        privacy=DistributedDP(epsilon=2.0),
        horizon=1024,
        tuning=dpb.distributed.DistributedTuning(cells=1024),
    )
    scores = []
    for world in (0, 1):
        views = []
        for _ in range(10):
            aggregation = IdealAggregation(spec)
            cells = np.arange(spec.grid.size)
            aggregation.upload_buckets(0, spec.bucket(cells, np.full(len(cells), world)))
            aggregation.collect(0)
            views.append(aggregation.unsafe_view(0, aggregator=1)[:-1].reshape(-1, 2))
        away = [np.abs(np.concatenate(views) - exact).sum(axis=1) for exact in ([0, 1], [1, 0])]
        scores.append((away[0] - away[1]).astype(float))
    found = event_bound(*scores, above=[2.0], below=[-2.0], delta=0.0, confidence=1.0 - 1e-9)
    assert 1.5 < found <= 2.0


def test_a_version_is_released_once_and_a_report_counts_once():
    spec = small()
    aggregation = IdealAggregation(spec)
    report = Report(0, bytes(16), 1)
    assert aggregation.upload([report, report, Report(0, b"1" * 16, 2)]) == 2
    first = aggregation.collect(0)
    assert aggregation.upload([Report(0, b"2" * 16, 1)]) == 0  # closed
    assert aggregation.collect(0).equals(first)
    with pytest.raises(ProtocolError, match="collected"):
        aggregation.upload_buckets(0, np.array([1]))


def test_a_forged_report_is_dropped_and_stops_no_other():
    spec = small()
    aggregation = IdealAggregation(spec)
    forged = [
        (0, b"a", spec.length),
        (0, b"b", -1),
        (0, b"c", 0.0),
        (99, b"d", 0),
        ("0", b"e", 0),
        (0, [], 1),
    ]
    honest = [Report(0, b"f" * 16, 0), Report(0, b"g" * 16, spec.silent)]
    assert aggregation.upload([*(Report(*one) for one in forged), *honest]) == 2
    assert aggregation.collect(0).reports == 2


def test_a_batch_below_the_public_minimum_is_refused():
    aggregation = IdealAggregation(small())
    aggregation.upload([Report(0, bytes(16), 1)])
    with pytest.raises(ProtocolError, match="fewer than 2 reports"):
        aggregation.collect(0)


@pytest.mark.parametrize("buckets", [[5], [-1], [0.5], [[1]]])
def test_buckets_that_do_not_exist_are_refused(buckets):
    with pytest.raises(InvalidData, match="buckets"):
        IdealAggregation(small()).upload_buckets(0, np.array(buckets))


def test_the_promise_is_written_and_read_and_checked():
    promise = DistributedDP(epsilon=2, reports_per_user=3)
    assert from_config(promise.to_config()) == promise
    assert "at most 3 reports" in promise.unit
    for wrong in ({"epsilon": 0}, {"epsilon": 1, "reports_per_user": 0}):
        with pytest.raises(InvalidParameter):
            DistributedDP(**wrong)
    with pytest.raises(InvalidParameter, match="rate"):
        ReportHistogram(length=3, privacy=DistributedDP(epsilon=1000))


def test_the_statement_says_what_is_not_covered_first():
    page = small().statement().explain()
    limits = page[page.index("What is not promised") :]
    assert limits.index("Two aggregators that work together see every report") < 80
    assert "A sum has at least 2 reports, unless aggregators accept fewer." in limits
    assert small().statement().certificate.describe() == "pure differential privacy, epsilon = 1"


def test_one_process_says_that_it_sees_every_report():
    assert IdealAggregation(small()).guarantee.status == "enforced"
    simulated = IdealAggregation(small(), noise=dpb.SimulatedNoise(0)).guarantee
    assert simulated.status == "simulated"
    page = " ".join(simulated.explain().split())
    assert "The process that holds both aggregators: every report (not covered)" in page
    assert "no more than a central server" in page
    assert "Secret sharing" not in page
