"""`RoundBook`: the rounds of a policy, their users, actions and rewards.

The number of a round is the index of its ask. The rules on which guarantees rest are enforced here: the
horizon, the contribution bound `rounds_per_user`, and that a round's reward is taken at most once and before
its block closes.

A call is refused as a whole, without taking a round, in three cases. The horizon has too few rounds left, a
decision id is unknown, or a single ask has no user or exceeds the user's contribution bound. Any other ask
takes its round, and contributes nothing if it cannot be answered. In a batch a user without an id also takes
a round. User ids are stored only as digests with a secret salt.
"""

import bisect
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NoReturn, Protocol

import numpy as np

from dpbandits import _checks
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
from dpbandits.policy import round_log
from dpbandits.tables.owners import Owners, first_rows

__all__ = [
    "NOBODY",
    "RoundBook",
    "RoundStatus",
    "UserCounts",
    "is_plain",
    "refuse_told",
    "status_after",
]

_FIRST_CAPACITY = 1024
_DIGEST_BYTES = 16
_LONGEST_ID = 48


class RoundStatus(IntEnum):
    """Status of a round: what happened to its reward."""

    PENDING = 1
    """The round has no reward yet."""
    TOLD = 2
    """The round has a reward, which counts."""
    ABANDONED = 3
    """The round will never have a reward."""
    MISSED = 4
    """The round's block closed before a reward came."""
    LATE = 5
    """The round's reward came after its block had closed, and was dropped."""
    REFUSED = 6
    """The context could not be answered, or was erased: the round contributes nothing."""


NOBODY = bytes(_DIGEST_BYTES)
"""Digest that stands for the user of a refused round, if the user is unknown or has no rounds left."""


class UserCounts:
    """Numbers of rounds, or of rows, of every user, stored by digest of the user's id. Ids are not stored.

    Args:
        salt: Secret key of the digests. Default: a random key.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        self.salt = secrets.token_bytes(_DIGEST_BYTES) if salt is None else salt
        self._taken: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def of(self, digest: bytes) -> int:
        """Return the number of rounds that the user with this digest has had."""
        return self._taken[digest]

    def digests(self, users: Iterable[object]) -> list[bytes]:
        """Return the digests of user ids. Spellings of one id that `_checks.person` unites have one digest.

        Raises:
            InvalidData: An id is missing or has another type.
        """
        return self.digests_of([_checks.person(user) for user in users])

    def digests_of(self, texts: Sequence[str]) -> list[bytes]:
        """Return the digests of ids that `_checks.person` has turned into texts."""
        begun = hashlib.blake2b(b"str:", key=self.salt, digest_size=_DIGEST_BYTES)
        found = []
        for text in texts:
            whole = begun.copy()
            whole.update(text.encode(errors="surrogatepass"))
            found.append(whole.digest())
        return found

    def had(self, digests: Sequence[bytes]) -> IntArray:
        """Return the number of rounds that each user has had, shape (n,), for n digests."""
        if not self._taken:
            return np.zeros(len(digests), dtype=np.int64)
        return np.array([self._taken[one] for one in digests], dtype=np.int64)

    def add(self, digests: Iterable[bytes]) -> None:
        """Count one round more for each digest, except for `NOBODY`."""
        self._taken.update(digests)
        self._taken.pop(NOBODY, None)

    def add_rows(self, digests: Sequence[bytes], counts: IntArray) -> None:
        """Count `counts` (n,) more rounds for n distinct digests."""
        had = np.flatnonzero(counts)
        if len(had) < len(digests):
            digests, counts = [digests[place] for place in had.tolist()], counts[had]
        rows = zip(digests, counts.tolist(), strict=True)
        if self._taken:
            self._taken.update(dict(rows))
        else:  # not `Counter.update`, which would count the pairs
            dict.update(self._taken, rows)

    def merged(self, other: "UserCounts") -> Counter[bytes]:
        """Return the sums of the counts in both objects, without changing either object."""
        return self._taken + other._taken

    def replace(self, taken: Counter[bytes]) -> None:
        """Replace the counts by a result of `merged`."""
        self._taken = taken

    def arrays(self, *, salt: str, users: str, taken: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays from which `restored` rebuilds the counts, under the given names."""
        digests = b"".join(self._taken)
        return {
            salt: np.frombuffer(self.salt, dtype=np.uint8).copy(),
            users: np.frombuffer(digests, dtype=np.uint8).reshape(-1, _DIGEST_BYTES).copy(),
            taken: np.fromiter(self._taken.values(), dtype=np.int64, count=len(self._taken)),
        }

    @classmethod
    def restored(
        cls, arrays: Mapping[str, np.ndarray[Any, Any]], *, salt: str, users: str, taken: str
    ) -> "UserCounts":
        """Rebuild counts from `arrays`.

        Raises:
            ValueError: The arrays contradict each other.
        """
        found = cls(np.array(arrays[salt], dtype=np.uint8).tobytes())
        digests = np.array(arrays[users], dtype=np.uint8)
        counts = np.array(arrays[taken], dtype=np.int64)
        rows = digests.ndim == 2 and digests.shape == (len(counts), _DIGEST_BYTES)
        if not rows or counts.ndim != 1 or (counts < 0).any() or len(found.salt) != _DIGEST_BYTES:
            raise ValueError("digests and counts do not fit together")
        found._taken = Counter(dict(zip(map(bytes, digests), counts.tolist(), strict=True)))
        return found


