import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from dpbandits.audit import NAMES, AuditRow
from dpbandits.cli import app
from dpbandits.errors import InvalidParameter

RUNNER = CliRunner()
ROW = AuditRow(
    name="report-krr",
    claimed_epsilon=1.0,
    delta=0.0,
    lower_bound=0.9,
    confidence=0.999,
    tightness=0.9,
    verdict="holds",
    known_broken=False,
    conditional_on=None,
    seconds=0.1,
    scope="mechanism",
    sees="a <report>",
    neighbours="two inputs",
    samples=1000,
)
EXCEEDED = replace(ROW, name="too-little", lower_bound=1.2, tightness=1.2, verdict="exceeded")
CAUGHT = replace(EXCEEDED, name="broken-x", known_broken=True, lower_bound=9.0, tightness=9.0)
MISSED = replace(ROW, name="broken-y", known_broken=True)
FEW = replace(MISSED, name="broken-z", verdict="undecided", fewest_samples=61_000)
UNKNOWN = replace(FEW, name="broken-w", fewest_samples=None)


def invoke(*arguments):
    return RUNNER.invoke(app, ["audit", *map(str, arguments)])


def given(monkeypatch, *rows):
    """The command with these rows for results."""
    monkeypatch.setattr("dpbandits.audit.run_audits", lambda *_, **__: list(rows))


def test_without_a_name_all_are_listed():
    listed = json.loads(invoke("--json").stdout)
    assert [one["name"] for one in listed] == list(NAMES)
    done = invoke()
    assert done.exit_code == 0
    assert "known broken" in done.stdout


def test_one_audit_as_json():
    done = invoke("report-krr", "--epsilon", 2, "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert row["name"] == "report-krr"
    assert row["claimed_epsilon"] == 2.0
    assert row["verdict"] == "holds"
    assert 1.999 < row["lower_bound"] <= 2.0
    required = {"name", "claimed_epsilon", "delta", "lower_bound", "confidence", "tightness", "verdict"}
    assert required | {"known_broken", "conditional_on", "seconds"} <= set(row)


def test_one_sampled_audit_on_the_screen_with_a_page(tmp_path):
    done = invoke("broken-float-laplace", "--samples", 2000, "--out", tmp_path / "page")
    assert done.exit_code == 0, done.output
    assert "exceeded" in done.stdout
    assert {file.name for file in (tmp_path / "page").iterdir()} == {"audit.html", "audit.json", "rows.jsonl"}
    (row,) = json.loads((tmp_path / "page" / "audit.json").read_text())
    assert row["samples"] == 4000
    page = (tmp_path / "page" / "audit.html").read_text()
    assert "dpbandits audit broken-float-laplace --samples 2000" in page


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ((ROW, CAUGHT), 0),
        ((ROW, EXCEEDED, CAUGHT), 1),
        ((ROW, MISSED), 1),
        ((ROW, CAUGHT, FEW), 3),
        ((ROW, MISSED, FEW), 1),
        ((EXCEEDED, UNKNOWN), 1),
    ],
)
def test_the_exit_status_says_whether_anything_was_unexpected(monkeypatch, rows, status):
    given(monkeypatch, *rows)
    done = invoke("--all")
    assert done.exit_code == status
    shown = json.loads(invoke("--all", "--json").stdout)
    assert [row["name"] for row in shown] == [row.name for row in rows]


def test_what_is_undecided_is_named_with_the_samples_that_decide(monkeypatch, tmp_path):
    given(monkeypatch, ROW, CAUGHT, FEW, UNKNOWN)
    done = invoke("--all", "--out", tmp_path)
    shown = " ".join(done.stdout.split())
    assert done.exit_code == 3
    assert "1 of 1 honest claims held, and 1 of 3" in shown
    assert "2 had too few samples and are undecided" in shown
    page = (tmp_path / "audit.html").read_text()
    for text in (shown, page):
        assert "broken-z (61,000), broken-w (not known at this epsilon and confidence)" in text
    assert "UNEXPECTED" not in page


def test_the_list_says_how_many_samples_each_needs():
    listed = {one["name"]: one["fewest_samples"] for one in json.loads(invoke("--json").stdout)}
    assert listed["report-krr"] == 0
    assert listed["broken-own-bin-noise"] == 27
    assert "61,000" in invoke().stdout


def test_the_page_stands_alone_and_names_what_was_unexpected(monkeypatch, tmp_path):
    given(monkeypatch, ROW, EXCEEDED, CAUGHT, MISSED, replace(ROW, conditional_on="Gaussian noise"))
    assert invoke("--all", "--out", tmp_path).exit_code == 1
    page = (tmp_path / "audit.html").read_text()
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "<report>" not in page
    assert "UNEXPECTED: too-little, broken-y." in page
    assert "2 of 3 honest claims held, and 1 of 2" in page
    assert "conditional on Gaussian noise" in page


@pytest.mark.parametrize(
    "arguments",
    [
        ("report-kr",),
        ("report-krr", "--all"),
        ("--all", "--jobs", 0),
        ("report-krr", "--samples", 1),
        ("report-krr", "--confidence", 1),
        ("report-krr", "--epsilon", 0),
        ("report-krr", "--epsilon", 17),
    ],
)
def test_impossible_requests_are_refused(arguments):
    done = invoke(*arguments)
    assert isinstance(done.exception, InvalidParameter)
    assert done.stdout == ""


def test_a_wrong_name_is_answered_with_the_nearest():
    assert "report-krr" in str(invoke("report-kr").exception)
