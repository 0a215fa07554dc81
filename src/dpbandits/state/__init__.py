"""Durable state: what a restart must not forget, and must not do twice.

- `State`: one object's saved state: JSON and arrays, public and secret parts kept apart.
- `write_state(path, state)`, `read_state(path)`: the file format. Non-executable, checksummed, written
  atomically with mode 0600.
- `StateKey`: seals state files with a key that is kept elsewhere.
- `StateStore(path, ledger=)`: commits states so that a crash at any point neither loses a release
  nor lets it be drawn twice, and two copies of one state cannot both go on.
- `Payer`: what states ask of a ledger (`dpbandits.budget`): to pay, and to witness how far they have gone.
- `FileWitness(folder)`: remembers elsewhere how far a ledger went.

A state file holds raw statistics of the people in the data: keep it as you keep the data, or seal it.
"""

from dpbandits._lazy import lazy
from dpbandits.state.format import State, read_state, write_state
from dpbandits.state.sealing import StateKey
from dpbandits.state.store import StateStore
from dpbandits.state.witness import AppendOnlyWitness, FileWitness, Payer, Witness

__all__ = [
    "AppendOnlyWitness",
    "FileWitness",
    "Payer",
    "State",
    "StateKey",
    "StateStore",
    "Witness",
    "read_state",
    "write_state",
]

__getattr__, __dir__ = lazy(__name__)
