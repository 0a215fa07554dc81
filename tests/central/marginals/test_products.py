"""Marginal tables behind `arms=Products(...)`: sensitivity, learning, what is kept, refusals."""

import json
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.marginals.product_release import learns_alone
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.export import decide_by
from dpbandits.lab.baselines import Uniform
from internals import marginals as inside

PEOPLE = dpb.Schema(income=dpb.Range(0, 10), region=dpb.Categories(["north", "south", "west"]))
COLUMNS = dpb.Schema(kind=dpb.Categories(["tea", "mug", "book"]), price=dpb.Range(0, 20))
K = 30
TABLE = {
    "product": [f"p{place}" for place in range(K)],
    "kind": ["tea", "mug", "book"] * 10,
    "price": np.linspace(0, 20, K),
}


def shop(table=TABLE):
    return dpb.Products(table, columns=COLUMNS, name="product")


def policy(*, horizon=3_000, epsilon=1.0, rounds=1, **changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": shop(),
        "reward_range": (0, 1),
        "horizon": horizon,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6, rounds_per_user=rounds, user_ids=False),
        "noise": dpb.SimulatedNoise(1),
        "seed": 5,
    }
    return GPBandit(**arguments | changes)


def crowd(count, *, seed=0):
    rng = np.random.default_rng(seed)
    return {"income": rng.uniform(0, 10, count), "region": rng.choice(["north", "south", "west"], count)}


def lived(chooser, people, *, start=0):
    """Everybody buys what is of the kind of the region, and cheap enough for the income."""
    count, got = len(people["income"]), []
    for end in sorted({*(end for end in chooser.blocks if start < end < count), count}):
        rows = slice(start, end)
        decided = chooser.ask_batch({name: own[rows] for name, own in people.items()})
        bought = wanted({name: own[rows] for name, own in people.items()}, decided.indices)
        chooser.tell_batch(decided.ids, bought)
        got.append(bought)
        start = end
    return np.concatenate(got)


def wanted(people, codes):
    kinds = np.array(["north", "south", "west"])
    liked = kinds[codes % 3] == people["region"]
    return 0.1 + 0.5 * liked + 0.3 * (np.array(TABLE["price"])[codes] < 2 * people["income"])


def rows(rng, count):
    return np.column_stack([rng.random(count), rng.integers(0, 3, count), rng.integers(0, K, count)])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("epsilon", [1.0, 0.05])
def test_no_replaced_product_and_reward_lose_more_than_was_promised(monkeypatch, first, epsilon):
    """One user's context, product and reward replaced, in exact arithmetic, with and without its table."""
    asked = inside.noiseless(monkeypatch)
    promise = dpb.JointDP(epsilon=epsilon, user_ids=False)
    chooser, rng, losses = policy(privacy=promise), np.random.default_rng(2), []
    alone = learns_alone(epsilon, 3_000 / K)
    assert alone == (epsilon == 1.0)
    weights = inside.kind(chooser).reader.effects.n_weights
    for groups in (((),), ((0,),), ((0,), (1,)), ((0, 1),)):
        centre = None if first else rng.normal(0.0, 0.3, (K, weights))
        design = inside.planned(chooser, bins=(4, 3), groups=groups, centre=centre)
        made = [
            inside.released(chooser, inside.block(row[None], [reward]), design, number=1 - first)
            for row, reward in zip(rows(rng, 50), rng.choice([0.0, 1.0, -3.0, 0.5], 50), strict=True)
        ]
        rates = [Fraction(rate) for rate, _ in asked[-2:]]
        ends = [int(sum(own.size for own in one if own is not one[1])) for one in made]
        assert {*ends} == {asked[-2][1]}  # every entry of both kinds of tables has noise
        sums = np.stack([np.concatenate([one[0].ravel(), *map(np.ravel, one[2:])]) for one in made])
        counts = np.stack([one[1] for one in made])
        apart = [np.abs(part[:, None] - part).sum(axis=2) for part in (sums, counts)]
        assert apart[0].max() <= 2 * (len(groups) + alone) * (512 if first else 717)
        losses += [
            int(own) * rates[0] + int(theirs) * rates[1]
            for own, theirs in zip(apart[0].ravel(), apart[1].ravel(), strict=True)
        ]
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) > Fraction(epsilon) * Fraction(7, 10)


