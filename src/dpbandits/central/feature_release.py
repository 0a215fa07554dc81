"""Sums of phi phi^T and of centred rewards times features, with Gaussian noise, mixed over the blocks.

It stands beside Dubey2021, Algorithm 1 (a binary tree over all rounds and a positive-definite shift), and
departs from it in every part:

- few uneven blocks and a square root of the lower-triangular ones matrix instead of a tree;
- rewards centred; Gram matrix and vector released jointly, at the price of the vector alone;
- no shift: the Gram is shrunk towards a public prior and made positive semidefinite afterwards, and
  the posterior is generalised least squares on block sums that knows the noise;
- Thompson sampling with a scaled-down covariance instead of confidence bounds that the noise inflates.

Privacy: (epsilon, delta), see `dpbandits.privacy.prefix_sums.blocks`. Raw data meets noise in
`FeatureRelease.draw`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._memory import FLOAT
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.foresight import Foresight, foresight
from dpbandits.central.kinds import BlockRows, Findings, MechanismKind, Past, ScheduleSize, Setup
from dpbandits.central.regression import REWARD_VARIANCE, posterior_from_releases, resolved
from dpbandits.central.schedule import BLOCKS_A_HALF_LIFE
from dpbandits.central.statement import Setting, block_release_guarantee
from dpbandits.errors import CorruptState
from dpbandits.models.decision_sets import PublicSets, public_rows
from dpbandits.models.features import Features, Placed, block_entries, blocks_of, in_fixed_shapes
from dpbandits.models.forgetting import kept_after
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PublicCoins
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.prefix_sums import BlockRelease

__all__ = ["FeaturePast", "FeatureRelease"]

CERTAIN = 4.0
"""Standard deviations by which a finding exceeds the noise. Noise alone does that once in 30,000 runs."""

FEW_TOLD = 0.5
"""Share of the rounds that count, below which diagnostics warn."""

FEW = (
    "The released Gram matrix tells of about {told:.0%} of the rounds. The others have no reward yet, or "
    "contexts, candidates or rewards that could not be used: look at refused decisions and at the receipts "
    "of tell."
)

N_FEATURES = 20
"""Features of candidates, where their number is not said."""

ALL_SOLVED = 32
"""Features of a support up to which all weights are solved for: leaving some out would save next to nothing.
"""

_ROWS_TOGETHER = 4096
"""Rows of a block that have features at once; a multiple of what `in_fixed_shapes` computes at once."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FeaturePast(Past):
    """Data of the first k blocks.

    Attributes:
        raw_sums: (k, D), secret: later releases mix them again.
        mixed: (k, D) what was released, in units of `prefix_sums.RELEASE_UNIT`.
        grams: (k, C) expected Gram matrices by support, or the exact ones where decision sets are public.
    """

    raw_sums: IntArray
    mixed: IntArray
    grams: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks released."""
        return len(self.mixed)

    def released(self, count: int) -> IntArray:
        """(count, D)."""
        return self.mixed[:count].copy()

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a state, by name: secret."""
        return {"raw_sums": self.raw_sums, "released": self.mixed, "grams": self.grams}


