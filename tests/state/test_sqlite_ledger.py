"""SQLiteLedger: durable, private, shared by threads and processes, and honest about foreign files."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from dpbandits.errors import BudgetExceeded, CorruptState, DPBanditsError, IncompatibleState, StateError
from dpbandits.state import SQLiteLedger
from internals.sqlite_ledger import connected

WORKER = Path(__file__).with_name("worker.py")


def together(task, directory, n, *, processes=4):
    """Run a worker's task in several processes that start at once; what each returned."""
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, task, directory, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(processes)
    ]
    for worker in workers:
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    results = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * processes
    return results


def test_everything_survives_reopening(tmp_path):
    path = tmp_path / "ledger.db"
    first = SQLiteLedger(path)
    first.open_account("study", epsilon=0.3, delta=1e-6)
    first.charge("study", charge_id="a", epsilon=0.1, delta=1e-7)
    first.advance("life", position=1, digest="one")
    second = SQLiteLedger(path)
    assert second.balance("study") == first.balance("study")
    assert second.balance("study").remaining_epsilon == Decimal("0.2")
    assert second.last("life") == (1, "one")
    second.charge("study", charge_id="a", epsilon=0.1, delta=1e-7)
    assert first.balance("study").spent_epsilon == Decimal("0.1")


def test_the_file_is_private_and_alone(tmp_path):
    old_mask = os.umask(0)
    try:
        ledger = SQLiteLedger(tmp_path / "ledger.db")
        ledger.open_account("study", epsilon=1)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]
    assert repr(ledger) == "SQLiteLedger()"


