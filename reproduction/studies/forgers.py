"""Forgers in simulated crowds: regret of honest people at epsilon 1, with and without `Robust`.

    python -m reproduction.studies.forgers --reps 40 --out reproduction/results/forgers.json

A run that is there already is not made again. The arm that is promoted is the worst on average, the one that
is demoted the best at every context (reversed: and all others promoted). Forgers send the strongest report
that a device could have sent (`reproduction.forgers`), spread over the run or in a burst from its middle.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from dpbandits.local import Robust
from reproduction.forgers import ForgedCrowd, Forgers
from reproduction.local_worlds import world
from reproduction.ma2025.local import unit_spec

USERS, EPSILON, FIRST_SEED = 40_000, 1.0, 9_000_000
SERVERS = {
    "plain": None,
    "robust": Robust(bytes(32)),
    "medians of 3": Robust(bytes(32), groups=3),
}
ATTACKS = {
    "nobody": (0.0, "promote", "spread"),
    "1% promote": (0.01, "promote", "spread"),
    "5% promote": (0.05, "promote", "spread"),
    "1% demote": (0.01, "demote", "spread"),
    "5% demote": (0.05, "demote", "spread"),
    "5% reverse": (0.05, "reverse", "spread"),
    "5% burst": (0.05, "promote", "burst"),
}
PLAN = [
    *(("questions", "robust", attack) for attack in ATTACKS),
    *(("questions", "plain", attack) for attack in ATTACKS),
    *(("smooth", server, attack) for server in ("plain", "robust") for attack in ATTACKS),
    *(("questions", "medians of 3", attack) for attack in ATTACKS if "1%" not in attack),
    *(("smooth", "medians of 3", attack) for attack in ("nobody", "5% promote")),
]


def best_of(one):
    """The best arm at every point."""
    return lambda points: one.mean_rewards(points).argmax(axis=1)


def run(name, learner, server, attack, seed):
    """Average regret of the honest, and the anomaly that the operator sees."""
    one, (share, aim, when) = world(name), ATTACKS[attack]
    _, means = one.draw(200_000, np.random.default_rng(FIRST_SEED))
    worst = int(means.mean(axis=0).argmin())
    found = ForgedCrowd(
        unit_spec(one, epsilon=EPSILON, learner=learner),
        one,
        n_users=USERS,
        seed=seed,
        forgers=Forgers(share=share, arm=worst if aim == "promote" else best_of(one), aim=aim, when=when),
        robust=SERVERS[server],
    ).run()
    return round(found.average_regret, 5), round(found.anomaly, 2)


def main():
    """Fill in what is missing, and write after every cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--world", action="append", choices=["ma", "diagonal"])
    parser.add_argument("--learner", action="append", choices=["questions", "smooth"])
    parser.add_argument("--server", action="append", choices=list(SERVERS))
    parser.add_argument("--attack", action="append", choices=list(ATTACKS))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text()) if chosen.out.exists() else []
    done = {(row["world"], row["learner"], row["server"], row["attack"]): row for row in rows}
    for rep in range(chosen.reps):
        for learner, server, attack in PLAN:
            if learner not in (chosen.learner or [learner]) or server not in (chosen.server or [server]):
                continue
            if attack not in (chosen.attack or [attack]):
                continue
            for name in chosen.world or ("ma", "diagonal"):
                where = (name, learner, server, attack)
                if where not in done:
                    of = dict(zip(("world", "learner", "server", "attack"), where, strict=True))
                    settings = {"users": USERS, "epsilon": EPSILON, "first_seed": FIRST_SEED}
                    done[where] = of | settings | {"regret": [], "anomaly": []}
                row = done[where]
                if len(row["regret"]) > rep:
                    continue
                regret, anomaly = run(*where, FIRST_SEED + rep)
                row["regret"].append(regret)
                row["anomaly"].append(anomaly)
                chosen.out.write_text(json.dumps(list(done.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
