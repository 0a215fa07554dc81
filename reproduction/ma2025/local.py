"""Comparison of Ma2025 with better methods at equal epsilon: `local` and three small items.

Constants come from `reproduction/tuning/local_learners.py`. Everything here is an evaluation with
simulated noise.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Box
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.study import Cell, Record
from dpbandits.lab.worlds.contextual import REPORT_WORLDS, PeopleWorld, World
from dpbandits.local.contract.bins import Chooser
from dpbandits.local.contract.spec import Spec, SpecTuning
from dpbandits.local.device.client import Client
from dpbandits.local.server.server import Server
from dpbandits.privacy.definitions import LocalDP
from reproduction.experiments import Choice, Item, Single
from reproduction.local_worlds import world
from reproduction.ma2025.crowds import ABSE, BinUCB, CrowdLearner, play
from reproduction.ma2025.ldp_gradient import GradientConstants, LDPGradientBandit, LogisticModel

__all__ = [
    "CASES",
    "ITEMS",
    "QUESTION_TARGETS",
    "TARGETS",
    "TUNED_CASES",
    "TUNING_GRID",
    "Case",
    "LocalCell",
    "outcomes",
    "public_code_ratios",
    "reference_regrets",
    "report_speed",
    "spec_for",
    "unit_spec",
]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to learn, as a row of the tables.

    Attributes:
        mechanism: Mechanism of the reports; empty for comparators without privacy. For `linear`, it is the
            name of a mechanism for vectors (`ma2025.ldp_vectors`).
        policy: the rule, or the name of a comparator without bins.
        chooser: who chooses among the arms.
        floating: the paper's floating-point noise instead of the mechanism's exact one.
        versions: a new version is published after users/versions reports, if that is more than asked for.
        constants: Constants of the policy that tuning changed from the defaults.
    """

    mechanism: str = "auto"
    policy: str = "smooth"
    chooser: Chooser = "server"
    floating: bool = False
    versions: int = 10**9
    constants: dict[str, float] = field(default_factory=dict)


# What tuning took where it is not the default of the policy.
_LAPLACE = {"child_sd": 0.434}
_PAPER_LAPLACE = {"temperature": 0.317, "rival": 0.414, "known": 2.11, "child_sd": 0.357, "prior_sd": 0.329}
_PAPER_LAPLACE |= {"settled": 0.951, "smooth_sd": 0.315, "length": 0.496, "rough": 0.178}

_LINEAR = {"clip": 0.35, "warm_up": 0.05, "curvature": 0.03}

CASES: dict[str, Case] = {
    "questions-auto": Case(policy="questions"),
    "questions-laplace": Case(policy="questions", mechanism="laplace"),
    "smooth-auto": Case(),
    "smooth-laplace": Case(mechanism="laplace", constants=_LAPLACE),
    "smooth-paper-laplace": Case(mechanism="paper-laplace", chooser="client", constants=_PAPER_LAPLACE),
    "smooth-signed": Case(mechanism="signed"),
    "smooth-oue": Case(mechanism="oue"),
    "smooth-hadamard": Case(mechanism="hadamard"),
    "smooth-krr": Case(mechanism="krr"),
    "smooth-auto-user": Case(chooser="client"),
    "tree-auto": Case(policy="tree"),
    "tree-laplace": Case(policy="tree", mechanism="laplace", constants={"rival": 0.15}),
    "tree-paper-laplace": Case(policy="tree", mechanism="paper-laplace", chooser="client"),
    "eliminate-auto": Case(policy="eliminate", versions=100),
    "ma2025": Case(mechanism="paper-laplace", policy="ma2025", chooser="client", floating=True, versions=100),
    "linear": Case(mechanism="cap", policy="linear", constants=_LINEAR),
    "abse": Case(mechanism="", policy="abse"),
    "bin-ucb": Case(mechanism="", policy="bin-ucb"),
}
"""Rows of the tables by name."""

TARGETS: dict[str, tuple[float, float, float]] = {
    "ma": (0.092, 0.078, 0.062),
    "diagonal": (0.10, 0.075, 0.055),
    "radial-3d": (0.118, 0.083, 0.056),
    "clustered": (0.026, 0.019, 0.010),
    "small-gaps": (0.033, 0.030, 0.024),
    "cps-income": (0.33, 0.345, 0.365),
}
"""Set beforehand, at epsilon = 1, 2, 4: regret at most, of 40,000 users; for `cps-income` reward at least."""

