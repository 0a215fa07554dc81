"""Two aggregator processes: sums, replays, kills at any time, and what they refuse."""

import numpy as np
import pytest

import dpbandits as dpb
from aggregators import Pair, needs_packages
from dpbandits.distributed import Collector, DistributedSpec, DistributedTuning
from dpbandits.errors import ProtocolError, ServiceUnavailable

pytestmark = needs_packages

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
