"""The seeded privacy bugs still fit the source, and (slow) every one of them is caught."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutations import run as runner
from mutations.catalogue import MUTATIONS, Edit, Mutation

PACKAGE = runner.REPOSITORY / "src" / "dpbandits"


def test_there_are_enough_and_each_has_a_name_of_its_own():
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= 16


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_fits_the_source_exactly_once_and_is_python(mutation):
    """So that a change of the source cannot quietly leave a bug unseeded."""
    changed = runner.mutated(mutation, PACKAGE)
    assert changed
    for path, text in changed.items():
        assert text != path.read_text()
        ast.parse(text)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_named_tests_exist(mutation):
    assert mutation.tests
    for test in mutation.tests:
        file, *names = test.split("::")
        text = (runner.REPOSITORY / file).read_text()
        assert "def test_" in text
        assert all(re.search(rf"(def|class) {re.escape(name.partition('[')[0])}\b", text) for name in names)


def test_a_text_that_is_not_there_exactly_once_is_refused():
    for before in ("no such text in this file", "import"):
        bug = Mutation("bug", "", (Edit("errors.py", before, ""), Edit("policy/rounds.py", before, "")), ())
        with pytest.raises(ValueError, match="times"):
            runner.mutated(bug, PACKAGE)


def report(outcome):
    return f'<testsuite><testcase classname="a.b" name="test_c">{outcome}</testcase></testsuite>'


def test_only_a_failing_test_counts_as_caught():
    assert runner.judged(1, report("<failure/>"), "") == (True, "a/b::test_c")
    assert runner.judged(0, report(""), "") == (False, "no test failed")
    assert not runner.judged(1, report("<error/>"), "")[0]  # a fixture broke
    assert not runner.judged(2, report("<error/>"), "")[0]  # nothing could be imported
    assert not runner.judged(1, report(""), "")[0]
    assert not runner.judged(-1, "", "took too long")[0]


def test_the_documented_table_is_of_these_mutations():
    """Names and words of the last run that the documentation shows: `make mutations` renews them."""
    results = json.loads(runner.RESULTS.read_text())
    assert {row["name"]: row["says"] for row in results["rows"]} == {
        mutation.name: mutation.says for mutation in MUTATIONS
    }
    assert results["caught"] == results["seeded"] == len(MUTATIONS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_mutation_is_caught(tmp_path):
    done = subprocess.run(
        [sys.executable, Path(runner.__file__), "--json", "--out", tmp_path / "mutations.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    survivors = [row["name"] for row in json.loads(done.stdout)["rows"] if not row["caught"]]
    assert not survivors
