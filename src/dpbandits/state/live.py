"""`LiveFolder`: a folder that one running object lives in: its state, and a log of what happened since.

A state is written at every release. What comes in between (asks, tells) is appended to a log beside it,
durable before it is answered, and played back over the state when the folder is opened again. Each commit of
a state begins a new log, `rounds-POSITION.log`, named after it; then older logs are removed.

| crash | state | logs | what is played back |
|---|---|---|---|
| before the first commit | - | p, empty | nothing: the next one begins anew |
| before or while a commit | p | p | p |
| after the commit of p + 1 | p + 1 | p | p: new is what came after a commit that failed |
| after the new log was begun | p + 1 | p, p + 1 | both, in order |
| after that | p + 1 | p + 1 | p + 1 |

So playing back must pass over what the state has already, and no state of a folder is without a log. Each
state says which log it follows, how many records that had and their digest, so that an older log beside it is
refused. With a `StateKey` the records are sealed, each bound to its log and its place there; their number,
kinds and lengths can be seen.

With a ledger, it witnesses beside the state how far the log reaches: the log's position and its number of
records, and no digest of what people brought. It is told at every closing, and before a record is appended
while `WITNESSED_EVERY` are untold: an event of a ledger costs several times what an append does. A log is on
disk before the ledger hears of it, so that no crash leaves a folder that is refused. A folder that is put
back without records that were told is `ForkedState`; the last `WITNESSED_EVERY` may be missing unnoticed
where the folder was never closed. A ledger that cannot be reached stops the next append, and no closing.

One process at a time uses a folder: it holds `open.lock` until it closes or dies.

`Life` is what a policy asks of wherever it lives; the service keeps such a log beside other tables.
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
"""Records that a ledger need not know of: what it costs to tell it is then a small part of each append."""


class Reach(NamedTuple):
    """How far a log reaches: the position it is named after, its records and the digest of all of them."""

    log: int
    records: int
    digest: str


class Life(ABC):
    """Where one running object lives: its state, and a log of what happened since."""

    @property
    def lineage(self) -> str | None:
        """Lineage of what begins here, so that an interrupted beginning pays once; None: a fresh one."""
        return None

    @property
    @abstractmethod
    def state(self) -> Path:
        """Where the state is kept."""

    @property
    @abstractmethod
    def reach(self) -> Reach | None:
        """How far the log reaches, all of it durable; None where there is none yet. Asked before a commit."""

    @property
    @abstractmethod
    def records(self) -> int:
        """How many records the log holds, as far as `append` and `settle` have seen."""

    @abstractmethod
    def earlier(self, lineage: str, position: int, *, lived: bool, follows: Reach | None) -> Iterator[Record]:
        """What the log holds, in order, for a state that stands at `position`.

        Args:
            lineage, position: of the state.
            lived: whether the state was written where such a log is kept, and so has one.
            follows: how far the log reached when the state was written, as the state says.

        Raises:
            CorruptState: a log was changed, cut or removed, or state and log are not of one time.
            ForkedState: the ledger has seen more records than there are.
            IncompatibleState: another policy's log.
            StateError: the ledger could not be asked.
        """

    def prepare(self, lineage: str, position: int) -> None:
        """Get ready for a state that is written here for the first time; by default nothing is needed."""

    @abstractmethod
    def begin(self, lineage: str, position: int) -> None:
        """The state at `position` is durable: forget the records that it holds."""

    @abstractmethod
    def append(self, kind: bytes, content: bytes) -> None:
        """Note a record, before what it says is done; after an error `settle` says whether it counts."""

    def settle(self) -> None:
        """See whether a record counts that `append` raised at: then it is among `records`. By default it does
        not count.
        """

    @abstractmethod
    def refuse_leftovers(self) -> None:
        """CorruptState where there are records of a state that is gone."""

    def close(self) -> None:
        """Let another process live here; by default nothing is needed."""


class LiveFolder(Life):
    """The folder, held; see the module.

    Args:
        folder: made where it does not exist, with mode 0700.
        key: seals the records, as it seals the state.
        ledger: witnesses how far the log reaches.

    Raises:
        StateError: another process or object uses the folder, others may write to it, or it cannot be made.
    """

    def __init__(
        self, folder: str | PathLike[str], *, key: StateKey | None = None, ledger: Payer | None = None
    ) -> None:
        self._folder = private_folder(Path(folder), what="the policy's folder").resolve()
        self._key, self._ledger = key, ledger
        self._journal: Journal | None = None
        self._lineage, self._position = "", 0
        self._told = 0  # records of the present log that the ledger has heard of
        self._earlier: Reach | None = None
        with ExitStack() as files:
            files.enter_context(locked(self._folder / "open.lock", wait=False))
            self._files = files.pop_all()

    @property
    def state(self) -> Path:
        """Where the state is kept."""
        return self._folder / "policy.state"

    def __repr__(self) -> str:
        return "LiveFolder()"

    @property
    def reach(self) -> Reach | None:
        """How far the present log reaches, or what was played back of earlier ones; None of neither."""
        if self._journal is None:
            return self._earlier
        return Reach(self._position, len(self._journal), self._journal.digest)

    def earlier(self, lineage: str, position: int, *, lived: bool, follows: Reach | None) -> Iterator[Record]:
        """What the logs in the folder hold, in order; see `Life.earlier`."""
        found = self._positions()
        if lived and not found:
            raise CorruptState("the log of rounds is gone: restore it and the state from one backup")
        if found and found[-1] > position:
            raise CorruptState(
                "the state is older than the log of rounds beside it: restore both from one backup"
            )
        self._check_reach(lineage, position, follows, [one for one in found if self._log(one).exists()])
        for one in found:
            path, subject = self._log(one), _subject(lineage, one)
            if not path.exists() and one != found[-1]:
                continue  # it was being removed
            if not end_path(path).exists():
                Journal.create(path, kind=_KIND, subject=subject)  # refuses what holds a record
                continue
            journal = Journal(path, kind=_KIND, subject=subject, lazy=True)
            yield from self._opened(journal, subject)
            self._earlier = Reach(one, len(journal), journal.digest)

    def _check_reach(self, lineage: str, position: int, follows: Reach | None, logs: list[int]) -> None:
        """Refuse logs that are older than the state, or the ledger, knows them to be.

        A log that is gone was followed by that of a later state, which holds all of it.
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
                "the ledger has witnessed more of the log of rounds than the folder holds: an older copy of "
                "it was put back; use the newest"
            )

    def _digest_after(self, lineage: str, log: int, records: int) -> str | None:
        subject = _subject(lineage, log)
        return Journal(self._log(log), kind=_KIND, subject=subject, lazy=True).digest_after(records)

    def prepare(self, lineage: str, position: int) -> None:
        """Begin an empty log where there is none, before a state is written here for the first time."""
        if not self._positions():
            Journal.create(self._log(position), kind=_KIND, subject=_subject(lineage, position))

    def begin(self, lineage: str, position: int) -> None:
        """Begin the log of what follows the state at `position`, and remove those that it holds.

        Where the disk refuses, the log goes on that there is.
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
        """Make a record durable; see `Journal.append`.

        Raises:
            ForkedState: the ledger has heard of a later log; nothing was appended.
            StateError: it could not be told how far the log reaches; nothing was appended.
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
        """How many records the present log holds, as far as `append` and `settle` have seen."""
        return 0 if self._journal is None else len(self._journal)

    def settle(self) -> None:
        """See whether a record counts that `append` raised at: then it is among `records`."""
        self._begun().settle()

    def refuse_leftovers(self) -> None:
        """CorruptState where there are logs of a state that is gone; those that hold nothing are removed."""
        for position in self._positions():
            path = self._log(position)
            if _holds_records(path):
                raise CorruptState(
                    "the folder holds a log of rounds and no state: restore both from one backup"
                )
            end_path(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let another process have the folder."""
        try:
            if self._journal is not None:
                self._journal.close()
                with suppress(StateError):  # as after a crash, the ledger knows of all but the last
                    self._tell(self._journal)
        finally:
            self._journal = None
            self._files.close()

    def _tell(self, journal: Journal) -> None:
        """Let the ledger know how far the log reaches, all of which is on disk."""
        if self._ledger is None or len(journal) == self._told:
            return
        name = _witnessed_as(self._lineage)
        last = self._ledger.last(name)
        if last is not None and _told(last)[0] > self._position:
            raise ForkedState("another copy of this folder has gone on: use that one")
        here = f"{self._position}:{len(journal)}"
        if last is None or last.digest != here:  # an event that was not acknowledged may have happened
            self._ledger.advance(name, position=0 if last is None else last.position + 1, digest=here)
        self._told = len(journal)

    def _begun(self) -> Journal:
        if self._journal is None:
            raise StateError("the folder has no log of rounds yet: the state was not written")
        return self._journal

    def _opened(self, journal: Journal, subject: str) -> Iterator[Record]:
        """Records that are new to the journal, unsealed."""
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
    """Whether there is more than a header, whosever it is; of a log that is gone nobody knows."""
    try:
        with log.open("rb") as lines:
            lines.readline()
            return bool(lines.read(1))
    except FileNotFoundError:
        return True


def _subject(lineage: str, position: int) -> str:
    return f"{lineage}:{position}"


def _witnessed_as(lineage: str) -> str:
    """What the ledger calls the logs of a lineage, all of them together."""
    return f"{lineage}:rounds"


def _told(witness: Witness) -> tuple[int, int]:
    """Position and records of a log, as the ledger was told."""
    with reading("what a ledger witnessed of a log of rounds", CorruptState):
        log, records = witness.digest.split(":")
        return int(log), int(records)


def _place(subject: str, number: int) -> bytes:
    return f"{subject}:{number}".encode()
