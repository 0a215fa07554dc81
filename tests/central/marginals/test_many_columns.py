"""Marginal tables of thirty columns: interactions are learned once a released table holds both columns."""

from itertools import combinations

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit, GPBandit, GPTuning
from dpbandits.central.published_function import PublishedPosterior
from internals import marginals as inside

COLUMNS, ARMS = 30, ["a", "b", "c", "d", "e"]
SCHEMA = dpb.Schema(
    **{f"c{j}": dpb.Range(0, 1) for j in range(COLUMNS - 4)},
    **{f"k{j}": dpb.Categories(["u", "v", "w"]) for j in range(4)},
)

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.errors.NothingToLearn")


def people(count, seed):
    rng = np.random.default_rng(seed)
    ranges = rng.random((count, COLUMNS - 4)).tolist()
    categories = rng.choice(["u", "v", "w"], (count, 4)).tolist()
    return [
        dict(zip(SCHEMA.names, [*one, *other], strict=True))
        for one, other in zip(ranges, categories, strict=True)
    ]


def bandit(*, epsilon=1.0, horizon=1_200, **tuning):
    return GPBandit(
        contexts=SCHEMA,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=horizon,
        privacy=dpb.JointDP(epsilon, 1e-6, user_ids=False),
        noise=dpb.SimulatedNoise(3),
        tuning=GPTuning(**tuning),
    )


def run(policy, rows, rewards):
    """Ask and tell in batches; the arms that were given."""
    arms = []
    for start in range(0, len(rows), 100):
        for number, decision in enumerate(policy.ask_batch(rows[start : start + 100])):
            policy.tell(decision.id, rewards(rows[start + number], decision.arm))
            arms.append(decision.arm)
    return arms


def both(row, arm):
    """The reward is one if two columns agree and the arm is the first, or they differ and it is another."""
    return float(((row["c0"] < 0.5) == (row["c1"] < 0.5)) == (arm == "a"))


@pytest.fixture(scope="module")
def learned():
    policy = bandit(epsilon=300.0, blocks=(300, 700))
    run(policy, people(900, seed=1), both)
    return policy


def pairs_of(policy):
    return set(policy.publish().features.base.pairs)


def test_interactions_are_those_of_columns_that_a_released_table_held_together(learned):
    held = {
        (i, j)
        for owner, _ in inside.designs(learned)
        for i, j in combinations(range(COLUMNS), 2)
        if owner[i] == owner[j] >= 0
    }
    assert pairs_of(learned) == held
    assert 0 < len(held) < COLUMNS * (COLUMNS - 1) // 2
    assert bandit().publish(prior=True).features.base.pairs == ()


def test_a_state_goes_on_as_the_policy_would(learned, tmp_path):
    learned.save(tmp_path / "policy")
    again = GPBandit.load(tmp_path / "policy")
    rows = people(300, seed=2)
    np.testing.assert_array_equal(again.predict(rows)[0], learned.predict(rows)[0])
    assert pairs_of(again) == pairs_of(learned)


def test_a_published_function_is_the_policys(learned):
    rows, function = people(50, seed=3), learned.publish()
    again = PublishedPosterior.from_json(function.to_json())
    for own, theirs in zip(learned.predict(rows), again.predict(rows), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-12)
    assert len(function.posterior.factors) == len(ARMS)
    assert sum(own.size for own in function.posterior.factors) < len(ARMS) * 400**2


def test_another_policy_begins_from_it_and_learns_further_interactions(learned):
    policy = bandit(epsilon=300.0, blocks=(300, 700))
    policy.warm_start(learned.publish(), disjoint=True)
    rows = people(400, seed=4)
    assert np.isfinite(policy.predict(rows)[0]).all()
    run(policy, rows, both)
    assert pairs_of(policy)


def test_an_interaction_that_a_table_shows_is_learned():
    """Neither of two columns says anything alone; both together make the reward 1 or 0."""
    rows = people(3_010, seed=5)

    def after(rewards):
        policy = bandit(epsilon=300.0, horizon=4_000, blocks=(3_000,))
        run(policy, rows, rewards)
        return policy

    # The first tables depend on no reward: a run without any says which they are.
    i, j = next(pair for pair in sorted(pairs_of(after(lambda row, arm: 0.0))) if pair[1] < COLUMNS - 4)

    def together(row, arm):
        return both({"c0": row[f"c{i}"], "c1": row[f"c{j}"]}, arm)

    fresh = people(400, seed=6)
    chosen = [ARMS[best] for best in after(together).predict(fresh)[0].argmax(axis=1)]
    assert np.mean([together(row, arm) for row, arm in zip(fresh, chosen, strict=True)]) > 0.8  # random: .5


def test_a_log_of_thirty_columns_is_learned():
    rows, rng = people(3_000, seed=7), np.random.default_rng(8)
    arms = rng.choice(ARMS, len(rows))
    policy = ExploreThenCommit(
        contexts=SCHEMA,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=len(rows),
        privacy=dpb.JointDP(300.0, 1e-6, user_ids=False),
        noise=dpb.SimulatedNoise(4),
    )
    policy.learn(
        rows,
        arms,
        [0.2 + 0.6 * (row["c3"] > 0.5) * (arm == "b") for row, arm in zip(rows, arms, strict=True)],
    )
    function = policy.publish()
    fresh = people(200, seed=9)
    arm = ARMS.index("b")
    high = np.array([row["c3"] > 0.75 for row in fresh])
    low = np.array([row["c3"] < 0.25 for row in fresh])
    mean = function.predict(fresh)[0][:, arm]
    assert mean[high].mean() > mean[low].mean() + 0.3
