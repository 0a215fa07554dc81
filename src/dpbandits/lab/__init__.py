"""Simulation and evaluation of policies. Nothing in this package protects data.

- `worlds`: simulated users and functions. `baselines`: policies to compare with.
- `twin(policy)`: the non-private baseline of a policy, or its counterpart in another trust model.
- `evaluation`: rewards of a policy, and the cost of privacy.
- `compare(worlds, policies, ...)`: runs any policies in any worlds, and returns one tidy table; see
  `comparing`.
- `plan(...)`: predicts the cost of privacy before any data is collected; `plan_readout(...)` and
  `plan_local_readout(...)`: how wide the interval of a comparison with a control group will be. See
  `planning`.
- `study`: the runner of experiments. `people`: the study of a table of users. `plot`, `page`: the style of
  pictures and pages.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.lab import baselines, comparing, evaluation, people, planning, plot, study, worlds
    from dpbandits.lab.comparing import compare
    from dpbandits.lab.planning.facts import Facts
    from dpbandits.lab.planning.planner import plan
    from dpbandits.lab.planning.readouts import plan_local_readout, plan_readout
    from dpbandits.lab.twins import twin

__all__ = [
    "Facts",
    "baselines",
    "compare",
    "comparing",
    "evaluation",
    "people",
    "plan",
    "plan_local_readout",
    "plan_readout",
    "planning",
    "plot",
    "study",
    "twin",
    "worlds",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.lab.comparing": ("compare",),
        "dpbandits.lab.planning.facts": ("Facts",),
        "dpbandits.lab.planning.planner": ("plan",),
        "dpbandits.lab.planning.readouts": ("plan_local_readout", "plan_readout"),
        "dpbandits.lab.twins": ("twin",),
    },
)
