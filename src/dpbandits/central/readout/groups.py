"""Group of every round: policy or control, from public coins alone.

With user ids the group is that of the user: a uniform coin keyed by (seed, purpose, digest of the id). The
digest has a secret key, which is part of the policy's state and of the service's store. So the group is the
same at every return, in every worker and after a restore, and nobody can choose an id by its group. Without
user ids, where a user has one round, rounds are divided by permuted blocks: every `PERMUTED` consecutive
rounds hold the control's share of rounds, rounded, at places that coins of the block determine.

No group depends on a context, a reward or another user. Two neighbouring data sets have the same ids at the
same rounds, and so the same groups. That is an assumption of the statement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits.policy import PublicCoins
from dpbandits.policy.bookkeeping import NOBODY

__all__ = ["CONTROL", "NAMES", "NEITHER", "POLICY", "Groups"]


POLICY, CONTROL, NEITHER = 0, 1, -1
"""Codes of the groups. `NEITHER` is for a round of nobody, or after the readout has stopped."""

NAMES = ("policy", "control", None)
"""Names of groups by code, as `Decision.group` has them; the last is that of `NEITHER`."""

PERMUTED = 20
"""Number of consecutive rounds in a permuted block."""

_PURPOSE = "readout/group"


@dataclass(frozen=True)
class Groups:
    """Rule that says which group a round is in.

    Args:
        coins: Public coins of the policy.
        share: Share of the control group.
        by_user: True if asks carry user ids.
    """

    coins: PublicCoins
    share: float
    by_user: bool

    def of(self, digests: Sequence[bytes], start: int, count: int) -> NDArray[np.int8]:
        """Return the codes (count,) of rounds from `start` on.

        Args:
            digests: Digests of the rounds' users; empty without user ids.
            start: First round.
            count: Number of rounds.
        """
        if not self.by_user:
            return self._permuted(start, count)
        found = np.where(self.coins.of_users(_PURPOSE, digests) < self.share, CONTROL, POLICY)
        found[[digest == NOBODY for digest in digests]] = NEITHER
        return found.astype(np.int8)

    def _permuted(self, start: int, count: int) -> NDArray[np.int8]:
        first, last = start // PERMUTED, -(-(start + count) // PERMUTED)
        coins = self.coins.uniform(_PURPOSE, first * PERMUTED, last * PERMUTED, 1).reshape(-1, PERMUTED)
        ranks = coins.argsort(axis=1).argsort(axis=1)
        held = np.floor(np.arange(first, last + 1) * PERMUTED * self.share + 1e-9)
        control = ranks < np.diff(held)[:, None]
        return np.asarray(control.ravel()[start - first * PERMUTED :][:count], dtype=np.int8)
