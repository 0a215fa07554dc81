"""Figure 7 of Ma2025: regret against n for several epsilon, on both synthetic worlds.

(a) without sources; (b) with two sources of 5,000 users at epsilon 8.
"""

from functools import partial

from dpbandits.lab.papers.ma2025.cells import EPSILONS, SYNTHETIC, crowd_item, crowds
from dpbandits.lab.papers.ma2025.methods import Source
from dpbandits.lab.papers.ma2025.pictures import picture
from dpbandits.lab.study import Row

__all__ = ["ITEMS"]

_crowds = partial(crowds, worlds=SYNTHETIC, epsilons=EPSILONS, sizes=(10_000, 20_000, 40_000, 80_000))


def _place(row: Row) -> tuple[float, str]:
    return row["n_users"], f"epsilon {row['epsilon']:g}"


_item = partial(crowd_item, picture=partial(picture, along="n", line_of=_place))

ITEMS = {
    "figure7a": _item("regret against n, without sources", _crowds(sources=[()])),
    "figure7b": _item(
        "the same with two sources", _crowds(sources=[2 * (Source(n_users=5000, epsilon=8.0),)])
    ),
}
