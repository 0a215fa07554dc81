"""The audit of one configuration: it reaches near the claim, and catches one that is too small."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dpbandits as dpb
from dpbandits.audit.configured import audit_configuration, audit_of, names_for
from dpbandits.central.marginals.noise import TableNoise
from dpbandits.central.tuning import KindName
from dpbandits.cli import app
from dpbandits.privacy.gram_vector import GramVectorMechanism

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))


def policy(**changes: Any) -> dpb.central.GPBandit:
    given = {
        "contexts": PEOPLE,
        "arms": ["mail", "call"],
        "reward_range": (0, 1),
        "horizon": 400,
        "privacy": dpb.JointDP(epsilon=1, delta=1e-6),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpb.central.GPBandit(**given | changes)


BOX = {
    "contexts": None,
    "arms": None,
    "domain": dpb.Box([0, 0], [1, 1]),
    "kernel": dpb.kernels.SquaredExponential(lengthscale=0.3),
}
FEATURES = dpb.central.GPTuning(release="features")
THREE_ROUNDS = dpb.JointDP(epsilon=2, delta=1e-6, rounds_per_user=3)
CONFIGURATIONS = {
    "features": (policy(tuning=FEATURES), 0.9),
    "features, three rounds": (policy(tuning=FEATURES, privacy=THREE_ROUNDS), 0.9),
    "features, rewards alone": (policy(tuning=dpb.central.GPTuning(decision_sets="public")), 0.5),
    "features, unknown horizon": (policy(tuning=FEATURES, horizon=None), 0.7),
    "cells": (policy(**BOX, privacy=dpb.JointDP(epsilon=1)), 0.9),
    "features over a box": (policy(**BOX), 0.9),
    "marginals": (policy(privacy=dpb.JointDP(epsilon=1)), 0.4),
    "marginals after a census": (
        policy(privacy=dpb.JointDP(epsilon=1), tuning=dpb.central.GPTuning(blocks=(20, 60), census=True)),
        0.4,
    ),
    "marginals, with a delta": (policy(), 0.4),
    "marginals, three rounds": (policy(privacy=THREE_ROUNDS), 0.4),
    "marginals, unknown horizon": (policy(horizon=None), 0.5),
    "local bins": (
        dpb.local.Spec(contexts=PEOPLE, arms=[0, 1], learner="smooth", privacy=dpb.LocalDP(epsilon=1)),
        0.99,
    ),
    "local questions": (dpb.local.Spec(contexts=PEOPLE, arms=[0, 1], privacy=dpb.LocalDP(epsilon=4)), 0.99),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_holds_and_a_smaller_claim_for_it_is_refuted(name: str) -> None:
    """The wrong verdict comes with probability 1e-7 for marginal tables, and never for the rest."""
    thing, share = CONFIGURATIONS[name]
    kind = name.partition(",")[0].partition(" ")[0]
    assert kind == "local" or thing.diagnostics()["release"] == kind
    audit = audit_of(thing.to_config())
    row = audit.run(samples=20_000, confidence=1 - 1e-7)
    assert row.claimed_epsilon == thing.privacy.epsilon
    assert row.verdict == "holds"
    assert row.tightness > share
    smaller = dataclasses.replace(audit, epsilon=share * row.claimed_epsilon)
    assert smaller.run(samples=20_000, confidence=1 - 1e-7).verdict == "exceeded"


@pytest.mark.parametrize("release", ["features", "marginals"])
def test_noise_that_is_too_small_for_what_a_user_does_is_caught(
    release: KindName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise for one round of a user who has three: the claim is the same."""
    tuning = dpb.central.GPTuning(release=release)
    config = policy(privacy=dataclasses.replace(THREE_ROUNDS, epsilon=1), tuning=tuning).to_config()
    assert audit_of(config).run(samples=20_000).verdict == "holds"
    if release == "features":
        right = GramVectorMechanism.sensitivity
        monkeypatch.setattr(GramVectorMechanism, "sensitivity", property(lambda self: right.fget(self) / 3))
    else:
        rate = TableNoise.sum_rate
        monkeypatch.setattr(TableNoise, "sum_rate", lambda self, moved: rate(self, moved // 3))
    assert audit_of(config).run(samples=20_000).verdict == "exceeded"


def test_what_else_is_attacked_is_of_the_same_kind_and_epsilon() -> None:
    config = CONFIGURATIONS["local bins"][0].to_config()
    done: list[str] = []
    rows = audit_configuration(config, samples=1000, progress=done.append)
    assert [row.name for row in rows] == ["configuration", *names_for(config)]
    assert sorted(done) == sorted(row.name for row in rows)
    assert {row.claimed_epsilon for row in rows} == {1.0}
    assert names_for(policy(**BOX, privacy=dpb.JointDP(epsilon=1)).to_config()) == (
        "cell-sums",
        "gp-bandit-cells",
    )


@pytest.mark.parametrize("config", [{}, {"policy": "central.Dubey2021"}, {"policy": "central.GPBandit"}])
def test_what_is_no_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(dpb.errors.InvalidParameter):
        audit_configuration(config)


def test_a_first_block_that_is_too_long_to_be_played_is_refused_before_it_is() -> None:
    with pytest.raises(dpb.errors.InvalidParameter, match="at most 100000"):
        audit_of(policy(horizon=4_000_000, privacy=dpb.JointDP(epsilon=1)).to_config()).run()


def test_the_command_reads_a_file(tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(CONFIGURATIONS["local bins"][0].to_json())
    arguments = ["audit", "--configuration", str(file), "--json", "--samples"]
    told = CliRunner().invoke(app, [*arguments, "3000"])
    assert told.exit_code == 0, told.output
    assert [row["verdict"] for row in json.loads(told.stdout)] == ["holds"] * 4
    few = CliRunner().invoke(app, [*arguments, "1000"])
    assert few.exit_code == 3
    assert {row["verdict"] for row in json.loads(few.stdout)} == {"holds", "undecided"}
    arguments.append("1000")
    assert CliRunner().invoke(app, [*arguments, "--all"]).exit_code != 0
    file.write_text("{}")
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code != 0