QUESTION_TARGETS: dict[str, tuple[float | None, float | None, float | None]] = {
    "ma": (0.058, 0.042, 0.010),
    "diagonal": (0.088, 0.060, 0.016),
    "radial-3d": (0.110, 0.082, 0.040),
    "clustered": (0.0253, 0.0185, 0.0092),
    "small-gaps": (0.032, None, None),
    "cps-income": (0.348, 0.365, 0.382),
}
"""Constants of the learner `questions` by case; None leaves the defaults."""

TUNED_CASES = ("smooth-auto", "smooth-laplace", "smooth-paper-laplace", "eliminate-auto")
"""Cases whose constants were chosen by `reproduction/tuning/local_learners.py`, all alike."""

TUNING_GRID: dict[str, tuple[dict[str, float], ...]] = {
    "tree": (
        {},
        {"temperature": 0.36},
        {"temperature": 1.2},
        {"rival": 0.15},
        {"rival": 0.6, "known": 1.0},
        {"known": 1.3},
        {"known": 2.0},
        {"child_sd": 0.35},
        {"prior_sd": 0.2},
    )
}
"""Candidates for the tree that sources start."""


def unit_spec(one: World | PeopleWorld, *, epsilon: float, **own: Any) -> Spec:
    """The contract of a crowd in a world, on the unit cube; `own` goes to the spec and to its tuning."""
    cube = Box(low=[0.0] * one.dim, high=[1.0] * one.dim)
    tuning = SpecTuning(**{part.name: own.pop(part.name) for part in fields(SpecTuning) if part.name in own})
    return Spec(contexts=cube, arms=range(one.n_arms), privacy=LocalDP(epsilon=epsilon), tuning=tuning, **own)


