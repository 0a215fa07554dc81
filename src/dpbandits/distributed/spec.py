"""The public contract of devices, aggregators and collector, fixed before any report (`DistributedSpec`).

Contexts are points of the unit cube, one side a column. A report names one of P places, and success or
failure: it is one of 2 P + 1 buckets. Bucket 2 p is a success in place p, and bucket 2 p + 1 a failure there.
The last bucket is that of a device with nothing to say.

With few columns a public grid divides the cube, and its cells are the places. With many columns a version
names q marginal tables, each over one column or two. A device takes one of them by a coin of its own. Its
place is its arm and its cell in that table, and the places of all tables are side by side. So a report is
still one bucket, and nobody learns which table it is about.

This module needs only NumPy and the standard library, as devices import it.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._checks import an, assign, integer
from dpbandits._config import Configured
from dpbandits._reading import json_object, reading
from dpbandits._seen import said
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Arms
from dpbandits.domains.arms import Label
from dpbandits.domains.grid import CellGrid
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.tables import BIN_CHOICES
from dpbandits.privacy.definitions import DistributedDP
from dpbandits.tables import Schema
from dpbandits.tables.device_menu import DeviceMenu
from dpbandits.tables.menu import listed_arms

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee
    from dpbandits.privacy.histogram import ReportHistogram

__all__ = ["DistributedSpec", "DistributedTuning", "Task"]

MOST_ARMS = 256
"""Largest number of arms, which bounds the collector's memory."""

MOST_REPORTS = 2**53
"""Largest horizon, so that numbers of reports are exact as floats."""

FEWEST_CELLS, MOST_CELLS = 16, 300
"""Smallest default number of cells of the ranges together, and largest of all columns together.

With 256 cells a device's proof takes about 26 ms in a browser. Marginal tables have at most `MOST_CELLS`
places: arms times the cells of all tables of a version."""

FEWEST_PARTS = 5
"""Number of parts of a range below which marginal tables take the place of a grid, if they fit.

Source: `reproduction.tuning.distributed --columns`. With four ranges or more, tables have less regret."""

CELLS_PER_ROOT, CATEGORY_POWER = 0.8, 1 / 3
"""Constants c and p: the ranges together have c n^.5 / m^p cells for n reports at epsilon 1, by default.

Categories have m cells. The noise of a batch grows with the number of cells, and people of different
categories are alike in part. Source: `reproduction.tuning.distributed`. On its tables p = 1 is worse for
50,000 people; for 4,000 no p from 0 to 1 is better beyond error."""

MOST_ALLOWED = 1024
"""Largest number of cells that `DistributedTuning` takes."""

_FORMAT = 1


class Task(NamedTuple):
    """Public parameters of one version's sum, for a protocol of secure aggregation.

    Attributes:
        version: Number of the version.
        length: Number of buckets of the histogram.
        min_batch: Smallest number of reports in a sum that may be released.
    """

    version: int
    length: int
    min_batch: int


@worded
@dataclass(frozen=True, kw_only=True)
class DistributedTuning(Configured):
    """Settings that a `DistributedSpec` rarely needs.

    Args:
        cells: Largest number of places, which are cells of a grid, or arms times cells of marginal tables.
            None for at most 300 cells of a grid, fewer if horizon and epsilon are small, and 300 places.
        first: Share of the horizon in the first version, from .001 to 1.
        growth: Ratio of the numbers of reports of consecutive versions, from 1.05 to 100.
        temperature: Factor on the posterior variance when arms are drawn, divided by the number of arms.
        min_batch: Smallest number of reports in a sum that an aggregator may release. No version is planned
            with fewer.

    Raises:
        InvalidParameter: An argument is out of range.
    """

    cells: int | None = None
    first: float = 0.02
    growth: float = 1.5
    temperature: float = 0.3
    min_batch: int = 100

    def __post_init__(self) -> None:
        if self.cells is not None and integer(self.cells, name="cells", minimum=1) > MOST_ALLOWED:
            raise InvalidParameter(f"cells: expected an integer from 1 to {MOST_ALLOWED}")
        _checks.settle(self, growth=_checks.number, temperature=_checks.number, min_batch=integer)
        # the bounds of these two bound the number of versions
        assign(self, first=_checks.number(self.first, name="first", maximum=1.0))
        if not (self.first >= 0.001 and 1.05 <= self.growth <= 100.0):
            raise InvalidParameter("first, growth: expected first in [.001, 1] and growth in [1.05, 100]")


