"""Private choice: permute-and-flip by its law and by its sampler, and the exponential mechanism's law."""

from collections.abc import Callable, Iterable

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue._shared import Entry
from dpbandits.audit.claims import Audit, ExactAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.privacy.selection import exponential_law, permute_and_flip, permute_and_flip_law

__all__ = ["ENTRIES"]

_RANGE = 1 << 20
"""Range sensitivity of the scores."""

_OTHERS = (1, 4, 40)
"""Candidates beside the one that a neighbour moves."""

Law = Callable[..., FloatArray]


def _pairs(law: Law, epsilon: float) -> Iterable[tuple[FloatArray, FloatArray]]:
    """One candidate's score against all others' moves by the whole range, from different starts."""
    for others in _OTHERS:
        for start in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0):
            scores = np.zeros((2, others + 1))
            scores[:, 0] = _RANGE * np.array([start, start + 1.0])
            one, two = law(scores, sensitivity=_RANGE, epsilon=epsilon)
            yield one, two


def _law_entry(name: str, law: Law) -> Entry:
    def build(epsilon: float, seed: int) -> Audit:
        return ExactAudit(
            name=name,
            epsilon=epsilon,
            sees="the chosen candidate",
            neighbours="integer scores whose changes lie in one interval of length R",
            pairs=lambda: _pairs(law, epsilon),
        )

    return name, build


def _sampled(epsilon: float, seed: int) -> Audit:
    def draw(world: int, n: int) -> FloatArray:
        scores = [world * _RANGE, 0]
        return np.array([permute_and_flip(scores, sensitivity=_RANGE, epsilon=epsilon) for _ in range(n)])

    return SampledAudit(
        name="permute-and-flip-sampler",
        epsilon=epsilon,
        sees="the chosen candidate",
        neighbours="two candidates, level or one ahead by R",
        draw=draw,
        fit=fit_categories,
    )


ENTRIES: tuple[Entry, ...] = (
    _law_entry("permute-and-flip", permute_and_flip_law),
    _law_entry("exponential-mechanism", exponential_law),
    ("permute-and-flip-sampler", _sampled),
)
