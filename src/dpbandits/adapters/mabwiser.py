"""MABWiser's calls on a private policy (`MAB`).

    mab = MAB(GPBandit(contexts=..., arms=[...], privacy=JointDP(1, 1e-6, user_ids=False), ...))
    mab.fit(decisions, rewards, contexts)             # a log, once and first; or leave it out
    arms = mab.predict(contexts)                      # takes a round a person
    mab.partial_fit(arms, rewards, contexts)          # the rewards of these
    mab.predict_expectations(contexts)                # from releases: takes nothing

What becomes of raw data:

- `predict` reads a person's context and takes one of the horizon's rounds, whatever comes of it. The arm
  comes from releases and is for that person's eyes. MABWiser's own `predict` may be called as often as one
  likes.
- `partial_fit` gives rewards to decisions made here, and to no others: rows of other decisions would take
  rounds, and so move other people's. Decisions of named users are found by `users`; without names every
  decision that waits needs its row, in order, NaN where no reward came: else one person's missing row would
  hand that of the next to another.
- `fit` takes a log whose arms others chose, a round a row. A second one is refused: MABWiser forgets and
  starts anew, and a release cannot be taken back.
- `predict_expectations` shows releases only, and may be published.
- `add_arm`, `remove_arm` and `warm_start` are refused, as are copies and pickles.

The promise is the policy's, on the policy's assumptions: `mab.guarantee`.
"""

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._checks import person_in
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.policy import RoundPolicy
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.tables.menu import Menu

__all__ = ["MAB"]

_KEPT = 4096
"""Decisions of named users that are kept before those whose reward would come too late are forgotten."""

_FIXED = (
    "arms are public and fixed: features, noise and schedule were made for them. Build a new policy, with a "
    "promise of its own; a person who may not be given an arm is asked about with available= on the policy"
)


