"""Ordinary mistakes with every command: one line on standard error, never a traceback, and no value shown."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.cli import console

PROGRAM = [sys.executable, "-c", "from dpbandits.cli import main; main()"]
SECRET = "s3cret"
REFUSED, USAGE, DEFECT, INTERRUPTED = 1, 2, 70, 130


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files that are right, and of all that can be wrong with one."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    rows = [f"p{i},{a:.3f},{i % 2},{r:.3f}" for i, (a, r) in enumerate(rng.random((60, 2)))]
    header = "id,age,arm,reward"
    tables = {
        "log": rows,
        "text": [*rows, f"p,{SECRET},0,0.5"],
        "gap": [*rows, "p,NA,0,0.5"],
        "outside": [*rows, "p,7777,0,0.5"],
        "infinite": [*rows, "p,inf,0,0.5"],
        "ragged": [*rows, f"p,{SECRET}"],
        "rows": [],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "empty.csv").write_text("")
    (folder / "twice.csv").write_text("id,age,age,reward\n")
    (folder / "latin.csv").write_bytes(b"id,age,arm,reward\np,\xff\xe9,0,0.5\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "long.csv").write_text(f"{header}\np,{'9' * 200_000},0,0.5\n")
    (folder / "log.xlsx").write_bytes(b"PK")
    (folder / "no.parquet").write_bytes(b"PAR1 nothing PAR1")
    (folder / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    (folder / "folder").mkdir()
    (folder / "folder.csv").mkdir()
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deeper.json").write_text('{"policy": ' * 100_000)
    (folder / "latin.json").write_bytes(b'{"policy": "\xff"}')
    (folder / "list.json").write_text("[]")
    (folder / "cut.json").write_text("{")
    (folder / "nobody.json").write_text('{"policy": "central.Nobody"}')
    (folder / "short.json").write_text('{"policy": "central.GPBandit", "horizon": 3}')
    (folder / "surprise.json").write_text('{"policy": "baselines.Uniform", "surprise": 1}')
    (folder / "text.json").write_text("hello")
    (folder / "huge.json").write_text('{"policy": "central.GPBandit", "horizon": 1e400}')
    (folder / "digits.json").write_text('{"policy": "central.GPBandit", "horizon": ' + "9" * 5000 + "}")
    (folder / "bad.toml").write_text("= 3")
    (folder / "deep.toml").write_text("a = " + "[" * 50_000)
    (folder / "latin.toml").write_bytes(b"a = '\xff'")
    (folder / "people.toml").write_text(
        'path = "nowhere.csv"\n[columns.age]\nlow = 0\nhigh = 1\n[label]\ncolumn = "reward"\ncuts = [0.5]\n'
    )
    spec = dpb.local.Spec(contexts=dpb.Box(low=[0], high=[1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
    (folder / "spec.json").write_text(spec.to_json())
    (folder / "versions.jsonl").write_text(dpb.local.Server(spec).publish().to_json(spec) + "\n")
    (folder / "reports").write_bytes(b"DPBREP1\n" + bytes(4))
    (folder / "held.state").write_bytes(b"kept")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, files):
    """Fill the working directory with these files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpbandits._dask.SECONDS", 0.2)
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    return tmp_path


COLUMNS = "--context age --action arm --reward reward --bounds 0:1,0:1 --epsilon 1 --one-row-per-user"
LEARN = f"{COLUMNS} --out policy"
CURATE = "--columns age --bounds 0:1 --epsilon 1 --objective reward --out release --secret secret"
LOCAL = "--spec spec.json --published versions.jsonl"

