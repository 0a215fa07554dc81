"""`Unit`: the unit of privacy, which says whose data is protected and which two inputs are neighbours.

Privacy losses compose only if their neighbours are the same. `Unit.steps` decides this by two rules:

**Equal units.** Equal texts describe the same neighbours. Costs are added up as they are.

**Changes of rows.** Two units of `RowDP` differ in three numbers (D, m, a). D is the largest move of a row's
position (`distance`), and m the number of one person's rows that change (`rows`). The largest change of the
noisy answer of such a row is a (`answers`; 0 if answers do not change). A release that protects changes (D,
m, a) protects changes (D', m', a') after k steps, where k = ceil(m'/m) times ceil(max(D'/D, a'/a)).

*Proof (group privacy).* Order the m' rows in ceil(m'/m) groups of at most m. Move each group on the straight
line from its old positions and answers to the new ones, in ceil(max(D'/D, a'/a)) equal steps. Public boxes
are convex, so the mechanism takes every table on the way, and consecutive tables are neighbours of the
release. Each of the k steps multiplies probabilities by at most e^epsilon, so all of them by at most
e^(k epsilon). rho-zCDP becomes k^2 rho-zCDP (Bun, Steinke 2016, Proposition 1.9). mu-GDP becomes (k mu)-GDP
(Dong, Roth, Su 2022, Theorem 2.14). If k = 1, the account's neighbours are neighbours of the release, and
nothing changes.

If the account protects changes of answers and the release gives exact answers (a = 0), no number of steps is
enough. The same holds between units of different kinds, such as one user's whole contribution and one row.
Such a cost is refused.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from dpbandits.budget.amounts import NOTHING, Amount, exact, ratio_up
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.definitions import Definition, DistributedDP, JointDP, LocalDP, RowDP

__all__ = ["Moves", "Unit", "unit_of"]

_LONGEST_TEXT = 1000
"""Largest number of characters in each text of a unit."""

_MOST_STEPS = 10**9
"""Largest number of steps of a conversion between units. More steps would cost more than any account has."""


@dataclass(frozen=True)
class Moves:
    """Largest change between neighbouring tables of `RowDP`.

    Args:
        distance: Largest move of a row's position (Euclidean distance, after public scaling).
        rows: Largest number of rows that change, all of one person.
        answers: Largest change of the answer of each of these rows; 0 if it does not change.
    """

    distance: Decimal
    rows: int = 1
    answers: Decimal = NOTHING


@dataclass(frozen=True)
class Unit:
    """Unit of privacy: whose data is protected, and which two inputs are neighbours.

    Args:
        whose: Short public text that says whose data is protected.
        neighbours: Short public text that says which two inputs are neighbours.
        moves: Distances and number of rows of a `RowDP` unit; None for other units.

    Raises:
        InvalidParameter: A text is empty, too long or not printable.

    Example:
        >>> unit_of(RowDP(epsilon=1, distance=2)).steps(unit_of(RowDP(epsilon=9, distance=5)))
        3
        >>> print(unit_of(RowDP(epsilon=1, distance=2)).steps(unit_of(JointDP(epsilon=1))))
        None
    """

    whose: str
    neighbours: str
    moves: Moves | None = None

    def __post_init__(self) -> None:
        for name in ("whose", "neighbours"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text or not text.isprintable() or len(text) > _LONGEST_TEXT:
                raise InvalidParameter(
                    f"{name} must be a non-empty printable string of at most {_LONGEST_TEXT} characters"
                )

    def steps(self, to: "Unit") -> int | None:
        """Return how many steps between neighbours of this unit connect any two neighbours of the unit `to`.

        Returns:
            The number of steps, which is 1 if this unit covers `to`; None if no number is known to be
            enough.
        """
        if self == to:
            return 1
        if self.moves is None or to.moves is None or (to.moves.answers and not self.moves.answers):
            return None
        along = ratio_up(to.moves.distance, self.moves.distance)
        if to.moves.answers:
            along = max(along, ratio_up(to.moves.answers, self.moves.answers))
        steps = max(1, along) * -(-to.moves.rows // self.moves.rows)
        return steps if steps <= _MOST_STEPS else None

    def to_config(self) -> dict[str, Any]:
        """Return the unit as a JSON-ready dictionary."""
        config = asdict(self)
        if self.moves is not None:
            moves = self.moves
            config["moves"] = [str(moves.distance), moves.rows, str(moves.answers)]
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Unit":
        """Rebuild a unit from the result of `to_config()`. Other values may raise any of Python's errors."""
        moves = config["moves"]
        if moves is not None:
            distance, rows, answers = moves
            moves = Moves(
                exact(Decimal(distance), name="distance"), int(rows), exact(Decimal(answers), name="answers")
            )
            if not moves.distance or moves.rows < 1:
                raise InvalidParameter("a unit needs distance and rows above 0")
        return cls(config["whose"], config["neighbours"], moves)


def unit_of(privacy: Definition, *, answers: Amount = NOTHING) -> Unit:
    """Return the unit of accounts and costs with this guarantee.

    Args:
        privacy: Guarantee.
        answers: Largest change of a row's noisy answer, for `RowDP`; 0 if answers do not change.

    Raises:
        InvalidParameter: `privacy` is `NoPrivacy`, or is not a guarantee.
    """
    if isinstance(privacy, JointDP):
        return Unit(
            "one user: everything the user contributes to what is charged here",
            "two histories are neighbours when one user's whole contribution to what is charged here is "
            "replaced by any other",
        )
    if isinstance(privacy, LocalDP):
        return Unit(
            "one user: every (context, reward) that the user's device reports on",
            "any two sequences of pairs (context, reward) that the device could hold are neighbours",
        )
    if isinstance(privacy, DistributedDP):
        return Unit(
            "one user: everything that the user's device reports to two aggregators",
            "any two sequences of pairs (context, reward) that the device could hold are neighbours",
        )
    if isinstance(privacy, RowDP):
        moves = Moves(
            exact(privacy.distance, name="distance"), privacy.rows_per_user, exact(answers, name="answers")
        )
        return _unit_of_rows(moves)
    raise InvalidParameter(
        f"privacy is a {type(privacy).__name__}, expected JointDP, LocalDP, DistributedDP or RowDP: "
        "an account needs a guarantee"
    )


def _unit_of_rows(moves: Moves) -> Unit:
    distance, answers = (f"{amount.normalize():f}" for amount in (moves.distance, moves.answers))
    far = f"up to a move of {distance} after public scaling"
    near = f"at most {distance} apart after the public scaling of each release charged here"
    if moves.answers:
        far += f", together with a change of its answer by up to {answers}"
        near += f", and the two answers of such a row at most {answers}"
    if moves.rows == 1:
        whose, changed = f"one row of the table, {far}", "one, whose two positions are"
    else:
        whose = f"one person: at most {moves.rows} rows of the table, each {far}"
        changed = f"those of one person, at most {moves.rows}, and the two positions of each of them are"
    same = "two tables are neighbours when they have the same rows except"
    return Unit(whose, f"{same} {changed} {near}", moves)
