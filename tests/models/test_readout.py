"""Intervals of a private readout, against exact calculations."""

import json
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from dpbandits.errors import InvalidParameter
from dpbandits.models.readout import (
    CellTable,
    Group,
    Look,
    Metric,
    NoiseScales,
    compare_groups,
    crossed,
    half_width,
    segments,
)
from dpbandits.models.readout.boundaries import any_number_level, planned_levels
from dpbandits.models.readout.estimates import Contrast, Side, lifted
from dpbandits.models.readout.segments import cell_contrast
from dpbandits.models.readout.tails import quantile, tail
from reproduction.studies import readout as study

NONE = NoiseScales()


def side(n, sums, *, squares=None, laplace=0.0, gaussian=0.0, squared=None, overlap=None, users=None):
    """Return a group with one look a column, from sums (..., J) of z - 1/2."""
    sums = np.asarray(sums, dtype=float)
    rounds = np.broadcast_to(np.asarray(n, dtype=float), sums.shape)
    return Side(
        weights=np.full(sums.shape, 1.0 / sums.shape[-1]),
        rounds=rounds,
        squared_rounds=rounds if squared is None else np.asarray(squared, dtype=float),
        overlap=np.zeros_like(sums) if overlap is None else np.asarray(overlap, dtype=float),
        sums=sums,
        squares=np.full_like(sums, np.nan) if squares is None else np.asarray(squares, dtype=float),
        laplace=np.full_like(sums, laplace),
        gaussian=np.full_like(sums, gaussian),
        square_sd=np.zeros_like(sums),
        users=rounds if users is None else np.asarray(users, dtype=float),
    )


# -- tails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [(0.0, [1.0]), (0.4, [1.0]), (1.0, [1.0, 0.2]), (0.0, [1.0] * 8)])
@pytest.mark.parametrize("level", [0.05, 0.025, 0.0005])
def test_quantiles_have_the_tail_that_the_characteristic_function_gives(terms, level):
    sd, scales = terms
    x = float(quantile(level, np.array(sd), np.array(scales)))
    # P(X > x) = 1/2 - sum of f(kh) sin(khx)/(k pi) - hx/(2 pi), for a period 2 pi/h far beyond x
    h = 2.0 * math.pi / (80.0 * math.sqrt(sd**2 + 2.0 * sum(b * b for b in scales)))
    k = np.arange(1, 200_001)
    f = np.exp(-0.5 * (sd * k * h) ** 2) / np.prod([1.0 + (b * k * h) ** 2 for b in scales], axis=0)
    exact = 0.5 - h * x / (2.0 * math.pi) - float((f * np.sin(k * h * x) / k).sum()) / math.pi
    assert 0.97 < exact / level < 1.012
    assert float(tail(np.array(x), np.array(sd), np.array(scales))) == pytest.approx(level, rel=1e-6)


def test_without_laplace_noise_quantiles_are_normal():
    assert quantile(0.005, np.array([2.0]), np.zeros((1, 3))) == pytest.approx(2.0 * stats.norm.isf(0.005))
    assert float(tail(np.array(0.0), np.array(1.0), np.ones(2))) == 0.5


# -- boundaries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("increments", [(1.0, 1.0), (1.0, 4.0), (2.0, 0.5)])
@pytest.mark.parametrize("error", [0.025, 0.05])
def test_two_planned_looks_exclude_the_truth_as_often_as_they_may(increments, error):
    first, second = -ndtri(planned_levels(np.array(increments), 2, side=error))
    correlation = math.sqrt(increments[0] / sum(increments))
    both = stats.multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]])
    inside = both.cdf([first, second], lower_limit=[-first, -second])
    assert 1.0 - inside == pytest.approx(2.0 * error, abs=2e-5)


def test_any_number_of_looks_excludes_the_truth_rarely():
    walks = np.random.default_rng(3).standard_normal((4_000, 100)).cumsum(axis=1)
    ever = np.zeros(4_000, dtype=bool)
    for k in range(1, 101):
        bound = -ndtri(any_number_level(np.ones(k), side=0.025))
        ever |= np.abs(walks[:, k - 1]) > bound * math.sqrt(k)
    assert 0.0 < ever.mean() < 0.05


