import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation import BANNER, Estimate, Repetitions, RunResult, share_kept, summarise

FINITE = st.floats(-100, 100)


def repetitions(name, scores, uniform=0.25, seeds=None, environment="world", best=1.0, rounds=10):
    """Runs in which the policy earns the same expected reward every round."""
    seeds = range(1_000_000, 1_000_000 + len(scores)) if seeds is None else seeds
    return Repetitions(
        name=name,
        results=tuple(
            RunResult(
                environment=environment,
                seed=seed,
                rewards=np.full(rounds, score),
                expected=np.full(rounds, score),
                best=np.full(rounds, best),
                uniform=None if uniform is None else np.full(rounds, uniform),
                seconds=1.0,
            )
            for seed, score in zip(seeds, scores, strict=True)
        ),
    )


def test_estimate_is_mean_and_standard_error():
    estimate = Estimate.of([1.0, 2.0, 4.0])
    assert estimate.mean == pytest.approx(7 / 3)
    assert estimate.standard_error == pytest.approx(math.sqrt(7 / 9))
    assert estimate.n == 3
    assert math.isnan(Estimate.of([1.0]).standard_error)


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (0.12345, 0.0123, "0.123 ± 0.012"),
        (613.47, 30.4, "613 ± 30"),
        (613.47, 3040.0, "613 ± 3040"),
        (-0.00076, 0.0019, "-0.0008 ± 0.0019"),
        (0.5, 0.0, "0.5 ± 0"),
        (0.5, math.nan, "0.5"),
    ],
)
def test_estimates_are_printed_to_two_digits_of_their_error(mean, error, text):
    assert str(Estimate(mean, error, 5)) == text


@pytest.mark.parametrize("values", [[], [[1.0]], [math.nan], [math.inf]])
def test_estimates_need_finite_numbers(values):
    with pytest.raises(InvalidData):
        Estimate.of(values)


def test_share_by_hand():
    # A = .1, .2, .3; B = .2, .4, .45: share = .6/1.05, residuals A - share B.
    share = share_kept([0.3, 0.4, 0.5], [0.4, 0.6, 0.65], [0.2, 0.2, 0.2])
    kept = 0.6 / 1.05
    residuals = np.array([0.1, 0.2, 0.3]) - kept * np.array([0.2, 0.4, 0.45])
    assert share.share == pytest.approx(kept)
    assert share.standard_error == pytest.approx(residuals.std(ddof=1) / math.sqrt(3) / 0.35)
    assert share.uplift.mean == pytest.approx(0.2)
    assert share.reference_uplift.mean == pytest.approx(0.35)


def test_the_reference_keeps_all_of_itself():
    scores = [0.5, 0.6, 0.7]
    share = share_kept(scores, scores, [0.2, 0.25, 0.2])
    assert share.share == 1.0
    assert share.standard_error == 0.0


@given(
    policy=arrays(np.float64, 5, elements=FINITE),
    reference=arrays(np.float64, 5, elements=st.floats(200, 300)),
    uniform=arrays(np.float64, 5, elements=st.floats(-1, 1)),
    scale=st.floats(0.1, 10),
    shift=st.floats(-10, 10),
)
def test_share_does_not_depend_on_the_unit_of_rewards(policy, reference, uniform, scale, shift):
    share = share_kept(policy, reference, uniform)
    again = share_kept(scale * policy + shift, scale * reference + shift, scale * uniform + shift)
    assert again.share == pytest.approx(share.share, rel=1e-6, abs=1e-9)
    assert again.standard_error == pytest.approx(share.standard_error, rel=1e-6, abs=1e-9)


