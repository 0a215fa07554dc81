"""Local policies of several workers: what each of them counts adds up, and versions close once for all."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter, ProtocolError, StateError
from dpbandits.local import ReportCounts, Server, aggregate
from dpbandits.local.server.aggregation import write_counts, write_reports
from dpbandits.service import postgres, surveys
from dpbandits.service.postgres import PostgresStore
from dpbandits.service.store import Reads, TryAgain, Writes
from dpbandits.service.surveys import SharedServer
from flat import spec_with
from service import databases

SPEC = spec_with(
    contexts=dpb.Schema(age=dpb.Range(18, 90)),
    arms=["mail", "call"],
    privacy=dpb.LocalDP(epsilon=1),
    reports_per_version=8,
    window=3,
)


def reports(
    published: Any, count: int, *, spec: dpb.local.Spec | dpb.local.ReadoutSpec = SPEC
) -> list[bytes]:
    made = []
    for number in range(count):
        client = dpb.local.Client(spec)
        client.choose(published, {"age": 20 + number % 60})
        made.append(client.report(float(number % 2)))
    return made


def text(server: SharedServer | Server[Any]) -> str:
    """What is published now."""
    found: str = server.publish().to_json(SPEC)
    return found


def known(server: Server[Any]) -> dict[str, bytes]:
    """All that a server knows but how often it was called."""
    arrays = server.to_arrays()
    return {
        name: np.sort(array).tobytes() if "nonces" in name else array.tobytes()
        for name, array in arrays.items()
        if name != "numbers"
    }


@pytest.fixture
def stores() -> Iterator[list[PostgresStore]]:
    address = databases.any_kind()
    found = [PostgresStore(address) for _ in range(2)]
    with found[0].writing() as writes:
        writes.run("INSERT INTO surveys VALUES ('s', 'tips', 'people', ?, 0)", SPEC.to_json())
        SharedServer.begin(writes, "s", SPEC)
    yield found
    for one in found:
        one.close()


@pytest.fixture
def two(stores: list[PostgresStore]) -> list[SharedServer]:
    """Two workers' servers of one policy."""
    return [SharedServer(store, "s", SPEC, least_open=0.0) for store in stores]


def test_workers_come_to_what_one_server_does(two: list[SharedServer]) -> None:
    alone = Server(SPEC)
    for step in range(9):
        one, other = two[step % 2], two[1 - step % 2]
        published = alone.publish()
        assert text(one) == published.to_json(SPEC) == text(other)
        batch = reports(published, 5)
        tally = alone.absorb(batch)
        assert one.absorb(batch[:3]).accepted + other.absorb(batch[2:]).accepted == tally.accepted == 5
    assert alone.publish().version >= 4
    assert text(two[1]) == text(two[0]) == alone.current.to_json(SPEC)
    assert known(two[0].server) == known(two[1].server) == known(alone)


def test_a_report_counts_once_whichever_workers_it_came_to(two: list[SharedServer]) -> None:
    batch = reports(two[0].publish(), 6)
    assert two[0].absorb(batch[:4]).accepted == 4
    tally = two[1].absorb(batch)
    assert (tally.accepted, tally.repeated) == (2, 4)
    assert two[0].absorb(batch).repeated == 6
    assert len(two[0].server.nonces()) == len(two[1].server.nonces()) == 6


