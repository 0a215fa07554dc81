"""The census of marginal tables: which ranges are filled to a small part, from a first block of counts."""

import shutil
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import CorruptState, InvalidParameter, NothingReleased, ProtocolError
from dpbandits.export.decide import arm_scores
from dpbandits.export.decisions import read
from dpbandits.models.marginals import CENSUS_BINS, EffectFeatures, cuts_of
from dpbandits.privacy.certificates import PureDP
from internals import marginals as inside

BLOCKS, HORIZON, NAMES, ARMS = (600, 1_800, 4_000), 5_000, ("a", "b", "c", "kind"), ["x", "y"]
SCHEMA = dpb.Schema(**{name: dpb.Range(0, 100) for name in NAMES[:3]}, kind=dpb.Categories(["u", "v"]))

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.errors.NothingToLearn")


def bandit(*, epsilon=30.0, rounds=1, contexts=SCHEMA, horizon=HORIZON, blocks=BLOCKS, census=True, **tuning):
    return GPBandit(
        contexts=contexts,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=horizon,
        privacy=dpb.JointDP(epsilon, rounds_per_user=rounds, user_ids=False),
        noise=dpb.SimulatedNoise(2),
        tuning=GPTuning(release="marginals", blocks=blocks, census=census, **tuning),
    )


def people(count, *, filled=1.0, seed=0):
    """Columns of so many people; numbers lie between 30 and 30 + 70 `filled`, in the same order."""
    rng = np.random.default_rng(seed)
    columns = {name: 30.0 + 70.0 * filled * rng.random(count) for name in NAMES[:3]}
    return columns | {"kind": rng.choice(["u", "v"], count)}


def lived(policy, rounds, *, filled=1.0, start=0):
    """Ask and tell from round `start` to `rounds`; whether each was given the better arm."""
    columns, right = people(HORIZON, filled=filled), []
    high = [(columns[name] - 30.0) / (70.0 * filled) > 0.5 for name in NAMES[:2]]
    best = (high[0] | high[1]).astype(int)
    for begin in range(start, rounds, 200):
        here = slice(begin, min(rounds, begin + 200))
        batch = policy.ask_batch({name: own[here] for name, own in columns.items()})
        right.append(batch.indices == best[here])
        policy.tell_batch(batch.ids, 0.25 + 0.5 * right[-1])
    return np.concatenate(right)


def cuts(policy):
    """Cuts of the columns of what would be published now."""
    return policy.publish(prior=True).features.base.cuts


# -- what one user moves ----------------------------------------------------------------------------------


def test_a_round_moves_one_bin_of_each_range_and_a_refused_one_none(monkeypatch):
    asked = inside.noiseless(monkeypatch)
    policy = bandit(epsilon=2.0, rounds=3)
    rows = np.array([[0.0, 0.5, 1.0, 1, 0], [0.0, 0.999, 0.25, 0, 1], [0.7, 0.7, 0.7, 1, 1]])
    found = inside.census(policy, inside.block(rows, [0.0, 1.0, 1.0], refused=np.array([False, False, True])))
    expected = np.zeros((3, CENSUS_BINS), dtype=int)
    expected[0, 0], expected[1, [48, 95]], expected[2, [95, 24]] = 2, 1, 1
    np.testing.assert_array_equal(found, expected)
    # Replacing all 3 rounds of a user moves two bins a range for each of them.
    [(rate, size)] = asked
    assert size == 3 * CENSUS_BINS
    assert Fraction(rate) * 2 * 3 * 3 <= Fraction(0.85 * 2.0)
    assert rate * 2 * 3 * 3 == pytest.approx(0.85 * 2.0, rel=1e-12)


def test_its_noise_has_its_law():
    """False alarm: 1e-7, of Kolmogorov and Smirnov's test, with the lattice smoothed out."""
    policy = bandit(epsilon=0.5)
    nobody = inside.block(np.zeros((1, 5)), [0.0], refused=np.array([True]))
    counts = inside.census(policy, nobody).ravel()
    jitter = np.random.default_rng(6).uniform(-0.5, 0.5, len(counts))
    assert stats.kstest(counts + jitter, "laplace", args=(0, 6 / (0.85 * 0.5))).pvalue > 1e-7


def test_its_rewards_and_arms_are_in_no_release(monkeypatch):
    inside.noiseless(monkeypatch)
    policy, rows = bandit(), np.random.default_rng(1).random((20, 5))
    rows[:, 3:] = 0
    other = rows.copy()
    other[:, 4] = 1
    one = inside.census(policy, inside.block(rows, np.zeros(20)))
    np.testing.assert_array_equal(one, inside.census(policy, inside.block(other, np.ones(20))))


def test_the_statement_names_it_and_certifies_what_it_did_without():
    policy, plain = bandit(), bandit(census=False)
    said = " ".join(policy.guarantee.annex().split())
    assert "The first block is a census" in said
    assert "census" not in plain.guarantee.annex()
    assert inside.certified(policy) == inside.certified(plain) == PureDP(30.0)
    record = policy.guarantee.mechanisms[0]
    assert (record.sensitivity, record.releases, record.law) == (6.0, 1, "discrete Laplace")
    assert record.scale == pytest.approx(6.0 / (0.85 * 30.0))
    assert policy.bytes_needed == pytest.approx(bandit(blocks=BLOCKS[1:], census=False).bytes_needed, rel=0.1)


