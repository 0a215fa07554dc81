"""The inside of marginal tables, to check what one user moves before noise, and which noise is asked for."""

import numpy as np

from dpbandits.central.kinds import BlockRows
from dpbandits.central.marginals import noise
from dpbandits.central.marginals.release import Planned
from dpbandits.models.marginals import Design

__all__ = [
    "action_bins",
    "block",
    "census",
    "centre_of",
    "certified",
    "chances",
    "designs",
    "durable_blocks",
    "expected_weights",
    "kept",
    "kind",
    "noiseless",
    "planned",
    "released",
    "sums_and_counts",
    "sums_of",
]


def kind(policy):
    """The kind of release of a policy."""
    return policy._kind


def expected_weights(policy):
    """How many weights an arm its estimate of memory expects after all releases."""
    return policy._kind._expected_weights(policy._kind.blocks)


def action_bins(policy):
    """(K,) bin of each action in the first block."""
    return policy._kind._rows(0)


def chances(policy, point, *, count):
    """The law (K,) of actions at an encoded context, as a release has it, and decisions of `count` rounds."""
    belief = policy._kind._chain[-1].belief
    effects = policy.features.base
    phi = effects.effects(effects.levels(point[None]))
    sets = policy.menu.sets(np.tile(point, (count, 1)))
    decided, _ = policy._kind.choose(policy._posterior, sets, None, 10_000, policy._coins)
    return belief.chances(phi, None)[0], decided


def noiseless(monkeypatch):
    """No noise is added; the rates that were asked for, in order, as (rate, entries)."""
    asked = []

    def nothing(rate, size, words):
        asked.append((rate, size))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noise, "lattice_laplace", nothing)
    return asked


def planned(policy, *, bins, groups, centre=None):
    """A block's design: these groups and bins, and weights (K, m) of the centre."""
    return Planned(Design(policy._kind.law.sizes, bins, groups), centre, policy.features.base)


def answers_by(policy, arrays, people, *, start):
    """Arms given in rounds `start`.. by a fresh policy that has nothing but these releases."""
    kind = policy._kind
    sets = policy.menu.sets(policy.menu.points(people))
    return kind.choose(kind.fit(kind.taken_up(arrays)), sets, None, start, policy._coins)[0]


def block(actions, rewards, *, told=None, refused=None):
    """Rows of a block."""
    count = len(actions)
    told = np.ones(count, dtype=bool) if told is None else told
    refused = np.zeros(count, dtype=bool) if refused is None else refused
    return BlockRows(np.asarray(actions, dtype=float), np.asarray(rewards, dtype=float), told, refused)


def sums_and_counts(policy, rows, design, *, number=0):
    """(K, C) sums and counts of a block, as drawn."""
    past = policy._kind.draw(number, rows, design, policy._kind.nothing())
    return past.blocks[-1].sums, past.blocks[-1].counts


def released(policy, rows, design, *, number=0):
    """Sums and counts of a block, and the sums of every arm if there are any, as drawn."""
    one = policy._kind.draw(number, rows, design, policy._kind.nothing()).blocks[-1]
    return [one.sums, one.counts, *([] if one.alone is None else [one.alone])]


def sums_of(policy):
    """The released sums (K, C) of every block, a row for each arm that the block had."""
    return [one.sums for one in policy._past.blocks]


def counts_of(policy):
    """The released counts of every block, those of all tables one after another."""
    return [one.counts for one in policy._past.blocks]


def census(policy, rows):
    """(ranges, bins) counts of a census, as drawn."""
    return policy._kind.draw(
        0, rows, policy._kind.design(0, None, policy._coins), policy._kind.nothing()
    ).census


def designs(policy):
    """Designs of what was released."""
    return [one.design.tolist() for one in policy._past.blocks]


def durable_blocks(policy):
    """Sums and counts, one after another, of each block whose release is durable."""
    past = policy._past
    ends = [len(past.released(count)) for count in range(policy.blocks_released + 1)]
    return [past.released(end_of)[start:] for end_of, start in enumerate(ends[:-1], start=1)]


def certified(policy):
    """What all releases certify."""
    return policy._kind.certificate


def kept(policy):
    """What a state keeps of releases."""
    return policy._past.arrays()


def centre_of(policy, contexts, design):
    """(n,) what is taken from rewards, in parts of 1024."""
    return policy._kind._centre(contexts, design)
