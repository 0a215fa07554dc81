import csv
import gzip
import os
import subprocess
import sys
import tracemalloc
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits import memory_limit, set_memory_limit
from dpbandits.domains import RewardRange
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds import table_from_toml
from dpbandits.tables import Categories, Range
from dpbandits.tables.coded import Coded
from dpbandits.tables.described import DescribedTable
from dpbandits.tables.files import columns_of_frame, read_table_file
from dpbandits.tables.owners import Owners
from dpbandits.tables.warehouse import source_of
from service.databases import fresh

DESCRIPTION = """
path = "people.csv"

[columns.age]
low = 16
high = 64

[columns.gender]
categories = ["female", "male"]

[label]
column = "earnings"
cuts = [10, 16]
"""
PEOPLE = "age,gender,earnings,unused\n16, male ,9.5,x\n40,female,10,\n64,male,99.25,y\n\n"


def write(folder, description=DESCRIPTION, table=PEOPLE, name="people.csv"):
    (folder / name).write_text(table, encoding="utf-8")
    path = folder / "people.toml"
    path.write_text(description, encoding="utf-8")
    return path


def rows(world):
    """(encoded context, right arm) of every person, sorted."""
    n = world.horizon
    contexts = world.decision_sets(0, n)[:, 0, :-1]
    return sorted(zip(map(tuple, contexts.tolist()), world.mean_rewards(0, n).argmax(axis=1), strict=True))


def test_labels_by_cuts(tmp_path):
    world = table_from_toml(write(tmp_path), seed=0)
    assert world.name == "people"
    assert world.arms.names == ("below 10", "10 to below 16", "16 and above")
    assert world.schema.columns == {"age": Range(16, 64), "gender": Categories(["female", "male"])}
    assert rows(world) == [((0.0, 1.0), 0), ((0.5, 0.0), 1), ((1.0, 1.0), 2)]
    assert table_from_toml(tmp_path / "people.toml", seed=0, horizon=2).horizon == 2


def test_labels_by_categories_and_names(tmp_path):
    text = DESCRIPTION.replace('"earnings"', '"unused"').replace(
        "cuts = [10, 16]", 'categories = ["y", "x"]\narms = ["why", "ex"]'
    )
    table = PEOPLE.replace("40,female,10,\n", "")
    world = table_from_toml(write(tmp_path, 'name = "mine"\n' + text, table), seed=0)
    assert world.name == "mine"
    assert world.arms.names == ("why", "ex")
    assert rows(world) == [((0.0, 1.0), 1), ((1.0, 1.0), 0)]


def test_integer_and_truth_categories(tmp_path):
    text = """
path = "t.tsv"
[columns.code]
categories = [3, 5]
[columns.flag]
categories = [false, true]
[label]
column = "bought"
categories = [true, false]
"""
    table = "code\tflag\tbought\n5\ttrue\tFalse\n3\tFalse\ttrue\n"
    assert rows(table_from_toml(write(tmp_path, text, table, "t.tsv"), seed=0)) == [((0, 0), 0), ((1, 1), 1)]


REWARDS = """
path = "r.csv"
[columns.age]
low = 0
high = 10
clip = true
[rewards]
columns = ["mail", "call"]
low = 0
high = 2
"""


def test_reward_columns(tmp_path):
    world = table_from_toml(write(tmp_path, REWARDS, "call,age,mail\n2,5,0\n0.5,99,1\n", "r.csv"), seed=0)
    assert world.arms.names == ("mail", "call")
    assert world.reward_range == RewardRange(0, 2)
    assert sorted(world.mean_rewards(0, 2).tolist()) == [[0.0, 2.0], [1.0, 0.5]]
    assert sorted(world.decision_sets(0, 2)[:, 0, 0]) == [0.5, 1.0]


def test_compressed_files_and_byte_order_marks(tmp_path):
    path = write(tmp_path, DESCRIPTION.replace("people.csv", "people.csv.gz"))
    with gzip.open(tmp_path / "people.csv.gz", "wt", encoding="utf-8-sig") as file:
        file.write(PEOPLE)
    assert table_from_toml(path, seed=0).horizon == 3


