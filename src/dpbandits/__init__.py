"""Private decisions: bandits and Bayesian optimisation that do not give away the people they learn from.

Whom do the people in the data trust? The answer chooses the room:

- `dpbandits.central`: one trusted server sees raw data and promises joint differential privacy.
- `dpbandits.local`: nobody is trusted; only private reports leave a person's own device.
- `dpbandits.outsourced`: the data's owner releases a table once, and a stranger optimises over it.
- `dpbandits.baselines`: no promise at all, to compare with.

What a policy is built from:

- `dpbandits.kernels` and `dpbandits.features`: what the unknown function looks like.
- `Box`, `Finite`, `Product`, `Arms`, `RewardRange`, `Schema` (of `Range` and `Categories`): public bounds.
- `JointDP`, `LocalDP`, `RowDP`: what is promised; `SecureNoise`, `SimulatedNoise`: how noise keeps it.
- `MemoryLedger`, `SQLiteLedger`: the witness of what was spent and of which copy of a state goes on.

Worlds to try it in are in `dpbandits.environments`, what it did there is measured by
`dpbandits.evaluation`, and `dpbandits.audit` attacks it.

Every name here is loaded on first use, so that `import dpbandits` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbandits import (
        audit,
        baselines,
        central,
        domains,
        environments,
        errors,
        evaluation,
        local,
        models,
        outsourced,
        policy,
        privacy,
        state,
    )
    from dpbandits.domains import (
        Arms,
        Box,
        Categories,
        Finite,
        Product,
        Range,
        RewardRange,
        Schema,
    )
    from dpbandits.models import features, kernels
    from dpbandits.privacy import JointDP, LocalDP, RowDP, SecureNoise, SimulatedNoise
    from dpbandits.state import MemoryLedger, SQLiteLedger

__all__ = [
    "Arms",
    "Box",
    "Categories",
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
    "audit",
    "baselines",
    "central",
    "domains",
    "environments",
    "errors",
    "evaluation",
    "features",
    "kernels",
    "local",
    "models",
    "outsourced",
    "policy",
    "privacy",
    "state",
]

__version__ = "0.1.0.dev0"

_MODULES = {
    "audit": "dpbandits.audit",
    "baselines": "dpbandits.baselines",
    "central": "dpbandits.central",
    "domains": "dpbandits.domains",
    "environments": "dpbandits.environments",
    "errors": "dpbandits.errors",
    "evaluation": "dpbandits.evaluation",
    "features": "dpbandits.models.features",
    "kernels": "dpbandits.models.kernels",
    "local": "dpbandits.local",
    "models": "dpbandits.models",
    "outsourced": "dpbandits.outsourced",
    "policy": "dpbandits.policy",
    "privacy": "dpbandits.privacy",
    "state": "dpbandits.state",
}
"""Public name -> the module it stands for."""

_OBJECTS = {
    "Arms": "dpbandits.domains",
    "Box": "dpbandits.domains",
    "Categories": "dpbandits.domains",
    "Finite": "dpbandits.domains",
    "JointDP": "dpbandits.privacy",
    "LocalDP": "dpbandits.privacy",
    "MemoryLedger": "dpbandits.state",
    "Product": "dpbandits.domains",
    "Range": "dpbandits.domains",
    "RewardRange": "dpbandits.domains",
    "RowDP": "dpbandits.privacy",
    "SQLiteLedger": "dpbandits.state",
    "Schema": "dpbandits.domains",
    "SecureNoise": "dpbandits.privacy",
    "SimulatedNoise": "dpbandits.privacy",
}
"""Public name -> the package that defines it under the same name."""


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    value: object
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _OBJECTS:
        value = getattr(import_module(_OBJECTS[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
