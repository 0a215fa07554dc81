"""Forgers in a simulated crowd: people who send the strongest report that a device could have sent.

They know everything public: what is published, the mechanism, the best arms of the world. Their reports are
legal ones, so no check of bytes drops them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import Crowd, CrowdWorld
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.grid import PublishedQuestions
from dpbandits.local.contract.spec import Spec
from dpbandits.privacy.reports import RandomisedResponse, ReportMechanism, SignedTernary

__all__ = ["ForgedCrowd", "Forgers", "strongest"]


@dataclass(frozen=True, kw_only=True)
class Forgers:
    """Who forges, and what for.

    Args:
        share: Share of forgers among all users.
        arm: which it is about; or which arms (n,), at points (n, dim) of the unit cube.
        aim: `promote`: that arm looks best and all others worst; `demote`: it looks worst; `reverse`: it
            looks worst and all others best.
        when: `spread` evenly over the run, or in a `burst` from the middle on, one after another.

    Raises:
        InvalidParameter: an argument is outside what it may be.
    """

    share: float
    arm: int | Callable[[FloatArray], IntArray]
    aim: Literal["promote", "demote", "reverse"] = "promote"
    when: Literal["spread", "burst"] = "spread"

    def __post_init__(self) -> None:
        _checks.number(self.share, name="share", exclusive=False, maximum=1.0)
        if not callable(self.arm):
            _checks.integer(self.arm, name="arm", minimum=0)
        _checks.one_of(self.aim, ("promote", "demote", "reverse"), name="aim")
        _checks.one_of(self.when, ("spread", "burst"), name="when")

    def among(self, n: int, rng: np.random.Generator) -> BoolArray:
        """(n,) who of n people forges."""
        forged = np.zeros(n, dtype=np.bool_)
        if self.when == "burst":
            forged[n // 2 : n // 2 + round(self.share * n)] = True
        else:
            forged[rng.permutation(n)[: round(self.share * n)]] = True
        return forged

    def wanted(self, published: PublishedArms, spec: Spec) -> FloatArray:
        """(n_cells,) +1 where signed sums are to grow, -1 where to fall, 0 where nothing is wanted."""
        if isinstance(published, PublishedQuestions):
            points = spec.protocol.grids.of(published).centres
        else:
            bins = spec.protocol.bins.of(published)
            points = (bins.low[bins.leaves] + bins.high[bins.leaves]) / 2.0
        arm = self.arm(points) if callable(self.arm) else np.full(len(points), self.arm)
        if published.arms is None:
            own = (np.arange(spec.n_arms) == arm[:, None]).ravel()
        else:
            own = np.asarray(published.arms) == arm
        signs = {"promote": (1.0, -1.0), "demote": (-1.0, 0.0), "reverse": (-1.0, 1.0)}[self.aim]
        towards = np.where(own, *signs)
        if isinstance(published, PublishedQuestions):
            signed = np.where(published.turned, -towards, towards)
            sums = np.bincount(published.parts, signed, minlength=spec.protocol.grids.n_parts)
            towards = np.where(sums < 0.0, -1.0, 1.0)
        return towards


def strongest(mechanism: ReportMechanism, wanted: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Sums of n legal reports that move the signed sums as far as reports can, the way `wanted` (n_cells,).

    Signed reports hold a sign in every cell; one of one category names one cell, any with equal chance.

    Raises:
        InvalidParameter: another mechanism than `signed` and `krr`.
    """
    if isinstance(mechanism, SignedTernary):
        planes = [np.packbits(wanted != 0), np.packbits(wanted < 0)]
        payloads = np.repeat(np.concatenate(planes)[None], n, axis=0)
    elif isinstance(mechanism, RandomisedResponse):
        cells = rng.choice(np.flatnonzero(wanted) if wanted.any() else mechanism.n_cells, size=n)
        codes = (2 * cells + (wanted[cells] < 0)).astype("<u8")
        payloads = codes[:, None].view(np.uint8)[:, : mechanism.report_bytes]
    else:
        raise InvalidParameter("forgers: expected reports of the mechanism 'signed' or 'krr'")
    return mechanism.aggregate(np.ascontiguousarray(payloads))


class ForgedCrowd(Crowd):
    """A simulated crowd some of whom forge; regret and rewards are those of the honest people alone.

    Args: as for `Crowd`, without floating noise and classes of epsilon.
        forgers: who forges, and what for.
    """

    def __init__(
        self, spec: Spec, world: CrowdWorld, *, forgers: Forgers, n_users: int, seed: int, **options: Any
    ) -> None:
        super().__init__(spec, world, n_users=n_users, seed=seed, **options)
        self._forgers, self._forged = forgers, forgers.among(n_users, np.random.default_rng([seed, 2]))
        self.counts = self.counts & ~self._forged

    def sums_of(
        self,
        mechanism: ReportMechanism,
        published: PublishedArms,
        cells: IntArray,
        positive: BoolArray,
        people: IntArray,
        noise: np.random.Generator,
    ) -> IntArray:
        """Sums of the reports of these people; those who forge send the strongest report."""
        honest = ~self._forged[people]
        told = (cells[honest], positive[honest], people[honest])
        sums = super().sums_of(mechanism, published, *told, noise)
        wanted = self._forgers.wanted(published, self.spec)
        return sums + strongest(mechanism, wanted, int((~honest).sum()), noise)
