"""`reproduction/studies/plan.py`: what it calls covered and reached, and that a run that was broken off goes
on."""

import json
import sys

import pytest

from reproduction.studies import plan as script

WORLD = """
import numpy as np


def draw(n, rng):
    x = rng.random(n)
    means = np.stack([0.2 + 0.6 * (x > 0.5), 0.8 - 0.6 * (x > 0.5)], axis=1)
    return {"x": x}, means, (rng.random((n, 1)) < means).astype(float)
"""

FACTS = """
[columns.x]
low = 0
high = 1

[plan]
arms = ["a", "b"]
users = 100
base_rate = 0.5
effect = 0.3
personal = [0.8, 1.0]
"""


def share(low, high, true):
    covered = low <= true <= high
    return {"share": (low + high) / 2, "low": low, "high": high, "true": true, "covered": covered}


def test_the_summary_counts_what_is_asked_for():
    shares = [share(0.2, 0.4, 0.3), share(0.5, 0.6, 0.3), share(0.8, 1.0, 0.9), share(0.7, 1.0, 1.05)]
    answers = [
        {"world": "a", "recommended": 2.0, "smallest": 1.5, "reached": 0.95},
        {"world": "a", "recommended": 9.0, "smallest": 3.0, "reached": 0.97},
        {"world": "b", "recommended": 1.0, "smallest": None, "reached": 0.85},
        {"world": "b", "recommended": None, "smallest": 7.0},
    ]
    found = script.summary(shares, answers)
    assert found["covered"] == 0.5
    assert found["median_width"] == pytest.approx(0.2)
    assert found["reached"] == pytest.approx(2 / 3)
    assert found["within_twice"] == 0.5
    assert found["most_times_smallest"] == 3.0
    assert (found["reachable_but_not_said"], found["rightly_not_reachable"]) == (1, 0)
    assert found["worlds"] == 2


def test_the_smallest_epsilon_lies_where_the_rising_curve_crosses_the_target():
    assert script.smallest_epsilon([(1.0, 0.8), (4.0, 1.0)]) == pytest.approx(2.0)
    assert script.smallest_epsilon([(1.0, 0.95), (4.0, 1.0)]) == 1.0
    assert script.smallest_epsilon([(1.0, 0.5), (4.0, 0.85)]) is None


def test_halves_of_a_run_make_the_whole(tmp_path, monkeypatch, capsys):
    (tmp_path / "one.toml").write_text(FACTS)
    (tmp_path / "one.py").write_text(WORLD)
    (tmp_path / "wrong.toml").write_text("[columns.x]\nlow = 0\nhigh = 1\n")
    (tmp_path / "wrong.py").write_text(WORLD)
    (tmp_path / "zero.toml").write_text(FACTS)
    (tmp_path / "zero.py").write_text("def draw(n, rng):\n    return {}['x']\n")
    out = tmp_path / "found.json"

    def go(*more):
        few = ("--reps", "2", "--worlds", "2", "--first-seed", "1", "--out", str(out))
        monkeypatch.setattr(sys, "argv", ["plan.py", str(tmp_path), *few, *more])
        script.main()

    go("--part", "1/2")
    assert not out.exists()
    go("--part", "2/2")
    held = out.with_suffix(".jsonl").read_text()
    go()
    assert out.with_suffix(".jsonl").read_text() == held  # nothing was run twice
    found = json.loads(out.read_text())
    assert {row["world"] for row in found["shares"]} == {"one"}
    places = [(row["world"], row["trust"], row["epsilon"], row["people"]) for row in found["shares"]]
    assert len(set(places)) == len(places)
    assert [one["world"] for one in found["failed"]] == ["wrong", "zero"]
    assert "wrong: " in capsys.readouterr().out
