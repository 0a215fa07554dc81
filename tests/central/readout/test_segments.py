"""SegmentSums of a readout: sensitivities by enumeration, what enters a segment, and the end of a readout."""

import itertools
import json
import sys
from contextlib import suppress

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.readout.budget import BothNoises, for_learning
from dpbandits.central.readout.declared import ToldMetric
from dpbandits.central.readout.groups import CONTROL, POLICY, Groups
from dpbandits.central.readout.lattice import Lattice
from dpbandits.central.readout.rows import Rows
from dpbandits.central.readout.segments import NOWHERE, SegmentSums
from dpbandits.errors import InvalidParameter
from dpbandits.policy import PublicCoins
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.certificates import GaussianDP, PureDP
from dpbandits.state.format import read_state

PEOPLE = dpb.Schema(
    day=dpb.Cycle(7), age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"], missing="west")
)
ARMS, REGIONS = ["mail", "nothing"], ("north", "south", "west")
AGES = {"age": [30, 50]}
WITHOUT_IDS = JointDP(epsilon=1, delta=1e-6, user_ids=False)


def policy(*, readout=None, horizon=200, privacy=WITHOUT_IDS, release="marginals", **changes):
    given = {"control": dpb.Control(arm="nothing", share=0.3), "looks": 2, "segments": "region"}
    return GPBandit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=horizon,
        privacy=privacy,
        tuning=changes.pop("tuning", None) or GPTuning(release=release, blocks=[60, 120]),
        readout=dpb.Readout(**(given | (readout or {}))),
        **({"noise": SimulatedNoise(5), "seed": 4} | changes),
    )


def person(region="south", age=44, day=3):
    return {"day": day, "age": age, "region": region}


def released(one):
    """Return the sums, squares and counts (2, C, 3) in segments of a policy and its control."""
    tables = one.readout().tables
    return np.array([np.column_stack([table.sums, table.squares, table.counts]) for table in tables])


# -- sensitivities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("unit", [5, 8, 655])
def test_replacing_a_round_moves_the_integers_by_at_most_the_sensitivity(gaussian, unit, squared):
    """Every pair of segments, also none, and of rewards on the integer lattice, beside one other round."""
    segments = SegmentSums("region", ("a", "b"), 0, (1.0,), unit, squared)
    grid = range(-unit, unit + 1) if unit < 10 else np.linspace(-unit, unit, 17).round().astype(int)
    found = np.array(
        [
            segments.sums(np.array([code, 1], dtype=np.int16), np.array([x, 3])).ravel()
            for code, x in itertools.product((NOWHERE, 0, 1), grid)
        ]
    )
    moved = np.abs(found[:, None] - found[None])
    size = np.sqrt((moved**2.0).sum(axis=2)) if gaussian else moved.sum(axis=2)
    most = segments.sensitivity(gaussian=gaussian)
    assert size.max() <= most
    assert size.max() > 0.999 * most * (1.0 if unit > 10 or not gaussian else 0.9)
    alone = size[found[:, 2 + squared - 1] == found[:, 2 + squared - 1].max()]
    assert alone.max() <= most


def test_the_sensitivity_in_l2_counts_a_round_that_stays_in_its_segment():
    """With a small count, replacing the reward alone moves the sums more than moving to another segment."""

    class Rarely(SegmentSums):
        counted = 1

    segments = Rarely("region", ("a", "b"), 0, (1.0,), 100, squared=False)
    one, other = (segments.sums(np.zeros(1, dtype=np.int16), np.array([x])) for x in (100, -100))
    assert np.linalg.norm(one - other) == segments.sensitivity(gaussian=True) == 200.0


def test_a_user_with_several_rounds_moves_every_segment_by_as_many_rounds():
    segments = SegmentSums("region", ("a", "b", "c"), 0, (1.0, 2.0), 64, squared=True)
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(3000):
        both = [
            segments.sums(rng.integers(-1, 3, 3).astype(np.int16), rng.choice([-64, 64, 0, 17], 3))
            for _ in range(2)
        ]
        most = max(most, float(np.abs(both[0] - both[1]).sum()))
    assert 2.5 * segments.sensitivity(gaussian=False) < most <= 3.0 * segments.sensitivity(gaussian=False)


