"""Public bounds of points, arms and rewards.

All bounds are public constants on which guarantees rest. No bound or scale is computed from private data.

- `Box(low=, high=)`: an axis-aligned rectangle.
- `Ball(centre=, radius=)`: all points within a distance of a centre; in the plane, a disc.
- `Finite(points=)`: a list of points.
- `Arms(n_or_names)`: one column of codes 0..n-1.
- `Product(*parts)`: the columns of several domains, concatenated.
- `RewardRange(low, high)`: the interval of a reward, and its centred form in [-1/2, 1/2].
- `Domain`: the base class of the first five. `from_config` rebuilds any of them.

Every domain takes arrays of shape (..., dim): one decision set (n, dim), or a batch of decision sets
(B, n, dim).
"""

from dpbandits._lazy import lazy
from dpbandits.domains.arms import Arms
from dpbandits.domains.ball import Ball
from dpbandits.domains.box import Box
from dpbandits.domains.finite import Finite
from dpbandits.domains.product import Product
from dpbandits.domains.protocol import Domain, from_config
from dpbandits.domains.rewards import RewardRange

__all__ = ["Arms", "Ball", "Box", "Domain", "Finite", "Product", "RewardRange", "from_config"]

__getattr__, __dir__ = lazy(__name__)
