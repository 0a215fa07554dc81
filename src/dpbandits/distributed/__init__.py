"""Distributed trust model: two aggregators add up reports, and neither sees one. Experimental.

A device reports one bucket of a histogram: a place, and success or failure. With few columns the place is the
cell of its context. With many columns it is its arm and its cell in one of several marginal tables, which the
device takes by a coin of its own. Two aggregators that do not work together hold shares of each report. Each
adds up its shares and adds noise that suffices alone. A collector learns from the noisy sums and publishes
versions of the policy.

- `DistributedSpec`: the public contract of devices, aggregators and collector. Its `statement()` is the
  guarantee.
- `Device`: one user's device, which chooses with a `PublishedVersion` and makes a `Report`, a bucket.
- `PublishedCellArms`, `PublishedTableArms`: versions of a policy for few and for many columns.
- `Collector`: learns from `Aggregate`s, the noisy sums of one version's reports, and publishes.
- `IdealAggregation`: both aggregators in one process, for simulations and tests. It splits nothing.
- `DapCollector`: fetches the sums of two aggregators that speak DAP-09, and `DapTask`, the parameters of a
  version's task there.

**Experimental.** Devices in Python cannot split reports: a page sends `Report.bucket` with `@divviup/dap`.
The protocols (DAP-09, VDAF-08) are drafts. Their standards will not understand these messages, and names and
formats may change without notice.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.distributed.aggregation import Aggregate, IdealAggregation
    from dpbandits.distributed.collector import Collector
    from dpbandits.distributed.dap import DapCollector, DapTask
    from dpbandits.distributed.device import Device, Report
    from dpbandits.distributed.published import PublishedCellArms, PublishedTableArms, PublishedVersion
    from dpbandits.distributed.spec import DistributedSpec, DistributedTuning, Task

__all__ = [
    "Aggregate",
    "Collector",
    "DapCollector",
    "DapTask",
    "Device",
    "DistributedSpec",
    "DistributedTuning",
    "IdealAggregation",
    "PublishedCellArms",
    "PublishedTableArms",
    "PublishedVersion",
    "Report",
    "Task",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.distributed.aggregation": ("Aggregate", "IdealAggregation"),
        "dpbandits.distributed.collector": ("Collector",),
        "dpbandits.distributed.dap": ("DapCollector", "DapTask"),
        "dpbandits.distributed.device": ("Device", "Report"),
        "dpbandits.distributed.published": ("PublishedVersion", "PublishedCellArms", "PublishedTableArms"),
        "dpbandits.distributed.spec": ("DistributedSpec", "DistributedTuning", "Task"),
    },
)
