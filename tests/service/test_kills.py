"""Killed under load, a service has everything that it acknowledged; see `kills.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).with_name("kills.py")


def run_and_found(script: Path, count: int, seed: int, folder: Path, *kind: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, str(script), str(count), str(seed), str(folder), *kind],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def found_after(kills: int, seed: int, folder: Path, *kind: str) -> dict[str, int]:
    return run_and_found(KILLS, kills, seed, folder, *kind)


@pytest.mark.parametrize("kind", ["arms", "actions"])
def test_a_few_kills(tmp_path: Path, kind: str) -> None:
    found = found_after(7, 1, tmp_path, kind)
    assert found["answers"] > 20
    assert found["policies"] >= 2


def test_the_page_says_what_was_found() -> None:
    docs = Path(__file__).parents[2] / "docs"
    found = json.loads((docs.parent / "reproduction" / "results" / "service-faults.json").read_text())
    page = " ".join((docs / "evidence" / "service.md").read_text().split())
    kills, schema = found["kills"], found["schema"]
    assert f"In {kills['kills']} kills" in page
    assert f"{kills['answers']:,} decisions and {kills['rewards']:,} rewards were acknowledged" in page
    assert f"each of {kills['policies']} policies" in page
    assert f"Of {schema['cases']:,} requests" in page
    assert schema["failed"] == 0
    assert f"kills.py {kills['kills']} {kills['seed']} " in page
    assert f"schema.py {schema['examples']} {schema['seed']} " in page


@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path) -> None:
    found = found_after(200, 2, tmp_path)
    assert found["answers"] > 2000
    assert found["releases"] > 20