def test_every_call_is_synchronised_to_disk(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    with connected(ledger) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_budgets_are_text_in_the_file(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("study", epsilon=0.3)
    ledger.charge("study", charge_id="a", epsilon=0.1)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        row = connection.execute(
            "SELECT epsilon, spent_epsilon, typeof(spent_epsilon) FROM accounts"
        ).fetchone()
    connection.close()
    assert row == ("0.3", "0.1", "text")


def test_processes_never_overdraw_together(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", epsilon=1)
    paid = together("spend", tmp_path, 40)
    assert sum(paid) == 100  # of 160 tries
    assert ledger.balance("purse").remaining_epsilon == 0


def test_processes_that_repeat_each_others_charges_pay_once(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", epsilon=1)
    together("repeat", tmp_path, 30)
    assert ledger.balance("purse").spent_epsilon == Decimal("0.30")


def test_of_processes_that_race_one_takes_each_position(tmp_path):
    SQLiteLedger(tmp_path / "ledger.db")
    won = together("race", tmp_path, 40)
    assert sorted(position for positions in won for position in positions) == list(range(40))


def test_threads_share_one_object(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", epsilon=1)
    barrier = threading.Barrier(4)

    def spend(thread):
        barrier.wait()
        paid = 0
        for i in range(10):
            try:
                ledger.charge("purse", charge_id=f"{thread}:{i}", epsilon=0.04)
                paid += 1
            except BudgetExceeded:
                pass
        return paid

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(spend, range(4))) == 25


def test_threads_may_create_one_ledger_at_once(tmp_path):
    barrier = threading.Barrier(8)

    def create(_):
        barrier.wait()
        ledger = SQLiteLedger(tmp_path / "ledger.db")
        ledger.open_account("purse", epsilon=1)
        return ledger.balance("purse").epsilon

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(create, range(8))) == {Decimal(1)}


def test_a_ledger_that_is_in_use_too_long_says_so(tmp_path):
    SQLiteLedger(tmp_path / "ledger.db")
    blocker = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    try:
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError, match="SQLITE_BUSY"):
            SQLiteLedger(tmp_path / "ledger.db", timeout=0.01)
    finally:
        blocker.close()


def test_a_deleted_ledger_is_no_fresh_budget(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", epsilon=1)
    path.unlink()
    for call in (
        lambda: ledger.charge("study", charge_id="a", epsilon=1),
        lambda: ledger.balance("study"),
        lambda: ledger.last("life"),
        lambda: ledger.advance("life", position=0, digest="x"),
        lambda: ledger.open_account("study", epsilon=1),
    ):
        with pytest.raises(StateError, match="SQLITE_CANTOPEN"):
            call()
    assert not path.exists()


def test_foreign_and_damaged_files_are_refused(tmp_path):
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE patients (name TEXT)")
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(IncompatibleState, match="another program"):
        SQLiteLedger(foreign)
    assert foreign.read_bytes() == before

    later = tmp_path / "later.db"
    SQLiteLedger(later)
    with sqlite3.connect(later) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(IncompatibleState, match="version 99"):
        SQLiteLedger(later)

    text = tmp_path / "text.db"
    text.write_text("canary " * 1000)
    with pytest.raises(CorruptState, match="NOTADB"):
        SQLiteLedger(text)
    with pytest.raises(StateError):
        SQLiteLedger(tmp_path)  # a directory


@pytest.mark.parametrize("text", ["x", "NaN", "-1", "1e999999", "", None, 7])
def test_damaged_budgets_are_refused(tmp_path, text):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("study", epsilon=1)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("UPDATE accounts SET spent_epsilon = ?", (text if text is not None else b"x",))
    connection.close()
    with pytest.raises(CorruptState):
        ledger.balance("study")
    with pytest.raises(CorruptState):
        ledger.charge("study", charge_id="a", epsilon=0.1)


def test_a_truncated_ledger_is_refused(tmp_path):
    """A cut must not look like budget that was never spent."""
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", epsilon=1)
    for i in range(100):
        ledger.charge("study", charge_id=f"a charge with a long id, so that pages fill up, {i}", epsilon=0.01)
    whole = path.read_bytes()
    assert len(whole) > 20_000
    for length in [*range(0, len(whole), 1021), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            SQLiteLedger(path)
    path.write_bytes(whole)
    assert SQLiteLedger(path).balance("study").remaining_epsilon == 0


def test_a_cut_through_the_last_witness_is_refused(tmp_path):
    """SQLite would read zeros in its place."""
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.advance("life", position=1, digest="x" * 64)
    whole = path.read_bytes()
    assert not whole.endswith(b"\0")
    path.write_bytes(whole[:-1])
    with pytest.raises(CorruptState):
        SQLiteLedger(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE accounts SET spent_epsilon = '0.0'",
        "UPDATE charges SET epsilon = '0.1'",
        "DELETE FROM charges",
        "DELETE FROM accounts",
    ],
)
def test_totals_and_charges_vouch_for_each_other(tmp_path, damage):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("study", epsilon=1)
    ledger.charge("study", charge_id="a", epsilon=0.5)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(CorruptState):
        SQLiteLedger(tmp_path / "ledger.db")


def test_a_changed_row_is_refused_whatever_was_changed(tmp_path):
    """SQLite has no checksums: one character of what was written is changed, in every row and column."""
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", epsilon=1, delta=1e-6)
    ledger.charge("study", charge_id="first", epsilon=0.5)
    ledger.advance("life", position=3, digest="state")
    asked = {
        "accounts": lambda: ledger.balance("study"),
        "charges": lambda: ledger.charge("study", charge_id="first", epsilon=0.5),
        "witnesses": lambda: ledger.last("life"),
    }
    tried = 0
    for table, ask in asked.items():
        connection = sqlite3.connect(path)
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
        connection.close()
        for column in columns:
            whole = path.read_bytes()
            with sqlite3.connect(path) as connection:
                (value,) = connection.execute(f"SELECT {column} FROM {table}").fetchone()  # noqa: S608
                changed = value + 1 if isinstance(value, int) else chr(ord(value[0]) ^ 1) + value[1:]
                connection.execute(f"UPDATE {table} SET {column} = ?", (changed,))  # noqa: S608
            connection.close()
            with pytest.raises(CorruptState):
                SQLiteLedger(path)
            if column not in ("name", "account", "charge_id", "lineage"):  # by these it is looked for
                with pytest.raises(CorruptState):
                    ask()
            path.write_bytes(whole)
            tried += 1
    assert tried == 15
    SQLiteLedger(path)


def test_flipped_bits_never_raise_anything_but_our_errors(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", epsilon=1)
    ledger.advance("life", position=1, digest="x")
    whole = path.read_bytes()
    for index in [*range(0, 100, 3), *range(100, len(whole), 997)]:
        damaged = bytearray(whole)
        damaged[index] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            ledger = SQLiteLedger(path, timeout=0.01)
            ledger.charge("study", charge_id="a", epsilon=0.1)
            ledger.advance("life", position=2, digest="y")
        except DPBanditsError:
            pass
