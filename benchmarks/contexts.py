"""Time and memory of decisions with contexts and arms: `python -m benchmarks.contexts`.

Each method answers the same users in a separate process. It is asked with a user's context, numbers in
[0, 1], chooses one of the arms, and is told a reward of 0 or 1. For each number of columns and arms, all
methods run one after another, so that a busy machine slows all of them. This is repeated. Every process runs
once with the default BLAS threads and once with one thread.

What is measured:

- `cpu_us`: CPU microseconds of the process, all its threads, for an ask and its tell. Releases are included.
- `ask_p50_us`, `ask_worst_ms`: median and longest ask, in CPU time of the thread that asks.
- `ask_worst_wall_ms`: longest ask by the clock.
- `peak_mb`: the most memory that the process held, interpreter and libraries included.

GPBandit and FeatureGPUCB are asked with a dict, as the guides show it; Vowpal Wabbit gets a text, which is
built from the same dict and is part of its time. While a release is made beside the answers, people come
`PAUSE` apart. The ask at which it takes effect waits if it is not finished. A process stops after a limit of
CPU time (`OURS_LIMIT`, `PEER_LIMIT`), and `rounds` says how many decisions it made. A process that needs more
than `MEMORY` fails, and the row says so.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parents[1] / "reproduction" / "results" / "contexts-speed.json"
SIZES = ((3, 4), (10, 4), (3, 100), (10, 20), (30, 4), (30, 20), (10, 100))
"""Columns and arms."""

ROUNDS, REPETITIONS, SEED = 20_000, 3, 1_000_000
LAG = 250
"""Rounds for which a release is made beside the answers."""

PAUSE = 0.002
"""Seconds between two people while a release is made beside the answers: 500 people a second."""

MEMORY = 3 * 1024**3
"""Bytes of address space that a process may have."""

OURS_LIMIT, PEER_LIMIT = 120.0, 3.0
"""CPU seconds after which a process stops. What a peer takes for a decision does not grow with the rounds."""

SLOWEST = 600.0
"""Seconds by the clock after which a process is ended."""

CHUNK = 500
"""People whose contexts are made at a time."""

THREADS = ("default", "one")
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Row = dict[str, float]


@dataclass(frozen=True)
class Method:
    """How one method decides.

    Args:
        choose: index of the arm for a person: the context as a dict and as an array (1, d), and the round.
        tell: learns from the reward of the last choice.
        beside: (rounds,) where a release is made beside the answers; None for nowhere.
    """

    choose: Callable[[Row, Any, int], int]
    tell: Callable[[float], object]
    beside: Any = None


def names(columns: int) -> list[str]:
    return [f"c{number}" for number in range(columns)]


# -- ours ------------------------------------------------------------------------------------------------


def private_policy(columns: int, arms: int, rounds: int, lag: int = 0) -> Any:
    import dpbandits as dpb

    return dpb.central.GPBandit(
        contexts=dpb.Schema(**{name: dpb.Range(0, 1) for name in names(columns)}),
        arms=range(arms),
        reward_range=(0, 1),
        horizon=rounds,
        privacy=dpb.JointDP(1, 1e-6),
        tuning=dpb.central.GPTuning(lag=lag),
    )


def asked(policy: Any, beside: Any = None) -> Method:
    decision: Any = None

    def choose(row: Row, _: Any, t: int) -> int:
        nonlocal decision
        decision = policy.ask(row, user=t)
        return int(decision.index)

    return Method(choose, lambda reward: policy.tell(decision.id, reward), beside)


def private(columns: int, arms: int, rounds: int) -> Method:
    return asked(private_policy(columns, arms, rounds))


def private_beside(columns: int, arms: int, rounds: int) -> Method:
    policy = private_policy(columns, arms, rounds, LAG)
    ends = np.array(policy.batch_boundaries)[:, None]
    now = np.arange(rounds)
    return asked(policy, ((ends - LAG <= now) & (now < ends)).any(axis=0))


def twin(columns: int, arms: int, rounds: int) -> Method:
    import dpbandits as dpb

    return asked(dpb.lab.twin(private_policy(columns, arms, rounds)))


def feature_gp_ucb(columns: int, arms: int, rounds: int) -> Method:
    import dpbandits as dpb

    contexts = dpb.Schema(**{name: dpb.Range(0, 1) for name in names(columns)})
    own = {"arms": range(arms), "reward_range": (0, 1), "horizon": rounds}
    return asked(dpb.lab.baselines.FeatureGPUCB(contexts=contexts, **own))


# -- peers -----------------------------------------------------------------------------------------------


def numpy_linucb(columns: int, arms: int, _: int) -> Method:
    """Disjoint LinUCB by rank-one updates; the last feature is 1."""
    inverse = np.tile(np.eye(columns + 1), (arms, 1, 1))
    vector, weights = np.zeros((arms, columns + 1)), np.zeros((arms, columns + 1))
    x, arm = np.ones(columns + 1), 0

    def choose(_: Row, array: Any, __: int) -> int:
        nonlocal arm
        x[:-1] = array[0]
        spread = np.sqrt((inverse @ x) @ x)
        arm = int(np.argmax(weights @ x + spread))
        return arm

    def tell(reward: float) -> None:
        column = inverse[arm] @ x
        inverse[arm] -= np.outer(column, column) / (1.0 + x @ column)
        vector[arm] += reward * x
        weights[arm] = inverse[arm] @ vector[arm]

    return Method(choose, tell)


def vw_adf(_: int, arms: int, __: int) -> Method:
    """Vowpal Wabbit as its tutorials use it: an arm is a line, context and arm interact, epsilon-greedy."""
    from vowpalwabbit import Workspace  # type: ignore[import-not-found, unused-ignore]

    work = Workspace("--cb_explore_adf -q ua --epsilon 0.1 --quiet")
    lines = [f"|a arm=a{number}" for number in range(arms)]
    return _vowpal(
        arms,
        lambda said: work.predict("\n".join([f"shared |u {said}", *lines])),
        lambda said, arm, label: work.learn(
            "\n".join([f"shared |u {said}", *lines[:arm], f"0:{label} {lines[arm]}", *lines[arm + 1 :]])
        ),
    )


def vw_fixed(_: int, arms: int, __: int) -> Method:
    """Vowpal Wabbit for a fixed number of arms without features: one line a person, epsilon-greedy."""
    from vowpalwabbit import Workspace  # type: ignore[import-not-found, unused-ignore]

    work = Workspace(f"--cb_explore {arms} --epsilon 0.1 --quiet")
    return _vowpal(
        arms,
        lambda said: work.predict(f"|u {said}"),
        lambda said, arm, label: work.learn(f"{arm + 1}:{label} |u {said}"),
    )


def _vowpal(arms: int, predict: Callable[[str], Any], learn: Callable[[str, int, str], object]) -> Method:
    draw = np.random.default_rng(SEED)
    said, arm, chance = "", 0, 1.0

    def choose(row: Row, _: Any, __: int) -> int:
        nonlocal said, arm, chance
        said = " ".join(f"{name}:{value}" for name, value in row.items())
        chances = np.asarray(predict(said))
        arm = min(int(np.searchsorted(np.cumsum(chances), draw.random())), arms - 1)
        chance = float(chances[arm])
        return arm

    return Method(choose, lambda reward: learn(said, arm, f"{-reward}:{chance}"))


def river_linucb(_: int, arms: int, __: int) -> Method:
    from river.bandit import LinUCBDisjoint  # type: ignore[import-not-found, unused-ignore]

    policy, labels = LinUCBDisjoint(seed=SEED), list(range(arms))
    context: Row = {}
    arm = 0

    def choose(row: Row, _: Any, __: int) -> int:
        nonlocal context, arm
        context = row
        arm = policy.pull(labels, context=row)
        return arm

    return Method(choose, lambda reward: policy.update(arm, context, reward))


def mabwiser(columns: int, arms: int, rule: str) -> Method:
    from mabwiser.mab import MAB, LearningPolicy  # type: ignore[import-not-found, unused-ignore]

    labels = list(range(arms))
    bandit = MAB(arms=labels, learning_policy=getattr(LearningPolicy, rule)(), seed=SEED)
    bandit.fit(labels, [0.0] * arms, np.zeros((arms, columns)))
    context: Any = None
    arm = 0

    def choose(_: Row, array: Any, __: int) -> int:
        nonlocal context, arm
        context = array
        arm = int(bandit.predict(array))
        return arm

    return Method(choose, lambda reward: bandit.partial_fit([arm], [reward], context))


OURS: dict[str, Callable[[int, int, int], Method]] = {
    "GPBandit": private,
    "GPBandit, releases beside the answers": private_beside,
    "twin without privacy": twin,
    "FeatureGPUCB, without privacy": feature_gp_ucb,
}
PEERS: dict[str, tuple[str, Callable[[int, int, int], Method]]] = {
    "NumPy LinUCB": ("numpy", numpy_linucb),
    "Vowpal Wabbit, --cb_explore_adf": ("vowpalwabbit", vw_adf),
    "Vowpal Wabbit, --cb_explore": ("vowpalwabbit", vw_fixed),
    "river LinUCBDisjoint": ("river", river_linucb),
    "MABWiser LinUCB": ("mabwiser", lambda columns, arms, _: mabwiser(columns, arms, "LinUCB")),
    "MABWiser LinTS": ("mabwiser", lambda columns, arms, _: mabwiser(columns, arms, "LinTS")),
}
"""Each with the package that it needs."""


# -- one process -----------------------------------------------------------------------------------------


def people(columns: int, arms: int, rounds: int) -> Iterator[tuple[int, Row, Any, Any]]:
    """Round, context as a dict and as an array (1, d), and the reward of each arm (arms,); linear logits."""
    weights = np.random.default_rng((SEED, columns, arms)).normal(size=(columns, arms)) / columns**0.5
    for start in range(0, rounds, CHUNK):
        rng = np.random.default_rng((SEED, columns, arms, start))
        contexts = rng.random((CHUNK, columns))
        chances = 1.0 / (1.0 + np.exp(-4.0 * (contexts - 0.5) @ weights))
        rewards = (rng.random((CHUNK, 1)) < chances).astype(float)
        keys = names(columns)
        rows = [dict(zip(keys, one, strict=True)) for one in contexts.tolist()]
        for number in range(min(CHUNK, rounds - start)):
            yield start + number, rows[number], contexts[number : number + 1], rewards[number]


def peak_megabytes() -> float:
    with Path("/proc/self/status").open() as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1e3


def child(name: str, columns: int, arms: int, rounds: int, limit: float) -> dict[str, float]:
    """Measure one method in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")  # a policy says that so few people teach it little
    make = OURS[name] if name in OURS else PEERS[name][1]
    began = time.process_time()
    method = make(columns, arms, rounds)
    built = time.process_time() - began
    choose, tell, beside = method.choose, method.tell, method.beside
    cpu, wall, earned, made = np.zeros(rounds), np.zeros(rounds), 0.0, 0
    began, elsewhere = time.process_time(), 0.0
    mark = time.thread_time()
    for t, row, array, rewards in people(columns, arms, rounds):
        if beside is not None and beside[t]:
            time.sleep(PAUSE)
        start, clock = time.thread_time(), time.perf_counter()
        arm = choose(row, array, t)
        wall[t] = time.perf_counter() - clock
        cpu[t] = time.thread_time() - start
        reward = float(rewards[arm])
        tell(reward)
        earned += reward
        made = t + 1
        elsewhere += start - mark
        if made % 20 == 0 and time.process_time() - began - elsewhere > limit:
            break
        mark = time.thread_time()
    spent = time.process_time() - began - elsewhere
    asks = cpu[:made]
    return {
        "rounds": made,
        "construction_s": built,
        "cpu_us": 1e6 * spent / made,
        "ask_p50_us": 1e6 * float(np.median(asks)),
        "ask_worst_ms": 1e3 * float(asks.max()),
        "ask_worst_wall_ms": 1e3 * float(wall[:made].max()),
        "peak_mb": peak_megabytes(),
        "reward": earned / made,
    }


