"""Ma2025's public code as it runs: its crowds, the violation that its label names, and its published runs."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.transfer import SourceWorld
from reproduction.local_worlds import world
from reproduction.ma2025.as_code import CodeCrowds, CodeOptions, own_bin_sums
from reproduction.ma2025.methods import (
    CODE_METHODS,
    CODE_WORLD,
    MARKS,
    NOT_PRIVATE,
    Source,
    code_curves,
    world_and_sources,
)
from reproduction.ma2025.own_bin_noise import read_bins
from reproduction.ma2025.published import published_at, published_runs, runs_of

EPSILON, N_BINS, N_ARMS = 1.0, 8, 3


def report(seed, *, own_bin):
    """Bin -> what one user of that bin adds to the sums of every bin, (N_BINS, 2 N_ARMS)."""
    rng = np.random.default_rng(seed)

    def draw(bin_):
        noise = (4.0 / EPSILON) * rng.laplace(size=(1, N_ARMS, 2))
        found = own_bin_sums(np.array([bin_]), np.array([0]), np.ones(1), noise * own_bin, N_BINS)
        if not own_bin:
            found = found + (4.0 / EPSILON) * rng.laplace(size=found.shape)
        return found.reshape(N_BINS, -1)

    return draw


def test_as_the_code_runs_the_bin_of_every_user_is_read():
    found = read_bins(report(1, own_bin=True), epsilon=EPSILON, trials=2000)
    assert found.correct == found.trials
    # chance of that at the claimed epsilon: (e/(1 + e))^2000
    assert found.trials * np.log(found.bound) < -600


def test_with_noise_in_every_bin_the_same_attack_stays_below_the_claim():
    found = read_bins(report(2, own_bin=False), epsilon=EPSILON, trials=4000)
    # five standard deviations of a coin above the bound: 3e-7 by chance
    assert found.correct / found.trials < found.bound + 5.0 * 0.5 / np.sqrt(found.trials)


def test_unvisited_bins_get_exactly_nothing():
    rng = np.random.default_rng(3)
    bins = np.array([0, 0, 5])
    found = own_bin_sums(bins, np.array([0, 2, 1]), np.array([1.0, 0.0, 1.0]), rng.laplace(size=(3, 3, 2)), 8)
    visited = (found != 0.0).any(axis=(1, 2))
    assert visited.tolist() == [True, False, False, False, False, True, False, False]
    exact = own_bin_sums(bins, np.array([0, 2, 1]), np.array([1.0, 0.0, 1.0]), np.zeros((3, 3, 2)), 8)
    assert exact[0].tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    assert exact[5].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


def crowds(seeds, **options):
    one = world(CODE_WORLD)
    sources = [(SourceWorld(world=one, gamma=0.4), 1000, 8.0)]
    made = CodeCrowds(
        one, sources=sources, n_users=3000, epsilon=4.0, seeds=seeds, options=CodeOptions(**options)
    )
    return made, made.run()[0]


@pytest.mark.parametrize("own_bin", [True, False])
def test_a_crowd_does_not_depend_on_those_beside_it(own_bin):
    _, together = crowds((1, 2, 3), own_bin=own_bin)
    _, alone = crowds((2,), own_bin=own_bin)
    assert together.shape == (3, 30)
    assert np.array_equal(together[1], alone[0])
    assert not np.array_equal(together[0], together[1])


def test_bins_that_are_not_split_part_the_cube_and_keep_an_arm():
    made, _ = crowds((1, 2))
    assert made.live.any(axis=0).all()
    corners = np.stack(np.meshgrid(*[(np.arange(2**made.depth) + 0.5) / 2**made.depth] * 2), axis=-1)
    places = made.locate(np.broadcast_to(corners.reshape(1, -1, 2), (2, 4**made.depth, 2)))
    for own in places:  # every bin of the deepest level has the same share of the cube
        assert np.bincount(own, minlength=2**made.depth).tolist() == [2**made.depth] * 2**made.depth
    law = made.chances()
    assert np.allclose(law.sum(axis=0), 1.0)
    assert (law[~made.live] == 0.0).all()


def test_it_gives_its_published_runs_within_fifteen_in_a_hundred_and_honest_noise_does_not():
    """30 crowds: their mean's standard error is below .003, a seventh of what is allowed."""
    place = {"epsilon": 8.0, "n_users": 10_000}
    published = published_at("7a", **place, sources=()).regret
    at = {**place, "seeds": range(5_000_000, 5_000_030)}
    code, honest = (
        code_curves(name, CODE_WORLD, **at)[0][:, -1].mean() for name in ("ma2025-code", "ma2025-code-honest")
    )
    assert abs(code / published - 1.0) < 0.15
    assert honest > 1.5 * published


def test_what_is_not_private_is_labelled_and_nothing_else():
    assert set(NOT_PRIVATE) == {name for name, undone in CODE_METHODS.items() if undone.get("own_bin", True)}


def test_shares_at_a_point_are_of_all_users_so_far():
    regret, local, shares = code_curves(
        "ma2025-code", CODE_WORLD, seeds=(1, 2), epsilon=1.0, n_users=1000, point=(1 / 3, 1 / 3), batch=10
    )
    assert regret.shape == local.shape == (2, MARKS)
    assert np.allclose(shares.sum(axis=2), 1.0)
    assert np.allclose(shares[:, 0], 1 / 3)  # nothing is dropped before the warm start


def test_a_crowd_needs_a_batch_and_a_world():
    with pytest.raises(InvalidParameter, match="batch"):
        CodeCrowds(world(CODE_WORLD), n_users=50, epsilon=1.0, seeds=(1,))
    with pytest.raises(InvalidParameter, match="synthetic"):
        code_curves("ma2025-code", "cps-income", seeds=(1,), epsilon=1.0, n_users=500)


def test_published_runs_are_all_there_and_one_number_a_place():
    runs = published_runs()
    figures = {figure: len(runs_of(figure)) for figure in ("6", "7a", "7b", "8", "9a", "9b", "9c")}
    assert figures == {"6": 3, "7a": 40, "7b": 40, "8": 80, "9a": 60, "9b": 110, "9c": 56}
    assert sum(figures.values()) == len(runs)
    for run in runs:
        assert published_at(run.figure, run.epsilon, run.n_users, run.sources).regret == run.regret
        assert (run.standard_error is None) == (run.reps == 1)
    order = [source.epsilon for source in runs_of("9c")[1].sources]
    assert order == [8.0, 2.0]  # the better source first
    with pytest.raises(InvalidParameter, match="no published run"):
        published_at("7a", 3.0, 10_000, (Source(n_users=1, epsilon=1.0),))


def test_sources_of_the_published_world_are_drawn_as_the_public_code_draws_them():
    """At gamma its radius is U^(1/(dim (gamma + 1))), of mean 2g/(2g + 1) for dim 2 and g = gamma + 1."""
    means = {}
    for name in (CODE_WORLD, "ma-edge"):
        _, ((people, n, _),) = world_and_sources(name, (Source(n_users=40_000, epsilon=8.0, gamma=2.0),))
        contexts, _, _ = people.draw(n, np.random.default_rng(7))
        means[name] = 2.0 * np.abs(contexts - 0.5).max(axis=1).mean()
    # standard deviation of a mean below .001
    assert means[CODE_WORLD] == pytest.approx(6 / 7, abs=0.005)
    assert means["ma-edge"] == pytest.approx(4 / 5, abs=0.005)
