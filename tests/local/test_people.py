"""Devices of people with contexts and arms answer with labels, read what an app holds, and refuse none."""

import json
import warnings
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import (
    DPBanditsWarning,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.local import Client, PublishedArms, Server, SourceSpec, Spec
from dpbandits.local.device.client import SourceClient
from dpbandits.local.learners.table import CoarseBins
from dpbandits.privacy import LocalDP
from flat import spec_with

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"]),
    member=dpb.Categories([False, True]),
)
ARMS = ["mail", 2, "nothing"]


def spec_of(**changes):
    return spec_with(
        **({"contexts": PEOPLE, "arms": ARMS, "privacy": LocalDP(epsilon=4.0), "learner": "smooth"} | changes)
    )


def numbered(spec):
    """The spec of the same cube, whose arms are numbers."""
    return replace(spec, contexts=dpb.Box(low=[0.0] * 3, high=[1.0] * 3), arms=range(3))


def person(t):
    rng = np.random.default_rng(t)
    regions = ("north", "south", "west")
    return {
        "age": int(rng.integers(18, 91)),
        "region": regions[rng.integers(3)],
        "member": bool(rng.integers(2)),
    }


def in_the_cube(one):
    """Where a person lies: ranges scaled, a category in the middle of its part of the side."""
    region = ("north", "south", "west").index(one["region"])
    return [(one["age"] - 18) / 72, (region + 0.5) / 3, (one["member"] + 0.5) / 2]


def learned(spec, count=1200):
    """A server that has heard of everybody: mail is good in the west, 2 for members elsewhere."""
    server = Server(spec)
    published = server.publish()
    for t in range(count):
        one, client = person(t), Client(spec)
        arm = client.choose(published, one)
        best = "mail" if one["region"] == "west" else 2 if one["member"] else "nothing"
        server.absorb([client.report(arm == best)])
        published = server.publish()
    return published


@pytest.fixture(scope="module")
def after():
    spec = spec_of(reports_per_version=50)
    return spec, learned(spec)


def test_devices_answer_with_labels_and_learn_of_categories(after):
    spec, published = after
    assert len(published.splits) >= 3
    right = 0
    for t in range(5000, 5200):
        one = person(t)
        best = "mail" if one["region"] == "west" else 2 if one["member"] else "nothing"
        right += Client(spec).decide(published, one) == best
    # Six runs gave 187 to 200 (sd 5), and chance gives 67: a false alarm is 11 sd away, below 1e-6.
    assert right > 130


def test_the_choice_is_that_of_the_same_point_of_the_cube(after):
    spec, published = after
    cube, alike = numbered(spec), replace(published)
    assert spec.protocol.domain == cube.protocol.domain == cube.contexts
    for t in range(100):
        one = person(t)
        mine = spec.protocol.choose(published, one, spec.privacy)
        theirs = cube.protocol.choose(alike, in_the_cube(one), cube.privacy)
        assert (mine.arm, mine.about[0]) == (theirs.arm, theirs.about[0])
        assert (mine.missing, mine.clipped) == (False, False)
        assert Client(spec).decide(published, one) == ARMS[mine.arm]
        assert Client(cube).decide(alike, in_the_cube(one)) == mine.arm


Row = namedtuple("Row", ["member", "age", "region"])


def test_every_form_of_a_context_is_read(after):
    pandas = pytest.importorskip("pandas")
    spec, published = after
    for t in range(10):
        one = person(t)
        expected = Client(spec).decide(published, one)
        for given in (Row(**one), tuple(one.values()), pandas.Series(one), pandas.DataFrame([one])):
            assert Client(spec).decide(published, given) == expected


class Trap:
    def keys(self):
        raise RuntimeError("4711")


UNREADABLE = [
    None,
    {},
    {"age": 44},
    person(0) | {"region": "east"},
    person(0) | {"age": None},
    person(0) | {"age": "old"},
    person(0) | {"age": float("nan")},
    Trap(),
    7,
    "north",
    [1, 2],
    [person(0), person(1)],
]


