"""`SecretDirectory`: where a curator keeps its side, and what watches over it.

| file | what |
|---|---|
| `curator.state` | which released row is which table row, ids, the objective's column, the released rows |
| `answers.log`, `answers.log.end` | evaluations and answers (`dpbandits.outsourced.curator.answers`) |
| `failures.log` | why objectives failed: nothing of it goes to the modeler |
| `answers.lock`, `curator.state.lock` | the turns of several processes |

Mode 700, files 600, the owner's alone. No raw inputs are kept: of the table there is a keyed digest, by which
another table is refused. It tells whoever reads this directory, and nobody else, whether a guess of the whole
table is right in every row, at the price of a slow digest a guess (`TableRows.digest`).
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
    """The secret side's directory, and what belongs to it.

    Args:
        path: the directory; made by a curator that begins there.
        account: pays for every release of these people; its ledger witnesses state and answers, and the
            directory then opens with this ledger only.
        ledger: the witness alone, where nothing is paid, or where a release is opened that was paid for.
        key: seals the state; the log of answers, which the modeler has too, stays readable.
        resume: take up a finished release of the same table and parameters instead of refusing.

    Raises:
        InvalidParameter: an argument of another kind, or the account of another ledger.
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
        """The log of answers."""
        return Path(self.path) / "answers.log"

    @property
    def failures(self) -> Path:
        """Why there was no answer, line by line."""
        return Path(self.path) / "failures.log"

    def make(self) -> None:
        """Make the directory if it is missing; see `check`. ProtocolError where it cannot be."""
        refuse_without_locks("the secret directory")
        try:
            Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ProtocolError("a file is in the secret directory's place: name another one") from None
        self.check()

    def check(self) -> None:
        """See that the directory is there and its owner's alone.

        Raises:
            MissingState: there is none.
            ProtocolError: others may read it.
            StateError: others may put another in its place, or the platform has no POSIX locks.
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
        """One process at a time; whoever waits here finds what the one before has left."""
        return locked(Path(self.path) / "answers.lock")

    def note(self, reason: str) -> None:
        """Write down why there was no answer, for the curator's eyes only."""
        descriptor = open_to_write(self.failures, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "a", encoding="utf-8") as lines:
            lines.write(f"{reason}\n")

    def begin(self, lineage: str, public: dict[str, Any], secret: dict[str, Any]) -> None:
        """Commit a plan: position 0, an id before anything is paid or drawn."""
        plan = State(kind=KIND, version=VERSION, lineage=lineage, position=0, public=public, secret=secret)
        StateStore(self._state, self.ledger, self.key).commit(plan)

    def load(self) -> Saved:
        """The last committed state; see `saved_state`."""
        return saved_state(self._state, kind=KIND, version=VERSION, ledger=self.ledger, key=self.key)

    @property
    def _state(self) -> Path:
        return Path(self.path) / "curator.state"
