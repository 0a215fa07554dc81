"""`RewardRange`: the public interval of rewards, and their centred form in [-1/2, 1/2]."""

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

__all__ = ["RewardRange", "read_reward"]


@worded
@dataclass(frozen=True)
class RewardRange(Configured):
    """Public bounds of a reward. Sensitivities rest on them, so choose them without the data.

    Args:
        low: Smallest possible reward.
        high: Largest possible reward, above `low`.
        clip: True replaces a reward outside by the nearer bound. By default such a reward is refused.

    Raises:
        InvalidParameter: The bounds are not two finite numbers with low < high.

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
        """Return a JSON-ready dictionary. It has `clip` only if it is True, because clients always clip."""
        config = super().to_config()
        return config if self.clip else {name: config[name] for name in ("low", "high")}

    @classmethod
    def of(cls, value: object) -> "RewardRange":
        """Return `value` if it is a range, or the range of a pair (low, high)."""
        if isinstance(value, RewardRange):
            return value
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return cls(value[0], value[1])
        raise InvalidParameter(f"reward_range is {kind_of(value)}, expected a pair (low, high)")

    @property
    def width(self) -> float:
        """Width of the range, in reward units."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Midpoint of the range, in reward units."""
        return self.low + 0.5 * self.width

    def validate(self, rewards: ArrayLike, *, clip: bool | None = None) -> FloatArray:
        """Return rewards of any shape as float64 inside the range, in the same shape.

        Args:
            rewards: Rewards, in reward units.
            clip: True to clip, False to refuse rewards outside. Default: the range's `clip`.

        Raises:
            InvalidData: A reward is not a number, is NaN or infinite, or lies outside and is not clipped.
        """
        array = as_numbers(rewards, name="rewards")
        inside = (array >= self.low) & (array <= self.high)  # False for NaN
        if inside.all():
            return array
        require_finite(array, name="rewards")
        if not (self.clip if clip is None else clip):
            raise InvalidData(
                f"rewards fall outside reward_range ({self.low:g}, {self.high:g}): widen the range before "
                "the first call of ask, or pass RewardRange(low, high, clip=True)"
            )
        return np.asarray(np.clip(array, self.low, self.high))

    def within(self, rewards: ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Return rewards inside the range, and which of them count, both in the shape of `rewards`.

        A reward that does not count becomes `low`.

        Args:
            rewards: Rewards of any shape, in reward units; NaN for a missing one. A finite reward outside
                the range counts only if the range clips.
        """
        array = np.asarray(rewards, dtype=np.float64)
        counts = np.isfinite(array) if self.clip else (array >= self.low) & (array <= self.high)
        return np.clip(np.where(counts, array, self.low), self.low, self.high), np.asarray(counts)

    def holds(self, reward: float) -> tuple[float, bool]:
        """Return the reward inside the range, and whether it counts; `within` for one reward."""
        if self.low <= reward <= self.high:
            return reward, True
        counts = self.clip and math.isfinite(reward)
        return (min(max(reward, self.low), self.high), True) if counts else (self.low, False)

    def to_centred(self, rewards: ArrayLike) -> FloatArray:
        """Return (y - middle)/width for each reward y, in [-1/2, 1/2] also after rounding.

        Raises:
            InvalidData: A reward is not a number in the range.
        """
        array = self.validate(rewards, clip=False)
        return np.asarray(np.clip((array - self.middle) / self.width, -0.5, 0.5))

    def centred(self, reward: float) -> float:
        """Return `to_centred` of one reward, which must lie in the range."""
        width = self.high - self.low  # `width` and `middle` written out, which saves two calls
        return min(max((reward - (self.low + 0.5 * width)) / width, -0.5), 0.5)

    def from_centred(self, centred: ArrayLike) -> FloatArray:
        """Return rewards from their centred form. Any number is accepted: estimates may leave the range."""
        return np.asarray(self.middle + as_numbers(centred, name="centred") * self.width)


def read_reward(bounds: RewardRange, reward: Any) -> tuple[float | None, bool]:
    """Read a private reward as a client does. Anything but a number counts as missing, and so does NaN.

    Returns:
        The reward inside the bounds or None, and True if it was clipped.
    """
    kinds = (int, float, np.bool_, np.integer, np.floating)
    try:
        if not isinstance(reward, kinds) or reward != reward:
            return None, False
        inside = float(min(max(reward, bounds.low), bounds.high))
        return inside, bool(inside != reward)
    except Exception:  # noqa: BLE001 - an exception from the app's object could reveal its content
        return None, False
