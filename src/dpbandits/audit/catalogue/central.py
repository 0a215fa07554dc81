"""Central policies end to end: what others see after one user's contribution is replaced.

`GPBandit` and `Dubey2021` by actions, releases and predictions; `ExploreThenCommit`, and `USCA` as printed,
by the law of an answer and by its sampler, by the published function, and in phases.
"""

import warnings
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.catalogue.parts import DELTA, Entries, LineFeatures, PreparedNoise, listed, lived
from dpbandits.audit.claims import Draw, GaussianAudit, SampledAudit
from dpbandits.audit.scores import first_column, fit_categories, fit_linear
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
    PhasedExploreThenCommit,
    PhasedTuning,
)
from dpbandits.central.explore_then_commit.policy import NothingToLearn
from dpbandits.central.published import Dubey2021
from dpbandits.central.published.pavlovic2025 import USCA
from dpbandits.domains import Box
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import BasePolicy
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.prefix_sums import square_root_toeplitz

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
_WATCHERS = 64
"""Other users whose actions the attacker collects."""


def _on_a_line(
    epsilon: float, seed: int, noise: PreparedNoise, horizon: int, delta: float = DELTA
) -> dict[str, Any]:
    """What policies over the box are made with."""
    return {
        "features": LineFeatures(),
        "domain": _DOMAIN,
        "reward_range": (0.0, 1.0),
        "horizon": horizon,
        "privacy": JointDP(epsilon=epsilon, delta=delta),
        "user_ids": False,
        "seed": seed,
        "noise": noise,
    }


def _gp_tuning(blocks: list[int], regression: Literal["blocks", "prefix"] = "blocks") -> GPTuning:
    return GPTuning(
        blocks=blocks,
        factor=square_root_toeplitz(len(blocks)),
        public_decision_sets=_AGAINST[None],
        public_law_spread=0.03,
        regression=regression,
    )


def _first_user(policy: BasePolicy, world: int) -> None:
    """The user who is replaced."""
    decision = policy.ask(np.array([[1.0 - 2.0 * world]]))
    policy.tell(decision.id, 1.0)


@_turned(
    "gp-bandit-actions", SampledAudit, sees=f"the actions of {_WATCHERS} other users", score=first_column
)
def _block_actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> float:
    policy = GPBandit(**_on_a_line(epsilon, seed, noise, 1 + _WATCHERS), tuning=_gp_tuning([1]))
    _first_user(policy, world)
    return float((1 - policy.ask_batch(np.tile(_AGAINST, (_WATCHERS, 1, 1))).indices).sum())


