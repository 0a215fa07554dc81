"""Devices: one bucket a report, refusals that look at no data, and a budget."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.distributed import Collector, Device, DistributedSpec, PublishedCellArms, Report
from dpbandits.errors import BudgetExceeded, IncompatibleState, InvalidParameter, ProtocolError

PEOPLE = dpb.Schema(age=dpb.Range(0, 100), region=dpb.Categories(["north", "south"]))


def spec_of(k=1, **more):
    return DistributedSpec(
        contexts=PEOPLE,
        arms=["mail", "call"],
        privacy=dpb.DistributedDP(epsilon=1, reports_per_user=k),
        horizon=1000,
        reward_range=(0, 10),
        **more,
    )


def version_of(spec):
    return PublishedCellArms(version=0, arms=np.arange(spec.grid.size) % 2)


SPEC = spec_of()
CELLS = version_of(SPEC)


def reported(context, reward, **more):
    device = Device(SPEC)
    arm = device.choose(CELLS, context, **more)
    return arm, device.report(reward).bucket


def test_a_report_names_the_cell_and_success_or_failure():
    context = {"age": 30, "region": "south"}
    cell = int(SPEC.grid.locate(SPEC.points(context))[0])
    assert reported(context, 10)[1] == 2 * cell
    assert reported(context, 0)[1] == 2 * cell + 1
    assert reported(context, 10)[0] == SPEC.arms[CELLS.arms[cell]] == CELLS.recommend(SPEC, context)
    assert SPEC.length == 2 * SPEC.grid.size + 1


def test_a_reward_between_the_bounds_is_rounded_without_bias():
    context, spec = {"age": 30, "region": "south"}, spec_of(k=1500)
    cell = int(spec.grid.locate(spec.points(context))[0])
    device, cells, found = Device(spec), version_of(spec), Counter()
    for _ in range(1500):
        device.choose(cells, context)
        found[device.report(3.0).bucket] += 1
    assert set(found) == {2 * cell, 2 * cell + 1}
    assert abs(found[2 * cell] / 1500 - 0.3) < 6.0 * (0.21 / 1500) ** 0.5


class Hostile:
    def __getitem__(self, name):
        raise RuntimeError("a private value")


NOTHING = [
    ({"age": float("nan"), "region": "north"}, 1.0, {}),
    ({"age": 30, "region": "nowhere"}, 1.0, {}),
    ({}, 1.0, {}),
    (Hostile(), 1.0, {}),
    ({"age": 30, "region": "south"}, None, {}),
    ({"age": 30, "region": "south"}, float("nan"), {}),
    ({"age": 30, "region": "south"}, "10", {}),
    ({"age": 30, "region": "south"}, 10.0, {"available": []}),
    ({"age": 30, "region": "south"}, 10.0, {"available": 7}),
]


@pytest.mark.parametrize(("context", "reward", "more"), NOTHING)
def test_whatever_cannot_be_read_goes_to_the_bucket_for_nothing_to_say(context, reward, more):
    arm, bucket = reported(context, reward, **more)
    assert arm in SPEC.arms
    assert bucket == SPEC.silent


def test_an_arm_that_is_not_available_is_replaced_and_the_report_says_nothing():
    context = {"age": 30, "region": "south"}
    other = next(arm for arm in SPEC.arms if arm != CELLS.recommend(SPEC, context))
    assert reported(context, 10.0, available=[other]) == (other, SPEC.silent)


def test_values_outside_the_bounds_are_clipped():
    young, old = {"age": -5, "region": "north"}, {"age": 0, "region": "north"}
    assert reported(young, 99)[1] == reported(old, 10)[1]


def test_one_choice_makes_one_report_and_the_budget_ends():
    spec = spec_of(k=2)
    device, cells = Device(spec), version_of(spec)
    for _ in range(2):
        device.choose(cells, {"age": 1, "region": "north"})
        first = device.report(10.0)
        assert device.report(0.0) is first
    with pytest.raises(BudgetExceeded):
        device.choose(cells, {"age": 1, "region": "north"})
    assert device.decide(cells, {"age": 1, "region": "north"}) in SPEC.arms


@pytest.mark.parametrize(("k", "epsilon"), [(3, 0.1), (7, 0.1), (11, 0.1), (2, 4.0), (7, 100.0)])
def test_a_share_of_epsilon_that_is_no_decimal_still_covers_k_reports(k, epsilon):
    spec = DistributedSpec(
        contexts=PEOPLE,
        arms=[0, 1],
        privacy=dpb.DistributedDP(epsilon=epsilon, reports_per_user=k),
        horizon=1000,
    )
    device, version = Device(spec), PublishedCellArms(version=0, arms=np.zeros(spec.grid.size, dtype=int))
    for _ in range(k):
        device.choose(version, {})
        device.report(None)
    with pytest.raises(BudgetExceeded):
        device.choose(version, {})


def test_the_budget_survives_in_a_file(tmp_path):
    spec = spec_of(k=2)
    for _ in range(2):
        account = dpb.SQLiteLedger(tmp_path / "ledger").account("reports")
        device = Device(spec, account=account)
        device.choose(version_of(spec), {})
        device.report(None)
    with pytest.raises(BudgetExceeded):
        Device(spec, account=account).choose(version_of(spec), {})


def test_refusals_look_at_no_data():
    device = Device(SPEC)
    with pytest.raises(ProtocolError, match="no choice is open"):
        device.report(1.0)
    with pytest.raises(InvalidParameter):
        device.choose("version", Hostile())
    with pytest.raises(IncompatibleState):
        device.choose(PublishedCellArms(version=0, arms=np.zeros(3, dtype=int)), Hostile())
    last = PublishedCellArms(version=len(SPEC.reports_per_version), arms=CELLS.arms)
    with pytest.raises(ProtocolError, match="decide"):
        device.choose(last, Hostile())
    device.choose(CELLS, Hostile())
    with pytest.raises(ProtocolError, match="report the earlier choice"):
        device.choose(CELLS, Hostile())


def test_a_report_is_refused_before_its_reward_is_read_as_the_statement_says():
    account, version = dpb.budget.MemoryLedger().account("reports"), Collector(SPEC).publish()
    first, second = Device(SPEC, account=account), Device(SPEC, account=account)
    for device in (first, second):  # the account covers the report of one of them
        device.choose(version, {"age": 30, "region": "north"})
    first.report(1.0)
    for reward in (1.0, None, "?", np.nan):
        with pytest.raises(BudgetExceeded, match="nothing was charged"):
            second.report(reward)
    (said,) = (one for one in SPEC.statement().assumptions if one.name == "data-independent refusals")
    assert "before it reads context or reward" in said.text


def test_nothing_shows_a_bucket():
    report = Report(3, bytes(16), 17)
    assert "17" not in repr(report)
    device = Device(SPEC)
    device.choose(CELLS, {"age": 33, "region": "south"})
    device.report(7.0)
    assert repr(device) == "Device(epsilon=1.0, reports=1)"


def test_a_version_is_written_and_read():
    estimate = Collector(SPEC).estimate()
    again = PublishedCellArms.from_json(estimate.to_json(SPEC), SPEC)
    assert np.array_equal(again.arms, estimate.arms)
    assert np.array_equal(again.mean, estimate.mean)
    other = spec_of(seed=4)
    for text in (estimate.to_json(other), "{}", "[1]", '{"kind": "PublishedCellArms"}', 3):
        with pytest.raises(IncompatibleState):
            PublishedCellArms.from_json(text, SPEC)


def test_a_spec_is_written_and_read_and_checked():
    assert DistributedSpec.from_json(SPEC.to_json()) == SPEC
    for text in ("{}", "[]", SPEC.to_json().replace('"format": 1', '"format": 2'), 5):
        with pytest.raises(IncompatibleState):
            DistributedSpec.from_json(text)
    assert sum(SPEC.reports_per_version) == SPEC.horizon
    assert SPEC.task(1) == (1, SPEC.length, 100)
    with pytest.raises(InvalidParameter, match="horizon is 99, expected from 100"):
        dataclasses.replace(SPEC, horizon=99)
    assert min(SPEC.reports_per_version) >= 100
    with pytest.raises(InvalidParameter, match="version"):
        SPEC.task(len(SPEC.reports_per_version))
    many = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(30)})
    with pytest.raises(InvalidParameter, match="30 columns and 100 arms need 6000 places"):
        DistributedSpec(contexts=many, arms=range(100), privacy=dpb.DistributedDP(epsilon=1), horizon=10**6)
    with pytest.raises(InvalidParameter, match="growth"):
        dpb.distributed.DistributedTuning(growth=1)
