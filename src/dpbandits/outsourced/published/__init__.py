"""Published outsourced methods, as printed: to reproduce and compare with. Not to use on people."""

from dpbandits.outsourced.published import kharkovskii2020

__all__ = ["kharkovskii2020"]
