"""`Actions`: grids, values, shapes and bounds, and the policy that chooses numbers."""

import json
import sys

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.domains import RewardRange
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.export import decisions
from dpbandits.tables.actions import Actions

PRICES = dpb.Schema(price=dpb.Range(1, 20, steps=20))
BOTH = dpb.Schema(price=dpb.Range(1, 3, steps=3), channel=dpb.Categories(["mail", "call"]))
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
WHO = {"age": 40, "region": "south"}


def policy(actions, **options):
    given = {
        "contexts": PEOPLE,
        "reward_range": (0, 1),
        "horizon": 3000,
        "privacy": dpb.JointDP(epsilon=4, delta=1e-6),
    }
    return dpb.central.GPBandit(actions=actions, noise=dpb.SimulatedNoise(0), **(given | options))


def run(one, rounds, *, first=0, buys=lambda price, age: price < 8):
    for i in range(first, first + rounds):
        decision = one.ask({"age": 20 + i % 60, "region": "north"}, user=f"u{i}")
        one.tell(decision.id, float(buys(decision.action, 20 + i % 60)))
    return one


def test_one_column_is_numbers():
    actions = Actions(dpb.Range(1, 2, steps=11))
    assert actions.labels == actions.choices == (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
    assert Actions(dpb.Ordered([5, 10, 20])).labels == (5, 10, 20)
    assert Actions(dpb.Range(1, 20)).n_actions == 20


def test_several_columns_are_dicts_with_the_last_varying_fastest():
    actions = Actions(BOTH)
    assert actions.choices[1] == {"price": 1.0, "channel": "call"}
    assert actions.choices[2] == {"price": 2.0, "channel": "mail"}
    assert actions.labels[1] == "price=1.0, channel=call"
    assert (actions.sizes, actions.ordered) == ((3, 2), (True, False))
    assert actions.grid.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]


@pytest.mark.parametrize(
    "schema",
    [
        dpb.Schema(price=dpb.Range(0, 1, steps=20), dose=dpb.Range(0, 1, steps=20)),  # 400 actions
        dpb.Schema(mean=dpb.Range(0, 1)),
        dpb.Schema(when=dpb.Cycle(7)),
        dpb.Schema(only=dpb.Categories(["one"])),
        dpb.Schema(**{name: dpb.Categories([1, 2]) for name in "abcd"}),
        [1, 2, 3],
    ],
)
def test_other_grids_are_refused(schema):
    with pytest.raises(InvalidParameter, match=r"actions|grid"):
        Actions(schema)


@pytest.mark.parametrize("values", [[], [1], [2, 1], [1, 1], [1, float("nan")], ["a", "b"], 3])
def test_other_ordered_values_are_refused(values):
    with pytest.raises(InvalidParameter):
        dpb.Ordered(values)


def test_columns_with_steps_are_written_and_read():
    schema = dpb.Schema(price=dpb.Range(1, 20, steps=20), size=dpb.Ordered([5, 10, 20]))
    assert dpb.Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema
    assert dpb.Schema.from_toml(schema.to_toml()) == schema
    assert "steps" not in dpb.Range(1, 20).to_config()
    with pytest.raises(InvalidData):
        schema.encode({"price": [1], "size": [6]})


def test_columns_of_actions_are_refused_as_contexts():
    for column in (dpb.Range(18, 90, steps=3), dpb.Ordered([1, 2])):
        with pytest.raises(InvalidParameter, match="actions"):
            policy(PRICES, contexts=dpb.Schema(age=column))


def test_a_shape_sorts_along_its_column_only():
    actions = Actions(BOTH, shape={"price": "decreasing"})
    means = np.array([[0.1, 0.9], [0.3, 0.2], [0.2, 0.5]])
    assert actions.shaped(means.ravel()).reshape(3, 2).tolist() == [[0.3, 0.9], [0.2, 0.5], [0.1, 0.2]]
    rising = Actions(BOTH, shape={"price": "increasing"})
    found = rising.shaped(np.stack([means.ravel(), -means.ravel()])).reshape(2, 3, 2)
    assert (np.diff(found, axis=1) >= 0).all()
    for wrong in ({"channel": "increasing"}, {"prices": "increasing"}, {"price": "up"}, "decreasing"):
        with pytest.raises(InvalidParameter, match="shape"):
            Actions(BOTH, shape=wrong)


