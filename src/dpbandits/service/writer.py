"""`Writer`: the single thread that executes write calls, with group commit.

- *Group commit.* Calls run one after the other in one write transaction. Calls that arrive meanwhile share
  the next one, so a hundred decisions cost one write to the disk. A caller is answered after the commit.
- *Errors.* Raising `Refusal` does not roll back: the changes made before it are committed. Any other
  exception rolls back its own call alone. It may rest on other calls of the transaction, so it is reported
  after the commit as well. If the commit fails, nothing of the transaction has happened and all callers get
  the error, or `NotKnown`.
- *Order.* Calls about one subject run next to each other, in the same order in every process, so that two
  transactions do not deadlock.
- *Round trips.* The queries of all calls are sent in one message, and their changes in one more at the end.
  If such a transaction fails, it is rolled back and its calls run again, each between two savepoints.
- *Passes.* In an embedded store, calls of the same kind run as one `Pass` over their arguments. Calls that it
  does not answer run by themselves.
- *Fairness.* Senders have queues and take turns. A transaction has at most one batch. So a busy sender delays
  others by one transaction. Queues are bounded, per sender and in total (`Crowded`).
- *Retries.* A call that raises `TryAgain` runs again in a later transaction, for up to `LONGEST_WAIT`
  seconds. If the exception names a delay, other calls about the same subject wait as long.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from dpbandits.errors import StateError
from dpbandits.service.store import Ahead, NotKnown, Store, TryAgain, Writes

__all__ = ["Crowded", "LooksAhead", "Pass", "Refusal", "Writer", "awaited"]

_T = TypeVar("_T")

LooksAhead = Callable[[Writes], Iterator[list[Ahead]]]
"""Generator of the queries that a call will make.

Later queries may depend on `Writes.seen` of earlier ones.
"""

LEAST_SHARED = 4
"""Smallest number of calls in a pass. A pass of fewer calls costs more than separate calls."""

MOST_TOGETHER = 64
"""Largest number of single calls in one transaction. The first call waits for all of them."""

MOST_OF_ONE = 2000
"""Largest number of waiting calls of one sender, counting members of batches. It is a few seconds of work."""

MOST_WAITING = 10_000
"""Largest number of waiting calls of all senders."""


class Refusal(Exception):
    """A negative answer to a call.

    Raising it does not roll back: the changes made before it are committed.
    """


class Crowded(StateError):
    """Too many calls wait, of this sender or in total. Nothing was done; try again in a second."""


LONGEST_WAIT = 10.0
"""Longest time in seconds for which a call that raises `TryAgain` is repeated."""

LONGEST_SILENCE = 1.0
"""Longest time in seconds before deferred statements are sent.

