"""Noise on numbers: integers from the operating system's randomness, in the mechanisms that use them."""

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.low_bits import finest_bit
from dpbandits.audit.catalogue._shared import DELTA, Entry, PreparedNoise
from dpbandits.audit.claims import Audit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.noise import SecureNoise
from dpbandits.privacy.prefix_sums import BinaryTree, BlockRelease, TreeRelease, square_root_toeplitz
from dpbandits.privacy.rows import AnswerLaplace, CellResponse, GaussianRows, L2Laplace

__all__ = ["ENTRIES"]

_UNITS = 1 << 20
"""Distance of two integer statistics, in lattice units."""

_GAUSSIAN_SHARE = 2.0
"""Means and variances need twice the samples for bounds as near to the claim as counts give."""


def _discrete_gaussian(epsilon: float, seed: int) -> Audit:
    return _gaussian("discrete-gaussian", PreparedNoise(), epsilon)


def _near_gaussian(epsilon: float, seed: int) -> Audit:
    return _gaussian("near-gaussian", PreparedNoise(certificate="near_gaussian"), epsilon)


def _gaussian(name: str, noise: PreparedNoise, epsilon: float) -> Audit:
    sigma, _ = noise.gaussian_scale(_UNITS, epsilon, DELTA, draws=1)

    def draw(world: int, n: int) -> FloatArray:
        return np.asarray(world * _UNITS + noise.integer_gaussian(sigma, n), dtype=np.float64)

    return GaussianAudit(
        name=name,
        epsilon=epsilon,
        delta=DELTA,
        sees="one integer with noise",
        neighbours="integers one sensitivity apart",
        draw=draw,
        share=_GAUSSIAN_SHARE,
    )


def _block_release(epsilon: float, seed: int) -> Audit:
    """Two blocks; the user in the first is (phi, z) = (1, 1/2) or (-1, 1/2) and enters both releases."""
    noise = PreparedNoise()
    release = BlockRelease(
        factor=square_root_toeplitz(2),
        mechanism=GramVectorMechanism(n_features=1),
        noise=noise,
        epsilon=epsilon,
        delta=DELTA,
        max_rounds=2,
    )
    ends = [_worlds_sum(release.mechanism, world) for world in (0, 1)]
    centres = [_mixed(release, ends[world]) for world in (0, 1)]
    direction = (centres[1] - centres[0]).ravel()

    def draw(world: int, n: int) -> FloatArray:
        sums = np.stack([ends[world], np.zeros_like(ends[world])])
        outputs = np.array([[release.release(0, sums[:1]), release.release(1, sums)] for _ in range(n)])
        return np.asarray(outputs.reshape(n, -1), dtype=np.float64)

    return GaussianAudit(
        name="block-release",
        epsilon=epsilon,
        delta=DELTA,
        sees="all released sums",
        neighbours="one user's feature vector turned around",
        draw=draw,
        score=lambda outputs: np.asarray(outputs @ direction),
        share=_GAUSSIAN_SHARE,
    )


