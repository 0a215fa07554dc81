"""Check the files of a release as a user gets them: built, installed into clean environments, and run.

    python tests/release/check.py FOLDER [--python PATH ...]

The script builds wheel and source distribution into FOLDER/dist, twice, and checks that the bytes are the
same, and sizes, contents and metadata. FOLDER/sbom.json lists the wheel and what it installs, with licences.
FOLDER/conda/recipe.yaml is the recipe for conda-forge, which the builder of recipes has read.
For every Python from 3.11 on that it finds, the script installs both files into new environments with an
empty home folder. There, away from the checkout, it imports all modules without extras, runs the README's
Python with warnings as errors, and runs `tests/test_imports.py` (zip file, bytecode, no POSIX). With node and
npm, a schema and the evaluator of exported policies run in Pyodide without NumPy, the workflows are linted,
and the npm package is packed, installed into an empty project, and used there by TypeScript, Node and
Chromium. The last lines name every environment and every step that was left out, with its reason.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

LARGEST_WHEEL = 1_650_000
"""Largest size of the wheel in bytes."""

LARGEST_TARBALL = 40_000
"""Largest size of the npm package in bytes."""

PERMISSIVE = r"Apache|BSD|MIT|PSF|Python Software Foundation|ISC|MPL"
"""Pattern of the licences that the library's own dependencies may have."""

TYPESCRIPT = "typescript@^7.0.2"
"""Version of TypeScript that checks types in the empty npm project."""

NOT_SHIPPED = ("reproduction/results/", "shared/", ".venv/", "node_modules/")
"""Parts of paths that the source distribution must not have."""

SHIPPED = ("dpbandits/py.typed", "dpbandits/service/desk/templates/", "licenses/LICENSE", "licenses/NOTICE")
"""Parts of paths that the wheel must have."""

EXPORT = """
import json, random
import dpbandits as dpb

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
told = people.columns | {"since": dpb.DateRange("2024-01-01", "2024-12-31"), "hour": dpb.Cycle(24, missing=3)}
customers = dpb.Schema(**told)
policy = dpb.central.GPBandit(
    contexts=people, arms=["mail", "call"], reward_range=(0, 1), horizon=600,
    privacy=dpb.JointDP(epsilon=8, delta=1e-6, user_ids=False), seed=1)
coins, contexts = random.Random(1), []
for _ in range(600):
    contexts.append({"age": coins.randint(18, 90), "region": coins.choice(["north", "south"])})
    decision = policy.ask(contexts[-1])
    policy.tell(decision.id, float((contexts[-1]["age"] > 50) == (decision.arm == "call")))
published = policy.publish()
cases = [[context, published.recommend(context)] for context in contexts[:200]] + [[{"age": 44}, None]]
spec = dpb.local.Spec(
    contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1))
told = dpb.local.Server(spec).publish()
dates = [f"2024-{1 + place % 12:02d}-15T08:30" for place in range(600)]
records = [context | {"since": date} for context, date in zip(contexts, dates, strict=True)]
table = {name: [record.get(name) for record in records] for name in customers.names}
read = {"schema": customers.to_config(), "records": records, "points": customers.encode(table).tolist()}
local = f'{{"spec":{spec.to_json()},"published":{told.to_json(spec)}}}'
policy = json.loads(published.to_decisions())
print(json.dumps({"policy": policy, "cases": cases, "local": local, "read": read}))
"""

IMPORT_ALL = """
import pkgutil, sys, dpbandits
from importlib import import_module
from importlib.metadata import version
assert dpbandits.__version__ == version("dpbandits"), "the version differs from the metadata"
assert "site-packages" in dpbandits.__file__, dpbandits.__file__
failed = []
for module in pkgutil.walk_packages(dpbandits.__path__, "dpbandits."):
    if not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except ImportError as error:
            failed.append((module.name, error.name))
        except Exception as error:
            sys.exit(f"{module.name}: {type(error).__name__}: {error}")
own = [name for name, lacking in failed if (lacking or "dpbandits").partition(".")[0] == "dpbandits"]
outer = ("dpbandits.adapters", "dpbandits.service")
wrong = [pair for pair in failed if pair[0] in own and not pair[0].startswith(outer)]
sys.exit(f"cannot be imported: {wrong}" if wrong else 0)
"""


