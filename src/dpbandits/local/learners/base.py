"""Base classes of the server's learners, which see noisy sums only.

A learner of bins owns a partition of the contexts, a tree of nodes whose leaves are the bins. For each
version it publishes an arm, or probabilities of arms, in every leaf. After a version's reports were summed
it receives the two unbiased sums of every cell (see `dpbandits.privacy.reports`) and their variances. It
then eliminates arms and splits leaves. In shapes, L is the number of leaves and K of arms.

`BinLearner` turns reports of several classes of epsilon into these sums, and publishes. `PosteriorLearner`
assigns arms by tempered Thompson sampling, and splits leaves whose rival arms are known precisely;
subclasses define `posterior()` and `split()`. Learners that eliminate arms are in `elimination`.

Privacy: post-processing of reports, each of which is private under the epsilon of its class.
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
"""Signed sums (cells,), counts (cells,), number of reports, and moments of one report."""

Parts = Sequence[tuple[Any, IntArray, int]]
"""(mechanism, integer sums, number of reports) for each class of epsilon that has reports."""

Counted = Sequence[Parts]
"""`Parts` of each group of reports. A server without groups has one group."""


class Learner(Protocol[PublishedT]):
    """A learner of a spec, with the methods that `Server` calls."""

    def publish(self, spec: Any, version: int, coins: PublicCoins) -> PublishedT:
        """Return the next version. Each version number is published once."""

    def count(self, spec: Any, published: PublishedT, counted: Counted) -> None:
        """Add the sums of reports on the version `published`."""

    def refine(self) -> None:
        """Update the learner before the next version."""

    def follow(self, published: PublishedT) -> None:
        """Update the learner so that its current version is `published`, when a log is replayed.

        A replay calls this instead of `refine` and `publish`: on another processor, differences in the last
        bits could lead to other decisions.
        """

    def estimate(self, spec: Any, published: PublishedT) -> PublishedT:
        """Return `published`, the last version, with expected rewards; see `Server.estimate`."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the whole state as arrays, except what can be computed from the spec."""

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a fresh learner's state from the result of `to_arrays`."""


