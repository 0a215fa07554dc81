import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.study import run_cells
from reproduction.pavlovic2025.errors import (
    HINDSIGHT,
    METHODS,
    ContinuumCell,
    ErrorCell,
    features_of,
    slopes,
)
from reproduction.pavlovic2025.items import STUDY, LemmaCell
from reproduction.pavlovic2025.rkhs import SETTINGS, rkhs_setting

ROOT = Path(__file__).resolve().parents[2]
NAME = "SE .5 in 1+1"


def test_errors_fall_with_rounds_and_epsilon_and_stand_in_the_right_order():
    cells = [
        ErrorCell(setting=NAME, rounds=rounds, epsilons=(0.5, 5.0), hindsight=True)
        for rounds in (1000, 10_000)
    ]
    rows = [row for run in run_cells(cells, seeds=range(4)) for row in run.rows]
    error = {(r["method"], r["rounds"], r["epsilon"]): r["error"] for r in rows}
    for method in METHODS[:3]:
        assert error[method, 10_000, 0.5] < error[method, 1000, 0.5]
        assert error[method, 10_000, 5.0] < error[method, 10_000, 0.5]
    assert error["USCA answer", 10_000, 0.5] < error["published calibration", 10_000, 0.5]
    best = error[HINDSIGHT, 1000, 0.5]
    assert best <= error["USCA answer", 1000, 0.5]
    assert error["non-private", 10_000, None] < error["USCA release", 10_000, 0.5]
    assert error["random", 1000, None] > 0.2
    shown = STUDY.item("errors")
    assert all(len(shown.text_of(row)) == len(shown.columns) for row in rows)
    found = slopes(rows, features_of(rkhs_setting(NAME)), "USCA answer")
    assert found["T"] < 0.0
    assert found["gamma/(T epsilon)"] > 0.3


def test_the_approximating_set_stands_in_better_with_more_rounds():
    cells = [LemmaCell(setting=NAME, rounds=rounds) for rounds in (30, 120)]
    first, last = (run.rows[0] for run in run_cells(cells, seeds=range(3)))
    assert last["gap"] < 2.0
    assert last["spectral Z"] < last["spectral data"]
    assert last["Z"] > 4 * first["Z"]


def test_a_wider_clip_costs_and_finer_cells_settle():
    cells = [
        ContinuumCell(setting=f"SE .2 in 1+1, {count} actions", rounds=2000, epsilon=1.0)
        for count in (6, 48, 96)
    ]
    coarse, fine, finer = (run.rows[0] for run in run_cells(cells, seeds=range(4)))
    assert fine["clip"] == pytest.approx(1.0 + 0.1 * np.log(2000 / 0.05))
    for row in (coarse, fine, finer):
        assert row["ours"] < row["answer"] < row["clipped"] < row["random"]
    # fewer cells are easier to choose among; from 48 on the answer is that of the interval
    assert abs(finer["answer"] - fine["answer"]) < 0.2 * (fine["answer"] - coarse["answer"]) + 0.01


@pytest.mark.parametrize("name", SETTINGS)
def test_worlds_are_functions_of_their_seed(name):
    setting = rkhs_setting(name)
    world = setting.world(7)
    assert np.abs(world.means).max() == pytest.approx(1.0)
    assert np.array_equal(world.means, setting.world(7).means)
    assert not np.array_equal(world.means, setting.world(8).means)
    assert np.array_equal(world.contexts(0, 50)[20:30], world.contexts(20, 30))
    actions = np.zeros(10, dtype=int)
    assert np.array_equal(world.rewards(0, 10, actions)[5:], world.rewards(5, 10, actions[5:]))
    assert world.loss(world.means.argmax(axis=0)) == 0.0
    uniform = np.full(len(world.means), 1 / len(world.means))
    mean = np.mean([world.loss_of_law(uniform, c) for c in range(world.means.shape[1])])
    assert mean == pytest.approx(world.random_loss)


def test_released_standard_deviations_are_calibrated_on_functions_like_the_prior():
    from dpbandits.central.logged.policy import ExploreThenCommit
    from dpbandits.privacy.definitions import JointDP
    from dpbandits.privacy.noise import SimulatedNoise

    setting, rounds, scores = rkhs_setting(NAME), 5000, []
    for seed in range(12):
        world = setting.world(seed)
        usca = ExploreThenCommit(
            kernel=setting.kernel,
            actions=setting.actions,
            contexts=setting.contexts,
            reward_range=setting.reward_range,
            horizon=rounds,
            privacy=JointDP(epsilon=1.0, delta=1e-6, user_ids=False),
            noise=SimulatedNoise(seed),
            seed=seed,
        )
        actions, cells = usca.explore(0, rounds), world.contexts(0, rounds)
        chosen = setting.actions.find(setting.actions.rows(actions))
        usca.learn(setting.contexts.points[cells], actions, world.rewards(0, rounds, chosen))
        policy = usca.publish()
        scores.append(np.mean(((policy.mean - world.means) / policy.sd) ** 2))
    assert 0.3 < np.sqrt(np.mean(scores)) < 2.0


def test_unknown_settings_and_tuning_seeds_are_refused():
    with pytest.raises(InvalidParameter):
        rkhs_setting("SE .1 in 9+9")


def test_runs_from_the_command_line():
    command = [sys.executable, "-m", "reproduction", "pavlovic2025"]
    command += ["errors", "--world", NAME, "--json", "--rounds", "500", "--epsilon", "1", "--reps", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {row["method"] for row in json.loads(done.stdout)} == set(METHODS)
