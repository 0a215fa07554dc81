"""`make demo ARGS="--trust distributed"`: pages report to two processes, and what is printed is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from aggregators import HOW, INSTALLED

SERVE = Path(__file__).resolve().parents[2] / "examples" / "demo" / "serve.py"


@pytest.mark.skipif(not INSTALLED, reason=HOW)
def test_pages_report_to_two_processes_and_the_statement_is_printed() -> None:
    command = [sys.executable, str(SERVE), "--trust", "distributed", "--pages", "24", "--browsers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("One operator runs both aggregators here: this protects no more than a central")
    counts = [int(one) for one in re.findall(r"^version \d+: (\d+) reports", done.stdout, re.MULTILINE)]
    assert (sum(counts), len(counts)) == (24, 6)
    assert re.search(
        r"^Mean regret of 24 pages that reported 0\.\d+, of the last version 0\.\d+", "\n".join(rest), re.M
    )
    assert "Two aggregators that work together see every report." in done.stdout
