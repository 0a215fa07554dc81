"""Release of sums of phi phi^T and of centred rewards times features, by the matrix mechanism.

The method corresponds to Dubey2021, Algorithm 1 (a binary tree over all rounds and a positive-definite
shift), but every part differs:

- a few uneven blocks and a square root of the lower-triangular matrix of ones instead of a tree;
- centred rewards; Gram matrix and vector released jointly, with the noise of the vector alone;
- no shift: the Gram is shrunk towards a public prior and made positive semidefinite afterwards, and
  the posterior is generalised least squares on block sums with the known noise covariance;
- Thompson sampling with a scaled-down covariance instead of confidence bounds, which noise inflates.

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
"""Standard deviations by which a finding must exceed the noise. Noise alone does that once in 30,000 runs."""

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
"""Number of features per support up to which all weights are solved for: leaving some out saves little."""

_ROWS_TOGETHER = 4096
"""Rows whose features are computed together; a multiple of the fixed shape of `in_fixed_shapes`."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FeaturePast(Past):
    """Data of the first k blocks.

    Attributes:
        raw_sums: Raw block sums, (k, D), secret: later releases mix them again.
        mixed: Releases, (k, D), in units of `prefix_sums.RELEASE_UNIT`.
        grams: Expected Gram matrices by support, (k, C), or the exact ones if decision sets are public.
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
        """Return the arrays of a state, by name: secret."""
        return {"raw_sums": self.raw_sums, "released": self.mixed, "grams": self.grams}


class FeatureRelease(MechanismKind[FloatArray | None, FeaturePast]):
    """Mixed block sums with Gaussian noise. A design is the block's expected Gram matrix (C,) by support.

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
        """Return the (epsilon, delta)-joint DP guarantee: the same before, during and after the run."""
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

        The expectation is for users with the public sets that this posterior answers. With public decision
        sets the exact Gram is used.
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
        """Return bounds (m,) on each feature's part of the function's prior variance; None to solve for all.

        All are also solved for if the prior variance is below the default. For such flat functions, small
        features say as much about the position of the maximum as large ones.
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
        """Release a block. Raw data meets noise here: the block is encoded and mixed, and noise is added.

        Features are computed for some rows at a time, so that memory does not grow with the block. Encoded
        sums are integers. The sums of all parts add up to exactly that of the block, so its sensitivity is
        unchanged.
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
        """Return a function that draws the next release's noise, if the source can."""
        return self.mechanism.prepare if hasattr(self.noise, "prepare") else None

    def fit(self, past: FeaturePast) -> WeightPosterior | None:
        """Return the law of the weights (rewards centred, range of width 1); None before any release."""
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
            rounds=self.blocks[-1],
            noise_sd=self.mechanism.vector_noise_sd * self._growth(len(self.blocks)),
            gram_noise_sd=self.mechanism.gram_noise_sd * self._growth(len(self.blocks)),
            prior_variance=self.weight_variance,
            reward_variance=REWARD_VARIANCE,
        )

    def _growth(self, count: int) -> float:
        """Return the noise sd of the sum of the first `count` blocks, in units of one release's."""
        return float(np.sqrt(self.mechanism.factor.prefix_variance()[count - 1]))

    def findings(self, past: FeaturePast, count: int) -> Findings:
        """Compare the released Gram matrix with the expected one.

        The trace tells how many rounds counted, since feature vectors are about equally long. `law_misfit` is
        the relative deviation of the rest. It is near 1 if users choose among other points than the public
        law of decision sets has. It is no warning by itself, as the regression corrects for it.
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
        """Read the past from a state. Raises `CorruptState` if this configuration does not write it."""
        raw_sums, mixed, grams = arrays["raw_sums"], arrays["released"], arrays["grams"]
        entries, size, k = block_entries(self.features.supports), self.mechanism.mechanism.size, len(mixed)
        summed = all(part.shape == (k, size) and part.dtype == np.int64 for part in (raw_sums, mixed))
        if k > len(self.blocks) or not summed or grams.shape != (k, entries):
            raise CorruptState("the saved releases contradict the saved configuration")
        return FeaturePast(raw_sums=raw_sums, mixed=mixed, grams=grams)
