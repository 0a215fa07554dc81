"""`LoggedTable`: logged bandit data in a table, coded into public cells, learned from once and published.

There are three ways to code a table:

- `LoggedTable.of_people`: contexts and arms in named columns;
- `LoggedTable.described`: a table that a TOML file describes;
- `LoggedTable.read`: numbers between bounds.

`publish` spends the promised epsilon and delta on the law of contexts and on the function. It returns a
`PublishedTable`: the function with the names in the table. Call it through `dpbandits.central.logged.once`,
which charges a ledger and publishes once.
"""

import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._cells import UNREADABLE, array_of, as_objects, cell_value
from dpbandits._checks import an, contents, number, one_of
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.budget import Cost, cost_of, cost_of_guarantee
from dpbandits.central.logged.action_tables import Logged
from dpbandits.central.logged.calibration import Budget
from dpbandits.central.logged.coins import arms_by_coins
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.people import (
    ARM_CORRELATION,
    CELLS,
    bins_a_side,
    law_of,
    measure_of,
    people_kernel,
    people_menu,
)
from dpbandits.central.logged.plan import UNITS, CodedRows, SumsPlan
from dpbandits.central.logged.policy import (
    ExploreThenCommit,
    ExploreTuning,
    ReleaseName,
    release_for,
)
from dpbandits.central.logged.published_table import PublishedTable, coded_by_value, numbers_by_value
from dpbandits.central.logged.rows import CellRules, digest_of_rows
from dpbandits.central.logged.sums import MOST_ROWS
from dpbandits.central.logged.tables import TableRelease
from dpbandits.central.marginals.statement import of_whole_table
from dpbandits.central.published_function import PublishedCells, PublishedFunction
from dpbandits.domains import Arms, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.models.features.people import LENGTHSCALE
from dpbandits.models.kernels import Indicator, Kernel, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.certificates import Certificate, GaussianDP, PureBeside
from dpbandits.privacy.definitions import DPBanditsWarning, JointDP
from dpbandits.privacy.sentences import unchecked
from dpbandits.tables import Actions, Products, Schema
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import Column
from dpbandits.tables.described import DescribedTable, LoggedArm
from dpbandits.tables.files import TableColumns
from dpbandits.tables.frames import read_table
from dpbandits.tables.menu import Menu
from dpbandits.tables.owners import Owners

__all__ = [
    "READ_ARMS",
    "LogColumns",
    "LoggedTable",
    "cost_of_publishing",
    "plan_of",
    "published_by",
    "roles_of",
    "tables_policy",
]

HISTOGRAM_SHARE = 0.2
"""Share of epsilon for the law of contexts, unless it is declared uniform."""

WEIGHTED_BOUND = 2.0
"""Default clipping bound of marginal tables if rows have propensities.

The unit is the largest distance of a reward from the middle of its range. With it the rewards of an arm that
had half the uniform probability are not clipped. The bound was chosen on tuning tables.
"""

READ_ARMS = unchecked(
    "public arms",
    "The list of arms, which was read from the table and is published, is public anyway. The size of the "
    "release depends on it, and one row with an arm of its own changes the list for everybody.",
)
UNSAID_COLUMNS = (
    "actions: say how the logged actions were drawn, in one of two ways. density: the column with the "
    'density of the logged number per unit, or "uniform" if numbers were drawn evenly between low and high. '
    'propensity: the column with the chance of the logged step, or "uniform" if all steps were equally likely'
)
"""Error for a table of actions that does not say so."""

_DRAWN, _PAID = "arm", "reward"
"""Names of the columns of arms and rewards in a log simulated from a table with the reward of every arm."""

