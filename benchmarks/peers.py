"""Comparison to other libraries in one run: `python -m benchmarks.peers`.

Time a decision (ask and tell, CPU) and regret, on functions over the unit square, rewards 0 or 1.

*Candidates*: 25 points a round, 1,000 rounds, or 10,000, in which a private policy makes no more releases.
GP-UCB by scikit-learn and BoTorch, whose time grows with what they saw, stands beside our exact one over 300.
*The whole square*: 300 rounds, any point may be chosen.

All that learn on features have the same 20, or 60, of one kernel; all exact ones have that kernel. Every
method is told the same of the world. Upper bounds have the widths that did best of .1, .25, .5, 1 and 2
standard deviations on tuning seeds (from 30,000 on, `--tuning`); report seeds are from 1,000,000 on. A peer
that is not installed is left out, and named; `--add BoTorch` measures the lines of that name later, beside an
`ExactGPUCB` of the same run, and puts them among the others.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpbandits.central import GPBandit, GPTuning
from dpbandits.lab.baselines import ExactGPUCB, FeatureGPUCB, GPUCBTuning
from dpbandits.lab.evaluation import report_seeds
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.studies.releases import world_of

RESULTS = Path(__file__).resolve().parents[1] / "reproduction" / "results" / "peers.json"
KERNEL = SquaredExponential(lengthscale=0.3 * 2**0.5)
ROUNDS, FEW, MANY = 1_000, 300, 10_000
PRIOR, NOISE = 0.25, 0.25
"""Variances of the function and of a reward."""

Chooser = Callable[[Any], int]
Peer = tuple[Callable[[Any], int], Callable[[Any, float], None]]
"""How a row of candidates (n, 2) is chosen, and how the reward of a point (2,) is told."""


def features_of(count: int) -> Any:
    domain = world_of("box-2", 1, 0).domain
    return MercerFeatures(kernel=KERNEL, domain=domain, n_features=count, n_landmarks=max(5 * count, 100))


# -- ours ------------------------------------------------------------------------------------------------


def _asked(policy: Any) -> Peer:
    told: list[Any] = [None]

    def best(candidates: Any) -> int:
        told[0] = policy.ask(candidates)
        return int(told[0].index)

    return best, lambda _, reward: policy.tell(told[0].id, reward) and None


def _shared(world: Any, seed: int) -> dict[str, Any]:
    return {
        "domain": world.domain,
        "reward_range": world.reward_range,
        "horizon": world.horizon,
        "seed": seed,
    }


def private(world: Any, seed: int, *, features: int, release: str) -> Peer:
    policy = GPBandit(
        **_shared(world, seed),
        privacy=JointDP(epsilon=1.0, delta=0.0 if release == "cells" else 1e-6, user_ids=False),
        tuning=GPTuning(release=release, features=features_of(features)),
        noise=SimulatedNoise(seed),
    )
    return _asked(policy)


def open_features(world: Any, seed: int, *, features: int, width: float) -> Peer:
    tuning = GPUCBTuning(ucb_weight=width, prior_variance=PRIOR)
    own = {"features": features_of(features), "tuning": tuning}
    return _asked(FeatureGPUCB(**_shared(world, seed), **own))


def open_exact(world: Any, seed: int, *, width: float) -> Peer:
    return _asked(ExactGPUCB(**_shared(world, seed), kernel=KERNEL, ucb_weight=width))


# -- peers -----------------------------------------------------------------------------------------------


def numpy_loop(world: Any, seed: int, *, features: int, width: float, keeps: bool = False) -> Peer:
    """Return a linear UCB that an hour's work gives: a rank-one update, without checks.

    If it keeps the row of its choice, it computes no features when it is told a reward.
    """
    phi = features_of(features)
    covariance, pull = PRIOR * np.eye(features) * phi.scale**2, np.zeros(features)
    kept: Any = None

    def best(candidates: Any) -> int:
        nonlocal kept
        rows = phi(candidates)
        spread = np.sqrt(np.einsum("ij,ij->i", rows @ covariance, rows))
        chosen = int(np.argmax(rows @ (covariance @ pull) + width * spread))
        kept = rows[chosen]
        return chosen

    def tell(point: Any, reward: float) -> None:
        nonlocal covariance
        row = kept if keeps else phi(point[None])[0]
        moved = covariance @ row
        covariance = covariance - np.outer(moved, moved) / (NOISE + row @ moved)
        pull[:] += row * (reward - 0.5) / NOISE

    return best, tell


def mabwiser(world: Any, seed: int, *, features: int, width: float, rule: str) -> Peer:
    """One arm, whose context is a candidate's features."""
    from mabwiser.mab import MAB, LearningPolicy  # type: ignore[import-not-found, unused-ignore]

    phi, rules = features_of(features), {"LinUCB": LearningPolicy.LinUCB, "LinTS": LearningPolicy.LinTS}
    bandit = MAB(arms=[0], learning_policy=rules[rule](alpha=width), seed=seed)
    bandit.fit([0], [0.0], np.zeros((1, features)))

    def best(candidates: Any) -> int:
        return int(np.argmax([row[0] for row in bandit.predict_expectations(phi(candidates))]))

    return best, lambda point, reward: bandit.partial_fit([0], [reward - 0.5], phi(point[None])) and None


