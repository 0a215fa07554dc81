"""Constants of many columns are really moved, on seeds and tables that no page shows as results."""

from importlib import import_module

import numpy as np
import pytest

from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from reproduction.tuning import local_columns
from reproduction.tuning.local_columns import (
    FIRST_SEED,
    IDLE,
    LEAD,
    LEADS,
    LEVEL,
    MADE,
    MADE_SEEDS,
    NEIGHBOURS,
    PLACES,
    SECOND_SEED,
    Runs,
    made,
    people,
)

PAIRS = "dpbandits.local.learners.columns._ALONE"


def present(place):
    """The constant's value now."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


def test_every_neighbour_differs_from_what_is_there_in_one_constant():
    for constants in [*list(NEIGHBOURS.values())[1:], *LEADS.values()]:
        ((place, value),) = constants.items()
        assert present(place) != value
    assert FIRST_SEED < SECOND_SEED < MADE_SEEDS.start < FIRST_REPORT_SEED / 2


@pytest.mark.slow
def test_idle_columns_stand_beside_those_of_the_table_and_tell_nothing():
    plain, idle = (people(name)[1] for name in ("diamonds", "diamonds-idle"))
    assert idle.dim == plain.dim + IDLE
    np.testing.assert_array_equal(idle.columns[:, : plain.dim], plain.columns)
    told = np.corrcoef(idle.columns[:, plain.dim :], idle.rewards, rowvar=False)[:IDLE, IDLE:]
    assert np.abs(told).max() < 6 / np.sqrt(len(idle.columns))  # 80 of them: below 2e-7


@pytest.mark.parametrize("place", MADE)
def test_made_up_people_have_columns_that_tell_nothing_or_an_arm_that_leads(place):
    schema, world = made(place, 2000, 3)
    family, more = place.split(" ")[0].split("+")
    assert schema.dim == world.dim == int(family.split("-")[1]) + int(more)
    told = np.corrcoef(world.columns[:, -int(more) :], world.rewards, rowvar=False)[: int(more), int(more) :]
    assert np.abs(told).max() < 6 / np.sqrt(2000)  # at most 75 of them: below 2e-7
    means = world.rewards.mean(axis=0)
    if " " in place:
        assert means.argmax() == 0
        assert np.abs(means - LEVEL - LEAD * (np.arange(len(means)) == 0)).max() < LEAD
        by_cell = world.rewards.max(axis=1).mean() - means[0]
        assert (by_cell > 0.02) == place.endswith("both")


def test_a_constant_is_moved_while_its_crowds_run_and_what_ran_is_kept(tmp_path, monkeypatch):
    asked = []

    def reward_of(place, *, epsilon, seed, column=None, users=None):
        asked.append((present(PAIRS), place, epsilon, seed, column))
        return seed / 8 + (column or 0)

    monkeypatch.setattr(local_columns, "reward_of", reward_of)
    path, before = tmp_path / "runs.jsonl", present(PAIRS)
    for _ in range(2):
        runs = Runs(path)
        assert runs.rewards("together from 3,000 reports", PLACES[0], 2.0, range(3, 5)).tolist() == [
            0.375,
            0.5,
        ]
        assert runs.rewards("column 2", PLACES[0], 2.0, range(3, 4)).tolist() == [2.375]
    assert asked == [
        (NEIGHBOURS["together from 3,000 reports"][PAIRS], PLACES[0], 2.0, 3, None),
        (NEIGHBOURS["together from 3,000 reports"][PAIRS], PLACES[0], 2.0, 4, None),
        (before, PLACES[0], 2.0, 3, 2),
    ]
    assert present(PAIRS) == before


@pytest.mark.slow
def test_a_neighbour_learns_in_another_way():
    rewards = [local_columns.reward_of("diamonds", epsilon=4.0, seed=seed) for seed in (1, 2)]
    assert len(set(rewards)) == 2
    assert min(rewards) > people("diamonds")[1].rewards.mean(axis=0).max()
