"""World of Dubey2021's first figure, with one good candidate and 24 bad ones in every round.

Both worlds have the squared exponential kernel with lengthscale 1 on the disc of radius 2, Bernoulli rewards
and T = 1024. f is a combination of kernel sections at uniform centres. One of 25 candidates has f >= 0.8, and
24 have f <= 0.6. The worlds differ in f:

- `printed_world`: as the paper prints it, four centres and weights uniform in the unit L1 ball, signed.
- `three_hills`: three centres and Dirichlet(1, 1, 1) weights, so that f is positive. Studies of releases use
  it; their results call it `figure1`.

The paper draws f until it reaches .8 and candidates "crudely, by iterative sampling"; here candidates are
uniform on the two level sets.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Ball
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.functions import FunctionBandit
from dpbandits.policy.coins import PublicCoins

__all__ = ["GapCandidates", "KernelSections", "printed_world", "three_hills"]

# A function is kept when f >= high on at least this share of the disc and f <= low on at least the
# other: below, rejection sampling of candidates is slow.
LEAST_GOOD_SHARE = 0.02
LEAST_BAD_SHARE = 0.2
# As printed f need only reach `high`: on two of the design's points.
REACHED_SHARE = 2 / 4096
CROWD_RADIUS = 0.3
_DESIGN_POINTS = 4096  # a share of 0.02 is then 82 points
MOST_FUNCTIONS = 10_000  # of those as printed less than one in a hundred reaches .8
_FIRST_PROPOSALS = 64
_MOST_ATTEMPTS = 60
_ATTEMPTS_WHERE_REACHED = 2_000


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelSections:
    """f(x) = sum_i weights_i exp(-||x - centres_i||^2 / (2 lengthscale^2)).

    With weights in the unit L1 ball |f| <= 1, and its norm in the kernel's space is at most 1.

    Args:
        centres: (k, d).
        weights: (k,).
        lengthscale: Lengthscale of the squared exponential kernel.
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
    law, unlike what public decision sets expect. `attempts` times 64 proposals are made for a round at most.
    """

    mean: KernelSections
    radius: float
    n_candidates: int
    high: float
    low: float
    crowd: float = 0.0
    attempts: int = _MOST_ATTEMPTS

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
        for attempt in range(self.attempts):
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
            f"{self.attempts * _FIRST_PROPOSALS} proposals: the level set is too small for these bounds"
        )


def three_hills(
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
    coins = PublicCoins(seed)

    def drawn(trial: int) -> KernelSections:
        unit = coins.uniform("environment/gap/function", trial, trial + 1, 3 * n_centres)[0]
        gammas = gammaincinv(concentration, unit[2 * n_centres :])
        centres = _on_disc(unit[: 2 * n_centres].reshape(n_centres, 2), radius)
        return KernelSections(centres=centres, weights=gammas / gammas.sum(), lengthscale=lengthscale)

    mean = _first_that_fits(
        drawn, _disc_design(radius), high=high, low=low, least=(LEAST_GOOD_SHARE, LEAST_BAD_SHARE)
    )
    law = GapCandidates(mean=mean, radius=radius, n_candidates=n_candidates, high=high, low=low, crowd=crowd)
    return _bandit("dubey2021-figure1", law, horizon=horizon, seed=seed)


def printed_world(*, seed: Seed, horizon: int = 1024, n_candidates: int = 25) -> FunctionBandit:
    """Dubey2021's synthetic world as its Section 6.1 prints it.

    f(x) = sum_i alpha_i k(x, c_i), where k is the squared exponential kernel of lengthscale 1. The four
    centres are uniform on the disc of radius 2. The weights alpha are uniform in the unit L1 ball of four
    dimensions. They are drawn again until f reaches .8 on two of 4,096 fixed points. Rewards are
    Bernoulli(max(f, 0)). In every round one candidate is uniform on {f >= .8} and the others on {f <= .6}.

    Over 200 functions: regret of a uniformly random policy in T = 1024 rounds 606 on average (standard
    deviation 59 between functions).

    References:
        Dubey2021, Section 6.1.
    """
    _checks.integer(seed, name="seed", minimum=0)
    _checks.integer(n_candidates, name="n_candidates", minimum=2)
    coins, k, radius, high, low = PublicCoins(seed), 4, 2.0, 0.8, 0.6

    def drawn(trial: int) -> KernelSections:
        unit = coins.uniform("environment/gap/printed", trial, trial + 1, 4 * k + 1)[0]
        spacings = -np.log1p(-unit[: k + 1])
        signs = np.where(unit[k + 1 : 2 * k + 1] < 0.5, -1.0, 1.0)
        weights = signs * spacings[:k] / spacings.sum()
        return KernelSections(centres=_on_disc(unit[2 * k + 1 :].reshape(k, 2), radius), weights=weights)

    mean = _first_that_fits(drawn, _disc_design(radius), high=high, low=low, least=(REACHED_SHARE, 0.0))
    law = GapCandidates(
        mean=mean,
        radius=radius,
        n_candidates=n_candidates,
        high=high,
        low=low,
        attempts=_ATTEMPTS_WHERE_REACHED,
    )
    return _bandit("dubey2021-printed", law, horizon=horizon, seed=seed)


def _first_that_fits(
    drawn: Callable[[int], KernelSections],
    design: FloatArray,
    *,
    high: float,
    low: float,
    least: tuple[float, float],
) -> KernelSections:
    """The first function with f >= high and f <= low on these shares of the design's points."""
    for trial in range(MOST_FUNCTIONS):
        mean = drawn(trial)
        values = mean(design)
        if (values >= high).mean() >= least[0] and (values <= low).mean() >= least[1]:
            return mean
    raise InvalidParameter(
        f"none of {MOST_FUNCTIONS} functions reaches high = {high} and low = {low} on enough of the "
        "disc: use fewer centres, a smaller concentration or other bounds"
    )


def _bandit(name: str, law: GapCandidates, *, horizon: int, seed: Seed) -> FunctionBandit:
    return FunctionBandit(
        name=name,
        domain=Ball(centre=[0.0, 0.0], radius=law.radius),
        mean=law.mean,
        candidates=law,
        n_candidates=law.n_candidates,
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
