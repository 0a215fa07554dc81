"""Every policy of the library, built small and the same way, for the contract suite.

A policy that is not here fails `test_registry.py`: a new policy gets a case, and with it every contract.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import Terms, cost_of_guarantee
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.published import Dubey2021
from dpbandits.lab.baselines import (
    ArmEpisodes,
    BlockAggregation,
    CellHistogram,
    ConstantArm,
    CrudeTuning,
    ExactGPUCB,
    FeatureGPUCB,
    GPUCBTuning,
    LinearTree,
    PrivateRidge,
    Uniform,
)
from dpbandits.models.features import MercerFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.policy import RoundPolicy
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.prefix_sums import identity
from internals.policy import give_salt
from tuning import placed

HORIZON = 64
BLOCKS = (8, 20, 40)
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
DOMAIN = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
REWARDS = (0.0, 1.0)
MERCER = MercerFeatures(kernel=KERNEL, domain=DOMAIN, n_features=6)


@dataclass(frozen=True)
class Case:
    """One policy in one configuration.

    Args:
        name: id of the test.
        make: builds it; keyword arguments replace the case's own.
        learns: whether rewards change anything.
        private: whether it promises that one user's data changes little.
        counts_users: whether it can bound the rounds of a user.
        blocks: whether, being private, it releases at `BLOCKS`; others test what a round moves by themselves.
        mixes: whether its releases are mixed sums of features; others test what adds the noise by themselves.
        people: whether it has contexts and arms. What it makes of other things that are brought is tested in
            `test_contexts_and_arms`.
    """

    name: str
    make: Callable[..., RoundPolicy]
    learns: bool
    private: bool
    counts_users: bool
    blocks: bool = True
    mixes: bool = True
    people: bool = False

    def __repr__(self) -> str:
        return self.name


def _block(**changes: Any) -> GPBandit:
    arguments = {
        "kernel": KERNEL,
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    tuning = {"n_features": 6, "blocks": BLOCKS}
    tuning |= {name: changes.pop(name) for name in GPTuning.__dataclass_fields__ if name in changes}
    return GPBandit(**placed(arguments | changes), tuning=GPTuning(**tuning))


def _read(**changes: Any) -> RoundPolicy:
    """A readout is for contexts and arms; candidates are a context followed by an arm's code, 0 or 1."""
    own = {
        "kernel": None,
        "domain": None,
        "contexts": dpb.Schema(x=dpb.Range(0, 1)),
        "arms": ["a", "b"],
        "readout": dpb.Readout(
            control=dpb.Control(arm="a", share=0.3),
            metrics={"complaint": bool, "revenue": (0, 9)},
            segments={"x": [0.5]},
        ),
    }
    return with_salt(_block(**(own | changes)))


