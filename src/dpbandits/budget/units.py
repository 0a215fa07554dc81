"""`Unit`: whose data is protected as one piece, and which two inputs are neighbours.

Losses add up only if the neighbours are the same. `Unit.steps` decides this, by two rules:

**Equal units.** The same words describe the same neighbours. Costs add up as they are.

**Moves of rows.** Two units of `RowDP` differ in three numbers: how far a row may move (`distance`), how many
rows of one person move (`rows`), and how far the noised answer of each moves with it (`answers`; 0: answers
stay as they are). A release that protects moves (D, m, a) protects moves (D', m', a') after k steps, where k
= ceil(m'/m) times ceil(max(D'/D, a'/a)).

*Proof.* Order the m' rows in ceil(m'/m) groups of at most m. Let each group go on the straight line from its
old positions and answers to the new ones, in ceil(max(D'/D, a'/a)) equal steps. Public boxes are convex, so
every table on the way is a table that the mechanism takes, and two tables that follow each other are
neighbours of the release. Each of the k steps multiplies probabilities by at most e^epsilon, so all steps by
at most e^(k epsilon). rho-zCDP becomes k^2 rho (Bun, Steinke 2016, Proposition 1.9), and mu-GDP becomes (k
mu)-GDP (Dong, Roth, Su 2022, Theorem 2.14). Where k = 1 the account's neighbours are neighbours of the
release, and nothing changes.

Where the account's answers move and the release gives exact answers (a = 0), no number of steps is enough.
The same holds between units of different kinds, such as one user's whole contribution and one row. Such a
cost is refused.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from dpbandits.budget.amounts import NOTHING, Amount, exact, ratio_up
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.definitions import Definition, JointDP, LocalDP, RowDP

__all__ = ["Moves", "Unit", "unit_of"]

_LONGEST_TEXT = 1000
"""Characters in each text of a unit."""

_MOST_STEPS = 10**9
"""Steps of a conversion; more would cost more than any account holds."""


@dataclass(frozen=True)
class Moves:
    """What changes between neighbouring tables of `RowDP`.

    Args:
        distance: how far a row's position moves at most (Euclidean, after public scaling).
        rows: rows of one person that move at most.
        answers: how far the answer of each of these rows moves at most; 0: it stays the same.
    """

    distance: Decimal
    rows: int = 1
    answers: Decimal = NOTHING


@dataclass(frozen=True)
class Unit:
    """Unit of privacy: whose data is protected together, and which inputs are neighbours.

    Args:
        whose: whose data is protected as one piece; a short public text.
        neighbours: which two inputs are neighbours; a short public text.
        moves: distances and rows of a `RowDP` unit; None for others.

    Raises:
        InvalidParameter: a text is empty, too long or not printable.

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
        """Steps between neighbours of this unit that lead from one neighbour to the other in `to`.

        Returns:
            1 where this unit covers `to`; None where no number of steps is known to be enough.
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
        """JSON-ready."""
        config = asdict(self)
        if self.moves is not None:
            moves = self.moves
            config["moves"] = [str(moves.distance), moves.rows, str(moves.answers)]
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Unit":
        """A unit that `to_config` wrote; whatever Python raises on other values."""
        moves = config["moves"]
        if moves is not None:
            distance, rows, answers = moves
            moves = Moves(
                exact(Decimal(distance), name="distance"), int(rows), exact(Decimal(answers), name="answers")
            )
            if not moves.distance or moves.rows < 1:
                raise InvalidParameter("a unit's distance and rows are above 0")
        return cls(config["whose"], config["neighbours"], moves)


def unit_of(privacy: Definition, *, answers: Amount = NOTHING) -> Unit:
    """The unit of accounts and costs with this promise.

    Args:
        privacy: the promise.
        answers: with `RowDP`: how far the noised answer of a row moves with it; 0: answers stay the same.

    Raises:
        InvalidParameter: `NoPrivacy`, or no promise at all.
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
    if isinstance(privacy, RowDP):
        moves = Moves(
            exact(privacy.distance, name="distance"), privacy.rows_per_user, exact(answers, name="answers")
        )
        return _unit_of_rows(moves)
    raise InvalidParameter(
        f"privacy is a {type(privacy).__name__}, expected JointDP, LocalDP or RowDP: an account keeps "
        "a promise"
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
