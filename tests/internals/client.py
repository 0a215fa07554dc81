"""What a device's client keeps to itself: for tests that attack it."""


def remembered(client):
    """The choice that is open, and what has become of it: the user's data."""
    return client._last
