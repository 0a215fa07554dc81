"""The posterior tree with a jump start: sources enter as Gaussian evidence beside the target's own.

A source (see `dpbandits.local.sources`) has its own bins, epsilon, contexts and behaviour policy; its
evidence (`dpbandits.local.source_evidence`) is sent along the tree of bins, so that it reaches bins the
target has not split yet, and bins it has split further. Without sources this is `TreeRule`, number for
number.

**Sources that hurt.** Under covariate shift alone a source's bins have the target's mean rewards, but a
behaviour policy that looks at the context inside a bin, wrong propensities or other rewards bend them. A
source is believed up to a deviation of c sigma_0 2^(-s/dim) in a bin of depth s; c is the candidate under
which the target's own estimates, node by node and arm by arm, are likeliest given the source's. The
largest candidate drops the source. Only privatised statistics and public constants are compared.

Privacy: post-processing of reports, each private under its own epsilon. Source: this library; jump
starts: Ma2025, Section 3.
"""

import math

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.learning import CellSums
from dpbandits.local.source_evidence import SourceEvidence
from dpbandits.local.tree import TreeConstants, TreeRule
from dpbandits.models.partition import DyadicPartition
from dpbandits.models.tree_messages import Gaussians, downward, path_codes, shrunk, spreads, upward

__all__ = ["DOUBTS", "TransferTree"]

DOUBTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, math.inf)
"""Candidates for c, how far a source is off in units of the tree's own spread; infinity: not believed."""

# Log odds that each step up the candidates must overcome: a source is trusted until the data speak.
_STEP_COST = 1.0

# Sources are weighed and their evidence placed anew when this share of reports has come in since.
_REFRESH = 0.02

# Stands for infinity when the likelihood of a dropped source is computed.
_FAR = 4.0


class TransferTree(TreeRule):
    """`TreeRule` that can be told what other crowds know.

    Args:
        partition: the partition to grow; a fresh one with tie rule `first` if sources are to be attached.
        n_arms: number of arms.
        constants: as for `TreeRule`.
        max_leaves: as for `TreeRule`.
        skip: watch sources and discount those that disagree with the target's own reports.
    """

    def __init__(
        self,
        *,
        partition: DyadicPartition,
        n_arms: int,
        constants: TreeConstants | None = None,
        max_leaves: int = 4096,
        skip: bool = True,
    ) -> None:
        super().__init__(partition=partition, n_arms=n_arms, constants=constants, max_leaves=max_leaves)
        self.skip = skip
        self._sources: dict[str, _Source] = {}
        self._placed_n = 0

    @property
    def doubts(self) -> dict[str, float]:
        """How far every source is believed to be off; infinity: dropped."""
        return {name: source.doubt for name, source in self._sources.items()}

    def attach(self, name: str, evidence: SourceEvidence, *, least_doubt: float = 0.0) -> None:
        """Add a source, or replace what it said before.

        Args:
            name: of the source.
            evidence: all it knows so far.
            least_doubt: it is never believed to be nearer than this; for sources whose behaviour policy
                looks at the context.
        """
        before = self._sources.get(name)
        doubt = least_doubt if before is None else before.doubt
        self._sources[name] = _Source(evidence, self.constants.child_sd, least_doubt, doubt)
        self._place()

    def jump_start(self) -> None:
        """Split as far as the sources' evidence carries."""
        before = -1
        while before < self.partition.n_nodes:
            before = self.partition.n_nodes
            self.refine()

    def evidence(self) -> SourceEvidence:
        """What this target's own reports say, for other targets: nothing that came from sources."""
        return SourceEvidence(partition=self.partition, local=self._own())

    def learn(self, sums: CellSums) -> None:
        """Add a version's sums, then weigh the sources by them."""
        super().learn(sums)
        if self._sources and self._n - self._placed_n > _REFRESH * self._placed_n:
            if self.skip:
                self._weigh()
            self._place()

    def _split(self, chosen: IntArray) -> None:
        super()._split(chosen)
        if self._sources:
            self._place()

    def _own(self) -> Gaussians:
        """(n_nodes, K) the target's own evidence, with the masses as they are known now."""
        mass = self._mass[:, None]
        moment = 2.0 * mass * (self._evidence + mass * self._information)
        return Gaussians(4.0 * mass**2 * self._information, moment)

    def _weigh(self) -> None:
        own, codes = self._own(), path_codes(self.partition)
        scale = spreads(self.partition, self.constants.child_sd)[:, None]
        for source in self._sources.values():
            told, _ = source.messages(codes)
            source.doubt = source.likeliest_doubt(own, told, scale)

    def _place(self) -> None:
        """Priors of all nodes from scratch: what is above and beside them, and what sources say of them."""
        codes = path_codes(self.partition)
        scale = spreads(self.partition, self.constants.child_sd)[:, None]
        shape = (self.partition.n_nodes, self.n_arms)
        below, local = Gaussians.silent(shape), self._own()
        for source in self._sources.values():
            if math.isfinite(source.doubt):
                told, inner = source.messages(codes)
                below += shrunk(told, source.doubt**2 * scale)
                local += shrunk(inner, source.doubt**2 * scale)
        precision = np.full(self.n_arms, self.constants.prior_sd**-2)
        root = Gaussians(precision, precision * self.constants.prior_mean)
        prior = below + downward(
            self.partition, root=root, local=local, below=below, child_sd=self.constants.child_sd
        )
        self._prior_mean = prior.moment / prior.precision
        self._prior_variance = 1.0 / prior.precision
        self._posterior, self._placed_n = None, self._n


class _Source:
    """One source's evidence, its messages, and how far it is believed."""

    def __init__(self, evidence: SourceEvidence, child_sd: float, least_doubt: float, doubt: float) -> None:
        codes = path_codes(evidence.partition)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] > 0]
        self._codes = codes[order]
        self._local = evidence.local.at(order)
        self._below = upward(evidence.partition, evidence.local, child_sd=child_sd).at(order)
        self._candidates = np.array([c for c in DOUBTS if c >= least_doubt])
        self.doubt = doubt

    def messages(self, codes: IntArray) -> tuple[Gaussians, Gaussians]:
        """For nodes with these path codes: everything in and below them, and about the node itself."""
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        known = (self._codes[at] == codes)[:, None]
        told, inner = self._below.at(at), self._local.at(at)
        return (
            Gaussians(told.precision * known, told.moment * known),
            Gaussians(inner.precision * known, inner.moment * known),
        )

    def likeliest_doubt(self, own: Gaussians, told: Gaussians, scale: FloatArray) -> float:
        """The candidate under which own and told means are likeliest to lie as far apart as they do."""
        both = (own.precision > 0.0) & (told.precision > 0.0)
        mine, theirs = own.precision[both], told.precision[both]
        apart = (own.moment[both] / mine - told.moment[both] / theirs) ** 2
        noise = 1.0 / mine + 1.0 / theirs
        room = np.broadcast_to(scale, both.shape)[both]
        factors = np.minimum(self._candidates, _FAR)[:, None] ** 2
        variance = noise + factors * room
        score = -0.5 * (np.log(variance) + apart / variance).sum(axis=1)
        score -= _STEP_COST * np.arange(len(self._candidates))
        return float(self._candidates[score.argmax()])
