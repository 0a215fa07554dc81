"""Non-stationarity and local learners: `python -m reproduction.studies.drift_local`.

The study measures the gain of `forget` if a world changes into another at half time, at once or over a fifth
of the users. It also measures the loss if nothing changes. Contexts have two columns, there are four arms,
and each user sends one report (world `smooth` of `reproduction/studies/drift.py`). There are 40,000 or
160,000 users at epsilon 2 and 4.

| policy | description |
|---|---|
| `forget` | the learner `questions` with a half-life of a share `HALF_LIFE` of all people |
| `stays` | the same without |
| `knows` | the same without, begun anew at half time: crude, and only for who knows when |
| `restart` | the same without, begun anew every two half-lives |
| `smooth`, `smooth stays` | the learner `smooth`, with and without |
| `ldp` | after Gajane et al. 2018: randomised response, upper bounds of cells over two half-lives |

Versions are a 200th of the people. `--tuning` takes seeds from 20,000 on, by which `HALF_LIFE` was chosen
among --half-life; else seeds are from 1,000,000 on. Every run is written to `--runs` when it is over, and not
made again while the code that it could depend on is the same. Shares are of the uplift that the best arm has
over a random one, by expected rewards.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits
from dpbandits.domains import Arms, Box, Product
from dpbandits.lab.evaluation import report_seeds
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.local import Spec, SpecTuning
from dpbandits.privacy import LocalDP
from reproduction.studies.drift import CHANGES, LDP_BATCH, CorruptUCB, sections

PEOPLE, EPSILONS, ARMS, VERSIONS = (40_000, 160_000), (2.0, 4.0), 4, 200
HALF_LIFE = 0.1
"""Half-life as a share of all users; chosen on tuning seeds."""
POLICIES = ("forget", "stays", "knows", "restart", "smooth", "smooth stays", "ldp")
SEEDS, TUNING_SEEDS = range(1_000_000, 1_000_005), range(20_000, 20_003)
PARTS = {"before": (0.0, 0.5), "after": (0.5, 1.0), "last": (0.8, 1.0)}
ROOT = Path(__file__).resolve().parents[2]
RESULTS, RUNS = ROOT / "reproduction" / "results" / "drift-local.json", ROOT / "build" / "drift-local.jsonl"
CUBE = Box(low=[0.0, 0.0], high=[1.0, 1.0])


class Came:
    """People who came, in their order: the world of `simulate` for one life of a policy.

    Args:
        contexts: (n, 2).
        means: (n, K) rewards of the arms.
    """

    dim, n_arms = 2, ARMS

    def __init__(self, contexts: Any, means: Any) -> None:
        self.contexts, self.means = contexts, means

    @classmethod
    def of(cls, seed: int, change: str, people: int) -> "Came":
        rng = np.random.default_rng([seed, 3])
        contexts = rng.random((people, 2))
        rows = np.repeat(contexts[:, None], ARMS, axis=1)
        codes = np.broadcast_to(np.arange(ARMS)[None, :, None], (people, ARMS, 1))
        points = np.concatenate([rows, codes], axis=2)
        own: dict[str, Any] = {"functions": ARMS, "relevant": 2}
        means = sections(seed, "before", 2, **own)(points)
        if CHANGES[change] is not None:
            begin, end = CHANGES[change]
            when = np.arange(people) / people
            later = np.clip((when - begin) / max(end - begin, 1.0 / people), 0.0, 1.0)
            after = sections(seed, "after", 2, **own)(points)
            means = np.where((rng.random(people) < later)[:, None], after, means)
        return cls(contexts, means)

    def draw(self, n: int, rng: Any) -> tuple[Any, Any]:
        return self.contexts[:n], self.means[:n]

    def life(self, begin: int, end: int) -> "Came":
        return Came(self.contexts[begin:end], self.means[begin:end])


def lost(world: Came, epsilon: float, every: int, seed: int, *, learner: Any, constants: Any) -> Any:
    """(VERSIONS,) regret of the versions, the policy begun anew every so many people."""
    people = len(world.means)
    regrets = []
    for begin in range(0, people, every):
        life = world.life(begin, min(begin + every, people))
        made = Spec(
            contexts=CUBE,
            arms=range(ARMS),
            privacy=LocalDP(epsilon=epsilon),
            learner=learner,
            tuning=SpecTuning(reports_per_version=people // VERSIONS, constants=constants),
        )
        regrets.append(simulate(made, life, n_users=len(life.means), seed=seed + begin).regret)
    return np.concatenate(regrets)


def lost_by_cells(world: Came, epsilon: float, window: int, seed: int) -> Any:
    """(VERSIONS,) regret of randomised response over a window."""
    people = len(world.means)
    policy = CorruptUCB(Product(CUBE, Arms(ARMS)), window, seed, epsilon=epsilon, rounds=people)
    luck, regret = np.random.default_rng([seed, 4]).random(people), np.empty(people)
    codes = np.broadcast_to(np.arange(ARMS)[None, :, None], (LDP_BATCH, ARMS, 1))
    for begin in range(0, people, LDP_BATCH):
        here = slice(begin, begin + LDP_BATCH)
        points = np.concatenate([np.repeat(world.contexts[here, None], ARMS, axis=1), codes], axis=2)
        means = world.means[here]
        best = policy.best(points)
        rows = np.arange(LDP_BATCH)
        policy.learn(points[rows, best], (luck[here] < means[rows, best]).astype(float))
        regret[here] = means.max(axis=1) - means[rows, best]
    return regret.reshape(VERSIONS, -1).sum(axis=1)


def run(people: int, epsilon: float, change: str, policy: str, seed: int, share: float) -> dict[str, float]:
    """Shares of one run: before half time, after it, and in the last fifth."""
    world, half_life = Came.of(seed, change, people), round(share * people)
    learner = "smooth" if policy.startswith("smooth") else "questions"
    if policy == "ldp":
        regret = lost_by_cells(world, epsilon, 2 * half_life, seed)
    else:
        every = {"knows": people // 2, "restart": 2 * half_life}.get(policy, people)
        constants = {"forget": half_life} if policy in ("forget", "smooth") else {}
        regret = lost(world, epsilon, every, seed, learner=learner, constants=constants)
    uplift = (world.means.max(axis=1) - world.means.mean(axis=1)).reshape(VERSIONS, -1).sum(axis=1)
    found = {}
    for part, (begin, end) in PARTS.items():
        at = slice(round(begin * VERSIONS), round(end * VERSIONS))
        found[part] = round(float(1.0 - regret[at].sum() / uplift[at].sum()), 4)
    return found


def code_version() -> str:
    """Changes with what a run could depend on."""
    root, here = Path(dpbandits.__file__).parent, Path(__file__)
    digest = hashlib.sha256(here.read_bytes() + here.with_name("drift.py").read_bytes())
    for name in ("local", "models", "privacy"):
        for path in sorted((root / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", nargs="*", type=int, choices=PEOPLE, default=list(PEOPLE))
    parser.add_argument("--epsilon", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--change", nargs="*", choices=list(CHANGES), default=list(CHANGES))
    parser.add_argument("--policy", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--tuning", action="store_true", help="tuning seeds; nothing is stored")
    parser.add_argument("--half-life", nargs="*", type=float, default=[HALF_LIFE])
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    if not chosen.tuning and chosen.half_life != [HALF_LIFE]:
        parser.error("--half-life: other half-lives are for --tuning")
    seeds = report_seeds((TUNING_SEEDS if chosen.tuning else SEEDS)[0], chosen.seeds, tuning=chosen.tuning)
    version = code_version()
    chosen.runs.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.runs.read_text(encoding="utf-8").splitlines() if chosen.runs.exists() else []
    known = {tuple(one["cell"]): one["found"] for one in map(json.loads, lines) if one["version"] == version}
    cells = [
        (people, epsilon, change, policy, share, int(seed))
        for seed in seeds
        for people in chosen.people
        for epsilon in chosen.epsilon
        for change in chosen.change
        for policy in chosen.policy
        for share in chosen.half_life
    ]
    with chosen.runs.open("a", encoding="utf-8") as out:
        for people, epsilon, change, policy, share, seed in cells:
            cell = (people, epsilon, change, policy, share, seed)
            if cell not in known:
                known[cell] = run(people, epsilon, change, policy, seed, share)
                record = {"cell": cell, "found": known[cell], "version": version}
                out.write(json.dumps(record) + "\n")
                out.flush()
    rows = []
    for line in dict.fromkeys(cell[:-1] for cell in cells):
        found = [known[cell] for cell in cells if cell[:-1] == line]
        row = dict(zip(("people", "epsilon", "change", "policy", "half_life"), line, strict=True))
        row |= {"first_seed": int(seeds[0]), "seeds": len(found)}
        for part in PARTS:
            shares = np.array([one[part] for one in found])
            error = float(shares.std(ddof=1) / len(shares) ** 0.5) if len(shares) > 1 else None
            row |= {part: round(float(shares.mean()), 4), f"{part}_error": error and round(error, 4)}
        rows.append(row)
        print(json.dumps(row), flush=True)
    if not chosen.tuning:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
