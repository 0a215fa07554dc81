"""Non-stationarity and central policies: `python -m reproduction.studies.drift --jobs 2`.

The study measures the gain of `GPTuning(forget=...)` if a world changes into another at half time, at once or
over a fifth of the rounds. It also measures the loss if nothing changes. T = 50,000 and (epsilon, delta) is
(1, 1e-6); cells have pure epsilon 1.

| world | who comes | kind of release |
|---|---|---|
| `box` | 25 points of a box of two columns a round | features |
| `cells` | the same | cells |
| `smooth` | contexts of two columns, four arms | features |
| `people` | contexts of six columns, of which two matter, four arms | marginals |

| policy | what it is |
|---|---|
| `forget` | `GPBandit` with a half-life of 5,000 rounds |
| `stays` | the same without |
| `restart` | the same without, begun anew every two half-lives |
| `open` | nobody is protected: GP-UCB on the same features, with the same half-life |
| `window` | nobody is protected: GP-UCB on the same features of the last two half-lives |
| `ldp` | after Gajane et al. 2018: randomised response, upper bounds of cells over two half-lives |
| `histogram` | a crude private histogram, which forgets nothing |

`--tuning` takes the seeds from 20,000 on, by which the blocks of a half-life and the cells and bounds of
`ldp` were chosen; else seeds are from 1,000,000 on. Every run is written to `--runs` when it is over, and not
made again while the code that it could depend on is the same. Shares are of the uplift that the best
candidate has over a random one, by expected rewards.
"""

import argparse
import hashlib
import json
import os
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

from dpbandits.central import GPBandit, GPTuning
from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import DPBanditsWarning
from dpbandits.lab import twin
from dpbandits.lab.baselines import CellHistogram
from dpbandits.lab.baselines.cell_histogram import PublicGrid
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.worlds import FunctionBandit
from dpbandits.lab.worlds.functions import UniformCandidates
from dpbandits.models.gaussian_process import FeatureGP
from dpbandits.models.kernels import Indicator, SquaredExponential
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.changing import Changing
from reproduction.studies.releases import code_version

ROUNDS, EPSILON, DELTA = 50_000, 1.0, 1e-6
CHANGES = {"none": None, "abrupt": (0.5, 0.5), "slow": (0.4, 0.6)}
HALF_LIFE = 5_000
WORLDS = ("box", "cells", "smooth", "people")
POLICIES = ("forget", "stays", "restart", "open", "window", "ldp", "histogram")
GROWTH = 0.1
"""Growth of the batches after which policies without privacy learn."""
LDP_CELLS, LDP_WIDTH, LDP_BATCH = 16, 0.25, 100
"""Cells an arm, standard deviations above the mean, and rounds between two looks at the counts."""
SEEDS, TUNING_SEEDS = range(1_000_000, 1_000_020), range(20_000, 20_008)
RESULTS = Path(__file__).resolve().parents[1] / "results" / "drift.json"
RUNS = Path(__file__).resolve().parents[2] / "build" / "drift.jsonl"


def sections(seed: int, stream: str, dim: int, *, functions: int, relevant: int) -> Any:
    """Mean rewards (..., dim [+ 1]) -> (...): .5 and smooth signed bumps, for every arm others."""
    coins = PublicCoins(seed)
    drawn = coins.uniform(f"benchmark/{stream}", 0, 6 * functions, relevant + 1).reshape(functions, 6, -1)
    centres, weights = drawn[..., :relevant], 2.0 * drawn[..., relevant] - 1.0

    def mean(points: Any) -> Any:
        x = points[..., None, :relevant]
        which = points[..., -1].astype(int) if functions > 1 else np.zeros(points.shape[:-1], dtype=int)
        distance = ((x - centres[which]) ** 2).sum(axis=-1)
        return np.clip(0.5 + 0.35 * (weights[which] * np.exp(-distance / 0.18)).sum(axis=-1), 0.02, 0.98)

    return mean


class PeopleAndArms:
    """Contexts (B, K, d + 1): one person a round, with every arm."""

    def __init__(self, dim: int, arms: int) -> None:
        self.dim, self.arms = dim, arms

    def __call__(self, coins: PublicCoins, start: int, stop: int, /) -> Any:
        people = coins.uniform("environment/candidates", start, stop, self.dim)
        rows = np.repeat(people[:, None], self.arms, axis=1)
        codes = np.broadcast_to(np.arange(self.arms)[None, :, None], (*rows.shape[:2], 1))
        return np.concatenate([rows, codes], axis=2)


def world_of(name: str, change: str, seed: int) -> Any:
    """The world of this name under a seed."""
    dim = 6 if name == "people" else 2
    box = Box(low=np.zeros(dim), high=np.ones(dim))
    arms = 1 if name in ("box", "cells") else 4
    domain: Any = box if arms == 1 else Product(box, Arms(arms))
    law: Any = UniformCandidates(domain=box, n_candidates=25) if arms == 1 else PeopleAndArms(dim, arms)
    own = {"functions": arms, "relevant": 2}
    before = FunctionBandit(
        name=name,
        domain=domain,
        mean=sections(seed, "before", dim, **own),
        candidates=law,
        n_candidates=25 if arms == 1 else arms,
        horizon=ROUNDS,
        seed=seed,
    )
    if CHANGES[change] is None:
        return before
    begin, end = (round(share * ROUNDS) for share in CHANGES[change])
    after = replace(before, mean=sections(seed, "after", dim, **own))
    return Changing(before=before, after=after, begin=begin, end=end)


