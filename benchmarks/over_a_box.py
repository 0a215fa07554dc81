"""Time of an ask over a whole box, and distance of the chosen point from the maximum.

    OMP_NUM_THREADS=1 python -m benchmarks.over_a_box --out reproduction/results/over-a-box.json

It takes half a minute.

Drawn functions of Mercer features over the unit box. `missed`: how far below the best of 60 searches with
SciPy's L-BFGS-B from random points the point lies that is chosen, the largest of 12 functions, as a share of
the best value. `start`: the same of the best point that a search begins with. `maximum_ms`: of a draw and its
maximum, the median of 100; `ask_ms`: of `GPBandit.ask()` with user ids; both in processor time.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from dpbandits.central import GPBandit, GPTuning
from dpbandits.domains import Box
from dpbandits.models.features import LittleVariance, MercerFeatures
from dpbandits.models.features.maximise import Maximiser
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise

SEARCHES, FUNCTIONS, ASKS = 60, 12, 100
CELLS = ((1, 20, 0.1), (2, 60, 0.2), (4, 100, 0.4), (6, 100, 0.5), (6, 100, 1.0), (10, 100, 0.8))


def best_of_searches(features, box, weights, rng):
    """The highest value that careful searches find."""

    def below(x):
        return -float(features(x[None])[0] @ weights), -features.gradient(x[None], weights[None])[0]

    bounds = list(zip(box.low, box.high, strict=True))
    starts = box.sample(SEARCHES, rng)
    return max(-minimize(below, at, jac=True, method="L-BFGS-B", bounds=bounds).fun for at in starts)


def main():
    """Print the table, and write it where one asks for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = []
    for dim, size, lengthscale in CELLS:
        box, rng = Box(np.zeros(dim), np.ones(dim)), np.random.default_rng(1)
        kernel = SquaredExponential(lengthscale=lengthscale)
        features = MercerFeatures(kernel=kernel, domain=box, n_features=size)
        maximiser = Maximiser(box, features)
        weights = rng.standard_normal((max(FUNCTIONS, ASKS), features.n_features))
        times = []
        for own in weights:
            begun = time.process_time()
            maximiser.of_weights(own[None])
            times.append(time.process_time() - begun)
        few = weights[:FUNCTIONS]
        best = np.array([best_of_searches(features, box, own, rng) for own in few])
        found = (features(maximiser.of_weights(few)) * few).sum(axis=1)
        start = (features(maximiser.points) @ few.T).max(axis=0)
        row = {
            "columns": dim,
            "features": features.n_features,
            "lengthscale": lengthscale,
            "maximum_ms": 1e3 * float(np.median(times)),
            "ask_ms": 1e3 * float(asking(box, features)),
            "missed": float(max(1 - found / best)),
            "start": float(max(1 - start / best)),
        }
        rows.append(row)
        print(", ".join(f"{name} {value:.3g}" for name, value in row.items()), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def asking(box, features):
    """Median seconds of an ask after the first release."""
    policy = GPBandit(
        domain=box,
        reward_range=(0, 1),
        horizon=1_000,
        privacy=JointDP(1, 1e-6),
        noise=SimulatedNoise(1),
        tuning=GPTuning(blocks=[50], features=features, decision_sets="public"),
    )
    times = []
    for t in range(51 + ASKS):
        begun = time.process_time()
        decision = policy.ask(user=t)
        times.append(time.process_time() - begun)
        policy.tell(decision.id, float(decision.action.mean()))
    return np.median(times[51:])


if __name__ == "__main__":
    warnings.simplefilter("ignore", LittleVariance)
    main()
