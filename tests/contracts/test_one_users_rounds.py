"""All rounds of one user together: over blocks, late or missing, they lose what was promised at most.

Lives differ in what one user brings to `ROUNDS` rounds, and in nothing else; what is released is the same in
all of them, as for two neighbours and one outcome. Then everybody else must be answered the same, and every
block's noise must be of one law and size. The log-likelihood ratio of the outcome is bounded by what sums
moved, at the rates of the noise that was asked for.
"""

import contextlib
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.errors import ContributionExceeded, DPBanditsError
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.certificates import PureDP
from internals.blocks import loss_between, recorded
from internals.policy import give_salt, lineage

HORIZON, BLOCKS, ROUNDS = 34, (8, 16, 28), 3
PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"]),
    old=dpb.Categories([False, True]),
)
ARMS = ["mail", "call", "nothing"]
POLICY_SALT, CONTROL_SALT = 0, 1
WHEN = {"one block": (2, 4, 5), "several blocks": (3, 9, 20), "across a delay": (6, 7, 17)}


def of_people(*, delta=0.0, **changes):
    tuning = {name: changes.pop(name) for name in ("reporting_delay", "lag", "census") if name in changes}
    arguments = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "reward_range": dpb.RewardRange(-1, 3, clip=True),
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=2.0, delta=delta, rounds_per_user=ROUNDS),
        "noise": SimulatedNoise(3),
        "tuning": GPTuning(release="marginals", blocks=BLOCKS, **tuning),
    }
    return GPBandit(**(arguments | changes))


def of_numbers(**changes):
    """Numbers to choose from, with a value that falls with the number."""
    column = dpb.Schema(price=dpb.Range(1, 5, steps=5))
    actions = dpb.Actions(column, value=dpb.values.Revenue(price="price"), shape={"price": "decreasing"})
    return of_people(arms=None, actions=actions, **changes)


def of_products():
    """Arms with a public feature."""
    table = {"name": ARMS, "cost": [1.0, 4.0, 0.0]}
    return of_people(arms=dpb.Products(table, columns=dpb.Schema(cost=dpb.Range(0, 5))))


def changing():
    """A policy that adds an arm, which has a minimum share then, and retires one at its first release."""
    policy = of_people(arms=[*ARMS, "old"])
    policy.add_arm("chat", like="call")
    policy.retire_arm("old")
    return policy


def changing_products():
    """Products with effects of their own, of which one is added and one is retired at the first release."""
    table = {"name": [*ARMS, "old"], "cost": [1.0, 4.0, 0.0, 2.0]}
    policy = of_people(arms=dpb.Products(table, columns=dpb.Schema(cost=dpb.Range(0, 5))))
    policy.add_arm("chat", features={"cost": 3.0})
    policy.retire_arm("old")
    return policy


def warm():
    policy, rng = of_people(), np.random.default_rng(1)
    people = [person(rng) for _ in range(50)]
    policy.warm_start(people, rng.uniform(-1, 3, 50), arms=[ARMS[t % 3] for t in range(50)])
    return policy


def read(salt, **changes):
    """A policy with a readout; the salt decides which group the user "one" is in."""
    readout = dpb.Readout(
        control=dpb.Control(arm="nothing", share=0.5),
        metrics={"complaint": bool, "revenue": (0, 9)},
        share=0.3,
        segments="region",
        segments_share=0.2,
    )
    policy = of_people(readout=readout, **changes)
    give_salt(policy, bytes([salt]) * 16)
    return policy


def in_cells(**changes):
    tuning = {name: changes.pop(name) for name in ("reporting_delay", "lag") if name in changes}
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "domain": dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0]),
        "reward_range": dpb.RewardRange(-1, 3, clip=True),
        "horizon": HORIZON,
        "privacy": JointDP(epsilon=2.0, rounds_per_user=ROUNDS),
        "noise": SimulatedNoise(3),
        "tuning": GPTuning(release="cells", n_features=5, blocks=BLOCKS, **tuning),
    }
    return GPBandit(**(arguments | changes))


MAKERS = {
    "marginals": of_people,
    "marginals, Gaussian counts": lambda: of_people(delta=1e-3),
    "marginals, horizon unknown": lambda: of_people(horizon=None),
    "marginals, delayed": lambda: of_people(reporting_delay=3),
    "marginals, beside the answers": lambda: of_people(lag=2),
    "marginals, warm": warm,
    "marginals, census": lambda: of_people(census=True),
    "marginals, census and Gaussian counts": lambda: of_people(census=True, delta=1e-3),
    "marginals, actions": of_numbers,
    "marginals, actions and Gaussian counts": lambda: of_numbers(delta=1e-3),
    "marginals, products": of_products,
    "marginals, arms that change": changing,
    "marginals, read, in the policy's group": lambda: read(POLICY_SALT),
    "marginals, read, in the control group": lambda: read(CONTROL_SALT),
    "marginals, read and delayed": lambda: read(POLICY_SALT, reporting_delay=3),
    "marginals, read, Gaussian": lambda: read(POLICY_SALT, delta=1e-3),
    "cells": in_cells,
    "cells, horizon unknown": lambda: in_cells(horizon=None),
    "cells, delayed": lambda: in_cells(reporting_delay=3),
}


def person(rng):
    return {
        "age": float(rng.uniform(18, 90)),
        "region": ("north", "south", "west")[rng.integers(3)],
        "old": bool(rng.integers(2)),
    }


def brought(policy, rng):
    """A context and what is available of the arms, or a decision set."""
    if policy.menu is None:
        return rng.random((4, 2)), None
    labels = policy.menu.arms.labels if policy.arms is None else policy.arms
    available = [arm for arm, here in zip(labels, rng.random(len(labels)) < 0.7, strict=True) if here]
    return person(rng), available or None


