r"""Explore uniformly, then answer privately, or publish the whole function once for everyone.

Implements uniform sampling with covariance approximation (Pavlovic2025, Algorithm 1) in its population
form. It departs from the paper (as printed in `dpbandits.central.published.pavlovic2025`) as follows:

- The covariance of the approximating set is replaced by the covariance that it approximates. This is
  diagonal in the kernel operator's eigenbasis, so the cost depends on the number of cells and not on that of
  rounds.
- Rewards have a public cap per cell. The range sensitivity of the scores is computed exactly, instead of
  2 B sup sigma-bar^2, which is 2 to 5 times larger.
- Answers are drawn by permute-and-flip instead of the exponential mechanism.
- The ridge follows a rule that is fixed before data.
- `publish()` releases the whole function once, at (epsilon, delta), for any number of predictions.

Privacy: joint DP. The unit is one user's whole contribution of at most `rounds_per_user` rows. Noise is added
to raw data in three places: `answer`, `FunctionRelease.release`, and `TableRelease.release` for marginal
tables, which are the default for contexts and arms.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._calls import caller_level, worded
from dpbandits._config import Configured
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, IntArray
from dpbandits.budget import Cost, cost_of, together
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.foresight import FLAT_POINTS, flat_column
from dpbandits.central.logged.action_tables import UNSAID, WEIGHTED_BOUND, ActionTableRelease, Logged
from dpbandits.central.logged.calibration import (
    ExpectedError,
    NothingToLearn,
    calibrate,
)
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.people import (
    actions_in,
    cells_of,
    law_or_schema,
    measure_of,
    people_config,
    people_menu,
)
from dpbandits.central.logged.product_tables import ProductTableRelease
from dpbandits.central.logged.rows import (
    CellRules,
    Shard,
    check_cells,
    one_row,
    reference_of,
)
from dpbandits.central.logged.sums import MOST_ROWS
from dpbandits.central.logged.tables import TableCalibration, TableRelease, TableRules
from dpbandits.central.marginals.statement import logged_tables_guarantee
from dpbandits.central.published_function import PublishedCells, PublishedFunction
from dpbandits.central.statement import RELEASE_NOTE, Setting, explore_guarantee, explore_records
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.models.features.eigen import DEFAULT_TOLERANCE, EigenFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.marginals import tables_hold
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import KeptPolicy, PolicyOptions, PublicCoins
from dpbandits.policy.rounds import round_taken
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.release_terms import Release
from dpbandits.privacy.selection import permute_and_flip
from dpbandits.state.holder import in_turn
from dpbandits.tables import Actions, Products, Schema
from dpbandits.tables.columns import Column, Range
from dpbandits.tables.menu import Menu
from dpbandits.tables.owners import Owners
from dpbandits.tables.products import arms_from_config

__all__ = ["Answer", "ExploreThenCommit", "ExploreTuning", "NothingToLearn", "release_for"]

ReleaseName = Literal["features", "marginals"]
"""Name of a kind of release of `publish()`; see `ExploreTuning.release`."""

_ANSWER_STREAM = 7_000
_RELEASED = ("released_mean", "released_sd", "released_cuts", "released_rows")
"""Names of the arrays of a saved release; a release of features has the first two, and the last one is there
for logged actions with weights.
"""


@dataclass(frozen=True)
class Answer:
    """Action that was chosen privately as the best at a context.

    Attributes:
        index: Index of the action's cell.
        action: Point of the action, (d,).
        number: Number of answers given so far, including this one.
        arm: Label of the arm, if the policy was built with `arms`; else None.
    """

    index: int
    action: FloatArray
    number: int
    arm: Label | None = None


@worded
@dataclass(frozen=True, kw_only=True)
class ExploreTuning(Configured):
    """Public settings of an `ExploreThenCommit` that most users leave at their defaults.

    Args:
        release: Kind of release of `publish()`; None chooses by `release_for`, from public numbers.

            - "features": sums of rewards times smooth features, with Gaussian noise.
            - "marginals": for contexts and arms, tables over few columns at a time, pure epsilon if delta is
              0; see `dpbandits.central.logged.tables`. There are no single answers.
        publish_epsilon: Part of epsilon for `publish()`, which uses all of delta. By default all that is left
            of epsilon if delta > 0, else none.
        answer_epsilon: Privacy loss of each answer. By default one answer uses all that publishing leaves.
        reference: Public guess of the mean reward, which predictions shrink to; default the middle.
        bound: Clipping bound of weighted rewards less the reference; default the largest distance of a reward
            from it. With weights well above 1, a larger bound has less bias and more noise.
        ridge: Regularisation tau for answers and `publish()`, instead of the rule's choice for each.
        tolerance: See `EigenFeatures`.
        logged: How logged actions were drawn; required for a grid of actions, and only for it:

            - "steps": every step was equally likely, as `ExploreThenCommit.explore` draws them.
            - "numbers": numbers were drawn evenly from each `Range`.
            - "propensities": `learn` gets the chance of every row's step.
            - "densities": `learn` gets densities as `propensities`. A density is per unit of every `Range`,
              and a probability for the other columns. There is at least one `Range`.

            With "numbers" and "densities" a number between two steps counts as the nearer one. Otherwise its
            row counts zero.
    """

    release: ReleaseName | None = None
    publish_epsilon: float | None = None
    answer_epsilon: float | None = None
    reference: float | None = None
    bound: float | None = None
    ridge: float | None = None
    tolerance: float = DEFAULT_TOLERANCE
    logged: Logged | None = None

    def __post_init__(self) -> None:
        _checks.number(self.tolerance, name="tolerance")
        for name in ("publish_epsilon", "answer_epsilon"):
            if (given := getattr(self, name)) is not None:
                _checks.number(given, name=name, exclusive=False)
        if self.release is not None:
            _checks.one_of(self.release, get_args(ReleaseName), name="release")
        if self.logged is not None:
            _checks.one_of(self.logged, get_args(Logged), name="logged")


def release_for(
    menu: Menu | None, privacy: JointDP, tuning: ExploreTuning, *, of_cells: bool, publishes: bool
) -> ReleaseName:
    """Return the default kind of release: a rule that uses public arguments only.

    Cells of actions get features. A grid of actions, or arms with features, gets marginal tables.

    Contexts and arms get marginal tables, except in these cases, which get features:

    - delta is 0 and single answers are wanted;
    - delta is above 0 and tables leave out a third of the columns or more (see `tables_hold`);
    - an argument was passed that only features use.

    Args:
        menu: Contexts and arms; None if there are actions.
        of_cells: True if a kernel, or parts of epsilon for answers and publishing, were passed.
        publishes: True if only `publish()` will be used, also with delta 0.
    """
    if menu is not None and (menu.actions is not None or menu.products is not None):
        return "marginals"
    own = of_cells or tuning.ridge is not None
    if menu is None or own or tuning.tolerance != DEFAULT_TOLERANCE:
        return "features"
    if privacy.delta == 0.0:
        return "marginals" if publishes else "features"
    return "marginals" if tables_hold(menu.contexts.domain) else "features"


def _logged(menu: Menu | None, tuning: ExploreTuning) -> Logged | None:
    """Return `tuning.logged`, or None if the menu has no grid of actions.

    Raise InvalidParameter if the tuning does not fit the menu.
    """
    actions = None if menu is None else menu.actions
    if actions is None:
        if tuning.logged is not None:
            raise InvalidParameter("logged: is for a grid of actions, such as actions=Range(1, 20)")
        if menu is not None and menu.products is not None and tuning.release == "features":
            raise InvalidParameter("release='features' is for arms without features: leave release= out")
        return None
    if tuning.release == "features":
        raise InvalidParameter("release='features' is for arms: a grid of actions has marginal tables")
    if actions.window is not None:
        raise InvalidParameter("explore= is for policies that learn while they decide, not for a log")
    if tuning.logged is None:
        raise InvalidParameter(UNSAID)
    if tuning.logged in ("numbers", "densities"):
        ranges = [isinstance(column, Range) for column in actions.schema.columns.values()]
        if not any(ranges):
            raise InvalidParameter(
                f"logged={tuning.logged!r} needs a column of actions with Range: pass 'steps', or "
                "'propensities' of the rows' steps"
            )
    return tuning.logged


class ExploreThenCommit(KeptPolicy):
    """Kernel bandit: explore by public coins, learn sums, then answer at pure epsilon or publish.

    Args:
        contexts: Public columns of a user's context (a `Schema`), or a law of contexts (see `ContextLaw`).
            With a `Schema`, marginal tables count contexts, and features assume that they are uniform. A
            measure counts as public knowledge.
        arms: Labels of the arms, with a `Schema`: strings, numbers or booleans. Or `Products(table, ...)`,
            arms with public features, whose effects all arms share.
        actions: Instead of arms, a grid of numbers or categories beside a `Schema`: `Range(1, 20)`, a
            `Schema` of one to three columns, or `Actions`. Rewards are then outcomes, and the published
            function chooses the highest value. Or cells of actions and the law they are explored with,
            beside a law of contexts.
        kernel: Public kernel over (action, context) columns, actions first. A lengthscale is a share of the
            range of each column. It may be left out with contexts and arms. Marginal tables then learn main
            effects and interactions. Features (`ExploreTuning.release`) then assume that similar contexts
            have similar rewards, and that arms share little.
        reward_range: Public range (low, high).
        horizon: Public largest number T of rows that count, at most 2^42. Fewer rows bias predictions towards
            the reference, and rows beyond it are dropped.
        privacy: Total promise; one user has at most `rounds_per_user` rows.
        tuning: Further settings, such as the division of epsilon; see `ExploreTuning`.
        **options: See `PolicyOptions`. Each answer and the release are charged before noise is drawn. `seed`
            is the seed of exploration. Rewards outside the range count zero unless they are clipped.

    Attributes:
        calibration: Everything that is fixed before data.
        unsafe_rules: Rules that convert rows to numbers: public, for studies that repeat them on raw data.

    Raises:
        InvalidParameter: Arguments do not fit together.

    Warns:
        NothingToLearn: The expected error is close to a random action's. The warning comes before any data.

    References:
        Pavlovic2025, eqs. (4), (5), Algorithm 1.

    Example:
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> policy = ExploreThenCommit(
        ...     kernel=SquaredExponential(lengthscale=0.3),
        ...     contexts=CellMeasure.uniform(low=0, high=1, cells=16),
        ...     actions=CellMeasure.finite([0.0, 0.5, 1.0]), reward_range=(0, 1), horizon=5000,
        ...     privacy=JointDP(epsilon=1.0, user_ids=False))
        >>> rng = np.random.default_rng(0)
        >>> contexts, actions = rng.random(5000), policy.explore(0, 5000)
        >>> policy.learn(contexts, actions, 1.0 - np.abs(0.5 * actions - contexts))
        >>> policy.answer([0.1]).action.tolist()
        [0.0]
    """

    kind = "central.ExploreThenCommit"
    # either type: for cells, or for marginal tables
    calibration: Any  # Calibration, TableCalibration
    contexts: Any  # ContextLaw, Schema
    features: Any  # EigenFeatures, ArmFeatures
    unsafe_rules: Any  # CellRules, TableRules
    noise: NoiseSource
    privacy: JointDP
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **KeptPolicy.config_parsers,
        "contexts": law_or_schema,
        "actions": actions_in,
        "arms": arms_from_config,
        "tuning": ExploreTuning.from_config,
    }

    def __init__(
        self,
        *,
        contexts: Schema | ContextLaw | CellMeasure,
        arms: Sequence[Label] | Products | None = None,
        actions: Actions | Schema | Column | CellMeasure | None = None,
        kernel: Kernel | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        tuning: ExploreTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        span = RewardRange.of(reward_range)
        self.menu = people_menu(contexts, arms=arms, actions=actions, reward_range=span)
        check_kinds(privacy=privacy, noise=options.get("noise"))
        tuning = tuned(tuning, ExploreTuning)
        parts = kernel, tuning.publish_epsilon, tuning.answer_epsilon
        of_cells = any(given is not None for given in parts)
        kind = tuning.release or release_for(self.menu, privacy, tuning, of_cells=of_cells, publishes=False)
        tuning = replace(tuning, release=kind)
        logged = _logged(self.menu, tuning)
        rows = _checks.integer(horizon, name="horizon")
        if rows > MOST_ROWS:
            raise InvalidParameter(f"horizon: sums are exact up to {MOST_ROWS} rows, got {rows}")
        super().__init__(reward_range=reward_range, horizon=rows, privacy=privacy, **options)
        centre, widest = reference_of(tuning.reference, self.reward_range)
        if logged in ("propensities", "densities"):
            widest *= WEIGHTED_BOUND
        bound = widest if tuning.bound is None else _checks.scale(tuning.bound, name="bound")
        self.tuning = replace(tuning, reference=centre, bound=bound)
        shared: dict[str, Any] = {
            "reward_range": self.reward_range,
            "reference": centre,
            "bound": bound,
            "horizon": rows,
        }
        counted: dict[str, Any] = {
            "rounds_per_user": privacy.rounds_per_user,
            "user_ids": self.user_ids,
            "menu": self.menu,
        }
        with one_thread():
            if kind == "marginals":
                menu = self._of_tables(of_cells=of_cells)
                self.kernel, self.actions, self.contexts = None, measure_of(menu), menu.contexts
                public: dict[str, Any] = {
                    "menu": menu,
                    "privacy": privacy,
                    "noise": self.noise,
                    "seed": self.seed,
                    "reward_range": self.reward_range,
                    "bound": bound,
                    "horizon": rows,
                }
                tables = (
                    ActionTableRelease(**public, logged=logged)
                    if logged
                    else (TableRelease if menu.products is None else ProductTableRelease)(**public)
                )
                self.features, self.calibration = tables.features, TableCalibration.planned(tables)
                self.unsafe_rules = TableRules(
                    actions=self.actions, tables=tables, caps=self.calibration.caps, **shared, **counted
                )
            else:
                _, law, cells, kernel = cells_of(contexts, arms=arms, actions=actions, kernel=kernel)
                check_cells(cells, law.measure)
                self.kernel, self.actions, self.contexts = kernel, cells, law
                if self.menu is None:  # encoded contexts already have ranges of width 1, and codes
                    columns = cells.dim + law.measure.dim
                    flat = flat_column(kernel, np.random.default_rng(0).random((FLAT_POINTS, columns)))
                    if flat is not None:
                        warnings.warn(flat, NothingToLearn, stacklevel=caller_level())
                    kernel = kernel.in_units_of(np.concatenate([cells.widths, law.measure.widths]))
                self.features = EigenFeatures(
                    kernel=kernel, measures=(cells, law.measure), tolerance=tuning.tolerance
                )
                self.calibration = calibrate(
                    self.features,
                    privacy,
                    rows,
                    self.noise,
                    contexts=law,
                    bound=bound,
                    publish_epsilon=tuning.publish_epsilon,
                    answer_epsilon=tuning.answer_epsilon,
                    ridge=tuning.ridge,
                )
                self.unsafe_rules = CellRules(
                    contexts=law.measure, actions=cells, caps=self.calibration.caps, **shared, **counted
                )
        budget = self.calibration.budget
        self.tuning = replace(
            self.tuning,
            publish_epsilon=budget.publish_epsilon if kind == "features" else None,
            answer_epsilon=budget.answer_epsilon if budget.answers else None,
        )
        self._shard = Shard(self.unsafe_rules, lineage=self._holder.lineage)
        self._answered = 0
        # mean and sd, (A, C) in reward units; for marginal tables the result of `learned`
        self._released: tuple[FloatArray, ...] | None = None
        self._drawn: Any = None  # the noisy sums that `_released` is computed from
        if isinstance(self.contexts, ContextLaw) and self.contexts.epsilon > 0.0:
            self._enter_release(self._uses()[0], 0)

    def _of_tables(self, *, of_cells: bool) -> Menu:
        """Return the menu of contexts and arms; raise `InvalidParameter` if marginal tables do not fit."""
        if self.menu is None:
            raise InvalidParameter("release='marginals' is for contexts and arms: pass contexts= and arms=")
        if of_cells or self.tuning.ridge is not None:
            raise InvalidParameter(
                "release='marginals' publishes with the whole promise: leave kernel, publish_epsilon, "
                "answer_epsilon and ridge out, or pass tuning=ExploreTuning(release='features')"
            )
        return self.menu

    def __repr__(self) -> str:
        return self._shown(answered=self._answered)

    # -- what is promised and expected ------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee for everything that the policy releases; it is the same before and after the release."""
        setting = Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids)
        release = self.calibration.release
        if isinstance(release, TableRelease):
            found = logged_tables_guarantee(
                self.privacy,
                release.shares,
                records=release.records(),
                setting=setting,
                logged=self.tuning.logged,
                functions=release.functions,
                products=isinstance(release, ProductTableRelease),
            )
        else:
            found = explore_guarantee(
                self.privacy,
                contexts=self._law,
                setting=setting,
                records=self._records(),
                publish_epsilon=self.calibration.budget.publish_epsilon,
            )
        if self.privacy.delta == 0.0:
            found = replace(found, notes=(*found.notes, RELEASE_NOTE.format(release=self.tuning.release)))
        return found

    def expected_error(self) -> dict[str, ExpectedError]:
        """Return the expected loss against the best action, in reward units, by use; no data is used."""
        found: dict[str, ExpectedError] = self.calibration.expected_errors()
        return found

    @property
    def remaining_answers(self) -> int:
        """Number of answers that the promise still covers."""
        return int(self.calibration.budget.answers) - self._answered

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers about plans, noise and progress.

        After a release from logged actions with weights, `recommended_with_few_rows` is the share of users to
        whom an action is recommended of which the log has few rows: the weights of the rows in its bin add up
        to less than `few_rows`. Both numbers are computed from the release.
        """
        return {
            "policy": self.kind,
            "release": self.tuning.release,
            "horizon": self.horizon,
            "features": self.features.n_features,
            "missing_variance": getattr(self.features, "missing_variance", 0.0),
            "answers_given": self._answered,
            "answers_left": self.remaining_answers,
            "published": self._released is not None,
            **self.calibration.diagnostics(),
            **self._few_rows(),
        }

    def _few_rows(self) -> dict[str, float]:
        """Return what the release says about recommended actions of which the log has few rows."""
        release = self.calibration.release
        if self._released is None or not isinstance(release, TableRelease):
            return {}
        return release.few_rows(self._released, self.unsafe_rules.reference) or {}

    # -- learning -----------------------------------------------------------------------------------

    def explore(self, start: int, stop: int) -> Any:
        """Return actions of rows start..stop-1 by the public coins, from the law of actions.

        If a user may not get every arm, draw among the allowed ones, and pass the propensities to `learn`,
        which weights rows by them.

        Returns:
            Points (n,), or (n, d) if they have several columns; with a menu a list of labels or actions.
        """
        uniforms = PublicCoins(self.seed).uniform("usca/explore", start, stop, 1)[:, 0]
        cells = self.actions.cells_at(uniforms)
        if self.menu is not None:
            if self.menu.actions is not None:
                return [self.menu.actions.choice(cell) for cell in cells.tolist()]
            return [self.menu.arms.labels[cell] for cell in cells.tolist()]
        points = self.actions.points[cells]
        return points[:, 0] if self.actions.dim == 1 else points

    @in_turn
    def learn(
        self,
        contexts: Any,
        actions: Any,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | Owners | None = None,
    ) -> None:
        """Add rows; see `Shard.learn`. May be called any number of times.

        Every row counts towards the horizon and towards its user's largest number of rows. A row that cannot
        be read contributes zero, and surplus rows are dropped.
        """
        self._shard.learn(contexts, actions, rewards, propensities=propensities, users=users)

    @property
    def unsafe_left_out(self) -> dict[str, int]:
        """Numbers of rows that were unreadable and contributed zero, or were dropped. They are raw data."""
        return self._shard.unsafe_left_out

    def shard(self) -> Shard:
        """Return an empty shard, which can learn rows on another machine before `merge`."""
        return self._shard.fresh()

    @in_turn
    def merge(self, shard: Shard) -> None:
        """Add the rows that a shard learned."""
        self._shard.merge(shard)

    # -- answering and releasing --------------------------------------------------------------------

    @in_turn
    def answer(self, context: Any, *, available: Any = None) -> Answer:
        """Return the best action at one context (d,), or for one user; spends `answer_epsilon`.

        It is drawn by permute-and-flip.

        Args:
            context: Context of the user.
            available: Labels of the arms that the user may get, or booleans (A,), True for allowed actions;
                default all.

        Raises:
            BudgetExceeded: No answers are left; nothing was drawn.
            InvalidData: There are several contexts, or `available` has another shape; nothing was spent. Or
                the context is missing or outside the public range, or nothing is available: nothing was
                drawn, but the answer is used up, since the number of answers is public.
        """
        plan, budget = self.calibration.answers, self.calibration.budget
        if plan is None or self._answered >= budget.answers:
            if not budget.answers:
                raise BudgetExceeded(
                    "the promise covers no single answers: build with "
                    "tuning=ExploreTuning(publish_epsilon=..., answer_epsilon=...), or use publish(), which "
                    "gives any number of predictions"
                )
            raise BudgetExceeded(
                f"all {budget.answers} answers that the promise covers were given: nothing was drawn; "
                "publish() gives any number of predictions for one price"
            )
        measure = self._law.measure
        row = one_row(context) if self.menu is None else self.menu.point(context)[None]
        cell = int(measure.find(measure.rows(row, name="context"))[0])
        offered = np.ones(self.actions.size, dtype=np.bool_)
        if available is not None:
            offered = (
                _checks.as_marks(available, offered.shape, name="available")
                if self.menu is None
                else self.menu.offered(available)
            )
        number = self._answered + 1
        self._spend("answer", number - 1)
        if cell < 0 or not offered.any():
            self._answered = number
            self._holder.commit()
            with round_taken("answer"):
                if self.menu is not None:
                    self.menu.refuse(context, available)
                measure.locate(row, name="context")
                raise InvalidData("available: expected at least one action")
        scores, span = self.calibration.scores(plan, cell, self._shard.cells.sums[0])
        words = words_of(self.noise, stream=_ANSWER_STREAM + number)
        places = np.flatnonzero(offered)  # the range sensitivity of some scores is at most that of all
        drawn = permute_and_flip(
            scores[places].tolist(), sensitivity=span, epsilon=budget.answer_epsilon, words=words
        )
        index = int(places[drawn])
        self._answered = number
        self._holder.commit()
        label = None if self.arms is None else self.arms[index]
        return Answer(index, self.actions.points[index], number, label)

    @in_turn
    def publish(self) -> Any:
        """Return the whole function, released at the first call; later calls return the same function.

        Returns:
            A `PublishedCells`; for marginal tables a `PublishedPosterior`.

        Raises:
            BudgetExceeded: No part of epsilon is reserved for publishing.
            ProtocolError: There are no rows yet; nothing was spent.
        """
        if self.calibration.release is None:
            raise BudgetExceeded("publish: no epsilon is reserved: build with delta > 0 and publish_epsilon")
        if self._drawn is None and self._released is None and not self._shard.rows_brought:
            raise ProtocolError(  # the number of rows is public
                "publish: no rows were learned yet, so the release would be noise: call learn first"
            )
        return self.publish_sums(self._shard.cells.sums[-1])

    @in_turn
    def publish_sums(self, sums: IntArray) -> Any:
        """Return what `publish` returns, from integer sums (size,) that were added up elsewhere.

        Args:
            sums: Raw entries of all tables, by the rules of this policy; see `SumsPlan.summed`.
        """
        mechanism = self.calibration.release
        if self._released is None:
            if self._drawn is None:  # noise is not drawn again if post-processing fails
                self._spend("release", 0)
                self._drawn = mechanism.release(sums)
            with one_thread():
                self._released = mechanism.learned(
                    self._drawn, reference=self.unsafe_rules.reference, bound=self.calibration.bound
                )
        self._holder.commit()  # before returning anything computed from it; a failed commit is repeated
        if isinstance(mechanism, TableRelease):
            return mechanism.published(self._released, self.guarantee, reference=self.unsafe_rules.reference)
        mean, sd, *_ = self._released
        return PublishedCells(
            actions=self.actions,
            contexts=self._law.measure,
            mean=mean,
            sd=sd,
            guarantee=self.guarantee,
            menu=self.menu,
        )

    @property
    def _law(self) -> ContextLaw:
        """Law of contexts in cells; raises `ProtocolError` for marginal tables, which count contexts."""
        if not isinstance(self.contexts, ContextLaw):
            raise ProtocolError("marginal tables have no law of contexts: they count contexts")
        return self.contexts

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, A) of the expected reward, from the published function.

        Raises:
            ProtocolError: Nothing was published. Predicting never publishes by itself.
        """
        if self._released is None:
            raise ProtocolError("predict: nothing was published; publish() releases once, and then predicts")
        published: PublishedFunction = self.publish()
        return published.predict(contexts)

    # -- configuration and state ----------------------------------------------------------------------

    def _records(self) -> dict[str, MechanismRecord]:
        """Return all mechanisms that the promise covers, by their names in the log of releases."""
        budget, release = self.calibration.budget, self.calibration.release
        if isinstance(release, TableRelease):
            return {"release": release.shares.record()}
        return explore_records(
            self._law,
            answers=(budget.answers, budget.answer_epsilon) if budget.answers else None,
            release=None if release is None else release.record(bound=self.calibration.bound),
        )

    def _uses(self) -> tuple[Release, ...]:
        charged = ("answer", "release")  # the histogram was charged when it was drawn
        drawn = {"histogram": 1, "answer": self._answered, "release": int(self._released is not None)}
        return tuple(
            Release(
                purpose=purpose,
                record=record,
                noise=self.noise if purpose in charged else self._law.noise,
                drawn=drawn[purpose],
                charge="" if purpose in charged else None,
            )
            for purpose, record in self._records().items()
        )

    def _spend(self, purpose: str, number: int) -> None:
        """Charge the account for everything that may be released, once, and log this release.

        If parts were charged separately, the account could be empty halfway, for example after the release
        and before the answers.
        """
        uses = {one.purpose: one for one in self._uses()}
        if self._holder.charged:
            self._holder.charge(cost=self._cost({name: use.record for name, use in uses.items()}))
        self._enter_release(uses[purpose], number)

    def _cost(self, records: Mapping[str, MechanismRecord]) -> Cost:
        """Return the cost of all answers and the release together; the histogram was charged separately."""
        budget, parts = self.calibration.budget, []
        if "answer" in records:  # one record for all answers
            each = replace(self.privacy, epsilon=budget.answer_epsilon, delta=0.0)
            answer = cost_of(PureDP(each.epsilon), privacy=each, status=self.noise.status)
            parts.append((answer, int(budget.answers)))
        if "release" in records and records["release"].certificate is not None:
            whole = replace(self.privacy, epsilon=budget.publish_epsilon)
            certificate = records["release"].certificate
            parts.append((cost_of(certificate, privacy=whole, status=self.noise.status), 1))
        return together(parts)

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        released = self._released
        if released is None:
            released = (np.zeros((0, 0)),) * len(self._shapes_released())
        return {
            **self._shard.arrays(),
            "answered": np.array(self._answered),
            # tables and not coefficients: another process may compute different eigenfunctions
            **dict(zip(_RELEASED, released, strict=False)),
            **self._design_arrays(),
        }

    def _design_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the tables in which rows are summed, as an array for a saved state."""
        release = self.calibration.release
        return {"design": release.design.to_array()} if isinstance(release, TableRelease) else {}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        answered, expected = int(arrays["answered"]), self._shapes_released()
        released = tuple(arrays[name] for name in _RELEASED[: len(expected)])
        tables = isinstance(self.calibration.release, TableRelease)
        calibration = (
            self.calibration.with_design(arrays["design"], arrays["caps"])
            if tables
            else self.calibration.with_caps(arrays["caps"])
        )
        shapes = tuple(array.shape for array in released)
        fits = shapes in (((0, 0),) * len(expected), expected)
        fits = fits and all(np.isfinite(array).all() for array in released)
        if fits and tables:
            ends = np.pad(released[2], ((0, 0), (1, 1)), constant_values=(0.0, 1.0))
            fits = bool((np.diff(ends, axis=1)[: len(released[2])] > 0.0).all())
        if not 0 <= answered <= self.calibration.budget.answers or not fits:
            raise CorruptState("the saved answers and release contradict the saved configuration")
        self.calibration = calibration
        self.unsafe_rules = replace(self.unsafe_rules, caps=calibration.caps)
        if tables:
            self.unsafe_rules = replace(self.unsafe_rules, tables=calibration.release)
        self._shard = Shard(self.unsafe_rules, lineage=self._holder.lineage)
        self._shard.restore(arrays)
        self._answered = answered
        self._released = released if released[0].size else None

    def _shapes_released(self) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the arrays that `_released` holds."""
        release = self.calibration.release
        if isinstance(release, TableRelease):
            return release.shapes
        shape: tuple[int, ...] = (self.actions.size, self._law.measure.size)
        return shape, shape

    def to_config(self) -> dict[str, Any]:
        """Return all public arguments that rebuild this policy, as JSON."""
        return people_config(super().to_config(), self.menu)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **runtime: Any) -> Self:
        """Build a policy from `to_config`, without repeating the warning `NothingToLearn`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingToLearn)
            return super().from_config(config, **runtime)
