"""Many columns: marginal tables side by side in one histogram; a device takes one by its own coin."""

import json
from itertools import product

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.distributed import (
    Aggregate,
    Collector,
    DapCollector,
    Device,
    DistributedSpec,
    DistributedTuning,
    IdealAggregation,
    PublishedCellArms,
    PublishedTableArms,
)
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.baselines import DistributedCrowd
from dpbandits.lab.worlds import TableBandit
from reproduction.studies.distributed_crowds import simulate_distributed

COLUMNS = dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(12)})


def spec_of(contexts=COLUMNS, **more):
    own = {"arms": ["a", "b"], "horizon": 6000, "privacy": dpb.DistributedDP(epsilon=4)} | more
    return DistributedSpec(contexts=contexts, **own)


def table(n, seed):
    """People for whom arm a pays on the left of column 3 and b on the right, nine times out of ten."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((n, 12))
    means = np.where((contexts[:, [3]] > 0.5) == np.array([False, True]), 0.9, 0.1)
    return TableBandit(
        name="one column of twelve",
        schema=COLUMNS,
        contexts=contexts,
        arms=dpb.Arms(["a", "b"]),
        reward_table=(rng.random(means.shape) < means).astype(np.float64),
        reward_range=dpb.RewardRange(0, 1),
        seed=seed,
        horizon=n,
        expected=means,
        ordered=True,
    )


QUICK = DistributedTuning(first=0.2, growth=2.0)


@pytest.mark.numerics
def test_a_crowd_learns_the_column_that_matters():
    spec = spec_of(tuning=QUICK)
    found = simulate_distributed(spec, table(8000, 0), n_users=8000, seed=0)
    assert (found.regret / found.users)[-1] < 0.1  # random arms: .4
    assert found.average_reward > 0.7


def test_the_next_version_has_the_column_that_matters_and_its_arms():
    spec, people = spec_of(tuning=QUICK), table(1200, 1)
    collector, aggregation = Collector(spec), IdealAggregation(spec, noise=dpb.SimulatedNoise(1))
    first, rng = collector.publish(), np.random.default_rng(2)
    assert {column for group in first.tables(spec).groups for column in group} == set(range(12))
    arms, places = first.at(spec, people.contexts, rng.random((1200, 2)))
    good = people.reward_table[np.arange(1200), arms].astype(int)
    aggregation.upload_buckets(0, spec.bucket(places, good))
    collector.absorb(aggregation.collect(0))
    later = collector.publish()
    assert 3 in {column for group in later.tables(spec).groups for column in group}
    share = later.shares(spec, np.where(np.arange(12) == 3, 2, 12)[None])[0]
    assert share[0] == 1.0
    mean, sd = collector.estimate().predict(spec, people.contexts[:50])
    assert (mean.argmax(axis=1) == people.expected[:50].argmax(axis=1)).mean() > 0.8
    assert (sd > 0.0).all()


def test_values_that_nobody_had_so_far_do_not_spoil_what_is_learned():
    """All people are alike at first: tables of different widths then find parts that have no people."""
    spec = spec_of(horizon=60_000, tuning=DistributedTuning(first=0.1, growth=1.5))
    collector, aggregation = Collector(spec), IdealAggregation(spec, noise=dpb.SimulatedNoise(3))
    rng, contexts = np.random.default_rng(4), np.full((6000, 12), 0.05)
    for number in range(4):
        if number == 3:
            contexts = rng.random((6000, 12))
        version = collector.publish()
        arms, places = version.at(spec, contexts, rng.random((6000, 2)))
        good = (rng.random(6000) < np.where(arms == 0, 0.9, 0.1)).astype(int)
        aggregation.upload_buckets(number, spec.bucket(places, good))
        collector.absorb(aggregation.collect(number))
    mean, sd = collector.estimate().predict(spec, np.vstack([np.full((1, 12), 0.05), rng.random((50, 12))]))
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    assert mean[0, 0] > mean[0, 1] + 0.4


def small():
    """Three columns of two categories, with tables because the eight cells do not fit."""
    kinds = {f"c{column}": dpb.Categories(["no", "yes"]) for column in range(3)}
    return spec_of(dpb.Schema(**kinds), arms=["only"], tuning=DistributedTuning(cells=7))


def test_every_context_coin_and_reward_gives_one_bucket_so_that_a_replacement_moves_two():
    spec = small()
    version, coins = Collector(spec).publish(), np.array([[0.0, 0.1], [0.0, 0.9]])
    assert version.tables(spec).groups == ((0, 1), (2,))
    sums = []
    for levels in product((0, 1), repeat=3):
        _, places = version.at(spec, np.tile((np.array(levels) + 0.5) / 2.0, (2, 1)), coins)
        assert places.tolist() == [2 * levels[0] + levels[1], 4 + levels[2]]
        for good in (0, 1):
            one = [
                spec.histogram.counted(np.array([bucket])) for bucket in spec.bucket(places, np.full(2, good))
            ]
            assert all(counted.sum() == 1 for counted in one)
            sums += one
    moved = np.abs(np.array(sums)[:, None] - np.array(sums)).sum(axis=2)
    assert moved.max() == 2 == spec.histogram.sensitivity


def test_devices_take_every_table_equally_often_whatever_their_context():
    spec = DistributedSpec.from_json(small().to_json())
    device = Device(
        DistributedSpec(
            contexts=spec.contexts,
            arms=spec.arms,
            privacy=dpb.DistributedDP(epsilon=902, reports_per_user=902),
            horizon=6000,
            tuning=spec.tuning,
        )
    )
    version = Collector(device.spec).publish()
    found = np.zeros(device.spec.length)
    for _ in range(900):
        device.choose(version, {"c0": "yes", "c1": "no", "c2": "yes"})
        found[device.report(1.0).bucket] += 1
    taken = found[[4, 10]]  # cell 2 of the first table, and cell 1 of the second, which starts at 4
    assert taken.sum() == 900
    assert np.abs(taken - 450).max() < 6.0 * 15.0
    device.choose(version, {"c0": "yes"})
    assert device.report(1.0).bucket == device.spec.silent
    device.choose(version, {"c0": "yes", "c1": "no", "c2": "yes"}, available=[])
    assert device.report(1.0).bucket == device.spec.silent


def test_thirty_columns_are_accepted_and_sizes_that_do_not_fit_are_refused_in_numbers():
    many = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(30)})
    spec = spec_of(many, arms=range(4))
    assert (spec.places, spec.length) == (300, 601)
    assert len(Collector(spec).publish().tables(spec).groups) > 1
    with pytest.raises(InvalidParameter, match="marginal tables"):
        spec.grid  # noqa: B018
    wide = DistributedTuning(cells=1024)
    assert spec_of(many, arms=range(17), tuning=wide).length == 2049
    for arms, tuning, message in (
        (
            6,
            DistributedTuning(),
            "and 6 arms need 360 places of marginal tables or more, and 300 are",
        ),
        (18, wide, "need 1080 places of marginal tables or more, and 1024 are"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            spec_of(many, arms=range(arms), tuning=tuning).statement()


def test_one_table_or_many_follows_from_the_columns_and_arms():
    for columns, tables in ((1, False), (3, False), (4, True)):
        schema = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(columns)})
        assert (spec_of(schema).effects is not None) == tables
    kinds = dpb.Schema(a=dpb.Range(0, 1), b=dpb.Range(0, 1), c=dpb.Categories(range(60)))
    assert spec_of(kinds, arms=range(4)).effects is not None
    assert spec_of(kinds, arms=range(5)).grid.sizes == (2, 2, 60)  # tables do not fit


@pytest.mark.numerics
def test_a_version_and_a_state_are_written_and_read(tmp_path):
    spec = spec_of(tuning=QUICK)
    collector, other = Collector(spec), spec_of(seed=4)
    rng = np.random.default_rng(3)
    collector.absorb(Aggregate(version=0, sums=rng.integers(0, 40, spec.length), reports=1200))
    points, coins = rng.random((40, 12)), rng.random((40, 2))
    for one in (Collector(spec).publish(), collector.publish(), collector.estimate()):
        again = PublishedTableArms.from_json(one.to_json(spec), spec)
        for mine, theirs in zip(one.at(spec, points, coins), again.at(spec, points, coins), strict=True):
            assert np.array_equal(mine, theirs)
        for text in (one.to_json(other), "{}"):
            with pytest.raises(IncompatibleState):
                PublishedTableArms.from_json(text, spec)
    collector.save(tmp_path / "state")
    loaded = Collector.load(tmp_path / "state")
    assert loaded.publish().to_json(spec) == collector.publish().to_json(spec)
    assert loaded.estimate().to_json(spec) == collector.estimate().to_json(spec)
    with pytest.raises(ProtocolError, match="estimate"):
        loaded.publish().predict(spec, points)


@pytest.mark.parametrize(
    "change",
    [
        {"design": [[0, 1], [4, 4]]},
        {"design": [[0] * 3 + [-1] * 9, [12] * 12]},
        {"design": [[0] + [-1] * 11, [25] + [4] * 11]},
        {"draws": [[[0.0]]]},
        {"draws": []},
        {"pairs": [[3, 1]]},
        {"pairs": [[0, 12]]},
        {"pairs": [[-1, 2]]},
        {"pairs": [[0, 1]]},
        {"version": -1},
        {"factor": [[[1.0]]]},
    ],
)
def test_versions_that_do_not_fit_are_refused(change):
    spec = spec_of(tuning=QUICK)
    text = json.loads(Collector(spec).estimate().to_json(spec))
    with pytest.raises(IncompatibleState):
        PublishedTableArms.from_json(json.dumps(text | change), spec)


def test_cells_and_tables_are_not_taken_for_each_other():
    with pytest.raises(IncompatibleState):
        PublishedCellArms(version=0, arms=np.zeros(300, dtype=int)).fits(spec_of())
    small_spec = spec_of(dpb.Schema(x=dpb.Range(0, 1)))
    with pytest.raises(IncompatibleState):
        PublishedTableArms(version=0, design=np.array([[0], [4]])).fits(small_spec)


def test_browsers_are_not_offered_marginal_tables():
    spec = spec_of()
    sums = DapCollector(spec, leader="https://leader.example", token="secret", private_key=bytes(32))
    assert (sums.task(0).length, sums.task(0).chunk) == (601, 24)
    with pytest.raises(InvalidParameter, match="for few columns"):
        sums.policy(Collector(spec).publish(), helper="https://helper.example")


def test_a_policy_of_the_laboratory_goes_on_from_its_state(tmp_path):
    spec, people = spec_of(horizon=300), table(200, 4)
    crowds = [DistributedCrowd(spec=spec, seed=1) for _ in range(2)]
    for number in range(130):
        person = dict(zip(COLUMNS.columns, people.contexts[number].tolist(), strict=True))
        for crowd in crowds:
            decision = crowd.ask(person)
            crowd.tell(decision.id, float(people.reward_table[number, spec.arms.index(decision.arm)]))
        if number == 110:
            crowds[1].save(tmp_path / "state")
            crowds[1] = DistributedCrowd.load(tmp_path / "state")
    one, two = (crowd.publish().to_json(spec) for crowd in crowds)
    assert json.loads(one)["version"] == 1
    assert one == two