_KEY_BYTES = 32

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class LogColumns:
    """Roles of a log's columns.

    Args:
        contexts: Names of the context columns.
        action: Name of the action column; None if a grid of actions has its own columns.
        reward: Name of the reward column.
        propensity: Name of the column with the probability (or density) of each row's action; None if actions
            were drawn uniformly.
        user: Name of the user column; None assumes, without a check, that no user has two rows.
        actions: Names of the columns of a grid of actions.

    Raises:
        InvalidParameter: A column is named twice.
    """

    contexts: Sequence[str]
    action: str | None
    reward: str
    propensity: str | None = None
    user: str | None = None
    actions: Sequence[str] = ()

    def __post_init__(self) -> None:
        needed = {"reward": self.reward} | ({} if self.actions else {"action": self.action})
        for name, column in {**needed, "propensity": self.propensity, "user": self.user}.items():
            an(column, str, name=name, pass_="the name of a column", optional=name not in needed)
        others = [self.action, self.reward, self.propensity, self.user]
        named = len(self.contexts) + len(self.actions) + len(others) - others.count(None)
        if len(self.kinds) != named:
            raise InvalidParameter(
                "a column is named twice: contexts, action, reward and the others must be different"
            )

    @property
    def kinds(self) -> dict[str, type]:
        """Types of all columns, by name."""
        numbers = [*self.contexts, *self.actions, self.propensity, self.reward]
        texts = [self.action, self.user]
        kinds = {**dict.fromkeys(numbers, float), **dict.fromkeys(texts, str)}
        return {name: kind for name, kind in kinds.items() if name is not None}


