"""Damaged and hostile files: CorruptState or IncompatibleState, no other exception, no big allocation."""

import hashlib
import io
import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import CorruptState, IncompatibleState, StateError
from dpbandits.state import State, read_state
from dpbandits.state.format import FORMAT_VERSION, MAGIC, MAX_HEADER_BYTES, PREFIX, decode, encode

STATE = State(
    kind="k",
    version=1,
    lineage="ab",
    position=3,
    public={"seed": 7},
    secret={"count": 5},
    arrays={"sums": np.arange(6.0).reshape(2, 3), "flags": np.array([True, False]), "none": np.zeros((0, 2))},
)
DATA, DIGEST = encode(STATE)
HEADER = json.loads(DATA[PREFIX.size : PREFIX.size + PREFIX.unpack_from(DATA)[2]])


def read(data):
    return decode(io.BytesIO(data), len(data))


def refuses(data, error=CorruptState):
    with pytest.raises(StateError) as caught:
        read(data)
    assert type(caught.value) is error


def forged(header, payload=b"", *, version=FORMAT_VERSION):
    """A file whose checksums are right, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(MAGIC, version, len(text), hashlib.sha256(text).digest()) + text + payload


def forged_array(npy, **changes):
    entry = {"name": "x", "bytes": len(npy), "sha256": hashlib.sha256(npy).hexdigest()}
    return forged({**HEADER, "arrays": [{**entry, **changes}]}, npy)


def npy_bytes(header, body=b"", version=b"\x01\x00"):
    text = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + body


def header_text(descr="<f8", order="False", shape="(2,)"):
    return f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"


def test_forging_by_hand_works_so_that_refusals_below_mean_something():
    assert read(forged(HEADER, DATA[PREFIX.size + PREFIX.unpack_from(DATA)[2] :]))[0].position == 3
    state, _ = read(forged_array(npy_bytes(header_text(), np.ones(2).tobytes())))
    np.testing.assert_array_equal(state.arrays["x"], [1.0, 1.0])


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_noticed(bit):
    for index in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[index] ^= 1 << bit
        in_version = len(MAGIC) <= index < len(MAGIC) + 4
        refuses(bytes(damaged), IncompatibleState if in_version else CorruptState)


def test_every_truncation_is_noticed():
    for length in range(len(DATA)):
        refuses(DATA[:length])


@given(st.binary(min_size=1, max_size=50))
def test_anything_appended_is_noticed(tail):
    refuses(DATA + tail)


@given(st.integers(0, len(DATA)), st.binary(max_size=200), st.integers(0, 200))
def test_anything_spliced_in_is_noticed(at, inserted, removed):
    damaged = DATA[:at] + inserted + DATA[at + removed :]
    if damaged == DATA:
        return
    with pytest.raises((CorruptState, IncompatibleState)):
        read(damaged)


@given(st.binary(max_size=300))
def test_foreign_bytes_are_no_state(data):
    refuses(data)
    refuses(MAGIC + FORMAT_VERSION.to_bytes(4, "little") + data)


def test_foreign_files_are_no_state(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.savez(tmp_path / "a.npz", np.zeros(3))
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(STATE.arrays))
    (tmp_path / "a.json").write_text("{}")
    for path in tmp_path.iterdir():
        with pytest.raises(CorruptState):
            read_state(path)


@pytest.mark.parametrize("version", [0, 3, 2**32 - 1])
def test_other_versions_of_the_format_are_incompatible(version):
    refuses(forged(HEADER, version=version), IncompatibleState)


@given(
    st.sampled_from(sorted(HEADER)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
)
def test_a_forged_field_is_refused_or_makes_a_sound_state(field, value):
    try:
        state, _ = read(forged({**HEADER, "arrays": [], field: value}))
    except CorruptState:
        return
    assert isinstance(state, State)
    assert state.arrays == {}
    encode(state)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"kind": NaN}',
        b"[" * 500_000,
        b"1" * 10_000,
        {},
        {name: value for name, value in HEADER.items() if name != "secret"},
        {**HEADER, "arrays": [], "more": 1},
        {**HEADER, "arrays": {}},
        {**HEADER, "arrays": ["x"]},
        {**HEADER, "arrays": [{"name": "x", "bytes": 0}]},
        {
            **HEADER,
            "arrays": [{"name": "x", "bytes": -5, "sha256": ""}, {"name": "y", "bytes": 5, "sha256": ""}],
        },
        {**HEADER, "arrays": [{"name": "x", "bytes": True, "sha256": ""}]},
        {**HEADER, "arrays": [{"name": "x", "bytes": 1e3, "sha256": ""}]},
        {**HEADER, "arrays": [{"name": "x", "bytes": 10**400, "sha256": ""}]},
        {**HEADER, "arrays": [{"name": ["x"], "bytes": 0, "sha256": ""}]},
        {**HEADER, "arrays": [{"name": "x", "bytes": 0, "sha256": ""}] * 2},
        {**HEADER, "arrays": [{"name": "../x", "bytes": 0, "sha256": ""}]},
        {**HEADER, "arrays": [], "public": {"x": 1}, "position": 10**30},
    ],
    ids=lambda header: str(header)[:40],
)
def test_forged_headers_are_refused(header):
    refuses(forged(header))


OBJECTS = io.BytesIO()
np.lib.format.write_array(OBJECTS, np.array([print], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    "npy",
    [
        b"",
        b"\x93NUMPY",
        OBJECTS.getvalue(),
        npy_bytes(header_text(), np.ones(3).tobytes()),
        npy_bytes(header_text(), np.ones(1).tobytes()),
        npy_bytes(header_text(), np.ones(2).tobytes(), version=b"\x02\x00"),
        npy_bytes(header_text("|O"), b"\0" * 16),
        npy_bytes(header_text("<f16"), b"\0" * 32),
        npy_bytes(header_text("<b8"), b"\0" * 16),
        npy_bytes(header_text("<U4"), b"\0" * 32),
        npy_bytes(header_text("|V8"), b"\0" * 16),
        npy_bytes(header_text("|b1"), b"\x01\x02"),
        npy_bytes(header_text(order="True"), b"\0" * 16),
        npy_bytes(header_text(shape="(-2,)"), b""),
        npy_bytes(header_text(shape="(2.0,)"), b"\0" * 16),
        npy_bytes(header_text(shape="2"), b"\0" * 16),
        npy_bytes(header_text(shape="(9999999999999999999, 9999999999999999999)"), b""),
        npy_bytes(header_text(shape="(0, 9999999999999999999)"), b""),
        npy_bytes(header_text(shape=f"({'1, ' * 65})"), b"\0" * 8),
        npy_bytes(header_text(shape="(__import__('os').system('true'),)"), b""),
        npy_bytes("{'descr': " + "[" * 3000, b""),
        npy_bytes(b"\xff" * 200, b""),
    ],
    ids=lambda npy: str(npy[-60:])[:40],
)
def test_forged_arrays_are_refused(npy):
    refuses(forged_array(npy))


def test_the_checksum_of_an_array_is_checked():
    refuses(forged_array(npy_bytes(header_text(), np.ones(2).tobytes()), sha256="0" * 64))


def test_no_length_makes_us_allocate_more_than_the_file_has(tmp_path):
    claims = [
        PREFIX.pack(MAGIC, FORMAT_VERSION, 2**63, b"\0" * 32),
        PREFIX.pack(MAGIC, FORMAT_VERSION, MAX_HEADER_BYTES, b"\0" * 32),
        forged({**HEADER, "arrays": [{"name": "x", "bytes": 2**40, "sha256": ""}]}),
        forged_array(npy_bytes(header_text(shape=f"({2**37},)"))),
    ]
    tracemalloc.start()
    try:
        path = tmp_path / "claim"
        for claim in claims:
            refuses(claim)
            path.write_bytes(claim)
            with pytest.raises(CorruptState):
                read_state(path)
        # A sparse file that is as long as it claims, without a sound header.
        path = tmp_path / "sparse"
        path.write_bytes(PREFIX.pack(MAGIC, FORMAT_VERSION, 2**36, b"\0" * 32))
        os.truncate(path, 2**36 + PREFIX.size)
        with pytest.raises(CorruptState):
            read_state(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_errors_show_nothing_of_the_content():
    canary = b"canary-777"
    data = encode(State(kind="k", version=1, lineage="a", position=1, secret={"x": canary.decode()}))[0]
    for damaged in (data[:-1], data.replace(b"777", b"778"), forged(data[PREFIX.size : -1])):
        with pytest.raises(CorruptState) as caught:
            read(damaged)
        assert "canary" not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
