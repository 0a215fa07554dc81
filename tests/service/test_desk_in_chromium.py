"""The desk's pages in a browser, where there is one: keys, contrast, widths, themes, nothing blocked."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
import uvicorn

from browsing import CHROMIUM, CONTRAST, FOCUSED, REACHED, RULES
from dpbandits.client import RemotePolicy
from dpbandits.service.application import application
from dpbandits.service.core import Service
from service.conftest import AGNES, CUSTOMERS, OFFERS
from service.test_actions import PRICED
from service.test_desk import APP, DEVICES
from service.test_readout import ASKED, READOUT

playwright = pytest.importorskip("playwright.sync_api")
if not CHROMIUM.exists():
    pytest.skip("there is no Chromium", allow_module_level=True)

READ = ASKED | {"readout": READOUT | {"stop": {"harm": "complaint", "above": 0.02, "then": "control"}}}
PAGES = (
    "/",
    "/desk/populations/customers",
    "/desk/policies/offers",
    "/desk/policies/offers/statement",
    "/desk/policies/prices",
    "/desk/policies/read",
    "/desk/local/app",
    "/desk/local/app/by/1/2",
    "/desk/local/app/statement",
    "/desk/ledger",
    "/desk/events",
    "/desk/policies/none",
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and token of a service with releases."""
    service = Service(tmp_path_factory.mktemp("service") / "data")
    # Named as TCP it sends at once; otherwise the second half of every answer waits 40 ms for the first.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(application(service), log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url, token = f"http://127.0.0.1:{listening.getsockname()[1]}", str(service.first_token)
    begun = (
        ("populations", CUSTOMERS),
        ("policies", OFFERS),
        ("policies", PRICED),
        ("policies", READ),
        ("populations", DEVICES),
        ("local", APP),
    )
    for path, body in begun:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with urlopen(Request(f"{url}/v1/{path}", json.dumps(body).encode(), headers)):  # noqa: S310
            pass
    for name in ("offers", "prices", "read"):
        policy = RemotePolicy(url, name, token=token)
        for number in range(60):
            policy.tell(policy.ask(AGNES, number).id, 1)
        policy.close()
    yield url, token
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])


def logged_in(browser: Any, shop: tuple[str, str], width: int, theme: str) -> Any:
    """With the keyboard alone."""
    url, token = shop
    page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme).new_page()
    page.goto(url)
    page.wait_for_selector("#token:focus")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What was promised")
    return page


def test_pages_fit_have_contrast_and_break_no_rule(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "light")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for path in PAGES:
        page.goto(f"{shop[0]}{path}")
        for width, theme in itertools.product((1300, 390), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=theme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CONTRAST) == [], path
            assert page.evaluate(RULES) == [], path
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
            assert dark == (theme == "dark")
    assert not [text for text in said if "Content Security Policy" in text]


def test_the_rules_find_what_breaks_them(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        "<main><h1>x</h1><h3 id=a>y</h3><p id=a style='color:#999'>pale</p><a href=x></a><input id=b>"
        "<svg><text>z</text></svg><nav></nav><nav></nav><table><tr><th>q</th></tr><tr></tr></table>"
        "<ul><p>no item</p></ul><button style='height:9px'>b</button><p tabindex=3>c</p></main>"
        "<meta name=viewport content='user-scalable=no'>"
    )
    found = {one[0] for one in page.evaluate(RULES)}
    assert found == {
        *(
            "no name",
            "no label",
            "picture without a name",
            "landmark without a name",
            "landmarks of one name",
        ),
        *("ids twice", "headings", "landmarks", "heading of no row", "rows of several widths", "list"),
        *("smaller than 24 pixels", "language or title", "zoom", "order of tabs"),
    }
    assert [text for text, _ in page.evaluate(CONTRAST)] == ["pale"]


def test_keys_reach_everything_and_show_where_they_are(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "light")
    for path in PAGES:
        page.goto(f"{shop[0]}{path}")
        for _ in range(page.evaluate(REACHED)):
            page.keyboard.press("Tab")
            tag, outlined, there = page.evaluate(FOCUSED)
            assert (tag != "BODY", outlined, there) == (True, True, True), (path, tag)
    page.goto(f"{shop[0]}/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"  # skipped to


def test_a_statement_is_printed_in_black_without_what_is_for_the_screen(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "dark")
    page.goto(f"{shop[0]}/desk/policies/offers/statement")
    page.emulate_media(media="print")
    seen = "query => [...document.querySelectorAll(query)].map(one => getComputedStyle(one).display)"
    assert set(page.evaluate(seen, "header, footer, .no-print, .skip")) == {"none"}
    assert "none" not in page.evaluate(seen, ".statement, .sign, .sign p")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate(CONTRAST) == []


def test_a_script_does_not_see_the_cookie(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "light")
    cookies = page.context.cookies()
    assert {one["name"] for one in cookies} == {"dpbandits_desk", "dpbandits_form"}
    assert {(one["httpOnly"], one["sameSite"]) for one in cookies} == {(True, "Strict")}
    assert page.evaluate("document.cookie") == ""
    assert shop[1] not in page.url + page.content()
    page.keyboard.press("Tab")
    page.click("text=Log out")
    assert page.locator("#token").count() == 1


CUT = """() => [...document.querySelectorAll("svg.line text")].filter(one => {
    const [text, picture] = [one, one.ownerSVGElement].map(each => each.getBoundingClientRect());
    return text.left < picture.left - 1 || text.right > picture.right + 1;
}).map(one => one.textContent)"""
"""Texts of pictures that reach beyond them, and so are cut off."""


def test_no_text_of_a_picture_is_cut_off(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "light")
    for path in ("/desk/policies/offers", "/desk/local/app", "/desk/local/app/by/1/2"):
        page.goto(f"{shop[0]}{path}")
        assert page.locator("svg.line text").count() > 5
        for width in (1300, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(CUT) == [], (path, width)
