"""Where nobody is protected: what experimenters use.

- `worlds`: people and functions to decide about; `baselines`: policies without a promise, to compare with;
  `twin(policy)`: the one that goes with a policy, or its double in another room.
- `evaluation`: what a policy earned, and what privacy cost.
- `papers`: the figures and tables of the four papers, each a `study` of items and cells; `people`: the
  study of real people; `plot`, `page`: the one style of pictures and of pages.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.lab import baselines, evaluation, papers, people, plot, study, worlds
    from dpbandits.lab.twins import twin

__all__ = ["baselines", "evaluation", "papers", "people", "plot", "study", "twin", "worlds"]

__getattr__, __dir__ = lazy(__name__)
