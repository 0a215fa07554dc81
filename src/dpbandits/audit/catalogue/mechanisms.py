"""Audits of single mechanisms: local reports, private choice, noise, and the lowest bits.

For reports and choices, whole laws are compared. The law of a report is enumerated over all payloads with
exact rational probabilities. Noise is drawn from the operating system's randomness.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.attacks.low_bits import finest_bit
from dpbandits.audit.catalogue.parts import DELTA, Entries, Pairs, PreparedNoise, crowded, listed, lives
from dpbandits.audit.claims import Draw, ExactAudit, GaussianAudit, Law, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.cell_sums import CENTRED, CellSums
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.noise import SecureNoise
from dpbandits.privacy.prefix_sums import BinaryTree, BlockRelease, TreeRelease, square_root_toeplitz
from dpbandits.privacy.reports import MECHANISMS, ReportMechanism, mechanism
from dpbandits.privacy.rows import AnswerLaplace, CellResponse, GaussianRows, L2Laplace
from dpbandits.privacy.selection import exponential_law, permute_and_flip, permute_and_flip_law

__all__ = ["ENTRIES", "laws", "payloads", "tree_nodes"]

ENTRIES: Entries = {}

_exact = partial(listed, ENTRIES, kind=ExactAudit)
_sampled = partial(listed, ENTRIES, kind=SampledAudit)

# -- local reports ------------------------------------------------------------------------------------

_WINDOW = 2
"""Number of noise values enumerated on either side of the inputs.

Beyond them, the ratio of two Laplace laws is constant.
"""


def payloads(report: ReportMechanism) -> list[bytes]:
    """Return all payloads that a client can send; for Laplace noise, those that `_WINDOW` allows."""
    if report.report_bytes <= 2:
        codes = np.arange(256**report.report_bytes, dtype=np.uint32)
        table = codes.astype("<u4").view(np.uint8).reshape(-1, 4)[:, : report.report_bytes]
        table = np.ascontiguousarray(table)
        return [row.tobytes() for row in table[report.valid(table)]]
    entries = range(-_WINDOW, _WINDOW + 2)
    return [np.array(row, dtype="<i2").tobytes() for row in product(entries, repeat=report.report_bytes // 2)]


def laws(report: ReportMechanism) -> list[list[Fraction]]:
    """Return the law of the payload for every input (cell, sign); see `payloads` for the order."""
    sent = payloads(report)
    return [
        [report.likelihood(payload, cell, positive=positive) for payload in sent]
        for cell, positive in product(range(report.n_cells), (True, False))
    ]


def _enumerated(name: str) -> None:
    @_exact(f"report-{name}", sees="the payload of one report", neighbours="any two inputs (cell, sign)")
    def pairs(epsilon: float, seed: int) -> Pairs:
        report = mechanism(name, n_cells=2 if "laplace" in name else 3, epsilon=epsilon)
        return lambda: combinations(laws(report), 2)


for _name in sorted(MECHANISMS):
    _enumerated(_name)


# -- private choice -----------------------------------------------------------------------------------

_RANGE = 1 << 20
"""Largest change of one candidate's score between neighbours."""

_OTHERS = (1, 4, 40)
"""Numbers of candidates whose scores are equal between neighbours.

The score of one more candidate differs.
"""


def _whole_law(name: str, law: Callable[..., FloatArray]) -> None:
    def moved(epsilon: float) -> Iterator[tuple[Law, Law]]:
        """Yield pairs of laws on neighbours: one candidate's score differs by the full range."""
        for others, start in product(_OTHERS, (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0)):
            scores = np.zeros((2, others + 1))
            scores[:, 0] = _RANGE * np.array([start, start + 1.0])
            one, two = law(scores, sensitivity=_RANGE, epsilon=epsilon)
            yield one, two

    changes = "integer scores whose changes lie in one interval of length R"

    @_exact(name, sees="the chosen candidate", neighbours=changes)
    def pairs(epsilon: float, seed: int) -> Pairs:
        return partial(moved, epsilon)


_whole_law("permute-and-flip", permute_and_flip_law)
_whole_law("exponential-mechanism", exponential_law)


@_sampled(
    "permute-and-flip-sampler",
    sees="the chosen candidate",
    neighbours="two candidates, level or one ahead by R",
    fit=fit_categories,
)
def _sampler(epsilon: float, seed: int) -> Draw:
    return lives(lambda world: permute_and_flip([world * _RANGE, 0], sensitivity=_RANGE, epsilon=epsilon))


