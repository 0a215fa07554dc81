r"""Accounting: the composition rules by which an account adds up its charges, and their proof.

An account guarantees (epsilon, delta)-DP for one unit (`dpbandits.budget.units`), whatever is charged to it.
It keeps five sums over its charges:

==========  ======================================================================================
sum         amount that a charge adds
==========  ======================================================================================
epsilon     its epsilon (basic composition)
delta       its delta at that epsilon; 0 for a pure charge
rho         its rho of zero-concentrated DP (zCDP)
mu2         its mu^2, if it is within total variation `distance` of mu-Gaussian DP (GDP)
distance    that total variation
==========  ======================================================================================

An amount is infinite if nothing is proven about the charge in that notion. A charge is pure if its delta is
0.

The rule
--------
1. *Undecided.* While all charges are pure, their epsilons are added. They may reach the account's epsilon.
2. *Decision.* The first charge that is not pure decides which accountant the account uses from then on. It
   is the first of these that admits the charge: `gaussian`, `zcdp`, `basic`. The earlier pure charges stay
   added up by their epsilons, E in total. The accountant proves (epsilon - E, delta) for everything else.
3. *After the decision* a charge is admitted if the sums since the decision stay within one of the
   accountant's limits:

==============  ====================================================================================
accountant      limits
==============  ====================================================================================
`gaussian`      mu2 <= mu(epsilon - E, .98 delta)^2 and distance <= .01 delta/(1 + e^(epsilon - E));
                or rho <= rho(epsilon - E, .01 delta), which admits charges that are not Gaussian
`zcdp`          rho <= rho(epsilon - E, delta)
`basic`         sum of epsilons <= epsilon - E and sum of deltas <= delta
==============  ====================================================================================

Here mu(e, d) is the largest mu for which mu-GDP implies (e, d)-DP, and rho(e, d) the largest rho for which
rho-zCDP does (`dpbandits.privacy.calibration`). With delta = 0 the account admits pure charges only.

Charges of one kind are admitted as often as by the best of the three accountants alone, except for the 2% of
delta that `gaussian` reserves for distances and for other charges (.1% of mu^2). Pure charges alone are
added up by their epsilons. Of a mixed sequence fewer charges may be admitted than by one of the accountants
alone.

Why the guarantee holds
-----------------------
Charges may be chosen adaptively. The next mechanism and its cost may depend on earlier releases and on
public facts, and not otherwise on raw data. Fix two neighbours, under which transcripts of all outputs have
the laws P and P'. The guarantee is P(S) <= e^epsilon P'(S) + delta for every set S of transcripts.

*Pure charges before the decision.* Their mechanisms may continue after it (an interactive policy). Let E be
the sum of their epsilons at the decision; the transcript until then determines it. Write the density of a
transcript as p = A B, with B for the steps of these mechanisms and A for all others. B <= e^E B' for all
outputs. So p - e^epsilon p' = A B - e^epsilon A' B' <= (A - e^(epsilon - E) A') B. This bound describes a
run in which the pure steps have the *same* distribution on both sides: for the choice of the next charge
they are public coins. Given the transcript until the decision, E is a constant. The filter below then shows
that the positive part is at most delta. So is its average over those transcripts. A transcript without a
decision has E <= epsilon and adds nothing.

*After the decision* one accountant is fixed. Each limit is a filter for (e, d) with e = epsilon - E and its
share d of delta:

- `zcdp` (Feldman, Zrnic 2021; Whitehouse et al. 2023, Theorem 1). Let L_n be the likelihood ratio of the
  first n outputs and a > 1. Given the past, rho_n is a constant. So
  E'[(L_n/L_{n-1})^a | past] <= exp(a (a - 1) rho_n). Hence L_n^a exp(-a (a - 1) (rho_1 + ... + rho_n)) is a
  supermartingale that begins at 1. If the sum never exceeds rho, E'[L_n^a] <= exp(a (a - 1) rho).
- `gaussian` (Smith, Thakurta 2022). For this ordered pair a mu_n-GDP mechanism is a random function of one
  draw from N(0, 1) or N(mu_n, 1) (Blackwell; Dong, Roth, Su 2022, Theorem 2.10). It is therefore a random
  function of the increment, over a time mu_n^2, of a Brownian motion without drift or with drift 1. The past
  decides how long the next increment is. So all outputs are a random function of the motion, stopped no
  later than at mu^2. That distinguishes the drifts exactly as one draw distinguishes N(0, 1) from N(mu, 1).
  Near-Gaussian mechanisms are replaced by Gaussian ones within their distances, coupled so that a step first
  differs with at most that probability. If the distances never exceed D, then P(S) <= e^e P'(S) + d + (1 +
  e^e) D.
- `basic` (Rogers et al. 2016). For this pair an (epsilon_j, delta_j) mechanism is a random function of a
  flag and of a randomised response (Kairouz, Oh, Viswanath 2015, Theorem 3.1). The flag is raised with
  probability delta_j and then reveals everything. Otherwise the response has a ratio of at most e^epsilon_j.
  Some flag is raised with probability at most the expected sum of delta_j, which is at most d. Otherwise the
  ratio is at most e^(sum of epsilon_j).

*Two limits of one accountant.* Let S_1 be the transcripts in S whose sums are within the first limit at the
end, and S_2 the others, which are within the second. Sums only grow. Consider the run that stops before it
exceeds the first limit. It keeps (e, d_1), and gives the transcripts of S_1 the same probabilities. Hence
P(S_1) <= e^e P'(S_1) + d_1, likewise for S_2 with d_2, and d_1 + d_2 <= delta.

*Pure charges in Gaussian DP.* epsilon-DP is mu-GDP for Phi(mu/2) = e^epsilon/(1 + e^epsilon), where Phi is
the distribution function of N(0, 1). Randomised response is the most informative of all epsilon-DP
mechanisms. Its errors (size, miss) lie on the two lines from (0, 1) and (1, 0) to the corner (c, c), c =
1/(1 + e^epsilon). The Gaussian's curve is convex and passes through (0, 1), (1, 0) and (Phi(-mu/2),
Phi(-mu/2)) = (c, c), so it lies on or below both lines. For small epsilon mu = 1.2533 epsilon. A pure charge
enters rho as epsilon^2/2 (Bun, Steinke 2016, Proposition 1.4).

Charges may stand for interactive mechanisms (a policy that runs for years) that run at the same time:
filters of these notions hold for their concurrent composition (Haney et al. 2023; Vadhan, Zhang 2023).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from dpbandits.budget.amounts import NOTHING, above, add, float_above, float_below, root_up, short, times

__all__ = [
    "ACCOUNTANTS",
    "SUM_NAMES",
    "Accountant",
    "Charge",
    "Way",
    "accountant_for",
    "epsilon_of",
    "gaussian_mu_of_pure",
    "ways",
]

Accountant = Literal["undecided", "gaussian", "zcdp", "basic"]
"""Name of a composition rule; see the module."""

ACCOUNTANTS: Mapping[Accountant, str] = {
    "undecided": (
        "adds the epsilons of pure charges until a charge with a delta comes; the account then takes the "
        "first of Gaussian DP, zero-concentrated DP and basic composition that admits this charge"
    ),
    "gaussian": (
        "adds mu^2 of Gaussian DP (and the distances of nearly Gaussian noise); once a charge is only "
        "zero-concentrated, the rho of all charges since the decision is held to a limit at 1% of delta "
        "instead"
    ),
    "zcdp": "adds rho of zero-concentrated DP",
    "basic": "adds epsilons and deltas",
}
"""Description of each accountant, to complete a sentence about an account that begins with "it"."""

_DISTANCE_SHARE = 0.01
"""Share of delta that pays for distances from Gaussian DP.

