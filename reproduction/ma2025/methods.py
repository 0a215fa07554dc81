"""Run any method of Ma2025's experiments on one crowd, and return its regret.

| method | what it is |
|---|---|
| `tree` | this library's: posterior tree, signed or k-ary report, arms assigned by the server |
| `questions` | this library's default: one-bit questions on a grid |
| `smooth` | this library's without sources: the same with a smooth prior, at its frozen defaults |
| `ma2025-c1`, `-2log2`, `-c64` | Algorithms 2 and 3 as printed at C_n = ln n, 2 log2 n, 64 ln n, honest |
| `ma2025-c0.01` to `-c0.3` | the same at C_n = c ln n below 1 |
| `ma2025-code` | **not private**: as the authors' code runs, for its published runs (`ma2025.as_code`) |
| `ma2025-code-once` | **not private**: the same, but everybody is counted once |
| `ma2025-code-again` | the same with noise in every bin, where it is private; earlier users again and again |
| `ma2025-code-honest` | the same with noise in every bin and everybody counted once |
| `ma2025` | the same with what the authors' public code adds (`local.published.ma2025_variant`) |
| `ma2025-tuned` | that with radius and bias chosen like everybody's constants, without a proof |
| `linear`, `neural` | private gradients (`ma2025.ldp_gradient`), logistic or with one hidden layer |
| `abse` | adaptively binned successive elimination, without privacy and without sources |
| `abse-printed` | the same with the width of its own paper, 4 |

`abse`, `abse-printed` and `smooth` take no sources. `ma2025-code` and what is beside it run in `code_curves`,
in a world alone, and are no `METHODS`. Everyone publishes after 100 users, but for those of Ma2025,
whose rules act rarely: a hundredth of its users. Constants in `CHOSEN` come from
`reproduction/tuning/ma2025_methods.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import SimulationResult
from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource, simulate_transfer
from dpbandits.lab.worlds.contextual import PeopleWorld, World
from dpbandits.lab.worlds.transfer import Behaviour, SourceWorld
from dpbandits.local.contract.spec import PUBLISHED, Spec
from reproduction.local_worlds import world
from reproduction.ma2025.as_code import CodeCrowds, CodeOptions
from reproduction.ma2025.classification import (
    CLASSIFICATION_TABLES,
    ClassificationTable,
    Half,
    classification_table,
)
from reproduction.ma2025.crowds import ABSE, play
from reproduction.ma2025.ldp_gradient import (
    GradientConstants,
    LDPGradientBandit,
    LogisticModel,
    NeuralModel,
)
from reproduction.ma2025.local import unit_spec
from reproduction.ma2025.people_source import PeopleSource

__all__ = [
    "CHOSEN",
    "CODE_METHODS",
    "CODE_WORLD",
    "CONSTANTS",
    "MARKS",
    "METHODS",
    "NOT_PRIVATE",
    "PRINTED_CONSTANTS",
    "Source",
    "code_curves",
    "curve",
    "local_curves",
    "table_references",
    "world_and_sources",
]

PRINTED_CONSTANTS = {"ma2025-c1": 1.0, "ma2025-2log2": 2.0 / math.log(2.0), "ma2025-c64": 64.0}
"""c of C_n = c ln(n) in the algorithms as printed: the paper says that there is one, and not which."""

SMALL_CONSTANTS = {f"ma2025-c{c:g}": c for c in (0.01, 0.03, 0.1, 0.3)}
"""Below what its proof can bear: tried to see what the paper's own experiments may have used."""

CONSTANTS = SMALL_CONSTANTS | PRINTED_CONSTANTS
"""c of every method that is the paper's algorithm as printed."""

CODE_WORLD = "ma-code"
"""World of the published runs: centres k/(K + 1), and sources as the public code draws them."""

CODE_METHODS: dict[str, dict[str, bool]] = {
    "ma2025-code": {},
    "ma2025-code-once": {"again": False},
    "ma2025-code-again": {"own_bin": False},
    "ma2025-code-honest": {"own_bin": False, "again": False},
}
"""Methods of `code_curves`, and which faults of the public code are undone."""

NOT_PRIVATE = ("ma2025-code", "ma2025-code-once")
"""No guarantee holds: noise is in visited bins alone, so a report would name its bin at any epsilon."""

ABSES = ("abse", "abse-printed")
"""Without privacy and without sources."""

