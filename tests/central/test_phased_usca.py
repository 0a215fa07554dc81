import numpy as np
import pytest

from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.phased import PhasedExploreThenCommit
from dpbandits.central.explore_then_commit.schedule import growing_phases
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    ForkedState,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
)
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.calibration import near_gaussian_sigma, rounding_distance
from dpbandits.privacy.certificates import NearGaussianDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.state import MemoryLedger
from dpbandits.state.store import StateStore
from internals.policy import drawn, explores, phase_mechanisms
from reproduction.pavlovic2025.rkhs import rkhs_setting
from tuning import built

T = 3000


def build(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "actions": CellMeasure.uniform(low=0, high=1, cells=7),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=6),
        "reward_range": (0.0, 1.0),
        "horizon": T,
        "privacy": JointDP(epsilon=2.0, delta=1e-6),
        "phases": (300, 1200),
        "exploration": (1.0, 0.3),
        "user_ids": False,
        "noise": SimulatedNoise(3),
        "seed": 5,
    }
    return built(PhasedExploreThenCommit, arguments | changes)


def drive(policy, start, stop, *, change=None):
    """Rounds start..stop-1 in small batches; `change` replaces (context, reward) of one round."""
    chosen = []
    for low in range(start, stop, 50):
        rounds = np.arange(low, min(low + 50, stop))
        contexts = np.array([np.random.default_rng(t).random() for t in rounds])
        if change is not None:
            contexts[rounds == change[0]] = change[1]
        batch = policy.ask_batch(contexts)
        rewards = 1.0 - (batch.actions[:, 0] - contexts) ** 2
        if change is not None:
            rewards[rounds == change[0]] = change[2]
        policy.tell_batch(batch.ids, rewards)
        chosen.append(batch.indices)
    return np.concatenate(chosen)


def test_regret_falls_well_below_a_random_action():
    setting = rkhs_setting("SE .5 in 1+1")
    horizon, losses, randoms = 20_000, [], []
    for seed in range(4):
        world = setting.world(seed)
        policy = PhasedExploreThenCommit(
            kernel=setting.kernel,
            actions=setting.actions,
            contexts=setting.contexts,
            reward_range=setting.reward_range,
            horizon=horizon,
            privacy=JointDP(epsilon=1.0, delta=1e-6),
            user_ids=False,
            noise=SimulatedNoise(seed),
            seed=seed,
        )
        cells, loss = world.contexts(0, horizon), np.zeros(horizon)
        for start, stop in zip((0, *policy.phases), (*policy.phases, horizon), strict=True):
            batch = policy.ask_batch(setting.contexts.points[cells[start:stop]])
            policy.tell_batch(batch.ids, world.rewards(start, stop, batch.indices))
            loss[start:stop] = world.means.max(axis=0)[cells[start:stop]]
            loss[start:stop] -= world.means[batch.indices, cells[start:stop]]
        losses.append(loss.mean())
        randoms.append(world.random_loss)
    assert np.mean(losses) < 0.2 * np.mean(randoms)


def test_one_user_moves_nobody_elses_choice_except_through_one_release():
    changed = (100, 0.95, 0.0)
    one, other = build(), build()
    first, second = drive(one, 0, 1200), drive(other, 0, 1200, change=changed)
    explored = explores(one, 0, 1200)
    assert np.array_equal(first[explored], second[explored])
    assert np.array_equal(first[:300], second[:300])
    difference = (drawn(one) - drawn(other)).astype(float)
    mechanism = phase_mechanisms(one)[0]
    assert 0.0 < np.linalg.norm(difference[0]) <= mechanism.sensitivity
    one.ask([0.5])
    other.ask([0.5])
    assert np.array_equal(drawn(one)[1], drawn(other)[1])  # same noise, other people


def test_a_round_that_acts_contributes_nothing():
    one, other = build(), build()
    drive(one, 0, 1200)
    acting = int(np.flatnonzero(~explores(one, 300, 1200))[0]) + 300
    drive(other, 0, 1200, change=(acting, 0.01, 0.0))
    one.ask([0.5])
    other.ask([0.5])
    assert np.array_equal(drawn(one), drawn(other))


