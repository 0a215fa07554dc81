"""A service in a folder of its own, and who calls it."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.service import clock, gate, postgres, writer
from dpbandits.service.application import application
from dpbandits.service.core import Service
from dpbandits.service.postgres import PostgresStore
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, SQLiteStore, Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # which client the test client is built on is its own affair
    from starlette.testclient import TestClient

PEOPLE = [
    {"name": "age", "type": "Range", "low": 18, "high": 90},
    {"name": "region", "type": "Categories", "values": ["north", "south", "west"]},
]

OFFERS = {
    "name": "offers",
    "population": "customers",
    "contexts": PEOPLE,
    "arms": ["mail", "call", "nothing"],
    "reward_range": [0, 1],
    "horizon": 400,
    "privacy": {"epsilon": 1, "delta": 1e-6},
    "tuning": {"blocks": list(range(21, 337, 21))},  # the first release decides from the 24th round on
}

DEFAULTS = {name: value for name, value in OFFERS.items() if name != "tuning"}
"""The same, with the blocks that the library chooses."""

CUSTOMERS = {"name": "customers", "privacy": {"epsilon": 3, "delta": 1e-5}}

AGNES = {"age": 44, "region": "west"}


def of_the_library(**changed: Any) -> dpb.central.GPBandit:
    """The policy that the service makes of `OFFERS`, where these members are others."""
    asked = {**OFFERS, **changed}
    return dpb.central.GPBandit(
        contexts=dpb.Schema.from_config({"type": "Schema", "columns": asked["contexts"]}),
        arms=asked["arms"],
        reward_range=tuple(asked["reward_range"]),
        horizon=asked["horizon"],
        privacy=dpb.JointDP(**asked["privacy"]),
        tuning=dpb.central.GPTuning(**{"lag": asked["horizon"] // 200, **asked["tuning"]}),
    )


class Caller:
    """Sends requests with one token.

    Args:
        client: of the application.
        token: whose.
    """

    def __init__(self, client: TestClient, token: str | None) -> None:
        self.client, self.token = client, token

    def __call__(self, method: str, path: str, json: Any = None, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named.setdefault("Authorization", f"Bearer {self.token}")
        return self.client.request(method, path, json=json, headers=named)

    def get(self, path: str, **headers: str) -> Any:
        return self("GET", path, **headers)

    def post(self, path: str, json: Any = None, **headers: str) -> Any:
        return self("POST", path, json, **headers)

    def put(self, path: str, json: Any) -> Any:
        return self("PUT", path, json)

    def decide(self, number: str, user: object = None, policy: str = "offers", **more: Any) -> Any:
        body = {"id": number, "user": number if user is None else user, "context": AGNES, **more}
        return self.post(f"/v1/policies/{policy}/decisions", body)

    def reward(self, decision: str, value: object, policy: str = "offers") -> Any:
        return self.put(f"/v1/policies/{policy}/decisions/{decision}/reward", {"reward": value})

    def with_scopes(self, *scopes: str) -> "Caller":
        made = self.post("/v1/tokens", {"label": "a test's", "scopes": list(scopes)})
        assert made.status_code == 201, made.text
        return Caller(self.client, made.json()["token"])


class Hands:
    """The clocks of everybody who serves: what passes, and what a wall clock says too much.

    Args:
        monkeypatch: undoes it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.wrong = 0.0
        real = clock.elapsed
        monkeypatch.setattr(clock, "elapsed", lambda: real() + self.passed)
        for kind in (SQLiteStore, PostgresStore):
            monkeypatch.setattr(kind, "clock", self._of(kind.clock))

    def _of(self, right: Callable[[Store, Reads], float]) -> Callable[[Store, Reads], float]:
        return lambda store, reads: right(store, reads) + self.passed + self.wrong


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """Time passes where a test says so."""
    return Hands(monkeypatch)


@pytest.fixture(autouse=True, scope="module")
def _patient_service() -> Iterator[None]:
    """A thread of a busy machine may stand still for longer than the service waits for it.

    It comes before the services that the tests of a module share.
    """
    with pytest.MonkeyPatch.context() as patient:  # its own: a test undoes what it has changed itself
        patient.setattr(postgres, "IDLE_SECONDS", 60.0)
        patient.setattr(gate, "LOOKUP_SECONDS", 60.0)
        patient.setattr(writer, "LONGEST_WAIT", 60.0)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def service(folder: Path, settings: Settings) -> Service:
    return Service(folder, settings=settings)


@contextmanager
def served(service: Service, token: str | None = None) -> Iterator[Caller]:
    """A caller of a service, with its first token; left, the service is closed."""
    with TestClient(application(service)) as client:
        yield Caller(client, token or service.first_token)


@pytest.fixture
def admin(service: Service) -> Iterator[Caller]:
    """Has every scope."""
    with served(service) as caller:
        yield caller


@pytest.fixture
def shop(admin: Caller) -> Caller:
    """The same, with a population and a policy."""
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", OFFERS).status_code == 201
    return admin