def spec_for(case: Case, name: str, *, epsilon: float, n_users: int, reports: int = 100) -> Spec:
    """The spec of a case in a world; a version takes `reports` reports, or more where the case says so."""
    named = {"mechanism": case.mechanism, "learner": case.policy, "chooser": case.chooser}
    step = max(reports, n_users // case.versions)
    sizes = {"n_users": n_users, "reports_per_version": step}
    return unit_spec(world(name), epsilon=epsilon, **named, **sizes, constants=case.constants)


def outcomes(
    case: Case, name: str, *, epsilon: float, n_users: int, seeds: Sequence[int], reports: int = 100
) -> FloatArray:
    """(len(seeds), 2) average regret and average reward of each run."""
    one = world(name)
    if case.policy in ("abse", "bin-ucb", "linear"):
        fresh = partial(_of_crowd, case, one, epsilon, n_users)
        runs = (play(one, partial(fresh, seed), n_users=n_users, seed=seed) for seed in seeds)
        return np.array([totals.sum(axis=0) / n_users for totals in runs])
    spec = spec_for(case, name, epsilon=epsilon, n_users=n_users, reports=reports)
    results = (simulate(spec, one, n_users=n_users, seed=seed, floating=case.floating) for seed in seeds)
    return np.array([(result.average_regret, result.average_reward) for result in results])


def _of_crowd(case: Case, one: World | PeopleWorld, epsilon: float, n_users: int, seed: int) -> CrowdLearner:
    """Return the learner of a case that does not use reports of bins."""
    size = {"dim": one.dim, "n_arms": one.n_arms}
    if case.policy == "linear":
        constants = GradientConstants(**case.constants)  # type: ignore[arg-type]  # numbers by name
        model = LogisticModel(**size)
        return LDPGradientBandit(
            model=model, epsilon=epsilon, n_users=n_users, seed=seed, constants=constants
        )
    return ABSE(**size, n_users=n_users) if case.policy == "abse" else BinUCB(**size, n_users=n_users)


def reference_regrets(name: str) -> tuple[float, float]:
    """Average regret of uniformly random arms, and of the best constant arm, over 200,000 draws."""
    _, means = world(name).draw(200_000, np.random.default_rng(FIRST_REPORT_SEED))
    best = means.max(axis=1).mean()
    return float(best - means.mean()), float(best - means.mean(axis=0).max())


def public_code_ratios(
    *, epsilon: float, n_users: int, depth: int, n_batches: int, runs: int, seed: int
) -> dict[str, float]:
    """How far the authors' public code understates noise and radius.

    Args:
        epsilon: privacy parameter.
        n_users: users while a bin is active, uniform contexts.
        depth: the bin's depth; it holds 2^-depth of the users.
        n_batches: updates.
        runs: repetitions of the noise sums.
        seed: simulated noise.

    Returns:
        `variance`: measured variance of the honest sum of U over the public code's. `radius`: the radius of
        a sum counted once over the one that the public code's re-added cumulative sums give.
    """
    rng = np.random.default_rng(seed)
    scale = 4.0 / epsilon

    def laplace_sums(n: int) -> FloatArray:
        return scale * (rng.standard_gamma(n, runs) - rng.standard_gamma(n, runs))

    inside = rng.binomial(n_users, 0.5**depth, runs)
    public = np.array([scale * (rng.standard_gamma(k) - rng.standard_gamma(k)) if k else 0.0 for k in inside])
    added = n_batches * (n_batches + 1) // 2
    radius = (math.sqrt(n_batches) / n_batches) / (math.sqrt(added) / added)
    return {"variance": float(laplace_sums(n_users).var() / public.var()), "radius": radius}


def report_speed(mechanism: str, *, n_bins: int, n_reports: int) -> dict[str, Any]:
    """CPU cost of real reports: milliseconds of a choice and a report, reports a second and server memory.

    Devices of a world whose arms are alike report until the server has `n_bins` bins; the last version's
    reports are then timed, sent again under fresh nonces until there are `n_reports`. `questions` is the
    learner of that name under its own mechanism: it asks about its parts from the first version on.
    """
    asks = mechanism == "questions"
    spec = Spec(
        contexts=Box(low=[0.0, 0.0], high=[1.0, 1.0]),
        arms=range(3),
        privacy=LocalDP(epsilon=8.0),
        learner="questions" if asks else "tree",
        tuning=SpecTuning(mechanism="auto" if asks else mechanism, window=0),
    )
    client, server, rng = Client(spec, budget=1e9), Server(spec), np.random.default_rng(0)
    while True:
        policy, batch, choosing, reporting = server.publish(), [], 0.0, 0.0
        for context in rng.random((1000, 2)):
            began = time.process_time()
            client.choose(policy, context)
            chosen = time.process_time()
            batch.append(client.report(0.5))
            choosing, reporting = choosing + chosen - began, reporting + time.process_time() - chosen
        if asks or len(policy.splits) + 1 >= n_bins:
            break
        server.absorb(batch)
    many = [
        report[:9] + (1000 * copy + index).to_bytes(8, "little") + report[17:]
        for copy in range(n_reports // 1000)
        for index, report in enumerate(batch)
    ]
    started = time.process_time()
    accepted = sum(server.absorb(many[start : start + 5000]).accepted for start in range(0, len(many), 5000))
    seconds = time.process_time() - started
    return {
        "mechanism": mechanism,
        "bins": spec.protocol.grids.n_parts if asks else len(policy.splits) + 1,
        "report_bytes": len(batch[0]),
        "choose_ms": choosing,  # seconds for 1,000 choices
        "device_ms": reporting,  # and for 1,000 reports
        "absorbed_per_second": accepted / seconds,
        "server_bytes_per_report": server.memory_bytes / accepted,
    }


@dataclass(frozen=True, kw_only=True)
class LocalCell(Cell):
    """One case in one world.

    Attributes:
        case: one of `CASES`.
        world: by name.
        epsilon: "none" for comparators without privacy.
        n_users: how many.
        reports: that a version takes.
    """

    case: str
    world: str
    epsilon: float | str
    n_users: int
    reports: int = 100

    fields: ClassVar = {"column": "case", "rounds": "n_users"}
    measures: ClassVar = {
        "regret": ("average_regret", "stderr"),
        "reward": ("average_reward", "reward_stderr"),
        "seconds": ("cpu_seconds_per_run", None),
    }

    @property
    def settings(self) -> dict[str, Any]:
        """The case in full."""
        return asdict(CASES[self.case])

    def simulate(self, seed: Seed) -> Record:
        """Average regret and reward of one crowd, and the CPU seconds that it took."""
        started = time.process_time()
        epsilon = math.inf if isinstance(self.epsilon, str) else self.epsilon
        own: dict[str, Any] = {"epsilon": epsilon, "n_users": self.n_users, "reports": self.reports}
        ((regret, reward),) = outcomes(CASES[self.case], self.world, seeds=[seed], **own)
        seconds = time.process_time() - started
        return {"regret": float(regret), "reward": float(reward), "seconds": seconds}


def _local_cells(choice: Choice) -> list[LocalCell]:
    return [
        LocalCell(case=case, world=name, epsilon=epsilon, n_users=n_users)
        for case in CASES
        for name in choice.worlds or REPORT_WORLDS
        for epsilon in ((choice.epsilons or (1.0, 2.0, 4.0)) if CASES[case].mechanism else ("none",))
        for n_users in choice.rounds or (40_000,)
    ]


def _references(name: str) -> Record:
    return dict(zip(("random", "best_constant"), reference_regrets(name), strict=True))


def _reference_cells(choice: Choice) -> list[Single]:
    return [
        Single(column="references", world=name, what={"world": name}, measure=partial(_references, name))
        for name in choice.worlds or REPORT_WORLDS
    ]


_ratios = partial(
    public_code_ratios, epsilon=1.0, n_users=40_000, n_batches=200, runs=4000, seed=FIRST_REPORT_SEED
)
_PUBLIC_CODE = [
    Single(column="public code", what={"depth": depth, "batches": 200}, measure=partial(_ratios, depth=depth))
    for depth in (3, 5, 6, 7)
]


def _seconds(cell: LocalCell) -> Record:
    return {"cpu": cell.simulate(FIRST_REPORT_SEED)["seconds"]}


# (world, case, epsilon, users) of the timed runs.
_TIMED = (
    *(("ma", "eliminate-auto", epsilon, 160_000) for epsilon in (1.0, 8.0)),
    *(("ma", "smooth-auto", epsilon, 160_000) for epsilon in (0.25, 1.0, 4.0, 8.0, 16.0)),
    *(("radial-3d", "smooth-auto", epsilon, 600_000) for epsilon in (1.0, 4.0)),
    *(("ma", "questions-auto", epsilon, n_users) for epsilon in (1.0, 4.0) for n_users in (40_000, 160_000)),
)


def _timed_run(name: str, case: str, epsilon: float, n_users: int) -> Single:
    what: dict[str, Any] = {"case": case, "world": name, "epsilon": epsilon, "n_users": n_users}
    return Single(column=case, world=name, what=what, measure=partial(_seconds, LocalCell(**what)))


def _timed_reports(mechanism: str) -> Single:
    measure = partial(report_speed, mechanism, n_bins=16, n_reports=100_000)
    return Single(column=mechanism, what={"mechanism": mechanism}, measure=measure)


_SPEED = [_timed_run(*run) for run in _TIMED] + [
    _timed_reports(mechanism)
    for mechanism in ("questions", "auto", "signed", "oue", "hadamard", "krr", "laplace")
]

ITEMS = {
    "local": Item(
        about="every way to learn from local reports, in every world",
        cells=_local_cells,
        key=("case", "world", "epsilon", "n_users", "reports", "reps", "first_seed"),
        shown=(
            "case | world | epsilon:g | n_users:, | average_regret:.4f | stderr:.4f"
            " | average_reward:.4f | reward_stderr:.4f"
        ),
        file="local-worlds",
        reps=100,
    ),
    "references": Item(
        about="regret of random arms and of the best constant arm",
        cells=_reference_cells,
        key=("world",),
        shown="world | random:.4f | best_constant:.4f",
        file="local-references",
        seeded=False,
    ),
    "public-code": Item(
        about="how far the authors' public code understates noise and radius",
        cells=_PUBLIC_CODE,
        key=("depth", "batches"),
        shown="depth | batches | variance:.2f | radius:.2f",
        file="local-public-code",
        seeded=False,
    ),
    "speed": Item(
        about="CPU seconds of single runs and of real reports",
        cells=_SPEED,
        key=("case", "world", "epsilon", "n_users", "mechanism"),
        shown=(
            "case | world | epsilon:g | n_users:, | cpu:.3f | mechanism | choose_ms:.3f | device_ms:.3f"
            " | absorbed_per_second:,.0f | server_bytes_per_report:.1f"
        ),
        file="local-speed",
        seeded=False,
    ),
}