# -- when there is one ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"horizon": 4_500}, 162),  # 54 a range
        ({"horizon": 9_000, "epsilon": 2.0}, 81),
        ({"horizon": 30_000, "rounds": 2}, 324),
        ({"horizon": 60_000}, 300),  # half a percent
        ({"horizon": 600_000}, 648),  # 216 a range
        ({"horizon": 4_000}, None),  # more than 4% of the horizon
        ({"horizon": 12_000, "census": False}, None),
        ({"horizon": 12_000, "forget": 3_000}, None),
        ({"horizon": None}, None),
        ({"horizon": 12_000, "blocks": BLOCKS}, None),
        ({"horizon": 12_000, "contexts": dpb.Schema(kind=dpb.Categories(["u", "v"]))}, None),
    ],
)
def test_public_numbers_alone_say_whether_there_is_one(changes, first):
    plan = {"epsilon": 1.0, "blocks": None, "census": None} | changes
    policy = bandit(**plan)
    assert policy.tuning.census is (first is not None)
    without = bandit(**(plan | {"census": False})).blocks
    if first is None:
        assert policy.blocks == without
    else:  # the tables' blocks are about as long as without, and come after it
        assert policy.blocks[0] == first
        assert 0.97 * without[0] - 1 <= policy.blocks[1] - first <= without[0]
    assert GPBandit.from_config(policy.to_config()).to_config() == policy.to_config()


@pytest.mark.parametrize(
    "changes",
    [
        {"contexts": dpb.Schema(kind=dpb.Categories(["u", "v"]))},
        {"horizon": None},
        {"forget": 500},
        {"blocks": (600,)},
        {"blocks": None, "horizon": 200},  # more than 4% of the rounds
        {"blocks": None, "horizon": None},
        {"blocks": None, "forget": 500},
    ],
)
def test_one_that_cannot_be_is_refused(changes):
    with pytest.raises(InvalidParameter, match="census"):
        bandit(**changes)


def test_a_large_epsilon_is_no_reason_to_fail_at_the_first_release():
    """A census with noise for what one person changes would have noise that is nearly always zero."""
    alone = {"epsilon": 60.0, "contexts": dpb.Schema(a=dpb.Range(0, 100)), "blocks": None, "census": None}
    policy = bandit(**alone)
    assert policy.blocks[0] == 18  # with fewer people chance alone puts them into a window
    batch = policy.ask_batch({"a": people(400)["a"]})
    policy.tell_batch(batch.ids, np.full(400, 0.5))
    policy.ask({"a": 50.0})
    assert policy.blocks_released >= 2


def test_decisions_without_the_library_know_the_cuts():
    policy = bandit(epsilon=300.0)
    lived(policy, 4_500, filled=0.08)
    published = policy.publish()
    assert any(published.features.base.cuts)
    exported, columns = read(published.to_decisions()), people(300, filled=0.08, seed=5)
    rows = [{name: own[number] for name, own in columns.items()} for number in range(300)]
    means = np.array([arm_scores(exported, row) for row in rows])
    wanted, _ = published.predict(columns)
    np.testing.assert_allclose(means, wanted, atol=1e-9)


def test_the_log_of_releases_names_it_and_counts_it():
    alone, with_census = inside.kind(bandit(census=False)).record(), inside.kind(bandit()).record()
    assert "census" not in alone.name
    assert "census" in with_census.name
    assert alone.releases == with_census.releases == len(BLOCKS)


def test_whether_there_is_one_is_true_or_false():
    with pytest.raises(InvalidParameter, match="census"):
        GPTuning(census=1)


# -- which ranges are cut ---------------------------------------------------------------------------------


def test_ranges_that_people_fill_stay_as_declared_and_others_are_cut_where_people_are():
    shares = np.zeros((3, CENSUS_BINS))
    shares[0], shares[1, 28:36], shares[2, :2] = 1.0 / CENSUS_BINS, 1.0 / 8, 0.5
    whole, part, ends = cuts_of(1_000.0 * shares, people=1_000, sd=40.0, levels=24)
    assert whole == ()
    for own, (low, high) in ((part, (28 / 96, 36 / 96)), (ends, (0.0, 2 / 96))):
        assert len(own) == 23
        assert np.all(np.diff((0.0, *own, 1.0)) > 0.0)
        assert sum(low <= cut <= high for cut in own) >= 19


def test_a_few_frequent_numbers_of_a_range_that_is_filled_are_no_window():
    shares = np.zeros((1, CENSUS_BINS))
    shares[0, ::7], shares[0, 42] = 0.4 / 13, 0.6
    assert cuts_of(1_000.0 * shares, people=1_000, sd=5.0, levels=24) == ((),)


