"""The curator: one release, durable answers, one clear error for every bad input, nothing lost in a crash."""

import asyncio
import dataclasses
import hashlib
import io
import itertools
import json
import math
import os
import stat
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpbandits
from dpbandits import (
    Categories,
    DateRange,
    MemoryLedger,
    Range,
    RowDP,
    Schema,
    SecureNoise,
    SimulatedNoise,
    SQLiteLedger,
)
from dpbandits.errors import (
    AlreadyTold,
    BudgetExceeded,
    CorruptState,
    ForkedState,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.outsourced import (
    AnswerLaplace,
    Command,
    Curator,
    CuratorTuning,
    PublicScaling,
    PublishedRows,
    SecretDirectory,
)
from dpbandits.outsourced.curator.answers import AnswerLog
from dpbandits.outsourced.pipe import serve
from dpbandits.outsourced.scaling import TableRows
from dpbandits.privacy.definitions import LargeDelta
from dpbandits.privacy.rows import L2Laplace
from dpbandits.state import read_state, write_state
from dpbandits.state.journal import Journal
from flat import curator_with
from internals.curator import Clock
from internals.journal import end_of, files_of, put_back
from noises import UncountedNoise

SCHEMA = Schema(age=Range(20, 80), dose=Range(0, 10))
PRIVACY = RowDP(epsilon=1.0, distance=1.0)
CANARY = 7.123456789


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.uniform(20, 80, n),
        "dose": rng.uniform(0, 10, n),
        "effect": rng.normal(0, 1, n),
        "name": [f"person-{i}" for i in range(n)],
    }


def make(table=None, **options):
    given = {"contexts": SCHEMA, "privacy": PRIVACY, "objective": "effect", **options}
    return curator_with(people() if table is None else table, **given)


# -- the release --------------------------------------------------------------------------------------


def test_publishing_again_gives_the_same_release(tmp_path):
    curator = make()
    first = curator.publish(tmp_path / "a")
    assert curator.publish(tmp_path / "a") is first
    loaded = PublishedRows.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.inputs, first.inputs)
    assert loaded.describe() == first.describe()
    assert loaded.guarantee == first.guarantee
    assert first.guarantee.status == "enforced"
    assert first.guarantee.epsilon == 1.0
    other = make().publish()
    assert other.release_id != first.release_id
    assert (other.inputs != first.inputs).any()


def calls(work):
    """How often each function of the package is called."""
    counted, package = Counter(), str(Path(dpbandits.__file__).parent)

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            counted[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


def test_a_publication_computes_nothing_twice(tmp_path):
    noise = SimulatedNoise(1_000_000)
    for rows in (4, 200):
        assert 100 < calls(make(people(rows), noise=noise).publish).total() <= 300
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("ward", privacy=PRIVACY)
    secret = SecretDirectory(tmp_path / "secret", account=ledger.account("ward"))
    paid = calls(lambda: make(noise=noise, secret=secret).publish())
    assert paid["rows_guarantee"] == paid["TableRows.draw"] == 1


def test_rows_are_shuffled_and_answers_belong_to_their_rows():
    """With hardly any noise, every released row can be matched to its table row and its answer."""
    table = people()
    curator = make(table, privacy=RowDP(epsilon=500.0, distance=1e-3))
    release = curator.publish()
    points = PublicScaling(SCHEMA).to_public(table)
    gaps = np.linalg.norm(release.inputs[:, None] - points[None], axis=2)
    origin = gaps.argmin(axis=1)
    assert gaps.min(axis=1).max() < 1e-3
    assert sorted(origin) == list(range(200))
    assert (origin != np.arange(200)).sum() > 150  # shuffled
    for row in (0, 17, 199):
        assert curator.answer(row) == table["effect"][origin[row]]


def test_order_of_the_table_leaves_no_trace_in_the_order_of_rows():
    """Over 200 releases the first table row lands uniformly: chi-square over 10 bins, 6 sigma."""
    table = {"age": np.linspace(20, 80, 10), "dose": np.linspace(0, 10, 10), "effect": np.arange(10.0)}
    places = []
    for _ in range(200):
        release = make(table, privacy=RowDP(epsilon=500.0, distance=1e-3)).publish()
        places.append(int(np.argmin(release.inputs[:, 0])))
    counts = np.bincount(places, minlength=10)
    assert ((counts - 20) ** 2 / 20).sum() < 9 + 6 * np.sqrt(18)


@pytest.mark.parametrize("file_format", ["npy", "parquet"])
def test_a_release_survives_the_disk(tmp_path, file_format):
    written = make(cap=20, answers=AnswerLaplace(epsilon=0.5, distance=1.0, low=-3, high=3)).publish(
        tmp_path / "out", file_format=file_format
    )
    read = PublishedRows.load(tmp_path / "out")
    np.testing.assert_array_equal(read.inputs, written.inputs)
    assert read.describe() == written.describe()
    assert read.law == written.law
    assert read.cap == 20
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"inputs.{file_format}",
        "release.json",
    ]
    body = json.loads((tmp_path / "out" / "release.json").read_text())
    for name in ("schema_version", "mechanism", "relation", "epsilon", "delta", "distance", "sha256"):
        assert name in body
    assert body["public_transform"]["schema"]["columns"][0]["name"] == "age"


