"""What every policy does the same way, so that a policy's file holds its algorithm alone.

`RoundPolicy` keeps the book of rounds, charges the ledger before the first answer, makes every release
durable before anything is made of it, saves and loads. `BasePolicy` adds asking with candidate rows: a
subclass says how to choose (`_choose`), how to learn (`_learn`) or to release (`_is_due`, `_release`,
`_rounds_out`, `_fit`), and what to save.
"""

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks, domains
from dpbandits._config import Configured
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.models import features, kernels
from dpbandits.models.features import Features
from dpbandits.policy.accounts import cost_of_guarantee
from dpbandits.policy.bookkeeping import RoundBook, RoundStatus
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy import definitions
from dpbandits.privacy import noise as noise_sources
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.privacy.release_terms import Release, check_releases, terms_of_release
from dpbandits.state import State, StateKey
from dpbandits.state.holder import Held, Holder, in_turn, saved_state
from dpbandits.state.ledger import Ledger
from dpbandits.state.live import LiveFolder
from dpbandits.state.migration import Migrations, next_layout
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

__all__ = ["BasePolicy", "KeptPolicy", "PolicyOptions", "RoundPolicy", "round_taken"]


_RECEIPTS: dict[int, Receipt] = {
    RoundStatus.TOLD: Receipt.COUNTED,
    RoundStatus.LATE: Receipt.LATE,
    RoundStatus.ABANDONED: Receipt.ABANDONED,
}
"""What a round that was told may have become; else the reward was refused, or the round was."""

_EXACT = 1 << 53
"""Integers up to here are floats."""


class PolicyOptions(TypedDict, total=False):
    """What every policy takes beside what is its own, and most people leave as it is.

    Attributes:
        user_ids: whether asks and rows name their user (default); without ids the bound on rounds per user is
            an unchecked assumption of the guarantee.
        clip: clip rewards into `reward_range` instead of refusing those outside (default).
        seed: public randomness; default 0.
        noise: default `SecureNoise()`; `SimulatedNoise(seed)` for studies protects nobody.
        ledger, account: where the guarantee is charged before anything is drawn, and the witness that only
            one copy of a saved state goes on; both or neither.
    """

    user_ids: bool
    clip: bool
    seed: Seed
    noise: NoiseSource | None
    ledger: Ledger | None
    account: str | None


