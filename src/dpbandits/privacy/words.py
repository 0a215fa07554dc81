"""Random words: independent uniform 64-bit numbers, from which all exact noise is made.

`secure_words` reads the operating system's generator, the only source that protects anybody.
`SimulatedWords(seed)` is a keyed counter for studies. This module needs NumPy and the standard library only,
because devices draw from it.
"""

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidParameter

__all__ = ["SimulatedWords", "WordArray", "Words", "secure_words"]

WordArray = NDArray[np.uint64]
Words = Callable[[int], WordArray]
"""n -> (n,) independent uniform 64-bit words."""


def secure_words(n: int) -> WordArray:
    """Return (n,) words of the operating system's generator."""
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


class SimulatedWords:
    """A keyed stream of words for studies: same (seed, stream), same words.

    Args:
        seed: non-negative integer.
        stream: number of the use, so that two uses of one seed do not share words.
    """

    __slots__ = ("_bits",)

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        if seed < 0 or stream < 0:
            raise InvalidParameter("the seed and the stream of simulated words are non-negative integers")
        self._bits = np.random.Philox(np.random.SeedSequence([seed, stream]))

    def __call__(self, n: int) -> WordArray:
        """Return the next (n,) words."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)
