"""Published policies for other runtimes: plain JSON, its evaluator, and weights for GrowthBook.

- `decide_by`: the arm that an exported policy gives to a person.
- `growthbook`: an exported policy as weights per leaf condition.
"""

from dpbandits._lazy import lazy
from dpbandits.export.decide import decide_by
from dpbandits.export.decisions import growthbook

__all__ = ["decide_by", "growthbook"]

__getattr__, __dir__ = lazy(__name__)
