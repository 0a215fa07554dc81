"""Parts of the catalogue's audits: how an audit is listed, a small feature map, noise drawn ahead."""

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
"""Delta of claims that need one."""

_AHEAD = 20_000
"""Draws made ahead: a draw alone costs ten times one of many."""

Entries = dict[str, Callable[[float, int], Audit]]
"""Name -> (epsilon, public seed) -> the audit."""

Pairs = Callable[[], Iterator[tuple[Law, Law]]]
"""() -> laws under two neighbours each."""

Builder = TypeVar("Builder", bound=Callable[[float, int], Any])
Life = TypeVar("Life", bound=Callable[[float, int, "PreparedNoise", int], ArrayLike])


def listed(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Builder], Builder]:
    """Decorates a function (epsilon, public seed) -> what is compared, and puts its audit into `entries`.

    Args:
        entries: of the module.
        name: of the audit.
        kind: `ExactAudit`: the function gives () -> pairs of laws; any other: (world, n) -> outputs.
        **facts: further arguments of the audit and of its scoring; an `epsilon` among them is a printed
            claim, which stays. Any other `caught_from` than `CERTAIN` was found at the epsilon that is
            printed, or at 1.
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
    """(world, n) -> (n, k) outputs of n fresh runs, one after another: each is a life of its own."""

    def draw(world: int, n: int) -> FloatArray:
        return np.array([np.ravel(np.asarray(run(world), dtype=np.float64)) for _ in range(n)])

    return draw


def lived(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Life], Life]:
    """As `listed`, for a function (epsilon, public seed, noise, world) -> (k,) output of one fresh run."""

    def put(life: Life) -> Life:
        def draw(epsilon: float, seed: int) -> Draw:
            return lives(partial(life, epsilon, seed, PreparedNoise()))

        listed(entries, name, kind, **facts)(draw)
        return life

    return put


def crowded(entries: Entries, name: str, kind: type[Audit], **facts: Any) -> Callable[[Life], Life]:
    """As `lived`, for a run (epsilon, public seed, noise, world) -> (people, k) outputs, a row for everybody.

    Everybody in a run is replaced, and each row must be what is seen in a place of that person alone, under
    noise of its own: then the rows are as good as runs of one person each, and cost a hundredth.
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
    """phi(x) = x on [-1, 1]: the feature map on which one user can move the statistics most."""

    n_features = 1
    supports = ((0, 1),)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """(..., 1) points as they are."""
        return np.asarray(X, dtype=np.float64)[..., :1]

    def to_config(self) -> dict[str, Any]:
        """Not to be built from: for digests."""
        return {"features": "line"}


@FEATURES.add("AuditAxes")
@dataclass(frozen=True)
class AxisFeatures(Features):
    """Feature map phi(j, s) = s e_j: each person has an own axis and moves the statistics most along it."""

    n_features: int

    @property
    def supports(self) -> Supports:  # type: ignore[override]
        """An axis each."""
        return tuple((axis, axis + 1) for axis in range(self.n_features))

    def __call__(self, X: ArrayLike) -> FloatArray:
        """(..., n_features) of points (..., 2): axis and place on it."""
        points = np.asarray(X, dtype=np.float64)
        return np.asarray((points[..., :1] == np.arange(self.n_features)) * points[..., 1:2])


class PreparedNoise:
    """`SecureNoise` for many short runs: it draws ahead and solves each calibration once.

    The sampler is that of `SecureNoise`, and no draw is used twice. It has no `prepare`, because a policy
    would start a thread in each short run to draw what is there already.

    Args:
        known: its calibrations are used and added to.
    """

    gaussian_law = SecureNoise.gaussian_law

    def __init__(self, known: "PreparedNoise | None" = None) -> None:
        self._source = SecureNoise()
        self._scales: dict[tuple[float, float, float, int | None], tuple[float, Certificate]]
        self._scales = {} if known is None else known._scales
        self._waiting: dict[float, int] = {}

    @property
    def status(self) -> Literal["enforced", "simulated"]:
        """See `SecureNoise`."""
        return self._source.status

    def to_config(self) -> dict[str, Any]:
        """See `SecureNoise`."""
        return self._source.to_config()

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """See `SecureNoise`; the result is remembered."""
        key = (sensitivity, epsilon, delta, draws)
        if key not in self._scales:
            self._scales[key] = self._source.gaussian_scale(sensitivity, epsilon, delta, draws=draws)
        return self._scales[key]

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """See `SecureNoise`; draws made ahead are used."""
        if self._waiting.get(sigma, 0) < size:
            self._waiting[sigma] = max(size, _AHEAD)
            self._source.prepare(sigma, self._waiting[sigma])
        self._waiting[sigma] -= size
        return self._source.integer_gaussian(sigma, size)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """See `SecureNoise`."""
        return self._source.integer_laplace(rate, size)
