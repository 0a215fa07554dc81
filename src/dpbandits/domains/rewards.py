"""`RewardRange`: the public interval that rewards live in, and their centred form."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._checks import as_numbers, kind_of, require_finite
from dpbandits._config import Configured
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["RewardRange"]


@worded
@dataclass(frozen=True)
class RewardRange(Configured):
    """Public bounds of a reward; sensitivities rest on them, so they come before any data.

    Args:
        low: smallest possible reward.
        high: largest possible reward, above `low`.
        clip: whether a reward outside counts as the nearer bound; else it is refused.

    Raises:
        InvalidParameter: not two finite numbers with low < high.

    Example:
        >>> dollars = RewardRange(0, 200)
        >>> dollars.to_centred([0, 100, 150])
        array([-0.5 ,  0.  ,  0.25])
    """

    low: float
    high: float
    clip: bool = False

    def __post_init__(self) -> None:
        finite = partial(_checks.number, minimum=-_checks.LARGEST, exclusive=False, maximum=_checks.LARGEST)
        _checks.settle(self, low=finite, high=finite)
        # -0.0 becomes 0.0, so that equal ranges have equal configurations
        _checks.assign(self, low=self.low + 0.0, high=self.high + 0.0)
        if not self.low < self.high:
            raise InvalidParameter(f"a reward range needs low < high, not ({self.low}, {self.high})")
        _checks.scale(self.high - self.low, name="the width of the reward range")
        _checks.an(self.clip, bool, name="clip", pass_="clip=True")

    def to_config(self) -> dict[str, Any]:
        """See `Configured`; `clip` is written only where it is set, as devices clip whatever a spec says."""
        config = super().to_config()
        return config if self.clip else {name: config[name] for name in ("low", "high")}

    @classmethod
    def of(cls, value: object) -> "RewardRange":
        """`value` itself, or the range that a pair (low, high) stands for."""
        if isinstance(value, RewardRange):
            return value
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return cls(value[0], value[1])
        raise InvalidParameter(f"reward_range is {kind_of(value)}, expected a pair (low, high)")

    @property
    def width(self) -> float:
        """The distance from low to high, in reward units."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The midpoint, in reward units."""
        return self.low + 0.5 * self.width

    def validate(self, rewards: ArrayLike, *, clip: bool | None = None) -> FloatArray:
        """Rewards of any shape as float64 inside the range, shape kept.

        Args:
            rewards: numbers in reward units.
            clip: instead of the range's own.

        Raises:
            InvalidData: not numeric, NaN or infinite, or outside and not clipped.
        """
        array = as_numbers(rewards, name="rewards")
        inside = (array >= self.low) & (array <= self.high)  # False for NaN
        if inside.all():
            return array
        require_finite(array, name="rewards")
        if not (self.clip if clip is None else clip):
            raise InvalidData(
                f"rewards fall outside reward_range ({self.low:g}, {self.high:g}): widen the range before "
                "the first ask, or pass RewardRange(low, high, clip=True)"
            )
        return np.asarray(np.clip(array, self.low, self.high))

    def within(self, rewards: ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Rewards of any shape inside the range, and whether each counts; the low end where it does not.

        Args:
            rewards: what was told; NaN where nothing came. Where the range clips, finite ones count.
        """
        array = np.asarray(rewards, dtype=np.float64)
        counts = np.isfinite(array) if self.clip else (array >= self.low) & (array <= self.high)
        return np.clip(np.where(counts, array, self.low), self.low, self.high), np.asarray(counts)

    def holds(self, reward: float) -> tuple[float, bool]:
        """`within`, for one reward."""
        if self.low <= reward <= self.high:
            return reward, True
        counts = self.clip and math.isfinite(reward)
        return (min(max(reward, self.low), self.high), True) if counts else (self.low, False)

    def to_centred(self, rewards: ArrayLike) -> FloatArray:
        """(y - middle)/width, in [-1/2, 1/2] also after rounding; rewards outside are refused."""
        array = self.validate(rewards, clip=False)
        return np.asarray(np.clip((array - self.middle) / self.width, -0.5, 0.5))

    def centred(self, reward: float) -> float:
        """`to_centred`, for one reward that the range is known to hold."""
        width = self.high - self.low  # `width` and `middle`, without two calls more
        return min(max((reward - (self.low + 0.5 * width)) / width, -0.5), 0.5)

    def from_centred(self, centred: ArrayLike) -> FloatArray:
        """The inverse of `to_centred`. Any number is accepted: estimates may leave the range."""
        return np.asarray(self.middle + as_numbers(centred, name="centred") * self.width)
