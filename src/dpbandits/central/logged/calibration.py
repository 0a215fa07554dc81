r"""Calibration of explore-then-commit before any data: division of epsilon, ridges, caps and noise scales.

`calibrate` checks the promise, warns if the expected error is close to that of random actions, and returns a
`Calibration`.

**Caps.** A reward in cell w is clipped to +-Y(w) when it is added, with a public cap Y(w). The effect of one
reward on an answer or a release is its cap times the influence of its cell. A few cells (corners, where data
is sparsest) have several times the influence of other cells, and would determine the noise. Capping them at
`share` of the largest influence costs a little bias there and reduces noise everywhere.

**Rule for ridge and share.** Let s_i = T h_i, q_i the prior variances and v the reward variance. Choose
tau in {1, 3, 10, ..., 1e5} and the share that maximise the squared correlation between the noisy estimate
and the function,

    (sum q s)^2/(sum q (sum q s^2 + v T sum h^2 + noise + weight clip)).

Here h are the estimator's shrinkage factors (`estimator`), R the range sensitivity of an answer's scores, S
the largest norm of a row's contribution to a release, and 1/mu its noise multiplier. The term `noise` is
(1.28 R/eps)^2 for an answer and (2S/mu)^2 sum h for a release. The term `clip` is the mean square that
clipping removes from a normal function, and `weight` its weight. All of it is public.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpbandits import _checks
from dpbandits._calls import caller_level
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.estimator import (
    NOISE_VARIANCE,
    Plan,
    PopulationEstimator,
    clip_loss,
    prior_variances,
)
from dpbandits.central.logged.publish import FunctionRelease
from dpbandits.central.logged.sums import (
    REWARD_UNIT,
    exact_products,
    integer_caps,
    integer_weights,
)
from dpbandits.errors import CorruptState, InvalidParameter, NothingToLearn
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import JointDP, warn_if_delta_large
from dpbandits.privacy.noise import NoiseSource

__all__ = [
    "RIDGES",
    "SHARES",
    "Budget",
    "Calibration",
    "ExpectedError",
    "NothingToLearn",
    "calibrate",
    "calibrated_release",
    "expected_error",
    "noise_multiplier",
    "planned_answers",
    "planned_release",
]

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)
"""Candidates for the ridge tau."""

SHARES = (1.0, 0.75, 0.6, 0.5, 0.42, 0.35, 0.3)
"""Candidates for `share`: the influence that caps allow, as a share of the largest influence."""

ANSWER_CLIP_WEIGHT = 0.01
RELEASE_CLIP_WEIGHT = 0.1
"""Weight of the squared bias from clipping in the rule for a release; the constant before it is for answers.

The weights are small because clipping removes most where the function is largest, where it harms a choice
least. They were chosen on tuning seeds among weights from 0.01 to 0.3.
"""

ANSWER_SPREAD = 1.28
"""Standard deviation, in units of R/epsilon, of the difference of an
exponential draw and the best other draw.
"""

_MOST_CELLS = 4096
_MOST_CONTEXTS = 6
_MOST_ACTIONS = 64
_DRAWS = 24

NOTHING_TO_LEARN = 0.7
"""Expected error, as a share of a random action's, above which a warning says that learning hardly pays."""

_CRUMB = Decimal("1e-12")

_PROBE = 2.0**38
"""Sensitivity at which the noise source's multiplier is computed
before there is a plan; like that of a release.
"""


@dataclass(frozen=True)
class ExpectedError:
    """Expected error, simulated on functions drawn from the prior without any data.

    Attributes:
        error: Mean loss against the best action.
        random: Mean loss of a random action.
        standard_error: Standard error of `error`.
    """

    error: float
    random: float
    standard_error: float

    @property
    def share(self) -> float:
        """Error as a share of the error of a random action."""
        return self.error / self.random if self.random > 0.0 else 1.0


