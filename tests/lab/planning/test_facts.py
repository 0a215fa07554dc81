"""Worlds in which the facts hold: base rate, effect and personal part, whatever the columns are."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab import Facts

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]), hour=dpb.Cycle(24)
)
FILE = """
path = "a table that is not there.csv"

[columns.age]
low = 18
high = 90

[plan]
arms = ["mail", "call"]
users = 4_000
base_rate = 0.3
effect = [0.05, 0.1]
smoothness = "rough"
"""


def facts(**changes):
    known = {"contexts": PEOPLE, "arms": ["mail", "call", "nothing"], "base_rate": 0.3, "effect": 0.1}
    return Facts(**known | changes)


def sizes(world):
    """Base rate, effect and personal part of a world."""
    means = world.expected
    best, fixed, level = means.max(axis=1).mean(), means.mean(axis=0).max(), means.mean()
    return level, best - level, (best - fixed) / (best - level)


@pytest.mark.parametrize("seed", range(6))
def test_a_world_has_what_is_believed(seed):
    level, effect, personal = sizes(facts(personal=(0.3, 0.7)).world(seed, 20_000))
    assert 0.27 - 0.02 < level < 0.33 + 0.02
    assert 0.09 * 0.85 < effect < 0.11 * 1.15
    assert 0.3 - 0.12 < personal < 0.7 + 0.12


PINNED = [[0.28826, 0.083228, 0.389399], [0.317683, 0.274443, 0.245951], [0.269381, 0.324519, 0.439912]]
"""What the first person of three worlds is paid, before rates could be said."""
RATES = {"mail": (0.24, 0.26), "call": (0.33, 0.35), "nothing": 0.3}


@pytest.mark.parametrize("seed", range(6))
def test_arms_pay_what_is_believed_of_each(seed):
    known = facts(rates=RATES, base_rate=None)
    world = known.world(seed, 20_000)
    _, effect, personal = sizes(world)
    mail, call, nothing = world.expected.mean(axis=0)
    assert 0.24 - 0.02 < mail < 0.26 + 0.02
    assert 0.33 - 0.02 < call < 0.35 + 0.02
    assert 0.27 - 0.02 < nothing < 0.33 + 0.02
    assert 0.09 * 0.85 < effect < 0.11 * 1.15
    assert 1.0 - (0.35 - 0.29) / 0.09 - 0.1 < personal < 1.0 - (0.33 - 0.3) / 0.11 + 0.1


def test_what_is_said_beside_rates_holds_too():
    known = facts(rates=RATES, base_rate=(0.29, 0.30), personal=(0.6, 0.62))
    found = np.array([sizes(known.world(seed, 20_000)) for seed in range(6)])
    assert 0.29 - 0.02 < found[:, 0].min() < found[:, 0].max() < 0.30 + 0.02
    assert 0.5 < found[:, 2].min() < found[:, 2].max() < 0.72


def test_rates_are_in_the_unit_of_rewards():
    known = facts(
        reward_range=(-10, 30),
        base_rate=None,
        effect=4,
        rates={"mail": (3.8, 4.2), "call": (5.8, 6.2), "nothing": (4.8, 5.2)},
    )
    found = known.world(1, 20_000).expected.mean(axis=0)
    assert np.abs(found - [4, 6, 5]).max() < 0.8


def test_worlds_without_rates_are_drawn_as_before_there_were_any():
    """Records of plans that were made before stay what they are."""
    found = [facts().world(seed, 3).expected[0].round(6).tolist() for seed in range(3)]
    assert found == PINNED
    world = facts(personal=(0.4, 1.0)).world(5, 3)
    assert np.array_equal(world.expected, facts().world(5, 3).expected)
    assert "rates" not in facts().to_config()
    assert facts(rates=RATES).to_config() != facts().to_config()


def test_rates_without_an_effect_are_those_of_the_flat_world():
    known = facts(rates=dict.fromkeys(("mail", "call", "nothing"), (0.2, 0.4)), base_rate=None, effect=0)
    assert known.nothing_to_learn
    assert np.ptp(known.world(0, 50).expected) == 0.0


def test_rates_that_are_exact_agree_with_what_is_said_of_their_mean():
    exact = {"mail": (0.1, 0.1), "call": (0.2, 0.2), "nothing": (0.3, 0.3)}
    assert facts(rates=exact, base_rate=(0.2, 0.2), effect=0.2).world(0, 50).horizon == 50


def test_an_arm_may_pay_next_to_nothing():
    known = facts(
        rates={"mail": (0.06, 0.08), "call": (0.05, 0.07), "nothing": 0.002}, base_rate=None, effect=0.06
    )
    assert known.world(0, 20_000).expected[:, 2].mean() < 0.01


def test_labels_that_are_no_texts_are_as_toml_writes_them(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(
        FILE.replace('["mail", "call"]', "[true, false]") + "[plan.rates]\ntrue = 0.28\nfalse = 0.32\n"
    )
    assert Facts.from_toml(path)[0].believed_rates[1].high == pytest.approx(0.352)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": [0.2, 0.3, 0.3]},
        {"rates": {"mail": 0.2, "call": 0.3}},
        {"rates": {**RATES, "visit": 0.3}},
        {"rates": {**RATES, "call": 1.2}},
        {"rates": {**RATES, "call": (0.6, 0.7)}},  # it alone pays more above the mean than the effect
        {"rates": RATES, "base_rate": 0.5},
        {"rates": RATES, "personal": (0.9, 1.0)},
        {"rates": RATES, "effect": 0},
        {"rates": {"mail": 0.3, 2: 0.3}, "arms": ["mail", "call"], "base_rate": None},
    ],
)
def test_rates_that_contradict_are_refused_at_once(wrong):
    with pytest.raises(InvalidParameter, match="rates"):
        facts(**wrong)


def test_rewards_have_their_means_and_the_range_that_was_said():
    for changes in ({}, {"scatter": 2.0}):
        known = {"reward_range": (-10, 30), "base_rate": 5.0, "effect": 4.0}
        world = facts(**known | changes).world(1, 20_000)
        assert (world.reward_range.low, world.reward_range.high) == (-10.0, 30.0)
        # deviation of a mean of 20,000 is at most 20/sqrt(20,000) = .14: a false alarm in 1e9 at most
        assert np.abs(world.reward_table.mean(axis=0) - world.expected.mean(axis=0)).max() < 0.9
        assert sizes(world)[1] == pytest.approx(4.0, rel=0.25)


def test_the_same_seed_is_the_same_law_whatever_the_crowd():
    known = facts()
    few, many, others = known.world(3, 500), known.world(3, 20_000), known.world(3, 20_000, crowd=1)
    assert np.abs(many.expected.mean(axis=0) - others.expected.mean(axis=0)).max() < 0.02
    assert not np.array_equal(many.contexts, others.contexts)
    assert np.abs(few.expected.mean(axis=0) - many.expected.mean(axis=0)).max() < 0.06
    assert np.abs(many.expected.mean(axis=0) - known.world(4, 20_000).expected.mean(axis=0)).max() > 0.02


def test_without_an_effect_all_arms_pay_alike():
    known = facts(effect=0)
    assert known.nothing_to_learn
    assert np.ptp(known.world(0, 100).expected) == 0.0


def test_only_relevant_columns_move_rewards():
    known = facts(relevant=1, personal=(0.6, 0.9))
    for seed in range(3):
        world = known.world(seed, 4_000)
        parts = [world.contexts[:, :1], world.contexts[:, 1:2], world.contexts[:, 2:]]
        told = []
        for part in parts:
            cells = np.unique((part * 40).astype(int), axis=0, return_inverse=True)[1].ravel()
            total = np.bincount(cells, world.expected[:, 0]) / np.bincount(cells)
            told.append(
                1.0 - ((world.expected[:, 0] - total[cells]) ** 2).mean() / world.expected[:, 0].var()
            )
        assert max(told) > 0.95
        assert sorted(told)[1] < 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"effect": "big"},
        {"effect": True},
        {"effect": [0.2, 0.1]},
        {"effect": float("nan")},
        {"effect": -0.1},
        {"base_rate": 0.0},
        {"personal": 1.5},
        {"smoothness": "bumpy"},
        {"relevant": 4},
        {"arms": ["mail"]},
        {"contexts": None},
    ],
)
def test_what_no_world_has_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        facts(**wrong)


def test_an_effect_that_does_not_fit_the_base_rate_is_refused_when_worlds_are_made():
    with pytest.raises(InvalidParameter, match="effect"):
        facts(base_rate=0.05, effect=0.6, personal=1.0).world(0, 100)


def test_a_file_of_facts_opens_no_table(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(FILE)
    found, rest = Facts.from_toml(path)
    assert (found.arms, rest) == (("mail", "call"), {"users": 4000})
    assert found.beliefs["effect"] == (0.05, 0.1)
    assert Facts.from_toml(path, arms=["a", "b", "c"])[0].arms == ("a", "b", "c")
    path.write_text(FILE + "[plan.rates]\nmail = [0.25, 0.3]\ncall = 0.3\n")
    assert Facts.from_toml(path)[0].believed_rates[0] == (0.25, 0.3)


@pytest.mark.parametrize(
    ("old", "new"),
    [("effect =", "efect ="), ("[plan]", "[plans]"), ("effect = [0.05, 0.1]", ""), ("[columns.age]", "[c]")],
)
def test_a_misspelt_file_is_refused(tmp_path, old, new):
    path = tmp_path / "people.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidParameter):
        Facts.from_toml(path)


def test_few_worlds_show_all_that_is_believed_of_the_personal_part():
    """Of four worlds after each other, from a multiple of four on, each lies in a quarter of its own."""
    known = facts(personal=(0.2, 0.8))
    found = np.array([sizes(known.world(seed, 4_000))[2] for seed in range(16)]).reshape(4, 4)
    second, third, first, fourth = found.mean(axis=0)
    assert 0.15 < first < second < third < fourth < 0.85
    assert fourth - first > 0.3


def test_how_worlds_are_drawn_is_part_of_what_a_cache_knows_them_by():
    assert facts().to_config()["drawn"] == 3


def test_people_crowd_at_ends_of_their_columns_and_columns_go_together():
    """What bounds of sums, counts and times are like; evenly spread people are the easiest to learn from."""
    known = facts(contexts=dpb.Schema(**{name: dpb.Range(0, 1) for name in "abcd"}))
    crowds = [known.world(seed, 2_000).contexts for seed in range(12)]
    means = np.array([crowd.mean(axis=0) for crowd in crowds]).ravel()
    assert 0.15 < (means < 0.25).mean() < 0.6
    assert (means > 0.75).any()
    together = [np.abs(np.corrcoef(crowd.T)[np.triu_indices(4, 1)]).mean() for crowd in crowds]
    assert 0.05 < np.mean(together) < 0.4


def test_rewards_of_an_unknown_scatter_are_ends_of_a_unit_range_and_else_amounts():
    ends = facts().world(0, 1_000).reward_table
    assert set(np.unique(ends)) == {0.0, 1.0}
    amounts = [facts(reward_range=(0, 400), base_rate=40, effect=20).world(seed, 4_000) for seed in range(4)]
    for world in amounts:
        assert 0.3 < ((world.reward_table > 0.0) & (world.reward_table < 400.0)).mean()
        most = np.sqrt((world.expected * (400.0 - world.expected)).mean())
        assert 0.25 < np.sqrt(((world.reward_table - world.expected) ** 2).mean()) / most < 1.05
