"""`ContextLaw`: the distribution of contexts, and its source, which the guarantee states.

`ContextLaw.known` (public knowledge), `.from_generator` and `.from_public_sample` (users who agreed, or past
public data) cost no privacy. `.from_private_histogram` spends epsilon on noisy counts. A wrong law costs
accuracy, often much, but never privacy.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._config import Configured
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise, words_of
from dpbandits.privacy.samplers import lattice_laplace
from dpbandits.tables.owners import Owners, first_rows

__all__ = ["ContextLaw"]

SOURCES = {
    "known": "it was declared as public knowledge",
    "uniform": "nothing was said of it, and it is taken as uniform",
    "generator": "it was counted on draws from a public generator",
    "public sample": "it was counted on a sample declared public",
    "private histogram": "it was counted on the protected people, with noise",
}
_HISTOGRAM_STREAM = 6_001

SURE, LEAST_ROWS = 2.0, 0.01
"""Thresholds for the number of rows that is estimated from noisy counts.

The estimate replaces the horizon if it differs by the first number of noise deviations. It is at least the
second number times the horizon.
"""

LARGEST_RATE = 16.0
"""Largest rate of the noise of a count; beyond it noise does not shrink, as it is almost surely zero."""


class RowsCounted(NamedTuple):
    """Number of rows of a log, estimated from released counts.

    Attributes:
        rows: Sum of the noisy counts.
        sd: Standard deviation of its noise.
    """

    rows: float
    sd: float

    def instead_of(self, horizon: int) -> float:
        """Return the estimated number of rows if it contradicts the horizon, and the horizon otherwise."""
        if abs(self.rows - horizon) < SURE * self.sd:
            return float(horizon)
        return max(self.rows, LEAST_ROWS * horizon)


@dataclass(frozen=True)
class ContextLaw(Configured):
    """Probability law of contexts on public cells, with its source.

    Attributes:
        measure: Cells and their weights.
        source: "known", "uniform", "generator", "public sample" or "private histogram".
        epsilon: Pure privacy loss that was spent on the law; 0 unless it is a private histogram.
        status: Status of the noise, "enforced" or "simulated".
        rounds_per_user: Number of rows of one user that a private histogram's noise covers.
        counted_units: True if rows were counted per user, and rows above `rounds_per_user` left out.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {"measure": CellMeasure.from_config}

    measure: CellMeasure
    source: str = "known"
    epsilon: float = 0.0
    status: str = "enforced"
    rounds_per_user: int = 1
    counted_units: bool = False

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise InvalidParameter(f"source is {self.source!r}, expected one of {sorted(SOURCES)}")
        if (self.source == "private histogram") != (self.epsilon > 0.0):
            raise InvalidParameter("epsilon: expected above 0 for a private histogram, and 0 otherwise")
        if self.status not in ("enforced", "simulated"):
            raise InvalidParameter("status: expected enforced or simulated")
        _checks.integer(self.rounds_per_user, name="rounds_per_user")

    @property
    def noise(self) -> NoiseSource:
        """Noise source of the type from which a private histogram's noise was drawn."""
        return SecureNoise() if self.status == "enforced" else SimulatedNoise(0)

    @classmethod
    def of(cls, value: "ContextLaw | CellMeasure") -> "ContextLaw":
        """Return a law unchanged, or turn a measure into a law that is public knowledge."""
        if isinstance(value, ContextLaw):
            return value
        return cls(
            _checks.an(
                value,
                CellMeasure,
                name="contexts",
                pass_="contexts=measures.CellMeasure.uniform(low=0, high=1, cells=16), or a ContextLaw",
            )
        )

    @classmethod
    def from_generator(
        cls,
        sample: Callable[[int, np.random.Generator], FloatArray],
        *,
        cells: CellMeasure,
        draws: int = 200_000,
        seed: Seed = 0,
    ) -> Self:
        """Return the law of `draws` contexts of a public generator, a function (n, rng) -> (n, d)."""
        rng = np.random.Generator(np.random.Philox(key=seed))
        return cls(_counted(sample(draws, rng), cells, smoothing=0.5), "generator")

    @classmethod
    def from_public_sample(cls, contexts: ArrayLike, *, cells: CellMeasure, smoothing: float = 0.5) -> Self:
        """Return the law of public contexts (n, d) in cells, with `smoothing` added to each count."""
        return cls(_counted(contexts, cells, smoothing=smoothing), "public sample")

    @classmethod
    def from_private_histogram(
        cls,
        contexts: ArrayLike,
        *,
        cells: CellMeasure,
        epsilon: float,
        rounds_per_user: int = 1,
        users: Sequence[object] | Owners | None = None,
        noise: NoiseSource | None = None,
    ) -> Self:
        """Return the law of protected users' contexts, counted in cells with discrete Laplace noise.

        Replacing one user with k rows changes counts by at most 2 k in L1, so noise of rate epsilon/(2 k) is
        epsilon-DP. Negative counts become zero, and every cell gets a little mass. A context that is missing
        or outside the public cells is not counted. If a user has more than k rows, the first k count.

        An `ExploreThenCommit` includes epsilon in its total. It refuses a histogram that covers fewer rows
        per user than its promise. This method uses no ledger: first charge `dpbandits.budget.cost_of` of
        `PureDP(epsilon)` to the account that the policy will be charged to.

        Args:
            contexts: Contexts of n rows, (n, d).
            cells: Public cells.
            epsilon: Privacy loss to spend.
            rounds_per_user: Contribution bound k.
            users: User ids of the rows, (n,); without ids the bound k is an unchecked assumption.
            noise: Noise source; default `SecureNoise()`.

        Raises:
            InvalidData: Contexts have another shape or type, or the number of users differs.
        """
        rounds = _checks.integer(rounds_per_user, name="rounds_per_user")
        rows = _checks.contents(contexts, name="contexts", width=cells.dim)
        found = cells.find(cells.rows(rows, name="contexts"))
        counted = found >= 0
        if users is not None:
            counted &= first_rows(Owners.of(users, count=len(found)).numbers, rounds)
        counts = np.bincount(found[counted], minlength=cells.size).astype(np.int64)
        return cls.from_private_counts(
            counts,
            cells=cells,
            epsilon=epsilon,
            rounds_per_user=rounds,
            counted_units=users is not None,
            noise=noise,
        )[0]

    @classmethod
    def from_private_counts(
        cls,
        counts: IntArray,
        *,
        cells: CellMeasure,
        epsilon: float,
        rounds_per_user: int = 1,
        counted_units: bool = False,
        noise: NoiseSource | None = None,
    ) -> tuple[Self, RowsCounted]:
        """Return the law of contexts that were counted, as `from_private_histogram` does.

        Args:
            counts: Raw counts of contexts in each cell (n,). At most `rounds_per_user` rows of a user are
                counted, so replacing a user changes them by at most 2 `rounds_per_user` in L1.
            cells, epsilon, rounds_per_user, counted_units, noise: See `from_private_histogram` and the class.

        Returns:
            The law, and the number of rows that the noisy counts add up to.
        """
        loss = _checks.scale(epsilon, name="epsilon")
        source = SecureNoise() if noise is None else noise
        rate = min(math.nextafter(loss / (2.0 * rounds_per_user), 0.0), LARGEST_RATE)
        drawn = counts + lattice_laplace(rate, cells.size, words_of(source, stream=_HISTOGRAM_STREAM))
        noisy = np.maximum(drawn, 0).astype(np.float64) + 0.5
        law = cls(
            cells.with_weights(noisy),
            "private histogram",
            loss,
            source.status,
            rounds_per_user,
            counted_units,
        )
        # discrete Laplace noise of rate r has a variance below 2/r^2
        return law, RowsCounted(int(drawn.sum()), math.sqrt(2.0 * cells.size) / rate)

    def describe(self) -> str:
        """Return the source of the law as a sentence for the guarantee."""
        return f"The law of contexts on {self.measure.size} cells is public: {SOURCES[self.source]}."


def _counted(contexts: ArrayLike, cells: CellMeasure, *, smoothing: float) -> CellMeasure:
    _checks.number(smoothing, name="smoothing", exclusive=False, maximum=_checks.LARGEST)
    counts = np.bincount(cells.locate(contexts, name="contexts"), minlength=cells.size)
    return cells.with_weights(counts + smoothing)
