"""Learners and curators that keep themselves in a sealed state file: they go on, and hide their data."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit
from dpbandits.errors import CorruptState, IncompatibleState
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced import Curator, SecretDirectory
from dpbandits.privacy import JointDP, RowDP, SimulatedNoise
from dpbandits.state import StateKey

KEY = StateKey(bytes(range(64)))
OTHER = StateKey(bytes(64))
KERNEL = SquaredExponential(lengthscale=0.5)
CELLS = CellMeasure.uniform(low=0.0, high=1.0, cells=4)


def learner(kind, **changes):
    arguments = {
        "kernel": KERNEL,
        "actions": CELLS,
        "contexts": CELLS,
        "reward_range": (0.0, 1.0),
        "privacy": JointDP(epsilon=1.0, delta=1e-6),
        "horizon": 100_000,
        "noise": SimulatedNoise(1),
    }
    return kind(**(arguments | changes))


@pytest.mark.parametrize("kind", [ExploreThenCommit])
def test_learners_are_sealed(kind, tmp_path):
    path = tmp_path / "state"
    learner(kind).save(path, key=KEY)
    for key, error in ((None, IncompatibleState), (OTHER, CorruptState)):
        with pytest.raises(error):
            kind.load(path, key=key)
    again = kind.load(path, key=KEY)
    again.save(path, key=KEY)
    assert kind.load(path, key=KEY).to_config() == again.to_config()


def test_a_curator_answers_from_a_sealed_secret(tmp_path):
    canary = 31.415926535
    table = {"age": [30.0, canary, 50.0], "effect": [0.1, 0.7, 0.4]}
    arguments = {
        "contexts": dpb.Schema(age=dpb.Range(18, 90)),
        "objective": "effect",
        "privacy": RowDP(epsilon=1.0, distance=1.0),
    }
    curator = Curator(table, **arguments, secret=SecretDirectory(tmp_path / "secret", key=KEY))
    release = curator.publish()
    first = curator.answer(1)
    with pytest.raises(IncompatibleState):
        Curator.open(tmp_path / "secret")
    with pytest.raises(CorruptState):
        Curator.open(SecretDirectory(tmp_path / "secret", key=OTHER))
    again = Curator.open(SecretDirectory(tmp_path / "secret", key=KEY))
    assert again.answer_again(1) == first
    np.testing.assert_array_equal(again.publish().inputs, release.inputs)
    held = b"".join(path.read_bytes() for path in (tmp_path / "secret").rglob("*") if path.is_file())
    unsealed = Curator(table, **arguments, secret=tmp_path / "plain")
    unsealed.publish()
    plain = b"".join(path.read_bytes() for path in (tmp_path / "plain").rglob("*") if path.is_file())
    values = [np.float64(value).tobytes() for value in table["effect"]]
    assert all(value in plain for value in values), "the search would find nothing anywhere"
    assert not any(value in held for value in values)


def test_a_save_elsewhere_under_another_key_that_fails_leaves_the_object_where_it_was(tmp_path, monkeypatch):
    """The ledger has witnessed the file that could not be put in place: it is finished, then the old one."""
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(1, 1e-5))
    here, there = tmp_path / "here", tmp_path / "there"
    policy = learner(ExploreThenCommit, account=ledger.account("people"))
    policy.learn([None], [None], [None], users=["u"] if policy.user_ids else None)
    policy.save(here, key=KEY)

    def refuses(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("dpbandits.state.store.replace_durably", refuses)
        with pytest.raises(OSError, match="Input/output"):
            policy.save(there, key=OTHER)
    mean = policy.publish().mean
    again = ExploreThenCommit.load(here, ledger=ledger, key=KEY)
    np.testing.assert_array_equal(again.publish().mean, mean)
