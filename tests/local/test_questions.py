"""The learner of questions: what it publishes, how devices answer, and what a hostile version can do."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.evaluation.crowds import answers, signs_by_cell, simulate
from dpbandits.lab.worlds.contextual import world
from dpbandits.local import Client, PublishedArms, Server, SourceClient, SourceSpec, Spec
from dpbandits.local.learners import learner_for
from dpbandits.local.learners.evidence import SourceEvidence
from dpbandits.models.trees.messages import Gaussians
from dpbandits.policy.coins import PublicCoins
from flat import spec_with


def spec_of(dim=2, *, n_arms=3, epsilon=1.0, **own):
    box = dpb.Box(low=[0.0] * dim, high=[1.0] * dim)
    privacy = dpb.LocalDP(epsilon=epsilon)
    return spec_with(contexts=box, arms=range(n_arms), privacy=privacy, learner="questions", **own)


def test_a_version_is_the_same_after_json():
    spec = spec_of(epsilon=4.0)
    published = Server(spec).publish()
    read = PublishedArms.from_json(published.to_json(spec), spec)
    assert type(read) is type(published)
    assert read.lineage(spec) == published.lineage(spec)
    for name in ("arms", "parts", "turned"):
        np.testing.assert_array_equal(getattr(read, name), getattr(published, name))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(("n_arms", "most"), [(2, 2048), (5, 2048), (8, 2048), (9, 2252), (12, 2252)])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_a_version_has_two_kilobytes_with_eight_arms_and_a_tenth_more_with_twelve(dim, n_arms, most, epsilon):
    spec = spec_of(dim, n_arms=n_arms, epsilon=epsilon)
    assert len(Server(spec).publish().to_json(spec)) <= most


def test_the_table_is_packed_as_its_page_says():
    spec = spec_of(epsilon=4.0)
    published = Server(spec).publish()
    config = json.loads(published.to_json(spec))
    arm_bits, part_bits = config["bits"]
    width, table = arm_bits + part_bits + 1, base64.b64decode(config["table"])
    number = int.from_bytes(table, "little")
    for cell in (0, 1, 700, config["size"] - 1):
        code = (number >> (cell * width)) & ((1 << width) - 1)
        assert code & 1 == published.turned[cell]
        assert (code >> 1) & ((1 << arm_bits) - 1) == published.arms[cell]
        assert code >> (arm_bits + 1) == published.parts[cell]
    assert number >> (width * config["size"]) == 0


def hostile_versions():
    """Name -> a change of the fields of an honest version."""

    def table(change):
        def changed(config):
            packed = bytearray(base64.b64decode(config["table"]))
            return config | {"table": base64.b64encode(bytes(change(packed))).decode()}

        return changed

    return {
        "too short": table(lambda packed: packed[:-1]),
        "too long": table(lambda packed: packed + b"\0"),
        "spare bits are set": table(lambda packed: packed[:-1] + bytes([packed[-1] | 128])),
        "an arm that is none": table(lambda packed: b"\xff" * (len(packed) - 1) + packed[-1:]),
        "not base64": lambda config: config | {"table": "!" * len(config["table"])},
        "no text": lambda config: config | {"table": [1, 2, 3]},
        "no cells": lambda config: config | {"size": 0},
        "more cells": lambda config: config | {"size": config["size"] + 1},
        "very many cells": lambda config: config | {"size": 10**12},
        "half a cell": lambda config: config | {"size": 0.5},
        "wide numbers": lambda config: config | {"bits": [40, 40]},
        "negative bits": lambda config: config | {"bits": [-1, 2]},
        "three widths": lambda config: config | {"bits": [1, 1, 1]},
        "another question": lambda config: config | {"about": "name"},
        "bins": lambda config: config | {"splits": [0]},
        "weights": lambda config: config | {"weights": [[1.0]]},
        "arms beside the table": lambda config: config | {"arms": [0] * config["size"]},
        "parts beside the table": lambda config: config | {"parts": None},
        "signs beside the table": lambda config: config | {"turned": "x"},
        "a law that is not finite": lambda config: (
            config | {"mean": [[float("nan")] * 3] * config["size"], "sd": [[1.0] * 3] * config["size"]}
        ),
        "a law of other arms": lambda config: config | {"mean": [[0.5]], "sd": [[0.5]]},
        "half a law": lambda config: config | {"mean": [[0.5] * 3] * config["size"]},
        "a version below 0": lambda config: config | {"version": -1},
        "another kind": lambda config: config | {"kind": "PublishedArms"},
        "another spec": lambda config: config | {"spec": "00000000"},
    }


@pytest.mark.parametrize("name", hostile_versions())
def test_a_hostile_version_is_refused_before_a_context_is_read(name):
    spec = spec_of(epsilon=1.0)
    config = json.loads(Server(spec).publish().to_json(spec))
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(json.dumps(hostile_versions()[name](config)), spec)


def test_a_version_of_another_grid_is_refused_whatever_the_context():
    small, large = spec_of(1, seed=5), spec_of(2, seed=5)
    published = Server(small).publish()
    for context in ([0.2, 0.3], [np.nan, 0.0], "nonsense"):
        with pytest.raises(IncompatibleState):
            Client(large).choose(published, context)


def test_a_device_answers_for_its_own_cell():
    spec = spec_of(epsilon=16.0)  # at which a report hardly ever lies
    server, client = Server(spec), Client(spec, budget=1e9)
    published, rng = server.publish(), np.random.default_rng(0)
    for context in rng.random((20, 2)):
        cell = int(spec.protocol.grids.whole.locate(context[None])[0])
        for reward in (0.0, 1.0):
            assert client.choose(published, context) == published.arms[cell]
            code = client.report(reward)[17]
            positive = (reward == 1.0) != bool(published.turned[cell])
            assert code == 2 * published.parts[cell] + (not positive)


def test_a_version_about_the_place_does_not_ask_for_the_reward():
    spec = spec_of(epsilon=16.0, constants={"places": 100.0})
    server, client = Server(spec), Client(spec, budget=1e9)
    while server.current.about != "place":
        published = server.publish()
        for _ in range(spec.protocol.reports_per_version):
            client.choose(published, [0.4, 0.6])
            server.absorb([client.report(1.0)])
    codes = set()
    for reward in (0.0, 0.5, 1.0):
        client.choose(server.current, [0.4, 0.6])
        codes.add(client.report(reward)[17])
    assert len(codes) == 1


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"chooser": "client"}, "expected 'server'"),
        ({"constants": {"parts": 3}}, "power of two"),
        ({"constants": {"parts": 32}}, "power of two"),
        ({"dim": 65}, "too many for the learner"),
    ],
)
def test_what_a_spec_of_questions_cannot_be(own, said):
    with pytest.raises(InvalidParameter, match=said):
        Server(spec_of(**own))


def test_a_simulated_crowd_is_watched_and_has_no_floating_noise():
    spec, one = spec_of(2, reports_per_version=50), world("ma")
    found = simulate(
        spec, one, n_users=200, seed=1, snapshots=(100,), watched=np.array([[0.1, 0.2], [0.9, 0.9]])
    )
    assert found.shares.shape == (4, 2, 3)
    assert (found.shares.sum(axis=2) == 1.0).all()
    assert [(seen, splits, len(arms)) for seen, splits, arms in found.snapshots] == [
        (100, (), spec.protocol.grids.whole.size)
    ]
    assert found.bins == spec.protocol.grids.whole.size
    with pytest.raises(InvalidParameter, match="floating"):
        simulate(spec, one, n_users=200, seed=1, floating=True)


def test_the_memory_of_many_arms_is_bounded():
    spec = spec_of(1, n_arms=256)
    server, client = Server(spec), Client(spec, budget=1e9)
    published = server.publish()
    client.choose(published, [0.3])
    assert server.absorb([client.report(1.0)]).accepted == 1
    assert sum(array.nbytes for array in server.to_arrays().values()) < 150e6


def test_a_category_has_its_own_cells():
    people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["a", "b", "c"]))
    spec = Spec(contexts=people, arms=["x", "y"], privacy=dpb.LocalDP(epsilon=1), learner="questions")
    cells = {
        region: int(
            spec.protocol.grids.whole.locate(spec.protocol.points({"age": [44], "region": [region]}))[0]
        )
        for region in "abc"
    }
    assert spec.protocol.grids.whole.sizes == (64, 3)
    assert len(set(cells.values())) == 3


def test_a_table_of_other_parts_is_refused():
    spec = spec_of(epsilon=1.0)
    published = Server(spec).publish()
    assert spec.protocol.grids.n_parts == 1
    other = replace(published, parts=published.parts + np.arange(spec.protocol.grids.whole.size) % 2)
    with pytest.raises(IncompatibleState, match="does not fit"):
        spec.protocol.fits(other)


def reports_of(client, published, n, rng):
    """Reports of n people, whom arm 1 serves on the right and arm 0 on the left."""
    reports = []
    for context in rng.random((n, client.spec.dim)):
        arm = client.choose(published, context)
        reports.append(client.report(float(rng.random() < (0.9 if arm == (context[0] > 0.5) else 0.1))))
    return reports


def driven(spec, versions, rng):
    """A server, and a client for many people, after so many versions."""
    server, client = Server(spec), Client(spec, budget=1e9)
    for _ in range(versions):
        server.absorb(reports_of(client, server.publish(), spec.protocol.reports_per_version, rng))
    return server, client


def same(mine, theirs):
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    "own", [{"epsilon": 1.0}, {"epsilon": 3.0, "epsilons": (0.5, 3.0)}, {"constants": {"forget": 60}}]
)
def test_a_restored_server_goes_on_as_the_one_that_was_saved(own):
    spec, rng = spec_of(1, n_arms=2, reports_per_version=50, **own), np.random.default_rng(1)
    server, client = driven(spec, 13, rng)  # the first look at everything is behind it
    restored = Server.restore(spec, server.to_arrays())
    assert same(restored.to_arrays(), server.to_arrays())
    for _ in range(6):  # and one more comes
        reports = reports_of(client, server.publish(), 50, rng)
        assert restored.publish().lineage(spec) == server.current.lineage(spec)
        assert restored.absorb(reports).accepted == server.absorb(reports).accepted == 50
    server.publish()
    restored.publish()
    assert same(restored.to_arrays(), server.to_arrays())


def test_a_server_follows_what_was_published():
    """Whoever replays reports takes versions as they were published, and comes to the same."""
    spec, rng = spec_of(1, n_arms=2, reports_per_version=50), np.random.default_rng(2)
    server, client, follower = Server(spec), Client(spec, budget=1e9), Server(spec)
    for _ in range(12):
        published = server.publish()
        follower.republish(PublishedArms.from_json(published.to_json(spec), spec))
        reports = reports_of(client, published, 50, rng)
        server.absorb(reports)
        follower.absorb(reports)
    assert follower.publish().lineage(spec) == server.publish().lineage(spec)


def test_late_reports_are_learned_as_if_they_had_come_in_time():
    spec, rng = spec_of(1, n_arms=2, reports_per_version=30), np.random.default_rng(3)
    server, client = Server(spec), Client(spec, budget=1e9)
    first = server.publish()
    reports = reports_of(client, first, 50, rng)
    server.absorb(reports[:30])
    for _ in range(20):
        server.publish()
        late, reports = reports[30:31], reports[:30] + reports[31:]
        server.absorb(late + reports_of(client, server.current, 30, rng))
        if server.current.version > spec.protocol.window:
            break
    arrays = server.to_arrays()
    numbers = np.concatenate([arrays[f"learner.{kind}.number"] for kind in ("rewards", "places")])
    counts = np.concatenate([arrays[f"learner.{kind}.n"] for kind in ("rewards", "places")])
    assert len(set(numbers.tolist())) == len(numbers)
    assert 30 < counts[numbers == 0] <= 50
    assert counts.sum() == server.totals.accepted - 30  # those of the current version wait


def test_it_learns_whom_an_arm_serves():
    """500 people at epsilon 4: fails for a correct learner with probability far below 1e-6 (seed fixed)."""
    spec, rng = spec_of(1, n_arms=2, epsilon=4.0, reports_per_version=50), np.random.default_rng(4)
    server, _ = driven(spec, 20, rng)
    server.publish()
    mean, sd = server.estimate().predict(spec, [[0.1], [0.9]])
    assert mean[0, 0] > mean[0, 1]
    assert mean[1, 1] > mean[1, 0]
    assert (sd > 0.0).all()
    assert server.current.recommend_batch(spec, [[0.1], [0.9]]) == (0, 1)


def test_the_statement_says_what_adaptive_questions_tell():
    spec = spec_of(epsilon=1.0)
    text = " ".join(spec.statement().annex().split())
    assert "k reports reveal at most k epsilon about their user, whatever was asked" in text
    assert "the arm of each cell of the grid is public" in text
    assert spec.statement().epsilon <= 1.0


def test_old_specs_keep_their_digests_and_the_default_follows_the_columns():
    box, privacy = dpb.Box(low=[0.0], high=[1.0]), dpb.LocalDP(epsilon=1)
    smooth = Spec(contexts=box, arms=range(2), privacy=privacy, learner="smooth")
    assert Spec.from_json(smooth.to_json()).digest == smooth.digest
    assert Spec(contexts=box, arms=range(2), privacy=privacy).learner == "questions"
    assert Spec(contexts=box, arms=range(2), privacy=privacy, chooser="client").learner == "smooth"
    assert Spec(contexts=box, arms=range(13), privacy=privacy).learner == "smooth"
    many = dpb.Box(low=[0.0] * 65, high=[1.0] * 65)
    assert Spec(contexts=many, arms=range(2), privacy=privacy).learner == "smooth"


def fed_source(target, n, rng):
    """A source's contract and its server, after n people whose arms were pulled at random."""
    source = SourceSpec(
        target=target,
        name="last year",
        n_users=n,
        privacy=dpb.LocalDP(epsilon=8.0),
        propensities=(0.5, 0.5),
        looks=False,
    )
    server, client = Server(source.reports), SourceClient(source.reports, budget=1e9)
    published = server.publish()
    for context, arm in zip(rng.random((n, 1)), rng.integers(2, size=n).tolist(), strict=True):
        client.observe(published, context, arm)
        reward = rng.random() < (0.9 if arm == (context[0] > 0.4) else 0.1)
        server.absorb([client.report(float(reward))])
    return source, server


