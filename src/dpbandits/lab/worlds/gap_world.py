"""The world of Dubey2021's first figure: one good candidate among two dozen bad ones, every round.

What is taken from the paper and its notes: the squared exponential kernel with lengthscale 1 on the
disc of radius 2, f a combination of kernel sections with Dirichlet weights, 25 candidates of which
one has f >= 0.8 and 24 have f <= 0.6, Bernoulli rewards, T = 1024. What the paper leaves open is
chosen here: three sections at uniform centres, Dirichlet(1, 1, 1) weights, candidates uniform on
the two level sets. With these a uniformly random policy has regret about 600, as there.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Ball
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.functions import FunctionBandit
from dpbandits.policy.coins import PublicCoins

__all__ = ["GapCandidates", "KernelSections", "dubey2021_figure1"]

# A function is kept when f >= high on at least this share of the disc and f <= low on at least the
# other: below, rejection sampling of candidates is slow.
LEAST_GOOD_SHARE = 0.02
LEAST_BAD_SHARE = 0.2
CROWD_RADIUS = 0.3
_DESIGN_POINTS = 4096  # a share of 0.02 is then 82 points
_MOST_FUNCTIONS = 1_000
_FIRST_PROPOSALS = 64
_MOST_ATTEMPTS = 60


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelSections:
    """f(x) = sum_i weights_i exp(-||x - centres_i||^2 / (2 lengthscale^2)).

    With weights on the simplex f lies in (0, 1], and its norm in the kernel's space is at most 1.

    Args:
        centres: (k, d).
        weights: (k,).
        lengthscale: of the squared exponential kernel.
    """

    centres: FloatArray
    weights: FloatArray
    lengthscale: float = 1.0

    def __call__(self, points: FloatArray, /) -> FloatArray:
        """Values at points, (..., d) -> (...)."""
        total = np.zeros(points.shape[:-1])
        for centre, weight in zip(self.centres, self.weights, strict=True):
            square = ((points - centre) ** 2).sum(axis=-1)
            total += weight * np.exp(square * (-0.5 / self.lengthscale**2))
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class GapCandidates:
    """One candidate with f >= high in a random place among others with f <= low.

    Both kinds are uniform on their part of the disc of `radius` around the origin, by rejection. With
    `crowd` above 0, that share of the bad candidates stands within `CROWD_RADIUS` of one place: a skewed
    law, unlike what public decision sets expect.
    """

    mean: KernelSections
    radius: float
    n_candidates: int
    high: float
    low: float
    crowd: float = 0.0

    def __call__(self, coins: PublicCoins, start: int, stop: int, /) -> FloatArray:
        """Decision sets of rounds start..stop-1, (B, n, 2)."""
        bad = self._draw(coins, "bad", start, stop, self.n_candidates - 1)
        if self.crowd > 0.0:
            bad = self._crowded(coins, start, stop, bad)
        good = self._draw(coins, "good", start, stop, 1)
        place = coins.uniform("environment/gap/place", start, stop, 1) * self.n_candidates
        is_good = np.arange(self.n_candidates) == place.astype(np.int64)
        points = np.empty((stop - start, self.n_candidates, 2))
        points[~is_good] = bad.reshape(-1, 2)
        points[is_good] = good[:, 0]
        return points

    def _crowded(self, coins: PublicCoins, start: int, stop: int, bad: FloatArray) -> FloatArray:
        """`bad` (B, k, 2) with about a share `crowd` moved to one place, where f <= low holds there."""
        count = bad.shape[1]
        unit = coins.uniform("environment/gap/crowd", start, stop, 3 * count).reshape(-1, count, 3)
        design = _disc_design(self.radius - CROWD_RADIUS)
        place = design[np.argmin(self.mean(design))]
        points = place + _on_disc(unit[..., :2], CROWD_RADIUS)
        moved = (unit[..., 2] < self.crowd) & (self.mean(points) <= self.low)
        return np.where(moved[..., None], points, bad)

    def _draw(self, coins: PublicCoins, kind: str, start: int, stop: int, wanted: int) -> FloatArray:
        """(B, wanted, 2) points of one kind: each round takes the first accepted of its own proposals."""
        drawn = np.empty((stop - start, wanted, 2))
        found: IntArray = np.zeros(stop - start, dtype=np.int64)
        for attempt in range(_MOST_ATTEMPTS):
            open_rounds = np.flatnonzero(found < wanted)
            if open_rounds.size == 0:
                return drawn
            first, last = int(open_rounds[0]), int(open_rounds[-1]) + 1
            name = f"environment/gap/{kind}/{attempt}"
            unit = coins.uniform(name, start + first, start + last, 2 * _FIRST_PROPOSALS)
            points = _on_disc(unit[open_rounds - first].reshape(len(open_rounds), -1, 2), self.radius)
            value = self.mean(points)
            accepted = value >= self.high if kind == "good" else value <= self.low
            rank = found[open_rounds, None] + np.cumsum(accepted, axis=1) - 1
            row, column = np.nonzero(accepted & (rank < wanted))
            drawn[open_rounds[row], rank[row, column]] = points[row, column]
            found[open_rounds] = np.minimum(wanted, found[open_rounds] + accepted.sum(axis=1))
        raise InvalidParameter(
            f"no candidate with f {'>=' if kind == 'good' else '<='} its bound was found in "
            f"{_MOST_ATTEMPTS * _FIRST_PROPOSALS} proposals: the level set is too small for these bounds"
        )


def dubey2021_figure1(
    *,
    seed: Seed,
    horizon: int = 1024,
    n_candidates: int = 25,
    n_centres: int = 3,
    concentration: float = 1.0,
    radius: float = 2.0,
    lengthscale: float = 1.0,
    high: float = 0.8,
    low: float = 0.6,
    crowd: float = 0.0,
) -> FunctionBandit:
    """A random function, and decision sets with one good and otherwise bad candidates.

    The function is f(x) = sum_i alpha_i k(x, c_i): `n_centres` centres c_i uniform on the disc of
    `radius`, alpha ~ Dirichlet(concentration, ...), k the squared exponential kernel of
    `lengthscale`. It is drawn again until f >= high on 2% and f <= low on 20% of the disc (judged on
    4,096 fixed points). Every round one candidate is uniform on {f >= high} and the others on
    {f <= low}; the good one stands in a random place. Rewards are Bernoulli(f). The domain is the
    disc. Another seed is another function: build it with this constructor, or with
    `reseeded` for other candidates of the same function.

    `crowd` is the share of bad candidates that stand in one place (see `GapCandidates`); 0 in the figure.

    With the defaults, over 200 functions: regret of a uniformly random policy in T = 1024 rounds 611
    on average (standard deviation 57 between functions).

    Raises:
        InvalidParameter: a bound or size out of its range, or no function with these bounds found.

    References:
        Dubey2021, Figure 1.
    """
    _checks.integer(seed, name="seed", minimum=0)
    _checks.integer(n_centres, name="n_centres")
    _checks.integer(n_candidates, name="n_candidates", minimum=2)
    for name, value in {"concentration": concentration, "radius": radius, "lengthscale": lengthscale}.items():
        _checks.number(value, name=name)
    if not (0.0 <= crowd < 1.0 and (crowd == 0.0 or radius > 2 * CROWD_RADIUS)):
        raise InvalidParameter(f"crowd is {crowd}, expected a share in [0, 1) on a disc wider than a crowd")
    if not 0.0 < low < high < 1.0:
        raise InvalidParameter(f"low and high are {low} and {high}, expected 0 < low < high < 1")
    coins, design = PublicCoins(seed), _disc_design(radius)
    for trial in range(_MOST_FUNCTIONS):
        unit = coins.uniform("environment/gap/function", trial, trial + 1, 3 * n_centres)[0]
        gammas = gammaincinv(concentration, unit[2 * n_centres :])
        centres = _on_disc(unit[: 2 * n_centres].reshape(n_centres, 2), radius)
        mean = KernelSections(centres=centres, weights=gammas / gammas.sum(), lengthscale=lengthscale)
        values = mean(design)
        if (values >= high).mean() >= LEAST_GOOD_SHARE and (values <= low).mean() >= LEAST_BAD_SHARE:
            break
    else:
        raise InvalidParameter(
            f"none of {_MOST_FUNCTIONS} functions reaches high = {high} and low = {low} on enough of the "
            "disc: use fewer centres, a smaller concentration or other bounds"
        )
    law = GapCandidates(mean=mean, radius=radius, n_candidates=n_candidates, high=high, low=low, crowd=crowd)
    return FunctionBandit(
        name="dubey2021-figure1",
        domain=Ball(centre=[0.0, 0.0], radius=radius),
        mean=mean,
        candidates=law,
        n_candidates=n_candidates,
        horizon=horizon,
        seed=seed,
    )


def _on_disc(unit: FloatArray, radius: float) -> FloatArray:
    """Uniform numbers (..., 2) as uniform points of the disc."""
    distance = radius * np.sqrt(unit[..., 0])
    angle = 2.0 * np.pi * unit[..., 1]
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=-1)


def _disc_design(radius: float) -> FloatArray:
    """Evenly spread fixed points of the disc (a sunflower spiral)."""
    i = np.arange(_DESIGN_POINTS)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    return _on_disc(np.stack([(i + 0.5) / _DESIGN_POINTS, (i * golden) % 1.0], axis=-1), radius)
