"""Tools that the catalogue's audits share: registration, a small feature map, and noise drawn in advance."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.claims import Audit, Draw, ExactAudit, Law, SampledAudit, Scoring
from dpbandits.models.features.base import FEATURES, Features, Supports
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.noise import SecureNoise

__all__ = [
    "DELTA",
    "AxisFeatures",
    "Entries",
    "LineFeatures",
    "Pairs",
    "PreparedNoise",
    "crowded",
    "listed",
    "lived",
    "lives",
]

DELTA = 1e-6
"""Delta of claims that need a delta."""

_AHEAD = 20_000
"""Number of noise values that are drawn together. A value drawn alone costs ten times as much."""

Entries = dict[str, Callable[[float, int], Audit]]
"""For each audit's name, a function (epsilon, public seed) -> audit."""

Pairs = Callable[[], Iterator[tuple[Law, Law]]]
"""Function that yields pairs of laws of the output.

The laws of a pair belong to two neighbouring data sets.
"""

Builder = TypeVar("Builder", bound=Callable[[float, int], Any])
Life = TypeVar("Life", bound=Callable[[float, int, "PreparedNoise", int], ArrayLike])


def listed(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Builder], Builder]:
    """Return a decorator of a function (epsilon, public seed) -> pairs or draw, which registers its audit.

    Args:
        entries: Entries of the module, to which the audit is added.
        name: Name of the audit.
        kind: Class of the audit. For `ExactAudit` the decorated function returns pairs of laws, else a
            `Draw`.
        **facts: Further arguments of the audit and of its scoring. If they include `epsilon`, the claim is a
            printed one, and its epsilon is not changed. A `caught_from` other than `CERTAIN` was determined
            at the printed epsilon, or at 1.
    """

    def put(builder: Builder) -> Builder:
        compared = "pairs" if kind is ExactAudit else "draw"

        def audit(epsilon: float, seed: int) -> Audit:
            known = facts.get("epsilon", 1.0 if facts.get("caught_from") else epsilon)
            found = {"name": name, "epsilon": epsilon, compared: builder(epsilon, seed)} | facts
            scored = {part.name: found.pop(part.name) for part in fields(Scoring) if part.name in found}
            if scored and issubclass(kind, SampledAudit):
                found["scoring"] = replace(kind.scoring, **scored)
            return kind(**found if known == found["epsilon"] else found | {"caught_from": None})

        entries[name] = audit
        return builder

    return put


def lives(run: Callable[[int], ArrayLike]) -> Draw:
    """Return a `Draw` that calls `run(world)` once for each output.

    Each call is a fresh run with k numbers.
    """

    def draw(world: int, n: int) -> FloatArray:
        return np.array([np.ravel(np.asarray(run(world), dtype=np.float64)) for _ in range(n)])

    return draw


def lived(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Life], Life]:
    """Return a decorator that registers an audit as `listed`, of a function that makes one run.

    The function's arguments are (epsilon, public seed, noise, world), and it returns the output (k,) of the
    run.
    """

    def put(life: Life) -> Life:
        def draw(epsilon: float, seed: int) -> Draw:
            return lives(partial(life, epsilon, seed, PreparedNoise()))

        listed(entries, name, kind, **facts)(draw)
        return life

    return put


def crowded(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Life], Life]:
    """Return a decorator that registers an audit as `listed`, of a function that runs many people at once.

    The function's arguments are (epsilon, public seed, noise, world), and it returns outputs (people, k).
    All people in a run are replaced. Each row must be an observation of one person alone, with its own
    noise. The rows are then equivalent to runs of one person each, at a hundredth of the cost.
    """

    def put(run: Life) -> Life:
        def draws(epsilon: float, seed: int) -> Draw:
            noise = PreparedNoise()

            def draw(world: int, n: int) -> FloatArray:
                rows = [np.asarray(run(epsilon, seed, noise, world), dtype=np.float64)]
                while len(rows) * len(rows[0]) < n:
                    rows.append(np.asarray(run(epsilon, seed, noise, world), dtype=np.float64))
                return np.concatenate(rows)[:n]

            return draw

        listed(entries, name, kind, **facts)(draws)
        return run

    return put


@dataclass(frozen=True)
class LineFeatures(Features):
    """Feature map phi(x) = x on [-1, 1], under which one user can change the statistics most."""

    n_features = 1
    supports = ((0, 1),)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the points unchanged, shape (..., 1)."""
        return np.asarray(X, dtype=np.float64)[..., :1]

    def to_config(self) -> dict[str, Any]:
        """Return a label for digests. The features cannot be rebuilt from it."""
        return {"features": "line"}


@FEATURES.add("AuditAxes")
@dataclass(frozen=True)
class AxisFeatures(Features):
    """Feature map phi(j, s) = s e_j of a point s on axis j, where e_j is the unit vector of the axis.

    Each person has a separate axis, and changes the statistics most along it.
    """

    n_features: int

    @property
    def supports(self) -> Supports:  # type: ignore[override]
        """Ranges of features that can be nonzero together: one feature for each axis."""
        return tuple((axis, axis + 1) for axis in range(self.n_features))

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return features (..., n_features) of points (..., 2): the axis's number and the place on it."""
        points = np.asarray(X, dtype=np.float64)
        return np.asarray((points[..., :1] == np.arange(self.n_features)) * points[..., 1:2])


class PreparedNoise:
    """Noise source like `SecureNoise` for many short runs, which draws in advance.

    It solves each calibration once. It uses the sampler of `SecureNoise`, and no draw twice. It has no
    method `prepare`: in each short run, a policy would start a thread to draw noise that is already
    available.

    Args:
        known: Source whose calibrations are shared, or None.
    """

    gaussian_law = SecureNoise.gaussian_law

    def __init__(self, known: "PreparedNoise | None" = None) -> None:
        self._source = SecureNoise()
        self._scales: dict[tuple[float, float, float, int | None], tuple[float, Certificate]]
        self._scales = {} if known is None else known._scales
        self._waiting: dict[float, int] = {}

    @property
    def status(self) -> Literal["enforced", "simulated"]:
        """Status of the source from which the noise is drawn; see `SecureNoise`."""
        return self._source.status

    def to_config(self) -> dict[str, Any]:
        """Return the configuration of the source from which the noise is drawn; see `SecureNoise`."""
        return self._source.to_config()

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """Return scale and certificate, cached; see `SecureNoise`."""
        key = (sensitivity, epsilon, delta, draws)
        if key not in self._scales:
            self._scales[key] = self._source.gaussian_scale(sensitivity, epsilon, delta, draws=draws)
        return self._scales[key]

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Return noise that was drawn in advance; see `SecureNoise`."""
        if self._waiting.get(sigma, 0) < size:
            self._waiting[sigma] = max(size, _AHEAD)
            self._source.prepare(sigma, self._waiting[sigma])
        self._waiting[sigma] -= size
        return self._source.integer_gaussian(sigma, size)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Return noise; see `SecureNoise`."""
        return self._source.integer_laplace(rate, size)