def test_values_get_columns_by_name():
    def value(price, channel, mean):
        return price * mean - 0.5 * (channel == "call")

    found = Actions(BOTH, value=value).valued(np.full((2, 6), 0.5))
    assert found.tolist() == [[0.5, 0.0, 1.0, 0.5, 1.5, 1.0]] * 2
    net = Actions(BOTH, value=dpb.values.Net(cost="price", worth=10, each=2))
    assert net.valued(np.full(6, 0.5)).tolist() == [3.0, 3.0, 1.0, 1.0, -1.0, -1.0]
    sold = Actions(BOTH, value=dpb.values.Net(cost="price", worth=10, each=2, on_outcome=True))
    assert sold.valued(np.full(6, 0.5)).tolist() == [4.0, 4.0, 3.0, 3.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda price, mean: np.log(-mean) * price, "NaN"),
        (lambda price, mean: price, "shape"),
        (lambda price, mean: mean.sum(), "shape"),
        (lambda cost, mean: mean, "TypeError"),
        (lambda price, mean: {}["secret-7"], "KeyError"),
        (dpb.values.Revenue(price="prize"), "no action column 'prize'"),
        (0.5, "expected a function"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_at_construction(value, said):
    with pytest.raises(InvalidParameter, match=said) as error:
        policy(dpb.Actions(PRICES, value=value))
    assert "secret" not in str(error.value)


def test_categories_have_no_revenue():
    with pytest.raises(InvalidParameter, match="categories"):
        policy(dpb.Actions(BOTH, value=dpb.values.Revenue(price="channel")))


@pytest.mark.parametrize(
    "bounds",
    [
        lambda people: {"price": (people["age"], 3)},  # the lower bound is above the upper one
        lambda people: {"prize": (1, 3)},
        lambda people: {"price": 3},
        lambda people: {}[f"secret {people['age'][0]}"],
        lambda people: None,
    ],
)
def test_bounds_that_do_not_fit_are_refused_at_construction(bounds):
    with pytest.raises(InvalidParameter, match="bounds") as error:
        policy(dpb.Actions(PRICES, bounds=bounds))
    assert "secret" not in str(error.value)


def test_bounds_depend_on_the_context_and_always_allow_an_action():
    actions = Actions(PRICES, bounds=lambda people: {"price": (people["age"] / 9, 10.2)}).beside(PEOPLE)
    found = actions.allowed(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert np.flatnonzero(found[0]).tolist() == list(range(1, 10))
    assert np.flatnonzero(found[1]).tolist() == [9]
    between = Actions(PRICES, bounds=lambda people: {"price": (5.2, 5.4)}).beside(PEOPLE)
    assert np.flatnonzero(between.allowed(np.zeros((1, 2)))[0]).tolist() == [4]


def test_a_decision_is_a_number_or_a_dict():
    one = policy(PRICES)
    decision = one.ask(WHO, user="u")
    assert decision.action in one.arms
    assert decision.action == decision.arm
    batch = one.ask_batch([WHO, {"age": "?", "region": "north"}], users=["v", "w"])
    assert batch.chosen == (batch[0].action, None)
    assert batch.chosen[0] in one.arms
    both = policy(BOTH)
    assert set(both.ask(WHO, user="u").action) == {"price", "channel"}
    assert both.recommend(WHO) in both.actions.choices


def test_it_is_given_instead_of_arms_kernel_and_release():
    with pytest.raises(InvalidParameter, match="not both"):
        policy(PRICES, arms=["a", "b"])
    with pytest.raises(InvalidParameter, match="needs contexts="):
        policy(PRICES, contexts=None)
    with pytest.raises(InvalidParameter, match="kernel="):
        policy(PRICES, kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.3))
    with pytest.raises(InvalidParameter, match="release="):
        policy(PRICES, tuning=dpb.central.GPTuning(release="features"))


def test_a_saved_policy_continues_as_the_original(tmp_path):
    actions = dpb.Actions(PRICES, value=dpb.values.Revenue(cost=2), shape={"price": "decreasing"})
    one = run(policy(actions), 1200)
    one.save(tmp_path / "state")
    other = dpb.central.GPBandit.load(tmp_path / "state")
    assert other.actions.to_config() == actions.to_config()
    assert other.recommend(WHO) == one.recommend(WHO)
    assert [a.tolist() for a in other.curve(WHO)[1:]] == [a.tolist() for a in one.curve(WHO)[1:]]
    rebuilt = dpb.central.GPBandit.from_config(json.loads(json.dumps(one.to_config())))
    assert rebuilt.to_config() == one.to_config()


@pytest.mark.parametrize(
    "options", [{"value": lambda price, mean: price * mean}, {"bounds": lambda people: {"price": (1, 9)}}]
)
def test_functions_are_neither_written_nor_saved(tmp_path, options):
    one = policy(dpb.Actions(PRICES, **options))
    one.ask(WHO, user="u")
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        one.to_config()
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        one.save(tmp_path / "state")


def test_curve_and_recommend_agree():
    one = policy(dpb.Actions(PRICES, value=dpb.values.Revenue(), shape={"price": "decreasing"}))
    curve = run(one, 1500).curve(WHO)
    assert curve.actions[int(np.argmax(curve.value))] == one.recommend(WHO)
    assert (curve.value_low <= curve.value + 1e-9).all()
    assert (curve.value <= curve.value_high + 1e-9).all()
    with pytest.raises(InvalidData):
        one.curve([WHO, WHO])


def test_a_published_function_recommends_by_value_and_is_written():
    actions = dpb.Actions(PRICES, value=dpb.values.Revenue(cost=2), shape={"price": "decreasing"})
    one = run(policy(actions), 1500)
    published = one.publish()
    table = {"age": [20, 40, 80, "?"], "region": ["north", "south", "north", "north"]}
    best = published.recommend_batch(table)
    people = zip(table["age"][:3], table["region"][:3], strict=True)
    assert best == (*(one.recommend({"age": age, "region": region}) for age, region in people), None)
    values = [published.curve({"age": a, "region": "north"}).value for a in (20, 80)]
    assert [published.recommend({"age": a, "region": "north"}) for a in (20, 80)] == [
        one.arms[int(np.argmax(value))] for value in values
    ]
    assert published.recommend(WHO, available=[3.0]) == 3.0
    again = type(published).from_json(published.to_json())
    assert again.recommend_batch(table) == best
    assert again.to_json() == published.to_json()
    with pytest.raises(InvalidData):
        published.curve({"age": "?", "region": "north"})


def test_a_published_function_keeps_to_bounds():
    actions = dpb.Actions(PRICES, bounds=lambda people: {"price": (people["age"] / 9, 12)})
    published = run(policy(actions), 1500).publish()
    curve = published.curve({"age": 90, "region": "north"})
    assert [one for one, fits in zip(curve.actions, curve.allowed, strict=True) if fits] == [10.0, 11.0, 12.0]
    assert published.recommend({"age": 90, "region": "north"}) in (10.0, 11.0, 12.0)
    assert published.recommend({"age": 90, "region": "north"}, available=[3.0, 11.0]) == 11.0
    assert published.recommend({"age": 90, "region": "north"}, available=[3.0]) == 3.0


def test_twins_have_the_same_actions():
    one = policy(dpb.Actions(PRICES, value=dpb.values.Revenue(cost=2)))
    for room in ("lab", "central", "local"):
        assert dpb.lab.twin(one, room=room).actions.to_config() == one.actions.to_config()
    twin = run(dpb.lab.twin(one), 2000)
    assert twin.guarantee.status == "simulated"
    assert twin.recommend(WHO) in (6.0, 7.0)  # the law is smooth, and buyers stop at 8


def test_public_data_and_a_published_function_begin_a_policy():
    actions = dpb.Actions(PRICES, value=dpb.values.Revenue(cost=2))
    prices = np.random.default_rng(0).integers(1, 21, 600).astype(float)
    told = {"age": [30] * 600, "region": ["south"] * 600}
    informed = policy(actions)
    informed.warm_start(told, (prices < 8).astype(float), arms=prices.tolist())
    assert informed.recommend(WHO) in (6.0, 7.0)
    other = policy(actions)
    other.warm_start(informed.publish(), disjoint=True)
    curves = (informed.curve(WHO), other.curve(WHO))
    assert np.corrcoef(*(curve.value for curve in curves))[0, 1] > 0.9
    decisions = informed.ask_batch([WHO] * 50, users=range(50))
    assert np.mean(decisions.chosen) < 9.0  # uniform prices have the mean 10.5


def counts_calls():
    calls = []
    return lambda price, mean: calls.append(0) or price * mean + len(calls)


@pytest.mark.parametrize(
    "value", [lambda price, mean: price * mean - mean.mean(axis=0), counts_calls()], ids=["rows", "calls"]
)
def test_a_value_that_mixes_users_or_calls_is_refused(value):
    with pytest.raises(InvalidParameter, match="must not depend on other rows or on earlier calls"):
        policy(Actions(PRICES, value=value))


def test_bounds_that_mix_users_are_refused():
    with pytest.raises(InvalidParameter, match="must not depend on other rows"):
        policy(
            Actions(PRICES, bounds=lambda context: {"price": (1, 4 + context["age"] - context["age"].min())})
        )


def test_a_value_cannot_change_what_it_is_given():
    def in_place(price, mean):
        price *= 2
        return price * mean

    with pytest.raises(InvalidParameter, match="raised ValueError"):
        policy(Actions(PRICES, value=in_place))
    with pytest.raises(InvalidParameter, match="raised ValueError"):
        policy(Actions(PRICES, value=lambda price, mean: np.multiply(mean, price, out=mean)))


def test_bounds_beyond_the_grid_allow_its_end_only():
    beyond = Actions(PRICES, bounds=lambda context: {"price": (25, np.inf)}).beside(PEOPLE)
    assert beyond.allowed(np.zeros((2, 2))).sum(axis=1).tolist() == [1, 1]
    assert beyond.allowed(np.zeros((2, 2)))[:, -1].all()


def test_a_changed_decision_changes_no_other():
    one = policy(Actions(BOTH))
    decided = [one.ask(WHO, user=f"u{i}").action for i in range(30)]
    batch = one.ask_batch([WHO] * 30, users=[f"b{i}" for i in range(30)])
    decided += [batch[i].action for i in range(30)] + list(batch.chosen)
    decided += [one.recommend(WHO), *one.curve(WHO).actions, one.publish().recommend(WHO)]
    for action in decided:
        action["price"] = 99.0
    assert one.ask(WHO, user="last").action["price"] in (1.0, 2.0, 3.0)
    assert all(action["price"] < 4 for action in one.actions.choices)
    assert batch[0].action["price"] < 4


def test_a_huge_number_of_steps_is_refused_before_it_takes_memory():
    with pytest.raises(InvalidParameter, match="the grid has 1000000000000 actions"):
        policy(dpb.Range(1, 20, steps=10**12))


def test_public_data_and_published_functions_are_a_start(tmp_path):
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(18, 90, 5000), "region": rng.choice(["north", "south"], 5000)}
    given = rng.integers(1, 21, 5000).astype(float)
    bought = (given < np.where(table["age"] < 54, 6, 14)).astype(float)
    begun = policy(Actions(PRICES, value=dpb.values.Revenue()))
    begun.warm_start(table, bought, arms=given.tolist())
    young, old = (begun.recommend({"age": age, "region": "north"}) for age in (25, 85))
    assert 3 <= young <= 7 < 10 <= old <= 15
    batch = begun.ask_batch({"age": [25] * 40, "region": ["south"] * 40}, users=list(range(40)))
    assert np.mean(batch.chosen) < 8
    begun.save(tmp_path / "state")
    restored = dpb.central.GPBandit.load(tmp_path / "state")
    assert restored.ask(WHO, user="next").action == begun.ask(WHO, user="next").action
    later = policy(Actions(PRICES, value=dpb.values.Revenue()))
    later.warm_start(begun.publish(), disjoint=True)
    assert later.recommend({"age": 85, "region": "north"}) > later.recommend({"age": 25, "region": "north"})


