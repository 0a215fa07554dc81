"""Nonces seen so far, eight bytes each: sorted runs of doubling size, merged as they come."""

import numpy as np

__all__ = ["NonceSet", "Nonces"]

Nonces = np.ndarray[tuple[int], np.dtype[np.uint64]]


class NonceSet:
    """A growing set of 64-bit nonces in at most log2(n) sorted arrays.

    Example:
        >>> seen = NonceSet()
        >>> seen.add(np.array([5, 7, 5], dtype=np.uint64)), seen.add(np.array([7, 9], dtype=np.uint64))
        (array([ True,  True, False]), array([False,  True]))
    """

    def __init__(self) -> None:
        self._runs: list[Nonces] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(run.nbytes for run in self._runs)

    def add(self, nonces: Nonces) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Remember nonces; (n,) True for those not seen before, the first of equal ones only."""
        ordered, first = np.unique(nonces, return_index=True)
        new = ~self.contains(ordered)
        fresh = np.zeros(len(nonces), dtype=np.bool_)
        fresh[first[new]] = True
        self._push(ordered[new])
        return fresh

    def contains(self, nonces: Nonces) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """(n,) which nonces are remembered; nothing is added."""
        known = np.zeros(len(nonces), dtype=np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, nonces), len(run) - 1)
            known |= run[at] == nonces
        return known

    def sorted(self) -> Nonces:
        """(n,) all nonces, ascending."""
        if len(self._runs) > 1:
            self._runs = [np.sort(np.concatenate(self._runs), kind="stable")]
        return self._runs[0] if self._runs else np.zeros(0, dtype=np.uint64)

    def _push(self, run: Nonces) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
