"""MABWiser's methods on a private policy (`MAB`).

    mab = MAB(GPBandit(contexts=..., arms=[...], privacy=JointDP(1, 1e-6, user_ids=False), ...))
    mab.fit(decisions, rewards, contexts)             # optional
    arms = mab.predict(contexts)                      # uses one round for each person
    mab.partial_fit(arms, rewards, contexts)          # rewards of `arms`
    mab.predict_expectations(contexts)                # from releases: uses no round

How each method treats raw data:

- `predict` reads the contexts and uses one round of the horizon for each person, also when a context cannot
  be read. The arm is computed from releases and is for that person alone. In MABWiser, `predict` uses
  nothing.
- `partial_fit` accepts rewards of decisions made by `predict` only. A row of another decision would use a
  round, and would change the rounds of other people. With `users`, a row is matched to that user's decision.
  Without, each open decision needs a row, in order, with NaN for a missing reward. Otherwise one person's
  missing row would give the next person's reward to the wrong decision.
- `fit` takes a log whose arms others chose, and uses one round for each row. A second call is refused: in
  MABWiser it starts anew, but a release cannot be undone.
- `predict_expectations` depends on releases only, and may be published.
- `add_arm` and `remove_arm` change the arms of the policy from its next release on, and not at once as in
  MABWiser. Which arm, and when, must not depend on private data.
- `warm_start` is refused, as are copies and pickles.

The guarantee, with its assumptions, is the policy's: `mab.guarantee`.
"""

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._checks import person_in
from dpbandits._typing import IntArray
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.policy import RoundPolicy
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.tables.menu import Menu

__all__ = ["MAB"]

_KEPT = 4096
"""Number of decisions of named users above which those that are no longer pending are removed."""

_FIXED = (
    "arms of this policy are fixed, as only GPBandit with marginal tables changes them. Build a new policy, "
    "with a guarantee of its own; to exclude an arm for one person, pass available= to ask on the policy"
)


