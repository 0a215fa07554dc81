"""Baselines of the panel: simple private methods, each with its privacy argument.

A central baseline learns from blocks of people: it is shown their arms, contexts and rewards, and keeps
noisy sums alone. Neighbouring data sets differ in one person's row (replace one). A person is in one block,
so every block may spend the whole (epsilon, delta), and the releases of all blocks together keep it (parallel
composition). Arms of later people are computed from earlier releases and their own context, which makes it
(epsilon, delta)-joint privacy. Gaussian noise is calibrated by `gaussian_mu`: releases of sensitivities s_i
with deviations s_i/mu_i are together mu-GDP for mu^2 = sum mu_i^2, so a release with a share w of the budget
has the deviation s/(mu sqrt(w)). Noise is simulated: it has the law that the proof needs, from a seeded
generator.

A local baseline reads people through one report each, which is epsilon-private for any two inputs; who is
asked about what (arm, column, coordinate) is a public coin. A person's arm follows from her own context and
from what was published before.

Constants are those of `reproduction/results/panel-tuning.json`: `reproduction.tuning.panel_baselines` chose
them for every setting and epsilon, on tables that the panel does not hold. Where nothing was chosen they are
`FIRST`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import lgamma
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.privacy.calibration import gaussian_mu

Array = np.ndarray[Any, Any]
Constants = dict[str, Any]

DELTA = 1e-6
CHOSEN = Path(__file__).resolve().parents[1] / "results" / "panel-tuning.json"


@dataclass(frozen=True)
class Setup:
    """Public settings of a baseline.

    Args:
        categories: Number of categories of every column; 0 for a number in [0, 1].
        arms: how many.
        epsilon: promise, with `DELTA` of central baselines; None: no privacy.
        people: how many come in all, or the rows of the log.
    """

    categories: tuple[int, ...]
    arms: int
    epsilon: float | None
    people: int

    @property
    def budget(self) -> float:
        """Epsilon; infinite without privacy."""
        return np.inf if self.epsilon is None else self.epsilon

    @property
    def mu(self) -> float:
        """Gaussian parameter of the promise; infinite without privacy."""
        return np.inf if self.epsilon is None else gaussian_mu(self.epsilon, DELTA)


def features(setup: Setup, contexts: Array, design: str, bound: float) -> Array:
    """Rows (n, m) of norm at most one: the design of a linear model.

    Args:
        design: `linear` has a constant, numbers in [-1, 1] and indicators of categories. `squares` adds
            squares of numbers. `bins` has indicators of six bins of every number instead. `products` has
            squares, and products of pairs of entries of two columns.
        bound: rows are divided by this share of the largest norm, and shortened where they are longer than 1.
    """
    own: list[Array] = []
    for column, count in enumerate(setup.categories):
        values = contexts[:, column]
        if count:
            own.append((values[:, None] == np.arange(count)).astype(float))
        elif design == "bins":
            own.append((np.minimum((6.0 * values).astype(int), 5)[:, None] == np.arange(6)).astype(float))
        elif design == "linear":
            own.append(2.0 * values[:, None] - 1.0)
        else:
            centred = 2.0 * values[:, None] - 1.0
            own.append(np.hstack([centred, 1.5 * centred**2 - 0.5]))
    if design == "products":
        base = list(own)
        for first in range(len(base)):
            for second in range(first + 1, len(base)):
                pair = base[first][:, :, None] * base[second][:, None, :]
                own.append(pair.reshape(len(contexts), -1))
    rows = np.hstack([np.ones((len(contexts), 1)), *own])
    largest = 1.0 + sum(1.0 if one.shape[1] == 1 or design == "bins" else 1.2 for one in own)
    rows /= bound * np.sqrt(largest)
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]


def safe_design(setup: Setup, design: str, most: int = 150) -> str:
    """`design`, or `squares` where its products are more than `most` (a public number)."""
    widths = [count or 2 for count in setup.categories]
    products = (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2
    return "squares" if design == "products" and products > most else design


class Central:
    """A learner from blocks of people.

    Args:
        setup: Public settings.
        constants: chosen on tuning tables.
        rng: noise, and public coins of the learner.
    """

    def __init__(self, setup: Setup, constants: Constants, rng: np.random.Generator) -> None:
        self.setup, self.constants, self.rng = setup, constants, rng

    @property
    def again(self) -> bool:
        """True if it also learns from blocks whose arms are not uniform, after the first block."""
        return bool(self.constants.get("again", True))

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        """One block: contexts (n, d), arms (n,), rewards (n,) in [0, 1]."""
        raise NotImplementedError

    def scores(self, contexts: Array) -> Array:
        """(n, K) estimates of rewards, or whatever orders arms."""
        raise NotImplementedError

    def noise(self, sensitivity: float, share: float, shape: int | tuple[int, ...]) -> Array:
        """Gaussian noise of a release that has this share of the budget of a block."""
        sd = sensitivity / (self.setup.mu * np.sqrt(share))
        return np.asarray(self.rng.normal(0.0, 1.0, shape) * sd)


class BestArm(Central):
    """The arm of the best mean, for everyone.

    Privacy: a person adds at most one to the two counts (successes, failures) of one arm. Replacing moves the
    counts of a block by at most 2 in L1: Laplace noise of scale 2/epsilon, pure epsilon.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.counts = np.zeros((2, self.setup.arms))

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        own = [np.bincount(arms, weights, self.setup.arms) for weights in (rewards, 1.0 - rewards)]
        scale = 0.0 if self.setup.epsilon is None else 2.0 / self.setup.epsilon
        self.counts += np.array(own) + self.rng.laplace(0.0, 1.0, (2, self.setup.arms)) * scale

    def scores(self, contexts: Array) -> Array:
        held = np.maximum(self.counts.sum(axis=0), 1.0) + self.constants["shrink"]
        middle = self.counts[0].sum() / max(1.0, self.counts.sum())
        means = (self.counts[0] + self.constants["shrink"] * middle) / held
        return np.broadcast_to(means, (len(contexts), self.setup.arms))


