"""Private choice: permute-and-flip by its law and by its sampler, and the exponential mechanism's law."""

from collections.abc import Callable, Iterator

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import Entries, listed
from dpbandits.audit.claims import Draw, ExactAudit, Law, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.privacy.selection import exponential_law, permute_and_flip, permute_and_flip_law

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_RANGE = 1 << 20
"""Range sensitivity of the scores."""

_OTHERS = (1, 4, 40)
"""Candidates beside the one that a neighbour moves."""


def _whole_law(name: str, law: Callable[..., FloatArray]) -> None:
    @listed(
        ENTRIES,
        name,
        ExactAudit,
        sees="the chosen candidate",
        neighbours="integer scores whose changes lie in one interval of length R",
    )
    def pairs(epsilon: float, seed: int) -> Callable[[], Iterator[tuple[Law, Law]]]:
        def moved() -> Iterator[tuple[Law, Law]]:
            """One candidate's score against all others' moves by the whole range, from different starts."""
            for others in _OTHERS:
                for start in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0):
                    scores = np.zeros((2, others + 1))
                    scores[:, 0] = _RANGE * np.array([start, start + 1.0])
                    one, two = law(scores, sensitivity=_RANGE, epsilon=epsilon)
                    yield one, two

        return moved


_whole_law("permute-and-flip", permute_and_flip_law)
_whole_law("exponential-mechanism", exponential_law)


@listed(
    ENTRIES,
    "permute-and-flip-sampler",
    SampledAudit,
    sees="the chosen candidate",
    neighbours="two candidates, level or one ahead by R",
    fit=fit_categories,
)
def _sampler(epsilon: float, seed: int) -> Draw:
    def draw(world: int, n: int) -> FloatArray:
        scores = [world * _RANGE, 0]
        return np.array([permute_and_flip(scores, sensitivity=_RANGE, epsilon=epsilon) for _ in range(n)])

    return draw
