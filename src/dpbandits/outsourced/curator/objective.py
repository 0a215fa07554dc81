"""What an answer is computed by: a function of the row's own id, or a program."""

import math
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits.errors import InvalidParameter, ProtocolError

__all__ = ["Command", "Objective", "evaluated", "ready"]

Objective = Callable[[object], float]
"""A row's own id -> its answer."""

_STOPPED_AT = 0.5
"""Part of a pace after which a program is stopped: the rest is for what comes after it."""


@worded
@dataclass(frozen=True)
class Command:
    """An objective that is a program: run with the row's own id as its last argument, prints one number.

    Its standard input is empty: what the curator's process reads (the modeler's questions) is not for it.
    What it writes to standard error is dropped. While it runs, other users of the machine may read the id in
    its list of processes.

    Args:
        line: program and arguments as a shell would split them; no shell is involved.
        timeout: seconds after which it is stopped, with all that it has started, and counts as failed.
    """

    line: str
    timeout: float = 600.0

    def __post_init__(self) -> None:
        _checks.an(self.line, str, name="command", pass_="Command('./evaluate')")
        _checks.number(self.timeout, name="timeout")
        try:
            words = shlex.split(self.line)
        except ValueError:
            raise InvalidParameter("the command has an open quote") from None
        if not words:
            raise InvalidParameter("the command is empty")

    def __call__(self, row_id: object) -> float:
        """Run it for one row.

        Raises:
            ProtocolError: it cannot be started, fails, takes too long or prints no number.
        """
        try:
            status, printed = self._run(str(row_id))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ProtocolError(f"the answer command could not be run ({type(error).__name__})") from None
        if status != 0:
            raise ProtocolError(f"the answer command failed with exit status {status}")
        try:
            return float(printed.strip())
        except ValueError:
            raise ProtocolError("the answer command printed no number") from None

    def _run(self, row_id: str) -> tuple[int, bytes]:
        with subprocess.Popen(  # noqa: S603 - the curator's own command, without a shell
            [*shlex.split(self.line), row_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=self.timeout)
            except BaseException:
                if hasattr(os, "killpg"):
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                else:  # Windows: its children are left
                    process.kill()
                raise
        return process.returncode, printed


def ready(objective: Objective | Command | None) -> Objective | Command:
    """The objective, unless it can evaluate no row at all: said before one is named.

    Raises:
        ProtocolError: there is no objective, or its program is not found.
    """
    if objective is None:
        raise ProtocolError("this curator has no objective: pass one to answer")
    if isinstance(objective, Command) and shutil.which(shlex.split(objective.line)[0]) is None:
        raise ProtocolError("the answer command is not found (FileNotFoundError): nothing was evaluated")
    return objective


def evaluated(objective: Objective | Command, own_id: object, *, pace: float | None = None) -> float:
    """The finite answer of a row; with a pace, a program is stopped early enough to keep it.

    Raises:
        ProtocolError: the objective failed or gave no finite number. What it said is not passed on: it may
            hold the row's data, or dress as one of our public errors.
    """
    if isinstance(objective, Command) and pace is not None:
        objective = replace(objective, timeout=min(objective.timeout, _STOPPED_AT * pace))
    try:
        value = float(objective(own_id))
    except KeyboardInterrupt:  # of whoever stops the curator: no failure of the row
        raise
    except BaseException as error:  # sys.exit("...") and a cancelled task would leave their text behind, too
        if isinstance(error, ProtocolError) and isinstance(objective, Command):
            raise  # its texts are ours and hold no value
        raise ProtocolError(f"the objective failed ({type(error).__name__})") from None
    if not math.isfinite(value):
        raise ProtocolError("the objective gave NaN or an infinite number")
    return value
