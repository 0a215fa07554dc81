"""The `Policy` protocol, and the ask/tell bookkeeping that all policies share.

- `Policy`: the protocol of all policies.
- `KeptPolicy`: base class with configuration, charges to a privacy budget, saving and loading. `RoundPolicy`
  adds asks and tells: bookkeeping of rounds, durable releases, and a folder with a log.
- `Decision`, `DecisionBatch`, `Receipt`: results of asks and tells.
- `PublicCoins`: public randomness that is a function of seed, purpose and round.
- `best_choice`, `best_row`, `uniform_choice`: choice of a row from scores and public randomness.
"""

from dpbandits._lazy import lazy
from dpbandits.policy.coins import PublicCoins, best_choice, best_row, uniform_choice
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.policy.kept import KeptPolicy, PolicyOptions
from dpbandits.policy.protocol import Policy
from dpbandits.policy.rounds import RoundPolicy

__all__ = [
    "Decision",
    "DecisionBatch",
    "KeptPolicy",
    "Policy",
    "PolicyOptions",
    "PublicCoins",
    "Receipt",
    "RoundPolicy",
    "best_choice",
    "best_row",
    "uniform_choice",
]

__getattr__, __dir__ = lazy(__name__)
