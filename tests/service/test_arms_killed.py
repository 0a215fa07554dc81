"""A worker is killed in the middle of a change of arms: all workers then have the same arms and blocks."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, OFFERS, served

CHANGE = """
import os, signal, sys
from pathlib import Path
from dpbandits.service import policies
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings

folder, address, where = sys.argv[1:]

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

service = Service(Path(folder), settings=Settings(database=address))
if where != "answered":
    setattr(policies, where, killed)
asked = {"arm": "chat", "like": "call", "minimum": 0.5}
service.write(
    lambda writes: policies.change_arms(writes, service.engines, "arms", retire=False, asked=asked, now=1.0)
).result()
killed()
"""
"""Worker that is killed before a change is noted, before its commit, or between its commit and the answer."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("where", ["note_fact", "note_event", "answered"])
def test_workers_agree_after_a_kill_in_a_change_of_arms(folder: Path, where: str) -> None:
    settings = Settings(database=databases.any_kind())
    asked: dict[str, Any] = {**OFFERS, "name": "arms", "tuning": {"blocks": [21, 300], "lag": 0}}
    ends = [*range(51, 361, 21)]  # planned anew after 30 rounds
    with served(Service(folder, settings=settings)) as one:
        assert one.post("/v1/populations", CUSTOMERS).status_code == 201
        assert one.post("/v1/policies", asked).status_code == 201
        for number in range(30):
            assert one.decide(f"v{number}", policy="arms").status_code == 200
        command = [sys.executable, "-c", CHANGE, str(folder), settings.database, where]
        assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
        path = "/v1/policies/arms/arms"
        found = one.get(path).json()["changes"]
        assert [change["ends"] for change in found] == ([ends] if where == "answered" else [])
        body = {"arm": "chat", "like": "call", "minimum": 0.5}
        assert one.post(path, body).status_code == 200
        with served(Service(folder, settings=settings), one.token) as other:
            changes = one.get(path).json()["changes"]
            assert changes == other.get(path).json()["changes"]
            assert [change["ends"] for change in changes] == [ends]
            arms = [
                (one, other)[number % 2].decide(f"v{number}", policy="arms").json()["arm"]
                for number in range(30, 110)
            ]
            assert "chat" not in arms[:21]
            assert {"chat"} <= set(arms[21::2]) & set(arms[22::2])  # from both workers
            assert one.get("/v1/policies/arms/releases").json() == (
                other.get("/v1/policies/arms/releases").json()
            )
            events = [event["what"] for event in other.get("/v1/events").json()["events"]]
            assert events.count("arm-added") == 1