# -- estimates --------------------------------------------------------------------------------------


def test_positive_means_are_those_of_a_truncated_normal():
    estimates, sd = np.array([-2.0, 0.0, 0.7, 30.0]), 0.6
    exact = stats.truncnorm(-estimates / sd, np.inf, loc=estimates, scale=sd).mean()
    assert lifted(estimates, np.full(4, sd)) == pytest.approx(exact, rel=1e-6)


def test_without_noise_a_mean_has_the_score_interval():
    n, yes, z = 400, 12, float(stats.norm.isf(0.025))
    low, high = side(n, [yes - n / 2]).interval(0.025)
    p = yes / n
    middle, reach = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    wilson = (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)
    assert (float(low), float(high)) == pytest.approx(wilson, abs=2e-4)


def test_a_group_without_any_event_does_not_prove_a_rate_of_zero():
    low, high = side(400, [-200.0]).interval(0.025)
    assert float(low) == 0.0
    assert 1.0 / 400 < float(high) < 5.0 / 400


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05])
def test_a_rare_outcome_in_a_small_control_group_is_covered(rate):
    """Coverage is summed over all counts of 100 users and over 400 quantiles of their Laplace noise."""
    n, large, b = 100, 1_000_000, 1.3
    counts = np.arange(0, 30)
    chances = stats.binom(n, rate).pmf(counts)
    noise = stats.laplace(scale=b).ppf((np.arange(400) + 0.5) / 400)
    sums = (counts[:, None] + noise - n / 2).reshape(-1, 1)
    contrast = Contrast(side(large, np.full_like(sums, large * (rate - 0.5))), side(n, sums, laplace=b))
    low, high = contrast.interval(0.025)
    inside = ((low <= 0.0) & (high >= 0.0)).reshape(len(counts), 400).mean(axis=1)
    assert 0.935 < float(chances @ inside) < 0.985
    # a control group without any event is no proof of a rate of zero
    assert (high - low).min() > 2.0 / n


def test_intervals_without_the_noise_would_miss_the_truth():
    row = study.main_row("rare", "pure", 10_000, 500, 1)
    assert row["coverage"] > 0.9
    assert row["noise_left_out_coverage"] < 0.65


def test_differences_by_look_are_unbiased_where_the_share_changes_under_drift():
    row = study.main_row("adaptive", "gaussian", 100_000, 500, 2)
    assert abs(row["bias"]) < 0.001
    assert row["pooled_means_bias"] > 0.05
    assert row["coverage"] > 0.9


def test_ratio_ends_are_where_fiellers_statistic_meets_its_quantile():
    policy, control = side(5_000, [-1_900.0], gaussian=20.0), side(1_000, [-400.0], gaussian=5.0)
    ratio, (low, high) = Contrast(policy, control).ratio(0.025)
    assert float(ratio) == pytest.approx(0.12 / 0.1)
    for end in (float(low), float(high)):
        # under policy = end x control, the common control mean by inverse variances
        m = 0.1
        for _ in range(50):
            one = end * m * (1 - end * m) / 5_000 + 400.0 / 5_000**2
            two = m * (1 - m) / 1_000 + 25.0 / 1_000**2
            m = (0.1 / two + end * 0.12 / one) / (1 / two + end**2 / one)
        statistic = (0.12 - end * 0.1) / math.sqrt(one + end**2 * two)
        assert abs(statistic) == pytest.approx(1.96, abs=0.01)


def test_a_ratio_to_a_control_that_may_be_zero_has_no_upper_end():
    policy, control = side(5_000, [-2_400.0]), side(200, [-99.0], laplace=1.3)
    _, (low, high) = Contrast(policy, control).ratio(0.025)
    assert 0.0 < float(low) < 4.0
    assert math.isinf(float(high))


