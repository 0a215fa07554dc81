"""Marginal tables as plain numbers: effects, cells, law of contexts, choice of tables, posterior."""

import numpy as np
import pytest
from scipy import stats

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.models.marginals import (
    ArmWeights,
    Counts,
    Design,
    EffectFeatures,
    Effects,
    Evidence,
    Law,
    Relevance,
    Tables,
    all_pairs,
    best_design,
    fitted_with_misfit,
    left_variances,
)
from dpbandits.models.marginals.effects import category_components, range_components
from dpbandits.models.marginals.law import shrunk_law

pytestmark = pytest.mark.numerics

EFFECTS = Effects.of([None, 3, None, 2])


@pytest.mark.parametrize(
    "table", [range_components(), range_components(7), *map(category_components, (2, 3, 9))]
)
def test_components_are_centred_orthogonal_and_of_variance_one(table):
    np.testing.assert_allclose(table.mean(axis=0), 0.0, atol=1e-12)
    gram = table.T @ table / len(table)
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    assert np.trace(gram) == pytest.approx(1.0)


def test_a_column_of_one_category_has_no_components():
    assert category_components(1).shape == (1, 0)
    assert Effects.of([1, None])(np.zeros((3, 2), dtype=np.int64)).shape == (3, 5)


def test_people_counted_column_by_column_have_its_margins_and_independent_columns():
    """Shares of 2,500 public draws lie within .06 of their law: six deviations of a fair coin's share."""
    law = Law((24, 3, 2), (True, False, False), Design((24, 3, 2), (4, 3, 2), ((0, 1),)), paired=False)
    assert law.cells == (24, 3, 2)
    levels = np.repeat([[0, 0, 0], [23, 1, 1], [12, 2, 1]], [500, 250, 250], axis=0)
    told = Counts.none(law.sizes).given(law, law.counts(levels).astype(float), people=1000, sd=0.01)
    found = told.described(np.random.default_rng(12).random((2500, 6)))
    np.testing.assert_allclose(found.weights, 1.0 / 2500)
    for column, expected in ((0, {0: 0.5, 23: 0.25, 12: 0.25}), (1, {0: 0.5, 1: 0.25, 2: 0.25})):
        assert set(found.levels[:, column].tolist()) == set(expected)
        for level, share in expected.items():
            assert (found.levels[:, column] == level).mean() == pytest.approx(share, abs=0.06)
    assert ((found.levels[:, 0] == 0) & (found.levels[:, 1] == 0)).mean() == pytest.approx(0.25, abs=0.06)


def test_features_are_the_products_that_the_terms_name():
    levels = EFFECTS.levels(np.array([[0.0, 2.0, 1.0, 1.0], [0.999, 0.0, 0.5, 0.0]]))
    assert levels.tolist() == [[0, 2, 23, 1], [23, 0, 12, 0]]
    phi = EFFECTS(levels)
    assert phi.shape == (2, 1 + (4 + 2 + 4 + 1) + (3 * 2 + 3 * 3 + 3 + 2 * 3 + 2 + 3))
    pair = next(term for term in EFFECTS.terms if term.columns == (1, 2))
    expected = np.outer(EFFECTS.tables[1][2], EFFECTS.tables[2][23][:3]).ravel()
    np.testing.assert_array_equal(phi[0, pair.start : pair.stop], expected)
    np.testing.assert_array_equal(phi[:, 0], 1.0)


def test_pairs_of_many_categories_are_left_out():
    wide = Effects.of([8, 8, None])
    assert (0, 1) not in {term.columns for term in wide.terms}  # 49 products
    assert (0, 2) in {term.columns for term in wide.terms}  # 21


def test_feature_map_has_norm_at_most_one_and_comes_back_from_its_configuration():
    domain = dpb.domains.Product(dpb.Box(low=[0, -5], high=[1, 5]), dpb.Arms(4))
    features = EffectFeatures(domain=domain)
    points = domain.sample(4000, np.random.default_rng(0))
    assert (np.linalg.norm(features(points), axis=1) <= 1.0).all()
    again = dpb.models.features.from_config(features.to_config())
    np.testing.assert_array_equal(again(points), features(points))
    with pytest.raises(InvalidParameter, match="boxes and arms"):
        EffectFeatures(domain=dpb.domains.Ball(centre=[0.0], radius=1.0))


