r"""PhasedExploreThenCommit: decide for everyone from the start, learning in a few growing phases.

Time is cut into phases, fixed in advance. In each, a public coin says for every round whether it explores (an
action from the public law) or acts (the best action by all releases so far). At a phase's end the function
that its exploring rounds show is released with noise; releases of all phases are combined coefficient by
coefficient, which is post-processing. The first phase explores always, later ones at a public rate.

Privacy: (epsilon, delta)-joint DP. A round enters the statistic of one phase only, so a user of one round is
in one release: phases compose in parallel. A user of k rounds may spread them; every release is calibrated to
k rounds, with the same multiple of its sensitivity, and since squares add up (sum r_j^2 <= k^2 where
sum r_j <= k), all releases together cost no more than k rounds in one of them. The proof, which counts the
distance to Gaussian noise as well, is in `calibration.phased_releases`. A round belongs to the phase of its
ask, whatever becomes of its reward.

Not in Pavlovic2025, which explores for all T rounds and answers afterwards: this bounds cumulative regret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, ClassVar, Unpack

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Configured
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.explore_then_commit.calibration import noise_multiplier, phased_releases
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.estimator import CoefficientPosterior
from dpbandits.central.explore_then_commit.people import cells_of, law_or_schema, people_config
from dpbandits.central.explore_then_commit.publish import FunctionRelease
from dpbandits.central.explore_then_commit.rows import check_cells, one_row, reference_of
from dpbandits.central.explore_then_commit.schedule import scheduled
from dpbandits.central.explore_then_commit.sums import MOST_ROUNDS, RewardSums, integer_caps
from dpbandits.central.published_function import PublishedCells
from dpbandits.central.statement import Setting, explore_guarantee, on_a_public_clock
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models.features.eigen import DEFAULT_TOLERANCE, EigenFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import Decision, DecisionBatch, PolicyOptions, RoundPolicy
from dpbandits.policy.deadlines import Deadlines, check_delay, delay_from_config
from dpbandits.policy.decision import Answers, one_decision
from dpbandits.policy.rounds import round_taken
from dpbandits.privacy.definitions import JointDP, warn_if_delta_large
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release
from dpbandits.state.holder import in_turn
from dpbandits.tables import Schema

__all__ = ["PhasedExploreThenCommit", "PhasedTuning"]


@worded
@dataclass(frozen=True, kw_only=True)
class PhasedTuning(Configured):
    """What of a `PhasedExploreThenCommit` most people leave as it is; all of it is public.

    Args:
        phases: increasing ends of phases; by default growing ones, see
            `dpbandits.central.explore_then_commit.schedule`.
        exploration: rate of every phase; by default 1, then what is expected to pay off.
        reporting_delay: rounds, or a time, that a phase's release waits for its last rewards; see
            `dpbandits.policy.deadlines`.
        reference, tolerance: see `ExploreTuning`.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {"reporting_delay": delay_from_config}

    phases: Sequence[int] | None = None
    exploration: Sequence[float] | None = None
    reporting_delay: int | timedelta = 0
    reference: float | None = None
    tolerance: float = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        _checks.number(self.tolerance, name="tolerance")
        check_delay(self.reporting_delay)


