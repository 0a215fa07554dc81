"""Rounds whose raw data was erased before their block was released."""

from bisect import bisect_right
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.policy.decision import Decision
from dpbandits.service.engines import ServedBandit

N, ERASED = 24, 9
CONTEXTS = np.random.default_rng(5).random((N, 2))


def built(release: str, lag: int = 0) -> ServedBandit:
    census, release = release == "census", "marginals" if release == "census" else release
    pure = release == "marginals"
    contexts = {"contexts": dpb.Schema(x=dpb.Range(0, 1), y=dpb.Range(0, 1)), "arms": ["a", "b"]}
    kernel = dpb.kernels.SquaredExponential(lengthscale=0.3)
    box = {"domain": dpb.Box(low=[0, 0], high=[1, 1]), "kernel": kernel}
    of = box if release == "cells" else contexts
    return ServedBandit(
        **of,
        reward_range=(0, 1),
        horizon=2 * N,
        privacy=dpb.JointDP(epsilon=1, delta=0 if pure else 1e-6),
        noise=dpb.SimulatedNoise(3),
        tuning=GPTuning(release=release, blocks=[6, N, 2 * N], lag=lag, census=census),
    )


def wide(lag: int) -> ServedBandit:
    """Contexts of many columns, whose interactions are learned once a table holds both columns."""
    return ServedBandit(
        contexts=dpb.Schema(**{f"c{number}": dpb.Range(0, 1) for number in range(22)}),
        arms=["a", "b", "c", "d", "e"],
        reward_range=(0, 1),
        horizon=2 * N,
        privacy=dpb.JointDP(epsilon=300, delta=1e-6),
        noise=dpb.SimulatedNoise(3),
        tuning=GPTuning(release="marginals", blocks=[6, N, 2 * N], lag=lag),
    )


def asked(policy: ServedBandit, start: int, stop: int, *, unreadable: int = 0) -> list[str]:
    """Ids of decisions; the first ones are brought nothing that can be read."""
    ids = []
    for number in range(start, stop):
        point = np.full(2, np.nan) if number < unreadable else CONTEXTS[number % N]
        batch = policy.ask_batch(point[None] if policy.menu else point[None, None], users=[number])
        ids.append(batch.ids[0])
    return ids


def test_whoever_builds_a_policy_does_not_meet_what_the_service_needs() -> None:
    own = {"erase_rounds", "follow", "release_next"}
    assert own <= set(dir(ServedBandit))
    assert not own & set(dir(dpb.central.GPBandit))


@pytest.mark.parametrize("release", ["features", "cells", "marginals", "census", "many columns"])
@pytest.mark.parametrize("lag", [0, 3])
def test_whoever_follows_decides_as_whoever_releases(release: str, lag: int) -> None:
    """Decisions after a release that was read from JSON, as a worker reads it."""
    build = partial(wide, lag) if release == "many columns" else partial(built, release, lag)
    policy, follower = build(), build()
    points = np.random.default_rng(2).random((2 * N, 4, 2 if policy.menu is None else policy.domain.dim - 1))
    texts: list[str] = []
    chosen: list[int | None] = []

    def decided(by: ServedBandit, number: int) -> Decision:
        if by.menu is None:
            return by.ask(points[number], user=number)
        return by.ask(dict(zip(by.menu.contexts.names, points[number, 0], strict=True)), user=number)

    for number in range(2 * N):
        if number in policy.batch_boundaries:
            texts.append(policy.publish().to_json())
        decision = decided(policy, number)
        chosen.append(decision.index)
        policy.tell(decision.id, float(number % 3 == 0))
    assert len(texts) == 2
    assert len({*chosen[6 + lag :]}) > 1  # there is something to agree about

    @cache
    def release_of(version: int) -> PublishedPosterior | None:
        return PublishedPosterior.from_json(texts[version - 1]) if version else None

    named = {"dim": policy.domain.dim, "horizon": 2 * N, "rounds_per_user": 1, "user_ids": True}
    book = RoundBook(**named, lineage="12345678")
    follower.follow(book, lambda slot: release_of(bisect_right(policy.batch_boundaries, slot)))
    assert [decided(follower, number).index for number in range(2 * N)] == chosen


@pytest.mark.parametrize("release", ["features", "cells", "marginals"])
@pytest.mark.parametrize("lag", [0, 3])
def test_they_count_as_rounds_that_could_not_be_read(release: str, lag: int) -> None:
    """The second block's release is, to the bit, that of people whose contexts could not be read."""
    found = []
    for erase in (True, False):
        policy = built(release, lag)
        policy.tell_batch(asked(policy, 0, 6), np.linspace(0, 1, 6))
        asked(policy, 6, 6 + lag, unreadable=0 if erase else 6 + ERASED)
        policy.release_next()
        ids = asked(policy, 6 + lag, N - 1, unreadable=0 if erase else 6 + ERASED)
        if erase:
            policy.tell_batch(ids[: ERASED - lag], np.ones(ERASED - lag))
            policy.erase_rounds(6 + ERASED)
        policy.tell_batch(ids[ERASED - lag :], np.linspace(0, 1, N - 7 - ERASED))
        asked(policy, N - 1, N + lag + 1)
        assert policy.diagnostics()["blocks_released"] == 2
        found.append(policy.released)
    np.testing.assert_array_equal(*found)


def test_nothing_of_them_is_kept_and_all_else_is(tmp_path: Path) -> None:
    with ServedBandit.open(tmp_path, new=built("features")) as policy:
        ids = asked(policy, 0, 12)
        policy.tell_batch(ids[6:10], [0.7358294617] * 4)
        policy.erase_rounds(10)
        pending = policy.pending
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert np.float64(0.7358294617).tobytes() not in kept
    assert [CONTEXTS[number].tobytes() in kept for number in range(6, 12)] == [False] * 4 + [True] * 2
    with ServedBandit.open(tmp_path) as policy:
        assert policy.pending == pending == tuple(ids[10:])
        with pytest.raises(InvalidData, match="refused"):
            policy.tell(ids[7], 1.0)
        with pytest.raises(dpb.errors.ContributionExceeded):
            policy.ask(CONTEXTS[0], user=7)
        assert policy.tell(ids[11], 1.0).value == "counted"
        policy.erase_rounds(10)  # again, and of more rounds than there are
        policy.erase_rounds(10_000)
        assert policy.pending == ()
        with pytest.raises(InvalidParameter, match="before"):
            policy.erase_rounds(-1)