class SharedRidge(Central):
    """Private ridge, one Gram matrix for all arms, which are uniform: it explores, then commits.

    With rows phi of norm at most 1, z = 2 r - 1 in [-1, 1] and r0 the ratio, a person with arm a adds
    (phi phi^T, sqrt(r0) z phi in the slot of a). Replacing her by (psi, y) with c = phi.psi moves that, in
    the same arm, by a squared distance of at most 2 - 2 c^2 + r0 (2 + 2 |c|), largest at |c| = r0/2 <= 1:
    (2 + r0)^2/2. In other arms it is at most 2 + 2 r0, which is less. Privacy: Gaussian noise of sensitivity
    (2 + r0)/sqrt(2) in these coordinates (off-diagonal entries once, times sqrt(2)); all else is computed
    from the release.
    """

    again = False  # one Gram matrix for all arms is that of people whose arms are uniform

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.design = safe_design(self.setup, self.constants["design"])
        self.weights: Array | None = None

    def rows(self, contexts: Array) -> Array:
        return features(self.setup, contexts, self.design, self.constants["bound"])

    def sums(self, contexts: Array, arms: Array, rewards: Array) -> tuple[Array, Array]:
        """Gram matrix (m, m) and vectors (m, K)."""
        phi, z = self.rows(contexts), 2.0 * rewards - 1.0
        return phi.T @ phi, phi.T @ (z[:, None] * (arms[:, None] == np.arange(self.setup.arms)))

    def symmetric(self, m: int, sd_of_one: Array) -> Array:
        """(m, m) noise from (m, m) independent draws: what is drawn off the diagonal is over sqrt(2)."""
        upper = np.triu(sd_of_one, 1) / np.sqrt(2.0)
        return np.asarray(upper + upper.T + np.diag(np.diag(sd_of_one)))

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        gram, vectors = self.sums(contexts, arms, rewards)
        m, ratio = len(gram), self.constants["ratio"]
        sensitivity = (2.0 + ratio) / np.sqrt(2.0)
        drawn = self.noise(sensitivity, 1.0, (m, m + self.setup.arms))
        gram = gram + self.symmetric(m, drawn[:, :m])
        vectors = vectors + drawn[:, m:] / np.sqrt(ratio)
        largest = sensitivity / self.setup.mu * np.sqrt(2.0 * m)  # eigenvalue of the Gram's noise
        self.solve(gram, vectors, 1.0 + self.constants["ridge"] * largest)

    def solve(self, gram: Array, vectors: Array, ridge: float) -> None:
        values, axes = np.linalg.eigh(gram)
        precision = (np.maximum(values, 0.0) + ridge) / self.setup.arms
        self.weights = axes @ ((axes.T @ vectors) / precision[:, None])

    def scores(self, contexts: Array) -> Array:
        if self.weights is None:
            return np.zeros((len(contexts), self.setup.arms))
        return np.asarray(self.rows(contexts) @ self.weights)


class AdaSSP(SharedRidge):
    """Adaptive sufficient statistics (Wang 2018, Algorithm 2), one Gram matrix for all arms.

    Privacy: a third of the budget each for the smallest eigenvalue (sensitivity 1, as replacing adds a
    positive matrix of norm 1 and takes one away), for the Gram matrix (sqrt(2)), and for the vectors
    (2: one arm, opposite rewards). The ridge is computed from the release.
    """

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        gram, vectors = self.sums(contexts, arms, rewards)
        m = len(gram)
        sd = 1.0 / (self.setup.mu * np.sqrt(1.0 / 3.0))
        least = np.linalg.eigvalsh(gram)[0] + float(self.noise(1.0, 1.0 / 3.0, 1)[0])
        least = max(0.0, least - 2.0 * sd)
        gram = gram + self.symmetric(m, self.noise(np.sqrt(2.0), 1.0 / 3.0, (m, m)))
        vectors = vectors + self.noise(2.0, 1.0 / 3.0, vectors.shape)
        wanted = self.constants["scale"] * sd * np.sqrt(m * np.log(2.0 * m**2 / 0.05))
        self.solve(gram, vectors, max(0.0, wanted - least) + 1e-3)


