"""Accounts and costs: totals that promises imply, charges that certificates prove, to the safe side."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dpbandits.central import GPBandit
from dpbandits.domains import Box
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.models.kernels import SquaredExponential
from dpbandits.policy.accounts import (
    cost_of,
    cost_of_guarantee,
    epsilon_for,
    gaussian_mu_of_pure,
    open_account,
    terms_of,
)
from dpbandits.privacy.calibration import gaussian_mu, near_gaussian_sigma, rounding_distance, zcdp_rho
from dpbandits.privacy.certificates import (
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
)
from dpbandits.privacy.definitions import JointDP, LocalDP, NoPrivacy, RowDP
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.state import Cost, MemoryLedger

ONE = JointDP(epsilon=1, delta=1e-6)
PROMISES = [(1.0, 1e-6), (0.1, 1e-9), (0.01, 1e-12), (5.0, 1e-5), (10.0, 1e-6), (0.5, 1e-4)]


def near(epsilon, delta, draws=1000, lattice=2.0**20):
    sigma = near_gaussian_sigma(epsilon, delta, lattice, draws=draws)
    return NearGaussianDP(lattice / sigma, draws * rounding_distance(sigma))


# -- the gain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("currency", "certificate", "epsilon"),
    [
        ("bare", ZeroConcentratedDP(zcdp_rho(1, 1e-6)), 20.0),
        ("zcdp", ZeroConcentratedDP(zcdp_rho(1, 1e-6)), 4.500900),
        ("zcdp", near(1, 1e-6), 4.880491),  # less noise: calibrated to be nearly Gaussian
        ("gaussian", near(1, 1e-6), 4.501968),
        ("gaussian", GaussianDP(gaussian_mu(1, 1e-6)), 4.501945),
    ],
)
def test_twenty_releases_of_one_and_a_millionth(currency, certificate, epsilon):
    """Twenty releases of (1, 1e-6) are (4.5, 2e-5), not (20, 2e-5): an account of that pays for them."""
    cost = cost_of(certificate, privacy=ONE)
    needed = epsilon_for([cost] * 20, delta=2e-5, currency=currency)
    assert needed == pytest.approx(epsilon, abs=1e-6)
    distance = 20 * cost.distance if currency == "gaussian" else None
    for factor, paid in ((1.0, 20), (1 - 1e-6, 19)):
        ledger = MemoryLedger()
        promise = JointDP(epsilon=needed * factor, delta=2e-5)
        open_account(ledger, "people", privacy=promise, currency=currency, distance=distance)
        for number in range(paid):
            ledger.charge("people", charge_id=str(number), cost=cost)
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", charge_id="one more", cost=cost)


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_an_account_pays_for_one_release_of_its_own_promise(epsilon, delta):
    promise, nearly = JointDP(epsilon=epsilon, delta=delta), near(epsilon, delta)
    for currency, certificate, distance in (
        ("bare", ZeroConcentratedDP(zcdp_rho(epsilon, delta)), None),
        ("zcdp", ZeroConcentratedDP(zcdp_rho(epsilon, delta)), None),
        ("gaussian", GaussianDP(gaussian_mu(epsilon, delta)), 0),
        ("gaussian", nearly, nearly.distance),
    ):
        ledger = MemoryLedger()
        open_account(ledger, "people", privacy=promise, currency=currency, distance=distance)
        cost = cost_of(certificate, privacy=promise)
        ledger.charge("people", charge_id="a", cost=cost)
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", charge_id="b", cost=cost)


@pytest.mark.parametrize("currency", ["bare", "zcdp", "gaussian"])
@pytest.mark.parametrize("noise", [SecureNoise(), SecureNoise(certificate="concentrated"), SimulatedNoise(1)])
def test_a_default_account_pays_for_one_policy_of_its_promise_and_nothing_after(currency, noise):
    policy = GPBandit(
        kernel=SquaredExponential(lengthscale=0.4), domain=Box(low=[0], high=[1]), reward_range=(0, 1),
        horizon=1000, privacy=ONE, noise=noise,
    )  # fmt: skip
    ledger, cost = MemoryLedger(), cost_of_guarantee(policy.guarantee)
    open_account(ledger, "people", privacy=ONE, currency=currency)
    for _ in range(2):  # a retry is the same charge
        balance = ledger.charge("people", charge_id="policy", cost=cost)
    assert balance.simulated == isinstance(noise, SimulatedNoise)
    for more in (cost, cost_of(PureDP(1e-3)), cost_of(GaussianDP(1e-3))) if currency != "bare" else [cost]:
        with pytest.raises((BudgetExceeded, InvalidParameter)):
            ledger.charge("people", charge_id="more", cost=more)
    with pytest.raises(InvalidParameter, match="charged"):
        ledger.charge("people", charge_id="policy", cost=Cost(epsilon=2, delta=1e-6))


def test_all_of_an_account_is_for_its_first_charge_within_the_promise():
    whole = Cost(epsilon=1, delta=1e-6, rho=0.03)
    for before in (None, Cost(rho=1e-9)):
        for cost in (
            whole,
            Cost(epsilon=1.0001, delta=1e-6, rho=0.03),
            Cost(epsilon=1, delta=2e-6, rho=0.03),
            Cost(rho=0.03),
        ):
            ledger = MemoryLedger()
            open_account(ledger, "people", privacy=ONE, beside=(0.5, 5e-7))
            if before is not None:
                ledger.charge("people", charge_id="before", cost=before)
            if before is None and cost is whole:
                assert ledger.charge("people", charge_id="whole", cost=cost).remaining_loss == 0
                assert ledger.balance("people").remaining_epsilon == 0
                continue
            with pytest.raises(BudgetExceeded):
                ledger.charge("people", charge_id="whole", cost=cost)
    # what fits takes its part, as ever
    ledger = MemoryLedger()
    open_account(ledger, "people", privacy=ONE)
    assert (
        ledger.charge("people", charge_id="part", cost=Cost(epsilon=1, delta=1e-6, rho=0.01)).remaining_loss
        > 0
    )


# -- totals -----------------------------------------------------------------------------------------


@given(
    st.floats(0.01, 20), st.floats(1e-12, 1e-3), st.floats(0, 0.9), st.floats(0, 0.9),
    st.sampled_from(["zcdp", "gaussian"]), st.sampled_from([None, 0, 1e-14]),
)  # fmt: skip
def test_a_total_proves_what_the_account_promises(epsilon, delta, part, share, currency, distance):
    terms = terms_of(
        JointDP(epsilon=epsilon, delta=delta),
        currency=currency,
        beside=(part * epsilon, share * delta),
        distance=distance
        if currency == "gaussian" and (1 + math.exp(epsilon)) * 1e-13 < delta / 20
        else None,
    )
    assert (terms.epsilon, terms.delta) == (Decimal(repr(epsilon)), Decimal(repr(delta)))
    loss, chance = float(terms.epsilon - terms.beside_epsilon), float(terms.stated_at)
    if currency == "zcdp":
        certificate = ZeroConcentratedDP(float(terms.total))
        assert terms.distance == 0
    else:
        certificate = GaussianDP(float(terms.total))
    proven = certificate.delta_at(loss) + (1 + math.exp(loss)) * float(terms.distance)
    assert 0.98 * chance < proven <= chance * (1 + 1e-13)


def test_terms_say_whose_data_and_which_neighbours():
    account = terms_of(ONE)
    assert account.currency == "zcdp"
    assert "one user" in account.unit
    assert "replaced" in account.neighbours
    assert terms_of(JointDP(epsilon=1, delta=1e-6, rounds_per_user=3)).unit == account.unit
    row = terms_of(RowDP(epsilon=1, delta=1e-6, distance=0.5))
    assert "0.5" in row.unit
    local = terms_of(LocalDP(epsilon=8), currency="bare")
    assert (local.epsilon, local.delta) == (8, 0)
    assert len({account.unit, row.unit, local.unit}) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        {"privacy": LocalDP(epsilon=1)},
        {"privacy": JointDP(epsilon=1)},
        {"privacy": NoPrivacy(), "currency": "bare"},
        {"privacy": 1.0},
        {"privacy": ONE, "currency": "renyi"},
        {"privacy": ONE, "beside": (1, 0)},
        {"privacy": ONE, "beside": (0, 1e-6)},
        {"privacy": ONE, "beside": (2, 0)},
        {"privacy": ONE, "beside": (-1, 0)},
        {"privacy": ONE, "distance": 1e-9},
        {"privacy": ONE, "currency": "bare", "beside": (0.5, 0)},
        {"privacy": ONE, "currency": "bare", "distance": 1e-9},
        {"privacy": ONE, "currency": "gaussian", "distance": 1e-6},
        {"privacy": ONE, "currency": "gaussian", "distance": -1e-9},
        {"privacy": JointDP(epsilon=60, delta=1e-6), "currency": "gaussian"},
    ],
)
def test_accounts_that_cannot_be_are_refused(arguments):
    ledger = MemoryLedger()
    with pytest.raises(InvalidParameter):
        open_account(ledger, "people", **arguments)
    with pytest.raises(InvalidParameter, match="no account"):
        ledger.balance("people")


def test_opening_again_needs_the_same_terms():
    ledger = MemoryLedger()
    open_account(ledger, "people", privacy=ONE, beside=(0.25, 1e-7))
    open_account(ledger, "people", privacy=ONE, beside=(0.25, 1e-7))
    for other in ({"beside": (0.5, 1e-7)}, {}, {"currency": "gaussian", "beside": (0.25, 1e-7)}):
        with pytest.raises(InvalidParameter, match="cannot change"):
            open_account(ledger, "people", privacy=ONE, **other)


# -- costs ------------------------------------------------------------------------------------------


def test_what_each_certificate_costs():
    assert cost_of(PureDP(0.5)) == Cost(epsilon=0.5, rho=0.125, mu=cost_of(PureDP(0.5)).mu)
    assert cost_of(ZeroConcentratedDP(0.125)) == Cost(rho=0.125)
    assert cost_of(GaussianDP(0.5)) == Cost(rho=0.125, mu=0.5)
    assert cost_of(NearGaussianDP(0.5, 1e-9)).rho == Decimal("0.125")
    assert float(cost_of(NearGaussianDP(0.5, 1e-9)).distance) == pytest.approx(1e-9, rel=1e-13)
    assert cost_of(PureBeside(0.5, ZeroConcentratedDP(0.125))) == Cost(rho=0.25)
    both = cost_of(PureBeside(0.5, NearGaussianDP(0.5, 1e-9)))
    assert both.rho == Decimal("0.25")
    assert float(both.mu) == pytest.approx(math.hypot(0.5, gaussian_mu_of_pure(0.5)), rel=1e-12)
    assert both.distance == cost_of(NearGaussianDP(0.5, 1e-9)).distance
    promised = cost_of(None, privacy=ONE)
    assert (promised.epsilon, promised.delta, promised.rho, promised.mu) == (
        1,
        Decimal("0.000001"),
        None,
        None,
    )


@given(st.floats(1e-9, 20), st.floats(1e-16, 0.5))
def test_costs_are_rounded_up_and_hardly(value, distance):
    exact = Fraction(value)
    for certificate, rho in (
        (ZeroConcentratedDP(value), exact),
        (GaussianDP(value), exact**2 / 2),
        (NearGaussianDP(value, distance), exact**2 / 2),
        (PureDP(value), Fraction(Decimal(repr(value))) ** 2 / 2),
        (PureBeside(value, ZeroConcentratedDP(value)), Fraction(Decimal(repr(value))) ** 2 / 2 + exact),
    ):
        cost = cost_of(certificate)
        assert rho <= Fraction(cost.rho) <= rho * (1 + Fraction(1, 10**12))
    assert exact <= Fraction(cost_of(GaussianDP(value)).mu) <= exact * (1 + Fraction(1, 10**12))
    near_cost = cost_of(PureBeside(value, NearGaussianDP(value, distance)))
    squares = Fraction(gaussian_mu_of_pure(value)) ** 2 + exact**2
    assert squares <= Fraction(near_cost.mu) ** 2 <= squares * (1 + Fraction(1, 10**11))
    assert Fraction(distance) <= Fraction(near_cost.distance)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5, 0.999, 1.0, 1.5, 4.0, 20.0])
def test_a_pure_mechanism_is_gaussian_and_not_more_so(epsilon):
    """The curve of randomised response, which tells most, against the Gaussian's."""
    mu = gaussian_mu_of_pure(epsilon)
    levels = np.linspace(0.0, epsilon, 101)
    for level in levels:
        gaussian = ndtr(0.5 * mu - level / mu) - math.exp(level) * ndtr(-0.5 * mu - level / mu)
        assert PureDP(epsilon).delta_at(level) <= gaussian * (1 + 1e-9) + 1e-16
    smaller = 0.999 * mu
    assert 2 * ndtr(0.5 * smaller) - 1 < PureDP(epsilon).delta_at(0.0)
    with pytest.raises(InvalidParameter):
        gaussian_mu_of_pure(1e4)


