"""Local policies: users' own devices fetch the published version, decide, and send reports.

A report is confirmed once it is on disk. A batch is binary: each report follows its length in two bytes,
little-endian.

Every worker counts reports in a `SharedServer`. A local policy has rows of `survey_log`, numbered without a
gap. A row has counts of reports that one worker accepted together (`ReportCounts`, sums of integers and
nonces), or a published version. Every worker applies all rows to a `Server` of its own, so it knows the
reports that other workers have counted.

Accepting reports and publishing are one transaction each:

1. lock the policy's row of `surveys`, and apply the rows of other workers. Many rows are read before the
   lock, because a worker that is suspended while the database sends keeps its locks;
2. filter the reports by open versions and known nonces, or compute the next version if it is still due;
3. insert the row under the next number, and answer after the commit.

So a report counts once, whichever workers its copies reach. A version is published once, and closes older
versions for all workers at one place in the log. A worker's clock only determines when it may publish. If two
workers insert the same number, the key refuses the second row and its transaction.

After a failed transaction a worker drops its `Server`, which may contain uncommitted reports, and reads the
rows again. It starts from `survey_states`, to which a worker now and then writes the whole state of its
server, and then removes the rows before it. Published versions are stored and never recomputed.

Privacy: each report is private by itself (local differential privacy), so the rows need no further
protection. The population is charged once, for one report of one user. A rollback of the database loses
reports and reveals nothing; workers continue from the rows that are left.
"""

import asyncio
import io
import json
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dpbandits._reading import reading
from dpbandits.budget import Ledger, cost_of_guarantee
from dpbandits.errors import CorruptState, ProtocolError, StateError
from dpbandits.local import ReadoutSpec, ReportCounts, Server, Spec
from dpbandits.local.contract.readout import read_spec
from dpbandits.local.server.counting import Absorbed, batch_of
from dpbandits.local.server.durable import counts_for, packed_counts
from dpbandits.local.server.pace import Pace
from dpbandits.service.policies import check_open
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Store, Writes, note_event
from dpbandits.state.container import State
from dpbandits.state.format import decode, encode

__all__ = ["Intake", "SharedServer", "Surveys", "begin_survey", "unpacked_reports"]

_LENGTH = struct.Struct("<H")

MOST_REPORTS = 10_000
"""Largest number of reports in a batch."""


MOST_TOGETHER = 64
"""Largest number of batches in one transaction. The first batch waits for all of them."""

_BEGUN, _COUNTED, _PUBLISHED = "begun", "counted", "published"
_STATE = "local.server"

TAIL_BYTES, TAIL_ROWS = 1 << 22, 1000
"""Numbers of bytes and of rows of the log after which a new state is written, so that a new worker reads
few rows.

The bound on bytes is never smaller than the size of the state.
"""

_TURNS = 5
"""Largest number of attempts to read other workers' rows before the lock is taken."""

_LITTLE = 1 << 15
"""Largest number of bytes that are read while the lock is held. They fit into the buffer of a connection."""

LEAST_OPEN = 600.0
"""Smallest number of seconds for which a version accepts reports."""


def unpacked_reports(body: bytes) -> list[bytes]:
    """Return the reports of a batch; raise Problem if the lengths are wrong or there are too many."""
    alike = _of_one_length(body)
    if alike:
        return alike
    found: list[bytes] = []
    at = 0
    while at < len(body):
        stop = at + _LENGTH.size
        if stop > len(body) or len(found) == MOST_REPORTS:
            break
        (length,) = _LENGTH.unpack_from(body, at)
        if stop + length > len(body):
            break
        found.append(body[stop : stop + length])
        at = stop + length
    if at != len(body) or not found:
        raise Problem(
            "malformed",
            f"Expected 1 to {MOST_REPORTS} reports, each after its length in two bytes, little-endian.",
        )
    return found


def _of_one_length(body: bytes) -> list[bytes]:
    """Return the reports of a batch if they have equal lengths, as those of one version have."""
    step = _LENGTH.size + int.from_bytes(body[: _LENGTH.size], "little")
    count = len(body) // step
    if not 0 < count <= MOST_REPORTS or count * step != len(body):
        return []
    if count == 1:
        return [body[_LENGTH.size :]]
    heads = np.frombuffer(body, dtype=np.uint8).reshape(count, step)[:, : _LENGTH.size]
    if (heads != heads[0]).any():
        return []
    return [body[end - step + _LENGTH.size : end] for end in range(step, len(body) + 1, step)]