def test_users_with_equal_numbers_of_rounds_have_the_variance_of_users():
    rng = np.random.default_rng(5)
    users, m = 500, 4
    z = rng.beta(0.4, 0.9, (users, 1)) * np.ones(m)  # the same outcome at every round
    t = (2.0 * z - 1.0).sum(axis=1)
    group = side(
        [users * m], [0.5 * t.sum()], squares=[(t**2 / m).sum()], squared=[users * m * m], users=[users]
    )
    spread = np.var(z[:, 0], ddof=1) / users
    assert float(group.variance(group.mean)) == pytest.approx(spread, rel=1e-9)


def test_users_who_return_in_every_look_count_once():
    rng = np.random.default_rng(6)
    users, looks = 800, 4
    z = rng.random(users)
    one = np.full(looks, float(users))
    group = side(
        one,
        np.full(looks, (z - 0.5).sum()),
        squares=np.full(looks, ((2 * z - 1) ** 2).sum()),
        overlap=users * np.arange(looks),
    )
    assert float(group.variance(group.mean)) == pytest.approx(np.var(z, ddof=1) / users, rel=1e-9)


def test_squares_add_nothing_to_the_sensitivity_of_sums():
    for m in range(1, 6):
        t = np.linspace(-m, m, 201)
        sums, squares = np.abs(t[:, None] - t) / 2, np.abs(t[:, None] ** 2 - t**2) / m
        assert (sums + squares / 4).max() <= m * (1 + 1e-12)
        assert np.hypot(sums, 0.8325 * squares).max() <= m * (1 + 1e-12)
        assert np.hypot(sums, 0.84 * squares).max() > m


# -- compare_groups ----------------------------------------------------------------------------------------

METRICS = (
    Metric("bought", 0.0, 1.0, 0.0, yes_no=True, harm=False),
    Metric("complaint", 0.0, 1.0, 0.0, yes_no=True, harm=True),
    Metric("margin", -10.0, 40.0, 0.0, yes_no=False, harm=False),
)


def group(rounds, *means, noise=NONE, answered=0.9):
    sums = rounds * (np.array(means) - 0.5)
    return Group(
        rounds=rounds,
        users=rounds,
        squared_rounds=rounds,
        overlap=0,
        sums=sums,
        squares=np.array([np.nan, np.nan, rounds * (4 * 0.01 + (2 * means[2] - 1) ** 2)]),
        answered=rounds * answered,
        sum_laws=(noise,) * 3,
        square_laws=(NoiseScales(4 * noise.laplace, noise.gaussian / 0.78125),) * 3,
        answered_laws=(noise,),
    )


def looks(count=4, *, rounds=9_000, complaint=0.1, answered=0.9, noise=NONE):
    return [
        Look(
            policy=group(rounds, 0.33, complaint, 0.3, noise=noise, answered=answered),
            control=group(1_000, 0.3, 0.02, 0.28, noise=noise),
            share=0.1,
        )
        for _ in range(count)
    ]


def test_readings_are_in_the_units_of_the_metrics():
    read = compare_groups(looks(), METRICS, planned_looks=4)
    margin = read.metrics[2]
    assert (margin.control, margin.policy, margin.difference) == pytest.approx((4.0, 5.0, 1.0))
    assert margin.interval[0] < 1.0 < margin.interval[1]
    # sd of z is .1, so of the margin 5
    assert margin.interval[1] - margin.interval[0] == pytest.approx(
        2 * 1.96 * 5.0 * math.sqrt(1 / 4_000 + 1 / 36_000), rel=0.01
    )
    assert math.isnan(margin.ratio)
    assert read.metrics[0].ratio == pytest.approx(1.1)
    assert json.loads(json.dumps(read.to_json()))["metrics"][2]["ratio"] is None
    assert read.rounds == (4_000, 36_000)
    assert read.comparable


def test_intervals_for_all_looks_are_wider_and_noise_widens_all():
    quiet = compare_groups(looks(2), METRICS, planned_looks=4).metrics[0]
    loud = compare_groups(looks(2, noise=NoiseScales(20.0, 20.0)), METRICS, planned_looks=4).metrics[0]
    open_end = compare_groups(looks(2), METRICS, planned_looks=None).metrics[0]
    width = [end[1] - end[0] for end in (quiet.interval, quiet.always, open_end.always, loud.interval)]
    assert width[0] < width[1] < width[2]
    assert width[0] < width[3]


