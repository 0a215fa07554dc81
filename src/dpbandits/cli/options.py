"""Options that several commands take, declared once, and what their texts mean."""

from pathlib import Path
from typing import Annotated

from typer import Option

from dpbandits.errors import InvalidParameter
from dpbandits.state import SQLiteLedger

__all__ = ["Account", "AsJson", "Budget", "Clip", "Jobs", "LedgerFile", "names_in", "opened", "range_in"]

AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
Jobs = Annotated[int, Option("--jobs", help="Processes; -1 for all cores.")]
Clip = Annotated[bool, Option("--clip", help="Move values outside the bounds to them.")]
LedgerFile = Annotated[Path | None, Option("--ledger", help="Ledger file (SQLite), made if missing.")]
Account = Annotated[str | None, Option("--account", help="Ledger account that pays.")]
Budget = Annotated[
    str | None, Option("--budget", help="Open the account with this EPSILON or EPSILON,DELTA.")
]


def opened(ledger: Path | None, account: str | None = None, budget: str | None = None) -> SQLiteLedger | None:
    """The ledger that was named, with the account opened where a budget came."""
    book = None if ledger is None else SQLiteLedger(ledger)
    if book is not None and account is not None and budget is not None:
        epsilon, _, delta = budget.partition(",")
        book.open_account(account, epsilon=_number(epsilon), delta=_number(delta or "0"))
    return book


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
