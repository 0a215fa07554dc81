"""The wheel holds the library alone: its commands run from a copy of `src/dpbandits`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A folder with what the wheel packs, and nothing else of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/dpbandits"]}
    shutil.copytree(ROOT / "src" / "dpbandits", folder / "dpbandits")
    return folder


def ran(wheel, *words):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=wheel,
        env=os.environ | {"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_copy_is_what_runs_and_has_no_reproduction(wheel):
    said = ran(
        wheel,
        "-c",
        "import dpbandits, importlib.util as u; print(dpbandits.__file__, u.find_spec('reproduction'))",
    )
    assert said.split() == [str(wheel / "dpbandits" / "__init__.py"), "None"]


def test_run_works(wheel):
    small = ("--horizon", "200", "--reps", "1", "--attack-trials", "20", "--jobs", "1")
    found = json.loads(
        ran(wheel, "-m", "dpbandits", "run", "--data", "synthetic-income", *small, "--json", "--out", "r")
    )
    assert found["horizon"] == 200
    assert (wheel / "r" / "report.html").exists()


def test_local_simulate_works(wheel):
    small = ("--world", "ma", "--users", "300", "--epsilon", "2", "--reps", "1", "--seed", "1000000")
    ran(wheel, "-m", "dpbandits", "local", "simulate", *small, "--out", "s")
    assert {path.name for path in (wheel / "s").iterdir()} == {"regret.csv", "regret.png", "bins.png"}


def test_every_command_has_its_help(wheel):
    for command in ("lab compare", "audit", "central learn", "outsourced optimise"):
        ran(wheel, "-m", "dpbandits", *command.split(), "--help")
