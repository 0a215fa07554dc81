"""Published outsourced methods, as printed: to reproduce, to compare with, to learn from. Not to use on "
"people.
"""

from dpbandits.outsourced.published import kharkovskii2020

__all__ = ["kharkovskii2020"]
