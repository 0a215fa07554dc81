"""Both ledgers keep the same rules: exact budgets, idempotent charges, one copy that goes on."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import BudgetExceeded, ForkedState, InvalidParameter
from dpbandits.state import Balance, Cost, MemoryLedger, SQLiteLedger, Terms, Witness


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


def test_what_an_id_paid_is_known(ledger):
    ledger.open_account("study", epsilon=1)
    ledger.open_account("other", epsilon=1)
    ledger.charge("study", charge_id="a", epsilon=0.6)
    assert ledger.charged("study", "a").epsilon == Decimal("0.6")
    assert ledger.charged("study", "b") is None
    assert ledger.charged("other", "a") is None
    for account, charge_id in (("nobody", "a"), ("study", ""), ("study", 7)):
        with pytest.raises(InvalidParameter):
            ledger.charged(account, charge_id)


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


@pytest.mark.parametrize("other", [" ward", "ward ", "\u00a0ward", "Cafe\u0301", 51624, b"ward"])
def test_an_accounts_name_is_written_one_way(ledger, other):
    """With a blank or a loose accent it would look the same, and be a second account of the same people."""
    for name in ("ward", "Caf\u00e9", "51624"):
        ledger.open_account(name, epsilon=1)
    with pytest.raises(InvalidParameter, match="account's name"):
        ledger.open_account(other, epsilon=1)


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


# -- currencies -------------------------------------------------------------------------------------

ZCDP = Terms(
    epsilon=2, delta=1e-6, currency="zcdp", total=0.5, beside_epsilon=1, beside_delta=1e-7,
    unit="one user", neighbours="one user replaced",
)  # fmt: skip
GAUSSIAN = replace(ZCDP, currency="gaussian", distance=Decimal("1e-9"))


def test_rhos_add_up_exactly(ledger):
    ledger.open_account("people", terms=ZCDP)
    for i in range(5):
        balance = ledger.charge("people", charge_id=str(i), cost=Cost(rho=0.1))
    assert balance.remaining_loss == 0
    assert balance == ledger.balance("people")
    with pytest.raises(BudgetExceeded, match=r"rho 0\.0 left.*rho 1E-300"):
        ledger.charge("people", charge_id="more", cost=Cost(rho=1e-300))
    assert ledger.balance("people") == balance
    ledger.charge("people", charge_id="beside", epsilon=1, delta=1e-7)  # that filter is another


def test_a_pure_charge_costs_half_its_square_in_zcdp(ledger):
    ledger.open_account("people", terms=ZCDP)
    balance = ledger.charge("people", charge_id="a", epsilon=0.6)  # .18
    assert balance.spent_loss == Decimal("0.18")
    assert balance.spent_epsilon == 0
    balance = ledger.charge("people", charge_id="b", cost=Cost(epsilon=0.8, delta=0))  # .32
    assert balance.remaining_loss == 0
    with pytest.raises(BudgetExceeded, match="rho"):
        ledger.charge("people", charge_id="c", epsilon=0.1)


def test_mus_add_up_in_squares_exactly(ledger):
    ledger.open_account("people", terms=GAUSSIAN)
    ledger.charge("people", charge_id="a", cost=Cost(mu=0.3))
    with pytest.raises(BudgetExceeded, match=r"mu\^2 0\.16 and distance"):
        ledger.charge("people", charge_id="b", cost=Cost(mu=Decimal("0.4000000000000000000000000000000001")))
    balance = ledger.charge("people", charge_id="b", cost=Cost(mu=0.4))
    assert balance.remaining_loss == 0
    assert balance.spent_loss == Decimal("0.25")


def test_distances_are_paid_apart_from_mu(ledger):
    ledger.open_account("people", terms=GAUSSIAN)
    ledger.charge("people", charge_id="a", cost=Cost(mu=0.1, distance=6e-10))
    with pytest.raises(BudgetExceeded, match=r"distance 4E-10 left.*distance 5E-10"):
        ledger.charge("people", charge_id="b", cost=Cost(mu=0.1, distance=5e-10))
    balance = ledger.charge("people", charge_id="b", cost=Cost(mu=0.1, distance=4e-10))
    assert balance.remaining_distance == 0


@pytest.mark.parametrize("terms", [ZCDP, GAUSSIAN])
def test_bare_charges_spend_what_was_set_aside_and_nothing_else(ledger, terms):
    ledger.open_account("people", terms=terms)
    balance = ledger.charge("people", charge_id="a", epsilon=0.75, delta=1e-7)
    assert (balance.remaining_epsilon, balance.remaining_delta) == (Decimal("0.25"), 0)
    assert balance.spent_loss == 0
    with pytest.raises(BudgetExceeded, match="set aside"):
        ledger.charge("people", charge_id="b", epsilon=0.25, delta=1e-8)
    ledger.charge("people", charge_id="c", cost=Cost(rho=0.125, mu=0.5))  # all of mu, a quarter of rho


def test_an_account_takes_a_cost_in_its_own_currency(ledger):
    cost = Cost(epsilon=0.5, delta=1e-8, rho=0.125, mu=0.25, distance=1e-10)
    spent = {}
    for name, terms in (("bare", Terms(epsilon=1, delta=1e-6)), ("zcdp", ZCDP), ("gaussian", GAUSSIAN)):
        ledger.open_account(name, terms=terms)
        spent[name] = ledger.charge(name, charge_id="a", cost=cost).spent.amounts
    assert spent == {
        "bare": (Decimal("0.5"), Decimal("1e-8"), 0, 0),
        "zcdp": (0, 0, Decimal("0.125"), 0),
        "gaussian": (0, 0, Decimal("0.0625"), Decimal("1e-10")),
    }


def test_a_cost_that_an_account_cannot_add_up_is_refused(ledger):
    ledger.open_account("bare", epsilon=1)
    ledger.open_account("zcdp", terms=ZCDP)
    ledger.open_account("gaussian", terms=GAUSSIAN)
    for account, cost in (
        ("bare", Cost(rho=0.1)),
        ("bare", Cost(mu=0.1)),
        ("zcdp", Cost(mu=0.1)),
        ("gaussian", Cost(rho=0.1)),
    ):
        with pytest.raises(InvalidParameter, match="not known"):
            ledger.charge(account, charge_id="a", cost=cost)
        assert not any(ledger.balance(account).spent.amounts)
    # zCDP is not Gaussian DP: it pays with its bare promise, where some was set aside
    balance = ledger.charge("gaussian", charge_id="a", cost=Cost(rho=0.1, epsilon=0.5, delta=1e-8))
    assert balance.spent_epsilon == Decimal("0.5")
    assert balance.spent_loss == 0


def test_a_cost_of_another_unit_is_refused(ledger):
    ledger.open_account("people", terms=ZCDP)
    for other in ({"unit": "one row"}, {"neighbours": "one row moved"}):
        with pytest.raises(InvalidParameter, match="protects another"):
            ledger.charge("people", charge_id="a", cost=Cost(rho=0.1, **other))
    ledger.charge("people", charge_id="a", cost=Cost(rho=0.1, unit=ZCDP.unit, neighbours=ZCDP.neighbours))


def test_an_account_remembers_that_noise_could_be_repeated(ledger):
    ledger.open_account("people", terms=ZCDP)
    assert not ledger.charge("people", charge_id="a", cost=Cost(rho=0.1)).simulated
    assert ledger.charge("people", charge_id="b", cost=Cost(rho=0.1, simulated=True)).simulated
    assert ledger.charge("people", charge_id="c", cost=Cost(rho=0.1)).simulated
    assert ledger.balance("people").simulated
    with pytest.raises(InvalidParameter, match="use a new id"):
        ledger.charge("people", charge_id="a", cost=Cost(rho=0.1, simulated=True))


def test_repeating_a_charge_in_another_form_is_the_same_charge(ledger):
    ledger.open_account("bare", epsilon=1, delta=1e-6)
    ledger.open_account("gaussian", terms=GAUSSIAN)
    first = ledger.charge("bare", charge_id="a", epsilon=0.5, delta=1e-7)
    assert ledger.charge("bare", charge_id="a", cost=Cost(epsilon=0.5, delta=1e-7, rho=0.1)) == first
    second = ledger.charge("gaussian", charge_id="a", cost=Cost(mu=0.1, distance=1e-10))
    assert ledger.charge("gaussian", charge_id="a", cost=Cost(mu=0.1, distance=1e-10, rho=0.005)) == second
    for other in (Cost(mu=0.1), Cost(mu=0.11, distance=1e-10), Cost(epsilon=0.1, delta=1e-8)):
        with pytest.raises(InvalidParameter, match="use a new id"):
            ledger.charge("gaussian", charge_id="a", cost=other)
    assert ledger.balance("gaussian") == second


def test_every_term_is_fixed(ledger):
    ledger.open_account("people", terms=GAUSSIAN)
    ledger.open_account("people", terms=replace(GAUSSIAN, total=Decimal("0.50")))
    for name, other in {
        "epsilon": 3, "delta": 2e-6, "currency": "zcdp", "total": 0.6, "distance": 2e-9,
        "beside_epsilon": 0.5, "beside_delta": 2e-7, "unit": "one row", "neighbours": "others",
    }.items():  # fmt: skip
        changes = {name: other} if name != "currency" else {name: other, "distance": 0}
        with pytest.raises(InvalidParameter, match=f"{name}.*cannot change"):
            ledger.open_account("people", terms=replace(GAUSSIAN, **changes))
    with pytest.raises(InvalidParameter, match="cannot change"):
        ledger.open_account("people", epsilon=2, delta=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"total": 0}, {"total": -1}, {"total": float("nan")}, {"beside_epsilon": 2}, {"beside_delta": 1e-6},
        {"beside_epsilon": 3}, {"distance": 1e-9}, {"currency": "renyi"}, {"currency": None}, {"delta": 1.5},
        {"unit": None}, {"unit": "a\nb"}, {"unit": "x" * 1001}, {"neighbours": 7}, {"epsilon": True},
        {"currency": "bare"},
    ],
)  # fmt: skip
def test_terms_that_contradict_themselves_are_refused(change):
    with pytest.raises(InvalidParameter):
        replace(ZCDP, **change)


@pytest.mark.parametrize("amount", [*NO_NUMBERS[:2], *NO_NUMBERS[3:], *NO_AMOUNTS, *ABSURD])
@pytest.mark.parametrize("name", ["rho", "mu", "epsilon"])
def test_what_is_no_cost_is_refused(name, amount):
    with pytest.raises(InvalidParameter):
        Cost(**{name: amount})


def test_costs_and_calls_are_checked(ledger):
    for parts in (
        {},
        {"delta": 1e-6},
        {"distance": 1e-9},
        {"rho": 1, "distance": 1e-9},
        {"rho": 1, "simulated": 1},
    ):
        with pytest.raises(InvalidParameter):
            Cost(**parts)
    ledger.open_account("people", terms=ZCDP)
    for call in (
        lambda: ledger.charge("people", charge_id="a"),
        lambda: ledger.charge("people", charge_id="a", cost=0.5),
        lambda: ledger.charge("people", charge_id="a", epsilon=0.1, cost=Cost(rho=0.1)),
        lambda: ledger.charge("people", charge_id="a", delta=0.1, cost=Cost(rho=0.1)),
        lambda: ledger.open_account("other"),
        lambda: ledger.open_account("other", epsilon=1, terms=ZCDP),
        lambda: ledger.open_account("other", terms=(1, 2)),
    ):
        with pytest.raises(InvalidParameter):
            call()
    assert not any(ledger.balance("people").spent.amounts)


AMOUNTS = st.one_of(st.floats(0, 0.5), st.floats(0, 1e-9), st.sampled_from([0.0, 0.1, 0.3, 0.4, 0.5, 1.0]))
COSTS = st.builds(
    Cost, epsilon=AMOUNTS, delta=st.sampled_from([0.0, 3e-8, 1e-7]), rho=st.none() | AMOUNTS,
    mu=st.just(0.0) | AMOUNTS, distance=st.sampled_from([0.0, 4e-10, 1e-9]),
)  # fmt: skip


@given(
    st.sampled_from([ZCDP, GAUSSIAN, Terms(epsilon=1, delta=1e-7)]),
    st.lists(COSTS, max_size=12),
    st.randoms(),
)
def test_no_order_of_charges_exceeds_a_total_or_refuses_what_fits(terms, costs, rng):
    """Against fractions, whatever the order, and whatever an analyst does with refusals in between."""
    rng.shuffle(costs)
    ledger = MemoryLedger()
    ledger.open_account("people", terms=terms)
    limits = [Fraction(limit) for limit in terms.limits.amounts]
    if terms.currency == "gaussian":
        assert limits[2] == Fraction(terms.total) ** 2
    spent = [Fraction(0)] * 4
    for number, cost in enumerate(costs):
        epsilon, delta, mu = Fraction(cost.epsilon), Fraction(cost.delta), Fraction(cost.mu)
        if terms.currency == "gaussian":
            moved = [0, 0, mu * mu, Fraction(cost.distance)]
        elif terms.currency == "zcdp" and cost.rho is not None:
            moved = [0, 0, Fraction(cost.rho), 0]
        elif terms.currency == "zcdp" and not delta:
            moved = [0, 0, epsilon * epsilon / 2, 0]
        else:
            moved = [epsilon, delta, 0, 0]
        after = [old + new for old, new in zip(spent, moved, strict=True)]
        if all(total <= limit for total, limit in zip(after, limits, strict=True)):
            for _ in range(2):  # a retry pays nothing
                balance = ledger.charge("people", charge_id=str(number), cost=cost)
            spent = after
        elif not any(spent) and epsilon <= Fraction(terms.epsilon) and delta <= Fraction(terms.delta):
            for _ in range(2):  # within the whole promise, and before all others: it takes everything
                balance = ledger.charge("people", charge_id=str(number), cost=cost)
            spent = limits
        else:
            with pytest.raises(BudgetExceeded):
                ledger.charge("people", charge_id=str(number), cost=cost)
            balance = ledger.balance("people")
        assert [Fraction(amount) for amount in balance.spent.amounts] == spent


@given(st.builds(
    Terms, epsilon=st.floats(1, 50), delta=st.floats(1e-6, 1), currency=st.just("gaussian"),
    total=st.floats(1e-300, 1e300), distance=st.floats(0, 1), beside_epsilon=st.floats(0, 0.5),
    beside_delta=st.floats(0, 1e-7), unit=st.sampled_from(["", "one user", 'a "quoted" ü']),
))  # fmt: skip
def test_terms_survive_their_text(terms):
    assert Terms.from_json(terms.to_json()) == terms


def test_what_took_a_whole_account_pays_for_its_own_retries_only(ledger):
    """An id that took everything is paid for one cost: another under it would be released for nothing."""
    ledger.open_account("people", terms=ZCDP)
    cost = Cost(epsilon=2, delta=1e-6, rho=0.9)
    for again in (cost, Cost(epsilon=2.0, delta=1e-6, rho=0.90)):
        balance = ledger.charge("people", charge_id="a", cost=again)
    assert balance.spent.amounts == ZCDP.limits.amounts
    for other in (Cost(epsilon=1.9, delta=1e-6, rho=0.8), Cost(epsilon=2, delta=1e-6, rho=0.8)):
        with pytest.raises(InvalidParameter, match="another cost"):
            ledger.charge("people", charge_id="a", cost=other)
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", charge_id="b", cost=cost)
