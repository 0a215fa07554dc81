"""Pictures show the numbers that their policies give, say what they rest on, and can be read in grey."""

import re
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import cost_of
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab import plot
from dpbandits.lab.evaluation import BANNER, FIRST_REPORT_SEED, repeat, report_seeds
from dpbandits.privacy.calibration import zcdp_rho
from dpbandits.privacy.certificates import ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP

SEEDS = report_seeds(FIRST_REPORT_SEED, 2)
PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    town=dpb.Categories(["north", "south"]),
    since=dpb.tables.DateRange("2024-01-01", "2024-02-01"),
)
KNOWN = {"contexts": PEOPLE, "arms": ["mail", "call", "none"], "reward_range": (0, 1), "horizon": 200}
JOINT = dpb.JointDP(epsilon=8, delta=1e-6)
AT = {"since": "2024-01-10"}


def world(seed):
    return dpb.lab.worlds.load("synthetic-income", seed=seed, horizon=300)


def known(world):
    return {"contexts": world.schema, "arms": world.arms.labels, "reward_range": world.reward_range}


def private(world, seed, epsilon=1.0):
    noise, privacy = dpb.SimulatedNoise(seed), dpb.JointDP(epsilon=epsilon, delta=1e-6)
    return dpb.central.GPBandit(**known(world), horizon=300, privacy=privacy, noise=noise, seed=seed)


def uniform(world, seed):
    return dpb.lab.baselines.Uniform(**known(world), seed=seed)


def foot(figure):
    return figure.get_supxlabel()


def taught(reward, *, noise=None, people=40, policy=None):
    """A policy that gave people an arm; with a horizon of 200 it releases before asks 19, 38 and 57."""
    policy = policy or dpb.central.GPBandit(**KNOWN, privacy=JOINT, noise=noise, seed=3)
    for number in range(people):
        person = {"age": 18 + number, "town": ["north", "south"][number % 2], "since": "2024-01-05"}
        policy.tell(policy.ask(person, user=number).id, reward(number))
    return policy


def test_along_rounds_every_policy_has_its_line_in_every_world():
    policies = {"private": private, "random": uniform}
    figure = plot.along_rounds(policies, {"here": world, "there": world}, seeds=SEEDS, what="regret")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["here", "there"]
    for ax in figure.axes:
        assert [line.get_label() for line in ax.lines] == ["private", "random"]
        assert len({line.get_linestyle() for line in ax.lines}) == 2
    expected = repeat(uniform, world, name="random", seeds=SEEDS).cumulative_regret.mean(axis=0)
    x, y = figure.axes[1].lines[1].get_data()
    np.testing.assert_allclose(y, expected[x.astype(int) - 1])
    assert foot(figure) == BANNER


def test_mean_reward_so_far_ends_at_the_mean_reward():
    figure = plot.along_rounds({"random": uniform}, world, seeds=SEEDS)
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == "synthetic-income"
    run = repeat(uniform, world, name="random", seeds=SEEDS)
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(run.mean_rewards.mean())


def test_along_epsilons_there_is_a_point_for_each_and_others_lie_across():
    figure = plot.along_epsilons(private, world, epsilons=[3, 0.3], beside={"random": uniform}, seeds=SEEDS)
    (ax,) = figure.axes
    assert ax.lines[0].get_xdata().tolist() == [0.3, 3.0]
    of = [partial(private, epsilon=epsilon) for epsilon in (0.3, 3.0)]
    means = [repeat(one, world, name="one", seeds=SEEDS).mean_rewards.mean() for one in of]
    np.testing.assert_allclose(ax.lines[0].get_ydata().astype(float), means)
    across = next(line for line in ax.lines if line.get_label() == "random")
    assert np.ptp(across.get_ydata()) == 0.0
    assert foot(figure) == BANNER


def test_regret_that_nobody_knows_is_refused_with_what_to_do():
    class Unknown:
        def __init__(self, world):
            self.world = world

        def __getattr__(self, name):
            return getattr(self.world, name)

        def mean_rewards(self, start, stop):
            return None

    with pytest.raises(InvalidData, match="pass what='reward'"):
        plot.along_rounds({"random": uniform}, lambda s: Unknown(world(s)), seeds=SEEDS, what="regret")


def test_what_was_released_is_drawn_as_it_is_predicted():
    policy = taught(lambda n: n % 2)
    for asked in (policy, policy.publish()):
        figure = plot.released(asked, "age", at={"town": "south", **AT})
        (ax,) = figure.axes
        assert [line.get_label() for line in ax.lines] == ["mail", "call", "none"]
        ages = ax.lines[0].get_xdata()
        rows = {"age": ages, "town": ["south"] * len(ages), "since": ["2024-01-10"] * len(ages)}
        mean, _ = policy.predict(rows)
        np.testing.assert_allclose(np.column_stack([line.get_ydata() for line in ax.lines]), mean)
        assert foot(figure) == "At town = south, since = 2024-01-10. Computed from what was released only."


