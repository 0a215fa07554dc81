"""Local differential privacy: each user's client decides, and the server sees only private reports.

`Spec` (few arms, epsilon-local DP) and `GPSpec` (Gaussian-process bandits, (epsilon, delta)-local DP) are the
public contracts, stored as JSON. `Client` and `Server` work with both.

- On the user's device, `Client` chooses with the published version and makes a private `report`. It has its
  own ledger, and an outbox (`FileOutbox`, `MemoryOutbox`) for reports not yet sent. A client of a `Spec`
  needs only NumPy and the standard library.
- `Server` takes reports as bytes, has no entry point for raw data, and publishes `PublishedQuestions`,
  `PublishedArms` (learners of bins) or `PublishedWeights` (`GPSpec`). `DurableServer` writes every report to
  disk before it confirms it.
- `ReadoutSpec` compares a published version with a control: did it work?
- `ReportKey` adds a tag to reports, so that only clients with the key can send them. `Robust` bounds the
  effect of forged reports.
- `ReportCounts` and `aggregate` count reports on any machine.
- `SourceSpec`, `SourceClient` and `Server.attach` let a target learn from another data source.

`local.learners` holds the learners and their constants, `local.published` algorithms as published, and
`lab.evaluation` simulated crowds. Names load on first use, so that clients never import server code.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.local.contract.bins import PublishedArms
    from dpbandits.local.contract.gp_spec import GPSpec, GPSpecTuning, PublishedWeights
    from dpbandits.local.contract.grid import PublishedQuestions
    from dpbandits.local.contract.keys import ReportKey
    from dpbandits.local.contract.readout import ReadoutSpec
    from dpbandits.local.contract.sources import SourceSpec
    from dpbandits.local.contract.spec import Spec, SpecTuning
    from dpbandits.local.device.client import Client, SourceClient
    from dpbandits.local.device.outbox import FileOutbox, MemoryOutbox
    from dpbandits.local.server.aggregation import aggregate
    from dpbandits.local.server.counting import ReportCounts
    from dpbandits.local.server.durable import DurableServer
    from dpbandits.local.server.robust import Robust
    from dpbandits.local.server.server import Server

__all__ = [
    "Client",
    "DurableServer",
    "FileOutbox",
    "GPSpec",
    "GPSpecTuning",
    "MemoryOutbox",
    "PublishedArms",
    "PublishedQuestions",
    "PublishedWeights",
    "ReadoutSpec",
    "ReportCounts",
    "ReportKey",
    "Robust",
    "Server",
    "SourceClient",
    "SourceSpec",
    "Spec",
    "SpecTuning",
    "aggregate",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.local.contract.gp_spec": ("GPSpec", "GPSpecTuning", "PublishedWeights"),
        "dpbandits.local.contract.keys": ("ReportKey",),
        "dpbandits.local.contract.grid": ("PublishedQuestions",),
        "dpbandits.local.contract.bins": ("PublishedArms",),
        "dpbandits.local.contract.readout": ("ReadoutSpec",),
        "dpbandits.local.contract.sources": ("SourceSpec",),
        "dpbandits.local.contract.spec": ("Spec", "SpecTuning"),
        "dpbandits.local.device.client": ("Client", "SourceClient"),
        "dpbandits.local.device.outbox": ("FileOutbox", "MemoryOutbox"),
        "dpbandits.local.server.aggregation": ("aggregate",),
        "dpbandits.local.server.counting": ("ReportCounts",),
        "dpbandits.local.server.durable": ("DurableServer",),
        "dpbandits.local.server.robust": ("Robust",),
        "dpbandits.local.server.server": ("Server",),
    },
)
