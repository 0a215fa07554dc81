"""Canaries in every room: devices, servers, curators, modelers, USCA, ledgers, files and commands.

What a policy of `cases` shows is in `test_leaks`.
"""

import json
import struct
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

import dpbandits as dpb
from contracts.canaries import FEATURE, OUTSIDE, REWARD, USER, Lint
from contracts.cases import DOMAIN, KERNEL, account_of, private
from contracts.driving import drive
from dpbandits.budget import MemoryLedger, SQLiteLedger, Terms
from dpbandits.budget.units import unit_of
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    LoggedTable,
)
from dpbandits.central.kinds import BlockRows
from dpbandits.cli import app
from dpbandits.errors import DPBanditsError
from dpbandits.local import (
    Client,
    FileOutbox,
    GPSpec,
    PublishedArms,
    Robust,
    Server,
)
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced import AnswerLaplace, Curator, Modeler, PublishedRows, SecretDirectory
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import StateKey
from dpbandits.state.format import read_state
from flat import spec_with
from internals import policy as internals
from internals.client import remembered


@pytest.fixture
def lint(caplog):
    return Lint(caplog)


# -- the lint itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leak",
    [
        lambda lint, folder: lint.see(f"the reward was {REWARD}"),
        lambda lint, folder: lint.see(f"clipped {REWARD:.7g}"),
        lambda lint, folder: lint.see({"user": USER}),
        lambda lint, folder: lint.see(np.array([0.0, FEATURE])),
        lambda lint, folder: lint.see(struct.pack(">d", FEATURE)),
        lambda lint, folder: lint.error(ValueError("x", REWARD)),
        lambda lint, folder: lint.files(folder),
        lambda lint, folder: __import__("logging").getLogger("dpbandits").debug("got %s", REWARD),
    ],
)
def test_the_lint_finds_what_leaks(lint, tmp_path, leak):
    (tmp_path / "plot.svg").write_text(f"<text>{OUTSIDE}</text>")
    lint.see("harmless")
    lint.check()
    leak(lint, tmp_path)
    with pytest.raises(AssertionError):
        lint.check()


def test_the_lint_follows_causes_and_objects(lint):
    class Holder:
        __module__ = "dpbandits.test"

        def __init__(self, inner=None):
            self.inner = inner

        def __repr__(self):
            return "Holder()" if isinstance(self.inner, Holder) else f"Holder({self.inner})"

    lint.see(Holder(Holder()))
    lint.check()
    lint.see(Holder(Holder(REWARD)))
    with pytest.raises(AssertionError):
        lint.check()


# -- local ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("robust", [None, Robust(bytes(range(32)), groups=3)], ids=["plain", "robust"])
@pytest.mark.parametrize("learner", ["questions", "smooth", "tree", "numbers"])
def test_devices_and_their_server(lint, tmp_path, learner, robust):
    numbers = learner == "numbers"
    both = dpb.Schema(first=dpb.Range(0, 1), second=dpb.Range(0, 1))
    spec = spec_with(
        contexts=both if numbers else dpb.Box(low=[0, 0], high=[1, 1]),
        **({"actions": dpb.Range(1, 5, steps=5)} if numbers else {"arms": range(2)}),
        privacy=dpb.LocalDP(epsilon=4.0),
        learner="questions" if numbers else learner,
        reports_per_version=2,
    )
    server = Server(spec, robust=robust)
    ledger = SQLiteLedger(tmp_path / "device.sqlite")
    outbox = FileOutbox(tmp_path / "outbox")
    client = Client(spec, account=ledger.account("mine"), outbox=outbox)
    policy, context = server.publish(), [FEATURE, FEATURE]
    lint.refuse(client.report, REWARD)
    for bad in ([OUTSIDE, FEATURE], [FEATURE], [np.nan, FEATURE], [USER, USER]):
        lint.refuse(spec.check, bad)
        client.decide(policy, bad)
    lint.refuse(client.choose, PublishedArms(version=0, splits=(), arms=np.array([7])), context)
    client.choose(policy, context)
    lint.see(client, remembered(client))
    report = client.report(REWARD)
    lint.see(report, client, remembered(client), client.unsent())
    lint.refuse(client.choose, policy, context)  # the budget is spent
    server.absorb([report, report, b"x", report[:-1]])
    lint.see(server.diagnostics(), robust)
    lint.see(server, server.totals, client.guarantee.explain(), server.guarantee.to_json(), spec, ledger)
    lint.see(server.publish().to_json(spec), spec.to_json(), outbox, ledger)
    lint.files(tmp_path)
    lint.check()


