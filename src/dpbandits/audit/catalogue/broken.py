"""Audits of claims that are known to be false. Every lower bound must exceed its claim."""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.low_bits import naive_gaussian, naive_laplace, off_grid, system_generator
from dpbandits.audit.attacks.po_gp_ucb import distinguish_by_column_space
from dpbandits.audit.catalogue.central import dubey, predictions_after
from dpbandits.audit.catalogue.mechanisms import tree_nodes
from dpbandits.audit.catalogue.parts import DELTA, Entries, PreparedNoise, crowded, listed, lived, lives
from dpbandits.audit.claims import CERTAIN, Draw, GaussianAudit, SampledAudit
from dpbandits.audit.scores import first_column, fit_linear
from dpbandits.central.published.printed import printed_scale
from dpbandits.outsourced.published.kharkovskii2020 import PublishedTransform
from dpbandits.privacy.prefix_sums import BinaryTree

__all__ = ["ENTRIES", "own_bin_noise"]

ENTRIES: Entries = {}

_PAPER_DELTA = 1e-5
"""Delta in the experiments of Dubey2021."""

_TREE_ROUNDS = 4
_LEVELS = BinaryTree(_TREE_ROUNDS).levels

_broken = partial(listed, ENTRIES, known_broken=True)
_lived = partial(lived, ENTRIES, known_broken=True)
_seen = partial(_broken, kind=SampledAudit, score=first_column)


@_seen(
    "broken-po-gp-ucb",
    delta=_PAPER_DELTA,
    sees="the published transformation of a table",
    neighbours="one of 12 rows moved by 1",
    share=0.1,
    caught_from=CERTAIN,
)
def _transform(epsilon: float, seed: int) -> Draw:
    table = np.random.Generator(np.random.Philox(seed)).uniform(-10.0, 10.0, (12, 2))
    tables = [table, table + np.eye(12)[:, :1] * np.array([1.0, 0.0])]  # one row moves by 1

    def accepted(world: int) -> bool:
        drawn = int(system_generator().integers(1 << 62))
        transform = PublishedTransform(
            epsilon=epsilon, delta=_PAPER_DELTA, seed=drawn, acknowledge_broken=True
        )
        return distinguish_by_column_space(transform.publish(tables[world]), tables[1])

    return lives(accepted)


def own_bin_noise(cell: int, *, n_cells: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Return the sums U and V that a user with reward 1 reports, shape (n_cells, 2), by Ma2025's public code.

    BROKEN at any epsilon: only the user's own cell has noise.
    """
    report = np.zeros((n_cells, 2))
    report[cell] = 1.0 + rng.laplace(scale=4.0 / epsilon, size=2)
    return report


@_seen(
    "broken-own-bin-noise",
    sees="whether the first bin's sums are exactly zero",
    neighbours="a user of the first or of the second bin",
    caught_from=CERTAIN,
)
def _own_bin(epsilon: float, seed: int) -> Draw:
    rng = system_generator()
    return lives(lambda world: (own_bin_noise(world, n_cells=8, epsilon=epsilon, rng=rng)[0] == 0.0).all())


def _lemma_12_tree(claim: float, caught_from: int) -> None:
    @crowded(
        ENTRIES,
        f"broken-dubey2021-lemma-12-tree-{claim:g}",
        GaussianAudit,
        known_broken=True,
        caught_from=caught_from,
        epsilon=claim,
        delta=_PAPER_DELTA,
        sees=f"the {_LEVELS} nodes that a user of {_TREE_ROUNDS} rounds enters",
        neighbours="one user's feature vector turned around",
    )
    def nodes(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
        scale = printed_scale("lemma-12", levels=_LEVELS, epsilon=claim, delta=_PAPER_DELTA)
        return tree_nodes(claim, noise, world, rounds=_TREE_ROUNDS, delta=_PAPER_DELTA, sigma_override=scale)


def _lemma_12_policy(claim: float, caught_from: int, *, share: float) -> None:
    @_lived(
        f"broken-dubey2021-lemma-12-policy-{claim:g}",
        SampledAudit,
        caught_from=caught_from,
        epsilon=claim,
        delta=_PAPER_DELTA,
        scope="policy",
        sees="the policy's prediction after one user, of two rounds",
        neighbours="that user's decision set turned around, reward 1",
        fit=fit_linear,
        share=share,
    )
    def predictions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
        claimed = {"paper_constants": "lemma-12", "acknowledge_broken": True}
        return predictions_after(dubey(claim, seed, noise, 2, delta=_PAPER_DELTA, **claimed), world, nodes=1)


def _float_noise(name: str, delta: float, add: Callable[..., FloatArray], caught_from: int) -> None:
    @_seen(
        name,
        delta=delta,
        caught_from=caught_from,
        sees="the lowest set bit of one number with float noise",
        neighbours="numbers 0 and 1",
    )
    def bits(epsilon: float, seed: int) -> Draw:
        return lambda world, n: off_grid(add(np.full(n, float(world)), epsilon=epsilon))


# The numbers of samples come from benchmarks/audit_samples.py.
_lemma_12_tree(0.05, caught_from=19_000)
_lemma_12_tree(0.02, caught_from=390)
_lemma_12_policy(0.02, caught_from=61_000, share=0.03)
_lemma_12_policy(0.01, caught_from=7_700, share=0.015)
_float_noise("broken-float-laplace", 0.0, naive_laplace, caught_from=440)
_float_noise("broken-float-gaussian", DELTA, partial(naive_gaussian, delta=DELTA), caught_from=2_000)
