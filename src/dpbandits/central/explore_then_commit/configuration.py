"""What `ExploreThenCommit` and `PhasedExploreThenCommit` share: checks of public arguments,
configurations, saved states.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._checks import as_numbers
from dpbandits._reading import reading
from dpbandits._typing import FloatArray
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.sums import MOST_CELLS
from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import definitions
from dpbandits.privacy import noise as noise_sources

__all__ = ["arguments_of", "check_cells", "one_row", "reference_of"]


def check_cells(actions: CellMeasure, contexts: CellMeasure) -> None:
    """Refuse what is no measure, and more cells than integer sums are exact over."""
    if not isinstance(actions, CellMeasure):
        raise InvalidParameter(f"actions is a {type(actions).__name__}, expected a CellMeasure")
    cells = actions.size * contexts.size
    if cells > MOST_CELLS:
        raise InvalidParameter(f"{cells} cells: integer sums are exact up to {MOST_CELLS}; use coarser bins")


def reference_of(reference: float | None, span: RewardRange) -> tuple[float, float]:
    """Where rewards are counted from, by default the middle, and how far from there they can lie."""
    centre = span.middle if reference is None else float(reference)
    if not span.low <= centre <= span.high:
        raise InvalidParameter("reference: expected a reward inside the reward range")
    return centre, max(span.high - centre, centre - span.low)


def one_row(context: ArrayLike) -> FloatArray:
    """(1, d) one context (d,), or a number; its columns are checked where it is located.

    Raises:
        InvalidData: several contexts.
    """
    rows = np.atleast_2d(as_numbers(context, name="context"))
    if rows.ndim != 2 or len(rows) != 1:
        raise InvalidData(f"context: expected one, of shape (d,), got shape {rows.shape}")
    return rows


def arguments_of(config: Mapping[str, Any], policy: type[Any]) -> dict[str, Any]:
    """Constructor arguments that `to_config()` of an object of class `policy` described.

    Raises:
        InvalidParameter: the configuration of something else.
    """
    known = set(inspect.signature(policy.__init__).parameters)
    parsers = {
        "kernel": kernels.from_config,
        "actions": CellMeasure.from_config,
        "contexts": ContextLaw.from_config,
        "reward_range": RewardRange.from_config,
        "privacy": definitions.from_config,
        "noise": noise_sources.from_config,
    }
    with reading(f"a configuration of {policy.kind}"):
        arguments = dict(config)
        if arguments.pop("policy") != policy.kind or not set(parsers) <= set(arguments) <= known:
            raise InvalidParameter(f"config: expected the configuration of a {policy.kind}")
        return arguments | {name: parse(arguments[name]) for name, parse in parsers.items()}
