"""A source: another crowd, under its own epsilon, whose reports start a target's tree.

The source's contract is public and versioned like the target's, and names the target it belongs to. Its
devices report on bins of one depth, fixed beforehand by a public rule, so that whatever bins the target
makes later, the source's sums can be added up or handed down to them.

Two kinds. `behaviour`: arms were chosen by the source's own policy (past data, say), and a report hides bin,
arm and reward. `server`: the source's server assigns arms by a public coin, and a report hides bin and
reward only, among fewer cells.

NumPy and the standard library only: devices read it.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._checks import as_numbers, integer
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.local.contract.reports import Written
from dpbandits.local.contract.spec import Spec
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.reports.mechanism import MAX_CELLS

__all__ = ["LEARN_FROM_SOURCES", "SourceChooser", "SourceSpec", "source_depth"]

SourceChooser = Literal["behaviour", "server"]

# A source's bins are split while the deviation that its reports leave of an arm's mean reward, people and
# arms spread evenly, is at most this many times how far the mean may move below the bin. Chosen on
# tuning worlds.
_DEEPEST = 1.0

_LONGEST_NAME = 200

LEARN_FROM_SOURCES = ("questions", "tree")
"""Learners of targets."""

# sigma_0 of `TreeConstants`.
_CHILD_SD = 0.5


def _as_tuple(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_as_tuple(value) if isinstance(value, list) else float(value) for value in values)


@worded
@dataclass(frozen=True, kw_only=True)
class SourceSpec(Written):
    """The public contract of one source.

    Args:
        target: the target's spec; domain, arms and reward range are the source's too.
        name: of the source, unique for the target.
        n_users: expected number of reports; fixes the depth of the bins.
        privacy: of every report of the source.
        chooser: who chose the arms: `behaviour` or `server`, see above.
        propensities: public probabilities of the arms under the behaviour policy, (K,), or (bins, K) with
            the bins' averages; None: unknown, and estimated from the private counts.
        looks: whether the behaviour policy looks at the context. Inside a bin it may then pull an arm
            where that arm is poor, which no propensity of a bin repairs: such a source is believed up to the
            tree's own spread only.
        depth: of the bins; None: the public rule `source_depth`.
        mechanism: of the reports, as in `Spec`.
        reports_per_version: with `server`, arms are drawn anew after as many reports.

    Privacy: LDP per report, unit: one user's (context, arm, reward). Nobody should report to a source and to
    its target within one budget: the two losses add up.

    Raises:
        InvalidParameter: an argument is outside what it may be.
    """

    config_label, config_type, written_format = "kind", "SourceSpec", 1
    config_parsers = {  # noqa: RUF012
        "target": Spec.from_config,
        "privacy": LocalDP.from_config,
        "propensities": _as_tuple,
    }

    target: Spec
    name: str
    n_users: int
    privacy: LocalDP
    chooser: SourceChooser = "behaviour"
    propensities: tuple[float, ...] | tuple[tuple[float, ...], ...] | None = None
    looks: bool = True
    depth: int | None = None
    mechanism: str = "auto"
    reports_per_version: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.target, Spec):
            raise InvalidParameter(f"target: expected a Spec, got {type(self.target).__name__}")
        if self.target.learner not in LEARN_FROM_SOURCES:
            raise InvalidParameter(
                "target: only the learners 'questions' and 'tree' learn from sources: build its Spec with "
                "learner='questions'"
            )
        if self.target.protocol.asks and self.target.protocol.grids.names_columns:
            raise InvalidParameter(
                f"target: of {self.target.dim} columns only the learner 'tree' learns from sources: build "
                "its Spec with learner='tree'"
            )
        if "forget" in self.target.tuning.constants:
            raise InvalidParameter("target: one that forgets learns from no source: what it says has no age")
        name: object = self.name  # of any type, where the spec comes from a file
        good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
        if not good or any("\ud800" <= letter <= "\udfff" for letter in self.name):  # half of a character
            raise InvalidParameter(f"name: expected a text of 1 to {_LONGEST_NAME} characters")
        if not isinstance(self.looks, bool):
            raise InvalidParameter("looks: expected True or False")
        _checks.one_of(self.chooser, get_args(SourceChooser), name="chooser")
        integer(self.n_users, name="n_users", minimum=1)
        most = self.target.tuning.max_leaves.bit_length() - 1
        if self.depth is not None and integer(self.depth, name="depth", minimum=0) > most:
            raise InvalidParameter(f"depth: expected at most {most}, so that bins are at most max_leaves")
        if self.propensities is not None:
            self._check_propensities()
        self.reports.protocol.mechanism_for(2**self.bins_depth)

    @cached_property
    def bins_depth(self) -> int:
        """Depth of the source's bins."""
        return source_depth(self) if self.depth is None else self.depth

    @cached_property
    def reports(self) -> Spec:
        """The spec of the reports: what the source's devices and its server work with."""
        return self._reports(self.bins_depth)

    def bins(self) -> DyadicPartition:
        """A fresh partition into the source's bins."""
        partition = self.target.protocol.bins.partition()
        for _ in range(self.bins_depth):
            partition.split(partition.leaves)
        return partition

    @property
    def chances(self) -> FloatArray | None:
        """Propensities as an array."""
        return None if self.propensities is None else np.array(self.propensities, dtype=np.float64)

    @property
    def least_doubt(self) -> float:
        """How far the source is believed to be off at least, in units of the tree's spread."""
        return 1.0 if self.looks and self.chooser == "behaviour" else 0.0

    def _reports(self, depth: int) -> Spec:
        # The seed carries the source's name, so that no two sources' reports can be taken for each other's.
        digest = hashlib.blake2b(f"{self.target.digest.hex()}|{self.name}".encode(), digest_size=6).digest()
        return replace(
            self.target,
            privacy=self.privacy,
            learner="explore",
            chooser="server" if self.chooser == "server" else "client",
            n_users=self.n_users,
            seed=int.from_bytes(digest, "little"),
            epsilons=(),
            tuning=replace(
                self.target.tuning,
                mechanism=self.mechanism,
                reports_per_version=self.reports_per_version,
                constants={"depth": depth} if depth else {},
            ),
        )

    def _check_propensities(self) -> None:
        """Refuse what are no probabilities; keep the others as tuples, which can be hashed and written."""
        try:
            chances = as_numbers(self.propensities, name="propensities")  # type: ignore[arg-type]
        except InvalidData as error:
            raise InvalidParameter(str(error)) from None
        k = self.target.n_arms
        shapes = [(k,)] if self.depth is None else [(k,), (2**self.depth, k)]
        if chances.shape not in shapes:
            raise InvalidParameter(
                f"propensities: expected shape ({k},), or (bins, {k}) together with a depth"
            )
        if not ((chances >= 0.0).all() and np.allclose(chances.sum(axis=-1), 1.0)):
            raise InvalidParameter("propensities: expected probabilities that add up to 1")
        object.__setattr__(self, "propensities", _as_tuple(chances.tolist()))


def source_depth(source: SourceSpec) -> int:
    """Depth of a source's bins, from public numbers alone.

    The deepest at which an arm's mean reward would be known, people and arms spread evenly, to within
    a few times what the tree lets it move below the bin.
    """
    target, depth = source.target, 0
    while 2 ** (depth + 1) <= target.tuning.max_leaves:
        bins = 2 ** (depth + 1)
        if bins * (1 if source.chooser == "server" else target.n_arms) > MAX_CELLS:
            break
        spec = source._reports(depth + 1)
        share = 1.0 / spec.protocol.n_cells(bins)
        variance = float(spec.protocol.mechanism_for(bins).moments.signed_variance(np.array(share)))
        reports = source.n_users / (1 if spec.chooser == "client" else target.n_arms)
        deviation = math.sqrt(variance / reports) / (2.0 * share)
        if deviation > _DEEPEST * _CHILD_SD * 2.0 ** (-(depth + 1) / target.dim):
            break
        depth += 1
    return depth
