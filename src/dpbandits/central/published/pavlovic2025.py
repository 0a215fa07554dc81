r"""USCA as printed: Pavlovic2025, Algorithm 1, for a few hundred rounds.

*Differentially Private Kernelized Contextual Bandits*, January 2025. T users get uniformly random actions.
An approximating set Z of pairs (action, context), drawn from the same law but independently of the users,
replaces them in the covariance:

    V = (T/|Z|) sum_{z in Z} phi(z) phi(z)^T + tau I
    eq. (4)  f-hat(w) = phi(w)^T V^-1 sum_i y_i phi(w_i)      for rewards y_i at pairs w_i
    eq. (5)  sigma-bar(w)^2 = phi(w)^T V^-1 phi(w)

The exponential mechanism draws the answer at a context, P(x) ~ exp(epsilon f-hat/(2 Delta)) with
Delta = 2 B sup sigma-bar^2: replacing one (context, reward) changes every score by at most Delta.

Departures from the paper:

- The paper's gamma_T, on which |Z| depends, is a supremum over all sets of T points. Here gamma_T is the
  information gain of the population, which is at most the supremum. So Z is at least as large as in the
  paper.
- Actions are a finite set; in the paper they are any convex set. On a convex set no sampler of the
  exponential mechanism that computes with floats satisfies pure DP.
- Rewards and influences are rounded to integers, so that scores are exact, and the answer is drawn exactly.
  Delta is the printed one, or the largest change of these integers by one row if that is larger.

The privacy proof is sound for every fixed Z; its high-probability conditions concern accuracy only. The
algorithm has two disadvantages. Its cost is high, with |Z| = T ceil(T/gamma_T) pairs and a kernel matrix
over them, and its Delta is 2 to 5 times larger than needed. `dpbandits.central.ExploreThenCommit` is
recommended instead.

The inverse is computed by the kernel trick: V^-1 = (I - s Phi_Z^T (s K_ZZ + tau I)^-1 Phi_Z)/tau with s =
T/|Z|. Repeated pairs of Z are merged and their weights added up. This changes no result, and K_ZZ has at
most one row per cell.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.central.arguments import check_kinds
from dpbandits.central.logged.rows import one_row
from dpbandits.central.logged.sums import REWARD_UNIT, exact_products, integer_weights
from dpbandits.central.statement import ANSWER_TIMES, OWN_CONTEXT, Setting, room_assumptions
from dpbandits.domains import RewardRange
from dpbandits.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.rounds import round_taken
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.noise import NoiseSource, SecureNoise, words_of
from dpbandits.privacy.selection import exponential, exponential_law
from dpbandits.privacy.sentences import enforced, protected_from, shown_to, unchecked
from dpbandits.state.holder import Held, Holder, in_turn

__all__ = ["USCA", "ApproximatingSet", "CovarianceEstimator"]

_STREAM = 7_500

MOST_ROUNDS = 1 << 14
"""Largest horizon: the approximating set has up to T^2 pairs."""


@dataclass(frozen=True, eq=False)
class ApproximatingSet:
    """Approximating set Z: distinct pairs (action, context), with the number of times each was drawn.

    Attributes:
        points: Pairs (action, context), (m, d).
        counts: Number of draws of each pair, (m,).
    """

    points: FloatArray
    counts: FloatArray

    @classmethod
    def drawn(cls, measure: CellMeasure, size: int, *, seed: Seed) -> "ApproximatingSet":
        """Draw `size` pairs from the public law, by public coins."""
        cells = measure.cells_at(
            PublicCoins(seed).uniform("pavlovic2025/approximating-set", 0, size, 1)[:, 0]
        )
        counts = np.bincount(cells, minlength=measure.size)
        used = counts > 0
        return cls(measure.points[used], counts[used].astype(np.float64))

    @property
    def size(self) -> int:
        """Number |Z| of pairs, repetitions included."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class CovarianceEstimator:
    """Estimator of eqs. (4) and (5), by the kernel trick.

    Args:
        kernel: Kernel with k(w, w) <= 1.
        approximating: Approximating set Z.
        rounds: Number T of rounds.
        ridge: Regularisation tau.
    """

    kernel: Kernel
    approximating: ApproximatingSet
    rounds: int
    ridge: float

    @cached_property
    def _solver(self) -> tuple[FloatArray, tuple[FloatArray, bool]]:
        root: FloatArray = np.sqrt(self.rounds / self.approximating.size * self.approximating.counts)
        gram = root[:, None] * self.kernel(self.approximating.points) * root
        gram[np.diag_indices_from(gram)] += self.ridge
        factor, lower = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        return root, (np.asarray(factor, dtype=np.float64), bool(lower))

    def covariance(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return phi(w)^T V^-1 phi(v) for all pairs of n points w and k points v, shape (n, k)."""
        root, factor = self._solver
        one = root[:, None] * self.kernel(self.approximating.points, left)
        other = root[:, None] * self.kernel(self.approximating.points, right)
        inner = one.T @ cho_solve(factor, other, check_finite=False)
        return np.asarray((self.kernel(left, right) - inner) / self.ridge)

    def estimate(self, points: FloatArray, data: FloatArray, rewards: FloatArray) -> FloatArray:
        """Return f-hat (n,) at points (n, d) from data (T, d) and rewards (T,): eq. (4)."""
        return np.asarray(self.covariance(points, data) @ rewards)

    def deviation(self, points: FloatArray) -> FloatArray:
        """Return sigma-bar (n,) at points: eq. (5)."""
        root, factor = self._solver
        cross = root[:, None] * self.kernel(self.approximating.points, points)
        inner = np.einsum("ij,ij->j", cross, cho_solve(factor, cross, check_finite=False))
        squares = (self.kernel.diagonal(points) - inner) / self.ridge
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


class USCA(Held):
    """USCA, Algorithm 1 of Pavlovic2025, with finitely many actions and a public context generator.

    Args:
        kernel: Kernel over (action, context) columns with k(w, w) <= 1. A lengthscale is a share of the
            range of each column, as for `ExploreThenCommit`; the paper's ranges are [0, 1].
        actions: Finite set of actions, explored uniformly whatever their weights.
        contexts: Cells and law of the context generator.
        reward_range: Public range (low, high). Rewards are centred, and B is half the width. With `clip`,
            rewards outside the range are clipped, as the paper suggests for unbounded rewards. (The range is
            then the paper's B + R ln(T/delta), `reward_clip` of the calculators in the lab.) Without `clip`
            such a round contributes zero. In both cases one row changes scores by no more than the
            sensitivity.
        horizon: Number T of rounds.
        privacy: Pure promise for one answer; delta must be 0.
        ridge: Regularisation tau: the noise variance in the paper's model, for which the paper gives no
            value.
        seed: Seed of exploration and of Z.
        noise: Noise source; default `SecureNoise()`.

    Raises:
        InvalidParameter: delta is above 0, or the kernel's variance is above 1.

    References:
        Pavlovic2025, Algorithm 1, eqs. (4), (5), Lemmas 7.1 and 7.2, Theorem 7.3.
    """

    _harm = "two copies would answer twice"
    _moving = "Build another for other people"

    def __init__(
        self,
        *,
        kernel: Kernel,
        actions: CellMeasure,
        contexts: CellMeasure,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        ridge: float = 1.0,
        seed: Seed = 0,
        noise: NoiseSource | None = None,
    ) -> None:
        check_kinds(kernel=kernel, actions=actions, contexts=contexts, privacy=privacy, noise=noise)
        if privacy.delta > 0.0 or privacy.rounds_per_user != 1:
            raise InvalidParameter("privacy: expected delta = 0 and rounds_per_user = 1, as in the paper")
        rounds, ridge = (
            _checks.integer(horizon, name="horizon"),
            _checks.scale(ridge, name="ridge", largest=_checks.TUNABLE),
        )
        if kernel.max_variance > 1.0 or rounds > MOST_ROUNDS:
            raise InvalidParameter(f"the paper needs k(w, w) <= 1, and this code a horizon <= {MOST_ROUNDS}")
        self.actions = actions.with_weights(np.ones(actions.size))
        self.contexts = contexts
        self.reward_range = RewardRange.of(reward_range)
        self.horizon = rounds
        self.privacy = privacy
        self._noise = SecureNoise() if noise is None else noise
        self._measure = CellMeasure.product(self.actions, contexts)
        kernel = kernel.in_units_of(self._measure.widths)
        features = EigenFeatures(kernel=kernel, measures=(self.actions, contexts))
        self.information_gain = features.information_gain(rounds, ridge)
        size = rounds * math.ceil(rounds / max(1.0, self.information_gain))
        self.estimator = CovarianceEstimator(
            kernel, ApproximatingSet.drawn(self._measure, size, seed=seed), rounds, ridge
        )
        self._seed = seed
        self._holder = Holder()
        self._rounds = 0
        self._sums: IntArray = np.zeros(self._measure.size, dtype=np.int64)
        self._answer: tuple[int, int] | None = None  # (context cell, action cell)

    @cached_property
    def sensitivity(self) -> float:
        """Sensitivity Delta = 2 B sup sigma-bar^2, over all cells."""
        largest = float(self.estimator.deviation(self._measure.points).max()) ** 2
        return self.reward_range.width * largest

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of pure epsilon for one answer."""
        return Guarantee(
            definition=self.privacy,
            observers=(
                shown_to("the server", "every context, action and reward"),
                protected_from("everyone else", "the answer"),
            ),
            mechanisms=(
                MechanismRecord(
                    name="one answer",
                    law="exponential mechanism",
                    scale=2.0 * self.sensitivity / self.privacy.epsilon,
                    sensitivity=self.sensitivity,
                    certificate=PureDP(self.privacy.epsilon),
                    releases=1,
                    unit="in reward units",
                ),
            ),
            assumptions=room_assumptions(
                self.privacy,
                Setting(self._noise.status, user_ids=False, witnessed=False, charged=False),
                keeps=[
                    enforced(
                        "one answer",
                        "Rewards are bounded, and this object gives one answer, in one process, whichever "
                        "thread asks. The first context takes it, also one that cannot be answered.",
                    ),
                    enforced(
                        "exact scores",
                        "Scores are exact sums of integers, and no float decides which action is drawn.",
                    ),
                ],
                trusts=[
                    OWN_CONTEXT,
                    ANSWER_TIMES,
                    unchecked(
                        "one asker",
                        "Nobody but that user asks: whoever asks next learns whether the context is another.",
                    ),
                ],
                chosen="Z, kernel, ridge, actions, reward range, horizon",
                asks=False,
                saved=False,
            ),
            theorem="Pavlovic2025, Theorem 7.3: the exponential mechanism at 2 B sup sigma-bar^2.",
            status=self._noise.status,
            certificate=PureDP(self.privacy.epsilon),
        )

    def explore(self, start: int, stop: int) -> IntArray:
        """Return uniformly drawn actions, as cell numbers, for rounds start..stop-1."""
        return self.actions.cells_at(
            PublicCoins(self._seed).uniform("pavlovic2025/explore", start, stop, 1)[:, 0]
        )

    @in_turn
    def learn(self, contexts: ArrayLike, actions: IntArray, rewards: ArrayLike) -> None:
        """Add rounds: contexts (n, d), actions (n,) as cell numbers, rewards (n,).

        A round that cannot be read contributes zero: its context or action is not in a public cell, its
        reward is outside the range without `clip`, or something is missing. Rounds beyond the horizon are
        dropped.

        Raises:
            InvalidData: The arrays differ in length, or have another type; nothing was learned.
        """
        found = _checks.contents(contexts, name="contexts", width=self.contexts.dim)
        cells = self.contexts.find(self.contexts.rows(found, name="contexts"))
        chosen = _checks.contents(actions, name="actions")
        told = _checks.contents(rewards, name="rewards")
        if not cells.shape == told.shape == chosen.shape:
            raise InvalidData("contexts, actions and rewards differ in length")
        values, readable = self.reward_range.within(told)
        readable &= (cells >= 0) & np.isin(chosen, np.arange(self.actions.size))
        readable = readable[: self.horizon - self._rounds]
        kept = np.flatnonzero(readable)
        located = chosen[kept].astype(np.int64) * self.contexts.size + cells[kept]
        units = np.rint(2.0 * self.reward_range.to_centred(values[kept]) / REWARD_UNIT)
        grown = self._sums.copy()
        np.add.at(grown, located, units.astype(np.int64))
        self._sums, self._rounds = grown, self._rounds + len(readable)

    def unsafe_scores(self, context: int) -> FloatArray:
        """Return raw scores (A,) of the actions at a context cell, in reward units, for studies."""
        weights, unit = self._influences(context)
        width = self.reward_range.width
        scores = exact_products(weights, self._sums).astype(np.float64)
        return np.asarray(scores * (unit * REWARD_UNIT * 0.5 * width))

    def unsafe_law(self, context: int) -> FloatArray:
        """Return the probabilities (A,) of the answers at a context cell, for studies."""
        scores, spread = self._exact_scores(context)
        return exponential_law(
            scores.astype(np.float64), sensitivity=float(spread), epsilon=self.privacy.epsilon
        )

    @in_turn
    def answer(self, context: ArrayLike) -> int:
        """Return an action (cell number) for one context; the same action if it is asked again.

        Raises:
            BudgetExceeded: The answer was given to another context, or used up by an invalid one; nothing
                was drawn.
            InvalidData: There are several contexts; nothing was spent. Or the context is missing or not in a
                public cell: nothing was drawn, but the answer is used up.
            ForkedState: This process was forked from the one that owns the object.
        """
        row = one_row(context)
        cell = int(self.contexts.find(self.contexts.rows(row, name="context"))[0])
        if self._answer is None and cell < 0:
            self._answer = cell, cell
            with round_taken("answer"):
                self.contexts.locate(row, name="context")
        if self._answer is None:
            scores, spread = self._exact_scores(cell)
            words = words_of(self._noise, stream=_STREAM)
            epsilon = self.privacy.epsilon
            chosen = exponential(scores.tolist(), sensitivity=spread, epsilon=epsilon, words=words)
            self._answer = cell, chosen
        answered, index = self._answer
        if cell != answered or cell < 0:
            raise BudgetExceeded("the paper's promise covers one answer: it was given to another context")
        return index

    def _influences(self, context: int) -> tuple[FloatArray, float]:
        points = self._measure.points
        return integer_weights(self.estimator.covariance(points[context :: self.contexts.size], points))

    def _exact_scores(self, context: int) -> tuple[IntArray, int]:
        """Return integer scores (A,) at a context cell, and 2 Delta in their units."""
        weights, unit = self._influences(context)
        printed = self.sensitivity / (0.5 * self.reward_range.width * unit * REWARD_UNIT)
        one_row_moves = 2 * round(1.0 / REWARD_UNIT) * int(np.abs(weights).max())
        return exact_products(weights, self._sums), 2 * max(1, math.ceil(printed), one_row_moves)
