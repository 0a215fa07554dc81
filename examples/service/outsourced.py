"""A curator and a modeler who meet at a service: each has a token, and neither sees the other's side.

    TOKEN=dpb_... python examples/service/outsourced.py http://127.0.0.1:8080

In earnest the two halves are two programs at two places, and an admin has begun the exchange.
"""

import base64
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.outsourced import AnswerLaplace, Curator, Modeler, PublishedRows

ADDRESS, TOKEN = sys.argv[1], os.environ["TOKEN"]
ROWS, HORIZON = 200, 30


def call(method: str, path: str, body: Any = None, *, token: str) -> Any:
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", method=method)  # noqa: S310
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    sent = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, sent, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


def begun() -> tuple[str, str]:
    """What an admin does once; tokens of the curator and of the modeler."""
    people = {"kind": "RowDP", "epsilon": 4, "distance": 1}
    call("POST", "populations", {"name": "patients", "privacy": people}, token=TOKEN)
    asked = {
        "name": "doses",
        "population": "patients",
        "privacy": {"epsilon": 2, "distance": 1},
        "answers": {"epsilon": 2, "distance": 0.5, "low": 0, "high": 1},
        "cap": HORIZON,
    }
    call("POST", "outsourced", asked, token=TOKEN)
    made = [
        call("POST", "tokens", {"label": scope, "scopes": [scope]}, token=TOKEN)
        for scope in ("curate", "model")
    ]
    return made[0]["token"], made[1]["token"]


class Ward:
    """The curator: holds the table; what leaves is the release, and answers to rows that were asked for."""

    def __init__(self, token: str, folder: Path) -> None:
        self.token, rng = token, np.random.default_rng(1)
        age, dose = rng.uniform(18, 90, ROWS), rng.uniform(0, 5, ROWS)
        effect = np.exp(-0.5 * ((age - 60) / 15) ** 2 - 0.5 * (dose - 3) ** 2)
        self.curator = Curator(
            {"age": age, "dose": dose, "effect": effect},
            contexts=dpb.Schema(age=dpb.Range(18, 90), dose=dpb.Range(0, 5)),
            objective="effect",
            privacy=dpb.RowDP(epsilon=2, distance=1),
            answers=AnswerLaplace(epsilon=2, distance=0.5, low=0, high=1),
            cap=HORIZON,
            secret=folder / "secret",
        )
        self.curator.publish(folder / "published")
        described = json.loads((folder / "published" / "release.json").read_text())
        inputs = base64.b64encode((folder / "published" / "inputs.npy").read_bytes()).decode()
        call("PUT", "outsourced/doses/release", {"description": described, "inputs": inputs}, token=token)

    def work(self) -> None:
        """Answer what is open; after a crash the same rows come again, and the curator knows its answers."""
        rows = call("POST", "outsourced/doses/work", {"worker": "ward", "most": 10}, token=self.token)["rows"]
        known = dict(self.curator.answered)
        for row in rows:
            value = known[row] if row in known else self.curator.answer(row)
            path = f"outsourced/doses/questions/{row}/answer"
            call("PUT", path, {"answer": value}, token=self.token)


class Company:
    """The modeler: sees the release and answers, and chooses which rows to ask for."""

    def __init__(self, token: str, folder: Path) -> None:
        self.token = token
        found = call("GET", "outsourced/doses/release", token=token)
        (folder / "release.json").write_text(json.dumps(found["description"]))
        (folder / "inputs.npy").write_bytes(base64.b64decode(found["inputs"]))
        self.modeler = Modeler(PublishedRows.load(folder), horizon=HORIZON)

    def ask(self) -> int:
        row = self.modeler.ask()
        call("POST", "outsourced/doses/questions", {"rows": [row]}, token=self.token)
        return row

    def tell(self, row: int) -> None:
        asked = call("POST", "outsourced/doses/questions", {"rows": [row]}, token=self.token)
        self.modeler.tell(row, asked["questions"][0]["answer"])


def main() -> None:
    curate, model = begun()
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        ward, company = Ward(curate, Path(ours)), Company(model, Path(theirs))
        for _ in range(HORIZON):
            row = company.ask()
            ward.work()
            company.tell(row)
        print(json.dumps({"asked": HORIZON, "best": company.modeler.recommend()}))


if __name__ == "__main__":
    main()
