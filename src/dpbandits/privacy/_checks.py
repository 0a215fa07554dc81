"""Moved to `dpbandits._checks`."""

from dpbandits._checks import integer, number, probability

__all__ = ["integer", "number", "probability"]
