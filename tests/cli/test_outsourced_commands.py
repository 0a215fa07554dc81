"""The command line: two processes that share only a release directory and a pipe do the whole job."""

import io
import json
import shlex
import shutil
import stat
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.budget import SQLiteLedger
from dpbandits.cli import main
from dpbandits.cli.outsourced import app
from dpbandits.errors import DPBanditsError, ProtocolError
from dpbandits.outsourced import Curator, Modeler, PipeAnswers, PublishedRows
from dpbandits.privacy.definitions import RowDP

PYTHON = [sys.executable, "-c", "from dpbandits.cli import main; main()", "outsourced"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 150
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 10, n)
    effect = np.exp(-((age - 50) ** 2) / 300 - (dose - 4) ** 2 / 8)
    lines = ["id,age,dose,effect"] + [f"p{i},{age[i]},{dose[i]},{effect[i]}" for i in range(n)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def invoke(*arguments, text=None):
    """A command in this process, its errors as the command line shows them."""
    result = CliRunner().invoke(app, list(arguments), input=text)
    shown = result.stderr
    if isinstance(result.exception, DPBanditsError):
        shown += f"{type(result.exception).__name__}: {result.exception}"
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=shown)


def curate(folder, *more, epsilon="2", objective=("--objective", "effect")):
    return invoke(
        "curate", str(folder / "table.csv"), "--columns", "age,dose", "--bounds", "20:80,0:10",
        "--epsilon", epsilon, "--out", str(folder / "release"), "--secret", str(folder / "secret"),
        *objective, *more,
    )  # fmt: skip


def answering(folder, *more):
    return shlex.join([*PYTHON, "answer", str(folder / "secret"), *more])


def optimise(folder, *more, answers=None):
    return invoke("optimise", str(folder / "release"), "--answers", answers or answering(folder), *more)


def test_two_processes_do_the_whole_job_and_anyone_rebuilds_it(table):
    done = curate(table)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "Two positions of a row that are more than" in shown
    assert "Opposite corners lose epsilon" in shown
    log, plot = table / "choices.jsonl", table / "plot.png"
    done = subprocess.run(
        [
            *PYTHON, "optimise", str(table / "release"), "--answers", answering(table), "--steps", "15",
            "--log", str(log), "--plot", str(plot),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["asked"] == 15
    assert plot.read_bytes().startswith(b"\x89PNG")
    # A third party with the release and the log alone:
    header, *entries = [json.loads(line) for line in log.read_text().splitlines()]
    pairs = [(entry["row"], entry["answer"]) for entry in entries]
    rebuilt = Modeler.replay(header["modeler"], PublishedRows.load(table / "release"), pairs)
    assert rebuilt.recommend() == result["row"]
    assert Curator.open(table / "secret").answered == pairs
    # Going on from the log: ten more rows, none of the first fifteen again.
    done = optimise(table, "--steps", "25", "--log", str(log))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line)["row"] for line in log.read_text().splitlines()[1:]]
    assert len(rows) == len(set(rows)) == 25


def test_a_modeler_that_lost_an_answer_gets_it_again(table):
    assert curate(table).returncode == 0
    log = table / "choices.jsonl"
    assert optimise(table, "--steps", "6", "--log", str(log)).returncode == 0
    whole = log.read_text()
    log.write_text(whole[: whole[:-1].rfind("\n") + 5])  # died while writing the last line
    done = optimise(table, "--steps", "6", "--log", str(log))
    assert done.returncode == 0, done.stderr
    assert log.read_text() == whole
    assert len(Curator.open(table / "secret").answered) == 6


