"""When PhasedExploreThenCommit explores: chosen before data, by what public simulation expects to be lost.

Exploring a round costs a random action's loss; not exploring leaves the function less known for all rounds to
come. For each phase the rate with the least expected sum is taken, given that later phases add nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from dpbandits._reading import reading
from dpbandits.central.explore_then_commit.calibration import ExpectedError, expected_error, planned_release
from dpbandits.central.schedule import check_boundaries, growing_blocks
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures

__all__ = ["growing_phases", "scheduled"]

FIRST_SHARES = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
"""Candidates for the first phase's share of the horizon."""

RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Candidates for the exploration rate of later phases."""

GROWTH = 4.0
"""Each phase is so many times as long as the one before."""

LAST_SHARE = 0.5
"""No phase ends after this share of the horizon: what it taught would hardly be used."""


def growing_phases(horizon: int, first: int) -> tuple[int, ...]:
    """Ends of phases, the first one `first` rounds long.

    Example:
        >>> growing_phases(100_000, 1000)
        (1000, 5000, 21000)
    """
    if not 1 <= first <= horizon:
        raise InvalidParameter("growing_phases: expected 1 <= first <= horizon")
    return growing_blocks(horizon, first=first, growth=GROWTH, last_share=LAST_SHARE)


def scheduled(
    features: EigenFeatures,
    horizon: int,
    phases: Sequence[int] | None,
    exploration: Sequence[float] | None,
    *,
    noise_multiplier: float,
    rounds_per_user: int,
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Ends of phases and their rates: as given, or by the rule that is fixed before data.

    Args:
        features, rounds_per_user: as in `planned_release`.
        horizon: rounds in all.
        phases, exploration: see `PhasedTuning`.
        noise_multiplier: of every phase's release.

    Raises:
        InvalidParameter: phases that do not increase, or end after the horizon; rates outside [0, 1].
    """

    @cache
    def expected(rounds: int) -> ExpectedError:
        """What is still lost a round after exploring for so many rounds, in one release."""
        plan = planned_release(
            features, rounds=rounds, noise_multiplier=noise_multiplier, rounds_per_user=rounds_per_user
        )
        return expected_error(plan, release=True)

    if phases is None:
        ends = _paying_phases(expected, horizon)
    else:
        ends = check_boundaries(phases, horizon, name="phases")
    if exploration is None:
        return ends, _paying_rates(expected, ends, horizon)
    with reading("a sequence of exploration rates"):
        rates = tuple(float(rate) for rate in exploration)
    if len(rates) != len(ends) or not all(0.0 <= rate <= 1.0 for rate in rates) or not rates[0] > 0.0:
        raise InvalidParameter("exploration: expected one rate in [0, 1] a phase, the first above 0")
    return ends, rates


def _paying_phases(expected: Callable[[int], ExpectedError], horizon: int) -> tuple[int, ...]:
    """Ends of phases; the first is as long as pays off if it were the only one."""

    def total(length: int) -> float:
        after = expected(length)
        return length * after.random + (horizon - length) * after.error

    lengths = sorted({max(1, round(share * horizon)) for share in FIRST_SHARES})
    return growing_phases(horizon, min(lengths, key=total))


def _paying_rates(
    expected: Callable[[int], ExpectedError], phases: Sequence[int], horizon: int
) -> tuple[float, ...]:
    """Exploration rate of every phase; the first explores always."""
    current, rates = expected(phases[0]).error, [1.0]
    for start, stop in pairwise(phases):
        length, rest = stop - start, horizon - stop
        best = (current * (length + rest), 0.0, current)
        for rate in RATES:
            explored = round(rate * length)
            if explored < 1:
                continue
            learned = expected(explored)
            after = min(current, learned.error)
            total = length * (rate * learned.random + (1.0 - rate) * current) + rest * after
            if total < best[0]:
                best = (total, rate, after)
        rates.append(best[1])
        current = best[2]
    return tuple(rates)
