"""Layer 3: the `Policy` protocol and the one implementation of ask/tell bookkeeping.

- `Policy`: the protocol that all policies answer to.
- `KeptPolicy`: what is configured, saved and taken up again; `RoundPolicy`: and is asked and told (book,
  ledger charge, durable releases, a folder to live in).
- `Decision`, `DecisionBatch`, `Receipt`: what asks and tells return.
- `PublicCoins`: public randomness keyed by (seed, purpose, round).
- `best_choice`, `best_row`, `uniform_choice`: scores and coins to chosen rows.
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