def _refitted(fit: Callable[[Any, Any], Any], predict: Callable[[Any, Any], Any], width: float) -> Peer:
    """A model that is fitted anew from all rewards before every choice."""
    inputs: list[Any] = []
    answers: list[float] = []

    def best(candidates: Any) -> int:
        if not inputs:
            return 0
        mean, spread = predict(fit(np.array(inputs), np.array(answers)), candidates)
        return int(np.argmax(mean + width * spread))

    def tell(point: Any, reward: float) -> None:
        inputs.append(point)
        answers.append(reward - 0.5)

    return best, tell


def sklearn(world: Any, seed: int, *, width: float) -> Peer:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(PRIOR, "fixed") * RBF(KERNEL.lengthscale)
    model = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
    return _refitted(model.fit, lambda fitted, rows: fitted.predict(rows, return_std=True), width)


def botorch(world: Any, seed: int, *, width: float) -> Peer:
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel, ScaleKernel

    torch.set_num_threads(1)

    def fit(inputs: Any, answers: Any) -> Any:
        X, y = torch.tensor(inputs), torch.tensor(answers)[:, None]
        kernel = ScaleKernel(RBFKernel())
        kernel.outputscale, kernel.base_kernel.lengthscale = PRIOR, KERNEL.lengthscale
        noise = torch.full_like(y, NOISE)
        return SingleTaskGP(X, y, noise, covar_module=kernel, outcome_transform=None).eval()

    def predict(model: Any, rows: Any) -> Any:
        with torch.no_grad():
            law = model.posterior(torch.tensor(rows)[:, None])
            return law.mean[:, 0, 0].numpy(), law.variance[:, 0, 0].sqrt().numpy()

    return _refitted(fit, predict, width)


def random(world: Any, seed: int) -> Peer:
    rng = np.random.default_rng(seed)
    return (lambda candidates: int(rng.integers(len(candidates)))), (lambda *_: None)


# -- over the whole square -------------------------------------------------------------------------------


def over_all(policy: Any) -> tuple[Callable[[], Any], Callable[[float], None]]:
    told: list[Any] = [None]

    def where() -> Any:
        told[0] = policy.ask()
        return told[0].action

    return where, lambda reward: policy.tell(told[0].id, reward) and None


