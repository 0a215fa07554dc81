"""What is said about a published log depends on public arguments, and never on how many of its rows count."""

import numpy as np
import pytest

from dpbandits import _checks
from dpbandits.budget import MemoryLedger, cost_of_guarantee
from dpbandits.central.logged.logged_table import LogColumns, LoggedTable, cost_of_publishing
from dpbandits.central.logged.once import publish_once
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpbandits.policy.bookkeeping import UserCounts
from dpbandits.privacy import JointDP
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.coded import Coded
from dpbandits.tables.described import DescribedTable

ROWS = 400
PROMISE = JointDP(epsilon=2.0, delta=1e-6)
BOUNDS = [(18.0, 90.0), (0.0, 1.0)]
ARMS = ["drug", "watch"]

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")


def table(rows=ROWS, **columns):
    rng = np.random.default_rng(3)
    whole = {
        "age": rng.uniform(18, 90, ROWS),
        "arm": np.array(["drug", "watch"], dtype=object)[rng.integers(2, size=ROWS)],
        "reward": rng.random(ROWS),
        "chance": np.full(ROWS, 0.5),
        "person": np.array([f"p{i}" for i in range(ROWS)], dtype=object),
    }
    return {name: np.array(column)[:rows] for name, column in (whole | columns).items()}


def read(held, bounds=BOUNDS, arms=ARMS, **options):
    columns = LogColumns(contexts=["age"], action="arm", reward="reward", propensity="chance", user="person")
    return LoggedTable.read(held, columns, bounds, arms=arms, **options)


def with_first(column, value):
    changed = table()[column].astype(object)
    changed[0] = value
    return table(**{column: changed})


def published(held, **options):
    return read(held, **options).publish(PROMISE, horizon=ROWS, uniform_contexts=True).function


GARBAGE = [
    ("reward", None),
    ("reward", np.nan),
    ("reward", 7.0),
    ("reward", "good"),
    ("age", 17.0),
    ("age", None),
    ("arm", "other"),
    ("arm", None),
    ("chance", 0.0),
    ("chance", np.nan),
    ("person", "p7"),
]


@pytest.mark.parametrize(("column", "value"), GARBAGE, ids=str)
def test_one_persons_garbage_changes_nothing_that_is_said(column, value):
    """A missing reward was refused with the advice to drop the row, and the scale then said that it was."""
    held = with_first(column, value)
    assert published(held).guarantee == published(table()).guarantee
    counted = read(held).unsafe_left_out(PROMISE, horizon=ROWS)
    assert sum(counted.values()) == 1
    assert counted == {"unreadable": 0, "surplus": 1} if column == "person" else counted["unreadable"] == 1


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS])
def test_no_scale_depends_on_how_many_rows_there_are(rows):
    assert published(table(rows)).guarantee == published(table()).guarantee


