"""Both ledgers keep the same rules: exact budgets, idempotent charges, one copy that goes on."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import BudgetExceeded, ForkedState, InvalidParameter
from dpbandits.state import Balance, MemoryLedger, SQLiteLedger, Witness


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    return MemoryLedger() if request.param == "memory" else SQLiteLedger(tmp_path / "ledger.db")


def test_charges_add_up_exactly(ledger):
    ledger.open_account("study", epsilon=1.0, delta=1e-5)
    for i in range(10):
        balance = ledger.charge("study", charge_id=str(i), epsilon=0.1, delta=1e-6)
    assert balance == ledger.balance("study")
    assert balance.remaining_epsilon == 0
    assert balance.spent_epsilon == 1
    assert balance.spent_delta == balance.delta == Decimal("0.00001")
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.0 and delta 0"):
        ledger.charge("study", charge_id="11th", epsilon=1e-300)
    ledger.charge("study", charge_id="free", epsilon=0)


def test_a_charge_that_does_not_fit_changes_nothing(ledger):
    ledger.open_account("study", epsilon=1, delta=1e-6)
    ledger.charge("study", charge_id="a", epsilon=0.75)
    before = ledger.balance("study")
    for amounts in ({"epsilon": 0.2500000000000001}, {"epsilon": 0.1, "delta": 2e-6}):
        with pytest.raises(BudgetExceeded, match="'study'"):
            ledger.charge("study", charge_id="b", **amounts)
    assert ledger.balance("study") == before
    ledger.charge("study", charge_id="b", epsilon=0.25, delta=1e-6)  # the id was not used up
    assert ledger.balance("study") == Balance(
        Decimal(1), Decimal("0.000001"), Decimal("1.00"), Decimal("0.000001")
    )


def test_repeating_a_charge_is_the_same_charge(ledger):
    ledger.open_account("study", epsilon=1)
    first = ledger.charge("study", charge_id="a", epsilon=0.6)
    assert ledger.charge("study", charge_id="a", epsilon=0.6) == first
    assert ledger.charge("study", charge_id="a", epsilon=Decimal("0.60"), delta=0) == first
    for amounts in ({"epsilon": 0.5}, {"epsilon": 0.7}, {"epsilon": 0.6, "delta": 1e-9}):
        with pytest.raises(InvalidParameter, match="use a new id"):
            ledger.charge("study", charge_id="a", **amounts)
    assert ledger.balance("study") == first


def test_accounts_are_apart(ledger):
    ledger.open_account("a", epsilon=1)
    ledger.open_account("b", epsilon=2)
    ledger.charge("a", charge_id="x", epsilon=1)
    ledger.charge("b", charge_id="x", epsilon=2)
    assert ledger.balance("a").remaining_epsilon == ledger.balance("b").remaining_epsilon == 0


def test_opening_twice_needs_the_same_limits(ledger):
    ledger.open_account("a", epsilon=0.5, delta=1e-6)
    ledger.charge("a", charge_id="x", epsilon=0.5)
    ledger.open_account("a", epsilon=Decimal("0.50"), delta=1e-6)
    assert ledger.balance("a").remaining_epsilon == 0
    for limits in ({"epsilon": 1, "delta": 1e-6}, {"epsilon": 0.5}):
        with pytest.raises(InvalidParameter, match="cannot change"):
            ledger.open_account("a", **limits)


def test_amounts_are_the_decimals_that_floats_print_as(ledger):
    ledger.open_account("a", epsilon=1000)
    for i, amount in enumerate([0.1, np.float64(0.2), 1, np.int64(2), Decimal("0.3"), 10**20 / 10**20]):
        ledger.charge("a", charge_id=str(i), epsilon=amount)
    assert ledger.balance("a").spent_epsilon == Decimal("4.6")


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_sums_are_exact_whatever_the_order(amounts):
    balances = []
    for order in (amounts, amounts[::-1]):
        ledger = MemoryLedger()
        ledger.open_account("a", epsilon=Decimal("1e310"))
        for i, amount in enumerate(order):
            ledger.charge("a", charge_id=str(i), epsilon=amount)
        balances.append(ledger.balance("a").spent_epsilon)
    assert balances[0] == balances[1]
    assert Fraction(balances[0]) == sum(Fraction(Decimal(repr(amount))) for amount in amounts)


NO_NUMBERS = [True, "1", None, 1j, np.bool_(True), np.complex128(1)]
NO_AMOUNTS = [-0.1, float("nan"), float("inf"), Decimal("-1"), Decimal("NaN"), Decimal("sNaN")]
ABSURD = [Decimal("1e500"), Decimal("1e-500"), 10**500, Decimal("1." + "1" * 500)]


@pytest.mark.parametrize("amount", [*NO_NUMBERS, *NO_AMOUNTS, *ABSURD])
def test_what_is_no_budget_is_refused(ledger, amount):
    with pytest.raises(InvalidParameter):
        ledger.open_account("b", epsilon=amount)
    with pytest.raises(InvalidParameter):
        ledger.open_account("b", epsilon=1, delta=amount)
    ledger.open_account("a", epsilon=1)
    with pytest.raises(InvalidParameter):
        ledger.charge("a", charge_id="x", epsilon=amount)
    with pytest.raises(InvalidParameter):
        ledger.charge("a", charge_id="x", epsilon=1, delta=amount)
    assert ledger.balance("a").spent_epsilon == 0
    with pytest.raises(InvalidParameter, match="no account 'b'"):
        ledger.balance("b")


def test_names_are_checked(ledger):
    for name in ("", None, 7, "a\nb", "a\0b"):
        with pytest.raises(InvalidParameter):
            ledger.open_account(name, epsilon=1)
        with pytest.raises(InvalidParameter):
            ledger.charge("a", charge_id=name, epsilon=1)
        with pytest.raises(InvalidParameter):
            ledger.advance(name, position=0, digest="x")
        with pytest.raises(InvalidParameter):
            ledger.advance("a", position=0, digest=name)
    for position in (-1, 1.0, True, 2**63, "1"):
        with pytest.raises(InvalidParameter):
            ledger.advance("a", position=position, digest="x")
    with pytest.raises(InvalidParameter, match="no account"):
        ledger.charge("unknown", charge_id="x", epsilon=1)
    with pytest.raises(InvalidParameter, match="delta"):
        ledger.open_account("a", epsilon=1, delta=1.5)


def test_ids_of_charges_stay_out_of_messages_and_reprs(ledger):
    ledger.open_account("a", epsilon=1)
    ledger.charge("a", charge_id="canary", epsilon=0.5)
    with pytest.raises(InvalidParameter) as reused:
        ledger.charge("a", charge_id="canary", epsilon=0.25)
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.charge("a", charge_id="canary-2", epsilon=0.75)
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
