"""Every class that a user builds, with arguments that it takes, for hostile values to take their places."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits import domains
from dpbandits.central import (
    Control,
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
    LoggedTable,
    Readout,
    Stop,
)
from dpbandits.central.published import USCA, Dubey2021, Dubey2021Tuning
from dpbandits.distributed import DistributedSpec, DistributedTuning
from dpbandits.lab.baselines import (
    ArmEpisodes,
    BlockAggregation,
    CellHistogram,
    ConstantArm,
    CrudeTuning,
    DistributedCrowd,
    ExactGPUCB,
    FeatureGPUCB,
    GPUCBTuning,
    LinearTree,
    LocalCrowd,
    OpenExploreThenCommit,
    PrivateRidge,
    Uniform,
)
from dpbandits.lab.evaluation import SimulatedSource
from dpbandits.lab.worlds.contextual import world
from dpbandits.lab.worlds.transfer import SourceWorld
from dpbandits.local import (
    GPSpec,
    GPSpecTuning,
    PublishedArms,
    PublishedWeights,
    ReadoutSpec,
    ReportCounts,
    Robust,
    SourceClient,
    SourceSpec,
    Spec,
    SpecTuning,
)
from dpbandits.local.learners import EliminationConstants, SmoothTreeConstants, TransferTree, TreeConstants
from dpbandits.models import kernels, measures
from dpbandits.models.features import ArmFeatures, MercerFeatures, SectionFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.outsourced import Modeler, PublicScaling, PublishedRows
from dpbandits.policy import PublicCoins
from dpbandits.privacy import (
    DistributedDP,
    GaussianDP,
    GramVectorMechanism,
    JointDP,
    LocalDP,
    NearGaussianDP,
    PureDP,
    RowDP,
    SecureNoise,
    SimulatedNoise,
    ZeroConcentratedDP,
)
from dpbandits.privacy.prefix_sums import BinaryTree, BlockRelease, Factor, TreeRelease, identity
from dpbandits.privacy.reports import (
    HadamardResponse,
    OneHotLaplace,
    OptimalUnary,
    PaperLaplace,
    RandomisedResponse,
    SignedTernary,
)
from dpbandits.privacy.rows import (
    AnswerLaplace,
    CellLaw,
    CellResponse,
    GaussianLaw,
    GaussianRows,
    L2Laplace,
    L2LaplaceLaw,
)
from dpbandits.tables.menu import Menu
from flat import spec_with

__all__ = ["CASES", "Case"]

BOX = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
KERNEL = kernels.SquaredExponential(lengthscale=0.5)
MERCER = MercerFeatures(kernel=KERNEL, domain=BOX, n_features=3, n_landmarks=8)
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
SIMULATED = SimulatedNoise(0)
ROWS = RowDP(epsilon=1.0, delta=1e-6, distance=1.0)
POLICY = {"domain": BOX, "reward_range": (0.0, 1.0), "horizon": 16, "seed": 0}
PRIVATE = {**POLICY, "privacy": JointDP(epsilon=1.0, delta=1e-6), "noise": SIMULATED}
TARGET = spec_with(contexts=BOX, arms=range(3), privacy=LocalDP(epsilon=1.0), learner="tree", max_leaves=64)
SOURCE = SourceSpec(target=TARGET, name="past", n_users=1000, privacy=LocalDP(epsilon=2.0))
CELLS = measures.CellMeasure.uniform(low=0.0, high=1.0, cells=3)
LEARNED = {
    "kernel": kernels.SquaredExponential(lengthscale=0.5),
    "actions": CELLS,
    "contexts": CELLS,
    "reward_range": (0.0, 1.0),
    "privacy": JointDP(epsilon=1.0),
    "noise": SIMULATED,
}


@dataclass(frozen=True)
class Case:
    """A constructor and keyword arguments that it takes.

    Args:
        build: takes the arguments by name.
        arguments: good ones.
    """

    build: Callable[..., object]
    arguments: dict[str, Any]


def _mechanism(kind: Callable[..., object]) -> Case:
    return Case(kind, {"n_cells": 5, "epsilon": 1.0})


CASES: dict[str, Case] = {
    "Arms": Case(domains.Arms, {"n_or_names": 3}),
    "Ball": Case(domains.Ball, {"centre": [0.0, 0.0], "radius": 1.0}),
    "Box": Case(domains.Box, {"low": [0.0], "high": [1.0]}),
    "Finite": Case(domains.Finite, {"points": [[0.0], [1.0]]}),
    "Range": Case(dpb.Range, {"low": 0.0, "high": 1.0}),
    "Products": Case(
        dpb.Products,
        {
            "table": {"product": ["a", "b", "c"], "price": [1.0, 2.0, 3.0]},
            "columns": dpb.Schema(price=dpb.Range(1, 5)),
            "name": "product",
        },
    ),
    "Actions": Case(dpb.Actions, {"schema": dpb.Schema(price=dpb.Range(1, 5, steps=5))}),
    "Categories": Case(dpb.Categories, {"values": ["a", "b"]}),
    "Ordered": Case(dpb.Ordered, {"values": [5, 10, 20]}),
    "DateRange": Case(dpb.DateRange, {"first": "2024-01-01", "last": "2024-12-31"}),
    "Cycle": Case(dpb.Cycle, {"period": 24.0}),
    "RewardRange": Case(dpb.RewardRange, {"low": 0.0, "high": 1.0}),
    "SquaredExponential": Case(kernels.SquaredExponential, {"lengthscale": 0.5, "columns": (0, 1)}),
    "Matern": Case(kernels.Matern, {"nu": 1.5, "lengthscale": 0.5, "columns": (0, 1)}),
    "Indicator": Case(kernels.Indicator, {"columns": (0,), "correlation": 0.1}),
    "ScaledKernel": Case(kernels.ScaledKernel, {"kernel": KERNEL, "variance": 2.0}),
    "MercerFeatures": Case(
        MercerFeatures, {"kernel": KERNEL, "domain": BOX, "n_features": 3, "n_landmarks": 8, "seed": 0}
    ),
    "SectionFeatures": Case(
        SectionFeatures,
        {"kernel": KERNEL, "landmarks": np.eye(2), "projection": np.eye(2), "scale": 0.5},
    ),
    "ArmFeatures": Case(ArmFeatures, {"base": MERCER, "arm_column": 2, "n_arms": 2}),
    "QuadratureFourierFeatures": Case(QuadratureFourierFeatures, {"kernel": KERNEL, "dim": 2, "nodes": 3}),
    "DyadicPartition": Case(DyadicPartition, {"dim": 2, "seed": 0, "splits": (0, 1)}),
    "JointDP": Case(JointDP, {"epsilon": 1.0, "delta": 1e-6, "rounds_per_user": 1}),
    "LocalDP": Case(LocalDP, {"epsilon": 1.0}),
    "DistributedDP": Case(DistributedDP, {"epsilon": 1.0, "reports_per_user": 2}),
    "RowDP": Case(RowDP, {"epsilon": 1.0, "delta": 1e-6, "distance": 1.0, "rows_per_user": 2}),
    "GaussianDP": Case(GaussianDP, {"mu": 0.5}),
    "PureDP": Case(PureDP, {"epsilon": 0.5}),
    "ZeroConcentratedDP": Case(ZeroConcentratedDP, {"rho": 0.5}),
    "NearGaussianDP": Case(NearGaussianDP, {"mu": 0.5, "distance": 1e-9}),
    "SimulatedNoise": Case(SimulatedNoise, {"seed": 0, "position": 0}),
    "SecureNoise": Case(SecureNoise, {}),
    "GramVectorMechanism": Case(
        GramVectorMechanism, {"n_features": 3, "supports": ((0, 3),), "ratio": 2.0, "rounds_per_user": 1}
    ),
    "Factor": Case(Factor, {"matrix": np.eye(2)}),
    "BinaryTree": Case(BinaryTree, {"n_blocks": 8}),
    "BlockRelease": Case(
        BlockRelease,
        {
            "factor": identity(2),
            "mechanism": GramVectorMechanism(n_features=2),
            "noise": SIMULATED,
            "epsilon": 1.0,
            "delta": 1e-6,
            "max_rounds": 64,
        },
    ),
    "TreeRelease": Case(
        TreeRelease,
        {
            "tree": BinaryTree(8),
            "mechanism": GramVectorMechanism(n_features=2),
            "noise": SIMULATED,
            "epsilon": 1.0,
            "delta": 1e-6,
        },
    ),
    "HadamardResponse": _mechanism(HadamardResponse),
    "OneHotLaplace": _mechanism(OneHotLaplace),
    "OptimalUnary": _mechanism(OptimalUnary),
    "PaperLaplace": _mechanism(PaperLaplace),
    "RandomisedResponse": _mechanism(RandomisedResponse),
    "SignedTernary": _mechanism(SignedTernary),
    "AnswerLaplace": Case(AnswerLaplace, {"epsilon": 1.0, "distance": 0.5, "low": 0.0, "high": 1.0}),
    "GaussianLaw": Case(GaussianLaw, {"dim": 2, "deviation": 0.5}),
    "L2LaplaceLaw": Case(L2LaplaceLaw, {"dim": 2, "scale": 0.5}),
    "CellLaw": Case(CellLaw, {"dim": 2, "keep": 0.9, "width": 0.5, "half_width": 1.0}),
    "GaussianRows": Case(GaussianRows, {"definition": ROWS, "dim": 2, "noise": SIMULATED}),
    "L2Laplace": Case(L2Laplace, {"definition": RowDP(epsilon=1.0, distance=1.0), "dim": 2}),
    "CellResponse": Case(
        CellResponse, {"definition": RowDP(epsilon=8.0, distance=50.0), "dim": 2, "half_width": 1.0}
    ),
    "PublicCoins": Case(PublicCoins, {"seed": 0}),
    "GPBandit of people": Case(
        GPBandit,
        {name: value for name, value in PRIVATE.items() if name != "domain"}
        | {"contexts": PEOPLE, "arms": ["mail", "call"], "tuning": GPTuning(n_features=2, blocks=[4, 8])},
    ),
    "Menu": Case(Menu, {"contexts": PEOPLE, "arms": ["mail", "call"]}),
    "GPBandit": Case(
        GPBandit,
        {
            **PRIVATE,
            "tuning": GPTuning(
                features=MERCER,
                blocks=[4, 8],
                reporting_delay=1,
                public_decision_sets=np.full((2, 3, 2), 0.5),
            ),
        },
    ),
    "Control": Case(Control, {"arm": "mail", "share": 0.2}),
    "Stop": Case(Stop, {"harm": "reward", "above": 0.1, "then": "control"}),
    "Readout": Case(
        Readout,
        {
            "control": Control(arm="mail"),
            "metrics": {"complaint": bool, "revenue": (0.0, 10.0)},
            "weights": {"revenue": 0.5},
            "looks": 2,
            "share": 0.1,
            "minimum": {"mail": 0.1},
            "stop": Stop(harm="complaint"),
        },
    ),
    "GPTuning": Case(
        lambda **own: GPBandit(**PRIVATE, kernel=KERNEL, tuning=GPTuning(**own)),
        {
            "n_features": 4,
            "decision_sets": "private",
            "blocks": [4, 8],
            "reporting_delay": 1,
            "prior_variance": 0.2,
            "thompson_scale": 0.25,
            "public_decision_sets": np.full((2, 3, 2), 0.5),
        },
    ),
    "ExploreTuning": Case(
        lambda **own: ExploreThenCommit(**LEARNED, horizon=100_000, tuning=ExploreTuning(**own)),
        {
            "release": "features",
            "publish_epsilon": 0.0,
            "answer_epsilon": 0.1,
            "reference": 0.5,
            "bound": 1.0,
            "ridge": 10.0,
            "tolerance": 1e-6,
        },
    ),
    "Dubey2021": Case(Dubey2021, {**PRIVATE, "features": MERCER, "tuning": Dubey2021Tuning()}),
    "LinearTree": Case(LinearTree, {**PRIVATE, "tuning": Dubey2021Tuning()}),
    "Dubey2021Tuning": Case(
        Dubey2021Tuning, {"norm_bound": 1.0, "failure_probability": 0.1, "spectral_bound": "sharp"}
    ),
    "CrudeTuning": Case(
        lambda **own: PrivateRidge(**PRIVATE, tuning=CrudeTuning(**own)),
        {"blocks": [4, 8]},
    ),
    "GPUCBTuning": Case(
        lambda **own: FeatureGPUCB(**POLICY, kernel=KERNEL, tuning=GPUCBTuning(**own)),
        {"n_features": 4, "ucb_weight": 0.5, "prior_variance": 1.0, "noise_variance": 0.2},
    ),
    "USCA": Case(USCA, {**LEARNED, "horizon": 20, "ridge": 1.0, "seed": 0}),
    "ExploreThenCommit": Case(ExploreThenCommit, {**LEARNED, "horizon": 100_000}),
    "Uniform": Case(Uniform, POLICY),
    "PrivateRidge": Case(PrivateRidge, PRIVATE),
    "CellHistogram": Case(CellHistogram, {**PRIVATE, "tuning": CrudeTuning(blocks=[4, 8]), "most_cells": 8}),
    "BlockAggregation": Case(
        BlockAggregation,
        {
            **PRIVATE,
            "noise": SimulatedNoise(0),
            "noises": 2,
            "tuning": GPTuning(features=MERCER, blocks=[4, 8]),
        },
    ),
    "ArmEpisodes": Case(ArmEpisodes, {**PRIVATE, "index": "imed"}),
    "ConstantArm": Case(
        ConstantArm, {"arm": 1, "domain": domains.Arms(3), "reward_range": (0.0, 1.0), "horizon": 8}
    ),
    "FeatureGPUCB": Case(FeatureGPUCB, {**POLICY, "features": MERCER}),
    "ExactGPUCB": Case(ExactGPUCB, {**POLICY, "kernel": KERNEL}),
    "LocalCrowd": Case(
        LocalCrowd,
        {
            "spec": Spec(contexts=PEOPLE, arms=["mail", "call"], privacy=LocalDP(epsilon=1.0)),
            "horizon": 8,
            "seed": 0,
        },
    ),
    "DistributedCrowd": Case(
        DistributedCrowd,
        {
            "spec": DistributedSpec(
                contexts=PEOPLE, arms=["mail", "call"], privacy=DistributedDP(epsilon=1.0), horizon=100
            ),
            "horizon": 8,
            "seed": 0,
        },
    ),
    "OpenExploreThenCommit": Case(OpenExploreThenCommit, {**LEARNED, "horizon": 100_000}),
    "Spec": Case(
        Spec,
        {
            "contexts": BOX,
            "arms": range(3),
            "privacy": LocalDP(epsilon=1.0),
            "reward_range": (0.0, 1.0),
            "learner": "tree",
            "chooser": "server",
            "n_users": 1000,
            "seed": 0,
        },
    ),
    "DistributedSpec": Case(
        DistributedSpec,
        {
            "contexts": PEOPLE,
            "arms": ["mail", "call"],
            "privacy": DistributedDP(epsilon=1.0),
            "horizon": 1000,
            "reward_range": (0.0, 1.0),
            "seed": 0,
        },
    ),
    "DistributedTuning": Case(
        lambda **own: DistributedSpec(
            contexts=PEOPLE,
            arms=["mail", "call"],
            privacy=DistributedDP(epsilon=1.0),
            horizon=1000,
            tuning=DistributedTuning(**own),
        ),
        {"cells": 64, "first": 0.02, "growth": 1.5, "temperature": 0.3, "min_batch": 1},
    ),
    "SpecTuning": Case(
        lambda **own: Spec(
            contexts=BOX, arms=range(3), privacy=LocalDP(epsilon=1.0), tuning=SpecTuning(**own)
        ),
        {
            "mechanism": "auto",
            "reports_per_version": 100,
            "window": 8,
            "max_leaves": 64,
            "constants": {},
        },
    ),
    "GPSpec": Case(
        GPSpec,
        {
            "domain": BOX,
            "features": MERCER,
            "reward_range": (0.0, 1.0),
            "privacy": JointDP(epsilon=1.0, delta=1e-6),
            "seed": 0,
            "learner": "weights",
        },
    ),
    "GPSpecTuning": Case(
        lambda **own: GPSpec(
            domain=BOX,
            features=MERCER,
            reward_range=(0.0, 1.0),
            privacy=JointDP(epsilon=1.0, delta=1e-6),
            tuning=GPSpecTuning(**own),
        ),
        {"prior_variance": 0.2, "thompson_scale": 0.25, "n_candidates": 25, "constants": {}},
    ),
    "PublishedWeights": Case(
        PublishedWeights, {"version": 1, "mean": np.zeros(2), "factor": np.eye(2), "radius": 1.0}
    ),
    "Robust": Case(Robust, {"secret": bytes(32), "groups": 3, "surprise": 2.5}),
    "ReadoutSpec": Case(
        ReadoutSpec,
        {
            "target": TARGET,
            "policy": PublishedArms(version=0, splits=(), arms=np.zeros(1, dtype=np.int64)),
            "control": 0,
            "privacy": LocalDP(epsilon=2.0),
            "n_users": 1000,
            "share": 0.5,
            "reward_range": (0.0, 1.0),
            "missing": 0.0,
            "seed": 0,
        },
    ),
    "SourceSpec": Case(
        SourceSpec,
        {
            "target": TARGET,
            "name": "past",
            "n_users": 1000,
            "privacy": LocalDP(epsilon=2.0),
            "chooser": "behaviour",
            "propensities": (0.2, 0.3, 0.5),
            "looks": False,
            "depth": 2,
            "mechanism": "auto",
            "reports_per_version": 100,
        },
    ),
    "SourceClient": Case(
        SourceClient,
        {
            "spec": SOURCE.reports,
            "privacy": SOURCE.privacy,
            "budget": 4.0,
            "account": dpb.MemoryLedger().account("a"),
        },
    ),
    "SimulatedSource": Case(
        SimulatedSource,
        {
            "people": SourceWorld(world=world("ma")),
            "n_users": 100,
            "epsilon": 2.0,
            "chooser": "behaviour",
            "depth": 2,
            "start": 0,
            "span": 0,
        },
    ),
    "SourceWorld": Case(
        SourceWorld,
        {"world": world("ma"), "gamma": 1.0, "kappa": 0.5, "behaviour": "even", "shifted": False},
    ),
    "ReportCounts": Case(ReportCounts, {"spec": TARGET, "published": []}),
    "TransferTree": Case(TransferTree, {"partition": DyadicPartition(dim=2), "n_arms": 3, "max_leaves": 64}),
    "SmoothTreeConstants": Case(SmoothTreeConstants, {}),
    "TreeConstants": Case(TreeConstants, {"prior_sd": 0.3}),
    "EliminationConstants": Case(EliminationConstants, {"z": 1.0}),
    "PublicScaling": Case(PublicScaling, {"schema": dpb.Schema(a=dpb.Range(0, 1), b=dpb.Range(0, 1))}),
    "LoggedTable": Case(
        LoggedTable.of_people,
        {
            "table": {
                "age": [30, 40],
                "region": ["north", "south"],
                "offer": ["a", "b"],
                "paid": [0, 1],
                "who": ["x", "y"],
                "chance": [0.5, 0.5],
            },
            "contexts": PEOPLE,
            "arms": ["a", "b"],
            "action": "offer",
            "reward": "paid",
            "reward_range": (0.0, 1.0),
            "propensity": "chance",
            "user": "who",
            "lengthscale": 0.3,
            "clip": False,
        },
    ),
    "PublishedRows": Case(PublishedRows.public, {"inputs": np.zeros((3, 2)), "half_width": 25.0, "cap": 2}),
    "Modeler": Case(
        Modeler,
        {
            "published": PublishedRows.public(np.zeros((3, 2)), half_width=25.0),
            "kernel": KERNEL,
            "horizon": 2,
            "mean": 0.0,
            "noise_sd": 0.1,
            "posterior": "auto",
            "exploration": 1.0,
            "maximise": True,
            "per_column": None,
            "seed": 0,
        },
    ),
}
