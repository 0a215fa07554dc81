"""The table of learners that a spec can name, and the warning about coarse bins."""

import warnings
from collections.abc import Mapping
from typing import Any

from dpbandits._calls import caller_level
from dpbandits.domains import Arms, Box
from dpbandits.errors import DPBanditsWarning, InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec
from dpbandits.local.contract.readout import ReadoutSpec
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.columns import ColumnLearner
from dpbandits.local.learners.elimination import EliminationRule
from dpbandits.local.learners.explore import ExploreRule, FixedPolicy
from dpbandits.local.learners.questions import QuestionLearner
from dpbandits.local.learners.smooth import SmoothTreeRule
from dpbandits.local.learners.transfer import TransferTree
from dpbandits.local.learners.weights import WeightLearner
from dpbandits.local.published.dubey2021_local import Dubey2021Weights
from dpbandits.local.published.ma2025 import Ma2025Rule
from dpbandits.local.published.ma2025_variant import Ma2025VariantRule

__all__ = ["LEARNERS", "CoarseBins", "learner_for"]


class CoarseBins(DPBanditsWarning):
    """Warning that a spec has more columns or categories than its bins can separate."""


LEARNERS: Mapping[str, Any] = {
    "questions": QuestionLearner,
    "smooth": SmoothTreeRule,
    "tree": TransferTree,
    "eliminate": EliminationRule,
    "ma2025": Ma2025VariantRule,
    "ma2025-printed": Ma2025Rule,
    "explore": ExploreRule,
    "weights": WeightLearner,
    "dubey2021": Dubey2021Weights,
}
"""Learners by name: first those for grids, then those for bins, last those for Gaussian processes."""


def learner_for(spec: Spec | GPSpec | ReadoutSpec) -> Any:
    """Return a fresh `Learner` for the spec. That of a readout learns nothing.

    Raises:
        InvalidParameter: the spec's constants are not those of its learner.

    Warns:
        CoarseBins: the bins cannot separate all columns of the contexts.
    """
    if isinstance(spec, ReadoutSpec):
        return FixedPolicy()
    if isinstance(spec, Spec) and not spec.protocol.asks:
        _warn_if_coarse(spec)
    try:
        if isinstance(spec, Spec) and spec.protocol.asks and spec.protocol.grids.names_columns:
            return ColumnLearner.of(spec)
        return LEARNERS[spec.learner].of(spec)
    except TypeError:
        raise InvalidParameter(f"constants: some are not constants of the learner {spec.learner!r}") from None


def _warn_if_coarse(spec: Spec) -> None:
    """Warn if the bins are too few to halve each range and to separate all categories."""
    if isinstance(spec.contexts, Box):
        return
    parts = spec.contexts.domain.parts
    halvings = sum((part.n_arms - 1).bit_length() if isinstance(part, Arms) else part.dim for part in parts)
    if halvings >= spec.tuning.max_leaves.bit_length():
        warnings.warn(
            f"contexts: {spec.dim} columns need 2^{halvings} bins to be separated, and there are at most "
            f"{spec.tuning.max_leaves}. Bins are halved along the columns in their order, so the "
            "last columns have little or no effect: put the most important columns first, leave others out, "
            "or merge categories",
            CoarseBins,
            stacklevel=caller_level(),
        )
