"""Value of sources for a locally private target: the table of the page on transfer (item `transfer`).

Report seeds only (from 5,000,000); constants were chosen on tuning worlds and seeds. Everything here is an
evaluation with simulated noise.
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource, simulate_transfer
from dpbandits.lab.study import Cell, Record
from dpbandits.lab.worlds.contextual import REPORT_WORLDS
from dpbandits.lab.worlds.transfer import Behaviour, SourceWorld
from dpbandits.local.contract.sources import SourceChooser
from dpbandits.local.contract.spec import LearnerName
from reproduction.experiments import Choice, Item, grid
from reproduction.local_worlds import world
from reproduction.ma2025.local import unit_spec
from reproduction.ma2025.sharing import simulate_tasks

__all__ = ["CASES", "ITEMS", "TransferCase", "TransferCell", "regret"]


@dataclass(frozen=True, kw_only=True)
class TransferCase:
    """One row.

    Attributes:
        text: Text of the row.
        policy: Policy of the target.
        n_users: Number of users of the source; 0 for no source.
        epsilon: Epsilon of the source.
        gamma: exponent of its contexts.
        kappa: K times the least probability of an arm.
        behaviour: its policy.
        shifted: True if its arms have the mean rewards of other arms.
        chooser: who chose the arms: its behaviour policy, or its server.
        span: target users over which its reports come; 0: all before.
        targets: this many targets share what they learn instead.
        floating: the paper's noise.
    """

    text: str
    policy: LearnerName = "tree"
    n_users: int = 0
    epsilon: float = 8.0
    gamma: float = 0.0
    kappa: float = 1.0
    behaviour: Behaviour = "even"
    shifted: bool = False
    chooser: SourceChooser = "behaviour"
    span: int = 0
    targets: int = 1
    floating: bool = False


_SOURCES = {
    "good": TransferCase(text="5,000 at epsilon 8", n_users=5000),
    "harmful": TransferCase(
        text="5,000 at epsilon .5, gamma 5, avoiding the best arm",
        n_users=5000,
        epsilon=0.5,
        gamma=5.0,
        kappa=0.1,
        behaviour="avoid-best",
    ),
    "weak": TransferCase(text="5,000 at epsilon 1", n_users=5000, epsilon=1.0),
    "weak-server": TransferCase(
        text="5,000 at epsilon 1, arms by its server", n_users=5000, epsilon=1.0, chooser="server"
    ),
    "far": TransferCase(text="5,000 at epsilon 8, gamma 5, kappa .3", n_users=5000, gamma=5.0, kappa=0.3),
    "avoiding": TransferCase(
        text="5,000 at epsilon 8, avoiding the best arm", n_users=5000, kappa=0.1, behaviour="avoid-best"
    ),
    "streamed": TransferCase(text="5,000 at epsilon 8, during the first half", n_users=5000, span=5000),
    "shifted": TransferCase(text="5,000 at epsilon 8 with other arms' rewards", n_users=5000, shifted=True),
}

CASES = {
    "none": TransferCase(text="no source"),
    "none-smooth": TransferCase(text="no source, policy `smooth`", policy="smooth"),
    **_SOURCES,
    "two-targets": TransferCase(text="two targets of 10,000 that share", targets=2),
    "questions-none": TransferCase(text="no source, learner `questions`", policy="questions"),
    **{
        f"questions-{name}": replace(case, text=f"`questions`, {case.text}", policy="questions")
        for name, case in _SOURCES.items()
    },
    "published-none": TransferCase(text="Algorithm 2 as printed", policy="ma2025", floating=True),
    "published-good": TransferCase(
        text="Algorithm 3 as printed, 5,000 at epsilon 8", policy="ma2025", n_users=5000, floating=True
    ),
}
"""Rows by name. Targets have 10,000 users at epsilon = 1."""


def regret(case: TransferCase, name: str, *, n_users: int, epsilon: float, seed: Seed) -> float:
    """Average regret of the target's users."""
    one, published = world(name), case.policy == "ma2025"
    spec = unit_spec(
        one,
        epsilon=epsilon,
        learner=case.policy,
        mechanism="paper-laplace" if published else "auto",
        chooser="client" if published else "server",
        n_users=n_users,
    )
    if case.targets > 1:
        n = case.targets
        tasks = simulate_tasks([spec] * n, [one] * n, n_users=[n_users] * n, seed=seed)
        return float(np.mean([result.average_regret for result in tasks]))
    sources = []
    if case.n_users:
        of_people = {name: getattr(case, name) for name in ("gamma", "kappa", "behaviour", "shifted")}
        own = {name: getattr(case, name) for name in ("n_users", "epsilon", "chooser", "span")}
        sources.append(SimulatedSource(people=SourceWorld(world=one, **of_people), **own))
    simulated: dict[str, Any] = {"n_users": n_users, "seed": seed, "floating": case.floating}
    return simulate_transfer(spec, one, sources=sources, **simulated).average_regret


@dataclass(frozen=True, kw_only=True)
class TransferCell(Cell):
    """One case in one world.

    Attributes:
        case: one of `CASES`.
        world: by name.
        users: Number of users of the target.
        epsilon: Epsilon of the target.
    """

    case: str
    world: str
    users: int
    epsilon: float

    fields: ClassVar = {"column": "case", "rounds": "users"}
    measures: ClassVar = {"regret": ("average_regret", "stderr"), "seconds": ("cpu_per_run", None)}

    @property
    def settings(self) -> dict[str, Any]:
        """The case in full."""
        return asdict(CASES[self.case])

    def simulate(self, seed: Seed) -> Record:
        """Average regret of the target's users, and the CPU seconds that one run took."""
        started = time.process_time()
        found = regret(CASES[self.case], self.world, n_users=self.users, epsilon=self.epsilon, seed=seed)
        return {"regret": found, "seconds": time.process_time() - started}


@dataclass(frozen=True, kw_only=True)
class BesideTree(TransferCell):
    """A case of the learner `questions`, and what the tree loses on the very same crowds and sources."""

    measures: ClassVar = TransferCell.measures | {
        "tree": ("tree_regret", "tree_stderr"),
        "gap": ("gap", "gap_stderr"),
    }

    def simulate(self, seed: Seed) -> Record:
        """Besides, the tree's average regret, and how much more this learner has."""
        record = super().simulate(seed)
        case = replace(CASES[self.case], policy="tree")
        tree = regret(case, self.world, n_users=self.users, epsilon=self.epsilon, seed=seed)
        return record | {"tree": tree, "gap": record["regret"] - tree}


def _cells(choice: Choice) -> list[Cell]:
    places = {"world": REPORT_WORLDS, "case": CASES, "epsilon": (1.0,), "rounds": (10_000,)}
    cells = grid(TransferCell, **places)(choice)
    return [
        BesideTree(**cell.label) if CASES[cell.label["case"]].policy == "questions" else cell
        for cell in cells
    ]


ITEMS = {
    "transfer": Item(
        about="what sources are worth to this library's own tree",
        cells=_cells,
        key=("case", "world", "users", "epsilon", "reps", "first_seed"),
        shown="case | world | users:, | epsilon:g | average_regret:.4f | stderr:.4f",
        file="transfer",
    )
}
