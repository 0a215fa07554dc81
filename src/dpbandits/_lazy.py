"""Names that load on first use (PEP 562), so that importing a package costs next to nothing."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

__all__ = ["lazy"]


def lazy(
    package: str,
    *,
    objects: Mapping[str, Iterable[str]] | None = None,
    modules: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        objects: module -> names that it defines and the package offers.
        modules: public name -> the module it stands for.
    """
    home = {name: module for module, names in (objects or {}).items() for name in names}
    named = modules or {}

    def load(name: str) -> object:
        value: object
        if name in named:
            value = import_module(named[name])
        elif name in home:
            value = getattr(import_module(home[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *named})

    return load, names
