"""Values that no caller should pass: of the declared kind, almost of it, and of another."""

import math
from typing import Any

import numpy as np

__all__ = ["FLOATS", "HOSTILE", "INTEGERS"]

INTEGERS = (0, -1, 1, 2, 2**31, 2**63, -(2**63), 10**30, 10**400)
FLOATS = (0.0, -0.0, -1.0, 0.5, 1.5, 5e-324, 1e-308, 1e-12, 1e16, 1e300, 1e308, math.nan, math.inf, -math.inf)
_SCALARS = (
    True,
    False,
    np.float32(0.5),
    np.int8(-1),
    np.uint64(2**63),
    np.float64(math.nan),
    np.longdouble("inf"),
    np.bool_(True),
    1j,
)
_ARRAYS = (
    np.zeros(0),
    np.zeros((0, 2)),
    np.zeros((2, 0)),
    np.array(0.5),
    np.ones(3),
    np.ones((3, 2)),
    np.ones((2, 3, 2)),
    np.ones((1, 1, 1, 1)),
    np.full((3, 2), math.nan),
    np.full((3, 2), math.inf),
    np.full((3, 2), 5e-324),
    np.full((3, 2), 1e308),
    np.full((3, 2), -1.0),
    np.ones((3, 2), dtype=np.float16),
    np.ones((3, 2), dtype=np.int8),
    np.ones((3, 2), dtype=np.bool_),
    np.ones((3, 2), dtype=np.complex128),
    np.array([[None, "a"], [1, 2.0]], dtype=object),
    np.array([["0.1", "0.2"]]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.arange(12.0).reshape(4, 3)[::2, ::2],
    np.asfortranarray(np.ones((3, 2))),
    np.broadcast_to(0.5, (3, 2)),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.ones((3, 2)).view(">f8"),
)
_OTHERS: tuple[Any, ...] = (
    None,
    "",
    "a",
    "1.0",
    b"a",
    [],
    [0],
    [math.nan],
    [1, 0],
    [[0.5], [0.5, 0.5]],
    [[]],
    ["a", "a"],
    [None],
    [10**400],
    (0, 0),
    (1.0, 0.0),
    (0.0, math.nan),
    {},
    {"a": 1},
    {1: "a"},
    object(),
    range(3),
)

HOSTILE: tuple[Any, ...] = (*INTEGERS, *FLOATS, *_SCALARS, *_ARRAYS, *_OTHERS)
"""All of them."""
