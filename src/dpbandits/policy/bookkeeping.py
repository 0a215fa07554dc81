"""Who was asked what, and what is still owed: the one implementation of ask/tell bookkeeping.

A round is the index of its ask. Every rule that a guarantee leans on is kept here: the horizon,
`rounds_per_user`, and that a round's reward is taken once, before its block closes, or never. A single ask
without a user or beyond the user's rounds, too few rounds left, and an unknown decision id are refused as a
whole. Whatever else comes takes its round, and contributes nothing if it cannot be used. In a batch a visitor
without an id takes a round of the horizon.
User ids are kept only as digests under a secret salt.
"""

import bisect
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NoReturn

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
    "refuse_told",
    "status_after",
]

_FIRST_CAPACITY = 1024
_DIGEST_BYTES = 16
_LONGEST_ID = 48


class RoundStatus(IntEnum):
    """Status of a round."""

    PENDING = 1
    TOLD = 2
    ABANDONED = 3
    MISSED = 4
    """Its block closed before a reward came."""
    LATE = 5
    """Its reward came after its block had closed, and was dropped."""
    REFUSED = 6
    """Its user's context could not be answered, or was erased: the round contributes nothing."""


NOBODY = bytes(_DIGEST_BYTES)
"""Stands for the user of a round that is refused because its user is not known or has had all rounds."""