def cost_of_publishing(privacy: JointDP, *, uniform_contexts: bool) -> Cost:
    """Return a bound on the cost of `LoggedTable.publish` for any table; charge it before noise is drawn.

    The histogram of contexts has a pure loss. The certificate of the function's release is known only after
    the histogram. Its rho is at most mu^2/2, where mu belongs to real-valued Gaussian noise with the
    release's epsilon and delta:

    - a near-Gaussian certificate has a smaller mu;
    - mu^2/2-zCDP proves no better than the promise, so a zCDP certificate of the promise has no larger rho.

    The total variation between the noise and Gaussian noise has no such bound. So an account that adds up
    Gaussian DP is charged for the whole promise.

    Example:
        >>> cost = cost_of_publishing(JointDP(epsilon=1, delta=1e-6), uniform_contexts=False)
        >>> float(round(cost.rho, 4)), cost.mu  # the histogram's part is 0.02
        (0.0385, None)
    """
    histogram = 0.0 if uniform_contexts else HISTOGRAM_SHARE * privacy.epsilon
    left = Budget.divided(privacy, histogram=histogram, publish=None, answer=None).publish_epsilon
    certificate: Certificate = GaussianDP(gaussian_mu(left, privacy.delta))
    if histogram:
        certificate = PureBeside(histogram, certificate)
    return replace(cost_of(certificate, privacy=privacy), mu=None, distance=0.0)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LoggedTable:
    """Logged bandit data, coded into public cells. It is raw data.

    Attributes:
        columns: Roles of the columns.
        reward_range: Public range (low, high).
        kernel: Kernel over (action, contexts), or (arm, contexts), in shares of their ranges.
        action_cells: Public cells of actions.
        arms: Names of arms, or None if actions are numbers with a range.
        arms_were_read: True if the names of arms come from the table and not from a public list.
        rows: Arguments of `ExploreThenCommit.learn`.
        menu: Contexts and arms; None if contexts are numbers between bounds.
        people: Contexts and actions of `rows` in the form that the menu reads.
        range_cells: Cells of contexts that are numbers between bounds; None for other contexts.
        lengthscale: Lengthscale of the kernel, as a share of each range.
        release: "features" or "marginals", see `ExploreTuning.release`; None chooses by `release_for`.
        logged: How the actions of a grid were drawn, see `ExploreTuning.logged`; None for arms.
        by_coins: True if public coins drew the arms.
    """

    columns: LogColumns
    reward_range: Bounds
    kernel: Kernel
    action_cells: CellMeasure
    arms: list[str] | None
    arms_were_read: bool
    rows: dict[str, Any]
    menu: Menu | None = None
    people: dict[str, Any] = field(default_factory=dict)
    range_cells: CellMeasure | None = None
    lengthscale: float = LENGTHSCALE
    release: ReleaseName | None = None
    logged: Logged | None = None
    by_coins: bool = False

    @cached_property
    def context_cells(self) -> CellMeasure:
        """Public cells of contexts; raises `InvalidParameter` if there are too many for features."""
        if self.range_cells is not None:
            return self.range_cells
        if self.menu is None:  # never both None; for type checkers
            raise InvalidParameter("the log has no contexts")
        return law_of(self.menu).measure

    @classmethod
    @worded
    def of_people(
        cls,
        table: object,
        *,
        contexts: Schema,
        arms: Sequence[Label] | Arms | Products | None = None,
        actions: Actions | Schema | Column | None = None,
        action: str | None = None,
        reward: str,
        reward_range: RewardRange | Bounds,
        propensity: str | None = None,
        density: str | None = None,
        user: str | None = None,
        lengthscale: float = LENGTHSCALE,
        clip: bool = False,
        release: ReleaseName | None = None,
    ) -> "LoggedTable":
        """Code a table with one row per decision: context, arm and reward.

        A value that cannot be read (missing, outside its bounds, an unknown arm) is no error: its row
        contributes zero to all sums.

        Args:
            table: A pandas, polars or pyarrow table, or a mapping of columns.
            contexts: Public columns of a user's context.
            arms: Public labels of all arms, or `Products`, arms with features.
            actions: Instead of arms, a grid of numbers or categories. The table has its columns by name.
            action: Name of the column with the arm.
            reward: Name of the column with the reward, or with the outcome of an action.
            reward_range: Public range (low, high).
            propensity: Name of the column with the probability of each row's arm or step. None if arms were
                drawn uniformly; "uniform" if steps of a grid were.
            density: For a grid, name of the column with the density of the logged numbers, per unit of every
                `Range` and a probability for other columns. "uniform" if numbers were drawn evenly.
            user: Name of the user column; None assumes, without a check, that no user has two rows.
            lengthscale: Lengthscale of the kernel, as a share of each range.
            clip: True to clip rewards to the range.
            release: Kind of release, "features" or "marginals"; see `ExploreTuning.release`. None
                chooses by `release_for`.

        Raises:
            InvalidParameter: Contexts or arms are empty, or a column is named twice. For a grid, neither
                `propensity` nor `density` is given, or both are.
            InvalidData: The argument is not a table, or a column is missing.

        Example:
            >>> from dpbandits.tables import Categories, Range
            >>> people = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
            >>> log = LoggedTable.of_people(
            ...     {"age": [30, 61], "region": ["south", None], "offer": ["mail", "call"], "paid": [1, 0]},
            ...     contexts=people, arms=["mail", "call"], action="offer", reward="paid",
            ...     reward_range=(0, 1))
            >>> log.context_cells.size
            48
        """
        span = RewardRange.of(reward_range)
        menu = people_menu(contexts, arms=arms, actions=actions, reward_range=span)
        if menu is None:
            raise InvalidParameter("contexts: expected Schema(age=Range(18, 90)), beside arms= or actions=")
        held = read_table(table)
        columns, logged = roles_of(
            menu, action=action, reward=reward, propensity=propensity, density=density, user=user
        )
        if logged is not None and "uniform" in held.names:
            raise InvalidParameter('a column is named "uniform", which also means even draws: rename it')
        missing = [name for name in columns.kinds if name not in held.names]
        if missing:
            raise InvalidData(f"the table lacks the declared columns {missing}")
        cells = {name: held.column(name) for name in columns.kinds}
        return cls._of_people(
            menu,
            columns,
            cells,
            rewards=cells[reward],
            span=span,
            lengthscale=lengthscale,
            clip=clip,
            release=release,
            logged=logged,
        )

    @classmethod
    def described(
        cls,
        described: DescribedTable,
        table: TableColumns,
        *,
        lengthscale: float = LENGTHSCALE,
        clip: bool = False,
        release: ReleaseName | None = None,
    ) -> "LoggedTable":
        """Code a table that a TOML file describes.

        A table with the reward of every arm becomes a log by public coins, which draw each row's arm
        uniformly. The draws do not depend on the rows' values. With a user column, they depend on the user's
        id and on the user's earlier rows, so that no other user's number of rows changes them.

        Args:
            described: Parsed description.
            table: Result of `described.read(lenient=True)`.
            lengthscale, clip, release: As for `of_people`.

        Raises:
            InvalidParameter: The file does not describe arms and rewards.
        """
        outcome, user, logged = described.outcome, described.user, None
        if outcome is None:
            raise InvalidParameter("the file needs one of the sections [log], [label] and [rewards]")
        span = RewardRange(0.0, 1.0) if outcome.reward_range is None else outcome.reward_range
        actions: IntArray | None = None
        owners: Owners | None = None
        if isinstance(outcome, LoggedArm):
            menu = Menu(
                contexts=described.schema,
                arms=None if outcome.actions is not None else outcome.arms,
                actions=outcome.actions,
                reward_range=span,
            )
            columns, logged = roles_of(
                menu,
                action=outcome.arm,
                reward=outcome.reward,
                propensity=outcome.propensity,
                density=outcome.density,
                user=user,
            )
            rewards = table[outcome.reward]
        else:
            columns = LogColumns(contexts=described.schema.names, action=_DRAWN, reward=_PAID, user=user)
            menu = Menu(contexts=described.schema, arms=outcome.arms)
            paid = outcome.rewards(table, lenient=True)
            owners = None if user is None else Owners.of(_ids(table[user]), count=len(paid))
            actions = arms_by_coins(len(paid), owners, n_arms=menu.n_arms)
            rewards = np.take_along_axis(paid, actions[:, None], axis=1)[:, 0]
        return cls._of_people(
            menu,
            columns,
            table if owners is None else {**table, str(columns.user): owners},
            drawn=actions,
            rewards=rewards,
            span=span,
            lengthscale=lengthscale,
            clip=clip,
            release=release,
            logged=logged,
        )

    @classmethod
    def _of_people(
        cls,
        menu: Menu,
        columns: LogColumns,
        cells: Mapping[str, Any],
        *,
        drawn: IntArray | None = None,
        rewards: ArrayLike | Coded,
        span: RewardRange,
        lengthscale: float,
        clip: bool,
        release: ReleaseName | None,
        logged: Logged | None,
    ) -> "LoggedTable":
        """Code a table. `drawn` has arms (n,) that public coins chose; None reads them from the table."""
        _check_lengthscale(lengthscale)
        an(clip, bool, name="clip", pass_="clip=True")
        if release is not None:
            one_of(release, get_args(ReleaseName), name="release")
        if release == "marginals" and lengthscale != LENGTHSCALE:
            raise InvalidParameter("lengthscale: marginal tables have none; leave out lengthscale or release")
        if logged is not None and (release == "features" or lengthscale != LENGTHSCALE):
            raise InvalidParameter("a grid of actions is learned from marginal tables: pass no lengthscale")
        limits, chance, user = (span.low, span.high), columns.propensity, columns.user
        own: Any = {name: cells[name] for name in columns.actions}
        if menu.actions is None:
            actions = menu.cells(cells[str(columns.action)]) if drawn is None else drawn
            own = as_objects([*menu.arms.labels, UNREADABLE])[actions]
        else:
            actions = menu.actions.located(own, between=logged in ("numbers", "densities"))
        return cls(
            columns=columns,
            reward_range=limits,
            kernel=people_kernel(menu, correlation=ARM_CORRELATION, lengthscale=lengthscale),
            action_cells=measure_of(menu),
            arms=list(menu.arms.names),
            arms_were_read=False,
            rows={
                "contexts": menu.points({name: cells[name] for name in columns.contexts}),
                "actions": actions,
                "rewards": _within(rewards, limits, clip=clip, name=columns.reward),
                "propensities": None if chance is None else contents(cells[chance], name=chance),
                "users": None if user is None else _ids(cells[user]),
            },
            menu=menu,
            people={
                "contexts": {name: cells[name] for name in columns.contexts},
                "actions": own,
            },
            lengthscale=lengthscale,
            release=release,
            logged=logged,
            by_coins=drawn is not None,
        )

    @classmethod
    def read(
        cls,
        table: Mapping[str, ArrayLike | Coded],
        columns: LogColumns,
        bounds: Sequence[Bounds],
        *,
        arms: Sequence[str] | None = None,
        lengthscale: float = 0.3,
        clip: bool = False,
    ) -> "LoggedTable":
        """Code a table whose columns have the types of `columns.kinds`.

        A value that cannot be read (missing, outside its bounds, an unknown arm) is no error: its row
        contributes zero to all sums. The action has arms, and not a range, if `bounds` has no entry for it.

        Args:
            table: Values (n,) by column, as an array or `Coded`.
            columns: Roles of the columns.
            bounds: Public (low, high) of contexts, of the action unless it has arms, and of the reward.
            arms: Public names of arms; without them, text and integers in the table are arms.
            lengthscale: Lengthscale of the kernel, as a share of each range.
            clip: True to clip contexts and rewards to their bounds.

        Raises:
            InvalidParameter: Bounds or arms do not fit.
        """
        contexts = len(columns.contexts)
        if columns.action is None:
            raise InvalidParameter("action: expected the name of a column")
        if len(bounds) != contexts + 1 and (arms is not None or len(bounds) != contexts + 2):
            raise InvalidParameter(
                f"{len(bounds)} bounds, expected {contexts + 1} if the action has arms: one per context "
                f"and the reward's; or {contexts + 2} if it is a number, its own before the reward's"
            )
        if len(bounds) == contexts + 1:
            cells = coded_by_value(table[columns.action])
            names = _arm_names(cells, arms)
            actions = cells.spread(Arms(names).codes(cells.values))
        else:
            names, actions = None, numbers_by_value(table[columns.action])
        ranges = bounds[: len(columns.contexts)]
        named = zip(columns.contexts, ranges, strict=True)
        if names is None:
            low, high = bounds[len(columns.contexts)]
            action_cells = CellMeasure.uniform(low=low, high=high, cells=CELLS)
        else:
            action_cells = CellMeasure.finite(np.arange(len(names), dtype=np.float64))
        side = bins_a_side(len(ranges))
        propensity, user = columns.propensity, columns.user
        return cls(
            columns=columns,
            reward_range=bounds[-1],
            kernel=_kernel(len(ranges), arms=names is not None, lengthscale=lengthscale),
            range_cells=CellMeasure.product(
                *(CellMeasure.uniform(low=low, high=high, cells=side) for low, high in ranges)
            ),
            action_cells=action_cells,
            arms=names,
            arms_were_read=names is not None and arms is None,
            rows={
                "contexts": np.column_stack(
                    [_within(table[name], limits, clip=clip, name=name) for name, limits in named]
                ),
                "actions": actions,
                "rewards": _within(table[columns.reward], bounds[-1], clip=clip, name=columns.reward),
                "propensities": None if propensity is None else contents(table[propensity], name=propensity),
                "users": None if user is None else _ids(table[user]),
            },
            lengthscale=lengthscale,
        )

    @cached_property
    def _rows(self) -> dict[str, Any]:
        """Arguments `rows` with user ids parsed once, for all objects that learn from them."""
        users = self.rows["users"]
        return self.rows | {"users": None if users is None else Owners.of(users, count=len(users))}

    def rehearse(self, privacy: JointDP, *, horizon: int, bound: float | None = None) -> None:
        """Check the arguments and the user ids, without spending any epsilon.

        Raises:
            InvalidParameter, InvalidData: As for `ExploreThenCommit` and its `learn`.

        Warns:
            NothingToLearn: The warning comes before any data.
        """
        self.policy(privacy, horizon=horizon, bound=bound)
        self._rows  # noqa: B018 - reads the ids

    def unsafe_left_out(
        self, privacy: JointDP, *, horizon: int, bound: float | None = None
    ) -> dict[str, int]:
        """Return raw numbers of rows that will contribute zero.

        Of a user's rows beyond the limit, the unreadable ones and the readable ones are not told apart.
        """
        policy = self.policy(privacy, horizon=horizon, bound=bound)
        _, coded, kept = self._counted(policy, secrets.token_bytes(_KEY_BYTES))
        return {"unreadable": int((kept & ~coded.readable).sum()), "surplus": int((~kept).sum())}

    def _counted(self, policy: ExploreThenCommit, key: bytes) -> tuple[SumsPlan, CodedRows, BoolArray]:
        """Return the sums that are needed, the coded rows, and a mask (n,) of the rows that count."""
        plan = plan_of(policy)
        rows = self._rows_for(policy)
        users, given = rows.pop("users"), len(rows["rewards"])
        coded = plan.coded(*policy.unsafe_rules.coded(**rows))
        owners = Owners(np.zeros(given, dtype=np.int64), [""]) if users is None else users
        return plan, coded, plan.kept(coded, owners, key)

    def unsafe_sums(
        self,
        privacy: JointDP,
        *,
        horizon: int,
        key: bytes,
        bound: float | None = None,
        plan: SumsPlan | None = None,
    ) -> IntArray:
        """Return the raw sums from which `publish` releases; see `SumsPlan.summed`.

        Args:
            privacy, horizon, bound, key: As for `publish`.
            plan: Sums that are needed, by default those of `plan_of` and `policy`.
        """
        needed, coded, kept = self._counted(self.policy(privacy, horizon=horizon, bound=bound), key)
        return (plan or needed).summed(coded, kept)

    def fingerprint(self, key: bytes, privacy: JointDP, *, horizon: int, **told: object) -> str:
        """Return a digest, under a secret key, of all rows, their weights and the arguments of `publish`.

        Protect the digest, too: anyone with digest and key can test guesses of the table.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBanditsWarning)  # `rehearse` has shown it
            config = self.policy(privacy, horizon=horizon).to_config()
        public: dict[str, Any] = {
            "config": config,
            "columns": asdict(self.columns),
            "arms": self.arms,
            "told": told,
        }
        if self.menu is not None:
            public["people"] = [self.menu.contexts.to_config(), self.menu.arms.to_config()]
        if self.logged is None:
            del public["columns"]["actions"]  # fingerprints of arms are those of earlier versions
        return digest_of_rows(key, public, self._rows)

    def publish(
        self,
        privacy: JointDP,
        *,
        horizon: int,
        bound: float | None = None,
        uniform_contexts: bool = False,
        key: bytes | None = None,
    ) -> "PublishedTable":
        """Spend the promised epsilon and delta, and return the function; every call spends them again.

        Args:
            privacy: Total promise, including the law of contexts; delta above 0, except for marginal tables.
            horizon: Public number of rows, chosen without looking at the table.
                Calibration depends on the horizon, and on released counts of rows. All rows of a longer table
                count.
            bound: Clipping bound of a weighted reward's distance from the middle of the range. Default: half
                the width of the range, or `WEIGHTED_BOUND` times that for marginal tables with propensities.
            uniform_contexts: True to spend nothing on the law of contexts and declare it uniform; only for
                features. The number of rows is then not estimated: with more rows than the horizon,
                predictions are too far from the middle of the range. Their order is not affected.
            key: Secret of the order in which a user's rows count, at random by default.
        """
        self.covered(privacy, uniform_contexts=uniform_contexts)
        if not len(self.rows["rewards"]):  # the number of rows is public
            raise ProtocolError("publish: the table has no rows, so the release would be noise")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBanditsWarning)  # `rehearse` has shown it
            policy = self.policy(privacy, horizon=horizon, bound=bound)
        plan, coded, kept = self._counted(policy, key or secrets.token_bytes(_KEY_BYTES))
        function = published_by(
            policy, lambda plan: plan.summed(coded, kept), uniform_contexts=uniform_contexts
        )
        function = function.under(of_whole_table(function.guarantee, rows=plan.rows_per_user))
        return self.named(function.resting_on(READ_ARMS) if self.arms_were_read else function)

    def named(self, function: PublishedFunction) -> "PublishedTable":
        """Return a published function with the names of this table's columns and arms."""
        columns = self.columns
        if self.menu is not None and isinstance(function, PublishedCells):
            function = function.of_people(self.menu)
        return PublishedTable(function, list(columns.contexts), columns.action, columns.reward, self.arms)

    def release_under(self, privacy: JointDP) -> ReleaseName:
        """Return the kind of release under a promise, from public arguments alone; see `release_for`."""
        smooth = self.lengthscale != LENGTHSCALE
        return self.release or release_for(
            self.menu, privacy, ExploreTuning(), of_cells=smooth, publishes=True
        )

    def covered(self, privacy: JointDP, *, uniform_contexts: bool = False) -> ReleaseName:
        """Return the kind of release under a promise, after checking that promise and option fit it.

        Raises:
            InvalidParameter: They do not fit.
        """
        found = self.release_under(privacy)
        if found == "features" and privacy.delta == 0.0:
            raise InvalidParameter("delta is 0, and publishing a whole function needs delta above 0")
        if found == "marginals" and uniform_contexts:
            raise InvalidParameter("uniform_contexts: is for features only; marginal tables count contexts")
        return found

    def cost(
        self, privacy: JointDP, *, horizon: int, bound: float | None = None, uniform_contexts: bool = False
    ) -> Cost:
        """Return a bound on the cost of `publish` with these arguments, to be charged before noise is drawn.

        For marginal tables the noise depends on bound and horizon, and so does the cost.
        """
        if self.release_under(privacy) == "features":
            return cost_of_publishing(privacy, uniform_contexts=uniform_contexts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBanditsWarning)  # `rehearse` has shown it
            policy = self.policy(privacy, horizon=horizon, bound=bound)
        return cost_of_guarantee(policy.guarantee)

    def _rows_for(self, policy: ExploreThenCommit) -> dict[str, Any]:
        """Return the arguments of `learn`: contexts and arms if the policy has the menu, else cells."""
        return self._rows | ({} if policy.menu is None else self.people)

    def policy(self, privacy: JointDP, *, horizon: int, bound: float | None = None) -> ExploreThenCommit:
        """Return a policy that can learn the rows, for features under a uniform law of contexts.

        Args:
            privacy, horizon, bound: As for `publish`.
        """
        privacy = replace(privacy, user_ids=self.columns.user is not None)
        release = self.covered(privacy)
        if self.menu is not None and release == "marginals":
            return tables_policy(
                self.menu, self.columns, self.reward_range, self.logged, privacy, horizon=horizon, bound=bound
            )
        return ExploreThenCommit(
            kernel=self.kernel,
            contexts=self.context_cells,
            actions=self.action_cells,
            reward_range=self.reward_range,
            horizon=horizon,
            privacy=privacy,
            tuning=ExploreTuning(release="features", bound=bound),
        )


