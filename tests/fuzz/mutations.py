"""Small wicked changes to JSON texts and to bytes; a function of (data, random numbers) alone."""

import json
import random
from typing import Any

from hostile.values import FLOATS, INTEGERS

__all__ = ["mutate_bytes", "mutate_json"]

WICKED: tuple[Any, ...] = (
    None,
    True,
    False,
    *INTEGERS,
    255,
    1 << 62,
    *FLOATS,
    "",
    "a",
    "\u0000",
    "\ud800",
    "type",
    "x" * 300,
    [],
    {},
    [[]],
    [None],
    [0],
    [1, 2],
    [float("nan")],
    [[0.5, 0.5], [0.5]],
    {"type": "Box"},
)
"""What takes a value's place."""


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON text with one to three of its values replaced, dropped, doubled, wrapped or moved.

    What is not JSON is changed as bytes.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _changed(value, rng)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return data


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few flipped, cut, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.choice((1, 2, 8))]
        elif kind == 2:
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 9)))
        elif kind == 3:
            changed[at:at] = changed[: rng.randrange(64)]
        elif at < len(changed):
            changed[at] = rng.choice((0, 1, 127, 128, 255))
    return bytes(changed)


def _changed(value: Any, rng: random.Random) -> Any:
    """`value` with one change at a random depth."""
    children = (
        list(value.keys() if isinstance(value, dict) else range(len(value)))
        if isinstance(value, dict | list)
        else []
    )
    if children and rng.random() < 0.85:
        key = rng.choice(children)
        if rng.random() < 0.1:
            return _reshaped(value, key, rng)
        if isinstance(value, dict):
            return {**value, key: _changed(value[key], rng)}
        return [*value[:key], _changed(value[key], rng), *value[key + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice(
            (value + 1, value - 1, -value, value * 1000, value // 3 if isinstance(value, int) else value / 3)
        )
    if rng.random() < 0.05:
        deep: Any = value
        for _ in range(rng.choice((2, 50, 2000))):
            deep = [deep]
        return deep
    return rng.choice(WICKED)


def _reshaped(value: Any, key: Any, rng: random.Random) -> Any:
    """A container that lost, gained, doubled or renamed a member."""
    if isinstance(value, dict):
        rest = {name: part for name, part in value.items() if name != key}
        kind = rng.randrange(3)
        if kind == 0:
            return rest
        if kind == 1:
            return {**value, "surprise": value[key]}
        return {**rest, rng.choice(list(value)): value[key]}
    kind = rng.randrange(3)
    if kind == 0:
        return value[:key] + value[key + 1 :]
    if kind == 1:
        times = rng.choice((1, 3, 1000))
        # a thousand lists of a thousand would be the fuzzer's own end
        return value + [value[key]] * (min(times, 3) if isinstance(value[key], dict | list) else times)
    return value[::-1]
