"""A person with several rows: a public number of them is covered together, and the others are left out."""

from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dpbandits import DateRange, MemoryLedger, Range, RowDP, Schema, memory_limit, set_memory_limit
from dpbandits.cli.outsourced import app
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, ProtocolError
from dpbandits.outsourced import AnswerLaplace, Curator, CuratorTuning, PublishedRows, SecretDirectory
from dpbandits.outsourced.scaling import PublicScaling, TableRows
from dpbandits.tables.files import BLOCK_ROWS
from flat import curator_with
from service.databases import fresh

SCHEMA = Schema(age=Range(18, 90), dose=Range(0, 5))
ROWS = 40


def table(**columns):
    rng = np.random.default_rng(2)
    whole = {
        "age": rng.uniform(18, 90, ROWS),
        "dose": rng.uniform(0, 5, ROWS),
        "effect": np.arange(ROWS) / 100,
        "id": [f"r{i}" for i in range(ROWS)],
        "person": [f"p{i % 8}" for i in range(ROWS)],  # five rows each
    }
    return whole | columns


def curator(held=None, *, rows=3, epsilon=3.0, delta=0.0, distance=1.0, **options):
    privacy = RowDP(epsilon=epsilon, delta=delta, distance=distance, rows_per_user=rows)
    options = {"objective": "effect", "user": "person"} | options
    return curator_with(table() if held is None else held, contexts=SCHEMA, privacy=privacy, **options)


MECHANISMS = [("l2_laplace", 0.0), ("gaussian", 1e-4), ("randomised_response", 0.0)]


@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS)
def test_each_row_has_the_noise_of_its_share_and_a_person_the_promise(mechanism, delta):
    together = curator(mechanism=mechanism, delta=delta)
    alone = Curator(
        table(), contexts=SCHEMA, objective="effect", tuning=CuratorTuning(mechanism=mechanism),
        privacy=RowDP(epsilon=1.0, delta=delta / 3, distance=1.0),
    )  # fmt: skip
    found, single = together.guarantee, alone.guarantee
    assert found.mechanisms[0].scale == pytest.approx(single.mechanisms[0].scale, rel=1e-9)
    assert (found.epsilon, found.delta) == (3.0, delta)
    assert found.certificate.delta_at(3.0) <= delta
    assert together.publish().law.to_config() == pytest.approx(alone.publish().law.to_config())


@given(st.floats(1e-300, 1e6), st.integers(1, 1000))
def test_shares_never_add_up_to_more_than_the_promise(amount, rows):
    share = RowDP(epsilon=amount, distance=1.0, rows_per_user=rows).each_row.epsilon
    assert Fraction(share) * rows <= Fraction(amount)
    assert share * rows == pytest.approx(amount)


def test_surplus_rows_are_left_out_with_their_answers_and_ids():
    held = curator()
    published = held.publish()
    assert published.n == 8 * 3
    answers = sorted(held.answer(row) for row in range(published.n))
    assert answers == sorted(np.arange(24) / 100)  # the first three of everybody
    came = []
    by_id = curator(objective=lambda own: came.append(own) or 0.5, ids="id")
    count = by_id.publish().n
    for row in range(count):
        by_id.answer(row)
    assert sorted(came) == sorted(f"r{i}" for i in range(24))


def test_rows_that_are_left_out_move_nothing(tmp_path):
    """A secret directory knows its table by a digest of what is released."""
    ages = table()["age"].copy()
    ages[30:] = 50.0
    curator(secret=tmp_path / "s").publish()
    resumed = SecretDirectory(tmp_path / "s", resume=True)
    assert curator(table(age=ages), secret=resumed).publish().n == 24
    ages[0] = 50.0
    with pytest.raises(ProtocolError, match="another table"):
        curator(table(age=ages), secret=resumed)


def test_answers_of_all_rows_of_a_person_are_paid():
    noise = AnswerLaplace(epsilon=0.5, distance=1.0, low=0.0, high=1.0)
    held = curator(answers=noise)
    assert held.guarantee.epsilon == 4.5
    assert "at most 3" in held.guarantee.neighbours
    assert "Neighbouring tables differ in at most 3 rows" in held.guarantee.theorem


