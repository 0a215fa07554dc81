"""Contract of a source: a group of users whose reports initialise the learner of another spec.

The contract is public and versioned like the target's, and names the target. Its clients report on bins of
one depth, which a public rule fixes in advance. The source's sums can therefore be aggregated or divided to
fit any bins of the target.

There are two kinds. `behaviour`: the source's own policy chose the arms (past data, for example), and a
report hides bin, arm and reward. `server`: the source's server assigns arms by a public coin, and a report
hides bin and reward only, with fewer cells.

This module needs only NumPy and the standard library, as clients import it.
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

# A source's bins are split while an arm's mean reward can be estimated well, for users and arms spread
# evenly. The estimate's standard deviation may be at most this multiple of the prior deviation below the bin.
# Chosen on tuning worlds.
_DEEPEST = 1.0

_LONGEST_NAME = 200

LEARN_FROM_SOURCES = ("questions", "tree")
"""Learners of targets that can learn from sources."""

# The constant sigma_0 of `TreeConstants`.
_CHILD_SD = 0.5


def _as_tuple(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_as_tuple(value) if isinstance(value, list) else float(value) for value in values)


@worded
@dataclass(frozen=True, kw_only=True)
class SourceSpec(Written):
    """The public contract of one source, a group of users whose reports initialise the learner of a target.

    Args:
        target: Spec of the target. The source has the same contexts, arms and reward range.
        name: Name of the source, unique for the target.
        n_users: Expected number of reports; it determines the depth of the bins.
        privacy: Guarantee of each report of the source.
        chooser: Origin of the arms, `behaviour` or `server`; see the module.
        propensities: Public probabilities of the K arms under the behaviour policy, (K,), or their averages
            within each bin, (bins, K). None if unknown: they are estimated from the private counts.
        looks: True if the behaviour policy uses the context. It may then prefer an arm where that arm is
            poor, within a bin, and propensities of bins do not correct this. The source's estimates are then
            given at least the variance that the tree allows below a bin.
        depth: Depth of the bins; None for the public rule `source_depth`.
        mechanism: Mechanism of the reports, as in `Spec`.
        reports_per_version: Number of reports between new draws of the arms, with chooser `server`.

    Privacy: local DP of each report; the unit is one user's (context, arm, reward). Losses to a source and
    to its target add up: a user should not report to both within one budget.

    Raises:
        InvalidParameter: an argument is out of range.
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
        if self.target.actions is not None:
            raise InvalidParameter("target: a spec with actions= cannot use sources: build it with arms=")
        if self.target.protocol.asks and self.target.protocol.grids.names_columns:
            raise InvalidParameter(
                f"target: with {self.target.dim} columns only the learner 'tree' learns from sources: build "
                "its Spec with learner='tree'"
            )
        if "forget" in self.target.tuning.constants:
            raise InvalidParameter("target: a spec with forget cannot use sources, which have no dates")
        name: object = self.name  # of any type, if the spec comes from a file
        good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
        if not good or any("\ud800" <= letter <= "\udfff" for letter in self.name):  # surrogates
            raise InvalidParameter(f"name: expected a text of 1 to {_LONGEST_NAME} characters")
        if not isinstance(self.looks, bool):
            raise InvalidParameter("looks: expected True or False")
        _checks.one_of(self.chooser, get_args(SourceChooser), name="chooser")
        integer(self.n_users, name="n_users", minimum=1)
        most = self.target.tuning.max_leaves.bit_length() - 1
        if self.depth is not None and integer(self.depth, name="depth", minimum=0) > most:
            raise InvalidParameter(f"depth: expected at most {most}: max_leaves limits the number of bins")
        if self.propensities is not None:
            self._check_propensities()
        self.reports.protocol.mechanism_for(2**self.bins_depth)

    @cached_property
    def bins_depth(self) -> int:
        """Depth of the source's bins."""
        return source_depth(self) if self.depth is None else self.depth

    @cached_property
    def reports(self) -> Spec:
        """Spec of the source's reports, which its clients and its server use."""
        return self._reports(self.bins_depth)

    def bins(self) -> DyadicPartition:
        """Return a new partition into the source's bins."""
        partition = self.target.protocol.bins.partition()
        for _ in range(self.bins_depth):
            partition.split(partition.leaves)
        return partition

    @property
    def chances(self) -> FloatArray | None:
        """Public propensities as an array, or None if they are unknown."""
        return None if self.propensities is None else np.array(self.propensities, dtype=np.float64)

    @property
    def least_doubt(self) -> float:
        """Smallest assumed standard deviation of the source's bias, in units of the tree's spread."""
        return 1.0 if self.looks and self.chooser == "behaviour" else 0.0

    def _reports(self, depth: int) -> Spec:
        # The seed depends on the source's name, so that reports of one source are not accepted for another.
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
        """Raise InvalidParameter for propensities that are no probabilities."""
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
    """Return the depth of a source's bins, from public numbers alone.

    It is the largest depth at which an arm's mean reward is estimated well, with users and arms spread
    evenly: the estimate's standard deviation is at most `_DEEPEST` times the tree's prior deviation below
    the bin.
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
