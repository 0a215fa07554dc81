"""Log of answers: a `Journal` with records of started evaluations (kind B) and of answers (kind A).

A row has at most one answer. An evaluation may start, and an answer may be returned, when its record is
complete, on disk and witnessed by the ledger. The table in `dpbandits.state.journal` lists the states after
a crash or a copy, and why none of them allows a second answer. Call `settle` before every evaluation and
before an answer is repeated. All methods except `entries` require the lock of the secret directory.
"""

import json
from pathlib import Path
from typing import Any

from dpbandits._lines import finite_number, json_line
from dpbandits.budget import Ledger
from dpbandits.errors import CorruptState
from dpbandits.state.journal import Journal

__all__ = ["AnswerLog"]

_ANSWER, _BEGUN = b"A", b"B"


class AnswerLog:
    """Answers of one release, in the order in which they were given.

    Args:
        journal: Journal that stores the answers; None keeps them in memory.

    Raises:
        IncompatibleState: the log belongs to another release, or the ledger does not know it.
        CorruptState: the log is missing, was cut or changed, or answers a row twice.
        ForkedState: the ledger has witnessed other answers than the log contains.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._answers: dict[int, float] = {}
        self._begun: set[int] = set()
        self._evaluations = 0
        self._unsound = False
        self.settle()

    @classmethod
    def create(cls, path: Path, release_id: str, *, ledger: Ledger | None) -> "AnswerLog":
        """Create the log of a release before its noise is drawn; repeatable until the log has an answer."""
        return cls(Journal.create(path, **_names(release_id), ledger=ledger))

    @classmethod
    def open(cls, path: Path, release_id: str, *, ledger: Ledger | None) -> "AnswerLog":
        """Open the log of a release whose noise was drawn; the log must exist."""
        return cls(Journal(path, **_names(release_id), ledger=ledger))

    @property
    def evaluations(self) -> int:
        """Number of evaluations started, including failed ones; an answer from a column counts as one."""
        return self._evaluations

    @property
    def entries(self) -> list[tuple[int, float]]:
        """Pairs (row, answer) in the order in which answers were given; all are durable and witnessed."""
        return list(self._answers.items())

    def get(self, row: int) -> float | None:
        """Return the answer of a row, or None if it has none. Call `settle` first."""
        return self._answers.get(row)

    def settle(self) -> None:
        """Read records that another process has appended, and check the whole log against the ledger."""
        for kind, content in () if self._journal is None or self._unsound else self._journal.settle():
            entry = _entry(kind, content)
            if entry is None or entry[0] in self._answers:
                self._unsound = True  # permanent, as the journal returns each record once
                break
            self._take(*entry)
        if self._unsound:
            raise CorruptState(
                "the log of answers holds an invalid record, or a second answer of a row: restore a backup"
            )

    def append(self, row: int, answer: float | None = None) -> None:
        """Record an answer, or if `answer` is None the start of an evaluation, durably and witnessed.

        Call `settle` first. The answer may be given, or the row evaluated, only after this returns.

        Raises:
            ForkedState: another copy was faster; this record never counts.
        """
        if self._journal is not None:
            kind, content = (_BEGUN, [row]) if answer is None else (_ANSWER, [row, answer])
            self._journal.append(kind, json.dumps(content).encode())
        self._take(row, answer)

    def _take(self, row: int, answer: float | None) -> None:
        if answer is None:
            self._evaluations += 1
            self._begun.add(row)
        else:
            self._evaluations += row not in self._begun
            self._answers[row] = answer


def _names(release_id: str) -> dict[str, Any]:
    return {"kind": "answers", "subject": release_id, "lineage": f"{release_id}.answers"}


def _entry(kind: bytes, content: bytes) -> tuple[int, float | None] | None:
    match kind, json_line(content.decode("utf-8", errors="replace")):
        case b"B", [row] if type(row) is int:
            return row, None
        case b"A", [row, value] if type(row) is int and (answer := finite_number(value)) is not None:
            return row, answer
    return None
