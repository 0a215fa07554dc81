"""Sums of every block with fresh noise of their own: what a server learns by secure aggregation, simulated.

People of a block send vectors, and only the noisy sum of these is read. No single party knows the noise. The
server never holds a raw vector. So it cannot mix the sums of several blocks under one noise, as the matrix
mechanism of `central.GPBandit` does, and the noise of a sum of blocks grows with their number. Everything
else is `GPBandit`: the same vectors, the same regression, which knows all the noise, and the same choices.

`noises` says how many whole noises are added, of which one alone keeps the promise:

- One noise stands for a trusted aggregator, or for devices of which all do as they should. Devices can add up
  to discrete Laplace noise exactly. With rate r it is the difference of two sums, each of n independent
  negative binomial numbers of shape 1/n and ratio exp(-r): a number for each of n devices. They can add up to
  Gaussian noise only nearly.
- Two noises stand for two aggregators, each with the whole noise, who do not both look at their own.

Privacy: a block releases X + Z_1 + ... + Z_s. X are the integer sums, and the Z are independent noises that
do not depend on data. Whoever knows all Z but one sees X + Z_1 up to a known number. That is the mechanism
that is calibrated: `BlockRelease` with the identity as factor, or `CellSums`. Adding more is post-processing.
Every round is in one block, and the proofs of both mechanisms cover all blocks together.

The simulation holds everybody's data in one process, and its noise is repeatable. Nobody in it leaves during
a block and takes a share of the noise along, and nobody sends a vector that is too long: proofs or devices
must rule that out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Unpack

import numpy as np

from dpbandits import _checks, domains
from dpbandits._typing import IntArray
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.arguments import tuned
from dpbandits.central.schedule import growing_blocks
from dpbandits.central.tuning import LONGEST_HORIZON
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter
from dpbandits.policy import PolicyOptions
from dpbandits.privacy.cell_sums import CellSums
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.prefix_sums import BlockRelease, identity
from dpbandits.tables import Schema

__all__ = ["BlockAggregation"]

FIRST_SHARE = 1 / 16
"""Share of the horizon in the first block; see `GROWTH`."""

GROWTH = 1.25
"""Length of a block over that of the one before. Both were chosen on tuning seeds, by
`python -m reproduction dubey2021 distributed-blocks`: the fewest blocks within two standard errors of the
best."""

MOST_NOISES = 16
"""Noises at once: more aggregators than anybody would run."""

NOTE = (
    "This is a simulation of secure aggregation: one process holds everybody's data. A real aggregator would "
    "see these releases and who took part, and nothing else. Each person's device would choose from the "
    "releases. {noises} added to each block's sums, and one is counted."
)


class _Added(SimulatedNoise):
    """Several independent noises at once; the certificate is that of one."""

    def __init__(self, seed: int, *, position: int = 0, noises: int) -> None:
        super().__init__(seed, position=position)
        self.noises = noises

    def to_config(self) -> dict[str, Any]:
        return SimulatedNoise(self.seed).to_config()  # the policy's own configuration says how many

    def at(self, position: int) -> SimulatedNoise:
        return _Added(self.seed, position=position, noises=self.noises)

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        drawn = [super(_Added, self).integer_gaussian(sigma, size) for _ in range(self.noises)]
        return np.asarray(np.sum(drawn, axis=0, dtype=np.int64))

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        drawn = [super(_Added, self).integer_laplace(rate, size) for _ in range(self.noises)]
        return np.asarray(np.sum(drawn, axis=0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class _BlockRelease(BlockRelease):
    """Calibrated to one noise; whoever learns from it knows the deviation of all."""

    noises: int

    @property
    def noise_sd(self) -> float:
        return math.sqrt(self.noises) * super().noise_sd


@dataclass(frozen=True, kw_only=True)
class _CellSums(CellSums):
    """Sums in cells, calibrated to one noise; whoever learns from it knows the deviation of all."""

    noises: int

    @property
    def noise_sd(self) -> float:
        return math.sqrt(self.noises) * super().noise_sd


class BlockAggregation(GPBandit):
    """`GPBandit` with fresh noise in every block, as secure aggregation gives it; see the module.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: as `central.GPBandit`.
        noises: independent noises that are added, of which one keeps the promise; from 1 to 16.
        tuning: see `GPTuning`; its `release` is "features" (the default) or "cells", and it has no `factor`.
        **options: `seed`, `noise`, `account`; the noise is simulated.

    Raises:
        InvalidParameter: noise that is not simulated, another release, or an own factor.

    Privacy: (epsilon, delta)-joint DP with status `simulated`; proof in the module.
    """

    kind = "baselines.BlockAggregation"

    def __init__(
        self,
        *,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        domain: domains.Domain | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        noises: int = 1,
        tuning: GPTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        self.noises = _checks.integer(noises, name="noises")
        if noises > MOST_NOISES:
            raise InvalidParameter(f"noises: expected at most {MOST_NOISES}")
        given = options.get("noise")
        source = SimulatedNoise(options.get("seed", 0)) if given is None else given
        if not isinstance(source, SimulatedNoise):
            raise InvalidParameter("noise: this is a simulation, pass SimulatedNoise(seed)")
        rounds = _checks.integer(horizon, name="horizon")
        if rounds > LONGEST_HORIZON:
            raise InvalidParameter(f"horizon: int64 sums hold at most {LONGEST_HORIZON} rounds")
        own = tuned(tuning, GPTuning)
        if own.release not in (None, "features", "cells"):
            raise InvalidParameter("tuning: expected release='features' or 'cells'")
        first = max(1, round(FIRST_SHARE * rounds))
        blocks = growing_blocks(rounds, first=first, growth=GROWTH) if own.blocks is None else own.blocks
        fresh = identity(len(blocks))
        if own.factor is not None and own.factor.to_config() != fresh.to_config():
            raise InvalidParameter("tuning: sums of several blocks cannot be mixed, leave factor out")
        release = own.release or "features"
        super().__init__(
            contexts=contexts,
            arms=arms,
            domain=domain,
            reward_range=reward_range,
            horizon=rounds,
            privacy=privacy,
            tuning=replace(
                own, release=release, blocks=blocks, factor=fresh if release == "features" else None
            ),
            **options | {"noise": _Added(source.seed, position=source.position, noises=noises)},
        )
        kind: Any = self._kind
        counted = _BlockRelease if release == "features" else _CellSums
        one = {field.name: getattr(kind.mechanism, field.name) for field in fields(kind.mechanism)}
        kind.mechanism = counted(**one, noises=noises)
        self._foresight = kind.foresight()

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-joint DP, simulated."""
        found = super().guarantee
        said = "One noise is" if self.noises == 1 else f"{self.noises} independent noises are"
        return replace(found, notes=(*found.notes, NOTE.format(noises=said)))
