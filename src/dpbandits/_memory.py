"""Limit on the memory of one configuration: a constructor refuses a configuration that needs more.

The estimate uses public numbers alone. It counts the arrays at the peak, which is usually a release.
"""

from dpbandits import _checks
from dpbandits.errors import InvalidParameter

__all__ = ["FLOAT", "DoesNotFit", "check_fits", "memory_limit", "set_memory_limit"]

FLOAT = 8.0
"""Bytes of a number in an array."""


class DoesNotFit(InvalidParameter):
    """A configuration needs more memory than the limit. A saved one is whole all the same."""


_limit = 4 << 30  # a constant, so that a configuration is accepted or refused alike on every machine


def memory_limit() -> int:
    """Return the bytes that one configuration may need: 4 GiB, or the value given to `set_memory_limit`."""
    return _limit


def set_memory_limit(most: int) -> None:
    """Set the bytes that each configuration may need which this process builds from now on.

    Example:
        >>> set_memory_limit(8 << 30)
        >>> memory_limit()
        8589934592
        >>> set_memory_limit(4 << 30)
    """
    global _limit  # noqa: PLW0603 - the limit belongs to the process
    _limit = _checks.integer(most, name="most")


def check_fits(needed: float, *, instead: str) -> None:
    """Raise DoesNotFit if `needed` bytes are more than the limit; `instead` says what to change."""
    if needed > _limit:
        raise DoesNotFit(
            f"this needs about {needed / 1e9:.1f} GB of memory, and the limit is {_limit / 1e9:.1f} GB: "
            f"{instead}, or raise the limit with dpbandits.set_memory_limit"
        )