def test_parquet_that_is_no_release_is_refused(tmp_path):
    """Whatever it holds, under a right hash: damage, text, and few bytes that unfold to gigabytes."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    make().publish(tmp_path / "out", file_format="parquet")
    path, inputs = tmp_path / "out" / "release.json", tmp_path / "out" / "inputs.parquet"
    body, sound = json.loads(path.read_text()), inputs.read_bytes()

    def written(table):
        stream = io.BytesIO()
        parquet.write_table(table, stream, store_schema=False)
        return stream.getvalue()

    once = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, dtype=np.int32)), pa.array([0.5]))
    unfolding = written(pa.table({f"z{column}": once for column in range(130)}))
    assert len(unfolding) < 1_000_000
    damaged = sound[:-20], sound.replace(sound[4:12], bytes(8)), sound[:4] + b"\xff" * 20 + sound[24:]
    for content in (b"", *damaged, written(pa.table({"z0": ["a", "b"]})), unfolding):
        inputs.write_bytes(content)
        stated = {**body, "inputs": {**body["inputs"], "sha256": hashlib.sha256(content).hexdigest()}}
        del stated["sha256"]
        text = json.dumps(stated, sort_keys=True, separators=(",", ":"), allow_nan=False)
        path.write_text(json.dumps({**stated, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
        before = pa.default_memory_pool().max_memory()
        with pytest.raises(CorruptState):
            PublishedRows.load(tmp_path / "out")
        assert pa.default_memory_pool().max_memory() - before < 500_000_000


def test_damaged_releases_are_refused(tmp_path):
    make().publish(tmp_path / "out")
    path, inputs = tmp_path / "out" / "release.json", tmp_path / "out" / "inputs.npy"
    sound, data = path.read_text(), inputs.read_bytes()

    def refused(error, text=sound, content=data):
        path.write_text(text)
        inputs.write_bytes(content)
        with pytest.raises(error):
            PublishedRows.load(tmp_path / "out")

    refused(CorruptState, content=data[:-1] + bytes([data[-1] ^ 1]))
    refused(CorruptState, content=b"")
    refused(CorruptState, text=sound.replace('"epsilon": 1.0', '"epsilon": 0.1'))
    refused(CorruptState, text=sound[:-10])
    refused(IncompatibleState, text=sound.replace('"schema_version": 1', '"schema_version": 2'))
    refused(IncompatibleState, text="{}")
    refused(CorruptState, text="[]")
    with pytest.raises(FileNotFoundError):
        PublishedRows.load(tmp_path / "nowhere")
    with pytest.raises(ProtocolError, match="something else"):
        make().publish(tmp_path / "out")


def test_a_broken_write_leaves_no_half_release(tmp_path, monkeypatch):
    release = make().publish()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        release.save(tmp_path / "out")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    release.save(tmp_path / "out")
    assert PublishedRows.load(tmp_path / "out").release_id == release.release_id


def test_data_frames_get_in():
    frame = pd.DataFrame(people())
    assert make(frame).publish().n == 200


# -- bad tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"effect": None}, "lacks the column 'effect'"),
        ({"age": None}, "lacks the declared columns"),
        ({"effect": [1.0] * 199}, "another length"),
        ({"name": ["same"] * 199}, "another length"),
        ({"age": [30.0], "dose": [1.0], "effect": [1.0], "name": ["same"]}, "needs at least two"),
    ],
)
def test_bad_tables_are_refused_and_leave_nothing_behind(tmp_path, change, match):
    table = {name: cells for name, cells in {**people(), **change}.items() if cells is not None}
    with pytest.raises(InvalidData, match=match) as caught:
        make(table, ids="name", secret=tmp_path / "secret")
    assert "same" not in str(caught.value)
    assert not (tmp_path / "secret").exists() or not any((tmp_path / "secret").iterdir())


def rows_read(table, schema, **columns):
    return TableRows.read(table, scaling=PublicScaling(schema), **columns)


def test_a_row_that_cannot_be_read_is_released_as_the_centre_is():
    schema, table = Schema(age=Range(20, 80), dose=Range(0, 10)), people()
    for bad in (19.0, np.nan, "old", None):
        found = rows_read({**table, "age": [bad, *table["age"][1:]]}, schema)
        assert found.points[0].tolist() == [0.0, 0.0]
        np.testing.assert_array_equal(found.points[1:], rows_read(table, schema).points[1:])
    clipped = Schema(age=Range(20, 80, clip=True), dose=Range(0, 10))
    assert rows_read({**table, "age": [19.0, *table["age"][1:]]}, clipped).points[0, 0] < 0
    assert make({**table, "age": [30.0] * 200}).publish().n == 200


def test_a_row_without_an_answer_or_an_id_fails_alone():
    exact = make({**people(), "effect": [np.nan] * 200})
    exact.publish()
    with pytest.raises(ProtocolError, match="no finite answer"):
        exact.answer(0)
    noised = make(
        {**people(), "effect": ["high"] * 200}, answers=AnswerLaplace(epsilon=50, distance=1, low=0, high=1)
    )
    noised.publish()
    noised.answer(0)
    assert "it has no answer" in noised.unsafe_failures[0]
    asked = []
    ids = make(
        {**people(), "name": ["same"] * 200}, ids="name", objective=lambda own: asked.append(own) or 0.5
    )
    ids.publish()
    outcomes = []
    for row in range(200):
        try:
            outcomes.append(ids.answer(row))
        except ProtocolError:
            outcomes.append(None)
    assert (outcomes.count(0.5), asked) == (0, [])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("contexts", (None, 5, {"age": Range(20, 80)})),
        ("privacy", (1.0, None, "RowDP", RowDP)),
        ("objective", (5, ["effect"], b"effect")),
        ("ids", (5, ["name"])),
        ("cap", ("x", 1.5, True, np.float64(3), [3], 10**400)),
        ("answers", (0.5, "laplace", AnswerLaplace)),
        ("mechanism", (5, None, ["gaussian"], "laplace")),
        ("tuning", (5, "gaussian", CuratorTuning)),
        ("noise", (5, "secure", SecureNoise)),
        ("secret", (5, b"secret", "nul\0l", ["secret"])),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(name, values):
    for value in values:
        with pytest.raises(InvalidParameter, match=name.partition("_")[0] if name != "mechanism" else "."):
            make(**{name: value})


@pytest.mark.parametrize(
    "tuning",
    [
        {"cells_per_dimension": "x"},
        {"mechanism": "l2_laplace", "cells_per_dimension": 4},
    ],
)
def test_constants_of_another_mechanism_or_kind_are_refused(tuning):
    with pytest.raises(InvalidParameter):
        make(**tuning)


@pytest.mark.parametrize("table", [5, None, [1, 2], np.zeros((3, 3)), {"age": 5}, {}])
def test_a_table_of_another_kind_is_bad_data(table):
    with pytest.raises(InvalidData):
        Curator(table, contexts=SCHEMA, privacy=PRIVACY, objective="effect")


def test_the_parts_of_a_curator_are_checked_too(tmp_path):
    for wrong in (
        lambda: SecretDirectory(5),
        lambda: SecretDirectory(tmp_path, ledger="book.db"),
        lambda: SecretDirectory(tmp_path, ledger=MemoryLedger(), account=5),
        lambda: SecretDirectory(tmp_path, key="secret"),
        lambda: SecretDirectory(tmp_path, resume="yes"),
        lambda: Command(5),
        lambda: Command("true", timeout="long"),
        lambda: Command("true", timeout=-1),
        lambda: make().publish(5),
        lambda: make().publish("nul\0l"),
        lambda: PublishedRows.load(5),
        lambda: Curator.open(5),
        lambda: Curator.open(tmp_path, objective="effect"),
    ):
        with pytest.raises(InvalidParameter):
            wrong()
    make(secret=tmp_path / "secret").publish()
    with pytest.raises(InvalidParameter, match="a column of its table"):  # it would never be asked
        Curator.open(tmp_path / "secret", objective=lambda _: 0.5)


def test_failed_evaluations_use_the_cap(tmp_path):
    """Raised, left by sys.exit, cancelled, no number: each is an evaluation; the sixth does not begin."""
    outcomes = [ValueError("Ann"), SystemExit("Ann"), asyncio.CancelledError("Ann"), "none", 0.5, 0.5]
    begun = []

    def effect(row):
        begun.append(row)
        outcome = outcomes[len(begun) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    for secret in (None, tmp_path / "secret"):
        begun.clear()
        curator = make(objective=effect, cap=5, secret=secret)
        curator.publish()
        for _ in range(4):
            with pytest.raises(ProtocolError) as caught:
                curator.answer(7)
            assert "Ann" not in str(caught.value)
        assert curator.answer(7) == 0.5
        with pytest.raises(HorizonExceeded):
            curator.answer(8)
        assert len(begun) == 5
    again = Curator.open(tmp_path / "secret", objective=effect)
    with pytest.raises(HorizonExceeded):
        again.answer(8)
    assert len(begun) == 5
    assert again.answered == [(7, 0.5)]


def test_a_secret_directory_is_one_tables(tmp_path):
    """Unfinished or finished: another position, answer, id or order is refused; the table is not kept."""
    table = people()
    first = make(table, ids="name", secret=tmp_path / "secret")
    for finished in (False, True):
        if finished:
            first.publish()
        for name in ("age", "effect", "name"):
            other = {**table, name: list(table[name])}
            other[name][3] = "somebody" if name == "name" else float(other[name][3]) + 1e-6
            with pytest.raises(ProtocolError, match="another table"):
                make(other, ids="name", secret=SecretDirectory(tmp_path / "secret", resume=True))
        turned = {name: list(values)[::-1] for name, values in table.items()}
        with pytest.raises(ProtocolError, match="another table"):
            make(turned, ids="name", secret=SecretDirectory(tmp_path / "secret", resume=True))
    again = make(table, ids="name", secret=SecretDirectory(tmp_path / "secret", resume=True))
    np.testing.assert_array_equal(again.publish().inputs, first.publish().inputs)
    assert set(read_state(tmp_path / "secret" / "curator.state").arrays) == {"inputs", "table_rows", "column"}


def published_in(folder, **options):
    curator = make(secret=folder, **options)
    curator.publish()
    return curator


# -- the guarantee after a restart --------------------------------------------------------------------


def changed(folder, public=(), releases=None):
    """Its state as somebody left it who changed parameters, or what the log of releases says."""
    path = folder / "curator.state"
    state = read_state(path)
    path.unlink()
    log = [entry | (releases or {}) for entry in state.public["releases"]]
    write_state(path, dataclasses.replace(state, public={**state.public, "releases": log, **dict(public)}))
    return folder


def test_the_guarantee_is_what_was_released(tmp_path):
    """Positions and answers are in the log, and a restart derives the same guarantee from it."""
    answers = AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0)
    curator = published_in(tmp_path / "one", answers=answers, answer_after=2.0)
    state = read_state(tmp_path / "one" / "curator.state")
    assert "guarantee" not in state.public
    for entry, record in zip(state.public["releases"], curator.guarantee.mechanisms, strict=True):
        assert (entry["law"], entry["scale"], entry["sensitivity"]) == (
            record.law, record.scale, record.sensitivity,
        )  # fmt: skip
        assert entry["certificate"] == record.certificate.to_config()
        assert (entry["source"], entry["status"], entry["charge"]) == ("SecureNoise", "enforced", None)
    assert Curator.open(tmp_path / "one").guarantee == curator.guarantee


def test_rows_of_simulated_noise_stay_simulated_whatever_the_parameters_say(tmp_path):
    """The parameters were changed to secure noise; the rows are the old ones."""
    published_in(tmp_path / "one", noise=SimulatedNoise(5))
    opened = Curator.open(changed(tmp_path / "one", {"noise": SecureNoise().to_config()}))
    assert opened.guarantee.status == "simulated"
    assert opened.publish().guarantee.status == "simulated"


@pytest.mark.parametrize(
    ("public", "releases"),
    [
        ({"privacy": RowDP(epsilon=0.25, distance=1.0).to_config()}, None),
        ({"privacy": RowDP(epsilon=1.0, distance=2.0).to_config()}, None),
        ((), {"scale": 0.5}),
        ((), {"certificate": None}),
        ((), {"purpose": "other"}),
        ({"releases": []}, None),
        ({"releases": [{"purpose": "positions"}]}, None),
    ],
)
def test_a_folder_released_on_other_terms_is_refused(tmp_path, public, releases):
    """Rows of epsilon 1 are no rows of epsilon 0.25, whatever the folder's parameters say."""
    published_in(tmp_path / "one")
    with pytest.raises(CorruptState):
        Curator.open(changed(tmp_path / "one", public, releases))


