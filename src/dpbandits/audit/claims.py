"""Audits: a claim, two neighbouring data sets, what can be observed of them, and a bound on the loss.

| audit | looks at | bound |
|---|---|---|
| `ExactAudit` | whole laws of the output | exact |
| `SampledAudit` | outputs of the real sampler, scored | with confidence, for any law |
| `GaussianAudit` | the same | with confidence, if the noise is normal |

An audit proves a privacy loss from below. `exceeded` refutes a claim; `holds` means that this attack, on
these neighbours, did not. `undecided` means that it had too few samples to refute the claim.
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
"""(world, n) -> (n, k) fresh outputs of world 0 or 1."""

Law = Sequence[Fraction] | FloatArray
"""Probabilities of all outputs, in order."""

Verdict = Literal["holds", "exceeded", "undecided"]

CONFIDENCE = 0.999
"""Confidence of a lower bound, unless another is asked for."""

CERTAIN = 0
"""`Audit.caught_from` where some event is certain in one world and impossible in the other: the claim is
caught as soon as counts of such an event can exceed it."""

_TRAINING = 0.25
"""Training samples, as a share of those that are evaluated."""


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """The result of one audit.

    Attributes:
        name, scope, sees, neighbours: of the `Audit`.
        claimed_epsilon, delta: the claim.
        lower_bound: privacy loss that was proved at this delta.
        confidence: that it is right; 1 for exact ones.
        tightness: lower bound over claim.
        verdict: `exceeded` where the bound is above the claim; `undecided` where it is not, and there were
            fewer samples than `fewest_samples`; else `holds`.
        known_broken: whether the claim is known to be false, so that it must be exceeded.
        conditional_on: the family of laws that the bound presumes, or None.
        seconds: time it took.
        samples: outputs evaluated in both worlds together; 0 for exact ones.
        unconditional_bound: what the same outputs prove for any law, where `lower_bound` is conditional.
        fewest_samples: see `Audit.fewest_samples`; None where it is not known, or no number decides.
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
        """Return whether there were too few samples to refute the claim: neither a pass nor a miss."""
        return self.verdict == "undecided"

    @property
    def as_expected(self) -> bool:
        """Return whether an honest claim held, or a broken one was caught."""
        return not self.undecided and (self.verdict == "exceeded") == self.known_broken

    @property
    def unexpected(self) -> bool:
        """Return whether an honest claim was exceeded, or a broken one was missed with enough samples."""
        return not self.undecided and not self.as_expected

    def to_json(self) -> dict[str, Any]:
        """A flat row; an infinite bound is written as a string."""
        return {key: str(value) if value == math.inf else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The row that `to_json` wrote."""
        row: dict[str, Any] = {key: math.inf if value == "inf" else value for key, value in fields.items()}
        return cls(**row)


@dataclass(frozen=True, kw_only=True)
class Audit(ABC):
    """A claim and the two worlds that it says nobody can tell apart.

    Args:
        name: unique in the catalogue.
        epsilon, delta: the claim.
        scope: a single "mechanism", a whole "policy" through its own calls, or an "attack": one way of
            looking, not the best there is.
        sees: what the attacker looks at.
        neighbours: the two worlds, in words.
        known_broken: the claim is known to be false.
        caught_from: of a claim that is known to be false, how many samples catch it in 999 of 1,000 runs at a
            confidence of `CONFIDENCE`, or `CERTAIN`. None: nobody knows, and a run that does not catch it is
            undecided.
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
        """(lower bound, outputs evaluated, unconditional bound)."""

    def _able(self, confidence: float) -> int | None:
        """Fewest samples at which a bound above the claim is possible, whatever the law; None: too many."""
        return 0

    def fewest_samples(self, confidence: float = CONFIDENCE) -> int | None:
        """Fewest samples at which a bound that is not above the claim says anything.

        Of an honest claim: those at which some law would exceed it. Of one that is known to be false: those
        that catch it (`caught_from`), or None where that is not known at this confidence. None also where
        no number decides, because the claim's epsilon is too large to be exceeded by counts.
        """
        able = self._able(confidence)
        if not self.known_broken or self._certain or able is None:
            return able
        if self.caught_from is None or (confidence > CONFIDENCE and self.caught_from != CERTAIN):
            return None
        return max(self.caught_from, able)

    def run(self, *, samples: int = 100_000, confidence: float = CONFIDENCE) -> AuditRow:
        """Attack with so many outputs of each world, before the audit's share; returns what was proved."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingToLearn)  # policies for attacking are too small to learn
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
    """Compares whole laws of the output, pair by pair; pure claims only.

    Args:
        pairs: () -> pairs of laws over the same outputs, under two neighbours each.
    """

    pairs: Callable[[], Iterable[tuple[Law, Law]]]

    _certain = True

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        return max(bounds.law_bound(law, other) for law, other in self.pairs()), 0, None


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How outputs are scored, and how many.

    Args:
        fit: training outputs of worlds 0 and 1 -> score; not used where there is a
        score: one known beforehand (a likelihood ratio, say).
        share: of the samples asked for; below 1 where an output is costly.
    """

    fit: Callable[[FloatArray, FloatArray], Score] = fit_linear
    score: Score | None = None
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SampledAudit(Audit):
    """Counts events of a score, on other samples than score and thresholds were chosen on."""

    draw: Draw
    scoring: Scoring = Scoring()

    def _able(self, confidence: float) -> int | None:
        outputs = bounds.fewest_outputs(self.epsilon, self.delta, confidence=confidence)
        if outputs is None or outputs > bounds.MOST_OUTPUTS * self.scoring.share:
            return None  # larger numbers of samples would leave the integers that floats count
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
    """Bounds mu from means and variance of a score, on condition that outputs are normal.

    Args:
        scoring: its score is linear in the outputs and known beforehand; None fits one on samples of its own.
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
    """The bound on fresh scores (world 0, world 1) at thresholds chosen on training scores."""
    error = 0.25 * (1.0 - confidence)
    above, below = bounds.chosen_thresholds(*training, delta=delta, error=error)
    return bounds.event_bound(*fresh, above=[above], below=[below], delta=delta, confidence=confidence)
