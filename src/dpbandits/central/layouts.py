"""Configurations as earlier releases wrote them, brought to the present layout.

In the first layouts every parameter stood beside the others. Those that most people leave alone are now in
one named value, `tuning`, and some have other names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from dpbandits.state import State

__all__ = ["FlatLayout"]


@dataclass(frozen=True)
class FlatLayout:
    """A layout without `tuning`.

    Args:
        version: of states that hold it.
        tuning: the class that took some of its parameters.
        renamed: old name -> present name.
    """

    version: int
    tuning: type[Any]
    renamed: Mapping[str, str]

    def present(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration in the present layout; one that is there already as it is."""
        if "tuning" in config:
            return dict(config)
        named = {self.renamed.get(name, name): value for name, value in config.items()}
        inside = {field.name for field in fields(self.tuning)} & set(named)
        tuning = {name: named.pop(name) for name in inside}
        return {**named, "tuning": tuning}

    @property
    def migrations(self) -> dict[int, Callable[[State], State]]:
        """The step from states of this layout to the next version."""

        def step(state: State) -> State:
            config = {"config": self.present(state.public["config"])}
            return replace(state, version=self.version + 1, public={**state.public, **config})

        return {self.version: step}
