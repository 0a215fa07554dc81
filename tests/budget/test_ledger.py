"""Both ledgers keep the same rules: exact budgets, idempotent charges, one copy that goes on."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.budget import Charge, Cost, MemoryLedger, SQLiteLedger, Terms, Unit
from dpbandits.budget.units import Moves, unit_of
from dpbandits.errors import BudgetExceeded, ForkedState, InvalidParameter
from dpbandits.privacy.definitions import JointDP, NoPrivacy
from dpbandits.state import Witness

USER = unit_of(JointDP(1))


def holds(epsilon, delta=0):
    """Terms of one user's account, of any exact amounts."""
    return Terms(epsilon=epsilon, delta=delta, unit=USER)


def pays(epsilon, delta=0, **known):
    """A cost for one user."""
    return Cost(unit=USER, epsilon=epsilon, delta=delta, **known)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    return MemoryLedger() if request.param == "memory" else SQLiteLedger(tmp_path / "ledger.db")


def test_charges_add_up_exactly(ledger):
    ledger.open_account("study", privacy=holds(1.0, 1e-5))
    for i in range(10):
        balance = ledger.charge("study", charge_id=str(i), cost=pays(0.1, 1e-6))
    assert balance == ledger.balance("study")
    assert balance.remaining_epsilon == 0
    assert balance.spent_epsilon == 1
    assert balance.spent_delta == balance.terms.delta == Decimal("0.00001")
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.0, delta 0"):
        ledger.charge("study", charge_id="11th", cost=pays(1e-300))
    ledger.charge("study", charge_id="free", cost=pays(0))


def test_a_charge_that_does_not_fit_changes_nothing(ledger):
    ledger.open_account("study", privacy=holds(1, 1e-6))
    ledger.charge("study", charge_id="a", cost=pays(0.75))
    before = ledger.balance("study")
    for cost in (pays(0.2500000000000001), pays(0.1, 2e-6)):
        with pytest.raises(BudgetExceeded, match="'study'"):
            ledger.charge("study", charge_id="b", cost=cost)
    assert ledger.balance("study") == before
    ledger.charge("study", charge_id="b", cost=pays(0.25, 1e-6))  # the id was not used up
    assert ledger.balance("study").spent[:2] == (Decimal("1.00"), Decimal("0.000001"))


def test_repeating_a_charge_is_the_same_charge(ledger):
    ledger.open_account("study", privacy=holds(1))
    first = ledger.charge("study", charge_id="a", cost=pays(0.6))
    assert ledger.charge("study", charge_id="a", cost=pays(0.6)) == first
    assert ledger.charge("study", charge_id="a", cost=pays(Decimal("0.60"))) == first
    for cost in (pays(0.5), pays(0.7), pays(0.6, 1e-9), pays(0.6, simulated=True)):
        with pytest.raises(InvalidParameter, match="use a new id"):
            ledger.charge("study", charge_id="a", cost=cost)
    assert ledger.balance("study") == first


def test_what_an_id_paid_is_known(ledger):
    ledger.open_account("study", privacy=holds(1))
    ledger.open_account("other", privacy=holds(1))
    ledger.charge("study", charge_id="a", cost=pays(0.6))
    assert ledger.charged("study", "a").epsilon == Decimal("0.6")
    assert ledger.charged("study", "b") is None
    assert ledger.charged("other", "a") is None
    for account, charge_id in (("nobody", "a"), ("study", ""), ("study", 7)):
        with pytest.raises(InvalidParameter):
            ledger.charged(account, charge_id)


def test_accounts_are_apart(ledger):
    ledger.open_account("a", privacy=holds(1))
    ledger.open_account("b", privacy=holds(2))
    ledger.charge("a", charge_id="x", cost=pays(1))
    ledger.charge("b", charge_id="x", cost=pays(2))
    assert ledger.balance("a").remaining_epsilon == ledger.balance("b").remaining_epsilon == 0


def test_opening_twice_needs_the_same_limits(ledger):
    ledger.open_account("a", privacy=holds(0.5, 1e-6))
    ledger.charge("a", charge_id="x", cost=pays(0.5))
    ledger.open_account("a", privacy=holds(Decimal("0.50"), 1e-6))
    assert ledger.balance("a").remaining_epsilon == 0
    other = Terms(epsilon=0.5, delta=1e-6, unit=Unit("one household", USER.neighbours))
    for name, terms in {"epsilon": holds(1, 1e-6), "delta": holds(0.5), "unit": other}.items():
        with pytest.raises(InvalidParameter, match=f"{name}.*cannot change"):
            ledger.open_account("a", privacy=terms)


