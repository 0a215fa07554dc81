"""CPU time with the default BLAS threads over CPU time with one: `python -m benchmarks.threads`.

Each case is a whole process, with the processes that it starts. CPU time is user and system time. Each case
runs with default threads and then with one, and this is repeated. The aim is at most `AIM` times: a user need
not set an environment variable.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contexts import environment, versions

RESULTS = Path(__file__).resolve().parents[1] / "reproduction" / "results" / "threads.json"
AIM, REPETITIONS, ROWS = 1.3, 3, 200_000

COMMAND = "import sys; sys.argv[0] = 'dpbandits'; from dpbandits.cli import main; main()"
SCRIPT = """
import sys
import numpy as np
import dpbandits as dpb

columns, arms, rounds, private = (int(word) for word in sys.argv[1:])
names = [f"c{number}" for number in range(columns)]
schema = dpb.Schema(**dict.fromkeys(names, dpb.Range(0, 1)))
policy = dpb.central.GPBandit(
    contexts=schema, arms=range(arms), reward_range=(0, 1), horizon=rounds, privacy=dpb.JointDP(1, 1e-6)
)
policy = policy if private else dpb.lab.twin(policy)
rng = np.random.default_rng(0)
for t in range(rounds):
    decision = policy.ask(dict(zip(names, rng.random(columns).tolist())), user=t)
    policy.tell(decision.id, float(rng.random() < 0.5))
"""


def logged_table(folder: Path) -> Path:
    """A CSV file of 200,000 people: three numbers, one of three arms at random, and a reward."""
    path, rng = folder / "logged.csv", np.random.default_rng(0)
    numbers = np.round(rng.random((ROWS, 3)), 4)
    arms = np.array(["mail", "call", "none"])[rng.integers(3, size=ROWS)]
    rewards = (rng.random(ROWS) < 0.3 + 0.4 * numbers[:, 0] * (arms == "mail")).astype(int)
    with path.open("w") as file:
        file.write("age,income,score,arm,reward\n")
        for number, arm, reward in zip(numbers, arms, rewards, strict=True):
            file.write(f"{number[0]},{number[1]},{number[2]},{arm},{reward}\n")
    return path


def cases(folder: Path) -> dict[str, list[str]]:
    """Arguments of Python by the name of the case."""
    learn = f"central learn {logged_table(folder)} --out {folder}/learned --horizon {ROWS} --epsilon 1"
    learn += " --context age,income,score --action arm --reward reward --arms mail,call,none"
    learn += " --bounds 0:1,0:1,0:1,0:1 --one-row-per-user"
    run = f"run --data synthetic-income --horizon 2000 --reps 1 --jobs 1 --force --out {folder}/run"
    run += " --noise simulated --attack-trials 40"
    local = "local simulate --users 4000 --epsilon 4"
    return {
        f"dpbandits {local}": [COMMAND, *local.split()],
        "dpbandits run, one crowd of 2,000 people": [COMMAND, *run.split()],
        f"dpbandits central learn, {ROWS:,} rows": [COMMAND, *learn.split()],
        "script, GPBandit, 2,000 decisions, 10 columns x 4 arms": [SCRIPT, *["10", "4", "2000", "1"]],
        "script, GPBandit, 2,000 decisions, 3 columns x 100 arms": [SCRIPT, "3", "100", "2000", "1"],
        "script, twin without privacy, 2,000 decisions, 10 columns x 4 arms": [
            SCRIPT,
            *["10", "4", "2000", "0"],
        ],
    }


def cpu_seconds(arguments: list[str], threads: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603  # code of this file
        [sys.executable, "-W", "ignore", "-c", *arguments],
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"a process of the benchmark failed: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(name: str, arguments: list[str], repetitions: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"default": [], "one": []}
    for _ in range(repetitions):
        for threads, found in seconds.items():
            found.append(cpu_seconds(arguments, threads))
    default, one = (statistics.median(found) for found in seconds.values())
    print(
        f"{name}: {default:.2f} s with default threads, {one:.2f} s with one, {default / one:.2f} times",
        flush=True,
    )
    return {"name": name, "ratio": default / one, "missed": default / one > AIM, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS.name} where everything is measured")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            compared(name, arguments, options.repetitions)
            for name, arguments in cases(Path(folder)).items()
            if options.only in name
        ]
    found = {
        "aim": AIM,
        "repetitions": options.repetitions,
        "versions": versions(),
        "cpus": os.cpu_count(),
        "load_before": load,
        "rows": rows,
    }
    out = options.out or (None if options.only else RESULTS)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