# -- noise on numbers ---------------------------------------------------------------------------------

_UNITS = 1 << 20
"""Difference of an integer statistic between the two worlds, in lattice units."""

_MECHANISM = GramVectorMechanism(n_features=1)
_FACTOR = square_root_toeplitz(2)
_POSITIONS = np.array([[0.0, 0.0], [1.0, 0.0]])

# Means and variances need twice the samples for bounds as tight as those of counts.
_MEANS: dict[str, Any] = {"kind": GaussianAudit, "delta": DELTA, "share": 2.0}
_TURNED = _MEANS | {"neighbours": "one user's feature vector turned around"}


def _one_number(name: str, draws: int | None) -> None:
    @listed(
        ENTRIES, name, **_MEANS, sees="one integer with noise", neighbours="integers one sensitivity apart"
    )
    def number(epsilon: float, seed: int) -> Draw:
        noise = PreparedNoise()
        sigma, _ = noise.gaussian_scale(_UNITS, epsilon, DELTA, draws=draws)
        return lambda world, n: np.asarray(world * _UNITS + noise.integer_gaussian(sigma, n), np.float64)


_one_number("discrete-gaussian", None)
_one_number("near-gaussian", 1)


_ENDS = [_MECHANISM.encode(np.array([[phi]]), np.array([0.5])) for phi in (1.0, -1.0)]
"""Contribution of a user in world 0, with feature 1, and in world 1, with feature -1.

The centred reward is 1/2 in both.
"""

_PEOPLE = 500
"""Number of people in one release, each on a separate axis. All are replaced at once: see `parts.crowded`."""

_CROWD = GramVectorMechanism(n_features=_PEOPLE, supports=[(axis, axis + 1) for axis in range(_PEOPLE)])


def _everybody(world: int) -> IntArray:
    return np.repeat(_ENDS[world], _PEOPLE)


def _towards_the_other(outputs: FloatArray) -> FloatArray:
    centres = [_FACTOR.matrix[:, :1] * _MECHANISM.to_coordinates(end) for end in _ENDS]
    return np.asarray(outputs @ (centres[1] - centres[0]).ravel())


