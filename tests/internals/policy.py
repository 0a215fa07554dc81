"""The inside of a central policy, for tests that nothing of it shows and that it is what it must be."""

import hashlib

import numpy as np

from dpbandits.central import GPBandit
from dpbandits.policy import PublicCoins
from dpbandits.privacy.cell_sums import CellSums

__all__ = [
    "at_every_draw",
    "book",
    "drawn",
    "durable_looks",
    "failing_fit",
    "failing_posterior",
    "fingerprint",
    "fix_releases",
    "give_salt",
    "interrupt_after_note",
    "kept_nodes",
    "lineage",
    "mechanism",
    "mechanism_record",
    "posterior",
    "raw_arrays",
    "raw_rounds",
    "raw_sums",
    "replay",
    "row_sums",
    "shown_in_a_notebook",
    "spy_on_coins",
    "store",
    "streams_kept",
    "turn",
]


def at_every_draw(monkeypatch, policy, happens):
    """Call `happens` wherever a block of a `GPBandit` is about to be drawn."""
    draw = policy._draw

    def after(*arguments):
        happens()
        return draw(*arguments)

    monkeypatch.setattr(policy, "_draw", after)


def book(policy):
    """Who asked, what they were answered and what they told; to check that its repr shows none of it."""
    return policy._book


def durable_looks(policy):
    """Noisy sums of both groups, of each look of a readout that is durable."""
    run = policy._run
    return [one.sums for one in run._looks[: run.settled]]


def failing_fit(monkeypatch, policy):
    """What was released cannot be learned from, until the patch is undone."""
    monkeypatch.setattr(policy, "_fit", lambda: 1 / 0)


def failing_posterior(monkeypatch, policy):
    """As `failing_fit`, also beside the answers."""
    monkeypatch.setattr(policy, "_posterior_of", lambda past: 1 / 0)


def fingerprint(policy):
    """Everything that would be saved, hashed: equal before and after whatever must change nothing."""
    position = policy._holder.position
    arrays = policy._state("lineage", position).arrays
    digest = hashlib.sha256(repr((position, sorted(arrays))).encode())
    for name in sorted(arrays):
        digest.update(repr((name, arrays[name].shape, str(arrays[name].dtype))).encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def fix_releases(monkeypatch, policy):
    """Whatever the data, the noise hides it all: what is released is fixed by how much was before."""

    def mixed(release, block, _raw_sums):
        return np.random.default_rng(block).integers(-(10**7), 10**7, release.mechanism.size)

    def in_cells(_release, sums):
        return np.random.default_rng(policy._past.count).integers(-(10**7), 10**7, sums.shape)

    mechanism = policy._kind.mechanism
    fixed = in_cells if isinstance(mechanism, CellSums) else mixed
    monkeypatch.setattr(type(mechanism), "release", fixed)


def give_salt(policy, salt):
    """Users have the digests, and so the groups, that another policy with this salt gives them."""
    policy._book._users.salt = salt


def interrupt_after_note(monkeypatch, policy):
    """Whoever is asked or tells is interrupted when that is on disk, and before the book has it."""
    note = policy._book.before

    def interrupted(kind, content):
        note(kind, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(policy._book, "before", interrupted)


def lineage(policy):
    """The random name of this life, to be taken out of texts that are compared."""
    return policy._holder.lineage


def raw_rounds(policy):
    """What became of every round, who asked how often, and the rewards, without ids of processes."""
    arrays = policy._book.state_arrays()
    taken = sorted(zip(arrays["book_users"].tolist(), arrays["book_taken"].tolist(), strict=True))
    kept = ("book_clock", "book_status", "book_actions", "book_rewards")
    return [arrays[name].tolist() for name in kept], taken


def raw_arrays(policy):
    """Everything that would be saved and changes with what is asked and told, as bytes by name."""
    return {name: (array.shape, array.tobytes()) for name, array in policy._arrays().items()}


def replay(policy, kind, content):
    """Make a change again that the log of rounds of the policy's folder has."""
    policy._replay(kind, content)


def raw_sums(policy):
    """(blocks, D) integers before any noise, to check what one user moves in them.

    Of sums in cells nothing raw is kept: with noise, whose differences are those of the sums where it is
    simulated.
    """
    past = policy._past
    return getattr(past, "raw_sums", past.released(past.count))


def drawn(policy):
    """Releases that were drawn, whether or not they are durable and have left."""
    return policy._past.released(policy._past.count) if isinstance(policy, GPBandit) else policy._released


def mechanism(policy):
    """What adds the noise of a policy that releases in blocks."""
    return policy._kind.mechanism if isinstance(policy, GPBandit) else policy._mechanism


def mechanism_record(policy):
    """What a policy with one use of noise says of it, before its statement words it."""
    return policy._uses()[0].record


def posterior(policy):
    """What answers come from; None where nothing was released."""
    return policy._posterior


def row_sums(policy):
    """The sums of `ExploreThenCommit` that rows were added to."""
    return policy._shard


def store(policy):
    """Where the state is kept, to make its disk fail."""
    return policy._holder._store


def turn(policy):
    """Hold the policy's lock, as a thread does that learns or answers."""
    return policy._holder.turn()


def kept_nodes(policy):
    """(round, nodes of Dubey2021's present tree by level) that are durable; no nodes before they are."""
    if policy._rounds_out > policy._settled:  # drawn, and not yet on disk: nothing of it has left
        return int(policy._clock[2]), []
    return int(policy._clock[2]), list(policy._nodes)


class _SpyingCoins(PublicCoins):
    """Public coins that remember every draw by (purpose, round)."""

    def __init__(self, seed):
        super().__init__(seed)
        self.seen = {}

    def uniform(self, purpose, start, stop, draws):
        values = super().uniform(purpose, start, stop, draws)
        for offset, row in enumerate(values):
            self.seen[purpose, start + offset] = row.tobytes()
        return values


def shown_in_a_notebook(policy):
    """HTML, as notebooks ask for it."""
    return policy._repr_html_()


def spy_on_coins(policy):
    """From now on, every public draw by (purpose, round), in the dictionary that is returned."""
    policy._coins = _SpyingCoins(policy.seed)
    return policy._coins.seen


def streams_kept(coins):
    """How many generators these public coins hold."""
    return len(coins._streams)