def test_products_that_nobody_saw_are_predicted_from_others_like_them():
    """Every third product is never available, and is then the best of its kind and price for some people."""
    chooser = policy(epsilon=30.0, horizon=4_000)
    people = crowd(3_800)
    offered = [label for place, label in enumerate(TABLE["product"]) if place % 5]
    start = 0
    for end in (*(end for end in chooser.blocks if end < 3_800), 3_800):
        part = {name: own[start:end] for name, own in people.items()}
        decided = chooser.ask_batch(part, available=[offered] * (end - start))
        chooser.tell_batch(decided.ids, wanted(part, decided.indices))
        start = end
    mean, _ = chooser.predict(crowd(300, seed=1))
    truth = wanted(
        {n: np.repeat(own, K) for n, own in crowd(300, seed=1).items()}, np.tile(np.arange(K), 300)
    )
    unseen = np.arange(K) % 5 == 0
    both = mean[:, unseen].ravel(), truth.reshape(300, K)[:, unseen].ravel()
    assert np.corrcoef(*both)[0, 1] > 0.8


def test_decisions_beat_the_best_constant_product():
    people = crowd(4_000)
    got = lived(policy(epsilon=5.0, horizon=4_000), people)
    every = np.stack([wanted(people, np.full(4_000, code)) for code in range(K)])
    assert got[2_000:].mean() > every[:, 2_000:].mean(axis=1).max() + 0.05


def test_a_restored_policy_decides_and_learns_in_the_same_way(tmp_path):
    chooser, people = policy(), crowd(3_000)
    first = {name: own[:1_500] for name, own in people.items()}
    lived(chooser, first)
    chooser.save(tmp_path / "state")
    again = GPBandit.load(tmp_path / "state")
    assert again.menu.products == shop()
    assert again.released.tolist() == chooser.released.tolist()
    second = {name: own[1_500:] for name, own in people.items()}
    one, other = chooser.ask_batch(second), again.ask_batch(second)
    assert one.indices.tolist() == other.indices.tolist()


def test_config_names_products_and_builds_them_again():
    chooser = policy()
    config = chooser.to_config()
    assert config["arms"]["labels"] == TABLE["product"]
    again = GPBandit.from_config(config, noise=dpb.SimulatedNoise(1))
    assert again.menu.products == shop()
    assert again.features.to_config() == chooser.features.to_config()


def test_published_function_decides_alone_and_is_exported():
    chooser = policy(epsilon=20.0)
    lived(chooser, crowd(2_900))
    published = PublishedPosterior.from_json(chooser.publish().to_json())
    people = crowd(50, seed=3)
    mean, _ = published.predict(people)
    np.testing.assert_allclose(mean, chooser.predict(people)[0], atol=1e-9)
    exported = published.to_decisions()
    alone = [
        decide_by(json.loads(exported), {"income": float(income), "region": str(region)})
        for income, region in zip(people["income"], people["region"], strict=True)
    ]
    best = np.array(TABLE["product"])[mean.argmax(axis=1)].tolist()
    assert alone == best == list(published.recommend_batch(people))
    assert published.recommend({"income": people["income"][0], "region": people["region"][0]}) == best[0]
    few = [["p3", "p4"]] * 50
    assert list(published.recommend_batch(people, available=few)) == [
        few[0][place] for place in mean[:, 3:5].argmax(axis=1)
    ]


def test_statement_says_that_features_are_public_and_charges_nothing_more():
    said = policy().guarantee.explain() + policy().guarantee.annex()
    assert "features of the arms" in said
    plain = policy(arms=TABLE["product"]).guarantee
    assert "features of the arms" not in plain.explain() + plain.annex()
    assert policy().guarantee.definition == plain.definition


@pytest.mark.parametrize(
    "table",
    [
        [dict(zip(TABLE, own, strict=True)) for own in zip(*TABLE.values(), strict=True)],
        {**TABLE, "colour": ["red"] * K},
    ],
)
def test_a_table_is_read_in_every_form(table):
    assert shop(table) == shop()


