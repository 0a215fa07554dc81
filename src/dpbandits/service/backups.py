"""Copies and moves of a service. A copy or a restored backup is read-only until it is adopted.

A copy is outdated as soon as the original goes on: it lacks releases and charges. Continuing from it could
release a block a second time with other noise, and spend a budget twice. Therefore:

- A backup is marked (`service.backup`), and a service on it only reads published functions, statements,
  releases and budgets.
- Other copies of a folder or database are detected from outside. The store has the name of its `instance`,
  which the settings of each deployment give: under another name, or none, it is a copy. A restarted container
  has the same name. The `witness` refuses a store that is behind it, and a second folder while the first one
  is served. A copy that is served under the same name and without the witness is not detected.
- `adopt` lets a service continue from a copy. With a witness, a copy that is behind the original is refused,
  and any other copy continues. Without a witness the state of the original is unknown. Then the policies are
  retired for ever, because the original may have released the same blocks with other noise. Their rounds and
  states are erased, no reward is awaited, and populations are closed; published functions stay. New policies
  need other users. The exception is `nothing_since`: an operator states that the original got no requests
  since the copy was made. In both cases later decisions have other ids than those of the original (`Keys`),
  so no reward reaches a wrong decision.

Moves
-----
A service can move from its folder into a database, so that many workers can serve, and back.

Both have the same tables, so a move copies rows. Afterwards the service continues in one place only. A move
has an id and three steps, each durable before the next:

1. all rows are written to the new place, which is marked as out of service;
2. the old place is retired. Every policy's lineage is advanced by one position in its ledger, so that no
   state and no copy that this ledger witnesses can continue there. Raw data is removed, and the place is
   marked as out of service;
3. the new place is marked as in service.

After an interruption the same command continues. Before the second step the old place is unchanged, and the
new one is filled again; after it only the mark of the new place is missing. A moved policy has its next
release in the new place only, so nothing is released twice. Its account is in the new ledger only, so nothing
is charged twice.

A place that was left has no raw data: rounds, states, decisions and tokens are removed. In a database every
new write transaction fails there, so a forgotten worker acknowledges nothing.

A witness belongs to one place. Start the new place with a new witness, or none.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from dpbandits.errors import MissingState, StateError
from dpbandits.service.keys import Keys, adoptions, check_key, note_adoption
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, SQLiteStore, Store, Writes
from dpbandits.state.files import locked, open_regular, private_folder, write_durably

__all__ = [
    "KEY",
    "STORE",
    "adopt",
    "back_up",
    "fill",
    "finish",
    "held_store",
    "into_database",
    "into_folder",
    "name_instance",
    "opened_store",
    "retire",
    "store_adoptions",
    "unnoticed_copies",
    "why_copy",
]

_INSTANCE = "instance"
"""Key in the table `facts` under which the name of the store's deployment is stored."""

STORE, MARK, KEY = "service.db", "service.backup", "service.key"
_LOCK = "service.lock"

_RAW = (
    "progress",
    "slots",
    "people",
    "states",
    "decisions",
    "tokens",
    "sessions",
    "accounts",
    "charges",
    "questions",
    "survey_log",
    "survey_states",
)
_TABLES = (*_RAW, "populations", "policies", "events", "exchanges", "surveys", "releases", "lineages")
_OWN = "('version', 'moving', 'move', 'witnessed')"
"""Names of facts that describe one place, as an SQL list; a move does not copy them."""

_BEING_FILLED = "it is being filled; repeat the move"


def held_store(folder: Path, files: ExitStack) -> SQLiteStore:
    """Return the store of a folder, locked for this process until `files` is closed.

    Raises:
        StateError: another process uses the folder.
    """
    files.enter_context(locked(folder / _LOCK, wait=False))
    return SQLiteStore(folder / STORE)


