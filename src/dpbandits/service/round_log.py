"""`StoredLife`: where a policy of the service lives: its state in a folder, its log of rounds in the store.

It does what `dpbandits.state.live.LiveFolder` does, with rows instead of files: a record is a row, in the
same transaction as the decision or the reward that it is about. So the two can never disagree: both are there
after a crash, or neither.

Records of one policy are numbered from 1 on, and each carries a digest chained to the one before. A state
says how many records it holds and the digest of the last; that one stays when the others are forgotten. With
n the number that the state says:

| the rows | what happened | what follows |
|---|---|---|
| begin at n, or before | all is well, or died before older rows were forgotten | played back over the state |
| end before n, or n has another digest | the store is older than the state | `CorruptState` |
| begin behind n | the state is older than the store | `CorruptState` |
| a digest does not follow | a row was changed | `CorruptState` |
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from dpbandits.errors import CorruptState
from dpbandits.service.store import Store
from dpbandits.state.files import private_folder
from dpbandits.state.journal import Record
from dpbandits.state.live import Life, Reach

__all__ = ["StoredLife", "slot_of"]


class StoredLife(Life):
    """A policy's life in the store; see the module.

    Args:
        store: its tables; all but looking happens in its write transaction.
        policy: whose log it is, and the lineage of what begins here.
        folder: of its state, made where it does not exist.

    Attributes:
        commits: how often a state was written since it was opened.
    """

    def __init__(self, store: Store, policy: str, folder: Path) -> None:
        self._store, self._policy = store, policy
        self._folder = private_folder(folder, what="the policy's folder")
        self.commits = 0
        last = store.now_writing.one(
            "SELECT number, digest FROM rounds WHERE policy = ? ORDER BY number DESC LIMIT 1", policy
        )
        self._records, self._digest = (0, self._first()) if last is None else (int(last[0]), bytes(last[1]))

    @property
    def state(self) -> Path:  # noqa: D102
        return self._folder / "policy.state"

    @property
    def lineage(self) -> str:
        """The policy's id: a beginning that was interrupted is the same one, and pays once."""
        return self._policy

    @property
    def reach(self) -> Reach:
        """How far the log reaches; what was noted so far is committed first, as a state may hold it."""
        self._store.now_writing.keep()
        return Reach(0, self._records, self._digest.hex())

    @property
    def records(self) -> int:  # noqa: D102
        return self._records

    def earlier(  # noqa: D102
        self, lineage: str, position: int, *, lived: bool, follows: Reach | None
    ) -> Iterator[Record]:
        rows = self._store.now_writing.rows(
            "SELECT number, kind, content, digest FROM rounds WHERE policy = ? ORDER BY number", self._policy
        )
        held, digest = 0, self._first()
        if follows is not None:
            held, digest = follows.records, bytes.fromhex(follows.digest)
        if self._records < held:
            raise CorruptState("the store is older than the state beside it: restore both from one backup")
        if not rows and held:
            raise CorruptState("the log of rounds is gone: restore the store and the states from one backup")
        if rows and int(rows[0][0]) > held + 1:
            raise CorruptState("the state is older than the store: restore both from one backup")
        before: bytes | None = self._first() if rows and int(rows[0][0]) == 1 else None
        for number, (place, kind, content, chained) in enumerate(rows, start=int(rows[0][0]) if rows else 0):
            emptied = not kind and number <= held  # by `begin`
            here = chained if before is None or emptied else _chained(before, kind, content)
            if place != number or here != chained or (number == held and here != digest):
                raise CorruptState("the log of rounds was changed, or is another state's: restore a backup")
            before = here
            if number > held:
                yield Record(bytes(kind), bytes(content))

    def begin(self, lineage: str, position: int) -> None:  # noqa: D102
        writes = self._store.now_writing
        writes.run("DELETE FROM rounds WHERE policy = ? AND number < ?", self._policy, self._records)
        # the last row keeps the log's position, and no longer its content
        emptying = "UPDATE rounds SET content = ?, kind = ? WHERE policy = ? AND number = ?"
        writes.run(emptying, b"", b"", self._policy, self._records)
        self.commits += 1

    def append(self, kind: bytes, content: bytes) -> None:  # noqa: D102
        digest = _chained(self._digest, kind, content)
        row = self._policy, self._records + 1, kind, content, digest
        self._store.now_writing.run("INSERT INTO rounds VALUES (?, ?, ?, ?, ?)", *row)
        self._records, self._digest = self._records + 1, digest

    def refuse_leftovers(self) -> None:  # noqa: D102
        if self._records:
            raise CorruptState(
                "the store holds a log of rounds and there is no state: restore both from one backup"
            )

    def _first(self) -> bytes:
        return hashlib.blake2b(f"rounds of {self._policy}".encode(), digest_size=16).digest()


def _chained(before: bytes, kind: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(before + kind + content, digest_size=16).digest()


def slot_of(ask: str) -> int:
    """The slot of a policy's own id of a decision; CorruptState where it is none."""
    digits = ask.split("-")[1] if ask.count("-") == 2 else ""
    if not (digits.isascii() and digits.isdigit()):
        raise CorruptState("the store holds something that is no decision of a policy")
    return int(digits)
