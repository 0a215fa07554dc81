"""Audits of outsourced optimisation: a release directory as the modeler reads it, and answers with noise.

A curator adds independent noise to every row. A table with n rows at one place therefore gives n samples of
the release of one row at that place. One more row at another place keeps the column from being constant.
"""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import DELTA, Entries, listed
from dpbandits.audit.claims import Draw, GaussianAudit, SampledAudit
from dpbandits.errors import ProtocolError
from dpbandits.outsourced import AnswerLaplace, Curator, CuratorTuning, PublishedRows
from dpbandits.privacy.definitions import RowDP
from dpbandits.tables import Range, Schema

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_WIDTH = 50.0
"""Width of the public cube, which has one dimension."""

_REFUSED = -1e9
"""Number that stands for a refusal among answers."""

_policy = partial(listed, ENTRIES, scope="policy")
_row = partial(_policy, sees="one row of the release directory", neighbours="the row at the stated distance")


def _curator(
    world: int, n: int, privacy: RowDP, mechanism: str, answers: AnswerLaplace | None = None
) -> Curator:
    """Return a curator of n rows at 0 (world 0) or 1 (world 1), in public coordinates."""
    place = 0.5 + world / _WIDTH
    table, schema = {"x": [*([place] * n), 0.0]}, Schema(x=Range(0.0, 1.0))

    def evaluate(_row: object) -> float:
        return 1.0 / world

    return Curator(
        table,
        contexts=schema,
        privacy=privacy,
        objective=evaluate,
        answers=answers,
        tuning=CuratorTuning(mechanism=mechanism),
    )


def _answer(curator: Curator, row: int) -> float:
    try:
        return curator.answer(row)
    except ProtocolError:
        return _REFUSED


def _published(curator: Curator) -> FloatArray:
    with tempfile.TemporaryDirectory() as folder:
        curator.publish(Path(folder) / "release")
        return PublishedRows.load(Path(folder) / "release").inputs


def _told(outputs: FloatArray) -> FloatArray:
    ramps = _ramp(outputs).sum(axis=1)
    return np.asarray(np.where(outputs[:, 1] == _REFUSED, ramps - 2.0, ramps))


def _ramp(outputs: FloatArray) -> FloatArray:
    return np.asarray(np.clip(outputs, 0.0, 1.0))


@_row("curator-release", SampledAudit, score=lambda outputs: _ramp(outputs[:, 0]))
def _laplace(epsilon: float, seed: int) -> Draw:
    privacy = RowDP(epsilon=epsilon, distance=1.0)
    return lambda world, n: _published(_curator(world, n, privacy, "l2_laplace"))


@_row("curator-release-gaussian", GaussianAudit, delta=DELTA)
def _gaussian(epsilon: float, seed: int) -> Draw:
    privacy = RowDP(epsilon=epsilon, delta=DELTA, distance=1.0)
    return lambda world, n: _published(_curator(world, n, privacy, "gaussian"))


@_policy(
    "curator-release-and-answers",
    SampledAudit,
    sees="one row of the release directory, and its answer",
    neighbours="position and answer at their stated distances, the other's evaluation failing",
    score=_told,
    share=0.08,
)
def _answers(epsilon: float, seed: int) -> Draw:
    noise = AnswerLaplace(epsilon=0.5 * epsilon, distance=1.0, low=-8.0, high=8.0)
    privacy = RowDP(epsilon=0.5 * epsilon, distance=1.0)

    def draw(world: int, n: int) -> FloatArray:
        curator = _curator(world, n, privacy, "l2_laplace", noise)
        rows = _published(curator)
        return np.column_stack([rows[:n, 0], [_answer(curator, row) for row in range(n)]])

    return draw
