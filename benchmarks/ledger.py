"""What a currency gains over bare sums, and how long a large ledger takes.

python -m benchmarks.ledger
python -m benchmarks.ledger --charges 200000 --out ledger.json
"""

import argparse
import hashlib
import json
import sqlite3
import tempfile
import time
from pathlib import Path

from dpbandits.policy.accounts import cost_of, epsilon_for
from dpbandits.privacy.calibration import near_gaussian_sigma, rounding_distance, zcdp_rho
from dpbandits.privacy.certificates import NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import SQLiteLedger

LATTICE = 2.0**20
DRAWS = 1000


def twenty_releases():
    """Epsilon at delta 2e-5 of twenty releases of (1, 1e-6) each, by the currency of their account."""
    privacy = JointDP(epsilon=1, delta=1e-6)
    sigma = near_gaussian_sigma(1.0, 1e-6, LATTICE, draws=DRAWS)
    near = NearGaussianDP(LATTICE / sigma, DRAWS * rounding_distance(sigma))
    exact = ZeroConcentratedDP(zcdp_rho(1.0, 1e-6))
    return {
        "bare": epsilon_for([cost_of(exact, privacy=privacy)] * 20, delta=2e-5, currency="bare"),
        "zcdp": epsilon_for([cost_of(exact, privacy=privacy)] * 20, delta=2e-5, currency="zcdp"),
        "gaussian": epsilon_for([cost_of(near, privacy=privacy)] * 20, delta=2e-5, currency="gaussian"),
    }


def older_file(path, n_charges):
    """A ledger of version 2 with so many charges: written at once, as a charge an fsync would take hours."""

    def sealed(*row):
        return (*row, hashlib.blake2b(repr(row).encode(), digest_size=8).hexdigest())

    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE accounts (name TEXT PRIMARY KEY NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
            spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL, seal TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE charges (account TEXT NOT NULL, charge_id TEXT NOT NULL, epsilon TEXT NOT NULL,
            delta TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (account, charge_id)) WITHOUT ROWID;
        CREATE TABLE witnesses (lineage TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL,
            digest TEXT NOT NULL, seal TEXT NOT NULL) WITHOUT ROWID;
        PRAGMA application_id = 1146113095; PRAGMA user_version = 2;"""
    )
    rows = (sealed("people", f"{number:032x}:answer", "1", "0") for number in range(n_charges))
    connection.executemany("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", rows)
    account = sealed("people", str(2 * n_charges), "0", str(n_charges), "0")
    connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?)", account)
    connection.commit()
    connection.close()
    path.chmod(0o600)


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
        older_file(path, options.charges)
        results["migrate, s"] = timed(lambda _: SQLiteLedger(path), 1)
        results["open, s"] = timed(lambda _: SQLiteLedger(path), 9)
        ledger = SQLiteLedger(path)
        charge = lambda n: ledger.charge("people", charge_id=f"new {n}", epsilon=1)  # noqa: E731
        results["charge, s"] = timed(charge, 99)
        results["verify, s"] = timed(lambda _: ledger.verify(), 1)
        small = Path(folder) / "small.db"
        older_file(small, 2000)
        SQLiteLedger(small)
        results["open 2,000 charges and read them, s"] = timed(lambda _: SQLiteLedger(small), 9)
    text = json.dumps(results, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
