"""The recommended learner: arms on a fine grid, and one-bit questions about the least known quantities.

**Model.** The mean reward of arm k (of K) at the context x is f_k(x) = 1/2 + psi(x) w_k. The f_k are
Gaussian processes on the public grid of the spec (`local.contract.grid`), with features psi(x) and weights
w_k. Lengthscales and variances are averaged over (`models.averaged_regression`).

**Actions.** With actions, K functions of the context are the coefficients of smooth functions of the action
(`models.marginals.action_basis`): f(x, a) = 1/2 + sum_m B[a, m] psi(x) w_m, where B[a, m] is the value of
basis function m at action a. A report on one action then informs about its neighbours. A cell's action has
the largest public value of the drawn outcomes. Wherever the text says *arm*, an action has that role, and K
is the number of functions.

**Arms.** A version's arms are the best in each cell under a draw of the posterior. The draw's standard
deviation is multiplied by sqrt(temperature/K). For a product feature of variance S, about which reports
cannot be informative yet, it is also multiplied by sqrt(S n_S/(1 + S n_S)). Here n_S = 16 i (n + 200)/(K M),
where n is the number of reports, i the information of one report, and M = (sum S)^2/sum S^2. If i < .75, the
temperature is multiplied by sqrt(.75/i), at most by 2.

**One arm for all.** A version that names its columns (`learners.columns`) gives one arm in every cell if two
conditions hold. The best arm's mean reward exceeds that of every other arm by more than `_LEAD` posterior
standard deviations of the difference. The gain of the best arms of the cells over that arm is at most
`_PAYS` standard deviations of that gain. Thompson sampling in each cell would then cost reward for a gain
that may be noise. Every fourth version samples nevertheless: without its information about other arms no
gain would be found.

**Question.** A question is a sign phi(x) for every cell. Let p(x) be the probability of a cell, and a its
arm. Reports then estimate, for each part, the sum over its cells of 2 p(x) phi(x) (f_a(x) - 1/2), a linear
functional of the weights w. The signs follow a direction that is uncertain under the posterior. It starts as
a draw of the posterior about its mean. The posterior covariance is then applied to that draw's own
functional (one step of the power method, restricted to signs).

**Place.** The law of contexts p (`models.grid_density`) is learned from versions that ask for phi(x) alone.
Every functional depends on p, so all are computed anew when p was learned anew. With several parts, the
numbers of reports of the parts are further means under p.

**Sources** (`attach`). A source's evidence on the mean reward of an arm in a bin (`learners.evidence`) is a
linear functional of w too: the mean of psi over the bin, under p. A source may be biased: its rewards are
modelled as psi (w + c d), with d of the prior's own law. The constant c is the candidate of
`learners.transfer.DOUBTS` with the largest likelihood of the target's own reports; each larger candidate
must overcome odds of e. With d integrated out, a source's precision A and moment b become (1 + c^2 A S)^-1 A
and (1 + c^2 A S)^-1 b, where S are the prior variances. A behaviour policy that looks at the context within
a bin adds the tree's own spread to the variance of every bin.

**Cost.** A version costs the computation of its arms and signs. The full update runs after n = 1.3^k
reports, so that the cost of a report does not grow with their number. Questions of the last 2,048 versions
are stored; the evidence of older versions is frozen.

**Drift** (`forget`, a half-life h in reports). A report has weight 2^-(a/h) after a further reports. The
precisions of all questions, and of the law of contexts, decay accordingly. Wherever the text above refers to
the number of reports, the sum of weights is used. The full update therefore runs at least every .3 h/ln 2
reports, and versions older than 10 h are dropped.

Privacy: post-processing of reports; the choice of questions does not change the guarantee, see
`local.contract.grid`. Source: this library.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState
from dpbandits.local.contract.grid import Grid, PublishedQuestions
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import Counted, child_spread, grouped_estimate, raised_variance
from dpbandits.local.learners.evidence import SourceEvidence, sources_in, sources_to_arrays
from dpbandits.local.learners.transfer import DOUBTS, STEP_COST
from dpbandits.local.learners.tree import TreeConstants
from dpbandits.models.averaged_regression import AveragedRegression
from dpbandits.models.features.products import ProductFeatures
from dpbandits.models.forgetting import counting, kept_after
from dpbandits.models.grid_density import GridDensity
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.policy.coins import PublicCoins

__all__ = ["GROWTH", "RENEWAL", "QuestionConstants", "QuestionLearner"]

# The features and the constants of the models were taken over from earlier work and compared with
# neighbouring values on tuning worlds. `temperature`, `places`, `_CLEAR` and `_WIDEST` were tuned there. The
# list is in docs/evidence/local.md.
_FEATURES, _PLACE_FEATURES = 64, 144

# The posterior's memory grows with the square of the number of weights, so many arms have fewer features
# each.
_MOST_WEIGHTS, _FEWEST_FEATURES = 768, 8

# The full update runs when the number of reports has grown by the factor `GROWTH`, first at `_FIRST_LOOK`;
# the posterior alone is updated at the factor `RENEWAL`.
GROWTH, _FIRST_LOOK, RENEWAL = 1.3, 500, 1.03

# Reports that each product feature is credited with at the start, and reports per unit of its variance: arms
# explore a product once reports can inform about it.
_HEAD_START, _TOLD = 200, 16.0

# If one report has less information than this, arms are drawn more widely, as learners settle too early on
# noise.
_CLEAR, _WIDEST = 0.75, 2.0

# One arm is given in all cells if it leads by more than the first constant and the gain of the cells' own
# arms is at most the second, in posterior deviations (`python -m reproduction.tuning.local_columns --made`).
_LEAD, _PAYS = 1.0, 1.0

# One version in `_LOOK` samples arms by cell regardless; gains below `_ROUNDING` are rounding errors.
_LOOK, _ROUNDING = 4, 1e-12

# Columns are chosen by Thompson sampling, with standard deviations multiplied by sqrt(this/number of arms).
_GAIN_TEMPERATURE = 0.2

_CHILD_SD = TreeConstants().child_sd

ACTION_SD = 1.5
"""Prior standard deviation of the change of outcomes along the action, in units of that of their level.

