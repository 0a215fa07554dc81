"""Ma2025 as its authors' public code runs. NOT PRIVATE: the code's epsilon is a number that no guarantee has.

It is here because the runs that the authors publish come from this code: who compares with the curves of
Figures 6 to 9 compares with it. It gives no policy and no certificate, only regret in simulated worlds.

With every batch of users, in each bin that is not split and for each arm that is left there,

    sum U += users who pulled it + Laplace(4/epsilon) once for every user of the batch WHO IS IN THE BIN,
    sum V likewise with their rewards,

so a bin that nobody visits gets exactly zero, and seen as a report the visited bin is revealed
(`tests/reproduction/test_as_code.py`). Then, with t the users since the bin was made,

    lambda = min(1, epsilon^2 sum U/t) if t > floor(log2 n_e)^2, else 0,
    A += lambda sum V,   B += lambda sum U,   C += lambda^2 max(sum U, t/epsilon^2),

which adds everybody who came before once more. The estimate is A/B in [0, 1] and the radius
sqrt(2 log2 n_e) sqrt(C)/|B|, with A, B and C summed over target and sources. Arms are dropped where intervals
of half-width max(radius, 2^(-s/dim)) are apart. A bin of depth s is split when every arm left has a
radius below that width.

n_e is the largest n min(1, epsilon)^2. Arms are drawn by a softmax of the estimates. They are drawn evenly in
Figure 6, and as long as the whole cube is one bin.

`CodeOptions` undoes the two faults one by one, to see what each is worth.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import World
from dpbandits.lab.worlds.transfer import SourceWorld

__all__ = ["CodeCrowds", "CodeOptions", "own_bin_sums"]

_DRAWN_BATCHES = 20
"""Batches whose people are drawn at once: bounds the memory."""

_LITTLE = 1e-4
"""The code adds this to divisors and variances."""


@dataclass(frozen=True, kw_only=True)
class CodeOptions:
    """How the code is run.

    Attributes:
        batch: users between two updates; with `again` results depend on it.
        planned: number of sources that its depth is planned for, also where they have no user.
        weighted: arms by the softmax; False: evenly.
        own_bin: noise only in bins that the batch visits. False: in every bin, as the algorithm is printed.
        again: earlier users are added again with every batch. False: everybody counts once.
    """

    batch: int = 100
    planned: int = 2
    weighted: bool = True
    own_bin: bool = True
    again: bool = True


def own_bin_sums(
    bins: IntArray, arms: IntArray, rewards: FloatArray, noise: FloatArray, n_bins: int
) -> FloatArray:
    """(n_bins, K, 2) what a batch adds to sum U and sum V: noise where somebody came, and nowhere else.

    Args:
        bins, arms, rewards: (n,) of the users.
        noise: (n, K, 2) Laplace noise of every user.
        n_bins: number of bins.
    """
    n_arms = noise.shape[1]
    cells = bins * n_arms + arms
    size = n_bins * n_arms
    exact = np.stack(
        [np.bincount(cells, minlength=size), np.bincount(cells, rewards, minlength=size)], axis=1
    )
    width = 2 * n_arms
    places = (bins[:, None] * width + np.arange(width)).ravel()
    drawn = np.bincount(places, noise.ravel(), minlength=n_bins * width)
    return np.asarray(exact.reshape(n_bins, n_arms, 2) + drawn.reshape(n_bins, n_arms, 2))


@dataclass(frozen=True, kw_only=True)
class _People:
    """A chunk of every crowd's people: R crowds, n users.

    Attributes:
        places: (R, n) bin of depth D.
        means: (K, R, n) mean rewards.
        arms: (R, n) of a source; of the target nothing.
        luck: (R, n, 2) uniform draws: of the reward, and of the arm.
        noise: (R, n, K, 2) Laplace of scale 1; of no use where noise is drawn in every bin.
    """

    places: IntArray
    means: FloatArray
    arms: IntArray | None
    luck: FloatArray
    noise: FloatArray


class CodeCrowds:
    """R crowds that run side by side; crowd r is the same whatever others run beside it.

    A counts the bins of all crowds that are not split. Arrays have the bins last, which is fast.

    Args:
        world: the target's.
        sources: people, number of users and epsilon of every source, in their order.
        n_users: number of the target's users.
        epsilon: the number that the code calls so.
        seeds: (R,) one a crowd.
        options: see `CodeOptions`.

    Raises:
        InvalidParameter: no crowd, or fewer users than a batch has.
    """

    def __init__(
        self,
        world: World,
        *,
        sources: Sequence[tuple[SourceWorld, int, float]] = (),
        n_users: int,
        epsilon: float,
        seeds: Sequence[int],
        options: CodeOptions | None = None,
    ) -> None:
        self.options = options or CodeOptions()
        if not seeds or n_users < self.options.batch:
            raise InvalidParameter("expected a crowd, of at least one batch of users")
        self.world, self.sources, self.n_users = world, sources, n_users
        self.epsilons = (epsilon, *(own for _, _, own in sources))
        self.seeds = tuple(seeds)
        sizes = [(n_users, epsilon), *((n, own) for _, n, own in sources)]
        planned, dim = max(self.options.planned, len(sources)) + 1, world.dim
        effective = max(n * min(1.0, own) ** 2 for n, own in sizes)
        self._spread = math.sqrt(2.0 * math.log2(effective))
        self._warm_start = int(math.log2(effective)) ** 2
        self.depth = int(max(self._depth(planned * n, own, dim) for n, own in sizes))
        self._begin()

    @staticmethod
    def _depth(n: int, epsilon: float, dim: int) -> float:
        plain, private = math.log2(2 * n), math.log2(2 * n * epsilon**2)
        return min(plain * dim / (2 + dim), private * dim / (2 + 2 * dim))

    def _begin(self) -> None:
        crowds, arms, parts = len(self.seeds), self.world.n_arms, len(self.epsilons)
        self._axes = np.stack([self._cuts(seed) for seed in self.seeds])
        self._crowd = np.arange(crowds)
        self._node = np.zeros(crowds, dtype=np.int64)
        self._level = np.zeros(crowds, dtype=np.int64)
        self.live = np.ones((arms, crowds), dtype=np.bool_)
        self._estimate = np.zeros((arms, crowds))
        self._seen = np.zeros((parts, crowds))
        self._sums = np.zeros((parts, 2, arms, crowds))  # U and V
        self._known = np.zeros((parts, 3, arms, crowds))  # B, A and C
        self._holder = np.repeat(np.arange(crowds)[:, None], 2**self.depth, axis=1)
        self._noise = [np.random.default_rng([seed, 23]) for seed in self.seeds]

    def _cuts(self, seed: int) -> IntArray:
        """(2^D - 1,) axis along which every bin above depth D is halved: one of its longest edges."""
        rng, dim = np.random.default_rng([seed, 20]), self.world.dim
        halved, axes = np.zeros((1, dim), dtype=np.int64), [np.zeros(0, dtype=np.int64)]
        for _ in range(self.depth):
            longest = halved == halved.min(axis=1, keepdims=True)
            axis = np.where(longest, rng.random(halved.shape), -1.0).argmax(axis=1)
            axes.append(axis)
            halved = np.repeat(halved + (np.arange(dim) == axis[:, None]), 2, axis=0)
        return np.concatenate(axes)

    def locate(self, contexts: FloatArray) -> IntArray:
        """(R, n) bins of depth D of (R, n, dim) contexts."""
        crowd = np.arange(len(self.seeds))[:, None]
        node = np.zeros(contexts.shape[:2], dtype=np.int64)
        rest = contexts.copy()
        for _ in range(self.depth):
            axis = self._axes[crowd, node][:, :, None]
            along = 2.0 * np.take_along_axis(rest, axis, axis=2)
            upper = along >= 1.0
            np.put_along_axis(rest, axis, along - upper, axis=2)
            node = 2 * node + 1 + upper[:, :, 0]
        return np.asarray(node - (2**self.depth - 1))

    def chances(self) -> FloatArray:
        """(K, A) law of the arms in every bin that is not split."""
        left = self.live.sum(axis=0)
        scores = np.where((self._level > 0) | (self.depth == 0), self._estimate, 0.0)
        high = np.where(self.live, scores, -np.inf).max(axis=0)
        gap = high - np.where(self.live, scores, np.inf).min(axis=0)
        sharp = np.log(1.2 * self.world.n_arms / left) / (gap + _LITTLE)
        if not self.options.weighted:
            sharp = np.zeros_like(gap)
        weight = np.where(self.live, np.exp(np.where(gap < 0.01, 0.0, sharp * (scores - high))), 0.0)
        return np.asarray(weight / weight.sum(axis=0))

    def run(self, watched: FloatArray | None = None) -> tuple[FloatArray, FloatArray | None]:
        """Sources, then the target.

        Args:
            watched: (dim,) a context at which the law of arms is recorded.

        Returns:
            (R, T) regret of every batch of the target's users, and (R, T, K) the law or None.
        """
        for part in range(1, len(self.epsilons)):
            for people in self._chunks(part):
                if people.arms is None:
                    raise InvalidParameter("a source has arms")
                self._learn(people, people.arms, part)
        regret, laws, rows = [], [], np.arange(len(self.seeds))
        place = None
        if watched is not None:
            place = self.locate(np.broadcast_to(watched, (len(rows), 1, self.world.dim)))[:, 0]
        for people in self._chunks(0):
            law = self.chances()
            if place is not None:
                laws.append(law[:, self._holder[rows, place]].T)
            passed = law.cumsum(axis=0)[:-1, self._holder[rows[:, None], people.places]]
            arms = (passed < people.luck[:, :, 1]).sum(axis=0)
            paid = np.take_along_axis(people.means, arms[None], axis=0)[0]
            regret.append((people.means.max(axis=0) - paid).sum(axis=1))
            self._learn(people, arms, 0)
        return np.stack(regret, axis=1), np.stack(laws, axis=1) if laws else None

    def _chunks(self, part: int) -> Iterator[_People]:
        """The batches of the target (part 0) or of a source; who does not fill a batch is left out."""
        batch = self.options.batch
        total = (self.n_users if part == 0 else self.sources[part - 1][1]) // batch * batch
        rngs = [np.random.default_rng([seed, 21, part]) for seed in self.seeds]
        for start in range(0, total, _DRAWN_BATCHES * batch):
            n = min(_DRAWN_BATCHES * batch, total - start)
            drawn = [self._draw(part, n, rng) for rng in rngs]
            contexts, means, arms, luck, noise = (np.stack(each) for each in zip(*drawn, strict=True))
            places, means = self.locate(contexts), np.ascontiguousarray(np.moveaxis(means, 2, 0))
            for first in range(0, n, batch):
                at = (slice(None), slice(first, first + batch))
                own = arms[at] if part else None
                yield _People(
                    places=places[at], means=means[:, *at], arms=own, luck=luck[at], noise=noise[at]
                )

    def _draw(
        self, part: int, n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        if part == 0:
            contexts, means = self.world.draw(n, rng)
            arms = np.zeros(n, dtype=np.int64)
        else:
            contexts, means, arms = self.sources[part - 1][0].draw(n, rng)
        noise = rng.laplace(size=(n, self.world.n_arms, 2)) if self.options.own_bin else np.zeros((n, 1, 1))
        return contexts, means, arms, rng.random((n, 2)), noise

    def _learn(self, people: _People, arms: IntArray, part: int) -> None:
        """One batch of target or source."""
        crowd = np.arange(len(self.seeds))[:, None]
        bins = self._holder[crowd, people.places].ravel()
        mean = np.take_along_axis(people.means, arms[None], axis=0)[0]
        rewards = (people.luck[:, :, 0] < mean).astype(np.float64).ravel()
        added = self._added(bins, arms.ravel(), rewards, people.noise, part)
        self._sums[part] += np.where(self.live, added.T, 0.0)
        self._seen[part] += self.options.batch
        self._weigh(part)
        self._act(self._seen[part] >= self._warm_start)

    def _added(
        self, bins: IntArray, arms: IntArray, rewards: FloatArray, noise: FloatArray, part: int
    ) -> FloatArray:
        """(A, K, 2) what a batch adds to sum U and sum V."""
        n_bins, scale = len(self._crowd), 4.0 / self.epsilons[part]
        if self.options.own_bin:
            return own_bin_sums(bins, arms, rewards, scale * noise.reshape(len(bins), -1, 2), n_bins)
        exact = own_bin_sums(bins, arms, rewards, np.zeros((len(bins), self.world.n_arms, 2)), n_bins)
        for crowd, rng in enumerate(
            self._noise
        ):  # a sum of b Laplace variables is a difference of two gammas
            here = np.flatnonzero(self._crowd == crowd)
            two = rng.standard_gamma(self.options.batch, (2, len(here), self.world.n_arms, 2))
            exact[here] += scale * (two[0] - two[1])
        return exact

    def _weigh(self, part: int) -> None:
        """lambda of a part, and A, B and C."""
        seen, epsilon = self._seen[part], self.epsilons[part]
        count, paid = self._sums[part]
        weight = np.where(seen > self._warm_start, np.minimum(1.0, epsilon**2 * count / seen), 0.0)
        spread = np.maximum(count, seen / epsilon**2) * weight**2
        now = np.stack([count * weight, paid * weight, spread])
        if self.options.again:
            self._known[part] += np.where(self.live, now, 0.0)
        else:
            self._known[part] = np.where(self.live, now, self._known[part])

    def _act(self, begun: BoolArray) -> None:
        """Estimate, drop arms and split, in bins that have enough users."""
        divisor, paid, spread = self._known.sum(axis=0)
        estimate = np.clip(paid / (divisor + _LITTLE), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            radius = self._spread * np.sqrt(spread + _LITTLE) / np.abs(divisor)
        self._estimate = np.where(begun, estimate, self._estimate)
        width = 2.0 ** (-self._level / self.world.dim)
        reach = np.maximum(radius, width)
        floor = np.where(self.live, estimate - reach, -np.inf).max(axis=0)
        dropped = begun & (floor > estimate + reach)
        split = begun & (self._level < self.depth) & (~self.live | (radius < width)).all(axis=0)
        self.live &= ~dropped
        if split.any():
            self._split(split)

    def _split(self, chosen: BoolArray) -> None:
        """Halve these bins: a half begins anew, with the arms that are left."""
        kept, fresh = np.flatnonzero(~chosen), 2 * int(chosen.sum())
        node, level = np.repeat(2 * self._node[chosen] + 1, 2), np.repeat(self._level[chosen] + 1, 2)
        node[1::2] += 1
        moved = np.cumsum(~chosen) - 1
        self._holder = moved[self._holder]
        self._crowd = np.concatenate([self._crowd[kept], np.repeat(self._crowd[chosen], 2)])
        self._node = np.concatenate([self._node[kept], node])
        self._level = np.concatenate([self._level[kept], level])
        self.live = np.concatenate([self.live[:, kept], np.repeat(self.live[:, chosen], 2, axis=1)], axis=1)
        for name in ("_estimate", "_seen", "_sums", "_known"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old[..., kept], np.zeros((*old.shape[:-1], fresh))], axis=-1))
        for index in range(len(kept), len(kept) + fresh):
            below = self.depth - self._level[index]
            first = ((self._node[index] + 1) << below) - 2**self.depth
            self._holder[self._crowd[index], first : first + (1 << below)] = index