def test_files_that_contradict_their_grid_are_refused():
    published = policy(Actions(PRICES, value=dpb.values.Revenue())).publish()
    told = json.loads(published.to_json())
    told["actions"]["schema"]["columns"][0]["steps"] = 19
    with pytest.raises(CorruptState, match="another grid of actions"):
        dpb.central.PublishedPosterior.from_json(json.dumps(told))
    for change in ({"value": None}, {"actions": None}, {"rising": [[0, 0, 1]]}):
        written = json.loads(published.to_decisions())
        for name, value in change.items():
            if value is None:
                del written[name]
            else:
                written["value"][name] = value
        with pytest.raises(CorruptState):
            decisions.read(json.dumps(written))


def test_a_function_that_fails_later_changes_no_release():
    broken = []

    def late(price, mean):
        if broken:
            raise RuntimeError("age is 40")
        return price * mean

    one, other = (
        policy(Actions(PRICES, value=value), horizon=600)
        for value in (late, lambda price, mean: price * mean)
    )
    for own in (one, other):
        batch = own.ask_batch([WHO] * 300, users=list(range(300)))
        own.tell_batch(batch.ids, (np.array(batch.chosen) < 8).astype(float))
    broken.append(True)
    for ask in (lambda: one.ask(WHO, user="u"), lambda: one.ask_batch([WHO], users=["u"])):
        with pytest.raises(InvalidParameter, match="raised RuntimeError") as failed:
            ask()
        assert "40" not in str(failed.value)
    assert one.rounds_asked == 300
    broken.clear()
    for own in (one, other):
        own.ask(WHO, user="u")
    assert len(one.released)
    assert np.array_equal(one.released, other.released)


