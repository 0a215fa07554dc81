"""A fold of many rounds keeps nobody waiting: it reads, closes and forgets them some at a time."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpbandits.errors import StateError
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.service import core, round_log
from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, Row, Writes
from internals.workers import folding
from service import databases
from service.conftest import AGNES, CUSTOMERS, OFFERS, served

LONG = 10_000
BLOCKS = [LONG, LONG + 10, LONG + 5000]
OF_ONE = 2
POLICY = {
    **OFFERS,
    "horizon": BLOCKS[-1],
    "privacy": {**OFFERS["privacy"], "rounds_per_user": OF_ONE},
    "tuning": {"blocks": BLOCKS, "n_features": 3, "lag": 0},
}


@pytest.fixture(params=["folder", "database"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(database="" if request.param == "folder" else databases.any_kind())


@pytest.fixture
def long(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with a policy that has asked one round; nobody folds by themselves."""
    monkeypatch.setattr(core, "FOLD_SECONDS", 1e6)
    monkeypatch.setattr(Folding, "wake", lambda _: None)
    service = Service(folder, settings=settings)
    with served(service) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", POLICY).status_code == 201
        service.decide("offers", "t", {"id": "v0", "user": "u0", "context": AGNES}).result()
        yield service


def asked(service: Service, upto: int, *, same: int = 0) -> str:
    """Let a policy have asked so many rounds, one in two of them rewarded; the last `same` are one user's."""
    with service.store.writing() as writes:
        policy, first = writes.rows("SELECT policy, asked FROM progress")[0]
        chosen = writes.rows("SELECT chosen FROM slots ORDER BY slot LIMIT 1")[0][0]
        rows: list[Row] = []
        for slot in range(first, upto):
            person = min(slot, upto - max(same, 1)).to_bytes(16, "big")
            told = slot % 2
            status = int(RoundStatus.TOLD if told else RoundStatus.PENDING)
            rows.append((policy, slot, person, chosen, status, 1.0 if told else None, None))
        writes.many("slots", rows)
        writes.run("UPDATE progress SET asked = ?", upto)
    return str(policy)


class Watched:
    """How many rows each statement about rounds has read, changed or removed at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: dict[str, int] = {}
        self.stop_after = -1
        run, rows = Writes.run, Reads.rows

        def counting_run(writes: Writes, sql: str, *arguments: object) -> int:
            if "FROM slots" in sql and self.stop_after == 0:
                raise StateError("the disk is full")
            self.stop_after -= sql.startswith("DELETE FROM slots")
            return self._note(sql, run(writes, sql, *arguments))

        def counting_rows(reads: Reads, sql: str, *arguments: object) -> list[Row]:
            found = rows(reads, sql, *arguments)
            self._note(sql, len(found))
            return found

        monkeypatch.setattr(Writes, "run", counting_run)
        monkeypatch.setattr(Reads, "rows", counting_rows)

    def _note(self, sql: str, count: int) -> int:
        if "slots" in sql:
            word = sql.partition(" ")[0]
            self.most[word] = max(self.most.get(word, 0), count)
        return count


def state_bytes(service: Service) -> int:
    return int(service.read(lambda reads: reads.rows("SELECT LENGTH(content) FROM states"))[0][0])


def rounds(service: Service) -> list[Any]:
    return [row[0] for row in service.read(lambda reads: reads.rows("SELECT slot FROM slots ORDER BY slot"))]


def facts(service: Service) -> list[str]:
    found = service.read(lambda reads: reads.rows("SELECT name FROM facts"))
    return [row[0] for row in found if row[0].startswith("forget")]


def test_no_transaction_of_a_fold_is_about_more_than_some_rounds(
    long: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_bytes(long)
    policy = asked(long, LONG)
    watched = Watched(monkeypatch)
    assert folding(long).fold(policy) == 1
    assert set(watched.most) == {"SELECT", "UPDATE", "DELETE"}
    assert max(watched.most.values()) <= round_log.TOGETHER
    assert rounds(long) == []
    assert facts(long) == []
    assert state_bytes(long) < before + 2 * LONG + 5000  # no user is in it: each would take 24 bytes


def test_whoever_waits_for_the_store_waits_for_one_part(
    long: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two parts the fold rests: it holds nothing that another transaction needs."""
    policy = asked(long, LONG)
    seen = []

    def another(_: float) -> None:
        how_many = "SELECT COUNT(*) FROM slots"
        seen.append(long.write(lambda writes: writes.one(how_many) or (0,)).result(60.0)[0])

    monkeypatch.setattr("dpbandits.service.folding.time", SimpleNamespace(sleep=another))
    assert folding(long).fold(policy) == 1
    whole = list(range(LONG, 0, -round_log.TOGETHER))
    assert seen == [LONG] * (len(whole) - 1) + whole[1:]  # closed in parts, and removed in parts


def test_a_crash_while_rounds_are_forgotten_leaves_them_to_the_next_turn(
    long: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = asked(long, LONG)
    watched = Watched(monkeypatch)
    watched.stop_after = 2
    with pytest.raises(StateError):
        folding(long).fold(policy)
    monkeypatch.undo()
    left = rounds(long)
    assert left == list(range(2 * round_log.TOGETHER, LONG))
    assert len(facts(long)) == 1
    assert folding(long).fold(policy) == 0  # it is released, once
    assert len(long.read(lambda reads: reads.rows("SELECT 1 FROM releases WHERE version > 0"))) == 1
    long.decide("offers", "t", {"id": "v1", "user": "u1", "context": AGNES}).result()
    asked(long, LONG + 10)
    assert folding(long).turn() == 1  # what is left of the block before is not read again
    assert rounds(long) == []
    assert facts(long) == []


def test_a_user_who_has_more_rounds_than_promised_is_noticed(long: Service) -> None:
    """Folding notices it too, because the table that counts rounds may have been changed."""
    policy = asked(long, LONG, same=OF_ONE + 1)
    with pytest.raises(StateError, match="more of a user's rounds"):
        folding(long).fold(policy)
    assert len(rounds(long)) == LONG


def test_as_many_rounds_of_a_user_as_promised_are_released(long: Service) -> None:
    assert folding(long).fold(asked(long, LONG, same=OF_ONE)) == 1


@pytest.mark.parametrize("settings", ["database"], indirect=True)  # in a folder a reward meets no part of it
def test_a_round_that_is_being_told_keeps_no_other_open(long: Service) -> None:
    """Otherwise what one person tells would decide whether another's reward still counts."""
    policy = asked(long, LONG)
    open_still = "SELECT COUNT(*) FROM slots WHERE status = ?"
    made: list[int] = []
    fold = threading.Thread(target=lambda: made.append(folding(long).fold(policy)))
    with long.store.writing() as writes:
        writes.locked("SELECT status FROM slots WHERE policy = ? AND slot = 0", policy)
        fold.start()
        until = time.monotonic() + 60.0
        while (found := writes.one(open_still, int(RoundStatus.PENDING))) != (1,):
            assert time.monotonic() < until, found
    fold.join()
    assert made == [1]