def begin_survey(writes: Writes, ledger: Ledger, asked: dict[str, Any], now: float, by: str = "") -> None:
    """Create a local policy and charge its population; an idempotent request changes nothing.

    `by` is the id of the token that asks. After an error nothing is stored.
    """
    try:
        spec = read_spec(json.dumps(asked["spec"]))
    except StateError as error:
        raise Problem("invalid", f"spec: {error}") from None
    name, population, text = asked["name"], asked["population"], spec.to_json()
    row = writes.one("SELECT id, population, spec FROM surveys WHERE name = ?", name)
    if row is not None and (row[1], row[2]) != (population, text):
        raise Problem("conflict", "There is another local policy of this name: choose another name.")
    identity = uuid.uuid4().hex if row is None else str(row[0])
    cost = cost_of_guarantee(spec.statement())
    if row is None:
        check_open(writes, population)
        ledger.after(population, cost=cost)
        writes.run("INSERT INTO surveys VALUES (?, ?, ?, ?, ?)", identity, name, population, text, now)
        SharedServer.begin(writes, identity, spec)
        note_event(writes, now, "local-begun", f"local policy {name}", f"population {population}", by=by)
    ledger.charge(population, charge_id=f"local:{identity}", cost=cost)


class SharedServer:
    """One worker's server of a local policy, whose counts of reports are in the store.

    Args:
        store: store of the service.
        identity: id of the policy's row.
        spec: contract of the policy.
        least_open: smallest number of seconds for which a version accepts reports, by this worker's clock
            from the time when it first saw the version.
    """

    def __init__(
        self, store: Store, identity: str, spec: Spec | ReadoutSpec, *, least_open: float = LEAST_OPEN
    ) -> None:
        self._store, self._id, self.spec = store, identity, spec
        # This worker's clock determines when it may publish, and never which versions are open.
        self._pace, self._seen = Pace(least_open), set[int]()
        self._turn = threading.Lock()
        self._server: Server[Any] | None = None
        self._number = self._state_bytes = self._tail_bytes = self._tail_rows = 0

    @staticmethod
    def begin(writes: Writes, identity: str, spec: Spec | ReadoutSpec, published: Any = None) -> None:
        """Insert version 0 of a new policy: `published`, or the first version of its spec."""
        first = Server(spec).publish() if published is None else published
        content = first.to_json(spec).encode()
        writes.run("INSERT INTO survey_log VALUES (?, ?, ?, ?)", identity, 1, _BEGUN, content)

    def absorb(self, reports: list[bytes]) -> Absorbed:
        """Do `DurableServer.absorb`.

        After a StateError send the batch again: each report still counts once.
        """
        return self.absorb_each([reports])[0]

    def absorb_each(self, batches: list[list[bytes]]) -> list[Absorbed]:
        """Do `DurableServer.absorb_each`. Errors are those of `absorb`."""
        with self._turn:
            return self._absorb_together([batch_of(one) for one in batches]) if batches else []

    def publish(self) -> Any:
        """Do `DurableServer.publish`: return the current version, or the next one if it is due."""
        with self._turn:
            with self._store.reading() as reads, self._forgotten_on_error():
                server = self._followed(reads)
            if self._is_due(server):
                with self._written() as (writes, server):
                    if self._is_due(server):  # no other worker was faster
                        published = server.publish().to_json(self.spec)
                        self._append(writes, _PUBLISHED, published.encode())
            return server.current

    def merge(self, counts: ReportCounts[Any]) -> int:
        """Add reports that were counted elsewhere; return their number after the commit.

        Raises:
            IncompatibleState, ProtocolError: see `ReportCounts.merge`; nothing was changed.
            StateError: the commit failed, or its outcome is unknown. Merge again: if that fails because
                reports are in both, the first merge succeeded.
        """
        with self._turn:
            with self._written() as (writes, server):
                server.check_merge(counts)
                self._append(writes, _COUNTED, packed_counts(counts))
                added = server.merge(counts)
            self._keep(server)
        return added

    @property
    def server(self) -> Server[Any]:
        """Server after the rows of all workers, for reading only."""
        with self._turn, self._store.reading() as reads, self._forgotten_on_error():
            return self._followed(reads)

    def _is_due(self, server: Server[Any]) -> bool:
        """Return True if the next version is due, and closes no version that this worker saw too recently."""
        first = server.current.version + 1 - self.spec.protocol.window
        closed = [one for one in self._seen if one < first]
        return server.is_due and self._pace.are_old(closed)

    def _absorb_together(self, batches: list[list[bytes]]) -> list[Absorbed]:
        """Absorb batches in their order, and insert one row for all of them."""
        with self._written() as (writes, server):
            sifted = server.sift([report for batch in batches for report in batch])
            if sifted.tally.accepted:
                counts = ReportCounts(self.spec, server.open_versions)
                counts.count(sifted)
                self._append(writes, _COUNTED, packed_counts(counts))
            server.count(sifted)
        self._keep(server)
        return sifted.tallies([len(batch) for batch in batches])

    # -- rows -----------------------------------------------------------------------------------------

    @contextmanager
    def _forgotten_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._server = None
            raise

    @contextmanager
    def _written(self) -> Iterator[tuple[Writes, Server[Any]]]:
        """Open a write transaction, lock the policy's row, and yield the transaction and the current
        server.
        """
        for turn in range(_TURNS):
            with self._forgotten_on_error(), self._store.writing() as writes, writes.kept_alive():
                if not writes.locked("SELECT id FROM surveys WHERE id = ?", self._id):
                    raise CorruptState("the local policy is gone from the store")
                if turn == _TURNS - 1 or self._lacks_little(writes):
                    yield writes, self._followed(writes)
                    return
            with self._forgotten_on_error(), self._store.reading() as reads:
                self._followed(reads)

    def _lacks_little(self, reads: Reads) -> bool:
        """Return True if at most `_LITTLE` bytes of other workers' rows are left to read under the lock."""
        found = reads.one(
            "SELECT (SELECT number FROM survey_states WHERE survey = ?), SUM(LENGTH(content)) "
            "FROM survey_log WHERE survey = ? AND number > ?",
            self._id,
            self._id,
            self._number,
        )
        held, size = (int(number or 0) for number in found or (0, 0))
        return self._server is not None and held <= self._number and size <= _LITTLE

    def _followed(self, reads: Reads) -> Server[Any]:
        """Return the server after it has applied all rows of the log."""
        found = reads.one(
            "SELECT (SELECT number FROM survey_states WHERE survey = ?), "
            "(SELECT MAX(number) FROM survey_log WHERE survey = ?)",
            self._id,
            self._id,
        )
        held, last = (int(number or 0) for number in found or (0, 0))
        server = self._server
        # Read all again if rows were removed after a newer state, or if the database was rolled back.
        if server is None or held > self._number or max(held, last) < self._number:
            server = self._restored(reads)
        for number, kind, content in reads.rows(
            "SELECT number, kind, content FROM survey_log WHERE survey = ? AND number > ? ORDER BY number",
            self._id,
            self._number,
        ):
            if number != self._number + 1:
                raise CorruptState("rows of a local policy are gone from the store")
            with reading("a row of a local policy", CorruptState):
                self._take(server, kind, bytes(content))
            self._wrote(bytes(content))
        if not self._number:
            raise CorruptState("the rows of a local policy are gone from the store")
        self._server = server
        now_open = {one.version for one in server.open_versions}
        self._pace.opened(now_open - self._seen)
        self._pace.closed(self._seen - now_open)
        self._seen = now_open
        return server

    def _take(self, server: Server[Any], kind: str, content: bytes) -> None:
        if kind == _COUNTED:
            server.merge(counts_for(server, content))
            return
        if kind not in (_BEGUN, _PUBLISHED):
            raise CorruptState("a row of a local policy has an unknown kind: use the version that wrote it")
        published = self.spec.protocol.publishes.from_json(content.decode(), self.spec)
        if kind == _BEGUN:
            server.begin_with(published)
        server.republish(published)

    def _restored(self, reads: Reads) -> Server[Any]:
        self._number = self._state_bytes = self._tail_bytes = self._tail_rows = 0
        row = reads.one("SELECT number, content FROM survey_states WHERE survey = ?", self._id)
        if row is None:
            return Server(self.spec)
        content = bytes(row[1])
        with reading("the state of a local policy", CorruptState):
            state, _ = decode(io.BytesIO(content), len(content))
            if (state.kind, state.version, state.lineage) != (_STATE, 1, self.spec.fingerprint):
                raise CorruptState("the state belongs to another local policy")
            server = Server.restore(self.spec, state.arrays)
        self._number, self._state_bytes = int(row[0]), len(content)
        return server

    def _wrote(self, content: bytes) -> None:
        self._number += 1
        self._tail_bytes += len(content)
        self._tail_rows += 1

    def _append(self, writes: Writes, kind: str, content: bytes) -> None:
        writes.run("INSERT INTO survey_log VALUES (?, ?, ?, ?)", self._id, self._number + 1, kind, content)
        self._wrote(content)

    def _keep(self, server: Server[Any]) -> None:
        """Store the server's whole state and remove the rows before it, if the rows have grown enough.

        This saves time for new workers. A failure is ignored, because the rows are still there.
        """
        if self._tail_rows < TAIL_ROWS and self._tail_bytes <= max(TAIL_BYTES, self._state_bytes):
            return
        number = self._number
        content = _whole(self.spec, number, server)
        self._state_bytes, self._tail_bytes, self._tail_rows = len(content), 0, 0
        with suppress(StateError), self._store.writing() as writes, writes.kept_alive():
            writes.locked("SELECT id FROM surveys WHERE id = ?", self._id)
            here = "SELECT number FROM survey_log WHERE survey = ? AND number = ?"
            if writes.one(here, self._id, number) is None:
                return  # another worker was faster
            writes.run(
                "INSERT INTO survey_states VALUES (?, ?, ?) ON CONFLICT (survey) DO UPDATE "
                "SET number = excluded.number, content = excluded.content",
                self._id,
                number,
                content,
            )
            writes.run("DELETE FROM survey_log WHERE survey = ? AND number <= ?", self._id, number)


