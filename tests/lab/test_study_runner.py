"""Cells of a study: order, resuming, torn files, other settings, progress, clusters that do not answer."""

import json
import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.runner import on_cluster
from dpbandits.lab.study import Cell, KeptRecords, run_cells
from reproduction.dubey2021.cells import RANDOM, PolicyCell

RAN = []


@dataclass(frozen=True, kw_only=True)
class Square(Cell):
    size: int = 1
    name: ClassVar = "c"

    @property
    def settings(self):
        return {"size": self.size}

    def simulate(self, seed):
        RAN.append(seed)
        return {"value": seed**2}


def run(seeds, *, path=None, jobs=1, progress=None, size=1):
    """Records of one cell."""
    (found,) = run_cells([Square(size=size)], seeds=seeds, path=path, jobs=jobs, progress=progress)
    return found.records


def test_results_come_in_order_and_progress_is_told():
    seen = []
    records = run([3, 1, 2], progress=lambda done, total: seen.append((done, total)))
    assert [record["value"] for record in records] == [9, 1, 4]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_resumes_and_runs_only_what_is_missing(tmp_path):
    path = tmp_path / "out" / "study.jsonl"
    run([1, 2], path=path)
    RAN.clear()
    records = run([1, 2, 3], path=path)
    assert RAN == [3]
    assert [record["value"] for record in records] == [1, 4, 9]
    assert len(path.read_text().splitlines()) == 3


class Together(Square):
    at_once: ClassVar = 2

    def simulate_several(self, seeds):
        RAN.append(seeds)
        return [{"value": seed**2} for seed in seeds]


def test_a_cell_runs_several_seeds_together_and_only_those_that_are_missing(tmp_path):
    path = tmp_path / "study.jsonl"
    RAN.clear()
    run_cells([Together()], seeds=[4], path=path)
    (found,) = run_cells([Together()], seeds=[1, 2, 3, 4], path=path)
    assert RAN == [[4], [1, 2], [3]]
    assert [record["value"] for record in found.records] == [1, 4, 9, 16]
    assert [record["seed"] for record in found.records] == [1, 2, 3, 4]


def test_other_settings_are_other_tasks(tmp_path):
    path = tmp_path / "study.jsonl"
    run([1], path=path, size=1)
    RAN.clear()
    run([1], path=path, size=2)
    assert RAN == [1]


def test_a_torn_line_is_run_again(tmp_path):
    path = tmp_path / "study.jsonl"
    run([1, 2], path=path)
    path.write_text(path.read_text()[:-9])
    RAN.clear()
    assert [record["value"] for record in run([1, 2], path=path)] == [1, 4]
    assert RAN == [2]
    assert json.loads(path.read_text().splitlines()[-1])["value"] == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_line_that_is_no_text_is_run_again(tmp_path):
    path = tmp_path / "records.jsonl"
    run([1, 2], path=path)
    first, second = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + second[:-9] + b"\xff\xfe\n")
    RAN.clear()
    assert [record["value"] for record in run([1, 2], path=path)] == [1, 4]
    assert RAN == [2]


def test_many_calls_share_records_that_are_read_once(tmp_path):
    path = tmp_path / "records.jsonl"
    kept = KeptRecords(path)
    run([1, 2], path=kept)
    RAN.clear()
    assert [record["value"] for record in run([2, 3], path=kept)] == [4, 9]
    assert RAN == [3]
    assert KeptRecords(path).by_key == kept.by_key
    assert KeptRecords(path, resume=False).by_key == {}
    with pytest.raises(InvalidParameter, match="resume"):
        run_cells([Square()], seeds=[1], path=kept, resume=False)


def test_a_killed_study_goes_on_where_it_was(tmp_path, monkeypatch):
    """SIGKILL in the middle of a repetition: what was recorded counts, and nothing else is left behind."""
    path = tmp_path / "study.jsonl"
    whole = run(range(5), path=tmp_path / "whole.jsonl")
    child = os.fork()
    if child == 0:
        simulate = Square.simulate

        def dies(self, seed):
            if seed == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return simulate(self, seed)

        monkeypatch.setattr(Square, "simulate", dies)
        run(range(5), path=path)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert len(path.read_text().splitlines()) == 3
    RAN.clear()
    assert run(range(5), path=path) == whole
    assert RAN == [3, 4]


def test_other_processes_give_the_same():
    cell = PolicyCell(column=RANDOM, world="printed")
    values = [
        [record["regret"] for record in run_cells([cell], seeds=(4, 5, 6), jobs=jobs)[0].records]
        for jobs in (1, 2)
    ]
    assert values[0] == values[1]


def test_refuses_what_it_cannot_run():
    with pytest.raises(InvalidParameter):
        run([1, 1])
    with pytest.raises(InvalidParameter):
        run([1], jobs=0)


def test_fresh_runs_everything_again_and_the_last_record_counts(tmp_path):
    path = tmp_path / "study.jsonl"
    run([1, 2], path=path)
    RAN.clear()
    run_cells([Square()], seeds=[1, 2], path=path, resume=False)
    assert RAN == [1, 2]
    RAN.clear()
    run([1, 2], path=path)
    assert RAN == []


@pytest.mark.parametrize(
    "address", ["local:0", "local:two", "tcp://", "nowhere", "foo://x", "tls://h:1", "127.0.0.1:1x", 5, b"x"]
)
def test_an_address_without_a_scheduler_is_refused(address):
    pytest.importorskip("distributed")
    with pytest.raises(InvalidParameter, match="cluster"), on_cluster(address):
        pass


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["nothing", "something else"])
def test_whatever_else_listens_there_is_no_scheduler(monkeypatch, said):
    """Nobody waits for it for ever, and no threads are left."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("dpbandits._dask.SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with suppress(OSError):
                other, _ = server.accept()
                other.sendall(said)
                others.append(other)

        others: list[socket.socket] = []
        beside = threading.Thread(target=answer, daemon=True)
        beside.start()
        before = threading.active_count()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InvalidParameter, match="no Dask scheduler answers"), on_cluster(address):
            pass
        beside.join()
        for other in others:
            other.close()
    assert threading.active_count() < before
