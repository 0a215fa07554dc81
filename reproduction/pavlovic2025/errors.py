"""Error by epsilon on fresh functions, and its decrease with T (item `errors`).

Mean errors over worlds and the law of contexts of five ways to choose; the ridge of each comes from the rule
that is fixed before data. The column "USCA answer, ridge in hindsight" adds the best ridge and caps in
hindsight, as a bound. Errors of answers are exact expectations over their law, not draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import IntArray, Seed
from dpbandits.central.logged.calibration import (
    ANSWER_SPREAD,
    RIDGES,
    planned_answers,
    planned_release,
)
from dpbandits.central.logged.estimator import (
    NOISE_VARIANCE,
    CoefficientPosterior,
    Plan,
    PopulationEstimator,
    prior_variances,
)
from dpbandits.central.logged.publish import FunctionRelease
from dpbandits.central.logged.sums import REWARD_UNIT, RewardSums, integer_caps
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.study import Cell, Record, Row
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.selection import exponential_law, permute_and_flip_law
from reproduction.experiments import Choice, Item, grid
from reproduction.pavlovic2025.ratios import answer_weights
from reproduction.pavlovic2025.rkhs import (
    BOUND,
    FINER,
    NOISE_SD,
    SETTINGS,
    RKHSSetting,
    RKHSWorld,
    rkhs_setting,
)
from reproduction.pavlovic2025.theory import reward_clip

__all__ = ["CONTINUUM", "HINDSIGHT", "ITEM", "METHODS", "ContinuumCell", "ErrorCell", "features_of", "slopes"]

METHODS = ("published calibration", "USCA answer", "USCA release", "non-private", "random")
HINDSIGHT = "USCA answer, ridge in hindsight"
DELTA = 1e-6
_CONTEXTS = 12
_MOST_CELLS = 4096
_CHUNK = 1 << 18


def features_of(setting: RKHSSetting, **precision: Any) -> EigenFeatures:
    """Eigenfeatures of a setting; `precision` goes to them."""
    return EigenFeatures(kernel=setting.kernel, measures=(setting.actions, setting.contexts), **precision)


_Plans = tuple[list[Plan], Plan, PopulationEstimator]
"""USCA's answer (the rule's plan, then those in hindsight), USCA's release, the published calibration."""


@lru_cache(maxsize=2)
def _plans(
    setting: str, rounds: int, epsilons: tuple[float, ...], *, hindsight: bool
) -> tuple[EigenFeatures, dict[float, _Plans], IntArray]:
    """Return the parts of a setting at T that are fixed before data: features, plans, integer caps (k, n).

    There is one plan for every epsilon. The first row of caps means no caps. The caps of each epsilon's
    answers and of its release follow.
    """
    features = features_of(rkhs_setting(setting))
    ridges = (None, *(ridge for ridge in RIDGES if hindsight and 3.0 <= ridge <= 3000.0))
    plans: dict[float, _Plans] = {}
    caps = [np.ones(features.n_cells)]
    for epsilon in epsilons:
        answers = [planned_answers(features, rounds=rounds, epsilon=epsilon, ridge=ridge) for ridge in ridges]
        multiplier = 1.0 / gaussian_mu(epsilon, DELTA)
        release = planned_release(features, rounds=rounds, noise_multiplier=multiplier)
        plans[epsilon] = answers, release, _paper_plan(features, rounds, epsilon)
        caps += [plan.caps for plan in (*answers, release)]
    return features, plans, np.stack([integer_caps(one) for one in caps])


