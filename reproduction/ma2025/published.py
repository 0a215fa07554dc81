"""The runs that the authors of Ma2025 publish, as means at the places of Figures 6 to 9.

`published_runs.csv` holds regret a user, standard error and repetitions of 389 places; its first line says
where they are from. They come from code that is not private, see `reproduction.ma2025.as_code`. The bands of
the printed figures are percentiles of these runs (2.5 and 97.5), not confidence intervals of their means.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dpbandits.errors import InvalidParameter
from reproduction.ma2025.methods import Source

__all__ = [
    "AGREES",
    "BATCHES",
    "PLANNED",
    "Published",
    "published_at",
    "published_runs",
    "runs_of",
    "welch",
]

AGREES = 0.15
"""Share by which our runs of the public code may differ from the published ones and still reproduce them."""

BATCHES = {"6": 10, "7a": 100, "7b": 100, "8": 500, "9a": 100, "9b": 100, "9c": 500}
"""Users between two updates in the authors' scripts."""

PLANNED = {"6": 1, "7a": 2, "7b": 1, "8": 2, "9a": 2, "9b": 2, "9c": 2}
"""Sources that the depth of their bins is planned for, also where these have no user."""

_FILE = Path(__file__).with_name("published_runs.csv")


@dataclass(frozen=True, kw_only=True)
class Published:
    """One place of a figure.

    Attributes:
        figure: "6" to "9c".
        epsilon: the number that the caption and the code call so.
        n_users: number of the target's users.
        sources: sources in their order; none where they have no user.
        reps: number of runs.
        regret: their mean, a user.
        standard_error: standard error of that mean; a single run has None.
    """

    figure: str
    epsilon: float
    n_users: int
    sources: tuple[Source, ...]
    reps: int
    regret: float
    standard_error: float | None


@lru_cache(maxsize=1)
def published_runs() -> tuple[Published, ...]:
    """Every line of the file."""
    with _FILE.open() as lines:
        next(lines)
        return tuple(
            Published(
                figure=line["figure"],
                epsilon=float(line["epsilon"]),
                n_users=int(line["n_P"]),
                sources=_sources(line),
                reps=int(line["reps"]),
                regret=float(line["regret_per_user"]),
                standard_error=float(line["se"]) if line["se"] else None,
            )
            for line in csv.DictReader(lines)
        )


def runs_of(figure: str) -> tuple[Published, ...]:
    """The places of one figure; where sources have no user a place stands once for each of their epsilons."""
    return tuple(run for run in published_runs() if run.figure == figure)


def published_at(
    figure: str, epsilon: float | None, n_users: int | None, sources: Sequence[Source]
) -> Published:
    """The published runs of a place.

    Raises:
        InvalidParameter: there are none.
    """
    place = (epsilon, n_users, tuple(sources))
    for run in runs_of(figure):
        if (run.epsilon, run.n_users, run.sources) == place:
            return run
    raise InvalidParameter(f"no published run of Figure {figure} is at this place")


def welch(mean: float, other: float, *, errors: Sequence[float], reps: Sequence[int]) -> int:
    """Return what Welch's test at 5% says of two means; with few runs two standard errors are not enough.

    Args:
        mean: the first mean.
        other: the second one.
        errors: their standard errors.
        reps: their numbers of runs, at least 2 each.

    Returns:
        -1 if the second mean is below the first, 1 if it is above, 0 if they are not told apart.
    """
    from scipy.stats import t

    variances = [error**2 for error in errors]
    freedom = sum(variances) ** 2 / sum(v**2 / (n - 1) for v, n in zip(variances, reps, strict=True))
    far = abs(other - mean) > float(t.ppf(0.975, freedom)) * math.sqrt(sum(variances))
    return int(math.copysign(far, other - mean))


def _sources(line: dict[str, str]) -> tuple[Source, ...]:
    n_users = int(line["n_Q"])
    if n_users == 0:
        return ()
    gamma, kappa = float(line["gamma"]), float(line["kappa"])
    return tuple(
        Source(n_users=n_users, epsilon=epsilon, gamma=gamma, kappa=kappa) for epsilon in _epsilons(line)
    )


def _epsilons(line: dict[str, str]) -> Sequence[float]:
    """One a source; order "first_sup" begins with the larger."""
    if line["order"]:
        return sorted(map(float, line["eps_m"].split(",")), reverse=line["order"] == "first_sup")
    return [float(line["eps_m"])] * int(line["M"])