@crowded(ENTRIES, "block-release", sees="all released sums", score=_towards_the_other, **_TURNED)
def _block_release(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    release = BlockRelease(
        factor=_FACTOR, mechanism=_CROWD, noise=noise, epsilon=epsilon, delta=DELTA, max_rounds=2 * _PEOPLE
    )
    sums = np.stack([_everybody(world), np.zeros(_CROWD.size, np.int64)])
    released = np.stack([release.release(0, sums[:1]), release.release(1, sums)])
    return np.asarray(released.reshape(-1, _PEOPLE).T, dtype=np.float64)


def tree_nodes(
    epsilon: float,
    noise: PreparedNoise,
    world: int,
    *,
    rounds: int,
    delta: float,
    sigma_override: float | None = None,
) -> FloatArray:
    """Return the released tree nodes that contain the users of the first round, summed, shape (people, 1)."""
    tree = BinaryTree(rounds)
    release = TreeRelease(
        tree=tree, mechanism=_CROWD, noise=noise, epsilon=epsilon, delta=delta, sigma_override=sigma_override
    )
    nodes = [release.release(_everybody(world)) for _ in range(tree.levels)]
    return np.asarray(np.stack(nodes).sum(axis=0)[-_PEOPLE:, None], dtype=np.float64)


@crowded(ENTRIES, "tree-release", sees="all released nodes", **_TURNED)
def _tree_release(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return tree_nodes(epsilon, noise, world, rounds=2, delta=DELTA)


def _sums_in_cells(name: str, *, claimed: float, **facts: Any) -> None:
    @crowded(
        ENTRIES,
        name,
        SampledAudit,
        sees="the released sum of a cell",
        neighbours="one round's reward from lowest to highest",
        score=lambda outputs: np.clip(outputs[:, 0], -0.5, 0.5),
        **facts,
    )
    def released(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
        sums = CellSums(epsilon=claimed * epsilon, noise=noise)
        people = np.arange(_PEOPLE)
        own = sums.encode(people, np.full(_PEOPLE, float(world)), n_cells=_PEOPLE)
        return np.asarray(sums.release(own)[:, None] * CENTRED)


_sums_in_cells("cell-sums", claimed=1.0)
# Noise for sums that change by at most half a reward's range, as if rewards could not go from end to end.
_sums_in_cells("broken-cell-sums-half-scale", claimed=2.0, known_broken=True, caught_from=520)


@_sampled(
    "rows-l2-laplace",
    sees="one released row in two dimensions",
    neighbours="positions at the stated distance",
    # The log likelihood ratio, divided by the rate.
    score=lambda outputs: (
        np.linalg.norm(outputs - _POSITIONS[0], axis=1) - np.linalg.norm(outputs - _POSITIONS[1], axis=1)
    ),
)
def _rows_l2_laplace(epsilon: float, seed: int) -> Draw:
    mechanism = L2Laplace(definition=RowDP(epsilon=epsilon, distance=1.0), dim=2)
    return lambda world, n: mechanism.privatize(np.tile(_POSITIONS[world], (n, 1)), SecureNoise())


@listed(
    ENTRIES, "rows-gaussian", **_MEANS, sees="one released row", neighbours="positions at the stated distance"
)
def _rows_gaussian(epsilon: float, seed: int) -> Draw:
    noise = PreparedNoise()
    definition = RowDP(epsilon=epsilon, delta=DELTA, distance=1.0)
    mechanism = GaussianRows(definition=definition, dim=1, noise=noise)
    return lambda world, n: mechanism.privatize(np.full((n, 1), float(world)), noise)


@_sampled(
    "rows-randomised-response",
    sees="one released cell",
    neighbours="positions at opposite ends",
    fit=fit_categories,
)
def _rows_randomised_response(epsilon: float, seed: int) -> Draw:
    definition = RowDP(epsilon=epsilon, distance=1.0)
    mechanism = CellResponse(definition=definition, dim=1, half_width=25.0, cells_per_dimension=2)
    return lambda world, n: mechanism.privatize(np.full((n, 1), 50.0 * world - 25.0), SecureNoise())


@_sampled(
    "answer-laplace",
    sees="one noised answer",
    neighbours="answers at the stated distance",
    score=lambda outputs: np.clip(outputs, 0.0, 1.0),
)
def _answer_laplace(epsilon: float, seed: int) -> Draw:
    mechanism = AnswerLaplace(epsilon=epsilon, distance=1.0, low=-8.0, high=8.0)
    return lambda world, n: mechanism.privatize(np.full(n, float(world)), SecureNoise())


@_sampled(
    "private-histogram",
    sees="the noisy law of contexts",
    neighbours="one person's context moved to another cell",
    score=lambda outputs: np.clip(outputs[:, 0], -0.5, 0.5) - np.clip(outputs[:, 1], -0.5, 0.5),
)
def _private_histogram(epsilon: float, seed: int) -> Draw:
    few = 30

    def draw(world: int, n: int) -> FloatArray:
        cells = CellMeasure.uniform(low=0.0, high=1.0, cells=2 * n)
        counts = np.tile([few + world, few + 1 - world], n)
        contexts = np.repeat(cells.points[:, 0], counts)
        law = ContextLaw.from_private_histogram(contexts, cells=cells, epsilon=epsilon)
        weights = law.measure.weights.reshape(n, 2)
        scale = counts.sum() / weights.sum()  # the number of people is public
        # All weights are divided by one noisy total. Rounding removes its effect, which would distinguish two
        # draws instead of two neighbours.
        return np.asarray(np.rint(weights * scale) - (few + 0.5))

    return draw


@_sampled(
    "low-bits-lattice-laplace",
    scope="attack",
    sees="the lowest set bit of one noised answer",
    neighbours="answers 0 and 1",
    fit=fit_categories,
)
def _answer_bits(epsilon: float, seed: int) -> Draw:
    noised = _answer_laplace(epsilon, seed)
    return lambda world, n: finest_bit(noised(world, n)).astype(np.float64)


@_sampled(
    "low-bits-lattice-gaussian",
    delta=DELTA,
    scope="attack",
    sees="the lowest set bit of one number with noise",
    neighbours="numbers 0 and 1",
    fit=fit_categories,
)
def _gaussian_bits(epsilon: float, seed: int) -> Draw:
    noise = PreparedNoise()
    sigma, _ = noise.gaussian_scale(_UNITS, epsilon, DELTA)

    def draw(world: int, n: int) -> FloatArray:
        return finest_bit((world * _UNITS + noise.integer_gaussian(sigma, n)) / _UNITS).astype(np.float64)

    return draw