def test_bad_arguments_are_refused():
    table = people()
    for options, match in (
        ({"contexts": Schema(age=Range(20, 80), name=Categories(["a"]))}, "categories"),
        ({"cap": 0}, "cap"),
        ({"cap": 201}, "cap"),
        ({"mechanism": "gaussian"}, "delta"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            make(table, **options)
    with pytest.raises(InvalidParameter, match="ledger"):
        SecretDirectory("secret", account=MemoryLedger().account("hospital"), ledger=MemoryLedger())
    for options in ({"objective": "absent"}, {"ids": "absent"}):
        with pytest.raises(InvalidData, match="absent"):
            make(table, **options)
    with pytest.raises(InvalidData, match="at least two"):
        make({name: values[:1] for name, values in table.items()})


# -- answers ------------------------------------------------------------------------------------------


def test_answers_are_given_once_and_up_to_the_cap():
    curator = make(cap=3)
    with pytest.raises(ProtocolError, match="publish"):
        curator.answer(0)
    curator.publish()
    given = [curator.answer(row) for row in (5, 6, 7)]
    with pytest.raises(AlreadyTold):
        curator.answer(5)
    assert curator.answer_again(5) == given[0]
    with pytest.raises(UnknownDecision):
        curator.answer_again(8)
    with pytest.raises(HorizonExceeded):
        curator.answer(8)
    for bad in (-1, 200, True, np.True_, 1.0, "1", None, [1], np.array([1]), 10**30):
        with pytest.raises(UnknownDecision):
            curator.answer(bad)
        with pytest.raises(UnknownDecision):
            curator.answer_again(bad)
    assert curator.answer_again(np.int64(6)) == given[1]
    assert curator.answered == [(5, given[0]), (6, given[1]), (7, given[2])]


def test_a_function_gets_the_rows_own_ids():
    calls = []

    def evaluate(name):
        calls.append(name)
        return float(name.split("-")[1])

    curator = make(objective=evaluate, ids="name")
    curator.publish()
    answers = [curator.answer(row) for row in range(5)]
    assert [f"person-{int(answer)}" for answer in answers] == calls


def test_a_failing_objective_loses_nothing():
    state = {"fail": True}

    def evaluate(row):
        if state["fail"]:
            raise ValueError(f"raw {CANARY}")
        return math_nan if state.get("nan") else 1.5

    math_nan = float("nan")
    curator = make(objective=evaluate)
    curator.publish()
    with pytest.raises(ProtocolError, match="ValueError") as caught:
        curator.answer(3)
    assert str(CANARY) not in str(caught.value)
    assert caught.value.__cause__ is None
    state.update(fail=False, nan=True)
    with pytest.raises(ProtocolError, match="NaN"):
        curator.answer(3)
    state.update(nan=False)
    assert curator.answer(3) == 1.5
    missing = make(objective=None)
    missing.publish()
    with pytest.raises(ProtocolError, match="no objective"):
        missing.answer(0)


def test_an_objective_cannot_dress_its_error_as_ours():
    """A refusal with the row's data in it, raised as one of our public errors, is not passed on."""

    def evaluate(row):
        raise AlreadyTold(f"raw {CANARY}")

    curator = make(objective=evaluate)
    curator.publish()
    with pytest.raises(ProtocolError) as caught:
        curator.answer(3)
    assert type(caught.value) is ProtocolError
    assert str(CANARY) not in str(caught.value)


def raising(error):
    raise error


FAILING = {
    "raises": lambda: raising(ValueError("Ann")),
    "leaves": lambda: sys.exit("Ann"),
    "no number": lambda: "Ann",
    "nan": lambda: math.nan,
    "infinite": lambda: math.inf,
    "too large": lambda: 10**400,
    "one of ours": lambda: raising(AlreadyTold("Ann")),
}


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("failure", FAILING)
def test_a_noised_answer_looks_the_same_whether_its_evaluation_failed(tmp_path, failure, on_disk):
    """Word for word, beside one whose answer is the middle of the bounds: replies, log and a restart."""

    def kept(folder, objective):
        curator = make(
            objective=objective,
            answers=AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=5.0),
            noise=SimulatedNoise(7),
            cap=3,
            secret=folder if on_disk else None,
        )
        curator.publish()
        replies, asked = io.StringIO(), ['{"ask": 3}', '{"ask": 3}', '{"again": 3}', '{"ask": 4}']
        serve(curator, [*asked, '{"ask": 5}', '{"ask": 6}'], replies)
        seen = [replies.getvalue().replace(curator.release_id, ""), curator.answered, repr(curator)[55:]]
        if on_disk:
            log = Journal(folder / "answers.log", kind="answers", subject=curator.release_id)
            seen += [list(log.settle()), Curator.open(folder, objective=objective).answered]
        return curator, seen

    failing, seen = kept(tmp_path / "one", lambda _: FAILING[failure]())
    good, expected = kept(tmp_path / "two", lambda _: 1.0)
    assert seen == expected
    assert len(failing.answered) == 3
    assert all(value != 1.0 for _, value in failing.answered)  # the middle has noise on it
    assert len(failing.unsafe_failures) == 3
    assert good.unsafe_failures == []
    assert "Ann" not in "".join(failing.unsafe_failures)
    if on_disk:
        assert "row 3" in (tmp_path / "one" / "failures.log").read_text().splitlines()[0]
        assert not (tmp_path / "two" / "failures.log").exists()


def test_what_can_evaluate_no_row_refuses_every_row_and_takes_nothing(tmp_path):
    """No objective, or no program: a refusal that no row has a part in, and no answer of the middle."""
    for objective in (None, Command("/no/such/program --row"), Command("no-such-program")):
        curator = make(objective=objective, answers=AnswerLaplace(epsilon=1.0, distance=1.0, low=0, high=1))
        curator.publish()
        for row in (3, 3, 4):
            with pytest.raises(ProtocolError):
                curator.answer(row)
        assert curator.answered == []
        assert curator.unsafe_failures == []


def test_without_a_cap_failures_are_bounded_too(tmp_path):
    """One evaluation for each row of the table, across restarts: the fifth of four rows' does not begin."""
    table = {"age": [30.0, 40.0, 50.0, 60.0], "dose": [1.0, 2.0, 3.0, 2.5]}
    begun = []

    def failing(row):
        begun.append(row)
        raise ValueError

    release = make(table, objective=failing, secret=tmp_path / "secret").publish()
    assert release.cap == 4
    for _ in range(3):
        curator = Curator.open(tmp_path / "secret", objective=failing)
        assert curator.cap == 4
        for _ in range(2):
            with pytest.raises((ProtocolError, HorizonExceeded)):
                curator.answer(1)
    assert len(begun) == 4
    with pytest.raises(HorizonExceeded):
        curator.answer(2)


@pytest.mark.parametrize("answers", [None, AnswerLaplace(epsilon=1.0, distance=1.0, low=0.0, high=1.0)])
def test_at_a_fixed_pace_every_answer_takes_the_same_time(monkeypatch, answers):
    """On a clock of its own: quick, slow and failed evaluations leave 10 seconds after they began."""
    clock = Clock(monkeypatch)
    durations = {1: 0.0, 2: 9.5, 3: 4.0, 4: 10.5, 5: 30.0}
    fails = {3}

    def evaluate(row):
        clock.now += durations[asked]
        if asked in fails:
            raise ValueError
        return 0.5

    curator = make(objective=evaluate, answers=answers, answer_after=10)
    curator.publish()
    taken = []
    for asked in durations:
        begun = clock.now
        with suppress(ProtocolError):  # exact answers: there is none
            curator.answer(asked)
        taken.append(clock.now - begun)
    assert taken == [10.0, 10.0, 10.0, 20.0, 30.0]
    for wrong in (0, 0.5, -1, math.nan, math.inf, 1e9, True, "10"):
        with pytest.raises(InvalidParameter, match="answer_after"):
            make(answer_after=wrong)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="processes have no groups here")
