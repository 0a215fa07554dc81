"""No sequence of calls books two privacy units on one account, in any ledger."""

import math
from contextlib import closing
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbandits as dpb
from dpbandits.budget import Cost, MemoryLedger, SQLiteLedger, Terms, Unit, cost_of, cost_of_guarantee
from dpbandits.budget.units import unit_of
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.local import Client, Server, Spec
from dpbandits.outsourced import Curator, SecretDirectory
from dpbandits.outsourced.statement import cost_of_rows
from dpbandits.privacy import GaussianDP, JointDP, LocalDP, NearGaussianDP, RowDP
from dpbandits.privacy.rows import AnswerLaplace
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.store import SQLiteStore

ANSWERS = {apart: AnswerLaplace(epsilon=0.5, distance=apart, low=0, high=10) for apart in (0.5, 2.0)}

# What is protected, as the test itself sees it: "user", "device", or rows as (distance, rows, answers).
ACCOUNTS = {
    "users": (JointDP(900), "user"),
    "users with a delta": (JointDP(900, 1e-4), "user"),
    "users of three rounds": (JointDP(900, rounds_per_user=3), "user"),
    "devices": (LocalDP(900), "device"),
    "rows near": (RowDP(900, distance=0.01), (0.01, 1, 0)),
    "rows": (RowDP(900, distance=1), (1, 1, 0)),
    "rows far": (RowDP(900, distance=20), (20, 1, 0)),
    "rows of three": (RowDP(900, 1e-4, distance=1, rows_per_user=3), (1, 3, 0)),
    "rows and answers": (
        Terms(epsilon=900, unit=unit_of(RowDP(1, distance=1), answers=1.0)),
        (1, 1, 1.0),
    ),
}
COSTS = {
    "policy": (JointDP(0.25), "user"),
    "policy of four rounds": (JointDP(0.25, rounds_per_user=4), "user"),
    "policy with a delta": (
        cost_of(GaussianDP(0.01), privacy=JointDP(0.25, 1e-7)),
        "user",
    ),
    "report": (LocalDP(0.25), "device"),
    **{
        f"rows {distance:g} {rows} {apart}": (
            cost_of_rows(RowDP(0.25, distance=distance, rows_per_user=rows), ANSWERS.get(apart)),
            (distance, rows, apart),
        )
        for distance in (0.01, 1, 7)
        for rows in (1, 2)
        for apart in (0, *ANSWERS)
    },
}


def steps(account, cost):
    """Neighbours of the cost between two of the account; None where they are about something else."""
    if isinstance(account, str) or isinstance(cost, str):
        return 1 if account == cost else None
    (far, rows, apart), (reach, group, noised) = account, cost
    if apart and not noised:
        return None
    ratio = Fraction(str(far)) / Fraction(str(reach))
    if apart:
        ratio = max(ratio, Fraction(str(apart)) / Fraction(str(noised)))
    return max(1, math.ceil(ratio)) * math.ceil(Fraction(rows, group))


def memory(folder):
    return MemoryLedger()


def sqlite(folder):
    return SQLiteLedger(folder / "ledger.db")


def in_rows(folder):
    return RowLedger(SQLiteStore(folder / "service.db"))


LEDGERS = pytest.mark.parametrize("make", [memory, sqlite, in_rows])


@LEDGERS
@pytest.mark.parametrize("account", ACCOUNTS)
def test_every_pair_of_promises_is_converted_exactly_or_refused(make, account, tmp_path):
    ledger, (promise, protects) = make(tmp_path), ACCOUNTS[account]
    ledger.open_account("a", privacy=promise)
    for name, (cost, about) in COSTS.items():
        before, expected = ledger.balance("a"), steps(protects, about)
        if expected is None:
            for call in (ledger.charge, lambda account, cost, **_: ledger.after(account, cost=cost)):
                with pytest.raises(InvalidParameter, match="another unit"):
                    call("a", charge_id=name, cost=cost)
            assert ledger.balance("a") == before
            assert ledger.charged("a", name) is None
            continue
        try:
            after = ledger.charge("a", charge_id=name, cost=cost)
        except BudgetExceeded:  # of delta, or far too much of epsilon
            assert ledger.balance("a") == before
            assert Cost.of(cost).delta or expected * Cost.of(cost).epsilon > before.remaining_epsilon
            continue
        assert after.spent_epsilon - before.spent_epsilon == expected * Cost.of(cost).epsilon
    for other, (another, _) in ACCOUNTS.items():
        if Terms.of(another) != Terms.of(promise):
            with pytest.raises(InvalidParameter, match="cannot change"):
                ledger.open_account("a", privacy=another)
        assert ledger.balance("a").terms == Terms.of(promise), other