def test_a_ledger_is_charged_for_all_rows_of_a_person(tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("study", privacy=RowDP(4.5, distance=1))
    secret = SecretDirectory(tmp_path / "s", account=ledger.account("study"))
    curator(answers=AnswerLaplace(epsilon=0.5, distance=1.0, low=0.0, high=1.0), secret=secret).publish()
    assert ledger.balance("study").spent_epsilon == Decimal("4.5")


def test_the_statement_says_who_is_protected_and_comes_back(tmp_path):
    held = curator(secret=tmp_path / "s")
    held.publish(tmp_path / "out")
    text = " ".join(f"{held.guarantee.explain()} {held.guarantee.annex()}".split())
    assert "Who is protected: One person: at most 3 rows of the table" in text
    assert "further ones are left out" in text
    assert "One person has one row." not in text
    assert "epsilon and delta divided by 3" in " ".join(text.split())
    assert all("certificate are those of one row" in one.name for one in held.guarantee.mechanisms)
    again = Curator.open(tmp_path / "s")
    assert again.guarantee == held.guarantee == PublishedRows.load(tmp_path / "out").guarantee
    assert again.answer(0) == again.answer_again(0)


def test_one_row_a_person_is_as_it_was_but_for_the_column():
    plain = Curator(table(), contexts=SCHEMA, objective="effect", privacy=RowDP(epsilon=1.0, distance=1.0))
    assert "rows_per_user" not in plain.guarantee.definition.to_config()
    assert "[ ] One row per person: One person has one row." in plain.guarantee.explain()
    assert all("of one row" not in one.name for one in plain.guarantee.mechanisms)
    counted = curator(rows=1, epsilon=1.0)
    assert counted.publish().n == 8
    assert "At most 1 row(s) of one person are released" in " ".join(counted.guarantee.annex().split())


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"user": None}, InvalidParameter, "privacy covers 3 rows of a person"),
        ({"objective": lambda own: 0.0}, InvalidParameter, "places differ from the table's"),
        ({"user": "whom"}, InvalidData, "lacks the column 'whom'"),
        ({"rows": 0}, InvalidParameter, "rows_per_user"),
        ({"epsilon": 1e-300}, InvalidParameter, "no mechanism"),
        ({"mechanism": "gaussian", "delta": 0.0}, InvalidParameter, "delta"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, error, match):
    with pytest.raises(error, match=match):
        curator(**options)


@pytest.mark.parametrize("nobody", [None, "", float("nan")])
def test_a_row_of_nobody_is_left_out_alone(nobody):
    people = table()["person"]
    whole = curator(table(person=people)).publish().n
    people[0] = nobody
    assert whole - 1 <= curator(table(person=people)).publish().n <= whole


DESCRIBED = """
path = "t.csv"
[columns.age]
low = 18
high = 90
missing = 40
[columns.dose]
low = 0
high = 5
[user]
column = "person"
rows = 3
[privacy]
epsilon = 3
distance = 2
[answers]
column = "effect"
"""


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def written(folder, described=DESCRIBED):
    names, columns = zip(*table().items(), strict=True)
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    lines[0] = "NA," + lines[0].partition(",")[2]
    (folder / "t.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    (folder / "t.toml").write_text(described)
    return folder / "t.toml"


def test_curate_from_a_toml_file_alone(tmp_path):
    done = call("curate", written(tmp_path), "--out", tmp_path / "out", "--secret", tmp_path / "secret")
    assert done.exit_code == 0, done.output + repr(done.exception)
    published = PublishedRows.load(tmp_path / "out")
    assert published.n == 24
    definition = published.guarantee.definition
    assert (definition.epsilon, definition.distance, definition.rows_per_user) == (3.0, 2.0, 3)
    words = ["--schema", tmp_path / "t.toml", "--out", tmp_path / "o2", "--secret", tmp_path / "s2"]
    done = call("curate", tmp_path / "t.csv", *words, "--epsilon", 6)
    assert PublishedRows.load(tmp_path / "o2").guarantee.epsilon == 6.0


@pytest.mark.parametrize(
    ("replaced", "words", "match"),
    [
        (("", ""), ["--user", "person"], "--user: the TOML file sets this"),
        (("epsilon = 3\n", ""), [], "--epsilon is missing"),
        (("[answers]", "[label]\ncategories = [1]"), [], "without rewards"),
        (('[answers]\ncolumn = "effect"', ""), [], "places differ"),
        (("low = 0\nhigh = 5", "categories = [1, 2]"), [], "categories or cycles"),
    ],
)
def test_files_that_curate_cannot_take_are_refused(tmp_path, replaced, words, match):
    path = written(tmp_path, DESCRIBED.replace(*replaced, 1) if replaced[0] else DESCRIBED)
    done = call("curate", path, "--out", tmp_path / "out", "--secret", tmp_path / "s", *words)
    assert match in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_options_name_the_person_too(tmp_path):
    written(tmp_path)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("NA,", "20,"))
    words = ["--columns", "age,dose", "--bounds", "18:90,0:5", "--epsilon", 2, "--objective", "effect"]
    words += ["--out", tmp_path / "out", "--secret", tmp_path / "s"]
    done = call("curate", tmp_path / "t.csv", *words, "--rows-per-user", 2)
    assert "the name of the column of the rows" in str(done.exception)
    done = call("curate", tmp_path / "t.csv", *words, "--rows-per-user", 2, "--user", "person")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert PublishedRows.load(tmp_path / "out").n == 16


