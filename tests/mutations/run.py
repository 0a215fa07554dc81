"""Seed each bug into a copy of the package, and see whether its tests notice. Run: `make mutations`.

A bug is caught when a test fails: not when nothing can be imported or collected, and not by an error in
a fixture. The copy without bugs must pass the same tests first. The tree itself is never changed.
"""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from mutations.catalogue import MUTATIONS, Mutation  # noqa: E402
from results import DOCUMENTED, publish, results_parser  # noqa: E402

RESULTS = DOCUMENTED / "mutations.json"

# Says so where the tests would run against another package than the copy.
_GUARD = """
import pathlib, pytest, dpbandits

def pytest_configure(config):
    if not pathlib.Path(dpbandits.__file__).is_relative_to(pathlib.Path(__file__).parent):
        pytest.exit("the copy is not what is tested", returncode=3)
"""


@dataclass(frozen=True)
class Verdict:
    """What the tests said about one bug.

    Attributes:
        caught: whether a test failed.
        by: the first test that did, or why the run says nothing.
        seconds: that it took.
    """

    caught: bool
    by: str
    seconds: float


class Copy:
    """A copy of the package that bugs are seeded into, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._package = folder / "dpbandits"
        shutil.copytree(REPOSITORY / "src" / "dpbandits", self._package)
        compileall.compile_dir(self._package, quiet=1)  # once, and not for every bug
        (folder / "mutation_guard.py").write_text(_GUARD)

    def run(self, mutation: Mutation | None, tests: tuple[str, ...], *, timeout: float) -> Verdict:
        changed = {} if mutation is None else mutated(mutation, self._package)
        for path, text in changed.items():
            path.write_text(text)
        try:
            return self._tested(tests, timeout)
        finally:
            for path in changed:  # with its old time stamp, so that compiled modules stay valid
                shutil.copy2(REPOSITORY / "src" / "dpbandits" / path.relative_to(self._package), path)

    def _tested(self, tests: tuple[str, ...], timeout: float) -> Verdict:
        report = self._folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "mutation_guard",
        ]
        environment = {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*command, f"--junitxml={report}", *tests],
                cwd=REPOSITORY,
                env=os.environ | environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            code, said = done.returncode, done.stdout[-2000:]
        except subprocess.TimeoutExpired:
            code, said = -1, "took too long"
        caught, by = judged(code, report.read_text() if report.exists() else "", said)
        return Verdict(caught, by, round(time.monotonic() - started, 1))


def mutated(mutation: Mutation, package: Path) -> dict[Path, str]:
    """Changed files and their new text.

    Raises:
        ValueError: a text to be replaced does not occur exactly once.
    """
    texts: dict[Path, str] = {}
    for edit in mutation.edits:
        path = package / edit.file
        text = texts.get(path) or path.read_text()
        if (found := text.count(edit.before)) != 1:
            raise ValueError(f"{mutation.name}: {edit.before!r} occurs {found} times in {edit.file}")
        texts[path] = text.replace(edit.before, edit.after)
    return texts


def judged(code: int, report: str, said: str) -> tuple[bool, str]:
    """(caught, by what) from pytest's exit status and its JUnit report."""
    if code == 0:
        return False, "no test failed"
    failed, broken = [], []
    for case in ET.fromstring(report).iter("testcase") if report else []:  # noqa: S314 - our own file
        name = f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}"
        failed += [name] * (case.find("failure") is not None)
        broken += [name] * (case.find("error") is not None)
    if code == 1 and failed and not broken:
        return True, failed[0]
    return False, f"no verdict: {(broken or [said.strip() or f'exit status {code}'])[0]}"


def run(
    chosen: list[Mutation], *, full: bool, timeout: float, jobs: int
) -> tuple[Verdict, dict[str, Verdict]]:
    """The verdict without bugs, and one for each bug; `jobs` at a time, each in a copy of its own."""
    everything = ("tests", "--ignore=tests/mutations", "--ignore=tests/faults")
    named = tuple(sorted({test for mutation in chosen for test in mutation.tests}))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        idle: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            idle.put(Copy(Path(folder) / str(number)))

        def verdict(mutation: Mutation | None) -> Verdict:
            tests = named if mutation is None else mutation.tests
            copy = idle.get()
            try:
                found = copy.run(
                    mutation, everything if full else tests, timeout=timeout * (20 if mutation is None else 1)
                )
            finally:
                idle.put(copy)
            if mutation is not None:
                word = "caught" if found.caught else "SURVIVED"
                sys.stderr.write(f"{word:9} {mutation.name}: {found.by}\n")
            return found

        sound, *verdicts = pool.map(verdict, [None, *chosen])
    if sound.by != "no test failed":
        return sound, {}
    return sound, {mutation.name: found for mutation, found in zip(chosen, verdicts, strict=True)}


def main() -> int:
    parser = results_parser(__doc__)
    parser.add_argument("--only", action="append", help="name of a mutation; may be repeated")
    parser.add_argument("--full", action="store_true", help="run the whole fast suite for each")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one mutation's tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="bugs at a time")
    arguments = parser.parse_args()
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := set(arguments.only or ()) - set(known):
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [known[name] for name in arguments.only or known]
    sound, verdicts = run(chosen, full=arguments.full, timeout=arguments.timeout, jobs=arguments.jobs)
    if not verdicts:
        sys.stderr.write(f"the package without bugs does not pass: {sound.by}\n")
        return 2
    rows = [
        {"name": mutation.name, "says": mutation.says, "file": mutation.edits[0].file}
        | asdict(verdicts[mutation.name])
        for mutation in chosen
    ]
    results = {
        "command": "make mutations",
        "suite": "the whole fast suite" if arguments.full else "named tests",
        "caught": sum(row["caught"] for row in rows),
        "seeded": len(rows),
        "rows": rows,
    }
    publish(results, arguments, f"{results['caught']} of {results['seeded']} caught by {results['suite']}")
    return 0 if results["caught"] == results["seeded"] else 1


if __name__ == "__main__":
    sys.exit(main())
