"""Worlds of prices, and the study on them."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.worlds import PRICE_WORLDS
from reproduction.studies import prices, prices_logs
from reproduction.tuning import prices as tuning
from reproduction.tuning.price_worlds import FAMILIES, WIDE, made

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


@pytest.mark.parametrize("world", PRICE_WORLDS.values(), ids=PRICE_WORLDS)
def test_a_world_has_chances_and_the_value_that_its_actions_have(world):
    people = world.people(3, 200)
    means = world.means(people)
    assert means.shape == (200, len(world.numbers))
    assert means.min() >= 0.0
    assert means.max() <= 1.0
    assert world.actions.labels == world.numbers
    np.testing.assert_allclose(world.actions.valued(means), world.values(means))
    if world.shape is not None:
        assert (np.diff(means, axis=1) * {"increasing": 1, "decreasing": -1}[world.shape] >= -1e-12).all()
    np.testing.assert_array_equal(world.people(3, 200), people)


@pytest.mark.parametrize("name", ["actions", "for all", "arms-5"])
def test_a_run_earns_between_nothing_and_the_best(name):
    found = prices.run(PRICE_WORLDS["price-1"], name, people=300, epsilon=1.0, seed=1)
    assert found.share < 1.0
    assert 0.0 < found.lost < 1.0


def test_reported_seeds_are_not_those_of_tuning():
    rows = json.loads((RESULTS / "prices.json").read_text())["rows"]
    assert min(seed for row in rows for seed in row["seeds"]) >= FIRST_REPORT_SEED
    assert max(first + count for first, count in tuning.STAGES.values()) < FIRST_REPORT_SEED
    main = [row for row in rows if row["setting"] == "main"]
    assert [row["world"] for row in main] == list(PRICE_WORLDS)
    assert all(len(row["seeds"]) == 20 for row in main)
    assert {row["setting"] for row in rows} == set(prices.SETTINGS)
    for row in rows:
        assert row["world"] in prices.worlds_in(row["setting"])
        assert len(row["seeds"]) == prices.SETTINGS[row["setting"]].seeds


def test_a_peaked_log_keeps_what_was_aimed_at_on_seeds_that_were_not_tuned_on():
    rows = json.loads((RESULTS / "prices-logs.json").read_text())["rows"]
    report = {(row["world"], row["log"]): row for row in rows if row["group"] == "report"}
    assert list(report) == [(world, log) for world in prices_logs.REPORTED for log in prices_logs.LOGS]
    assert all(len(row["seeds"]) == 20 and min(row["seeds"]) >= 7_310_000 for row in report.values())
    assert report["price-1", "peaked"]["share"] >= 0.97
    bounds = [row for row in rows if row["group"] == "bounds"]
    assert len(bounds) == len(prices_logs.TUNED) * len(prices_logs.BOUNDS)
    assert max(seed for row in bounds for seed in row["seeds"]) < FIRST_REPORT_SEED


def test_a_log_is_learned_from_in_the_study():
    assert 0.5 < prices_logs.share_of(PRICE_WORLDS["price-1"], "peaked", seed=1)[0] < 1.0


def test_changed_constants_are_put_back():
    changes = tuning.VARIANTS["by context without caution"]
    before = [getattr(one.holder, one.attribute) for one in changes]
    assert min(before) > 0.0
    with tuning.changed((*changes, *changes)):
        assert [getattr(one.holder, one.attribute) for one in changes] == [0.0, 0.0]
    assert [getattr(one.holder, one.attribute) for one in changes] == before


@pytest.mark.parametrize("family", [*FAMILIES, WIDE])
def test_a_tuning_world_is_drawn_from_its_seed(family):
    """Chances, their public shape and the columns come from the seed alone, and another seed has others."""
    world, again, other = (made(f"{family}:{seed}") for seed in (5, 5, 6))
    people = world.people(3, 200)
    means = world.means(people)
    assert means.shape == (200, len(world.numbers))
    assert means.min() >= 0.0
    assert means.max() <= 1.0
    assert (means.max() - means.min() > 0.1) or family == "idle"
    np.testing.assert_allclose(world.actions.valued(means), world.values(means), atol=1e-8)
    if world.shape is not None:
        assert (np.diff(means, axis=1) * {"increasing": 1, "decreasing": -1}[world.shape] >= -1e-12).all()
    np.testing.assert_array_equal(again.means(again.people(3, 200)), means)
    assert other.numbers != world.numbers or other.columns != world.columns
    assert (len(world.columns) >= 20) == (family == WIDE)


def test_two_columns_at_most_matter_in_a_wide_world():
    """Other values of one column change chances for two of the columns at most."""
    world, rng = made(f"{WIDE}:6"), np.random.default_rng(0)
    people = world.people(3, 200)
    matter = 0
    for column in range(len(world.columns)):
        other = people.copy()
        other[:, column] = rng.permutation(other[:, column])
        matter += bool(np.abs(world.means(other) - world.means(people)).max() > 0.0)
    assert 1 <= matter <= 2
