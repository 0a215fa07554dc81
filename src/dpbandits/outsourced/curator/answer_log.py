"""The append-only log of answers: what a crash, a copy or a knife cannot turn into a second answer.

One JSON line an answer, each with a hash chained to the line before; the first line is a header that is
durable before anything is drawn. With a ledger, the number of lines and the last hash are witnessed. An
answer counts, and may leave, when its line is on disk **and** witnessed. `settle` comes before every
evaluation and every answer that is given again; the log's length being L, it finds one of these:

| log | ledger | what happened | what follows |
|---|---|---|---|
| L, and half a line | L | died while writing | the half is cut off: it was never given |
| L | L | nothing | go on |
| L + 1, chained to L | L | died before the witness | the last line is witnessed now: it is the answer |
| anything else | L | a copy, an old backup, a cut log | `ForkedState`: nothing is evaluated or given |

So of two copies that answer at the same time one is witnessed, and the other's line is never given. Without a
ledger a copied or shortened log cannot be told from a sound one (a missing or emptied one can), and the
guarantee lists it as unchecked.

All methods but `entries` expect the caller to hold the curator's lock.
"""

import hashlib
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from dpbandits.errors import CorruptState, ForkedState, IncompatibleState
from dpbandits.state.files import write_durably
from dpbandits.state.ledger import Ledger, Witness

__all__ = ["AnswerLog"]

_HEADER = "dpbandits.answers.v1"