def test_cells_of_a_design():
    design = Design(sizes=(24, 3, 24, 2), bins=(4, 3, 24, 2), groups=((0, 1), (3,)))
    levels = np.array([[0, 0, 5, 1], [23, 2, 7, 0], [6, 1, 0, 1]])
    assert design.cells == (12, 2)
    assert design.locate(levels).tolist() == [[0, 13], [11, 12], [4, 13]]
    dense = design.indicators(levels).toarray()
    assert dense.shape == (14, 3)
    assert dense.sum(axis=0).tolist() == [2, 2, 2]
    assert (dense[13].tolist(), dense[4].tolist()) == ([1, 0, 1], [0, 0, 1])
    back = Design.of_array(design.sizes, design.to_array())
    assert back == design
    empty = Design(sizes=(24, 3), bins=(2, 3), groups=((),))
    assert Design.of_array((24, 3), empty.to_array()) == empty
    assert empty.locate(levels[:, :2]).tolist() == [[0], [0], [0]]


def test_tables_that_share_columns_have_everybody_once_each():
    design = Design(sizes=(24, 3, 2), bins=(4, 3, 2), groups=((0, 1), (0, 2), (1, 2)))
    levels = np.array([[0, 0, 1], [23, 2, 0]])
    assert design.locate(levels).tolist() == [[0, 13, 21], [11, 18, 24]]
    assert design.indicators(levels).toarray().sum(axis=0).tolist() == [3, 3]
    assert Design.of_array(design.sizes, design.to_array()) == design


@pytest.mark.parametrize(
    "wrong",
    [
        [[0, 2], [2, 3]],
        [[-2, 0], [2, 3]],
        [[0, 1], [2, 4]],
        [[0, 1], [0, 3]],
        [[0, 1]],
        [[2, 3], [1, 1], [1, 1]],
        [[2, 3], [1, 0], [0, 1]],
        [[2, 3], [1, 1], [0, 0]],
        [[2, 3], [1, 1], [-1, 1]],
        [[2, 3], [1, 1], [2, 0]],
        [[2, 4], [1, 1], [1, 0]],
    ],
)
def test_a_design_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        Design.of_array((24, 3), np.array(wrong, dtype=np.int64))


def test_shrinking_keeps_what_noise_cannot_explain():
    truth, flat = np.array([0.7, 0.2, 0.1]), np.full(3, 1 / 3)
    np.testing.assert_allclose(shrunk_law(truth, flat, sd=0.0), truth)
    np.testing.assert_allclose(shrunk_law(truth, flat, sd=10.0), flat)
    distance = ((truth - flat) ** 2).sum()
    np.testing.assert_allclose(shrunk_law(truth, flat, sd=np.sqrt(distance / 6.0)), 0.5 * (truth + flat))
    assert (shrunk_law(np.array([1.2, -0.1, -0.1]), flat, sd=0.0) >= 0.0).all()
    np.testing.assert_allclose(shrunk_law(np.array([-1.0, -1.0, -1.0]), flat, sd=0.0), flat)


