r"""Model of rewards over a grid of actions: effects of contexts times smooth functions of the action.

With phi the m functions of a context (`Effects`) and psi the b functions of an action (`ActionBasis`), the
expected reward is

    1/2 + f(x, a),   f(x, a) = sum_{i, j} w_ij phi_i(x) psi_j(a).

`MOST_WEIGHTS` bounds the number of products. Products with two columns of contexts are left out first. With
many columns of contexts, those that vary least are left out too (`_important`).

With more than `MANY_COLUMNS` columns of contexts, the probability that a column matters is learned. If it
does not, the weights of all its products are zero; see `dpbandits.models.marginals.inclusion`.

The weights w_ij have one joint normal law. A table that sums rewards over the actions of a bin is a linear
function of the weights. `ActionEffects.maps` computes it exactly for any law of actions given contexts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.marginals.action_basis import ALONE, ActionBasis
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.inclusion import of_column, worth_of
from dpbandits.models.marginals.posterior import Relevance, covariance_factor

__all__ = ["ActionEffects", "ActionWeights", "BinSums", "evidence_of"]

MOST_WEIGHTS = 1_200
"""Largest number of weights in the joint posterior, whose precision is a dense matrix."""

PRIOR_VARIANCES = np.array([[0.008, 0.024, 0.004], [0.0028, 0.0056, 0.0008], [0.0004, 0.0004, 0.0]])
"""Prior variance of a weight: rows by the number of context columns of its term, columns by those of the
action."""

PSEUDO_COUNTS = np.array([[2.0, 2.0, 4.0], [2.0, 4.0, 10.0], [30.0, 30.0, 30.0]])
"""Strength of a term's prior variance, in numbers of weights, in the layout of `PRIOR_VARIANCES`."""

MANY_COLUMNS, COLUMNS_THAT_MATTER = 8, 4.0
"""Number of columns of contexts above which a column may not matter, and prior expected number of those that
do.
"""

ALONE_VARIANCE, ALONE_COUNT = 0.005, 20.0
"""Prior variance of the effect that an action has alone, and the number of weights that it counts as."""


def _priors() -> tuple[FloatArray, FloatArray]:
    """Prior variances and pseudo-counts (3, 4); the last column is for effects of actions alone."""
    last = np.array([[ALONE_VARIANCE], [0.0], [0.0]]), np.full((3, 1), ALONE_COUNT)
    return np.hstack([PRIOR_VARIANCES, last[0]]), np.hstack([PSEUDO_COUNTS, last[1]])


class BinSums(NamedTuple):
    """Tables of one bin of actions, with C cells in all.

    Attributes:
        maps: Expected sums as a linear function of J weights, shape (C, J).
        covariance: Covariance (C, C) of the sums, without the errors of counts that all bins have in common.
        sums: Released sums (C,), to which the subtracted centre was added again.
        miscounted: Change of the sums, shape (C, E), under each of E errors of counts that all bins have in
            common. The errors are independent with standard deviation one.
    """

    maps: FloatArray
    covariance: FloatArray
    sums: FloatArray
    miscounted: FloatArray


