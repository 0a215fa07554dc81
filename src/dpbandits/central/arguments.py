"""What constructors of central policies take, and how a natural mistake is answered."""

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
    """Refuse arguments of another kind, with what to pass instead.

    Args:
        optional: names of those that may be None.
        **given: arguments by their names.

    Raises:
        InvalidParameter: one is of another kind.
    """
    for name, value in given.items():
        kind, pass_ = _KINDS[name]
        _checks.an(value, kind, name=name, pass_=pass_, optional=name in optional)


def tuned(tuning: T | None, kind: type[T]) -> T:
    """The tuning that was passed, by default `kind()`; InvalidParameter for anything else."""
    instead = f"tuning={kind.__name__}(...), or leave it out"
    _checks.an(tuning, kind, name="tuning", pass_=instead, optional=True)
    return kind() if tuning is None else tuning
