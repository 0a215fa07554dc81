"""`SecretDirectory`: the directory of a curator's secret state, and the ledger that detects copies of it.

| file | content |
|---|---|
| `curator.state` | each released row's place in the table, ids, column of answers, released rows |
| `answers.log`, `answers.log.end` | evaluations and answers (`dpbandits.outsourced.curator.answers`) |
| `failures.log` | reasons of failed evaluations, which the modeler does not see |
| `answers.lock`, `curator.state.lock` | locks between processes |

The directory has mode 700 and its files 600. No raw inputs are stored. A keyed digest of the table detects
that another table is passed. With it a reader of this directory, and nobody else, can check a guess of the
whole table, at the cost of a slow digest for each guess (`TableRows.digest`).
"""

import os
import stat
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from dpbandits import _checks
from dpbandits.budget import Account, Ledger
from dpbandits.errors import MissingState, ProtocolError
from dpbandits.outsourced.publish import as_path
from dpbandits.state import State, StateKey, StateStore
from dpbandits.state.files import locked, open_to_write, refuse_if_others_write, refuse_without_locks
from dpbandits.state.holder import Saved, saved_state
from dpbandits.state.witness import witness_of

__all__ = ["KIND", "VERSION", "SecretDirectory"]

KIND = "outsourced.curator"
VERSION = 1


@dataclass(frozen=True)
class SecretDirectory:
    """Directory of the secret state, with its account, ledger and key.

    Args:
        path: Directory, created by the curator's constructor.
        account: Account of the table's people, which is charged for releases. Its ledger detects copies of
            state and answers. The directory can then be opened with this ledger only.
        ledger: Ledger that only detects copies, if nothing is charged or a charged release is reopened.
        key: Key that encrypts the state. The log of answers is not encrypted, as the modeler knows them.
        resume: True to continue a finished release of the same table and parameters instead of refusing it.

    Raises:
        InvalidParameter: an argument has another type, or the account belongs to another ledger.
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    ledger: Ledger | None = field(default=None, repr=False)
    account: Account | None = None
    key: StateKey | None = field(default=None, repr=False)
    resume: bool = False

    def __post_init__(self) -> None:
        _checks.an(self.key, StateKey, name="key", pass_="key=StateKey(...)", optional=True)
        _checks.an(self.resume, bool, name="resume", pass_="resume=True")
        witness = witness_of(self.account, self.ledger)
        _checks.assign(self, path=as_path(self.path, name="the secret directory"), ledger=witness)

    @property
    def answers(self) -> Path:
        """Path of the log of answers."""
        return Path(self.path) / "answers.log"

    @property
    def failures(self) -> Path:
        """Path of the file with the reasons of failed evaluations, one per line."""
        return Path(self.path) / "failures.log"

    def make(self) -> None:
        """Create the directory if it is missing, and `check` it.

        Raises:
            ProtocolError: the path is a file, or other users may read the directory.
        """
        refuse_without_locks("the secret directory")
        try:
            Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ProtocolError("the secret directory's path is a file: pass another path") from None
        self.check()

    def check(self) -> None:
        """Check that the directory exists and that only its owner has access.

        Raises:
            MissingState: the directory does not exist.
            ProtocolError: other users may read it.
            StateError: other users may replace it, or the platform has no POSIX locks.
        """
        refuse_without_locks("the secret directory")
        folder = Path(self.path)
        if not folder.is_dir():
            raise MissingState(
                f"there is no secret directory at {folder}: pass the one that the curator was given"
            )
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            raise ProtocolError("the secret directory is open to other users: make it mode 700 first")
        refuse_if_others_write(folder, what="the secret directory")

    def turn(self) -> AbstractContextManager[None]:
        """Return a context manager that holds the lock between processes on this directory."""
        return locked(Path(self.path) / "answers.lock")

    def note(self, reason: str) -> None:
        """Write the reason of a failed evaluation to a file that only the curator may see."""
        descriptor = open_to_write(self.failures, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "a", encoding="utf-8") as lines:
            lines.write(f"{reason}\n")

    def begin(self, lineage: str, public: dict[str, Any], secret: dict[str, Any]) -> None:
        """Commit the first state, at position 0: a release id, before anything is charged or drawn."""
        plan = State(kind=KIND, version=VERSION, lineage=lineage, position=0, public=public, secret=secret)
        StateStore(self._state, self.ledger, self.key).commit(plan)

    def load(self) -> Saved:
        """Return the last committed state; see `saved_state`."""
        return saved_state(self._state, kind=KIND, version=VERSION, ledger=self.ledger, key=self.key)

    @property
    def _state(self) -> Path:
        return Path(self.path) / "curator.state"