def environment(threads: str) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name not in BLAS_VARIABLES}
    return found | (dict.fromkeys(BLAS_VARIABLES, "1") if threads == "one" else {})


def measured(name: str, columns: int, arms: int, rounds: int, limit: float, threads: str) -> dict[str, Any]:
    """Numbers of `child` in a process of its own, or why there are none."""
    arguments = [sys.executable, "-m", "benchmarks.contexts", "--child", name]
    numbers = [columns, arms, rounds, limit]
    try:
        done = subprocess.run(  # noqa: S603  # this file
            [*arguments, *map(str, numbers)],
            env=environment(threads),
            capture_output=True,
            text=True,
            timeout=SLOWEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"longer than {SLOWEST:.0f} s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    text = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    if "MemoryError" in text or "Unable to allocate" in text or "Memory allocation" in done.stderr:
        return {"failed": f"needs more than {MEMORY / 1024**3:.0f} GB"}
    if done.returncode < 0:
        return {
            "failed": f"ended by {signal.Signals(-done.returncode).name} within {MEMORY / 1024**3:.0f} GB"
        }
    return {"failed": text[:200]}


# -- all of them -----------------------------------------------------------------------------------------


def of_runs(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median, smallest and largest of each number, or the first failure."""
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {"failed": failed[0]}
    found: dict[str, Any] = {"failed": None}
    for key in runs[0]:
        values = [float(f"{run[key]:.4g}") for run in runs]
        if key == "rounds":
            found[key] = min(run[key] for run in runs)
            continue
        found[key] = {"median": statistics.median(values), "smallest": min(values), "largest": max(values)}
    return found


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("dpbandits", "numpy", "scipy", "vowpalwabbit", "river", "mabwiser"):
        if importlib.util.find_spec(package) is not None:
            found[package] = importlib.metadata.version(package)
    return found


def shown(row: dict[str, Any]) -> str:
    start = f"{row['columns']} x {row['arms']}, {row['threads']}, {row['method']}: "
    if row["failed"]:
        return start + str(row["failed"])
    cpu, worst, peak = (row[key]["median"] for key in ("cpu_us", "ask_worst_ms", "peak_mb"))
    return start + f"{cpu:.0f} us, worst ask {worst:.1f} ms, {peak:.0f} MB, {row['rounds']:,} rounds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--sizes", default="", help='columns and arms: "3x4,10x20"; default all')
    parser.add_argument("--methods", default="", help="methods whose name has one of these, with ; between")
    parser.add_argument("--threads", choices=THREADS, help="default both")
    parser.add_argument("--limit", type=float, default=OURS_LIMIT, help="CPU seconds of one of our policies")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS.name} where everything is measured")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, columns, arms, rounds, limit = options.child
        print(json.dumps(child(name, int(columns), int(arms), int(rounds), float(limit))))
        return

    wanted = options.sizes.replace(" ", "").split(",") if options.sizes else []
    sizes = [size for size in SIZES if not wanted or "x".join(map(str, size)) in wanted]
    absent = [name for name, (needed, _) in PEERS.items() if importlib.util.find_spec(needed) is None]
    for name in absent:
        print(f"left out, because it is not installed: {name}", flush=True)
    limits = dict.fromkeys(OURS, options.limit) | dict.fromkeys(PEERS, PEER_LIMIT)
    parts = options.methods.lower().split(";")
    methods = [name for name in limits if name not in absent and any(part in name.lower() for part in parts)]
    threads = [one for one in THREADS if options.threads in (None, one)]
    cases = [(*size, one, name) for size in sizes for one in threads for name in methods]
    runs: dict[tuple[int, int, str, str], list[dict[str, Any]]] = {case: [] for case in cases}
    load, began = os.getloadavg()[0], time.time()
    for _ in range(options.repetitions):
        for case in cases:
            columns, arms, one, name = case
            if any("failed" in run for run in runs[case]):
                continue
            run = measured(name, columns, arms, options.rounds, limits[name], one)
            runs[case].append(run)
            said = {"columns": columns, "arms": arms, "threads": one, "method": name}
            print(shown(said | of_runs([run])), flush=True)
    rows = [
        {"columns": columns, "arms": arms, "threads": one, "method": name}
        | of_runs(runs[columns, arms, one, name])
        for columns, arms, one, name in cases
    ]
    found = {
        "rounds": options.rounds,
        "repetitions": options.repetitions,
        "seed": SEED,
        "lag": LAG,
        "limits_s": [options.limit, PEER_LIMIT],
        "memory_limit_gb": MEMORY / 1024**3,
        "versions": versions(),
        "cpus": os.cpu_count(),
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "seconds": round(time.time() - began),
        "left_out": absent,
    }
    whole = not (options.sizes or options.methods or options.threads)
    out = options.out or (RESULTS if whole else None)
    if out is not None:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        out.write_text(json.dumps(found, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
