"""The clients of `examples/service`, run against a server in its own process."""

import os
import subprocess
import sys
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
