"""The container file and the systemd unit of `examples/service`: each line agrees with the package.

They cannot be built or started here; what they name is looked up instead.
"""

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.service.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "service"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """Word and rest of each instruction, continued lines joined, comments left out."""
    text = re.sub(r"\\\n\s*", "", (FOLDER / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def one(word: str) -> str:
    [found] = [rest for name, rest in instructions() if name == word]
    return found


def served_with(command: list[str]) -> dict[str, str]:
    """Options of a `dpbandits serve`, all of which the command knows."""
    assert command[1] == "serve"
    given = dict(zip(command[2::2], command[3::2], strict=True))
    known = CliRunner().invoke(app, ["serve", "--help"], terminal_width=200).stdout
    assert all(option in known for option in given)
    return given


def test_the_image_has_a_python_that_the_package_takes_and_the_extra() -> None:
    image = re.fullmatch(r"python:(\d+\.\d+)-slim", one("FROM"))
    assert image
    assert SpecifierSet(PROJECT["requires-python"]).contains(image[1])
    extra = re.search(r"'/src\[(\w+)\]'", one("RUN"))
    assert extra
    assert extra[1] in PROJECT["optional-dependencies"]
    makefile = (ROOT / "Makefile").read_text()
    assert f"'.[{extra[1]}]'" in makefile  # what `make serve` installs


def test_the_image_takes_what_the_package_is_built_from_and_no_data() -> None:
    """A clone that served holds raw data in dpbandits-data: it must not come into an image."""
    taken = [part for word, rest in instructions() if word == "COPY" for part in rest.split()[:-1]]
    needed = {"pyproject.toml", "src", PROJECT["readme"], *PROJECT["license-files"]}
    assert set(taken) == needed
    assert all((ROOT / part).exists() for part in taken)


def test_the_image_serves_as_a_user_who_owns_the_volume() -> None:
    run, user, volume = one("RUN"), one("USER"), one("VOLUME")
    assert re.search(rf"useradd --uid 10001 {user}\b", run)
    assert f"install -d -m 0700 -o {user} {volume}" in run
    words = [name for name, _ in instructions()]
    assert words.index("RUN") < words.index("USER") < words.index("ENTRYPOINT")
    command = re.findall(r'"([^"]+)"', one("ENTRYPOINT"))
    assert command[0] in PROJECT["scripts"]
    given = served_with(command)
    assert given == {"--data": volume, "--host": "0.0.0.0"}  # noqa: S104 - inside the container
    assert one("EXPOSE") == str(Settings().port)
    assert f"127.0.0.1:{one('EXPOSE')}:{one('EXPOSE')}" in (FOLDER / "Containerfile").read_text()


def test_the_unit_serves_its_state_directory() -> None:
    unit = configparser.ConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(FOLDER / "dpbandits.service")
    service = unit["Service"]
    command = service["ExecStart"].split()
    assert Path(command[0]).name in PROJECT["scripts"]
    assert served_with(command) == {"--data": f"/var/lib/{service['StateDirectory']}"}
    assert (service["StateDirectoryMode"], service["UMask"]) == ("0700", "0077")
    assert service["User"]
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is what reads the unit")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    text = (FOLDER / "dpbandits.service").read_text()
    program = tmp_path / "dpbandits"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "dpbandits-of-a-test.service"
    unit.write_text(re.sub(r"/\S+/bin/dpbandits", str(program), text).replace("User=dpbandits", "User=root"))
    done = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])
