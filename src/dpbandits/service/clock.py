"""`Clock`: the service's time, which a wrong clock of a machine does not move.

The wall clock is the store's: the database's, or the machine's for a folder. `look` reads it four times a
second. Between two looks, and while the wall clock is not trusted, `now` goes on by a clock that nobody sets
(`elapsed`). The fact `clock` of the store holds the latest time that was trusted, whether the clock is
stopped, and how often an operator has accepted the wall clock.

| the wall clock, against what is known of the time | what follows |
|---|---|
| differs by at most `JUMP_SECONDS` | `now` follows it; a clock that was stopped goes on |
| differs by more, while the service runs | the clock is stopped |
| is further behind the stored time, at a start | the clock is stopped; `now` begins at the stored time |
| is further ahead of it, at a start: a jump cannot be told from a long stop | `now` follows it, and is trusted after `SETTLING_SECONDS`; where it goes back before, nothing was erased |
| differs, and an operator accepts it | `now` follows it; the clock goes on |

While the clock is stopped nothing is erased, no wait for a reward ends and no default reward is counted. Raw
data may be kept longer meanwhile, which can be made good; what is erased too early cannot. Tokens end by
`now`, so that a jump ahead ends none (the operator would be locked out) and a jump back revives none. An event
says that the clock is stopped, and so does `/v1/ready`.

If time goes back, because an operator accepts an earlier clock or because it goes back before it is trusted,
what was written at times that now lie ahead is dated back to now, with its deadlines by as much: retention,
waits and the lives of tokens keep their lengths; sessions of the desk, and texts of tokens that a rotation
has replaced, end. If an operator accepts a later clock, deadlines that lie
before it are over.

Privacy: everything here rests on clocks, and on nothing that a person brought.
"""  # noqa: E501 - a table

import json
import math
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from dpbandits.errors import MissingState
from dpbandits.service.backups import STORE
from dpbandits.service.retention import erase_old_rounds_by
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, SQLiteStore, Store, Writes, note_event, note_fact
from dpbandits.service.tokens import note_change

__all__ = ["Clock", "accept_clock", "elapsed"]

JUMP_SECONDS = 300.0
"""Difference in seconds between the wall clock and what is known of the time that stops the clock.
Corrections by NTP and leap seconds are far smaller, and deadlines of raw data are days."""

SETTLING_SECONDS = 60.0
"""Seconds after a start for which a wall clock far ahead of the stored time is not trusted yet: where a
machine boots with a wrong clock, NTP sets it within seconds."""

NOTED_SECONDS = 60.0
"""Seconds after which the stored time is written anew."""

_FACT = "clock"


