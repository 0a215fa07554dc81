"""Numbers to choose in the laboratory: worlds with actions, comparisons, crowds and twins."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits import lab
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import LocalCrowd
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.worlds import TableBandit
from dpbandits.tables import Actions, values

PEOPLE = dpb.Schema(income=dpb.Range(0, 1))
PRICES = Actions(
    dpb.Schema(price=dpb.Range(1, 20, steps=10)), value=values.Revenue(), shape={"price": "decreasing"}
)
NUMBERS = np.array(PRICES.labels)


def shop(seed, people):
    rng = np.random.default_rng(seed)
    income = rng.random(people)
    bought = rng.random((people, 1)) < 1 / (1 + np.exp(-(5 + 9 * income[:, None] - NUMBERS) / 1.5))
    return TableBandit.from_rewards(
        {"income": income},
        schema=PEOPLE,
        rewards=bought.astype(float),
        actions=PRICES,
        reward_range=(0, 1),
        seed=seed,
        name="shop",
    )


def priced(world, seed, promise):
    """A policy of one's own: three prices as arms."""
    return lab.baselines.ConstantArm(
        arm=4, domain=world.domain, reward_range=(0, 20), horizon=world.horizon, seed=seed
    )


class Remembers(lab.baselines.ConstantArm):
    """A policy that remembers what it was told."""

    heard = ()

    def tell_batch(self, ids, rewards):
        self.heard = (*self.heard, *rewards.tolist())
        return super().tell_batch(ids, rewards)


def test_a_table_with_actions_has_outcomes_and_values():
    world = shop(1_000_000, 50)
    assert world.arms.labels == PRICES.labels
    assert set(np.unique(world.rewards(0, 50, np.zeros(50, dtype=int)))) <= {0.0, 1.0}
    means = world.mean_rewards(0, 50)
    np.testing.assert_allclose(world.values(means), means * NUMBERS)
    assert world.best_constant_arm().mean_reward > 1.0
    with pytest.raises(InvalidParameter, match="plain arms"):
        world.supervised_ceiling(0)
    with pytest.raises(InvalidParameter, match="either"):
        TableBandit.from_rewards(
            {"income": [0.5]}, schema=PEOPLE, rewards=np.ones((1, 10)), reward_range=(0, 1), seed=0
        )


def test_plain_arms_are_told_values_and_actions_are_told_outcomes():
    world = shop(1_000_000, 60)
    plain = Remembers(arm=4, domain=world.domain, reward_range=(0, 20), horizon=60, seed=0)
    found = lab.evaluation.run(plain, world)
    assert set(plain.heard) == {0.0, NUMBERS[4]}
    np.testing.assert_array_equal(found.rewards, plain.heard)
    crowd = LocalCrowd(
        spec=dpb.local.Spec(contexts=PEOPLE, actions=PRICES, privacy=dpb.LocalDP(epsilon=4)), horizon=60
    )
    paid = lab.evaluation.run(crowd, world)
    assert paid.best.max() > 1.0
    assert (paid.best >= paid.expected).all()


def test_a_comparison_holds_actions_against_policies_of_ones_own_in_values():
    found = lab.compare(
        {"shop": shop},
        {
            "actions": lab.comparing.RIVALS["GPBandit"],
            "devices": lab.comparing.RIVALS["Spec"],
            "mine": priced,
            "non-private": lab.comparing.RIVALS["non-private"],
            "best fixed arm": lab.comparing.RIVALS["best fixed arm"],
        },
        promises=[4.0],
        people=[1500],
        reps=1,
    )
    means = {row["policy"]: row["reward"] for row in found.means()}
    assert means["best fixed arm"] > means["mine"] * 0.99
    assert means["actions"] > 2.0
    assert means["devices"] > 2.0


def test_a_crowd_needs_the_actions_of_its_table():
    world = shop(1_000_000, 40)
    spec = dpb.local.Spec(contexts=PEOPLE, actions=PRICES, privacy=dpb.LocalDP(epsilon=4))
    assert simulate(spec, world, n_users=40, seed=0).users.sum() == 40
    plain = dpb.local.Spec(contexts=PEOPLE, arms=list(PRICES.labels), privacy=dpb.LocalDP(epsilon=4))
    with pytest.raises(InvalidParameter, match=r"actions=table\.actions"):
        simulate(plain, world, n_users=40, seed=0)


def test_twins_of_a_spec_and_of_a_policy_keep_the_actions():
    spec = dpb.local.Spec(contexts=PEOPLE, actions=PRICES, privacy=dpb.LocalDP(epsilon=2), seed=3)
    central = lab.twin(spec, room="central", horizon=500)
    assert central.actions == spec.actions
    assert central.privacy.epsilon == 2
    assert lab.twin(spec, horizon=500).guarantee.status == "simulated"
    for policy in (spec, central):
        crowd = lab.twin(policy, room="local", horizon=500)
        assert crowd.spec.actions == spec.actions
        assert crowd.spec.privacy.epsilon == 2
        decision = crowd.ask({"income": 0.4})
        assert decision.arm in PRICES.choices
        assert crowd.tell(decision.id, 1.0).value == "counted"
    own = Actions(PRICES.schema, value=lambda price, mean: price * mean)
    with pytest.raises(InvalidParameter, match="named value"):
        lab.twin(lab.twin(central, room="central", actions=own), room="local")
