"""Users who bring their own epsilon: exact laws, honest weights, and what correlation does."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger
from dpbandits.domains import Box
from dpbandits.errors import BudgetExceeded, IncompatibleState, InvalidParameter
from dpbandits.lab.evaluation import simulate
from dpbandits.local import Client, Server, Spec
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.local.learners.base import class_weights, combined_estimate
from dpbandits.privacy import LocalDP
from dpbandits.privacy.reports import SignedTernary, mechanism
from flat import spec_with
from reproduction.local_worlds import world


def spec_of(**changes):
    base = {
        "contexts": Box(low=[0, 0], high=[1, 1]),
        "arms": range(2),
        "privacy": LocalDP(epsilon=4.0),
        "learner": "tree",
        "epsilons": (0.5, 1.0, 4.0),
        "reports_per_version": 50,
    }
    return spec_with(**(base | changes))


def payloads_of(one):
    """All payloads a device can send, with small n_cells."""
    every = itertools.product(range(256), repeat=one.report_bytes)
    rows = np.array(list(every), dtype=np.uint8)
    return rows[one.valid(rows)]


@pytest.mark.parametrize("names", [("signed", "signed"), ("krr", "signed"), ("oue", "krr")])
def test_the_law_of_a_mixed_crowd_is_exact(names):
    """Every pair of reports of two classes, with its exact probability: unbiased, and each class private."""
    parts = [mechanism(name, n_cells=2, epsilon=e) for name, e in zip(names, (0.7, 2.0), strict=True)]
    truth = [(0, True), (1, False)]  # (cell, sign) of the user of each class
    reports = [payloads_of(one) for one in parts]
    chances = [
        [one.likelihood(row.tobytes(), cell, positive=sign) for row in rows]
        for one, rows, (cell, sign) in zip(parts, reports, truth, strict=True)
    ]
    assert all(sum(column, Fraction(0)) == 1 for column in chances)
    mean_signed, mean_count = np.zeros(2), np.zeros(2)
    second = np.zeros(2)
    for (i, p), (j, q) in itertools.product(enumerate(chances[0]), enumerate(chances[1])):
        sums = [parts[0].aggregate(reports[0][i : i + 1]), parts[1].aggregate(reports[1][j : j + 1])]
        signed, count, n, _ = combined_estimate([(parts[0], sums[0], 1), (parts[1], sums[1], 1)])
        mean_signed += float(p * q) * signed
        mean_count += float(p * q) * count
        second += float(p * q) * signed**2
    weights = class_weights(parts, [1, 1])
    assert np.isclose(weights.sum(), 2.0)
    assert np.allclose(mean_signed, [weights[0], -weights[1]])
    assert np.allclose(mean_count, weights)
    assert n == 2
    bound = [
        sum(
            float(w**2) * (one.moments.signed_own if cell == at else one.moments.signed_other)
            for w, one, (cell, _) in zip(weights, parts, truth, strict=True)
        )
        for at in range(2)
    ]
    assert (second - mean_signed**2 <= np.array(bound) + 1e-9).all()
    # a report says its class in the open, and keeps that class's epsilon over all inputs
    for one, rows in zip(parts, reports, strict=True):
        inputs = list(itertools.product(range(2), (True, False)))
        for row in rows:
            laws = [one.likelihood(row.tobytes(), cell, positive=sign) for cell, sign in inputs]
            assert max(laws) <= Fraction(math.exp(one.epsilon)) * min(laws)


def test_weights_are_public_and_beat_equal_ones():
    parts = [SignedTernary(n_cells=8, epsilon=e) for e in (0.5, 4.0)]
    rng = np.random.default_rng(0)
    inside = np.array([20, 30, 0, 50, 10, 40, 30, 20])
    error = {"own": 0.0, "equal": 0.0}
    variance = 0.0
    runs = 400
    for _ in range(runs):
        pairs = [(one, one.simulate(inside, 0 * inside, rng), 200) for one in parts]
        signed, _, n, moments = combined_estimate(pairs)
        weights = class_weights(parts, [200, 200])
        truth = (weights.sum() * inside).astype(float)
        error["own"] += ((signed - truth) ** 2).mean() / runs
        equal = sum(one.estimate(sums, k)[0] for one, sums, k in pairs)
        error["equal"] += ((equal - 2.0 * inside) ** 2).mean() / runs
        share = inside / inside.sum()
        variance = (n * (share * moments.signed_own + (1 - share) * moments.signed_other)).mean()
    assert error["own"] < 0.5 * error["equal"]
    # With the same people in every run a report's squared mean, 1 in its own cell, is no variance.
    fixed = (weights**2 * 200).sum() * share.mean()
    assert 0.9 < error["own"] / (variance - fixed) < 1.1


def test_devices_pay_their_own_epsilon_and_servers_learn_from_all():
    spec = spec_of()
    server, rng = Server(spec), np.random.default_rng(0)
    batches, policies = [], []
    for _ in range(8):
        policy, batch = server.publish(), []
        policies.append(policy.to_json(spec))
        for context in rng.random((60, 2)):
            own = spec.epsilons[rng.integers(3)]
            ledger = MemoryLedger()
            device = Client(spec, privacy=LocalDP(epsilon=own), account=ledger.account("local-reports"))
            arm = device.choose(policy, context)
            batch.append(device.report(float(rng.random() < (0.9 if arm else 0.1))))
            assert ledger.balance("local-reports").remaining_epsilon == 0
            assert batch[-1][HEADER_BYTES] == spec.epsilons.index(own)
            with pytest.raises(BudgetExceeded):
                device.choose(policy, context)
        assert server.absorb(batch).accepted == 60
        batches.append(batch)
    assert (server.publish().arms == 1).all()
    assert Server.replay(spec, batches).publish().to_json(spec) == server.publish().to_json(spec)
    forged = batches[-1][0][:HEADER_BYTES] + bytes([9]) + batches[-1][0][HEADER_BYTES + 1 :]
    assert server.absorb([forged]).malformed == 1


def test_the_guarantee_is_the_users_own():
    spec = spec_of()
    assert Client(spec, privacy=LocalDP(epsilon=0.5)).guarantee.epsilon == 0.5
    assert Client(spec).guarantee.epsilon == 4.0
    assert Spec.from_json(spec.to_json()) == spec
    assert spec_of(epsilons=[0.5, 1, 4]) == spec
    plain = spec_of(epsilons=())
    assert json.loads(plain.to_json())["epsilons"] == []
    with pytest.raises(InvalidParameter):
        Client(spec, privacy=LocalDP(epsilon=2.0))


@pytest.mark.parametrize(
    "epsilons", [(1.0, 0.5, 4.0), (0.5, 1.0), (0.0, 4.0), (4.0, 4.0), (0.5, 20.0), ("a", 4.0), "4"]
)
def test_impossible_classes_are_refused(epsilons):
    with pytest.raises(InvalidParameter):
        spec_of(epsilons=epsilons)
    config = spec_of().to_json().replace("[0.5, 1.0, 4.0]", "[3.0]")
    with pytest.raises((InvalidParameter, IncompatibleState)):
        Spec.from_json(config)


def test_a_few_generous_users_help_everyone():
    """Of 4,000 simulated users half choose epsilon = 8: far better than everyone at 1."""
    one = world("tune-waves")
    base = {"contexts": Box(low=[0, 0], high=[1, 1]), "arms": range(3), "learner": "tree"}
    mixed = spec_with(**base, privacy=LocalDP(epsilon=8.0), epsilons=(1.0, 8.0))

    def regret(spec):
        return np.mean([simulate(spec, one, n_users=4000, seed=s).average_regret for s in range(6)])

    assert regret(mixed) < 0.85 * regret(spec_with(**base, privacy=LocalDP(epsilon=1.0)))
    with pytest.raises(InvalidParameter):
        simulate(mixed, one, n_users=10, seed=0, classes=lambda x, rng: np.full(len(x), 2))
    with pytest.raises(InvalidParameter):
        simulate(
            spec_with(**base, privacy=LocalDP(epsilon=1.0)), one, n_users=10, seed=0, classes=lambda x, rng: x
        )


def test_simulated_masses_bend_when_epsilon_follows_the_context():
    """Two bins of equal mass; who chooses epsilon = 4 is on the left. False alarms below 1e-6."""
    one = world("tune-faint")
    spec = spec_with(
        contexts=Box(low=[0, 0], high=[1, 1]),
        arms=range(3),
        privacy=LocalDP(epsilon=4.0),
        epsilons=(0.5, 4.0),
        learner="explore",
        constants={"depth": 1},
        reports_per_version=10_000,
    )

    def left(classes):
        sums = simulate(spec, one, n_users=40_000, seed=1, classes=classes).rule.sums()
        return sums.count[0].sum() / sums.count.sum()

    assert abs(left(lambda x, rng: rng.integers(2, size=len(x))) - 0.5) < 0.03
    assert left(lambda x, rng: (x[:, 0] < 0.5).astype(int)) > 0.8


def crowd_estimates(chance_strong, rng, n=20_000):
    """Bins' masses and mean rewards as two classes' reports give them.

    Half of the people are in each of two bins, and each has reward 1 with probability 1/2; `chance_strong`
    gives the probability of the large epsilon by (bin, reward).
    """
    parts = [SignedTernary(n_cells=2, epsilon=e) for e in (0.5, 4.0)]
    place, reward = rng.integers(2, size=n), rng.integers(2, size=n)
    strong = rng.random(n) < np.asarray(chance_strong)[place, reward]
    pairs = []
    for kind, one in enumerate(parts):
        mine = strong == kind
        positive = np.bincount(place[mine & (reward == 1)], minlength=2)
        negative = np.bincount(place[mine & (reward == 0)], minlength=2)
        pairs.append((one, one.simulate(positive, negative, rng), int(mine.sum())))
    signed, count, total, _ = combined_estimate(pairs)
    return count / total, 0.5 + signed / (2 * total * 0.5)


@pytest.mark.parametrize(
    ("chance", "mass", "mean"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], (0.5, 0.5), (0.5, 0.5)),
        ([[0.9, 0.9], [0.1, 0.1]], (0.85, 0.15), None),  # epsilon follows the bin: its mass is overstated
        ([[0.1, 0.9], [0.1, 0.9]], (0.5, 0.5), (0.88, 0.88)),  # epsilon follows the reward: so is the mean
    ],
    ids=["independent", "by-bin", "by-reward"],
)
def test_epsilon_that_depends_on_the_data_bends_the_estimates(chance, mass, mean):
    rng = np.random.default_rng(5)
    runs = [crowd_estimates(chance, rng) for _ in range(20)]
    masses, means = (np.mean([run[part] for run in runs], axis=0) for part in (0, 1))
    assert np.allclose(masses, mass, atol=0.05)
    if mean is not None:
        assert np.allclose(means, mean, atol=0.05)


def test_the_guarantee_says_what_a_class_gives_away():
    spec = spec_of()
    assert Client(spec, privacy=LocalDP(epsilon=0.5)).guarantee.epsilon == 0.5
    assert any("in the open" in note for note in Client(spec, privacy=LocalDP(epsilon=0.5)).guarantee.notes)
    assert not any("in the open" in note for note in Client(spec_of(epsilons=())).guarantee.notes)


@pytest.mark.parametrize("epsilon", [np.zeros(0), np.ones(3), "4.0", math.nan, 3.0])
def test_an_epsilon_that_is_no_class_is_refused(epsilon):
    with pytest.raises(InvalidParameter):
        Client(spec_of(), privacy=LocalDP(epsilon=epsilon))
