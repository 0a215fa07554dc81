"""Comparisons: the same table however they are run, and the arithmetic on it."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab import compare
from dpbandits.lab.comparing import RIVALS, Comparison, Rival, Trial
from dpbandits.lab.comparing.addresses import address_of
from dpbandits.lab.study import Runs
from dpbandits.lab.worlds import camelback, hard

POLICIES = ["CellHistogram", "non-private", "uniform"]


def smooth(seed, people):
    return hard("smooth", seed=seed, horizon=people)


def sizes(seed, people):
    return hard("nugget", seed=seed, horizon=people)


WORLDS = {"smooth": smooth, "nugget": sizes}


def found(**changes):
    return compare(WORLDS, POLICIES, **{"promises": [1.0], "people": [120], "reps": 2} | changes)


@pytest.fixture(scope="module")
def whole():
    """Comparison that ran without interruption."""
    return found()


def without_time(comparison):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in comparison.rows()]


def test_a_row_a_run_and_a_mean_a_cell(whole):
    rows, means = whole.rows(), whole.means()
    assert (len(rows), len(means)) == (12, 6)
    for row in means:
        own = [
            one["reward"] for one in rows if (one["world"], one["policy"]) == (row["world"], row["policy"])
        ]
        assert row["reward"] == pytest.approx(np.mean(own))
    best = next(row for row in means if row["policy"] == "non-private")
    assert best["share"] == pytest.approx(1.0) or np.isnan(best["share"])
    assert next(iter(whole.to_frame().columns)) == "world"


def test_broken_off_it_goes_on_and_gives_the_same_table(tmp_path, whole):
    path = tmp_path / "records.jsonl"
    found(out=tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:20])  # torn while writing
    assert without_time(found(out=tmp_path)) == without_time(whole)
    assert len(path.read_text().splitlines()) == len(lines) + 1


STUDY = """
policies = ["CellHistogram", "uniform"]
epsilons = [0.5, 1]
people = [300]
reps = 6
[own]
slow = "mine:slow"
[worlds.smooth]
hard = "smooth"
[worlds.mine]
call = "mine:world"
"""
MODULE = """
import time
from dpbandits.lab.worlds import hard
from dpbandits.lab.baselines import Uniform

def world(seed, people):
    return hard("nugget", seed=seed, horizon=people)

def slow(world, seed):
    time.sleep(0.1)
    return Uniform(domain=world.domain, reward_range=world.reward_range, seed=seed)
