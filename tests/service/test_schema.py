"""Every route with what its schema allows and what it does not, as schemathesis makes it up."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.conftest import CUSTOMERS, OFFERS
from service.test_pasted import started  # noqa: F401


@pytest.mark.slow
def test_the_whole_schema(started: tuple[str, str], tmp_path: Path) -> None:  # noqa: F811
    import httpx

    address, token = started
    named = {"Authorization": f"Bearer {token}"}
    for path, body in (("populations", CUSTOMERS), ("policies", OFFERS)):
        assert httpx.post(f"http://{address}/v1/{path}", json=body, headers=named).status_code == 201
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"http://{address}/openapi.json",
            *("-H", f"Authorization: Bearer {token}"),
            *("--max-examples", "5", "--seed", "1", "--generation-deterministic"),
            *("--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all"),
            *("--request-timeout", "120"),
            # what a schema cannot say (a box needs low < high) is refused with 422
            *("--exclude-checks", "positive_data_acceptance"),
        ],
        cwd=tmp_path,  # it leaves a cache where it runs
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
