"""What intervals rest on: found by a command, on worlds and seeds that no page reports."""

import json
from pathlib import Path

import pytest

from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.planning.answers import LEVEL, OF_FACTS, OF_RATES, OF_SEGMENTS, OF_TABLES, WITHIN, Apart

ROOT = Path(__file__).resolve().parents[2]
FOUND = json.loads((ROOT / "reproduction" / "results" / "plan-constants.json").read_text())
WITH_RATES = json.loads((ROOT / "reproduction" / "results" / "plan-constants-rates.json").read_text())
WITH_SEGMENTS = json.loads((ROOT / "reproduction" / "results" / "plan-constants-segments.json").read_text())
ALL = FOUND | {"rates": WITH_RATES["rates"], "segments": WITH_SEGMENTS["segments"]}
TUNING = {path.stem for path in (ROOT / "reproduction" / "tuning" / "plan_tuning").glob("*.toml")}
MADE_UP = {path.stem for path in (ROOT / "reproduction" / "tuning" / "plan_tuning").glob("*.py")}
SETS = {
    "fourth": "plan-validation-fourth",
    "fifth": "plan-validation-fifth",
    "sixth": "plan-validation",
    "seventh": "plan-validation-seventh",
}
"""Folders of `reproduction/tuning/plan_held_back`, and where their results stand."""


OWN = {"facts": OF_FACTS, "rates": OF_RATES, "segments": OF_SEGMENTS, "tables": OF_TABLES}


@pytest.mark.parametrize(("kind", "own"), OWN.items())
def test_the_constants_are_those_that_were_found(kind, own):
    assert Apart(**{name: ALL[kind][name] for name in Apart._fields}) == own


def test_the_typical_scatter_of_a_run_is_the_one_that_was_found():
    assert FOUND["within"] == pytest.approx(WITHIN)


def test_they_were_found_on_tuning_worlds_and_tuning_seeds():
    assert set(FOUND["tuned_on"]) == TUNING
    assert set(WITH_RATES["tuned_on"]) == MADE_UP
    assert set(WITH_SEGMENTS["tuned_on"]) < MADE_UP
    for settings in (FOUND["settings"], WITH_RATES["settings"], WITH_SEGMENTS["settings"]):
        assert settings["first_seed"] + settings["reps"] < FIRST_REPORT_SEED


def worlds_of(name):
    path = ROOT / "reproduction" / "results" / f"{name}.json"
    if not path.exists():
        pytest.skip("no worlds are reported yet")
    found = json.loads(path.read_text())
    return {row["world"] for row in found["answers"]}, found["settings"]["first_seed"]


@pytest.mark.parametrize("result", SETS.values())
def test_no_world_that_is_reported_was_tuned_on(result):
    worlds, first = worlds_of(result)
    assert not TUNING & worlds
    assert first >= FIRST_REPORT_SEED


@pytest.mark.parametrize(("folder", "result"), SETS.items())
def test_the_worlds_that_are_reported_can_be_run_again(folder, result):
    held_back = {
        path.stem for path in (ROOT / "reproduction" / "tuning" / "plan_held_back" / folder).glob("*.toml")
    }
    assert worlds_of(result)[0] == held_back


def test_no_two_sets_share_seeds():
    firsts = [worlds_of(result)[1] for result in SETS.values()]
    firsts += [one["first_seed"] for one in FOUND["reported_once"]]
    assert len(set(firsts)) == len(firsts)


def test_worlds_that_were_reported_once_and_tune_since_are_named():
    """Their true shares begin with the runs that were reported: the only seeds from a million on."""
    for name, said in zip(("first", "second", "third"), FOUND["reported_once"], strict=True):
        worlds, first = worlds_of(f"plan-validation-{name}")
        assert said == {"worlds": sorted(worlds), "first_seed": first}
        assert worlds <= TUNING


def test_worlds_that_were_not_chosen_from_are_covered():
    """At least the level, in the mean over worlds: each with the factor of all others."""
    for kind in OWN:
        asked = FOUND["asked"]
        assert asked >= LEVEL + 0.03
        assert ALL[kind]["left_out"]["covered"] >= asked