def test_gaussian_devices_and_their_server(lint, tmp_path):
    spec = GPSpec(
        domain=DOMAIN,
        features=MercerFeatures(kernel=KERNEL, domain=DOMAIN, n_features=4),
        reward_range=dpb.RewardRange(0.0, 1.0),
        privacy=dpb.JointDP(epsilon=1.0, delta=1e-6),
    )
    server = Server(spec)
    client = Client(spec, outbox=FileOutbox(tmp_path / "outbox"))
    policy, rows = server.publish(), np.full((2, 2), FEATURE)
    lint.refuse(client.report, REWARD)
    for bad in (rows + OUTSIDE, rows[0]):
        lint.refuse(spec.check, bad)
        client.decide(policy, bad)
    client.choose(policy, rows)
    report = client.report(REWARD)
    lint.refuse(client.choose, policy, rows)
    server.absorb([report])
    lint.see(report, client, server, spec.statement().explain(), server.publish().to_json(spec))
    lint.see(json.dumps(spec.to_config()))
    lint.files(tmp_path)
    lint.check()


# -- outsourced -----------------------------------------------------------------------------------


def people(n=12):
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(0, 1, n), rng.uniform(0, 1, n)
    age[3], dose[3] = FEATURE, 1.0 - FEATURE
    effect = rng.random(n)
    effect[3] = REWARD
    return {"id": [USER if i == 3 else f"p{i}" for i in range(n)], "age": age, "dose": dose, "effect": effect}


SCHEMA = dpb.Schema(age=dpb.Range(0, 1), dose=dpb.Range(0, 1))
ROWS = dpb.RowDP(epsilon=1.0, distance=1.0)


def broken(_row_id):
    raise ValueError(f"{USER} has {REWARD}")


def test_curator_release_and_modeler(lint, tmp_path):
    table = people()
    ledger = SQLiteLedger(tmp_path / "book.sqlite")
    noised = AnswerLaplace(epsilon=1.0, distance=0.5, low=0.0, high=1.0)
    ledger.open_account("town", privacy=Terms(epsilon=3.0, unit=unit_of(ROWS, answers=noised.distance)))
    outside, missing, twice = people(), people(), people()
    outside["age"][5] = OUTSIDE
    missing["dose"][5] = np.nan
    twice["id"][4] = USER
    text = people()
    text["effect"] = [USER] * 12
    for odd, unreadable in ((outside, 1), (missing, 1), (twice, 0), (text, 0)):
        one = Curator(odd, contexts=SCHEMA, privacy=ROWS, objective="effect", ids="id")
        assert one.unsafe_unreadable == unreadable
        lint.see(one, one.publish())
        lint.refuse(one.answer, 99)
    curator = Curator(
        table,
        contexts=SCHEMA,
        privacy=ROWS,
        objective="effect",
        ids="id",
        answers=noised,
        secret=SecretDirectory(tmp_path / "secret", account=ledger.account("town")),
    )
    lint.see(curator, curator.guarantee.explain())
    lint.refuse(curator.answer, 0)
    release = curator.publish(tmp_path / "release")
    lint.see(
        curator, release, str(release.describe()), release.inputs, PublishedRows.load(tmp_path / "release")
    )
    answers = [curator.answer(row) for row in range(12)]
    lint.refuse(curator.answer, 3)
    lint.refuse(curator.answer, 99)
    lint.refuse(curator.answer_again, 99)
    modeler = Modeler(release, kernel=SquaredExponential(lengthscale=6.0), horizon=4)
    for _ in range(3):
        row = modeler.ask()
        modeler.tell(row, answers[row])
    lint.see(modeler, json.dumps(modeler.to_config()), str(modeler.diagnostics()), np.array(answers), ledger)
    failing = Curator(table, contexts=SCHEMA, privacy=ROWS, objective=broken, ids="id")
    failing.publish()
    lint.refuse(failing.answer, 0)
    lint.see(failing)
    second = partial(
        Curator,
        table,
        contexts=SCHEMA,
        privacy=ROWS,
        objective="effect",
        secret=SecretDirectory(tmp_path / "other", account=ledger.account("town")),
        answers=AnswerLaplace(epsilon=1.0, distance=0.5, low=0.0, high=1.0),
    )
    lint.refuse(second)  # the account is empty
    lint.files(tmp_path / "release")
    lint.files(tmp_path / "book.sqlite")
    lint.files(tmp_path / "secret" / "answers.log")  # noised answers, all of which have left
    lint.check()