def test_rows_beyond_the_horizon_count_and_are_no_larger_rewards():
    """The number of rows is estimated from the counts of contexts, also if it is below the horizon."""
    assert read(table()).unsafe_left_out(PROMISE, horizon=ROWS - 100) == {"unreadable": 0, "surplus": 0}
    promise, paid = JointDP(epsilon=50.0, delta=1e-6), np.where(table()["arm"] == "drug", 0.9, 0.1)
    for horizon in (ROWS // 4, ROWS, 4 * ROWS):
        found = read(table(reward=paid), bounds=[(18.0, 90.0), (0.0, 1.0)]).publish(promise, horizon=horizon)
        mean, _ = found.function.predict([[50.0]])
        assert np.abs(mean - [0.9, 0.1]).max() < 0.15


def test_whether_the_action_has_arms_is_said_by_the_bounds_and_by_no_cell():
    doses = [*BOUNDS[:1], (0.0, 5.0), BOUNDS[1]]
    numbers = table()["reward"].astype(object) * 5
    clean = read(table(arm=numbers), doses, arms=None)
    numbers[0] = "much"
    spoilt = read(table(arm=numbers), doses, arms=None)
    assert (clean.arms, spoilt.arms) == (None, None)
    assert spoilt.unsafe_left_out(PROMISE, horizon=ROWS) == {"unreadable": 1, "surplus": 0}
    with pytest.raises(InvalidParameter):
        read(table(), doses)


def test_what_is_missing_or_no_number_is_not_clipped_into_the_range():
    for value in (None, np.nan, np.inf, "good"):
        log = read(with_first("reward", value), clip=True)
        assert log.unsafe_left_out(PROMISE, horizon=ROWS)["unreadable"] == 1
    assert (
        read(with_first("reward", 7.0), clip=True).unsafe_left_out(PROMISE, horizon=ROWS)["unreadable"] == 0
    )


@pytest.mark.parametrize("nobody", [None, "", float("nan"), float("inf")])
def test_a_row_without_an_id_counts_zero(nobody):
    whole = read(table()).unsafe_left_out(PROMISE, horizon=ROWS)
    found = read(with_first("person", nobody)).unsafe_left_out(PROMISE, horizon=ROWS)
    assert found["unreadable"] == whole["unreadable"]
    assert whole["surplus"] <= found["surplus"] <= whole["surplus"] + 1


def test_ids_are_one_person_in_every_type_of_column():
    held = table()
    texts = np.array([str(i % 200) for i in range(ROWS)], dtype=object)
    numbers = np.arange(ROWS) % 200
    mixed = np.array([i % 200 if i < 200 else str(i % 200).encode() for i in range(ROWS)], dtype=object)
    for ids in (texts, numbers, mixed):
        counted = read(held | {"person": ids}).unsafe_left_out(PROMISE, horizon=ROWS)
        assert counted == {"unreadable": 0, "surplus": 200}


def test_a_persons_id_is_read_once_for_all_that_learn_from_the_table(monkeypatch):
    """Three times a row it was: by the rehearsal, by the law of contexts and by what is published."""
    came = []
    person = _checks.person_in
    monkeypatch.setattr(_checks, "person_in", lambda user: came.append(user) or person(user))
    log = read(table(person=np.array([f"e\u0301{i % 50}" for i in range(ROWS)], dtype=object)))
    log.rehearse(PROMISE, horizon=ROWS)
    log.publish(PROMISE, horizon=ROWS)
    assert came == [f"e\u0301{i}" for i in range(50)]


def test_no_digest_of_a_person_is_made_for_a_whole_table(monkeypatch):
    """Only logs in parts need them, to know a user of an earlier part."""
    made = []
    digests_of = UserCounts.digests_of
    monkeypatch.setattr(
        UserCounts, "digests_of", lambda own, texts: made.append(len(texts)) or digests_of(own, texts)
    )
    log = read(table())
    log.rehearse(PROMISE, horizon=ROWS)
    left_out = log.unsafe_left_out(PROMISE, horizon=ROWS)
    log.publish(PROMISE, horizon=ROWS)
    assert made == []
    assert left_out == {"unreadable": 0, "surplus": 0}


def test_a_column_by_its_values_is_the_column():
    """The same log, its arms and people as arrays of rows or by their different values."""
    held = table()
    by_values = dict(held)
    for name in ("arm", "person"):
        values, codes = np.unique(np.asarray(held[name]).astype(str), return_inverse=True)
        by_values[name] = Coded(codes, values.astype(object))
    first, second = read(held), read(by_values)
    assert first.unsafe_left_out(PROMISE, horizon=ROWS) == second.unsafe_left_out(PROMISE, horizon=ROWS)
    np.testing.assert_array_equal(first.rows["actions"], second.rows["actions"])
    np.testing.assert_array_equal(
        np.asarray(first.rows["users"]).astype(str), np.asarray(second.rows["users"])
    )
    changed = dict(by_values, person=Coded(by_values["person"].codes[::-1], by_values["person"].values))
    key = b"k" * 32
    assert read(changed).fingerprint(key, PROMISE, horizon=ROWS) != second.fingerprint(
        key, PROMISE, horizon=ROWS
    )
    assert read(dict(by_values)).fingerprint(key, PROMISE, horizon=ROWS) == second.fingerprint(
        key, PROMISE, horizon=ROWS
    )


def test_a_fingerprint_needs_its_key():
    """Without the key nobody can try out tables against the notes of a run."""
    log = read(table())
    found = {log.fingerprint(key, PROMISE, horizon=ROWS) for key in (b"", b"k" * 32, b"l" * 32)}
    assert len(found) == 3


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(
    "promise", [PROMISE, JointDP(epsilon=0.5, delta=1e-9), JointDP(epsilon=9.0, delta=1e-3)]
)
def test_what_is_charged_covers_what_the_release_proves(uniform, promise):
    function = read(table()).publish(promise, horizon=ROWS, uniform_contexts=uniform).function
    proven, charged = (
        cost_of_guarantee(function.guarantee),
        cost_of_publishing(promise, uniform_contexts=uniform),
    )
    assert proven.rho <= charged.rho <= proven.rho * type(proven.rho)("1.000001")
    assert (charged.epsilon, charged.delta) == (proven.epsilon, proven.delta)
    assert (charged.unit, charged.mu) == (proven.unit, None)


def test_learning_is_added_up_by_what_proves_it(tmp_path):
    """As bare promises, two of (2, 1e-6) are (4, 2e-6); an account of (3.8, 2e-6) pays for both."""
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=JointDP(epsilon=3.8, delta=2e-6))
    for out in ("one", "another", "third"):
        run = {"horizon": ROWS, "account": ledger.account("people")}
        if out == "third":
            with pytest.raises(BudgetExceeded):
                publish_once(read(table()), tmp_path / out, PROMISE, **run)
        else:
            publish_once(read(table()), tmp_path / out, PROMISE, **run)
    cost = cost_of_publishing(PROMISE, uniform_contexts=False)
    assert ledger.balance("people").spent.rho == 2 * cost.rho


