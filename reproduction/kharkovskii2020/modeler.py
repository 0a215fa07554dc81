"""The modeler as published: Algorithm 2 of Kharkovskii2020, GP-UCB on published rows as if they were inputs.

The authors' code adds sqrt(beta) times the posterior *variance* where the paper has the standard deviation;
`acquisition` selects. What the rows come from is `dpbandits.outsourced.published.kharkovskii2020`.
"""

import math
from typing import Literal

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import HorizonExceeded, InvalidData, UnknownDecision
from dpbandits.models.gaussian_process import PoolGP
from dpbandits.models.kernels.base import Kernel
from dpbandits.policy.choices import best_row
from dpbandits.policy.coins import PublicCoins

__all__ = ["PublishedModeler"]


class PublishedModeler:
    """Algorithm 2: GP-UCB on published rows as if they were inputs; no row twice, as in the authors' code.

    Args:
        published: Z (n, r).
        kernel: the kernel of f on the original inputs.
        noise_sd: of an answer.
        acquisition: "deviation" as in the paper, "variance" as in the authors' code.
        failure: delta' of the confidence width beta_t = 2 ln(n t^2 pi^2/(6 failure)); by Theorem 3 half the
            delta_ucb, which is .05 in the paper's experiments.
        exploration_share: of the printed weight of deviations (beta_t) what is used; 1 as printed.
        capacity: answers to reserve memory for.
        seed: of the first row.
    """

    def __init__(
        self,
        published: FloatArray,
        *,
        kernel: Kernel,
        noise_sd: float,
        acquisition: Literal["deviation", "variance"] = "deviation",
        failure: float = 0.025,
        exploration_share: float = 1.0,
        capacity: int = 64,
        seed: Seed = 0,
    ) -> None:
        _checks.one_of(acquisition, ("deviation", "variance"), name="acquisition")
        self._process = PoolGP(kernel=kernel, pool=published, noise_sd=noise_sd, capacity=capacity)
        self._taken = np.zeros(len(published), dtype=np.bool_)
        self._by_variance = acquisition == "variance"
        self._scale = math.sqrt(kernel.max_variance)
        self._failure = failure
        self._exploration_share = _checks.scale(exploration_share, name="exploration_share")
        self._first = float(PublicCoins(seed).uniform("kharkovskii2020-first", 0, 1, 1)[0, 0])

    def ask(self) -> int:
        """The row with the largest upper confidence bound, among those that were not asked for.

        Raises:
            HorizonExceeded: every row was asked for.
        """
        n, t = len(self._taken), self._process.n_observations + 1
        if self._taken.all():
            raise HorizonExceeded("every row was asked for")
        if not self._taken.any():
            row = min(int(self._first * n), n - 1)
        else:
            beta = 2.0 * math.log(n * t**2 * math.pi**2 / (6.0 * self._failure))
            variance = self._process.variance
            spread = variance if self._by_variance else np.sqrt(variance)
            bound = self._process.mean + math.sqrt(self._exploration_share * beta) * spread
            bound[self._taken] = -np.inf
            # the first of those that tie, in units of the prior deviation: on grids many do
            row = best_row(bound / self._scale, lambda: 0.0)
        self._taken[row] = True
        return row

    def tell(self, row: int, answer: float) -> None:
        """The answer of a row that was asked for.

        Raises:
            UnknownDecision: it was not.
            InvalidData: not a finite number.
        """
        if not (0 <= row < len(self._taken) and self._taken[row]):
            raise UnknownDecision("this row was not asked for")
        if not math.isfinite(answer):
            raise InvalidData("an answer is NaN or infinite")
        self._process.add(row, answer)
