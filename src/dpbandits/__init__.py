"""Private decisions: bandits and Bayesian optimisation that do not give away the people they learn from.

Whom do the people in the data trust? The answer chooses the room:

- `dpbandits.central`: one trusted server sees raw data and promises joint differential privacy.
- `dpbandits.local`: nobody is trusted; only private reports leave a person's own device.
- `dpbandits.outsourced`: the data's owner publishes a table once, and a stranger optimises over it.
- `dpbandits.lab`: nobody is protected; worlds, baselines and evaluation.

What a policy is built from:

- `dpbandits.kernels` and `dpbandits.features`: what the unknown function looks like.
- `Box`, `Finite`, `Product`, `Arms`, `RewardRange`, `Schema` (of `Range`, `Categories`, `DateRange` and
  `Cycle`): public bounds.
- `JointDP`, `LocalDP`, `RowDP`: what is promised; `SecureNoise`, `SimulatedNoise`: how noise keeps it.
- `MemoryLedger`, `SQLiteLedger`: the witness of what was spent and of which copy of a state goes on.

Worlds to try it in are in `dpbandits.lab.worlds`, what it did there is measured by
`dpbandits.lab.evaluation`, and `dpbandits.audit` attacks it. Tables get in through `dpbandits.tables`,
and other libraries through `dpbandits.adapters`.

Every name here is loaded on first use, so that `import dpbandits` costs next to nothing.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits._version import __version__

if TYPE_CHECKING:
    from dpbandits import (
        adapters,
        audit,
        budget,
        central,
        domains,
        errors,
        export,
        lab,
        local,
        models,
        outsourced,
        policy,
        privacy,
        state,
        tables,
    )
    from dpbandits._memory import memory_limit, set_memory_limit
    from dpbandits.budget import MemoryLedger, SQLiteLedger
    from dpbandits.domains import Arms, Box, Finite, Product, RewardRange
    from dpbandits.models import features, kernels
    from dpbandits.privacy import JointDP, LocalDP, RowDP, SecureNoise, SimulatedNoise
    from dpbandits.tables import Categories, Cycle, DateRange, Range, Schema

__all__ = [
    "Arms",
    "Box",
    "Categories",
    "Cycle",
    "DateRange",
    "Finite",
    "JointDP",
    "LocalDP",
    "MemoryLedger",
    "Product",
    "Range",
    "RewardRange",
    "RowDP",
    "SQLiteLedger",
    "Schema",
    "SecureNoise",
    "SimulatedNoise",
    "__version__",
    "adapters",
    "audit",
    "budget",
    "central",
    "domains",
    "errors",
    "export",
    "features",
    "kernels",
    "lab",
    "local",
    "memory_limit",
    "models",
    "outsourced",
    "policy",
    "privacy",
    "set_memory_limit",
    "state",
    "tables",
]


__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits._memory": ("memory_limit", "set_memory_limit"),
        "dpbandits.budget": ("MemoryLedger", "SQLiteLedger"),
        "dpbandits.domains": ("Arms", "Box", "Finite", "Product", "RewardRange"),
        "dpbandits.models": ("features", "kernels"),
        "dpbandits.privacy": ("JointDP", "LocalDP", "RowDP", "SecureNoise", "SimulatedNoise"),
        "dpbandits.tables": ("Categories", "Cycle", "DateRange", "Range", "Schema"),
    },
)
