"""What a step costs: `make bench`, or `python benchmarks/run.py --only posterior`.

Prints a Markdown table with the median and the fastest of several runs, and one of ratios, taken in CPU time.
Nothing here is asserted: wall time belongs to a machine, and is for reading. m is the number of features.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.models.noisy_regression import posterior_from_block_statistics
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.prefix_sums import BlockRelease, square_root_toeplitz

REPEATS = 5
RUN = "run of 10,000 rounds, 25 candidates"
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


def draw_secure_noise(size: int, **options: Any) -> Callable[[], object]:
    noise = dpb.SecureNoise(**options)
    noise.integer_gaussian(1e7, 1)
    return lambda: noise.integer_gaussian(1e7, size)


def world(horizon: int) -> dpb.lab.worlds.FunctionBandit:
    """25 uniform candidates a round on a box; drawn before the clock starts."""
    environment = dpb.lab.worlds.camelback(seed=1_000_000, horizon=horizon, n_candidates=25)
    environment.decision_sets(0, horizon)
    return environment


def map_of(environment: dpb.lab.worlds.FunctionBandit, n_features: int) -> dpb.features.MercerFeatures:
    kernel = dpb.kernels.Matern(nu=2.5, lengthscale=0.4)
    return dpb.features.MercerFeatures(kernel=kernel, domain=environment.domain, n_features=n_features)


def whole_run(
    horizon: int, *, n_features: int, batched: bool = True, secure: bool = False, regression: str = "blocks"
) -> Callable[[], object]:
    environment = world(horizon)

    def go() -> object:
        policy = dpb.central.GPBandit(
            features=map_of(environment, n_features),
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            privacy=PRIVACY,
            tuning=dpb.central.GPTuning(regression=regression),
            noise=dpb.SecureNoise() if secure else dpb.SimulatedNoise(0),
        )
        return dpb.lab.evaluation.run(policy, environment, boundaries=None if batched else range(1, horizon))

    return go


def secure_release(n_features: int) -> Callable[[], object]:
    mechanism = GramVectorMechanism(n_features=n_features)
    release = BlockRelease(
        factor=square_root_toeplitz(12), mechanism=mechanism, noise=dpb.SecureNoise(), epsilon=1.0, delta=1e-6
    )
    sums = np.zeros((1, mechanism.size), dtype=np.int64)
    return lambda: release.release(0, sums)


def non_private_run(horizon: int, n_features: int, *, growth: float) -> Callable[[], object]:
    environment = world(horizon)
    features = map_of(environment, n_features)

    def go() -> object:
        policy = dpb.lab.baselines.FeatureGPUCB(
            features=features,
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            update_growth=growth,
        )
        return dpb.lab.evaluation.run(policy, environment)

    return go


def bare_loop(horizon: int, n_features: int) -> Callable[[], object]:
    """What somebody would write instead: GP-UCB by Sherman-Morrison, no checks, no book, no protocol."""
    environment = world(horizon)
    features = map_of(environment, n_features)

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


def asked_and_told(
    horizon: int, n_features: int, tuning: dpb.central.GPTuning | None = None
) -> Callable[[], list[float]]:
    """One by one, without the runner: CPU seconds of the asking thread in every ask."""
    environment = world(horizon)
    features, sets = map_of(environment, n_features), environment.decision_sets(0, horizon)
    rewards = environment.mean_rewards(0, horizon)

    def go() -> list[float]:
        policy = dpb.central.GPBandit(
            features=features,
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            privacy=PRIVACY,
            tuning=tuning,
            noise=dpb.SimulatedNoise(0),
        )
        seconds = []
        for t in range(horizon):
            start = time.thread_time()
            decision = policy.ask(sets[t], user=f"user-{t}")
            seconds.append(time.thread_time() - start)
            policy.tell(decision.id, float(rewards[t, decision.index]))
        return seconds

    return go


def bare_thompson_loop(horizon: int, n_features: int) -> Callable[[], object]:
    """What somebody would write instead: exact sums, a fit where `GPBandit` has its blocks, nothing else."""
    environment = world(horizon)
    features, sets = map_of(environment, n_features), environment.decision_sets(0, horizon)
    rewards = environment.mean_rewards(0, horizon)
    blocks = set(dpb.central.GPTuning().schedule(horizon)[0])

    def go() -> object:
        rng = np.random.default_rng(0)
        precision, vector = np.eye(n_features) / 0.2, np.zeros(n_features)
        mean, factor = np.zeros(n_features), np.eye(n_features) * np.sqrt(0.2)
        for t in range(horizon):
            phi = features(sets[t])
            best = int(np.argmax(phi @ (mean + 0.25 * factor @ rng.standard_normal(n_features))))
            precision += np.outer(phi[best], phi[best]) * 4.0
            vector += phi[best] * (rewards[t, best] - 0.5) * 4.0
            if t + 1 in blocks:
                factor = np.linalg.inv(np.linalg.cholesky(precision)).T
                mean = factor @ (factor.T @ vector)
        return mean

    return go


def in_turn(ours: Callable[[], object], theirs: Callable[[], object]) -> Callable[[], float]:
    """CPU seconds of one call over those of the other, made right after it."""

    def ratio() -> float:
        marks = [time.process_time()]
        for call in (ours, theirs):
            call()
            marks.append(time.process_time())
        return (marks[1] - marks[0]) / (marks[2] - marks[1])

    return ratio


def tail(go: Callable[[], list[float]]) -> Callable[[], float]:
    """The 99th percentile over the median."""

    def ratio() -> float:
        seconds = go()
        return float(np.quantile(seconds, 0.99) / np.median(seconds))

    return ratio


@dataclass(frozen=True)
class Ratio:
    """One line of the second table: `prepare` builds the call that measures it once."""

    name: str
    aim: float
    prepare: Callable[[], Callable[[], float]]


RATIOS = (
    Ratio(
        "10,000 asks and tells, one by one, over a bare Thompson loop, m = 100",
        2.5,
        lambda: in_turn(asked_and_told(10_000, 100), bare_thompson_loop(10_000, 100)),
    ),
    Ratio(
        "99th percentile over median of an ask's CPU time, m = 500, lag of 190 rounds",
        5.0,
        lambda: tail(asked_and_told(1_400, 500, dpb.central.GPTuning(blocks=(200, 400, 800), lag=190))),
    ),
)

BENCHMARKS = (
    Benchmark("import dpbandits, new process", 1, "import", import_package),
    Benchmark(
        "scores of 25 candidates, m = 100", 2_000, "decision set", lambda: score_candidates(100, 2_000)
    ),
    Benchmark("posterior, m = 100, 12 blocks", 1, "release", lambda: block_posterior(100, 12)),
    Benchmark("posterior, m = 500, 12 blocks", 1, "release", lambda: block_posterior(500, 12)),
    Benchmark("exact integer sums, m = 100", 10_000, "round", lambda: encode_block(100, 10_000)),
    Benchmark("secure discrete Gaussian noise", 5_000, "draw", lambda: draw_secure_noise(5_000)),
    Benchmark("the same, by OpenDP", 5_000, "draw", lambda: draw_secure_noise(5_000, sampler="opendp")),
    Benchmark("secure release, m = 15", 1, "release", lambda: secure_release(15)),
    Benchmark("block release, m = 100", 1, RUN, lambda: whole_run(10_000, n_features=100), memory=True),
    Benchmark("block release, m = 500", 1, RUN, lambda: whole_run(10_000, n_features=500), memory=True),
    Benchmark(
        "the same, prefix regression, m = 500",
        1,
        RUN,
        lambda: whole_run(10_000, n_features=500, regression="prefix"),
        memory=True,
    ),
    Benchmark(
        "the same, secure noise, m = 100", 1, RUN, lambda: whole_run(10_000, n_features=100, secure=True)
    ),
    Benchmark(
        "the same, secure noise, m = 500", 1, RUN, lambda: whole_run(10_000, n_features=500, secure=True)
    ),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run benchmarks whose name contains this")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()

    print(f"dpbandits {dpb.__version__}, numpy {np.__version__}, Python {platform.python_version()}\n")
    print("| what | median | fastest | per | peak memory |")
    print("|---|---|---|---|---|")
    for benchmark in BENCHMARKS:
        if options.only.lower() in benchmark.name.lower():
            seconds = measure(benchmark, options.repeats)
            median, fastest = in_words(statistics.median(seconds)), in_words(min(seconds))
            peak = f"{peak_megabytes(benchmark):.0f} MB" if benchmark.memory else ""
            print(f"| {benchmark.name} | {median} | {fastest} | {benchmark.unit} | {peak} |", flush=True)

    print("\n| ratio | median | smallest | largest | aim: at most |")
    print("|---|---|---|---|---|")
    for one in RATIOS:
        if options.only.lower() in one.name.lower():
            call = one.prepare()
            values = [call() for _ in range(options.repeats)]
            low, high = min(values), max(values)
            print(f"| {one.name} | {statistics.median(values):.2f} | {low:.2f} | {high:.2f} | {one.aim:g} |")


if __name__ == "__main__":
    main()