def test_a_guardrail_has_one_sided_ends():
    twin = METRICS[1]._replace(harm=False)
    guard = compare_groups(looks(), METRICS, planned_looks=4).metrics[1].interval
    both = compare_groups(looks(), (METRICS[0], twin, METRICS[2]), planned_looks=4).metrics[1].interval
    assert both[0] < guard[0] < guard[1] < both[1]


def test_unequal_shares_of_answers_are_found():
    assert compare_groups(looks(answered=0.8), METRICS, planned_looks=4).sample_ratio < 1e-6
    assert not compare_groups(looks(answered=0.8), METRICS, planned_looks=4).comparable
    # the same counts prove little under heavy noise
    assert compare_groups(looks(answered=0.8, noise=NoiseScales(300.0)), METRICS, planned_looks=4).comparable


def test_harm_is_found_at_the_first_look_that_proves_it():
    seen = {"harm": "complaint", "above": 0.02, "planned_looks": 4}
    assert crossed(looks(complaint=0.1), METRICS, **seen) == 1
    assert crossed(looks(complaint=0.05), METRICS, **seen) == 3
    assert crossed(looks(complaint=0.1), METRICS, first=2, **seen) == 2
    assert crossed(looks(complaint=0.04), METRICS, **seen) is None
    assert crossed(looks(complaint=0.1, noise=NoiseScales(200.0)), METRICS, **seen) is None


