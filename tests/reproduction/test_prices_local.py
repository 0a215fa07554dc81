"""Prices on devices: the study's named values are those of the worlds, and its results are complete."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpbandits.lab.worlds.prices import PRICE_WORLDS
from reproduction.studies.prices_local import (
    EPSILONS,
    FIRST_SEED,
    POLICIES,
    REVENUE,
    SEEDS,
    VALUES,
    WORLDS,
    Crowd,
)

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "prices-local.json"


@pytest.mark.parametrize("name", WORLDS)
def test_named_values_are_those_of_the_world(name):
    world = PRICE_WORLDS[name]
    means = np.random.default_rng(0).random((5, len(world.numbers)))
    own = VALUES.get(name, REVENUE)(number=np.array(world.numbers), mean=means)
    np.testing.assert_allclose(own, world.values(means))


@pytest.mark.parametrize("name", WORLDS)
def test_arms_are_paid_the_value_scaled_to_its_range(name):
    world, codes = PRICE_WORLDS[name], [2, 10, 17]
    people, paid = Crowd(world, 3, codes).draw(50, np.random.default_rng(0))
    _, outcomes = Crowd(world, 3, []).draw(50, np.random.default_rng(0))
    low, high = Crowd(world, 3, codes).ends
    assert people.min() >= 0.0
    assert people.max() <= 1.0
    np.testing.assert_allclose(low + (high - low) * paid, world.values(outcomes)[:, codes])


def test_the_committed_rows_are_those_of_the_command():
    rows = json.loads(RESULTS.read_text())["rows"]
    assert [(row["world"], row["epsilon"]) for row in rows] == [(w, e) for w in WORLDS for e in EPSILONS]
    for row in rows:
        assert row["seeds"] == [FIRST_SEED + number for number in range(SEEDS)]
        assert set(row["policies"]) == set(POLICIES)