@pytest.mark.parametrize("status", ["broken", "none", "enforce", None])
def test_what_nothing_proves_has_no_cost(status):
    with pytest.raises(InvalidParameter, match="status"):
        cost_of(PureDP(1.0), status=status)


def test_costs_need_something_proven():
    with pytest.raises(InvalidParameter, match="certificate, a promise"):
        cost_of(None)
    with pytest.raises(InvalidParameter, match="does not prove"):
        cost_of(PureDP(1.0), privacy=JointDP(epsilon=0.9))
    with pytest.raises(InvalidParameter, match="expected one of"):
        cost_of(1.0)
    with pytest.raises(InvalidParameter, match="an account keeps a promise"):
        cost_of(PureDP(1.0), privacy=NoPrivacy())
    assert cost_of(PureDP(1.0), status="simulated").simulated


def test_costs_of_one_room_are_refused_by_an_account_of_another():
    ledger = MemoryLedger()
    open_account(ledger, "people", privacy=ONE, currency="gaussian")
    certificate = GaussianDP(0.1)
    ledger.charge("people", charge_id="a", cost=cost_of(certificate, privacy=ONE))
    rows = RowDP(epsilon=1, delta=1e-6, distance=0.5)
    with pytest.raises(InvalidParameter, match="another unit"):
        ledger.charge("people", charge_id="b", cost=cost_of(certificate, privacy=rows))