def test_a_table_is_read_from_a_file_and_from_a_frame_with_labels_as_index(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    frame.to_csv(tmp_path / "products.csv", index=False)
    assert shop(tmp_path / "products.csv") == shop()
    assert shop(frame) == shop(frame.set_index("product")) == shop()


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        ({"product": ["a", "b"], "kind": ["tea", "mug"]}, InvalidData, "lacks the columns"),
        (
            {"product": ["a", "b"], "kind": ["tea", "tram"], "price": [1, 2]},
            InvalidData,
            "'kind'.*row 2, that of 'b'",
        ),
        ({"product": ["a", "b"], "kind": ["tea", "mug"], "price": [1, None]}, InvalidData, "'price'.*'b'"),
        ({"product": ["a", "a"], "kind": ["tea", "mug"], "price": [1, 2]}, InvalidParameter, "same value"),
        ({"product": ["a"], "kind": ["tea"], "price": [1]}, InvalidParameter, "2 to"),
        ([{"product": "a"}], InvalidData, "list of dictionaries"),
    ],
)
def test_a_wrong_table_is_refused_with_the_reason(table, error, said):
    with pytest.raises(error, match=said):
        shop(table)


def test_other_policies_and_releases_refuse_products():
    with pytest.raises(InvalidParameter, match=r"products\.labels"):
        Uniform(contexts=PEOPLE, arms=shop(), reward_range=(0, 1), horizon=10)
    with pytest.raises(InvalidParameter, match="marginal tables"):
        policy(tuning=GPTuning(release="features"))


def test_an_arm_has_an_effect_of_its_own_by_public_numbers_alone():
    assert learns_alone(1.0, 20.0)
    assert not learns_alone(1.0, 19.9)
    assert policy().features.alone
    assert not policy(horizon=300).features.alone
    assert not policy(rounds=10).features.alone


def test_many_columns_of_contexts_keep_every_column_and_leave_out_the_least_important_products():
    """Thirty ranges and three features of products have more products of effects than are learned."""
    rng = np.random.default_rng(3)
    table = TABLE | {"stars": rng.uniform(0, 5, K), "age": rng.uniform(0, 9, K)}
    three = dpb.Schema(
        kind=dpb.Categories(["tea", "mug", "book", "pen", "cup", "hat", "tin", "box"]),
        price=dpb.Range(0, 20), stars=dpb.Range(0, 5), age=dpb.Range(0, 9)
    )  # fmt: skip
    wide = dpb.Schema(**{f"c{place}": dpb.Range(0, 1) for place in range(30)})
    chooser = policy(contexts=wide, arms=dpb.Products(table, columns=three, name="product"))
    joint, effects = chooser.features, chooser.features.base.effects
    assert joint.n_features <= 1_200 + joint.alone * K
    assert effects.n_weights == 1 + 30 * 4
    seen = np.abs(joint.across.of_actions(np.eye(joint.n_features))) > 1e-9
    assert seen.any(axis=(0, 1)).all()  # every function of a context changes predictions
    several = [(seen[:, :, 1 + 4 * column].any(axis=1)).sum() for column in range(30)]
    assert min(several) == max(several) > 1  # columns are treated alike, and interact with products


@pytest.mark.parametrize("publishes", [False, True])
def test_predictions_for_many_people_need_little_memory_and_are_those_of_single_people(publishes):
    """Features of all 2,000,000 points together are 336 MB, and the results 32 MB."""
    count, table = 1_000, {"product": list(range(1_000)), "price": np.linspace(0, 20, 1_000)}
    chooser = policy(
        contexts=dpb.Schema(region=dpb.Categories(["north", "south", "west"])),
        arms=dpb.Products(table, columns=dpb.Schema(price=dpb.Range(0, 20)), name="product"),
        horizon=100,
    )
    people = {"region": np.random.default_rng(3).choice(["north", "south", "west"], 2 * count).tolist()}
    decided = chooser.ask_batch({"region": people["region"][:90]})
    chooser.tell_batch(decided.ids, np.arange(90) % 2)
    published = chooser.publish()
    assert published.features.n_features == 21
    people["region"][7] = "unknown"
    one = published if publishes else chooser
    tracemalloc.start()
    mean, sd = one.predict(people)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert mean.shape == sd.shape == (2 * count, count)
    assert peak < 300e6
    assert np.isnan([mean[7], sd[7]]).all()
    some = [0, 64, 65, 1_000, 2 * count - 1]  # 65 people are predicted at a time
    alone = [one.predict({"region": [people["region"][row]]}) for row in some]
    np.testing.assert_allclose(mean[some], np.concatenate([own for own, _ in alone]), rtol=1e-12)
    np.testing.assert_allclose(sd[some], np.concatenate([own for _, own in alone]), rtol=1e-12)
    assert np.ptp(mean[some], axis=1).min() > 0.0
