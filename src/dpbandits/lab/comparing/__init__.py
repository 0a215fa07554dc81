"""`compare`: run any policies in any worlds, also named policies.

- `compare(worlds, policies, promises=, people=, reps=)` returns a `Comparison`: a tidy table, paired tests,
  rankings and pictures. It can be resumed, and runs on several cores or a Dask cluster.
- `study_in(path)` reads the arguments of `compare` from a TOML file, for `dpbandits lab compare`.
- `RIVALS`: named policies. `Rival`: your own policy, with its trust model.
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
