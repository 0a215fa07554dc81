"""Privacy amplification by shuffling: never below what exact enumeration of shuffled reports finds."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.special import betainc

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.shuffling import Shuffled, shuffled


def mixed(laws, inputs):
    """Law of the shuffled reports: counts of the outputs -> probability."""
    found = {(0,) * laws.shape[1]: 1.0}
    for one in inputs:
        longer = defaultdict(float)
        for counts, probability in found.items():
            for output, chance in enumerate(laws[one]):
                more = list(counts)
                more[output] += 1
                longer[tuple(more)] += probability * chance
        found = longer
    return found


def exact_delta(laws, people, epsilon):
    """Largest divergence of shuffled reports, over all data of everybody and both directions."""
    most = 0.0
    for others in combinations_with_replacement(range(len(laws)), people - 1):
        after = [mixed(laws, (one, *others)) for one in range(len(laws))]
        for a in after:
            for b in after:
                most = max(most, sum(max(0.0, p - math.exp(epsilon) * b[key]) for key, p in a.items()))
    return most


def response(kinds, epsilon):
    """Randomised response: (kinds, kinds) probabilities of outputs by input."""
    laws = np.ones((kinds, kinds)) + (math.exp(epsilon) - 1.0) * np.eye(kinds)
    return laws / laws.sum(axis=1, keepdims=True)


def drawn(seed):
    """A mechanism with three inputs and four outputs, and its epsilon."""
    laws = np.random.default_rng(seed).uniform(0.2, 1.0, (3, 4)) ** 2
    laws /= laws.sum(axis=1, keepdims=True)
    return laws, float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())


CASES = [
    *((response(2, loss), loss, people) for loss in (0.1, 1.0, 3.0) for people in (1, 2, 7)),
    *((response(kinds, loss), loss, people) for kinds, people in ((3, 4), (4, 3)) for loss in (0.5, 2.0)),
    *((*drawn(seed), 3) for seed in range(4)),
]


@pytest.mark.parametrize(("laws", "loss", "people"), CASES)
def test_it_is_never_below_the_exact_divergence(laws, loss, people):
    certificate = Shuffled(epsilon0=loss, people=people, delta=0.01)
    for part in (0.0, 0.2, 0.5, 0.9):
        assert certificate.delta_at(part * loss) >= exact_delta(laws, people, part * loss)


def test_one_report_alone_and_binary_reports_of_two_are_exact():
    """With one person the bound is that of randomised response, and shuffling gains nothing."""
    for loss in (0.3, 2.0):
        alone, exact = Shuffled(epsilon0=loss, people=1, delta=0.01), exact_delta(response(2, loss), 1, 0.1)
        assert alone.delta_at(0.1) == pytest.approx(exact, rel=1e-8)


def bound(base, factor, people):
    """The bound as a fraction, for E = `base` and e^eps = `factor`, by the sum over both counts of clones."""
    clone, found = Fraction(2, base + 1), Fraction(0)
    for n in range(1, people + 1):
        ups = [
            math.comb(n, x) * max(0, x * (base - factor) - (n - x) * (base * factor - 1))
            for x in range(n + 1)
        ]
        chance = math.comb(people, n) * clone**n * (1 - clone) ** (people - n)
        found += chance * Fraction(sum(ups)) / 2**n
    return found / people


@pytest.mark.parametrize(
    ("base", "factor", "people"), [(3, Fraction(5, 4), 60), (9, 2, 60), (2, 1, 25), (40, 7, 60)]
)
def test_it_rounds_up_and_by_little(base, factor, people):
    certificate = Shuffled(epsilon0=math.log(base), people=people, delta=0.01)
    exact = float(bound(base, factor, people))
    assert exact <= certificate.delta_at(math.log(factor)) <= exact * (1.0 + 1e-6) + 1e-30


def test_many_people_are_summed_in_few_places_and_never_below():
    """At 100,000 people values are merged. Here the same sum is formed over every number of clones."""
    loss, epsilon, people = 1.5, 0.03, 100_000
    share, top = 2.0 / (1.0 + math.exp(loss)), math.exp(loss)
    clones = np.arange(people)
    logs = np.array([math.lgamma(people) - math.lgamma(c + 1) - math.lgamma(people - c) for c in clones])
    weights = np.exp(logs + clones * math.log(share) + (people - 1 - clones) * math.log1p(-share))
    up, down, n = top - math.exp(epsilon), top * math.exp(epsilon) - 1.0, clones[1:] + 1.0
    k = np.ceil(n * down / (up + down))
    each = up * betainc(k - 1, n - k + 1, 0.5) - down * betainc(k, np.maximum(n - k, 0.5), 0.5)
    exact = float(weights[1:] @ each) / (top + 1.0)
    found = Shuffled(epsilon0=loss, people=people, delta=0.01).delta_at(epsilon)
    assert exact * (1.0 - 1e-7) <= found <= 1.01 * exact


@pytest.mark.parametrize("trials", [9, 1000, 30_000])
def test_tails_of_fair_coins_are_as_exact_as_the_rounding_assumes(trials):
    for away in (0, 2, 5):
        first = min(trials, math.ceil(trials / 2 + away * math.sqrt(trials) / 2))
        term = total = math.comb(trials, first)
        for at in range(first, trials):
            term = term * (trials - at) // (at + 1)
            total += term
            if not term or at > first + 4000:
                break
        exact = float(Fraction(total, 2**trials))
        assert betainc(first, trials - first + 1, 0.5) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("loss", [0.05, 0.5, 1.0, 2.0, 4.0, 6.0])
def test_the_numerical_value_is_below_the_formula_and_both_fall_with_more_people(loss):
    found = [shuffled(loss, people, 1e-6) for people in (1, 100, 10_000, 1_000_000, 10**13)]
    for one in found:
        assert one.epsilon <= one.closed_form <= loss
        assert one.delta_at(one.epsilon) <= 1e-6
    for values in ([one.epsilon for one in found], [one.closed_form for one in found]):
        assert values == sorted(values, reverse=True)
    # the published formula, where it holds (Feldman, McMillan and Talwar 2021, theorem 3.1)
    top, people = math.exp(loss), 1_000_000
    rate = 8.0 * math.sqrt(top * math.log(4e6) / people) + 8.0 * top / people
    assert people > 16.0 * top * math.log(2e6)
    assert found[-2].closed_form <= math.log1p(math.tanh(0.5 * loss) * rate)


def test_the_extremes_are_answered():
    assert shuffled(50.0, 10, 1e-6).epsilon == pytest.approx(50.0)
    assert 0.0 <= shuffled(1e-6, 10, 1e-6).epsilon <= 1e-6
    assert shuffled(1.0, 2**60, 1e-15).epsilon < 1e-3
    assert shuffled(1.0, 10, 0.9).epsilon == 0.0
    assert shuffled(1.0, 10, 0.1).delta_at(1.0) == 0.0


def test_it_reads_a_spec_of_reports_and_says_what_nobody_checks():
    people = dpb.Schema(age=dpb.Range(18, 90))
    spec = dpb.local.Spec(contexts=people, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=2))
    found = shuffled(spec, people=10_000, delta=1e-6)
    assert found == shuffled(dpb.LocalDP(epsilon=2), 10_000, 1e-6) == shuffled(2, 10_000, 1e-6)
    assert [one.name for one in found.assumptions] == ["shuffler", "honest people", "one mechanism"]
    assert not any(one.enforced for one in found.assumptions)
    assert spec.statement().epsilon == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"local": 0},
        {"local": True},
        {"local": "2"},
        {"local": math.nan},
        {"local": 51},
        {"local": 1e-7},
        {"local": dpb.JointDP(epsilon=1, delta=1e-6)},
        {"local": dpb.DistributedDP(epsilon=1)},
        {"people": 0},
        {"people": 1.5},
        {"delta": 0},
        {"delta": 1e-16},
        {"delta": 1},
    ],
)
def test_numbers_without_a_certificate_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        shuffled(**{"local": 1.0, "people": 10, "delta": 1e-6} | wrong)


def test_a_spec_with_several_epsilons_has_no_certificate():
    spec = dpb.local.Spec(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["mail", "call"],
        privacy=dpb.LocalDP(epsilon=2),
        epsilons=[1, 2],
    )
    with pytest.raises(InvalidParameter, match="one epsilon"):
        shuffled(spec, people=10, delta=1e-6)
