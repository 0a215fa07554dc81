"""`constants={"forget": ...}` of a local spec: reports count for less and less, and their promise stays."""

import math
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.local import Client, ReportCounts, Server, SourceSpec, Spec
from dpbandits.local.learners import learner_for
from dpbandits.policy.coins import PublicCoins
from flat import spec_with
from internals.questions import few_kept

LEARNERS = ("questions", "smooth")
HALF_LIFE = 500


def spec_of(learner="questions", *, dim=1, forget=HALF_LIFE, **own):
    constants = own.pop("constants", {}) | ({} if forget is None else {"forget": forget})
    box = dpb.Box(low=[0.0] * dim, high=[1.0] * dim)
    given = {"arms": range(2), "privacy": dpb.LocalDP(epsilon=4.0), "reports_per_version": 50} | own
    return spec_with(contexts=box, learner=learner, constants=constants, **given)


class Turned:
    """One column, two arms: who is served by which turns round after half of the people."""

    dim, n_arms = 1, 2

    def draw(self, n, rng):
        contexts = rng.random((n, 1))
        first = (contexts[:, 0] > 0.5) != (np.arange(n) >= n // 2)
        return contexts, np.where(np.stack([first, ~first], axis=1), 0.9, 0.1)


@pytest.mark.parametrize("learner", LEARNERS)
def test_after_a_change_a_learner_that_forgets_earns_what_one_that_does_not_has_lost(learner):
    """6,000 people, seed fixed: an arm at random loses .4 a person, the one that was right before .8."""
    late = {}
    for forget in (None, HALF_LIFE):
        found = simulate(spec_of(learner, forget=forget), Turned(), n_users=6_000, seed=3)
        late[forget] = found.regret[-30:].sum() / found.users[-30:].sum()
    assert late[HALF_LIFE] < 0.15
    assert late[HALF_LIFE] < late[None] / 3.0


def told_again(learner, forget, times, *, looks=False):
    """A learner's arrays whenever it was told of 50 reports more, the same to versions that ask the same."""
    constants = {"parts": 1} if learner == "questions" else {}
    spec = spec_of(learner, forget=forget, constants=constants)
    rule, found = learner_for(spec), []
    versions = (rule.publish(spec, number, PublicCoins(number)) for number in range(100))
    published = next(one for one in versions if learner == "smooth" or one.about == "reward")
    (mechanism,) = spec.protocol.counted_by(published)
    people = np.full(mechanism.n_cells, 25 // mechanism.n_cells)
    sums = mechanism.simulate(people, 25 - people, np.random.default_rng(1))
    for turn in range(times):
        rule.count(spec, replace(published, version=turn), [[(mechanism, sums, 50)]])
        if looks:
            rule.look()
        found.append({name: array.copy() for name, array in rule.to_arrays().items()})
    return found


@pytest.mark.parametrize(
    ("learner", "names"),
    [
        ("questions", ("model.precision", "model.moment")),
        ("smooth", ("_data.information", "_data.evidence", "_data.count")),
    ],
)
def test_a_report_counts_for_half_as_much_after_a_half_life(learner, names):
    once, twice = told_again(learner, 50, 2)
    for name in names:
        assert np.any(once[name])
        assert np.allclose(twice[name], 1.5 * once[name])


@pytest.mark.parametrize("kept", [2048, 3])
def test_who_looks_at_everything_again_has_forgotten_the_same(kept):
    """Also where versions are too many to be kept, and older ones stay as they were seen."""
    with few_kept(kept):
        found = told_again("questions", 50, 9, looks=True)
    assert len(found[-1]["rewards.n"]) <= kept
    left = sum(0.5**age for age in range(9))
    for name in ("model.precision", "model.moment"):
        assert np.allclose(found[-1][name], left * found[0][name])


def test_versions_that_no_longer_count_are_dropped():
    rule = simulate(spec_of(forget=50), Turned(), n_users=3_000, seed=1).rule
    versions = sum(len(rule.to_arrays()[f"{kind}.n"]) for kind in ("rewards", "places"))
    assert versions <= 2 + (10 * 50 + 0.3 * 50 / math.log(2.0)) / 50
    assert len(rule.to_arrays()["counts.n"]) <= 8 * 11 * 2


def reports_of(client, published, n, rng):
    reports = []
    for context in rng.random((n, client.spec.dim)):
        client.choose(published, context)
        reports.append(client.report(float(rng.random() < context[0])))
    return reports


@pytest.mark.parametrize("learner", LEARNERS)
def test_parts_of_the_reports_counted_elsewhere_add_up_to_one_server_that_forgets(learner):
    """The sums stay whole: what is forgotten is forgotten when they are learned from. And saved so."""
    spec, rng = spec_of(learner, forget=60, reports_per_version=40), np.random.default_rng(1)
    alone, merged, client = Server(spec), Server(spec), Client(spec, budget=1e9)
    for turn in range(8):
        published = alone.publish()
        assert merged.publish().lineage(spec) == published.lineage(spec)
        reports = reports_of(client, published, 40, rng)
        alone.absorb(reports)
        for part in (reports[:13], reports[13:]):
            counts = ReportCounts(spec, merged.open_versions)
            counts.absorb(part)
            merged.merge(counts)
        if turn == 5:
            merged = Server.restore(spec, merged.to_arrays())
    assert alone.publish().lineage(spec) == merged.publish().lineage(spec)
    mine, theirs = alone.to_arrays(), merged.to_arrays()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine if name.startswith("learner."))


def test_the_half_life_is_part_of_the_spec_and_of_no_promise():
    forgets, stays = spec_of(), spec_of(forget=None)
    assert Spec.from_json(forgets.to_json()) == forgets != stays
    assert forgets.statement().explain() == stays.statement().explain()


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"forget": 49}, "at least 50"),
        ({"forget": 60.5}, "forget"),
        ({"forget": True}, "forget"),
        ({"forget": "60"}, "forget"),
        ({"forget": 2**60}, "from 50 to"),
        ({"learner": "tree"}, "forget needs the learner"),
        ({"learner": "eliminate"}, "forget needs the learner"),
        ({"dim": 12}, "one grid covers"),
    ],
)
def test_what_cannot_be_forgotten_is_refused_when_the_spec_is_made(own, said):
    with pytest.raises(InvalidParameter, match=said):
        spec_of(**({"forget": 60} | own))


def test_a_target_that_forgets_learns_from_no_others():
    target, privacy = spec_of(forget=60), dpb.LocalDP(epsilon=1)
    with pytest.raises(InvalidParameter, match="with forget"):
        SourceSpec(target=target, name="past", n_users=100, privacy=privacy)
    evidence = Server(spec_of("tree", forget=None, seed=1))
    with pytest.raises(ProtocolError, match="with forget"):
        Server(target).attach_target("other", evidence)
