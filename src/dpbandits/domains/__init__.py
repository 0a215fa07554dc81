"""Public bounds: where points, arms and rewards live.

Everything here is a public constant that a guarantee rests on. Nothing is ever scaled by what
the private data happened to be.

- `Box(low=, high=)`: an axis-aligned rectangle.
- `Ball(centre=, radius=)`: all points within a distance; in the plane, a disc.
- `Finite(points=)`: a list of points.
- `Arms(n_or_names)`: one column of codes 0..n-1.
- `Product(*parts)`: columns of several domains side by side.
- `RewardRange(low, high)`: the interval of a reward, and its centred form in [-1/2, 1/2].
- `Domain`: what the first five have in common; `from_config` rebuilds any of them.

Every domain takes arrays of shape (..., dim), so that one decision set (n, dim) and a batch of
decision sets (B, n, dim) are the same call.
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
