"""Local privacy: people decide on their own device, and the server learns from private reports alone.

On the device (NumPy and the standard library are enough):

- `Spec`: the public contract, as JSON.
- `Client`: `choose` with the published policy, `privatize` into bytes, own ledger and outbox.
- `PublishedArms`: bins and their arms; `FileOutbox`, `MemoryOutbox`: where reports wait.

On the server:

- `Server`: `absorb` bytes, `publish` policies, `replay` from bytes; it has no way in for raw data.
- `DurableServer`: the same, with every report on disk before it is confirmed.
- `SmoothTreeRule`, `TreeRule`, `EliminationRule` and, as published,
  `dpbandits.local.published.ma2025.Ma2025Rule`.
- `simulate`: whole crowds at once, for studies.

Learning from others: `SourceSpec` and `SourceClient` for a source's own server and devices, `Server.attach`
for its target; `simulate_transfer` and `simulate_tasks` for studies. Counting anywhere: `ReportCounts`,
`aggregate`.

Gaussian-process bandits, (epsilon, delta): `GPSpec`, `GPUCBClient` (with `FileOutbox`), `GPUCBServer`,
`PublishedWeights`; as published, `dpbandits.local.published.dubey2021_local.Dubey2021LocalServer`.

Names load on first use, so that a device never imports what the server needs.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
    from dpbandits.local.contract.reports import PublishedArms
    from dpbandits.local.contract.sources import SourceClient, SourceSpec
    from dpbandits.local.contract.spec import Spec
    from dpbandits.local.contract.statement import report_guarantee
    from dpbandits.local.device.client import Client
    from dpbandits.local.device.outbox import FileOutbox, MemoryOutbox, Outbox
    from dpbandits.local.learners.elimination import EliminationConstants, EliminationRule
    from dpbandits.local.learners.smooth import SmoothTreeConstants, SmoothTreeRule
    from dpbandits.local.learners.transfer import TransferTree
    from dpbandits.local.learners.tree import TreeConstants, TreeRule
    from dpbandits.local.server.aggregation import aggregate
    from dpbandits.local.server.counting import ReportCounts
    from dpbandits.local.server.durable import DurableServer, Recorded
    from dpbandits.local.server.gp_ucb import GPUCBClient, GPUCBServer
    from dpbandits.local.server.server import Absorbed, Server

__all__ = [
    "Absorbed",
    "Client",
    "DurableServer",
    "EliminationConstants",
    "EliminationRule",
    "FileOutbox",
    "GPSpec",
    "GPUCBClient",
    "GPUCBServer",
    "MemoryOutbox",
    "Outbox",
    "PublishedArms",
    "PublishedWeights",
    "Recorded",
    "ReportCounts",
    "Server",
    "SmoothTreeConstants",
    "SmoothTreeRule",
    "SourceClient",
    "SourceSpec",
    "Spec",
    "TransferTree",
    "TreeConstants",
    "TreeRule",
    "aggregate",
    "report_guarantee",
]

__getattr__, __dir__ = lazy(
    __name__,
    objects={
        "dpbandits.local.contract.gp_spec": ["GPSpec", "PublishedWeights"],
        "dpbandits.local.contract.reports": ["PublishedArms"],
        "dpbandits.local.contract.sources": ["SourceClient", "SourceSpec"],
        "dpbandits.local.contract.spec": ["Spec"],
        "dpbandits.local.contract.statement": ["report_guarantee"],
        "dpbandits.local.device.client": ["Client"],
        "dpbandits.local.device.outbox": ["FileOutbox", "MemoryOutbox", "Outbox"],
        "dpbandits.local.learners.elimination": ["EliminationConstants", "EliminationRule"],
        "dpbandits.local.learners.smooth": ["SmoothTreeConstants", "SmoothTreeRule"],
        "dpbandits.local.learners.transfer": ["TransferTree"],
        "dpbandits.local.learners.tree": ["TreeConstants", "TreeRule"],
        "dpbandits.local.server.aggregation": ["aggregate"],
        "dpbandits.local.server.counting": ["ReportCounts"],
        "dpbandits.local.server.durable": ["DurableServer", "Recorded"],
        "dpbandits.local.server.gp_ucb": ["GPUCBClient", "GPUCBServer"],
        "dpbandits.local.server.server": ["Absorbed", "Server"],
    },
)
