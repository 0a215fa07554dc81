"""Memory limit of a configuration. A constructor refuses a configuration that needs more.

The estimate uses public numbers only. It counts the arrays at the peak, which is usually during a release.
"""

from dpbandits import _checks
from dpbandits.errors import InvalidParameter

__all__ = ["FLOAT", "DoesNotFit", "check_fits", "memory_limit", "set_memory_limit"]

FLOAT = 8.0
"""Number of bytes of a float64."""


class DoesNotFit(InvalidParameter):
    """A configuration needs more memory than the limit. A saved state with it is not damaged."""


_limit = 4 << 30  # a constant, so that every machine accepts or refuses the same configurations


def memory_limit() -> int:
    """Return the memory limit of a configuration in bytes: 4 GiB, or the value set by `set_memory_limit`."""
    return _limit


def set_memory_limit(most: int) -> None:
    """Set the memory limit, in bytes, of each configuration that this process builds from now on.

    Example:
        >>> set_memory_limit(8 << 30)
        >>> memory_limit()
        8589934592
        >>> set_memory_limit(4 << 30)
    """
    global _limit  # noqa: PLW0603 - the limit belongs to the process
    _limit = _checks.integer(most, name="most")


def check_fits(needed: float, *, instead: str) -> None:
    """Raise DoesNotFit if `needed` bytes exceed the limit. `instead` says in the message what to change."""
    if needed > _limit:
        raise DoesNotFit(
            f"this needs about {needed / 1e9:.1f} GB of memory, and the limit is {_limit / 1e9:.1f} GB: "
            f"{instead}, or raise the limit with dpbandits.set_memory_limit"
        )
