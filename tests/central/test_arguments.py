"""Constructors of central policies: natural mistakes say what to pass, and numbers have public limits."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
)
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.published import USCA, Dubey2021
from dpbandits.domains import Ball, RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import MercerFeatures
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.gaussian_process import ExactGP, FeatureGP
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import JointDP, SimulatedNoise
from tuning import built, placed

BOX = dpb.Box(low=[0.0], high=[1.0])
KERNEL = SquaredExponential(lengthscale=0.3)
CELLS = CellMeasure.uniform(low=0.0, high=1.0, cells=4)
SHARED = {"reward_range": (0.0, 1.0), "privacy": JointDP(epsilon=1.0, delta=1e-6), "noise": SimulatedNoise(0)}
MAP = MercerFeatures(kernel=KERNEL, domain=BOX, n_features=5)
ON_CELLS = {**SHARED, "kernel": KERNEL, "actions": CELLS, "contexts": CELLS, "horizon": 4096}
POLICIES = {
    GPBandit: {**SHARED, "domain": BOX, "kernel": KERNEL, "horizon": 64},
    Dubey2021: {**SHARED, "domain": BOX, "features": MAP, "horizon": 64},
    ExploreThenCommit: ON_CELLS,
    USCA: {**ON_CELLS, "privacy": JointDP(epsilon=1.0), "horizon": 20},
}
MISTAKES = {
    "privacy": [1.0, JointDP, (1.0, 1e-6), {"epsilon": 1.0}],
    "domain": [[0, 1], (0.0, 1.0), dpb.Box],
    "kernel": ["matern", Matern, 0.3],
    "features": ["mercer", MercerFeatures, 20],
    "actions": [[0.0, 1.0], 3, ["mail", "call"]],
    "contexts": [[0.0, 1.0], 3],
    "tuning": [{}, GPTuning, 5],
    "noise": [5, "secure", SimulatedNoise],
}


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy is not USCA])
def test_what_every_policy_takes_is_configured_alike_and_nothing_else_is_taken(policy):
    made = policy(**placed(POLICIES[policy] | {"user_ids": False, "clip": True, "seed": 7}))
    config = made.to_config()
    assert (config["privacy"]["user_ids"], config["reward_range"]["clip"], config["seed"]) == (False, True, 7)
    assert config["noise"] == SimulatedNoise(0).to_config()
    assert "account" not in config
    assert policy.from_config(config).to_config() == config
    with pytest.raises(TypeError, match="sead"):
        policy(**POLICIES[policy], sead=7)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_a_natural_mistake_is_answered_by_what_to_pass(policy):
    arguments, tried = POLICIES[policy], 0
    for name, mistakes in MISTAKES.items():
        if name not in arguments and (name != "tuning" or policy is USCA):
            continue
        for mistake in mistakes:
            with pytest.raises(InvalidParameter, match=f"{name} is .*: pass {name}="):
                policy(**{**arguments, name: mistake})
            tried += 1
    assert tried >= 12


BEYOND = {
    "lengthscale": lambda x: SquaredExponential(lengthscale=x),
    "one lengthscale of two": lambda x: Matern(nu=1.5, lengthscale=(0.3, x)),
    "prior variance": lambda x: GPTuning(prior_variance=x),
    "public ridge": lambda x: ExploreThenCommit(**ON_CELLS, tuning=ExploreTuning(ridge=x)),
    "bound": lambda x: ExploreThenCommit(**ON_CELLS, tuning=ExploreTuning(bound=x)),
    "answer epsilon": lambda x: built(
        ExploreThenCommit, {**ON_CELLS, "publish_epsilon": 0.5, "answer_epsilon": x}
    ),
    "histogram epsilon": lambda x: ContextLaw.from_private_histogram([0.5], cells=CELLS, epsilon=x),
    "ridge as published": lambda x: USCA(**{**POLICIES[USCA], "ridge": x}),
    "norm bound": lambda x: built(Dubey2021, {**POLICIES[Dubey2021], "norm_bound": x}),
    "width of rewards": lambda x: RewardRange(0.0, x),
    "width of a box": lambda x: dpb.Box(low=[0.0], high=[x]),
    "radius": lambda x: Ball(centre=[0.0], radius=x),
    "beta": lambda x: CellMeasure.beta(x, 1.0, low=0.0, high=1.0, cells=4),
    "noise deviation": lambda x: ExactGP(kernel=KERNEL, noise_sd=x),
    "noise variance": lambda x: FeatureGP(3, prior_variance=1.0, noise_variance=x),
}
ABOVE = {
    "thompson scale": lambda x: GPTuning(thompson_scale=x),
    "tolerance": lambda x: ExploreThenCommit(**ON_CELLS, tuning=ExploreTuning(tolerance=x)),
    "eigen tolerance": lambda x: EigenFeatures(kernel=KERNEL, measures=(CELLS,), tolerance=x),
    "reward": lambda x: RewardRange(-x, 0.0),
    "corner": lambda x: dpb.Box(low=[-x], high=[0.0]),
    "point": lambda x: dpb.domains.Finite(points=[[x]]),
    "weights": lambda x: CELLS.with_weights([x, 1.0, 1.0, 1.0]),
    "smoothing": lambda x: ContextLaw.from_public_sample([0.5], cells=CELLS, smoothing=x),
    "range of cells": lambda x: CellMeasure.uniform(low=-x, high=x, cells=4),
}


@pytest.mark.parametrize("name", [*BEYOND, *ABOVE])
def test_a_number_beyond_every_unit_is_refused_before_anything_is_computed(name):
    for number in (1e300, 1e31, 1e-31, 1e-300, 5e-324):
        if name in BEYOND or number > 1.0:
            with pytest.raises(InvalidParameter):
                (BEYOND | ABOVE)[name](number)


@pytest.mark.parametrize("variance", [1e300, 1e205, 0.0, -1.0, float("nan")])
def test_a_kernel_may_have_the_variance_of_large_answers_and_no_other(variance):
    assert (1e200 * KERNEL).max_variance == 1e200
    with pytest.raises(InvalidParameter):
        variance * KERNEL


@pytest.mark.parametrize("prior_variance", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("thompson_scale", [0.0, 1e6])
def test_a_run_at_the_limits_stays_finite(prior_variance, thompson_scale):
    tuning = GPTuning(
        prior_variance=prior_variance, thompson_scale=thompson_scale, n_features=4, blocks=(8, 16)
    )
    policy = GPBandit(
        **placed(POLICIES[GPBandit] | {"reward_range": (0.0, 1e30), "user_ids": False}), tuning=tuning
    )
    sets = BOX.sample(24 * 3, np.random.default_rng(0)).reshape(24, 3, 1)
    for start in (0, 8, 16):
        batch = policy.ask_batch(sets[start : start + 8])
        policy.tell_batch(batch.ids, np.linspace(0.0, 1e30, 8))
    assert np.isfinite(policy.predict(sets[:, 0])).all()


@pytest.mark.parametrize("ridge", [1e-6, 1e6])
def test_the_published_form_answers_at_the_limits(ridge):
    usca = USCA(**{**POLICIES[USCA], "ridge": ridge})
    usca.learn([0.3, 0.6], np.array([0, 3]), [0.0, 1.0])
    assert usca.answer([0.3]) in range(4)


@pytest.mark.parametrize("ridge", [1e-30, 1e30])
def test_a_function_is_published_at_the_limits(ridge):
    tuning = ExploreTuning(ridge=ridge)
    policy = ExploreThenCommit(**placed(ON_CELLS | {"user_ids": False}), tuning=tuning)
    policy.learn([0.3, 0.6], [0, 3], [0.0, 1.0])
    assert np.isfinite(policy.publish().mean).all()
