"""A process that charges a witnessed ledger until it is killed, or so many times: `DIRECTORY NAME [N]`."""

import itertools
import sys
from pathlib import Path

from dpbandits.budget import SQLiteLedger
from dpbandits.errors import BudgetExceeded
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import FileWitness


def live(folder, name, numbers):
    """Charge once a number; say so when it is acknowledged."""
    ledger = SQLiteLedger(folder / "ledger.db", witness=FileWitness(folder / "elsewhere"))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in numbers:
        try:
            ledger.charge("purse", charge_id=f"{name}:{number}", cost=JointDP(1))
        except BudgetExceeded:
            continue
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    endless = len(sys.argv) == 3
    live(Path(sys.argv[1]), sys.argv[2], itertools.count() if endless else range(int(sys.argv[3])))
