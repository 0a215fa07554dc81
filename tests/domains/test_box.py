"""Box: scaling, clipping and refusal, with bounds that are public and messages that show no value."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpbandits.domains import Ball, Box, Domain, Finite, from_config
from dpbandits.errors import InvalidData, InvalidParameter

BOX = Box(low=[0.0, -3.0], high=[10.0, 5.0])
finite = st.floats(-1e6, 1e6)


@st.composite
def boxes(draw):
    low = draw(st.lists(finite, min_size=1, max_size=4))
    width = draw(st.lists(st.floats(1e-3, 1e6), min_size=len(low), max_size=len(low)))
    return Box(low=low, high=np.add(low, width))


def test_bounds_may_stand_in_their_order_without_names():
    assert Box([0, -1], [1, 2]) == Box(low=[0, -1], high=[1, 2])
    assert Finite([[0.0], [1.0]]) == Finite(points=[[0.0], [1.0]])
    assert Ball([0.0], 2.0) == Ball(centre=[0.0], radius=2.0)


def test_is_a_domain_with_public_repr():
    assert isinstance(BOX, Domain)
    assert BOX.dim == 2
    assert repr(BOX) == "Box(low=[0.0, -3.0], high=[10.0, 5.0])"


@given(boxes(), st.integers(0, 2**32))
def test_samples_lie_inside_and_survive_the_unit_cube_and_back(box, seed):
    points = box.sample(20, np.random.default_rng(seed))
    assert points.shape == (20, box.dim)
    assert box.contains(points).all()
    unit = box.to_unit(points)
    assert ((unit >= 0) & (unit <= 1)).all()
    back = box.from_unit(unit)
    assert box.contains(back).all()
    np.testing.assert_allclose(back, points, atol=1e-9 * (1 + np.abs(box.low) + np.abs(box.high)).max())


@given(boxes())
def test_config_rebuilds_an_equal_box(box):
    assert from_config(box.to_config()) == box
    assert hash(from_config(box.to_config())) == hash(box)


def test_sample_covers_the_box_uniformly():
    unit = BOX.to_unit(BOX.sample(100_000, np.random.default_rng(1)))
    # Mean of 1e5 uniforms: sd 0.29/316 = 9e-4; 6 sd has a false-alarm rate of 2e-9 (seed fixed).
    assert np.abs(unit.mean(axis=0) - 0.5).max() < 6 * 9.2e-4
    assert np.abs((unit < 0.25).mean(axis=0) - 0.25).max() < 6 * 1.4e-3


@given(hnp.arrays(np.float64, (7, 2), elements=finite))
def test_clip_moves_points_onto_the_box_and_leaves_members_alone(points):
    clipped = BOX.clip(points)
    assert BOX.contains(clipped).all()
    inside = BOX.contains(points)
    np.testing.assert_array_equal(clipped[inside], points[inside])


def test_validate_keeps_leading_shape_and_does_not_copy_what_fits():
    batch = BOX.sample(24, np.random.default_rng(0)).reshape(2, 3, 4, 2)
    assert BOX.validate(batch) is batch
    assert BOX.contains(batch).shape == (2, 3, 4)
    strided = batch[..., ::-1][..., ::-1].transpose(2, 1, 0, 3)
    valid = BOX.validate(strided)
    assert valid.flags.c_contiguous
    assert valid.shape == (4, 3, 2, 2)
    assert BOX.validate([[1, 2]]).dtype == np.float64
    assert BOX.validate(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("box", [Box([0, 0], [1, 1]), Box([0, -2], [1, 1])], ids=["equal", "of each column"])
def test_bounds_are_exact_and_included(box):
    corners = np.stack([box.low, box.high])
    assert box.encloses(corners)
    assert box.encloses(np.empty((0, 2)))
    beyond = np.stack([np.nextafter(box.low, -np.inf), np.nextafter(box.high, np.inf)])
    for wrong in (*beyond.ravel(), np.nan, np.inf, -np.inf):
        for column in range(2):
            points = np.stack([corners, corners])
            points[1, 0, column] = wrong
            if wrong in (beyond[0, column], beyond[1, column]) or not np.isfinite(wrong):
                assert not box.encloses(points)
                assert box.contains(points).tolist() == [[True, True], [False, True]]


MALFORMED = [
    [[1.0, np.nan]],
    [[np.inf, 0.0]],
    [[1.0], [2.0]],
    [1.0, 2.0, 777.25],
    777.25,
    [["777.25", "1"]],
    [[777.25, 1.0], [1.0]],
    [[777.25, None]],
    [[True, False]],
    [[1j, 0]],
    np.ma.masked_array([[777.25, 1.0]], mask=[[True, False]]),
    [[10**400, 1]],
    np.array([["2020-01-01", "2021-01-01"]], dtype="datetime64[D]"),
    pd.DataFrame({"a": [777.25], "b": [1.0]}),
]
OUTSIDE = [[[777.25, 0.0]], [[1.0, -3.0000001]], [[[0.0, 0.0], [-777.25, 0.0]]]]


def refuses(method, points):
    with pytest.raises(InvalidData) as caught:
        method(points)
    assert "777" not in str(caught.value)
    assert "3.0000001" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("points", MALFORMED)
@pytest.mark.parametrize("method", [BOX.validate, BOX.clip, BOX.to_unit], ids=["validate", "clip", "to_unit"])
def test_malformed_points_are_refused_without_showing_them(points, method):
    refuses(method, points)


@pytest.mark.parametrize("points", OUTSIDE)
@pytest.mark.parametrize("method", [BOX.validate, BOX.to_unit], ids=["validate", "to_unit"])
def test_points_outside_are_refused_without_showing_them(points, method):
    refuses(method, points)


def test_messages_name_the_array_the_column_and_the_public_bounds():
    with pytest.raises(InvalidData, match=r"contexts has points outside .*column 1 in \[-3, 5\]"):
        BOX.validate([[1.0, 6.0]], name="contexts")
    with pytest.raises(InvalidData, match=r"reshape it to \(3, 1\)"):
        Box(low=[0], high=[1]).validate([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([], []),
        ([0.0], [0.0]),
        ([1.0], [0.0]),
        ([0.0], [np.inf]),
        ([np.nan], [1.0]),
        ([0.0, 0.0], [1.0]),
        (0.0, 1.0),
        ([[0.0]], [[1.0]]),
        (["a"], ["b"]),
        ([-1.7e308], [1.7e308]),
    ],
)
def test_bad_bounds_are_refused(low, high):
    with pytest.raises(InvalidParameter):
        Box(low=low, high=high)


def test_bounds_cannot_change():
    low = np.zeros(2)
    box = Box(low=low, high=[1, 1])
    low[0] = 5
    assert box.low[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        box.low[0] = 5
    with pytest.raises(AttributeError):
        box.low = np.ones(2)


def test_grid():
    np.testing.assert_array_equal(
        Box(low=[0, 0], high=[1, 4]).grid([2, 3]), [[0, 0], [0, 2], [0, 4], [1, 0], [1, 2], [1, 4]]
    )
    assert Box(low=[0], high=[1]).grid(1) == [[0.5]]
    assert BOX.contains(BOX.grid(17)).all()
    for bad in (0, [1], [1, 2, 3], [2.0, 2.0], 1.5, True, 10**6):
        with pytest.raises(InvalidParameter):
            BOX.grid(bad)


def test_from_unit_refuses_what_is_not_in_the_unit_cube():
    for bad in ([[0.5, 1.5]], [[np.nan, 0.5]]):
        with pytest.raises(InvalidData):
            BOX.from_unit(bad)


def test_sample_refuses_bad_sizes():
    rng = np.random.default_rng(0)
    assert BOX.sample(0, rng).shape == (0, 2)
    for bad in (-1, 1.5, True):
        with pytest.raises(InvalidParameter):
            BOX.sample(bad, rng)
