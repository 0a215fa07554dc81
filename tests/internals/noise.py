"""What noise sources and the exact samplers keep to themselves, for tests that attack it."""

from dpbandits.privacy import samplers

__all__ = ["always_exact", "gaussian_exponent", "large_above", "lock", "prepared"]


def prepared(source):
    """Scale -> blocks of prepared draws that a `SecureNoise` has waiting."""
    return source._prepared


def lock(source):
    """What guards a `SecureNoise`'s prepared draws."""
    return source._lock


def always_exact(monkeypatch):
    """No float64 comparison is trusted: all are decided in decimal arithmetic."""
    monkeypatch.setattr(samplers, "_RELATIVE_ERROR", 4.0)


def large_above(monkeypatch, exponent):
    """Exponents above this go to decimal arithmetic at once."""
    monkeypatch.setattr(samplers, "_LARGE", exponent)


gaussian_exponent = samplers._gaussian_exponent
"""(|k|, sigma, t, context) -> minus the logarithm of the chance to accept a discrete Gaussian's proposal."""
