"""A process of the service does not grow with what it has answered."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("memory.py")


def grown(what: str, number: int, folder: Path) -> int:
    """KiB by which a process of its own grows after a warm-up."""
    command = [sys.executable, str(PROGRAM), what, str(number), str(folder)]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    # Without these, memory that was freed may stay the process's: 12 MiB in one run of three.
    environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read off /proc")
def test_memory_does_not_grow_with_the_store(tmp_path: Path) -> None:
    assert grown("rows", 2400, tmp_path) < 4 << 10  # of 9 MB that are written after the warm-up, and read


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read off /proc")
def test_memory_does_not_grow_with_blocks_and_their_users(tmp_path: Path) -> None:
    assert grown("blocks", 30_000, tmp_path) < 12 << 10  # users in states, or rounds as tuples: 24 MiB


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read off /proc")
def test_memory_does_not_grow_with_decisions(tmp_path: Path) -> None:
    assert grown("decisions", 20_000, tmp_path) < 5 << 10
