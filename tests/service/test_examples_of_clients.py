"""The clients of `examples/service`, run against a server in its own process."""

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.conftest import CUSTOMERS, OFFERS
from service.processes import ServerProcess, serving

EXAMPLES = Path(__file__).parents[2] / "examples" / "service"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with serving(tmp_path / "data") as found:
        found.post("/v1/populations", CUSTOMERS)
        found.post("/v1/policies", OFFERS)
        yield found


def said(server: ServerProcess, example: str, *scopes: str) -> str:
    """What an example prints that has a token of these scopes alone."""
    token = server.post("/v1/tokens", {"label": "an example's", "scopes": list(scopes)})["token"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), server.url],
        env=os.environ | {"TOKEN": str(token)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_httpx_decides_and_tells(server: ServerProcess) -> None:
    arm, _, outcome = said(server, "with_httpx.py", "decide", "reward").strip().partition(": ")
    assert arm in OFFERS["arms"]
    assert outcome == "counted"


@pytest.mark.skipif(
    importlib.util.find_spec("openfeature") is None,
    reason="OpenFeature's own provider asks: pip install 'dpbandits[dev]'",
)
def test_openfeature_decides_and_tracks(server: ServerProcess) -> None:
    told = said(server, "openfeature_flags.py", "decide", "reward").strip()
    arm, _, rest = told.partition(" ")
    assert arm in OFFERS["arms"]
    assert rest == "(SPLIT), repeated: the same decision"
    raw = urllib.request.Request(f"{server.url}/v1/policies/offers/raw")  # noqa: S310 - loopback
    raw.add_header("Authorization", f"Bearer {server.token}")
    with urllib.request.urlopen(raw, timeout=60) as reply:  # noqa: S310 - loopback
        (decision,) = [json.loads(line) for line in reply.read().splitlines()[1:]]
    assert (decision["status"], decision["reward"], decision["arm"]) == ("counted", 1.0, arm)
