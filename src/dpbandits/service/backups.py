"""Backups: a copy of a folder that is not served, read-only until it is adopted.

A copy is older than what it was made of as soon as that goes on: it knows of fewer releases and of less that
was spent. To go on from it could release a block a second time with other noise, and spend what is spent. So

- a copy says that it is one (`service.backup`), and a service on it only reads: published functions,
  statements, releases, budgets;
- `adopt` ends that. Where the ledger has a witness on another disk, the witness knows how far the original
  went: a copy that is behind it is refused, and one that is not goes on. Without a witness nobody knows: then
  policies are retired and never opened again, as the original may have released what is due there, with other
  noise; their rounds and states are erased, no reward is awaited, populations are closed, what was published
  stays, and whoever begins anew does so with other people, or says that nothing was asked of the original
  since the copy was made (`nothing_since`). Either way decisions have other ids from then on than the
  original gave (`Keys`): no reward of one goes to another.
"""

import shutil
from pathlib import Path

from dpbandits.budget import SQLiteLedger
from dpbandits.errors import MissingState, StateError
from dpbandits.service.keys import note_adoption
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Writes
from dpbandits.state.files import locked, private_folder, write_durably

__all__ = ["LEDGER", "LOCK", "MARK", "MOVED", "STORE", "adopt", "back_up", "refuse_moved"]

LOCK, STORE, LEDGER, MARK = "service.lock", "service.db", "budget.ledger", "service.backup"
MOVED = "service.moved"
"""File in a folder that was moved into a database; see `dpbandits.service.moving`."""


def refuse_moved(folder: Path) -> None:
    """StateError where what a folder held goes on elsewhere."""
    if (folder / MOVED).exists():
        raise StateError("what this folder held goes on in a database: serve with --database")


def back_up(folder: Path, to: Path) -> None:
    """Copy the folder of a service that is stopped.

    Raises:
        StateError: a service uses the folder, or there is something at `to` already.
        MissingState: there is no service's folder.
    """
    if not (folder / STORE).exists():
        raise MissingState("there is no service's folder: pass the one that serve was given")
    if to.exists():
        raise StateError("there is something already where the backup is to go: choose another place")
    with locked(folder / LOCK, wait=False):
        private_folder(to, what="the backup")
        write_durably(to / MARK, b"a copy: read-only until it is adopted\n")  # first: half a copy is one, too
        shutil.copytree(folder, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))


def adopt(folder: Path, *, settings: Settings, nothing_since: bool = False) -> bool:
    """Let a service continue from a copy; returns whether its policies continue.

    Args:
        folder: the copy.
        settings: they name the witness.
        nothing_since: nobody has asked the original for anything since the copy was made, and nobody will.

    Raises:
        ForkedState: the witness has seen the original go further.
        MissingState: it is no copy.
        StateError: a service uses it.
    """
    if not (folder / MARK).exists():
        raise MissingState("this folder is no backup, or was adopted before")
    with locked(folder / LOCK, wait=False):
        witness = settings.file_witness()
        SQLiteLedger(folder / LEDGER, witness=witness)  # compares itself with its witness
        goes_on = nothing_since or witness is not None
        store = SQLiteStore(folder / STORE)
        try:
            with store.writing() as writes:
                note_adoption(writes)
                if not goes_on:
                    _retire(writes)
            if not goes_on:
                for state in (folder / "policies").glob("*/policy.state"):
                    state.unlink()
        finally:
            store.close()
        (folder / MARK).unlink()
    return goes_on


def _retire(writes: Writes) -> None:
    """Close what the copy has; of rounds that no release holds nothing is left, as none ever will."""
    writes.run("DELETE FROM rounds")
    writes.run("UPDATE policies SET status = 'retired', revision = revision + 1")
    writes.run(
        "UPDATE decisions SET due_at = NULL, "
        "status = CASE status WHEN 'deferred' THEN 'expired' ELSE 'lost' END "
        "WHERE status IN ('pending', 'deferred')"
    )
    writes.run(
        "INSERT INTO facts SELECT 'closed ' || name, 'adopted from a backup' FROM populations "
        "WHERE true ON CONFLICT (name) DO NOTHING"
    )