@dataclass(frozen=True, eq=False)
class ActionEffects:
    """Products of functions of a context and functions of an action, with J weights.

    Args:
        effects: Functions of a context.
        basis: Functions of an action.
    """

    effects: Effects
    basis: ActionBasis

    @classmethod
    def of(cls, effects: Effects, basis: ActionBasis) -> "ActionEffects":
        """Return the products, with interactions of context columns if they fit into `MOST_WEIGHTS`.

        Raises:
            InvalidParameter: No product of a single context column with a function of the action fits.
        """
        found = cls(effects, basis)
        if found.n_weights > found._room:
            found = cls(replace(effects, pairs=()), basis)
        own, other = found._index
        together = basis.rows is not None or bool(((own > 0) & (other > 0)).any())
        if found.n_weights > found._room or not (together or found.effects.n_weights == 1):
            raise InvalidParameter(
                f"contexts and actions have more than {MOST_WEIGHTS} products of effects, so none can be "
                "learned: take fewer columns or categories"
            )
        return found

    @cached_property
    def _index(self) -> tuple[IntArray, IntArray]:
        """Index of each weight's function of a context, and of its function of an action, shapes (J,)."""
        own, other = self.effects.order[self.effects.term_of], self.basis.order[self.basis.term_of]
        kept = _priors()[0][own[:, None], other] > 0.0
        if int(kept.sum()) > self._room:
            kept &= (own[:, None] < 2) | (other == 0)
        if self.basis.rows is not None and int(kept.sum()) > self._room:
            # Products and many columns of contexts: only the first two cosines of a range interact.
            kept &= (other == 0) | self._leading[:, None]
        if self.basis.rows is not None and int(kept.sum()) > self._room:
            # More columns still: pairs of columns of products have an effect for all contexts alone.
            kept &= (own[:, None] == 0) | (other < 2)
        if self.effects.pairs == () and int(kept.sum()) > self._room:
            kept = self._important(kept, (own[:, None] == 0) | (other == 0))
        i, j = np.nonzero(kept)
        return i, j

    def _important(self, kept: BoolArray, single: BoolArray) -> BoolArray:
        """Return a mask (m, b) of products that fit: the `single` ones of `kept`, and the most important.

        The importance of a product is its mean square over uniform levels of all columns. It depends on
        public numbers alone, and not on which actions there are. Products of equal importance are kept or
        left out together.
        """
        tables = [np.ones((1, 1)), *self.effects.tables]
        squares = np.concatenate([(table**2).mean(axis=0) for table in tables])
        importance = np.round(np.outer(squares, self.basis.squares), 9)
        values, counts = np.unique(importance[kept & ~single], return_counts=True)
        fits = counts[::-1].cumsum() <= self._room - int((kept & single).sum())
        least = values[::-1][fits].min(initial=np.inf)
        return np.asarray(kept & (single | (importance >= least)))

    @property
    def _room(self) -> int:
        """Most weights, the effects of single actions included."""
        return MOST_WEIGHTS + int((self.basis.order[self.basis.term_of] == ALONE).sum())

    @property
    def _leading(self) -> BoolArray:
        """True for the functions (m,) of contexts that are not a later cosine of a single range."""
        found = np.ones(self.effects.n_weights, dtype=np.bool_)
        for term in self.effects.terms:
            if len(term.columns) == 1 and self.effects.ordered[term.columns[0]]:
                found[term.start + 2 : term.stop] = False
        return found

    def places_in(self, wider: "ActionEffects") -> IntArray:
        """Return the index (J,) of each weight among those of `wider`, which has more actions at the end."""
        width = wider.basis.table.shape[1]
        own, theirs = (i * width + j for i, j in (self._index, wider._index))
        return np.asarray(np.searchsorted(theirs, own), dtype=np.int64)

    @property
    def n_weights(self) -> int:
        """Number J of weights."""
        return len(self._index[0])

    @cached_property
    def _terms(self) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
        """Term of every weight (J,), and prior variance, pseudo-count and term of contexts of every term."""
        i, j = self._index
        own, other = self.effects.term_of[i], self.basis.term_of[j]
        names, term_of = np.unique(own * len(self.basis.order) + other, return_inverse=True)
        orders = (
            self.effects.order[names // len(self.basis.order)],
            self.basis.order[names % len(self.basis.order)],
        )
        variances, counts = _priors()
        return term_of.ravel(), variances[orders], counts[orders], names // len(self.basis.order)

    @property
    def included(self) -> FloatArray | None:
        """Probability that each column of contexts matters before any release; None if all columns do."""
        columns = len(self.effects.sizes)
        if columns <= max(MANY_COLUMNS, COLUMNS_THAT_MATTER):
            return None
        return np.full(columns, COLUMNS_THAT_MATTER / columns)

    def holds(self, column: int) -> tuple[IntArray, BoolArray]:
        """Return the indices (n,) of weights with this context column, and True if it is their only one."""
        own = self.effects.term_of[self._index[0]]
        found = np.flatnonzero(self.effects.holds(column)[own])
        return found, self.effects.order[own[found]] == 1

    @property
    def prior(self) -> FloatArray:
        """Prior variance of every term, shape (terms,)."""
        return self._terms[1]

    def variances(self, of_terms: FloatArray) -> FloatArray:
        """Return the prior variance of every weight, shape (J,), from the variances of the terms."""
        return of_terms[self._terms[0]]

    def shares(self, included: FloatArray | None) -> FloatArray:
        """Return the probability (terms,) that all context columns of a term matter, from that of columns."""
        if included is None:
            return np.ones(len(self.prior))
        own = [included[list(term.columns)].prod() for term in self.effects.terms]
        return np.asarray(np.array(own)[self._terms[3]])

    def learned(self, squares: FloatArray, included: FloatArray | None = None) -> FloatArray:
        """Return the terms' variances after a step of expectation maximisation.

        A term's variance is shrunk towards its prior with the strength `PSEUDO_COUNTS`. Variances of context
        interactions are shrunk towards the mean of all of them instead.

        Args:
            squares: Expected squares (J,) of the weights. If their columns matter with `included`
                probabilities, those of a single column are squares of a column that matters.
            included: Probability that each column of contexts matters; None if all columns do.
        """
        term_of, prior, pseudo, context_term = self._terms
        order = self.effects.order[context_term]
        share = self.shares(included)
        sums, counts = np.bincount(term_of, squares), share * np.bincount(term_of)
        sums = np.where(order == 2, sums, share * sums)
        towards = prior.copy()
        pairs = order == 2
        if pairs.any():
            towards[pairs] = (sums[pairs].sum() + 2.0 * prior[pairs][0]) / (counts[pairs].sum() + 2.0)
        return np.asarray((sums + pseudo * towards) / (counts + pseudo))

    def of_actions(self, weights: FloatArray, table: FloatArray | None = None) -> FloatArray:
        """Return every action's weights (..., K, m) of the functions of a context, from weights (..., J)."""
        i, j = self._index
        table = self.basis.table if table is None else table
        full = np.zeros((*weights.shape[:-1], table.shape[1], self.effects.n_weights))
        full[..., j, i] = weights
        return np.asarray(table @ full)

    def of_contexts(self, variances: FloatArray) -> FloatArray:
        """Return the variance (m,) of the context functions' weights, averaged over actions, from variances
        (J,).
        """
        i, j = self._index
        squares = (self.basis.table**2).mean(axis=0)
        sums = np.bincount(i, weights=variances * squares[j], minlength=self.effects.n_weights)
        return np.asarray(sums, dtype=np.float64)

    def worths(self, variances: FloatArray, relevance: Relevance) -> FloatArray:
        """Return variances (J,) by which tables are chosen, from posterior variances (J,); see `worth_of`."""
        if relevance.included is None:
            return variances
        share = self.shares(relevance.included)
        return worth_of(variances, self.variances(share), self.variances(relevance.variances * share))

    def products(self, phi: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the products (n, J) of context features (n, m) and action features (n, b)."""
        i, j = self._index
        return phi[:, i] * psi[:, j]

    def averaged(self, law: "ActionWeights", phi: FloatArray) -> "ActionWeights":
        """Return the law of the reward function averaged over users, which does not depend on the context.

        Args:
            law: Law of all weights.
            phi: Mean features (m,) of the users' contexts.
        """
        i, j = self._index
        place = np.empty(self.basis.table.shape[1], dtype=np.int64)
        place[j[i == 0]] = np.flatnonzero(i == 0)
        onto = np.zeros((self.n_weights, self.n_weights))
        onto[place[j], np.arange(self.n_weights)] = phi[i]
        return replace(law, mean=onto @ law.mean, factor=onto @ law.factor)

    def maps(
        self, cells: csr_array, given: FloatArray, phi: FloatArray, bins: IntArray
    ) -> Iterator[FloatArray]:
        """Yield maps (C, J) from weights to the expected sums of every bin of actions.

        Args:
            cells: Sparse 0/1 matrix (C, M) of the cells of M sampled contexts, as `Design.indicators`
                returns it.
            given: Expected number of users with each action whom each sampled context represents, (M, K).
            phi: Functions (M, m) of the sampled contexts.
            bins: Bin (K,) of every action.
        """
        for one in range(int(bins.max()) + 1):
            own = bins == one
            yield np.asarray(cells @ self.products(phi, given[:, own] @ self.basis.table[own]))


@dataclass(frozen=True, eq=False)
class ActionWeights:
    """Joint normal law of all J weights.

    Attributes:
        mean: Means of the weights, shape (J,).
        factor: Factor F of the covariance F F^T, shape (J, J).
        variances: Prior variances of the terms, if their columns of contexts matter.
        included: Probability that each column of contexts matters; None if all columns matter.
    """

    mean: FloatArray
    factor: FloatArray
    variances: FloatArray
    included: FloatArray | None = None

    @classmethod
    def fitted(
        cls,
        across: ActionEffects,
        precision: FloatArray,
        shift: FloatArray,
        variances: FloatArray,
        *,
        steps: int,
        included: FloatArray | None = None,
    ) -> "ActionWeights":
        """Return the posterior after `steps` steps of expectation maximisation for the prior variances.

        With more than `MANY_COLUMNS` columns of contexts, the probability that each column matters is learned
        as well.

        Args:
            across: Functions whose weights are learned.
            precision, shift: Evidence of the tables, (J, J) and (J,), from `evidence_of`.
            variances: Initial prior variances of the terms.
            steps: Number of steps.
            included: Initial probability that each column matters; by default that before any release.
        """
        included = across.included if included is None else included
        for _ in range(steps):
            found = cls.of(across, precision, shift, variances, included)
            variances, included = found.relearned(across)
        return cls.of(across, precision, shift, variances, included)

    @classmethod
    def of(
        cls,
        across: ActionEffects,
        precision: FloatArray,
        shift: FloatArray,
        variances: FloatArray,
        included: FloatArray | None = None,
    ) -> "ActionWeights":
        """Return the posterior under these prior variances of the terms and probabilities of the columns."""
        scale = np.sqrt(across.variances(variances * across.shares(included)))
        factor = covariance_factor(precision, scale)
        return cls(factor @ (factor.T @ shift), factor, variances, included)

    def relearned(self, across: ActionEffects) -> tuple[FloatArray, FloatArray | None]:
        """Return prior variances (terms,) and probabilities of columns after one step of their fit."""
        squares = self.mean**2 + np.einsum("ij,ij->i", self.factor, self.factor)
        if self.included is None:
            return across.learned(squares), None
        used = across.variances(self.variances * across.shares(self.included))
        included, before = self.included.copy(), COLUMNS_THAT_MATTER / len(self.included)
        for column, present in enumerate(self.included.tolist()):
            own, main = across.holds(column)
            included[column], if_so = of_column(
                self.mean[None],
                self.factor[None],
                own,
                used=used[own],
                before=present,
                odds=before / (1.0 - before),
            )
            squares[own[main]] = if_so[main]
        return across.learned(squares, included), included


def evidence_of(bins: Iterable[BinSums], *, weights: int, errors: int) -> tuple[FloatArray, FloatArray]:
    """Return precision (J, J) and precision-weighted mean (J,) of the weights from the tables of all bins.

    Let S_b be the covariance and U_b the `miscounted` of bin b. Together the sums have the covariance
    diag(S_b) + U U^T, where U stacks the U_b, as a cell's count has the same error in all bins. The inverse
    of this covariance is that of diag(S_b) minus a term of the rank of U (Woodbury).

    Args:
        bins: Tables of every bin.
        weights: Number J of weights.
        errors: Number E of errors of counts that all bins have in common.
    """
    precision, shift = np.zeros((weights, weights)), np.zeros(weights)
    inner, shared = np.eye(errors), np.zeros((errors, weights + 1))
    for one in bins:
        lower = np.linalg.cholesky(one.covariance)
        both = np.column_stack([one.maps, one.sums, one.miscounted])
        solved = solve_triangular(lower, both, lower=True, check_finite=False)
        told, off = solved[:, : weights + 1], solved[:, weights + 1 :]
        precision += told[:, :weights].T @ told[:, :weights]
        shift += told[:, :weights].T @ told[:, weights]
        inner += off.T @ off
        shared += off.T @ told
    half = solve_triangular(np.linalg.cholesky(inner), shared, lower=True, check_finite=False)
    precision -= half[:, :weights].T @ half[:, :weights]
    shift -= half[:, :weights].T @ half[:, weights]
    return (precision + precision.T) / 2.0, shift
