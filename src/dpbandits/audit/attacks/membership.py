"""A membership attack through the public API, the same for private and non-private policies.

The attacker knows all records, the public coins and the algorithm. Only one fact is secret: whether one
target person's reward was the highest or the lowest possible. The attacker observes the policy's prediction
for the target's action after it has learned, and guesses. By chance a guess is right half the time. A
guarantee bounds the share of right guesses.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.policy import Policy
from dpbandits.policy.coins import PublicCoins

__all__ = ["Attackable", "attack_reward"]

_TRIALS_A_CALL = 25
"""Number of trials in one call.

They take about a second, so that progress is visible and processes are balanced.
"""

Views = Callable[[], FloatArray]
"""Function that runs some of the trials, and returns what the attacker sees in each."""


class Attackable(Protocol):
    """People about whom a policy decides. Every environment of `dpbandits.lab.worlds` has these members."""

    @property
    def horizon(self) -> int:
        """Number of people."""

    @property
    def reward_range(self) -> RewardRange:
        """Public bounds of rewards."""

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Return the decision sets (B, n, d) of B people start..stop-1: n candidates of d columns each."""

    def rewards(self, start: int, stop: int, indices: IntArray) -> FloatArray:
        """Return the rewards (B,) of people start..stop-1 for their candidates with numbers
        `indices` (B,).
        """


def attack_reward(
    make_policy: Callable[[int], Policy],
    environment: Attackable,
    *,
    rounds: int,
    target: int = 0,
    trials: int = 500,
    seed: Seed = 0,
    run: Callable[[Sequence[Views]], Iterable[FloatArray]] | None = None,
) -> Guesses:
    """Guess one person's reward from a policy's predictions, in many trials.

    Every trial runs a fresh policy on the same people. It decides for `rounds` people and learns their
    rewards; a fair coin sets the target's reward to the top or the bottom of the range. One more person then
    asks, so that a policy that learns in blocks has learned. An equal number of further trials trains the
    attacker. A policy without noise predicts the same in all trials with the same reward, so it is run only
    once for each of the two rewards.

    Args:
        make_policy: Function from a trial's number to a fresh policy with fresh noise and the same public
            seed.
        environment: The people.
        rounds: Number of people before the attacker's view; at least one block.
        target: Round of the target person.
        trials: Number of guesses.
        seed: Seed of the fair coins.
        run: Function from a list of independent calls to their results in order, to run them in parallel; by
            default they are called one after another.

    Raises:
        InvalidParameter: the target is not among the rounds, or there are too few trials.
    """
    if not 0 <= target < rounds < environment.horizon or trials < 2:
        raise InvalidParameter("attack: expected 0 <= target < rounds < horizon and at least 2 trials")
    secrets = PublicCoins(seed).uniform("attack/target", 0, 2 * trials, 1)[:, 0] < 0.5
    rewards = np.where(secrets, environment.reward_range.high, environment.reward_range.low)
    first = make_policy(0)
    if getattr(first, "noise", first) is None:
        ends, places = np.unique(rewards, return_inverse=True)
        views = _views(make_policy, environment, rounds, target, ends, 0)[places]
    else:
        starts = range(0, 2 * trials, _TRIALS_A_CALL)
        parts = [rewards[start : start + _TRIALS_A_CALL] for start in starts]
        of_part = partial(_views, make_policy, environment, rounds, target)
        calls = [partial(of_part, part, start) for part, start in zip(parts, starts, strict=True)]
        views = np.concatenate([call() for call in calls] if run is None else list(run(calls)))
    known, guessed = secrets[:trials], secrets[trials:]
    high, low = views[:trials][known], views[:trials][~known]
    if len(high) == 0 or len(low) == 0:
        raise InvalidParameter("attack: all training trials have one reward: use more trials or another seed")
    threshold = 0.5 * (high.mean() + low.mean())
    guesses = views[trials:] > threshold  # a higher reward never lowers the prediction
    bound = first.guarantee.membership_bound()
    return Guesses(trials=trials, correct=int((guesses == guessed).sum()), bound=bound)


def _views(
    make_policy: Callable[[int], Policy],
    environment: Attackable,
    rounds: int,
    target: int,
    secret: FloatArray,
    first: int,
) -> FloatArray:
    """Return the attacker's view in each trial: the prediction for the target's action after one more person.

    Trials are numbered from `first` on. The same people come in each, so their decision sets are computed
    once. A trial whose decisions equal those of the trial before reuses its rewards; with one public seed
    this is the usual case.
    """
    offered, one_more = environment.decision_sets(0, rounds), environment.decision_sets(rounds, rounds + 1)[0]
    chosen: IntArray | None = None
    paid: FloatArray = np.empty(0)
    views = np.empty(len(secret))
    for trial, reward in enumerate(secret):
        policy: Any = make_policy(first + trial)
        named = bool(getattr(policy, "user_ids", False))
        decisions = policy.ask_batch(offered, users=list(range(rounds)) if named else None)
        if chosen is None or not np.array_equal(chosen, decisions.indices):
            chosen, paid = decisions.indices, np.array(environment.rewards(0, rounds, decisions.indices))
        rewards = paid.copy()
        rewards[target] = reward
        policy.tell_batch(decisions.ids, rewards)
        policy.ask(one_more, user=rounds if named else None)
        action = decisions.actions[target][None]
        for_arms = getattr(policy, "menu", None) is not None  # these predict by the published function
        mean, _ = policy.publish().at_points(action) if for_arms else policy.predict(action)
        views[trial] = mean[0]
    return views
