"""Kinds of release that a `GPBandit` can make of a block, and their common interface.

A policy handles asks and tells, its rounds, its log of releases and its state. A `Kind` does the learning:

| step | input | result |
|---|---|---|
| `design` | posterior of past releases, public coins | public design of the block that closes |
| `draw` | the block's rows, its design | the past with one more release; noise is added to raw data here |
| `fit` | the past | posterior of feature weights, from which answers are computed |

Only `draw` uses raw data; everything else is computed from releases and public numbers. A kind also returns
the description of its noise (`record`) and its guarantee (`guarantee`). A saved state contains its `Past`.

To add a kind, write a subclass of `Kind`, or of `MechanismKind`, and one of `Past`, and add its name to
`GPTuning.release` and `choice_of_kind.KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
from dpbandits.domains.arms import Label
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
"""Number of rounds whose Thompson weights are drawn in one matrix product.

The shape of a product affects its rounding. A fixed shape gives the same weights for rounds that are asked
one by one and in batches.
"""


class BlockRows(NamedTuple):
    """Copies of a block's rounds, as `RoundBook.block` returns them: secret.

    Attributes:
        actions: Actions of all rounds of the block, (n, d).
        rewards: Rewards, (n,), valid if they were told.
        told: Booleans (n,), True if the round has a reward that counts.
        refused: Booleans (n,), True if the decision set was invalid and a public point replaces it.
    """

    actions: FloatArray
    rewards: FloatArray
    told: BoolArray
    refused: BoolArray

    def __repr__(self) -> str:
        return "BlockRows()"

    def only(self, some: BoolArray) -> "BlockRows":
        """Return the block in which rounds outside the mask `some` (n,) contribute nothing."""
        return self._replace(told=self.told & some, refused=self.refused | ~some)


class Past(ABC):
    """Immutable base class of the first blocks' releases, with raw data that the next release needs."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of blocks released."""

    @abstractmethod
    def released(self, count: int) -> IntArray:
        """Return the releases of the first `count` blocks, as integers."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Public arguments of a `GPBandit` from which a kind is built; see `GPBandit`.

    Args:
        horizon: Total number of rounds; None if it is not known.
        longest: Largest possible number of rounds.
        charged: True if an account of a ledger is charged.
        actions: `Actions` that stand for the arms; None if there are arms or a domain.
        learning_share: Expected share of the rounds that learning may use; the others are of a control group.
        minimum: Share of the decisions that an arm gets at least, by label.
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
    actions: Any = None
    learning_share: float = 1.0
    minimum: Mapping[Label, float] = field(default_factory=dict)

    def learned_in(self, *, of_rows: int) -> Features:
        """Return the features that were passed, or features of the kernel; errors are from `features_for`.

        Args:
            of_rows: Number of features over a domain of candidates if no number was passed.
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
    """Sizes of a schedule that determine memory. For an unknown horizon the first 10,000 rounds are counted.

    Attributes:
        blocks: Number of blocks.
        longest: Number of rounds in the longest block.
        book: Bytes of recorded rounds that were not released yet, plus 150 bytes for every user's count.
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
    """Information about a run, computed from its releases.

    Attributes:
        numbers: Entries of `GPBandit.diagnostics`.
        warnings: Sentences about contradictions between releases and assumptions, with remedies.
    """

    numbers: dict[str, Any]
    warnings: list[str]


class _Draws(NamedTuple):
    """Public draws for the `_AT_ONCE` rounds from `number` * `_AT_ONCE` on.

    Attributes:
        number, posterior, features: Inputs of the draws, by which cached draws are recognised.
        ties: Coins that break ties, (n,).
        weights: Thompson weights, (n, m).
        to_score: Thompson weights in the form that `Features.scores_of_known` takes.
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
    """Base class of a kind of release. D is the type of a block's design, P the type of the past.

    Attributes:
        name: Name in `GPTuning.release`.
        tuning: Options with this kind's defaults filled in.
        blocks: Ends of the blocks.
        features: Feature map of points; the kind learns weights of these features.
        noise: Noise source.
        prior_variance, thompson_scale: Defaults of the options of `GPTuning` with these names.
        draws_every_round: True if `choose` draws new weights for every round, so that `choose_one` gives the
            same choices.
        counted_first: Number of blocks at the beginning whose releases contain no rewards.
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
    _setup: Setup
    _draws: _Draws | None = None

    @abstractmethod
    def __init__(self, setup: Setup) -> None:
        """Build the kind from public arguments.

        Raises:
            InvalidParameter: The arguments do not fit this kind.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @classmethod
    def filled(cls, tuning: GPTuning, **found: Any) -> GPTuning:
        """Return `tuning` with this kind's name, the options in `found`, and defaults for other options."""
        variance, scale = tuning.prior_variance, tuning.thompson_scale
        return replace(
            tuning,
            release=cls.name,
            prior_variance=cls.prior_variance if variance is None else variance,
            thompson_scale=cls.thompson_scale if scale is None else scale,
            **({"census": None, "longest_block": None} | found),
        )

    def rounds(self, block: int) -> int:
        """Return the expected number of a block's rounds that learning may use."""
        return max(1, round(self._setup.learning_share * int(np.diff((0, *self.blocks))[block])))

    @abstractmethod
    def bytes_needed(self) -> float:
        """Estimate the peak memory of a policy of this kind, in bytes, from public numbers alone.

        `python -m benchmarks.memory` compares the estimate with measured peaks.
        """

    # -- what is promised -----------------------------------------------------------------------

    @abstractmethod
    def record(self) -> MechanismRecord:
        """Return the description of the kind's noise, for the log of releases."""

    @abstractmethod
    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Return the statement of a policy that touches raw data only in `draw`."""

    # -- a release ------------------------------------------------------------------------------

    @abstractmethod
    def nothing(self) -> P:
        """Return the past before any release."""

    @abstractmethod
    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> D:
        """Return the public design of a block, from the posterior of past releases and public coins."""

    @abstractmethod
    def draw(self, block: int, rows: BlockRows, design: D, past: P) -> P:
        """Return the past with the release of a block, whose rows are encoded and noised here.

        Args:
            block: Index of the block, equal to the number of releases in the past.
            rows: All rounds of the block; rounds without a reward contribute nothing.
            design: Design of this block.
            past: Past before this block.
        """

    def draw_ahead(self) -> Callable[[], None] | None:
        """Return a function that draws the noise of the next release; None if drawing ahead saves no time."""
        return None

    # -- post-processing ------------------------------------------------------------------------

    @abstractmethod
    def fit(self, past: P) -> WeightPosterior | None:
        """Return the posterior of the weights, for centred rewards in a range of width 1; None before any
        release.
        """

    def says_nothing(self, posterior: WeightPosterior | None) -> bool:
        """Return True if a posterior is based on no release of rewards and no public data."""
        return posterior is None

    def believed(self, past: P, public: tuple[FloatArray, FloatArray] | None) -> WeightPosterior | None:
        """Return the posterior of the weights from the releases in `past` and public data; see `fit`.

        Args:
            past: Releases so far.
            public: Gram matrix, as C entries by support, and vector of public data; None without public
                data.
        """
        posterior = self.fit(past)
        if public is None:
            return posterior
        share = float(kept_after((0, *self.blocks)[past.count], self.tuning.forget))
        grams, vector = blocks_of(share * public[0], self.features.supports), share * public[1]
        return (posterior or self.prior).given(grams, vector, reward_variance=REWARD_VARIANCE)

    def kept(self, count: int) -> FloatArray:
        """Return the factors (count,) by which earlier information is multiplied at the end of each block."""
        return np.asarray(kept_after(np.diff((0.0, *self.blocks[:count])), self.tuning.forget))

    def answering(
        self, posterior: WeightPosterior, features: Features, *, released: int, informed: bool = False
    ) -> WeightPosterior:
        """Return the posterior with which users are answered, from published and public numbers only.

        Args:
            posterior: Published posterior of the weights.
            features: Published features.
            released: Number of releases from which the posterior was computed.
            informed: True if the posterior also includes data from `warm_start`.
        """
        return posterior

    def features_of(self, posterior: WeightPosterior) -> Features:
        """Return the features of a posterior's weights: the kind's, unless it adds features later."""
        return self.features

    @property
    def weight_variance(self) -> float:
        """Prior variance of a weight, multiplied so that the features' `scale` does not change the prior."""
        variance = self.tuning.prior_variance
        return (self.prior_variance if variance is None else variance) * self.features.scale**2

    @property
    def prior(self) -> WeightPosterior:
        """Prior of the weights."""
        return WeightPosterior.prior(self.weight_variance, self.features.supports)

    def weights(self, posterior: WeightPosterior, normals: FloatArray) -> FloatArray:
        """Return Thompson weights (k, m) from public standard normals (k, m)."""
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
        """Choose a row of each of B decision sets (B, n, d), for B rounds from `start` on.

        The result is the rows (B,), and their propensities (B,) or None. Before any release the choice is
        uniform. Later it maximises the score under public Thompson weights, which are drawn anew for every
        round.
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
        """Choose a row of one decision set (n, d), all available, as `choose` does after a release."""
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
        """Return points (count, d) of the whole domain that maximise the sampled functions of rounds from
        `start`.

        Before any release they are random points from public coins.
        """
        if posterior is None:
            return whole.drawn(coins.uniform("ties", start, start + count, 1)[:, 0])
        drawn = self._drawn_for(posterior, start, count, coins)
        return np.concatenate([whole.of_weights(one.weights[theirs]) for _, theirs, one in drawn])

    def draws_for(self, posterior: WeightPosterior, start: int, count: int, coins: PublicCoins) -> FloatArray:
        """Return the Thompson weights (count, m) of rounds from `start` on. They are public."""
        drawn = self._drawn_for(posterior, start, count, coins)
        return np.concatenate([one.weights[theirs] for _, theirs, one in drawn])

    def _drawn_for(
        self, posterior: WeightPosterior, start: int, count: int, coins: PublicCoins
    ) -> Iterator[tuple[slice, slice, _Draws]]:
        """Yield the draws for `count` rounds from `start` on.

        Each entry is a slice of these rounds, the slice of a set of draws that belongs to them, and that
        set.
        """
        done = 0
        while done < count:
            first = start + done
            k = min(_AT_ONCE - first % _AT_ONCE, count - done)
            drawn = self._drawn(posterior, first // _AT_ONCE, coins)
            yield slice(done, done + k), slice(first % _AT_ONCE, first % _AT_ONCE + k), drawn
            done += k

    def _drawn(self, posterior: WeightPosterior, number: int, coins: PublicCoins) -> _Draws:
        """Return the draws for `_AT_ONCE` rounds, from a cache if rounds and posterior are those of the last
        call.
        """
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
        """Return the forecast for a run from public numbers; None if they do not suffice."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers about the noise."""

    @abstractmethod
    def findings(self, past: P, count: int) -> Findings:
        """Return information about the run, computed from the first `count` releases.

        Privacy: reads releases and public numbers, never raw sums.
        """

    # -- state ----------------------------------------------------------------------------------

    @abstractmethod
    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> P:
        """Return the past that a state saved.

        Raises:
            CorruptState: This configuration does not write such arrays. Missing arrays, or arrays of another
                type, may raise other errors.
        """


class MechanismKind(Kind[D, P]):
    """Base class of kinds that add noise by one mechanism.

    Attributes:
        mechanism: Mechanism, with the noise source as its attribute `noise`.
    """

    mechanism: Any

    @property
    def noise(self) -> NoiseSource:
        """Noise source."""
        found: NoiseSource = self.mechanism.noise
        return found

    @noise.setter
    def noise(self, noise: NoiseSource) -> None:
        self.mechanism = replace(self.mechanism, noise=noise)
