"""Options that several commands share, and the functions that read their texts."""

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
    "TABLES",
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

TABLES = (
    "CSV, TSV (also .gz), Parquet or Arrow files by path or glob, duckdb:///FILE?table=NAME, or "
    "postgresql://USER@HOST/DATABASE?table=NAME"
)
"""Tables that commands read, for their help."""

AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
Jobs = Annotated[int, Option("--jobs", help="Number of processes; -1 for one per core.")]
Clip = Annotated[bool, Option("--clip", help="Replace a value outside the bounds by the nearer bound.")]
Force = Annotated[bool, Option("--force", help="Replace an earlier result in the folder of --out.")]
LedgerFile = Annotated[
    Path | None, Option("--ledger", help="SQLite file of the privacy ledger; created if missing.")
]
Account = Annotated[
    str | None, Option("--account", help="Account of the ledger whose privacy budget is charged.")
]
Budget = Annotated[
    str | None,
    Option(
        "--budget",
        help="Open the account with this privacy budget, EPSILON or EPSILON,DELTA. It protects the same unit "
        "(users, or rows) as this command's promise.",
    ),
]


def opened(
    ledger: Path | None,
    account: str | None = None,
    budget: str | None = None,
    *,
    promise: "JointDP | RowDP | None" = None,
) -> "tuple[SQLiteLedger | None, LedgerAccount | None]":
    """Return the ledger and the account of these options. A budget opens a new account.

    Args:
        ledger, account, budget: values of the options; None where an option is missing.
        promise: Guarantee that the command gives. A new account protects the same unit (users, or rows at
            the promise's distance). An account's unit never changes.

    Raises:
        InvalidParameter: An option lacks another one that it needs, or the budget is not a number.
        BudgetExceeded: The budget is smaller than the promise; no account was opened.
    """
    if ledger is None:
        if account is not None or budget is not None:
            raise InvalidParameter("--account and --budget need a ledger: name its file with --ledger")
        return None, None
    from dpbandits.budget import SQLiteLedger

    if budget is None:
        book = SQLiteLedger(ledger)
        return book, None if account is None else book.account(account)
    if account is None:
        raise InvalidParameter("--budget opens an account: pass its name with --account")
    epsilon, _, delta = budget.partition(",")
    limits = _number(epsilon), _number(delta or "0")
    if promise is None:
        raise InvalidParameter("this command makes no promise that an account could cover: omit --budget")
    if limits[0] < promise.epsilon or limits[1] < promise.delta:
        raise BudgetExceeded(
            f"--budget {budget} is less than epsilon {promise.epsilon:g} and delta {promise.delta:g}, which "
            "this command spends: nothing was opened, charged or drawn"
        )
    book = SQLiteLedger(ledger)
    return book, book.open_account(account, privacy=replace(promise, epsilon=limits[0], delta=limits[1]))


def refuse_beside(flags: Mapping[str, object]) -> None:
    """Raise InvalidParameter if any of these options was given, as the TOML file sets their values."""
    given = [flag for flag, value in flags.items() if value is not None]
    if given:
        raise InvalidParameter(f"{', '.join(given)}: the TOML file sets this, leave the option out")


def given_or(given: float | None, described: float | None, option: str) -> float:
    """Return an option's value, or else the TOML file's; raise InvalidParameter if both are missing."""
    found = described if given is None else given
    if found is None:
        raise InvalidParameter(f"{option} is missing: pass it, or set it in [privacy] of the TOML file")
    return found


def names_in(text: str) -> list[str]:
    """Return the names in a text such as "a,b,c"."""
    return [name.strip() for name in text.split(",")]


def range_in(text: str) -> tuple[float, float]:
    """Return both ends of a text LOW:HIGH."""
    low, separator, high = text.partition(":")
    if not separator:
        raise InvalidParameter(f"bounds {text!r}: expected LOW:HIGH")
    return _number(low), _number(high)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"{text!r} is not a number") from None
