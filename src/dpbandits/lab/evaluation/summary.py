"""Comparison of policies: means, standard errors and retained uplift (`summarise`, `share_kept`).

Runs on the same seed see the same users in the same world. Policies are compared seed by seed, so most of
the variance between worlds cancels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation.runner import BANNER, Repetitions

__all__ = ["Estimate", "Share", "Summary", "SummaryRow", "mean_and_error", "share_kept", "summarise"]

# A ratio whose denominator is not clearly above zero has no useful standard error: its distribution is
# nearly Cauchy. Below this many standard errors of the denominator, the share is not computed.
_LEAST_SIGNAL = 3.0


def mean_and_error(values: FloatArray) -> tuple[Any, Any]:
    """Return means over the first axis (runs) and their standard errors.

    Both are numbers, or lists if each run has a curve. Standard errors of a single run are NaN.
    """
    runs = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0).tolist(), np.asarray(error).tolist()


@dataclass(frozen=True)
class Estimate:
    """A mean over independent runs.

    Attributes:
        mean: Mean, in the unit of the values.
        standard_error: Standard error of the mean; NaN for a single run.
        n: Number of runs.
    """

    mean: float
    standard_error: float
    n: int

    @classmethod
    def of(cls, values: ArrayLike) -> "Estimate":
        """Return the mean of R values, shape (R,), and its standard error.

        >>> Estimate.of([1.0, 2.0, 3.0])
        Estimate(mean=2.0, standard_error=0.577..., n=3)
        """
        array = _runs(values, name="values")
        return cls(*mean_and_error(array), len(array))

    def __str__(self) -> str:
        return _with_error(self.mean, self.standard_error)


@dataclass(frozen=True)
class Share:
    """Retained uplift: a policy's uplift over random choice as a share of the reference policy's uplift.

    Attributes:
        share: Mean uplift of the policy divided by mean uplift of the reference. It is NaN if the
            reference's uplift is less than three standard errors above zero.
        standard_error: Standard error by the delta method on paired runs; NaN for a single run.
        uplift: Mean reward of the policy minus that of uniformly random choice.
        reference_uplift: Mean reward of the reference minus that of uniformly random choice.
    """

    share: float
    standard_error: float
    uplift: Estimate
    reference_uplift: Estimate

    def __str__(self) -> str:
        return f"{_with_error(self.share, self.standard_error)} ({self.uplift} of {self.reference_uplift})"


def share_kept(policy: ArrayLike, reference: ArrayLike, uniform: ArrayLike) -> Share:
    """Return the retained uplift: a policy's uplift over random choice, as a share of the reference's.

    Let A = policy - uniform and B = reference - uniform for each run. The share is mean A / mean B. Its
    standard error is that of the mean of A - share B, divided by mean B. This is the delta method, and it
    accounts for the correlation between A and B.

    Args:
        policy: Mean rewards of the policy, shape (R,), one per seed.
        reference: Mean rewards of the reference, usually the non-private policy, shape (R,), same seeds.
        uniform: Mean rewards of uniformly random choice, shape (R,), same seeds.

    Raises:
        InvalidData: Lengths differ, or numbers are not finite.

    >>> kept = share_kept([0.35, 0.33], [0.40, 0.38], [0.25, 0.25])
    >>> round(kept.share, 4)
    0.6429
    """
    named = {"policy": policy, "reference": reference, "uniform": uniform}
    scores, whole, floor = (_runs(values, name=name) for name, values in named.items())
    if not len(scores) == len(whole) == len(floor):
        raise InvalidData("policy, reference and uniform need one mean reward per seed, in the same order")
    uplift, possible = scores - floor, whole - floor
    kept, best = Estimate.of(uplift), Estimate.of(possible)
    if best.mean <= 0 or best.mean < _LEAST_SIGNAL * best.standard_error:
        return Share(math.nan, math.nan, kept, best)
    share = kept.mean / best.mean
    return Share(share, Estimate.of(uplift - share * possible).standard_error / best.mean, kept, best)


@dataclass(frozen=True)
class SummaryRow:
    """Results of one policy, as means over runs.

    Attributes:
        name: Name of the policy.
        reward: Mean reward per round.
        uplift: Mean reward per round above uniformly random choice, or None if that is unknown.
        regret: Pseudo-regret of a whole run, or None if it is unknown.
        share: Retained uplift relative to the reference, or None without a reference.
        seconds: Time that the policy takes for a run, in seconds.
    """

    name: str
    reward: Estimate
    uplift: Estimate | None
    regret: Estimate | None
    share: Share | None
    seconds: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return a flat dictionary of numbers, for a data frame or a JSON file."""
        flat: dict[str, Any] = {"name": self.name, "runs": self.reward.n}
        estimates = {
            "reward": self.reward,
            "uplift": self.uplift,
            "reference_uplift": self.share.reference_uplift if self.share else None,
            "regret": self.regret,
            "seconds": self.seconds,
        }
        for key, estimate in estimates.items():
            flat[key] = estimate.mean if estimate else None
            flat[f"{key}_se"] = estimate.standard_error if estimate else None
        flat["share"] = self.share.share if self.share else None
        flat["share_se"] = self.share.standard_error if self.share else None
        return flat


