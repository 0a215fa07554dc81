"""Privacy budgets: ledgers with accounts that record privacy loss and refuse to overspend.

- `Ledger`: accounts, and a counter of the commits of each saved state. `MemoryLedger()` exists as long as the
  process. `SQLiteLedger(path)` is durable and shared between processes.
- `ledger.open_account(name, privacy=JointDP(2, 1e-5))` opens an account, the only way to do so. It returns an
  `Account`, as `ledger.account(name)` does later; pass it to a policy as `account=`.
- `Unit`: whose data an account protects, and which inputs are neighbours. Every account and cost has one.
- `Cost`, `cost_of`, `cost_of_guarantee`: the privacy loss of a use of noise. `epsilon_for` plans with costs.
- `Terms`, `Balance`: the guarantee of an account, and its spent budget.

`accountants` has the composition rules of an account (zCDP, GDP or basic), and their proof.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.budget.accounts import Balance, Charge, Cost, Terms
    from dpbandits.budget.costs import cost_of, cost_of_guarantee, epsilon_for, together
    from dpbandits.budget.ledger import Ledger
    from dpbandits.budget.memory import MemoryLedger
    from dpbandits.budget.sqlite import SQLiteLedger
    from dpbandits.budget.units import Unit
    from dpbandits.state.witness import Account

__all__ = [
    "Account",
    "Balance",
    "Charge",
    "Cost",
    "Ledger",
    "MemoryLedger",
    "SQLiteLedger",
    "Terms",
    "Unit",
    "cost_of",
    "cost_of_guarantee",
    "epsilon_for",
    "together",
]

# Devices load accounts with NumPy alone; some builds of Python have no sqlite3 module (Pyodide, for one).
__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.budget.accounts": ("Balance", "Charge", "Cost", "Terms"),
        "dpbandits.budget.costs": ("cost_of", "cost_of_guarantee", "epsilon_for", "together"),
        "dpbandits.budget.ledger": ("Ledger",),
        "dpbandits.budget.memory": ("MemoryLedger",),
        "dpbandits.budget.sqlite": ("SQLiteLedger",),
        "dpbandits.budget.units": ("Unit",),
        "dpbandits.state.witness": ("Account",),
    },
)
