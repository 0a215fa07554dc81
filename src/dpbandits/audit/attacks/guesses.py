"""Success rate of an attacker's guesses, compared with the bound that the guarantee gives (`Guesses`)."""

import math
from dataclasses import dataclass

__all__ = ["Guesses"]


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Numbers of an attacker's guesses between two equally likely worlds.

    Attributes:
        trials: Number of guesses.
        correct: Number of right guesses; a tie counts half.
        bound: Largest share of right guesses that the guarantee allows; 1 without a guarantee.
    """

    trials: int
    correct: float
    bound: float

    @property
    def success(self) -> float:
        """Share of right guesses; 0.5 by chance alone."""
        return self.correct / self.trials

    @property
    def standard_error(self) -> float:
        """Binomial standard error of `success`."""
        return math.sqrt(self.success * (1.0 - self.success) / self.trials)

    @property
    def excess(self) -> float:
        """Number of standard errors by which the success exceeds the bound.

        Far above zero, the guarantee is false.
        """
        return (self.success - self.bound) / math.sqrt(self.bound * (1.0 - self.bound) / self.trials)

    @property
    def epsilon_lower_bound(self) -> float:
        """Lower bound on epsilon: the log odds of the success minus six standard errors; at least 0."""
        # If all guesses were right, the error is not zero: use that of a single wrong guess.
        rate = self.success - 6.0 * max(self.standard_error, 1.0 / self.trials)
        return max(0.0, math.log(rate / (1.0 - rate))) if 0.5 < rate < 1.0 else 0.0
