"""`make demo` in a browser: the bytes and the chance of a lie are the device's own, and the server learns."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from browsing import CHROMIUM, CONTRAST, FOCUSED, REACHED, RULES
from dpbandits.local import Spec
from dpbandits.privacy.reports import mechanism
from dpbandits.service.surveys import unpacked_reports

playwright = pytest.importorskip("playwright.sync_api")
if not CHROMIUM.exists():
    pytest.skip("there is no Chromium", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
SERVE = ROOT / "examples" / "demo" / "serve.py"
RECORDED = ROOT / "docs" / "_static" / "demo" / "where.json"
WORD = 1 << 64
MINUS = "\N{MINUS SIGN}"
EPSILON = 2.0
RECTANGLES = """all => all.map(one => [
  one.getAttribute('class'), ...['x', 'y', 'width'].map(name => Number(one.getAttribute(name)))
])"""
SIDE = 37  # cells of the grid along each of two ranges


class Demo(NamedTuple):
    url: str
    token: str  # of the desk


class Page(NamedTuple):
    page: Any
    requests: list[Any]  # all that left it

    def said(self, where: str) -> str:
        return str(self.page.inner_text(f"#{where}"))

    def posted(self) -> list[bytes]:
        return [one.post_data_buffer for one in self.requests if one.method == "POST"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """What `make demo` runs; it leaves nothing behind."""
    folder = tmp_path_factory.mktemp("demo")
    there = os.environ | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    there.pop("DISPLAY", None)
    there.pop("WAYLAND_DISPLAY", None)
    command = [sys.executable, str(SERVE), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=there) as running:
        assert running.stdout is not None
        url, desk = running.stdout.readline().strip(), running.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/demo/", url)
        assert [path.name.startswith("dpbandits-demo-") for path in folder.iterdir()] == [True]
        yield Demo(url, desk.rpartition(" ")[2])
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])


@pytest.fixture
def visit(browser: Any, demo: Demo) -> Iterator[Page]:
    """A visitor who was never here before."""
    context = browser.new_context(viewport={"width": 1300, "height": 800})
    page, requests = context.new_page(), []
    page.on("request", lambda one: requests.append(one))  # noqa: PLW0108 - it is given a name of its own
    page.goto(demo.url)
    page.wait_for_selector("body[data-ready]")
    yield Page(page, requests)
    context.close()


def published(visit: Page) -> tuple[Spec, Any]:
    """The contract and the newest version, as this page's device was given them."""
    asked = [one for one in visit.requests if one.url.endswith("/policy")][-1]
    with urlopen(Request(asked.url, headers={"Authorization": asked.headers["authorization"]})) as reply:  # noqa: S310
        spec, version = re.fullmatch(r'\{"spec":(.*?),"published":(.*)\}', reply.read().decode()).groups()
    contract = Spec.from_json(spec)
    return contract, contract.protocol.publishes.from_json(version, contract)


def places(spec: Spec, version: Any, contexts: Any) -> Any:
    """Cells of the version's grid that contexts lie in."""
    return spec.protocol.layout.locate(version, spec.protocol.points(contexts))


def test_a_report_is_shown_byte_for_byte_with_the_exact_chance_of_a_lie(visit: Page) -> None:
    """By keys alone; what leaves the page is what it shows, and no more. The budget is kept."""
    page = visit.page
    spec, version = published(visit)
    keep = mechanism("krr", n_cells=spec.protocol.grids.n_parts, epsilon=EPSILON).rates[0] * WORD
    assert spec.protocol.grids.n_parts == 4
    page.focus("#sleep")
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#good:focus")
    given = version.recommend(spec, {"age": 34, "sleep": 10.0})
    assert visit.said("arm") == given
    assert visit.posted() == []
    page.keyboard.press("Enter")
    page.wait_for_selector("#made:not([hidden])")
    assert visit.posted() == []  # it waits for whoever looks at it
    shown = bytes.fromhex("".join(page.locator("#bytes dt").all_inner_texts()))
    page.click("#send")
    page.wait_for_selector("text=The server has it")
    [posted] = visit.posted()
    assert unpacked_reports(posted) == [shown]
    assert shown[:9] == b"\xd1" + spec.digest + version.version.to_bytes(4, "little")
    [lie] = re.findall(r"^([\d,]+) / 2\^64 = 48\.6480\d+%$", visit.said("lie"))
    assert int(lie.replace(",", "")) == WORD - keep
    assert visit.said("percent") == "48.65%"
    [place] = places(spec, version, {"age": [34], "sleep": [10.0]})
    plus = not bool(version.turned[place])  # it helped
    honest = f"part {version.parts[place] + 1} of 4, {'+' if plus else MINUS}"
    assert honest == visit.said("this-one").split("“")[1].split("”")[0]
    code = shown[-1]
    says = f"part {code // 2 + 1} of 4, {('+', MINUS)[code % 2]}"
    assert says in page.locator("#bytes dd").all_inner_texts()[-1]
    assert ("lies" in visit.said("this-one")) == (says != honest)
    assert visit.said("spent") == "2 of 10"
    for spent in ("4", "6", "8", "10"):
        page.click("#ask")
        page.click("#bad")
        page.wait_for_selector(f"#spent:text-is('{spent} of 10')")
    page.click("#ask")
    page.wait_for_selector("#refused:not([hidden])")
    assert "spent what you allowed it" in visit.said("refused")
    assert len(visit.posted()) == 1
    path = {one.url.rpartition("/")[2] for one in visit.requests if "/v1/" in one.url}
    assert path == {"policy", "reports"}