# -- USCA -----------------------------------------------------------------------------------------

CELLS = {
    "kernel": SquaredExponential(lengthscale=0.4),
    "actions": CellMeasure.finite([0.0, 0.5, 1.0]),
    "contexts": CellMeasure.uniform(low=0, high=1, cells=8),
    "reward_range": (0.0, 1.0),
}


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_answers_and_release_of_logged_data(lint, tmp_path):
    usca = ExploreThenCommit(
        **CELLS,
        horizon=20,
        privacy=dpb.JointDP(epsilon=3.0, delta=1e-6),
        tuning=ExploreTuning(publish_epsilon=1.0, answer_epsilon=1.0),
    )
    units = [USER, *(f"u{i}" for i in range(9))]
    contexts, actions = np.full(10, FEATURE), usca.explore(0, 10)
    rewards = np.full(10, REWARD)
    lint.refuse(usca.learn, contexts[:9], actions, rewards, users=units)
    lint.refuse(usca.learn, contexts, actions, rewards[:, None], users=units)
    lint.refuse(usca.learn, contexts, actions, rewards, propensities=contexts[:9] + OUTSIDE, users=units)
    lint.refuse(usca.learn, contexts, actions, rewards)
    usca.learn(contexts, actions, rewards, users=units)
    shard = usca.shard()
    usca.learn(contexts[:1], actions[:1], rewards[:1], users=[USER])
    usca.learn([OUTSIDE, FEATURE], [0, 50], [REWARD, USER], users=["v", "w"])
    twin = usca.shard()
    twin.learn(contexts[:1], actions[:1], rewards[:1], users=[USER])
    lint.refuse(usca.merge, twin)
    lint.see(usca, shard, usca.unsafe_rules, internals.row_sums(usca))
    lint.refuse(usca.answer, [OUTSIDE])
    answer = usca.answer([FEATURE])
    lint.refuse(usca.answer, [FEATURE])
    policy = usca.publish()
    policy.save(tmp_path / "public")
    usca.save(tmp_path / "usca.state")
    lint.see(usca, answer, policy, policy.guarantee.explain(), json.dumps(usca.to_config()))
    lint.see(str(usca.diagnostics()), str(usca.expected_error()), policy.mean, policy.sd)
    lint.see(json.dumps(dict(read_state(tmp_path / "usca.state").public)))
    lint.files(tmp_path / "public")
    lint.check()


