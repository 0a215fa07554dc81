"""A table of people as a bandit: every round one row comes by, and each arm has its reward in the table.

With a label column the arms are the classes and the reward is 1 for the right one: the harshest
form of a classification problem, where a wrong guess does not tell the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Arms, Product, RewardRange
from dpbandits.errors import InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds.protocol import check_indices, check_rounds, public_integer
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Schema

__all__ = ["BestArm", "TableBandit", "codes_from_cuts"]

_FOLDS = 5


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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableBandit:
    """Rows of a table in seeded random order, one person a round, no person twice.

    Usually built by `from_labels`, `from_rewards`, `table_from_toml` or `load`. The decision set of a
    round is the row's encoded context, repeated for each arm with the arm's code as last column, so
    that `domain` is Product(schema.domain, Arms(K)). Nothing is computed from the table: contexts are
    scaled by the schema's public bounds.

    Args:
        name: what reports call it.
        schema: public columns of the contexts.
        contexts: (N, d) rows encoded by the schema.
        arms: the choices.
        reward_table: (N, K) what each arm pays for each row.
        reward_range: public bounds of `reward_table`.
        seed: keys the order of the rows.
        horizon: rounds, at most N; all rows by default.

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
    contexts: FloatArray
    arms: Arms
    reward_table: FloatArray
    reward_range: RewardRange
    seed: Seed
    horizon: int
    _order: IntArray = field(init=False)

    def __post_init__(self) -> None:
        contexts = self.schema.domain.validate(self.contexts, name="contexts")
        rewards = self.reward_range.validate(self.reward_table, clip=False)
        if contexts.ndim != 2 or rewards.shape != (len(contexts), self.arms.n_arms) or len(contexts) == 0:
            raise InvalidData(
                f"contexts of shape {contexts.shape} and rewards of shape {rewards.shape} do not fit: "
                f"expected (N, {self.schema.dim}) and (N, {self.arms.n_arms}), N >= 1"
            )
        public_integer(self.seed, name="seed", minimum=0)
        if public_integer(self.horizon, name="horizon", minimum=1) > len(contexts):
            raise InvalidParameter(
                f"horizon is {self.horizon}, the table has {len(contexts)} rows and each is used once"
            )
        # A sort of keyed uniforms is a uniform permutation that no version of numpy will change.
        keys = PublicCoins(self.seed).uniform("environment/rows", 0, len(contexts), 1)[:, 0]
        order = np.argsort(keys, kind="stable")[: self.horizon]
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "reward_table", rewards)
        object.__setattr__(self, "_order", order)

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
            schema: public columns of the contexts.
            labels: (N,) code of the right arm for each row.
            arms: names of the classes, in the order of the codes.
            seed, horizon, name: as above.
        """
        choices = arms if isinstance(arms, Arms) else Arms(arms)
        codes = np.asarray(labels)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InvalidData(
                f"labels have shape {codes.shape} and type {codes.dtype.name}, expected integers (N,)"
            )
        if ((codes < 0) | (codes >= choices.n_arms)).any():
            raise InvalidData(f"labels leave 0..{choices.n_arms - 1}, the codes of the arms")
        table = (codes[:, None] == np.arange(choices.n_arms)).astype(np.float64)
        return cls.from_rewards(
            frame,
            schema=schema,
            rewards=table,
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
    ) -> Self:
        """What every arm would have paid each row, (N, K), as simulated or fully logged tables have it."""
        contexts = schema.encode(frame, ignore_extra=True)
        return cls(
            name=name,
            schema=schema,
            contexts=contexts,
            arms=arms if isinstance(arms, Arms) else Arms(arms),
            reward_table=np.asarray(rewards, dtype=np.float64),
            reward_range=RewardRange.of(reward_range),
            seed=seed,
            horizon=len(contexts) if horizon is None else horizon,
        )

    def __repr__(self) -> str:
        return (
            f"TableBandit(name={self.name!r}, schema={self.schema!r}, arms={self.arms!r}, "
            f"seed={self.seed}, horizon={self.horizon})"
        )

    @property
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
        """What the table holds for arms `indices` (B,) in rounds start..stop-1, (B,)."""
        rows = self._rows(start, stop)
        rewards: FloatArray = self.reward_table[rows, check_indices(indices, len(rows), self.n_arms)]
        return rewards

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        """(B, K). A table's rewards are not random: these are the rewards of all arms themselves."""
        means: FloatArray = self.reward_table[self._rows(start, stop)]
        return means

    def best_constant_arm(self) -> BestArm:
        """The best single arm in hindsight, over the rows of this seed and horizon."""
        means = self.reward_table[self._order].mean(axis=0)
        best = int(np.argmax(means))
        return BestArm(best, self.arms.names[best], float(means[best]))

    def supervised_ceiling(self, seed: Seed) -> float:
        """Mean reward of a model that saw all labels of other people: what the contexts can tell at most.

        Gradient-boosted trees (scikit-learn's HistGradientBoosting, imported here and not before; its
        default settings) are fitted to four fifths of the rows used and choose for the other fifth,
        five times. With 0/1 tables of one right arm this is out-of-fold accuracy; other tables get one
        regression an arm. Neither private nor online: a ceiling to compare with, to be beaten only by luck
        or better models.

        Raises:
            MissingExtra: scikit-learn is not installed.
            InvalidData: fewer rows than folds.
        """
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        except ImportError as error:
            raise MissingExtra("supervised_ceiling needs scikit-learn: install dpbandits[report]") from error
        rows = self._order
        if len(rows) < _FOLDS:
            raise InvalidData(f"supervised_ceiling needs at least {_FOLDS} rows, the horizon is {len(rows)}")
        contexts, rewards = self.contexts[rows], self.reward_table[rows]
        options = {"random_state": seed % 2**32, "categorical_features": self._categorical_columns()}
        one_right = bool(
            ((rewards == 1.0).sum(axis=1) == 1).all() and ((rewards == 0) | (rewards == 1)).all()
        )
        fold = np.argsort(PublicCoins(seed).uniform("environment/folds", 0, len(rows), 1)[:, 0]) % _FOLDS
        paid = np.empty(len(rows))
        for k in range(_FOLDS):
            seen, held = fold != k, fold == k
            if one_right:
                labels = rewards[seen].argmax(axis=1)
                if (labels == labels[0]).all():
                    chosen = np.full(int(held.sum()), labels[0])
                else:
                    model = HistGradientBoostingClassifier(**options).fit(contexts[seen], labels)
                    chosen = np.asarray(model.predict(contexts[held]))
            else:
                models = [
                    HistGradientBoostingRegressor(**options).fit(contexts[seen], arm)
                    for arm in rewards[seen].T
                ]
                chosen = np.argmax([model.predict(contexts[held]) for model in models], axis=0)
            paid[held] = rewards[held][np.arange(int(held.sum())), chosen]
        return float(paid.mean())

    def reseeded(self, seed: Seed) -> Self:
        """The same table in another order (and, below the full horizon, other people)."""
        return replace(self, seed=seed)

    def to_config(self) -> dict[str, Any]:
        """What is public about it: no rows."""
        return {
            "environment": "TableBandit",
            "name": self.name,
            "schema": self.schema.to_config(),
            "arms": list(self.arms.names),
            "reward_range": [self.reward_range.low, self.reward_range.high],
            "seed": self.seed,
            "horizon": self.horizon,
        }

    def _rows(self, start: int, stop: int) -> IntArray:
        first, last = check_rounds(start, stop, self.horizon)
        return self._order[first:last]

    def _categorical_columns(self) -> list[int]:
        """Columns whose schema lists categories; their codes have no order."""
        return [
            column
            for column, declared in enumerate(self.schema.columns.values())
            if isinstance(declared, Categories)
        ]


def codes_from_cuts(values: ArrayLike, cuts: Sequence[float], *, name: str) -> IntArray:
    """Numbers (N,) as codes 0..len(cuts): how many of the increasing public `cuts` lie at or below.

    Raises:
        InvalidParameter: cuts that are not finite and strictly increasing.
        InvalidData: values that are not finite numbers. The message names the column `name` only.
    """
    edges = np.asarray(cuts, dtype=np.float64)
    if edges.ndim != 1 or edges.size == 0 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise InvalidParameter(
            f"cuts of column {name!r} must be a strictly increasing list of finite numbers"
        )
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"column {name!r} holds something else than numbers, cuts need numbers") from None
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InvalidData(f"column {name!r} has missing or infinite values: drop these rows first")
    return np.searchsorted(edges, numbers, side="right").astype(np.int64)
