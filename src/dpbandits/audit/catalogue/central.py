"""Audits of whole central policies: what others observe when one user's contribution is replaced.

The attacker observes an action or predictions of `Dubey2021`, answers of `ExploreThenCommit` and of the
printed `USCA`, and released values of policies on a log. `crowds` attacks public releases with many users.
"""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import DELTA, Entries, LineFeatures, PreparedNoise, listed, lived, lives
from dpbandits.audit.claims import Draw, GaussianAudit, SampledAudit
from dpbandits.audit.scores import first_column, fit_categories
from dpbandits.central import ExploreThenCommit, ExploreTuning, LoggedTable
from dpbandits.central.logged.evaluation import Evaluation
from dpbandits.central.published import Dubey2021
from dpbandits.central.published.pavlovic2025 import USCA
from dpbandits.domains import Box
from dpbandits.errors import NothingToLearn
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import RoundPolicy
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Categories, Schema

__all__ = ["ENTRIES", "dubey", "predictions_after"]

ENTRIES: Entries = {}

_policy = partial(listed, ENTRIES, scope="policy")
_lived = partial(lived, ENTRIES, scope="policy")

# -- policies over a box: the user is offered (1) or (-1), and reports the highest reward -------------

_turned = partial(
    _lived, delta=DELTA, neighbours="one user's decision set turned around, reward 1", share=0.1
)
_DOMAIN = Box(low=[-1.0], high=[1.0])
_AGAINST = np.array([[-1.0], [1.0]])


def _first_user(policy: RoundPolicy, world: int) -> None:
    policy.tell(policy.ask(np.array([[1.0 - 2.0 * world]])).id, 1.0)


def dubey(
    epsilon: float, seed: int, noise: PreparedNoise, horizon: int, *, delta: float = DELTA, **claim: Any
) -> Dubey2021:
    """Return Dubey2021's policy on [-1, 1].

    `claim` has arguments that select how the paper's constants are used.
    """
    return Dubey2021(
        features=LineFeatures(),
        domain=_DOMAIN,
        reward_range=(0.0, 1.0),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=delta, user_ids=False),
        seed=seed,
        noise=noise,
        **claim,
    )


def predictions_after(policy: Dubey2021, world: int, *, nodes: int) -> FloatArray:
    """Return predictions for others after the replaced user, one for each of the first `nodes` tree nodes.

    Each of these nodes contains the replaced user's contribution.
    """
    _first_user(policy, world)
    seen = []
    for _ in range(nodes):
        policy.ask(np.array([[0.0]]))
        mean, radius = policy.predict(np.array([[1.0]]))
        seen.append(mean / radius**2)  # the released sum of rewards, times a factor that hardly changes
    return np.concatenate(seen)


@_turned(
    "dubey2021-actions", SampledAudit, sees="the action of the next user", score=first_column, share=0.02
)
def _tree_actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> float:
    """Return the action of the user after the replaced one, in a run of two rounds."""
    policy = dubey(epsilon, seed, noise, 2)
    _first_user(policy, world)
    return float(1 - policy.ask(_AGAINST).index)


@_turned(
    "dubey2021-predictions", GaussianAudit, sees="all predictions, after each node", score=None, share=0.04
)
def _tree_predictions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return predictions_after(dubey(epsilon, seed, noise, 3), world, nodes=2)


# -- explore, then commit: the user's reward goes from lowest to highest ------------------------------

_REWARDED = "one row's reward from lowest to highest"
_rewarded = partial(_policy, neighbours=_REWARDED)
_TWO_ARMS: dict[str, Any] = {
    "kernel": SquaredExponential(lengthscale=0.3),
    "actions": CellMeasure.finite([0.0, 1.0]),
    "reward_range": (-1.0, 1.0),
}
_TUNING = ExploreTuning(ridge=10.0)
_CONTEXT = [0.1]
_BOTH = np.array([_CONTEXT, _CONTEXT])
_ROWS = 1000
"""Number of people in audits where the replaced person is among others."""


def _etc(epsilon: float, seed: int, **changes: Any) -> ExploreThenCommit:
    arguments = _TWO_ARMS | {
        "contexts": CellMeasure.uniform(low=0.0, high=1.0, cells=3),
        "horizon": 2,
        "privacy": JointDP(epsilon=epsilon, user_ids=False),
        "tuning": _TUNING,
        "seed": seed,
    }
    return ExploreThenCommit(**(arguments | changes))


