"""Pavlovic2025's questions on fresh functions: what error at what epsilon, and how it falls with T.

`python -m dpbandits.lab.papers.pavlovic2025.cells table --setting "SE .2 in 1+1"` prints the mean error,
over 30
worlds and the law of contexts, of five ways to choose, for T = 1e3 ... 1e6 and epsilon = .1, .5, 1, 5. The
ridge of each comes from the rule that is fixed before data; `--hindsight` adds the best ridge and caps in
hindsight, as a bound. Errors of answers are exact expectations over their law, not draws.
`lemmas` prints what the approximating set costs at T that the printed form can do.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dpbandits._typing import IntArray, Seed
from dpbandits.central.explore_then_commit.calibration import (
    ANSWER_SPREAD,
    RIDGES,
    Plan,
    plan_answers,
    plan_release,
)
from dpbandits.central.explore_then_commit.estimator import (
    NOISE_VARIANCE,
    CoefficientPosterior,
    PopulationEstimator,
    prior_variances,
)
from dpbandits.central.explore_then_commit.publish import FunctionRelease
from dpbandits.central.explore_then_commit.sums import REWARD_UNIT, CellSums, integer_caps, integer_weights
from dpbandits.central.published.pavlovic2025 import ApproximatingSet, CovarianceEstimator
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.worlds.rkhs import BOUND, SETTINGS, RKHSSetting, RKHSWorld, rkhs_setting
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.selection import exponential_law, permute_and_flip_law

__all__ = ["METHODS", "Row", "error_table", "lemma_table", "slopes"]

METHODS = ("published calibration", "USCA answer", "USCA release", "non-private", "random")
DELTA = 1e-6
_CONTEXTS = 12
_MOST_CELLS = 4096
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Row:
    """One number of the table.

    Attributes:
        setting, method: names.
        rounds: T.
        epsilon: of one answer, or of the release at delta = 1e-6; None without privacy.
        ridge: tau.
        error: mean loss against the best action.
        standard_error: over worlds.
        worlds: how many.
    """

    setting: str
    method: str
    rounds: int
    epsilon: float | None
    ridge: float | None
    error: float
    standard_error: float
    worlds: int


def features_of(setting: RKHSSetting) -> EigenFeatures:
    """Eigenfeatures of a setting."""
    return EigenFeatures(kernel=setting.kernel, measures=(setting.actions, setting.contexts))


def error_table(
    name: str,
    *,
    rounds: Sequence[int],
    epsilons: Sequence[float],
    seeds: Sequence[Seed],
    hindsight: bool = False,
) -> list[Row]:
    """Errors of all methods in one setting.

    Args:
        name: of the setting, see `SETTINGS`.
        rounds: values of T.
        epsilons: values of epsilon.
        seeds: one world each.
        hindsight: add rows of the best ridge in hindsight.
    """
    setting = rkhs_setting(name)
    features = features_of(setting)
    worlds = [setting.world(seed) for seed in seeds]
    rows: list[Row] = []
    for horizon in rounds:
        rows += _rows_at(setting, features, worlds, horizon, epsilons, hindsight=hindsight)
    return rows


def _rows_at(
    setting: RKHSSetting,
    features: EigenFeatures,
    worlds: list[RKHSWorld],
    horizon: int,
    epsilons: Sequence[float],
    *,
    hindsight: bool,
) -> list[Row]:
    count = setting.actions.size
    full = np.ones(features.n_cells)
    answers = {
        epsilon: [
            plan_answers(features, n_actions=count, rounds=horizon, epsilon=epsilon, ridge=ridge)
            for ridge in (None, *(_near(RIDGES) if hindsight else ()))
        ]
        for epsilon in epsilons
    }
    releases = {
        epsilon: plan_release(
            features, n_actions=count, rounds=horizon, noise_multiplier=1.0 / gaussian_mu(epsilon, DELTA)
        )
        for epsilon in epsilons
    }
    plans = [plan for group in answers.values() for plan in group] + list(releases.values())
    caps = np.stack([integer_caps(full), *(integer_caps(plan.caps) for plan in plans)])
    sums = np.stack([_learned(world, setting, caps, horizon) for world in worlds])  # (W, k, n)
    place = {id(plan): index + 1 for index, plan in enumerate(plans)}

    def row(method: str, epsilon: float | None, ridge: float | None, errors: Sequence[float]) -> Row:
        found = Estimate.of(errors) if len(errors) > 1 else Estimate(errors[0], math.nan, 1)
        return Row(setting.name, method, horizon, epsilon, ridge, found.mean, found.standard_error, found.n)

    rows = [row("random", None, None, [world.random_loss for world in worlds])]
    clean = []
    for world, held in zip(worlds, sums, strict=True):
        projections = features.psi.T @ (held[0] * REWARD_UNIT)
        posterior = CoefficientPosterior.prior(features.eigenvalues).given(
            projections, rounds=horizon, noise_variance=np.zeros(features.n_features)
        )
        clean.append(world.loss(posterior.tables(features, count)[0].argmax(axis=0)))
    rows.append(row("non-private", None, None, clean))
    for epsilon in epsilons:
        paper = _paper_plan(features, count, horizon, epsilon)
        rows.append(
            row(
                "published calibration",
                epsilon,
                paper.ridge,
                _paper_errors(paper, worlds, sums[:, 0], epsilon),
            )
        )
        errors = [
            (plan, _answer_errors(plan, worlds, sums[:, place[id(plan)]], epsilon))
            for plan in answers[epsilon]
        ]
        plan, found = errors[0]
        rows.append(row("USCA answer", epsilon, plan.estimator.ridge, found))
        if hindsight:
            plan, found = min(errors, key=lambda pair: float(np.mean(pair[1])))
            rows.append(row("USCA answer, ridge in hindsight", epsilon, plan.estimator.ridge, found))
        plan = releases[epsilon]
        found = [
            _release_error(plan, world, held[place[id(plan)]], epsilon)
            for world, held in zip(worlds, sums, strict=True)
        ]
        rows.append(row("USCA release", epsilon, plan.estimator.ridge, found))
    return rows


def _near(ridges: Sequence[float]) -> Sequence[float]:
    return [ridge for ridge in ridges if 3.0 <= ridge <= 3000.0]


def _learned(world: RKHSWorld, setting: RKHSSetting, caps: IntArray, horizon: int) -> IntArray:
    """(k, n) integer cell sums of a world's uniformly explored rounds."""
    held = CellSums(caps)
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


