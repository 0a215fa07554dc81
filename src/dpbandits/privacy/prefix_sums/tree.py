r"""The binary tree mechanism over rounds, as Dubey2021 (Algorithm 2) releases prefixes.

Round t (counted from 1) completes the node that ends there at level l(t) = number of trailing zeros of
t: the sum over rounds t - 2^l + 1 .. t. The node is released with fresh noise. The prefix at t is the sum of
popcount(t) released nodes. Other nodes of the tree enter no prefix and are never formed.

**Formal guarantee.** A round enters at most one released node per level, so at most L = bit length of the
horizon nodes. Take one user with k rounds, each of which changes its node's coordinates by at most Delta.
Replacing this user changes the stacked nodes by at most k Delta sqrt(L), plus (1 + slack) sqrt(D n) from
rounding to the release unit. Here D is the number of coordinates, and n the number of nodes that contain a
round of the user. The rest is as for `BlockRelease`: noise of scale sigma gives rho-zCDP with sqrt(2 rho)
sigma equal to that distance, or GaussianDP for simulated noise. One user affects D n draws, for any horizon.
The near-Gaussian certificate counts these draws (`dpbandits.privacy.noise`).

**The k rounds with the largest distance.** k Delta sqrt(L) is too large for k > 1, because k rounds share no
node in low levels. Let n(N) be the number of the user's rounds in node N. The distance is at most
Delta sqrt(V), V = sum_N n(N)^2, and no k rounds have a larger V than the first k.

Number rounds from 0, in binary. A released node of level l holds the rounds that agree in the digits above
digit l and have digit l equal to 0. Let F_l(c) be the largest V of c rounds among the first 2^l. If a of them
are in the lower half, which is a node, V is a^2 plus the V of each half. By induction both halves may hold
their first rounds, and a >= c - a (else swap the halves). Let D_l(x) be the increase of V that round x adds
to the rounds before it: D_l(x) = D_{l-1}(x) + 2 x + 1 in the lower half, D_l(2^{l-1} + x) = D_{l-1}(x) in the
upper. Moving the upper half's last round, x there, to the lower one's first free place, a > x, loses nothing
if D_{l-1}(x) <= D_l(a). Let h = 2^{l-2}, and compare the top places of x and a in l - 1 digits:

- 0 and 0: D_{l-2}(x) <= D_{l-1}(a) by induction, and 2 x + 1 <= 2 a + 1;
- 1 and 1: D_{l-2}(x - h) <= D_{l-1}(a - h) by induction, which is less than D_l(a);
- 0 and 1: D_{l-2}(x) + 2 x <= 2 h - 2, since D_m(x) + 2 x <= 2^{m+1} - 2 by induction on m; and 2 a >= 2 h.

`BinaryTree.together` is sqrt(V) of the first k; a test compares it with all sets of small trees.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.calibration import rounding_distance
from dpbandits.privacy.certificates import Certificate, GaussianDP, NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.prefix_sums.blocks import RELEASE_UNIT, CalibratedRelease

__all__ = ["BinaryTree", "TreeRelease"]

_MOST_ROUNDS = 1 << 22
"""Largest number of rounds that int64 sums can hold."""


@dataclass(frozen=True)
class BinaryTree:
    """Binary tree over rounds: its nodes, and the noise variance of prefixes.

    Args:
        n_blocks: Total number of rounds (leaves).

    Example:
        >>> tree = BinaryTree(1024)
        >>> tree.levels, tree.prefix_variance()[:4].astype(int).tolist()
        (11, [1, 1, 2, 1])
    """

    n_blocks: int

    def __post_init__(self) -> None:
        _checks.integer(self.n_blocks, name="n_blocks")

    @property
    def levels(self) -> int:
        """Largest number L of released nodes that contain one round: the bit length of `n_blocks`."""
        return int(self.n_blocks).bit_length()

    @property
    def column_norm(self) -> float:
        """Norm sqrt(L) of one round's contribution over all released nodes, for a contribution of norm 1."""
        return math.sqrt(self.levels)

    def prefix_variance(self) -> FloatArray:
        """Return the noise variance popcount(t) of prefix 1..t, in units of a node's, shape (T,)."""
        t = np.arange(1, self.n_blocks + 1)
        return np.asarray(((t[:, None] >> np.arange(self.levels)) & 1).sum(axis=1), dtype=np.float64)

    def together(self, rounds: int) -> float:
        """Return sqrt(V) of the first `rounds` rounds, the largest among all sets of so many rounds.

        The module defines V and proves this.

        Example:
            >>> round(BinaryTree(8).together(3) ** 2)  # nodes with 1, 1, 2, 3 and 3 of the rounds: 1+1+4+9+9
            24
        """
        sizes = 2.0 ** np.arange(self.levels)
        whole, rest = np.divmod(min(rounds, self.n_blocks), sizes)
        # released nodes that the first rounds fill in part, and that end before the horizon
        ended = (whole % 2 == 0) & ((whole + 1) * sizes <= self.n_blocks)
        return math.sqrt(float((np.ceil(whole / 2) * sizes**2 + ended * rest**2).sum()))

    def node(self, t: int) -> tuple[int, int]:
        """Return the level of the node that round t (from 1) completes, and the number of earlier rounds."""
        if not 1 <= t <= self.n_blocks:
            raise InvalidParameter(f"round {t}: the tree has rounds 1 to {self.n_blocks}")
        level = (t & -t).bit_length() - 1
        return level, t - (1 << level)


