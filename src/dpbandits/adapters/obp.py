"""Open Bandit Pipeline's feedback dict and policy interface, without its package.

- `learn(policy, feedback)`: a log in its dict into an `ExploreThenCommit`.
- `OnlinePolicy(policy)`: our policies as it asks them (`select_action`, `update_params`).
- `action_dist(published, context)`: (n, K, 1), what its estimators take as an evaluation policy.
- `feedback_of(world, rounds=)`: its dict of a world of ours, logged by uniform choices.

What becomes of raw data:

- The dict is raw: contexts, actions, rewards. `learn` reads it; what leaves is what `publish` gives.
- Whatever its estimators compute from the dict (inverse propensity, direct method, doubly robust) is a
  statistic of raw rewards, with no noise: show it to those who may see the log.
- `run_bandit_simulation` and `run_bandit_replay` return everybody's actions. An action of ours is for its own
  person; all of them together are no release.
- `select_action` takes a round, and the reward that follows belongs to it alone: a round without
  `update_params`, as in replay, contributes nothing.

Its actions are numbers, the codes of our arms in their order; of lists of several actions those at
position 0 are learned from.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from dpbandits import _checks
from dpbandits._cells import UNREADABLE
from dpbandits._typing import FloatArray, IntArray
from dpbandits.adapters.menus import menu_of
from dpbandits.central import ExploreThenCommit, PublishedFunction
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.policy import PublicCoins, RoundPolicy
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["OnlinePolicy", "action_dist", "feedback_of", "learn"]

_KEYS = ("context", "action", "reward")


def learn(
    policy: ExploreThenCommit, feedback: Mapping[str, Any], *, users: Sequence[object] | None = None
) -> None:
    """Learn from its feedback dict: raw data enters the policy, and nothing leaves.

    Args:
        policy: built with `contexts` and `arms`; contexts are in the schema's order.
        feedback: `context` (n, d), `action` (n,) codes, `reward` (n,), `pscore` (n,) or None (actions were
            drawn uniformly), `position` (n,) or None (all are 0). A row at another position, or of no arm,
            counts nothing, and no other row is the worse for it.
        users: n ids, where the policy asks for them.

    Raises:
        InvalidData: a key is missing, or there is not one position a row.
    """
    _checks.an(policy, ExploreThenCommit, name="policy", pass_="ExploreThenCommit(contexts=..., arms=...)")
    if policy.arms is None:
        raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
    missing = [key for key in _KEYS if key not in feedback]
    if missing:
        raise InvalidData(f"the feedback lacks {missing}")
    codes, position = _checks.contents(feedback["action"], name="action"), feedback.get("position")
    if position is not None:
        places = _checks.contents(position, name="position")
        if places.shape != codes.shape:
            raise InvalidData(f"position of shape {places.shape}: expected None, or one a row")
        codes = np.where(places == 0.0, codes, np.nan)
    labels = dict(enumerate(policy.arms))
    policy.learn(
        feedback["context"],
        [labels.get(code, UNREADABLE) for code in codes.tolist()],  # what is no arm counts nothing
        feedback["reward"],
        propensities=feedback.get("pscore"),
        users=users,
    )


def action_dist(published: PublishedFunction, context: Any) -> FloatArray:
    """(n, K, 1) chances of the arms by what was published: 1 for the best and 0 for the others."""
    best = published.choose(context)
    return np.eye(len(published.arms) + 1, len(published.arms))[best][:, :, None]


def feedback_of(world: Any, *, rounds: int | None = None) -> dict[str, Any]:
    """Its dict of a world's first rounds, logged by uniform choices. For evaluation only.

    Args:
        world: with arms: decision sets hold one person's context beside every arm.
        rounds: all of the world's by default.
    """
    n = world.horizon if rounds is None else _checks.integer(rounds, name="rounds")
    sets, k = world.decision_sets(0, n), world.n_candidates
    actions = (PublicCoins(world.seed).uniform("obp/log", 0, n, 1)[:, 0] * k).astype(np.int64)
    return {
        "n_rounds": n,
        "n_actions": k,
        "context": sets[:, 0, :-1],
        "action_context": np.eye(k),
        "action": actions,
        "position": None,
        "reward": world.rewards(0, n, actions),
        "expected_reward": world.mean_rewards(0, n),
        "pi_b": np.full((n, k, 1), 1.0 / k),
        "pscore": np.full(n, 1.0 / k),
    }


class _Contextual(str):
    """Equal to "contextual" and to `PolicyType.CONTEXTUAL`, its names in older and newer versions."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return getattr(other, "name", other) in ("contextual", "CONTEXTUAL")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class OnlinePolicy:
    """One of our policies as Open Bandit Pipeline asks them; see the module.

    Args:
        policy: with `contexts` and `arms` and `user_ids=False`, as it names nobody.

    Raises:
        InvalidParameter: a policy without arms, or that asks for users.

    Example:
        >>> import dpbandits as dpb
        >>> policy = OnlinePolicy(dpb.central.GPBandit(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], reward_range=(0, 1),
        ...     horizon=1000, privacy=dpb.JointDP(epsilon=1, delta=1e-6), user_ids=False))
        >>> person = np.array([[44.0]])
        >>> [action] = policy.select_action(person)
        >>> policy.update_params(action=action, reward=1.0, context=person)
    """

    len_list: Final = 1
    batch_size: Final = 1
    policy_type: Final = _Contextual("contextual")

    def __init__(self, policy: RoundPolicy) -> None:
        menu = menu_of(policy)
        if policy.user_ids:
            raise InvalidParameter(
                "policy: Open Bandit Pipeline names no users: build it with user_ids=False"
            )
        self.n_actions, self.dim = menu.n_arms, menu.contexts.dim
        self._menu = menu
        self._policy: Any = policy
        self._last: tuple[str, int, bytes] | None = None  # decision, arm and context: raw data

    def __repr__(self) -> str:
        return f"OnlinePolicy({self._policy!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("it cannot be copied or pickled: it holds a person's context. Save its policy")

    @property
    def policy_name(self) -> str:
        """What reports call it."""
        return type(self._policy).__name__

    @property
    def guarantee(self) -> Guarantee:
        """The policy's."""
        stated: Guarantee = self._policy.guarantee
        return stated

    def initialize(self) -> NoReturn:
        """Refused: what was released cannot be forgotten."""
        raise ProtocolError("initialize: what was released cannot be forgotten; build a new policy")

    def select_action(self, context: FloatArray) -> IntArray:
        """(1,) the arm's code for one person's context (1, d); takes a round.

        The decision before it contributes nothing, if it was given no reward.
        """
        point = self._point(context)
        if self._last is not None:
            self._policy.abandon(self._last[0])
            self._last = None
        decision = self._policy.ask(context[0])
        self._last = decision.id, decision.index, point
        return np.array([decision.index])

    def update_params(self, action: int, reward: float, context: FloatArray) -> None:
        """The reward of the last selected action.

        Raises:
            InvalidData: of another context or action; nothing was taken.
            ProtocolError: it has a reward, or nothing was selected.
        """
        if self._last is None:
            raise ProtocolError("update_params: no action waits for its reward: select one first")
        decision, code, point = self._last
        if action != code or self._point(context) != point:
            raise InvalidData("update_params: expected the action and the context that were selected last")
        self._last = None
        self._policy.tell(decision, reward)

    def _point(self, context: Any) -> bytes:
        rows = _checks.contents(context, name="context")
        if rows.shape != (1, self.dim):
            raise InvalidData(f"context: expected shape (1, {self.dim}), got {rows.shape}")
        return self._menu.points(rows).tobytes()
