"""Names that load on first use (PEP 562), so that importing a package costs next to nothing."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import cast

__all__ = ["lazy"]


def lazy(
    package: str,
    *,
    objects: Mapping[str, Iterable[str]] | None = None,
    modules: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`; what its `__all__` names beside the following is a module in it.
        objects: module -> names that it defines and the package offers.
        modules: public name -> the module elsewhere that it stands for.
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
        elif name in listed():
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *listed()})

    return load, names