@pytest.mark.parametrize("kind", ["pure", "gaussian", "near"])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("charged", [False, True])
def test_learning_looks_and_segments_together_keep_the_promise(kind, rounds, charged):
    readout = dpb.Readout(control=dpb.Control(arm="nothing"), segments="region", segments_share=0.1)
    privacy = JointDP(epsilon=1, delta=1e-6, rounds_per_user=rounds)
    reward = ToldMetric(name="reward", bounds=dpb.RewardRange(0, 1), yes_no=False)
    lattice = Lattice((reward,), rounds > 1)
    segments = SegmentSums.of("region", PEOPLE, unit=int(lattice.units[0]), squared=True)
    own = for_learning(privacy, readout.spent, gaussian=kind != "pure")
    noise = SimulatedNoise(0) if kind == "gaussian" else SecureNoise()
    learned = PureDP(own.epsilon)
    if kind != "pure":
        learned = noise.gaussian_scale(1e6, own.epsilon, own.delta, draws=100)[1]
    both = BothNoises.planned(learned, privacy, noise, lattice, readout, segments=segments, charged=charged)
    assert both.certificate.delta_at(1.0) <= (0.0 if kind == "pure" else 1e-6)
    for looks, cells in ((both.policy, both.segments[0]), (both.control, both.segments[1])):
        assert cells.sensitivity == rounds * segments.sensitivity(gaussian=cells.gaussian)
        together = looks.certificate.beside(cells.certificate)
        if looks is both.policy:
            together = learned.beside(together)
        assert together.delta_at(1.0) <= (0.0 if kind == "pure" else 1e-6)
        # a tenth less noise would break the promise
        if kind == "gaussian" and looks is both.policy:
            mus = [own.mu for own in (learned, looks.certificate)]
            more = GaussianDP(float(np.linalg.norm([*mus, 1.1 * cells.sensitivity / cells.scale])))
            assert more.delta_at(1.0) > 1e-6


# -- what enters a segment -----------------------------------------------------------------------------


def test_segments_are_those_of_the_declared_column():
    points = PEOPLE.encode(
        {"day": [0, 1, 2, 3], "age": [18, 30, 49.9, 50], "region": ["west"] * 2 + [None, "south"]}
    )
    by_age = SegmentSums.of(AGES, PEOPLE, unit=1, squared=False)
    assert by_age.names == ("18 to 30", "30 to 50", "50 to 90")
    assert by_age.codes(points, None).tolist() == [0, 1, 1, 2]
    by_region = SegmentSums.of("region", PEOPLE, unit=1, squared=False)
    assert by_region.names == ("north", "south", "west")
    refused = np.array([False, True, False, False])
    assert by_region.codes(points, refused).tolist() == [2, NOWHERE, 2, 1]


@pytest.mark.parametrize(
    "asked",
    [
        "city",
        "age",
        "day",
        {"region": [1]},
        {"age": []},
        {"age": [50, 30]},
        {"age": [18]},
        {"age": [30, 90]},
        {"age": list(np.linspace(19, 89, 70))},
        {"age": ["30"]},
        {"age": [30], "region": []},
        ["region"],
        {"age": [float("nan")]},
    ],
)
def test_other_columns_and_edges_are_refused(asked):
    with pytest.raises(InvalidParameter, match="segments"):
        policy(readout={"segments": asked})


