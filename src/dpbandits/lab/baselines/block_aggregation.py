"""`BlockAggregation`: simulated secure aggregation, which releases the sums of every block with fresh noise.

The clients of a block send vectors, and only the noisy sum of these is revealed. No single party knows the
noise, and the server never has a raw vector. So the matrix mechanism of `central.GPBandit` cannot be used,
which adds correlated noise to the sums of several blocks. Instead the noise of a sum of blocks grows with
their number. Everything else is `GPBandit`: the same vectors, the same regression, which knows the variance
of all the noise, and the same choices.

`noises` is the number of independent noises, each of which alone gives the guarantee:

- One noise models a trusted aggregator, or clients that are all honest. Clients can add up to discrete
  Laplace noise exactly. With rate r it is the difference of two sums, each of n independent negative binomial
  numbers of shape 1/n and ratio exp(-r), one for each of n clients. They can add up to Gaussian noise only
  approximately.
- Two noises model two aggregators, each with its own full noise, who do not collude.

Privacy: a block releases X + Z_1 + ... + Z_s. X are the integer sums, and the Z are independent noises that
do not depend on data. An attacker who knows all Z but one sees X + Z_1 up to a known number. That is the
mechanism that is calibrated: `BlockRelease` with the identity as factor, or `CellSums`. Adding more noise is
post-processing. Every round is in one block, and the proofs of both mechanisms cover all blocks together.

The simulation has all data in one process, and its noise is repeatable. It assumes that no client drops out
during a block, with its share of the noise, and that no client sends a vector that is too long. A real system
must ensure this by proofs or trusted clients.
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
"""Share of the horizon that the first block has; `GROWTH` says how it was chosen."""

GROWTH = 1.25
"""Ratio of the lengths of consecutive blocks.

`FIRST_SHARE` and `GROWTH` were chosen on tuning seeds by `python -m reproduction dubey2021
distributed-blocks`: the fewest blocks within two standard errors of the best.
"""

MOST_NOISES = 16
"""Largest accepted value of `noises`, the number of independent noises on each sum."""

NOTE = (
    "This is a simulation of secure aggregation: one process holds everybody's data. A real aggregator would "
    "see these releases and who took part, and nothing else. Each person's device would choose from the "
    "releases. {noises} added to each block's sums, and one is counted."
)


class _Added(SimulatedNoise):
    """Noise source that returns the sum of `noises` independent noises."""

    def __init__(self, seed: int, *, position: int = 0, noises: int) -> None:
        super().__init__(seed, position=position)
        self.noises = noises

    def to_config(self) -> dict[str, Any]:
        return SimulatedNoise(self.seed).to_config()  # the policy's own configuration has the number

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
    """Release of feature sums with several noises, each of which gives the guarantee alone."""

    noises: int

    @property
    def noise_sd(self) -> float:
        return math.sqrt(self.noises) * super().noise_sd


@dataclass(frozen=True, kw_only=True)
class _CellSums(CellSums):
    noises: int

    @property
    def noise_sd(self) -> float:
        return math.sqrt(self.noises) * super().noise_sd


class BlockAggregation(GPBandit):
    """`GPBandit` with fresh noise in every block, which simulates secure aggregation; see the module.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: See `central.GPBandit`.
        noises: Number of independent noises, each of which alone gives the guarantee; from 1 to 16.
        tuning: See `GPTuning`. Its `release` must be "features" (the default) or "cells", and `factor` None.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`. The noise must be simulated.

    Raises:
        InvalidParameter: The noise is not simulated, or `tuning` has another release or a factor.

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
            raise InvalidParameter(f"noises is {noises}, expected at most {MOST_NOISES}")
        given = options.get("noise")
        source = SimulatedNoise(options.get("seed", 0)) if given is None else given
        if not isinstance(source, SimulatedNoise):
            raise InvalidParameter("noise: this is a simulation, pass SimulatedNoise(seed)")
        rounds = _checks.integer(horizon, name="horizon")
        if rounds > LONGEST_HORIZON:
            raise InvalidParameter(f"horizon is {rounds}, expected at most {LONGEST_HORIZON}: sums are int64")
        own = tuned(tuning, GPTuning)
        if own.release not in (None, "features", "cells"):
            raise InvalidParameter("tuning: expected release='features' or 'cells'")
        first = max(1, round(FIRST_SHARE * rounds))
        blocks = growing_blocks(rounds, first=first, growth=GROWTH) if own.blocks is None else own.blocks
        fresh = identity(len(blocks))
        if own.factor is not None and own.factor.to_config() != fresh.to_config():
            raise InvalidParameter("tuning: every block has its own noise, leave factor out")
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
        """Guarantee of (epsilon, delta)-joint DP, with status `simulated`."""
        found = super().guarantee
        said = "One noise is" if self.noises == 1 else f"{self.noises} independent noises are"
        return replace(found, notes=(*found.notes, NOTE.format(noises=said)))
