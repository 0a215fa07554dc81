"""Baselines to which private policies are compared, with the same `Policy` protocol.

- `Uniform`: chooses a random available row; the lower end of any comparison.
- `ConstantArm`: always chooses the same row. A contextual policy must beat the best such row.
- `PrivateRidge`: a simple private ridge regression, which a private method must beat.
- `CellHistogram`: a simple private histogram over a grid of cells, with pure epsilon.
- `ArmEpisodes`: DP-IMED and DP-KLUCB, for arms without contexts, with pure epsilon.
- `BlockAggregation`: `GPBandit` with fresh noise in every block, which simulates secure aggregation.
- `LinearTree`: LinUCB with a binary tree of noisy sums (Shariff and Sheffet 2018).
- `FeatureGPUCB`: GP-UCB without privacy on the features of the private policies.
- `ExactGPUCB`: GP-UCB without privacy on the kernel.
- `LocalCrowd`: a simulated local policy behind the calls of a central one.
- `DistributedCrowd`: a simulated distributed policy behind the same calls.
- `OpenExploreThenCommit`: explore-then-commit with almost no noise.
- `CrudeTuning`, `GPUCBTuning`: settings that most users leave at their defaults.

`lab.twin(policy)` builds the baseline of a policy.
"""

from dpbandits._lazy import lazy
from dpbandits.lab.baselines.arm_episodes import ArmEpisodes
from dpbandits.lab.baselines.block_aggregation import BlockAggregation
from dpbandits.lab.baselines.cell_histogram import CellHistogram
from dpbandits.lab.baselines.crude import CrudeTuning
from dpbandits.lab.baselines.distributed_crowd import DistributedCrowd
from dpbandits.lab.baselines.fixed import ConstantArm, Uniform
from dpbandits.lab.baselines.gp_ucb import ExactGPUCB, FeatureGPUCB, GPUCBTuning
from dpbandits.lab.baselines.linear_tree import LinearTree
from dpbandits.lab.baselines.local_crowd import LocalCrowd
from dpbandits.lab.baselines.open_explore import OpenExploreThenCommit
from dpbandits.lab.baselines.private_ridge import PrivateRidge

__all__ = [
    "ArmEpisodes",
    "BlockAggregation",
    "CellHistogram",
    "ConstantArm",
    "CrudeTuning",
    "DistributedCrowd",
    "ExactGPUCB",
    "FeatureGPUCB",
    "GPUCBTuning",
    "LinearTree",
    "LocalCrowd",
    "OpenExploreThenCommit",
    "PrivateRidge",
    "Uniform",
]

__getattr__, __dir__ = lazy(__name__)
