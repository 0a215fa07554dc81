"""Tasks of a study: order, resuming, torn files, other settings, progress."""

import json

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.papers.dubey2021.cells import RANDOM, Cell
from dpbandits.lab.study import Task, run_tasks

RAN = []


def square(seed):
    RAN.append(seed)
    return {"value": seed**2}


def tasks(seeds, **settings):
    return [Task(cell="c", seed=seed, settings=settings, run=square) for seed in seeds]


def test_results_come_in_order_and_progress_is_told():
    seen = []
    records = run_tasks(tasks([3, 1, 2]), progress=lambda done, total: seen.append((done, total)))
    assert [record["value"] for record in records] == [9, 1, 4]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_resumes_and_runs_only_what_is_missing(tmp_path):
    path = tmp_path / "out" / "study.jsonl"
    run_tasks(tasks([1, 2]), path=path)
    RAN.clear()
    records = run_tasks(tasks([1, 2, 3]), path=path)
    assert RAN == [3]
    assert [record["value"] for record in records] == [1, 4, 9]
    assert len(path.read_text().splitlines()) == 3


def test_other_settings_are_other_tasks(tmp_path):
    path = tmp_path / "study.jsonl"
    run_tasks(tasks([1], size=1), path=path)
    RAN.clear()
    run_tasks(tasks([1], size=2), path=path)
    assert RAN == [1]


def test_a_torn_line_is_run_again(tmp_path):
    path = tmp_path / "study.jsonl"
    run_tasks(tasks([1, 2]), path=path)
    path.write_text(path.read_text()[:-9])
    RAN.clear()
    assert [record["value"] for record in run_tasks(tasks([1, 2]), path=path)] == [1, 4]
    assert RAN == [2]
    assert json.loads(path.read_text().splitlines()[-1])["value"] == 4


def test_other_processes_give_the_same():
    cell = Cell(column=RANDOM, world="figure1")
    wanted = [Task(cell=cell.name, seed=seed, settings={}, run=cell.simulate) for seed in (4, 5, 6)]
    values = [[record["regret"] for record in run_tasks(wanted, jobs=jobs)] for jobs in (1, 2)]
    assert values[0] == values[1]


def test_refuses_what_it_cannot_run():
    with pytest.raises(InvalidParameter):
        run_tasks(tasks([1, 1]))
    with pytest.raises(InvalidParameter):
        run_tasks(tasks([1]), jobs=0)
