"""Definitions of privacy: joint, local, distributed and row-level differential privacy, or none.

A definition holds the numbers that the operator chooses, and says in words what they mean. It has a `title`,
`epsilon` and `delta`, a `unit` (the data that is protected as one piece), `neighbours` (the adjacency of two
inputs) and `left_out` (sentences on what is not promised). Mechanisms that satisfy a definition are in the
other modules of this package.
"""

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpbandits import _checks
from dpbandits._calls import caller_level, worded
from dpbandits._config import Configured, Registry
from dpbandits.errors import DPBanditsWarning, InvalidParameter

__all__ = [
    "DPBanditsWarning",
    "Definition",
    "DistributedDP",
    "JointDP",
    "LargeDelta",
    "LocalDP",
    "NoPrivacy",
    "RowDP",
    "counted",
    "from_config",
    "warn_if_delta_large",
]

MOST_ROWS = 1 << 24
"""Largest number of rows of a table, and so the largest number of rows of one person."""

LARGE_DELTA = 1e-3
"""Largest delta without a warning: a mechanism with this delta may
reveal everything in one run of a thousand.
"""

_DEFINITIONS: "Registry[Definition]" = Registry("a definition", label="kind")

_LEFT_OUT = math.nan
"""Default of an argument that callers must give; the error for it says how to choose the argument."""

_GENERAL_FACTS = "Facts about people in general may be learned, and applied to anybody."


class LargeDelta(DPBanditsWarning):
    """Warning that a delta is so large that a mechanism with it may publish some users' raw data."""


def warn_if_delta_large(delta: float, n_users: int) -> None:
    """Warn if delta >= 1/n for n users: a mechanism may then publish one random user's data.

    Args:
        delta: the delta of a definition.
        n_users: number n of users that the promise covers, or number of rounds if every user has one.

    Example:
        >>> warn_if_delta_large(1e-6, 10_000)
    """
    if delta > 0.0 and delta * n_users >= 1.0:
        warnings.warn(
            f"delta = {delta:g} is at least 1/{n_users}, one over the number of users or rounds: it allows "
            "a mechanism that publishes somebody's raw data; use it only to compare with papers",
            LargeDelta,
            stacklevel=caller_level(),
        )


def _warn_above_threshold(delta: float) -> None:
    if delta > LARGE_DELTA:
        warnings.warn(
            f"delta = {delta:g} is above {LARGE_DELTA:g}: it allows a mechanism that publishes all raw data "
            "with that probability; use it only to compare with papers",
            LargeDelta,
            stacklevel=caller_level(),
        )


def _share_of(amount: float, parts: int) -> float:
    """Return the largest float64 whose product with `parts` is at most `amount`."""
    share = amount / parts
    while Fraction(share) * parts > Fraction(amount):
        share = math.nextafter(share, 0.0)
    return share


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 round", "2 rounds"."""
    return f"{n} {noun}" + ("" if n == 1 else "s")


