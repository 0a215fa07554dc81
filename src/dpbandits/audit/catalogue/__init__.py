"""Every audit by name, built for an epsilon and a public seed when it is asked for.

| module | audits |
|---|---|
| `mechanisms` | single ones: reports, private choice, noise, the last bits |
| `central`, `local`, `outsourced` | whole policies, through their own calls |
| `broken` | claims that are known to be false |
"""

from difflib import get_close_matches

from dpbandits._typing import Seed
from dpbandits.audit.catalogue import broken, central, local, mechanisms, outsourced
from dpbandits.audit.claims import Audit
from dpbandits.errors import InvalidParameter

__all__ = ["NAMES", "build"]

_ENTRIES = mechanisms.ENTRIES | central.ENTRIES | local.ENTRIES | outsourced.ENTRIES | broken.ENTRIES

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
