"""What a local server keeps to itself: for tests that attack it."""


def counts(server):
    """What it has counted of open versions."""
    return server._counts


def learner(server):
    """What learns from the counts."""
    return server._learner