def test_planning_refuses_what_a_currency_does_not_know():
    with pytest.raises(InvalidParameter):
        epsilon_for([cost_of(ZeroConcentratedDP(0.1))], delta=1e-6, currency="gaussian")
    with pytest.raises(InvalidParameter, match="sets aside"):
        epsilon_for([cost_of(None, privacy=ONE)], delta=1e-6)
    with pytest.raises(InvalidParameter, match="deltas"):
        epsilon_for([cost_of(None, privacy=ONE)] * 2, delta=1e-6, currency="bare")
    with pytest.raises(InvalidParameter, match="no epsilon"):
        epsilon_for([cost_of(GaussianDP(50.0))] * 9, delta=1e-6)


# -- adaptivity -------------------------------------------------------------------------------------


def gaussian_delta(epsilon, mu):
    """Hockey-stick divergence at any real epsilon, also below 0."""
    if mu == 0.0:
        return np.maximum(0.0, 1.0 - np.exp(epsilon))
    return ndtr(0.5 * mu - epsilon / mu) - np.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("first", [0.2, 0.5, 0.8])
def test_an_analyst_who_adapts_gains_nothing_over_a_total(threshold, first):
    """Gaussian, a coin where the first answer was lucky, Gaussian with what is left where both were.

    The exact divergence of the whole adaptive run, by integration over the first answer, against the promise
    of the account that let it through. Choosing by luck what to spend is the analyst's only freedom.
    """
    promise = JointDP(epsilon=2.0, delta=1e-4)
    terms = terms_of(promise, currency="gaussian", beside=(0.5, 0.0), distance=0)
    ledger, total = MemoryLedger(), float(terms.total)
    mu, flip = first * total, 1.0 / (1.0 + math.exp(0.5))
    rest = math.sqrt(total**2 - mu**2) * (1 - 1e-12)
    open_account(ledger, "people", privacy=promise, currency="gaussian", beside=(0.5, 0.0), distance=0)
    ledger.charge("people", charge_id="1", cost=cost_of(GaussianDP(mu)))
    ledger.charge("people", charge_id="2", epsilon=0.5)  # beside
    ledger.charge("people", charge_id="3", cost=cost_of(GaussianDP(rest)))

    answers = np.linspace(-12.0, 12.0 + mu, 40_001)
    density = np.exp(-0.5 * (answers - mu) ** 2) / math.sqrt(2 * math.pi)
    loss = mu * answers - 0.5 * mu**2  # log-likelihood ratio of the first answer
    lucky = answers > threshold
    value = np.where(lucky, 0.0, np.maximum(0.0, 1.0 - np.exp(2.0 - loss)))
    for chance, ratio in ((1 - flip, 0.5), (flip, -0.5)):
        goes_on = gaussian_delta(2.0 - loss - ratio, rest if ratio > 0 else 0.0)
        value = value + np.where(lucky, chance * goes_on, 0.0)
    delta = float(np.sum(value * density) * (answers[1] - answers[0]))
    assert 0.0 < delta <= promise.delta
