r"""One round's contribution as exact integers, and the sensitivity of their sum.

A round contributes the pair (phi phi^T, z phi), the Gram matrix and the vector. Its feature vector has
||phi|| <= 1, and its centred reward |z| <= b = 1/2. The pair is released jointly. `ratio` r weighs the two
parts against each other: in the coordinates of the release, the squared distance of (A, u) and (A', u') is

    ||A - A'||_F^2 + (r/b^2) ||u - u'||^2,

and the noise has the same standard deviation in every coordinate.

**Sensitivity.** Replacing (phi, z) by (psi, y) changes the pair by at most

    s(r) = (2 + r)/sqrt(2) for r <= 2,    2 sqrt(r) for r >= 2.

**Proof.** The distance is convex in (z, y) for given phi, psi, so it is largest at |z| = |y| = b. Changing
the sign of a vector leaves its outer product unchanged, so let z = y = b. With x = ||phi||^2,
x' = ||psi||^2, c = phi.psi, the squared distance is x^2 + x'^2 - 2 c^2 + r (x + x' - 2 c). For given c
it grows with x and x', so it is at most its value at x = x' = 1. This value is w (4 - w)/2 + r w with
w = 2 - 2 c in [0, 4]. It is largest at w = min(2 + r, 4), where it is (2 + r)^2/2 or 4 r. The zero vector,
which stands for a reward that never came, is a special case of psi (with the smaller value 1 + r).  QED.

**Vector alone.** If only rewards are private, phi is the same for both neighbours. In the coordinates u/b
the distance is |z - y| ||phi||/b <= 2.

**Contribution bound.** A user with k rounds changes the sum by at most k s(r) (triangle inequality). A
factor sqrt(k) would be wrong, because all rounds may change the sum in the same direction.

**Quantisation.** phi is truncated to q = trunc(2^20 phi), with q.q <= 2^40 checked, and z/b is rounded to
n with |n| <= 2^20. Sums of q q^T and n q are exact integers in units of 2^-40. The bound above therefore
holds for them exactly, in any order of summation and over any number of shards.

**Spectral norm** of the Gram's noise N = s (Z + Z^T)/2, Z of m x m independent standard normal entries
(`gram_noise_norm`). For a unit vector u, u^T N u = s u^T Z u. With c = u.v the variance of u^T Z u - v^T Z v
is 2 - 2 c^2 <= 2 ||u - v||^2, which is that of sqrt(2) g.(u - v) for a standard normal g; by Sudakov and
Fernique E sup_u u^T Z u <= sqrt(2) E||g|| <= sqrt(2 m). The supremum is 1-Lipschitz in Z, so it is
more than t above its mean with probability at most exp(-t^2/2). Over both signs and T rounds, all norms are
at most s (sqrt(2 m) + sqrt(2 ln(2 T/alpha))) up to probability alpha.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._config import Configured
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["LATTICE", "GramVectorMechanism", "SpectralBound", "gram_noise_norm", "joint_sensitivity"]

SpectralBound = Literal["printed", "sharp"]
"""Name of a bound on the spectral norm of the Gram matrix's noise; see `gram_noise_norm`."""

BITS = 20
"""Number of binary digits of a feature and of a centred reward. The
rounding error of 1e-6 is far below any noise.
"""

LATTICE = 2.0 ** (-2 * BITS)
"""Value of one unit of an integer sum: its terms are products of two 20-bit numbers."""

REWARD_BOUND = 0.5
"""Bound b on the absolute value of a centred reward, for a reward range of width 1."""

_ONE = 1 << BITS
_EXACT_ROWS = 1 << (53 - 2 * BITS)
"""Number of rows that float64 sums without rounding: 2^13 products of at most 2^40 are at most 2^53."""


def joint_sensitivity(ratio: float) -> float:
    """Return s(r), the joint (Gram, vector) sensitivity of one round; see the module.

    Example:
        >>> round(joint_sensitivity(2.0) ** 2, 12), round(joint_sensitivity(10.0) ** 2, 12)
        (8.0, 40.0)
    """
    r = _checks.number(ratio, name="ratio")
    return (2.0 + r) / math.sqrt(2.0) if r <= 2.0 else 2.0 * math.sqrt(r)