It was set by hand: no committed trial compares it with other values."""

_LAW = ("weights", "factor", "variance")
"""Names of the arrays that store the learned distribution of contexts."""

_MOST_KEPT = 2048
"""Largest number of versions whose questions are stored."""

_EPOCHS, _GONE = 8, 10
"""Number of parts of a half-life whose counts are stored separately, and multiple of a half-life after which
a version is dropped."""


@dataclass(frozen=True, kw_only=True)
class QuestionConstants:
    """Public constants of the learner.

    Attributes:
        temperature: Factor on the posterior variance in Thompson sampling, divided by the number of arms;
            it is raised if reports carry little information, see the module.
        places: Weight of a question about the place. It is asked if this factor times its standard deviation
            exceeds that of a question about rewards; both estimate means from -1 to 1.
        constant_sd: Prior standard deviation of an arm's level.
        parts: Number of parts of a question; None for `GridLayout.n_parts`.
        forget: Half-life in reports, see the module; None if all reports have equal weight.
    """

    temperature: float = 0.4
    places: float = 0.25
    constant_sd: float = 0.24
    parts: float | None = None
    forget: float | None = None


class _Told:
    """Questions of V versions over G cells and C parts, and the sums of their reports.

    Attributes:
        number: Version numbers (V,), ascending if versions arrived in order.
        table: Twice the arm of each cell, plus 1 if its sign is turned, shape (V, G).
        parts: Part of each cell, shape (V, G).
        n: Numbers of reports, shape (V,).
        sums: Signed sums of the parts, shape (V, C).
        moments: Variance of a part's sum for one report, for users in the part and for others, shape (V, 2).
        at: Mean of the total number of reports at the times when a version's reports arrived, shape (V,).
    """

    names = ("number", "table", "parts", "n", "sums", "moments", "at")

    def __init__(self, n_cells: int, n_parts: int) -> None:
        self.number, self.n = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.table = np.zeros((0, n_cells), dtype=np.int16)
        self.parts = np.zeros((0, n_cells), dtype=np.uint8)
        self.sums, self.moments, self.at = np.zeros((0, n_parts)), np.zeros((0, 2)), np.zeros(0)
        self._waiting: list[tuple[Any, ...]] = []

    def add(
        self, published: PublishedQuestions, sums: FloatArray, n: int, moments: FloatArray, *, at: int
    ) -> None:
        codes = (2 * np.asarray(published.arms) + published.turned).astype(np.int16)
        parts = published.parts.astype(np.uint8)
        self._waiting.append((published.version, codes, parts, n, sums, moments, at))

    def settle(self) -> "_Told":
        """Convert the entries that were added to arrays, and merge entries of the same version."""
        if self._waiting:
            columns = zip(self.names, zip(*self._waiting, strict=True), strict=True)
            for name, rows in columns:
                before = getattr(self, name)
                setattr(self, name, np.concatenate([before, np.array(rows, dtype=before.dtype)]))
            self._waiting = []
            number, first, which = np.unique(self.number, return_index=True, return_inverse=True)
            if len(number) < len(self.number):
                self._join(first, which)
        return self

    def _join(self, first: IntArray, which: IntArray) -> None:
        total = np.bincount(which, weights=self.n)
        sums, moments = np.zeros((len(first), self.sums.shape[1])), np.zeros((len(first), 2))
        np.add.at(sums, which, self.sums)
        np.add.at(moments, which, self.moments * self.n[:, None])
        self.at = np.bincount(which, weights=self.at * self.n) / total
        self.sums, self.moments, self.n = sums, moments / total[:, None], total.astype(np.int64)
        self.number, self.table, self.parts = self.number[first], self.table[first], self.parts[first]

    def hear(self, other: "_Told", at: IntArray) -> None:
        """Add the entries of `other`, which has a coarser grid.

        Cell g of this grid lies in its cell `at[g]`.
        """
        self.settle()
        for name in self.names:
            rows = getattr(other, name)
            rows = rows[:, at] if name in ("table", "parts") else rows
            setattr(self, name, np.concatenate([getattr(self, name), rows]))

    @property
    def arms(self) -> IntArray:
        return np.asarray(self.table >> 1, dtype=np.int64)

    @property
    def signs(self) -> FloatArray:
        return np.asarray(1.0 - 2.0 * (self.table & 1), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.number)

    def keep(self, rows: "slice | IntArray") -> None:
        for name in self.names:
            setattr(self, name, getattr(self, name)[rows])


class QuestionLearner:
    """A `Learner` for specs with `learner="questions"` over `grid`.

    The default is the spec's grid over all columns.
    """

    Constants: ClassVar = QuestionConstants

    def __init__(self, spec: Spec, constants: QuestionConstants, *, grid: Grid | None = None) -> None:
        self.constants, self.n_arms = constants, spec.n_arms
        self.n_parts = n_parts = spec.protocol.grids.n_parts
        self._half_life = constants.forget
        self.grid = grid = spec.protocol.grids.whole if grid is None else grid
        self._centres = grid.centres
        known = spec.protocol.codes
        codes = {place: known[one] for place, one in enumerate(grid.columns) if one in known}
        codes = codes if grid.columns else dict(known)
        self._actions, self._bounds = spec.actions, spec.reward_range
        self._basis = _basis_of(spec)
        self._n_functions = size = self._basis.shape[1]
        n_features = max(_FEWEST_FEATURES, min(_FEATURES, _MOST_WEIGHTS // size))
        features = ProductFeatures(self._centres, categories=codes, n_features=n_features)
        self._model = AveragedRegression(features, n_functions=size, constant_sd=constants.constant_sd)
        places = ProductFeatures(self._centres, categories=codes, n_features=_PLACE_FEATURES)
        self._density = GridDensity(places)
        self._surprise = math.inf
        self._rewards, self._places, self._counts = (_Told(grid.size, n_parts) for _ in range(3))
        self._old = np.zeros_like(self._model.precision), np.zeros_like(self._model.moment)
        self._parts = self._density.boxes(self._centres, n_parts)
        self._sources: dict[str, _Source] = {}
        self._heard = np.zeros((size, size + 1))
        self.reports, self._renewed, self._looked = 0, 0, 0
        even = np.array(1.0 / n_parts)
        self._tells = 1.0 / float(spec.protocol.mechanism_for(n_parts).moments.signed_variance(even))

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """Return a fresh learner for the spec. Raise TypeError if the spec has a constant of unknown name."""
        return cls(spec, QuestionConstants(**spec.tuning.constants))

    @property
    def tells(self) -> float:
        """Information of one report about a function that varies much: 1/variance of a part's sum."""
        return self._tells

    @property
    def gain(self) -> float:
        """Expected gain in reward of the best arm in each cell over the best single arm."""
        return self._gain(self._model.mean)

    def _gain(self, weights: FloatArray) -> float:
        levels, p = self._ranked(weights), self._density.p
        return float(p @ levels.max(axis=1) - (p @ levels).max())

    def _levels(self, weights: FloatArray) -> FloatArray:
        """Return the levels of K arms or actions in each of G cells, shape (G, K), from the functions'
        weights.

        A level is the expected reward or outcome, minus 1/2, scaled to a range of width 1.
        """
        levels = self._model.features.values @ weights.T
        return levels if self._actions is None else levels @ self._basis.T

    def _ranked(self, weights: FloatArray) -> FloatArray:
        """Return the numbers (G, K) of which the largest decides: the levels of arms, or the values of
        actions.
        """
        levels = self._levels(weights)
        if self._actions is None:
            return levels
        return self._actions.ranked(self._bounds.low + self._bounds.width * (0.5 + levels), self._bounds)

    def _cells_of(self, columns: tuple[int, ...]) -> IntArray:
        """Return for each of G cells the cell of the grid over `columns` that contains it, (G,)."""
        places = np.unravel_index(np.arange(self.grid.size), self.grid.sizes)
        at = [self.grid.columns.index(column) for column in columns]
        sizes = tuple(self.grid.sizes[one] for one in at)
        return np.asarray(np.ravel_multi_index([places[one] for one in at], sizes))

    def widened(self, published: PublishedQuestions) -> PublishedQuestions:
        """Return a version that covers some of the grid's columns as a version that covers all of them."""
        if published.columns == self.grid.columns:
            return published
        at = self._cells_of(published.columns)
        arms, parts = np.asarray(published.arms)[at], published.parts[at]
        return replace(
            published, arms=arms, parts=parts, turned=published.turned[at], columns=self.grid.columns
        )

    def hear(self, other: "QuestionLearner") -> None:
        """Add the evidence of a learner over some of the grid's columns. Call `look` afterwards."""
        at, theirs = self._cells_of(other.grid.columns), other._all_told()
        for kind, told in self._all_told().items():
            told.hear(theirs[kind].settle(), at)
        self.reports += other.reports

    def look(self) -> None:
        """Run the full update: learn the model's parameters anew from all reports."""
        self._look_again()
        self._renewed = self.reports

    def resist(self, surprise: float) -> None:
        """Limit the effect of forged reports from now on; see `PosteriorLearner.resist`."""
        self._surprise = surprise

    @property
    def places(self) -> FloatArray:
        """Expected distribution of contexts over the G cells of the grid, shape (G,)."""
        return np.asarray(self._density.p)

    def leading(self) -> IntArray:
        """Return the arm with the largest expected reward in each of the G cells, shape (G,)."""
        return np.asarray(self._ranked(self._model.mean).argmax(axis=1))

    def drawn_gain(self, version: int, coins: PublicCoins) -> float:
        """Return the gain of arms by cell under a draw of the posterior.

        The draw's public coins differ from those of the version's arms.

        Args:
            version: Number of the version.
            coins: Public coins of the server.
        """
        model, own = self._model, "".join(f"/{one}" for one in self.grid.columns)
        normals = coins.normal(f"columns/{version}{own}", 0, 1, model.moment.size)[0]
        share = math.sqrt(_GAIN_TEMPERATURE / self._n_functions)
        return self._gain(model.mean + share * model.deviation(normals))

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedQuestions:
        """Return a version with arms by Thompson sampling and a question.

        It depends on reports and public coins only.
        """
        model, size = self._model, self._model.moment.size
        normals = coins.normal(f"questions/{version}", 0, 2, size)
        weights = model.mean + self._shrunk() * model.deviation(normals[0])
        drawn = self._ranked(weights)
        arms = drawn.argmax(axis=1)
        if self.grid.columns and (version + 1) % _LOOK and self._one_for_all():
            arms = np.full(len(arms), int((self._density.p @ drawn).argmax()))
        signs, doubt = self._least_known(arms, normals[1])
        n_features = self._density.weights.size
        place = self._density.least_known(coins.normal(f"places/{version}", 0, 1, n_features)[0])
        about_place = self.constants.places * self._density.doubt(place) > doubt
        if about_place:
            signs = place
        return PublishedQuestions(
            version=version,
            arms=arms,
            parts=self._parts,
            turned=signs < 0.0,
            about="place" if about_place else "reward",
            columns=self.grid.columns,
        )

    def count(self, spec: Spec, published: PublishedQuestions, counted: Counted) -> None:
        """Learn from counted reports on the version `published`."""
        signed, count, n, m = grouped_estimate(counted)
        # (2,) variances, for one report, of a part's signed sum and of its count: for users in the part, and
        # for others. The number of users in the part is random too, which adds share (1 - share) <= share.
        signed_law = np.array([m.signed_own, m.signed_other])
        count_law = np.array([m.count_own + 1.0, m.count_other])
        self.reports += n
        self._model.fade(float(kept_after(n, self._half_life)))
        if self.n_parts > 1:
            # Counts are sums of users in parts, which many versions share: merge versions of about the same
            # age.
            epoch = 0 if self._half_life is None else int(_EPOCHS * self.reports / self._half_life)
            common = zlib.crc32(published.parts.astype(np.uint8).tobytes(), epoch)
            self._counts.add(replace(published, version=common), count, n, count_law, at=self.reports)
        told = self._places if published.about == "place" else self._rewards
        if told is self._rewards and self._surprise < math.inf:
            signed_law *= self._raised(published, signed, n, signed_law)
        told.add(published, signed, n, signed_law, at=self.reports)
        if told is self._rewards:
            self._model.tell(*self._functionals(self._alone(published, signed, n, signed_law)))

    def _alone(self, published: PublishedQuestions, sums: FloatArray, n: int, moments: FloatArray) -> _Told:
        one = _Told(len(self._centres), self.n_parts)
        one.add(published, sums, n, moments, at=self.reports)
        return one.settle()

    def _raised(self, published: PublishedQuestions, signed: FloatArray, n: int, law: FloatArray) -> float:
        """Return the factor on a version's variance with which no part's sum is too surprising."""
        functionals, means, variances = self._functionals(self._alone(published, signed, n, law))
        error = means - functionals @ self._model.mean.ravel()
        belief = np.array([row @ self._model.solve(row) for row in functionals])
        raised = raised_variance(variances, belief=belief, error=error, surprise=self._surprise)
        return float((raised / variances).max())

    @property
    def told_levels(self) -> FloatArray:
        """Precision and moment of the levels of K functions from own reports, as one array (K, K + 1).

        A level is a function's mean over all users; for an arm, the mean reward minus 1/2. The prior and the
        input of `hear_levels` are subtracted.
        """
        model, row = self._model, self._density.p @ self._model.features.values
        mean, covariance = model.law(np.kron(np.eye(self._n_functions), row))
        whole = np.linalg.inv(covariance)
        prior = np.eye(self._n_functions) / (row**2 @ model.variances)
        told = np.column_stack([whole - prior, whole @ mean]) - self._heard
        # Rounding makes precisions asymmetric. Columns exchange them, so the asymmetry would grow without
        # this.
        told[:, :-1] = (told[:, :-1] + told[:, :-1].T) / 2.0
        return told

    def hear_levels(self, told: FloatArray) -> None:
        """Use what reports on other columns say about the levels, instead of the previous input.

        Args:
            told: (K, K + 1) precision and moment, as in `told_levels`.
        """
        self._heard = told
        self._place_heard()
        self._model.renew()

    def _place_heard(self) -> None:
        """Write the input of `hear_levels` as precision and moment of the model's weights."""
        if self._heard.any():
            row, told = self._density.p @ self._model.features.values, self._heard
            precision, moment = np.kron(told[:, :-1], np.outer(row, row)), np.kron(told[:, -1], row)
            self._model.heard = np.asarray(precision), np.asarray(moment)

    def refine(self) -> None:
        """Run the full update, or only update the posterior, if enough reports have arrived."""
        if self.reports >= max(_FIRST_LOOK, self._due(self._looked, GROWTH)):
            self._look_again()
        elif self.reports >= self._due(self._renewed, RENEWAL):
            self._model.renew()
        else:
            return
        self._renewed = self.reports

    def _due(self, before: int, growth: float) -> float:
        """Return the total number of reports at which their weighted number has grown by the factor `growth`.

        The growth is measured from the time when there were `before` reports.
        """
        if self._half_life is None:
            return growth * before
        return before + (growth - 1.0) * counting(before, self._half_life)

    def follow(self, published: PublishedQuestions) -> None:
        """Update the learner as for a publication.

        The published questions are stored when their reports are counted.
        """
        self.refine()

    @property
    def doubts(self) -> dict[str, float]:
        """Estimated error c of each source; infinity if it is dropped."""
        return {name: source.doubt for name, source in self._sources.items()}

    def check(self, evidence: SourceEvidence) -> None:
        """Raise an error for evidence that does not fit this learner; see `SourceEvidence.check`."""
        evidence.check(dim=self._centres.shape[1], n_arms=self.n_arms)

    def attach(self, name: str, evidence: SourceEvidence, *, least_doubt: float = 0.0) -> None:
        """Add a source, or replace its earlier evidence, and run the full update.

        Args: As for `TransferTree.attach`. Errors are those of `check`.
        """
        self.check(evidence)
        before = self._sources.get(name)
        self._sources[name] = _Source(evidence, least_doubt, 0.0 if before is None else before.doubt)
        self.look()

    def jump_start(self) -> None:
        """Do nothing, because `attach` has run the full update."""

    def estimate(self, spec: Spec, published: PublishedQuestions) -> PublishedQuestions:
        """Return the version with expected rewards, constant within a cell; see `Server.estimate`."""
        bounds = spec.reward_range
        mean = 0.5 + self._levels(self._model.mean)
        sd = self._model.spread(None if self._actions is None else self._basis)
        return replace(published, mean=bounds.low + bounds.width * mean, sd=bounds.width * sd)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays; see `Learner.to_arrays`."""
        arrays = {
            f"{kind}.{name}": getattr(told.settle(), name)
            for kind, told in self._all_told().items()
            for name in told.names
        }
        model = {f"model.{name}": getattr(self._model, name) for name in self._model.kept}
        law = {f"law.{name}": np.asarray(getattr(self._density, name)) for name in _LAW}
        old = {"old.precision": self._old[0], "old.moment": self._old[1], "parts": self._parts}
        old["heard"] = self._heard
        arrays |= sources_to_arrays(self._sources)
        return arrays | model | law | old | {"reports": np.array([self.reports, self._renewed, self._looked])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        before = self.to_arrays()
        free = {f"{kind}.{name}" for kind, told in self._all_told().items() for name in told.names}
        for name, now in before.items():
            one = arrays[name]
            same = one.shape[1:] == now.shape[1:] if name in free else one.shape == now.shape
            if not same or one.dtype != now.dtype:
                raise IncompatibleState("the stored state belongs to another learner")
        for kind, told in self._all_told().items():
            for name in told.names:
                setattr(told, name, arrays[f"{kind}.{name}"].copy())
        for name in self._model.kept:
            setattr(self._model, name, arrays[f"model.{name}"].copy())
        self._density.weights = arrays["law.weights"].copy()
        self._density.factor = arrays["law.factor"].copy()
        self._density.variance = float(arrays["law.variance"])
        self._old = arrays["old.precision"].copy(), arrays["old.moment"].copy()
        self._parts, self._heard = arrays["parts"].copy(), arrays["heard"].copy()
        self.reports, self._renewed, self._looked = arrays["reports"].tolist()
        self._sources = {}
        for name, evidence, doubts in sources_in(arrays, dim=self._centres.shape[1]):
            self.check(evidence)
            self._sources[name] = _Source(evidence, *doubts)
        self._model.restored()
        self._density.look()
        self._place_heard()

    def _all_told(self) -> dict[str, _Told]:
        return {"rewards": self._rewards, "places": self._places, "counts": self._counts}

    # -- questions --------------------------------------------------------------------------------------

    def _shrunk(self) -> FloatArray:
        """Return factors on the standard deviations of a posterior draw, one per feature, (F,)."""
        variances = self._model.variances
        effective = variances.sum() ** 2 / (variances**2).sum()
        reports = counting(self.reports, self._half_life) + _HEAD_START
        told = _TOLD * self._tells * reports / (self._n_functions * effective)
        share = variances * told / (1.0 + variances * told)
        wider = min(_WIDEST, math.sqrt(max(1.0, _CLEAR / self._tells)))
        return np.asarray(np.sqrt(self.constants.temperature * wider / self._n_functions * share))

    def _one_for_all(self) -> bool:
        """Return True if the version gives one arm in all cells; the module states the conditions.

        For actions, values are treated as linear in the outcome here, and the declared shape is ignored.
        """
        slopes, offsets = self._lines
        row, each = self._density.p @ self._model.features.values, np.eye(self.n_arms)
        levels = np.kron(each if self._actions is None else slopes[:, None] * self._basis, row)
        values = levels @ self._model.mean.ravel() + offsets
        best, cells = int(values.argmax()), self.leading()
        by_cell = self._asked(slopes[cells], cells) / 2.0
        leads = levels[best] - np.delete(levels, best, axis=0)
        mean, covariance = self._model.law(np.vstack([leads, by_cell - levels[best]]))
        mean = mean + np.append(offsets[best] - np.delete(offsets, best), self._density.p @ offsets[cells])
        mean[-1] -= offsets[best]
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        told = mean[-1] > max(_PAYS * deviation[-1], _ROUNDING)
        return not told and bool((mean[:-1] > _LEAD * deviation[:-1]).all())

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        if self._actions is None:
            return np.ones(self.n_arms), np.zeros(self.n_arms)
        ends = np.repeat([[self._bounds.low], [self._bounds.high]], self.n_arms, axis=1)
        low, high = self._actions.values_of(ends)
        return high - low, (low + high) / 2.0

    def _least_known(self, arms: IntArray, normals: FloatArray) -> tuple[FloatArray, float]:
        """Return the signs (G,) of an uncertain question about these arms.

        Also return the standard deviation of its answer.
        """
        signs = self._signs(self._model.deviation(normals), arms)
        covariance = self._model.solve(self._asked(signs, arms))
        signs = self._signs(covariance.reshape(self._n_functions, -1), arms)
        functional = self._asked(signs, arms)
        return signs, math.sqrt(max(0.0, float(functional @ self._model.solve(functional))))

    def _asked(self, signs: FloatArray, arms: IntArray) -> FloatArray:
        """Return the functional of the weights (K F,) that reports with these signs estimate."""
        asked = 2.0 * self._density.p * signs
        everyone = np.zeros((self._n_functions, len(arms)))
        if self._actions is None:
            everyone[arms, np.arange(len(arms))] = asked
        else:
            everyone = self._basis[arms].T * asked
        return np.asarray((everyone @ self._model.features.values).ravel())

    def _signs(self, weights: FloatArray, arms: IntArray) -> FloatArray:
        levels = self._levels(weights)
        return np.where(levels[np.arange(len(arms)), arms] < 0.0, -1.0, 1.0)

    # -- learning ---------------------------------------------------------------------------------------

    def _functionals(self, told: _Told) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what the reports of V versions with C parts estimate.

        The result is the functionals of the weights for one report (V C, K F), their estimated means, and
        the variances of the estimates.
        """
        n_versions, n_parts, p = len(told), self.n_parts, self._density.p
        cell = np.arange(n_versions)[:, None] * n_parts + told.parts
        asked, across = 2.0 * p * told.signs, np.tile(np.arange(len(p)), n_versions)
        if self._actions is None:
            shape = (n_versions * n_parts * self.n_arms, len(p))
            places = (cell * self.n_arms + told.arms).ravel(), across
            who = sparse.csr_matrix((asked.ravel(), places), shape=shape)
            functionals = (who @ self._model.features.values).reshape(n_versions * n_parts, -1)
        else:  # a loop over functions, as one matrix of them all would take their number times the memory
            places, arms = (cell.ravel(), across), told.arms.ravel()
            shape = (n_versions * n_parts, len(p))
            functionals = np.concatenate(
                [
                    sparse.csr_matrix((asked.ravel() * own[arms], places), shape=shape)
                    @ self._model.features.values
                    for own in self._basis.T
                ],
                axis=1,
            )
        share = self._shares(told)
        own, others = told.moments.T[:, :, None]
        variance = (share * own + (1.0 - share) * others) / self._counting(told)
        return functionals, (told.sums / told.n[:, None]).ravel(), variance.ravel()

    def _counting(self, told: _Told) -> FloatArray:
        """Return the weighted number of reports of each of V versions, shape (V, 1)."""
        return np.asarray(told.n * kept_after(self.reports - told.at, self._half_life))[:, None]

    def _shares(self, told: _Told) -> FloatArray:
        """Return the probabilities of the C parts in V versions, shape (V, C).

        They use the learned distribution of contexts.
        """
        cell = np.arange(len(told))[:, None] * self.n_parts + told.parts
        weights = np.broadcast_to(self._density.p, cell.shape).ravel()
        shares = np.bincount(cell.ravel(), weights=weights, minlength=len(told) * self.n_parts)
        return np.asarray(shares.reshape(len(told), self.n_parts), dtype=np.float64)

    def _look_again(self) -> None:
        """Compute the law of contexts, functionals, lengthscales, variances and posterior anew."""
        kept = float(kept_after(self.reports - self._looked, self._half_life))
        self._old = kept * self._old[0], kept * self._old[1]
        if self._half_life is not None:
            since = self.reports - _GONE * self._half_life
            for told in self._all_told().values():
                told.settle().keep(np.flatnonzero(told.at > since))
        self._learn_places()
        rewards = self._rewards.settle()
        if len(rewards) > _MOST_KEPT:
            cut = len(rewards) - _MOST_KEPT // 2
            old, recent = _Told(len(self._centres), self.n_parts), slice(cut, None)
            for name in rewards.names:
                setattr(old, name, getattr(rewards, name)[:cut])
            self._model.precision[:], self._model.moment[:] = self._old
            self._model.tell(*self._functionals(old))
            self._old = self._model.precision.copy(), self._model.moment.copy()
            rewards.keep(recent)
        self._model.precision[:], self._model.moment[:] = self._old
        if len(rewards):
            self._model.tell(*self._functionals(rewards))
        if self._sources:
            self._hear_sources()
        self._place_heard()
        self._model.learn_laws()
        self._model.renew()
        self._parts = self._density.boxes(self._centres, self.n_parts)
        self._looked = self.reports

    def _hear_sources(self) -> None:
        """Add the evidence of sources, each discounted by its most likely error."""
        model, values, p = self._model, self._model.features.values, self._density.p
        own = np.concatenate([model.precision, model.moment[:, None]], axis=1)
        scale = np.tile(model.variances, self.n_arms)
        told = {name: one.told(self._centres, values, p) for name, one in self._sources.items()}
        heard = {name: _discounted(told[name], scale, one.doubt) for name, one in self._sources.items()}
        for name, source in self._sources.items():
            others = sum((one for other, one in heard.items() if other != name), np.zeros_like(own))
            found = [others + _discounted(told[name], scale, doubt) for doubt in DOUBTS]
            scores = [model.log_evidence(own + one) - model.log_evidence(one) for one in found]
            best = int(np.argmax(np.array(scores) - STEP_COST * np.arange(len(DOUBTS))))
            source.doubt, heard[name] = DOUBTS[best], found[best] - others
        whole = own + sum(heard.values())
        model.precision[:], model.moment[:] = whole[:, :-1], whole[:, -1]

    def _learn_places(self) -> None:
        functions, means, precisions = [], [], []
        for told, signs in ((self._places.settle(), True), (self._counts.settle(), False)):
            if len(told):
                inside = told.parts[:, None, :] == np.arange(self.n_parts)[:, None]
                signed = inside * told.signs[:, None] if signs else inside.astype(np.float64)
                share, own, others = self._shares(told), *told.moments.T[:, :, None]
                functions.append(signed.reshape(-1, inside.shape[2]))
                means.append((told.sums / told.n[:, None]).ravel())
                precisions.append((self._counting(told) / (share * own + (1.0 - share) * others)).ravel())
        if functions:
            self._density.learn(*(np.concatenate(one) for one in (functions, means, precisions)))


