"""Private evaluation of published policies on a log: what counts, what is released, and once."""

import numpy as np
import pandas as pd
import pytest

import dpbandits as dpb
from dpbandits.budget import MemoryLedger
from dpbandits.central.logged.evaluation import Evaluation, PrivateValues
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidParameter
from dpbandits.lab.evaluation import policy_value, value_difference
from dpbandits.privacy import JointDP, SimulatedNoise

ROWS, ARMS = 600, ["mail", "call", "post"]
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
PROMISE = JointDP(epsilon=1.0, delta=1e-6)
SHARP = JointDP(epsilon=1e4)


def rows(n=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    age, arm = rng.uniform(18, 90, n), rng.integers(3, size=n)
    chance = np.where(arm == 0, 0.5, 0.25)
    return {
        "age": age,
        "region": np.array(["north", "south"], dtype=object)[rng.integers(2, size=n)],
        "arm": np.array(ARMS, dtype=object)[np.where(rng.random(n) < 0.25, 0, arm)],
        "paid": (rng.random(n) < np.where(arm == (age > 54), 0.7, 0.3)).astype(float),
        "chance": chance,
        "person": np.arange(n),
    }


def log(table=None, *, propensity=None, user="person", **options):
    arguments = {"contexts": PEOPLE, "arms": ARMS, "action": "arm", "reward": "paid", "reward_range": (0, 1)}
    held = rows() if table is None else table
    return dpb.central.LoggedTable.of_people(held, propensity=propensity, user=user, **(arguments | options))


@pytest.fixture(scope="module")
def policy():
    return log(rows(4000, seed=7)).publish(JointDP(3.0, 1e-6), horizon=4000).function


def evaluation(policy, table=None, privacy=PROMISE, **options):
    kept = {name: options.pop(name) for name in ("propensity", "user") if name in options}
    return Evaluation(
        policies={"policy": policy}, log=log(table, **kept), privacy=privacy, against="post", **options
    )


def people_of(held):
    """Return the raw numbers of each row that counts, by the index of the row."""
    numbers, places = held.unsafe_terms()
    return dict(zip(places.tolist(), numbers.tolist(), strict=True))


# -- estimates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ips", "doubly_robust"])
def test_with_hardly_any_noise_values_are_those_of_plain_evaluation(policy, method):
    held, table = evaluation(policy, privacy=SHARP, method=method, propensity="chance"), rows()
    found = {one.name: one for one in held.release().values()}
    contexts = {name: table[name] for name in ("age", "region")}
    given = np.array([ARMS.index(arm) for arm in table["arm"]])
    chosen, constant = policy.choose(contexts), np.full(ROWS, 2)
    plain = {"actions": given, "rewards": table["paid"], "propensities": table["chance"]}
    if method == "doubly_robust":
        own = np.clip(policy.predict(contexts)[0], 0, 1)
        wanted = [
            policy_value(one, **plain, method=method, outcomes=own).estimate for one in (constant, chosen)
        ]
        reach = value_difference(chosen, constant, **plain)
        assert found["policy minus always post"].high - found["policy minus always post"].estimate == (
            pytest.approx(reach.high - reach.estimate, rel=0.1)
        )
    else:
        centred = plain | {"rewards": table["paid"] - 0.5}
        wanted = [0.5 + policy_value(one, **centred, method="ips").estimate for one in (constant, chosen)]
    assert found["always post"].estimate == pytest.approx(wanted[0], abs=2e-3)
    assert found["policy"].estimate == pytest.approx(wanted[1], abs=2e-3)
    assert found["policy minus always post"].estimate == pytest.approx(wanted[1] - wanted[0], abs=2e-3)


def test_a_bound_below_an_inverse_propensity_is_applied_to_the_weight_and_not_to_the_product(policy):
    """The weight is cut, so that a row counts as if its arm were drawn with the chance 1/M."""
    table = rows() | {"chance": np.full(ROWS, 1e-9), "paid": np.linspace(0.3, 0.7, ROWS)}
    cut = people_of(evaluation(policy, table, propensity="chance", method="ips", largest_weight=5.0))
    table["chance"] = np.full(ROWS, 0.2)
    assert cut == people_of(evaluation(policy, table, propensity="chance", method="ips", largest_weight=5.0))


def test_values_and_differences_are_consistent_and_carry_the_noise(policy):
    values = evaluation(policy, noise=SimulatedNoise(3)).release()
    arm, value, difference = values.values()
    assert difference.estimate == pytest.approx(value.estimate - arm.estimate)
    bare = values.moments._replace(sum_sd=1e-12, people_sd=1e-12)
    without = PrivateValues(**{**vars(values), "moments": bare}).values()
    for one, other in zip(values.values(), without, strict=True):
        assert one.noise > 0.01
        assert one.high - one.low == pytest.approx(
            2 * 1.96 * np.hypot((other.high - other.low) / 3.92, one.noise), rel=0.03
        )


def test_two_policies_share_one_release_whose_noise_grows(policy):
    held = evaluation(policy)
    both = Evaluation(policies={"one": policy, "two": policy}, log=log(), privacy=PROMISE, against="post")
    names = [one.name for one in both.release().values()]
    assert names == ["always post", "one", "two", "one minus always post", "two minus always post"]
    assert both.mechanism.sensitivity == pytest.approx(5 / 3 * held.mechanism.sensitivity)
    assert both.guarantee.certificate == held.guarantee.certificate


def test_a_log_of_which_no_row_counts_says_nothing_and_raises_nothing(policy):
    table = rows() | {"paid": np.full(ROWS, np.nan)}
    values = evaluation(policy, table, noise=SimulatedNoise(1)).release().values()
    assert [(one.low, one.high) for one in values] == [(0, 1), (0, 1), (-1, 1)]
    held = evaluation(policy, table, noise=SimulatedNoise(1)).release()
    assert held.hides_everything
    assert "nothing is known of the values" in str(held)


@pytest.mark.parametrize("seed", range(4))
def test_no_value_is_outside_the_range_of_rewards(policy, seed):
    """With a large bound on weights, noise is many times the range."""
    table = rows() | {"chance": np.full(ROWS, 1e-9)}
    options = {"propensity": "chance", "largest_weight": 1e6, "noise": SimulatedNoise(seed)}
    for place, one in enumerate(evaluation(policy, table, **options).release().values()):
        least = 0.0 if place < 2 else -1.0
        assert least <= one.low <= one.estimate <= one.high <= 1.0


# -- one person ---------------------------------------------------------------------------------------

JUNK = [
    ("age", 17.0),
    ("age", "old"),
    ("age", None),
    ("region", "moon"),
    ("arm", "other"),
    ("arm", None),
    ("paid", "good"),
    ("paid", 7.0),
    ("paid", np.inf),
    ("chance", np.nan),
    ("chance", 0.0),
    ("chance", 1.5),
    ("chance", "half"),
    ("person", None),
    pytest.param("person", object(), id="person-object"),
]


@pytest.mark.parametrize(("column", "value"), JUNK, ids=str)
@pytest.mark.parametrize("frame", [dict, pd.DataFrame])
def test_a_cell_that_cannot_be_read_is_its_own_rows_alone(policy, column, value, frame):
    table = rows()
    changed = {name: np.array(cells, dtype=object) for name, cells in table.items()}
    changed[column][5] = value
    before = people_of(evaluation(policy, frame(table), propensity="chance"))
    after = people_of(evaluation(policy, frame(changed), propensity="chance"))
    del before[5]
    assert after == before
    said = [evaluation(policy, frame(one), propensity="chance").guarantee for one in (table, changed)]
    assert said[0] == said[1]


def test_a_person_counts_once_however_many_rows_and_in_no_order_of_the_table(policy):
    table = rows()
    table["person"] = np.where(np.arange(ROWS) < 300, 0, table["person"])
    held = evaluation(policy, table, privacy=JointDP(1e4, rounds_per_user=20))
    terms, places = held.unsafe_terms()
    assert (places < 300).sum() == 20
    assert places[:20].max() > 100  # the first ones with a probability below 1e-30
    assert len(places) == 320
    turned = evaluation(
        policy, {name: own[::-1] for name, own in table.items()}, privacy=JointDP(1e4, rounds_per_user=20)
    )
    np.testing.assert_array_equal(held.unsafe_sums(b"k"), turned.unsafe_sums(b"k"))
    assert held.release().moments.people == pytest.approx(301, abs=0.1)
    assert np.abs(terms).max() <= 0.5
    other = table | {"paid": np.where(np.arange(ROWS) < 300, 1.0 - table["paid"], table["paid"])}
    moved = np.subtract(
        held.release().moments.sums,
        evaluation(policy, other, privacy=JointDP(1e4, rounds_per_user=20)).release().moments.sums,
    )
    assert 0.01 < np.abs(moved).max() <= 1.01


def test_rows_of_others_never_depend_on_a_persons_number_of_rows(policy):
    table = rows()
    fewer = {name: np.delete(cells, np.arange(5, 20)) for name, cells in table.items()}
    before, after = (evaluation(policy, one).unsafe_terms()[0].tolist() for one in (table, fewer))
    assert after == before[:5] + before[20:]


def test_the_last_bit_of_a_row_does_not_depend_on_how_many_rows_there_are(policy):
    """Matrix products of one row and of many rows may differ in the last bit."""
    table = rows()
    together = evaluation(policy, table).unsafe_terms()[0]
    for own in range(60):
        alone = {name: cells[own : own + 1] for name, cells in table.items()}
        assert evaluation(policy, alone).unsafe_terms()[0].tolist() == together[own : own + 1].tolist()


def test_thirty_columns_and_a_hundred_arms():
    columns = dpb.Schema(**{f"x{number}": dpb.Range(0, 1) for number in range(30)})
    rng, arms = np.random.default_rng(0), list(range(100))
    table = {f"x{number}": rng.random(3000) for number in range(30)}
    table |= {"arm": rng.integers(100, size=3000), "paid": rng.random(3000)}
    held = dpb.central.LoggedTable.of_people(
        table, contexts=columns, arms=arms, action="arm", reward="paid", reward_range=(0, 1)
    )
    learned = held.publish(JointDP(1.0, 1e-6), horizon=3000).function
    found = Evaluation(policies={"policy": learned}, log=held, privacy=PROMISE, against=4).release()
    assert found.largest_weight == 100.0
    assert len(found.values()) == 3


# -- refusals -----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_before_any_release(policy):
    with pytest.raises(InvalidParameter, match="one of the 3 arms"):
        Evaluation(policies={"policy": policy}, log=log(), privacy=PROMISE, against="fax")
    with pytest.raises(InvalidParameter, match="not those of the log"):
        evaluation(other_policy())
    with pytest.raises(InvalidParameter, match="need user="):
        evaluation(policy, user=None, privacy=JointDP(1.0, rounds_per_user=2))
    with pytest.raises(InvalidParameter, match="at least 1"):
        evaluation(policy, largest_weight=0.5)
    with pytest.raises(InvalidParameter, match="at least one"):
        Evaluation(policies={}, log=log(), privacy=PROMISE, against="post")
    with pytest.raises(
        InvalidParameter, match=r"log is a dict, expected a LoggedTable: pass log=LoggedTable"
    ):
        Evaluation(policies={"policy": policy}, log=rows(), privacy=PROMISE, against="post")


def other_policy():
    table = rows(300)
    held = log(table, contexts=dpb.Schema(age=dpb.Range(18, 91)))
    return held.publish(JointDP(3.0, 1e-6), horizon=300).function


# -- once ---------------------------------------------------------------------------------------------


def test_a_table_that_publish_once_returns_is_a_policy_and_one_that_runs_is_not(policy, tmp_path):
    learned = dpb.central.publish_once(log(rows(300, seed=7)), tmp_path / "policy", PROMISE, horizon=300)
    terms = {"log": log(), "privacy": PROMISE, "against": "post"}
    found = dpb.central.evaluate(learned, directory=tmp_path / "one", **terms)
    named = dpb.central.evaluate({"new": learned, "old": policy}, directory=tmp_path / "two", **terms)
    assert (found.policies, named.policies) == (("policy",), ("new", "old"))
    running = dpb.central.GPBandit(
        contexts=PEOPLE, arms=ARMS, reward_range=(0, 1), horizon=100, privacy=PROMISE
    )
    with pytest.raises(InvalidParameter, match=r"policies is a GPBandit.* pass a published policy, such as"):
        dpb.central.evaluate(running, directory=tmp_path / "three", **terms)
    with pytest.raises(InvalidParameter, match="log is a dict, expected a LoggedTable"):
        dpb.central.publish_once(rows(), tmp_path / "four", PROMISE, horizon=300)


def test_a_repetition_is_the_same_release_and_another_evaluation_is_refused(policy, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=JointDP(1.5, 1e-5))
    run = {"against": "post", "account": ledger.account("people")}
    first = dpb.central.evaluate(policy, log(), tmp_path / "out", PROMISE, **run)
    again = dpb.central.evaluate(policy, log(), tmp_path / "out", PROMISE, **run)
    assert again.release_id == first.release_id == PrivateValues.load(tmp_path / "out").release_id
    assert float(ledger.balance("people").spent_epsilon) == 1.0
    assert (tmp_path / "out" / "guarantee.txt").read_text().startswith("PRIVACY STATEMENT")
    for other in ({"method": "ips"}, {"against": "mail"}, {"largest_weight": 9.0}, {"law": "gaussian"}):
        with pytest.raises(InvalidParameter, match="another table or other options"):
            dpb.central.evaluate(policy, log(), tmp_path / "out", PROMISE, **(run | other))
    with pytest.raises(BudgetExceeded):
        dpb.central.evaluate(policy, log(), tmp_path / "more", PROMISE, **run)
    assert not (tmp_path / "more").exists()


def test_a_damaged_release_is_refused(policy, tmp_path):
    dpb.central.evaluate(policy, log(), tmp_path / "out", PROMISE, against="post")
    path = tmp_path / "out" / "evaluation.json"
    path.write_text(path.read_text().replace('"people":', '"number":'))
    with pytest.raises(CorruptState):
        PrivateValues.load(tmp_path / "out")
    with pytest.raises(CorruptState):
        PrivateValues.load(tmp_path / "nothing")