def test_an_account_pays_for_learning_at_its_own_promise(tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=PROMISE)
    run = {"horizon": ROWS, "account": ledger.account("people")}
    for _ in range(2):
        publish_once(read(table()), tmp_path / "one", PROMISE, **run)
    with pytest.raises(BudgetExceeded):
        publish_once(read(table()), tmp_path / "another", PROMISE, **run)


# -- people with contexts and arms -----------------------------------------------------------------------

PEOPLE = Schema(age=Range(18, 90), region=Categories(["north", "south", "unknown"], missing="unknown"))
OFFERS = ["mail", "call", "nothing"]
VISITS = 1200
OF_PEOPLE = """
path = "log.csv"
horizon = 1200
[columns.age]
low = 18
high = 90
[columns.region]
categories = ["north", "south", "unknown"]
missing = "unknown"
[user]
column = "person"
rows = 2
[privacy]
epsilon = 6
[log]
arm = "offer"
arms = ["mail", "call", "nothing"]
reward = "paid"
low = 0
high = 1
"""


def visits(**columns):
    """Mail pays in the north, calls in the south, and nothing where the region is not known."""
    rng = np.random.default_rng(5)
    region = np.array(["north", "south", None], dtype=object)[rng.integers(3, size=VISITS)]
    offer = np.array(OFFERS, dtype=object)[rng.integers(3, size=VISITS)]
    best = {"north": "mail", "south": "call", None: "nothing"}
    right = np.array([best[place] == given for place, given in zip(region, offer, strict=True)])
    whole = {
        "age": rng.uniform(18, 90, VISITS).round(3),
        "region": region,
        "offer": offer,
        "paid": (rng.random(VISITS) < 0.2 + 0.6 * right).astype(float),
        "person": np.array([f"p{i // 2}" for i in range(VISITS)], dtype=object),
    }
    return whole | columns


