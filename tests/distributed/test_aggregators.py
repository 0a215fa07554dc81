"""Two aggregator processes: sums, replays, kills at any time, and what they refuse."""

import json
import random
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from aggregators import AGGREGATORS, HOW, INSTALLED, NODE, Pair, acknowledged
from dpbandits.distributed import Collector, DapTask, DistributedSpec, DistributedTuning
from dpbandits.errors import ProtocolError, ServiceUnavailable

pytestmark = pytest.mark.skipif(not INSTALLED, reason=HOW)

SPEC = DistributedSpec(
    contexts=dpb.Schema(x=dpb.Range(0, 1)),
    arms=["a", "b"],
    privacy=dpb.DistributedDP(epsilon=1),
    horizon=100,
    tuning=DistributedTuning(cells=4, min_batch=5),
)


def test_the_collector_learns_from_sums_of_two_processes(tmp_path):
    buckets = [0, 0, 4, 8, 8, 8, 3]
    with Pair(SPEC, tmp_path, exact=True) as pair:
        sums, learner = pair.collector(), Collector(SPEC)
        assert pair.send(0, buckets)["acknowledged"] == 7
        found = sums.collect(0, wait=20)
        assert (found.reports, found.sums.tolist()) == (7, np.bincount(buckets, minlength=9).tolist())
        learner.absorb(found)
        assert learner.publish().version == 1
        assert pair.send(0, [1]) == {"refused": "reportRejected"}  # the batch is released
        pair.send(1, [2] * 4)
        with pytest.raises(ProtocolError, match="needs 5 valid reports"):
            sums.collect(1, wait=0.5)
        pair.send(1, [2])
        assert sums.collect(1, wait=20).sums[2] == 5


def test_a_restarted_pair_returns_the_same_noisy_sum(tmp_path):
    with Pair(SPEC, tmp_path) as pair:
        pair.send(0, [1] * 6)
        first = pair.collector().collect(0, wait=20)
        assert not np.array_equal(first.sums, np.bincount([1] * 6, minlength=9))  # but once in 3e9 runs
        for role in ("helper", "leader"):
            pair.kill(role)
            pair.start(role)
        assert pair.collector().collect(0, wait=20).equals(first)
        pair.kill("leader")
        with pytest.raises(ServiceUnavailable):
            pair.collector().collect(0, wait=1)


def test_no_file_of_an_aggregator_holds_its_exact_share_after_the_release(tmp_path):
    def share(role):
        base = sqlite3.connect(tmp_path / f"{role}.db")
        question = "SELECT share, reports FROM batches WHERE task = ?"
        (found,) = base.execute(question, [pair.tasks[0].name])
        base.close()
        return found

    def held(role):
        return b"".join(one.read_bytes() for one in tmp_path.glob(f"{role}.db*"))

    with Pair(SPEC, tmp_path) as pair:
        pair.send(0, [1] * 6)
        until = time.monotonic() + 20
        while {share(role)[1] for role in pair.running} != {6} and time.monotonic() < until:
            time.sleep(0.05)
        exact = {role: share(role)[0] for role in pair.running}
        assert all(one in held(role) for role, one in exact.items())
        pair.collector().collect(0, wait=20)
        assert not any(one in held(role) for role, one in exact.items())


