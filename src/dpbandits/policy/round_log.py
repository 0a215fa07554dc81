"""Records of the log of rounds, which contains the asks and tells since the last saved state.

| kind | content, little-endian |
|---|---|
| `A` (ask) | first round, number of rounds, action columns, flag for digests; digests, refused, actions |
| `T` (tell) | number of tells; rounds, rewards, two flags of each: usable, missing; further metrics of each |

Records are raw data. Reading them checks their lengths and executes nothing.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "ASK",
    "TELL",
    "Asked",
    "Told",
    "pack_ask",
    "pack_one_ask",
    "pack_one_tell",
    "pack_tell",
    "unpack_ask",
    "unpack_tell",
]

ASK, TELL = b"A", b"T"

_ASK = struct.Struct("<QQI?")
_TELL = struct.Struct("<Q")
_ONE_TELL = struct.Struct("<Qqd??")
_ROUND, _NUMBER, _FLAG = np.dtype("<i8"), np.dtype("<f8"), np.dtype("u1")
_TOLD_BYTES = _ROUND.itemsize + _NUMBER.itemsize + 2 * _FLAG.itemsize


class Asked(NamedTuple):
    """Rounds of one ask or batch: first round, users' digests, refused (B,) and actions (B, d)."""

    start: int
    digests: list[bytes]
    refused: BoolArray
    actions: FloatArray


class Told(NamedTuple):
    """Rewards (k,) that were told in one call; see `RoundBook.settle` for the fields."""

    rounds: IntArray
    rewards: FloatArray
    usable: BoolArray
    missing: BoolArray
    metrics: FloatArray | None = None


def pack_ask(
    start: int, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None = None
) -> bytes:
    """Return the record of B rounds from round `start`.

    Args:
        start: First round.
        digests: Digest of each round's user; empty without user ids.
        actions: Chosen actions (B, d).
        refused: Mask of refused rounds (B,); None if no round is refused.
    """
    count, dim = actions.shape
    flags = np.zeros(count, dtype=np.bool_) if refused is None else refused
    head = _ASK.pack(start, count, dim, bool(digests))
    return head + b"".join(digests) + flags.astype(_FLAG).tobytes() + actions.astype(_NUMBER).tobytes()


def pack_one_ask(start: int, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> bytes:
    """Return the record of one round with action (d,) as `pack_ask` does, but faster."""
    head = _ASK.pack(start, 1, len(action), bool(digests))
    return b"".join((head, *digests, b"\1" if refused else b"\0", action.astype(_NUMBER).tobytes()))


def unpack_ask(content: bytes, *, digest_bytes: int) -> Asked:
    """Return the content of a record of `pack_ask`.

    Raises:
        ValueError, struct.error: The bytes are not such a record.
    """
    start, count, dim, named = _ASK.unpack_from(content)
    used = count * digest_bytes if named else 0
    rest = memoryview(content)[_ASK.size :]
    if len(rest) != used + count * (_FLAG.itemsize + dim * _NUMBER.itemsize):
        raise ValueError
    digests = [bytes(rest[at : at + digest_bytes]) for at in range(0, used, digest_bytes)]
    refused = np.frombuffer(rest[used : used + count], dtype=_FLAG).astype(np.bool_)
    actions = np.frombuffer(rest[used + count :], dtype=_NUMBER).reshape(count, dim).astype(np.float64)
    return Asked(start, digests, refused, actions)


def pack_tell(
    rounds: IntArray,
    rewards: FloatArray,
    usable: BoolArray,
    missing: BoolArray,
    metrics: FloatArray | None = None,
) -> bytes:
    """Return the record of rewards (k,) of rounds (k,). Unusable rewards are not stored.

    `metrics` (k, M) are further numbers of these rounds, NaN where missing; None for none.
    """
    kept = np.where(usable, rewards, 0.0)
    parts = (rounds.astype(_ROUND), kept.astype(_NUMBER), usable.astype(_FLAG), missing.astype(_FLAG))
    beside = b"" if metrics is None else metrics.astype(_NUMBER).tobytes()
    return _TELL.pack(len(rounds)) + b"".join(part.tobytes() for part in parts) + beside


def pack_one_tell(
    index: int, reward: float, *, usable: bool, missing: bool, metrics: Sequence[float] | None = None
) -> bytes:
    """Return the record of one round's reward, with metrics (M,), as `pack_tell` does, but faster."""
    beside = b"" if metrics is None else struct.pack(f"<{len(metrics)}d", *metrics)
    return _ONE_TELL.pack(1, index, reward if usable else 0.0, usable, missing) + beside


def unpack_tell(content: bytes) -> Told:
    """Return the content of a record of `pack_tell`.

    Raises:
        ValueError, struct.error: The bytes are not such a record.
    """
    (count,) = _TELL.unpack_from(content)
    rest = memoryview(content)[_TELL.size :]
    known = _TOLD_BYTES * count
    beyond = len(rest) - known
    if beyond < 0 or beyond % (_NUMBER.itemsize * count or beyond + 1):
        raise ValueError
    rounds = np.frombuffer(rest[: 8 * count], dtype=_ROUND).astype(np.int64)
    rewards = np.frombuffer(rest[8 * count : 16 * count], dtype=_NUMBER).astype(np.float64)
    flags = np.frombuffer(rest[16 * count : known], dtype=_FLAG).astype(np.bool_)
    if not np.isfinite(rewards).all():
        raise ValueError
    metrics = np.frombuffer(rest[known:], dtype=_NUMBER).astype(np.float64)
    beside = metrics.reshape(count, -1) if len(metrics) else None
    return Told(rounds, rewards, flags[:count], flags[count:], beside)
