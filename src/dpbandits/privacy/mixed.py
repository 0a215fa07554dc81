"""`PureBeside`: a pure loss spent beside another mechanism on the same people."""

from dataclasses import dataclass
from typing import Any

from dpbandits import _checks
from dpbandits.privacy.certificates import (
    Certificate,
    ZeroConcentratedDP,
    from_config,
    membership_bound,
    rounded_up,
)

__all__ = ["PureBeside"]


@dataclass(frozen=True)
class PureBeside(Certificate):
    """What `other` proves, after a further pure loss of `epsilon` (basic composition, adaptive).

    delta(eps) is `other`'s at eps - epsilon: a pure mechanism adds its epsilon and no delta.

    Example:
        >>> from dpbandits.privacy.certificates import GaussianDP
        >>> both = PureBeside(0.5, GaussianDP(0.2367))
        >>> bool(abs(both.delta_at(1.5) - GaussianDP(0.2367).delta_at(1.0)) < 1e-15)
        True
    """

    epsilon: float
    other: Certificate

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checks.number(self.epsilon, name="epsilon"))

    def delta_at(self, epsilon: float) -> float:
        """`other`'s delta at what is left of epsilon; below the pure loss, its delta at 0 or more: 1."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        # a decimal sum of budgets may come a rounding short of its parts in binary
        left = loss - self.epsilon * (1.0 - 2.0**-50)
        return self.other.delta_at(left) if left >= 0.0 else 1.0

    def epsilon_at(self, delta: float) -> float:
        """The pure loss plus `other`'s epsilon."""
        return self.epsilon + self.other.epsilon_at(delta)

    def to_zcdp(self) -> ZeroConcentratedDP:
        """Sum of both rhos."""
        return ZeroConcentratedDP(0.5 * self.epsilon**2 + self.other.to_zcdp().rho)

    def membership_bound(self) -> float:
        """The zero-concentrated one, or that of (epsilon, delta) at the best delta of a few."""
        chances = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1)
        simple = min(membership_bound(self.epsilon_at(delta), delta) for delta in chances)
        return min(simple, self.to_zcdp().membership_bound())

    def describe(self) -> str:
        """The certificate in a few words."""
        return f"a pure loss of {rounded_up(self.epsilon)} beside {self.other.describe()}"

    def to_config(self) -> dict[str, Any]:
        """JSON-ready description."""
        return {"kind": "PureBeside", "epsilon": self.epsilon, "other": self.other.to_config()}

    @classmethod
    def of_config(cls, *, epsilon: float, other: dict[str, Any]) -> "PureBeside":
        """Rebuild it from the fields of `to_config()`."""
        return cls(epsilon, from_config(other))
