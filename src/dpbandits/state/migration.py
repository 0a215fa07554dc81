"""Bringing a saved state of an older layout up to date, one version at a time."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from dpbandits._reading import reading
from dpbandits.errors import CorruptState, IncompatibleState
from dpbandits.state.container import State

__all__ = ["Migrations", "migrated", "next_layout"]

Migrations = Mapping[int, Callable[[State], State]]
"""Under version n, the step from layout n to n + 1. It may rearrange, never draw: a release that was drawn
stays what it was."""


def migrated(state: State, *, kind: str, version: int, steps: Migrations | None = None) -> State:
    """`state` in layout `version` of `kind`.

    A step keeps kind, lineage and position; the ledger's witness of the file is unaffected, since the new
    layout is written as the next position.

    Raises:
        IncompatibleState: another kind, a newer layout, or an older one that no step leads from.
        CorruptState: a step changed what it must keep, or found something else than its layout.

    Example:
        >>> old = State(kind="k", version=1, lineage="a", position=4, public={"epsilon": 1})
        >>> new = migrated(old, kind="k", version=2, steps={1: lambda state: State(
        ...     kind="k", version=2, lineage="a", position=4, public={"privacy": {"epsilon": 1}})})
        >>> new.public
        {'privacy': {'epsilon': 1}}
    """
    if state.kind != kind or state.version > version:
        raise IncompatibleState(
            f"expected state of {kind} version {version} or older, got {state.kind!r} version {state.version}"
        )
    while state.version < version:
        step = (steps or {}).get(state.version)
        if step is None:
            raise IncompatibleState(
                f"{kind}: state of version {state.version} is older than this release can read (version "
                f"{version}): load it with the release that wrote it"
            )
        old = state
        with reading(f"a state of {kind} version {old.version}", CorruptState):
            state = step(state)
        if (state.kind, state.lineage, state.position, state.version) != (
            old.kind,
            old.lineage,
            old.position,
            old.version + 1,
        ):
            raise CorruptState(f"{kind}: the step from version {old.version} is wrong; nothing was changed")
    return state


def next_layout(state: State) -> State:
    """The step to a layout that only adds: whoever reads it finds nothing where there is nothing."""
    return replace(state, version=state.version + 1)
