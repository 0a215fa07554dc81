"""Constants that were taken over are really moved, on seeds that no page shows."""

from functools import cache
from importlib import import_module

import numpy as np
import pytest

from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from reproduction.tuning.question_neighbours import FIRST_SEED, NEIGHBOURS, SECOND_SEED, outcomes_with


def test_every_neighbour_differs_from_what_is_there_in_one_constant():
    for constants, modules in list(NEIGHBOURS.values())[1:]:
        assert len(constants) + len({place.rpartition(".")[2] for place in modules}) == 1
        for place, value in modules.items():
            module, _, name = place.rpartition(".")
            assert not np.array_equal(getattr(import_module(module), name), value)
    assert FIRST_SEED < SECOND_SEED < FIRST_REPORT_SEED / 2


@cache
def crowd(name):
    return outcomes_with(name, "tune-waves", epsilon=4.0, seed=7, n_users=2000)


@pytest.mark.parametrize(
    "name", ["lengths times .75", "deviations times 1.4", "first look at 250", "margin .3"]
)
def test_a_neighbour_learns_in_another_way_and_leaves_nothing_behind(name):
    before = crowd("as they are")
    assert crowd.__wrapped__(name) != before
    assert crowd.__wrapped__("as they are") == before
