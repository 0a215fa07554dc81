"""`GPBandit` with sums in cells: what moves, what is promised, and what is public."""

from contextlib import suppress

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import MemoryLedger, cost_of_guarantee
from dpbandits.central import GPBandit, PublishedPosterior, growing_blocks
from dpbandits.errors import (
    BudgetExceeded,
    ContributionExceeded,
    CorruptState,
    InvalidData,
    InvalidParameter,
)
from dpbandits.models.features import MercerFeatures
from dpbandits.policy import Receipt
from dpbandits.privacy import JointDP, PureDP, SecureNoise, SimulatedNoise
from dpbandits.state import read_state, write_state
from dpbandits.state.format import State
from internals.policy import at_every_draw, fix_releases, spy_on_coins
from tuning import built

BLOCKS = (8, 20, 40)
T = 64


def policy(**changes):
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "domain": dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0]),
        "reward_range": (0.0, 1.0),
        "horizon": T,
        "privacy": JointDP(epsilon=2.0),
        "noise": SimulatedNoise(3),
        "release": "cells",
        "n_features": 6,
        "blocks": BLOCKS,
    }
    return built(GPBandit, arguments | changes)


def point(t):
    """One candidate, so that nobody's action depends on a release."""
    return np.random.default_rng(t).random((1, 2))


def driven(one, stop, *, reward=0.5, mine=(), candidates=None, others=(0.0, 1.0)):
    """Rounds to `stop`; those of `mine` are one user's, who brings `candidates` and tells `reward`."""
    for t in range(stop):
        own = t in mine
        decision = one.ask(
            candidates if own and candidates is not None else point(t), user="one" if own else f"user-{t}"
        )
        value = reward if own else others[t % 2]
        if value is not None:
            one.tell(decision.id, value)
    return one


def distance(one, other):
    return np.abs(one.released - other.released).sum()


@pytest.mark.parametrize("rounds", [1, 3])
def test_one_user_moves_a_block_by_the_sensitivity_and_no_more(rounds):
    """The same simulated noise in both runs: what differs is what the user moved, in L1."""
    privacy = JointDP(epsilon=2.0, rounds_per_user=rounds)
    whole = [
        driven(policy(privacy=privacy), 9, reward=reward, mine=range(rounds), candidates=place)
        for reward in (0.0, 1.0, None)
        for place in (np.array([[0.05, 0.05]]), np.array([[0.95, 0.95]]))
    ]
    moved = [distance(one, other) for one in whole for other in whole]
    assert max(moved) == rounds * 2**21
    (record,) = whole[0].guarantee.mechanisms
    assert record.sensitivity == rounds * 2**21
    assert record.scale == pytest.approx(rounds * 2**21 / 2.0, rel=1e-12)
    assert distance(whole[0], whole[4]) == rounds * 2**20  # a reward that never comes
    with pytest.raises(ContributionExceeded):
        whole[0].ask(point(0), user="one")


def test_what_is_released_is_the_sum_and_its_noise_and_each_block_is_drawn_once(monkeypatch):
    one, drawn = policy(), []
    monkeypatch.setattr(
        SimulatedNoise,
        "integer_laplace",
        lambda _, rate, size: drawn.append((rate, size)) or np.zeros(size, dtype=np.int64),
    )
    draws = []
    at_every_draw(monkeypatch, one, lambda: draws.append(1))
    driven(one, T, reward=1.0, mine=[3], others=(0.5, 0.5))
    assert len(draws) == len(drawn) == len(one.released) == len(BLOCKS)
    # everybody but one told the middle of the range, so nothing is left of the others
    assert one.released[0].sum() == 2**20
    assert not one.released[1:].any()
    assert all(rate <= 2.0 / 2**21 for rate, _ in drawn)


def test_the_statement_says_pure_epsilon_and_delta_is_zero():
    for privacy, said in ((JointDP(epsilon=2.0), False), (JointDP(epsilon=2.0, delta=1e-6), True)):
        promised = policy(privacy=privacy).guarantee
        assert (promised.epsilon, promised.delta, promised.definition.delta) == (2.0, 0.0, 0.0)
        assert promised.certificate == PureDP(2.0)
        text = " ".join(promised.annex().split())
        assert "epsilon = 2, delta = 0" in text
        assert "pure differential privacy, epsilon = 2" in text
        assert ("The allowed delta of 1e-06 is not used" in text) is said
        assert "Gaussian" not in text
        assert promised.status == "simulated"
    assert policy(noise=SecureNoise()).guarantee.status == "enforced"
    assert dpb.privacy.Guarantee.from_json(promised.to_json()) == promised