@worded
@_DEFINITIONS.add("JointDP")
@dataclass(frozen=True)
class JointDP(Configured):
    """Joint differential privacy: everything that others see reveals little about one user.

    If one user's whole contribution is replaced, everything that the other users receive and everything that
    is released has nearly the same distribution as before. The actions that the user receives are not
    covered, because they are meant for this user. A trusted server sees raw data.

    Args:
        epsilon: privacy loss, above 0.
        delta: probability mass outside the epsilon bound, in [0, 1); above 1e-3 warns.
        rounds_per_user: contribution bound: largest number of rounds of one user, protected together.
        user_ids: True if asks and rows name their user, so that the contribution bound is enforced. Without
            ids the bound is an unchecked assumption of the guarantee.

    Raises:
        InvalidParameter: a number is outside its range.

    Example:
        >>> JointDP(1, 1e-6) == JointDP(epsilon=1, delta=1e-6)
        True
        >>> JointDP(epsilon=1, delta=1e-6).unit
        'one user: everything the user contributes in at most 1 round'
    """

    title: ClassVar[str] = "joint differential privacy"
    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    rounds_per_user: int = 1
    user_ids: bool = True
    neighbours: ClassVar[str] = (
        "two histories are neighbouring if one user's whole contribution (the decision sets or contexts, the "
        "rewards, and whether a reward was reported at all) is replaced by any other, and everybody else's "
        "is unchanged (replace one user)"
    )
    left_out: ClassVar[tuple[str, ...]] = (
        "A user's action may reveal that user's own data.",
        _GENERAL_FACTS,
    )

    def __post_init__(self) -> None:
        _checks.settle(
            self, epsilon=_checks.number, delta=_checks.probability, rounds_per_user=_checks.integer
        )
        _checks.an(self.user_ids, bool, name="user_ids", pass_="user_ids=False")
        _warn_above_threshold(self.delta)

    @property
    def unit(self) -> str:
        """Data that is protected as one piece."""
        rounds = counted(self.rounds_per_user, "round")
        return f"one user: everything the user contributes in at most {rounds}"


@worded
@_DEFINITIONS.add("LocalDP")
@dataclass(frozen=True)
class LocalDP(Configured):
    """Local differential privacy: the one report that a device sends reveals little about its user.

    Args:
        epsilon: privacy loss of the report, above 0; delta is 0.

    Raises:
        InvalidParameter: epsilon is not a finite number above 0.
    """

    title: ClassVar[str] = "local differential privacy"
    epsilon: float
    delta: ClassVar[float] = 0.0
    unit: ClassVar[str] = "one user: the one (context, reward) that the device reports on"
    neighbours: ClassVar[str] = "any two pairs (context, reward) that the device could hold are neighbouring"
    left_out: ClassVar[tuple[str, ...]] = (
        "Participation, the time and origin of the report, and the published version that it answers are not "
        "hidden.",
        _GENERAL_FACTS,
    )

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number)


@worded
@_DEFINITIONS.add("DistributedDP")
@dataclass(frozen=True)
class DistributedDP(Configured):
    """Differential privacy by two aggregators of which at least one is honest. Experimental.

    A device splits its report into two shares, one for each aggregator. Each aggregator adds up its shares
    and adds noise that suffices alone. Everybody except the device sees noisy sums, together with the view of
    at most one aggregator.

    Args:
        epsilon: privacy loss of all reports of one user together, above 0; delta is 0.
        reports_per_user: contribution bound k: largest number of reports of one user, which the user's
            device enforces. Each report costs epsilon/k.

    Raises:
        InvalidParameter: a number is outside its range.

    Example:
        >>> DistributedDP(epsilon=1).unit
        "one user: everything that the user's device reports, at most 1 report"
    """

    title: ClassVar[str] = "computational differential privacy with two aggregators"
    epsilon: float
    delta: ClassVar[float] = 0.0
    _: KW_ONLY
    reports_per_user: int = 1
    neighbours: ClassVar[str] = (
        "two sets of reports are neighbouring if everything that one user reports on (contexts, rewards, and "
        "whether there was a reward at all) is replaced by any other, and everybody else's is unchanged "
        "(replace one user)"
    )
    left_out: ClassVar[tuple[str, ...]] = (
        "Two aggregators that work together see every report.",
        "Participation, the time and origin of a report, the version that it answers, and the arm that was "
        "shown are not hidden.",
        _GENERAL_FACTS,
    )

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number, reports_per_user=_checks.integer)

    @property
    def unit(self) -> str:
        """Data that is protected as one piece."""
        return (
            "one user: everything that the user's device reports, at most "
            f"{counted(self.reports_per_user, 'report')}"
        )


