"""Examples that draw nothing are shown in the gallery and run here; the gallery runs those that draw."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SAY = {
    "gymnasium_world": ["GPBandit 0.", "FeatureGPUCB 0."],
    "mabwiser_loop": ["last ten: 0."],
    "open_bandit": ["published: 0.", "uniform: 0.2"],
    "optuna_study": ["400 people; 2.0"],
    "replicas": ["call mail", "Joint differential privacy, epsilon = "],
    "shop": ["[True, True, True]", "\ncounted", "\nqueued", "{'offer': 'nothing', 'visit': None}"],
    "scikit_learn_log": ["['mail' 'call']", "has made its one release"],
    "web_handler": [
        "200 OK True",
        "404 Not Found",
        "'receipt': 'counted'",
        "('400 Bad Request', {'error': 'InvalidData'})",
    ],
}
"""What each prints at least."""

ELSEWHERE = {"one_script"}  # tests/test_every_room.py

NEEDS = {"gymnasium_world": "gymnasium", "optuna_study": "optuna"}
MOST_LINES = 30


def test_every_example_that_draws_nothing_is_run():
    there = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("plot_")}
    assert there == {*SAY, *ELSEWHERE}


@pytest.mark.parametrize("name", SAY)
def test_it_runs_and_says_what_it_should(name, capsys, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.chdir(FOLDER)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for line in SAY[name]:
        assert line in printed


@pytest.mark.parametrize("name", SAY)
def test_it_is_short(name):
    """Lines of code before the first cell mark, docstring, imports and blank lines aside."""
    text = (FOLDER / f"{name}.py").read_text().split("# %%")[0]
    tree = ast.parse(text)
    code = [node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]
    lines = {line for node in code for line in range(node.lineno, node.end_lineno + 1)}
    written = [line for line in lines if text.splitlines()[line - 1].strip()]
    assert len(written) <= MOST_LINES
