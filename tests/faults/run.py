"""Faults, really done: kills, torn writes, full disks, clock jumps and races. Run: `make faults`.

For every stateful object: prepare a folder, count the durable operations of its work, and then, for each
of them and each kind of fault, copy the folder, fork a process that works until the fault strikes, and
look at what is left from a third process. Besides, processes are killed from outside at random instants,
wherever they are. Violations are listed; there are none when all is well.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from faults.children import Child, in_child  # noqa: E402
from faults.damage import DAMAGES, spread  # noqa: E402
from faults.failpoints import KILLING, MODES, Failpoint, limit_files  # noqa: E402
from faults.races import RACES  # noqa: E402
from faults.subjects import EXPECTED, SUBJECTS, Act, Subject, contradictions, digest  # noqa: E402
from results import DOCUMENTED, publish, results_parser  # noqa: E402

__all__ = ["AT_RANDOM", "KILLS", "MODES", "RESULTS", "SAYS", "Bench", "contradictions", "digest", "points"]

RESULTS = DOCUMENTED / "faults.json"


def tell(text: str) -> None:
    """Progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Journal:
    """What has left a process, written so that no kill loses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._write = os.write  # before a failpoint stands in its way
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def leave(self, what: str, content: object) -> None:
        self._write(self._descriptor, (json.dumps([what, digest(content)]) + "\n").encode())

    @staticmethod
    def read(path: Path) -> list[Act]:
        lines = path.read_text().splitlines() if path.exists() else []
        return [(what, content) for what, content in map(json.loads, lines)]


class Bench:
    """One subject's prepared folder, and what faults do to copies of it."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self._folder, self._runs = subject, folder, 0
        self._moments = random.Random(subject.name)  # noqa: S311 - test inputs
        self._pace = 0.05
        self._sound = folder / "sound"
        self._sound.mkdir()
        code, said = in_child(lambda: subject.prepare(self._sound))
        if code:
            raise RuntimeError(f"{subject.name} could not be prepared: {said}")

    def operations(self) -> list[str]:
        """Kinds of the durable operations of the work, in order."""
        folder, journal = self._copy()
        code, kinds = in_child(lambda: self._work(folder, journal, Failpoint(0, "kill", folder)))
        if code:
            raise RuntimeError(f"{self.subject.name} does not work by itself: {kinds}")
        found = self._violations(folder, journal)
        if found:
            raise RuntimeError(f"{self.subject.name} breaks by itself: {found}")
        return list(kinds["kinds"])

    def strike(self, at: int, mode: str) -> tuple[bool, list[str]]:
        """Whether the fault happened, and what it broke."""
        folder, journal = self._copy()
        struck, broken = self._strike(folder, journal, at, mode)
        return struck, broken or self._violations(folder, journal)

    def strike_again(self, first: tuple[int, str], at: int) -> tuple[bool, list[str]]:
        """A second kill, in whoever recovers from the first."""
        folder, journal = self._copy()
        struck, broken = self._strike(folder, journal, *first)
        if broken or not struck:
            return False, broken
        struck, broken = self._strike(folder, journal, at, "kill")
        return struck, broken or self._violations(folder, journal)

    def kill_at_random(self, most: int) -> tuple[int, list[str]]:
        """Kills at random instants, each but the first of whoever recovers; at most so many in one life.

        No operation is counted here. The instants spread over somewhat more than such work takes: where it
        finished before its kill, the life is over, and the next ones are shorter.
        """
        folder, journal = self._copy()
        kills, broken = 0, []
        for _ in range(most):
            worker = Child(lambda: self._persist(folder, journal, lambda: None))
            time.sleep(self._moments.uniform(0.0, self._pace))
            worker.kill()
            code, said = worker.result()
            if code != -signal.SIGKILL:
                broken += [] if code == 0 else [f"a process ended by itself: {said}"]
                self._pace *= 0.8
                break
            kills += 1
            self._pace *= 1.1
        return kills, broken + self._violations(folder, journal)

    def squeeze(self, size: int) -> tuple[bool, list[str]]:
        """The kernel lets no file grow beyond `size`; then it does."""
        folder, journal = self._copy()

        def task() -> dict[str, Any]:
            lift = limit_files(size)
            return self._persist(folder, journal, lift)

        code, said = in_child(task)
        if code:
            return True, [f"a full disk ended the process: {said}"]
        return said["refused"], self._violations(folder, journal)

    def damage(self, name: str, most: int | None) -> tuple[int, list[str]]:
        """Change every file of a finished run in many ways, or in `most`; see `faults.damage`."""
        folder, journal = self._copy()
        code, said = in_child(lambda: self._work(folder, journal, Failpoint(0, "kill", folder)))
        if code:
            return 0, [f"the run before the damage failed: {said}"]
        code, said = in_child(lambda: DAMAGES[name](self.subject, folder, Journal.read(journal), most))
        return (said[0], said[1]) if code == 0 else (0, [f"{said}"])

    # -- inside ------------------------------------------------------------------------------------------

    def _strike(self, folder: Path, journal: Path, at: int, mode: str) -> tuple[bool, list[str]]:
        code, said = in_child(lambda: self._work(folder, journal, Failpoint(at, mode, folder)))
        if mode in KILLING:
            if code == -signal.SIGKILL:
                return True, []
            return False, [] if code == 0 else [f"a process ended by itself: {said}"]
        if code:
            return True, [f"{mode} ended the process: {said}"]
        return bool(said["fired"]), []

    def _work(self, folder: Path, journal: Path, failpoint: Failpoint) -> dict[str, Any]:
        log = Journal(journal)
        failpoint.install()
        said = self._persist(folder, journal, failpoint.room, log)
        return said | {"kinds": failpoint.kinds, "fired": failpoint.fired}

    def _persist(
        self, folder: Path, journal: Path, room: Callable[[], None], log: Journal | None = None
    ) -> dict[str, Any]:
        """Work; after a refusal there is room again, and the same session goes on."""
        leave = (log or Journal(journal)).leave
        session, refused = None, False
        for _ in range(2):
            try:
                session = self.subject.session(folder, leave) if session is None else session
                session.work()
                return {"refused": refused}
            except EXPECTED:
                if refused:
                    raise
                refused = True
                room()
        return {"refused": refused}

    def _violations(self, folder: Path, journal: Path) -> list[str]:
        acts = Journal.read(journal)
        code, said = in_child(lambda: self.subject.check(folder, acts))
        shutil.rmtree(folder.parent)
        return list(said) if code == 0 else [f"recovery failed ({code}): {said}"]

    def _copy(self) -> tuple[Path, Path]:
        self._runs += 1
        life = self._folder / str(self._runs)
        shutil.copytree(self._sound, life / "state")
        return life / "state", life / "journal"


