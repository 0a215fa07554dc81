"""Time and memory of decisions among many products: `python -m benchmarks.products`.

Products have a category, a price and a rating, and users three columns
(`reproduction.studies.product_worlds`). Every ask names half of the products in `available=`. For each number
of products there is one process, in which BLAS has one thread. Times are CPU times: of the construction, of
the first release, and of asks after it, one by one. The peak of memory includes Python.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import dpbandits as dpb
from reproduction.studies.product_worlds import PEOPLE, ProductWorld

RESULTS = Path(__file__).resolve().parents[1] / "reproduction" / "results" / "products-speed.json"

SIZES, ROUNDS, ASKS, SEED = (200, 1_000), 20_000, 300, 7_500_000
"""Numbers of products, horizon, number of asks that are timed, and the seed of the world."""


def measured(products: int) -> dict[str, float]:
    """Return the numbers of one policy in this process."""
    warnings.simplefilter("ignore")
    crowd = ProductWorld("speed", 0.5, n_products=products).crowd(SEED, 2_000)
    before, began = peak_megabytes(), time.process_time()
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        arms=crowd.products,
        reward_range=(0, 1),
        horizon=ROUNDS,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )
    built, construction = time.process_time() - began, peak_megabytes() - before
    end, rng = policy.batch_boundaries[0], np.random.default_rng(SEED)
    decided = policy.ask_batch({name: own[:end] for name, own in crowd.table.items()}, users=range(end))
    policy.tell_batch(decided.ids, rng.random(end))
    labels, spent = np.array(crowd.products.labels), np.empty(ASKS + 1)
    for number in range(ASKS + 1):
        person = {name: own[end + number] for name, own in crowd.table.items()}
        some = rng.choice(labels, products // 2, replace=False).tolist()
        mark = time.process_time()
        policy.ask(person, user=end + number, available=some)
        spent[number] = time.process_time() - mark
    return {
        "products": products,
        "construction_s": built,
        "construction_mb": construction,
        "release_s": spent[0],  # the first of these asks makes the release
        "ask_p50_us": 1e6 * float(np.median(spent[1:])),
        "ask_worst_ms": 1e3 * float(spent[1:].max()),
        "peak_mb": peak_megabytes(),
    }


def peak_megabytes() -> float:
    """Return the largest resident size of this process so far."""
    with Path("/proc/self/status").open() as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1e3


def main() -> None:
    """Print and write a row for every number of products."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.child)))
        return
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    rows = []
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.products", "--child", str(size)]
        done = subprocess.run(command, env=os.environ | one, capture_output=True, text=True, check=True)  # noqa: S603 - ours
        rows.append({name: float(f"{value:.4g}") for name, value in json.loads(done.stdout).items()})
        print(rows[-1], flush=True)
    found = {"rounds": ROUNDS, "asks": ASKS, "seed": SEED, "load_after": os.getloadavg()[0], "rows": rows}
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
