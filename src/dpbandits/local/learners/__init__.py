"""Learners that compute published versions from counted reports, and their constants."""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.local.learners.columns import ColumnLearner
    from dpbandits.local.learners.elimination import EliminationConstants, EliminationRule
    from dpbandits.local.learners.explore import ExploreConstants, ExploreRule
    from dpbandits.local.learners.questions import QuestionConstants, QuestionLearner
    from dpbandits.local.learners.smooth import SmoothTreeConstants, SmoothTreeRule
    from dpbandits.local.learners.table import LEARNERS, learner_for
    from dpbandits.local.learners.transfer import TransferTree
    from dpbandits.local.learners.tree import TreeConstants, TreeRule
    from dpbandits.local.learners.weights import WeightLearner

__all__ = [
    "LEARNERS",
    "ColumnLearner",
    "EliminationConstants",
    "EliminationRule",
    "ExploreConstants",
    "ExploreRule",
    "QuestionConstants",
    "QuestionLearner",
    "SmoothTreeConstants",
    "SmoothTreeRule",
    "TransferTree",
    "TreeConstants",
    "TreeRule",
    "WeightLearner",
    "learner_for",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.local.learners.columns": ("ColumnLearner",),
        "dpbandits.local.learners.elimination": ("EliminationConstants", "EliminationRule"),
        "dpbandits.local.learners.explore": ("ExploreConstants", "ExploreRule"),
        "dpbandits.local.learners.questions": ("QuestionConstants", "QuestionLearner"),
        "dpbandits.local.learners.smooth": ("SmoothTreeConstants", "SmoothTreeRule"),
        "dpbandits.local.learners.table": ("LEARNERS", "learner_for"),
        "dpbandits.local.learners.transfer": ("TransferTree",),
        "dpbandits.local.learners.tree": ("TreeConstants", "TreeRule"),
        "dpbandits.local.learners.weights": ("WeightLearner",),
    },
)
