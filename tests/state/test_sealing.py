"""Sealed state: nothing secret in the file, nothing changed unnoticed, crashes as without a key."""

import copy
import json
import os
import pickle

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import MemoryLedger
from dpbandits.central import GPBandit, GPTuning
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.baselines import FeatureGPUCB, GPUCBTuning
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.state import State, StateKey, StateStore, read_state, write_state
from dpbandits.state.format import MAGIC, PREFIX, SEALED_VERSION, encode

KEY = StateKey(bytes(range(64)))
OTHER = StateKey(bytes(reversed(range(64))))
CANARY = 7_313_577_311_773  # an integer and its bytes that nothing else holds


def state(position=3, **changes):
    fields = {
        "kind": "k",
        "version": 1,
        "lineage": "ab",
        "position": position,
        "public": {"seed": 7},
        "secret": {"count": CANARY},
        "arrays": {"sums": np.full(3, CANARY)},
    }
    return State(**(fields | changes))


def test_a_sealed_state_comes_back_whole(tmp_path):
    write_state(tmp_path / "s", state(), KEY)
    back = read_state(tmp_path / "s", KEY)
    assert back.secret == {"count": CANARY}
    assert back.public == {"seed": 7}
    np.testing.assert_array_equal(back.arrays["sums"], [CANARY] * 3)


def test_the_file_shows_public_fields_and_nothing_secret():
    data, _ = encode(state(), KEY)
    plain, _ = encode(state())
    for hidden in (str(CANARY).encode(), np.int64(CANARY).tobytes(), b"sums", b"secret", b"count"):
        assert hidden in plain
        assert hidden not in data
    header = json.loads(data[PREFIX.size : PREFIX.size + PREFIX.unpack_from(data)[2]])
    assert header["public"] == {"seed": 7}


def test_equal_states_seal_to_equal_bytes_and_others_do_not():
    assert encode(state(), KEY) == encode(state(), KEY)
    assert encode(state(), KEY) != encode(state(), OTHER)


def test_every_flipped_byte_of_a_sealed_file_is_noticed(tmp_path):
    data, _ = encode(state(), KEY)
    path = tmp_path / "s"
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 0x10
        path.write_bytes(damaged)
        in_version = len(MAGIC) <= index < len(MAGIC) + 4
        with pytest.raises(IncompatibleState if in_version else CorruptState):
            read_state(path, KEY)


def test_public_fields_are_bound_to_the_secret_ones(tmp_path):
    """Somebody rewrites the header, checksum and all, around the same sealed body."""
    import hashlib

    data, _ = encode(state(), KEY)
    length = PREFIX.unpack_from(data)[2]
    header = json.loads(data[PREFIX.size : PREFIX.size + length])
    body = data[PREFIX.size + length :]

    def forged(**changes):
        text = json.dumps({**header, **changes}, sort_keys=True, separators=(",", ":")).encode()
        prefix = PREFIX.pack(MAGIC, SEALED_VERSION, len(text), hashlib.sha256(text).digest())
        (tmp_path / "s").write_bytes(prefix + text + body)
        return tmp_path / "s"

    assert read_state(forged(), KEY).position == 3
    for changes in (
        {"position": 4},
        {"lineage": "cd"},
        {"public": {"seed": 8}},
        {"kind": "l"},
        {"version": 2},
    ):
        with pytest.raises(CorruptState):
            read_state(forged(**changes), KEY)


def test_wrong_missing_and_needless_keys_are_refused(tmp_path):
    write_state(tmp_path / "sealed", state(), KEY)
    write_state(tmp_path / "plain", state())
    with pytest.raises(CorruptState, match="another key"):
        read_state(tmp_path / "sealed", OTHER)
    with pytest.raises(IncompatibleState, match="sealed"):
        read_state(tmp_path / "sealed")
    with pytest.raises(IncompatibleState, match="not sealed"):
        read_state(tmp_path / "plain", KEY)


def test_a_store_commits_repeats_and_refuses_forks_under_a_key(tmp_path):
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger, KEY)
    store.commit(state(1))
    store.commit(state(1))
    store.commit(state(2))
    assert StateStore(tmp_path / "s", ledger, KEY).load().position == 2
    (tmp_path / "copy").write_bytes((tmp_path / "s").read_bytes())
    store.commit(state(3))
    with pytest.raises(ForkedState):
        StateStore(tmp_path / "copy", ledger, KEY).load()


def test_a_prepared_commit_that_was_witnessed_is_finished_under_a_key(tmp_path, monkeypatch):
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger, KEY)
    store.commit(state(1))
    with monkeypatch.context() as patch:
        patch.setattr(
            "dpbandits.state.store.replace_durably", lambda *_: (_ for _ in ()).throw(OSError("cut"))
        )
        with pytest.raises(OSError, match="cut"):
            store.commit(state(2))
    assert StateStore(tmp_path / "s", ledger, KEY).load().position == 2


@pytest.mark.parametrize("secret_first", [True, False])
def test_policies_save_and_load_under_a_key(tmp_path, secret_first):
    arguments = {
        "domain": dpb.Box(low=[0.0], high=[1.0]),
        "reward_range": (0.0, 1.0),
        "horizon": 12,
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.3),
    }
    policy = (
        GPBandit(
            **arguments,
            privacy=JointDP(epsilon=1, delta=1e-6, user_ids=False),
            noise=SimulatedNoise(1),
            tuning=GPTuning(n_features=4, blocks=[4, 8]),
        )
        if secret_first
        else FeatureGPUCB(**arguments, tuning=GPUCBTuning(n_features=4))
    )
    policy.save(tmp_path / "p", key=KEY)
    for reward in np.linspace(0.1, 0.9, 9):
        policy.tell(policy.ask(np.array([[0.1], [0.5], [0.9]])).id, reward)
    policy.save(tmp_path / "p", key=KEY)
    with pytest.raises(IncompatibleState):
        type(policy).load(tmp_path / "p")
    again = type(policy).load(tmp_path / "p", key=KEY)
    points = np.linspace(0, 1, 5)[:, None]
    np.testing.assert_array_equal(again.predict(points), policy.predict(points))


def test_keys_come_from_files_that_others_cannot_read(tmp_path):
    path = tmp_path / "key"
    sealed = StateKey.create(path).seal(b"x", public=b"")
    assert path.stat().st_mode & 0o777 == 0o600
    assert StateKey.read(path).open(sealed, public=b"") == b"x"
    with pytest.raises(FileExistsError):
        StateKey.create(path)
    os.chmod(path, 0o640)  # noqa: PTH101
    with pytest.raises(InvalidParameter, match="owner"):
        StateKey.read(path)


def test_keys_are_neither_shown_nor_pickled_nor_short():
    assert repr(KEY) == "StateKey()"
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ProtocolError):
            act(KEY)
    for bad in (b"", b"x" * 63, "x" * 64, None):
        with pytest.raises(InvalidParameter):
            StateKey(bad)
