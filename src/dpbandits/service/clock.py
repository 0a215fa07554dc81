"""`Clock`: the service's time, which is robust against a wrong clock of a machine.

The wall clock is that of the database, or of the machine for a folder. `look` reads it four times a second.
Between two looks, and while the wall clock is not trusted, `now` advances by a monotonic clock (`elapsed`).
The fact `clock` of the store has the latest trusted time, whether the clock is stopped, and how often an
operator has accepted the wall clock.

| wall clock | result |
|---|---|
| differs from the expected time by at most `JUMP_SECONDS` | `now` follows it; a stopped clock goes on |
| differs by more, while the service runs | the clock is stopped |
| is further behind the stored time, at a start | the clock is stopped; `now` begins at the stored time |
| is further ahead of it, at a start, which may be a jump or a long stop | `now` follows it, and is trusted after `SETTLING_SECONDS`; if the wall clock goes back earlier, nothing was erased |
| differs, and an operator accepts it | `now` follows it; the clock goes on |

While the clock is stopped, the service erases nothing, ends no wait for a reward and counts no default
reward. Keeping raw data for longer can be corrected later; erasing it too early cannot. Tokens expire by
`now`: a jump ahead does not lock out the operator, and a jump back revives no token. An event and `/v1/ready`
report a stopped clock.

Time goes back if an operator accepts an earlier clock, or if the wall clock goes back before it is trusted.
Then rows with later times are dated back to now, and their deadlines are moved by as much. Retention times,
waits and lifetimes of tokens keep their lengths. Sessions of the desk, and old texts of rotated tokens, end.
If an operator accepts a later clock, the deadlines before it have passed.

Privacy: everything here depends on clocks, and on no user's data.
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
"""Difference in seconds between the wall clock and the expected time above which the clock is stopped.

Corrections by NTP and leap seconds are far smaller, and deadlines of raw data are days.
"""

SETTLING_SECONDS = 60.0
"""Number of seconds after a start in which a wall clock far ahead of the stored time is not trusted.

If a machine boots with a wrong clock, NTP corrects it within seconds.
"""

NOTED_SECONDS = 60.0
"""Number of seconds after which the stored time is updated."""

_FACT = "clock"


def elapsed() -> float:
    """Return the seconds of a monotonic clock.

    It also runs during sleep if the system has a clock that does.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class _Known(NamedTuple):
    """Content of the stored fact `clock`.

    It has the time in seconds since 1970, True if the clock is stopped, and how often a wall clock was
    accepted.
    """

    at: float = -math.inf
    stopped: bool = False
    accepted: int = 0


def _known(reads: Reads) -> _Known:
    row = reads.one("SELECT value FROM facts WHERE name = ?", _FACT)
    return _Known() if row is None else _Known(*json.loads(row[0]))


class Clock:
    """Time of one process of the service; see the module. Call `begin` first.

    Attributes:
        stopped: True if the wall clock has jumped and no operator has accepted it yet.
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
        """Return the time up to which deadlines count as passed: now, or -inf while the time is not trusted.

        Deadlines end waits for a reward and retention times.
        """
        return -math.inf if self.stopped or elapsed() < self._settled_at else self.now()

    def begin(self) -> None:
        """Set the time when the process starts, from the store and the wall clock."""
        wall, at, known = self._looked()
        self._accepted, self._floor, self._told = known.accepted, known.at, known.stopped
        ahead = wall - known.at
        self.stopped = ahead < -JUMP_SECONDS or (known.stopped and ahead > JUMP_SECONDS)
        self._anchor = known.at if self.stopped else wall, at
        if JUMP_SECONDS < ahead < math.inf and not self.stopped:
            self._settled_at = at + SETTLING_SECONDS

    def look(self) -> None:
        """Compare the time with the wall clock and the store. Call it some times a second.

        Raises:
            StateError: the store did not answer; `now` goes on.
        """
        wall, at, known = self._looked()
        settling = at < self._settled_at
        if known.accepted != self._accepted:
            self._set(known.at, at)
            self._accepted, self._told, settling = known.accepted, False, False
        if settling and known.stopped:  # another worker saw the jump before this one started
            self._set(known.at, at)
        mine = self.now()
        if known.at > mine + JUMP_SECONDS:  # this machine was suspended, and other workers were not
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
        with self._store.reading() as reads:
            known = _known(reads)
            return self._store.clock(reads), elapsed(), known

    def _set(self, wall: float, at: float) -> None:
        """Set the time to `wall` at the moment `at` of `elapsed`. If it goes back, date later rows back."""
        if wall < self.now() - JUMP_SECONDS:
            with self._store.writing() as writes:
                _date_back(writes, wall)
        self._anchor, self._settled_at = (wall, at), -math.inf

    def _note(self, known: _Known) -> None:
        """Update the stored time if needed, and add an event after a jump."""
        now, news = self.now(), self.stopped != self._told
        if not news and (elapsed() < self._settled_at or now < known.at + NOTED_SECONDS):
            return
        with self._store.writing() as writes:
            writes.locked("SELECT value FROM facts WHERE name = ?", _FACT)
            known = _known(writes)
            if known.accepted != self._accepted:
                return  # an operator has accepted a clock meanwhile: the next look handles it
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
    """Change rows with times after `now` to `now`, and move their deadlines by the same number of seconds.

    Sessions of the desk and old texts of rotated tokens end, because the time when they began is not stored.
    """
    after = now + JUMP_SECONDS
    writes.run("DELETE FROM sessions")
    note_change(writes)  # workers have cached tokens with their old ends
    writes.run("UPDATE tokens SET previous_ends_at = ? WHERE previous_ends_at > ?", now, now)
    for table, made, ends in (("decisions", "asked_at", "due_at"), ("tokens", "made_at", "ends_at")):
        change = f"UPDATE {table} SET {ends} = {ends} - ({made} - ?), {made} = ? WHERE {made} > ?"  # noqa: S608
        writes.run(change, now, now, after)
    for table, made in (("events", "at"), ("questions", "answered_at")):
        writes.run(f"UPDATE {table} SET {made} = ? WHERE {made} > ?", now, after)  # noqa: S608 - names of ours
    erase_old_rounds_by(writes, now)


def accept_clock(folder: Path, *, settings: Settings) -> float:
    """Accept the store's wall clock. A running service continues with it within a second.

    Args:
        folder: folder of the service.
        settings: settings that name the database, if there is one.

    Returns:
        The accepted time, in seconds since 1970.

    Raises:
        MissingState: the folder has no data of a service.
        StateError: the store cannot be used.
    """
    if settings.database:
        from dpbandits.service.postgres import PostgresStore

        store: Store = PostgresStore(settings.database)
    elif (folder / STORE).exists():
        store = SQLiteStore(folder / STORE)  # without the folder's lock, which a running service holds
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
