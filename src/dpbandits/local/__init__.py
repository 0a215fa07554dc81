"""Local privacy: people decide on their own device, and the server learns from private reports alone.

The public contract, as JSON: `Spec` (a few arms, epsilon-local DP) or `GPSpec` (Gaussian-process bandits,
(epsilon, delta)). One client and one server work for both.

- On the device: `Client` chooses with what was published and makes a private `report`; it has its own ledger,
  and an outbox (`FileOutbox`, `MemoryOutbox`) where reports wait. For a `Spec`, NumPy and the standard
  library are enough.
- On the server: `Server` absorbs bytes and publishes `PublishedQuestions`, or `PublishedArms` (learners of
  bins), or `PublishedWeights` (`GPSpec`); it has no way in for raw data. `DurableServer` has every
  report on disk before it is confirmed.
- `ReportKey`: tags on reports, where nobody else may send any. `Robust`: bounds on what forged ones do.
- Counting anywhere: `ReportCounts`, and `aggregate` for files of reports.
- Learning from others: `SourceSpec` and `SourceClient` for a source's own server and devices, `Server.attach`
  for its target.

Learners and their constants are in `local.learners`, algorithms as published in `local.published`, whole
simulated crowds in `lab.evaluation`. Names load on first use, so that a device never imports what the server
needs.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.local.contract.bins import PublishedArms
    from dpbandits.local.contract.gp_spec import GPSpec, GPSpecTuning, PublishedWeights
    from dpbandits.local.contract.grid import PublishedQuestions
    from dpbandits.local.contract.keys import ReportKey
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
