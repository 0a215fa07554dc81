"""Durable state: files, locks and logs that survive a crash, and detection of rollbacks and forks.

- `State`: the saved state of one object: JSON and arrays, with separate public and secret parts.
- `write_state(path, state)`, `read_state(path)`: write and read a state file. It has checksums, contains no
  code, and is written atomically with mode 0600.
- `StateKey`: a key that encrypts state files; store it elsewhere.
- `StateStore(path, ledger=)`: commits states. A crash at any point neither loses a release nor lets it be
  drawn twice, and two copies of one state cannot both continue.
- `Payer`: the interface of a ledger (`dpbandits.budget`) that states use. A ledger charges an account, and
  counts the commits of every state, which detects rollbacks.
- `FileWitness(folder)`: an external counter that detects a rollback of the ledger itself.

A state file contains raw statistics of the users in the data: protect it as you protect the data, or encrypt
it.
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
