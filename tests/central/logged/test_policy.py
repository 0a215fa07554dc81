from dataclasses import replace

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.estimator import SIGNAL_VARIANCE
from dpbandits.central.logged.policy import ExploreThenCommit, NothingToLearn
from dpbandits.central.published_function import PublishedFunction
from dpbandits.errors import (
    BudgetExceeded,
    ContributionExceeded,
    CorruptState,
    ForkedState,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.models.features import LittleVariance
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.state import read_state, write_state
from internals.logged import cells, published_tables, sums
from tuning import built

T = 4000


def build(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "actions": CellMeasure.uniform(low=0, high=1, cells=7),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=6),
        "reward_range": (0.0, 1.0),
        "horizon": T,
        "privacy": JointDP(epsilon=3.0, delta=1e-6),
        "user_ids": False,
        "publish_epsilon": 1.0,
        "answer_epsilon": 0.5,
        "noise": SimulatedNoise(3),
    }
    return built(ExploreThenCommit, arguments | changes)


def rows(n=T, seed=0, usca=None):
    rng = np.random.default_rng(seed)
    contexts = rng.random(n)
    actions = (usca or build()).explore(0, n)
    means = 1.0 - (actions - contexts) ** 2
    return contexts, actions, np.clip(means - 0.2 * rng.random(n), 0.0, 1.0)


def test_learns_answers_and_releases():
    usca = build()
    usca.learn(*rows())
    policy = usca.publish()
    grid = (np.arange(6) + 0.5) / 6
    chosen = (policy.choose(grid) + 0.5) / 7
    assert np.abs(chosen - grid).max() < 0.25
    mean, sd = policy.predict(grid)
    truth = 0.9 - ((np.arange(7) + 0.5) / 7 - grid[:, None]) ** 2
    assert np.abs(mean - truth).max() < 0.2
    assert (sd > 0).all()
    assert np.mean(np.abs(mean - truth) < 3.0 * sd) > 0.75
    assert abs(usca.answer([0.9]).action[0] - 0.9) < 0.35


def test_nothing_is_spent_before_a_row_has_come():
    ledger = MemoryLedger()
    ledger.open_account("survey", privacy=JointDP(3.0, 1e-6))
    learner = build(account=ledger.account("survey"))
    with pytest.raises(ProtocolError, match="no rows were learned yet"):
        learner.publish()
    assert ledger.balance("survey").spent_epsilon == 0
    learner.learn([None], [None], [None])  # that nothing can be read is no public fact
    learner.publish()


def test_a_lengthscale_is_a_share_of_each_range_of_the_cells():
    """The same cells in wide units, actions in a list: the same features, and after saving them too."""
    found = []
    for low, width in ((0.0, 1.0), (-64.0, 256.0)):
        usca = build(
            actions=CellMeasure.finite(width * np.array([0.0, 0.5, 1.0])),
            contexts=CellMeasure.uniform(low=low, high=low + width, cells=6),
        )
        again = ExploreThenCommit.from_config(usca.to_config())
        assert again.features.to_config() == usca.features.to_config()
        found.append(usca.features)
    np.testing.assert_allclose(found[0].eigenvalues, found[1].eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found[0].psi), np.abs(found[1].psi), atol=1e-6)


def test_answers_are_counted_and_refused_beyond_the_promise():
    ledger = MemoryLedger()
    ledger.open_account("survey", privacy=JointDP(3.0, 1e-6))
    usca = build(account=ledger.account("survey"))
    usca.learn(*rows(1000))
    assert usca.remaining_answers == 4  # (3 - 1)/0.5
    for number in range(1, 5):
        assert usca.answer([0.5]).number == number
        assert float(ledger.balance("survey").spent_epsilon) == 3.0  # all of it, before the first
    with pytest.raises(BudgetExceeded):
        usca.answer([0.5])
    usca.publish()
    usca.publish()
    balance = ledger.balance("survey")
    assert (float(balance.spent_epsilon), float(balance.spent_delta)) == (3.0, 1e-6)
    assert usca.diagnostics()["answers_left"] == 0


def test_an_account_that_cannot_pay_gives_nothing():
    ledger = MemoryLedger()
    ledger.open_account("survey", privacy=JointDP(0.6))
    usca = build(account=ledger.account("survey"), privacy=JointDP(epsilon=2.0), publish_epsilon=None)
    usca.learn(*rows(100))
    for call in (lambda: usca.answer([0.5]), usca.publish):
        with pytest.raises(BudgetExceeded):
            call()
    assert usca.diagnostics()["answers_given"] == 0