@contextmanager
def opened_store(folder: Path, settings: Settings) -> Iterator[Store]:
    """Open the store of a service: the database of the settings, or the file of the folder with its lock.

    Raises:
        StateError: another process uses the folder, or serves another folder with its witness; the service
            was moved elsewhere; or the folder has data of its own besides the database.
        CorruptState, IncompatibleState: the store cannot be used.
    """
    with ExitStack() as files:
        if not settings.database:
            store = files.enter_context(closing(held_store(folder, files)))
            if (left := store.left()) is not None:
                raise StateError(f"this folder is out of service: {left}")
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
    """Return the reason why the store is a read-only copy; empty if it is no copy.

    See the module for the rules.
    """
    if isinstance(store, SQLiteStore) and (folder / MARK).exists():
        return "it is a backup"
    with store.reading() as reads:
        row = reads.one("SELECT value FROM facts WHERE name = ?", _INSTANCE)
    if row is None or row[0] == settings.instance:
        return ""
    return f"it belongs to the instance {row[0]!r}, and the settings name {settings.instance!r}"


def name_instance(writes: Writes, settings: Settings) -> None:
    """Store the deployment's name from the settings, unless the store has a name already."""
    if settings.instance:
        writes.run("INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING", _INSTANCE, settings.instance)


def unnoticed_copies(settings: Settings) -> str:
    """Return a warning if the service would not detect that its store was copied; empty otherwise."""
    if settings.witness or settings.instance:
        return ""
    return (
        "neither witness nor instance is set: if this folder or database is copied or restored and "
        "served again, nobody notices, and a block may be released twice with different noise"
    )


def back_up(folder: Path, to: Path) -> None:
    """Copy the folder of a service, which may be running, with everything acknowledged before the call.

    Raises:
        StateError: `to` exists, or the copy failed.
        MissingState: the folder has no data of a service.
    """
    if not (folder / STORE).exists():
        raise MissingState("the folder has no data of a service: pass the one given to serve")
    if to.exists():
        raise StateError("the place of the backup exists already: choose another one")
    private_folder(to, what="the backup")
    write_durably(to / MARK, b"a copy: read-only until it is adopted\n")  # first: marks half a copy as well
    with open_regular(folder / KEY) as (file, size):
        write_durably(to / KEY, file.read(size), exclusive=True)
    SQLiteStore.copy(folder / STORE, to / STORE)


def adopt(folder: Path, *, settings: Settings, nothing_since: bool = False) -> bool:
    """Let a service continue from a copy; return True if its policies continue.

    Args:
        folder: folder of the copy.
        settings: settings with the witness, the database if there is one, and the new name of the instance.
        nothing_since: True if the original got no requests since the copy was made, and will get none.

    Raises:
        ForkedState: the witness has seen a later state of the original.
        MissingState: the store is not a copy.
        StateError: a service uses the folder.
    """
    if not settings.database and not (folder / STORE).exists():
        raise MissingState("the folder has no data of a service: pass the copy")
    with ExitStack() as files:
        store = files.enter_context(opened_store(folder, settings))
        if not why_copy(folder, store, settings):
            raise MissingState("this is not a copy, or was adopted before")
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
    """Retire all policies and close all populations. Erase the rounds, because no release will use them."""
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


# -- moves ----------------------------------------------------------------------------------------------


def into_database(folder: Path, *, settings: Settings) -> None:
    """Move a service from its folder into the database of the settings. Stop the service first.

    Raises:
        StateError: a service uses the folder, or the database has data of another service.
    """
    if not (folder / STORE).exists():
        raise StateError("there is no service's folder")
    with _both(folder, settings) as (store, database):
        _refuse_copies(folder, store, settings)
        keys = Keys(folder / KEY, store_adoptions(store))
        _move(store, database, keys, settings, "what it held goes on in a database: serve with --database")