def test_missing_rewards_shift_nobody():
    one, other = build(), build()
    drive(one, 0, 300)
    for low in range(0, 300, 50):
        rounds = np.arange(low, low + 50)
        contexts = np.array([np.random.default_rng(t).random() for t in rounds])
        batch = other.ask_batch(contexts)
        rewards = 1.0 - (batch.actions[:, 0] - contexts) ** 2
        kept = rounds != 120
        other.tell_batch([i for i, k in zip(batch.ids, kept, strict=True) if k], rewards[kept])
        if low == 100:
            other.abandon(batch.ids[20])
    one.ask([0.5])
    other.ask([0.5])
    distance = np.linalg.norm((drawn(one) - drawn(other)).astype(float))
    assert 0.0 < distance <= phase_mechanisms(one)[0].sensitivity / 2 * (1 + 1e-9)


def test_restored_runs_go_on_bit_for_bit(tmp_path):
    whole, first = build(), build()
    expected = drive(whole, 0, 1500)
    begun = drive(first, 0, 700)
    first.save(tmp_path / "state")
    second = PhasedExploreThenCommit.load(tmp_path / "state")
    assert np.array_equal(np.concatenate([begun, drive(second, 700, 1500)]), expected)
    third = PhasedExploreThenCommit.load(tmp_path / "state")  # written at the second release
    assert np.array_equal(drawn(third), drawn(whole))
    assert third.published.mean.tobytes() == whole.published.mean.tobytes()


