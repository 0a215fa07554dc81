"""What private policies are compared with, behind the same `Policy` protocol.

- `Uniform`: a random available row; the floor.
- `ConstantArm`: always the same row; with the best one in hindsight, what contexts must beat.
- `PrivateRidge`: a crude private ridge, what a private method must beat.
- `CellHistogram`: a crude histogram over a grid of cells, at pure epsilon.
- `ArmEpisodes`: DP-IMED and DP-KLUCB, for arms without contexts, at pure epsilon.
- `BlockAggregation`: `GPBandit` with fresh noise in every block, as secure aggregation gives it.
- `LinearTree`: LinUCB with a binary tree of noisy sums (Shariff and Sheffet 2018).
- `FeatureGPUCB`: GP-UCB without privacy on the private policies' own features.
- `ExactGPUCB`: GP-UCB without privacy on the kernel.
- `CrudeTuning`, `GPUCBTuning`: what of them most people leave as it is.
- `LocalCrowd`: the local room, simulated, behind the same calls.
- `OpenExploreThenCommit`: explore-then-commit with as good as no noise.

`lab.twin(policy)` builds the one that goes with a policy.
"""

from dpbandits._lazy import lazy
from dpbandits.lab.baselines.arm_episodes import ArmEpisodes
from dpbandits.lab.baselines.block_aggregation import BlockAggregation
from dpbandits.lab.baselines.cell_histogram import CellHistogram
from dpbandits.lab.baselines.crude import CrudeTuning
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
