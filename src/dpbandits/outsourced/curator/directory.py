"""`SecretDirectory`: where a curator keeps its side, and what watches over it.

| file | what |
|---|---|
| `curator.state` | which released row is which table row, ids, the objective's column, the released rows |
| `answers.log`, `answers.log.end` | what was answered (`dpbandits.outsourced.curator.answers`) |
| `answers.lock`, `curator.state.lock` | the turns of several processes |

Mode 700, files 600, the owner's alone. No raw inputs are kept.
"""

import os
import stat
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NoReturn

from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.state import Ledger, State, StateKey, StateStore
from dpbandits.state.files import locked
from dpbandits.state.holder import Saved, saved_state

__all__ = ["KIND", "VERSION", "SecretDirectory"]

KIND = "outsourced.curator"
VERSION = 3


@dataclass(frozen=True)
class SecretDirectory:
    """The secret side's directory, and what belongs to it.

    Args:
        path: the directory; made by a curator that begins there.
        ledger: witness of the state and of the answers, and where `account` is; the directory then opens
            with this ledger only.
        account: pays for every release of these people; needs a ledger.
        key: seals the state; the log of answers, which the modeler has too, stays readable.
        resume: take up a finished release of the same parameters instead of refusing; the table is then not
            looked at again.

    Raises:
        InvalidParameter: an account without a ledger.
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    ledger: Ledger | None = field(default=None, repr=False)
    account: str | None = None
    key: StateKey | None = field(default=None, repr=False)
    resume: bool = False

    def __post_init__(self) -> None:
        if self.account is not None and self.ledger is None:
            raise InvalidParameter("account names an account in a ledger: pass the ledger too")
        object.__setattr__(self, "path", Path(self.path))

    @property
    def answers(self) -> Path:
        """The log of answers."""
        return Path(self.path) / "answers.log"

    def make(self) -> None:
        """Make the directory if it is missing; see `check`."""
        Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check()

    def check(self) -> None:
        """See that the directory is there and its owner's alone.

        Raises:
            FileNotFoundError: there is none.
            ProtocolError: others may read it.
        """
        folder = Path(self.path)
        if not folder.is_dir():
            raise FileNotFoundError("there is no secret directory at this path")
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            raise ProtocolError("the secret directory is open to other users: make it mode 700 first")

    def turn(self) -> AbstractContextManager[None]:
        """One process at a time; whoever waits here finds what the one before has left."""
        return locked(Path(self.path) / "answers.lock")

    def begin(self, lineage: str, public: dict[str, object]) -> None:
        """Commit a plan: position 0, an id before anything is paid or drawn."""
        plan = State(kind=KIND, version=VERSION, lineage=lineage, position=0, public=public)
        StateStore(self._state, self.ledger, self.key).commit(plan)

    def load(self) -> Saved:
        """The last committed state; see `saved_state`."""
        steps = {1: _older, 2: _older}
        return saved_state(
            self._state, kind=KIND, version=VERSION, steps=steps, ledger=self.ledger, key=self.key
        )

    @property
    def _state(self) -> Path:
        return Path(self.path) / "curator.state"


def _older(state: State) -> NoReturn:
    raise IncompatibleState(
        f"the secret directory has layout {state.version}, which early builds of dpbandits 0.1.0.dev0 wrote: "
        "answer from it with the build that wrote it"
    )
