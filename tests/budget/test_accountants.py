"""Accountants: limits that prove the promise, what each pays for, and analysts who adapt."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dpbandits.budget import Balance, Charge, Cost, MemoryLedger, SQLiteLedger, Terms, cost_of
from dpbandits.budget.accountants import gaussian_mu_of_pure, ways
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu, near_gaussian_sigma, rounding_distance, zcdp_rho
from dpbandits.privacy.certificates import GaussianDP, NearGaussianDP, PureDP, ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP

TWO = JointDP(2, 1e-5)


def near(epsilon, delta, draws=1000, lattice=2.0**20):
    sigma = near_gaussian_sigma(epsilon, delta, lattice, draws=draws)
    return NearGaussianDP(lattice / sigma, draws * rounding_distance(sigma))


def concentrated(epsilon, delta):
    return ZeroConcentratedDP(zcdp_rho(epsilon, delta))


def opened(privacy=TWO):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=privacy)
    return ledger


def paid_for(ledger, cost, most=500):
    """How many charges of this cost the account pays for."""
    for number in range(most):
        try:
            ledger.charge("people", charge_id=f"more {number}", cost=cost)
        except BudgetExceeded:
            return number
    return most


# -- what an account pays for -------------------------------------------------------------------------


def by_each_accountant(certificate, privacy, promise):
    """Charges that each of the three accountants alone pays for, from the certificate's own numbers."""
    fits = {"basic": min(promise.epsilon / privacy.epsilon, promise.delta / privacy.delta)}
    fits["zcdp"] = zcdp_rho(promise.epsilon, promise.delta) / certificate.to_zcdp().rho
    if isinstance(certificate, (GaussianDP, NearGaussianDP)):
        fits["gaussian"] = (gaussian_mu(promise.epsilon, promise.delta) / certificate.mu) ** 2
    return {name: math.floor(count * (1 + 1e-9)) for name, count in fits.items()}


@pytest.mark.parametrize("law", [near, concentrated, lambda e, d: GaussianDP(gaussian_mu(e, d))])
@pytest.mark.parametrize(
    ("epsilon", "delta", "promise"),
    [
        (0.5, 1e-6, TWO), (0.5, 2.5e-6, TWO), (0.2, 1e-9, TWO), (1.9, 1e-6, TWO), (1, 1e-6, TWO),
        (2, 1e-5, TWO), (1, 1e-6, JointDP(5, 2e-5)), (0.25, 1e-7, JointDP(1, 1e-6)),
        (0.5, 1e-6, JointDP(60, 1e-3)),
    ],
)  # fmt: skip
def test_policies_of_one_kind_are_paid_for_as_often_as_by_the_best_accountant(law, epsilon, delta, promise):
    privacy, certificate = JointDP(epsilon, delta), law(epsilon, delta)
    alone = by_each_accountant(certificate, privacy, promise) if promise.epsilon <= 50 else {"basic": 120}
    assert paid_for(opened(promise), cost_of(certificate, privacy=privacy)) >= max(alone.values())


@pytest.mark.parametrize(
    ("law", "delta", "accountant", "paid"),
    [(concentrated, 1e-6, "zcdp", 16), (near, 1e-6, "gaussian", 16), (near, 1e-7, "gaussian", 20)],
)
def test_how_many_policies_two_and_a_hundred_thousandth_pay_for(law, delta, accountant, paid):
    """Four by basic composition, whose epsilons add up to 2."""
    ledger, privacy = opened(), JointDP(0.5, delta)
    assert paid_for(ledger, cost_of(law(0.5, delta), privacy=privacy)) == paid
    assert ledger.balance("people").accountant == accountant
    assert accountant in ledger.balance("people").explain()
    bare = opened()
    assert paid_for(bare, Cost.of(privacy)) == min(4, int(1e-5 / delta))
    assert bare.balance("people").accountant == "basic"