def optuna_over_all(world: Any, seed: int, sampler: str) -> tuple[Callable[[], Any], Callable[[float], None]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {"TPE": optuna.samplers.TPESampler, "CMA-ES": optuna.samplers.CmaEsSampler}
        study = optuna.create_study(direction="maximize", sampler=made[sampler](seed=seed))
    kept: list[Any] = [None]

    def where() -> Any:
        kept[0] = study.ask()
        return np.array([kept[0].suggest_float(name, 0.0, 1.0) for name in "xy"])

    return where, lambda reward: study.tell(kept[0], reward) and None


WIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0)
LINES: dict[str, tuple[Callable[..., Peer], int, dict[str, Any]]] = {
    "numpy loop, 20 features": (numpy_loop, ROUNDS, {"features": 20}),
    "numpy loop that keeps its row, 20 features": (numpy_loop, ROUNDS, {"features": 20, "keeps": True}),
    "FeatureGPUCB, 20 features": (open_features, ROUNDS, {"features": 20}),
    "GPBandit, features, (1, 1e-6)": (private, ROUNDS, {"features": 20, "release": "features"}),
    "GPBandit, cells, (1, 0)": (private, ROUNDS, {"features": 16, "release": "cells"}),
    "MABWiser LinUCB, 20 features": (mabwiser, ROUNDS, {"features": 20, "rule": "LinUCB"}),
    "MABWiser LinTS, 20 features": (mabwiser, ROUNDS, {"features": 20, "rule": "LinTS"}),
    "numpy loop, 60 features": (numpy_loop, ROUNDS, {"features": 60}),
    "numpy loop that keeps its row, 60 features": (numpy_loop, ROUNDS, {"features": 60, "keeps": True}),
    "FeatureGPUCB, 60 features": (open_features, ROUNDS, {"features": 60}),
    "GPBandit, 60 features, (1, 1e-6)": (private, ROUNDS, {"features": 60, "release": "features"}),
    "MABWiser LinUCB, 60 features": (mabwiser, ROUNDS, {"features": 60, "rule": "LinUCB"}),
    "FeatureGPUCB, 60 features, many rounds": (open_features, MANY, {"features": 60}),
    "GPBandit, 60 features, (1, 1e-6), many rounds": (
        private,
        MANY,
        {"features": 60, "release": "features"},
    ),
    "random": (random, ROUNDS, {}),
    "random, 10,000 rounds": (random, MANY, {}),
    "ExactGPUCB": (open_exact, FEW, {}),
    "scikit-learn GP-UCB": (sklearn, FEW, {}),
    "BoTorch GP-UCB": (botorch, FEW, {}),
    "random, 300 rounds": (random, FEW, {}),
}
"""Peers in the order in which they run for each seed; those that are compared most closely are neighbours."""
NEEDS = {mabwiser: "mabwiser", sklearn: "sklearn", botorch: "botorch"}
WITHOUT_WIDTH = (private, random)
CHOSEN = {
    "numpy loop": 0.5,
    "FeatureGPUCB": 0.5,
    "ExactGPUCB": 0.5,
    "MABWiser LinUCB": 0.25,
    "MABWiser LinTS": 0.1,
    "scikit-learn": 0.5,
    "BoTorch": 0.5,
}
"""Widths that did best on tuning seeds."""
SQUARE = ("GPBandit, features, (1, 1e-6)", "FeatureGPUCB, 20 features", "Optuna TPE", "random")


def _nothing(reward: float) -> None:
    """Learn nothing from it."""


def _chosen(name: str) -> float:
    return next(width for start, width in CHOSEN.items() if name.startswith(start))


def one(name: str, seed: int, width: float | None = None) -> tuple[float, float]:
    """Milliseconds of CPU a decision, and regret."""
    make, rounds, own = LINES[name]
    world = world_of("box-2", rounds, seed)
    if make not in WITHOUT_WIDTH:
        own = own | {"width": _chosen(name) if width is None else width}
    sets, means = world.decision_sets(0, rounds), world.mean_rewards(0, rounds)
    best, tell = make(world, seed, **own)
    spent, regret = 0.0, 0.0
    for t in range(rounds):
        began = time.process_time()
        index = best(sets[t])
        spent += time.process_time() - began
        reward = float(world.rewards(t, t + 1, np.array([index]))[0])
        regret += float(means[t].max() - means[t, index])
        began = time.process_time()
        tell(sets[t, index], reward)
        spent += time.process_time() - began
    return 1e3 * spent / rounds, regret


