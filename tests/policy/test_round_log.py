"""Records of a log of rounds: what is packed comes back, and one round is packed as a batch of one is."""

import math

import numpy as np
import pytest

from dpbandits.policy import round_log


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("digests", [[], [bytes(range(16))]], ids=["nobody", "somebody"])
def test_one_ask_is_packed_as_a_batch_of_one(digests, refused):
    action = np.array([0.25, -3.0, 1e300])
    one = round_log.pack_one_ask(7, digests, action, refused=refused)
    assert one == round_log.pack_ask(7, digests, action[None], np.array([refused]))
    found = round_log.unpack_ask(one, digest_bytes=16)
    assert (found.start, found.digests, found.refused.tolist()) == (7, digests, [refused])
    np.testing.assert_array_equal(found.actions, action[None])


@pytest.mark.parametrize("reward", [0.5, -0.0, math.nan])
@pytest.mark.parametrize(("usable", "missing"), [(True, False), (False, True), (False, False)])
def test_one_tell_is_packed_as_a_batch_of_one(reward, usable, missing):
    reward = 0.75 if usable and math.isnan(reward) else reward
    one = round_log.pack_one_tell(2**40, reward, usable=usable, missing=missing)
    arrays = (np.array([value]) for value in (2**40, reward, usable, missing))
    assert one == round_log.pack_tell(*arrays)
    found = round_log.unpack_tell(one)
    assert (found.rounds[0], found.usable[0], found.missing[0]) == (2**40, usable, missing)
    assert found.rewards[0] == (reward if usable else 0.0)