@pytest.mark.parametrize("law", [near, concentrated])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.01, 1e-12), (10.0, 1e-6), (0.5, 1e-4)])
def test_an_account_pays_for_one_policy_of_its_own_promise(law, epsilon, delta):
    promise = JointDP(epsilon, delta)
    ledger, cost = opened(promise), cost_of(law(epsilon, delta), privacy=promise)
    for _ in range(2):  # a retry is the same charge
        balance = ledger.charge("people", charge_id="policy", cost=cost)
    assert balance.spent_epsilon == Decimal(repr(epsilon))
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", charge_id="more", cost=cost)


def test_pure_charges_add_up_and_the_first_other_decides_for_good():
    ledger = opened()
    for number in range(5):
        balance = ledger.charge("people", charge_id=str(number), cost=JointDP(0.1))
    assert (balance.accountant, balance.remaining_epsilon) == ("undecided", Decimal("1.5"))
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", charge_id="5", cost=JointDP(1.51))
    small = cost_of(near(0.25, 1e-6), privacy=JointDP(0.25, 1e-6))
    balance = ledger.charge("people", charge_id="policy", cost=small)
    assert (balance.accountant, balance.before.epsilon) == ("gaussian", Decimal("0.5"))
    # what is proven from here on is proven at epsilon 1.5
    fresh = opened(JointDP(1.5, 1e-5))
    assert paid_for(ledger, small) + 1 == paid_for(fresh, small)
    # what is known as a pair only cannot be added to it
    other = opened()
    other.charge("people", charge_id="a", cost=small)
    with pytest.raises(BudgetExceeded):
        other.charge("people", charge_id="b", cost=JointDP(0.1, 1e-7))


def test_a_gaussian_account_has_room_for_charges_that_are_only_concentrated():
    ledger, policy = opened(), cost_of(near(0.25, 1e-6), privacy=JointDP(0.25, 1e-6))
    ledger.charge("people", charge_id="policy", cost=policy)
    other = cost_of(concentrated(0.5, 1e-6), privacy=JointDP(0.5, 1e-6))
    balance = ledger.charge("people", charge_id="other", cost=other)
    limit = zcdp_rho(2, 1e-5 * 0.01)
    assert [name for name, *_ in balance.parts] == ["rho"]
    assert float(balance.parts[0][2]) == pytest.approx(limit, rel=1e-9)
    most = math.floor((limit - float(policy.rho)) / float(other.rho))
    assert paid_for(ledger, other) + 1 == most


def test_distances_from_gaussian_noise_are_bounded():
    """Each is paid for out of a hundredth of delta, whatever is left of mu^2."""
    ledger, unit = opened(), Cost.of(TWO).unit
    limit = 0.01 * 1e-5 / (1 + math.exp(2))
    cost = Cost(unit=unit, epsilon=0.1, delta=1e-7, mu=0.01, distance=limit / 4.01)
    assert paid_for(ledger, cost) == 4
    assert ledger.balance("people").accountant == "gaussian"


def test_without_a_delta_only_pure_charges_are_paid_for():
    ledger = opened(JointDP(1))
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", charge_id="a", cost=cost_of(near(0.1, 1e-9), privacy=JointDP(0.1, 1e-9)))
    assert paid_for(ledger, JointDP(0.25)) == 4


# -- limits -------------------------------------------------------------------------------------------


