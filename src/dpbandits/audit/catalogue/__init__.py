"""Every audit by name, built for an epsilon and a public seed when it is asked for.

| module | audits |
|---|---|
| `mechanisms` | single ones: reports, private choice, noise, the last bits |
| `central`, `local`, `outsourced` | whole policies, through their own calls |
| `crowds` | central policies again, many people at once: releases, what composes, what is missing |
| `state` | restarts, copies, loads on other terms |
| `devices` | what devices refuse, when they are silent, races for one charge |
| `broken` | claims that are known to be false |

False claims in `crowds`, `state` and `devices` stand beside the honest ones that they are twins of.
"""

from collections.abc import Callable
from difflib import get_close_matches

from dpbandits._typing import Seed
from dpbandits.audit.catalogue import broken, central, crowds, devices, local, mechanisms, outsourced, state
from dpbandits.audit.claims import Audit
from dpbandits.errors import InvalidParameter

__all__ = ["NAMES", "build"]

_MODULES = (mechanisms, central, crowds, state, local, devices, outsourced, broken)
_LISTED: list[tuple[str, Callable[[float, int], Audit]]] = [
    entry for module in _MODULES for entry in module.ENTRIES.items()
]
_ENTRIES = dict(sorted(_LISTED, key=lambda entry: entry[0].startswith("broken-")))

NAMES: tuple[str, ...] = tuple(_ENTRIES)
"""All audits, single mechanisms first, broken claims last."""


def build(name: str, *, epsilon: float = 1.0, seed: Seed = 0) -> Audit:
    """The audit of this name.

    Args:
        name: one of `NAMES`.
        epsilon: of the claim; audits of printed claims keep their own.
        seed: of public choices; noise comes from the operating system.

    Raises:
        InvalidParameter: an unknown name, or an epsilon that some mechanism cannot keep.

    Example:
        >>> build("report-krr", epsilon=1.0).run().verdict
        'holds'
    """
    if name not in _ENTRIES:
        near = get_close_matches(name, NAMES, n=3, cutoff=0.4)
        hint = f", perhaps {' or '.join(near)}" if near else ""
        raise InvalidParameter(f"there is no audit of this name{hint}: `dpbandits audit` lists all")
    return _ENTRIES[name](epsilon, seed)
