import csv
import hashlib
import io
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.budget import SQLiteLedger
from dpbandits.central.logged import once
from dpbandits.central.published_function import PublishedFunction
from dpbandits.cli.central import app
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    ForkedState,
    InvalidData,
    InvalidParameter,
    StateError,
)
from dpbandits.privacy.definitions import JointDP

N = 3000


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    age, frailty, arm = rng.uniform(18, 90, N), rng.random(N), rng.integers(3, size=N)
    names = np.array(["diet", "drug", "watch"])
    better = np.where(age > 54, 1, 0)
    reward = np.clip(0.4 + 0.4 * (arm == better) - 0.1 * frailty + 0.1 * rng.standard_normal(N), 0, 1)
    dose = rng.uniform(0, 5, N)
    effect = np.clip(1 - 0.15 * (dose - age / 20) ** 2, 0, 1)
    for path, rows in (("log.csv", slice(0, 2000)), ("held.csv", slice(2000, N))):
        with (folder / path).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["person", "age", "frailty", "arm", "code", "reward", "chance", "dose", "effect"])
            for i in range(N)[rows]:
                values = (age[i], frailty[i], names[arm[i]], arm[i], reward[i], 1 / 3, dose[i], effect[i])
                writer.writerow([f"p{i}", *values])
    return folder