def test_amounts_are_the_decimals_that_floats_print_as(ledger):
    ledger.open_account("a", privacy=holds(1000))
    for i, amount in enumerate([0.1, np.float64(0.2), 1, np.int64(2), Decimal("0.3"), 10**20 / 10**20]):
        ledger.charge("a", charge_id=str(i), cost=pays(amount))
    assert ledger.balance("a").spent_epsilon == Decimal("4.6")


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_sums_are_exact_whatever_the_order(amounts):
    balances = []
    for order in (amounts, amounts[::-1]):
        ledger = MemoryLedger()
        ledger.open_account("a", privacy=holds(Decimal("1e310")))
        for i, amount in enumerate(order):
            ledger.charge("a", charge_id=str(i), cost=pays(amount))
        balances.append(ledger.balance("a").spent_epsilon)
    assert balances[0] == balances[1]
    assert Fraction(balances[0]) == sum(Fraction(Decimal(repr(amount))) for amount in amounts)


NO_NUMBERS = [True, "1", None, 1j, np.bool_(True), np.complex128(1)]
NO_AMOUNTS = [-0.1, float("nan"), float("inf"), Decimal("-1"), Decimal("NaN"), Decimal("sNaN")]
ABSURD = [Decimal("1e500"), Decimal("1e-500"), 10**500, Decimal("1." + "1" * 500)]


@pytest.mark.parametrize("amount", [*NO_NUMBERS, *NO_AMOUNTS, *ABSURD])
def test_what_is_no_budget_is_refused(ledger, amount):
    with pytest.raises(InvalidParameter):
        ledger.open_account("b", privacy=holds(amount))
    with pytest.raises(InvalidParameter):
        ledger.open_account("b", privacy=holds(1, amount))
    ledger.open_account("a", privacy=holds(1))
    with pytest.raises(InvalidParameter):
        ledger.charge("a", charge_id="x", cost=pays(amount))
    with pytest.raises(InvalidParameter):
        ledger.charge("a", charge_id="x", cost=pays(1, amount))
    assert ledger.balance("a").spent_epsilon == 0
    with pytest.raises(InvalidParameter, match="no account 'b'"):
        ledger.balance("b")


def test_names_are_checked(ledger):
    for name in ("", None, 7, "a\nb", "a\0b"):
        with pytest.raises(InvalidParameter):
            ledger.open_account(name, privacy=holds(1))
        with pytest.raises(InvalidParameter):
            ledger.charge("a", charge_id=name, cost=pays(1))
        with pytest.raises(InvalidParameter):
            ledger.advance(name, position=0, digest="x")
        with pytest.raises(InvalidParameter):
            ledger.advance("a", position=0, digest=name)
    for position in (-1, 1.0, True, 2**63, "1"):
        with pytest.raises(InvalidParameter):
            ledger.advance("a", position=position, digest="x")
    with pytest.raises(InvalidParameter, match="no account"):
        ledger.charge("unknown", charge_id="x", cost=pays(1))
    with pytest.raises(InvalidParameter, match="delta"):
        ledger.open_account("a", privacy=holds(1, 1.5))


@pytest.mark.parametrize("other", [" ward", "ward ", "\u00a0ward", "Cafe\u0301", 51624, b"ward"])
def test_an_accounts_name_is_written_one_way(ledger, other):
    """With a blank or a loose accent it would look the same, and be a second account of the same people."""
    for name in ("ward", "Caf\u00e9", "51624"):
        ledger.open_account(name, privacy=holds(1))
    with pytest.raises(InvalidParameter, match="account's name"):
        ledger.open_account(other, privacy=holds(1))


def test_ids_of_charges_stay_out_of_messages_and_reprs(ledger):
    ledger.open_account("a", privacy=holds(1))
    ledger.charge("a", charge_id="canary", cost=pays(0.5))
    with pytest.raises(InvalidParameter) as reused:
        ledger.charge("a", charge_id="canary", cost=pays(0.25))
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.charge("a", charge_id="canary-2", cost=pays(0.75))
    assert "canary" not in f"{reused.value} {exceeded.value}"
    assert "canary" not in repr(ledger)


