"""Checks of constructor arguments of central policies, with suggestions for common mistakes."""

from typing import Any, TypeVar

from dpbandits import _checks
from dpbandits.domains import Domain
from dpbandits.models.features import Features
from dpbandits.models.kernels import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import NoiseSource

__all__ = ["check_kinds", "tuned"]

T = TypeVar("T")

_KINDS: dict[str, tuple[type[Any], str]] = {
    "actions": (CellMeasure, "actions=measures.CellMeasure.finite([0.0, 0.5, 1.0])"),
    "contexts": (CellMeasure, "contexts=measures.CellMeasure.uniform(low=0, high=1, cells=16)"),
    "domain": (Domain, "domain=Box(low=[0], high=[1])"),
    "features": (Features, "features=MercerFeatures(...)"),
    "kernel": (Kernel, "kernel=kernels.Matern(nu=2.5, lengthscale=0.3)"),
    "noise": (NoiseSource, "noise=SecureNoise(), or leave it out"),
    "privacy": (JointDP, "privacy=JointDP(epsilon=1, delta=1e-6)"),
}


def check_kinds(*, optional: tuple[str, ...] = ("noise",), **given: object) -> None:
    """Raise `InvalidParameter` for arguments of the wrong type, and say what to pass instead.

    Args:
        optional: Names of the arguments that may be None.
        **given: Arguments by their names.

    Raises:
        InvalidParameter: An argument has the wrong type.
    """
    for name, value in given.items():
        kind, pass_ = _KINDS[name]
        _checks.an(value, kind, name=name, pass_=pass_, optional=name in optional)


def tuned(tuning: T | None, kind: type[T]) -> T:
    """Return `tuning`, or `kind()` if it is None.

    Raises:
        InvalidParameter: `tuning` has another type.
    """
    instead = f"tuning={kind.__name__}(...), or leave it out"
    _checks.an(tuning, kind, name="tuning", pass_=instead, optional=True)
    return kind() if tuning is None else tuning
