"""Local privacy: people decide on their own device, and the server learns from private reports alone.

On the device (NumPy and the standard library are enough):

- `PartitionBanditSpec`: the public contract, as JSON.
- `Client`: `choose` with the published policy, `privatize` into bytes, own ledger and outbox.
- `PublishedPolicy`: bins and their arms; `FileOutbox`, `MemoryOutbox`: where reports wait.

On the server:

- `Server`: `absorb` bytes, `publish` policies, `replay` from bytes; it has no way in for raw data.
- `DurableServer`: the same, with every report on disk before it is confirmed.
- `SmoothTreeRule`, `TreeRule`, `EliminationRule` and, as published,
  `dpbandits.local.published.ma2025.Ma2025Rule`.
- `simulate`: whole crowds at once, for studies.

Learning from others: `SourceSpec` and `SourceClient` for a source's own server and devices, `Server.attach`
for its target; `simulate_transfer` and `simulate_tasks` for studies. Counting anywhere: `ReportCounts`,
`aggregate`.

Gaussian-process bandits, (epsilon, delta): `GPUCBSpec`, `GPUCBClient` (with `FileOutbox`), `GPUCBServer`,
`PublishedWeights`; as published, `dpbandits.local.published.dubey2021_local.Dubey2021LocalServer`.

Names load on first use, so that a device never imports what the server needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbandits.local.aggregation import aggregate
    from dpbandits.local.client import Client
    from dpbandits.local.counting import ReportCounts
    from dpbandits.local.crowd import ContextWorld, SimulationResult, simulate
    from dpbandits.local.durable_server import DurableServer, Recorded
    from dpbandits.local.elimination import EliminationConstants, EliminationRule
    from dpbandits.local.gp_spec import GPUCBSpec, PublishedWeights
    from dpbandits.local.gp_ucb import GPUCBClient, GPUCBServer
    from dpbandits.local.guarantees import report_guarantee
    from dpbandits.local.outbox import FileOutbox, MemoryOutbox, Outbox
    from dpbandits.local.reports import PublishedPolicy
    from dpbandits.local.server import Absorbed, Server
    from dpbandits.local.smooth_tree import SmoothTreeConstants, SmoothTreeRule
    from dpbandits.local.sources import SourceClient, SourceSpec
    from dpbandits.local.spec import PartitionBanditSpec
    from dpbandits.local.transfer_crowd import (
        SimulatedSource,
        SourcePeople,
        simulate_tasks,
        simulate_transfer,
    )
    from dpbandits.local.transfer_tree import TransferTree
    from dpbandits.local.tree import TreeConstants, TreeRule

__all__ = [
    "Absorbed",
    "Client",
    "ContextWorld",
    "DurableServer",
    "EliminationConstants",
    "EliminationRule",
    "FileOutbox",
    "GPUCBClient",
    "GPUCBServer",
    "GPUCBSpec",
    "MemoryOutbox",
    "Outbox",
    "PartitionBanditSpec",
    "PublishedPolicy",
    "PublishedWeights",
    "Recorded",
    "ReportCounts",
    "Server",
    "SimulatedSource",
    "SimulationResult",
    "SmoothTreeConstants",
    "SmoothTreeRule",
    "SourceClient",
    "SourcePeople",
    "SourceSpec",
    "TransferTree",
    "TreeConstants",
    "TreeRule",
    "aggregate",
    "report_guarantee",
    "simulate",
    "simulate_tasks",
    "simulate_transfer",
]

_MODULES = {
    "Absorbed": "server",
    "Client": "client",
    "ContextWorld": "crowd",
    "DurableServer": "durable_server",
    "EliminationConstants": "elimination",
    "EliminationRule": "elimination",
    "FileOutbox": "outbox",
    "GPUCBClient": "gp_ucb",
    "GPUCBServer": "gp_ucb",
    "GPUCBSpec": "gp_spec",
    "MemoryOutbox": "outbox",
    "Outbox": "outbox",
    "PartitionBanditSpec": "spec",
    "PublishedPolicy": "reports",
    "PublishedWeights": "gp_spec",
    "Recorded": "durable_server",
    "ReportCounts": "counting",
    "Server": "server",
    "SimulatedSource": "transfer_crowd",
    "SimulationResult": "crowd",
    "SmoothTreeConstants": "smooth_tree",
    "SmoothTreeRule": "smooth_tree",
    "SourceClient": "sources",
    "SourcePeople": "transfer_crowd",
    "SourceSpec": "sources",
    "TransferTree": "transfer_tree",
    "TreeConstants": "tree",
    "TreeRule": "tree",
    "aggregate": "aggregation",
    "report_guarantee": "guarantees",
    "simulate": "crowd",
    "simulate_tasks": "transfer_crowd",
    "simulate_transfer": "transfer_crowd",
}
"""Public name -> the module here that defines it."""


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