def test_a_bare_account_is_charged_epsilon_and_no_delta():
    ledger, promise = MemoryLedger(), JointDP(epsilon=2.0)
    ledger.open_account("people", privacy=promise)
    one = policy(privacy=JointDP(epsilon=2.0, delta=1e-6), account=ledger.account("people"))
    cost = cost_of_guarantee(one.guarantee)
    assert (float(cost.epsilon), float(cost.delta), float(cost.rho)) == (2.0, 0.0, 2.0)
    driven(one, 10)
    with pytest.raises(BudgetExceeded):
        driven(policy(account=ledger.account("people")), 1)


def test_an_unknown_horizon_costs_no_noise():
    known, unknown = policy(), policy(horizon=None, blocks=None)
    assert known.diagnostics()["cell_noise_sd"] == unknown.diagnostics()["cell_noise_sd"]
    assert len(unknown.blocks) > 40
    driven(unknown, 70)
    assert len(unknown.released) >= 1
    assert unknown.to_config()["horizon"] is None


@pytest.mark.parametrize("round_of_one", [3, 12])
def test_the_place_of_the_cells_depends_on_releases_and_public_coins_alone(monkeypatch, round_of_one):
    """Other data and the same releases: the same questions, asked of other people."""
    seen = []
    for reward in (0.0, 1.0):
        one = policy()
        coins = spy_on_coins(one)
        with monkeypatch.context() as patched:
            fix_releases(patched, one)
            driven(one, T, reward=reward, mine=[round_of_one])
        mean, sd = one.predict(point(7))
        seen.append((sorted(coins.items()), mean.tolist(), sd.tolist()))
    assert seen[0] == seen[1]


def test_a_late_reward_adds_nothing():
    one = policy()
    waiting = one.ask(point(0), user="late")
    driven(one, 9)
    assert one.tell(waiting.id, 1.0) is Receipt.LATE


def test_it_learns_and_publishes_what_it_learned(tmp_path):
    """At a large epsilon: the better half of the square is known after the first blocks."""
    one = policy(privacy=JointDP(epsilon=50.0), horizon=400, blocks=(100, 200, 300))
    rng = np.random.default_rng(0)
    for t in range(301):
        decision = one.ask(rng.random((4, 2)), user=t)
        one.tell(decision.id, float(decision.action[0] > 0.5))
    mean, sd = one.predict(np.array([[0.15, 0.5], [0.85, 0.5]]))
    assert mean[1] - mean[0] > 0.5
    assert (sd < 0.2).all()
    one.publish().save(tmp_path)
    published = PublishedPosterior.load(tmp_path)
    np.testing.assert_allclose(published.predict(np.array([[0.15, 0.5], [0.85, 0.5]]))[0], mean)
    assert published.guarantee == one.guarantee


def test_a_configuration_keeps_its_kind():
    config = policy().to_config()
    assert config["tuning"]["release"] == "cells"
    assert GPBandit.from_config(config).to_config() == config


def test_a_state_keeps_the_blocks_that_it_was_built_with(tmp_path):
    """Default blocks may change between versions; what was promised and saved does not."""
    earlier = growing_blocks(3_000, first=30, growth=1.15, last_share=0.85)
    policy(horizon=3_000, blocks=earlier).save(tmp_path / "state")
    now = policy(horizon=3_000, blocks=None).blocks
    assert now[:-1] == earlier == GPBandit.load(tmp_path / "state").blocks
    assert 0.85 * 3_000 < now[-1] <= 0.95 * 3_000


