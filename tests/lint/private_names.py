"""No package uses a private name of another, and no public name means two things.

    python tests/lint/private_names.py             # the package must pass; tests are counted by folder
    python tests/lint/private_names.py --tests     # the tests and reproduction/ must pass too

What fails, each as `file:line: message`, with exit status 1:

- **Imports.** A package is a top-level folder of `dpbandits`. A module may import `_names` and `_modules` of
  its own package, sub-folders included, and the modules at the top, which `SHARED` lists.
- **Attributes.** `x._name`, also through `getattr` and its like, is allowed on `self` and `cls` (a subclass
  may use the hooks of its base), and on anything where a class of the same file defines `_name`: then `x` is
  one of its own instances. All else reaches into another object; what it reaches for deserves a public name.
- **Namesakes.** Two public classes or functions of one name in different modules. Commands (`cli`) are left
  out: each repeats the name of what it calls.
- **Tests** speak public names. Those that attack internals on purpose go through `tests/internals`, one file
  an object, and only there may a private name stand.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding", "findings_in_package", "findings_in_tests", "main", "namesakes"]

PACKAGE = "dpbandits"

SHARED = frozenset(
    {
        "_calls",
        "_cells",
        "_checks",
        "_config",
        "_dask",
        "_lazy",
        "_numpy",
        "_lines",
        "_memory",
        "_progress",
        "_reading",
        "_seen",
        "_threads",
        "_typing",
        "_version",
    }
)
"""Modules at the top of `dpbandits`, private to it and open to each of its packages."""

PUBLIC_ELSEWHERE = frozenset({"_asdict", "_exit", "_fields", "_fields_", "_make", "_replace", "_repr_html_"})
"""Documented names of the standard library, whose underscore has other reasons."""

_REACHERS = ("getattr", "setattr", "delattr", "hasattr")


class Finding(NamedTuple):
    """One place, and what is wrong there."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def is_private(name: str) -> bool:
    """`_name` and `__name`, not `__name__`."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name != "_"


def findings_in_package(root: Path) -> list[Finding]:
    """Return uses of another package's private names in `root` (the folder `dpbandits`)."""
    found: list[Finding] = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts
        room = inside[0].removesuffix(".py")
        tree = _tree(path)
        for line, module, name in _private_imports(tree):
            parts = module.split(".")
            other = parts[1] if len(parts) > 1 else name
            if other not in (room, *SHARED):
                found.append(Finding(path, line, f"{room} imports {name} of {_room(other)}"))
        for line, name in _foreign_attributes(tree):
            found.append(Finding(path, line, f"{room} uses {name} of another object"))
    return found


def findings_in_tests(root: Path) -> list[Finding]:
    """Private names that the tests at `root` use outside `internals`."""
    found: list[Finding] = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] == "internals":
            continue
        tree = _tree(path)
        for line, module, name in _private_imports(tree):
            if not SHARED.isdisjoint((name, *module.split("."))):
                continue
            found.append(Finding(path, line, f"a test imports {name} of {module}"))
        for line, name in _foreign_attributes(tree):
            found.append(Finding(path, line, f"a test uses {name} of an object: see tests/internals"))
    return found


def namesakes(root: Path) -> list[Finding]:
    """Public classes and functions of the package whose name another module has defined before."""
    first: dict[str, Path] = {}
    found: list[Finding] = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] == "cli":
            continue
        for node in _tree(path).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or is_private(node.name):
                continue
            if node.name.startswith("__"):
                continue
            earlier = first.setdefault(node.name, path)
            if earlier != path:
                where = earlier.relative_to(root.parent)
                found.append(Finding(path, node.lineno, f"{node.name} is also defined in {where}"))
    return found


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _room(name: str) -> str:
    return f"the package ({name})" if name.startswith("_") else f"room {name}"


def _private_imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, module, private name) of all imports from the package, the module's own path included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            taken = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            taken = [(alias.name, "") for alias in node.names]
        else:
            continue
        for module, name in taken:
            parts = [*module.split("."), name]
            private = [part for part in parts if is_private(part)]
            if parts[0] == PACKAGE and private:
                yield node.lineno, module, private[0]


def _foreign_attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, private name) of attributes that neither `self` nor a class of this file has."""
    own = _defined_by_classes(tree)
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"))
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
            ):
                continue
            case ast.Attribute(attr=name):
                names = [name]
            case ast.Call(args=[ast.Constant(value=str(target)), *_]) if _reaches(node.func):
                names = target.split(".")[-1:]  # monkeypatch.setattr("module._name", ...)
            case ast.Call(args=[of, ast.Constant(value=str(name)), *_]) if _reaches(node.func):
                names = [] if isinstance(of, ast.Name) and of.id in ("self", "cls") else [name]
            case _:
                continue
        for name in names:
            if is_private(name) and name not in own | PUBLIC_ELSEWHERE:
                yield node.lineno, name


def _reaches(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _REACHERS


def _defined_by_classes(tree: ast.Module) -> frozenset[str]:
    """Names that a class of this file defines: methods, fields, slots, and what is set on `self` or `cls`."""
    names: set[str] = set()
    for part in ast.walk(tree):
        if not isinstance(part, ast.ClassDef):
            continue
        for node in ast.walk(part):
            match node:
                case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                    names.add(name)
                case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=slots)):
                    names.update(slot.value for slot in slots if isinstance(slot, ast.Constant))
    return frozenset(names)


def main(arguments: list[str] | None = None) -> int:
    """Print what was found; 1 where the package, or with --tests the tests, must be mended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", action="store_true", help="fail on private names in tests, too")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the repository")
    options = parser.parse_args(arguments)
    tests = options.root / "tests"
    failures = [
        *findings_in_package(options.root / "src" / PACKAGE),
        *namesakes(options.root / "src" / PACKAGE),
    ]
    inside = findings_in_tests(tests)
    if options.tests:
        failures += [*inside, *findings_in_tests(options.root / "reproduction")]
    else:
        folders = Counter(str(finding.path.relative_to(tests).parent) for finding in inside)
        for folder, count in sorted(folders.items()):
            sys.stdout.write(f"tests/{folder}: {count} private names (not an error yet)\n")
    for finding in failures:
        sys.stdout.write(f"{finding._replace(path=finding.path.relative_to(options.root))}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
