"""`repr`, notebook view and `dir` of public objects.

Everything shown counts as a release. So `repr` has public numbers only: no count that depends on users' data,
and no statistic without noise. A notebook also shows the guarantee. `dir` lists no private names.
"""

import html
from collections.abc import Iterable, Mapping

from dpbandits._checks import kind_of

__all__ = ["Seen", "as_html", "no_such", "public_names", "said"]


def said(thing: object, **numbers: object) -> str:
    """Return a repr such as `Name(epsilon=1.0, asked=3)`, without numbers that are None.

    Example:
        >>> said(3, epsilon=1.0, delta=None)
        'int(epsilon=1.0)'
    """
    shown = ", ".join(f"{name}={value!r}" for name, value in numbers.items() if value is not None)
    return f"{type(thing).__name__}({shown})"


def no_such(thing: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """Return the error for an unknown attribute, with the name to use instead, if there is one.

    A class raises it in `__getattr__` under `if not TYPE_CHECKING`, so that type checkers still find unknown
    names.
    """
    hint = f": use {instead[name]}" if name in instead else ""
    return AttributeError(f"{kind_of(thing)} has no {name!r}{hint}", name=name)


def public_names(names: Iterable[str]) -> list[str]:
    """Return the names that `dir` lists, without private ones."""
    return [name for name in names if not name.startswith("_") or name.startswith("__")]


def as_html(thing: object) -> str:
    """Return the `repr` of an object and its whole guarantee as HTML, for a notebook."""
    promise = getattr(thing, "guarantee", thing)
    explain = getattr(promise, "explain", None)
    line = f"<code>{html.escape(repr(thing))}</code>"
    if explain is None:
        return line
    return (
        f"{line}<details><summary>Guarantee</summary>"
        f'<pre style="white-space: pre-wrap">{html.escape(explain())}</pre></details>'
    )


class Seen:
    """Base class of objects with a notebook view: their `repr` and, if they have one, their guarantee."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__())

    def _repr_html_(self) -> str:
        return as_html(self)
