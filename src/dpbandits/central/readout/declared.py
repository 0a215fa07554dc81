"""`Readout`: the public arguments of a private comparison with a control group.

The comparison needs a group of users whom the policy does not serve. They get the arm of a `Control`, chosen
by a public coin, and never enter learning. At a few public looks the sums of both groups' outcomes are
released with noise. A `Stop` is a rule on these releases.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, ClassVar, Literal

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Configured, plain
from dpbandits.central.marginals.learning import DRAWS, forced_draws
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter

__all__ = ["REWARD", "UNIFORM", "Control", "Readout", "Stop", "ToldMetric"]

REWARD = "reward"
"""Name of the metric that is the policy's own reward."""

UNIFORM = "uniform"
"""Value of `Control.arm` for an arm drawn uniformly."""

MOST_LOOKS, MOST_METRICS = 64, 16
"""Largest number of looks, and of metrics beside the reward."""

TAKEN = ("at", "decision_id", "self")
"""Identifiers that are no names of metrics, as `tell` has them as arguments."""

MOST_SHARE = 0.5
"""Largest share of the policy group's promise that a readout may spend."""

MOST_MINIMUM = 0.5
"""Largest sum of the shares in `Readout.minimum`, each rounded up to whole draws."""


@worded
@dataclass(frozen=True, kw_only=True)
class Control(Configured):
    """Control group: a public share of the users, and how they are served.

    Args:
        arm: Label of the arm that every user of the group gets; "uniform" for an arm drawn uniformly by a
            public coin; or a `PublishedPosterior` of the policy's contexts and arms, whose best arm is given.
            If the arm of a label is not available to a user, an available arm is drawn uniformly.
        share: Share of the users in the group, from 0.01 to 0.5. Take 0.2 with fewer than 10,000 users, or
            for rare rewards.

    Raises:
        InvalidParameter: The share is out of its range.
    """

    arm: Label | PublishedPosterior
    share: float = 0.1

    def __post_init__(self) -> None:
        share = _checks.number(self.share, name="share", minimum=0.01, exclusive=False, maximum=0.5)
        _checks.assign(self, share=share)
        if not isinstance(self.arm, PublishedPosterior | str | int | float | bool):
            raise InvalidParameter(
                f"Control: arm is {_checks.kind_of(self.arm)}, expected the label of an arm, 'uniform' or a "
                "published function of contexts and arms"
            )

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, in which a published function is {"function": ...}."""
        arm = self.arm
        shown = {"function": json.loads(arm.to_json())} if isinstance(arm, PublishedPosterior) else arm
        return {"arm": shown, "share": self.share}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments in a configuration, parsed."""
        found = super().arguments(config)
        if isinstance(found["arm"], Mapping):
            found["arm"] = PublishedPosterior.from_config(found["arm"]["function"])
        return found


@worded
@dataclass(frozen=True, kw_only=True)
class Stop(Configured):
    """Rule on released looks: the policy harms if a metric exceeds the control's by more than a bound.

    Args:
        harm: Name of the metric, of which more is worse.
        above: Difference of the groups' means, in units of the metric, that is harmless.
        then: "control" gives every later user the control's arm, and ends learning and readout. None only
            says in `diagnostics()` that the rule has stopped.

    Raises:
        InvalidParameter: The bound is no finite number of at least 0, or `then` is another value.
    """

    harm: str
    above: float = 0.0
    then: Literal["control"] | None = None

    def __post_init__(self) -> None:
        _checks.an(self.harm, str, name="harm", pass_='harm="complaint"')
        _checks.assign(self, above=_checks.number(self.above, name="above", exclusive=False))
        if self.then is not None:
            _checks.one_of(self.then, ("control",), name="then")


@dataclass(frozen=True, kw_only=True)
class ToldMetric:
    """One metric of the readout.

    Attributes:
        name: Name of the metric.
        bounds: Public range of its values.
        yes_no: True if its only values are the ends of the range.
        default: Value that counts where a value is missing: 0, or the end of the range nearest to 0.
        weight: Weight of its sums in the noise; twice the weight means half the noise relative to the others.
    """

    name: str
    bounds: RewardRange
    yes_no: bool
    weight: float = 1.0

    @property
    def default(self) -> float:
        """Value that counts where a value is missing, in units of the metric."""
        return min(max(0.0, self.bounds.low), self.bounds.high)


