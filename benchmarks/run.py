"""What a step costs: `make bench`, or `python benchmarks/run.py --only posterior`.

Prints a Markdown table with the median and the fastest of several runs. Nothing here is asserted: wall time
belongs to a machine, and is for reading. m is the number of features.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import dpbandits as dpb
from dpbandits.models.noisy_regression import posterior_from_block_statistics
from dpbandits.privacy.mechanisms import GramVectorMechanism

REPEATS = 5
UNIT_SQUARE = dpb.Box(low=[0, 0], high=[1, 1])
KERNEL = dpb.kernels.Matern(nu=2.5, lengthscale=0.3)
PRIVACY = dpb.JointDP(epsilon=1.0, delta=1e-6)


@dataclass(frozen=True)
class Benchmark:
    """One line of the table: `prepare` builds what the returned call, which alone is timed, works on."""

    name: str
    per: int
    unit: str
    prepare: Callable[[], Callable[[], object]]


def import_package() -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", "import dpbandits"], check=True)


def score_candidates(n_features: int, n_sets: int) -> Callable[[], object]:
    features = dpb.features.MercerFeatures(kernel=KERNEL, domain=UNIT_SQUARE, n_features=n_features)
    rng = np.random.default_rng(0)
    sets = rng.random((n_sets, 25, 2))
    weights = rng.standard_normal((features.n_features, 1))
    return lambda: features.project(sets, weights)


def block_posterior(n_features: int, n_blocks: int) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n_blocks, 200, n_features)) / np.sqrt(n_features)
    grams = np.einsum("kti,ktj->kij", points, points)
    vectors = rng.standard_normal((n_blocks, n_features))
    return lambda: posterior_from_block_statistics(
        grams,
        vectors,
        noise_covariance=np.eye(n_blocks),
        gram_noise_sd=10.0,
        vector_noise_sd=4.0,
        prior_variance=0.2,
        reward_variance=0.25,
    )


def encode_block(n_features: int, n_rounds: int) -> Callable[[], object]:
    mechanism = GramVectorMechanism(n_features=n_features)
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((n_rounds, n_features))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True) * 1.01
    centred = rng.random(n_rounds) - 0.5
    return lambda: mechanism.encode(phi, centred)


def draw_secure_noise(size: int) -> Callable[[], object]:
    noise = dpb.SecureNoise()
    noise.integer_gaussian(1e7, 1)
    return lambda: noise.integer_gaussian(1e7, size)


def whole_run(horizon: int, *, batched: bool) -> Callable[[], object]:
    world = dpb.environments.dubey2021_figure1(seed=1_000_000, horizon=horizon)
    kernel = dpb.kernels.SquaredExponential(lengthscale=1.0)

    def go() -> object:
        policy = dpb.central.BlockGPUCB(
            kernel=kernel,
            domain=world.domain,
            reward_range=world.reward_range,
            horizon=horizon,
            privacy=PRIVACY,
            noise=dpb.SimulatedNoise(0),
        )
        boundaries = None if batched else range(horizon)
        return dpb.evaluation.run(policy, world, boundaries=boundaries)

    return go


BENCHMARKS = (
    Benchmark("import dpbandits, new process", 1, "import", import_package),
    Benchmark(
        "scores of 25 candidates, m = 100", 2_000, "decision set", lambda: score_candidates(100, 2_000)
    ),
    Benchmark("posterior, m = 100, 12 blocks", 1, "release", lambda: block_posterior(100, 12)),
    Benchmark("posterior, m = 500, 12 blocks", 1, "release", lambda: block_posterior(500, 12)),
    Benchmark("exact integer sums, m = 100", 10_000, "round", lambda: encode_block(100, 10_000)),
    Benchmark("secure discrete Gaussian noise", 5_000, "draw", lambda: draw_secure_noise(5_000)),
    Benchmark("BlockGPUCB, asked in batches", 10_000, "round", lambda: whole_run(10_000, batched=True)),
    Benchmark("BlockGPUCB, asked one by one", 2_000, "round", lambda: whole_run(2_000, batched=False)),
)


def measure(benchmark: Benchmark, repeats: int) -> list[float]:
    """Seconds per unit of every repeat, after one run that is not counted."""
    call = benchmark.prepare()
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append((time.perf_counter() - start) / benchmark.per)
    return seconds


def in_words(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run benchmarks whose name contains this")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()

    print(f"dpbandits {dpb.__version__}, numpy {np.__version__}, Python {platform.python_version()}\n")
    print("| what | median | fastest | per |")
    print("|---|---|---|---|")
    for benchmark in BENCHMARKS:
        if options.only.lower() in benchmark.name.lower():
            seconds = measure(benchmark, options.repeats)
            median, fastest = in_words(statistics.median(seconds)), in_words(min(seconds))
            print(f"| {benchmark.name} | {median} | {fastest} | {benchmark.unit} |", flush=True)


if __name__ == "__main__":
    main()
