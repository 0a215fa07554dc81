"""Attacks: what an outsider can infer from the outputs of a policy, a client or a curator.

- `membership.attack_reward`: infers one person's reward from the predictions of any policy.
- `po_gp_ucb`: recovers the rows of a table from the release of PO-GP-UCB (`recover_rows`), or identifies the
  table (`distinguish_by_column_space`).
- `low_bits.off_grid`: infers the exact value from the lowest bits of floating-point noise.

Each attack uses public calls only. An attack that guesses between two worlds reports its success as
`Guesses`.
"""

from dpbandits._lazy import lazy
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.audit.attacks.low_bits import off_grid
from dpbandits.audit.attacks.membership import attack_reward
from dpbandits.audit.attacks.po_gp_ucb import distinguish_by_column_space, recover_rows

__all__ = ["Guesses", "attack_reward", "distinguish_by_column_space", "off_grid", "recover_rows"]

__getattr__, __dir__ = lazy(__name__)
