"""Public randomness that is a function of seed, purpose and round, and choices of rows from it.

All public randomness of a policy (exploration, Thompson sampling, ties) comes from here, never from the
noise source. A draw at round t is a function of (seed, purpose, t) alone. It does not depend on the number
of draws or the ties of other rounds, nor on anybody's data. A coin is a uniform number in (0, 1).
"""

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.models.ties import TIE

__all__ = ["PublicCoins", "best_choice", "best_row", "uniform_choice"]

_WORDS_PER_STEP = 4  # one Philox counter step yields four 64-bit words
_HASH_BYTES = 8  # a user's coin is one 64-bit word
_STREAMS_KEPT = 16  # generators kept: more than a policy has purposes; a local server has one a version
_ZEROS = np.zeros(_WORDS_PER_STEP, dtype=np.uint64)
# State of a generator before its first draw: the buffer of one step is used up.
_UNUSED = {
    "bit_generator": "Philox",
    "buffer": _ZEROS,
    "buffer_pos": _WORDS_PER_STEP,
    "has_uint32": 0,
    "uinteger": 0,
}
_HALF_STEP = 2.0**-54  # centres a 53-bit uniform inside its cell, away from 0 and 1


class PublicCoins:
    """Public random numbers from a counter-based generator.

    Args:
        seed: Public seed, 0 <= seed < 2**128.

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
        # Generators with their next round. Consecutive rounds, the usual case, need no new generator.
        self._streams: dict[tuple[str, int], tuple[np.random.Philox, int]] = {}

    def __repr__(self) -> str:
        return f"PublicCoins(seed={self.seed})"

    def uniform(self, purpose: str, start: int, stop: int, draws: int) -> FloatArray:
        """Return uniform numbers in (0, 1) for rounds start..stop-1, shape (stop - start, draws).

        Use the same number of `draws` in all calls with one `purpose`.
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

    def of_users(self, purpose: str, digests: Sequence[bytes]) -> FloatArray:
        """Return a uniform number in [0, 1) for each of n users, shape (n,), the same at every return.

        Args:
            purpose: Name of the use; other purposes have independent numbers.
            digests: Digests of the users' ids with a secret key. So nobody can choose an id by its number.
        """
        begun = hashlib.blake2b(f"{self.seed}|{purpose}|".encode(), digest_size=_HASH_BYTES)
        found = bytearray()
        for digest in digests:
            whole = begun.copy()
            whole.update(digest)
            found += whole.digest()
        words = np.frombuffer(bytes(found), dtype="<u8").astype(np.uint64)
        return np.asarray((words >> np.uint64(11)) * 2.0**-53)

    def _begun(self, key: NDArray[np.uint64], used: np.random.Philox | None) -> np.random.Philox:
        """Return a generator at the beginning of the stream with this key; reuse `used` or an old one.

        A new generator would read an unnecessary seed from the operating system.
        """
        if used is None and len(self._streams) >= _STREAMS_KEPT:
            used, _ = self._streams.pop(next(iter(self._streams)))  # the least recently used one
        if used is None:
            return np.random.Philox(key=key)
        fresh: Any = _UNUSED | {"state": {"counter": _ZEROS, "key": key}}
        used.state = fresh
        return used

    def normal(self, purpose: str, start: int, stop: int, draws: int) -> FloatArray:
        """Return standard normal numbers for rounds start..stop-1, shape (stop - start, draws).

        They are the inverse normal distribution function of `uniform`.
        """
        normals: FloatArray = ndtri(self.uniform(purpose, start, stop, draws))
        return normals


def uniform_choice(
    coins: FloatArray, n_candidates: int, available: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    """Choose a row of each decision set uniformly, and return rows (B,) and their probabilities (B,).

    Args:
        coins: Public uniform numbers in (0, 1), shape (B,).
        n_candidates: Number n of rows of each set.
        available: Mask of available rows (B, n), among which the choice is made; None if all are available.
    """
    if available is None:
        indices = np.floor(coins * n_candidates).astype(np.int64)
        return indices, np.full(len(coins), 1.0 / n_candidates)
    counts = available.sum(axis=1)
    rank = np.floor(coins * counts).astype(np.int64)
    # The chosen row is the first at which the number of available rows so far exceeds the rank.
    indices = np.argmax(np.cumsum(available, axis=1) > rank[:, None], axis=1).astype(np.int64)
    return indices, 1.0 / counts


def best_row(scores: FloatArray, coin: Callable[[], float]) -> int:
    """Return the row with the highest score, for scores (n,); `coin` is called for a number only in a tie."""
    index = _only_best(scores)
    return int(best_choice(scores[None], np.array([coin()]), None)[0]) if index is None else index


def _only_best(scores: FloatArray) -> int | None:
    """Return the row with the highest score (n,); None if several rows tie, or if a score is NaN."""
    index = int(scores.argmax())
    best = scores.item(index)
    least = min(best - TIE, best * (1.0 - TIE), best * (1.0 + TIE))  # as in `_tied`
    return index if np.count_nonzero(scores >= least) == 1 else None


def _tied(scores: FloatArray) -> BoolArray:
    """Return a mask (B, n) of scores that tie with the best of their set; False in sets with a NaN."""
    best = scores.max(axis=1, keepdims=True)
    # An infinite best score gives an infinite threshold, so infinite scores tie with it.
    least = np.minimum(best - TIE, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))
    return np.asarray(scores >= least)


def best_choice(scores: FloatArray, coins: FloatArray, available: BoolArray | None) -> IntArray:
    """Return the row with the highest score in each decision set, shape (B,).

    If there is a mask, a NaN score counts as the lowest, so a row that is not available is never chosen.

    Args:
        scores: Scores (B, n).
        coins: Public uniform numbers (B,), which break ties within `TIE`.
        available: Mask of available rows (B, n); None if all are available.
    """
    if len(scores) == 1 and available is None:  # fast path for the common case
        index = _only_best(scores[0])
        if index is not None:
            return np.array([index])
    if available is not None:
        scores = np.where(available & ~np.isnan(scores), scores, -np.inf)
    best = _tied(scores)
    if available is not None:
        best &= available
    indices, tied = best.argmax(axis=1), best.sum(axis=1) > 1
    if tied.any():
        indices[tied], _ = uniform_choice(coins[tied], scores.shape[1], best[tied])
    return np.asarray(indices)
