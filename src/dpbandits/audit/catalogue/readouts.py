"""Audits of a private readout: one user's outcome, whether it was told, and segment, in each group.

A run has `LOOKS` looks, and in each of them one user of the attacked group is replaced. In world 0 the user's
reward is never told, in world 1 it is the highest. This changes sum and count of the look as much as one
user can. Every look has noise of its own, so a run gives `LOOKS` observations.

For segments a run has one look and `PAIRS` pairs of segments, with one replaced user each. In world 0 the
user is in the first segment of the pair and the reward is never told. In world 1 the user is in the second,
with the highest reward. Every segment has noise of its own, so a run gives `PAIRS` observations.
"""

from functools import partial

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import Entries, PreparedNoise, crowded
from dpbandits.audit.claims import SampledAudit
from dpbandits.audit.scores import first_column
from dpbandits.central import Control, GPBandit, GPTuning, Readout
from dpbandits.central.readout.groups import NAMES, Groups
from dpbandits.errors import StateError
from dpbandits.policy import PublicCoins
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Categories, Schema

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

LOOKS, ROUNDS = 64, 20
"""Number of looks of a run, and rounds in each of them, one of which is the control group's."""

SHARE = 0.5
"""Share of the promise for the policy group's sums: the largest, with which an attack sees most."""

PAIRS = 31
"""Number of pairs of segments in a run. Other users are in a further segment."""

_audited = partial(crowded, ENTRIES, scope="policy", kind=SampledAudit, score=first_column)
_in_groups = partial(_audited, share=0.015, neighbours="one user's reward not told, or highest")
_in_segments = partial(
    _audited, share=0.04, neighbours="one user's reward not told, or highest in another segment"
)


def _seen(epsilon: float, seed: int, noise: PreparedNoise, world: int, *, group: str) -> FloatArray:
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


def _seen_in_segments(
    epsilon: float, seed: int, noise: PreparedNoise, world: int, *, group: str
) -> FloatArray:
    control, rounds = 1.0 / ROUNDS, PAIRS * ROUNDS
    policy = GPBandit(
        contexts=Schema(place=Categories(list(range(2 * PAIRS + 1)))),
        arms=["call", "nothing"],
        reward_range=(0.0, 1.0),
        horizon=rounds,
        privacy=JointDP(epsilon=epsilon, user_ids=False),
        seed=seed,
        noise=noise,
        tuning=GPTuning(release="marginals", blocks=[rounds - 1]),
        readout=Readout(
            control=Control(arm="nothing", share=control),
            looks=1,
            share=0.001,
            segments="place",
            segments_share=SHARE - 0.001,
        ),
    )
    code = NAMES.index(group)
    held = Groups(PublicCoins(seed), control, by_user=False).of([], 0, rounds) == code
    replaced, places = np.flatnonzero(held)[:PAIRS], np.full(rounds, 2 * PAIRS)
    places[replaced] = 2 * np.arange(PAIRS) + world
    batch = policy.ask_batch({"place": places})
    if world:
        policy.tell_batch([batch.ids[place] for place in replaced], np.ones(PAIRS))
    tables = policy.readout().tables
    if tables is None:
        raise StateError("the sums in segments were not released")
    own, found = tables[code], np.zeros(PAIRS)
    for released, law, alone in (
        (own.sums, own.sum_law, (-0.5, 0.5)),
        (own.squares, own.square_law, (1.0, 1.0)),
        (own.counts, own.count_law, (1.0, 1.0)),
    ):
        x = released[:-1, 0].reshape(PAIRS, 2)
        zero, one = np.array([alone[0], 0.0]), np.array([0.0, alone[1]])
        found += (np.abs(x - zero) - np.abs(x - one)).sum(axis=1) / law.laplace
    return found[:, None]


@_in_segments("gp-bandit-readout-control-segments", sees="the released sums in segments of the control group")
def _of_control_segments(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _seen_in_segments(epsilon, seed, noise, world, group="control")


@_in_segments("gp-bandit-readout-policy-segments", sees="the released sums in segments of the policy group")
def _of_policy_segments(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    return _seen_in_segments(epsilon, seed, noise, world, group="policy")
