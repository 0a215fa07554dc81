"""Several simulated targets that are sources for each other."""

from collections.abc import Sequence

import numpy as np

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import Crowd, CrowdWorld, SimulationResult
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.table import learner_for
from dpbandits.local.learners.transfer import TransferTree

__all__ = ["simulate_tasks"]


def simulate_tasks(
    specs: Sequence[Spec],
    worlds: Sequence[CrowdWorld],
    *,
    n_users: Sequence[int],
    seed: int,
    share: bool = True,
) -> list[SimulationResult]:
    """Several targets with the same mean rewards at once, each a source for the others.

    Args:
        specs: one a target, learner `tree`, same dim and n_arms.
        worlds: one a target: contexts may differ, mean rewards should not.
        n_users: one a target; crowds of different size end together.
        seed: everything random; target i uses (seed, i).
        share: tell each target what the others' reports say. False: everyone learns alone.

    Raises:
        InvalidParameter: the lists differ in length, or a learner is not `tree`.
    """
    if not len(specs) == len(worlds) == len(n_users):
        raise InvalidParameter("expected one spec, one world and one number of users a target")
    crowds, trees = [], []
    for index, (spec, world, n) in enumerate(zip(specs, worlds, n_users, strict=True)):
        tree = learner_for(spec)
        if not isinstance(tree, TransferTree):
            raise InvalidParameter("learner: only targets with the learner 'tree' share")
        trees.append(tree)
        crowds.append(Crowd(spec, world, n_users=n, seed=seed * len(specs) + index, rule=trees[-1]))
    while any(crowd.running for crowd in crowds):
        pairs = zip(crowds, n_users, strict=True)
        turn = int(np.argmin([crowd.seen / n if crowd.running else np.inf for crowd, n in pairs]))
        if share and crowds[turn].seen:
            for index, other in enumerate(trees):
                if index != turn and crowds[index].seen:
                    trees[turn].attach(f"target {index}", other.evidence())
        crowds[turn].step()
    return [crowd.result() for crowd in crowds]
