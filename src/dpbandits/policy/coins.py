"""Public randomness, keyed by (seed, purpose, round), and the choices that rest on it.

Everything random that a policy does in the open (exploration, Thompson draws, ties) comes from
here, never from the noise channel. A draw at round t is a function of (seed, purpose, t) alone:
how many draws other rounds took, which of them tied, or what anyone's data was cannot shift it.

A row is chosen uniformly by coins, or by scores whose ties coins break.
"""

import hashlib
import operator
from collections.abc import Callable
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


def uniform_choice(
    coins: FloatArray, n_candidates: int, available: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    """Row chosen uniformly among the available ones, and its probability; coins (B,) in (0, 1)."""
    if available is None:
        indices = np.floor(coins * n_candidates).astype(np.int64)
        return indices, np.full(len(coins), 1.0 / n_candidates)
    counts = available.sum(axis=1)
    rank = np.floor(coins * counts).astype(np.int64)
    # the row at which the running count of available rows first exceeds the drawn rank
    indices = np.argmax(np.cumsum(available, axis=1) > rank[:, None], axis=1).astype(np.int64)
    return indices, 1.0 / counts


def best_row(scores: FloatArray, coin: Callable[[], float]) -> int:
    """`best_choice` of one set, all of it available: scores (n,), and its coin, which is drawn for a tie."""
    index = _only_best(scores)
    return int(best_choice(scores[None], np.array([coin()]), None)[0]) if index is None else index


def _only_best(scores: FloatArray) -> int | None:
    """The row of the highest score (n,); None where several tie, or it is no number."""
    index = int(scores.argmax())
    best = scores.item(index)
    least = min(best - TIE, best * (1.0 - TIE), best * (1.0 + TIE))  # as in `_tied`
    return index if np.count_nonzero(scores >= least) == 1 else None


def _tied(scores: FloatArray) -> BoolArray:
    """Which scores (B, n) tie with the best of their set, itself included; none where that is no number."""
    best = scores.max(axis=1, keepdims=True)
    least = np.minimum(best - TIE, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))  # infinite if best is
    return np.asarray(scores >= least)


def best_choice(scores: FloatArray, coins: FloatArray, available: BoolArray | None) -> IntArray:
    """Row with the highest score (B, n) in each set; ties, see `TIE`, go by the public coins (B,).

    A score that is NaN counts as the lowest if there is a mask, so what is not available is never chosen.
    """
    if len(scores) == 1 and available is None:  # the common case, without arrays for one number
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