def test_what_is_charged_is_shown_and_what_waits_can_be_sent(browser: Any, demo: Demo) -> None:
    """Clicks in a row, a reload, another tab, a server that is gone: the page says what its device did."""
    context, said = browser.new_context(viewport={"width": 320, "height": 700}), []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.goto(demo.url)
    page.wait_for_selector("body[data-ready]")
    page.dblclick("#ask")
    page.wait_for_selector("#good:focus")
    assert page.is_disabled("#ask")  # asking anew would end this choice, and charge for it
    assert page.inner_text("#spent") == "0 of 10"
    page.click("#bad")
    page.wait_for_selector("#made-head:focus")
    page.wait_for_selector("#spent:text-is('2 of 10')")
    shown = page.inner_text("#bytes")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.inner_text("#bytes") == shown
    assert [page.inner_text(f"#{name}") for name in ("spent", "waiting", "send")] == [
        "2 of 10",
        "1",
        "Send it now",
    ]
    page.click("#ask")
    page.wait_for_selector("#good:focus")
    other = context.new_page()
    other.goto(demo.url)
    other.wait_for_selector("body[data-ready]")
    other.click("#good")
    other.wait_for_selector("#spent:text-is('4 of 10')")
    page.click("#good")  # this tab has not heard of that
    page.wait_for_selector("text=another tab answered it")
    page.wait_for_selector("#asked", state="hidden")
    assert [page.inner_text(f"#{name}") for name in ("spent", "waiting")] == ["4 of 10", "2"]
    other.click("#ask")
    other.wait_for_selector("#good:focus")
    page.click("#ask")
    page.wait_for_selector("text=another tab has asked")
    page.wait_for_selector("#good")
    other.click("#bad")
    other.wait_for_selector("#spent:text-is('6 of 10')")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_selector("#spent:text-is('6 of 10')")
    page.click("#send:text-is('Send all 3 now')")
    page.wait_for_selector("#sent:focus:has-text('it counts 3 answers')")
    page.wait_for_selector("#waiting:text-is('0')")
    assert not page.is_visible("#send")
    assert said == []
    page.route("**/v1/**", lambda route: route.abort())
    page.click("#run")
    page.wait_for_selector("#progress:has-text('the server is gone')")
    assert page.inner_text("#run") == "Try again"
    context.close()


def test_pages_report_the_map_is_what_is_published_and_the_desk_shows_it(visit: Page, demo: Demo) -> None:
    page = visit.page
    before = int(visit.said("version"))
    page.select_option("#pages", "50")
    page.click("#run")
    page.wait_for_selector("#run:text-is('Let more report')", timeout=60_000)
    assert visit.said("refused") == ""
    [posted] = visit.posted()
    reports = unpacked_reports(posted)
    assert len({report[9:17] for report in reports}) == 50  # a nonce each
    spec, version = published(visit)
    assert {int.from_bytes(report[5:9], "little") for report in reports} == {before}
    assert visit.said("version") == str(version.version) == str(before + 1)
    shapes = page.eval_on_selector_all("#arms rect", RECTANGLES)
    left, top, size = min(one[1] for one in shapes), min(one[2] for one in shapes), 300 / SIDE
    drawn = np.full((SIDE, SIDE), -1)
    for name, x, y, width in shapes:
        column, row, end = round((x - left) / size), round((y - top) / size), round((x - left + width) / size)
        drawn[SIDE - 1 - row, column:end] = int(name.removeprefix("arm-"))
    middle = (np.arange(SIDE) + 0.5) / SIDE
    sleep, age = np.meshgrid(3 + 7 * middle, 18 + 72 * middle, indexing="ij")
    at = places(spec, version, {"age": age.ravel(), "sleep": sleep.ravel()})
    np.testing.assert_array_equal(drawn, version.arms[at].reshape(SIDE, SIDE))
    name = page.get_attribute("footer a", "href").rpartition("/")[2]
    page.click("footer a")
    page.fill("#token", demo.token)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What was promised")
    page.click(f"text={name}")
    page.wait_for_selector(f"h1:text-is('Local policy {name}')")
    assert "which every device is given" in page.inner_text("figcaption")
    page.click("text=The statement to sign")
    page.wait_for_selector("text=local differential privacy")