def test_workers_answer_a_readout_as_one_server_does(stores: list[PostgresStore]) -> None:
    """The version stays the same, however many reports come, and also for a worker that comes later."""
    spec = dpb.local.ReadoutSpec(
        target=SPEC, policy=Server(SPEC).publish(), control="mail", privacy=dpb.LocalDP(epsilon=1), n_users=60
    )
    with stores[0].writing() as writes:
        writes.run("INSERT INTO surveys VALUES ('r', 'asked', 'people', ?, 0)", spec.to_json())
        SharedServer.begin(writes, "r", spec)
    workers, alone = [SharedServer(store, "r", spec, least_open=0.0) for store in stores], Server(spec)
    batch = reports(workers[0].publish(), 60, spec=spec)
    for first in range(0, 60, 10):
        workers[first // 10 % 2].absorb(batch[first : first + 15])
        assert {one.publish().version for one in workers} == {0}
    alone.absorb(batch)
    late = SharedServer(stores[1], "r", spec, least_open=0.0)
    assert [one.server.readout() for one in (*workers, late)] == [alone.readout()] * 3


def test_a_version_that_one_worker_closed_is_closed_for_all(two: list[SharedServer]) -> None:
    late = reports(two[0].publish(), 1)
    for step in range(4):
        worker = two[step % 2]
        worker.absorb(reports(worker.publish(), 8))
    assert two[1].publish().version == 4
    assert two[0].absorb(late).closed == 1


def test_clocks_of_workers_do_not_say_what_is_open(stores: list[PostgresStore]) -> None:
    """A worker that has just begun publishes nothing that closes a version, and takes what others closed for
    closed.
    """
    old, young = (
        SharedServer(store, "s", SPEC, least_open=each)
        for store, each in zip(stores, (0.0, 1e9), strict=True)
    )
    late = reports(young.publish(), 3)
    for _ in range(3):
        young.absorb(reports(old.publish(), 8))
    assert old.publish().version == 3
    young.absorb(reports(old.publish(), 8))
    assert young.publish().version == 3  # the fourth would close the first
    assert young.absorb(late[:1]).accepted == 1
    assert old.publish().version == 4
    assert young.absorb(late[1:2]).closed == 1
    assert old.absorb(late[2:]).closed == 1
    assert known(old.server) == known(young.server)


def test_devices_may_answer_a_version_that_the_worker_has_not_seen(two: list[SharedServer]) -> None:
    two[0].absorb(reports(two[0].publish(), 8))
    two[1].publish()
    made = reports(two[0].publish(), 2)
    assert two[1].absorb(made).accepted == 2


@pytest.mark.parametrize("locks", [True, False])
def test_many_at_once(two: list[SharedServer], locks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers take the same reports and publish at the same time; without locks the keys keep order."""
    if not locks:
        monkeypatch.setattr(postgres.PostgresWrites, "lock", ("", ""))
    batch = reports(two[0].publish(), 24)
    accepted: list[int] = []
    versions: dict[int, set[str]] = {}

    def work(worker: SharedServer, first: int) -> None:
        for start in range(first, first + 24, 3):
            part = [batch[(start + step) % 24] for step in range(3)]
            while True:
                try:
                    accepted.append(worker.absorb(part).accepted)
                    published = worker.publish()
                except TryAgain:
                    continue
                break
            versions.setdefault(published.version, set()).add(published.to_json(SPEC))

    threads = [threading.Thread(target=work, args=(two[n % 2], 5 * n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert sum(accepted) == len(two[0].server.nonces()) == 24
    assert two[0].server.totals.accepted == 24
    assert all(len(texts) == 1 for texts in versions.values())
    assert text(two[0]) == text(two[1])
    assert known(two[0].server) == known(two[1].server)


def test_what_was_not_committed_did_not_count(
    two: list[SharedServer], stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = reports(two[0].publish(), 3)

    def lost(*_: object) -> None:
        raise StateError("the connection was lost")

    with monkeypatch.context() as broken:
        broken.setattr(postgres.PostgresWrites, "finish", lost)
        with pytest.raises(StateError, match="lost"):
            two[0].absorb(batch)
    assert two[1].absorb(batch[:2]).accepted == 2
    tally = two[0].absorb(batch)
    assert (tally.accepted, tally.repeated) == (1, 2)


def test_the_database_waits_for_who_counts_for_long(
    two: list[SharedServer], stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears from the transaction some times in the longest time that it lets one be idle."""
    sift, one, heard = Server.sift, postgres.PostgresWrites.one, threading.Semaphore(0)
    made = reports(two[0].publish(), 2)

    def hears(self: postgres.PostgresWrites, sql: str, *arguments: object) -> Any:
        found = one(self, sql, *arguments)
        if sql == "SELECT 1":
            heard.release()
        return found

    def slowly(self: Server[Any], given: Any) -> Any:
        assert stores[0].now_writing.one("SHOW idle_in_transaction_session_timeout") == ("1min",)
        assert all(heard.acquire(timeout=60.0) for _ in range(4))
        return sift(self, given)

    class Quick(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            assert timeout <= postgres.IDLE_SECONDS / 4
            return super().wait(0.01)

    monkeypatch.setattr(postgres, "threading", SimpleNamespace(**{**vars(threading), "Event": Quick}))
    monkeypatch.setattr(postgres.PostgresWrites, "one", hears)
    monkeypatch.setattr(Server, "sift", slowly)
    assert two[0].absorb(made).accepted == 2


def test_a_worker_that_was_away_goes_on_from_the_state(
    two: list[SharedServer], stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "TAIL_ROWS", 3)
    first = reports(two[1].publish(), 1)
    two[1].absorb(first)
    for _ in range(4):
        two[0].absorb(reports(two[0].publish(), 3))
    with stores[0].reading() as reads:
        rows = reads.rows("SELECT number FROM survey_log ORDER BY number")
        (held,) = reads.one("SELECT number FROM survey_states") or (0,)
    assert 3 <= held
    assert [row[0] for row in rows] == list(range(held + 1, held + 1 + len(rows)))
    assert len(rows) < 3
    assert two[1].absorb(first).repeated == 1
    new = SharedServer(stores[1], "s", SPEC, least_open=0.0)
    assert known(new.server) == known(two[0].server) == known(two[1].server)


def test_what_is_large_is_read_before_anything_is_locked(
    two: list[SharedServer], stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database sends, it keeps the locks of a worker that was stopped."""
    monkeypatch.setattr(surveys, "TAIL_ROWS", 3)
    for _ in range(4):
        two[0].absorb(reports(two[0].publish(), 8))
    more = reports(two[0].publish(), 1)
    with stores[0].reading() as reads:
        (size,) = reads.one("SELECT LENGTH(content) FROM survey_states") or (0,)
    read: dict[bool, list[int]] = {True: [], False: []}
    rows, one = Reads.rows, Reads.one

    def noted(self: Reads, found: list[Any]) -> None:
        sizes = (len(value) for row in found for value in row or () if isinstance(value, bytes | str))
        read[isinstance(self, Writes)].append(sum(sizes))

    def all_rows(self: Reads, sql: str, *given: object) -> list[Any]:
        found = rows(self, sql, *given)
        noted(self, found)
        return found

    def one_row(self: Reads, sql: str, *given: object) -> Any:
        found = one(self, sql, *given)
        noted(self, [found])
        return found

    monkeypatch.setattr(Reads, "rows", all_rows)
    monkeypatch.setattr(Reads, "one", one_row)
    new = SharedServer(stores[1], "s", SPEC, least_open=0.0)
    assert new.absorb(more).accepted == 1
    assert max(read[False]) >= size > 1000
    assert max(read[True]) < 200


def test_a_state_that_cannot_be_written_keeps_no_report_out(
    two: list[SharedServer], stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "TAIL_ROWS", 2)
    run = postgres.PostgresWrites.run

    def fails(self: postgres.PostgresWrites, sql: str, *given: object) -> int:
        if "survey_states" in sql:
            raise StateError("the connection was lost")
        return run(self, sql, *given)

    batch = reports(two[0].publish(), 6)
    with monkeypatch.context() as broken:
        broken.setattr(postgres.PostgresWrites, "run", fails)
        assert [two[0].absorb([report]).accepted for report in batch] == [1] * 6
    with stores[0].reading() as reads:
        assert reads.rows("SELECT number FROM survey_log ORDER BY number") == [(n,) for n in range(1, 8)]
    assert two[1].absorb(batch).repeated == 6


def test_rows_that_are_gone_are_noticed(two: list[SharedServer], stores: list[PostgresStore]) -> None:
    for _ in range(3):
        two[0].absorb(reports(two[0].publish(), 2))
    with stores[0].writing() as writes:
        writes.run("DELETE FROM survey_log WHERE number = 2")
    with pytest.raises(dpb.errors.CorruptState, match="gone"):
        two[1].publish()


def test_workers_go_on_where_a_database_was_put_back(
    two: list[SharedServer], stores: list[PostgresStore]
) -> None:
    """Reports since are forgotten, and reveal nothing; none of the workers writes behind a gap."""
    batch = reports(two[0].publish(), 6)
    two[0].absorb(batch[:2])
    two[1].absorb(batch[2:4])
    with stores[0].writing() as writes:
        writes.run("DELETE FROM survey_log WHERE number > 2")
    assert two[1].absorb(batch[2:]).accepted == 4
    assert two[0].absorb(batch).repeated == 6
    assert known(two[0].server) == known(two[1].server)


def test_files_counted_in_bulk_come_to_the_same(two: list[SharedServer], tmp_path: Path) -> None:
    """And a report that came to a worker, too, keeps them out until they are counted without it."""
    published = two[0].publish()
    batch = reports(published, 12)
    write_reports(tmp_path / "a.reports", batch[:7])
    write_reports(tmp_path / "b.reports", batch[5:])
    two[1].absorb(batch[:2])
    files = [tmp_path / "a.reports", tmp_path / "b.reports"]
    counts, _ = aggregate(files, SPEC, [published])
    with pytest.raises(ProtocolError, match="in both"):
        two[0].merge(counts)
    counts, tally = aggregate(files, SPEC, [published], without=two[0].server.nonces())
    assert two[0].merge(counts) == tally.accepted == 10
    alone = Server(SPEC)
    alone.publish()
    alone.absorb(batch)
    assert known(two[1].server) == known(alone)
    assert text(two[1]) == text(alone)


def test_counts_are_added_on_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from dpbandits.cli import app
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings
    from dpbandits.service.surveys import begin_survey
    from service.test_local import ASKED, PEOPLE
    from service.test_local import SPEC as TIPS

    folder, address = tmp_path / "data", databases.any_kind()
    service = Service(folder, settings=Settings(database=address))
    try:
        from dpbandits.service.budgets import promise_of

        service.ledger.open_account("people", privacy=promise_of(PEOPLE["privacy"]))
        service.write(lambda writes: begin_survey(writes, service.ledger, ASKED, 0.0)).result()
        counts = ReportCounts(TIPS, [service.surveys.server("tips").publish()])
        counts.absorb(reports(service.surveys.server("tips").publish(), 3, spec=TIPS))
        write_counts(tmp_path / "counts.state", counts)
        words = ["service", "count", "tips", str(tmp_path / "counts.state"), "--data", str(folder)]
        done = CliRunner().invoke(app, [*words, "--database", address])
        assert (done.exit_code, done.output) == (0, "added 3 reports\n"), done.output
        assert service.surveys.server("tips").server.totals.accepted == 3
        words[2] = "others"
        done = CliRunner().invoke(app, [*words, "--database", address])
        assert done.exit_code != 0
        assert isinstance(done.exception, InvalidParameter)
        assert "no local policy" in str(done.exception)
    finally:
        service.close()
