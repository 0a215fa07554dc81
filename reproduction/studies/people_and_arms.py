"""Cost of contexts and arms compared with candidate rows: time of `ask` and `tell`, and reward.

    python -m reproduction.studies.people_and_arms [--table synthetic-income] [--horizon 20000] [--reps 4]

The command runs a `GPBandit` on the same users twice: as dicts with `contexts=` and `arms=`, and as matrices
of the same encoded rows. It prints the median time of an `ask` and a `tell` in the second half of 2,000
rounds. A posterior exists by then, and a median ignores the time of releases.

Then it runs the defaults of `contexts=` and `arms=`, the policy of the table study, uniform choice and every
constant arm, over tuning seeds 0, 1, ... of the table. All results are evaluations, not releases.
"""

import argparse
import time
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation import run
from dpbandits.lab.people.study import PRIVATE_CONSTANTS, private_policy
from dpbandits.lab.worlds import TableBandit, load

ROUNDS = 2_000
PRIVACY = dpb.JointDP(epsilon=1.0, delta=1e-6)


def policy_of(table: TableBandit, release: str | None = None) -> dpb.central.GPBandit:
    return dpb.central.GPBandit(
        contexts=table.schema,
        arms=table.arms.labels,
        reward_range=table.reward_range,
        horizon=table.horizon,
        privacy=PRIVACY,
        noise=dpb.SimulatedNoise(table.seed),
        seed=table.seed,
        tuning=dpb.central.GPTuning(release=release),
    )


def same_over_rows(table: TableBandit) -> dpb.central.GPBandit:
    of_people = policy_of(table, "features")
    return dpb.central.GPBandit(
        domain=of_people.domain,
        tuning=of_people.tuning,
        reward_range=table.reward_range,
        horizon=table.horizon,
        privacy=PRIVACY,
        noise=dpb.SimulatedNoise(table.seed),
        seed=table.seed,
    )


def public(table: TableBandit) -> dict[str, Any]:
    return {"reward_range": table.reward_range, "horizon": table.horizon, "seed": table.seed}


def constant(table: TableBandit, code: int) -> dpb.lab.baselines.ConstantArm:
    return dpb.lab.baselines.ConstantArm(domain=table.domain, arm=code, **public(table))


def as_dicts(table: TableBandit, contexts: np.ndarray) -> list[dict[str, object]]:
    """Return the dicts that an app would have for encoded users."""

    def value(column, share):
        if isinstance(column, dpb.Categories):
            return column.values[int(share)]
        return float(np.clip(column.low + share * (column.high - column.low), column.low, column.high))

    columns = list(table.schema.columns.items())
    return [
        {name: value(column, share) for (name, column), share in zip(columns, row, strict=True)}
        for row in contexts
    ]


def microseconds(policy: dpb.central.GPBandit, brought, table: TableBandit) -> float:
    rewards, spent = table.mean_rewards(0, ROUNDS), np.empty(ROUNDS)
    for t in range(ROUNDS):
        began = time.perf_counter()
        decision = policy.ask(brought[t], user=t)
        policy.tell(decision.id, bool(rewards[t, decision.index]))
        spent[t] = time.perf_counter() - began
    return 1e6 * float(np.median(spent[ROUNDS // 2 :]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", default="synthetic-income")
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--reps", type=int, default=4)
    options = parser.parse_args()
    table = load(options.table, seed=0, horizon=options.horizon)
    sets = table.decision_sets(0, ROUNDS)
    rows = microseconds(same_over_rows(table), sets, table)
    dicts = microseconds(policy_of(table, "features"), as_dicts(table, sets[:, 0, :-1]), table)
    print(f"ask and tell: {rows:.0f} us with a matrix, {dicts:.0f} us with a dict: {dicts / rows:.2f} times")
    tables = [load(options.table, seed=seed, horizon=options.horizon) for seed in range(options.reps)]
    study = [
        private_policy(
            one, one.seed, privacy=PRIVACY, noise=dpb.SimulatedNoise(one.seed), constants=PRIVATE_CONSTANTS
        )
        for one in tables
    ]
    for name, policies in (
        ("contexts and arms, defaults", map(policy_of, tables)),
        ("rows, the study's constants", study),
        ("uniform", [dpb.lab.baselines.Uniform(domain=one.domain, **public(one)) for one in tables]),
        *(
            (f"always {label}", [constant(one, code) for one in tables])
            for code, label in enumerate(table.arms.labels)
        ),
    ):
        found = np.array([run(policy, one).mean_reward for policy, one in zip(policies, tables, strict=True)])
        error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        print(f"{name}: reward {found.mean():.4f} +- {error:.4f}")


if __name__ == "__main__":
    main()