_IS_OPEN = np.isin(
    np.arange(max(RoundStatus) + 1), (RoundStatus.PENDING, RoundStatus.MISSED, RoundStatus.REFUSED)
)
"""Mask over statuses that is True if a reward may still be told in this status, whether it counts or not."""


def refuse_told() -> NoReturn:
    """Raise `AlreadyTold`, because the decision's reward was told, or the decision abandoned, before."""
    raise AlreadyTold("this decision was told or abandoned before: tell each decision once")


def status_after(status: int, *, usable: bool, missing: bool) -> int | None:
    """Return the `RoundStatus` of a round after its reward is told; None if it was told before.

    Args:
        status: Status before.
        usable: True if the reward can count.
        missing: True if the round will never have a reward.
    """
    return _BECOMES[2 * missing + usable][status] if _OPEN[status] else None


def _settled() -> IntArray:
    """Return a table of the status after a reward is told, by (2 missing + usable, status before)."""
    becomes = np.tile(np.arange(len(_IS_OPEN)), (4, 1))
    becomes[2:, _IS_OPEN] = RoundStatus.ABANDONED
    becomes[1::2, RoundStatus.PENDING] = RoundStatus.TOLD
    becomes[1::2, RoundStatus.MISSED] = RoundStatus.LATE
    becomes[:, RoundStatus.REFUSED] = RoundStatus.REFUSED
    return becomes


_SETTLED = _settled()

_OPEN: tuple[bool, ...] = tuple(_IS_OPEN.tolist())
_BECOMES: tuple[tuple[int, ...], ...] = tuple(map(tuple, _SETTLED.tolist()))
"""Table `_SETTLED` as tuples; like `_OPEN`, it exists because reading a single entry of an array is slow."""

_PENDING, _TOLD, _REFUSED = map(int, (RoundStatus.PENDING, RoundStatus.TOLD, RoundStatus.REFUSED))


class Companion(Protocol):
    """Second record of the same rounds, which a `RoundBook` tells of every ask and reward, also in a replay.

    Attributes:
        columns: Number M of further metrics.
    """

    columns: int

    def entered(
        self, start: int, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None
    ) -> None:
        """Record the rounds with these actions (B, d) from `start` on; the same call may come twice.

        The arguments are those of `RoundBook.open`.
        """

    def told(self, rounds: IntArray, rewards: FloatArray, metrics: FloatArray | None) -> None:
        """Record rewards (k,) that count, of rounds (k,), and further metrics (k, M) told with them."""

    def told_one(self, index: int, reward: float, metrics: Sequence[float] | None) -> None:
        """Record one round's reward that counts, and its further metrics (M,), as `told` does."""

    def erase(self, stop: int) -> None:
        """Erase the outcomes of rounds before `stop` that are in no release."""