@worded
@dataclass(frozen=True, kw_only=True)
class DistributedSpec(Configured):
    """A contextual bandit whose reports are added up by two aggregators. Experimental.

    Args:
        contexts: Public columns of a context. A device clips numbers to their ranges.
        arms: Labels of the arms, in order.
        privacy: Promise for everything that one user reports.
        horizon: Expected number of reports, over all users and versions. It fixes the number of cells and of
            versions.
        reward_range: Public bounds of rewards; devices clip to them.
        seed: Public seed of the collector.
        tuning: Settings that are rarely needed: cells, versions, and the smallest batch.

    Raises:
        InvalidParameter: An argument is out of range, or columns and arms need more places than there may be.

    Example:
        >>> from dpbandits.tables import Categories, Range
        >>> people = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
        >>> spec = DistributedSpec(
        ...     contexts=people, arms=["mail", "call"], privacy=DistributedDP(epsilon=1), horizon=10_000)
        >>> spec.grid.sizes, spec.length, spec.reports_per_version[:2]
        ((63, 2), 253, (200, 300))
        >>> spec == DistributedSpec.from_json(spec.to_json())
        True
    """

    config_label, config_type = "kind", "DistributedSpec"
    config_parsers: ClassVar[Mapping[str, Any]] = {
        "contexts": Schema.from_config,
        "arms": tuple,
        "privacy": DistributedDP.from_config,
        "reward_range": RewardRange.from_config,
        "tuning": DistributedTuning.from_config,
    }

    contexts: Schema
    arms: Sequence[Label]
    privacy: DistributedDP
    horizon: int
    reward_range: RewardRange = field(default_factory=lambda: RewardRange(0.0, 1.0))
    seed: int = 0
    tuning: DistributedTuning = field(default_factory=DistributedTuning)

    def __post_init__(self) -> None:
        an(self.contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        an(self.privacy, DistributedDP, name="privacy", pass_="privacy=DistributedDP(epsilon=1)")
        an(self.tuning, DistributedTuning, name="tuning", pass_="tuning=DistributedTuning(cells=64)")
        assign(self, arms=listed_arms(self.arms).labels, reward_range=RewardRange.of(self.reward_range))
        if self.n_arms > MOST_ARMS:
            raise InvalidParameter(f"arms: expected at most {MOST_ARMS}")
        _checks.settle(self, horizon=integer)
        least = self.tuning.min_batch
        if not least <= self.horizon <= MOST_REPORTS:
            raise InvalidParameter(
                f"horizon is {self.horizon}, expected from {least} (the smallest batch) to "
                f"{MOST_REPORTS}: pass tuning=DistributedTuning(min_batch=...) for smaller batches"
            )
        integer(self.seed, name="seed", minimum=0)
        self.histogram  # noqa: B018 - raises here, and not at the first report, if no noise fits the promise

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.arms)

    @cached_property
    def menu(self) -> DeviceMenu:
        """Columns and arms as devices read them."""
        return DeviceMenu(contexts=self.contexts, arms=Arms(list(self.arms)))

    @cached_property
    def _own(self) -> tuple[int, int]:
        """Number of combinations of all columns' categories, and number of ranges."""
        codes = self.contexts.codes
        return math.prod(codes.values()), self.contexts.domain.dim - len(codes)

    @property
    def _most(self) -> int:
        return self.tuning.cells or MOST_CELLS

    @cached_property
    def effects(self) -> Effects | None:
        """Functions of contexts that are learned from marginal tables; None if contexts have cells.

        Raises:
            InvalidParameter: The tables need more places than there may be.
        """
        (own, n_ranges), codes, dim = self._own, self.contexts.codes, self.contexts.domain.dim
        least = self.n_arms * (sum(codes.values()) + min(BIN_CHOICES) * n_ranges)
        coarse = own * 2**n_ranges <= self._most and (dim <= 2 or least > self._most)
        if coarse or own * FEWEST_PARTS**n_ranges <= self._most:
            return None
        if least > self._most:
            raise InvalidParameter(
                f"contexts, arms: {dim} columns and {self.n_arms} arms need {least} places of marginal "
                f"tables or more, and {self._most} are allowed: leave out columns, merge categories, or pass "
                f"tuning=DistributedTuning(cells=...), at most {MOST_ALLOWED}"
            )
        effects = Effects.of([codes.get(column) for column in range(dim)])
        return effects if effects.all_pairs_fit(self.n_arms) else replace(effects, pairs=())

    @cached_property
    def grid(self) -> CellGrid:
        """Public cells of contexts: every category has its own, and all ranges have equally many.

        Raises:
            InvalidParameter: The columns have marginal tables.
        """
        if self.effects is not None:
            raise InvalidParameter("grid: these columns have marginal tables, as they need too many cells")
        (own, n_ranges), codes = self._own, self.contexts.codes
        room = float(self._most // own)
        if self.tuning.cells is None:
            each = self.privacy.epsilon / self.privacy.reports_per_user
            usual = CELLS_PER_ROOT * each * math.sqrt(self.horizon) / own**CATEGORY_POWER
            room = min(max(usual, FEWEST_CELLS), room)
        side = max(2, math.floor(room ** (1.0 / n_ranges) + 1e-9)) if n_ranges else 1
        return CellGrid(tuple(codes.get(column, side) for column in range(self.contexts.domain.dim)))

    @property
    def places(self) -> int:
        """Number P of places that a report may name: cells, or arms times the cells of marginal tables."""
        return self.grid.size if self.effects is None else self._most

    @property
    def length(self) -> int:
        """Number of buckets of a report: two a place, and one for devices with nothing to say."""
        return 2 * self.places + 1

    @property
    def silent(self) -> int:
        """Bucket of a device with nothing to say."""
        return self.length - 1

    @cached_property
    def reports_per_version(self) -> tuple[int, ...]:
        """Planned numbers of reports of the versions, which add up to the horizon."""
        first = max(self.tuning.first * self.horizon, self.tuning.min_batch)
        sizes, size, left = list[int](), first, self.horizon
        while left > 0:
            # a rest that is shorter than this version joins it
            taken = left if left < 2.0 * size else max(1, round(size))
            sizes.append(taken)
            size, left = size * self.tuning.growth, left - taken
        return tuple(sizes)

    @cached_property
    def histogram(self) -> "ReportHistogram":
        """Mechanism of the aggregators."""
        from dpbandits.privacy.histogram import ReportHistogram

        return ReportHistogram(length=self.length, privacy=self.privacy)

    def task(self, version: int) -> Task:
        """Return the public parameters of a version's sum.

        Raises:
            InvalidParameter: There is no such version, or its devices do not report.
        """
        if integer(version, name="version", minimum=0) >= len(self.reports_per_version):
            raise InvalidParameter(
                f"version: devices report on versions below {len(self.reports_per_version)}"
            )
        return Task(version, self.length, self.tuning.min_batch)

    def points(self, contexts: Any) -> FloatArray:
        """Return n contexts as points of the unit cube, shape (n, dim).

        Args:
            contexts: Contexts in any form that `Menu.encode` takes.

        Raises:
            InvalidData: A context cannot be read. Numbers outside their ranges are clipped.
        """
        return np.asarray(self.menu.in_cube(self.menu.encode(contexts)))

    def bucket(self, places: IntArray, successes: IntArray) -> IntArray:
        """Return the buckets (n,) of successes (1) and failures (0) in these places, shape (n,) each."""
        return np.asarray(2 * places + (1 - successes))

    def check(self, context: Any) -> None:
        """Raise InvalidData for a context that a device would clip or count as missing.

        Never call this with a real user's context where somebody else sees whether it fails.
        """
        self.menu.refuse_unread(context)

    def statement(self) -> "Guarantee":
        """Return the guarantee of everything that one user's device reports to two aggregators."""
        from dpbandits.distributed.statement import reports_guarantee

        return reports_guarantee(
            self.histogram, versions=len(self.reports_per_version), min_batch=self.tuning.min_batch
        )

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the whole spec, 64 hexadecimal digits."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32).hexdigest()

    def to_config(self) -> dict[str, Any]:
        """Return the complete JSON-ready configuration."""
        return super().to_config() | {"format": _FORMAT}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a configuration describes. Raise InvalidParameter for another format."""
        fields = dict(config)
        if fields.pop("format", None) != _FORMAT:
            raise InvalidParameter(f"expected a DistributedSpec of format {_FORMAT}: fetch it again")
        return super().arguments(fields)

    def to_json(self) -> str:
        """Return canonical JSON of `to_config`."""
        return json.dumps(self.to_config(), sort_keys=True)

    @classmethod
    @worded
    def from_json(cls, text: str) -> Self:
        """Rebuild a spec from the text of `to_json`. Raise IncompatibleState for any other text."""
        what = "the JSON of a DistributedSpec"
        with reading(what, IncompatibleState):
            if not isinstance(text, str | bytes):
                raise InvalidParameter(
                    f"a {type(text).__name__} came, expected the text that to_json() wrote"
                )
            return cls.from_config(json_object(text, what, IncompatibleState))

    def __repr__(self) -> str:
        return said(self, epsilon=self.privacy.epsilon, arms=self.n_arms, places=self.places)

    def __hash__(self) -> int:
        return hash(self.to_json())
