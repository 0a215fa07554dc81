"""`plan_readout`: half widths against those that the study of readouts measured, and against a policy."""

import json
import math

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab import plan_readout
from dpbandits.models.readout import NoiseScales, half_width
from reproduction.studies import readout as study

PROMISE = dpb.JointDP(epsilon=1, delta=1e-6)
RELEASES = {"pure": "marginals", "gaussian": "features"}
RATES = {"rare": 0.01, "small": 0.3, "none": 0.3, "drift": 0.25}
MEASURED = [
    row
    for row in json.loads(study.RESULTS.read_text())
    if row["part"] == "main" and row["scenario"] != "adaptive"
]


def facts(scenario):
    """Public facts of a scenario: the control's rate, or its standard deviation in units of the reward."""
    if scenario in RATES:
        return {"rate": RATES[scenario]}
    values, _, control, _ = study.laws(scenario)
    chances = control.mean(axis=0)
    deviation = math.sqrt(chances @ values**2 - (chances @ values) ** 2)
    return {"sd": 500 * deviation, "reward_range": (0, 500)}


def test_widths_are_within_a_tenth_of_those_measured():
    assert len(MEASURED) == 30
    for row in MEASURED:
        found = plan_readout(
            users=row["people"], privacy=PROMISE, release=RELEASES[row["kind"]], **facts(row["scenario"])
        )
        np.testing.assert_allclose(found.half_width / found.unit, row["half_width"], rtol=0.1)
        np.testing.assert_allclose(found.always / found.unit, row["planned_half_width"], rtol=0.1)


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_the_noise_is_that_of_a_policy_with_this_readout(release):
    readout = dpb.Readout(control=dpb.Control(arm="b", share=0.2), metrics={"harm": bool}, looks=2)
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["a", "b"],
        reward_range=(0, 10),
        horizon=4_000,
        privacy=PROMISE,
        readout=readout,
        tuning=dpb.central.GPTuning(release=release),
    )
    ours, control = policy.diagnostics()["readout"]["noise_sd"]
    laplace = NoiseScales(laplace=ours / math.sqrt(2)), NoiseScales(gaussian=ours)
    wanted = half_width(
        4_000,
        share=0.2,
        looks=2,
        policy_law=laplace[release == "features"],
        control_law=NoiseScales(laplace=control / math.sqrt(2)),
        sd=0.3,
    )
    found = plan_readout(
        users=4_000, privacy=PROMISE, readout=readout, sd=3, reward_range=(0, 10), release=release
    )
    assert found.half_width == pytest.approx(10 * wanted, rel=1e-6)


def test_the_smallest_holdout_is_enough_and_one_percent_less_is_not():
    found = plan_readout(users=100_000, privacy=PROMISE, rate=0.01)
    share = found.smallest_share(0.0025)
    assert found.width(share) <= 0.0025 < found.width(share - 0.01)
    assert f"{share:.0%}" in found.needed(0.0025)
    assert found.smallest_share(0.001) is None
    assert "No holdout" in found.needed(0.001)
    assert found.without_privacy < found.half_width < found.always


def test_what_does_not_fit_is_named():
    for wrong, said in (
        ({"rate": 0.1, "sd": 1}, "rate"),
        ({}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"rate": 0.1, "release": "cells"}, "release"),
        ({"rate": 0.1, "confidence": 2}, "confidence"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            plan_readout(users=1_000, privacy=PROMISE, **wrong)
    repeated = dpb.JointDP(epsilon=1, delta=1e-6, rounds_per_user=2, user_ids=True)
    with pytest.raises(InvalidParameter, match="several rounds"):
        plan_readout(users=1_000, privacy=repeated, rate=0.1)
