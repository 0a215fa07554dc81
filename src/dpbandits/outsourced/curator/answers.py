"""One released row in, one answer out: evaluated once, noised once, durable before it is given.

The order of an answer, all of it under the curator's lock: settle the log with the ledger, check the row and
the cap, evaluate, add noise, append to the log (on disk, then witnessed), give.
"""

import math
import operator
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import (
    AlreadyTold,
    HorizonExceeded,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.outsourced.curator.answer_log import AnswerLog
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows import AnswerLaplace

__all__ = ["AnswerDesk", "Command", "Objective"]

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
                f"the answer command could not be run ({type(error).__name__}): nothing was logged"
            ) from None
        if done.returncode != 0:
            raise ProtocolError(
                f"the answer command failed with exit status {done.returncode}: nothing was logged, ask again"
            )
        try:
            return float(done.stdout.strip())
        except ValueError:
            raise ProtocolError(
                "the answer command printed no number: nothing was logged, ask again"
            ) from None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnswerDesk:
    """The secret side of answers.

    Args:
        log: what was answered.
        table_rows: (n,) the table's row behind each released one.
        column: (rows of the table,) answers, where they are a column.
        own_ids: the rows' own ids, for functions and commands; their places in the table where None.
        objective: the function or command, where answers are no column.
        answer_noise: noise on answers, or None.
        noise: its source.
        cap: answers given at most.
    """

    log: AnswerLog
    table_rows: IntArray
    column: FloatArray | None
    own_ids: list[str] | None
    objective: Objective | Command | None
    answer_noise: AnswerLaplace | None
    noise: NoiseSource
    cap: int | None

    def answer(self, row: object) -> float:
        """See `Curator.answer`."""
        self.log.settle()
        number = self._checked(row)
        if self.log.get(number) is not None:
            raise AlreadyTold(f"row {number} was answered before: each row is answered once")
        if self.cap is not None and len(self.log) >= self.cap:
            raise HorizonExceeded(f"all {self.cap} answers of this release were given")
        value = self._evaluate(number)
        if self.answer_noise is not None:
            exact = np.array([value])
            value = float(self.answer_noise.privatise(exact, self.noise, position=len(self.log))[0])
        self.log.append(number, value)
        return value

    def answer_again(self, row: object) -> float:
        """See `Curator.answer_again`."""
        self.log.settle()
        value = self.log.get(self._checked(row))
        if value is None:
            raise UnknownDecision("this row was not answered yet: ask for it")
        return value

    def _checked(self, row: object) -> int:
        try:
            number = -1 if isinstance(row, bool | np.bool_) else operator.index(row)  # type: ignore[arg-type]
        except TypeError:
            number = -1
        if not 0 <= number < len(self.table_rows):
            raise UnknownDecision(
                f"the release has rows 0 to {len(self.table_rows) - 1}, the one asked for is none"
            )
        return number

    def _evaluate(self, row: int) -> float:
        place = int(self.table_rows[row])
        if self.column is not None:
            return float(self.column[place])
        if self.objective is None:
            raise ProtocolError("this curator has no objective: pass one to answer")
        own_id: object = place if self.own_ids is None else self.own_ids[place]
        try:
            value = float(self.objective(own_id))
        except Exception as error:
            if isinstance(error, ProtocolError) and isinstance(self.objective, Command):
                raise  # its texts are ours and hold no value
            raise ProtocolError(
                f"the objective failed ({type(error).__name__}): nothing was logged, ask again"
            ) from None
        if not math.isfinite(value):
            raise ProtocolError("the objective gave NaN or an infinite number: nothing was logged, ask again")
        return value
