"""What an object shows of itself: public numbers, in a notebook the promise too, and no private names.

Everything shown is a release: `repr` holds numbers that everybody may know, never a count that depends on
what people brought, and nothing from which noise was not drawn.
"""

import html
from collections.abc import Iterable, Mapping

from dpbandits._checks import kind_of

__all__ = ["Seen", "as_html", "no_such", "public_names", "said"]


def said(thing: object, **numbers: object) -> str:
    """`Name(epsilon=1.0, asked=3)`, without numbers that are None.

    Example:
        >>> said(3, epsilon=1.0, delta=None)
        'int(epsilon=1.0)'
    """
    shown = ", ".join(f"{name}={value!r}" for name, value in numbers.items() if value is not None)
    return f"{type(thing).__name__}({shown})"


def no_such(thing: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """The error of a name that is not there, with what stands for it, if anything does.

    A class raises it in `__getattr__`, under `if not TYPE_CHECKING`: who checks types is told of every name.
    """
    hint = f": use {instead[name]}" if name in instead else ""
    return AttributeError(f"{kind_of(thing)} has no {name!r}{hint}", name=name)


def public_names(names: Iterable[str]) -> list[str]:
    """The names that `dir` lists: no private ones."""
    return [name for name in names if not name.startswith("_") or name.startswith("__")]


def as_html(thing: object) -> str:
    """The `repr` of an object and its whole guarantee, for a notebook."""
    promise = getattr(thing, "guarantee", thing)
    explain = getattr(promise, "explain", None)
    line = f"<code>{html.escape(repr(thing))}</code>"
    if explain is None:
        return line
    return (
        f"{line}<details><summary>What is promised</summary>"
        f'<pre style="white-space: pre-wrap">{html.escape(explain())}</pre></details>'
    )


class Seen:
    """Base of what people meet in a notebook: its `repr` is public, as is its guarantee if it has one."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__())

    def _repr_html_(self) -> str:
        """The same as `repr`, and the whole promise, for a notebook."""
        return as_html(self)
