r"""DP-IMED and DP-KLUCB for K arms without contexts, with pure epsilon.

Source: Azize, Wu, Honda, Orabona, Ito, Basu, *Optimal regret of Bernoulli bandits under global differential
privacy*, 2025. An arm is played in episodes. An episode of arm i has as many rounds as the arm has had
before, n_i; the first has one. At its end the arm's sum of rewards over the episode is released with fresh
noise, and added to the sums of its earlier episodes. Let m_i be the arm's noisy mean, clipped to [0, 1],
t the number of all rounds, and kl the divergence of Bernoulli distributions. The next arm has:

- "imed": the smallest n_i d(m_i, max_j m_j) + ln n_i;
- "kl-ucb": the largest of the numbers max {y : n_i d(m_i, y) <= ln t};
- in both, d(x, y) = min over z between x and y of epsilon |z - x| + kl(z, y).

d is the rate at which the probability of a noisy mean x decreases if the mean is y: kl accounts for the
rewards, epsilon for the noise. The minimum is at logit z = logit y - epsilon for x <= y, and + epsilon for
x >= y, or at z = x if that lies beyond x. Let rewards be Bernoulli, and let episodes multiply n_i by a
factor a. Then the source proves that regret over ln T tends to at most a times its lower bound, the
`sum_i gap_i/d(mean_i, best mean)`. Of the source only an abstract and a summary were available, which give
the indices, the noise and growing episodes. Doubling is from Azize and Basu, 2022. The proof below is ours.

A domain of numbers is divided by a public grid, whose cells are the arms. A round that was given another arm
(because the episode's was not available), or has no reward, counts as one with the middle of the reward
range.

Privacy: epsilon-joint DP. An episode's arm and planned end are computed from earlier releases and public
coins. It ends at the first ask after the planned end, and times of asks are public. So for fixed releases the
rounds of an episode are fixed. A round that was given the episode's arm and told a reward adds an integer in
[-2^20, 2^20] to the episode's one sum. Any other round adds nothing. So a replaced round changes this sum by
2^21 at most. On every path of releases, k rounds of a user change the sums of all episodes, taken together,
by k 2^21 in L1 at most. The noise is discrete Laplace, from `CellSums`, of rate at most epsilon/(k 2^21). The
proof in `dpbandits.privacy.cell_sums` needs only that blocks are fixed given earlier releases. It holds with
episodes as blocks of one cell. If every arm is available to everybody, the arm that a user is given is a
function of releases and public coins alone, and need not be kept secret.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np
from scipy.special import expit, logit, xlogy

from dpbandits import _checks, domains
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds
from dpbandits.central.statement import Setting, cell_release_guarantee
from dpbandits.central.tuning import LONGEST_HORIZON
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.lab.baselines.cell_histogram import PEOPLE_A_COUNT, PublicGrid
from dpbandits.policy import PolicyOptions, RoundPolicy, best_choice
from dpbandits.privacy.cell_sums import CENTRED, CellSums
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release

__all__ = ["ArmEpisodes", "private_divergence"]

_SURE = 1e-12
"""Smallest allowed distance of a mean from 0 and from 1; at 0 and 1 its logarithms would be infinite."""

_HALVINGS = 40
"""Number of bisection steps for the upper confidence bound, which gives an accuracy of 1e-12."""


def private_divergence(x: FloatArray, y: FloatArray, epsilon: float) -> FloatArray:
    """Return the rate d(x, y) of a noisy mean x in [0, 1] if the mean is y in (0, 1); see the module.

    Example:
        >>> x, y = np.array([0.2, 0.5]), np.array([0.5, 0.5])
        >>> private_divergence(x, y, 100.0).round(4).tolist()  # no noise: kl(.2, .5)
        [0.1927, 0.0]
        >>> private_divergence(x, y, 0.01).round(4).tolist()  # noise alone: epsilon times the distance
        [0.003, 0.0]
    """
    inner = expit(logit(y) + np.where(x <= y, -epsilon, epsilon))
    z = np.where(x <= y, np.maximum(x, inner), np.minimum(x, inner))
    divergence = xlogy(z, z / y) + xlogy(1.0 - z, (1.0 - z) / (1.0 - y))
    return np.asarray(epsilon * np.abs(z - x) + np.maximum(divergence, 0.0))


class ArmEpisodes(RoundPolicy):
    """DP-IMED or DP-KLUCB for arms without contexts, with growing episodes and pure epsilon.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: See `central.GPBandit`. Delta is not used.
            Contexts are checked and have no effect.
        index: Index of the arms, "imed" or "kl-ucb"; see the module.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

    Privacy: epsilon-joint DP, replace one user's contribution; proof in the module.

    References:
        Azize, Wu, Honda, Orabona, Ito, Basu: Optimal Regret of Bernoulli Bandits under Global Differential
        Privacy (2025).
    """

    kind = "baselines.ArmEpisodes"
    noise: NoiseSource
    privacy: JointDP

    def __init__(
        self,
        *,
        horizon: int,
        privacy: JointDP,
        index: Literal["imed", "kl-ucb"] = "imed",
        domain: domains.Domain | None = None,
        contexts: Any = None,
        arms: Any = None,
        reward_range: Any = (0.0, 1.0),
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_kinds(domain=domain, privacy=privacy, noise=options.get("noise"), optional=("domain", "noise"))
        if _checks.integer(horizon, name="horizon") > LONGEST_HORIZON:
            raise InvalidParameter(
                f"horizon is {horizon}, expected at most {LONGEST_HORIZON}: sums are int64"
            )
        super().__init__(
            domain=domain,
            contexts=contexts,
            arms=arms,
            reward_range=reward_range,
            horizon=horizon,
            privacy=privacy,
            **options,
        )
        _checks.one_of(index, ("imed", "kl-ucb"), name="index")
        self.index = index
        people = horizon * min(1.0, privacy.epsilon / privacy.rounds_per_user)
        self.grid = PublicGrid(
            domain=self.domain, most=1 if self.menu is not None else max(1, int(people / PEOPLE_A_COUNT))
        )
        # n rounds of an arm have at most 1 + log2 n episodes, and one more may be under way.
        self._most_episodes = min(horizon, (2 + horizon.bit_length()) * self.grid.n_cells)
        self._mechanism = CellSums(
            epsilon=privacy.epsilon, rounds_per_user=privacy.rounds_per_user, noise=self.noise
        )
        self._released = np.zeros((0, 3), dtype=np.int64)  # each episode's arm, end and noisy sum
        self._public = np.zeros(
            (2, self.grid.n_cells)
        )  # public data: numbers of rounds, sums of rewards - 1/2
        self._fit()

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of epsilon-joint DP, with delta 0."""
        setting = Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids)
        return cell_release_guarantee(
            self.privacy, self._record(), width=self.reward_range.width, setting=setting
        )

    def _record(self) -> MechanismRecord:
        record = self._mechanism.record(self._most_episodes)
        return replace(record, name="centred rewards of the arm that an episode plays")

    # -- releasing: where raw data meets noise --------------------------------------------------------

    @property
    def _rounds_out(self) -> int:
        return int(self._released[-1, 1]) if len(self._released) else 0

    def _is_due(self) -> bool:
        return self._book.asked >= self._planned_end

    def _uses(self) -> tuple[Release, ...]:
        drawn = len(self._released)
        return (Release(purpose="episode", record=self._record(), noise=self.noise, drawn=drawn, charge=""),)

    def _release(self) -> None:
        end = self._book.asked
        actions, rewards, told, _ = self._book.block(self._rounds_out, end)
        own = told & (self.grid.locate(actions) == self._arm)
        unit = self.reward_range.to_centred(rewards[own]) + 0.5
        sums = self._mechanism.encode(np.zeros(len(unit), dtype=np.int64), unit, n_cells=1)
        self._enter_release(self._uses()[0], len(self._released))
        noisy = self._mechanism.release(sums)
        self._released = np.vstack([self._released, [[self._arm, end, noisy[0]]]])

    # -- post-processing ------------------------------------------------------------------------------

    def _fit(self) -> None:
        arms, size = self._released[:, 0], self.grid.n_cells
        lengths = np.diff(self._released[:, 1], prepend=0)
        rounds = self._public[0] + np.bincount(arms, lengths, size)
        total = self._public[1] + CENTRED * np.bincount(arms, self._released[:, 2], size)
        self._rounds, self._draws = rounds, np.bincount(arms, minlength=size)
        self._mean = np.clip(0.5 + total / np.maximum(rounds, 1.0), 0.0, 1.0)
        start = self._rounds_out
        coin = self._coins.uniform("ties", start, start + 1, 1)[:, 0]
        self._arm = int(best_choice(self._indices()[None], coin, None)[0])
        self._planned_end = start + max(1, int(rounds[self._arm]))

    def _indices(self) -> FloatArray:
        """Return the indices of the K arms, shape (K,); infinite for an arm without rounds."""
        epsilon = self.privacy.epsilon / self.privacy.rounds_per_user  # privacy loss of one reward
        rounds, mean = np.maximum(self._rounds, 1.0), np.clip(self._mean, _SURE, 1.0 - _SURE)
        if self.index == "imed":
            best = np.full_like(mean, mean[self._rounds > 0].max(initial=_SURE))
            index = -(rounds * private_divergence(np.minimum(mean, best), best, epsilon) + np.log(rounds))
        else:
            level, low, high = np.log(rounds.sum()) / rounds, mean, np.full_like(mean, 1.0 - _SURE)
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                within = private_divergence(mean, middle, epsilon) <= level
                low, high = np.where(within, middle, low), np.where(within, high, middle)
            index = low
        return np.where(self._rounds > 0, index, np.inf)

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        where, centred = self.grid.locate(points), self.reward_range.to_centred(rewards)
        size = self.grid.n_cells
        self._public = self._public + np.stack([np.bincount(where, own, size) for own in (None, centred)])
        self._fit()

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        ties = self._coins.uniform("ties", start, start + len(candidates), 1)[:, 0]
        cells = self.grid.locate(candidates)
        return best_choice(np.where(cells == self._arm, 2.0, self._mean[cells]), ties, available), None

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        rounds = np.maximum(self._rounds, 1.0)
        deviation = np.sqrt(0.25 * rounds + self._draws * self._mechanism.noise_sd**2) / rounds
        cells = self.grid.locate(points)
        mean, spread = self._mean[cells], np.minimum(deviation, 0.5)[cells]
        return self.reward_range.from_centred(mean - 0.5), self.reward_range.width * spread

    # -- state ----------------------------------------------------------------------------------------

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {"released": self._released, "public": self._public}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        released, public = arrays["released"], arrays["public"]
        fits = released.dtype == np.int64 and released.ndim == 2 and released.shape[1] == 3
        if not fits or len(released) > self._most_episodes or public.shape != self._public.shape:
            raise CorruptState("the saved releases contradict the saved configuration")
        arms, ends = released[:, 0], np.concatenate([[0], released[:, 1]])
        known = bool(((arms >= 0) & (arms < self.grid.n_cells)).all())
        if not known or not (np.diff(ends) > 0).all() or ends[-1] > self._book.asked:
            raise CorruptState("the saved releases contradict the saved configuration")
        self._released, self._public = released, public
        self._mechanism = replace(self._mechanism, noise=self.noise)
