"""What the configurations of `USCA` and `PhasedUSCA` share: from JSON to constructor arguments."""

from collections.abc import Mapping
from typing import Any

from dpbandits.central.context_laws import ContextLaw
from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import definitions
from dpbandits.privacy import noise as noise_sources

__all__ = ["arguments_of"]


def arguments_of(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Constructor arguments that `to_config()` of policy `kind` described.

    Raises:
        InvalidParameter: the configuration of something else.
    """
    arguments = dict(config)
    if arguments.pop("policy", None) != kind:
        raise InvalidParameter(f"config: expected policy {kind!r}")
    parsers = {
        "kernel": kernels.from_config,
        "actions": CellMeasure.from_config,
        "contexts": ContextLaw.from_config,
        "reward_range": RewardRange.from_config,
        "privacy": definitions.from_config,
        "noise": noise_sources.from_config,
    }
    try:
        return arguments | {name: parse(arguments[name]) for name, parse in parsers.items()}
    except (TypeError, KeyError) as error:
        raise InvalidParameter(f"config: not a configuration of {kind}") from error