def ours(world: Any, name: str, seed: int, half_life: int | None, *, horizon: int = ROUNDS) -> GPBandit:
    kind = {"cells": "cells", "people": "marginals"}.get(name, "features")
    kernel: Any = SquaredExponential(lengthscale=0.3)
    if name == "smooth":
        kernel = SquaredExponential(lengthscale=0.3, columns=[0, 1]) * Indicator(columns=[2])
    shared: dict[str, Any] = {} if name == "people" else {"kernel": kernel}
    return GPBandit(
        domain=world.domain,
        reward_range=world.reward_range,
        horizon=horizon,
        privacy=JointDP(epsilon=EPSILON, delta=0.0 if kind == "cells" else DELTA, user_ids=False),
        tuning=GPTuning(release=kind, forget=half_life),
        noise=SimulatedNoise(seed),
        seed=seed,
        **shared,
    )


class Anew:
    """Begun anew every so many rounds: nothing is known then, and nothing is stale.

    Everybody is in one life only, so that the promise of one is the promise of all.
    """

    user_ids = False

    def __init__(self, make: Any, every: int) -> None:
        self._make, self._every, self._asked = make, every, 0
        self._policy: Any = None
        ends = make(0).blocks
        self.batch_boundaries = tuple(
            life + end for life in range(0, ROUNDS, every) for end in (*ends, every) if life + end <= ROUNDS
        )

    def ask_batch(self, candidates: Any, *, users: None = None) -> Any:
        if self._asked % self._every == 0:
            self._policy = self._make(self._asked // self._every)
        self._asked += len(candidates)
        return self._policy.ask_batch(candidates)

    def tell_batch(self, ids: Any, rewards: Any) -> None:
        self._policy.tell_batch(ids, rewards)


class Windowed:
    """Base of policies that learn from a window of the last rounds, at given rounds."""

    user_ids = False
    batch_boundaries: tuple[int, ...]

    def ask_batch(self, candidates: Any, *, users: None = None) -> Any:
        indices = self.best(candidates)
        self._chosen = candidates[np.arange(len(candidates)), indices]
        return SimpleNamespace(ids=indices, indices=indices)

    def tell_batch(self, ids: Any, rewards: Any) -> None:
        self.learn(self._chosen, rewards)


class WindowUCB(Windowed):
    """GP-UCB on the raw rewards of the last rounds."""

    def __init__(self, like: Any, window: int) -> None:
        self.features, self.like, self.window = like.features, like, window
        self.batch_boundaries = like.batch_boundaries
        self._phi, self._y = np.zeros((0, like.features.n_features)), np.zeros(0)
        self._model = self._empty()

    def _empty(self) -> FeatureGP:
        return FeatureGP(
            self.features.n_features,
            prior_variance=self.like.tuning.prior_variance * self.features.scale**2,
            noise_variance=self.like.tuning.noise_variance,
        )

    def best(self, candidates: Any) -> Any:
        mean, spread = self._model.predict_from_features(self.features(candidates))
        return (mean + self.like.tuning.ucb_weight * spread).argmax(axis=1)

    def learn(self, points: Any, rewards: Any) -> None:
        self._phi = np.concatenate([self._phi, self.features(points)])[-self.window :]
        self._y = np.concatenate([self._y, rewards - 0.5])[-self.window :]
        self._model = self._empty()
        self._model.add_batch(self._phi, self._y)


class CorruptUCB(Windowed):
    """Devices flip their reward with chance 1/(1 + e^epsilon); a cell has a debiased mean and a bound."""

    def __init__(
        self, domain: Any, window: int, seed: int, *, epsilon: float = EPSILON, rounds: int = ROUNDS
    ) -> None:
        arms = domain.parts[-1].n_arms if isinstance(domain, Product) else 1
        self._grid = PublicGrid(domain=domain, most=LDP_CELLS * arms)
        self._kept = np.exp(epsilon) / (1.0 + np.exp(epsilon))
        self._rng = np.random.default_rng(seed)
        self._recent: deque[Any] = deque(maxlen=window // LDP_BATCH)
        self.batch_boundaries = tuple(range(LDP_BATCH, rounds + 1, LDP_BATCH))

    def best(self, candidates: Any) -> Any:
        sums, counts = sum(self._recent, np.zeros((2, self._grid.n_cells)))
        seen = np.maximum(counts, 1e-9)
        gain = 2.0 * self._kept - 1.0
        mean = (sums / seen - (1.0 - self._kept)) / gain
        bound = np.clip(mean, 0.0, 1.0) + LDP_WIDTH * np.sqrt(np.log(1.0 + counts.sum()) / seen) / gain
        bound = np.where(counts > 0.0, bound, np.inf)
        cells = self._grid.locate(candidates.reshape(-1, candidates.shape[-1]))
        scores = bound[cells].reshape(candidates.shape[:2])
        return np.where(np.isinf(scores), 1e9, scores + 1e-9 * self._rng.random(scores.shape)).argmax(axis=1)

    def learn(self, points: Any, rewards: Any) -> None:
        told = np.where(self._rng.random(len(rewards)) < self._kept, rewards, 1.0 - rewards)
        cells, size = self._grid.locate(points), self._grid.n_cells
        self._recent.append(
            np.stack([np.bincount(cells, told, minlength=size), np.bincount(cells, minlength=size)])
        )


def policy_of(name: str, world: Any, world_name: str, seed: int) -> Any:
    window = 2 * HALF_LIFE
    if name in ("forget", "stays"):
        return ours(world, world_name, seed, HALF_LIFE if name == "forget" else None)
    if name == "restart":
        return Anew(lambda life: ours(world, world_name, seed + life, None, horizon=window), window)
    if name == "ldp":
        return CorruptUCB(world.domain, window, seed)
    if name == "histogram":
        return CellHistogram(
            domain=world.domain,
            reward_range=world.reward_range,
            horizon=ROUNDS,
            privacy=JointDP(epsilon=EPSILON, delta=0.0, user_ids=False),
            noise=SimulatedNoise(seed),
            seed=seed,
        )
    like = twin(ours(world, world_name, seed, HALF_LIFE), update_growth=GROWTH)
    return like if name == "open" else WindowUCB(like, window)


def simulate(world_name: str, change: str, name: str, seed: int) -> dict[str, Any]:
    """Shares of one run: before half time, after it, and in the last fifth."""
    world = world_of(world_name, change, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPBanditsWarning)
        found = run(policy_of(name, world, world_name, seed), world)
    shares = {}
    for part, (begin, end) in {"before": (0.0, 0.5), "after": (0.5, 1.0), "last": (0.8, 1.0)}.items():
        here = slice(round(begin * ROUNDS), round(end * ROUNDS))
        random = found.uniform[here].mean()
        shares[part] = (found.expected[here].mean() - random) / (found.best[here].mean() - random)
    key = {"world": world_name, "change": change, "policy": name, "seed": seed}
    return key | {part: float(share) for part, share in shares.items()} | {"seconds": found.seconds}


def row_of(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    row = {name: records[0][name] for name in ("world", "change", "policy")} | {"seeds": len(records)}
    row["first_seed"] = min(record["seed"] for record in records)
    for part in ("before", "after", "last"):
        shares = np.array([record[part] for record in records])
        row[part] = float(shares.mean())
        row[f"{part}_error"] = float(shares.std(ddof=1) / len(shares) ** 0.5) if len(shares) > 1 else None
    return row | {"seconds": float(np.mean([record["seconds"] for record in records]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--world", nargs="*", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--change", nargs="*", choices=list(CHANGES), default=list(CHANGES))
    parser.add_argument("--policy", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--tuning", action="store_true", help="tuning seeds; nothing is stored")
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    seeds = report_seeds((TUNING_SEEDS if options.tuning else SEEDS)[0], options.seeds, tuning=options.tuning)
    version = code_version() + str(hash_of(Path(__file__)))
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    if options.runs.exists():
        for record in map(json.loads, options.runs.read_text().splitlines()):
            if record["version"] == version:
                known[record["world"], record["change"], record["policy"], record["seed"]] = record
    wanted = [
        (world, change, policy, int(seed))
        for seed in seeds
        for world in options.world
        for change in options.change
        for policy in options.policy
    ]
    missing = [cell for cell in wanted if cell not in known]
    print(f"{len(missing)} runs of code {version}", flush=True)
    made = Parallel(n_jobs=options.jobs, return_as="generator")(delayed(simulate)(*cell) for cell in missing)
    with options.runs.open("a") as out:
        for cell, record in zip(missing, made, strict=True):
            known[cell] = record
            out.write(json.dumps(record | {"version": version}) + "\n")
            out.flush()
    lines = dict.fromkeys(cell[:3] for cell in wanted)
    rows = [row_of([known[cell] for cell in wanted if cell[:3] == line]) for line in lines]
    if not options.tuning:
        old = json.loads(options.out.read_text()) if options.out.exists() else []
        rows += [row for row in old if (row["world"], row["change"], row["policy"]) not in lines]
        order = {name: place for place, name in enumerate((*WORLDS, *CHANGES, *POLICIES))}
        rows.sort(key=lambda row: [order[row[name]] for name in ("world", "change", "policy")])
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("| world | change | policy | before | after | last fifth | seeds |")
    for row in rows:
        parts = " | ".join(
            f"{row[part]:.3f} ± {row[f'{part}_error'] or 0.0:.3f}" for part in ("before", "after", "last")
        )
        print(f"| {row['world']} | {row['change']} | {row['policy']} | {parts} | {row['seeds']} |")


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


if __name__ == "__main__":
    from reproduction.studies import drift  # by its name, so that workers find it

    drift.main()
