"""The device in a browser: tabs, reloads, the clock, a server that goes back. One report a choice, ever."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from browsing import CHROMIUM
from dpbandits.local import Server, Spec
from dpbandits.service.surveys import unpacked_reports
from js.driver import JS

playwright = pytest.importorskip("playwright.sync_api")
if not CHROMIUM.exists():
    pytest.skip("there is no Chromium", allow_module_level=True)

PAGE = b"""<!doctype html><title>shop</title><script type="module">
import { openDevice } from "/src/index.js";
const options = { url: "/v1/local/tips", epsilon: 1, budget: 40 };
window.begun = openDevice(options).then((one) => (window.device = one));
</script>"""
SPEC = Spec(contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1))
DAY = 86_400_000


class Shop:
    """A site with a local policy; what it answers can be changed."""

    def __init__(self) -> None:
        self.server = Server(SPEC)
        self.versions = [self.server.publish()]
        self.served = self.versions[0]
        self.received: list[bytes] = []
        self.deaf = False
        shop = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # a body does not wait 40 ms for its headers

            def do_GET(self) -> None:
                if self.path.endswith("/policy"):
                    text = f'{{"spec":{SPEC.to_json()},"published":{shop.served.to_json(SPEC)}}}'
                    self.answer(text.encode(), "application/json")
                elif self.path.startswith("/src/"):
                    script = (JS / "src" / Path(self.path).name).read_bytes()
                    self.answer(script, "text/javascript")
                else:
                    self.answer(PAGE, "text/html")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                shop.received.extend(unpacked_reports(body))
                if not shop.deaf:
                    self.answer(b"{}", "application/json")

            def answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    yield found
    found.http.shutdown()
    found.http.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])


def tab(context: Any, shop: Shop) -> Any:
    page = context.new_page()
    page.goto(shop.url)
    page.evaluate("begun")
    return page


def state(page: Any) -> tuple[float, int, Any]:
    """Epsilon spent, reports that wait, and the open choice."""
    found = page.evaluate("Promise.all([device.spent(), device.unsent(), device.current()])")
    return found[0], len(found[1]), found[2]


def distinct(shop: Shop) -> int:
    """Reports that count: the server drops what comes twice."""
    tally = shop.server.absorb(shop.received)
    assert tally.accepted + tally.repeated == len(shop.received)
    return int(tally.accepted)


CHOOSE = "device.choose({ age: 44 })"


def test_two_tabs_report_a_choice_once(browser: Any, shop: Shop) -> None:
    context = browser.new_context()
    left, right = tab(context, shop), tab(context, shop)
    for round_ in range(5):
        choice = left.evaluate(CHOOSE)
        assert right.evaluate("device.current()") == choice
        asked = f"Promise.all([1, 2, 3].map(() => device.report({choice['id']}, 1)))"
        left.evaluate(f"void (window.mine = {asked})")
        made = right.evaluate(asked) + left.evaluate("mine")
        assert sorted(made) == [False] * 5 + [True]
        assert state(left) == state(right) == (round_ + 1, round_ + 1, None)
    right.evaluate("void (window.sent = device.send({ early: true }))")
    assert left.evaluate("device.send({ early: true })") + right.evaluate("sent") == 5
    assert distinct(shop) == len(shop.received) == 5
    context.close()


def test_reloads_in_the_middle_lose_nothing_and_repeat_nothing(browser: Any, shop: Shop) -> None:
    """A choice, its report and its sending are begun and the page is reloaded at once, again and again."""
    context = browser.new_context()
    page = tab(context, shop)
    shop.deaf = True  # and no answer comes to what is sent
    steps = ["device.report(device.last.id, 1)", CHOOSE, "device.send({ early: true })"]
    for work in 4 * steps:
        open_choice = page.evaluate("device.current()") or page.evaluate(CHOOSE)
        page.evaluate("(one) => void (device.last = one)", open_choice)
        page.evaluate(f"void {work}.catch(() => 0)")
        page.reload()
        page.evaluate("begun")
    shop.deaf = False
    spent, waiting, choice = state(page)
    assert waiting == spent  # every charge has its report, and nothing was confirmed
    last = page.evaluate(CHOOSE)
    assert last["id"] == spent + (choice is not None) + 1  # every choice is over or open, none is lost
    assert page.evaluate(f"device.report({last['id']}, 0)")
    assert page.evaluate("device.send({ early: true })") == last["id"]
    assert distinct(shop) == last["id"] == state(page)[0]
    context.close()


def test_the_clock_moves_reports_and_never_doubles_them(browser: Any, shop: Shop) -> None:
    context = browser.new_context()
    page = tab(context, shop)
    page.clock.install()
    start = page.evaluate("Date.now()")
    choice = page.evaluate(CHOOSE)
    assert page.evaluate("device.send()") == 0
    page.clock.set_system_time(start + 2 * DAY)  # forward: the deadline is there, without a reward
    assert page.evaluate("device.send()") == 1
    assert page.evaluate(f"device.report({choice['id']}, 1)") is False
    second = page.evaluate(CHOOSE)
    page.clock.set_system_time(start - 9 * DAY)  # back, to before the choice
    assert page.evaluate(f"device.report({second['id']}, 1)") is True
    assert page.evaluate("device.send()") == 1
    page.clock.set_system_time(start + DAY)
    assert page.evaluate("device.send()") == 0
    assert distinct(shop) == len(shop.received) == state(page)[0] == 2
    context.close()


def test_a_retired_version_that_is_served_again_is_refused(browser: Any, shop: Shop) -> None:
    context = browser.new_context()
    page = tab(context, shop)
    first = page.evaluate(CHOOSE)
    honest = [dpb.local.Client(SPEC) for _ in range(200)]
    for one in honest:
        one.choose(shop.versions[0], {"age": 30})
    shop.server.absorb([one.report(1.0) for one in honest])
    shop.versions.append(shop.server.publish())
    assert shop.versions[1].version > shop.versions[0].version
    shop.served = shop.versions[1]
    page.evaluate("device.refresh()")
    shop.served = shop.versions[0]
    code = "{}.then(() => 'taken', (error) => error.code)"
    assert page.evaluate(code.format("device.refresh()")) == "retired"
    page.reload()
    assert page.evaluate(code.format("begun")) == "retired"
    shop.served = shop.versions[1]
    page.reload()
    page.evaluate("begun")
    assert page.evaluate("device.current()") == first  # answers the version that it was made by
    assert page.evaluate(f"device.report({first['id']}, 1)") is True
    assert page.evaluate(f"device.report({first['id']}, 0)") is False
    assert page.evaluate("device.send({ early: true })") == 1
    [report] = shop.received
    assert int.from_bytes(report[5:9], "little") == shop.versions[0].version
    assert distinct(shop) == 1
    context.close()


def test_cleared_storage_is_the_exception_and_is_said(browser: Any, shop: Shop) -> None:
    context = browser.new_context()
    page = tab(context, shop)
    page.evaluate(f"{CHOOSE}.then(({{ id }}) => device.report(id, 1))")
    assert state(page)[0] == 1
    said = 'import("/src/statement.js").then(({ statement }) => statement(device, 40))'
    assert "Clearing the site's storage" in page.evaluate(said)
    other = browser.new_context()
    assert state(tab(other, shop)) == (0, 0, None)
    other.close()
    context.close()