def of_people(table, **options):
    return LoggedTable.of_people(
        table,
        contexts=PEOPLE,
        arms=OFFERS,
        action="offer",
        reward="paid",
        reward_range=(0, 1),
        user="person",
        **{"release": "features"} | options,
    )


TWO_ROWS = JointDP(epsilon=6.0, delta=1e-6, rounds_per_user=2)


def test_people_with_contexts_and_arms_are_learned_from_and_decided_about(tmp_path):
    """Gaps between arms are 15 deviations of the noise and more: a false alarm below 1e-40."""
    mild = JointDP(epsilon=40.0, delta=1e-6, rounds_per_user=2)
    publish_once(of_people(visits()), tmp_path / "out", mild, horizon=VISITS, uniform_contexts=True)
    held = PublishedTable.load(tmp_path / "out")
    function = held.function
    assert function.arms == tuple(OFFERS)
    people = [{"age": 30, "region": place} for place in ("north", "south", None)]
    assert function.recommend_batch(people) == ("mail", "call", "nothing")
    assert function.recommend({"age": 30, "region": "south"}) == "call"
    assert function.predict(people)[0].shape == (3, 3)
    assert (held.contexts, held.arms) == (["age", "region"], OFFERS)
    with pytest.raises(InvalidData, match="'age'"):
        function.recommend({"age": 17, "region": "south"})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("age", None), ("age", 17.0), ("age", "old"), ("age", [30]), ("region", "mars"), ("region", {}),
        ("offer", "other"), ("offer", None), ("offer", float("nan")), ("paid", None), ("paid", 7.0),
        ("paid", "much"), ("paid", b"much"),
    ],
    ids=str,
)  # fmt: skip
def test_one_persons_garbage_takes_a_row_and_counts_nothing(column, value):
    cells = visits()[column].astype(object)
    cells[0] = value
    log, clean = of_people(visits(**{column: cells})), of_people(visits())
    assert log.unsafe_left_out(TWO_ROWS, horizon=VISITS) == {"unreadable": 1, "surplus": 0}
    functions = [
        one.publish(TWO_ROWS, horizon=VISITS, uniform_contexts=True).function for one in (log, clean)
    ]
    assert functions[0].guarantee == functions[1].guarantee


def as_csv(table):
    names = list(table)
    lines = [
        ",".join("" if cell is None else str(cell) for cell in row)
        for row in zip(*table.values(), strict=True)
    ]
    return "\n".join([",".join(names), *lines]) + "\n"


def test_a_file_that_is_described_gives_the_rows_that_a_table_gives(tmp_path):
    (tmp_path / "log.csv").write_text(as_csv(visits()), encoding="utf-8")
    (tmp_path / "log.toml").write_text(OF_PEOPLE, encoding="utf-8")
    described = DescribedTable.from_toml(tmp_path / "log.toml")
    log, direct = LoggedTable.described(described, described.read(lenient=True)), of_people(visits())
    for name in ("contexts", "actions", "rewards"):
        np.testing.assert_array_equal(log.rows[name], direct.rows[name])
    assert log.kernel == direct.kernel
    assert log.context_cells.to_config() == direct.context_cells.to_config()


def test_true_and_false_are_rewards(tmp_path):
    text = OF_PEOPLE.replace("low = 0\nhigh = 1\n", "")
    cells = np.where(visits()["paid"] == 1, "True", "false").astype(object)
    cells[:3] = None, "maybe", "NaN"
    (tmp_path / "log.csv").write_text(as_csv(visits(paid=cells)), encoding="utf-8")
    described = DescribedTable.from_text(text, folder=tmp_path)
    rewards = LoggedTable.described(described, described.read(lenient=True)).rows["rewards"]
    np.testing.assert_array_equal(rewards, np.where(np.arange(VISITS) < 3, np.nan, visits()["paid"]))


