"""How a `SQLiteLedger` talks to its file: for tests that ask the connection, count what is read, or
forge a book."""

from dataclasses import replace

from dpbandits.budget import sqlite as sqlite_ledger


def connected(ledger):
    """A context: one connection, as every call opens its own."""
    return ledger._connection()


def count_unsealed(monkeypatch):
    """A list that grows by every row whose seal is checked."""
    read, unsealed = [], sqlite_ledger._unsealed
    monkeypatch.setattr(sqlite_ledger, "_unsealed", lambda row: (read.append(row), unsealed(row))[1])
    return read


def forge_unspent(path, account, *, digest):
    """Delete every charge and write a book whose sums agree, its digest `recomputed` or `kept`."""
    with sqlite_ledger._connected(path, 1.0) as connection:
        connection.execute("BEGIN IMMEDIATE")
        entries = sqlite_ledger._Entries(connection)
        before = entries.book
        balance = entries.account(account)
        connection.execute("DELETE FROM charges")
        entries.put_account(account, type(balance)(balance.terms))
        forged = before.moved(entries._kept, 0, -before.charges, -1)
        forged = replace(forged, position=before.position, previous=before.previous)
        forged = forged._with_digest() if digest == "recomputed" else replace(forged, digest=before.digest)
        sqlite_ledger._write_book(connection, forged)
        connection.execute("COMMIT")
