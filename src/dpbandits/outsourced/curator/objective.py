"""Objectives that compute answers: functions of a row's own id, and programs (`Command`)."""

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
"""Function from a row's own id to its answer."""

_STOPPED_AT = 0.5
"""Share of the public answer time after which a program is stopped; the rest is for the steps that follow."""


@worded
@dataclass(frozen=True)
class Command:
    """Objective that is a program: it gets the row's own id as its last argument, and prints one number.

    The program's standard input is empty, so that it cannot read the modeler's requests to the curator's
    process. Its standard error is discarded. While it runs, other users of the machine may see the id in the
    list of processes.

    Args:
        line: Program and arguments, split like a shell command; no shell is involved.
        timeout: Time in seconds after which the program and its children are stopped; the evaluation has
            then failed.
    """

    line: str
    timeout: float = 600.0

    def __post_init__(self) -> None:
        _checks.an(self.line, str, name="command", pass_="Command('./evaluate')")
        _checks.number(self.timeout, name="timeout")
        try:
            words = shlex.split(self.line)
        except ValueError:
            raise InvalidParameter("command: expected closed quotes") from None
        if not words:
            raise InvalidParameter("command: expected the name of a program")

    def __call__(self, row_id: object) -> float:
        """Run the program for one row, and return its number.

        Raises:
            ProtocolError: the program cannot be started, fails, takes too long or prints no number.
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
                else:  # Windows: child processes keep running
                    process.kill()
                raise
        return process.returncode, printed


def ready(objective: Objective | Command | None) -> Objective | Command:
    """Return the objective; raise an error now if it cannot work for any row.

    Raises:
        ProtocolError: there is no objective, or its program is not found.
    """
    if objective is None:
        raise ProtocolError("this curator has no objective: pass objective= to answer rows")
    if isinstance(objective, Command) and shutil.which(shlex.split(objective.line)[0]) is None:
        raise ProtocolError("the answer command is not found (FileNotFoundError): nothing was evaluated")
    return objective


def evaluated(objective: Objective | Command, own_id: object, *, pace: float | None = None) -> float:
    """Return the finite answer of a row.

    With a `pace`, the public time of answers in seconds, a program is stopped early enough to keep that
    time.

    Raises:
        ProtocolError: the objective failed or returned no finite number. The objective's message is not
            passed on: it may contain the row's data, or imitate one of this library's errors.
    """
    if isinstance(objective, Command) and pace is not None:
        objective = replace(objective, timeout=min(objective.timeout, _STOPPED_AT * pace))
    try:
        value = float(objective(own_id))
    except KeyboardInterrupt:  # from the person who stops the curator, not a failure of the row
        raise
    except BaseException as error:  # also SystemExit and CancelledError, whose text could hold data
        if isinstance(error, ProtocolError) and isinstance(objective, Command):
            raise  # these messages are the library's own, without values
        raise ProtocolError(f"the objective failed ({type(error).__name__})") from None
    if not math.isfinite(value):
        raise ProtocolError("the objective returned NaN or an infinite number")
    return value
