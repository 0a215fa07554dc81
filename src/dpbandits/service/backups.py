"""Copies and moves of a service. A copy or a restored backup is read-only until it is adopted.

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

Moves
-----
A service moves from its folder into a database, so that many workers can serve, and back.

Both have the same tables, so a move copies rows. What goes on goes on in one place. A move has an id, and
three steps, each durable before the next:

1. every row is written to its new place, which says that it serves nobody yet;
2. the old place is retired. Every policy's lineage goes one position further at its ledger, so that no state
   of it, and no copy that this ledger witnesses, can go on there. Raw data is removed, and the place says
   that it serves nobody;
3. the new place says that it serves.

Whatever interrupts, the same command goes on: before the second step the old place is as it was, and the new
one is filled anew; after it the new one only has to be told. A policy that was moved has its next release
still to come in the new place alone, so nothing is released twice; its account is in the new ledger alone, so
nothing is charged twice.

A place that was left keeps no raw data: rounds, states, decisions and tokens are gone from it. In a database
no write transaction begins any more, so that a worker that was forgotten acknowledges nothing there.

A witness knows one place. The new place has none until it is started with one, which must be new to it.
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
"""Fact: the name of the deployment whose store this is."""

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
"""Facts of one place, which are not moved."""

_BEING_FILLED = "it is being filled; repeat the move"


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
        CorruptState, IncompatibleState: the store cannot be used.
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


# -- moves ----------------------------------------------------------------------------------------------


def into_database(folder: Path, *, settings: Settings) -> None:
    """Move what a folder holds into the database of the settings; the service must be stopped.

    Raises:
        StateError: a service uses the folder; or the database has a service of its own.
    """
    if not (folder / STORE).exists():
        raise StateError("there is no service's folder")
    with _both(folder, settings) as (store, database):
        _refuse_copies(folder, store, settings)
        keys = Keys(folder / KEY, store_adoptions(store))
        _move(store, database, keys, settings, "what it held goes on in a database: serve with --database")


def into_folder(source: Path, to: Path, *, settings: Settings) -> None:
    """Move what the database of the settings holds into a new folder; all workers must be stopped.

    Args:
        source: a worker's folder, which has the key.
        to: must not exist, or be what an interrupted move left.
        settings: name the database, and its witness, if any.

    Raises:
        StateError: there is something else at `to`; or the database serves nobody.
    """
    if not (source / KEY).exists():
        raise StateError("--data: expected a worker's folder, which has service.key")
    if to.exists() and not {STORE, KEY} & {one.name for one in to.iterdir()}:
        raise StateError("there is something already where the folder is to be: choose another place")
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
    """The store of a folder, which nobody else uses, and that of the settings' database."""
    from dpbandits.service.postgres import PostgresStore

    with ExitStack() as files:
        own = files.enter_context(closing(held_store(folder, files)))
        yield own, files.enter_context(closing(PostgresStore(settings.database)))


def store_adoptions(store: Store) -> list[tuple[int, str]]:
    """The adoptions that a store has seen."""
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
    """The third step: the new place serves."""
    with to.moving() as writes:
        with source.reading() as reads:
            moved = reads.one("SELECT value FROM facts WHERE name = 'move'")
        if moved is None or writes.one("SELECT value FROM facts WHERE name = 'move'") != moved:
            raise StateError("what was here was moved to another place")
        writes.run("DELETE FROM facts WHERE name = 'moving'")


def fill(to: Store, reads: Reads, keys: Keys, move: str) -> None:
    """The first step: all rows."""
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
    """The second step: nothing goes on where it was."""
    for (lineage,) in writes.rows("SELECT id FROM policies"):
        last = ledger.last(lineage)
        if last is not None:
            ledger.advance(lineage, position=last.position + 1, digest=f"moved:{move}")
    for table in _RAW:
        writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
    writes.run("DELETE FROM facts WHERE name NOT IN ('version', 'key', 'witnessed')")
    writes.many("facts", [("moving", said), ("move", move)])
