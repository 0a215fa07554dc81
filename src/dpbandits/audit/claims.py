"""Audits: a claim, two neighbouring data sets, an observation, and a lower bound on the privacy loss.

The two neighbouring data sets are called worlds 0 and 1. A law is the probability distribution of the
output.

| audit | input | bound |
|---|---|---|
| `ExactAudit` | whole laws of the output | exact |
| `SampledAudit` | outputs of the real sampler, scored | with confidence, for any law |
| `GaussianAudit` | outputs of the real sampler, scored | with confidence, if the noise is normal |

The verdict `exceeded` refutes a claim. `holds` means that this attack, on these neighbours, did not refute
it. `undecided` means that there were too few samples to refute it.
"""

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from dpbandits._typing import FloatArray
from dpbandits.audit import bounds
from dpbandits.audit.scores import Score, first_column, fit_linear
from dpbandits.errors import NothingToLearn

__all__ = [
    "CERTAIN",
    "CONFIDENCE",
    "Audit",
    "AuditRow",
    "Draw",
    "ExactAudit",
    "GaussianAudit",
    "Law",
    "SampledAudit",
    "Verdict",
]

Draw = Callable[[int, int], FloatArray]
"""Function from (world, n) to n fresh outputs of world 0 or 1, of k numbers each, shape (n, k)."""

Law = Sequence[Fraction] | FloatArray
"""Probabilities of all outputs, in order."""

Verdict = Literal["holds", "exceeded", "undecided"]

CONFIDENCE = 0.999
"""Default confidence of a lower bound."""

CERTAIN = 0
"""Value of `Audit.caught_from` if some event is certain in one world and impossible in the other. The claim
is then refuted as soon as counts of such an event can exceed it."""

