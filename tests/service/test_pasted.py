"""Commands of the README, of the guide to the service and of the backend tutorial run as pasted."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service import databases
from service.processes import SERVE, free_port

ROOT = Path(__file__).parents[2]
LINES = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8080"


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, str]]:
    """Address and first token of `dpbandits serve` on an empty folder."""
    process = subprocess.Popen(
        [*SERVE, "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip().removeprefix("http://")
    token = process.stdout.readline().strip().removeprefix("first token, shown once: ")
    yield address, token
    process.terminate()
    process.communicate(timeout=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service") / "data"


@pytest.fixture(scope="module")
def started(data: Path) -> Iterator[tuple[str, str]]:
    with serving(data) as found:
        yield found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is what is pasted")
@pytest.mark.parametrize(
    "pages",
    [
        ["README.md"],
        [f"docs/guides/{name}.md" for name in ("service", "feature-flags", "desk", "erasure-requests")],
    ],
)
def test_lines_as_pasted(tmp_path: Path, pages: list[str]) -> None:
    """Pages after the first one go on with its policy and its decision."""
    blocks = []
    for page in pages:
        found = [one for one in LINES.findall((ROOT / page).read_text(encoding="utf-8")) if "curl" in one]
        assert found
        blocks += found
    with serving(tmp_path / "data") as (address, token):
        script = "\n".join(blocks).replace(ADDRESS, address).replace("curl ", "curl --fail-with-body ")
        done = subprocess.run(
            ["/bin/bash", "-e", "-o", "pipefail", "-c", script],
            env={**os.environ, "TOKEN": token},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"name":"customers"' in done.stdout
    assert '"status":"active"' in done.stdout
    assert '{"outcome":"counted"}' in done.stdout
    assert '"fallback":false' in done.stderr


@pytest.mark.skipif(not all(map(shutil.which, ("curl", "pgrep"))), reason="the tutorial pastes both")
@pytest.mark.timeout(180)
def test_the_tutorial_as_pasted(tmp_path: Path) -> None:
    """Its commands run in one shell, which a kill -9 of the service and of a worker does not end."""
    page = (ROOT / "docs" / "tutorials" / "backend-engineer.md").read_text(encoding="utf-8")
    port = str(free_port())
    assert "export DPBANDITS_DATABASE=" in page
    database = f"export DPBANDITS_DATABASE='{databases.any_kind()}'"
    before, after = "\n".join(LINES.findall(page)).split("dpbandits service copy")
    script = f"{before}{database}\ndpbandits service copy{after}".replace(ADDRESS, f"127.0.0.1:{port}")
    bin_folder = Path(sys.executable).parent
    shell = subprocess.Popen(
        ["/bin/bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "DPBANDITS_PORT": port, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=150)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said
    for line in (
        "[79, 349, 727, 1256, 1997, 3034, 4486]\nactive",
        '{"outcome":"counted"}',
        "the same decision",
    ):
        assert line in page
        assert line in said
    assert said.count("the same budget") == 2
    visits = re.findall(r"(\w+): 400 visits, .*; (\{.*\})", said)
    assert [name for name, _ in visits] == ["morning", "noon", "evening"]
    assert [sum(map(int, re.findall(r": (\d+)", receipts))) for _, receipts in visits] == [400] * 3
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert re.search(r"pip install '\.\[service,postgres\]'", page)
    assert {"service", "postgres"} <= extras.keys()


def test_the_curator_and_the_modeler_of_the_example(started: tuple[str, str]) -> None:
    address, token = started
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "service" / "outsourced.py"), f"http://{address}"],
        env={**os.environ, "TOKEN": token},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["asked"] == 30


@pytest.mark.usefixtures("started")
def test_a_second_service_on_the_folder_says_so_in_one_line(data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpbandits", "serve", "--data", str(data), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "uses this folder" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_commands_on_a_folder(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from dpbandits.cli import app
    from dpbandits.service.core import Service

    data, copy = str(tmp_path / "data"), str(tmp_path / "copy")
    Service(tmp_path / "data").close()
    run = CliRunner().invoke
    made = run(app, ["service", "token", "--data", data, "--scopes", "admin,read"])
    assert made.stdout.startswith("dpb_")
    assert run(app, ["service", "token", "--data", data, "--scopes", "root"]).exit_code != 0
    assert run(app, ["service", "backup", "--data", data, "--to", copy]).exit_code == 0
    adopted = run(app, ["service", "adopt", "--data", copy])
    assert "retired" in adopted.stdout
    assert run(app, ["service", "adopt", "--data", copy]).exit_code != 0
