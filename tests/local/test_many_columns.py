"""Questions about more columns than one grid has room for: versions name the columns that they are over."""

import json
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.lab.evaluation.crowds import answers, signs_by_cell, simulate
from dpbandits.lab.worlds.contextual import World
from dpbandits.local import Client, PublishedArms, PublishedQuestions, Robust, Server, SourceSpec, Spec
from dpbandits.local.learners import QuestionConstants, QuestionLearner, learner_for
from dpbandits.policy.coins import PublicCoins
from flat import spec_with

DIM = 10


def spec_of(dim=DIM, *, n_arms=2, epsilon=2.0, learner="questions", **own):
    box = dpb.Box(low=[0.0] * dim, high=[1.0] * dim)
    return spec_with(
        contexts=box, arms=range(n_arms), privacy=dpb.LocalDP(epsilon=epsilon), learner=learner, **own
    )


def version_of(spec, columns, **own):
    """A version over these columns, made up here."""
    size = spec.protocol.grids.over(columns).size
    cell = np.arange(size)
    tables = {
        "arms": cell * 7 % spec.n_arms,
        "parts": cell % spec.protocol.grids.n_parts,
        "turned": cell * 5 % 7 < 3,
    }
    return PublishedQuestions(version=4, columns=columns, **(tables | own))


@pytest.mark.parametrize(
    ("dim", "n_arms", "learner"),
    [(3, 2, "questions"), (4, 12, "questions"), (64, 12, "questions"), (65, 2, "smooth"), (10, 13, "smooth")],
)
def test_columns_are_asked_about_by_default_where_they_and_the_arms_are_not_too_many(dim, n_arms, learner):
    assert spec_of(dim, n_arms=n_arms, learner=None).learner == learner


@pytest.mark.parametrize(("dim", "learner"), [(3, "questions"), (4, "smooth"), (10, "smooth")])
def test_a_spec_that_forgets_takes_a_learner_that_can(dim, learner):
    assert spec_of(dim, learner=None, constants={"forget": 2000}).learner == learner


@pytest.mark.parametrize(
    ("ranges", "categories", "named"),
    [
        (3, (), False),
        (4, (), True),
        (2, (2, 7), False),
        (2, (2, 8), True),
        (1, (11, 12), False),
        (0, (6,) * 4, False),
    ],
)
def test_versions_name_their_columns_where_one_grid_of_all_would_be_coarse(ranges, categories, named):
    people = {f"x{j}": dpb.Range(0, 1) for j in range(ranges)}
    people |= {f"c{j}": dpb.Categories(list(range(n))) for j, n in enumerate(categories)}
    spec = Spec(contexts=dpb.Schema(**people), arms=["a", "b"], privacy=dpb.LocalDP(epsilon=1))
    assert bool(Server(spec).publish().columns) == named


def test_columns_are_asked_about_one_at_a_time_at_first():
    spec = spec_of(reports_per_version=10)
    learner, coins = learner_for(spec), PublicCoins(1)
    asked = [learner.publish(spec, version, coins).columns for version in range(100)]
    assert {len(columns) for columns in asked} == {1}
    # Each of ten has the same chance of every draw: some is missed in fewer than 1 in 3,000 (seed fixed).
    assert {column for (column,) in asked} == set(range(DIM))


def test_what_is_asked_about_one_column_tells_the_others_which_arm_is_best_for_all():
    """4,000 people at epsilon 4, whom arm 1 serves better whoever they are (seed fixed)."""
    spec, rng = spec_of(4, epsilon=4.0, reports_per_version=100), np.random.default_rng(8)
    learner = learner_for(spec)
    published = version_of(spec, (2,), arms=np.arange(8) % 2, turned=np.zeros(8, dtype=bool))
    (mechanism,) = spec.protocol.counted_by(published)
    for _ in range(40):
        at = spec.protocol.places(published, rng.random((100, 4)))
        cells, signs = answers(published, at, rng.random(100) < np.where(published.arms[at], 0.9, 0.1))
        sums = mechanism.simulate(*signs_by_cell(cells, signs, mechanism.n_cells), rng)
        learner.count(spec, published, [[(mechanism, sums, 100)]])
        learner.refine()
    untold = version_of(spec, (0,), arms=np.zeros(8, dtype=int))
    mean = learner.estimate(spec, untold).mean
    assert (mean[:, 1] > 0.7).all()
    assert (mean[:, 0] < 0.3).all()
    # Its own reports do not come back to a column as news from the others.
    heard = {column: np.abs(learner.to_arrays()[f"columns.{column}.heard"]).max() for column in range(4)}
    assert heard[2] < 1e-9 < heard[0] == heard[1] == heard[3]


