r"""Estimates of means, differences and ratios from released sums, as arrays over metrics or simulated runs.

**Estimate.** With N_j rounds in look j and N in all, the difference is sum_j (N_j/N)(mean of the policy
group - mean of the control group in look j). Means pooled over looks would be biased where the share of the
control changes while outcomes drift.

**Sampling variance.** Users are drawn independently. Let m_u and t_u be as in `sums.Group`, let r_u be the
sum over the user's rounds of z minus the group's mean, and v = sum_u r_u^2/m_u / n. Since sum_u m_u = n and
sum_u t_u is the sum of 2z - 1, the released numbers give v but for noise: v = W/(4n) - (S/n)^2. The sum
over rounds has the variance sum_u E r_u^2. If users with more rounds have no larger E r_u^2/m_u^2, this is at
most v sum_u m_u^2, with equality if all users have the same number of rounds, whatever the correlation
within a user. Between looks, the same reasoning with a user's largest possible correlation of one bounds the
covariance by v sum_u m_u m'_u (`overlap`). So the variance of a mean is at most `spread` times v, and
`spread` is public.

**Rare outcomes.** Variances are evaluated at the value that is being tested, as in a score (Wilson)
interval. Take v(m) = phi m(1 - m), with phi estimated; it is about 1 for a yes/no metric. Here m is the mean
of looks by their shares in the variance. It moves with the tested value by the same amount.
Under a difference d, the control's mean is the combination of both groups' estimates weighted by inverse
variances. Where noise makes this mean or v negative, it is replaced by its expectation given that it is
positive, for a normal law with flat prior. So a group without any visible event never has variance zero.

**Noise.** The law of the noise is known. Its Gaussian part adds to the sampling variance, its Laplace parts
enter through `tails.quantile`.

**Ratios** are Fieller's: all r for which policy - r control is within its own interval around zero.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from dpbandits._typing import FloatArray
from dpbandits.models.readout.tails import quantile, tail

__all__ = ["Contrast", "Side", "lifted"]

_PASSES = 5
"""Number of times that an end and the variance at this end are computed in turn."""

_LEAST_VARIANCE = 1e-12
"""Smallest variance of an outcome in [0, 1] per round, so that no weight divides by zero."""

Interval = tuple[FloatArray, FloatArray]


def lifted(estimate: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the mean (...) of a variable with the law N(estimate, sd^2), given that it is positive.

    Example:
        >>> lifted(np.array([5.0, 0.0, -3.0]), np.ones(3)).round(3).tolist()
        [5.0, 0.798, 0.283]
    """
    scale = np.maximum(sd, 1e-150)
    ratio = np.clip(estimate / scale, -1e3, 40.0)
    mills = np.exp(-0.5 * ratio**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(ratio))
    return np.asarray(np.where(ratio < 40.0, scale * (ratio + mills), estimate))


