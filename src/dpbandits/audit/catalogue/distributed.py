"""Audit of reports to two aggregators, with the view of one that works together with the collector."""

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import Entries, PreparedNoise, crowded
from dpbandits.audit.claims import SampledAudit
from dpbandits.distributed import (
    Device,
    DistributedSpec,
    DistributedTuning,
    IdealAggregation,
    PublishedCellArms,
    Report,
)
from dpbandits.privacy.definitions import DistributedDP
from dpbandits.tables import Range, Schema

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_PEOPLE = 256
"""Number of people in a batch, each alone in a cell."""


def _odds(views: FloatArray) -> FloatArray:
    """Return how much closer each view (n, 2) of a cell's two buckets is to a failure than to a success."""
    away = [np.abs(views - exact).sum(axis=1) for exact in ((1.0, 0.0), (0.0, 1.0))]
    return np.asarray(away[0] - away[1])


@crowded(
    ENTRIES,
    "distributed-one-aggregator",
    SampledAudit,
    scope="policy",
    sees="the released sum of one version and the noise of one of the two aggregators",
    neighbours="the highest reward, or the lowest",
    score=_odds,
    share=0.2,
)
def _one_aggregator(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    spec = DistributedSpec(
        contexts=Schema(place=Range(0, 1)),
        arms=[0],
        privacy=DistributedDP(epsilon=epsilon),
        horizon=_PEOPLE,
        seed=seed,
        tuning=DistributedTuning(cells=_PEOPLE),
    )
    aggregation = IdealAggregation(spec, noise=noise)
    aggregation.upload([_reported(spec, place, 1.0 - world) for place in spec.grid.centres[:, 0].tolist()])
    aggregation.collect(0)
    return np.asarray(aggregation.unsafe_view(0, aggregator=1)[:-1].reshape(-1, 2), dtype=np.float64)


def _reported(spec: DistributedSpec, place: float, reward: float) -> Report:
    device = Device(spec)
    device.choose(PublishedCellArms(version=0, arms=np.zeros(spec.grid.size, dtype=np.int64)), [place])
    return device.report(reward)