def _answer_errors(plan: Plan, worlds: list[RKHSWorld], sums: IntArray, epsilon: float) -> list[float]:
    """Expected loss of one answer in each world; sums (W, n)."""
    caps = integer_caps(plan.caps)
    losses = []
    for context in _looked_at(plan.estimator):
        influence = plan.estimator.influence(int(context))
        weights, _ = integer_weights(influence - 0.5 * (influence.max(axis=0) + influence.min(axis=0)))
        span = 2.0 * float((caps * (weights.max(axis=0) - weights.min(axis=0))).max())
        scores = (weights @ sums.T.astype(np.float64)).T
        laws = permute_and_flip_law(scores, sensitivity=span, epsilon=epsilon)
        losses.append([world.loss_of_law(law, int(context)) for world, law in zip(worlds, laws, strict=True)])
    return [float(value) for value in np.mean(losses, axis=0)]


def _paper_plan(features: EigenFeatures, n_actions: int, rounds: int, epsilon: float) -> PopulationEstimator:
    """The published calibration, its ridge by the same rule: noise 1.28 (2 Delta)/epsilon, no caps."""
    prior = prior_variances(features.eigenvalues)
    best: tuple[float, PopulationEstimator] | None = None
    for ridge in RIDGES:
        estimator = PopulationEstimator(features, n_actions, rounds, ridge)
        shrinkage, slopes_ = estimator.shrinkage, rounds * estimator.shrinkage
        noise = (ANSWER_SPREAD * 4.0 * float(estimator.deviation.max()) ** 2 / epsilon) ** 2
        total = float(prior @ slopes_**2) + NOISE_VARIANCE * rounds * float(shrinkage @ shrinkage) + noise
        value = float(prior @ slopes_) ** 2 / total
        if best is None or value > best[0]:
            best = (value, estimator)
    if best is None:
        raise InvalidParameter("no ridge to choose from")
    return best[1]


def _paper_errors(
    estimator: PopulationEstimator, worlds: list[RKHSWorld], sums: IntArray, epsilon: float
) -> list[float]:
    """Expected loss under the exponential mechanism at Delta = 2 B sup sigma-bar^2."""
    span = 4.0 * float(estimator.deviation.max()) ** 2  # 2 Delta, rewards in units of B
    contexts = _looked_at(estimator)
    losses = []
    for world, held in zip(worlds, sums, strict=True):
        scores = estimator.estimate(held * REWARD_UNIT)[:, contexts].T
        laws = exponential_law(scores, sensitivity=span, epsilon=epsilon)
        losses.append(
            float(np.mean([world.loss_of_law(law, int(c)) for law, c in zip(laws, contexts, strict=True)]))
        )
    return losses


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
    chosen = [row for row in rows if row.method == method and row.epsilon is not None and row.error > 0.0]
    error = np.log([row.error for row in chosen])
    gains = np.array([features.information_gain(row.rounds, row.ridge or 1.0) for row in chosen])
    counts = np.array([row.rounds for row in chosen], dtype=np.float64)
    losses = np.array([row.epsilon for row in chosen], dtype=np.float64)
    terms = {
        "T": np.log(counts),
        "sqrt(gamma/T)": 0.5 * np.log(gains / counts),
        "gamma/(T epsilon)": np.log(gains / (counts * losses)),
        "their sum": np.log(np.sqrt(gains / counts) + gains / (counts * losses)),
    }
    return {name: float(np.polyfit(term, error, 1)[0]) for name, term in terms.items()}


