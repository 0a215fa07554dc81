"""Specs and curators for tests: every field by a keyword of its own, those of `tuning` too.

Tests change one field at a time, whichever group it is in.
"""

from dataclasses import fields, replace
from typing import Any

from dpbandits.local import GPSpec, GPSpecTuning, Spec, SpecTuning
from dpbandits.outsourced import Curator, CuratorTuning

__all__ = ["changed", "curator_with", "gp_spec_with", "spec_with"]


def spec_with(**given: Any) -> Spec:
    """A `Spec` with these fields."""
    return Spec(**_grouped(SpecTuning(), given))


def gp_spec_with(**given: Any) -> GPSpec:
    """A `GPSpec` with these fields."""
    return GPSpec(**_grouped(GPSpecTuning(), given))


def curator_with(table: Any, **given: Any) -> Curator:
    """A `Curator` of the table with these arguments."""
    return Curator(table, **_grouped(CuratorTuning(), given))


def changed(spec: Any, **changes: Any) -> Any:
    """The spec with other fields."""
    return replace(spec, **_grouped(spec.tuning, changes))


def _grouped(tuning: Any, given: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(tuning)}
    own = {name: value for name, value in given.items() if name in names}
    rest = {name: value for name, value in given.items() if name not in names}
    return rest | {"tuning": replace(tuning, **own)} if own else rest
