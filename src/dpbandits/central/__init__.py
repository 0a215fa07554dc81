"""Central trust: one server sees raw data and everybody else is kept from learning about one user.

- `BlockGPUCB`: Gaussian-process bandit under joint differential privacy, the recommended policy.
- `default_blocks`, `growing_blocks`: public schedules of its releases.
- `uniform_decision_sets`: what it expects people to bring when nothing better is known.
"""

from dpbandits.central.block_gp_ucb import BlockGPUCB
from dpbandits.central.schedule import default_blocks, growing_blocks
from dpbandits.models.public_sets import uniform_decision_sets

__all__ = ["BlockGPUCB", "default_blocks", "growing_blocks", "uniform_decision_sets"]