def gram_noise_norm(
    *, noise_sd: float, n_features: int, rounds: float, failure_probability: float, bound: SpectralBound
) -> float:
    """Return a bound on the spectral norm of the Gram matrix's noise in all of T rounds.

    Args:
        noise_sd: Scale s of the noise s (Z + Z^T)/2; see `GramVectorMechanism.gram_noise_sd`.
        n_features: Number m of features.
        rounds: Number T of rounds.
        failure_probability: Probability alpha with which the bound may fail.
        bound: "sharp" is s (sqrt(2 m) + sqrt(2 ln(2 T/alpha))), derived in the module. "printed" is
            s (4 sqrt(m) + 2 ln(2 T/alpha)), of Dubey2021's Lemma 3, which is larger for every m, T and
            alpha.

    Example:
        >>> of = {"noise_sd": 1.0, "n_features": 64, "rounds": 1024, "failure_probability": 0.1}
        >>> round(gram_noise_norm(bound="printed", **of) / gram_noise_norm(bound="sharp", **of), 2)
        3.29
    """
    tail = math.log(2.0 * rounds / failure_probability)
    if bound == "sharp":
        return noise_sd * (math.sqrt(2.0 * n_features) + math.sqrt(2.0 * tail))
    return noise_sd * (4.0 * math.sqrt(n_features) + 2.0 * tail)


