r"""PhasedExploreThenCommit: decide for everyone from the start, learning in a few growing phases.

Time is cut into phases, fixed in advance. In each, a public coin says for every round whether it explores (an
action from the public law) or acts (the best action by all releases so far). At a phase's end the function
that its exploring rounds show is released with noise; releases of all phases are combined coefficient by
coefficient, which is post-processing. The first phase explores always, later ones at a public rate.

Privacy: (epsilon, delta)-joint DP. A round enters the statistic of one phase only, so a user of one round is
in one release: phases compose in parallel. A user of k rounds may spread them; every release is calibrated to
k rounds, and since squares add up (sum r_j^2 <= k^2 where sum r_j <= k), all releases together cost no more
than k rounds in one of them. A round belongs to the phase of its ask, whatever becomes of its reward.

Not in Pavlovic2025, which explores for all T rounds and answers afterwards: this bounds cumulative regret.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import BoolArray, IntArray, Seed
from dpbandits.central.explore_then_commit.calibration import plan_release
from dpbandits.central.explore_then_commit.configuration import (
    arguments_of,
    check_cells,
    one_row,
    reference_of,
)
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.estimator import CoefficientPosterior
from dpbandits.central.explore_then_commit.publish import FunctionRelease
from dpbandits.central.explore_then_commit.schedule import PhaseCosts, scheduled
from dpbandits.central.explore_then_commit.sums import MOST_ROUNDS, CellSums, integer_caps
from dpbandits.central.published_function import PublishedFunction
from dpbandits.central.statement import explore_guarantee
from dpbandits.domains import RewardRange
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models.features.eigen import DEFAULT_TOLERANCE, EigenFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy import definitions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.state import State, StateKey
from dpbandits.state.holder import Held, Holder, in_turn, saved_state
from dpbandits.state.ledger import Ledger

__all__ = ["PhasedExploreThenCommit"]

_PROBE = 2.0**38
_STATE_VERSION = 2


class PhasedExploreThenCommit(Held):
    """Kernel bandit on public actions and contexts that releases once a phase.

    Args:
        kernel, actions, contexts, reward_range, reference, clip, tolerance, seed, noise: see
            `ExploreThenCommit`.
        horizon: rounds in all.
        privacy: epsilon, delta above 0, `rounds_per_user`.
        phases: increasing ends of phases; by default growing ones, see
            `dpbandits.central.explore_then_commit.schedule`.
        exploration: rate of every phase; by default 1, then what is expected to pay off.
        user_ids: whether asks name their user.
        ledger, account: charged once, before the first answer.

    Raises:
        InvalidParameter: arguments that do not fit together.

    Example:
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> policy = PhasedExploreThenCommit(
        ...     kernel=SquaredExponential(lengthscale=0.3), actions=CellMeasure.finite([0.0, 0.5, 1.0]),
        ...     contexts=CellMeasure.uniform(low=0, high=1, cells=16), reward_range=(0, 1), horizon=5000,
        ...     privacy=JointDP(epsilon=1.0, delta=1e-6))
        >>> decision = policy.ask([0.3], user="u-17")
        >>> policy.tell(decision.id, 0.7).value
        'counted'
    """

    kind = "central.PhasedUSCA"

    def __init__(
        self,
        *,
        kernel: Kernel,
        actions: CellMeasure,
        contexts: ContextLaw | CellMeasure,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        phases: Sequence[int] | None = None,
        exploration: Sequence[float] | None = None,
        reference: float | None = None,
        user_ids: bool = True,
        clip: bool = False,
        tolerance: float = DEFAULT_TOLERANCE,
        seed: Seed = 0,
        noise: NoiseSource | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> None:
        self.horizon = _checks.integer(horizon, name="horizon")
        self.contexts = ContextLaw.of(contexts)
        check_cells(actions, self.contexts.measure)
        if self.contexts.epsilon > 0.0:
            raise InvalidParameter(
                "contexts: a private histogram spends on people before they come; use a public law"
            )
        if self.horizon > MOST_ROUNDS or not privacy.delta > 0.0:
            raise InvalidParameter(f"expected horizon <= {MOST_ROUNDS} and delta > 0")
        self.kernel, self.actions, self.privacy, self.seed = kernel, actions, privacy, seed
        self.tolerance, self.user_ids, self.clip = tolerance, user_ids, clip
        definitions.warn_if_delta_large(privacy.delta, -(-self.horizon // privacy.rounds_per_user))
        self.reward_range = RewardRange.of(reward_range)
        self.reference, self._bound = reference_of(reference, self.reward_range)
        self._noise = SecureNoise(certificate="near_gaussian") if noise is None else noise
        self._coins = PublicCoins(seed)
        self.features = EigenFeatures(
            kernel=kernel, measures=(actions, self.contexts.measure), tolerance=tolerance
        )
        self.phases, self.exploration = scheduled(self._costs(), self.horizon, phases, exploration)
        self._releases = self._calibrated()
        self._released = np.zeros((0, self.features.n_features), dtype=np.int64)
        self._posterior = CoefficientPosterior.prior(self.features.eigenvalues)
        self._holder = Holder(self._state, ledger=ledger, account=account)
        self._book = self._new_book()
        self._policy: PublishedFunction | None = None
        self._charged = self._pending_commit = False

    def _multiplier(self, draws: int) -> float:
        """Noise per sensitivity where all releases together take so many draws."""
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        return self._noise.gaussian_scale(_PROBE, epsilon, delta, draws=draws)[0] / _PROBE

    def _costs(self) -> PhaseCosts:
        return PhaseCosts(
            self.features,
            n_actions=self.actions.size,
            noise_multiplier=self._multiplier(self.features.n_features),
            rounds_per_user=self.privacy.rounds_per_user,
        )

    def _calibrated(self) -> list[FunctionRelease]:
        """Every phase, calibrated to its own number of exploring rounds, which public coins fix."""
        draws = self.features.n_features * len(self.phases)
        multiplier, releases = self._multiplier(draws), []
        for start, stop in pairwise((0, *self.phases)):
            plan = plan_release(
                self.features,
                n_actions=self.actions.size,
                rounds=max(1, int(self._explores(start, stop).sum())),
                noise_multiplier=multiplier,
                rounds_per_user=self.privacy.rounds_per_user,
            )
            promise = (self.privacy.epsilon, self.privacy.delta, self.privacy.rounds_per_user)
            releases.append(FunctionRelease(plan, self._noise, *promise, draws))
        return releases

    def _new_book(self) -> RoundBook:
        return RoundBook(
            dim=3,  # action cell, context cell, whether the round explored
            horizon=self.horizon,
            rounds_per_user=self.privacy.rounds_per_user,
            user_ids=self.user_ids,
            lineage=self._holder.lineage,
        )

    def __repr__(self) -> str:
        return f"PhasedExploreThenCommit(lineage={self._holder.lineage[:8]!r}, asked={self._book.asked})"

    # -- what is promised ---------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-joint DP; the same before, during and after the run."""
        largest = max(self._releases, key=lambda release: release.sensitivity)
        found = explore_guarantee(
            self.privacy,
            contexts=self.contexts,
            status=self._noise.status,
            unit_ids=self.user_ids,
            witnessed=self._holder.witnessed,
            charged=self._holder.charged,
            answers=None,
            release=replace(largest.record(), releases=len(self.phases)),
            release_epsilon=self.privacy.epsilon,
            phased=True,
        )
        note = "Every phase has a release of its own, as noisy for its sensitivity as the one shown."
        return replace(found, notes=(*found.notes, note))

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """Round indices at which releases are made: ask in batches between them."""
        return self.phases

    @property
    def released(self) -> int:
        """How many phases have been released."""
        return len(self._released)

    # -- asking and telling -------------------------------------------------------------------------

    @in_turn
    def ask(self, context: ArrayLike, *, user: object | None = None) -> Decision:
        """Choose an action for one context (d,)."""
        return self.ask_batch(one_row(context), users=None if user is None else [user])[0]

    @in_turn
    def ask_batch(self, contexts: ArrayLike, *, users: Sequence[object] | None = None) -> DecisionBatch:
        """Choose actions for contexts (B, d), all by what is released now.

        `propensities` are those of the public law where the action was drawn from it (rounds that explore,
        and all before the first release), and 1 where it is the best by the releases.
        """
        cells = self.contexts.measure.locate(contexts, name="contexts")
        digests = self._book.check_open(len(cells), users)
        if not self._charged:
            self._holder.charge("run", epsilon=self.privacy.epsilon, delta=self.privacy.delta)
            self._charged = True
        self._prepare()
        start = self._book.asked
        explores = self._explores(start, start + len(cells))
        drawn = self.actions.cells_at(
            self._coins.uniform("phased/action", start, start + len(cells), 1)[:, 0]
        )
        chosen, propensities = drawn, self.actions.weights[drawn]
        if self._policy is not None:
            chosen = np.where(explores, drawn, self._policy.choose(self.contexts.measure.points[cells]))
            propensities = np.where(explores, propensities, 1.0)
        rows = np.column_stack([chosen, cells, explores]).astype(np.float64)
        ids = self._book.open(digests, rows)
        return DecisionBatch(ids, chosen.astype(np.int64), self.actions.points[chosen], propensities)

    @in_turn
    def tell(self, decision_id: str, reward: float) -> Receipt:
        """Give a decision its reward."""
        return self.tell_batch([decision_id], np.array([reward]))[0]

    @in_turn
    def tell_batch(self, decision_ids: Sequence[str], rewards: ArrayLike) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions; all are checked before any is taken."""
        rounds = self._book.rounds_of(decision_ids)
        values = self.reward_range.validate(rewards, clip=self.clip)
        if values.shape != rounds.shape:
            raise InvalidData(
                f"rewards: expected shape {rounds.shape}, one a decision id, got {values.shape}"
            )
        counted = self._book.settle(rounds, values)
        return tuple(Receipt.COUNTED if flag else Receipt.LATE for flag in counted)

    @in_turn
    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward: it contributes nothing."""
        self._book.abandon(decision_id)

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told."""
        return self._book.pending

    @property
    def public_policy(self) -> PublishedFunction | None:
        """What is released by now, for anyone; None before the first release."""
        return self._policy

    def _explores(self, start: int, stop: int) -> BoolArray:
        """Which rounds explore; after the last phase, none."""
        rates = np.array([*self.exploration, 0.0])
        phase = np.searchsorted(self.phases, np.arange(start, stop), side="right")
        coins = self._coins.uniform("phased/explore", start, stop, 1)[:, 0]
        return np.asarray(coins < rates[phase])

    # -- releasing ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Release every phase that has ended; each is durable before it is used."""
        if self._pending_commit:
            self._make_durable()
        while self.released < len(self.phases) and self._book.asked >= self.phases[self.released]:
            self._release_phase(self.released)
            self._make_durable()

    def _make_durable(self) -> None:
        self._holder.commit()
        self._pending_commit = False
        self._policy = self._fit()

    def _release_phase(self, phase: int) -> None:
        """Where raw data meets noise: the phase's explored and told rounds, summed in integers, released."""
        start, stop = (0, *self.phases)[phase], self.phases[phase]
        rows, rewards = self._book.told(start, stop)
        explored = rows[:, 2] > 0.0
        cells: IntArray = (rows[:, 0] * self.contexts.measure.size + rows[:, 1]).astype(np.int64)
        mechanism = self._releases[phase]
        sums = CellSums(integer_caps(mechanism.plan.caps)[None]).with_rows(
            cells[explored], (rewards[explored] - self.reference) / self._bound
        )
        noisy = mechanism.release(sums.sums[0])
        posterior, released = mechanism.update(self._posterior, noisy), np.vstack([self._released, noisy])
        # In this order: whatever interrupts it, a phase that is in the posterior is never drawn again, and
        # what was drawn is used after a commit only.
        self._pending_commit = True
        self._released = released
        self._posterior = posterior
        self._book.close(stop)

    def _fit(self) -> PublishedFunction | None:
        if not self.released:
            return None
        mean, sd = self._posterior.tables(self.features, self.actions.size)
        return PublishedFunction(
            actions=self.actions,
            contexts=self.contexts.measure,
            mean=self.reference + self._bound * mean,
            sd=self._bound * sd,
            guarantee=self.guarantee,
        )

    def diagnostics(self) -> dict[str, Any]:
        """Public numbers and released quantities."""
        return {
            "policy": self.kind,
            "rounds_asked": self._book.asked,
            "phases": list(self.phases),
            "exploration": list(self.exploration),
            "phases_released": self.released,
        }

    # -- configuration and state ----------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew."""
        return {
            "policy": self.kind,
            "kernel": self.kernel.to_config(),
            "actions": self.actions.to_config(),
            "contexts": self.contexts.to_config(),
            "reward_range": self.reward_range.to_config(),
            "horizon": self.horizon,
            "privacy": self.privacy.to_config(),
            "phases": list(self.phases),
            "exploration": list(self.exploration),
            "reference": self.reference,
            "user_ids": self.user_ids,
            "clip": self.clip,
            "tolerance": self.tolerance,
            "seed": self.seed,
            "noise": self._noise.to_config(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], **runtime: Any) -> "PhasedExploreThenCommit":
        """Build what `to_config` described; `runtime` passes noise=, ledger=, account=."""
        return cls(**{**arguments_of(config, cls), **runtime})

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the whole state, mode 0600, and keep it current at every release from now on."""
        self._holder.save(path, key=key)

    def _state(self, lineage: str, position: int) -> State:
        noise, features = self._noise, self.features
        arrays = {
            **self._book.state_arrays(),
            "released": self._released,
            # releases are coefficients in this basis, and another process may find another one
            "eigenvalues": features.eigenvalues,
            "psi": features.psi,
            "posterior": np.stack([self._posterior.mean, self._posterior.variance]),
            "noise_position": np.array(noise.position if isinstance(noise, SimulatedNoise) else 0),
        }
        return State(
            kind=self.kind,
            version=_STATE_VERSION,
            lineage=lineage,
            position=position,
            public={"config": self.to_config()},
            arrays={name: array.copy() for name, array in arrays.items()},
        )

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None = None,
        account: str | None = None,
        key: StateKey | None = None,
    ) -> "PhasedExploreThenCommit":
        """Take up a saved state where it stood; raises as `ExploreThenCommit.load` does."""
        saved = saved_state(path, kind=cls.kind, version=_STATE_VERSION, ledger=ledger, key=key)
        state = saved.state
        arrays = state.arrays
        try:
            policy = cls.from_config(state.public["config"])
            if isinstance(policy._noise, SimulatedNoise):
                policy._noise = policy._noise.at(int(arrays["noise_position"]))
            released, posterior = arrays["released"], arrays["posterior"]
            policy.features = policy.features.in_basis(arrays["eigenvalues"], arrays["psi"])
            policy._releases = policy._calibrated()
        except (KeyError, TypeError, ValueError, InvalidParameter) as error:
            raise CorruptState("the saved configuration cannot be read") from error
        features = policy.features.n_features
        drawn = released.ndim == 2 and released.dtype == np.int64 and len(released) <= len(policy.phases)
        if not drawn or released.shape[1] != features or posterior.shape != (2, features):
            raise CorruptState("the saved releases contradict the saved configuration")
        policy._holder.take_up(saved, account=account)
        policy._book = policy._new_book()
        policy._book.restore(arrays)
        policy._released = released
        policy._posterior = CoefficientPosterior(*posterior)
        policy._policy = policy._fit()
        return policy
