"""All audits by name, built on demand for an epsilon and a public seed.

| module | audits |
|---|---|
| `mechanisms` | single mechanisms: reports, private choice, noise, the lowest bits |
| `central`, `local`, `distributed`, `outsourced` | whole policies, through their own calls |
| `crowds` | central policies with many users at once: releases, composition, missing data |
| `readouts` | one user's outcome in each group of a readout |
| `state` | restarts, copies, loads with other parameters |
| `devices` | clients: refusals, silence, races for one charge |
| `broken` | claims that are known to be false |

In `crowds`, `state` and `devices` each false claim stands beside the true claim that it resembles. The
function of an audit returns the outputs of one run in world 0 or 1, or a function that draws such outputs.
"""

from collections.abc import Callable
from difflib import get_close_matches

from dpbandits._typing import Seed
from dpbandits.audit.catalogue import (
    broken,
    central,
    crowds,
    devices,
    distributed,
    local,
    mechanisms,
    outsourced,
    readouts,
    state,
)
from dpbandits.audit.claims import Audit
from dpbandits.errors import InvalidParameter

__all__ = ["NAMES", "build"]

_MODULES = (mechanisms, central, crowds, readouts, state, local, devices, distributed, outsourced, broken)
_LISTED: list[tuple[str, Callable[[float, int], Audit]]] = [
    entry for module in _MODULES for entry in module.ENTRIES.items()
]
_ENTRIES = dict(sorted(_LISTED, key=lambda entry: entry[0].startswith("broken-")))

NAMES: tuple[str, ...] = tuple(_ENTRIES)
"""Names of all audits: single mechanisms first, false claims last."""


def build(name: str, *, epsilon: float = 1.0, seed: Seed = 0) -> Audit:
    """Return the audit of this name.

    Args:
        name: One of `NAMES`.
        epsilon: Epsilon of the claim; audits of printed claims keep their own.
        seed: Seed of public choices; noise comes from the operating system.

    Raises:
        InvalidParameter: the name is unknown, or a mechanism does not support the epsilon.

    Example:
        >>> build("report-krr", epsilon=1.0).run().verdict
        'holds'
    """
    if name not in _ENTRIES:
        near = get_close_matches(name, NAMES, n=3, cutoff=0.4)
        hint = f", perhaps {' or '.join(near)}" if near else ""
        raise InvalidParameter(f"there is no audit of this name{hint}: `dpbandits audit` lists all")
    return _ENTRIES[name](epsilon, seed)
