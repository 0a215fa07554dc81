"""Gymnasium environments as simulated worlds (`GymWorld`).

A bandit is an environment whose episodes end with their first step. The observation is the context, and the
action is the arm. Use these worlds for evaluation only: observations, rewards and `info` are raw data, and
wrappers that record an environment (`RecordVideo`, `RecordEpisodeStatistics`) store them.
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

    Round t is the episode that starts with `reset(seed=s)`, where s is drawn from (seed, t). Everything in an
    episode must follow from that seed and the action, as Gymnasium requires. Each round resets the
    environment twice, once for its context and once for its reward, by calls in Python.

    Args:
        env: Environment with bounded `Box` or `Discrete` observations and `Discrete` actions.
        reward_range: Public (low, high).
        horizon: Number of rounds.
        seed: Public seed from which the seed of every episode is drawn.
        arms: Labels of the actions; by default the numbers from 0.

    Attributes:
        contexts: Schema of an observation: ranges x0, x1, ..., or one column x0 of categories.
        arms: Labels of the arms.

    Raises:
        MissingExtra: gymnasium is not installed.
        InvalidParameter: a space is of another kind, or has no bounds.

    Privacy: none. A world reveals rewards and contexts that a policy may not see.
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
            raise InvalidParameter("env: expected a Discrete action space, whose actions are the arms")
        if isinstance(seen, spaces.Discrete):
            values = list(range(int(seen.start), int(seen.start + seen.n)))
            self.contexts = Schema(x0=Categories(values))
        elif isinstance(seen, spaces.Box) and np.isfinite([seen.low, seen.high]).all():
            bounds = zip(seen.low.ravel().tolist(), seen.high.ravel().tolist(), strict=True)
            columns = {f"x{number}": Range(low, high, clip=True) for number, (low, high) in enumerate(bounds)}
            self.contexts = Schema(**columns)
        else:
            raise InvalidParameter("env: expected a Discrete observation space, or a Box with bounds")
        self._env, self._first = env, int(done.start)
        self.arms = tuple(range(int(done.n)) if arms is None else arms)
        self._menu = Menu(contexts=self.contexts, arms=self.arms)
        if self._menu.n_arms != int(done.n):
            raise InvalidParameter(f"arms: expected {int(done.n)} labels, one for each action")
        self.name = "environment" if env.spec is None else str(env.spec.id)
        self.reward_range = RewardRange.of(reward_range)
        self.seed = _checks.integer(seed, name="seed", minimum=0)
        self.horizon = _checks.integer(horizon, name="horizon")

    @property
    def domain(self) -> Domain:
        """Domain of an encoded observation with an arm code."""
        return self._menu.domain

    @property
    def n_candidates(self) -> int:
        """Number of arms."""
        return self._menu.n_arms

    def _reset(self, t: int) -> Any:
        drawn = np.random.SeedSequence([self.seed, t]).generate_state(1)[0]
        return self._env.reset(seed=int(drawn) >> 1)[0]

    def _rounds(self, start: int, stop: int) -> range:
        if not 0 <= start <= stop <= self.horizon:
            raise InvalidParameter(f"expected rounds from 0 to {self.horizon}")
        return range(start, stop)

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Return (B, K, d + 1): the observation of each round joined with every arm."""
        seen = [np.ravel(self._reset(t)) for t in self._rounds(start, stop)]
        if not seen:
            return np.zeros((0, self.n_candidates, self.domain.dim))
        return self._menu.sets(self._menu.encode(np.array(seen)))

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """Return (B,) rewards of the first step of each episode.

        Raises:
            InvalidData: an episode has a second step, or its reward lies outside the range.
        """
        rounds, chosen, paid = self._rounds(start, stop), np.asarray(indices), np.empty(stop - start)
        if chosen.shape != (len(rounds),) or chosen.dtype.kind not in "iu":
            raise InvalidData(f"indices: expected {len(rounds)} integers")
        for t, action in zip(rounds, chosen.tolist(), strict=True):
            self._reset(t)
            _, paid[t - start], terminated, truncated, _ = self._env.step(self._first + action)
            if not (terminated or truncated):
                raise InvalidData(
                    "env: an episode continued after its first step, and its reward may come later: expected "
                    "a bandit, or wrap the environment so that one step is a whole episode"
                )
        return self.reward_range.validate(paid, clip=False)

    def mean_rewards(self, start: int, stop: int) -> None:
        """Return None: mean rewards are not known."""