def people(count, rng):
    """Columns that depend on each other in a chain."""
    first = np.minimum(rng.geometric(0.15, count) - 1, 23)
    second = (first // 9 + (rng.random(count) < 0.2)) % 3
    third = (8 * second + rng.integers(0, 10, count)).clip(0, 23)
    return np.column_stack([first, second, third, (rng.random(count) < 0.2 + 0.3 * second).astype(int)])


def test_exact_counts_give_people_with_the_same_margins_and_pairs():
    rng, law = np.random.default_rng(3), Law(EFFECTS.sizes, EFFECTS.ordered)
    levels = people(20_000, rng)
    entries = law.locate(levels)
    counts = np.bincount(entries.ravel(), minlength=sum(law.cells)).astype(float)
    assert counts.sum() == len(law.tables) * len(levels)
    told = Counts.none(law.sizes).given(law, counts, people=len(levels), sd=0.0)
    found = told.described(rng.random((2500, 8)))
    assert found.weights.sum() == pytest.approx(1.0)
    assert (found.weights >= 0).all()
    again = np.bincount(
        law.locate(found.levels).ravel(),
        weights=np.repeat(found.weights, len(law.tables)),
        minlength=len(counts),
    )
    pairs = slice(sum(EFFECTS.sizes), None)
    assert np.abs(again - counts / len(levels))[pairs].max() < 0.01  # raked
    assert np.abs(again - counts / len(levels)).max() < 0.05  # a margin within a part is sampled


def test_counts_that_are_all_noise_give_people_all_the_same():
    rng, law = np.random.default_rng(4), Law(EFFECTS.sizes, EFFECTS.ordered)
    counts = rng.normal(0.0, 1e4, sum(law.cells))
    found = Counts.none(law.sizes).given(law, counts, people=100.0, sd=1e4).described(rng.random((2500, 8)))
    assert np.isfinite(found.weights).all()
    assert found.weights.sum() == pytest.approx(1.0)
    assert (found.levels >= 0).all()
    assert (found.levels < EFFECTS.sizes).all()


@pytest.mark.parametrize("seed", [1, 3, 5, 7, 9, 11])
def test_last_bits_of_counts_do_not_decide_which_people_are_drawn(seed):
    """Pairs that counts show to be independent have an information of zero, up to rounding."""
    rng, sizes = np.random.default_rng(seed), (24,) * 4
    law = Law(sizes, (True,) * 4, Design(sizes, (12, 8, 6, 12), ((0, 1), (2, 3))))
    uniforms = rng.random((500, 8))
    counts = law.counts(rng.integers(0, 24, (2000, 4))) + rng.normal(0.0, 60.0, sum(law.cells))
    signs = np.random.default_rng(1).choice([-1, 1], counts.size)
    drawn = [
        Counts.none(sizes).given(law, own, people=2000.0, sd=60.0).described(uniforms).levels
        for own in (counts, counts * (1.0 + 1e-15 * signs))
    ]
    assert (drawn[0] != drawn[1]).mean() < 0.01  # a draw at the edge of a level may move


def test_one_column_alone_is_a_law_without_pairs():
    law = Law((24,), (True,))
    told = Counts.none((24,)).given(law, np.arange(24.0), people=276.0, sd=0.0)
    found = told.described(np.random.default_rng(5).random((2500, 2)))
    assert found.levels.shape == (2500, 1)
    assert np.bincount(found.levels[:, 0], minlength=24)[0] == 0


def test_pairs_of_a_reward_table_are_counted_in_its_bins():
    """The number of tables, which the sensitivity depends on, is the same under every design."""
    design = Design(EFFECTS.sizes, (12, 3, 8, 2), ((0, 2), (1,)))
    without, law = (Law(EFFECTS.sizes, EFFECTS.ordered, own) for own in (None, design))
    assert len(law.tables) == len(without.tables) == 4 + 6
    different = [
        (own, one) for own, one in zip(law.tables, without.tables, strict=True) if own.bins != one.bins
    ]
    assert different == [(((0, 2), (12, 8)), ((0, 2), (4, 4)))]
    assert sum(law.cells) == sum(without.cells) - 16 + 96
    assert max(sum(law.cells), sum(without.cells)) <= law.most_cells == without.most_cells
    levels = people(300, np.random.default_rng(8))
    assert law.locate(levels).shape == (300, 10)
    own = law.tables.index(((0, 2), (12, 8)))
    expected = np.bincount(levels[:, 0] // 2 * 8 + levels[:, 2] // 3, minlength=96)
    np.testing.assert_array_equal(law.split(law.counts(levels))[own], expected)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_counts_of_blocks_with_other_bins_describe_the_same_people(order):
    """Two columns on a line: the cells that a reward table sees are as full as they were counted."""
    rng, sizes, ordered = np.random.default_rng(21), (24, 24), (True, True)
    designs = [Design(sizes, bins, ((0, 1),)) for bins in ((12, 12), (6, 8))]
    laws = [Law(sizes, ordered, design) for design in designs]
    told, shares = Counts.none(sizes), []
    for at in order:
        levels = np.repeat(rng.integers(0, 24, 20_000)[:, None], 2, axis=1)
        told = told.given(laws[at], laws[at].counts(levels).astype(float), people=20_000.0, sd=0.0)
        shares.append(np.bincount(designs[at].locate(levels)[:, 0], minlength=designs[at].n_cells) / 20_000)
    assert told.people == 40_000.0
    found = told.described((rng.random((2500, 4)).argsort(axis=0).argsort(axis=0) + 0.5) / 2500)
    for at, share in zip(order, shares, strict=True):
        cells = designs[at].locate(found.levels)[:, 0]
        again = np.bincount(cells, weights=found.weights, minlength=len(share))
        assert np.abs(again - share).max() < 0.02


def test_counts_of_equal_tables_are_added_up_and_fade():
    law = Law((3, 2), (False, False))
    one = law.counts(np.array([[0, 1], [2, 0], [2, 1]])).astype(float)
    twice = Counts.none(law.sizes).given(law, one, people=3.0, sd=2.0).given(law, one, people=3.0, sd=2.0)
    assert twice.people == 6.0
    assert twice.share_sd == pytest.approx(8.0**0.5 / 6.0)
    faded = twice.given(law, one, people=3.0, sd=2.0, kept=0.5)
    assert faded.people == 6.0
    assert faded.share_sd == pytest.approx((0.25 * 8.0 + 4.0) ** 0.5 / 6.0)
    for table, own in zip(law.tables, law.split(one), strict=True):
        np.testing.assert_allclose(faded.tables[table].counts, 2.0 * own)
    # What has all but faded is no longer held.
    finer = Law((3, 2), (False, False), Design((3, 2), (1, 2), ((0, 1),)))
    later = twice.given(finer, np.ones(sum(finer.cells)), people=3.0, sd=2.0, kept=1e-4)
    assert set(later.tables) == set(finer.tables)


def noise_variance(groups):
    return 50.0 * groups**2


def valued(design, variance, effects=EFFECTS, people=1000.0, noise=noise_variance):
    """Return the variance of the reward function that tables explain; -inf if they are too large."""
    left = left_variances(
        effects,
        design,
        variance=variance,
        people=people,
        noise_variance=noise(max(1, len(design.groups))),
        reward_variance=0.25,
    )
    grid = np.stack(np.meshgrid(*map(np.arange, effects.sizes), indexing="ij"), axis=-1)
    squares = (effects(grid.reshape(-1, len(effects.sizes))) ** 2).mean(axis=0)
    return float(squares @ (variance - left))


def test_the_value_of_tables_is_the_formula_of_the_module():
    effects = Effects.of([None])
    variance = np.array([0.02, 0.01, 0.01, 0.01, 0.01])
    table = range_components()
    squares = (table**2).mean(axis=0)
    means = table.reshape(4, 6, 4).mean(axis=1)  # four bins of six levels
    kept = (means**2).mean(axis=0) / squares
    information = 1000.0 * squares * kept / (50.0 * 4 / 1000.0 + 0.25)
    alone = 1000.0 / (50.0 * 4 / 1000.0 + 0.25)
    expected = (squares * 1e-4 * information / (1.0 + 0.01 * information)).sum() + 4e-4 * alone / (
        1.0 + 0.02 * alone
    )
    told = Design(effects.sizes, (4,), ((0,),))
    assert valued(told, variance, effects) == pytest.approx(expected, rel=1e-12)
    constant = 1000.0 / (50.0 / 1000.0 + 0.25)
    nothing = Design(effects.sizes, (4,), ((),))
    assert valued(nothing, variance, effects) == pytest.approx(4e-4 * constant / (1.0 + 0.02 * constant))


def partitions(columns):
    """Yield all ways to put columns into disjoint groups, or into none."""
    if not columns:
        yield ()
        return
    first, *rest = columns
    for groups in partitions(rest):
        yield groups
        yield ((first,), *groups)
        for place, group in enumerate(groups):
            yield (*groups[:place], (first, *group), *groups[place + 1 :])


@pytest.mark.parametrize("seed", range(6))
def test_the_best_design_is_the_best_of_all_or_nearly(seed):
    """No groups and bins of a range and two categories explain more than 1% more than the chosen ones."""
    rng = np.random.default_rng(seed)
    effects = Effects.of([None, 3, 2])
    prior = Relevance.prior(effects).variances[effects.term_of]
    variance = prior * rng.exponential(1.0, len(effects.terms))[effects.term_of]
    people = float(rng.choice([100.0, 1000.0, 10_000.0]))
    found = best_design(
        effects, variance=variance, people=people, noise_variance=noise_variance, reward_variance=0.25
    )
    designs = [
        Design(effects.sizes, (bins, 3, 2), tuple(sorted(groups)) or ((),))
        for groups in partitions([0, 1, 2])
        if max(map(len, groups), default=0) <= 2
        for bins in (2, 3, 4, 6, 8, 12)
    ]
    values = [valued(design, variance, effects, people) for design in designs]
    assert len(designs) == 14 * 6
    assert valued(found, variance, effects, people) >= 0.99 * max(values)


@pytest.mark.parametrize(
    "categories", [[None] * 40, [None] * 90, [30, None, *[8] * 20], [1, None, 250, *[2] * 12]]
)
def test_the_best_design_of_many_columns_keeps_to_its_limits(categories):
    effects = Effects.of(categories)
    few = Effects(effects.sizes, effects.ordered, pairs=())
    design = best_design(
        few,
        variance=Relevance.prior(few).variances[few.term_of],
        people=10_000.0,
        noise_variance=noise_variance,
        reward_variance=0.25,
    )
    assert max(design.cells) <= 200
    assert design.n_cells <= 320
    assert sum(map(len, design.groups)) > 3
    assert max(map(len, design.groups)) <= 2


def test_pairs_that_are_not_learned_yet_count_with_their_prior_variance():
    every = Effects.of([None, 3, None, 2])
    few = Effects(every.sizes, every.ordered, pairs=())
    arguments = {"people": 20_000.0, "noise_variance": noise_variance, "reward_variance": 0.25}
    one = best_design(every, variance=Relevance.prior(every).variances[every.term_of], **arguments)
    other = best_design(few, variance=Relevance.prior(few).variances[few.term_of], **arguments)
    assert one == other
    assert one.pairs


def test_the_best_design_holds_the_columns_that_matter_and_no_others():
    variance = np.full(EFFECTS.n_weights, 1e-9)
    for term in EFFECTS.terms:
        if term.columns in ((), (0,), (3,), (0, 3)):
            variance[term.start : term.stop] = 0.05
    arguments = {"people": 3000.0, "noise_variance": noise_variance, "reward_variance": 0.25}
    design = best_design(EFFECTS, variance=variance, **arguments)
    assert design.groups == ((0, 3),)
    flat = best_design(EFFECTS, variance=np.full(EFFECTS.n_weights, 1e-12), **arguments | {"people": 30.0})
    assert design.n_cells > flat.n_cells
    assert (
        design.to_array().tolist() == best_design(EFFECTS, variance=variance, **arguments).to_array().tolist()
    )


def test_evidence_is_bayesian_regression():
    rng = np.random.default_rng(6)
    effects = Effects.of([2, 2])
    m = effects.n_weights
    maps, sums = rng.normal(size=(2, 5, m)), rng.normal(size=(2, 5))
    root = rng.normal(size=(2, 5, 5))
    covariances = root @ root.transpose(0, 2, 1) + np.eye(5)
    evidence = Evidence.none(2, m)
    for stop in (2, 5):
        evidence = evidence.given(
            (maps[arm, :stop], covariances[arm, :stop, :stop], sums[arm : arm + 1, :stop]) for arm in range(2)
        )
    relevance = Relevance.prior(effects)
    found = ArmWeights.of(effects, evidence, relevance)
    for arm in range(2):
        precision = np.diag(1.0 / relevance.variances[effects.term_of])
        shift = np.zeros(m)
        for stop in (2, 5):
            inverse = np.linalg.inv(covariances[arm, :stop, :stop])
            precision = precision + maps[arm, :stop].T @ inverse @ maps[arm, :stop]
            shift = shift + maps[arm, :stop].T @ inverse @ sums[arm, :stop]
        np.testing.assert_allclose(found.mean[arm], np.linalg.solve(precision, shift), rtol=1e-9)
        covariance = np.linalg.inv(precision)
        np.testing.assert_allclose(found.factor[arm] @ found.factor[arm].T, covariance, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.variances[arm], np.diag(covariance), rtol=1e-8)


def test_tables_that_arms_share_say_the_same_as_one_by_one():
    rng = np.random.default_rng(16)
    effects = Effects.of([2, 3])
    m = effects.n_weights
    maps, sums, root = rng.normal(size=(5, m)), rng.normal(size=(3, 5)), rng.normal(size=(5, 5))
    covariance = root @ root.T + np.eye(5)
    together = Evidence.none(3, m).given([(maps, covariance, sums)])
    apart = Evidence.none(3, m).given((maps, covariance, own[None]) for own in sums)
    np.testing.assert_allclose(together.precision, apart.precision, rtol=1e-12)
    np.testing.assert_allclose(together.shift, apart.shift, rtol=1e-12, atol=1e-12)
    assert len(together.matrices) == 1
    for evidence in (together, together.given((maps, covariance, own[None]) for own in sums)):
        found, faded = (
            ArmWeights.of(effects, one, Relevance.prior(effects)) for one in (evidence, evidence.faded(0.5))
        )
        copied = Evidence(np.array(evidence.precision), evidence.shift)
        alone = ArmWeights.of(effects, copied, Relevance.prior(effects))
        np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.variances, alone.variances, rtol=1e-9)
        assert (faded.variances > found.variances).all()


def test_evidence_about_more_weights_says_nothing_of_the_others():
    effects = Effects.of([3, 2, None])
    few = Effects(effects.sizes, effects.ordered, pairs=((0, 2),))
    places = few.places_in(effects)
    levels = np.column_stack([np.random.default_rng(5).integers(0, size, 50) for size in effects.sizes])
    np.testing.assert_array_equal(few(levels), effects(levels)[:, places])
    rng = np.random.default_rng(6)
    maps = rng.normal(size=(4, few.n_weights))
    evidence = Evidence.none(2, few.n_weights).given([(maps, np.eye(4), rng.normal(size=(2, 4)))])
    wide = evidence.among(places, effects.n_weights)
    np.testing.assert_array_equal(wide.precision[:, places[:, None], places], evidence.precision)
    assert wide.precision.sum() == pytest.approx(evidence.precision.sum())
    narrow_law = ArmWeights.of(few, evidence, Relevance.prior(few))
    relevance = Relevance.prior(few).among(few, effects)
    np.testing.assert_array_equal(relevance.variances, Relevance.prior(effects).variances)
    wide_law = ArmWeights.of(effects, wide, relevance)
    np.testing.assert_allclose(wide_law.mean[:, places], narrow_law.mean, atol=1e-12)
    others = np.setdiff1d(np.arange(effects.n_weights), places)
    np.testing.assert_array_equal(wide_law.mean[:, others], 0.0)
    np.testing.assert_allclose(wide_law.variances[:, others], 0.001, rtol=1e-9)


def test_pairs_join_in_order_and_large_ones_never():
    effects = Effects((8, 8, 24, 2), (False, False, True, False), pairs=())
    assert {len(term.columns) for term in effects.terms} == {0, 1}
    assert effects.with_pairs([(0, 1)]) is effects  # 49 products
    joined = effects.with_pairs([(2, 3), (0, 2)]).with_pairs([(1, 3), (0, 2)])
    assert joined.pairs == ((0, 2), (1, 3), (2, 3))
    every = Effects((8, 8, 24, 2), (False, False, True, False))
    assert every.with_pairs([(0, 2)]) is every
    assert Effects.of([None] * 10).all_pairs_fit(100)
    assert not Effects.of([None] * 30).all_pairs_fit(2)
    assert not Effects.of([None] * 12).all_pairs_fit(100)


@pytest.mark.parametrize("pairs", [((1, 0),), ((0, 1), (0, 1)), ((1, 2), (0, 1)), ((0, 5),), ((0, 0),)])
def test_pairs_that_are_none_are_refused(pairs):
    with pytest.raises(InvalidParameter, match="pairs"):
        EffectFeatures(domain=dpb.Box(low=[0, 0, 0], high=[1, 1, 1]), pairs=pairs)


def test_features_with_pairs_come_back_from_their_configuration():
    domain = dpb.Box(low=[0, 0, 0], high=[1, 1, 1])
    features = EffectFeatures(domain=domain, pairs=((0, 2),))
    again = dpb.models.features.from_config(features.to_config())
    points = domain.sample(50, np.random.default_rng(0))
    np.testing.assert_array_equal(again(points), features(points))
    assert features.n_features < EffectFeatures(domain=domain).n_features
    assert (np.linalg.norm(features(points), axis=1) <= 1.0).all()


def test_one_step_of_relevance_is_the_formula():
    effects = Effects.of([3, 2])
    squares = np.arange(2.0 * effects.n_weights).reshape(2, -1)
    found = Relevance.prior(effects).learned(effects, squares).variances
    total = squares.sum(
        axis=0
    )  # weights: constant, two of the first column, one of the second, two of the pair
    assert found[0] == pytest.approx((total[0] + 2 * 0.02) / (2 + 2))
    assert found[1] == pytest.approx((total[1:3].sum() + 2 * 0.01) / (4 + 2))
    assert found[2] == pytest.approx((total[3] + 2 * 0.01) / (2 + 2))
    pooled = (total[4:].sum() + 2 * 0.001) / (4 + 2)
    assert found[3] == pytest.approx((total[4:].sum() + 30 * pooled) / (4 + 30))


@pytest.mark.parametrize("pairs", [None, ()])
def test_a_last_column_of_one_category_has_no_weights_and_its_prior_relevance(pairs):
    effects = Effects((3, 1), (False, False), pairs)
    found = Relevance.prior(effects).learned(effects, np.ones((2, effects.n_weights))).variances
    assert effects.n_weights == 3
    assert len(found) == len(effects.terms)
    assert found[2] == pytest.approx(0.01)


def test_relevance_finds_the_column_that_matters():
    rng = np.random.default_rng(7)
    levels = np.column_stack([rng.integers(0, size, 5000) for size in EFFECTS.sizes])
    phi = EFFECTS(levels)
    values = 0.3 * EFFECTS.tables[0][levels[:, 0], 0] + rng.normal(0.0, 0.5, 5000)
    evidence = Evidence(np.stack([4.0 * phi.T @ phi]), np.stack([4.0 * phi.T @ values]))
    found = ArmWeights.fitted(EFFECTS, evidence, Relevance.prior(EFFECTS), steps=15)
    by_column = found.relevance.variances[EFFECTS.order == 1]
    assert by_column[0] > 2.0 * by_column[1:].max()
    np.testing.assert_allclose(found.mean[0, 1], 0.3, atol=0.1)  # its standard error is about .01


def test_a_function_of_prior_variance_one_has_weights_of_variance_scale_squared():
    domain = dpb.domains.Product(dpb.Box(low=[0, 0], high=[1, 1]), dpb.Arms(4))
    features = EffectFeatures(domain=domain)
    corners = np.stack(np.meshgrid(*[(np.arange(24) + 0.5) / 24] * 2, np.arange(4.0)), axis=-1).reshape(-1, 3)
    variances = features.scale**2 * (features(corners) ** 2).sum(axis=1)
    assert variances.mean() == pytest.approx(1.0, rel=0.02)  # pairs keep three of four components
    effects = features.effects
    weights = np.random.default_rng(9).normal(size=effects.n_weights)
    expected = effects(effects.levels(corners)) @ weights
    np.testing.assert_allclose(
        features(corners) @ (features.ratio * weights), expected, rtol=1e-9, atol=1e-12
    )


# -- one release, with an error of its own ------------------------------------------------------------------


def tables_of(effects, *, wrong, seed, people=20_000, cells=60, noise=3.0):
    """Tables of two arms' weights, whose map is off by a relative error."""
    rng = np.random.default_rng(seed)
    phi = effects(np.column_stack([rng.integers(0, size, cells) for size in effects.sizes]))
    each = np.full(cells, people / cells)
    weights = rng.normal(0.0, 0.1, (2, effects.n_weights))
    truth = weights @ (each[:, None] * phi).T
    sums = truth + each * rng.normal(0.0, max(wrong, 1e-9), (2, cells)) + rng.normal(0.0, noise, (2, cells))
    return Tables(each[:, None] * phi, sums, noise**2 * np.eye(cells), each), weights


@pytest.mark.parametrize("seed", range(3))
def test_how_far_tables_are_off_is_learned_from_them(seed):
    effects = Effects((24, 3), (True, False))
    right, weights = tables_of(effects, wrong=0.0, seed=seed)
    law, misfit = fitted_with_misfit(effects, right)
    assert misfit <= 0.01
    assert np.abs(law.mean - weights).max() < 0.1
    off, _ = tables_of(effects, wrong=0.1, seed=seed)
    doubtful, larger = fitted_with_misfit(effects, off)
    assert 0.06 <= larger <= 0.2
    assert (doubtful.variances.sum(axis=1) > law.variances.sum(axis=1)).all()


def test_the_likelihood_of_tables_is_that_of_their_law():
    effects = Effects((3, 2), (False, False))
    tables, _ = tables_of(effects, wrong=0.05, seed=4, cells=5)
    relevance = Relevance.prior(effects)
    prior = np.diag(relevance.variances[effects.term_of])
    law = tables.maps @ prior @ tables.maps.T + tables.covariance
    off = tables.people**2 + (0.25 * tables.people.mean()) ** 2
    expected = [
        sum(
            stats.multivariate_normal(np.zeros(5), law + misfit**2 * np.diag(off)).logpdf(own)
            for own in tables.sums
        )
        for misfit in (0.01, 0.2)
    ]
    found = [tables.log_likelihood(effects, relevance, misfit) for misfit in (0.01, 0.2)]
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0])


