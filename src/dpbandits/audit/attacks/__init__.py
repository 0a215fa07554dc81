"""The attacks: what an outsider does with what a policy, a device or a curator lets out.

- `membership.attack_reward`: one person's reward from what any policy predicts.
- `po_gp_ucb`: the rows of a table from what PO-GP-UCB published of it (`recover_rows`), and which table it
  was (`distinguish_by_column_space`).
- `low_bits.off_grid`: what noise was added to, from the lowest bits of floating-point noise.

Each goes through calls that anyone can make. One that guesses between two worlds says how often it was right
as `Guesses`.
"""

from dpbandits._lazy import lazy
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.audit.attacks.low_bits import off_grid
from dpbandits.audit.attacks.membership import attack_reward
from dpbandits.audit.attacks.po_gp_ucb import distinguish_by_column_space, recover_rows

__all__ = ["Guesses", "attack_reward", "distinguish_by_column_space", "off_grid", "recover_rows"]

__getattr__, __dir__ = lazy(__name__)
