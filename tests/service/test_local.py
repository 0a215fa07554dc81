"""Devices over HTTP: what is published, and reports."""

import json
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.local.contract.readout import read_spec
from dpbandits.service.answers import Named, example_of
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from dpbandits.service.surveys import unpacked_reports
from service import databases
from service.conftest import Caller, served
from service.processes import packed_reports
from service.test_desk import cookie_of, page
from service.test_readout import alike

SPEC = dpb.local.Spec(
    contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1)
)
PEOPLE = {"name": "people", "privacy": {"kind": "LocalDP", "epsilon": 1.5}}
ASKED = {"name": "tips", "population": "people", "spec": json.loads(SPEC.to_json())}


def send(caller: Caller, body: bytes) -> tuple[int, dict[str, object]]:
    reply = caller.client.post(
        "/v1/local/tips/reports",
        content=body,
        headers={"Authorization": f"Bearer {caller.token}", "Content-Type": "application/octet-stream"},
    )
    return reply.status_code, reply.json()


def reports(caller: Caller, count: int) -> list[bytes]:
    found = json.loads(caller.get("/v1/local/tips/policy").text)
    spec = dpb.local.Spec.from_json(json.dumps(found["spec"]))
    published = dpb.local.PublishedArms.from_json(json.dumps(found["published"]), spec)
    made = []
    for number in range(count):
        client = dpb.local.Client(spec)
        client.choose(published, {"age": 20 + number})
        made.append(client.report(1.0))
    return made


