"""Workers of one database: together they do what one process does, whatever becomes of some of them."""

import json
import os
import signal
import threading
import time
import traceback
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpbandits.budget.ledger import Cost, Terms
from dpbandits.budget.units import unit_of
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    DPBanditsError,
    ForkedState,
    InvalidParameter,
    StateError,
)
from dpbandits.policy import kept
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.service import core, policies
from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.problems import Problem
from dpbandits.service.round_log import scratch
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Store, Writes
from dpbandits.state.witness import Witness
from internals.workers import as_folded, closed, event, folding
from service import databases, kills, worker_kills
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, served
from service.test_kills import run_and_found

KILLS = Path(__file__).with_name("worker_kills.py")
RELEASED = "SELECT MAX(released) FROM progress"
SHORT = {**OFFERS, "horizon": 60, "tuning": {"blocks": [6, 20, 60], "n_features": 3, "lag": 2}}


@pytest.fixture
def address() -> str:
    return databases.any_kind()


@pytest.fixture
def settings(address: str) -> Settings:
    return Settings(database=address)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody folds by themselves."""
    monkeypatch.setattr(core, "FOLD_SECONDS", 1e6)
    monkeypatch.setattr(Folding, "wake", lambda _: None)


@pytest.fixture
def two(folder: Path, settings: Settings) -> Iterator[tuple[Service, Service, Caller, Caller]]:
    """Two workers, and who calls each; a population and a policy have begun."""
    first = Service(folder, settings=settings)
    with served(first) as one:
        assert one.post("/v1/populations", CUSTOMERS).status_code == 201
        assert one.post("/v1/policies", SHORT).status_code == 201
        second = Service(folder, settings=settings)
        assert second.first_token is None
        with served(second, one.token) as other:
            yield first, second, one, other


Two = tuple[Service, Service, Caller, Caller]


def the_policy(service: Service) -> str:
    return str(service.read(lambda reads: reads.one("SELECT id FROM policies") or ("",))[0])


def releases(caller: Caller) -> list[int]:
    found = caller.get("/v1/policies/offers/releases").json()["releases"]
    return [one["rounds"] for one in found]


@pytest.mark.timeout(300)
def test_a_few_faults(tmp_path: Path) -> None:
    found = run_and_found(KILLS, 4, 18, tmp_path)
    assert found["answers"] >= 4 * worker_kills.ANSWERS


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_faults(tmp_path: Path) -> None:
    found = run_and_found(KILLS, 200, 2, tmp_path)
    assert found["answers"] > 1000
    assert found["policies"] > 5
    assert found["compared"] > 20


def test_arms_that_two_workers_change_at_once_change_once_and_in_both(two: Two) -> None:
    _, _, one, other = two
    asked = {**OFFERS, "name": "arms", "privacy": {"epsilon": 0.3, "delta": 1e-6}}
    assert one.post("/v1/policies", asked).status_code == 201
    chosen: list[str] = []

    def decide(start: int, stop: int) -> None:
        for number in range(start, stop):
            by, to = (one, other) if number % 2 else (other, one)
            answer = by.decide(f"v{number}", policy="arms").json()
            assert to.reward(answer["id"], number % 2, policy="arms").status_code == 200
            chosen.append(answer["arm"])

    decide(0, 10)
    path, told = "/v1/policies/arms/arms", []
    add, retire = {"arm": "chat", "minimum": 0.5}, {"arm": "mail"}

    def tell(caller: Caller) -> None:
        told.extend([caller.post(path, add).status_code, caller.post(f"{path}:retire", retire).status_code])

    threads = [threading.Thread(target=tell, args=(caller,)) for caller in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [200] * 4
    decide(10, 50)
    assert "chat" not in chosen[:23]  # 21 rounds and the lag
    assert "chat" in chosen[23:]
    assert "mail" not in chosen[23:]
    arms = one.get(path).json()
    assert arms == other.get(path).json()
    assert [change["event"] for change in arms["changes"]] == ["arm added", "arm retired"]
    bodies = [{"id": f"b{i}", "user": f"b{i}", "context": {} if i == 1 else AGNES} for i in range(3)]
    batch = other.post("/v1/policies/arms/decisions:batch", {"decisions": bodies}).json()["results"]
    assert ["decision" in result for result in batch] == [True, False, True]


@pytest.mark.parametrize("kind", ["arms", "actions"])
def test_two_workers_release_what_one_policy_does(
    folder: Path, address: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Sums before noise and what was released, number for number: audits of one are those of workers."""
    monkeypatch.setattr(kept, "SecureNoise", partial(SimulatedNoise, 7))
    kills.prepared(folder, database=settings.database, kind=kind)
    workers = [Service(folder, settings=settings) for _ in range(2)]
    lines: list[dict[str, Any]] = []
    try:
        for number in range(90):
            policy, value = ("beside", "waits")[number % 2], number % 7 / 7
            body = {"id": f"v{number}", "user": f"v{number}", "context": {"x": number % 11 / 11}}
            answer = json.loads(workers[number // 2 % 2].decide(policy, "t", body).result(60.0))
            workers[number // 3 % 2].reward(policy, answer["id"], value).result(60.0)
            lines.append({"asks": [policy, body, value]})
    finally:
        for worker in workers:
            worker.close()
    assert worker_kills.same_as_one(folder, address, lines) == 2


def test_what_one_worker_was_told_another_knows(two: Two) -> None:
    _, _, one, other = two
    asked = one.decide("visit", user="u-1").json()
    assert other.decide("visit", user="u-1").json() == asked
    assert other.decide("visit", user="u-2").json()["type"] == "urn:dpbandits:other-body"
    assert other.decide("again", user="u-1").json()["type"] == "urn:dpbandits:user-has-had-all"
    assert other.reward(asked["id"], 1).json() == {"outcome": "counted"}
    assert one.reward(asked["id"], 0).json() == {"outcome": "duplicate"}
    assert one.get("/v1/populations").json() == other.get("/v1/populations").json()
    assert other.post("/v1/policies", SHORT).status_code == 201  # the same request begins nothing
    spent = other.get("/v1/populations/customers").json()["parts"][0]["spent"]
    assert one.get("/v1/populations/customers").json()["parts"][0]["spent"] == spent


def test_a_request_that_two_workers_get_at_once_is_answered_once(two: Two) -> None:
    """By both alike, also by one that has never had this policy before."""
    first, second, _, _ = two
    body = {"id": "v", "user": "u", "context": AGNES}
    answers: list[Any] = []

    def slow(writes: Writes) -> None:
        answer = first.decisions.decide(writes, policy="offers", token="t", body=dict(body))
        writes.settled()  # its rows are written, and nobody else sees them yet
        answers.append(second.decide("offers", "t", dict(body)))
        threading.Event().wait(0.5)
        answers.append(answer)

    first.write(slow).result(60.0)
    assert answers[0].result(60.0) == answers[1]


@pytest.mark.usefixtures("lazy")
def test_a_round_that_was_refused_has_no_reward_in_the_store(two: Two) -> None:
    first, _, one, other = two
    refused = one.decide("bad", context={"age": 44})
    assert refused.status_code == 422
    good = one.decide("good").json()
    for answer in (refused.json(), good):
        assert other.reward(answer["id"], 1).status_code == 200
    with first.store.reading() as reads:
        rows = reads.rows("SELECT status, reward FROM slots ORDER BY slot")
    assert [tuple(row) for row in rows] == [(RoundStatus.REFUSED, None), (RoundStatus.TOLD, 1.0)]
    for number in range(6):
        assert one.decide(f"v{number}").status_code == 200
    assert folding(first).fold(the_policy(first)) == 1


def test_of_two_changes_of_one_version_the_second_is_refused(two: Two) -> None:
    """Also while the first is being written: otherwise a policy that was retired could be active again."""
    first, second, one, _ = two
    etag = one.get("/v1/policies/offers").headers["ETag"]
    change = partial(policies.change, name="offers", settings=None, if_match=etag, now=0.0, by="t")
    begun: list[Any] = []
    with first.store.writing() as writes:
        change(writes, status="retired")
        begun.append(second.write(partial(change, status="active")))
        time.sleep(0.3)
        assert not begun[0].done()
    with pytest.raises(Problem, match="changed-meanwhile"):
        begun[0].result()
    assert one.get("/v1/policies/offers").json()["status"] == "retired"


def with_tables(caller: Caller) -> None:
    """Begin a policy that is called arms, with marginal tables."""
    assert caller.post("/v1/populations", {**CUSTOMERS, "name": "others"}).status_code == 201
    begun = caller.post("/v1/policies", {**OFFERS, "name": "arms", "population": "others"})
    assert begun.status_code == 201, begun.text


def test_two_workers_change_arms_at_once_and_offer_the_same(two: Two) -> None:
    """Two workers make the same request once and different requests both, and both workers decide by them."""
    _, _, one, other = two
    with_tables(one)
    at = "/v1/policies/arms"
    asked = [("/arms", {"arm": "chat", "minimum": 0.35})] * 2
    asked += [("/arms", {"arm": "fax", "minimum": 0.1}), ("/arms:retire", {"arm": "mail"})]
    ready, answers = threading.Barrier(len(asked)), []

    def decided(start: int, stop: int) -> list[tuple[int, str]]:
        found = []
        for number in range(start, stop):
            answer = (one, other)[number % 2].decide(f"v{number}", policy="arms").json()
            found.append((number % 2, answer["arm"]))
        return found

    def change(caller: Caller, path: str, body: dict[str, Any]) -> None:
        ready.wait(60.0)
        answers.append(caller.post(at + path, body))

    decided(0, 30)
    threads = [
        threading.Thread(target=change, args=((one, other)[place % 2], *request))
        for place, request in enumerate(asked)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert [answer.status_code for answer in answers] == [200] * len(asked)
    told = one.get(f"{at}/arms").json()
    assert told == other.get(f"{at}/arms").json()
    assert sorted((change["arm"], change["release"]) for change in told["changes"]) == [
        ("chat", 2),
        ("fax", 2),
        ("mail", 2),
    ]
    events = [event["what"] for event in one.get("/v1/events").json()["events"]]
    assert (events.count("arm-added"), events.count("arm-retired")) == (2, 1)
    before, after = decided(30, 44), decided(44, 120)  # the second release decides from round 44 on
    assert {arm for _, arm in before} <= {"mail", "call", "nothing"}
    for worker in (0, 1):
        arms = {arm for own, arm in after if own == worker}
        assert "chat" in arms
        assert "mail" not in arms
    assert other.get(f"{at}/arms").json()["arms"] == [
        "call",
        "nothing",
        *(c["arm"] for c in told["changes"] if c["event"] == "arm added"),
    ]


def test_a_late_addition_plans_blocks_for_both_workers_even_while_one_of_them_releases(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, one, other = two
    asked = {**OFFERS, "name": "arms", "privacy": {"epsilon": 0.3, "delta": 1e-6}}
    asked["tuning"] = {"blocks": [21, 300], "lag": 0}
    assert one.post("/v1/policies", asked).status_code == 201
    path, told = "/v1/policies/arms/arms", []

    def add() -> None:  # the fold knows of no change: for it, the next release is after 300 rounds
        if not told:
            told.append(other.post(path, {"arm": "chat", "minimum": 0.5}).status_code)

    as_folded(monkeypatch, add)
    arms = []
    for number in range(80):
        answer = (one, other)[number % 2].decide(f"v{number}", policy="arms").json()
        arms.append(answer["arm"])
        while number == 20 and first.read(lambda reads: reads.one(RELEASED))[0] == 0:
            time.sleep(0.01)
    assert told == [200]
    (change,) = one.get(path).json()["changes"]
    assert (change["release"], change["rounds"], change["ends"]) == (2, 21, [*range(42, 361, 21)])
    assert "chat" not in arms[:42]
    assert "chat" in arms[42:]
    found = other.get("/v1/policies/arms/releases").json()["releases"]
    assert [one["rounds"] for one in found] == [21, 42, 63]


@pytest.mark.usefixtures("lazy")
def test_a_change_of_arms_that_the_database_undoes_is_none_for_either_worker(two: Two) -> None:
    first, second, one, other = two
    with_tables(one)
    how: dict[str, Any] = {"retire": False, "asked": {"arm": "chat"}, "now": 1.0}

    def undone(writes: Writes) -> None:
        policies.change_arms(writes, first.engines, "arms", **how)
        raise StateError("undone")

    with pytest.raises(StateError, match="undone"):
        first.write(undone).result(60.0)
    for caller in (one, other):
        assert caller.get("/v1/policies/arms/arms").json()["changes"] == []
        body = {
            "id": f"v{caller is one}",
            "user": f"u{caller is one}",
            "context": AGNES,
            "available": ["chat"],
        }
        assert caller.post("/v1/policies/arms/decisions", body).status_code == 422
    kept = second.write(lambda writes: policies.change_arms(writes, second.engines, "arms", **how))
    assert json.loads(kept.result(60.0).arm_changes)[0]["arm"] == "chat"
    assert len(one.get("/v1/policies/arms/arms").json()["changes"]) == 1


def test_guesses_are_counted_over_all_workers(two: Two) -> None:
    _, _, one, other = two
    assert one.decide("visit", user="u-1").status_code == 200
    found = [(one, other)[n % 2].decide("visit", user=f"guess {n}").status_code for n in range(12)]
    assert found == [409] * 10 + [429] * 2
    assert other.decide("visit", user="u-1").status_code == 429


def test_a_withdrawn_token_is_refused_by_all_workers(two: Two) -> None:
    _, _, one, other = two
    made = one.post("/v1/tokens", {"label": "x", "scopes": ["read"]}).json()
    reader = Caller(other.client, made["token"])
    assert reader.get("/v1/policies").status_code == 200
    assert one("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    until = time.monotonic() + 60.0
    while reader.get("/v1/policies").status_code != 401:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.usefixtures("lazy")
def test_a_round_waits_for_the_release_that_it_needs_and_for_no_other(two: Two) -> None:
    first, second, one, other = two
    for number in range(8):  # the block ends at 6, and decides from 8 on
        answer = (one, other)[number % 2].decide(f"v{number}").json()
        assert (answer["release"], answer["propensity"]) == (0, pytest.approx(1 / 3))
        assert one.reward(answer["id"], 1).json() == {"outcome": "counted"}
    waiting = second.decide(
        "offers", "t", {"id": "v8", "user": "v8", "context": {"age": 40, "region": "west"}}
    )
    assert not waiting.done()
    assert releases(other) == []
    assert folding(first).fold(the_policy(first)) == 1
    assert folding(second).fold(the_policy(first)) == 0
    assert json.loads(waiting.result(60.0))["release"] == 1
    assert releases(other) == releases(one) == [6]
    assert one.get("/v1/policies/offers/policy").text == other.get("/v1/policies/offers/policy").text


@pytest.mark.usefixtures("lazy")
def test_a_reward_counts_until_its_block_is_closed_and_never_after(two: Two) -> None:
    first, second, one, other = two
    answers = [one.decide(f"v{number}").json() for number in range(7)]
    assert other.reward(answers[0]["id"], 1).json() == {"outcome": "counted"}
    assert closed(second, the_policy(first)) == 7
    assert other.reward(answers[1]["id"], 1).json() == {"outcome": "late"}
    assert other.reward(answers[6]["id"], 1).json() == {"outcome": "counted"}  # of the next block
    assert folding(first).fold(the_policy(first)) == 1
    assert other.reward(answers[2]["id"], 1).json() == {"outcome": "late"}
    with first.store.reading() as reads:
        rows = reads.rows("SELECT slot, status FROM slots")
    assert [row[0] for row in rows] == [6]  # contexts of the block are gone


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("locks", [True, False])
def test_two_that_fold_one_block_at_once_release_it_once(
    two: Two, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is locked: the slower one finds that the state has gone on, and keeps nothing."""
    from dpbandits.service import postgres
    from dpbandits.service.engines import ServedBandit

    first, second, one, _ = two
    for number in range(7):
        assert one.decide(f"v{number}").status_code == 200
    if not locks:
        monkeypatch.setattr(postgres.PostgresWrites, "lock", ("", ""))
    policy, original = the_policy(first), ServedBandit.release_next
    found: list[int] = []
    errors: list[DPBanditsError] = []

    def fold(service: Service) -> None:
        try:
            found.append(folding(service).fold(policy))
        except DPBanditsError as error:
            errors.append(error)

    slower = threading.Thread(target=fold, args=(second,))
    drawn: list[bool] = []

    def while_the_other_tries(self: ServedBandit) -> bool:
        drawn.append(original(self))
        if len(drawn) == 1:
            slower.start()
            slower.join(1.0 if locks else 60.0)  # it waits for the lock, if there is one
        return drawn[-1]

    monkeypatch.setattr(ServedBandit, "release_next", while_the_other_tries)
    fold(first)
    slower.join(60.0)
    assert sum(found) == 1
    assert errors == []
    assert drawn.count(True) == (1 if locks else 2)
    assert releases(one) == [6]
    assert folding(first).fold(policy) == 0


@pytest.mark.usefixtures("lazy")
def test_a_fold_that_fails_shows_nobodys_round(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to a tool, either, that prints what stood in the variables where an error came from."""
    from dpbandits.service.engines import ServedBandit

    service, _, one, _ = two
    for number in range(8):
        one.reward(one.decide(f"v{number}").json()["id"], 0.8125)
    policy = the_policy(service)

    def fails(*_: object, **__: object) -> None:
        raise StateError("the state cannot be opened")

    monkeypatch.setattr(ServedBandit, "open", fails)
    with pytest.raises(StateError) as caught:
        folding(service).fold(policy)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    with service.store.reading() as reads:
        people = [row[0] for row in reads.rows("SELECT person FROM slots WHERE policy = ?", policy)]
    assert "0.8125" not in shown.partition("in fold")[2]  # the rest is this test's
    assert len(people) == 8
    assert not any(repr(bytes(person)) in shown for person in people)


@pytest.mark.usefixtures("lazy")
def test_a_worker_that_was_stopped_while_it_folded_has_released_nothing(
    two: Two, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drew its noise, its transaction was ended by the database, and another worker has folded since."""
    import psycopg

    from dpbandits.service.engines import ServedBandit

    first, second, one, _ = two
    for number in range(7):
        assert one.decide(f"v{number}").status_code == 200
    policy, original = the_policy(first), ServedBandit.release_next
    with first.store.reading() as reads:
        before = reads.rows("SELECT * FROM lineages ORDER BY lineage")

    def stopped(self: ServedBandit) -> bool:
        drawn = original(self)
        monkeypatch.setattr(ServedBandit, "release_next", original)
        with psycopg.connect(address, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND state LIKE 'idle in transaction%'"
            )
        until = time.monotonic() + 60.0
        while True:  # until its locks are gone
            with second.store.reading() as reads:
                assert reads.rows("SELECT * FROM lineages ORDER BY lineage") == before
            if folding(second).fold(policy):
                return drawn
            assert time.monotonic() < until

    monkeypatch.setattr(ServedBandit, "release_next", stopped)
    with pytest.raises(StateError, match=r"nothing was recorded|another worker was there"):
        folding(first).fold(policy)
    assert releases(one) == [6]
    with first.store.reading() as reads:
        (position,) = reads.one("SELECT position FROM lineages WHERE lineage = ?", policy) or (0,)
    assert position == before[0][1] + 2  # taken up and released by one worker


def test_users_rounds_are_counted_over_all_workers_at_once(two: Two) -> None:
    first, second, _, _ = two
    context = {"age": 40, "region": "west"}
    calls = [
        service.decide("offers", "t", {"id": f"{n}-{service is first}", "user": f"u{n}", "context": context})
        for n in range(3)
        for service in (first, second)
    ]
    outcomes = [type(call.exception(60.0)) for call in calls]
    assert outcomes.count(Problem) == outcomes.count(type(None)) == 3
    with first.store.reading() as reads:
        assert reads.rows("SELECT rounds FROM people") == [(1,)] * 3
        assert reads.rows("SELECT asked FROM progress") == [(3,)]
        assert reads.rows("SELECT slot FROM slots ORDER BY slot") == [(0,), (1,), (2,)]


def test_a_worker_needs_the_key_of_the_others(tmp_path: Path, settings: Settings) -> None:
    Service(tmp_path / "one", settings=settings).close()
    with pytest.raises(CorruptState, match=r"service\.key"):
        Service(tmp_path / "other", settings=settings)


def test_a_folder_that_serves_by_itself_is_not_a_workers(tmp_path: Path, settings: Settings) -> None:
    Service(tmp_path / "own").close()
    with pytest.raises(StateError, match="service copy"):
        Service(tmp_path / "own", settings=settings)


def test_the_address_is_not_shown(settings: Settings) -> None:
    assert settings.database not in repr(settings)


# -- the ledger ---------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "sqlite":
        made = SQLiteStore(tmp_path / "service.db")
    else:
        from dpbandits.service.postgres import PostgresStore

        made = PostgresStore(databases.any_kind())
    yield made
    made.close()


def test_a_ledger_in_rows_keeps_the_rules(rows: Store) -> None:
    ledger = RowLedger(rows)
    ledger.open_account("a", privacy=JointDP(1))
    ledger.open_account("a", privacy=JointDP(1))
    with pytest.raises(InvalidParameter):
        ledger.open_account("a", privacy=JointDP(2))
    ledger.charge("a", charge_id="x", cost=JointDP(0.6))
    ledger.charge("a", charge_id="x", cost=JointDP(0.6))
    with pytest.raises(BudgetExceeded):
        ledger.charge("a", charge_id="y", cost=JointDP(0.6))
    assert str(ledger.balance("a").spent.epsilon) == "0.6"
    assert ledger.charged("a", "y") is None
    ledger.advance("l", position=3, digest="aa")
    ledger.advance("l", position=3, digest="aa")
    for position, digest in ((3, "bb"), (5, "cc"), (2, "aa")):
        with pytest.raises(ForkedState):
            ledger.advance("l", position=position, digest=digest)
    ledger.advance("l", position=4, digest="bb")
    again = RowLedger(rows)
    assert again.last("l") == (4, "bb")
    assert again.balance("a").terms == Terms(epsilon=1, unit=unit_of(JointDP(1)))


def test_what_was_put_is_undone_with_the_transaction(rows: Store) -> None:
    ledger = RowLedger(rows)
    ledger.open_account("a", privacy=JointDP(1))

    def failing() -> None:
        with rows.writing():
            ledger.charge("a", charge_id="x", cost=Cost.of(JointDP(0.5)))
            ledger.advance("l", position=0, digest="aa")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert (str(ledger.balance("a").spent.epsilon), ledger.last("l")) == ("0", None)


def test_a_charge_that_rests_on_an_older_balance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever read the account before another charge cannot write over it, locks or none."""
    from dpbandits.service import postgres

    store = postgres.PostgresStore(databases.any_kind())
    ledger = RowLedger(store)
    ledger.open_account("a", privacy=JointDP(1))

    def stale() -> None:
        with event(ledger) as entries:
            before = entries.account("a")
            other = threading.Thread(target=lambda: ledger.charge("a", charge_id="y", cost=JointDP(0.6)))
            other.start()
            other.join(60.0)
            assert before is not None
            entries.put_account("a", before)

    monkeypatch.setattr(postgres.PostgresWrites, "lock", ("", ""))
    with pytest.raises(StateError, match="meanwhile"):
        stale()
    assert str(ledger.balance("a").spent.epsilon) == "0.6"
    store.close()


def test_a_state_that_another_worker_went_on_with_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks or none."""
    from dpbandits.service import postgres

    store = postgres.PostgresStore(databases.any_kind())
    ledger = RowLedger(store)
    ledger.advance("l", position=0, digest="aa")
    first, later = Witness(0, "aa"), Witness(3, "dd")

    def stale() -> None:
        with event(ledger) as entries:
            assert entries.lineage("l") == first
            other = threading.Thread(target=lambda: ledger.go_on("l", first, Witness(2, "bb")))
            other.start()
            other.join(60.0)
            entries.put_lineage("l", later)

    monkeypatch.setattr(postgres.PostgresWrites, "lock", ("", ""))
    with pytest.raises(ForkedState, match="another process"):
        stale()
    monkeypatch.undo()
    with pytest.raises(ForkedState, match="another process"):
        ledger.go_on("l", first, later)
    ledger.go_on("l", Witness(2, "bb"), later)
    assert ledger.last("l") == later
    store.close()


@pytest.mark.timeout(300)
def test_several_workers_serve_one_address_and_one_that_dies_is_begun_anew(tmp_path: Path) -> None:
    from service.processes import ServerProcess

    server = ServerProcess(tmp_path / "data", more=("--database", databases.any_kind(), "--workers", "2"))
    try:
        server.post("/v1/populations", CUSTOMERS)
        server.post("/v1/policies", SHORT)
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        workers = [int(one) for one in children.read_text().split()]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        ids = set()
        for number in range(8):  # the release that the last of them needs is made meanwhile
            body = {"id": f"v{number}", "user": f"v{number}", "context": AGNES}
            ids.add(asked_until_answered(server, body)["id"])
        assert len(ids) == 8
        until = time.monotonic() + 60.0
        while decisions_counted(server) < 8:  # a request is counted once its answer was sent
            assert time.monotonic() < until
        assert len({decisions_counted(server) for _ in range(10)}) == 1  # by whichever worker is asked
        now = set(workers)
        while len(now) < 2 or workers[0] in now:
            assert time.monotonic() < until
            time.sleep(0.05)
            now = {int(one) for one in children.read_text().split()}
    finally:
        server.stop()
    assert not any(Path(f"/proc/{one}").exists() for one in now)


def decisions_counted(server: Any) -> float:
    """Requests for decisions, as the metrics say."""
    named = {"Authorization": f"Bearer {server.token}"}
    request = urllib.request.Request(f"{server.url}/metrics", headers=named)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - the same
        lines = reply.read().decode().splitlines()
    route = 'route="/v1/policies/{policy}/decisions"'
    counts = [line for line in lines if line.startswith("dpbandits_requests_total{") and route in line]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def asked_until_answered(server: Any, body: dict[str, Any]) -> dict[str, Any]:
    until = time.monotonic() + 60.0
    while True:
        try:
            found: dict[str, Any] = server.post("/v1/policies/offers/decisions", body)
        except OSError:  # the worker that had it was killed
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return found


def test_several_workers_need_a_database(tmp_path: Path) -> None:
    from dpbandits.service.serving import serve_folder

    with pytest.raises(InvalidParameter, match="--database"):
        serve_folder(tmp_path, config=None, host=None, port=0, say=print, workers=2)


def test_a_state_that_a_crash_left_is_gone_at_the_next_start(folder: Path, settings: Settings) -> None:
    """Also where the dead process had this one's number, as in a container; what is in use stays."""
    under_way = folder / "under-way"
    Service(folder, settings=settings).close()
    left = under_way / f"{os.getpid()}-abc"
    left.mkdir(mode=0o700)
    (left / "policy.state").write_bytes(b"raw")
    with scratch(under_way) as used:
        Service(folder, settings=settings).close()
        assert [one for one in under_way.iterdir() if one.is_dir()] == [used]
    assert not used.exists()
    assert not left.exists()


def test_the_databases_own_log_has_no_values_of_what_failed(folder: Path) -> None:
    """PostgreSQL writes statements that fail into its log, and values are in their text."""
    address, told = databases.with_log()
    first = Service(folder, settings=Settings(database=address))
    second = Service(folder, settings=Settings(database=address))
    with first.store.writing() as writes:
        writes.run("INSERT INTO facts VALUES ('canary-1', 'arm-7531')")
    with pytest.raises(StateError, match="23505"), second.store.writing() as writes:
        writes.run("INSERT INTO facts VALUES (?, ?)", "canary-1", "arm-7531")
    first.close()
    second.close()
    found = told()
    assert "duplicate key" in found  # it is the log
    assert "arm-7531" not in found


@pytest.mark.usefixtures("lazy")
def test_a_reward_that_the_database_undoes_is_told_again_and_undoes_no_others(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deadlock: the statement failed, and its transaction takes no other before it goes back."""
    from dpbandits.service.engines import ServedBandit

    first, _, one, _ = two
    asked, original = one.decide("visit").json(), ServedBandit.tell
    failed: list[str] = []

    def failing(self: ServedBandit, *given: Any) -> Any:
        if not failed:
            failed.append("once")
            first.store.now_writing.run("INSERT INTO facts VALUES ('version', 'again')")
        return original(self, *given)

    monkeypatch.setattr(ServedBandit, "tell", failing)
    assert one.reward(asked["id"], 1).json() == {"outcome": "counted"}
    assert one.reward(asked["id"], 1).json() == {"outcome": "duplicate"}
