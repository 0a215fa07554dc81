"""What the learners that a spec can name are."""

from collections.abc import Mapping
from typing import Any

from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.elimination import EliminationRule
from dpbandits.local.learners.explore import ExploreRule
from dpbandits.local.learners.smooth import SmoothTreeRule
from dpbandits.local.learners.transfer import TransferTree
from dpbandits.local.learners.weights import WeightLearner
from dpbandits.local.published.dubey2021_local import Dubey2021Weights
from dpbandits.local.published.ma2025 import Ma2025Rule

__all__ = ["LEARNERS", "learner_for"]

LEARNERS: Mapping[str, Any] = {
    "smooth": SmoothTreeRule,
    "tree": TransferTree,
    "eliminate": EliminationRule,
    "ma2025": Ma2025Rule,
    "explore": ExploreRule,
    "weights": WeightLearner,
    "dubey2021": Dubey2021Weights,
}
"""Bins above, Gaussian processes below; `learner_for` makes one."""


def learner_for(spec: Spec | GPSpec) -> Any:
    """A fresh learner for the spec: a `Learner`.

    Raises:
        InvalidParameter: the spec's constants are not those of its learner.
    """
    try:
        return LEARNERS[spec.learner].of(spec)
    except TypeError:
        raise InvalidParameter(f"constants: some are not constants of the learner {spec.learner!r}") from None
