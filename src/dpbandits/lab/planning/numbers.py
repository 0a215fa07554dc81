"""`ActionFunctions`: random mean outcomes of a grid of actions, scaled to what the facts state.

The log odds of the outcome are a function of the context and the action, a function of the action alone and
a function of the context alone, each a random smooth function. Outcomes are sorted along a declared shape.
Two numbers, the size of the functions and the part that is the same for everybody, give a world the stated
effect and personal part.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from dpbandits._typing import FloatArray
from dpbandits.tables import Actions
from dpbandits.tables.columns import Categories

__all__ = ["ActionFunctions", "shift_to"]

LENGTHS = 0.2, 1.0
"""Bounds of the distance along an action column after which outcomes differ, as shares of the column."""

FITTED = 600
"""Number of simulated users on whom size and common part are fitted."""

SIZES, TILTS = np.geomspace(0.05, 12.0, 13), np.linspace(0.0, 1.0, 9)
"""First sizes (log odds) and common parts that are tried."""

FINER = (0.5, 0.25)
"""Steps of the search around the best pair, as shares of the first steps."""

LARGEST_COMMON = 1.0
"""Largest size of the function of the context alone, as a multiple of the other functions' size."""

STEEP = 0.7
"""Shape of the gamma law of the steps of a monotone function. With small shapes, few steps are large."""


def shift_to(odds: FloatArray, base: float) -> float:
    """Return the number that is added to the log odds `odds` so that the mean probability is `base`."""
    reach = float(np.abs(odds).max()) + abs(float(logit(base))) + 1.0
    return float(brentq(lambda shift: expit(odds + shift).mean() - base, -reach, reach, xtol=1e-4))


@dataclass(frozen=True, kw_only=True, eq=False)
class ActionFunctions:
    """Random functions of contexts and K actions before scaling, as sums of M cosine waves.

    Attributes:
        actions: Grid of actions, with the public value function.
        contexts: Function from contexts (n, d) to the waves' phases (n, M) of the context.
        along: Phases (K, M) that the actions add.
        alone: Function from contexts (n, d) to a function (n,) of the context alone.
        same: Function (K,) of the action alone, with mean 0 and deviation 1.
        common: Size of `alone`.
    """

    actions: Actions
    contexts: Callable[[FloatArray], FloatArray]
    along: FloatArray
    alone: Callable[[FloatArray], FloatArray]
    same: FloatArray
    common: float

    @classmethod
    def drawn(
        cls,
        actions: Actions,
        contexts: Callable[[FloatArray], FloatArray],
        alone: Callable[[FloatArray], FloatArray],
        *,
        waves: int,
        rng: np.random.Generator,
    ) -> Self:
        """Draw the functions of the action; those of the context are given."""
        along, same, shape = np.zeros((actions.n_actions, waves)), np.zeros(actions.n_actions), actions.shape
        for (name, column), codes, size in zip(
            actions.schema.columns.items(), actions.grid.T, actions.sizes, strict=True
        ):
            category = isinstance(column, Categories)
            places = rng.random(size) if category else np.linspace(0.0, 1.0, size)
            length = float(np.exp(rng.uniform(*np.log(LENGTHS))))
            along += places[codes, None] * rng.standard_normal(waves) / length
            if shape and name in shape:
                own = np.cumsum(rng.gamma(STEEP, size=size)) * (-1.0 if shape[name] == "decreasing" else 1.0)
            elif category:
                own = rng.standard_normal(size)
            else:
                phases = np.outer(places, rng.standard_normal(waves)) / length
                own = np.cos(phases + rng.uniform(0.0, 2.0 * np.pi, waves)).sum(axis=1)
            same += ((own - own.mean()) / max(float(own.std()), 1e-9))[codes]
        return cls(
            actions=actions,
            contexts=contexts,
            along=along,
            alone=alone,
            same=(same - same.mean()) / max(float(same.std()), 1e-9),
            common=float(rng.uniform(0.0, LARGEST_COMMON)),
        )

    def parts(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the functions of context and action (n, K), and of the context alone (n, 1)."""
        phases = self.contexts(contexts)
        # cos(u + v) = cos u cos v - sin u sin v
        both = np.cos(phases) @ np.cos(self.along).T - np.sin(phases) @ np.sin(self.along).T
        return np.asarray(both), self.alone(contexts)[:, None]

    def fitted(
        self,
        people: FloatArray,
        *,
        low: float,
        width: float,
        base: float,
        effect: float,
        personal: float,
        missed: float,
    ) -> Callable[[FloatArray], FloatArray] | None:
        """Return a function from contexts (n, d) to mean outcomes (n, K), scaled to [0, 1].

        Return None if the functions cannot reach the numbers.

        Args:
            people: Contexts (n, d) on whose first rows the functions are fitted.
            low, width: Lower end and width of the range of outcomes.
            base: Mean outcome of a random action, scaled to [0, 1].
            effect: Value of every user's best action above that of a random action.
            personal: Part of the effect that the best single action does not get.
            missed: Largest error of the effect, and of the personal part, as a share of the effect.
        """
        people = people[:FITTED]
        both, alone = self.parts(people)
        centre, spread = float(both.mean()), float((both - both.mean(axis=1, keepdims=True)).std())
        level, around = float(alone.mean()), float(alone.std())
        unshaped = replace(self.actions, shape=None)  # outcomes are sorted before they are valued

        def odds(size: float, tilt: float, both: FloatArray, alone: FloatArray) -> FloatArray:
            own = (1.0 - tilt) * (both - centre) / max(spread, 1e-9) + tilt * self.same
            return np.asarray(size * (own + self.common * (alone - level) / max(around, 1e-9)))

        def off(pair: tuple[float, float]) -> float:
            found = odds(*pair, both, alone)
            means = self.actions.shaped(expit(found + shift_to(found, base)))
            values = unshaped.valued(low + width * means)
            gain = float(values.max(axis=1).mean() - values.mean())
            kept = float(values.mean(axis=0).max() - values.mean())
            return max(abs(gain - effect), abs(gain - kept - personal * effect)) / max(effect, 1e-12)

        best = min(product(SIZES.tolist(), TILTS.tolist()), key=off)
        for part in FINER:
            sizes = [best[0] * float((SIZES[1] / SIZES[0]) ** (part * step)) for step in (-1, 0, 1)]
            tilts = [min(1.0, max(0.0, best[1] + part * float(TILTS[1]) * step)) for step in (-1, 0, 1)]
            best = min(product(sizes, tilts), key=off)
        if off(best) > missed:
            return None
        size, tilt = best
        shift = shift_to(odds(size, tilt, both, alone), base)
        return lambda contexts: self.actions.shaped(expit(odds(size, tilt, *self.parts(contexts)) + shift))
