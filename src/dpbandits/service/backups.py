"""Backups: a copy of a folder, served or not, read-only until it is adopted.

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

from contextlib import ExitStack, closing
from pathlib import Path

from dpbandits.errors import MissingState, StateError
from dpbandits.service.keys import note_adoption
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Writes
from dpbandits.state.files import locked, open_regular, private_folder, write_durably

__all__ = ["MARK", "STORE", "adopt", "back_up", "held_store"]

STORE, MARK, KEY = "service.db", "service.backup", "service.key"
_LOCK = "service.lock"


def held_store(folder: Path, files: ExitStack) -> SQLiteStore:
    """The store of a folder, which no other process uses until `files` are closed.

    Raises:
        StateError: another process uses it.
    """
    files.enter_context(locked(folder / _LOCK, wait=False))
    return SQLiteStore(folder / STORE)


def back_up(folder: Path, to: Path) -> None:
    """Copy the folder of a service, which may run meanwhile: everything that was acknowledged before.

    Raises:
        StateError: there is something at `to` already, or the copy could not be made.
        MissingState: there is no service's folder.
    """
    if not (folder / STORE).exists():
        raise MissingState("there is no service's folder: pass the one that serve was given")
    if to.exists():
        raise StateError("there is something already where the backup is to go: choose another place")
    private_folder(to, what="the backup")
    write_durably(to / MARK, b"a copy: read-only until it is adopted\n")  # first: half a copy is one, too
    with open_regular(folder / KEY) as (file, size):
        write_durably(to / KEY, file.read(size), exclusive=True)
    SQLiteStore.copy(folder / STORE, to / STORE)


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
    with ExitStack() as files:
        store = files.enter_context(closing(held_store(folder, files)))
        goes_on = RowLedger(store, witness=settings.file_witness()).check() or nothing_since
        with store.writing() as writes:
            note_adoption(writes)
            if not goes_on:
                _retire(writes)
        (folder / MARK).unlink()
    return goes_on


def _retire(writes: Writes) -> None:
    """Close what the copy has; of rounds that no release holds nothing is left, as none ever will."""
    for table in ("progress", "slots", "people", "states"):
        writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
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
