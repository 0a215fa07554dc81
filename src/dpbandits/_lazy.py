"""Names that load on first use (PEP 562), so that importing a package costs next to nothing."""

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

__all__ = ["lazy"]


def lazy(
    package: str,
    *,
    objects: Mapping[str, Iterable[str]] | None = None,
    modules: Mapping[str, str] | None = None,
    moved: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`; every public module in it is found by its name.
        objects: module -> names that it defines and the package offers.
        modules: public name -> the module elsewhere that it stands for.
        moved: a name of earlier versions -> where it is now, for the error. What another public package in
            this one offers under the name is found without.
    """
    home = {name: module for module, names in (objects or {}).items() for name in names}
    named = modules or {}

    def listed() -> Iterable[str]:
        return cast("Iterable[str]", vars(sys.modules[package])["__all__"])

    def load(name: str) -> object:
        value: object
        if name in named:
            value = import_module(named[name])
        elif name in home:
            value = getattr(import_module(home[name]), name)
        elif _is_module(package, name):
            value = import_module(f"{package}.{name}")
        else:
            place = "" if name.startswith("_") else (moved or {}).get(name) or _offered(package, name)
            hint = f": did you mean {place}?" if place else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *listed()})

    return load, names


def _is_module(package: str, name: str) -> bool:
    public = name.isidentifier() and not name.startswith("_")
    return public and find_spec(f"{package}.{name}") is not None


def _offered(package: str, name: str) -> str:
    """`room.name` where a package in this one lists the name in its `__all__`; nothing is imported."""
    [folder] = sys.modules[package].__path__
    for room in sorted(Path(folder).glob("[a-z]*/__init__.py")):
        lists = (
            node.value
            for node in ast.parse(room.read_bytes()).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        if any(name in ast.literal_eval(names) for names in lists if isinstance(names, ast.List)):
            return f"{room.parent.name}.{name}"
    return ""