RENDER = """
import sys
from pathlib import Path
from rattler_build import Stage0Recipe, VariantConfig
rendered = Stage0Recipe.from_yaml(Path(sys.argv[1]).read_text()).render(VariantConfig())
assert len(rendered) == 1, rendered
print(len(rendered))
"""
"""Program that reads a recipe by its schema and fills in its variables."""


def main() -> None:
    """Run every step; exit with status 1 at the first that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="new folder for everything that is made")
    parser.add_argument("--python", action="append", help="interpreter to check; default: all that are found")
    given = parser.parse_args()
    folder = given.folder.resolve()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    done: list[str] = []
    wheel, sdist = built(folder)
    done.append(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name}")
    done.append(f"built again with the same bytes; {bill_of_materials(folder, wheel)}")
    done.append(rendered(folder, sdist))
    for python in given.python or pythons():
        done += [checked(folder, python, packed) for packed in (wheel, sdist)]
    done += by_node(folder)
    sys.stdout.write("\n- ".join(["\nRelease check passed:", *done, ""]))


# -- the files ----------------------------------------------------------------------------------------


def built(folder: Path) -> tuple[Path, Path]:
    """Build wheel and source distribution, and check names, sizes, contents and metadata."""
    tools = environment(folder / "tools", sys.executable)
    run(tools, "-m", "pip", "install", "--quiet", "build", "twine", cwd=folder)
    dist = folder / "dist"
    for place in (dist, folder / "again"):
        run(tools, "-m", "build", "--outdir", place, ROOT, cwd=folder)
    differing = [
        path.name
        for path in dist.iterdir()
        if path.read_bytes() != (folder / "again" / path.name).read_bytes()
    ]
    if differing:
        raise SystemExit(f"built twice, these files differ: {differing}")
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise SystemExit(
            f"the wheel has {wheel.stat().st_size:,} bytes, at most {LARGEST_WHEEL:,} are allowed"
        )
    names = zipfile.ZipFile(wheel).namelist()
    lacking = [part for part in SHIPPED if not any(part in name for name in names)]
    if lacking:
        raise SystemExit(f"the wheel lacks {lacking}")
    with tarfile.open(sdist) as packed:
        extra = [name for name in packed.getnames() if any(part in name for part in NOT_SHIPPED)]
    if extra:
        raise SystemExit(f"the source distribution has {extra[:5]}")
    metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
    described = zipfile.ZipFile(wheel).read(metadata).decode()
    relative = re.findall(r"\]\((?!https?:|#)[^)]*\)", described)
    if relative:
        raise SystemExit(f"the README has relative links, which are dead on a package index: {relative[:5]}")
    run(tools, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder)
    return wheel, sdist


def bill_of_materials(folder: Path, wheel: Path) -> str:
    """Write what the wheel installs into `sbom.json`, and refuse a licence that is not permissive."""
    own = environment(folder / "installed", sys.executable)
    run(own, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    tools, place = folder / "tools" / own.relative_to(folder / "installed"), folder / "sbom.json"
    run(tools, "-m", "pip", "install", "--quiet", "cyclonedx-bom", cwd=folder)
    run(
        tools,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--of",
        "JSON",
        "-o",
        place,
        own,
        cwd=folder,
    )
    parts = json.loads(place.read_text())["components"]
    named = {
        part["name"]: json.dumps(part.get("licenses", "none")) for part in parts if part["name"] != "pip"
    }
    wrong = {name: text for name, text in named.items() if not re.search(PERMISSIVE, text) or "GPL" in text}
    if wrong:
        raise SystemExit(f"licences to look at: {wrong}")
    return f"sbom.json lists {len(named)} packages with permissive licences"


def rendered(folder: Path, sdist: Path) -> str:
    """Write the recipe for conda-forge, and let the builder of recipes read it."""
    tools = environment(folder / "recipes", sys.executable)
    run(tools, "-m", "pip", "install", "--quiet", "py-rattler-build>=0.73", cwd=folder)
    run(tools, "-c", RENDER, written(folder, sdist), cwd=folder)
    return "conda: the recipe is read and its variables are filled in"


def recipe_of(sdist: Path) -> dict[str, Any]:
    """Return the recipe of format 1 for a source distribution `dpbandits-VERSION.tar.gz`."""
    version = sdist.name.removeprefix("dpbandits-").removesuffix(".tar.gz")
    with tarfile.open(sdist) as files:
        text = files.extractfile(f"dpbandits-{version}/pyproject.toml")
        assert text is not None, "the source distribution has no pyproject.toml"
        told = tomllib.loads(text.read().decode())
    project = told["project"]
    urls = project["urls"]
    return {
        "schema_version": 1,
        "context": {"version": version},
        "package": {"name": project["name"], "version": "${{ version }}"},
        "source": {
            "url": "https://pypi.org/packages/source/d/dpbandits/dpbandits-${{ version }}.tar.gz",
            "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        },
        "build": {
            "number": 0,
            "noarch": "python",
            "script": "python -m pip install . -vv --no-deps --no-build-isolation",
            "python": {"entry_points": [f"{name} = {call}" for name, call in project["scripts"].items()]},
        },
        "requirements": {
            "host": ["python 3.11.*", "pip", *map(spaced, told["build-system"]["requires"])],
            "run": [f"python {project['requires-python']}", *map(spaced, project["dependencies"])],
        },
        "tests": [
            {"python": {"imports": ["dpbandits", "dpbandits.central", "dpbandits.local"], "pip_check": True}},
            {"script": ["dpbandits --help"]},
        ],
        "about": {
            "summary": project["description"],
            "license": project["license"],
            "license_file": project["license-files"],
            "homepage": urls["Source"],
            "repository": urls["Source"],
            "documentation": urls["Documentation"],
        },
        "extra": {"recipe-maintainers": ["dpbandits"]},
    }


def spaced(requirement: str) -> str:
    """Return a requirement as conda spells it: a name, a blank, and versions.

    Example:
        >>> spaced("numpy>=2.0")
        'numpy >=2.0'
    """
    found = re.fullmatch(r"([A-Za-z0-9._-]+)([<>=!][^;]*)?", requirement)
    if not found:
        raise ValueError(f"conda-forge has no extras and no markers: {requirement}")
    return " ".join(part for part in found.groups() if part)


def written(folder: Path, sdist: Path) -> Path:
    """Write the recipe to FOLDER/conda/recipe.yaml, in JSON, which is YAML too, and return its path."""
    place = folder / "conda" / "recipe.yaml"
    place.parent.mkdir()
    place.write_text(json.dumps(recipe_of(sdist), indent=2) + "\n")
    return place


# -- environments -------------------------------------------------------------------------------------


def pythons() -> list[str]:
    """Return every Python from 3.11 on that can be found, one of each version."""
    found: dict[str, str] = {f"3.{sys.version_info.minor}": sys.executable}
    for minor in range(11, 20):
        path = shutil.which(f"python3.{minor}")
        works = (
            path
            and subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0
        )
        if path and works:
            found.setdefault(f"3.{minor}", path)
    return list(found.values())


def environment(folder: Path, python: str) -> Path:
    """Make a virtual environment and return its interpreter."""
    if Path(python).resolve() == Path(sys.executable).resolve():
        venv.create(folder, with_pip=True, symlinks=os.name != "nt")
    else:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def checked(folder: Path, python: str, packed: Path) -> str:
    """Install one file into a new environment and use it there; return a line about it."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    kind = "wheel" if packed.suffix == ".whl" else "sdist"
    place = folder / f"{kind}-{version}"
    (place / "home").mkdir(parents=True)
    own = environment(place / "venv", python)
    run(own, "-m", "pip", "install", "--quiet", packed, cwd=place)
    run(own, "-W", "error", "-c", IMPORT_ALL, cwd=place)
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[:1]:
        run(own, "-W", "error", "-c", block, cwd=place)
    for words in (["--version"], ["calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"], ["--help"]):
        run(own, "-m", "dpbandits", *words, cwd=place)
    if kind == "wheel":
        run(own, "-m", "pip", "install", "--quiet", "pytest", cwd=place)
        tests = place / "tests"
        tests.mkdir()
        shutil.copy(ROOT / "tests" / "test_imports.py", tests)
        (tests / "pytest.ini").write_text("[pytest]\n")  # else pytest takes the checkout's settings
        # These need the checkout: the next step takes the zip file that a user has, the wheel itself.
        chosen = "not names_load and not as_zip and not without_numpy"
        run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, tests, cwd=place)
        zipped = f"import sys; sys.path.insert(0, {str(packed)!r})\n{EXPORT}"
        run(own, "-c", f"{zipped}\nassert {packed.name!r} in dpb.__file__", cwd=place)
    return f"Python {version}, {kind}: installed, imported, README run, commands run"


