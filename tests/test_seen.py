"""What objects show of themselves: the promise in public numbers, and nothing that people brought."""

import html

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.privacy.definitions import JointDP

SECRET = "s3cret"
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), town=dpb.Categories([SECRET, "elsewhere"]))
PERSON = {"age": 77.25, "town": SECRET}
JOINT = dpb.JointDP(epsilon=1.5, delta=1e-6)
USUAL = {
    "contexts": PEOPLE,
    "arms": ["mail", "call"],
    "reward_range": (0, 1),
    "horizon": 200,
    "privacy": JOINT,
}
SPEC = dpb.local.Spec(contexts=PEOPLE, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1.5))


def asked(policy):
    decision = policy.ask(PERSON, user=SECRET)
    policy.tell(decision.id, 0.8125)
    return policy


def bandit(release=None):
    """Of marginal tables, whose release is pure, where no other kind is named."""
    return dpb.central.GPBandit(**USUAL, tuning=dpb.central.GPTuning(release=release))


def released(release=None):
    policy = bandit(release)
    for number in range(60):
        asked_of = policy.ask(PERSON, user=f"{SECRET}{number}")
        policy.tell(asked_of.id, 0.8125)
    return policy


def curator():
    table = {"x": [77.25, 19.0, 33.0], "y": [0.8125, 0.25, 0.5]}
    return dpb.outsourced.Curator(
        table,
        contexts=dpb.Schema(x=dpb.Range(18, 90)),
        privacy=dpb.RowDP(epsilon=1.5, delta=1e-6, distance=1),
        objective="y",
    )


def chosen():
    client = dpb.local.Client(SPEC)
    client.choose(dpb.local.Server(SPEC).publish(), PERSON)
    return client


PROMISED = {
    "GPBandit": (released, "epsilon=1.5, delta=1e-06, horizon=200, asked=60, "),
    "ExploreThenCommit": (
        lambda: dpb.central.ExploreThenCommit(**USUAL),
        "epsilon=1.5, delta=1e-06, horizon=200, answered=0, ",
    ),
    "PublishedPosterior": (lambda: released().publish(), "epsilon=1.5, delta=0.0, arms=2, "),
    "PublishedPosterior, features": (
        lambda: released("features").publish(),
        "epsilon=1.5, delta=1e-06, arms=2, ",
    ),
    "Guarantee": (lambda: bandit().guarantee, "status='enforced', epsilon=1.5, delta=0.0, "),
    "Guarantee, features": (
        lambda: bandit("features").guarantee,
        "status='enforced', epsilon=1.5, delta=1e-06, ",
    ),
    "Client": (chosen, "epsilon=1.5"),
    "Server": (lambda: dpb.local.Server(SPEC), "epsilon=1.5, delta=0.0, version=0, accepted=0"),
    "Curator": (curator, "epsilon=1.5, delta=1e-06, "),
    "PublishedRows": (lambda: curator().publish(), "epsilon=1.5, delta=1e-06, "),
    "Modeler": (
        lambda: dpb.outsourced.Modeler(curator().publish(), horizon=2),
        "epsilon=1.5, delta=1e-06, rows=3, horizon=2, asked=0",
    ),
}


@pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")
@pytest.mark.parametrize("name", PROMISED)
def test_an_object_says_what_it_promises_and_how_far_it_is(name):
    make, numbers = PROMISED[name]
    thing, name = make(), name.partition(",")[0]
    line, page = repr(thing), thing._repr_html_()
    assert line.startswith(f"{name}({numbers}")
    assert page.startswith(f"<code>{name}(")
    promise = thing if name == "Guarantee" else getattr(thing, "guarantee", None)
    assert ("<summary>Guarantee" in page) == (promise is not None)
    if promise is not None:
        assert html.escape(promise.explain()) in page
    for secret in (SECRET, "77.25", "0.8125"):
        assert secret not in line + page
    assert not [name for name in dir(thing) if name.startswith("_") and not name.startswith("__")]


def test_a_decision_shows_its_number_alone():
    decision = dpb.central.GPBandit(**USUAL).ask(PERSON, user=SECRET)
    assert decision._repr_html_() == f"<code>Decision(id=&#x27;{decision.id}&#x27;)</code>"
    assert {"arm", "propensity"} <= set(dir(decision))


def test_an_account_says_what_is_left():
    ledger = dpb.MemoryLedger()
    ledger.open_account("team", privacy=JointDP(3, 1e-6))
    balance = ledger.charge("team", charge_id="one", cost=JointDP(1.25))
    left = "epsilon 1.75 of 3.0, delta 0.000001 of 0.000001"
    assert repr(balance) == f"Balance(left: {left}; accountant: undecided)"
    assert balance.parts[0] == ("epsilon", balance.spent_epsilon, balance.terms.epsilon)
    assert repr(ledger) == "MemoryLedger()"


def test_what_is_written_in_a_page_is_text_there():
    shown = dpb.privacy.Guarantee.without_privacy(notes=["<b>bold</b>"])._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>" not in shown


@pytest.mark.parametrize(
    "module",
    [
        *[dpb, dpb.central, dpb.local, dpb.outsourced, dpb.lab, dpb.lab.plot, dpb.lab.study, dpb.lab.worlds],
        *[dpb.lab.evaluation, dpb.lab.baselines, dpb.kernels, dpb.features, dpb.domains, dpb.tables],
        *[dpb.privacy, dpb.policy, dpb.state, dpb.audit, dpb.central.published, dpb.local.published],
    ],
    ids=lambda module: module.__name__,
)
def test_a_module_shows_what_it_offers(module):
    shown = [name for name in dir(module) if not name.startswith("__")]
    assert shown == sorted(name for name in module.__all__ if not name.startswith("__"))
    assert not {"np", "numpy", "Any", "Path", "lazy"} & set(shown)
    for name in shown:
        assert getattr(module, name) is not np