def lemma_table(
    name: str, *, rounds: Sequence[int], seeds: Sequence[Seed], ridge: float = 1.0
) -> list[dict[str, float]]:
    """What standing in for the covariance costs: Lemmas 4.3 and 4.4, measured.

    For each T: the gap sup |f_Z - f_D| between the estimators with the covariance of Z and of the data,
    beside sup |f_D - f|; and the largest |eigenvalue - 1| of V^-1/2 V' V^-1/2, V the population covariance,
    V' that of Z and that of the data. Means over worlds, with standard errors.
    """
    setting = rkhs_setting(name)
    features = EigenFeatures(
        kernel=setting.kernel, measures=(setting.actions, setting.contexts), tolerance=1e-9
    )
    measure = CellMeasure.product(setting.actions, setting.contexts)
    phi = features.feature_map()
    table = []
    for horizon in rounds:
        gamma = features.information_gain(horizon, ridge)
        size = horizon * math.ceil(horizon / max(1.0, gamma))
        root = 1.0 / np.sqrt(horizon * features.eigenvalues + ridge)
        found: dict[str, list[float]] = {key: [] for key in ("gap", "error", "spectral Z", "spectral data")}
        for seed in seeds:
            world = setting.world(seed)
            uniforms = PublicCoins(seed).uniform("usca/explore", 0, horizon, 1)[:, 0]
            actions = setting.actions.cells_at(uniforms)
            cells = actions * setting.contexts.size + world.contexts(0, horizon)
            rewards = world.rewards(0, horizon, actions)
            chosen = ApproximatingSet.drawn(measure, size, seed=seed)
            estimator = CovarianceEstimator(setting.kernel, chosen, horizon, ridge)
            with_set = estimator.estimate(measure.points, measure.points[cells], rewards)
            own = phi[cells].T @ phi[cells] + ridge * np.eye(phi.shape[1])
            with_data = phi @ np.linalg.solve(own, phi[cells].T @ rewards)
            found["gap"].append(float(np.abs(with_set - with_data).max()))
            found["error"].append(float(np.abs(with_data - world.means.ravel()).max()))
            drawn = phi[measure.locate(chosen.points)]
            scale = horizon / chosen.size * chosen.counts
            theirs = drawn.T @ (scale[:, None] * drawn) + ridge * np.eye(phi.shape[1])
            for key, matrix in (("spectral Z", theirs), ("spectral data", own)):
                values = np.linalg.eigvalsh(root[:, None] * matrix * root)
                found[key].append(float(np.abs(values - 1.0).max()))
        line: dict[str, float] = {"T": horizon, "Z": size, "gamma": gamma}
        for key, values_ in found.items():
            estimate = Estimate.of(values_)
            line |= {key: estimate.mean, f"{key} s.e.": estimate.standard_error}
        table.append(line)
    return table


def as_text(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    lines = [
        "| setting | T | epsilon | method | tau | error | s.e. |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        epsilon = "" if r.epsilon is None else f"{r.epsilon:g}"
        ridge = "" if r.ridge is None else f"{r.ridge:g}"
        lines.append(
            f"| {r.setting} | {r.rounds:,} | {epsilon} | {r.method} | {ridge} "
            f"| {r.error:.5f} | {r.standard_error:.5f} |"
        )
    return "\n".join(lines)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Error tables of Pavlovic2025 and USCA.")
    parser.add_argument("what", choices=("table", "lemmas"))
    parser.add_argument("--setting", choices=sorted(SETTINGS), default="SE .2 in 1+1")
    parser.add_argument("--rounds", type=int, nargs="+", default=None)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.5, 1.0, 5.0])
    parser.add_argument("--first-seed", type=int, default=FIRST_REPORT_SEED)
    parser.add_argument("--worlds", type=int, default=30)
    parser.add_argument("--hindsight", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds = report_seeds(options.first_seed, options.worlds)
    if options.what == "lemmas":
        counts = options.rounds or [50, 100, 200, 300]
        found: object = lemma_table(options.setting, rounds=counts, seeds=seeds)
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return
    counts = options.rounds or [1000, 10_000, 100_000, 1_000_000]
    rows = error_table(
        options.setting, rounds=counts, epsilons=options.epsilons, seeds=seeds, hindsight=options.hindsight
    )
    if options.json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        return
    sys.stdout.write(as_text(rows) + "\n")
    if len(counts) > 1:
        features = features_of(rkhs_setting(options.setting))
        for method in METHODS[:3]:
            sys.stdout.write(f"\nexponents, {method}: {slopes(rows, features, method)}\n")


if __name__ == "__main__":
    _main()
