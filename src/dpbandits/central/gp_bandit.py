"""Block release: a Gaussian-process bandit under joint differential privacy.

The policy learns only at a few block boundaries, fixed in advance. At each it releases, with noise,
mixed sums of phi phi^T and (y - middle) phi over the blocks so far; everything it ever computes comes
from these releases. It stands beside Dubey2021, Algorithm 1 (a binary tree over all rounds and a
positive-definite shift), and departs from it in every part:

- few uneven blocks and a square root of the lower-triangular ones matrix instead of a tree;
- rewards centred; Gram matrix and vector released jointly, at the price of the vector alone;
- no shift: the Gram is shrunk towards a public prior and made positive semidefinite afterwards, and
  the posterior is generalised least squares on block sums that knows the noise;
- Thompson sampling with a scaled-down covariance instead of confidence bounds that the noise inflates.

Privacy: (epsilon, delta)-joint DP; the unit is one user's whole contribution, decision sets and rewards
of at most `rounds_per_user` rounds. A round belongs to the block of its ask, whatever becomes of its
reward. Raw data meets noise in one place, `GPBandit._release`.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from dpbandits import _checks, domains
from dpbandits._config import Configured
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.layouts import TunedPolicy
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.regression import (
    REWARD_VARIANCE,
    Regression,
    posterior_from_releases,
)
from dpbandits.central.schedule import check_boundaries, default_blocks, open_ended_blocks
from dpbandits.central.statement import Setting, block_release_guarantee
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidParameter, ProtocolError
from dpbandits.models.decision_sets import PublicSets
from dpbandits.models.features import Features, in_fixed_shapes
from dpbandits.models.features.people import features_for
from dpbandits.models.kernels import Kernel
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import BasePolicy, PolicyOptions, best_choice, uniform_choice
from dpbandits.policy.beside import Beside
from dpbandits.privacy.definitions import JointDP, warn_if_delta_large
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.prefix_sums import BlockRelease, Factor, factor_for
from dpbandits.privacy.release_terms import Release
from dpbandits.state.holder import in_turn
from dpbandits.tables import Schema

__all__ = ["GPBandit", "GPTuning"]

THOMPSON_SCALE = 0.25
"""Posterior deviations are multiplied by this before drawing; chosen on tuning seeds."""

PRIOR_VARIANCE = 0.2
"""Prior variance of the function where the kernel's is 1, in squared widths of the reward range; chosen on
tuning seeds."""

N_FEATURES = 20
"""Features of candidates, where their number is not said."""

LONGEST_HORIZON = 1 << 22
"""What int64 sums hold: the horizon when none is given."""

_AT_ONCE = 32
"""Rounds whose Thompson weights are drawn in one product, which rounds by its shape: it is the same one
however they are asked, round by round or in batches."""


class _Draws(NamedTuple):
    """Public draws of the rounds `number` * `_AT_ONCE` ..: ties (n,) and Thompson weights (n, m)."""

    number: int
    posterior: WeightPosterior
    ties: FloatArray
    weights: FloatArray


class _Drawn(NamedTuple):
    """Of the first k blocks: sums (k, D), secret, the same released, and Gram matrices (k, m, m)."""

    raw_sums: IntArray
    released: IntArray
    grams: FloatArray

    def __repr__(self) -> str:
        return "_Drawn()"


_Made = tuple[_Drawn, WeightPosterior | None]


@dataclass(eq=False, repr=False)
class _UnderWay:
    """A release that is made beside the answers; once drawn, it is not drawn again where fitting fails.

    Attributes:
        block: its number.
        rows: of the block, as `RoundBook.block` gives them.
        done: what is being made of it; None where that has yet to begin.
        drawn: with those before it.
        noise_position: of a simulated source after its draw.
    """

    block: int
    rows: tuple[FloatArray, FloatArray, BoolArray, BoolArray]
    done: Future[_Made] | None = None
    drawn: _Drawn | None = None
    noise_position: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class GPTuning(Configured):
    """What of a `GPBandit` most people leave as it is; all of it is public and fixed before any data.

    Args:
        n_features: size of the Mercer feature map of the kernel over the domain, or over contexts where there
            are arms; more of them fit finer functions and carry more noise. Default 20, of contexts 8.
        blocks: round indices at which to release, strictly increasing; default `default_blocks`.
        reporting_delay: rounds that a block's release waits for its last rewards.
        lag: rounds that go on being answered by the releases before, from there on, while noise is drawn and
            the posterior fitted beside the answers. A release takes effect where it ends, however long the
            work took: an ask that comes sooner waits. With 0 the ask that is due does the work.
        regression: "blocks" (least squares over blocks, shrunk Gram), "sums" (over sums of some of them:
            several times cheaper with hundreds of features, and with 60 of them 2 to 3% more regret,
            `benchmarks/blocks_together.py`) or "prefix" (last prefix sum: worse with few features; one
            eigendecomposition a release).
        factor: how the blocks are mixed; default the one that `factor_for` takes.
        public_decision_sets: (S, n, d) sets that people are expected to bring; default uniform.
        public_law_spread: believed relative deviation of people from these sets. 0 trusts them blindly,
            a large value ignores them, "likely" lets the releases say. Wrong beliefs cost reward, never
            privacy.
        prior_variance: of the function where the kernel's variance is 1, in squared widths of the reward
            range; a weight of features with `scale` s has s^2 times as much.
        thompson_scale: multiplies posterior deviations in Thompson draws; 0 is greedy.

    Raises:
        InvalidParameter: a number out of its range.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        "factor": Factor.from_config,
        "public_decision_sets": np.asarray,
    }

    n_features: int | None = None
    blocks: Sequence[int] | None = None
    reporting_delay: int = 0
    lag: int = 0
    regression: Regression = "blocks"
    factor: Factor | None = None
    public_decision_sets: FloatArray | None = None
    public_law_spread: float | Literal["likely"] = "likely"
    prior_variance: float = PRIOR_VARIANCE
    thompson_scale: float = THOMPSON_SCALE

    def __post_init__(self) -> None:
        limited = partial(_checks.number, exclusive=False, maximum=_checks.TUNABLE)
        _checks.one_of(self.regression, ("blocks", "sums", "prefix"), name="regression")
        if not (isinstance(self.public_law_spread, str) and self.public_law_spread == "likely"):
            limited(self.public_law_spread, name="public_law_spread")
        _checks.scale(self.prior_variance, name="prior_variance", largest=_checks.TUNABLE)
        limited(self.thompson_scale, name="thompson_scale")
        if self.n_features is not None:
            _checks.integer(self.n_features, name="n_features")
        _checks.integer(self.reporting_delay, name="reporting_delay", minimum=0)
        _checks.integer(self.lag, name="lag", minimum=0)

    def schedule(self, horizon: int | None) -> tuple[tuple[int, ...], Factor]:
        """Blocks and how they are mixed, as a policy of this horizon uses them."""
        rounds = LONGEST_HORIZON if horizon is None else horizon
        blocks = check_boundaries(self.blocks, rounds) if self.blocks is not None else None
        if blocks is None:
            blocks = open_ended_blocks(rounds) if horizon is None else default_blocks(rounds)
        factor = factor_for(blocks, horizon=horizon) if self.factor is None else self.factor
        if factor.n_blocks != len(blocks):
            raise InvalidParameter(
                f"factor mixes {factor.n_blocks} blocks and the schedule has {len(blocks)}"
            )
        return blocks, factor


