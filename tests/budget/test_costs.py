"""Costs: what certificates and guarantees come to, rounded to the safe side, and planning with them."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.budget import Cost, MemoryLedger, cost_of, cost_of_guarantee, epsilon_for, together
from dpbandits.budget.accountants import gaussian_mu_of_pure
from dpbandits.central import GPBandit
from dpbandits.domains import Box
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy.calibration import gaussian_mu, zcdp_rho
from dpbandits.privacy.certificates import (
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
)
from dpbandits.privacy.definitions import JointDP, NoPrivacy, RowDP
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from noises import UncountedNoise

ONE = JointDP(epsilon=1, delta=1e-6)
ANY = JointDP(epsilon=40, delta=1e-3)


def known(certificate):
    """What a certificate costs, under a promise that it proves."""
    return cost_of(certificate, privacy=ANY)


def test_what_each_certificate_costs():
    pure = cost_of(PureDP(0.5), privacy=JointDP(0.5, 1e-6))
    assert (pure.epsilon, pure.delta, pure.rho) == (Decimal("0.5"), 0, Decimal("0.125"))
    assert float(pure.mu) == pytest.approx(gaussian_mu_of_pure(0.5), rel=1e-12)
    assert (known(ZeroConcentratedDP(0.125)).rho, known(ZeroConcentratedDP(0.125)).mu) == (
        Decimal("0.125"),
        None,
    )
    assert (known(GaussianDP(0.5)).rho, known(GaussianDP(0.5)).mu) == (Decimal("0.125"), Decimal("0.5"))
    assert known(NearGaussianDP(0.5, 1e-9)).rho == Decimal("0.125")
    assert float(known(NearGaussianDP(0.5, 1e-9)).distance) == pytest.approx(1e-9, rel=1e-13)
    assert known(PureBeside(0.5, ZeroConcentratedDP(0.125))).rho == Decimal("0.25")
    both = known(PureBeside(0.5, NearGaussianDP(0.5, 1e-9)))
    assert both.rho == Decimal("0.25")
    assert float(both.mu) == pytest.approx(math.hypot(0.5, gaussian_mu_of_pure(0.5)), rel=1e-12)
    assert both.distance == known(NearGaussianDP(0.5, 1e-9)).distance
    promised = Cost.of(ONE)
    assert (promised.epsilon, promised.delta, promised.rho, promised.mu) == (
        1,
        Decimal("0.000001"),
        None,
        None,
    )


@pytest.mark.parametrize("epsilon", [700.0, 745.0, 800.0, 1e5])
def test_a_pure_certificate_of_any_epsilon_can_be_charged(epsilon):
    """Above 700 no Gaussian mechanism is named that gives away as much: nothing is proven in mu."""
    cost = cost_of(PureDP(epsilon), privacy=JointDP(epsilon))
    assert (cost.epsilon, cost.delta) == (Decimal(epsilon), 0)
    beside = cost_of(PureBeside(epsilon, GaussianDP(0.01)), privacy=JointDP(epsilon + 1.0, 1e-6))
    assert (cost.mu is None) == (beside.mu is None) == (epsilon > 700.0)
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=JointDP(2.0 * epsilon, 1e-6))
    balance = ledger.charge("people", charge_id="one", cost=cost)
    assert (balance.spent.epsilon, balance.accountant) == (Decimal(epsilon), "undecided")


@given(st.floats(1e-9, 3), st.floats(1e-16, 1e-12))
def test_costs_are_rounded_up_and_hardly(value, distance):
    exact = Fraction(value)
    for certificate, rho in (
        (ZeroConcentratedDP(value), exact),
        (GaussianDP(value), exact**2 / 2),
        (NearGaussianDP(value, distance), exact**2 / 2),
        (PureDP(value), Fraction(Decimal(repr(value))) ** 2 / 2),
        (PureBeside(value, ZeroConcentratedDP(value)), Fraction(Decimal(repr(value))) ** 2 / 2 + exact),
    ):
        cost = known(certificate)
        assert rho <= Fraction(cost.rho) <= rho * (1 + Fraction(1, 10**12))
    assert exact <= Fraction(known(GaussianDP(value)).mu) <= exact * (1 + Fraction(1, 10**12))
    near_cost = known(PureBeside(value, NearGaussianDP(value, distance)))
    squares = Fraction(gaussian_mu_of_pure(value)) ** 2 + exact**2
    assert squares <= Fraction(near_cost.mu) ** 2 <= squares * (1 + Fraction(1, 10**11))
    assert Fraction(distance) <= Fraction(near_cost.distance)


@pytest.mark.parametrize("status", ["broken", "none", "enforce", None])
def test_what_nothing_proves_has_no_cost(status):
    with pytest.raises(InvalidParameter, match="status"):
        cost_of(PureDP(1.0), privacy=JointDP(1), status=status)


def test_costs_need_something_proven():
    with pytest.raises(InvalidParameter, match="does not prove"):
        cost_of(PureDP(1.0), privacy=JointDP(epsilon=0.9))
    with pytest.raises(InvalidParameter, match="expected one of"):
        cost_of(1.0, privacy=ONE)
    with pytest.raises(InvalidParameter, match="an account needs a guarantee"):
        cost_of(PureDP(1.0), privacy=NoPrivacy())
    assert cost_of(PureDP(1.0), privacy=ONE, status="simulated").simulated


@pytest.mark.parametrize("noise", [SecureNoise(), UncountedNoise(), SimulatedNoise(1)])
def test_an_account_pays_for_one_policy_of_its_promise_and_nothing_after(noise):
    policy = GPBandit(
        kernel=SquaredExponential(lengthscale=0.4), domain=Box(low=[0], high=[1]), reward_range=(0, 1),
        horizon=1000, privacy=ONE, noise=noise,
    )  # fmt: skip
    ledger, cost = MemoryLedger(), cost_of_guarantee(policy.guarantee)
    ledger.open_account("people", privacy=ONE)
    for _ in range(2):  # a retry is the same charge
        balance = ledger.charge("people", charge_id="policy", cost=cost)
    assert balance.simulated == isinstance(noise, SimulatedNoise)
    for more in (cost, JointDP(1e-3), cost_of(GaussianDP(1e-3), privacy=JointDP(0.01, 1e-9))):
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", charge_id="more", cost=more)
    with pytest.raises(InvalidParameter, match="use a new id"):
        ledger.charge("people", charge_id="policy", cost=JointDP(2, 1e-6))


def test_costs_of_one_trust_model_are_refused_by_an_account_of_another():
    ledger, certificate = MemoryLedger(), GaussianDP(0.1)
    ledger.open_account("people", privacy=ONE)
    ledger.charge("people", charge_id="a", cost=cost_of(certificate, privacy=ONE))
    rows = RowDP(epsilon=1, delta=1e-6, distance=0.5)
    with pytest.raises(InvalidParameter, match="another unit"):
        ledger.charge("people", charge_id="b", cost=cost_of(certificate, privacy=rows))


def test_together_is_one_after_another():
    answer = cost_of(PureDP(0.25), privacy=JointDP(0.25))
    release = cost_of(NearGaussianDP(0.2, 1e-12), privacy=ONE, status="simulated")
    both = together([(answer, 4), (release, 1), (answer, 0)])
    assert (both.epsilon, both.delta, both.simulated) == (2, Decimal("0.000001"), True)
    assert both.rho == 4 * answer.rho + release.rho
    assert float(both.mu) == pytest.approx(math.hypot(2 * float(answer.mu), 0.2), rel=1e-12)
    assert both.distance == release.distance
    assert together([(answer, 1), (Cost.of(ONE), 1)]).mu is None
    for parts in ([], [(answer, 0)], [(answer, 1), (Cost.of(RowDP(1, distance=1)), 1)]):
        with pytest.raises(InvalidParameter, match="same unit"):
            together(parts)


@pytest.mark.parametrize(
    ("certificate", "epsilon"),
    [
        (None, 20.0),
        (ZeroConcentratedDP(zcdp_rho(1, 1e-6)), 4.5009),
        (GaussianDP(gaussian_mu(1, 1e-6)), 4.5071),
    ],
)
def test_twenty_releases_of_one_and_a_millionth(certificate, epsilon):
    """Twenty releases of (1, 1e-6) are (4.5, 2e-5), not (20, 2e-5): an account of that pays for them."""
    cost = Cost.of(ONE) if certificate is None else cost_of(certificate, privacy=ONE)
    needed = epsilon_for([cost] * 20, delta=2e-5)
    assert needed == pytest.approx(epsilon, abs=1e-3)
    for factor, paid in ((1.0, 20), (1 - 1e-6, 19)):
        ledger = MemoryLedger()
        ledger.open_account("people", privacy=JointDP(epsilon=needed * factor, delta=2e-5))
        for number in range(paid):
            ledger.charge("people", charge_id=str(number), cost=cost)
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", charge_id="one more", cost=cost)


def test_planning_refuses_what_no_epsilon_pays_for():
    assert epsilon_for([], delta=1e-6) == 0
    with pytest.raises(InvalidParameter, match="no epsilon"):
        epsilon_for([Cost.of(ONE)] * 2, delta=1e-6)
    with pytest.raises(InvalidParameter, match="another unit"):
        epsilon_for([Cost.of(ONE), Cost.of(RowDP(1, distance=1))], delta=1e-6)
