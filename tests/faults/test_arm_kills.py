"""A change of arms is complete or has not happened, wherever a kill comes; see `arm_kills.py`."""

import json
import os
import subprocess
import sys

import pytest

from faults import arm_kills
from faults.test_faults import on_linux


@on_linux
@pytest.mark.timeout(300)
def test_a_change_is_complete_or_has_not_happened_wherever_a_kill_comes():
    done = subprocess.run(
        [sys.executable, arm_kills.__file__],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for found in json.loads(done.stdout).values():
        changes, rows = found["changes"], found["rows"]
        assert [one["event"] for one in changes] == ["arm added", "arm retired"]
        assert {len(row["before"]) for row in rows} >= {0, 1}
        for row in rows:
            assert row["code"] == -9, row
            assert row["before"] == changes[: len(row["before"])], row  # none is there in part
            assert len(row["before"]) >= len(row["said"]), row  # what was acknowledged is there
            assert row["after"] == changes, row  # and nothing is there twice