def test_noise_alone_rarely_cuts_a_range_and_seldom_hides_one():
    """4,000 columns each; .02 and .95 are at least ten deviations off what was found for the least census."""
    rng, people_of, scale = np.random.default_rng(3), 54 * 4, 2 * 4 / 0.85
    sd = float(np.sqrt(2.0)) * scale
    for first, least, most in ((CENSUS_BINS, 0.0, 0.05), (8, 0.9, 1.0)):
        law = (np.arange(CENSUS_BINS) < first) / first
        counts = rng.multinomial(people_of, law, size=4_000) + rng.laplace(scale=scale, size=(4_000, 96))
        found = np.mean([bool(own) for own in cuts_of(counts, people=people_of, sd=sd, levels=24)])
        assert least <= found <= most


def test_cuts_of_another_shape_are_refused():
    domain = dpb.domains.Product(dpb.Box(low=[0.0], high=[1.0]), dpb.domains.Arms(3))
    good = [np.linspace(0.01, 0.2, 23).tolist(), []]
    found = EffectFeatures(domain=domain, cuts=good)
    assert found.levels([[0.0, 2], [0.011, 0], [0.5, 1]]).tolist() == [[0, 2], [1, 0], [23, 1]]
    again = dpb.models.features.from_config(found.to_config())
    assert again.cuts == found.cuts
    for bad in (
        good[:1],
        [good[0][::-1], []],
        [good[0][1:], []],
        [[], [0.5, 0.6]],
        [[*good[0][:-1], 1.0], []],
    ):
        with pytest.raises(InvalidParameter, match="cuts"):
            EffectFeatures(domain=domain, cuts=bad)


# -- learning and states ----------------------------------------------------------------------------------


def test_narrow_ranges_are_learned_like_wide_ones():
    """At an epsilon where noise hardly matters; with the declared levels it is far behind."""
    kept = {}
    for filled, census in ((1.0, True), (0.08, True), (0.08, False)):
        policy = bandit(census=census)
        right = lived(policy, HORIZON, filled=filled)
        kept[filled, census] = right[BLOCKS[1] :].mean()
        assert abs(right[: BLOCKS[1]].mean() - 0.5) < 0.12 or not census  # at random: 1,800 coins
    assert kept[0.08, True] > kept[1.0, True] - 0.01
    assert kept[0.08, True] > kept[0.08, False] + 0.03


def test_a_state_between_the_census_and_the_tables_goes_on_as_the_policy_would(tmp_path):
    policy = bandit(epsilon=3.0)
    lived(policy, 800, filled=0.08)
    policy.save(tmp_path / "state")
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    again = GPBandit.load(tmp_path / "copy")
    assert cuts(policy) is not None
    assert cuts(again) == cuts(policy)
    for one in (policy, again):
        lived(one, 4_400, filled=0.08, start=800)
    np.testing.assert_array_equal(again.released, policy.released)
    rows = {name: own[:50] for name, own in people(50, filled=0.08).items()}
    np.testing.assert_array_equal(again.predict(rows)[0], policy.predict(rows)[0])
    function = PublishedPosterior.from_json(policy.publish().to_json())
    assert function.features.base.cuts == cuts(policy)
    np.testing.assert_allclose(function.predict(rows)[0], policy.predict(rows)[0], rtol=1e-12)


def test_after_a_census_alone_nothing_is_known_of_rewards():
    policy = bandit()
    lived(policy, 800, filled=0.08)
    assert policy.blocks_released == 1
    assert policy.diagnostics()["warnings"] == []
    with pytest.warns(NothingReleased, match="after 1800 rounds"):
        policy.publish()
    with pytest.raises(ProtocolError, match="uniformly"):
        policy.public_draws(3)


def test_with_public_data_ranges_stay_as_declared():
    policy, rows = bandit(), people(400, filled=0.08, seed=5)
    policy.warm_start(rows, np.ones(400), arms=[ARMS[t % 2] for t in range(400)])
    lived(policy, 2_000, filled=0.08)
    assert policy.blocks_released == 2
    assert cuts(policy) is None


def test_a_census_of_another_shape_is_refused():
    policy = bandit()
    lived(policy, 2_000)
    kind, arrays = inside.kind(policy), inside.kept(policy)
    rest = {name: own for name, own in arrays.items() if name != "census"}
    for damaged in (
        rest,
        rest | {"census": arrays["census"][:, 1:]},
        rest | {"census": arrays["census"] * 1.0},
    ):
        with pytest.raises(CorruptState):
            kind.taken_up(damaged)
    with pytest.raises(CorruptState):
        inside.kind(bandit(census=False)).taken_up(arrays)


def test_thirty_columns():
    schema = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(30)})
    policy = bandit(contexts=schema, epsilon=100.0, blocks=(300, 600), horizon=700)
    rng = np.random.default_rng(6)
    for _ in range(7):
        batch = policy.ask_batch({f"c{j}": (0.05 if j < 15 else 1.0) * rng.random(100) for j in range(30)})
        policy.tell_batch(batch.ids, np.ones(100))
    assert [bool(own) for own in cuts(policy)] == [True] * 15 + [False] * 15
