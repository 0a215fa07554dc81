"""Who was asked what, and what is still owed: the one implementation of ask/tell bookkeeping.

A round is the index of its ask. Every rule that a guarantee leans on is kept here: the horizon,
`rounds_per_user`, and that a round's reward is taken once, before its block closes, or never.
Checks come before any change. User ids are kept only as digests under a secret salt.
"""

import bisect
import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    CorruptState,
    HorizonExceeded,
    InvalidData,
    UnknownDecision,
)

__all__ = ["RoundBook", "RoundStatus", "user_digest"]

_FIRST_CAPACITY = 1024
_DIGEST_BYTES = 16
_LONGEST_ID = 48


class RoundStatus(IntEnum):
    """What has become of a round."""

    PENDING = 1
    TOLD = 2
    ABANDONED = 3
    MISSED = 4
    """Its block closed before a reward came."""
    LATE = 5
    """Its reward came after its block had closed, and was dropped."""


def user_digest(user: object, salt: bytes) -> bytes:
    """What is kept of a user's id: the same for equal ids, whatever type or subclass they come as.

    Raises:
        InvalidData: an id that is no str, int or bytes (a float stands for several numbers).
    """
    if isinstance(user, np.generic):
        user = user.item()
    if isinstance(user, bool) or not isinstance(user, str | int | bytes):
        raise InvalidData(f"user: expected str, int or bytes, got {type(user).__name__}")
    # Equal ids are one user, whatever subclass they come as (members of a StrEnum, say).
    if isinstance(user, str):
        tagged = b"str:" + str.encode(user, errors="surrogatepass")
    elif isinstance(user, int):
        tagged = b"int:" + b"%d" % int(user)
    else:
        tagged = b"bytes:" + bytes(user)
    return hashlib.blake2b(tagged, key=salt, digest_size=_DIGEST_BYTES).digest()


