"""Kinds of release that a `GPBandit` can make of a block, and what they have in common.

A policy asks and tells, keeps its book, its log of releases and its state; how it learns is a `Kind`:

| step | sees | gives |
|---|---|---|
| `design` | past releases (their posterior), public coins | what is public of the block that closes |
| `draw` | the block's rows, its design | the past with one release more: here raw data meets noise |
| `fit` | the past | the law of feature weights that answers come from |

Everything but `draw` is computed from releases and public numbers. A kind says of its noise what it is
(`record`) and what that promises (`guarantee`); its `Past` is what a state keeps of it.

To add one: a subclass of `Kind`, or of `MechanismKind`, and one of `Past`, its name in `GPTuning.release` and
`gp_bandit.KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from dpbandits._memory import FLOAT
from dpbandits._threads import one_thread
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.central.foresight import Foresight
from dpbandits.central.regression import REWARD_VARIANCE
from dpbandits.central.statement import Setting
from dpbandits.central.tuning import GPTuning, KindName
from dpbandits.domains import Domain, RewardRange
from dpbandits.models.features import Features, blocks_of
from dpbandits.models.features.maximise import Maximiser
from dpbandits.models.features.people import features_for
from dpbandits.models.forgetting import kept_after
from dpbandits.models.kernels import Kernel
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PublicCoins, best_choice, best_row, uniform_choice
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.tables.menu import Menu

__all__ = ["BlockRows", "Findings", "Kind", "MechanismKind", "Past", "ScheduleSize", "Setup"]

_AT_ONCE = 32
"""Rounds whose Thompson weights are drawn in one product, which rounds by its shape: it is the same one
however they are asked, round by round or in batches."""


class BlockRows(NamedTuple):
    """Copies of a block's rounds, as `RoundBook.block` gives them: secret.

    Attributes:
        actions: (n, d), every round of the block.
        rewards: (n,), of those that were told.
        told: (n,) whether a reward counts.
        refused: (n,) whether the decision set was bad, and a public point stands in for it.
    """

    actions: FloatArray
    rewards: FloatArray
    told: BoolArray
    refused: BoolArray

    def __repr__(self) -> str:
        return "BlockRows()"


class Past(ABC):
    """Releases of the first blocks, and the raw data that the next release needs; never changed."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of blocks released."""

    @abstractmethod
    def released(self, count: int) -> IntArray:
        """Return the releases of the first `count` blocks, as integers."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a state, by name: secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The public arguments of a `GPBandit` that a kind is built from; see there.

    Args:
        horizon: None where it is not known.
        longest: rounds at most.
        charged: whether a ledger's account pays.
    """

    domain: Domain
    menu: Menu | None
    reward_range: RewardRange
    horizon: int | None
    longest: int
    privacy: JointDP
    kernel: Kernel | None
    tuning: GPTuning
    noise: NoiseSource
    seed: Seed
    charged: bool

    def learned_in(self, *, of_rows: int) -> Features:
        """The features that were given, or those of the kernel; InvalidParameter as `features_for`.

        Args:
            of_rows: their number over the domain, where none is given.
        """
        return features_for(
            self.domain,
            self.tuning.features,
            kernel=self.kernel,
            n_features=self.tuning.n_features,
            of_rows=of_rows,
            per_arm=self.menu is not None,
        )


class ScheduleSize(NamedTuple):
    """Sizes of a schedule that take memory; of an unknown horizon the first 10,000 rounds are counted.

    Attributes:
        blocks: number of blocks.
        longest: rounds of the longest one.
        book: bytes of the rounds that no release holds yet, and 150 bytes for every user's count.
    """

    blocks: int
    longest: int
    book: float

    @classmethod
    def of(cls, blocks: tuple[int, ...], setup: Setup) -> "ScheduleSize":
        """Compute the sizes from the ends of the blocks."""
        rounds = 10_000 if setup.horizon is None else setup.horizon
        ends = [0, *(end for end in blocks if end < rounds), rounds]
        longest = int(np.diff(ends).max())
        book = 2.0 * FLOAT * longest * (setup.domain.dim + 1) + 150.0 * rounds
        return cls(len(ends) - 1, longest, book)


class Findings(NamedTuple):
    """Findings of releases about a run.

    Attributes:
        numbers: entries of `GPBandit.diagnostics`.
        warnings: sentences: what the releases contradict, and what to do.
    """

    numbers: dict[str, Any]
    warnings: list[str]


class _Draws(NamedTuple):
    """Public draws of the rounds `number` * `_AT_ONCE` ..

    Attributes:
        number, posterior, features: by which they were drawn.
        ties: (n,) coins.
        weights: (n, m) Thompson weights.
        to_score: the same as `Features.scores_of_known` takes them.
    """

    number: int
    posterior: WeightPosterior
    features: Features
    ties: FloatArray
    weights: FloatArray
    to_score: FloatArray


P = TypeVar("P", bound=Past)
D = TypeVar("D")