def plan_of(policy: ExploreThenCommit) -> SumsPlan:
    """Return the sums from which a policy publishes."""
    release = policy.calibration.release
    if isinstance(release, TableRelease):
        return SumsPlan.of(release, user_ids=policy.user_ids)
    return SumsPlan.of_cells(policy.unsafe_rules, policy.calibration.caps[-1].tolist())


def published_by(
    policy: ExploreThenCommit, summed: Callable[[SumsPlan], IntArray], *, uniform_contexts: bool = False
) -> Any:
    """Return what a policy publishes about a table.

    **Features.** At most k rows of a user count, the same ones in both sums. Contexts are counted first, and
    discrete Laplace noise is calibrated to 2 k, the L1 distance by which replacing a user changes the counts.
    Law, caps and features are computed from these noisy counts. For any of them, replacing a user changes the
    second sums by at most k entries leaving and k entering, each below its cap (`publish`). Which rows count
    depends on the user's own rows and the key alone, and no bound depends on the number of rows. So both
    losses add up (adaptive composition). This also holds if the table changes between both sums: each
    mechanism sees k rows of each user, of the table as it then is.

    Args:
        policy: Policy for an even law of contexts. It has released nothing.
        summed: Function that adds up raw sums, as `SumsPlan.summed` does.
        uniform_contexts: True to release no law of contexts with features.
    """
    rules, privacy = policy.unsafe_rules, policy.privacy
    if isinstance(rules, CellRules) and not uniform_contexts:
        counts = summed(SumsPlan.of_cells(rules, None)) // UNITS  # every row adds U
        law, counted = ContextLaw.from_private_counts(
            counts,
            cells=rules.contexts,
            epsilon=HISTOGRAM_SHARE * privacy.epsilon,
            rounds_per_user=privacy.rounds_per_user,
            counted_units=policy.user_ids,
        )
        horizon = min(max(1, round(counted.instead_of(rules.horizon))), MOST_ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBanditsWarning)  # about public numbers, and shown before
            policy = ExploreThenCommit(
                kernel=policy.kernel,
                contexts=law,
                actions=policy.actions,
                reward_range=policy.reward_range,
                horizon=horizon,
                privacy=privacy,
                tuning=ExploreTuning(release="features", bound=policy.tuning.bound),
            )
    return policy.publish_sums(summed(plan_of(policy)))