def _tree(**changes: Any) -> Dubey2021:
    features = changes.pop("features", QuadratureFourierFeatures(kernel=KERNEL, dim=2, nodes=3))
    arguments = {
        "features": features,
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    return Dubey2021(**placed(arguments | changes))


def _baseline(policy_class: type[RoundPolicy], **own: Any) -> Callable[..., RoundPolicy]:
    def make(**changes: Any) -> RoundPolicy:
        arguments = {
            "domain": DOMAIN,
            "reward_range": REWARDS,
            "horizon": HORIZON,
            "seed": 11,
        }
        return policy_class(**placed(arguments | own | changes))

    return make


def _linear(**changes: Any) -> LinearTree:
    arguments = {
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    return LinearTree(**placed(arguments | changes))


def _crude(policy_class: type[RoundPolicy], **changes: Any) -> RoundPolicy:
    arguments = {
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "tuning": CrudeTuning(blocks=BLOCKS),
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    return policy_class(**placed(arguments | changes))


def _episodes(**changes: Any) -> ArmEpisodes:
    arguments = {
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    return ArmEpisodes(**placed(arguments | changes))


def _aggregated(**changes: Any) -> BlockAggregation:
    arguments = {
        "domain": DOMAIN,
        "reward_range": REWARDS,
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "seed": 11,
    }
    tuning = {"blocks": BLOCKS}
    tuning |= {name: changes.pop(name) for name in GPTuning.__dataclass_fields__ if name in changes}
    return BlockAggregation(**placed(arguments | changes), tuning=GPTuning(**tuning))


CASES = (
    Case(
        "linear tree",
        _linear,
        learns=True,
        private=True,
        counts_users=True,
        blocks=False,
    ),
    Case("dubey2021", _tree, learns=True, private=True, counts_users=True, blocks=False),
    Case("block", _block, learns=True, private=True, counts_users=True),
    Case(
        "block, own factor", partial(_block, factor=identity(3)), learns=True, private=True, counts_users=True
    ),
    Case(
        "block, public sets",
        lambda **changes: _block(**({"decision_sets": "public"} | changes)),
        learns=True,
        private=True,
        counts_users=True,
    ),
    Case(
        "private ridge",
        partial(_crude, PrivateRidge),
        learns=True,
        private=True,
        counts_users=True,
        blocks=False,
    ),
    Case(
        "cell histogram",
        partial(_crude, CellHistogram, most_cells=8),
        learns=True,
        private=True,
        counts_users=True,
        blocks=False,
    ),
    Case(
        "aggregated",
        partial(_aggregated, release="features", features=MERCER),
        learns=True,
        private=True,
        counts_users=True,
    ),
    Case(
        "aggregated cells",
        partial(_aggregated, release="cells", n_features=6, noises=2),
        learns=True,
        private=True,
        counts_users=True,
        mixes=False,
    ),
    Case("DP-IMED", _episodes, learns=True, private=True, counts_users=True, blocks=False),
    Case(
        "DP-KLUCB",
        partial(_episodes, index="kl-ucb"),
        learns=True,
        private=True,
        counts_users=True,
        blocks=False,
    ),
    Case(
        "cells", partial(_block, release="cells"), learns=True, private=True, counts_users=True, mixes=False
    ),
    Case(
        "block, fading", partial(_block, forget=12), learns=True, private=True, counts_users=True, mixes=False
    ),
    Case(
        "cells, fading",
        partial(_block, release="cells", forget=12),
        learns=True,
        private=True,
        counts_users=True,
        mixes=False,
    ),
    Case(
        "readout",
        partial(_read, release="features"),
        learns=True,
        private=True,
        counts_users=True,
        people=True,
    ),
    Case("uniform", _baseline(Uniform), learns=False, private=False, counts_users=False),
    Case("constant arm", _baseline(ConstantArm, arm=1), learns=False, private=False, counts_users=False),
    Case(
        "feature GP-UCB",
        _baseline(FeatureGPUCB, kernel=KERNEL, tuning=GPUCBTuning(n_features=6)),
        learns=True,
        private=False,
        counts_users=False,
    ),
    Case(
        "feature GP-UCB, fading",
        _baseline(FeatureGPUCB, kernel=KERNEL, tuning=GPUCBTuning(n_features=6), forget=12),
        learns=True,
        private=False,
        counts_users=False,
    ),
    Case(
        "exact GP-UCB", _baseline(ExactGPUCB, kernel=KERNEL), learns=True, private=False, counts_users=False
    ),
)

every_policy = pytest.mark.parametrize("case", CASES, ids=repr)
of_candidates = pytest.mark.parametrize("case", [case for case in CASES if not case.people], ids=repr)
learning = pytest.mark.parametrize("case", [case for case in CASES if case.learns], ids=repr)
not_learning = pytest.mark.parametrize("case", [case for case in CASES if not case.learns], ids=repr)
without_privacy = pytest.mark.parametrize("case", [case for case in CASES if not case.private], ids=repr)
private = pytest.mark.parametrize("case", [case for case in CASES if case.private], ids=repr)
releasing_in_blocks = pytest.mark.parametrize(
    "case", [case for case in CASES if case.private and case.blocks], ids=repr
)
mixing_blocks = pytest.mark.parametrize(
    "case", [case for case in CASES if case.private and case.blocks and case.mixes], ids=repr
)
counting_users = pytest.mark.parametrize("case", [case for case in CASES if case.counts_users], ids=repr)


def account_of(policy: RoundPolicy, epsilon: float, delta: float) -> Terms:
    """Terms of an account for the unit that this policy protects."""
    return Terms(epsilon=epsilon, delta=delta, unit=cost_of_guarantee(policy.guarantee).unit)


def decision_set(round_index: int, n: int = 5) -> np.ndarray:
    """Return the same data each time of user number `round_index`, in the domain, with an arm's code last."""
    rows = np.random.default_rng(round_index).random((n, 2))
    rows[:, 1] = rows[:, 1] < 0.5
    return rows


def with_salt(policy: RoundPolicy) -> RoundPolicy:
    """The policy, whose users have the groups that they have in every other policy of this suite."""
    if policy.user_ids:
        give_salt(policy, bytes(16))
    return policy


def to_predict(policy: RoundPolicy, rows: np.ndarray) -> np.ndarray:
    """Return the part of these candidates that `predict` takes: their contexts, if the policy has arms."""
    return rows if policy.menu is None else rows[:, :-1]


def reward_of(action: np.ndarray, round_index: int) -> float:
    """A reward in [0, 1] that depends on the action."""
    noise = np.random.default_rng(10_000 + round_index).random()
    return float(np.clip(0.8 * action[0] + 0.2 * noise, 0.0, 1.0))