def test_standard_error_of_the_share_is_right():
    # 2,000 experiments of 30 paired runs each. The spread of the shares has relative error
    # 1/sqrt(2 * 2000) = 1.6%; the delta method is itself off by O(1/30). 12% is over 6 deviations.
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(2000):
        world = rng.normal(0.4, 0.05, 30)
        uniform = 0.2 + rng.normal(0, 0.01, 30)
        reference = uniform + world + rng.normal(0, 0.02, 30)
        policy = uniform + 0.7 * world + rng.normal(0, 0.04, 30)
        share = share_kept(policy, reference, uniform)
        shares.append(share.share)
        errors.append(share.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.12)
    assert np.mean(shares) == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("reference", [[0.2, 0.2, 0.2], [0.1, 0.1, 0.1], [0.2, 0.9, 0.0], [0.25, 0.22, 0.19]])
def test_no_share_of_an_uplift_that_may_be_nothing(reference):
    share = share_kept([0.3, 0.3, 0.3], reference, [0.2, 0.2, 0.2])
    assert math.isnan(share.share)
    assert math.isnan(share.standard_error)
    assert share.uplift.mean == pytest.approx(0.1)


def test_one_run_has_a_share_and_no_error():
    share = share_kept([0.3], [0.4], [0.2])
    assert share.share == pytest.approx(0.5)
    assert math.isnan(share.standard_error)


def test_lengths_must_agree():
    with pytest.raises(InvalidData, match="one mean reward per seed"):
        share_kept([0.3, 0.4], [0.4], [0.2])


def test_summary_of_two_policies():
    private, plain = repetitions("private", [0.4, 0.5]), repetitions("plain", [0.5, 0.7])
    summary = summarise(private, plain, reference="plain")
    assert (summary.environment, summary.n_rounds, summary.tuning) == ("world", 10, False)
    row = summary["private"]
    assert row.reward.mean == pytest.approx(0.45)
    assert row.uplift.mean == pytest.approx(0.2)
    assert row.regret.mean == pytest.approx(5.5)
    assert row.share.share == pytest.approx(0.2 / 0.35)
    assert summary["plain"].share.share == 1.0
    with pytest.raises(KeyError):
        summary["other"]


def test_summary_as_rows_and_text():
    summary = summarise(
        repetitions("private", [0.4, 0.5]), repetitions("plain", [0.5, 0.7]), reference="plain"
    )
    rows = json.loads(json.dumps(summary.to_rows()))
    assert rows[0]["name"] == "private"
    assert rows[0]["runs"] == 2
    assert rows[0]["share"] == pytest.approx(0.2 / 0.35)
    assert rows[0]["reference_uplift"] == pytest.approx(0.35)
    text = str(summary)
    assert text.startswith(BANNER)
    assert summary.banner == BANNER
    assert "share of the uplift of plain" in text
    assert "0.571" in text
    assert "(0.200 ± 0.050 of 0.35 ± 0.10)" in text
    assert "tuning" not in text


def test_tuning_seeds_are_marked():
    summary = summarise(repetitions("x", [0.4, 0.5], seeds=[1, 2]))
    assert summary.tuning
    assert "tuning seeds, not for reporting" in str(summary)
    assert summary.reference is None
    assert summary["x"].share is None


def test_unknown_means_leave_blanks():
    row = summarise(repetitions("x", [0.4, 0.5], uniform=None), reference="x")["x"]
    assert row.uplift is None
    assert row.share is None
    assert row.to_dict()["share"] is None
    assert row.to_dict()["uplift_se"] is None


def test_what_cannot_be_compared_is_refused():
    one = repetitions("one", [0.4, 0.5])
    with pytest.raises(InvalidParameter, match="nothing to summarise"):
        summarise()
    with pytest.raises(InvalidParameter, match="same name"):
        summarise(one, one)
    with pytest.raises(InvalidParameter, match="expected one of one"):
        summarise(one, reference="two")
    for other in (
        repetitions("two", [0.4, 0.5], seeds=[1_000_001, 1_000_000]),
        repetitions("two", [0.4, 0.5], environment="elsewhere"),
        repetitions("two", [0.4, 0.5], rounds=11),
    ):
        with pytest.raises(InvalidParameter, match="different seeds"):
            summarise(one, other)
