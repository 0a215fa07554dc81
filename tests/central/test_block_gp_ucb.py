import warnings

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.prefix_sums import square_root_toeplitz
from internals.policy import book, drawn, failing_fit, posterior
from tuning import built

ARGUMENTS = {
    "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
    "n_features": 6,
    "domain": dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0]),
    "reward_range": (0.0, 1.0),
    "horizon": 64,
    "blocks": (8, 20, 40),
    "privacy": dpb.JointDP(epsilon=4.0, delta=1e-6),
    "noise": dpb.SimulatedNoise(3),
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": None},
        {"features": object()},
        {"blocks": (8, 8)},
        {"blocks": (0, 8)},
        {"blocks": (8, 65)},
        {"blocks": ()},
        {"blocks": (8.5,)},
        {"factor": square_root_toeplitz(2)},
        {"decision_sets": "secret"},
        {"regression": "ridge"},
        {"public_law_spread": -1.0},
        {"prior_variance": 0.0},
        {"thompson_scale": np.nan},
        {"reporting_delay": -1},
        {"horizon": 0},
        {"horizon": 2.5},
        {"reward_range": (1.0, 0.0)},
        {"seed": -1},
        {"account": "people"},
        {"public_decision_sets": np.full((5, 2), 0.5)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_arguments_that_do_not_fit_are_refused_at_once(wrong):
    with pytest.raises(InvalidParameter):
        built(GPBandit, ARGUMENTS | wrong)


def test_features_of_another_domain_are_refused_at_once():
    line = dpb.features.MercerFeatures(
        kernel=dpb.kernels.SquaredExponential(lengthscale=0.4),
        domain=dpb.Box(low=[0.0], high=[1.0]),
        n_features=4,
    )
    with pytest.raises(dpb.errors.DPBanditsError):
        built(GPBandit, ARGUMENTS | {"kernel": None, "features": line})


def test_noise_can_replace_the_configured_one():
    config = built(GPBandit, ARGUMENTS).to_config()
    assert GPBandit.from_config(config).guarantee.status == "simulated"
    assert GPBandit.from_config(config, noise=dpb.SecureNoise()).guarantee.status == "enforced"


def test_a_state_saved_alone_can_be_given_a_ledger(tmp_path):
    policy = built(GPBandit, ARGUMENTS)
    policy.save(tmp_path / "policy.state")
    ledger = dpb.MemoryLedger()
    with pytest.raises(dpb.errors.IncompatibleState):
        GPBandit.load(tmp_path / "policy.state", ledger=ledger)
    adopted = GPBandit.load(tmp_path / "policy.state", ledger=ledger, adopt=True)
    assert repr(adopted) == repr(policy)


def test_the_same_data_under_less_noise_is_known_better():
    points = np.random.default_rng(0).random((50, 2))

    def spread_after_learning(epsilon):
        policy = built(GPBandit, ARGUMENTS | {"privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6)})
        sets = np.random.default_rng(1).random((50, 4, 2))
        for start, stop in ((0, 8), (8, 20), (20, 40), (40, 41)):
            users = [f"u{t}" for t in range(start, stop)]
            batch = policy.ask_batch(sets[start:stop], users=users)
            policy.tell_batch(batch.ids, np.full(len(batch), 0.5))
        return policy.predict(points)[1].mean()

    assert spread_after_learning(30.0) < spread_after_learning(1.0)


def answered(policy, count):
    rng = np.random.default_rng(0)
    for t in range(count):
        policy.tell(policy.ask(rng.random((3, 2)), user=t).id, 1.0)


def test_a_fit_that_failed_is_tried_again(monkeypatch):
    """It must not leave the policy answering from the release before for ever."""
    policy = built(GPBandit, ARGUMENTS)
    answered(policy, 8)
    sets = np.random.default_rng(1).random((3, 2))
    failing_fit(monkeypatch, policy)
    for attempt in range(2):
        with pytest.raises(ZeroDivisionError):
            policy.ask(sets, user=f"late {attempt}")
        assert len(policy.released) == 0  # a release that is not used is not shown
    monkeypatch.undo()
    policy.ask(sets, user="late 0")
    assert posterior(policy) is not None
    assert len(policy.released) == 1


def test_an_interrupt_after_the_release_still_closes_its_rounds(monkeypatch):
    """Otherwise a late reward would be taken, and its teller told that it counts."""
    policy = built(GPBandit, ARGUMENTS)
    answered(policy, 7)
    late = policy.ask(np.full((1, 2), 0.5), user="late")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(book(policy), "close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        policy.ask(np.full((1, 2), 0.5), user="next")
    monkeypatch.undo()
    first = drawn(policy).copy()
    policy.ask(np.full((1, 2), 0.5), user="next")
    assert np.array_equal(drawn(policy), first)  # the same release, no new noise
    assert policy.tell(late.id, 1.0).value == "late"


def test_delta_is_compared_with_the_number_of_users():
    arguments = ARGUMENTS | {"horizon": 64, "privacy": dpb.JointDP(epsilon=4, delta=9e-4, rounds_per_user=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built(GPBandit, arguments)
    arguments |= {"horizon": 2048, "privacy": dpb.JointDP(epsilon=4, delta=9e-4, rounds_per_user=2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built(GPBandit, arguments)  # 1,024 users: 9e-4 is below one over their number
