"""Numbers to choose on devices: `Spec(actions=)`."""

import json

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.local import Client, PublishedArms, Server, SourceSpec, Spec
from dpbandits.local.contract.grid import PublishedQuestions
from dpbandits.tables import Actions, values

PEOPLE = dpb.Schema(income=dpb.Range(0, 1))
PRICES = Actions(
    dpb.Schema(price=dpb.Range(1, 20, steps=10)), value=values.Revenue(), shape={"price": "decreasing"}
)
PAIRS = dpb.Schema(price=dpb.Ordered([5, 10]), channel=dpb.Categories(["mail", "call"]))


def spec_of(actions=PRICES, *, epsilon=2.0, contexts=PEOPLE, **own):
    return Spec(contexts=contexts, actions=actions, privacy=dpb.LocalDP(epsilon=epsilon), **own)


def version_of(spec, arms):
    arms = np.asarray(arms)
    size = spec.protocol.grids.whole.size
    blank = np.zeros(size, dtype=np.int64)
    return PublishedQuestions(
        version=0, arms=np.resize(arms, size), parts=blank, turned=blank.astype(np.bool_)
    )


@pytest.mark.parametrize("actions", [PRICES, dpb.Range(1, 20, steps=5), dpb.Ordered([5, 10, 15]), PAIRS])
def test_a_spec_with_actions_is_the_same_after_json(actions):
    spec = spec_of(actions)
    read = Spec.from_json(spec.to_json())
    assert read == spec
    assert read.digest == spec.digest
    assert read.arms == read.actions.labels
    assert read.learner == "questions"


def test_a_spec_with_plain_arms_is_written_as_before():
    spec = Spec(contexts=PEOPLE, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1))
    told = json.loads(spec.to_json())
    assert "actions" not in told
    assert spec.digest.hex() == "9d272299"


def test_a_device_decides_a_number_and_reports_as_before():
    spec = spec_of(dpb.Range(1, 20, steps=20))
    client, server = Client(spec), Server(spec)
    published = server.publish()
    number = client.choose(published, {"income": 0.3})
    assert number in spec.actions.choices
    assert isinstance(number, float)
    assert server.absorb([client.report(1.0)]).accepted == 1
    read = PublishedArms.from_json(published.to_json(spec), spec)
    assert read.recommend(spec, {"income": 0.3}) == number


def test_reports_have_the_law_of_plain_arms_and_the_same_statement():
    spec = spec_of()
    plain = Spec(contexts=PEOPLE, arms=list(spec.arms), learner="questions", privacy=spec.privacy)
    assert spec.protocol.grids.n_parts == plain.protocol.grids.n_parts
    assert spec.statement().certificate == plain.statement().certificate
    mine, theirs = (one.statement().mechanisms[0] for one in (spec, plain))
    assert mine == theirs


def test_a_report_is_about_the_outcome_and_not_about_its_value():
    spec = spec_of(epsilon=8.0)
    for action in (0, 9):
        choice = spec.protocol.choose(version_of(spec, [action]), {"income": 0.5}, spec.privacy)
        assert {spec.protocol.exact(choice, 1.0) for _ in range(60)} == {(0, True)}
        assert {spec.protocol.exact(choice, 0.0) for _ in range(60)} == {(0, False)}


def test_available_actions_are_dicts_and_anything_else_is_missing_data():
    spec = spec_of(PAIRS)
    published = version_of(spec, [3])
    protocol = spec.protocol
    for available, unavailable, arms in (
        (None, False, {3}),
        ([{"price": 10, "channel": "call"}], False, {3}),
        ([{"price": 5, "channel": "mail"}], True, {0}),
        ([{"price": 7, "channel": "mail"}], True, {0, 1, 2, 3}),
        ([{}], True, {0, 1, 2, 3}),
        ([None], True, {0, 1, 2, 3}),
    ):
        choice = protocol.choose(published, {"income": 0.5}, spec.privacy, available)
        assert choice.unavailable == unavailable, available
        assert choice.arm in arms
    assert Client(spec).decide(published, {"income": 0.5}) == {"price": 10, "channel": "call"}


