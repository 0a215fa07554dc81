"""Populations: people who are protected together, each an account of the service's ledger.

Every policy names its population, and pays there for all it will ever release before it answers anybody. What
an account cannot pay is refused, and nothing is computed. All arithmetic is the ledger's.
"""

from collections.abc import Mapping
from typing import Any

from dpbandits.budget import Balance, Cost, Ledger
from dpbandits.errors import DPBanditsError, InvalidParameter
from dpbandits.privacy import definitions
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads

__all__ = [
    "balance_to_json",
    "population_names",
    "previewed",
    "promise_of",
    "standing",
]


def promise_of(asked: Mapping[str, Any]) -> definitions.Definition:
    """Return the promise in JSON, JointDP if `kind` is left out; InvalidParameter if it is no promise."""
    return definitions.from_config({"kind": "JointDP", **asked})


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
    """Return the public content of an account, as exact decimals in texts.

    `spent_as_epsilon` is what everything that was charged costs at the promised delta, to be read beside the
    promised epsilon; `parts` are the sums that the accountant holds against limits.
    """
    terms = balance.terms
    return {
        "accountant": balance.accountant,
        "promised": {"epsilon": str(terms.epsilon), "delta": str(terms.delta)},
        "spent_as_epsilon": str(balance.spent_as_epsilon),
        "unit": terms.unit.whose,
        "neighbours": terms.unit.neighbours,
        "simulated": balance.simulated,
        "parts": [
            {"name": name, "spent": str(spent), "left": str(limit - spent), "limit": str(limit)}
            for name, spent, limit in balance.parts
        ],
    }