It is enough for millions of draws on our lattices.
"""

_OTHERS_SHARE = 0.01
"""Share of delta at which a Gaussian accountant admits charges of which only a rho of zCDP is known."""

_EDGE = 1.0 + 9e-11
"""Factor on the account's delta with which its limits are computed.

Calibrations use a delta that is below the given one by a relative 1e-10. With this factor, limits are
calibrated to a relative 1e-11 below. So an account admits a release that is calibrated to the account's own
guarantee, despite rounding. Formulas are exact to 1e-12.
"""

_ACCURATE = 1e-12
"""Relative margin for rounding errors, which is added to numbers that were computed in floats."""

_LARGEST_EPSILON = 50.0
"""Largest epsilon at which calibrations are exact.

An account with a larger epsilon has the limits of this one.
"""

_SMALLEST_DELTA = 1e-15
"""Smallest delta at which calibrations are exact.

An account with a smaller delta adds epsilons and deltas.
"""

_LARGEST_PURE = 700.0
"""Largest epsilon of a pure charge for which mu is computed. Above it, e^-epsilon is not a normal float."""

_LARGEST_DELTA = 1.0 - 2.0**-53
"""Largest delta that calibrations accept: the largest float below 1."""

_DOWN = Context(prec=17, rounding=ROUND_FLOOR)


SUM_NAMES = {"epsilon": "epsilon", "delta": "delta", "rho": "rho", "mu2": "mu^2", "distance": "distance"}


class Charge(NamedTuple):
    """A charge in the account's unit: the amounts that it adds to the five sums of the module."""

    epsilon: Decimal = NOTHING
    delta: Decimal = NOTHING
    rho: Decimal = NOTHING
    mu2: Decimal = NOTHING
    distance: Decimal = NOTHING
    simulated: bool = False

    @classmethod
    def of(cls, amounts: Iterable[Decimal], *, simulated: bool = False) -> "Charge":
        """Return a charge from its five amounts: epsilon, delta, rho, mu2 and distance."""
        epsilon, delta, rho, mu2, distance = amounts
        return cls(epsilon, delta, rho, mu2, distance, simulated)

    @property
    def amounts(self) -> tuple[Decimal, ...]:
        """The five amounts of the charge: epsilon, delta, rho, mu2 and distance."""
        return tuple(self[:5])

    @property
    def named(self) -> list[tuple[str, str]]:
        """Name of each sum to which the charge adds a finite amount other than 0, and this amount as text."""
        known = zip(SUM_NAMES.values(), self.amounts, strict=True)
        return [(name, short(amount)) for name, amount in known if amount.is_finite() and amount]

    def plus(self, other: "Charge") -> "Charge":
        """Return the exact sum of two charges."""
        sums = (add(*pair) for pair in zip(self.amounts, other.amounts, strict=True))
        return Charge.of(sums, simulated=self.simulated or other.simulated)

    def covers(self, other: "Charge") -> bool:
        """Return True if every amount is at least that of `other`."""
        return all(mine >= theirs for mine, theirs in zip(self.amounts, other.amounts, strict=True))

    def words(self) -> str:
        """Return the finite amounts of the charge as text for a message."""
        known = ", ".join(f"{name} {amount}" for name, amount in self.named)
        return (known or "nothing") + (" (simulated)" if self.simulated else "")