MISTAKES = [
    # tables, for everything that reads one
    *[
        f"central learn {table} {LEARN}"
        for table in [
            "nowhere.csv",
            "folder.csv",
            "folder",
            "log.xlsx",
            "empty.csv",
            "rows.csv",
            "twice.csv",
            "text.csv",
            "gap.csv",
            "outside.csv",
            "infinite.csv",
            "ragged.csv",
            "latin.csv",
            "binary.csv",
            "long.csv",
            "no.parquet",
            "cut.csv.gz",
        ]
    ],
    *[f"outsourced curate {table} {CURATE}" for table in ("nowhere.csv", "rows.csv", "latin.csv")],
    # words
    f"central learn log.csv {LEARN} --context nobody",
    f"central learn log.csv {LEARN} --context age,age",
    f"central learn log.csv {LEARN} --bounds 0-1,0:1",
    f"central learn log.csv {LEARN} --bounds 0:x,0:1",
    f"central learn log.csv {LEARN} --bounds 0:1e400,0:1",
    f"central learn log.csv {LEARN} --bounds 0:nan,0:1",
    f"central learn log.csv {LEARN} --bounds 0:1",
    f"central learn log.csv {LEARN} --epsilon 1e300",
    f"central learn log.csv {LEARN} --epsilon nan",
    f"central learn log.csv {LEARN} --epsilon -1",
    f"central learn log.csv {LEARN} --delta 2",
    f"central learn log.csv {LEARN} --lengthscale 1e-300",
    f"central learn log.csv {LEARN} --lengthscale inf",
    f"central learn log.csv {LEARN} --bound inf",
    f"central learn log.csv {LEARN} --arms 0",
    f"central learn log.csv {LEARN} --arms ,",
    f"central learn log.csv {LEARN} --user id",
    f"central learn log.csv {LEARN} --propensity reward --rows-per-user 99999999999999999999999",
    # folders and ledgers
    f"central learn log.csv {COLUMNS} --out log.csv",
    f"central learn log.csv {COLUMNS} --out log.csv/policy",
    f"central learn log.csv {COLUMNS} --out folder --ledger book --account a --budget x",
    f"central learn log.csv {LEARN} --ledger folder --account a --budget 2,0.1",
    f"central learn log.csv {LEARN} --ledger nowhere/book --account a --budget 2,0.1",
    f"central learn log.csv {LEARN} --ledger log.csv --account a --budget 2,0.1",
    f"central learn log.csv {LEARN} --ledger book --account nobody",
    f"central learn log.csv {LEARN} --ledger book --account a --budget inf,0.1",
    f"central learn log.csv {LEARN} --ledger book --account a --budget 1e9999999,0.1",
    f"central learn log.csv {LEARN} --ledger book --account a\tb --budget 2,0.1",
    "central predict nowhere log.csv",
    "central predict folder log.csv",
    "central predict log.csv log.csv",
    "central evaluate folder log.csv",
    # configurations
    *[
        f"guarantee {config}"
        for config in [
            "nowhere.json",
            "folder",
            "deep.json",
            "deeper.json",
            "latin.json",
            "list.json",
            "cut.json",
            "text.json",
            "nobody.json",
            "short.json",
            "surprise.json",
            "huge.json",
            "digits.json",
            "bad.toml",
            "deep.toml",
            "latin.toml",
            "people.toml",
            "log.csv",
        ]
    ],
    "calibrate gaussian --epsilon 0 --delta 1e-6",
    "calibrate gaussian --epsilon 1 --delta 0",
    "calibrate gaussian --epsilon 1 --delta 1.5",
    "calibrate gaussian --epsilon 1e300 --delta 1e-6",
    "calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1e308",
    "calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity nan",
    "calibrate gaussian --epsilon 1 --delta 1e-320",
    # studies and audits
    "run --data nobody",
    "run --data folder",
    "run --data nowhere.toml",
    "run --data people.toml",
    "run --data latin.toml",
    "run --data deep.toml",
    "run --data synthetic-income --epsilon 0",
    "run --data synthetic-income --delta 1",
    "run --data synthetic-income --reps 0",
    "run --data synthetic-income --seed 999999",
    "run --data synthetic-income --horizon 0 --reps 1 --jobs 1",
    "run --data synthetic-income --horizon 99999999999999999999 --reps 1 --jobs 1",
    "run --data synthetic-income --horizon 200 --jobs 0 --reps 1",
    "run --data synthetic-income --horizon 200 --seed -5",
    "run --data synthetic-income --out log.csv",
    "run --data synthetic-income --out log.csv/report",
    "audit nobody",
    "audit usca-answer --samples 0",
    "audit usca-answer --epsilon nan",
    "audit usca-answer --samples 10 --out log.csv",
    "lab compare nowhere.toml --out found",
    "lab compare nowhere.toml --out found --reps 0",
    # devices and their server
    "local simulate --users 10 --epsilon 99",
    "local simulate --users 10 --epsilon 1 --world nowhere",
    "local simulate --users 10 --epsilon 1 --source 1,2",
    "local simulate --users 10 --epsilon 1 --source 1e9,2,x,4",
    "local simulate --users 10 --epsilon 1 --dim 99999999",
    "local simulate --users 10 --epsilon 1 --out log.csv",
    "local simulate --users 10",
    "local simulate --data nowhere --epsilon 1",
    "local simulate --data people.toml --epsilon 1",
    "local simulate --data bad.toml --epsilon 1",
    "local simulate --data deep.toml --epsilon 1",
    "local simulate --data latin.toml --epsilon 1",
    f"local aggregate log.csv {LOCAL}",
    f"local aggregate held.state {LOCAL}",
    f"local aggregate reports {LOCAL}",
    f"local aggregate reports {LOCAL} --without held.state",
    f"local aggregate reports {LOCAL} --without folder",
    f"local aggregate reports {LOCAL} --out held.state",
    f"local aggregate reports {LOCAL} --out nowhere/counts",
    f"local aggregate reports {LOCAL} --cluster tcp://nowhere.invalid:1",
    *[
        f"local aggregate reports --spec {spec} --published versions.jsonl"
        for spec in ("deep.json", "latin.json", "list.json", "text.json", "log.csv", "nowhere.json", "folder")
    ],
    *[
        f"local aggregate reports --spec spec.json --published {versions}"
        for versions in ("deep.json", "latin.json", "list.json", "text.json", "spec.json")
    ],
    # the outsourced room
    f"outsourced curate log.csv {CURATE} --secret log.csv",
    f"outsourced curate log.csv {CURATE} --out log.csv",
    f"outsourced curate log.csv {CURATE} --ledger folder --account a",
    "outsourced answer nowhere",
    "outsourced answer folder",
    "outsourced answer log.csv",
    "outsourced optimise nowhere",
    "outsourced optimise folder",
    "outsourced optimise log.csv",
]


