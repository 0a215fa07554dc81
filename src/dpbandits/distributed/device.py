"""The device (`Device`): choose with a published version, and report one bucket.

The number of a device's reports and its refusals depend on the spec, the published versions, the order of
calls and the budget alone. These are checked first. Afterwards no context and no reward is refused: numbers
out of bounds are clipped, and whatever cannot be read goes to the bucket for nothing to say.

A bucket is raw data of its user. It may leave the device only as two shares, one for each aggregator.

This module needs only NumPy and the standard library. The randomness of rounding comes from the operating
system; privacy does not rest on it, because the aggregators add the noise.
"""

import os
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._seen import said
from dpbandits.budget import Account, Cost, MemoryLedger, Terms, Unit
from dpbandits.budget.amounts import exact
from dpbandits.distributed.published import PublishedVersion
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.domains.rewards import read_reward
from dpbandits.errors import ProtocolError
from dpbandits.privacy.words import secure_words
from dpbandits.state.holder import Held, Holder, in_turn
from dpbandits.tables.device_menu import offered

__all__ = ["Device", "Report"]

ID_BYTES = 16
"""Length of a report's id, by which aggregators drop repetitions."""

_WORDS = 1 << 64

_STEP = Decimal("1e-20")
"""Step to which a report's share of epsilon is rounded down: a share below 1e8 then has at most 28 digits."""


class Report(NamedTuple):
    """Report that a device gives to the protocol that splits it into two shares: raw data of one user.

    Attributes:
        version: Number of the version that the report answers. Public.
        id: Random bytes, drawn independently of the user's data. Public.
        bucket: Bucket of the histogram, from 0 to one below the spec's `length`. Private: it leaves the
            device in shares alone, and `repr` does not show it.
    """

    version: int
    id: bytes
    bucket: int

    def __repr__(self) -> str:
        return said(self, version=self.version, id=self.id.hex())


@dataclass(repr=False)
class _Choice:
    """A choice that was not reported yet. It is private data and is never printed."""

    version: int
    place: int | None  # None if the report names no place
    report: Report | None = None


