"""Published outsourced methods, to reproduce and to compare with; do not use them on people's data."""

from dpbandits.outsourced.published import kharkovskii2020

__all__ = ["kharkovskii2020"]