@pytest.mark.parametrize("text_kind", ["plain", "dictionary"])
def test_parquet(tmp_path, monkeypatch, text_kind):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    gender = pyarrow.array(["male", "female", "male"])
    table = pyarrow.table(
        {
            "age": [16, 40, 64],
            "gender": gender if text_kind == "plain" else gender.dictionary_encode(),
            "earnings": [9.5, 10.0, 99.25],
            "unused": [None, None, None],
        }
    )
    path = write(tmp_path, DESCRIPTION.replace("people.csv", "people.parquet"))
    parquet.write_table(table, tmp_path / "people.parquet")
    assert rows(table_from_toml(path, seed=0)) == [((0.0, 1.0), 0), ((0.5, 0.0), 1), ((1.0, 1.0), 2)]
    parquet.write_table(
        table.set_column(0, "age", pyarrow.array([16, None, 64])), tmp_path / "people.parquet"
    )
    with pytest.raises(InvalidData, match="'age' has missing"):
        table_from_toml(path, seed=0)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "duckdb", None)
        with pytest.raises(MissingExtra, match=r"dpbandits\[warehouse\]"):
            table_from_toml(path, seed=0)
    (tmp_path / "people.parquet").write_text("no parquet")
    with pytest.raises(DataUnavailable, match="not a Parquet file"):
        table_from_toml(path, seed=0)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('path = "people.csv"', "", "has no key path"),
        ('path = "people.csv"', "path = 3", "path is a int, expected a str"),
        ('path = "people.csv"', 'pathh = "x"\npath = "people.csv"', "unknown keys pathh"),
        ('path = "people.csv"', 'path = "people.xlsx"', "expected a file ending"),
        ('path = "people.csv"', 'path = "people.csv', "not a TOML file"),
        ("low = 16", "", r"\[columns.age\] lacks low"),
        ("low = 16", "lower = 16\nlow = 16", "unknown keys lower"),
        ("low = 16", 'low = "16"', "low is a str, expected a number"),
        ("low = 16", "low = 65", "low must be below high"),
        ("low = 16", 'low = 16\nclip = "yes"', "clip is a str, expected a bool"),
        ('["female", "male"]', '["female", "female"]', "have the same value"),
        ('["female", "male"]', '"female"', "categories is a str, expected a list"),
        ("[columns.age]\nlow = 16\nhigh = 64", "columns.age = 5", "must be a section"),
        ('column = "earnings"', "", r"\[label\] lacks column"),
        ('column = "earnings"', 'column = "age"', "reveal the outcome"),
        ("cuts = [10, 16]", "", "exactly one of cuts and categories"),
        ("cuts = [10, 16]", 'cuts = [10]\ncategories = ["a"]', "exactly one of cuts and categories"),
        ("cuts = [10, 16]", "cuts = [16, 10]", "strictly increasing"),
        ("cuts = [10, 16]", "cuts = []", "strictly increasing"),
        ("cuts = [10, 16]", 'cuts = ["10"]', "must be numbers"),
        ("cuts = [10, 16]", 'cuts = [10, 16]\narms = ["a", "b"]', "2 names, there are 3 arms"),
        ("cuts = [10, 16]", 'cuts = [10, 16]\narms = ["a", "b", "b"]', "distinct strings"),
        ("[label]", "[rewards]\n[label]", "not several"),
        ("[label]", "[labels]", "unknown keys labels"),
    ],
)
def test_bad_descriptions_are_refused(tmp_path, old, new, match):
    assert old in DESCRIPTION
    with pytest.raises(InvalidParameter, match=match):
        table_from_toml(write(tmp_path, DESCRIPTION.replace(old, new)), seed=0)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("age,", "years,", r"lacks the declared columns \['age'\]"),
        ("unused", "age", "names a column twice"),
        ("40,female,10,", "40,female,10", "line 3 has 3 cells"),
        ("40,", ",", "'age' has missing"),
        ("40,", "forty,", "'age' has cells that are not of type float"),
        ("40,", "140,", "'age' has values outside"),
        ("40,", "nan,", "'age' has missing"),
        ("40,female", "40,fem", "'gender' has values outside the 2 declared"),
        ("female,10,", "female,,", "'earnings' has missing"),
        ("female,10,", "female,inf,", "'earnings' has cells that are not of type float"),
        ("female,10,", 'female,"10,', "quotes"),
        (PEOPLE, "", "the table is empty"),
        (PEOPLE, "age,gender,earnings\n", "N >= 1"),
    ],
)
def test_bad_tables_are_refused_without_showing_a_value(tmp_path, old, new, match):
    assert old in PEOPLE
    with pytest.raises(InvalidData, match=match) as caught:
        table_from_toml(write(tmp_path, table=PEOPLE.replace(old, new)), seed=0)
    for value in ("forty", "140", "99.25", "'fem'"):
        assert value not in str(caught.value)


MISSING = ["", " ", "NA", "na", "<NA>", "NaN", "nan", "NaT", "None", "none", "null", "NULL"]
"""Each stands for a missing value."""

KINDS = {"age": float, "word": str, "code": int, "flag": bool}
ROWS = {"age": [1.5, 2.5], "word": ["x", "y"], "code": [3, 4], "flag": ["true", "false"]}


def as_csv(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("word", MISSING)
@pytest.mark.parametrize("column", KINDS)
def test_words_for_missing_values_are_missing_and_named_so(tmp_path, word, column):
    path = as_csv(tmp_path / "t.csv", {**ROWS, column: [ROWS[column][0], word]})
    with pytest.raises(
        InvalidData, match=rf"column '{column}' has missing values \(empty, NA, NaN, NaT, None or null\)"
    ):
        read_table_file(path, KINDS)
    read = read_table_file(path, KINDS, gaps=[column])
    assert np.isnan(read["age"][1]) if column == "age" else read[column][1] is None
    if column == "word":  # in Parquet, words are of columns of text only
        other = as_parquet(tmp_path / "t.parquet", {"word": ["x", word]})
        with pytest.raises(InvalidData, match="'word' has missing values"):
            read_table_file(other, {"word": str})


@pytest.mark.parametrize("cell", [None, float("nan")])
@pytest.mark.parametrize("kind", [float, str])
def test_nulls_and_nan_in_parquet_are_missing(tmp_path, cell, kind):
    path = as_parquet(tmp_path / "t.parquet", {"age": [1.5, cell]})
    with pytest.raises(InvalidData, match="'age' has missing values"):
        read_table_file(path, {"age": kind})
    found = read_table_file(path, {"age": kind}, gaps=["age"])["age"]
    assert np.isnan(found[1]) if kind is float else found.tolist() == [1.5, None]


@pytest.mark.parametrize("kind", KINDS.values())
def test_cells_of_another_kind_in_parquet_are_refused_without_showing_one(tmp_path, kind):
    """Handed on, they would be shown by the first who makes numbers of them."""
    cells = [["s3cret"], ["other"]] if kind is not float else ["s3cret", "other"]
    path = as_parquet(tmp_path / "t.parquet", {"age": cells})
    said = f"'age' has cells that are (not of type {kind.__name__}|lists)"
    with pytest.raises(InvalidData, match=said) as caught:
        read_table_file(path, {"age": kind})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("cells", [[b"s3cret"], [date(2026, 1, 2)]], ids=["bytes", "date"])
def test_bytes_and_dates_in_parquet_name_whom_their_texts_name(tmp_path, cells):
    path = as_parquet(tmp_path / "t.parquet", {"id": cells})
    other = as_csv(tmp_path / "t.csv", {"id": [c.decode() if isinstance(c, bytes) else c for c in cells]})
    read = [Owners.of(read_table_file(one, {"id": str})["id"], count=1).texts for one in (path, other)]
    assert read[0] == read[1]
    assert len(read[0]) == 1


def test_whole_numbers_name_people_alike_in_both_formats(tmp_path):
    paths = as_csv(tmp_path / "t.csv", {"id": [51624]}), as_parquet(tmp_path / "t.parquet", {"id": [51624]})
    read = [Owners.of(read_table_file(path, {"id": str})["id"], count=1).texts for path in paths]
    assert read == [["51624"]] * 2


def test_a_compressed_file_damaged_within_is_data_that_cannot_be_had(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"age\n1\n")[:10] + b"\xff" * 50)
    with pytest.raises(DataUnavailable, match="damaged"):
        read_table_file(tmp_path / "t.csv.gz", {"age": float})


