"""USCA end to end: answers by their exact law and by their sampler, the released function, and phases."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.catalogue._shared import DELTA, Entry, PreparedNoise, rows_of
from dpbandits.audit.claims import Audit, ExactAudit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.central import ExploreThenCommit, PhasedExploreThenCommit
from dpbandits.central.explore_then_commit.policy import NothingToLearn
from dpbandits.central.published.pavlovic2025 import USCA
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.selection import permute_and_flip_law

__all__ = ["ENTRIES"]

_KERNEL = SquaredExponential(lengthscale=0.3)
_TOP = "one row's reward from lowest to highest"
_CONTEXT = [0.1]
_BOTH = np.array([_CONTEXT, _CONTEXT])


def _usca(epsilon: float, seed: int, **changes: Any) -> ExploreThenCommit:
    arguments: dict[str, Any] = {
        "kernel": _KERNEL,
        "actions": CellMeasure.finite([0.0, 1.0]),
        "contexts": CellMeasure.uniform(low=0.0, high=1.0, cells=3),
        "reward_range": (-1.0, 1.0),
        "horizon": 2,
        "privacy": JointDP(epsilon=epsilon),
        "ridge": 10.0,
        "release_ridge": 10.0,
        "unit_ids": False,
        "seed": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)  # two rows are for attacking, not for learning
        return ExploreThenCommit(**(arguments | changes))


def _answers(epsilon: float, seed: int) -> Audit:
    """Two rows in the cell that counts most: the second makes a tie or a lead of the whole range."""

    def draw(world: int, n: int) -> FloatArray:
        # n answers on a budget of n epsilon: each is drawn anew, and the claim is about each
        usca = _usca(epsilon, seed, privacy=JointDP(epsilon=(n + 1) * epsilon), answer_epsilon=epsilon)
        usca.learn(_BOTH, np.array([0, 0]), np.array([1.0, 2.0 * world - 1.0]))
        return np.array([usca.answer(_CONTEXT).index for _ in range(n)], dtype=np.float64)

    return SampledAudit(
        name="usca-answers",
        epsilon=epsilon,
        scope="policy",
        sees="one answer at a context",
        neighbours=_TOP,
        draw=draw,
        fit=fit_categories,
        share=0.5,
    )


def _answer_law(epsilon: float, seed: int) -> Audit:
    """Every context, the cells that move gaps most, and others' rows that push one action ahead by steps."""
    rows = 1000
    usca = _usca(
        epsilon,
        seed,
        actions=CellMeasure.uniform(low=0.0, high=1.0, cells=9),
        contexts=CellMeasure.uniform(low=0.0, high=1.0, cells=8),
        horizon=rows,
        ridge=None,
    )

    def law(plan: Any, context: int, sums: IntArray) -> FloatArray:
        scores, span = usca.uses.scores(plan, context, sums)
        return permute_and_flip_law(scores.astype(np.float64), sensitivity=float(span), epsilon=epsilon)

    def pairs() -> Iterable[tuple[FloatArray, FloatArray]]:
        plan = usca.uses.answers
        if plan is None:
            return
        caps = usca.uses.caps[0]
        for context in range(8):
            weights = plan.estimator.influence(context)
            spread = caps * (weights.max(axis=0) - weights.min(axis=0))
            for cell in np.argsort(-spread)[:2]:
                high, low = int(weights[:, cell].argmax()), int(weights[:, cell].argmin())
                gain = weights[high] - weights[low]
                helpful = np.argsort(-caps * np.abs(gain))[:9]
                for pushed in (0.0, 0.3, 1.0):
                    base = np.zeros(len(caps), dtype=np.int64)
                    each = int(pushed * (rows - 1)) // len(helpful)
                    base[helpful] = each * np.sign(gain[helpful]).astype(np.int64) * caps[helpful]
                    worlds = [base.copy(), base.copy()]
                    worlds[0][cell] -= caps[cell]
                    worlds[1][cell] += caps[cell]
                    yield law(plan, context, worlds[0]), law(plan, context, worlds[1])

    return ExactAudit(
        name="usca-answer-law",
        epsilon=epsilon,
        scope="policy",
        sees="one answer at a context",
        neighbours=f"{_TOP}, beside {rows - 1} others",
        pairs=pairs,
    )


