"""The posterior tree with sources, which enter as Gaussian evidence in addition to the target's own.

A source (see `dpbandits.local.contract.sources`) has its own bins, epsilon, contexts and behaviour policy.
Its evidence (`dpbandits.local.learners.evidence`) is propagated along the tree of bins. It therefore reaches
bins that the target has not split yet, and bins that it has split further. Without sources this is exactly
`TreeRule`.

**Misleading sources.** Under covariate shift alone, a source's bins have the target's mean rewards. Wrong
propensities or other rewards bias them. The source's predictions are compared with the target's own reports,
node by node and arm by arm. Their differences are modelled by a tree process of spread c sigma_0, where
sigma_0 is the spread of the target's tree (`learners.tree`), and c is the candidate with the largest
likelihood. The source's evidence is discounted by the variance of that process; the largest candidate drops
the source. A behaviour policy that looks at the context within a bin may choose arms where they are poor:
its source has at least the tree's own spread in a bin. Only privatised statistics and public constants are
compared.

With sources the bins are finer than the target's own reports would make them, so reports in one bin also
inform about neighbouring bins.

Privacy: post-processing of reports, each of which is private under its own epsilon. Source: this library;
initialisation by sources: Ma2025, Section 3.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.learners.evidence import SourceEvidence, prior_of, sources_in, sources_to_arrays
from dpbandits.local.learners.tree import TreeConstants, TreeRule
from dpbandits.models.trees.messages import (
    Gaussians,
    downward,
    log_evidence,
    path_codes,
    shrunk,
    spreads,
    upward,
)
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import tree_levels

__all__ = ["DOUBTS", "STEP_COST", "TransferTree"]

DOUBTS = (0.0, 0.125, 0.25, 0.5, 1.0, math.inf)
"""Candidates for c, a source's error in units of the tree's own spread; infinity drops the source."""

# Log odds for each step up the candidates: a source is trusted until the data contradict it.
STEP_COST = 1.0

# Relative growth of the number of reports after which sources are weighed and their evidence is placed anew.
_REFRESH = 0.02

# Stands for infinity when the likelihood of a dropped source is computed.
_FAR = 2.0

_FACTORS = np.minimum(DOUBTS, _FAR) ** 2


class TransferTree(TreeRule):
    """A `TreeRule` that can use the evidence of sources.

    Arguments are those of `BinLearner`; to attach sources, the partition's tie rule must be `first`.

    Attributes:
        skip: True if sources that disagree with the target's own reports are discounted.
    """

    kept: ClassVar[tuple[str, ...]] = (*TreeRule.kept, "_placed_n")
    skip = True

    def _begin(self) -> None:
        super()._begin()
        self._sources: dict[str, _Source] = {}
        self._placed_n = 0

    @property
    def doubts(self) -> dict[str, float]:
        """Estimated error of each source, in units of the tree's spread; infinity if it is dropped."""
        return {name: source.doubt for name, source in self._sources.items()}

    def attach(self, name: str, evidence: SourceEvidence, *, least_doubt: float = 0.0) -> None:
        """Add a source, or replace its earlier evidence.

        `least_doubt` is the smallest error that is assumed, for sources whose behaviour policy looks at the
        context.

        Raises:
            InvalidParameter: the evidence has other columns or arms, or a tie rule is not `first`.
        """
        self.check(evidence)
        before = self._sources.get(name)
        doubt = 0.0 if before is None else before.doubt
        self._sources[name] = _Source(evidence, self.constants, least_doubt, doubt)
        self._place()

    def check(self, evidence: SourceEvidence) -> None:
        """Raise the errors that `attach` would raise, without changing anything."""
        evidence.check(dim=self.partition.dim, n_arms=self.n_arms)
        if self.partition.tie != "first":
            raise InvalidParameter("attach: bins of two specs only agree with tie 'first'")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state with the evidence of sources as arrays; see `Learner.to_arrays`."""
        return super().to_arrays() | sources_to_arrays(self._sources)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        super().restore(arrays)
        for name, evidence, doubts in sources_in(arrays, dim=self.partition.dim):
            self.check(evidence)
            self._sources[name] = _Source(evidence, self.constants, *doubts)

    def jump_start(self) -> None:
        """Split leaves until the sources' evidence allows no further split."""
        before = -1
        while before < self.partition.n_nodes:
            before = self.partition.n_nodes
            self.refine()

    def evidence(self) -> SourceEvidence:
        """Return the evidence of this target's own reports, for other targets.

        Evidence of sources is excluded.
        """
        return SourceEvidence(partition=self.partition, local=self._own())

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of one version, then estimate the error of each source from all reports."""
        super().learn(sums)
        if self._sources and self.reports - self._placed_n > _REFRESH * self._placed_n:
            if self.skip:
                self._weigh()
            self._place()

    def split(self, chosen: IntArray) -> None:
        """Split leaves. Children start from their parent's posterior and the evidence of sources."""
        super().split(chosen)
        if self._sources:
            self._place()

    def _own(self) -> Gaussians:
        """Return the evidence of the target's own reports, shape (n_nodes, K), with the current masses."""
        return Gaussians(*self._data.told(self.masses))

    def _weigh(self) -> None:
        """Estimate the error (`doubt`) of each source by comparing it with the target's own reports."""
        own, codes = self._own(), path_codes(self.partition)
        # A mean is relative to its bin's mass, which is itself estimated and adds variance.
        _, variance, reports = self._data.count.T
        known = self.masses**2 * reports**2 / np.where(variance > 0.0, variance, 1.0)
        loose = (self.partition.depth > 0) / (12.0 / np.maximum(self.partition.depth, 1) + known)
        scale = spreads(self.partition, self.constants.child_sd)
        for source in self._sources.values():
            told = source.known(source.whole, codes)
            both = (own.precision > 0.0) & (told.precision > 0.0)
            mine, theirs = np.where(both, own.precision, 1.0), np.where(both, told.precision, 1.0)
            mean = told.moment / theirs
            noise = 1.0 / mine + 1.0 / theirs + (source.least_doubt**2 * scale)[:, None]
            precision = both / (noise + loose[:, None] * (mean - self.constants.prior_mean) ** 2)
            observed = Gaussians(precision, precision * (own.moment / mine - mean))
            variances = {"root_variance": _FACTORS * scale[0], "variance": _FACTORS[:, None] * scale}
            score = log_evidence(self.partition, observed, **variances) - STEP_COST * np.arange(len(DOUBTS))
            source.doubt = DOUBTS[int(np.argmax(score))]

    def _place(self) -> None:
        """Compute the priors of all nodes anew, from the evidence of other nodes and of sources."""
        partition, child_sd = self.partition, self.constants.child_sd
        codes, scale = path_codes(partition), spreads(partition, child_sd)
        gathered = scale[0] + _gathered(partition, scale)
        told, local = Gaussians.silent((partition.n_nodes, self.n_arms)), self._own()
        beside = upward(partition, local, child_sd=child_sd)
        for source in self._sources.values():
            if math.isfinite(source.doubt):
                off = (source.doubt**2 * gathered + source.least_doubt**2 * scale)[:, None]
                told += shrunk(source.known(source.below, codes), off)
                local += shrunk(source.known(source.local, codes), off)
        root = prior_of(local, mean=self.constants.prior_mean, sd=self.constants.prior_sd)
        prior = told + downward(partition, root=root, local=local, below=told + beside, child_sd=child_sd)
        self._prior_mean = prior.moment / prior.precision
        self._prior_variance = 1.0 / prior.precision
        self._placed_n = self.reports
        self._forget()