def test_what_a_column_tells_of_the_arms_does_not_depend_on_what_it_heard():
    spec, rng = spec_of(4, epsilon=4.0, reports_per_version=100), np.random.default_rng(9)
    rule = QuestionLearner(spec, QuestionConstants(), grid=spec.protocol.grids.over((1,)))
    np.testing.assert_allclose(rule.told_levels, 0.0, atol=1e-9)  # nobody has reported
    told(spec, rule, 5, rng)
    rule.look()
    own = rule.told_levels
    assert (np.linalg.eigvalsh(own[:, :-1]) > 0.01).all()
    rule.hear_levels(np.array([[900.0, 100.0, 40.0], [100.0, 700.0, -60.0]]))
    np.testing.assert_allclose(rule.told_levels, own, rtol=1e-8, atol=1e-8)


def test_precisions_that_columns_exchange_stay_symmetric():
    """Else the rounding in one half of the matrix is multiplied each time that levels are shared."""
    spec, rng = spec_of(4, epsilon=4.0, reports_per_version=100), np.random.default_rng(9)
    rule = QuestionLearner(spec, QuestionConstants(), grid=spec.protocol.grids.over((1,)))
    told(spec, rule, 2, rng)
    rule.look()
    rule.hear_levels(np.array([[900.0, 100.0, 40.0], [100.001, 700.0, -60.0]]))
    precision = rule.told_levels[:, :-1]
    np.testing.assert_array_equal(precision, precision.T)


def test_levels_that_were_heard_are_believed_as_if_the_own_reports_had_told_them():
    """A column without reports of its own expects the levels that it heard, once they outweigh its prior."""
    spec = spec_of(4)
    rule = QuestionLearner(spec, QuestionConstants(), grid=spec.protocol.grids.over((1,)))
    published = version_of(spec, (1,))
    before = rule.estimate(spec, published)
    precision = 1e6  # so that the prior does not count
    rule.hear_levels(precision * np.array([[1.0, 0.0, 0.25], [0.0, 1.0, -0.125]]))
    after = rule.estimate(spec, published)
    np.testing.assert_allclose(before.mean, 0.5)
    np.testing.assert_allclose(rule.places @ after.mean, [0.75, 0.375], atol=1e-4)
    assert (after.sd < before.sd).all()


def test_more_columns_than_are_asked_about_are_refused():
    with pytest.raises(InvalidParameter, match="too many for the learner"):
        spec_of(65)


def test_many_columns_have_few_arms_because_every_column_has_a_learner_of_its_own():
    assert spec_of(n_arms=12).protocol.grids.names_columns
    with pytest.raises(InvalidParameter, match="got 13"):
        spec_of(n_arms=13)


@pytest.mark.parametrize("columns", [(3,), (0, 9), (1, 4, 8)])
def test_a_version_is_the_same_after_json_and_has_two_kilobytes(columns):
    spec = spec_of(n_arms=5, epsilon=4.0)
    published = version_of(spec, columns)
    text = published.to_json(spec)
    read = PublishedArms.from_json(text, spec)
    assert read.columns == columns
    assert read.lineage(spec) == published.lineage(spec)
    assert len(text) <= 2048