class AnswerLog:
    """Answers of one release, in the order they were given.

    Args:
        path: the file; it must exist (`create` makes it). None keeps the log in memory.
        release_id: the release it belongs to.
        ledger: witness of the answers; needs a path.

    Raises:
        IncompatibleState: the file belongs to another release, or the ledger has never seen it.
        CorruptState: the file is missing, empty, changed, or lacks lines that were read before.
        ForkedState: the ledger has witnessed other answers than the file holds.
    """

    def __init__(self, path: Path | None, release_id: str, *, ledger: Ledger | None = None) -> None:
        self._path = path
        self._release_id = release_id
        self._ledger = None if path is None else ledger
        self._entries: list[tuple[int, float]] = []
        self._answers: dict[int, float] = {}
        self._chain = self._before_last = _first_link(release_id)
        self._given = 0
        self._offset = 0
        self.settle()

    @classmethod
    def create(cls, path: Path, release_id: str, *, ledger: Ledger | None = None) -> "AnswerLog":
        """Make the file of a release that is about to be drawn for the first time; repeatable until then.

        Raises:
            CorruptState: the file holds answers, so the release was drawn before.
            IncompatibleState: the file belongs to another release.
        """
        header = (json.dumps({"log": _HEADER, "release": release_id}) + "\n").encode()
        try:
            held = path.read_bytes()
        except FileNotFoundError:
            held = b""
        # Without the end of a line it is a header that somebody died while writing: no log was ever there.
        unfinished = b"\n" not in held and len(held) <= len(header)
        if not unfinished and not held.startswith(header):
            raise IncompatibleState("the log of answers belongs to another release")
        if len(held) > len(header):
            raise CorruptState(
                "the log holds answers of a release that its state says was never drawn: the state is an "
                "old copy, restore the newest"
            )
        write_durably(path, header)
        if ledger is not None:
            ledger.advance(_lineage(release_id), position=0, digest=_first_link(release_id))
        return cls(path, release_id, ledger=ledger)

    def __len__(self) -> int:
        return self._given

    @property
    def entries(self) -> list[tuple[int, float]]:
        """(row, answer) in the order they were given, all durable and witnessed."""
        return self._entries[: self._given]

    @property
    def digest(self) -> str:
        """The chained hash of every line: what a ledger witnesses."""
        return self._chain

    def get(self, row: int) -> float | None:
        """The answer of a row, or None. Call `settle` first."""
        return self._answers.get(row)

    def settle(self) -> None:
        """Take in what another process has appended, and hold all of it against the ledger."""
        if self._path is not None:
            self._take(self._path)
        self._check_witness()
        self._given = len(self._entries)

    def append(self, row: int, answer: float) -> None:
        """Make an answer durable and witnessed, after `settle`. Only when this returns may it be given.

        Raises:
            ForkedState: another copy was faster; this answer is never given.
        """
        chain = _link(self._chain, row, answer)
        if self._path is not None:
            line = (json.dumps({"row": row, "answer": answer, "chain": chain}) + "\n").encode()
            try:
                self._write(self._path, line)
            except OSError:
                self._cut(self._path, self._offset)  # not witnessed, not given: as if it had not begun
                raise
            self._offset += len(line)
        self._take_in(row, answer, chain)
        self._check_witness()
        self._given = len(self._entries)

    # -- inside ------------------------------------------------------------------------------------

    def _take_in(self, row: int, answer: float, chain: str) -> None:
        self._entries.append((row, answer))
        self._answers[row] = answer
        self._before_last, self._chain = self._chain, chain

    def _check_witness(self) -> None:
        if self._ledger is None:
            return
        lineage, here = _lineage(self._release_id), Witness(len(self._entries), self._chain)
        last = self._ledger.last(lineage)
        if last == here:
            return
        if last is None:
            raise IncompatibleState(
                "this ledger has never seen the answers of this release: pass the one it was made with"
            )
        if last != (here.position - 1, self._before_last):
            raise ForkedState(_FORKED)
        try:
            self._ledger.advance(lineage, position=here.position, digest=here.digest)
        except ForkedState:
            raise ForkedState(_FORKED) from None

    def _take(self, path: Path) -> None:
        """Read the lines behind `_offset`; all of them are checked before any counts."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise CorruptState(_GONE) from None
        with open(descriptor, "r+b") as stream:  # noqa: PTH123 - a descriptor
            status = os.fstat(descriptor)
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            if size == self._offset > 0:
                return
            if size < self._offset or size == 0:
                raise CorruptState(_GONE)
            stream.seek(self._offset)
            data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]
            lines = whole.decode("utf-8", errors="replace").splitlines()
            if self._offset == 0:
                self._check_header(lines)
                del lines[0]
            found = self._checked(lines)
            if len(whole) < len(data):  # a torn last line was never given
                stream.truncate(self._offset + len(whole))
            # Whoever wrote these lines may have died before they were on disk.
            os.fsync(descriptor)
        self._offset += len(whole)
        for entry in found:
            self._take_in(*entry)

    def _check_header(self, lines: list[str]) -> None:
        if not lines:
            raise CorruptState(_GONE)
        try:
            header = json.loads(lines[0])
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict):
            raise CorruptState("the log of answers does not begin with its header")
        if header.get("log") != _HEADER or header.get("release") != self._release_id:
            raise IncompatibleState("the log of answers belongs to another release")

    def _checked(self, lines: list[str]) -> list[tuple[int, float, str]]:
        found: list[tuple[int, float, str]] = []
        chain, seen = self._chain, set(self._answers)
        for number, text in enumerate(lines, start=len(self._entries) + 1):
            try:
                line = json.loads(text)
                row, answer = _numbers(line)
                sound = line["chain"] == _link(chain, row, answer) and row not in seen
            except (KeyError, TypeError, ValueError, RecursionError):
                sound, row, answer = False, -1, math.nan
            if not sound:
                raise CorruptState(
                    f"line {number} of the log of answers was changed: restore it from a backup"
                )
            chain = _link(chain, row, answer)
            seen.add(row)
            found.append((row, answer, chain))
        return found

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        # No O_CREAT: a log that was deleted must not be begun anew.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def _cut(path: Path, size: int) -> None:
        if path.exists():
            os.truncate(path, size)


_GONE = (
    "the log of answers is missing, empty or shorter than it was: restore it from a backup, answering "
    "without it could answer a row twice"
)
_FORKED = (
    "the ledger has witnessed other answers than this log holds: another copy of the secret directory has "
    "gone on, or an old one was restored; use the newest"
)


def _lineage(release_id: str) -> str:
    return f"{release_id}.answers"


def _first_link(release_id: str) -> str:
    return hashlib.sha256(f"{_HEADER}|{release_id}".encode()).hexdigest()


def _link(chain: str, row: int, answer: float) -> str:
    return hashlib.sha256(f"{chain}|{row}|{answer!r}".encode()).hexdigest()


def _numbers(line: dict[str, Any]) -> tuple[int, float]:
    return int(line["row"]), float(line["answer"])
