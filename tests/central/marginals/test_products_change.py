"""Products that come and go: sensitivity, what a new product starts from, what is kept and published."""

import json
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.errors import CorruptState, InvalidParameter, ProtocolError
from dpbandits.export import decide_by
from dpbandits.models.marginals import Effects
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.actions import ActionEffects
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.service.engines import ServedBandit
from internals import marginals as inside

PEOPLE = dpb.Schema(income=dpb.Range(0, 10), region=dpb.Categories(["north", "south", "west"]))
KINDS = ["tea", "mug", "book"]
COLUMNS = dpb.Schema(kind=dpb.Categories(KINDS), price=dpb.Range(0, 20))
K = 12
TABLE = {
    "product": [f"p{place}" for place in range(K)],
    "kind": KINDS * 4,
    "price": np.linspace(0, 20, K),
}
NEW = {"kind": "mug", "price": 7.0}


def policy(made=GPBandit, *, lag=0, blocks=(300, 600, 900, 1_200), epsilon=5.0, **changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": dpb.Products(TABLE, columns=COLUMNS, name="product"),
        "reward_range": (0, 1),
        "horizon": 1_500,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6, user_ids=False),
        "noise": dpb.SimulatedNoise(1),
        "tuning": GPTuning(blocks=blocks, lag=lag),
        "seed": 5,
    }
    return made(**arguments | changes)


def crowd(start, stop):
    rng = np.random.default_rng(start)
    count = stop - start
    return {"income": rng.uniform(0, 10, count), "region": rng.choice(["north", "south", "west"], count)}


def lived(chooser, start, stop, *, worth=lambda arm: 0.9 if arm == "new" else 0.3):
    """Ask and tell in batches that end where releases are made; return the arms that were chosen."""
    found = []
    ends = sorted({*(end for end in chooser.batch_boundaries if start < end < stop), stop})
    for end in ends:
        decided = chooser.ask_batch(crowd(start, end))
        chooser.tell_batch(decided.ids, [worth(arm) for arm in decided.arms])
        found += list(decided.arms)
        start = end
    return found


@pytest.mark.parametrize("alone", [True, False])
def test_no_round_replaced_around_a_change_moves_the_tables_by_more_than_was_promised(monkeypatch, alone):
    """The replaced round may have a product that stays, that came, that went, or that was never offered."""
    asked = inside.noiseless(monkeypatch)
    epsilon = 1.0 if alone else 0.02
    promise = dpb.JointDP(epsilon=epsilon, user_ids=False)
    chooser, rng = policy(privacy=promise), np.random.default_rng(2)
    assert chooser.features.alone == alone
    chooser.retire_arm("p0")
    chooser.retire_arm("p1")
    chooser.add_arm("new", features=NEW)
    weights = inside.kind(chooser).reader.effects.n_weights
    codes = rng.integers(0, K + 1, 60)
    codes[:3] = 0, 1, K
    rows = np.column_stack([rng.random(60), rng.integers(0, 3, 60), codes])
    losses = []
    for groups in (((),), ((0,), (1,)), ((0, 1),)):
        design = inside.planned(
            chooser, bins=(4, 3), groups=groups, centre=rng.normal(0, 0.3, (K + 1, weights))
        )
        made = [
            inside.released(chooser, inside.block(row[None], [reward]), design, number=1)
            for row, reward in zip(rows, rng.choice([0.0, 1.0, -3.0], 60), strict=True)
        ]
        rates = [Fraction(rate) for rate, _ in asked[-2:]]
        assert {tuple(map(len, one[2:])) for one in made} == ({(K - 1,)} if alone else {()})
        assert all(not one[0].any() for one, code in zip(made, codes, strict=True) if code < 2)
        sums = np.stack([np.concatenate([one[0].ravel(), *map(np.ravel, one[2:])]) for one in made])
        counts = np.stack([one[1] for one in made])
        apart = [np.abs(part[:, None] - part).sum(axis=2) for part in (sums, counts)]
        assert apart[0].max() <= 2 * (len(groups) + alone) * 717
        losses.append(max((apart[0] * rates[0] + apart[1] * rates[1]).ravel()))
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) > Fraction(epsilon) * Fraction(6, 10)


def test_a_new_product_is_offered_and_found_and_a_retired_one_goes():
    chooser = policy()
    lived(chooser, 0, 350)
    change = chooser.add_arm("new", features=NEW, minimum=0.1)
    chooser.retire_arm("p3")
    assert (change.version, dict(change.features)) == (2, NEW)
    assert "new" not in lived(chooser, 350, 600)
    first = lived(chooser, 600, 900)
    assert 0.1 * 300 * 0.5 < first.count("new")
    assert "p3" not in first
    assert lived(chooser, 900, 1_500)[300:].count("new") > 250
    assert chooser.arms == (*(name for name in TABLE["product"] if name != "p3"), "new")