def test_a_source_starts_the_learner_and_is_kept_with_it():
    """500 people of a source at epsilon 8: fails for a correct learner with probability far below 1e-6."""
    target, rng = spec_of(1, n_arms=2, reports_per_version=50), np.random.default_rng(6)
    source, theirs = fed_source(target, 500, rng)
    server = Server(target)
    before = server.publish()
    after = server.attach(source, theirs)
    assert after.version == before.version + 1
    assert after.recommend_batch(target, [[0.1], [0.25], [0.6], [0.9]]) == (0, 0, 1, 1)
    restored = Server.restore(target, server.to_arrays())
    assert same(restored.to_arrays(), server.to_arrays())
    client = Client(target, budget=1e9)
    for _ in range(3):
        reports = reports_of(client, server.publish(), 50, rng)
        server.absorb(reports)
        restored.publish()
        restored.absorb(reports)
    assert restored.publish().lineage(target) == server.publish().lineage(target)


def test_a_source_whose_rewards_are_others_is_dropped_once_reports_say_so():
    target, rng = spec_of(1, n_arms=2, epsilon=8.0, reports_per_version=50), np.random.default_rng(7)
    learner = learner_for(target)
    partition = target.protocol.bins.partition()
    for _ in range(3):
        partition.split(partition.leaves)
    shape = (partition.n_nodes, 2)
    precision, moment = np.zeros(shape), np.zeros(shape)
    right = partition.low[partition.leaves, 0] >= 0.5
    precision[partition.leaves] = 1000.0
    wrong = np.where(right[:, None] == (np.arange(2) == 0), 0.9, 0.1)  # the other way round
    moment[partition.leaves] = 1000.0 * wrong
    evidence = SourceEvidence(partition=partition, local=Gaussians(precision, moment))
    learner.attach("liar", evidence)
    assert learner.doubts == {"liar": 0.0}
    coins, (mechanism,) = (
        PublicCoins(1),
        target.protocol.counted_by(learner.publish(target, 0, PublicCoins(1))),
    )
    for version in range(40):
        published = learner.publish(target, version, coins)
        places = rng.integers(target.protocol.grids.whole.size, size=50)
        best = (target.protocol.grids.whole.centres[places, 0] > 0.5) == (
            np.asarray(published.arms)[places] == 1
        )
        cells, signs = answers(published, places, rng.random(50) < np.where(best, 0.9, 0.1))
        sums = mechanism.simulate(*signs_by_cell(cells, signs, mechanism.n_cells), rng)
        learner.count(target, published, [[(mechanism, sums, 50)]])
        learner.refine()
    assert learner.doubts["liar"] >= 1.0
    ours = learner.estimate(target, published)
    assert ours.predict(target, [[0.1], [0.9]])[0].argmax(axis=1).tolist() == [0, 1]


def test_what_a_target_of_questions_refuses():
    target = spec_of(1, n_arms=2)
    server = Server(target)
    with pytest.raises(ProtocolError, match="no bins"):
        server.evidence()
    tree = spec_with(**(vars_of(target) | {"learner": "tree", "seed": 5}))
    named = server.attach_target("other", Server(tree))
    assert named.version == 1
    learner = learner_for(target)
    partition = target.protocol.bins.partition()
    bad = SourceEvidence(partition=partition, local=Gaussians(np.full((1, 2), np.nan), np.zeros((1, 2))))
    with pytest.raises(InvalidParameter, match="not finite"):
        learner.attach("bad", bad)
    wide = SourceEvidence(partition=partition, local=Gaussians.silent((1, 3)))
    with pytest.raises(InvalidParameter, match="columns or arms"):
        learner.attach("wide", wide)
    assert learner.doubts == {}


def vars_of(spec):
    """What a spec over a box was built of."""
    return {"contexts": spec.protocol.domain, "arms": range(spec.n_arms), "privacy": spec.privacy}
