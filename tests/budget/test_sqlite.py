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

from dpbandits.budget import Cost, SQLiteLedger, Terms
from dpbandits.budget import sqlite as sqlite_ledger
from dpbandits.errors import BudgetExceeded, CorruptState, DPBanditsError, IncompatibleState, StateError
from dpbandits.privacy.definitions import JointDP
from internals.sqlite_ledger import connected, count_unsealed

WORKER = Path(__file__).parents[1] / "state" / "worker.py"


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
    first.open_account("study", privacy=JointDP(0.3, 1e-6))
    first.charge("study", charge_id="a", cost=JointDP(0.1, 1e-7))
    first.advance("life", position=1, digest="one")
    second = SQLiteLedger(path)
    assert second.balance("study") == first.balance("study")
    assert second.balance("study").remaining_epsilon == Decimal("0.2")
    assert second.last("life") == (1, "one")
    second.charge("study", charge_id="a", cost=JointDP(0.1, 1e-7))
    assert first.balance("study").spent_epsilon == Decimal("0.1")


def test_the_file_is_private_and_alone(tmp_path):
    old_mask = os.umask(0)
    try:
        ledger = SQLiteLedger(tmp_path / "ledger.db")
        ledger.open_account("study", privacy=JointDP(1))
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
    ledger.open_account("study", privacy=JointDP(0.3))
    ledger.charge("study", charge_id="a", cost=JointDP(0.1))
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        row = connection.execute(
            "SELECT terms, spent_epsilon, typeof(spent_epsilon) FROM accounts"
        ).fetchone()
    connection.close()
    assert (json.loads(row[0])["epsilon"], *row[1:]) == ("0.3", "0.1", "text")


def test_processes_never_overdraw_together(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", privacy=JointDP(1))
    paid = together("spend", tmp_path, 40)
    assert sum(paid) == 100  # of 160 tries
    assert ledger.balance("purse").remaining_epsilon == 0


def test_processes_that_repeat_each_others_charges_pay_once(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", privacy=JointDP(1))
    together("repeat", tmp_path, 30)
    assert ledger.balance("purse").spent_epsilon == Decimal("0.30")


def test_of_processes_that_race_one_takes_each_position(tmp_path):
    SQLiteLedger(tmp_path / "ledger.db")
    won = together("race", tmp_path, 40)
    assert sorted(position for positions in won for position in positions) == list(range(40))


def test_threads_share_one_object(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("purse", privacy=JointDP(1))
    barrier = threading.Barrier(4)

    def spend(thread):
        barrier.wait()
        paid = 0
        for i in range(10):
            try:
                ledger.charge("purse", charge_id=f"{thread}:{i}", cost=JointDP(0.04))
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
        ledger.open_account("purse", privacy=JointDP(1))
        return ledger.balance("purse").terms.epsilon

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
    ledger.open_account("study", privacy=JointDP(1))
    path.unlink()
    for call in (
        lambda: ledger.charge("study", charge_id="a", cost=JointDP(1)),
        lambda: ledger.balance("study"),
        lambda: ledger.last("life"),
        lambda: ledger.advance("life", position=0, digest="x"),
        lambda: ledger.open_account("study", privacy=JointDP(1)),
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
    ledger.open_account("study", privacy=JointDP(1))
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("UPDATE accounts SET spent_epsilon = ?", (text if text is not None else b"x",))
    connection.close()
    with pytest.raises(CorruptState):
        ledger.balance("study")
    with pytest.raises(CorruptState):
        ledger.charge("study", charge_id="a", cost=JointDP(0.1))


def test_a_truncated_ledger_is_refused(tmp_path):
    """A cut must not look like budget that was never spent."""
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    for i in range(100):
        ledger.charge(
            "study", charge_id=f"a charge with a long id, so that pages fill up, {i}", cost=JointDP(0.01)
        )
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
        "DELETE FROM lineages",
        "DELETE FROM book",
    ],
)
def test_totals_and_charges_vouch_for_each_other(tmp_path, damage):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("study", privacy=JointDP(1))
    ledger.charge("study", charge_id="a", cost=JointDP(0.5))
    ledger.advance("life", position=1, digest="one")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(CorruptState):
        SQLiteLedger(tmp_path / "ledger.db")


def test_a_changed_row_is_refused_whatever_was_changed(tmp_path):
    """SQLite has no checksums: one character of what was written is changed, in every row and column."""
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1, 1e-6))
    ledger.charge("study", charge_id="first", cost=JointDP(0.5))
    ledger.advance("life", position=3, digest="state")
    asked = {
        "accounts": lambda: ledger.balance("study"),
        "charges": lambda: ledger.charge("study", charge_id="first", cost=JointDP(0.5)),
        "lineages": lambda: ledger.last("life"),
        "book": lambda: ledger.charge("study", charge_id="second", cost=JointDP(0.5)),
    }
    tried = 0
    for table, ask in asked.items():
        connection = sqlite3.connect(path)
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
        connection.close()
        for column in columns:
            if (table, column) == ("book", "id"):  # SQLite itself refuses any other
                continue
            whole = path.read_bytes()
            with sqlite3.connect(path) as connection:
                (value,) = connection.execute(f"SELECT {column} FROM {table}").fetchone()  # noqa: S608
                changed = value + 1 if isinstance(value, int) else chr(ord(value[:1] or "a") ^ 1) + value[1:]
                connection.execute(f"UPDATE {table} SET {column} = ?", (changed,))  # noqa: S608
            connection.close()
            with pytest.raises(CorruptState):
                SQLiteLedger(path)
            if column not in ("name", "account", "charge_id", "lineage"):  # by these it is looked for
                with pytest.raises(CorruptState):
                    ask()
            path.write_bytes(whole)
            tried += 1
    assert tried == 34
    SQLiteLedger(path)