@given(st.floats(0.01, 80), st.floats(1e-12, 1e-3))
def test_limits_prove_the_promise_and_share_its_delta(epsilon, delta):
    exact = Decimal(repr(epsilon)), Decimal(repr(delta))
    at = min(epsilon, 50.0)
    used = {}
    for name in ("zcdp", "gaussian"):
        proven = []
        for way in ways(name, *exact):
            if "rho" in way.limits:
                proven.append(ZeroConcentratedDP(float(way.limits["rho"])).delta_at(at))
            else:
                mu = math.sqrt(way.limits["mu2"])
                apart = (1 + math.exp(at)) * float(way.limits["distance"])
                proven.append(GaussianDP(mu).delta_at(at) + apart)
        used[name] = sum(proven)
    for total in used.values():
        assert 0.999 * delta < total <= delta * (1 + 1e-12)
    assert [way.limits for way in ways("basic", *exact)] == [{"epsilon": exact[0], "delta": exact[1]}]
    assert [way.limits for way in ways("undecided", *exact)] == [{"epsilon": exact[0], "delta": 0}]


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5, 0.999, 1.0, 1.5, 4.0, 20.0])
def test_a_pure_mechanism_is_gaussian_and_not_more_so(epsilon):
    """The curve of randomised response, which tells most, against the Gaussian's."""
    mu = gaussian_mu_of_pure(epsilon)
    for level in np.linspace(0.0, epsilon, 101):
        gaussian = ndtr(0.5 * mu - level / mu) - math.exp(level) * ndtr(-0.5 * mu - level / mu)
        assert PureDP(epsilon).delta_at(level) <= gaussian * (1 + 1e-9) + 1e-16
    smaller = 0.999 * mu
    assert 2 * ndtr(0.5 * smaller) - 1 < PureDP(epsilon).delta_at(0.0)
    assert gaussian_mu_of_pure(1e4) is None


@pytest.mark.parametrize(
    ("epsilon", "delta", "enough"),
    [("1e-390", "1e-6", False), ("1e-330", "0.5", False), ("1", "0.99999999999", True), ("1", "1", True)],
)
def test_accounts_at_the_ends_of_their_range_pay_or_refuse_in_words(epsilon, delta, enough):
    promise = Terms(epsilon=Decimal(epsilon), delta=Decimal(delta), unit=Cost.of(TWO).unit)
    for certificate in (ZeroConcentratedDP(1e-3), GaussianDP(1e-2)):
        charge = cost_of(certificate, privacy=JointDP(1, 1e-6)).charged_to(promise, account="people")
        if enough:
            assert Balance(promise).charged(charge, account="people").accountant != "basic"
        else:
            with pytest.raises(BudgetExceeded):
                Balance(promise).charged(charge, account="people")


COSTS = st.one_of(
    st.floats(1e-3, 0.5).map(lambda epsilon: Cost.of(JointDP(epsilon))),
    st.floats(0.05, 1).map(lambda e: cost_of(near(e, 1e-7), privacy=JointDP(e, 1e-7))),
    st.floats(0.05, 1).map(lambda e: cost_of(concentrated(e, 1e-7), privacy=JointDP(e, 1e-7))),
    st.floats(0.05, 1).map(lambda e: Cost.of(JointDP(e, 1e-7))),
)


def proves(sums, epsilon, delta):
    """Whether basic composition, zCDP or Gaussian DP proves (epsilon, delta) of these sums, by itself."""
    if sums.epsilon <= Decimal(repr(epsilon)) and sums.delta <= Decimal(repr(delta)):
        return True
    if sums.rho.is_finite() and ZeroConcentratedDP(float(sums.rho) or 1e-300).delta_at(epsilon) <= delta:
        return True
    if not sums.mu2.is_finite():
        return False
    apart = (1 + math.exp(epsilon)) * float(sums.distance)
    return GaussianDP(math.sqrt(sums.mu2) or 1e-300).delta_at(epsilon) + apart <= delta


@given(st.lists(COSTS, max_size=40))
def test_whatever_is_charged_in_whatever_order_is_within_the_promise(costs):
    """The sums since the decision prove what the pure charges before it have left of epsilon."""
    ledger, epsilons = opened(), Fraction(0)
    for number, cost in enumerate(costs):
        before = ledger.balance("people")
        try:
            balance = ledger.charge("people", charge_id=str(number), cost=cost)
        except BudgetExceeded:
            assert ledger.balance("people") == before
            continue
        epsilons += Fraction(cost.epsilon)
        assert Fraction(balance.spent_epsilon) == epsilons
        assert ledger.charge("people", charge_id=str(number), cost=cost) == balance
        pure = float(balance.before.epsilon)
        since = Charge.of(
            now - then if now.is_finite() else now
            for now, then in zip(balance.spent.amounts, balance.before.amounts, strict=True)
        )
        if balance.accountant == "undecided":
            assert (balance.spent_epsilon <= 2, balance.spent_delta) == (True, 0)
        else:
            assert proves(since, (2.0 - pure) * (1 + 1e-15), 1e-5)
            assert balance.accountant == before.accountant or before.accountant == "undecided"


