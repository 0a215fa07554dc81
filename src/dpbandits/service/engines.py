"""`Engines`: the policies that are open, each a `ServedBandit` that lives in the store; see `StoredLife`.

A policy is opened when it is first needed. If all together exceed a number of bytes, those used least
recently are closed. Each counts with its estimate `bytes_needed`, which uses public numbers alone: the data
of one population closes no other population's policy. The policy in use is never closed. A policy that needs
more than this number alone is refused when it begins. If a write transaction is rolled back, the policies
that it used are forgotten and opened again, because they had gone further than what is recorded.
"""

import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from dpbandits.budget import Ledger
from dpbandits.errors import InvalidParameter
from dpbandits.service.problems import Problem
from dpbandits.service.retention import Old, done
from dpbandits.service.round_log import StoredLife
from dpbandits.service.served import ServedBandit
from dpbandits.service.store import Ahead, Reads, Store, Writes

__all__ = ["Engine", "Engines", "Kept", "is_closed", "refuse_closed"]


LEAST_WEIGHT = float(1 << 20)
"""Least bytes that an open policy counts with: its objects and the handle of its log."""


class Kept(NamedTuple):
    """A policy's row."""

    id: str
    name: str
    population: str
    asked: dict[str, Any]
    settings: dict[str, Any]
    status: str
    revision: int
    made_at: float

    @property
    def etag(self) -> str:
        """Version number of its settings and status."""
        return f'"{self.revision}"'


class Records(Protocol):
    """Protocol of what counts records of rounds and states that were written."""

    commits: int

    @property
    def records(self) -> int: ...


class Engine:
    """An open policy.

    Args:
        policy: it.
        life: where it lives, or what else counts its rounds.

    Attributes:
        version: releases so far, by which it decides.
        weight: estimated bytes that it may take, from public numbers.
    """

    def __init__(self, policy: ServedBandit, life: Records) -> None:
        self.policy, self.life, self.weight = policy, life, max(LEAST_WEIGHT, policy.bytes_needed)
        self.version, self._commits = 0, -1

    def __repr__(self) -> str:
        return f"Engine({self.policy!r})"

    def look(self) -> bool:
        """See how many releases there are; whether there are more than before."""
        commits = self.life.commits
        if commits == self._commits:
            return False
        self._commits, before = commits, self.version
        self.version = self.policy.blocks_released
        return self.version > before

    def ahead(self, user: object) -> list[Ahead]:
        """Return the queries of a decision for a user; none here."""
        return []

    def ahead_of_round(self, ask: str) -> list[Ahead]:
        """Return the queries of a reward for the policy's own decision `ask`; none here."""
        return []


