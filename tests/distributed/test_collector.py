"""The collector: learns from noisy sums, refuses a second draw of the noise, and continues from its state."""

import dataclasses

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.distributed import Aggregate, Collector, DistributedSpec, DistributedTuning, IdealAggregation
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.state import State, write_state

SPEC = DistributedSpec(
    contexts=dpb.Schema(x=dpb.Range(0, 1)),
    arms=["a", "b"],
    privacy=dpb.DistributedDP(epsilon=1),
    horizon=4000,
    reward_range=(-1, 1),
)


def run(spec, collector, noise, *, until=None, seed=0):
    """Serve people for whom arm a pays on the left and b on the right, nine times out of ten."""
    aggregation, rng = IdealAggregation(spec, noise=noise), np.random.default_rng(seed)
    paid = 0
    for number, people in enumerate(spec.reports_per_version[:until]):
        x = rng.random((people, 1))
        cells = spec.grid.locate(x)
        arms = collector.publish().arms[cells]
        good = rng.random(people) < np.where((x[:, 0] > 0.5) == (arms == 1), 0.9, 0.1)
        aggregation.upload_buckets(number, spec.bucket(cells, good.astype(int)))
        collector.absorb(aggregation.collect(number))
        paid += good.sum()
    return paid / spec.horizon


def test_it_learns_which_arm_pays_where():
    collector = Collector(SPEC)
    assert run(SPEC, collector, dpb.SimulatedNoise(0)) > 0.8  # random arms: .5, the best ones: .9
    assert collector.finished
    last = collector.publish()
    assert last.recommend_batch(SPEC, {"x": [0.1, 0.9]}) == ("a", "b")
    mean, sd = collector.estimate().predict(SPEC, {"x": [0.1, 0.9]})
    assert (mean.argmax(axis=1) == [0, 1]).all()
    assert np.abs(mean.max(axis=1) - 0.8).max() < 0.3
    assert (sd > 0.0).all()
    with pytest.raises(ProtocolError, match="all versions are over"):
        collector.skip()


def test_the_same_sum_changes_nothing_and_another_one_of_the_version_is_refused():
    collector, sums = Collector(SPEC), np.arange(SPEC.length)
    collector.absorb(Aggregate(version=0, sums=sums, reports=80))
    collector.absorb(Aggregate(version=0, sums=sums, reports=80))
    assert collector.publish().version == 1
    with pytest.raises(IncompatibleState, match="drew its noise twice"):
        collector.absorb(Aggregate(version=0, sums=sums + 1, reports=80))
    with pytest.raises(ProtocolError, match="expected the sum of version 1"):
        collector.absorb(Aggregate(version=2, sums=sums, reports=80))
    with pytest.raises(InvalidData, match="sums"):
        collector.absorb(Aggregate(version=1, sums=sums[1:], reports=80))


