"""Base of the server's learners: they see noisy sums, never a report and never a person.

A learner of bins owns a partition and, version by version, publishes an arm or weights over arms in every
leaf. After a version's reports have been summed it is told the two unbiased sums of every cell (see
`dpbandits.privacy.reports`) and how noisy they are, drops arms and splits leaves.

`BinLearner` turns reports of several classes of epsilon into those sums, and publishes. `PosteriorLearner`
draws arms by tempered Thompson sampling and splits the leaves whose rivals are known well enough; its rules
give `posterior()` and `split()`. Learners that drop arms are in `elimination`.

Privacy: post-processing of reports, each private under its own class's epsilon.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits._checks import integer
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.reports import PublishedT
from dpbandits.local.contract.spec import MOST_ARMS, Spec
from dpbandits.models.forgetting import counting
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import bin_masses, probability_best
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.reports import Moments, ReportMechanism

__all__ = [
    "BinLearner",
    "Counted",
    "Estimates",
    "Learner",
    "NodeData",
    "PosteriorLearner",
    "VersionSums",
    "child_spread",
    "class_weights",
    "combined_estimate",
    "grouped_estimate",
    "grown",
    "raised_variance",
]

Estimates = tuple[FloatArray, FloatArray, int, Moments]
"""(cells,) signed sums, (cells,) counts, the number of reports, and the moments per report."""

Parts = Sequence[tuple[Any, IntArray, int]]
"""Mechanism, integer sums and number of reports of every class that has any."""

Counted = Sequence[Parts]
"""One a group of reports: a server without groups has one."""


class Learner(Protocol[PublishedT]):
    """Protocol of the learner that a spec names, as a `Server` uses it."""

    def publish(self, spec: Any, version: int, coins: PublicCoins) -> PublishedT:
        """Return what everybody is told from now on; a version is published once."""

    def count(self, spec: Any, published: PublishedT, counted: Counted) -> None:
        """Take in reports that answered this."""

    def refine(self) -> None:
        """Think again, before the next version."""

    def follow(self, published: PublishedT) -> None:
        """Think again, and come to what was published.

        Whoever replays what a server was told learns by this, and not by `refine` and `publish`: a number
        that comes out otherwise in its last bits on another processor could decide otherwise.
        """

    def estimate(self, spec: Any, published: PublishedT) -> PublishedT:
        """See `Server.estimate`; `published` is the version that it came to last."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that it knows, but for what follows from the spec."""

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Put back into a fresh learner what `to_arrays` gave."""


@dataclass(frozen=True, kw_only=True)
class VersionSums:
    """The estimates from the reports of one published version.

    With server-assigned arms a cell is a leaf and `arms` says which arm it pulled; with arms chosen
    by users a cell is a (leaf, arm) pair, in row-major order, and `weights` are the published ones.

    Attributes:
        leaves: (L,) nodes that were leaves of that version.
        arms: (L,) assigned arms, or None.
        weights: (L, K) published arm probabilities, or None.
        signed: (L,) or (L, K) unbiased sums of 1[cell] (2 reward - 1).
        count: (L,) or (L, K) unbiased sums of 1[cell].
        n: number of reports.
        moments: of the mechanism that made them.
    """

    leaves: IntArray
    arms: IntArray | None
    weights: FloatArray | None
    signed: FloatArray
    count: FloatArray
    n: int
    moments: Moments

    @classmethod
    def of(cls, published: PublishedArms, leaves: IntArray, estimate: Estimates) -> Self:
        """Return the sums of the reports that answered `published`, of bins `leaves` (L,)."""
        arms, weights = published.arms, published.weights
        signed, count, n, moments = estimate
        shape = (len(leaves),) if weights is None else weights.shape
        sums = {"signed": signed.reshape(shape), "count": count.reshape(shape)}
        return cls(leaves=leaves, arms=arms, weights=weights, n=n, moments=moments, **sums)

    @property
    def at(self) -> Any:
        """Where, in an array over nodes and arms, the sums belong."""
        return self.leaves if self.arms is None else (self.leaves, self.arms)

    def shares(self, mass: FloatArray) -> FloatArray:
        """(L,) or (L, K) expected shares of the cells, the leaves having `mass` (L,)."""
        return mass if self.weights is None else mass[:, None] * self.weights

    def people(self, mass: FloatArray) -> FloatArray:
        """(L, 3) unbiased count of a leaf's people, its variance, and reports."""
        count, spread = self.count, self.moments.count_variance(self.shares(mass))
        if self.weights is not None:
            count, spread = count.sum(axis=1), spread.sum(axis=1)
        people = np.empty((len(mass), 3))
        people[:, 0], people[:, 1], people[:, 2] = count, self.n * spread, self.n
        return people


