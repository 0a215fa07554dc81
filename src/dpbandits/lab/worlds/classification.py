"""Classification tables as contextual bandits with auxiliary people, in the manner of Ma2025, Section 4.2.

Every class is an arm and pays 1 where it is right. Contexts are scaled to the unit cube by public bounds. A
public column parts the target's people from the auxiliary ones, whose arms a known behaviour policy
chose. Nobody appears twice: the order of people is a random permutation, drawn with the crowd's seed.

For constants to be chosen on people who are not reported on, the table falls into two fixed halves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.lab.worlds.transfer import PeopleSource
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Schema

__all__ = ["ClassificationTable", "Half"]

Half = Literal["tuning", "report"]

_HALVES_SEED = 0
"""Of the public coins that part the tuning half from the report half; never another."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClassificationTable:
    """People with a context, a class, and a mark that says who is auxiliary.

    Args:
        name: for tables.
        columns: names of the context columns.
        arms: names of the classes.
        split: what makes somebody auxiliary, in words.
        contexts: (N, d) in the unit cube.
        labels: (N,) class of each person.
        auxiliary: (N,) whether the person belongs to the source; from a column that counts as public.

    Raises:
        InvalidData: shapes that do not fit, contexts outside the cube, labels that are no arms.
        InvalidParameter: nobody on one of the two sides.

    Example:
        >>> from dpbandits.tables import Range
        >>> table = ClassificationTable.from_frame(
        ...     {"age": [20, 40, 60, 50], "town": ["a", "b", "b", "a"]},
        ...     schema=Schema(age=Range(20, 60), town=Categories(["a", "b"])),
        ...     labels=[0, 1, 1, 0], arms=["no", "yes"], auxiliary=[True, False, False, True], name="tiny",
        ...     split="town")
        >>> table.contexts.tolist(), table.target().rewards.tolist()
        ([[0.0, 0.0], [0.5, 1.0], [1.0, 1.0], [0.75, 0.0]], [[0.0, 1.0], [0.0, 1.0]])
    """

    name: str
    columns: tuple[str, ...]
    arms: tuple[str, ...]
    split: str
    contexts: FloatArray
    labels: IntArray
    auxiliary: BoolArray

    def __post_init__(self) -> None:
        n = len(self.contexts)
        if self.contexts.shape != (n, len(self.columns)):
            raise InvalidData(f"contexts: expected (N, {len(self.columns)}), got {self.contexts.shape}")
        if self.labels.shape != (n,) or self.auxiliary.shape != (n,):
            raise InvalidData("labels and auxiliary: expected one for every context")
        if not ((self.contexts >= 0.0) & (self.contexts <= 1.0)).all():
            raise InvalidData("contexts leave the unit cube, or are missing")
        if not ((self.labels >= 0) & (self.labels < len(self.arms))).all():
            raise InvalidData(f"labels leave 0..{len(self.arms) - 1}, the codes of the arms")
        if self.auxiliary.all() or not self.auxiliary.any():
            raise InvalidParameter("auxiliary: expected some people on either side")

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        schema: Schema,
        labels: ArrayLike,
        arms: Sequence[str],
        auxiliary: ArrayLike,
        name: str,
        split: str,
    ) -> Self:
        """Encode a table by a public schema; the codes of m categories become 0, 1/(m - 1), ..., 1.

        Args:
            frame: whatever `Schema.encode` reads; columns outside the schema are left out.
            schema: public columns of the contexts.
            labels, arms, auxiliary, name, split: as above.
        """
        contexts = schema.encode(frame, ignore_extra=True)
        for column, declared in enumerate(schema.columns.values()):
            if isinstance(declared, Categories):
                contexts[:, column] /= max(1, len(declared.values) - 1)
        return cls(
            name=name,
            columns=schema.names,
            arms=tuple(arms),
            split=split,
            contexts=contexts,
            labels=np.asarray(labels, dtype=np.int64),
            auxiliary=np.asarray(auxiliary, dtype=np.bool_),
        )

    def __repr__(self) -> str:
        return f"ClassificationTable(name={self.name!r}, columns={self.columns}, arms={self.arms})"

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return len(self.columns)

    @property
    def n_arms(self) -> int:
        """Number of classes."""
        return len(self.arms)

    def half(self, which: Half) -> Self:
        """One of two disjoint halves: `tuning` to choose constants on, `report` to report on."""
        if which not in ("tuning", "report"):
            raise InvalidParameter("half: expected 'tuning' or 'report'")
        keys = PublicCoins(_HALVES_SEED).uniform(f"classification/{self.name}", 0, len(self.labels), 1)[:, 0]
        rows = np.argsort(keys, kind="stable")
        middle = len(rows) // 2
        return self._rows(np.sort(rows[:middle] if which == "tuning" else rows[middle:]))

    def target(self) -> PeopleWorld:
        """The people to be served."""
        return PeopleWorld(
            name=self.name, columns=self.contexts[~self.auxiliary], rewards=self._paid(~self.auxiliary)
        )

    def source(self, weights: ArrayLike | None = None) -> PeopleSource:
        """The auxiliary people.

        Args:
            weights: (K,) public probabilities of the behaviour policy; even by default.
        """
        even = np.full(self.n_arms, 1.0 / self.n_arms)
        return PeopleSource(
            columns=self.contexts[self.auxiliary],
            rewards=self._paid(self.auxiliary),
            weights=even if weights is None else np.asarray(weights, dtype=np.float64),
        )

    def _paid(self, rows: BoolArray) -> FloatArray:
        """(n, K) what every arm pays these people."""
        right = self.labels[rows][:, None] == np.arange(self.n_arms)
        return np.asarray(right, dtype=np.float64)

    def _rows(self, rows: IntArray) -> Self:
        return replace(
            self,
            contexts=self.contexts[rows],
            labels=self.labels[rows],
            auxiliary=self.auxiliary[rows],
        )