CALLS = st.lists(st.tuples(*map(st.sampled_from, (list(ACCOUNTS), list(COSTS), list("abc")))), max_size=30)


@given(CALLS)
def test_no_sequence_of_calls_adds_up_what_is_about_different_neighbours(calls):
    """The oracle adds up, by itself, what each account's own neighbours lose: never more than is booked."""
    ledger = MemoryLedger()
    for name, (promise, _) in ACCOUNTS.items():
        ledger.open_account(name, privacy=promise)
    lost, paid = dict.fromkeys(ACCOUNTS, Fraction(0)), {}
    for account, name, charge_id in calls:
        (cost, about), (promise, protects) = COSTS[name], ACCOUNTS[account]
        expected = steps(protects, about)
        try:
            ledger.charge(account, charge_id=charge_id, cost=cost)
        except (InvalidParameter, BudgetExceeded):
            assert (
                expected is None
                or paid.get((account, charge_id), name) != name
                or Cost.of(cost).delta
                or (lost[account] + expected * Fraction(Cost.of(cost).epsilon) > 900)
            )
        else:
            assert expected is not None
            if (account, charge_id) not in paid:
                lost[account] += expected * Fraction(Cost.of(cost).epsilon)
                paid[account, charge_id] = name
        assert Fraction(ledger.balance(account).spent_epsilon) == lost[account]
        assert lost[account] <= 900


# -- conversion ---------------------------------------------------------------------------------------


def test_what_is_proven_scales_by_group_privacy():
    """k steps: k epsilon, k^2 rho, k mu. Where noise is only nearly Gaussian mu is not known any more."""
    far, near = RowDP(9, 1e-4, distance=3), RowDP(0.5, 1e-7, distance=1)
    terms = Terms.of(far)
    charge = cost_of(GaussianDP(0.01), privacy=near).charged_to(terms, account="rows")
    assert (charge.epsilon, charge.delta) == (Decimal("Infinity"),) * 2  # a delta does not convert
    assert (float(charge.rho), float(charge.mu2)) == pytest.approx((0.00045, 0.0009), rel=1e-9)
    charge = cost_of(NearGaussianDP(0.01, 1e-12), privacy=near).charged_to(terms, account="rows")
    assert (float(charge.rho), charge.mu2) == (pytest.approx(0.00045, rel=1e-9), Decimal("Infinity"))
    with pytest.raises(InvalidParameter, match="cannot be converted between"):
        Cost.of(near).charged_to(terms, account="rows")
    wider = Cost.of(RowDP(0.5, 1e-7, distance=3))
    covered = wider.charged_to(Terms.of(RowDP(1, 1e-4, distance=1)), account="")
    assert (covered.epsilon, covered.delta) == (Decimal("0.5"), Decimal("1e-7"))


@pytest.mark.parametrize("distance", [0.3, 1.0, 2.9, 20.0])
def test_a_converted_loss_is_at_least_the_mechanisms_own(distance):
    """Against the exact loss of the Laplace mechanism at the account's distance."""
    from dpbandits.privacy.rows import L2Laplace

    promise = RowDP(0.5, distance=1)
    exact = L2Laplace(definition=promise, dim=2).epsilon_at(distance)
    account = Terms.of(RowDP(100, distance=distance))
    assert float(Cost.of(promise).charged_to(account, account="rows").epsilon) >= exact * (1 - 1e-12)


