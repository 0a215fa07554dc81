"""Moving a service: from its folder into a database, so that many workers can serve, and back.

What goes on goes on in one place. A move has an id, and three steps, each durable before the next:

1. everything is written to its new place, which says that it serves nobody yet;
2. the old place is retired: every policy's lineage goes one position further at its ledger, so that no state
   of it, and no copy that this ledger witnesses, can be opened there again; and it says so itself;
3. the new place says that it serves.

Whatever interrupts, the same command goes on: before the second step the old place is as it was, and the new
one is filled anew; after it the new one only has to be told. A policy that was moved has its next release
still to come in the new place alone, so nothing is released twice; its account is in the new ledger alone, so
nothing is charged twice.

A database that was left keeps no raw data: rounds, states, decisions and tokens are gone from it, and no
write transaction begins in it any more, so that a worker that was forgotten acknowledges nothing there. A
folder that was left keeps what it had; erase it when the move is trusted.

A witness knows one place. The new place has none until it is started with one, which must be new to it.

All that the server of a local policy knows goes along; that of the old place is left with it.
"""

import json
import shutil
import uuid
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.budget import Ledger, SQLiteLedger
from dpbandits.errors import InvalidParameter, StateError
from dpbandits.local import DurableServer, Spec
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.service.backups import LEDGER, LOCK, MARK, MOVED, STORE
from dpbandits.service.engines import Engines, is_closed
from dpbandits.service.keys import Keys, adoptions, canonical, check_key
from dpbandits.service.postgres import PostgresStore
from dpbandits.service.round_log import slot_of
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.served import ServedBandit
from dpbandits.service.settings import Settings
from dpbandits.service.shared import TableLife, due_after, rounds_of, scratch
from dpbandits.service.shared_surveys import SharedServer
from dpbandits.service.store import Reads, Row, SQLiteStore, Writes
from dpbandits.state.files import locked, open_regular, private_folder, write_durably
from dpbandits.state.format import read_state

__all__ = ["into_database", "into_folder"]

_PLAIN = ("tokens", "populations", "policies", "decisions", "events", "exchanges", "questions", "surveys")
"""Tables that are moved as they are."""
_LOCAL = ("survey_log", "survey_states")
_RAW = (
    "progress",
    "slots",
    "people",
    "states",
    "decisions",
    "tokens",
    "accounts",
    "charges",
    "questions",
    *_LOCAL,
)
_BEING_FILLED = "it is being filled; repeat the move"


def into_database(folder: Path, *, settings: Settings) -> None:
    """Move what a folder holds into the database of the settings; the service must be stopped.

    Raises:
        StateError: a service uses the folder; or the database has a service of its own.
        InvalidParameter: something in it cannot live in a database; nothing was moved.
    """
    if not (folder / STORE).exists() or (folder / MARK).exists():
        raise StateError("there is no service's folder, or a backup that was not adopted")
    with ExitStack() as files:
        files.enter_context(locked(folder / LOCK, wait=False))
        store = files.enter_context(closing(SQLiteStore(folder / STORE)))
        to = files.enter_context(closing(PostgresStore(settings.database)))
        ledger = SQLiteLedger(folder / LEDGER, witness=settings.file_witness())
        move = _moved_as(folder)
        if move is None:
            move = uuid.uuid4().hex
            with store.writing() as writes:
                engines = Engines(store, ledger, folder / "policies", most=settings.policy_memory)
                policies = _policies(writes, engines, folder)
                fill_database(to, writes, policies, ledger, folder, move)
            write_durably(folder / MOVED, json.dumps({"move": move}).encode(), exclusive=True)
        with store.reading() as reads:
            retire_lineages(ledger, _ids(reads), move)
        with to.moving() as writes:
            row = writes.one("SELECT value FROM facts WHERE name = 'move'")
            if row != (move,):
                raise StateError("the folder was moved into another database")
            writes.run("DELETE FROM facts WHERE name = 'moving'")


def _moved_as(folder: Path) -> str | None:
    if not (folder / MOVED).exists():
        return None
    with open_regular(folder / MOVED) as (file, size):
        return str(json.loads(file.read(size))["move"])


class _Policy:
    """State of an open policy that is moved, and its rows elsewhere."""

    def __init__(self, policy: ServedBandit, identity: str, state: Path) -> None:
        if not isinstance(policy.tuning.reporting_delay, int):
            raise InvalidParameter("a policy whose reporting_delay is a time lives in a folder")
        self.content, arrays = state.read_bytes(), read_state(state).arrays
        asked, first = (int(value) for value in arrays["book_clock"])
        released = policy.blocks_released
        due = due_after(policy, released)
        config = canonical(policy.to_config())
        self.progress: Row = (identity, asked, due, released, config, bytes(arrays["book_salt"]))
        self.state: Row = identity, asked, self.content
        self.released, self.published = released, policy.publish(prior=True).to_json()
        self.people = _people(identity, arrays)
        self.slots = _slots(identity, arrays, asked, first)