def one_line(err):
    lines = [line for line in err.splitlines() if not line.startswith("Warning: ")]
    return len(lines) == 1


@pytest.mark.parametrize("words", MISTAKES)
def test_an_ordinary_mistake_is_one_line(place, command, words):
    before = Path("held.state").read_bytes(), Path("log.csv").read_bytes()
    done = command(*words.split(" "))
    assert "Traceback" not in done.err
    assert done.status in (REFUSED, USAGE), done.err
    assert done.status == USAGE or one_line(done.err), done.err
    assert done.out == ""
    assert not Path("report").exists()
    for value in (SECRET, "7777"):
        assert value not in done.err + done.out
    assert (Path("held.state").read_bytes(), Path("log.csv").read_bytes()) == before


def test_no_table_of_mistakes_is_short():
    assert len(set(MISTAKES)) == len(MISTAKES) > 100


@pytest.mark.parametrize("error", [KeyError, ValueError, RecursionError, AssertionError, RuntimeError])
def test_a_defect_is_one_line_without_its_text_and_says_where(capfd, error):
    def command():
        raise error(SECRET)

    with pytest.raises(SystemExit) as left:
        console.guarded(command)
    said = capfd.readouterr().err
    assert left.value.code == DEFECT
    assert len(said.splitlines()) == 1
    assert said.startswith(f"{error.__name__}: a defect of dpbandits")
    assert SECRET not in said
    assert "DPBANDITS_TRACEBACK=1" in said


def test_developers_get_the_traceback(monkeypatch):
    monkeypatch.setenv("DPBANDITS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        console.guarded(lambda: 1 // 0)


def test_an_error_of_many_lines_or_marks_is_one_line(capfd):
    def command():
        raise dpb.errors.InvalidData("one\ntwo \x1b[31mthree")

    with pytest.raises(SystemExit):
        console.guarded(command)
    assert capfd.readouterr().err == "InvalidData: one two [31mthree\n"


def test_ctrl_c_is_silent(capfd):
    def command():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as left:
        console.guarded(command)
    assert left.value.code == INTERRUPTED
    assert capfd.readouterr().err == ""


def test_a_full_disk_and_a_reader_that_left():
    words = [*PROGRAM, "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (REFUSED, "OSError: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (REFUSED, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("words", ["guarantee closed.json", f"central learn closed.csv {LEARN}"])
def test_what_may_not_be_read_is_one_line(place, command, words):
    for name in ("closed.json", "closed.csv"):
        Path(name).write_text("{}")
        Path(name).chmod(0)
    done = command(*words.split(" "))
    assert done.status == REFUSED
    assert one_line(done.err)


def test_results_are_replaced_only_when_told(place, command):
    words = [
        "local",
        "simulate",
        "--users",
        "200",
        "--epsilon",
        "2",
        "--dim",
        "1",
        "--json",
        "--out",
        "crowd",
    ]
    assert command(*words).status == 0
    held = Path("crowd/regret.csv").read_bytes()
    refused = command(*words, "--seed", 1_000_005)
    assert refused.status == REFUSED
    assert "--force" in refused.err
    assert Path("crowd/regret.csv").read_bytes() == held
    assert command(*words, "--seed", 1_000_005, "--force").status == 0
    assert Path("crowd/regret.csv").read_bytes() != held
    Path("report").mkdir()
    Path("report/result.json").write_text("mine")
    assert (
        command(
            *["run", "--data", "synthetic-income", "--horizon", "300", "--reps", "1", "--jobs", "1"]
        ).status
        == REFUSED
    )
    assert Path("report/result.json").read_text() == "mine"


def test_counts_are_never_replaced(place, command):
    """Not even by --force: they are a state."""
    spec = dpb.local.Spec.from_json(Path("spec.json").read_text())
    client = dpb.local.Client(spec)
    published = spec.protocol.publishes.from_json(Path("versions.jsonl").read_text(), spec)
    client.choose(published, [0.3])
    Path("one.reports").unlink(missing_ok=True)
    dpb.local.server.aggregation.write_reports("one.reports", [client.report(1.0)])
    words = f"local aggregate one.reports {LOCAL} --json --out counts.state".split(" ")
    assert json.loads(command(*words).out)["accepted"] == 1
    held = Path("counts.state").read_bytes()
    assert command(*words).status == REFUSED
    assert command(*words, "--force").status == USAGE
    assert Path("counts.state").read_bytes() == held