def tables_policy(
    menu: Menu,
    columns: LogColumns,
    reward_range: Bounds,
    logged: Logged | None,
    privacy: JointDP,
    *,
    horizon: int,
    bound: float | None,
) -> ExploreThenCommit:
    """Return the policy that releases marginal tables of a log.

    Args:
        menu, columns, reward_range, logged: See `LoggedTable`.
        privacy, horizon, bound: See `LoggedTable.publish`.
    """
    if bound is None and columns.propensity is not None and not logged:
        bound = WEIGHTED_BOUND * (reward_range[1] - reward_range[0]) / 2.0
    return ExploreThenCommit(
        contexts=menu.contexts,
        arms=None if menu.actions is not None else menu.products or menu.arms.labels,
        actions=menu.actions,
        reward_range=reward_range,
        horizon=horizon,
        privacy=replace(privacy, user_ids=columns.user is not None),
        tuning=ExploreTuning(release="marginals", bound=bound, logged=logged),
    )


def roles_of(
    menu: Menu,
    *,
    action: str | None,
    reward: str,
    propensity: str | None,
    density: str | None,
    user: str | None,
) -> tuple[LogColumns, Logged | None]:
    """Return the roles of the columns, and how the actions of a grid were drawn.

    Raises:
        InvalidParameter: Neither or both of `propensity` and `density` are given for a grid, or other
            arguments do not fit.
    """
    contexts = menu.contexts.names
    if menu.actions is None:
        if density is not None:
            raise InvalidParameter("density: is for a grid of actions; pass propensity= for arms")
        return LogColumns(
            contexts=contexts, action=action, reward=reward, propensity=propensity, user=user
        ), None
    if action is not None:
        raise InvalidParameter("action: leave it out, the table has the action columns by their names")
    if (propensity is None) == (density is None):
        raise InvalidParameter(UNSAID_COLUMNS)
    weight = propensity if density is None else density
    even = weight == "uniform"
    logged: Logged = (
        ("steps" if even else "propensities") if density is None else ("numbers" if even else "densities")
    )
    columns = LogColumns(
        contexts=contexts,
        action=None,
        reward=reward,
        propensity=None if even else weight,
        user=user,
        actions=menu.actions.schema.names,
    )
    return columns, logged