def metrics(decision, told):
    """Metrics beside a reward, at an end of their ranges where the reward is at its end."""
    return {} if decision.group is None else {"complaint": told > 1.0, "revenue": 9.0 * (told + 1.0) / 4.0}


def life(monkeypatch, make, when, user):
    """Return what was moved, how others were answered, and one user's group; `user` is a seed."""
    policy, own, others = make(), np.random.default_rng(user), np.random.default_rng(77)
    moved, answers, waiting, group = recorded(monkeypatch, policy), [], [], None
    for t in range(HORIZON):
        mine = t in when
        sets, available = brought(policy, own if mine else others)
        others_reward, fate = others.integers(0, 2), "told"
        if mine:
            fate = own.choice(
                ["told", "told", "told", "missing", "late", "abandoned", "refused", "no reward"]
            )
            if user in (0, 1):  # always an end of the range
                fate = "told"
            if fate == "refused":
                sets = np.full((4, 2), np.nan) if policy.menu is None else {"age": "?", "region": "east"}
        try:
            asked = {} if available is None else {"available": available}
            decision = policy.ask(sets, user="one" if mine else f"user-{t}", **asked)
        except DPBanditsError:
            assert fate == "refused"
            continue
        group = decision.group if mine else group
        if not mine:
            answers.append((t, np.asarray(decision.action).tolist(), decision.propensity))
            policy.tell(decision.id, 4.0 * others_reward - 1.0)
        elif fate == "late":
            waiting.append(decision.id)
        elif fate == "abandoned":
            policy.abandon(decision.id)
        elif fate == "told":
            told = {0: -1.0, 1: 3.0}.get(user, float(own.uniform(-5.0, 7.0)))
            policy.tell(decision.id, told, **metrics(decision, told))
        elif fate == "no reward":
            with contextlib.suppress(DPBanditsError):
                policy.tell(decision.id, float("nan"))
        if t == HORIZON - 2:
            for late in waiting:
                policy.tell(late, 3.0)
    return policy, moved, answers, group


def promised(policy, group):
    """Return what hides a user: epsilon of Laplace noise, and (sensitivity/scale)^2 of Gaussian noise."""
    used = policy.guarantee.mechanisms
    if group is not None:
        used = [one for one in used if ("control group" in one.name) == (group == "control")]
    pure = [Fraction(one.certificate.epsilon) for one in used if isinstance(one.certificate, PureDP)]
    other = [(one.sensitivity / one.scale) ** 2 for one in used if not isinstance(one.certificate, PureDP)]
    return min(sum(pure), Fraction(policy.privacy.epsilon)), sum(other)


@pytest.mark.parametrize("when", WHEN.values(), ids=WHEN)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_all_rounds_of_one_user_lose_no_more_than_was_promised(monkeypatch, make, when):
    lives = [life(monkeypatch, make, when, user) for user in range(4)]
    policy, (*_, group), losses = lives[0][0], lives[0], []
    most, most_squares = promised(policy, group)
    for (_, moved, answers, _), (_, others, their_answers, _) in combinations(lives, 2):
        assert answers == their_answers
        pure, squares = loss_between(moved, others)
        losses.append(pure)
        assert pure <= most
        assert squares <= most_squares
    assert len(policy.released) > 0
    assert max(losses) > 0.5 * policy.privacy.epsilon


KINDS = pytest.mark.parametrize(
    "make",
    [of_people, MAKERS["marginals, Gaussian counts"], of_numbers, of_products, changing, in_cells],
    ids=["marginals", "Gaussian", "actions", "products", "changing", "cells"],
)


def shown(policy):
    """What anybody may look at before a release."""
    rng = np.random.default_rng(5)
    sets, _ = brought(policy, rng)
    parts = [policy, policy.diagnostics(), policy.to_config(), policy.predict(sets), policy.recommend(sets)]
    texts = [repr(part) for part in (*parts, policy.released.tolist(), policy.guarantee.mechanisms)]
    return [text.replace(lineage(policy)[:8], "LINEAGE") for text in texts]


@KINDS
def test_before_a_release_nothing_that_is_shown_depends_on_anybody(make):
    seen = []
    for crowd in (0, 1):
        policy, rng = make(), np.random.default_rng(crowd)
        for t in range(BLOCKS[0]):
            sets, _ = brought(policy, rng)
            policy.tell(policy.ask(sets, user=f"user-{crowd}-{t}").id, rng.uniform(-1, 3))
        seen.append(shown(policy))
        policy.ask(sets, user="next")
        assert shown(policy)[3:5] != seen[-1][3:5]  # predictions move with the release
    assert seen[0] == seen[1]


@KINDS
def test_rounds_are_counted_and_releases_logged_across_a_restart(make, tmp_path):
    policy, rng = make(), np.random.default_rng(2)
    for t in range(BLOCKS[1] + 1):
        sets, _ = brought(policy, rng)
        policy.ask(sets, user="one" if t < ROUNDS - 1 else f"user-{t}")
    policy.save(tmp_path / "state")
    again = GPBandit.load(tmp_path / "state")
    np.testing.assert_array_equal(again.released, policy.released)
    assert again.guarantee.mechanisms == policy.guarantee.mechanisms
    assert again.guarantee.certificate == policy.guarantee.certificate
    assert again.diagnostics()["blocks_released"] == 2
    again.ask(sets, user="one")
    with pytest.raises(ContributionExceeded):
        again.ask(sets, user="one")