# -- databases -----------------------------------------------------------------------------------------


def in_database(kind, folder, columns):
    """Store a table of texts as `people`, and return its address. Another table has the rows reversed."""
    names, rows = list(columns), list(zip(*(map(str, own) for own in columns.values()), strict=True))
    if kind == "duckdb":
        address, connect = f"duckdb:///{folder}/t.db?table=", pytest.importorskip("duckdb").connect
        connection = connect(str(folder / "t.db"))
    else:
        address = fresh(kind)
        connection = pytest.importorskip("psycopg").connect(address, autocommit=True)
        address += "&table="
    mark = "?" if kind == "duckdb" else "%s"
    with connection:
        for name, listed in (("people", rows), ("reversed", rows[::-1])):
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{one} text' for one in names)})")
            connection.cursor().executemany(
                f"INSERT INTO {name} VALUES ({', '.join([mark] * len(names))})",  # noqa: S608 - test data
                listed,
            )
    return address


@pytest.mark.parametrize("kind", ["duckdb", "debian"])
def test_a_database_has_the_rows_of_the_same_table_in_any_order(tmp_path, kind):
    held = table()
    held["age"] = [
        "30",
        "NA",
        "1e999",
        "4_0",
        "fourty",
        "",
        "0x1e",
        *map(str, range(18, 18 + len(held["age"]) - 7)),
    ]
    address, secret = in_database(kind, tmp_path, held), tmp_path / "secret"
    came = []
    options = {"objective": lambda own: came.append(own) or 0.5, "ids": "id", "secret": secret}
    first = curator(address + "people", **options)
    unreadable = first.unsafe_unreadable
    second = curator(address + "reversed", **options)  # the unfinished release has the same table
    assert second.release_id == first.release_id
    assert second.unsafe_unreadable == unreadable
    published = second.publish()
    assert published.n == 24
    for row in range(published.n):
        second.answer(row)
    owner = dict(zip(held["id"], held["person"], strict=True))
    assert sorted(Counter(owner[one] for one in came).values()) == [3] * 8
    # A person's first rows are the first by the text of their ids, wherever the rows lie.
    assert set(came) == {
        one for name in owner.values() for one in sorted(i for i in owner if owner[i] == name)[:3]
    }
    held["age"] = held["age"][::-1]
    (tmp_path / "moved").mkdir()
    moved, again = in_database(kind, tmp_path / "moved", held), []
    other = curator(moved + "people", objective=lambda own: again.append(own) or 0.5, ids="id")
    for row in range(other.publish().n):
        other.answer(row)
    assert sorted(again) == sorted(came)


@pytest.mark.parametrize("kind", ["duckdb", "debian"])
def test_every_row_of_a_database_has_its_own_answer(tmp_path, kind):
    held = {"age": [20, 30, 40, 50, 50], "dose": [1, 2, 3, 4, 4], "effect": [0.1, 0.2, 0.3, 0.4, 0.5]}
    address = in_database(kind, tmp_path, held)
    privacy = RowDP(epsilon=1e5, distance=1.0)
    for name in ("people", "reversed"):
        found = Curator(address + name, contexts=SCHEMA, privacy=privacy, objective="effect")
        ages = SCHEMA.columns["age"]
        points = found.publish().inputs[:, 0] / found.publish().half_width / 2 + 0.5
        read = sorted(
            (round(ages.low + point * (ages.high - ages.low)), found.answer(row))
            for row, point in enumerate(points)
        )
        assert read == [(20, 0.1), (30, 0.2), (40, 0.3), (50, 0.4), (50, 0.5)]


def test_files_and_globs_are_tables_of_a_curator(tmp_path):
    held = table()
    for number, at in enumerate((slice(0, 20), slice(20, None))):
        lines = zip(*(list(own[at]) for own in held.values()), strict=True)
        text = [",".join(held), *(",".join(map(str, line)) for line in lines)]
        (tmp_path / f"t{number}.csv").write_text("\n".join(text) + "\n")
    found = curator(str(tmp_path / "t*.csv"))
    assert sorted(found.answer(row) for row in range(found.publish().n)) == sorted(np.arange(24) / 100)