def fails_for_the_old(people):
    """Bounds that raise for people of 85 and more, in whatever batch they are."""
    if (people["age"] > 84.9).any():
        raise KeyError(f"secret {people['age'][0]}")
    return {"price": (5, 9)}


def nan_for_the_old(people):
    return {"price": (np.where(people["age"] > 84.9, np.nan, 5), 9)}


@pytest.mark.parametrize("bounds", [fails_for_the_old, nan_for_the_old])
def test_bounds_that_fail_for_one_user_refuse_that_user_alone(bounds, monkeypatch):
    monkeypatch.setattr("dpbandits.tables.actions.TRIED", 3)  # these public contexts are younger
    one = policy(Actions(PRICES, bounds=bounds))
    other = policy(Actions(PRICES, bounds=lambda people: {"price": (5, 9)}))
    ages = [20, 90, 40, 86, 60]
    people = {"age": ages, "region": ["south"] * 5}
    batches = [own.ask_batch(people, users=range(5)) for own in (one, other)]
    assert batches[0].refused.tolist() == [False, True, False, True, False]
    assert [batches[0].chosen[i] for i in (0, 2, 4)] == [batches[1].chosen[i] for i in (0, 2, 4)]
    with pytest.raises(InvalidData, match="bounds: the function fails for this context") as error:
        one.ask({"age": 90, "region": "south"}, user="x")
    assert "90" not in str(error.value)
    assert one.rounds_asked == 6  # a round was taken, so that nobody's later round depends on it
    with pytest.raises(InvalidData, match="bounds: the function fails"):
        one.recommend({"age": 90, "region": "south"})
    later = {"age": [20 + i % 71 for i in range(1500)], "region": ["north", "south"] * 750}
    batch = one.ask_batch(later, users=range(10, 1510))
    one.tell_batch(batch.ids, np.ones(1500))
    one.ask(WHO, user="after a release")
    assert one.blocks_released > 0


