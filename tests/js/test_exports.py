"""Exported policies decide as the server does: by the evaluators in Python and in JavaScript."""

import functools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central.tuning import KindName
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.export import decide_by, growthbook
from dpbandits.export.decide import arm_scores
from dpbandits.export.decisions import read
from dpbandits.local import PublishedArms, PublishedQuestions, Server, Spec
from flat import spec_with
from js.driver import NODE, asked

pytestmark = pytest.mark.numerics

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90, clip=True),
    region=dpb.Categories(["north", "south", "west"]),
    share=dpb.Range(-0.3, 0.7, missing=0.1),
)
ARMS = ["mail", "call", 3]
MANY, SOME = 10_000, 200
CLOSE = 1e-9


def people(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Columns of people, with values on the borders of cells among them."""
    rng = np.random.default_rng(seed)
    ages = np.where(
        rng.random(count) < 0.3, rng.choice(18 + 72 * np.arange(65) / 64, count), rng.uniform(9, 99, count)
    )
    shares = np.where(
        rng.random(count) < 0.3, rng.choice(np.arange(65) / 64, count) - 0.3, rng.random(count) - 0.3
    )
    regions = rng.choice(["north", "south", "west"], count).tolist()
    return {"age": ages.tolist(), "region": regions, "share": np.clip(shares, -0.3, 0.7).tolist()}


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def by_javascript(policy: str, contexts: list[Any], draw: int | None = None) -> list[Any]:
    question = {"what": "decide", "policy": json.loads(policy), "contexts": contexts}
    [answer] = asked([question if draw is None else question | {"draw": draw}])
    found: list[Any] = answer["arms"]
    return found


def local(**changes: Any) -> Spec:
    promise = dpb.LocalDP(epsilon=1)
    return spec_with(contexts=PEOPLE, privacy=promise, **{"arms": ARMS, "learner": "tree", **changes})


@functools.cache
def decided_locally() -> dict[str, tuple[str, list[Any]]]:
    """Name -> JSON, and what the server says of 10,000 people."""
    rng, found = np.random.default_rng(4), {}
    splits = [0]
    for _ in range(60):
        splits.append(int(rng.choice([k for k in range(2 * len(splits) + 1) if k not in splits])))
    keyed, drawn = local(learner="ma2025-printed", n_users=100, seed=5), local(chooser="client")
    arms = rng.integers(3, size=len(splits) + 1)
    chances = rng.dirichlet(np.ones(3), size=len(splits) + 1)
    made: list[tuple[str, Spec, PublishedArms]] = [
        ("bins", keyed, PublishedArms(version=7, splits=tuple(splits), arms=arms)),
        ("chances", drawn, PublishedArms(version=8, splits=tuple(splits), weights=chances)),
    ]
    asking = local(learner="questions")
    first = Server(asking).publish()
    table = {**vars(first)}
    told = {name: table[name] for name in ("version", "parts", "turned", "about")}
    made.append(("questions", asking, type(first)(arms=np.arange(len(first.parts)) // 40 % 3, **told)))
    for name, spec, published in made:
        best = published.recommend_batch(spec, people(MANY))
        found[name] = published.to_decisions(spec), list(best)
    return found


LOCAL = ("bins", "chances", "questions")


@pytest.mark.parametrize("name", LOCAL)
def test_what_a_local_server_published_decides_alike(name: str) -> None:
    """Arms of cells have no ties to speak of: all 10,000 are equal, on the borders too."""
    policy, wanted = decided_locally()[name]
    contexts = rows(people(MANY))
    read_back = read(policy)
    assert [decide_by(read_back, context) for context in contexts] == wanted
    if NODE is not None:
        assert by_javascript(policy, contexts) == wanted


def test_a_version_about_some_of_many_columns_decides_alike() -> None:
    """Columns that it is not about do not count, wherever they stand among the others."""
    wide = dpb.Schema(hour=dpb.Range(0, 24), **PEOPLE.columns, visits=dpb.Range(0, 9))
    spec = replace(local(learner="questions"), contexts=wide)
    first, cells = vars(Server(spec).publish()), np.arange(8 * 3)
    told = {name: first[name] for name in ("version", "about")}
    published = PublishedQuestions(
        columns=(1, 2), arms=cells * 5 // 3 % 3, parts=0 * cells, turned=cells > 9, **told
    )
    table = {"hour": [3.0, 22.0] * (SOME // 2), **people(SOME), "visits": [1.0] * SOME}
    wanted, policy = list(published.recommend_batch(spec, table)), published.to_decisions(spec)
    assert len(set(wanted)) == 3
    assert [decide_by(read(policy), context) for context in rows(table)] == wanted
    if NODE is not None:
        assert by_javascript(policy, rows(table)) == wanted


def bandit(release: KindName) -> dpb.central.GPBandit:
    return dpb.central.GPBandit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(-1, 3),
        horizon=400,
        privacy=dpb.JointDP(epsilon=8, delta=1e-4),
        seed=3,
        noise=dpb.SimulatedNoise(4),
        tuning=dpb.central.GPTuning(release=release),
    )


def learned(release: KindName, count: int) -> dpb.central.GPBandit:
    """A policy that has learned something from so many people."""
    policy = bandit(release)
    for number, person in enumerate(rows(people(count, seed=1))):
        decision = policy.ask(person, user=str(number))
        policy.tell(decision.id, 2.0 * (decision.arm == ARMS[int(person["age"] > 50)]) - person["share"])
    return policy


@pytest.mark.parametrize("count", [1_000, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("release", "told", "rounds"), [("features", 300, 14), ("marginals", 60, 80)])
def test_a_published_posterior_decides_as_the_server_and_explores_as_it_will(
    release: KindName, told: int, rounds: int, count: int
) -> None:
    """So many rounds are there before the next release; after the last of marginal tables none explores."""
    policy = learned(release, told)
    published = policy.publish()
    draws = policy.public_draws(rounds)
    exported = published.to_decisions(draws=draws)
    columns = people(count)
    mean, _ = published.predict(columns)
    best = np.sort(mean, axis=1)
    clear = best[:, -1] - best[:, -2] > CLOSE
    wanted = published.recommend_batch(columns)
    assert clear.sum() > count - 5
    assert len(set(wanted)) > 1
    contexts, read_back = rows(columns), read(exported)
    for place in range(SOME):
        assert decide_by(read_back, contexts[place]) == wanted[place] or not clear[place]
    if NODE is not None:
        found = by_javascript(exported, contexts)
        assert [one for one, sure in zip(found, clear, strict=True) if sure] == [
            one for one, sure in zip(wanted, clear, strict=True) if sure
        ]
    before = policy.diagnostics()["blocks_released"]
    explored = [decide_by(read_back, person, draw) for draw, person in enumerate(contexts[:rounds])]
    later = [policy.ask(person, user=f"later {draw}").arm for draw, person in enumerate(contexts[:rounds])]
    assert later == explored
    assert explored != [*wanted[:rounds]] or release == "features"  # whose few rounds may be alike
    if NODE is not None:
        alone = [by_javascript(exported, [contexts[draw]], draw) for draw in range(3)]
        assert alone == [[arm] for arm in explored[:3]]
    assert policy.diagnostics()["blocks_released"] == before
    scores = [arm_scores(read_back, person) for person in contexts[:50]]
    np.testing.assert_allclose(scores, mean[:50], atol=1e-9)


def numbers(**options: Any) -> dpb.central.GPBandit:
    """A policy of prices and channels that has learned from 900 people."""
    schema = dpb.Schema(price=dpb.Range(1, 9, steps=9), channel=dpb.Categories(["mail", "call"]))
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        actions=dpb.Actions(schema, shape={"price": "decreasing"}, **options),
        reward_range=(0, 1),
        horizon=3000,
        privacy=dpb.JointDP(epsilon=8, delta=1e-4),
        seed=3,
        noise=dpb.SimulatedNoise(4),
    )
    for number, person in enumerate(rows(people(900, seed=1))):
        decision = policy.ask(person, user=str(number))
        limit = 3 + (person["age"] > 50) * 3 + (decision.action["channel"] == "call")
        policy.tell(decision.id, decision.action["price"] < limit)
    return policy


def test_actions_and_their_value_are_exported() -> None:
    policy = numbers(value=dpb.values.Revenue(cost=1))
    draws = policy.public_draws(40)
    published = policy.publish()
    exported, columns = published.to_decisions(draws=draws), people(SOME)
    contexts, read_back = rows(columns), read(exported)
    for context in contexts[:20]:
        found, curve = arm_scores(read_back, context), published.curve(context)
        np.testing.assert_allclose(found, curve.value, atol=1e-9)
    clear = [np.diff(np.sort(published.curve(one).value)[-2:])[0] > CLOSE for one in contexts]
    wanted = published.recommend_batch(columns)
    assert len({str(one) for one in wanted}) > 1
    answers = [[decide_by(read_back, one) for one in contexts]]
    answers += [by_javascript(exported, contexts)] if NODE is not None else []
    for found in answers:
        assert all(one == best for one, best, sure in zip(found, wanted, clear, strict=True) if sure)
    explored = [decide_by(read_back, one, place) for place, one in enumerate(contexts[:40])]
    assert [
        policy.ask(one, user=f"new {place}").action for place, one in enumerate(contexts[:40])
    ] == explored
    with pytest.raises(InvalidParameter, match="growthbook"):
        growthbook(exported, "prices")


@pytest.mark.parametrize("epsilon", [8.0, 0.1])
def test_a_policy_with_products_is_exported(epsilon: float) -> None:
    """With a table of arms, and without: at a small epsilon, products have no effects of their own."""
    schema, rng = (
        dpb.Schema(kind=dpb.Categories(["tea", "mug"]), price=dpb.Range(0, 9)),
        np.random.default_rng(1),
    )
    kinds, prices = rng.choice(["tea", "mug"], 12), rng.uniform(0, 9, 12)
    shop = dpb.Products(
        {"name": [f"p{place}" for place in range(12)], "kind": kinds, "price": prices}, columns=schema
    )
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        arms=shop,
        reward_range=(0, 1),
        horizon=1_500,
        privacy=dpb.JointDP(epsilon=epsilon, delta=1e-4, user_ids=False),
        seed=3,
        noise=dpb.SimulatedNoise(4),
    )
    assert policy.features.alone == (epsilon == 8.0)  # type: ignore[attr-defined]
    columns = people(1_200, seed=1)
    for start in range(0, 1_200, 100):
        part = {name: own[start : start + 100] for name, own in columns.items()}
        decided = policy.ask_batch(part)
        old = np.nan_to_num(np.array(part["age"], dtype=np.float64)) > 50
        liked = (kinds[decided.indices] == "mug") == old
        policy.tell_batch(decided.ids, 0.5 * liked + 0.05 * prices[decided.indices])
    draws, published = policy.public_draws(40), policy.publish()
    exported, columns = published.to_decisions(draws=draws), people(SOME)
    contexts, read_back = rows(columns), read(exported)
    scores = np.array([arm_scores(read_back, one) for one in contexts])
    np.testing.assert_allclose(scores, published.predict(columns)[0], atol=1e-9)
    clear, wanted = np.diff(np.sort(scores)[:, -2:])[:, 0] > CLOSE, published.recommend_batch(columns)
    answers = [[decide_by(read_back, one) for one in contexts]]
    answers += [by_javascript(exported, contexts)] if NODE is not None else []
    for found in answers:
        assert all(one == best for one, best, sure in zip(found, wanted, clear, strict=True) if sure)
    explored = [decide_by(read_back, one, place) for place, one in enumerate(contexts[:40])]
    assert explored == [policy.ask(one).arm for one in contexts[:40]]


BOUNDS = dpb.bounds.Within(
    "price",
    low=dpb.bounds.ByCategory("region", {"north": 2.5, "south": 4, "west": 1}),
    high=dpb.bounds.Linear("age", at_zero=4.1, slope=0.03),
)


def test_an_exported_policy_keeps_to_its_bounds() -> None:
    for explore in (None, dpb.Range(6, 8)):
        published = numbers(value=dpb.values.Revenue(cost=1), bounds=BOUNDS, explore=explore).publish()
        exported, columns = published.to_decisions(), people(200)
        wanted, contexts = published.recommend_batch(columns), rows(columns)
        clear = [
            np.diff(np.sort(published.curve(one).value[published.curve(one).allowed])[-2:]).min(initial=1)
            > CLOSE
            for one in contexts
        ]
        answers = [[decide_by(read(exported), one) for one in contexts]]
        answers += [by_javascript(exported, contexts)] if NODE is not None else []
        for found in answers:
            assert all(one == best for one, best, sure in zip(found, wanted, clear, strict=True) if sure)
        for one, person in zip(wanted, contexts, strict=True):
            assert one["price"] <= 4.1 + 0.03 * person["age"]


def test_javascript_refuses_the_files_that_python_refuses() -> None:
    told = json.loads(numbers(value=dpb.values.Revenue(cost=1), bounds=BOUNDS).publish().to_decisions())
    value = told["value"]
    broken = [
        {**told, "format": 2},
        {**told, "kind": "another"},
        {name: one for name, one in told.items() if name != "actions"},
        {name: one for name, one in told.items() if name != "value"},
        {**told, "actions": told["actions"][1:]},
        {**told, "value": {**value, "slopes": value["slopes"][1:]}},
        {**told, "value": {**value, "rising": [[0, 0]]}},
        {**told, "value": {**value, "rising": [[0, 99]]}},
        {**told, "value": {**value, "offsets": [None] * len(value["offsets"])}},
        {**told, "value": {**value, "limits": [{**value["limits"][0], "of": [1, 2]}]}},
        {**told, "rule": {**told["rule"], "draws": [[[1.0]]]}},
        {**told, "rule": {**told["rule"], "mean": told["rule"]["mean"][1:]}},
    ]
    for one in broken:
        with pytest.raises(CorruptState):
            read(json.dumps(one))
    if NODE is not None:
        questions = [{"what": "read", "text": json.dumps(one)} for one in (told, *broken)]
        fine, *refused = asked(questions)
        assert fine == {"read": len(told["actions"])}
        assert all("refused" in one for one in refused)
        assert sum(one["message"].startswith("not an exported policy") for one in refused) >= 10


@pytest.mark.parametrize("several", [False, True])
def test_a_function_of_a_log_of_numbers_is_exported(several: bool) -> None:
    """It is learned from densities, with a value, a shape and bounds."""
    channel = {"channel": dpb.Categories(["mail", "call"])} if several else {}
    policy = dpb.central.ExploreThenCommit(
        contexts=PEOPLE,
        actions=dpb.Actions(
            dpb.Schema(price=dpb.Range(1, 9, steps=9), **channel),
            value=dpb.values.Revenue(cost=1),
            shape={"price": "decreasing"},
            bounds=BOUNDS,
        ),
        reward_range=(0, 1),
        horizon=4000,
        privacy=dpb.JointDP(epsilon=8, delta=1e-4, user_ids=False),
        noise=dpb.SimulatedNoise(4),
        tuning=dpb.central.ExploreTuning(logged="densities"),
    )
    rng, columns = np.random.default_rng(6), people(4000, seed=1)
    prices = 9.0 - 8.0 * np.sqrt(rng.random(4000))
    called = rng.random(4000) < 0.5
    bought = prices < 3 + 3 * (np.array(columns["age"]) > 50) + (called & several)
    density = (9.0 - prices) / 32.0 * (0.5 if several else 1.0)
    given = {"price": prices, "channel": np.where(called, "call", "mail")} if several else prices
    policy.learn(columns, given, bought, propensities=density)
    published = policy.publish()
    exported, columns = published.to_decisions(), people(5 * SOME)
    wanted, contexts = published.recommend_batch(columns), rows(columns)
    read_back = read(exported)
    clear = []
    for place in range(SOME):
        curve = published.curve(contexts[place])
        best = np.sort(curve.value[curve.allowed])
        clear.append(len(best) < 2 or best[-1] - best[-2] > CLOSE)
        np.testing.assert_allclose(
            np.asarray(arm_scores(read_back, contexts[place]))[curve.allowed],
            curve.value[curve.allowed],
            atol=CLOSE,
        )
    assert sum(clear) > SOME - 5
    assert len({str(one) for one in wanted}) > 3
    found = [decide_by(read_back, one) for one in contexts[:SOME]]
    assert all(one == best for one, best, sure in zip(found, wanted, clear, strict=False) if sure)
    if NODE is not None:
        answers = by_javascript(exported, contexts)
        same = sum(one == best for one, best in zip(answers, wanted, strict=True))
        assert same > 5 * SOME - 5
        assert all(one == best for one, best, sure in zip(answers, wanted, clear, strict=False) if sure)


def test_an_exported_policy_keeps_to_its_window() -> None:
    published = numbers(value=dpb.values.Revenue(cost=1), explore=dpb.Range(2, 3), step=1).publish()
    exported, columns = published.to_decisions(), people(200)
    wanted, contexts = published.recommend_batch(columns), rows(columns)
    (low, high), free = published.window["price"], numbers(value=dpb.values.Revenue(cost=1)).publish()
    assert {one["price"] for one in wanted} <= {price for price in range(1, 10) if low <= price <= high}
    assert max(one["price"] for one in free.recommend_batch(columns)) > high
    assert [decide_by(read(exported), one) for one in contexts] == [*wanted]
    if NODE is not None:
        assert by_javascript(exported, contexts) == [*wanted]


@pytest.mark.parametrize(
    "options",
    [
        {"value": lambda price, channel, mean: price * mean},
        {"bounds": lambda context: {"price": (1, 5)}},
    ],
)
def test_functions_of_actions_are_not_exported(options: dict[str, Any]) -> None:
    published = numbers(**options).publish()
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        published.to_decisions()
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        published.to_json()


def learned_from_a_log() -> dpb.central.PublishedFunction:
    """Marginal tables of 3,000 people: the call pays off for the old."""
    policy = dpb.central.ExploreThenCommit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=3000,
        privacy=dpb.JointDP(epsilon=8, delta=1e-4, user_ids=False),
        noise=dpb.SimulatedNoise(1),
    )
    log, rng = people(3000, seed=2), np.random.default_rng(5)
    given = rng.integers(3, size=3000)
    rewards = rng.random(3000) < 0.1 + 0.7 * (given == (np.array(log["age"]) > 50))
    policy.learn(log, [ARMS[arm] for arm in given], rewards, propensities=np.full(3000, 1 / 3))
    published: dpb.central.PublishedFunction = policy.publish()
    return published


def test_marginal_tables_of_a_log_decide_alike_and_have_leaves() -> None:
    published = learned_from_a_log()
    columns = people(1000)
    mean, _ = published.predict(columns)
    exported, wanted, contexts = published.to_decisions(), published.recommend_batch(columns), rows(columns)
    policy = read(exported)
    assert policy["rule"]["type"] == "effects"
    assert {"mail", "call"} == set(wanted)
    assert [decide_by(policy, context) for context in contexts] == [*wanted]
    np.testing.assert_allclose([arm_scores(policy, one) for one in contexts[:50]], mean[:50], atol=1e-9)
    if NODE is not None:
        assert by_javascript(exported, contexts) == [*wanted]
    leaves_say(exported, columns, [*wanted])


def test_cells_of_a_published_function_decide_alike() -> None:
    table = dpb.Schema(age=dpb.Range(18, 90, clip=True), region=dpb.Categories(["north", "south", "west"]))
    columns = {name: values for name, values in people(MANY).items() if name != "share"}
    rng = np.random.default_rng(2)
    published = cells(table, rng)
    wanted = list(published.recommend_batch(columns))
    exported = published.to_decisions()
    contexts = rows(columns)
    read_back = read(exported)
    assert [decide_by(read_back, context) for context in contexts] == wanted
    if NODE is not None:
        assert by_javascript(exported, contexts) == wanted


def test_a_category_that_is_not_listed_is_the_declared_one() -> None:
    regions = dpb.Categories(["north", "south", "other"], unknown="other")
    published = cells(dpb.Schema(age=dpb.Range(18, 90), region=regions), np.random.default_rng(2))
    contexts = [{"age": age, "region": region} for age in range(20, 90, 3) for region in ("mars", None, 7)]
    wanted, exported = list(published.recommend_batch(contexts)), published.to_decisions()
    assert set(wanted) == {"mail", "call", None}
    assert [decide_by(read(exported), context) for context in contexts] == wanted
    if NODE is not None:
        assert by_javascript(exported, contexts) == wanted


def cells(table: dpb.Schema, rng: np.random.Generator) -> dpb.central.PublishedCells:
    from dpbandits.models.measures import CellMeasure, FiniteAxis, IntervalAxis
    from dpbandits.tables.menu import Menu

    axes = (IntervalAxis(np.array([0, 0.1, 0.125, 0.5, 0.9, 1.0])), FiniteAxis(np.arange(3.0)))
    mean = rng.random((2, 15))
    return dpb.central.PublishedCells(
        actions=CellMeasure.finite([0.0, 1.0]),
        contexts=CellMeasure(axes, np.ones(15)),
        mean=mean,
        sd=np.ones((2, 15)),
        guarantee=local().statement(),
        menu=Menu(contexts=table, arms=["mail", "call"]),
    )


def test_arms_that_tie_within_rounding_are_the_first_everywhere() -> None:
    table = dpb.Schema(share=dpb.Range(0, 1), region=dpb.Categories(["a", "b", "c"]))
    untied = cells(table, np.random.default_rng(0))
    mean = np.full((2, 15), 0.3) + np.array([[0.0], [1e-15]])
    parts = {name: getattr(untied, name) for name in ("actions", "contexts", "sd", "guarantee", "menu")}
    function = dpb.central.PublishedCells(mean=mean, **parts)
    rows = [{"share": share, "region": "b"} for share in (0.05, 0.7)]
    assert function.choose(rows).tolist() == [0, 0]
    assert function.recommend_batch(rows) == ("mail", "mail")
    assert function.recommend_batch(rows, available=[["call"], ["mail", "call"]]) == ("call", "mail")
    policy = read(function.to_decisions())
    assert [decide_by(policy, one) for one in rows] == ["mail", "mail"]


def test_contexts_that_cannot_be_read_get_no_arm() -> None:
    text, _ = decided_locally()["bins"]
    policy = read(text)
    unread: list[Any] = [{}, {"age": "44", "region": "north"}, {"age": 44, "region": "east"}, {"age": True}]
    infinite = {"age": 1e309, "region": "north"}
    assert [decide_by(policy, one) for one in (*unread, infinite)] == [None] * 5
    assert decide_by(policy, {"age": 44, "region": "north"}) in ARMS  # share has a missing=
    if NODE is not None:
        assert by_javascript(text, unread) == [None] * 4


def matches(condition: dict[str, Any], person: dict[str, Any]) -> bool:
    """GrowthBook's conditions, of the operators that are used here."""
    operators = {
        "$gte": lambda value, bound: value >= bound,
        "$lt": lambda value, bound: value < bound,
        "$lte": lambda value, bound: value <= bound,
        "$in": lambda value, several: value in several,
        "$exists": lambda value, wanted: (value is not None) == wanted,
    }
    return all(
        operators[operator](person.get(name), bound)
        for name, one in condition.items()
        for operator, bound in one.items()
    )


@pytest.mark.parametrize("name", LOCAL)
def test_leaf_conditions_of_growthbook_say_the_same(name: str) -> None:
    policy, wanted = decided_locally()[name]
    leaves_say(policy, people(MANY), wanted)


def leaves_say(policy: str, columns: dict[str, list[Any]], wanted: list[Any]) -> None:
    """Each of `SOME` people is in one leaf, whose arm is theirs."""
    told = growthbook(policy, "offers")
    bandit = told["contextualBandits"]["offers"]
    assert set(bandit) == {"banditVersion", "contexts"}
    assert bandit["banditVersion"] == json.loads(policy).get("version", 0)
    assert told["rule"]["contextualBanditRef"] == "offers"
    leaves = bandit["contexts"]
    assert len(leaves) < 1000
    assert all(abs(sum(leaf["weights"]) - 1.0) < 1e-9 for leaf in leaves)
    for person, arm in list(zip(rows(columns), wanted, strict=True))[:SOME]:
        held = [leaf for leaf in leaves if matches(leaf["condition"], person)]
        assert len(held) == 1
        weights = held[0]["weights"]
        assert told["rule"]["contextualVariations"][weights.index(max(weights))] == arm


def one_column(rule: dict[str, Any]) -> str:
    columns = [{"name": "x", "type": "Range", "low": 0.0, "high": 1.0}]
    named = {"arms": ["a", "b"], "columns": columns, "rule": rule}
    return json.dumps({"format": 1, "kind": "dpbandits decisions"} | named)


@pytest.mark.parametrize(
    ("rule", "weights"),
    [
        ({"type": "cells", "edges": [[]], "scores": [[0.3, 0.7]]}, [0.0, 1.0]),
        ({"type": "cells", "edges": [[]], "scores": [[0.5, 0.5]]}, [1.0, 0.0]),
        ({"type": "tree", "nodes": [{"scores": [0.333333, 0.666666]}]}, [0.333333 / 0.999999, 2 / 3]),
    ],
)
def test_leaves_of_growthbook_take_rewards_for_no_chances_and_rounded_chances_for_no_rewards(
    rule: dict[str, Any], weights: list[float]
) -> None:
    """Local policies have chances that sum to 1 up to 1e-5; two rewards can sum to 1 by chance."""
    [leaf] = growthbook(one_column(rule), "offers")["contextualBandits"]["offers"]["contexts"]
    assert leaf["weights"] == pytest.approx(weights, abs=1e-9)


@pytest.mark.parametrize("chances", [[2.0, 1.0], [-0.5, 1.5], [0.0, 0.0]])
def test_a_tree_whose_leaf_has_no_chances_is_refused(chances: list[float]) -> None:
    rule = {"type": "tree", "nodes": [{"scores": chances}]}
    with pytest.raises(dpb.errors.InvalidParameter, match="sum to 1"):
        growthbook(one_column(rule), "offers")


def test_what_is_not_constant_on_cells_has_no_leaves() -> None:
    features = bandit("features").publish(prior=True).to_decisions()
    with pytest.raises(dpb.errors.InvalidParameter, match="not constant on cells"):
        growthbook(features, "offers")


def test_what_is_not_exported_is_refused_by_name() -> None:
    dates = dpb.Schema(day=dpb.DateRange("2024-01-01", "2024-12-31"))
    spec = Spec(contexts=dates, arms=ARMS, privacy=dpb.LocalDP(epsilon=1), learner="tree")
    with pytest.raises(dpb.errors.InvalidParameter, match=r"\['day'\]"):
        Server(spec).publish().to_decisions(spec)
    points = dpb.central.GPBandit(
        kernel=dpb.kernels.SquaredExponential(lengthscale=0.3),
        domain=dpb.Box(low=[0], high=[1]),
        reward_range=(0, 1),
        horizon=100,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )
    with pytest.raises(dpb.errors.InvalidParameter, match="cannot be exported"):
        points.publish().to_decisions()
    with pytest.raises(dpb.errors.ProtocolError, match="nothing was released"):
        points.public_draws(3)


def test_what_is_no_export_is_refused() -> None:
    text, _ = decided_locally()["bins"]
    for other in ("", "{}", "[]", '{"format": 2}', text[:-9], text.replace('"tree"', '"t"')):
        with pytest.raises(dpb.errors.CorruptState):
            read(other)