METHODS = (
    "questions",
    "tree",
    "smooth",
    *CONSTANTS,
    "ma2025",
    "ma2025-tuned",
    "linear",
    "neural",
    *ABSES,
)
"""Names of the methods."""

MARKS = 20
"""A curve has this many points, evenly spaced along the users."""

_OURS = ("questions", "tree", "smooth")
_BATCH = 100
_VERSIONS_OF_SLOW_RULES = 100

CHOSEN: dict[str, dict[str, float]] = {
    "tree": {"child_sd": 0.35},
    "tree+": {"known": 1.3},
    "ma2025-tuned": {"radius": 0.05, "bias": 0.25},
    "ma2025-tuned+": {"radius": 0.3, "bias": 0.25},
    "linear": {"clip": 0.5, "warm_up": 0.03, "curvature": 0.01},
    "linear+": {"clip": 0.5, "warm_up": 0.0, "curvature": 0.005},
    "neural": {"clip": 0.5, "warm_up": 0.03, "curvature": 0.005},
    "neural+": {"clip": 0.5, "warm_up": 0.0, "curvature": 0.005},
    "abse": {"width": 0.5},
}
"""Constants on tables by method, `+` behind the name where sources are there; others have their defaults."""

# People, how many of them, and the epsilon of their reports.
_SourceOfPeople = tuple[PeopleSource | SourceWorld, int, float]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One source of a synthetic world, or of a table.

    Attributes:
        n_users: how many; of a table at most so many, None for all of its auxiliary people.
        epsilon: Epsilon of their reports.
        gamma: exponent of their density (worlds only), that of the density as the paper states it.
        kappa, behaviour: Behaviour policy; see `SourceWorld` (worlds only; even on tables).
    """

    n_users: int | None
    epsilon: float
    gamma: float = 0.0
    kappa: float = 1.0
    behaviour: Behaviour = "even"


@lru_cache(maxsize=8)
def table_half(name: str, half: Half | None, data: str | None) -> ClassificationTable:
    """A half of a table, or with None everybody."""
    table = classification_table(name, path=data)
    return table if half is None else table.half(half)


def world_and_sources(
    name: str, sources: Sequence[Source], *, half: Half | None = "report", data: str | None = None
) -> tuple[World | PeopleWorld, list[_SourceOfPeople]]:
    """A world or table by name, and its sources with their sizes and epsilons.

    Args:
        name: Name of a world (`local_worlds.WORLDS`) or of a table (`CLASSIFICATION_TABLES`).
        sources: all auxiliary people of a table can be one source only.
        half: Half of a table's users; None uses all.
        data: folder of `adult`.
    """
    if name not in CLASSIFICATION_TABLES:
        one = world(name)
        made: list[_SourceOfPeople] = []
        # the public code's sampler at gamma draws the exponent dim gamma
        stretch = one.dim if name == CODE_WORLD else 1
        for source in sources:
            if source.n_users is None:
                raise InvalidParameter("n_users: a source of a synthetic world needs a number")
            own: dict[str, Any] = {key: getattr(source, key) for key in ("gamma", "kappa", "behaviour")}
            own["gamma"] *= stretch
            made.append((SourceWorld(world=one, **own), source.n_users, source.epsilon))
        return one, made
    table = table_half(name, half, data)
    if len(sources) > 1:
        raise InvalidParameter(f"the table {name!r} has one source")
    auxiliary = table.source()
    everyone = len(auxiliary.columns)
    return table.target(), [(auxiliary, min(s.n_users or everyone, everyone), s.epsilon) for s in sources]


def curve(
    method: str,
    name: str,
    *,
    seed: int,
    epsilon: float | None = None,
    n_users: int | None = None,
    sources: Sequence[Source] = (),
    half: Half | None = "report",
    data: str | None = None,
    constants: Mapping[str, Any] | None = None,
    versions: int | None = None,
) -> FloatArray:
    """(MARKS,) average regret of the users so far, of one crowd.

    Args:
        method: one of `METHODS`.
        name: Name of the world or table.
        seed: people, rewards, noise and coins.
        epsilon: Epsilon of the target's reports; `abse` does not need it.
        n_users: how many; of a table at most so many, by default everybody.
        sources: see `Source`.
        half, data: Half and folder of a table; see `table_half`.
        constants: Constants of the method; by default those of `CHOSEN` on tables, and the defaults
            elsewhere.
        versions: that ours publish at most; None: one after every 100 users.

    Raises:
        InvalidParameter: an unknown method, a private one without epsilon, `abse` with sources.
    """
    if method not in METHODS:
        raise InvalidParameter(f"method {method!r}: expected one of {METHODS}")
    if sources and method in (*ABSES, "smooth"):
        raise InvalidParameter(f"{method} learns from the target alone")
    one, auxiliary = world_and_sources(name, sources, half=half, data=data)
    if isinstance(one, PeopleWorld):
        n_users = min(n_users or len(one.columns), len(one.columns))
    elif n_users is None:
        raise InvalidParameter("n_users: a synthetic world needs a number")
    given = dict(constants_of(method, name, sources) if constants is None else constants)
    if epsilon is None:
        if method not in ABSES:
            raise InvalidParameter(f"method {method!r} needs an epsilon")
        epsilon = math.inf
    if method in (*ABSES, "linear", "neural"):
        learner = _learner(method, one, epsilon, n_users, seed, given)
        if isinstance(learner, LDPGradientBandit):
            _report_sources(learner, auxiliary, seed)
        totals = play(one, lambda: learner, n_users=n_users, seed=seed, batch=_BATCH)[:, 0]
        return at_marks(totals, _BATCH, n_users)
    step = max(_BATCH, n_users // versions) if versions and method in _OURS else None
    spec = _spec_of(method, one, epsilon=epsilon, n_users=n_users, given=given, step=step)
    result = _simulated(spec, one, auxiliary, n_users=n_users, seed=seed)
    return at_marks(result.regret, spec.protocol.reports_per_version, n_users)


def local_curves(
    method: str,
    name: str,
    *,
    seed: int,
    epsilon: float,
    n_users: int,
    sources: Sequence[Source],
    point: Sequence[float],
    step: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Section 4.1's three metrics: for all users, and at one context.

    Args:
        method: one that reports bins: `tree`, `smooth` or one of Ma2025's.
        name: Name of a synthetic world.
        seed, epsilon, n_users, sources: as for `curve`.
        point: (dim,) the context.
        step: users between two versions; the paper has 1.

    Returns:
        (MARKS,) average regret of the users so far; (MARKS,) what the arms chosen at `point` would have lost
        there on average so far; (MARKS, K) how often each arm was chosen there so far.
    """
    one, auxiliary = world_and_sources(name, sources)
    if not isinstance(one, World):
        raise InvalidParameter("local curves need a synthetic world")
    spec = _spec_of(
        method, one, epsilon=epsilon, n_users=n_users, given=constants_of(method, name, sources), step=step
    )
    watched = np.array([point], dtype=np.float64)
    result = _simulated(spec, one, auxiliary, n_users=n_users, seed=seed, watched=watched)
    if result.shares is None:
        raise InvalidParameter("nothing was watched")
    chosen = result.shares[:, 0] * result.users[:, None]
    shares = np.stack([at_marks(arm, step, n_users) for arm in chosen.T], axis=1)
    (means,) = one.mean_rewards(watched)
    return at_marks(result.regret, step, n_users), shares @ (means.max() - means), shares