# -- analysts who adapt -------------------------------------------------------------------------------


def gaussian_delta(epsilon, mu):
    """Hockey-stick divergence at any real epsilon, also below 0."""
    if mu == 0.0:
        return np.maximum(0.0, 1.0 - np.exp(epsilon))
    return ndtr(0.5 * mu - epsilon / mu) - np.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("first", [0.2, 0.5, 0.8])
def test_an_analyst_who_adapts_gains_nothing(threshold, first):
    """A pure coin, then a Gaussian, then where both were lucky a Gaussian with all that is left.

    The exact divergence of the whole adaptive run, by integration over the first Gaussian answer, against the
    promise of the account that let it through. Choosing by luck what to spend is the analyst's only freedom.
    """
    promise, coin = JointDP(epsilon=2.0, delta=1e-4), 0.5
    ledger = opened(promise)
    ledger.charge("people", charge_id="coin", cost=JointDP(coin))
    (limit, _), *_ = (
        (way.limits.get("mu2"), way) for way in ways("gaussian", Decimal("1.5"), Decimal("0.0001"))
    )
    total, flip = math.sqrt(limit), 1.0 / (1.0 + math.exp(coin))
    mu = first * total
    rest = math.sqrt(total**2 - mu**2) * (1 - 1e-12)
    for name, one in (("1", mu), ("2", rest)):
        cost = cost_of(GaussianDP(one), privacy=JointDP(GaussianDP(one).epsilon_at(5e-5), 5e-5))
        assert ledger.charge("people", charge_id=name, cost=cost).accountant == "gaussian"

    answers = np.linspace(-12.0, 12.0 + mu, 40_001)
    density = np.exp(-0.5 * (answers - mu) ** 2) / math.sqrt(2 * math.pi)
    loss = mu * answers - 0.5 * mu**2  # log-likelihood ratio of the first Gaussian answer
    value = np.zeros_like(answers)
    for chance, ratio in ((1 - flip, coin), (flip, -coin)):
        lucky = (answers > threshold) & (ratio > 0)
        stops = np.maximum(0.0, 1.0 - np.exp(2.0 - loss - ratio))
        value = value + chance * np.where(lucky, gaussian_delta(2.0 - loss - ratio, rest), stops)
    delta = float(np.sum(value * density) * (answers[1] - answers[0]))
    assert 0.0 < delta <= promise.delta


def test_a_decision_survives_a_restart(tmp_path):
    path = tmp_path / "ledger.db"
    SQLiteLedger(path).open_account("people", privacy=TWO)
    SQLiteLedger(path).charge("people", charge_id="a", cost=JointDP(0.25))
    cost = cost_of(near(0.5, 1e-6), privacy=JointDP(0.5, 1e-6))
    balance = SQLiteLedger(path).charge("people", charge_id="b", cost=cost)
    assert SQLiteLedger(path).balance("people") == balance
    assert (balance.accountant, balance.before.epsilon) == ("gaussian", Decimal("0.25"))


def test_an_accountant_is_one_that_there_is():
    with pytest.raises(InvalidParameter, match="accountant"):
        Balance(Terms.of(TWO), accountant="renyi")


def test_bare_promises_with_a_delta_are_added_up_as_they_are():
    """Nothing more is proven of them: their deltas count, whatever their epsilons come to as zCDP."""
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=JointDP(2, 1e-5))
    for number in range(200):
        ledger.charge("people", charge_id=str(number), cost=JointDP(0.01, 1e-8))
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", charge_id="one more", cost=JointDP(0.01, 1e-8))
    assert ledger.balance("people").accountant == "basic"


# -- what was spent, as an epsilon --------------------------------------------------------------------


