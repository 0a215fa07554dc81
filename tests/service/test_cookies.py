"""Cookies of the desk, forms that other sites send, and what is said of HTTPS."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service.conftest import Caller, served
from service.test_desk import login, page

TLS = Settings(behind_tls=True, hsts_seconds=31536000)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Caller]:
    with served(Service(tmp_path / "tls", settings=TLS)) as caller:
        yield caller


def field_and_cookie(caller: Caller) -> tuple[str, str]:
    form = page(caller, "/")
    [(name, cookie)] = form.cookies.items()
    return re.findall('name="form" value="(.*)"', form.text)[0], f"{name}={cookie}"


def sent(caller: Caller, data: dict[str, str], cookie: str = "") -> Any:
    headers = {"Cookie": cookie} if cookie else {}
    return page(caller, "/login", method="POST", data=data, headers=headers)


def test_over_https_cookies_are_this_hosts_own(secure: Caller) -> None:
    form, reply = page(secure, "/"), login(secure, str(secure.token))
    assert reply.status_code == 303
    for one, name in ((form, "__Host-dpbandits_form"), (reply, "__Host-dpbandits_desk")):
        parts = one.headers["set-cookie"].lower().split("; ")
        assert parts[0].startswith(f"{name.lower()}=")
        assert {"secure", "httponly", "path=/", "samesite=strict"} <= {*parts}
        assert not any(part.startswith("domain") for part in parts)
    cookie = reply.cookies["__Host-dpbandits_desk"]
    held = {"Cookie": f"__Host-dpbandits_desk={cookie}"}
    assert page(secure, "/", headers=held).status_code == 200
    assert page(secure, "/", headers={"Cookie": f"dpbandits_desk={cookie}"}).status_code == 401
    gone = page(secure, "/logout", method="POST", headers=held)
    assert {"secure", "path=/", "max-age=0"} <= {*gone.headers["set-cookie"].lower().split("; ")}
    assert page(secure, "/", headers=held).status_code == 401


def test_https_alone_is_asked_for_where_the_setting_says_so(secure: Caller, admin: Caller) -> None:
    for path in ("/", "/v1/health", "/v1/policies", "/nowhere"):
        assert secure.get(path).headers["strict-transport-security"] == "max-age=31536000"
        assert "strict-transport-security" not in admin.get(path).headers
    for wrong in ({"hsts_seconds": -1}, {"hsts_seconds": 0.5}, {"behind_tls": "yes"}):
        with pytest.raises(InvalidParameter):
            Settings(**wrong)  # type: ignore[arg-type]
    assert Settings.read(environ={"DPBANDITS_BEHIND_TLS": "true"}).behind_tls


def test_a_form_of_another_site_logs_nobody_in(admin: Caller, tmp_path: Path) -> None:
    """No header says where it came from, as over plain HTTP; the token is a valid one, the attacker's."""
    field, cookie = field_and_cookie(admin)
    other_field, other_cookie = field_and_cookie(admin)
    token = {"token": str(admin.token)}
    with served(Service(tmp_path / "elsewhere")) as theirs:
        foreign, _ = field_and_cookie(theirs)
    forged = [
        ({}, ""),
        ({}, cookie),
        ({"form": field}, ""),
        ({"form": field}, other_cookie),
        ({"form": other_field}, cookie),
        ({"form": foreign}, cookie),
        ({"form": ""}, "dpbandits_form="),
        ({"form": "é"}, cookie),
    ]
    for form, held in forged:
        reply = sent(admin, {**form, **token}, held)
        assert reply.status_code == 403, (form, held)
        assert "dpbandits_desk" not in reply.cookies
    assert sent(admin, {"form": field, **token}, cookie).status_code == 303
    assert sent(admin, {"form": field, **token}, cookie).status_code == 303  # of another tab


def test_a_cookie_of_the_form_that_is_none_of_ours_is_replaced(admin: Caller) -> None:
    planted = page(admin, "/", headers={"Cookie": "dpbandits_form=planted"})
    assert planted.cookies["dpbandits_form"] != "planted"
    [(_, cookie)] = page(admin, "/").cookies.items()
    again = page(admin, "/", headers={"Cookie": f"dpbandits_form={cookie}"})
    assert again.cookies["dpbandits_form"] == cookie
