"""What an answer is computed by: a function of the row's own id, or a program."""

import math
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from dpbandits import _checks
from dpbandits.errors import InvalidParameter, ProtocolError

__all__ = ["Command", "Objective", "evaluated"]

Objective = Callable[[object], float]
"""A row's own id -> its answer."""


@dataclass(frozen=True)
class Command:
    """An objective that is a program: run with the row's own id as its last argument, prints one number.

    Its standard input is empty: what the curator's process reads (the modeler's questions) is not for it.

    Args:
        line: program and arguments as a shell would split them; no shell is involved.
        timeout: seconds after which it counts as failed.
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
            done = subprocess.run(  # noqa: S603 - the curator's own command, without a shell
                [*shlex.split(self.line), str(row_id)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ProtocolError(
                f"the answer command could not be run ({type(error).__name__}): no answer was logged"
            ) from None
        if done.returncode != 0:
            raise ProtocolError(
                f"the answer command failed with exit status {done.returncode}: no answer was logged"
            )
        try:
            return float(done.stdout.strip())
        except ValueError:
            raise ProtocolError("the answer command printed no number: no answer was logged") from None


def evaluated(objective: Objective | Command, own_id: object) -> float:
    """The finite answer of a row.

    Raises:
        ProtocolError: the objective failed or gave no finite number. What it said is not passed on: it may
            hold the row's data, or dress as one of our public errors.
    """
    try:
        value = float(objective(own_id))
    except (Exception, SystemExit) as error:  # sys.exit("...") would print its text as the process ends
        if isinstance(error, ProtocolError) and isinstance(objective, Command):
            raise  # its texts are ours and hold no value
        raise ProtocolError(f"the objective failed ({type(error).__name__}): no answer was logged") from None
    if not math.isfinite(value):
        raise ProtocolError("the objective gave NaN or an infinite number: no answer was logged")
    return value
