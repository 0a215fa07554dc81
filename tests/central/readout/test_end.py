"""The early end of a readout: what is released then, once, and who is served by whom afterwards."""

from datetime import timedelta

import numpy as np
import pytest
from scipy.special import ndtri

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.readout.groups import CONTROL, Groups
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.models.readout.boundaries import planned_levels
from dpbandits.policy import PublicCoins
from dpbandits.privacy import JointDP, SimulatedNoise

PEOPLE = dpb.Schema(region=dpb.Categories(["north", "south"]))
ARMS = ["mail", "nothing"]


def policy(*, readout=None, delay=0, epsilon=45.0, **changes):
    given = {"control": dpb.Control(arm="nothing", share=0.3), "looks": 4, "segments": "region"}
    return GPBandit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=400 + (delay if isinstance(delay, int) else 0),
        privacy=JointDP(epsilon=epsilon, delta=1e-6, user_ids=False),
        tuning=GPTuning(release="marginals", blocks=[60, 250], reporting_delay=delay),
        readout=dpb.Readout(**(given | (readout or {}))),
        noise=SimulatedNoise(5),
        seed=4,
        **changes,
    )


def drive(one, rounds, *, reward=lambda arm: float(arm == "mail"), region="north"):
    batch = one.ask_batch({"region": [region] * rounds})
    one.tell_batch(batch.ids, [reward(arm) for arm in batch.arms])
    return batch


def test_the_running_look_becomes_the_last_and_is_released_once():
    one = policy()
    drive(one, 150)
    assert one.readout().readings.looks == 1
    found = one.end_readout()
    assert (found.readings.looks, found.readings.planned_looks) == (2, 4)
    assert sum(found.readings.rounds) == 150
    assert found.reached == 150 / 400
    assert "The comparison ended early" in found.sentence
    assert "only if nobody ended the comparison because of an earlier look" in found.sentence
    assert [one.enough for one in found.segments] == [True, False]
    assert found.by_look()[-1].to_json() == found.readings.to_json()
    drive(one, 200)
    for again in (one.end_readout(), one.readout()):
        assert again.to_json() == found.to_json()
    assert len(one.released_looks()) == 2


def test_afterwards_the_policy_serves_everybody_and_learns_from_its_group_alone():
    held = Groups(PublicCoins(4), 0.3, by_user=False).of([], 0, 400) == CONTROL

    def run(*, replaced):
        one = policy()
        drive(one, 100)
        one.end_readout()
        batch = one.ask_batch({"region": ["north"] * 160})
        rewards = np.where(replaced & held[100:260], 0.0, [float(arm == "mail") for arm in batch.arms])
        one.tell_batch(batch.ids, rewards)
        later = one.ask_batch({"region": ["north"] * 100})
        return one, batch, later

    (one, batch, later), (other, _, _) = run(replaced=False), run(replaced=True)
    assert {group for group, own in zip(batch.groups, held[100:260], strict=True) if own} == {None}
    assert set(later.arms) == {"mail"}  # also for those who would be in the control group
    assert one.blocks_released == other.blocks_released == 2
    np.testing.assert_array_equal(one.released, other.released)


def test_an_end_that_could_not_be_stored_is_not_shown_and_released_once(tmp_path, monkeypatch):
    with GPBandit.open(tmp_path / "live", new=policy()) as one:
        drive(one, 150)
        with monkeypatch.context() as broken:

            def full(*_, **__):
                raise OSError("full")

            broken.setattr("dpbandits.state.holder.Holder.commit", full)
            for _ in range(2):
                with pytest.raises(OSError, match="full"):
                    one.end_readout()
            with pytest.raises(OSError, match="full"):
                drive(one, 1)
        found = one.end_readout()
        drive(one, 30)
    with GPBandit.open(tmp_path / "live") as one:
        assert one.end_readout().to_json() == one.readout().to_json() == found.to_json()
        batch = drive(one, 100)
        assert "control" not in batch.groups
        np.testing.assert_array_equal(one.end_readout().tables[0].sums, found.tables[0].sums)


