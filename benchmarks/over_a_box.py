"""What asking over a whole box costs, and whether the highest point is found.

    OMP_NUM_THREADS=1 python benchmarks/over_a_box.py      # half a minute

Drawn functions of Mercer features over the unit box. `found`: how far below the best of 60 searches with
SciPy's L-BFGS-B from random points the point lies that is chosen, the largest of 12 functions, as a share of
the best value. `start`: the same of the best point that a search begins with. `ms`: of a draw and its
maximum, the median of 100; `ask`: of `GPBandit.ask()` with user ids; both in processor time.
"""

import time
import warnings

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
    """Print the table."""
    print("d    m  lengthscale     found    start      ms     ask")
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
        print(
            f"{dim:2d} {features.n_features:4d}  {lengthscale:11.1f}  {max(1 - found / best):8.1e}"
            f"  {max(1 - start / best):7.1e}  {1e3 * np.median(times):6.2f}"
            f"  {1e3 * asking(box, features):6.2f}"
        )


def asking(box, features):
    """Median seconds of an ask after the first release."""
    policy = GPBandit(
        features=features,
        domain=box,
        reward_range=(0, 1),
        horizon=1_000,
        privacy=JointDP(1, 1e-6),
        decision_sets="public",
        noise=SimulatedNoise(1),
        tuning=GPTuning(blocks=[50]),
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
