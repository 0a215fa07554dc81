"""Audits of central policies with many users, each on a separate axis or in a separate cell.

The attacker observes releases of `GPBandit` and `ExploreThenCommit`, and actions of other users. Further
audits concern several rounds of one user, public decision sets, an unknown horizon, late or missing rewards,
several phases, and answers or a histogram in addition to a release. One run has `PEOPLE` people. World 1
replaces the data of all of them at once; see `crowded`. The function of an audit returns the observations of
one run, one row per person.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import DELTA, AxisFeatures, Entries, LineFeatures, PreparedNoise, crowded
from dpbandits.audit.claims import CERTAIN, GaussianAudit, SampledAudit
from dpbandits.audit.scores import first_column, fit_categories, fit_linear
from dpbandits.central import ExploreThenCommit, ExploreTuning, GPBandit, GPTuning
from dpbandits.central.cells import FEWEST_CELLS
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.central.marginals.learning import CENTRES
from dpbandits.central.marginals.noise import CONTEXT_SHARE
from dpbandits.central.marginals.product_release import TOLD_ALONE
from dpbandits.central.marginals.release import UNITS
from dpbandits.domains import Box
from dpbandits.models.kernels import Indicator
from dpbandits.models.marginals import CENSUS_BINS
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.cell_sums import CENTRED
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.prefix_sums import square_root_toeplitz
from dpbandits.tables import Actions, Categories, Products, Range, Schema
from dpbandits.tables.values import Net

__all__ = ["AXES", "DOMAIN", "ENTRIES", "PEOPLE", "axes_policy", "next_ask", "tell_everyone"]

ENTRIES: Entries = {}

PEOPLE = 50
"""Number of people in one run: enough to share the run's cost, and few enough for fast linear algebra."""

_WATCHERS = 16
"""Number of other users for each person, whose actions the attacker observes."""

AXES = AxisFeatures(PEOPLE)
DOMAIN = Box(low=[0.0, -1.0], high=[float(PEOPLE - 1), 1.0])

_crowded = partial(crowded, ENTRIES, scope="policy", delta=DELTA)
_turned = partial(
    _crowded,
    kind=GaussianAudit,
    score=None,
    share=0.1,
    neighbours="one user's decision sets turned around, reward 1",
)
_REWARDED = "one row's reward from lowest to highest"

# -- on axes ------------------------------------------------------------------------------------------


def axes_policy(
    epsilon: float,
    seed: int,
    noise: PreparedNoise,
    *,
    blocks: list[int],
    rounds: int = 1,
    decision_sets: Literal["private", "public"] = "private",
    **changes: Any,
) -> GPBandit:
    """Return a policy that releases after each round number in `blocks`.

    Each user may have `rounds` rounds.
    """
    tuning = GPTuning(
        features=AXES,
        decision_sets=decision_sets,
        blocks=blocks,
        public_decision_sets=np.array([[[0.0, -1.0], [0.0, 1.0]]]),
        factor=square_root_toeplitz(len(blocks)) if changes.get("horizon", True) else None,
    )
    arguments: dict[str, Any] = {
        "domain": DOMAIN,
        "reward_range": (0.0, 1.0),
        "horizon": blocks[-1] + 1,
        "privacy": JointDP(epsilon=epsilon, delta=DELTA, rounds_per_user=rounds),
        "seed": seed,
        "noise": noise,
        "tuning": tuning,
    }
    return GPBandit(**(arguments | changes))


def _offer(policy: GPBandit, place: float, people: range) -> tuple[str, ...]:
    axes = np.arange(PEOPLE, dtype=np.float64)
    rows = np.column_stack([axes, np.full(PEOPLE, place)])[:, None]
    return tuple(policy.ask_batch(rows, users=list(people) if policy.user_ids else None).ids)


def tell_everyone(policy: GPBandit, world: int, *, first: int = 0) -> None:
    """Ask for each person with a single candidate, and tell the highest reward.

    The candidate is one end of the person's axis, which depends on `world`.
    """
    ids = _offer(policy, 1.0 - 2.0 * world, range(first, first + PEOPLE))
    policy.tell_batch(ids, np.ones(PEOPLE))


