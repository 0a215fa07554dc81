import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import dpbandits as dpb
from dpbandits import __version__
from dpbandits.central import ExploreThenCommit, GPBandit, GPTuning
from dpbandits.cli import app
from dpbandits.cli.run import TABLES
from dpbandits.lab.worlds import available
from dpbandits.privacy import Guarantee
from dpbandits.privacy.calibration import calibrate_gaussian

RUNNER = CliRunner()
FEW = ("--attack-trials", 20)


def invoke(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def config_of_a_policy():
    return GPBandit(
        kernel=dpb.kernels.Matern(nu=1.5, lengthscale=0.3),
        tuning=GPTuning(n_features=4),
        domain=dpb.Box(low=[0], high=[1]),
        reward_range=(0, 1),
        horizon=1000,
        privacy=dpb.JointDP(epsilon=2, delta=1e-6, rounds_per_user=3),
    ).to_config()


def test_version():
    assert invoke("--version").stdout.strip() == f"dpbandits {__version__}"


def test_calibrate_prints_both_certificates():
    printed = invoke("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6)
    assert printed.exit_code == 0
    assert "4.22" in printed.stdout
    numbers = json.loads(
        invoke("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6, "--sensitivity", 2, "--json").stdout
    )
    assert numbers == pytest.approx(calibrate_gaussian(1.0, 1e-6, 2.0, 1))
    assert numbers["sigma_discrete"] > numbers["sigma"]
    more = json.loads(
        invoke("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6, "--releases", 4, "--json").stdout
    )
    assert more["sigma"] == pytest.approx(
        numbers["sigma"], rel=1e-6
    )  # twice from releases, twice from distance


def test_guarantee_prints_the_statement_before_any_data(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(config_of_a_policy()))
    statement = invoke("guarantee", path).stdout
    assert "epsilon = 2, delta = 1e-06" in statement
    assert "3 rounds" in statement
    guarantee = Guarantee.from_json(invoke("guarantee", path, "--json").stdout)
    assert guarantee.status == "enforced"


@pytest.mark.parametrize("policy", [GPBandit, ExploreThenCommit])
@pytest.mark.parametrize("named", ["as its configuration says", "as it is imported"])
def test_guarantee_knows_every_policy_by_both_its_names(tmp_path, policy, named):
    people, promise = dpb.Schema(age=dpb.Range(18, 90)), dpb.JointDP(epsilon=2, delta=1e-6)
    public = {"reward_range": (0, 1), "horizon": 1_000, "privacy": promise}
    built = policy(contexts=people, arms=["mail", "call"], **public)
    names = {} if named == "as its configuration says" else {"policy": f"central.{policy.__name__}"}
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(built.to_config() | names))
    assert invoke("guarantee", path).stdout == built.guarantee.explain() + "\n"


def test_guarantee_prints_the_annex_and_writes_html_and_pdf(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(config_of_a_policy()))
    stated = Guarantee.from_json(invoke("guarantee", path, "--json").stdout)
    assert invoke("guarantee", path, "--annex").stdout == f"{stated.explain()}\n\n\n{stated.annex()}\n"
    html = tmp_path / "statement.html"
    done = invoke("guarantee", path, "--html", html)
    assert (done.exit_code, done.stdout) == (0, "")
    assert html.read_text(encoding="utf-8") == stated.to_html()
    if find_spec("reportlab") is None:
        refused = invoke("guarantee", path, "--pdf", tmp_path / "statement.pdf")
        assert refused.exit_code != 0
        assert "dpbandits[pdf]" in str(refused.exception)
    else:
        invoke("guarantee", path, "--pdf", tmp_path / "statement.pdf", "--paper", "Letter")
        assert (tmp_path / "statement.pdf").read_bytes() == stated.to_pdf(paper="Letter")
    assert invoke("guarantee", path, "--pdf", tmp_path / "other.pdf", "--paper", "B5").exit_code != 0


def test_guarantee_reads_a_statement_that_was_kept_as_json(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(config_of_a_policy()))
    kept = tmp_path / "statement.json"
    kept.write_text(invoke("guarantee", path, "--json").stdout)
    read = invoke("guarantee", kept)
    assert read.stdout == invoke("guarantee", path).stdout
    assert "compare its SHA-256" in read.stderr
    assert not invoke("guarantee", path).stderr
    fields = json.loads(kept.read_text()) | {"epsilon": 0.1}
    kept.write_text(json.dumps(fields))
    refused = invoke("guarantee", kept)
    assert refused.exit_code != 0
    assert "does not prove" in str(refused.exception)


def test_guarantee_reads_a_short_toml(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        """
policy = "central.GPBandit"
horizon = 500
tuning = { n_features = 5 }
domain = { type = "Box", low = [0.0], high = [1.0] }
reward_range = { low = 0.0, high = 1.0 }
privacy = { kind = "JointDP", epsilon = 1.0, delta = 1e-6 }
kernel = { type = "SquaredExponential", lengthscale = 0.3 }
"""
    )
    assert "Joint differential privacy, epsilon = 1, delta = 1e-06." in invoke("guarantee", path).stdout


def test_run_writes_a_report_and_prints_the_screen(tmp_path):
    arguments = ("run", "--data", "synthetic-income", "--horizon", 300, "--reps", 2, "--jobs", 1)
    finished = invoke(*arguments, "--out", tmp_path / "report", "--noise", "simulated", *FEW)
    assert finished.exit_code == 0
    for part in ("Evaluation on data", "best constant arm", "Membership", "NOT A PROTECTION", "Next, "):
        assert part in finished.stdout
    assert "--policy gp-bandit" in (tmp_path / "report" / "report.html").read_text()
    assert invoke(*arguments, "--out", tmp_path / "other", "--policy", "block").exit_code == 2
    assert not (tmp_path / "other").exists()
    recommended = re.findall(r"Next, [^:]*: dpbandits run .*--out (\S+)", finished.stdout)
    assert len(recommended) == 2  # each into a folder where nothing is yet: no such command is refused
    assert not [folder for folder in recommended if Path(folder).exists() or folder == tmp_path / "report"]
    horizon = int(re.search(r"Next, the whole table: .*--horizon (\d+)", finished.stdout).group(1))
    assert horizon == dpb.lab.worlds.load("synthetic-income", seed=0).horizon


def test_run_has_written_its_report_before_it_attacks(tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpbandits.lab.people.study.attack_reward", stopped)
    arguments = ("run", "--data", "synthetic-income", "--horizon", 300, "--reps", 1, "--jobs", 1)
    assert invoke(*arguments, "--out", tmp_path / "report", *FEW).exit_code != 0
    numbers = json.loads((tmp_path / "report" / "result.json").read_text())
    assert numbers["rows"]
    assert numbers["attacks"] == {}
    assert "not run" in (tmp_path / "report" / "report.html").read_text()


@pytest.mark.usefixtures("policies_alone")
def test_run_prints_json_and_nothing_else(tmp_path):
    finished = invoke(
        "run", "--data", "synthetic-income", "--horizon", 300, "--reps", 1, "--jobs", 1,
        "--epsilon", 2, "--out", tmp_path, "--json", *FEW,
    )  # fmt: skip
    numbers = json.loads(finished.stdout)
    assert numbers["guarantee"]["status"] == "enforced"
    assert {row["epsilon"] for row in numbers["rows"]} == {None, 0.1, 0.3, 1.0, 2.0, 3.0}


@pytest.mark.usefixtures("policies_alone")
def test_run_counts_the_rows_of_a_person_and_promises_for_all_of_them(tmp_path):
    """Before, every row was another person, whoever's it was."""
    rows = "".join(f"p{i // 3},{i % 100},{'yes' if i % 100 > 50 else 'no'}\n" for i in range(450))
    (tmp_path / "visits.csv").write_text(f"person,age,bought\n{rows}")
    described = """
path = "visits.csv"
[columns.age]
low = 0
high = 100
[label]
column = "bought"
categories = ["yes", "no"]
"""
    (tmp_path / "visits.toml").write_text(f'{described}[user]\ncolumn = "person"\nrows = 2\n')
    finished = invoke(
        "run", "--data", tmp_path / "visits.toml", "--reps", 1, "--jobs", 1, "--out", tmp_path / "report",
        "--json", *FEW,
    )  # fmt: skip
    numbers = json.loads(finished.stdout)
    assert (numbers["horizon"], numbers["rounds_per_user"]) == (300, 2)
    assert numbers["guarantee"]["definition"]["rounds_per_user"] == 2
    assert "at most 2 about one person" in (tmp_path / "report" / "report.html").read_text()


def test_help_of_every_command_is_there():
    for name in ("run", "calibrate", "guarantee"):
        shown = invoke(name, "--help")
        assert shown.exit_code == 0
        assert "Usage" in shown.stdout


ROOMS = {
    "calibrate": ["gaussian"],
    "central": ["learn", "predict", "evaluate"],
    "local": ["simulate", "aggregate"],
    "export": ["sql"],
    "outsourced": ["curate", "answer", "optimise"],
    "lab": ["compare"],
}


@pytest.mark.parametrize(("room", "commands"), ROOMS.items())
def test_commands_stand_as_the_rooms_stand(room, commands):
    shown = invoke(room, "--help")
    assert shown.exit_code == 0
    for name in commands:
        assert name in shown.stdout
        assert invoke(room, name, "--help").exit_code == 0
        assert invoke(name, "--help").exit_code != 0


def test_the_list_says_of_every_command_what_its_own_help_says():
    group = get_command(app)
    for name, listed in group.commands.items():
        real = group.resolve_command(None, [name])[1]
        assert listed.get_short_help_str(1000) == real.get_short_help_str(1000), name


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("calibrat",)])
def test_the_list_of_commands_loads_none_of_them(words):
    script = "import sys\nfrom dpbandits.cli import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("dpbandits.cli.")} == {
        "dpbandits.cli.main",
        "dpbandits.cli.console",
    }
    assert not loaded & {"numpy", "scipy", "sqlite3"}


HELPED = """
import sys
from pathlib import Path
from typer.testing import CliRunner
from dpbandits.cli import app

for words in sys.argv[1:]:
    assert CliRunner().invoke(app, [*words.split(), "--help"]).exit_code == 0, words
    heavy = {"numpy", "scipy", "sqlite3", "opendp"}.intersection(sys.modules)
    assert not heavy, f"{words} loads {heavy}"
"""


def test_the_help_of_no_command_loads_what_the_command_does():
    every = ["run", "guarantee", "audit", *ROOMS]
    every += [f"{room} {name}" for room, names in ROOMS.items() for name in names]
    done = subprocess.run(
        [sys.executable, "-c", HELPED, *every], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]


def test_run_names_the_tables_that_there_are():
    assert available() == TABLES


def test_a_wrong_command_is_answered_with_the_nearest():
    done = invoke("outsource")
    assert done.exit_code == 2
    assert "outsourced" in done.stderr


def test_only_the_file_of_the_command_is_loaded():
    script = "import sys\nfrom dpbandits.cli import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "dpbandits.cli.promise" in done.stdout
    for other in ("dpbandits.central", "dpbandits.local", "dpbandits.outsourced", "dpbandits.lab", "sqlite3"):
        assert other not in done.stdout


def test_python_runs_the_package_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "dpbandits", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"dpbandits {__version__}\n"