@_rewarded(
    "explore-then-commit-answers",
    SampledAudit,
    sees="one answer at a context",
    fit=fit_categories,
    share=0.15,
)
def _answers(epsilon: float, seed: int) -> Draw:
    def draw(world: int, n: int) -> FloatArray:
        # The n answers have a budget of n epsilon: each is drawn anew, and the claim concerns each.
        privacy = JointDP(epsilon=(n + 1) * epsilon, user_ids=False)
        usca = _etc(epsilon, seed, privacy=privacy, tuning=replace(_TUNING, answer_epsilon=epsilon))
        usca.learn(_BOTH, np.array([0, 0]), np.array([1.0, 2.0 * world - 1.0]))
        return np.array([usca.answer(_CONTEXT).index for _ in range(n)], dtype=np.float64)

    return draw


@_policy(
    "explore-then-commit-answers-among-others",
    SampledAudit,
    sees="one answer at a context",
    neighbours=f"{_REWARDED}, beside {_ROWS - 1} others",
    score=lambda outputs: (outputs == 0.0).astype(np.float64),
    share=0.1,
)
def _answers_among_others(epsilon: float, seed: int) -> Draw:
    def draw(world: int, n: int) -> FloatArray:
        policy = _etc(
            epsilon,
            seed,
            actions=CellMeasure.finite([0.0, 1.0, 2.0, 3.0]),
            horizon=_ROWS,
            privacy=JointDP(epsilon=(n + 1) * epsilon, user_ids=False),
            tuning=replace(_TUNING, answer_epsilon=epsilon),
        )
        others = np.arange(_ROWS - 1) % 2
        contexts = np.full((_ROWS, 1), _CONTEXT[0])
        actions = np.append(np.where(others, 2, 1), 0)
        rewards = np.append(np.where(others, 1.0, -1.0) * (others.cumsum() > 498), 2.0 * world - 1.0)
        policy.learn(contexts, actions, rewards)
        return np.array([policy.answer(_CONTEXT).index for _ in range(n)], dtype=np.float64)

    return draw


@_rewarded(
    "evaluation-of-a-log",
    SampledAudit,
    sees="all released sums, squares and the count, for a policy and an arm",
    score=first_column,
    share=0.05,
)
def _evaluated(epsilon: float, seed: int) -> Draw:
    """Draw log likelihood ratios of the values of a published policy on a log with one row.

    The row's arm is the policy's choice and not the arm to compare with. So its reward moves the policy's
    number and the difference from end to end, and the number of the arm not at all.
    """
    people, arms = Schema(place=Categories([0, 1])), [0, 1, 2]
    shared: dict[str, Any] = {"contexts": people, "arms": arms, "action": "arm", "reward": "paid"}
    table = {"place": [0, 1] * 30, "arm": arms * 20, "paid": [0.0, 1.0, 0.0] * 20}
    learned = LoggedTable.of_people(table, reward_range=(0, 1), **shared)
    policy = learned.publish(JointDP(10.0, DELTA, user_ids=False), horizon=60).function
    chosen = int(policy.choose({"place": [0]})[0])
    worlds = [
        Evaluation(
            policies={"policy": policy},
            log=LoggedTable.of_people(
                {"place": [0], "arm": [chosen], "paid": [paid]}, reward_range=(0, 1), **shared
            ),
            privacy=JointDP(epsilon=epsilon, user_ids=False),
            against=arms[chosen - 1],
            method="ips",
        )
        for paid in (0.0, 1.0)
    ]
    numbers = [one.unsafe_terms()[0] for one in worlds]
    low, high = (part.sum(axis=0) for part in numbers)

    def run(world: int) -> float:
        sums = np.array(worlds[world].mechanism.release(numbers[world]).sums)
        return float((np.abs(sums - low) - np.abs(sums - high)).sum())

    return lives(run)


@_policy(
    "published-usca-answer",
    SampledAudit,
    sees="one answer at a context, Pavlovic2025 as printed",
    neighbours=_REWARDED,
    fit=fit_categories,
    share=0.03,
)
def _published_answer(epsilon: float, seed: int) -> Draw:
    def policy() -> USCA:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingToLearn)
            return USCA(
                **_TWO_ARMS,
                contexts=CellMeasure.uniform(low=0.0, high=1.0, cells=1),
                horizon=1,
                privacy=JointDP(epsilon=epsilon),
                seed=seed,
            )

    pairs = np.array([[0.0, 0.5], [1.0, 0.5]])  # action, and the centre of the only context cell
    most = policy().estimator.deviation(pairs).argmax()

    def run(world: int) -> int:
        life = policy()
        life.learn(_BOTH[:1], np.array([most]), np.array([2.0 * world - 1.0]))
        return life.answer(_CONTEXT)

    return lives(run)
