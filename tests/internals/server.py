"""What a local server keeps to itself: for tests that attack it."""

from dpbandits.local.server import durable


def counts(server):
    """What it has counted of open versions."""
    return server._counts


def learner(server):
    """What learns from the counts."""
    return server._learner


def snapshots_often(records):
    """In this process, write a snapshot of durable servers after so many records."""
    durable._TAIL_RECORDS = records


def snapshot_every(monkeypatch, records):
    """Write a snapshot of a durable server after so many records."""
    monkeypatch.setattr(durable, "_TAIL_RECORDS", records)