@worded
@_DEFINITIONS.add("RowDP")
@dataclass(frozen=True)
class RowDP(Configured):
    """Row-level differential privacy: a released table reveals little about the position of one row.

    Args:
        epsilon: privacy loss for a row whose position changes by at most `distance`, above 0.
        delta: probability mass outside the epsilon bound, in [0, 1); above 1e-3 warns.
        distance: Euclidean distance, after public scaling, up to which two positions of one row are
            indistinguishable to the stated degree.
        rows_per_user: contribution bound: largest number of rows of one person, protected together.

    Raises:
        InvalidParameter: a number is outside its range.

    Example:
        >>> RowDP(epsilon=1, distance=2, rows_per_user=4).each_row.epsilon
        0.25
    """

    title: ClassVar[str] = "row-level differential privacy"
    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    distance: float = _LEFT_OUT
    rows_per_user: int = 1

    def __post_init__(self) -> None:
        if self.distance is _LEFT_OUT:
            raise InvalidParameter(
                "distance: pass RowDP(epsilon=1, distance=0.1): how far a row may move, after public "
                "scaling, and still be protected"
            )
        _checks.settle(
            self,
            epsilon=_checks.number,
            delta=_checks.probability,
            distance=_checks.number,
            rows_per_user=_checks.integer,
        )
        if self.rows_per_user > MOST_ROWS:
            raise InvalidParameter(f"rows_per_user: expected at most {MOST_ROWS}")
        _warn_above_threshold(self.delta)

    @property
    def each_row(self) -> "RowDP":
        """Definition that noise on a single row must satisfy.

        **Proof.** Between neighbouring tables the m = `rows_per_user` rows of one person change, each by at
        most `distance`; no other row changes. The rows' noise is independent. Each row's release is
        (epsilon', delta')-indistinguishable between the two tables. So the m releases together are (m
        epsilon', m delta')-indistinguishable (composition of independent mechanisms). With epsilon' and
        delta' an m-th of the promise, rounded down, that is at most the promise.
        """
        if self.rows_per_user == 1:
            return self
        shares = (_share_of(self.epsilon, self.rows_per_user), _share_of(self.delta, self.rows_per_user))
        return RowDP(epsilon=shares[0], delta=shares[1], distance=self.distance)

    def to_config(self) -> dict[str, Any]:
        """Return the definition for JSON, with `rows_per_user` if it is more than one."""
        config = super().to_config()
        return {key: value for key, value in config.items() if (key, value) != ("rows_per_user", 1)}

    @property
    def unit(self) -> str:
        """Data that is protected as one piece."""
        moved = f"up to a distance of {self.distance:g} after public scaling"
        if self.rows_per_user == 1:
            return f"one row of the table, {moved}"
        return f"one person: at most {self.rows_per_user} rows of the table, each {moved}"

    @property
    def neighbours(self) -> str:
        """Adjacency of two tables."""
        changed, whose = "one", "that row's"
        if self.rows_per_user > 1:
            changed, whose = f"those of one person, at most {self.rows_per_user}", "each of these rows'"
        return (
            f"two tables are neighbouring if they have the same rows except {changed}, and {whose} two "
            f"positions are at most {self.distance:g} apart (Euclidean distance after public scaling)"
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences on what is not promised."""
        return (
            f"Two positions of a row that are more than {self.distance:g} apart are not protected to this "
            "degree.",
            "Membership in the table, and the number of rows, are not hidden.",
            _GENERAL_FACTS,
        )


@_DEFINITIONS.add("NoPrivacy")
@dataclass(frozen=True, kw_only=True)
class NoPrivacy(Configured):
    """Definition without any promise, for baselines with which private policies are compared."""

    title: ClassVar[str] = "no privacy"
    epsilon: ClassVar[float] = math.inf
    delta: ClassVar[float] = 1.0
    unit: ClassVar[str] = "nobody"
    neighbours: ClassVar[str] = "no two inputs are indistinguishable"
    left_out: ClassVar[tuple[str, ...]] = ()


Definition = JointDP | LocalDP | DistributedDP | RowDP | NoPrivacy


from_config = _DEFINITIONS.read
"""Rebuild a definition from its `to_config()`; anything else is an `InvalidParameter`."""