def _whole(spec: Spec | ReadoutSpec, number: int, server: Server[Any]) -> bytes:
    named: dict[str, Any] = {"kind": _STATE, "version": 1, "lineage": spec.fingerprint, "position": number}
    return encode(State(**named, arrays=server.to_arrays()))[0]


class Surveys:
    """Servers of a worker's local policies, opened when they are first needed."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store, self._ledger, self._lock = store, ledger, threading.Lock()
        self._open: dict[str, SharedServer] = {}

    def server(self, name: str) -> SharedServer:
        """Return the server of a local policy.

        Raise Problem if the policy does not exist or was not charged.
        """
        with self._lock:
            if name not in self._open:
                with self._store.reading() as reads:
                    row = reads.one("SELECT id, population, spec FROM surveys WHERE name = ?", name)
                if row is None or self._ledger.charged(row[1], f"local:{row[0]}") is None:
                    raise Problem("not-found", "There is no local policy of this name.")
                self._open[name] = SharedServer(self._store, row[0], read_spec(row[2]))
            return self._open[name]

    def published(self, name: str) -> tuple[str, str]:
        """Return a local policy's spec and published version as JSON, and their ETag."""
        server = self.server(name)
        published, spec = server.publish(), server.spec
        text = f'{{"spec":{spec.to_json()},"published":{published.to_json(spec)}}}'
        return text, f'"{spec.fingerprint[:8]}-{published.version}"'

    def readout(self, name: str) -> dict[str, Any]:
        """Return the answer of a readout from all reports so far as public JSON.

        Raise Problem if the local policy is no readout, or has no answer yet.
        """
        try:
            return self.server(name).server.readout().to_json()
        except ProtocolError:
            raise Problem(
                "conflict", "There is no answer: this is no readout, or a group has no reports yet."
            ) from None

    def absorb_each(self, name: str, bodies: list[bytes]) -> list[dict[str, int] | Exception]:
        """Return, for each batch, the counts of its reports once they are on disk, or its Problem."""
        server, read = self.server(name), [_read(body) for body in bodies]
        tallies = iter(server.absorb_each([one for one in read if not isinstance(one, Problem)]))
        return [one if isinstance(one, Problem) else _counts(next(tallies)) for one in read]


