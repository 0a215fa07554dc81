"""The crude histogram: its grid, what a round moves, and its promise."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import CellHistogram, CrudeTuning
from dpbandits.lab.baselines.cell_histogram import PublicGrid
from internals import policy as internals


def policy(**changes):
    arguments = {
        "contexts": dpb.Schema(age=dpb.Range(0, 1), region=dpb.Categories(["a", "b"])),
        "arms": ["mail", "call"],
        "horizon": 3000,
        "privacy": dpb.JointDP(epsilon=10.0),
    }
    return CellHistogram(**(arguments | changes))


def test_columns_are_cut_in_turn_and_every_arm_has_its_own_cells():
    contexts = (dpb.Box(low=[0, -1], high=[1, 3]), dpb.Arms(3))
    domain = dpb.domains.Product(*contexts, dpb.Arms(5))
    assert PublicGrid(domain=domain, most=1).shape == (1, 1, 1, 5)
    assert PublicGrid(domain=domain, most=40).shape == (2, 2, 2, 5)
    assert PublicGrid(domain=domain, most=10_000).shape == (8, 8, 3, 5)
    grid = PublicGrid(domain=domain, most=60)
    assert (grid.shape, grid.n_cells) == ((2, 2, 3, 5), 60)
    points = np.array([[0, -1, 0, 0], [0.49, 0.9, 0, 4], [0.5, 1.0, 2, 1], [1, 3, 1, 3]], dtype=float)
    assert grid.locate(points).tolist() == [0, 4, 56, 53]
    assert grid.locate(points[None, :2]).tolist() == [[0, 4]]


def test_every_code_has_a_cell_of_its_own_where_there_are_as_many():
    for size in range(1, 200):  # codes divided by their number and multiplied again must not round down
        grid = PublicGrid(domain=dpb.Arms(size), most=1)
        assert grid.locate(np.arange(float(size))[:, None]).tolist() == list(range(size))


def test_a_grid_is_of_boxes_and_arms_only():
    with pytest.raises(InvalidParameter, match="boxes and arms"):
        PublicGrid(domain=dpb.domains.Ball(centre=[0, 0], radius=1.0), most=8)
    with pytest.raises(InvalidParameter, match="most_cells"):
        policy(most_cells=1 << 23)


def test_the_number_of_cells_is_by_public_numbers():
    sizes = [policy(privacy=dpb.JointDP(epsilon=epsilon)).grid.n_cells for epsilon in (0.1, 0.3, 1.0, 3.0)]
    assert sizes == [8, 32, 32, 32]
    assert policy(privacy=dpb.JointDP(epsilon=1.0, rounds_per_user=10)).grid.n_cells == 8


def released(own, *, rounds_per_user=2):
    """What is released where the user of rounds 1 and 5 brings `own`, pairs of a point and a reward."""
    chooser = CellHistogram(
        domain=dpb.Box(low=[0], high=[1]),
        horizon=12,
        tuning=CrudeTuning(blocks=(4, 8)),
        most_cells=4,
        privacy=dpb.JointDP(epsilon=1.0, rounds_per_user=rounds_per_user),
        noise=dpb.SimulatedNoise(5),
    )
    mine = dict(zip((1, 5), own, strict=True))
    for t in range(9):
        point, reward = mine.get(t, (t / 12, 0.3))
        decision = chooser.ask([[point]], "me" if t in mine else f"user-{t}")
        if reward is not None:
            chooser.tell(decision.id, reward)
    shape, content = internals.raw_arrays(chooser)["released"]
    return chooser, np.frombuffer(content, dtype=np.int64).reshape(shape)


def test_a_user_moves_all_releases_by_no_more_than_noise_is_scaled_to():
    """The noise is the same in both runs, so what differs is what the user moved."""
    chooser, worst = released([(0.1, 1.0), (0.1, 1.0)])
    record = chooser.guarantee.mechanisms[0]
    assert record.sensitivity == 2 * 2**21
    assert record.scale >= record.sensitivity  # epsilon is 1
    rng = np.random.default_rng(0)
    others = [[(x, y), (z, w)] for x, y, z, w in rng.random((20, 4))]
    for other in [[(0.1, 0.0), (0.9, 1.0)], [(0.1, None), (0.9, None)], *others]:
        moved = np.abs(released(other)[1] - worst).sum()
        assert 0 < moved <= record.sensitivity
    assert np.abs(released([(0.1, 0.0), (0.9, 1.0)])[1] - worst).sum() == record.sensitivity


def test_it_promises_pure_epsilon_and_says_so():
    guarantee = policy(privacy=dpb.JointDP(epsilon=10.0, delta=1e-6), noise=dpb.SimulatedNoise(1)).guarantee
    assert (guarantee.definition.epsilon, guarantee.definition.delta) == (10.0, 0.0)
    assert guarantee.status == "simulated"
    assert guarantee.mechanisms[0].law == "discrete Laplace"
    assert guarantee.mechanisms[0].name.startswith("successes and failures in public cells")