def test_a_value_that_fails_for_one_user_gives_that_user_the_first_allowed_action():
    def value(price, mean):
        if np.max(mean, initial=0) > 0.9:
            raise ValueError(mean)
        return price * mean

    actions = Actions(PRICES, value=value, bounds=lambda people: {"price": (5, 9)}).beside(PEOPLE)
    means = np.full((4, 20), 0.5)
    means[2, 3] = 0.95
    found = actions.best(means, RewardRange(0, 1), np.zeros((4, 2)))
    assert found.tolist() == [8, 8, 4, 8]
    with pytest.raises(InvalidParameter, match="KeyError"):
        Actions(PRICES, value=lambda price, mean: {}[0]).beside(PEOPLE).best(
            means, RewardRange(0, 1), np.zeros((4, 2))
        )


def test_another_users_values_decide_no_tie_in_a_batch():
    actions = Actions(PRICES, value=lambda price, mean: mean - 0.5).beside(PEOPLE)
    near = np.full(20, 0.5)
    near[7] += 5e-13  # a tie in units of the reward range, and none in units of this row's own values
    for other in (near, np.linspace(0.0, 1.0, 20)):
        found = actions.best(np.stack([near, other]), RewardRange(0, 1), np.zeros((2, 2)))
        assert found[0] == actions.best(near[None], RewardRange(0, 1), np.zeros((1, 2)))[0] == 0


