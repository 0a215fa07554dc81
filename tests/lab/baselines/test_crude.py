"""What the two crude private yardsticks do alike: blocks that double, and answers that get better."""

from itertools import pairwise

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import CellHistogram, CrudeTuning, PrivateRidge

both = pytest.mark.parametrize("kind", [CellHistogram, PrivateRidge])


def policy(kind, **changes):
    arguments = {
        "contexts": dpb.Schema(age=dpb.Range(0, 1), region=dpb.Categories(["a", "b"])),
        "arms": ["mail", "call"],
        "horizon": 3000,
        "privacy": dpb.JointDP(epsilon=10.0, delta=1e-6, user_ids=False),
        "noise": dpb.SimulatedNoise(1),
    }
    return kind(**(arguments | changes))


@both
def test_it_learns_which_arm_suits_whom(kind):
    chooser, rng = policy(kind), np.random.default_rng(2)
    ages = rng.random(3000)
    edges = [0, *chooser.batch_boundaries, 3000]
    right = []
    for start, stop in pairwise(edges):
        batch = chooser.ask_batch({"age": ages[start:stop], "region": ["a"] * (stop - start)})
        paid = batch.indices == (ages[start:stop] > 0.5)
        chooser.tell_batch(batch.ids, paid.astype(float))
        right.append(paid.mean())
    # before anything is learned: fair coins, within six deviations of their mean, a false alarm below 1e-8
    assert abs(right[0] - 0.5) < 6 * 0.5 / np.sqrt(edges[1])
    assert right[-1] > 0.9
    assert len(chooser.blocks) == 4
    assert chooser.guarantee.status == "simulated"


@both
def test_a_horizon_or_blocks_that_do_not_fit_are_refused(kind):
    with pytest.raises(InvalidParameter, match="horizon"):
        policy(kind, horizon=1 << 40)
    with pytest.raises(InvalidParameter, match="blocks"):
        policy(kind, tuning=CrudeTuning(blocks=(5, 4)))