def test_cells_get_the_action_of_the_largest_value_not_of_the_largest_outcome():
    """A purchase is equally likely at every price, so that the outcome prefers no price."""
    world = PeopleWorld(
        name="bought", columns=np.linspace(0, 1, 3000)[:, None], rewards=np.full((3000, 10), 0.5)
    )
    own = simulate(spec_of(epsilon=8.0), world, n_users=3000, seed=5)
    net = Actions(PRICES.schema, value=values.Net(cost="price", each=0.1))
    other = simulate(spec_of(net, epsilon=8.0), world, n_users=3000, seed=5)
    assert own.rule.leading().min() >= 5
    assert other.rule.leading().max() <= 1
    late = slice(-10, None)
    assert own.reward[late].sum() / own.users[late].sum() > 0.5 * np.linspace(1, 20, 10).mean() + 1.0


def test_a_crowd_that_sees_numbers_learns_prices_by_income():
    numbers = np.linspace(1, 20, 10)
    income = np.linspace(0, 1, 8000)[:, None]
    bought = 1 / (1 + np.exp(-(5 + 9 * income - numbers) / 1.5))
    world = PeopleWorld(name="prices", columns=income, rewards=bought)
    found = simulate(spec_of(epsilon=4.0), world, n_users=8000, seed=3)
    paid = numbers * bought
    best, fixed = paid.max(axis=1).mean(), paid.mean(axis=0).max()
    late = found.reward[-20:].sum() / found.users[-20:].sum()
    assert late > fixed
    assert late < best + 0.5


def test_estimates_give_a_curve_of_outcome_and_value():
    spec = spec_of(epsilon=4.0)
    server = Server(spec)
    with pytest.raises(ProtocolError, match="estimate"):
        server.publish().curve(spec, {"income": 0.5})
    told = server.estimate()
    curve = told.curve(spec, {"income": 0.5})
    assert curve.actions == spec.actions.choices
    np.testing.assert_allclose(curve.value, np.array(curve.actions) * curve.outcome)
    assert (np.diff(curve.outcome) <= 0).all() or np.allclose(curve.outcome, 0.5)
    mean, sd = told.predict(spec, {"income": [0.1, 0.9]})
    assert mean.shape == sd.shape == (2, 10)
    assert (sd > 0).all()
    plain = Spec(contexts=PEOPLE, arms=["a", "b"], privacy=dpb.LocalDP(epsilon=4))
    with pytest.raises(InvalidParameter, match="plain arms"):
        Server(plain).estimate().curve(plain, {"income": 0.5})


def test_a_version_of_actions_does_not_fit_another_value():
    spec, other = spec_of(), spec_of(Actions(PRICES.schema, value=values.Revenue(cost=1)))
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(Server(spec).publish().to_json(spec), other)


@pytest.mark.parametrize("columns", [1, 7])
def test_the_learner_is_restored_with_its_reports(columns):
    people = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(columns)})
    spec = spec_of(contexts=people, epsilon=4.0, tuning=dpb.local.SpecTuning(reports_per_version=10))
    server = Server(spec)
    rng = np.random.default_rng(0)
    for version in range(3):
        published, reports = server.publish(), []
        assert published.version == version
        for _ in range(10):
            device = Client(spec)
            device.choose(published, dict(zip(people.names, rng.random(columns), strict=True)))
            reports.append(device.report(float(rng.random() < 0.4)))
        assert server.absorb(reports).accepted == 10
    again = Server.restore(spec, server.to_arrays())
    assert again.publish().lineage(spec) == server.publish().lineage(spec)
    np.testing.assert_array_equal(again.estimate().mean, server.estimate().mean)


def test_what_a_spec_cannot_take_to_devices_is_refused():
    for bad, message in (
        (Actions(dpb.Range(1, 5, steps=3), value=lambda action, mean: action * mean), "named value"),
        (Actions(dpb.Range(1, 5, steps=3), bounds=lambda people: {"action": (1, 2)}), "bounds"),
        (Actions(dpb.Range(1, 5, steps=3), explore=dpb.Range(1, 3)), "explore"),
        (Actions(dpb.Range(1, 5, steps=3), value=values.Revenue(price="cost")), "no action column"),
        (dpb.Range(1, 5, steps=1000), "grid"),
        ([1, 2, 3], "actions"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            spec_of(bad)
    for own, message in (
        ({"arms": ["a", "b"]}, "not both"),
        ({"learner": "smooth"}, "questions"),
        ({"chooser": "client"}, "questions"),
        ({"contexts": dpb.Box([0], [1])}, "Schema"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            spec_of(**own)
    with pytest.raises(InvalidParameter, match="arms"):
        Spec(contexts=PEOPLE, privacy=dpb.LocalDP(epsilon=1))
    with pytest.raises(InvalidParameter, match="sources"):
        SourceSpec(target=spec_of(), name="last year", n_users=100, privacy=dpb.LocalDP(epsilon=1))
