"""Moving a service: from its folder into a database, so that many workers can serve, and back.

Both have the same tables, so a move copies rows. What goes on goes on in one place. A move has an id, and
three steps, each durable before the next:

1. every row is written to its new place, which says that it serves nobody yet;
2. the old place is retired: every policy's lineage goes one position further at its ledger, so that no state
   of it, and no copy that this ledger witnesses, can go on there; what is raw is removed, and it says itself
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

from dpbandits.errors import StateError
from dpbandits.service.backups import KEY, STORE, held_store, why_copy
from dpbandits.service.keys import Keys, adoptions, check_key
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, Store, Writes
from dpbandits.state.files import open_regular, private_folder, write_durably

__all__ = ["into_database", "into_folder"]

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
