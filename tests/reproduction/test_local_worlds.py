"""Worlds of the local studies: formulas, ranges, and tuning worlds kept apart."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds import contextual
from dpbandits.lab.worlds.contextual import REPORT_WORLDS
from reproduction.local_worlds import TUNING_WORLDS, WORLDS, world


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in contextual.WORLDS])
def test_worlds_draw_contexts_in_the_cube_and_means_in_the_range(name):
    one = world(name)
    contexts, means = one.draw(2000, np.random.default_rng(0))
    assert contexts.shape == (2000, one.dim)
    assert means.shape == (2000, one.n_arms)
    assert ((contexts >= 0) & (contexts <= 1)).all()
    assert ((means >= 0) & (means <= 1)).all()


def test_the_edge_world_peaks_at_the_edge():
    edge = world("ma-edge").mean_rewards(np.array([[1.0, 0.0]]))[0]
    assert np.isclose(edge[2], 1.0)


def test_symmetric_world_alternates():
    points = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])
    assert world("ma-symmetric").mean_rewards(points).argmax(axis=1).tolist() == [1, 0, 0, 1]


def test_tuning_worlds_are_none_of_the_report_worlds():
    assert not set(TUNING_WORLDS) & set(REPORT_WORLDS)
    points = np.random.default_rng(2).random((100, 3))
    for tuning in map(world, TUNING_WORLDS):
        for report in map(world, REPORT_WORLDS):
            if (tuning.dim, tuning.n_arms) == (report.dim, report.n_arms):
                x = points[:, : tuning.dim]
                assert not np.allclose(tuning.mean_rewards(x), report.mean_rewards(x), atol=0.02)


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidParameter):
        world("atlantis")