class FeatureRelease(MechanismKind[FloatArray | None, FeaturePast]):
    """Mixed block sums with Gaussian noise; a design is the block's expected Gram matrix (C,) by support.

    Args:
        setup: public arguments of the policy.

    Raises:
        InvalidParameter: arguments that do not fit.
    """

    name = "features"
    mechanism: BlockRelease

    def __init__(self, setup: Setup) -> None:
        tuning = setup.tuning
        self.features = setup.learned_in(of_rows=N_FEATURES)
        self.blocks, factor = tuning.schedule(setup.horizon)
        self.tuning = self.filled(tuning, blocks=self.blocks, factor=factor)
        self._setup = setup
        self.mechanism = BlockRelease(
            factor=factor,
            mechanism=GramVectorMechanism(
                n_features=self.features.n_features,
                supports=self.features.supports,
                rounds_per_user=setup.privacy.rounds_per_user,
                vector_only=setup.tuning.decision_sets == "public",
            ),
            noise=setup.noise,
            epsilon=setup.privacy.epsilon,
            delta=setup.privacy.delta,
            max_rounds=setup.longest,
        )
        self._public_sets: PublicSets | None = None
        self._squares: tuple[Features, FloatArray | None] | None = None

    def bytes_needed(self) -> float:
        """See `Kind.bytes_needed`; linear in supports, and quadratic in features of one and in blocks."""
        setup, supports, public = self._setup, self.features.supports, self.mechanism.mechanism
        held, widest = ScheduleSize.of(self.blocks, setup), max(high - low for low, high in supports)
        solved, entries = widest, block_entries(supports)
        if (largest := self._largest()) is not None:
            solved = len(resolved(largest, rounds=self.blocks[-1]))
        rows = public_rows(setup.domain, self.tuning.public_decision_sets) * widest
        past = held.blocks * (2 * public.size + entries)
        drawing = past + 3 * held.blocks * public.size + 5 * held.longest * widest
        forget, fitted = self.tuning.forget, held.blocks
        if forget is not None:  # older ones are left out: see `regression.FORGOTTEN`
            fitted = min(fitted, 10 * BLOCKS_A_HALF_LIFE)
        joint = fitted * solved  # the largest system has a row for each feature of each block
        fitting = fitted * (5 * public.size + 2 * entries + 6 * widest**2) + joint * (
            1.5 * joint + 4 * solved
        )
        drawn = 3 * 32 * self.features.n_features
        return FLOAT * (past + 2 * entries + rows + drawn + max(drawing, fitting, rows)) + held.book

    def record(self) -> MechanismRecord:
        """Its one use of noise, for the log of releases."""
        return self.mechanism.record()

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """(epsilon, delta)-joint DP; the same before, during and after the run."""
        public = self._setup.tuning.decision_sets == "public"
        return block_release_guarantee(privacy, self.mechanism, setting=setting, public_decision_sets=public)

    def nothing(self) -> FeaturePast:
        """The past before any release."""
        size = self.mechanism.mechanism.size
        return FeaturePast(
            raw_sums=np.zeros((0, size), dtype=np.int64),
            mixed=np.zeros((0, size), dtype=np.int64),
            grams=np.zeros((0, block_entries(self.features.supports))),
        )

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> FloatArray | None:
        """Rounds of the block times the mean of phi phi^T when people bring the public sets and are answered
        by this posterior; None where decision sets are public, and their Gram is exact.
        """
        if self._setup.tuning.decision_sets == "public":
            return None
        if self._public_sets is None:
            self._public_sets = PublicSets.of(
                self.features, self._setup.domain, self.tuning.public_decision_sets, seed=self._setup.seed
            )
        sets, rounds = self._public_sets, self.rounds(block)
        if posterior is None:
            return rounds * sets.mean_gram_uniform()
        normals = coins.normal(f"public sets/{block}", 0, len(sets), self.features.n_features)
        return rounds * sets.mean_gram_of_best(self.weights(posterior, normals))

    def _largest(self) -> FloatArray | None:
        """(m,) at most how much of the function's prior variance is each feature's; None to solve for all.

        All are, too, where functions are believed to be flatter than by default: whoever takes the highest
        point looks at their shape, of which small features tell as much then as large ones.
        """
        features, variance = self.features, self.weight_variance
        few = max(high - low for low, high in features.supports) <= ALL_SOLVED
        if few or variance < self.prior_variance * features.scale**2:
            return None
        if self._squares is None or self._squares[0] is not features:
            self._squares = features, features.largest_squares(self._setup.domain)
        squares = self._squares[1]
        return None if squares is None else variance * squares

    def draw(self, block: int, rows: BlockRows, design: FloatArray | None, past: FeaturePast) -> FeaturePast:
        """Release a block. Raw data meets noise here: the block is encoded, mixed with earlier ones, and
        noise is added.

        Only some rows have features at once, so that the memory does not grow with the block. Encoded sums
        are integers: those of all parts add up to exactly that of the block, whose sensitivity is unchanged.
        """
        actions, rewards, told, refused = rows
        sums = np.zeros(self.mechanism.mechanism.size, dtype=np.int64)
        gram, together = (np.zeros(0), len(actions)) if design is None else (design, _ROWS_TOGETHER)
        for start in range(0, len(actions), together):
            part = slice(start, start + together)
            support, phi = self.features.placed(actions[part], through=in_fixed_shapes)
            if (
                design is None
            ):  # then all rows are one part: the last bits of a Gram depend on its sums' order
                gram = Placed(support[~refused], phi[~refused]).gram(self.features.supports)
            used = told[part]
            centred = self._setup.reward_range.to_centred(rewards[part][used])
            sums += self.mechanism.mechanism.encode(phi[used], centred, support=support[used])
        raw_sums = np.vstack([past.raw_sums, sums])
        return FeaturePast(
            raw_sums=raw_sums,
            mixed=np.vstack([past.mixed, self.mechanism.release(block, raw_sums)]),
            grams=np.concatenate([past.grams, gram[None]]),
        )

    def draw_ahead(self) -> Callable[[], None] | None:
        """Draws the next release's noise, where the source can."""
        return self.mechanism.prepare if hasattr(self.noise, "prepare") else None

    def fit(self, past: FeaturePast) -> WeightPosterior | None:
        """The law of the weights, rewards centred and width 1; None where nothing was released."""
        if not past.count:
            return None
        ends = np.array(self.blocks[: past.count])
        return posterior_from_releases(
            self.mechanism,
            past.mixed,
            past.grams,
            block_sizes=np.diff(ends, prepend=0.0),
            kept=None if self.tuning.forget is None else kept_after(ends[-1] - ends, self.tuning.forget),
            prior_variance=self.weight_variance,
            supports=self.features.supports,
            largest=self._largest(),
        )

    def diagnostics(self) -> dict[str, Any]:
        """Public numbers of its noise."""
        variances = self.mechanism.factor.prefix_variance()
        return {
            "gram_noise_sd": self.mechanism.gram_noise_sd,
            "vector_noise_sd": self.mechanism.vector_noise_sd,
            "prefix_noise_factor": [float(np.sqrt(value)) for value in variances],
        }

    def foresight(self) -> Foresight:
        """Forecast of the run from public numbers alone, if its horizon is known."""
        return foresight(
            self.features,
            self._setup.domain,
            rounds=self.blocks[-1],
            noise_sd=self.mechanism.vector_noise_sd * self._growth(len(self.blocks)),
            gram_noise_sd=self.mechanism.gram_noise_sd * self._growth(len(self.blocks)),
            prior_variance=self.weight_variance,
            reward_variance=REWARD_VARIANCE,
        )

    def _growth(self, count: int) -> float:
        """Standard deviation of the noise in the sum of the first `count` blocks, in units of one release."""
        return float(np.sqrt(self.mechanism.factor.prefix_variance()[count - 1]))

    def findings(self, past: FeaturePast, count: int) -> Findings:
        """Compare the released Gram matrix with the one that was expected.

        The trace says how many rounds counted, as feature vectors are about equally long. `law_misfit` is the
        relative deviation of the rest: near 1 where people choose among other points than the public law of
        decision sets has. It is no warning by itself, as the regression corrects for it.
        """
        mechanism = self.mechanism.mechanism
        if not count or mechanism.vector_only:
            return Findings({}, [])
        estimates = self.mechanism.block_estimates(past.mixed[:count]).sum(axis=0)
        grams, noise_sd = (
            mechanism.grams_from_coordinates(estimates),
            self.mechanism.gram_noise_sd * self._growth(count),
        )
        expected = blocks_of(past.grams[:count].sum(axis=0), self.features.supports)
        trace = sum(np.trace(block) for block in expected)
        told = sum(np.trace(block) for block in grams) / trace
        sd = noise_sd * self.features.n_features**0.5 / trace
        numbers = {"told_share": float(told), "told_share_sd": float(sd)}
        if told > CERTAIN * sd:
            known = told * mechanism.gram_to_coordinates(expected)
            rest = mechanism.gram_to_coordinates(grams) - known
            square = max(0.0, float(rest @ rest) - len(rest) * noise_sd**2)
            numbers["law_misfit"] = square**0.5 / float(np.linalg.norm(known))
        found = [FEW.format(told=max(0.0, told))] if told + CERTAIN * sd < FEW_TOLD else []
        return Findings(numbers, found)

    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> FeaturePast:
        """Read the past in a state; CorruptState if this configuration does not write it."""
        raw_sums, mixed, grams = arrays["raw_sums"], arrays["released"], arrays["grams"]
        entries, size, k = block_entries(self.features.supports), self.mechanism.mechanism.size, len(mixed)
        summed = all(part.shape == (k, size) and part.dtype == np.int64 for part in (raw_sums, mixed))
        if k > len(self.blocks) or not summed or grams.shape != (k, entries):
            raise CorruptState("the saved releases contradict the saved configuration")
        return FeaturePast(raw_sums=raw_sums, mixed=mixed, grams=grams)