class RoundBook:
    """Rounds, their users, chosen actions and rewards. Everything in it is raw data.

    Args:
        dim: columns of an action.
        horizon: rounds the policy may answer, or None for no bound.
        rounds_per_user: rounds one user may take part in, or None for no bound.
        user_ids: whether every ask must name its user.
        lineage: public id of the policy's life, a prefix of every decision id. Each process that takes
            the state up again adds a nonce of its own to the ids it issues, so that an id whose round was
            lost in a crash is never mistaken for the round that took its place.
        salt: secret key of the user digests; drawn here when absent.
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int | None,
        rounds_per_user: int | None,
        user_ids: bool,
        lineage: str,
        salt: bytes | None = None,
    ) -> None:
        self.horizon, self.rounds_per_user, self.user_ids = horizon, rounds_per_user, user_ids
        self.lineage = lineage
        self._epoch_starts = [0]
        self._epoch_nonces = [secrets.token_hex(4)]
        self._salt = secrets.token_bytes(_DIGEST_BYTES) if salt is None else salt
        self._taken: Counter[bytes] = Counter()
        self.asked = 0  # rounds answered so far: public, as it counts asks and not tells
        self._first_open = 0  # rounds before it are closed and their actions forgotten
        self._status = np.zeros(0, dtype=np.uint8)
        self._actions = np.zeros((0, dim))
        self._rewards = np.zeros(0)

    def __repr__(self) -> str:
        return f"RoundBook(lineage={self.lineage!r}, asked={self.asked})"

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions that can still be told."""
        rounds = np.flatnonzero(self._status[: self.asked] == RoundStatus.PENDING)
        return tuple(self._decision_id(int(index)) for index in rounds)

    def _decision_id(self, round_index: int) -> str:
        nonce = self._epoch_nonces[bisect.bisect_right(self._epoch_starts, round_index) - 1]
        return f"{self.lineage[:8]}-{round_index}-{nonce}"

    # -- asking ---------------------------------------------------------------------------------

    def check_open(self, count: int, users: Sequence[object] | None) -> list[bytes]:
        """Refuse rounds that the horizon or a user's share does not cover; change nothing.

        Returns:
            the users' digests, to be passed to `open` (empty without user ids).
        """
        if self.horizon is not None and self.asked + count > self.horizon:
            raise HorizonExceeded(
                f"{count} more round(s) after {self.asked}, but the noise is calibrated to horizon "
                f"{self.horizon}: build a policy with a longer horizon"
            )
        if not self.user_ids:
            if users is not None:
                raise InvalidData("users were given to a policy built with user_ids=False: leave them out")
            return []
        if users is None:
            raise InvalidData(
                "every ask needs its user: pass user= (users= for a batch), or build the policy with "
                "user_ids=False, which makes the contribution bound an unchecked assumption"
            )
        if len(users) != count:
            raise InvalidData(f"{len(users)} users for {count} decision sets: expected one user each")
        digests, limit = [user_digest(user, self._salt) for user in users], self.rounds_per_user
        fresh = Counter(digests)
        if limit is not None and any(self._taken[user] + rounds > limit for user, rounds in fresh.items()):
            raise ContributionExceeded(
                f"a user asked for more than rounds_per_user = {limit} round(s); nothing was answered: leave "
                "this user out, or build with a larger bound"
            )
        return digests

    def open(self, digests: Sequence[bytes], actions: FloatArray) -> tuple[str, ...]:
        """Enter answered rounds; actions (B, d). Call `check_open` first."""
        count = len(actions)
        self._reserve(self.asked + count)
        start = self.asked
        self._status[start : start + count] = RoundStatus.PENDING
        offset = start - self._first_open
        self._actions[offset : offset + count] = actions
        self._taken.update(digests)
        self.asked += count
        return tuple(self._decision_id(index) for index in range(start, start + count))

    def _reserve(self, rounds: int) -> None:
        if rounds > len(self._status):
            self._status = _grown(self._status, rounds)
        if rounds - self._first_open > len(self._actions):
            self._actions = _grown(self._actions, rounds - self._first_open)
            self._rewards = _grown(self._rewards, rounds - self._first_open)

    # -- telling --------------------------------------------------------------------------------

    def rounds_of(self, ids: Sequence[str]) -> IntArray:
        """Round indices of decision ids that may be settled now; refuse any other id."""
        if isinstance(ids, str):
            raise InvalidData("ids: expected a sequence of decision ids, got one str")
        rounds = np.array([self._round_of(decision_id) for decision_id in ids], dtype=np.int64)
        if len(np.unique(rounds)) != len(rounds):
            raise AlreadyTold("a decision id stands twice in one batch: tell each decision once")
        status = self._status[rounds]
        if np.any((status != RoundStatus.PENDING) & (status != RoundStatus.MISSED)):
            raise AlreadyTold("this decision was told or abandoned before: tell each decision once")
        return rounds

    def _round_of(self, decision_id: object) -> int:
        if isinstance(decision_id, str) and len(decision_id) < _LONGEST_ID:
            digits = decision_id.removeprefix(f"{self.lineage[:8]}-").partition("-")[0]
            if digits.isascii() and digits.isdigit() and int(digits) < self.asked:
                if decision_id == self._decision_id(int(digits)):
                    return int(digits)
        raise UnknownDecision("this decision id was not issued by this policy: pass Decision.id as it came")

    def settle(self, rounds: IntArray, rewards: FloatArray) -> BoolArray:
        """Take rewards of rounds from `rounds_of`; False where the block had closed (reward dropped)."""
        counted = self._status[rounds] == RoundStatus.PENDING
        self._status[rounds] = np.where(counted, RoundStatus.TOLD, RoundStatus.LATE).astype(np.uint8)
        taken = rounds[counted] - self._first_open
        self._rewards[taken] = rewards[counted]
        return np.asarray(counted)

    def abandon(self, decision_id: str) -> None:
        """Give up on a decision: it will never have a reward."""
        self._status[self.rounds_of([decision_id])] = RoundStatus.ABANDONED

    def told(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Actions (k, d) and rewards (k,) told for rounds start..stop-1, in order of rounds."""
        if start < self._first_open:
            raise IndexError("these rounds were closed and forgotten")
        rounds = start + np.flatnonzero(self._status[start:stop] == RoundStatus.TOLD)
        return self.actions(rounds), self._rewards[rounds - self._first_open]

    def answered(self, start: int, stop: int, *, missing: float) -> tuple[FloatArray, FloatArray]:
        """Actions (k, d) of all rounds start..stop-1 and their rewards, `missing` where none was told."""
        if start < self._first_open:
            raise IndexError("these rounds were closed and forgotten")
        rounds = np.arange(start, stop)
        told = self._status[start:stop] == RoundStatus.TOLD
        return self.actions(rounds), np.where(told, self._rewards[rounds - self._first_open], missing)

    def actions(self, rounds: IntArray) -> FloatArray:
        """Chosen actions (k, d) of rounds that are not yet closed."""
        return np.asarray(self._actions[rounds - self._first_open])

    def close(self, stop: int) -> None:
        """No reward before round `stop` counts any more; forget their actions and rewards."""
        if stop <= self._first_open:
            return
        status = self._status[self._first_open : stop]
        status[status == RoundStatus.PENDING] = RoundStatus.MISSED
        kept = slice(stop - self._first_open, None)
        self._actions = self._actions[kept].copy()
        self._rewards = self._rewards[kept].copy()
        self._first_open = stop

    # -- saving ---------------------------------------------------------------------------------

    def state_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that cannot be rebuilt from the configuration: secret."""
        open_rounds = self.asked - self._first_open
        digests = b"".join(self._taken)
        return {
            "book_clock": np.array([self.asked, self._first_open], dtype=np.int64),
            "book_salt": np.frombuffer(self._salt, dtype=np.uint8),
            "book_epoch_starts": np.array(self._epoch_starts, dtype=np.int64),
            "book_epoch_nonces": np.array([int(nonce, 16) for nonce in self._epoch_nonces], dtype=np.int64),
            "book_status": self._status[: self.asked],
            "book_actions": self._actions[:open_rounds],
            "book_rewards": self._rewards[:open_rounds],
            "book_users": np.frombuffer(digests, dtype=np.uint8).reshape(-1, _DIGEST_BYTES),
            "book_taken": np.fromiter(self._taken.values(), dtype=np.int64, count=len(self._taken)),
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over arrays written by `state_arrays`."""
        with reading("the rounds of a saved policy", CorruptState):
            asked, first_open = (int(value) for value in arrays["book_clock"])
            status = np.array(arrays["book_status"], dtype=np.uint8)
            actions = np.array(arrays["book_actions"], dtype=np.float64)
            rewards = np.array(arrays["book_rewards"], dtype=np.float64)
            users = np.array(arrays["book_users"], dtype=np.uint8)
            taken = np.array(arrays["book_taken"], dtype=np.int64)
            salt = np.array(arrays["book_salt"], dtype=np.uint8).tobytes()
            starts = [int(start) for start in arrays["book_epoch_starts"]]
            nonces = [f"{int(nonce):08x}" for nonce in arrays["book_epoch_nonces"]]
        consistent = (
            0 <= first_open <= asked
            and status.shape == (asked,)
            and actions.shape == (asked - first_open, self._actions.shape[1])
            and rewards.shape == (asked - first_open,)
            and taken.shape == users.shape[:1]
            and users.shape[1:] == (_DIGEST_BYTES,)
            and bool((taken >= 0).all())
            and len(salt) == _DIGEST_BYTES
            and len(starts) == len(nonces) > 0
            and starts[0] == 0
            and starts == sorted(starts)
            and starts[-1] <= asked
            and (self.horizon is None or asked <= self.horizon)
        )
        if not consistent:
            raise CorruptState("the saved rounds contradict each other")
        self.asked, self._first_open = asked, first_open
        self._status, self._actions, self._rewards, self._salt = status, actions, rewards, salt
        self._epoch_starts = [*starts, asked]
        self._epoch_nonces = [*nonces, secrets.token_hex(4)]
        self._taken = Counter({users[i].tobytes(): int(taken[i]) for i in range(len(taken))})


def _grown(array: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    """A longer zero-padded copy, at least doubled."""
    capacity = max(length, 2 * len(array), _FIRST_CAPACITY)
    grown = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