@dataclass(frozen=True, kw_only=True)
class VersionSums:
    """The estimates from the reports on one published version.

    If the server assigned the arms, a cell is a leaf, and `arms` holds each leaf's arm. If users chose
    them, a cell is a (leaf, arm) pair, in row-major order, and `weights` are the published probabilities.

    Attributes:
        leaves: Nodes that were the L leaves of that version, shape (L,).
        arms: Assigned arms (L,), or None.
        weights: Published probabilities of the K arms (L, K), or None.
        signed: Unbiased sums of 1[cell] (2 reward - 1), (L,) or (L, K).
        count: Unbiased sums of 1[cell], (L,) or (L, K).
        n: Number of reports.
        moments: Moments of the mechanism that made the reports.
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
        """Return the sums of the reports on `published`, whose bins are `leaves` (L,)."""
        arms, weights = published.arms, published.weights
        signed, count, n, moments = estimate
        shape = (len(leaves),) if weights is None else weights.shape
        sums = {"signed": signed.reshape(shape), "count": count.reshape(shape)}
        return cls(leaves=leaves, arms=arms, weights=weights, n=n, moments=moments, **sums)

    @property
    def at(self) -> Any:
        """Index of the sums in an array with axes for nodes and arms."""
        return self.leaves if self.arms is None else (self.leaves, self.arms)

    def shares(self, mass: FloatArray) -> FloatArray:
        """Return the expected shares of users in the cells, shape (L,) or (L, K).

        `mass` (L,) has the shares of users in the leaves.
        """
        return mass if self.weights is None else mass[:, None] * self.weights

    def people(self, mass: FloatArray) -> FloatArray:
        """Return unbiased count of users, its variance and number of reports for each leaf, (L, 3).

        `mass` (L,) is the share of users in each leaf.
        """
        count, spread = self.count, self.moments.count_variance(self.shares(mass))
        if self.weights is not None:
            count, spread = count.sum(axis=1), spread.sum(axis=1)
        people = np.empty((len(mass), 3))
        people[:, 0], people[:, 1], people[:, 2] = count, self.n * spread, self.n
        return people


# -- several classes of epsilon become one ----------------------------------------------------------


def class_weights(mechanisms: Sequence[ReportMechanism], reports: Sequence[int]) -> FloatArray:
    """Return the weights of C classes of epsilon, shape (C,).

    A weight is 1/variance of a signed estimate, scaled so that the mean over all reports is 1.

    Args:
        mechanisms: Mechanism of each class, over the same cells.
        reports: (C,) numbers of accepted reports.

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
    """Return signed sums and counts of all classes of epsilon, as if one mechanism made the reports.

    A user's class is one of the spec's public `epsilons`. A report states its class openly and has that
    class's epsilon. Each class is summed separately, and the unbiased estimates are combined with weights
    proportional to 1/variance. The weights depend on public numbers only: epsilon, the number of cells, and
    the number of accepted reports of each class.

    **Assumption.** Class and (context, reward) are independent. A user who chooses epsilon by context or
    reward reveals information that no mechanism can hide, and biases the estimates. Bins whose users
    choose large epsilons seem to hold more users than they do. An arm whose rewarded users choose large
    epsilons seems better than it is.

    The returned moments give upper bounds on the variance if a cell's number of users is random.
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
    """Return the moments of reports that have different weights, as weighted sums of the classes' moments.

    `squared` is the mean squared weight of a report. The number of users in a cell has variance share (1 -
    share) for each report, times `squared`.
    """
    names = [one.name for one in fields(Moments)]
    mixed = {name: float(np.dot(weights, [getattr(one, name) for one in moments])) for name in names}
    mixed["count_own"] += squared - 1.0
    return Moments(**mixed)


# -- forged reports ----------------------------------------------------------------------------------

# Variance of the median of n standard normals, times n, for n = 1, 3, 5, ...: the price of a median over
# groups.
_MEDIAN_COST = (1.0, 1.3461, 1.4342, 1.4730, 1.4949, 1.5089, 1.5187, 1.5259)


def grouped_estimate(counted: Counted) -> Estimates:
    """Return signed sums and counts from several groups of reports.

    They are the median over groups of the mean report, times the number of reports. Forged reports in fewer
    than half of the groups move the median no farther than the noise of the other groups does. The variance
    is up to `_MEDIAN_COST` times that of the sum, and the moments include this factor. See
    `local.server.robust`.
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
    """Return the variance of noise, raised until the error is at most `surprise` standard deviations.

    A Gaussian update then moves a belief by at most `surprise` of its standard deviations, for any number of
    reports. `noise` is the variance of the observation, `belief` the variance of the belief, and `error` the
    difference of observation and belief.
    """
    return np.asarray(np.maximum(noise, (error / surprise) ** 2 - belief))


# -- learners of bins -------------------------------------------------------------------------------


