from dpbandits.lab.study import Choice, run_cells
from reproduction.pavlovic2025.items import STUDY, PhaseCell, losses
from reproduction.pavlovic2025.rkhs import rkhs_setting


def test_regret_a_round_falls_with_the_horizon():
    world = rkhs_setting("SE .5 in 1+1").world(3)
    short, long = (losses(world, horizon=t, epsilon=2.0) for t in (2000, 20_000))
    assert (long >= 0.0).all()
    assert long.mean() < short.mean()
    assert long[-2000:].mean() < 0.3 * world.random_loss


def test_table_has_a_line_a_cell():
    cells = STUDY.cells("phases", Choice(worlds=["SE .5 in 1+1"], rounds=[600], epsilons=[1.0, 5.0]))
    assert cells == tuple(PhaseCell(setting="SE .5 in 1+1", rounds=600, epsilon=e) for e in (1.0, 5.0))
    rows = [row for run in run_cells(cells, seeds=[1, 2]) for row in run.rows]
    assert [row["epsilon"] for row in rows] == [1.0, 5.0]
    shown = STUDY.item("phases")
    assert all(len(shown.text_of(row)) == len(shown.columns) for row in rows)
