"""Copies: backups, and what else was copied or restored, are read-only until they are adopted.

A copy is older than what it was made of as soon as that goes on: it knows of fewer releases and of less that
was spent. To go on from it could release a block a second time with other noise, and spend what is spent. So

- a backup says that it is one (`service.backup`), and a service on it only reads: published functions,
  statements, releases, budgets;
- a folder or database that was copied by other means is told by what is outside of it. The store holds the
  name of its `instance`, which the settings of each deployment give: under another name, or none, it is a
  copy. A container that is started again has the same name. The `witness` refuses a store that is behind it,
  and a second folder while the first one is served. What is served under the same name and without the
  witness is not noticed;
- `adopt` ends that. Where the ledger has a witness on another disk, the witness knows how far the original
  went: a copy that is behind it is refused, and one that is not goes on. Without a witness nobody knows: then
  policies are retired and never opened again, as the original may have released what is due there, with other
  noise; their rounds and states are erased, no reward is awaited, populations are closed, what was published
  stays, and whoever begins anew does so with other people, or says that nothing was asked of the original
  since the copy was made (`nothing_since`). Either way decisions have other ids from then on than the
  original gave (`Keys`): no reward of one goes to another.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from dpbandits.errors import MissingState, StateError
from dpbandits.service.keys import note_adoption
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Store, Writes
from dpbandits.state.files import locked, open_regular, private_folder, write_durably

__all__ = [
    "KEY",
    "STORE",
    "adopt",
    "back_up",
    "held_store",
    "name_instance",
    "opened_store",
    "unnoticed_copies",
    "why_copy",
]

_INSTANCE = "instance"
"""Fact: the name of the deployment whose store this is."""

STORE, MARK, KEY = "service.db", "service.backup", "service.key"
_LOCK = "service.lock"


def held_store(folder: Path, files: ExitStack) -> SQLiteStore:
    """The store of a folder, which no other process uses until `files` are closed.

    Raises:
        StateError: another process uses it.
    """
    files.enter_context(locked(folder / _LOCK, wait=False))
    return SQLiteStore(folder / STORE)


@contextmanager
def opened_store(folder: Path, settings: Settings) -> Iterator[Store]:
    """The store of a service: the database that is named, or the file of the folder, held by this process.

    Raises:
        StateError: another process uses the folder, or serves another one with its witness; what was here
            goes on elsewhere; or the folder has a service of its own beside the database.
        CorruptState, IncompatibleState: what is there cannot be used.
    """
    with ExitStack() as files:
        if not settings.database:
            store = files.enter_context(closing(held_store(folder, files)))
            if (left := store.left()) is not None:
                raise StateError(f"this folder serves nobody: {left}")
            if settings.witness and not Path(settings.witness).is_dir():
                raise StateError("witness: the folder that this setting names does not exist: make it first")
            if settings.witness and not why_copy(folder, store, settings):
                try:
                    files.enter_context(locked(Path(settings.witness) / _LOCK, wait=False))
                except StateError as error:
                    words = "another folder is served with this witness, so one is a copy; or it has no locks"
                    raise StateError(words) from error
            yield store
            return
        if (folder / STORE).exists():
            with closing(SQLiteStore(folder / STORE)) as own:
                if own.left() is None:
                    raise StateError(
                        "the folder has a service's own data: move them with `dpbandits service copy`"
                    )
        from dpbandits.service.postgres import PostgresStore

        yield files.enter_context(closing(PostgresStore(settings.database)))


def why_copy(folder: Path, store: Store, settings: Settings) -> str:
    """Return why what is here only reads; empty if it is no copy. See the module."""
    if isinstance(store, SQLiteStore) and (folder / MARK).exists():
        return "it is a backup"
    with store.reading() as reads:
        row = reads.one("SELECT value FROM facts WHERE name = ?", _INSTANCE)
    if row is None or row[0] == settings.instance:
        return ""
    return f"it belongs to the instance {row[0]!r}, and the settings name {settings.instance!r}"


def name_instance(writes: Writes, settings: Settings) -> None:
    """Write down whose store this is, where nobody has."""
    if settings.instance:
        writes.run("INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING", _INSTANCE, settings.instance)


def unnoticed_copies(settings: Settings) -> str:
    """Return a warning if nothing outside of a store tells it from a copy; empty otherwise."""
    if settings.witness or settings.instance:
        return ""
    return (
        "neither witness nor instance is set: if this folder or database is copied or restored and "
        "served again, nobody notices, and a block may be released twice with different noise"
    )


def back_up(folder: Path, to: Path) -> None:
    """Copy the folder of a service, which may run meanwhile: everything that was acknowledged before.

    Raises:
        StateError: there is something at `to` already, or the copy could not be made.
        MissingState: there is no service's folder.
    """
    if not (folder / STORE).exists():
        raise MissingState("the folder has no data of a service: pass the one given to serve")
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
        settings: they name the witness, the database if it is not the folder's, and the instance, whose
            store it is from then on.
        nothing_since: nobody has asked the original for anything since the copy was made, and nobody will.

    Raises:
        ForkedState: the witness has seen the original go further.
        MissingState: it is no copy.
        StateError: a service uses it.
    """
    if not settings.database and not (folder / STORE).exists():
        raise MissingState("the folder has no data of a service: pass the copy")
    with ExitStack() as files:
        store = files.enter_context(opened_store(folder, settings))
        if not why_copy(folder, store, settings):
            raise MissingState("this is no copy, or was adopted before")
        goes_on = RowLedger(store, witness=settings.file_witness()).check() or nothing_since
        with store.writing() as writes:
            note_adoption(writes)
            writes.run("DELETE FROM facts WHERE name = ?", _INSTANCE)
            name_instance(writes, settings)
            if not goes_on:
                _retire(writes)
        (folder / MARK).unlink(missing_ok=True)
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