def _published_answer(epsilon: float, seed: int) -> Audit:
    """Pavlovic2025 as printed: the exponential mechanism at 2 B sup sigma-bar^2."""
    cells = CellMeasure.uniform(low=0.0, high=1.0, cells=4)

    def law(rewards: FloatArray) -> FloatArray:
        policy = USCA(
            kernel=_KERNEL,
            actions=CellMeasure.uniform(low=0.0, high=1.0, cells=4),
            contexts=cells,
            reward_range=(-1.0, 1.0),
            horizon=8,
            privacy=JointDP(epsilon=epsilon),
            seed=seed,
        )
        policy.learn(
            np.tile(cells.points[:1], (len(rewards), 1)), np.zeros(len(rewards), dtype=np.int64), rewards
        )
        return policy.unsafe_law(0)

    def pairs() -> Iterable[tuple[FloatArray, FloatArray]]:
        for others in range(8):
            rewards = np.ones(others + 1)
            for sign in (1.0, -1.0):
                one, two = sign * rewards, sign * rewards
                two[-1] = -sign
                yield law(one), law(two)

    return ExactAudit(
        name="published-usca-answer",
        epsilon=epsilon,
        scope="policy",
        sees="one answer at a context, Pavlovic2025 as printed",
        neighbours=_TOP,
        pairs=pairs,
    )


def _release(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise(certificate="near_gaussian")

    def run(world: int) -> FloatArray:
        usca = _usca(epsilon, seed, privacy=JointDP(epsilon=epsilon, delta=DELTA), horizon=1, noise=noise)
        usca.learn(_BOTH[:1], np.array([0]), np.array([2.0 * world - 1.0]))
        return np.asarray(usca.release().mean).ravel()

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return GaussianAudit(
        name="usca-release",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the released function",
        neighbours=_TOP,
        draw=draw,
        score=None,
        share=0.06,
    )


def _phased(epsilon: float, seed: int, noise: PreparedNoise, horizon: int) -> PhasedExploreThenCommit:
    return PhasedExploreThenCommit(
        kernel=_KERNEL,
        actions=CellMeasure.finite([0.0, 1.0]),
        contexts=CellMeasure.uniform(low=0.0, high=1.0, cells=2),
        reward_range=(-1.0, 1.0),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        phases=[1],
        exploration=[1.0],
        user_ids=False,
        seed=seed,
        noise=noise,
    )


def _phased_policy(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise(certificate="near_gaussian")

    def run(world: int) -> FloatArray:
        policy = _phased(epsilon, seed, noise, 2)
        policy.tell(policy.ask(_CONTEXT).id, 2.0 * world - 1.0)
        policy.ask(_CONTEXT)
        published = policy.public_policy
        return np.zeros(1) if published is None else np.asarray(published.mean).ravel()

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return GaussianAudit(
        name="phased-usca-policy",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the policy published after the first phase",
        neighbours="the first user's reward from lowest to highest",
        draw=draw,
        score=None,
        share=0.03,
    )


def _phased_actions(epsilon: float, seed: int) -> Audit:
    noise = PreparedNoise(certificate="near_gaussian")
    contexts = np.array([[0.1], [0.9]])

    def run(world: int) -> FloatArray:
        policy = _phased(epsilon, seed, noise, 3)
        policy.tell(policy.ask(_CONTEXT).id, 2.0 * world - 1.0)
        return np.asarray(policy.ask_batch(contexts).indices, dtype=np.float64)

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="phased-usca-actions",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the actions of two other users after the first phase",
        neighbours="the first user's reward from lowest to highest",
        draw=draw,
        fit=fit_categories,
        share=0.03,
    )


ENTRIES: tuple[Entry, ...] = (
    ("usca-answers", _answers),
    ("usca-answer-law", _answer_law),
    ("published-usca-answer", _published_answer),
    ("usca-release", _release),
    ("phased-usca-policy", _phased_policy),
    ("phased-usca-actions", _phased_actions),
)