A database ends transactions that are idle for long.
"""


class Pass(NamedTuple):
    """Vectorised form of a call, which runs several calls with the same key at once.

    It is used in a store that does not look ahead. `together` takes a list with the value `brought` of each
    call. It returns for each call its result, the `Refusal` that it raises, or None if the call must run by
    itself.
    """

    key: tuple[str, ...]
    brought: object
    together: Callable[[Writes, list[Any]], Sequence[Any]]


@dataclass(eq=False)
class _Job:
    call: Callable[[Writes], Any]
    about: str
    by: str
    count: int
    ahead: LooksAhead | None = None
    share: Pass | None = None
    future: Future[Any] = field(default_factory=Future)
    until: float = 0.0
    again_at: float = 0.0


def awaited(future: Future[_T]) -> asyncio.Future[_T]:
    """Return an awaitable of a future, for the running event loop. Cancelling it does not cancel the call."""
    loop = asyncio.get_running_loop()
    mine: asyncio.Future[_T] = loop.create_future()

    def tell() -> None:
        if not mine.done():
            try:
                mine.set_result(future.result())
            except Exception as error:  # noqa: BLE001 - for whoever waits
                mine.set_exception(error)

    def told(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell)

    future.add_done_callback(told)
    return mine


class _Queue:
    """Queues of waiting calls, one per sender. The senders take turns."""

    def __init__(self) -> None:
        self._of: dict[str, deque[_Job]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def put(self, job: _Job) -> None:
        self._of.setdefault(job.by, deque()).append(job)

    def next(self) -> _Job:
        """Remove and return the first call of the sender who has waited longest for a turn."""
        by, jobs = next(iter(self._of.items()))
        del self._of[by]
        job = jobs.popleft()
        if jobs:
            self._of[by] = jobs  # this sender goes to the end
        return job


class Writer:
    """Writer thread of a store; see the module."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._arrived: SimpleQueue[_Job | None] = SimpleQueue()  # None comes last
        self._single, self._batches = _Queue(), _Queue()
        self._waiting: Counter[str] = Counter()
        self._all = 0
        self._later: list[_Job] = []
        self._closed = self._last_came = self._ending = False
        self._thread = threading.Thread(target=self._work, name="dpbandits service writer", daemon=True)
        self._thread.start()

    def submit(
        self,
        call: Callable[[Writes], _T],
        *,
        about: str = "",
        ahead: LooksAhead | None = None,
        share: Pass | None = None,
        by: str = "",
        count: int = 1,
    ) -> Future[_T]:
        """Queue a call for the writer's transaction. Return a future that is done once the call is durable.

        Args:
            call: function that runs in the write transaction.
            about: subject of the call, such as a policy's name.
            ahead: queries of the call. Calls without `ahead` must not change the rows of these queries.
            share: vectorised form of the call.
            by: sender, such as a token's id; empty for the service itself, which is never refused.
            count: number of requests that the call stands for; more than one is a batch.

        Raises:
            StateError: the service is closed.
            Crowded: too many calls wait.
        """
        job = _Job(call, about, by, count, ahead, share)
        with self._lock:
            if self._closed:
                raise StateError("the service is being closed: nothing was done")
            if by and (self._waiting[by] + count > MOST_OF_ONE or self._all + count > MOST_WAITING):
                raise Crowded("Too many decisions and rewards wait: nothing was done; try again in a second.")
            self._waiting[by] += count
            self._all += count
            self._arrived.put(job)
        return job.future

    def close(self) -> None:
        """Execute the waiting calls, and stop."""
        with self._lock:
            self._closed = True
            self._arrived.put(None)
        self._thread.join()

    def _work(self) -> None:
        self._store.comes_first = True
        while not self._ending:
            jobs = self._next()
            self._make([job for job in jobs if job.until or job.future.set_running_or_notify_cancel()])
        for job in self._later:
            job.future.set_exception(StateError("the service was closed: nothing was done"))

    def _next(self) -> list[_Job]:
        soonest = min((job.again_at for job in self._later), default=None)
        wait = None if soonest is None else max(0.0, soonest - time.monotonic())
        if not (self._single or self._batches or self._last_came):
            with suppress(Empty):
                self._take_in(self._arrived.get(timeout=wait))
        while not self._arrived.empty():
            self._take_in(self._arrived.get())
        jobs: list[_Job] = []
        while self._single and len(jobs) < MOST_TOGETHER:
            jobs.append(self._single.next())
        if self._batches:
            jobs.append(self._batches.next())
        self._ending = self._last_came and not (self._single or self._batches)
        with self._lock:
            for job in jobs:
                self._all -= job.count
                self._waiting[job.by] -= job.count
                if not self._waiting[job.by]:
                    del self._waiting[job.by]
        now = time.monotonic()
        jobs += [job for job in self._later if job.again_at <= now]
        self._later = [job for job in self._later if job.again_at > now]
        jobs.sort(key=lambda job: (job.ahead is not None, job.about))
        return jobs

    def _take_in(self, job: _Job | None) -> None:
        if job is None:
            self._last_came = True
        else:
            (self._single if job.count == 1 else self._batches).put(job)

    def _make(self, jobs: list[_Job]) -> None:
        if jobs and self._made(jobs, together=True):
            return
        left = [job for job in jobs if not job.future.done()]
        if left:
            self._made(left, together=False)

    def _made(self, jobs: list[_Job], *, together: bool) -> bool:
        """Run one transaction with these calls.

        Return False if it was rolled back and no caller was notified.
        """
        again: list[_Job] = []
        kept: list[bool] = []
        try:
            with self._store.writing() as writes:
                writes.when(kept=lambda: kept.append(True))
                waiting: dict[str, float] = {}
                sent = time.monotonic()
                looks = together and writes.looks_ahead
                left = _shared(writes, jobs) if together and not looks else jobs
                for place, job in enumerate(left):
                    if looks and job.ahead is not None and (not place or left[place - 1].ahead is None):
                        _look_ahead(writes, left[place:])
                    if not _one(writes, job, waiting, together=together):
                        again.append(job)
                    if time.monotonic() - sent > LONGEST_SILENCE:
                        writes.settled()
                        sent = time.monotonic()
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            if together and not kept and isinstance(error, Exception) and not isinstance(error, NotKnown):
                return False
            for job in jobs:
                if not job.future.done() and job not in again:
                    job.future.set_exception(error)
        self._later += again
        return True


