"""Natural mistakes with devices and their server: each is answered with what came and what to do."""

import pytest

import dpbandits as dpb
from dpbandits.errors import (
    BudgetExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.local import Client, GPSpec, PublishedArms, Server, SourceClient, Spec

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
SECRET = "s3cret"
ONE = {"age": 44, "region": "south"}
WHO = {"contexts": PEOPLE, "arms": ["mail", "call"]}
PRIVACY = dpb.LocalDP(epsilon=1)
JOINT = dpb.JointDP(epsilon=1, delta=1e-6)
SPEC, OTHER = Spec(**WHO, privacy=PRIVACY), Spec(**WHO, privacy=PRIVACY, seed=1)
GP = GPSpec(**WHO, reward_range=(0, 1), privacy=JOINT)


def told():
    return Server(SPEC).publish()


def chosen(spec=SPEC):
    client = Client(spec)
    client.choose(Server(spec).publish(), ONE)
    return client


def sent():
    client = chosen()
    client.sent(client.report(1.0))
    return client


def gp(**changes):
    return GPSpec(**({**WHO, "reward_range": (0, 1), "privacy": JOINT} | changes))


MISTAKES = {
    "privacy as a number": (lambda: Spec(**WHO, privacy=1.0), InvalidParameter, "LocalDP(epsilon=1)"),
    "another room's promise": (lambda: Spec(**WHO, privacy=JOINT), InvalidParameter, "is a JointDP"),
    "a Gaussian promise as a number": (lambda: gp(privacy=1.0), InvalidParameter, "JointDP(epsilon=1, delta"),
    "a Gaussian promise of bins": (lambda: gp(privacy=PRIVACY), InvalidParameter, "is a LocalDP"),
    "a Gaussian promise without delta": (
        lambda: gp(privacy=dpb.JointDP(epsilon=1)),
        InvalidParameter,
        "delta is 0",
    ),
    "a Gaussian promise of several rounds": (
        lambda: gp(privacy=dpb.JointDP(epsilon=1, delta=1e-6, rounds_per_user=2)),
        InvalidParameter,
        "ledger counts",
    ),
    "a number of arms": (lambda: Spec(contexts=PEOPLE, arms=2, privacy=PRIVACY), InvalidParameter, "a list"),
    "one arm": (lambda: Spec(contexts=PEOPLE, arms="mail", privacy=PRIVACY), InvalidParameter, "a list"),
    "no arms": (lambda: Spec(contexts=PEOPLE, privacy=PRIVACY), InvalidParameter, "needs arms="),
    "a domain without arms": (
        lambda: Spec(domain=dpb.Box(low=[0], high=[1]), privacy=PRIVACY),
        InvalidParameter,
        "pass n_arms=",
    ),
    "nothing to choose about": (lambda: Spec(privacy=PRIVACY), InvalidParameter, "contexts=Schema"),
    "a device of JSON": (lambda: Client(SPEC.to_json()), InvalidParameter, "Spec.from_json(text)"),
    "a server of JSON": (lambda: Server(SPEC.to_json()), InvalidParameter, "Spec.from_json(text)"),
    "a device of a schema": (lambda: Client(PEOPLE), InvalidParameter, "is a Schema"),
    "the server, not what it publishes": (
        lambda: Client(SPEC).choose(Server(SPEC), ONE),
        InvalidParameter,
        "publish()",
    ),
    "context and published exchanged": (
        lambda: Client(SPEC).choose(ONE | {"region": SECRET}, told()),
        InvalidParameter,
        "is a dict",
    ),
    "published of another spec": (
        lambda: Client(SPEC).choose(Server(OTHER).publish(), ONE),
        IncompatibleState,
        "another spec",
    ),
    "published of another kind": (
        lambda: Client(SPEC).choose(Server(GP).publish(), ONE),
        InvalidParameter,
        "expected a PublishedArms",
    ),
    "a second choice": (lambda: chosen().choose(told(), ONE), BudgetExceeded, "decide() answers"),
    "a reward before a choice": (lambda: Client(SPEC).report(1.0), ProtocolError, "choose an arm first"),
    "a report twice": (lambda: sent().report(1.0), ProtocolError, "choose again"),
    "ask": (lambda: Client(SPEC).ask(ONE), AttributeError, "choose(published, context)"),
    "tell": (lambda: chosen().tell(1.0), AttributeError, "report(reward)"),
    "tell the server": (lambda: Server(SPEC).tell("id", 1.0), AttributeError, "absorb(reports)"),
    "predict at the server": (lambda: Server(SPEC).predict(ONE), AttributeError, "estimate()"),
    "a name that nobody has": (lambda: Server(SPEC).nothing, AttributeError, "a Server has no 'nothing'"),
    "one report, no list": (lambda: Server(SPEC).absorb(chosen().report(1.0)), InvalidParameter, "a list"),
    "rows without arms to leave out": (
        lambda: Client(gp(contexts=None, arms=None, domain=GP.domain, features=GP.features)).choose(
            Server(GP).publish(), [[0.5, 0, 0]], available=["mail"]
        ),
        IncompatibleState,
        "another spec",
    ),
    "an arm that the server assigned": (
        lambda: SourceClient(SPEC).observe(told(), ONE, SECRET),
        InvalidParameter,
        "arms 'user'",
    ),
    "another spec's JSON": (lambda: Spec.from_json(GP.to_json()), IncompatibleState, "of another kind"),
    "no JSON": (lambda: Spec.from_json(SECRET), IncompatibleState, "the JSON of a Spec"),
    "a configuration, no JSON": (lambda: Spec.from_json(SPEC.to_config()), IncompatibleState, "a dict came"),
    "published JSON of another spec": (
        lambda: PublishedArms.from_json(told().to_json(SPEC), OTHER),
        IncompatibleState,
        "another spec",
    ),
    "published JSON, and JSON of its spec": (
        lambda: PublishedArms.from_json(told().to_json(SPEC), SPEC.to_json()),
        InvalidParameter,
        "is a str",
    ),
    "a table before its spec": (lambda: told().recommend(ONE, SPEC), InvalidParameter, "is a dict"),
    "a table and the spec of another kind": (
        lambda: told().recommend(GP, ONE),
        IncompatibleState,
        "publishes a PublishedWeights",
    ),
    "a value that is none": (
        lambda: told().recommend(SPEC, {"age": 44, "region": SECRET}),
        InvalidData,
        "'region'",
    ),
    "what is published predicts": (lambda: told().predict(SPEC, ONE), ProtocolError, "estimate()"),
}


@pytest.mark.parametrize(("mistake", "error", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(mistake, error, says):
    with pytest.raises(error) as answered:
        mistake()
    assert says in str(answered.value)
    assert SECRET not in str(answered.value)