def _worlds_sum(mechanism: GramVectorMechanism, world: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return mechanism.encode(np.array([[1.0 - 2.0 * world]]), np.array([0.5]))


def _mixed(release: BlockRelease, sums: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> FloatArray:
    """(K, D) where the releases of a user in the first block are centred."""
    coordinates = release.mechanism.to_coordinates(sums)
    return np.asarray(release.factor.matrix[:, :1] * coordinates)


def _tree_release(epsilon: float, seed: int) -> Audit:
    """Two rounds, two levels; the first round's user enters both nodes."""
    noise = PreparedNoise()
    release = TreeRelease(
        tree=BinaryTree(2),
        mechanism=GramVectorMechanism(n_features=1),
        noise=noise,
        epsilon=epsilon,
        delta=DELTA,
    )
    ends = [_worlds_sum(release.mechanism, world) for world in (0, 1)]

    def draw(world: int, n: int) -> FloatArray:
        nodes = np.array([[release.release(ends[world]) for _ in range(2)] for _ in range(n)])
        return np.asarray(nodes[:, :, -1].sum(axis=1), dtype=np.float64)

    return GaussianAudit(
        name="tree-release",
        epsilon=epsilon,
        delta=DELTA,
        sees="all released nodes",
        neighbours="one user's feature vector turned around",
        draw=draw,
        share=_GAUSSIAN_SHARE,
    )


def _rows_l2_laplace(epsilon: float, seed: int) -> Audit:
    mechanism = L2Laplace(definition=RowDP(epsilon=epsilon, distance=1.0), dim=2)
    positions = np.array([[0.0, 0.0], [1.0, 0.0]])

    def draw(world: int, n: int) -> FloatArray:
        return mechanism.privatise(np.tile(positions[world], (n, 1)), SecureNoise())

    def score(outputs: FloatArray) -> FloatArray:
        return np.asarray(
            mechanism.law.log_density(outputs - positions[1])
            - mechanism.law.log_density(outputs - positions[0])
        )

    return SampledAudit(
        name="rows-l2-laplace",
        epsilon=epsilon,
        sees="one released row in two dimensions",
        neighbours="positions at the stated distance",
        draw=draw,
        score=score,
    )


def _rows_gaussian(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise()
    definition = RowDP(epsilon=epsilon, delta=DELTA, distance=1.0)
    mechanism = GaussianRows(definition=definition, dim=1, noise=noise)

    def draw(world: int, n: int) -> FloatArray:
        return mechanism.privatise(np.full((n, 1), float(world)), noise)

    return GaussianAudit(
        name="rows-gaussian",
        epsilon=epsilon,
        delta=DELTA,
        sees="one released row",
        neighbours="positions at the stated distance",
        draw=draw,
        share=_GAUSSIAN_SHARE,
    )


def _rows_randomised_response(epsilon: float, seed: int) -> Audit:
    definition = RowDP(epsilon=epsilon, distance=1.0)
    mechanism = CellResponse(definition=definition, dim=1, half_width=25.0, cells_per_dimension=2)

    def draw(world: int, n: int) -> FloatArray:
        return mechanism.privatise(np.full((n, 1), 50.0 * world - 25.0), SecureNoise())

    return SampledAudit(
        name="rows-randomised-response",
        epsilon=epsilon,
        sees="one released cell",
        neighbours="positions at opposite ends",
        draw=draw,
        fit=fit_categories,
    )


def _answer_laplace(epsilon: float, seed: int) -> Audit:
    mechanism = AnswerLaplace(epsilon=epsilon, distance=1.0, low=-8.0, high=8.0)

    def draw(world: int, n: int) -> FloatArray:
        return mechanism.privatise(np.full(n, float(world)), SecureNoise())

    return SampledAudit(
        name="answer-laplace",
        epsilon=epsilon,
        sees="one noised answer",
        neighbours="answers at the stated distance",
        draw=draw,
        score=lambda outputs: np.clip(outputs, 0.0, 1.0),
    )


def _private_histogram(epsilon: float, seed: int) -> Audit:
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

    return SampledAudit(
        name="private-histogram",
        epsilon=epsilon,
        sees="the noisy law of contexts",
        neighbours="one person's context moved to another cell",
        draw=draw,
        score=lambda outputs: np.clip(outputs[:, 0], -0.5, 0.5) - np.clip(outputs[:, 1], -0.5, 0.5),
    )


def _answer_bits(epsilon: float, seed: int) -> Audit:
    mechanism = AnswerLaplace(epsilon=epsilon, distance=1.0, low=-8.0, high=8.0)

    def draw(world: int, n: int) -> FloatArray:
        values = mechanism.privatise(np.full(n, float(world)), SecureNoise())
        return finest_bit(values).astype(np.float64)

    return SampledAudit(
        name="low-bits-lattice-laplace",
        epsilon=epsilon,
        scope="attack",
        sees="the lowest set bit of one noised answer",
        neighbours="answers 0 and 1",
        draw=draw,
        fit=fit_categories,
    )


def _gaussian_bits(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise()
    sigma, _ = noise.gaussian_scale(_UNITS, epsilon, DELTA)

    def draw(world: int, n: int) -> FloatArray:
        values = (world * _UNITS + noise.integer_gaussian(sigma, n)) / _UNITS
        return finest_bit(values).astype(np.float64)

    return SampledAudit(
        name="low-bits-lattice-gaussian",
        epsilon=epsilon,
        delta=DELTA,
        scope="attack",
        sees="the lowest set bit of one number with noise",
        neighbours="numbers 0 and 1",
        draw=draw,
        fit=fit_categories,
    )


ENTRIES: tuple[Entry, ...] = (
    ("discrete-gaussian", _discrete_gaussian),
    ("near-gaussian", _near_gaussian),
    ("block-release", _block_release),
    ("tree-release", _tree_release),
    ("rows-l2-laplace", _rows_l2_laplace),
    ("rows-gaussian", _rows_gaussian),
    ("rows-randomised-response", _rows_randomised_response),
    ("answer-laplace", _answer_laplace),
    ("private-histogram", _private_histogram),
    ("low-bits-lattice-laplace", _answer_bits),
    ("low-bits-lattice-gaussian", _gaussian_bits),
)