@pytest.mark.parametrize("numbers", [False, True], ids=["arms", "numbers"])
def test_marginal_tables_of_a_log(lint, tmp_path, numbers):
    policy = ExploreThenCommit(
        contexts=dpb.Schema(place=dpb.Range(0, 1), old=dpb.Categories(["no", "yes"])),
        **({"actions": dpb.Range(1, 5, steps=5)} if numbers else {"arms": ["mail", "call"]}),
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=dpb.JointDP(epsilon=3.0, delta=1e-6),
        tuning=ExploreTuning(release="marginals", logged="propensities" if numbers else None),
    )
    chances = {"propensities": [FEATURE] * 10} if numbers else {}
    units, contexts = [USER, *(f"u{i}" for i in range(9))], {"place": [FEATURE] * 10, "old": ["yes"] * 10}
    arms, rewards = policy.explore(0, 10), np.full(10, REWARD)
    lint.refuse(policy.learn, contexts, arms[:9], rewards, users=units)
    lint.refuse(policy.learn, {"place": [FEATURE] * 10}, arms, rewards, **chances, users=units)
    lint.refuse(policy.learn, contexts, arms, rewards, propensities=[OUTSIDE] * 9, users=units)
    policy.learn(contexts, arms, rewards, **chances, users=units)
    one = {"propensities": [OUTSIDE]} if numbers else {}
    policy.learn([{"place": OUTSIDE, "old": USER}], [USER], [REWARD], **one, users=["v"])
    shard = policy.shard()
    lint.refuse(policy.answer, {"place": FEATURE, "old": "yes"})
    lint.refuse(policy.predict, contexts)
    published = policy.publish()
    published.save(tmp_path / "public")
    policy.save(tmp_path / "policy.state")
    lint.see(policy, shard, policy.unsafe_rules, published, published.guarantee.explain())
    lint.see(json.dumps(policy.to_config()), str(policy.diagnostics()), str(policy.expected_error()))
    lint.see(published.posterior.mean, json.dumps(dict(read_state(tmp_path / "policy.state").public)))
    lint.files(tmp_path / "public")
    lint.check()


def test_what_holds_raw_rows_prints_none(lint):
    """Objects between a table and its release: a traceback's locals and a notebook show them."""
    table = {"place": [FEATURE] * 5, "arm": ["mail"] * 5, "paid": [REWARD] * 5, "who": [USER] * 5}
    log = LoggedTable.of_people(
        table,
        contexts=dpb.Schema(place=dpb.Range(0, 1)),
        arms=["mail", "call"],
        action="arm",
        reward="paid",
        reward_range=(0, 1),
        user="who",
    )
    rows = BlockRows(np.array([[FEATURE]]), np.array([REWARD]), np.array([True]), np.array([False]))
    for one in (log, rows):
        lint.see(one, f"{one}", [one], {"held": one})
        assert repr(one) == f"{one}"
        assert not set("0123456789") & set(repr(one).replace(hex(id(one)), ""))
    lint.check()


# -- state and ledgers ----------------------------------------------------------------------------


def seen_rows(case):
    """Candidates with the canary in whatever is no arm's code."""
    return np.array([[FEATURE, 0.0 if case.people else FEATURE]] * 3)


@private
def test_the_public_part_of_a_policys_state_and_its_ledger(case, lint, tmp_path):
    ledger = SQLiteLedger(tmp_path / "book.sqlite")
    ledger.open_account("people", privacy=account_of(case.make(), 10.0, 1e-3))
    policy = case.make(account=ledger.account("people"))
    decision = policy.ask(seen_rows(case), user=USER)
    policy.tell(decision.id, REWARD)
    drive(policy, 1, 25)
    policy.save(tmp_path / "policy.state")
    lint.see(json.dumps(dict(read_state(tmp_path / "policy.state").public)), ledger, policy)
    lint.files(tmp_path / "book.sqlite")
    lint.check()


@private
def test_a_sealed_state_shows_nothing_and_an_open_one_does(case, lint, tmp_path):
    """With a key the file may be seen. Without, it holds raw data: the lint would find it."""
    pytest.importorskip("cryptography")
    policy = case.make()
    decision = policy.ask(seen_rows(case), user=USER)
    policy.tell(decision.id, REWARD)
    policy.save(tmp_path / "sealed.state", key=StateKey(StateKey.generate()))
    lint.files(tmp_path / "sealed.state")
    lint.check()
    policy.save(tmp_path / "open.state")
    lint.files(tmp_path / "open.state")
    with pytest.raises(AssertionError):
        lint.check()


