"""Under simulated noise a run that was saved and taken up again is the uninterrupted one, bit for bit.

Every `RoundPolicy` is held to this in `test_saving.py`; here is everything else that keeps a state. Under
secure noise what was released before is what is there after any crash: tests/faults.
"""

from functools import cache

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit, ExploreTuning
from dpbandits.domains import Box
from dpbandits.local import Client, DurableServer, Robust, Server
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced import Curator
from dpbandits.privacy import JointDP, LocalDP, RowDP, SimulatedNoise
from dpbandits.privacy.rows import AnswerLaplace
from flat import spec_with

pytestmark = pytest.mark.numerics

CELLS = CellMeasure.uniform(low=0, high=1, cells=4)
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
ROBUST = Robust(bytes(range(32)), groups=3)


def usca(folder, pauses):
    policy = ExploreThenCommit(
        kernel=KERNEL,
        actions=CELLS,
        contexts=CELLS,
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=JointDP(epsilon=4.0, delta=1e-6, user_ids=False),
        tuning=ExploreTuning(publish_epsilon=2.0, answer_epsilon=0.25),
        noise=SimulatedNoise(3),
    )
    seen = []
    for t in range(8):
        if t in pauses:
            policy.save(folder / "state")
            policy = ExploreThenCommit.load(folder / "state")
        rng = np.random.default_rng(t)
        policy.learn(rng.random(500), policy.explore(500 * t, 500 * (t + 1)), rng.random(500))
        seen.append((policy.answer([rng.random()]).index, policy.publish().mean.tobytes() if t > 4 else b""))
    return seen


def logged_tables(folder, pauses):
    columns = {"old": dpb.Categories(["no", "yes"]), "age": dpb.Range(0, 1)}
    policy = ExploreThenCommit(
        contexts=dpb.Schema(**columns),
        arms=["mail", "call"],
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=JointDP(epsilon=4.0, delta=1e-6, user_ids=False),
        noise=SimulatedNoise(3),
        tuning=ExploreTuning(release="marginals"),
    )
    seen = []
    for t in range(8):
        if t in pauses:
            policy.save(folder / "state")
            policy = ExploreThenCommit.load(folder / "state")
        rng = np.random.default_rng(t)
        people = {"old": rng.choice(["no", "yes"], 500).tolist(), "age": rng.random(500)}
        policy.learn(people, policy.explore(500 * t, 500 * (t + 1)), rng.random(500))
        seen.append(policy.publish().posterior.mean.tobytes() if t > 4 else b"")
    return seen


def logged_numbers(folder, pauses):
    policy = ExploreThenCommit(
        contexts=dpb.Schema(age=dpb.Range(0, 1)),
        actions=dpb.Range(1, 5, steps=5),
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=JointDP(epsilon=4.0, delta=1e-6, user_ids=False),
        noise=SimulatedNoise(3),
        tuning=ExploreTuning(logged="densities"),
    )
    seen = []
    for t in range(8):
        if t in pauses:
            policy.save(folder / "state")
            policy = ExploreThenCommit.load(folder / "state")
        rng = np.random.default_rng(t)
        prices = 5.0 - 4.0 * np.sqrt(rng.random(500))
        people = {"age": rng.random(500)}
        policy.learn(people, prices, rng.random(500), propensities=(5.0 - prices) / 8.0)
        seen.append(policy.publish().posterior.mean.tobytes() if t > 4 else b"")
    return seen


def curator(folder, pauses):
    table = {"age": [30, 41, 52, 63, 74, 35], "effect": [0.1, 0.7, 0.4, 0.9, 0.2, 0.6]}
    one = Curator(
        table,
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        privacy=RowDP(epsilon=1.0, distance=1.0),
        objective="effect",
        answers=AnswerLaplace(epsilon=2.0, distance=0.1, low=0.0, high=1.0),
        noise=SimulatedNoise(3),
        secret=folder / "secret",
    )
    seen = [one.publish().inputs.tobytes()]
    for row in range(6):
        if row in pauses:
            one = Curator.open(folder / "secret")
            seen[0] = one.publish().inputs.tobytes()
        seen.append(one.answer(row))
    return seen


def server(folder, pauses, robust=None, **own):
    spec = spec_with(
        privacy=LocalDP(epsilon=3.0),
        reports_per_version=5,
        seed=5,
        **({"learner": "tree", "arms": range(2), "contexts": Box(low=[0], high=[1])} | own),
    )
    reports = recorded(spec, robust)
    one = DurableServer.open(spec, folder / "server", robust=robust)
    seen = []
    for batch in range(20):
        if batch in pauses:
            one.close()
            one = DurableServer.open(spec, folder / "server", robust=robust)
        seen.append((one.publish().to_json(spec), one.absorb(reports[3 * batch : 3 * batch + 3])))
    one.close()
    return seen


def asking_server(folder, pauses):
    return server(folder, pauses, learner="questions")


def server_of_numbers(folder, pauses):
    own = {"contexts": dpb.Schema(place=dpb.Range(0, 1)), "actions": dpb.Range(1, 5, steps=5), "arms": None}
    return server(folder, pauses, learner="questions", **own)


def robust_server(folder, pauses):
    return server(folder, pauses, learner="questions", robust=ROBUST)


def recorded(spec, robust, reports={}):  # noqa: B006 - drawn once by the operating system, then the same for all runs
    where = (spec.fingerprint, robust is None)
    if where not in reports:
        live, drawn = Server(spec, robust=robust), []
        for batch in range(20):
            policy = live.publish()
            for x in np.random.default_rng(batch).random(3):
                client = Client(spec)
                client.choose(policy, [x])
                drawn.append(client.report(float(x > 0.5)))
            live.absorb(drawn[-3:])
        reports[where] = drawn
    return reports[where]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Return a function of a run that keeps its result, so that the run is made once for all its tests."""

    @cache
    def seen(run):
        return run(tmp_path_factory.mktemp(run.__name__), set())

    return seen


@pytest.mark.parametrize("pauses", [{0}, {1, 2, 3}, {5}, {4, 10, 11, 25, 40, 59}], ids=repr)
@pytest.mark.parametrize(
    "run",
    [
        usca,
        logged_tables,
        logged_numbers,
        curator,
        server,
        asking_server,
        robust_server,
        server_of_numbers,
    ],
)
def test_a_run_that_was_taken_up_again_is_the_uninterrupted_run(run, pauses, tmp_path, uninterrupted):
    assert run(tmp_path, pauses) == uninterrupted(run)
