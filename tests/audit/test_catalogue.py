"""Every mechanism and every private policy has an audit; broken claims are caught, honest ones are not."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from contracts.cases import CASES
from dpbandits.audit import NAMES, AuditRow, AuditSettings, build, run_audits
from dpbandits.audit.catalogue.crowds import AXES, DOMAIN, PEOPLE, tell_everyone
from dpbandits.audit.catalogue.mechanisms import laws
from dpbandits.audit.catalogue.parts import DELTA, LineFeatures, PreparedNoise
from dpbandits.audit.claims import CERTAIN, GaussianAudit
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import CrudeTuning, PrivateRidge
from dpbandits.models.features import Features
from dpbandits.privacy import JointDP
from dpbandits.privacy.reports import MECHANISMS, mechanism

SURE = 1.0 - 1e-9
"""Of every row: an honest claim that is exactly kept is exceeded once in a billion runs."""

FAST = {
    "permute-and-flip-sampler": 3000,
    "discrete-gaussian": 4000,
    "near-gaussian": 4000,
    "rows-gaussian": 2000,
    "explore-then-commit-answers": 3000,
    "local-bins-report": 2000,
    "local-questions": 2000,
    "local-readout-report": 2000,
    "local-bins-policy": 2000,
    "local-gp-report": 1000,
    "local-gp-policy": 2000,
    "curator-release-and-answers": 5000,
    "curator-release-gaussian": 2000,
    "gp-bandit-restarts": 4000,
    "gp-bandit-load-on-other-terms": 4000,
    "local-refusals": 10_000,
    "local-transfer": 5000,
    "local-ma2025-policy": 2000,
    "local-dubey2021-policy": 4000,
    "explore-then-commit-answers-among-others": 5000,
    "local-threads": 10_000,
    "local-forks": 4000,
    "distributed-one-aggregator": 4000,
}
"""Samples where they cost; others take 20,000."""

COSTLY = (
    "gp-bandit-actions",
    "gp-bandit-released",
    "dubey2021-actions",
    "dubey2021-predictions",
    "explore-then-commit-release",
    "published-usca-answer",
    "gp-bandit-several-rounds",
    "gp-bandit-unknown-horizon",
    "gp-bandit-public-sets",
    "gp-bandit-missing-rewards",
    "gp-bandit-copies",
    "gp-bandit-cells",
    "gp-bandit-cells-several-rounds",
    "gp-bandit-marginals",
    "gp-bandit-marginals-several-rounds",
    "gp-bandit-marginals-census",
    "gp-bandit-marginals-actions",
    "explore-then-commit-marginals-actions",
    "gp-bandit-marginals-changing-arms",
    "gp-bandit-marginals-products",
    "gp-bandit-marginals-gaussian-counts",
    "explore-then-commit-marginals",
    "explore-then-commit-marginals-one-vector",
    "explore-then-commit-marginals-all-pairs",
    "explore-then-commit-answers-beside-release",
    "explore-then-commit-histogram-beside-release",
    "explore-then-commit-missing-reward",
    "explore-then-commit-printed-numbers",
    "evaluation-of-a-log",
)
"""Milliseconds a run: here they only show that they run."""

POLICIES = {
    "central.GPBandit": (
        "gp-bandit-actions",
        "gp-bandit-released",
        "gp-bandit-cells",
        "gp-bandit-marginals",
    ),
    "central.published.Dubey2021": ("dubey2021-actions", "dubey2021-predictions"),
}
"""Every private policy that answers to `RoundPolicy`, by kind."""


def test_every_private_policy_and_every_local_mechanism_has_an_audit():
    kinds = {case.make().kind for case in CASES if case.private}
    # a yardstick of the laboratory releases by the mechanism that `gp-bandit-released` attacks
    assert {kind for kind in kinds if not kind.startswith("baselines.")} == set(POLICIES)
    assert {name for names in POLICIES.values() for name in names} <= set(NAMES)
    assert {f"report-{name}" for name in MECHANISMS} <= set(NAMES)


def test_every_audit_builds_and_says_what_it_is():
    audits = [build(name, epsilon=0.7, seed=3) for name in NAMES]
    assert [audit.name for audit in audits] == list(NAMES)
    for audit in audits:
        assert audit.sees
        assert audit.neighbours
        assert audit.known_broken == audit.name.startswith("broken-")
        assert audit.epsilon == 0.7 or "lemma-12" in audit.name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COSTLY and "broken" not in name])
def test_honest_claims_are_not_exceeded(name):
    audit = build(name, epsilon=1.0)
    samples = max(FAST.get(name, 20_000), audit.fewest_samples(SURE))  # fewer could not be exceeded
    row = audit.run(samples=samples, confidence=SURE)
    assert row.verdict == "holds"
    assert row.lower_bound >= 0.0


@pytest.mark.parametrize(("told", "broken"), [(1, False), (3, True)])
def test_a_private_ridge_is_attacked_by_what_it_predicts_for_others(told, broken):
    """Everybody on an axis, told of `told` times in one block under noise for one round of a user.

    mean/sd^2 is the released sum over the variance of a reward, and a Gaussian around +-1/2 for each round.
    The honest one is exceeded once in a billion runs, and the mean of the broken one's bound less six
    deviations is above the claim.
    """
    noise = PreparedNoise()

    def draw(world, n):
        rows = []
        while len(rows) * PEOPLE < n:
            policy = PrivateRidge(
                features=AXES,
                domain=DOMAIN,
                reward_range=(0.0, 1.0),
                horizon=told * PEOPLE + 1,
                tuning=CrudeTuning(blocks=(told * PEOPLE,)),
                privacy=JointDP(epsilon=1.0, delta=DELTA, user_ids=False),
                noise=noise,
            )
            for _ in range(told):
                tell_everyone(policy, world)
            policy.ask(np.array([[0.0, 0.0]]))
            mean, sd = policy.predict(np.column_stack([np.arange(PEOPLE), np.ones(PEOPLE)]))
            rows.append((mean - 0.5) / sd**2)
        return np.concatenate(rows)[:n, None]

    audit = GaussianAudit(
        name="private-ridge", epsilon=1.0, delta=DELTA, sees="predictions", neighbours="turned", draw=draw
    )
    row = audit.run(samples=10_000, confidence=0.999 if broken else SURE)
    assert row.verdict == ("exceeded" if broken else "holds")


@pytest.mark.parametrize("name", COSTLY)
def test_whole_policies_run(name):
    row = build(name, epsilon=1.0).run(samples=400, confidence=SURE)
    assert row.verdict != "exceeded"
    assert row.scope == "policy"


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("broken-po-gp-ucb", 5000),
        ("broken-own-bin-noise", 500),
        pytest.param("broken-dubey2021-lemma-12-tree-0.05", 60_000, marks=pytest.mark.slow),
        ("broken-dubey2021-lemma-12-tree-0.02", 1000),
        ("broken-dubey2021-lemma-12-policy-0.01", 8000),
        ("broken-cell-sums-half-scale", 20_000),
        ("broken-cells-of-people-who-come-again", 20_000),
        ("broken-marginals-of-people-who-come-again", 60_000),
        pytest.param("broken-copies-without-a-witness", 100_000, marks=pytest.mark.slow),
        ("broken-other-terms", 10_000),
        ("broken-numbers-by-rows-left", 20_000),
        ("broken-device-that-looks-first", 20_000),
        ("broken-silent-device", 10_000),
        ("broken-epsilon-by-reward", 10_000),
        ("broken-threads-without-turns", 100_000),
        ("broken-forks-without-turns", 100_000),
    ],
)
def test_claims_that_are_known_to_be_false_are_caught(name, samples):
    """Mean minus six standard deviations is still above the claim: missed less than once in 1e8 runs."""
    row = build(name).run(samples=samples, confidence=0.999)
    assert row.known_broken
    assert row.verdict == "exceeded"


BROKEN = [name for name in NAMES if name.startswith("broken-")]


def test_it_is_known_how_many_samples_catch_each_false_claim():
    """All are fewer than the command takes by itself: there a claim that is not caught is a failure."""
    for name in BROKEN:
        assert 0 < build(name).fewest_samples() <= AuditSettings().samples
    for name in set(NAMES) - set(BROKEN):
        assert 0 <= build(name).fewest_samples() <= AuditSettings().samples


@pytest.mark.parametrize("name", [name for name in BROKEN if build(name).caught_from == CERTAIN])
def test_an_event_that_is_certain_in_one_world_alone_is_caught_from_the_first_sample_that_can(name):
    """Every run has the same bound: all outputs of one world show the event, and none of the other."""
    audit = build(name)
    fewest = audit.fewest_samples()
    caught, few = audit.run(samples=fewest), audit.run(samples=fewest - 1)
    assert (caught.verdict, few.verdict) == ("exceeded", "undecided")
    assert few.fewest_samples == fewest


def test_numbers_of_samples_stand_for_the_claims_that_they_were_found_for():
    """At another epsilon, or more confidence, a claim that is not caught is undecided."""
    assert build("broken-float-laplace", epsilon=2.0).fewest_samples() is None
    assert build("broken-float-laplace").fewest_samples(0.9999) is None
    assert build("broken-own-bin-noise", epsilon=2.0).fewest_samples(0.9999) > 27
    printed = "broken-dubey2021-lemma-12-policy-0.02"
    assert build(printed, epsilon=2.0).fewest_samples() == build(printed).fewest_samples()


def test_a_false_claim_that_few_samples_do_not_catch_is_not_missed():
    row = build("broken-dubey2021-lemma-12-policy-0.02").run(samples=2000)
    assert not row.unexpected
    assert row.samples == 2 * 60 < row.fewest_samples


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize(
    "name", ["cell-sums", "rows-l2-laplace", "answer-laplace", "rows-randomised-response"]
)
def test_pure_mechanisms_are_bounded_tightly_at_every_epsilon(name, epsilon):
    row = build(name, epsilon=epsilon).run(samples=60_000, confidence=SURE)
    assert 0.5 * epsilon < row.lower_bound <= epsilon


@pytest.mark.parametrize(
    ("name", "samples"),
    [("explore-then-commit-answers", 10_000), ("local-bins-report", 5000), ("local-refusals", 30_000)],
)
def test_audits_of_policies_tell_their_worlds_apart(name, samples):
    """An entry that compared code with itself would prove nothing.

    The least that is asked for lies seven deviations below the mean bound. Of the refusals, which have three
    outputs, exact binomials of the events that tell the worlds apart give a miss below 1e-15.
    """
    assert build(name, epsilon=1.0).run(samples=samples, confidence=0.999).lower_bound > 0.05


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_exact_audits_find_the_whole_loss(name, epsilon):
    row = build(f"report-{name}", epsilon=epsilon).run()
    assert (1.0 - 1e-6) * epsilon < row.lower_bound <= epsilon


@pytest.mark.parametrize("name", [name for name in sorted(MECHANISMS) if "laplace" not in name])
def test_enumerated_laws_are_whole(name):
    """No payload is left out: each law adds up to 1, as a fraction."""
    assert [sum(law) for law in laws(mechanism(name, n_cells=3, epsilon=1.0))] == [1] * 6


def test_noise_for_many_lives_is_the_secure_sampler_and_gives_nothing_twice():
    noise = PreparedNoise()
    assert noise.status == "enforced"
    drawn = noise.integer_gaussian(2.0**40, 30_000).tolist() + noise.integer_gaussian(2.0**40, 500).tolist()
    # 4.7e8 pairs over a spread of 4e12: a repetition by chance happens once in 8,000 runs, fifty never
    assert len(set(drawn)) > len(drawn) - 50
    assert noise.gaussian_scale(1e6, 1.0, 1e-6) == noise.gaussian_scale(1e6, 1.0, 1e-6)


def test_line_features_answer_to_the_protocol():
    assert isinstance(LineFeatures(), Features)


@pytest.mark.parametrize("names", [("nothing",), ("report-krr", "report-krr")])
def test_wrong_names_are_refused_before_anything_runs(names):
    with pytest.raises(InvalidParameter):
        run_audits(names)


@pytest.mark.parametrize("changes", [{"samples": 10}, {"confidence": 1.0}, {"confidence": 0.2}])
def test_impossible_settings_are_refused(changes):
    with pytest.raises(InvalidParameter):
        AuditSettings(**changes)


def test_rows_that_are_there_are_not_run_again(tmp_path):
    path, names = tmp_path / "deep" / "rows.jsonl", ("report-signed", "report-krr", "broken-float-laplace")
    first = run_audits(names[:2], AuditSettings(samples=2000), kept=path)
    with path.open("a") as file:
        file.write('{"settings": {"cut')  # died while writing
    rows = run_audits(names, AuditSettings(samples=2000), kept=path)
    assert rows[:2] == first  # seconds and all
    assert len(path.read_text().splitlines()) == 4
    assert run_audits(names, AuditSettings(samples=2000), kept=path) == rows
    assert (
        run_audits(names[:2], AuditSettings(samples=2000, epsilon=2.0), kept=path)[0].claimed_epsilon == 2.0
    )


def test_an_infinite_bound_survives_json():
    row = replace(build("report-krr").run(), lower_bound=math.inf, tightness=math.inf)
    assert AuditRow.from_json(json.loads(json.dumps(row.to_json(), allow_nan=False))) == row


def test_two_processes_give_the_rows_in_order():
    names, seen = ("report-signed", "permute-and-flip", "report-krr"), []
    rows = run_audits(names, AuditSettings(epsilon=2.0), jobs=2, progress=seen.append)
    assert tuple(row.name for row in rows) == names
    assert sorted(seen) == sorted(names)
    assert all(row.claimed_epsilon == 2.0 and row.verdict == "holds" for row in rows)