@dataclass(frozen=True, kw_only=True)
class ErrorCell(Cell):
    """All ways to choose, at all epsilons, on the same rounds of one world a seed.

    Attributes:
        setting: see `SETTINGS`.
        rounds: T.
        epsilons: Epsilons of one answer, or of the release at delta = 1e-6.
        hindsight: Search for the best ridge in hindsight.
        column: one of the methods that were chosen.
    """

    setting: str
    rounds: int
    epsilons: tuple[float, ...]
    hindsight: bool = False
    column: str = METHODS[0]

    fields: ClassVar = {"world": "setting"}

    def simulate(self, seed: Seed) -> Record:
        """[method, epsilon, ridge, mean loss against the best action] of every way to choose."""
        setting = rkhs_setting(self.setting)
        world = setting.world(seed)
        features, plans, caps = _plans(self.setting, self.rounds, self.epsilons, hindsight=self.hindsight)
        clean, *sums = _learned(world, setting, caps, self.rounds)
        held = iter(sums)
        posterior = CoefficientPosterior.prior(features.eigenvalues).given(
            features.psi.T @ (clean * REWARD_UNIT),
            rounds=self.rounds,
            noise_variance=np.zeros(features.n_features),
        )
        best = world.loss(posterior.tables(features, setting.actions.size)[0].argmax(axis=0))
        losses: list[list[Any]] = [
            ["random", None, None, world.random_loss],
            ["non-private", None, None, best],
        ]
        for epsilon in self.epsilons:
            candidates, release, paper = plans[epsilon]
            error = _paper_error(paper, world, clean, epsilon)
            losses.append(["published calibration", epsilon, paper.ridge, error])
            answers = [
                [epsilon, one.estimator.ridge, _answer_error(one, world, next(held), epsilon)]
                for one in candidates
            ]
            losses.append(["USCA answer", *answers[0]])
            if self.hindsight:
                losses += [[HINDSIGHT, *answer] for answer in answers]
            error = _release_error(release, world, next(held), epsilon)
            losses.append(["USCA release", epsilon, release.estimator.ridge, error])
        return {"losses": losses}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """One row a method and epsilon; of the ridges in hindsight the best over all worlds."""
        lines: dict[tuple[str, float | None], list[tuple[float, float, float | None]]] = {}
        for same in zip(*(record["losses"] for record in records), strict=True):
            method, epsilon, ridge, _ = same[0]
            mean, error = mean_and_error(np.array([loss for *_, loss in same]))
            lines.setdefault((method, epsilon), []).append((mean, error, ridge))
        rows = []
        for (method, epsilon), candidates in lines.items():
            mean, error, ridge = min(candidates, key=lambda one: one[0])
            where = {"setting": self.setting, "method": method, "rounds": self.rounds, "epsilon": epsilon}
            found = {"ridge": ridge, "error": mean, "standard_error": error}
            rows.append({**where, **found, "worlds": len(records), "first seed": records[0]["seed"]})
        return rows


def _learned(world: RKHSWorld, setting: RKHSSetting, caps: IntArray, horizon: int) -> IntArray:
    """(k, n) integer cell sums of a world's uniformly explored rounds."""
    held = RewardSums(caps)
    for start in range(0, horizon, _CHUNK):
        stop = min(start + _CHUNK, horizon)
        uniforms = PublicCoins(world.seed).uniform("usca/explore", start, stop, 1)[:, 0]
        actions = setting.actions.cells_at(uniforms)
        cells = actions * setting.contexts.size + world.contexts(start, stop)
        held = held.with_rows(cells, world.rewards(start, stop, actions) / BOUND)
    return held.sums


def _looked_at(estimator: PopulationEstimator) -> IntArray:
    """Context cells over which answers are averaged: a regular part of them."""
    count = _CONTEXTS if estimator.features.n_cells <= _MOST_CELLS else _CONTEXTS // 2
    steps = (np.arange(count) + 0.5) / count * estimator.n_contexts
    return np.unique(steps.astype(np.int64))


def _answer_error(plan: Plan, world: RKHSWorld, sums: IntArray, epsilon: float) -> float:
    """Expected loss of one answer; sums (n,)."""
    losses = []
    for context in _looked_at(plan.estimator):
        weights, spread = answer_weights(plan, int(context))
        scores = (weights @ sums.astype(np.float64))[None]
        law = permute_and_flip_law(scores, sensitivity=2.0 * float(spread.max()), epsilon=epsilon)[0]
        losses.append(world.loss_of_law(law, int(context)))
    return float(np.mean(losses))


def _paper_plan(features: EigenFeatures, rounds: int, epsilon: float) -> PopulationEstimator:
    """The published calibration, its ridge by the same rule: noise 1.28 (2 Delta)/epsilon, no caps."""
    prior = prior_variances(features.eigenvalues)

    def value(estimator: PopulationEstimator) -> float:
        shrinkage, slopes_ = estimator.shrinkage, rounds * estimator.shrinkage
        noise = (ANSWER_SPREAD * 4.0 * float(estimator.deviation.max()) ** 2 / epsilon) ** 2
        total = float(prior @ slopes_**2) + NOISE_VARIANCE * rounds * float(shrinkage @ shrinkage) + noise
        return float(prior @ slopes_) ** 2 / total

    return max((PopulationEstimator(features, rounds, ridge) for ridge in RIDGES), key=value)


def _paper_error(
    estimator: PopulationEstimator, world: RKHSWorld, sums: IntArray, epsilon: float, *, clip: float = BOUND
) -> float:
    """Expected loss under the exponential mechanism at Delta = 2 clip sup sigma-bar^2."""
    span = clip / BOUND * 4.0 * float(estimator.deviation.max()) ** 2  # 2 Delta, rewards in units of B
    contexts = _looked_at(estimator)
    scores = estimator.estimate(np.asarray(sums * REWARD_UNIT, dtype=np.float64))[:, contexts].T
    laws = exponential_law(scores, sensitivity=span, epsilon=epsilon)
    return float(np.mean([world.loss_of_law(law, int(c)) for law, c in zip(laws, contexts, strict=True)]))