def test_any_split_into_shards_gives_the_same_bits(tmp_path):
    contexts, actions, rewards = rows()
    whole = build()
    whole.learn(contexts, actions, rewards)
    split = build()
    order = np.random.default_rng(5).permutation(T)
    for part in np.array_split(order, 5):
        shard = split.shard()
        shard.learn(contexts[part], actions[part], rewards[part])
        shard.save(tmp_path / "shard")
        split.merge(split.shard().load_sums(tmp_path / "shard"))
    assert np.array_equal(sums(whole), sums(split))
    for context in (0.1, 0.6):
        assert whole.answer([context]).index == split.answer([context]).index
    first, second = whole.publish(), split.publish()
    assert first.mean.tobytes() == second.mean.tobytes()
    assert first.sd.tobytes() == second.sd.tobytes()


def test_a_restored_run_goes_on_as_an_uninterrupted_one(tmp_path):
    contexts, actions, rewards = rows()
    whole = build()
    whole.learn(contexts, actions, rewards)
    first = build()
    first.learn(contexts[:1500], actions[:1500], rewards[:1500])
    first.save(tmp_path / "state")
    second = ExploreThenCommit.load(tmp_path / "state")
    second.learn(contexts[1500:], actions[1500:], rewards[1500:])
    assert [whole.answer([0.3]).index for _ in range(3)] == [second.answer([0.3]).index for _ in range(3)]
    third = ExploreThenCommit.load(tmp_path / "state")  # written by the third answer
    assert third.remaining_answers == 1
    assert third.publish().mean.tobytes() == whole.publish().mean.tobytes()
    assert (
        ExploreThenCommit.load(tmp_path / "state").publish().mean.tobytes() == whole.publish().mean.tobytes()
    )


def test_secure_release_is_drawn_once_and_survives_a_restart(tmp_path):
    usca = build(noise=SecureNoise())
    usca.learn(*rows(500))
    usca.save(tmp_path / "state")
    released = usca.publish().mean
    assert np.array_equal(usca.publish().mean, released)
    assert np.array_equal(ExploreThenCommit.load(tmp_path / "state").publish().mean, released)


