"""Central policies end to end: what other users see after one user's whole contribution is replaced."""

from typing import Literal

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue._shared import DELTA, Entry, LineFeatures, PreparedNoise, rows_of
from dpbandits.audit.claims import Audit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_linear, identity
from dpbandits.central import GPBandit
from dpbandits.central.published import Dubey2021
from dpbandits.domains import Box
from dpbandits.policy import BasePolicy
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.prefix_sums import square_root_toeplitz

__all__ = ["ENTRIES"]

_TURNED = "one user's decision set turned around, reward 1"
_DOMAIN = Box(low=[-1.0], high=[1.0])
_AGAINST = np.array([[-1.0], [1.0]])
_WATCHERS = 64
"""Other users whose actions the attacker collects."""


def _block_policy(
    epsilon: float,
    seed: int,
    noise: PreparedNoise,
    horizon: int,
    blocks: list[int],
    regression: Literal["blocks", "prefix"] = "blocks",
) -> GPBandit:
    return GPBandit(
        features=LineFeatures(),
        domain=_DOMAIN,
        reward_range=(0.0, 1.0),
        horizon=horizon,
        blocks=blocks,
        factor=square_root_toeplitz(len(blocks)),
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        public_decision_sets=np.array([[[-1.0], [1.0]]]),
        public_law_spread=0.03,
        user_ids=False,
        seed=seed,
        noise=noise,
        regression=regression,
    )


def _first_user(policy: BasePolicy, world: int) -> None:
    """The user who is replaced: offered (1) or (-1), and reports the highest reward."""
    decision = policy.ask(np.array([[1.0 - 2.0 * world]]))
    policy.tell(decision.id, 1.0)


def _block_actions(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise()
    sets = np.tile(_AGAINST, (_WATCHERS, 1, 1))

    def run(world: int) -> FloatArray:
        policy = _block_policy(epsilon, seed, noise, 1 + _WATCHERS, [1])
        _first_user(policy, world)
        chosen = policy.ask_batch(sets).indices
        return np.array([float((1 - chosen).sum())])

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="block-gp-ucb-actions",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees=f"the actions of {_WATCHERS} other users",
        neighbours=_TURNED,
        draw=draw,
        score=identity,
        share=0.1,
    )


def _block_released(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise()

    def run(world: int) -> FloatArray:
        # what is released does not depend on the regression; this one is quicker
        policy = _block_policy(epsilon, seed, noise, 3, [1, 2], "prefix")
        _first_user(policy, world)
        for _ in range(2):  # nobody else reports, and each ask lets a block be released
            policy.ask(_AGAINST)
        return np.asarray(policy.released, dtype=np.float64).ravel()

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return GaussianAudit(
        name="block-gp-ucb-released",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="all released statistics of two blocks",
        neighbours=_TURNED,
        draw=draw,
        score=None,
        share=0.1,
    )


def _tree_policy(epsilon: float, seed: int, noise: PreparedNoise, horizon: int) -> Dubey2021:
    return Dubey2021(
        features=LineFeatures(),
        domain=_DOMAIN,
        reward_range=(0.0, 1.0),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        user_ids=False,
        seed=seed,
        noise=noise,
    )


def _tree_actions(epsilon: float, seed: int) -> Audit:
    """Two rounds: with more, the tree has more levels, and the next user's action shows less."""
    noise = PreparedNoise()

    def run(world: int) -> FloatArray:
        policy = _tree_policy(epsilon, seed, noise, 2)
        _first_user(policy, world)
        return np.array([float(1 - policy.ask(_AGAINST).index)])

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="dubey2021-actions",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the action of the next user",
        neighbours=_TURNED,
        draw=draw,
        score=identity,
        share=0.1,
    )


def _tree_predictions(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise()
    point = np.array([[1.0]])

    def run(world: int) -> FloatArray:
        policy = _tree_policy(epsilon, seed, noise, 3)
        _first_user(policy, world)
        seen = []
        for _ in range(2):  # the user enters the node of round 1 and that of rounds 1 and 2
            policy.ask(np.array([[0.0]]))
            mean, radius = policy.predict(point)
            seen += [mean, mean / radius**2]
        return np.concatenate(seen)

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="dubey2021-predictions",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="all predictions, after each node",
        neighbours=_TURNED,
        draw=draw,
        fit=fit_linear,
        share=0.1,
    )


ENTRIES: tuple[Entry, ...] = (
    ("block-gp-ucb-actions", _block_actions),
    ("block-gp-ucb-released", _block_released),
    ("dubey2021-actions", _tree_actions),
    ("dubey2021-predictions", _tree_predictions),
)
