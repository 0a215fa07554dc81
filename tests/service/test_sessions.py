"""Sessions of the desk: one login is known to every worker, and one log-out ends it at every worker."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dpbandits.service.core import Service
from dpbandits.service.desk.sessions import MOST, SECONDS
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, OFFERS, Caller, served
from service.test_desk import cookie_of, login, page

Workers = tuple[Caller, Caller]


@pytest.fixture
def workers(folder: Path) -> Iterator[Workers]:
    """Two workers of one database."""
    settings = Settings(database=databases.any_kind())
    with ExitStack() as all_of_them:
        one = all_of_them.enter_context(served(Service(folder, settings=settings)))
        assert one.post("/v1/populations", CUSTOMERS).status_code == 201
        yield one, all_of_them.enter_context(served(Service(folder, settings=settings), one.token))


def test_twenty_pages_of_twenty_are_shown_by_either_worker_after_one_login(workers: Workers) -> None:
    for at in workers:
        cookie = cookie_of(at)
        pages = [page(workers[number % 2], "/", cookie) for number in range(20)]
        assert [one.status_code for one in pages] == [200] * 20
        assert all("customers" in one.text for one in pages)


def test_a_log_out_at_one_worker_ends_the_session_at_both(workers: Workers) -> None:
    ended, other = cookie_of(workers[0]), cookie_of(workers[0])
    assert page(workers[1], "/logout", ended, method="POST").status_code == 303
    assert [page(one, "/", ended).status_code for one in workers] == [401, 401]
    assert [page(one, "/", other).status_code for one in workers] == [200, 200]


def test_a_session_ends_with_its_token_at_both_workers(workers: Workers) -> None:
    made = workers[0].post("/v1/tokens", {"label": "officer", "scopes": ["read"]}).json()
    cookie = str(login(workers[0], made["token"]).cookies["dpbandits_desk"])
    assert page(workers[1], "/", cookie).status_code == 200
    assert workers[0]("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert [page(one, "/", cookie).status_code for one in workers] == [401, 401]


def test_a_session_outlives_a_restart_and_ends_after_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Service(folder)) as caller:
        token, cookie = str(caller.token), cookie_of(caller)
    again = Service(folder)
    with served(again, token) as caller:
        assert page(caller, "/", cookie).status_code == 200
        later = again.now() + SECONDS
        monkeypatch.setattr(again, "now", lambda: later)
        assert page(caller, "/", cookie).status_code == 401
        assert cookie_of(caller)
        assert again.read(lambda reads: reads.rows("SELECT COUNT(*) FROM sessions")) == [(1,)]


def test_a_session_ends_with_the_text_that_began_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds a text that was replaced logs in while it is valid, and is out when it is not."""
    with served(service) as caller:
        made = caller.post("/v1/tokens", {"label": "officer", "scopes": ["read"]}).json()
        new = caller.post(f"/v1/tokens/{made['id']}:rotate", {"overlap_seconds": 100}).json()["token"]
        old, fresh = (str(login(caller, one).cookies["dpbandits_desk"]) for one in (made["token"], new))
        assert [page(caller, "/", one).status_code for one in (old, fresh)] == [200, 200]
        later = service.now() + 101
        monkeypatch.setattr(service, "now", lambda: later)
        assert [page(caller, "/", one).status_code for one in (old, fresh)] == [401, 200]


def test_a_page_of_a_population_shows_the_charges_that_the_token_reaches(shop: Caller) -> None:
    assert shop.post("/v1/policies", {**OFFERS, "name": "of-others"}).status_code == 201
    limits = {"label": "x", "scopes": ["read"], "populations": ["customers"]}
    seen = {}
    for name, more in (("both", {}), ("one", {"policies": ["offers"]}), ("none", {"policies": ["x"]})):
        token = shop.post("/v1/tokens", {**limits, **more}).json()["token"]
        cookie = str(login(shop, token).cookies["dpbandits_desk"])
        reply = page(shop, "/desk/populations/customers", cookie)
        assert reply.status_code == 200
        seen[name] = [one for one in ("offers", "of-others", "this token reaches") if one in reply.text]
    assert seen == {"both": ["offers", "of-others"], "one": ["offers"], "none": ["this token reaches"]}


def test_a_token_logs_in_so_often_in_an_hour_and_others_are_not_touched(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(service) as caller:
        officer, busy = cookie_of(caller), str(caller.with_scopes("read").token)
        replies = [login(caller, busy) for _ in range(MOST + 1)]
        assert [one.status_code for one in replies] == [*[303] * MOST, 429]
        assert "too often" in replies[-1].text
        cookies = [officer, cookie_of(caller), str(replies[0].cookies["dpbandits_desk"])]
        assert [page(caller, "/", cookie).status_code for cookie in cookies] == [200] * 3
        later = service.now() + 3601
        monkeypatch.setattr(service, "now", lambda: later)
        assert login(caller, busy).status_code == 303


def test_a_cookie_is_not_in_the_store(folder: Path, service: Service) -> None:
    with served(service) as caller:
        cookie = cookie_of(caller).encode()
        found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert found
    assert not any(cookie in one for one in found)
