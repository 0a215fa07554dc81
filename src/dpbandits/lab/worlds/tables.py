"""A table of people as a bandit: every round one row comes by, and each arm has its reward in the table.

A TOML file describes a table of one's own (`dpbandits.tables.described`), and `table_from_toml` makes a
bandit of it. The table must say what every arm would have paid, as [label] or [rewards].
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
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.worlds.protocol import check_indices, check_rounds
from dpbandits.lab.worlds.supervised import supervised_ceiling
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Schema
from dpbandits.tables.described import ArmRewards, DescribedTable, one_right
from dpbandits.tables.owners import Owners, first_rows

__all__ = ["BestArm", "TableBandit", "table_from_toml", "table_of"]


@dataclass(frozen=True)
class BestArm:
    """The arm that would have paid best, had it been chosen for everyone.

    Attributes:
        index: its code.
        name: its name.
        mean_reward: what it paid on average over the rows used.
    """

    index: int
    name: str
    mean_reward: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TableBandit:
    """Rows of a table in seeded random order, one a round and none twice.

    Usually built by `from_labels`, `from_rewards`, `table_from_toml` or `load`. The decision set of a
    round is the row's encoded context, repeated for each arm with the arm's code as last column, so
    that `domain` is Product(schema.domain, Arms(K)). Nothing is computed from the table: contexts are
    scaled by the schema's public bounds.

    Args:
        name: what reports call it.
        schema: public columns of the contexts.
        contexts: (N, d) rows encoded by the schema. A row that cannot be read is NaN here and in
            `reward_table`.
        arms: the choices.
        reward_table: (N, K) what each arm pays for each row.
        reward_range: public bounds of `reward_table`.
        seed: keys the order of the rows.
        horizon: rounds, at most N; all rows by default.
        persons: (N,) number of the person a row belongs to; None where each is another's.
        rounds_per_user: public; of a person with more rows, the first so many in the seed's order count.
        expected: (N, K) what each arm pays on average where `reward_table` was drawn, as in made-up worlds;
            None: the table's rewards are all that is known.
        ordered: people come in the order of the rows, whatever the seed.

    Raises:
        InvalidParameter: a horizon above the number of rows, a negative seed.
        InvalidData: contexts outside the schema's domain, rewards of a wrong shape or outside the range.

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
    _order: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
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
            raise InvalidParameter(f"horizon is {self.horizon}: each of {usable} rows is used once")
        # A sort of keyed uniforms is a uniform permutation that no version of numpy will change.
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
        """Classes as arms, reward 1 for the right one.

        Args:
            frame: whatever `Schema.encode` reads; columns outside the schema are left out.
            labels: (N,) code of the right arm for each row.
            arms: names of the classes, in the order of the codes.
            schema, seed, horizon, name: as for the class.
        """
        choices = arms if isinstance(arms, Arms) else Arms(arms)
        codes = np.asarray(labels)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InvalidData(f"labels: expected (N,) integers, got {codes.shape} of {codes.dtype.name}")
        if ((codes < 0) | (codes >= choices.n_arms)).any():
            raise InvalidData(f"labels leave 0..{choices.n_arms - 1}, the codes of the arms")
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
        arms: Sequence[str] | Arms,
        reward_range: RewardRange | tuple[float, float],
        seed: Seed,
        horizon: int | None = None,
        name: str = "table",
        persons: IntArray | None = None,
        rounds_per_user: int = 1,
        lenient: bool = False,
    ) -> Self:
        """Build it from the rewards (N, K) of every arm for each row, as simulated or fully logged tables
        have them.

        With `lenient` a row with a cell that cannot be read stays, as a person of whom nothing is known;
        without it the table is refused.
        """
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
            arms=arms if isinstance(arms, Arms) else Arms(arms),
            reward_table=np.asarray(rewards, dtype=np.float64),
            reward_range=RewardRange.of(reward_range),
            seed=seed,
            horizon=_usable_rows(len(contexts), persons, rounds_per_user) if horizon is None else horizon,
            persons=persons,
            rounds_per_user=rounds_per_user,
        )

    @cached_property
    def domain(self) -> Product:
        """Contexts and arm codes side by side."""
        return Product(self.schema.domain, self.arms)

    @property
    def n_candidates(self) -> int:
        """One candidate an arm."""
        return self.arms.n_arms

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.arms.n_arms

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """(B, K, d + 1): each round's context with every arm code."""
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
        """(B, K) as `expected` says. Without it a table's rewards are their own means."""
        return np.asarray(self._means[self._rows(start, stop)])

    def users(self, start: int, stop: int) -> list[str]:
        """(B,) ids of the people of rounds start..stop-1."""
        rows = self._rows(start, stop)
        people = rows if self.persons is None else self.persons[rows]
        return [f"{self.name}/{person}" for person in people.tolist()]

    def best_constant_arm(self) -> BestArm:
        """The best single arm in hindsight, over the rows of this seed and horizon."""
        means = np.nanmean(self._means[self._order], axis=0)
        best = int(np.argmax(means))
        return BestArm(best, self.arms.names[best], float(means[best]))

    def supervised_ceiling(self, seed: Seed) -> float:
        """Mean reward of a model that saw all rewards of other people: what the contexts can tell at most.

        The better of logistic regressions and of trees that stop early, one an arm, out of fold (see
        `dpbandits.lab.worlds.supervised`). With 0/1 tables of one right arm this is an accuracy. Neither
        private nor online: a ceiling to compare with, to be beaten only by luck or better models.

        Raises:
            MissingExtra: scikit-learn is not installed.
            InvalidData: fewer people than folds.
        """
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
        """Return its public configuration, without rows."""
        return {
            "environment": "TableBandit",
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
    """How many rows are used when of each person at most so many are."""
    most = _checks.integer(rounds_per_user, name="rounds_per_user")
    if persons is None:
        if most != 1:
            raise InvalidParameter("rounds_per_user: without persons every row is another's")
        return rows
    if persons.shape != (rows,) or persons.dtype.kind not in "iu":
        raise InvalidData(f"persons: expected ({rows},) integers, got {persons.shape} {persons.dtype.name}")
    return int(np.minimum(np.unique(persons, return_counts=True)[1], min(most, rows)).sum())


def table_from_toml(
    path: str | PathLike[str], *, seed: Seed, horizon: int | None = None, lenient: bool = False
) -> TableBandit:
    """The table that a TOML file describes, as a bandit. For the format see `dpbandits.tables.described`.

    Args:
        path: of the description.
        seed, horizon: as for `TableBandit`.
        lenient: keep rows with cells that cannot be read, as people of whom nothing is known.

    Raises:
        InvalidParameter: the description is no TOML, or lacks, misspells or contradicts something.
        InvalidData: the table does not fit the description; the message names the column and no value.
        DataUnavailable: a file is not there or cannot be read.
        MissingExtra: a Parquet table and no pyarrow.
    """
    return table_of(DescribedTable.from_toml(path), seed=seed, horizon=horizon, lenient=lenient)


def table_of(
    described: DescribedTable, *, seed: Seed, horizon: int | None = None, lenient: bool = False
) -> TableBandit:
    """The table that a TOML file describes, as a bandit; for arguments and errors see `table_from_toml`."""
    outcome = described.outcome
    if not isinstance(outcome, ArmRewards):
        log = "" if outcome is None else ", which a [log] does not say: `dpbandits central learn` takes that"
        raise InvalidParameter(
            f"the file needs one of the sections [label] and [rewards]: what every arm would have paid{log}"
        )
    table, user = described.read(lenient=lenient), described.user
    persons = None if user is None else Owners.of(table[user], count=len(table[user])).numbers
    if persons is not None:  # each row of nobody is somebody of its own
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
