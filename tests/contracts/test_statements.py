"""Every statement of the library: a page to sign that names every assumption, and an annex with all texts."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dpbandits as dpb
from contracts.cases import CASES
from dpbandits.central import ContextLaw, ExploreThenCommit, ExploreTuning, GPBandit, GPTuning
from dpbandits.central.beginning import Beginning
from dpbandits.central.logged.logged_table import READ_ARMS
from dpbandits.central.published import USCA, Dubey2021
from dpbandits.central.statement import Setting, block_release_guarantee, on_a_public_clock
from dpbandits.distributed import DistributedSpec, IdealAggregation
from dpbandits.lab.baselines import DistributedCrowd, LocalCrowd
from dpbandits.models.features import MercerFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced import AnswerLaplace, PublicScaling
from dpbandits.outsourced.published.kharkovskii2020 import PublishedTransform
from dpbandits.outsourced.statement import rows_guarantee
from dpbandits.privacy import DistributedDP, Guarantee, JointDP, LocalDP, RowDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.pages import as_pdf
from dpbandits.privacy.prefix_sums import BlockRelease, square_root_toeplitz
from dpbandits.privacy.rows import choose_row_mechanism
from flat import gp_spec_with, spec_with
from tuning import built

MOST_WORDS = 350
MOST_OF_A_LINE = 24
MOST_OF_A_NAME = 4

BOOLEANS = (False, True)
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
CELLS = CellMeasure.uniform(low=0, high=1, cells=3)


def policies() -> Iterator[Guarantee]:
    """Return what every policy under contract promises, with simulated and with secure noise."""
    for case in CASES:
        yield case.make().guarantee
        if case.private:
            yield case.make(user_ids=False).guarantee
            if case.name not in ("aggregated", "aggregated cells"):
                yield case.make(noise=SecureNoise()).guarantee
    spec = spec_with(contexts=PEOPLE, arms=["a", "b"], privacy=LocalDP(epsilon=0.5), reports_per_version=20)
    yield LocalCrowd(spec=spec).guarantee
    shared = DistributedSpec(
        contexts=PEOPLE, arms=["a", "b"], privacy=DistributedDP(epsilon=0.5, reports_per_user=2), horizon=100
    )
    yield shared.statement()
    yield IdealAggregation(shared).guarantee
    yield DistributedCrowd(spec=shared).guarantee


def settings() -> Iterator[Setting]:
    """Every way in which a policy on a trusted server can run."""
    for status, *rest in product(("enforced", "simulated"), *[BOOLEANS] * 4):
        yield Setting(status, *rest)


def block_releases() -> Iterator[Guarantee]:
    """Block releases in every setting, on a public clock and not."""
    for setting, public in product(settings(), BOOLEANS):
        release = BlockRelease(
            factor=square_root_toeplitz(4),
            mechanism=GramVectorMechanism(n_features=3, vector_only=public, rounds_per_user=12),
            noise=SecureNoise() if setting.status == "enforced" else SimulatedNoise(0),
            epsilon=1.0,
            delta=1e-6,
        )
        found = block_release_guarantee(
            JointDP(1.0, 1e-6, rounds_per_user=12, user_ids=setting.user_ids),
            release,
            width=2.5,
            setting=setting,
            public_decision_sets=public,
        )
        yield found
        yield on_a_public_clock(found)


def menus() -> Iterator[Guarantee]:
    """Policies with contexts and arms: tables, a census, features and cells."""
    shared = {"contexts": PEOPLE, "arms": ["a", "b"], "reward_range": (0, 10), "horizon": 3000}
    for release, delta in product((None, "features", "marginals"), (1e-6, 1e-14)):
        for noise in (SecureNoise(), SimulatedNoise(1)):
            tuning = {} if release is None else {"release": release}
            yield built(
                GPBandit, {**shared, **tuning, "privacy": JointDP(1.0, delta), "noise": noise}
            ).guarantee
    yield built(GPBandit, {**shared, "privacy": JointDP(1.0)}).guarantee
    yield built(GPBandit, {**shared, "privacy": JointDP(1.0, 1e-6), "reporting_delay": 3}).guarantee


PRICES = dpb.Actions(
    dpb.Schema(price=dpb.Range(1, 20, steps=5)),
    value=dpb.values.Revenue(price="price"),
    shape={"price": "decreasing"},
    bounds=dpb.bounds.Within("price", low=2, high=15),
)
SHOP = dpb.Products(
    {"name": ["tea", "cake", "soup"], "price": [2.0, 5.0, 7.0]}, columns=dpb.Schema(price=dpb.Range(0, 10))
)


def choices() -> Iterator[Guarantee]:
    """Policies that choose numbers or products, and one whose arms changed; logs of numbers."""
    shared = {"contexts": PEOPLE, "reward_range": (0, 1), "horizon": 4000}
    tables = {"tuning": GPTuning(release="marginals")}
    for privacy, noise in product(
        (JointDP(1.0, 1e-6), JointDP(1.0, 1e-6, user_ids=False), JointDP(4.0, 1e-14)),
        (SecureNoise(), SimulatedNoise(1)),
    ):
        own = {**shared, "privacy": privacy, "noise": noise}
        yield GPBandit(**own, actions=PRICES).guarantee
        yield GPBandit(**own, arms=SHOP).guarantee
        changed = GPBandit(**own, arms=["a", "b"], **tables)
        changed.add_arm("c")
        yield changed.guarantee
        for logged in ("steps", "numbers", "propensities", "densities"):
            tuning = ExploreTuning(logged=logged)
            yield ExploreThenCommit(**own, actions=PRICES, tuning=tuning).guarantee


def logs() -> Iterator[Guarantee]:
    """Explore then commit: answers, a release, a histogram of contexts, tables."""
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(500, 1e-2))
    rows = np.random.default_rng(0).random((50, 1))
    laws = [CELLS] + [
        ContextLaw.from_private_histogram(rows, cells=CELLS, epsilon=1.0, users=users)
        for users in (None, range(50))
    ]
    shared = {"kernel": KERNEL, "actions": CELLS, "reward_range": (0.0, 1.0), "horizon": 4000}
    for law, delta, account in product(laws, (0.0, 1e-6), BOOLEANS):
        runtime = {"account": ledger.account("people")} if account else {}
        both = {"tuning": ExploreTuning(publish_epsilon=1.0, answer_epsilon=1.0)} if delta else {}
        yield ExploreThenCommit(
            **shared, **both, **runtime, contexts=law, privacy=JointDP(4.0, delta)
        ).guarantee
    for epsilon, delta in product((0.3, 4.0), (0.0, 1e-6)):
        yield ExploreThenCommit(
            contexts=PEOPLE,
            arms=["a", "b"],
            reward_range=(0, 1),
            horizon=4000,
            privacy=JointDP(epsilon, delta),
        ).guarantee


def beginnings() -> Iterator[Guarantee]:
    """Policies that began from a published function, whose own statement is as long as it can be."""
    functions = [one for one in statements(logs) if one.delta]
    theirs = max(functions, key=lambda one: len([a for a in one.assumptions if not a.enforced]))
    theirs = replace(theirs, assumptions=(*theirs.assumptions, READ_ARMS))
    chain = Beginning(guarantee=theirs, disjoint=True).stated(theirs)
    longer = Beginning(guarantee=chain, disjoint=False).stated(functions[0])
    yield longer
    yield Beginning(guarantee=longer, disjoint=False).stated(functions[0])
    owns = sorted(statements(block_releases), key=lambda one: words(one.explain()))
    payments = ((True, None), (False, None), (False, "here"), (False, "before"))
    functions = (theirs, chain, replace(chain, status="simulated"))
    every = list(product(owns, functions, payments))
    for own, function, (disjoint, paid) in every[::71] + every[-len(functions) * len(payments) :]:
        yield Beginning(guarantee=function, disjoint=disjoint, paid=paid).stated(own)


def published() -> Iterator[Guarantee]:
    """Algorithms of papers, broken ones too."""
    yield PublishedTransform(epsilon=1.0, delta=1e-5, acknowledge_broken=True).guarantee
    yield USCA(
        kernel=KERNEL, actions=CELLS, contexts=CELLS, reward_range=(0, 1), horizon=20, privacy=JointDP(1.0)
    ).guarantee
    yield Guarantee.without_privacy(notes=("The positions are exact.",))
    box = dpb.Box(low=[0.0], high=[1.0])
    features = MercerFeatures(kernel=KERNEL, domain=box, n_features=3)
    for horizon, constants in product((None, 64), (None, "lemma-2", "lemma-12-proof")):
        yield built(
            Dubey2021,
            {
                "features": features,
                "domain": box,
                "reward_range": (0.0, 1.0),
                "horizon": horizon,
                "privacy": JointDP(1.0, 1e-3),
                "paper_constants": constants,
            },
        ).guarantee


def reports() -> Iterator[Guarantee]:
    """Reports of devices."""
    shared = {"contexts": PEOPLE, "arms": ["a", "b", "c"], "privacy": LocalDP(epsilon=1.0)}
    for chooser, epsilons in product(("server", "client"), ((), (0.5, 1.0))):
        spec = spec_with(**shared, chooser=chooser, epsilons=epsilons, learner="smooth")
        yield spec.statement()
    yield spec_with(**shared).statement()
    box = dpb.Box(low=[0], high=[1])
    features = MercerFeatures(kernel=KERNEL, domain=box, n_features=4)
    for learner in ({}, {"learner": "dubey2021", "constants": {"horizon": 100.0}}):
        for noise in ({}, {"noise": SimulatedNoise(2)}):
            yield gp_spec_with(
                **learner,
                **noise,
                domain=box,
                features=features,
                reward_range=(0, 5),
                privacy=JointDP(4.0, 1e-6),
            ).statement()


def rows() -> Iterator[Guarantee]:
    """Outsourced tables in every setting."""
    schema = dpb.Schema(age=dpb.Range(18, 90), dose=dpb.Range(0, 5))
    noised = AnswerLaplace(epsilon=1.0, distance=0.5, low=0.0, high=1.0)
    kinds = [("l2_laplace", 0.0), ("gaussian", 1e-2), ("randomised_response", 0.0)]
    flags = ("counted", "durable", "witnessed", "budgeted", "evaluated")
    every = list(
        product(
            kinds, (None, noised), (None, 2.5), (1, 3), ("enforced", "simulated"), *[BOOLEANS] * len(flags)
        )
    )
    longest = [one for one in every if one[:5] == (kinds[1], noised, 2.5, 3, "simulated")]
    for (mechanism, delta), answers, pace, most, status, *values in every[::29] + longest:
        privacy = RowDP(3.0, delta, distance=0.1, rows_per_user=most)
        noise = SecureNoise() if status == "enforced" else SimulatedNoise(0)
        kept = choose_row_mechanism(
            definition=privacy.each_row, n=200, dim=2, half_width=1.0, noise=noise, mechanism=mechanism
        )
        yield rows_guarantee(
            kept,
            privacy=privacy,
            scaling=PublicScaling(schema),
            rows=200,
            status=status,
            answers=answers,
            cap=50,
            pace=pace,
            **dict(zip(flags, values, strict=True)),
        )


def words(text: str) -> int:
    """Return the number of words; boxes, dashes and lines to write on are none."""
    return len([word for word in text.split() if re.search(r"[^\W_]", word)])


def one_line(text: str) -> str:
    return " ".join(text.split())


FAMILIES = (policies, block_releases, menus, choices, logs, beginnings, published, reports, rows)


@cache
def statements(family: Callable[[], Iterator[Guarantee]]) -> tuple[Guarantee, ...]:
    return tuple(family())


def longest(family: Callable[[], Iterator[Guarantee]]) -> list[Guarantee]:
    """Return the longest statement of each status."""
    found = sorted(statements(family), key=lambda promised: words(promised.explain()))
    return list({promised.status: promised for promised in found}.values())


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_one_page_to_sign_names_every_assumption_and_the_annex_has_their_texts(family):
    seen = set()
    for promised in statements(family):
        page, annex = one_line(promised.explain()), one_line(promised.annex())
        assert words(page) <= MOST_WORDS, (words(page), promised.explain())
        names = [(one.part, one.name) for one in promised.assumptions]
        assert len(set(names)) == len(names), names
        for one in promised.assumptions:
            assert len(one.name.split()) <= MOST_OF_A_NAME
            assert one_line(one.text) in annex
            if not one.enforced and not one.part:
                assert words(one.line) <= MOST_OF_A_LINE, one.line
                assert f"[ ] {one.name[0].upper()}{one.name[1:]}: {one.line}" in page
            else:
                assert one.name in page.lower()
        for jargon in ("phi", "lattice unit", "lattice step", "{"):
            assert jargon not in page + " ".join(record.describe() for record in promised.mechanisms), jargon
        assert all(record.scale * record.step < 1e7 for record in promised.mechanisms)
        signed = promised.status == "enforced"
        assert ("Signature" in page) == signed
        assert (f"Statement SHA-256: {promised.digest}" in page) == signed
        head = {"simulated": "NOT A PROTECTION", "broken": "BROKEN", "none": "NO PRIVACY"}
        assert all(signed or head[promised.status] in sheet for sheet in (page, annex))
        assert Guarantee.from_json(promised.to_json()) == promised
        assert page.count("[ ]") == len(
            {one.part or one.name for one in promised.assumptions if not one.enforced}
        ) or promised.status in ("broken", "none")
        seen.add(promised.status)
    assert seen


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
@pytest.mark.skipif(
    find_spec("reportlab") is None, reason="reportlab writes PDF: pip install 'dpbandits[dev]'"
)
@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_longest_page_to_sign_fits_on_one_sheet_of_paper(paper):
    for promised in [one for family in FAMILIES for one in longest(family)]:
        page, _ = promised.pages()
        assert len(re.findall(rb"/Type /Page\b", as_pdf([page], paper=paper))) == 1


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
def test_the_page_on_nist_800_226_names_every_unchecked_assumption_and_no_other():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "nist-800-226.md"
    named = set(re.findall(r"\*([a-z][a-z ']+)\*", page.read_text())) - {"you check", "broken"}
    every = [one for family in FAMILIES for promised in statements(family) for one in promised.assumptions]
    assert named == {one.name for one in every if not one.enforced}


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
def test_whoever_asks_is_told_that_refusals_are_for_the_caller_alone():
    asked = [one for one in statements(block_releases) if one.status == "enforced"]
    assert asked
    for promised in asked:
        assert "[ ] Private refusals: Only the caller sees a refusal." in promised.explain()
    assert all("refusal" not in promised.explain() for promised in statements(logs))


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
def test_sensitivities_in_reward_units_are_those_that_a_hand_finds():
    """One reward of a range of width 10 is replaced by another, in one round of one user."""
    shared = {"contexts": PEOPLE, "arms": ["a", "b"], "reward_range": (0, 10), "horizon": 3000}

    def sensitivity(record):
        return record.sensitivity * record.step

    def policy(privacy, **options):
        return built(GPBandit, {**shared, "privacy": privacy, "noise": SecureNoise(), **options}).guarantee

    # sums of rewards less .3 to .7 of the width: from 7 to -7 at most, in units rounded up
    sums = next(one for one in policy(JointDP(1.0)).mechanisms if "rewards" in one.name)
    assert 14.0 <= sensitivity(sums) < 14.01
    assert sums.scale * sums.step == pytest.approx(sensitivity(sums) / sums.certificate.epsilon)
    # sums of rewards less the middle, in two cells or one: from 5 to -5
    box = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
    by_points = {"reward_range": (0, 10), "horizon": 3000, "noise": SecureNoise(), "release": "cells"}
    found = built(GPBandit, {**by_points, "domain": box, "kernel": KERNEL, "privacy": JointDP(1.0)})
    (cells,) = found.guarantee.mechanisms
    assert sensitivity(cells) == pytest.approx(10.0)
    assert cells.scale * cells.step == pytest.approx(10.0)
    # the vector alone: z phi with |z| <= 5 and |phi| <= 1 changes by 10, and by the rounding of its stream
    released = BlockRelease(
        factor=square_root_toeplitz(1),
        mechanism=GramVectorMechanism(n_features=3, vector_only=True),
        noise=SecureNoise(),
        epsilon=1.0,
        delta=1e-6,
    ).record(width=10.0)
    assert 10.0 <= sensitivity(released) < 10.001
    # a curator's answers: the distance, and a step of the lattice for rounding both
    noised = next(one for one in statements(rows) if len(one.mechanisms) > 1)
    answers = noised.mechanisms[1]
    assert 0.5 < sensitivity(answers) < 0.5001
    assert answers.scale == pytest.approx(sensitivity(answers) / answers.certificate.epsilon)