def code_curves(
    method: str,
    name: str,
    *,
    seeds: Sequence[int],
    epsilon: float,
    n_users: int,
    sources: Sequence[Source] = (),
    point: Sequence[float] | None = None,
    **options: Any,
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """Ma2025's public code on a crowd a seed, all side by side: not private where `NOT_PRIVATE` says so.

    Args:
        method: one of `CODE_METHODS`.
        name: a synthetic world.
        seeds: (R,) people, rewards, noise and bins, one a crowd.
        epsilon, n_users, sources: as for `curve`.
        point: (dim,) a context to watch, as for `local_curves`.
        options: fields of `CodeOptions`.

    Returns:
        (R, MARKS) average regret of the users so far; of a watched point also (R, MARKS) average regret and
        (R, MARKS, K) shares of the arms there.
    """
    one, auxiliary = world_and_sources(name, sources)
    if not isinstance(one, World):
        raise InvalidParameter("the public code runs in a synthetic world")
    people = [(p, n, e) for p, n, e in auxiliary if isinstance(p, SourceWorld)]
    options = options | CODE_METHODS[method]
    watched = None if point is None else np.array(point, dtype=np.float64)
    crowds = CodeCrowds(
        one, sources=people, n_users=n_users, epsilon=epsilon, seeds=seeds, options=CodeOptions(**options)
    )
    regret, law = crowds.run(watched)
    step = crowds.options.batch
    curves = np.stack([at_marks(totals, step, n_users) for totals in regret])
    if law is None or watched is None:
        return curves, None, None
    chosen = np.moveaxis(step * law, 2, 1)  # (R, K, T)
    shares = np.stack([[at_marks(arm, step, n_users) for arm in arms] for arms in chosen])
    shares = np.moveaxis(shares, 1, 2)
    (means,) = one.mean_rewards(watched[None])
    return curves, np.asarray(shares @ (means.max() - means)), shares


def _spec_of(
    method: str,
    one: World | PeopleWorld,
    *,
    epsilon: float,
    n_users: int,
    given: Mapping[str, Any],
    step: int | None = None,
) -> Spec:
    """The contract of a method that reports bins."""
    ours = method in _OURS
    learner = method if ours else "ma2025-printed" if method in CONSTANTS else "ma2025"
    slow = max(_BATCH, n_users // _VERSIONS_OF_SLOW_RULES)
    return unit_spec(
        one,
        epsilon=epsilon,
        learner=learner,
        mechanism="auto" if ours else "paper-laplace",
        chooser="server" if ours else "client",
        n_users=n_users,
        reports_per_version=step or (_BATCH if ours else slow),
        constants=given,
    )


def _simulated(
    spec: Spec, one: World | PeopleWorld, auxiliary: Sequence[_SourceOfPeople], **rest: Any
) -> SimulationResult:
    """One crowd after its sources; those of Ma2025 with the paper's floating-point noise."""
    sources = [SimulatedSource(people=p, n_users=n, epsilon=e) for p, n, e in auxiliary]
    floating = spec.learner in PUBLISHED
    return simulate_transfer(spec, one, sources=sources, floating=floating, **rest)


def table_references(name: str, *, data: str | None = None) -> dict[str, float]:
    """Average regret of a uniformly random arm and of the best constant arm, on a table's report half."""
    one, _ = world_and_sources(name, (), data=data)
    if not isinstance(one, PeopleWorld):
        raise InvalidParameter(f"{name!r} is no table")
    shares = one.rewards.mean(axis=0)
    return {"random": float(1.0 - shares.mean()), "best_constant": float(1.0 - shares.max())}


def constants_of(method: str, name: str, sources: Sequence[Source]) -> dict[str, float]:
    """The constants that the reports use: those chosen for tables, the defaults elsewhere."""
    if method in CONSTANTS:
        return {"constant": CONSTANTS[method]}
    if method == "abse-printed":
        return {"width": 4.0}
    if name not in CLASSIFICATION_TABLES:
        return {}
    return CHOSEN.get(method + "+" if sources else method, {})


def _learner(
    method: str, one: World | PeopleWorld, epsilon: float, n_users: int, seed: int, given: Mapping[str, Any]
) -> ABSE | LDPGradientBandit:
    size = {"dim": one.dim, "n_arms": one.n_arms}
    if method in ABSES:
        return ABSE(**size, n_users=n_users, **given)
    # twice as many hidden units as columns, as in the authors' public code
    model = LogisticModel(**size) if method == "linear" else NeuralModel(**size, width=2 * one.dim, seed=seed)
    constants = GradientConstants(**given)
    return LDPGradientBandit(model=model, epsilon=epsilon, n_users=n_users, seed=seed, constants=constants)


def _report_sources(
    learner: LDPGradientBandit, sources: Sequence[tuple[PeopleSource | SourceWorld, int, float]], seed: int
) -> None:
    """The jump-start: every source's users report before the first user of the target comes."""
    for place, (people, n, epsilon) in enumerate(sources):
        rng = np.random.default_rng([seed, 5, place])
        contexts, means, arms = people.draw(n, rng)
        rewards = (rng.random(n) < means[np.arange(n), arms]).astype(np.float64)
        learner.learn_source(contexts, arms, rewards, epsilon=epsilon)


def at_marks(totals: FloatArray, step: int, n_users: int) -> FloatArray:
    """Average regret at the marks, linear between versions."""
    seen = np.minimum(step * np.arange(len(totals) + 1), n_users)
    sums = np.concatenate([[0.0], totals.cumsum()])
    marks = n_users * np.arange(1, MARKS + 1) / MARKS
    return np.asarray(np.interp(marks, seen, sums) / marks)
