from dpbandits.lab.papers.pavlovic2025.phased import losses, regret_rows, regret_table
from dpbandits.lab.worlds.rkhs import rkhs_setting


def test_regret_a_round_falls_with_the_horizon():
    world = rkhs_setting("SE .5 in 1+1").world(3)
    short, long = (losses(world, horizon=t, epsilon=2.0) for t in (2000, 20_000))
    assert (long >= 0.0).all()
    assert long.mean() < short.mean()
    assert long[-2000:].mean() < 0.3 * world.random_loss


def test_table_has_a_line_a_cell():
    rows = regret_rows("SE .5 in 1+1", horizons=[600], epsilons=[1.0, 5.0], seeds=[1, 2])
    assert [row["epsilon"] for row in rows] == [1.0, 5.0]
    assert regret_table(rows).count("\n") == 3