def test_looks_without_a_group_are_left_out():
    empty = looks(1, rounds=0)
    assert compare_groups(empty + looks(2), METRICS, planned_looks=4).metrics[0].difference == pytest.approx(
        0.03
    )
    assert crossed(empty + looks(1), METRICS, harm="complaint", above=0.02, planned_looks=4) == 2
    with pytest.raises(InvalidParameter, match="no look has rounds of both groups"):
        compare_groups(empty, METRICS, planned_looks=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_groups(looks(3), METRICS, planned_looks=2), "there are 3 looks, and 2 were planned"),
        (lambda: compare_groups(looks(1), METRICS[:2], planned_looks=2), "one sum for each of 2 metrics"),
        (lambda: compare_groups(looks(1), METRICS, planned_looks=2, confidence=1.5), "confidence"),
        (
            lambda: crossed(looks(1), METRICS, harm="spam", above=0.0, planned_looks=2),
            "no metric is named 'spam'",
        ),
        (
            lambda: half_width(10, share=0.1, looks=1, policy_law=NONE, control_law=NONE),
            "either rate= .* or sd=",
        ),
    ],
)
def test_public_mistakes_are_refused(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


# -- widths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["rare", "none", "revenue"])
def test_the_forecast_of_a_width_is_within_a_tenth(scenario):
    row = study.main_row(scenario, "pure", 10_000, 300, 4)
    assert row["forecast"] == pytest.approx(row["half_width"], rel=0.1)


def test_widths_grow_from_fixed_to_planned_to_open():
    parts = {"share": 0.1, "looks": 4, "policy_law": NONE, "control_law": NONE, "rate": 0.3}
    fixed, planned, any_number = (
        half_width(10_000, **parts, **more)
        for more in ({}, {"always": True}, {"always": True, "planned": False})
    )
    assert (planned / fixed, any_number / fixed) == pytest.approx((2.01 / 1.96, 3.04 / 1.96), rel=0.005)


# -- segments ---------------------------------------------------------------------------------------


def table(rates, rounds, law=NONE):
    """Return yes/no cells (C, J) with exactly these rates."""
    counts = np.broadcast_to(np.asarray(rounds, dtype=float), np.shape(rates))
    sums = counts * (np.asarray(rates) - 0.5)
    return CellTable(counts, sums, np.full_like(sums, np.nan), law, law, NONE)


def test_moving_a_round_to_another_cell_meets_the_stated_sensitivities():
    s = np.linspace(-0.5, 0.5, 101)
    one, two = np.meshgrid(s, s)
    for a in (0.0, 0.3, 1.0):
        moves = np.stack([one, one**2, np.full_like(one, a), two, two**2, np.full_like(one, a)])
        assert np.abs(moves).sum(axis=0).max() == pytest.approx(1.5 + 2 * a)
        assert np.sqrt((moves**2).sum(axis=0)).max() == pytest.approx(math.sqrt(5 / 8 + 2 * a * a))
        stays = np.abs(one - two) + np.abs(one**2 - two**2)
        assert stays.max() <= 1.0 + 1e-12


def test_cells_are_compared_without_bias_where_share_and_outcomes_change():
    shares, rates = np.array([0.5, 0.1]), np.array([[0.1, 0.6], [0.3, 0.3]])
    policy = table(rates + 0.05, 10_000 * (1 - shares))
    control = table(rates, 10_000 * shares)
    read = segments(("north", "south"), policy, control, METRICS[0], shares=shares)
    assert [cell.difference for cell in read] == pytest.approx([0.05, 0.05])
    assert all(cell.interval[0] < 0.05 < cell.interval[1] for cell in read)


def test_cells_hold_together_and_small_ones_are_not_read():
    rates = np.full((3, 2), 0.3)
    rounds = np.array([[4_000.0], [4_000.0], [10.0]])
    law = NoiseScales(laplace=3.0)
    both = [table(rates, rounds, law), table(rates, rounds, law)]
    read = segments(("a", "b", "c"), *both, METRICS[0], shares=(0.5, 0.5))
    alone = segments(("a",), *(cut(one) for one in both), METRICS[0], shares=(0.5, 0.5))
    assert read[0].interval[0] < alone[0].interval[0] < 0.0
    assert (read[0].enough, read[2].enough) == (True, False)
    assert read[2].interval == (-1.0, 1.0)
    assert math.isnan(read[2].difference)
    assert read[2].p_value == 1.0


def cut(one):
    return one._replace(counts=one.counts[:1], sums=one.sums[:1], squares=one.squares[:1])


@pytest.mark.parametrize("metric", ["yes", "revenue"])
def test_intervals_of_cells_cover_with_noisy_counts(metric):
    row = study.segments_row("some", "pure", metric, 100_000, 300, 3)
    # 1,800 intervals, about .95 of which cover; their standard error is below .013 even if cells depend
    assert 0.88 < row["one_cell_coverage"] < 0.995
    assert row["all_covered"] > 0.86
    assert row["enough"] == 1.0


def test_cells_that_noise_made_large_are_not_favoured():
    """Cells of rare rewards whose counts are too small, but for noise: those that are read have no bias."""
    rng, runs, rate = np.random.default_rng(5), 40_000, 0.02
    rounds, sd = np.array([50_000.0, 950.0]), 100.0
    shape = (runs, 2, 1)
    laws = NoiseScales(gaussian=2.0 * sd), NoiseScales(gaussian=sd)
    counts = rounds[:, None] + 2.0 * sd * rng.standard_normal(shape)
    sums = rounds[:, None] * (rate - 0.5) + sd * rng.standard_normal(shape)
    noisy = CellTable(counts, sums, np.full(shape, np.nan), *laws, NONE)
    exact = table(np.full((2, 1), rate), 50_000.0)._replace(count_law=NONE)
    _, enough = cell_contrast(noisy, exact, np.array([0.5]))
    error = (sums - (rate - 0.5) * counts)[:, 1, 0]
    read = error[enough[:, 1]]
    assert 1_000 < len(read) < 20_000
    assert abs(read.mean()) < 6.0 * error.std() / len(read) ** 0.5
    # a rule on the counts alone has a bias
    assert error[counts[:, 1, 0] > 1_200.0].mean() > error.std()


def test_tables_of_another_shape_are_refused():
    with pytest.raises(InvalidParameter, match="3 cells and 2 looks"):
        segments(
            ("a", "b", "c"),
            table(np.full((2, 2), 0.3), 100),
            table(np.full((2, 2), 0.3), 100),
            METRICS[0],
            shares=(0.5, 0.5),
        )
