"""Simulations and evaluations without privacy, for experimenters.

- `worlds`: people and functions to decide about; `baselines`: policies without a promise, to compare with;
  `twin(policy)`: the one that goes with a policy, or its double in another room.
- `evaluation`: what a policy earned, and what privacy cost.
- `study`: one way to run an experiment; `people`: the study of real people; `plot`, `page`: the style of
  pictures and pages.
- `plan(...)`: what privacy will cost, before anybody is asked; `planning` has what it is made of.
- `compare(worlds, policies, ...)`: any policies in any worlds, as one tidy table; see `comparing`.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.lab import baselines, comparing, evaluation, people, planning, plot, study, worlds
    from dpbandits.lab.comparing import compare
    from dpbandits.lab.planning.facts import Facts
    from dpbandits.lab.planning.planner import plan
    from dpbandits.lab.twins import twin

__all__ = [
    "Facts",
    "baselines",
    "compare",
    "comparing",
    "evaluation",
    "people",
    "plan",
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
        "dpbandits.lab.twins": ("twin",),
    },
)
