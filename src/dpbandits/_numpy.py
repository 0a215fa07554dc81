"""NumPy, imported when it is first used. So the columns of a schema, and one record, need no NumPy."""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["is_numpy", "np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        """Stand-in for the module `numpy`. The first use of a name copies all names of the module."""

        def __getattr__(self, name: str) -> Any:
            import numpy as np

            vars(self).update(vars(np))
            return getattr(np, name)

    np = _NumPy()


def is_numpy(value: object, *kinds: str) -> bool:
    """Return True if a value is an instance of one of these types of NumPy, without importing NumPy.

    Example:
        >>> is_numpy(np.float32(1.5), "integer", "floating"), is_numpy(1.5, "generic")
        (True, False)
    """
    if not hasattr(type(value), "dtype"):
        return False
    numpy = sys.modules.get("numpy")  # a value of NumPy exists only after its import
    return isinstance(value, tuple(getattr(numpy, kind, ()) for kind in kinds))