@pytest.mark.parametrize("law", [near, concentrated], ids=["gaussian", "zcdp"])
@pytest.mark.parametrize("pure", [0, 0.3])
def test_what_was_spent_is_the_smallest_epsilon_whose_account_pays_for_it(law, pure):
    """An account of that epsilon admits the same charges, and one of a millionth less does not."""
    cost, first = cost_of(law(0.5, 1e-6), privacy=JointDP(0.5, 1e-6)), Cost.of(JointDP(pure or 1))

    def charged(epsilon, count):
        balance = Balance(Terms.of(JointDP(epsilon, 1e-5)))
        for one in [first] * bool(pure) + [cost] * count:
            balance = balance.charged(one.charged_to(balance.terms, account="people"), account="people")
        return balance

    before = 0.0
    for count in (1, 2, 5, 9):
        spent = charged(2, count).spent_as_epsilon
        assert before < spent < 2
        assert charged(float(spent) * (1 + 1e-9), count).accountant == charged(2, count).accountant
        with pytest.raises(BudgetExceeded):
            charged(float(spent) * (1 - 1e-6), count)
        before = spent


def test_what_was_spent_reaches_the_promise_when_the_account_is_spent():
    for law in (near, concentrated, lambda e, d: GaussianDP(gaussian_mu(e, d))):
        ledger = opened()
        assert ledger.balance("people").spent_as_epsilon == 0
        ledger.charge(
            "people", charge_id="all", cost=cost_of(law(1.9999, 0.98e-5), privacy=JointDP(1.9999, 0.98e-5))
        )
        assert 1.99 < ledger.balance("people").spent_as_epsilon <= 2


def test_half_of_rho_costs_far_more_than_half_of_epsilon():
    ledger, rho = opened(), zcdp_rho(2.0, 1e-5)
    ledger.charge("people", charge_id="half", cost=cost_of(ZeroConcentratedDP(rho / 2), privacy=TWO))
    balance = ledger.balance("people")
    assert balance.accountant == "zcdp"
    [(_, spent, limit)] = balance.parts
    assert float(spent / limit) == pytest.approx(0.5, rel=1e-9)
    exact = ZeroConcentratedDP(rho / 2).epsilon_at(1e-5)
    assert float(balance.spent_as_epsilon) == pytest.approx(exact, rel=1e-9)
    assert 1.3 < exact < 1.4
    assert balance.spent_as_epsilon >= Decimal(exact)
    assert f"spent: epsilon {exact:.6g} of 2" in repr(balance)
    assert f"Spent: epsilon {exact:.6g} of 2" in balance.explain()


def test_what_was_spent_of_pure_charges_and_of_basic_composition_is_their_sum():
    ledger = opened()
    ledger.charge("people", charge_id="pure", cost=JointDP(0.25))
    assert ledger.balance("people").spent_as_epsilon == Decimal("0.25")
    ledger.charge("people", charge_id="both", cost=JointDP(0.5, 1e-6))
    assert ledger.balance("people").accountant == "basic"
    assert ledger.balance("people").spent_as_epsilon == Decimal("0.75")


def test_what_is_only_concentrated_is_converted_at_its_share_of_delta_in_a_gaussian_account():
    ledger = opened()
    ledger.charge("people", charge_id="near", cost=cost_of(near(0.2, 1e-7), privacy=JointDP(0.2, 1e-7)))
    by_mu = ledger.balance("people").spent_as_epsilon
    ledger.charge(
        "people", charge_id="rho", cost=cost_of(ZeroConcentratedDP(1e-4), privacy=JointDP(0.2, 1e-7))
    )
    balance = ledger.balance("people")
    assert balance.accountant == "gaussian"
    [(name, rho, _)] = balance.parts
    assert name == "rho"
    assert float(balance.spent_as_epsilon) == pytest.approx(
        ZeroConcentratedDP(float(rho)).epsilon_at(1e-7), rel=1e-9
    )
    assert balance.spent_as_epsilon > by_mu
