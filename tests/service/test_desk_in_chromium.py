"""The desk's pages in a browser, where there is one: keys, contrast, widths, themes, nothing blocked."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import uvicorn

from dpbandits.service.application import application
from dpbandits.service.client import RemotePolicy
from dpbandits.service.core import Service
from service.conftest import AGNES, CUSTOMERS, OFFERS

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
if not CHROMIUM.exists():
    pytest.skip("there is no Chromium", allow_module_level=True)

PAGES = (
    "/",
    "/desk/populations/customers",
    "/desk/policies/offers",
    "/desk/policies/offers/statement",
    "/desk/ledger",
    "/desk/policies/none",
)

CONTRAST = """() => {
  const channel = c => { c /= 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest('.unseen, .skip, title, desc')) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element.closest('svg') ? style.fill : style.color));
    const paper = light(behind(element.closest('svg') || element));
    const found = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    if (found < 4.5) low.push([walker.currentNode.textContent.trim(), found]);
  }
  return low;
}"""

REACHED = "() => [...document.querySelectorAll('a[href], button, input, [tabindex=\"0\"]')].length"

FOCUSED = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return [one.tagName, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, box.width > 0];
}"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and token of a service with releases."""
    service = Service(tmp_path_factory.mktemp("service") / "data")
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(service), log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url, token = f"http://127.0.0.1:{listening.getsockname()[1]}", str(service.first_token)
    for path, body in (("populations", CUSTOMERS), ("policies", OFFERS)):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with urlopen(Request(f"{url}/v1/{path}", json.dumps(body).encode(), headers)):  # noqa: S310
            pass
    policy = RemotePolicy(url, "offers", token=token)
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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_pages_fit_have_contrast_and_break_no_rule(browser: Any, shop: Any, width: int, theme: str) -> None:
    page = logged_in(browser, shop, width, theme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for path in PAGES:
        page.goto(f"{shop[0]}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(CONTRAST) == [], path
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (theme == "dark")
    assert not [text for text in said if "Content Security Policy" in text]


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


def test_a_script_does_not_see_the_cookie(browser: Any, shop: Any) -> None:
    page = logged_in(browser, shop, 1300, "light")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    assert shop[1] not in page.url + page.content()
    page.keyboard.press("Tab")
    page.click("text=Log out")
    assert page.locator("#token").count() == 1