"""


def started(folder, out):
    call = [
        sys.executable,
        "-m",
        "dpbandits",
        "lab",
        "compare",
        str(folder / "study.toml"),
        "--out",
        str(out),
    ]
    return subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_at_half_its_cells_it_goes_on_and_gives_the_same_table(tmp_path):
    pd = pytest.importorskip("pandas")
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "mine.py").write_text(MODULE)
    assert started(tmp_path, tmp_path / "whole").wait(timeout=100) == 0
    broken, path = started(tmp_path, tmp_path / "broken"), tmp_path / "broken" / "records.jsonl"
    total = len((tmp_path / "whole" / "records.jsonl").read_text().splitlines())
    while not path.exists() or len(path.read_text().splitlines()) < total // 2:
        assert broken.poll() is None
        time.sleep(0.02)
    os.kill(broken.pid, signal.SIGKILL)
    broken.wait(timeout=20)
    assert len(path.read_text().splitlines()) < total
    assert started(tmp_path, tmp_path / "broken").wait(timeout=100) == 0
    first, second = (
        pd.read_parquet(tmp_path / name / "runs.parquet").drop(columns="seconds")
        for name in ("whole", "broken")
    )
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.slow
def test_two_dask_workers_give_identical_rows(tmp_path):
    pytest.importorskip("distributed")
    study = tmp_path / "study.toml"
    study.write_text(
        "policies=['CellHistogram','uniform']\nreps=2\npeople=[100]\n[worlds.smooth]\nhard='smooth'\n"
    )
    said = dpb.lab.comparing.study_in(study)
    assert without_time(compare(**said, cluster="local:2")) == without_time(compare(**said))


def test_other_settings_are_other_cells(tmp_path):
    found(out=tmp_path)
    path = tmp_path / "records.jsonl"
    count = len(path.read_text().splitlines())
    found(out=tmp_path, promises=[2.0])
    lines = [json.loads(line) for line in path.read_text().splitlines()[count:]]
    assert {json.loads(one["cell"].removeprefix("Trial "))["policy"] for one in lines} == {"CellHistogram"}


def test_addresses_tell_what_differs():
    def made(size):
        return lambda seed, people: (seed, people, size)

    table = np.arange(6.0)
    alike = [address_of(one) for one in (made(1), partial(hard, "smooth"), table, smooth)]
    again = [address_of(one) for one in (made(1), partial(hard, "smooth"), table.copy(), smooth)]
    other = [address_of(one) for one in (made(2), partial(hard, "flat"), table + 1, sizes)]
    assert alike == again
    assert not set(alike) & set(other)
    assert len(set(alike)) == len(alike)
    with pytest.raises(InvalidParameter, match="for a fingerprint"):
        address_of(object())


def _runs(policy, trust, rewards, world):
    cell = Trial(
        world=world,
        policy=policy,
        trust=trust,
        epsilon=1.0,
        delta=0.0,
        people=9,
        make_world=smooth,
        make_policy=RIVALS["uniform"].make,
    )
    records = [
        {"seed": k, "rounds": 9, "reward": r, "uniform": 0.0, "fixed": None, "regret": None, "seconds": 2.0}
        for k, r in enumerate(rewards)
    ]
    return Runs(cell=cell, records=records)


def test_tests_are_paired_and_boards_add_up_ranks():
    runs = [
        _runs("a", "central", [0.5, 0.7, 0.9], "x"), _runs("b", "central", [0.4, 0.61, 0.79], "x"),
        _runs("a", "central", [0.1, 0.1, 0.1], "y"), _runs("b", "central", [0.3, 0.3, 0.3], "y"),
    ]  # fmt: skip
    result = Comparison(runs)
    first, second = result.tests("a")
    assert first["difference"] == pytest.approx(-0.1)
    assert first["p"] < 0.01  # paired: unpaired it would be far from it
    assert second["difference"] == pytest.approx(0.2)
    board = result.board("central")
    assert [row["rank_sum"] for row in board] == [3.0, 3.0]
    assert [row["ranks"] for row in board] == [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 1.0}]
    with pytest.raises(InvalidParameter, match="no world"):
        result.board("local")
    with pytest.raises(InvalidParameter, match="expected one of"):
        result.tests("c")


def test_own_policies_own_promises_and_functions_of_boxes():
    def ridge(world, seed, promise):
        return dpb.lab.baselines.PrivateRidge(
            domain=world.domain, reward_range=world.reward_range, horizon=world.horizon, privacy=promise,
            noise=dpb.SimulatedNoise(seed), seed=seed,
        )  # fmt: skip

    def floor(world, seed):
        return dpb.lab.baselines.Uniform(domain=world.domain, reward_range=world.reward_range, seed=seed)

    worlds = {"camelback": lambda seed, people: camelback(seed=seed, horizon=people)}
    promises = [dpb.JointDP(epsilon=2, delta=1e-5), dpb.LocalDP(epsilon=2)]
    policies = {"mine": ridge, "floor": floor, "random": Rival(trust="none", make=RIVALS["uniform"].make)}
    rows = compare(worlds, policies, promises=promises, people=[64], reps=1).rows()
    assert [(row["policy"], row["epsilon"], row["delta"]) for row in rows] == [
        ("mine", 2.0, 1e-5), ("floor", None, None), ("random", None, None),
    ]  # fmt: skip
    assert all(row["fixed"] is None for row in rows)


def test_what_is_written_can_be_read_and_seen(tmp_path):
    pd = pytest.importorskip("pandas")
    result = found(out=tmp_path, promises=[0.5, 1.0])
    table = pd.read_parquet(tmp_path / "runs.parquet")
    assert len(table) == len(result.rows())
    assert {path.name for path in tmp_path.glob("*.png")} == {"policies.png", "promise.png", "rounds.png"}
    json.loads((tmp_path / "means.json").read_text())
    with pytest.raises(InvalidParameter, match="the same people"):
        result.picture("people")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: compare({}, POLICIES),
        lambda: compare(WORLDS, []),
        lambda: compare(WORLDS, ["nobody"]),
        lambda: compare({"a": 3}, POLICIES),
        lambda: compare(WORLDS, {"a": 3}),
        lambda: found(promises=[-1.0]),
        lambda: found(people=[0]),
        lambda: found(reps=0),
        lambda: found(promises=[dpb.LocalDP(epsilon=1)]),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        wrong()


LOG = """
path = "log.csv"
[columns.age]
low = 18
high = 90
[log]
arm = "offer"
arms = ["mail", "call"]
reward = "bought"
low = 0
high = 1
"""


def test_a_study_of_a_log_and_of_facts(tmp_path):
    rows = [f"{18 + k % 70},{('mail', 'call')[k % 2]},{k % 3 % 2}" for k in range(60)]
    (tmp_path / "log.csv").write_text("age,offer,bought\n" + "\n".join(rows) + "\n")
    (tmp_path / "log.toml").write_text(LOG)
    (tmp_path / "facts.toml").write_text(
        "[columns.age]\nlow=18\nhigh=90\n[plan]\narms=['a','b']\neffect=0.1\n"
    )
    (tmp_path / "study.toml").write_text(
        "policies=['uniform']\nreps=1\npeople=[20]\n[worlds.log]\ntable='log.toml'\n"
        "[worlds.facts]\nfacts='facts.toml'\n"
    )
    said = dpb.lab.comparing.study_in(tmp_path / "study.toml")
    found = compare(**said, out=tmp_path / "out").rows()
    assert [(row["world"], row["rounds"]) for row in found] == [("log", 20), ("facts", 20)]
    before = address_of(said["worlds"]["log"])
    (tmp_path / "log.csv").write_text("age,offer,bought\n" + "\n".join(rows[1:]) + "\n")
    assert address_of(said["worlds"]["log"]) != before  # another table: nothing of the old one is taken


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hard =", "heard ="),
        ('"smooth"', '"smoth"'),
        ("reps", "rep"),
        ("mine:slow", "mine:fast"),
        ("mine:slow", "nothere:slow"),
        ("CellHistogram", "Histogram"),
        ("[worlds.smooth]", "[worlds.smooth]\ntable = 'x.toml'"),
    ],
)
def test_a_misspelt_study_is_refused(tmp_path: Path, old: str, new: str):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace(old, new))
    (tmp_path / "mine.py").write_text(MODULE)
    with pytest.raises(InvalidParameter):
        dpb.lab.comparing.study_in(path)
