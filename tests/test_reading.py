"""What is read from others: finite numbers, bounded sizes, one kind of error that shows no value."""

import pytest

from dpbandits._reading import LARGEST_TEXT, json_object, reading
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter, StateError


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "null", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e309}', "[" * 10**5, '{"a": ', "\x00"],
)
def test_what_is_no_object_of_finite_numbers_is_refused(text):
    with pytest.raises(CorruptState, match="not a thing"):
        json_object(text, "a thing", CorruptState)


def test_long_texts_are_refused_before_they_are_parsed():
    with pytest.raises(InvalidParameter, match="longer"):
        json_object(" " * (LARGEST_TEXT + 1), "a thing")


def test_objects_come_through():
    assert json_object('{"a": [1, 2.5, 1e308], "b": null}', "a thing") == {"a": [1, 2.5, 1e308], "b": None}


@pytest.mark.parametrize(
    "misfit", [KeyError("secret"), TypeError("secret"), OverflowError("secret"), RecursionError("secret")]
)
def test_what_python_raises_becomes_one_error_without_the_value(misfit):
    with pytest.raises(InvalidParameter) as caught, reading("a thing"):
        raise misfit
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_errors_of_the_library_keep_or_take_the_kind_that_is_asked_for():
    with pytest.raises(StateError, match="as it was"), reading("a thing"):
        raise CorruptState("as it was")
    with pytest.raises(CorruptState, match="three rows"), reading("a thing", CorruptState):
        raise InvalidData("expected three rows")
    with pytest.raises(InvalidParameter, match="three rows"), reading("a thing"):
        raise InvalidParameter("expected three rows")