@dataclass(frozen=True)
class Side:
    """Sums of one group over J looks, as arrays (..., J) with any leading axes.

    Attributes:
        weights: Public weight of each look; they sum to one.
        rounds: Public number of rounds, at least one.
        squared_rounds: Public sum of squares of users' numbers of rounds.
        overlap: Public sum of products of users' rounds in a look and in earlier looks.
        sums: Released sums of z - 1/2.
        squares: Released sums of t_u^2/m_u; nan if they were not released. Then v is taken as m(1 - m),
            which is exact for yes/no outcomes of users with one round, and an upper bound for others.
        laplace: Laplace scale of the noise of `sums`.
        gaussian: Standard deviation of the Gaussian noise of `sums`.
        square_sd: Standard deviation of the noise of `squares`; ignored where these are nan.
        users: Public number of users.
        moments: Estimated variance (...) of a round and the variance of its noise, where they are known
            otherwise than from `squares`; else None.
    """

    weights: FloatArray
    rounds: FloatArray
    squared_rounds: FloatArray
    overlap: FloatArray
    sums: FloatArray
    squares: FloatArray
    laplace: FloatArray
    gaussian: FloatArray
    square_sd: FloatArray
    users: FloatArray
    moments: tuple[FloatArray, FloatArray] | None = None

    def first(self, looks: int) -> "Side":
        """Return the sums of the first `looks` looks, with weights that sum to one again."""
        kept = {name: getattr(self, name)[..., :looks] for name in _BY_LOOK}
        kept["weights"] = kept["weights"] / kept["weights"].sum(-1, keepdims=True)
        return Side(**kept)

    @cached_property
    def per_sum(self) -> FloatArray:
        """Factor (..., J) by which a look's sum enters the mean."""
        return np.asarray(self.weights / self.rounds)

    @cached_property
    def mean(self) -> FloatArray:
        """Estimated mean (...) of z."""
        return np.asarray(0.5 + (self.per_sum * self.sums).sum(-1))

    @cached_property
    def scales(self) -> FloatArray:
        """Laplace scales (..., J) of the noise of the mean."""
        return np.asarray(self.per_sum * self.laplace)

    @cached_property
    def gaussian_variance(self) -> FloatArray:
        """Variance (...) of the Gaussian noise of the mean."""
        return np.asarray(((self.per_sum * self.gaussian) ** 2).sum(-1))

    @cached_property
    def noise_variance(self) -> FloatArray:
        """Variance (...) of all noise of the mean."""
        return np.asarray(self.gaussian_variance + 2.0 * (self.scales**2).sum(-1))

    @cached_property
    def per_look(self) -> FloatArray:
        """Contribution (..., J) of each look to `spread`: a look's squares, and twice its overlap."""
        largest = np.maximum.accumulate(self.per_sum, axis=-1)
        return np.asarray(self.per_sum**2 * self.squared_rounds + 2.0 * self.per_sum * largest * self.overlap)

    @cached_property
    def spread(self) -> FloatArray:
        """Public factor (...) that turns the variance v of a round into the sampling variance of the mean."""
        return np.asarray(self.per_look.sum(-1))

    @cached_property
    def _parts(self) -> FloatArray:
        """Share (..., J) of each look in the sampling variance, if all looks had the same variance v."""
        return np.asarray(self.per_look / self.spread[..., None])

    @cached_property
    def _apart(self) -> FloatArray:
        """Distance (...) from `mean` to the mean of looks weighted by their shares in the sampling variance.

        A look with few rounds has a large share. If outcomes drift, the variance is that of its outcomes.
        """
        if self.moments:
            return np.zeros_like(self.mean)
        return np.asarray(((self._parts / self.rounds - self.per_sum) * self.sums).sum(-1))

    @cached_property
    def dispersion(self) -> FloatArray:
        """Estimate phi (...) of v/(m(1 - m)), with v and m averaged over looks by shares in the variance.

        As z^2 <= z, a look's v is at most m_j(1 - m_j), which is concave. So the true phi is at most one. Its
        estimate may be larger by the largest ratio of a look's share in the variance to its weight.
        """
        variance, error = self.moments or self._moments()
        middle = self._within(self.mean + self._apart, np.sqrt(self.noise_variance))
        most = np.ones(()) if self.moments else (self._parts / self.weights).max(-1)
        phi = np.clip(lifted(variance, np.sqrt(error)) / (middle * (1.0 - middle)), 1e-6, most)
        # without noise, equal outcomes say nothing about the variance of others
        return np.asarray(np.where(middle > 1e-8, phi, most))

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the variance v (...) of a round and the variance of the noise in it."""
        n, known = self.rounds, np.isnan(self.squares)
        centre, noise = self.sums / n, (2.0 * self.laplace**2 + self.gaussian**2) / n**2
        second = np.where(known, 0.25, self.squares / (4.0 * n))
        second_sd = np.where(known, 0.0, self.square_sd / (4.0 * n))
        # noise and sampling raise the expected square of the centre
        variances = (second - centre**2 + noise) * self.users / np.maximum(self.users - 1.0, 1.0)
        errors = second_sd**2 + 4.0 * centre**2 * noise + 2.0 * noise**2
        part = self._parts
        return np.asarray((part * variances).sum(-1)), np.asarray((part**2 * errors).sum(-1))

    @staticmethod
    def _within(mean: FloatArray, sd: FloatArray) -> FloatArray:
        """Return a mean in (0, 1/2] with the variance of `mean`, or of one minus it, given its error `sd`."""
        return np.asarray(np.clip(lifted(np.minimum(mean, 1.0 - mean), sd), 1e-9, 0.5))

    def variance(self, mean: FloatArray, sd: FloatArray | float = 0.0) -> FloatArray:
        """Return the sampling variance (...) of the mean if the truth is `mean` (...), known up to `sd`."""
        middle = self._within(mean + self._apart, np.asarray(sd))
        return np.asarray(
            self.spread * np.maximum(self.dispersion * middle * (1.0 - middle), _LEAST_VARIANCE)
        )

    def interval(self, level: FloatArray | float) -> Interval:
        """Return both ends (...) for the mean; each is passed with probability `level`."""
        signs = _signs(self.mean)
        ends = self.mean + 0.0 * signs
        for _ in range(_PASSES):
            sd = np.sqrt(self.gaussian_variance + self.variance(ends))
            ends = np.clip(self.mean + signs * quantile(level, sd, self.scales), 0.0, 1.0)
        return ends[0], ends[1]


_BY_LOOK = tuple(name for name in Side.__dataclass_fields__ if name != "moments")


@dataclass(frozen=True)
class Contrast:
    """Comparison of the policy group with the control group over the same looks."""

    policy: Side
    control: Side

    @cached_property
    def difference(self) -> FloatArray:
        """Estimated difference (...) of the means of z."""
        return np.asarray(self.policy.mean - self.control.mean)

    def first(self, looks: int) -> "Contrast":
        """Return the comparison over the first `looks` looks."""
        return Contrast(self.policy.first(looks), self.control.first(looks))

    @cached_property
    def increments(self) -> FloatArray:
        """Variance (..., J) that each look adds to the difference, in any unit; see `boundaries`."""
        total: FloatArray | float = 0.0
        for side in (self.policy, self.control):
            whole = side.variance(side.mean, np.sqrt(side.noise_variance))
            sampling = side.per_look * (whole / side.spread)[..., None]
            total = total + sampling + side.per_sum**2 * (2.0 * side.laplace**2 + side.gaussian**2)
        return np.asarray(np.maximum(total, 1e-300))

    def _under(self, slope: FloatArray | float, apart: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return normal variances (...) of both groups' means if policy = slope control + apart."""
        policy, control = self.policy, self.control
        first = policy.variance(policy.mean, np.sqrt(policy.noise_variance))
        second = control.variance(control.mean, np.sqrt(control.noise_variance))
        for _ in range(2):
            one, two = first + policy.noise_variance, second + control.noise_variance
            precision = 1.0 / two + slope**2 / one
            middle = (control.mean / two + slope * (policy.mean - apart) / one) / precision
            sd = np.sqrt(1.0 / precision)
            first = policy.variance(slope * middle + apart, slope * sd)
            second = control.variance(middle, sd)
        return first + policy.gaussian_variance, second + control.gaussian_variance

    @cached_property
    def _scales(self) -> FloatArray:
        return np.concatenate([self.policy.scales, self.control.scales], axis=-1)

    def interval(self, level: FloatArray | float) -> Interval:
        """Return both ends (...) for the difference; each is passed with probability `level`."""
        signs = _signs(self.difference)
        ends = self.difference + 0.0 * signs
        for _ in range(_PASSES):
            one, two = self._under(1.0, ends)
            reach = quantile(level, np.sqrt(one + two), self._scales)
            ends = np.clip(self.difference + signs * reach, -1.0, 1.0)
        return ends[0], ends[1]

    def equal(self) -> FloatArray:
        """Return the two-sided p-value (...) of the hypothesis that both means are equal."""
        one, two = self._under(1.0, np.zeros_like(self.difference))
        return np.asarray(
            np.minimum(2.0 * tail(np.abs(self.difference), np.sqrt(one + two), self._scales), 1.0)
        )

    def ratio(
        self, level: FloatArray | float, *, shift: FloatArray | float = 0.0
    ) -> tuple[FloatArray, Interval]:
        """Return the ratio of means of z + shift, and both ends of its interval.

        Args:
            level: Probability with which each end is passed.
            shift: Amount to add to z, at least 0: low/(high - low) of the metric.

        Returns:
            Ratio (...), nan where the control's estimate is not positive; ends (...), 0 or infinite where the
            control's mean cannot be told from zero.
        """
        above, below = np.maximum(self.policy.mean + shift, 0.0), self.control.mean + shift
        estimate = np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), np.nan)

        ends = np.where(np.isfinite(estimate), estimate, 1.0) + 0.0 * _signs(estimate)
        first, second = (2.0 * (side.scales**2).sum(-1) for side in (self.policy, self.control))
        for _ in range(_PASSES):
            slope = np.minimum(ends, 1e3)
            # z_p + shift = r (z_c + shift)
            one, two = self._under(slope, (slope - 1.0) * shift)
            theirs = slope[..., None] * self.control.scales
            scales = np.concatenate([np.broadcast_to(self.policy.scales, theirs.shape), theirs], axis=-1)
            sd = np.sqrt(one + slope**2 * two)
            multiple = quantile(level, sd, scales) / np.sqrt(sd**2 + 2.0 * (scales**2).sum(-1))
            low, high = _fieller(above, below, one + first, two + second, multiple)
            ends = np.stack([low[0], high[1]])
        return estimate, (ends[0], ends[1])


def _signs(estimate: FloatArray) -> FloatArray:
    """Return -1 and 1 (2, ...), the directions of both ends from an estimate (...)."""
    return np.array([-1.0, 1.0]).reshape(2, *(1,) * np.ndim(estimate))


def _fieller(
    above: FloatArray, below: FloatArray, one: FloatArray, two: FloatArray, multiple: FloatArray
) -> Interval:
    """Return both ends of the set of r >= 0 with (above - r below)^2 <= multiple^2 (one + r^2 two).

    The set is an interval where the control's mean is above `multiple` of its deviation. Else it is
    unbounded, and may be split in two: then the smallest interval from its first point to infinity is used.
    """
    lead = below**2 - multiple**2 * two
    last = above**2 - multiple**2 * one
    root = np.sqrt(np.maximum((above * below) ** 2 - lead * last, 0.0))
    bounded = (lead > 0.0) & (below > 0.0)
    under = above * below + root
    high = np.where(bounded, under / np.where(bounded, lead, 1.0), np.inf)
    # the smaller root, without cancellation; it is also the first point of an unbounded set that excludes 0
    low = np.where((last > 0.0) & (under > 0.0), last / np.where(under > 0.0, under, 1.0), 0.0)
    return np.asarray(low), np.asarray(high)
