"""The feedback dict of Open Bandit Pipeline, without importing that package.

- `learn_from(policy, feedback)`: add a logged feedback dict to an `ExploreThenCommit`.
- `action_dist(published, context)`: a published policy as an evaluation policy, shape (n, K, 1).
- `feedback_of(world, rounds=)`: the feedback dict of a simulated world, logged by uniform choices.

How raw data is treated:

- The dict holds raw contexts, actions and rewards. `learn_from` reads it; only `publish` makes a release.
- The pipeline's off-policy estimators (inverse propensity, direct method, doubly robust) return statistics of
  raw rewards without noise. Show them only to people who may see the log.

Actions are numbers: the codes of the policy's arms, in their order. If an entry is a list of several actions,
only the action at position 0 is used.
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

__all__ = ["action_dist", "feedback_of", "learn_from"]

_KEYS = ("context", "action", "reward")


def learn_from(
    policy: ExploreThenCommit, feedback: Mapping[str, Any], *, users: Sequence[object] | None = None
) -> None:
    """Add a feedback dict to the policy's secret sums; nothing is released.

    Args:
        policy: Policy with `contexts` and `arms`; context columns follow the schema's order.
        feedback: `context` (n, d), `action` (n,) codes, `reward` (n,), `pscore` (n,) or None (actions were
            drawn uniformly), `position` (n,) or None (all are 0). A row at another position, or with an
            unknown action, contributes nothing and does not affect other rows.
        users: n user ids, if the policy requires them.

    Raises:
        InvalidData: a key is missing, or `position` and `action` differ in shape.
    """
    _checks.an(policy, ExploreThenCommit, name="policy", pass_="ExploreThenCommit(contexts=..., arms=...)")
    if policy.arms is None:
        raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
    missing = [key for key in _KEYS if key not in feedback]
    if missing:
        raise InvalidData(f"feedback: missing keys {missing}")
    codes, position = _checks.contents(feedback["action"], name="action"), feedback.get("position")
    if position is not None:
        places = _checks.contents(position, name="position")
        if places.shape != codes.shape:
            raise InvalidData(f"position of shape {places.shape}: expected None, or one for each row")
        codes = np.where(places == 0.0, codes, np.nan)
    labels = dict(enumerate(policy.arms))
    policy.learn(
        feedback["context"],
        [labels.get(code, UNREADABLE) for code in codes.tolist()],  # UNREADABLE: the row contributes nothing
        feedback["reward"],
        propensities=feedback.get("pscore"),
        users=users,
    )


def action_dist(published: PublishedFunction, context: Any) -> FloatArray:
    """Return (n, K, 1) probabilities of the arms under the release: 1 for the best arm, 0 for the others."""
    best = published.choose(context)
    return np.eye(len(published.arms) + 1, len(published.arms))[best][:, :, None]


def feedback_of(world: Any, *, rounds: int | None = None) -> dict[str, Any]:
    """Return the feedback dict of a world's first rounds, logged by uniform choices. For evaluation only.

    Args:
        world: World with arms: a decision set holds one person's context joined with every arm.
        rounds: Number of rounds; by default all rounds of the world.
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
