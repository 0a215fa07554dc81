"""`SourceLog`: logged bandit data in an engine, and the roles of its columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from urllib.parse import urlsplit

from dpbandits import _checks
from dpbandits.central.logged.action_tables import Logged
from dpbandits.central.logged.logged_table import Bounds, LogColumns, roles_of
from dpbandits.domains import RewardRange
from dpbandits.tables.menu import Menu
from dpbandits.tables.warehouse import Source, source_of
from dpbandits.tables.warehouse.source import without_password

__all__ = ["SourceLog", "opened_log"]


@dataclass(frozen=True, eq=False, repr=False)
class SourceLog:
    """Table of logged data in an engine. The rows are raw data, and are not loaded.

    Attributes:
        source: Table and engine.
        address: Address of the table without credentials.
        menu: Contexts, and arms or a grid of actions.
        columns: Roles of the columns.
        reward_range: Public range (low, high).
        logged: How the actions of a grid were drawn; None for arms.
        clip: True to clip rewards to the range.
        progress: True to show on standard error how much of the table was read.
    """

    source: Source
    address: str
    menu: Menu
    columns: LogColumns
    reward_range: Bounds
    logged: Logged | None
    clip: bool
    progress: bool


@contextmanager
def opened_log(
    source: object,
    menu: Menu,
    *,
    action: str | None,
    reward: str,
    reward_range: RewardRange | Bounds,
    propensity: str | None,
    density: str | None = None,
    user: str | None,
    clip: bool,
    memory: int | None,
    threads: int | None,
    progress: bool,
) -> Iterator[SourceLog]:
    """Open a log, and close it at the end. The arguments and errors are those of `learn`."""
    _checks.an(clip, bool, name="clip", pass_="clip=True")
    span = RewardRange.of(reward_range)
    columns, logged = roles_of(
        menu, action=action, reward=reward, propensity=propensity, density=density, user=user
    )
    with source_of(source, memory=memory, threads=threads) as opened:
        address, limits = _address(source, opened), (span.low, span.high)
        yield SourceLog(opened, address, menu, columns, limits, logged, clip or span.clip, progress)


def _address(source: object, opened: Source) -> str:
    """Return the address of a table without credentials, or the text by which a statement refers to it."""
    if not isinstance(source, str | PathLike):
        return opened.relation
    text = fspath(source)
    if isinstance(text, str) and "://" in text:
        url = urlsplit(without_password(text))
        return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
    return str(text)
