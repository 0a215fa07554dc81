"""Draws the pictures of the desk's tour: begins a service, sends it simulated shoppers, looks at every page.

    python docs/_ext/desk_pictures.py docs/_static/desk [--all FOLDER]

Needs dpbandits, playwright and a Chromium (`CHROMIUM`, by default /usr/bin/chromium). `--all` also keeps
every page at both widths and in both themes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROUNDS = 900
DEVICES = 2000
REGIONS = ("north", "south", "west")
POLICY = {
    "name": "offers",
    "population": "customers",
    "contexts": [
        {"name": "age", "type": "Range", "low": 18, "high": 90},
        {"name": "region", "type": "Categories", "values": ["north", "south", "west"]},
    ],
    "arms": ["mail", "call", "nothing"],
    "reward_range": [0, 1],
    "horizon": 2000,
    "privacy": {"epsilon": 4, "delta": 1e-6},
    "seed": 7,
    "settings": {"fallback": "nothing"},
}
PAGES = {
    "login": None,
    "overview": "/",
    "population": "/desk/populations/customers",
    "policy": "/desk/policies/offers",
    "new": "/desk/policies/winter",
    "local": "/desk/local/tips",
    "local-statement": "/desk/local/tips/statement",
    "statement": "/desk/policies/offers/statement",
    "ledger": "/desk/ledger",
    "events": "/desk/events",
    "problem": "/desk/policies/none",
}
SHOWN = {"overview": 620, "policy": 900, "statement": 1040, "ledger": 360, "local": 860}
"""Pages of the tour, and how high their pictures are; they are as wide as the docs' column."""


def post(url: str, token: str, body: object) -> dict:
    return json.loads(fetch(url, token, json.dumps(body).encode(), "application/json"))


def fetch(url: str, token: str, body: bytes | None = None, media: str = "application/octet-stream") -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": media}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(request) as reply:  # noqa: S310
        return reply.read()


def seed(url: str, token: str) -> None:
    """Two populations, two policies, and shoppers of whom the old like calls and the young like mail."""
    for name, epsilon in (("customers", 8), ("visitors", 1)):
        body = {"name": name, "privacy": {"epsilon": epsilon, "delta": 1e-5}}
        post(f"{url}/v1/populations", token, body)
    post(f"{url}/v1/policies", token, POLICY)
    winter = {**POLICY, "name": "winter", "privacy": {"epsilon": 1, "delta": 1e-6}}
    winter["tuning"] = {"release": "features"}  # Gaussian noise: its account adds up mu^2
    post(f"{url}/v1/policies", token, winter)
    people = [{"age": 18 + 37 * n % 72, "region": ["north", "south", "west"][n % 3]} for n in range(ROUNDS)]
    for first in range(0, ROUNDS, 25):
        asked = [{"id": f"v{n}", "user": f"u{n}", "context": people[n]} for n in range(first, first + 25)]
        path = f"{url}/v1/policies/offers"
        answers = post(f"{path}/decisions:batch", token, {"decisions": asked})["results"]
        rewards = [
            {"decision": one["decision"]["id"], "reward": liked(people[n], one["decision"]["arm"])}
            for n, one in enumerate(answers, start=first)
        ]
        post(f"{path}/rewards:batch", token, {"rewards": rewards})


def seed_devices(url: str, token: str) -> None:
    """A local policy, and devices of whom the old like calls, by their own clients."""
    import dpbandits as dpb

    people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
    spec = dpb.local.Spec(contexts=people, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=2), seed=7)
    body = {"name": "readers", "privacy": {"kind": "LocalDP", "epsilon": 4}}
    post(f"{url}/v1/populations", token, body)
    post(
        f"{url}/v1/local",
        token,
        {"name": "tips", "population": "readers", "spec": json.loads(spec.to_json())},
    )
    for batch in range(DEVICES // 100):
        found = json.loads(fetch(f"{url}/v1/local/tips/policy", token))
        published, made = dpb.local.PublishedQuestions.from_json(json.dumps(found["published"]), spec), []
        for number in range(100 * batch, 100 * batch + 100):
            client, person = (
                dpb.local.Client(spec),
                {"age": 18 + 37 * number % 72, "region": REGIONS[number % 3]},
            )
            made.append(client.report(liked(person, client.choose(published, person))))
        packed = b"".join(len(report).to_bytes(2, "little") + report for report in made)
        fetch(f"{url}/v1/local/tips/reports", token, packed)


def liked(person: dict, arm: str) -> float:
    old = (person["age"] - 18) / 72
    return {"mail": 0.85 - 0.6 * old, "call": 0.2 + 0.7 * old, "nothing": 0.35}[arm]


def logged_in(browser: Browser, url: str, token: str, width: int, theme: str) -> Page:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
    page.goto(url)
    page.fill("#token", token)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What was promised")
    return page


def draw(url: str, token: str, out: Path, every: Path | None) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        page = logged_in(browser, url, token, 1300, "light")
        out.mkdir(parents=True, exist_ok=True)
        for name, height in SHOWN.items():
            page.set_viewport_size({"width": 1000, "height": height})
            page.goto(f"{url}{PAGES[name]}")
            page.screenshot(path=out / f"{name}.png")
        for theme in ("light", "dark") if every else ():
            for width in (1300, 390):
                size = {"width": width, "height": 900}
                fresh = browser.new_context(viewport=size, color_scheme=theme).new_page()
                known = logged_in(browser, url, token, width, theme)
                for name, path in PAGES.items():
                    page = fresh if path is None else known
                    page.goto(f"{url}{path or '/'}")
                    page.screenshot(path=every / f"{name}-{width}-{theme}.png", full_page=True)
        browser.close()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--all", type=Path)
    asked = arguments.parse_args()
    if asked.all:
        asked.all.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dpbandits", "serve", "--data", f"{folder}/data", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            url = server.stdout.readline().strip()
            token = server.stdout.readline().rpartition(" ")[2].strip()
            seed(url, token)
            seed_devices(url, token)
            draw(url, token, asked.out, asked.all)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