def test_standard_streams_are_a_pipe_too(table):
    assert curate(table).returncode == 0
    folder = str(table / "secret")
    curator = subprocess.Popen(
        [*PYTHON, "answer", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    modeler = subprocess.Popen(
        [*PYTHON, "optimise", str(table / "release"), "--steps", "5"],
        stdin=curator.stdout, stdout=curator.stdin, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    curator.stdin.close()
    curator.stdout.close()
    _, errors = modeler.communicate(timeout=60)
    assert modeler.returncode == 0, errors
    assert '"asked": 5' in errors
    assert curator.wait(timeout=60) == 0
    assert len(Curator.open(folder).answered) == 5


def test_a_person_can_type_the_answers(table):
    assert curate(table).returncode == 0
    arguments = ("optimise", str(table / "release"), "--steps", "3")
    done = invoke(*arguments, "--minimise", "--lengthscale", "8", text="0.5\n0.25\n0.75\n")
    assert done.returncode == 0, done.stderr
    assert '"answer": 0.25' in done.stderr
    assert [list(json.loads(line)) for line in done.stdout.splitlines()] == [["ask"]] * 3
    for words in ("much\n", "[1]\n", "NaN\n", ""):
        assert invoke(*arguments, text=words).returncode == 1
    greeting = json.dumps({"release": "another"})
    assert "another release" in invoke(*arguments, text=greeting + "\n").stderr


def test_answers_by_a_command_and_noised(table):
    script = table / "evaluate.py"
    script.write_text("import sys; print(int(sys.argv[-1][1:]) / 100)")
    done = curate(
        table, "--ids", "id", "--cap", "4", "--answer-epsilon", "1", "--answer-bounds", "0:1", objective=()
    )
    assert done.returncode == 0, done.stderr
    assert "the released positions and the noised answers (covered)" in done.stdout
    answers = answering(table, "--command", f"{sys.executable} {script}")
    done = optimise(table, "--steps", "4", answers=answers)
    assert done.returncode == 0, done.stderr
    done = optimise(table, "--steps", "5", answers=answers)
    assert done.returncode == 1
    assert "expected at most 4, the curator" in done.stderr


def test_one_clear_error_each(table):
    def fails(done, *texts):
        assert done.returncode == 1, done.stdout
        for text in texts:
            assert text in " ".join(done.stderr.split())

    fails(curate(table, epsilon="-1"), "InvalidParameter", "epsilon")
    fails(curate(table, "--format", "xml"), "npy or parquet")
    fails(curate(table, "--answer-bounds", "0:1"), "--answer-epsilon")
    fails(curate(table, "--account", "ward"), "ledger")
    assert curate(table).returncode == 0
    fails(curate(table, "--cap", "9"), "finished release in this directory has other parameters")
    fails(optimise(table, "--steps", "500"), "150 rows")
    fails(optimise(table, answers="/no/such/program"), "could not be started")
    fails(optimise(table, answers=f"{sys.executable} -c 'print(3)'"), "protocol")
    fails(optimise(table, answers=f"{sys.executable} -c pass"), "ended")
    other = table / "other"
    other.mkdir()
    (other / "table.csv").write_text((table / "table.csv").read_text())
    assert curate(other).returncode == 0
    fails(optimise(table, answers=answering(other)), "another release")
    for option in ("--variance", "--mean"):
        fails(optimise(table, "--steps", "2", option, "2"), "pass --lengthscale too")
    fails(optimise(table, "--steps", "2", "--plot", str(table / "no" / "plot.png")), "is not a folder")
    log = table / "log.jsonl"
    assert optimise(table, "--steps", "2", "--log", str(log)).returncode == 0
    fails(optimise(table, "--steps", "3", "--log", str(log), "--seed", "9"), "other options")
    log.write_text("{}\n")
    fails(optimise(table, "--steps", "3", "--log", str(log)), "not written by this command")


def test_a_ledger_on_the_command_line(table):
    book = ("--ledger", str(table / "book.db"), "--account", "ward", "--budget", "3")
    assert curate(table, *book).returncode == 0
    again = table / "again"
    again.mkdir()
    (again / "table.csv").write_text((table / "table.csv").read_text())
    done = curate(again, *book)
    assert done.returncode == 1
    assert "BudgetExceeded" in done.stderr
    answers = answering(table, "--ledger", str(table / "book.db"))
    assert optimise(table, "--steps", "3", answers=answers).returncode == 0


def test_a_finished_release_is_written_again_and_paid_once(table):
    """The release directory was lost, or could not be written: curate again gives the same release."""
    book = ("--ledger", str(table / "book.db"), "--account", "ward", "--budget", "2")
    (table / "release").write_text("in the way")
    done = curate(table, *book)
    assert done.returncode == 1
    assert "something else" in done.stderr
    ledger = SQLiteLedger(table / "book.db")
    assert ledger.balance("ward").spent_epsilon == 0
    (table / "release").unlink()
    assert curate(table, *book).returncode == 0
    first = PublishedRows.load(table / "release")
    shutil.rmtree(table / "release")
    done = curate(table, *book)
    assert done.returncode == 0, done.stderr
    assert (PublishedRows.load(table / "release").inputs == first.inputs).all()
    assert ledger.balance("ward").spent_epsilon == 2
    assert "created with a ledger" in invoke("answer", str(table / "secret"), text="").stderr


def test_a_curator_that_refuses_is_reported(table):
    assert curate(table, "--cap", "2").returncode == 0
    held = PublishedRows.load(table / "release")
    with PipeAnswers(answering(table), release_id=held.release_id) as source:
        first = source.ask(0)
        assert source.ask(0) == first
        source.ask(1)
        with pytest.raises(DPBanditsError, match="all 2 answers"):
            source.ask(2)
        with pytest.raises(DPBanditsError, match="rows 0 to 149"):
            source.ask(10_000)
    with pytest.raises(DPBanditsError):
        source.ask(3)


def test_bad_requests_get_an_error_line(table):
    assert curate(table).returncode == 0
    done = subprocess.run(
        [*PYTHON, "answer", str(table / "secret")],
        input='\nhello\n{"ask": "x"}\n{"ask": true}\n{"ask": 1, "more": 2}\n[1]\n{"again": 5}\n{"ask": 5}\n',
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["answered"] == 0
    assert [line["error"] for line in lines[1:6]] == ["InvalidData"] * 5
    assert lines[6]["error"] == "UnknownDecision"
    assert isinstance(lines[7]["answer"], float)


def test_why_an_objective_failed_stays_with_the_curator(command, monkeypatch, table):
    """Exit status, missing number and no program are one reply and one standard error, which ssh hands on."""
    assert curate(table, "--ids", "id", objective=()).returncode == 0
    told = set()
    for program, reason in (
        ("import sys; sys.exit(7)", "exit status 7"),
        ("import sys; sys.exit('Ann is ill')", "exit status 1"),
        ("print('none')", "no number"),
        ("print('nan')", "NaN"),
        (None, "FileNotFoundError"),
    ):
        objective = "/no/such/program" if program is None else shlex.join([sys.executable, "-c", program])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"ask": 3}\n')))
        done = command("outsourced", "answer", table / "secret", "--command", objective)
        assert done.status == 0
        told.add((done.out.splitlines()[1], done.err))
        last = (table / "secret" / "failures.log").read_text().splitlines()[-1]
        assert reason in last
        assert "row 3" in last
    refusal = '{"row": 3, "error": "ProtocolError", "message": "no answer was given"}'
    assert told == {(refusal, "0 answers given, 0 in all\n")}
    assert stat.S_IMODE((table / "secret" / "failures.log").stat().st_mode) == 0o600
    done = optimise(table, "--steps", "3", answers=answering(table, "--command", "/no/such/program"))
    assert "the curator refused: no answer was given" in done.stderr


def test_failed_evaluations_use_the_cap_and_a_restart_does_not_give_them_back(table):
    """Two of three fail, in three processes; the fourth evaluation is refused and does not run."""
    assert curate(table, "--ids", "id", "--cap", "3", objective=()).returncode == 0
    ran, script = table / "ran", table / "evaluate.py"
    script.write_text(f"import sys; open({str(ran)!r}, 'a').write('x'); sys.exit(1) if {{}} else print(0.5)")
    source = script.read_text()
    command = ("--command", shlex.join([sys.executable, str(script)]))
    replies = []
    for fails in (True, True, False, False):
        script.write_text(source.format(fails))
        done = invoke("answer", str(table / "secret"), *command, text=f'{{"ask": {len(replies)}}}\n')
        replies.append(json.loads(done.stdout.splitlines()[1]))
    assert [reply.get("error") for reply in replies] == [
        "ProtocolError", "ProtocolError", None, "HorizonExceeded",
    ]  # fmt: skip
    assert ran.read_text() == "xxx"


def test_curate_again_with_another_table_is_refused(table):
    """The finished secret is one table's: the other's rows would have been thought released."""
    assert curate(table).returncode == 0
    path = table / "table.csv"
    sound = path.read_text()
    shutil.rmtree(table / "release")
    lines = sound.splitlines()
    own, age, dose, effect = lines[4].split(",")
    for other in (f"{own},50.0,{dose},{effect}", f"{own},{age},{dose},0.25"):
        path.write_text("\n".join([*lines[:4], other, *lines[5:]]))
        done = curate(table)
        assert done.returncode == 1
        assert "another table" in done.stderr
        assert not (table / "release").exists()
    path.write_text(sound)
    assert curate(table).returncode == 0


def test_ordinary_mistakes_are_one_line(table, monkeypatch, capsys):
    """Missing folders, files for folders, folders for files, what is no text: no traceback, nothing made."""
    folder, file = table / "folder", table / "file"
    folder.mkdir()
    file.write_bytes(b"\xff\xfe\x00")
    missing = table / "no" / "such"

    def fails(*arguments):
        monkeypatch.setattr(sys, "argv", ["dpbandits", "outsourced", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        assert left.value.code == 1, shown.out
        assert len(shown.err.splitlines()) == 1, shown.err
        assert ": " in shown.err

    words = ("--columns", "age,dose", "--bounds", "20:80,0:10", "--epsilon", "1", "--objective", "effect")
    good = table / "table.csv"
    (table / "text.csv").write_bytes(b"age,dose,effect\n\xff,1,2\n")
    for path in (table / "text.csv", table / "none.csv", folder, file):
        fails("curate", path, *words, "--out", table / "out", "--secret", table / "s")
    for out, secret in ((file, table / "s1"), (file / "x", table / "s2"), (table / "out", file)):
        fails("curate", good, *words, "--out", out, "--secret", secret)
    fails(
        "curate", good, *words, "--out", table / "out", "--secret", table / "s3", "--ledger", missing / "l.db"
    )
    fails("curate", good, *words, "--out", table / "out", "--secret", table / "s4", "--ledger", folder)
    for secret in (missing, file, folder):
        fails("answer", secret)
    for release in (missing, file, folder):
        fails("optimise", release)
    assert curate(table).returncode == 0
    answers = ("--answers", answering(table))
    for log in (folder, missing / "log", file):
        fails("optimise", table / "release", *answers, "--log", log)
    for plot in (folder, file, missing / "plot.png"):
        fails("optimise", table / "release", *answers, "--plot", plot)
    assert file.read_bytes() == b"\xff\xfe\x00"
    assert list(folder.iterdir()) == []
    assert Curator.open(table / "secret").answered == []


def test_what_others_can_write_is_refused(table):
    book = table / "book.db"
    SQLiteLedger(book).open_account("ward", privacy=RowDP(3, distance=1))
    book.chmod(0o666)
    done = curate(table, "--ledger", str(book), "--account", "ward")
    assert done.returncode == 1
    assert "written by others" in done.stderr
    book.chmod(0o600)
    assert curate(table, "--ledger", str(book), "--account", "ward").returncode == 0
    (table / "secret").chmod(0o770)
    for done in (
        curate(table, "--ledger", str(book), "--account", "ward"),
        invoke("answer", str(table / "secret"), "--ledger", str(book), text=""),
    ):
        assert done.returncode == 1
        assert "open to other users" in done.stderr
    (table / "secret").chmod(0o700)
    table.chmod(0o777)  # others could put another secret in its place
    done = invoke("answer", str(table / "secret"), "--ledger", str(book), text="")
    table.chmod(0o700)
    assert done.returncode == 1
    assert "written by others" in done.stderr


def test_a_line_that_is_no_request_does_not_end_the_conversation(table):
    """Nesting beyond Python's stack, bytes that are no UTF-8, 10 MB in a line: errors, then answers."""
    assert curate(table).returncode == 0
    lines = [
        b"[" * 60_000,
        b'{"ask": ' * 6000,
        b'\xff\xfe{"ask": 1}',
        b'{"ask": 1' + b"0" * 10_000_000 + b"}",
    ]
    done = subprocess.run(
        [*PYTHON, "answer", str(table / "secret")],
        input=b"\n".join([*lines, b'{"ask": 5}', b'{"again": 5}', b'{"ask": 1.0}', b'{"ask": NaN}']),
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply.get("error") for reply in replies[1:5]] == ["InvalidData"] * 4
    assert replies[5] == replies[6]
    assert isinstance(replies[5]["answer"], float)
    assert [reply.get("error") for reply in replies[7:]] == ["InvalidData"] * 2


def test_a_modeler_that_hangs_up_is_no_error(table):
    assert curate(table).returncode == 0
    curator = subprocess.Popen(
        [*PYTHON, "answer", str(table / "secret")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    curator.stdout.readline()
    curator.stdout.close()
    curator.stdin.write(b'{"ask": 5}\n{"ask": 6}\n')
    curator.stdin.close()
    errors = curator.stderr.read().decode()
    curator.stderr.close()
    assert curator.wait(timeout=60) == 0, errors
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
    assert Curator.open(table / "secret").answered[0][0] == 5  # durable before the reply was tried


@pytest.mark.parametrize(
    "reply",
    ["[" * 60_000, "{", "\\xff", '{"row": 0, "answer": true}', '{"row": 0, "answer": 1' + "0" * 400 + "}"],
)
def test_a_curator_that_talks_nonsense_is_one_clear_error(table, reply):
    assert curate(table).returncode == 0
    held = PublishedRows.load(table / "release")
    greeting = json.dumps({"release": held.release_id, "answered": 0, "cap": None})
    script = table / "nonsense.py"
    script.write_text(f"print({greeting!r}, flush=True); input(); print({reply!r}, flush=True); input()")
    source = PipeAnswers(f"{sys.executable} {script}", release_id=held.release_id)
    with source, pytest.raises(ProtocolError):
        source.ask(0)
    script.write_text(f"print({json.dumps({'release': held.release_id, 'cap': 'x'})!r}, flush=True)")
    with pytest.raises(ProtocolError, match="greeting"):
        PipeAnswers(f"{sys.executable} {script}", release_id=held.release_id)


FIRST = '{"modeler": {}}\n'
ENTRIES = (
    '{"row": Infinity, "answer": 1}\n',
    '{"row": 1.5, "answer": 1}\n',
    f'{{"row": 1, "answer": {10**400}}}\n',
)


@pytest.mark.parametrize(
    "damage",
    [
        *("", '{"modeler', "\udcff\n", "[" * 60_000 + "\n", '{"modeler": 1}\n'),
        *(FIRST + entry for entry in ENTRIES),
    ],
)
def test_a_damaged_log_of_choices(table, damage):
    """Nothing or a torn first line: nothing was asked yet, begin. Anything else is refused."""
    assert curate(table).returncode == 0
    log = table / "log.jsonl"
    log.write_bytes(damage.encode("utf-8", "surrogateescape"))
    done = invoke("optimise", str(table / "release"), "--steps", "2", "--log", str(log), text="0.5\n0.25\n")
    if damage.endswith("\n"):
        assert done.returncode == 1
        assert "not written by this command" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert len(log.read_text().splitlines()) == 3


def test_help_names_every_option():
    for command in ("curate", "answer", "optimise"):
        result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
        assert result.exit_code == 0
        assert "--" in result.output
