"""`TableBandit`: a table as a bandit, with one row per round and the reward of every arm in each row.

`table_from_toml` creates one from your own table and the TOML file that describes it
(`dpbandits.tables.described`). The description needs the reward of every arm, as [label] or [rewards].
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Arms, Product, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.worlds.protocol import check_indices, check_rounds
from dpbandits.lab.worlds.supervised import supervised_ceiling
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Actions, Schema
from dpbandits.tables.columns import Categories, Column, Range
from dpbandits.tables.described import ArmRewards, DescribedTable, one_right
from dpbandits.tables.menu import listed_arms
from dpbandits.tables.owners import Owners, first_rows

__all__ = ["BestArm", "TableBandit", "table_from_toml", "table_of"]


@dataclass(frozen=True)
class BestArm:
    """The arm with the largest mean reward if every user gets the same arm.

    Attributes:
        index: Code of the arm.
        name: Name of the arm.
        mean_reward: Mean reward over the rows in use.
    """

    index: int
    name: str
    mean_reward: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TableBandit:
    """Rows of a table as rounds, in seeded random order, each row at most once.

    Create one with `from_labels`, `from_rewards`, `table_from_toml` or `load`. The decision set of a round is
    the row's encoded context, repeated for each arm, with the arm's code as last column. `domain` is
    therefore Product(schema.domain, Arms(K)). Nothing is computed from the table: contexts are scaled by the
    schema's public bounds.

    Args:
        name: Name of the table in reports.
        schema: Public columns of the contexts.
        contexts: Rows encoded by the schema, shape (N, d). A row that cannot be read is NaN here and in
            `reward_table`.
        arms: Arms.
        reward_table: Reward of each arm for each row, shape (N, K).
        reward_range: Public bounds of `reward_table`.
        seed: Seed of the order of rows.
        horizon: Number of rounds, at most the number of usable rows.
        persons: Number of the user of each row, shape (N,); None if each row is a different user.
        rounds_per_user: Public contribution bound: the number of rows of one user that are used, first in
            the seed's order.
        expected: Mean reward of each arm for each row, shape (N, K), for synthetic tables whose rewards are
            random; None if unknown.
        ordered: True if users come in the order of the rows, whatever the seed.
        actions: Grid of actions; None for plain arms. `arms` are then its labels, and rewards are outcomes.
            `values` computes what is maximised.

    Raises:
        InvalidParameter: The arms are not the labels of the actions, the horizon exceeds the number of usable
            rows, or the seed is negative.
        InvalidData: Contexts are outside the schema's domain, or rewards have a wrong shape or are outside
            the range.

    Example:
        >>> from dpbandits.tables import Range, Schema
        >>> world = TableBandit.from_labels(
        ...     {"age": [16, 40, 64]}, schema=Schema(age=Range(16, 64)),
        ...     labels=[0, 1, 1], arms=["under", "over"], seed=0)
        >>> world.decision_sets(0, 1).shape, world.best_constant_arm().name
        ((1, 2, 2), 'over')
    """

    name: str
    schema: Schema
    contexts: FloatArray = field(repr=False)
    arms: Arms
    reward_table: FloatArray = field(repr=False)
    reward_range: RewardRange
    seed: Seed
    horizon: int
    persons: IntArray | None = field(default=None, repr=False)
    rounds_per_user: int = 1
    expected: FloatArray | None = field(default=None, repr=False)
    ordered: bool = False
    actions: Actions | None = None
    _order: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.actions is not None and self.arms.labels != self.actions.labels:
            raise InvalidParameter("arms: expected the labels of actions")
        contexts, rewards = np.asarray(self.contexts), np.asarray(self.reward_table)
        if contexts.ndim == 2 == rewards.ndim and len(contexts) == len(rewards):
            known = ~(np.isnan(contexts).all(axis=1) & np.isnan(rewards).all(axis=1))
            self.schema.domain.validate(contexts[known], name="contexts")
            self.reward_range.validate(rewards[known], clip=False)
        if contexts.ndim != 2 or rewards.shape != (len(contexts), self.arms.n_arms) or len(contexts) == 0:
            raise InvalidData(
                f"contexts of shape {contexts.shape} and rewards of shape {rewards.shape} do not fit: "
                f"expected (N, {self.schema.dim}) and (N, {self.arms.n_arms}), N >= 1"
            )
        if self.expected is not None:
            means = self.reward_range.validate(self.expected, clip=False)
            if means.shape != rewards.shape:
                raise InvalidData(f"expected has shape {means.shape}, the rewards have {rewards.shape}")
            object.__setattr__(self, "expected", means)
        _checks.integer(self.seed, name="seed", minimum=0)
        usable = _usable_rows(len(contexts), self.persons, self.rounds_per_user)
        if _checks.integer(self.horizon, name="horizon") > usable:
            raise InvalidParameter(
                f"horizon is {self.horizon}, expected at most {usable}: each row is used once"
            )
        # Sorting seeded uniforms gives a uniform permutation that no version of numpy changes.
        keys = PublicCoins(self.seed).uniform("environment/rows", 0, len(contexts), 1)[:, 0]
        order = np.arange(len(contexts)) if self.ordered else np.argsort(keys, kind="stable")
        if self.persons is not None:
            numbers = np.unique(self.persons, return_inverse=True)[1]
            order = order[first_rows(numbers[order], self.rounds_per_user)]
        _checks.assign(self, contexts=contexts, reward_table=rewards, _order=order[: self.horizon])

    @classmethod
    def from_labels(
        cls,
        frame: object,
        *,
        schema: Schema,
        labels: ArrayLike,
        arms: Sequence[str] | Arms,
        seed: Seed,
        horizon: int | None = None,
        name: str = "table",
    ) -> Self:
        """Create a table with classes as arms, and reward 1 for the right class.

        Args:
            frame: Table that `Schema.encode` can read; columns outside the schema are ignored.
            schema: Public columns of the contexts.
            labels: Code of the right arm for each row, shape (N,).
            arms: Names of the classes, in the order of the codes.
            seed: Seed of the order of rows.
            horizon: Number of rounds; all rows by default.
            name: Name of the table in reports.
        """
        choices = arms if isinstance(arms, Arms) else Arms(arms)
        codes = np.asarray(labels)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InvalidData(f"labels: expected (N,) integers, got {codes.shape} of {codes.dtype.name}")
        if ((codes < 0) | (codes >= choices.n_arms)).any():
            raise InvalidData(f"labels: expected codes of arms, 0..{choices.n_arms - 1}")
        return cls.from_rewards(
            frame,
            schema=schema,
            rewards=one_right(codes, choices.n_arms),
            arms=choices,
            reward_range=RewardRange(0.0, 1.0),
            seed=seed,
            horizon=horizon,
            name=name,
        )

    @classmethod
    def from_rewards(
        cls,
        frame: object,
        *,
        schema: Schema,
        rewards: ArrayLike,
        arms: Sequence[Label] | Arms | None = None,
        actions: Actions | Schema | Column | None = None,
        reward_range: RewardRange | tuple[float, float],
        seed: Seed,
        horizon: int | None = None,
        name: str = "table",
        persons: IntArray | None = None,
        rounds_per_user: int = 1,
        lenient: bool = False,
    ) -> Self:
        """Create a table from the rewards of K arms for each of N rows, shape (N, K).

        Pass either `arms`, or `actions` with the outcome of every action as `rewards`.

        With `lenient`, a row with a cell that cannot be read stays in the table, and all of its values are
        missing. Otherwise such a row raises InvalidData.
        """
        if (arms is None) == (actions is None):
            raise InvalidParameter("pass either arms= or actions=")
        grid = Actions.of(actions)
        labels = arms if grid is None else grid.arms
        if lenient:
            span, paid = RewardRange.of(reward_range), np.array(rewards, dtype=np.float64)
            contexts = schema.points(frame, ignore_extra=True)
            unknown = np.isnan(contexts).any(axis=1) | ~((paid >= span.low) & (paid <= span.high)).all(axis=1)
            contexts[unknown], paid[unknown], rewards = np.nan, np.nan, paid
        else:
            contexts = schema.encode(frame, ignore_extra=True)
        return cls(
            name=name,
            schema=schema,
            contexts=contexts,
            arms=listed_arms(labels),
            actions=None if grid is None else grid.beside(schema, RewardRange.of(reward_range)),
            reward_table=np.asarray(rewards, dtype=np.float64),
            reward_range=RewardRange.of(reward_range),
            seed=seed,
            horizon=_usable_rows(len(contexts), persons, rounds_per_user) if horizon is None else horizon,
            persons=persons,
            rounds_per_user=rounds_per_user,
        )

    @cached_property
    def domain(self) -> Product:
        """Domain of contexts and arm codes."""
        return Product(self.schema.domain, self.arms)

    @property
    def n_candidates(self) -> int:
        """Number of candidates per round, one per arm."""
        return self.arms.n_arms

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.arms.n_arms

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Return decision sets (B, K, d + 1): each round's context with every arm code."""
        context = self.contexts[self._rows(start, stop)]
        sets = np.empty((len(context), self.n_arms, self.schema.dim + 1))
        sets[:, :, :-1] = context[:, None, :]
        sets[:, :, -1] = np.arange(self.n_arms)
        return sets

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """Return the table's rewards (B,) for arms `indices` (B,) in rounds start..stop-1."""
        rows = self._rows(start, stop)
        return np.asarray(self.reward_table[rows, check_indices(indices, len(rows), self.n_arms)])

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        """Return the mean rewards (B, K) of rounds start..stop-1.

        They are from `expected` if it is known, else the rewards.
        """
        return np.asarray(self._means[self._rows(start, stop)])

    def values(self, outcomes: FloatArray) -> FloatArray:
        """Return the values (..., K) of outcomes or mean outcomes (..., K); with plain arms, the rewards."""
        return outcomes if self.actions is None else self.actions.values_of(outcomes)

    def people(self, start: int, stop: int) -> dict[str, Any]:
        """Return the context columns of rounds start..stop-1 by name, as policies with actions read them.

        Raises:
            InvalidParameter: A column is neither a range nor has categories.
        """
        found: dict[str, Any] = {}
        for (name, column), own in zip(
            self.schema.columns.items(), self.contexts[self._rows(start, stop)].T, strict=False
        ):
            if isinstance(column, Range):
                found[name] = np.clip(column.low + column.span * own, column.low, column.high)
            elif isinstance(column, Categories):
                labels = np.array([*column.values, None], dtype=object)
                found[name] = labels[np.where(np.isnan(own), -1, own).astype(np.int64)]
            else:
                raise InvalidParameter(
                    f"column {name!r}: a world with actions has ranges and categories only"
                )
        return found

    def users(self, start: int, stop: int) -> list[str]:
        """Return the user ids (B,) of rounds start..stop-1."""
        rows = self._rows(start, stop)
        people = rows if self.persons is None else self.persons[rows]
        return [f"{self.name}/{person}" for person in people.tolist()]

    def best_constant_arm(self) -> BestArm:
        """Return the best single arm in hindsight, over the rows of this seed and horizon."""
        means = np.nanmean(self.values(self._means[self._order]), axis=0)
        best = int(np.argmax(means))
        return BestArm(best, self.arms.names[best], float(means[best]))

    def supervised_ceiling(self, seed: Seed) -> float:
        """Return the mean reward of supervised models that saw all rewards of other users.

        It is the better result of logistic regressions and of boosted trees, with one model per arm. Each
        user's arm is chosen by models that were fitted to other users (see
        `dpbandits.lab.worlds.supervised`). If each row has one right arm, the result is an accuracy. The
        models are neither private nor online, so the result is an approximate upper bound for policies.

        Raises:
            MissingExtra: scikit-learn is not installed.
            InvalidData: There are fewer users than folds.
            InvalidParameter: The table has actions.
        """
        if self.actions is not None:
            raise InvalidParameter(
                "supervised_ceiling: expected a table with plain arms, got one with actions"
            )
        rows = self._order
        unit = supervised_ceiling(
            self.contexts[rows],
            self.reward_range.to_centred(self.reward_table[rows]) + 0.5,
            codes=self.schema.codes,
            people=rows if self.persons is None else self.persons[rows],
            seed=seed,
        )
        return float(self.reward_range.from_centred(unit - 0.5))

    def to_config(self) -> dict[str, Any]:
        """Return the public configuration, without rows."""
        chosen = {} if self.actions is None else {"actions": repr(self.actions)}
        return {
            "environment": "TableBandit",
            **chosen,
            "name": self.name,
            "schema": self.schema.to_config(),
            "arms": list(self.arms.names),
            "reward_range": [self.reward_range.low, self.reward_range.high],
            "seed": self.seed,
            "horizon": self.horizon,
        }

    @property
    def _means(self) -> FloatArray:
        return self.reward_table if self.expected is None else self.expected

    def _rows(self, start: int, stop: int) -> IntArray:
        first, last = check_rounds(start, stop, self.horizon)
        return self._order[first:last]


