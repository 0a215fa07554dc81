"""What may be pickled and copied, and what may not: released values may, a state that draws noise may not.

That no policy of the registry can be copied is in `test_saving`; what `SecureNoise` does is in `test_noise`.
"""

import copy
import pickle

import numpy as np
import pytest

import dpbandits as dpb
from contracts.cases import DOMAIN, KERNEL
from dpbandits.budget import MemoryLedger
from dpbandits.central import ExploreThenCommit, GPBandit, GPTuning, LoggedTable
from dpbandits.errors import ContributionExceeded, ProtocolError
from dpbandits.local import Client, GPSpec, MemoryOutbox, Server, Spec
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import Curator
from tuning import placed

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
CENTRAL = {
    "contexts": PEOPLE,
    "arms": ["mail", "call"],
    "reward_range": (0, 1),
    "horizon": 40,
    "privacy": dpb.JointDP(epsilon=1.0, delta=1e-6),
    "noise": dpb.SimulatedNoise(1),
}
PERSON = {"age": 30, "region": "south"}
TABLE = {"age": [30, 61] * 20, "region": ["south", "north"] * 20, "offer": ["mail"] * 40, "paid": [0.5] * 40}
WAYS = [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]  # noqa: S301
DUPLICATES = pytest.mark.parametrize("duplicate", WAYS, ids=["copy", "deepcopy", "pickle"])

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.privacy.definitions.DPBanditsWarning")


def online(release):
    policy = GPBandit(**CENTRAL, tuning=GPTuning(release=release))
    for number in range(policy.blocks[0] + 1):
        policy.tell(policy.ask(PERSON, user=f"u{number}").id, 1.0)
    return policy.publish()


def of_points():
    policy = GPBandit(
        **placed(CENTRAL | {"contexts": None, "arms": None, "user_ids": False}), domain=DOMAIN, kernel=KERNEL
    )
    candidates = DOMAIN.sample(5, np.random.default_rng(0))
    for _ in range(policy.blocks[0] + 1):
        policy.tell(policy.ask(candidates).id, 1.0)
    return policy.publish()


def explored(**changes):
    policy = ExploreThenCommit(**placed(CENTRAL | changes | {"user_ids": False}))
    policy.learn({name: TABLE[name] for name in PEOPLE.names}, policy.explore(0, 40), TABLE["paid"])
    return policy


def logged():
    columns = {"action": "offer", "reward": "paid", "reward_range": (0, 1)}
    return LoggedTable.of_people(TABLE, contexts=PEOPLE, arms=["mail", "call"], **columns)


def gp_spec():
    features = MercerFeatures(kernel=KERNEL, domain=DOMAIN, n_features=4)
    return GPSpec(domain=DOMAIN, features=features, reward_range=(0.0, 1.0), privacy=CENTRAL["privacy"])


def spec(learner):
    return Spec(contexts=DOMAIN, arms=range(2), privacy=dpb.LocalDP(epsilon=4.0), learner=learner)


def curator():
    table = {"age": np.linspace(18, 90, 12), "effect": np.linspace(0, 1, 12)}
    rows = dpb.RowDP(epsilon=1.0, distance=1.0)
    return Curator(table, contexts=dpb.Schema(age=dpb.Range(18, 90)), privacy=rows, objective="effect")


def rows_of(release):
    return release.inputs.tolist(), release.release_id, release.guarantee.to_json()


FILES = {
    "features": lambda: online("features"),
    "marginals": lambda: online("marginals"),
    "points": of_points,
    "cells": lambda: explored().publish(),
    "table": lambda: logged().publish(CENTRAL["privacy"], horizon=40),
}
"""Released functions, by name: two are the same where their files are."""

PUBLISHED = {
    **{name: (make, lambda function: function.to_files()) for name, make in FILES.items()},
    "arms": (lambda: Server(spec("tree")).publish(), lambda found: found.to_json(spec("tree"))),
    "questions": (
        lambda: Server(spec("questions")).publish(),
        lambda found: found.to_json(spec("questions")),
    ),
    "weights": (lambda: Server(gp_spec()).publish(), lambda found: found.to_json(gp_spec())),
    "spec": (lambda: spec("smooth"), lambda found: found.to_json()),
    "spec of a Gaussian process": (gp_spec, lambda found: found.to_json()),
    "rows": (lambda: curator().publish(), rows_of),
}
"""Everything that a trust model publishes: how to make it, and what says that two are the same."""


@DUPLICATES
@pytest.mark.parametrize("name", PUBLISHED)
def test_whatever_is_published_can_be_copied_and_pickled(name, duplicate):
    make, written = PUBLISHED[name]
    published = make()
    again = duplicate(published)
    assert type(again) is type(published)
    assert written(again) == written(published)


@pytest.mark.parametrize("release", ["features", "marginals"])
def test_a_pickled_function_decides_as_before(release):
    published = online(release)
    again = pickle.loads(pickle.dumps(published))  # noqa: S301
    people = {"age": [20, 50, 80], "region": ["north", "south", "north"]}
    for before, after in zip(published.predict(people), again.predict(people), strict=True):
        np.testing.assert_array_equal(before, after)
    assert again.recommend(PERSON) == published.recommend(PERSON)


@pytest.mark.parametrize("name", ["features", "cells"])
def test_a_pickled_function_holds_what_save_writes(name):
    """Nothing that hangs on the object by chance goes along."""
    published = FILES[name]()
    vars(published)["unreleased"] = "a row of the table"
    assert b"a row of the table" not in pickle.dumps(published)
    assert not hasattr(copy.deepcopy(published), "unreleased")


LIVE = {
    "policy": lambda: GPBandit(**CENTRAL),
    "explore then commit": explored,
    "client": lambda: Client(spec("tree"), outbox=MemoryOutbox()),
    "server": lambda: Server(spec("tree")),
    "curator": curator,
    "ledger": MemoryLedger,
    "outbox": MemoryOutbox,
}
"""What spends, remembers or draws: two copies would each do it."""


@DUPLICATES
@pytest.mark.parametrize("name", LIVE)
def test_what_holds_a_state_cannot_be_copied_or_pickled(name, duplicate):
    made = LIVE[name]()
    with pytest.raises(ProtocolError, match="cannot be copied or pickled: ") as caught:
        duplicate(made)
    assert type(made).__name__ in str(caught.value)


@DUPLICATES
def test_rows_of_a_copied_shard_count_once(duplicate):
    """A shard travels between processes; that two copies are one shard is known when they are merged."""
    policy = explored(horizon=50)
    shard = policy.shard()
    shard.learn({"age": [30], "region": ["south"]}, ["mail"], [0.5])
    twin = duplicate(shard)
    twin.learn({"age": [40], "region": ["south"]}, ["mail"], [0.5])
    policy.merge(shard)
    with pytest.raises(ContributionExceeded, match="or a part or copy of it"):
        policy.merge(twin)


def test_features_are_made_ready_again():
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=DOMAIN, n_features=4)
    points = DOMAIN.sample(6, np.random.default_rng(1))
    again = pickle.loads(pickle.dumps(features))  # noqa: S301
    np.testing.assert_array_equal(again(points), features(points))
    np.testing.assert_array_equal(again.of_known(points), features.of_known(points))
