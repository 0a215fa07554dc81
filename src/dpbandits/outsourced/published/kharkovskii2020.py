"""PO-GP-UCB as published: a random projection of the whole table. NOT PRIVATE, for reproduction only.

Implements Algorithms 1 (curator) and 2 (modeler) of Kharkovskii2020: *Private Outsourced Bayesian
Optimization*, ICML 2020.

**Algorithm 1.** The column means of X (n, d) are subtracted. Let omega = 16 sqrt(r ln(2/delta)) ln(16
r/delta)/epsilon, and Z = r^(-1/2) X M for a (d, r) matrix M of independent standard normals. Z is published
directly if the smallest singular value of X is at least omega. Otherwise the singular values are first
increased to sqrt(s^2 + omega^2). The authors' code increases them to s + omega; `inflation` selects.

**Why it is not private.** The columns of Z are in the column space of the centred X, with or without
increased singular values. A neighbour of X has another column space if n > d + 1. The supports of Z under
two neighbours are then disjoint (up to measure zero), and no finite epsilon holds at any delta below 1. The
underlying theorem (Blocki et al. 2012) is about X^T M, which mixes *rows*; here the rows are published.
`dpbandits.audit.attacks.po_gp_ucb` recovers all rows from d + 1 known rows to 13 digits.

**Algorithm 2.** It is GP-UCB on the rows of Z as if they were the inputs. The authors' code adds sqrt(beta)
times the posterior *variance*, and the paper the standard deviation; `acquisition` selects.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import BrokenMechanism, HorizonExceeded, InvalidData, InvalidParameter, UnknownDecision
from dpbandits.models.gaussian_process import PoolGP
from dpbandits.models.kernels.base import Kernel
from dpbandits.policy.coins import PublicCoins, best_row
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord, Observer

__all__ = [
    "PublishedModeler",
    "PublishedTransform",
    "singular_value_threshold",
]

ATTACK = (
    "the released columns lie in the column space of the centred table. Whoever knows all rows but one "
    "tells any two candidates for it apart with certainty, and whoever knows d + 1 rows recovers every other "
    "row exactly (dpbandits.audit.attacks.po_gp_ucb)."
)


def singular_value_threshold(*, epsilon: float, delta: float, dimension: int) -> float:
    """Return omega of Algorithm 1: in the published proof larger singular values need no increase.

    >>> round(singular_value_threshold(epsilon=1.0, delta=1e-5, dimension=10), 1)
    2932.3
    """
    _checks.integer(dimension, name="dimension")
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise InvalidParameter("epsilon, delta: expected a finite epsilon > 0 and 0 < delta < 1")
    spread = math.sqrt(dimension * math.log(2.0 / delta))
    return 16.0 * spread * math.log(16.0 * dimension / delta) / epsilon


@dataclass(frozen=True, kw_only=True)
class PublishedTransform:
    """Algorithm 1 of Kharkovskii2020. Its published guarantee is false: `guarantee.status` is "broken".

    Args:
        epsilon: Claimed epsilon, which does not hold.
        delta: Claimed delta, which does not hold.
        dimension: Number r of columns of the published table; 10 in the paper's experiments.
        seed: Seed of the projection.
        inflation: "squares" as in the paper, "sum" as in the authors' code.
        acknowledge_broken: Must be True.

    Raises:
        BrokenMechanism: `acknowledge_broken` is not True.

    Example:
        >>> transform = PublishedTransform(epsilon=1.0, delta=1e-5, acknowledge_broken=True)
        >>> transform.guarantee.status
        'broken'
    """

    epsilon: float
    delta: float
    dimension: int = 10
    seed: Seed = 0
    inflation: Literal["squares", "sum"] = "squares"
    acknowledge_broken: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.acknowledge_broken is not True:
            raise BrokenMechanism(
                "the published guarantee of this transformation is false: " + ATTACK + " Pass "
                "acknowledge_broken=True to study it; for people's data use dpbandits.outsourced.Curator"
            )
        _checks.one_of(self.inflation, ("squares", "sum"), name="inflation")
        singular_value_threshold(epsilon=self.epsilon, delta=self.delta, dimension=self.dimension)

    @property
    def threshold(self) -> float:
        """Threshold omega of the singular values."""
        return singular_value_threshold(epsilon=self.epsilon, delta=self.delta, dimension=self.dimension)

    def inflates(self, table: FloatArray) -> bool:
        """Return True if the singular values of this table are increased."""
        return bool(np.linalg.svd(_centred(table), compute_uv=False).min() < self.threshold)

    def publish(self, table: FloatArray) -> FloatArray:
        """Return the published table Z (n, r) for a table X (n, d)."""
        centred = _centred(table)
        left, values, right = np.linalg.svd(centred, full_matrices=False)
        if values.min() < self.threshold:
            added = self.threshold
            values = values + added if self.inflation == "sum" else np.sqrt(values**2 + added**2)
        rng = np.random.Generator(np.random.Philox(self.seed))
        mixing = rng.standard_normal((centred.shape[1], self.dimension))  # M
        published: FloatArray = (left * values) @ right @ mixing / math.sqrt(self.dimension)
        return published

    @property
    def guarantee(self) -> Guarantee:
        """Published claim, with status "broken"."""
        return Guarantee(
            definition=RowDP(epsilon=self.epsilon, delta=self.delta, distance=1.0),
            observers=(Observer(who="the modeler", sees="the transformed table", protected=False),),
            mechanisms=(
                MechanismRecord(
                    name="random projection of the centred table",
                    law="Gaussian, multiplied on the wrong side",
                    scale=1.0 / math.sqrt(self.dimension),
                    sensitivity=1.0,
                    certificate=None,
                    releases=1,
                ),
            ),
            assumptions=(),
            theorem="",
            status="broken",
            attack=ATTACK,
            notes=("Published as Theorem 1 of Kharkovskii2020.",),
        )


class PublishedModeler:
    """Algorithm 2 of Kharkovskii2020: GP-UCB on published rows as if they were the inputs.

    As in the authors' code, no row is asked for twice.

    Args:
        published: Published table Z, shape (n, r).
        kernel: Kernel of the objective on the original inputs.
        noise_sd: Standard deviation of an answer's noise.
        acquisition: "deviation" as in the paper, "variance" as in the authors' code.
        failure: Number delta' in the confidence width beta_t = 2 ln(n t^2 pi^2/(6 failure)). By Theorem 3 it
            is half of delta_ucb, which is .05 in the paper's experiments.
        exploration_share: Factor that multiplies the weight beta_t of the paper; 1 for the paper's weight.
        capacity: Number of answers to reserve memory for.
        seed: Seed of the first row.
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
        self._failure, self._exploration_share = (
            failure,
            _checks.scale(exploration_share, name="exploration_share"),
        )
        self._first = float(PublicCoins(seed).uniform("kharkovskii2020-first", 0, 1, 1)[0, 0])

    def ask(self) -> int:
        """Return the row with the largest upper confidence bound, among rows that were not asked for yet.

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
            # Take the first of tied rows, which are frequent on grids; compare in units of the prior standard
            # deviation.
            row = best_row(bound / self._scale, lambda: 0.0)
        self._taken[row] = True
        return row

    def tell(self, row: int, answer: float) -> None:
        """Add the answer of a row.

        Raises:
            UnknownDecision: the row was not asked for.
            InvalidData: the answer is not a finite number.
        """
        if not (0 <= row < len(self._taken) and self._taken[row]):
            raise UnknownDecision("row: expected one that was asked for")
        if not math.isfinite(answer):
            raise InvalidData("answer: expected a finite number")
        self._process.add(row, answer)


def _centred(table: FloatArray) -> FloatArray:
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise InvalidData(f"table: got shape {rows.shape}, expected finite numbers (n, d) with n >= 2")
    centred: FloatArray = rows - rows.mean(axis=0)
    return centred
