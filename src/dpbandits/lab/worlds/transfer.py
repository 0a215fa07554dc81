"""`SourceWorld`: source data for transfer, with a world's mean rewards, other contexts and logged arms.

**Contexts.** The density is proportional to |x - centre|^gamma in the maximum norm on [0, 1]^dim. It is zero
at the centre (1/2, ..., 1/2) for gamma > 0, and uniform for gamma = 0. Ma2025's synthetic study states this
density. With a uniform number U, the authors' public sampler scales a point's radius to
U^(1/(dim (gamma + 1))), but that density needs U^(1/(dim + gamma)). It therefore samples the exponent
dim gamma: their gamma is our gamma dim.

**Arms.** With exploration kappa in [0, 1] and K arms, every arm has at least the probability kappa/K. At
kappa = 0 some arm may never be chosen.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import PeopleWorld, World

__all__ = ["BEHAVIOURS", "Behaviour", "SourceWorld", "gamma_contexts"]

Behaviour = Literal["even", "avoid-best", "prefer-best"]

BEHAVIOURS = ("even", "avoid-best", "prefer-best")
"""Names of the behaviour policies of `SourceWorld`."""


def gamma_contexts(n: int, *, dim: int, gamma: float, rng: np.random.Generator) -> FloatArray:
    """Sample contexts (n, dim) with density (1 + gamma/dim) 2^gamma |x - 1/2|_max^gamma.

    The direction from the centre is that of a uniform point. The radius 2 |x - 1/2|_max is U^(1/(dim +
    gamma)) for a uniform number U.
    """
    _checks.number(gamma, name="gamma", exclusive=False)
    offset = rng.random((n, dim)) - 0.5
    radius = rng.random(n) ** (1.0 / (dim + gamma))
    reach = 2.0 * np.abs(offset).max(axis=1)
    stretch = radius / np.where(reach > 0.0, reach, 1.0)
    return np.asarray(0.5 + offset * stretch[:, None])


@dataclass(frozen=True, kw_only=True)
class SourceWorld:
    """World of the source data of a transfer problem.

    Attributes:
        world: World of the target, which has the same mean rewards.
        gamma: Exponent of the source's density of contexts; see the module. None uses the contexts of
            `world`. A table allows only None.
        kappa: Smallest probability of an arm, times the number of arms K.
        behaviour: Behaviour policy; see below.
        shifted: Give every arm the mean reward of the arm before it. This violates the assumption of equal
            mean rewards, to measure the effect.

    The behaviour policies are:

    - `even`: probabilities in even steps from kappa/K (first arm) to (2 - kappa)/K for every context, as in
      the authors' public code.
    - `avoid-best`: kappa/K for the best arm; the others share the rest.
    - `prefer-best`: kappa/K for each other arm; the best arm has the rest.
    """

    world: World | PeopleWorld
    gamma: float | None = 0.0
    kappa: float = 1.0
    behaviour: Behaviour = "even"
    shifted: bool = False

    def __post_init__(self) -> None:
        _checks.one_of(self.behaviour, BEHAVIOURS, name="behaviour")
        if _checks.number(self.kappa, name="kappa", exclusive=False) > 1.0:
            raise InvalidParameter("kappa: expected a number in [0, 1]")
        if self.gamma is not None:
            if isinstance(self.world, PeopleWorld):
                raise InvalidParameter("gamma: expected None for a table, whose contexts are given")
            _checks.number(self.gamma, name="gamma", exclusive=False)

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return self.world.dim

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.world.n_arms

    def propensities(self) -> FloatArray | None:
        """Return the probabilities of the K arms (K,), or None if they depend on the context."""
        k = self.n_arms
        if self.behaviour == "even":
            return np.asarray(np.linspace(self.kappa / k, (2.0 - self.kappa) / k, k))
        return None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Sample the contexts (n, dim), mean rewards (n, K) and arms (n,) of n source users."""
        if self.gamma is None or isinstance(self.world, PeopleWorld):
            contexts, means = self.world.draw(n, rng)
        else:
            contexts = gamma_contexts(n, dim=self.dim, gamma=self.gamma, rng=rng)
            means = self.world.mean_rewards(contexts)
        if self.shifted:
            means = np.roll(means, 1, axis=1)
        return contexts, means, drawn_arms(self._chances(means), rng)

    def _chances(self, means: FloatArray) -> FloatArray:
        even = self.propensities()
        if even is not None:
            return np.broadcast_to(even, means.shape)
        k, least = self.n_arms, self.kappa / self.n_arms
        best = np.arange(k) == means.argmax(axis=1)[:, None]
        if self.behaviour == "prefer-best":
            return np.where(best, 1.0 - (k - 1) * least, least)
        return np.where(best, least, (1.0 - least) / max(1, k - 1)) if k > 1 else np.ones_like(means)


def drawn_arms(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """Sample one arm for each of n rows of probabilities (n, K); return the arms (n,)."""
    luck = rng.random((len(chances), 1))
    return np.asarray((chances.cumsum(axis=1) < luck).sum(axis=1).clip(max=chances.shape[1] - 1))