def test_along_categories_and_two_columns():
    policy = taught(lambda n: n % 2)
    (ax,) = plot.released(policy, "town", at=AT).axes
    assert [text.get_text() for text in ax.get_xticklabels()] == ["north", "south"]
    *maps, _bar = plot.released(policy, ("age", "town"), at=AT).axes
    assert [ax.get_title(loc="left") for ax in maps] == ["mail", "call", "none"]
    surface = maps[1].collections[0].get_array().reshape(2, -1)
    ages = np.linspace(18, 90, surface.shape[1])
    rows = {"age": ages, "town": ["south"] * len(ages), "since": ["2024-01-10"] * len(ages)}
    np.testing.assert_allclose(surface[1], policy.predict(rows)[0][:, 1])


def test_rewards_that_were_not_released_are_in_no_picture():
    """Two policies with the same noise, whose people since the last release were paid otherwise."""
    one, other = (
        plot.to_png(plot.released(taught(reward, noise=dpb.SimulatedNoise(1), people=60), "age", at=AT))
        for reward in (lambda n: n % 2, lambda n: n % 2 if n < 57 else 1 - n % 2)
    )
    assert one == other


def test_a_picture_says_what_it_rests_on():
    simulated = taught(lambda n: 1, noise=dpb.SimulatedNoise(1))
    assert "protects nobody" in foot(plot.released(simulated, "age", at=AT))
    baseline = taught(lambda n: 1, policy=dpb.lab.baselines.FeatureGPUCB(**KNOWN))
    assert BANNER in foot(plot.released(baseline, "age", at=AT))


def test_a_box_is_drawn_by_the_numbers_of_its_columns():
    box = dpb.Box([0, 2], [1, 4])
    kernel = dpb.kernels.Matern(nu=2.5, lengthscale=0.5)
    policy = dpb.central.GPBandit(domain=box, kernel=kernel, reward_range=(0, 1), horizon=100, privacy=JOINT)
    (ax,) = plot.released(policy, 1).axes
    assert (ax.get_xlabel(), ax.lines[0].get_xdata()[[0, -1]].tolist()) == ("column 1", [2.0, 4.0])
    assert len(plot.released(policy.publish(), (0, 1)).axes) == 2  # a map and its scale


def test_devices_are_drawn_with_their_spec():
    spec = dpb.local.Spec(
        contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=4)
    )
    (ax,) = plot.released(dpb.local.Server(spec).estimate(), "age", spec=spec).axes
    assert [line.get_label() for line in ax.lines] == ["mail", "call"]


@pytest.mark.parametrize(
    ("along", "at", "said"),
    [
        ("height", AT, "'age', 'town', 'since'"),
        (("age", "age"), AT, "different"),
        ("since", {}, "'since' is a DateRange"),
        ("age", {}, "'since' has no default"),
        ("age", {"age": 3, **AT}, "'age' does not exist or is in along"),
        ("age", {"height": 3, **AT}, "'height' does not exist or is in along"),
    ],
)
def test_columns_that_cannot_be_drawn_are_refused(along, at, said):
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        plot.released(dpb.central.GPBandit(**KNOWN, privacy=JOINT), along, at=at)


def test_what_is_no_policy_or_account_is_refused():
    for wrong in (lambda: plot.released(PEOPLE, "age"), lambda: plot.budget_left(3, "team")):
        with pytest.raises(InvalidParameter, match="expected"):
            wrong()
    with pytest.raises(InvalidParameter, match="no account 'team'"):
        plot.budget_left(dpb.MemoryLedger(), "team")


def test_a_budget_is_drawn_as_it_was_spent():
    ledger = dpb.MemoryLedger()
    ledger.open_account("team", privacy=JointDP(4, 1e-6))
    ledger.charge("team", charge_id="one", cost=JointDP(1))
    (ax,) = plot.budget_left(ledger, "team").axes
    said = {"epsilon: 1 spent of 4, at delta 1e-06", "delta: 1e-06 left of 1e-06"}
    assert {text.get_text() for text in ax.texts} == said
    assert 0.25 in [bar.get_width() for bar in ax.patches]


