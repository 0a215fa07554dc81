"""No cell of a table changes how another row is read, whichever library has read the table.

Readers choose one type for a whole column: one "unknown" turns numbers into text, one blank turns integers
into floats. Each test reads a table twice, the second time with one cell replaced, and compares all other
rows.
"""

import datetime as dt
import io
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits import Box, Categories, Cycle, DateRange, JointDP, LocalDP, Ordered, Range, Schema
from dpbandits.adapters.mabwiser import MAB
from dpbandits.adapters.sklearn import LoggedPolicy
from dpbandits.central import ExploreThenCommit, GPBandit, LoggedTable
from dpbandits.domains import Arms
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation.crowds import people_of, simulate
from dpbandits.lab.worlds import table_from_toml
from dpbandits.local import Spec
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced.scaling import PublicScaling, TableRows
from dpbandits.policy import Receipt
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.state import read_state
from dpbandits.tables.described import DescribedTable
from dpbandits.tables.menu import Menu
from dpbandits.tables.owners import Owners
from hostile.values import HOSTILE
from internals.logged import sums
from tables import engines

PEOPLE = Schema(
    age=Range(18, 90, missing=40),
    weight=Range(0, 200, clip=True),
    visits=Categories([1, 2, 3]),
    plan=Categories(["1", "2", "3"], unknown="3"),
    member=Categories([True, False]),
    since=DateRange("2024-01-01", "2024-12-31"),
    hour=Cycle(24),
)
ARMS = [10, 20, 30]
N = 12
NAMES = [*PEOPLE.names, "arm", "paid", "chance", "person"]


