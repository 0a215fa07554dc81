"""Audits of a private readout: one user's outcome, and whether it was told, in each group.

A run has `LOOKS` looks, and in each of them one user of the attacked group is replaced. In world 0 the user's
reward is never told, in world 1 it is the highest. This changes sum and count of the look as much as one
user can. Every look has noise of its own, so a run gives `LOOKS` observations.
"""

from functools import partial

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import Entries, PreparedNoise, crowded
from dpbandits.audit.claims import SampledAudit
from dpbandits.audit.scores import first_column
from dpbandits.central import Control, GPBandit, GPTuning, Readout
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Categories, Schema

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

LOOKS, ROUNDS = 64, 20
"""Number of looks of a run, and rounds in each of them, one of which is the control group's."""

SHARE = 0.5
"""Share of the promise for the policy group's sums: the largest, with which an attack sees most."""

_in_groups = partial(
    crowded,
    ENTRIES,
    scope="policy",
    kind=SampledAudit,
    score=first_column,
    share=0.015,
    neighbours="one user's reward not told, or highest",
)


def _seen(epsilon: float, seed: int, noise: PreparedNoise, world: int, *, group: str) -> FloatArray:
    """Return log likelihood ratios (looks, 1) of a group's released sums and counts."""
    policy = GPBandit(
        contexts=Schema(place=Categories(["here", "there"])),
        arms=["call", "nothing"],
        reward_range=(0.0, 1.0),
        horizon=LOOKS * ROUNDS,
        privacy=JointDP(epsilon=epsilon, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=[LOOKS * ROUNDS - 1]),
        readout=Readout(control=Control(arm="nothing", share=1.0 / ROUNDS), looks=LOOKS, share=SHARE),
    )
    for _ in range(LOOKS):
        batch = policy.ask_batch({"place": ["here"] * ROUNDS})
        if world:
            policy.tell(batch.ids[batch.groups.index(group)], 1.0)
    found = []
    for look in policy.released_looks():
        own = look.policy if group == "policy" else look.control
        of_sum, of_answers = own.sum_laws[0].laplace, own.answered_laws[0].laplace
        moved = own.sums[0] + 0.5 * own.rounds
        # the released sum of answers: an answer with the highest reward adds one half
        answers = own.answered - 0.5 * moved
        ratio = (abs(moved) - abs(moved - 1.0)) / of_sum
        found.append(ratio + (abs(answers) - abs(answers - 0.5)) / of_answers)
    return np.array(found)[:, None]


@_in_groups("gp-bandit-readout-control-group", sees="the released sums and counts of the control group")
def _of_control(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _seen(epsilon, seed, noise, world, group="control")


@_in_groups("gp-bandit-readout-policy-group", sees="the released sums and counts of the policy group")
def _of_policy(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _seen(epsilon, seed, noise, world, group="policy")
