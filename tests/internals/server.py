"""What a local server keeps to itself: for tests that attack it."""

from contextlib import contextmanager
from time import sleep

from dpbandits.local import Server
from dpbandits.local.server import durable
from dpbandits.state.journal import Record


def counts(server):
    """What it has counted of open versions."""
    return server._counts


def learner(server):
    """What learns from the counts."""
    return server._learner


def without_folder(spec):
    """A durable server that nothing of is written down, for `replay` alone."""
    server = object.__new__(durable.DurableServer)
    server._server, server._unrecorded = Server(spec, least_open=0.0), None
    return server


def replay(server, kind, content):
    """Make a step again that the log of a durable server has."""
    server._take(Record(kind, content))


def snapshot_counts(spec, folder):
    """Whether a durable server begins with the folder's snapshot, and not with the start of its log."""
    server = object.__new__(durable.DurableServer)
    server._folder, server._subject = folder, spec.fingerprint
    return server._snapshot(spec, {"least_open": 0.0}) is not None


def snapshots_often(records):
    """In this process, write a snapshot of durable servers after so many records."""
    durable._TAIL_RECORDS = records


def snapshot_every(monkeypatch, records):
    """Write a snapshot of a durable server after so many records."""
    monkeypatch.setattr(durable, "_TAIL_RECORDS", records)


@contextmanager
def held_back(server, calls):
    """No call of a durable server begins before so many that absorb have come."""
    with server._holder.turn():
        yield
        while len(server._gathering._waiting) < calls:
            sleep(0.001)


def records_logged(server):
    """How many steps of a durable server are in its log."""
    return len(server._journal)