def cells():
    """A table as a CSV file has it: texts."""
    rng = np.random.default_rng(5)
    return {
        "age": [str(18 + 6 * row) for row in range(N)],
        "weight": [f"{weight:.2f}" for weight in rng.uniform(40, 210, N)],
        "visits": [str(1 + row % 3) for row in range(N)],
        "plan": [str(1 + row % 4) for row in range(N)],
        "member": [str(row % 3 == 0) for row in range(N)],
        "since": [f"2024-{1 + row:02d}-15" for row in range(N)],
        "hour": [str(2 * row) for row in range(N)],
        "arm": [str(ARMS[row % 3]) for row in range(N)],
        "paid": [str(row % 2) for row in range(N)],
        "chance": ["0.25" if row % 2 else "0.5" for row in range(N)],
        "person": [str(100 + row // 2) for row in range(N)],
    }


JUNK = ["unknown", "41y", "", None, "NaN", "1e999", "2024-05-31", "true", "7.5", "0x1A", "n/a"]


def as_csv(table):
    lines = [
        ",".join(table),
        *(",".join("" if c is None else c for c in row) for row in zip(*table.values(), strict=True)),
    ]
    return "\n".join(lines) + "\n"


def by_pandas(table, **options):
    return pd.read_csv(io.StringIO(as_csv(table)), **options)


def typed(table):
    """Columns as Python has them where every cell is one number; else as they are."""

    def value(cell):
        for kind in (int, float):
            try:
                return kind(cell)
            except (TypeError, ValueError):
                continue
        return cell

    return {name: [value(cell) for cell in column] for name, column in table.items()}


def by_rows(table):
    return [dict(zip(table, row, strict=True)) for row in zip(*typed(table).values(), strict=True)]


READERS = {
    "pandas": by_pandas,
    "pandas-pyarrow": lambda table: by_pandas(table, dtype_backend="pyarrow", engine="pyarrow"),
    "pandas-nullable": lambda table: by_pandas(table, dtype_backend="numpy_nullable"),
    "pandas-objects": lambda table: pd.DataFrame(typed(table), dtype=object),
    "pandas-categorical": lambda table: by_pandas(table).astype("category"),
    "polars": lambda table: pl.read_csv(io.StringIO(as_csv(table)), try_parse_dates=True),
    "pyarrow": lambda table: pa.csv.read_csv(io.BytesIO(as_csv(table).encode())),
    "texts": dict,
    "lists": typed,
    "arrays": lambda table: {
        name: np.array(["" if c is None else c for c in column]) for name, column in table.items()
    },
}


def read(table, reader):
    """What `learn` makes of each row: contexts, arm, reward, propensity and person."""
    log = LoggedTable.of_people(
        READERS[reader](table), contexts=PEOPLE, arms=ARMS, action="arm", reward="paid", reward_range=(0, 1),
        propensity="chance", user="person",
    )  # fmt: skip
    return rows_of(log)


def rows_of(log):
    owners = Owners.of(log.rows["users"], count=N)
    people = [owners.texts[number] if number >= 0 else None for number in owners.numbers]
    parts = [log.rows[name] for name in ("contexts", "actions", "rewards", "propensities")]
    return [(*(np.ravel(part[row]).tolist() for part in parts), people[row]) for row in range(N)]


WHOLE = cells()


@pytest.fixture(scope="module")
def expected():
    return read(WHOLE, "texts")


@pytest.mark.parametrize("reader", READERS)
def test_a_whole_table_is_read_alike_by_all(reader, expected):
    found = read(WHOLE, reader)
    assert found == expected
    assert all(np.isfinite(row[0]).all() and row[1] != [-1] and row[4] for row in found)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_one_cell_changes_no_other_row(reader, name, expected):
    for at, junk in enumerate(JUNK):
        place = (5 * at) % N
        column = list(WHOLE[name])
        column[place] = junk
        found = read({**WHOLE, name: column}, reader)
        others = [row for row in range(N) if row != place]
        assert [found[row] for row in others] == [expected[row] for row in others], junk


@pytest.mark.parametrize("name", [*PEOPLE.names, "arm", "paid", "person"])
def test_one_cell_of_a_file_changes_no_other_row(tmp_path, name):
    text = (
        PEOPLE.to_toml()
        + '\n[log]\narm = "arm"\narms = [10, 20, 30]\nreward = "paid"\nlow = 0\nhigh = 1\n'
        + 'propensity = "chance"\n[user]\ncolumn = "person"\nrows = 1\n'
    )
    described = DescribedTable.from_text(text)

    def of(table):
        (tmp_path / "t.csv").write_text(as_csv(table))
        return rows_of(LoggedTable.described(described, described.read(tmp_path / "t.csv", lenient=True)))

    before = of(WHOLE)
    for junk in JUNK:
        column = list(WHOLE[name])
        column[3] = junk
        after = of({**WHOLE, name: column})
        assert after[:3] + after[4:] == before[:3] + before[4:], junk


def test_lists_of_people_are_read_cell_by_cell():
    menu = Menu(contexts=PEOPLE, arms=ARMS)
    before = menu.points(by_rows(WHOLE))
    for name in PEOPLE.names:
        for junk in [*JUNK, [1], {}, b"\xff", 10**400, object()]:
            people = by_rows(WHOLE)
            people[2][name] = junk
            np.testing.assert_array_equal(np.delete(menu.points(people), 2, 0), np.delete(before, 2, 0))


# -- what policies make of it ------------------------------------------------------------------------


def learner(*, user_ids=True, **options):
    return ExploreThenCommit(
        contexts=Schema(age=Range(18, 90)), arms=["a", "b"], reward_range=(0, 1), horizon=4000,
        privacy=JointDP(epsilon=1, delta=1e-6, user_ids=user_ids), noise=SimulatedNoise(0), **options,
    )  # fmt: skip


def test_the_attack_by_one_unknown_age_moves_one_row():
    """Before cells were read by themselves, this pair of tables had disjoint outputs at epsilon 1."""
    rng = np.random.default_rng(1)
    table = {"age": rng.integers(18, 91, 4000).astype(str).tolist(), "paid": ["1"] * 4000}
    arms = rng.choice(["a", "b"], 4000).tolist()
    moved = []
    for junk in ("unknown", None):
        sums = []
        for cell in (table["age"][7], junk):
            frame = by_pandas({"age": [*table["age"][:7], cell, *table["age"][8:]], "paid": table["paid"]})
            shard = learner(user_ids=False).shard()
            shard.learn(frame[["age"]], arms, frame["paid"])
            assert shard.unsafe_left_out["unreadable"] == int(cell is junk)
            sums.append(shard.arrays()["sums"])
        moved.append(np.count_nonzero(sums[0] != sums[1]))
    assert 0 < max(moved) <= 8  # one entry of each released table
    assert len(set(moved)) == 1


def test_rows_of_nobody_and_surplus_rows_cost_themselves_alone():
    policy = learner(user_ids=True)
    policy.learn({"age": [30, 40, 50, 60]}, ["a", "b", "a", "b"], [1, 1, 1, 1], users=[1, None, 3, 1.0])
    assert policy.unsafe_left_out == {"unreadable": 0, "surplus": 2}
    frame = pd.DataFrame({"id": [1, None, 3]})  # a blank makes floats of the ids
    policy = learner(user_ids=True)
    policy.learn({"age": [30, 40, 50]}, ["a", "b", "a"], [1, 1, 1], users=frame["id"])
    policy.learn({"age": [30]}, ["a"], [1], users=["003"])
    assert policy.unsafe_left_out == {"unreadable": 0, "surplus": 2}


def test_rows_of_nobody_take_no_place_of_the_horizon():
    """Else one person could push all others over its end by leaving the id out."""
    many = 4000
    policy = learner(user_ids=True)
    rows = {"age": [30] * many + [50] * 100}
    policy.learn(rows, ["a"] * (many + 100), [1] * (many + 100), users=[None] * many + list(range(100)))
    alone = learner(user_ids=True)
    alone.learn({"age": [50] * 100}, ["a"] * 100, [1] * 100, users=list(range(100)))
    assert policy.unsafe_left_out == {"unreadable": 0, "surplus": many}
    assert np.array_equal(sums(policy), sums(alone))


def test_predictions_answer_everybody_else():
    frame = by_pandas(WHOLE)
    published = bandit(user_ids=False).publish(prior=True)
    expected, labels = published.predict(frame)[0], published.recommend_batch(frame)
    for junk in ("unknown", None, "9.5"):
        odd = by_pandas({**WHOLE, "visits": [*WHOLE["visits"][:4], junk, *WHOLE["visits"][5:]]})
        for mean in (published.predict(odd)[0], bandit(user_ids=False).predict(odd)[0]):
            assert np.isnan(mean[4]).all()
            np.testing.assert_array_equal(np.delete(mean, 4, 0), np.delete(expected, 4, 0))
        chosen = published.recommend_batch(odd)
        assert (chosen[4], chosen[:4] + chosen[5:]) == (None, labels[:4] + labels[5:])
        with pytest.raises(InvalidData, match="visits"):
            published.predict(odd.iloc[4:5])  # one person's own cell


def test_a_hostile_cell_costs_its_own_row():
    class Time(dt.time):
        def __hash__(self):
            raise RuntimeError("secret")

        isoformat = __hash__

    class Text(str):
        strip = casefold = decode = property(lambda self: 1 / 0)

    class Number(float):
        __ne__ = __float__ = __eq__ = property(lambda self: 1 / 0)
        __hash__ = float.__hash__

    class Sequence:
        def __array__(self, *_, **__):
            raise RuntimeError("secret")

        __len__ = __getitem__ = __array__

    for odd in (Time(10, 30), Text("x"), Number(1), Sequence(), "a" + "\u0301\u0323" * 100_000):
        assert Owners.of([7, odd, 8], count=3).numbers.tolist()[::2] == [0, 1 if odd_is_nobody(odd) else 2]
        assert Arms([5, 8]).codes([5, odd, 8]).tolist()[::2] == [0, 1]
        points = Menu(contexts=Schema(age=Range(0, 9)), arms=["a"]).points({"age": [5, odd, 8]})
        assert np.isfinite(points[::2]).all()
        receipts = (policy := bandit(user_ids=False)).tell_batch(
            policy.ask_batch(by_pandas(WHOLE).iloc[:3]).ids, [1, odd, 0]
        )
        assert receipts[::2] == (Receipt.COUNTED, Receipt.COUNTED)


ALONE = Schema(
    **{f"people {name}": column for name, column in PEOPLE.columns.items()},
    size=Range(-1, 1, clip=True, missing=0.3),
    thirds=Range(0.1, 0.7),
    steps=Ordered([1, 2.5, 10**20 + 1]),
    words=Categories(["none", "north", "2024-05-31", "17:30"], unknown="north"),
    gaps=Categories(["north", "NA"]),
    until=DateRange("2023-12-30T10:00", "2024-06-01T00:00:00.000001", missing="2024-01-01"),
    clipped=DateRange("0001-01-01", "9999-12-31", clip=True),
    day=Cycle("day", missing=5),
    week=Cycle("week"),
    year=Cycle("year", missing=365),
    tiny=Cycle(1e-30, missing=1e-31),
)


def odd_cells():
    """Cells of every kind, near the ends of `ALONE` and far from them."""
    rng, start = np.random.default_rng(3), dt.datetime(2024, 1, 1)  # noqa: DTZ001 - times have no zone
    moments = [start + dt.timedelta(microseconds=int(at)) for at in rng.integers(-(10**16), 10**16, 300)]
    ends = [one for low, high in ((18, 90), (-1, 1), (0.1, 0.7), (0, 24)) for one in (low, high)]
    near = [float(np.nextafter(end, to)) for end in ends for to in (-1e3, 1e3)]
    times = [
        *("2024-06-01", "2024-06-01T00:00:00.000001", "2024-06-01T00:00:00.000002", "2024-12-31T23:59:59.9"),
        *("2024-01-01T00:30+01:00", "0001-01-01T00:00+01:00", "9999-12-31T23:59:59.999999", "20240531"),
    ]
    stamps = [np.datetime64(one, unit) for one in moments[:9] for unit in ("ns", "us", "D", "Y")]
    far = [np.datetime64("NaT"), np.datetime64(2**62, "us"), np.datetime64("10000-01-01")]
    return [
        *JUNK, *engines.HOSTILE, *HOSTILE, *ends, *near, *times, *moments, *stamps, *far, *map(str, moments),
        *rng.normal(0, 40, 300).tolist(), 20240531, 20241399, 10**20, 10**20 + 1, 1e20, dt.date(2024, 5, 31),
        dt.time(17, 30), dt.timedelta(1), Decimal("0.5"), Decimal("sNaN"), Fraction(1, 3), np.float32(0.7),
        np.array("north"), np.array(None), np.str_("north"), np.timedelta64(3, "D"), pd.NA, pd.NaT,
        pd.Timestamp("2024-05-31T12:00+02:00"),
    ]  # fmt: skip


def test_a_cell_alone_is_read_as_in_an_array():
    """`point`, which needs no NumPy, has the rules of `points` once more; no cell may tell them apart."""
    cells = odd_cells()
    typed = [
        [cell for cell in cells if isinstance(cell, str) and cell[-1:] != "\0"],  # NumPy drops it
        [cell for cell in cells if isinstance(cell, dt.datetime) and cell.tzinfo is None],
        [cell for cell in cells if type(cell) is float],
        [7, 30, 20240531],
        [True, False],
    ]
    for name, column in ALONE.columns.items():
        schema = Schema(**{name: column})
        points = schema.points({name: cells})
        np.testing.assert_array_equal(np.array([column.point(cell) for cell in cells]), points, err_msg=name)
        assert np.isfinite(points[:, 0]).any()
        assert np.isnan(points[:, 0]).any() or name in ("people plan", "words")  # all cells have a category
        for kind in typed:  # each takes another way through arrays
            found = schema.points({name: np.array(kind)})
            np.testing.assert_array_equal(np.array([column.point(cell) for cell in kind]), found)
    person = dict(zip(PEOPLE.names, [44, "70.5", 2, "7", None, "2024-05-31", 23], strict=True))
    assert np.isnan(PEOPLE.point(person)).all()
    person |= {"member": "true", "other": 1}
    expected = PEOPLE.encode({name: [person[name]] for name in PEOPLE.names})
    np.testing.assert_array_equal(PEOPLE.point(person), expected[0])
    with pytest.raises(InvalidData, match="a record is a list"):
        PEOPLE.point([44])


def odd_is_nobody(odd):
    return Owners.of([odd], count=1).numbers[0] < 0


@pytest.mark.parametrize("one", ["e\u200b\u0301", "\u00e9", "e\u0301\ufeff"])
def test_invisible_characters_do_not_split_a_person(one):
    assert Owners.of([one, "\u00e9"], count=2).texts == ["\u00e9"]


def test_long_numbers_are_different_people_as_texts_and_nobody_as_floats():
    ids = [str(10**18 + row) for row in range(100)]
    assert len(Owners.of(ids, count=100).texts) == 100
    assert Owners.of([float(one) for one in ids], count=100).texts == []
    assert Owners.of(["0e1", "0e2", "12e345"], count=3).texts == ["0", "12e345"]


def test_dates_beyond_what_python_knows_cost_their_own_rows():
    days = pl.Series("since", [19_874, 10_000_000], dtype=pl.Int32).cast(pl.Date)
    points = Schema(since=PEOPLE.columns["since"]).points(pl.DataFrame([days]))
    assert np.isfinite(points).ravel().tolist() == [True, False]


def bandit(*, user_ids=True, **options):
    return GPBandit(
        contexts=PEOPLE, arms=ARMS, reward_range=(0, 1), horizon=400,
        privacy=JointDP(epsilon=1, delta=1e-6, user_ids=user_ids), noise=SimulatedNoise(0), **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def decided():
    return bandit().ask_batch(by_pandas(WHOLE), users=WHOLE["person"][::2] + [f"x{row}" for row in range(6)])


@pytest.mark.parametrize("junk", JUNK)
def test_a_batch_answers_everybody_else(junk, decided):
    users = WHOLE["person"][::2] + [f"x{row}" for row in range(6)]
    table = {**WHOLE, "visits": [*WHOLE["visits"][:4], junk, *WHOLE["visits"][5:]]}
    found = bandit().ask_batch(by_pandas(table), users=users)
    assert np.delete(found.indices, 4).tolist() == np.delete(decided.indices, 4).tolist()
    assert not np.delete(found.refused, 4).any()


def test_a_visitor_who_has_had_all_rounds_or_has_no_id_is_refused_alone():
    policy = bandit()
    frame = by_pandas(WHOLE)
    first = policy.ask_batch(frame.iloc[:3], users=["ann", None, "bob"])
    assert first.refused.tolist() == [False, True, False]
    second = policy.ask_batch(frame.iloc[:4], users=["cyd", "bob", "dan", "cyd"])
    assert second.refused.tolist() == [False, True, False, True]
    assert policy.tell_batch(second.ids, [1, 1, 1, 1]) == (
        Receipt.COUNTED, Receipt.REFUSED, Receipt.COUNTED, Receipt.REFUSED,
    )  # fmt: skip
    assert policy.diagnostics()["rounds_asked"] == 7


@pytest.mark.parametrize(
    "reader", ["pandas", "pandas-pyarrow", "pandas-nullable", "polars", "pyarrow", "lists", "arrays"]
)
@pytest.mark.parametrize("junk", JUNK)
def test_rewards_are_told_one_by_one(reader, junk):
    policy = bandit(user_ids=False)
    decisions = policy.ask_batch(by_pandas(WHOLE))
    table = {"paid": [*WHOLE["paid"][:6], junk, *WHOLE["paid"][7:]], "more": WHOLE["age"]}
    receipts = policy.tell_batch(decisions.ids, READERS[reader](table)["paid"])
    assert set(receipts[:6] + receipts[7:]) == {Receipt.COUNTED}


@pytest.mark.parametrize("junk", ["unknown", "", "1e999"])
@pytest.mark.parametrize("name", ["age", "member", "arm", "paid"])
def test_adapters_read_cell_by_cell(tmp_path, junk, name):
    def statuses(table):
        frame, policy = by_pandas(table), bandit(user_ids=False)
        MAB(policy).fit(frame["arm"], frame["paid"], frame)
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        policy.save(path)
        arrays = read_state(path).arrays
        return np.column_stack([arrays["book_status"], arrays["book_rewards"], arrays["book_actions"]])

    table = {**WHOLE, name: [*WHOLE[name][:4], junk, *WHOLE[name][5:]]}
    np.testing.assert_array_equal(np.delete(statuses(table), 4, 0), np.delete(statuses(WHOLE), 4, 0))

    frame = by_pandas(table)
    estimator = LoggedPolicy(
        contexts=PEOPLE, arms=ARMS, horizon=400, privacy=JointDP(epsilon=1, delta=1e-6, user_ids=False)
    )
    estimator.partial_fit(frame, frame["paid"], arms=frame["arm"])
    assert estimator.policy_.unsafe_left_out["unreadable"] == int((name, junk) != ("age", ""))


@pytest.mark.parametrize("reader", READERS)
def test_a_curator_releases_every_other_row_as_before(reader):
    scaling = PublicScaling(Schema(age=Range(18, 90), weight=Range(0, 250)))

    def of(table):
        rows = TableRows.read(
            READERS[reader](table), scaling=scaling, answers="paid", ids="person_row", user="person"
        )
        return np.column_stack([rows.points, rows.answers]), rows.ids

    table = {
        **WHOLE,
        "person_row": [str(row) for row in range(N)],
        "person": [str(900 + row) for row in range(N)],
    }
    points, ids = of(table)
    assert np.isfinite(points).all()
    assert ids == [str(row) for row in range(N)]
    for name in ("age", "weight", "paid", "person_row"):
        for junk in ("unknown", "", None, "1e999", "2024-05-31", "77"):
            changed = {**table, name: [*table[name][:4], junk, *table[name][5:]]}
            found, named = of(changed)
            np.testing.assert_array_equal(np.delete(found, 4, 0), np.delete(points, 4, 0))
            assert named[:4] + named[5:] == ids[:4] + ids[5:]
    nobody, named = of({**table, "person": [*table["person"][:4], None, *table["person"][5:]]})
    np.testing.assert_array_equal(nobody, np.delete(points, 4, 0))
    assert named == ids[:4] + ids[5:]


def test_a_simulated_crowd_keeps_everybody_else(tmp_path):
    rng = np.random.default_rng(0)
    table = {
        "age": [str(age) for age in rng.integers(18, 91, 200)],
        "best": [str(one) for one in rng.integers(2, size=200)],
    }
    text = 'path = "t.csv"\n[columns.age]\nlow = 18\nhigh = 90\n'
    text += '[label]\ncolumn = "best"\ncategories = ["0", "1"]\n'
    (tmp_path / "t.toml").write_text(text)

    def people(cells):
        (tmp_path / "t.csv").write_text(as_csv(cells))
        return table_from_toml(tmp_path / "t.toml", seed=0, lenient=True)

    whole = people_of(people(table))
    for name in table:
        for junk in ("unknown", "", "1e999"):
            world = people({**table, name: [*table[name][:9], junk, *table[name][10:]]})
            found = people_of(world)
            np.testing.assert_array_equal(np.delete(found.columns, 9, 0), np.delete(whole.columns, 9, 0))
            np.testing.assert_array_equal(np.delete(found.rewards, 9, 0), np.delete(whole.rewards, 9, 0))
    spec = Spec(contexts=world.schema, arms=world.arms.labels, privacy=LocalDP(epsilon=2), seed=0)
    assert (
        simulate(spec, world, n_users=200, seed=0).users.sum() == 199
    )  # the other one reports, and is not scored


# -- rows of lists ------------------------------------------------------------------------------------

BOX = {
    "kernel": SquaredExponential(lengthscale=0.3),
    "domain": Box(low=[0], high=[1]),
    "reward_range": (0, 1),
    "horizon": 10,
    "privacy": JointDP(1, 1e-6),
}
NO_ROW = [None, [], [0.2, 0.3], "x", [None], [[0.2]], {"a": 1}, 1e999]


@pytest.mark.parametrize("junk", NO_ROW)
@pytest.mark.parametrize("field", ["contexts", "actions"])
def test_an_entry_that_is_no_row_costs_itself_alone(field, junk):
    def learned(**changed):
        policy = ExploreThenCommit(
            kernel=SquaredExponential(lengthscale=0.4),
            actions=CellMeasure.uniform(low=0, high=1, cells=4),
            contexts=CellMeasure.uniform(low=0, high=1, cells=4),
            reward_range=(0, 1),
            horizon=10,
            privacy=JointDP(2, 1e-6, user_ids=False),
            noise=SimulatedNoise(3),
        )
        rows = {"contexts": [[0.1], [0.2], [0.3]], "actions": [[0.5], [0.6], [0.7]], "rewards": [1, 1, 1]}
        policy.learn(**(rows | changed))
        return sums(policy)

    rows = {"contexts": [[0.1], [0.2], [0.3]], "actions": [[0.5], [0.6], [0.7]]}
    rows[field][1] = junk
    without = learned(rewards=[1, None, 1])
    np.testing.assert_array_equal(learned(**rows), without)
    assert np.abs(without).sum() > 0


@pytest.mark.parametrize("junk", [None, [], [0.2, 0.3], "x", {"a": 1}, 5, [[0.2], None], [[7.0], [0.2]]])
def test_a_decision_set_that_is_none_is_refused_alone(junk):
    def answers(one):
        policy = GPBandit(**BOX, noise=SimulatedNoise(3))
        return policy.ask_batch([[[0.1], [0.9]], one, [[0.5], [0.6]]], users=["a", "b", "c"])

    whole, found = answers([[0.2], [0.3]]), answers(junk)
    assert found.refused.tolist() == [False, True, False]
    np.testing.assert_array_equal(found.actions[[0, 2]], whole.actions[[0, 2]])


def test_blank_cells_never_decide_whether_a_batch_takes_its_rounds():
    for blank in ([[None], [None]], [["x"], [0.2]]):
        policy = GPBandit(**BOX, noise=SimulatedNoise(3))
        assert policy.ask_batch([blank, "junk"], users=["a", "b"]).refused.tolist() == [True, True]
    policy = GPBandit(**BOX, noise=SimulatedNoise(3))
    with pytest.raises(InvalidData, match="shape"):
        policy.ask_batch([5, "junk"], users=["a", "b"])  # nobody brought a set: nothing is taken


def test_the_length_of_anothers_set_never_decides_whether_a_set_is_answered():
    long = np.linspace(0, 1, 20_000)[:, None]
    for other in (long, [[0.5]]):
        policy = GPBandit(**BOX, noise=SimulatedNoise(3))
        assert not policy.ask_batch([long, other], users=["a", "b"]).refused.any()


def test_marks_of_the_longest_set_mark_the_shorter_ones_too():
    policy = GPBandit(**BOX, noise=SimulatedNoise(3))
    marks = np.array([[False, True, False], [False, True, True]])
    found = policy.ask_batch([[[0.1], [0.2], [0.3]], [[0.4], [0.5]]], users=["a", "b"], available=marks)
    assert found.actions.ravel().tolist() == [0.2, 0.5]


def test_decision_sets_of_different_lengths_and_marks_that_are_none():
    policy = GPBandit(**BOX, noise=SimulatedNoise(3))
    sets = [[[0.1], [0.9]], [[0.2]], [[0.4], [0.5], [0.6]]]
    found = policy.ask_batch(sets, users=["a", "b", "c"], available=[[False, True], [True], [True, False]])
    assert found.refused.tolist() == [False, False, True]
    assert found.actions[:2].ravel().tolist() == [0.9, 0.2]
    with pytest.raises(InvalidData, match="expected 3 lists of booleans"):
        policy.ask_batch(sets, users=["d", "e", "f"], available=[[True]])


def test_users_of_any_library_are_read():
    ids = ["u-1", "u-2", "7"]
    for users in (ids, pa.array(ids), pa.chunked_array([ids]), pl.Series(ids), pd.Series(ids), np.array(ids)):
        policy = GPBandit(**BOX, noise=SimulatedNoise(3))
        assert not policy.ask_batch([[[0.1]]] * 3, users=users).refused.any()


def test_ids_with_an_exponent_are_those_that_a_reader_makes_of_them():
    texts = ["1e3", "1000", ".5", "0.5", "1E3", "12e300"]
    assert Owners.of(texts, count=6).texts == ["1000", "0.5", "12e300"]
    read = pd.read_csv(io.StringIO("person\n1e3\n1000\n.5\n"))["person"]
    assert Owners.of(read, count=3).texts == Owners.of(texts[:3], count=3).texts


@pytest.mark.parametrize("first", [None, "x", 5])
def test_as_many_people_as_columns_are_no_single_person(first):
    menu = Menu(contexts=Schema(age=Range(18, 90), visits=Categories([1, 2, 3])), arms=["a", "b"])
    points, known = menu.readable([first, {"age": 54, "visits": 2}])
    assert known.tolist() == [False, True]
    np.testing.assert_array_equal(points[1], menu.readable([{"age": 54, "visits": 2}])[0][0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cell", [1.7e308, -1.7e308, "1.7e308", 1e999])
def test_no_cell_makes_a_warning(cell):
    schema = Schema(share=Range(0, 0.5, clip=True), phase=Cycle(0.5))
    found = schema.points({"share": [0.1, cell, 0.3], "phase": [0.1, cell, 0.3]})
    whole = schema.points({"share": [0.1, 0.2, 0.3], "phase": [0.1, 0.2, 0.3]})
    np.testing.assert_array_equal(found[[0, 2]], whole[[0, 2]])


def test_one_huge_integer_of_polars_changes_no_other():
    table = pl.read_csv(io.StringIO(f"age\n20\n30\n{10**30}\n"))
    assert table["age"].dtype == pl.Int128
    found = Schema(age=Range(18, 90)).points(table)
    np.testing.assert_array_equal(found, Schema(age=Range(18, 90)).points({"age": [20, 30, None]}))


def test_one_complex_number_of_an_array_changes_no_other():
    found = Schema(age=Range(18, 90)).points({"age": np.array([30, 40, 1j])})
    whole = Schema(age=Range(18, 90)).points({"age": [30, 40, None]})
    np.testing.assert_array_equal(found, whole)


# -- one cell ----------------------------------------------------------------------------------------

ANY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(allow_nan=True), st.text(max_size=6),
    st.dates(), st.datetimes(), st.binary(max_size=4), st.sampled_from(["1", "01", "1.0", "true", "NA",
    "none", "1e0"]),
)  # fmt: skip


@given(st.lists(ANY, min_size=1, max_size=8))
def test_a_column_is_read_as_its_cells_are_alone(column):
    for declared in PEOPLE.columns.values():
        together = np.asarray(declared.points(np.array([*column, None], dtype=object)[:-1]))
        alone = [np.asarray(declared.points(np.array([one, None], dtype=object)[:-1]))[0] for one in column]
        np.testing.assert_array_equal(together, np.array(alone))


@pytest.mark.parametrize(
    "column", [[1, 2, None], ["1", "2", "x"], [1.0, 2.0, 7.5], [True, False, "no"], ["01", "02.0", ""]]
)
def test_labels_match_by_value(column):
    for labels in ([1, 2], ["1", "2"], ["01", "2.0"]):
        codes = Categories(labels).codes(np.array(column, dtype=object))
        assert codes.tolist() == [0, 1 if column[1] is not False else -1, -1]
        assert Arms(labels).codes(column).tolist() == codes.tolist()


@pytest.mark.parametrize(
    "labels",
    [
        ["1", "01"],
        ["1.0", "1"],
        ["true", "True"],
        ["a", "a "],
        ["NA", "null"],
        ["2024-01-01", "2024-01-01T00:00"],
        ["1e300", "a"],
    ],
)
def test_labels_of_one_value_are_refused(labels):
    for build in (Categories, Arms):
        with pytest.raises(InvalidParameter, match="the same value"):
            build(labels)


def test_a_category_that_spells_a_missing_value_is_one():
    country = Categories(["NA", "FR"])
    assert country.codes(np.array(["NA", None, "FR", "n/a"], dtype=object)).tolist() == [0, 0, 1, 0]
    with pytest.raises(InvalidParameter, match="missing"):
        Categories(["NA", "FR"], missing="FR")
    plan = Categories(["none", "pro", "other"], missing="other")
    assert plan.codes(np.array(["none", None, "None", ""], dtype=object)).tolist() == [0, 2, 0, 2]
    assert Arms(["none", "mail"]).codes(["none", None, "x"]).tolist() == [0, 0, -1]


@pytest.mark.parametrize("name", ["missing", "unknown"])
def test_a_category_for_odd_cells_must_be_listed(name):
    with pytest.raises(InvalidParameter, match=f"{name} is none of the 2 categories: list it"):
        Categories(["north", "south"], **{name: "other"})


def test_an_unlisted_value_is_the_unknown_category():
    region = Categories(["north", "south", "other"], unknown="other")
    cells = np.array(["south", "mars", None, 3, [1]], dtype=object)
    assert region.codes(cells).tolist() == [1, 2, -1, 2, 2]
    schema = Schema(region=region)
    assert schema.check({"region": ["south", "mars"]}).columns["region"].outside == 1
    assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(InvalidData, match="missing"):
        schema.encode({"region": [None]})
    with pytest.raises(InvalidParameter, match="unknown"):
        Categories(["a"], unknown="b")