@pytest.fixture(params=["folder", "database"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(database=databases.any_kind() if request.param == "database" else "")


@pytest.fixture
def tips(admin: Caller) -> Caller:
    assert admin.post("/v1/populations", PEOPLE).status_code == 201
    reply = admin.post("/v1/local", ASKED)
    assert reply.status_code == 201, reply.text
    return admin


def test_reports_are_counted_once(tips: Caller) -> None:
    batch = packed_reports(reports(tips, 5))
    assert send(tips, batch) == (200, {"accepted": 5, "not_counted": 0})
    assert send(tips, batch) == (200, {"accepted": 0, "not_counted": 5})
    assert send(tips, packed_reports([b"no report"])) == (200, {"accepted": 0, "not_counted": 1})


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x05\x00abc", b"\x00" * 30_001])
def test_a_batch_whose_lengths_do_not_add_up_is_refused(tips: Caller, body: bytes) -> None:
    status, problem = send(tips, body)
    assert (status, problem["type"]) == (400, "urn:dpbandits:malformed")


def test_a_route_that_is_answered_ahead_of_the_framework_refuses_as_the_others(tips: Caller) -> None:
    batch = packed_reports(reports(tips, 1))
    headers = {"Authorization": f"Bearer {tips.token}"}
    post = tips.client.post
    assert post("/v1/local/tips/reports", content=batch).status_code == 401
    reader = tips.with_scopes("read")
    refused = post(
        "/v1/local/tips/reports", content=batch, headers={"Authorization": f"Bearer {reader.token}"}
    )
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:dpbandits:out-of-scope")
    assert refused.headers["content-type"] == "application/problem+json"
    assert post("/v1/local/none/reports", content=batch, headers=headers).status_code == 404
    assert post(f"/v1/local/{'x' * 65}/reports", content=batch, headers=headers).status_code == 422
    assert tips.get("/v1/local/tips/reports").status_code == 405
    assert "/v1/local/{survey}/reports" in tips.get("/metrics").text
    assert send(tips, batch) == (200, {"accepted": 1, "not_counted": 0})


@pytest.mark.parametrize("lengths", [[3], [18] * 7, [0, 0], [5, 5, 6], [0, 2, 0], [256] * 3, [2, 514]])
def test_a_batch_is_taken_apart_as_it_was_put_together(lengths: list[int]) -> None:
    rng = np.random.default_rng(4)
    made = [rng.bytes(length) for length in lengths]
    assert unpacked_reports(packed_reports(made)) == made


def test_a_population_pays_once_and_what_does_not_fit_is_refused(tips: Caller) -> None:
    assert tips.post("/v1/local", ASKED).status_code == 201
    (part,) = tips.get("/v1/populations/people").json()["parts"]
    assert float(part["spent"]) == 1.0
    reply = tips.post("/v1/local", {**ASKED, "name": "more"})
    assert (reply.status_code, reply.json()["type"]) == (409, "urn:dpbandits:budget-exceeded")
    assert tips.get("/v1/local/more/policy").status_code == 404
    other = {**ASKED, "population": "others"}
    assert tips.post("/v1/local", other).status_code == 409


def test_asking_again_while_the_ledger_fails_takes_nothing_back(
    service: Service, tips: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise dpb.errors.StateError("the ledger could not be written")

    with monkeypatch.context() as broken:
        broken.setattr(service.ledger, "charge", fails)
        assert tips.post("/v1/local", ASKED).status_code == 503
    assert tips.get("/v1/local/tips/policy").status_code == 200
    assert tips.post("/v1/local", ASKED).status_code == 201
    (part,) = tips.get("/v1/populations/people").json()["parts"]
    assert float(part["spent"]) == 1.0


def test_confirmed_reports_are_there_after_a_restart(folder: Path, settings: Settings) -> None:
    with served(Service(folder, settings=settings)) as admin:
        assert admin.post("/v1/populations", PEOPLE).status_code == 201
        assert admin.post("/v1/local", ASKED).status_code == 201
        batch, token = packed_reports(reports(admin, 3)), admin.token
        assert send(admin, batch)[1]["accepted"] == 3
    with served(Service(folder, settings=settings), token) as admin:
        assert send(admin, batch) == (200, {"accepted": 0, "not_counted": 3})


READOUT = dpb.local.ReadoutSpec(
    target=SPEC,
    policy=dpb.local.Server(SPEC).publish(),
    control="mail",
    privacy=dpb.LocalDP(epsilon=1),
    n_users=100,
)


def test_a_readout_is_compared_over_http_and_after_a_restart(folder: Path, settings: Settings) -> None:
    with served(Service(folder, settings=settings)) as admin:
        assert admin.post("/v1/populations", PEOPLE).status_code == 201
        asked = {**ASKED, "spec": json.loads(READOUT.to_json())}
        assert admin.post("/v1/local", asked).status_code == 201
        assert admin.post("/v1/local", asked).status_code == 201  # the same again
        early = admin.get("/v1/local/tips/readout")
        assert (early.status_code, early.json()["type"]) == (409, "urn:dpbandits:conflict")
        assert admin.with_scopes("report").get("/v1/local/tips/readout").status_code == 403
        found = json.loads(admin.get("/v1/local/tips/policy").text)
        spec = read_spec(json.dumps(found["spec"]))
        assert spec == READOUT
        published = spec.protocol.publishes.from_json(json.dumps(found["published"]), spec)
        made = []
        for number in range(40):
            client = dpb.local.Client(spec)
            client.choose(published, {"age": 20 + number})
            made.append(client.report(1.0))
        assert send(admin, packed_reports(made))[1] == {"accepted": 40, "not_counted": 0}
        alone, token = dpb.local.Server(READOUT), admin.token
        alone.absorb(made)
        answer = admin.get("/v1/local/tips/readout")
        assert answer.json() == alone.readout().to_json()
        assert alike(answer.json(), example_of(Named("LocalReadout")))
    with served(Service(folder, settings=settings), token) as admin:
        assert send(admin, packed_reports(made))[1]["not_counted"] == 40
        assert admin.get("/v1/local/tips/readout").content == answer.content
        assert json.loads(admin.get("/v1/local/tips/policy").text)["published"]["version"] == 0
        cookie = cookie_of(admin)
        text = page(admin, "/desk/local/tips", cookie).text
        assert "difference of" in text
        assert "50.0% of devices get the arm mail" in text
        stated = " ".join(page(admin, "/desk/local/tips/statement", cookie).text.split())
        assert "A device sends one report" in stated


def test_a_local_policy_that_is_no_readout_has_no_answer(tips: Caller) -> None:
    send(tips, packed_reports(reports(tips, 5)))
    assert tips.get("/v1/local/tips/readout").status_code == 409