# -- several classes of epsilon become one ----------------------------------------------------------


def class_weights(mechanisms: Sequence[ReportMechanism], reports: Sequence[int]) -> FloatArray:
    """(C,) weights of classes, proportional to 1/variance of a signed estimate, with mean 1 over reports.

    Args:
        mechanisms: one a class, over the same cells.
        reports: (C,) accepted reports of each.

    Example:
        >>> from dpbandits.privacy.reports import SignedTernary
        >>> weak, strong = (SignedTernary(n_cells=4, epsilon=e) for e in (0.5, 2.0))
        >>> class_weights([weak, strong], [100, 100]).round(2)
        array([0.15, 1.85])
    """
    n = np.asarray(reports, dtype=np.float64)
    precision = np.array(
        [1.0 / float(one.moments.signed_variance(np.array(1.0 / one.n_cells))) for one in mechanisms]
    )
    if n.sum() <= 0.0:
        raise InvalidParameter("reports: expected at least one")
    return np.asarray(n.sum() * precision / (n * precision).sum())


def combined_estimate(parts: Parts) -> Estimates:
    """Signed sums and counts of all classes (`Parts`) together, as if one mechanism had made them.

    A user's class is one of the spec's public `epsilons`; it travels in the open, and the report keeps that
    class's epsilon. Each class is added up by itself, and the unbiased estimates are combined with weights
    proportional to 1/variance, which depend on public numbers only: epsilon, the number of cells, and how
    many reports of each class were accepted.

    **What must hold.** Class and (context, reward) are independent. Whoever chooses epsilon by looking at the
    own context or reward tells the server about it, which no mechanism can hide, and bends the estimates:
    bins whose people choose large epsilons seem to hold more people than they do, and an arm whose lucky
    people choose large epsilons seems better than it is.

    The moments bound the variance from above where a cell's count varies with who came.
    """
    if len(parts) == 1:
        mechanism, sums, n = parts[0]
        signed, count = mechanism.estimate(sums, n)
        return signed, count, n, mechanism.moments
    numbers = [n for _, _, n in parts]
    weights, total = class_weights([mechanism for mechanism, _, _ in parts], numbers), sum(numbers)
    weighted = [
        weight * np.stack(mechanism.estimate(sums, n))
        for weight, (mechanism, sums, n) in zip(weights, parts, strict=True)
    ]
    signed, count = sum(weighted)
    squares = [weight**2 * n / total for weight, n in zip(weights.tolist(), numbers, strict=True)]
    moments = _mixed([one.moments for one, _, _ in parts], squares, sum(squares))
    return signed, count, total, moments


def _mixed(moments: Sequence[Moments], weights: Sequence[float], squared: float) -> Moments:
    """Weighted sums of moments, where a report's weight squared is `squared` on average.

    Who falls into a cell varies by share (1 - share) a report, times that.
    """
    names = [one.name for one in fields(Moments)]
    mixed = {name: float(np.dot(weights, [getattr(one, name) for one in moments])) for name in names}
    mixed["count_own"] += squared - 1.0
    return Moments(**mixed)