def _read(body: bytes) -> list[bytes] | Problem:
    try:
        return unpacked_reports(body)
    except Problem as problem:
        return problem


def _counts(tally: Absorbed) -> dict[str, int]:
    return {"accepted": tally.accepted, "not_counted": sum(vars(tally).values()) - tally.accepted}


class Intake:
    """Group commit for batches of reports, which arrive by the hundred per second.

    While one group is written, the next one gathers, and only one thread is busy. Use it from one event loop.

    Args:
        absorb: function of a local policy's name and bodies. It returns for each body the answer or its
            error. An exception that it raises is raised for all of them.
    """

    def __init__(self, absorb: Callable[[str, list[bytes]], Sequence[dict[str, int] | Exception]]) -> None:
        self._absorb = absorb
        self._waiting: dict[str, list[tuple[bytes, asyncio.Future[dict[str, int]]]]] = {}
        self._writing = set[asyncio.Task[None]]()

    async def __call__(self, name: str, body: bytes) -> dict[str, int]:
        """Return the answer once the reports are on disk."""
        mine: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
        if name in self._waiting:
            self._waiting[name].append((body, mine))
        else:  # no group of this policy is being written
            self._waiting[name] = []
            task = asyncio.create_task(self._write(name, [(body, mine)]))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        return await mine

    async def _write(self, name: str, group: list[tuple[bytes, asyncio.Future[dict[str, int]]]]) -> None:
        while group:
            told: Sequence[dict[str, int] | Exception]
            try:
                told = await asyncio.to_thread(self._absorb, name, [body for body, _ in group])
            except Exception as error:  # noqa: BLE001 - for whoever waits
                told = [error] * len(group)
            for (_, one), result in zip(group, told, strict=True):
                if one.done():  # the request was cancelled
                    continue
                if isinstance(result, Exception):
                    one.set_exception(result)
                else:
                    one.set_result(result)
            group = self._waiting[name][:MOST_TOGETHER]
            del self._waiting[name][:MOST_TOGETHER]
        del self._waiting[name]
