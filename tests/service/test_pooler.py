"""Workers behind a pooler that gives every transaction another connection."""

import json
import threading
from pathlib import Path

import psycopg
import pytest

import dpbandits as dpb
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases, test_local
from service.conftest import CUSTOMERS, Caller, served
from service.processes import packed_reports
from service.test_workers import SHORT, releases

ROUNDS = 24


@pytest.mark.timeout(300)
def test_two_workers_behind_a_pooler_in_transaction_mode(tmp_path: Path) -> None:
    pooled, direct = databases.pooled()
    settings = Settings(database=pooled)
    with served(Service(tmp_path / "data", settings=settings)) as one:
        assert one.post("/v1/populations", CUSTOMERS).status_code == 201
        assert one.post("/v1/policies", SHORT).status_code == 201
        with served(Service(tmp_path / "data", settings=settings), one.token) as other:
            found: dict[str, dict[str, object]] = {}

            def use(caller: Caller, first: int) -> None:
                for number in range(first, ROUNDS, 4):
                    answer = caller.decide(f"v{number}").json()
                    caller.reward(answer["id"], number % 2)
                    found[f"v{number}"] = answer

            callers = [(one, other)[place % 2] for place in range(4)]
            threads = [threading.Thread(target=use, args=(each, place)) for place, each in enumerate(callers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60.0)
            assert len({answer["id"] for answer in found.values()}) == ROUNDS
            for name, answer in found.items():
                assert one.decide(name).json() == other.decide(name).json() == answer
            assert releases(one) == releases(other) == [6, 20]
            local_reports(one, other)
            with psycopg.connect(direct, autocommit=True) as connection:
                (count,) = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                ).fetchone() or (0,)
    assert 0 < count <= databases.POOLED  # so workers have had each other's connections


def local_reports(one: Caller, other: Caller) -> None:
    assert one.post("/v1/populations", test_local.PEOPLE).status_code == 201
    assert one.post("/v1/local", test_local.ASKED).status_code == 201
    spec = dpb.local.Spec.from_json(json.dumps(test_local.ASKED["spec"]))
    assert spec == test_local.SPEC
    made = test_local.reports(other, 4)
    assert test_local.send(one, packed_reports(made[:3]))[1] == {"accepted": 3, "not_counted": 0}
    assert test_local.send(other, packed_reports(made))[1] == {"accepted": 1, "not_counted": 3}
