"""Kinds of release by name, and the rule that chooses one from public arguments."""

from collections.abc import Callable
from typing import Any

from dpbandits import domains
from dpbandits.central.cells import CellRelease
from dpbandits.central.feature_release import FeatureRelease
from dpbandits.central.kinds import Kind, Setup
from dpbandits.central.marginals.action_release import ActionRelease
from dpbandits.central.marginals.product_release import ProductRelease
from dpbandits.central.marginals.release import MarginalRelease
from dpbandits.central.tuning import KindName
from dpbandits.models.marginals import tables_hold
from dpbandits.tables import Products

__all__ = ["KINDS", "kind_for"]


def _marginals(setup: Setup) -> MarginalRelease:
    if isinstance(setup.actions, Products):
        return ProductRelease(setup)
    return MarginalRelease(setup) if setup.actions is None else ActionRelease(setup)


KINDS: dict[KindName, Callable[[Setup], Kind[Any, Any]]] = {
    "features": FeatureRelease,
    "cells": CellRelease,
    "marginals": _marginals,
}
"""Kinds of release by their names in `GPTuning.release`."""


CELL_BOXES = ((4, 1e-6, 3.0, 3_000), (4, 1e-3, 1.0, 3_000), (4, 1e-6, 1.0, 10_000), (6, 1e-6, 1.0, 3_000))
"""Limits within which cells are chosen by default: columns, delta, epsilon over `rounds_per_user`, rounds.

Within each of these limits cells lost less reward than features, on families of functions that are used only
for tuning (`reproduction/studies/releases.py --group rule`; see the page on releases). There the candidates
had the law that the policy assumes.
"""

UNKNOWN_HORIZON = 10_000
"""Horizon that the default rule assumes if it is unknown; features need more noise for an unknown horizon."""


def kind_for(setup: Setup) -> KindName:
    """Return the default kind of release: a rule that uses public arguments only.

    | decision sets | kind |
    |---|---|
    | contexts and `actions`, or arms with features | marginals |
    | candidates, or none (the whole domain is offered), and delta is 0 | cells: the only pure kind for them |
    | any, with arguments that only features use | features |
    | contexts and arms without a kernel, and delta is 0 or `tables_hold` most columns | marginals |
    | candidates of a declared public law, or none, within `CELL_BOXES` | cells if no account pays |
    | any other | features |

    Cells assume a law of candidates and cannot correct for a wrong one, so they need a declared law. With an
    account features are chosen instead: most accounts add up zCDP, in which pure epsilon costs many times
    more.
    """
    if setup.actions is not None:
        return "marginals"
    tuning, privacy, people = setup.tuning, setup.privacy, setup.menu is not None
    pure, columns = privacy.delta == 0.0, setup.domain.dim
    if not people and pure:
        return "cells"
    of_features = (tuning.features, tuning.n_features, tuning.factor, tuning.prior_variance)
    asked = any(given is not None for given in of_features)
    asked = asked or (people and tuning.public_decision_sets is not None)
    if asked or tuning.decision_sets == "public":
        return "features"
    if setup.menu is not None:
        held = pure or tables_hold(setup.menu.contexts.domain)
        return "marginals" if setup.kernel is None and held else "features"
    numbers = (
        columns,
        privacy.delta,
        privacy.epsilon / privacy.rounds_per_user,
        setup.horizon or UNKNOWN_HORIZON,
    )
    cells = tuning.public_decision_sets is not None
    cells &= any(all(own <= most for own, most in zip(numbers, box, strict=True)) for box in CELL_BOXES)
    return "cells" if cells and isinstance(setup.domain, domains.Box) and not setup.charged else "features"