class Way(NamedTuple):
    """Limits of some of an account's sums. The guarantee holds while no limit is exceeded."""

    limits: Mapping[str, Decimal]

    def admits(self, sums: Charge) -> bool:
        """Return True if no sum exceeds its limit."""
        return all(getattr(sums, name) <= limit for name, limit in self.limits.items())

    def used(self, sums: Charge) -> float:
        """Return the largest share of a limit that the sums use; more than 1 if a limit is exceeded."""
        shares = (
            float(getattr(sums, name) / limit) if limit else math.inf * bool(getattr(sums, name))
            for name, limit in self.limits.items()
        )
        return max((0.0 if math.isnan(share) else share for share in shares), default=0.0)


def ways(accountant: Accountant, epsilon: Decimal, delta: Decimal) -> Iterator[Way]:
    """Yield the alternative sets of limits of an accountant that has to prove (epsilon, delta)."""
    match accountant:
        case "undecided":
            yield Way({"epsilon": epsilon, "delta": NOTHING})
        case "basic":
            yield Way({"epsilon": epsilon, "delta": delta})
        case "zcdp":
            yield Way({"rho": _rho(*_point(epsilon, delta))})
        case "gaussian":
            point = _point(epsilon, delta)
            mu2, distance = _gaussian(*point)
            yield Way({"mu2": mu2, "distance": distance})
            yield Way({"rho": _rho(point[0], point[1] * _OTHERS_SHARE)})


def accountant_for(charge: Charge, epsilon: Decimal, delta: Decimal) -> Accountant:
    """Return the accountant for an account whose first charge that is not pure is `charge`; see the module.

    Returns:
        The first accountant that admits the charge; "basic" if none does.
    """
    if float_below(epsilon) > 0.0 and float(delta) * _OTHERS_SHARE >= _SMALLEST_DELTA:
        candidates: tuple[tuple[Accountant, Decimal], ...] = (("gaussian", charge.mu2), ("zcdp", charge.rho))
        for accountant, known in candidates:
            if known.is_finite() and next(ways(accountant, epsilon, delta)).admits(charge):
                return accountant
    return "basic"


