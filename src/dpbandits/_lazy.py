"""Names that load on first use (PEP 562), so that importing a package costs next to nothing.

Everything is found through the import system, never through source files: the package works from a zip file
and from `.pyc` files alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from dpbandits.errors import MissingExtra

__all__ = ["lazy", "names_of", "needing"]


@contextmanager
def needing(what: str) -> Iterator[None]:
    """MissingExtra, saying `what` to install, where an import inside finds nothing."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(what) from error


def lazy(
    package: str,
    homes: Mapping[str, Sequence[str]] | None = None,
    *,
    foreign: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    A public module inside the package is found by its name and needs no entry.

    Args:
        package: its `__name__`.
        homes: module -> names that the package offers from it. The package repeats them as imports under
            `if TYPE_CHECKING:`, for type checkers; a test compares the two.
        foreign: names that other libraries use -> what to use here, for the error message. Names that a
            neighbouring public package offers need no entry.
    """
    home_of = {name: module for module, names in (homes or {}).items() for name in names}

    def load(name: str) -> object:
        if name in home_of:
            value: object = getattr(import_module(home_of[name]), name)
        elif _is_module(package, name):
            value = import_module(f"{package}.{name}")
        else:
            hint = "" if name.startswith("_") else _hint(package, name, foreign or {})
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        setattr(sys.modules[package], name, value)
        return value

    return load, names_of(package)


def names_of(module: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module: what it lists and what Python expects of every module, not its imports."""

    def names() -> list[str]:
        held = vars(sys.modules[module])
        return sorted({*_listed(module), *(name for name in held if name.startswith("__"))})

    return names


def _listed(module: str) -> list[str]:
    """Names in `__all__`; none where a package lists none."""
    return list(vars(sys.modules[module]).get("__all__", ()))


def _is_module(package: str, name: str) -> bool:
    public = name.isidentifier() and not name.startswith("_")
    return public and find_spec(f"{package}.{name}") is not None


def _hint(package: str, name: str, foreign: Mapping[str, str]) -> str:
    """Where the name is found instead, or else which names the package has."""
    place = foreign.get(name) or next(_offered(package, name), "")
    return f": did you mean {place}?" if place else f": it has {', '.join(_listed(package))}"


def _offered(package: str, name: str) -> Iterator[str]:
    """`folder.name` where this package or one that it lists offers the name, in letters of any case."""
    path, listed = sys.modules[package].__path__, _listed(package)
    inside = [one.name for one in iter_modules(path) if one.ispkg and one.name in listed]
    for place in (package, *(f"{package}.{room}" for room in inside)):
        with suppress(ImportError):  # a package whose optional dependency is missing gives no hint
            import_module(place)
            for found in _listed(place):
                if found.casefold() == name.casefold():
                    yield f"{place.rpartition('.')[2]}.{found}"
