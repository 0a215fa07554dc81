"""Ask and tell over published rows in the words of Optuna: a study hands out trials.

Optuna itself is not needed. A trial's parameters are the published coordinates of its row, and its `row` is
what the curator answers for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from dpbandits import _checks
from dpbandits.errors import UnknownDecision
from dpbandits.outsourced import Modeler

__all__ = ["RowStudy", "RowTrial", "TrialState"]


class TrialState(Enum):
    """What has become of a trial."""

    RUNNING = "running"
    COMPLETE = "complete"


@dataclass(frozen=True)
class RowTrial:
    """One row to evaluate.

    Attributes:
        number: 0 for the study's first trial.
        row: the row's number among the published.
        params: the published coordinates, named z0, z1, ...
        value: the answer; None while running.
    """

    number: int
    row: int
    params: dict[str, float]
    value: float | None = None

    @property
    def state(self) -> TrialState:
        """Running until its answer was told."""
        return TrialState.RUNNING if self.value is None else TrialState.COMPLETE


class RowStudy:
    """A study over published rows.

    Args:
        modeler: chooses rows; its direction is the study's.

    Example:
        >>> import numpy as np
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> from dpbandits.outsourced import PublishedRows
        >>> rows = PublishedRows.public(np.linspace(-9.0, 9.0, 19)[:, None], half_width=9.0)
        >>> study = RowStudy(Modeler(rows, kernel=SquaredExponential(lengthscale=3.0), horizon=6))
        >>> study.optimize(lambda trial: -abs(trial.params["z0"] - 4.0), n_trials=6)
        >>> study.best_params
        {'z0': 4.0}
    """

    def __init__(self, modeler: Modeler) -> None:
        self._modeler = _checks.an(modeler, Modeler, name="modeler", pass_="Modeler(published)")
        self._trials: list[RowTrial] = []

    @property
    def direction(self) -> str:
        """maximize or minimize."""
        return "maximize" if self._modeler.maximise else "minimize"

    @property
    def trials(self) -> list[RowTrial]:
        """All trials in the order of asking."""
        return list(self._trials)

    def ask(self) -> RowTrial:
        """A new trial; several may run at once.

        Raises:
            HorizonExceeded: the modeler's horizon is reached.
        """
        row = self._modeler.ask()
        point = self._modeler.published.inputs[row]
        params = {f"z{column}": float(value) for column, value in enumerate(point)}
        self._trials.append(RowTrial(number=len(self._trials), row=row, params=params))
        return self._trials[-1]

    def tell(self, trial: RowTrial | int, value: float) -> RowTrial:
        """The answer of a trial, given as itself or by its number; returns the finished trial.

        Raises:
            UnknownDecision: no such trial.
            AlreadyTold: it is finished.
            InvalidData: not a finite number.
        """
        number = trial.number if isinstance(trial, RowTrial) else trial
        if type(number) is not int or not 0 <= number < len(self._trials):
            raise UnknownDecision("the study has no trial of this number")
        self._modeler.tell(self._trials[number].row, value)
        self._trials[number] = replace(self._trials[number], value=float(value))
        return self._trials[number]

    def optimize(self, func: Callable[[RowTrial], float], n_trials: int) -> None:
        """Ask, evaluate and tell, `n_trials` times."""
        for _ in range(_checks.integer(n_trials, name="n_trials", minimum=0)):
            trial = self.ask()
            self.tell(trial, func(trial))

    @property
    def best_trial(self) -> RowTrial:
        """The trial of the row that the modeler recommends.

        Raises:
            UnknownDecision: nothing was told yet.
        """
        row = self._modeler.recommend()
        return next(trial for trial in self._trials if trial.row == row)

    @property
    def best_params(self) -> dict[str, float]:
        """Its published coordinates."""
        return self.best_trial.params

    @property
    def best_value(self) -> float | None:
        """Its answer."""
        return self.best_trial.value
