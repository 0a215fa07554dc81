"""Populations: people who are protected together, each an account of the service's ledger.

Every policy names its population, and pays there for all it will ever release before it answers anybody. What
an account cannot pay is refused, and nothing is computed. All arithmetic is the ledger's.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from dpbandits.budget import Balance, Cost, Ledger
from dpbandits.budget.ledger import Entries
from dpbandits.errors import DPBanditsError, InvalidParameter
from dpbandits.privacy import definitions
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Writes
from dpbandits.state.witness import Witness

__all__ = [
    "OwnLedger",
    "balance_to_json",
    "charge_for",
    "population_names",
    "previewed",
    "promise_of",
    "standing",
]


class OwnLedger(Ledger):
    """A ledger that this process alone writes to: how far a lineage has gone is asked once, then known.

    Every turn of a policy asks. Between two releases a decision changes nothing that a second copy could
    contradict, and a release is compare-and-set at the ledger itself. The lock on the service's folder keeps
    other processes away.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Witness | None] = {}

    def advance(self, lineage: str, *, position: int, digest: str) -> None:  # noqa: D102
        self._known.pop(lineage, None)
        self._ledger.advance(lineage, position=position, digest=digest)
        self._known[lineage] = Witness(position, digest)

    def last(self, lineage: str) -> Witness | None:  # noqa: D102
        if lineage not in self._known:
            self._known[lineage] = self._ledger.last(lineage)
        return self._known[lineage]

    def _event(self) -> AbstractContextManager[Entries]:
        return self._ledger._event()

    def _reading(self) -> AbstractContextManager[Entries]:
        return self._ledger._reading()


def promise_of(asked: Mapping[str, Any]) -> definitions.Definition:
    """Return the promise in JSON, JointDP if `kind` is left out; InvalidParameter if it is no promise."""
    return definitions.from_config({"kind": "JointDP", **asked})


def charge_for(
    writes: Writes, ledger: Ledger, population: str, *, table: str, identity: str, charge_id: str, cost: Cost
) -> None:
    """Charge a population for a row of a table, which is committed first and removed if the charge fails.

    Under the row's own id: whatever interrupts, the same request again pays once. In a store that several
    processes share, row and charge are one transaction. After an error it has not paid.
    """
    if not writes.shared:
        writes.keep()
    try:
        ledger.charge(population, charge_id=charge_id, cost=cost)
    except DPBanditsError:
        if not writes.shared and ledger.charged(population, charge_id) is None:
            writes.run(f"DELETE FROM {table} WHERE id = ?", identity)  # noqa: S608 - a name of ours
            writes.keep()
        raise


def previewed(ledger: Ledger, population: str, cost: Cost) -> dict[str, Any]:
    """Return as JSON what a charge would leave of an account; nothing is charged. Raises as `standing`."""
    before = standing(ledger, population)
    try:
        after, why = balance_to_json(ledger.after(population, cost=cost)), ""
    except DPBanditsError as error:
        after, why = None, str(error)
    parts = {"epsilon": cost.epsilon, "delta": cost.delta, "rho": cost.rho, "mu": cost.mu}
    told = {name: None if value is None else str(value) for name, value in parts.items()}
    return {
        "fits": after is not None,
        "why_not": why,
        "cost": told | {"unit": cost.unit.whose, "neighbours": cost.unit.neighbours},
        "population": {"name": population, "before": before, "after": after},
    }


def population_names(reads: Reads) -> list[str]:
    """Names of all populations, in their order."""
    return [str(row[0]) for row in reads.rows("SELECT name FROM populations ORDER BY name")]


def standing(ledger: Ledger, population: str) -> dict[str, Any]:
    """Return as JSON what a population has spent and has left; Problem if there is none of this name."""
    try:
        return balance_to_json(ledger.balance(population))
    except InvalidParameter:
        raise Problem("not-found", "There is no population of this name: open it first.") from None


def balance_to_json(balance: Balance) -> dict[str, Any]:
    """Return the public content of an account, as exact decimals in texts."""
    terms = balance.terms
    return {
        "accountant": balance.accountant,
        "promised": {"epsilon": str(terms.epsilon), "delta": str(terms.delta)},
        "unit": terms.unit.whose,
        "neighbours": terms.unit.neighbours,
        "simulated": balance.simulated,
        "parts": [
            {"name": name, "spent": str(spent), "left": str(limit - spent), "limit": str(limit)}
            for name, spent, limit in balance.parts
        ],
    }
