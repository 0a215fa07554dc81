"""`LiveFolder`: a folder with an object's state and a log of the events since that state.

A state is written at every release. Events between two states (asks, tells) are appended to a log. An event
is durable before it is answered, and is applied again when the folder is opened after a crash. Each commit
of a state begins a new log, `rounds-POSITION.log`, and then removes older logs. One process at a time uses a
folder: it holds the lock file `open.lock` until it closes the folder or dies.

`Life` is the interface that a policy uses; the service has another implementation, with tables.

Crashes
-------
Let p be the position of the last state.

| crash | state | logs | logs that are replayed |
|---|---|---|---|
| before the first commit | - | p, empty | none: the next start begins anew |
| before or during a commit | p | p | p |
| after the commit of p + 1 | p + 1 | p | p: its new records came after a commit that failed |
| after the new log was begun | p + 1 | p, p + 1 | both, in order |
| after that | p + 1 | p + 1 | p + 1 |

So replaying must skip events that the state already contains. A folder with a state always has a log. Each
state names the log that was written before it, that log's number of records and their digest, so that an
older log is refused. With a `StateKey` every record is encrypted, and bound to its log and its place there.
The number, kinds and lengths of records stay visible.

Rollback detection
------------------
A ledger stores, besides the state's position, the end of the log: the log's position and its number of
records. It stores no digest of users' data. The end is sent to the ledger at every close, and before an
append if `WITNESSED_EVERY` records were not sent yet, because sending costs several times as much as an
append. A log is on disk before its end is sent, so that no crash leaves a folder that is refused. A folder
that was rolled back to fewer records than the ledger knows raises `ForkedState`. If the folder was never
closed, a loss of the last `WITNESSED_EVERY` records is not detected. While the ledger cannot be reached, an
append that has to send is refused; closing is not.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from dpbandits._reading import reading
from dpbandits.errors import CorruptState, ForkedState, StateError
from dpbandits.state.files import locked, private_folder
from dpbandits.state.journal import Journal, Record, end_path
from dpbandits.state.sealing import StateKey
from dpbandits.state.witness import Payer, Witness

__all__ = ["WITNESSED_EVERY", "Life", "LiveFolder", "Reach"]

_KIND = "rounds"
_NAME = re.compile(r"rounds-([0-9]{1,19})\.log(\.end)?", re.ASCII)

WITNESSED_EVERY = 32
"""Largest number of records that a ledger does not know yet, so that
sending their number costs little per append.
"""


class Reach(NamedTuple):
    """End of a log: the position in its name, its number of records, and the digest of all of them."""

    log: int
    records: int
    digest: str


class Life(ABC):
    """Interface of the storage of one running object: its state, and a log of the events since that state."""

    @property
    def lineage(self) -> str | None:
        """Lineage for an object whose first state will be stored here; None to generate one.

        With a fixed lineage, an interrupted start that is repeated is charged once.
        """
        return None

    @property
    @abstractmethod
    def state(self) -> Path:
        """Path of the state file."""

    @property
    @abstractmethod
    def reach(self) -> Reach | None:
        """End of the durable log, which the next committed state will name; None if there is no log yet."""

    @property
    @abstractmethod
    def records(self) -> int:
        """Number of records of the log, as far as `append` and `settle` have seen them."""

    @abstractmethod
    def earlier(self, lineage: str, position: int, *, lived: bool, follows: Reach | None) -> Iterator[Record]:
        """Yield the records, in order, that may have to be applied to a state at `position`.

        Args:
            lineage: Lineage of the state.
            position: Position of the state.
            lived: True if the state was written in a storage with a log, which therefore must exist.
            follows: End of the log when the state was written, as the state names it.

        Raises:
            CorruptState: A log was changed, cut or removed, or state and log come from different times.
            ForkedState: The ledger knows of more records than the log has.
            IncompatibleState: The log belongs to another policy.
            StateError: The ledger could not be reached.
        """

    def prepare(self, lineage: str, position: int) -> None:
        """Prepare for the first state. The default does nothing."""

    @abstractmethod
    def begin(self, lineage: str, position: int) -> None:
        """Begin a new log after the state at `position` is durable, and drop records in that state."""

    @abstractmethod
    def append(self, kind: bytes, content: bytes) -> None:
        """Append a record durably, before its event is applied.

        If this raises an error, `settle` finds out whether the record counts.
        """

    def settle(self) -> None:
        """Find out whether a record counts whose `append` raised an error; if so, `records` includes it.

        By default the record does not count, and `records` is unchanged.
        """

    @abstractmethod
    def refuse_leftovers(self) -> None:
        """Raise `CorruptState` if the log has records although there is no state."""

    def close(self) -> None:
        """Release this storage, so that another process can use it. The default does nothing."""


class LiveFolder(Life):
    """Locked folder with a state and a log of events; see the module.

    Args:
        folder: Folder, created with mode 0700 if it is missing.
        key: Key that encrypts the records and the state.
        ledger: Ledger that stores the end of the log, which detects a rollback.

    Raises:
        StateError: Another process or object uses the folder, others may write to it, or it cannot be
            created.
    """

    def __init__(
        self, folder: str | PathLike[str], *, key: StateKey | None = None, ledger: Payer | None = None
    ) -> None:
        self._folder = private_folder(Path(folder), what="the policy's folder").resolve()
        self._key, self._ledger = key, ledger
        self._journal: Journal | None = None
        self._lineage, self._position = "", 0
        self._told = 0  # number of the current log's records that the ledger knows of
        self._earlier: Reach | None = None
        with ExitStack() as files:
            files.enter_context(locked(self._folder / "open.lock", wait=False))
            self._files = files.pop_all()

    @property
    def state(self) -> Path:
        """Path of the state file."""
        return self._folder / "policy.state"

    def __repr__(self) -> str:
        return "LiveFolder()"

    @property
    def reach(self) -> Reach | None:
        """End of the current log, or of the last earlier log that was replayed; None if there is no log."""
        if self._journal is None:
            return self._earlier
        return Reach(self._position, len(self._journal), self._journal.digest)

    def earlier(self, lineage: str, position: int, *, lived: bool, follows: Reach | None) -> Iterator[Record]:
        """Yield the records of all logs in the folder, in order; see `Life.earlier`."""
        found = self._positions()
        if lived and not found:
            raise CorruptState("the log of rounds is missing: restore it and the state from one backup")
        if found and found[-1] > position:
            raise CorruptState(
                "the state is older than the log of rounds beside it: restore both from one backup"
            )
        self._check_reach(lineage, position, follows, [one for one in found if self._log(one).exists()])
        for one in found:
            path, subject = self._log(one), _subject(lineage, one)
            if not path.exists() and one != found[-1]:
                continue  # a crash interrupted its removal: only its end file is left
            if not end_path(path).exists():
                Journal.create(path, kind=_KIND, subject=subject)  # raises if the log has a record
                continue
            journal = Journal(path, kind=_KIND, subject=subject, lazy=True)
            yield from self._opened(journal, subject)
            self._earlier = Reach(one, len(journal), journal.digest)

    def _check_reach(self, lineage: str, position: int, follows: Reach | None, logs: list[int]) -> None:
        """Raise an error if the logs have fewer records than the state or the ledger says.

        A log that was removed is no error if a later log exists: that log's state includes all its records.
        """
        if follows is not None:
            if follows.log in logs:
                fits = self._digest_after(lineage, follows.log, follows.records) == follows.digest
            else:
                fits = position in logs
            if not fits:
                raise CorruptState(
                    "the log of rounds is older than the state beside it: restore both from one backup"
                )
        last = None if self._ledger is None else self._ledger.last(_witnessed_as(lineage))
        if last is None:
            return
        log, records = _told(last)
        if log in logs:
            fits = self._digest_after(lineage, log, records) is not None
        else:
            fits = bool(logs) and log < logs[-1]
        if not fits:
            raise ForkedState(
                "the ledger has witnessed more records of the log of rounds than the folder has: the folder "
                "was rolled back to an older copy; use the newest"
            )

    def _digest_after(self, lineage: str, log: int, records: int) -> str | None:
        subject = _subject(lineage, log)
        return Journal(self._log(log), kind=_KIND, subject=subject, lazy=True).digest_after(records)

    def prepare(self, lineage: str, position: int) -> None:
        """Create an empty log, before the first state is written, if the folder has no log."""
        if not self._positions():
            Journal.create(self._log(position), kind=_KIND, subject=_subject(lineage, position))

    def begin(self, lineage: str, position: int) -> None:
        """Begin the log that follows the state at `position`, and remove older logs.

        If the new log cannot be written, the current log is continued.
        """
        subject, path = _subject(lineage, position), self._log(position)
        try:
            self._journal = Journal.create(path, kind=_KIND, subject=subject, lazy=True)
            self._lineage, self._position, self._told = lineage, position, 0
            for one in self._positions():
                if one != position:
                    self._log(one).unlink(missing_ok=True)
                    end_path(self._log(one)).unlink(missing_ok=True)
        except OSError:
            if self._journal is None:
                raise

    def append(self, kind: bytes, content: bytes) -> None:
        """Append a record durably; see `Journal.append`.

        Raises:
            ForkedState: The ledger knows of a later log; nothing was appended.
            StateError: The end of the log could not be sent to the ledger; nothing was appended.
        """
        journal = self._begun()
        if len(journal) - self._told >= WITNESSED_EVERY:
            self._tell(journal)
        if self._key is not None:
            subject = _subject(self._lineage, self._position)
            content = self._key.seal(content, public=_place(subject, len(journal)))
        journal.append(kind, content)

    @property
    def records(self) -> int:
        """Number of records of the current log, as far as `append` and `settle` have seen them."""
        return 0 if self._journal is None else len(self._journal)

    def settle(self) -> None:
        """Find out whether a record counts whose `append` raised an error; if so, `records` includes it."""
        self._begun().settle()

    def refuse_leftovers(self) -> None:
        """Raise `CorruptState` if a log has records but there is no state; remove logs without records."""
        for position in self._positions():
            path = self._log(position)
            if _holds_records(path):
                raise CorruptState(
                    "the folder has a log of rounds and no state: restore both from one backup"
                )
            end_path(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlock the folder for another process."""
        try:
            if self._journal is not None:
                self._journal.close()
                with suppress(StateError):  # then the ledger lacks the last records, as after a crash
                    self._tell(self._journal)
        finally:
            self._journal = None
            self._files.close()

    def _tell(self, journal: Journal) -> None:
        """Send the end of the log to the ledger. All of the log is on disk."""
        if self._ledger is None or len(journal) == self._told:
            return
        name = _witnessed_as(self._lineage)
        last = self._ledger.last(name)
        if last is not None and _told(last)[0] > self._position:
            raise ForkedState("another copy of this folder has continued: use that one")
        here = f"{self._position}:{len(journal)}"
        if last is None or last.digest != here:  # an earlier call that raised may have succeeded
            self._ledger.advance(name, position=0 if last is None else last.position + 1, digest=here)
        self._told = len(journal)

    def _begun(self) -> Journal:
        if self._journal is None:
            raise StateError("the folder has no log of rounds yet: the state was not written")
        return self._journal

    def _opened(self, journal: Journal, subject: str) -> Iterator[Record]:
        """Yield the decrypted records that the journal has not returned before."""
        before = len(journal)
        for place, record in enumerate(journal.settle(), start=before):
            if self._key is None:
                yield record
            else:
                yield Record(record.kind, self._key.open(record.content, public=_place(subject, place)))

    def _positions(self) -> list[int]:
        matches = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted({int(match[1]) for match in matches if match})

    def _log(self, position: int) -> Path:
        return self._folder / f"rounds-{position}.log"


def _holds_records(log: Path) -> bool:
    """Return True if a log has more than a header, or is missing, as it may have had records."""
    try:
        with log.open("rb") as lines:
            lines.readline()
            return bool(lines.read(1))
    except FileNotFoundError:
        return True


def _subject(lineage: str, position: int) -> str:
    return f"{lineage}:{position}"


def _witnessed_as(lineage: str) -> str:
    """Return the name under which a ledger stores the end of the logs of a lineage."""
    return f"{lineage}:rounds"


def _told(witness: Witness) -> tuple[int, int]:
    """Return the end of a log that the ledger has stored: position of the log and number of records."""
    with reading("what a ledger witnessed of a log of rounds", CorruptState):
        log, records = witness.digest.split(":")
        return int(log), int(records)


def _place(subject: str, number: int) -> bytes:
    return f"{subject}:{number}".encode()