def test_a_paced_command_is_stopped_in_time_with_all_that_it_started(tmp_path):
    """At half of the pace, whatever its own timeout: no later than others, and nothing of it goes on."""
    script = tmp_path / "slow.sh"
    script.write_text(f"#!/bin/sh\nsleep 77 & echo $! > {tmp_path / 'child'}\nwait\necho 1\n")
    script.chmod(0o700)
    curator = make(
        objective=Command(str(script)),
        answers=AnswerLaplace(epsilon=1.0, distance=1.0, low=0.0, high=1.0),
        answer_after=1.0,
    )
    curator.publish()
    curator.answer(3)
    assert "TimeoutExpired" in curator.unsafe_failures[0]
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    "ids",
    [
        [51624, "51624", 3, 4],
        [np.int64(51624), b"51624", 3, 4],
        ["51624", " 51624 ", "3", "4"],
        ["Jos\u00e9", "Jose\u0301", "3", "4"],
        [b"51624", np.bytes_(b"51624"), 3, 4],
    ],
    ids=["text", "numpy and bytes", "blanks", "accents", "numpy bytes"],
)
def test_one_person_has_one_row_however_the_id_is_written(ids):
    table = {"age": [30.0, 40.0, 50.0, 60.0], "dose": [1.0, 2.0, 3.0, 2.5], "id": ids}
    found = rows_read(table, Schema(age=Range(20, 80), dose=Range(0, 10)), ids="id").ids
    assert found[:2] == [None, None]  # neither is asked about: whose row the id is nobody knows
    assert None not in found[2:]


