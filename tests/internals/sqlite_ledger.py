"""How a `SQLiteLedger` talks to its file: for tests that ask the connection itself."""


def connected(ledger):
    """A context: one connection, as every call opens its own."""
    return ledger._connection()
