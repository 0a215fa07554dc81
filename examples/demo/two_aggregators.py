"""Simulated pages report to two aggregators on this machine, and a collector learns from noisy sums.

    make demo ARGS="--trust distributed"    # or: python examples/demo/serve.py --trust distributed

It needs Node 20 or newer and npm: `make demo` runs `npm ci` in tests/distributed/aggregators. Three pages are
in Chromium, if it and the package playwright are there; the others are in Node.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dpbandits as dpb
from dpbandits.distributed import (
    Collector,
    DapCollector,
    DistributedSpec,
    DistributedTuning,
    PublishedCellArms,
)

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests"))

from aggregators import HOW, INSTALLED, NODE, Pair, bundle
from browsing import CHROMIUM

FIRST = (
    "One operator runs both aggregators here: this protects no more than a central server. Whoever runs this "
    "machine can read every report. The promise below needs two organisations."
)
PAGE = b"""<!doctype html><title>demo</title><script type="module">
import { openDevice } from "/distributed.js";
import { ARMS, chances, uniforms } from "/world.js";
window.visit = async () => {
  const device = await openDevice({ url: "/", epsilon: 1e9, budget: 1e9, deadline: 60 });
  const [age, sleep, luck] = uniforms();
  const { id, arm } = await device.choose({ age: 18 + 72 * age, sleep: 3 + 7 * sleep });
  await device.report(id, Number(luck < chances([age, sleep])[ARMS.indexOf(arm)]));
  return device.send({ early: true });
};
</script>"""


def contract(epsilon: float, pages: int) -> DistributedSpec:
    """Return what devices, aggregators and the collector agree on."""
    return DistributedSpec(
        contexts=dpb.Schema(age=dpb.Range(18, 90), sleep=dpb.Range(3, 10)),
        arms=["walk", "nap", "music"],
        privacy=dpb.DistributedDP(epsilon=epsilon),
        horizon=pages,
        tuning=DistributedTuning(first=0.05, min_batch=max(1, pages // 50)),
    )


class Site:
    """The collector's site: it publishes the present version, and the page for browsers."""

    def __init__(self, script: bytes) -> None:
        self.policy = b""
        world = (HERE / "world.js").read_bytes()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                kinds = {
                    "/policy": (site.policy, "application/json"),
                    "/distributed.js": (script, "text/javascript"),
                    "/world.js": (world, "text/javascript"),
                }
                body, kind = kinds.get(self.path, (PAGE, "text/html"))
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Requests are not logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@contextmanager
def served(script: bytes) -> Iterator[Site]:
    site = Site(script)
    threading.Thread(target=site.server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()


@contextmanager
def crowd(url: str) -> Iterator[Any]:
    """A process of pages in Node; the function has so many pages report, or decide only."""
    command = [str(NODE), str(HERE / "pages.js")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # noqa: S603 - no input of others
        told: Any = process.stdin
        heard: Any = process.stdout

        def visits(pages: int, *, reports: bool) -> dict[str, float]:
            told.write(json.dumps({"url": url, "pages": pages, "reports": reports}) + "\n")
            told.flush()
            found: dict[str, float] = json.loads(heard.readline())
            return found

        try:
            yield visits
        finally:
            told.close()
            process.kill()


def in_chromium(url: str, pages: int) -> int:
    """Let people with a browser each report, and return how many did."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return 0
    if not CHROMIUM.exists():
        return 0
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        sent = 0
        for _ in range(pages):
            context = browser.new_context()
            page = context.new_page()
            page.goto(url)
            page.wait_for_function("() => Boolean(window.visit)")
            sent += page.evaluate("visit()")
            context.close()
        browser.close()
    return sent


def drawn(spec: DistributedSpec, published: PublishedCellArms) -> str:
    """The published arms: a letter a cell, age from left to right, and more sleep above."""
    letters = [[spec.arms[arm][0] for arm in column] for column in published.arms.reshape(spec.grid.sizes)]
    return "\n".join(" ".join(row) for row in reversed(list(zip(*letters, strict=True))))


def run(*, epsilon: float = 1.0, pages: int = 2000, browsers: int = 3) -> None:
    """Run the demonstration and print what happens.

    Args:
        epsilon: Privacy loss of a person's one report.
        pages: Number of simulated people who report.
        browsers: How many of the first version's people have a page in Chromium.
    """
    print(FIRST, flush=True)
    if not INSTALLED:
        raise SystemExit(HOW)
    spec, begun = contract(epsilon, pages), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="dpbandits-demo-") as folder,
        Pair(spec, Path(folder)) as pair,
        served(bundle()) as site,
        crowd(site.url) as visits,
    ):
        collector, sums = Collector(spec), pair.collector()
        site.policy = publication(collector, sums, pair)
        lost = 0.0
        for number, size in enumerate(spec.reports_per_version):
            some = in_chromium(site.url, min(browsers, size)) if number == 0 else 0
            rest = size - some
            found = visits(rest, reports=True) if rest else {"regret": 0.0}
            aggregate = sums.collect(number, wait=600)
            collector.absorb(aggregate)
            site.policy = publication(collector, sums, pair)
            lost += rest * found["regret"]
            print(
                f"version {number}: {aggregate.reports} reports, {some} of them from Chromium; "
                f"regret {found['regret']:.3f}; {time.monotonic() - begun:.0f} s",
                flush=True,
            )
        last = visits(pages, reports=False)
    print(
        f"\nThe last version by age (left to right) and sleep (bottom to top), first letters of {spec.arms}:"
    )
    print(drawn(spec, collector.publish()))
    print(f"\nMean regret of {pages} pages that reported {lost / pages:.3f}, of the last version ", end="")
    print(f"{last['regret']:.3f}, of arms at random {last['random']:.3f}\n")
    print(collector.guarantee.explain())


def publication(collector: Collector, sums: DapCollector, pair: Pair) -> bytes:
    return sums.policy(collector.publish(), helper=pair.addresses["helper"]).encode()