def _people(identity: str, arrays: Mapping[str, Any]) -> list[Row]:
    users, taken = arrays["book_users"], arrays["book_taken"].tolist()
    return [(identity, user.tobytes(), count) for user, count in zip(users, taken, strict=True)]


def _slots(identity: str, arrays: Mapping[str, Any], asked: int, first: int) -> list[Row]:
    chosen, rewards = np.asarray(arrays["book_actions"], dtype="<f8"), arrays["book_rewards"]
    status = arrays["book_status"][first:]
    told = (status == RoundStatus.TOLD).tolist()
    return [
        (identity, slot, None, row.tobytes(), int(became), float(reward) if counts else None)
        for slot, row, became, reward, counts in zip(
            range(first, asked), chosen, status, rewards, told, strict=True
        )
    ]


def _policies(writes: Writes, engines: Engines, folder: Path) -> list[_Policy]:
    """Every policy that goes on, taken up, so that its state holds all that was noted."""
    found = []
    for (identity,) in writes.rows("SELECT id FROM policies WHERE status <> 'beginning'"):
        if not is_closed(writes, identity):
            policy = engines.use(writes, identity).policy
            found.append(_Policy(policy, identity, folder / "policies" / identity / "policy.state"))
    engines.close()
    return found


def fill_database(
    to: PostgresStore, reads: Writes, policies: list[_Policy], ledger: SQLiteLedger, folder: Path, move: str
) -> None:
    """The first step of a move into a database."""
    with to.moving() as writes, writes.kept_alive():
        fresh = writes.one("SELECT name FROM facts WHERE name <> 'version' AND name <> 'moving'") is None
        being = writes.one("SELECT value FROM facts WHERE name = 'moving'")
        if being is None and not fresh:
            raise StateError("the database has a service of its own: give this one an empty one")
        for table in (*_PLAIN, *_RAW, "releases", "lineages"):
            writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
        writes.run("DELETE FROM facts WHERE name <> 'version'")
        for table in _PLAIN:
            writes.many(table, reads.rows(f"SELECT * FROM {table}"))  # noqa: S608 - a name of ours
        writes.many(
            "facts", reads.rows("SELECT * FROM facts WHERE name NOT IN ('version', 'key', 'witnessed')")
        )
        writes.many("facts", [("moving", _BEING_FILLED), ("move", move)])
        check_key(writes, Keys(folder / "service.key", adoptions(reads)))
        writes.many("releases", reads.rows("SELECT * FROM releases"))
        for one in policies:
            identity = one.progress[0]
            writes.many("progress", [one.progress])
            writes.many("states", [one.state])
            writes.many("people", one.people)
            writes.many("slots", one.slots)
            writes.run(
                "INSERT INTO releases VALUES (?, ?, 0, 0, ?) "
                "ON CONFLICT (policy, version) DO UPDATE SET published = excluded.published",
                identity,
                one.released,
                one.published,
            )
        for identity, text in reads.rows("SELECT id, spec FROM surveys"):
            spec, at = Spec.from_json(text), folder / "local" / str(identity)
            if not at.exists():  # nobody has asked for it yet
                SharedServer.begin(writes, str(identity), spec)
                continue
            with DurableServer.open(spec, at) as known:
                SharedServer.take_over(writes, str(identity), spec, known.server)
        RowLedger(to).take_in(ledger.contents())
        to.go_on_numbering(writes)


def retire_lineages(ledger: Ledger, lineages: list[str], move: str) -> None:
    """Every lineage goes one further, to where no state is."""
    digest = f"moved:{move}"
    for lineage in lineages:
        last = ledger.last(lineage)
        if last is not None and last.digest != digest:
            ledger.advance(lineage, position=last.position + 1, digest=digest)


# -- back -----------------------------------------------------------------------------------------------


