r"""GP-UCB on Fourier features with a private binary tree: Dubey2021, as published.

Implements Algorithm 1 with the privatizer of Algorithm 2. Every round the sums of phi phi^T and y phi are
released through a binary tree with Gaussian noise, for m features phi and rewards y. The Gram matrix is
shifted by 2 Lambda I so that it stays positive definite (Lemma 3). The candidate with the largest upper
confidence bound is chosen, with the confidence radius beta_t of Theorem 1. Rewards are scaled to [0, 1] and
not centred. T is the horizon and alpha the failure probability.

Departures from the paper:

- By default the noise is calibrated to the correct sensitivity. The printed formulas are not
  (`central.published.printed`). `paper_constants=` uses a printed formula instead, and the guarantee then
  states the epsilon that this formula really provides.
- Three terms of Theorem 1's radius are left out: lambda I added to the shifted Gram matrix, the 1 added to
  lambda_max/rho^2, and t B eps/sqrt(lambda_min). The latter is for the part of the kernel that features
  miss. `reproduction.dubey2021.theory.confidence_width` has all of them; the page on the paper explains
  them.
- n is the number L = floor(log2 T) + 1 of levels of the tree. The paper has n = 1 + ceil(log2 T), which is
  one more if T is no power of two.
- rho is 1/2, which bounds the deviation of a reward in [0, 1].

By Lemma 3, Lambda = sigma sqrt(2 n) (4 sqrt(m) + 2 ln(2 T/alpha)) bounds the spectral norm of the noise. The
noise of a node is sigma (v + v^T)/sqrt(2) with standard normal v, so sigma sqrt(2) is `node_noise_sd`.
`Dubey2021Tuning(spectral_bound="sharp")` uses a smaller bound on the same norm (`privacy.gram_vector`), 3.29
times smaller at m = 64, T = 1024. Both give the same guarantee: Lambda is computed from public numbers and
added to releases that already have noise, so the shift is post-processing.

With m = 64 at (1, 1e-5) the shift 2 Lambda is larger than T = 1024, and the policy is nearly random. This is
the paper's method without repairs; `central.GPBandit` is recommended instead.

With an unknown horizon (`horizon=None`) there are epochs of doubling length (Remark 5), each with its own
tree. A user's rounds may be in one epoch or in several. In both cases the losses add up to at most the
promise, because every epoch is calibrated to all of the user's rounds. The last sum of a finished epoch is
added to later sums.

Privacy: (epsilon, delta)-joint DP. The unit is one user's decision sets and rewards.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack, get_args

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._config import Configured
from dpbandits._memory import FLOAT, check_fits
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.published.printed import Formula, printed_levels, printed_scale
from dpbandits.central.statement import Setting, tree_guarantee
from dpbandits.domains import RewardRange
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.features import Features, left_out
from dpbandits.policy import PolicyOptions, RoundPolicy, best_choice
from dpbandits.privacy.definitions import JointDP, warn_if_delta_large
from dpbandits.privacy.gram_vector import GramVectorMechanism, SpectralBound, gram_noise_norm
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.prefix_sums import RELEASE_UNIT, BinaryTree, TreeRelease
from dpbandits.privacy.release_terms import Release

__all__ = ["Dubey2021", "Dubey2021Tuning"]

FIRST_EPOCH = 64
"""Number of rounds in the first epoch if the horizon is unknown; each later epoch is twice as long."""

MOST_EPOCHS = 16
"""Largest number of epochs: 64 (2^16 - 1) rounds fit into int64 sums."""


@worded
@dataclass(frozen=True, kw_only=True)
class Dubey2021Tuning(Configured):
    """Public settings of the confidence bounds of a `Dubey2021`.

    Args:
        norm_bound: Bound B on the norm of the scaled reward function.
        failure_probability: Failure probability alpha of the confidence bounds.
        spectral_bound: Bound Lambda on the noise's spectral norm, for the shift 2 Lambda and the radius.
            "printed" is the bound of Lemma 3; "sharp" is a smaller bound that is not in the paper.

    Raises:
        InvalidParameter: A number is out of its range, or the bound is unknown.
    """

    norm_bound: float = 1.0
    failure_probability: float = 0.1
    spectral_bound: SpectralBound = "printed"

    def __post_init__(self) -> None:
        _checks.scale(self.norm_bound, name="norm_bound")
        if not 1e-100 <= _checks.number(self.failure_probability, name="failure_probability") < 1.0:
            raise InvalidParameter("failure_probability: expected a number in [1e-100, 1)")
        _checks.one_of(self.spectral_bound, get_args(SpectralBound), name="spectral_bound")


class Dubey2021(RoundPolicy):
    """GP-UCB with a private binary tree, as published; see the module.

    Args:
        domain: Public set that contains every candidate.
        reward_range: Public range (low, high); rewards are scaled to [0, 1].
        horizon: Total number of rounds; None for epochs of doubling length.
        privacy: Promise: epsilon, delta and `rounds_per_user`.
        features: Feature map of norm at most 1, in the paper `QuadratureFourierFeatures`.
        tuning: Further settings; see `Dubey2021Tuning`.
        paper_constants: Name of a printed noise formula that replaces the correct scale.
        acknowledge_broken: Must be True if `paper_constants` adds too little noise.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

    Raises:
        InvalidParameter: Arguments do not fit together, or a broken formula is not acknowledged.

    References:
        Dubey2021, Algorithms 1 and 2, Theorem 1, Lemmas 2, 3 and 12, Remark 5.
    """

    kind = "central.published.Dubey2021"
    noise: NoiseSource
    privacy: JointDP
    features: Features
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **RoundPolicy.config_parsers,
        "tuning": Dubey2021Tuning.from_config,
    }

    def __init__(
        self,
        *,
        domain: domains.Domain,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP,
        features: Features,
        tuning: Dubey2021Tuning | None = None,
        paper_constants: Formula | None = None,
        acknowledge_broken: bool = False,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_kinds(domain=domain, privacy=privacy, features=features, noise=options.get("noise"))
        super().__init__(
            domain=domain,
            reward_range=reward_range,
            horizon=FIRST_EPOCH * ((1 << MOST_EPOCHS) - 1) if horizon is None else horizon,
            privacy=privacy,
            **options,
        )
        if horizon is not None:
            if _checks.integer(horizon, name="horizon") > 1 << 22:
                raise InvalidParameter("horizon: int64 sums hold at most 2^22 rounds")
            warn_if_delta_large(privacy.delta, -(-horizon // privacy.rounds_per_user))
        self.features, self.tuning = features, tuned(tuning, Dubey2021Tuning)
        self.paper_constants, self.acknowledge_broken = paper_constants, acknowledge_broken
        self.doubling = horizon is None
        self._mechanism = GramVectorMechanism(
            n_features=features.n_features, ratio=2.0, rounds_per_user=privacy.rounds_per_user
        )
        self._epoch_release = self._release_of(0)
        size, m, levels = self._mechanism.size, features.n_features, self._epoch_release.tree.levels
        # Every release has the whole (m, m) Gram matrix, also across arms: two trees, and five matrices.
        needed = FLOAT * (4 * levels * size + 5 * m**2)
        check_fits(needed, instead="use fewer features, or central.GPBandit, which keeps arms apart")
        if self.guarantee.status == "broken" and not acknowledge_broken:
            raise InvalidParameter(
                f"paper_constants={paper_constants!r} adds less noise than the promise needs: pass "
                "acknowledge_broken=True to reproduce it on public data"
            )
        self._clock = np.zeros(3, dtype=np.int64)  # epoch, its first round, rounds released in it
        self._open = np.zeros((levels, size), dtype=np.int64)  # secret: exact sums of open nodes
        self._nodes = np.zeros((levels, size), dtype=np.int64)  # released nodes of the current prefix
        self._carried = np.zeros(size, dtype=np.int64)  # released sums of finished epochs
        self._carried_variance = 0.0
        self._public = np.zeros((m + 1, m))  # Gram and vector of public data
        self._fit()

    def _release_of(self, epoch: int) -> TreeRelease:
        rounds = FIRST_EPOCH << epoch if self.doubling else int(self.horizon or 0)
        tree = BinaryTree(rounds)
        override = None
        if self.paper_constants is not None:
            epsilon, delta = self.privacy.epsilon, self.privacy.delta
            override = printed_scale(
                self.paper_constants,
                levels=printed_levels(rounds),
                epsilon=epsilon,
                delta=delta,
            )
        return TreeRelease(
            tree=tree,
            mechanism=self._mechanism,
            noise=self.noise,
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            one_of_several=self.doubling,
            sigma_override=override,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of (epsilon, delta)-joint DP; with `paper_constants`, the one they really provide."""
        return tree_guarantee(
            self.privacy,
            # The error of printed formulas is largest in the smallest tree, that of the first epoch.
            self._epoch_release if self.paper_constants is None else self._release_of(0),
            width=self.reward_range.width,
            setting=Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids),
            paper_constants=self.paper_constants,
            doubling=self.doubling,
        )

    # -- releasing: where raw data meets noise ------------------------------------------------------

    def _use_of(self, epoch: int, release: TreeRelease, drawn: int) -> Release:
        return Release(
            purpose=f"epoch:{epoch}", record=release.record(), noise=self.noise, drawn=drawn, charge=""
        )

    def _uses(self) -> tuple[Release, ...]:
        epoch = int(self._clock[0])
        finished = [(e, self._release_of(e)) for e in range(epoch)]
        return (
            *(self._use_of(e, release, release.tree.n_blocks) for e, release in finished),
            self._use_of(epoch, self._epoch_release, int(self._clock[2])),
        )

    @property
    def _rounds_out(self) -> int:
        """Number of rounds, over all epochs, whose nodes have been released."""
        return int(self._clock[1] + self._clock[2])

    def _is_due(self) -> bool:
        return self._rounds_out < self._book.asked

    def _release(self) -> None:
        while self._is_due():
            self._release_round()

    def _release_round(self) -> None:
        """Add one round to the open nodes, and release the node that it completes.

        The state changes only after the noise is drawn, and then all at once. An interrupted release is
        repeated from the same sums.
        """
        epoch, start, before = (int(value) for value in self._clock)
        t = before + 1
        actions, rewards, told, _ = self._book.block(start + before, start + t)
        # The mechanism bounds |z| by 1/2, and y/2 satisfies that: sums of y phi are twice the released
        # vector.
        halves = 0.5 * (rewards - self.reward_range.low) / self.reward_range.width
        own = self._mechanism.encode(self.features(actions)[told], halves[told])
        level, _ = self._epoch_release.tree.node(t)
        self._enter_release(self._use_of(epoch, self._epoch_release, before), before)
        opened, nodes = self._open.copy(), self._nodes.copy()
        opened[level] = opened[:level].sum(axis=0) + own
        nodes[level] = self._epoch_release.release(opened[level])
        opened[:level] = nodes[:level] = 0
        if self.doubling and t == self._epoch_release.tree.n_blocks:
            self._next_epoch(epoch + 1, start + t, nodes)
        else:
            self._open, self._nodes, self._clock = opened, nodes, np.array([epoch, start, t])

    def _next_epoch(self, epoch: int, start: int, nodes: IntArray) -> None:
        release = self._release_of(epoch)
        carried = self._carried + nodes.sum(axis=0)
        variance = self._carried_variance + self._epoch_release.noise_sd**2
        empty = np.zeros((release.tree.levels, self._mechanism.size), dtype=np.int64)
        self._carried, self._carried_variance, self._epoch_release = carried, variance, release
        self._open, self._nodes, self._clock = empty, empty.copy(), np.array([epoch, start, 0])

    # -- post-processing -------------------------------------------------------------------------------

    def _fit(self) -> None:
        m = self.features.n_features
        released = (self._carried + self._nodes.sum(axis=0)) * RELEASE_UNIT
        gram, half_vector = self._mechanism.from_coordinates(released)
        gram, vector = gram + self._public[:-1], 2.0 * half_vector + self._public[-1]
        levels = self._epoch_release.tree.levels
        noise_sd = math.sqrt(levels * self._epoch_release.noise_sd**2 + self._carried_variance)
        rounds = int(self._clock[1]) + self._epoch_release.tree.n_blocks
        spectral = gram_noise_norm(
            noise_sd=noise_sd,
            n_features=m,
            rounds=rounds,
            failure_probability=self.tuning.failure_probability,
            bound=self.tuning.spectral_bound,
        )
        tail = math.sqrt(2.0 * math.log(2.0 * rounds / self.tuning.failure_probability))
        shifted = gram + 2.0 * spectral * np.eye(m)
        try:
            self._lower = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:  # Lemma 3 excludes this event up to probability alpha
            values, basis = np.linalg.eigh(shifted)
            self._lower = np.linalg.cholesky((basis * np.maximum(values, spectral)) @ basis.T)
        self._weights = cho_solve((self._lower, True), vector)
        # Theorem 1: spectral <= H <= 3 spectral, ||h||_{H^-1} <= ||h||/sqrt(spectral)
        log_det = 2.0 * float(np.log(np.diag(self._lower)).sum()) - m * math.log(spectral)
        vector_noise = noise_sd / math.sqrt(2.0) * (math.sqrt(m) + tail)
        self._beta = (
            0.5 * math.sqrt(2.0 * math.log(2.0 / self.tuning.failure_probability) + max(0.0, log_det))
            + self.tuning.norm_bound * math.sqrt(3.0 * spectral)
            + vector_noise / math.sqrt(spectral)
        )
        self._spectral = spectral

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        phi = self.features(points)
        scaled = (rewards - self.reward_range.low) / self.reward_range.width
        self._public = self._public + np.vstack([phi.T @ phi, phi.T @ scaled])
        self._fit()

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        n_sets, n = candidates.shape[:2]
        phi = self.features(candidates).reshape(n_sets * n, -1)
        scores = phi @ self._weights + self._beta * self._width(phi)
        ties = self._coins.uniform("ties", start, start + n_sets, 1)[:, 0]
        return best_choice(scores.reshape(n_sets, n), ties, available), None

    def _width(self, phi: FloatArray) -> FloatArray:
        """Return the norms ||phi||_{V^-1} of feature vectors (k, m), with V the shifted Gram matrix."""
        whitened = solve_triangular(self._lower, phi.T, lower=True, check_finite=False)
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", whitened, whitened)))

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and half the confidence radius of the reward at points."""
        phi = self.features(points)
        beyond = self.features.scale * np.sqrt(left_out(self.features, points, phi))
        radius = self._beta * self._width(phi) + self.tuning.norm_bound * beyond
        mean = self.reward_range.low + self.reward_range.width * (phi @ self._weights)
        return mean, 0.5 * self.reward_range.width * radius

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers and released quantities."""
        return {
            **super().diagnostics(),
            "levels": self._epoch_release.tree.levels,
            "node_noise_sd": self._epoch_release.noise_sd,
            "beta": self._beta,
            "spectral_bound": self._spectral,
            "epoch": int(self._clock[0]),
        }

    # -- configuration and state -------------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Return all public arguments for JSON, from which this policy can be rebuilt."""
        return super().to_config() | ({"horizon": None} if self.doubling else {})

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {
            "clock": self._clock,
            "open_nodes": self._open,
            "released_nodes": self._nodes,
            "carried": self._carried,
            "carried_variance": np.array(self._carried_variance),
            "public": self._public,
        }

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        clock, carried, public = arrays["clock"], arrays["carried"], arrays["public"]
        opened, nodes = arrays["open_nodes"], arrays["released_nodes"]
        variance, release = float(arrays["carried_variance"]), self._release_of(int(clock[0]))
        shape = (release.tree.levels, self._mechanism.size)
        arrays_fit = clock.shape == (3,) and opened.shape == nodes.shape == shape
        arrays_fit = arrays_fit and public.shape == self._public.shape
        if not arrays_fit or carried.shape != shape[1:] or clock[2] > release.tree.n_blocks:
            raise CorruptState("the saved tree contradicts the saved configuration")
        self._epoch_release = release
        self._clock, self._carried, self._carried_variance = clock.copy(), carried.copy(), variance
        self._open, self._nodes, self._public = opened.copy(), nodes.copy(), public.copy()