class Kind(ABC, Generic[D, P]):
    """One kind of release. D is the type of a block's design, P of its past.

    Attributes:
        name: in `GPTuning.release`.
        tuning: with everything filled in that was left to the kind.
        blocks: ends of the blocks.
        features: of points, in whose weights it learns.
        noise: where the noise comes from.
        prior_variance, thompson_scale: defaults of `GPTuning`'s.
        draws_every_round: whether `choose` takes another draw of the weights for every round, so that
            `choose_one` does as it.
        counted_first: number of blocks at the beginning whose releases say nothing of rewards.
    """

    name: ClassVar[KindName]
    prior_variance: ClassVar[float] = 0.2
    thompson_scale: ClassVar[float] = 0.25
    draws_every_round: ClassVar[bool] = True
    counted_first: int = 0
    tuning: GPTuning
    blocks: tuple[int, ...]
    features: Features
    noise: NoiseSource
    _draws: _Draws | None = None

    @abstractmethod
    def __init__(self, setup: Setup) -> None:
        """The kind that these arguments describe; InvalidParameter where they do not fit it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @classmethod
    def filled(cls, tuning: GPTuning, **found: Any) -> GPTuning:
        """The tuning with this kind's name, what was `found`, and its defaults for what was left out."""
        variance, scale = tuning.prior_variance, tuning.thompson_scale
        return replace(
            tuning,
            release=cls.name,
            prior_variance=cls.prior_variance if variance is None else variance,
            thompson_scale=cls.thompson_scale if scale is None else scale,
            **({"census": None} | found),
        )

    def rounds(self, block: int) -> int:
        """Rounds of a block."""
        return int(np.diff((0, *self.blocks))[block])

    @abstractmethod
    def bytes_needed(self) -> float:
        """Estimate the peak memory of a policy of this kind, in bytes, from public numbers alone.

        `python -m benchmarks.memory` compares the estimate with measured peaks.
        """

    # -- what is promised -----------------------------------------------------------------------

    @abstractmethod
    def record(self) -> MechanismRecord:
        """Its one use of noise, for the log of releases."""

    @abstractmethod
    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """The statement of a policy whose only contact with raw data is `draw`."""

    # -- a release ------------------------------------------------------------------------------

    @abstractmethod
    def nothing(self) -> P:
        """The past before any release."""

    @abstractmethod
    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> D:
        """Return the public design of a block, from the posterior of past releases and public coins alone."""

    @abstractmethod
    def draw(self, block: int, rows: BlockRows, design: D, past: P) -> P:
        """Release a block. Raw data meets noise here: the block's rows are encoded, and noise is added.

        Args:
            block: its number, that of releases in the past.
            rows: every round of the block; what is not told contributes nothing.
            design: of this block.
            past: before it.
        """

    def draw_ahead(self) -> Callable[[], None] | None:
        """A call that draws the next release's noise ahead of time; None where that gains nothing."""
        return None

    # -- post-processing ------------------------------------------------------------------------

    @abstractmethod
    def fit(self, past: P) -> WeightPosterior | None:
        """The law of the weights, rewards centred and width 1; None where nothing was released."""

    def says_nothing(self, posterior: WeightPosterior | None) -> bool:
        """Return whether a law of the weights rests on no release of rewards and no public data."""
        return posterior is None

    def believed(self, past: P, public: tuple[FloatArray, FloatArray] | None) -> WeightPosterior | None:
        """The law of the weights after `past` and public data: Gram (C,) and vector; see `fit`."""
        posterior = self.fit(past)
        if public is None:
            return posterior
        share = float(kept_after((0, *self.blocks)[past.count], self.tuning.forget))
        grams, vector = blocks_of(share * public[0], self.features.supports), share * public[1]
        return (posterior or self.prior).given(grams, vector, reward_variance=REWARD_VARIANCE)

    def kept(self, count: int) -> FloatArray:
        """(count,) what counts of all that was known before it, when each of the first blocks ends."""
        return np.asarray(kept_after(np.diff((0.0, *self.blocks[:count])), self.tuning.forget))

    def answering(
        self, posterior: WeightPosterior, features: Features, *, released: int, informed: bool = False
    ) -> WeightPosterior:
        """Return the law that people are answered by: computed from published and public numbers alone.

        Args:
            posterior: the published law of the weights.
            features: the published features.
            released: number of releases that it rests on.
            informed: whether it rests on `warm_start` as well.
        """
        return posterior

    def features_of(self, posterior: WeightPosterior) -> Features:
        """The features whose weights a law is of: those of the kind, unless it learns more as it goes."""
        return self.features

    @property
    def weight_variance(self) -> float:
        """Prior variance of a weight: the function's prior does not depend on the features' scale."""
        variance = self.tuning.prior_variance
        return (self.prior_variance if variance is None else variance) * self.features.scale**2

    @property
    def prior(self) -> WeightPosterior:
        """The law of the weights before any data."""
        return WeightPosterior.prior(self.weight_variance, self.features.supports)

    def weights(self, posterior: WeightPosterior, normals: FloatArray) -> FloatArray:
        """Thompson weights (k, m) from public standard normals (k, m)."""
        scale = self.tuning.thompson_scale
        with one_thread():
            return posterior.sample_weights(normals, scale=self.thompson_scale if scale is None else scale)

    def choose(
        self,
        posterior: WeightPosterior | None,
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
        coins: PublicCoins,
    ) -> tuple[IntArray, FloatArray | None]:
        """Rows (B,) and propensities (B,) or None for decision sets (B, n, d) of rounds start..

        Uniform before any release; then the best under public Thompson weights, another draw every round.
        """
        n_sets, n = candidates.shape[:2]
        if posterior is None:
            ties = coins.uniform("ties", start, start + n_sets, 1)[:, 0]
            return uniform_choice(ties, n, available)
        parts = [
            (self.features.scores_of_known(candidates[here], drawn.to_score[theirs]), drawn.ties[theirs])
            for here, theirs, drawn in self._drawn_for(posterior, start, n_sets, coins)
        ]
        scores, ties = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return best_choice(scores, ties, available), None

    def choose_one(
        self, posterior: WeightPosterior, candidates: FloatArray, start: int, coins: PublicCoins
    ) -> int:
        """`choose` for one decision set (n, d), all of it available, once there was a release."""
        drawn, place = self._drawn(posterior, start // _AT_ONCE, coins), start % _AT_ONCE
        weights = drawn.to_score[place : place + 1]
        scores = self.features.scores_of_known(candidates[None], weights)[0]
        return best_row(scores, lambda: drawn.ties.item(place))

    def choose_over(
        self,
        whole: Maximiser,
        posterior: WeightPosterior | None,
        start: int,
        count: int,
        coins: PublicCoins,
    ) -> FloatArray:
        """Points (count, d) of the whole domain for rounds start..: where the functions drawn are highest.

        Before any release they are points of public coins.
        """
        if posterior is None:
            return whole.drawn(coins.uniform("ties", start, start + count, 1)[:, 0])
        drawn = self._drawn_for(posterior, start, count, coins)
        return np.concatenate([whole.of_weights(one.weights[theirs]) for _, theirs, one in drawn])

    def draws_for(self, posterior: WeightPosterior, start: int, count: int, coins: PublicCoins) -> FloatArray:
        """Thompson weights (count, m) of rounds start..: public, like the coins and the posterior."""
        drawn = self._drawn_for(posterior, start, count, coins)
        return np.concatenate([one.weights[theirs] for _, theirs, one in drawn])

    def _drawn_for(
        self, posterior: WeightPosterior, start: int, count: int, coins: PublicCoins
    ) -> Iterator[tuple[slice, slice, _Draws]]:
        """Yield places of rounds among `count` from `start` on, places in a set of draws, and the draws."""
        done = 0
        while done < count:
            first = start + done
            k = min(_AT_ONCE - first % _AT_ONCE, count - done)
            drawn = self._drawn(posterior, first // _AT_ONCE, coins)
            yield slice(done, done + k), slice(first % _AT_ONCE, first % _AT_ONCE + k), drawn
            done += k

    def _drawn(self, posterior: WeightPosterior, number: int, coins: PublicCoins) -> _Draws:
        """Draws of `_AT_ONCE` rounds, kept until others are asked for or the posterior changes."""
        drawn, features = self._draws, self.features_of(posterior)
        same = drawn is not None and drawn.posterior is posterior and drawn.features is features
        if drawn is None or drawn.number != number or not same:
            start, stop = number * _AT_ONCE, (number + 1) * _AT_ONCE
            ties = coins.uniform("ties", start, stop, 1)[:, 0]
            weights = self.weights(posterior, coins.normal("thompson", start, stop, features.n_features))
            with one_thread():
                to_score = features.to_score(weights)
            drawn = _Draws(number, posterior, features, ties, weights, to_score)
            self._draws = drawn
        return drawn

    @abstractmethod
    def foresight(self) -> Foresight | None:
        """Return the forecast for a run of known horizon from public numbers; None if they do not suffice."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """Public numbers of its noise."""

    @abstractmethod
    def findings(self, past: P, count: int) -> Findings:
        """Return the findings of the first `count` releases about the run: post-processing.

        Privacy: reads what was released and what is public, never raw sums.
        """

    # -- state ----------------------------------------------------------------------------------

    @abstractmethod
    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> P:
        """The past that a state kept.

        Raises:
            CorruptState: arrays that this configuration does not write. Whatever is missing or of another
                kind may raise as it does.
        """


class MechanismKind(Kind[D, P]):
    """A kind whose noise one mechanism adds.

    Attributes:
        mechanism: a dataclass that holds the source of the noise.
    """

    mechanism: Any

    @property
    def noise(self) -> NoiseSource:
        """Source of the noise."""
        found: NoiseSource = self.mechanism.noise
        return found

    @noise.setter
    def noise(self, noise: NoiseSource) -> None:
        self.mechanism = replace(self.mechanism, noise=noise)