@dataclass(frozen=True)
class Summary:
    """Comparison of policies in one environment, paired over seeds.

    Attributes:
        environment: Name of the environment.
        n_rounds: Number of rounds of a run.
        tuning: True if the seeds are for choosing constants; do not report such numbers.
        reference: Name of the policy whose uplift is the divisor of the others' retained uplift, or None.
        rows: One row per policy.
        banner: Statement that this is no release.
    """

    environment: str
    n_rounds: int
    tuning: bool
    reference: str | None
    rows: tuple[SummaryRow, ...]
    banner: str = field(default=BANNER, init=False)

    def __getitem__(self, name: str) -> SummaryRow:
        return {row.name: row for row in self.rows}[name]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per policy."""
        return [row.to_dict() for row in self.rows]

    def __str__(self) -> str:
        seeds = "tuning seeds, not for reporting" if self.tuning else "report seeds"
        runs = f"{self.n_rounds} rounds, {self.rows[0].reward.n} runs ({seeds})"
        lines = [self.banner, f"{self.environment}, {runs}; mean ± standard error"]
        kept = f"share of the uplift of {self.reference}" if self.reference else ""
        table = [("policy", "reward", "uplift", "regret", kept)]
        for row in self.rows:
            uplift, regret = ("-" if one is None else str(one) for one in (row.uplift, row.regret))
            table.append((row.name, str(row.reward), uplift, regret, str(row.share or "")))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for cells in table:
            padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)


@worded
def summarise(*repetitions: Repetitions, reference: str | None = None) -> Summary:
    """Compare policies that were run on the same seeds of the same environment.

    Args:
        *repetitions: Runs of one policy each, with distinct names.
        reference: Name of the policy, usually the non-private one, relative to which the retained uplift
            of each policy is computed.

    Raises:
        InvalidParameter: There are no runs, two policies have the same name, the reference is unknown, or
            the runs differ in seeds, environment or number of rounds and cannot be paired.
    """
    if not repetitions:
        raise InvalidParameter("there is nothing to summarise: pass at least one Repetitions")
    for one in repetitions:
        an(one, Repetitions, name="a policy's runs", pass_="summarise(repeat(...), repeat(...))")
    names = [one.name for one in repetitions]
    if len(set(names)) != len(names):
        raise InvalidParameter("two policies have the same name: give each its own")
    if reference is not None and reference not in names:
        raise InvalidParameter(f"reference is {reference!r}, expected one of {', '.join(names)}")
    first = repetitions[0]
    worlds = {(one.seeds, one.results[0].environment, one.results[0].n_rounds) for one in repetitions}
    if len(worlds) > 1:
        raise InvalidParameter("the policies ran on different seeds, environments or rounds: run them alike")
    whole = next((one for one in repetitions if one.name == reference), None)
    return Summary(
        environment=first.results[0].environment,
        n_rounds=first.results[0].n_rounds,
        tuning=first.tuning,
        reference=reference,
        rows=tuple(_row(one, whole) for one in repetitions),
    )


def _row(one: Repetitions, whole: Repetitions | None) -> SummaryRow:
    scores, uniform, regret = one.mean_rewards, one.uniform_rewards, one.cumulative_regret
    share = None
    if whole is not None and uniform is not None:
        share = share_kept(scores, whole.mean_rewards, uniform)
    return SummaryRow(
        name=one.name,
        reward=Estimate.of(scores),
        uplift=None if uniform is None else Estimate.of(scores - uniform),
        regret=None if regret is None else Estimate.of(regret[:, -1]),
        share=share,
        seconds=Estimate.of([result.seconds for result in one.results]),
    )


def _with_error(value: float, error: float) -> str:
    if math.isnan(error):
        return f"{value:.4g}"
    if not (math.isfinite(error) and error > 0):
        return f"{value:.4g} ± {error:.2g}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{places}f} ± {error:.{places}f}"


def _runs(values: ArrayLike | Sequence[float], *, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidData(f"{name} have shape {array.shape}, expected finite numbers of shape (R,), R >= 1")
    return array