def into_folder(source: Path, to: Path, *, settings: Settings) -> None:
    """Move what the database of the settings holds into a new folder; all workers must be stopped.

    Args:
        source: a worker's folder, which has the key.
        to: must not exist, or be what an interrupted move left.
        settings: name the database, and its witness, if any.

    Raises:
        StateError: there is something else at `to`; or the database serves nobody.
    """
    if not (source / "service.key").exists():
        raise StateError("--data: expected a worker's folder, which has service.key")
    with closing(PostgresStore(settings.database)) as store:
        move = _moved_as(to)
        with store.reading() as reads:
            left = reads.one("SELECT value FROM facts WHERE name = 'move'")
            closed = reads.one("SELECT value FROM facts WHERE name = 'moving'")
        if move is not None and left == (move,) and closed is not None:
            (to / MOVED).unlink()
            return
        if closed is not None:
            raise StateError(f"this database serves nobody: {closed[0]}")
        if to.exists() and move is None:
            raise StateError("there is something already where the folder is to be: choose another place")
        move, ledger = uuid.uuid4().hex, RowLedger(store, witness=settings.file_witness())
        ledger.begin()
        with store.moving() as writes, writes.kept_alive():
            _empty(private_folder(to, what="the new folder"), move)
            fill_folder(store, writes, source, to)
            retire_lineages(ledger, _ids(writes), move)
            for table in _RAW:
                writes.run(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
            writes.run("DELETE FROM facts WHERE name <> 'version' AND name <> 'key'")
            writes.many("facts", [("moving", "it was moved into a folder"), ("move", move)])
        (to / MOVED).unlink()


def _ids(reads: Reads) -> list[str]:
    return [str(row[0]) for row in reads.rows("SELECT id FROM policies")]


def _empty(to: Path, move: str) -> None:
    """A folder that serves nobody yet; what an interrupted move left in it is gone."""
    for one in to.iterdir():
        if one.name != MOVED:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    (to / MOVED).unlink(missing_ok=True)
    write_durably(to / MOVED, json.dumps({"move": move}).encode(), exclusive=True)


def fill_folder(store: PostgresStore, reads: Writes, source: Path, to: Path) -> None:
    """The first step of a move into a folder, in the transaction that retires the database."""
    with open_regular(source / "service.key") as (file, size):
        write_durably(to / "service.key", file.read(size), exclusive=True)
    check_key(reads, Keys(to / "service.key", adoptions(reads)))
    policies_at = private_folder(to / "policies", what="policies")
    shared, asks = RowLedger(store), {}
    for identity, held, asked in reads.rows(
        "SELECT s.policy, s.held, p.asked FROM states s JOIN progress p ON p.policy = s.policy"
    ):
        with scratch(source / "under-way") as folder:
            rounds = rounds_of(reads, str(identity), upto=int(asked))
            life = TableLife(identity, folder, rounds=rounds, upto=int(asked), held=int(held))
            content = reads.one("SELECT content FROM states WHERE policy = ?", identity)
            write_durably(life.state, bytes(content[0]) if content else b"", exclusive=True)
            ServedBandit.open(life, ledger=shared).close()  # its state holds all rounds now
            asks[identity] = _ids_of_asks(identity, life.state)
            own = private_folder(policies_at / identity, what="the policy's folder")
            write_durably(own / "policy.state", life.state.read_bytes(), exclusive=True)
    local_at = private_folder(to / "local", what="local policies")
    for identity, text in reads.rows("SELECT id, spec FROM surveys"):
        spec = Spec.from_json(text)
        known = SharedServer(store, str(identity), spec).server_in(reads)
        DurableServer.taking_over(spec, local_at / str(identity), known).close()
    with closing(SQLiteStore(to / STORE)) as new, new.writing() as writes:
        for table in _PLAIN:
            writes.many(table, reads.rows(f"SELECT * FROM {table}"))  # noqa: S608 - a name of ours
        writes.many(
            "facts",
            reads.rows("SELECT * FROM facts WHERE name NOT IN ('version', 'move', 'moving', 'witnessed')"),
        )
        writes.many("releases", reads.rows("SELECT * FROM releases WHERE version > 0"))
        open_ones = "SELECT number, policy, ask FROM decisions WHERE status IN ('pending', 'deferred')"
        for number, policy, ask in writes.rows(open_ones):
            if policy in asks:
                writes.run(
                    "UPDATE decisions SET ask = ? WHERE number = ?", asks[policy](slot_of(ask)), number
                )
    SQLiteLedger(to / LEDGER).take_in(shared.contents())


def _ids_of_asks(identity: str, state: Path) -> Callable[[int], str]:
    """The ids that a state's book gave its rounds, by their index."""
    arrays = read_state(state).arrays
    starts, nonces = arrays["book_epoch_starts"].tolist(), arrays["book_epoch_nonces"].tolist()

    def named(slot: int) -> str:
        return f"{identity[:8]}-{slot}-{int(nonces[bisect_right(starts, slot) - 1]):08x}"

    return named
