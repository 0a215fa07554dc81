"""Draws the pictures of `make demo` and records what its server published to 2,000 simulated pages.

    python docs/_ext/demo_pictures.py docs/_static/demo [--all FOLDER]

Needs dpbandits, pillow, playwright and a Chromium (`CHROMIUM`, by default /usr/bin/chromium). `--all` also
keeps the page at both widths and in both themes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

SERVE = Path(__file__).resolve().parents[2] / "examples" / "demo" / "serve.py"
LONGEST = 600_000
"""Milliseconds that 2,000 pages may take."""


def visited(browser: Browser, url: str, *, width: int = 1000, theme: str = "light", age: int = 34) -> Page:
    """A page whose visitor has reported."""
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.fill("#age", str(age))
    page.click("#ask")
    page.click("#good")
    page.wait_for_selector("#made:not([hidden])")
    return page


def recorded(browser: Browser, url: str) -> tuple[Page, dict[str, object]]:
    """The page after 2,000 others, and all versions that were published to them."""
    page, fetched = visited(browser, url), []
    page.on("requestfinished", lambda one: fetched.append(one) if one.url.endswith("/policy") else None)
    page.click("#run")
    page.wait_for_selector("#run:text-is('Let more report')", timeout=LONGEST)
    told = [re.fullmatch(r'\{"spec":(.*?),"published":(.*)\}', one.response().text()) for one in fetched]
    versions = {json.loads(one[2])["version"]: one[2] for one in told}
    return page, {"spec": told[0][1], "versions": [versions[number] for number in sorted(versions)]}


def kept(page: Page, path: Path, first: str, end: str) -> None:
    """A picture of the page from one element to before another, in 64 colours."""
    top, bottom = (page.locator(one).bounding_box()["y"] + page.evaluate("scrollY") for one in (first, end))
    clip = {"x": 0, "y": top - 10, "width": 1000, "height": bottom - top}
    image = Image.open(BytesIO(page.screenshot(full_page=True, clip=clip)))
    image.convert("RGB").quantize(64).save(path, optimize=True)


def draw(url: str, out: Path, every: Path | None) -> None:
    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page, told = recorded(browser, url)
        out.mkdir(parents=True, exist_ok=True)
        (out / "where.json").write_text(json.dumps({"recorded": told}) + "\n")
        page.set_viewport_size({"width": 1000, "height": 900})
        page.fill("#age", "71")
        page.click("#ask")
        page.click("#bad")
        page.wait_for_selector("#made:not([hidden])")
        kept(page, out / "report.png", "h1", "h2:text('A crowd')")
        kept(page, out / "maps.png", "h2:text('A crowd')", "figure:has(#parts)")
        for theme in ("light", "dark") if every else ():
            for width in (1300, 390):
                one = visited(browser, url, width=width, theme=theme, age=71)
                one.click("#send")
                one.click("summary")
                one.screenshot(path=every / f"demo-{width}-{theme}.png", full_page=True)
        browser.close()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--all", type=Path)
    asked = arguments.parse_args()
    if asked.all:
        asked.all.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(SERVE), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        draw(server.stdout.readline().strip(), asked.out, asked.all)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
