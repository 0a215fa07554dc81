"""Worlds in which parts of the people are as many, and are paid, as is believed."""

import json

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab import Facts

PEOPLE = dpb.Schema(
    hour=dpb.Cycle(24), age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"])
)
"""A cycle has two coordinates: age is the third, region the fourth."""
ARMS = ["mail", "call", "nothing"]
AGE = {
    "until": [36, 63],
    "people": [0.5, 0.2, 0.3],
    "rates": {
        "mail": [(0.18, 0.22), (0.30, 0.34), (0.38, 0.42)],
        "call": [(0.40, 0.44), (0.30, 0.34), (0.20, 0.24)],
        "nothing": [(0.28, 0.32), (0.28, 0.32), (0.28, 0.32)],
    },
}
REGION = {"people": [0.6, 0.3, 0.1]}
RATES = {"mail": (0.27, 0.29), "call": (0.33, 0.35), "nothing": (0.29, 0.31)}
FILE = """
[columns.age]
low = 18
high = 90

[plan]
arms = [true, false]
users = 4_000
effect = [0.05, 0.1]

[plan.rates]
true = 0.30
false = 0.32

[plan.segments.age]
until = [40]
people = [0.5, 0.5]

[plan.segments.age.rates]
true = [0.34, [0.25, 0.27]]
false = [0.28, 0.36]
"""


def facts(**changes):
    known = {"contexts": PEOPLE, "arms": ARMS, "effect": 0.13, "rates": RATES}
    return Facts(**known | {"segments": {"age": AGE, "region": REGION}} | changes)


def of_age(world):
    return np.digitize(18 + 72 * world.contexts[:, 2], AGE["until"])


def means_of(world, segments):
    return np.array([world.expected[segments == one].mean(axis=0) for one in range(3)])


@pytest.mark.parametrize("smoothness", ["smooth", "rough"])
@pytest.mark.parametrize("seed", range(4))
def test_segments_have_their_people_and_are_paid_what_is_believed(seed, smoothness):
    world = facts(smoothness=smoothness).world(seed, 40_000)
    own = of_age(world)
    np.testing.assert_allclose(np.bincount(own) / 40_000, AGE["people"], atol=0.015)
    np.testing.assert_allclose(
        np.bincount(world.contexts[:, 3].astype(int)) / 40_000, REGION["people"], atol=0.015
    )
    said = np.array([AGE["rates"][arm] for arm in ARMS])  # arm, segment, end
    found = means_of(world, own).T
    assert (found > said[:, :, 0] - 0.015).all()
    assert (found < said[:, :, 1] + 0.015).all()
    np.testing.assert_allclose(world.expected.mean(axis=0), [0.28, 0.34, 0.30], atol=0.025)
    effect = world.expected.max(axis=1).mean() - world.expected.mean()
    assert 0.9 * 0.117 < effect < 1.1 * 0.143


@pytest.mark.parametrize("seed", range(4))
def test_what_segments_leave_open_of_rates_is_what_worlds_have(seed):
    """Rates of everybody that are said vaguely do not move those of segments that are said closely."""
    known = facts(rates={"mail": (0.2, 0.4), "call": (0.3, 0.38), "nothing": (0.2, 0.4)})
    low, high = known.believed_rates[0]
    assert low == pytest.approx(0.5 * 0.18 + 0.2 * 0.30 + 0.3 * 0.38)
    assert high == pytest.approx(0.5 * 0.22 + 0.2 * 0.34 + 0.3 * 0.42)
    world = known.world(seed, 40_000)
    said, found = np.array([AGE["rates"][arm] for arm in ARMS]), means_of(world, of_age(world)).T
    assert (found > said[:, :, 0] - 0.015).all()
    assert (found < said[:, :, 1] + 0.015).all()


@pytest.mark.parametrize("seed", range(4))
def test_large_effects_within_segments_leave_their_means_alone(seed):
    """Log odds lie far apart then, and means move slowly with them."""
    world = facts(effect=(0.28, 0.32), smoothness="smooth").world(seed, 40_000)
    said, found = np.array([AGE["rates"][arm] for arm in ARMS]), means_of(world, of_age(world)).T
    assert (found > said[:, :, 0] - 0.03).all()
    assert (found < said[:, :, 1] + 0.03).all()
    assert world.expected.max(axis=1).mean() - world.expected.mean() > 0.24


@pytest.mark.parametrize("seed", range(8))
def test_ranks_of_a_column_are_of_its_people(seed):
    """In half of the worlds functions are of ranks: people of segments are spread evenly over them then."""
    column = dpb.Schema(spent=dpb.Range(0, 1000))
    bent = {"spent": {"until": [10, 30], "people": [0.6, 0.3, 0.1]}}
    known = Facts(contexts=column, arms=["a", "b"], effect=(0.2, 0.3), smoothness=(0.5, 0.6), segments=bent)
    world = known.world(seed, 20_000)
    own = np.digitize(1000 * world.contexts[:, 0], [10, 30])
    np.testing.assert_allclose(np.bincount(own, minlength=3) / 20_000, [0.6, 0.3, 0.1], atol=0.015)
    within = [world.expected[own == one].std(axis=0).max() for one in range(2)]
    if seed % 4 in (0, 3):  # by ranks: nine of ten people lie below 30, and differ
        assert max(within) > 0.05