def test_a_database_needs_ids_or_answers_and_fits_into_memory(tmp_path):
    with pytest.importorskip("duckdb").connect(str(tmp_path / "t.db")) as made:
        made.execute("CREATE TABLE people AS SELECT 20 AS age, 1 AS dose, range AS id FROM range(300000)")
    address = f"duckdb:///{tmp_path}/t.db?table="
    given = {"contexts": SCHEMA, "privacy": RowDP(epsilon=1.0, distance=1.0), "objective": lambda _: 0.5}
    with pytest.raises(InvalidParameter, match="rows of a database have no places: pass ids="):
        Curator(address + "people", **given)
    before = memory_limit()
    set_memory_limit(1 << 25)  # 8 copies of 2 coordinates of 8 bytes
    try:
        with pytest.raises(InvalidData, match="the table has 300000 rows, and at most 262144 fit"):
            Curator(address + "people", ids="id", **given)
    finally:
        set_memory_limit(before)
    with pytest.raises(DataUnavailable, match="no table or view of this name"):
        Curator(address + "none", ids="id", **given)


@pytest.mark.parametrize("kind", ["duckdb", "debian"])
def test_curate_reads_a_database(tmp_path, kind):
    address = in_database(kind, tmp_path, table())
    with pytest.raises(InvalidParameter, match="has no order of rows: pass ids="):
        curator(address + "people")
    path = address.replace(str(tmp_path) + "/", "") + "people"
    described = DESCRIBED.replace('column = "effect"', 'column = "effect"\nids = "id"')
    (tmp_path / "t.toml").write_text(described.replace("t.csv", path))
    done = call("curate", tmp_path / "t.toml", "--out", tmp_path / "out", "--secret", tmp_path / "secret")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert PublishedRows.load(tmp_path / "out").n == 24


DATES = Schema(day=DateRange(date(2000, 1, 1), date(2020, 1, 1)))


def tables_in_duckdb(folder, text):
    """Return an address of a table `t` that a statement makes, and the same table of Ibis."""
    duckdb, ibis = pytest.importorskip("duckdb"), pytest.importorskip("ibis")
    with duckdb.connect(str(folder / "t.db")) as made:
        made.execute(f"CREATE TABLE t AS {text}")
    yield f"duckdb:///{folder / 't.db'}?table=t"
    yield ibis.duckdb.connect(folder / "t.db", read_only=True).table("t")


OF_IBIS = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis calls DuckDB so


@OF_IBIS
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("far", ["20000-01-01", "0044-03-15 (BC)", "infinity", "-infinity"])
def test_one_day_far_away_refuses_no_table(tmp_path, kind, far):
    days = f"('a', '2001-01-01'), ('b', '0001-01-01'), ('c', '9999-12-31'), ('d', '{far}')"
    text = f"SELECT id, CAST(day AS {kind}) AS day FROM (VALUES {days}) AS v(id, day)"  # noqa: S608 - a test
    for held in tables_in_duckdb(tmp_path, text):
        rows = TableRows.read(held, scaling=PublicScaling(DATES), ids="id")
        assert rows.ids == ["a", "b", "c", "d"]
        assert rows.points[0] != 0.0
        assert rows.points[3] == 0.0


@OF_IBIS
@pytest.mark.parametrize("empty", ["id", "day", "person"])
def test_a_last_block_without_a_cell_refuses_no_table(tmp_path, empty):
    cells = {"id": "CAST(i AS VARCHAR)", "day": "DATE '2001-01-01'", "person": "'p' || i"}
    cells[empty] = f"CASE WHEN i < {BLOCK_ROWS} THEN {cells[empty]} END"
    listed = ", ".join(f"{cell} AS {name}" for name, cell in cells.items())
    text = f"SELECT {listed} FROM range({BLOCK_ROWS + 1}) AS r(i)"  # noqa: S608 - a test
    for held in tables_in_duckdb(tmp_path, text):
        rows = TableRows.read(held, scaling=PublicScaling(DATES), ids="id", user="person")
        assert len(rows.points) == BLOCK_ROWS + (empty == "day")


@pytest.mark.parametrize("options", [{"user": "dose"}, {"user": "effect"}])
def test_no_column_that_may_move_says_whose_a_row_is(options):
    with pytest.raises(InvalidParameter, match="cannot be contexts or answers too"):
        curator(**options)


@OF_IBIS
def test_no_column_that_may_move_says_which_rows_of_a_database_count(tmp_path):
    text = "SELECT i AS age, i AS dose, i AS effect, 1 AS person FROM range(3) AS r(i)"
    for held in tables_in_duckdb(tmp_path, text):
        for moving in ("dose", "effect"):
            with pytest.raises(InvalidParameter, match="cannot be contexts or answers too"):
                curator(held, ids=moving)
