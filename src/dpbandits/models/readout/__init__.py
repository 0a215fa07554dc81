"""Comparison of a policy with a control from released sums, with intervals that count the noise.

- `Look`, `Group`, `Metric`, `Law`: the released sums of one look, and the noise that they carry.
"""

from dpbandits.models.readout.sums import Group, Law, Look, Metric

__all__ = ["Group", "Law", "Look", "Metric"]
