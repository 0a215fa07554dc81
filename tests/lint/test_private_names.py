"""The lint of private names: what it finds, what it lets pass, and that the package as it stands is read."""

from pathlib import Path

import pytest

from lint.private_names import findings_in_package, findings_in_tests, is_private, main, namesakes


@pytest.fixture
def repository(tmp_path):
    """Writes files of a small repository; the package is `src/dpbandits`."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "tests").mkdir(exist_ok=True)
        return tmp_path

    return write


def found(root):
    return [str(finding.message) for finding in findings_in_package(root / "src" / "dpbandits")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from dpbandits.other._points import rows", "room imports _points of room other"),
        ("from dpbandits.other import _points", "room imports _points of room other"),
        ("from dpbandits.other.file import public, _secret", "room imports _secret of room other"),
        ("import dpbandits.other._points", "room imports _points of room other"),
        ("from dpbandits import _new", "room imports _new of the package (_new)"),
        ("x = thing._secret", "room uses _secret of another object"),
        ("x = self.part._secret", "room uses _secret of another object"),
        ("thing._secret = 1", "room uses _secret of another object"),
        ("x = getattr(thing, '_secret')", "room uses _secret of another object"),
        ("x = thing.__secret", "room uses __secret of another object"),
    ],
)
def test_a_private_name_that_crosses_is_found(repository, line, message):
    assert found(repository(src__dpbandits__room__file=line)) == [message]


@pytest.mark.parametrize(
    "text",
    [
        "from dpbandits.room._points import rows",
        "from dpbandits.room.below.file import _rows",
        "from dpbandits import _checks",
        "from dpbandits._typing import FloatArray",
        "import os\nos._exit(1)",
        "class A(B):\n    def f(self):\n        return self._inherited + super()._inherited",
        "class A:\n    def f(self, other):\n        self._x = 1\n        return other._x",
        "class A:\n    def _f(self): ...\n\ndef make():\n    return A()._f()",
        "class A:\n    _x: int = 1\n\nx = A()._x",
        "x = thing.__dict__",
        "x = point._replace(line=1)",
        "x = getattr(self, '_secret', None)",
        "_secret = 1\nx = _secret",
    ],
)
def test_names_of_the_own_room_and_the_own_file_pass(repository, text):
    assert found(repository(src__dpbandits__room__below__file=text)) == []


def test_public_namesakes_are_found_once_and_commands_are_not(repository):
    root = repository(
        src__dpbandits__a__one="class Cell: ...\ndef _own(): ...",
        src__dpbandits__b__two="class Cell: ...\ndef _own(): ...",
        src__dpbandits__cli__three="def Cell(): ...",
    )
    (finding,) = namesakes(root / "src" / "dpbandits")
    assert finding.path.name == "two.py"
    assert finding.message == "Cell is also defined in dpbandits/a/one.py"


def test_tests_reach_into_objects_through_internals_only(repository):
    root = repository(
        tests__internals__policy="def sums(policy):\n    return policy._sums",
        tests__room__test_it="def test_it(m):\n    m.setattr('dpbandits.a.b._x', 1)\n    p._y",
        tests__room__test_own="class A:\n    def __init__(self): self._y = 1\n\nA()._y\n",
    )
    findings = findings_in_tests(root / "tests")
    assert {(finding.path.name, finding.line) for finding in findings} == {
        ("test_it.py", 2),
        ("test_it.py", 3),
    }


def test_the_command_says_where_and_fails(repository, capsys):
    root = repository(
        src__dpbandits__room__file="import os\nx = thing._secret\n", tests__room__test_it="thing._secret\n"
    )
    assert main(["--root", str(root)]) == 1
    printed = capsys.readouterr().out
    assert "src/dpbandits/room/file.py:2: room uses _secret of another object" in printed
    assert "tests/room: 1 private names" in printed
    (root / "src/dpbandits/room/file.py").write_text("x = 1\n")
    assert main(["--root", str(root)]) == 0
    assert main(["--root", str(root), "--tests"]) == 1


def test_what_is_private():
    assert [name for name in ("_x", "__x", "__x__", "_", "x", "x_") if is_private(name)] == ["_x", "__x"]


def test_every_module_of_the_package_is_read():
    package = Path(__file__).parents[2] / "src" / "dpbandits"
    assert len(list(package.rglob("*.py"))) > 100
    findings_in_package(package)
