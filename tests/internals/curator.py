"""The steps inside a `Curator` at which a process can die, for tests that kill it there."""

import os
import signal

from dpbandits.outsourced import Curator, PublishedRows
from dpbandits.outsourced.curator import pace
from dpbandits.outsourced.curator.answers import AnswerLog
from dpbandits.privacy.rows import L2Laplace
from dpbandits.state import StateStore, journal, store
from dpbandits.state.holder import Holder
from dpbandits.state.journal import Journal

__all__ = ["ANSWERING", "PUBLISHING", "Clock", "counted_draws", "kill", "refused_rename", "then_kill"]


class Clock:
    """The clock of a curator's pace, which moves when told to or slept on."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(pace, "monotonic", lambda: self.now)
        monkeypatch.setattr(pace, "sleep", self._sleep)

    def _sleep(self, seconds):
        self.now += seconds


def kill(*_, **__):
    """This process is gone."""
    os.kill(os.getpid(), signal.SIGKILL)


def then_kill(function):
    """`function`, and then the end."""

    def run(*arguments, **options):
        function(*arguments, **options)
        kill()

    return run


def _patched(owner, name, *, before=False):
    def patch():
        function = getattr(owner, name)
        setattr(owner, name, kill if before else then_kill(function))

    return patch


PUBLISHING = {
    "planned": _patched(Holder, "charge", before=True),
    "paid": _patched(Holder, "charge"),
    "log made": _patched(AnswerLog, "create"),
    "drawn": _patched(L2Laplace, "privatize"),
    "state prepared": _patched(StateStore, "_prepare"),
    "state witnessed": _patched(StateStore, "_witness"),
    "state replaced": _patched(store, "replace_durably"),
    "taken up": _patched(Curator, "_open"),
    "written": _patched(PublishedRows, "save"),
}
"""Step -> what to call in the child so that the process dies right after it (before it: "planned")."""


def _half_a_record():
    write = Journal._write
    Journal._write = then_kill(lambda log, data: os.write(_open(log), data[: len(data) // 2]))
    return write


def _open(log):
    return os.open(log._path, os.O_WRONLY | os.O_APPEND)


ANSWERING = {
    "half a record": _half_a_record,
    "record": _patched(Journal, "_write"),
    "witnessed": _patched(journal, "_write_end", before=True),
}
"""The same for one answer, called when its evaluation has begun: the log's record, its witness."""


def refused_rename(monkeypatch):
    """The disk refuses the last step of every commit of a state."""

    def refused(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store, "replace_durably", refused)


def counted_draws(monkeypatch):
    """A list that grows by the number of rows whenever rows are drawn."""
    drawn, real = [], L2Laplace.privatize

    def counted(self, points, noise):
        drawn.append(len(points))
        return real(self, points, noise)

    monkeypatch.setattr(L2Laplace, "privatize", counted)
    return drawn
