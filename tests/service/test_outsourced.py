"""A curator and a modeler over HTTP: the release, questions, answers, and what a refusal tells."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import StateError
from dpbandits.outsourced import AnswerLaplace, Curator, Modeler, PublishedRows
from dpbandits.privacy import SimulatedNoise
from dpbandits.service.backups import adopt, back_up
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service.conftest import Caller, Hands, served

PATIENTS = {
    "name": "patients",
    "privacy": {"kind": "RowDP", "epsilon": 3, "distance": 1},
}
NOISED = {"epsilon": 1, "distance": 0.5, "low": 0, "high": 1}
DOSES = {
    "name": "doses",
    "population": "patients",
    "privacy": {"epsilon": 1, "distance": 1},
    "answers": NOISED,
    "cap": 4,
}
TABLE = {
    "age": [30, 40, 50, 60, 70],
    "dose": [1.0, 2.0, 3.0, 2.5, 4.0],
    "effect": [0.1, 0.7, 0.4, 0.9, 0.3],
}
AT = "/v1/outsourced/doses"


def curator_of(*, exact: bool = False, **more: Any) -> Curator:
    arguments: dict[str, Any] = {
        "contexts": dpb.Schema(age=dpb.Range(18, 90), dose=dpb.Range(0, 5)),
        "privacy": dpb.RowDP(epsilon=1, distance=1),
        "objective": "effect",
        "answers": None if exact else AnswerLaplace(**NOISED),
        "cap": 4,
    }
    return Curator(TABLE, **(arguments | more))


def release_of(curator: Curator, folder: Path) -> dict[str, Any]:
    curator.publish(folder)
    inputs = base64.b64encode((folder / "inputs.npy").read_bytes()).decode()
    return {"description": json.loads((folder / "release.json").read_text()), "inputs": inputs}


def answered(reply: Any, status: int = 200) -> Any:
    assert reply.status_code == status, reply.text
    return reply.json() if reply.content else None


def refused(reply: Any, slug: str, status: int) -> str:
    assert (reply.status_code, reply.json()["type"]) == (status, f"urn:dpbandits:{slug}"), reply.text
    found: str = reply.json().get("detail", "")
    return found


@pytest.fixture
def begun(admin: Caller) -> Caller:
    answered(admin.post("/v1/populations", PATIENTS), 201)
    answered(admin.post("/v1/outsourced", DOSES), 201)
    return admin


@pytest.fixture
def curator(begun: Caller) -> Caller:
    return begun.with_scopes("curate")


@pytest.fixture
def modeler(begun: Caller, curator: Caller, tmp_path: Path) -> Caller:
    """The release is there."""
    answered(curator("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "release")))
    return begun.with_scopes("model")


def spent(admin: Caller) -> dict[str, str]:
    parts = answered(admin.get("/v1/populations/patients"))["parts"]
    return {one["name"]: one["spent"] for one in parts}


def test_they_find_what_they_find_without_the_service(begun: Caller, curator: Caller, tmp_path: Path) -> None:
    hospital = curator_of()
    answered(curator("PUT", f"{AT}/release", release_of(hospital, tmp_path / "release")))
    company = begun.with_scopes("model")
    found, fetched = answered(company.get(f"{AT}/release")), tmp_path / "fetched"
    fetched.mkdir()
    (fetched / "release.json").write_text(json.dumps(found["description"]))
    (fetched / "inputs.npy").write_bytes(base64.b64decode(found["inputs"]))
    rows = PublishedRows.load(fetched)
    np.testing.assert_array_equal(rows.inputs, hospital.publish().inputs)
    modeler = Modeler(rows, kernel=dpb.kernels.SquaredExponential(lengthscale=8), horizon=4)
    for _ in range(4):
        row = modeler.ask()
        (asked,) = answered(company.post(f"{AT}/questions", {"rows": [row]}))["questions"]
        assert asked == {"row": row, "status": "open", "answer": None}
        assert answered(curator.post(f"{AT}/work", {"worker": "ward"})) == {"rows": [row]}
        told = {"answer": hospital.answer(row)}
        assert answered(curator.put(f"{AT}/questions/{row}/answer", told))["status"] == "answered"
        (asked,) = answered(company.post(f"{AT}/questions", {"rows": [row]}))["questions"]
        modeler.tell(row, asked["answer"])
    kept = [(one["row"], one["answer"]) for one in answered(company.get(f"{AT}/questions"))["questions"]]
    assert kept == hospital.answered
    assert modeler.recommend() in range(5)
    assert "epsilon" in answered(company.get(AT))["statement"]


# -- budgets --------------------------------------------------------------------------------------------


def test_the_population_pays_for_positions_and_answers_before_there_is_a_release(admin: Caller) -> None:
    refused(admin.post("/v1/outsourced", DOSES), "not-found", 404)
    answered(admin.post("/v1/populations", PATIENTS), 201)
    seen = answered(admin.post("/v1/outsourced:preview", DOSES))
    assert (seen["fits"], seen["cost"]["epsilon"]) == (True, "2.0")
    assert spent(admin)["epsilon"] == "0"
    begun = answered(admin.post("/v1/outsourced", DOSES), 201)
    assert (begun["status"], begun["release"], spent(admin)["epsilon"]) == ("awaited", None, "2.0")
    assert answered(admin.post("/v1/outsourced", DOSES), 201) == begun
    assert spent(admin)["epsilon"] == "2.0"
    refused(admin.post("/v1/outsourced", {**DOSES, "cap": 3}), "conflict", 409)
    assert not answered(admin.post("/v1/outsourced:preview", {**DOSES, "name": "more"}))["fits"]
    refused(admin.post("/v1/outsourced", {**DOSES, "name": "more"}), "budget-exceeded", 409)
    refused(admin.get("/v1/outsourced/more"), "not-found", 404)
    exact = {**DOSES, "name": "exact", "answers": None}
    assert answered(admin.post("/v1/outsourced", exact), 201)["answers"] is None
    assert spent(admin)["epsilon"] == "3.0"  # the answers are not covered by a promise, and cost none
    assert [one["name"] for one in answered(admin.get("/v1/outsourced"))["exchanges"]] == ["doses", "exact"]


def test_people_who_are_protected_otherwise_pay_for_no_rows(admin: Caller) -> None:
    answered(admin.post("/v1/populations", {**PATIENTS, "privacy": {"epsilon": 3}}), 201)
    refused(admin.post("/v1/outsourced", DOSES), "invalid", 422)
    assert answered(admin.get("/v1/outsourced")) == {"exchanges": []}


def test_a_charge_that_was_interrupted_is_made_once(
    service: Service, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(admin.post("/v1/populations", PATIENTS), 201)
    charge = service.ledger.charge

    def charged_and_not_told(*arguments: Any, **options: Any) -> None:
        charge(*arguments, **options)
        raise StateError("the ledger could not be read again")

    with monkeypatch.context() as broken:
        broken.setattr(service.ledger, "charge", charged_and_not_told)
        refused(admin.post("/v1/outsourced", DOSES), "not-recorded", 503)
    refused(admin.get(AT), "not-found", 404)  # to nobody before it is known to be paid
    answered(admin.post("/v1/outsourced", DOSES), 201)
    assert spent(admin)["epsilon"] == "2.0"


# -- the release ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"privacy": dpb.RowDP(epsilon=1.5, distance=1)},
        {"privacy": dpb.RowDP(epsilon=1, distance=0.5)},
        {"answers": None},
        {"answers": AnswerLaplace(**{**NOISED, "epsilon": 2})},
        {"cap": 5},
        {"noise": SimulatedNoise(1)},
    ],
)
def test_a_release_that_promises_something_else_is_refused(
    begun: Caller, curator: Caller, tmp_path: Path, other: dict[str, Any]
) -> None:
    body = release_of(curator_of(**other), tmp_path / "release")
    refused(curator("PUT", f"{AT}/release", body), "conflict", 409)
    assert answered(begun.get(AT))["status"] == "awaited"
    refused(begun.with_scopes("model").get(f"{AT}/release"), "conflict", 409)


def test_what_is_no_release_is_refused(begun: Caller, curator: Caller, tmp_path: Path) -> None:
    body = release_of(curator_of(), tmp_path / "release")
    described = body["description"]
    for bad in (
        {"inputs": "no Base64!"},
        {"inputs": base64.b64encode(b"no array").decode()},
        {"inputs": None},
        {"at": "https://example.org/inputs.npy"},
        {"description": {}},
        {"description": {**described, "rows": 6}},
        {"description": {**described, "cap": float("inf")}},
        {"description": {**described, "inputs": {**described["inputs"], "file": "../../service.key"}}},
    ):
        text = json.dumps({**body, **bad})
        named = {"Authorization": f"Bearer {curator.token}", "Content-Type": "application/json"}
        reply = curator.client.put(f"{AT}/release", content=text, headers=named)
        assert reply.status_code in (400, 422), (bad, reply.text)
    assert answered(begun.get(AT))["status"] == "awaited"


def test_a_release_is_taken_once(begun: Caller, curator: Caller, tmp_path: Path) -> None:
    body = release_of(curator_of(), tmp_path / "release")
    first = answered(curator("PUT", f"{AT}/release", body))
    assert answered(curator("PUT", f"{AT}/release", body)) == first
    other = release_of(curator_of(), tmp_path / "other")
    refused(curator("PUT", f"{AT}/release", other), "conflict", 409)
    assert answered(begun.get(AT)) == first


def test_a_release_may_lie_elsewhere(begun: Caller, curator: Caller, tmp_path: Path) -> None:
    body = release_of(curator_of(), tmp_path / "release")
    there = {"description": body["description"], "at": "https://example.org/doses/inputs.npy"}
    answered(curator("PUT", f"{AT}/release", there))
    modeler = begun.with_scopes("model")
    found = answered(modeler.get(f"{AT}/release"))
    assert found == {"description": body["description"], "inputs": None, "at": there["at"]}
    assert answered(modeler.post(f"{AT}/questions", {"rows": [4]}))["questions"][0]["row"] == 4
    for address in ("http://example.org/x", "file:///etc/passwd", "https://example.org/a b"):
        reply = curator("PUT", f"{AT}/release", {**there, "at": address})
        refused(reply, "invalid", 422)


# -- questions and answers ------------------------------------------------------------------------------


def test_a_row_is_one_question_and_all_of_a_request_is_asked_or_nothing(modeler: Caller) -> None:
    first = answered(modeler.post(f"{AT}/questions", {"rows": [3, 1, 3]}))["questions"]
    assert [one["row"] for one in first] == [3, 1, 3]
    for _ in range(2):
        answered(modeler.post(f"{AT}/questions", {"rows": [1]}))
    said = refused(modeler.post(f"{AT}/questions", {"rows": [0, 2, 4]}), "no-rounds-left", 409)
    assert said.startswith("2 of 4 rows were asked for, 3 more")
    said = refused(modeler.post(f"{AT}/questions", {"rows": [0, 5]}), "invalid", 422)
    assert said == "The release has rows 0 to 4: nothing was asked."
    assert [one["row"] for one in answered(modeler.get(f"{AT}/questions"))["questions"]] == [3, 1]
    answered(modeler.post(f"{AT}/questions", {"rows": [0, 2, 1]}))
    refused(modeler.post(f"{AT}/questions", {"rows": [4]}), "no-rounds-left", 409)


def test_a_worker_gets_its_own_open_rows_back(modeler: Caller, curator: Caller) -> None:
    def work(worker: str, most: int = 1) -> list[int]:
        found: list[int] = answered(curator.post(f"{AT}/work", {"worker": worker, "most": most}))["rows"]
        return found

    assert work("a") == []
    answered(modeler.post(f"{AT}/questions", {"rows": [3, 1, 0, 2]}))
    assert work("a") == work("a") == [3]
    assert work("b", 2) == [1, 0]
    assert work("a", 5) == [3, 2]
    answered(curator.put(f"{AT}/questions/3/answer", {"answer": 0.5}))
    answered(curator.put(f"{AT}/questions/0/answer", {"answer": 0.5}))  # whoever has it
    assert work("a", 5) == [2]
    assert work("b") == [1]
    assert work("c", 5) == []


def test_a_row_is_answered_once(modeler: Caller, curator: Caller) -> None:
    answered(modeler.post(f"{AT}/questions", {"rows": [3]}))
    at = f"{AT}/questions/3/answer"
    refused(curator.put(f"{AT}/questions/2/answer", {"answer": 0.5}), "not-found", 404)
    for _ in range(2):
        assert answered(curator.put(at, {"answer": 0.7358294617})) == {"row": 3, "status": "answered"}
    said = refused(curator.put(at, {"answer": 0.25}), "conflict", 409)
    assert "0.7" not in said
    (one,) = answered(modeler.get(f"{AT}/questions"))["questions"]
    assert one["answer"] == 0.7358294617


def test_a_noised_answer_is_never_missing(modeler: Caller, curator: Caller) -> None:
    answered(modeler.post(f"{AT}/questions", {"rows": [3]}))
    refused(curator.put(f"{AT}/questions/3/answer", {"answer": None}), "invalid", 422)
    (one,) = answered(modeler.get(f"{AT}/questions"))["questions"]
    assert one["status"] == "open"


def test_where_answers_are_exact_one_may_be_missing(admin: Caller, tmp_path: Path) -> None:
    answered(admin.post("/v1/populations", PATIENTS), 201)
    answered(admin.post("/v1/outsourced", {**DOSES, "answers": None}), 201)
    answered(admin("PUT", f"{AT}/release", release_of(curator_of(exact=True), tmp_path / "release")))
    answered(admin.post(f"{AT}/questions", {"rows": [3]}))
    for _ in range(2):
        assert answered(admin.put(f"{AT}/questions/3/answer", {"answer": None}))["status"] == "none"
    refused(admin.put(f"{AT}/questions/3/answer", {"answer": 0.5}), "conflict", 409)
    (one,) = answered(admin.get(f"{AT}/questions"))["questions"]
    assert one == {"row": 3, "status": "none", "answer": None}


# -- what leaks, and what stays -------------------------------------------------------------------------


def test_refusals_are_the_same_whatever_the_answers_are(
    begun: Caller, curator: Caller, tmp_path: Path
) -> None:
    """All that a modeler is refused with, beside a release whose answers are others."""
    answered(curator("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "release")))
    said = []
    modeler = begun.with_scopes("model")
    answered(modeler.post(f"{AT}/questions", {"rows": [0, 1]}))
    for value in (0.1, 0.9):
        row = len(said)
        answered(curator.put(f"{AT}/questions/{row}/answer", {"answer": value}))
        replies = [
            modeler.post(f"{AT}/questions", {"rows": [9]}),
            modeler.post(f"{AT}/questions", {"rows": [2, 3, 4]}),
            modeler.put(f"{AT}/questions/{row}/answer", {"answer": value}),
            modeler.get(f"{AT}/questions/{row}/answer"),
            modeler.post(f"{AT}/work", {"worker": "ward"}),
            modeler("PUT", f"{AT}/release", {"description": {}}),
            modeler("DELETE", AT),
        ]
        said.append([(one.status_code, one.json()) for one in replies])
    assert said[0] == said[1]


def test_canaries_of_answers(
    begun: Caller, modeler: Caller, curator: Caller, caplog: pytest.LogCaptureFixture, folder: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    canary, worker = 0.7358294617, "zq7canary-worker"
    answered(modeler.post(f"{AT}/questions", {"rows": [3]}))
    answered(curator.post(f"{AT}/work", {"worker": worker}))
    answered(curator.put(f"{AT}/questions/3/answer", {"answer": canary}))
    texts = [
        curator.put(f"{AT}/questions/3/answer", {"answer": canary + 1}).text,
        curator.put(f"{AT}/questions/3/answer", {"answer": f"{canary}"}).text,
        curator.put(f"{AT}/questions/3/answer", {str(canary): canary}).text,
        *(begun.get(path).text for path in ("/metrics", "/v1/events", AT, "/v1/outsourced", "/openapi.json")),
        *(one.getMessage() for one in caplog.records if one.name != "httpx"),
    ]
    for text in texts:
        assert str(canary) not in text
        assert worker not in text
    assert not any(worker.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    lines = {one.getMessage().rpartition(" ")[0].rpartition(" ")[0] for one in caplog.records}
    told = f"PUT {AT.replace('doses', '{exchange}')}/questions/{{row}}/answer"
    assert {line for line in lines if line.startswith(told)} == {f"{told} answered"}


def test_old_answers_are_erased(
    service: Service, begun: Caller, modeler: Caller, curator: Caller, hands: Hands
) -> None:
    answered(modeler.post(f"{AT}/questions", {"rows": [3, 1]}))
    answered(curator.put(f"{AT}/questions/3/answer", {"answer": 0.7358294617}))
    hands.passed += 31 * 86400.0
    service.tick().result()
    told = answered(modeler.get(f"{AT}/questions"))["questions"]
    assert [(one["status"], one["answer"]) for one in told] == [("erased", None), ("open", None)]
    refused(curator.put(f"{AT}/questions/3/answer", {"answer": 0.7358294617}), "erased", 410)


def test_an_exchange_is_erased(folder: Path, tmp_path: Path) -> None:
    body = release_of(curator_of(), tmp_path / "release")
    with served(Service(folder)) as admin:
        token = admin.token
        answered(admin.post("/v1/populations", PATIENTS), 201)
        answered(admin.post("/v1/outsourced", DOSES), 201)
        answered(admin("PUT", f"{AT}/release", body))
        answered(admin.post(f"{AT}/questions", {"rows": [3]}))
        answered(admin.put(f"{AT}/questions/3/answer", {"answer": 0.25}))
        for _ in range(2):
            answered(admin("DELETE", AT), 204)
        ended = answered(admin.get(AT))
        assert (ended["status"], ended["release"], ended["statement"]) == ("ended", None, None)
        for reply in (
            admin.get(f"{AT}/release"),
            admin.get(f"{AT}/questions"),
            admin.post(f"{AT}/questions", {"rows": [1]}),
            admin.put(f"{AT}/questions/3/answer", {"answer": 0.25}),
            admin("PUT", f"{AT}/release", body),
        ):
            refused(reply, "conflict", 409)
    raw = base64.b64decode(body["inputs"])[-16:]
    assert not any(raw in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    with served(Service(folder), token) as admin:
        assert answered(admin.post("/v1/outsourced", DOSES), 201) == ended
        assert spent(admin)["epsilon"] == "2.0"


def test_what_was_asked_and_answered_is_there_after_a_restart_and_a_copy_only_reads(
    folder: Path, tmp_path: Path
) -> None:
    with served(Service(folder)) as admin:
        token = admin.token
        answered(admin.post("/v1/populations", PATIENTS), 201)
        answered(admin.post("/v1/outsourced", DOSES), 201)
        answered(admin("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "release")))
        answered(admin.post(f"{AT}/questions", {"rows": [3, 1]}))
        answered(admin.put(f"{AT}/questions/3/answer", {"answer": 0.25}))
        kept = [answered(admin.get(f"{AT}/{what}")) for what in ("questions", "release")]
    back_up(folder, tmp_path / "copy")

    def writes(admin: Caller) -> list[Any]:
        return [
            admin.post(f"{AT}/questions", {"rows": [0]}),
            admin.post(f"{AT}/work", {"worker": "ward"}),
            admin.put(f"{AT}/questions/1/answer", {"answer": 0.5}),
            admin.post("/v1/outsourced", {**DOSES, "name": "new", "answers": None}),
        ]

    with served(Service(tmp_path / "copy"), token) as admin:
        assert [answered(admin.get(f"{AT}/{what}")) for what in ("questions", "release")] == kept
        for reply in writes(admin):
            refused(reply, "read-only", 503)
    assert not adopt(tmp_path / "copy", settings=Settings())
    with served(Service(tmp_path / "copy"), token) as admin:  # the original may have been asked for more
        for reply in writes(admin):
            refused(reply, "conflict", 409)
    with served(Service(folder), token) as admin:
        assert [answered(admin.get(f"{AT}/{what}")) for what in ("questions", "release")] == kept
        assert {one.status_code for one in writes(admin)} == {200, 201}
