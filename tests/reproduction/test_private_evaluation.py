"""The study of private intervals runs, and its committed rows hold what they claim."""

import json

import numpy as np

from reproduction.studies import private_evaluation as study


def test_a_few_runs_give_every_row(monkeypatch):
    monkeypatch.setattr(study, "TRUTH", 5_000)
    monkeypatch.setattr(study, "LEARNED", 2_000)
    lines = study.runs("offers", 2_000, 2)
    assert len(lines) == 2 * len(study.PROMISES) * 3
    assert all(line["half_width"] > line["half_width_without_privacy"] > 0 for line in lines)


def test_committed_intervals_cover_and_those_without_the_noise_do_not():
    rows = json.loads(study.RESULTS.read_text())
    assert {(row["world"], row["rows"]) for row in rows} == {
        (world, count) for world in study.CHANCES for count in study.RUNS
    }
    covered = np.array([row["covered"] for row in rows])
    assert 0.94 < covered.mean() < 0.96
    assert covered.min() > 0.95 - 4 * 0.0154  # four standard errors of 200 runs
    small = [row for row in rows if row["rows"] == 2_000]
    assert np.mean([row["covered_naive"] for row in small]) < 0.85
