"""What USCA's data will be used for, fixed before any data: so many answers, at most one release."""

import math
import warnings
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.explore_then_commit.calibration import (
    ExpectedError,
    Plan,
    expected_error,
    plan_answers,
    plan_release,
)
from dpbandits.central.explore_then_commit.publish import FunctionRelease
from dpbandits.central.explore_then_commit.sums import (
    REWARD_UNIT,
    exact_products,
    integer_caps,
    integer_weights,
)
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.privacy.definitions import DPBanditsWarning, JointDP
from dpbandits.privacy.noise import NoiseSource

__all__ = ["Answer", "Budget", "NothingToLearn", "Uses"]

NOTHING_TO_LEARN = 0.7
"""Expected error above this share of a random action's: learning is hardly worth the data."""

_CRUMB = Decimal("1e-12")

_PROBE = 2.0**38
"""A sensitivity like the release's, to ask the noise source for its multiplier before there is a plan."""


class NothingToLearn(DPBanditsWarning):
    """So few rows at so small an epsilon that hardly anything will be learned."""


@dataclass(frozen=True)
class Answer:
    """The best action at a context, as the server privately sees it.

    Attributes:
        index: of the action's cell.
        action: (d,) its point.
        number: how many answers have been given, this one included.
    """

    index: int
    action: FloatArray
    number: int


@dataclass(frozen=True)
class Budget:
    """How a promise is divided: parts, as decimals, never add up to more than it.

    Attributes:
        release_epsilon: of the release; 0 for none.
        answer_epsilon: of each answer.
        answers: how many at most.
    """

    release_epsilon: float
    answer_epsilon: float
    answers: int

    @classmethod
    def divided(
        cls, privacy: JointDP, *, histogram: float, release: float | None, answer: float | None
    ) -> "Budget":
        """Divide `privacy` after `histogram` was spent; None asks for the default.

        Raises:
            InvalidParameter: parts that do not fit.
        """
        left = Decimal(repr(privacy.epsilon)) - Decimal(repr(float(histogram)))
        if left <= 0:
            raise InvalidParameter("the context histogram has spent the whole epsilon: promise more than it")
        if privacy.delta == 0.0 and release:
            raise InvalidParameter("a release needs delta > 0: promise one, or keep epsilon for answers")
        if release is None and privacy.delta > 0.0 and answer is not None:
            raise InvalidParameter("with delta > 0 and answer_epsilon, say what release_epsilon is")
        kept = Decimal(0)
        if release is not None:
            kept = Decimal(repr(float(release)))
        elif privacy.delta > 0.0:
            kept = left
        if not (kept.is_finite() and 0 <= kept <= left):
            raise InvalidParameter("release_epsilon: expected a number from 0 to the epsilon that is left")
        rest = left - kept
        if answer is None:
            # what rounding left over is not worth an answer
            return (
                cls(_at_most(kept), _at_most(rest), 1)
                if rest > left * _CRUMB
                else cls(_at_most(kept), 0.0, 0)
            )
        each = _checks.number(answer, name="answer_epsilon")
        count = int(Fraction(rest) / Fraction(Decimal(repr(each))))
        if count < 1:
            raise InvalidParameter("answer_epsilon is larger than the epsilon that the release leaves")
        return cls(_at_most(kept), each, count)


def _at_most(amount: Decimal) -> float:
    """The largest float64 that prints as no more than `amount`."""
    value = float(amount)
    while Decimal(repr(value)) > amount:
        value = math.nextafter(value, 0.0)
    return value


