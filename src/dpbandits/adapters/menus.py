"""The contexts and arms of a policy, which the calls of other libraries are translated by."""

from typing import Any

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.policy import RoundPolicy
from dpbandits.tables.menu import Menu

__all__ = ["menu_of"]


def menu_of(policy: Any) -> Menu:
    """The contexts and arms of one of our policies that are asked and told.

    Raises:
        InvalidParameter: it has none, or is no policy that chooses among arms.
    """
    _checks.an(policy, RoundPolicy, name="policy", pass_="GPBandit(contexts=..., arms=..., ...)")
    menu: Menu | None = getattr(policy, "menu", None)
    if menu is None:
        raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
    return menu
