"""Posterior of a smooth function plus local deviations on a tree of bins.

In every node u, the mean reward of an arm is f_u = m + phi_u . w + r_u. Here m is a known constant, phi_u
are the features of the node's box (`dpbandits.models.features.box`), and w is standard normal and common to
all nodes. The deviation r_u of the root is zero; a child's deviation is its parent's plus N(0, spread^2).

While u is a leaf, its data about f_u - m have precision lambda and moment h (precision times mean). Given w,
the law of r_u before these data is N(a - t . w, V). So the data are informative about w through psi = phi -
t, with weight lambda/(1 + V lambda). Let g = V lambda/(1 + V lambda). When a leaf is split, its children get

    a' = (1 - g) a + V h/(1 + V lambda),   t' = phi - (1 - g) psi,   V' = (1 - g) V + spread^2,

and the leaf's information about w is added to running sums. There is one approximation: the deviations of
two children share their parent's error, but are treated as independent given w.
"""

from collections.abc import Iterable

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["Generation", "SmoothTree"]

Generation = tuple[IntArray, IntArray, FloatArray]
"""Splits made at one time: parents (n,), their children (n, 2), and the standard deviation (n,) of a child's
deviation from its parent's.
"""


class SmoothTree:
    """Posterior of the mean rewards of K arms in all nodes; the module defines the symbols.

    Args:
        root: Features of the root's box, shape (n_features,).
        n_arms: Number of arms.

    Example:
        >>> tree = SmoothTree(np.array([0.3]), n_arms=2)
        >>> tree.update(np.array([0]), precision=np.array([[0.0, 1e6]]), moment=np.array([[0.0, 2e5]]))
        >>> mean, variance = tree.at(np.array([0]))
        >>> mean.round(2), (variance < [[0.1, 1e-5]]).all()
        (array([[0. , 0.2]]), np.True_)
    """

    def __init__(self, root: FloatArray, *, n_arms: int) -> None:
        m = len(root)
        self._phi = root[None, :]
        self._psi = np.repeat(self._phi[:, None, :], n_arms, axis=1)  # (n_nodes, K, m)
        self._offset, self._variance = np.zeros((1, n_arms)), np.zeros((1, n_arms))
        self._mean, self._spread = np.zeros((1, n_arms)), np.zeros((1, n_arms))
        # Prior of w, and information about it from nodes that are no longer leaves.
        self._precision = np.repeat(np.eye(m)[None], n_arms, axis=0)  # (K, m, m)
        self._moment = np.zeros((n_arms, m))
        self.update(np.array([0]), precision=np.zeros((1, n_arms)), moment=np.zeros((1, n_arms)))

    def at(self, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean (minus m) and variance of each arm in the given nodes, shapes (n, K).

        The values are those of the last update.
        """
        return self._mean[nodes], self._spread[nodes]

    def update(self, leaves: IntArray, *, precision: FloatArray, moment: FloatArray) -> None:
        """Compute the posterior of w and of all leaves from the leaves' data.

        Args:
            leaves: All leaves, shape (L,).
            precision: Precision lambda of each leaf's data, shape (L, K).
            moment: Moment h of each leaf's data, shape (L, K).
        """
        gram, told = self._told(leaves, precision, moment)
        self._covariance = np.asarray(np.linalg.inv(self._precision + gram), dtype=np.float64)
        self._centre = np.matmul(self._covariance, (self._moment + told)[:, :, None])[:, :, 0]
        self._read(leaves, precision, moment)

    def split(
        self,
        parents: IntArray,
        children: IntArray,
        *,
        features: FloatArray,
        precision: FloatArray,
        moment: FloatArray,
        spread: FloatArray,
    ) -> None:
        """Add the children of split leaves as new nodes, with the prior that the leaves' data give them.

        Args:
            parents: Leaves that are split, shape (n,).
            children: Their children, shape (n, 2).
            features: Features of the children, row by row, shape (2 n, m).
            precision: Precision lambda of the parents' data, shape (n, K).
            moment: Moment h of the parents' data, shape (n, K).
            spread: Standard deviation of a child's deviation from its parent's, shape (n,).
        """
        gram, told = self._told(parents, precision, moment)
        self._precision += gram
        self._moment += told
        n_arms = self._offset.shape[1]
        nothing = np.zeros((2 * len(parents), n_arms))
        self._phi = np.concatenate([self._phi, features])
        self._psi = np.concatenate([self._psi, np.zeros((len(features), n_arms, features.shape[1]))])
        for name in ("_offset", "_variance", "_mean", "_spread"):
            setattr(self, name, np.concatenate([getattr(self, name), nothing]))
        self._hand(parents, children, precision, moment, spread)
        self._read(children.ravel(), nothing, nothing)

    def hand_down(self, generations: Iterable[Generation], precision: FloatArray, moment: FloatArray) -> None:
        """Repeat all splits with changed data of the nodes; call `update` afterwards.

        Args:
            generations: All splits, parents before their children.
            precision: Precision lambda of each node's data while it was a leaf, shape (n_nodes, K).
            moment: Moment h of each node's data while it was a leaf, shape (n_nodes, K).
        """
        self._precision[:], self._moment[:] = np.eye(self._phi.shape[1]), 0.0
        for parents, children, spread in generations:
            gram, told = self._told(parents, precision[parents], moment[parents])
            self._precision += gram
            self._moment += told
            self._hand(parents, children, precision[parents], moment[parents], spread)

    def _hand(
        self,
        parents: IntArray,
        children: IntArray,
        precision: FloatArray,
        moment: FloatArray,
        spread: FloatArray,
    ) -> None:
        """Set the law of the children's deviations given w, from their parents' data of shape (n, K)."""
        psi, variance, below = self._psi[parents], self._variance[parents], children.ravel()
        keep = 1.0 / (1.0 + variance * precision)
        offset = keep * (self._offset[parents] + variance * moment)
        handed = self._phi[parents][:, None, :] - keep[:, :, None] * psi
        self._psi[below] = self._phi[below][:, None, :] - np.repeat(handed, 2, axis=0)
        self._offset[below] = np.repeat(offset, 2, axis=0)
        self._variance[below] = np.repeat(keep * variance + spread[:, None] ** 2, 2, axis=0)

    def _told(
        self, nodes: IntArray, precision: FloatArray, moment: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return precision (K, m, m) and moment (K, m) of nodes' data about w, for m features."""
        psi = self._psi[nodes].transpose(1, 0, 2)
        keep = 1.0 / (1.0 + self._variance[nodes] * precision)
        weighted = psi * (precision * keep).T[:, :, None]
        residual = keep * (moment - precision * self._offset[nodes])
        told = np.matmul(residual.T[:, None, :], psi)[:, 0]
        return np.matmul(weighted.transpose(0, 2, 1), psi), told

    def _read(self, nodes: IntArray, precision: FloatArray, moment: FloatArray) -> None:
        """Set posterior mean and variance of nodes from their data and the present posterior of w."""
        psi, variance = self._psi[nodes].transpose(1, 0, 2), self._variance[nodes]
        keep = 1.0 / (1.0 + variance * precision)
        smooth = np.matmul(psi, self._centre[:, :, None])[:, :, 0].T
        doubt = (np.matmul(psi, self._covariance) * psi).sum(axis=2).T
        self._mean[nodes] = keep * (self._offset[nodes] + smooth + variance * moment)
        self._spread[nodes] = np.maximum(keep * variance + keep**2 * doubt, _LEAST_VARIANCE)


# With millions of reports a variance may be rounded to zero.
_LEAST_VARIANCE = 1e-12