@pytest.mark.parametrize("make", [lambda folder: MemoryLedger(), lambda folder: SQLiteLedger(folder / "l")])
def test_ledgers_show_amounts_and_accounts_and_nothing_else(make, lint, tmp_path):
    ledger = make(tmp_path)
    ledger.open_account("people", privacy=JointDP(1.0))
    ledger.charge("people", charge_id="first", cost=JointDP(0.75))
    lint.see(ledger)
    assert "people" not in repr(ledger)  # accounts may be named after people
    lint.refuse(ledger.charge, "people", charge_id=USER, epsilon=0.5)
    lint.refuse(ledger.charge, "people", charge_id="first", epsilon=0.5)
    lint.check(numbers=())


# -- commands and pages ---------------------------------------------------------------------------


def shown(lint, *arguments, refused=False):
    """A command and everything it shows, an error included; it must succeed, or be refused by the library."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    lint.see(done.stdout, done.stderr)
    assert (done.exit_code != 0) == refused, done.output
    if refused:
        assert isinstance(done.exception, DPBanditsError)
        lint.error(done.exception)


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(1)
    lines = ["person,age,arm,reward"]
    for i in range(400):
        name, age, reward = (USER, FEATURE, REWARD) if i == 7 else (f"p{i}", rng.random(), rng.random())
        lines.append(f"{name},{age},{'ab'[i % 2]},{reward}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_learn_and_predict_on_the_command_line(lint, log, tmp_path):
    base = ["central", "learn", log, "--context", "age", "--action", "arm", "--reward", "reward"]
    base += ["--user", "person"]
    base += ["--epsilon", "4", "--arms", "a,b", "--horizon", "200"]
    shown(lint, *base, "--bounds", "0:0.5,0:1", "--out", tmp_path / "a")
    shown(lint, *base, "--bounds", "0:1,0:0.5", "--out", tmp_path / "b")
    shown(lint, *base, "--bounds", "0:1", "--out", tmp_path / "c", refused=True)
    log.write_text(log.read_text() + f"{USER},{FEATURE},a,{REWARD}\n")
    shown(lint, *base, "--bounds", "0:1,0:1", "--out", tmp_path / "d")
    shown(lint, *base, "--bounds", "0:1,0:1", "--out", tmp_path / "policy")
    lint.files(tmp_path / "policy")
    (tmp_path / "new.csv").write_text("age\n0.25\n")
    shown(lint, "central", "predict", tmp_path / "policy", tmp_path / "new.csv")
    lint.check()


def test_curate_and_answer_on_the_command_line(lint, tmp_path):
    table = people(30)
    lines = ["id,age,dose,effect"]
    lines += [
        f"{table['id'][i]},{table['age'][i]},{table['dose'][i]},{table['effect'][i]}" for i in range(30)
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    base = [
        "outsourced",
        "curate",
        tmp_path / "table.csv",
        "--columns",
        "age,dose",
        "--epsilon",
        "1",
        "--objective",
        "effect",
    ]
    base += ["--secret", tmp_path / "secret", "--out", tmp_path / "release"]
    shown(lint, *base, "--bounds", "0.5:0,0:1", refused=True)
    shown(lint, *base, "--bounds", "0:1,0:1")
    lint.files(tmp_path / "release")
    lint.check()


def test_the_report_of_a_run_holds_nobodys_data(lint, tmp_path):
    rng = np.random.default_rng(2)
    lines = ["age,sector,paid"]
    lines += [
        f"{FEATURE if i == 7 else rng.random()},{'ab'[i % 2]},{int(rng.random() < 0.4)}" for i in range(400)
    ]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "people.toml").write_text(TABLE)
    shown(
        lint,
        "run",
        "--data",
        tmp_path / "people.toml",
        "--horizon",
        100,
        "--reps",
        1,
        "--jobs",
        1,
        "--attack-trials",
        20,
        "--out",
        tmp_path / "report",
    )
    lint.files(tmp_path / "report")
    lint.check()


TABLE = """
path = "people.csv"
[columns.age]
low = 0
high = 1
[columns.sector]
categories = ["a", "b"]
[label]
column = "paid"
cuts = [1]
"""