@pytest.mark.parametrize("name", ["released", "cell_counts", "cell_features"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda array: array[:, :-1],
        lambda array: np.concatenate([array] * 4),
        lambda array: array.astype(np.float32),
        lambda array: np.full(array.shape, -1.0) if array.ndim == 2 else np.full_like(array, np.nan),
    ],
)
def test_a_state_with_other_arrays_is_refused(name, damage, tmp_path):
    driven(one := policy(), 9)
    path = tmp_path / "policy.state"
    one.save(path)
    state = read_state(path)
    broken = damage(state.arrays[name])
    arrays = dict(state.arrays) | {name: broken}
    write_state(path, State(**(vars(state) | {"arrays": arrays})))
    with pytest.raises(CorruptState):
        GPBandit.load(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision_sets": "public"},
        {"domain": None, "kernel": None, "contexts": dpb.Schema(age=dpb.Range(0, 9)), "arms": ["a", "b"]},
        {"privacy": JointDP(epsilon=1e-7)},
        {"release": "histograms"},
    ],
)
def test_what_cells_cannot_do_is_refused_at_once(wrong):
    with pytest.raises(InvalidParameter):
        policy(**wrong)


def box(columns):
    return dpb.Box(low=[0.0] * columns, high=[1.0] * columns)


def chosen(*, epsilon, delta, rounds=1, **changes):
    """A policy whose kind was left to the rule; a public law of candidates is declared unless it is None."""
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=2.0),
        "privacy": JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rounds),
        "release": None,
        "n_features": None,
    }
    arguments |= changes
    if "public_decision_sets" not in arguments:
        arguments["public_decision_sets"] = (
            arguments.get("domain", box(2)).sample(6, np.random.default_rng(0)).reshape(2, 3, -1)
        )
    return policy(**arguments)


OWN = dpb.features.MercerFeatures(
    kernel=dpb.kernels.SquaredExponential(lengthscale=2.0), domain=box(2), n_features=4
)
KINDS = [
    (box(1), 1.0, 0.0, "cells"),
    (dpb.domains.Ball(centre=[0, 0], radius=1), 1.0, 0.0, "cells"),
    (dpb.domains.Ball(centre=[0, 0], radius=1), 1.0, 1e-6, "features"),
    (box(1), 3.0, 1e-6, "cells"),
    (box(4), 3.0, 1e-6, "cells"),
    (box(4), 3.0, 1e-5, "features"),
    (box(4), 3.1, 1e-6, "features"),
    (box(4), 1.0, 1e-3, "cells"),
    (box(4), 1.1, 1e-3, "features"),
    (box(6), 1.0, 1e-6, "cells"),
    (box(6), 1.0, 1e-5, "features"),
    (box(7), 1.0, 1e-6, "features"),
]


@pytest.mark.parametrize(("domain", "epsilon", "delta", "kind"), KINDS)
def test_the_kind_follows_from_public_numbers_alone(domain, epsilon, delta, kind):
    """Whatever the noise, the seed and the people are: it is known before anybody asks, and stays."""
    found = set()
    for seed, noise, reward in ((0, SimulatedNoise(1), 0.0), (9, SecureNoise(), 1.0)):
        one = chosen(domain=domain, epsilon=epsilon, delta=delta, seed=seed, noise=noise)
        before = one.tuning.release
        rng = np.random.default_rng(seed)
        for t in range(9):
            decision = one.ask(domain.sample(3, rng), user=t)
            one.tell(decision.id, reward)
        found |= {before, one.tuning.release, GPBandit.from_config(one.to_config()).tuning.release}
    assert found == {kind}