class _Source:
    """One source: its estimated error, and its Gaussian messages about nodes.

    The message `local` concerns a node's own reports, `below` those of the node and its descendants, and
    `whole` is the source's posterior.
    """

    def __init__(
        self, evidence: SourceEvidence, constants: TreeConstants, least_doubt: float, doubt: float
    ) -> None:
        partition, child_sd = evidence.partition, constants.child_sd
        self.evidence = evidence
        codes = path_codes(partition)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] > 0]
        self._codes = codes[order]
        below = upward(partition, evidence.local, child_sd=child_sd)
        root = prior_of(below, mean=constants.prior_mean, sd=constants.prior_sd)
        whole = below + downward(partition, root=root, local=evidence.local, below=below, child_sd=child_sd)
        self.local, self.below, self.whole = (one.at(order) for one in (evidence.local, below, whole))
        self.least_doubt, self.doubt = least_doubt, doubt

    def known(self, message: Gaussians, codes: IntArray) -> Gaussians:
        """Return the rows of a message for nodes with these path codes."""
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        known, here = (self._codes[at] == codes)[:, None], message.at(at)
        return Gaussians(here.precision * known, here.moment * known)


def _gathered(partition: DyadicPartition, variance: FloatArray) -> FloatArray:
    """Return the sum of the variances of the steps from the root to each node, shape (n_nodes,)."""
    total = np.zeros(partition.n_nodes)
    for inner in tree_levels(partition):
        for child in (partition.left[inner], partition.right[inner]):
            total[child] = total[inner] + variance[child]
    return total
