"""Noise on numbers: integers from the operating system's randomness, in the mechanisms that use them."""

from functools import partial
from typing import Literal

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.low_bits import finest_bit
from dpbandits.audit.catalogue.parts import DELTA, Entries, PreparedNoise, listed
from dpbandits.audit.claims import Draw, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.noise import SecureNoise
from dpbandits.privacy.prefix_sums import BinaryTree, BlockRelease, TreeRelease, square_root_toeplitz
from dpbandits.privacy.rows import AnswerLaplace, CellResponse, GaussianRows, L2Laplace

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_UNITS = 1 << 20
"""Distance of two integer statistics, in lattice units."""

_MECHANISM = GramVectorMechanism(n_features=1)
_FACTOR = square_root_toeplitz(2)
_POSITIONS = np.array([[0.0, 0.0], [1.0, 0.0]])

_sampled = partial(listed, ENTRIES, kind=SampledAudit)
# Means and variances need twice the samples for bounds as near to the claim as counts give.
_normal = partial(listed, ENTRIES, kind=GaussianAudit, delta=DELTA, share=2.0)


def _one_number(name: str, certificate: Literal["concentrated", "near_gaussian"]) -> None:
    @_normal(name, sees="one integer with noise", neighbours="integers one sensitivity apart")
    def number(epsilon: float, seed: int) -> Draw:
        noise = PreparedNoise(certificate=certificate)
        sigma, _ = noise.gaussian_scale(_UNITS, epsilon, DELTA, draws=1)
        return lambda world, n: np.asarray(world * _UNITS + noise.integer_gaussian(sigma, n), np.float64)


_one_number("discrete-gaussian", "concentrated")
_one_number("near-gaussian", "near_gaussian")


_ENDS = [_MECHANISM.encode(np.array([[phi]]), np.array([0.5])) for phi in (1.0, -1.0)]
"""What a user adds in either world: (phi, z) = (1, 1/2), or (-1, 1/2)."""


def _towards_the_other(outputs: FloatArray) -> FloatArray:
    """Along the line between the two centres of the releases of a user in the first of two blocks."""
    centres = [_FACTOR.matrix[:, :1] * _MECHANISM.to_coordinates(end) for end in _ENDS]
    return np.asarray(outputs @ (centres[1] - centres[0]).ravel())


@_normal(
    "block-release",
    sees="all released sums",
    neighbours="one user's feature vector turned around",
    score=_towards_the_other,
)
def _block_release(epsilon: float, seed: int) -> Draw:
    """Two blocks; the user in the first enters both releases."""
    release = BlockRelease(
        factor=_FACTOR,
        mechanism=_MECHANISM,
        noise=PreparedNoise(),
        epsilon=epsilon,
        delta=DELTA,
        max_rounds=2,
    )

    def draw(world: int, n: int) -> FloatArray:
        sums = np.stack([_ENDS[world], np.zeros_like(_ENDS[world])])
        outputs = np.array([[release.release(0, sums[:1]), release.release(1, sums)] for _ in range(n)])
        return np.asarray(outputs.reshape(n, -1), dtype=np.float64)

    return draw


@_normal("tree-release", sees="all released nodes", neighbours="one user's feature vector turned around")
def _tree_release(epsilon: float, seed: int) -> Draw:
    """Two rounds, two levels; the first round's user enters both nodes."""
    release = TreeRelease(
        tree=BinaryTree(2), mechanism=_MECHANISM, noise=PreparedNoise(), epsilon=epsilon, delta=DELTA
    )

    def draw(world: int, n: int) -> FloatArray:
        nodes = np.array([[release.release(_ENDS[world]) for _ in range(2)] for _ in range(n)])
        return np.asarray(nodes[:, :, -1].sum(axis=1), dtype=np.float64)

    return draw


@_sampled(
    "rows-l2-laplace",
    sees="one released row in two dimensions",
    neighbours="positions at the stated distance",
    # the log likelihood ratio, over the rate
    score=lambda outputs: (
        np.linalg.norm(outputs - _POSITIONS[0], axis=1) - np.linalg.norm(outputs - _POSITIONS[1], axis=1)
    ),
)
def _rows_l2_laplace(epsilon: float, seed: int) -> Draw:
    mechanism = L2Laplace(definition=RowDP(epsilon=epsilon, distance=1.0), dim=2)
    return lambda world, n: mechanism.privatise(np.tile(_POSITIONS[world], (n, 1)), SecureNoise())


@_normal("rows-gaussian", sees="one released row", neighbours="positions at the stated distance")
def _rows_gaussian(epsilon: float, seed: int) -> Draw:
    noise = PreparedNoise()
    definition = RowDP(epsilon=epsilon, delta=DELTA, distance=1.0)
    mechanism = GaussianRows(definition=definition, dim=1, noise=noise)
    return lambda world, n: mechanism.privatise(np.full((n, 1), float(world)), noise)


@_sampled(
    "rows-randomised-response",
    sees="one released cell",
    neighbours="positions at opposite ends",
    fit=fit_categories,
)
def _rows_randomised_response(epsilon: float, seed: int) -> Draw:
    definition = RowDP(epsilon=epsilon, distance=1.0)
    mechanism = CellResponse(definition=definition, dim=1, half_width=25.0, cells_per_dimension=2)
    return lambda world, n: mechanism.privatise(np.full((n, 1), 50.0 * world - 25.0), SecureNoise())


@_sampled(
    "answer-laplace",
    sees="one noised answer",
    neighbours="answers at the stated distance",
    score=lambda outputs: np.clip(outputs, 0.0, 1.0),
)
def _answer_laplace(epsilon: float, seed: int) -> Draw:
    mechanism = AnswerLaplace(epsilon=epsilon, distance=1.0, low=-8.0, high=8.0)
    return lambda world, n: mechanism.privatise(np.full(n, float(world)), SecureNoise())


@_sampled(
    "private-histogram",
    sees="the noisy law of contexts",
    neighbours="one person's context moved to another cell",
    score=lambda outputs: np.clip(outputs[:, 0], -0.5, 0.5) - np.clip(outputs[:, 1], -0.5, 0.5),
)
def _private_histogram(epsilon: float, seed: int) -> Draw:
    """Cells in pairs of (30, 31) or (31, 30) people: each pair is one person who moved."""
    few = 30

    def draw(world: int, n: int) -> FloatArray:
        cells = CellMeasure.uniform(low=0.0, high=1.0, cells=2 * n)
        counts = np.tile([few + world, few + 1 - world], n)
        contexts = np.repeat(cells.points[:, 0], counts)
        law = ContextLaw.from_private_histogram(contexts, cells=cells, epsilon=epsilon)
        weights = law.measure.weights.reshape(n, 2)
        scale = counts.sum() / weights.sum()  # public: how many people there are
        # Weights are divided by one noisy total, which all pairs share: rounding takes its trace away, or the
        # audit would tell two draws apart, and not two neighbours.
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
        values = (world * _UNITS + noise.integer_gaussian(sigma, n)) / _UNITS
        return finest_bit(values).astype(np.float64)

    return draw
