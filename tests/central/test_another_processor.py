"""Releases are sums of feature vectors: they go on in the coordinates they were made in, anywhere."""

from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.published import Dubey2021
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.lab.baselines import FeatureGPUCB, GPUCBTuning
from dpbandits.models.features import ArmFeatures, MercerFeatures
from dpbandits.models.features.additive import additive_features
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.state import read_state, write_state
from internals.features import on_another_processor

pytestmark = pytest.mark.numerics

KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
BOX = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
PEOPLE = dpb.Schema(age=dpb.Range(0, 1), weight=dpb.Range(0, 1))
PRIVATE = {"privacy": JointDP(epsilon=20.0, delta=1e-6), "noise": SimulatedNoise(3)}
TUNING = {"tuning": GPTuning(n_features=6, blocks=(8, 20, 40))}


def mercer(**changes):
    return MercerFeatures(**({"kernel": KERNEL, "domain": BOX, "n_features": 6} | changes))


POLICIES = {
    "people": lambda: GPBandit(
        contexts=PEOPLE, arms=["a", "b"], horizon=64, reward_range=(0, 1), **PRIVATE, **TUNING
    ),
    "points": lambda: GPBandit(
        kernel=KERNEL, domain=BOX, horizon=64, reward_range=(0, 1), **PRIVATE, **TUNING
    ),
    "divided": lambda: of_features(mercer(scale=0.5)),
    "additive": lambda: of_features(additive_features(BOX, lengthscale=0.4, per_column=3)),
    "dubey2021": lambda: Dubey2021(features=mercer(), domain=BOX, horizon=64, reward_range=(0, 1), **PRIVATE),
    "baseline": lambda: FeatureGPUCB(
        kernel=KERNEL, tuning=GPUCBTuning(n_features=6), domain=BOX, horizon=64, reward_range=(0, 1)
    ),
}


def of_features(features):
    tuning = GPTuning(features=features)
    return GPBandit(domain=BOX, horizon=64, reward_range=(0, 1), tuning=tuning, **PRIVATE)


def told(policy):
    """The policy after some rounds, and what it predicts of public points."""
    rng = np.random.default_rng(5)
    for t in range(45):
        sets = rng.random((4, 2))
        decision = policy.ask(
            {"age": sets[0, 0], "weight": sets[0, 1]} if policy.menu else sets,
            user=t if policy.user_ids else None,
        )
        policy.tell(decision.id, decision.action[0])
    return policy, predicted(policy)


def predicted(policy):
    points = np.random.default_rng(6).random((20, 2)).tolist()
    brought = [{"age": age, "weight": weight} for age, weight in points] if policy.menu else points
    return np.stack(policy.predict(brought))


def write(path, **arrays):
    """The state with other arrays; None leaves one out."""
    state = read_state(path)
    kept = {name: array for name, array in (dict(state.arrays) | arrays).items() if array is not None}
    write_state(path, replace(state, arrays=kept))


@pytest.mark.parametrize("name", POLICIES)
def test_a_state_goes_on_where_eigenvectors_come_out_otherwise(name, tmp_path, monkeypatch):
    policy, before = told(POLICIES[name]())
    policy.save(tmp_path / "policy")
    on_another_processor(monkeypatch)
    anew = type(policy).from_config(policy.to_config()).features
    assert abs(anew.basis()[0] - policy.features.basis()[0]).max() > 0.01
    again = type(policy).load(tmp_path / "policy")
    np.testing.assert_allclose(predicted(again), before, rtol=1e-9, atol=1e-9)
    again.save(tmp_path / "again")
    for mine, theirs in zip(again.features.basis(), policy.features.basis(), strict=True):
        assert np.array_equal(mine, theirs)


def test_features_may_be_turned_and_nothing_else():
    features, rng = mercer(scale=0.5), np.random.default_rng(2)
    projection, points = features.projection, rng.random((50, 2))
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    turned = features.in_basis([projection @ turn])
    np.testing.assert_allclose(turned(points) @ turn.T, features(points), atol=1e-9)
    assert turned.scale == features.scale
    other = mercer(scale=0.5, kernel=dpb.kernels.Matern(nu=0.5, lengthscale=0.4))
    more = mercer(scale=0.5, n_features=7, n_landmarks=12).projection  # of the same landmarks
    fine = mercer(scale=0.5, n_landmarks=40)
    values, vectors = np.linalg.eigh(KERNEL(fine.landmarks))
    hidden = 0.1 / np.sqrt(values[0]) * vectors[:, :1] * (np.arange(6) == 5)
    assert abs(KERNEL(fine.landmarks) @ hidden).max() < 2e-5  # next to nothing on landmarks, and long
    with pytest.raises(InvalidParameter):
        fine.in_basis([fine.projection + hidden])
    for spoilt in (
        1.001 * projection,  # longer than the scale says
        0.999 * projection,
        2.0 * projection,  # as a map that was not divided
        other.projection,
        more[:, 1:],  # another eigenfunction of the same kernel
        more,
        projection[:-1],
        np.full_like(projection, np.nan),
        np.full_like(projection, 1e300),
        np.zeros_like(projection),
        np.concatenate([projection[:, :5], projection[:, 4:5]], axis=1),
    ):
        with pytest.raises(InvalidParameter):
            features.in_basis([spoilt])
        with pytest.raises(InvalidParameter):
            ArmFeatures(base=features, arm_column=2, n_arms=2).in_basis([spoilt])


def test_a_state_with_features_of_something_else_is_refused(tmp_path):
    policy, _ = told(of_features(mercer(scale=0.5)))
    path, (basis,) = tmp_path / "policy", policy.features.basis()
    policy.save(path)
    for spoilt in (2.0 * basis, basis[:, ::2], np.sign(basis).astype(np.int64), basis * np.nan):
        write(path, basis_0=spoilt)
        with pytest.raises(CorruptState):
            GPBandit.load(path)
    write(path, basis_0=basis)
    GPBandit.load(path)