def crowd(t, spot):
    """Three candidates, all near `spot`."""
    return np.clip(spot + 0.01 * np.random.default_rng(t).random((3, 2)), 0.0, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "kind"), [(1.0, 0.0, "cells"), (1.0, 1e-6, "cells"), (3.1, 1e-6, "features")]
)
def test_whoever_comes_and_whatever_they_tell_the_kind_of_every_release_is_the_same(epsilon, delta, kind):
    """The same public arguments, other data: what can be seen of the kind is the same after each block."""
    seen = []
    for spot, reward in ((0.0, 1.0), (0.0, 0.0), (0.99, 1.0), (0.5, None), (np.nan, None)):
        one = chosen(epsilon=epsilon, delta=delta)
        for t in range(BLOCKS[-1] + 1):
            with suppress(InvalidData):  # of a bad decision set: the round counts all the same
                decision = one.ask(crowd(t, spot), user=t)
                if reward is not None:
                    one.tell(decision.id, reward)
        assert one.tuning.release == kind
        noise = {name: value for name, value in one.diagnostics().items() if name.endswith("noise_sd")}
        seen.append((one.to_config(), one.guarantee.to_json(), one.released.shape, one.blocks, noise))
    assert all(other == seen[0] for other in seen)
    assert len(seen[0][4]) >= 1


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "cells"),
        ({"horizon": None, "blocks": None}, "features"),
        ({"horizon": None, "blocks": None, "delta": 1e-6}, "cells"),
        ({"horizon": None, "blocks": None, "delta": 1e-6, "epsilon": 1.1}, "features"),
        ({"horizon": 3_000}, "cells"),
        ({"horizon": 3_001}, "features"),
        ({"horizon": 10_000, "delta": 1e-6}, "cells"),
        ({"horizon": 10_001, "delta": 1e-6}, "features"),
        ({"epsilon": 3.0, "delta": 1e-6, "rounds": 3}, "cells"),
        ({"epsilon": 3.0, "rounds": 2}, "features"),
        ({"epsilon": 3.0, "delta": 1e-6, "horizon": 3_001}, "features"),
        ({"n_features": 6}, "features"),
        ({"prior_variance": 0.3}, "features"),
        ({"decision_sets": "public"}, "features"),
        ({"public_decision_sets": None}, "features"),
        ({"public_decision_sets": "whole"}, "cells"),
        ({"kernel": None, "features": OWN}, "features"),
        ({"release": "features"}, "features"),
    ],
)
def test_with_a_delta_cells_are_taken_where_they_lose_less_and_nothing_else_was_asked_for(changes, kind):
    assert chosen(**{"epsilon": 1.0, "delta": 1e-4} | changes).tuning.release == kind


def test_what_an_account_pays_for_keeps_features_unless_the_promise_is_pure():
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=JointDP(epsilon=3.0, delta=1e-5))
    paid = {"account": ledger.account("people")}
    assert chosen(epsilon=1.0, delta=1e-6, **paid).tuning.release == "features"
    assert chosen(epsilon=1.0, delta=0.0, **paid).tuning.release == "cells"
    assert chosen(epsilon=1.0, delta=1e-6, release="cells", **paid).tuning.release == "cells"


def test_cells_that_the_rule_took_promise_pure_epsilon_and_say_that_delta_is_not_used(tmp_path):
    one = chosen(epsilon=1.0, delta=1e-6)
    promised = one.guarantee
    assert (promised.epsilon, promised.delta, promised.certificate) == (1.0, 0.0, PureDP(1.0))
    assert "1e-06" in promised.annex()
    driven(one, 9).save(tmp_path / "state")
    state = read_state(tmp_path / "state")
    assert state.public["config"]["tuning"]["release"] == "cells"
    assert GPBandit.load(tmp_path / "state").tuning.release == "cells"


def test_a_pure_promise_without_arms_is_kept_by_cells():
    promised = policy(release=None, privacy=JointDP(epsilon=0.5)).guarantee
    assert (promised.epsilon, promised.delta, promised.certificate) == (0.5, 0.0, PureDP(0.5))
    with pytest.raises(InvalidParameter):
        policy(release="features", privacy=JointDP(epsilon=0.5))


@pytest.mark.numerics
def test_a_point_of_a_finite_domain_has_one_cell_whatever_row_of_a_product_it_stands_in(tmp_path):
    """Kernels that round by row (Nehalem's) made two cells of one point, and people stood in either of them.

    With 16 points and noise far below one reward, people stand where they are expected and nowhere else.
    """
    pool = np.random.default_rng(0).random((16, 3))
    cube = dpb.Box(low=[0.0] * 3, high=[1.0] * 3)
    features = MercerFeatures(kernel=dpb.kernels.Matern(nu=1.5, lengthscale=0.3), domain=cube, n_features=100)
    changes = {"kernel": None, "n_features": None, "features": features, "domain": dpb.Finite(pool)}
    one = policy(**changes, horizon=400, blocks=(160, 320), privacy=JointDP(epsilon=1e4))
    for t in range(321):
        decision = one.ask(pool[t % 16][None], user=f"user-{t}")
        one.tell(decision.id, 1.0)
    one.save(tmp_path / "policy")
    arrays = read_state(tmp_path / "policy").arrays
    for sums, counts in zip(arrays["released"], arrays["cell_counts"], strict=True):
        assert (counts > 0.0).sum() == 16
        np.testing.assert_allclose(sums[counts > 0.0] / sums.max(), 1.0, rtol=0.01)
        assert np.abs(sums[counts == 0.0]).max() < 0.01 * sums.max()
