"""The browser's device for two aggregators chooses and reports as Python's does, on every edge of a coin."""

import json
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.distributed import DapTask, Device, DistributedSpec, DistributedTuning, PublishedCellArms
from js.driver import asked, needs_node

pytestmark = [needs_node, pytest.mark.numerics]

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90, missing=40),
    region=dpb.Categories(["north", "south", "west"]),
    score=dpb.Range(-1, 1),
)
SPEC = DistributedSpec(
    contexts=PEOPLE,
    arms=["mail", "call", "nothing"],
    privacy=dpb.DistributedDP(epsilon=2, reports_per_user=3),
    horizon=3000,
    reward_range=(-0.5, 2),
)
VERSION = PublishedCellArms(version=2, arms=np.arange(SPEC.grid.size) % 3)
CONTEXTS = (
    {"age": 18, "region": "north", "score": -1},
    {"age": 90, "region": "west", "score": 1},
    {"age": 57.3, "region": "south", "score": 0.123},
    {"age": 1e9, "region": "south", "score": -7},
    {"age": None, "region": "south", "score": 0},
    {"age": "NA", "region": "west", "score": 0.5},
    {"age": 44, "region": "east", "score": 0},
    {"age": 44, "region": "north"},
    [30, "west", 0.9],
    [30, "west"],
    "nobody",
    None,
)
REWARDS = (-0.5, 0, 0.3, 1, 1.7, 2, 99, True, None, "1", [1])
WORD = 1 << 64


def test_cells_arms_and_coins_are_those_of_the_device_in_python() -> None:
    share = [(min(max(float(one), -0.5), 2.0) + 0.5) / 2.5 for one in REWARDS if isinstance(one, int | float)]
    edges = {int(one * WORD) + step for one in share for step in (-1, 0, 1)} | {0, WORD - 1}
    coins = sorted(one for one in edges if 0 <= one < WORD)
    # every edge for one context, and the contexts for coins of both kinds
    cases = [(CONTEXTS[2], reward, coin) for reward in REWARDS for coin in coins]
    cases += [
        (context, reward, coin) for context in CONTEXTS for reward in (0.3, None) for coin in coins[4:9:2]
    ]
    common = {"what": "bucket", "spec": SPEC.to_json(), "published": VERSION.to_json(SPEC)}
    made = asked(
        [
            common
            | {"context": context, "reward": reward, "random": "00" * 16 + coin.to_bytes(8, "little").hex()}
            for context, reward, coin in cases
        ]
    )
    words: list[int] = []
    found, ledger = [], dpb.budget.MemoryLedger()
    with patch("dpbandits.distributed.device.secure_words", lambda n: np.array(words[-n:], dtype=np.uint64)):
        for number, (context, reward, coin) in enumerate(cases):
            words[:] = [coin]
            device = Device(SPEC, account=ledger.account(f"{number}"))
            arm = device.choose(VERSION, context)
            found.append({"arm": arm, "bucket": device.report(reward).bucket, "left": 0})
    assert made == found
    assert {SPEC.silent} < {one["bucket"] for one in found}


def test_a_page_reads_numbers_as_numbers_alone() -> None:
    """Python's device also reads texts and booleans in columns of numbers; here they say nothing."""
    common = {"what": "bucket", "spec": SPEC.to_json(), "published": VERSION.to_json(SPEC), "reward": 1}
    told = [{"age": age, "region": "north", "score": 0} for age in ("44", True, [44], {})]
    made = asked([common | {"context": context, "random": "00" * 24} for context in told])
    assert [one["bucket"] for one in made] == [SPEC.silent] * 4


def test_an_arm_that_is_not_available_is_replaced_and_the_report_says_nothing() -> None:
    context = {"age": 18, "region": "north", "score": -1}
    common = {
        "what": "bucket",
        "spec": SPEC.to_json(),
        "published": VERSION.to_json(SPEC),
        "context": context,
    }
    made = asked(
        [
            common | {"reward": 1, "available": available, "random": "ff" * 16 + "00" * 16}
            for available in (["call"], ["nothing"], ["mail", "call"], [], ["post"], "mail", 7)
        ]
    )
    assert [one["arm"] for one in made[:3]] == ["call", "nothing", "mail"]
    assert [one["bucket"] for one in made] == [SPEC.silent] * 2 + [0] + [SPEC.silent] * 4


def specs() -> list[DistributedSpec]:
    columns: tuple[dict[str, Any], ...] = (
        {"x": dpb.Range(0, 1)},
        {"x": dpb.Range(0, 1), "c": dpb.Categories(range(7))},
        {"x": dpb.Range(0, 1), "y": dpb.Range(-5, 3), "c": dpb.Categories(["a", "b", "c", "d"])},
        {f"x{j}": dpb.Range(0, 1) for j in range(5)},
        {"c": dpb.Categories(["a", "b"]), "d": dpb.Categories([True, False])},
        {"x": dpb.Range(0, 1), "y": dpb.Range(0, 1), "c": dpb.Categories(range(15))},
    )
    return [
        DistributedSpec(
            contexts=dpb.Schema(**some),
            arms=["a", "b"],
            privacy=dpb.DistributedDP(epsilon=epsilon, reports_per_user=k),
            horizon=horizon,
            tuning=DistributedTuning(cells=cells, first=first, growth=growth, min_batch=min_batch),
        )
        for some in columns
        for epsilon, k, horizon in ((1, 1, 77), (0.1, 7, 4000), (3.3, 2, 10**6), (1, 1, 90))
        for cells, first, growth, min_batch in ((None, 0.02, 1.5, 1), (250, 0.1, 1.05, 77), (64, 0.02, 2, 5))
    ]


def test_grids_versions_and_ids_of_tasks_follow_from_the_spec_as_in_python() -> None:
    every = specs()
    made = asked([{"what": "task", "spec": spec.to_json(), "version": 0} for spec in every])
    tables = [spec.effects is not None for spec in every]
    assert [found.get("refused") == "not offered" for found in made] == tables
    assert 0 < sum(tables) < len(every) / 2
    for spec, found in zip(every, made, strict=True):
        if spec.effects is not None:
            continue
        task = DapTask.of(spec, 0)
        assert found == {
            "length": task.length,
            "chunk": task.chunk,
            "minBatch": task.min_batch,
            "versions": len(spec.reports_per_version),
            "epsilon": spec.privacy.epsilon,
            "reports": spec.privacy.reports_per_user,
            "id": task.name,
        }


def test_what_pages_cannot_read_is_refused_by_its_name() -> None:
    changed = json.loads(SPEC.to_json())
    refusals = (
        ("not offered", {"kind": "Spec"}),
        ("not offered", {"format": 2}),
        ("not offered", {"contexts": {"columns": [{"name": "day", "type": "DateRange"}], "type": "Schema"}}),
        ("malformed", {"privacy": {"kind": "LocalDP", "epsilon": 1, "reports_per_user": 1}}),
        ("malformed", {"reward_range": {"low": 1, "high": 1}}),
        ("malformed", {"arms": []}),
        ("malformed", {"tuning": None}),
    )
    found = asked([{"what": "task", "spec": json.dumps(changed | one), "version": 0} for _, one in refusals])
    assert [one["refused"] for one in found] == [code for code, _ in refusals]
