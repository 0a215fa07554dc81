"""Cumulative regret of deciding from the first user on, by phases (item `phases`).

`PhasedExploreThenCommit` on fresh RKHS worlds; beside it a random action and the best fixed time to stop
exploring (a first phase alone, its share of the horizon in hindsight). Mean loss a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.explore_then_commit.phased import PhasedExploreThenCommit, PhasedTuning
from dpbandits.lab.study import Cell, Choice, Item, Record, Row
from dpbandits.lab.worlds.rkhs import RKHSWorld, rkhs_setting
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["ITEM", "PhaseCell", "losses"]

DELTA = 1e-6
ONE_PHASE_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)


def losses(
    world: RKHSWorld, *, horizon: int, epsilon: float, phases: Sequence[int] | None = None
) -> FloatArray:
    """(T,) expected loss of every round of one run."""
    setting = world.setting
    policy = PhasedExploreThenCommit(
        kernel=setting.kernel,
        actions=setting.actions,
        contexts=setting.contexts,
        reward_range=setting.reward_range,
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        tuning=PhasedTuning(phases=phases),
        user_ids=False,
        noise=SimulatedNoise(world.seed),
        seed=world.seed,
    )
    lost = np.empty(horizon)
    edges = (0, *policy.phases, horizon)
    for start, stop in pairwise(edges):
        cells = world.contexts(start, stop)
        batch = policy.ask_batch(setting.contexts.points[cells])
        policy.tell_batch(batch.ids, world.rewards(start, stop, batch.indices))
        lost[start:stop] = world.means.max(axis=0)[cells] - world.means[batch.indices, cells]
    return lost


@dataclass(frozen=True, kw_only=True)
class PhaseCell(Cell):
    """Phases, single first phases and random actions in the same world a seed.

    Attributes:
        setting: see `SETTINGS`.
        rounds: T.
        epsilon: at delta = 1e-6.
    """

    setting: str
    rounds: int
    epsilon: float

    counts = ("worlds", "first seed")
    fields: ClassVar = {"world": "setting"}
    measures: ClassVar = {name: (name, f"{name} s.e.") for name in ("phases", "one phase", "random")}

    @property
    def label(self) -> Row:
        """As rows have it."""
        return {"setting": self.setting, "T": self.rounds, "epsilon": self.epsilon}

    @property
    def settings(self) -> dict[str, Any]:
        """Delta and the shares."""
        return {"delta": DELTA, "shares": ONE_PHASE_SHARES}

    def simulate(self, seed: Seed) -> Record:
        """Mean loss a round; of a single phase at every share."""
        world = rkhs_setting(self.setting).world(seed)
        own: dict[str, Any] = {"horizon": self.rounds, "epsilon": self.epsilon}
        ends = [round(share * self.rounds) for share in ONE_PHASE_SHARES]
        return {
            "phases": float(losses(world, **own).mean()),
            "one phase": [float(losses(world, **own, phases=[end]).mean()) for end in ends],
            "random": world.random_loss,
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Means over worlds and their standard errors; of single phases the best over all worlds."""
        (row,) = super().rows(records)
        best = int(np.argmin(row["one phase"]))
        for name in self.measures["one phase"]:
            row[name] = row[name][best]
        return [row]


def _cells(choice: Choice) -> list[PhaseCell]:
    return [
        PhaseCell(setting=setting, rounds=rounds, epsilon=epsilon)
        for setting in choice.worlds or ("SE .2 in 1+1",)
        for rounds in choice.rounds or (10_000, 100_000)
        for epsilon in choice.epsilons or (0.5, 1.0, 5.0)
    ]


ITEM = Item(
    about="regret from the first user on, by phases",
    cells=_cells,
    key=("setting", "T", "epsilon"),
    shown=(
        "setting | T:, | epsilon:g | phases:.4f | phases s.e.:.4f | one phase:.4f"
        " | one phase s.e.:.4f | random:.4f"
    ),
)
