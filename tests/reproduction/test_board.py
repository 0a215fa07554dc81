"""The board that is shown is whole: every policy, every world, report seeds, and ranks of what is shown."""

import json
from itertools import product
from pathlib import Path

import pytest

from dpbandits.lab.comparing import RIVALS
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.worlds import HARD
from reproduction.studies import board

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "board.json"


@pytest.fixture
def shown():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def test_every_policy_stands_in_every_world(shown):
    worlds = {row["world"] for row in shown["means"]}
    assert set(shown["ranked"]) <= worlds <= set(HARD)
    assert {(row["world"], row["policy"]) for row in shown["means"]} == set(product(worlds, board.COMPARED))
    assert all(row["first_seed"] >= FIRST_REPORT_SEED for row in shown["means"])
    assert all(row["reps"] >= 3 for row in shown["means"])


def test_ranks_are_of_the_means_that_are_shown(shown):
    reward = {(row["world"], row["policy"]): row["reward"] for row in shown["means"]}
    for trust, rows in shown["boards"].items():
        names = [row["policy"] for row in rows]
        assert set(names) == {name for name, rival in RIVALS.items() if rival.trust == trust}
        for world in shown["ranked"]:
            ranks = {row["policy"]: row["ranks"][world] for row in rows}
            assert max(names, key=lambda name: reward[world, name]) == min(
                names, key=lambda name: ranks[name]
            )
        assert [row["rank_sum"] for row in rows] == sorted(sum(row["ranks"].values()) for row in rows)


def test_losses_are_against_our_own_and_the_board_has_eight_worlds(shown):
    assert shown["ranked"] == list(board.RANKED)
    assert len(board.RANKED) == 8
    reward = {(row["world"], row["policy"]): row["reward"] for row in shown["means"]}
    ours = {"central": "GPBandit", "local": "Spec"}
    for row in shown["tests"]:
        against = ours[RIVALS[row["policy"]].trust]
        apart = reward[row["world"], row["policy"]] - reward[row["world"], against]
        assert row["difference"] == pytest.approx(apart)
