"""What raises arms, whose log odds are random functions, to the mean rewards that are believed.

`ForAll` adds a constant an arm; `InSegments` steps, or what goes from the middle of one segment to that of
the next, until the means of every segment are as believed too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import expit, logit

from dpbandits._typing import FloatArray
from dpbandits.lab.planning.segments import Segments

__all__ = ["ForAll", "InSegments", "Levels"]

_HALVINGS = 18
"""To less than a hundred thousandth of how far shifts may lie apart."""

_ROUNDS, _CLOSE = 60, 1e-3
"""Of raking, and how near the means of segments are to what they shall be when it may end."""

_LEAST_SLOPE = 0.05
"""Of a mean's log odds, where everybody's rise by one: the inverse is how long steps are, at most of this."""

_INSIDE = 1e-6
"""Of the ends of [0, 1], which means stay away from."""


class Levels(Protocol):
    """What is added to log odds."""

    def fitted(self, odds: FloatArray) -> Any:
        """What is to be added to those of the pilot (n, K) for them to have the means."""

    def at(self, contexts: FloatArray, fitted: Any) -> FloatArray:
        """(m, K) or (K,) what that is at other people."""

    def off(self, odds: FloatArray) -> float:
        """How far any mean of the pilot is from what it shall be, with what was added."""


@dataclass(frozen=True, eq=False)
class ForAll:
    """A constant an arm: rates (K,) are means over everybody, in (0, 1)."""

    rates: FloatArray

    def fitted(self, odds: FloatArray) -> FloatArray:
        """(K,) shifts."""
        return _shifts(odds, self.rates)

    def at(self, contexts: FloatArray, fitted: FloatArray) -> FloatArray:
        """The same for everybody."""
        return fitted

    def off(self, odds: FloatArray) -> float:
        """Nothing to speak of."""
        return float(np.abs(expit(odds).mean(axis=0) - self.rates).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class InSegments:
    """What differs from segment to segment.

    Attributes:
        pilot: (n, d) people on whom means are taken.
        segments: of one column each.
        targets: (S, K) mean rewards in (0, 1) of each column's segments, of one mean in all columns.
        sharp: of each column, whether arms step at the edges or change in between.
        centres: (S,) of each column, where the middle person of a segment is.
    """

    pilot: FloatArray
    segments: tuple[Segments, ...]
    targets: tuple[FloatArray, ...]
    sharp: tuple[bool, ...]
    centres: tuple[FloatArray, ...]

    @classmethod
    def of(
        cls,
        pilot: FloatArray,
        segments: tuple[Segments, ...],
        means: Sequence[FloatArray],
        rates: FloatArray,
        *,
        sharp: Sequence[bool],
    ) -> Self:
        """Means (S, K) are moved until those of all people are the rates (K,) in every column."""
        targets = []
        for one, mean in zip(segments, means, strict=True):
            weights, odds = one.members(pilot).mean(axis=0), logit(mean)
            targets.append(np.asarray(expit(odds + _shifts(odds, rates, weights))))
        return cls(
            pilot=pilot,
            segments=segments,
            targets=tuple(targets),
            sharp=tuple(one.edges is None or own for one, own in zip(segments, sharp, strict=True)),
            centres=tuple(one.centres(pilot) for one in segments),
        )

    def fitted(self, odds: FloatArray) -> list[FloatArray]:
        """(S, K) of each column, by raking: one column after the other, until all hold."""
        bases = self._bases(self.pilot)
        found = [np.zeros_like(target) for target in self.targets]
        for _ in range(_ROUNDS):
            farthest = 0.0
            for at, (weight, basis, target) in enumerate(
                zip(self._weights, bases, self.targets, strict=True)
            ):
                paid = expit(odds)
                means = np.clip(weight.T @ paid, _INSIDE, 1.0 - _INSIDE)
                slopes = weight.T @ (paid * (1.0 - paid)) / (means * (1.0 - means))
                peopled = (weight.sum(axis=0) > 0.0)[:, None]
                steps = (logit(target) - logit(means)) / np.maximum(slopes, _LEAST_SLOPE)
                change = np.where(peopled, steps, 0.0)
                farthest = max(farthest, float(np.abs(np.where(peopled, target - means, 0.0)).max()))
                found[at] += change
                odds = odds + basis @ change
            if farthest < _CLOSE:
                break
        return found

    def off(self, odds: FloatArray) -> float:
        """The mean that is farthest off, of segments in which somebody is."""
        paid = expit(odds)
        each = zip(self._weights, self.targets, strict=True)
        return max(
            float(np.abs(np.where((weight.sum(axis=0) > 0.0)[:, None], target - weight.T @ paid, 0.0)).max())
            for weight, target in each
        )

    @cached_property
    def _weights(self) -> list[FloatArray]:
        """(n, S) of each column: with which the pilot's means are taken."""
        members = [one.members(self.pilot) for one in self.segments]
        return [one / np.maximum(one.sum(axis=0), 1.0) for one in members]

    def at(self, contexts: FloatArray, fitted: list[FloatArray]) -> FloatArray:
        """(m, K) the sum of what all columns add."""
        each = zip(self._bases(contexts), fitted, strict=True)
        return np.asarray(sum(basis @ one for basis, one in each))

    def _bases(self, contexts: FloatArray) -> list[FloatArray]:
        """(m, S) of each column: weights of its segments at these people."""
        return [
            one.members(contexts) if sharp else one.between(contexts, centres)
            for one, sharp, centres in zip(self.segments, self.sharp, self.centres, strict=True)
        ]


def _shifts(odds: FloatArray, rates: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """(K,) what makes the weighted mean of expit(odds (n, K) + shift) every arm's rate, by bisection."""
    reach = np.abs(odds).max() + np.abs(logit(rates)).max() + 1.0
    low, high = np.full(len(rates), -reach), np.full(len(rates), reach)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        means = expit(odds + middle)
        above = (means.mean(axis=0) if weights is None else weights @ means) > rates
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