@pytest.mark.parametrize(
    "nobody", [None, math.nan, np.float64("nan"), pd.NA, pd.NaT, "", "  ", b"", "NA", ["u"]]
)
def test_a_row_of_nobody_has_no_id(nobody):
    ids = [nobody, "2", "3", "4"]
    table = {"age": [30.0, 40.0, 50.0, 60.0], "dose": [1.0, 2.0, 3.0, 2.5], "id": ids}
    schema = Schema(age=Range(20, 80), dose=Range(0, 10))
    assert rows_read(table, schema, ids="id").ids == [None, "2", "3", "4"]


def test_commands(tmp_path):
    script = tmp_path / "evaluate.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        row = int(sys.argv[-1])
        if row == 3: sys.exit(4)
        print("none" if row == 4 else row / 2)
        """)
    )
    command = Command(f"{sys.executable} {script}")
    assert command(7) == 3.5
    with pytest.raises(ProtocolError, match="exit status 4"):
        command(3)
    with pytest.raises(ProtocolError, match="no number"):
        command(4)
    with pytest.raises(ProtocolError, match="could not be run"):
        Command("/no/such/program")(1)
    with pytest.raises(ProtocolError, match="TimeoutExpired"):
        Command(f"{sys.executable} -c 'import time; time.sleep(9)'", timeout=0.2)(1)
    for bad in (" ", "'open"):
        with pytest.raises(InvalidParameter):
            Command(bad)
    with pytest.raises(ProtocolError, match="no number"):
        Command("cat")(os.devnull)  # bytes that are no number


def test_a_command_does_not_read_the_questions():
    """It gets the end of input at once: what the curator's process reads is for the curator alone."""
    code = "import sys; print(len(sys.stdin.read()))"
    script = f"from dpbandits.outsourced import Command; print(Command('{sys.executable} -c \"{code}\"')(1))"
    done = subprocess.run(
        [sys.executable, "-c", script], input='{"ask": 1}\n', capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == 0.0


def test_noised_answers_carry_their_own_epsilon():
    noise = AnswerLaplace(epsilon=0.5, distance=2.0, low=-3.0, high=3.0)
    curator = make(answers=noise, cap=5)
    release = curator.publish()
    assert release.guarantee.epsilon == 1.5
    assert curator.answer(0) not in people()["effect"]
    text = " ".join(release.guarantee.annex().split())
    assert "answers differ by at most 2" in text
    assert "answers u apart lose 0.5 (u + 3.05e-05)/(2 + 3.05e-05)" in text


# -- the secret directory -----------------------------------------------------------------------------


def test_the_secret_side_is_for_its_owner_only(tmp_path):
    curator = make(secret=tmp_path / "secret", ids="name")
    release = curator.publish(tmp_path / "out")
    curator.answer(4)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o700
    for path in (tmp_path / "secret").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    state = read_state(tmp_path / "secret" / "curator.state")
    assert set(state.arrays) == {"inputs", "table_rows", "column"}  # no raw inputs
    for path in (tmp_path / "out").iterdir():
        assert b"person-" not in path.read_bytes()
    assert "person" not in repr(curator) + repr(release)
    (tmp_path / "secret").chmod(0o755)
    with pytest.raises(ProtocolError, match="700"):
        Curator.open(tmp_path / "secret")


def test_a_curator_goes_on_after_a_restart(tmp_path):
    first = make(secret=tmp_path / "secret")
    release = first.publish(tmp_path / "out")
    given = first.answer(4)
    again = Curator.open(tmp_path / "secret")
    assert again.publish(tmp_path / "out").release_id == release.release_id
    np.testing.assert_array_equal(again.publish().inputs, release.inputs)
    assert again.answered == [(4, given)]
    with pytest.raises(AlreadyTold):
        again.answer(4)
    later = again.answer(5)
    assert first.answer_again(5) == later  # the first one reads what the second wrote
    with pytest.raises(AlreadyTold):
        first.answer(5)
    with pytest.raises(ProtocolError, match=r"Curator\.open"):
        make(secret=tmp_path / "secret")
    with pytest.raises(FileNotFoundError):
        Curator.open(tmp_path / "nowhere")


def test_an_interrupted_publication_is_finished_and_paid_once(tmp_path, monkeypatch):
    ledger = MemoryLedger()
    ledger.open_account("ward", privacy=RowDP(1.0, distance=1))
    options = {"secret": SecretDirectory(tmp_path / "secret", account=ledger.account("ward"))}
    curator = make(**options)
    monkeypatch.setattr(L2Laplace, "privatize", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        curator.publish()
    monkeypatch.undo()
    with pytest.raises(ProtocolError, match="not finished"):
        Curator.open(options["secret"])
    with pytest.raises(ProtocolError, match="other parameters"):
        make(**options, cap=7)
    resumed = make(**options)
    assert resumed.release_id == curator.release_id
    resumed.publish()
    assert float(ledger.balance("ward").spent_epsilon) == 1.0


def test_another_release_of_the_same_people_needs_budget(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("ward", privacy=RowDP(1.5, distance=1))
    first = make(secret=SecretDirectory(tmp_path / "one", account=ledger.account("ward")))
    first.publish()
    first.publish()
    with pytest.raises(BudgetExceeded):
        make(secret=SecretDirectory(tmp_path / "two", account=ledger.account("ward")))
    half = make(  # in the same directory: what was refused left nothing there
        secret=SecretDirectory(tmp_path / "two", account=ledger.account("ward")),
        privacy=RowDP(epsilon=0.5, distance=1),
    )
    assert half.publish().guarantee.epsilon == 0.5


def test_an_old_copy_cannot_answer_anew(tmp_path):
    """An old log is cut, and an old log with its old end is another copy."""
    secret = SecretDirectory(tmp_path / "secret", ledger=MemoryLedger())
    curator = make(secret=secret)
    curator.publish()
    curator.answer(1)
    log = tmp_path / "secret" / "answers.log"
    old = files_of(log)
    curator.answer(2)
    log.write_bytes(old[0])
    with pytest.raises(CorruptState, match="answers"):
        Curator.open(secret)
    put_back(log, old)
    with pytest.raises(ForkedState, match="answers"):
        Curator.open(secret)


def test_simulated_curators_repeat_and_say_so():
    one, two = (make(noise=SimulatedNoise(5)).publish() for _ in range(2))
    np.testing.assert_array_equal(one.inputs, two.inputs)
    assert one.guarantee.status == "simulated"
    assert make(noise=SecureNoise()).publish().guarantee.status == "enforced"


# -- the log and crashes ------------------------------------------------------------------------------


def test_a_torn_record_was_never_given(tmp_path):
    path = tmp_path / "answers.log"
    log = AnswerLog.create(path, "a1", ledger=None)
    begun = files_of(path)
    log.append(3, 1.5)
    one = files_of(path)
    log.append(4, 2.5)
    whole = path.read_bytes()
    for cut in range(1, len(whole) - len(one[0])):
        put_back(path, (whole[:-cut], one[1]))
        assert AnswerLog.open(path, "a1", ledger=None).entries == [(3, 1.5)]
        assert files_of(path) == one
    path.write_bytes(begun[0][:12])  # the header was durable before: a torn one was damaged later
    with pytest.raises(CorruptState, match="header"):
        AnswerLog.open(path, "a1", ledger=None)
    end_of(path).unlink()
    assert AnswerLog.create(path, "a1", ledger=None).entries == []  # it may have died there
    for unfinished in (b"", b"{", bytes(byte ^ 0x5A for byte in path.read_bytes())):
        path.write_bytes(unfinished)  # a crash in the middle of the header, other bytes arrived
        end_of(path).unlink()
        assert AnswerLog.create(path, "a1", ledger=None).entries == []


def test_changed_logs_are_refused(tmp_path):
    path = tmp_path / "answers.log"
    log = AnswerLog.create(path, "a1", ledger=None)
    stops = [path.stat().st_size]
    for row in range(4):
        log.append(row, row / 3)
        stops.append(path.stat().st_size)
    whole = path.read_bytes()
    header = whole[: stops[0]]
    records = [whole[start:stop] for start, stop in itertools.pairwise(stops)]
    for changed in (
        [*records[1:]],  # one missing
        [records[1], records[0], *records[2:]],  # swapped
        [records[0].replace(b"0.0", b"0.5"), *records[1:]],  # changed
        [*records[:1], b"noise" * 20],
    ):
        path.write_bytes(header + b"".join(changed))
        with pytest.raises(CorruptState, match="log of answers"):
            AnswerLog.open(path, "a1", ledger=None)
    path.write_bytes(whole + records[-1])  # repeated: a tail that is chained to nothing never counted
    assert AnswerLog.open(path, "a1", ledger=None).entries == log.entries
    with pytest.raises(IncompatibleState, match="another subject"):
        AnswerLog.open(path, "b2", ledger=None)
    path.write_text("no json\n")
    with pytest.raises(CorruptState):
        AnswerLog.open(path, "a1", ledger=None)


@pytest.mark.parametrize(
    "record",
    [
        (b"A", b"[3, 2.5]"),
        (b"B", b"[4, 2.5]"),
        *((b"A", text) for text in (b"", b"[4]", b"[4, NaN]", b"[true, 1]", b"{}", b"\xff", b"[" * 99_999)),
    ],
)
def test_records_that_are_no_answers_and_second_answers_are_refused_for_good(tmp_path, record):
    """Chained and all: by somebody who knows the format. The log that met one does not go on without it."""
    path = tmp_path / "answers.log"
    log = AnswerLog.create(path, "a1", ledger=None)
    log.append(3, 1.5)
    forged = Journal(path, kind="answers", subject="a1")
    forged.settle()
    forged.append(*record)
    for _ in range(2):
        with pytest.raises(CorruptState, match="invalid record, or a second answer"):
            log.settle()
        with pytest.raises(CorruptState, match="invalid record, or a second answer"):
            AnswerLog.open(path, "a1", ledger=None)
    assert log.entries == [(3, 1.5)]


def test_a_directory_of_another_version_is_refused(tmp_path):
    make(secret=tmp_path / "secret").publish()
    path = tmp_path / "secret" / "curator.state"
    state = read_state(path)
    path.unlink()
    write_state(path, dataclasses.replace(state, version=2))
    before = path.read_bytes()
    for begin in (lambda: Curator.open(tmp_path / "secret"), lambda: make(secret=tmp_path / "secret")):
        with pytest.raises(IncompatibleState, match=r"got 'outsourced\.curator' version 2"):
            begin()
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["before", "torn", "after"])
def test_a_crash_around_the_log_never_gives_a_second_different_answer(tmp_path, where):
    """A process dies (os._exit) just before, in the middle of, and just after writing a noised answer."""
    noise = AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0)
    make(secret=tmp_path / "secret", answers=noise).publish()
    script = f"""
import os
from dpbandits.outsourced import Curator
curator = Curator.open({str(tmp_path / "secret")!r})
write = os.write
def crashing(descriptor, data):
    if {where!r} == "before": os._exit(9)
    write(descriptor, data[: len(data) // 2] if {where!r} == "torn" else data)
    os._exit(9)
os.write = crashing
print(curator.answer(11), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert done.stdout == ""  # nothing was given
    again = Curator.open(tmp_path / "secret")
    logged = [answer for row, answer in again.answered if row == 11]
    if where == "after":
        assert len(logged) == 1
        with pytest.raises(AlreadyTold):
            again.answer(11)
        assert again.answer_again(11) == logged[0]
    else:
        assert logged == []
        value = again.answer(11)
        assert Curator.open(tmp_path / "secret").answer_again(11) == value
    assert len(Curator.open(tmp_path / "secret").answered) == 1


# -- the words ----------------------------------------------------------------------------------------


def words(curator):
    found = curator.publish().guarantee
    return " ".join(f"{found.explain()} {found.annex()}".split())


def test_explain_says_what_is_not_hidden():
    text = words(make())
    assert "Distant rows lose more" in text
    assert "10 apart: epsilon 10" in text
    assert "50 apart, corner to corner: epsilon 50" in text
    assert "Answers are public and exact, and no part of this promise covers them" in text
    assert "finds the row by it" in text
    assert "An attacker may still learn" in text
    assert "One person has one row" in text
    assert "released once. (Name a ledger account" in text
    assert "the released positions (not the exact answers) (covered)" in text
    assert "loss is 1 (D + 1.08e-05)/(1 + 1.08e-05)" in text
    assert "That there is a release reveals nothing private" in text


def test_explain_claims_durability_only_where_there_is_a_disk(tmp_path):
    memory, disk = words(make()), words(make(secret=tmp_path / "one"))
    for text in (memory, disk):
        assert "is not copied, pickled, used behind a fork or by two threads" in text
    assert "durable" not in memory
    assert "While the curator's process runs" in memory
    assert "made again, it would draw and answer anew" in memory
    assert "an answer is durable before it is given" in disk
    assert "with its whole log of answers. Attach a ledger" in disk
    ledger = words(make(secret=SecretDirectory(tmp_path / "two", ledger=MemoryLedger())))
    assert "a shortened log of answers before anything is evaluated" in ledger
    assert "Attach a ledger" not in ledger
    for text in (memory, disk, ledger):
        assert "Nothing else computed from the same rows is released" in text
        assert "The curator's directory, process and random numbers are out of the attacker's reach" in text
        assert ("No older copy replaces the ledger" in text) == (text is ledger)


def test_explain_says_what_a_failing_objective_tells():
    noise = AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0)
    same, told = "as the middle of the public bounds", "so does the reply that an evaluation gave no answer"
    noised, column, exact = (
        words(make(objective=None, answers=noise)), words(make(answers=noise)), words(make(objective=None)),
    )  # fmt: skip
    assert [same in text for text in (noised, column, exact)] == [True, False, False]
    assert [told in text for text in (noised, column, exact)] == [False, False, True]
    measured = "The modeler can measure both"
    assert [measured in text for text in (noised, column, exact)] == [True, False, True]
    assert all("response times" not in text for text in (noised, column, exact))  # the modeler is there
    paced = words(make(objective=None, answers=noise, answer_after=30))
    assert measured not in paced
    assert "is given 30 seconds after its evaluation began" in paced


def test_explain_calls_rounded_noise_by_its_name():
    """The reason is that of the noise that is drawn, discrete or real-valued and rounded."""
    private = RowDP(epsilon=1.0, delta=1e-6, distance=1.0)
    text = words(make(privacy=private, mechanism="gaussian", noise=SimulatedNoise(0)))
    assert "rounded normal (simulated)" in text
    assert "Theorem: Discrete Gaussian noise" not in text


def test_explain_says_how_many_evaluations_there_are():
    assert "At most 200 answers are given or evaluations begun" in words(make(objective=None))
    assert "At most 7 answers are given or evaluations begun" in words(make(objective=None, cap=7))


def test_a_large_delta_is_said_and_warned_of():
    privacy = RowDP(epsilon=1.0, delta=1e-3, distance=1.0)
    table = people(1000)
    with pytest.warns(LargeDelta, match="1/1000"):
        release = make(table, privacy=privacy, mechanism="gaussian").publish()
    assert "Delta is so large that publishing one of 1000 raw rows would satisfy this promise." in " ".join(
        release.guarantee.explain().split()
    )
    small = make(privacy=privacy, mechanism="gaussian")  # 200 rows: below one over
    assert "Delta is so large" not in words(small)


def test_explain_for_other_mechanisms():
    cells = words(make(privacy=RowDP(epsilon=8.0, distance=50.0)))
    assert "epsilon between any two positions in the public cube" in cells
    rows = RowDP(epsilon=1.0, delta=1e-6, distance=1.0)
    gaussian = words(make(privacy=rows, mechanism="gaussian"))
    assert "Distant rows lose more" in gaussian
    assert "delta = 1e-06" in gaussian
    assert "that of Gaussian differential privacy with mu = (D + 1.84e-05)/4.22" in gaussian
    assert "(up to a total variation of " in gaussian
    assert "within the stated total variation of rounded real-valued Gaussian noise" in gaussian
    textbook = UncountedNoise()
    concentrated = words(make(privacy=rows, mechanism="gaussian", noise=textbook))
    assert "zero-concentrated differential privacy with rho = ((D + 1.84e-05)/4.53" in concentrated
    assert "total variation" not in concentrated
    simulated = words(
        make(
            privacy=RowDP(epsilon=1.0, delta=1e-6, distance=1.0),
            mechanism="gaussian",
            noise=SimulatedNoise(1),
        )
    )
    assert "Gaussian differential privacy with mu = (D + 1.84e-05)/4.22" in simulated
    both = make(
        privacy=RowDP(epsilon=1.0, delta=1e-6, distance=1.0),
        mechanism="gaussian",
        answers=AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0),
    ).publish()
    assert both.guarantee.certificate.delta_at(both.guarantee.epsilon) <= 1e-6
    assert both.guarantee.epsilon == 1.5  # what an account pays
    assert "its position and its answer add up by basic composition" in both.guarantee.theorem


def test_explain_says_errors_in_the_columns_own_units():
    """50 years and 10 units of dose, each along a side of 50/sqrt(2); L2-Laplace errs by sqrt(3)/epsilon."""
    schema = Schema(age=Range(20, 70), dose=Range(0, 10))
    table = {"age": [30.0, 40.0, 61.0], "dose": [1.0, 2.0, 9.0], "effect": [0.0, 1.0, 2.0]}

    def said(**options):
        return words(make(table, contexts=schema, **{"privacy": RowDP(epsilon=2.0, distance=1.0), **options}))

    assert "a distance of 1 is 1.41 of 'age' or 0.283 of 'dose', where one column changes alone" in said()
    assert "a released position errs by about 1.22 of 'age' and 0.245 of 'dose'." in said()
    far = said(privacy=RowDP(epsilon=8.0, distance=50.0))
    assert "In the columns' own units: a cell is 8.33 of 'age' by 1.67 of 'dose'." in far
    dated = make(
        {"since": ["2024-01-02", "2024-03-01"], "effect": [0.0, 1.0]},
        contexts=Schema(since=DateRange("2024-01-01", "2024-02-19", clip=True)),
    )
    assert "a distance of 1 is 1 days of 'since', where" in words(dated)


@pytest.mark.parametrize("mechanism", ["l2_laplace", "gaussian", "randomised_response"])
def test_scale_and_sensitivity_are_those_of_the_certificate(mechanism):
    """Rounding included: the numbers of the statement give the loss that it states."""
    answers = AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0)
    privacy = RowDP(epsilon=1.0, delta=1e-6 if mechanism == "gaussian" else 0.0, distance=1.0)
    rows, answer = make(mechanism=mechanism, privacy=privacy, answers=answers).guarantee.mechanisms
    assert answer.sensitivity / answer.scale == pytest.approx(0.5, rel=1e-12)
    if mechanism == "gaussian":
        assert rows.sensitivity / rows.scale == pytest.approx(rows.certificate.mu, rel=1e-12)
    elif mechanism == "l2_laplace":
        assert rows.sensitivity / rows.scale == pytest.approx(1.0, rel=1e-12)
    else:
        assert (rows.sensitivity, rows.unit) == (1.0, "in log-likelihood ratios")
