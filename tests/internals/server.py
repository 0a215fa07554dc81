"""What a local server keeps to itself: for tests that attack it."""


def counts(server):
    """What it has counted of open versions."""
    return server._counts


def learner(server):
    """What learns from the counts."""
    return server._learner


def snapshot_every(monkeypatch, records):
    """Write a snapshot of a durable server after so many records."""
    monkeypatch.setattr("dpbandits.local.server.durable._TAIL_RECORDS", records)
