"""The log of answers: a `Journal` of evaluations that were begun (B, a row) and answers (A, a row once).

An evaluation begins, and an answer counts and may leave, when its record is on disk, witnessed and ended.
What a crash or a copy leaves, and why none of it gives a second answer, is in `dpbandits.state.journal`.
`settle` comes before every evaluation and every answer that is given again. All methods but `entries` expect
the caller to hold the directory's lock.
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
    """Answers of one release, in the order they were given.

    Args:
        journal: where they are kept; None keeps them in memory.

    Raises:
        IncompatibleState: the log belongs to another release, or the ledger has never seen it.
        CorruptState: the log is missing, cut or changed, or answers a row twice.
        ForkedState: the ledger has witnessed other answers than the log holds.
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
        """The log of a release that is about to be drawn; repeatable until it holds an answer."""
        return cls(Journal.create(path, **_names(release_id), ledger=ledger))

    @classmethod
    def open(cls, path: Path, release_id: str, *, ledger: Ledger | None) -> "AnswerLog":
        """The log of a release that was drawn: it must be there."""
        return cls(Journal(path, **_names(release_id), ledger=ledger))

    @property
    def evaluations(self) -> int:
        """Evaluations begun, those that failed included; an answer from a column counts as one."""
        return self._evaluations

    @property
    def entries(self) -> list[tuple[int, float]]:
        """(row, answer) in the order they were given, all durable and witnessed."""
        return list(self._answers.items())

    def get(self, row: int) -> float | None:
        """The answer of a row, or None. Call `settle` first."""
        return self._answers.get(row)

    def settle(self) -> None:
        """Take in what another process has appended, and hold all of it against the ledger."""
        for kind, content in () if self._journal is None or self._unsound else self._journal.settle():
            entry = _entry(kind, content)
            if entry is None or entry[0] in self._answers:
                self._unsound = True  # for good: the journal gives a record once
                break
            self._take(*entry)
        if self._unsound:
            raise CorruptState(
                "the log of answers holds a record that is no answer, or a second one: restore a backup of it"
            )

    def append(self, row: int, answer: float | None = None) -> None:
        """After `settle`, make an answer durable and witnessed, or without one that an evaluation begins.

        Only when this returns may the answer be given, or the row be evaluated.

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