class Table:
    """Rows of the report."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, subject: str, fault: str, injected: int, violations: list[str], seconds: float) -> None:
        self.rows.append(
            {
                "object": subject,
                "fault": fault,
                "injected": injected,
                "violations": len(violations),
                "examples": violations[:3],
                "seconds": round(seconds, 1),
            }
        )
        mark = "" if not violations else f"  VIOLATED: {violations[0]}"
        tell(f"{injected:5d} {subject}: {fault}{mark}")


def points(kinds: list[str], mode: str, most: int | None) -> Iterator[int]:
    """Numbers of operations at which a mode means something."""
    probe = Failpoint(0, mode, Path())
    yield from spread([at for at, kind in enumerate(kinds, start=1) if probe.applies(kind)], most)


def run(subject: Subject, *, fast: bool, most: int | None, kills: int) -> Table:
    """All faults of one object; and of the ledger in memory, which none of them strikes but a race.

    Args:
        subject: the object.
        fast: a few of each.
        most: how many of a kind strike, and ten times as many in a file at rest; None for all.
        kills: how many strike at random instants.
    """
    table = Table()
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(subject, Path(temporary))
        strike_at_random(table, bench, kills)
        strike_at_operations(table, bench, fast=fast, most=most)
        for number, (name, race) in enumerate(RACES.items()):
            if name[0] in (subject.name, "MemoryLedger"):
                started, folder = time.monotonic(), Path(temporary) / f"race-{number}"
                folder.mkdir()
                injected, violations = race(folder, 1 if fast else 10 if most is None else min(most, 10))
                table.add(*name, injected, violations, time.monotonic() - started)
    return table


def strike_at_random(table: Table, bench: Bench, kills: int) -> None:
    """A row of kills of one subject; fewer than were asked for where it finishes before most of them."""
    started, done, violations = time.monotonic(), 0, []
    for _ in range(4 * kills):
        if done >= kills:
            break
        count, broken = bench.kill_at_random(min(IN_A_ROW, kills - done))
        done += count
        violations += broken
    table.add(bench.subject.name, AT_RANDOM, done, violations, time.monotonic() - started)


def strike_at_operations(table: Table, bench: Bench, *, fast: bool, most: int | None) -> None:
    """Rows of one subject."""
    kinds, name = bench.operations(), bench.subject.name
    tell(f"      {name}: {len(kinds)} durable operations")

    def struck(
        fault: str, strike: Callable[..., tuple[int, list[str]]], cases: Iterable[tuple[Any, ...]]
    ) -> None:
        started, injected, violations = time.monotonic(), 0, []
        for case in cases:
            count, broken = strike(*case)
            injected += count
            violations += broken
        table.add(name, fault, injected, violations, time.monotonic() - started)

    for mode in MODES:
        few = FEW[mode] if fast else most
        struck(SAYS[mode], bench.strike, ((at, mode) for at in points(kinds, mode, few)))
    sizes = (300,) if fast else (*range(0, 1000, 97), *range(1000, 20_000, 1499))
    struck("file size limited by the kernel", bench.squeeze, ((size,) for size in spread(list(sizes), most)))
    if not fast:
        firsts = points(kinds, "kill", 10 if most is None else min(most, 10))
        twice = (((at, "kill"), again) for at in firsts for again in range(1, 30, 4))
        struck("kill -9 again while recovering", bench.strike_again, twice)
        for damage in DAMAGES:
            struck(damage, bench.damage, ((damage, None if most is None else 10 * most),))


AT_RANDOM = "kill -9 at a random instant"
KILLS, FEW_KILLS, IN_A_ROW = 1000, 16, 3
"""At random instants, of all objects together: in a run, in a fast run; and of one life at most."""

FEW = {"kill": 1, "torn": 1, "garbled": 1, "full": 1, "full for long": 1, "clock": 1}
"""Faults of a mode for one object in a fast run."""

SAYS = {
    "kill": "kill -9 before an operation",
    "torn": "kill -9 in the middle of a write",
    "garbled": "kill -9, and a write arrived garbled",
    "full": "disk full at one operation",
    "full for long": "disk full from an operation on",
    "clock": "clock back by a year",
}


def main() -> int:
    parser = results_parser(__doc__)
    parser.add_argument("--fast", action="store_true", help="a few of each")
    parser.add_argument("--most", type=int, help="faults of a kind for one object; default: all")
    parser.add_argument("--kills", type=int, help=f"at random instants, in all; default: {KILLS}")
    parser.add_argument(
        "--only", action="append", help="name of an object; may be repeated. Rows of others in the file stay"
    )
    arguments = parser.parse_args()
    import_everything()
    chosen = [subject for subject in SUBJECTS if not arguments.only or subject.name in arguments.only]
    kills = arguments.kills if arguments.kills is not None else FEW_KILLS if arguments.fast else KILLS
    told = arguments.out is not None and arguments.only and arguments.out.exists()
    rows = json.loads(arguments.out.read_text())["rows"] if told else []
    results: dict[str, Any] = {}
    for subject in chosen:
        share = -(-kills // len(SUBJECTS))
        table = run(subject, fast=arguments.fast, most=arguments.most, kills=share)
        struck = {row["object"] for row in table.rows}
        rows = [row for row in rows if row["object"] not in struck] + table.rows
        results = {
            "command": "make faults" + (f' ARGS="--most {arguments.most}"' if arguments.most else ""),
            "injected": sum(row["injected"] for row in rows),
            "violations": sum(row["violations"] for row in rows),
            "rows": rows,
        }
        if arguments.out is not None:  # the next object may take an hour
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    publish(results, arguments, f"{results['injected']} faults, {results['violations']} violations")
    return 1 if results["violations"] else 0


def import_everything() -> None:
    """Everything heavy is imported once, before the first fork."""
    import scipy.linalg  # noqa: F401

    from dpbandits.privacy import SecureNoise

    SecureNoise().integer_gaussian(1000.0, 2)


if __name__ == "__main__":
    sys.exit(main())
