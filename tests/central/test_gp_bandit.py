import warnings
from itertools import pairwise

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import LittleVariance, MercerFeatures
from dpbandits.privacy import LargeDelta, SimulatedNoise
from dpbandits.privacy.definitions import JointDP
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
        {"kernel": None, "domain": dpb.domains.Ball(centre=[0, 0], radius=1)},
        {"features": object()},
        {"blocks": (8, 8)},
        {"blocks": (0, 8)},
        {"blocks": (8, 65)},
        {"blocks": ()},
        {"blocks": (8.5,)},
        {"factor": square_root_toeplitz(2)},
        {"decision_sets": "secret"},
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
    ledger, promised = dpb.MemoryLedger(), policy.privacy
    ledger.open_account("people", privacy=JointDP(promised.epsilon, promised.delta))
    with pytest.raises(dpb.errors.IncompatibleState):
        GPBandit.load(tmp_path / "policy.state", account=ledger.account("people"))
    with pytest.raises(dpb.errors.InvalidParameter, match="one to charge"):
        GPBandit.load(tmp_path / "policy.state", ledger=ledger, adopt=True)
    adopted = GPBandit.load(tmp_path / "policy.state", account=ledger.account("people"), adopt=True)
    assert repr(adopted) == repr(policy)
    assert ledger.balance("people").remaining_epsilon == 0  # it is paid before anybody asks


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
        assert "told_share" not in policy.diagnostics()
    monkeypatch.undo()
    policy.ask(sets, user="late 0")
    assert posterior(policy) is not None
    assert len(policy.released) == 1
    assert "told_share" in policy.diagnostics()


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
        warnings.simplefilter("error", LargeDelta)
        built(GPBandit, arguments)
    arguments |= {"horizon": 2048, "privacy": dpb.JointDP(epsilon=4, delta=9e-4, rounds_per_user=2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeDelta)
        built(GPBandit, arguments)  # 1,024 users: 9e-4 is below one over their number


TWENTY = dpb.Box(low=[0.0] * 20, high=[1.0] * 20)


def wide(*, user_ids=True, **changes):
    """Few features in twenty columns: they hold next to nothing of this kernel."""
    with pytest.warns(LittleVariance):
        return GPBandit(
            kernel=dpb.kernels.SquaredExponential(lengthscale=0.3), domain=TWENTY, reward_range=(0.0, 10.0),
            horizon=64, privacy=dpb.JointDP(epsilon=1, delta=1e-6, user_ids=user_ids),
            noise=SimulatedNoise(0), **changes,
        )  # fmt: skip


def test_before_data_a_prediction_is_as_wide_as_the_prior():
    """sqrt(.2) of the range's width, and not the 1e-5 of it that the features hold."""
    points = TWENTY.sample(100, np.random.default_rng(0))
    mean, sd = wide().predict(points)
    np.testing.assert_allclose(mean, 5.0)
    np.testing.assert_allclose(sd, 10.0 * np.sqrt(0.2), rtol=1e-9)


def test_between_data_what_the_features_leave_out_stays_unknown():
    policy = wide(user_ids=False)
    sets = TWENTY.sample(64 * 3, np.random.default_rng(1)).reshape(64, 3, 20)
    batch = policy.ask_batch(sets[:24])
    policy.tell_batch(batch.ids, np.full(24, 9.0))
    policy.ask_batch(sets[24:30])
    assert len(policy.released) == 1
    points = TWENTY.sample(100, np.random.default_rng(2))
    _, sd = policy.predict(points)
    held = policy.features.scale**2 * (policy.features(points) ** 2).sum(axis=1)
    assert (sd >= 10.0 * np.sqrt(0.2 * (1.0 - held)) - 1e-9).all()
    assert (sd <= 10.0 * np.sqrt(0.2) + 1e-9).all()


def test_public_data_is_known_and_the_rest_of_the_box_is_not():
    policy = wide()
    middle = np.full((1, 20), 0.5)
    policy.warm_start(np.repeat(middle, 200, axis=0), np.full(200, 9.0))
    _, sd = policy.predict(TWENTY.sample(50, np.random.default_rng(3)))
    np.testing.assert_allclose(sd, 10.0 * np.sqrt(0.2), rtol=1e-3)


def test_the_scale_of_features_changes_no_prior():
    """Whatever the features are divided by, weights vary as much more: the same function before any data."""
    kernel, ten = dpb.kernels.SquaredExponential(lengthscale=0.5), dpb.Box(low=[0.0] * 10, high=[1.0] * 10)
    points = ten.sample(200, np.random.default_rng(0))
    public, rewards = ten.sample(40, np.random.default_rng(1)), np.random.default_rng(2).random(40)
    told = []
    for scale in (1.0, 0.9):  # below the longest sampled features: none of these is cut
        features = MercerFeatures(kernel=kernel, domain=ten, n_features=20, scale=scale)
        policy = GPBandit(
            tuning=GPTuning(features=features), domain=ten, reward_range=(0, 1), horizon=64,
            privacy=dpb.JointDP(epsilon=1, delta=1e-6), noise=SimulatedNoise(0),
        )  # fmt: skip
        before = policy.predict(points)
        policy.warm_start(public, rewards)
        told.append([*before, *policy.predict(points)])
    np.testing.assert_allclose(told[0], told[1], atol=1e-9)
    assert np.ptp(told[0][2]) > 0.01


def weights_of(edges, monkeypatch, *, alone=False):
    """(T, L) Thompson weights that people are scored under, asked in batches between these edges or alone."""
    policy, seen = built(GPBandit, ARGUMENTS | {"noise": dpb.SimulatedNoise(3)}), []
    score = policy.features.scores_of_known

    def spy(candidates, weights):
        seen.append(weights.copy())
        return score(candidates, weights)

    monkeypatch.setattr(policy.features, "scores_of_known", spy)
    rng = np.random.default_rng(0)
    sets, rewards = rng.random((64, 3, 2)), rng.random(64)
    for start, stop in pairwise(edges):
        if alone:
            ids = [policy.ask(sets[user], user=user).id for user in range(start, stop)]
        else:
            ids = policy.ask_batch(sets[start:stop], users=list(range(start, stop))).ids
        policy.tell_batch(ids, rewards[start:stop])
    return np.concatenate(seen)


def test_thompson_weights_do_not_depend_on_how_rounds_are_batched(monkeypatch):
    one_by_one = weights_of(range(65), monkeypatch)
    landmarks = len(built(GPBandit, ARGUMENTS).features.landmarks)
    assert one_by_one.shape == (56, landmarks)  # the first block is answered uniformly
    assert np.array_equal(weights_of(range(65), monkeypatch, alone=True), one_by_one)
    for edges in ([0, 8, 20, 40, 64], [0, 8, 9, 20, 27, 40, 45, 63, 64]):
        assert np.array_equal(weights_of(edges, monkeypatch), one_by_one)


@pytest.mark.parametrize("tied", [False, True])
def test_whoever_is_asked_for_alone_is_answered_as_in_a_batch_and_ties_go_by_a_coin_each(tied):
    alone, together = (built(GPBandit, ARGUMENTS | {"noise": dpb.SimulatedNoise(3)}) for _ in range(2))
    sets = np.random.default_rng(1).random((10, 3, 2))
    if tied:
        sets[:] = sets[:, :1]
    for policy in (alone, together):
        answered(policy, 30)
    users = [f"late {at}" for at in range(10)]
    indices = [alone.ask(rows, user=user).index for rows, user in zip(sets, users, strict=True)]
    assert indices == together.ask_batch(sets, users=users).indices.tolist()
    assert set(indices) == {0, 1, 2} or not tied


class Last(GPBandit):
    """A rule of one's own."""

    def _choose(self, candidates, available, start):
        return np.full(len(candidates), candidates.shape[1] - 1), None


def test_a_rule_of_ones_own_is_the_one_that_decides():
    policy = built(GPBandit, ARGUMENTS)
    policy.__class__ = Last
    answered(policy, 30)
    assert len(policy.released) > 1
    sets = np.random.default_rng(1).random((8, 3, 2))
    assert [policy.ask(rows, user=f"late {at}").index for at, rows in enumerate(sets)] == [2] * 8
