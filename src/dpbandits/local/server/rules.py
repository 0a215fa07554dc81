"""From a spec to its learning rule and its public draws, on the server."""

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import LearningRule
from dpbandits.local.learners.elimination import EliminationConstants, EliminationRule
from dpbandits.local.learners.explore import ExploreRule
from dpbandits.local.learners.smooth import SmoothTreeConstants, SmoothTreeRule
from dpbandits.local.learners.transfer import TransferTree
from dpbandits.local.learners.tree import TreeConstants
from dpbandits.local.published.ma2025 import Ma2025Constants, Ma2025Rule
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.policy.coins import PublicCoins

__all__ = ["public_normals", "rule_for"]


def rule_for(spec: Spec) -> LearningRule:
    """A fresh learning rule for the spec.

    Raises:
        InvalidParameter: the spec's constants are not those of its policy.
    """
    partition, n_arms, leaves = spec.partition(), spec.n_arms, spec.max_leaves
    given = dict(spec.constants)
    try:
        if spec.policy == "smooth":
            return SmoothTreeRule(
                partition=partition, n_arms=n_arms, max_leaves=leaves, constants=SmoothTreeConstants(**given)
            )
        if spec.policy == "tree":
            return TransferTree(
                partition=partition, n_arms=n_arms, max_leaves=leaves, constants=TreeConstants(**given)
            )
        if spec.policy == "eliminate":
            return EliminationRule(
                partition=partition, n_arms=n_arms, max_leaves=leaves, constants=EliminationConstants(**given)
            )
        if spec.policy == "explore":
            return ExploreRule(partition=partition, n_arms=n_arms, max_leaves=leaves, **_whole(given))
        return Ma2025Rule(
            partition=partition,
            n_arms=n_arms,
            max_leaves=leaves,
            constants=Ma2025Constants(n_users=spec.n_users or 1, epsilon=spec.epsilon, **given),
        )
    except TypeError:
        raise InvalidParameter(f"constants: some are not constants of the policy {spec.policy!r}") from None


def _whole(constants: dict[str, float]) -> dict[str, int]:
    """Constants that count something."""
    if any(value != int(value) for value in constants.values()):
        raise InvalidParameter("constants: the policy 'explore' takes an integer depth")
    return {name: int(value) for name, value in constants.items()}


def public_normals(coins: PublicCoins, version: int, partition: DyadicPartition, n_arms: int) -> FloatArray:
    """(L, K) normals of a version: a leaf's depend on (seed, version, node) only."""
    return coins.normal(f"arms/{version}", 0, partition.n_nodes, n_arms)[partition.leaves]