@dataclass(frozen=True, kw_only=True)
class TreeRelease(CalibratedRelease):
    """Binary tree mechanism: adds calibrated noise to every completed node. It stores no nodes.

    Args:
        mechanism, noise, epsilon, delta: See `CalibratedRelease`.
        tree: Number of rounds and levels.
        one_of_several: True if other trees share the promise, as with an unknown horizon. The certificate is
            then zero-concentrated, because the draws that one user affects in all trees are not counted.
        sigma_override: Scale in coordinates that replaces the calibrated one, for reproducing published
            formulas. `certificate` is then None.
    """

    tree: BinaryTree
    one_of_several: bool = False
    sigma_override: float | None = None

    def __post_init__(self) -> None:
        _checks.an(self.tree, BinaryTree, name="tree", pass_="tree=BinaryTree(n_blocks)")
        self._check_parts()
        if self.tree.n_blocks > _MOST_ROUNDS:
            raise InvalidParameter("int64 sums hold at most 2^22 rounds")
        _ = self._calibration

    @property
    def touched(self) -> int:
        """Largest number D n of released numbers that one user's rounds can affect."""
        nodes = min(self.tree.n_blocks, self.mechanism.rounds_per_user * self.tree.levels)
        return self.mechanism.size * nodes

    @property
    def sensitivity(self) -> float:
        """Sensitivity of all released nodes together, in release units; the module derives it."""
        return self._exact_sensitivity + self._rounding

    @property
    def _exact_sensitivity(self) -> float:
        column = self.tree.column_norm * (1.0 + 2.0**-40)
        return self.mechanism.sensitivity * column / RELEASE_UNIT

    @property
    def _rounding(self) -> float:
        # A node has the single weight 1: three roundings of at most 2^-53 of 2^22 largest coordinates a side.
        slack = 16.0 * 2.0**-52 * self.mechanism.largest_coordinate * self.tree.n_blocks / RELEASE_UNIT
        return (1.0 + slack) * math.sqrt(self.touched)

    @cached_property
    def _calibration(self) -> tuple[float, Certificate | None]:
        if self.sigma_override is not None:
            scale = _checks.number(self.sigma_override, name="sigma_override")
            return scale / RELEASE_UNIT, None
        return super()._calibration

    @property
    def draws(self) -> int | None:
        """Number of noise draws that one user's rounds can affect; None if the tree is one of several."""
        return None if self.one_of_several else self.touched

    @property
    def reached(self) -> float:
        """Distance in release units that a user does reach, by opposite features in the first k rounds."""
        rounds = self.mechanism.rounds_per_user
        return self.mechanism.sensitivity / rounds * self.tree.together(rounds) / RELEASE_UNIT

    @property
    def farthest(self) -> float:
        """Largest distance in release units between neighbouring data sets: `reached` plus rounding.

        It is `sensitivity` if the tree is one of several, or if it does not complete the nodes of the first
        k rounds.
        """
        rounds = self.mechanism.rounds_per_user
        if self.one_of_several or 2 * rounds > self.tree.n_blocks:
            return self.sensitivity
        together = self.tree.together(rounds) / (rounds * self.tree.column_norm)
        return min(1.0, together * (1.0 + 2.0**-40)) * self._exact_sensitivity + self._rounding

    def kept_by_scale(self) -> Certificate:
        """Return the certificate that this noise scale proves; it also holds beside trees of larger scale."""
        mu = self.farthest / self.sigma
        if self.noise.status == "simulated":
            return GaussianDP(mu)
        draws = self.mechanism.size * self.mechanism.rounds_per_user * BinaryTree(_MOST_ROUNDS).levels
        apart = draws * rounding_distance(self.sigma)
        return NearGaussianDP(mu, apart) if apart < 1.0 else ZeroConcentratedDP(0.5 * mu**2)

    def release(self, node_sum: IntArray) -> IntArray:
        """Return the integer sum (D,) of a completed node with fresh noise, in release units.

        Call it once for every node. Store the result before you use or publish anything computed from it.
        """
        sums = np.asarray(node_sum)
        if sums.dtype != np.int64 or sums.shape != (self.mechanism.size,):
            raise InvalidData(
                f"node sum of {sums.dtype} {sums.shape}: expected int64 ({self.mechanism.size},)"
            )
        return self._noised(self.mechanism.to_coordinates(sums))

    def record(self, *, width: float = 1.0) -> MechanismRecord:
        """Return the description of this use of noise, for a guarantee.

        Args:
            width: width of the reward range.
        """
        return self._recorded("over the nodes of a binary tree", self.tree.n_blocks, width=width)
