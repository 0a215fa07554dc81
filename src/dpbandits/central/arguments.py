"""What constructors of central policies take, and how a natural mistake is answered."""

from typing import Any

from dpbandits import _checks
from dpbandits.domains import Domain
from dpbandits.models.features import Features
from dpbandits.models.kernels import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import NoiseSource

__all__ = ["check_kinds"]

_KINDS: dict[str, tuple[type[Any], str]] = {
    "actions": (CellMeasure, "actions=measures.CellMeasure.finite([0.0, 0.5, 1.0])"),
    "contexts": (CellMeasure, "contexts=measures.CellMeasure.uniform(low=0, high=1, cells=16)"),
    "domain": (Domain, "domain=Box(low=[0], high=[1])"),
    "features": (Features, "features=MercerFeatures(...)"),
    "kernel": (Kernel, "kernel=kernels.Matern(nu=2.5, lengthscale=0.3)"),
    "noise": (NoiseSource, "noise=SecureNoise(), or leave it out"),
    "privacy": (JointDP, "privacy=JointDP(epsilon=1, delta=1e-6)"),
}


def check_kinds(
    *,
    tuning: tuple[object, type[Any]] | None = None,
    optional: tuple[str, ...] = ("noise",),
    **given: object,
) -> None:
    """Refuse arguments of another kind, with what to pass instead.

    Args:
        tuning: what came, and the class that it is to be of; None came where nobody tunes.
        optional: names of those that may be None.
        **given: arguments by their names.

    Raises:
        InvalidParameter: one is of another kind.
    """
    for name, value in given.items():
        kind, pass_ = _KINDS[name]
        _checks.an(value, kind, name=name, pass_=pass_, optional=name in optional)
    if tuning is not None:
        came, kind = tuning
        pass_ = f"tuning={kind.__name__}(...), or leave it out"
        _checks.an(came, kind, name="tuning", pass_=pass_, optional=True)
