"""Shifts of arms' log odds that give arms their believed mean rewards.

The log odds of an arm in a simulated world are a random function of the context. `ForAll` adds one constant
per arm. `InSegments` adds steps at the edges of segments, or lines between their centres, so that the means
in every segment are as believed too. K is the number of arms, and S the number of segments of a column.
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
"""Number of bisection steps; the error is then below 1e-5 of the initial interval."""

_ROUNDS, _CLOSE = 60, 1e-3
"""Largest number of rounds of raking, and error of segments' means at which it stops earlier.

A round fits one column after the other.
"""

_LEAST_SLOPE = 0.05
"""Smallest slope by which a Newton step is divided. This bound keeps steps short.

The slope is the change of a mean's log odds if everybody's log odds rise by one.
"""

_INSIDE = 1e-6
"""Smallest distance of means from 0 and 1, so that their log odds are finite."""


class Levels(Protocol):
    """Rule that shifts arms' log odds so that their mean rewards are the target means."""

    def fitted(self, odds: FloatArray) -> Any:
        """Return the shift's parameters that give pilot users with log odds (n, K) the target means."""

    def at(self, contexts: FloatArray, fitted: Any) -> FloatArray:
        """Return the shifts for m users, shape (m, K), or (K,) if they are the same for everybody.

        `fitted` holds the parameters from the method of this name.
        """

    def off(self, odds: FloatArray) -> float:
        """Return the largest difference between a target mean and the pilot's mean.

        `odds` are the pilot's shifted log odds (n, K).
        """


@dataclass(frozen=True, eq=False)
class ForAll:
    """Shift by one constant per arm; `rates` (K,) are the target means over all users, in (0, 1)."""

    rates: FloatArray

    def fitted(self, odds: FloatArray) -> FloatArray:
        """Return the shift of each arm (K,)."""
        return _shifts(odds, self.rates)

    def at(self, contexts: FloatArray, fitted: FloatArray) -> FloatArray:
        """Return the shifts of the K arms, (K,), which are the same for everybody."""
        return fitted

    def off(self, odds: FloatArray) -> float:
        """Return the largest error of an arm's mean, which is the error of the bisection."""
        return float(np.abs(expit(odds).mean(axis=0) - self.rates).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class InSegments:
    """Shifts that differ between the segments of each column.

    Attributes:
        pilot: Contexts of the users over whom means are computed, shape (n, d).
        segments: Segments, one entry per column.
        targets: Target means in (0, 1) of each column's segments, shape (S, K). Their means over all users
            are the same in every column.
        sharp: For each column, True if shifts are steps at the edges of segments, and False if they are
            linear between the segments' centres.
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
        """Create the rule from believed means in segments, one array (S, K) per column.

        The log odds of each arm's means in the segments of a column are shifted by one constant, so that its
        mean over all users is its rate in `rates` (K,).
        """
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
        """Return the shifts (S, K) of each column's segments.

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
        """Return the largest difference between a segment's mean and its target.

        Segments without users do not count.
        """
        paid = expit(odds)
        each = zip(self._weights, self.targets, strict=True)
        return max(
            float(np.abs(np.where((weight.sum(axis=0) > 0.0)[:, None], target - weight.T @ paid, 0.0)).max())
            for weight, target in each
        )

    @cached_property
    def _weights(self) -> list[FloatArray]:
        members = [one.members(self.pilot) for one in self.segments]
        return [one / np.maximum(one.sum(axis=0), 1.0) for one in members]

    def at(self, contexts: FloatArray, fitted: list[FloatArray]) -> FloatArray:
        """Return the shifts (m, K) of the log odds of m users, summed over columns."""
        each = zip(self._bases(contexts), fitted, strict=True)
        return np.asarray(sum(basis @ one for basis, one in each))

    def _bases(self, contexts: FloatArray) -> list[FloatArray]:
        return [
            one.members(contexts) if sharp else one.between(contexts, centres)
            for one, sharp, centres in zip(self.segments, self.sharp, self.centres, strict=True)
        ]


def _shifts(odds: FloatArray, rates: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the shifts (K,) with which the weighted mean of expit(odds + shift) is each arm's rate.

    `odds` has shape (n, K); without `weights` all n users count equally.
    """
    reach = np.abs(odds).max() + np.abs(logit(rates)).max() + 1.0
    low, high = np.full(len(rates), -reach), np.full(len(rates), reach)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        means = expit(odds + middle)
        above = (means.mean(axis=0) if weights is None else weights @ means) > rates
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
