"""Fingerprints of objects. A comparison that is resumed finds its earlier results by them."""

import functools
import hashlib
import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.errors import InvalidParameter

__all__ = ["address_of"]

_DEPTH = 12
"""Largest depth of nested objects for which a fingerprint is computed; deeper ones raise an error."""


def address_of(thing: Any, depth: int = 0) -> str:
    """Return a fingerprint of an object, as 24 hexadecimal digits.

    It is computed from the object's configuration or fields; for a function, from its source, its default
    arguments and the variables that it encloses.

    Raises:
        InvalidParameter: The object has no configuration, fields or source, or is nested too deeply.
    """
    text = json.dumps(_described(thing, depth), sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _described(thing: Any, depth: int) -> Any:  # one return for each kind of object
    if thing is None or isinstance(thing, str | int | float | bool):
        return [type(thing).__name__, thing]
    if depth > _DEPTH:
        raise InvalidParameter(f"a {type(thing).__name__} is nested too deeply for a fingerprint: flatten it")
    inner = functools.partial(_described, depth=depth + 1)
    if isinstance(thing, np.ndarray) and thing.dtype != np.object_:
        digest = hashlib.blake2b(np.ascontiguousarray(thing).tobytes(), digest_size=12).hexdigest()
        return ["array", str(thing.dtype), list(thing.shape), digest]
    if isinstance(thing, Path):
        content = thing.read_bytes() if thing.is_file() else b""
        return ["file", thing.name, hashlib.blake2b(content, digest_size=12).hexdigest()]
    if isinstance(thing, Mapping):
        return ["map", sorted([str(name), inner(value)] for name, value in thing.items())]
    if isinstance(thing, list | tuple | set | frozenset):
        return ["list", [inner(one) for one in (sorted(thing, key=str) if isinstance(thing, set) else thing)]]
    if isinstance(thing, functools.partial):
        return ["call", inner(thing.func), inner(list(thing.args)), inner(thing.keywords)]
    if inspect.ismethod(thing):
        return ["method", thing.__name__, inner(thing.__self__)]
    if inspect.isclass(thing) or inspect.isbuiltin(thing):
        return ["name", thing.__module__, thing.__qualname__]
    if inspect.isfunction(thing):
        held = [cell.cell_contents for cell in thing.__closure__ or ()]
        return ["function", thing.__qualname__, _source(thing), inner(held), inner(thing.__defaults__ or ())]
    if is_dataclass(thing):
        return [
            type(thing).__qualname__,
            inner({one.name: getattr(thing, one.name) for one in fields(thing)}),
        ]
    config = getattr(thing, "to_config", None)
    if callable(config):
        return [type(thing).__qualname__, config()]
    raise InvalidParameter(
        f"a {type(thing).__name__} has no configuration, fields or source for a fingerprint: pass a function "
        "that makes it"
    )


def _source(function: Any) -> str:
    with suppress(OSError, TypeError):
        return inspect.getsource(function)
    return str(function.__code__.co_code.hex()) + repr(function.__code__.co_consts)