@dataclass(frozen=True)
class Budget:
    """Division of a total epsilon. As decimal numbers, the parts never add up to more than the total.

    Attributes:
        publish_epsilon: Privacy loss of `publish()`; 0 if nothing is to be published.
        answer_epsilon: Privacy loss of each answer.
        answers: Largest number of answers.
    """

    publish_epsilon: float
    answer_epsilon: float
    answers: int

    @classmethod
    def divided(
        cls, privacy: JointDP, *, histogram: float, publish: float | None, answer: float | None
    ) -> "Budget":
        """Divide the epsilon of `privacy` that `histogram` leaves; None means a default part.

        Raises:
            InvalidParameter: The parts do not fit into the total.
        """
        left = Decimal(repr(privacy.epsilon)) - Decimal(repr(float(histogram)))
        if left <= 0:
            raise InvalidParameter("the context histogram has spent all of epsilon: use a larger epsilon")
        if privacy.delta == 0.0 and publish:
            raise InvalidParameter("publish() needs delta > 0: pass one, or keep epsilon for answers")
        if publish is None and privacy.delta > 0.0 and answer is not None:
            raise InvalidParameter("with delta > 0 and answer_epsilon, pass publish_epsilon too")
        kept = Decimal(0)
        if publish is not None:
            kept = Decimal(repr(float(publish)))
        elif privacy.delta > 0.0:
            kept = left
        if not (kept.is_finite() and 0 <= kept <= left):
            raise InvalidParameter("publish_epsilon: expected a number from 0 to the epsilon that is left")
        rest = left - kept
        if answer is None:
            one = rest > left * _CRUMB  # a remainder from rounding is too small for an answer
            return cls(_at_most(kept), _at_most(rest) if one else 0.0, int(one))
        each = _checks.scale(answer, name="answer_epsilon")
        count = int(Fraction(rest) / Fraction(Decimal(repr(each))))
        if count < 1:
            raise InvalidParameter("answer_epsilon is larger than the epsilon that publish_epsilon leaves")
        return cls(_at_most(kept), each, count)


def _at_most(amount: Decimal) -> float:
    """Return the largest float64 that prints as no more than `amount`."""
    value = float(amount)
    while Decimal(repr(value)) > amount:
        value = math.nextafter(value, 0.0)
    return value


@dataclass(frozen=True, eq=False)
class Calibration:
    """Division of epsilon, ridges, caps and noise of an explore-then-commit policy, fixed before any data.

    Attributes:
        budget: Division of the promise.
        rounds_per_user: Number of rows of one user that the guarantee covers.
        bound: Bound of centred rewards, in reward units.
        answers: Ridge and caps of answers; None if there are no answers.
        release: Mechanism that publishes the function; None if nothing is published.
        caps: Integer caps (k, n) of answers and release, in this order.
    """

    budget: Budget
    rounds_per_user: int
    bound: float
    answers: Plan | None
    release: FunctionRelease | None
    caps: IntArray

    @property
    def plans(self) -> dict[str, Plan]:
        """Plans by the name of their use: "answers", "publish"."""
        found = {} if self.answers is None else {"answers": self.answers}
        return found if self.release is None else {**found, "publish": self.release.plan}

    def scores(self, plan: Plan, context: int, sums: IntArray) -> tuple[IntArray, int]:
        """Return exact integer scores (A,) of actions at a context cell, and their range sensitivity.

        Args:
            plan: Plan of answers.
            context: Index of a context cell.
            sums: Cell sums (n,) under the caps of answers.
        """
        influence = plan.estimator.influence(context)  # (A, n)
        # a shift of all actions changes no gap: centring leaves more bits for differences
        centred = influence - 0.5 * (influence.max(axis=0) + influence.min(axis=0))
        weights, _ = integer_weights(centred)
        spread = (weights.max(axis=0) - weights.min(axis=0)).astype(np.int64)
        span = 2 * self.rounds_per_user * int((self.caps[0] * spread).max())
        return exact_products(weights, sums), max(1, span)  # 0 if the kernel is equal for all actions here

    def with_caps(self, caps: IntArray) -> "Calibration":
        """Return this calibration with the caps (k, n) that an earlier process used for its sums.

        Every process computes features anew, and their last bits differ between machines and numbers of
        threads. Sensitivities must always use the caps to which rows were clipped.

        Raises:
            CorruptState: The configuration cannot have had these caps.
        """
        if np.array_equal(caps, self.caps):
            return self
        known = caps.shape == self.caps.shape and caps.dtype == np.int64
        if not known or not ((caps >= 0) & (caps <= int(1.0 / REWARD_UNIT))).all():
            raise CorruptState("the saved caps contradict the saved configuration")
        answers, release = self.answers, self.release
        if answers is not None:
            answers = replace(answers, caps=caps[0] * REWARD_UNIT)
        if release is not None:
            release = replace(release, plan=replace(release.plan, caps=caps[-1] * REWARD_UNIT))
        return replace(self, answers=answers, release=release, caps=caps.copy())

    def expected_errors(self) -> dict[str, ExpectedError]:
        """Return the expected loss of each use, in reward units; no data is used."""
        return {
            use: expected_error(plan, release=use == "publish", bound=self.bound)
            for use, plan in self.plans.items()
        }

    def diagnostics(self) -> dict[str, float]:
        """Return public numbers of the plans."""
        numbers: dict[str, float] = {}
        for use, plan in self.plans.items():
            one = plan.estimator
            size = one.features.effective_dimension(one.rounds, one.ridge)
            numbers |= {f"{use}_ridge": one.ridge, f"{use}_cap_share": plan.share}
            numbers[f"{use}_effective_dimension"] = size
        return numbers