def test_a_new_product_without_an_effect_of_its_own_is_predicted_as_one_with_its_features():
    chooser = policy(epsilon=0.05)
    assert not chooser.features.alone
    lived(chooser, 0, 250)
    chooser.add_arm("twin", features={"kind": TABLE["kind"][4], "price": float(TABLE["price"][4])})
    lived(chooser, 250, 301)
    mean, sd = chooser.predict(crowd(5_000, 5_020))
    np.testing.assert_allclose(mean[:, -1], mean[:, 4], atol=1e-12)
    np.testing.assert_allclose(sd[:, -1], sd[:, 4], atol=1e-12)


def test_a_new_product_with_an_effect_of_its_own_is_predicted_by_its_features_with_more_uncertainty():
    chooser = policy(epsilon=50.0)
    lived(chooser, 0, 250, worth=lambda arm: 0.9 if TABLE["kind"][int(arm[1:])] == "mug" else 0.1)
    chooser.add_arm("mug", features={"kind": "mug", "price": float(TABLE["price"][4])})
    chooser.add_arm("tea", features={"kind": "tea", "price": float(TABLE["price"][3])})
    lived(chooser, 250, 301, worth=lambda arm: 0.9 if TABLE["kind"][int(arm[1:])] == "mug" else 0.1)
    mean, sd = chooser.predict(crowd(5_000, 5_020))
    assert mean[:, -2].mean() > mean[:, -1].mean() + 0.3
    assert (sd[:, -2] > sd[:, 4]).all()


def test_what_was_learned_before_an_addition_stays():
    """Two policies have the same releases; one of them announces a product. Its other predictions agree."""
    one, other = policy(), policy()
    for chooser in (one, other):
        lived(chooser, 0, 250)
    one.add_arm("new", features=NEW)
    for chooser in (one, other):
        lived(chooser, 250, 300)
        chooser.publish()
    np.testing.assert_array_equal(one.released, other.released)
    mine, theirs = (chooser.predict(crowd(5_000, 5_030)) for chooser in (one, other))
    for own, before in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(own[:, :K], before, atol=1e-9)


@pytest.mark.parametrize("lag", [0, 25])
def test_a_saved_policy_goes_on_as_one_that_was_not_interrupted(tmp_path, lag):
    whole, first = policy(lag=lag), policy(lag=lag)
    for chooser in (whole, first):
        lived(chooser, 0, 350)
        chooser.add_arm("new", features=NEW, at=1.0)
        chooser.retire_arm("p5", at=2.0)
        lived(chooser, 350, 800)
    first.save(tmp_path / "policy")
    again = GPBandit.load(tmp_path / "policy")
    assert again.arms == whole.arms
    assert again.arm_changes == whole.arm_changes
    assert lived(again, 800, 1_400) == lived(whole, 800, 1_400)
    np.testing.assert_array_equal(again.released, whole.released)
    assert again.to_config() == whole.to_config() == policy(lag=lag).to_config()


def test_a_change_is_in_the_folder_before_the_call_returns(tmp_path):
    with GPBandit.open(tmp_path / "folder", new=policy()) as chooser:
        lived(chooser, 0, 350)
        change = chooser.add_arm("new", features={"kind": np.str_("mug"), "price": np.float64(7.0)})
    with GPBandit.open(tmp_path / "folder") as chooser:
        assert chooser.arm_changes == (change,)
        assert chooser.add_arm("new", features=NEW) == change
        lived(chooser, 350, 700)
        assert chooser.arms[-1] == "new"


def test_a_published_function_and_its_export_have_the_products_that_are_offered():
    chooser = policy()
    lived(chooser, 0, 350)
    chooser.add_arm("new", features=NEW)
    chooser.retire_arm("p3")
    lived(chooser, 350, 1_000)
    function = dpb.central.PublishedPosterior.from_json(chooser.publish().to_json())
    people = crowd(5_000, 5_020)
    assert function.arms == chooser.arms
    np.testing.assert_allclose(function.predict(people)[0], chooser.predict(people)[0], atol=1e-9)
    exported = function.to_decisions(draws=chooser.public_draws(3))
    alone = [
        decide_by(json.loads(exported), {"income": float(income), "region": str(region)})
        for income, region in zip(people["income"], people["region"], strict=True)
    ]
    assert alone == list(function.recommend_batch(people))
    assert "p3" not in alone


