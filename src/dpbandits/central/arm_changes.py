"""`ArmHistory`: the public list of a policy's arms, and of the changes to it.

An arm is added or retired while the policy runs (`GPBandit.add_arm`, `GPBandit.retire_arm`). A change is
announced at one time and takes effect at a later release. After n releases the policy is at *version* n, and
offers the arms of that version. Every arm has a code, its place among all arms that the policy ever had.
Codes never change, so that the recorded rounds of a block name the chosen arms correctly after any change.

Changes are events of the log of releases (`state.release_log`), which is part of every state. Nothing in
them is computed from users' data.

**Blocks that are planned anew.** The default schedule has few late releases, and an arm that comes late
would have none. An addition after which fewer than two releases would hold the new arm may therefore end the
present block earlier, and replace all later blocks by short ones (`in_effect`, `schedule.planned_anew`).

- The new ends are computed from earlier ends, the horizon and the number of rounds that were asked. All of
  them are public, and the announcement depends on no private data, as the statement assumes.
- Ends up to the last asked round stay. So every round is in one block, which only its place in the order
  of asks decides. With k rounds of a user, k_j of them in block j, the k_j still add up to at most k. The
  proof in `dpbandits.central.marginals.release` holds for any such blocks, with fresh noise for each.
- No noise rate depends on the number of blocks, with one exception: Gaussian noise on counts is calibrated to
  the number of draws that one user's rounds can touch, cells times min(k, blocks). If k is at most the number
  of blocks before any change, this is cells times k for every later plan. Otherwise nothing is planned anew.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from dpbandits._reading import reading
from dpbandits._typing import IntArray
from dpbandits.central.marginals.learning import DRAWS, forced_draws
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import CorruptState, InvalidParameter, ProtocolError
from dpbandits.policy.deadlines import shown_time
from dpbandits.tables import Products

__all__ = ["ARMS", "HELD_TWICE", "MINIMUM", "ArmChange", "ArmHistory", "in_effect"]

ARMS = b"C"
"""Kind of a record in the log of rounds that holds a change of arms (`ArmChange.to_bytes`)."""

MINIMUM = 0.1
"""Default of the share of decisions that a new arm gets at least, until two releases contain its rounds.
`python -m reproduction.tuning.arms_change` compares it with other shares."""

MOST_FORCED = 0.5
"""Largest sum of the minimum shares of all arms, each rounded up to whole draws (`forced_draws`)."""

HELD_TWICE = 2
"""Number of released blocks with a new arm after which the arm has no minimum share any more."""

_EVENTS: dict[str, str] = {"add": "arm added", "retire": "arm retired"}


@dataclass(frozen=True)
class ArmChange:
    """One public change of a policy's arms.

    Attributes:
        what: "add" or "retire".
        arm: Label of the arm.
        version: Number of releases from which the change is in effect.
        asked: Number of rounds that had been asked when the change was announced.
        at: Time of the announcement, in seconds since 1970.
        like: Label of the arm from whose posterior a new arm starts; None for the average of all arms.
        minimum: Share of the decisions that a new arm gets at least, until two releases contain its rounds.
        features: Public features of a new product by column; None for an arm without features.
        ends: Numbers of rounds at which the blocks end from the announcement on, the present block included;
            None if the blocks stay as they are.
    """

    what: Literal["add", "retire"]
    arm: Label
    version: int
    asked: int
    at: float
    like: Label | None = None
    minimum: float | None = None
    features: Mapping[str, Any] | None = field(default=None, hash=False)
    ends: tuple[int, ...] | None = None

    def to_config(self) -> dict[str, Any]:
        """Return the change as JSON, which is an event of the log of releases."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "what"}
        named |= {"ends": None if self.ends is None else list(self.ends)}
        return {"event": _EVENTS[self.what], **{name: own for name, own in named.items() if own is not None}}

    @classmethod
    def from_config(cls, event: Mapping[str, Any]) -> Self:
        """Read a change from the result of `to_config`.

        Raises:
            CorruptState: The argument is something else.
        """
        with reading("a change of arms", CorruptState):
            what: Any = {text: name for name, text in _EVENTS.items()}[event["event"]]
            given = {name: value for name, value in event.items() if name != "event"}
            ends: Any = given.pop("ends", None)
            found = cls(what=what, **given, ends=None if ends is None else tuple(ends))
            share: Any = found.minimum
            counts = found.version, found.asked
            fits = all(type(one) is int for one in counts) and found.version >= 1 and found.asked >= 0
            fits &= type(found.at) in (int, float) and math.isfinite(found.at)
            # The first end is after all rounds that were asked: no round moves to another block.
            later = [found.asked, *(found.ends or ())]
            fits &= ends is None or (type(ends) is list and len(later) > 1)
            fits &= all(type(one) is int for one in later) and bool((np.diff(later) > 0).all())
            if what == "add":
                fits &= type(share) in (int, float) and 0.0 < share <= MOST_FORCED
            else:
                fits &= share is None and found.like is None and found.features is None
            fits &= found.features is None or isinstance(found.features, dict)
            if not fits:
                raise CorruptState("a change of arms cannot be read")
        return found

    def to_bytes(self) -> bytes:
        """Return the change as a record of the log of rounds."""
        return json.dumps(self.to_config(), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a change from the result of `to_bytes`.

        Raises:
            CorruptState: The argument is something else.
        """
        with reading("a change of arms", CorruptState):
            event = json.loads(content)
        return cls.from_config(event)

    def __str__(self) -> str:
        announced = f"{_EVENTS[self.what]}: {self.arm!r}, announced {shown_time(self.at)}"
        return f"{announced}, from release {self.version} on"


@dataclass(frozen=True)
class ArmHistory:
    """All arms that a policy ever had, with the versions in which each is offered.

    Args:
        first: Labels of the arms that the policy was built with.
        changes: Changes in the order of their announcement.

    Example:
        >>> arms = ArmHistory(("mail", "call"))
        >>> arms = arms.changed("add", "chat", version=3, asked=700, at=0.0, like="call", minimum=0.1)
        >>> arms = arms.changed("retire", "mail", version=4, asked=900, at=0.0)
        >>> arms.labels, arms.offered(2).tolist(), arms.offered(3).tolist(), arms.offered(4).tolist()
        (('mail', 'call', 'chat'), [0, 1], [0, 1, 2], [1, 2])
    """

    first: tuple[Label, ...]
    changes: tuple[ArmChange, ...] = ()

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Labels of all arms, announced and retired ones included, in the order of their codes."""
        return (*self.first, *(one.arm for one in self.changes if one.what == "add"))

    @cached_property
    def _every(self) -> Arms:
        return Arms(self.labels)

    def planned(self, blocks: tuple[int, ...], version: int | None = None) -> tuple[int, ...]:
        """Return the ends of blocks after the changes that take effect up to a version.

        Args:
            blocks: Ends of the blocks before any change.
            version: Number of releases; None for all changes.
        """
        for one in self.changes:
            if one.ends is not None and (version is None or one.version <= version):
                blocks = (*(end for end in blocks if end <= one.asked), *one.ends)
        return blocks

    def known(self, version: int) -> int:
        """Return the number of arms that were offered in this version or an earlier one."""
        added = [one for one in self.changes if one.what == "add" and one.version <= version]
        return len(self.first) + len(added)

    def offered(self, version: int) -> IntArray:
        """Return the codes of the arms that a version offers, in increasing order."""
        gone = {one.arm for one in self.changes if one.what == "retire" and one.version <= version}
        return np.array(
            [code for code in range(self.known(version)) if self.labels[code] not in gone], dtype=np.int64
        )

    def added(self, version: int) -> list[ArmChange]:
        """Return the additions that take effect in this version, in the order of their codes."""
        return [one for one in self.changes if one.what == "add" and one.version == version]

    @property
    def products(self) -> list[tuple[Label, Mapping[str, Any]]]:
        """Label and features of every arm that was added with features, in the order of codes."""
        return [(one.arm, one.features) for one in self.changes if one.features is not None]

    def code(self, label: object) -> int:
        """Return the code of the arm with a label, compared by value; -1 if no arm ever had this label."""
        return self._every.code(label)

    def minimums(self, version: int) -> list[tuple[int, float]]:
        """Return (code, minimum share) of the arms that have a minimum share in a version."""
        found = [
            (self.code(one.arm), one.minimum)
            for one in self.changes
            if one.what == "add" and one.version <= version < one.version + HELD_TWICE
        ]
        offered = set(self.offered(version).tolist())
        return [(code, share) for code, share in found if share is not None and code in offered]

    def changed(self, what: Literal["add", "retire"], arm: Label, **rest: Any) -> "ArmHistory":
        """Return the history with one more change, which must have been checked by `adding` or `retiring`."""
        return replace(self, changes=(*self.changes, ArmChange(what, arm, **rest)))

    def found(self, what: str, arm: object) -> ArmChange | None:
        """Return the change `what` ("add" or "retire") of an arm; None if the arm has no such change."""
        own = self.code(arm)
        same = (one for one in self.changes if one.what == what and self.code(one.arm) == own >= 0)
        return next(same, None)

    def features_of(self, products: Products | None, *, like: object, features: Any) -> dict[str, Any] | None:
        """Return the features of a new product as plain values; None for an arm of a policy without products.

        Raises:
            InvalidParameter: Features are missing, do not fit the columns, or are for a policy without
                products; a product is said to be like another; or there are too many products.
        """
        if products is None:
            if features is not None:
                raise InvalidParameter("add_arm: features= is for a policy with arms=Products(...)")
            return None
        if like is not None or features is None:
            raise InvalidParameter(
                f"add_arm: pass features= with {list(products.columns.names)} and leave like= out, as a new "
                "product starts from its features"
            )
        return products.row(features, known=len(self.labels))

    def same(self, before: ArmChange, *, like: Any, minimum: float | None, features: Any) -> bool:
        """Return True if the addition `before` was announced with these arguments."""
        own = -1 if before.like is None else self.code(before.like)
        asked = -1 if like is None else self.code(like)
        share = MINIMUM if minimum is None else minimum
        return own == asked and before.minimum == share and before.features == features

    def adding(
        self,
        arm: Any,
        *,
        like: Any,
        minimum: float | None,
        features: Any,
        version: int,
        others: Iterable[float] = (),
    ) -> dict[str, Any]:
        """Check the arguments of an addition, and return the fields of its `ArmChange`.

        `others` are minimum shares of arms that are not new, as `Readout.minimum` has them.

        Raises:
            InvalidParameter: An arm had this label before, `like` is no arm of the policy, or the minimum is
                no share, or too large together with the minimum shares of other new arms.
        """
        if self.code(arm) >= 0:
            raise InvalidParameter(f"add_arm: {arm!r} is an arm already, or was one: pass a new label")
        label = Arms([*self.labels, arm]).labels[-1]  # raises for an invalid label
        if like is not None and not 0 <= self.code(like) < self.known(version - 1):
            raise InvalidParameter("add_arm: like= is no arm of this policy that has been offered")
        share: Any = MINIMUM if minimum is None else minimum
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= MOST_FORCED:
            raise InvalidParameter(f"add_arm: minimum= is a share of the decisions, from 0 to {MOST_FORCED}")
        later = [
            one.minimum or 0.0
            for one in self.changes
            if one.what == "add" and one.version + HELD_TWICE > version
        ]
        if sum(map(forced_draws, (*others, *later, share))) > MOST_FORCED * DRAWS:
            raise InvalidParameter(
                f"add_arm: arms together may have at most {MOST_FORCED:.0%} of the decisions as their "
                f"minimum, each rounded up to a multiple of 1/{DRAWS}: pass a smaller minimum=, or wait "
                "until earlier new arms were released twice"
            )
        known = None if like is None else self.labels[self.code(like)]
        return {"what": "add", "arm": label, "like": known, "minimum": float(share), "features": features}

    def retiring(self, arm: Any, *, version: int) -> dict[str, Any]:
        """Check the arguments of a retirement, and return the fields of its `ArmChange`.

        Raises:
            InvalidParameter: The policy has no such arm.
            ProtocolError: No arm would be left.
        """
        code = self.code(arm)
        if code < 0:
            raise InvalidParameter(f"retire_arm: {arm!r} is no arm of this policy")
        last = max((one.version for one in self.changes), default=0)
        if all(set(self.offered(later).tolist()) <= {code} for later in (version, max(version, last))):
            raise ProtocolError("retire_arm: this is the last arm, and a policy offers at least one")
        return {"what": "retire", "arm": self.labels[code]}

    @classmethod
    def of(cls, first: Sequence[Label], events: Iterable[Mapping[str, Any]]) -> Self:
        """Return the history of a policy, from the events of its log of releases.

        Raises:
            CorruptState: An event cannot be read, or its arm is unknown or occurs twice.
        """
        found = cls(tuple(first), tuple(ArmChange.from_config(one) for one in events))
        with reading("the changes of arms", CorruptState):
            Arms(found.labels)  # raises if a label is there twice
            for one in found.changes:
                if any(label is not None and found.code(label) < 0 for label in (one.arm, one.like)):
                    raise CorruptState("a change of arms names an unknown arm")
        return found


def in_effect(
    blocks: tuple[int, ...],
    *,
    asked: int,
    begun: int,
    counted_first: int,
    anew: tuple[int, ...],
    least: int,
    wanted: int,
) -> dict[str, Any] | None:
    """Return the fields `version` and, if blocks are planned anew, `ends` of a change that is announced now.

    A release that has not begun knows the change. The block of the next round has no release yet. The block
    before it may be full, and its release may not have begun. Blocks are planned anew if fewer than `wanted`
    releases would hold rounds after the change, and the new plan has more.

    Args:
        blocks: Ends of the blocks.
        asked: Number of rounds that were asked.
        begun: Number of releases that were drawn or begun.
        counted_first: Number of releases without rewards before all others.
        anew: Ends that a new plan has from the present block on; () for none.
        least: Number of releases that must hold rounds after the change.
        wanted: Number of releases that should hold rounds after the change.

    Returns:
        The fields, or None if fewer than `least` releases would hold rounds after the change.
    """
    ended, full = sum(end <= asked for end in blocks), sum(end < asked for end in blocks)
    version = max(1 + max(full, min(begun, ended)), 1 + counted_first)
    held, more = len(blocks) - version, ended + len(anew) - version
    if held < max(least, wanted) and more > held:
        return {"version": version, "ends": anew} if more >= least else None
    return {"version": version} if held >= least else None
