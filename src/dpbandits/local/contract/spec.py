"""The public contract of one locally private bandit: what devices and server agree on before anyone reports.

NumPy and the standard library only: devices read it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from dpbandits import _checks
from dpbandits._checks import integer
from dpbandits._reading import json_object, reading
from dpbandits.domains import Box
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.models.trees.partition import DyadicPartition, TieRule
from dpbandits.privacy.reports import MECHANISMS, ReportMechanism, mechanism

__all__ = ["ArmChoice", "PolicyName", "Spec"]

PolicyName = Literal["smooth", "tree", "eliminate", "ma2025", "explore"]
ArmChoice = Literal["server", "user"]

FORMAT_VERSION = 1

_POLICIES = ("smooth", "tree", "eliminate", "ma2025", "explore")

_AUTOMATIC = ("signed", "krr")

# A report names its class in one byte.
_MOST_CLASSES = 64

MOST_ARMS = 256
"""What arithmetic and memory carry: the probabilities of being best take n_arms^2 numbers a bin."""

_COUNTS = {
    "n_arms": (1, MOST_ARMS),
    "reports_per_version": (1, 2**31),
    "window": (0, 2**16),
    "max_leaves": (1, 2**16),
    "n_users": (1, 2**53),
}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A locally private contextual bandit on adaptive bins.

    Args:
        domain: public box of contexts; devices refuse contexts outside.
        n_arms: number of arms.
        epsilon: every report is epsilon-locally private.
        reward_range: public bounds of rewards; devices clip to them.
        mechanism: name of the report, see `dpbandits.privacy.reports`; or `auto`: the signed report or
            k-ary randomised response, whichever has the smaller variance for these bins and epsilon.
        policy: `smooth` (recommended), `tree` (the one that sources can start), `eliminate`, `ma2025` (as
            published), or `explore` (bins fixed, arms random: what sources of other targets do).
        arms: `server`: the published policy names one arm a bin, which is public, so a report hides
            the bin and the reward. `user`: it gives probabilities, the device draws, and a report
            hides the arm as well.
        reports_per_version: a new policy is published after this many accepted reports.
        window: how many versions before the current one are still accepted.
        tie: which longest edge of a bin is halved, see `DyadicPartition`.
        max_leaves: bound on the number of bins, hence on a report's size and the server's memory.
        n_users: expected number of users; `ma2025` needs it, the others do not.
        seed: public randomness of the server.
        constants: constants of the policy that differ from the defaults.
        epsilons: classes of epsilon that users may choose from, ascending, the last being `epsilon`; empty:
            everyone has `epsilon`. A user's class is public and must be chosen without looking at context or
            reward: see `dpbandits.local.server.own_epsilon`.

    Privacy: LDP per report; unit: one user's whole (context, arm, reward). A device that reports k
    times loses at most k epsilon, and its ledger says so.

    Raises:
        InvalidParameter: an argument is outside what it may be; nothing is rounded silently.

    Example:
        >>> spec = Spec(domain=Box(low=[0, 0], high=[1, 1]), n_arms=3, epsilon=1.0)
        >>> spec == Spec.from_json(spec.to_json())
        True
    """

    domain: Box
    n_arms: int
    epsilon: float
    reward_range: RewardRange = field(default_factory=lambda: RewardRange(0.0, 1.0))
    mechanism: str = "auto"
    policy: PolicyName = "tree"
    arms: ArmChoice = "server"
    reports_per_version: int = 100
    window: int = 8
    tie: TieRule = "first"
    max_leaves: int = 1024
    n_users: int | None = None
    seed: int = 0
    constants: Mapping[str, float] = field(default_factory=dict)
    epsilons: Sequence[float] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Box):
            raise InvalidParameter(f"domain: expected a Box, got {type(self.domain).__name__}")
        if not isinstance(self.reward_range, RewardRange):
            object.__setattr__(self, "reward_range", RewardRange.of(self.reward_range))
        for name, (least, most) in _COUNTS.items():
            value = getattr(self, name)
            if (name != "n_users" or value is not None) and integer(value, name=name, minimum=least) > most:
                raise InvalidParameter(f"{name}: expected an integer from {least} to {most}")
        integer(self.seed, name="seed", minimum=0)
        constants: object = self.constants  # of any type, where the spec comes from a file
        if not isinstance(constants, Mapping) or not all(map(_is_constant, constants.items())):
            raise InvalidParameter(
                "constants: expected positive numbers under names of the policy's constants"
            )
        _checks.one_of(self.policy, _POLICIES, name="policy")
        _checks.one_of(self.arms, ("server", "user"), name="arms")
        _checks.one_of(self.mechanism, ("auto", *sorted(MECHANISMS)), name="mechanism")
        _checks.one_of(self.tie, ("first", "keyed"), name="tie")
        if self.policy == "ma2025" and self.n_users is None:
            raise InvalidParameter("n_users: policy 'ma2025' must know the number of users beforehand")
        if self.epsilons:
            self._check_epsilons()
        self.mechanisms_for(1)  # refuses an epsilon that cannot be kept, before anyone reports

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return self.domain.dim

    def partition(self, splits: "list[int] | tuple[int, ...]" = ()) -> DyadicPartition:
        """The partition after these splits, the same on every machine."""
        return DyadicPartition(dim=self.dim, tie=self.tie, seed=self.seed, splits=splits)

    def n_cells(self, n_leaves: int) -> int:
        """Cells of a report: bins, or bins times arms where users choose."""
        return n_leaves if self.arms == "server" else n_leaves * self.n_arms

    def mechanism_for(self, n_leaves: int, epsilon: float | None = None) -> ReportMechanism:
        """The mechanism of a version with this many bins; `epsilon` is another class's."""
        n_cells, epsilon = self.n_cells(n_leaves), self.epsilon if epsilon is None else epsilon
        if self.mechanism != "auto":
            return mechanism(self.mechanism, n_cells=n_cells, epsilon=epsilon)
        signed, response = (mechanism(name, n_cells=n_cells, epsilon=epsilon) for name in _AUTOMATIC)
        return response if _mean_variance(response) < _mean_variance(signed) else signed

    def mechanisms_for(self, n_leaves: int) -> tuple[ReportMechanism, ...]:
        """The mechanisms of a version with this many bins, one a class of epsilon."""
        return tuple(self.mechanism_for(n_leaves, epsilon) for epsilon in self.epsilons or (self.epsilon,))

    @property
    def digest(self) -> bytes:
        """Four bytes that every report carries: reports of another spec are dropped."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=4).digest()

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(
            {
                "format": FORMAT_VERSION,
                "kind": "PartitionBanditSpec",
                "domain": self.domain.to_config(),
                "n_arms": self.n_arms,
                "epsilon": self.epsilon,
                "reward_range": [self.reward_range.low, self.reward_range.high],
                "mechanism": self.mechanism,
                "policy": self.policy,
                "arms": self.arms,
                "reports_per_version": self.reports_per_version,
                "window": self.window,
                "tie": self.tie,
                "max_leaves": self.max_leaves,
                "n_users": self.n_users,
                "seed": self.seed,
                "constants": dict(sorted(self.constants.items())),
            }
            | ({"epsilons": list(self.epsilons)} if self.epsilons else {}),
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild a spec.

        Raises:
            IncompatibleState: not a spec, or one of another format version.
        """
        config = json_object(text, "the JSON of a Spec", IncompatibleState)
        kind, version = config.pop("kind", None), config.pop("format", None)
        if kind != "PartitionBanditSpec" or version != FORMAT_VERSION:
            raise IncompatibleState(
                f"expected a Spec of format {FORMAT_VERSION}: ask the server for it again"
            )
        with reading("the JSON of a Spec", IncompatibleState):
            config["domain"] = Box.from_config(config["domain"])
            low, high = config["reward_range"]
            config["reward_range"] = RewardRange(low, high)
            config["epsilons"] = tuple(config.get("epsilons", ()))
            return cls(**config)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _check_epsilons(self) -> None:
        classes: object = self.epsilons  # of any type, where the spec comes from a file
        good = isinstance(classes, tuple | list) and 1 <= len(classes) <= _MOST_CLASSES
        if not good or not all(isinstance(one, int | float) for one in self.epsilons):
            raise InvalidParameter(f"epsilons: expected at most {_MOST_CLASSES} numbers")
        object.__setattr__(self, "epsilons", tuple(map(float, self.epsilons)))
        if list(self.epsilons) != sorted(set(self.epsilons)) or self.epsilons[-1] != self.epsilon:
            raise InvalidParameter("epsilons: expected ascending numbers, the last equal to epsilon")
        if self.policy == "ma2025":
            raise InvalidParameter("epsilons: policy 'ma2025' has one epsilon")


def _is_constant(item: tuple[object, object]) -> bool:
    name, value = item
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(name, str) and number and 0.0 < value <= 1e6  # type: ignore[operator]


def _mean_variance(report: ReportMechanism) -> float:
    """Variance of a cell's signed estimate per report, cells holding equal shares: public."""
    share = 1.0 / report.n_cells
    return share * report.moments.signed_own + (1.0 - share) * report.moments.signed_other
