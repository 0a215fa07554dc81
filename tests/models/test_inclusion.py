"""Which of many columns matter: probabilities from the evidence of tables."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpbandits.models.marginals import (
    ArmWeights,
    Effects,
    Evidence,
    Relevance,
    best_design,
    fitted_with_inclusion,
    variances_to_choose_by,
)
from dpbandits.models.marginals.inclusion import LEAST, RELEVANT


def told(effects, *, arms=2, rows=300, matter=(), seed=0, sd=0.3):
    """Evidence of sums over people of random levels, whose rewards the columns that matter decide."""
    rng = np.random.default_rng(seed)
    levels = np.column_stack([rng.integers(0, size, rows) for size in effects.sizes])
    phi, weights = effects(levels), np.zeros((arms, effects.n_weights))
    for term in effects.terms:
        if len(term.columns) == 1 and term.columns[0] in matter:
            weights[:, term.start : term.stop] = rng.choice([-0.2, 0.2], (arms, term.stop - term.start))
    rewards = weights @ phi.T + sd * rng.standard_normal((arms, rows))
    maps, noise = phi / sd, rewards / sd
    precision = np.broadcast_to(maps.T @ maps, (arms, effects.n_weights, effects.n_weights))
    return Evidence(precision, noise @ maps)


def log_evidence(evidence, variances):
    """Of rewards under these prior variances, up to a constant, by the law of the shift."""
    total = 0.0
    for precision, shift in zip(evidence.precision, evidence.shift, strict=True):
        covariance = precision + precision * variances @ precision
        total += multivariate_normal.logpdf(shift, cov=covariance, allow_singular=True)
    return total


def test_few_columns_all_matter():
    effects = Effects.of([2, None, 3, 2, 4])
    assert len(effects.sizes) == RELEVANT
    evidence = told(effects, matter=(1,))
    found = fitted_with_inclusion(effects, evidence, Relevance.prior(effects), steps=3)
    plain = ArmWeights.fitted(effects, evidence, Relevance.prior(effects), steps=3)
    np.testing.assert_array_equal(found.mean, plain.mean)
    np.testing.assert_array_equal(found.relevance.variances, plain.relevance.variances)
    assert found.relevance.included is None


@pytest.mark.parametrize(("shared", "pairs"), [(True, ()), (False, ()), (False, ((0, 1), (1, 4), (2, 6)))])
def test_a_probability_is_the_evidence_for_a_column_against_none(shared, pairs):
    effects = Effects((2, 3, 2, 2, 24, 2, 2), (False,) * 4 + (True,) + (False,) * 2, pairs)
    evidence = told(effects, matter=(1,), rows=60)
    if not shared:
        evidence = Evidence(np.array(evidence.precision), evidence.shift)
    before = RELEVANT / 7
    found = fitted_with_inclusion(effects, evidence, Relevance.prior(effects), steps=1)
    slab = Relevance.prior(effects).variances
    for column in range(7):
        holds = np.array([column in term.columns for term in effects.terms])
        used = Relevance(slab, np.full(7, before)).of_terms(effects)
        logs = [
            log_evidence(evidence, np.where(holds, factor * used, used)[effects.term_of])
            for factor in (1.0 / before, 1e-12)
        ]
        odds = before / (1.0 - before) * np.exp(logs[0] - logs[1])
        expected = np.clip(odds / (1.0 + odds), LEAST, 1.0 - LEAST)
        assert found.relevance.included[column] == pytest.approx(expected, rel=1e-3)


def test_columns_that_matter_are_found_and_others_are_shrunk():
    effects = Effects.of([2, 3, None, 2, None, 4, 2, 2, 3, 2, 2, 2])
    evidence = told(effects, matter=(4, 9), seed=2)
    start = Relevance.prior(effects)
    found = fitted_with_inclusion(effects, evidence, start, steps=15)
    assert set(np.flatnonzero(found.relevance.included > 0.9)) == {4, 9}
    assert np.sort(found.relevance.included)[:-2].max() < 0.5
    plain = ArmWeights.fitted(effects, evidence, start, steps=15)
    others = np.array([set(term.columns) <= {0, 1, 2, 3} for term in effects.terms])[effects.term_of]
    others[0] = False
    assert (found.mean[:, others] ** 2).sum() < 0.5 * (plain.mean[:, others] ** 2).sum()


def test_an_interaction_needs_both_of_its_columns():
    effects = Effects((2,) * 6, (False,) * 6)
    included = np.array([1.0, 0.5, 0.1, 1.0, 1.0, 1.0])
    shares = Relevance(np.ones(len(effects.terms)), included).of_terms(effects)
    known = {term.columns: share for term, share in zip(effects.terms, shares, strict=True)}
    assert (known[()], known[(0,)], known[(2,)]) == (1.0, 1.0, 0.1)
    assert known[(1, 2)] == pytest.approx(0.05)


def test_interactions_that_are_added_know_which_columns_matter():
    narrow, wider = Effects((2,) * 6, (False,) * 6, ()), Effects((2,) * 6, (False,) * 6, ((0, 1),))
    included = np.linspace(0.1, 0.9, 6)
    found = Relevance(Relevance.prior(narrow).variances, included).among(narrow, wider)
    np.testing.assert_array_equal(found.included, included)
    assert len(found.variances) == len(wider.terms)


def test_a_column_is_worth_what_it_may_tell_if_it_matters():
    """A weight that matters with probability f has the prior variance f v, and here the same evidence J."""
    effects = Effects((2,) * 6, (False,) * 6, ())
    slab, included = np.full(len(effects.terms), 0.01), np.array([1.0, 0.5, 0.2, 0.1, 0.05, 0.02])
    relevance, told = Relevance(slab, included), 70.0
    law = 1.0 / (told + 1.0 / relevance.of_terms(effects))
    found = variances_to_choose_by(effects, relevance, law)
    share = np.array([1.0, *included])
    np.testing.assert_allclose(found, np.sqrt(share) / (told + 1.0 / slab), rtol=1e-12)
    every = Relevance(slab)
    np.testing.assert_array_equal(variances_to_choose_by(effects, every, law), law)


def test_columns_that_may_matter_are_asked_for_before_the_constant_alone():
    """By the variances of the law, in which a column hardly matters yet, no column would be in a table."""
    effects = Effects((5, *(2,) * 19), (False,) * 20)
    relevance = Relevance(Relevance.prior(effects).variances, np.full(20, RELEVANT / 20))
    law = relevance.of_terms(effects)[effects.term_of]
    law[0] = 0.005

    def groups(variance):
        noise = 2.0 * (2.0 * 0.7 / 0.85) ** 2
        return best_design(
            effects,
            variance=variance,
            people=125.0,
            noise_variance=lambda count: noise * count**2,
            reward_variance=0.2,
        ).groups

    assert groups(law) == ((),)
    assert max(map(len, groups(variances_to_choose_by(effects, relevance, law)))) > 0
