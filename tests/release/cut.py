"""Write a version into every file that names one, and date the changelog.

    python tests/release/cut.py VERSION

`VERSION` is `1.2.3`, or `1.2.3.dev0` to go on after a release. For a release, the heading `[Unreleased]` of
the changelog becomes `[VERSION]` with today's date, and an empty `[Unreleased]` stands above it. The script
changes files only: it neither commits nor tags. It exits with status 1, before it changes a file, where one
of them does not name the version of the package.
"""

import datetime as dt
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def of_npm(version: str) -> str:
    """Return the version as npm writes it: `1.2.3.dev0` is `1.2.3-dev.0` there."""
    return re.sub(r"\.dev(\d+)$", r"-dev.\1", version)


def cut(root: Path, version: str, day: dt.date) -> list[str]:
    """Write `version` into the files below `root`, and return the names of those that changed."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", version):
        raise SystemExit(f"{version}: a version is 1.2.3 or 1.2.3.dev0")
    found = re.search(r'__version__ = "(.+)"', (root / "src/dpbandits/_version.py").read_text())
    if found is None:
        raise SystemExit("src/dpbandits/_version.py has no version")
    old = found[1]
    new: dict[str, str] = {}
    for name, line in (
        ("src/dpbandits/_version.py", '__version__ = "{}"'),
        ("CITATION.cff", "\nversion: {}\n"),
    ):
        text = (root / name).read_text()
        if text.count(line.format(old)) != 1:
            raise SystemExit(f"{name} does not name version {old}")
        new[name] = text.replace(line.format(old), line.format(version))
    for name in ("js/package.json", "js/package-lock.json"):
        described = json.loads((root / name).read_text())
        for part in (described, described.get("packages", {}).get("")):
            if part is not None:
                if part["version"] != of_npm(old):
                    raise SystemExit(f"{name} does not name version {of_npm(old)}")
                part["version"] = of_npm(version)
        new[name] = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    if ".dev" not in version:
        text = (root / "CHANGELOG.md").read_text()
        if text.count("## [Unreleased]\n") != 1:
            raise SystemExit("CHANGELOG.md has no heading [Unreleased]")
        dated = f"## [Unreleased]\n\n## [{version}] - {day.isoformat()}\n"
        new["CHANGELOG.md"] = text.replace("## [Unreleased]\n", dated)
    for name, text in new.items():
        (root / name).write_text(text)
    return list(new)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.stdout.write("".join(f"{name}\n" for name in cut(ROOT, sys.argv[1], dt.datetime.now(dt.UTC).date())))