def _release_error(plan: Plan, world: RKHSWorld, sums: IntArray, epsilon: float) -> float:
    mechanism = FunctionRelease(plan, SimulatedNoise(world.seed), epsilon, DELTA)
    features = plan.estimator.features
    prior = CoefficientPosterior.prior(features.eigenvalues)
    mean, _ = mechanism.update(prior, mechanism.release(sums)).tables(features, plan.estimator.n_actions)
    return world.loss(mean.argmax(axis=0))


def slopes(rows: Sequence[Row], features: EigenFeatures, method: str) -> dict[str, float]:
    """Least-squares exponents of the error: against T, sqrt(gamma_T/T) and gamma_T/(T epsilon).

    Theorem 4.1 promises an error of order sqrt(gamma_T/T) + gamma_T/(T epsilon), gamma_T at the row's ridge;
    an exponent of 1 against a term means that the error follows it, above 1 that it falls faster.
    """
    chosen = [row for row in rows if row["method"] == method and row["epsilon"] and row["error"] > 0.0]
    error = np.log([row["error"] for row in chosen])
    gains = np.array([features.information_gain(row["rounds"], row["ridge"] or 1.0) for row in chosen])
    counts = np.array([row["rounds"] for row in chosen], dtype=np.float64)
    losses = np.array([row["epsilon"] for row in chosen], dtype=np.float64)
    terms = {
        "T": np.log(counts),
        "sqrt(gamma/T)": 0.5 * np.log(gains / counts),
        "gamma/(T epsilon)": np.log(gains / (counts * losses)),
        "their sum": np.log(np.sqrt(gains / counts) + gains / (counts * losses)),
    }
    return {name: float(np.polyfit(term, error, 1)[0]) for name, term in terms.items()}


@dataclass(frozen=True, kw_only=True)
class ContinuumCell(Cell):
    """The published answer where the interval of actions is cut ever finer, and with the paper's reward clip.

    Rewards lie in [-1.2, 1.2], what `answer` is calibrated to. `clipped` has the paper's clip instead,
    sup |f| + R ln(T/delta) at delta .05, which a server needs that knows no range. `ours` is
    `ExploreThenCommit`.

    Attributes:
        setting: one of `FINER`.
        rounds: T.
        epsilon: Epsilon of one answer.
    """

    setting: str
    rounds: int
    epsilon: float

    counts = ("worlds", "first seed")
    fields: ClassVar = {"world": "setting"}
    measures: ClassVar = {name: (name, f"{name} s.e.") for name in ("answer", "clipped", "ours", "random")}

    @property
    def clip(self) -> float:
        """Bound at which rewards are clipped."""
        return reward_clip(bound=1.0, noise=NOISE_SD, rounds=self.rounds, failure_probability=0.05)

    def simulate(self, seed: Seed) -> Record:
        """Expected losses of one world."""
        setting = rkhs_setting(self.setting)
        world = setting.world(seed)
        _, plans, caps = _plans(self.setting, self.rounds, (self.epsilon,), hindsight=False)
        clean, own, _ = _learned(world, setting, caps, self.rounds)
        (plan,), _, paper = plans[self.epsilon]
        return {
            "answer": _paper_error(paper, world, clean, self.epsilon),
            "clipped": _paper_error(paper, world, clean, self.epsilon, clip=self.clip),
            "ours": _answer_error(plan, world, own, self.epsilon),
            "random": world.random_loss,
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Means over worlds, and the clip."""
        (row,) = super().rows(records)
        return [row | {"clip": self.clip}]


CONTINUUM = Item(
    about="answers on ever finer cells of an interval of actions, and with the reward clip",
    cells=grid(ContinuumCell, world=tuple(FINER), rounds=(10_000,), epsilon=(1.0,)),
    key=("setting", "rounds", "epsilon"),
    shown="setting | rounds:, | epsilon:g | answer:.4f | clipped:.4f | ours:.4f | random:.4f | clip:.3f",
)


def _cells(choice: Choice) -> list[ErrorCell]:
    """A cell has all methods: it is run if one of them is chosen."""
    columns = choice.columns or METHODS
    wanted = [method for method in (*METHODS, HINDSIGHT) if method in columns]
    return [
        ErrorCell(
            setting=setting,
            rounds=rounds,
            epsilons=tuple(choice.epsilons or (0.1, 0.5, 1.0, 5.0)),
            hindsight=HINDSIGHT in wanted,
            column=wanted[0],
        )
        for setting in choice.worlds or SETTINGS
        for rounds in choice.rounds or (1000, 10_000, 100_000, 1_000_000)
        if wanted
    ]


ITEM = Item(
    about="error against T and epsilon",
    cells=_cells,
    key=("setting", "rounds", "method", "epsilon"),
    shown="setting | rounds:, | epsilon:g | method | ridge:g | error:.5f | standard_error:.5f",
)