@pytest.fixture
def tables(tmp_path, written):
    """A folder with a table to learn from and another to evaluate on."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


def learn_words(
    tables, *extra, out="policy", bounds="18:90,0:1,0:1", action="arm", reward="reward", unit=True
):
    arguments = ["learn", tables / "log.csv", "--context", "age,frailty", "--action", action]
    arguments += ["--reward", reward, "--bounds", bounds, "--epsilon", "4", "--out", tables / out]
    arguments += ["--horizon", "2000"]
    return [*arguments, *(["--user", "person"] if unit else []), *extra]


def learn(tables, *extra, **options):
    return call(*learn_words(tables, *extra, **options))


def test_learn_predict_evaluate_with_named_arms(tables):
    done = learn(tables, "--propensity", "chance")
    assert done.exit_code == 0, done.output
    text = done.output.replace("\n", " ")
    assert "Joint differential privacy, epsilon = 4" in text
    (tables / "new.csv").write_text("age,frailty\n25,0.5\n80,0.5\n")
    done = call("predict", tables / "policy", tables / "new.csv", "--every-action")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["action"] for row in rows] == ["diet", "drug"]
    assert float(rows[0]["mean:diet"]) > float(rows[0]["mean:drug"])
    done = call("evaluate", tables / "policy", tables / "held.csv", "--propensity", "chance", "--draws", "50")
    assert done.exit_code == 0, done.output
    values = dict(line.split(": ") for line in done.stdout.splitlines() if "[" in line)
    policy, drug = (float(values[name].split()[0]) for name in ("policy", "always drug"))
    assert policy > drug + 0.1
    assert "not a private release" in done.stdout
    words = ["evaluate", tables / "policy", tables / "held.csv", "--propensity", "chance", "--draws", "50"]
    assert call(*words, "--cluster", "person").stdout == done.stdout  # everybody has one row
    assert call(*words, "--cluster", "arm").stdout != done.stdout


def test_integers_are_arms_and_numbers_are_doses(tables):
    assert learn(tables, "--uniform-contexts", action="code").exit_code == 0
    done = learn(tables, action="dose", reward="effect", bounds="18:90,0:1,0:5,0:1", out="doses")
    assert done.exit_code == 0, done.output
    policy = PublishedFunction.load(tables / "doses")
    chosen = policy.actions.points[policy.choose([[30.0, 0.5], [85.0, 0.5]]), 0]
    assert abs(chosen[0] - 1.5) < 1.0
    assert abs(chosen[1] - 4.25) < 1.0
    done = call("evaluate", tables / "doses", tables / "held.csv", "--draws", "20")
    assert done.exit_code == 0, done.output


def test_one_row_per_unit_is_stated_as_unchecked(tables):
    done = learn(tables, "--one-row-per-user", unit=False)
    assert done.exit_code == 0
    assert "rows carry no user id" in done.output.replace("\n", " ")


@pytest.mark.parametrize("spoilt", ["p0", "p1,", "p1,none", "p1,NA"], ids=repr)
def test_a_row_that_cannot_be_used_changes_nothing_that_is_published_about_the_noise(tables, spoilt):
    """A surplus row, and rows whose age is missing or no number."""
    guarantees = []
    for out in ("before", "after"):
        assert learn(tables, "--uniform-contexts", "--arms", "diet,drug,watch", out=out).exit_code == 0
        guarantees.append(PublishedFunction.load(tables / out).guarantee)
        lines = (tables / "log.csv").read_text().splitlines()
        rest = lines[2].split(",")[1 + spoilt.count(",") :]
        lines[2] = ",".join([spoilt, *rest])
        (tables / "log.csv").write_text("\n".join(lines) + "\n")
    assert guarantees[0] == guarantees[1]


@pytest.mark.parametrize(
    ("extra", "unit", "error"),
    [
        ([], False, InvalidParameter),
        (["--one-row-per-user"], True, InvalidParameter),
        (["--one-row-per-user", "--rows-per-user", "2"], False, InvalidParameter),
        (["--bounds", "18:90,0:1"], True, InvalidParameter),
        (["--bounds", "90:18,0:1,0:1"], True, InvalidParameter),
        (["--arms", "diet,drug", "--bounds", "18:90,0:1,0:5,0:1"], True, InvalidParameter),
        (["--propensity", "age"], True, InvalidParameter),
        (["--delta", "0"], True, InvalidParameter),
        (["--lengthscale", "0"], True, InvalidParameter),
        (["--bound", "0"], True, InvalidParameter),
        (["--ledger", "x.sqlite"], True, InvalidParameter),
        (["--horizon", "5000000000000"], True, InvalidParameter),
    ],
)
def test_bad_arguments_and_rows_are_refused(tables, extra, unit, error):
    done = learn(tables, *extra, unit=unit)
    assert isinstance(done.exception, error)
    assert not (tables / "policy").exists()


def test_the_ledger_pays_once_for_all_of_it(tables):
    pay = ["--ledger", tables / "book.sqlite", "--account", "town", "--budget", "5,0.00001"]
    assert learn(tables, *pay).exit_code == 0
    assert isinstance(learn(tables, *pay, out="again").exception, BudgetExceeded)


def test_too_few_rows_are_warned_of_in_one_line(tables, command):
    lines = (tables / "log.csv").read_text().splitlines()[:40]
    (tables / "log.csv").write_text("\n".join(lines) + "\n")
    done = command("central", *learn_words(tables, "--epsilon", "0.01", "--horizon", "39"))
    assert done.status == 0
    assert sum(line.startswith("Warning: publish: ") for line in done.err.splitlines()) == 1


def test_arms_read_off_the_table_are_an_assumption_and_named_ones_are_not(tables):
    read, named = learn(tables), learn(tables, "--arms", "diet,drug,watch", out="named")
    assert "Warning: The list of arms was read from the table" in read.output.replace("\n", " ")
    assert "Warning: The list" not in named.output.replace("\n", " ")
    found = [
        [
            a.enforced
            for a in PublishedFunction.load(tables / name).guarantee.assumptions
            if a.name == "public arms"
        ]
        for name in ("policy", "named")
    ]
    assert found == [[False], []]


def test_named_arms_are_released_whether_or_not_anybody_had_them(tables):
    assert learn(tables, "--arms", "diet,drug,rest,watch").exit_code == 0
    assert PublishedFunction.load(tables / "policy").actions.size == 4


def test_the_histogram_counts_units(tables):
    learn(tables)
    texts = {a.text: a.enforced for a in PublishedFunction.load(tables / "policy").guarantee.assumptions}
    assert [enforced for text, enforced in texts.items() if "histogram of contexts" in text] == [True]
    learn(tables, "--one-row-per-user", unit=False, out="other")
    texts = {a.text: a.enforced for a in PublishedFunction.load(tables / "other").guarantee.assumptions}
    assert [enforced for text, enforced in texts.items() if "histogram of contexts" in text] == [False]


def test_integer_arms_may_be_written_with_zeros(tables):
    text = (tables / "log.csv").read_text().replace(",drug,1,", ",drug,01,").replace(",drug,1,", ",drug,+1,")
    (tables / "log.csv").write_text(text)
    assert learn(tables, action="code").exit_code == 0
    assert PublishedFunction.load(tables / "policy").actions.size == 3
    assert learn(tables, "--arms", "0,1,2", action="code", out="named").exit_code == 0


def test_an_account_with_exactly_the_promise_pays(tables):
    """All of it is one charge."""
    pay = ["--ledger", tables / "book.sqlite", "--account", "town", "--budget", "4,0.000001"]
    done = learn(tables, *pay)
    assert done.exit_code == 0, done.output


def test_predict_and_evaluate_read_a_database_as_they_read_a_file(tables):
    duckdb = pytest.importorskip("duckdb")
    assert learn(tables).exit_code == 0
    with duckdb.connect(str(tables / "shop.db")) as made:
        made.execute(f"CREATE TABLE held AS SELECT * FROM read_csv('{tables}/held.csv')")  # noqa: S608
    url = f"duckdb:///{tables}/shop.db?table=held"
    for words in (("predict", tables / "policy"), ("evaluate", tables / "policy")):
        more = ["--draws", "20"] if words[0] == "evaluate" else []
        shown = [
            call(*words, where, *more).stdout for where in (tables / "held.csv", tables / "he*.csv", url)
        ]
        assert len(shown[0]) > 200
        assert shown[0] == shown[1] == shown[2]


def test_what_was_clipped_to_learn_can_be_clipped_to_predict_and_evaluate(tables):
    assert learn(tables, "--clip", "--arms", "diet,drug,watch", bounds="30:70,0:1,0:1").exit_code == 0
    (tables / "new.csv").write_text("age,frailty\n25,0.5\n95,1.5\n")
    for words in (
        ("predict", tables / "policy", tables / "new.csv"),
        ("evaluate", tables / "policy", tables / "held.csv"),
    ):
        assert isinstance(call(*words).exception, InvalidData)
        assert call(*words, "--clip").exit_code == 0
    rows = list(
        csv.DictReader(io.StringIO(call("predict", tables / "policy", tables / "new.csv", "--clip").stdout))
    )
    assert [row["age"] for row in rows] == ["25", "95"]


def test_a_folder_that_cannot_be_written_shows_before_anything_is_spent(tables):
    (tables / "policy").write_text("a file")
    pay = ["--ledger", tables / "book.sqlite", "--account", "town", "--budget", "5,0.00001"]
    assert isinstance(learn(tables, *pay).exception, InvalidParameter)
    assert not SQLiteLedger(tables / "book.sqlite").balance("town").spent_epsilon
    (tables / "policy").unlink()
    assert learn(tables, *pay).exit_code == 0


PAY = ("--account", "town", "--budget", "4,0.000001")


def pay(tables):
    return ["--ledger", tables / "book.sqlite", *PAY]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_command_gives_the_same_release_and_charges_nothing_more(tables):
    first = learn(tables, *pay(tables))
    held = contents(tables / "policy")
    again = learn(tables, *pay(tables))
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert contents(tables / "policy") == held
    assert SQLiteLedger(tables / "book.sqlite").balance("town").spent_epsilon == 4
    assert "single copy" in first.stdout.replace("\n", " ")


@pytest.mark.parametrize("changed", ["option", "row", "ledger"])
def test_a_folder_of_another_run_is_refused_and_nothing_is_charged(tables, changed):
    assert learn(tables).exit_code == 0
    held, extra = contents(tables / "policy"), []
    if changed == "option":
        extra = ["--epsilon", "3"]
    elif changed == "row":
        lines = (tables / "log.csv").read_text().splitlines()
        assert lines[1] != lines[2]
        (tables / "log.csv").write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    else:
        extra = pay(tables)
    done = learn(tables, *extra)
    assert isinstance(done.exception, InvalidParameter)
    assert contents(tables / "policy") == held
    if changed == "ledger":
        assert not SQLiteLedger(tables / "book.sqlite").balance("town").spent_epsilon


def test_a_folder_that_holds_anything_else_is_left_alone(tables):
    (tables / "policy").mkdir()
    (tables / "policy" / "thesis.tex").write_text("years of work")
    assert isinstance(learn(tables).exception, InvalidParameter)
    assert contents(tables / "policy") == {"thesis.tex": b"years of work"}
    assert not (tables / "policy.private").exists()


@pytest.mark.parametrize(
    ("step", "nth"),
    [
        ("write_durably", 0),
        ("replace_durably", 0),
        ("write_folder", 0),
        ("write_durably", 1),
        ("replace_durably", 1),
        ("replace_durably", 2),
    ],
)
def test_whatever_interrupts_one_charge_and_one_release(tables, monkeypatch, step, nth):
    """A power cut at each step on disk, then the same command again."""
    calls = {"left": nth}
    real = getattr(once, step)

    def cut(*arguments, **options):
        if calls["left"] == 0:
            raise KeyboardInterrupt
        calls["left"] -= 1
        return real(*arguments, **options)

    monkeypatch.setattr(once, step, cut)
    done = learn(tables, *pay(tables))
    monkeypatch.undo()
    staged = tables / "policy.private" / "release"
    drawn = contents(staged) if staged.exists() else None
    assert done.exit_code != 0
    assert not (tables / "policy").exists()
    assert learn(tables, *pay(tables)).exit_code == 0
    assert drawn in (None, contents(tables / "policy"))
    assert SQLiteLedger(tables / "book.sqlite").balance("town").spent_epsilon == 4
    assert not [path.name for path in tables.iterdir() if path.name.startswith(".")]


def test_another_release_is_not_taken_for_that_of_a_run_that_was_stopped(tables, monkeypatch):
    assert learn(tables, "--epsilon", "3", out="another").exit_code == 0
    monkeypatch.setattr(once, "write_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    learn(tables)
    monkeypatch.undo()
    (tables / "another").rename(tables / "policy")
    assert isinstance(learn(tables).exception, InvalidParameter)


def test_the_root_of_all_folders_is_no_place(tables):
    assert isinstance(learn(tables, out="/").exception, InvalidParameter)


@pytest.mark.parametrize("ledger", [False, True])
def test_a_release_that_was_made_and_lost_is_never_drawn_again(tables, ledger):
    extra = pay(tables) if ledger else []
    assert learn(tables, *extra).exit_code == 0
    shutil.rmtree(tables / "policy")
    assert isinstance(learn(tables, *extra).exception, StateError)
    assert not (tables / "policy").exists()


def test_of_two_copies_of_a_run_one_makes_its_release(tables, monkeypatch):
    """Stopped after its charge, copied with its table, and run in both places."""
    monkeypatch.setattr(once, "write_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    learn(tables, *pay(tables))
    monkeypatch.undo()
    other = tables / "elsewhere"
    other.mkdir()
    shutil.copytree(tables / "policy.private", other / "policy.private")
    assert learn(tables, *pay(tables)).exit_code == 0
    assert isinstance(learn(tables, *pay(tables), out="elsewhere/policy").exception, ForkedState | StateError)
    assert not (other / "policy").exists()


@pytest.mark.parametrize("too_little", ["3.9,0.000001", "4,0", "1"])
def test_a_budget_that_cannot_pay_for_all_of_it_is_refused_before_anything(tables, too_little):
    """Not after the histogram was charged and drawn; and no account is opened that can never be enough."""
    book = ["--ledger", tables / "book.sqlite", "--account", "town"]
    assert isinstance(learn(tables, *book, "--budget", too_little).exception, BudgetExceeded)
    assert not (tables / "policy.private").exists()
    assert learn(tables, *book, "--budget", "4,0.000001").exit_code == 0


def test_an_account_with_too_little_left_pays_for_no_part(tables):
    ledger = SQLiteLedger(tables / "book.sqlite")
    ledger.open_account("town", privacy=JointDP(4.5, 1e-5))
    ledger.charge("town", charge_id="other", cost=JointDP(1.0))
    book = ["--ledger", tables / "book.sqlite", "--account", "town"]
    assert isinstance(learn(tables, *book).exception, BudgetExceeded)
    assert ledger.balance("town").spent_epsilon == 1
    assert (
        learn(tables, *book, "--epsilon", "3").exit_code == 0
    )  # what was not charged stands in nobody's way


@pytest.mark.parametrize(
    "words", [["--budget", "5"], ["--account", "town"], ["--account", "t", "--budget", "5"]]
)
def test_a_budget_without_a_ledger_is_refused(tables, words):
    assert isinstance(learn(tables, *words).exception, InvalidParameter)
    assert not (tables / "policy").exists()


@pytest.mark.parametrize("name", ["mean.npy", "sd.npy", "guarantee.txt", "policy.json", "columns.json"])
def test_predict_refuses_files_of_two_releases(tables, name):
    """The manifest binds the function, its statement and its names."""
    assert learn(tables).exit_code == 0
    assert learn(tables, "--epsilon", "5", "--lengthscale", "0.4", out="other").exit_code == 0
    (tables / "new.csv").write_text("age,frailty\n25,0.5\n")
    assert call("predict", tables / "policy", tables / "new.csv").exit_code == 0
    mine, others = tables / "policy" / name, (tables / "other" / name).read_bytes()
    mine.write_bytes(others if others != mine.read_bytes() else others.replace(b"age", b"aged"))
    done = call("predict", tables / "policy", tables / "new.csv")
    assert isinstance(done.exception, CorruptState)
    assert not done.stdout
    mine.unlink()
    assert isinstance(call("predict", tables / "policy", tables / "new.csv").exception, CorruptState)


def bound(folder, **changed):
    """Write files of a release, and a manifest that vouches for them."""
    for name, data in changed.items():
        (folder / f"{name}.json").write_bytes(data)
    listed = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "manifest.json"
    }
    text = json.dumps({"format": 1, "files": listed}, indent=1)
    (folder / "manifest.json").write_text(f"{text}\n")


@pytest.mark.parametrize(
    "changes",
    [{"context": []}, {"context": ["age"]}, {"arms": ["a"]}, {"reward": "age"}],
    ids=["no contexts", "too few", "too few arms", "a name twice"],
)
def test_predict_refuses_names_that_are_not_the_functions(tables, changes):
    """Whoever may write to the folder can make a manifest as well: names must fit what they name."""
    assert learn(tables).exit_code == 0
    (tables / "new.csv").write_text("age,frailty\n25,0.5\n")
    names = json.loads((tables / "policy" / "columns.json").read_text())
    bound(tables / "policy", columns=json.dumps(names).encode())
    assert call("predict", tables / "policy", tables / "new.csv").exit_code == 0
    bound(tables / "policy", columns=json.dumps(names | changes).encode())
    done = call("predict", tables / "policy", tables / "new.csv")
    assert isinstance(done.exception, CorruptState)
    assert not done.stdout


@pytest.mark.parametrize("other", ["..", "more\0", "x" * 300], ids=["parent", "zero", "long"])
def test_a_manifest_lists_the_files_of_a_release_and_no_others(tables, other):
    """Nothing is opened because a manifest names it."""
    assert learn(tables).exit_code == 0
    (tables / "new.csv").write_text("age,frailty\n25,0.5\n")
    path = tables / "policy" / "manifest.json"
    listed = json.loads(path.read_text())
    listed["files"][other] = "0" * 64
    path.write_text(json.dumps(listed))
    assert isinstance(call("predict", tables / "policy", tables / "new.csv").exception, CorruptState)


@pytest.mark.parametrize("damaged", [b"y", b"\xe6"], ids=["no digit", "no text"])
def test_damaged_notes_of_a_run_are_refused_as_such(tables, damaged):
    """A bit of the key that a disk flipped: no traceback, and no second run."""
    assert learn(tables).exit_code == 0
    notes = tables / "policy.private" / "run.json"
    key = json.loads(notes.read_text())["key"].encode()
    notes.write_bytes(notes.read_bytes().replace(key, damaged + key[1:]))
    assert isinstance(learn(tables).exception, CorruptState)


def test_nothing_public_depends_on_rows_but_through_the_release(tables):
    """The fingerprint under which a run is known is not in the folder that is published."""
    assert learn(tables).exit_code == 0
    notes = json.loads((tables / "policy.private" / "run.json").read_text())
    assert len(notes["same"]) == 64
    assert (tables / "policy.private").stat().st_mode & 0o077 == 0
    for data in contents(tables / "policy").values():
        for secret in (notes["same"], notes["key"], notes["name"]):
            assert secret.encode() not in data


# -- from a TOML file ----------------------------------------------------------------------------------

DESCRIBED = """
path = "log.csv"
horizon = 2000
[columns.age]
low = 18
high = 90
[columns.arm]
categories = ["diet", "drug", "watch"]
[user]
column = "person"
rows = 1
[privacy]
epsilon = 4
delta = 1e-7
[log]
arm = "code"
arms = [0, 1, 2]
reward = "reward"
low = 0
high = 1
propensity = "chance"
"""


def test_learn_predict_and_evaluate_from_a_toml_file_alone(tables):
    """The arm stands among the contexts too, as text, which shows that text is read."""
    (tables / "log.toml").write_text(DESCRIBED)
    done = call("learn", tables / "log.toml", "--out", tables / "policy")
    assert done.exit_code == 0, done.output
    assert "epsilon = 4, delta = 0." in done.output.replace("\n", " ")  # marginal tables spend no delta
    (tables / "new.csv").write_text("age,arm\n25,drug\n80,watch\n")
    done = call("predict", tables / "policy", tables / "new.csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["arm"] for row in rows] == ["drug", "watch"]
    assert {row["action"] for row in rows} <= {"0", "1", "2"}
    done = call("evaluate", tables / "policy", tables / "held.csv", "--propensity", "chance", "--draws", "50")
    assert done.exit_code == 0, done.output
    assert "always 2: " in done.stdout
    same = call("learn", tables / "log.csv", "--schema", tables / "log.toml", "--out", tables / "policy")
    assert same.exit_code == 0, same.output  # the same run again: nothing is drawn anew


PRIVATELY = ["--private", "--epsilon", "2", "--against", "0", "--user", "person", "--propensity", "chance"]


def test_evaluate_privately_releases_once_and_pays_once(tables):
    (tables / "log.toml").write_text(DESCRIBED)
    assert call("learn", tables / "log.toml", "--out", tables / "policy").exit_code == 0
    words = ["evaluate", tables / "policy", tables / "held.csv", "--out", tables / "values", *PRIVATELY]
    words += ["--ledger", tables / "book", "--account", "people", "--budget", "3,1e-6"]
    done = call(*words)
    assert done.exit_code == 0, done.output
    values = [line for line in done.stdout.splitlines() if "[" in line and ": " in line]
    assert [line.split(": ")[0] for line in values[:3]] == ["always 0", "policy", "policy minus always 0"]
    assert "epsilon = 2, delta = 0" in done.stdout
    assert "not a private release" not in done.stdout
    again = call(*words[:-2])
    assert again.stdout == done.stdout
    assert float(SQLiteLedger(tables / "book").balance("people").spent_epsilon) == 2.0
    words[4] = tables / "more"
    assert isinstance(call(*words[:-2]).exception, BudgetExceeded)
    assert not (tables / "more").exists()


def test_evaluate_privately_reads_a_table_where_it_is(tables):
    (tables / "log.toml").write_text(DESCRIBED)
    assert call("learn", tables / "log.toml", "--out", tables / "policy").exit_code == 0
    words = [
        "evaluate",
        tables / "policy",
        "--table",
        tables / "held.csv",
        "--out",
        tables / "values",
        *PRIVATELY,
    ]
    done = call(*words, "--memory", "1", "--threads", "1")
    assert done.exit_code == 0, done.output
    assert "policy minus always 0: " in done.stdout
    assert "the engine that reads the table" in done.stdout
    assert call(*words).stdout == done.stdout  # the same run again
    for wrong, match in (
        ([*words, tables / "held.csv"], "either LOG or --table"),
        ([*words[:2], *words[4:]], "either LOG or --table"),
        ([*words[:2], tables / "held.csv", *words[4:], "--memory", "1"], "are for --table"),
        (words[:4], "--table is for --private"),
    ):
        refused = call(*wrong)
        assert isinstance(refused.exception, InvalidParameter)
        assert match in str(refused.exception)


@pytest.mark.parametrize("column", ["age", "arm", "code", "reward", "chance", "person"])
def test_one_cell_of_the_log_changes_nothing_that_evaluate_says_of_its_promise(tables, column):
    (tables / "log.toml").write_text(DESCRIBED)
    assert call("learn", tables / "log.toml", "--out", tables / "policy").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tables / "held.csv").read_text())))
    rows[3][column] = ""
    with (tables / "odd.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    said = []
    for log in ("held.csv", "odd.csv"):
        words = ["evaluate", tables / "policy", tables / log, "--out", tables / f"{log}-out", *PRIVATELY]
        done = call(*words)
        assert done.exit_code == 0, done.output
        said.append(done.stdout[done.stdout.index("PRIVACY STATEMENT") :])
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--private", "--epsilon", "1", "--against", "0"], "needs --epsilon"),
        ([*PRIVATELY, "--out", "values", "--cluster", "person"], "no --cluster"),
        ([*PRIVATELY, "--out", "values", "--one-row-per-user"], "either --user"),
        ([*PRIVATELY, "--out", "values", "--against", "7"], "one of the policy's arms"),
        (["--epsilon", "1"], "are for --private"),
    ],
)
def test_what_does_not_fit_a_private_evaluation_is_refused(tables, words, match):
    (tables / "log.toml").write_text(DESCRIBED)
    assert call("learn", tables / "log.toml", "--out", tables / "policy").exit_code == 0
    done = call("evaluate", tables / "policy", tables / "held.csv", *words)
    assert isinstance(done.exception, InvalidParameter)
    assert match in str(done.exception)


def test_evaluate_names_contexts_that_cannot_be_read(tables):
    (tables / "log.toml").write_text(DESCRIBED.replace("high = 90", "high = 90\nmissing = 40"))
    assert call("learn", tables / "log.toml", "--out", tables / "policy").exit_code == 0
    text = (tables / "held.csv").read_text()
    for age, refused in (("", False), ("old", True)):  # a missing age is declared, and text is not
        (tables / "odd.csv").write_text(text + f"p9,{age},0.5,drug,1,0.5,0.33,1,1\n")
        done = call("evaluate", tables / "policy", tables / "odd.csv", "--draws", "5")
        assert (done.exit_code == 1) is refused
        assert ("context cannot be read, in the columns ['age']" in str(done.exception)) is refused


@pytest.mark.parametrize(
    ("words", "replaced", "match"),
    [
        (["--reward", "reward"], ("", ""), "--reward: the TOML file sets this"),
        (["--one-row-per-user"], ("", ""), "--one-row-per-user: the TOML file sets this"),
        ([], ("horizon = 2000", ""), "--horizon is missing"),
        ([], ("epsilon = 4", ""), "--epsilon is missing"),
        (["--release", "features"], ("delta = 1e-7", "delta = 0"), "needs delta above 0"),
        (["--release", "cells"], ("", ""), "release: expected one of"),
        ([], ('path = "log.csv"', ""), "has no key path"),
    ],
)
def test_what_a_toml_file_says_is_said_once_and_what_it_lacks_is_asked_for(tables, words, replaced, match):
    (tables / "log.toml").write_text(DESCRIBED.replace(*replaced))
    done = call("learn", tables / "log.toml", "--out", tables / "policy", *words)
    assert isinstance(done.exception, InvalidParameter)
    assert match in str(done.exception)
    assert not (tables / "policy").exists()


def test_without_delta_marginal_tables_are_published_under_a_pure_promise(tables, monkeypatch):
    (tables / "log.toml").write_text(DESCRIBED.replace("delta = 1e-7", "delta = 0"))
    done = call("learn", tables / "log.toml", "--out", tables / "policy")
    assert done.exit_code == 0, done.output
    said = done.output.replace("\n", " ")
    assert "differential privacy, epsilon = 4" in said
    assert "delta = 0." in said.partition("Who sees what")[0]
    assert "Sums of rewards less a public centre" in (tables / "policy" / "guarantee.txt").read_text()
    (tables / "new.csv").write_text("age,arm\n25,drug\n80,watch\n")
    done = call("predict", tables / "policy", tables / "new.csv", "--every-action")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["action"] for row in rows} <= {"0", "1", "2"}
    assert all(float(row["sd:1"]) > 0.0 for row in rows)
    monkeypatch.setattr("dpbandits.cli.central.LINES", 1)  # people are predicted in parts
    assert call("predict", tables / "policy", tables / "new.csv", "--every-action").stdout == done.stdout
    done = call("evaluate", tables / "policy", tables / "held.csv", "--propensity", "chance", "--draws", "50")
    assert done.exit_code == 0, done.output
    refused = learn(tables, "--release", "marginals", out="other")
    assert "needs a TOML file" in str(refused.exception)


def test_options_come_before_the_file(tables):
    (tables / "log.toml").write_text(DESCRIBED)
    words = ["--epsilon", "2", "--delta", "1e-5", "--horizon", "1500", "--release", "features"]
    done = call("learn", tables / "log.toml", "--out", tables / "policy", *words)
    assert "epsilon = 2, delta = 1e-05" in done.output.replace("\n", " ")


def test_without_a_file_all_columns_are_named(tables):
    done = call("learn", tables / "log.csv", "--out", tables / "p", "--epsilon", "1", "--horizon", "9",
                "--one-row-per-user")  # fmt: skip
    assert "columns are not described" in str(done.exception)


@pytest.mark.parametrize("arms", [("--arms", "diet,drug,none"), ()], ids=["named", "read"])
def test_an_arm_may_be_called_none(tables, arms):
    """The word means a missing value elsewhere."""
    for name in ("log.csv", "held.csv"):
        (tables / name).write_text((tables / name).read_text().replace("watch", "none"))
    done = learn(tables, "--propensity", "chance", *arms)
    assert done.exit_code == 0, done.output
    assert json.loads((tables / "policy" / "columns.json").read_text())["arms"] == ["diet", "drug", "none"]
    done = call("evaluate", tables / "policy", tables / "held.csv", "--propensity", "chance", "--draws", "20")
    assert done.exit_code == 0, done.output
    assert "always none: " in done.stdout
