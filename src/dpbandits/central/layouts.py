"""Policies whose parameters that most people leave alone stand in one value, `tuning`.

In their first layouts every parameter stood beside the others, and some had other names. Configurations and
states that earlier releases wrote are brought to the present layout.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from dpbandits._config import Configured
from dpbandits.policy import KeptPolicy
from dpbandits.state.migration import next_layout

__all__ = ["TunedPolicy"]


class TunedPolicy(KeptPolicy):
    """A policy with a `tuning`: `class GPBandit(TunedPolicy, BasePolicy, tuning=GPTuning, flat=1)`.

    Args:
        tuning: the class that took some of its parameters.
        flat: the last version of its states that had no `tuning`; the present one comes after it.
        renamed: name in that version -> present name.
    """

    _tuning: ClassVar[type[Any]]
    _renamed: ClassVar[Mapping[str, str]]

    def __init_subclass__(
        cls,
        *,
        tuning: type[Configured] | None = None,
        flat: int = 0,
        renamed: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init_subclass__(**arguments)
        if tuning is not None:  # else a subclass of such a policy, which is laid out as its parent
            cls._tuning, cls._renamed = tuning, renamed or {}
            # `arguments` reads a configuration in either layout; then came the log of releases
            cls.state_version, cls.state_migrations = flat + 2, {flat: next_layout, flat + 1: next_layout}
            cls.config_parsers = {**cls.config_parsers, "tuning": tuning.from_config}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Constructor arguments of a configuration, also of the layout without `tuning`."""
        if "tuning" not in config:
            named = {cls._renamed.get(name, name): value for name, value in config.items()}
            inside = {field.name for field in fields(cls._tuning)} & set(named)
            tuning = {name: named.pop(name) for name in inside}
            config = {**named, "tuning": tuning}
        return super().arguments(config)
