"""Privacy budgets: how much has been spent on one group of people, and what is refused.

- `Ledger`: accounts, and the witness of how far each saved state has gone. `MemoryLedger()` lives as long as
  the process; `SQLiteLedger(path)` is durable and shared between processes.
- `ledger.open_account(name, privacy=JointDP(2, 1e-5))` is the one way to open an account. It gives the
  `Account`, as `ledger.account(name)` does later: whatever pays takes it as `account=`.
- `Unit`: whose data an account protects, and which inputs are neighbours. Every account and every cost has
  one.
- `Cost`, `cost_of`, `cost_of_guarantee`: what a use of noise costs. `epsilon_for` plans with costs.
- `Terms`, `Balance`: what an account promises, and what it has spent.

`accountants` holds the rule by which an account adds up, and its proof.
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