class KeptPolicy(Configured, Held, ABC):
    """What promises, is configured, saved and taken up again.

    Calls from several threads take turns: two of them must not release one block, or count one user,
    twice. For the same reason a policy cannot be copied or pickled, and a forked child cannot ask.

    Args:
        reward_range: public (low, high) of rewards.
        horizon: most rounds or rows that count, or None where no noise depends on it.
        privacy: the promise; None where nothing is promised, and there is no noise.
        user_ids, clip, seed, noise, ledger, account: see `PolicyOptions`.
    """

    kind: ClassVar[str]
    """Name in configurations and state files: room and class."""
    config_label = "policy"
    config_omits = frozenset({"ledger", "account"})
    config_parsers: ClassVar[Mapping[str, Any]] = {
        "domain": domains.from_config,
        "features": features.from_config,
        "kernel": kernels.from_config,
        "noise": noise_sources.from_config,
        "privacy": definitions.from_config,
        "reward_range": RewardRange.from_config,
    }
    noise: NoiseSource | None
    """What a guarantee rests on; a simulated one's position is part of the state."""
    open_ended: bool = False
    """Whether the horizon is what arithmetic carries, as none was given."""
    state_version: ClassVar[int] = 2
    state_migrations: ClassVar[Migrations] = {1: next_layout}
    """Steps from older layouts of this policy's state; see `dpbandits.state.migration`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.config_type = getattr(cls, "kind", "")

    def __init__(
        self,
        *,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        user_ids: bool = True,
        clip: bool = False,
        seed: Seed = 0,
        noise: NoiseSource | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> None:
        self.reward_range = RewardRange.of(reward_range)
        self.horizon = None if horizon is None else _checks.integer(horizon, name="horizon")
        self.user_ids, self.clip, self.seed = user_ids, clip, seed
        self.privacy = privacy
        self.noise = SecureNoise() if noise is None and privacy is not None else noise
        self._holder = Holder(self._state, ledger=ledger, account=account)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, and on which assumptions."""

    def _shown(self, **progress: int) -> str:
        """The promise, and public numbers of how far it has come."""
        privacy, known = self.privacy, {"horizon": None if self.open_ended else self.horizon}
        promise = {} if privacy is None else {"epsilon": privacy.epsilon, "delta": privacy.delta}
        said = {**promise, **known, **progress, "lineage": self._holder.lineage[:8]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def _repr_html_(self) -> str:
        """The same, and the whole promise, for a notebook."""
        said, promised = html.escape(repr(self)), html.escape(self.guarantee.explain())
        return (
            f"<code>{said}</code><details><summary>What is promised</summary><pre>{promised}</pre></details>"
        )

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that cannot be rebuilt from the configuration: secret."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over what `_arrays` wrote; whatever is missing or of another kind may raise as it does."""

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the whole state to `path`, and keep it current there at every release from now on.

        The file holds raw statistics: it is written with mode 0600 and must be kept as the data is, unless
        it is sealed with a `key`. After a failure see `dpbandits.state.holder.Holder.save`.
        """
        self._holder.save(path, key=key)

    def _state(self, lineage: str, position: int) -> State:
        arrays = self._arrays()
        if self.noise is not None:
            arrays["noise_position"] = np.array(self._noise_position())
        return State(
            kind=self.kind,
            version=self.state_version,
            lineage=lineage,
            position=position,
            public={"config": self.to_config(), "promise": self._holder.promise},
            arrays={name: array.copy() for name, array in arrays.items()},
        )

    def _noise_position(self) -> int:
        """Where a simulated source stood after everything that is in the state was drawn."""
        return self.noise.position if isinstance(self.noise, SimulatedNoise) else 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **runtime: Any) -> Self:
        """Build the policy that `to_config` described.

        Args:
            config: from `to_config`.
            **runtime: what a configuration does not hold (ledger=, account=), or replaces in it (noise=).
        """
        with reading(f"a configuration of {cls.kind}"):
            return cls(**(cls.arguments(config) | runtime))

    def _uses(self) -> tuple[Release, ...]:
        """Everything that noise is or was used for; what promises nothing uses none."""
        return ()

    def _enter_release(self, use: Release, number: int) -> None:
        """Enter a release into the log, before its noise is drawn; see `Holder.record`."""
        terms = terms_of_release(use.record, use.noise)
        self._holder.record(use.purpose, number, terms, charge=use.charge)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None = None,
        account: str | None = None,
        adopt: bool = False,
        key: StateKey | None = None,
    ) -> Self:
        """Take up a saved policy where it stood, on the terms that it was saved with.

        With a ledger the policy that is returned is the one that goes on: every other copy, running or not,
        is refused from now on.

        Args:
            path: where it was saved.
            ledger: the witness. A state that one has witnessed is refused without it; the account that pays
                is part of the state.
            account: pays for a state that was saved without a ledger; refused for any other.
            adopt: let the ledger take on a state that was saved without one; that no other copy has gone
                on is then yours to know.
            key: that it was saved with.

        Raises:
            ForkedState: the ledger has seen this lineage go further than this copy.
            IncompatibleState: the ledger that witnesses the state is missing; another object's or version's;
                or of a layout without a log of releases, and it has released something.
            CorruptState: the file is torn, or its releases are not what its configuration promises.
            InvalidParameter: an account for a state that has one, or none for one that needs it.
            BudgetExceeded: an account that was given cannot pay.
        """
        policy = cls._taken_up(path, ledger=ledger, account=account, adopt=adopt, key=key)
        policy._charge()
        policy._holder.take_over()
        return policy

    @classmethod
    def _taken_up(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None,
        account: str | None,
        adopt: bool,
        key: StateKey | None,
        opening: bool = False,
    ) -> Self:
        """What was saved, on the terms that it was saved with; nothing is charged or witnessed yet."""
        saved = saved_state(
            path,
            kind=cls.kind,
            version=cls.state_version,
            steps=cls.state_migrations,
            ledger=ledger,
            key=key,
            adopt=adopt,
        )
        try:
            policy = cls.from_config(saved.state.public["config"])
        except (KeyError, InvalidParameter) as error:
            raise CorruptState("the saved configuration cannot be read") from error
        policy._holder.take_up(saved, account=account, opening=opening)
        with reading("what a policy saved", CorruptState):
            if isinstance(policy.noise, SimulatedNoise):
                policy.noise = policy.noise.at(int(saved.state.arrays["noise_position"]))
            policy._restore(saved.state.arrays)
        policy._check_log(known="promise" in saved.state.public)
        return policy

    def _check_log(self, *, known: bool) -> None:
        """Refuse releases that the log does not know, or knows on weaker terms than are promised."""
        uses = self._uses()
        if known:
            check_releases(self._holder.log, uses, privacy=self.privacy)
        elif any(use.drawn for use in uses):
            raise IncompatibleState(
                "an early build of dpbandits 0.1.0.dev0 wrote this state and kept no log of releases, so "
                "nothing is known of the noise in what it has released: go on with that build, or begin anew"
            )

    def _charge(self) -> None:
        """Spend what is due before anything leaves; by default each use pays by itself."""


class RoundPolicy(KeptPolicy):
    """What is asked and told round by round, whatever a question looks like.

    Args:
        dim: columns of what the book keeps of a choice.
        reward_range, horizon, privacy, **options: see `KeptPolicy`.
    """

    _charged_as: ClassVar[str | None] = None
    """Purpose of the one charge: part of its id, which a state of any age repeats."""

    def __init__(
        self,
        *,
        dim: int,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(reward_range=reward_range, horizon=horizon, privacy=privacy, **options)
        self._coins = PublicCoins(self.seed)
        self._learns = type(self)._learn is not RoundPolicy._learn
        self._charged = False
        self._settled = 0  # rounds whose releases are durable, and fitted
        self._book = RoundBook(
            dim=dim,
            horizon=self.horizon,
            rounds_per_user=None if privacy is None else privacy.rounds_per_user,
            user_ids=self.user_ids,
            lineage=self._holder.lineage,
        )

    def __repr__(self) -> str:
        return self._shown(asked=self._book.asked)

    # -- what a policy defines ------------------------------------------------------------------

    def _learn(self, rounds: IntArray, actions: FloatArray, rewards: FloatArray) -> None:
        """Rewards (k,), validated and clipped, arrived for rounds (k,) with actions (k, d)."""

    def _is_due(self) -> bool:
        """Whether there is something to release before the next answer."""
        return False

    def _release(self) -> None:
        """Draw what is due; whatever interrupts it, nothing has changed, or everything has."""

    @property
    def _rounds_out(self) -> int:
        """Rounds that releases have been drawn for, durable or not: no reward of theirs counts any more."""
        return 0

    def _fit(self) -> None:
        """Learn from everything that has been released."""

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays to save beside the book's."""
        return {}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over what `_own_arrays` wrote."""

    # -- answering and telling ------------------------------------------------------------------

    def _admit(self, count: int, users: Sequence[object] | None) -> list[bytes]:
        """Digests of the users of `count` new rounds; the promise is paid, and what is due is released."""
        digests = self._book.check_open(count, users)
        self._charge()
        self._prepare()
        return digests

    def _opened(
        self,
        digests: Sequence[bytes],
        indices: IntArray,
        actions: FloatArray,
        propensities: FloatArray | None,
        refused: BoolArray,
        *,
        kept: FloatArray | None = None,
        labels: tuple[Label, ...] = (),
    ) -> DecisionBatch:
        """Enter B rounds and give their decisions; the book keeps `kept` (B, dim), by default the actions."""
        ids = self._book.open(digests, actions if kept is None else kept, refused)
        if refused.any():
            indices, actions = np.where(refused, -1, indices), np.where(refused[:, None], np.nan, actions)
            propensities = None if propensities is None else np.where(refused, np.nan, propensities)
        return DecisionBatch(ids, indices, actions, propensities, refused, labels)

    def _prepare(self) -> None:
        """Release what is due; every release is durable before anything is made of it."""
        while True:
            if self._rounds_out > self._settled:  # also where saving or fitting failed: no new noise
                self._settle()
            if not self._is_due():
                return
            self._release()

    def _settle(self) -> None:
        out = self._rounds_out
        self._book.close(out)
        self._holder.commit()
        self._fit()
        self._settled = out  # last: a fit that failed is tried again, not passed over

    @in_turn
    def tell(self, decision_id: str, reward: float) -> Receipt:
        """Give a decision its reward; None or NaN say that it will not come.

        Raises:
            InvalidData: the reward is off the range, unless it is clipped, or no number; the decision stays
                pending.
            UnknownDecision, AlreadyTold: the id is not this policy's, or was told before.
        """
        kind = type(reward)  # and none that merely inherits from it: reading those may fail
        if kind in (float, np.float64, bool) or (kind is int and abs(reward) <= _EXACT):
            # The common case, without an array for one number.
            index = self._book.round_of(decision_id)
            value, usable = self.reward_range.holds(float(reward), clip=self.clip)
            became = self._book.settle_one(index, value, usable=usable, missing=math.isnan(reward))
            if became == RoundStatus.TOLD and self._learns:
                rounds = np.array([index])
                self._learn(rounds, self._book.actions(rounds), np.array([value]))
            receipt = _RECEIPTS.get(became, Receipt.REFUSED)
        else:
            self._book.round_of(decision_id)
            receipt = self.tell_batch([decision_id], [reward])[0]
        if receipt is Receipt.REFUSED:
            low, high = self.reward_range.low, self.reward_range.high
            raise InvalidData(
                f"the reward is no number in reward_range ({low:g}, {high:g}), or the decision was refused: "
                "tell it again, pass clip=True, or widen the range before the first ask"
            )
        return receipt

    @in_turn
    def tell_batch(self, decision_ids: Sequence[str], rewards: ArrayLike) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions: each by itself, and its receipt says what became of it.

        None and NaN say that a reward will not come. One off the range, unless it is clipped, or that is no
        number is refused: its decision stays pending, and may be told again. What comes for a decision that
        was told or abandoned before is refused, and changes nothing; of an id that stands there twice the
        first reward counts.

        Raises:
            UnknownDecision, InvalidData: an id is not this policy's, or there is not one reward an id;
                nothing was taken.
        """
        rounds = self._book.rounds_of(decision_ids)
        fresh = self._book.open_among(rounds)
        told = _checks.contents(rewards, name="rewards")
        if told.shape != rounds.shape:
            raise InvalidData(
                f"rewards: expected shape {rounds.shape}, one per decision id, got {told.shape}"
            )
        values, usable = self.reward_range.within(told, clip=self.clip)
        became = np.full(len(rounds), RoundStatus.REFUSED, dtype=np.int64)
        if fresh.any():
            became[fresh] = self._take(rounds[fresh], values[fresh], usable[fresh], np.isnan(told)[fresh])
        return tuple(_RECEIPTS.get(status, Receipt.REFUSED) for status in became.tolist())

    def _take(self, rounds: IntArray, values: FloatArray, usable: BoolArray, missing: BoolArray) -> IntArray:
        """Settle rounds and learn from those that count; their `RoundStatus`."""
        became = self._book.settle(rounds, values, usable, missing)
        counted = became == RoundStatus.TOLD
        if counted.any():
            self._learn(rounds[counted], self._book.actions(rounds[counted]), values[counted])
        return became

    @in_turn
    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward: it contributes nothing."""
        self._book.abandon(decision_id)

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told. Raw data: it says who has not reported."""
        return self._book.pending

    def diagnostics(self) -> dict[str, Any]:
        """Released quantities only."""
        return {"policy": self.kind, "rounds_asked": self._book.asked, "horizon": self.horizon}

    # -- budget and durability ------------------------------------------------------------------

    def _charge(self) -> None:
        """Spend the whole guarantee once, before the first answer and before the first save."""
        if not self._charged and self._holder.charged and not self._holder.paid:
            promised = self.guarantee
            self._holder.charge(self._charged_as, cost=cost_of_guarantee(promised))
        self._charged = True

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:  # noqa: D102
        self._charge()  # whoever loads the state need not know the account
        super().save(path, key=key)

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        *,
        new: Self | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        adopt: bool = False,
        key: StateKey | None = None,
    ) -> Self:
        """The policy that lives in a folder: every ask and tell is on disk before it is answered.

        After a crash, opening the folder again gives the policy as it had answered: the same rounds asked,
        the same decision ids, every tell counted once. A batch is one record. Close the policy, or use it in
        a `with` block, to let another process have the folder; copy and move the whole of it. With a ledger,
        a folder that is put back without what the ledger has heard of is refused; see `dpbandits.state.live`.

        Args:
            folder: made where it does not exist; raw data, to be kept as the data is.
            new: the policy to begin with where the folder holds none; else it must have the configuration of
                the one that does, and is left alone.
            ledger, account, adopt: as in `load`; by default the ledger of `new`.
            key: seals the folder.

        Raises:
            FileNotFoundError: the folder holds no policy, and there is no `new`.
            StateError: another process, or another object of this one, has it open.
            IncompatibleState: `new` is another policy than the one in the folder; and as `load`.
            ForkedState, CorruptState, InvalidParameter, BudgetExceeded: as `load`.
        """
        ledger = new._holder.ledger if ledger is None and new is not None else ledger
        live = LiveFolder(folder, key=key, ledger=ledger)
        try:
            try:
                policy = cls._taken_up(
                    live.state, ledger=ledger, account=account, adopt=adopt, key=key, opening=True
                )
            except FileNotFoundError:
                if new is None:
                    raise FileNotFoundError("the folder holds no policy: pass one as new=") from None
                live.refuse_leftovers()
                new._live_in(live, key)
                return new
            if new is not None and new.to_config() != policy.to_config():
                raise IncompatibleState("the folder holds a policy of another configuration than `new` has")
            holder = policy._holder
            for record in live.earlier(
                holder.lineage, holder.position, lived=holder.lived, follows=holder.follows
            ):
                policy._replay(record.kind, record.content)
            policy._book.begin_epoch()
            policy._charge()
            holder.bind(live, policy._replay)
            holder.take_over()
            policy._book.before = holder.note
        except BaseException:
            live.close()
            raise
        return policy

    @in_turn
    def _live_in(self, live: LiveFolder, key: StateKey | None) -> None:
        """Begin to live in an empty folder."""
        self._charge()
        try:
            self._holder.bind(live, self._replay)
            self._holder.save(live.state, key=key)
        except BaseException:
            self._holder.bind(None)
            raise
        self._book.before = self._holder.note

    def _replay(self, kind: bytes, content: bytes) -> None:
        """Make a change again that was noted, unless it was made."""
        before, self._book.before = self._book.before, None
        try:
            told = self._book.replayed(kind, content)
            if told is not None and len(told.rounds):
                self._take(*told)
        finally:
            self._book.before = before

    def close(self) -> None:
        """Leave the folder that it lives in to another process; nothing more is answered.

        Raises:
            OSError: the disk refused to write down how far the log of rounds reaches. The folder is left all
                the same, and nothing that was answered is lost.
        """
        self._holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {**self._book.state_arrays(), **self._own_arrays()}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._book.lineage = self._holder.lineage
        self._book.restore(arrays)
        self._restore_own(arrays)
        self._settled = self._rounds_out
        self._book.close(self._settled)
        self._fit()