def into_folder(source: Path, to: Path, *, settings: Settings) -> None:
    """Move a service from the database of the settings into a new folder. Stop all workers first.

    Args:
        source: folder of a worker, which has the key.
        to: new folder, which must not exist unless it is that of an interrupted move.
        settings: settings with the database, and its witness if there is one.

    Raises:
        StateError: `to` exists, or the database is out of service.
    """
    if not (source / KEY).exists():
        raise StateError("--data: expected a worker's folder, which has service.key")
    if to.exists() and not {STORE, KEY} & {one.name for one in to.iterdir()}:
        raise StateError("the new folder exists already: choose another one")
    private_folder(to, what="the new folder")
    if not (to / KEY).exists():
        with open_regular(source / KEY) as (file, size):
            write_durably(to / KEY, file.read(size), exclusive=True)
    with _both(to, settings) as (store, database):
        _refuse_copies(source, database, settings)
        keys = Keys(source / KEY, store_adoptions(database))
        _move(database, store, keys, settings, "it was moved into a folder")


def _refuse_copies(folder: Path, store: Store, settings: Settings) -> None:
    if why := why_copy(folder, store, settings):
        raise StateError(f"this is a copy that was not adopted: {why}")


@contextmanager
def _both(folder: Path, settings: Settings) -> Iterator[tuple[Store, Store]]:
    """Open the store of a folder, which is locked, and the store in the database of the settings."""
    from dpbandits.service.postgres import PostgresStore

    with ExitStack() as files:
        own = files.enter_context(closing(held_store(folder, files)))
        yield own, files.enter_context(closing(PostgresStore(settings.database)))


def store_adoptions(store: Store) -> list[tuple[int, str]]:
    """Return the adoptions that a store has recorded; see `keys.Adoption`."""
    with store.reading() as reads:
        return adoptions(reads)


def _move(source: Store, to: Store, keys: Keys, settings: Settings, said: str) -> None:
    left, move = source.left(), uuid.uuid4().hex
    if left is None:
        ledger = RowLedger(source, witness=settings.file_witness())
        ledger.begin()
        with source.moving() as leaving, leaving.kept_alive():
            fill(to, leaving, keys, move)
            retire(leaving, ledger, move, said)
    finish(source, to)


def finish(source: Store, to: Store) -> None:
    """Do the third step of a move: mark the new place as in service."""
    with to.moving() as writes:
        with source.reading() as reads:
            moved = reads.one("SELECT value FROM facts WHERE name = 'move'")
        if moved is None or writes.one("SELECT value FROM facts WHERE name = 'move'") != moved:
            raise StateError("the service was moved to another place")
        writes.run("DELETE FROM facts WHERE name = 'moving'")


def fill(to: Store, reads: Reads, keys: Keys, move: str) -> None:
    """Do the first step of a move: copy all rows."""
    with to.moving() as writes, writes.kept_alive():
        fresh = writes.one("SELECT name FROM facts WHERE name <> 'version'") is None
        being = writes.one("SELECT value FROM facts WHERE name = 'moving'")
        if being != (_BEING_FILLED,) and not fresh:
            raise StateError("the new place has a service of its own: give this one an empty one")
        for table in _TABLES:
            writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
            writes.many(table, reads.rows(f"SELECT * FROM {table}"))  # noqa: S608 - a name of ours
        writes.run("DELETE FROM facts WHERE name <> 'version'")
        writes.many("facts", reads.rows(f"SELECT * FROM facts WHERE name NOT IN {_OWN}"))  # noqa: S608
        writes.many("facts", [("moving", _BEING_FILLED), ("move", move)])
        check_key(writes, keys)
        to.go_on_numbering(writes)


def retire(writes: Writes, ledger: RowLedger, move: str, said: str) -> None:
    """Do the second step of a move: retire the old place."""
    for (lineage,) in writes.rows("SELECT id FROM policies"):
        last = ledger.last(lineage)
        if last is not None:
            ledger.advance(lineage, position=last.position + 1, digest=f"moved:{move}")
    for table in _RAW:
        writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
    writes.run("DELETE FROM facts WHERE name NOT IN ('version', 'key', 'witnessed')")
    writes.many("facts", [("moving", said), ("move", move)])