def _ids(column: ArrayLike | Coded | Owners) -> Coded | Owners | list[Any]:
    return (
        column
        if isinstance(column, Coded | Owners)
        else array_of(column, flat=True).astype(np.object_).tolist()
    )


def _arm_names(cells: Coded, declared: Sequence[str] | None) -> list[str]:
    """Return the declared names of arms, or all names in the table if none were declared."""
    if declared is not None:
        names = list(declared)
        if len(set(names)) != len(names) or not all(names):
            raise InvalidParameter("arms: expected distinct names, such as a,b,c")
        return names
    values = {cell_value(cell): str(cell).strip() for cell in cells.values.tolist()}
    values.pop(None, None)
    numbers = [value for value in values if isinstance(value, int)]
    return list(map(str, sorted(numbers))) if len(numbers) == len(values) else sorted(values.values())


def _within(values: ArrayLike, limits: Bounds, *, clip: bool, name: str) -> FloatArray:
    if isinstance(values, Coded):
        return values.spread(_within(values.values, limits, clip=clip, name=name))
    numbers = contents(values, name=f"column {name!r}")
    return np.where(np.isfinite(numbers), np.clip(numbers, *limits) if clip else numbers, np.nan)


def _check_lengthscale(lengthscale: float) -> None:
    if not 1e-3 <= number(lengthscale, name="lengthscale") <= 1e3:  # cells are a 24th of the range wide
        raise InvalidParameter("lengthscale: expected a share of each range, from 0.001 to 1000")


def _kernel(contexts: int, *, arms: bool, lengthscale: float) -> Kernel:
    _check_lengthscale(lengthscale)
    if not arms:
        return SquaredExponential(lengthscale=lengthscale)
    own = SquaredExponential(lengthscale=lengthscale, columns=tuple(range(1, contexts + 1)))
    return Indicator(correlation=ARM_CORRELATION, columns=(0,)) * own
