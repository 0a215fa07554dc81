"""Durable state: what a restart must not forget, and must not do twice.

- `State`: one object's saved state: JSON and arrays, public and secret parts kept apart.
- `write_state(path, state)`, `read_state(path)`: the file format. Non-executable, checksummed, written
  atomically with mode 0600.
- `StateKey`: seals state files with a key that is kept elsewhere.
- `StateStore(path, ledger=)`: commits states so that a crash at any point neither loses a release
  nor lets it be drawn twice, and two copies of one state cannot both go on.
- `Ledger`: budgets of accounts, and the witness of how far each state has gone. `MemoryLedger()`
  lives as long as the process; `SQLiteLedger(path)` is durable and shared between processes.
- `Terms`, `Cost`: what an account adds up and promises, and what a charge costs in each currency.
- `FileWitness(folder)`: remembers elsewhere how far a ledger went.

A state file holds raw statistics of the people in the data: keep it as you keep the data, or seal it.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits.state.format import State, read_state, write_state
from dpbandits.state.ledger import Balance, Charge, Cost, Ledger, MemoryLedger, Terms, Witness
from dpbandits.state.sealing import StateKey
from dpbandits.state.store import StateStore
from dpbandits.state.witness import AppendOnlyWitness, FileWitness

if TYPE_CHECKING:
    from dpbandits.state.sqlite_ledger import SQLiteLedger

__all__ = [
    "AppendOnlyWitness",
    "Balance",
    "Charge",
    "Cost",
    "FileWitness",
    "Ledger",
    "MemoryLedger",
    "SQLiteLedger",
    "State",
    "StateKey",
    "StateStore",
    "Terms",
    "Witness",
    "read_state",
    "write_state",
]

# Some builds of Python have no sqlite3 module (Pyodide, for one).
__getattr__, __dir__ = lazy(__name__, {"dpbandits.state.sqlite_ledger": ("SQLiteLedger",)})