@pytest.mark.parametrize(("n_arms", "most"), [(8, 2048), (12, 2300)])
def test_a_version_of_many_columns_with_as_many_cells_as_may_be_has_few_kilobytes(n_arms, most):
    people = {f"x{j}": dpb.Range(0, 1) for j in range(8)}
    people |= {"a": dpb.Categories(list("abcdefg")), "b": dpb.Categories(list("abcdefghijklmnopqrstuvwxy"))}
    arms, privacy = list("abcdefghijkl"[:n_arms]), dpb.LocalDP(epsilon=4.0)
    spec = Spec(contexts=dpb.Schema(**people), arms=arms, privacy=privacy, learner="questions")
    assert spec.protocol.grids.over((7, 8, 9)).size == 1400
    latest = replace(version_of(spec, (7, 8, 9)), version=2**32 - 1)
    assert len(latest.to_json(spec)) <= most


def test_a_device_answers_by_the_named_columns_and_by_no_other():
    spec = spec_of(epsilon=16.0)  # at which a report hardly ever lies
    published, rng, codes = version_of(spec, (2, 7)), np.random.default_rng(0), set()
    sizes = np.array(spec.protocol.grids.over((2, 7)).sizes)
    for _ in range(20):
        context = rng.random(DIM)
        place = (context[[2, 7]] * sizes).astype(int)
        cell = place[0] * sizes[1] + place[1]
        for reward in (0.0, 1.0):
            client = Client(spec)
            assert client.choose(published, context) == published.arms[cell]
            positive = (reward == 1.0) != bool(published.turned[cell])
            assert client.report(reward)[17] == 2 * published.parts[cell] + (not positive)
        others = rng.random(DIM)
        others[[2, 7]] = context[[2, 7]]
        codes |= {int(spec.protocol.places(published, one)[0]) == cell for one in (context, others)}
    assert codes == {True}


