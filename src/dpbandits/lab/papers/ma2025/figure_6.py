"""Figure 6 of Ma2025: regret along the users of one crowd (n = 10,000, epsilon 1).

Without a source, with 500 and with 5,000 source users at epsilon 8.
"""

from functools import partial

from dpbandits.lab.papers.ma2025.cells import crowd_item, crowds
from dpbandits.lab.papers.ma2025.methods import Source
from dpbandits.lab.papers.ma2025.pictures import picture

__all__ = ["ITEMS"]

_SOURCES = [(), *((Source(n_users=n, epsilon=8.0),) for n in (500, 5000))]

ITEMS = {
    "figure6": crowd_item(
        "regret along the users of one crowd",
        crowds(sizes=(10_000,), sources=_SOURCES),
        picture=partial(picture, along="users so far"),
    )
}
