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

So playing back must pass over what the state has already, and no state of a folder is without a log. With a
`StateKey` the records are sealed, each bound to its log and its place there; their number, kinds and lengths
can be seen.

One process at a time uses a folder: it holds `open.lock` until it closes or dies.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path

from dpbandits.errors import CorruptState, StateError
from dpbandits.state.files import locked, private_folder
from dpbandits.state.journal import Journal, Record
from dpbandits.state.sealing import StateKey

__all__ = ["LiveFolder"]

_KIND = "rounds"
_NAME = re.compile(r"rounds-([0-9]{1,19})\.log(\.end)?", re.ASCII)


class LiveFolder:
    """The folder, held; see the module.

    Args:
        folder: made where it does not exist, with mode 0700.
        key: seals the records, as it seals the state.

    Raises:
        StateError: another process or object uses the folder, others may write to it, or it cannot be made.
    """

    def __init__(self, folder: str | PathLike[str], *, key: StateKey | None = None) -> None:
        self._folder = private_folder(Path(folder), what="the policy's folder").resolve()
        self._key = key
        self._journal: Journal | None = None
        self._subject = ""
        with ExitStack() as files:
            files.enter_context(locked(self._folder / "open.lock", wait=False))
            self._files = files.pop_all()

    @property
    def state(self) -> Path:
        """Where the state is kept."""
        return self._folder / "policy.state"

    def __repr__(self) -> str:
        return "LiveFolder()"

    def earlier(self, lineage: str, position: int, *, lived: bool) -> Iterator[Record]:
        """What the logs in the folder hold, in order, for a state that stands at `position`.

        Args:
            lineage, position: of the state.
            lived: whether the state was written in such a folder, and so has a log.

        Raises:
            CorruptState: a log was changed, cut or removed, or the state is older than its log.
            IncompatibleState: another policy's log.
        """
        found = self._positions()
        if lived and not found:
            raise CorruptState("the log of rounds is gone: restore it and the state from one backup")
        if found and found[-1] > position:
            raise CorruptState(
                "the state is older than the log of rounds beside it: restore both from one backup"
            )
        for one in found:
            path, subject = self._log(one), _subject(lineage, one)
            if not path.exists() and one != found[-1]:
                continue  # it was being removed
            if not _end(path).exists():
                Journal.create(path, kind=_KIND, subject=subject)  # refuses what holds a record
                continue
            yield from self._opened(Journal(path, kind=_KIND, subject=subject, lazy=True), subject)

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
            self._subject = subject
            for one in self._positions():
                if one != position:
                    self._log(one).unlink(missing_ok=True)
                    _end(self._log(one)).unlink(missing_ok=True)
        except OSError:
            if self._journal is None:
                raise

    def append(self, kind: bytes, content: bytes) -> None:
        """Make a record durable; see `Journal.append`."""
        journal = self._begun()
        if self._key is not None:
            content = self._key.seal(content, public=_place(self._subject, len(journal)))
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
            _end(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let another process have the folder."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._journal = None
            self._files.close()

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


def _end(log: Path) -> Path:
    return log.with_name(log.name + ".end")


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


def _place(subject: str, number: int) -> bytes:
    return f"{subject}:{number}".encode()