def test_only_one_copy_goes_on(tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("survey", privacy=JointDP(3.0, 1e-6))
    usca = build(account=ledger.account("survey"))
    usca.learn(*rows(500))
    usca.save(tmp_path / "state")
    (tmp_path / "copy").write_bytes((tmp_path / "state").read_bytes())
    usca.answer([0.5])
    with pytest.raises(ForkedState):
        ExploreThenCommit.load(tmp_path / "copy", ledger=ledger).answer([0.5])


def test_units_are_counted_over_calls_and_shards():
    usca = build(user_ids=True, privacy=JointDP(epsilon=3.0, delta=1e-6, rounds_per_user=2))
    contexts, actions, rewards = rows(6)
    usca.learn(contexts[:2], actions[:2], rewards[:2], users=["ann", "bob"])
    shard = usca.shard()
    shard.learn(contexts[2:4], actions[2:4], rewards[2:4], users=["ann", "cyd"])
    usca.merge(shard)
    before = sums(usca).copy()
    usca.learn(contexts[4:5], actions[4:5], rewards[4:5], users=["ann"])
    shard = usca.shard()
    shard.learn(contexts[4:5], actions[4:5], rewards[4:5], users=["ann"])
    with pytest.raises(ContributionExceeded) as caught:
        usca.merge(shard)
    assert "ann" not in str(caught.value)
    with pytest.raises(InvalidData):
        usca.learn(contexts[:1], actions[:1], rewards[:1])
    assert np.array_equal(sums(usca), before)
    usca.learn(contexts[:3], actions[:3], rewards[:3], users=["dan"] * 3)
    assert usca.unsafe_left_out == {"unreadable": 0, "surplus": 2}
    twice = build(user_ids=True, privacy=JointDP(epsilon=3.0, delta=1e-6, rounds_per_user=2))
    twice.learn(contexts[:2], actions[:2], rewards[:2], users=["dan"] * 2)
    assert np.array_equal(sums(usca) - before, sums(twice))
    with pytest.raises(InvalidData):
        build().learn(contexts[:1], actions[:1], rewards[:1], users=["ann"])


def test_logged_rows_are_weighted_by_public_propensities():
    """Actions drawn from another known law: the same function is learned, where plain sums would be wrong."""
    rng = np.random.default_rng(2)
    n = 20_000
    contexts = rng.random(n)
    strata = (contexts > 0.5).astype(int)
    design = np.array([[4, 4, 2, 1, 1, 1, 1], [1, 1, 1, 1, 2, 4, 4]]) / 14.0
    cells = (design[strata].cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    actions = (cells + 0.5) / 7
    rewards = np.clip(0.5 + 0.3 * (actions - 0.5) * (1 - 2 * contexts), 0, 1)
    chances = design[strata, cells]
    options = {"horizon": n, "privacy": JointDP(epsilon=50.0, delta=1e-6), "publish_epsilon": 50.0}
    usca = build(**(options | {"answer_epsilon": None, "bound": 2.0}))
    usca.learn(contexts, actions, rewards, propensities=chances)
    mean, _ = usca.publish().predict((np.arange(6) + 0.5) / 6)
    truth = 0.5 + 0.3 * ((np.arange(7) + 0.5) / 7 - 0.5) * (1 - 2 * (np.arange(6)[:, None] + 0.5) / 6)
    assert np.abs(mean - truth).max() < 0.06


@pytest.mark.parametrize(
    "change",
    [
        {"contexts": [1.5]},
        {"contexts": [np.nan]},
        {"contexts": ["young"]},
        {"actions": [7]},
        {"actions": [-1]},
        {"actions": [1.2]},
        {"rewards": [1.1]},
        {"rewards": [np.nan]},
        {"rewards": [None]},
        {"propensities": [0.0]},
        {"propensities": [1.01]},
        {"propensities": [np.nan]},
        {"propensities": ["often"]},
    ],
)
def test_what_cannot_be_read_counts_zero_in_its_own_place(change):
    usca = build()
    row = {"contexts": [0.123456], "actions": [3], "rewards": [0.654321]} | change
    usca.learn(row.pop("contexts"), row.pop("actions"), row.pop("rewards"), **row)
    assert not sums(usca).any()
    assert cells(usca).rounds == 1
    assert usca.unsafe_left_out == {"unreadable": 1, "surplus": 0}


@pytest.mark.parametrize(
    "change", [{"rewards": [0.5, 0.5]}, {"propensities": [0.5, 0.5]}, {"actions": [[3]] * 2}]
)
def test_rows_that_do_not_fit_together_are_refused_and_change_nothing(change):
    usca = build()
    row = {"contexts": [0.123456], "actions": [3], "rewards": [0.654321]} | change
    with pytest.raises(InvalidData) as caught:
        usca.learn(row.pop("contexts"), row.pop("actions"), row.pop("rewards"), **row)
    for secret in ("0.123456", "0.654321"):
        assert secret not in str(caught.value)
    assert cells(usca).rounds == 0


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_rows_beyond_the_horizon_are_dropped_the_first_ones_kept():
    contexts, actions, rewards = rows(11)
    usca, first = build(horizon=10), build(horizon=10)
    usca.learn(contexts[:8], actions[:8], rewards[:8])
    usca.learn(contexts[8:], actions[8:], rewards[8:])
    first.learn(contexts[:10], actions[:10], rewards[:10])
    assert np.array_equal(sums(usca), sums(first))
    shard = usca.shard()
    shard.learn(contexts[:1], actions[:1], rewards[:1])
    with pytest.raises(HorizonExceeded):
        usca.merge(shard)


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_all_that_one_user_brings_moves_sums_by_no_more_than_the_range_covers():
    """Garbage, surplus rows, rows first or last: others enter and leave at the horizon's end."""
    promise = JointDP(epsilon=3.0, delta=1e-6, rounds_per_user=2)
    contexts, rng = np.full(30, 0.5), np.random.default_rng(5)
    found = []
    for _ in range(60):
        mine, at = int(rng.integers(0, 6)), rng.permutation(30)
        who = np.array([f"u{i}" for i in range(30)], dtype=object)
        who[np.sort(at[:mine])] = "target"
        rewards = np.where(who == "target", rng.choice([0.0, 1.0, np.nan, 7.0], size=30), 1.0)
        order = np.argsort(who == "target", kind="stable") if rng.random() < 0.3 else np.arange(30)
        usca = build(user_ids=True, horizon=12, privacy=promise)
        usca.learn(contexts, np.full(30, 0.5), rewards[order], users=who[order].tolist())
        found.append(sums(usca))
    most = np.ptp(np.stack(found), axis=0)
    assert (most <= 2 * 2 * usca.calibration.caps).all()
    assert most.any()


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 0},
        {"horizon": 2**42 + 1},
        {"publish_epsilon": 3.5},
        {"publish_epsilon": -1.0},
        {"publish_epsilon": None},
        {"answer_epsilon": 2.5},
        {"answer_epsilon": 0.0},
        {"reference": 2.0},
        {"bound": 0.0},
        {"ridge": -1.0},
        {"contexts": CellMeasure.uniform(low=0, high=1, cells=20_000)},
        {"actions": np.linspace(0, 1, 5)},
        {"contexts": "uniform"},
        {"privacy": JointDP(epsilon=3.0)},
    ],
)
def test_bad_parameters_are_refused(change):
    with pytest.raises(InvalidParameter):
        build(**change)


