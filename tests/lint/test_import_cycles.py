"""The lint of import circles: which imports it counts, and that the package as it stands has none."""

from pathlib import Path

import pytest

from lint.import_cycles import circles, imports_of, main


def package(folder, **files):
    """A package of these modules at `folder`; `in__file` is the module `file` of the sub-package `in`."""
    for name, text in ({"__init__": ""} | files).items():
        path = folder / "dpbandits" / (name if name == "__init__" else name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return folder / "dpbandits"


@pytest.mark.parametrize(
    "back",
    [
        "import dpbandits.one",
        "from dpbandits.one import name",
        "from dpbandits import one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dpbandits.one import name",
        "def call():\n    from dpbandits.one import name",
        "class Held:\n    def call(self):\n        import dpbandits.one as one",
    ],
)
def test_two_modules_that_import_each_other_are_a_circle_wherever_the_statement_stands(tmp_path, back):
    root = package(tmp_path, one="from dpbandits.other import name", other=back)
    assert circles(imports_of(root)) == [("dpbandits.one", "dpbandits.other", "dpbandits.one")]


def test_a_circle_of_several_modules_is_shown_once_and_on_its_shortest_way(tmp_path):
    root = package(
        tmp_path,
        a="from dpbandits import b",
        b="from dpbandits import c",
        c="from dpbandits import a, b, d",
        d="from dpbandits import c, e",
        e="",
    )
    assert circles(imports_of(root)) == [("dpbandits.a", "dpbandits.b", "dpbandits.c", "dpbandits.a")]


def test_what_runs_by_itself_does_not_count(tmp_path, capsys):
    """A package's `__init__`, which runs before its modules, and names that are loaded as texts."""
    root = package(
        tmp_path,
        room__file="import os\nfrom dpbandits.room2 import name",
        room2="x = 'dpbandits.room.file'",
    )
    assert imports_of(root)["dpbandits.room.file"] == {"dpbandits.room2"}
    assert main(["--root", str(root)]) == 0
    assert capsys.readouterr().out == ""


def test_a_package_that_imports_its_own_module_back_and_forth_fails(tmp_path, capsys):
    root = package(tmp_path, room__file="from dpbandits import room")
    (root / "room" / "__init__.py").write_text("from dpbandits.room.file import name")
    assert main(["--root", str(root)]) == 1
    assert capsys.readouterr().out == "dpbandits.room -> dpbandits.room.file -> dpbandits.room\n"


def test_the_package_has_no_circle():
    assert circles(imports_of(Path(__file__).parents[2] / "src" / "dpbandits")) == []