_PLAIN = (float, np.float64, bool)
"""Types of numbers that convert to float without loss."""

_EXACT = 1 << 53
"""Largest integer n for which float64 represents all integers up to n exactly."""


def is_plain(value: Any) -> bool:
    """Return True for a number that converts to float without loss.

    Only exact types count, because reading an object of a subclass may fail.
    """
    kind = type(value)
    return kind in _PLAIN or (kind is int and abs(value) <= _EXACT)


_BOOK_NAMES = {"salt": "book_salt", "users": "book_users", "taken": "book_taken"}


class RoundBook:
    """Record of a policy's rounds, with users, chosen actions and rewards. All of it is raw data.

    Args:
        dim: Number of columns of an action.
        horizon: Largest number of rounds; None for no bound.
        rounds_per_user: Contribution bound, in rounds; None for no bound.
        user_ids: True if every ask must name its user. If it is False and there is no contribution bound,
            named users are ignored.
        lineage: Public id of the policy, a prefix of every decision id. Each process that loads the state
            also puts a random number of its own into new ids. So an id whose round was lost in a crash
            differs from the id of the round that replaced it.
        salt: Secret key of the user digests. Default: a random key.

    Attributes:
        before: Function that is called with (kind, content) before every change, as `policy.round_log` packs
            it. If it raises, the book is unchanged.
        ended: Function from the number of asked rounds to a number of rounds from the start. Rewards of
            those rounds no longer count when the next round is asked. None if rewards count until rounds are
            closed.
        companion: Second record of the rounds; None for none.
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
        self.before: Callable[[bytes, bytes], None] | None = None
        self.ended: Callable[[int], int] | None = None
        self.companion: Companion | None = None
        self._epoch_starts = [0]
        self._epoch_nonces = [secrets.token_hex(4)]
        self._users = UserCounts(salt)
        self.asked = 0  # number of rounds so far; public, as it counts asks and not tells
        self._first_open = 0  # earlier rounds are closed, and their actions were removed
        self._ended = 0  # rewards of earlier rounds do not count
        self._status = np.zeros(0, dtype=np.uint8)
        self._actions = np.zeros((0, dim))
        self._rewards = np.zeros(0)
        self._issued: tuple[str | None, int] = None, 0  # last id from `open_one`, and its round

    def __repr__(self) -> str:
        return f"RoundBook(lineage={self.lineage!r}, asked={self.asked})"

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told and count."""
        rounds = np.flatnonzero(self._status[: self.asked] == RoundStatus.PENDING)
        return tuple(self._decision_id(int(index)) for index in rounds)

    def _decision_id(self, round_index: int) -> str:
        nonce = self._epoch_nonces[bisect.bisect_right(self._epoch_starts, round_index) - 1]
        return f"{self.lineage[:8]}-{round_index}-{nonce}"

    # -- asking ---------------------------------------------------------------------------------

    def check_open(self, count: int, users: Sequence[object] | None, *, batch: bool = False) -> list[bytes]:
        """Check new rounds against the horizon and the contribution bound, without changing anything.

        Args:
            count: Number of new rounds.
            users: Id of each round's user.
            batch: True if one user's fault must not refuse the other users. A user without an id, or without
                rounds left, then becomes `NOBODY`.

        Returns:
            Digests of the users, to be passed to `open`; empty for a policy without user ids.

        Raises:
            HorizonExceeded: The horizon has too few rounds left.
            InvalidData: Users are missing, or are not allowed.
            ContributionExceeded: A user has no rounds left, and `batch` is False.
        """
        self.refuse_beyond(count)
        if not self.user_ids:
            if users is not None and self.rounds_per_user is not None:
                raise InvalidData(
                    "users were passed to a policy built with JointDP(..., user_ids=False): leave them out, "
                    "or build it with JointDP(..., user_ids=True)"
                )
            return []
        if users is None:
            raise InvalidData(
                "every ask needs its user: pass user= (users= for a batch), or build the policy with "
                "JointDP(..., user_ids=False), which makes the contribution bound an unchecked assumption"
            )
        named = _checks.people(users, count=count, what="decision set")
        if batch:
            return self._admitted(Owners.of(named, count=count))
        digests = self._users.digests(named)
        if self._over_limit(digests):
            self.refuse_user()
        return digests

    def refuse_beyond(self, count: int) -> None:
        """Raise `HorizonExceeded` if fewer than `count` rounds of the horizon are left."""
        if self.horizon is not None and self.asked + count > self.horizon:
            raise HorizonExceeded(
                f"{count} more round(s) after {self.asked}, but the noise is calibrated to horizon "
                f"{self.horizon}: build a policy with a longer horizon"
            )

    def _admitted(self, owners: Owners) -> list[bytes]:
        """Return the digest of each round's user; `NOBODY` for a user without an id or rounds left."""
        digests, kept = self._users.digests_of(owners.texts), owners.named
        if self.rounds_per_user is not None:
            kept = first_rows(owners.numbers, self.rounds_per_user, self._users.had(digests))
        return [
            digests[number] if admitted else NOBODY
            for number, admitted in zip(owners.numbers.tolist(), kept.tolist(), strict=True)
        ]

    def _over_limit(self, digests: Sequence[bytes]) -> bool:
        limit = self.rounds_per_user
        had, more = self._users.of, Counter(digests)
        more.pop(NOBODY, None)
        return limit is not None and any(had(user) + rounds > limit for user, rounds in more.items())

    def refuse_user(self) -> NoReturn:
        """Raise `ContributionExceeded`, because a user has no rounds left."""
        raise ContributionExceeded(
            f"a user asked for more than rounds_per_user = {self.rounds_per_user} round(s); nothing was "
            "answered: leave this user out, or build with a larger bound"
        )

    def open(
        self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None = None
    ) -> tuple[str, ...]:
        """Record B new rounds, and return their decision ids. Call `check_open` first.

        Args:
            digests: Digests from `check_open`.
            actions: Chosen actions (B, d), finite also for refused rounds.
            refused: Mask of refused rounds (B,); None if no round is refused.
        """
        if self.before is not None:
            self.before(round_log.ASK, round_log.pack_ask(self.asked, digests, actions, refused))
        start = self._enter(digests, actions, refused)
        return tuple(map(self._decision_id, range(start, self.asked)))

    def _enter(self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None) -> int:
        """Record rounds without calling `before`, and return the index of the first round."""
        count = len(actions)
        start = self._place_for(count)
        self._status[start : start + count] = RoundStatus.PENDING
        if refused is not None:
            self._status[start : start + count][refused] = RoundStatus.REFUSED
        offset = start - self._first_open
        self._actions[offset : offset + count] = actions
        if self.companion is not None:
            self.companion.entered(start, digests, actions, refused)
        if digests:
            # Users are counted before the rounds, so that an interrupt leaves no round without its count. An
            # interrupt in between makes a replay of the log count the users twice.
            self._users.add(digests)
        self.asked += count
        return start

    def open_one(self, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> str:
        """Record one round with action (d,) as `open` does, and return its decision id."""
        if self.before is not None:
            self.before(round_log.ASK, round_log.pack_one_ask(self.asked, digests, action, refused=refused))
        index = self._place_for(1)
        self._status[index] = _REFUSED if refused else _PENDING
        self._actions[index - self._first_open] = action
        if self.companion is not None:
            self.companion.entered(index, digests, action[None], np.array([refused]))
        if digests:
            self._users.add(digests)  # before the round, as in `_enter`
        self.asked = index + 1
        decision_id = self._decision_id(index)
        self._issued = decision_id, index
        return decision_id

    def _place_for(self, count: int) -> int:
        """Enlarge the arrays for `count` new rounds, and return the index of the first new round."""
        if self.ended is not None:
            self.end()
        rounds = self.asked + count
        if rounds > len(self._status):
            self._status = _grown(self._status, rounds)
        if rounds - self._first_open > len(self._actions):
            self._actions = _grown(self._actions, rounds - self._first_open)
            self._rewards = _grown(self._rewards, rounds - self._first_open)
        return self.asked

    # -- telling --------------------------------------------------------------------------------

    def rounds_of(self, ids: Sequence[str]) -> IntArray:
        """Return the round of each of k decision ids, shape (k,).

        Raises:
            UnknownDecision: An id was not issued by this policy.
            InvalidData: `ids` is not a sequence.
        """
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InvalidData(f"ids: expected a sequence of decision ids, got {_checks.kind_of(ids)}")
        return np.array([self._round_of(decision_id) for decision_id in ids], dtype=np.int64)

    def open_among(self, rounds: IntArray) -> BoolArray:
        """Return an array (k,) that is True for rounds whose reward may be told now.

        If a round occurs several times, only its first place is True. A round that was told before is False
        and raises no error, so that other users' rewards are taken.
        """
        fresh = np.zeros(len(rounds), dtype=np.bool_)
        fresh[np.unique(rounds, return_index=True)[1]] = True
        return np.asarray(fresh & _IS_OPEN[self._status_of(rounds)])

    def _status_of(self, rounds: IntArray) -> IntArray:
        """Return the `RoundStatus` (k,) of rounds (k,)."""
        return np.asarray(self._status[rounds])

    def _becoming(self, rounds: IntArray, usable: BoolArray, missing: BoolArray) -> IntArray:
        """Return the `RoundStatus` (k,) that rounds (k,) will have after `settle`."""
        return np.asarray(_SETTLED[2 * missing + usable, self._status_of(rounds)])

    def round_of(self, decision_id: str) -> int:
        """Return the round of a decision that may be told now.

        Raises:
            UnknownDecision: The id was not issued by this policy.
            AlreadyTold: The decision was told or abandoned before.
        """
        issued, index = self._issued
        if type(decision_id) is not str or decision_id != issued:
            index = self._round_of(decision_id)
        if not _OPEN[self._status.item(index)]:
            refuse_told()
        return index

    def _round_of(self, decision_id: object) -> int:
        if isinstance(decision_id, str) and len(decision_id) < _LONGEST_ID:
            digits = decision_id.removeprefix(f"{self.lineage[:8]}-").partition("-")[0]
            index = int(digits) if digits.isascii() and digits.isdigit() else self.asked
            if index < self.asked and decision_id == self._decision_id(index):
                return index
        raise UnknownDecision("this decision id was not issued by this policy: pass Decision.id unchanged")

    def settle(
        self,
        rounds: IntArray,
        rewards: FloatArray,
        usable: BoolArray,
        missing: BoolArray,
        metrics: FloatArray | None = None,
    ) -> IntArray:
        """Record the rewards of distinct rounds that may be told now (`open_among`).

        Args:
            rounds: Rounds (k,).
            rewards: Rewards (k,); those that are `usable` are in the reward range.
            usable: Mask of rewards that can count (k,).
            missing: Mask of rounds that will never have a reward (k,). A round that is neither usable nor
                missing is left unchanged.
            metrics: Further metrics (k, M) for the `companion`, NaN where missing; None for none.

        Returns:
            The rounds' new `RoundStatus` (k,).
        """
        if self.before is not None:
            self.before(round_log.TELL, round_log.pack_tell(rounds, rewards, usable, missing, metrics))
        became = self._becoming(rounds, usable, missing)
        told = became == RoundStatus.TOLD
        self._rewards[rounds[told] - self._first_open] = rewards[told]
        self._status[rounds] = became
        if self.companion is not None:
            kept = None if metrics is None else metrics[told]
            self.companion.told(rounds[told], rewards[told], kept)
        return became

    def settle_one(
        self,
        index: int,
        reward: float,
        *,
        usable: bool,
        missing: bool,
        metrics: Sequence[float] | None = None,
    ) -> int:
        """Record the reward of one round from `round_of` as `settle` does, and return the new status.

        The metrics (M,) are those of the `companion`; None for none.
        """
        if self.before is not None:
            told = round_log.pack_one_tell(index, reward, usable=usable, missing=missing, metrics=metrics)
            self.before(round_log.TELL, told)
        became = _BECOMES[2 * missing + usable][self._status.item(index)]
        if became == _TOLD:
            self._rewards[index - self._first_open] = reward
        self._status[index] = became
        if became == _TOLD and self.companion is not None:
            self.companion.told_one(index, reward, metrics)
        return became

    def abandon(self, decision_id: str) -> None:
        """Record that a decision will never have a reward."""
        self.settle_one(self.round_of(decision_id), 0.0, usable=False, missing=True)

    # -- replaying a log --------------------------------------------------------------------------

    def replayed(self, kind: bytes, content: bytes) -> round_log.Told | None:
        """Apply a record of the log of rounds, unless it was applied before.

        An ask is applied here, and None is returned. For a tell, the rewards that are not recorded yet are
        returned.

        Raises:
            CorruptState: The record is malformed, or does not continue the recorded rounds.
        """
        with reading("a record of the log of rounds", CorruptState):
            if kind == round_log.ASK:
                self._reopen(round_log.unpack_ask(content, digest_bytes=_DIGEST_BYTES))
                return None
            if kind != round_log.TELL:
                raise ValueError
            told = round_log.unpack_tell(content)
            rounds, columns = told.rounds, 0 if self.companion is None else self.companion.columns
            if told.metrics is not None and told.metrics.shape[1] != columns:
                raise ValueError
            if ((rounds < 0) | (rounds >= self.asked)).any() or len(np.unique(rounds)) != len(rounds):
                raise CorruptState("the log of rounds does not follow the state")
            fresh = _IS_OPEN[self._status[rounds]]
            beside = None if told.metrics is None else told.metrics[fresh]
            usable, missing = told.usable[fresh], told.missing[fresh]
            return round_log.Told(rounds[fresh], told.rewards[fresh], usable, missing, beside)

    def _reopen(self, asked: round_log.Asked) -> None:
        count = len(asked.actions)
        if asked.start + count <= self.asked:
            return
        fits = asked.start == self.asked and asked.actions.shape[1] == self._actions.shape[1]
        named = len(asked.digests) == (count if self.user_ids else 0)
        if not fits or not named or (self.horizon is not None and asked.start + count > self.horizon):
            raise CorruptState("the log of rounds does not follow the state")
        if self._over_limit(asked.digests):
            raise CorruptState("the log of rounds has more of a user's rounds than rounds_per_user")
        self._enter(asked.digests, asked.actions, asked.refused)

    def begin_epoch(self) -> None:
        """Start to use this process's random number in ids of new rounds; replayed rounds keep their ids."""
        self._epoch_starts[-1], self._issued = self.asked, (None, 0)

    # -- rounds for a release ---------------------------------------------------------------------

    def block(self, start: int, stop: int) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
        """Return actions (n, d), rewards (n,), and masks (n,) of told and of refused rounds.

        The n rounds are start..stop-1.

        Every round has a row, so that a user's place in the arrays does not depend on other users' reports.
        """
        if start < self._first_open:
            raise IndexError("these rounds were closed and their data was removed")
        rounds, status = np.arange(start, stop), self._status[start:stop]
        told, refused = status == RoundStatus.TOLD, status == RoundStatus.REFUSED
        return self.actions(rounds), self._rewards[rounds - self._first_open], told, refused

    def actions(self, rounds: IntArray) -> FloatArray:
        """Return the chosen actions (k, d) of rounds (k,) that are not closed yet."""
        return np.asarray(self._actions[rounds - self._first_open])

    def end(self, stop: int | None = None) -> None:
        """Stop counting rewards of rounds before `stop`. Default: the present value of `ended`."""
        if stop is None:
            stop = 0 if self.ended is None else self.ended(self.asked)
        if stop > self._ended:
            status = self._status[self._ended : stop]
            status[status == RoundStatus.PENDING] = RoundStatus.MISSED
            self._ended = stop

    def close(self, stop: int) -> None:
        """Stop counting rewards of rounds before `stop`, and delete these rounds' actions and rewards."""
        if stop <= self._first_open:
            return
        self.end(stop)
        kept = slice(stop - self._first_open, None)
        self._actions = self._actions[kept].copy()
        self._rewards = self._rewards[kept].copy()
        self._first_open = stop

    def erase(self, stop: int, point: FloatArray) -> None:
        """Erase the data of rounds before `stop` that are not closed, which become refused rounds.

        The public `point` (d,) replaces their actions. Their rewards are deleted and do not count.
        """
        stop = min(stop, self.asked)
        if self.companion is not None:
            self.companion.erase(stop)
        if stop > self._first_open:
            self._status[self._first_open : stop] = RoundStatus.REFUSED
            self._actions[: stop - self._first_open] = point
            self._rewards[: stop - self._first_open] = 0.0

    # -- saving ---------------------------------------------------------------------------------

    def state_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all arrays that the configuration does not determine. They are secret."""
        open_rounds = self.asked - self._first_open
        return {
            "book_clock": np.array([self.asked, self._first_open], dtype=np.int64),
            "book_epoch_starts": np.array(self._epoch_starts, dtype=np.int64),
            "book_epoch_nonces": np.array([int(nonce, 16) for nonce in self._epoch_nonces], dtype=np.int64),
            "book_status": self._status[: self.asked],
            "book_actions": self._actions[:open_rounds],
            "book_rewards": self._rewards[:open_rounds],
            **self._users.arrays(**_BOOK_NAMES),
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Replace the recorded rounds by the arrays of a `state_arrays` result."""
        with reading("the rounds of a saved policy", CorruptState):
            asked, first_open = (int(value) for value in arrays["book_clock"])
            status = np.array(arrays["book_status"], dtype=np.uint8)
            actions = np.array(arrays["book_actions"], dtype=np.float64)
            rewards = np.array(arrays["book_rewards"], dtype=np.float64)
            users = UserCounts.restored(arrays, **_BOOK_NAMES)
            starts = [int(start) for start in arrays["book_epoch_starts"]]
            nonces = [f"{int(nonce):08x}" for nonce in arrays["book_epoch_nonces"]]
        consistent = (
            0 <= first_open <= asked
            and status.shape == (asked,)
            and actions.shape == (asked - first_open, self._actions.shape[1])
            and rewards.shape == (asked - first_open,)
            and len(starts) == len(nonces) > 0
            and starts[0] == 0
            and starts == sorted(starts)
            and starts[-1] <= asked
            and (self.horizon is None or asked <= self.horizon)
        )
        if not consistent:
            raise CorruptState("the saved rounds contradict each other")
        self.asked, self._first_open, self._ended = asked, first_open, first_open
        self._status, self._actions, self._rewards, self._users = status, actions, rewards, users
        self._issued = None, 0
        self._epoch_starts = [*starts, asked]
        self._epoch_nonces = [*nonces, secrets.token_hex(4)]


def _grown(array: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    capacity = max(length, 2 * len(array), _FIRST_CAPACITY)
    grown = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
