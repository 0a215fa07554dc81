"""The state file: what goes in comes out, nothing else does."""

import hashlib
import io
import json
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.state import State, read_state, write_state
from dpbandits.state.format import MAGIC, PREFIX, Texts, decode, encode, read_identity

numeric = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
arrays = numeric.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=3)
labels = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,20}", fullmatch=True)
states = st.builds(
    State,
    kind=labels,
    version=st.integers(0, 2**63 - 1),
    lineage=labels,
    position=st.integers(0, 2**63 - 1),
    public=json_objects,
    secret=json_objects,
    arrays=st.dictionaries(labels, arrays, max_size=3),
)


def same(left, right):
    labels_equal = all(
        getattr(left, name) == getattr(right, name)
        for name in ("kind", "version", "lineage", "position", "public", "secret")
    )
    return (
        labels_equal
        and left.arrays.keys() == right.arrays.keys()
        and all(
            array.dtype == right.arrays[name].dtype
            and array.shape == right.arrays[name].shape
            and array.tobytes() == right.arrays[name].tobytes()
            for name, array in left.arrays.items()
        )
    )


def example(**changes):
    fields = {
        "kind": "central.example",
        "version": 1,
        "lineage": "0f" * 16,
        "position": 3,
        "public": {"seed": 7, "bounds": [0.1, None]},
        "secret": {"count": 12},
        "arrays": {"sums": np.arange(12.0).reshape(3, 4), "taken": np.array([True, False])},
    }
    return State(**{**fields, **changes})


@given(states)
def test_what_goes_in_comes_out(state):
    data, digest = encode(state)
    decoded, decoded_digest = decode(io.BytesIO(data), len(data))
    assert same(decoded, state)
    assert decoded_digest == digest
    assert encode(decoded) == (data, digest)


def test_restored_arrays_are_plain_writable_and_in_c_order():
    state = example(
        arrays={"fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "strided": np.arange(9)[::2]}
    )
    data, _ = encode(state)
    for name, array in decode(io.BytesIO(data), len(data))[0].arrays.items():
        np.testing.assert_array_equal(array, state.arrays[name])
        assert type(array) is np.ndarray
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned


def test_arrays_are_npy_files_that_numpy_reads_without_pickle():
    state = example()
    data, _ = encode(state)
    _, _, length, _ = PREFIX.unpack_from(data)
    header = json.loads(data[PREFIX.size : PREFIX.size + length])
    stream = io.BytesIO(data[PREFIX.size + length :])
    assert [entry["name"] for entry in header["arrays"]] == ["sums", "taken"]
    for entry in header["arrays"]:
        payload = stream.read(entry["bytes"])
        assert hashlib.sha256(payload).hexdigest() == entry["sha256"]
        np.testing.assert_array_equal(
            np.load(io.BytesIO(payload), allow_pickle=False), state.arrays[entry["name"]]
        )
    assert stream.read() == b""


def test_the_layout_of_version_1_does_not_change():
    """A file written by the first release, byte for byte."""
    data, digest = encode(
        State(
            kind="k",
            version=2,
            lineage="a",
            position=1,
            public={"x": 1},
            arrays={"v": np.array([1, 2], "<i2")},
        )
    )
    header = (
        '{"arrays":[{"bytes":132,"name":"v",'
        '"sha256":"' + hashlib.sha256(data[-132:]).hexdigest() + '"}],'
        '"kind":"k","lineage":"a","position":1,"public":{"x":1},"secret":{},"version":2}'
    ).encode()
    assert digest == hashlib.sha256(header).hexdigest()
    prefix = b"\x93DPBST\r\n" + (1).to_bytes(4, "little") + len(header).to_bytes(8, "little")
    assert data[:-132] == prefix + hashlib.sha256(header).digest() + header
    assert data[-132:].startswith(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }"
    )
    assert data[-4:] == b"\x01\x00\x02\x00"


