"""`BasePolicy`: what every policy does the same way, so that a policy file holds its algorithm alone.

A subclass says how to choose (`_choose`), how to learn (`_learn`), and what to save; this class
checks input, keeps the book, charges the ledger before the first answer, and makes state durable.
"""

import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks, domains
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.domains import RewardRange
from dpbandits.errors import (
    CorruptState,
    ForkedState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state import State, StateKey, StateStore
from dpbandits.state.ledger import Ledger
from dpbandits.state.migration import Migrations, migrated

__all__ = ["BasePolicy"]


class BasePolicy(ABC):
    """Shared machinery of ask/tell policies.

    Calls from several threads take turns: two of them must not release one block, or count one user,
    twice. For the same reason a policy cannot be copied or pickled, and a forked child cannot ask.

    Args:
        domain: public set that every candidate row must lie in.
        reward_range: public (low, high) of rewards.
        horizon: most rounds that may be asked, or None where no noise depends on it.
        rounds_per_user: rounds one user may take part in, or None for no bound.
        user_ids: whether asks name their user; without ids the bound on rounds per user is an
            unchecked assumption of the guarantee.
        clip: clip rewards into `reward_range` instead of refusing those outside.
        seed: public randomness.
        ledger, account: where the guarantee is charged before the first answer, and the witness that
            only one copy of a saved state goes on.
    """

    kind: ClassVar[str]
    """Name in configurations and state files: room and class."""
    state_version: ClassVar[int] = 1
    state_migrations: ClassVar[Migrations] = {}
    """Steps from older layouts of this policy's state; see `dpbandits.state.migration`."""
    registry: ClassVar[dict[str, type["BasePolicy"]]] = {}
    """Every policy class that has been imported, by `kind`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "kind" in cls.__dict__:
            BasePolicy.registry[cls.kind] = cls

    def __init__(
        self,
        *,
        domain: domains.Domain,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        rounds_per_user: int | None,
        user_ids: bool,
        clip: bool,
        seed: Seed,
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> None:
        if (ledger is None) != (account is None) and account is not None:
            raise InvalidParameter("account: names an account of `ledger`; pass both")
        self.domain = domain
        self.reward_range = RewardRange.of(reward_range)
        self.horizon = None if horizon is None else _checks.integer(horizon, name="horizon")
        self.user_ids = user_ids
        self.clip = clip
        self.seed = seed
        self._coins = PublicCoins(seed)
        self._ledger = ledger
        self._account = account
        self._charged = False
        self._lineage = uuid.uuid4().hex
        self._position = 0
        self._store: StateStore | None = None
        self._uncommitted: State | None = None
        self._forked = False
        self._process = os.getpid()
        self._turn = threading.RLock()
        self._book = RoundBook(
            dim=domain.dim,
            horizon=self.horizon,
            rounds_per_user=rounds_per_user,
            user_ids=user_ids,
            lineage=self._lineage,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lineage={self._lineage[:8]!r}, asked={self._book.asked})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            f"a {type(self).__name__} cannot be copied or pickled: two copies would release twice, and its "
            "memory holds raw data. Use save and load to move it, to_config and from_config to build another"
        )

    # -- what a policy defines ------------------------------------------------------------------

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, and on which assumptions."""

    @abstractmethod
    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the reward at `points` (n, d)."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew."""

    @abstractmethod
    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        """Indices (B,) and propensities (B,) or None for decision sets (B, n, d) of rounds start.."""

    def _prepare(self) -> None:
        """Called before each ask, after its checks: release what is due."""

    def _learn(self, rounds: IntArray, actions: FloatArray, rewards: FloatArray) -> None:
        """Rewards (k,), validated and clipped, arrived for rounds (k,) with actions (k, d)."""

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays to save beside the book's."""
        return {}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over what `_arrays` wrote."""

    # -- asking and telling ---------------------------------------------------------------------

    def ask(self, candidates: FloatArray, *, user: object | None = None) -> Decision:
        """Choose one row of `candidates` (n, d) for `user`."""
        rows = self.domain.validate(candidates)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InvalidData(
                f"candidates: expected a non-empty array of shape (n, {self.domain.dim}), got {rows.shape}"
            )
        return self._decide(rows[None], None if user is None else [user], None)[0]

    def ask_batch(
        self,
        candidates: FloatArray,
        *,
        users: Sequence[object] | None = None,
        available: BoolArray | None = None,
    ) -> DecisionBatch:
        """Choose one row in each of B decision sets (B, n, d), all by what is released now.

        Args:
            candidates: (B, n, d).
            users: B user ids; required unless the policy was built with user_ids=False.
            available: (B, n) True where a row may be chosen; default all.
        """
        rows = self.domain.validate(candidates)
        if rows.ndim != 3 or 0 in rows.shape:
            raise InvalidData(
                f"candidates: expected a non-empty array of shape (B, n, {self.domain.dim}), got {rows.shape}"
            )
        return self._decide(rows, users, available)

    def _decide(
        self, rows: FloatArray, users: Sequence[object] | None, available: BoolArray | None
    ) -> DecisionBatch:
        """Decisions for validated decision sets (B, n, d)."""
        shape = rows.shape
        if available is not None:
            available = np.asarray(available)
            if available.dtype != np.bool_ or available.shape != shape[:2]:
                raise InvalidData(f"available: expected booleans of shape {shape[:2]}, got {available.shape}")
            if not available.any(axis=1).all():
                raise InvalidData("available: a decision set has no available row")
        with self._in_turn():
            digests = self._book.check_open(len(rows), users)
            self._charge()
            self._prepare()
            indices, propensities = self._choose(rows, available, self._book.asked)
            actions = rows[np.arange(len(rows)), indices]
            return DecisionBatch(self._book.open(digests, actions), indices, actions, propensities)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """One thread at a time, and only in the process that built or loaded the policy.

        The process is asked first: in a forked child a thread that is not there may hold the lock.
        """
        if os.getpid() != self._process:
            raise ForkedState(
                "this process was forked from the one that holds the policy: build or load it after "
                "the fork, in one process"
            )
        with self._turn:
            yield

    def tell(self, decision_id: str, reward: float) -> Receipt:
        """Give a decision its reward."""
        return self.tell_batch([decision_id], [reward])[0]

    def tell_batch(self, decision_ids: Sequence[str], rewards: ArrayLike) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions; all are checked before any is taken."""
        with self._in_turn():
            rounds = self._book.rounds_of(decision_ids)
            values = self.reward_range.validate(rewards, clip=self.clip)
            if values.shape != rounds.shape:
                raise InvalidData(
                    f"rewards: expected shape {rounds.shape}, one per decision id, got {values.shape}"
                )
            counted = self._book.settle(rounds, values)
            if counted.any():
                self._learn(rounds[counted], self._book.actions(rounds[counted]), values[counted])
        return tuple(Receipt.COUNTED if flag else Receipt.LATE for flag in counted)

    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward: it contributes nothing."""
        with self._in_turn():
            self._book.abandon(decision_id)

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told. Raw data: it says who has not reported."""
        return self._book.pending

    def recommend(self, candidates: FloatArray) -> int:
        """Row of `candidates` (n, d) with the best predicted reward."""
        mean, _ = self.predict(candidates)
        return int(np.argmax(mean))

    def warm_start(self, points: FloatArray, rewards: FloatArray) -> None:
        """Learn from public data, points (n, d) and rewards (n,), before the first ask."""
        if self._book.asked:
            raise ProtocolError("warm_start: public data comes before the first ask; build a new policy")
        rows = self.domain.validate(points, name="points")
        values = self.reward_range.validate(rewards, clip=self.clip)
        if rows.ndim != 2 or values.shape != (len(rows),):
            raise InvalidData("warm_start: expected points (n, d) and rewards (n,) of the same length")
        self._learn_public(rows, values)

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        raise ProtocolError(f"{type(self).__name__} has nothing to learn from data: leave warm_start out")

    def diagnostics(self) -> dict[str, Any]:
        """Released quantities only."""
        return {"policy": self.kind, "rounds_asked": self._book.asked, "horizon": self.horizon}

    # -- budget and durability ------------------------------------------------------------------

    def _charge(self) -> None:
        """Spend the whole guarantee once, before the first answer and before the first save."""
        if self._charged or self._ledger is None or self._account is None:
            return
        promised = self.guarantee
        self._ledger.charge(
            self._account, charge_id=self._lineage, epsilon=promised.epsilon, delta=promised.delta
        )
        self._charged = True

    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the whole state to `path`, and keep it current there at every release from now on.

        The file holds raw statistics: it is written with mode 0600 and must be kept as the data is, unless
        it is sealed with a `key`. After a failure nothing more is released until a `save`, here or at
        another path, succeeds.
        """
        with self._in_turn():
            self._charge()  # whoever loads the state need not know the account
            self._store = StateStore(path, ledger=self._ledger, key=key)
            self._commit()

    def _commit(self) -> None:
        """Make the present state durable, if a path is known; called before a release is used.

        A state that an earlier attempt failed to write goes first, unchanged: the ledger may have
        witnessed it. It may be older than the present one, which is written in any case.
        """
        if self._store is None:
            return
        if self._forked:
            raise ForkedState(
                "another copy of this policy has gone on: load the state where that copy keeps it"
            )
        if self._uncommitted is not None:
            self._write(self._store, self._uncommitted)
        arrays = {**self._book.state_arrays(), **self._arrays()}
        present = State(
            kind=self.kind,
            version=self.state_version,
            lineage=self._lineage,
            position=self._position + 1,
            public={"config": self.to_config()},
            secret={},
            arrays={name: array.copy() for name, array in arrays.items()},
        )
        self._write(self._store, present)

    def _write(self, store: StateStore, state: State) -> None:
        self._uncommitted = state
        try:
            store.commit(state)
        except ForkedState:
            self._forked = True
            raise
        self._position = state.position
        self._uncommitted = None

    @classmethod
    def from_config(cls, config: dict[str, Any], **runtime: Any) -> Self:
        """Build the policy that `to_config` described.

        Args:
            config: from `to_config`.
            **runtime: what a configuration does not hold (ledger=, account=), or replaces in it (noise=).
        """
        with reading(f"a configuration of {cls.kind}"):
            parameters = dict(config)
            kind = parameters.pop("policy", None)
            if kind != cls.kind:
                raise InvalidParameter(f"config: expected policy {cls.kind!r}, got another one's")
            return cls(**(cls._parameters(parameters) | runtime))

    @classmethod
    def _parameters(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Constructor arguments from their JSON form."""
        if "domain" in config:
            config["domain"] = domains.from_config(config["domain"])
        if "reward_range" in config:
            config["reward_range"] = RewardRange.from_config(config["reward_range"])
        return config

    def _base_config(self) -> dict[str, Any]:
        return {
            "policy": self.kind,
            "domain": self.domain.to_config(),
            "reward_range": self.reward_range.to_config(),
            "horizon": self.horizon,
            "user_ids": self.user_ids,
            "clip": self.clip,
            "seed": self.seed,
        }

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None = None,
        adopt: bool = False,
        key: StateKey | None = None,
        **runtime: Any,
    ) -> Self:
        """Take up a saved policy where it stood.

        Args:
            path: where it was saved.
            ledger: the witness, which must have seen this lineage before.
            adopt: let the ledger take on a state that was saved without one; that no other copy has gone
                on is then yours to know.
            key: that it was saved with.
            **runtime: as in `from_config`.

        Raises:
            ForkedState: the ledger has seen this lineage go further than this copy.
            CorruptState, IncompatibleState: the file is torn, or another object's or version's.
        """
        store = StateStore(path, ledger=ledger, key=key)
        state = migrated(
            store.load(adopt=adopt), kind=cls.kind, version=cls.state_version, steps=cls.state_migrations
        )
        try:
            witness = {} if ledger is None else {"ledger": ledger}
            policy = cls.from_config(state.public["config"], **witness, **runtime)
        except (KeyError, InvalidParameter) as error:
            raise CorruptState("the saved configuration cannot be read") from error
        policy._lineage = state.lineage
        policy._position = state.position
        policy._store = store
        policy._book = RoundBook(
            dim=policy.domain.dim,
            horizon=policy.horizon,
            rounds_per_user=policy._book.rounds_per_user,
            user_ids=policy.user_ids,
            lineage=state.lineage,
        )
        policy._book.restore(state.arrays)
        policy._restore(state.arrays)
        return policy