class BinLearner(ABC):
    """A learner with a partition, the evidence of its nodes, and a rule for arms and splits.

    Args:
        partition: Fresh partition, which the learner splits.
        n_arms: Number of arms.
        constants: Constants of the rule, by default `Constants()`.
        max_leaves: Largest number of leaves, which bounds the server's memory and the size of reports.

    Raises:
        InvalidParameter: an argument is out of range.
    """

    Constants: ClassVar[type[Any]]
    kept: ClassVar[tuple[str, ...]]
    """Names of attributes that `to_arrays` stores.

    Their values are arrays, numbers, or objects whose attributes are all arrays.
    """

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
        """Return a fresh learner for the spec. Raise TypeError if the spec has a constant of unknown name."""
        constants = cls._constants_of(spec)
        partition, leaves = spec.protocol.bins.partition(), spec.tuning.max_leaves
        return cls(partition=partition, n_arms=spec.n_arms, max_leaves=leaves, constants=constants)

    @classmethod
    def _constants_of(cls, spec: Spec) -> Any:
        return cls.Constants(**spec.tuning.constants)

    def _begin(self) -> None:
        """Set the state of the rule before any report."""

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedArms:
        """Return a version: arms drawn by its public coins, or probabilities if clients draw the arms.

        A leaf's coins depend on (seed, version, node) only.
        """
        partition, splits = self.partition, tuple(self.partition.splits)
        if spec.chooser == "client":
            return PublishedArms(version=version, splits=splits, weights=self.weights())
        normals = coins.normal(f"arms/{version}", 0, partition.n_nodes, self.n_arms)[partition.leaves]
        return PublishedArms(version=version, splits=splits, arms=self.assign(normals))

    def count(self, spec: Spec, published: PublishedArms, counted: Counted) -> None:
        """Learn from counted reports on the version `published`."""
        leaves = spec.protocol.bins.of(published).leaves
        self.learn(VersionSums.of(published, leaves, grouped_estimate(counted)))

    @abstractmethod
    def weights(self) -> FloatArray:
        """Return the probabilities of arms in the leaves, shape (L, K), for arms that users draw."""

    @abstractmethod
    def assign(self, normals: FloatArray) -> IntArray:
        """Return each leaf's arm, shape (L,), from the version's public standard normal numbers (L, K)."""

    @abstractmethod
    def learn(self, sums: VersionSums) -> None:
        """Add the sums of the reports on one version."""

    @abstractmethod
    def refine(self, splits: IntArray | None = None) -> None:
        """Eliminate arms and split leaves by the rule, or split only the leaves in `splits`."""

    def estimate(self, spec: Spec, published: PublishedArms) -> PublishedArms:
        """Raise ProtocolError: rules that eliminate arms have intervals, and no distribution of rewards."""
        raise ProtocolError(
            f"estimate: the learner {spec.learner!r} has no law of the rewards: build the Spec with "
            "learner='smooth' or learner='tree'"
        )

    def follow(self, published: PublishedArms) -> None:
        """Adopt the bins of a published version; see `Learner.follow`."""
        done, wanted = len(self.partition.splits), list(published.splits)
        if wanted[:done] != self.partition.splits:
            raise IncompatibleState("the published version has other bins than this server")
        # Refine at least once: a rule may eliminate arms without splitting a leaf.
        while True:
            ready = done
            while ready < len(wanted) and wanted[ready] < self.partition.n_nodes:
                ready += 1
            self.refine(np.array(wanted[done:ready], dtype=np.int64))
            if ready in (done, len(wanted)):
                break
            done = ready

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays; see `Learner.to_arrays`."""
        arrays: dict[str, NDArray[Any]] = {"splits": np.array(self.partition.splits, dtype=np.int64)}
        for name in self.kept:
            value = getattr(self, name)
            if isinstance(value, np.ndarray | int):
                arrays[name] = np.asarray(value)
            else:
                arrays |= {f"{name}.{part}": array for part, array in vars(value).items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
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
    """Sums of the reports on nodes, from versions in which the nodes were leaves.

    In a version, pi is the probability of an arm, n the number of reports, D the signed sum and v its
    variance per report.

    Attributes:
        information: Sum of n pi^2/v over versions, shape (n_nodes, K); see
            `models.trees.posterior.arm_posterior`.
        evidence: Sum of pi D/v over versions, shape (n_nodes, K).
        count: Unbiased count of users, its variance, and the number of reports, shape (n_nodes, 3).
    """

    def __init__(self, n_nodes: int, n_arms: int) -> None:
        self.information, self.evidence = np.zeros((n_nodes, n_arms)), np.zeros((n_nodes, n_arms))
        self.count = np.zeros((n_nodes, 3))

    def add(self, sums: VersionSums, mass: FloatArray, variance: FloatArray) -> None:
        """Add the sums of one version. For nodes that were split since then, they only affect the masses.

        `mass` (L,) has the shares of users in the version's leaves. `variance` has the variance of its
        signed sums per report.
        """
        weights = np.float64(1.0) if sums.weights is None else sums.weights
        self.information[sums.at] += sums.n * weights**2 / variance
        self.evidence[sums.at] += weights * sums.signed / variance
        self.count[sums.leaves] += sums.people(mass)

    def fade(self, kept: float) -> None:
        """Multiply all sums by the factor `kept`, in (0, 1]."""
        if kept < 1.0:
            for one in (self.information, self.evidence, self.count):
                one *= kept

    def masses(self, partition: DyadicPartition) -> FloatArray:
        """Return the estimated probability that a user's context is in each node, shape (n_nodes,)."""
        count, variance, reports = self.count.T
        return bin_masses(partition, count=count, variance=variance, reports=reports)

    def told(
        self, mass: FloatArray, nodes: "IntArray | slice" = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Return precision and moment (precision times estimate) of nodes' evidence, (n, K) each.

        `mass` (n_nodes,) is the estimated probability p of each node. Let f be an arm's mean reward, and pi
        its probability. A signed sum of n reports has mean n pi p (2 f - 1). With information and evidence
        summed, the precision is 4 p^2 information, and the moment 2 p (evidence + p information).
        """
        information, share = self.information[nodes], mass[nodes, None]
        return 4.0 * share**2 * information, 2.0 * share * (self.evidence[nodes] + share * information)

    def grow(self, n_nodes: int) -> None:
        """Add zero rows for new nodes."""
        self.information, self.evidence = grown(self.information, n_nodes), grown(self.evidence, n_nodes)
        self.count = grown(self.count, n_nodes)


class PosteriorLearner(BinLearner):
    """A learner with a Gaussian posterior of every leaf's arms, which decides arms and splits.

    Thompson sampling multiplies the posterior variance by `temperature` divided by the number of arms.
    `Constants` of a subclass define `temperature`, and `child_sd`, `rival`, `known` and `settled`; for these
    four see `split_ready`.

    Attributes:
        masses: (n_nodes,) estimated probability of each node.
        reports: Number of reports learned from.
    """

    kept: ClassVar[tuple[str, ...]] = ("_data", "masses", "reports", "_masses_at")
    refresh: ClassVar[float]
    """Relative growth of the number of reports after which masses and posteriors are computed anew."""
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
        """Limit the effect of forged reports from now on; `raised_variance` explains `surprise`."""
        self._surprise = surprise

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and variances of the leaves' arms, (L, K) each."""
        if self._posterior is None:
            self._posterior = self._believed()
        return self._posterior

    @abstractmethod
    def _believed(self) -> tuple[FloatArray, FloatArray]:
        """Compute the result of `posterior` anew. Code that changes its inputs must call `_forget`."""

    def _forget(self) -> None:
        """Discard cached results that were computed from posteriors which have changed."""
        self._posterior = self._ready = None

    def estimate(self, spec: Spec, published: PublishedArms) -> PublishedArms:
        """Return the version with expected rewards, constant within a bin; see `Server.estimate`."""
        bounds, (mean, variance) = spec.reward_range, self.posterior()
        return replace(published, mean=bounds.low + bounds.width * mean, sd=bounds.width * np.sqrt(variance))

    @abstractmethod
    def split(self, chosen: IntArray) -> None:
        """Replace the leaves `chosen` by their children, and set the children's priors."""

    def weights(self) -> FloatArray:
        """Return the probability that each arm is the best, (L, K), under the tempered posterior.

        This is the distribution of the arms that `assign` returns.
        """
        mean, variance = self.posterior()
        return probability_best(mean, self._temperature * variance)

    def assign(self, normals: FloatArray) -> IntArray:
        """Return arms by Thompson sampling from the tempered posterior."""
        mean, variance = self.posterior()
        return np.asarray((mean + np.sqrt(self._temperature * variance) * normals).argmax(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of one version. Sums of leaves that were split since then only affect the masses."""
        mass = self.masses[sums.leaves]
        self._data.add(sums, mass, self._variance(sums, mass))
        self.reports += sums.n
        if self.reports - self._masses_at > self.refresh * counting(self._masses_at, self._half_life):
            self._look_again()

    def refine(self, splits: IntArray | None = None) -> None:
        """Split the leaves whose rival arms are known precisely, or only the leaves in `splits`."""
        if splits is None:
            leaves = self.partition.leaves
            splits = leaves[self.split_ready()]
            splits = splits[self.partition.splittable(splits)][: self.max_leaves - len(leaves)]
        if len(splits):
            self.split(splits)

    def split_ready(self) -> IntArray:
        """Return the positions of leaves whose rival arms are known precisely enough to split.

        The children's spread in a leaf of depth s is child_sd 2^(-(s + 1)/dim). Arms are rivals if their
        probability of being best in the children exceeds `rival`/K. A rival is known if its standard
        deviation is at most `known` times the spread, and the leading arm if it is at most the spread. A
        leaf is not split if one arm is best with probability at least `settled`.
        """
        if self._ready is None:
            self._ready = self._well_known()
        return self._ready

    def _well_known(self) -> IntArray:
        leaves, constants = self.partition.leaves, self.constants
        mean, variance = self.posterior()
        child_sd = child_spread(constants.child_sd, self.partition.depth[leaves], self.partition.dim)
        leading = np.take_along_axis(variance, mean.argmax(axis=1)[:, None], axis=1)[:, 0]
        # The leader is always a rival: this cheap test excludes most leaves.
        candidates = np.flatnonzero(leading <= child_sd**2)
        if not len(candidates):
            return candidates
        mean, variance, spread = mean[candidates], variance[candidates], child_sd[candidates, None]
        best = probability_best(mean, variance + spread**2)
        rivals: BoolArray = best > constants.rival / mean.shape[1]
        well = (~rivals | (variance <= (constants.known * spread) ** 2)).all(axis=1)
        return np.asarray(candidates[well & (best.max(axis=1) < constants.settled)])

    def _variance(self, sums: VersionSums, mass: FloatArray) -> FloatArray:
        """Return the variance of signed sums per report, raised as far as `resist` requires."""
        variance = sums.moments.signed_variance(sums.shares(mass))
        if self._surprise == math.inf:
            return variance
        mean, spread = self.posterior()
        at = self.partition.rank[sums.leaves]  # -1 for leaves split since, whose sums only inform the masses
        place = at if sums.arms is None else (at, sums.arms)
        mean, spread = mean[place], spread[place]
        scale = 2.0 * sums.n * sums.shares(mass)
        told = {"belief": scale**2 * spread, "error": sums.signed - scale * (mean - 0.5)}
        return raised_variance(sums.n * variance, surprise=self._surprise, **told) / sums.n

    def _look_again(self) -> None:
        """Estimate the masses from all reports, and discard results that used earlier masses."""
        self.masses, self._masses_at = self._data.masses(self.partition), self.reports
        self._forget()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        super().restore(arrays)
        self._forget()


def child_spread(scale: float, depth: IntArray, dim: int) -> FloatArray:
    """Return how much a smooth reward varies within each of n nodes, shape (n,).

    For depth s it is scale 2^(-(s + 1)/dim).
    """
    return np.asarray(scale * 2.0 ** (-(depth + 1) / dim))


def _like(before: Any, array: NDArray[Any]) -> Any:
    """Return a stored value with the type of the current value `before`."""
    if isinstance(before, int):
        return int(array)
    if array.dtype != before.dtype or array.ndim != before.ndim:
        raise IncompatibleState("the stored state belongs to another learner")
    return array.copy()


def grown(array: FloatArray, n_nodes: int) -> FloatArray:
    """Return the array with rows of zeros appended for new nodes."""
    return np.concatenate([array, np.zeros((max(0, n_nodes - len(array)), *array.shape[1:]))])
