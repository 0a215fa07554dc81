"""Audits can fail: each kind catches too little noise and lets enough of it pass."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpbandits.audit import AuditRow, ExactAudit, GaussianAudit, SampledAudit, Scoring
from dpbandits.audit.claims import CERTAIN
from dpbandits.audit.scores import fit_categories, fit_linear
from dpbandits.lab.audit_report import undecided
from dpbandits.privacy import SecureNoise
from dpbandits.privacy.calibration import gaussian_sigma
from dpbandits.privacy.samplers import lattice_laplace
from dpbandits.privacy.words import secure_words

SURE = 1.0 - 1e-9
COMMON = {"sees": "one number", "neighbours": "0 and 1"}


def laplace_audit(claim, true, **changes):
    """Lattice Laplace noise for `true`, claimed to be enough for `claim`."""

    def draw(world, n):
        return world * 1000 + lattice_laplace(true / 1000, n, secure_words)

    return SampledAudit(name="laplace", epsilon=claim, draw=draw, **(COMMON | changes))


@pytest.mark.parametrize("known_broken", [False, True])
def test_sampled_audits_catch_half_the_noise_and_pass_enough(known_broken):
    facts = {"known_broken": known_broken, "caught_from": CERTAIN}
    honest = laplace_audit(1.0, 1.0, **facts).run(samples=40_000, confidence=SURE)
    assert honest.verdict == "holds"
    assert honest.tightness > 0.5
    assert honest.as_expected != known_broken
    half = laplace_audit(1.0, 2.0, **facts).run(samples=40_000, confidence=SURE)
    assert half.verdict == "exceeded"
    assert half.lower_bound < 2.0
    assert half.as_expected == known_broken


def test_an_audit_of_too_few_samples_is_undecided():
    """27 outputs of each world can exceed epsilon 1, and 26 cannot, whatever they are."""
    for known_broken, share in itertools.product([False, True], [1.0, 0.3]):
        audit = laplace_audit(
            1.0, 0.5, known_broken=known_broken, caught_from=CERTAIN, scoring=Scoring(share=share)
        )
        fewest = audit.fewest_samples()
        assert int(fewest * share) == 27 > int((fewest - 1) * share)
        few, enough = audit.run(samples=fewest - 1), audit.run(samples=fewest)
        assert (few.verdict, few.fewest_samples) == ("undecided", fewest)
        assert not few.as_expected
        assert not few.unexpected
        assert enough.verdict == "holds"
        assert enough.unexpected == known_broken
        assert AuditRow.from_json(few.to_json()) == few


@pytest.mark.parametrize("known_broken", [False, True])
@pytest.mark.parametrize("epsilon", [26.0, 50.0, 720.0])
def test_a_claim_of_a_large_epsilon_is_undecided_at_any_number_of_samples(epsilon, known_broken):
    scoring = Scoring(share=1e-6)
    audit = laplace_audit(epsilon, 0.5, known_broken=known_broken, caught_from=CERTAIN, scoring=scoring)
    assert audit.fewest_samples() is None
    row = audit.run(samples=2000)
    assert (row.verdict, row.fewest_samples) == ("undecided", None)
    assert "no number" in undecided([replace(row, known_broken=False)])


def test_a_false_claim_that_is_not_caught_is_undecided_where_nobody_knows_how_many_samples_it_takes():
    audit = laplace_audit(1.0, 0.5, known_broken=True)
    assert audit.fewest_samples() is None
    assert audit.run(samples=2000, confidence=SURE).verdict == "undecided"
    known = replace(audit, caught_from=2000)
    assert known.run(samples=2000).verdict == "holds"
    assert known.run(samples=1999).verdict == "undecided"
    assert known.run(samples=2000, confidence=SURE).verdict == "undecided"
    exact = ExactAudit(
        name="coin", epsilon=1.0, pairs=lambda: [([1.0], [1.0])], known_broken=True, **COMMON
    ).run(samples=1)
    assert exact.verdict == "holds"


def test_gaussian_audits_catch_half_the_noise_and_pass_enough():
    sigma = 1e6 * gaussian_sigma(1.0, 1e-5, 1.0)

    def draw(scale):
        return lambda world, n: world * 1e6 + SecureNoise().integer_gaussian(scale, n)

    common = COMMON | {"name": "gaussian", "epsilon": 1.0, "delta": 1e-5}
    honest = GaussianAudit(draw=draw(sigma), **common).run(samples=8000, confidence=SURE)
    assert honest.verdict == "holds"
    assert honest.conditional_on == "Gaussian noise"
    assert 0.2 < honest.lower_bound
    assert honest.unconditional_bound <= 1.0
    half = GaussianAudit(draw=draw(0.5 * sigma), **common).run(samples=8000, confidence=SURE)
    assert half.verdict == "exceeded"


def test_exact_audits_compare_every_pair():
    fair, biased = [Fraction(1, 2)] * 2, [Fraction(2, 3), Fraction(1, 3)]
    audit = ExactAudit(name="coin", epsilon=0.5, pairs=lambda: [(fair, fair), (fair, biased)], **COMMON)
    row = audit.run()
    assert row.lower_bound == pytest.approx(math.log(1.5), rel=1e-12)
    assert (row.verdict, row.confidence, row.samples, row.conditional_on) == ("holds", 1.0, 0, None)
    assert ExactAudit(name="coin", epsilon=0.4, pairs=audit.pairs, **COMMON).run().verdict == "exceeded"


def test_scores_are_not_fitted_on_what_they_are_judged_by():
    """Outputs that are all different: a score that remembers its samples must prove nothing on fresh ones."""
    rng = np.random.default_rng(6)
    audit = SampledAudit(
        name="noise",
        epsilon=0.1,
        draw=lambda world, n: rng.random((n, 3)),
        scoring=Scoring(fit=fit_categories),
        **COMMON,
    )
    assert audit.run(samples=4000, confidence=SURE).lower_bound == 0.0


def test_linear_scores_find_the_direction():
    rng = np.random.default_rng(7)
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    null = rng.multivariate_normal([0, 0], covariance, 20_000)
    other = rng.multivariate_normal([0.3, -0.3], covariance, 20_000)
    score = fit_linear(null, other)
    gain = (score(other).mean() - score(null).mean()) / score(null).std()
    assert gain == pytest.approx(0.6 / np.sqrt(2 - 1.8), rel=0.05)


def test_linear_scores_live_with_columns_that_say_nothing():
    rng = np.random.default_rng(8)
    null = np.column_stack([rng.normal(size=500), np.zeros(500)])
    score = fit_linear(null, null + np.array([1.0, 0.0]))
    assert np.isfinite(score(null)).all()
    assert score(null + np.array([1.0, 0.0])).mean() > score(null).mean()


def test_categories_are_told_by_equal_values():
    score = fit_categories(np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, -0.0]))
    zero, one, unseen = score(np.array([-0.0, 1.0, 7.0]))
    assert zero < 0.0 < one
    assert unseen == 0.0


def test_rows_are_flat_json():
    row = ExactAudit(
        name="coin", epsilon=1.0, pairs=lambda: [([Fraction(1), Fraction(0)], [Fraction(1, 2)] * 2)], **COMMON
    ).run()
    assert row.lower_bound == math.inf
    values = json.loads(json.dumps(row.to_json(), allow_nan=False))
    required = {"name", "claimed_epsilon", "delta", "lower_bound", "confidence", "tightness", "verdict"}
    assert required | {"known_broken", "conditional_on", "seconds"} <= set(values)
    assert values["verdict"] == "exceeded"
