"""Length of Mercer features, and the gain in regret from dividing them by their usual length.

    python -m reproduction.studies.feature_norms            # norms: seconds
    python -m reproduction.studies.feature_norms --regret   # and regret in three worlds: half a minute

Noise is calibrated to features of length one. For squared exponential kernels on unit boxes, the table shows:

- the share of the kernel's variance in the default 20 features;
- the 99% quantile of their length under the uniform distribution;
- the largest length found by a search from the landmarks and the longest sampled points. It is a lower bound
  of the supremum, so no proven bound can be below it;
- the `scale` that `MercerFeatures` uses.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import minimize

from dpbandits.central import GPBandit, GPTuning
from dpbandits.domains import Box
from dpbandits.models.features import LittleVariance, MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise

POINTS, STARTS = 8_192, 5
HORIZON, CANDIDATES, CENTRES, SEEDS = 8_000, 10, 30, range(1_000_000, 1_000_016)


def box(dim):
    """The unit box."""
    return Box(low=np.zeros(dim), high=np.ones(dim))


def longest(features, points):
    """The largest norm that a local search from the longest points and landmarks finds."""

    def shortness(x):
        return -float(np.linalg.norm(features(np.clip(x, 0.0, 1.0)[None])))

    starts = np.concatenate([points, features.landmarks])
    order = np.argsort(-np.linalg.norm(features(starts), axis=1))[:STARTS]
    bounds = [(0.0, 1.0)] * points.shape[1]
    found = [minimize(shortness, starts[i], method="L-BFGS-B", bounds=bounds).fun for i in order]
    return -min(found)


def norms():
    """Print the table."""
    print("columns  lengthscale  held  quantile  supremum at least  scale")
    for dim in (1, 2, 3, 4, 5, 6, 10, 20):
        for lengthscale in (0.2, 0.3, 0.5, 1.0):
            kernel = SquaredExponential(lengthscale=lengthscale)
            map_ = {"kernel": kernel, "domain": box(dim), "n_features": 20}
            plain, points = (
                MercerFeatures(**map_, scale=1.0),
                box(dim).sample(POINTS, np.random.default_rng(1)),
            )
            lengths = np.linalg.norm(plain(points), axis=1)
            print(
                f"{dim:7d}  {lengthscale:11.1f}  {(lengths**2).mean():4.2f}"
                f"  {np.quantile(lengths, 0.99):8.3f}  {longest(plain, points):17.3f}"
                f"  {MercerFeatures(**map_).scale:5.4g}"
            )


def regret():
    """Print mean regret a round with features as they are, and divided by their scale."""
    print("columns  lengthscale  undivided  divided  difference  its standard error")
    for dim, lengthscale in ((6, 0.3), (10, 0.5), (20, 1.0)):
        kernel, domain = SquaredExponential(lengthscale=lengthscale), box(dim)
        found = np.array([_regrets(kernel, domain, seed) for seed in SEEDS])
        gain = found[:, 0] - found[:, 1]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        print(
            f"{dim:7d}  {lengthscale:11.1f}  {found[:, 0].mean():9.4f}  {found[:, 1].mean():7.4f}"
            f"  {gain.mean():10.4f}  {error:18.4f}"
        )


def _regrets(kernel, domain, seed):
    """Regret a round of both, on one function made of kernel sections."""
    rng = np.random.default_rng(seed)
    centres, weights = domain.sample(CENTRES, rng), rng.standard_normal(CENTRES)
    sets = domain.sample(HORIZON * CANDIDATES, rng).reshape(HORIZON, CANDIDATES, domain.dim)
    values = (kernel(sets.reshape(-1, domain.dim), centres) @ weights).reshape(HORIZON, CANDIDATES)
    means = (values - values.min()) / (values.max() - values.min())
    uniforms, found = rng.random(HORIZON), []
    for scale in (1.0, None):
        policy = GPBandit(
            tuning=GPTuning(
                features=MercerFeatures(kernel=kernel, domain=domain, n_features=20, scale=scale)
            ),
            domain=domain,
            reward_range=(0, 1),
            horizon=HORIZON,
            privacy=JointDP(epsilon=1.0, delta=1e-6, user_ids=False),
            noise=SimulatedNoise(seed),
            seed=seed,
        )
        total, start = 0.0, 0
        for stop in (*policy.batch_boundaries, HORIZON):
            batch = policy.ask_batch(sets[start:stop])
            earned = means[np.arange(start, stop), batch.indices]
            policy.tell_batch(batch.ids, (uniforms[start:stop] < earned).astype(float))
            total += float((means[start:stop].max(axis=1) - earned).sum())
            start = stop
        found.append(total / HORIZON)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--regret", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", LittleVariance)
    norms()
    if chosen.regret:
        regret()