def test_the_page_fits_has_contrast_and_breaks_no_rule(visit: Page) -> None:
    page, said = visit.page, []
    page.on("console", lambda message: said.append(message.text))
    page.click("#ask")
    page.click("#good")
    page.wait_for_selector("#made:not([hidden])")
    page.click("summary")
    assert "2-locally differentially private" in visit.said("statement")
    for width in (1300, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CONTRAST) == []
            assert page.evaluate(RULES) == []
    page.reload()
    page.wait_for_selector("body[data-ready]")
    for _ in range(page.evaluate(REACHED)):
        page.keyboard.press("Tab")
        tag, outlined, there = page.evaluate(FOCUSED)
        assert (tag != "BODY", outlined, there) == (True, True, True), tag
    page.click("#ask")
    page.wait_for_selector("#good:focus")
    page.reload()
    page.click("#good")  # the choice is still open, and of its context nothing is kept
    page.wait_for_selector("#made:not([hidden])")
    assert "this page has forgotten" in visit.said("this-one")
    assert not [text for text in said if "Content Security Policy" in text]


def test_without_a_server_it_plays_what_was_recorded_and_sends_nothing(browser: Any, demo: Demo) -> None:
    """As the docs have it; what they say of the recording is what it shows."""
    told = json.loads(RECORDED.read_text())
    versions = told["recorded"]["versions"]
    assert [json.loads(one)["version"] for one in versions] == list(range(41))
    told["recorded"]["versions"] = [versions[0], versions[-1]]
    page, asked = browser.new_page(), []
    page.route("**/where.json", lambda route: route.fulfill(json=told))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(demo.url)
    page.wait_for_selector("body[data-ready]")
    page.click("#ask")
    page.click("#good")
    page.wait_for_selector("#made:not([hidden])")
    assert not page.is_visible("#send")
    page.click("#run")
    page.wait_for_selector("#run:text-is('Play again')", timeout=60_000)
    assert page.inner_text("#version") == "40"
    best, chance = page.inner_text("#bounds").split(", ")
    says = (RECORDED.parents[2] / "guides" / "devices.md").read_text().replace("\n", " ")
    assert f"help {page.inner_text('#value')} of people" in says
    assert f"the best arms would help {best}, random arms {chance}" in says
    assert not [url for url in asked if "/v1/" in url]
    page.close()


def status(url: str, **headers: str) -> int:
    try:
        with urlopen(Request(url, headers=headers)) as reply:  # noqa: S310
            return int(reply.status)
    except HTTPError as error:
        error.close()
        return error.code


def test_no_other_name_and_no_other_file_is_answered(demo: Demo) -> None:
    """A site that gives this address a name of its own reads nothing; nor is a folder served."""
    assert status(demo.url) == status(f"{demo.url}where.json") == 200
    assert status(f"{demo.url}where.json", Host="shop.example") == 400
    assert status(f"{demo.url.replace('/demo/', '/v1/health')}", Host="shop.example") == 400
    for path in ("serve.py", "js/package.json", "../serve.py", "%2e%2e/serve.py", "js/src/../../serve.py"):
        assert status(demo.url + path) in (401, 404)
    assert status(demo.url.replace("/demo/", "/favicon.ico")) == 204
    with urlopen(demo.url) as page:  # noqa: S310
        assert page.headers["Content-Security-Policy"].startswith(
            "default-src 'none'; style-src 'self'; script-src 'self'"
        )


def test_a_port_that_is_none_is_told_without_a_traceback() -> None:
    command = [sys.executable, str(SERVE), "--port", "99999"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "0-65535" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_the_page_holds_only_fetches_and_reports(demo: Demo) -> None:
    with urlopen(f"{demo.url}where.json") as reply:  # noqa: S310
        where = json.load(reply)
    root, bearer = demo.url.removesuffix("/demo/"), f"Bearer {where['token']}"
    assert status(f"{root}{where['url']}/policy", Authorization=bearer) == 200
    for path in ("/v1/populations", "/v1/policies", "/v1/events", "/metrics"):
        assert status(root + path, Authorization=bearer) == 403
