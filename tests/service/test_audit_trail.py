"""Events say which token acted: over HTTP, at the desk, and by commands on the service's machine."""

from pathlib import Path
from typing import Any

from dpbandits.service.core import Service
from service.conftest import CUSTOMERS, OFFERS, Caller, served
from service.test_desk import login, page
from service.test_local import ASKED as TIPS
from service.test_local import PEOPLE as PEOPLE_OF_DEVICES
from service.test_outsourced import AT, DOSES, PATIENTS, curator_of, release_of


def token_id(caller: Caller) -> str:
    return str(caller.token).split("_")[1]


def events(admin: Caller) -> list[tuple[str, str, str]]:
    """What, about what, and the token, the first event first."""
    found = admin.get("/v1/events").json()["events"]
    return [(one["what"], one["subject"], one["token"]) for one in reversed(found)]


def test_everything_that_was_done_names_the_token_that_did_it_once(admin: Caller, tmp_path: Path) -> None:
    other, curator = admin.with_scopes("admin", "read"), admin.with_scopes("curate")
    mine, known = token_id(other), len(events(admin))
    release = release_of(curator_of(), tmp_path / "release")
    for _ in range(2):  # what is asked again changes nothing, and is no event
        for body in (CUSTOMERS, PATIENTS, PEOPLE_OF_DEVICES):
            assert other.post("/v1/populations", body).status_code == 201
        assert other.post("/v1/policies", OFFERS).status_code == 201
        assert other.post("/v1/local", {**TIPS, "name": "x"}).status_code == 201
        assert other.post("/v1/outsourced", DOSES).status_code == 201
        assert curator("PUT", f"{AT}/release", release).status_code == 200
    change: dict[str, Any] = {"status": "paused", "settings": {"fallback": "mail"}}
    assert other("PATCH", "/v1/policies/offers", change, If_Match="*").status_code == 200
    assert other.get("/v1/policies/offers/raw").status_code == 200
    assert other("DELETE", AT).status_code == other("DELETE", AT).status_code == 204
    made = token_id(other.with_scopes("read"))
    assert other.post(f"/v1/tokens/{made}:rotate", {}).status_code == 200
    assert other("DELETE", f"/v1/tokens/{made}").status_code == 204
    assert events(admin)[known:] == [
        *(("population-opened", f"population {one}", mine) for one in ("customers", "patients", "people")),
        ("policy-begun", "policy offers", mine),
        ("local-begun", "local policy x", mine),
        ("exchange-begun", "exchange doses", mine),
        ("release-uploaded", "exchange doses", token_id(curator)),
        ("policy-changed", "policy offers", mine),
        ("raw-exported", "policy offers", mine),
        ("exchange-ended", "exchange doses", mine),
        *((f"token-{what}", f"token {made}", mine) for what in ("made", "rotated", "withdrawn")),
    ]
    told = {one["what"]: one["told"] for one in admin.get("/v1/events").json()["events"]}
    assert told["policy-changed"] == "paused, fallback"
    assert told["token-rotated"] == "the old text ends in 3600 s"


def test_a_refused_action_is_no_event(admin: Caller) -> None:
    before = events(admin)
    assert admin.post("/v1/policies", OFFERS).status_code == 404
    assert admin("PATCH", "/v1/policies/offers", {"status": "paused"}, If_Match="*").status_code == 404
    assert admin("DELETE", "/v1/tokens/none").status_code == 404
    assert events(admin) == before


def test_logins_at_the_desk_are_events_and_its_page_shows_who_acted(service: Service) -> None:
    with served(service) as admin:
        reader = admin.with_scopes("read")
        cookies = [str(login(admin, str(one.token)).cookies["dpbandits_desk"]) for one in (admin, reader)]
        assert page(admin, "/logout", cookies[1], method="POST").status_code == 303
        assert page(admin, "/logout", "a guess", method="POST").status_code == 303
        assert login(admin, "a guess").status_code == 401
        theirs = token_id(reader)
        assert [one for one in events(admin) if one[0].startswith("session")] == [
            ("session-begun", f"token {token_id(admin)}", token_id(admin)),
            ("session-begun", f"token {theirs}", theirs),
            ("session-ended", f"token {theirs}", theirs),
        ]
        shown = page(admin, "/desk/events", cookies[0])
        assert shown.status_code == 200
        assert f"{theirs} (a test&#39;s)" in shown.text
        assert str(admin.token) not in shown.text
        assert 'href="/desk/events"' in page(admin, "/", cookies[0]).text
        again = str(login(admin, str(reader.token)).cookies["dpbandits_desk"])
        assert page(admin, "/desk/events", again).status_code == 403
        assert 'href="/desk/events"' not in page(admin, "/", again).text


def test_what_the_service_does_by_itself_names_no_token(admin: Caller) -> None:
    assert events(admin)[0] == ("token-made", f"token {token_id(admin)}", "")
