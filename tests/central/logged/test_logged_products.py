"""Logs of products: what a row adds, what one user moves, what is learned, and how a table is described."""

import itertools
import json
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit, ExploreTuning, NothingToLearn, PublishedFunction
from dpbandits.central.logged.logged_table import LoggedTable
from dpbandits.errors import InvalidParameter
from dpbandits.export import decide_by
from dpbandits.tables.described import DescribedTable
from internals import logged_tables as inside

ONE, K = 1 << 20, 30
KINDS, REGIONS = ["tea", "mug", "book"], ["north", "south", "west"]
PEOPLE = dpb.Schema(income=dpb.Range(0, 10), region=dpb.Categories(REGIONS))
COLUMNS = dpb.Schema(kind=dpb.Categories(KINDS), price=dpb.Range(0, 20))
TABLE = {"product": [f"p{place}" for place in range(K)], "kind": KINDS * 10, "price": np.linspace(0, 20, K)}
SHOP = dpb.Products(TABLE, columns=COLUMNS, name="product")


def policy(*, rows=6_000, rounds=1, epsilon=5.0, tuning=None, user_ids=False, **changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": SHOP,
        "reward_range": (0, 1),
        "horizon": rows,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6, rounds_per_user=rounds, user_ids=user_ids),
        "noise": dpb.SimulatedNoise(1),
        "tuning": tuning,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        return ExploreThenCommit(**(arguments | changes))


def wanted(people, codes):
    """Chance that people buy: what is of the kind of their region, and cheap enough for their income."""
    liked = np.array(REGIONS)[codes % 3] == people["region"]
    return 0.1 + 0.5 * liked + 0.3 * (np.array(TABLE["price"])[codes] < 2 * people["income"])


def log(rows, *, seed=0, chances=None, codes=None):
    rng = np.random.default_rng(seed)
    people = {"income": rng.uniform(0, 10, rows), "region": rng.choice(REGIONS, rows)}
    codes = rng.choice(K, rows, p=chances) if codes is None else codes
    return people, codes, (rng.random(rows) < wanted(people, codes)).astype(float)


def labels(codes):
    return [TABLE["product"][code] for code in codes.tolist()]


def uplift(function, *, rows=3_000):
    """Share of the uplift from a random product to the best for each person."""
    people, _, _ = log(rows, seed=99)
    every = np.stack([wanted(people, np.full(rows, code)) for code in range(K)], axis=1)
    got = every[np.arange(rows), function.choose(people)].mean()
    return (got - every.mean()) / (every.max(axis=1).mean() - every.mean())


@pytest.mark.parametrize("chance", [None, 1e-300, 0.001, 1 / K, 0.2, 1.0])
@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
def test_a_row_adds_its_cut_weighted_reward_to_one_entry_of_every_table(chance, reward):
    """Exact arithmetic: clip((r - b)/(K p B), -1, 1), with B = 3/2, in the row of the bin and of the arm."""
    chooser = policy(tuning=ExploreTuning(bound=1.5))
    mechanism = inside.mechanism(chooser)
    weight = Fraction(1) if chance is None else Fraction(1, K) / Fraction(chance)
    exact = max(Fraction(-1), min(Fraction(1), weight * (Fraction(reward) - Fraction(1, 2)) / Fraction(3, 2)))
    for code in (0, 7, K - 1):
        part = chooser.shard()
        chances = None if chance is None else [chance]
        part.learn(
            {"income": [3.0], "region": ["west"]}, labels(np.array([code])), [reward], propensities=chances
        )
        vector = part.cells.sums[0]
        sums, counts = inside.parts(chooser, vector)
        by_bin, tables = [0] * mechanism.n_rows, len(mechanism.design.groups)
        by_bin[mechanism.row_of[code]] = tables * round(exact * ONE)
        assert sums.sum(axis=1).tolist() == pytest.approx(by_bin, abs=tables)
        alone = vector[sums.size : sums.size + K]
        assert np.flatnonzero(alone).tolist() == ([code] if round(exact * ONE) else [])
        assert alone[code] == pytest.approx(round(exact * ONE), abs=1)
        assert [own[own != 0].tolist() for own in counts] == [[ONE]] * len(counts)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("alone", [True, False])