class MAB:
    """MABWiser's calls on one of our policies; see the module for what raw data enters and leaves by.

    Args:
        policy: with `contexts` and `arms`, and not asked yet; with `JointDP(..., user_ids=False)`, or name
            `users` in every call.

    Raises:
        InvalidParameter: a policy without arms.

    Example:
        >>> import dpbandits as dpb
        >>> people = dpb.Schema(age=dpb.Range(18, 90))
        >>> mab = MAB(dpb.central.GPBandit(
        ...     contexts=people, arms=["mail", "call"], reward_range=(0, 1), horizon=1000,
        ...     privacy=dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False)))
        >>> arms = mab.predict([[44], [71]])
        >>> mab.partial_fit(arms, [1, 0], [[44], [71]])
        >>> sorted(mab.predict_expectations([[44]]))
        ['call', 'mail']
    """

    def __init__(self, policy: RoundPolicy) -> None:
        _checks.an(policy, RoundPolicy, name="policy", pass_="GPBandit(contexts=..., arms=..., ...)")
        self._policy: Any = policy
        menu: Menu | None = getattr(policy, "menu", None)
        if menu is None:
            raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
        self._menu = menu
        self._begun, self._lock = False, threading.Lock()
        self._waiting: dict[str, tuple[object, bytes, int]] = {}  # decision -> user, context, arm; raw data

    def __repr__(self) -> str:
        return f"MAB({self._policy!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a MAB cannot be copied or pickled: it holds people's contexts. Save its policy")

    @property
    def arms(self) -> list[Label]:
        """Labels of the arms."""
        return list(self._menu.arms.labels)

    @property
    def guarantee(self) -> Guarantee:
        """The policy's."""
        stated: Guarantee = self._policy.guarantee
        return stated

    def fit(
        self,
        decisions: ArrayLike | Sequence[Label],
        rewards: ArrayLike,
        contexts: Any,
        *,
        users: Sequence[object] | None = None,
    ) -> None:
        """Learn from a log, a round a row; once, and before anything else.

        Args:
            decisions: n labels. A row of another label, or whose context cannot be read, counts nothing.
            rewards: (n,); NaN where none came.
            contexts: of n people, as `ask_batch` takes them; lists of values in the schema's order.
            users: n ids, where the policy asks for them.

        Raises:
            ProtocolError: something was learned or predicted before.
            InvalidData: not one reward and one decision a context.
        """
        people, given = _table(contexts), _column(decisions)
        values = _checks.contents(rewards, name="rewards")
        if not len(self._menu.points(people)) == len(given) == len(values):
            raise InvalidData("fit: expected one decision and one reward a context")
        with self._lock:
            if self._begun:
                raise ProtocolError(
                    "fit: a second fit would release the same people's data again, and what was released "
                    "cannot be forgotten; bring rewards of new decisions to partial_fit, or build a new "
                    "policy with a promise of its own"
                )
            decided = self._policy.ask_batch(people, users=users, available=[[label] for label in given])
            self._begun = True
            self._policy.tell_batch(decided.ids, values)

    def predict(self, contexts: Any, *, users: Sequence[object] | None = None) -> Any:
        """The arm of each person: a label for one, a list for several. Takes a round each.

        Whoever's context cannot be read has None, and a round taken.
        """
        people = _table(contexts)
        points = self._menu.points(people)
        with self._lock:
            decisions = self._policy.ask_batch(people, users=users)
            self._begun = True
            if users is not None and len(self._waiting) > _KEPT:
                pending = set(self._policy.pending)
                self._waiting = {id_: row for id_, row in self._waiting.items() if id_ in pending}
            names = [None] * len(decisions) if users is None else list(map(person_in, users))
            for id_, user, point, code in zip(decisions.ids, names, points, decisions.indices, strict=True):
                self._waiting[id_] = (user, point.tobytes(), int(code))
        return decisions.arms[0] if len(decisions) == 1 else list(decisions.arms)

    def partial_fit(
        self,
        decisions: ArrayLike | Sequence[Label],
        rewards: ArrayLike,
        contexts: Any,
        *,
        users: Sequence[object] | None = None,
    ) -> None:
        """Rewards of decisions that `predict` made.

        Args:
            decisions, contexts: as they were then.
            rewards: (n,); NaN where none will come. One off the range counts nothing, unless the policy
                clips.
            users: as they were named then. Without names, a row for every decision that waits, in their
                order.

        Raises:
            InvalidData: another number of rows than decisions wait, and nothing was taken. Or some rows are
                of no decision made here: these count nothing, and the others have counted.
        """
        values = _checks.contents(rewards, name="rewards")
        codes, points = self._menu.cells(_column(decisions)), self._menu.points(_table(contexts))
        if (users is None) == self._policy.user_ids:
            raise InvalidData("partial_fit: name users where predict named them, and there alone")
        if not len(points) == len(codes) == len(values):
            raise InvalidData("partial_fit: expected one decision and one reward a context")
        rows = [(point.tobytes(), int(code)) for point, code in zip(points, codes, strict=True)]
        with self._lock:
            found = self._in_order(rows) if users is None else self._by_user(rows, users)
            known = {id_: reward for id_, reward in zip(found, values, strict=True) if id_ is not None}
            over = known if users is not None else dict.fromkeys(self._waiting, np.nan) | known
            self._waiting = {id_: row for id_, row in self._waiting.items() if id_ not in over}
            if over:
                self._policy.tell_batch(list(over), np.array(list(over.values())))
        if len(known) < len(rows):
            raise InvalidData(
                "partial_fit: some rows are of no decision made here, and count nothing; the others have "
                "counted. Pass arms and contexts as they were at the decision"
            )

    def _in_order(self, rows: Sequence[tuple[bytes, int]]) -> list[str | None]:
        """The decision of each row, where every decision that waits has its row; None where they differ."""
        if len(rows) != len(self._waiting):
            raise InvalidData(
                f"partial_fit: {len(rows)} rows came and {len(self._waiting)} decisions wait: bring one "
                "row a decision, in order, with reward NaN where none came; or name users"
            )
        waiting = self._waiting.items()
        return [
            id_ if row == tuple(decided) else None
            for row, (id_, (_, *decided)) in zip(rows, waiting, strict=True)
        ]

    def _by_user(self, rows: Sequence[tuple[bytes, int]], users: Sequence[object]) -> list[str | None]:
        """The user's own oldest decision of each row's context and arm."""
        if len(users) != len(rows):
            raise InvalidData("partial_fit: expected one user a row")
        ids: dict[tuple[object, ...], list[str]] = {}
        for id_, key in self._waiting.items():
            ids.setdefault(key, []).append(id_)
        named = map(person_in, users)  # compared as the policy compares them
        queues = [ids.get((user, *row)) for user, row in zip(named, rows, strict=True)]
        return [queue.pop(0) if queue else None for queue in queues]

    def predict_expectations(self, contexts: Any) -> Any:
        """Expected reward of each arm, from releases only: a dict for one person, a list for several."""
        means, _ = self._policy.predict(_table(contexts))
        found = [dict(zip(self.arms, row, strict=True)) for row in means.tolist()]
        return found[0] if len(found) == 1 else found

    def add_arm(self, arm: object, binarizer: object = None) -> NoReturn:
        """Refused."""
        raise ProtocolError(f"add_arm: {_FIXED}")

    def remove_arm(self, arm: object) -> NoReturn:
        """Refused."""
        raise ProtocolError(f"remove_arm: {_FIXED}")

    def warm_start(self, arm_to_features: object, distance_quantile: object) -> NoReturn:
        """Refused: MABWiser's copies what was seen of one arm to another."""
        raise ProtocolError(
            "warm_start: MABWiser's copies what was seen of one arm to another, and here nothing is seen but "
            "releases; public data goes to the policy's warm_start before the first decision"
        )


def _table(contexts: Any) -> Any:
    """One person's values as a list or table of one person.

    A list stays one: in an array of all people one person's text would turn everybody's numbers into text.
    """
    if isinstance(contexts, list | tuple) and contexts:
        one = not any(isinstance(own, list | tuple | np.ndarray) or hasattr(own, "keys") for own in contexts)
        return [contexts] if one else list(contexts)
    if isinstance(contexts, np.ndarray) and contexts.ndim == 1:
        return contexts[None]
    return contexts


def _column(decisions: Any) -> list[Any]:
    found = decisions.tolist() if hasattr(type(decisions), "tolist") else list(decisions)
    return found if isinstance(found, list) else [found]
