"""The lines that the README and the guide of the service show run as pasted, against a service that was
started."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8080"


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, str]]:
    """Address and first token of `dpbandits serve` on an empty folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dpbandits", "serve", "--data", str(data), "--port", "0"],
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
@pytest.mark.parametrize("page", ["README.md", "docs/guides/service.md"])
def test_lines_as_pasted(tmp_path: Path, page: str) -> None:
    blocks = [one for one in LINES.findall((ROOT / page).read_text(encoding="utf-8")) if "curl" in one]
    assert blocks
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
