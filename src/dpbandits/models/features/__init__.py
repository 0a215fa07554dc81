"""Finite feature maps of a kernel, with norm at most one.

- `MercerFeatures`: leading eigenfunctions on a public domain; `ArmFeatures`: separate features for every
  arm.
- `SectionFeatures`: map phi(x) = k(x, Z) A with stored points Z and matrix A, so it is the same on every
  machine.
- `people`: default kernels and features for contexts and arms.
- `fourier`: `QuadratureFourierFeatures`; `additive`: `AdditiveFeatures`; `box`:
  `BoxFeatures`; `eigen`: `EigenFeatures` under a public law on cells.
"""

from dpbandits._lazy import lazy
from dpbandits.models.features.base import (
    Features,
    LittleVariance,
    from_config,
    in_fixed_shapes,
    left_out,
)
from dpbandits.models.features.mercer import (
    ArmFeatures,
    MercerFeatures,
    SectionFeatures,
    mercer_or_given,
)
from dpbandits.models.features.supports import Placed, Supports, block_entries, blocks_of

__all__ = [
    "ArmFeatures",
    "Features",
    "LittleVariance",
    "MercerFeatures",
    "Placed",
    "SectionFeatures",
    "Supports",
    "block_entries",
    "blocks_of",
    "from_config",
    "in_fixed_shapes",
    "left_out",
    "mercer_or_given",
]

__getattr__, __dir__ = lazy(__name__)
