"""Public randomness, keyed by (seed, purpose, round).

Everything random that a policy does in the open (exploration, Thompson draws, ties) comes from
here, never from the noise channel. A draw at round t is a function of (seed, purpose, t) alone:
how many draws other rounds took, which of them tied, or what anyone's data was cannot shift it.
"""

import hashlib
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidParameter

__all__ = ["PublicCoins"]

_WORDS_PER_STEP = 4  # one Philox counter step yields four 64-bit words
_STREAMS_KEPT = 16  # more than the purposes of a policy; of a local server each version has its own
_ZEROS = np.zeros(_WORDS_PER_STEP, dtype=np.uint64)
# A generator that has drawn nothing: its buffer of one step is used up.
_UNUSED = {
    "bit_generator": "Philox",
    "buffer": _ZEROS,
    "buffer_pos": _WORDS_PER_STEP,
    "has_uint32": 0,
    "uinteger": 0,
}
_HALF_STEP = 2.0**-54  # centres a 53-bit uniform inside its cell, away from 0 and 1


class PublicCoins:
    """Counter-based coins for public choices.

    Args:
        seed: public integer seed, 0 <= seed < 2**128.

    Example:
        >>> coins = PublicCoins(7)
        >>> together = coins.uniform("explore", 0, 5, 3)
        >>> alone = coins.uniform("explore", 3, 4, 3)
        >>> bool((together[3] == alone[0]).all())
        True
    """

    def __init__(self, seed: Seed) -> None:
        self.seed = _checks.integer(seed, name="seed", minimum=0)
        if self.seed >= 2**128:
            raise InvalidParameter("seed: expected an integer in [0, 2**128)")
        # Where each stream stands: consecutive rounds, the usual case, go on without a new generator.
        self._streams: dict[tuple[str, int], tuple[np.random.Philox, int]] = {}

    def __repr__(self) -> str:
        return f"PublicCoins(seed={self.seed})"

    def uniform(self, purpose: str, start: int, stop: int, draws: int) -> FloatArray:
        """Uniforms in (0, 1) for rounds start..stop-1, shape (stop - start, draws).

        The same `purpose` must always be used with the same number of `draws`.
        """
        first, last = operator.index(start), operator.index(stop)
        if not 0 <= first <= last or draws < 1:
            raise InvalidParameter("coins: expected 0 <= start <= stop and draws >= 1")
        if first == last:
            return np.zeros((0, draws))
        steps = -(-draws // _WORDS_PER_STEP)
        stream, position = self._streams.pop((purpose, draws), (None, 0))
        if stream is None or position > first:
            digest = hashlib.blake2b(f"{self.seed}|{purpose}|{draws}".encode(), digest_size=16).digest()
            stream, position = self._begun(np.frombuffer(digest, dtype=np.uint64), stream), 0
        if first > position:
            stream.advance((first - position) * steps)
        words = np.asarray(stream.random_raw((last - first) * steps * _WORDS_PER_STEP))
        self._streams[purpose, draws] = (stream, last)
        uniforms = (words >> np.uint64(11)) * 2.0**-53 + _HALF_STEP
        return np.ascontiguousarray(uniforms.reshape(last - first, -1)[:, :draws])

    def _begun(self, key: NDArray[np.uint64], used: np.random.Philox | None) -> np.random.Philox:
        """The stream of a key, in place of another one where that is no longer needed.

        A generator of its own would ask the operating system for a seed that nothing uses.
        """
        if used is None and len(self._streams) >= _STREAMS_KEPT:
            used, _ = self._streams.pop(next(iter(self._streams)))  # the one not used for longest
        if used is None:
            return np.random.Philox(key=key)
        fresh: Any = _UNUSED | {"state": {"counter": _ZEROS, "key": key}}
        used.state = fresh
        return used

    def normal(self, purpose: str, start: int, stop: int, draws: int) -> FloatArray:
        """Standard normals (by inverse distribution function), shape (stop - start, draws)."""
        normals: FloatArray = ndtri(self.uniform(purpose, start, stop, draws))
        return normals
