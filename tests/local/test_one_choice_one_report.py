"""One choice, one charge, one report: under threads, forks, signals, crashes, two clients on one folder."""

import os
import signal
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.domains import Box
from dpbandits.errors import BudgetExceeded, ForkedState, IncompatibleState, ProtocolError
from dpbandits.local import Client, FileOutbox, MemoryOutbox, PublishedArms
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.privacy import LocalDP
from flat import spec_with

ACCOUNT = "local-reports"
SPEC = spec_with(
    contexts=Box(low=[0.0], high=[1.0]),
    arms=range(2),
    privacy=LocalDP(epsilon=1.0),
    mechanism="oue",
    learner="smooth",
)
PUBLISHED = PublishedArms(version=0, splits=(0, 1, 2), arms=np.array([0, 1, 0, 1]))


@pytest.fixture(autouse=True)
def eager_threads():
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*calls):
    """What the calls give, or the error they raise, each in its own thread and all begun together."""
    barrier, results = threading.Barrier(len(calls)), [None] * len(calls)

    def play(index, call):
        barrier.wait()
        try:
            results[index] = call()
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            results[index] = error

    threads = [threading.Thread(target=play, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Slow(MemoryLedger):
    """A ledger that lets others run before and after it writes."""

    def charge(self, *arguments, **amounts):
        time.sleep(1e-4)
        balance = super().charge(*arguments, **amounts)
        time.sleep(1e-4)
        return balance


def test_three_threads_that_report_one_choice_get_one_report():
    """207 of 300 races gave several reports for one charge at commit 8169304."""
    for _ in range(60):
        ledger, outbox = Slow(), MemoryOutbox()
        client = Client(SPEC, account=ledger.account("local-reports"), outbox=outbox, budget=10.0)
        client.choose(PUBLISHED, [0.3])
        got = at_once(*(partial(client.report, reward) for reward in (0.0, 1.0, None)))
        assert len(set(got)) == 1
        assert list(outbox.pending().values()) == got[:1]
        assert ledger.balance(ACCOUNT).spent_epsilon == 1


def test_threads_that_choose_report_and_retry_pay_for_every_report_that_there_is():
    for run in range(40):
        ledger, outbox = Slow(), MemoryOutbox()
        client = Client(SPEC, account=ledger.account("local-reports"), outbox=outbox, budget=100.0)

        def choose(client=client):
            return client.choose(PUBLISHED, [0.3])

        def report(client=client, reward=run % 2):
            return [client.report(reward), client.report(1 - reward)]

        client.choose(PUBLISHED, [0.8])
        got = at_once(choose, report, choose, report, partial(client.report, None), report)
        assert not any(isinstance(one, Exception) for one in got)
        pending = outbox.pending()
        assert 1 <= len(pending) == ledger.balance(ACCOUNT).spent_epsilon <= 3
        assert all(key == report[9:HEADER_BYTES].hex() for key, report in pending.items())
        told = {one for pair in got if isinstance(pair, list) for one in pair}
        assert told <= set(pending.values())


def test_a_choice_that_is_refused_leaves_the_open_one_and_its_reward():
    """The report of the open choice was drawn without its reward, and paid, before the refusal."""
    ledger, outbox = MemoryLedger(), MemoryOutbox()
    client = Client(SPEC, account=ledger.account("local-reports"), outbox=outbox, budget=1.0)
    client.choose(PUBLISHED, [0.3])
    other = PublishedArms(version=0, splits=(0, 1, 2), arms=np.array([1, 1, 1, 1]))
    for published, error in ((PUBLISHED, BudgetExceeded), (other, IncompatibleState)):
        with pytest.raises(error):
            client.choose(published, [0.8])
        assert not outbox.pending()
        assert ledger.balance(ACCOUNT).spent_epsilon == 0
    report = client.report(1.0)
    assert dict(client.unsafe_counts)["missing rewards"] == 0
    assert list(outbox.pending().values()) == [report]
    with pytest.raises(BudgetExceeded):
        client.choose(PUBLISHED, [0.8])
    assert client.report(1.0) == report


def test_two_choices_are_paid_where_there_is_budget_for_two():
    client = Client(SPEC, budget=2.0)
    client.choose(PUBLISHED, [0.3])
    client.choose(PUBLISHED, [0.8])
    with pytest.raises(BudgetExceeded):
        client.choose(PUBLISHED, [0.5])
    client.report(1.0)
    assert len(client.unsent()) == 2


def test_a_fork_between_choice_and_report_is_refused_in_the_child():
    client = Client(SPEC, budget=3.0)
    client.choose(PUBLISHED, [0.3])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        for call in (
            lambda: client.report(1.0),
            lambda: client.choose(PUBLISHED, [0.3]),
            lambda: client.decide(PUBLISHED, [0.3]),
        ):
            try:
                call()
                said += b"!"
            except ForkedState:
                said += b"."
        os.write(writing, said)
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 100)
    os.close(reading)
    os.waitpid(child, 0)
    assert said == b"..."
    assert client.report(1.0) == client.report(0.0)
    assert client.unsent() == [client.report(1.0)]


def test_a_fork_while_another_thread_reports_does_not_wait_for_it():
    class Held(MemoryOutbox):
        held, free = threading.Event(), threading.Event()

        def put(self, key, report):
            self.held.set()
            self.free.wait(60)
            super().put(key, report)

    outbox = Held()
    client = Client(SPEC, outbox=outbox)
    client.choose(PUBLISHED, [0.3])
    thread = threading.Thread(target=client.report, args=(1.0,))
    thread.start()
    assert outbox.held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that waits for a thread it has not would never end
        try:
            client.report(0.0)
        except ForkedState:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    outbox.free.set()
    thread.join()
    assert len(client.unsent()) == 1


def test_a_call_from_within_a_call_draws_nothing():
    """A signal's handler, or an outbox, that reports while a report is being drawn or stored."""

    refused = []

    def call():
        for again in (lambda: client.report(0.0), lambda: client.choose(PUBLISHED, [0.9])):
            with pytest.raises(ProtocolError, match="under way in this thread"):
                again()
            refused.append(again)

    class Calls(MemoryLedger):
        def charge(self, *arguments, **amounts):
            balance = super().charge(*arguments, **amounts)
            call()
            return balance

    class Calling(MemoryOutbox):
        def put(self, key, report):
            call()
            super().put(key, report)

    ledger, outbox = Calls(), Calling()
    client = Client(SPEC, account=ledger.account("local-reports"), outbox=outbox, budget=5.0)
    client.choose(PUBLISHED, [0.3])
    report = client.report(1.0)
    assert len(refused) == 4
    assert client.unsent() == [report]
    assert ledger.balance(ACCOUNT).spent_epsilon == 1


@pytest.mark.parametrize("where", ["charge", "draw", "put"])
def test_a_crash_after_the_charge_leaves_one_report_or_none(tmp_path, where, monkeypatch):
    """The process dies; another opens what is on disk: what was paid is gone, and never reported twice."""

    def parts():
        return {
            "account": SQLiteLedger(tmp_path / "ledger").account(ACCOUNT),
            "outbox": FileOutbox(tmp_path / "outbox"),
            "budget": 2.0,
        }

    def die(*_arguments, **_options):
        os._exit(9)

    child = os.fork()
    if child == 0:
        client = Client(SPEC, **parts())
        client.choose(PUBLISHED, [0.3])
        if where == "charge":
            monkeypatch.setattr("dpbandits.local.device.client.read_reward", die)
        elif where == "draw":
            monkeypatch.setattr("dpbandits.local.device.client.pack", die)
        else:
            put = FileOutbox.put
            monkeypatch.setattr(FileOutbox, "put", lambda *args: put(*args) or die())
        client.report(1.0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    stored = 1 if where == "put" else 0
    again = Client(SPEC, **parts())
    assert SQLiteLedger(tmp_path / "ledger").balance(ACCOUNT).spent_epsilon == 1
    assert len(again.unsent()) == stored
    with pytest.raises(ProtocolError):
        again.report(1.0)
    again.choose(PUBLISHED, [0.3])
    again.report(1.0)
    assert len(set(again.unsent())) == stored + 1
    with pytest.raises(BudgetExceeded):
        again.choose(PUBLISHED, [0.3])


def test_two_clients_on_one_folder_pay_for_every_report(tmp_path):
    clients = [
        Client(
            SPEC,
            account=SQLiteLedger(tmp_path / "ledger").account(ACCOUNT),
            outbox=FileOutbox(tmp_path / "outbox"),
            budget=5.0,
        )
        for _ in range(2)
    ]

    def live(client):
        made = []
        for _ in range(5):
            try:
                client.choose(PUBLISHED, [0.3])
                made.append(client.report(1.0))
            except BudgetExceeded:
                continue
        return made

    one, two = at_once(*(partial(live, client) for client in clients))
    assert len({*one, *two}) == len(one) + len(two) == 5
    for client in clients:
        assert set(client.unsent()) == {*one, *two}
    assert SQLiteLedger(tmp_path / "ledger").balance(ACCOUNT).remaining_epsilon == 0
    assert len({report[9:HEADER_BYTES] for report in (*one, *two)}) == 5
    for report in one:
        clients[1].sent(report)
    assert set(clients[0].unsent()) == set(two)


def test_a_choice_of_another_thread_closes_the_first_with_a_report_of_its_own():
    client = Client(SPEC, budget=2.0)
    client.choose(PUBLISHED, [0.3])
    at_once(lambda: client.choose(PUBLISHED, [0.8]))
    assert len(client.unsent()) == 1
    report = client.report(1.0)
    assert len({report, *client.unsent()}) == 2