def _shared(writes: Writes, jobs: list[_Job]) -> list[_Job]:
    """Run calls with the same key in one pass. Return the calls that have to run by themselves.

    After a failed pass these are all of its calls.
    """
    groups: dict[tuple[str, ...], list[_Job]] = {}
    for job in jobs:
        if job.share is not None:
            groups.setdefault(job.share.key, []).append(job)
    made: set[_Job] = set()
    for group in groups.values():
        brought = [job.share.brought for job in group if job.share is not None]
        if len(group) < LEAST_SHARED or group[0].share is None:
            continue
        writes.mark()
        try:
            results = group[0].share.together(writes, brought)
        except Exception:  # noqa: BLE001 - each call runs again and raises its own error
            writes.back()
            continue
        writes.unmark()
        for job, result in zip(group, results, strict=True):
            if result is not None:
                made.add(job)
                told = job.future.set_exception if isinstance(result, Refusal) else job.future.set_result
                writes.when(kept=partial(told, result))
    return [job for job in jobs if job not in made]


def _look_ahead(writes: Writes, jobs: list[_Job]) -> None:
    """Send the queries that the calls will make, in as few messages as possible."""
    looking = [job.ahead(writes) for job in jobs if job.ahead is not None]
    while looking:
        wanted = [next(one, None) for one in looking]
        writes.ahead([query for queries in wanted for query in queries or ()])
        looking = [one for one, queries in zip(looking, wanted, strict=True) if queries is not None]


def _one(writes: Writes, job: _Job, waiting: dict[str, float], *, together: bool) -> bool:
    """Run one call between two savepoints. Return False if it has to run again.

    The caller is answered after the commit. `waiting` maps a subject to the time at which its calls may run
    again. With `together`, the call's changes may be sent together with the commit.
    """
    if job.about in waiting:
        job.until = job.until or time.monotonic() + LONGEST_WAIT
        job.again_at = waiting[job.about]
        return False
    writes.mark()
    try:
        try:
            result, refused = job.call(writes), None
        except Refusal as refusal:
            result, refused = None, refusal
        if not together:
            writes.settled()  # so that this call gets the errors of its statements
    except Exception as error:  # noqa: BLE001 - for whoever waits
        writes.back()
        now = time.monotonic()
        job.until = job.until or now + LONGEST_WAIT
        if isinstance(error, TryAgain) and now < job.until:
            job.again_at = now + error.after
            if error.after and job.about:
                waiting[job.about] = job.again_at
            return False
        failed = error
        writes.when(kept=lambda: job.future.set_exception(failed))  # it may rest on what others changed
        return True
    writes.unmark()
    if refused is None:
        writes.when(kept=lambda: job.future.set_result(result))
    else:
        writes.when(kept=lambda: job.future.set_exception(refused))
    return True
