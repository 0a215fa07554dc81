"""Claims that are known to be false: every one must be exceeded."""

from collections.abc import Callable

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.kharkovskii2020 import distinguish_by_column_space
from dpbandits.audit.attacks.low_bits import naive_gaussian, naive_laplace, off_grid, system_generator
from dpbandits.audit.attacks.own_bin_noise import own_bin_noise
from dpbandits.audit.catalogue._shared import DELTA, Entry, LineFeatures, PreparedNoise, rows_of
from dpbandits.audit.claims import Audit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_linear, identity
from dpbandits.central.published import Dubey2021
from dpbandits.central.published.printed import printed_scale
from dpbandits.domains import Box
from dpbandits.outsourced.published.kharkovskii2020 import PublishedTransform
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.prefix_sums import BinaryTree, TreeRelease

__all__ = ["ENTRIES"]

_PAPER_DELTA = 1e-5
"""Dubey2021's."""

_TREE_ROUNDS = 4


def _transform(epsilon: float, seed: int) -> Audit:
    """Kharkovskii2020, Algorithm 1: the released columns lie in the column space of the centred table."""
    table = np.random.Generator(np.random.Philox(seed)).uniform(-10.0, 10.0, (12, 2))
    tables = [table, table + np.eye(12)[:, :1] * np.array([1.0, 0.0])]  # one row moves by 1

    def draw(world: int, n: int) -> FloatArray:
        seeds = system_generator().integers(1 << 62, size=n)
        return np.array([_accepts(tables[world], tables[1], epsilon, int(one)) for one in seeds])

    return SampledAudit(
        name="broken-po-gp-ucb",
        epsilon=epsilon,
        delta=_PAPER_DELTA,
        sees="the published transformation of a table",
        neighbours="one of 12 rows moved by 1",
        known_broken=True,
        draw=draw,
        score=identity,
        share=0.1,
    )


def _accepts(table: FloatArray, candidate: FloatArray, epsilon: float, seed: int) -> float:
    transform = PublishedTransform(epsilon=epsilon, delta=_PAPER_DELTA, seed=seed, acknowledge_broken=True)
    return float(distinguish_by_column_space(transform.release(table), candidate))


def _own_bin(epsilon: float, seed: int) -> Audit:
    """Ma2025's public code: noise for the bin that the user is in, and for no other."""

    def draw(world: int, n: int) -> FloatArray:
        rng = system_generator()
        reports = [own_bin_noise(world, n_cells=8, epsilon=epsilon, rng=rng) for _ in range(n)]
        return np.array([(report[0] == 0.0).all() for report in reports], dtype=np.float64)

    return SampledAudit(
        name="broken-own-bin-noise",
        epsilon=epsilon,
        sees="whether the first bin's sums are exactly zero",
        neighbours="a user of the first or of the second bin",
        known_broken=True,
        draw=draw,
        score=identity,
    )


def _lemma_12_tree(claim: float) -> Entry:
    """The printed scale on the tree's nodes, all of which the first user enters."""
    name = f"broken-dubey2021-lemma-12-tree-{claim:g}"

    def build(epsilon: float, seed: int) -> Audit:
        noise, tree = PreparedNoise(), BinaryTree(_TREE_ROUNDS)
        mechanism = GramVectorMechanism(n_features=1)
        release = TreeRelease(
            tree=tree,
            mechanism=mechanism,
            noise=noise,
            epsilon=claim,
            delta=_PAPER_DELTA,
            sigma_override=printed_scale("lemma-12", levels=tree.levels, epsilon=claim, delta=_PAPER_DELTA),
        )
        ends = [mechanism.encode(np.array([[phi]]), np.array([0.5])) for phi in (1.0, -1.0)]

        def draw(world: int, n: int) -> FloatArray:
            nodes = np.array([[release.release(ends[world]) for _ in range(tree.levels)] for _ in range(n)])
            return np.asarray(nodes[:, :, -1].sum(axis=1), dtype=np.float64)

        return GaussianAudit(
            name=name,
            epsilon=claim,
            delta=_PAPER_DELTA,
            sees=f"the {tree.levels} nodes that a user of {_TREE_ROUNDS} rounds enters",
            neighbours="one user's feature vector turned around",
            known_broken=True,
            draw=draw,
        )

    return name, build


def _lemma_12_policy(claim: float) -> Entry:
    """The same through the policy: what it predicts for others after the user came."""
    name = f"broken-dubey2021-lemma-12-policy-{claim:g}"

    def build(epsilon: float, seed: int) -> Audit:
        noise = PreparedNoise()

        def run(world: int) -> FloatArray:
            policy = Dubey2021(
                features=LineFeatures(),
                domain=Box(low=[-1], high=[1]),
                reward_range=(0.0, 1.0),
                horizon=2,
                privacy=JointDP(epsilon=claim, delta=_PAPER_DELTA),
                paper_constants="lemma-12",
                acknowledge_broken=True,
                user_ids=False,
                seed=seed,
                noise=noise,
            )
            decision = policy.ask(np.array([[1.0 - 2.0 * world]]))
            policy.tell(decision.id, 1.0)
            policy.ask(np.array([[0.0]]))
            mean, width = policy.predict(np.array([[1.0]]))
            return np.concatenate([mean, mean / width**2])

        def draw(world: int, n: int) -> FloatArray:
            return rows_of(lambda: run(world), n)

        return SampledAudit(
            name=name,
            epsilon=claim,
            delta=_PAPER_DELTA,
            scope="policy",
            sees="the policy's prediction after one user, of two rounds",
            neighbours="that user's decision set turned around, reward 1",
            known_broken=True,
            draw=draw,
            fit=fit_linear,
            share=0.03,
        )

    return name, build


def _float_noise(name: str, add: Callable[[FloatArray, float], FloatArray], delta: float) -> Entry:
    def build(epsilon: float, seed: int) -> Audit:
        def draw(world: int, n: int) -> FloatArray:
            return off_grid(add(np.full(n, float(world)), epsilon))

        return SampledAudit(
            name=name,
            epsilon=epsilon,
            delta=delta,
            sees="the lowest set bit of one number with float noise",
            neighbours="numbers 0 and 1",
            known_broken=True,
            draw=draw,
            score=identity,
        )

    return name, build


ENTRIES: tuple[Entry, ...] = (
    ("broken-po-gp-ucb", _transform),
    ("broken-own-bin-noise", _own_bin),
    _lemma_12_tree(0.05),
    _lemma_12_tree(0.02),
    _lemma_12_policy(0.02),
    _lemma_12_policy(0.01),
    _float_noise("broken-float-laplace", lambda values, epsilon: naive_laplace(values, epsilon=epsilon), 0.0),
    _float_noise(
        "broken-float-gaussian",
        lambda values, epsilon: naive_gaussian(values, epsilon=epsilon, delta=DELTA),
        DELTA,
    ),
)
