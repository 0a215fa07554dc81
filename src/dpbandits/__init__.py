"""Contextual bandits and Bayesian optimisation with differential privacy.

Each trust model has a package:

- `dpbandits.central`: a trusted server sees raw data and gives joint differential privacy.
- `dpbandits.local`: no server is trusted; each user's client sends locally private reports only.
- `dpbandits.distributed`: two aggregators that do not work together add up reports; experimental.
- `dpbandits.outsourced`: the owner of a table releases it once, and another party optimises over the release.
- `dpbandits.lab`: simulated worlds, baselines and evaluation, without protection.

A policy is built from these parts:

- `dpbandits.kernels` and `dpbandits.features`: models of the unknown function.
- `Box`, `Finite`, `Product`, `Arms`, `RewardRange`, `Schema` (of `Range`, `Categories`, `DateRange` and
  `Cycle`), `Actions`: public bounds.
- `JointDP`, `LocalDP`, `DistributedDP`, `RowDP`: privacy guarantees. `SecureNoise`, `SimulatedNoise`: sources
  of noise.
- `MemoryLedger`, `SQLiteLedger`: privacy budgets, and detection of copied or rolled-back states.

`dpbandits.lab.worlds` has worlds to try a policy in, and `dpbandits.lab.evaluation` measures it there.
`dpbandits.audit` attacks guarantees. `dpbandits.tables` reads tables, and `dpbandits.adapters` connects other
libraries.

Every name here is imported on first use, so that `import dpbandits` is fast.
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
        distributed,
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
    from dpbandits.central.readout.declared import Control, Readout, Stop
    from dpbandits.domains import Arms, Box, Finite, Product, RewardRange
    from dpbandits.models import features, kernels
    from dpbandits.privacy import DistributedDP, JointDP, LocalDP, RowDP, SecureNoise, SimulatedNoise
    from dpbandits.tables import (
        Actions,
        Categories,
        Cycle,
        DateRange,
        Ordered,
        Products,
        Range,
        Schema,
        bounds,
        values,
    )

__all__ = [
    "Actions",
    "Arms",
    "Box",
    "Categories",
    "Control",
    "Cycle",
    "DateRange",
    "DistributedDP",
    "Finite",
    "JointDP",
    "LocalDP",
    "MemoryLedger",
    "Ordered",
    "Product",
    "Products",
    "Range",
    "Readout",
    "RewardRange",
    "RowDP",
    "SQLiteLedger",
    "Schema",
    "SecureNoise",
    "SimulatedNoise",
    "Stop",
    "__version__",
    "adapters",
    "audit",
    "bounds",
    "budget",
    "central",
    "distributed",
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
    "values",
]


__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits._memory": ("memory_limit", "set_memory_limit"),
        "dpbandits.budget": ("MemoryLedger", "SQLiteLedger"),
        "dpbandits.central.readout.declared": ("Control", "Readout", "Stop"),
        "dpbandits.domains": ("Arms", "Box", "Finite", "Product", "RewardRange"),
        "dpbandits.models": ("features", "kernels"),
        "dpbandits.privacy": (
            "DistributedDP",
            "JointDP",
            "LocalDP",
            "RowDP",
            "SecureNoise",
            "SimulatedNoise",
        ),
        "dpbandits.tables": (
            "Actions",
            "Categories",
            "Cycle",
            "DateRange",
            "Ordered",
            "Products",
            "Range",
            "Schema",
            "bounds",
            "values",
        ),
    },
)
