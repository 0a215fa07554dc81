"""Names that load on first use (PEP 562), so that importing a package costs next to nothing."""

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

__all__ = ["lazy", "names_of"]


def lazy(
    package: str, *, moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Names come from where the package's `if TYPE_CHECKING:` imports them from, so that they are listed once;
    and every public module in it is found by its name.

    Args:
        package: its `__name__`.
        moved: a name of earlier versions -> where it is now, for the error. What another public package in
            this one offers under the name is found without.
    """

    def listed() -> Iterable[str]:
        return cast("Iterable[str]", vars(sys.modules[package])["__all__"])

    def load(name: str) -> object:
        value: object
        home = _homes(package).get(name, package)
        if home != package and hasattr(import_module(home), name):
            value = getattr(import_module(home), name)
        elif _is_module(home, name):
            value = import_module(f"{home}.{name}")
        else:
            hint = "" if name.startswith("_") else _hint(package, name, moved or {}, listed())
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return _shown(package)

    return load, names


def names_of(module: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module or package whose own `__getattr__` is Python's: what it lists, no more."""
    return lambda: _shown(module)


def _shown(module: str) -> list[str]:
    """What is listed, and what Python expects of every module; not what it imports."""
    held = vars(sys.modules[module])
    return sorted({*held["__all__"], *(name for name in held if name.startswith("__"))})


def _hint(package: str, name: str, moved: Mapping[str, str], listed: Iterable[str]) -> str:
    """Where a name is found that is not in this package, or else which names are."""
    place = moved.get(name) or _offered(package, name)
    return f": did you mean {place}?" if place else f": it has {', '.join(listed)}"


def _statements(source: Path) -> list[ast.stmt]:
    return ast.parse(source.read_bytes()).body


@cache
def _homes(package: str) -> dict[str, str]:
    """Name -> module, of everything that the package imports for type checkers; nothing is imported."""
    [folder] = sys.modules[package].__path__
    blocks = (node.body for node in _statements(Path(folder, "__init__.py")) if isinstance(node, ast.If))
    imports = (node for body in blocks for node in body if isinstance(node, ast.ImportFrom))
    return {alias.name: f"{node.module}" for node in imports for alias in node.names}


def _is_module(package: str, name: str) -> bool:
    public = name.isidentifier() and not name.startswith("_")
    return public and find_spec(f"{package}.{name}") is not None


def _offered(package: str, name: str) -> str:
    """`room.name` where this package, or one in it, lists the name, in letters of any case, in its `__all__`.

    Nothing is imported.
    """
    [folder] = sys.modules[package].__path__
    for room in (Path(folder, "__init__.py"), *sorted(Path(folder).glob("[a-z]*/__init__.py"))):
        lists = (
            node.value
            for node in _statements(room)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        known = [one for names in lists if isinstance(names, ast.List) for one in ast.literal_eval(names)]
        for found in known:
            if found.casefold() == name.casefold():
                return f"{room.parent.name}.{found}"
    return ""