def elapsed() -> float:
    """Return seconds of a clock that nobody sets. If the system has one, it runs while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class _Known(NamedTuple):
    """The stored time in seconds since 1970, whether the clock is stopped, and how often one was accepted."""

    at: float = -math.inf
    stopped: bool = False
    accepted: int = 0


def _known(reads: Reads) -> _Known:
    row = reads.one("SELECT value FROM facts WHERE name = ?", _FACT)
    return _Known() if row is None else _Known(*json.loads(row[0]))


class Clock:
    """The time of one process of the service; see the module. `begin` comes first.

    Attributes:
        stopped: whether the wall clock has jumped and nobody has accepted it yet.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._anchor = 0.0, elapsed()
        self._settled_at = -math.inf
        self._floor = -math.inf
        self._accepted = 0
        self.stopped = self._told = False

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        wall, at = self._anchor
        return wall + elapsed() - at

    def over(self) -> float:
        """Return the time before which waits and retention are over: now, or -inf while it is not trusted."""
        return -math.inf if self.stopped or elapsed() < self._settled_at else self.now()

    def begin(self) -> None:
        """Set the time at a start."""
        wall, at, known = self._looked()
        self._accepted, self._floor, self._told = known.accepted, known.at, known.stopped
        ahead = wall - known.at
        self.stopped = ahead < -JUMP_SECONDS or (known.stopped and ahead > JUMP_SECONDS)
        self._anchor = known.at if self.stopped else wall, at
        if JUMP_SECONDS < ahead < math.inf and not self.stopped:
            self._settled_at = at + SETTLING_SECONDS

    def look(self) -> None:
        """Compare the time with the wall clock and the store, some times a second, before `over` is used.

        Raises:
            StateError: the store did not answer; `now` goes on.
        """
        wall, at, known = self._looked()
        settling = at < self._settled_at
        if known.accepted != self._accepted:
            self._set(known.at, at)
            self._accepted, self._told, settling = known.accepted, False, False
        if settling and known.stopped:  # another worker has seen the jump that this one was begun after
            self._set(known.at, at)
        mine = self.now()
        if known.at > mine + JUMP_SECONDS:  # this machine stood still, and other workers did not
            mine = known.at
        if abs(wall - mine) <= JUMP_SECONDS:
            self._anchor, self.stopped = (wall, at), False
        elif settling and self._floor - JUMP_SECONDS <= wall < mine:
            self._set(wall, at)
        else:
            self.stopped, self._settled_at = True, -math.inf
            if settling and wall < mine:
                self._set(self._floor, at)
        self._note(known)

    def _looked(self) -> tuple[float, float, _Known]:
        """Return the wall clock, `elapsed` at the same time, and what is stored."""
        with self._store.reading() as reads:
            known = _known(reads)
            return self._store.clock(reads), elapsed(), known

    def _set(self, wall: float, at: float) -> None:
        """Set the time. If it goes back, what was written later is dated back."""
        if wall < self.now() - JUMP_SECONDS:
            with self._store.writing() as writes:
                _date_back(writes, wall)
        self._anchor, self._settled_at = (wall, at), -math.inf

    def _note(self, known: _Known) -> None:
        """Store the time if it is news, and note an event of a jump."""
        now, news = self.now(), self.stopped != self._told
        if not news and (elapsed() < self._settled_at or now < known.at + NOTED_SECONDS):
            return
        with self._store.writing() as writes:
            writes.locked("SELECT value FROM facts WHERE name = ?", _FACT)
            known = _known(writes)
            if known.accepted != self._accepted:
                return  # an operator has set it meanwhile: the next look says what follows
            stopped = self.stopped if news else known.stopped
            if stopped and not known.stopped:
                told = (
                    "the clock has jumped by more than five minutes: nothing is erased and no wait ends "
                    "until it is right again or is accepted with `dpbandits service accept-clock`"
                )
                note_event(writes, now, "clock-stopped", "the service", told)
            elif known.stopped and not stopped:
                note_event(writes, now, "clock-goes-on", "the service", "the clock is right again")
            note_fact(writes, _FACT, json.dumps([max(known.at, now), stopped, known.accepted]))
        self._told = self.stopped


def _date_back(writes: Writes, now: float) -> None:
    """Date what was written at times that now lie ahead back to now, and its deadlines by as much.

    Sessions of the desk and old texts of rotated tokens do not say when they began: they end.
    """
    after = now + JUMP_SECONDS
    writes.run("DELETE FROM sessions")
    note_change(writes)  # workers know tokens with the ends that they had
    writes.run("UPDATE tokens SET previous_ends_at = ? WHERE previous_ends_at > ?", now, now)
    for table, made, ends in (("decisions", "asked_at", "due_at"), ("tokens", "made_at", "ends_at")):
        change = f"UPDATE {table} SET {ends} = {ends} - ({made} - ?), {made} = ? WHERE {made} > ?"  # noqa: S608
        writes.run(change, now, now, after)
    for table, made in (("events", "at"), ("questions", "answered_at")):
        writes.run(f"UPDATE {table} SET {made} = ? WHERE {made} > ?", now, after)  # noqa: S608 - names of ours
    erase_old_rounds_by(writes, now)


def accept_clock(folder: Path, *, settings: Settings) -> float:
    """Accept the store's wall clock; a service that runs on it goes on within a second.

    Args:
        folder: the service's.
        settings: name the database, if there is one.

    Returns:
        The accepted time, in seconds since 1970.

    Raises:
        MissingState: there is no service's folder.
        StateError: the store cannot be used.
    """
    if settings.database:
        from dpbandits.service.postgres import PostgresStore

        store: Store = PostgresStore(settings.database)
    elif (folder / STORE).exists():
        store = SQLiteStore(folder / STORE)  # beside the service: its lock is that of one who decides
    else:
        raise MissingState("the folder has no data of a service: pass the one given to serve")
    with closing(store), store.writing() as writes:
        writes.locked("SELECT value FROM facts WHERE name = ?", _FACT)
        now, known = store.clock(writes), _known(writes)
        if now < known.at - JUMP_SECONDS:
            _date_back(writes, now)
        note_fact(writes, _FACT, json.dumps([now, False, known.accepted + 1]))
        note_event(writes, now, "clock-accepted", "the service", "an operator accepted the clock")
    return now
