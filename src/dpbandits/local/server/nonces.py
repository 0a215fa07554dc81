"""Sets of nonces already seen, stored as sorted arrays of doubling size, eight bytes for each nonce.

Nonces that arrive one at a time are collected in a Python set until they fill an array.
"""

import numpy as np

from dpbandits._typing import BoolArray

__all__ = ["NonceSet", "Nonces", "RecentNonces"]

Nonces = np.ndarray[tuple[int], np.dtype[np.uint64]]

_FEW = 4096
"""Number of single nonces after which they are sorted into an array together, in under a microsecond each."""


class NonceSet:
    """A growing set of 64-bit nonces in at most log2(n) sorted arrays.

    Args:
        ordered: (n,) distinct nonces to start with, ascending.

    Example:
        >>> seen = NonceSet(np.array([5, 7], dtype=np.uint64))
        >>> 5 in seen, seen.contains(np.array([7, 9], dtype=np.uint64)).tolist()
        (True, [True, False])
    """

    def __init__(self, ordered: Nonces | None = None) -> None:
        self._runs: list[Nonces] = [] if ordered is None or not len(ordered) else [ordered]
        self._alone: set[int] = set()

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs) + len(self._alone)

    def __contains__(self, nonce: int) -> bool:
        if nonce in self._alone:
            return True
        wanted = np.uint64(nonce)
        for run in self._runs:
            at = run.searchsorted(wanted)
            if at < len(run) and run[at] == wanted:
                return True
        return False

    @property
    def nbytes(self) -> int:
        """Memory in bytes, eight for each nonce."""
        return 8 * len(self)

    def contains(self, nonces: Nonces) -> BoolArray:
        """Return True for each of n nonces that is in the set, shape (n,). Nothing is added."""
        known = np.zeros(len(nonces), dtype=np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, nonces), len(run) - 1)
            known |= run[at] == nonces
        return known | np.isin(nonces, self._waiting()) if self._alone else known

    def sorted(self) -> Nonces:
        """Return all n nonces, ascending, shape (n,)."""
        self._gather()
        if len(self._runs) > 1:
            self._runs = [np.sort(np.concatenate(self._runs), kind="stable")]
        return self._runs[0] if self._runs else np.zeros(0, dtype=np.uint64)

    def put(self, run: Nonces) -> None:
        """Add nonces, which are ascending, distinct and not in the set."""
        if len(run) == 1:
            self._alone.add(run.item())
            if len(self._alone) >= _FEW:
                self._gather()
        elif len(run):
            self._append(run)

    def _append(self, run: Nonces) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)

    def _waiting(self) -> Nonces:
        """Return the n nonces that were added one at a time and are not sorted yet, shape (n,)."""
        return np.fromiter(self._alone, dtype=np.uint64, count=len(self._alone))

    def _gather(self) -> None:
        """Sort the nonces that were added one at a time into an array."""
        if self._alone:
            self._append(np.sort(self._waiting()))
            self._alone.clear()


class RecentNonces:
    """A set of nonces for all versions.

    It forgets a nonce after every version that was open at its time has closed.

    There are two generations, and nonces are added to the younger one. `turn` discards the older generation.
    It may be called when all versions that were open at the last turn are closed. A nonce is therefore
    stored for one to two windows.

    Args:
        young, old: (n,) nonces of each generation to start with, ascending.
        since: Newest version at the last turn.
    """

    def __init__(self, young: Nonces | None = None, old: Nonces | None = None, *, since: int = 0) -> None:
        self._young, self._old, self.since = NonceSet(young), NonceSet(old), since

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __contains__(self, nonce: int) -> bool:
        return nonce in self._young or nonce in self._old

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self._young.nbytes + self._old.nbytes

    def contains(self, nonces: Nonces) -> BoolArray:
        """Return True for each of n nonces that is in the set, shape (n,)."""
        return self._young.contains(nonces) | self._old.contains(nonces)

    def put(self, ordered: Nonces) -> None:
        """Add nonces, which are ascending and not in the set."""
        self._young.put(ordered)

    def generations(self) -> tuple[Nonces, Nonces]:
        """Return the nonces of the younger and of the older generation, each ascending."""
        return self._young.sorted(), self._old.sorted()

    def sorted(self) -> Nonces:
        """Return all n nonces, ascending, shape (n,)."""
        young, old = self.generations()
        return np.sort(np.concatenate([young, old]), kind="stable") if len(old) else young

    def turn(self, newest: int) -> None:
        """Discard the older generation and begin a new one.

        `newest` is the newest version that is open now.
        """
        self._old, self._young, self.since = self._young, NonceSet(), newest
