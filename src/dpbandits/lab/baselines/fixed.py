"""`Uniform` and `ConstantArm`: policies that use no data. A contextual policy must beat both."""

from typing import Any, ClassVar, Unpack

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.baselines.base import Shared, defaults
from dpbandits.models.features.maximise import WholeDomain
from dpbandits.policy import RoundPolicy, uniform_choice
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to

__all__ = ["ConstantArm", "Uniform"]


class _LearnsNothing(RoundPolicy):
    """Base class of `Uniform` and `ConstantArm`: it has no batch boundaries and no guarantee."""

    _reason: ClassVar[str]
    """Reason why choices use no data, for the guarantee."""

    def __init__(self, **shared: Unpack[Shared]) -> None:
        super().__init__(**defaults(**shared), privacy=None)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.without_privacy(
            observers=(shown_to("every other user", "choices that depend on nobody's data"),),
            notes=(
                f"No promise is needed either: {self._reason}; no reward and nobody else's decision set "
                "enters any choice.",
            ),
        )

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        return ()

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        spread = self.reward_range.width / np.sqrt(12.0)
        return np.full(len(points), self.reward_range.middle), np.full(len(points), spread)


class Uniform(_LearnsNothing):
    """A policy that chooses each available row with equal probability.

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

    def _over_domain(self, start: int | None, count: int) -> FloatArray:
        first = 0 if start is None else start
        return WholeDomain(self.domain).drawn(self._coins.uniform("explore", first, first + count, 1)[:, 0])


class ConstantArm(_LearnsNothing):
    """A policy that chooses row `arm` of every decision set.

    Args:
        arm: Public row index; with `contexts` and `arms`, a label. If you choose it from private data, it is
            a release of that data.
        domain, contexts, arms, reward_range, horizon, seed: See `Shared`.

    Privacy: perfect, as long as `arm` is public knowledge.
    """

    kind = "baselines.ConstantArm"
    _reason = "the arm is a public constant"

    def __init__(self, *, arm: Label, **shared: Unpack[Shared]) -> None:
        super().__init__(**shared)
        self.arm = _checks.integer(arm, name="arm", minimum=0) if self.menu is None else arm
        self._row = int(arm) if self.menu is None else self.menu.arms.code(arm)
        if self._row < 0:
            raise InvalidParameter("arm: expected one of the labels in arms")

    def recommend(self, brought: Any = None) -> Any:
        """Return the constant arm."""
        if self.menu is None:
            self._check(len(self.domain.validate(brought)), None)
        return self.arm

    def _check(self, n_candidates: int, available: BoolArray | None) -> None:
        if self._row >= n_candidates:
            raise InvalidData(f"candidates: expected more than {self._row} rows, got {n_candidates}")
        if available is not None and not available[:, self._row].all():
            raise InvalidData("available: the constant arm is missing in some decision set")

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        self._check(candidates.shape[1], available)
        return np.full(len(candidates), self._row, dtype=np.int64), np.ones(len(candidates))