class Engines:
    """Open policies by id; used by the writer alone.

    Attributes:
        kept: rows of policies by name, as they were read last; whoever uses one sees whether it is so still.
        unpublished: those of whose last release no function was written down yet.
        at_once: whether a beginning, its charge and its state are one transaction.

    Args:
        store: its rounds are their logs.
        ledger: witnesses their states, and pays.
        folder: holds their states.
        most: bytes that all open policies may take.
    """

    at_once: ClassVar[bool] = False

    def __init__(self, store: Store, ledger: Ledger, folder: Path, *, most: float) -> None:
        self._store, self._ledger, self._folder, self._most = store, ledger, folder, most
        self._open: OrderedDict[str, Engine] = OrderedDict()
        self.unpublished: set[str] = set()
        self.kept: dict[str, Kept] = {}

    def __repr__(self) -> str:
        return f"Engines({len(self._open)} open)"

    def use(self, writes: Writes, policy: str) -> Engine:
        """The open policy; if what is done now is undone, it will be opened again.

        Raises:
            Problem: its population is closed: the original may have released what is due here.
            StateError: its state cannot be used.
        """
        engine = self._open.get(policy)
        if engine is None:
            refuse_closed(writes, policy)
            life = StoredLife(self._store, policy, self._folder / policy)
            with warnings.catch_warnings():  # what they say was said when it began
                warnings.simplefilter("ignore")
                engine = self._keep(writes, policy, ServedBandit.open(life, ledger=self._ledger), life)
        self._open.move_to_end(policy)
        writes.when(lost=lambda: self.forget(policy))
        return engine

    def not_so(self, name: str) -> None:
        """The row of a policy that was read last is another one by now, or never was kept."""
        self.kept.pop(name, None)

    def opened(self, policy: str) -> Engine | None:
        """The policy, where it is open."""
        return self._open.get(policy)

    def begin(self, writes: Writes, policy: str, new: ServedBandit) -> Engine:
        """Let `new` begin to live, or take up a beginning of it that was interrupted; its account pays.

        Raises:
            BudgetExceeded: the account cannot.
        """
        writes.when(lost=lambda: self.forget(policy))
        life = StoredLife(self._store, policy, self._folder / policy)
        return self._keep(writes, policy, ServedBandit.open(life, new=new, ledger=self._ledger), life)

    def _keep(self, writes: Writes, policy: str, opened: ServedBandit, life: StoredLife) -> Engine:
        self._open[policy] = engine = Engine(opened, life)
        self.saw(writes, policy, engine, 0.0)
        self.close_some()
        return engine

    def erase(self, writes: Writes, old: Old, now: float) -> None:
        """Erase rounds that no release holds; of a policy that is never opened again nothing is left."""
        if not is_closed(writes, old.policy):
            engine = self.use(writes, old.policy)
            engine.policy.erase_rounds(old.before)
            self.saw(writes, old.policy, engine, now)
        done(writes, old, now=now)

    def close_some(self) -> None:
        """Close those that were used least recently, but never the last one that was opened."""
        taken = sum(engine.weight for engine in self._open.values())
        while taken > self._most and len(self._open) > 1:
            _, engine = self._open.popitem(last=False)
            taken -= engine.weight
            engine.policy.close()

    def refuse_large(self, new: ServedBandit) -> None:
        """Refuse a policy that would close all others whenever it is asked.

        Raises:
            InvalidParameter: it alone needs more than all open policies may take.
        """
        if new.bytes_needed > self._most:
            raise InvalidParameter(
                f"the policy needs about {new.bytes_needed / 1e9:.1f} GB of memory, and all policies together"
                f" may take {self._most / 1e9:.1f} GB here: take fewer columns, arms or rounds, or raise "
                "policy_memory in the service's settings"
            )

    def saw(self, writes: Writes, policy: str, engine: Engine, now: float) -> None:
        """Note the releases that there are by now."""
        if not engine.look():
            return
        known = writes.one("SELECT MAX(version) FROM releases WHERE policy = ?", policy)
        for version in range(int((known[0] if known else None) or 0) + 1, engine.version + 1):
            writes.run(
                "INSERT INTO releases VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING",
                policy,
                version,
                engine.policy.blocks[version - 1],
                now,
            )
        self.unpublished.add(policy)

    def forget(self, policy: str) -> None:
        """Leave a policy that may have gone further than what is recorded."""
        engine = self._open.pop(policy, None)
        if engine is not None:
            engine.policy.close()

    def close(self) -> None:
        """Leave all of them."""
        while self._open:
            self._open.popitem()[1].policy.close()


def is_closed(reads: Reads, policy: str) -> bool:
    """Return whether a policy came with a backup and its population is closed: it is never opened again."""
    row = reads.one(
        "SELECT f.value FROM policies p JOIN facts f ON f.name = 'closed ' || p.population WHERE p.id = ?",
        policy,
    )
    return row is not None


def refuse_closed(reads: Reads, policy: str) -> None:
    """Problem where `is_closed`."""
    if is_closed(reads, policy):
        raise Problem(
            "conflict", "The policy came with a backup, and its population is closed: it only reads."
        )
