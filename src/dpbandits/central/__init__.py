"""Central trust: one server sees raw data and everybody else is kept from learning about one user.

- `BlockGPUCB`: Gaussian-process bandit under joint differential privacy, the recommended policy.
- `default_blocks`, `growing_blocks`: public schedules of its releases.
- `uniform_decision_sets`: what it expects people to bring when nothing better is known.
- `USCA`: explore uniformly, then answer at pure epsilon, or release the whole function once, as a
  `PublicPolicy` for any number of predictions; `PhasedUSCA` decides from the first user on.
- `ContextLaw`: where the law of contexts comes from, which these two lean on.
"""

from dpbandits.central.block_gp_ucb import BlockGPUCB
from dpbandits.central.context_laws import ContextLaw
from dpbandits.central.phased_usca import PhasedUSCA
from dpbandits.central.public_policy import PublicPolicy
from dpbandits.central.schedule import default_blocks, growing_blocks
from dpbandits.central.usca import USCA, Answer, NothingToLearn
from dpbandits.central.usca_plan import ExpectedError
from dpbandits.central.usca_shard import Shard
from dpbandits.models.public_sets import uniform_decision_sets

__all__ = [
    "USCA",
    "Answer",
    "BlockGPUCB",
    "ContextLaw",
    "ExpectedError",
    "NothingToLearn",
    "PhasedUSCA",
    "PublicPolicy",
    "Shard",
    "default_blocks",
    "growing_blocks",
    "uniform_decision_sets",
]
