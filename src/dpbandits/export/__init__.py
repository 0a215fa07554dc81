"""Published policies for other runtimes: plain JSON, an evaluator for it, and GrowthBook weights.

- `decide_by`: return the arm that an exported policy gives to a person.
- `growthbook`: write an exported policy as weights for each leaf condition.
- `to_sql`: write an exported policy as a statement that decides for every row of a table.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits.export.decide import decide_by

if TYPE_CHECKING:
    from dpbandits.export.decisions import growthbook
    from dpbandits.export.sql import to_sql

__all__ = ["decide_by", "growthbook", "to_sql"]

# `decide_by` needs the standard library alone, so this package imports no other module of its own.
__getattr__, __dir__ = lazy(
    __name__, {"dpbandits.export.decisions": ["growthbook"], "dpbandits.export.sql": ["to_sql"]}
)