def next_ask(policy: GPBandit, user: str = "last") -> FloatArray:
    """Ask for one more person, so that due releases are drawn.

    Return the released sums of rewards (people, blocks).
    """
    policy.ask(np.array([[0.0, 0.0]]), user=user)
    return policy.released[:, -PEOPLE:].T.astype(np.float64)


@_turned(
    "gp-bandit-released",
    sees="all released statistics of two blocks",
    neighbours="one user's decision set turned around, reward 1",
)
def _released(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE, 2 * PEOPLE])
    tell_everyone(policy, world)
    _offer(policy, 0.0, range(PEOPLE, 2 * PEOPLE))
    return np.column_stack([next_ask(policy), policy.released[:, :PEOPLE].T])


@_crowded(
    "gp-bandit-actions",
    SampledAudit,
    sees=f"the actions of {_WATCHERS} other users",
    neighbours="one user's decision set turned around, reward 1",
    score=first_column,
    share=0.2,
)
def _actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE], horizon=PEOPLE * (1 + _WATCHERS))
    tell_everyone(policy, world)
    axes = np.repeat(np.arange(PEOPLE, dtype=np.float64), _WATCHERS)[:, None]
    ends = np.stack([np.hstack([axes, np.full_like(axes, end)]) for end in (-1.0, 1.0)], axis=1)
    users = range(PEOPLE, PEOPLE + len(axes))
    chosen = policy.ask_batch(ends, users=list(users)).indices.reshape(PEOPLE, _WATCHERS)
    return np.asarray((1 - chosen).sum(axis=1, dtype=np.float64)[:, None])


@_turned(
    "gp-bandit-several-rounds", sees="all released statistics of two blocks, in each a round of the user's"
)
def _several_rounds(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE, 2 * PEOPLE], rounds=2)
    tell_everyone(policy, world)
    tell_everyone(policy, world)
    return next_ask(policy)


@_turned("gp-bandit-unknown-horizon", sees="all released statistics of two blocks, the user in the first")
def _unknown_horizon(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE, 2 * PEOPLE], horizon=None)
    tell_everyone(policy, world)
    _offer(policy, 0.0, range(PEOPLE, 2 * PEOPLE))
    return next_ask(policy)


@_turned(
    "gp-bandit-public-sets",
    sees="all released statistics",
    neighbours="one user's reward from lowest to highest, decision sets public",
)
def _public_sets(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE], decision_sets="public")
    ids = _offer(policy, 1.0, range(PEOPLE))
    policy.tell_batch(ids, np.full(PEOPLE, float(world)))
    return next_ask(policy)


