"""Local policies: people's own devices fetch what is published, decide, and send reports.

The server's side is a `SharedServer` in every worker; a report is on disk before it is confirmed. A batch is
binary: every report preceded by its length in two bytes, little-endian. What a report protects it protects on
the device; the population is charged once, for what one person's report may tell.
"""

import json
import struct
import threading
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbandits import local
from dpbandits.budget import Ledger, cost_of_guarantee
from dpbandits.errors import StateError
from dpbandits.service.policies import check_open
from dpbandits.service.problems import Problem
from dpbandits.service.store import Store, Writes, note_event

if TYPE_CHECKING:
    from dpbandits.local.server.counting import Absorbed
    from dpbandits.service.shared_surveys import SharedServer

__all__ = ["Surveys", "begin_survey", "unpacked_reports"]

_LENGTH = struct.Struct("<H")

MOST_REPORTS = 10_000
"""Reports of a batch."""


def unpacked_reports(body: bytes) -> list[bytes]:
    """The reports of a batch; Problem where its lengths do not add up, or it has too many."""
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
    """The reports of a batch that have one length, as those of one version have; none where they have not."""
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
    """Begin a local policy, asked by a token: its population is charged; the same request changes nothing.

    After an error nothing was kept.
    """
    try:
        spec = local.Spec.from_json(json.dumps(asked["spec"]))
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
        from dpbandits.service.shared_surveys import SharedServer  # as in `Surveys`

        SharedServer.begin(writes, identity, spec)
        note_event(writes, now, "local-begun", f"local policy {name}", f"population {population}", by=by)
    ledger.charge(population, charge_id=f"local:{identity}", cost=cost)


class Surveys:
    """Servers of local policies that were paid for, opened when they are first needed."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store, self._ledger, self._lock = store, ledger, threading.Lock()
        self._open: dict[str, SharedServer] = {}

    def server(self, name: str) -> "SharedServer":
        """The server of a name; Problem where there is none, or it was not paid for."""
        with self._lock:
            if name not in self._open:
                with self._store.reading() as reads:
                    row = reads.one("SELECT id, population, spec FROM surveys WHERE name = ?", name)
                if row is None or self._ledger.charged(row[1], f"local:{row[0]}") is None:
                    raise Problem("not-found", "There is no local policy of this name.")
                from dpbandits.service.shared_surveys import SharedServer  # with all of `local`, needed now

                self._open[name] = SharedServer(self._store, row[0], local.Spec.from_json(row[2]))
            return self._open[name]

    def published(self, name: str) -> tuple[str, str]:
        """The spec and what is published, as JSON, and its ETag."""
        server = self.server(name)
        published, spec = server.publish(), server.spec
        text = f'{{"spec":{spec.to_json()},"published":{published.to_json(spec)}}}'
        return text, f'"{spec.fingerprint[:8]}-{published.version}"'

    def absorb_each(self, name: str, bodies: list[bytes]) -> list[dict[str, int] | Exception]:
        """Return how many reports of each batch were accepted and refused, once on disk; else its Problem."""
        server, read = self.server(name), [_read(body) for body in bodies]
        tallies = iter(server.absorb_each([one for one in read if not isinstance(one, Problem)]))
        return [one if isinstance(one, Problem) else _counts(next(tallies)) for one in read]


def _read(body: bytes) -> list[bytes] | Problem:
    try:
        return unpacked_reports(body)
    except Problem as problem:
        return problem


def _counts(tally: "Absorbed") -> dict[str, int]:
    return {"accepted": tally.accepted, "not_counted": sum(vars(tally).values()) - tally.accepted}
