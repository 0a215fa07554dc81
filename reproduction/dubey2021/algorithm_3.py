"""Algorithm 3 of Dubey2021, the local one, in the world of the figures; the paper has no experiment with
it.
"""

from reproduction.dubey2021.cells import (
    LOCAL,
    LOCAL_PUBLISHED,
    LOCAL_SHARP,
    OPEN,
    RANDOM,
    policy_cells,
    policy_item,
)

__all__ = ["ITEM"]

ITEM = policy_item(
    about="the local algorithm as published, and this library's, by epsilon at delta 1e-5",
    cells=policy_cells(
        ("printed",),
        (LOCAL, LOCAL_PUBLISHED, LOCAL_SHARP, OPEN, RANDOM),
        [(epsilon, 1e-5) for epsilon in (0.5, 1.0, 10.0)],
    ),
)
