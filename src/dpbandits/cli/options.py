"""Options that several commands take, declared once, and what their texts mean."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from dpbandits.errors import BudgetExceeded, InvalidParameter

if TYPE_CHECKING:
    from dpbandits.budget import Account as LedgerAccount
    from dpbandits.budget import SQLiteLedger
    from dpbandits.privacy import JointDP, RowDP

__all__ = [
    "Account",
    "AsJson",
    "Budget",
    "Clip",
    "Force",
    "Jobs",
    "LedgerFile",
    "given_or",
    "names_in",
    "opened",
    "range_in",
    "refuse_beside",
]

AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
Jobs = Annotated[int, Option("--jobs", help="Processes; -1 for all cores.")]
Clip = Annotated[bool, Option("--clip", help="Move values outside the bounds to them.")]
Force = Annotated[bool, Option("--force", help="Replace an earlier result in that folder.")]
LedgerFile = Annotated[Path | None, Option("--ledger", help="Ledger file (SQLite), made if missing.")]
Account = Annotated[str | None, Option("--account", help="Ledger account that pays.")]
Budget = Annotated[
    str | None,
    Option(
        "--budget",
        help="Open the account with this EPSILON or EPSILON,DELTA, for the unit that this promise protects.",
    ),
]


def opened(
    ledger: Path | None,
    account: str | None = None,
    budget: str | None = None,
    *,
    promise: "JointDP | RowDP | None" = None,
) -> "tuple[SQLiteLedger | None, LedgerAccount | None]":
    """The ledger and the account that were named, which is opened where a budget came.

    Args:
        ledger, account, budget: as given.
        promise: what the command promises. A new account protects the same unit (users, or rows at the
            promise's distance), which can never be changed; so an account too small for it is not opened.

    Raises:
        InvalidParameter: one came without the others, or the budget is no budget.
        BudgetExceeded: the budget is too small; nothing was opened.
    """
    if ledger is None:
        if account is not None or budget is not None:
            raise InvalidParameter("--account and --budget are of a ledger: name its file with --ledger")
        return None, None
    from dpbandits.budget import SQLiteLedger

    if budget is None:
        book = SQLiteLedger(ledger)
        return book, None if account is None else book.account(account)
    if account is None:
        raise InvalidParameter("--budget opens an account: name it with --account")
    epsilon, _, delta = budget.partition(",")
    limits = _number(epsilon), _number(delta or "0")
    if promise is None:
        raise InvalidParameter("--budget opens an account for a promise, and this command makes none")
    if limits[0] < promise.epsilon or limits[1] < promise.delta:
        raise BudgetExceeded(
            f"--budget {budget} is less than epsilon {promise.epsilon:g} and delta {promise.delta:g}, which "
            "this takes: nothing was opened, charged or drawn"
        )
    book = SQLiteLedger(ledger)
    return book, book.open_account(account, privacy=replace(promise, epsilon=limits[0], delta=limits[1]))


def refuse_beside(flags: Mapping[str, object]) -> None:
    """Refuse options that were given though a TOML file says the same."""
    given = [flag for flag, value in flags.items() if value is not None]
    if given:
        raise InvalidParameter(f"{', '.join(given)}: the TOML file says that, leave them out")


def given_or(given: float | None, described: float | None, option: str) -> float:
    """What an option says, or what a TOML file says without it; InvalidParameter where neither does."""
    found = described if given is None else given
    if found is None:
        raise InvalidParameter(f"{option} is missing: give it, or say it in [privacy] of the TOML file")
    return found


def names_in(text: str) -> list[str]:
    """Names of a,b,c."""
    return [name.strip() for name in text.split(",")]


def range_in(text: str) -> tuple[float, float]:
    """Ends of LOW:HIGH."""
    low, separator, high = text.partition(":")
    if not separator:
        raise InvalidParameter(f"bounds {text!r}: expected LOW:HIGH")
    return _number(low), _number(high)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"{text!r} is no number") from None