OF_PEOPLE = """
path = "visits.csv"
[columns.age]
low = 0
high = 100
[user]
column = "person"
rows = 2
[label]
column = "bought"
categories = ["yes", "no"]
"""
VISITS = "person,age,bought\n" + "".join(
    f"{person},{age},yes\n" for age, person in enumerate(["ann"] * 5 + ["bob"] * 2 + ["cyd"])
)


def ages(world):
    return np.round(100 * world.decision_sets(0, world.horizon)[:, 0, 0]).astype(int).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_rows_say_whose_they_are_and_a_surplus_is_left_out(tmp_path, seed):
    world = table_from_toml(write(tmp_path, OF_PEOPLE, VISITS, "visits.csv"), seed=seed)
    assert (world.horizon, world.rounds_per_user) == (5, 2)  # two of ann, two of bob, one of cyd
    seen, names = ages(world), world.users(0, 5)
    assert {5, 6, 7} < set(seen)
    assert len(set(seen)) == 5
    assert sorted(names.count(name) for name in set(names)) == [1, 2, 2]
    by_name = {name: {age for age, other in zip(seen, names, strict=True) if other == name} for name in names}
    assert {5, 6} in by_name.values()
    assert {7} in by_name.values()
    everybody = table_from_toml(write(tmp_path, OF_PEOPLE, VISITS, "visits.csv"), seed=seed, horizon=3)
    assert ages(everybody) == seen[:3]


def test_which_rows_of_a_person_count_depends_on_the_seed(tmp_path):
    path = write(tmp_path, OF_PEOPLE, VISITS, "visits.csv")
    assert len({tuple(sorted(ages(table_from_toml(path, seed=seed)))) for seed in range(10)}) > 1


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("rows = 2", "", r"\[user\] lacks rows"),
        ("rows = 2", "rows = 0", "at least 1"),
        ("rows = 2", "rows = true", "whole number"),
        ('column = "person"', 'column = "age"', "identifies users, so it cannot be a context"),
        ('column = "person"', "column = 3", "expected a str"),
    ],
)
def test_bad_sections_about_people_are_refused(tmp_path, old, new, match):
    with pytest.raises(InvalidParameter, match=match):
        table_from_toml(write(tmp_path, OF_PEOPLE.replace(old, new), VISITS, "visits.csv"), seed=0)


def test_a_row_of_nobody_is_refused(tmp_path):
    with pytest.raises(InvalidData, match="'person' has missing values"):
        table_from_toml(write(tmp_path, OF_PEOPLE, VISITS.replace("cyd", "NA"), "visits.csv"), seed=0)


@pytest.mark.parametrize("cell", ["", "x", "nan", "2.125", "-1"])
def test_bad_rewards_are_refused(tmp_path, cell):
    with pytest.raises(InvalidData, match="'mail'") as caught:
        table_from_toml(write(tmp_path, REWARDS, f"call,age,mail\n2,5,{cell}\n", "r.csv"), seed=0)
    assert "2.125" not in str(caught.value)