def test_what_segments_do_not_tell_differs_within_them():
    """The best arm of every segment earns some .09 above a random one here, and the effect is .13."""
    world = facts(rates=RATES, effect=(0.128, 0.132)).world(1, 20_000)
    own = of_age(world)
    told = sum((own == one).mean() * means_of(world, own)[one].max() for one in range(3))
    assert told - world.expected.mean() < 0.115
    assert min(world.expected[own == one].std(axis=0).max() for one in range(3)) > 0.01


def test_two_columns_hold_at_once_in_the_unit_of_rewards():
    region = {
        "people": [0.6, 0.3, 0.1],
        "rates": {"a": [(4.4, 4.6), (5.4, 5.6), (6.4, 6.6)], "b": [(5.4, 5.6), (4.4, 4.6), (4.4, 4.6)]},
    }
    age = {"until": [50], "people": [0.4, 0.6], "rates": {"a": [5.5, 4.5], "b": [4.6, 5.4]}}
    known = Facts(
        contexts=PEOPLE,
        arms=["a", "b"],
        effect=(0.5, 0.8),
        reward_range=(0, 10),
        rates={"a": (4.7, 5.1), "b": (4.9, 5.3)},
        segments={"age": age, "region": region},
    )
    world = known.world(2, 40_000)
    old = 18 + 72 * world.contexts[:, 2] >= 50
    by_age = world.expected[~old].mean(axis=0) - world.expected[old].mean(axis=0)
    assert by_age[0] > 0.4
    assert by_age[1] < -0.3
    by_region = [world.expected[world.contexts[:, 3] == code].mean(axis=0) for code in range(2)]
    assert by_region[1][0] - by_region[0][0] > 0.6
    assert by_region[1][1] - by_region[0][1] < -0.6


def test_rough_arms_step_at_the_edges_and_smooth_ones_do_not():
    """Where segments tell all there is, what an arm pays on both sides of an edge says which it was."""

    def step(smoothness):
        rates = {"a": [(0.2, 0.201), (0.6, 0.601)], "b": [(0.6, 0.601), (0.2, 0.201)]}
        segments = {"age": {"until": [54], "people": [0.5, 0.5], "rates": rates}}
        told = {"a": (0.39, 0.41), "b": (0.39, 0.41)}
        known = Facts(
            contexts=dpb.Schema(age=dpb.Range(18, 90)),
            arms=["a", "b"],
            effect=(0.19, 0.23),
            rates=told,
            segments=segments,
            smoothness=smoothness,
        )
        sizes = []
        for seed in range(8):
            world = known.world(seed, 20_000)
            age = 18 + 72 * world.contexts[:, 0]
            below, above = (age > 53) & (age < 54), (age >= 54) & (age < 55)
            sizes.append(world.expected[above, 0].mean() - world.expected[below, 0].mean())
        return np.median(sizes)

    assert step("rough") > 0.25
    assert step("smooth") < 0.15


