r"""USCA: explore uniformly, then answer privately, or release the whole function once for everyone.

Implements uniform sampling with covariance approximation (Pavlovic2025, Algorithm 1) in its population
form. Departs from the paper, as printed in `dpbandits.central.published.pavlovic2025`, where

- the covariance of the approximating set is replaced by the one it approximates: diagonal in the kernel
  operator's eigenbasis, so a million rounds cost their cell sums;
- rewards have a public cap per cell, and the range that one user can move the scores by is computed
  exactly, instead of 2 B sup sigma-bar^2, which is 2 to 5 times more;
- answers are drawn by permute-and-flip instead of the exponential mechanism;
- the ridge follows a rule that is fixed before data;
- `release()` gives the whole function once, at (epsilon, delta), for any number of predictions.

Privacy: joint DP; the unit is one user's whole contribution of at most `rounds_per_user` rows. Raw data meets
noise in two places, `answer` and `FunctionRelease.release`.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.central.explore_then_commit.calibration import ExpectedError
from dpbandits.central.explore_then_commit.configuration import (
    arguments_of,
    check_cells,
    one_row,
    reference_of,
)
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.estimator import CoefficientPosterior
from dpbandits.central.explore_then_commit.rows import RowRules, Shard
from dpbandits.central.explore_then_commit.sums import MOST_ROUNDS
from dpbandits.central.explore_then_commit.uses import Answer, Budget, NothingToLearn, Uses
from dpbandits.central.published_function import PublishedFunction
from dpbandits.central.statement import explore_guarantee
from dpbandits.domains import RewardRange
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidParameter
from dpbandits.models.features.eigen import DEFAULT_TOLERANCE, EigenFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy import definitions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise, words_of
from dpbandits.privacy.selection import permute_and_flip
from dpbandits.state import State, StateKey
from dpbandits.state.holder import Held, Holder, in_turn, saved_state
from dpbandits.state.ledger import Ledger

__all__ = ["Answer", "ExploreThenCommit", "NothingToLearn"]

_ANSWER_STREAM = 7_000
_STATE_VERSION = 2


class ExploreThenCommit(Held):
    """Pure-epsilon kernel bandit: explore by public coins, learn sums, answer or release.

    Args:
        kernel: over (action, context) columns, actions first; a public choice.
        actions: public actions and the law they are explored with.
        contexts: the law of contexts; see `ContextLaw`. A measure counts as public knowledge.
        reward_range: public (low, high).
        horizon: number of rows, T. Fewer rows bias predictions towards the reference.
        privacy: the total promise; `rounds_per_user` rows are one unit's.
        release_epsilon: share of epsilon kept for `release()`, which uses all of delta. By default all that
            is left of epsilon where delta > 0, else none.
        answer_epsilon: of each answer; by default all that the release leaves, for one answer.
        reference: public guess of the mean reward, which predictions shrink to; default the middle.
        bound: rewards less the reference, times their weights, are cut at +-bound; default the largest
            distance a reward can have. With weights well above 1, a larger bound trades bias for noise.
        ridge, release_ridge: tau, instead of the rule's choice.
        unit_ids: whether rows name their unit.
        clip: clip rewards into the range instead of refusing those outside.
        tolerance: see `EigenFeatures`.
        seed: public randomness of exploration.
        noise: default `SecureNoise(certificate="near_gaussian")`.
        ledger, account: each answer and the release are charged there before they are drawn.

    Raises:
        InvalidParameter: arguments that do not fit together.

    Warns:
        NothingToLearn: the expected error is close to a random action's; says so before any data.

    References:
        Pavlovic2025, eqs. (4), (5), Algorithm 1.

    Example:
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> usca = ExploreThenCommit(
        ...     kernel=SquaredExponential(lengthscale=0.3), actions=CellMeasure.finite([0.0, 0.5, 1.0]),
        ...     contexts=CellMeasure.uniform(low=0, high=1, cells=16), reward_range=(0, 1), horizon=5000,
        ...     privacy=JointDP(epsilon=1.0), unit_ids=False)
        >>> rng = np.random.default_rng(0)
        >>> contexts, actions = rng.random(5000), usca.explore(0, 5000)
        >>> usca.learn(contexts, actions, 1.0 - np.abs(0.5 * actions - contexts))
        >>> usca.answer([0.1]).action.tolist()
        [0.0]
    """

    kind = "central.USCA"

    def __init__(
        self,
        *,
        kernel: Kernel,
        actions: CellMeasure,
        contexts: ContextLaw | CellMeasure,
        reward_range: RewardRange | tuple[float, float],
        horizon: int,
        privacy: JointDP,
        release_epsilon: float | None = None,
        answer_epsilon: float | None = None,
        reference: float | None = None,
        bound: float | None = None,
        ridge: float | None = None,
        release_ridge: float | None = None,
        unit_ids: bool = True,
        clip: bool = False,
        tolerance: float = DEFAULT_TOLERANCE,
        seed: Seed = 0,
        noise: NoiseSource | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> None:
        rows = _checks.integer(horizon, name="horizon")
        if rows > MOST_ROUNDS:
            raise InvalidParameter(f"horizon: integer sums are exact up to {MOST_ROUNDS} rows, got {rows}")
        self.contexts = ContextLaw.of(contexts)
        check_cells(actions, self.contexts.measure)
        self.contexts.check_covers(privacy.rounds_per_user)
        self.kernel, self.actions, self.privacy, self.seed = kernel, actions, privacy, seed
        self.horizon, self.tolerance = rows, tolerance
        self._noise = SecureNoise(certificate="near_gaussian") if noise is None else noise
        definitions.warn_if_delta_large(privacy.delta, -(-rows // privacy.rounds_per_user))
        self.features = EigenFeatures(
            kernel=kernel, measures=(actions, self.contexts.measure), tolerance=tolerance
        )
        self.ridge, self.release_ridge = ridge, release_ridge
        self.uses = Uses.planned(
            self.features,
            n_actions=actions.size,
            rounds=rows,
            privacy=privacy,
            budget=Budget.divided(
                privacy,
                histogram=self.contexts.epsilon,
                release=release_epsilon,
                answer=answer_epsilon,
            ),
            noise=self._noise,
            ridge=ridge,
            release_ridge=release_ridge,
        )
        span = RewardRange.of(reward_range)
        centre, widest = reference_of(reference, span)
        self._rules = RowRules(
            actions=actions,
            contexts=self.contexts.measure,
            reward_range=span,
            reference=centre,
            bound=widest if bound is None else _checks.number(bound, name="bound"),
            clip=clip,
            horizon=rows,
            rounds_per_user=privacy.rounds_per_user,
            unit_ids=unit_ids,
            caps=self.uses.caps,
        )
        self._holder = Holder(self._state, ledger=ledger, account=account)
        self._shard = Shard(self._rules, lineage=self._holder.lineage)
        self._answered = 0
        self._released: tuple[FloatArray, FloatArray] | None = None  # mean and sd, (A, C) in reward units
        self.uses.warn_of_nothing_to_learn(self._rules.bound, rounds=rows, stacklevel=2)

    def __repr__(self) -> str:
        return f"ExploreThenCommit(lineage={self._holder.lineage[:8]!r}, answered={self._answered})"

    # -- what is promised and expected ------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """The total promise; the same before, during and after."""
        budget, release = self.uses.budget, self.uses.release
        return explore_guarantee(
            self.privacy,
            contexts=self.contexts,
            status=self._noise.status,
            unit_ids=self._rules.unit_ids,
            witnessed=self._holder.witnessed,
            charged=self._holder.charged,
            answers=(budget.answers, budget.answer_epsilon) if budget.answers else None,
            release=None if release is None else release.record(),
            release_epsilon=budget.release_epsilon,
        )

    def expected_error(self) -> dict[str, ExpectedError]:
        """Expected loss against the best action, in reward units, by use; no data is used."""
        return self.uses.expected_errors(self._rules.bound)

    @property
    def unsafe_rules(self) -> RowRules:
        """How rows are turned into numbers: public itself, and for studies that redo it on raw data."""
        return self._rules

    @property
    def remaining_answers(self) -> int:
        """How many answers the promise still covers."""
        return self.uses.budget.answers - self._answered

    def diagnostics(self) -> dict[str, Any]:
        """Public numbers."""
        return {
            "policy": self.kind,
            "horizon": self.horizon,
            "features": self.features.n_features,
            "missing_variance": self.features.missing_variance,
            "answers_given": self._answered,
            "answers_left": self.remaining_answers,
            "released": self._released is not None,
            **self.uses.diagnostics(),
        }

    # -- learning -----------------------------------------------------------------------------------

    def explore(self, start: int, stop: int) -> IntArray:
        """Actions (cell numbers) of rows start..stop-1 by the public coins, from the law of actions."""
        uniforms = PublicCoins(self.seed).uniform("usca/explore", start, stop, 1)[:, 0]
        return self.actions.cells_at(uniforms)

    @in_turn
    def learn(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        units: Sequence[object] | None = None,
    ) -> None:
        """Add rows; see `Shard.learn`. May be called any number of times."""
        self._shard.learn(contexts, actions, rewards, propensities=propensities, units=units)

    def shard(self) -> Shard:
        """An empty shard: learn elsewhere, then `merge`."""
        return self._shard.fresh()

    @in_turn
    def merge(self, shard: Shard) -> None:
        """Take over what a shard learned."""
        self._shard.merge(shard)

    # -- answering and releasing --------------------------------------------------------------------

    @in_turn
    def answer(self, context: ArrayLike) -> Answer:
        """The best action at one context (d,), drawn by permute-and-flip; spends `answer_epsilon`.

        Raises:
            BudgetExceeded: no answers are left; nothing was drawn.
            InvalidData: the context is off the public range.
        """
        plan, budget = self.uses.answers, self.uses.budget
        if plan is None or self._answered >= budget.answers:
            raise BudgetExceeded(
                f"all {budget.answers} answers that the promise covers were given: nothing was drawn; "
                "release() gives any number of predictions for one price"
            )
        cell = int(self.contexts.measure.locate(one_row(context), name="context")[0])
        number = self._answered + 1
        self._holder.charge(f"answer:{number}", epsilon=budget.answer_epsilon)
        scores, span = self.uses.scores(plan, cell, self._shard.cells.sums[0])
        words = words_of(self._noise, stream=_ANSWER_STREAM + number)
        index = permute_and_flip(
            scores.tolist(), sensitivity=span, epsilon=budget.answer_epsilon, words=words
        )
        self._answered = number
        self._holder.commit()
        return Answer(index, self.actions.points[index], number)

    @in_turn
    def release(self) -> PublishedFunction:
        """The whole function, once; every call gives the same policy.

        Raises:
            BudgetExceeded: no share of the promise was kept for a release.
        """
        mechanism, budget = self.uses.release, self.uses.budget
        if mechanism is None:
            raise BudgetExceeded("no release was planned: build with delta > 0 and release_epsilon")
        if self._released is None:
            self._holder.charge("release", epsilon=budget.release_epsilon, delta=self.privacy.delta)
            noisy = mechanism.release(self._shard.cells.sums[-1])
            posterior = mechanism.update(CoefficientPosterior.prior(self.features.eigenvalues), noisy)
            self._released = mechanism.tables(
                posterior, reference=self._rules.reference, bound=self._rules.bound
            )
        self._holder.commit()  # before anything computed from it leaves; a failed commit is repeated
        mean, sd = self._released
        return PublishedFunction(
            actions=self.actions,
            contexts=self.contexts.measure,
            mean=mean,
            sd=sd,
            guarantee=self.guarantee,
        )

    # -- configuration and state ----------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this object anew."""
        rules = self._rules
        return {
            "policy": self.kind,
            "kernel": self.kernel.to_config(),
            "actions": self.actions.to_config(),
            "contexts": self.contexts.to_config(),
            "reward_range": rules.reward_range.to_config(),
            "horizon": self.horizon,
            "privacy": self.privacy.to_config(),
            "release_epsilon": self.uses.budget.release_epsilon,
            "answer_epsilon": self.uses.budget.answer_epsilon if self.uses.budget.answers else None,
            "reference": rules.reference,
            "bound": rules.bound,
            "ridge": self.ridge,
            "release_ridge": self.release_ridge,
            "unit_ids": rules.unit_ids,
            "clip": rules.clip,
            "tolerance": self.tolerance,
            "seed": self.seed,
            "noise": self._noise.to_config(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], **runtime: Any) -> "ExploreThenCommit":
        """Build what `to_config` described; `runtime` passes noise=, ledger=, account=."""
        return cls(**{**arguments_of(config, cls), **runtime})

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the whole state, mode 0600, and keep it current at every answer and release from now on.

        With a `key` what is written is sealed.
        """
        self._holder.save(path, key=key)

    def _state(self, lineage: str, position: int) -> State:
        noise, none = self._noise, np.zeros((0, 0))
        mean, sd = (none, none) if self._released is None else self._released
        return State(
            kind=self.kind,
            version=_STATE_VERSION,
            lineage=lineage,
            position=position,
            public={"config": self.to_config()},
            arrays={
                **self._shard.arrays(),
                "answered": np.array(self._answered),
                # tables and not coefficients: eigenfunctions may turn out otherwise in another process
                "released_mean": mean.copy(),
                "released_sd": sd.copy(),
                "noise_position": np.array(noise.position if isinstance(noise, SimulatedNoise) else 0),
            },
        )

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        ledger: Ledger | None = None,
        account: str | None = None,
        key: StateKey | None = None,
    ) -> "ExploreThenCommit":
        """Take up a saved state where it stood: same caps, same answers counted, same release.

        Raises:
            ForkedState: the ledger has seen this lineage go further than this copy.
            CorruptState, IncompatibleState: the file is torn, or another object's.
        """
        saved = saved_state(path, kind=cls.kind, version=_STATE_VERSION, ledger=ledger, key=key)
        state = saved.state
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NothingToLearn)  # said when it was built
                usca = cls.from_config(state.public["config"])
            arrays = state.arrays
            answered, caps = int(arrays["answered"]), arrays["caps"]
            released = arrays["released_mean"], arrays["released_sd"]
            if isinstance(usca._noise, SimulatedNoise):
                usca._noise = usca._noise.at(int(arrays["noise_position"]))
        except (KeyError, TypeError, ValueError, InvalidParameter) as error:
            raise CorruptState("the saved configuration cannot be read") from error
        sizes = ((0, 0), (usca.actions.size, usca.contexts.measure.size))
        fits = released[0].shape == released[1].shape in sizes and np.isfinite(released).all()
        if not 0 <= answered <= usca.uses.budget.answers or not fits:
            raise CorruptState("the saved answers and release contradict the saved configuration")
        usca.uses = usca.uses.with_caps(caps)
        usca._rules = replace(usca._rules, caps=usca.uses.caps)
        usca._holder.take_up(saved, account=account)
        usca._shard = Shard(usca._rules, lineage=state.lineage)
        usca._shard.restore(arrays)
        usca._answered = answered
        usca._released = released if released[0].size else None
        return usca