@_turned("gp-bandit-released", GaussianAudit, sees="all released statistics of two blocks", score=None)
def _block_released(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> ArrayLike:
    # what is released does not depend on the regression; this one is quicker
    policy = GPBandit(**_on_a_line(epsilon, seed, noise, 3), tuning=_gp_tuning([1, 2], "prefix"))
    _first_user(policy, world)
    for _ in range(2):  # nobody else reports, and each ask lets a block be released
        policy.ask(_AGAINST)
    return policy.released


def dubey(
    epsilon: float, seed: int, noise: PreparedNoise, horizon: int, *, delta: float = DELTA, **claim: Any
) -> Dubey2021:
    """Dubey2021's policy on a line; `claim`: how the paper's constants are taken."""
    return Dubey2021(**_on_a_line(epsilon, seed, noise, horizon, delta), **claim)


def predictions_after(policy: Dubey2021, world: int, *, nodes: int) -> FloatArray:
    """What it predicts for others after the replaced user came, once for each node that the user enters."""
    _first_user(policy, world)
    seen = []
    for _ in range(nodes):
        policy.ask(np.array([[0.0]]))
        mean, radius = policy.predict(np.array([[1.0]]))
        seen += [mean, mean / radius**2]
    return np.concatenate(seen)


@_turned("dubey2021-actions", SampledAudit, sees="the action of the next user", score=first_column)
def _tree_actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> float:
    """Two rounds: with more, the tree has more levels, and the next user's action shows less."""
    policy = dubey(epsilon, seed, noise, 2)
    _first_user(policy, world)
    return float(1 - policy.ask(_AGAINST).index)


@_turned("dubey2021-predictions", SampledAudit, sees="all predictions, after each node", fit=fit_linear)
def _tree_predictions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    """The user enters the node of round 1 and that of rounds 1 and 2."""
    return predictions_after(dubey(epsilon, seed, noise, 3), world, nodes=2)


# -- explore, then commit: the user's reward goes from lowest to highest ------------------------------

_REWARDED = "one row's reward from lowest to highest"
_rewarded = partial(_policy, neighbours=_REWARDED)
_TWO_ARMS: dict[str, Any] = {
    "kernel": SquaredExponential(lengthscale=0.3),
    "actions": CellMeasure.finite([0.0, 1.0]),
    "reward_range": (-1.0, 1.0),
    "user_ids": False,
}
_CONTEXT = [0.1]
_BOTH = np.array([_CONTEXT, _CONTEXT])
_ROWS = 1000
"""People, where the one who is replaced is among others."""


def _etc(epsilon: float, seed: int, **changes: Any) -> ExploreThenCommit:
    arguments = _TWO_ARMS | {
        "contexts": CellMeasure.uniform(low=0.0, high=1.0, cells=3),
        "horizon": 2,
        "privacy": JointDP(epsilon=epsilon),
        "tuning": ExploreTuning(ridge=10.0, publish_ridge=10.0),
        "seed": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)  # two rows are for attacking, not for learning
        return ExploreThenCommit(**(arguments | changes))


@_rewarded(
    "explore-then-commit-answers", SampledAudit, sees="one answer at a context", fit=fit_categories, share=0.5
)
def _answers(epsilon: float, seed: int) -> Draw:
    """Two rows in the cell that counts most: the second makes a tie or a lead of the whole range."""

    def draw(world: int, n: int) -> FloatArray:
        # n answers on a budget of n epsilon: each is drawn anew, and the claim is about each
        usca = _etc(epsilon, seed, privacy=JointDP(epsilon=(n + 1) * epsilon), answer_epsilon=epsilon)
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
    """Four actions; the others hold the first one below its rivals by about what one person can move."""

    def draw(world: int, n: int) -> FloatArray:
        policy = _etc(
            epsilon,
            seed,
            actions=CellMeasure.finite([0.0, 1.0, 2.0, 3.0]),
            horizon=_ROWS,
            privacy=JointDP(epsilon=(n + 1) * epsilon),
            answer_epsilon=epsilon,
        )
        others = np.arange(_ROWS - 1) % 2
        contexts = np.full((_ROWS, 1), _CONTEXT[0])
        actions = np.append(np.where(others, 2, 1), 0)
        rewards = np.append(np.where(others, 1.0, -1.0) * (others.cumsum() > 498), 2.0 * world - 1.0)
        policy.learn(contexts, actions, rewards)
        return np.array([policy.answer(_CONTEXT).index for _ in range(n)], dtype=np.float64)

    return draw


@_lived(
    "published-usca-answer",
    SampledAudit,
    sees="one answer at a context, Pavlovic2025 as printed",
    neighbours=_REWARDED,
    fit=fit_categories,
    share=0.02,
)
def _published_answer(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> int:
    """Two rows in the cell that counts most; each policy answers once, so each answer is a life."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        policy = USCA(
            kernel=_TWO_ARMS["kernel"],
            actions=_TWO_ARMS["actions"],
            contexts=CellMeasure.uniform(low=0.0, high=1.0, cells=1),
            reward_range=(-1.0, 1.0),
            horizon=2,
            privacy=JointDP(epsilon=epsilon),
            seed=seed,
            noise=noise,
        )
    policy.learn(_BOTH, np.array([0, 0]), np.array([1.0, 2.0 * world - 1.0]))
    return policy.answer(_CONTEXT)


@_lived(
    "explore-then-commit-release",
    GaussianAudit,
    delta=DELTA,
    sees="the released function",
    neighbours=_REWARDED,
    score=None,
    share=0.06,
)
def _published_function(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> ArrayLike:
    usca = _etc(epsilon, seed, privacy=JointDP(epsilon=epsilon, delta=DELTA), horizon=1, noise=noise)
    usca.learn(_BOTH[:1], np.array([0]), np.array([2.0 * world - 1.0]))
    return usca.publish().mean


_phases = partial(
    _lived, delta=DELTA, neighbours="the first user's reward from lowest to highest", share=0.03
)


def _after_one(
    epsilon: float, seed: int, noise: PreparedNoise, horizon: int, world: int
) -> PhasedExploreThenCommit:
    """A policy that published after its first user, once somebody asks."""
    policy = PhasedExploreThenCommit(
        **_TWO_ARMS,
        contexts=CellMeasure.uniform(low=0.0, high=1.0, cells=2),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        tuning=PhasedTuning(phases=[1], exploration=[1.0]),
        seed=seed,
        noise=noise,
    )
    policy.tell(policy.ask(_CONTEXT).id, 2.0 * world - 1.0)
    return policy


@_phases(
    "phased-explore-then-commit-policy",
    GaussianAudit,
    sees="the policy published after the first phase",
    score=None,
)
def _phased_policy(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> ArrayLike:
    policy = _after_one(epsilon, seed, noise, 2, world)
    policy.ask(_CONTEXT)
    return np.zeros(1) if policy.published is None else policy.published.mean


@_phases(
    "phased-explore-then-commit-actions",
    SampledAudit,
    sees="the actions of two other users after the first phase",
    fit=fit_categories,
)
def _phased_actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> IntArray:
    return _after_one(epsilon, seed, noise, 3, world).ask_batch(np.array([[0.1], [0.9]])).indices