def by_node(folder: Path) -> list[str]:
    """Compare decisions and records in Pyodide, without NumPy, with the library's, and lint the workflows."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return ["Pyodide and workflows: left out, there is no node or npm"]
    place = folder / "node"
    shutil.copytree(HERE / "node", place)
    subprocess.run([npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=place, check=True)
    own = next(folder.glob("wheel-*/venv")) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    cases = run(own, "-c", EXPORT, cwd=place)
    (place / "cases.json").write_text(cases)
    wheel = next((folder / "dist").glob("*.whl"))
    done = []
    for name, argument in (("pyodide", wheel), ("workflows", ROOT / ".github" / "workflows")):
        words = [node, f"{name}.mjs", str(argument)]
        ran = subprocess.run(words, cwd=place, check=True, stdout=subprocess.PIPE, text=True)
        done.append(f"{name}: {ran.stdout.strip()}")
    return done + by_npm(folder, cases)


def by_npm(folder: Path, cases: str) -> list[str]:
    """Pack the npm package, install it into an empty project, and use it there."""
    place = folder / "project"
    shutil.copytree(HERE / "project", place)
    (place / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    (place / "cases.json").write_text(cases)

    def ran(*words: object) -> str:
        sys.stdout.write(f"$ project: {' '.join(map(str, words))}\n")
        command = [shutil.which(str(words[0])) or str(words[0]), *map(str, words[1:])]
        return subprocess.run(
            command, cwd=place, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    ran("npm", "pack", "--silent", ROOT / "js")
    (tarball,) = place.glob("*.tgz")
    size = tarball.stat().st_size
    if size > LARGEST_TARBALL:
        raise SystemExit(f"the npm package has {size:,} bytes, at most {LARGEST_TARBALL:,} are allowed")
    ran("npm", "install", "--silent", "--no-audit", "--no-fund", f"./{tarball.name}")
    alone = sorted(path.name for path in (place / "node_modules").iterdir() if not path.name.startswith("."))
    if alone != ["dpbandits"]:
        raise SystemExit(f"the npm package brings {alone}")
    done = [f"npm package {tarball.name} ({size:,} bytes), Node: {ran('node', 'node.mjs')}"]
    ran("npm", "install", "--silent", "--no-audit", "--no-fund", "--no-save", TYPESCRIPT, f"./{tarball.name}")
    options = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")
    ran(place / "node_modules" / ".bin" / "tsc", *options, "use.ts")
    done.append("npm package, TypeScript: types checked")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        return [*done, "npm package in a browser: left out, there is no Chromium"]
    tools = folder / "tools" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(tools, "-m", "pip", "install", "--quiet", "playwright", cwd=folder)
    return [
        *done,
        f"npm package, browser: {run(tools, HERE / 'browse.py', place, chromium, cwd=folder).strip()}",
    ]


def run(python: Path, *words: object, cwd: Path) -> str:
    """Run an interpreter with an empty home folder and no settings of this shell, and return its output."""
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    env = dict(settings()) | {"HOME": str(home), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    shown = " ".join(str(word) if "\n" not in str(word) else "'...'" for word in words)
    sys.stdout.write(f"$ {python.parent.parent.name}: python {shown}\n")
    sys.stdout.flush()
    done = subprocess.run(
        [str(python), *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\nfailed with status {done.returncode}"
        )
    return done.stdout


def settings() -> Iterator[tuple[str, str]]:
    """Yield the environment variables that a package index, a proxy or Windows needs, and no others."""
    for name, value in os.environ.items():
        if (
            name in ("PATH", "LANG", "SYSTEMROOT", "TEMP", "TMPDIR")
            or name.upper().startswith(("PIP_", "SSL_", "REQUESTS_"))
            or name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        ):
            yield name, value


if __name__ == "__main__":
    main()
