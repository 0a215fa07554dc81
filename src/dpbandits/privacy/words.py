"""Random words: independent uniform 64-bit integers, from which all exact noise is computed.

`secure_words` reads the operating system's generator, the only source that protects users.
`SimulatedWords(seed)` is a keyed counter for studies. This module needs NumPy and the standard library only,
because it runs on devices.
"""

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidParameter

__all__ = ["SimulatedWords", "WordArray", "Words", "secure_words"]

WordArray = NDArray[np.uint64]
Words = Callable[[int], WordArray]
"""Function that returns (n,) independent uniform 64-bit words for a number n."""


def secure_words(n: int) -> WordArray:
    """Return (n,) random words from the operating system's generator."""
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


class SimulatedWords:
    """Keyed stream of words for studies: equal seed and stream give equal words.

    Args:
        seed: non-negative integer.
        stream: number of the use; two uses of one seed with different numbers do not share words.
    """

    __slots__ = ("_bits",)

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        if seed < 0 or stream < 0:
            raise InvalidParameter("the seed and the stream of simulated words are non-negative integers")
        self._bits = np.random.Philox(np.random.SeedSequence([seed, stream]))

    def __call__(self, n: int) -> WordArray:
        """Return the next (n,) words."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)
