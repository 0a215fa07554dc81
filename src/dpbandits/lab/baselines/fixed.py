"""Policies that learn nothing and reveal nothing: the floor, and the bar that using contexts must clear."""

from typing import ClassVar, Unpack

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidData
from dpbandits.lab.baselines.base import Shared, Yardstick
from dpbandits.policy import uniform_choice
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to

__all__ = ["ConstantArm", "Uniform"]


class _LearnsNothing(Yardstick):
    """What both share: no boundaries, no promise, and predictions from the reward range alone."""

    _reason: ClassVar[str]
    """Why no data enters a choice."""

    @property
    def guarantee(self) -> Guarantee:
        """No data is used, so no promise is needed."""
        return Guarantee.without_privacy(
            observers=(shown_to("every other user", "choices that depend on nobody's data"),),
            notes=(
                f"No promise is needed either: {self._reason}; no reward and nobody else's decision set "
                "enters any choice.",
            ),
        )

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """None: it never learns, so all rounds can be asked at once."""
        return ()

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The middle of the reward range, with the deviation of a uniform law over it."""
        rows = self.domain.validate(points, name="points")
        spread = self.reward_range.width / np.sqrt(12.0)
        return np.full(len(rows), self.reward_range.middle), np.full(len(rows), spread)


class Uniform(_LearnsNothing):
    """Choose among the available rows with equal probability.

    Args: see `Shared`.

    Privacy: perfect; no reward and no other user's candidates enter any choice.
    """

    kind = "baselines.Uniform"
    _reason = "every choice is a public coin"

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        coins = self._coins.uniform("explore", start, start + len(candidates), 1)[:, 0]
        return uniform_choice(coins, candidates.shape[1], available)


class ConstantArm(_LearnsNothing):
    """Choose row `arm` of every decision set.

    Args:
        arm: public row index. Chosen from private data it would be a release of its own.
        domain, reward_range, horizon, user_ids, clip, seed: see `Shared`.

    Privacy: perfect, as long as `arm` is public knowledge.
    """

    kind = "baselines.ConstantArm"
    _reason = "the arm is a public constant"

    def __init__(self, *, arm: int, **shared: Unpack[Shared]) -> None:
        super().__init__(**shared)
        self.arm = _checks.integer(arm, name="arm", minimum=0)

    def recommend(self, candidates: FloatArray) -> int:
        """The constant arm."""
        rows = self.domain.validate(candidates)
        self._check(len(rows), None)
        return self.arm

    def _check(self, n_candidates: int, available: BoolArray | None) -> None:
        if self.arm >= n_candidates:
            raise InvalidData(f"candidates: expected more than {self.arm} rows, got {n_candidates}")
        if available is not None and not available[:, self.arm].all():
            raise InvalidData(f"available: the constant arm {self.arm} is missing in some decision set")

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        self._check(candidates.shape[1], available)
        return np.full(len(candidates), self.arm, dtype=np.int64), np.ones(len(candidates))