class TreeLinUCB(Central):
    """LinUCB of every arm with sums in a binary tree (Shariff and Sheffet 2018), online alone.

    People come in batches; the sums of (phi phi^T, sqrt(r0) z phi) of every arm are released over the nodes
    of a binary tree of the batches. Privacy: a person is in one leaf and so in `levels` nodes, each of which
    moves by at most (2 + r0)/sqrt(2), as in `SharedRidge` (Gram matrices of two arms move by sqrt(2)
    together); Gaussian noise of sqrt(levels) times that for the whole run. It learns all batches, and every
    prefix is a sum of at most `levels` nodes.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.design = safe_design(self.setup, self.constants["design"], 60)
        self.levels = int(np.log2(self.constants["batches"])) + 1
        self.batch = 0
        self.nodes: list[tuple[int, Array, Array, Array]] = []  # height, noisy Grams, vectors; exact of both
        self.state: tuple[Array, Array] | None = None

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        own = features(self.setup, contexts, self.design, self.constants["bound"])
        chosen = (arms[:, None] == np.arange(self.setup.arms)).astype(float)
        gram = np.einsum("nk,ni,nj->kij", chosen, own, own, optimize=True)
        vector = (chosen * (2.0 * rewards - 1.0)[:, None]).T @ own
        exact = np.concatenate([gram, vector[:, :, None]], axis=2)
        height = 0
        while self.nodes and self.nodes[-1][0] == height:
            exact, height = exact + self.nodes.pop()[3], height + 1
        m = own.shape[1]
        sensitivity = (2.0 + 1.0) / np.sqrt(2.0) * np.sqrt(self.levels)
        drawn = self.noise(sensitivity, 1.0, (self.setup.arms, m, m + 1))
        upper = np.triu(drawn[:, :, :m], 1) / np.sqrt(2.0)
        diagonal = np.eye(m) * drawn[:, :, :m]
        noisy = exact[:, :, :m] + upper + upper.transpose(0, 2, 1) + diagonal
        self.nodes.append((height, noisy, exact[:, :, m] + drawn[:, :, m], exact))
        grams, vectors = sum(node[1] for node in self.nodes), sum(node[2] for node in self.nodes)
        sd = sensitivity / self.setup.mu * np.sqrt(len(self.nodes))
        shift = 1.0 + self.constants["ridge"] * sd * np.sqrt(2.0 * m)
        values, axes = np.linalg.eigh(grams)
        inverse = np.einsum("kij,kj,klj->kil", axes, 1.0 / (np.maximum(values, 0.0) + shift), axes)
        self.state = np.einsum("kij,kj->ki", inverse, vectors), inverse

    def scores(self, contexts: Array) -> Array:
        if self.state is None:
            return np.zeros((len(contexts), self.setup.arms))
        own = features(self.setup, contexts, self.design, self.constants["bound"])
        weights, inverse = self.state
        spread = np.einsum("ni,kij,nj->nk", own, inverse, own, optimize=True)
        return np.asarray(own @ weights.T + self.constants["ucb"] * np.sqrt(np.maximum(spread, 0.0)))


class GradientDescent(Central):
    """DP gradient descent on the squared error of the arm that a person had, a linear function an arm.

    Privacy: a person's gradient (phi_a - z) phi is shortened to norm at most C and stands in one arm's slot;
    replacing her moves a step's sum by at most 2 C. T steps share the budget: deviation 2 C sqrt(T)/mu each.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.design = safe_design(self.setup, self.constants["design"])
        self.weights: Array | None = None

    def rows(self, contexts: Array) -> Array:
        return features(self.setup, contexts, self.design, self.constants["bound"])

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        phi, z, steps = self.rows(contexts), 2.0 * rewards - 1.0, self.constants["steps"]
        m, arms_k, clip = phi.shape[1], self.setup.arms, self.constants["clip"]
        if self.weights is None:
            self.weights = np.zeros((m, arms_k))
        chosen = arms[:, None] == np.arange(arms_k)
        norms = np.linalg.norm(phi, axis=1)
        speed, average = np.zeros((m, arms_k)), np.zeros((m, arms_k))
        for step in range(steps):
            missed = (phi * self.weights.T[arms]).sum(axis=1) - z
            missed *= np.minimum(1.0, clip / np.maximum(np.abs(missed) * norms, 1e-12))
            total = phi.T @ (missed[:, None] * chosen) + self.noise(2.0 * clip, 1.0 / steps, (m, arms_k))
            speed = 0.8 * speed - self.constants["rate"] * total * arms_k / len(phi)
            self.weights = self.weights + speed
            if step >= steps // 2:
                average += self.weights / (steps - steps // 2)
        self.weights = average

    def scores(self, contexts: Array) -> Array:
        if self.weights is None:
            return np.zeros((len(contexts), self.setup.arms))
        return np.asarray(self.rows(contexts) @ self.weights)


def fine_bins(setup: Setup, contexts: Array, most: int) -> tuple[list[Array], list[int]]:
    """Codes (n,) of every column in `most` bins of equal width, categories as they are, and how many."""
    codes, sizes = [], []
    for column, count in enumerate(setup.categories):
        values, size = contexts[:, column], count or most
        codes.append((values if count else np.minimum(values * most, most - 1)).astype(int))
        sizes.append(size)
    return codes, sizes


class Boosted(Central):
    """Boosted additive histograms of every arm (as in DP-EBM, Nori and others 2021), with private bins.

    A block releases, per column, counts of people by bin and arm; in its first block equal counts make the
    bins of numbers, and arms have their means. Then it takes every column in turn, several rounds: a random
    split of the bins into leaves (public coins), the sum in every leaf and arm of what is left of rewards,
    and a step towards its mean. Privacy: a share w of the budget is for d tables of counts, w/d each.
    Replacing one user changes two cells by at most one, so the sensitivity is sqrt(2). The rest is for T
    rounds of d sums of residuals, clipped to [-C, C], and one of arms, in equal shares. In each, two cells
    change by at most C, or one by at most 2 C, so the sensitivity is 2 C.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tables: list[Array] = []
        self.groups: list[Array] = []
        self.means: Array | None = None

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        setup, constants = self.setup, self.constants
        codes, sizes = fine_bins(setup, contexts, constants["fine"])
        d, arms_k, n = len(codes), setup.arms, len(contexts)
        share = constants["counts"]
        noisy = [
            np.bincount(code * arms_k + arms, minlength=size * arms_k).reshape(size, arms_k)
            + self.noise(np.sqrt(2.0), share / d, (size, arms_k))
            for code, size in zip(codes, sizes, strict=True)
        ]
        if not self.groups:
            for table, count in zip(noisy, setup.categories, strict=True):
                self.groups.append(self.merged(table.sum(axis=1), n, whole=bool(count)))
            self.tables = [np.zeros((int(group[-1]) + 1, arms_k)) for group in self.groups]
        places = [group[code] for group, code in zip(self.groups, codes, strict=True)]
        counts, z = self.block_counts(noisy, uniform=uniform), rewards - 0.5
        if self.means is None:
            self.means = self.arm_means(arms, z, counts)
        fitted = self.means[arms] + sum(
            (table[place, arms] for table, place in zip(self.tables, places, strict=True)), np.zeros(n)
        )
        self.boost(places, arms, z, fitted, counts)

    def share(self) -> float:
        """Share of the budget for one table of residuals; arm means count as one more table per block."""
        tables = self.constants["rounds"] * len(self.setup.categories) + 1
        return float((1.0 - self.constants["counts"]) / tables)

    def arm_means(self, arms: Array, z: Array, counts: list[Array]) -> Array:
        """(K,) means of rewards less 1/2, from a table of one cell an arm (|z| <= 1/2 <= C)."""
        clip = self.constants["clip"]
        total = np.bincount(arms, z, self.setup.arms) + self.noise(2.0 * clip, self.share(), self.setup.arms)
        people = np.mean([count.sum(axis=0) for count in counts], axis=0)
        return np.asarray(np.clip(total / np.maximum(people, 1.0), -0.5, 0.5))

    def block_counts(self, noisy: list[Array], *, uniform: bool) -> list[Array]:
        """Noisy counts of this block by group and arm; where arms are uniform, a column's total by arms."""
        found = []
        for group, table in zip(self.groups, noisy, strict=True):
            own = np.zeros((int(group[-1]) + 1, self.setup.arms))
            np.add.at(own, group, table)
            found.append(np.broadcast_to(own.mean(axis=1)[:, None], own.shape) if uniform else own)
        return found

    def merged(self, counts: Array, n: int, *, whole: bool) -> Array:
        """Groups of neighbouring bins that hold about n/`bins` people each; categories stay."""
        if whole:
            return np.arange(len(counts))
        filled = np.maximum(counts, 0.0).cumsum()
        share = (filled - np.maximum(counts, 0.0) / 2.0) / max(filled[-1], 1.0)
        raw = np.minimum((share * self.constants["bins"]).astype(int), self.constants["bins"] - 1)
        return np.unique(raw, return_inverse=True)[1]

    def boost(self, places: list[Array], arms: Array, z: Array, fitted: Array, counts: list[Array]) -> None:
        constants, arms_k, d = self.constants, self.setup.arms, len(places)
        clip, share = constants["clip"], self.share()
        sensitivity = 2.0 * clip
        for _ in range(constants["rounds"]):
            for column in self.rng.permutation(d):
                leaf = self.leaves(len(self.tables[column]))
                n_leaves, place = int(leaf[-1]) + 1, places[column]
                left = np.clip(z - fitted, -clip, clip)
                cell = leaf[place] * arms_k + arms
                total = np.bincount(cell, left, n_leaves * arms_k).reshape(n_leaves, arms_k)
                total = total + self.noise(sensitivity, share, total.shape)
                people = np.zeros((n_leaves, arms_k))
                np.add.at(people, leaf, counts[column])
                sd = sensitivity / (self.setup.mu * np.sqrt(share))
                held = np.maximum(people, 0.0) + constants["shrink"] * (1.0 + sd)
                step = constants["rate"] * total / held
                self.tables[column] = self.tables[column] + step[leaf]
                fitted = fitted + step[leaf][place, arms]

    def leaves(self, size: int) -> Array:
        """(size,) leaf of every bin, by random splits."""
        cuts = self.rng.permutation(size - 1)[: self.constants["leaves"] - 1] + 1
        return np.searchsorted(np.sort(cuts), np.arange(size), side="right")

    def scores(self, contexts: Array) -> Array:
        if self.means is None:
            return np.zeros((len(contexts), self.setup.arms))
        codes, _ = fine_bins(self.setup, contexts, self.constants["fine"])
        found = np.broadcast_to(self.means, (len(contexts), self.setup.arms)).copy()
        for table, group, code in zip(self.tables, self.groups, codes, strict=True):
            found += table[group[code]]
        return found


class OneColumn(Central):
    """A histogram of the column that explains most, chosen from noisy histograms of all.

    It counts successes and failures by bin and arm. Privacy: the first block spends a share w of (epsilon,
    delta) on all d columns. Replacing one user changes two counts of each column by at most one (2 d in L1,
    sqrt(2 d) in L2). The first block spends the rest on the chosen column, and later blocks spend everything
    on it. Each has Laplace or Gaussian noise, whichever is less (a public choice), and shares add up (basic
    composition).
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.column: int | None = None
        self.counts = np.zeros(0)

    def drawn(self, columns: int, share: float, shape: tuple[int, ...]) -> tuple[Array, float]:
        """Noise of counts of so many columns, and its deviation."""
        epsilon = self.setup.epsilon
        if epsilon is None:
            return np.zeros(shape), 0.0
        laplace = 2.0 * columns / (share * epsilon)
        gaussian = np.sqrt(2.0 * columns) / gaussian_mu(share * epsilon, share * DELTA)
        if np.sqrt(2.0) * laplace < gaussian:
            return self.rng.laplace(0.0, laplace, shape), float(np.sqrt(2.0) * laplace)
        return self.rng.normal(0.0, gaussian, shape), float(gaussian)

    def table(self, code: Array, size: int, arms: Array, rewards: Array) -> Array:
        """(2, bins, K) successes and failures."""
        cell, k = code * self.setup.arms + arms, self.setup.arms
        found = [np.bincount(cell, weights, size * k) for weights in (rewards, 1.0 - rewards)]
        return np.array(found).reshape(2, size, k)

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        codes, sizes = fine_bins(self.setup, contexts, self.constants["bins"])
        if self.column is None:
            share, found = self.constants["choice"], []
            for code, size in zip(codes, sizes, strict=True):
                noise, sd = self.drawn(len(codes), share, (2, size, self.setup.arms))
                table = self.table(code, size, arms, rewards) + noise
                found.append((self.explained(table, sd), table))
            self.column = int(np.argmax([score for score, _ in found]))
            weight = min(1.0, (share / (len(codes) * (1.0 - share))) ** 2)  # by inverse variances, about
            self.counts = weight / (1.0 + weight) * found[self.column][1]
            size = sizes[self.column]
            noise, _ = self.drawn(1, 1.0 - share, (2, size, self.setup.arms))
            own = self.table(codes[self.column], size, arms, rewards) + noise
            self.counts = self.counts + own / (1.0 + weight)
            return
        noise, _ = self.drawn(1, 1.0, self.counts.shape)
        self.counts = self.counts + self.table(codes[self.column], sizes[self.column], arms, rewards) + noise

    def explained(self, table: Array, sd: float) -> float:
        """Estimated variance of rewards between bins, within arms, less what noise has of it."""
        people = np.maximum(table.sum(axis=0), 1.0)
        arm = table[0].sum(axis=0) / np.maximum(table.sum(axis=(0, 1)), 1.0)
        gap = table[0] * (1.0 - arm) - table[1] * arm
        noise = sd**2 * ((1.0 - arm) ** 2 + arm**2) + people * arm * (1.0 - arm)
        return float(((gap**2 - noise) / (people + 4.0 * sd + 10.0)).sum())

    def scores(self, contexts: Array) -> Array:
        if self.column is None:
            return np.zeros((len(contexts), self.setup.arms))
        codes, _ = fine_bins(self.setup, contexts, self.constants["bins"])
        _, sd = self.drawn(1, 1.0, (1,))
        shrink = self.constants["shrink"] * (1.0 + sd)
        arm = self.counts[0].sum(axis=0) / np.maximum(self.counts.sum(axis=(0, 1)), 1.0)
        held = np.maximum(self.counts.sum(axis=0), 0.0) + shrink
        means = np.clip((self.counts[0] + shrink * arm) / held, 0.0, 1.0)
        return np.asarray(means[codes[self.column]])


CENTRAL: dict[str, type[Central]] = {
    "best arm": BestArm,
    "ridge": SharedRidge,
    "adassp": AdaSSP,
    "tree linucb": TreeLinUCB,
    "gradient descent": GradientDescent,
    "boosted": Boosted,
    "one column": OneColumn,
}
ONLINE_ALONE = ("tree linucb",)

FIRST: dict[str, Constants] = {
    "best arm": {"shrink": 10.0, "explore": 0.03, "again": True},
    "ridge": {"design": "squares", "bound": 0.7, "ratio": 1.0, "ridge": 0.3, "explore": 0.3},
    "adassp": {"design": "squares", "bound": 0.7, "scale": 0.5, "explore": 0.3},
    "tree linucb": {"design": "squares", "bound": 0.7, "ridge": 0.3, "ucb": 0.1, "batches": 16},
    "gradient descent": {
        "design": "squares",
        "bound": 0.7,
        "steps": 20,
        "clip": 1.0,
        "rate": 1.0,
        "explore": 0.15,
        "again": True,
    },
    "boosted": {
        "fine": 32,
        "bins": 10,
        "counts": 0.2,
        "rounds": 8,
        "leaves": 4,
        "rate": 0.3,
        "clip": 0.7,
        "shrink": 1.0,
        "explore": 0.3,
        "again": False,
    },
    "one column": {"bins": 8, "choice": 0.3, "shrink": 2.0, "explore": 0.15, "again": True},
    "local best arm": {"explore": 0.1},
    "local column": {"bins": 6, "choice": 0.2, "learning": 0.3, "shrink": 1.0},
    "local ridge": {"gram": 0.3, "explore": 0.4, "ridge": 0.5},
    "local descent": {"explore": 0.4, "batches": 20, "rate": 0.5},
}
"""Constants where none were chosen, and where the search for them begins."""

_LINEAR = {"design": ("linear", "squares", "bins", "products"), "bound": (0.35, 0.5, 0.7, 1.0)}
_EXPLORED = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "best arm": {
        "shrink": (0.0, 10.0, 100.0),
        "explore": (0.005, 0.01, *_EXPLORED[:6]),
        "again": (True, False),
    },
    "ridge": {
        **_LINEAR,
        "ratio": (0.25, 0.5, 1.0, 1.5, 2.0),
        "ridge": (0.03, 0.1, 0.3, 1.0, 3.0),
        "explore": _EXPLORED,
    },
    "adassp": {**_LINEAR, "scale": (0.05, 0.1, 0.2, 0.5, 1.0), "explore": _EXPLORED},
    "tree linucb": {
        **_LINEAR,
        "ridge": (0.03, 0.1, 0.3, 1.0, 3.0),
        "ucb": (0.0, 0.03, 0.1, 0.3, 1.0),
        "batches": (4, 8, 16, 32),
    },
    "gradient descent": {
        **_LINEAR,
        "steps": (5, 10, 20, 40),
        "clip": (0.5, 1.0, 1.5),
        "rate": (0.1, 0.3, 1.0, 2.0, 3.0),
        "explore": _EXPLORED,
        "again": (True, False),
    },
    "boosted": {
        "fine": (16, 32, 64),
        "bins": (5, 7, 10, 14, 20),
        "counts": (0.05, 0.1, 0.2, 0.35),
        "rounds": (2, 4, 8, 16),
        "leaves": (2, 3, 4, 6, 10),
        "rate": (0.1, 0.2, 0.3, 0.6, 1.0),
        "clip": (0.5, 0.7, 1.0),
        "shrink": (0.1, 0.3, 1.0, 3.0),
        "explore": _EXPLORED,
        "again": (True, False),
    },
    "one column": {
        "bins": (4, 6, 8, 12, 16, 24),
        "choice": (0.1, 0.2, 0.3, 0.5),
        "shrink": (0.3, 1.0, 2.0, 6.0),
        "explore": _EXPLORED,
        "again": (True, False),
    },
    "local best arm": {"explore": (0.02, 0.05, 0.1, 0.2, 0.3)},
    "local column": {
        "bins": (2, 3, 4, 6, 8, 12),
        "choice": (0.05, 0.1, 0.2, 0.3, 0.5),
        "learning": (0.1, 0.2, 0.3, 0.4, 0.5),
        "shrink": (0.0, 0.3, 1.0, 3.0),
    },
    "local ridge": {
        "gram": (0.05, 0.15, 0.3, 0.5),
        "explore": (0.1, 0.2, 0.3, 0.4, 0.6),
        "ridge": (0.05, 0.15, 0.5, 1.5, 5.0),
    },
    "local descent": {
        "explore": (0.1, 0.2, 0.3, 0.4, 0.6),
        "batches": (5, 10, 20, 40),
        "rate": (0.05, 0.15, 0.5, 1.5),
    },
}
"""Values among which `reproduction.tuning.panel_baselines` chooses."""


@lru_cache(maxsize=1)
def chosen() -> dict[str, Constants]:
    """Constants that were chosen, by `key_of`."""
    return json.loads(CHOSEN.read_text())["chosen"] if CHOSEN.exists() else {}


def key_of(setting: str, way: str, epsilon: float) -> str:
    return f"{setting}/{way}/{epsilon:g}"


def constants_of(setting: str, way: str, epsilon: float) -> Constants:
    """Chosen constants, or the first ones."""
    return chosen().get(key_of(setting, way, epsilon), FIRST[way])


def best(scores: Array, coins: np.random.Generator) -> Array:
    """(n,) arms of the highest scores, of equal ones any."""
    return np.asarray((scores + 1e-9 * coins.random(scores.shape)).argmax(axis=1))


def edges_of(people: int, first: int) -> list[int]:
    """Ends of blocks that double."""
    edges = [0]
    while edges[-1] < people:
        edges.append(min(people, max(first, 2 * edges[-1])))
        if people - edges[-1] < edges[-1] // 2:
            edges[-1] = people
    return edges


def online(
    way: str,
    contexts: Array,
    rewards: Array,
    categories: Sequence[int],
    epsilon: float,
    seed: int,
    **own: Any,
) -> float:
    """Mean reward of everyone, in the order in which they come.

    The first block has uniform arms, every later one the best by what was released before. Baselines that
    need uniform arms learn from the first block alone.
    """
    constants = constants_of("online", way, epsilon) | own
    n, arms = rewards.shape
    rng, coins = np.random.default_rng([seed, 31]), np.random.default_rng([seed, 32])
    learner = CENTRAL[way](Setup(tuple(categories), arms, epsilon, n), constants, rng)
    if way in ONLINE_ALONE:
        edges = np.linspace(0, n, constants["batches"] + 1).astype(int).tolist()
    else:
        edges = edges_of(n, max(arms, round(constants["explore"] * n)))
    chosen_arms = np.empty(n, dtype=int)
    for block, (start, stop) in enumerate(pairwise(edges)):
        here = contexts[start:stop]
        uniform = block == 0
        given = coins.integers(0, arms, stop - start) if uniform else best(learner.scores(here), coins)
        chosen_arms[start:stop] = given
        if stop < n and (uniform or learner.again):
            paid = rewards[np.arange(start, stop), given].astype(float)
            learner.learn(here, given, paid, uniform=uniform)
    return float(rewards[np.arange(n), chosen_arms].mean())


def from_log(
    way: str,
    log: tuple[Array, Array, Array],
    new: tuple[Array, Array],
    categories: Sequence[int],
    epsilon: float,
    seed: int,
    **own: Any,
) -> float:
    """Mean reward of new people, by what one release of a log of contexts, arms and rewards says."""
    contexts, arms, rewards = log
    setup = Setup(tuple(categories), new[1].shape[1], epsilon, len(contexts))
    constants = constants_of("learn", way, epsilon) | own
    learner = CENTRAL[way](setup, constants, np.random.default_rng([seed, 31]))
    learner.learn(contexts, arms, rewards, uniform=True)
    given = best(learner.scores(new[0]), np.random.default_rng([seed, 32]))
    return float(new[1][np.arange(len(given)), given].mean())


# -- local ----------------------------------------------------------------------------------------


def flipped(bits: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Randomised response: each bit is told truly with chance e^epsilon/(1 + e^epsilon)."""
    keep = rng.random(bits.shape) < 1.0 / (1.0 + np.exp(-epsilon))
    return np.where(keep, bits, ~bits)


def randomised(symbols: Array, size: int, epsilon: float, rng: np.random.Generator) -> Array:
    """k-ary randomised response: the own symbol with chance e^epsilon/(e^epsilon + k - 1), else any other."""
    keep = rng.random(symbols.shape) < np.exp(epsilon) / (np.exp(epsilon) + size - 1.0)
    other = (symbols + 1 + rng.integers(0, size - 1, symbols.shape)) % size
    return np.where(keep, symbols, other)


def counted(reports: Array, size: int, epsilon: float) -> Array:
    """(size,) unbiased counts of symbols from k-ary reports."""
    false = 1.0 / (np.exp(epsilon) + size - 1.0)
    true = np.exp(epsilon) * false
    return np.asarray((np.bincount(reports, minlength=size) - len(reports) * false) / (true - false))


def local_best_arm(
    setup: Setup, contexts: Array, rewards: Array, c: Constants, rng: Any, coins: Any
) -> Array:
    """Arms (n,): the first people report whether a random arm paid, by randomised response; then the best.

    Privacy: a report is one bit of randomised response at epsilon about a public arm. (Rewards are 0 or 1.)
    """
    n, arms = rewards.shape
    first = round(c["explore"] * n)
    given = coins.integers(0, arms, n)
    paid = rewards[np.arange(first), given[:first]] > 0
    said = flipped(paid, setup.budget, rng)
    p = 1.0 / (1.0 + np.exp(-setup.budget))
    asked = np.bincount(given[:first], minlength=arms)
    means = np.bincount(given[:first], said, arms) / np.maximum(asked, 1)
    given[first:] = int(((means - (1.0 - p)) / (2.0 * p - 1.0)).argmax())
    return given


def local_column(setup: Setup, contexts: Array, rewards: Array, c: Constants, rng: Any, coins: Any) -> Array:
    """Arms (n,): a column is chosen from reports about all, then learned from reports about it alone.

    Privacy: everyone reports the pair (bin of a public column, whether a public arm paid) by k-ary randomised
    response at epsilon, once.
    """
    n, arms = rewards.shape
    codes, sizes = fine_bins(setup, contexts, c["bins"])
    sizes = [min(size, c["bins"]) for size in sizes]
    codes = [np.minimum(code, size - 1) for code, size in zip(codes, sizes, strict=True)]
    given, d = coins.integers(0, arms, n), len(codes)
    first = round(c["choice"] * n) if d > 1 else 0
    last = first + round(c["learning"] * n)
    asked = coins.integers(0, d, first)
    paid = rewards[np.arange(n), given] > 0

    def table(column: int, rows: Array) -> Array:
        """(2, bins, K) estimated people without and with a reward."""
        size = 2 * sizes[column]
        found = np.empty((size, arms))
        for arm in range(arms):
            own = rows[given[rows] == arm]
            symbols = 2 * codes[column][own] + paid[own]
            found[:, arm] = counted(randomised(symbols, size, setup.budget, rng), size, setup.budget)
        return found.reshape(sizes[column], 2, arms).transpose(1, 0, 2)

    tables = [table(column, np.flatnonzero(asked == column)) for column in range(d)] if first else []
    scores = []
    for own, size in zip(tables, sizes, strict=True) if tables else ():
        e = np.exp(setup.budget)
        sd = np.sqrt(own.sum(axis=(0, 1)).mean() * (e + 2 * size - 2.0)) / (e - 1.0)
        scores.append(_explained(own, float(sd)))
    column = int(np.argmax(scores)) if scores else 0
    total = table(column, np.arange(first, last)) + (tables[column] if tables else 0.0)
    e, size = np.exp(setup.budget), 2 * sizes[column]
    sd = np.sqrt(total.sum(axis=(0, 1)).mean() * (e + size - 2.0)) / (e - 1.0)
    shrink = c["shrink"] * sd
    arm_means = total[1].sum(axis=0) / np.maximum(total.sum(axis=(0, 1)), 1.0)
    means = (total[1] + shrink * arm_means) / (np.maximum(total.sum(axis=0), 1.0) + shrink)
    given[last:] = best(means[codes[column][last:]], coins)
    return given


def _explained(table: Array, sd: float) -> float:
    """As `OneColumn.explained`, of failures and successes (2, bins, K)."""
    people = np.maximum(table.sum(axis=0), 1.0)
    arm = np.clip(table[1].sum(axis=0) / np.maximum(table.sum(axis=(0, 1)), 1.0), 0.0, 1.0)
    gap = table[1] * (1.0 - arm) - table[0] * arm
    noise = sd**2 * ((1.0 - arm) ** 2 + arm**2) + people * arm * (1.0 - arm)
    return float(((gap**2 - noise) / (people + 2.0 * sd + 10.0)).sum())


def _linear(setup: Setup, contexts: Array) -> Array:
    """Rows (n, m) with entries in [-1, 1]."""
    own = [np.ones((len(contexts), 1))]
    for column, count in enumerate(setup.categories):
        values = contexts[:, column]
        own.append((values[:, None] == np.arange(count)) * 1.0 if count else 2.0 * values[:, None] - 1.0)
    return np.hstack(own)


def local_ridge(setup: Setup, contexts: Array, rewards: Array, c: Constants, rng: Any, coins: Any) -> Array:
    """Arms (n,): least squares from one coordinate a person.

    A public coin asks for an entry phi_i phi_j of the Gram matrix, or for an entry z phi_i of the vector of a
    public arm. Privacy: it lies in [-1, 1] and is rounded at random to -1 or 1, which is told by randomised
    response at epsilon. Everyone reports once.
    """
    n, arms = rewards.shape
    phi = _linear(setup, contexts)
    m, given = phi.shape[1], coins.integers(0, arms, n)
    stop = round(c["explore"] * n)
    gram_asked = coins.random(stop) < c["gram"]
    one, two = coins.integers(0, m, (2, stop))
    rows = np.arange(stop)
    z = 2.0 * rewards[rows, given[:stop]] - 1.0
    value = np.where(gram_asked, phi[rows, one] * phi[rows, two], z * phi[rows, one])
    bits = rng.random(stop) < (1.0 + value) / 2.0
    scale = (np.exp(setup.budget) + 1.0) / (np.exp(setup.budget) - 1.0)
    said = scale * (2.0 * flipped(bits, setup.budget, rng) - 1.0)
    gram, vectors = np.zeros((m, m)), np.zeros((m, arms))
    np.add.at(gram, (one[gram_asked], two[gram_asked]), said[gram_asked])
    asked = ~gram_asked
    np.add.at(vectors, (one[asked], given[:stop][asked]), said[asked])
    gram *= m * m / max(1, gram_asked.sum())
    vectors *= m * arms / max(1, asked.sum())
    noise = scale * m / np.sqrt(max(1, gram_asked.sum())) * np.sqrt(m)
    values, axes = np.linalg.eigh((gram + gram.T) / 2.0)
    weights = axes @ ((axes.T @ vectors) / (np.maximum(values, 0.0) + 0.05 + c["ridge"] * noise)[:, None])
    given[stop:] = best(phi[stop:] @ weights, coins)
    return given


def in_ball(vectors: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Unbiased epsilon-private reports (n, m) of vectors, shortened to norm 1.

    This is the mechanism of Duchi, Jordan and Wainwright (2018) for the Euclidean ball. A vector is randomly
    rounded to the sphere, and a uniform vector of its half-sphere is sent. With probability 1/(1 + e^epsilon)
    it is a uniform vector of the other half-sphere. Both half-spheres have the same area, so the density of a
    report changes by a factor of at most e^epsilon between any two inputs.
    """
    n, m = vectors.shape
    norm = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.maximum(norm, 1e-12)[:, None]
    unit = np.where((rng.random(n) < 0.5 + np.minimum(norm, 1.0) / 2.0)[:, None], unit, -unit)
    sent = rng.normal(size=(n, m))
    sent /= np.linalg.norm(sent, axis=1)[:, None]
    odds = np.exp(epsilon)
    towards = rng.random(n) < odds / (1.0 + odds)
    agrees = (sent * unit).sum(axis=1) > 0.0
    size = (odds + 1.0) / (odds - 1.0) * np.sqrt(np.pi) * np.exp(lgamma((m + 1) / 2) - lgamma(m / 2))
    return size * np.where((agrees == towards)[:, None], sent, -sent)


def local_descent(setup: Setup, contexts: Array, rewards: Array, c: Constants, rng: Any, coins: Any) -> Array:
    """Arms (n,): stochastic gradient descent on linear functions of arms, a noisy gradient a person.

    Privacy: the gradient (f - z) phi of a public arm is one report of `in_ball`; f is of the weights that
    were published before.
    """
    n, arms = rewards.shape
    phi = features(setup, contexts, "linear", 1.0)
    m, given = phi.shape[1], coins.integers(0, arms, n)
    stop = round(c["explore"] * n)
    weights, average = np.zeros((m, arms)), np.zeros((m, arms))
    edges = np.linspace(0, stop, c["batches"] + 1).astype(int)
    for step, (low, high) in enumerate(pairwise(edges)):
        own, arm = phi[low:high], given[low:high]
        z = 2.0 * rewards[np.arange(low, high), arm] - 1.0
        gradient = ((own * weights.T[arm]).sum(axis=1) - z)[:, None] * own
        sent = in_ball(gradient, setup.budget, rng)
        total = sent.T @ (arm[:, None] == np.arange(arms)) * arms / max(1, high - low)
        weights = weights - c["rate"] / np.sqrt(step + 1.0) * total
        average = average + weights
    given[stop:] = best(phi[stop:] @ average, coins)
    return given


Chooser = Callable[[Setup, Array, Array, Constants, Any, Any], Array]
LOCAL: dict[str, Chooser] = {
    "local best arm": local_best_arm,
    "local column": local_column,
    "local ridge": local_ridge,
    "local descent": local_descent,
}


def local(
    way: str,
    contexts: Array,
    rewards: Array,
    categories: Sequence[int],
    epsilon: float,
    seed: int,
    **own: Any,
) -> float:
    """Mean reward of everyone, those who explore included."""
    constants = constants_of("local", way, epsilon) | own
    setup = Setup(tuple(categories), rewards.shape[1], epsilon, len(contexts))
    rng, coins = np.random.default_rng([seed, 41]), np.random.default_rng([seed, 42])
    given = LOCAL[way](setup, contexts, rewards, constants, rng, coins)
    return float(rewards[np.arange(len(given)), given].mean())


# -- ceilings -------------------------------------------------------------------------------------


class OpenRidge(Central):
    """Ridge without privacy: an own Gram matrix for every arm, products where they are few."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.design = safe_design(self.setup, "products", 400)
        self.sums: tuple[Array, Array] | None = None

    def rows(self, contexts: Array) -> Array:
        return features(self.setup, contexts, self.design, 0.7)

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        phi = self.rows(contexts)
        m = phi.shape[1]
        grams, vectors = self.sums or (np.zeros((self.setup.arms, m, m)), np.zeros((self.setup.arms, m)))
        for arm in range(self.setup.arms):
            own = phi[arms == arm]
            grams[arm] += own.T @ own
            vectors[arm] += own.T @ (2.0 * rewards[arms == arm] - 1.0)
        self.sums = grams, vectors
        self.weights = np.linalg.solve(grams + 0.2 * np.eye(m), vectors[:, :, None])[:, :, 0]

    def scores(self, contexts: Array) -> Array:
        return np.asarray(self.rows(contexts) @ self.weights.T)


class OpenTrees(Central):
    """Gradient boosted trees without privacy, of every arm, from all people so far."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[tuple[Array, Array, Array]] = []

    def learn(self, contexts: Array, arms: Array, rewards: Array, *, uniform: bool) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.seen.append((contexts, arms, rewards))
        all_contexts, all_arms, all_rewards = (np.concatenate(part) for part in zip(*self.seen, strict=True))
        self.models = []
        for arm in range(self.setup.arms):
            own = all_arms == arm
            model = HistGradientBoostingRegressor(
                max_leaf_nodes=8, max_iter=50, learning_rate=0.1, min_samples_leaf=20, random_state=0
            )
            self.models.append(model.fit(all_contexts[own], all_rewards[own]) if own.sum() > 40 else None)

    def scores(self, contexts: Array) -> Array:
        found = [
            np.zeros(len(contexts)) if model is None else model.predict(contexts) for model in self.models
        ]
        return np.column_stack(found)


CENTRAL_OPEN: dict[str, type[Central]] = {"open ridge": OpenRidge, "open trees": OpenTrees}


def open_online(way: str, contexts: Array, rewards: Array, categories: Sequence[int], seed: int) -> float:
    """As `online`, without privacy: a first block of a fiftieth, then blocks that double."""
    n, arms = rewards.shape
    coins = np.random.default_rng([seed, 32])
    learner = CENTRAL_OPEN[way](
        Setup(tuple(categories), arms, None, n), {}, np.random.default_rng([seed, 31])
    )
    edges, reward = edges_of(n, max(60 * arms, n // 50)), 0.0
    for start, stop in pairwise(edges):
        here, size = contexts[start:stop], stop - start
        given = best(learner.scores(here), coins) if start else coins.integers(0, arms, size)
        paid = rewards[np.arange(start, stop), given].astype(float)
        reward += float(paid.sum())
        if stop < n:
            learner.learn(here, given, paid, uniform=start == 0)
    return reward / n


def open_from_log(
    way: str,
    log: tuple[Array, Array, Array],
    new: tuple[Array, Array],
    categories: Sequence[int],
    seed: int,
) -> float:
    """As `from_log`, without privacy."""
    setup = Setup(tuple(categories), new[1].shape[1], None, len(log[0]))
    learner = CENTRAL_OPEN[way](setup, {}, np.random.default_rng([seed, 31]))
    learner.learn(*log, uniform=True)
    given = best(learner.scores(new[0]), np.random.default_rng([seed, 32]))
    return float(new[1][np.arange(len(given)), given].mean())
