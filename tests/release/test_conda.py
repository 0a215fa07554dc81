"""The recipe for conda-forge says what the metadata of the package says."""

import hashlib
import io
import tarfile
import tomllib
from pathlib import Path

import pytest

from release.check import recipe_of, spaced

ROOT = Path(__file__).resolve().parents[2]


def test_a_recipe_has_the_requirements_of_the_package(tmp_path: Path) -> None:
    sdist, text = tmp_path / "dpbandits-7.8.9.tar.gz", (ROOT / "pyproject.toml").read_bytes()
    with tarfile.open(sdist, "w:gz") as files:
        told = tarfile.TarInfo("dpbandits-7.8.9/pyproject.toml")
        told.size = len(text)
        files.addfile(told, io.BytesIO(text))
    recipe, project = recipe_of(sdist), tomllib.loads(text.decode())["project"]
    run = [one.replace(" ", "") for one in recipe["requirements"]["run"]]
    assert run == [f"python{project['requires-python']}", *project["dependencies"]]
    assert recipe["source"]["sha256"] == hashlib.sha256(sdist.read_bytes()).hexdigest()
    assert recipe["source"]["url"].endswith("/dpbandits-${{ version }}.tar.gz")
    assert recipe["context"]["version"] == "7.8.9"


@pytest.mark.parametrize("requirement", ["numpy[extra]>=2", "numpy>=2; sys_platform == 'win32'"])
def test_extras_and_markers_are_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="no extras"):
        spaced(requirement)
