"""A version is written into every file that names one, or into none."""

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest

from release.cut import ROOT, cut

DAY = dt.date(2030, 1, 2)
FILES = (
    "src/dpbandits/_version.py",
    "CITATION.cff",
    "js/package.json",
    "js/package-lock.json",
    "CHANGELOG.md",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_release_and_the_version_after_it(root: Path) -> None:
    assert sorted(cut(root, "7.8.9", DAY)) == sorted(FILES)
    assert '"7.8.9"' in (root / "src/dpbandits/_version.py").read_text()
    assert "\nversion: 7.8.9\n" in (root / "CITATION.cff").read_text()
    lock = json.loads((root / "js/package-lock.json").read_text())
    assert json.loads((root / "js/package.json").read_text())["version"] == "7.8.9" == lock["version"]
    assert lock["packages"][""]["version"] == "7.8.9"
    assert "## [Unreleased]\n\n## [7.8.9] - 2030-01-02\n" in (root / "CHANGELOG.md").read_text()
    assert "CHANGELOG.md" not in cut(root, "7.9.0.dev0", DAY)
    assert json.loads((root / "js/package.json").read_text())["version"] == "7.9.0-dev.0"


@pytest.mark.parametrize("name", FILES[1:])
def test_nothing_is_written_where_a_file_names_another_version(root: Path, name: str) -> None:
    lacking = (root / name).read_text().replace("0.1.0", "0.0.9").replace("[Unreleased]", "[Next]")
    (root / name).write_text(lacking)
    before = {one: (root / one).read_text() for one in FILES}
    with pytest.raises(SystemExit):
        cut(root, "7.8.9", DAY)
    assert {one: (root / one).read_text() for one in FILES} == before


def test_what_is_no_version_is_refused(root: Path) -> None:
    with pytest.raises(SystemExit, match="a version is"):
        cut(root, "v1", DAY)