@_turned(
    "gp-bandit-missing-rewards",
    sees="all released statistics",
    neighbours="one user's reward in time, or never or too late",
)
def _missing_rewards(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE, 2 * PEOPLE])
    ids = _offer(policy, 1.0, range(PEOPLE))
    if world == 0:
        policy.tell_batch(ids, np.ones(PEOPLE))
    second = _offer(policy, 0.0, range(PEOPLE, 2 * PEOPLE))
    if world == 1:
        policy.tell_batch(ids[::2], np.ones(PEOPLE // 2))
    policy.tell_batch(second, np.full(PEOPLE, 0.5))
    return np.column_stack([next_ask(policy), policy.released[:, :PEOPLE].T])


# -- sums in cells: a cell for everybody ------------------------------------------------------------------

_PLACES = np.linspace(-1.0, 1.0, FEWEST_CELLS)[:, None]
"""Contexts of people. Each is in a cell of its own."""

_in_cells = partial(crowded, ENTRIES, scope="policy", kind=SampledAudit, share=0.03)


def _cells_policy(
    epsilon: float, seed: int, noise: PreparedNoise, *, blocks: list[int], rounds: int, user_ids: bool = True
) -> GPBandit:
    expected = np.repeat(_PLACES, 40, axis=0)[:, None]
    return GPBandit(
        domain=Box(low=[-1.0], high=[1.0]),
        reward_range=(0.0, 1.0),
        horizon=blocks[-1] + 1,
        privacy=JointDP(epsilon=epsilon, rounds_per_user=rounds, user_ids=user_ids),
        seed=seed,
        noise=noise,
        tuning=GPTuning(
            features=LineFeatures(), release="cells", blocks=blocks, public_decision_sets=expected
        ),
    )


def _seen_in_cells(policy: GPBandit, world: int, *, times: int) -> FloatArray:
    for _ in range(times):
        users = list(range(FEWEST_CELLS)) if policy.user_ids else None
        ids = policy.ask_batch(_PLACES[:, None], users=users).ids
        policy.tell_batch(ids, np.full(FEWEST_CELLS, float(world)))
    policy.ask(_PLACES[:1], user="last" if policy.user_ids else None)
    return np.asarray(policy.released[:, :FEWEST_CELLS].T * CENTRED)


def _between(outputs: FloatArray, *, end: float = 0.5) -> FloatArray:
    return np.asarray(np.clip(outputs, -end, end).sum(axis=1))


@_in_cells(
    "gp-bandit-cells",
    sees="all released sums",
    neighbours="one user's reward from lowest to highest",
    score=_between,
)
def _cells(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _cells_policy(epsilon, seed, noise, blocks=[FEWEST_CELLS], rounds=1)
    return _seen_in_cells(policy, world, times=1)


@_in_cells(
    "gp-bandit-cells-several-rounds",
    sees="all released sums of two blocks, in each a round of the user's",
    neighbours="one user's rewards from lowest to highest",
    score=_between,
)
def _cells_several_rounds(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _cells_policy(epsilon, seed, noise, blocks=[FEWEST_CELLS, 2 * FEWEST_CELLS], rounds=2)
    return _seen_in_cells(policy, world, times=2)


@_in_cells(
    "broken-cells-of-people-who-come-again",
    sees="all released sums",
    neighbours="one user's rewards from lowest to highest",
    score=partial(_between, end=1.5),
    known_broken=True,
    caught_from=6_600,
)
def _cells_again(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _cells_policy(epsilon, seed, noise, blocks=[3 * FEWEST_CELLS], rounds=1, user_ids=False)
    return _seen_in_cells(policy, world, times=3)


# -- marginal tables: an arm and two levels of the one column for everybody ---------------------------------

_ARMS = 8
"""Number of people in audits of tables.

Each has a separate arm and a separate pair of levels of the context.
"""

_MANY, _EXPECTED = 20, 4_000
"""Number of columns of a log, and number of rows that is declared for it.

Each column then has a table of its own.
"""

_in_tables = partial(crowded, ENTRIES, scope="policy", kind=SampledAudit, score=first_column, share=0.015)


def _tables_policy(
    epsilon: float,
    seed: int,
    noise: PreparedNoise,
    *,
    blocks: list[int],
    rounds: int,
    user_ids: bool = True,
    delta: float = 0.0,
    columns: Sequence[str] = ("place",),
    arms: int = _ARMS,
) -> GPBandit:
    return GPBandit(
        contexts=Schema(**{name: Categories(list(range(2 * _ARMS))) for name in columns}),
        arms=list(range(arms)),
        reward_range=(0.0, 1.0),
        horizon=blocks[-1] + 1,
        privacy=JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rounds, user_ids=user_ids),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=blocks),
    )


def _tell_tables(policy: GPBandit, world: int, *, moving: bool) -> None:
    own = np.arange(_ARMS, dtype=np.float64)
    sets = np.column_stack([2.0 * own + (world if moving else 0), own])[:, None]
    ids = policy.ask_batch(sets, users=list(range(_ARMS)) if policy.user_ids else None).ids
    policy.tell_batch(ids, np.full(_ARMS, float(world)))


def _released_tables(policy: GPBandit) -> tuple[FloatArray, FloatArray]:
    policy.ask(np.zeros((1, 2)), user="last" if policy.user_ids else None)
    blocks = policy.released.reshape(-1, 3 * _ARMS).astype(np.float64)
    return blocks[:, :_ARMS] / UNITS, blocks[:, _ARMS:].reshape(-1, _ARMS, 2)


def _told_apart(outputs: FloatArray, low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    return np.asarray(np.abs(outputs - low) - np.abs(outputs - high))


def _one_block_of_tables(policy: GPBandit, world: int, epsilon: float, *, times: int) -> FloatArray:
    for _ in range(times):
        _tell_tables(policy, world, moving=True)
    sums, counts = _released_tables(policy)
    end = 0.5 * times
    moved = _told_apart(counts[0], np.array([times, 0.0]), np.array([0.0, times])).sum(axis=1)
    ratio = (1.0 - CONTEXT_SHARE) * _told_apart(sums[0], -end, end) + 0.5 * CONTEXT_SHARE * moved
    return np.asarray(epsilon * ratio[:, None])


@_in_tables(
    "gp-bandit-marginals",
    sees="all released sums and counts",
    neighbours="one user's context moved, and the reward from lowest to highest",
)
def _tables(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _tables_policy(epsilon, seed, noise, blocks=[_ARMS], rounds=1)
    return _one_block_of_tables(policy, world, epsilon, times=1)


@_in_tables(
    "gp-bandit-marginals-several-rounds",
    sees="all released sums of two blocks, in each a round of the user's",
    neighbours="one user's rewards from lowest to highest",
    share=0.06,
)
def _tables_several_rounds(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _tables_policy(epsilon, seed, noise, blocks=[_ARMS, 2 * _ARMS], rounds=2)
    _tell_tables(policy, world, moving=False)
    _tell_tables(policy, world, moving=False)
    mean, _ = policy.predict({"place": 2 * np.arange(_ARMS)})
    centre = np.rint(UNITS * np.clip(mean.max(axis=1), *CENTRES)) / UNITS
    sums, _ = _released_tables(policy)
    ratio = _told_apart(sums[0], -0.5, 0.5) / 2.0 + _told_apart(sums[1], -centre, 1.0 - centre) / 2.8
    return np.asarray((1.0 - CONTEXT_SHARE) * epsilon * ratio[:, None])


@_in_tables(
    "gp-bandit-marginals-changing-arms",
    sees="all released sums and counts of two blocks, between which every arm is retired, new ones are "
    "added, and later blocks are planned anew",
    neighbours="one user's contexts, arms and rewards all replaced, before and after the change",
    share=0.06,
)
def _changing_arms(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    """Return log likelihood ratios of the releases before and after a change of all arms."""
    count, own = 2 * _ARMS, 2 * np.arange(_ARMS) + world
    policy = _tables_policy(epsilon, seed, noise, blocks=[_ARMS, 10 * _ARMS], rounds=2, arms=count)
    for labels in (own, count + own):
        if labels is not own:
            for arm in range(count):
                policy.add_arm(count + arm, like=arm, minimum=1 / 48, at=0.0)
            for arm in range(count):
                policy.retire_arm(arm, at=0.0)
            # This makes the release, after which the new arms are offered.
            policy.publish(prior=True)
        offered = [[label] for label in labels.tolist()]
        ids = policy.ask_batch({"place": own}, users=list(range(_ARMS)), available=offered).ids
        policy.tell_batch(ids, np.full(_ARMS, float(world)))
    mean, _ = policy.predict({"place": np.arange(count)})
    centre = np.rint(UNITS * np.clip(mean.max(axis=1), *CENTRES)).reshape(_ARMS, 2) / UNITS
    policy.ask({"place": 0}, user="last")
    released = policy.released.reshape(2, 2, _ARMS, 2).astype(np.float64)  # block, sums or counts, person
    told = np.zeros(_ARMS)
    for block, middle, most in ((0, np.full((_ARMS, 2), 0.5), 2.0), (1, centre, 2.8)):
        low, high = middle * [-1.0, 0.0], (1.0 - middle) * [0.0, 1.0]
        told += _told_apart(released[block, 0] / UNITS, low, high).sum(axis=1) / most
    moved = _told_apart(released[:, 1], np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=(0, 2)) / 4.0
    return np.asarray(epsilon * ((1.0 - CONTEXT_SHARE) * told + CONTEXT_SHARE * moved)[:, None])


@_in_tables(
    "gp-bandit-marginals-census",
    sees="the released counts of a census",
    neighbours="one user's context moved",
)
def _census(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = GPBandit(
        contexts=Schema(place=Range(0.0, CENSUS_BINS)),
        arms=[0, 1],
        reward_range=(0.0, 1.0),
        horizon=CENSUS_BINS,
        privacy=JointDP(epsilon=epsilon, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=[CENSUS_BINS // 2, CENSUS_BINS], census=True),
    )
    own = np.arange(CENSUS_BINS // 2)
    policy.ask_batch({"place": 2.0 * own + world + 0.5})
    policy.ask({"place": 0.0})
    counts = policy.released.reshape(-1, 2).astype(np.float64)
    ratio = _told_apart(counts, np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=1)
    return np.asarray(0.5 * (1.0 - CONTEXT_SHARE) * epsilon * ratio[:, None])


@_in_tables(
    "gp-bandit-marginals-actions",
    sees="all released sums and counts, from which predictions and the law of actions are computed",
    neighbours="one user's context and action replaced, and the outcome from lowest to highest",
)
def _grid_of_actions(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    levels = Categories(list(range(2 * _ARMS)))
    policy = GPBandit(
        contexts=Schema(place=levels),
        actions=Actions(Schema(step=levels), value=Net(cost="step", each=0.01)),
        reward_range=(0.0, 1.0),
        horizon=_ARMS + 1,
        privacy=JointDP(epsilon=epsilon),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=[_ARMS]),
    )
    own = 2 * np.arange(_ARMS) + world
    offered = np.eye(2 * _ARMS, dtype=np.bool_)[own]
    ids = policy.ask_batch({"place": own}, users=list(range(_ARMS)), available=offered).ids
    policy.tell_batch(ids, np.full(_ARMS, float(world)))
    policy.ask({"place": 0}, user="last")
    sums, counts = policy.released.reshape(2, _ARMS, 2).astype(np.float64)
    moved = _told_apart(counts, np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=1)
    told = _told_apart(sums / UNITS, np.array([-0.5, 0.0]), np.array([0.0, 0.5])).sum(axis=1)
    ratio = (1.0 - CONTEXT_SHARE) * told + 0.5 * CONTEXT_SHARE * moved
    return np.asarray(epsilon * ratio[:, None])


@_in_tables(
    "gp-bandit-marginals-products",
    sees="all released sums, those of arms included, and counts",
    neighbours="one user's context and product replaced, and the reward from lowest to highest",
)
def _products(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    levels, count = Categories(list(range(2 * _ARMS))), 2 * _ARMS
    shop = Products(
        {"name": [f"p{k}" for k in range(count)], "kind": list(range(count))}, columns=Schema(kind=levels)
    )
    policy = GPBandit(
        contexts=Schema(place=levels),
        arms=shop,
        reward_range=(0.0, 1.0),
        horizon=1 + int(count * TOLD_ALONE / epsilon) + count,
        privacy=JointDP(epsilon=epsilon),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=[_ARMS]),
    )
    own = 2 * np.arange(_ARMS) + world
    offered = np.eye(count, dtype=np.bool_)[own]
    ids = policy.ask_batch({"place": own}, users=list(range(_ARMS)), available=offered).ids
    policy.tell_batch(ids, np.full(_ARMS, float(world)))
    policy.ask({"place": 0}, user="last")
    bins, counts, arms = policy.released.reshape(3, _ARMS, 2).astype(np.float64)
    moved = _told_apart(counts, np.array([1.0, 0.0]), np.array([0.0, 1.0])).sum(axis=1)
    told = sum(
        _told_apart(sums / UNITS, np.array([-0.5, 0.0]), np.array([0.0, 0.5])).sum(axis=1)
        for sums in (bins, arms)
    )
    ratio = 0.5 * (1.0 - CONTEXT_SHARE) * told + 0.5 * CONTEXT_SHARE * moved
    return np.asarray(epsilon * ratio[:, None])


@_in_tables(
    "gp-bandit-marginals-gaussian-counts",
    sees="all released sums, and counts of three columns and their pairs",
    neighbours="one user's context moved in all columns, and the reward from lowest to highest",
    delta=DELTA,
)
def _tables_of_three(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _tables_policy(
        epsilon, seed, noise, blocks=[_ARMS], rounds=1, delta=DELTA, columns=("place", "second", "third")
    )
    own, levels = np.arange(_ARMS), 2 * _ARMS
    places = np.repeat(2 * own[:, None] + world, 3, axis=1)
    ids = policy.ask_batch(np.hstack([places, own[:, None]])[:, None], users=own.tolist()).ids
    policy.tell_batch(ids, np.full(_ARMS, float(world)))
    policy.ask(np.zeros((1, 4)), user="last")
    sums, counts = np.split(policy.released.astype(np.float64), [_ARMS])
    columns, pairs = np.split(counts, [3 * levels])
    moved = [table[2 * own + 1] - table[2 * own] for table in columns.reshape(3, levels)]
    moved += [
        table[2 * own + 1, 2 * own + 1] - table[2 * own, 2 * own]
        for table in pairs.reshape(3, levels, levels)
    ]
    ratio = np.sum(moved, axis=0) / policy.diagnostics()["count_noise_sd"] ** 2
    ratio += (1.0 - CONTEXT_SHARE) * epsilon * _told_apart(sums / UNITS, -0.5, 0.5)
    return np.asarray(ratio[:, None])


@_in_tables(
    "broken-marginals-of-people-who-come-again",
    sees="all released sums and counts",
    neighbours="one user's contexts moved, and the rewards from lowest to highest",
    known_broken=True,
    caught_from=21_000,
)
def _tables_again(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _tables_policy(epsilon, seed, noise, blocks=[3 * _ARMS], rounds=1, user_ids=False)
    return _one_block_of_tables(policy, world, epsilon, times=3)


@_in_tables(
    "explore-then-commit-marginals",
    sees="the function that a log's tables were released for",
    neighbours="one row's context moved, and its reward from lowest to highest",
    share=0.03,
)
def _logged_tables(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = ExploreThenCommit(
        contexts=Schema(place=Categories(list(range(2 * _ARMS)))),
        arms=list(range(_ARMS)),
        reward_range=(0.0, 1.0),
        horizon=_ARMS,
        privacy=JointDP(epsilon=epsilon, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=ExploreTuning(release="marginals"),
    )
    own = np.arange(_ARMS)
    policy.learn({"place": 2 * own + world}, own.tolist(), np.full(_ARMS, float(world)))
    mean, _ = policy.publish().predict({"place": 2 * own})
    return np.asarray(mean.mean(axis=0)[:, None])


@_in_tables(
    "explore-then-commit-marginals-actions",
    sees="all released sums and counts of a log in which the decision is a number",
    neighbours="one row replaced: context, number, density, and the outcome from lowest to highest",
)
def _logged_numbers(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    levels = Categories(list(range(2 * _ARMS)))
    policy = ExploreThenCommit(
        contexts=Schema(place=levels),
        actions=Schema(kind=levels, number=Range(0, 1, steps=2)),
        reward_range=(0.0, 1.0),
        horizon=10 * _EXPECTED,
        privacy=JointDP(epsilon=epsilon, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=ExploreTuning(logged="densities"),
    )
    own, rows, mechanism = 2 * np.arange(_ARMS) + world, policy.shard(), policy.calibration.release
    outcomes = np.full(_ARMS, float(world))
    densities = np.full(_ARMS, 10.0 ** -(3 + world))
    rows.learn({"place": own}, {"kind": own, "number": outcomes}, outcomes, propensities=densities)
    released = mechanism.release(rows.cells.sums[-1]).astype(np.float64)
    sums, counts = np.split(released, [mechanism.n_rows * 2 * _ARMS])
    sums = REWARD_UNIT * sums.reshape(2 * _ARMS, 2, 2 * _ARMS)  # kind, number, place
    before, after = 2 * np.arange(_ARMS), 2 * np.arange(_ARMS) + 1
    told = _told_apart(sums[before, 0, before], -1.0, 0.0) + _told_apart(sums[after, 1, after], 0.0, 1.0)
    moved = _told_apart(counts[before], 1.0, 0.0) + _told_apart(counts[after], 0.0, 1.0)
    share = mechanism.shares.sum_epsilon
    return np.asarray(0.5 * (share * told + (epsilon - share) * moved)[:, None])


@_crowded(
    "explore-then-commit-marginals-one-vector",
    GaussianAudit,
    sees="all released sums and counts of a log",
    neighbours="one row's reward from lowest to highest",
    score=None,
    share=0.02,
)
def _logged_vector(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _moved_in_a_vector(epsilon, seed, noise, world, columns=_MANY, horizon=_EXPECTED)


@_crowded(
    "explore-then-commit-marginals-all-pairs",
    GaussianAudit,
    sees="all released sums and counts of a log, with a table for every pair of columns",
    neighbours="one row's reward from lowest to highest",
    score=None,
    share=0.02,
)
def _logged_pairs(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _moved_in_a_vector(epsilon, seed, noise, world, columns=6, horizon=10 * _EXPECTED)


def _moved_in_a_vector(
    epsilon: float, seed: int, noise: PreparedNoise, world: int, *, columns: int, horizon: int
) -> FloatArray:
    policy = ExploreThenCommit(
        contexts=Schema(**{f"column {number}": Categories([0, 1]) for number in range(columns)}),
        arms=list(range(_ARMS)),
        reward_range=(0.0, 1.0),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=ExploreTuning(release="marginals"),
    )
    own, rows, mechanism = np.arange(_ARMS), policy.shard(), policy.calibration.release
    people = {name: np.zeros(_ARMS, dtype=np.int64) for name in policy.contexts.names}
    rows.learn(people, own.tolist(), np.full(_ARMS, float(world)))
    released = mechanism.release(rows.cells.sums[-1]).astype(np.float64)
    moved, *_ = mechanism.places(np.zeros((_ARMS, columns), dtype=np.int64), own)
    widths = 0.5 * REWARD_UNIT * released[moved]
    return np.asarray(widths.sum(axis=1)[:, None] / policy.diagnostics()["sum_noise_sd"] ** 2)


# -- explore, then commit: a cell for everybody ---------------------------------------------------------

_ENDS = (-1.0, 1.0)
_CELLS = CellMeasure.uniform(low=0.0, high=1.0, cells=PEOPLE)


def _explore_then_commit(
    epsilon: float, seed: int, *, answer_epsilon: float | None = None, **changes: Any
) -> ExploreThenCommit:
    arguments: dict[str, Any] = {
        "kernel": Indicator(columns=(0, 1)),
        "contexts": _CELLS,
        "reward_range": _ENDS,
        "actions": CellMeasure.finite([0.0, 1.0]),
        "horizon": PEOPLE,
        "privacy": JointDP(epsilon=epsilon, delta=DELTA, user_ids=False),
        "tuning": ExploreTuning(ridge=10.0, publish_epsilon=epsilon, answer_epsilon=answer_epsilon),
        "seed": seed,
    }
    return ExploreThenCommit(**(arguments | changes))


@_crowded(
    "explore-then-commit-answers-beside-release",
    SampledAudit,
    sees="an answer at the user's context, and the released function",
    neighbours=_REWARDED,
    fit=fit_linear,
    share=0.03,
)
def _answers_beside_release(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    half = 0.5 * epsilon
    privacy = JointDP(epsilon=half * (1 + PEOPLE), delta=DELTA, user_ids=False)
    policy = _explore_then_commit(half, seed, privacy=privacy, answer_epsilon=half, noise=noise)
    contexts = _CELLS.points[:, 0]
    policy.learn(contexts, np.zeros(PEOPLE, np.int64), np.full(PEOPLE, _ENDS[world]))
    answers = [policy.answer([context]).index for context in contexts]
    return np.column_stack([policy.publish().mean[0], answers])


@_crowded(
    "explore-then-commit-histogram-beside-release",
    SampledAudit,
    sees="the noisy law of contexts, and the function that is released under it",
    neighbours="one row's context moved to another cell, and its reward from lowest to highest",
    fit=fit_linear,
    share=0.03,
)
def _histogram_beside_release(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    """Return numbers of people and mean rewards, each released with half of epsilon."""
    base = np.repeat(_CELLS.points[:, 0], 20)
    moved = _CELLS.points[world::2, 0]
    contexts = np.concatenate([base, moved])
    law = ContextLaw.from_private_histogram(contexts, cells=_CELLS, epsilon=0.5 * epsilon)
    policy = _explore_then_commit(
        0.5 * epsilon,
        seed,
        contexts=law,
        actions=CellMeasure.finite([0.0]),
        horizon=len(contexts),
        privacy=JointDP(epsilon=epsilon, delta=DELTA, user_ids=False),
        noise=noise,
    )
    rewards = np.concatenate([np.zeros(len(base)), np.full(len(moved), _ENDS[world])])
    policy.learn(contexts, np.zeros(len(contexts), np.int64), rewards)
    mean = policy.publish().mean[0].reshape(-1, 2)
    weights = law.measure.weights.reshape(-1, 2)
    # All weights are divided by one noisy total, which pairs share: rounding removes its effect.
    people = np.rint(weights * (len(contexts) / weights.sum()))
    return np.column_stack([np.clip(people - 20.5, -0.5, 0.5), np.clip(mean, -4.0, 4.0)])


@_turned("explore-then-commit-release", sees="the released function", neighbours=_REWARDED, share=0.2)
def _released_function(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = _learned(epsilon, seed, noise, np.full(PEOPLE, _ENDS[world]), PEOPLE)
    return np.asarray(policy.publish().mean[0][:, None])


# -- what a missing reward shows --------------------------------------------------------------------------


def _learned(
    epsilon: float, seed: int, noise: PreparedNoise, rewards: FloatArray, horizon: int
) -> ExploreThenCommit:
    policy = _explore_then_commit(epsilon, seed, horizon=horizon, noise=noise)
    policy.learn(_CELLS.points[: len(rewards), 0], np.zeros(len(rewards), np.int64), rewards)
    return policy


@_turned(
    "explore-then-commit-missing-reward",
    sees="the released function",
    neighbours="one row's reward highest, or missing",
)
def _missing_reward(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    rewards = np.full(PEOPLE, np.nan if world else 1.0)
    mean = _learned(epsilon, seed, noise, rewards, PEOPLE).publish().mean
    return np.asarray(mean[0][:, None])


_scaled = partial(
    crowded,
    ENTRIES,
    kind=SampledAudit,
    scope="policy",
    delta=DELTA,
    sees="the numbers that statement and diagnostics print",
    neighbours="one row's reward highest, or missing",
    fit=fit_categories,
    share=0.003,
)


def _printed(policy: ExploreThenCommit) -> FloatArray:
    scales = [record.scale for record in policy.guarantee.mechanisms]
    shown = [value for value in policy.diagnostics().values() if isinstance(value, int | float)]
    return np.array([[*scales, *shown]], dtype=np.float64)


@_scaled(name="explore-then-commit-printed-numbers")
def _public_rows(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    rewards = np.append(np.ones(PEOPLE - 1), np.nan if world else 1.0)
    return _printed(_learned(epsilon, seed, noise, rewards, PEOPLE))


@_scaled(name="broken-numbers-by-rows-left", known_broken=True, caught_from=CERTAIN)
def _rows_left(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    """Return the printed numbers of a release whose table omits rows without a reward (world 1).

    The noise is calibrated to the number of remaining rows. BROKEN: the printed numbers reveal it.
    """
    rewards = np.ones(PEOPLE - world)
    return _printed(_learned(epsilon, seed, noise, rewards, len(rewards)))