class MAB:
    """MABWiser's methods on one policy; the module describes how they treat raw data.

    Args:
        policy: Policy with `contexts` and `arms` that has not been asked yet. Without
            `JointDP(..., user_ids=False)`, pass `users` in every call.

    Raises:
        InvalidParameter: the policy has no arms.

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
        if getattr(policy, "menu", None) is None:
            raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
        self._begun, self._lock = False, threading.Lock()
        self._waiting: dict[str, tuple[object, bytes, int]] = {}  # decision id -> user, context, arm; raw
        self._every: list[Label] = []  # labels of all arms that were offered, whose places are codes

    def __repr__(self) -> str:
        return f"MAB({self._policy!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a MAB cannot be copied or pickled: it holds raw contexts. Save its policy")

    @property
    def _menu(self) -> Menu:
        menu: Menu = self._policy.menu
        return menu

    @property
    def arms(self) -> list[Label]:
        """Labels of the arms that are offered now."""
        return list(self._menu.arms.labels)

    @property
    def guarantee(self) -> Guarantee:
        """The policy's guarantee."""
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
        """Learn from a log, one round for each row. Call it once, before every other method.

        Args:
            decisions: n labels. A row with an unknown label or an unreadable context contributes nothing.
            rewards: (n,); NaN for a missing reward.
            contexts: Contexts of n people, as for `ask_batch`; lists of values follow the schema's order.
            users: n user ids, if the policy requires them.

        Raises:
            ProtocolError: `fit` or `predict` was called before.
            InvalidData: decisions, rewards and contexts differ in number.
        """
        people, given = _table(contexts), _column(decisions)
        values = _checks.contents(rewards, name="rewards")
        if not len(self._menu.points(people)) == len(given) == len(values):
            raise InvalidData("fit: expected one decision and one reward for each context")
        with self._lock:
            if self._begun:
                raise ProtocolError(
                    "fit: a second fit would release the same people's data again, and a release cannot be "
                    "undone; pass rewards of new decisions to partial_fit, or build a new policy with a "
                    "guarantee of its own"
                )
            decided = self._policy.ask_batch(people, users=users, available=[[label] for label in given])
            self._begun = True
            self._policy.tell_batch(decided.ids, values)

    def predict(self, contexts: Any, *, users: Sequence[object] | None = None) -> Any:
        """Return the arm of each person: a label for one person, a list for several.

        Each person uses one round. The arm is None, and the round is used, if the context cannot be read.
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
            codes = np.where(decisions.indices < 0, -1, self._codes(list(decisions.arms)))
            for id_, user, point, code in zip(decisions.ids, names, points, codes, strict=True):
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
        """Add the rewards of decisions that `predict` made.

        Args:
            decisions, contexts: The arms that `predict` returned and the contexts that it was given.
            rewards: (n,); NaN for a reward that will not come. A reward outside the range contributes
                nothing, unless the policy clips.
            users: User ids that `predict` was given. Without ids, pass a row for every open decision, in the
                order of the decisions.

        Raises:
            InvalidData: the number of rows differs from the number of open decisions, and nothing was
                changed; or some rows match no decision, and only the other rows were used.
        """
        values = _checks.contents(rewards, name="rewards")
        codes, points = self._codes(_column(decisions)), self._menu.points(_table(contexts))
        if (users is None) == self._policy.user_ids:
            raise InvalidData("partial_fit: pass users if and only if predict was given users")
        if not len(points) == len(codes) == len(values):
            raise InvalidData("partial_fit: expected one decision and one reward for each context")
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
                "partial_fit: some rows match no decision made here, and were not used; the others were. "
                "Pass arms and contexts as they were at the decision"
            )

    def _in_order(self, rows: Sequence[tuple[bytes, int]]) -> list[str | None]:
        """Return the decision of each row, in the order of decisions; None where context or arm differ."""
        if len(rows) != len(self._waiting):
            raise InvalidData(
                f"partial_fit: got {len(rows)} rows for {len(self._waiting)} open decisions: pass one row "
                "for each decision, in order, with reward NaN where none came; or pass users"
            )
        waiting = self._waiting.items()
        return [
            id_ if row == tuple(decided) else None
            for row, (id_, (_, *decided)) in zip(rows, waiting, strict=True)
        ]

    def _by_user(self, rows: Sequence[tuple[bytes, int]], users: Sequence[object]) -> list[str | None]:
        """Return the user's oldest open decision with each row's context and arm, None if there is none."""
        if len(users) != len(rows):
            raise InvalidData("partial_fit: expected one user for each row")
        ids: dict[tuple[object, ...], list[str]] = {}
        for id_, key in self._waiting.items():
            ids.setdefault(key, []).append(id_)
        named = map(person_in, users)  # normalised as the policy does
        queues = [ids.get((user, *row)) for user, row in zip(named, rows, strict=True)]
        return [queue.pop(0) if queue else None for queue in queues]

    def predict_expectations(self, contexts: Any) -> Any:
        """Return each arm's expected reward under releases: a dict for one person, a list for several."""
        means, _ = self._policy.predict(_table(contexts))
        found = [dict(zip(self.arms, row, strict=True)) for row in means.tolist()]
        return found[0] if len(found) == 1 else found

    def add_arm(self, arm: Label, binarizer: object = None) -> None:
        """Add an arm from the next release on; see `GPBandit.add_arm`.

        Raises:
            ProtocolError: arms of the policy cannot change now, or there is a `binarizer`: rewards are
                numbers in the policy's range.
            InvalidParameter: the policy had an arm of this label.
        """
        if binarizer is not None:
            raise ProtocolError("add_arm: leave binarizer out, as rewards are numbers in the policy's range")
        self._changing("add_arm").add_arm(arm)

    def remove_arm(self, arm: Label) -> None:
        """Retire an arm from the next release on; see `GPBandit.retire_arm`.

        Raises:
            ProtocolError: arms of the policy cannot change now, or this is the last one.
            InvalidParameter: the policy has no such arm.
        """
        self._changing("remove_arm").retire_arm(arm)

    def _codes(self, labels: Sequence[Any]) -> IntArray:
        """Return codes (n,) of labels, compared by value, that stay when arms come and go; -1 if unknown."""
        self._every += [label for label in self._menu.arms.labels if label not in self._every]
        return Arms(self._every).codes(labels)

    def _changing(self, call: str) -> Any:
        if not hasattr(type(self._policy), "retire_arm"):
            raise ProtocolError(f"{call}: {_FIXED}")
        return self._policy

    def warm_start(self, arm_to_features: object, distance_quantile: object) -> NoReturn:
        """Raise ProtocolError: MABWiser's method copies one arm's observations to another."""
        raise ProtocolError(
            "warm_start: MABWiser's method copies the observations of one arm to another, and this object "
            "stores releases only; pass public data to the policy's warm_start before the first decision"
        )


def _table(contexts: Any) -> Any:
    """Return contexts as a table or a list of rows; one person's values become one row.

    A list is not converted to an array: one text among the values would turn all numbers into text.
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
