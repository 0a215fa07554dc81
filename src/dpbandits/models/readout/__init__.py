"""Comparison of a policy with a control from released sums, with intervals that count the noise.

- `Look`, `Group`, `Metric`, `NoiseScales`: the released sums of one look, and the noise that they carry.
- `compare_groups`: `Readings` of all looks so far; `crossed`: the look at which harm is proven.
- `segments`: the comparison in each cell of a column, from `CellTable`s; gives `ReadCell`s.
- `half_width`: width of an interval before any data.
"""

from dpbandits.models.readout.comparing import (
    SAMPLE_RATIO_THRESHOLD,
    Readings,
    ReadMetric,
    compare_groups,
    crossed,
    plain_numbers,
)
from dpbandits.models.readout.segments import CellTable, ReadCell, segments
from dpbandits.models.readout.sums import Group, Look, Metric, NoiseScales
from dpbandits.models.readout.widths import half_width

__all__ = [
    "SAMPLE_RATIO_THRESHOLD",
    "CellTable",
    "Group",
    "Look",
    "Metric",
    "NoiseScales",
    "ReadCell",
    "ReadMetric",
    "Readings",
    "compare_groups",
    "crossed",
    "half_width",
    "plain_numbers",
    "segments",
]
