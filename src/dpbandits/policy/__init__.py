"""Layer 3: the `Policy` protocol and the one implementation of ask/tell bookkeeping.

- `Policy`: the protocol that all policies answer to.
- `RoundPolicy`: shared machinery of whatever asks and is told (book, ledger charge, durable releases and
  state); `BasePolicy`: the same with candidate rows.
- `Decision`, `DecisionBatch`, `Receipt`: what asks and tells return.
- `PublicCoins`: public randomness keyed by (seed, purpose, round).
- `best_choice`, `uniform_choice`: scores and coins to chosen rows.
"""

from dpbandits.policy.base import BasePolicy, RoundPolicy
from dpbandits.policy.choices import best_choice, uniform_choice
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.policy.protocol import Policy

__all__ = [
    "BasePolicy",
    "Decision",
    "DecisionBatch",
    "Policy",
    "PublicCoins",
    "Receipt",
    "RoundPolicy",
    "best_choice",
    "uniform_choice",
]
