"""Any policies in any worlds: `compare`, and the policies that have names.

- `compare(worlds, policies, promises=, people=, reps=)` -> `Comparison`: a tidy table, paired tests, boards
  and pictures; resumable, on cores or a Dask cluster.
- `study_in(path)`: the arguments of `compare` that a TOML file says, for `dpbandits lab compare`.
- `RIVALS`: policies by name; `Rival`: one of one's own, with its trust model.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.lab.comparing.comparison import Comparison, Trial, compare
    from dpbandits.lab.comparing.files import study_in
    from dpbandits.lab.comparing.rivals import RIVALS, Rival

__all__ = ["RIVALS", "Comparison", "Rival", "Trial", "compare", "study_in"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.lab.comparing.comparison": ("Comparison", "Trial", "compare"),
        "dpbandits.lab.comparing.files": ("study_in",),
        "dpbandits.lab.comparing.rivals": ("RIVALS", "Rival"),
    },
)