class UserCounts:
    """How many rounds, or rows, every user has had: counts by digest, and no ids.

    Args:
        salt: secret key of the digests; drawn here when absent.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        self.salt = secrets.token_bytes(_DIGEST_BYTES) if salt is None else salt
        self._taken: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def of(self, digest: bytes) -> int:
        """Rounds that a user has had."""
        return self._taken[digest]

    def digests(self, users: Iterable[object]) -> list[bytes]:
        """Return digests of ids: the same for one person, however the id is written; see `_checks.person`.

        Raises:
            InvalidData: a missing id, or one of another type.
        """
        return self.digests_of([_checks.person(user) for user in users])

    def digests_of(self, texts: Sequence[str]) -> list[bytes]:
        """Return the digests of texts that `_checks.person` has read."""
        begun = hashlib.blake2b(b"str:", key=self.salt, digest_size=_DIGEST_BYTES)
        found = []
        for text in texts:
            whole = begun.copy()
            whole.update(text.encode(errors="surrogatepass"))
            found.append(whole.digest())
        return found

    def had(self, digests: Sequence[bytes]) -> IntArray:
        """(n,) rounds that each has had."""
        if not self._taken:
            return np.zeros(len(digests), dtype=np.int64)
        return np.array([self._taken[one] for one in digests], dtype=np.int64)

    def add(self, digests: Iterable[bytes]) -> None:
        """One more round for each, but for `NOBODY`."""
        self._taken.update(digests)
        self._taken.pop(NOBODY, None)

    def add_rows(self, digests: Sequence[bytes], counts: IntArray) -> None:
        """`counts` (n,) more rounds for each of distinct digests."""
        had = np.flatnonzero(counts)
        if len(had) < len(digests):
            digests, counts = [digests[place] for place in had.tolist()], counts[had]
        rows = zip(digests, counts.tolist(), strict=True)
        if self._taken:
            self._taken.update(dict(rows))
        else:  # `Counter.update` would count the pairs
            dict.update(self._taken, rows)

    def merged(self, other: "UserCounts") -> Counter[bytes]:
        """Counts of both together; nothing is changed."""
        return self._taken + other._taken

    def replace(self, taken: Counter[bytes]) -> None:
        """Take over what `merged` gave."""
        self._taken = taken

    def arrays(self, *, salt: str, users: str, taken: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays that `restore` needs, under these names: secret."""
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
        """Counts that `arrays` wrote.

        Raises:
            ValueError: they contradict each other.
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
"""(statuses,) whether a reward may still be told for such a round, counted or not."""


def refuse_told() -> NoReturn:
    """AlreadyTold, for a decision that was settled before."""
    raise AlreadyTold("this decision was told or abandoned before: tell each decision once")


def status_after(status: int, *, usable: bool, missing: bool) -> int | None:
    """The `RoundStatus` of a round once its reward was told; None where it was settled before."""
    return _BECOMES[2 * missing + usable][status] if _OPEN[status] else None


def _settled() -> IntArray:
    """(2 missing + usable, status) -> the status that a round has once its reward was told."""
    becomes = np.tile(np.arange(len(_IS_OPEN)), (4, 1))
    becomes[2:, _IS_OPEN] = RoundStatus.ABANDONED
    becomes[1::2, RoundStatus.PENDING] = RoundStatus.TOLD
    becomes[1::2, RoundStatus.MISSED] = RoundStatus.LATE
    becomes[:, RoundStatus.REFUSED] = RoundStatus.REFUSED
    return becomes


_SETTLED = _settled()

_OPEN: tuple[bool, ...] = tuple(_IS_OPEN.tolist())
_BECOMES: tuple[tuple[int, ...], ...] = tuple(map(tuple, _SETTLED.tolist()))
"""Copies of both tables as tuples: NumPy reads a single entry slowly."""

_PENDING, _TOLD, _REFUSED = map(int, (RoundStatus.PENDING, RoundStatus.TOLD, RoundStatus.REFUSED))

_BOOK_NAMES = {"salt": "book_salt", "users": "book_users", "taken": "book_taken"}


class RoundBook:
    """Rounds, their users, chosen actions and rewards. Everything in it is raw data.

    Args:
        dim: columns of an action.
        horizon: rounds the policy may answer, or None for no bound.
        rounds_per_user: rounds one user may take part in, or None for no bound.
        user_ids: whether every ask must name its user. Without a bound on rounds, users that are named are
            ignored.
        lineage: public id of the policy's life, a prefix of every decision id. Each process that takes
            the state up again adds a nonce of its own to the ids it issues, so that an id whose round was
            lost in a crash is never mistaken for the round that took its place.
        salt: secret key of the user digests; drawn here when absent.

    Attributes:
        before: told (kind, content) of every change before it is made, as `policy.round_log` packs it;
            whatever it raises leaves the book as it was.
        ended: rounds asked -> rounds whose rewards no longer count when the next ones are asked, where that
            is before they are closed.
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
        self._epoch_starts = [0]
        self._epoch_nonces = [secrets.token_hex(4)]
        self._users = UserCounts(salt)
        self.asked = 0  # rounds answered so far: public, as it counts asks and not tells
        self._first_open = 0  # rounds before it are closed and their actions forgotten
        self._ended = 0  # no reward of a round before it counts
        self._status = np.zeros(0, dtype=np.uint8)
        self._actions = np.zeros((0, dim))
        self._rewards = np.zeros(0)
        self._issued: tuple[str | None, int] = None, 0  # the last id of `open_one`, and its round

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

    def check_open(self, count: int, users: Sequence[object] | None, *, batch: bool = False) -> list[bytes]:
        """Refuse rounds that the horizon or a user's share does not cover; change nothing.

        Args:
            count: number of rounds.
            users: an id for each.
            batch: refuse nobody because of another one: whoever has had all rounds, or has no id, is
                `NOBODY`.

        Returns:
            the users' digests, to be passed to `open` (empty without user ids).
        """
        self.refuse_beyond(count)
        if not self.user_ids:
            if users is not None and self.rounds_per_user is not None:
                raise InvalidData(
                    "users were given to a policy built with JointDP(..., user_ids=False): leave them out, "
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
        """HorizonExceeded, where the horizon does not cover `count` more rounds."""
        if self.horizon is not None and self.asked + count > self.horizon:
            raise HorizonExceeded(
                f"{count} more round(s) after {self.asked}, but the noise is calibrated to horizon "
                f"{self.horizon}: build a policy with a longer horizon"
            )

    def _admitted(self, owners: Owners) -> list[bytes]:
        """The digest of each round's user, `NOBODY` for those who are nobody or have had all their rounds."""
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
        """ContributionExceeded, for a user who has had all of their rounds."""
        raise ContributionExceeded(
            f"a user asked for more than rounds_per_user = {self.rounds_per_user} round(s); nothing was "
            "answered: leave this user out, or build with a larger bound"
        )

    def open(
        self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None = None
    ) -> tuple[str, ...]:
        """Enter rounds. Call `check_open` first.

        Args:
            digests: from `check_open`.
            actions: (B, d), finite also of rounds that are refused.
            refused: (B,), None where none is.
        """
        if self.before is not None:
            self.before(round_log.ASK, round_log.pack_ask(self.asked, digests, actions, refused))
        start = self._enter(digests, actions, refused)
        return tuple(map(self._decision_id, range(start, self.asked)))

    def _enter(self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None) -> int:
        """Enter rounds as `open` does, without ids; the first one's index."""
        count = len(actions)
        start = self._place_for(count)
        self._status[start : start + count] = RoundStatus.PENDING
        if refused is not None:
            self._status[start : start + count][refused] = RoundStatus.REFUSED
        offset = start - self._first_open
        self._actions[offset : offset + count] = actions
        if digests:
            self._users.add(digests)  # first: no interrupt leaves a round that its user was not counted for,
        self.asked += count  # though one in between counts twice where the log of rounds is played back
        return start

    def open_one(self, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> str:
        """`open` of one round; action (d,)."""
        if self.before is not None:
            self.before(round_log.ASK, round_log.pack_one_ask(self.asked, digests, action, refused=refused))
        index = self._place_for(1)
        self._status[index] = _REFUSED if refused else _PENDING
        self._actions[index - self._first_open] = action
        if digests:
            self._users.add(digests)  # first, as in `open`
        self.asked = index + 1
        decision_id = self._decision_id(index)
        self._issued = decision_id, index
        return decision_id

    def _place_for(self, count: int) -> int:
        """Make place for rounds that are about to be entered; the first one's index."""
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
        """Round indices (k,) of decision ids; refuse any that was not issued here."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InvalidData(f"ids: expected a sequence of decision ids, got {_checks.kind_of(ids)}")
        return np.array([self._round_of(decision_id) for decision_id in ids], dtype=np.int64)

    def open_among(self, rounds: IntArray) -> BoolArray:
        """(k,) which of these rounds may be settled now; of equal ones the first.

        That somebody has told before is no reason to refuse what others tell.
        """
        fresh = np.zeros(len(rounds), dtype=np.bool_)
        fresh[np.unique(rounds, return_index=True)[1]] = True
        return np.asarray(fresh & _IS_OPEN[self._status_of(rounds)])

    def _status_of(self, rounds: IntArray) -> IntArray:
        """The `RoundStatus` (k,) of rounds (k,)."""
        return np.asarray(self._status[rounds])

    def _becoming(self, rounds: IntArray, usable: BoolArray, missing: BoolArray) -> IntArray:
        """The `RoundStatus` (k,) that rounds (k,) get by `settle`."""
        return np.asarray(_SETTLED[2 * missing + usable, self._status_of(rounds)])

    def round_of(self, decision_id: str) -> int:
        """Round index of one decision that may be settled now; AlreadyTold for any other."""
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
        raise UnknownDecision("this decision id was not issued by this policy: pass Decision.id as it came")

    def settle(
        self, rounds: IntArray, rewards: FloatArray, usable: BoolArray, missing: BoolArray
    ) -> IntArray:
        """Rewards of rounds that are `open_among` all, each by itself.

        Args:
            rounds: (k,).
            rewards: (k,) inside the range where `usable`.
            usable, missing: (k,) where a reward can be counted, and where none will ever come; what is
                neither leaves its round as it was.

        Returns:
            (k,) the rounds' `RoundStatus` now.
        """
        if self.before is not None:
            self.before(round_log.TELL, round_log.pack_tell(rounds, rewards, usable, missing))
        became = self._becoming(rounds, usable, missing)
        told = became == RoundStatus.TOLD
        self._rewards[rounds[told] - self._first_open] = rewards[told]
        self._status[rounds] = became
        return became

    def settle_one(self, index: int, reward: float, *, usable: bool, missing: bool) -> int:
        """`settle` of one round from `round_of`."""
        if self.before is not None:
            told = round_log.pack_one_tell(index, reward, usable=usable, missing=missing)
            self.before(round_log.TELL, told)
        became = _BECOMES[2 * missing + usable][self._status.item(index)]
        if became == _TOLD:
            self._rewards[index - self._first_open] = reward
        self._status[index] = became
        return became

    def abandon(self, decision_id: str) -> None:
        """Give up on a decision: it will never have a reward."""
        self.settle_one(self.round_of(decision_id), 0.0, usable=False, missing=True)

    # -- playing back a log -----------------------------------------------------------------------

    def replayed(self, kind: bytes, content: bytes) -> round_log.Told | None:
        """Make a change again that `before` was told of, unless it is made; returns what is to be told yet.

        Raises:
            CorruptState: not what `before` is told, or it does not follow what is in the book.
        """
        with reading("a record of the log of rounds", CorruptState):
            if kind == round_log.ASK:
                self._reopen(round_log.unpack_ask(content, digest_bytes=_DIGEST_BYTES))
                return None
            if kind != round_log.TELL:
                raise ValueError
            told = round_log.unpack_tell(content)
            rounds = told.rounds
            if ((rounds < 0) | (rounds >= self.asked)).any() or len(np.unique(rounds)) != len(rounds):
                raise CorruptState("the log of rounds does not follow the state")
            fresh = _IS_OPEN[self._status[rounds]]
            return round_log.Told(rounds[fresh], told.rewards[fresh], told.usable[fresh], told.missing[fresh])

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
        """Rounds from here on get ids of this process; those that were played back keep theirs."""
        self._epoch_starts[-1], self._issued = self.asked, (None, 0)

    # -- rounds as they are released --------------------------------------------------------------

    def block(self, start: int, stop: int) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
        """Rounds start..stop-1: actions (n, d), rewards (n,), and which were told and which refused (n,).

        Every round has its row, so that nobody's place in an array depends on who else reported.
        """
        if start < self._first_open:
            raise IndexError("these rounds were closed and forgotten")
        rounds, status = np.arange(start, stop), self._status[start:stop]
        told, refused = status == RoundStatus.TOLD, status == RoundStatus.REFUSED
        return self.actions(rounds), self._rewards[rounds - self._first_open], told, refused

    def actions(self, rounds: IntArray) -> FloatArray:
        """Chosen actions (k, d) of rounds that are not yet closed."""
        return np.asarray(self._actions[rounds - self._first_open])

    def end(self, stop: int | None = None) -> None:
        """No reward before round `stop` counts any more; by default the stop is what `ended` says now."""
        if stop is None:
            stop = 0 if self.ended is None else self.ended(self.asked)
        if stop > self._ended:
            status = self._status[self._ended : stop]
            status[status == RoundStatus.PENDING] = RoundStatus.MISSED
            self._ended = stop

    def close(self, stop: int) -> None:
        """No reward before round `stop` counts any more; forget their actions and rewards."""
        if stop <= self._first_open:
            return
        self.end(stop)
        kept = slice(stop - self._first_open, None)
        self._actions = self._actions[kept].copy()
        self._rewards = self._rewards[kept].copy()
        self._first_open = stop

    def erase(self, stop: int, point: FloatArray) -> None:
        """Rounds before `stop` that are not closed become refused ones: a public `point` (d,) stands where
        what was chosen stood, and no reward is kept or counts.
        """
        stop = min(stop, self.asked)
        if stop > self._first_open:
            self._status[self._first_open : stop] = RoundStatus.REFUSED
            self._actions[: stop - self._first_open] = point
            self._rewards[: stop - self._first_open] = 0.0

    # -- saving ---------------------------------------------------------------------------------

    def state_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that cannot be rebuilt from the configuration: secret."""
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
        """Take over arrays written by `state_arrays`."""
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
    """A longer zero-padded copy, at least doubled."""
    capacity = max(length, 2 * len(array), _FIRST_CAPACITY)
    grown = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
