"""Width of the interval of a private readout, and the holdout that a width takes, before there is any data.

`plan_readout` is for a policy with a trusted server. The noise is the one that `GPBandit` would add:
`BothNoises` divides the promise. The width follows from it in closed form (`models.readout.half_width`), so
no world is simulated. `plan_local_readout` is for reports of devices, whose noise is randomised response.
"""

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits.central.readout.budget import BothNoises, for_learning
from dpbandits.central.readout.declared import UNIFORM, Control, Readout
from dpbandits.central.readout.lattice import Lattice
from dpbandits.central.readout.segments import SegmentSums
from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout import NoiseScales, half_width
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.certificates import GaussianDP, PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise
from dpbandits.privacy.reports import RandomisedResponse

__all__ = ["LocalReadoutPlan", "ReadoutPlan", "plan_local_readout", "plan_readout"]

SHARES = tuple(percent / 100.0 for percent in range(1, 51))
"""Shares of a control group that are tried: all that `Control` allows, in steps of one percent."""


@dataclass(frozen=True, kw_only=True)
class ReadoutPlan:
    """Forecast of the interval of policy minus control, for a reward and a `Readout`.

    All widths are half widths, in units of the reward, after the last look.

    Attributes:
        users: Number of users, one round each.
        readout: Public arguments of the readout.
        privacy: Whole promise.
        release: Release from which the policy learns.
        confidence: Confidence of the intervals.
        deviation: Standard deviation of a reward, in units of its range.
        unit: Width of the reward's range.
    """

    users: int
    readout: Readout
    privacy: JointDP
    release: str
    confidence: float
    deviation: float
    unit: float

    @cached_property
    def _noises(self) -> tuple[NoiseScales, NoiseScales]:
        """Noise of one look's sum of the policy and of the control group, in rounds of the full range."""
        privacy, gaussian = self.privacy, self.release == "features"
        left = for_learning(privacy, self.readout.spent, gaussian=gaussian)
        lattice = Lattice(self.readout.outcomes(RewardRange(0, 1)), repeats=False)
        segments = None
        if self.readout.segments is not None:  # the noise hardly depends on the number of segments
            unit, squared = int(lattice.units[0]), not lattice.outcomes[0].yes_no
            segments = SegmentSums("", ("", ""), 0, (0.5,), unit, squared)
        found = BothNoises.planned(
            GaussianDP(gaussian_mu(left.epsilon, left.delta)) if gaussian else PureDP(left.epsilon),
            privacy,
            SecureNoise(),
            lattice,
            self.readout,
            segments=segments,
            charged=False,
        )
        step = float(lattice.scales(gaussian=False)[0][0])
        return found.policy.law_of(step), found.control.law_of(step)

    def width(self, share: float, *, always: bool = False, private: bool = True) -> float:
        """Return the half width with this share of users in the control group.

        Args:
            share: Share of the control group, in (0, 1).
            always: True for the interval that holds at all looks together.
            private: False for the interval without the noise of privacy.
        """
        policy, control = self._noises if private else (NoiseScales(), NoiseScales())
        return self.unit * half_width(
            self.users,
            share=share,
            looks=self.readout.looks,
            policy_law=policy,
            control_law=control,
            sd=self.deviation,
            always=always,
            confidence=self.confidence,
        )

    @property
    def half_width(self) -> float:
        """Half width for a comparison that is read once."""
        return self.width(self.readout.control.share)

    @property
    def always(self) -> float:
        """Half width of the interval that holds at all looks together."""
        return self.width(self.readout.control.share, always=True)

    @property
    def without_privacy(self) -> float:
        """Half width without the noise of privacy, for a comparison that is read once."""
        return self.width(self.readout.control.share, private=False)

    def smallest_share(self, half_width: float) -> float | None:
        """Return the smallest share of a control group with at most this half width, in whole percents.

        It is None if no share up to .5 is enough: then it takes more users, or a larger `Readout.share`.
        """
        wanted = _checks.number(half_width, name="half_width")
        return next((share for share in SHARES if self.width(share) <= wanted), None)

    def needed(self, half_width: float) -> str:
        """Return in words which holdout gives this half width."""
        share = self.smallest_share(half_width)
        if share is not None:
            return f"A holdout of {share:.0%} of the users gives plus or minus {half_width:.4g}."
        best = min(self.width(share) for share in SHARES)
        return (
            f"No holdout gives plus or minus {half_width:.4g}: the least is {best:.2g}. It takes more users, "
            f"a larger epsilon, or a larger share of the promise for the readout."
        )

    def __str__(self) -> str:
        return (
            f"{self.users:,} users, {self.readout.control.share:.0%} of them in the holdout (control group), "
            f"{self.readout.looks} looks, epsilon {self.privacy.epsilon:g}. The {self.confidence:.0%} "
            f"interval of policy minus control will be about plus or minus {self.half_width:.2g} after the "
            f"last look. Without privacy it would be plus or minus {self.without_privacy:.2g}. The interval "
            f"that holds at all looks together will be plus or minus {self.always:.2g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary of the arguments and the half widths."""
        return {
            "users": self.users,
            "readout": self.readout.to_config(),
            "privacy": self.privacy.to_config(),
            "release": self.release,
            "confidence": self.confidence,
            "half_width": self.half_width,
            "always": self.always,
            "without_privacy": self.without_privacy,
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)


@worded
def plan_readout(
    *,
    users: int,
    privacy: JointDP,
    readout: Readout | None = None,
    rate: float | None = None,
    sd: float | None = None,
    reward_range: RewardRange | tuple[float, float] = (0, 1),
    release: Literal["marginals", "features"] = "marginals",
    confidence: float = 0.95,
) -> ReadoutPlan:
    """Forecast how wide the interval of a policy's readout will be, from public facts alone.

    Args:
        users: Number of users to come, one round each.
        privacy: Whole promise.
        readout: Public arguments of the readout; default `Readout(control=Control(arm="uniform"))`. Which arm
            the control has does not change the forecast.
        rate: Expected share of rewards at the upper end of the range, in (0, 1), for rewards that are always
            one of the two ends.
        sd: Expected standard deviation of other rewards, in units of the reward. Give one of `rate` and `sd`.
        reward_range: Public range of the reward.
        release: Release from which the policy learns; see `GPTuning.release`.
        confidence: Confidence of the intervals.

    Raises:
        InvalidParameter: An argument is outside its range, a user may have several rounds, or not exactly one
            of `rate` and `sd` is given.

    Example:
        >>> found = plan_readout(users=100_000, privacy=JointDP(epsilon=1, delta=1e-6), rate=0.01)
        >>> round(found.half_width, 4), round(found.without_privacy, 4), found.smallest_share(0.0025)
        (0.0027, 0.0021, 0.14)
    """
    _checks.an(privacy, JointDP, name="privacy", pass_="privacy=JointDP(epsilon=1, delta=1e-6)")
    if privacy.rounds_per_user != 1:
        raise InvalidParameter("privacy: no width is forecast for users with several rounds")
    used = Readout(control=Control(arm=UNIFORM)) if readout is None else readout
    _checks.an(used, Readout, name="readout", pass_='readout=Readout(control=Control(arm="nothing"))')
    if (rate is None) == (sd is None):
        raise InvalidParameter("give either rate= of a yes/no reward or sd= of another one")
    unit = RewardRange.of(reward_range).width
    if rate is not None:
        chance = _checks.probability(rate, name="rate")
        deviation = math.sqrt(chance * (1.0 - chance))
        used = replace(used, metrics={**used.metrics, "reward": bool})
    else:
        deviation = _checks.number(sd, name="sd") / unit
    found = ReadoutPlan(
        users=_checks.integer(users, name="users", minimum=1),
        readout=used,
        privacy=privacy,
        release=_checks.one_of(release, ("marginals", "features"), name="release"),
        confidence=_checks.probability(confidence, name="confidence"),
        deviation=deviation,
        unit=unit,
    )
    found.width(used.control.share)  # raises if no noise fits the promise
    return found


@dataclass(frozen=True, kw_only=True)
class LocalReadoutPlan:
    """Forecast of the interval of policy minus control under a `local.ReadoutSpec`.

    All widths are half widths, in units of the outcome.

    Attributes:
        users: Number of devices that report.
        epsilon: Epsilon of the one report of each.
        rate: Expected mean outcome, as a share of its range. As a device rounds its outcome to one bit, the
            width follows from the mean alone.
        share: Share of devices in the control group.
        unit: Width of the outcome's range.
        confidence: Confidence of the intervals.
    """

    users: int
    epsilon: float
    rate: float
    share: float
    unit: float
    confidence: float

    def _width(self, *, private: bool = True, always: bool = False) -> float:
        bit = RandomisedResponse(n_cells=1, epsilon=self.epsilon)
        p, q = map(float, bit.rates) if private else (1.0, 0.0)
        return (self.unit / (p - q)) * half_width(
            self.users,
            share=self.share,
            looks=4,  # without noise of the server they matter for `always` alone, which is narrowest there
            policy_law=NoiseScales(),
            control_law=NoiseScales(),
            rate=q + (p - q) * self.rate,
            always=always,
            planned=False,
            confidence=self.confidence,
        )

    @property
    def half_width(self) -> float:
        """Half width for a readout that is read once."""
        return self._width()

    @property
    def always(self) -> float:
        """Half width, at `users` reports, of the interval that may be read at any times."""
        return self._width(always=True)

    @property
    def without_privacy(self) -> float:
        """Half width if devices sent their rounded outcomes, for a readout that is read once."""
        return self._width(private=False)

    def needed(self, half_width: float) -> int:
        """Return the number of devices that give this half width, for a readout that is read once."""
        ratio = self.half_width / _checks.number(half_width, name="half_width")
        return math.ceil(self.users * ratio**2)


@worded
def plan_local_readout(
    *,
    users: int,
    epsilon: float,
    rate: float,
    share: float = 0.5,
    reward_range: RewardRange | tuple[float, float] = (0, 1),
    confidence: float = 0.95,
) -> LocalReadoutPlan:
    """Forecast how wide the interval of a `local.ReadoutSpec` will be, from public facts alone.

    Args:
        users: Number of devices that report.
        epsilon: Epsilon of the one report of each.
        rate: Expected mean outcome, as a share of its range in [0, 1).
        share: Share of devices in the control group, in (0, 1).
        reward_range: Public range of the outcome.
        confidence: Confidence of the intervals.

    Raises:
        InvalidParameter: An argument is outside its range.

    Example:
        >>> found = plan_local_readout(users=100_000, epsilon=1, rate=0.1)
        >>> round(found.half_width, 4), round(found.without_privacy, 4), found.needed(0.01)
        (0.0125, 0.0037, 155299)
    """
    found = LocalReadoutPlan(
        users=_checks.integer(users, name="users", minimum=1),
        epsilon=_checks.number(epsilon, name="epsilon"),
        rate=_checks.probability(rate, name="rate"),
        share=_checks.probability(share, name="share"),
        unit=RewardRange.of(reward_range).width,
        confidence=_checks.probability(confidence, name="confidence"),
    )
    if not found.share:
        raise InvalidParameter("share: expected a number above 0 and below 1")
    RandomisedResponse(n_cells=1, epsilon=found.epsilon)  # refuses an epsilon that cannot hold
    return found
