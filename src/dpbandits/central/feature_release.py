"""Release of sums of phi phi^T and of centred rewards times features phi, by the matrix mechanism.

The method corresponds to Dubey2021, Algorithm 1 (a binary tree over all rounds and a positive-definite
shift), but every part differs:

- a few uneven blocks and a square root of the lower-triangular matrix of ones instead of a tree;
- rewards are centred; Gram matrix and vector are released jointly, and the vector has no more noise than if
  it were released alone;
- there is no shift: the Gram matrix is shrunk towards a public prior and made positive semidefinite
  afterwards, and the posterior is generalised least squares on block sums with the known noise covariance;
- choices use Thompson sampling with a scaled-down covariance, not confidence bounds, which noise inflates.

Privacy: (epsilon, delta); see `dpbandits.privacy.prefix_sums.blocks`. Noise is added to raw data in
`FeatureRelease.draw` only.
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
"""Number of the noise's standard deviations that a finding must
exceed; noise alone does so once in 30,000 runs.
"""

FEW_TOLD = 0.5
"""Share of the rounds with a reward below which diagnostics warn."""

FEW = (
    "The released Gram matrix covers about {told:.0%} of the rounds. The others have no reward yet, or "
    "contexts, candidates or rewards that could not be used: look at refused decisions and at the receipts "
    "of tell."
)

N_FEATURES = 20
"""Default number of features of candidates."""

ALL_SOLVED = 32
"""Number of features per support up to which all weights are solved
for, as leaving some out saves little time.
"""

_ROWS_TOGETHER = 4096
"""Number of rows whose features are computed together; a multiple of the fixed shape of `in_fixed_shapes`."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FeaturePast(Past):
    """Data of the first k blocks: releases of D numbers each, and raw sums.

    Attributes:
        raw_sums: Raw block sums, (k, D), which are secret. Later releases combine them again.
        mixed: Releases, (k, D), in units of `prefix_sums.RELEASE_UNIT`.
        grams: Expected Gram matrices, as C entries by support, (k, C); exact ones if decision sets are
            public.
    """

    raw_sums: IntArray
    mixed: IntArray
    grams: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks released."""
        return len(self.mixed)

    def released(self, count: int) -> IntArray:
        """Return the first `count` releases, (count, D)."""
        return self.mixed[:count].copy()

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""
        return {"raw_sums": self.raw_sums, "released": self.mixed, "grams": self.grams}


class FeatureRelease(MechanismKind[FloatArray | None, FeaturePast]):
    """Kind of release: block sums, combined by the matrix mechanism, with Gaussian noise.

    A block's design is its expected Gram matrix, as C entries by support.

    Args:
        setup: Public arguments of the policy.

    Raises:
        InvalidParameter: Arguments do not fit together.
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
        """Estimate memory in bytes: linear in supports, quadratic in a support's features and in blocks."""
        setup, supports, public = self._setup, self.features.supports, self.mechanism.mechanism
        held, widest = ScheduleSize.of(self.blocks, setup), max(high - low for low, high in supports)
        solved, entries = widest, block_entries(supports)
        if (largest := self._largest()) is not None:
            solved = len(resolved(largest, rounds=self.blocks[-1]))
        rows = public_rows(setup.domain, self.tuning.public_decision_sets) * widest
        past = held.blocks * (2 * public.size + entries)
        drawing = past + 3 * held.blocks * public.size + 5 * held.longest * widest
        forget, fitted = self.tuning.forget, held.blocks
        if forget is not None:  # the regression leaves out older blocks: see `regression.FORGOTTEN`
            fitted = min(fitted, 10 * BLOCKS_A_HALF_LIFE)
        joint = fitted * solved  # the largest system has a row for each feature of each block
        fitting = fitted * (5 * public.size + 2 * entries + 6 * widest**2) + joint * (
            1.5 * joint + 4 * solved
        )
        drawn = 3 * 32 * self.features.n_features
        return FLOAT * (past + 2 * entries + rows + drawn + max(drawing, fitting, rows)) + held.book

    def record(self) -> MechanismRecord:
        """Return the description of the noise, for the log of releases."""
        return self.mechanism.record()

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Return the (epsilon, delta)-joint DP guarantee, the same before, during and after the run."""
        public, width = self._setup.tuning.decision_sets == "public", self._setup.reward_range.width
        return block_release_guarantee(
            privacy, self.mechanism, width=width, setting=setting, public_decision_sets=public
        )

    def nothing(self) -> FeaturePast:
        """Return the past before any release."""
        size = self.mechanism.mechanism.size
        return FeaturePast(
            raw_sums=np.zeros((0, size), dtype=np.int64),
            mixed=np.zeros((0, size), dtype=np.int64),
            grams=np.zeros((0, block_entries(self.features.supports))),
        )

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> FloatArray | None:
        """Return the expected sum of phi phi^T over the block; None if decision sets are public.

        The expectation is for users with the public decision sets, for whom this posterior chooses. If
        users' decision sets are public, the exact Gram matrix is used instead.
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
        """Return bounds (m,) on each feature's part of the function's prior variance; None to solve for all
        weights.

        All weights are also solved for if the prior variance is below the default. For such flat functions,
        small features are as informative about the position of the maximum as large ones.
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
        """Return the past with the release of a block; raw data is encoded, combined and noised here.

        Features are computed for some rows at a time, so that memory does not grow with the block. Encoded
        sums are integers, so the sums of all parts add up to exactly the sum of the block, and its
        sensitivity is unchanged.
        """
        actions, rewards, told, refused = rows
        sums = np.zeros(self.mechanism.mechanism.size, dtype=np.int64)
        gram, together = (np.zeros(0), len(actions)) if design is None else (design, _ROWS_TOGETHER)
        for start in range(0, len(actions), together):
            part = slice(start, start + together)
            support, phi = self.features.placed(actions[part], through=in_fixed_shapes)
            if design is None:
                # All rows are one part here: the last bits of a Gram depend on the order of its sums.
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
        """Return a function that draws the noise of the next release; None if the source cannot do that."""
        return self.mechanism.prepare if hasattr(self.noise, "prepare") else None

    def fit(self, past: FeaturePast) -> WeightPosterior | None:
        """Return the posterior of the weights, for centred rewards in a range of width 1; None before any
        release.
        """
        if not past.count:
            return None
        ends = np.array(self.blocks[: past.count])
        return posterior_from_releases(
            self.mechanism,
            past.mixed,
            past.grams,
            block_sizes=self._setup.learning_share * np.diff(ends, prepend=0.0),
            kept=None if self.tuning.forget is None else kept_after(ends[-1] - ends, self.tuning.forget),
            prior_variance=self.weight_variance,
            supports=self.features.supports,
            largest=self._largest(),
        )

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers about the noise."""
        variances = self.mechanism.factor.prefix_variance()
        return {
            "gram_noise_sd": self.mechanism.gram_noise_sd,
            "vector_noise_sd": self.mechanism.vector_noise_sd,
            "prefix_noise_factor": [float(np.sqrt(value)) for value in variances],
        }

    def foresight(self) -> Foresight:
        """Return the forecast of the run from public numbers alone, if its horizon is known."""
        return foresight(
            self.features,
            self._setup.domain,
            rounds=round(self._setup.learning_share * self.blocks[-1]),
            noise_sd=self.mechanism.vector_noise_sd * self._growth(len(self.blocks)),
            gram_noise_sd=self.mechanism.gram_noise_sd * self._growth(len(self.blocks)),
            prior_variance=self.weight_variance,
            reward_variance=REWARD_VARIANCE,
        )

    def _growth(self, count: int) -> float:
        """Return the noise deviation of the first `count` blocks' sum, relative to that of one release."""
        return float(np.sqrt(self.mechanism.factor.prefix_variance()[count - 1]))

    def findings(self, past: FeaturePast, count: int) -> Findings:
        """Compare the released Gram matrix with the expected one.

        Feature vectors are about equally long, so the trace estimates the number of rounds that counted.
        `law_misfit` is the relative deviation of the rest of the matrix. It is near 1 if users' candidates
        differ from those of the public law of decision sets. It is no warning by itself, as the regression
        corrects for such a difference.
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
        """Return the past that a state saved.

        Raises:
            CorruptState: This configuration does not write such arrays.
        """
        raw_sums, mixed, grams = arrays["raw_sums"], arrays["released"], arrays["grams"]
        entries, size, k = block_entries(self.features.supports), self.mechanism.mechanism.size, len(mixed)
        summed = all(part.shape == (k, size) and part.dtype == np.int64 for part in (raw_sums, mixed))
        if k > len(self.blocks) or not summed or grams.shape != (k, entries):
            raise CorruptState("the saved releases contradict the saved configuration")
        return FeaturePast(raw_sums=raw_sums, mixed=mixed, grams=grams)