def test_arms_are_drawn_by_public_coins_where_the_table_says_what_each_would_have_paid(tmp_path):
    """No cell has a say in which arm a row is given, be it unreadable."""
    text = "[columns.age]\nlow = 18\nhigh = 90\n[label]\ncolumn = 'y'\ncategories = ['a', 'b']\n"
    described = DescribedTable.from_text(text)
    logs = []
    for first in ("a", "b", "", "neither"):
        (tmp_path / "t.csv").write_text("age,y\n" + f"30,{first}\n" + "40,b\n" * 99, encoding="utf-8")
        table = described.read(tmp_path / "t.csv", lenient=True)
        logs.append(LoggedTable.described(described, table))
    actions, rewards = (np.array([log.rows[name] for log in logs]) for name in ("actions", "rewards"))
    assert (actions == actions[0]).all()
    assert 30 < actions[0].sum() < 70
    assert rewards[:2, 0].sum() == 1.0
    assert np.isnan(rewards[2:, 0]).all()
    np.testing.assert_array_equal(rewards[0, 1:], actions[0, 1:])


def test_a_persons_number_of_rows_does_not_change_which_arms_others_are_given(tmp_path):
    """A table with the reward of every arm, in which one person has more rows in a neighbouring table."""
    text = (
        "[columns.age]\nlow = 18\nhigh = 90\n[label]\ncolumn = 'y'\ncategories = ['a', 'b']\n"
        "[user]\ncolumn = 'id'\nrows = 3\n"
    )
    described = DescribedTable.from_text(text)
    others = [f"{40 + number % 3},b,p-{number // 3}" for number in range(300)]
    found = []
    for own in ([], ["30,a,anna"], ["30,a,anna", "31,b, anna", "32,a,anna"], ["30,a,"]):
        (tmp_path / "t.csv").write_text("\n".join(["age,y,id", *own, *others]) + "\n", encoding="utf-8")
        log = LoggedTable.described(described, described.read(tmp_path / "t.csv", lenient=True))
        found.append(np.asarray(log.rows["actions"])[len(own) :])
    assert all((one == found[0]).all() for one in found)
    assert 110 < found[0].sum() < 190
    first, second, third = found[0].reshape(-1, 3).T
    for one in (first, second, third):
        assert 20 < one.sum() < 80  # every row of a person is drawn evenly


def test_tables_that_cannot_be_logs_are_refused():
    with pytest.raises(InvalidParameter, match="named twice"):
        LoggedTable.of_people(
            visits(), contexts=PEOPLE, arms=OFFERS, action="offer", reward="age", reward_range=(0, 1)
        )
    with pytest.raises(InvalidData, match=r"lacks the declared columns \['paid'\]"):
        of_people({name: column for name, column in visits().items() if name != "paid"})
    with pytest.raises(InvalidParameter, match="lengthscale"):
        of_people(visits(), lengthscale=0.0)
    with pytest.raises(InvalidParameter, match="needs one of the sections"):
        LoggedTable.described(DescribedTable.from_text("[columns.age]\nlow = 1\nhigh = 2\n"), {})


def test_another_schema_is_another_run(tmp_path):
    """Also where every row has the same code under it."""
    publish_once(of_people(visits()), tmp_path / "out", TWO_ROWS, horizon=VISITS)
    places = visits()["region"]
    renamed = Schema(age=Range(18, 90), region=Categories(["north", "west", "unknown"], missing="unknown"))
    log = LoggedTable.of_people(
        visits(region=np.where(places == "south", "west", places)),
        contexts=renamed,
        arms=OFFERS,
        action="offer",
        reward="paid",
        reward_range=(0, 1),
        user="person",
        release="features",
    )
    np.testing.assert_array_equal(log.rows["contexts"], of_people(visits()).rows["contexts"])
    with pytest.raises(InvalidParameter, match="another table or other options"):
        publish_once(log, tmp_path / "out", TWO_ROWS, horizon=VISITS)
