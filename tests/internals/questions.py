"""How many versions a learner of questions keeps: too many for a quick test."""

from collections.abc import Iterator
from contextlib import contextmanager

from dpbandits.local.learners import questions


@contextmanager
def few_kept(most: int) -> Iterator[None]:
    """Keep so many versions' questions in place of 2,048."""
    before = questions._MOST_KEPT
    questions._MOST_KEPT = most
    try:
        yield
    finally:
        questions._MOST_KEPT = before