def _basis_of(spec: Spec) -> FloatArray:
    """Return the values (K, M) of the model's M functions at each of K actions.

    The result is the identity for plain arms.
    """
    if spec.actions is None:
        return np.eye(spec.n_arms)
    basis = ActionBasis(spec.actions.sizes, spec.actions.ordered)
    return basis.table * np.where(basis.term_of > 0, ACTION_SD, 1.0)


def _discounted(told: FloatArray, variances: FloatArray, doubt: float) -> FloatArray:
    """Return precision and moment of a source's evidence after a discount, as one array (K F, K F + 1).

    `doubt` is the constant c of the module, and `variances` (K F,) are those of the prior.
    """
    if math.isinf(doubt):
        return np.zeros_like(told)
    spread = np.eye(len(told)) + doubt**2 * told[:, :-1] * variances
    solved = np.linalg.solve(spread, told) if doubt else told.copy()
    solved[:, :-1] = (solved[:, :-1] + solved[:, :-1].T) / 2.0
    return np.asarray(solved, dtype=np.float64)


class _Source:
    """Evidence of a source, and its estimated error.

    Attributes:
        evidence: Evidence of the source's bins.
        least_doubt: Smallest standard deviation within a bin, in units of the tree's spread.
        doubt: The constant c, see the module.
    """

    def __init__(self, evidence: SourceEvidence, least_doubt: float, doubt: float) -> None:
        self.evidence, self.least_doubt, self.doubt = evidence, least_doubt, doubt

    def told(self, centres: FloatArray, values: FloatArray, p: FloatArray) -> FloatArray:
        """Return precision and moment of the weights from this source, as one array (K F, K F + 1).

        `centres` and `values` (G, F) are the cells' centres and features, and `p` (G,) their probabilities.
        """
        partition, local = self.evidence.partition, self.evidence.local
        nodes = np.flatnonzero((local.precision > 0.0).any(axis=1))
        low, high = partition.low[nodes, None], partition.high[nodes, None]
        inside = ((centres >= low) & (centres < high)).all(axis=2) * p
        empty = ~inside.any(axis=1)  # a bin without a cell's centre is represented by the nearest cell
        middle = (low[empty] + high[empty]) / 2.0
        inside[empty, ((centres - middle) ** 2).sum(axis=2).argmin(axis=1)] = 1.0
        rows = (inside / inside.sum(axis=1, keepdims=True)) @ values
        spread = self.least_doubt * child_spread(_CHILD_SD, partition.depth[nodes], partition.dim)
        precision = local.precision[nodes]
        safe = np.where(precision > 0.0, precision, 1.0)
        kept = precision / (1.0 + precision * spread[:, None] ** 2)
        means = kept * (local.moment[nodes] / safe - 0.5)
        n_arms, size = precision.shape[1], rows.shape[1]
        whole = np.zeros((n_arms * size, n_arms * size + 1))
        for arm in range(n_arms):
            at = slice(arm * size, (arm + 1) * size)
            whole[at, at] = (rows * kept[:, arm, None]).T @ rows
        whole[:, -1] = (means.T @ rows).ravel()
        return whole