# -- what forged reports can do ----------------------------------------------------------------------

# n Var(median of n standard normals), n odd from 1: what a median over groups costs in variance.
_MEDIAN_COST = (1.0, 1.3461, 1.4342, 1.4730, 1.4949, 1.5089, 1.5187, 1.5259)


def grouped_estimate(counted: Counted) -> Estimates:
    """Signed sums and counts of all groups: the median over groups of the mean of a report, times reports.

    Forged reports in fewer than half of the groups move it no farther than the others' noise does; its
    variance is up to `_MEDIAN_COST` times the sum's, which the moments say. See `local.server.robust`.
    """
    if len(counted) == 1:
        return combined_estimate(counted[0])
    found = [combined_estimate(parts) for parts in counted]
    reports = np.array([n for _, _, n, _ in found])
    total = int(reports.sum())
    means = [np.stack([signed, count]) / n for signed, count, n, _ in found]
    signed, count = total * np.median(means, axis=0)
    cost = _MEDIAN_COST[len(counted) // 2]
    moments = _mixed([moments for *_, moments in found], (cost * reports / total).tolist(), cost)
    return signed, count, total, moments


def raised_variance(
    noise: FloatArray, *, belief: FloatArray, error: FloatArray, surprise: float
) -> FloatArray:
    """The noise's variance, raised until what was seen lies at most `surprise` deviations off the belief.

    So a Gaussian update moves a belief by at most `surprise` of its deviations, however many reports say so.
    `noise` is the variance of what was seen, `belief` that of what was believed, `error` their difference.
    """
    return np.asarray(np.maximum(noise, (error / surprise) ** 2 - belief))


# -- learners of bins -------------------------------------------------------------------------------


class BinLearner(ABC):
    """A partition, what reports said of its nodes, and what follows for arms and bins.

    Args:
        partition: the partition to grow; a fresh one.
        n_arms: number of arms.
        constants: of the rule, by default `Constants()`.
        max_leaves: no split beyond this many leaves: bounds the server's memory and a report's size.

    Raises:
        InvalidParameter: an argument is outside what it may be.
    """

    Constants: ClassVar[type[Any]]
    kept: ClassVar[tuple[str, ...]]
    """Attributes that `to_arrays` keeps: arrays, numbers, and objects whose attributes are all arrays."""

    def __init__(
        self, *, partition: DyadicPartition, n_arms: int, constants: Any = None, max_leaves: int = 4096
    ) -> None:
        if not isinstance(partition, DyadicPartition):
            raise InvalidParameter(f"partition: expected a DyadicPartition, got {type(partition).__name__}")
        if integer(n_arms, name="n_arms") > MOST_ARMS:
            raise InvalidParameter(f"n_arms: expected at most {MOST_ARMS}")
        self.partition, self.n_arms = partition, n_arms
        self.constants = self.Constants() if constants is None else constants
        self.max_leaves = integer(max_leaves, name="max_leaves")
        self._begin()

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """A fresh learner for the spec; TypeError where its constants are not those of the rule."""
        constants = cls._constants_of(spec)
        partition, leaves = spec.protocol.bins.partition(), spec.tuning.max_leaves
        return cls(partition=partition, n_arms=spec.n_arms, max_leaves=leaves, constants=constants)

    @classmethod
    def _constants_of(cls, spec: Spec) -> Any:
        return cls.Constants(**spec.tuning.constants)

    def _begin(self) -> None:
        """Set up the state of the rule before anybody has reported."""

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedArms:
        """Arms drawn by the public coins of the version, or weights for the devices to draw from.

        A leaf's coins depend on (seed, version, node) only.
        """
        partition, splits = self.partition, tuple(self.partition.splits)
        if spec.chooser == "client":
            return PublishedArms(version=version, splits=splits, weights=self.weights())
        normals = coins.normal(f"arms/{version}", 0, partition.n_nodes, self.n_arms)[partition.leaves]
        return PublishedArms(version=version, splits=splits, arms=self.assign(normals))

    def count(self, spec: Spec, published: PublishedArms, counted: Counted) -> None:
        """Learn from counted reports that answered `published`."""
        leaves = spec.protocol.bins.of(published).leaves
        self.learn(VersionSums.of(published, leaves, grouped_estimate(counted)))

    @abstractmethod
    def weights(self) -> FloatArray:
        """(L, K) probabilities with which the leaves pull the arms, for arms chosen by users."""

    @abstractmethod
    def assign(self, normals: FloatArray) -> IntArray:
        """(L,) one arm a leaf, assigned by the server with public standard normals (L, K) of this version."""

    @abstractmethod
    def learn(self, sums: VersionSums) -> None:
        """Take in the sums of one version."""

    @abstractmethod
    def refine(self, splits: IntArray | None = None) -> None:
        """Eliminate arms and split leaves, where the rule says so, or these leaves."""

    def estimate(self, spec: Spec, published: PublishedArms) -> PublishedArms:
        """See `Server.estimate`: rules that drop arms have bounds, and no law of rewards."""
        raise ProtocolError(
            f"estimate: the learner {spec.learner!r} keeps no law of the rewards: build the Spec with "
            "learner='smooth' or learner='tree'"
        )

    def follow(self, published: PublishedArms) -> None:
        """See `Learner.follow`: the bins become those that were published."""
        done, wanted = len(self.partition.splits), list(published.splits)
        if wanted[:done] != self.partition.splits:
            raise IncompatibleState("what was published has other bins than its server came to")
        # At least once: a rule may drop arms and split nothing.
        while True:
            ready = done
            while ready < len(wanted) and wanted[ready] < self.partition.n_nodes:
                ready += 1
            self.refine(np.array(wanted[done:ready], dtype=np.int64))
            if ready in (done, len(wanted)):
                break
            done = ready

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """See `Learner.to_arrays`."""
        arrays: dict[str, NDArray[Any]] = {"splits": np.array(self.partition.splits, dtype=np.int64)}
        for name in self.kept:
            value = getattr(self, name)
            if isinstance(value, np.ndarray | int):
                arrays[name] = np.asarray(value)
            else:
                arrays |= {f"{name}.{part}": array for part, array in vars(value).items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `Learner.restore`."""
        mine = self.partition
        self.partition = DyadicPartition(
            dim=mine.dim, tie=mine.tie, seed=mine.seed, splits=arrays["splits"].tolist()
        )
        for name in self.kept:
            value = getattr(self, name)
            if isinstance(value, np.ndarray | int):
                setattr(self, name, _like(value, arrays[name]))
            else:
                parts = {part: _like(one, arrays[f"{name}.{part}"]) for part, one in vars(value).items()}
                vars(value).update(parts)


class NodeData:
    """Sums of the reports about nodes while they were leaves.

    Attributes:
        information: (n_nodes, K) sum of n pi^2/v over versions; see `models.trees.posterior.arm_posterior`.
        evidence: (n_nodes, K) sum of pi D/v.
        count: (n_nodes, 3) unbiased count, its variance, reports.
    """

    def __init__(self, n_nodes: int, n_arms: int) -> None:
        self.information, self.evidence = np.zeros((n_nodes, n_arms)), np.zeros((n_nodes, n_arms))
        self.count = np.zeros((n_nodes, 3))

    def add(self, sums: VersionSums, mass: FloatArray, variance: FloatArray) -> None:
        """Add a version's sums; nodes split since only inform the masses.

        `mass` is that of its leaves, `variance` that of its signed sums per report.
        """
        weights = np.float64(1.0) if sums.weights is None else sums.weights
        self.information[sums.at] += sums.n * weights**2 / variance
        self.evidence[sums.at] += weights * sums.signed / variance
        self.count[sums.leaves] += sums.people(mass)

    def fade(self, kept: float) -> None:
        """Let all that reports said count for the share `kept`, in (0, 1]."""
        if kept < 1.0:
            for one in (self.information, self.evidence, self.count):
                one *= kept

    def masses(self, partition: DyadicPartition) -> FloatArray:
        """(n_nodes,) estimated probability of every node."""
        count, variance, reports = self.count.T
        return bin_masses(partition, count=count, variance=variance, reports=reports)

    def told(
        self, mass: FloatArray, nodes: "IntArray | slice" = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Precision and moment (about zero) of what reports said of nodes, (n, K) each; `mass` (n_nodes,).

        A signed sum of n reports has mean n pi p (2 f - 1): with information and evidence summed,
        precision 4 p^2 information and moment 2 p (evidence + p information).
        """
        information, share = self.information[nodes], mass[nodes, None]
        return 4.0 * share**2 * information, 2.0 * share * (self.evidence[nodes] + share * information)

    def grow(self, n_nodes: int) -> None:
        """Make room for new nodes."""
        self.information, self.evidence = grown(self.information, n_nodes), grown(self.evidence, n_nodes)
        self.count = grown(self.count, n_nodes)


class PosteriorLearner(BinLearner):
    """A Gaussian posterior of every leaf's arms, from which arms are drawn and leaves are split.

    A rule says in `Constants`: `temperature`, factor on the posterior variance when arms are drawn, divided
    by their number; `child_sd`, `rival`, `known` and `settled`, see `split_ready`.

    Attributes:
        masses: (n_nodes,) estimated probability of every node.
        reports: how many it has learned from.
    """

    kept: ClassVar[tuple[str, ...]] = ("_data", "masses", "reports", "_masses_at")
    refresh: ClassVar[float]
    """Masses and beliefs are computed anew when this share of reports has come in since."""
    _posterior: tuple[FloatArray, FloatArray] | None
    _ready: IntArray | None
    _half_life: float | None

    def _begin(self) -> None:
        nodes = self.partition.n_nodes
        self._temperature, self._surprise = self.constants.temperature / self.n_arms, math.inf
        self._data, self.masses = NodeData(nodes, self.n_arms), np.ones(nodes)
        self.reports, self._masses_at, self._half_life = 0, 0, None
        self._forget()

    def resist(self, surprise: float) -> None:
        """Expect forged reports, from here on; for `surprise` see `raised_variance`."""
        self._surprise = surprise

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means and variances of the leaves' arms, (L, K) each."""
        if self._posterior is None:
            self._posterior = self._believed()
        return self._posterior

    @abstractmethod
    def _believed(self) -> tuple[FloatArray, FloatArray]:
        """`posterior`, computed anew; whoever changes what it rests on calls `_forget`."""

    def _forget(self) -> None:
        """Drop what was computed from the beliefs, because they changed."""
        self._posterior = self._ready = None

    def estimate(self, spec: Spec, published: PublishedArms) -> PublishedArms:
        """See `Server.estimate`: the same in all of a bin."""
        bounds, (mean, variance) = spec.reward_range, self.posterior()
        return replace(published, mean=bounds.low + bounds.width * mean, sd=bounds.width * np.sqrt(variance))

    @abstractmethod
    def split(self, chosen: IntArray) -> None:
        """Replace these leaves by their children, and say what is believed of them."""

    def weights(self) -> FloatArray:
        """P(best) under the tempered posterior: the law of `assign`'s draws."""
        mean, variance = self.posterior()
        return probability_best(mean, self._temperature * variance)

    def assign(self, normals: FloatArray) -> IntArray:
        """Thompson draws from the tempered posterior."""
        mean, variance = self.posterior()
        return np.asarray((mean + np.sqrt(self._temperature * variance) * normals).argmax(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add a version's sums; those of leaves split since only inform the masses."""
        mass = self.masses[sums.leaves]
        self._data.add(sums, mass, self._variance(sums, mass))
        self.reports += sums.n
        if self.reports - self._masses_at > self.refresh * counting(self._masses_at, self._half_life):
            self._look_again()

    def refine(self, splits: IntArray | None = None) -> None:
        """Split the leaves whose rivals are known well enough, or these."""
        if splits is None:
            leaves = self.partition.leaves
            splits = leaves[self.split_ready()]
            splits = splits[self.partition.splittable(splits)][: self.max_leaves - len(leaves)]
        if len(splits):
            self.split(splits)

    def split_ready(self) -> IntArray:
        """Places, among the leaves, of those whose rivals are known well enough to split.

        With the children's spread child_sd 2^(-(s + 1)/dim) in a leaf of depth s: arms count as rivals above
        a probability `rival`/K of being best in the children; a rival is known when its deviation is at most
        `known` times the spread, the leader when it is at most the spread; nothing is split where one arm is
        best with at least probability `settled`.
        """
        if self._ready is None:
            self._ready = self._well_known()
        return self._ready

    def _well_known(self) -> IntArray:
        leaves, constants = self.partition.leaves, self.constants
        mean, variance = self.posterior()
        child_sd = child_spread(constants.child_sd, self.partition.depth[leaves], self.partition.dim)
        leading = np.take_along_axis(variance, mean.argmax(axis=1)[:, None], axis=1)[:, 0]
        # The leader is always a rival: a cheap first sieve.
        candidates = np.flatnonzero(leading <= child_sd**2)
        if not len(candidates):
            return candidates
        mean, variance, spread = mean[candidates], variance[candidates], child_sd[candidates, None]
        best = probability_best(mean, variance + spread**2)
        rivals: BoolArray = best > constants.rival / mean.shape[1]
        well = (~rivals | (variance <= (constants.known * spread) ** 2)).all(axis=1)
        return np.asarray(candidates[well & (best.max(axis=1) < constants.settled)])

    def _variance(self, sums: VersionSums, mass: FloatArray) -> FloatArray:
        """Per report of a version's signed sums, raised where they surprise more than `resist` allows."""
        variance = sums.moments.signed_variance(sums.shares(mass))
        if self._surprise == math.inf:
            return variance
        mean, spread = self.posterior()
        at = self.partition.rank[sums.leaves]  # -1 of leaves split since, whose sums only inform the masses
        place = at if sums.arms is None else (at, sums.arms)
        mean, spread = mean[place], spread[place]
        scale = 2.0 * sums.n * sums.shares(mass)
        told = {"belief": scale**2 * spread, "error": sums.signed - scale * (mean - 0.5)}
        return raised_variance(sums.n * variance, surprise=self._surprise, **told) / sums.n

    def _look_again(self) -> None:
        """Estimates the masses, and whatever rests on them, from all reports."""
        self.masses, self._masses_at = self._data.masses(self.partition), self.reports
        self._forget()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `Learner.restore`."""
        super().restore(arrays)
        self._forget()


def child_spread(scale: float, depth: IntArray, dim: int) -> FloatArray:
    """(n,) scale 2^(-(s + 1)/dim): how far a smooth reward moves inside a node of depth s."""
    return np.asarray(scale * 2.0 ** (-(depth + 1) / dim))


def _like(before: Any, array: NDArray[Any]) -> Any:
    """Return what was kept, if it has the kind of what is there now."""
    if isinstance(before, int):
        return int(array)
    if array.dtype != before.dtype or array.ndim != before.ndim:
        raise IncompatibleState("what was kept of a learner is another learner's")
    return array.copy()


def grown(array: FloatArray, n_nodes: int) -> FloatArray:
    """The array with rows of zeros for new nodes."""
    return np.concatenate([array, np.zeros((max(0, n_nodes - len(array)), *array.shape[1:]))])