@pytest.mark.parametrize("lag", [0, 20])
def test_whoever_follows_decides_as_whoever_releases(lag):
    leader, follower = (policy(ServedBandit, lag=lag, blocks=(150, 300, 450)) for _ in range(2))
    texts, chosen, people = [], [], crowd(0, 550)
    asked = [
        {"income": float(own), "region": str(region)} for own, region in zip(*people.values(), strict=True)
    ]
    for number, person in enumerate(asked):
        if number in leader.batch_boundaries:
            texts.append(leader.publish().to_json())
        if number == 200:
            leader.add_arm("new", features=NEW, minimum=0.3)
            leader.retire_arm("p2")
        decision = leader.ask(person)
        chosen.append(decision.arm)
        leader.tell(decision.id, float(number % 3 == 0))
    assert "new" in chosen[300 + lag :]
    assert "p2" not in chosen[300 + lag :]
    versions = [None, *map(dpb.central.PublishedPosterior.from_json, texts)]
    book = RoundBook(
        dim=leader.domain.dim, horizon=1_500, rounds_per_user=1, user_ids=False, lineage="12345678"
    )
    follower.follow(book, lambda slot: versions[bisect_right(leader.batch_boundaries, slot)])
    follower.know_arms([one.to_config() for one in leader.arm_changes])
    assert [follower.ask(person).arm for person in asked] == chosen


@pytest.mark.parametrize(
    ("features", "like", "said"),
    [
        (None, None, r"features= with \['kind', 'price'\]"),
        (None, "p1", "like= out"),
        (NEW, "p1", "like= out"),
        ({"kind": "mug"}, None, "expected the names"),
        (NEW | {"colour": "red"}, None, "expected the names"),
        (NEW | {"kind": "tram"}, None, "kind"),
        (NEW | {"price": 21}, None, "price"),
        (NEW | {"price": float("nan")}, None, "price"),
        (NEW | {"price": [7]}, None, "wrong kind"),
        ("mug", None, "features"),
    ],
)
def test_features_that_do_not_fit_change_nothing(features, like, said):
    chooser = policy()
    with pytest.raises(InvalidParameter, match=said):
        chooser.add_arm("new", like=like, features=features)
    assert not chooser.arm_changes


def test_another_announcement_of_a_product_and_features_of_plain_arms_are_refused():
    chooser = policy()
    first = chooser.add_arm("new", features=NEW)
    assert chooser.add_arm("new", features=NEW | {"price": 7}) == first
    with pytest.raises(ProtocolError, match="features="):
        chooser.add_arm("new", features=NEW | {"price": 8})
    with pytest.raises(InvalidParameter, match="Products"):
        policy(arms=TABLE["product"]).add_arm("new", features=NEW)


def test_a_product_that_is_one_too_many_is_no_change(monkeypatch):
    monkeypatch.setattr("dpbandits.tables.products.MOST_PRODUCTS", K + 1)
    chooser = policy()
    chooser.add_arm("new", features=NEW)
    with pytest.raises(InvalidParameter, match=f"to {K + 1}"):
        chooser.add_arm("newer", features=NEW)
    assert [one.arm for one in chooser.arm_changes] == ["new"]
    lived(chooser, 0, 400)
    assert chooser.arms[-1] == "new"


def test_altered_features_are_no_history():
    chooser = policy()
    event = chooser.add_arm("new", features=NEW).to_config()
    for altered in ("mug", 3, [NEW]):
        with pytest.raises(CorruptState):
            ArmHistory.of(TABLE["product"], [event | {"features": altered}])
    for altered in ({"kind": "tram", "price": 7.0}, {"kind": "mug"}, None):
        other = policy(ServedBandit)
        with pytest.raises(CorruptState):
            other.know_arms([event | {"features": altered}])


def test_weights_keep_their_functions_when_a_product_is_added_among_many_columns():
    """With thirty columns of people, products of effects are left out, by the same rule before and after."""
    rng, few = np.random.default_rng(1), Effects((24,) * 30, (True,) * 30, pairs=())
    rows = tuple((kind, price) for price, kind in enumerate(rng.integers(0, 20, K + 1).tolist()))
    before, after = (
        ActionEffects(few, ActionBasis((20, 24), (False, True), rows[:count], alone=True))
        for count in (K, K + 1)
    )
    assert before.n_weights < 121 * 26  # not all products of effects are learned
    assert after.n_weights == before.n_weights + 1
    weights = rng.normal(size=before.n_weights)
    wider = np.zeros(after.n_weights)
    wider[before.places_in(after)] = weights
    np.testing.assert_array_equal(after.of_actions(wider)[:K], before.of_actions(weights))