def test_shares_leave_half_of_the_promise_to_learning():
    with pytest.raises(InvalidParameter, match=r"at most 0\.5 together"):
        policy(readout={"share": 0.3, "segments_share": 0.3})
    assert policy(readout={"share": 0.5, "segments": None}).to_config()["readout"]["segments"] is None


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_a_user_moves_the_segments_of_the_own_group_alone(release):
    """One user's region, reward and missingness are replaced: sums of two segments move as they must."""

    def drive(changed, place):
        one = policy(release=release)
        people, rewards = [person(REGIONS[index % 3]) for index in range(200)], [0.25] * 200
        people[place], rewards[place] = changed
        one.tell_batch(one.ask_batch(people).ids, rewards)
        return released(one)

    held = Groups(PublicCoins(4), 0.3, by_user=False).of([], 0, 200)
    for code in (POLICY, CONTROL):
        place = int(np.flatnonzero(held == code)[5])
        before = drive((person("north"), 1.0), place)
        for changed, expected in (
            ((person("south"), None), [[-0.5, -1.0, -1.0], [-0.5, 1.0, 1.0], [0.0, 0.0, 0.0]]),
            ((person("mars"), None), [[-0.5, -1.0, -1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
            ((person("north", age=float("nan")), 1.0), [[-0.5, -1.0, -1.0], [0.0] * 3, [0.0] * 3]),
            ((person("north"), 0.5), [[-0.5, -1.0, 0.0], [0.0] * 3, [0.0] * 3]),
        ):
            after = drive(changed, place)
            np.testing.assert_allclose(after[code] - before[code], expected, atol=1e-4)
            np.testing.assert_array_equal(after[1 - code], before[1 - code])


def test_segments_are_released_once_after_the_last_look_and_cover_all_looks(tmp_path):
    asked = {"metrics": {"reward": bool}, "looks": 3}
    strong = JointDP(epsilon=45, delta=1e-6, user_ids=False)

    def drive(one, first, last):
        batch = one.ask_batch([person(REGIONS[index % 2]) for index in range(first, last)])
        one.tell_batch(batch.ids, [arm == "mail" for arm in batch.arms])

    whole = policy(privacy=strong, readout=asked)
    drive(whole, 0, 90)
    drive(whole, 90, 199)
    assert whole.readout().segments == ()
    drive(whole, 199, 200)
    found = whole.readout()
    assert [one.name for one in found.segments] == ["region north", "region south", "region west"]
    assert [one.enough for one in found.segments] == [True, True, False]
    assert found.segments[0].control == pytest.approx(0.0, abs=0.1)
    assert found.segments[0].interval[0] > 0.0
    assert "region west: too few rounds" in found.explain()
    shown = json.loads(json.dumps(found.to_json()))["segments"]
    assert (shown[0]["name"], shown[2]["control"]) == ("region north", None)
    # counts add up to the public numbers of rounds, but for the noise
    for table, rounds in zip(released(whole), found.readings.rounds[::-1], strict=True):
        assert table[:, 2].sum() == pytest.approx(rounds, abs=8.0)

    with GPBandit.open(tmp_path / "live", new=policy(privacy=strong, readout=asked)) as one:
        drive(one, 0, 90)
    with GPBandit.open(tmp_path / "live") as one:
        drive(one, 90, 199)
    with GPBandit.open(tmp_path / "live") as one:
        drive(one, 199, 200)
        np.testing.assert_array_equal(released(one), released(whole))
    with GPBandit.open(tmp_path / "live") as one:
        np.testing.assert_array_equal(released(one), released(whole))


def test_erased_rounds_are_in_no_segment_and_later_ones_stay():
    segments = SegmentSums.of("region", PEOPLE, unit=65536, squared=False)
    reward = ToldMetric(name="reward", bounds=dpb.RewardRange(0, 1), yes_no=True)
    rows = Rows(Lattice((reward,), False), Groups(PublicCoins(4), 0.3, by_user=False), segments, 40)
    points = PEOPLE.encode({"day": [1] * 50, "age": [40] * 50, "region": ["south"] * 50})
    rows.entered(0, (), points, None)
    rows.told(np.arange(50), np.ones(50), None)
    rows.erase(10)
    rows.in_segments = 0, np.zeros((2, *segments.shape), dtype=np.int64)
    rows.close(20)
    rows.erase(25)
    rows.close(40)
    assert rows.in_segments[1][:, :, 1].sum() == 25 * segments.counted
    assert rows.in_segments[1][:, 1, 0].sum() == 25 * 65536
    assert len(rows.arrays()["readout_values"]) == 0  # rounds after the last look are not kept


def closed_rows(calls):
    """Rows of which 20 are closed twice, the first time with an interrupt before call number `calls`."""
    segments = SegmentSums.of("region", PEOPLE, unit=65536, squared=True)
    reward = ToldMetric(name="reward", bounds=dpb.RewardRange(0, 1), yes_no=False)
    rows = Rows(Lattice((reward,), True), Groups(PublicCoins(4), 0.3, by_user=True), segments, 40)
    points = PEOPLE.encode({"day": [1] * 40, "age": [40] * 40, "region": ["south", "west"] * 20})
    rows.entered(0, [bytes([number // 3]) * 16 for number in range(40)], points, None)
    rows.told(np.arange(40), np.arange(40) / 40, None)
    rows.in_segments = 0, np.zeros((2, *segments.shape), dtype=np.int64)
    left, closing, done = itertools.count(calls, -1), False, False

    def interrupt(_frame, event, _called):  # signals are handled where something is called
        if event in ("call", "c_call") and closing and not next(left):
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    with suppress(KeyboardInterrupt):
        closing = True
        rows.close(20)
        closing, done = False, True
    closing = False
    sys.setprofile(None)
    rows.close(20)
    return rows.arrays(), done


def test_an_interrupt_of_a_closing_look_puts_no_outcome_into_two_looks():
    whole, _ = closed_rows(10**6)
    for calls in itertools.count(1):
        found, done = closed_rows(calls)
        for name, array in whole.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{name}, call {calls}")
        if done:
            break
    assert calls > 30


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_the_noise_of_segments_is_the_stated_one_also_where_nobody_is(release):
    """Counts of empty segments over seeds: their deviation is that of the stated law."""
    counts, stated, edges = [], set(), np.linspace(18, 90, 65)[1:-1].tolist()
    for seed in range(8):
        one = policy(
            noise=SimulatedNoise(seed),
            horizon=40,
            readout={"looks": 1, "segments": {"age": edges}},
            tuning=GPTuning(release=release, blocks=[39]),
        )
        one.ask_batch({"day": [1] * 40, "age": [18] * 40, "region": ["north"] * 40})
        counts.append(released(one)[:, 1:, 2])
        stated.add(tuple(table.count_law.sd for table in one.readout().tables))
    (sds,) = stated
    drawn = np.array(counts).transpose(1, 0, 2).reshape(2, -1)
    # standard error of a Laplace variance: sqrt(5/n) of it; seven of them
    np.testing.assert_allclose(
        (drawn**2).mean(axis=1), np.square(sds), rtol=7.0 * (5.0 / drawn.shape[1]) ** 0.5
    )


def test_the_statement_names_the_segments():
    found = policy().guarantee
    text = " ".join(found.annex().split())
    for said in (
        "sums of rewards in segments of the control group",
        "Replacing a round may move two segments",
        "segments of the column region",
        "The segment follows from the round's own context",
    ):
        assert said.lower() in text.lower()
    assert found.certificate.delta_at(1.0) <= 1e-6
    assert GPBandit.from_config(policy(readout={"segments": AGES}).to_config()).to_config()["readout"][
        "segments"
    ] == {"age": [30.0, 50.0]}
    plain = policy(readout={"segments": None})
    assert "segments" not in plain.guarantee.annex()


def test_a_state_holds_the_sums_with_their_noise(tmp_path):
    """Between looks, even a segment where nobody was holds noise in each of its numbers."""
    one = policy(readout={"looks": 3}, horizon=300)
    one.save(tmp_path / "state")
    one.ask_batch([person()] * 150)
    one.readout()
    kept = read_state(tmp_path / "state").arrays["readout_in_segments"]
    assert kept.shape == (2, 3, 3)
    assert (kept != 0).all()
    one.ask_batch([person()] * 150)
    final = one.readout().tables[0].counts[:, 0]
    assert (final[[0, 2]] * 65536 == kept[0, [0, 2], 2]).all()  # the same noise