@worded
@dataclass(frozen=True, kw_only=True)
class Readout(Configured):
    """Private comparison of a policy with a control group, while it runs and afterwards.

    Args:
        control: Control group.
        metrics: Further metrics by their names: `bool` for True or False, or a public range (low, high).
            `tell(id, reward, complaint=False)` tells them. A value that is missing or cannot be read counts
            as the public default: 0, or the end of the range nearest to 0. The entry "reward": bool says that
            the reward is always one of the two ends of its range.
        weights: Weights of metrics in the noise, by name, from 0.1 to 10; default 1, also for the reward.
            Twice the weight of a metric means half its noise, relative to the other metrics.
        looks: Number of looks, after equal parts of the horizon.
        share: Share of the policy group's promise that its sums spend, from 0.001 to 0.5; learning gets the
            rest. The control group's sums spend that group's whole promise.
        minimum: Share of the policy group's decisions that an arm gets at least, by label. A share is at most
            one over the number of arms and is rounded up to a multiple of 1/48. All together are then at most
            0.5. Every decision then has its propensity.
        stop: Rule on the released looks; None for no rule.
        segments: Column of the contexts, in whose segments rewards are compared once, after the last look.
            It is the name of a column of `Categories`, or {"age": [30, 50]} with the inner edges of a
            `Range`. An edge belongs to the segment above it.
        segments_share: Share of the policy group's promise that sums in segments spend, beside `share`. In
            the control group they spend half of that group's promise.

    Raises:
        InvalidParameter: A number is out of its range, or a name is not that of a metric.

    Example:
        >>> readout = Readout(control=Control(arm="nothing"), metrics={"complaint": bool},
        ...     stop=Stop(harm="complaint", above=0.02))
        >>> readout.control.share, readout.looks, Readout.from_config(readout.to_config()) == readout
        (0.1, 4, True)
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        "control": Control.from_config,
        "stop": Stop.from_config,
        "metrics": lambda kinds: {
            name: bool if kind == "bool" else RewardRange.from_config(kind) for name, kind in kinds.items()
        },
        "minimum": dict,
    }

    control: Control
    metrics: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    looks: int = 4
    share: float = 0.05
    minimum: Mapping[Label, float] = field(default_factory=dict)
    stop: Stop | None = None
    segments: str | Mapping[str, Sequence[float]] | None = None
    segments_share: float = 0.05

    def __post_init__(self) -> None:
        _checks.an(self.control, Control, name="control", pass_='control=Control(arm="nothing")')
        _checks.an(
            self.stop, Stop, name="stop", pass_='stop=Stop(harm="complaint", above=0.02)', optional=True
        )
        for name in ("metrics", "weights", "minimum"):
            given = _checks.an(getattr(self, name), Mapping, name=name, pass_="a dict by names")
            _checks.assign(self, **{name: dict(given)})
        _checks.assign(self, metrics={name: _range(name, kind) for name, kind in self.metrics.items()})
        looks = _checks.integer(self.looks, name="looks")
        shares = {
            name: _checks.number(
                getattr(self, name), name=name, minimum=0.001, exclusive=False, maximum=MOST_SHARE
            )
            for name in ("share", "segments_share")
        }
        _checks.assign(self, looks=looks, segments=_segments(self.segments), **shares)
        if self.spent > MOST_SHARE:
            raise InvalidParameter(f"share and segments_share: at most {MOST_SHARE} together")
        if looks > MOST_LOOKS or len(self.metrics) > MOST_METRICS:
            raise InvalidParameter(f"readout: at most {MOST_LOOKS} looks and {MOST_METRICS} metrics")
        weights = {
            name: _checks.number(weight, name="weights", minimum=0.1, exclusive=False, maximum=10.0)
            for name, weight in self.weights.items()
        }
        minimum = {
            label: _checks.number(least, name="minimum", maximum=MOST_MINIMUM)
            for label, least in self.minimum.items()
        }
        _checks.assign(self, weights=weights, minimum=minimum)
        if sum(map(forced_draws, minimum.values())) > MOST_MINIMUM * DRAWS:
            raise InvalidParameter(
                f"minimum: the shares, each rounded up to a multiple of 1/{DRAWS}, are more than "
                f"{MOST_MINIMUM} together"
            )
        named = {REWARD, *self.metrics}
        if not weights.keys() <= named or (self.stop is not None and self.stop.harm not in named):
            raise InvalidParameter(f"weights and stop: expected names of metrics: {', '.join(sorted(named))}")

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, from which `from_config` builds an equal object."""
        kinds = {name: "bool" if kind is bool else plain(kind) for name, kind in self.metrics.items()}
        return super().to_config() | {
            "metrics": kinds,
            "minimum": [[label, least] for label, least in self.minimum.items()],
        }

    @property
    def spent(self) -> float:
        """Share of the policy group's promise that the readout spends, and learning lacks."""
        return self.share + (0.0 if self.segments is None else self.segments_share)

    def outcomes(self, reward_range: RewardRange) -> tuple[ToldMetric, ...]:
        """Return the metrics, the reward first, for a policy with this reward range."""
        kinds: dict[str, Any] = {REWARD: reward_range, **self.metrics}
        if kinds[REWARD] is bool:
            kinds[REWARD] = reward_range
        return tuple(
            ToldMetric(
                name=name,
                bounds=RewardRange(0, 1) if kind is bool else kind,
                yes_no=self.metrics.get(name) is bool,
                weight=self.weights.get(name, 1.0),
            )
            for name, kind in kinds.items()
        )


def _segments(asked: Any) -> Any:
    if asked is None or isinstance(asked, str):
        return asked
    if isinstance(asked, Mapping) and len(asked) == 1:
        ((name, edges),) = asked.items()
        if isinstance(name, str) and isinstance(edges, list | tuple | np.ndarray):
            return {name: [_checks.number(edge, name="segments", minimum=-math.inf) for edge in edges]}
    raise InvalidParameter(
        'segments: expected the name of one column, or {"age": [30, 50]} with the inner edges of a Range'
    )


def _range(name: object, kind: object) -> Any:
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name in TAKEN:
        raise InvalidParameter(
            f"metrics: {name!r} cannot be the name of a metric, because tell has metrics as arguments. Pass "
            f"an identifier, other than {', '.join(TAKEN)} and the keywords of Python"
        )
    if kind is bool:
        return bool
    if name == REWARD:
        raise InvalidParameter(
            "metrics: the policy's reward_range is the range of the reward: pass bool or nothing"
        )
    pair = isinstance(kind, tuple | list) and len(kind) == 2
    if not pair and not isinstance(kind, RewardRange):
        raise InvalidParameter(
            f"metrics: {name} is {_checks.kind_of(kind)}, expected bool or a public range such as (0, 500)"
        )
    return RewardRange.of(kind)
