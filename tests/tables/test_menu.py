"""`Menu` reads one person's plain values as `Schema.encode` reads a table of them."""

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import InvalidData
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.menu import Menu

PEOPLE = Schema(
    age=Range(18, 90),
    income=Range(0.1, 1e5, clip=True),
    tilt=Range(-0.3, 0.7),
    region=Categories(["north", "south", "west"]),
    rooms=Categories([1, 2, 5]),
    member=Categories([True, False]),
)
MENU = Menu(contexts=PEOPLE, arms=["mail", "call"])

numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.integers(-5, 100),
    st.floats(-1, 1),
    st.booleans(),
    st.sampled_from(
        [18, 90, 90.0, -0.3, 0.7, 0.1, 1e5, -0.0, np.float32(44), np.int8(44), None, "44", b"44"]
    ),
)
codes = st.sampled_from(
    ["north", "west", np.str_("south"), "east", 1, 2.0, 5, True, 0, None, "True", np.True_]
)
person = st.fixed_dictionaries(
    dict.fromkeys(("age", "income", "tilt"), numbers) | dict.fromkeys(("region", "rooms", "member"), codes)
)


@given(person)
def test_one_person_is_read_as_a_table_of_one(one):
    try:
        expected = PEOPLE.encode({name: [value] for name, value in one.items()})[0]
    except InvalidData:
        expected = np.full(6, np.nan)
    np.testing.assert_array_equal(MENU.point(one), expected)
    np.testing.assert_array_equal(MENU.points([one])[0], expected)


@given(st.lists(person, min_size=1, max_size=9))
def test_everybody_in_a_table_is_read_as_alone(people):
    alone = np.stack([MENU.point(one) for one in people])
    np.testing.assert_array_equal(MENU.points(people), alone)
    columns = {name: [one[name] for one in people] for name in PEOPLE.names}
    np.testing.assert_array_equal(MENU.points(columns), alone)


class Overwritten(Range):
    """While it looks at a column, somebody else writes into the array that it came in."""

    def points(self, values):
        points = super().points(values)
        points[1] = np.inf
        return points


def test_what_is_overwritten_while_it_is_read_cannot_be_read():
    menu = Menu(contexts=Schema(age=Range(18, 90), tilt=Overwritten(0, 1)), arms=["mail", "call"])
    points = menu.points({"age": np.array([18.0, 54.0, 90.0]), "tilt": np.array([0.0, 0.5, 1.0])})
    np.testing.assert_array_equal(points, [[0.0, 0.0], [np.nan, np.nan], [1.0, 1.0]])


@given(person)
def test_what_cannot_be_read_is_said_without_a_value(one):
    one = one | {"age": 4711.25}
    with pytest.raises(InvalidData) as refused:
        MENU.refuse(one, None)
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize("one", [{"region": "north"}, {"age": 44}, {}, {"age": None, "region": "north"}])
def test_a_key_that_is_not_there_is_a_value_that_is_missing(one):
    filled = Menu(
        contexts=Schema(
            age=Range(18, 90, missing=54), region=Categories(["north", "south"], missing="south")
        ),
        arms=["mail", "call"],
    )
    expected = [0.5 if one.get("age") is None else 26 / 72, 0.0 if "region" in one else 1.0]
    assert filled.point(one).tolist() == filled.points([one])[0].tolist() == expected


def test_sets_are_contexts_beside_every_arm():
    points = MENU.points(
        {name: [one] * 2 for name, one in zip(PEOPLE.names, (44, 10.0, 0, "west", 5, True), strict=True)}
    )
    sets = MENU.sets(points)
    assert sets.shape == (2, 2, 7)
    np.testing.assert_array_equal(sets[:, :, :-1], np.repeat(points[:, None], 2, axis=1))
    assert sets[0, :, -1].tolist() == [0.0, 1.0]
    assert MENU.domain.contains(sets).all()


def test_labels_become_codes():
    menu = Menu(contexts=PEOPLE, arms=[1, "mail", 0.5])
    assert menu.cells(["mail", "0.50", 1, True, "01", "2", None]).tolist() == [1, 2, 0, 0, 0, -1, -1]
    assert menu.cells(np.array([1, 0.5, 7])).tolist() == [0, 2, -1]
    for no_list in ("1", 1, None, {"1": 1}):
        with pytest.raises(InvalidData):
            menu.cells(no_list)
    assert json.loads(json.dumps(menu.arms.labels)) == [1, "mail", 0.5]
    assert menu.offered({"mail", "1"}).tolist() == [True, True, False]
    assert menu.offered(["mail", 7]).tolist() == [False] * 3
    assert menu.offered(label for label in (0.5, "mail")).tolist() == [False, True, True]
    assert menu.offered(np.array(["mail", "mail"])).tolist() == [False, True, False]
    assert menu.offered(np.array([0.5, 1.0])).tolist() == [True, False, True]
    for none in ([], "mail", b"mail", None, [["mail"]], ["mail", None], np.array([["mail"]]), [float("nan")]):
        assert not menu.offered(none).any()


def test_labels_as_they_were_declared_are_looked_up_and_not_read_one_by_one():
    """A third of 1,000 arms is found in at most 40 times the time of a set of the same labels."""
    labels = [f"product {place}" for place in range(1_000)]
    menu, some = Menu(contexts=PEOPLE, arms=labels), labels[::3]

    def fastest(call):
        taken = []
        for _ in range(200):
            began = time.perf_counter()
            call(some)
            taken.append(time.perf_counter() - began)
        return min(taken)

    assert menu.offered(some).sum() == len(some)
    assert fastest(menu.offered) < 40 * fastest(set)


def test_what_is_said_of_text_does_not_depend_on_how_long_it_is():
    said = set()
    for value in ("x4", "x4711"):
        for read in (PEOPLE.encode, MENU.encode):
            with pytest.raises(InvalidData) as refused:
                read({"age": np.array([value]), **{name: [1] for name in PEOPLE.names[1:]}})
            said.add(str(refused.value))
    assert len(said) == 1


class Turning(float):
    """A number that is read as another one every second time."""

    reads = 0

    def __float__(self):
        Turning.reads += 1
        return float("nan") if Turning.reads % 2 else 30.0


def test_a_context_that_reads_differently_is_refused_in_words_of_its_own():
    menu = Menu(contexts=Schema(age=Range(18, 90)), arms=["a", "b"])
    with pytest.raises(InvalidData, match="changed while it was read"):
        menu.refuse({"age": 30.0}, None)
    with pytest.raises(InvalidData, match="available"):
        menu.refuse({"age": 30.0}, [])
    for _ in range(4):
        point = menu.point({"age": Turning(30.0)})
        assert np.isnan(point).all() or np.isfinite(point).all()