def test_units_that_a_guarantee_describes_itself_are_their_own():
    policy = dpb.central.GPBandit(
        kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.4), domain=dpb.Box(low=[0], high=[1]),
        reward_range=(0, 1), horizon=1000, privacy=JointDP(epsilon=1, delta=1e-6),
        tuning=dpb.central.GPTuning(release="features", decision_sets="public"),
    )  # fmt: skip
    cost, ledger = cost_of_guarantee(policy.guarantee), MemoryLedger()
    assert "rewards" in cost.unit.whose
    ledger.open_account("people", privacy=JointDP(2, 1e-5))
    with pytest.raises(InvalidParameter, match="another unit"):
        ledger.charge("people", charge_id="a", cost=cost)
    ledger.open_account("rewards", privacy=Terms(epsilon=2, delta=1e-5, unit=cost.unit))
    ledger.charge("rewards", charge_id="a", cost=cost)
    with pytest.raises(InvalidParameter, match="another unit"):
        ledger.charge("rewards", charge_id="b", cost=JointDP(0.1))


def test_equal_words_are_one_unit_and_others_are_not():
    one = Unit("one user", "replaced")
    assert one.steps(Unit("one user", "replaced")) == 1
    assert one.steps(Unit("one user", "added")) is None
    assert one.steps(Unit("one household", "replaced")) is None
    assert unit_of(JointDP(1)).steps(unit_of(LocalDP(1))) is None
    tiny = RowDP(1, distance=1e-12)
    assert unit_of(tiny).steps(unit_of(RowDP(1, distance=1e3))) is None  # more steps than a budget has


# -- what the library charges -------------------------------------------------------------------------


def table():
    rng = np.random.default_rng(0)
    return {"x": rng.uniform(0, 1, 40), "y": rng.uniform(0, 10, 40), "who": [f"p{i // 2}" for i in range(40)]}


@pytest.mark.parametrize("apart", [0, *ANSWERS])
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_curators_release_is_charged_for_the_accounts_neighbours(account, apart, tmp_path):
    """A release at distance 1, with exact answers or noised ones, costs 20 times as much at distance 20."""
    ledger, (promise, protects) = MemoryLedger(), ACCOUNTS[account]
    ledger.open_account("ward", privacy=promise)

    def release():
        secret = SecretDirectory(tmp_path / "s", account=ledger.account("ward"))
        Curator(
            table(), contexts=dpb.Schema(x=dpb.Range(0, 1)), privacy=RowDP(0.25, distance=1), objective="y",
            answers=ANSWERS.get(apart), secret=secret,
        ).publish()  # fmt: skip

    expected = steps(protects, (1, 1, apart))
    if expected is None:
        with pytest.raises(InvalidParameter, match="another unit"):
            release()
        assert not ledger.balance("ward").spent_epsilon
    else:
        release()
        assert float(ledger.balance("ward").spent_epsilon) == expected * (0.25 + (0.5 if apart else 0))


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_device_reports_from_an_account_of_its_own(account):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=ACCOUNTS[account][0])
    spec = Spec(contexts=dpb.Box(low=[0], high=[1]), arms=range(2), privacy=LocalDP(1))
    with pytest.raises(InvalidParameter, match="cannot change"):
        Client(spec, account=ledger.account("people"), budget=900)
    client = Client(spec, account=ledger.account("own"), budget=2)
    client.choose(Server(spec).publish(), [0.3])
    client.report(1.0)
    for cost in (JointDP(0.1), LocalDP(0.1), RowDP(0.1, distance=1)):
        with pytest.raises(InvalidParameter, match="another unit"):
            ledger.charge("own", charge_id="x", cost=cost)


def test_a_ledger_that_lost_its_units_is_damaged(tmp_path):
    """The unit is part of an account's row: without it nothing is read from the account."""
    import sqlite3

    from dpbandits.errors import CorruptState

    ledger = RowLedger(SQLiteStore(tmp_path / "service.db"))
    ledger.open_account("a", privacy=JointDP(1))
    with closing(sqlite3.connect(tmp_path / "service.db")) as connection, connection:
        connection.execute("""UPDATE accounts SET terms = '{"epsilon": "1", "delta": "0"}'""")
    with pytest.raises(CorruptState):
        ledger.balance("a")
    with pytest.raises(CorruptState):
        ledger.charge("a", charge_id="x", cost=JointDP(0.1))