def test_a_budget_of_rho_is_drawn_in_epsilon_with_rho_beside_it():
    ledger, half = dpb.MemoryLedger(), ZeroConcentratedDP(zcdp_rho(2.0, 1e-5) / 2.0)
    ledger.open_account("team", privacy=JointDP(2, 1e-5))
    ledger.charge("team", charge_id="one", cost=cost_of(half, privacy=JointDP(2, 1e-5)))
    (ax,) = plot.budget_left(ledger, "team").axes
    spent = half.epsilon_at(1e-5)
    assert 1.3 < spent < 1.4  # rho is half spent, and the epsilon is not
    rho = half.rho
    said = {f"epsilon: {spent:.6g} spent of 2, at delta 1e-05", f"rho: {rho:.6g} left of {2 * rho:.6g}"}
    assert {text.get_text() for text in ax.texts} == said
    widths = [bar.get_width() for bar in ax.patches]
    assert any(width == pytest.approx(spent / 2, rel=1e-9) for width in widths)
    assert any(width == pytest.approx(0.5, rel=1e-9) for width in widths)


def test_pictures_can_be_read_in_grey_and_are_shown_in_notebooks():
    greys = mpl.colormaps["cividis"](np.linspace(0, 1, 50))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(greys) > 0).all()
    assert len({repr(dash) for _, dash, _ in plot.LINES}) == len({mark for *_, mark in plot.LINES}) == 7
    ledger = dpb.MemoryLedger()
    ledger.open_account("team", privacy=JointDP(4))
    assert plot.budget_left(ledger, "team")._repr_html_().startswith('<img alt="Spent of the budget"')


def test_outcome_and_value_are_drawn_along_an_action_with_the_best_marked():
    schema = dpb.Schema(price=dpb.Range(1, 5, steps=5), channel=dpb.Categories(["mail", "call"]))
    actions = dpb.Actions(schema, value=dpb.values.Revenue(cost=1))
    known = {"contexts": PEOPLE, "actions": actions, "reward_range": (0, 1), "horizon": 200}
    published = dpb.central.GPBandit(**known, privacy=JOINT).publish(prior=True)
    figure = plot.released(published, "price", at={**AT, "age": 30.0, "channel": "call"})
    curve = published.curve({"age": 30.0, "town": "north", **AT})
    outcome, value = figure.axes
    assert outcome.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert outcome.lines[0].get_ydata().tolist() == curve.outcome[1::2].tolist()
    assert value.lines[0].get_ydata().tolist() == curve.value[1::2].tolist()
    assert value.lines[1].get_xdata().tolist() == [5.0]
    assert "channel = call" in "".join(text.get_text() for text in figure.texts)
    assert plot.released(published, "channel", at=AT).axes[0].lines[0].get_xdata().tolist() == [0, 1]
    for wrong in ({"price": 3}, {"prize": 3}):
        with pytest.raises(InvalidParameter, match="at:"):
            plot.released(published, "price", at={**AT, **wrong})
    with pytest.raises(InvalidData, match="grid"):
        plot.released(published, "price", at={**AT, "channel": "fax"})


def test_a_readout_is_drawn_with_both_intervals_of_every_look():
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["a", "b"],
        reward_range=(0, 1),
        horizon=400,
        privacy=dpb.JointDP(epsilon=20, user_ids=False),
        readout=dpb.Readout(control=dpb.Control(arm="a", share=0.3), metrics={"harm": bool}),
        noise=dpb.SimulatedNoise(1),
    )
    decided = policy.ask_batch({"age": np.full(301, 40.0)})
    policy.tell_batch(decided.ids, np.ones(301), metrics={"harm": np.zeros(301)})
    found = policy.readout()
    axes = plot.readout(found).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["reward", "harm"]
    for ax, metric in zip(axes, found.readings.metrics, strict=True):
        always, once = (np.array([bar[:, 1] for bar in lines.get_segments()]) for lines in ax.collections)
        assert always.shape == once.shape == (found.readings.looks, 2)
        np.testing.assert_allclose(always[-1], metric.always)
        np.testing.assert_allclose(once[-1], metric.interval)
        assert ax.lines[0].get_ydata()[-1] == pytest.approx(metric.difference)
        assert ax.get_xlim()[1] > 4
    with pytest.raises(InvalidParameter, match="readout"):
        plot.readout(policy)


def test_segments_of_a_readout_have_a_panel():
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["a", "b"],
        reward_range=(0, 1),
        horizon=400,
        privacy=dpb.JointDP(epsilon=20, user_ids=False),
        readout=dpb.Readout(control=dpb.Control(arm="a", share=0.3), segments={"age": [30, 60]}),
        noise=dpb.SimulatedNoise(1),
    )
    decided = policy.ask_batch({"age": np.resize([20.0, 70.0], 400)})
    policy.tell_batch(decided.ids, np.ones(400))
    found = policy.readout()
    ax = plot.readout(found).axes[1]
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "age 18 to 30",
        "age 30 to 60 (too few)",
        "age 60 to 90",
    ]
    (first, _), drawn = found.segments[0].interval, ax.collections[0].get_segments()[0]
    assert drawn[0, 0] == pytest.approx(first)
