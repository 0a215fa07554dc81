"""`ServedBandit`: the `GPBandit` that a service opens, which one process may release while others answer."""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from dpbandits import _checks
from dpbandits.central.gp_bandit import GPBandit, GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.policy.decision import Decision
from dpbandits.state.holder import in_turn

__all__ = ["ServedBandit"]


REMEMBERED = 16
"""Features whose eigenfunctions a process keeps: every fold, and every opening, needs them."""


@lru_cache(maxsize=REMEMBERED)
def _tuning_of(text: str) -> GPTuning:
    """Return the tuning that JSON describes, with its features: public, unchanging, and slow to compute."""
    return GPTuning.from_config(json.loads(text))


class ServedBandit(GPBandit):
    """A `GPBandit` with what the service needs: its configurations, states and statements are the same.

    A worker that answers calls `follow`. The worker that releases calls `release_next` and `erase_rounds`.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        **GPBandit.config_parsers,
        "tuning": lambda config: _tuning_of(json.dumps(config, sort_keys=True)),
    }
    _published: Callable[[int], PublishedPosterior | None] | None = None
    _followed: PublishedPosterior | None = None
    _informed = False

    def follow(
        self,
        book: RoundBook,
        published: Callable[[int], PublishedPosterior | None],
        *,
        informed: bool = False,
    ) -> None:
        """Answer by what another process releases, and release nothing from now on.

        Only single asks, `tell`, `abandon`, `recommend` and `predict` are supported then. Answers depend
        on releases, the question and public coins, so they equal those of the policy that releases.

        Args:
            book: keeps the rounds; the processes share it.
            published: gives what decides the round of an index; None if arms are drawn evenly there.
            informed: whether the policy that releases began from `warm_start`.
        """
        self._book, self._published, self._informed = book, published, informed
        self._posterior = self._followed = None

    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """See `RoundPolicy.ask`; no person calls it by hand."""
        return self._answer_to(brought, user, available, at)

    def _decide_one(self, *given: Any) -> Decision:
        if self._published is None:
            return super()._decide_one(*given)
        return self._decided_one(*given)  # the book's transaction is the turn, and one thread has it

    def _prepare(self) -> None:
        if self._published is None:
            self._drawn_ahead = len(self.blocks)  # whoever releases is closed before the next: none is drawn
            super()._prepare()
            return
        found = self._published(self._book.asked)
        if found is self._followed:
            return
        self._followed = found
        if found is None:
            self._posterior = None
        else:
            released = bisect_right(self.batch_boundaries, self._book.asked)
            rests_on: dict[str, Any] = {"released": released, "informed": self._informed}
            self._posterior = self._kind.answering(found.posterior, found.features, **rests_on)
            if self.features.basis():  # eigenvectors computed on another processor: the posterior is in them
                self.features = self._kind.features = found.features

    @in_turn
    def release_next(self) -> bool:
        """Make the next release durable, if one is due, without waiting for the round that it decides."""
        due = self._past.count < self._deadlines.due(self._book.asked)
        if due:
            if self.tuning.lag:
                self._begin_releases()
            self._release()
            self._settle()
        return due

    @in_turn
    def erase_rounds(self, before: int) -> None:
        """Erase contexts and rewards of rounds before `before` that no release holds, and save the state.

        Due blocks are released first. An erased round stays taken and contributes nothing, as a round whose
        context could not be read; a reward that comes for it is refused.

        Privacy: the time of the call and `before` must depend on public facts alone, such as times of asks,
        and never on what anybody brought or told. Then the promise is unchanged: a round is erased whatever
        its person brought, and contributes zero. The contributions of others stay as they are, no sum moves
        further by one person's data, and number, places and noise of the releases are the same.

        Raises:
            StateError, OSError: the state could not be saved; call it again.
        """
        while self.release_next():
            pass
        self._book.erase(_checks.integer(before, name="before", minimum=0), self.public_point)
        self._holder.commit()
