"""Comparison of a policy with a control from released sums, with intervals that count the noise.

- `Look`, `Group`, `Metric`, `NoiseScales`: the released sums of one look, and the noise that they carry.
"""

from dpbandits.models.readout.sums import Group, Look, Metric, NoiseScales

__all__ = ["Group", "Look", "Metric", "NoiseScales"]
