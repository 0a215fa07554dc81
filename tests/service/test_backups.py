"""A copy of a folder reads and no more, until it is adopted; what a witness has seen is never done again."""

import shutil
from pathlib import Path

import pytest

from dpbandits.errors import ForkedState, MissingState, StateError
from dpbandits.service.backups import adopt, back_up
from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.settings import Settings
from internals.workers import folding
from service.conftest import CUSTOMERS, OFFERS, Caller, served


def begun(folder: Path, settings: Settings) -> str:
    """A service that has released something; its token."""
    with served(Service(folder, settings=settings)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", OFFERS).status_code == 201
        asked_on(admin, "before", 45)
        assert admin.get("/v1/policies/offers/policy").status_code == 200  # it is written down
        return admin.token or ""


def asked_on(admin: Caller, name: str, count: int) -> dict[str, object]:
    answers = [admin.decide(f"{name}-{number}") for number in range(count)]
    assert {one.status_code for one in answers} == {200}
    found: dict[str, object] = answers[-1].json()
    return found


def test_a_copy_reads_and_no_more(folder: Path, tmp_path: Path) -> None:
    token = begun(folder, Settings())
    with served(Service(folder), token) as admin:
        text = admin.get("/v1/policies/offers/policy").text
        statement = admin.get("/v1/policies/offers/guarantee").json()["statement"]
        last = asked_on(admin, "while", 3)
        back_up(folder, tmp_path / "copy")  # while it serves
        asked_on(admin, "after", 1)
    with pytest.raises(StateError, match="already"):
        back_up(folder, tmp_path / "copy")
    with served(Service(tmp_path / "copy"), token) as admin:
        assert admin.get("/v1/policies/offers/policy").text == text
        assert admin.get("/v1/policies/offers/guarantee").json()["statement"] == statement
        assert admin.get("/v1/populations/customers").status_code == 200
        assert admin.get(f"/v1/policies/offers/decisions/{last['id']}").json() == {"status": "pending"}
        for reply in (
            admin.decide("x"),
            admin.post("/v1/policies", {**OFFERS, "name": "more"}),
            admin("PATCH", "/v1/policies/offers", {"status": "paused"}, If_Match="*"),
            admin.post("/v1/tokens", {"label": "x", "scopes": ["read"]}),
            admin.post("/v1/local/tips/reports"),
            admin.get("/v1/local/tips/policy"),
        ):
            assert (reply.status_code, reply.json()["type"]) == (503, "urn:dpbandits:read-only")


def test_adopted_without_a_witness_policies_are_retired_and_populations_closed(
    folder: Path, tmp_path: Path
) -> None:
    token = begun(folder, Settings())
    back_up(folder, tmp_path / "copy")
    assert adopt(tmp_path / "copy", settings=Settings()) is False
    with served(Service(tmp_path / "copy"), token) as admin:
        assert admin.decide("x").json()["type"] == "urn:dpbandits:conflict"
        assert admin.post("/v1/policies", {**OFFERS, "name": "more"}).status_code == 409
        assert admin.get("/v1/policies/offers/policy").status_code == 200
        assert admin.post("/v1/populations", {**CUSTOMERS, "name": "others"}).status_code == 201
        fresh = {**OFFERS, "name": "more", "population": "others"}
        assert admin.post("/v1/policies", fresh).status_code == 201
    with pytest.raises(MissingState):
        adopt(tmp_path / "copy", settings=Settings())


def test_what_is_due_in_a_closed_copy_is_not_released_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folding, "turn", lambda _: 0)  # nobody has released it yet
    offers = {
        **OFFERS,
        "tuning": {"blocks": [30, 370], "lag": 0},
        "settings": {"wait_seconds": 3600, "default_reward": 0.5},
    }
    with served(Service(folder)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", offers).status_code == 201
        last, token = asked_on(admin, "before", 30), admin.token
    back_up(folder, tmp_path / "copy")
    assert adopt(tmp_path / "copy", settings=Settings()) is False
    monkeypatch.undo()
    copy = Service(tmp_path / "copy")
    with served(copy, token) as admin:
        assert admin.reward(str(last["id"]), 1).json() == {"outcome": "late"}
        copy.tick().result()
        folding(copy).turn()
        assert admin.get("/v1/policies/offers/policy").headers["etag"].endswith('-0"')
        assert admin.get("/v1/policies/offers/releases").json() == {"releases": []}
    original = Service(folder)
    with served(original, token) as admin:  # there it is
        while not admin.get("/v1/policies/offers/policy").headers["etag"].endswith('-1"'):
            folding(original).turn()
        assert len(admin.get("/v1/policies/offers/releases").json()["releases"]) == 1


def test_with_somebodys_word_it_goes_on(folder: Path, tmp_path: Path) -> None:
    token = begun(folder, Settings())
    back_up(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    assert adopt(tmp_path / "copy", settings=Settings(), nothing_since=True) is True
    with served(Service(tmp_path / "copy"), token) as admin:
        assert asked_on(admin, "after", 3)["fallback"] is False


def test_an_id_of_the_original_is_none_of_an_adopted_copy(folder: Path, tmp_path: Path) -> None:
    offers = {**OFFERS, "settings": {"wait_seconds": None}}
    with served(Service(folder)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", offers).status_code == 201
        before, token = asked_on(admin, "before", 1), admin.token
    for name in ("copy", "another"):
        back_up(folder, tmp_path / name)
        assert adopt(tmp_path / name, settings=Settings(), nothing_since=True)
    given: dict[str, str] = {}
    for where in (folder, tmp_path / "copy", tmp_path / "another"):
        with served(Service(where), token) as admin:
            own = str(asked_on(admin, f"at {where.name}", 1)["id"])
            assert admin.decide(f"at {where.name}-0").json()["id"] == own
            assert {admin.reward(one, 1).status_code for one in given} <= {404}
            assert admin.get(f"/v1/policies/offers/decisions/{own}").json() == {"status": "pending"}
            assert admin.reward(str(before["id"]), 1).json() == {"outcome": "counted"}
        given[own] = where.name
    with served(Service(tmp_path / "copy"), token) as admin:  # and after another start
        assert [admin.reward(one, 1).status_code for one in given] == [404, 200, 404]
    back_up(tmp_path / "copy", tmp_path / "later")
    assert adopt(tmp_path / "later", settings=Settings(), nothing_since=True)
    with served(Service(tmp_path / "later"), token) as admin:
        asked_on(admin, "later", 1)
        assert [admin.reward(one, 1).status_code for one in given] == [404, 200, 404]
        assert admin.reward(str(before["id"]), 1).json() == {"outcome": "duplicate"}


def test_a_witness_that_never_saw_the_original_knows_nothing_of_it(folder: Path, tmp_path: Path) -> None:
    begun(folder, Settings())
    back_up(folder, tmp_path / "copy")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    assert adopt(tmp_path / "copy", settings=Settings(witness=str(tmp_path / "elsewhere"))) is False


@pytest.mark.parametrize("went_on", [True, False])
def test_a_witness_knows_whether_the_original_went_on(folder: Path, tmp_path: Path, went_on: bool) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    settings = Settings(witness=str(tmp_path / "elsewhere"))
    token = begun(folder, settings)
    back_up(folder, tmp_path / "copy")
    if went_on:
        with served(Service(folder, settings=settings), token) as admin:
            asked_on(admin, "since", 5)
        with pytest.raises(ForkedState):
            adopt(tmp_path / "copy", settings=settings)
        with pytest.raises(ForkedState):
            Service(tmp_path / "copy", settings=settings)
    else:
        assert adopt(tmp_path / "copy", settings=settings) is True
        with served(Service(tmp_path / "copy", settings=settings), token) as admin:
            asked_on(admin, "after", 5)
        with pytest.raises(ForkedState):
            Service(folder, settings=settings)