@pytest.mark.parametrize("context", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_is_missing_and_nobody_is_refused(after, context):
    spec, published = after
    client, known = Client(spec), Client(spec)
    known.choose(published, person(0))
    assert client.choose(published, context) in ARMS
    assert len(client.report(1.0)) == len(known.report(1.0))  # as long as a known one's
    assert client.unsafe_counts["missing contexts"] == 1
    with pytest.raises(InvalidData) as refused:
        spec.check(context)
    assert "4711" not in str(refused.value)


def test_misspelt_columns_warn_with_the_known_names_alone(after):
    """Such a context is missing, as its keys decide; one that only lacks a column may be a user's own."""
    spec, published = after
    known = person(0)
    misspelt = {("agee" if name == "age" else name): value for name, value in known.items()}
    with pytest.warns(DPBanditsWarning, match="the columns are") as warned:
        chosen = Client(spec).choose(published, misspelt)
    assert chosen in ARMS
    assert "agee" not in str(warned[0].message)
    assert str(list(known)) in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client(spec).choose(published, {"age": 44})
        Client(spec).choose(published, known | {"note": "kept elsewhere"})


@pytest.mark.parametrize("age", [-5, 17.9, 91, 1e300])
def test_numbers_outside_are_clipped(after, age):
    spec, published = after
    client, nearest = Client(spec), person(0) | {"age": 18 if age < 50 else 90}
    chosen = client.choose(published, person(0) | {"age": age})
    assert chosen == Client(spec).decide(published, nearest)
    assert (client.unsafe_counts["missing contexts"], client.unsafe_counts["clipped contexts"]) == (0, 1)
    with pytest.raises(InvalidData, match="age: 1 clipped"):
        spec.check(person(0) | {"age": age})
    spec.check(person(0))


def test_a_spec_is_written_whole_whatever_its_contexts():
    spec = spec_of(seed=3)
    again = Spec.from_json(spec.to_json())
    assert again == spec
    assert again.digest == spec.digest
    assert (again.contexts, again.arms, again.n_arms, again.chooser) == (PEOPLE, tuple(ARMS), 3, "server")
    assert replace(spec, seed=4).arms == tuple(ARMS)
    assert spec_of(arms=ARMS[::-1]).digest != spec.digest
    of_points = Spec(
        contexts=dpb.Box(low=[0], high=[1]), arms=range(2), privacy=LocalDP(epsilon=1), learner="smooth"
    )
    written = json.loads(of_points.to_json())
    assert (written["contexts"]["type"], written["arms"]) == ("Box", [0, 1])
    assert written["privacy"] == {"kind": "LocalDP", "epsilon": 1.0}
    assert Spec.from_json(of_points.to_json()) == of_points


# -- what is available ------------------------------------------------------------------------------


def test_only_available_arms_are_given_and_the_published_one_where_it_is_among_them(after):
    spec, published = after
    for t in range(60):
        one = person(t)
        told = Client(spec).decide(published, one)
        others = [arm for arm in ARMS if arm != told]
        assert Client(spec).decide(published, one, available=[told, others[0]]) == told
        assert Client(spec).decide(published, one, available=others) in others
        assert Client(spec).decide(published, one, available=others[:1]) == others[0]


@pytest.mark.parametrize("chooser", ["server", "client"])
def test_what_was_not_available_is_reported_as_nobody_is(after, chooser):
    """The cells of 2,000 exact inputs: spread evenly, whoever it is and whatever was paid.

    Each cell's count is within 7 standard deviations of its mean: false alarm below 1e-6 for 12 cells.
    """
    trained, published = after
    spec = trained
    if chooser == "client":  # all people pull the first arm, which is not to be had
        spec = spec_of(chooser="client", arms=ARMS)
        weights = np.tile([1.0, 0.0, 0.0], (4, 1))
        published = PublishedArms(version=1, splits=(0, 1, 2), weights=weights)
    told = spec.protocol.choose(published, person(0), spec.privacy)
    left = [arm for arm in ARMS if arm != ARMS[told.arm]]
    choices = [spec.protocol.choose(published, person(0), spec.privacy, left) for _ in range(2000)]
    assert {ARMS[one.arm] for one in choices} == set(left)
    n_cells = told.about[1].n_cells
    for share, reward in ((0.5, 1.0), (0.5, 0.0)):
        exact = [spec.protocol.exact(one, reward) for one in choices]
        counts = np.bincount([cell for cell, _ in exact], minlength=n_cells)
        spread = np.sqrt(2000 / n_cells * (1 - 1 / n_cells))
        assert np.abs(counts - 2000 / n_cells).max() < 7 * spread
        assert abs(sum(sign for _, sign in exact) - 2000 * share) < 7 * np.sqrt(500)
    assert spec.protocol.exact(told, 1.0)[1]  # and what is available as it was


NO_LIST = [[], "mail", ["fax"], ["mail", "fax"], 7, [["mail"]], Trap(), b"mail", ["mail", None]]


@pytest.mark.parametrize("available", NO_LIST, ids=range(len(NO_LIST)))
def test_a_list_that_cannot_be_read_is_of_all_arms_and_says_nothing(after, available):
    spec, published = after
    client = Client(spec)
    assert client.choose(published, person(0), available=available) == Client(spec).decide(
        published, person(0)
    )
    assert len(client.report(1.0)) == len(report_of(spec, published))
    assert client.unsafe_counts["unavailable arms"] == 1
    assert client.unsafe_counts["missing contexts"] == 0
    assert spec.protocol.choose(published, person(0), spec.privacy, available).unavailable


def report_of(spec, published):
    client = Client(spec)
    client.choose(published, person(0))
    return client.report(1.0)


def test_arms_without_labels_are_available_by_their_numbers(after):
    spec, published = after
    cube, published = numbered(spec), replace(published)
    told = Client(cube).decide(published, in_the_cube(person(0)))
    others = [arm for arm in range(3) if arm != told]
    assert Client(cube).decide(published, in_the_cube(person(0)), available=others) in others


# -- who decides without a device, and what the server expects ----------------------------------------


def test_what_was_published_decides_for_a_table_as_devices_do(after):
    spec, published = after
    people = [person(t) for t in range(50)]
    told = [Client(spec).decide(published, one) for one in people]
    again = PublishedArms.from_json(published.to_json(spec), spec)
    assert list(again.recommend_batch(spec, people)) == told
    table = {name: [one[name] for one in people] for name in PEOPLE.names}
    assert list(again.recommend_batch(spec, table)) == told
    assert again.recommend(spec, people[3]) == told[3]
    cube = numbered(spec)
    numbers = [spec.arms.index(arm) for arm in told]
    places = np.array([in_the_cube(one) for one in people])
    assert list(replace(again).recommend_batch(cube, places)) == numbers
    with pytest.raises(InvalidData, match="50 people"):
        again.recommend(spec, people)
    with pytest.raises(InvalidData) as refused:
        again.recommend_batch(spec, [person(0) | {"region": "4711"}])
    assert "4711" not in str(refused.value)
    assert "region" in str(refused.value)


@pytest.mark.parametrize("learner", ["smooth", "tree"])
def test_what_a_server_estimates_predicts_for_everybody(learner):
    spec = spec_of(learner=learner, reports_per_version=50, reward_range=(0.0, 10.0))
    server = Server(spec)
    people = [person(t) for t in range(4)]
    mean, sd = server.estimate().predict(spec, people)
    assert mean.shape == sd.shape == (4, 3)
    np.testing.assert_allclose(mean, 5.0)
    published = server.publish()
    for _ in range(800):
        client = Client(spec)
        client.report(10.0 * (client.choose(published, person(0)) == 2))
        server.absorb(client.unsent())
        published = server.publish()
    estimated = PublishedArms.from_json(server.estimate().to_json(spec), spec)
    mean, after = estimated.predict(spec, person(0))
    assert mean.shape == (1, 3)
    # posteriors are 2 wide at the start, and far below after 800 reports: 3 apart is many deviations
    assert mean[0, 1] > mean[0, [0, 2]].max() + 3.0
    assert after[0, 1] < sd[0, 1] / 2.0
    assert estimated.recommend(spec, person(0)) == published.recommend(spec, person(0))
    assert not {"mean", "sd"} & set(json.loads(published.to_json(spec)))
    client = Client(spec, budget=100)  # a device takes either for the version that both are
    assert client.choose(published, person(0)) == client.choose(estimated, person(0))
    with pytest.raises(ProtocolError, match="estimate"):
        published.predict(spec, people)


def test_bounds_are_no_law_of_rewards():
    with pytest.raises(ProtocolError, match="eliminate"):
        Server(spec_of(learner="eliminate")).estimate()


@pytest.mark.parametrize(
    "law", [{"mean": [[0.5] * 3]}, {"mean": [[0.5]], "sd": [[0.1]]}, {"sd": [[0.1] * 3]}], ids=str
)
def test_a_law_that_does_not_fit_is_refused(law):
    published = replace(Server(spec_of()).publish(), **law)
    with pytest.raises(IncompatibleState, match="do not fit"):
        published.recommend(spec_of(), person(0))


def test_a_law_without_bounds_is_refused():
    published = replace(Server(spec_of()).publish(), mean=[[np.inf] * 3], sd=[[0.1] * 3])
    with pytest.raises(IncompatibleState, match="do not fit"):
        Client(spec_of()).decide(published, person(0))


def test_users_may_choose_among_labels_and_sources_of_people_report():
    spec = spec_of(chooser="client", arms=ARMS)
    client, server = Client(spec), Server(spec)
    assert client.choose(server.publish(), person(0)) in ARMS
    assert server.absorb([client.report(True)]).accepted == 1
    source = SourceSpec(
        target=spec_of(learner="tree"), name="past", n_users=1000, privacy=LocalDP(epsilon=4.0)
    ).reports
    published = Server(source).publish()
    for arm in (2, "mail", 1, "fax", []):  # what is no label is missing, and nobody is refused
        device = SourceClient(source)
        device.observe(published, person(0), arm)
        assert Server(source).absorb([device.report(1.0)]).accepted == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"contexts": None},
        {"chooser": "nobody"},
        {"arms": None},
        {"arms": "mail"},
        {"arms": []},
        {"arms": ["mail", "mail"]},
        {"arms": [["mail"]]},
        {"arms": list(range(300))},
        {"arms": 5},
        {"contexts": {"age": (18, 90)}},
        {"domain": dpb.Box(low=[0.0], high=[1.0])},
        {"n_arms": 3},
        {"contexts": np.zeros(3)},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(InvalidParameter):
        spec_of(**changes)


def columns_of(count):
    letters = {f"c{place}": dpb.Categories(list("abcde")) for place in range(count)}
    return dpb.Schema(age=dpb.Range(0, 1), **letters)


def test_columns_that_bins_cannot_tell_apart_are_warned_about():
    Server(spec_of(contexts=columns_of(3)))  # 1 + 3 * 3 halvings: 2^10 bins, as many as there may be
    with pytest.warns(CoarseBins, match=r"5 columns need 2\^13 bins .* 1024"):
        Server(spec_of(contexts=columns_of(4)))
    with pytest.warns(CoarseBins, match="16"):
        Server(spec_of(contexts=columns_of(2), max_leaves=16))
