"""How often an attacker was right, beside what the promise allows."""

import math
from dataclasses import dataclass

__all__ = ["Guesses"]


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Guesses between two worlds, each as likely.

    Attributes:
        trials: guesses made.
        correct: guesses that were right; a tie counts half.
        bound: the largest share of right guesses that the guarantee allows; 1 without a guarantee.
    """

    trials: int
    correct: float
    bound: float

    @property
    def success(self) -> float:
        """Share of right guesses; 0.5 is luck."""
        return self.correct / self.trials

    @property
    def standard_error(self) -> float:
        """Of `success`, binomial."""
        return math.sqrt(self.success * (1.0 - self.success) / self.trials)

    @property
    def excess(self) -> float:
        """Standard errors by which the success exceeds the bound; far above zero, the claim is false."""
        return (self.success - self.bound) / math.sqrt(self.bound * (1.0 - self.bound) / self.trials)

    @property
    def epsilon_lower_bound(self) -> float:
        """Privacy loss that the success proves, at six standard errors of it: its log odds; at least 0."""
        # where all guesses were right, the error is not zero: it is that of one wrong one
        rate = self.success - 6.0 * max(self.standard_error, 1.0 / self.trials)
        return max(0.0, math.log(rate / (1.0 - rate))) if 0.5 < rate < 1.0 else 0.0
