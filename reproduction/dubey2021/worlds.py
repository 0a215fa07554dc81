"""Worlds of Dubey2021's experiments, and the public features that policies learn with in each."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from dpbandits._typing import Seed
from dpbandits.domains import Box, Domain
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds import FunctionBandit, camelback
from dpbandits.models.features import Features, MercerFeatures
from dpbandits.models.features.additive import additive_features
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.kernels import SquaredExponential
from reproduction.dubey2021.gap_world import printed_world
from reproduction.dubey2021.table_functions import michalewicz_10, styblinski_tang_20

__all__ = ["TABLE_WORLDS", "WORLDS", "block_features", "tree_features", "world_of"]

WORLDS: dict[str, Callable[..., FunctionBandit]] = {
    "printed": printed_world,
    "camelback": camelback,
    "styblinski-tang-20": styblinski_tang_20,
    "michalewicz-10": michalewicz_10,
}
TABLE_WORLDS = ("camelback", "styblinski-tang-20", "michalewicz-10")

QFF_NODES = 8
"""m = 64 for the paper's features of the first figure's kernel."""

FEATURES_PER_COLUMN = 4
"""Features per column of block release in 10 and 20 dimensions: level, slope, curvature and one more."""

TREE_FEATURES = 64
"""m of the tree elsewhere; a tensor grid does not exist in ten dimensions."""


def world_of(name: str, seed: Seed) -> FunctionBandit:
    """The world `name` under a seed."""
    if name not in WORLDS:
        raise InvalidParameter(f"world {name!r}: expected one of {tuple(WORLDS)}")
    return _built(WORLDS[name], seed)


@lru_cache(maxsize=64)
def _built(world: Callable[..., FunctionBandit], seed: Seed) -> FunctionBandit:
    """Kept, with the rounds that it has drawn: every policy of a study meets the same ones."""
    return world(seed=seed)


@lru_cache(maxsize=16)
def block_features(name: str) -> Features:
    """Return the public features of block release and of the non-private policy."""
    domain = world_of(name, 0).domain
    if name == "printed":
        return _mercer(domain, lengthscale=1.0, n_features=20)
    if name == "camelback":
        return _mercer(domain, lengthscale=0.8, n_features=24)
    return additive_features(cast(Box, domain), lengthscale=0.3, per_column=FEATURES_PER_COLUMN)


@lru_cache(maxsize=16)
def tree_features(name: str) -> Features:
    """Return the features of the published policy: quadrature Fourier features if the paper's grid exists."""
    domain = world_of(name, 0).domain
    if name == "printed" or name == "camelback":
        kernel = SquaredExponential(lengthscale=0.8 if name == "camelback" else 1.0)
        return QuadratureFourierFeatures(kernel=kernel, dim=domain.dim, nodes=QFF_NODES)
    per_column = max(FEATURES_PER_COLUMN, TREE_FEATURES // domain.dim)
    return additive_features(cast(Box, domain), lengthscale=0.3, per_column=per_column)


def _mercer(domain: Domain, *, lengthscale: float, n_features: int) -> MercerFeatures:
    kernel = SquaredExponential(lengthscale=lengthscale)
    return MercerFeatures(kernel=kernel, domain=domain, n_features=n_features, n_landmarks=5 * n_features)