def test_too_little_data_is_said_before_any_is_touched():
    with pytest.warns(NothingToLearn, match=r"expected error .* random"):
        build(horizon=20, privacy=JointDP(epsilon=0.05), publish_epsilon=None, answer_epsilon=None)


def test_the_guarantee_names_everything_and_comes_back():
    law = ContextLaw.from_private_histogram(
        np.full(50, 0.2),
        cells=CellMeasure.uniform(low=0, high=1, cells=6),
        epsilon=0.5,
        noise=SimulatedNoise(1),
    )
    usca = build(contexts=law)
    guarantee = usca.guarantee
    assert [record.releases for record in guarantee.mechanisms] == [1, 3, 1]
    assert build(contexts=law, noise=SecureNoise()).guarantee.status == guarantee.status == "simulated"
    assert guarantee.certificate.delta_at(3.0) <= 1e-6
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    pure = build(privacy=JointDP(epsilon=1.0), publish_epsilon=None, noise=SecureNoise())
    assert pure.guarantee.certificate.epsilon == 1.0
    assert pure.guarantee.status == "enforced"
    assert "declared as public knowledge" in pure.guarantee.annex().replace("\n", " ")


def test_the_certificate_is_of_answers_and_release_together():
    guarantee = build().guarantee  # 2 for answers, 1 for publishing
    assert guarantee.certificate.epsilon_at(1e-6) == pytest.approx(3.0, rel=1e-6)


def test_each_use_has_caps_of_its_own():
    """What rewards are cut at for one use changes neither noise nor sums of the other."""
    much = {"publish_epsilon": 40.0, "privacy": JointDP(epsilon=42.0, delta=1e-6)}
    one, other = build(ridge=100.0), build(ridge=100.0, **much)
    assert np.array_equal(one.calibration.caps[0], other.calibration.caps[0])
    assert not np.array_equal(one.calibration.caps[1], other.calibration.caps[1])
    nothing = np.zeros(42, dtype=np.int64)
    for context in range(6):
        spans = [u.calibration.scores(u.calibration.answers, context, nothing)[1] for u in (one, other)]
        assert spans[0] == spans[1]
    sharp, flat = build(ridge=100.0), build(ridge=100.0, answer_epsilon=0.01)
    assert not np.array_equal(sharp.calibration.caps[0], flat.calibration.caps[0])
    for usca in (sharp, flat):
        usca.learn(*rows(500))
    assert sharp.publish().mean.tobytes() == flat.publish().mean.tobytes()


def test_context_laws_say_where_they_come_from():
    cells = CellMeasure.uniform(low=0, high=1, cells=6)
    generated = ContextLaw.from_generator(lambda n, rng: rng.beta(2, 5, n), cells=cells, draws=50_000)
    sample = ContextLaw.from_public_sample([0.1, 0.1, 0.9], cells=cells)
    assert generated.measure.weights[0] < generated.measure.weights[1]
    assert (generated.source, sample.source) == ("generator", "public sample")
    assert ContextLaw.from_config(sample.to_config()) == sample
    with pytest.raises(InvalidParameter):
        ContextLaw(cells, "rumour")
    with pytest.raises(InvalidParameter):
        ContextLaw(cells, "known", epsilon=1.0)


def test_published_is_a_file_that_anyone_can_use(tmp_path):
    usca = build()
    usca.learn(*rows(500))
    policy = usca.publish()
    policy.save(tmp_path / "policy")
    again = PublishedFunction.load(tmp_path / "policy")
    assert again.mean.tobytes() == policy.mean.tobytes()
    assert again.guarantee == policy.guarantee
    assert np.array_equal(again.predict([0.2])[0], policy.predict([0.2])[0])
    with pytest.raises(InvalidData):
        again.choose([1.2])
    (tmp_path / "policy" / "mean.npy").write_bytes(b"torn")
    with pytest.raises(CorruptState):
        PublishedFunction.load(tmp_path / "policy")