@worded
class Device(Held):
    """One user's device: it chooses arms and makes reports for two aggregators.

    Args:
        spec: The public contract, to which the account is bound.
        account: Account of the device's own ledger, such as `SQLiteLedger(path).account("reports")`, which
            survives a crash; the device opens it. By default it is in memory.

    Privacy: each report costs epsilon/k of the user's epsilon, where k is the spec's `reports_per_user`. The
    account is charged before the report is made, and refuses report k + 1. Calling `report` again for one
    choice returns the same report. A forked process is refused.

    Raises:
        InvalidParameter: An argument is of another kind, or the account is open for another spec.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.distributed.DistributedSpec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.DistributedDP(epsilon=1), horizon=1000)
        >>> collector, device = dpb.distributed.Collector(spec), Device(spec)
        >>> arm = device.choose(collector.publish(), {"age": 44})
        >>> device.report(1.0).version
        0
    """

    _moving: ClassVar[str] = "Build a new one with the same ledger"

    def __init__(self, spec: DistributedSpec, *, account: Account | None = None) -> None:
        self.spec = an(spec, DistributedSpec, name="spec", pass_="the DistributedSpec of its collector")
        purse = MemoryLedger().account("distributed-reports") if account is None else account
        an(purse, Account, name="account", pass_='account=SQLiteLedger(path).account("reports")')
        total, k = exact(spec.privacy.epsilon, name="epsilon"), spec.privacy.reports_per_user
        unit = Unit(
            f"one user: everything the user's device reports under the distributed spec {spec.fingerprint}",
            "any two sequences of inputs that the device could report on are neighbours",
        )
        book: Any = purse.ledger
        book.open_account(purse.name, privacy=Terms(epsilon=total, unit=unit))
        self._ledger, self._account = purse.ledger, purse.name
        share = total if k == 1 else (total / k).quantize(_STEP, rounding=ROUND_DOWN)
        self._cost = Cost(unit=unit, epsilon=share)
        self._holder = Holder(
            what="device", account=purse, nested="a call of this device is under way in this thread"
        )
        self._last: _Choice | None = None
        self._paid: bytes | None = None

    @in_turn
    def decide(self, published: PublishedVersion, context: Any, *, available: Any = None) -> Any:
        """Return the arm for this context, without report or charge. Arguments are those of `choose`.

        Whether you call `decide` or `choose` must not depend on the user's data.
        """
        self._check(published)
        return self.spec.arms[self._read(published, context, available)[0]]

    @in_turn
    def choose(self, published: PublishedVersion, context: Any, *, available: Any = None) -> Any:
        """Return the arm for this context. Call `report` afterwards, with or without a reward.

        Args:
            published: Version from the collector.
            context: A dict, a dataclass or a row. No context is refused: an unreadable one is decided like
                the middle of the columns, and its report says nothing.
            available: Arms that may be given to this user now; None for all. If the published arm is not
                among them, or the list cannot be read, another arm is drawn, and the report says nothing.

        Returns:
            The arm's label.

        Raises:
            InvalidParameter: `published` is no version of a collector.
            IncompatibleState: The version does not fit the spec.
            ProtocolError: An earlier choice has no report yet, or devices do not report on this version.
            BudgetExceeded: The account does not cover another report.
        """
        self._check(published)
        if published.version >= len(self.spec.reports_per_version):
            raise ProtocolError("choose: devices do not report on the last version: use decide()")
        if self._last is not None and self._last.report is None:
            raise ProtocolError("choose: report the earlier choice first: report(reward) or report(None)")
        balance = self._ledger.balance(self._account)
        if self._paid is None:
            charge = self._cost.charged_to(balance.terms, account=self._account)
            balance.charged(charge, account=self._account)
        arm, place = self._read(published, context, available)
        self._last = _Choice(published.version, place)
        return self.spec.arms[arm]

    @in_turn
    def report(self, reward: float | None) -> Report:
        """Return the report of the last choice. Another call for the same choice returns the same report.

        Args:
            reward: Reward of the chosen arm, clipped to the spec's range. None, and anything but a number, is
                missing: the report then says nothing. Whether and when you call this must not depend on the
                reward: report every choice by a deadline.

        Raises:
            ProtocolError: No choice is open.
            BudgetExceeded: Another device with the same account spent the budget meanwhile.
        """
        last = self._last
        if last is None:
            raise ProtocolError("report: no choice is open; choose an arm first")
        if last.report is None:
            # A ledger that failed may have recorded the charge: the id stays until a report is made with it.
            name = self._paid = self._paid or os.urandom(ID_BYTES)
            self._holder.charge(name.hex(), cost=self._cost)
            last.report = Report(last.version, name, self._bucket(last.place, reward))
            last.place = self._paid = None  # the private data is no longer needed
        return last.report

    def _check(self, published: PublishedVersion) -> None:
        an(published, PublishedVersion, name="published", pass_="the version from the collector's publish()")
        published.fits(self.spec)

    def _read(self, published: PublishedVersion, context: Any, available: Any) -> tuple[int, int | None]:
        """Return the arm for a context, and the place that a report names; None if it names none."""
        menu = self.spec.menu
        point = menu.read(context)[0]
        whole = np.asarray(menu.in_cube(menu.middle if point is None else point))[None]
        coins = secure_words(2)[None] / _WORDS * (1.0 - 2.0**-52)
        arm, place = (int(one[0]) for one in published.at(self.spec, whole, coins))
        mask = offered(available, menu.arms)
        if mask is not None and mask[arm]:
            return arm, None if point is None else place
        others = np.flatnonzero(mask) if mask is not None else np.arange(self.spec.n_arms)
        return int(others[int(secure_words(1)[0]) % len(others)]), None

    def _bucket(self, place: int | None, reward: Any) -> int:
        """Return the bucket of a place and a reward: success with probability equal to the scaled reward."""
        bounds = self.spec.reward_range
        value, coin = read_reward(bounds, reward)[0], int(secure_words(1)[0])
        if place is None or value is None:
            return self.spec.silent
        share = min(1.0, max(0.0, (value - bounds.low) / bounds.width))
        return 2 * place + (0 if coin < share * _WORDS else 1)

    def __repr__(self) -> str:
        return said(self, epsilon=self.spec.privacy.epsilon, reports=self.spec.privacy.reports_per_user)
