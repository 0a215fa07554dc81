"""Names that are imported on first use (PEP 562), so that importing a package is fast.

Names are found through the import system, not through source files. So the package also works from a zip file
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
    """Turn an ImportError inside the block into MissingExtra, with a message that says what to install."""
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
    """Return the `__getattr__` and `__dir__` of a package.

    A public module inside the package is found by its name and needs no entry.

    Args:
        package: Name of the package, its `__name__`.
        homes: Names that the package exports, by the module that defines them. The package repeats them as
            imports under `if TYPE_CHECKING:`, for type checkers; a test compares the two.
        foreign: Names to use here, by their name in other libraries, for the error message. Names that
            another public package of dpbandits exports need no entry.
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
    """Return the `__dir__` of a module, which has its `__all__` and Python's own names, not its imports."""

    def names() -> list[str]:
        held = vars(sys.modules[module])
        return sorted({*_listed(module), *(name for name in held if name.startswith("__"))})

    return names


def _listed(module: str) -> list[str]:
    return list(vars(sys.modules[module]).get("__all__", ()))


def _is_module(package: str, name: str) -> bool:
    public = name.isidentifier() and not name.startswith("_")
    return public and find_spec(f"{package}.{name}") is not None


def _hint(package: str, name: str, foreign: Mapping[str, str]) -> str:
    """Return a hint for an error: the place where the name is found, or else the package's names."""
    place = foreign.get(name) or next(_offered(package, name), "")
    return f": did you mean {place}?" if place else f": it has {', '.join(_listed(package))}"


def _offered(package: str, name: str) -> Iterator[str]:
    """Yield `folder.name` if this package or a package that it lists exports the name, in any case."""
    path, listed = sys.modules[package].__path__, _listed(package)
    inside = [one.name for one in iter_modules(path) if one.ispkg and one.name in listed]
    for place in (package, *(f"{package}.{folder}" for folder in inside)):
        with suppress(ImportError):  # a package with a missing optional dependency gives no hint
            import_module(place)
            for found in _listed(place):
                if found.casefold() == name.casefold():
                    yield f"{place.rpartition('.')[2]}.{found}"