def test_an_edge_is_of_the_upper_segment(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(FILE)
    own = Facts.from_toml(path)[0].believed_segments[0]
    ages = np.array([[39.99], [40.0], [40.01]])
    assert own.of((ages - 18) / 72).tolist() == [0, 1, 1]
    assert own.rates[1] == ((0.25, 0.27), pytest.approx((0.324, 0.396)))


def test_what_is_said_of_segments_is_part_of_what_a_world_is():
    known, bare = facts(), facts(segments=None)
    assert json.loads(json.dumps(known.to_config()))["segments"] != []
    assert "segments" not in bare.to_config()
    alone = facts(segments={"age": {"until": [36, 63], "people": [0.5, 0.2, 0.3]}})
    other_rates = AGE["rates"] | {"nothing": [(0.28, 0.32), (0.28, 0.32), (0.28, 0.33)]}
    others = [
        facts(segments={"age": AGE | change, "region": REGION})
        for change in ({"until": [37, 63]}, {"people": [0.5, 0.21, 0.29]}, {"rates": other_rates})
    ]
    assert len({json.dumps(one.to_config()) for one in (known, bare, alone, *others)}) == 6
    assert [len(one.rated) for one in (known, bare, alone)] == [1, 0, 0]
    np.testing.assert_array_equal(known.world(3, 60).reward_table, facts().world(3, 60).reward_table)


def without(name):
    return {key: value for key, value in AGE.items() if key != name}


@pytest.mark.parametrize(
    "segments",
    [
        ["age"],
        {"height": AGE},
        {"hour": {"until": [12], "people": [0.5, 0.5]}},
        {"age": [36, 63]},
        {"age": without("until")},
        {"age": without("people")},
        {"age": AGE | {"edges": [40]}},
        {"region": REGION | {"until": [1]}},
        {"region": {"people": [0.5, 0.5]}},
        {"region": {"people": [0.5, 0.2, 0.2]}},
        {"region": {"people": [0.9, 0.1, 0.0]}},
        {"region": {"people": [0.6, "0.3", 0.1]}},
        {"region": {"people": [0.6, float("nan"), 0.1]}},
        {"age": AGE | {"until": [63, 36]}},
        {"age": AGE | {"until": [36, 36]}},
        {"age": AGE | {"until": [18, 63]}},
        {"age": AGE | {"until": [36, 90]}},
        {"age": AGE | {"until": []}},
        {"age": AGE | {"until": 36}},
        {"age": AGE | {"until": "36"}},
        {"age": AGE | {"rates": {"mail": [0.2, 0.3, 0.4], "call": [0.4, 0.3, 0.2]}}},
        {"age": AGE | {"rates": AGE["rates"] | {"visit": [0.2, 0.3, 0.4]}}},
        {"age": AGE | {"rates": AGE["rates"] | {"nothing": [0.3, 0.3]}}},
        {"age": AGE | {"rates": AGE["rates"] | {"nothing": 0.3}}},
        {"age": AGE | {"rates": AGE["rates"] | {"nothing": [0.3, 0.3, 1.3]}}},
        {"age": AGE | {"rates": AGE["rates"] | {"nothing": [0.3, 0.3, (0.4, 0.2)]}}},
        {"age": AGE | {"rates": [[0.2, 0.3, 0.4]]}},
        {
            "age": AGE | {"rates": AGE["rates"] | {"nothing": [0.5, 0.5, 0.5]}}
        },  # all of it above the arm's rate
    ],
)
def test_segments_that_make_no_sense_are_refused_at_once(segments):
    with pytest.raises(InvalidParameter, match=r"segments"):
        facts(segments=segments)


def test_columns_that_contradict_each_other_are_refused_at_once():
    """Each allows a rate between .2 and .4, and they none together."""
    region = REGION | {"rates": {"mail": [0.38] * 3, "call": [0.34] * 3, "nothing": [0.30] * 3}}
    wide = {"mail": (0.2, 0.4), "call": (0.3, 0.38), "nothing": (0.2, 0.4)}
    with pytest.raises(InvalidParameter, match=r"segments\.region: by its segments mail pays from 0\.342"):
        facts(rates=wide, segments={"age": AGE, "region": region})


@pytest.mark.parametrize("low", [-10, 0, 100])
def test_what_contradicts_does_not_hang_on_where_rewards_begin(low):
    def at(*rates):
        return [(low + rate, low + rate + 0.1) for rate in rates]

    segments = {"age": {"until": [54], "people": [0.5, 0.5], "rates": {"a": at(4.5, 5.0), "b": at(6, 4)}}}
    how = {"contexts": PEOPLE, "arms": ["a", "b"], "effect": 0.7, "reward_range": (low, low + 10)}
    with pytest.raises(InvalidParameter, match="segments"):
        Facts(**how, rates={"a": (low + 4.0, low + 4.2), "b": (low + 4.9, low + 5.1)}, segments=segments)
    Facts(**how, rates={"a": (low + 4.7, low + 4.8), "b": (low + 4.9, low + 5.1)}, segments=segments)


def test_parts_of_the_people_are_rounded_and_arrays_are_lists():
    known = facts(segments={"region": {"people": np.array([0.5, 0.3, 0.19])}})
    np.testing.assert_allclose(known.believed_segments[0].people, np.array([50, 30, 19]) / 99)


def test_a_rated_column_matters_where_one_column_does():
    found = [facts(relevant=1, smoothness="smooth").world(seed, 20_000) for seed in range(6)]
    for world in found:
        region = world.contexts[:, 3].astype(int)
        by_region = [world.expected[region == code].mean(axis=0) for code in range(3)]
        assert np.ptp(by_region, axis=0).max() < 0.12
        means = means_of(world, of_age(world))
        assert np.ptp(means, axis=0).max() > 0.15


def test_rates_of_segments_need_those_of_everyone():
    with pytest.raises(InvalidParameter, match="rates of everyone"):
        facts(rates=None, base_rate=0.3)


def test_segments_that_earn_more_than_the_effect_are_refused_at_once():
    with pytest.raises(InvalidParameter, match="more than the effect"):
        facts(effect=(0.04, 0.05))


def test_an_arm_that_is_named_twice_is_refused(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(FILE.replace("true = [0.34", "True = [0.34"))
    with pytest.raises(InvalidParameter, match=r"segments\.age\.rates"):
        Facts.from_toml(path)
