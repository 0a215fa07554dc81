"""Arms: integer codes and their names."""

import json
from enum import StrEnum

import numpy as np
import pytest

from dpbandits.domains import Arms, Domain, from_config
from dpbandits.errors import InvalidData, InvalidParameter


class Name(StrEnum):
    A = "a"


def test_labels_come_back_from_json_as_they_were():
    given = ["mail", 0, 2.5, np.int64(7), np.float64(0.1), np.str_("call"), Name.A, "one", "1", 2**53]
    arms = Arms(given)
    again = from_config(json.loads(json.dumps(arms.to_config())))
    assert again.labels == arms.labels == tuple(given)
    assert [type(label) for label in again.labels] == [type(label) for label in arms.labels]
    assert [arms.code(label) for label in given] == list(range(len(given)))
    assert [arms.code(other) for other in ("fax", None, [1], {}, 3, float("nan"))] == [-1] * 6
    assert Arms([True, False]).code(np.True_) == 0


def test_numbers_and_names():
    arms = Arms(["control", "mail"])
    assert isinstance(arms, Domain)
    assert (arms.dim, arms.n_arms, arms.names) == (1, 2, ("control", "mail"))
    np.testing.assert_array_equal(arms.points, [[0.0], [1.0]])
    assert Arms(2).names == ("0", "1")
    assert Arms(np.array(["x", "y"])).names == ("x", "y")
    assert Arms(np.int64(3)).n_arms == 3


def test_membership_is_integer_codes_in_range():
    codes = np.array([[0], [1], [2], [3], [-1], [0.5], [np.nan], [np.inf]])
    np.testing.assert_array_equal(Arms(3).contains(codes), [True, True, True] + [False] * 5)
    valid = Arms(3).validate([[[0], [2]]])
    assert valid.shape == (1, 2, 1)
    assert valid.dtype == np.float64


@pytest.mark.parametrize("codes", [[[77]], [[-1]], [[0.5]], [[np.nan]], [[0, 1]], [0, 1], [["a"]], [[True]]])
def test_other_codes_are_refused(codes):
    with pytest.raises(InvalidData) as caught:
        Arms(3).validate(codes)
    assert "77" not in str(caught.value)


def test_clip_repairs_to_the_nearest_code():
    np.testing.assert_array_equal(Arms(3).clip([[-4], [0.6], [9]]), [[0], [1], [2]])


def test_sample_reaches_every_arm_equally():
    codes = Arms(4).sample(40_000, np.random.default_rng(5))
    assert codes.shape == (40_000, 1)
    # Binomial sd 87 around 10,000; 6 sd, 4 cells: false alarms below 1e-8 (seed fixed).
    assert np.abs(np.bincount(codes[:, 0].astype(int)) - 10_000).max() < 6 * 87


@pytest.mark.parametrize("arms", [Arms(1), Arms(5), Arms(["a", "b"])])
def test_config_rebuilds_equal_arms(arms):
    assert from_config(arms.to_config()) == arms
    assert hash(from_config(arms.to_config())) == hash(arms)
    assert eval(repr(arms), {"Arms": Arms}) == arms  # noqa: S307 - our own repr


@pytest.mark.parametrize(
    "bad",
    [
        *(0, -1, 2.0, True, [], "ab", None, (65536,) * 65537),
        *(["a", "a"], [1, True], [1, 1.0], [0.0, -0.0], [np.int64(1), 1], [Name.A, "a"]),
        *([None], [("a",)], [float("nan")], [float("inf")], [1j], [b"a"], [2**53 + 1], [[1], [2]], {"a": 1}),
    ],
)
def test_bad_arms_are_refused(bad):
    with pytest.raises(InvalidParameter):
        Arms(bad)
