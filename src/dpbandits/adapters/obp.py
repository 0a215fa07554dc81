"""Open Bandit Pipeline's feedback dict, without its package.

- `learn(policy, feedback)`: a log in its dict into an `ExploreThenCommit`.
- `action_dist(published, context)`: (n, K, 1), what its estimators take as an evaluation policy.
- `feedback_of(world, rounds=)`: its dict of a world of ours, logged by uniform choices.

What becomes of raw data:

- The dict is raw: contexts, actions, rewards. `learn` reads it; what leaves is what `publish` gives.
- Whatever its estimators compute from the dict (inverse propensity, direct method, doubly robust) is a
  statistic of raw rewards, with no noise: show it to those who may see the log.

Its actions are numbers, the codes of our arms in their order; of lists of several actions those at
position 0 are learned from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._cells import UNREADABLE
from dpbandits._typing import FloatArray
from dpbandits.central import ExploreThenCommit, PublishedFunction
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.policy import PublicCoins

__all__ = ["action_dist", "feedback_of", "learn"]

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
