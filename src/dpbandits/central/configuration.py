"""Arguments of central policies from their JSON form, shared by all that learn from releases."""

from typing import Any

from dpbandits.errors import InvalidParameter
from dpbandits.models import features, kernels
from dpbandits.privacy import definitions, noise
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.prefix_sums import Factor

__all__ = ["parsed"]


def parsed(parameters: dict[str, Any]) -> dict[str, Any]:
    """`parameters` with kernel, features, factor, noise and privacy as objects.

    Raises:
        InvalidParameter: the promise is not joint differential privacy.
    """
    readers = {
        "kernel": kernels.from_config,
        "features": features.from_config,
        "factor": Factor.from_config,
        "noise": noise.from_config,
        "privacy": definitions.from_config,
    }
    found = {name: readers[name](value) if name in readers else value for name, value in parameters.items()}
    if not isinstance(found["privacy"], JointDP):
        raise InvalidParameter("config: central policies promise JointDP")
    return found