def test_the_statement_says_what_nothing_checks_of_functions():
    text = " ".join(
        policy(Actions(PRICES, value=lambda price, mean: price * mean)).guarantee.explain().split()
    )
    assert "[ ] Public functions: The value of actions" in text
    assert "and treat each user apart from all others" in text


def test_available_actions_are_named_as_decisions_name_them():
    one, two = policy(Actions(BOTH)), {"price": 2, "channel": "mail"}
    assert one.ask(WHO, user="a", available=[two]).action == two
    batch = one.ask_batch(
        [WHO] * 2, users=["b", "c"], available=[["price=2.0, channel=mail"], [{"price": 9}]]
    )
    assert batch.chosen == (two, None)


def calls_of_an_ask(one):
    """Number of calls of functions, with those of NumPy, of an ask after the first release (median of 9)."""
    people = {"age": [40.0] * 1200, "region": ["south"] * 1200}
    decisions = one.ask_batch(people, users=range(1200))
    one.tell_batch(decisions.ids, [1.0] * 1200)
    counts = []
    for i in range(10):
        made = []
        sys.setprofile(lambda frame, event, _, made=made: made.append(0) if "call" in event else None)
        try:
            one.ask(WHO, user=f"alone-{i}")
        finally:
            sys.setprofile(None)
        counts.append(len(made))
    assert one.batch_boundaries[0] < 1200
    return np.median(counts[1:])


def test_an_ask_within_bounds_and_a_window_costs_at_most_twice_one_of_ten_arms():
    ends = {"north": 12, "south": 15}
    low, high = dpb.bounds.Linear("age", 0, 0.05), dpb.bounds.ByCategory("region", ends)
    bounds = dpb.bounds.Within("price", low=low, high=high)
    shop = {
        "value": dpb.values.Revenue(cost=1),
        "shape": {"price": "decreasing"},
        "explore": dpb.Range(6, 10),
    }
    arms = calls_of_an_ask(policy(None, arms=list(range(10))))
    assert calls_of_an_ask(policy(dpb.Actions(PRICES, **shop))) < 2.0 * arms
    assert calls_of_an_ask(policy(dpb.Actions(PRICES, bounds=bounds, **shop))) < 2.0 * arms


def test_values_by_position_are_refused_in_plain_words():
    with pytest.raises(InvalidParameter, match="Revenue"):
        dpb.values.Revenue("price")
