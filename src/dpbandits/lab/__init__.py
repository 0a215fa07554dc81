"""Where nobody is protected: what experimenters use.

- `worlds`: people and functions to decide about; `baselines`: policies without a promise, to compare with.
- `evaluation`: what a policy earned, and what privacy cost.
- `papers`: the figures and tables of the four papers; `people`: the study of real people; `study`: the one
  runner under both; `plot`: the one style of pictures.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.lab import baselines, evaluation, papers, people, plot, study, worlds

__all__ = ["baselines", "evaluation", "papers", "people", "plot", "study", "worlds"]

__getattr__, __dir__ = lazy(__name__, modules={name: f"{__name__}.{name}" for name in __all__})
