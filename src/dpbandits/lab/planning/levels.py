"""Shifts of arms' log odds that give arms their believed mean rewards.

The log odds of arms in a simulated world are random functions. `ForAll` adds one constant per arm.
`InSegments` adds steps at the edges of segments, or lines between their centres, so that the means in every
segment are as believed too.
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
"""Number of halvings of a bisection; the error is below 1e-5 of the initial interval."""

_ROUNDS, _CLOSE = 60, 1e-3
"""Largest number of rounds of raking, and the error of segments' means at which it stops."""

_LEAST_SLOPE = 0.05
"""Smallest slope by which a Newton step is divided.

The slope is the change of a mean's log odds if everybody's log odds rise by one. The bound keeps steps short.
"""

_INSIDE = 1e-6
"""Smallest distance of means from 0 and 1, so that their log odds are finite."""


class Levels(Protocol):
    """Rule for shifting log odds."""

    def fitted(self, odds: FloatArray) -> Any:
        """Return the parameters of the shift that gives the pilot's log odds (n, K) the target means."""

    def at(self, contexts: FloatArray, fitted: Any) -> FloatArray:
        """Return the shifts of these users, shape (m, K), or (K,) if they are the same for everybody."""

    def off(self, odds: FloatArray) -> float:
        """Return the largest error of a mean of the pilot, given its shifted log odds (n, K)."""


@dataclass(frozen=True, eq=False)
class ForAll:
    """One constant per arm; `rates` (K,) are the target means over everybody, in (0, 1)."""

    rates: FloatArray

    def fitted(self, odds: FloatArray) -> FloatArray:
        """Return the shift of each arm (K,)."""
        return _shifts(odds, self.rates)

    def at(self, contexts: FloatArray, fitted: FloatArray) -> FloatArray:
        """Return the shifts (K,), which are the same for everybody."""
        return fitted

    def off(self, odds: FloatArray) -> float:
        """Return the largest error of a mean, which is the error of the bisection."""
        return float(np.abs(expit(odds).mean(axis=0) - self.rates).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class InSegments:
    """Shifts that differ between the segments of each column.

    Attributes:
        pilot: Contexts of the users over whom means are computed, shape (n, d).
        segments: Segments, one entry per column.
        targets: Target means in (0, 1) of each column's segments, shape (S, K). Their means over all users
            are the same in every column.
        sharp: For each column, True if arms step at the edges and False if they change in between.
        centres: Centres of each column's segments, shape (S,).
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
        """Create the rule; means (S, K) are shifted so that the means over all users are the rates (K,)."""
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
        """Return the shifts (S, K) of each column.

        They are found by raking: columns are fitted one after the other until all targets are met.
        """
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
        """Return the largest error of a segment's mean; segments without users do not count."""
        paid = expit(odds)
        each = zip(self._weights, self.targets, strict=True)
        return max(
            float(np.abs(np.where((weight.sum(axis=0) > 0.0)[:, None], target - weight.T @ paid, 0.0)).max())
            for weight, target in each
        )

    @cached_property
    def _weights(self) -> list[FloatArray]:
        """Weights (n, S) for the means of each column's segments over the pilot."""
        members = [one.members(self.pilot) for one in self.segments]
        return [one / np.maximum(one.sum(axis=0), 1.0) for one in members]

    def at(self, contexts: FloatArray, fitted: list[FloatArray]) -> FloatArray:
        """Return the shifts (m, K) of these users, summed over columns."""
        each = zip(self._bases(contexts), fitted, strict=True)
        return np.asarray(sum(basis @ one for basis, one in each))

    def _bases(self, contexts: FloatArray) -> list[FloatArray]:
        """Return, for each column, the weights (m, S) of its segments for these users."""
        return [
            one.members(contexts) if sharp else one.between(contexts, centres)
            for one, sharp, centres in zip(self.segments, self.sharp, self.centres, strict=True)
        ]


def _shifts(odds: FloatArray, rates: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return shifts (K,) with which the weighted mean of expit(odds (n, K) + shift) is each arm's rate."""
    reach = np.abs(odds).max() + np.abs(logit(rates)).max() + 1.0
    low, high = np.full(len(rates), -reach), np.full(len(rates), reach)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        means = expit(odds + middle)
        above = (means.mean(axis=0) if weights is None else weights @ means) > rates
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
