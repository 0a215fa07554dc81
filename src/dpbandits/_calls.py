"""`worded`: clear errors for calls whose arguments are missing, unknown or need their name.

Python's own `TypeError` names one problem at a time and does not say what to write instead. `worded`
decorates functions that users call by hand. It costs one more stack frame, and reads a signature only after a
call has failed.
"""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, get_args, is_typeddict

from dpbandits.errors import InvalidCall

__all__ = ["caller_level", "misfit", "worded"]

T = TypeVar("T", bound=Callable[..., Any])

_LONGEST_NAME = 40
"""Largest number of characters shown of an unknown argument's name."""

_MOST_SHOWN = 6
"""Largest number of arguments that a message shows. Of more arguments, only the required ones are shown."""


def worded(call: T) -> T:
    """Decorate a function or class so that a call with arguments that do not fit raises `InvalidCall`.

    Example:
        >>> @worded
        ... def draw(*, epsilon: float, releases: int = 1) -> None: ...
        >>> draw(eps=1)
        Traceback (most recent call last):
        ...
        dpbandits.errors.InvalidCall: draw has no argument eps=: did you mean epsilon=?
    """
    if isinstance(call, type):
        if "__init__" in vars(call):
            call.__init__ = worded(call.__init__)  # type: ignore[misc]
        return call

    @wraps(call)
    def spoken(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except TypeError as error:
            problem = misfit(error, call, given, named)
            if problem is None:
                raise
            raise problem from None

    return spoken  # type: ignore[return-value]


def misfit(
    error: TypeError, call: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
) -> InvalidCall | None:
    """Return the error to raise instead of a call's `TypeError`; None if the arguments fit the signature."""
    said = _said(call, given, named)
    return None if said is None else InvalidCall(said).with_traceback(error.__traceback__)


def caller_level() -> int:
    """Return the `stacklevel` with which a warning names the calling line outside this package."""
    level, frame = 1, inspect.currentframe()
    frame = None if frame is None else frame.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        level, frame = level + 1, frame.f_back
    return level


def _said(call: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> str | None:
    """Return the message about arguments that do not fit; None if they fit."""
    parameters = dict(inspect.signature(call).parameters)
    name = call.__name__
    if name == "__init__":
        name = type(given[0]).__name__
    if parameters and next(iter(parameters)) in ("self", "cls"):
        parameters.pop(next(iter(parameters)))
        given = given[1:]
    takes, options, open_ended = _names(parameters)
    needed = [one for kind in _shared(parameters) for one in sorted(kind.__required_keys__)]
    places = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    listed = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    filled = {*places[: len(given)], *named}
    wanted = [p.name for p in parameters.values() if p.name in takes and p.default is p.empty]
    shown = [one for one in [*takes, *options] if one in wanted or one in needed or one in filled]
    if len(shown) > _MOST_SHOWN:
        shown = [one for one in shown if one in wanted or one in needed]
    form = _form(name, shown, places)
    unknown = [one for one in named if one not in takes and one not in options]
    if unknown and not open_ended:
        return f"{name} has no argument {_shown(unknown[0])}=: {_instead(unknown[0], parameters, options)}"
    if len(given) > len(places) and not listed:
        if places:
            return f"{name} takes {len(places)} without a name, not {len(given)}: write {form}"
        form = _form(name, takes[: max(len(given), len(wanted))] or ["name"], places)
        return f"{name} takes its arguments by name: write {form}"
    missing = [one for one in [*wanted, *needed] if one not in filled]
    if missing:
        return f"{name} lacks {', '.join(f'{one}=' for one in missing)}: write {form}"
    twice = [one for one in places[: len(given)] if one in named]
    return f"{name} is given {twice[0]}= twice: write {form}" if twice else None


def _names(parameters: Mapping[str, inspect.Parameter]) -> tuple[list[str], list[str], bool]:
    """Return argument names, the names of `**options: Unpack[...]`, and True if any name is allowed."""
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    shared = _shared(parameters)
    return (
        [p.name for p in parameters.values() if p.kind not in variable],
        [option for known in shared for option in known.__annotations__],
        not shared and any(p.kind is p.VAR_KEYWORD for p in parameters.values()),
    )


def _shared(parameters: Mapping[str, inspect.Parameter]) -> list[Any]:
    """Return the typed dictionaries of `**options: Unpack[...]`."""
    rest = [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
    return [known for p in rest for known in get_args(p.annotation)[:1] if is_typeddict(known)]


def _form(name: str, shown: Iterable[str], places: Sequence[str]) -> str:
    """Return the call as code, such as `RowDP(epsilon=..., distance=...)`."""
    return f"{name}({', '.join(one if one in places else f'{one}=...' for one in shown)})"


def _instead(unknown: str, parameters: Mapping[str, inspect.Parameter], options: Sequence[str]) -> str:
    takes = [*_names(parameters)[0], *options]
    for parameter in parameters.values():  # for example, epsilon is a field of privacy=
        for kind in (parameter.annotation, *get_args(parameter.annotation)):
            fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
            if any(field.name == unknown for field in fields):
                return f"pass {parameter.name}={kind.__name__}({unknown}=...)"
    begun = [one for one in takes if one.startswith(unknown) or unknown.startswith(f"{one}_")]
    for close in [*begun, *difflib.get_close_matches(unknown, takes, 1)]:  # for example, eps or user_id
        return f"did you mean {close}=?"
    return f"it takes {', '.join(f'{one}=' for one in takes)}"


def _shown(name: str) -> str:
    return name[:_LONGEST_NAME] if name.isidentifier() else "that"