def calibrate(
    features: EigenFeatures,
    privacy: JointDP,
    horizon: int,
    noise: NoiseSource,
    *,
    contexts: ContextLaw,
    bound: float,
    publish_epsilon: float | None,
    answer_epsilon: float | None,
    ridge: float | None,
) -> Calibration:
    """Check and divide a total epsilon, and fix ridges, caps and noise of all uses by the module's rule.

    Args:
        features: Eigenfeatures over (actions, contexts).
        privacy: Total promise.
        horizon: Number T of rows.
        noise: Noise source.
        contexts: Law of contexts, which may have spent epsilon.
        bound: Bound of centred rewards, in reward units.
        publish_epsilon, answer_epsilon, ridge: See `ExploreThenCommit`, `ExploreTuning`.

    Raises:
        InvalidParameter: Parts do not fit the promise, a histogram covers fewer rows per user, the kernel is
            equal for all actions, or the noise leaves the lattice.

    Warns:
        LargeDelta, NothingToLearn: Reported at the line that constructs the policy.
    """
    users = -(-horizon // privacy.rounds_per_user)
    warn_if_delta_large(privacy.delta, users)
    if contexts.epsilon > 0.0 and contexts.rounds_per_user < privacy.rounds_per_user:
        raise InvalidParameter(
            f"contexts: the histogram covers {contexts.rounds_per_user} row(s) per user, the promise "
            f"{privacy.rounds_per_user}: count it with rounds_per_user={privacy.rounds_per_user}"
        )
    budget = Budget.divided(
        privacy, histogram=contexts.epsilon, publish=publish_epsilon, answer=answer_epsilon
    )
    answers, release, caps = None, None, []
    if budget.answers:
        by_action = features.psi.reshape(features.measures[0].size, -1)
        if np.array_equal(by_action, np.broadcast_to(by_action[:1], by_action.shape)):
            raise InvalidParameter(
                "the kernel is the same for all actions, so there is nothing to answer: use a kernel that "
                "depends on the action columns, and pass at least two actions"
            )
        answers = planned_answers(
            features,
            rounds=horizon,
            rounds_per_user=privacy.rounds_per_user,
            epsilon=budget.answer_epsilon,
            ridge=ridge,
        )
        caps.append(integer_caps(answers.caps))
    if budget.publish_epsilon > 0.0:
        release = calibrated_release(
            features, privacy, horizon, noise, epsilon=budget.publish_epsilon, ridge=ridge
        )
        caps.append(integer_caps(release.plan.caps))
    found = Calibration(budget, privacy.rounds_per_user, bound, answers, release, np.stack(caps))
    for use, expected in found.expected_errors().items():
        if expected.share > NOTHING_TO_LEARN:
            warnings.warn(
                f"{use}: with {horizon} rows at this epsilon the expected error is "
                f"{expected.error:.3g}, a random action's is {expected.random:.3g} (for functions as the "
                "kernel expects them): more rows or a larger epsilon are needed before data is touched",
                NothingToLearn,
                stacklevel=caller_level(),
            )
    return found


def calibrated_release(
    features: EigenFeatures,
    privacy: JointDP,
    rounds: int,
    noise: NoiseSource,
    *,
    epsilon: float | None = None,
    ridge: float | None = None,
) -> FunctionRelease:
    """Return the release of the function under `privacy`, or under `epsilon` of it."""
    epsilon = privacy.epsilon if epsilon is None else epsilon
    plan = planned_release(
        features,
        rounds=rounds,
        rounds_per_user=privacy.rounds_per_user,
        noise_multiplier=noise_multiplier(noise, epsilon, privacy.delta, features.n_features),
        ridge=ridge,
    )
    return FunctionRelease(plan, noise, epsilon, privacy.delta, privacy.rounds_per_user)


def noise_multiplier(noise: NoiseSource, epsilon: float, delta: float, draws: int) -> float:
    """Return the noise scale over the sensitivity, for a release of this many draws."""
    return noise.gaussian_scale(_PROBE, epsilon, delta, draws=draws)[0] / _PROBE


def planned_answers(
    features: EigenFeatures,
    *,
    rounds: int,
    epsilon: float,
    rounds_per_user: int = 1,
    ridge: float | None = None,
) -> Plan:
    """Return ridge and caps for answers that spend `epsilon` each."""
    contexts, actions, kappa = _sample_cells(features)

    def capped(spreads: FloatArray, share: float, weights: FloatArray) -> tuple[FloatArray, float]:
        """Return caps (k, a) at contexts with these weights, and the mean range of answers with them."""
        caps = _caps(spreads, share)
        return caps, float(weights @ (2.0 * rounds_per_user * (caps * spreads).max(axis=1)))

    def costs(estimator: PopulationEstimator) -> Iterator[float]:
        spreads = estimator.own_ranges(contexts, actions)
        for share in SHARES:
            caps, typical = capped(spreads, share, kappa)
            noise = (ANSWER_SPREAD * typical / epsilon) ** 2
            yield noise + ANSWER_CLIP_WEIGHT * float(kappa @ clip_loss(caps).mean(axis=1))

    estimator, share = _best(features, rounds, ridge, costs)
    spreads = estimator.own_ranges(np.arange(estimator.n_contexts))  # (C, A)
    caps, typical = capped(spreads, share, _context_weights(features))
    return Plan(estimator, np.ascontiguousarray(caps.T).ravel(), share, typical / epsilon)


def planned_release(
    features: EigenFeatures,
    *,
    rounds: int,
    noise_multiplier: float,
    rounds_per_user: int = 1,
    ridge: float | None = None,
) -> Plan:
    """Return ridge and caps for one release of the whole function.

    The noise of the release is `noise_multiplier` times the sensitivity.
    """

    def costs(estimator: PopulationEstimator) -> Iterator[float]:
        largest = float(estimator.deviation.max())
        for share in SHARES:
            noise_sd = 2.0 * rounds_per_user * share * largest * noise_multiplier
            clip = float(features.weights @ clip_loss(_caps(estimator.deviation, share)))
            yield noise_sd**2 * float(estimator.shrinkage.sum()) + RELEASE_CLIP_WEIGHT * clip

    estimator, share = _best(features, rounds, ridge, costs)
    caps = _caps(estimator.deviation, share)
    sensitivity = 2.0 * rounds_per_user * float((caps * estimator.deviation).max())
    return Plan(estimator, caps, share, sensitivity * noise_multiplier)


def expected_error(plan: Plan, *, release: bool, bound: float = 1.0) -> ExpectedError:
    """Return the mean loss, in the units of `bound`, on functions that public coins draw from the prior.

    Args:
        plan: Plan of answers or of a release.
        release: True for a release.
        bound: Bound of centred rewards.
    """
    estimator = plan.estimator
    features, m = estimator.features, estimator.features.n_features
    coins = PublicCoins(0)
    normals = coins.normal("usca/expected-error", 0, _DRAWS, 2 * m)
    variances = prior_variances(features.eigenvalues)
    truth = np.sqrt(variances) * normals[:, :m]
    noise = estimator.rounds * NOISE_VARIANCE * np.ones(m)
    if release:
        noise = noise + plan.noise_scale**2 / estimator.shrinkage
        shrink = variances * estimator.rounds / (variances * estimator.rounds**2 + noise)
    else:
        shrink = estimator.shrinkage
    learned = shrink * (estimator.rounds * truth + np.sqrt(noise) * normals[:, m:])
    means, scores = (
        (features.psi @ coefficients.T).T.reshape(_DRAWS, estimator.n_actions, estimator.n_contexts)
        for coefficients in (truth, learned)
    )
    if not release:
        uniforms = coins.uniform("usca/expected-choice", 0, _DRAWS, features.n_cells)
        scores = scores - plan.noise_scale * np.log(uniforms).reshape(scores.shape)
    chosen = np.take_along_axis(means, scores.argmax(axis=1)[:, None, :], axis=1)[:, 0]
    best, kappa = means.max(axis=1), _context_weights(features)
    losses = (best - chosen) @ kappa
    return ExpectedError(
        bound * float(losses.mean()),
        bound * float(((best - means.mean(axis=1)) @ kappa).mean()),
        bound * float(losses.std(ddof=1) / np.sqrt(_DRAWS)),
    )


def _best(
    features: EigenFeatures,
    rounds: int,
    ridge: float | None,
    costs: Callable[[PopulationEstimator], Iterable[float]],
) -> tuple[PopulationEstimator, float]:
    """Return the estimator (with its ridge) and the share of the best objective.

    `costs` is a function from an estimator to the cost of each share.
    """
    ridges = RIDGES if ridge is None else (_checks.scale(ridge, name="ridge"),)
    choices = [
        (_objective(estimator, cost), estimator, share)
        for estimator in (PopulationEstimator(features, rounds, value) for value in ridges)
        for share, cost in zip(SHARES, costs(estimator), strict=True)
    ]
    _, estimator, share = max(choices, key=lambda choice: choice[0])
    return estimator, share


def _objective(estimator: PopulationEstimator, extra: float) -> float:
    variances = prior_variances(estimator.features.eigenvalues)
    shrinkage = estimator.shrinkage
    slopes = estimator.rounds * shrinkage
    scatter = NOISE_VARIANCE * estimator.rounds * float(shrinkage @ shrinkage)
    total = float(variances @ slopes**2) + scatter + extra
    return float(variances @ slopes) ** 2 / (float(variances.sum()) * total)


def _caps(influence: FloatArray, share: float) -> FloatArray:
    """Return min(1, share max/influence): no cell then exceeds `share` of the largest influence."""
    return np.asarray(np.minimum(1.0, share * influence.max() / np.maximum(influence, 1e-300)))


def _context_weights(features: EigenFeatures) -> FloatArray:
    """Return the law of contexts, (C,)."""
    return np.asarray(features.weights.reshape(features.measures[0].size, -1).sum(axis=0))


def _sample_cells(features: EigenFeatures) -> tuple[IntArray, IntArray, FloatArray]:
    """Return contexts and actions at which ridges are compared, and weights of these contexts.

    If there are few cells, all are used. Otherwise contexts are taken at equal steps of their law. The
    context with the largest feature is added with weight 0: influence is largest there, and caps are
    relative to it.
    """
    kappa, n_actions = _context_weights(features), features.measures[0].size
    contexts, weights = np.arange(len(kappa)), kappa
    if features.n_cells > _MOST_CELLS:
        steps = (np.arange(_MOST_CONTEXTS) + 0.5) / _MOST_CONTEXTS
        inner = np.minimum(np.searchsorted(np.cumsum(kappa), steps), len(kappa) - 1)
        extreme = int(features.squares.sum(axis=1).argmax()) % len(kappa)
        contexts = np.append(inner, extreme)
        weights = np.append(np.full(_MOST_CONTEXTS, 1.0 / _MOST_CONTEXTS), 0.0)
    actions = np.unique(np.linspace(0, n_actions - 1, min(n_actions, _MOST_ACTIONS)).round())
    return contexts.astype(np.int64), actions.astype(np.int64), weights
