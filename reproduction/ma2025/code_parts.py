"""Effect of each fault in Ma2025's public code, by correcting them one by one.

Two places of Figure 7a and one of 7b. Where noise is in visited bins alone nothing is private.
"""

from reproduction.ma2025.cells import PublishedCell, crowd_item
from reproduction.ma2025.methods import CODE_METHODS, CODE_WORLD, Source
from reproduction.ma2025.pictures import bars

__all__ = ["ITEMS"]

_ONE = (Source(n_users=5000, epsilon=8.0),)
_PLACES: tuple[tuple[str, float, int, tuple[Source, ...]], ...] = (
    ("7a", 1.0, 20_000, ()),
    ("7a", 8.0, 20_000, ()),
    ("7b", 8.0, 10_000, _ONE),
)

ITEMS = {
    "code-parts": crowd_item(
        "the public code with its faults undone one by one",
        [
            PublishedCell(
                figure=figure, method=method, world=CODE_WORLD, epsilon=epsilon, n_users=n, sources=sources
            )
            for figure, epsilon, n, sources in _PLACES
            for method in CODE_METHODS
        ],
        picture=bars,
    )
}
