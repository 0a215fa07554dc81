import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidParameter
from dpbandits.policy.coins import PublicCoins
from reproduction.dubey2021.gap_world import (
    LEAST_BAD_SHARE,
    LEAST_GOOD_SHARE,
    GapCandidates,
    KernelSections,
    printed_world,
    three_hills,
)


def test_kernel_sections_are_the_formula():
    function = KernelSections(
        centres=np.array([[0.0, 0.0], [1.0, 1.0]]), weights=np.array([0.25, 0.75]), lengthscale=0.5
    )
    assert function(np.array([[0.0, 0.0]]))[0] == pytest.approx(0.25 + 0.75 * np.exp(-4.0))
    assert function(np.zeros((3, 5, 2))).shape == (3, 5)


@settings(max_examples=20)
@given(seed=st.integers(0, 2_000_000))
def test_one_candidate_is_good_and_the_others_are_bad(seed):
    world = three_hills(seed=seed, horizon=256)
    means = world.mean_rewards(0, 256)
    assert ((means >= 0.8).sum(axis=1) == 1).all()
    assert ((means <= 0.6).sum(axis=1) == 24).all()
    assert (np.linalg.norm(world.decision_sets(0, 256), axis=-1) <= 2.0 + 1e-12).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 2_000_000))
def test_the_function_is_in_the_unit_ball_of_the_kernel_space(seed):
    function = three_hills(seed=seed).mean
    assert function.weights.sum() == pytest.approx(1.0)
    assert (function.weights > 0).all()
    assert (np.linalg.norm(function.centres, axis=1) <= 2.0).all()
    square = ((function.centres[:, None] - function.centres) ** 2).sum(axis=-1)
    assert function.weights @ np.exp(-square / 2) @ function.weights <= 1.0 + 1e-12


def test_the_printed_world_has_signed_weights_in_the_l1_ball_and_reaches_its_bound():
    signs, norms, regrets = [], [], []
    for seed in range(12):
        world = printed_world(seed=seed)
        function, means = world.mean, world.mean_rewards(0, 512)
        assert function.centres.shape == (4, 2)
        assert (np.linalg.norm(function.centres, axis=1) <= 2.0).all()
        assert ((means >= 0.8).sum(axis=1) == 1).all()
        assert ((means <= 0.6).sum(axis=1) == 24).all()
        assert (means >= 0.0).all()
        signs += (function.weights < 0).tolist()
        norms.append(np.abs(function.weights).sum())
        regrets.append(2 * (means.max(axis=1) - means.mean(axis=1)).sum())
    assert 0.8 <= min(norms)
    assert max(norms) < 1.0
    assert 2 < sum(signs) < 40
    # Exact expectations of fixed worlds: a change of the law, not chance, moves them.
    assert 560 < np.mean(regrets) < 680


def test_random_choice_has_the_figures_regret():
    regrets = []
    for seed in range(40):
        means = three_hills(seed=seed).mean_rewards(0, 1024)
        regrets.append((means.max(axis=1) - means.mean(axis=1)).sum())
    # Exact expectations of fixed worlds: a change of the law, not chance, moves them.
    assert 560 < np.mean(regrets) < 650


def test_the_good_one_stands_anywhere():
    # 25 cells of 8,000 rounds, each |z| < 6: false alarm below 25 * 2e-9.
    places = three_hills(seed=1, horizon=8000).mean_rewards(0, 8000).argmax(axis=1)
    counts = np.bincount(places, minlength=25)
    assert (np.abs(counts - 320) < 6 * np.sqrt(320 * 24 / 25)).all()


def test_candidates_are_uniform_on_their_level_sets():
    # Mean of f over either level set, against a fine grid; |z| < 5.5 twice: false alarm below 1e-7.
    world = three_hills(seed=6, horizon=4000)
    axis = np.linspace(-2, 2, 801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    values = world.mean(grid[np.linalg.norm(grid, axis=1) <= 2])
    means = np.sort(world.mean_rewards(0, 4000), axis=1)
    for drawn, exact in (
        (means[:, -1], values[values >= 0.8]),
        (means[:, :-1].ravel(), values[values <= 0.6]),
    ):
        z = (drawn.mean() - exact.mean()) / (exact.std() / np.sqrt(drawn.size))
        assert abs(z) < 5.5
    assert (values >= 0.8).mean() > 0.9 * LEAST_GOOD_SHARE
    assert (values <= 0.6).mean() > 0.9 * LEAST_BAD_SHARE


def test_sizes_and_bounds_can_be_chosen():
    world = three_hills(seed=3, n_candidates=10, high=0.7, low=0.5, radius=1.5, lengthscale=0.8)
    means = np.sort(world.mean_rewards(0, 100), axis=1)
    assert means.shape == (100, 10)
    assert (means[:, -1] >= 0.7).all()
    assert (means[:, :-1] <= 0.5).all()
    assert world.domain.radius == 1.5


def test_unreachable_bounds_are_refused(monkeypatch):
    monkeypatch.setattr("reproduction.dubey2021.gap_world.MOST_FUNCTIONS", 100)
    with pytest.raises(InvalidParameter, match="fewer centres"):
        three_hills(seed=0, n_centres=4, radius=3.0, high=0.999)


def test_candidates_that_do_not_exist_are_refused():
    function = KernelSections(centres=np.zeros((1, 2)), weights=np.ones(1))
    law = GapCandidates(mean=function, radius=2.0, n_candidates=3, high=1.1, low=0.6)
    with pytest.raises(InvalidParameter, match="too small"):
        law(PublicCoins(0), 0, 4)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": -1},
        {"low": 0.8},
        {"high": 1.0},
        {"low": 0.0},
        {"n_centres": 0},
        {"n_candidates": 1},
        {"concentration": 0.0},
        {"radius": -1.0},
        {"lengthscale": float("nan")},
    ],
)
def test_bad_parameters_are_refused(changed):
    with pytest.raises(InvalidParameter):
        three_hills(**{"seed": 0, **changed})


def test_a_crowd_stands_in_one_place_and_keeps_the_gap():
    world = three_hills(seed=4, horizon=200, crowd=0.7)
    plain = three_hills(seed=4, horizon=200)
    means = world.mean_rewards(0, 200)
    assert ((means >= 0.8).sum(axis=1) == 1).all()
    assert ((means <= 0.6).sum(axis=1) == 24).all()
    sets = world.decision_sets(0, 200)
    assert world.domain.contains(sets).all()
    moved = (sets != plain.decision_sets(0, 200)).any(axis=2)
    assert 0.55 < moved.mean() < 0.75
    crowd = sets[moved]
    assert np.ptp(crowd, axis=0).max() <= 2 * 0.3
    with pytest.raises(InvalidParameter):
        three_hills(seed=4, crowd=1.0)