def test_text_rewards_in_parquet_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = write(tmp_path, REWARDS.replace("r.csv", "r.parquet"))
    parquet.write_table(
        pyarrow.table({"age": [1.0], "mail": ["much"], "call": [1.0]}), tmp_path / "r.parquet"
    )
    with pytest.raises(InvalidData, match="'mail' has cells that are not of type float") as caught:
        table_from_toml(path, seed=0)
    assert "much" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataUnavailable, match=r"none\.toml cannot be read"):
        table_from_toml(tmp_path / "none.toml", seed=0)
    path = write(tmp_path)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DataUnavailable, match=r"people\.csv cannot be read"):
        table_from_toml(path, seed=0)
    (tmp_path / "people.csv").write_bytes(b"age,gender,earnings\n\xff")
    with pytest.raises(InvalidData, match="UTF-8"):
        table_from_toml(path, seed=0)
    gz = write(tmp_path, DESCRIPTION.replace("people.csv", "people.csv.gz"))
    (tmp_path / "people.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataUnavailable, match="cannot be read"):
        table_from_toml(gz, seed=0)


ADULT = (
    Path(os.environ.get("DPBANDITS_DATA", Path(__file__).parents[3] / "shared" / "data")) / "adult.data.gz"
)


@pytest.mark.skipif(not ADULT.is_file(), reason="UCI Adult is not here")
def test_uci_adult(tmp_path):
    (tmp_path / "adult.csv.gz").symlink_to(ADULT)
    (tmp_path / "adult.toml").write_text(
        """
path = "adult.csv.gz"
[columns.age]
low = 17
high = 90
[columns.education-num]
low = 1
high = 16
[columns.sex]
categories = ["Female", "Male"]
[label]
column = "classification"
categories = ["<=50K", ">50K"]
"""
    )
    world = table_from_toml(tmp_path / "adult.toml", seed=1)
    assert world.horizon == 32_561
    best = world.best_constant_arm()
    assert best.name == "<=50K"
    assert best.mean_reward == pytest.approx(24_720 / 32_561)
    assert np.isin(world.decision_sets(0, 100)[..., -1], [0, 1]).all()


@contextmanager
def limited(most):
    """Columns may take `most` bytes."""
    before = memory_limit()
    set_memory_limit(most)
    try:
        yield
    finally:
        set_memory_limit(before)


def test_a_small_parquet_file_that_unfolds_to_gigabytes_is_not_held(tmp_path):
    """Many rows, wide cells, words that stand once: a block is in memory, and the columns up to the limit."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def once(word, rows):
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), word)

    path = tmp_path / "t.parquet"
    for column, kind, first in (
        (once(pa.array([0.0]), (1 << 20) + 1), float, None),
        (once(pa.array(["a" * 100_000]), 3_000), str, "a" * 4097),
        (once(pa.array([b"a" * 100_000], type=pa.binary(100_000)), 3_000), str, b"\xff"),
        (pa.array([[1.0] * 1000] * 10), float, "lists"),
        (pa.array(["a" * 1000] * 1000), str, "a" * 1000),
    ):
        hidden = first == "a" * 1000
        parquet.write_table(
            pa.table({"x": column}),
            path,
            store_schema=False,
            use_dictionary=not hidden,
            column_encoding={"x": "DELTA_BYTE_ARRAY"} if hidden else None,
        )
        rows = len(column)
        assert path.stat().st_size < 300_000
        if kind is float:
            with limited(8 << 20), pytest.raises(InvalidData, match=first or r"take more than 0\.0 GB"):
                read_table_file(path, {"x": kind})
            continue
        del column
        read = read_table_file(path, {"x": kind}, gaps=["x"])["x"]
        assert len(read) == rows
        assert read[0] == first
    parquet.write_table(pa.table({"x": ["a", "b"] * 1000}), path)
    assert read_table_file(path, {"x": str})["x"].tolist() == ["a", "b"] * 1000


@pytest.mark.parametrize("kind", [str, float, int, bool])
@pytest.mark.parametrize("text", [b"\xd9 ", b"a\xff", b"\xf0\x9f"])
def test_text_in_parquet_that_is_none_is_refused(tmp_path, kind, text):
    pa = pytest.importorskip("pyarrow")
    words = pa.array([b"a", text], pa.binary()).view(pa.string())
    for gaps in ((), ("x",)):
        with pytest.raises((DataUnavailable, InvalidData)):
            read_table_file(as_parquet(tmp_path / "t.parquet", {"x": words}), {"x": kind}, gaps=gaps)


def test_a_parquet_file_that_contradicts_itself_ends_no_process(tmp_path):
    """Counts of levels of another number than the column has, in what the file says of a chunk."""
    path = as_parquet(tmp_path / "t.parquet", {"word": ["a", None, "b"]})
    sound, counts, others = path.read_bytes(), b"\x19\x06\x19\x26\x02\x04", b"\x19\x26\x02\x04\x19\x06"
    if sound.count(counts) != 1:
        pytest.skip("this pyarrow writes another description of a chunk")
    path.write_bytes(sound.replace(counts, others))
    read = (
        "import sys; from pathlib import Path; from dpbandits.tables.files import read_table_file\n"
        "read_table_file(Path(sys.argv[1]), {'word': str}, gaps=['word'])"
    )
    done = subprocess.run([sys.executable, "-c", read, path], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    refused = done.stderr.splitlines()[-1:]
    assert all(line.startswith("dpbandits.errors.DataUnavailable") for line in refused), done.stderr


BARE = [
    "",
    " ",
    "NA",
    "nan",
    "-nan",
    "nan(1)",
    "NuLL",
    "1",
    "-2.5",
    "+.5",
    "5.",
    "1e5",
    "1e999",
    "1e-999",
    "inf",
]
BARE += [
    "1_000",
    "0x10",
    "\u0661",
    "007",
    " 7 ",
    "\xa07\u2003",
    "true",
    "False",
    "TRUE",
    "x",
    "é",
    "x y",
    'a"b',
    "\ufeffx",
]
QUOTED = ['"q"', '"a,b"', '"say ""hi"""', '"two\nlines"', ' "late"', '"cut', '"x"y', '""', "\x00", "a\rb"]
TEXTS = st.lists(
    st.lists(st.sampled_from(BARE) | st.sampled_from(BARE + QUOTED), min_size=3, max_size=3).map(",".join)
    | st.sampled_from(["", " ", "1,2", "1,2,3,4"]),
    max_size=12,
)


def outcome(path, kinds, gaps):
    """What a table gives, to the bit and by the type of every cell, or the error that refuses it."""
    try:
        read = read_table_file(path, kinds, gaps=gaps)
    except (InvalidData, DataUnavailable) as error:
        return type(error), str(error)
    numbers = {name: column.tobytes() for name, column in read.items() if isinstance(column, np.ndarray)}
    cells = {name: [(type(cell), cell) for cell in read[name].tolist()] for name in set(read) - set(numbers)}
    return numbers, cells


@given(
    TEXTS,
    st.lists(st.sampled_from([float, str, int, bool]), min_size=3, max_size=3),
    st.sets(st.sampled_from("abc")),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["a,b,c", "\ufeffc, a ,b", '"a",b,c', "", "a,b,a"]),
    st.sampled_from([1, 4, 1 << 14]),
)
@settings(max_examples=60)
def test_the_engine_reads_a_text_as_the_reader_without_it_does(
    tmp_path_factory, lines, kinds, gaps, end, header, block
):
    pytest.importorskip("duckdb")
    path = tmp_path_factory.mktemp("texts") / "t.csv"
    path.write_bytes(end.join([header, *lines, ""]).encode())
    named = dict(zip("abc", kinds, strict=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dpbandits.tables.files.BLOCK_ROWS", block)
        by_engine = outcome(path, named, gaps)
        patched.setitem(sys.modules, "duckdb", None)
        assert by_engine == outcome(path, named, gaps)


def test_plain_texts_are_read_by_the_engine_alone(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    path = as_csv(tmp_path / "t.csv", {"word": ['"x"', "y", "NA"] * 5, "age": [" 1.5", "NaN", 7] * 5})
    monkeypatch.setattr("csv.reader", once(csv.reader))  # of the line of names
    read = read_table_file(path, {"word": str, "age": float}, gaps=["word", "age"])
    assert read["word"].tolist() == ["x", "y", None] * 5
    np.testing.assert_array_equal(read["age"], [1.5, np.nan, 7.0] * 5)


def once(function):
    """The function at its first call, and an error after that."""
    calls = []

    def called(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 1:
            raise AssertionError("called twice")
        return function(*arguments, **options)

    return called


COUNTED = "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM "


def test_a_quoted_cell_does_not_pass_as_rows_of_others(tmp_path, monkeypatch):
    """Each block of the file begins within a cell that looks like rows."""
    pytest.importorskip("duckdb")
    monkeypatch.setattr("dpbandits.tables.warehouse.duck.BUFFER", 100_000)
    monkeypatch.setattr("dpbandits.tables.warehouse.duck.LONGEST_LINE", 100_000)
    cell = '"x\n' + 'eve,""1"",2\n' * 8_000 + '"'
    path = tmp_path / "t.csv"
    path.write_text("id,word,age\n" + "".join(f"u{row},{cell},7\n" for row in range(20)), newline="")
    read = read_table_file(path, {"id": str, "age": float})
    assert read["id"].tolist() == [f"u{row}" for row in range(20)]
    assert read["age"].tolist() == [7.0] * 20
    for threads in (1, 4):
        with suppress(DataUnavailable), source_of(path, threads=threads) as source:
            found = source.query(COUNTED + source.relation)
            assert (found["n"].tolist(), found["ids"].tolist()) == ([20], [20])


def test_a_text_is_read_without_pandas(tmp_path):
    """pyarrow's own way to numpy imports it where it is installed: half a second, and 60 MB."""
    pytest.importorskip("pyarrow")
    path = as_csv(tmp_path / "t.csv", {"word": ["x", "NA"], "age": [1.5, "NaN"], "flag": ["true", "false"]})
    code = (
        "import sys; from pathlib import Path; from dpbandits.tables.files import read_table_file; "
        f"read_table_file(Path({str(path)!r}), dict(word=str, age=float, flag=bool), gaps=['word', 'age']); "
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("without", [(), ("duckdb",)], ids=["engine", "no engine"])
def test_one_odd_cell_does_not_bring_all_rows_into_memory(tmp_path, monkeypatch, without):
    """`csv` reads a block at a time: no Python object a cell of the table."""
    rows = 60_000
    words = ['a"b', *["north", "south"] * (rows // 2)]
    path = as_csv(tmp_path / "t.csv", {"word": words, "age": [1.0] * len(words)})
    for module in without:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("dpbandits.tables.files.BLOCK_ROWS", 1 << 10)
    read_table_file(path, {"word": str, "age": float})
    tracemalloc.start()
    read = read_table_file(path, {"word": str, "age": float})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read["word"].tolist()[:3] == ['a"b', "north", "south"]
    assert peak < 100 * rows  # 300 and more, row by row


@pytest.mark.parametrize("without", [(), ("duckdb",)], ids=["engine", "no engine"])
def test_columns_take_at_most_the_limit_of_memory(tmp_path, monkeypatch, without):
    for module in without:
        monkeypatch.setitem(sys.modules, module, None)
    path = as_csv(tmp_path / "t.csv", {"age": [1.0] * 200_000, "word": ["x"] * 200_000})
    with limited(40 << 20):
        assert len(read_table_file(path, {"age": float, "word": str})["age"]) == 200_000
    with (
        limited(2_000_000),
        pytest.raises(
            InvalidData, match=r"take more than 0\.0 GB: raise the limit with dpbandits.set_memory"
        ),
    ):
        read_table_file(path, {"age": float, "word": str})


def test_lines_end_as_they_do_in_text(tmp_path, monkeypatch):
    """Also where a block ends between the two marks of one line's end, or within a cell."""
    path = tmp_path / "t.csv"
    for text in ("a,b\r1,x\r2,y\r", "a,b\r\n1,x\r\n2,y", 'a,b\r\n1,"x"\r\n2,"y"\r\n', '"a",b\n1,x\n\n2,"y"'):
        path.write_bytes(text.encode())
        for block in (1, 2, 3):
            monkeypatch.setattr("dpbandits.tables.files.BLOCK_ROWS", block)
            read = read_table_file(path, {"a": float, "b": str})
            assert (read["a"].tolist(), read["b"].tolist()) == ([1.0, 2.0], ["x", "y"])
    path.write_bytes(b'a,b\n1,"x\r\ny"\n2,y,z\n')
    with pytest.raises(InvalidData, match="line 4 has 3 cells"):
        read_table_file(path, {"a": float})


def test_categories_that_a_dictionary_lists_and_nobody_has_are_not_there(tmp_path):
    pa = pytest.importorskip("pyarrow")
    words = pa.DictionaryArray.from_arrays(pa.array([2, None, 2, 0], pa.int8()), ["a", "nobody", " c "])
    path = as_parquet(tmp_path / "t.parquet", {"word": words})
    read = read_table_file(path, {"word": str}, gaps=["word"])["word"]
    assert read.tolist() == ["c", None, "c", "a"]
    assert sorted(read.values.tolist(), key=str) == [None, "a", "c"]


def test_a_column_is_read_by_its_different_values():
    column = Coded(np.array([1, 0, 1]), np.array(["north", None], dtype=object))
    assert len(column) == 3
    assert np.asarray(column).tolist() == column.tolist() == [None, "north", None]
    assert column.spread([10, 20]).tolist() == [20, 10, 20]
    assert "north" not in repr(column)
    full = Coded(np.array([1, 0, 1]), np.array(["north", "south"], dtype=object))
    assert Categories(["south", "north"]).encode(full, name="region").tolist() == [0, 1, 0]
    with pytest.raises(InvalidData, match="'region' has missing values"):
        Categories(["south", "north"]).encode(column, name="region")
    assert Range(0, 4).encode(Coded(np.array([0, 0]), np.array([2.0])), name="age").tolist() == [0.5, 0.5]


def as_arrow(path, columns, compression="uncompressed", stream=False):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(columns)
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "uncompressed" else compression)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema, options=options) as file:
        file.write_table(table)
    return path


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow_files_are_read_as_parquet_is(tmp_path, compression, stream):
    pa = pytest.importorskip("pyarrow")
    columns = {
        "age": [1.5, None, 3.0],
        "word": pa.array([" x ", "NA", None]).dictionary_encode(),
        "id": pa.array([7, 8, 7], pa.uint64()),
        "flag": [True, False, None],
        "unused": [[1], [], [2]],
    }
    kinds = {"age": float, "word": str, "id": str, "flag": bool}
    path = as_arrow(tmp_path / "t.arrow", columns, compression, stream)
    read, other = read_table_file(path, kinds, gaps=kinds), as_parquet(tmp_path / "t.parquet", columns)
    same = read_table_file(other, kinds, gaps=kinds)
    assert [read[name].tolist() for name in kinds if name != "age"] == [
        ["x", None, None],
        [7, 8, 7],
        [True, False, None],
    ]
    assert [read[name].tolist() for name in ("word", "id", "flag")] == [
        same[name].tolist() for name in ("word", "id", "flag")
    ]
    np.testing.assert_array_equal(read["age"], same["age"])
    for name in ("age", "word", "flag"):
        with pytest.raises(InvalidData, match=f"'{name}' has missing"):
            read_table_file(path, {name: kinds[name]})
    with pytest.raises(InvalidData, match="'unused' has cells that are lists"):
        read_table_file(path, {"unused": str})
    with pytest.raises(InvalidData, match="lacks the declared columns"):
        read_table_file(path, {"none": str})


def test_a_small_arrow_file_that_says_it_unfolds_to_gigabytes_is_not_decoded(tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = 131_109
    path = as_arrow(tmp_path / "t.arrow", {"x": np.zeros(rows)}, "zstd")
    assert path.stat().st_size < 10_000
    assert read_table_file(path, {"x": float})["x"].shape == (rows,)
    data = bytearray(path.read_bytes())
    at = data.index((8 * rows).to_bytes(8, "little"))
    data[at : at + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(data)
    before = pa.total_allocated_bytes()
    with pytest.raises(InvalidData, match="1024 MiB"):
        read_table_file(path, {"x": float})
    assert pa.total_allocated_bytes() - before < 1 << 20
    # nulls have no bytes at all, and words that stand once may be long
    as_arrow(path, {"x": pa.nulls((1 << 20) + 1)})
    once = pa.DictionaryArray.from_arrays(pa.array(np.zeros((1 << 20) + 1, dtype=np.int8)), ["a" * 1024])
    as_arrow(tmp_path / "once.arrow", {"x": once}, "zstd")
    assert len(read_table_file(tmp_path / "once.arrow", {"x": str})["x"]) == (1 << 20) + 1
    with limited(4 << 20), pytest.raises(InvalidData, match="take more"):
        read_table_file(path, {"x": float}, gaps="x")


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_a_damaged_arrow_file_is_data_that_cannot_be_had(tmp_path, compression):
    """Whatever byte is another one: an error of ours, or columns of as many rows as were written."""
    pa = pytest.importorskip("pyarrow")
    words = pa.array(["x", "y", None]).dictionary_encode()
    path = as_arrow(tmp_path / "t.feather", {"age": [1.5, 2.5, None], "word": words}, compression)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 + int(rng.integers(255))
        path.write_bytes(damaged)
        try:
            read = read_table_file(path, {"age": float, "word": str}, gaps=("age", "word"))
        except (InvalidData, DataUnavailable):
            continue
        assert len(read["age"]) == len(read["word"])
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        try:
            read_table_file(path, {"age": float, "word": str}, gaps=("age", "word"))
        except (InvalidData, DataUnavailable):
            continue


def test_a_description_says_what_stands_for_a_missing_value(tmp_path):
    text = DESCRIPTION.replace("high = 64", "high = 64\nmissing = 40").replace(
        '["female", "male"]', '["female", "male", "unknown"]\nmissing = "unknown"'
    )
    table = "age,gender,earnings\n16,NA,9.5\n,female,10\n,null,11\n"
    assert rows(table_from_toml(write(tmp_path, text, table), seed=0)) == [
        ((0.0, 2.0), 0),
        ((0.5, 0.0), 1),
        ((0.5, 2.0), 1),
    ]
    for old, new, match in (
        ("missing = 40", "missing = 65", "missing: expected a number in Range"),
        ("missing = 40", 'missing = "x"', "missing is a str, expected a number"),
        ('missing = "unknown"', 'missing = "none"', "one of the 3 categories"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            table_from_toml(write(tmp_path, text.replace(old, new), table), seed=0)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_category_that_is_declared_is_not_missing(tmp_path, ending):
    """An arm may be called "none", and a country NA; what is declared nowhere is missing still."""
    cells, path = ["none", "mail", "NA"], tmp_path / f"t.{ending}"
    if ending == "csv":
        path.write_text("offer,country,y\n" + "".join(f"{cell},{cell},{cell}\n" for cell in cells))
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(dict.fromkeys(("offer", "country", "y"), cells)), path)
    text = (
        '[columns.country]\ncategories = ["NA", "mail", "x"]\n[log]\narm = "offer"\n'
        'arms = ["none", "mail"]\nreward = "y"\nlow = 0\nhigh = 1\n'
    )
    table = DescribedTable.from_text(text).read(path, lenient=True)
    assert table["offer"].tolist() == ["none", "mail", None]
    assert table["country"].tolist() == [None, "mail", "NA"]
    label = DescribedTable.from_text(
        '[columns.country]\ncategories = ["NA", "mail", "none"]\n[label]\ncolumn = "y"\n'
        'categories = ["none", "mail", "NA"]\n'
    )
    assert label.outcome.rewards(label.read(path)).tolist() == np.eye(3).tolist()


def test_a_frame_of_mixed_cells_is_read_cell_by_cell():
    """Arrow takes a column for one type, and its error would show the cell that is of another."""
    frame = pytest.importorskip("pandas").DataFrame({"age": [30, "secret", 2**70], "name": ["a", 1, b"x"]})
    read = columns_of_frame(frame, {"age": float, "name": str}, gaps={"age", "name"})
    np.testing.assert_array_equal(read["age"], [30.0, np.inf, 2.0**70])
    assert np.asarray(read["name"]).tolist() == ["a", 1, b"x"]
    with pytest.raises(InvalidData, match="'age' has cells that are not of type float") as caught:
        columns_of_frame(frame, {"age": float})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "is_text"),
    [
        ("u17", True),
        ("51624", True),
        ("0", True),
        ("999999999999999", True),
        ("9007199254740993", True),
        ("infinitely", True),
        ("north 12", True),
        ("1e15", True),
        ("1e300", False),
        ("inf", False),
        ("-Infinity", False),
    ],
)
def test_a_column_of_text_holds_what_a_cell_may_mean(tmp_path, word, is_text):
    """A float beyond 2^53 stands for several ids, and is refused as every reader refuses it."""
    path = tmp_path / "table.csv"
    path.write_text(f"who\nann\n{word}\n", newline="\n")
    if is_text:
        assert read_table_file(path, {"who": str})["who"].tolist() == ["ann", word]
    else:
        with pytest.raises(InvalidData, match="not of type str"):
            read_table_file(path, {"who": str})


def test_ids_are_persons_however_many_of_them_are_one(tmp_path):
    """Distinct ids take a shorter path than repeated ids: the persons are the same."""
    ids = ["u1", "17", "u2", "Ann", "90071992547409", "t5"]
    numbers = Owners.of(ids, count=6)
    assert (numbers.numbers.tolist(), numbers.texts) == ([0, 1, 2, 3, 4, 5], ids)
    again = Owners.of([*ids, "017", None, "ann"], count=9)
    assert again.numbers.tolist() == [0, 1, 2, 3, 4, 5, 1, -1, 6]
    assert again.texts == [*ids, "ann"]


def test_globs_and_databases_are_tables_too(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    for number, ages in enumerate(([1.0, 2.0], [3.0])):
        as_csv(tmp_path / f"c{number}.csv", {"age": ages, "word": ["x"] * len(ages)})
        as_parquet(tmp_path / f"p{number}.parquet", {"age": ages, "word": ["x"] * len(ages)})
        as_arrow(tmp_path / f"a{number}.arrow", {"age": ages, "word": ["x"] * len(ages)})
    with duckdb.connect(str(tmp_path / "shop.db")) as made:
        made.execute("CREATE TABLE log AS SELECT range AS age, 'x' AS word FROM range(1, 4)")
    url = f"duckdb:///{tmp_path}/shop.db?table=log"
    for where in (tmp_path / "c*.csv", tmp_path / "p*.parquet", str(tmp_path / "a*.arrow"), url):
        read = read_table_file(where, {"age": float, "word": str})
        assert (read["age"].tolist(), read["word"].tolist()) == ([1.0, 2.0, 3.0], ["x"] * 3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "duckdb", None)
        assert read_table_file(tmp_path / "c*.csv", {"age": float})["age"].tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(MissingExtra, match="warehouse"):
            read_table_file(url, {"age": float})
    with pytest.raises(InvalidData, match=r"lacks the declared columns \['none'\]"):
        read_table_file(url, {"none": float})


@pytest.mark.parametrize("path", ["duckdb:///shop.db?table=people", "people*.csv"])
def test_a_description_names_a_glob_or_a_database_beside_it(tmp_path, path):
    duckdb = pytest.importorskip("duckdb")
    described = write(tmp_path, DESCRIPTION.replace("people.csv", path))
    with duckdb.connect(str(tmp_path / "shop.db")) as made:
        made.execute(f"CREATE TABLE people AS SELECT * FROM read_csv('{tmp_path}/people.csv')")  # noqa: S608
    assert rows(table_from_toml(described, seed=0)) == [((0.0, 1.0), 0), ((0.5, 0.0), 1), ((1.0, 1.0), 2)]


def test_columns_of_a_database_are_read_cell_by_cell(tmp_path):
    """The cells of PostgreSQL mean what their texts mean, and no error shows one."""
    psycopg = pytest.importorskip("psycopg")
    address = fresh("debian")
    with psycopg.connect(address, autocommit=True) as made:
        made.execute(
            "CREATE TABLE people (number double precision, whole bigint, decimal numeric, word text, "
            "day date, moment timestamptz, truth boolean, bytes bytea)"
        )
        made.execute("SET TimeZone = 'America/New_York'")
        made.execute(
            "INSERT INTO people VALUES (1.5, 9007199254740993, 2.50, ' 4_0 ', 'infinity', "
            "'2024-05-31 20:00:00', true, 'x'), ('nan', NULL, 'nan', repeat('1', 70000), '2024-05-31', "
            "'-infinity', false, NULL), (NULL, 7, 1e300, 'NA', NULL, NULL, NULL, NULL), "
            "(0, 8, 1e400, '5', NULL, NULL, NULL, NULL), (0, 8, 1e-400, '5', NULL, NULL, NULL, NULL)"
        )
        made.execute("CREATE VIEW broken AS SELECT 1 / (whole - 7) AS secret_77 FROM people WHERE whole = 7")
    url, kinds = address + "&table=people", dict.fromkeys(["number", "decimal", "word", "truth"], float)
    read = read_table_file(url, kinds, gaps=kinds)
    assert read["number"].tolist()[0] == 1.5
    assert np.isnan(read["number"][1:3]).all()
    assert read["decimal"][[0, 2, 3, 4]].tolist() == [
        2.5,
        1e300,
        np.inf,
        0.0,
    ]  # beyond a double, as in a text
    assert read["word"].tolist()[:2] == [40.0, np.inf]
    assert read["truth"].tolist()[:2] == [1.0, 0.0]
    others = {"whole": int, "day": date, "moment": date}
    found = read_table_file(url, others, gaps=others)
    assert Owners.of(found["whole"], count=5).texts == ["9007199254740993", "7", "8"]
    assert np.asarray(found["day"]).tolist()[:3] == ["infinity", "2024-05-31", None]
    assert np.asarray(found["moment"]).tolist()[0] == "2024-06-01 00:00:00+00"
    with pytest.raises(InvalidParameter, match="'bytes' has the type bytea"):
        read_table_file(url, {"bytes": str})
    with pytest.raises(InvalidData, match=r"lacks the declared columns \['none'\]"):
        read_table_file(url, {"none": float})
    with pytest.raises(DataUnavailable, match="the statement failed in the database") as error:
        read_table_file(address + "&table=broken", {"secret_77": float})
    assert error.value.__cause__ is error.value.__context__ is None


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # by Ibis
@pytest.mark.parametrize("kind", ["duckdb", "debian"])
def test_rows_of_ibis_come_in_parts(tmp_path, kind):
    ibis = pytest.importorskip("ibis")
    if kind == "duckdb":
        connection = ibis.duckdb.connect()
    else:
        connection = ibis.postgres.from_connection(pytest.importorskip("psycopg").connect(fresh(kind)))
    sql = "CREATE TABLE people AS SELECT n AS age, 'p' || n AS word FROM "
    listed = "range(20000) AS numbers(n)" if kind == "duckdb" else "generate_series(0, 19999) AS numbers(n)"
    connection.raw_sql(sql + listed)
    people = connection.table("people")
    read = read_table_file(people.filter(people.age < 17_000), {"age": float, "word": str})
    assert sorted(read["age"].tolist()) == list(range(17_000))
    assert len(Owners.of(read["word"], count=17_000).texts) == 17_000
    if kind == "debian":  # a transaction of the caller stays open, with its settings
        connection.con.execute("SET DateStyle = 'German'")
        read_table_file(people, {"age": float})
        assert connection.con.execute("SHOW DateStyle").fetchone()[0].startswith("German")
        connection.con.rollback()
        with pytest.raises(DataUnavailable):
            read_table_file(people, {"age": float})  # the table was made in that transaction
        connection.con.close()
    with pytest.raises(InvalidParameter, match="expected a path"):
        read_table_file(5, {"age": float})