def test_what_tables_leave_unknown_is_what_their_value_takes_off():
    """lambda u^2 I/(1 + u I) summed is what the variances shrink by, times the features' mean squares."""
    effects = Effects((24, 3, 24), (True, False, True))
    design = Design(effects.sizes, (8, 3, 8), ((0, 1), (2,)))
    variance = Relevance.prior(effects).variances[effects.term_of]
    shared = {"variance": variance, "people": 5000.0, "reward_variance": 0.25}
    left = left_variances(effects, design, noise_variance=40.0, **shared)
    assert (left <= variance).all()
    told = [term for term in effects.terms if term.columns in ((), (0,), (1,), (2,), (0, 1))]
    known = np.zeros(effects.n_weights, dtype=bool)
    for term in told:
        known[term.start : term.stop] = True
    assert (left[known] < variance[known]).all()
    assert (left[~known] == variance[~known]).all()
    kept = (range_components().reshape(8, 3, 4).mean(axis=1) ** 2).mean(axis=0)[:1]
    information = 5000.0 * kept / (40.0 * 24 / 5000.0 + 0.25)
    np.testing.assert_allclose(left[1], variance[1] / (1.0 + variance[1] * information))
    both = left_variances(effects, all_pairs(effects, 8), noise_variance=40.0, **shared)
    # tables of 24 and of 64 cells hold the column: the noise of their mean is that of 24 * 64/(24 + 64)
    averaged = 5000.0 * kept / (40.0 * (24 * 64 / 88) / 5000.0 + 0.25)
    np.testing.assert_allclose(both[1], variance[1] / (1.0 + variance[1] * averaged))