def test_flipped_bits_never_raise_anything_but_our_errors(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    ledger.advance("life", position=1, digest="x")
    whole = path.read_bytes()
    for index in [*range(0, 100, 3), *range(100, len(whole), 997)]:
        damaged = bytearray(whole)
        damaged[index] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            ledger = SQLiteLedger(path, timeout=0.01)
            ledger.charge("study", charge_id="a", cost=JointDP(0.1))
            ledger.advance("life", position=2, digest="y")
        except DPBanditsError:
            pass


# -- terms, large ledgers, other people --------------------------------------------------------------


def test_terms_sums_and_the_accountant_survive_reopening(tmp_path):
    path, promise = tmp_path / "ledger.db", JointDP(2, 2e-6)
    first = SQLiteLedger(path)
    first.open_account("people", privacy=promise)
    first.charge("people", charge_id="pure", cost=JointDP(0.25))
    cost = Cost(unit=Cost.of(promise).unit, epsilon=0.5, delta=1e-7, mu=0.1, distance=1e-10, simulated=True)
    balance = first.charge("people", charge_id="a", cost=cost)
    assert (balance.accountant, balance.before.epsilon) == ("gaussian", Decimal("0.25"))
    assert balance.spent.rho == Decimal("Infinity")  # this cost does not say its rho
    again = SQLiteLedger(path)
    assert first.balance("people") == again.balance("people") == balance
    assert again.charge("people", charge_id="a", cost=cost) == balance
    assert balance.terms == Terms.of(promise)


def swap_rows(path, table, rows):
    with sqlite3.connect(path) as connection:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)  # noqa: S608
    connection.close()


def rows_of(path, table):
    connection = sqlite3.connect(path)
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
    connection.close()
    return rows


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("table", ["accounts", "lineages", "book"])
def test_an_older_row_with_a_valid_checksum_is_refused_at_opening(tmp_path, monkeypatch, table, whole):
    """A rolled-back account is fresh budget; its own checksum vouches for it."""
    monkeypatch.setattr(sqlite_ledger, "READ_WHOLE", 2000 if whole else 0)
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    ledger.advance("life", position=1, digest="one")
    older = rows_of(path, table)
    ledger.charge("study", charge_id="a", cost=JointDP(0.5))
    ledger.advance("life", position=2, digest="two")
    SQLiteLedger(path)
    swap_rows(path, table, older)
    with pytest.raises(CorruptState):
        SQLiteLedger(path)


def test_what_a_large_ledger_notices_and_when(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_ledger, "READ_WHOLE", 0)
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    for name in "abc":
        ledger.charge("study", charge_id=name, cost=JointDP(0.1))
    ledger.verify()
    rows = rows_of(path, "charges")

    swap_rows(path, "charges", rows[:2])  # one is gone
    with pytest.raises(CorruptState):
        SQLiteLedger(path)
    swap_rows(path, "charges", [*rows, ("study", "d", *rows[0][2:])])  # one more
    with pytest.raises(CorruptState):
        SQLiteLedger(path)

    other = SQLiteLedger(tmp_path / "other.db")
    other.open_account("study", privacy=JointDP(1))
    other.charge("study", charge_id="c", cost=JointDP(0.05))
    swap_rows(path, "charges", [*rows[:2], *rows_of(tmp_path / "other.db", "charges")])  # seals are right
    again = SQLiteLedger(path)
    with pytest.raises(CorruptState):
        again.verify()
    assert again.balance("study").spent_epsilon == Decimal("0.3")  # it gives nobody budget

    swap_rows(path, "charges", [*rows[:2], (*rows[2][:2], "0.05", *rows[2][3:])])  # its seal is not
    with pytest.raises(CorruptState):
        SQLiteLedger(path).charge("study", charge_id="c", cost=JointDP(0.1))


def test_opening_a_large_ledger_reads_no_charge(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    for number in range(20):
        ledger.charge("study", charge_id=str(number), cost=JointDP(0.01))
    read = count_unsealed(monkeypatch)
    SQLiteLedger(path)
    assert len(read) >= 22
    read.clear()
    monkeypatch.setattr(sqlite_ledger, "READ_WHOLE", 19)
    SQLiteLedger(path)
    assert len(read) < 5


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_ledger_that_others_can_write_is_refused(tmp_path, mode):
    path = tmp_path / "ledger.db"
    ledger = SQLiteLedger(path)
    ledger.open_account("study", privacy=JointDP(1))
    path.chmod(mode)
    for call in (
        lambda: SQLiteLedger(path),
        lambda: ledger.charge("study", charge_id="a", cost=JointDP(0.1)),
        lambda: ledger.balance("study"),
    ):
        with pytest.raises(StateError, match=f"written by others.*{mode:o}"):
            call()
    path.chmod(0o644)  # may be read: it holds no data, and says who spent what
    ledger.charge("study", charge_id="a", cost=JointDP(0.1))