def over_the_square(name: str, seed: int) -> tuple[float, float]:
    """Return time and regret if any point may be chosen."""
    world = world_of("box-2", FEW, seed)
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 101)] * 2), axis=-1)
    highest, rng = float(world.mean(grid).max()), np.random.default_rng(seed)
    if name == "random":
        where, tell = (lambda: rng.random(2)), _nothing
    elif name == "Optuna TPE":
        where, tell = optuna_over_all(world, seed, "TPE")
    elif name.startswith("FeatureGPUCB"):
        chosen = GPUCBTuning(ucb_weight=CHOSEN["FeatureGPUCB"], prior_variance=PRIOR)
        own = {"features": features_of(20), "tuning": chosen}
        where, tell = over_all(FeatureGPUCB(**_shared(world, seed), **own))
    else:
        privacy = JointDP(epsilon=1.0, delta=1e-6, user_ids=False)
        tuning = GPTuning(release="features", features=features_of(20))
        own = {"tuning": tuning, "noise": SimulatedNoise(seed), "privacy": privacy}
        where, tell = over_all(GPBandit(**_shared(world, seed), **own))
    spent, regret = 0.0, 0.0
    for _ in range(FEW):
        began = time.process_time()
        point = where()
        spent += time.process_time() - began
        mean = float(np.clip(world.mean(point), 0.0, 1.0))
        regret += highest - mean
        reward = float(rng.random() < mean)
        began = time.process_time()
        tell(reward)
        spent += time.process_time() - began
    return 1e3 * spent / FEW, regret


def row(name: str, where: str, rounds: int, runs: list[tuple[float, float]]) -> dict[str, Any]:
    times, regrets = zip(*runs, strict=True)
    error = statistics.stdev(regrets) / len(regrets) ** 0.5 if len(regrets) > 1 else None
    found = {"regret": statistics.fmean(regrets), "standard_error": error, "ms": statistics.median(times)}
    regret = f"{found['regret']:.1f} ± {error or math.nan:.1f}"
    print(f"| {name} | {where} | {rounds} | {found['ms']:.3f} | {regret} |", flush=True)
    return {"name": name, "where": where, "rounds": rounds, "seeds": len(runs), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--tuning", action="store_true", help="every width on tuning seeds; nothing is stored"
    )
    parser.add_argument("--only", default="", help="lines whose name has this")
    parser.add_argument("--add", help="measure lines whose name has this, and add them to --out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    seeds = report_seeds(30_000 if options.tuning else 1_000_000, options.seeds, tuning=options.tuning)
    kept = json.loads(options.out.read_text()) if options.out.exists() else []
    missing, measured = [], []
    for name, (make, rounds, _) in LINES.items():
        needed = NEEDS.get(make)
        if (options.add or options.only) not in name:
            continue
        if needed is not None and importlib.util.find_spec(needed) is None:
            print(f"{name} stays as it was measured before: {needed} is not installed", flush=True)
            missing.append(name)
            continue
        widths = WIDTHS if options.tuning and make not in WITHOUT_WIDTH else (None,)
        measured += [(name, rounds, width) for width in widths]
    # Seed by seed, so that all lines have the same share of whatever else the machine does.
    runs = [[one(name, int(seed), width) for name, _, width in measured] for seed in seeds]
    rows = []
    for (name, rounds, width), found in zip(measured, zip(*runs, strict=True), strict=True):
        if width is not None:
            print(f"width {width}:", end=" ")
        rows.append(row(name, "candidates", rounds, list(found)))
    if options.add and rows and not options.tuning:
        beside = row("ExactGPUCB", "candidates", FEW, [one("ExactGPUCB", int(seed)) for seed in seeds])
        added = {one["name"]: one | {"beside_ms": beside["ms"]} for one in rows}
        before = [one for one in kept if one["name"] not in added]
        order = list(LINES)
        first = min(order.index(name) for name in added)
        later = [one["where"] != "candidates" or order.index(one["name"]) > first for one in before]
        at = later.index(True) if True in later else len(before)
        options.out.write_text(json.dumps([*before[:at], *added.values(), *before[at:]], indent=1) + "\n")
    elif not options.tuning and not options.only and not options.add:
        rows += [one for one in kept if one["name"] in missing]
        rows.sort(key=lambda one: list(LINES).index(one["name"]))
        rows += [row(name, "square", FEW, [over_the_square(name, int(s)) for s in seeds]) for name in SQUARE]
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
