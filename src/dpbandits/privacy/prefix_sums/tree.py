r"""The binary tree of partial sums over rounds, the way Dubey2021 (Algorithm 2) releases prefixes.

Round t (counted from 1) completes the node that ends there at level l(t) = number of trailing zeros of
t: the sum over rounds t - 2^l + 1 .. t. It is released with fresh noise; the prefix at t is the sum of
popcount(t) released nodes. Other nodes of the tree enter no prefix and are never formed.

Formal guarantee. A round enters at most one released node per level, so at most L = bit length of the
horizon nodes; one user with k rounds, each moving its node's coordinates by at most Delta, moves the
stacked nodes by at most k Delta sqrt(L), plus (1 + slack) sqrt(D n) from rounding to the release unit,
n the number of nodes touched. The rest is as for `BlockRelease`: noise of scale sigma gives
rho-zCDP with sqrt(2 rho) sigma equal to that distance, or GaussianDP for simulated noise. One user touches
D n draws, whatever the horizon: that is the number that the near-Gaussian certificate counts
(`dpbandits.privacy.noise`).

**Which k rounds move the most.** k Delta sqrt(L) is too much for k > 1: in low levels k rounds share no node.
With n(N) of the user's rounds in node N the distance is at most Delta sqrt(V), V = sum_N n(N)^2, and no k
rounds have a larger V than the first k. Number rounds from 0, in binary: a released node of level l holds
those whose places above l agree and whose place l is 0. Let F_l(c) be the largest V of c among the first 2^l
rounds. With a of them in the lower half, which is a node, V is a^2 and what each half has by itself. So both
halves may hold their first ones (by induction), and a >= c - a (else swap them). Let D_l(x) be what round x
adds to the rounds before it: D_l(x) = D_{l-1}(x) + 2 x + 1 in the lower half, D_l(2^{l-1} + x) = D_{l-1}(x)
in the upper. To move the upper half's last round, x there, to the lower one's first free place, a > x, loses
nothing if D_{l-1}(x) <= D_l(a). Let h = 2^{l-2}, and compare the top places of x and a in l - 1 digits:

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
"""What int64 sums hold."""


@dataclass(frozen=True)
class BinaryTree:
    """Which nodes exist, how many a round enters, and what a prefix costs.

    Args:
        n_blocks: rounds (leaves) in all.

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
        """L: most released nodes that one round enters; ceil(log2 T) + 1 when T is a power of two."""
        return int(self.n_blocks).bit_length()

    @property
    def column_norm(self) -> float:
        """sqrt(L): what one round's contribution is multiplied by over all released nodes."""
        return math.sqrt(self.levels)

    def prefix_variance(self) -> FloatArray:
        """(T,): noise variance of prefix 1..t, in units of one node's: popcount(t)."""
        t = np.arange(1, self.n_blocks + 1)
        return np.asarray(((t[:, None] >> np.arange(self.levels)) & 1).sum(axis=1), dtype=np.float64)

    def together(self, rounds: int) -> float:
        """sqrt(V) of the first `rounds` rounds: no others move the released nodes as far; see the module.

        Example:
            >>> round(BinaryTree(8).together(3) ** 2)  # rounds 1 and 3 alone, 1 with 2, and twice all three
            24
        """
        sizes = 2.0 ** np.arange(self.levels)
        whole, rest = np.divmod(min(rounds, self.n_blocks), sizes)
        ended = (whole % 2 == 0) & ((whole + 1) * sizes <= self.n_blocks)  # released, and not after the end
        return math.sqrt(float((np.ceil(whole / 2) * sizes**2 + ended * rest**2).sum()))

    def node(self, t: int) -> tuple[int, int]:
        """Level of the node that round t (from 1) completes, and the round before its first."""
        if not 1 <= t <= self.n_blocks:
            raise InvalidParameter(f"round {t}: the tree has rounds 1 to {self.n_blocks}")
        level = (t & -t).bit_length() - 1
        return level, t - (1 << level)


@dataclass(frozen=True, kw_only=True)
class TreeRelease(CalibratedRelease):
    """The tree with its one calibrated noise. Plain arithmetic: nodes live with their policy.

    Args:
        mechanism, noise, epsilon, delta: see `CalibratedRelease`.
        tree: rounds and levels.
        one_of_several: the promise is shared with other trees, as where the horizon is unknown: the draws
            that one user touches in all of them are then not counted, and the certificate is concentrated.
        sigma_override: a scale (in coordinates) to use instead of the calibrated one, for reproducing
            published formulas; then `certificate` is None.
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
        """D n: how many released numbers one user's rounds can enter."""
        nodes = min(self.tree.n_blocks, self.mechanism.rounds_per_user * self.tree.levels)
        return self.mechanism.size * nodes

    @property
    def sensitivity(self) -> float:
        """See the module."""
        return self._exact_sensitivity + self._rounding

    @property
    def _exact_sensitivity(self) -> float:
        column = self.tree.column_norm * (1.0 + 2.0**-40)
        return self.mechanism.sensitivity * column / RELEASE_UNIT

    @property
    def _rounding(self) -> float:
        # a node has one weight, 1: three roundings of at most 2^-53 of 2^22 largest coordinates a side
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
        """Those that one user's rounds can enter, whatever the horizon; of several trees none are counted."""
        return None if self.one_of_several else self.touched

    @property
    def reached(self) -> float:
        """How far a user moves the releases at least: opposite features in the first k rounds."""
        rounds = self.mechanism.rounds_per_user
        return self.mechanism.sensitivity / rounds * self.tree.together(rounds) / RELEASE_UNIT

    @property
    def farthest(self) -> float:
        """How far a user moves the releases at most: `reached`, and rounding.

        Where the tree is one of several, or the first k rounds have nodes that it does not complete, it is
        `sensitivity`.
        """
        rounds = self.mechanism.rounds_per_user
        if self.one_of_several or 2 * rounds > self.tree.n_blocks:
            return self.sensitivity
        together = self.tree.together(rounds) / (rounds * self.tree.column_norm)
        return min(1.0, together * (1.0 + 2.0**-40)) * self._exact_sensitivity + self._rounding

    def kept_by_scale(self) -> Certificate:
        """What noise of this scale proves, whoever chose it; also with trees of larger scale beside it."""
        mu = self.farthest / self.sigma
        if self.noise.status == "simulated":
            return GaussianDP(mu)
        draws = self.mechanism.size * self.mechanism.rounds_per_user * BinaryTree(_MOST_ROUNDS).levels
        apart = draws * rounding_distance(self.sigma)
        return NearGaussianDP(mu, apart) if apart < 1.0 else ZeroConcentratedDP(0.5 * mu**2)

    def release(self, node_sum: IntArray) -> IntArray:
        """(D,) integer sum of a completed node, plus fresh noise, in release units.

        Call it once for every node, and store the result before anything computed from it leaves.
        """
        sums = np.asarray(node_sum)
        if sums.dtype != np.int64 or sums.shape != (self.mechanism.size,):
            raise InvalidData(
                f"node sum of {sums.dtype} {sums.shape}: expected int64 ({self.mechanism.size},)"
            )
        return self._noised(self.mechanism.to_coordinates(sums))

    def record(self) -> MechanismRecord:
        """This use of noise, for a guarantee."""
        name = "sums of phi phi^T and y phi over the nodes of a binary tree"
        return self._recorded(name, self.tree.n_blocks, "in lattice units of 2^-20")