def test_the_witness_is_compare_and_set(ledger):
    assert ledger.last("life") is None
    ledger.advance("life", position=5, digest="five")  # first sight: anywhere
    ledger.advance("life", position=6, digest="six")
    ledger.advance("life", position=6, digest="six")
    assert ledger.last("life") == Witness(6, "six")
    for position, digest in ((6, "other"), (5, "five"), (8, "eight"), (0, "zero")):
        with pytest.raises(ForkedState, match="position 6"):
            ledger.advance("life", position=position, digest=digest)
    assert ledger.last("life") == Witness(6, "six")
    ledger.advance("other", position=0, digest="zero")
    ledger.advance("life", position=7, digest="seven")
    assert ledger.last("other") == (0, "zero")


# -- what an account takes -------------------------------------------------------------------------


def test_an_account_remembers_that_noise_could_be_repeated(ledger):
    ledger.open_account("people", privacy=JointDP(1, 1e-6))
    assert not ledger.charge("people", charge_id="a", cost=pays(0.1)).simulated
    assert ledger.charge("people", charge_id="b", cost=pays(0.1, simulated=True)).simulated
    assert ledger.charge("people", charge_id="c", cost=pays(0.1)).simulated
    assert ledger.balance("people").simulated
    with pytest.raises(InvalidParameter, match="use a new id"):
        ledger.charge("people", charge_id="a", cost=pays(0.1, simulated=True))


def test_a_promise_stands_for_its_cost(ledger):
    ledger.open_account("people", privacy=JointDP(1, 1e-6))
    first = ledger.charge("people", charge_id="a", cost=JointDP(0.5, 1e-7))
    assert ledger.charge("people", charge_id="a", cost=pays(0.5, 1e-7)) == first
    assert ledger.after("people", cost=JointDP(0.5, 1e-7)).spent_epsilon == 1
    assert ledger.balance("people") == first


@pytest.mark.parametrize("amount", [*NO_NUMBERS[:2], *NO_NUMBERS[3:], *NO_AMOUNTS, *ABSURD])
@pytest.mark.parametrize("name", ["rho", "mu", "epsilon", "delta", "distance"])
def test_what_is_no_cost_is_refused(name, amount):
    with pytest.raises(InvalidParameter):
        Cost(**{"unit": USER, "epsilon": 1, "mu": 1, name: amount})


@pytest.mark.parametrize("unit", [None, "", "one user", ("one user", "replaced"), 7])
def test_no_account_and_no_cost_is_without_a_unit(ledger, unit):
    with pytest.raises(InvalidParameter, match="unit"):
        Terms(epsilon=1, unit=unit)
    with pytest.raises(InvalidParameter, match="unit"):
        Cost(epsilon=1, unit=unit)
    for texts in ((unit, "replaced"), ("one user", unit)):
        if unit != "one user":
            with pytest.raises(InvalidParameter, match="printable"):
                Unit(*texts)
    with pytest.raises(TypeError):
        Terms(epsilon=1)
    with pytest.raises(TypeError):
        Cost(epsilon=1)


def test_calls_are_checked(ledger):
    ledger.open_account("people", privacy=JointDP(1, 1e-6))
    for cost in (0.5, None, NoPrivacy(), (1, 2), {"epsilon": 1}, holds(1)):
        with pytest.raises(InvalidParameter):
            ledger.charge("people", charge_id="a", cost=cost)
        if cost != holds(1):
            with pytest.raises(InvalidParameter):
                ledger.open_account("other", privacy=cost)
    with pytest.raises(InvalidParameter):
        pays(1, distance=1e-9)
    with pytest.raises(InvalidParameter):
        pays(1, simulated=1)
    assert ledger.balance("people").spent == Charge()
    with pytest.raises(InvalidParameter, match="no account"):
        ledger.balance("other")


@given(
    st.floats(1, 50), st.floats(1e-6, 1), st.sampled_from(["one user", 'a "quoted" ü']),
    st.none() | st.tuples(st.floats(1e-3, 1e3), st.integers(1, 9), st.floats(0, 10)),
)  # fmt: skip
def test_terms_survive_their_text(epsilon, delta, whose, moves):
    if moves is not None:
        exact = Decimal(repr(moves[0])), moves[1], Decimal(repr(moves[2]))
        moves = Moves(*exact)
    terms = Terms(epsilon=epsilon, delta=delta, unit=Unit(whose, "replaced", moves))
    assert Terms.from_json(terms.to_json()) == terms