def epsilon_of(accountant: Accountant, sums: Charge, delta: Decimal) -> Decimal:
    """Return an epsilon, hardly above the smallest, at which an accountant with this delta admits these sums.

    This is the inverse of `ways`: mu2 and rho are converted at the shares of delta at which their limits are
    computed, and the distances fit their limit at the returned epsilon. So (epsilon, delta) is proven for
    the sums. Sums at a limit give the epsilon of that limit. With `basic`, epsilons are added; they hold at
    the sum of the deltas, which is at most delta.

    Example:
        >>> from dpbandits.privacy.calibration import zcdp_rho
        >>> half = Charge(rho=Decimal(zcdp_rho(1.0, 1e-6) / 2.0))
        >>> round(float(epsilon_of("zcdp", half, Decimal("1e-6"))), 3)
        0.691
    """
    if accountant in ("undecided", "basic"):
        return sums.epsilon
    whole, found = min(float_below(delta), _LARGEST_DELTA), [Decimal("Infinity")]
    if sums.rho.is_finite():
        found.append(_epsilon("rho", sums.rho, whole * (_OTHERS_SHARE if accountant == "gaussian" else 1.0)))
    if accountant == "gaussian" and sums.mu2.is_finite():
        epsilon = _epsilon("mu2", sums.mu2, whole * (1.0 - _OTHERS_SHARE - _DISTANCE_SHARE))
        if sums.distance <= _distance(float_above(epsilon), whole):
            found.append(epsilon)
    return min(found)


@lru_cache(maxsize=1024)
def _epsilon(sum_name: str, amount: Decimal, delta: float) -> Decimal:
    """Return the smallest epsilon, rounded up, that the amount of a sum proves at delta."""
    from dpbandits.privacy.certificates import GaussianDP, ZeroConcentratedDP

    if not amount:
        return NOTHING
    number = float_above(amount if sum_name == "rho" else root_up(amount))
    return above((ZeroConcentratedDP(number) if sum_name == "rho" else GaussianDP(number)).epsilon_at(delta))


def gaussian_mu_of_pure(epsilon: float) -> float | None:
    """Return the smallest mu, rounded up, for which every epsilon-DP mechanism is mu-GDP; see the module.

    It is 2 Phi^-1(e^epsilon/(1 + e^epsilon)) = 2 sqrt(2) erfinv(tanh(epsilon/2)), computed from the tail if
    tanh is near 1. Above `_LARGEST_PURE`, where floats of that tail lose digits, the result is None.

    Example:
        >>> round(gaussian_mu_of_pure(0.01), 6), round(gaussian_mu_of_pure(1.0), 4)
        (0.012533, 1.232)
    """
    from scipy.special import erfcinv, erfinv, expit

    if epsilon > _LARGEST_PURE:
        return None
    if epsilon < 1.0:
        quantile = float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        quantile = float(erfcinv(2.0 * float(expit(-epsilon))))
    return 2.0 * math.sqrt(2.0) * quantile * (1.0 + _ACCURATE)


def _point(epsilon: Decimal, delta: Decimal) -> tuple[float, float]:
    return min(float_below(epsilon), _LARGEST_EPSILON), float_below(delta)


# Cached, because every charge needs the limits of its account again. SciPy is imported inside, because a
# client, whose account has delta = 0, runs with NumPy alone.
@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> Decimal:
    from dpbandits.privacy.calibration import zcdp_rho

    return _DOWN.create_decimal_from_float(zcdp_rho(epsilon, min(delta * _EDGE, _LARGEST_DELTA)))


@lru_cache(maxsize=256)
def _gaussian(epsilon: float, delta: float) -> tuple[Decimal, Decimal]:
    from dpbandits.privacy.calibration import gaussian_mu

    weight = 1.0 + math.exp(epsilon)
    distance = _distance(epsilon, delta)
    left = delta * (1.0 - _OTHERS_SHARE) - weight * float(distance) * (1.0 + 1e-13)
    mu = _DOWN.create_decimal_from_float(gaussian_mu(epsilon, left * _EDGE))
    return times(mu, mu), distance


def _distance(epsilon: float, delta: float) -> Decimal:
    """Return the limit of the sum of distances."""
    return above(_DISTANCE_SHARE * delta / (1.0 + math.exp(epsilon)))
