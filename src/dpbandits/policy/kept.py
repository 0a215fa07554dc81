"""`KeptPolicy`: base class of policies, with configuration, charging, saving and loading.

A subclass defines which arrays to save. Guarantee and status follow from the log of the policy's releases.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypedDict

import numpy as np

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._config import arguments_of, config_of
from dpbandits._memory import DoesNotFit
from dpbandits._reading import reading
from dpbandits._seen import as_html, no_such, public_names, said
from dpbandits._typing import Seed
from dpbandits.budget import Account, Ledger
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models import features, kernels
from dpbandits.privacy import definitions
from dpbandits.privacy import noise as noise_sources
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.privacy.release_terms import Release, check_releases, terms_of_release
from dpbandits.state import State, StateKey
from dpbandits.state.holder import Holder, in_turn, no_copy, saved_state
from dpbandits.state.witness import Payer, witness_of
from dpbandits.tables.menu import Menu

__all__ = ["KeptPolicy", "PolicyOptions"]


class PolicyOptions(TypedDict, total=False):
    """Options of all policies, which most users leave at their defaults.

    Attributes:
        seed: Seed of the public randomness. Default: 0.
        noise: Source of noise. Default: `SecureNoise()`. `SimulatedNoise(seed)` is for studies and protects
            nobody.
        account: Account of a privacy budget, such as `ledger.account("people")`. It is charged for the
            guarantee before any noise is drawn. Its ledger refuses a second copy of a saved state.
    """

    seed: Seed
    noise: NoiseSource | None
    account: Account | None


_ASK, _TELL = "ask(context, user=...)", "tell(decision.id, reward)"

_INSTEAD = {
    **dict.fromkeys(("act", "choose", "choose_arm", "pull", "select", "select_arm", "suggest"), _ASK),
    **dict.fromkeys(("fit", "observe", "partial_fit", "report", "reward", "update"), _TELL),
    **dict.fromkeys(("epsilon", "delta", "rounds_per_user"), "privacy, or guarantee"),
    **dict.fromkeys(("explain", "statement"), "guarantee.explain()"),
    **dict.fromkeys(("best", "best_arm", "decide"), "recommend(context)"),
    **dict.fromkeys(("budget", "budget_left", "remaining"), "ledger.balance(account)"),
    **dict.fromkeys(("release", "export"), "publish()"),
    **dict.fromkeys(("dump", "to_file", "to_json", "write"), "save(path), or to_config()"),
    "ask": "learn(...), then publish() or answer(context); a policy that asks is GPBandit",
    "absorb": f"{_TELL}: reports are of `local`",
}
"""Argument names of other libraries or trust models, with the name to use here for each."""


class KeptPolicy(metaclass=ABCMeta):
    """Base class of policies with a guarantee, a configuration and a saved state.

    A lock serialises calls from several threads, so that no block is released twice and no user counted
    twice. For the same reason a policy cannot be copied or pickled, and a forked child cannot ask.

    Args:
        reward_range: Public bounds (low, high) of rewards. `RewardRange(low, high, clip=True)` replaces a
            reward outside the bounds by the nearer bound, instead of refusing it.
        horizon: Largest number of rounds or rows that count; None if no noise depends on it.
        privacy: Privacy definition to satisfy, which also says whether asks name their user. None for a
            policy without guarantee and noise.
        seed, noise, account: See `PolicyOptions`.
    """

    kind: ClassVar[str]
    """Name of the class in configurations and state files: package and class."""
    config_type: ClassVar[str] = ""
    config_label: ClassVar[str] = "policy"
    config_omits: ClassVar[frozenset[str]] = frozenset({"account"})
    config_parsers: ClassVar[Mapping[str, Any]] = {
        "domain": domains.from_config,
        "features": features.from_config,
        "kernel": kernels.from_config,
        "noise": noise_sources.from_config,
        "privacy": definitions.from_config,
        "reward_range": RewardRange.from_config,
    }
    menu: Menu | None
    """Menu of contexts and arms; None for a policy without `arms`."""
    noise: NoiseSource | None
    """Source of noise; None for a policy without noise. The position of
    a simulated source is part of the state.
    """
    open_ended: bool = False
    """True if no horizon was given, so that the horizon is the largest that the arithmetic allows."""
    state_version: ClassVar[int] = 1
    """Version of the layout of this class's saved state."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.config_type = getattr(cls, "kind", "")
        worded(cls)

    def __init__(
        self,
        *,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        seed: Seed = 0,
        noise: NoiseSource | None = None,
        account: Account | None = None,
    ) -> None:
        self.reward_range = RewardRange.of(reward_range)
        self.horizon = None if horizon is None else _checks.integer(horizon, name="horizon")
        self.user_ids = privacy is not None and privacy.user_ids
        self.seed, self.privacy = seed, privacy
        self.noise = SecureNoise() if noise is None and privacy is not None else noise
        self._holder = Holder(self._state, account=account)

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__())

    def _repr_html_(self) -> str:
        return as_html(self)

    def __reduce__(self) -> NoReturn:
        raise no_copy(self)

    @property
    def arms(self) -> tuple[Label, ...] | None:
        """Labels of the arms; None for a policy without `arms`."""
        return None if self.menu is None else self.menu.arms.labels

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee of this policy, with its assumptions."""

    def _shown(self, **progress: int) -> str:
        """Return the repr: epsilon and delta, the horizon, and public numbers of progress."""
        horizon = "open" if self.open_ended or self.horizon is None else self.horizon
        promise = {name: getattr(self.privacy, name, None) for name in ("epsilon", "delta")}
        return said(self, **promise, horizon=horizon, **progress, lineage=self._holder.lineage[:8])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all arrays that the configuration does not determine. They are secret."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the arrays of `_arrays`. Missing or malformed arrays may raise any built-in error."""

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the whole state to `path` now, and at every later release.

        The file contains raw statistics and has mode 0600. Protect it as you protect the data, or encrypt it
        with a `key`. `dpbandits.state.holder.Holder.save` says what happens after a failure.
        """
        self._charge()  # before saving, so that a later `load` need not know the account
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
        """Return the position of a simulated noise source after all draws that the state contains; else 0."""
        return self.noise.position if isinstance(self.noise, SimulatedNoise) else 0

    def to_config(self) -> dict[str, Any]:
        """Return the configuration for JSON; `from_config` builds an equal policy from it."""
        return config_of(self)

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments that a configuration holds, parsed."""
        return arguments_of(cls, config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **runtime: Any) -> Self:
        """Build a policy from `to_config()`.

        Args:
            config: Configuration from `to_config`.
            **runtime: Arguments that a configuration never holds (`account`), or that replace its values
            (`noise`).
        """
        with reading(f"a configuration of {cls.kind}"):
            return cls(**(cls.arguments(config) | runtime))

    def _uses(self) -> tuple[Release, ...]:
        """Return all purposes for which this policy draws noise; the default is none."""
        return ()

    def _enter_release(self, use: Release, number: int) -> None:
        """Record a release in the log before its noise is drawn; see `Holder.record`."""
        terms = terms_of_release(use.record, use.noise)
        self._holder.record(use.purpose, number, terms, charge=use.charge)

    @classmethod
    @worded
    def load(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None = None,
        account: Account | None = None,
        adopt: bool = False,
        key: StateKey | None = None,
    ) -> Self:
        """Load a saved policy, which continues with the guarantee and the account with which it was saved.

        With a ledger the returned policy is the only copy that can continue. The ledger refuses all other
        copies, running or not.

        Args:
            path: Path of the saved state.
            ledger: Ledger with which the state was saved; required if there was one. The state contains the
                name of the account that is charged.
            account: Account to charge for a state that was saved without a ledger. Pass it instead of
                `ledger`.
            adopt: True lets the ledger accept a state that was saved without a ledger. You must then know
                that no other copy has continued.
            key: Key with which the state was saved.

        Raises:
            ForkedState: The ledger knows a later state of this lineage.
            IncompatibleState: The state needs its ledger, or belongs to another kind of object or version.
            CorruptState: The file is torn, or its releases do not fit its configuration.
            InvalidParameter: An account is passed for a state that names one, or is missing.
            BudgetExceeded: The passed account has too little budget.
        """
        policy = cls._taken_up(
            path, ledger=witness_of(account, ledger), account=account, adopt=adopt, key=key
        )
        policy._charge()
        policy._holder.take_over()
        return policy

    @classmethod
    def _taken_up(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Payer | None,
        account: Account | None,
        adopt: bool,
        key: StateKey | None,
        opening: bool = False,
    ) -> Self:
        saved = saved_state(
            path,
            kind=cls.kind,
            version=cls.state_version,
            ledger=ledger,
            key=key,
            adopt=adopt,
        )
        try:
            policy = cls.from_config(saved.state.public["config"])
        except DoesNotFit:
            raise
        except (KeyError, InvalidParameter) as error:
            raise CorruptState("the saved configuration cannot be read") from error
        policy._holder.take_up(saved, account=account, opening=opening)
        with reading("what a policy saved", CorruptState):
            if isinstance(policy.noise, SimulatedNoise):
                policy.noise = policy.noise.at(int(saved.state.arrays["noise_position"]))
            policy._restore(saved.state.arrays)
        policy._check_log()
        return policy

    def _check_log(self) -> None:
        """Raise an error if the log lacks a release, or shows weaker terms than the guarantee."""
        check_releases(self._holder.log, self._uses(), privacy=self.privacy)

    def _charge(self) -> None:
        """Charge the account before the first release; by default nothing, as each release is charged."""