def _usable_rows(rows: int, persons: IntArray | None, rounds_per_user: int) -> int:
    most = _checks.integer(rounds_per_user, name="rounds_per_user")
    if persons is None:
        if most != 1:
            raise InvalidParameter("rounds_per_user: expected 1 without persons, as each row is another user")
        return rows
    if persons.shape != (rows,) or persons.dtype.kind not in "iu":
        raise InvalidData(f"persons: expected ({rows},) integers, got {persons.shape} {persons.dtype.name}")
    return int(np.minimum(np.unique(persons, return_counts=True)[1], min(most, rows)).sum())


def table_from_toml(
    path: str | PathLike[str], *, seed: Seed, horizon: int | None = None, lenient: bool = False
) -> TableBandit:
    """Load the table that a TOML file describes. For the format see `dpbandits.tables.described`.

    Args:
        path: Path of the description.
        seed: Seed of the order of rows.
        horizon: Number of rounds; all usable rows by default.
        lenient: Use rows with cells that cannot be read, with all of their values missing.

    Raises:
        InvalidParameter: The description is no TOML, or a key is missing, misspelled or contradicts another.
        InvalidData: The table does not match the description; the message names the column and no value.
        DataUnavailable: A file does not exist or cannot be read.
        MissingExtra: The table is a Parquet file and pyarrow is not installed.
    """
    return table_of(DescribedTable.from_toml(path), seed=seed, horizon=horizon, lenient=lenient)


def table_of(
    described: DescribedTable, *, seed: Seed, horizon: int | None = None, lenient: bool = False
) -> TableBandit:
    """Load a described table as a bandit; for arguments and errors see `table_from_toml`."""
    outcome = described.outcome
    if not isinstance(outcome, ArmRewards):
        log = "" if outcome is None else "; a [log] has one arm per row: use `dpbandits central learn` for it"
        raise InvalidParameter(
            f"the file needs a section [label] or [rewards], with the reward of every arm{log}"
        )
    table, user = described.read(lenient=lenient), described.user
    persons = None if user is None else Owners.of(table[user], count=len(table[user])).numbers
    if persons is not None:  # each row without a user counts as a user of its own
        persons = np.where(persons < 0, persons.max(initial=-1) + 1 + np.arange(len(persons)), persons)
    return TableBandit.from_rewards(
        {column: table[column] for column in described.schema.names},
        schema=described.schema,
        rewards=outcome.rewards(table, lenient=lenient),
        arms=outcome.arms,
        reward_range=outcome.reward_range,
        seed=seed,
        horizon=horizon,
        name=described.name,
        persons=persons,
        rounds_per_user=described.rows_per_user,
        lenient=lenient,
    )
