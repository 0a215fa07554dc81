"""What every policy that is kept does the same way: configured, charged, saved and taken up again.

A subclass says what to save; its guarantee and status follow from the log of what it released.
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
    """What every policy takes beside what is its own, and most people leave as it is.

    Attributes:
        seed: public randomness; default 0.
        noise: default `SecureNoise()`; `SimulatedNoise(seed)` for studies protects nobody.
        account: `ledger.account("people")`, which pays for the guarantee before anything is drawn; its ledger
            witnesses that only one copy of a saved state goes on.
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
"""What other libraries, and other rooms, call it."""


class KeptPolicy(metaclass=ABCMeta):
    """What promises, is configured, saved and taken up again.

    Calls from several threads take turns: two of them must not release one block, or count one user,
    twice. For the same reason a policy cannot be copied or pickled, and a forked child cannot ask.

    Args:
        reward_range: public (low, high) of rewards; `RewardRange(low, high, clip=True)` moves those outside
            to the nearer bound, instead of refusing them.
        horizon: most rounds or rows that count, or None where no noise depends on it.
        privacy: the promise, which says whether users are named; None where nothing is promised, and there is
            no noise.
        seed, noise, account: see `PolicyOptions`.
    """

    kind: ClassVar[str]
    """Name in configurations and state files: room and class."""
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
    """Menu of contexts and arms; None where there are none."""
    noise: NoiseSource | None
    """What a guarantee rests on; a simulated one's position is part of the state."""
    open_ended: bool = False
    """Whether the horizon is what arithmetic carries, as none was given."""
    state_version: ClassVar[int] = 1
    """Layout of this policy's state."""

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
        """The same as `repr`, and the whole promise, for a notebook."""
        return as_html(self)

    def __reduce__(self) -> NoReturn:
        raise no_copy(self)

    @property
    def arms(self) -> tuple[Label, ...] | None:
        """Labels of the arms; None where there are none."""
        return None if self.menu is None else self.menu.arms.labels

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, and on which assumptions."""

    def _shown(self, **progress: int) -> str:
        """The promise, and public numbers of how far it has come."""
        horizon = "open" if self.open_ended or self.horizon is None else self.horizon
        promise = {name: getattr(self.privacy, name, None) for name in ("epsilon", "delta")}
        return said(self, **promise, horizon=horizon, **progress, lineage=self._holder.lineage[:8])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)

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
        self._charge()  # whoever loads the state need not know the account
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

    def to_config(self) -> dict[str, Any]:
        """A JSON-ready description that `from_config` turns back into an equal policy."""
        return config_of(self)

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's arguments that a configuration holds, parsed."""
        return arguments_of(cls, config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **runtime: Any) -> Self:
        """Build the policy that `to_config` described.

        Args:
            config: from `to_config`.
            **runtime: what a configuration does not hold (account=), or replaces in it (noise=).
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
        """Take up a saved policy where it stood, on the terms that it was saved with.

        With a ledger the policy that is returned is the one that goes on: every other copy, running or not,
        is refused from now on.

        Args:
            path: where it was saved.
            ledger: the witness. A state that one has witnessed is refused without it; the account that pays
                is part of the state.
            account: pays for a state that was saved without a ledger, instead of `ledger`; refused for any
                other.
            adopt: let the ledger take on a state that was saved without one; that no other copy has gone
                on is then yours to know.
            key: that it was saved with.

        Raises:
            ForkedState: the ledger has seen this lineage go further than this copy.
            IncompatibleState: the ledger that witnesses the state is missing; another object's or version's.
            CorruptState: the file is torn, or its releases are not what its configuration promises.
            InvalidParameter: an account for a state that has one, or none for one that needs it.
            BudgetExceeded: an account that was given cannot pay.
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
        """What was saved, on the terms that it was saved with; nothing is charged or witnessed yet."""
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
        """Refuse releases that the log does not know, or knows on weaker terms than are promised."""
        check_releases(self._holder.log, self._uses(), privacy=self.privacy)

    def _charge(self) -> None:
        """Spend what is due before anything leaves; by default each use pays by itself."""
