"""Pages in a browser report to two aggregator processes: tabs, reloads and kills, each version once."""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from aggregators import AGGREGATORS, HOW, INSTALLED, Pair, bundle
from browsing import CHROMIUM
from dpbandits.distributed import Collector, DistributedSpec, DistributedTuning

pytestmark = pytest.mark.skipif(not INSTALLED, reason=HOW)

SPEC = DistributedSpec(
    contexts=dpb.Schema(age=dpb.Range(0, 100), region=dpb.Categories(["north", "south"])),
    arms=["mail", "call"],
    privacy=dpb.DistributedDP(epsilon=1, reports_per_user=2),
    horizon=100,
    tuning=DistributedTuning(cells=4, first=0.1, min_batch=1),
)
PAGE = b"""<!doctype html><title>shop</title><script type="module">
window.opened = () => import("/distributed.js").then(({ openDevice }) =>
  openDevice({ url: "/tips", epsilon: 1, budget: 1, deadline: 60 })).then((one) => (window.device = one));
window.code = (work) => work.then((value) => value, (error) => error.code ?? String(error));
</script>"""
LARGEST = 50_000
"""Largest size of the code of a page, gzipped, in bytes."""

PERMISSIVE = {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT"}


class Shop:
    """A site that publishes the collector's version."""

    def __init__(self, script: bytes) -> None:
        self.policy, self.asked = "", list[str]()
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append(self.path)
                kinds = {
                    "/tips/policy": (shop.policy.encode(), "application/json"),
                    "/distributed.js": (script, "text/javascript"),
                }
                body, kind = kinds.get(self.path, (PAGE, "text/html"))
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Requests are not logged."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def script() -> bytes:
    return bundle()


@pytest.fixture
def shop(script: bytes) -> Iterator[Shop]:
    found = Shop(script)
    yield found
    found.http.shutdown()
    found.http.server_close()


def test_the_code_of_a_page_is_small(script: bytes) -> None:
    assert 20_000 < len(gzip.compress(script, 9)) <= LARGEST


def test_licences_of_what_a_page_installs_are_known() -> None:
    """`@divviup` is MPL-2.0, whose files keep their licence; everything else is permissive."""
    packages = json.loads((AGGREGATORS / "package-lock.json").read_text())["packages"]
    found = {name.removeprefix("node_modules/"): one["license"] for name, one in packages.items()}
    other = {name for name, one in found.items() if not set(re.findall(r"[\w.-]+", one)) & PERMISSIVE}
    assert other == {f"@divviup/{name}" for name in ("common", "dap", "field", "prio3", "vdaf", "xof")}
    assert {found[name] for name in other} == {"MPL-2.0"}


def test_tabs_reloads_and_kills_report_once_and_nothing_is_lost(shop: Shop, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("there is no Chromium")
    with Pair(SPEC, tmp_path, exact=True) as pair, playwright.sync_playwright() as started:
        learner, sums = Collector(SPEC), pair.collector()

        def publish() -> None:
            shop.policy = sums.policy(learner.publish(), helper=pair.addresses["helper"])

        def tab() -> Any:
            page = context.new_page()
            page.goto(shop.url)
            return page

        publish()
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        context = browser.new_context()
        left, right = tab(), tab()
        assert "/distributed.js" not in shop.asked  # it is loaded when a device is opened
        for page in (left, right):
            page.evaluate("opened()")
        person = {"age": 80, "region": "south"}
        cell = int(SPEC.grid.locate(SPEC.points(person))[0])
        choice = left.evaluate("(person) => device.choose(person)", person)
        assert choice["arm"] == learner.publish().recommend(SPEC, person)
        assert right.evaluate("code(device.choose({}))") == "over"
        made = f"device.report({choice['id']}, 1)"
        left.evaluate(f"void (window.mine = Promise.all([{made}, {made}]))")
        both = [*right.evaluate(f"Promise.all([{made}, {made}])"), *left.evaluate("mine")]
        assert sorted(both) == [False] * 3 + [True]
        assert left.evaluate("device.send()") == 0  # its deadline is a minute away
        pair.kill("leader")
        early = "code(device.send({ early: true }))"
        assert left.evaluate(early) == "network"
        left.reload()
        left.evaluate("opened()")
        pair.start("leader")
        publish()
        left.evaluate(f"void (window.sent = {early})")
        assert right.evaluate(early) + left.evaluate("sent") == 1
        other = browser.new_context()  # another person, of whom nothing can be read
        page = other.new_page()
        page.goto(shop.url)
        page.evaluate("opened()")
        silent = page.evaluate("device.choose('nobody')")
        assert (
            page.evaluate(f"device.report({silent['id']}, 1).then(() => device.send({{ early: true }}))") == 1
        )
        found = sums.collect(0, wait=20)
        wanted = np.zeros(SPEC.length, dtype=int)
        wanted[[2 * cell, SPEC.silent]] = 1
        assert (found.reports, found.sums.tolist()) == (2, wanted.tolist())
        learner.absorb(found)
        publish()
        left.evaluate("device.refresh()")
        assert right.evaluate("device.choose({ age: 1, region: 'north' })")["id"] == 2
        assert left.evaluate("device.report(2, 0).then(() => device.send({ early: true }))") == 1
        found = sums.collect(1, wait=20)
        assert (found.reports, found.sums.sum(), found.sums[1]) == (1, 1, 1)
        assert left.evaluate("device.spent()") == pytest.approx(1)
        learner.absorb(found)
        publish()
        left.evaluate("device.refresh()")
        assert left.evaluate("code(device.choose({}))") == "budget"
        browser.close()