def test_a_process_that_dies_before_the_end_is_stored_has_ended_nothing(tmp_path, monkeypatch):
    one = policy()
    one.save(tmp_path / "state")
    drive(one, 150)
    one.readout()
    with monkeypatch.context() as dying:

        def dies(*_, **__):
            raise KeyboardInterrupt

        dying.setattr("dpbandits.state.holder.Holder.commit", dies)
        with pytest.raises(KeyboardInterrupt):
            one.end_readout()
    loaded = GPBandit.load(tmp_path / "state")
    assert (loaded.readout().readings.looks, loaded.readout().segments) == (1, ())
    drive(loaded, 250)
    assert loaded.readout().readings.looks == 4
    assert loaded.readout().segments


def test_rounds_without_their_delay_stay_out_of_the_last_look():
    one = policy(delay=20)
    drive(one, 10)
    with pytest.raises(ProtocolError, match="no round has passed"):
        one.end_readout()
    drive(one, 110)
    found = one.end_readout()
    assert sum(found.readings.rounds) == 100
    assert found.reached is None  # the last look ended where it was planned
    drive(one, 200)
    assert one.end_readout().to_json() == found.to_json()
    timed = policy(delay=timedelta(hours=1))
    batch = timed.ask_batch({"region": ["north"] * 150}, at=0.0)
    timed.tell_batch(batch.ids, np.ones(150), at=1.0)
    with pytest.raises(InvalidParameter, match="confidence"):
        timed.end_readout(confidence=2)
    with pytest.raises(ProtocolError):
        timed.readout(at=2.0)
    assert sum(timed.end_readout(at=2.0).readings.rounds) == 150


def test_a_rule_that_stops_the_readout_releases_the_segments():
    stop = dpb.Stop(harm="reward", above=0.1, then="control")
    one = policy(readout={"stop": stop})
    drive(one, 101)
    found = one.readout()
    assert (found.stopped, found.readings.looks) == (1, 1)
    assert found.segments[0].enough
    drive(one, 250)
    for again in (one.readout(), one.end_readout()):
        assert again.to_json() == found.to_json()


def test_an_end_after_the_last_look_changes_nothing_and_other_policies_have_none():
    one = policy()
    drive(one, 400)
    found = one.readout()
    assert one.end_readout().to_json() == found.to_json()
    assert "ended early" not in found.sentence
    plain = GPBandit(
        contexts=PEOPLE, arms=ARMS, reward_range=(0, 1), horizon=100, privacy=JointDP(epsilon=1, delta=1e-6)
    )
    with pytest.raises(ProtocolError, match="built without readout="):
        plain.end_readout()


@pytest.mark.parametrize("early", [True, False])
def test_whoever_ends_a_comparison_because_of_a_look_excludes_the_truth_no_more_often(early):
    """The end comes just after a look whose sum is almost at the next look's boundary."""
    rng, looks, more, side = np.random.default_rng(1), 4, 0.02, 0.025
    paths, last = np.cumsum(rng.standard_normal((60_000, looks)), axis=1), rng.standard_normal(60_000)
    edges = -ndtri(planned_levels(np.ones(looks), looks, side=side))
    excluded, ended = np.zeros(len(paths), dtype=bool), np.zeros(len(paths), dtype=bool)
    for k in range(1, looks + 1):
        excluded |= ~ended & (np.abs(paths[:, k - 1]) > edges[k - 1] * k**0.5)
        if k < looks:
            ends = ~ended & (np.abs(paths[:, k - 1]) > (edges[k] - 0.1) * k**0.5)
            total = k + more
            increments, reached = np.append(np.ones(k), more), total / looks if early else None
            edge = -ndtri(planned_levels(increments, looks, side=side, reached=reached)[-1])
            excluded |= ends & (np.abs(paths[:, k - 1] + more**0.5 * last) > edge * total**0.5)
            ended |= ends
    assert (excluded.mean() < 2 * side) == early  # 3.2%, and 6.5% if the last look spends as a whole one