_TRAINING = 0.25
"""Number of training samples, as a share of the evaluated samples."""


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """The result of one audit.

    Attributes:
        name, scope, sees, neighbours: As in the `Audit`.
        claimed_epsilon, delta: The claim.
        lower_bound: Proven lower bound on epsilon at this delta.
        confidence: Probability that the bound is right; 1 for exact audits.
        tightness: Lower bound divided by the claim.
        verdict: `exceeded` if the bound is above the claim; `undecided` if it is not and there were fewer
            samples than `fewest_samples`; otherwise `holds`.
        known_broken: True if the claim is known to be false, so that it must be exceeded.
        conditional_on: Family of laws that the bound assumes, or None.
        seconds: Duration of the audit in seconds.
        samples: Number of outputs evaluated in both worlds together; 0 for exact audits.
        unconditional_bound: Bound from the same outputs for any law, if `lower_bound` is conditional.
        fewest_samples: See `Audit.fewest_samples`; None if it is not known, or if no number decides.
    """

    name: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    tightness: float
    verdict: Verdict
    known_broken: bool
    conditional_on: str | None
    seconds: float
    scope: str
    sees: str
    neighbours: str
    samples: int
    unconditional_bound: float | None = None
    fewest_samples: int | None = None

    @property
    def undecided(self) -> bool:
        """True if there were too few samples to refute the claim: the audit neither passed nor failed."""
        return self.verdict == "undecided"

    @property
    def as_expected(self) -> bool:
        """True if a claim that should be true held, or a claim that is known to be false was exceeded."""
        return not self.undecided and (self.verdict == "exceeded") == self.known_broken

    @property
    def unexpected(self) -> bool:
        """True if a claim that should be true was exceeded, or a false one was not, with enough samples."""
        return not self.undecided and not self.as_expected

    def to_json(self) -> dict[str, Any]:
        """Return a flat JSON-ready row; an infinite bound is written as a string."""
        return {key: str(value) if value == math.inf else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the row from the result of `to_json`."""
        row: dict[str, Any] = {key: math.inf if value == "inf" else value for key, value in fields.items()}
        return cls(**row)


@dataclass(frozen=True, kw_only=True)
class Audit(ABC):
    """A claim, and two worlds that are hard to distinguish if the claim is true.

    Args:
        name: Unique name in the catalogue.
        epsilon, delta: The claim.
        scope: A single "mechanism", a whole "policy" through its own calls, or an "attack", which is one
            observation and not the best one.
        sees: Description of the attacker's observation.
        neighbours: Description of the two worlds.
        known_broken: True if the claim is known to be false.
        caught_from: For a false claim, the number of samples that refutes it in 999 of 1,000 runs at a
            confidence of `CONFIDENCE`, or `CERTAIN`. None if it is not known: a run that does not refute the
            claim is then undecided.
    """

    name: str
    epsilon: float
    delta: float = 0.0
    scope: Literal["mechanism", "policy", "attack"] = "mechanism"
    sees: str
    neighbours: str
    known_broken: bool = False
    caught_from: int | None = None

    _condition: ClassVar[str | None] = None
    _certain: ClassVar[bool] = False

    @abstractmethod
    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        """Run the attack; return (lower bound, number of outputs evaluated, unconditional bound)."""

    def _able(self, confidence: float) -> int | None:
        """Return the smallest number of samples with which any law can exceed the claim.

        None means that this number is too large; 0 means that the audit needs no samples.
        """
        return 0

    def fewest_samples(self, confidence: float = CONFIDENCE) -> int | None:
        """Return the smallest number of samples with which a bound below the claim is informative.

        For a true claim, this is the number with which some law would exceed it. For a false claim, it is
        the number that refutes it (`caught_from`), or None if that is not known at this confidence. The
        result is also None if the claim's epsilon is too large for counts to exceed it.
        """
        able = self._able(confidence)
        if not self.known_broken or self._certain or able is None:
            return able
        if self.caught_from is None or (confidence > CONFIDENCE and self.caught_from != CERTAIN):
            return None
        return max(self.caught_from, able)

    def run(self, *, samples: int = 100_000, confidence: float = CONFIDENCE) -> AuditRow:
        """Attack with `samples` outputs of each world, times the audit's share, and return the result."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingToLearn)  # audited policies may be too small to learn
            found, evaluated, unconditional = self._bound(samples, confidence)
        fewest = self.fewest_samples(confidence)
        verdict: Verdict = "undecided" if fewest is None or samples < fewest else "holds"
        return AuditRow(
            name=self.name,
            claimed_epsilon=self.epsilon,
            delta=self.delta,
            lower_bound=found,
            confidence=1.0 if self._certain else confidence,
            tightness=found / self.epsilon,
            verdict="exceeded" if found > self.epsilon else verdict,
            known_broken=self.known_broken,
            conditional_on=self._condition,
            seconds=time.perf_counter() - started,
            scope=self.scope,
            sees=self.sees,
            neighbours=self.neighbours,
            samples=evaluated,
            unconditional_bound=unconditional,
            fewest_samples=fewest,
        )


@dataclass(frozen=True, kw_only=True)
class ExactAudit(Audit):
    """Audit that compares whole laws of the output, pair by pair; for pure epsilon only.

    Args:
        pairs: Function that returns pairs of laws over the same outputs, each under two neighbours.
    """

    pairs: Callable[[], Iterable[tuple[Law, Law]]]

    _certain = True

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        return max(bounds.law_bound(law, other) for law, other in self.pairs()), 0, None


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How outputs become scores, and how many outputs are drawn.

    Args:
        fit: Function from training outputs of worlds 0 and 1 to a score; not used if `score` is given.
        score: Score that is known in advance, such as a likelihood ratio; or None.
        share: Factor on the number of samples; below 1 if an output is costly.
    """

    fit: Callable[[FloatArray, FloatArray], Score] = fit_linear
    score: Score | None = None
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SampledAudit(Audit):
    """Audit that counts events of a score.

    Score and thresholds are chosen on other samples than those counted.
    """

    draw: Draw
    scoring: Scoring = Scoring()

    def _able(self, confidence: float) -> int | None:
        outputs = bounds.fewest_outputs(self.epsilon, self.delta, confidence=confidence)
        if outputs is None or outputs > bounds.MOST_OUTPUTS * self.scoring.share:
            return None  # larger numbers are not exact in floats
        samples = int(outputs / self.scoring.share)
        while int(samples * self.scoring.share) < outputs:
            samples += 1
        return samples

    def _training(self, n: int) -> list[FloatArray]:
        return [self.draw(world, max(2, int(n * _TRAINING))) for world in (0, 1)]

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        n = max(2, int(samples * self.scoring.share))
        training = self._training(n)
        score = self.scoring.score or self.scoring.fit(*training)
        found = _held_out(
            [score(part) for part in training],
            [score(self.draw(world, n)) for world in (0, 1)],
            delta=self.delta,
            confidence=confidence,
        )
        return found, 2 * n, None


@dataclass(frozen=True, kw_only=True)
class GaussianAudit(SampledAudit):
    """Audit that bounds mu of a score, provided that outputs are normal; see `bounds` for mu.

    Args:
        scoring: Scoring with a score that is linear in the outputs and known in advance; a score of None is
            fitted on separate samples.
    """

    scoring: Scoring = Scoring(score=first_column)

    _condition = "Gaussian noise"

    def _able(self, confidence: float) -> int:
        return 0

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        n = max(4, int(samples * self.scoring.share))
        score = self.scoring.score or self.scoring.fit(*self._training(n))
        null, other = (score(self.draw(world, n)) for world in (0, 1))
        found = bounds.gaussian_bound(null, other, delta=self.delta, confidence=confidence)
        half = n // 2
        if other[:half].mean() < null[:half].mean():
            null, other = -null, -other
        unconditional = _held_out(
            [null[:half], other[:half]], [null[half:], other[half:]], delta=self.delta, confidence=confidence
        )
        return found, 2 * n, unconditional


def _held_out(
    training: Sequence[FloatArray], fresh: Sequence[FloatArray], *, delta: float, confidence: float
) -> float:
    """Return the lower bound on epsilon from fresh scores, at thresholds chosen on training scores."""
    error = 0.25 * (1.0 - confidence)
    above, below = bounds.chosen_thresholds(*training, delta=delta, error=error)
    return bounds.event_bound(*fresh, above=[above], below=[below], delta=delta, confidence=confidence)
