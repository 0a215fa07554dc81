"""Populations: groups of users with one privacy budget each, an account of the service's ledger.

Every policy names its population and is charged there, before its first answer, for everything that it will
ever release. A charge beyond the budget is refused before anything is computed. The ledger does all
arithmetic.
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
    """Return the privacy definition that a JSON object describes; its kind is JointDP by default.

    Raise InvalidParameter if it describes none.
    """
    return definitions.from_config({"kind": "JointDP", **asked})


def previewed(ledger: Ledger, population: str, cost: Cost) -> dict[str, Any]:
    """Return the effect that a charge would have on a population's account, as JSON. Nothing is charged.

    Errors are those of `standing`.
    """
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
    """Return the names of all populations, sorted."""
    return [str(row[0]) for row in reads.rows("SELECT name FROM populations ORDER BY name")]


def standing(ledger: Ledger, population: str) -> dict[str, Any]:
    """Return spent and remaining budget of a population as JSON; raise Problem for an unknown name."""
    try:
        return balance_to_json(ledger.balance(population))
    except InvalidParameter:
        raise Problem("not-found", "There is no population of this name: open it first.") from None


def balance_to_json(balance: Balance) -> dict[str, Any]:
    """Return the public content of an account as JSON, with exact decimals as texts.

    `spent_as_epsilon` is the epsilon of all charges at the promised delta, to compare with the promised
    epsilon. `parts` are the sums that the accountant compares with its limits.
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