HOSTILE = {
    "a column that is none": [2, DIM],
    "a column below 0": [-1, 2],
    "descending": [7, 2],
    "one twice": [2, 2],
    "half a column": [2.5],
    "no numbers": ["2"],
    "true": [True],
    "none": [],
    "no list": 2,
    "a name": "2",
    "another grid": [2],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_columns_are_refused_before_a_context_is_read(name):
    spec = spec_of()
    config = json.loads(version_of(spec, (2, 7)).to_json(spec))
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(json.dumps(config | {"columns": HOSTILE[name]}), spec)


def test_a_version_of_more_cells_than_its_page_says_is_refused():
    spec, cells = spec_of(), 8**4
    tables = {"arms": np.zeros(cells, dtype=int), "parts": np.zeros(cells, dtype=int)}
    large = PublishedQuestions(version=4, columns=(0, 1, 2, 3), turned=np.zeros(cells, dtype=bool), **tables)
    with pytest.raises(IncompatibleState, match="more than 1400 cells"):
        spec.protocol.fits(large)
    with pytest.raises(IncompatibleState):
        spec.protocol.places(large, np.full(DIM, 0.5))


def test_columns_are_named_where_there_are_many_and_only_there():
    many, few = spec_of(), spec_of(2)
    config = json.loads(version_of(many, (2, 7)).to_json(many))
    del config["columns"]
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(json.dumps(config), many)
    published = Server(few).publish()
    assert "columns" not in json.loads(published.to_json(few))
    for columns in ((0,), (0, 1)):
        with pytest.raises(IncompatibleState):
            few.protocol.fits(replace(published, columns=columns))


def told(spec, learner, versions, rng, *, first=0, follower=None):
    """A learner after so many versions of people whom arm 1 serves where columns 1 and 3 are both high.

    A follower is told the same and follows what was published.
    """
    coins = PublicCoins(1)
    (mechanism,) = spec.protocol.counted_by(learner.publish(spec, first, coins))
    for version in range(first, first + versions):
        published = learner.publish(spec, version, coins)
        people = rng.random((spec.protocol.reports_per_version, spec.dim))
        at = spec.protocol.places(published, people)
        good = (people[:, [1, 3]].min(axis=1) > 0.4) == (np.asarray(published.arms)[at] == 1)
        cells, signs = answers(published, at, rng.random(len(at)) < np.where(good, 0.9, 0.1))
        sums = mechanism.simulate(*signs_by_cell(cells, signs, mechanism.n_cells), rng)
        counted = [[(mechanism, sums, len(at))]]
        learner.count(spec, published, counted)
        learner.refine()
        if follower is not None:
            follower.follow(published)
            follower.count(spec, published, counted)
    return learner


def same(mine, theirs):
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("versions", [3, 60])
def test_a_restored_learner_goes_on_as_the_one_that_was_saved(versions):
    spec, rng = spec_of(5, epsilon=4.0, reports_per_version=100), np.random.default_rng(2)
    learner = told(spec, learner_for(spec), versions, rng)
    assert bool(groups_of(learner)) == (versions == 60)
    restored = learner_for(spec)
    restored.restore(learner.to_arrays())
    assert same(restored.to_arrays(), learner.to_arrays())
    lineages = [
        told(spec, one, 8, np.random.default_rng(3), first=versions)
        .publish(spec, 99, PublicCoins(5))
        .lineage(spec)
        for one in (learner, restored)
    ]
    assert lineages[0] == lineages[1]


@pytest.mark.parametrize(
    "change",
    [
        {"groups": np.ones((1, 6), dtype=bool)},
        {"groups": np.ones((1, 5))},
        {"groups": np.ones(5, dtype=bool)},
        {"groups": np.eye(5, dtype=bool)},
        {"groups": np.ones((7, 5), dtype=bool)},
        {"groups": np.ones((1, 5), dtype=bool)},
        {"numbers": np.zeros(2)},
        {"columns.3.heard": np.zeros((3, 4))},
    ],
)
def test_what_another_learner_kept_is_refused(change):
    spec = spec_of(5)
    with pytest.raises(IncompatibleState):
        learner_for(spec).restore(learner_for(spec).to_arrays() | change)


def test_a_follower_asks_about_the_columns_that_were_published():
    spec, rng = spec_of(5, epsilon=4.0, reports_per_version=100), np.random.default_rng(4)
    leader, follower, coins = learner_for(spec), learner_for(spec), PublicCoins(1)
    told(spec, leader, 60, rng, follower=follower)
    published = leader.publish(spec, 60, coins)
    assert len(published.columns) > 1
    follower.follow(published)
    assert follower.publish(spec, 61, coins).lineage(spec) == leader.publish(spec, 61, coins).lineage(spec)
    estimate = leader.estimate(spec, published)
    assert estimate.predict(spec, rng.random((6, 5)))[0].shape == (6, 2)
    # One that came to other columns can say what it expects by those that were published.
    other = version_of(spec, next((0, one) for one in (2, 4) if (0, one) not in groups_of(follower)))
    follower.follow(other)
    assert other.columns in groups_of(follower)
    assert follower.estimate(spec, other).mean.shape == (64, 2)


def groups_of(learner):
    """Columns that are asked about together."""
    return [tuple(np.flatnonzero(row).tolist()) for row in learner.to_arrays()["groups"]]


def n_told(learner, columns):
    """Reports from which the learner of these columns has learned."""
    arrays = learner.to_arrays()
    return sum(arrays[f"columns.{columns}.{kind}.n"].sum() for kind in ("rewards", "places"))


def test_reports_count_for_all_columns_together_that_they_are_about_and_for_nothing_else():
    spec, rng = spec_of(5, epsilon=4.0, reports_per_version=100), np.random.default_rng(5)
    learner = told(spec, learner_for(spec), 60, rng)
    names = ["-".join(map(str, columns)) for columns in [*((one,) for one in range(5)), *groups_of(learner)]]
    pair = next(columns for columns in groups_of(learner) if len(columns) == 2)
    assert any(set(pair) < set(columns) for columns in groups_of(learner))
    (mechanism,) = spec.protocol.counted_by(version_of(spec, (0,)))
    cells = np.zeros(50, dtype=np.int64)
    for asked in (*((one,) for one in range(5)), pair):
        before = {name: n_told(learner, name) for name in names}
        sums = mechanism.simulate(*signs_by_cell(cells, cells == 0, mechanism.n_cells), rng)
        learner.count(spec, version_of(spec, asked), [[(mechanism, sums, 50)]])
        for name in names:
            about = set(map(str, asked)) <= set(name.split("-"))
            assert n_told(learner, name) == before[name] + 50 * about


def test_columns_together_take_over_every_report_about_one_of_them_once():
    spec, rng = spec_of(5, epsilon=4.0, reports_per_version=100), np.random.default_rng(5)
    learner, version = learner_for(spec), 0
    while not groups_of(learner):
        told(spec, learner, 1, rng, first=version)
        version += 1
    assert {len(columns) for columns in groups_of(learner)} == {2, 3}
    for columns in groups_of(learner):
        alone = sum(n_told(learner, str(column)) for column in columns)
        assert n_told(learner, "-".join(map(str, columns))) == alone > 0


def test_late_reports_about_parts_that_have_moved_are_learned_as_if_they_had_come_in_time():
    """Of a grid of all columns: who is in a part is counted by the parts that were asked about."""
    spec, coins, rng = spec_of(1, epsilon=4.0), PublicCoins(1), np.random.default_rng(6)
    learners = learner_for(spec), learner_for(spec)
    old = learners[0].publish(spec, 0, coins)
    turned = replace(old, version=1, parts=old.parts[::-1])
    (mechanism,) = spec.protocol.counted_by(old)
    sums = [
        mechanism.simulate(*signs_by_cell(cells, cells >= 0, mechanism.n_cells), rng)
        for cells in rng.integers(3, size=(2, 300))
    ]
    told = [(version, [[(mechanism, sums[place], 300)]]) for place, version in enumerate((old, turned))]
    for learner, order in zip(learners, (told, told[::-1]), strict=True):
        for version, counted in order:
            learner.count(spec, version, counted)
        learner.refine()
    np.testing.assert_allclose(learners[0].places, learners[1].places, rtol=1e-6)


def test_it_finds_the_columns_that_matter():
    """12,000 people at epsilon 4: a correct learner fails with probability below 1e-6 (seed fixed)."""

    def means(x):
        high = (x[:, 3] > 0.5).astype(float) + (x[:, 6] > 0.5)
        return np.stack([np.full(len(x), 0.5), 0.1 + 0.4 * high], axis=1)

    one = World(name="two of ten", dim=DIM, n_arms=2, mean_rewards=means)
    found = simulate(spec_of(epsilon=4.0, seed=1), one, n_users=12_000, seed=1)
    assert {3, 6} & set(found.rule.columns)
    best_arm_for_all = 0.5
    assert found.reward[-20:].sum() / found.users[-20:].sum() > best_arm_for_all + 0.05
    assert found.bins == spec_of().protocol.grids.over(found.rule.columns).size


def told_of_one_column(spec, versions, chance, rng):
    """A learner after versions over column 2 with arms in turns; `chance` (G, K) is that of a reward 1."""
    learner = learner_for(spec)
    (mechanism,) = spec.protocol.counted_by(version_of(spec, (2,)))
    for version in range(versions):
        arms = (np.arange(8) + version) % spec.n_arms
        own = version_of(spec, (2,), arms=arms, turned=np.arange(8) < 4 * (version % 3))
        published = replace(own, version=version)
        at = spec.protocol.places(published, rng.random((100, spec.dim)))
        cells, signs = answers(published, at, rng.random(100) < chance[at, arms[at]])
        sums = mechanism.simulate(*signs_by_cell(cells, signs, mechanism.n_cells), rng)
        learner.count(spec, published, [[(mechanism, sums, 100)]])
        learner.refine()
    return learner


def given_by(learner, spec, versions):
    """Columns, and the numbers of the arms that are given there, of each of these versions."""
    published = [learner.publish(spec, version, PublicCoins(3)) for version in versions]
    return [(one.columns, set(np.asarray(one.arms).tolist())) for one in published]


def test_an_arm_that_leads_is_given_to_all_but_in_every_fourth_version():
    """800 people at epsilon 4, whom arm 1 serves better by .2, whoever they are (seed fixed)."""
    spec, rng = spec_of(6, epsilon=4.0, reports_per_version=100), np.random.default_rng(11)
    learner = told_of_one_column(spec, 8, np.full((8, 2), [0.4, 0.6]), rng)
    given = given_by(learner, spec, range(8, 48))
    assert all(arms == {1} for place, (_, arms) in enumerate(given) if place % 4 != 3)
    # Every fourth draws by cell: without it nothing would be told of the other arm.
    assert any(arms == {0, 1} for _, arms in given[3::4])


def test_no_arm_is_given_to_all_while_none_leads():
    """Before anybody has reported, and after 2,000 people whom both arms serve alike (seed fixed)."""
    spec, rng = spec_of(6, epsilon=4.0, reports_per_version=100), np.random.default_rng(12)
    for versions in (0, 20):
        learner = told_of_one_column(spec, versions, np.full((8, 2), 0.5), rng)
        given = given_by(learner, spec, range(versions, versions + 40))
        assert sum(arms == {0, 1} for place, (_, arms) in enumerate(given) if place % 4 != 3) > 10


def test_an_arm_that_leads_is_not_given_to_all_where_arms_by_cell_pay():
    """4,000 people at epsilon 4: arm 1 is better by .6 in five of eight cells, else worse (seed fixed)."""
    spec, rng = spec_of(6, epsilon=4.0, reports_per_version=100), np.random.default_rng(13)
    better = np.arange(8) >= 3
    chance = np.column_stack([np.where(better, 0.2, 0.8), np.where(better, 0.8, 0.2)])
    given = given_by(told_of_one_column(spec, 40, chance, rng), spec, range(40, 80))
    assert all(arms == {0, 1} for columns, arms in given if columns == (2,))
    assert sum(columns == (2,) for columns, _ in given) > 20


def test_robust_servers_expect_forged_reports_about_every_column():
    spec = spec_of(5, epsilon=4.0, reports_per_version=100)
    plain, robust = learner_for(spec), learner_for(spec)
    Robust(bytes(32), surprise=0.1).harden(robust)
    told(spec, plain, 30, np.random.default_rng(7))
    told(spec, robust, 30, np.random.default_rng(7))
    plain, robust = (
        sum(np.abs(one.to_arrays()[f"columns.{column}.model.moment"]).sum() for column in range(5))
        for one in (plain, robust)
    )
    assert robust < plain


def test_robust_servers_expect_forged_reports_about_columns_that_are_joined_later():
    spec = spec_of(5, epsilon=4.0, reports_per_version=100)
    robust, plain = learner_for(spec), learner_for(spec)
    Robust(bytes(32), surprise=0.01).harden(robust)
    told(spec, robust, 60, np.random.default_rng(4))
    plain.restore(robust.to_arrays())
    pair = groups_of(robust)[0]
    forged, name = version_of(spec, pair), f"columns.{pair[0]}-{pair[1]}.model.moment"
    (mechanism,) = spec.protocol.counted_by(forged)
    sums = np.zeros(2 * mechanism.n_cells, dtype=np.int64)
    sums[0] = 100
    moved = []
    for one in (robust, plain):
        before = one.to_arrays()[name].copy()
        one.count(spec, forged, [[(mechanism, sums, 100)]])
        moved.append(np.abs(one.to_arrays()[name] - before).max())
    assert moved[0] < 0.5 * moved[1]


def test_sources_are_for_grids_of_all_columns_and_for_trees():
    own = {"name": "last year", "n_users": 100, "privacy": dpb.LocalDP(epsilon=1)}
    with pytest.raises(InvalidParameter, match="learner='tree'"):
        SourceSpec(target=spec_of(), **own)
    assert SourceSpec(target=spec_of(learner="tree"), **own).target.learner == "tree"
