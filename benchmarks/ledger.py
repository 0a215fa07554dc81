"""Benefit of an accountant over sums of epsilons, and time of a large ledger.

python -m benchmarks.ledger
python -m benchmarks.ledger --charges 200000 --out ledger.json
"""

import argparse
import json
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from dpbandits.budget import Balance, Charge, Cost, SQLiteLedger, Terms, cost_of, epsilon_for
from dpbandits.budget.ledger import Contents
from dpbandits.privacy.calibration import near_gaussian_sigma, rounding_distance, zcdp_rho
from dpbandits.privacy.certificates import NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP

LATTICE = 2.0**20
DRAWS = 1000


def twenty_releases():
    """Epsilon at delta 2e-5 of twenty releases of (1, 1e-6) each, by the accountant that adds them up."""
    privacy = JointDP(epsilon=1, delta=1e-6)
    sigma = near_gaussian_sigma(1.0, 1e-6, LATTICE, draws=DRAWS)
    near = NearGaussianDP(LATTICE / sigma, DRAWS * rounding_distance(sigma))
    exact = ZeroConcentratedDP(zcdp_rho(1.0, 1e-6))
    return {
        "basic": epsilon_for([Cost.of(privacy)] * 20, delta=2e-5),
        "zcdp": epsilon_for([cost_of(exact, privacy=privacy)] * 20, delta=2e-5),
        "gaussian": epsilon_for([cost_of(near, privacy=privacy)] * 20, delta=2e-5),
    }


def large_file(path, n_charges):
    """A ledger with so many charges, written at once: charge by charge it would take hours."""
    charge, spent = Charge(epsilon=Decimal(1)), Charge(epsilon=Decimal(n_charges))
    terms = Terms.of(JointDP(2 * n_charges))
    charges = {("people", f"{number:032x}:answer"): charge for number in range(n_charges)}
    SQLiteLedger(path).take_in(Contents({"people": Balance(terms, spent)}, charges, {}))


def timed(task, repetitions):
    """Shortest and median seconds."""
    taken = []
    for repetition in range(repetitions):
        start = time.perf_counter()
        task(repetition)
        taken.append(time.perf_counter() - start)
    return {"shortest": round(min(taken), 4), "median": round(sorted(taken)[len(taken) // 2], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charges", type=int, default=200_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {"epsilon of twenty releases": twenty_releases(), "charges": options.charges}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        large_file(path, options.charges)
        results["open, s"] = timed(lambda _: SQLiteLedger(path), 9)
        ledger = SQLiteLedger(path)
        charge = lambda n: ledger.charge("people", charge_id=f"new {n}", cost=JointDP(1))  # noqa: E731
        results["charge, s"] = timed(charge, 99)
        results["verify, s"] = timed(lambda _: ledger.verify(), 1)
        small = Path(folder) / "small.db"
        large_file(small, 2000)
        SQLiteLedger(small)
        results["open 2,000 charges and read them, s"] = timed(lambda _: SQLiteLedger(small), 9)
    text = json.dumps(results, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
