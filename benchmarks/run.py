"""Times of single steps: `make bench`, or `python -m benchmarks.run --only posterior`.

Prints two Markdown tables: ratios to bare NumPy, to peers and to itself (`ratios.py`), misses first; seconds.
With `--out` the ratios are written as JSON, those that were not measured this time being kept as they were.
Nothing here is asserted: time belongs to a machine, and is for reading. m is the number of features.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from benchmarks.ratios import RATIOS, Ratio, features_of, non_private_run, opendp_draws, whole_run, world
from dpbandits.models.noisy_regression import posterior_from_block_statistics
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.prefix_sums import BlockRelease, square_root_toeplitz

REPEATS = 3
RUN = "run of 10,000 rounds, 25 candidates"
UNIT_SQUARE = dpb.Box(low=[0, 0], high=[1, 1])
KERNEL = dpb.kernels.Matern(nu=2.5, lengthscale=0.3)


@dataclass(frozen=True)
class Benchmark:
    """One line of the table: `prepare` builds what the returned call, which alone is timed, works on."""

    name: str
    per: int
    unit: str
    prepare: Callable[[], Callable[[], object]]
    memory: bool = False


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


def secure_release(n_features: int) -> Callable[[], object]:
    mechanism = GramVectorMechanism(n_features=n_features)
    release = BlockRelease(
        factor=square_root_toeplitz(12), mechanism=mechanism, noise=dpb.SecureNoise(), epsilon=1.0, delta=1e-6
    )
    sums = np.zeros((1, mechanism.size), dtype=np.int64)
    return lambda: release.release(0, sums)


def bare_loop(horizon: int, n_features: int) -> Callable[[], object]:
    """Return a minimal loop for comparison: GP-UCB by Sherman-Morrison, without checks and bookkeeping."""
    environment = world(horizon)
    features = features_of(horizon, n_features)

    def go() -> object:
        inverse = np.eye(n_features)
        vector = np.zeros(n_features)
        for t in range(horizon):
            phi = features(environment.decision_sets(t, t + 1)[0])
            spread = np.sqrt(np.einsum("ij,ij->i", phi @ inverse, phi))
            best = int(np.argmax(phi @ (inverse @ vector) + 0.25 * spread))
            reward = environment.rewards(t, t + 1, [best])[0]
            column = inverse @ phi[best]
            inverse -= np.outer(column, column) / (0.25 + phi[best] @ column)
            vector += phi[best] * (reward - 0.5) * 4.0
        return vector

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
    Benchmark("the same, by OpenDP", 5_000, "draw", lambda: opendp_draws(5_000)),
    Benchmark("secure release, m = 15", 1, "release", lambda: secure_release(15)),
    Benchmark("block release, m = 100", 1, RUN, lambda: whole_run(10_000, n_features=100), memory=True),
    Benchmark(
        "block release asked one by one, m = 100",
        2_000,
        "round",
        lambda: whole_run(2_000, n_features=100, batched=False),
    ),
    Benchmark("bare Sherman-Morrison loop, m = 100", 2_000, "round", lambda: bare_loop(2_000, 100)),
    Benchmark(
        "FeatureGPUCB asked one by one, m = 100",
        2_000,
        "round",
        lambda: non_private_run(2_000, 100, growth=0.0),
    ),
    Benchmark(
        "FeatureGPUCB learning every 2%, m = 100",
        2_000,
        "round",
        lambda: non_private_run(2_000, 100, growth=0.02),
    ),
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


def peak_megabytes(benchmark: Benchmark) -> float:
    """Largest memory that one call holds at a time, in a run of its own."""
    call = benchmark.prepare()
    call()
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def in_words(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def compared(one: Ratio, repeats: int) -> dict[str, Any]:
    """A row of the file: median, smallest and largest of several numbers, and the load before them."""
    call, load = one.prepare(), os.getloadavg()[0]
    values = [call() for _ in range(min(one.repeats, repeats))]
    median = statistics.median(values)
    print(f"{one.name}: {median:.3g}", flush=True)
    return {
        "name": one.name,
        "unit": one.unit,
        "before": one.before,
        "noted": one.noted,
        "after": median,
        "smallest": min(values),
        "largest": max(values),
        "aim": one.aim,
        "missed": one.aim is not None and median > one.aim,
        "load": load,
    }


def as_table(rows: list[dict[str, Any]]) -> str:
    """Misses first, then what was reached, then what has no aim."""
    lines = ["", "| what | unit | before | after | range | aim | load |", "|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: (not row["missed"], row["aim"] is None)):
        before = "" if row["before"] is None else f"{row['before']:.3g}" + " (noted)" * row["noted"]
        aim = "" if row["aim"] is None else f"{row['aim']:.3g}" + " (missed)" * row["missed"]
        spread = f"{row['smallest']:.3g} to {row['largest']:.3g}"
        cells = (row["name"], row["unit"], before, f"{row['after']:.3g}", spread, aim, f"{row['load']:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run benchmarks whose name contains this")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, help="JSON file of the ratios")
    options = parser.parse_args()

    print(f"dpbandits {dpb.__version__}, numpy {np.__version__}, Python {platform.python_version()}\n")
    rows = [] if options.out is None or not options.out.exists() else json.loads(options.out.read_text())
    measured = {row["name"]: row for row in rows}
    for one in RATIOS:
        if options.only.lower() in one.name.lower():
            if one.missing:
                print(f"left out, as {', '.join(one.missing)} is not installed: {one.name}")
                continue
            measured[one.name] = compared(one, options.repeats)
            if options.out is not None:
                rows = [measured[case.name] for case in RATIOS if case.name in measured]
                options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(as_table([row for name, row in measured.items() if options.only.lower() in name.lower()]))

    print("\n| what | median | fastest | per | peak memory |")
    print("|---|---|---|---|---|")
    for benchmark in BENCHMARKS:
        if options.only.lower() in benchmark.name.lower():
            seconds = measure(benchmark, options.repeats)
            median, fastest = in_words(statistics.median(seconds)), in_words(min(seconds))
            peak = f"{peak_megabytes(benchmark):.0f} MB" if benchmark.memory else ""
            print(f"| {benchmark.name} | {median} | {fastest} | {benchmark.unit} | {peak} |", flush=True)


if __name__ == "__main__":
    main()