def test_foreign_shards_and_files_are_refused(tmp_path):
    usca, other = build(), build()
    with pytest.raises(IncompatibleState):
        usca.merge(other.shard())
    usca.shard().save(tmp_path / "shard")
    with pytest.raises(IncompatibleState):
        other.shard().load_sums(tmp_path / "shard")
    with pytest.raises(IncompatibleState):
        ExploreThenCommit.load(tmp_path / "shard")


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_shard_whose_numbers_are_none_is_refused(tmp_path, number):
    shard = build().shard()
    shard.save(tmp_path / "shard")
    state = read_state(tmp_path / "shard")
    write_state(tmp_path / "forged", replace(state, arrays={**state.arrays, "rounds": np.array(number)}))
    with pytest.raises(CorruptState):
        shard.load_sums(tmp_path / "forged")


def test_a_shard_that_lacks_a_part_is_refused(tmp_path):
    shard = build().shard()
    shard.save(tmp_path / "shard")
    state = read_state(tmp_path / "shard")
    for name in state.arrays:
        arrays = {other: array for other, array in state.arrays.items() if other != name}
        write_state(tmp_path / name, replace(state, arrays=arrays))
        with pytest.raises(CorruptState):
            shard.load_sums(tmp_path / name)


def test_reprs_and_diagnostics_hold_no_data():
    usca = build()
    usca.learn([0.5] * 3, [0.5] * 3, [0.987654321] * 3)
    shown = repr(usca) + repr(usca.shard()) + repr(cells(usca)) + str(usca.diagnostics())
    assert "987" not in shown
    assert str(int(sums(usca).max())) not in shown


def test_exploration_is_public_and_keyed_by_the_row():
    usca = build()
    assert np.array_equal(usca.explore(0, 100)[40:50], usca.explore(40, 50))
    assert np.array_equal(build().explore(0, 9), usca.explore(0, 9))


def test_configuration_builds_the_same_object():
    usca = build()
    again = ExploreThenCommit.from_config(usca.to_config())
    assert again.to_config() == usca.to_config()
    assert np.array_equal(again.calibration.caps, usca.calibration.caps)
    with pytest.raises(InvalidParameter):
        ExploreThenCommit.from_config({"policy": "other"})


def full_disk(*_):
    raise OSError("no space left")


def test_a_release_that_could_not_be_saved_does_not_leave_and_is_not_drawn_again(tmp_path, monkeypatch):
    usca = build(noise=SecureNoise())
    usca.learn(*rows(500))
    usca.save(tmp_path / "state")

    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.holder.StateStore.commit", full_disk)
        with pytest.raises(OSError, match="no space"):
            usca.publish()
    drawn = published_tables(usca)[0].copy()
    policy = usca.publish()
    assert np.array_equal(published_tables(usca)[0], drawn)
    assert np.array_equal(policy.mean, drawn)
    assert np.array_equal(ExploreThenCommit.load(tmp_path / "state").publish().mean, policy.mean)


def test_an_answer_that_could_not_be_saved_does_not_leave_and_is_spent(tmp_path, monkeypatch):
    ledger = MemoryLedger()
    ledger.open_account("survey", privacy=JointDP(3.0, 1e-6))
    usca = build(account=ledger.account("survey"))
    usca.save(tmp_path / "state")
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.holder.StateStore.commit", full_disk)
        with pytest.raises(OSError, match="no space"):
            usca.answer([0.5])
    assert usca.answer([0.5]).number == 2
    assert float(ledger.balance("survey").spent_epsilon) == 3.0
    assert ExploreThenCommit.load(tmp_path / "state", ledger=ledger).remaining_answers == 2


def test_a_published_function_is_unsure_of_what_its_features_leave_out():
    """A rough kernel, cut at a tenth of its largest eigenvalue: cells differ in how much of it is held."""
    tuning = {"kernel": Matern(nu=0.5, lengthscale=0.5), "tolerance": 0.1}
    with pytest.warns(LittleVariance):
        usca = build(**tuning)
    usca.learn(*rows(usca=usca))
    left_out = usca.features.left_out.reshape(7, 6)
    assert left_out.max() > 0.2
    assert (usca.publish().sd >= 0.5 * np.sqrt(SIGNAL_VARIANCE * left_out)).all()