def test_repr_shows_kind_lineage_and_position_only():
    canary = 777.25
    state = example(
        public={"canary": canary}, secret={"canary": canary}, arrays={"canary": np.full(3, canary)}
    )
    assert repr(state) == str(state) == f"State(kind='central.example', lineage='{'0f' * 16}', position=3)"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": ""},
        {"kind": "two words"},
        {"kind": "a\n"},
        {"kind": None},
        {"lineage": "x" * 101},
        {"lineage": 7},
        {"position": -1},
        {"position": 2**63},
        {"position": True},
        {"position": 1.0},
        {"version": "1"},
        {"public": [1]},
        {"secret": {1: 2}},
        {"arrays": {"a b": np.zeros(2)}},
        {"arrays": {1: np.zeros(2)}},
        {"arrays": {"a": [1, 2]}},
        {"arrays": {"a": np.array(["x"])}},
        {"arrays": {"a": np.array([None, 1])}},
        {"arrays": {"a": np.zeros(2, dtype=complex)}},
        {"arrays": {"a": np.zeros(2, dtype=np.longdouble)}},
        {"arrays": {"a": np.zeros(2, dtype=[("x", "f8")])}},
        {"arrays": {"a": np.ma.masked_array([1.0])}},
    ],
)
def test_what_is_no_state_is_refused(changes):
    with pytest.raises(InvalidParameter):
        example(**changes)


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), {1, 2}, b"777", np.int64(777), object(), {(1, 2): 3}]
)
@pytest.mark.parametrize("part", ["public", "secret"])
def test_what_is_no_json_is_refused_without_showing_it(part, bad):
    with pytest.raises(InvalidParameter) as caught:
        encode(example(**{part: {"x": [bad]}}))
    assert "777" not in str(caught.value)


def test_deep_json_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidParameter):
        encode(example(public={"deep": deep}))


def test_files_are_private_and_leave_nothing_beside_them(tmp_path):
    path = tmp_path / "policy.state"
    old_mask = os.umask(0)
    try:
        digest = write_state(path, example())
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["policy.state"]
    assert same(read_state(path), example())
    assert read_identity(path) == ("central.example", "0f" * 16, 3, digest)
    path.chmod(0o644)
    write_state(path, example(position=4))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_state(str(path)).position == 4
    assert path.read_bytes().startswith(MAGIC)


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.state"
    link.symlink_to(tmp_path / "real" / "policy.state")
    write_state(link, example())
    assert link.is_symlink()
    assert read_state(tmp_path / "real" / "policy.state").position == 3


def test_a_missing_file_is_missing_and_other_things_are_no_states(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for name in ("", "pipe", "empty"):
        with pytest.raises(CorruptState):
            read_state(tmp_path / name)
    with pytest.raises(CorruptState):
        read_state("/dev/zero")


class Crash(BaseException):
    """A crash: nothing in the library catches it."""


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
@pytest.mark.parametrize("error", [Crash, OSError(28, "No space left on device")])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing, error):
    path = tmp_path / "policy.state"
    write_state(path, example())

    def fail(*args):
        raise error

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises((Crash, OSError)):
        write_state(path, example(position=4))
    monkeypatch.undo()
    assert same(read_state(path), example())
    if error is not Crash:
        assert [file.name for file in tmp_path.iterdir()] == ["policy.state"]


@given(st.lists(states, min_size=1, max_size=4))
def test_texts_that_are_remembered_change_no_byte(ones):
    texts = Texts()
    for one in (*ones, *ones):
        assert encode(one, None, texts) == encode(one)


@pytest.mark.parametrize(
    "values", [(1, 1.0, True), (0.0, -0.0, 0, False), ([1], [1.0]), ({"a": 1}, {"a": True})]
)
def test_texts_tell_equal_values_of_other_types_apart(values):
    texts = Texts()
    for value in values:
        one = State(kind="test", version=1, lineage="life", position=0, public={"config": value})
        assert encode(one, None, texts) == encode(one)


def test_a_part_that_stays_as_it_is_is_written_once(monkeypatch):
    texts, written, dumps = Texts(), [], json.dumps

    def counted(value, **options):
        text = dumps(value, **options)
        written.append(len(text))
        return text

    monkeypatch.setattr(json, "dumps", counted)
    public = {"config": {"factor": [[0.1 * number] for number in range(5_000)]}, "promise": {}}
    sizes = []
    for position in range(3):
        written.clear()
        promise = {"releases": list(range(position))}
        one = State(
            kind="test", version=1, lineage="life", position=position, public=public | {"promise": promise}
        )
        encode(one, None, texts)
        sizes.append(sum(written))
    assert sizes[0] > 50_000
    assert max(sizes[1:]) < 1_000