@dataclass(frozen=True, kw_only=True)
class GramVectorMechanism(Configured):
    """Coordinates and integer contributions of the joint (Gram, vector) release.

    The same numbers have three forms:

    - sums: int64 (..., D), in units of `LATTICE`: for each support the upper triangle of its Gram
      block, row by row, diagonal included; then the m vector entries, rewards in units of b;
    - coordinates: float (..., D), the isometric form in which replacing one user changes the sum by at most
      `sensitivity` (off-diagonal entries times sqrt(2), vector entries times sqrt(ratio));
    - natural: gram (..., m, m) and vector (..., m) = sum of z phi.

    Args:
        n_features: Number m of features.
        supports: Half-open index ranges that partition 0..m. A feature vector is nonzero in only one of
            them. Products across supports are not part of the release (leaving entries out cannot raise the
            sensitivity). None means one range.
        ratio: Weight r. With 2 the vector is exactly as accurate as if it were released alone.
        rounds_per_user: Contribution bound k: largest number of rounds of one user. The sensitivity is
            proportional to it.
        vector_only: True if decision sets are public and only rewards are private. Then only the vector is
            released, and the Gram matrix is public and exact. It must include every answered decision, with
            or without a reward, because whether a reward came is private.

    Raises:
        InvalidParameter: A number is out of its range, or supports do not partition 0..m.

    Example:
        >>> mechanism = GramVectorMechanism(n_features=2)
        >>> sums = mechanism.encode(np.array([[0.6, 0.8]]), np.array([0.25]))
        >>> gram, vector = mechanism.from_coordinates(mechanism.to_coordinates(sums))
        >>> gram.round(3), vector.round(3)
        (array([[0.36, 0.48], [0.48, 0.64]]), array([0.15, 0.2 ]))
    """

    n_features: int
    supports: Sequence[tuple[int, int]] | None = None
    ratio: float = 2.0
    rounds_per_user: int = 1
    vector_only: bool = False

    def __post_init__(self) -> None:
        _checks.settle(
            self, n_features=_checks.integer, ratio=_checks.number, rounds_per_user=_checks.integer
        )
        size = self.n_features
        pairs = ((0, size),) if self.supports is None else self.supports
        with reading("supports"):
            supports = tuple((int(start), int(stop)) for start, stop in pairs)
        edges = [0, *(stop for _, stop in supports)]
        if edges[-1] != size or any(
            start != edge or not stop > edge for (start, stop), edge in zip(supports, edges, strict=False)
        ):
            raise InvalidParameter(
                f"supports: expected ranges that follow each other from 0 to {size}, none of them empty"
            )
        object.__setattr__(self, "supports", supports)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Index ranges of the supports, which partition 0..m; one range if `supports` is None."""
        return tuple(self.supports or ())

    @property
    def sensitivity(self) -> float:
        """Largest Euclidean change of the sum, in coordinates, when one user is replaced."""
        return self.rounds_per_user * (2.0 if self.vector_only else joint_sensitivity(self.ratio))

    @property
    def size(self) -> int:
        """Number D of released values."""
        return self.gram_size + self.n_features

    @property
    def gram_size(self) -> int:
        """Number of released Gram entries; 0 if the Gram matrix is public."""
        if self.vector_only:
            return 0
        return sum((stop - start) * (stop - start + 1) // 2 for start, stop in self.ranges)

    @property
    def largest_coordinate(self) -> float:
        """Largest absolute value of one round's coordinates, which are sqrt(r) z phi_i / b and sqrt(2) phi_i
        phi_j.
        """
        return 1.0 if self.vector_only else max(1.0, math.sqrt(self.ratio))

    @property
    def largest_norm(self) -> float:
        """Largest norm of one round's coordinates: 1 for the vector alone, else sqrt(1 + r)."""
        return 1.0 if self.vector_only else math.sqrt(1.0 + self.ratio)

    def encode(self, features: ArrayLike, centred: ArrayLike, *, support: IntArray | None = None) -> IntArray:
        """Return the sums (D,) over n rounds, as exact integers.

        Args:
            features: Feature vectors, shape (n, m), of Euclidean norm at most 1; longer ones are shortened.
            centred: Centred rewards in [-1/2, 1/2], shape (n,); values outside are clipped.
            support: Index of the support in which each feature vector is nonzero, shape (n,). If it is
                given, features have shape (n, w), with w the size of the largest support: the entries of
                each vector in its support, padded with zeros.

        Raises:
            InvalidData: Shapes are wrong, there is no such support, or a value is NaN or infinite.
        """
        phi, z = np.asarray(features, dtype=np.float64), np.asarray(centred, dtype=np.float64)
        width = self.n_features if support is None else max(stop - start for start, stop in self.ranges)
        if phi.ndim != 2 or phi.shape[1] != width or z.shape != phi.shape[:1]:
            raise InvalidData(f"features {phi.shape}, centred {z.shape}: expected (n, {width}) and (n,)")
        if support is not None and (
            support.shape != z.shape or not ((support >= 0) & (support < len(self.ranges))).all()
        ):
            raise InvalidData(f"support: expected (n,) indices of {len(self.ranges)} supports")
        if not (np.isfinite(phi).all() and np.isfinite(z).all()):
            raise InvalidData("features or centred rewards hold NaN or infinity")
        sums = np.zeros(self.size, dtype=np.int64)
        for start in range(0, len(phi), _EXACT_ROWS):
            rows = slice(start, start + _EXACT_ROWS)
            sums += self._encode_exactly(phi[rows], z[rows], None if support is None else support[rows])
        return sums

    def _encode_exactly(self, phi: FloatArray, z: FloatArray, support: IntArray | None) -> IntArray:
        """Return the sums of at most `_EXACT_ROWS` rounds: all partial sums are integers up to 2^53."""
        q, n = quantise_features(phi), quantise_rewards(z)
        parts, vector = [], np.zeros(self.n_features)
        for index, (start, stop) in enumerate(self.ranges):
            if support is None:
                block, own = q[:, start:stop], n
                if len(self.ranges) > 1:
                    used = block.any(axis=1)
                    block, own = block[used], own[used]
            else:
                used = support == index
                block, own = q[used, : stop - start], n[used]
            vector[start:stop] = own @ block
            if not self.vector_only:
                parts.append((block.T @ block)[_triangle(stop - start)])
        return np.concatenate([*parts, vector]).astype(np.int64)

    def to_coordinates(self, sums: IntArray) -> FloatArray:
        """Convert integer sums (..., D) to isometric coordinates (..., D)."""
        return np.asarray(sums * (self._weights * LATTICE))

    def from_coordinates(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert coordinates (..., D) to Gram matrix (..., m, m) and vector (..., m) in natural units.

        Raises:
            InvalidParameter: The mechanism releases only the vector.
        """
        gram = np.zeros((*coordinates.shape[:-1], self.n_features, self.n_features))
        for (start, stop), block in zip(self.ranges, self.grams_from_coordinates(coordinates), strict=True):
            gram[..., start:stop, start:stop] = block
        return gram, self.vector_from_coordinates(coordinates)

    def grams_from_coordinates(self, coordinates: FloatArray) -> list[FloatArray]:
        """Convert coordinates (..., D) to the Gram matrix (..., s, s) of every support, in natural units.

        Raises:
            InvalidParameter: The mechanism releases only the vector.
        """
        if self.vector_only:
            raise InvalidParameter("vector_only releases no Gram: use vector_from_coordinates")
        entries = coordinates[..., : self.gram_size] / self._weights[: self.gram_size]
        found, position = [], 0
        for start, stop in self.ranges:
            found.append(entries.take(position + _square(stop - start), axis=-1))
            position += len(_triangle(stop - start)[0])
        return found

    def gram_to_coordinates(self, grams: Sequence[FloatArray]) -> FloatArray:
        """Convert Gram matrices (..., s, s) of all supports to isometric coordinates (..., gram_size)."""
        parts = [gram[(..., *_triangle(gram.shape[-1]))] for gram in grams]
        return np.asarray(np.concatenate(parts, axis=-1) * self._weights[: self.gram_size])

    def vector_from_coordinates(self, coordinates: FloatArray) -> FloatArray:
        """Convert coordinates (..., D) to the vector (..., m) = sum of z phi."""
        return np.asarray(coordinates[..., self.gram_size :] * self.vector_noise_sd(1.0))

    def gram_noise_sd(self, coordinate_sd: float) -> float:
        """Return the standard deviation of the Gram matrix's noise on the diagonal, in natural units.

        Off the diagonal it is the result over sqrt(2). It is 0 if the Gram matrix is public.

        Args:
            coordinate_sd: Standard deviation of the noise in every coordinate.
        """
        return 0.0 if self.vector_only else coordinate_sd

    def vector_noise_sd(self, coordinate_sd: float) -> float:
        """Return the standard deviation of the noise of every vector entry, in natural units.

        Args:
            coordinate_sd: Standard deviation of the noise in every coordinate.
        """
        return coordinate_sd * REWARD_BOUND / (1.0 if self.vector_only else math.sqrt(self.ratio))

    @cached_property
    def _weights(self) -> FloatArray:
        """Factors (D,) that turn integer sums, in natural units, into coordinates."""
        if self.vector_only:
            return np.ones(self.n_features)
        triangles = [_triangle(stop - start) for start, stop in self.ranges]
        parts = [np.where(rows == columns, 1.0, math.sqrt(2.0)) for rows, columns in triangles]
        return np.concatenate([*parts, np.full(self.n_features, math.sqrt(self.ratio))])


@lru_cache(maxsize=64)
def _triangle(size: int) -> tuple[IntArray, IntArray]:
    rows, columns = np.triu_indices(size)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


@lru_cache(maxsize=64)
def _square(size: int) -> IntArray:
    rows, columns = _triangle(size)
    places = np.empty((size, size), dtype=np.intp)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    places.flags.writeable = False
    return places


def quantise_features(phi: FloatArray) -> FloatArray:
    """Return q = trunc(2^20 phi) for rows phi (n, m), integers in float64 with q.q <= 2^40 for every row.

    Truncation can only shorten a row. Rows that are still too long are scaled to length 1 - 2^-20 and
    truncated again. After that no rounding error can make them too long.
    """
    q = np.trunc(phi * _ONE)
    # Squares are integers. Below 2^53 their sum is exact, and above it stays far above 2^40.
    long = ~(np.einsum("ij,ij->i", q, q) <= _ONE * _ONE)
    if long.any():
        rows = phi[long] / np.abs(phi[long]).max(axis=1, keepdims=True)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        q[long] = np.trunc(rows * ((_ONE - 1) / lengths)[:, None])
    return q


def quantise_rewards(centred: FloatArray) -> FloatArray:
    """Return round(2^20 z/b) for centred rewards z (n,), as integers in float64 in [-2^20, 2^20]."""
    return np.rint(np.clip(centred / REWARD_BOUND, -1.0, 1.0) * _ONE)