class GPBandit(TunedPolicy, BasePolicy, tuning=GPTuning, flat=1):
    """Gaussian-process bandit that learns from a few noisy releases.

    Args:
        contexts: public columns of a person's context: who asks brings one, and is given one of the `arms`.
        arms: labels of the arms: texts, numbers or booleans, all different.
        domain: instead of these two, a public set; who asks brings candidates of it, one of which is chosen.
        reward_range: public (low, high).
        horizon: rounds in all; the noise is calibrated to the blocks they are cut into. None where it is
            not known: every block then gets fresh noise by itself (parallel composition), which costs more.
        privacy: epsilon, delta and `rounds_per_user`.
        kernel: what the reward function looks like, a public choice: over the columns of the domain; or over
            encoded contexts (ranges in [0, 1], categories as codes), and then separate for every arm. Only
            contexts have a default, `models.features.people.context_kernel`.
        features: another feature map with norm at most 1, instead of `kernel`; of encoded contexts with the
            arm's code as last column.
        decision_sets: "private" (decision sets and rewards are protected), or "public" (everybody may
            know what every user was offered; only rewards are protected and the Gram is exact).
        tuning: see `GPTuning`.
        **options: `user_ids`, `clip`, `seed`, `noise`, `ledger`, `account`; see `PolicyOptions`.

    Raises:
        InvalidParameter: arguments that do not fit together.

    Privacy: (epsilon, delta)-joint DP; `guarantee.explain()` says it in words.

    References:
        Denisov et al. 2022 (matrix mechanism on adaptive streams); compare Dubey2021, Algorithm 1.

    Example:
        >>> import dpbandits as dpb
        >>> people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
        >>> policy = GPBandit(
        ...     contexts=people, arms=["mail", "call", "nothing"], reward_range=(0, 1), horizon=1000,
        ...     privacy=JointDP(epsilon=1, delta=1e-6))
        >>> decision = policy.ask({"age": 44, "region": "west"}, user="u-17")
        >>> decision.arm in ("mail", "call", "nothing")
        True
        >>> policy.tell(decision.id, True).value
        'counted'

        Candidates as rows:

        >>> policy = GPBandit(
        ...     kernel=dpb.kernels.SquaredExponential(lengthscale=0.3), domain=dpb.Box(low=[0], high=[1]),
        ...     reward_range=(0, 1), horizon=100, privacy=JointDP(epsilon=1, delta=1e-6))
        >>> decision = policy.ask(np.array([[0.1], [0.9]]), user="u-17")
        >>> policy.tell(decision.id, 1.0).value
        'counted'
    """

    kind = "central.BlockGPUCB"
    noise: NoiseSource
    privacy: JointDP
    features: Features
    config_omits = BasePolicy.config_omits | {"kernel"}  # the features say it

    def __init__(
        self,
        *,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        domain: domains.Domain | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP,
        kernel: Kernel | None = None,
        features: Features | None = None,
        decision_sets: Literal["private", "public"] = "private",
        tuning: GPTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_kinds(
            domain=domain,
            privacy=privacy,
            kernel=kernel,
            features=features,
            noise=options.get("noise"),
            optional=("domain", "features", "kernel", "noise"),
        )
        rounds = LONGEST_HORIZON if horizon is None else horizon
        super().__init__(
            domain=domain,
            contexts=contexts,
            arms=arms,
            reward_range=reward_range,
            horizon=rounds,
            privacy=privacy,
            **options,
        )
        _checks.one_of(decision_sets, ("private", "public"), name="decision_sets")
        if rounds > LONGEST_HORIZON:
            raise InvalidParameter(f"horizon: int64 sums hold at most {LONGEST_HORIZON} rounds")
        if horizon is not None:
            warn_if_delta_large(privacy.delta, -(-horizon // privacy.rounds_per_user))
        tuning = tuned(tuning, GPTuning)
        self.open_ended = horizon is None
        self.decision_sets = decision_sets
        self.features = features_for(
            self.domain,
            features,
            kernel=kernel,
            n_features=tuning.n_features,
            of_rows=N_FEATURES,
            per_arm=self.menu is not None,
        )
        self.blocks, factor = tuning.schedule(horizon)
        sets = tuning.public_decision_sets
        if sets is not None:
            sets = self.domain.validate(sets, name="public sets")
            if sets.ndim != 3:
                raise InvalidParameter("public_decision_sets: expected shape (S, n, d)")
        self.tuning = replace(tuning, blocks=self.blocks, factor=factor, public_decision_sets=sets)
        self._due = tuple(end + tuning.reporting_delay for end in self.blocks)
        self._boundaries = tuple(index + tuning.lag for index in self._due)
        if tuning.lag:
            self._book.ended = self._rounds_ended
        self._beside, self._drawn_ahead = Beside(), -1
        self._under_way: list[_UnderWay] = []
        self._position_kept = 0
        self._fitted: tuple[int, WeightPosterior | None] = (0, None)
        self._mechanism = BlockRelease(
            factor=factor,
            mechanism=GramVectorMechanism(
                n_features=self.features.n_features,
                supports=self.features.supports,
                rounds_per_user=privacy.rounds_per_user,
                vector_only=decision_sets == "public",
            ),
            noise=self.noise,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            max_rounds=rounds,
        )
        self.features(self.domain.sample(1, np.random.default_rng(0)))  # a map of another domain fails here
        size = self._mechanism.mechanism.size
        self._raw_sums = np.zeros((0, size), dtype=np.int64)  # secret
        self._released = np.zeros((0, size), dtype=np.int64)
        self._grams = np.zeros((0, self.features.n_features, self.features.n_features))
        self._posterior: WeightPosterior | None = None
        self._draws: _Draws | None = None
        self._public_data: tuple[FloatArray, FloatArray] | None = None
        self._public_sets: PublicSets | None = None

    # -- what is promised -----------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-joint DP; the same before, during and after the run."""
        return block_release_guarantee(
            self.privacy,
            self._mechanism,
            setting=Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids),
            public_decision_sets=self.decision_sets == "public",
        )

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """Round indices at which released statistics can change: ask in batches between them."""
        return self._boundaries

    @property
    def released(self) -> IntArray:
        """(blocks released, D) what has been released, in units of `prefix_sums.RELEASE_UNIT`."""
        return self._released[: self._blocks_out].copy()

    @property
    def _blocks_out(self) -> int:
        """Releases that are durable; one whose saving failed has not left and is not shown."""
        return (0, *self.blocks).index(self._settled)

    # -- releasing ------------------------------------------------------------------------------

    @property
    def _rounds_out(self) -> int:
        return (0, *self.blocks)[len(self._released)]

    def _is_due(self) -> bool:
        block = len(self._released)
        return block < len(self.blocks) and self._book.asked >= self.batch_boundaries[block]

    def _release(self) -> None:
        if self.tuning.lag:
            made = next(one for one in self._under_way if one.block == len(self._released))
            drawn, posterior = self._wait_for(made)
            self._position_kept, self._fitted = made.noise_position, (made.block + 1, posterior)
        else:
            block, before = len(self._released), _Drawn(self._raw_sums, self._released, self._grams)
            drawn = self._draw(block, self._closing(block), before, self._posterior)
        self._raw_sums, self._released, self._grams = drawn

    def _closing(self, block: int) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
        """Copies of a block's rows, whose release is entered into the log before its noise is drawn."""
        rows = self._book.block((0, *self.blocks)[block], self.blocks[block])
        self._enter_release(self._uses()[0], block)
        return rows

    def _draw(
        self,
        block: int,
        rows: tuple[FloatArray, FloatArray, BoolArray, BoolArray],
        before: _Drawn,
        posterior: WeightPosterior | None,
    ) -> _Drawn:
        """Where raw data meets noise: encode the block, mix it with the earlier ones, add noise."""
        actions, rewards, told, refused = rows
        features = in_fixed_shapes(self.features, actions)
        if self.decision_sets == "public":
            answered = features[~refused]
            gram = answered.T @ answered
        else:
            gram = len(actions) * self._expected_gram(block, posterior)
        centred = self.reward_range.to_centred(rewards[told])
        sums = self._mechanism.mechanism.encode(features[told], centred)
        raw_sums = np.vstack([before.raw_sums, sums])
        released = np.vstack([before.released, self._mechanism.release(block, raw_sums)])
        return _Drawn(raw_sums, released, np.concatenate([before.grams, gram[None]]))

    # -- beside the answers ---------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.tuning.lag:
            if self._rounds_out > self._settled:  # no new noise before what there is was kept
                self._settle()
            self._begin_releases()
        super()._prepare()
        block = len(self._released)
        if self._drawn_ahead < block < len(self.blocks) and hasattr(self.noise, "prepare"):
            with suppress(RuntimeError):  # no thread to be had: the release draws its noise itself
                self._beside.begin(self._mechanism.prepare)
                self._drawn_ahead = block

    def _rounds_ended(self, asked: int) -> int:
        """Rounds of the blocks that are due once `asked` rounds were asked."""
        return (0, *self.blocks)[bisect_right(self._due, asked)]

    def _begin_releases(self) -> None:
        """Begin the releases that are due, each by the one before it; raise what one of them raised."""
        self._under_way = [one for one in self._under_way if one.block >= len(self._released)]
        for one in self._under_way:
            if one.done is not None and one.done.done():
                self._wait_for(one)
        self._book.end()
        if not self._under_way:
            self._position_kept = super()._noise_position()
        begun = len(self._released) + len(self._under_way)
        for block in range(begun, bisect_right(self._due, self._book.asked)):
            self._under_way.append(_UnderWay(block, self._closing(block)))
        before: Future[_Made] = Future()
        before.set_result((_Drawn(self._raw_sums, self._released, self._grams), self._posterior))
        for one in self._under_way:
            if one.done is None:
                one.done = self._beside.begin(partial(self._make, one, before))
            before = one.done

    def _make(self, one: _UnderWay, before: Future[_Made]) -> _Made:
        """A release and the posterior after it, given those before; raises what those raised."""
        drawn, posterior = before.result()
        if one.drawn is None:
            one.drawn = self._draw(one.block, one.rows, drawn, posterior)
            one.noise_position = super()._noise_position()
        return one.drawn, self._posterior_of(one.drawn)

    def _wait_for(self, one: _UnderWay) -> _Made:
        """What was made; where that failed, the next ask begins it and those after it again."""
        done = one.done
        if done is None:
            raise ProtocolError("the release was not begun: ask again")
        try:
            return done.result()
        except BaseException:
            if done.done():
                for later in self._under_way[self._under_way.index(one) :]:
                    later.done = None
            raise

    def _noise_position(self) -> int:
        return self._position_kept if self._under_way else super()._noise_position()

    def _uses(self) -> tuple[Release, ...]:
        record, drawn = self._mechanism.record(), len(self._released)
        return (Release(purpose="block", record=record, noise=self.noise, drawn=drawn, charge=""),)

    def _expected_gram(self, block: int, posterior: WeightPosterior | None) -> FloatArray:
        """(m, m) mean of phi phi^T when people bring the public sets and this posterior answers."""
        if self._public_sets is None:
            self._public_sets = PublicSets.of(
                self.features, self.domain, self.tuning.public_decision_sets, seed=self.seed
            )
        if posterior is None:
            return self._public_sets.mean_gram_uniform()
        count, size = len(self._public_sets), self.features.n_features
        normals = self._coins.normal(f"public sets/{block}", 0, count, size)
        weights = posterior.sample_weights(normals, scale=self.tuning.thompson_scale)
        return self._public_sets.mean_gram_of_best(weights)

    # -- post-processing of releases ------------------------------------------------------------

    def _fit(self) -> None:
        number, posterior = self._fitted
        if number == 0 or number != len(self._released):
            posterior = self._posterior_of(_Drawn(self._raw_sums, self._released, self._grams))
        self._posterior = posterior

    def _posterior_of(self, drawn: _Drawn) -> WeightPosterior | None:
        """Posterior of the feature weights (rewards centred, width 1) from releases and public data."""
        tuning, supports, k = self.tuning, self.features.supports, len(drawn.released)
        posterior = None
        if k:
            posterior = posterior_from_releases(
                self._mechanism,
                drawn.released,
                drawn.grams,
                block_sizes=np.diff((0.0, *self.blocks[:k])),
                regression=tuning.regression,
                spread=tuning.public_law_spread,
                prior_variance=self._weight_variance,
                supports=supports,
            )
        if self._public_data is not None:
            posterior = posterior or self._prior
            posterior = posterior.given(*self._public_data, reward_variance=REWARD_VARIANCE)
        return posterior

    @property
    def _weight_variance(self) -> float:
        """Of a weight before any data: the function's prior is the same whatever the features' scale."""
        return self.tuning.prior_variance * self.features.scale**2

    @property
    def _prior(self) -> WeightPosterior:
        return WeightPosterior.prior(self._weight_variance, self.features.supports)

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        n_sets, n = candidates.shape[:2]
        if self._posterior is None:
            ties = self._coins.uniform("ties", start, start + n_sets, 1)[:, 0]
            return uniform_choice(ties, n, available)
        scores, ties, done = np.empty((n_sets, n)), np.empty(n_sets), 0
        while done < n_sets:
            first = start + done
            count = min(_AT_ONCE - first % _AT_ONCE, n_sets - done)
            drawn = self._drawn(self._posterior, first // _AT_ONCE)
            here, theirs = slice(done, done + count), slice(first % _AT_ONCE, first % _AT_ONCE + count)
            ties[here] = drawn.ties[theirs]
            scores[here] = self.features.project_each(candidates[here], drawn.weights[theirs])
            done += count
        return best_choice(scores, ties, available), None

    def _drawn(self, posterior: WeightPosterior, number: int) -> _Draws:
        """Draws of `_AT_ONCE` rounds, kept until others are asked for or the posterior changes."""
        drawn = self._draws
        if drawn is None or drawn.number != number or drawn.posterior is not posterior:
            start, stop = number * _AT_ONCE, (number + 1) * _AT_ONCE
            ties = self._coins.uniform("ties", start, stop, 1)[:, 0]
            normals = self._coins.normal("thompson", start, stop, self.features.n_features)
            weights = posterior.sample_weights(normals, scale=self.tuning.thompson_scale)
            drawn = self._draws = _Draws(number, posterior, ties, weights)
        return drawn

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The deviation includes what the features leave out of the kernel; before any release it is the
        prior's.
        """
        mean, spread = (self._posterior or self._prior).predict_function(
            self.features, points, weight_variance=self._weight_variance
        )
        return self.reward_range.from_centred(mean), self.reward_range.width * spread

    @in_turn
    def publish(self) -> PublishedPosterior:
        """What was learned so far: decides for anyone, anywhere, and costs nothing further.

        What is due is released first, as it is before the next ask. Everything in it is computed from
        releases and public numbers.
        """
        self._prepare()
        return PublishedPosterior(
            menu=self.menu,
            domain=self.domain,
            reward_range=self.reward_range,
            features=self.features.written_out(),
            posterior=self._posterior or self._prior,
            weight_variance=self._weight_variance,
            guarantee=self.guarantee,
        )

    def diagnostics(self) -> dict[str, Any]:
        """Public numbers and released quantities."""
        variances = self._mechanism.factor.prefix_variance()
        return {
            **super().diagnostics(),
            "blocks": list(self.blocks),
            "blocks_released": self._blocks_out,
            "gram_noise_sd": self._mechanism.gram_noise_sd,
            "vector_noise_sd": self._mechanism.vector_noise_sd,
            "prefix_noise_factor": [float(np.sqrt(value)) for value in variances],
        }

    # -- configuration and state ----------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew."""
        return super().to_config() | ({"horizon": None} if self.open_ended else {})

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        phi = self.features(points)
        gram, vector = phi.T @ phi, phi.T @ self.reward_range.to_centred(rewards)
        if self._public_data is not None:
            gram, vector = gram + self._public_data[0], vector + self._public_data[1]
        self._public_data = (gram, vector)
        self._fit()

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        gram, vector = self._public_data or (np.zeros((0, 0)), np.zeros(0))
        return {
            "raw_sums": self._raw_sums,
            "released": self._released,
            "grams": self._grams,
            "public_gram": gram,
            "public_vector": vector,
        }

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        raw_sums, released, grams = arrays["raw_sums"], arrays["released"], arrays["grams"]
        gram, vector = arrays["public_gram"], arrays["public_vector"]
        m, size = self.features.n_features, self._mechanism.mechanism.size
        k = len(released)
        summed = all(part.shape == (k, size) and part.dtype == np.int64 for part in (raw_sums, released))
        public = vector.size == 0 or (gram.shape, vector.shape) == ((m, m), (m,))
        if k > len(self.blocks) or not summed or grams.shape != (k, m, m) or not public:
            raise CorruptState("the saved releases contradict the saved configuration")
        self._raw_sums, self._released, self._grams = raw_sums, released, grams
        self._public_data = (gram, vector) if vector.size else None
        self._mechanism = replace(self._mechanism, noise=self.noise)