def test_kills_lose_no_acknowledged_report_and_release_nothing_twice(tmp_path):
    killed(tmp_path, kills=2, reports=30, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_of_each_lose_nothing(tmp_path):
    killed(tmp_path, kills=50, reports=2000, seed=1)


def killed(folder, *, kills, reports, seed):
    """Kill each aggregator this often while devices report, and again while a noisy sum is released."""
    rng = random.Random(seed)  # noqa: S311 - moments of kills
    buckets = [rng.randrange(SPEC.length) for _ in range(reports)]
    (folder / "exact").mkdir()
    with Pair(SPEC, folder / "exact", exact=True) as pair:
        crowd = pair.crowd(0, buckets)
        fall_and_rise(pair, kills, rng)
        assert acknowledged(crowd)["acknowledged"] == reports
        found = pair.collector().collect(0, wait=100)
        assert found.reports == reports
        assert np.array_equal(found.sums, np.bincount(buckets, minlength=SPEC.length))
    (folder / "noisy").mkdir()
    with Pair(SPEC, folder / "noisy") as pair:
        pair.send(0, buckets[:20])
        seen = []
        for _ in range(3):
            fall_and_rise(pair, max(1, kills // 10), rng, ask=True)
            seen.append(pair.collector().collect(0, wait=100))
        assert all(one.equals(seen[0]) for one in seen)


def fall_and_rise(pair, kills, rng, *, ask=False):
    for _ in range(kills):
        for role in ("leader", "helper"):
            if ask:
                with suppress(ProtocolError, ServiceUnavailable):
                    pair.collector().collect(0, wait=rng.random() / 4)
            time.sleep(rng.random() / 4)
            pair.kill(role)
            pair.start(role)


def test_a_forged_report_is_not_counted_and_stops_no_other(tmp_path):
    """Two-hot reports, reports of weight -1 and noise of bytes: the proof, or nobody, reads them."""
    with Pair(SPEC, tmp_path, exact=True) as pair:
        task, address = pair.tasks[0], pair.addresses["leader"]
        done = subprocess.run(
            [str(NODE), "forger.js", json.dumps(pair.task(0))],
            cwd=AGGREGATORS,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert json.loads(done.stdout) == {
            "forged": [201, 201, 201],
            "twice": [201, 201],
            "other": 400,
            "late": 400,
        }
        pair.send(0, [8] * 5)
        found = pair.collector().collect(0, wait=20)
        assert (found.reports, found.sums.tolist()) == (6, [0, 1, 0, 0, 0, 0, 0, 0, 5])
        for path in (f"tasks/{task.name}/collection_jobs/{'A' * 22}", f"tasks/{'A' * 43}/reports"):
            asked = urllib.request.Request(address + path, data=b"", method="PUT")  # noqa: S310
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=10)  # noqa: S310
            refused.value.close()
            assert refused.value.code in (403, 404)


def test_a_second_process_on_one_database_is_refused(tmp_path):
    with Pair(SPEC, tmp_path) as pair:
        for role in ("leader", "helper"):
            first = pair.running[role]
            with pytest.raises(RuntimeError, match="Another process runs on this database"):
                pair.start(role)
            assert pair.running[role] is first
            assert first.poll() is None


def test_noise_follows_from_the_spec_as_in_python():
    promises = [
        dpb.DistributedDP(epsilon=e, reports_per_user=k) for e, k in ((1, 1), (0.1, 3), (7.5, 2), (3, 7))
    ]
    tasks = [DapTask.of(replace(SPEC, privacy=one), 0) for one in promises]
    given = json.dumps([[one.epsilon, one.reports_per_user] for one in promises])
    script = "import { rateOf } from './noise.js';" + (
        f"console.log(JSON.stringify({given}.map((one) => rateOf(...one).map(String))))"
    )
    command = [str(NODE), "--input-type=module", "--eval", script]
    done = subprocess.run(command, cwd=AGGREGATORS, capture_output=True, timeout=60, check=True)
    found = [[int(number) for number in rate] for rate in json.loads(done.stdout)]
    assert found == [list(one.rate) for one in tasks]
    assert len({one.id for one in tasks}) == 4  # and so does the task, which devices derive too


def test_the_noise_of_an_aggregator_has_the_exact_law():
    """A chi-square test of 20,000 draws at rate 1/2, P(j) = tanh(1/4) exp(-|j| / 2): false alarm 1e-7."""
    script = "import { discreteLaplace } from './noise.js';" + (
        "console.log(JSON.stringify(Array.from({ length: 20000 }, () => Number(discreteLaplace(1n, 2n)))))"
    )
    command = [str(NODE), "--input-type=module", "--eval", script]
    done = subprocess.run(command, cwd=AGGREGATORS, capture_output=True, timeout=60, check=True)
    drawn = np.clip(json.loads(done.stdout), -9, 9)
    law = np.tanh(0.25) * np.exp(-np.abs(np.arange(-9, 10)) / 2)
    law[[0, -1]] /= 1 - np.exp(-0.5)  # the tails
    assert law.sum() == pytest.approx(1)
    counts = np.bincount(drawn + 9, minlength=19)
    statistic = ((counts - 20000 * law) ** 2 / (20000 * law)).sum()
    assert statistic < 68.0  # the 1 - 1e-7 quantile with 18 degrees of freedom