def test_one_user_moves_sums_and_counts_by_no_more_than_the_noise_covers(rounds, alone):
    chooser = policy(
        rows=6_000 if alone else 100, epsilon=5.0 if alone else 1.0, rounds=rounds, user_ids=True
    )
    mechanism = inside.mechanism(chooser)
    assert mechanism.n_alone == (K if alone else 0)
    cells = list(itertools.product([0.0, 9.9], ["p0", "p29", "p1", "none"], [0.0, 1.0], [1e-9, 1 / K]))
    vectors = []
    for picked in itertools.islice(
        itertools.product(cells, repeat=rounds), 0, None, 1 if rounds == 1 else 23
    ):
        part = chooser.shard()
        rows = [*picked, (5.0, "p4", 1.0, 0.1), (5.0, "p5", 0.0, np.nan)]
        part.learn(
            {"income": [row[0] for row in rows], "region": ["north"] * len(rows)},
            [row[1] for row in rows],
            [row[2] for row in rows],
            propensities=[row[3] for row in rows],
            users=["me"] * rounds + ["a", "b"],
        )
        vectors.append(part.cells.sums[0])
    ends = inside.parts(chooser, vectors[0])[0].size + mechanism.n_alone
    found = np.array(vectors)
    places = np.flatnonzero((found != found[0]).any(axis=0))  # entries that somebody moves
    moved = np.abs(found[:, None, places] - found[None, :, places])
    sums, counts = moved[..., places < ends].sum(axis=-1), moved[..., places >= ends].sum(axis=-1) / ONE
    assert sums.max() == mechanism.sensitivity
    assert mechanism.sensitivity == 2 * (len(mechanism.design.groups) + alone) * ONE * rounds
    assert counts.max() <= mechanism.shares.count_sensitivities[0]


def test_every_entry_of_the_sums_has_noise_of_this_sensitivity(monkeypatch):
    asked = inside.noiseless(monkeypatch)
    promise = dpb.JointDP(epsilon=1.0, user_ids=False)
    chooser = policy(privacy=promise)
    people, codes, rewards = log(2_000)
    chooser.learn(people, labels(codes), rewards)
    chooser.publish()
    mechanism = inside.mechanism(chooser)
    entries = mechanism.n_rows * mechanism.design.n_cells + K
    (rate,) = [Fraction(rate) for rate, size in asked if size == entries]
    assert rate * mechanism.sensitivity <= Fraction(17, 20)


def test_a_peaked_log_is_learned_with_its_propensities_and_features_help():
    chances = np.where(np.arange(K) < 6, 0.1, 0.4 / (K - 6))
    people, codes, rewards = log(6_000, chances=chances)
    found = {}
    for name, arms, weights in (
        ("features", SHOP, chances[codes]),
        ("none", TABLE["product"], chances[codes]),
    ):
        chooser = policy(arms=arms, epsilon=2.0, tuning=ExploreTuning(bound=1.5, release="marginals"))
        chooser.learn(people, labels(codes), rewards, propensities=weights)
        found[name] = uplift(chooser.publish())
    assert found["features"] > 0.75
    assert found["features"] > found["none"] + 0.1