@contextmanager
def round_taken(what: str = "round") -> Iterator[None]:
    """What is refused inside has taken its round, and says so to its caller."""
    try:
        yield
    except InvalidData as error:
        raise InvalidData(f"{error}; the {what} is taken, and counts nothing") from None


class BasePolicy(RoundPolicy):
    """A policy that chooses among candidate rows, or among a few arms for people with contexts.

    With `contexts` and `arms` whoever asks brings a context, and every arm beside it is a row: see `Menu`.

    Args:
        domain: public set that every candidate row must lie in.
        contexts: public columns of a person's context, instead of `domain`.
        arms: labels of the arms: texts, numbers or booleans, all different.
        reward_range, horizon, privacy, **options: see `KeptPolicy`.

    Attributes:
        menu: of `contexts` and `arms`; None where there is a domain alone.
        features: in whose coordinates it learns; None where it has none. Their basis is part of a state.
    """

    features: Features | None = None
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **RoundPolicy.config_parsers,
        "contexts": Schema.from_config,
    }
    registry: ClassVar[dict[str, type["BasePolicy"]]] = {}
    """Every policy class that has been imported, by `kind`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "kind" in cls.__dict__:
            BasePolicy.registry[cls.kind] = cls

    def __init__(
        self,
        *,
        domain: domains.Domain | None = None,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        **shared: Any,
    ) -> None:
        self.menu = menu = Menu.of(domain, contexts, arms)
        instead = "domain=Box(low=[0], high=[1]) or another domain"
        asked: Any = domain if menu is None else menu.domain
        self.domain: domains.Domain = _checks.an(asked, domains.Domain, name="domain", pass_=instead)
        self._anywhere = self.domain.sample(1, np.random.default_rng(0))[0]  # a public point
        super().__init__(dim=self.domain.dim, **shared)

    @property
    def contexts(self) -> Schema | None:
        """Public columns of a person's context; None where candidates are brought."""
        return None if self.menu is None else self.menu.contexts

    @property
    def arms(self) -> tuple[Label, ...] | None:
        """Labels of the arms; None where candidates are brought."""
        return None if self.menu is None else self.menu.arms.labels

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew, as JSON."""
        other = ("contexts", "arms") if self.menu is None else ("domain",)
        return {name: value for name, value in super().to_config().items() if name not in other}

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        basis = () if self.features is None else self.features.basis()
        return super()._arrays() | {f"basis_{number}": array for number, array in enumerate(basis)}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        if self.features is not None and "basis_0" in arrays:  # the first states of a layout have none
            basis = [arrays[f"basis_{number}"] for number, _ in enumerate(self.features.basis())]
            self.features = self.features.in_basis(basis)
        super()._restore(arrays)

    @abstractmethod
    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) of the reward at points (n, d) of the domain."""

    @abstractmethod
    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        """Indices (B,) and propensities (B,) or None for decision sets (B, n, d) of rounds start.."""

    def ask(self, brought: Any, *, user: object | None = None, available: Any = None) -> Decision:
        """Choose one arm, or one row, for `user`.

        Args:
            brought: with `contexts` and `arms`, the person's context: a dict, a dataclass, a named tuple, a
                row or a one-row frame of a table, or values in the schema's order. Else, and there too where
                it is an array of two axes, candidates (n, d), one of which is chosen.
            user: whose round it is.
            available: labels of the arms that this person may be given; default all. Of candidates leave rows
                out instead.

        Raises:
            InvalidData: candidates of another shape or type, several people, or no user; nothing was taken.
                Or the context cannot be read, a candidate is missing or outside the domain, or there is
                nothing to choose from: the round is taken, and counts nothing.
            HorizonExceeded, ContributionExceeded: no rounds are left; nothing was taken.
        """
        users, menu = None if user is None else [user], self.menu
        if menu is None or _is_set(brought, axes=2):
            if available is not None:
                raise InvalidData("available is for arms: of candidates leave rows out instead")
            rows = self._rows_of(brought, "n")
            batch = self._decide(rows[None], users, None)
            if batch.refused[0]:
                with round_taken():
                    self.domain.validate(rows)
            return batch[0]
        point = menu.point(brought)
        mask = None if available is None else menu.offered(available)[None]
        batch = self._decide(menu.sets(point[None]), users, mask, np.isnan(point[:1]))
        if batch.refused[0]:
            with round_taken():
                menu.refuse(brought, available)
        return batch[0]

    def ask_batch(
        self, brought: Any, *, users: Sequence[object] | None = None, available: Any = None
    ) -> DecisionBatch:
        """Choose for B people, all by what is released now.

        Args:
            brought: with `contexts` and `arms`, a table of B rows, a mapping of columns, an array (B, d) in
                the schema's order, or a list of what `ask` takes. Else, and there too where it is an array of
                three axes, decision sets (B, n, d).
            users: B user ids; required unless the policy was built with user_ids=False.
            available: (B, n) True where an arm, or a row, may be chosen; or, of arms, B lists of labels.
                Default all.

        Returns:
            B decisions. Where a context cannot be read, a candidate is missing or outside the domain, or
            nothing is available, the decision is refused (`DecisionBatch.refused`): it takes its round,
            counts nothing, and changes nobody else's answer.

        Raises:
            InvalidData: tables or arrays of another shape or type, or not one user a decision; nothing was
                taken.
            HorizonExceeded, ContributionExceeded: no rounds are left for all of them; nothing was taken.
        """
        menu = self.menu
        if menu is None or _is_set(brought, axes=3):
            rows = self._rows_of(brought, "B, n")
            if available is not None:
                available, shape = np.asarray(available), rows.shape[:2]
                if available.dtype != np.bool_ or available.shape != shape:
                    raise InvalidData(f"available: expected booleans of shape {shape}, got {available.shape}")
            return self._decide(rows, users, available)
        points = menu.points(brought)
        mask = None if available is None else menu.all_offered(available, len(points))
        return self._decide(menu.sets(points), users, mask, np.isnan(points[:, 0]))

    def _rows_of(self, candidates: FloatArray, axes: str) -> FloatArray:
        """Candidates (..., d), whatever they say, as an array with these `axes`."""
        rows, dim = _checks.contents(candidates, name="candidates"), self.domain.dim
        if rows.ndim != axes.count(",") + 2 or rows.shape[-1] != dim or len(rows) == 0 < rows.ndim - 2:
            raise InvalidData(f"candidates: expected an array of shape ({axes}, {dim}), got {rows.shape}")
        return rows if rows.shape[-2] else np.full((*rows.shape[:-2], 1, dim), np.nan)  # none: one is missing

    @in_turn
    def _decide(
        self,
        rows: FloatArray,
        users: Sequence[object] | None,
        available: BoolArray | None,
        unreadable: BoolArray | None = None,
    ) -> DecisionBatch:
        """Decisions for decision sets (B, n, d). The bad ones are answered on a public point, for nobody.

        Args:
            rows: (B, n, d).
            users: B ids.
            available: (B, n), or all.
            unreadable: (B,) which rows are none, where the others are known to lie in the domain.
        """
        digests = self._admit(len(rows), users)
        refused = self._outside(rows) if unreadable is None else unreadable
        if available is not None:
            refused = refused | ~available.any(axis=1)
        if refused.any():
            rows = np.where(refused[:, None, None], self._anywhere, rows)
            available = None if available is None else available | refused[:, None]
        indices, propensities = np.zeros(len(rows), dtype=np.int64), None
        if not refused.all():
            indices, propensities = self._choose(rows, available, self._book.asked)
        actions = rows[np.arange(len(rows)), indices]
        return self._opened(digests, indices, actions, propensities, refused, labels=self.arms or ())

    def _outside(self, rows: FloatArray) -> BoolArray:
        """(B,) which decision sets (B, n, d) have a row that is missing or outside the domain."""
        try:
            self.domain.validate(rows)
        except InvalidData:
            return np.asarray(~self.domain.contains(rows).all(axis=1))
        return np.zeros(len(rows), dtype=np.bool_)

    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the expected reward, from what was released only.

        Args:
            points: (n, d) in the domain; with `contexts` and `arms`, contexts of n people, in any form that
                `ask_batch` or `ask` takes.

        Returns:
            Two arrays (n,); with `contexts` and `arms` (n, K), one row a person and one column an arm.

        Raises:
            InvalidData: points outside the domain, or contexts that cannot be read.
        """
        if self.menu is None:
            return self._predict(self.domain.validate(points, name="points"))
        sets = self.menu.sets(self.menu.encode(points))
        mean, spread = self._predict(sets.reshape(-1, sets.shape[-1]))
        return mean.reshape(sets.shape[:2]), spread.reshape(sets.shape[:2])

    def recommend(self, brought: Any) -> Any:
        """What has the best predicted reward: the row among candidates (n, d), or one person's arm.

        Raises:
            InvalidData: as `predict`, or several people.
        """
        mean, _ = self.predict(brought)
        if self.menu is None:
            return int(np.argmax(mean))
        if len(mean) != 1:
            raise InvalidData(f"recommend: {len(mean)} people, expected one: use publish().recommend_batch")
        return self.menu.arms.labels[int(np.argmax(mean[0]))]

    @in_turn
    def warm_start(self, points: Any, rewards: FloatArray, *, arms: Sequence[object] | None = None) -> None:
        """Learn from public data before the first ask.

        Args:
            points: (n, d) in the domain; or contexts of n people, and which `arms` they were given.
            rewards: (n,).
            arms: n labels.
        """
        if self._book.asked:
            raise ProtocolError("warm_start: public data comes before the first ask; build a new policy")
        if self.menu is not None and arms is not None:
            contexts, codes = self.menu.encode(points), self.menu.cells(arms)
            if len(contexts) != len(codes) or (codes < 0).any():
                raise InvalidData("warm_start: expected the label of one arm a person")
            points = np.column_stack([contexts, codes])
        elif arms is not None:
            raise InvalidData("arms are for a policy that was built with contexts and arms")
        rows = self.domain.validate(points, name="points")
        values = self.reward_range.validate(rewards, clip=self.clip)
        if rows.ndim != 2 or values.shape != (len(rows),):
            raise InvalidData("warm_start: expected points (n, d) and rewards (n,) of the same length")
        self._learn_public(rows, values)
        if self._holder.live:
            self._holder.commit()

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        raise ProtocolError(f"{type(self).__name__} has nothing to learn from data: leave warm_start out")


def _is_set(brought: object, *, axes: int) -> bool:
    """Whether this is an array of candidate rows, which a table's row or a list is not."""
    return isinstance(brought, np.ndarray) and brought.ndim == axes