def test_an_interrupted_call_goes_on_when_it_is_repeated(monkeypatch):
    collector, whole = Collector(SPEC), Collector(SPEC)
    sums = Aggregate(version=0, sums=np.arange(SPEC.length), reports=80)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("dpbandits.distributed.learner.CountLearner.fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collector.absorb(sums)
    assert collector.publish().version == 0
    collector.absorb(sums)
    whole.absorb(sums)
    assert collector.publish().version == 1
    np.testing.assert_array_equal(collector.publish().arms, whole.publish().arms)


def test_a_lost_batch_is_a_missing_version():
    collector = Collector(SPEC)
    collector.skip()
    assert collector.publish().version == 1
    with pytest.raises(ProtocolError):
        collector.absorb(Aggregate(version=0, sums=np.zeros(SPEC.length, dtype=int), reports=9))
    collector.absorb(Aggregate(version=1, sums=np.zeros(SPEC.length, dtype=int), reports=0))
    assert np.isfinite(collector.estimate().mean).all()


@pytest.mark.numerics
def test_it_continues_from_its_state_as_if_nothing_had_happened(tmp_path):
    whole, half = Collector(SPEC), Collector(SPEC)
    for collector in (whole, half):
        run(SPEC, collector, dpb.SimulatedNoise(0), until=3)
    half.save(tmp_path / "state")
    again = Collector.load(tmp_path / "state")
    assert np.array_equal(again.publish().arms, whole.publish().arms)
    sums = Aggregate(version=3, sums=np.arange(SPEC.length), reports=300)
    for collector in (whole, again):
        collector.absorb(sums)
    assert np.array_equal(again.publish().arms, whole.publish().arms)
    assert np.array_equal(again.estimate().mean, whole.estimate().mean)


def test_a_state_that_contradicts_itself_is_refused(tmp_path):
    def saved(**changed):
        arrays = {
            "arms": np.zeros((2, SPEC.grid.size), dtype=np.int64),
            "versions": np.array([0]),
            "reports": np.array([9]),
            "sums": np.zeros((1, SPEC.length), dtype=np.int64),
        }
        state = State(
            kind="distributed.Collector",
            version=1,
            lineage="a",
            position=0,
            public={"spec": SPEC.to_json()},
            arrays=arrays | changed,
        )
        write_state(tmp_path / "state", state)
        return tmp_path / "state"

    assert Collector.load(saved()).publish().version == 1
    for wrong in (
        {"versions": np.array([1])},
        {"versions": np.array([-1])},
        {"arms": np.zeros((0, SPEC.grid.size), dtype=np.int64)},
        {"arms": np.full((2, SPEC.grid.size), 2)},
        {"sums": np.zeros((1, 3), dtype=np.int64)},
        {"reports": np.array([9, 9])},
        {"more": np.array([9])},
    ):
        with pytest.raises((CorruptState, IncompatibleState)):
            Collector.load(saved(**wrong))


def test_many_arms_and_columns_of_users_size_take_little_memory():
    people = dpb.Schema(a=dpb.Range(0, 1), b=dpb.Range(0, 1), c=dpb.Categories(list("pqrs")))
    spec = DistributedSpec(
        contexts=people, arms=range(60), privacy=dpb.DistributedDP(epsilon=1), horizon=10**6
    )
    assert spec.grid.sizes == (8, 8, 4)
    collector = Collector(spec)
    collector.absorb(Aggregate(version=0, sums=np.full(spec.length, 40), reports=20_000))
    assert collector.publish().arms.shape == (256,)


@pytest.mark.parametrize(("horizon", "ranges"), [(400, 4), (4_000, 5), (50_000, 6)])
def test_ranges_keep_cells_beside_columns_of_categories(horizon, ranges):
    people = {"a": dpb.Range(0, 1), "b": dpb.Range(0, 1), "c": dpb.Categories(list("pqrs"))}
    spec = DistributedSpec(
        contexts=dpb.Schema(**people, d=dpb.Categories(["no", "yes"])),
        arms=["a", "b"],
        privacy=dpb.DistributedDP(epsilon=1),
        horizon=horizon,
    )
    assert spec.grid.sizes == (ranges, ranges, 4, 2)
    with pytest.raises(
        InvalidParameter, match="need 306 places of marginal tables or more, and 300 are allowed"
    ):
        dataclasses.replace(spec, contexts=dpb.Schema(a=dpb.Range(0, 1), c=dpb.Categories(range(151))))


def test_one_cell_and_one_arm_are_enough():
    spec = DistributedSpec(
        contexts=dpb.Schema(kind=dpb.Categories(["only"])),
        arms=["a"],
        privacy=dpb.DistributedDP(epsilon=1),
        horizon=1,
        tuning=DistributedTuning(cells=1, min_batch=1),
    )
    assert (spec.length, spec.reports_per_version) == (3, (1,))
    collector = Collector(spec)
    collector.absorb(Aggregate(version=0, sums=np.array([-5, 2, 1]), reports=1))
    assert collector.publish().recommend(spec, {"kind": "only"}) == "a"


@pytest.mark.parametrize("columns", [2, 9])
def test_a_changed_sum_that_teaches_nothing_is_refused_and_can_be_left_out(columns):
    kinds = dpb.Schema(**{f"k{j}": dpb.Categories([*"abcde"]) for j in range(columns)})
    spec = dataclasses.replace(SPEC, contexts=kinds, privacy=dpb.DistributedDP(epsilon=30))
    collector = Collector(spec)
    before = collector.estimate().to_json(spec)
    changed = Aggregate(version=0, sums=np.arange(spec.length) << 50, reports=100)
    for _ in range(2):
        with pytest.raises(InvalidData, match=r"version 0.*leave the version out"):
            collector.absorb(changed)
    assert collector.estimate().to_json(spec) == before
    collector.skip()
    assert collector.publish().version == 1
