"""Faults on every stateful object: a few of each kind here, every operation of each in the slow test.

`run.py` does them in processes of its own, one thread each, as forking demands.
"""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults import run as runner
from faults.subjects import SUBJECTS, TableSubject

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="faults in SQLite find its library in /proc, which Linux alone has"
)


def injected(*options, timeout):
    done = subprocess.run(
        [sys.executable, Path(runner.__file__), "--json", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode in (0, 1), done.stderr[-4000:]
    return json.loads(done.stdout)


def check(results, at_least):
    broken = [row for row in results["rows"] if row["violations"]]
    assert not broken
    assert results["injected"] >= at_least
    struck = {row["object"] for row in results["rows"] if row["injected"]}
    assert struck == {subject.name for subject in SUBJECTS} | {"MemoryLedger"}
    kinds = {row["fault"] for row in results["rows"] if row["injected"]}
    expected = {"file size limited by the kernel", "processes on one state", runner.AT_RANDOM}
    assert kinds >= set(runner.SAYS.values()) | expected


def killed_at_random(results):
    return sum(row["injected"] for row in results["rows"] if row["fault"] == runner.AT_RANDOM)


@on_linux
@pytest.mark.timeout(400)
def test_a_few_faults_of_each_kind():
    results = injected("--fast", timeout=380)
    check(results, at_least=50)
    assert killed_at_random(results) >= len(SUBJECTS)


@on_linux
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_faults_of_each_kind_for_every_object():
    """`make faults` strikes at every operation."""
    check(injected("--most", "2", timeout=3500), at_least=2000)


def test_the_documented_table_has_enough_and_no_violation():
    """The last run that the documentation shows: `make faults` renews it."""
    results = json.loads(runner.RESULTS.read_text())
    assert results["injected"] == sum(row["injected"] for row in results["rows"])
    check(results, at_least=500)
    assert killed_at_random(results) >= runner.KILLS


class Forgetful:
    """What the harness must notice: an object that acknowledges before it writes, and draws anew."""

    name, not_state, unguarded = "forgetful", (), ()

    def __init__(self, *, careful, slow=0.0):
        self.careful, self.slow = careful, slow

    def prepare(self, folder):
        (folder / "state").write_bytes(b"")

    def session(self, folder, leave):
        return _ForgetfulSession(folder / "state", leave, careful=self.careful, slow=self.slow)

    def check(self, folder, acts):
        later = list(acts)
        self.session(folder, lambda what, content: later.append((what, runner.digest(content)))).work()
        return runner.contradictions(later)


class _ForgetfulSession:
    def __init__(self, path, leave, *, careful, slow):
        self.path, self.leave, self.careful, self.slow = path, leave, careful, slow

    def work(self):
        from dpbandits.state.files import replace_durably, write_durably

        release = self.path.read_bytes() or os.urandom(16)
        if not self.careful:
            self.leave("release", release)
        time.sleep(self.slow)
        beside = self.path.with_name("next")
        write_durably(beside, release)
        replace_durably(beside, self.path)
        self.leave("release", release)


@on_linux
@pytest.mark.parametrize("careful", [True, False])
def test_the_harness_notices_what_forgets(tmp_path, careful):
    bench = runner.Bench(Forgetful(careful=careful), tmp_path)
    kinds = bench.operations()
    assert kinds == ["open", "write", "fsync", "fsync", "replace", "fsync"]
    outcomes = {
        mode: [bench.strike(at, mode) for at in runner.points(kinds, mode, None)] for mode in runner.MODES
    }
    assert all(struck for strikes in outcomes.values() for struck, _ in strikes)
    broken = {mode for mode, strikes in outcomes.items() if any(violations for _, violations in strikes)}
    assert broken == (set() if careful else {"kill", "torn", "garbled", "full", "full for long"})


@on_linux
@pytest.mark.parametrize("careful", [True, False])
def test_kills_at_random_instants_notice_what_forgets(tmp_path, careful):
    """False alarm below 1e-6: of 60 lives each is hit within its 0.3 s with a chance above one in four."""
    bench = runner.Bench(Forgetful(careful=careful, slow=0.3), tmp_path)
    kills, broken = 0, []
    for _ in range(3 if careful else 60):
        done, found = bench.kill_at_random(2)
        kills, broken = kills + done, broken + found
        if broken:
            break
    assert kills
    assert bool(broken) != careful


def test_no_clock_is_read_where_states_are_kept():
    """A clock that jumps cannot matter to rooms that never look at one."""
    package = runner.REPOSITORY / "src" / "dpbandits"
    # How long a version stays open at least is a time, and when an answer leaves. Nothing of it is kept:
    # tests/local/test_forgers.py, tests/outsourced/test_curator.py. Delays in time are read off the asks, and
    # a clock that is set back stands still: tests/contracts/test_delays.py.
    pace = {
        package / "local" / "server" / "pace.py",
        package / "outsourced" / "curator" / "pace.py",
        package / "policy" / "deadlines.py",
    }
    for room in ("state", "privacy", "policy", "central", "local", "outsourced"):
        for path in {*(package / room).rglob("*.py")} - pace:
            imported = {
                name.partition(".")[0]
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                if ast.unparse(node) != "from datetime import timedelta"  # a length, no clock
            }
            assert not imported & {"time", "datetime", "sched"}, path.name


@on_linux
@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["marginals", "features"])
@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_learning_where_the_data_is_charges_and_releases_once_wherever_a_kill_comes(tmp_path, every, release):
    """Durable operations are those of the run's key, the ledger's charge, the engine, and the release."""
    bench = runner.Bench(TableSubject(release), tmp_path)
    kinds = bench.operations()
    points = range(len(kinds), 0, -every)
    struck, broken = zip(*(bench.strike(at, "kill") for at in points), strict=True)
    assert all(struck[1:])  # the digits of released numbers may save the last write
    assert not any(broken)
    assert {"replace", "fsync", "write"} <= set(kinds)