def test_a_product_that_came_in_the_middle_is_learned_with_the_share_of_rows_in_which_it_was_offered():
    """The new product is the best, in half of the rows; propensities times 1/2 make its sums unbiased."""
    rows, rng = 8_000, np.random.default_rng(3)
    codes = np.where(np.arange(rows) < rows // 2, rng.integers(0, K - 1, rows), rng.integers(0, K, rows))
    people, _, _ = log(rows)
    rewards = (rng.random(rows) < np.where(codes == K - 1, 0.95, 0.3)).astype(float)
    chances = np.where(np.arange(rows) < rows // 2, 1 / (K - 1), 1 / K)
    new = {}
    for corrected in (True, False):
        weights = np.where(codes == K - 1, chances / (2 if corrected else 1), chances)
        chooser = policy(rows=rows, epsilon=50.0, tuning=ExploreTuning(bound=1.1))
        chooser.learn(people, labels(codes), rewards, propensities=weights)
        new[corrected] = chooser.publish().predict(log(100)[0])[0][:, K - 1].mean()
    assert new[True] > new[False] + 0.1
    assert 0.7 < new[True] < 1.0


def test_a_function_is_published_exported_saved_and_restored(tmp_path):
    chooser = policy(rows=3_000)
    people, codes, rewards = log(3_000)
    first, second = (slice(0, 1_500), slice(1_500, None))
    for rows in (first, second):
        part = chooser.shard()
        part.learn({name: own[rows] for name, own in people.items()}, labels(codes[rows]), rewards[rows])
        chooser.merge(part)
    chooser.save(tmp_path / "state")
    restored = ExploreThenCommit.load(tmp_path / "state")
    assert restored.menu.products == SHOP
    function = restored.publish()
    again = ExploreThenCommit.load(tmp_path / "state").publish()
    read = PublishedFunction.from_files(function.to_files())
    person = {"income": 6.0, "region": "south"}
    assert function.to_json() == again.to_json() == read.to_json()
    assert function.recommend(person) == decide_by(json.loads(function.to_decisions()), person)
    assert chooser.to_config()["arms"]["labels"] == TABLE["product"]


def test_what_does_not_go_with_products_is_refused_and_the_statement_names_their_table():
    with pytest.raises(InvalidParameter, match="without features"):
        policy(tuning=ExploreTuning(release="features"))
    with pytest.raises(InvalidParameter, match="leave kernel"):
        policy(kernel=dpb.kernels.SquaredExponential(lengthscale=0.3))
    said = policy().guarantee
    assert "public features of arms" in {one.name for one in said.assumptions}
    plain = policy(arms=SHOP.labels, tuning=ExploreTuning(release="marginals")).guarantee
    assert "public features of arms" not in {one.name for one in plain.assumptions}


TOML = """
horizon = 2000
[columns.income]
low = 0
high = 10
[columns.region]
categories = ["north", "south", "west"]
[log]
arm = "product"
reward = "bought"
low = 0
high = 1
[products]
path = "products.csv"
name = "product"
[products.columns.kind]
categories = ["tea", "mug", "book"]
[products.columns.price]
low = 0
high = 20
"""


def test_a_file_names_the_table_of_products_and_a_log_is_learned_from_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(TABLE).to_csv(tmp_path / "products.csv", index=False)
    people, codes, rewards = log(2_000)
    pandas.DataFrame(people | {"product": labels(codes), "bought": rewards}).to_csv(tmp_path / "log.csv")
    (tmp_path / "log.toml").write_text(TOML)
    described = DescribedTable.from_toml(tmp_path / "log.toml")
    assert described.outcome.arms == SHOP
    from_file = LoggedTable.described(described, described.read(tmp_path / "log.csv", lenient=True))
    given = LoggedTable.of_people(
        people | {"product": labels(codes), "bought": rewards},
        contexts=PEOPLE,
        arms=SHOP,
        action="product",
        reward="bought",
        reward_range=(0, 1),
    )
    assert given.release_under(dpb.JointDP(epsilon=5, delta=1e-6)) == "marginals"
    for table in (from_file, given):
        function = table.publish(dpb.JointDP(epsilon=20, delta=1e-6), horizon=2_000)
        assert uplift(function.function) > 0.6
        assert function.arms == TABLE["product"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TOML.replace('path = "products.csv"\n', ""), "lacks path"),
        (TOML.replace('arm = "product"', 'arm = "product"\narms = ["p1"]'), "unknown keys arms"),
        (TOML.replace("high = 20", "high = 10"), "price"),
        (TOML.replace("[log]", "[plan]"), r"\[products\] needs \[log\]"),
    ],
)
def test_a_file_with_products_that_do_not_fit_is_refused(tmp_path, text, says):
    rows = [f"{name},{kind},{price}" for name, kind, price in zip(*TABLE.values(), strict=True)]
    (tmp_path / "products.csv").write_text("\n".join(["product,kind,price", *rows]))
    with pytest.raises(InvalidParameter, match=says):
        DescribedTable.from_text(text, folder=tmp_path)