class PhasedExploreThenCommit(RoundPolicy):
    """Kernel bandit on public actions and contexts that releases once a phase.

    Args:
        contexts, arms, actions, kernel, reward_range: see `ExploreThenCommit`.
        horizon: rounds in all.
        privacy: epsilon, delta above 0, `rounds_per_user`.
        tuning: see `PhasedTuning`.
        **options: see `PolicyOptions`; the account is charged once, before the first answer.

    Raises:
        InvalidParameter: arguments that do not fit together.

    Example:
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> policy = PhasedExploreThenCommit(
        ...     kernel=SquaredExponential(lengthscale=0.3),
        ...     contexts=CellMeasure.uniform(low=0, high=1, cells=16),
        ...     actions=CellMeasure.finite([0.0, 0.5, 1.0]), reward_range=(0, 1), horizon=5000,
        ...     privacy=JointDP(epsilon=1.0, delta=1e-6))
        >>> decision = policy.ask([0.3], user="u-17")
        >>> policy.tell(decision.id, 0.7).value
        'counted'
    """

    kind = "central.PhasedExploreThenCommit"
    noise: NoiseSource
    privacy: JointDP
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **RoundPolicy.config_parsers,
        "contexts": law_or_schema,
        "actions": CellMeasure.from_config,
        "tuning": PhasedTuning.from_config,
    }
    _charged_as = "run"

    def __init__(
        self,
        *,
        contexts: Schema | ContextLaw | CellMeasure,
        arms: Sequence[Label] | None = None,
        actions: CellMeasure | None = None,
        kernel: Kernel | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        tuning: PhasedTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        self.menu, law, cells, kernel = cells_of(contexts, arms=arms, actions=actions, kernel=kernel)
        check_kinds(privacy=privacy, noise=options.get("noise"))
        rounds = _checks.integer(horizon, name="horizon")
        self.contexts = law
        check_cells(cells, law.measure)
        if self.contexts.epsilon > 0.0:
            raise InvalidParameter(
                "contexts: a private histogram spends on people before they come; use a public law"
            )
        if rounds > MOST_ROUNDS or not privacy.delta > 0.0:
            raise InvalidParameter(f"expected horizon <= {MOST_ROUNDS} and delta > 0")
        super().__init__(
            dim=3,  # action cell, context cell, share of the law that was explored: 0 where none was
            reward_range=reward_range,
            horizon=rounds,
            privacy=privacy,
            **options,
        )
        self.kernel, self.actions = kernel, cells
        warn_if_delta_large(privacy.delta, -(-rounds // privacy.rounds_per_user))
        tuning = tuned(tuning, PhasedTuning)
        self._reference, self._bound = reference_of(tuning.reference, self.reward_range)
        self.features = EigenFeatures(
            kernel=kernel, measures=(cells, law.measure), tolerance=tuning.tolerance
        )
        self.phases, self.exploration = scheduled(
            self.features,
            rounds,
            tuning.phases,
            tuning.exploration,
            noise_multiplier=noise_multiplier(
                self.noise, privacy.epsilon, privacy.delta, self.features.n_features
            ),
            rounds_per_user=privacy.rounds_per_user,
        )
        self.tuning = replace(
            tuning, phases=self.phases, exploration=self.exploration, reference=self._reference
        )
        self._deadlines = Deadlines(self.phases, tuning.reporting_delay)
        self._releases = self._calibrated()
        self._released = np.zeros((0, self.features.n_features), dtype=np.int64)
        self._posterior = CoefficientPosterior.prior(self.features.eigenvalues)
        self._published: PublishedCells | None = None

    def _calibrated(self) -> list[FunctionRelease]:
        """Every phase, calibrated to its own number of exploring rounds, which public coins fix."""
        explored = [max(1, int(self._explores(*phase).sum())) for phase in pairwise((0, *self.phases))]
        return phased_releases(self.features, self.privacy, explored, self.noise)

    # -- what is promised ---------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-joint DP; the same before, during and after the run."""
        largest = max(self._releases, key=lambda release: release.sensitivity)
        found = explore_guarantee(
            self.privacy,
            contexts=self.contexts,
            setting=Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids),
            records={"phases": largest.record(releases=len(self.phases))},
            publish_epsilon=self.privacy.epsilon,
            phased=True,
        )
        note = (
            "Every phase has a release of its own, as noisy for its sensitivity as the one shown; the "
            "certificate is of all of them together, however a user's rounds are spread."
        )
        found = on_a_public_clock(found) if self._deadlines.timed else found
        return replace(found, notes=(*found.notes, note))

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """Round indices at which releases are made: ask in batches between them."""
        return self._deadlines.boundaries

    @property
    def released(self) -> int:
        """How many phases have been released; one whose saving failed has not left and is not counted."""
        return (0, *self.phases).index(self._settled)

    @property
    def arms(self) -> tuple[Label, ...] | None:
        """Labels of the arms; None where there are actions."""
        return None if self.menu is None else self.menu.arms.labels

    # -- asking -------------------------------------------------------------------------------------

    @in_turn
    def ask(
        self, context: Any, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Choose an action for one context (d,), or an arm for one person, as `Menu.point` takes it.

        Args:
            context: the person's.
            user: whose round it is.
            available: labels of the arms that this person may be given, or (A,) True where an action may be
                chosen; default all. An arm that is seldom to be had is learned less, and its estimates stay
                closer to the reference: what explores counts by the share of the law that was to be had.
            at: as in `GPBandit.ask`.

        Raises:
            InvalidData: another shape, or no user; nothing was taken. Or the context is missing or off the
                public range, or nothing is available: the round is taken, and counts nothing.
            HorizonExceeded, ContributionExceeded: no rounds are left; nothing was taken.
        """
        mask = available
        if self.menu is None:
            row = one_row(context)
            if available is not None:
                mask = _checks.as_marks(available, (self.actions.size,), name="available")[None]
        else:
            row = self.menu.point(context)[None]
            mask = None if available is None else self.menu.offered(available)[None]
        decision = one_decision(self._decide(row, None if user is None else [user], mask, at))
        if decision.index < 0:  # refused
            with round_taken():
                if self.menu is not None:
                    self.menu.refuse(context, available)
                self.contexts.measure.locate(row, name="context")
                raise InvalidData("available: expected at least one action")
        return decision

    @in_turn
    def ask_batch(
        self,
        contexts: Any,
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        at: object = None,
    ) -> DecisionBatch:
        """Choose actions for contexts (B, d), or arms for B people, all by what is released now.

        `available` are booleans (B, A), True where an action may be chosen, or, of arms, B lists of labels;
        `at` is as in `GPBandit.ask`.

        `propensities` are those of the public law among what is available where the action was drawn from it
        (rounds that explore, and all before the first release), and 1 where it is the best by the releases.
        Where a context is missing or off the public range, or nothing is available, the decision is refused
        (`DecisionBatch.refused`): it takes its round, and counts nothing.
        """
        if self.menu is None:
            rows, mask = _checks.contents(contexts, name="contexts"), available
        else:
            rows = self.menu.points(contexts)
            mask = None if available is None else self.menu.all_offered(available, len(rows))
        return DecisionBatch(*self._decide(rows, users, mask, at, batch=True))

    def _decide(
        self,
        rows: FloatArray,
        users: Sequence[object] | None,
        available: Any,
        at: object,
        *,
        batch: bool = False,
    ) -> Answers:
        measure = self.contexts.measure
        cells = measure.find(measure.rows(rows, name="contexts"))
        refused = cells < 0
        cells = np.maximum(cells, 0)
        if available is not None:
            available = _checks.as_marks(available, (len(cells), self.actions.size), name="available")
            refused = refused | ~available.any(axis=1)
            available = available | refused[:, None]
        digests = self._admit(len(cells), users, at, batch=batch)
        start = self._book.asked
        explores = self._explores(start, start + len(cells))
        coins = self._coins.uniform("phased/action", start, start + len(cells), 1)[:, 0]
        drawn, share = self.actions.cells_at(coins), np.ones(len(cells))
        if available is not None:
            drawn, share = self.actions.cells_among(coins, available)
        chosen = drawn
        propensities = self.actions.weights[drawn] / np.where(share > 0.0, share, 1.0)
        if self._published is not None:
            chosen = np.where(explores, drawn, self._published.best_in(cells, available))
            propensities = np.where(explores, propensities, 1.0)
        return self._opened(
            digests,
            chosen.astype(np.int64),
            self.actions.points[chosen],
            propensities,
            refused,
            kept=np.column_stack([chosen, cells, explores * share]).astype(np.float64),
            labels=self.arms or (),
        )

    @property
    def published(self) -> PublishedCells | None:
        """What is released by now, for anyone; None before the first release."""
        return self._published

    def _explores(self, start: int, stop: int) -> BoolArray:
        """Which rounds explore; after the last phase, none."""
        rates = np.array([*self.exploration, 0.0])
        phase = np.searchsorted(self.phases, np.arange(start, stop), side="right")
        coins = self._coins.uniform("phased/explore", start, stop, 1)[:, 0]
        return np.asarray(coins < rates[phase])

    # -- releasing ----------------------------------------------------------------------------------

    @property
    def _rounds_out(self) -> int:
        return (0, *self.phases)[len(self._released)]

    def _is_due(self) -> bool:
        return len(self._released) < self._deadlines.due(self._book.asked)

    def _release(self) -> None:
        """Where raw data meets noise: the phase's explored and told rounds, summed in integers, released."""
        phase = len(self._released)
        start, stop = (0, *self.phases)[phase], self.phases[phase]
        rows, rewards, told, _ = self._book.block(start, stop)
        explored = told & (rows[:, 2] > 0.0)
        cells: IntArray = (rows[:, 0] * self.contexts.measure.size + rows[:, 1]).astype(np.int64)
        mechanism = self._releases[phase]
        sums = RewardSums(integer_caps(mechanism.plan.caps)[None]).with_rows(
            cells[explored], rows[explored, 2] * (rewards[explored] - self._reference) / self._bound
        )
        self._enter_release(self._uses()[phase], 0)
        noisy = mechanism.release(sums.sums[0])
        posterior, released = mechanism.update(self._posterior, noisy), np.vstack([self._released, noisy])
        # In this order: whatever interrupts it, a phase that is in the posterior is never drawn again.
        self._released = released
        self._posterior = posterior

    def _uses(self) -> tuple[Release, ...]:
        return tuple(
            Release(
                purpose=f"phase:{phase}",
                record=release.record(),
                noise=self.noise,
                drawn=int(phase < len(self._released)),
                charge=self._charged_as,
            )
            for phase, release in enumerate(self._releases)
        )

    def _fit(self) -> None:
        if len(self._released):
            self._published = self._function(self._posterior)

    @property
    def _known(self) -> PublishedCells:
        """By what is released and stored; before anything is, the prior."""
        return self._published or self._function(CoefficientPosterior.prior(self.features.eigenvalues))

    def _function(self, posterior: CoefficientPosterior) -> PublishedCells:
        mean, sd = posterior.tables(self.features, self.actions.size)
        return PublishedCells(
            actions=self.actions,
            contexts=self.contexts.measure,
            mean=self._reference + self._bound * mean,
            sd=self._bound * sd,
            guarantee=self.guarantee,
            menu=self.menu,
        )

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n, A) of the expected reward, from releases only."""
        return self._known.predict(contexts)

    def recommend(self, context: Any) -> Label:
        """The label of one person's best arm, from releases only."""
        return self._known.recommend(context)

    @in_turn
    def publish(self) -> PublishedCells:
        """What was learned so far: decides for anyone, anywhere, and costs nothing further.

        What is due is released first, as it is before the next ask.
        """
        self._prepare()
        return self._known

    def diagnostics(self) -> dict[str, Any]:
        """Public numbers and released quantities."""
        return {
            **super().diagnostics(),
            "phases": list(self.phases),
            "exploration": list(self.exploration),
            "phases_released": self.released,
        }

    # -- configuration and state ----------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this anew, as JSON."""
        return people_config(super().to_config(), self.menu)

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {
            "released": self._released,
            # releases are coefficients in this basis, and another process may find another one
            "eigenvalues": self.features.eigenvalues,
            "psi": self.features.psi,
            "posterior": np.stack([self._posterior.mean, self._posterior.variance]),
        }

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        released, posterior = arrays["released"], arrays["posterior"]
        self.features = self.features.in_basis(arrays["eigenvalues"], arrays["psi"])
        self._releases = self._calibrated()
        features = self.features.n_features
        drawn = released.ndim == 2 and released.dtype == np.int64 and len(released) <= len(self.phases)
        if not drawn or released.shape[1] != features or posterior.shape != (2, features):
            raise CorruptState("the saved releases contradict the saved configuration")
        self._released = released
        self._posterior = CoefficientPosterior(*posterior)
