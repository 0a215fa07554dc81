import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation import BANNER, run
from dpbandits.lab.people.report import (
    headline,
    percent_up,
    sweep_columns,
    table_rows,
    to_json,
    write_report,
)
from dpbandits.lab.people.study import (
    CRUDE,
    NON_PRIVATE,
    PRIVATE,
    TableConstants,
    TableStudy,
    non_private_policy,
    private_policy,
    table_features,
)
from dpbandits.lab.worlds import TableBandit, synthetic_income
from dpbandits.tables import Range, Schema


def small_table(seed):
    return synthetic_income(seed=seed, n_rows=600)


@pytest.fixture(scope="module")
def result():
    study = TableStudy(
        make_environment=small_table,
        epsilons=(1.0, 8.0),
        reps=2,
        attack_trials=20,
        noise="simulated",
    )
    written = []
    whole = study.run(attacked=written.append)
    assert [one.attacks for one in written] == [{}]  # what there is can be kept before anything is attacked
    assert to_json(replace(whole, attacks={})) == to_json(written[0])
    return whole


def test_the_rows_are_the_yardsticks_in_order(result):
    names = [name for name, _, _ in table_rows(result)]
    assert names == [
        "random",
        "best constant arm",
        "private, epsilon = 1",
        "non-private",
        "supervised ceiling",
    ]


def test_every_promised_key_is_in_the_json(result):
    rows = to_json(result)["rows"]
    promised = {
        "policy",
        "epsilon",
        "delta",
        "reward",
        "uplift",
        "share_of_nonprivate_uplift",
        "stderr",
        "reps",
    }
    assert all(promised <= row.keys() for row in rows)
    assert [row["epsilon"] for row in rows if row["policy"] == PRIVATE] == [1.0, 8.0]
    non_private = next(row for row in rows if row["policy"] == NON_PRIVATE)
    assert non_private["share_of_nonprivate_uplift"] == pytest.approx(1.0)
    json.dumps(to_json(result), allow_nan=False)


def test_crude_private_policies_stand_beside_at_every_epsilon(result):
    rows = [row for row in to_json(result)["rows"] if row["policy"] in CRUDE]
    assert [(row["policy"], row["epsilon"]) for row in rows] == [
        (name, epsilon) for epsilon in (1.0, 8.0) for name in ("private ridge", "private histogram")
    ]
    for row in rows:
        world = small_table(1_000_000)
        crude = CRUDE[row["policy"]](
            contexts=world.schema, arms=world.arms.labels, reward_range=world.reward_range,
            horizon=world.horizon, privacy=dpb.JointDP(epsilon=row["epsilon"], delta=1e-6),
            noise=dpb.SimulatedNoise(1_000_000), seed=1_000_000,
        )  # fmt: skip
        lived = result.crude[row["policy"], row["epsilon"]].run
        assert run(crude, world).mean_reward == lived.mean_rewards[0]
    for shown in ("private ridge", "private histogram"):
        assert shown in sweep_columns(result)


def test_the_private_policy_is_the_one_that_people_get_by_default():
    world, promise = small_table(0), dpb.JointDP(epsilon=1, delta=1e-6)
    made = private_policy(world, 0, privacy=promise, noise=dpb.SimulatedNoise(0))
    known = {"contexts": world.schema, "arms": world.arms.labels, "reward_range": (0, 1)}
    default = dpb.central.GPBandit(
        **known, horizon=world.horizon, privacy=promise, noise=dpb.SimulatedNoise(0), seed=0
    )
    assert made.to_config() == default.to_config()
    assert made.tuning.release == "marginals"
    tuned = private_policy(
        world, 0, privacy=promise, noise=dpb.SimulatedNoise(0), constants=TableConstants(lengthscale=0.4)
    )
    assert tuned.tuning.release == "features"


def test_simulated_noise_is_never_called_protection(result):
    assert "protects nobody" in headline(result)
    assert result.guarantee.status == "simulated"


def test_the_same_seeds_give_the_same_numbers(result):
    again = TableStudy(
        make_environment=small_table,
        epsilons=(1.0, 8.0),
        reps=2,
        attack_trials=20,
        noise="simulated",
    ).run()
    assert to_json(again) == to_json(result)


def test_the_page_stands_alone_and_opens_with_the_banner(result, tmp_path):
    page = write_report(result, tmp_path / "new" / "folder", command="dpbandits run <&>")
    text = page.read_text()
    assert text.index(BANNER) < text.index("<h1>")
    assert "dpbandits run &lt;&amp;&gt;" in text
    assert "$" not in text.replace("$0", "")
    assert 'src="data:image/png;base64,' in text
    assert "http" not in text
    for name in ("learning", "epsilon", "attack"):
        assert (page.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((page.parent / "result.json").read_text())["reps"] == 2


def test_bounds_are_rounded_up():
    assert percent_up(0.5551) == 55.6
    assert percent_up(0.555) == 55.5
    assert percent_up(1.0) == 100.0


def test_bad_studies_are_refused_before_anything_runs():
    for wrong in (
        {"epsilon": 0.0},
        {"epsilons": (-1.0,)},
        {"delta": 1.0},
        {"noise": "none"},
        {"attack_trials": 19},
        {"jobs": 0},
    ):
        with pytest.raises(InvalidParameter):
            TableStudy(make_environment=small_table, **wrong)


def test_seeds_of_reports_and_of_tuning_are_apart():
    study = TableStudy(make_environment=small_table, seed=999_999, reps=3)
    with pytest.raises(InvalidParameter):
        study.run()


def test_the_attack_reads_the_non_private_policy_only(result):
    assert result.attacks[NON_PRIVATE].success == 1.0
    private = result.attacks[PRIVATE]
    # beyond the bound by five binomial standard deviations: probability below 3e-7
    assert private.success <= private.bound + 5 * 0.5 / np.sqrt(private.trials)


def test_the_runner_names_people_as_the_table_does():
    """A policy that covers one row a person refuses the second of a person whom the table allows two."""
    world = TableBandit.from_labels(
        {"age": np.linspace(0, 100, 40)}, schema=Schema(age=Range(0, 100)), labels=np.zeros(40, dtype=int),
        arms=["no", "yes"], seed=0,
    )  # fmt: skip
    persons = np.arange(40) // 2
    assert replace(world, persons=persons, rounds_per_user=10**30).horizon == 40  # found by the fuzzer
    twice = replace(world, persons=persons, rounds_per_user=2)
    for rounds in (1, 2):
        policy = private_policy(
            twice, 0, privacy=dpb.JointDP(epsilon=1, delta=1e-6, rounds_per_user=rounds),
            noise=dpb.SimulatedNoise(0),
        )  # fmt: skip
        with pytest.raises(InvalidData, match="more rounds of a user") if rounds == 1 else nullcontext():
            run(policy, twice)


def test_both_policies_learn_in_the_features_of_the_table():
    """The non-private baseline is what shares are taken of: with other features all of them move."""
    table = small_table(1)
    constants = TableConstants(lengthscale=0.4)
    expected = table_features(table.schema, table.n_arms, constants).to_config()
    assert non_private_policy(table, 0, constants=constants).features.to_config() == expected
    promise = {"privacy": dpb.JointDP(1, 1e-6), "noise": dpb.SimulatedNoise(0)}
    private = private_policy(table, 0, constants=constants, **promise)
    assert private.features.to_config() == expected