def test_charged_once_and_forks_are_refused(tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("survey", epsilon=2.0, delta=1e-6)
    policy = build(ledger=ledger, account="survey")
    drive(policy, 0, 200)
    policy.save(tmp_path / "state")
    (tmp_path / "copy").write_bytes((tmp_path / "state").read_bytes())
    drive(policy, 200, 400)
    assert float(ledger.balance("survey").spent_epsilon) == 2.0
    with pytest.raises(ForkedState):
        drive(PhasedExploreThenCommit.load(tmp_path / "copy", ledger=ledger), 200, 400)


def test_users_horizon_and_order_are_enforced():
    policy = build(user_ids=True, horizon=5, phases=(2,), exploration=(1.0,))
    decision = policy.ask([0.5], user="ann")
    with pytest.raises(ContributionExceeded):
        policy.ask([0.5], user="ann")
    with pytest.raises(InvalidData):
        policy.tell(decision.id, 1.5)
    policy.tell(decision.id, 0.5)
    with pytest.raises(AlreadyTold):
        policy.tell(decision.id, 0.5)
    late = policy.ask([0.5], user="bob")
    with pytest.raises(InvalidData):
        policy.ask([1.5], user="fay")
    policy.ask([0.5], user="cyd")
    assert policy.released == 1
    assert policy.tell(late.id, 0.5).value == "late"
    policy.ask([0.5], user="dan")
    with pytest.raises(HorizonExceeded):
        policy.ask([0.5], user="eve")


def test_propensities_and_guarantee_are_stated():
    policy = build()
    batch = policy.ask_batch(np.full(10, 0.3))
    np.testing.assert_allclose(batch.propensities, 1 / 7)
    guarantee = policy.guarantee
    assert guarantee.mechanisms[0].releases == 2
    assert guarantee.certificate.delta_at(2.0) <= 1e-6
    assert "compose in parallel" in guarantee.explain().replace("\n", " ")
    policy.tell(batch.ids[0], 0.987654)
    assert "987654" not in repr(policy) + str(policy.diagnostics())


def test_several_rounds_a_user_multiply_the_noise():
    single, double = build(), build(privacy=JointDP(epsilon=2.0, delta=1e-6, rounds_per_user=2))
    ratio = phase_mechanisms(double)[0].sensitivity / phase_mechanisms(single)[0].sensitivity
    assert phase_mechanisms(double)[0].rounds_per_user == 2
    assert ratio > 1.2


@pytest.mark.parametrize(
    "change",
    [
        {"phases": (300, 300)},
        {"phases": (0, 300)},
        {"phases": (T + 1,)},
        {"phases": ()},
        {"exploration": (1.0,)},
        {"exploration": (0.0, 1.0)},
        {"exploration": (1.0, 1.5)},
        {"privacy": JointDP(epsilon=1.0)},
        {"reference": 1.5},
        {
            "contexts": ContextLaw.from_private_histogram(
                [0.1], cells=CellMeasure.uniform(low=0, high=1, cells=6), epsilon=1, noise=SimulatedNoise(0)
            )
        },
    ],
)
def test_bad_parameters_are_refused(change):
    with pytest.raises(InvalidParameter):
        build(**change)


def test_default_phases_grow_and_leave_time_to_use_them():
    phases = growing_phases(100_000, 1000)
    assert np.all(np.diff(np.diff((0, *phases))) > 0)
    assert phases[-1] <= 50_000
    assert growing_phases(3, 1) == (1,)
    with pytest.raises(InvalidParameter):
        growing_phases(10, 11)


def test_the_schedule_explores_more_where_more_is_to_be_gained():
    strong, weak = (
        build(phases=None, exploration=None, privacy=JointDP(epsilon=e, delta=1e-6)) for e in (0.2, 20.0)
    )
    assert strong.phases[0] > weak.phases[0]
    assert strong.exploration[0] == 1.0
    assert all(0.0 <= rate <= 0.2 for rate in strong.exploration[1:])


@pytest.mark.parametrize("rounds_per_user", [1, 3])
def test_one_certificate_holds_of_all_phases_together(rounds_per_user):
    """Phases differ in how fine their lattice is: the largest mu and the sum of distances are what counts."""
    privacy = JointDP(epsilon=2.0, delta=1e-6, rounds_per_user=rounds_per_user)
    policy = build(
        noise=SecureNoise(), privacy=privacy, phases=(300, 1200, 2400), exploration=(1.0, 0.3, 0.2)
    )
    shown = policy.guarantee.mechanisms[0].certificate
    phases = [phase.record() for phase in phase_mechanisms(policy)]
    assert len({phase.sensitivity for phase in phases}) == 3
    assert {phase.certificate for phase in phases} == {shown}
    assert shown.mu * (1.0 + 1e-12) >= max(phase.sensitivity / phase.scale for phase in phases)
    draws = policy.features.n_features
    assert shown.distance >= sum(draws * rounding_distance(phase.scale) for phase in phases)
    assert shown.delta_at(privacy.epsilon) <= privacy.delta


def exact_delta(shift, sigma, epsilon):
    """Of two discrete Gaussians; shift(a) of the second may depend on what the first one showed.

    One lattice point a release: all probabilities, and the sum of max(P - e^epsilon Q, 0) both ways.
    """
    points = np.arange(-140, 141)
    laws = [np.exp(-0.5 * (points / one) ** 2) for one in sigma]
    first, second = (law / law.sum() for law in laws)
    moved = np.roll(first, shift[0])
    ahead = np.stack([np.roll(second, shift[1](int(a))) for a in points])
    one, other = first[:, None] * second, moved[:, None] * ahead
    ways = ((one, other), (other, one))
    return max(float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum()) for p, q in ways)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_certificate_holds_by_enumeration_however_rounds_are_spread(k):
    """Two phases of one number each, on lattices so coarse that the distance to Gaussian noise matters."""
    sensitivities, target = (8, 16), (1.0, 0.05)
    finest = near_gaussian_sigma(*target, 8.0, draws=2)
    sigma = [one / 8.0 * finest for one in sensitivities]
    certificate = NearGaussianDP(8.0 / finest, 2 * rounding_distance(finest))
    assert certificate.delta_at(1.0) <= 0.05
    step = [one // k for one in sensitivities]
    adaptive = [
        lambda a, r=r, sign=sign: step[1] * (k - r) * (1 if sign * a > 0 else -1)
        for r in range(k + 1)
        for sign in (1, -1)
    ]
    fixed = [lambda a, r=r: step[1] * (k - r) for r in range(k + 1)]
    spread = [(r, second) for r in range(k + 1) for second in fixed[r : r + 1] + adaptive[2 * r : 2 * r + 2]]
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        worst = max(exact_delta((step[0] * r, second), sigma, epsilon) for r, second in spread)
        assert 0.5 * certificate.delta_at(epsilon) - 0.01 < worst <= certificate.delta_at(epsilon)


def test_nothing_is_predicted_from_a_release_that_could_not_be_stored(tmp_path, monkeypatch):
    """After a crash it is drawn anew: two draws of one phase would have been seen."""
    policy = build(phases=(50, 1200))
    prior = policy.predict([[0.5]])[0]
    policy.save(tmp_path / "state")
    drive(policy, 0, 50)
    with monkeypatch.context() as full:
        full.setattr(StateStore, "commit", no_space)
        with pytest.raises(OSError, match="no space"):
            policy.ask([0.5])
        np.testing.assert_array_equal(policy.predict([[0.5]])[0], prior)
        with pytest.raises(OSError, match="no space"):
            policy.publish()
    assert (policy.publish().predict([[0.5]])[0] != prior).any()
    np.testing.assert_array_equal(policy.predict([[0.5]])[0], policy.publish().predict([[0.5]])[0])


def no_space(_store, _state):
    raise OSError("no space")