@dataclass(frozen=True, eq=False)
class Uses:
    """Calibrated plans of all uses.

    Attributes:
        budget: how the promise is divided.
        answers: ridge and caps of answers, or None.
        release: the release mechanism, or None.
        caps: (k, n) integer caps of the uses in this order.
        rounds_per_user: rows of one user.
    """

    budget: Budget
    answers: Plan | None
    release: FunctionRelease | None
    caps: IntArray
    rounds_per_user: int

    @classmethod
    def planned(
        cls,
        features: EigenFeatures,
        *,
        n_actions: int,
        rounds: int,
        privacy: JointDP,
        budget: Budget,
        noise: NoiseSource,
        ridge: float | None,
        release_ridge: float | None,
    ) -> "Uses":
        """Choose ridges and caps by the rule; see `dpbandits.central.explore_then_commit.calibration`."""
        answers: Plan | None = None
        release: FunctionRelease | None = None
        caps = []
        if budget.answers:
            by_action = features.psi.reshape(n_actions, -1)
            if np.array_equal(by_action, np.broadcast_to(by_action[:1], by_action.shape)):
                raise InvalidParameter(
                    "the kernel tells no action from another, so there is nothing to answer: let it look at "
                    "the action columns, and pass at least two actions"
                )
            answers = plan_answers(
                features,
                n_actions=n_actions,
                rounds=rounds,
                rounds_per_user=privacy.rounds_per_user,
                epsilon=budget.answer_epsilon,
                ridge=ridge,
            )
            caps.append(integer_caps(answers.caps))
        if budget.release_epsilon > 0.0:
            scale, _ = noise.gaussian_scale(
                _PROBE, budget.release_epsilon, privacy.delta, draws=features.n_features
            )
            plan = plan_release(
                features,
                n_actions=n_actions,
                rounds=rounds,
                rounds_per_user=privacy.rounds_per_user,
                noise_multiplier=scale / _PROBE,
                ridge=release_ridge,
            )
            release = FunctionRelease(
                plan, noise, budget.release_epsilon, privacy.delta, privacy.rounds_per_user
            )
            caps.append(integer_caps(plan.caps))
        return cls(budget, answers, release, np.stack(caps), privacy.rounds_per_user)

    @property
    def plans(self) -> dict[str, Plan]:
        """Plans by name of their use: "answers", "release"."""
        found = {} if self.answers is None else {"answers": self.answers}
        if self.release is not None:
            found["release"] = self.release.plan
        return found

    def scores(self, plan: Plan, context: int, sums: IntArray) -> tuple[IntArray, int]:
        """Exact integer scores (A,) of actions at a context cell, and what one user can spread them by.

        Args:
            plan: of answers.
            context: a context cell.
            sums: (n,) cell sums under the caps of answers.
        """
        influence = plan.estimator.influence(context)  # (A, n)
        # a shift that all actions share moves no gap: centred, more bits are left for differences
        centred = influence - 0.5 * (influence.max(axis=0) + influence.min(axis=0))
        weights, _ = integer_weights(centred)
        spread = (weights.max(axis=0) - weights.min(axis=0)).astype(np.int64)
        span = 2 * self.rounds_per_user * int((self.caps[0] * spread).max())
        return exact_products(weights, sums), max(1, span)  # 0 where the kernel tells no action apart here

    def with_caps(self, caps: IntArray) -> "Uses":
        """The same uses with the caps (k, n) of an earlier process, which its sums were cut at.

        Features are computed anew in every process, and their last bits differ between machines and numbers
        of threads. Sensitivities are always those of the caps that rows were really cut at.

        Raises:
            CorruptState: caps that these uses cannot have had.
        """
        if np.array_equal(caps, self.caps):
            return self
        limit = int(1.0 / REWARD_UNIT)
        if (
            caps.shape != self.caps.shape
            or caps.dtype != np.int64
            or not ((caps >= 0) & (caps <= limit)).all()
        ):
            raise CorruptState("the saved caps contradict the saved configuration")
        answers, release = self.answers, self.release
        if answers is not None:
            answers = replace(answers, caps=caps[0] * REWARD_UNIT)
        if release is not None:
            release = replace(release, plan=replace(release.plan, caps=caps[-1] * REWARD_UNIT))
        return replace(self, answers=answers, release=release, caps=caps.copy())

    def expected_errors(self, bound: float) -> dict[str, ExpectedError]:
        """Expected loss of each use, in reward units; no data is used."""
        found = {}
        for use, plan in self.plans.items():
            error = expected_error(plan, release=use == "release")
            found[use] = ExpectedError(
                bound * error.error, bound * error.random, bound * error.standard_error
            )
        return found

    def warn_of_nothing_to_learn(self, bound: float, *, rounds: int, stacklevel: int) -> None:
        """NothingToLearn for every use whose expected error is close to a random action's."""
        for use, expected in self.expected_errors(bound).items():
            if expected.share > NOTHING_TO_LEARN:
                warnings.warn(
                    f"{use}: with {rounds} rows at this epsilon the expected error is "
                    f"{expected.error:.3g}, a random action's is {expected.random:.3g} (for functions as the "
                    "kernel expects them): more rows or a larger epsilon are needed before data is touched",
                    NothingToLearn,
                    stacklevel=stacklevel + 1,
                )

    def diagnostics(self) -> dict[str, float]:
        """Public numbers of the plans."""
        numbers = {}
        for use, plan in self.plans.items():
            estimator = plan.estimator
            numbers[f"{use}_ridge"] = estimator.ridge
            numbers[f"{use}_cap_share"] = plan.share
            numbers[f"{use}_effective_dimension"] = estimator.features.effective_dimension(
                estimator.rounds, estimator.ridge
            )
        return numbers
