"""Gymnasium's environments as worlds (`GymWorld`).

A bandit is an environment whose episodes end with their first step: the observation is the context, the
action the arm. They are for the laboratory: observations, rewards and `info` are raw, and whoever records an
environment (`RecordVideo`, `RecordEpisodeStatistics`) keeps them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._lazy import needing
from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.menu import Menu

__all__ = ["GymWorld"]

_EXTRA = "dpbandits.adapters.gymnasium needs gymnasium: pip install gymnasium"


class GymWorld:
    """A one-step environment as a world for `lab.evaluation`.

    Round t is the episode that starts with `reset(seed=...)`, the seed being drawn from (seed, t). Everything
    an episode does must follow from that seed and the action, as Gymnasium asks of environments. An episode
    is a call of Python: a round costs what the environment costs, twice.

    Args:
        env: its observations are a bounded `Box` or a `Discrete`, its actions a `Discrete`.
        reward_range: public (low, high).
        horizon: rounds.
        seed: keys every episode.
        arms: labels of the actions; by default their numbers from 0.

    Attributes:
        contexts: the schema of an observation: columns x0, x1, ... or one of categories.
        arms: labels of the arms.

    Raises:
        MissingExtra: gymnasium is not installed.
        InvalidParameter: spaces of another kind, or without bounds.

    Privacy: none; a world shows what no policy may see.
    """

    def __init__(
        self,
        env: Any,
        *,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        seed: Seed = 0,
        arms: Sequence[Label] | None = None,
    ) -> None:
        with needing(_EXTRA):
            from gymnasium import spaces
        seen, done = env.observation_space, env.action_space
        if not isinstance(done, spaces.Discrete):
            raise InvalidParameter("env: expected actions of a Discrete space, one an arm")
        if isinstance(seen, spaces.Discrete):
            values = list(range(int(seen.start), int(seen.start + seen.n)))
            self.contexts = Schema(x0=Categories(values))
        elif isinstance(seen, spaces.Box) and np.isfinite([seen.low, seen.high]).all():
            bounds = zip(seen.low.ravel().tolist(), seen.high.ravel().tolist(), strict=True)
            columns = {f"x{number}": Range(low, high, clip=True) for number, (low, high) in enumerate(bounds)}
            self.contexts = Schema(**columns)
        else:
            raise InvalidParameter("env: expected observations of a Discrete space, or of a Box with bounds")
        self._env, self._first = env, int(done.start)
        self.arms = tuple(range(int(done.n)) if arms is None else arms)
        self._menu = Menu(contexts=self.contexts, arms=self.arms)
        if self._menu.n_arms != int(done.n):
            raise InvalidParameter(f"arms: expected {int(done.n)} labels, one an action")
        self.name = "environment" if env.spec is None else str(env.spec.id)
        self.reward_range = RewardRange.of(reward_range)
        self.seed = _checks.integer(seed, name="seed", minimum=0)
        self.horizon = _checks.integer(horizon, name="horizon")

    @property
    def domain(self) -> Domain:
        """Encoded observations beside arm codes."""
        return self._menu.domain

    @property
    def n_candidates(self) -> int:
        """Number of arms."""
        return self._menu.n_arms

    def _reset(self, t: int) -> Any:
        """The observation of round t."""
        drawn = np.random.SeedSequence([self.seed, t]).generate_state(1)[0]
        return self._env.reset(seed=int(drawn) >> 1)[0]

    def _rounds(self, start: int, stop: int) -> range:
        if not 0 <= start <= stop <= self.horizon:
            raise InvalidParameter(f"expected rounds from 0 to {self.horizon}")
        return range(start, stop)

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """(B, K, d + 1) the observation of each round beside every arm."""
        seen = [np.ravel(self._reset(t)) for t in self._rounds(start, stop)]
        if not seen:
            return np.zeros((0, self.n_candidates, self.domain.dim))
        return self._menu.sets(self._menu.encode(np.array(seen)))

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """(B,) what the first step of each episode pays.

        Raises:
            InvalidData: an episode has a second step, or pays off the range.
        """
        rounds, chosen, paid = self._rounds(start, stop), np.asarray(indices), np.empty(stop - start)
        if chosen.shape != (len(rounds),) or chosen.dtype.kind not in "iu":
            raise InvalidData(f"indices: expected {len(rounds)} integers")
        for t, action in zip(rounds, chosen.tolist(), strict=True):
            self._reset(t)
            _, paid[t - start], terminated, truncated, _ = self._env.step(self._first + action)
            if not (terminated or truncated):
                raise InvalidData(
                    "env: an episode went on after its first step, where its reward may come later: expected "
                    "a bandit, or wrap it so that one step is a whole episode"
                )
        return self.reward_range.validate(paid, clip=False)

    def mean_rewards(self, start: int, stop: int) -> None:
        """Not known."""
