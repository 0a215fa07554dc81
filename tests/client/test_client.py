"""The client against a server in its own process, over a network that fails and through kills."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.client import (
    AsyncRemotePolicy,
    RemoteDecision,
    RemotePolicy,
    RemoteServer,
    RemoteTokens,
    connection,
)
from dpbandits.client.messages import metric_values, queued_reward
from dpbandits.errors import (
    ContributionExceeded,
    CorruptState,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    ServiceUnavailable,
    UnknownDecision,
)
from dpbandits.policy import Receipt
from service.conftest import AGNES, CUSTOMERS, OFFERS
from service.processes import BadNetwork, ServerProcess, free_port, serving

SECRET = "s3cret"


def begun(server: ServerProcess, name: str, **more: Any) -> str:
    server.post("/v1/populations", {**CUSTOMERS, "name": f"all-{name}"})
    server.post("/v1/policies", {**OFFERS, "name": name, "population": f"all-{name}", **more})
    return name


def own() -> Any:
    """The same policy in this process."""
    return dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"])),
        arms=OFFERS["arms"],
        reward_range=(0, 1),
        horizon=400,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("service") / "data") as found:
        yield found


def remote(server: ServerProcess, name: str, **more: Any) -> RemotePolicy:
    return RemotePolicy(more.pop("url", server.url), name, token=more.pop("token", server.token), **more)


def token_of(server: ServerProcess, *scopes: str) -> str:
    return str(server.post("/v1/tokens", {"label": "a test's", "scopes": list(scopes)})["token"])


def test_it_asks_and_tells_as_the_library_does(server: ServerProcess) -> None:
    policy, mine = remote(server, begun(server, "plain")), own()
    for number in range(6):
        decision, same = policy.ask(AGNES, f"u{number}"), mine.ask(AGNES, user=f"u{number}")
        assert isinstance(decision, type(same))
        assert (decision.arm, decision.propensity) == (same.arm, same.propensity)
        assert (decision.release, decision.fallback) == (0, False)
        assert policy.tell(decision.id, True) is mine.tell(same.id, True) is Receipt.COUNTED
        assert policy.tell(decision.id, 0) is Receipt.REFUSED
    assert policy.publish().recommend(AGNES) in OFFERS["arms"]
    assert policy.statement().splitlines()[:3] == mine.guarantee.explain().splitlines()[:3]


def test_candidates_are_asked_as_a_matrix(server: ServerProcess) -> None:
    box = {
        "contexts": None,
        "arms": None,
        "domain": {"type": "Box", "low": [0], "high": [1]},
        "kernel": {"type": "SquaredExponential", "lengthscale": 0.3},
    }
    server.post("/v1/populations", {**CUSTOMERS, "name": "all-rows"})
    asked = {key: one for key, one in {**OFFERS, **box}.items() if one is not None}
    server.post("/v1/policies", {**asked, "name": "rows", "population": "all-rows"})
    policy, rows = remote(server, "rows"), np.array([[0.1], [0.5], [0.9]])
    decision = policy.ask(rows, "a")
    assert decision.action.tolist() == rows[decision.index].tolist()
    assert policy.ask(None, np.int64(7)).action.shape == (1,)


def test_a_batch_is_answered_as_its_parts_are(server: ServerProcess) -> None:
    policy, mine = remote(server, begun(server, "batches")), own()
    people = [{"age": 20 + number, "region": "west"} for number in range(7)]
    users = [f"u{number}" for number in range(7)]
    found = policy.ask_batch(people, users, ids=[f"v{number}" for number in range(7)])
    same = [mine.ask(person, user=user) for person, user in zip(people, users, strict=True)]
    assert [(one.arm, one.propensity) for one in found] == [(one.arm, one.propensity) for one in same]
    again = policy.ask_batch(people[:2], users[:2], ids=["v0", "v1"])
    assert [one.id for one in again] == [one.id for one in found[:2]]
    told = policy.tell_batch([one.id for one in found], [1, 0.5, 0, True, 0, 1, 1])
    assert told == [Receipt.COUNTED] * 7
    assert policy.status(found[0].id) == "counted"
    assert policy.releases() == []
    assert policy.ask_batch([]) == policy.tell_batch([], []) == []


def test_who_is_refused_in_a_batch_changes_nobody_elses_answer(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "some"))
    people: list[Any] = [AGNES, {"age": SECRET}, AGNES, AGNES]
    found = policy.ask_batch(people, ["a", "b", "c", "a"])
    kinds = [type(one) for one in found]
    assert kinds == [RemoteDecision, InvalidData, RemoteDecision, ContributionExceeded]
    told = policy.tell_batch([found[0].id, "none", found[2].id], [1, 1, 7])
    assert [one if isinstance(one, Receipt) else type(one) for one in told] == [
        Receipt.COUNTED,
        UnknownDecision,
        InvalidData,
    ]
    assert SECRET not in repr([str(one) for one in [*found, *told]])
    for wrong in (
        lambda: policy.ask_batch(people, ["a"]),
        lambda: policy.ask_batch([SECRET], ["a"]),
        lambda: policy.tell_batch(["d"], [None]),
        lambda: policy.tell_batch(["d"], [1, 2]),
    ):
        with pytest.raises(InvalidData) as refused:
            wrong()
        assert SECRET not in str(refused.value)
    assert [type(one) for one in remote(server, "nobody").ask_batch([AGNES], ["a"])] == [InvalidParameter]
    with pytest.raises(InvalidParameter):
        remote(server, "some", token=token_of(server, "read")).ask_batch([AGNES], ["a"])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client that hardly waits before it repeats a request."""
    monkeypatch.setattr(connection, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(connection, "LONGEST_WAIT", 0.02)


@pytest.mark.usefixtures("impatient")
def test_a_batch_over_a_bad_network_takes_one_round_each(server: ServerProcess) -> None:
    name = begun(server, "batch-losses")
    faults = ["deaf", "fine", "dumb", "torn", "babble", "busy"]
    port = int(server.url.rpartition(":")[2])
    policy = remote(server, name, url=BadNetwork(port, faults).url, timeout=2.0)
    found = policy.ask_batch([AGNES] * 5, list(range(5)))
    told = policy.tell_batch([one.id for one in found], [1] * 5)
    assert {*told} <= {Receipt.COUNTED, Receipt.REFUSED}
    assert len({one.id for one in found}) == 5
    with pytest.raises(ContributionExceeded):
        remote(server, name).ask(AGNES, 0)
    away = remote(server, name, url=f"http://127.0.0.1:{free_port()}", patience=0.01)
    assert [type(one) for one in away.ask_batch([AGNES] * 2, [8, 9])] == [ServiceUnavailable] * 2


def test_devices_fetch_what_is_published_and_send_reports(server: ServerProcess) -> None:
    spec = dpb.local.Spec(
        contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["a", "b"], privacy=dpb.LocalDP(epsilon=1)
    )
    promise = {"kind": "LocalDP", "epsilon": 2}
    server.post("/v1/populations", {"name": "devices", "privacy": promise})
    asked = {"name": "tips", "population": "devices", "spec": spec.to_config()}
    server.post("/v1/local", asked)
    tips = RemoteServer(server.url, "tips", token=token_of(server, "report"))
    assert repr(tips) == "RemoteServer('tips')"
    contract, published = tips.publish()
    assert contract == spec
    reports = []
    for number in range(7):
        device = dpb.local.Client(contract)
        device.choose(published, {"age": 20 + number})
        reports.append(device.report(1.0))
    assert tips.absorb(reports) == 7
    assert tips.absorb([*reports[:2], b"none"]) == 0
    assert tips.absorb([]) == 0
    for wrong in (["text"], [b"x" * 70_000]):
        with pytest.raises(InvalidData):
            tips.absorb(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        RemoteServer(server.url, "none", token=str(server.token)).publish()
    tips.close()


def test_problems_are_the_librarys_errors_and_hold_nothing_of_the_request(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "errors", horizon=3, tuning={"blocks": [3], "n_features": 8}))
    policy.ask(AGNES, SECRET)
    wrong: list[tuple[type[Exception], Any]] = [
        (ContributionExceeded, lambda: policy.ask(AGNES, SECRET)),
        (InvalidData, lambda: policy.ask({"age": SECRET, "region": SECRET}, "u2")),
        (UnknownDecision, lambda: policy.tell(SECRET, 1)),
        (InvalidData, lambda: policy.tell(policy.ask(AGNES, "u3").id, 7777)),
        (HorizonExceeded, lambda: policy.ask(AGNES, "u4")),
        (InvalidData, lambda: policy.tell("d", 10**400)),
        (InvalidData, lambda: policy.ask(SECRET, "u5")),
        (InvalidData, lambda: policy.ask(AGNES, "u5", available=SECRET)),
        (InvalidData, lambda: policy.tell("d", SECRET)),  # type: ignore[arg-type]
        (InvalidParameter, lambda: remote(server, "nobody").ask(AGNES)),
        (InvalidParameter, lambda: remote(server, "errors", token="dpb_x").ask(AGNES)),
        (InvalidParameter, lambda: remote(server, "errors", token=token_of(server, "read")).ask(AGNES)),
    ]
    for kind, call in wrong:
        with pytest.raises(kind) as said:
            call()
        assert SECRET not in str(said.value)
        assert "7777" not in str(said.value)
        assert said.value.__cause__ is None


def test_an_id_names_one_request(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "ids"))
    first = policy.ask(AGNES, "a", id="visit")
    assert policy.ask(AGNES, "a", id="visit").id == first.id
    with pytest.raises(ProtocolError):
        policy.ask(AGNES, "b", id="visit")


def test_what_json_has_not_is_missing_and_takes_its_round(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "odd"))
    for number, missing in enumerate([float("nan"), float("inf"), object(), np.float64("nan")]):
        with pytest.raises(InvalidData):
            policy.ask({"age": missing, "region": "west"}, number)
        with pytest.raises(ContributionExceeded):
            policy.ask(AGNES, number)


def test_a_reward_that_will_not_come_is_abandoned(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "given-up"))
    for number, reward in enumerate((None, float("nan"), np.float64("nan"))):
        decision = policy.ask(AGNES, number)
        assert policy.tell(decision.id, reward) is Receipt.ABANDONED
        assert policy.tell(decision.id, 1) is Receipt.REFUSED


def test_arms_are_added_and_retired_once_by_who_may(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "changing"))
    first, again = (policy.add_arm("chat", like="call", minimum=0.2) for _ in range(2))
    assert first == again
    assert first["arms"] == OFFERS["arms"]
    told = policy.retire_arm("mail")
    assert [(one["event"], one["arm"], one["release"]) for one in told["changes"]] == [
        ("arm added", "chat", 1),
        ("arm retired", "mail", 1),
    ]
    assert policy.retire_arm("mail") == told
    with pytest.raises(InvalidData, match="pass a new label"):
        policy.add_arm("call")
    with pytest.raises(ProtocolError):
        policy.add_arm("chat", like="mail")
    with pytest.raises(InvalidData, match="Products"):
        policy.add_arm("fax", features={"price": 3})
    with pytest.raises(InvalidParameter):  # the scope is missing
        remote(server, "changing", token=token_of(server, "decide")).retire_arm("call")


def test_async_calls_are_the_same(server: ServerProcess) -> None:
    policy = AsyncRemotePolicy(server.url, begun(server, "awaited"), token=server.token)

    async def shopping() -> list[Receipt]:
        decisions = await asyncio.gather(*(policy.ask(AGNES, f"u{number}") for number in range(8)))
        assert len({decision.id for decision in decisions}) == 8
        return await asyncio.gather(*(policy.tell(decision.id, 1) for decision in decisions))

    assert set(asyncio.run(shopping())) == {Receipt.COUNTED}


FAULTS = ["deaf", "fine", "dumb", "busy", "fine", "torn", "babble", "dumb", "turned away", "fine"]


@pytest.mark.usefixtures("impatient")
def test_a_bad_network_takes_no_second_round_and_loses_no_reward(server: ServerProcess) -> None:
    name, mine = begun(server, "torn"), own()
    network = BadNetwork(int(server.url.rpartition(":")[2]), FAULTS)
    policy, told = remote(server, name, url=network.url), []
    for number in range(12):
        decision, same = policy.ask(AGNES, f"u{number}"), mine.ask(AGNES, user=f"u{number}")
        assert (decision.arm, decision.propensity) == (same.arm, same.propensity)  # no round between them
        told.append(policy.tell(decision.id, 1))
    network.close()
    assert set(told) <= {Receipt.COUNTED, Receipt.REFUSED}
    plain = remote(server, name)
    assert plain.ask(AGNES, "last").propensity == mine.ask(AGNES, user="last").propensity


def test_impatience_is_said(tmp_path: Path) -> None:
    policy = RemotePolicy(f"http://127.0.0.1:{free_port()}", "offers", token="dpb_x", patience=0.2)
    began = time.monotonic()
    with pytest.raises(ServiceUnavailable):
        policy.ask(AGNES, SECRET)
    assert time.monotonic() - began < 15.0  # and not the 30 seconds of the default
    with pytest.raises(ServiceUnavailable):
        policy.tell("d1", 1)


def test_rewards_wait_on_disk_while_the_service_is_away(tmp_path: Path) -> None:
    port, queue = free_port(), tmp_path / "queue"
    with serving(tmp_path / "data", port) as server:
        name = begun(server, "offers")
        policy = remote(server, name, queue=queue, timeout=10)
        ids = [policy.ask(AGNES, f"u{number}").id for number in range(5)]
        server.kill()
        assert [policy.tell(one, 1) for one in ids[:2]] == [Receipt.QUEUED] * 2
        assert policy.tell(ids[0], 0) is Receipt.REFUSED
        assert policy.tell(ids[2], None) is Receipt.QUEUED
        assert policy.tell("d0-unknown", 1) is Receipt.QUEUED
        held = [path for path in queue.rglob("*") if path.is_file()]
        assert {path.stat().st_mode & 0o77 for path in held} == {0}
        with pytest.raises(ServiceUnavailable):
            policy.flush()
        after = remote(server, name, queue=queue, timeout=60)  # another process takes it up
        assert after.queued == 4
        assert RemotePolicy("http://127.0.0.1:1", name, token="dpb_x", queue=queue).queued == 0
        server.begin()
        assert after.status(ids[3]) == "pending"  # repeated until the service knows the token again
        assert after.tell(ids[3], 1) is Receipt.COUNTED
        assert after.queued == 0
        assert not [path for path in queue.rglob("*.report") if path.is_file()]
        assert [after.tell(one, 1) for one in ids] == [Receipt.REFUSED] * 4 + [Receipt.COUNTED]
        assert after.flush() == {}


@pytest.mark.timeout(600)  # it begins a server three times
def test_kills_under_load_lose_nothing_and_take_no_second_round(tmp_path: Path) -> None:
    """Several threads ask and tell; the service is killed and begun again under them."""
    port = free_port()
    with serving(tmp_path / "data", port) as server:
        policy = remote(server, begun(server, "offers"), patience=60, queue=tmp_path / "queue")
        answers: dict[str, list[str]] = {}
        failed: list[BaseException] = []

        def shopper(who: int) -> None:
            try:
                for number in range(12):
                    user = f"{who}-{number}"
                    decision = policy.ask(AGNES, user, id=user)
                    answers[user] = [decision.id]
                    policy.tell(decision.id, 1)
            except BaseException as error:  # noqa: BLE001 - for the test's own thread
                failed.append(error)

        shoppers = [threading.Thread(target=shopper, args=(who,)) for who in range(3)]
        for one in shoppers:
            one.start()
        for reached in (8, 20):
            while len(answers) < reached and not failed:
                time.sleep(0.002)
            server.kill()
            server.begin()
        for one in shoppers:
            one.join()
        assert not failed
        policy.flush()
        assert policy.queued == 0
        for user, (decision,) in answers.items():
            assert policy.ask(AGNES, user, id=user).id == decision
            assert policy.tell(decision, 1) in (Receipt.REFUSED, Receipt.LATE)
        with pytest.raises(ContributionExceeded):
            policy.ask(AGNES, "0-0")
        assert len(answers) == 36


def test_a_fork_has_its_own_connection(server: ServerProcess) -> None:
    policy = remote(server, begun(server, "forked"))
    before = policy.ask(AGNES, "a", id="a")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = [policy.ask(AGNES, f"c{number}", id=f"c{number}").id for number in range(10)]
            os.write(writing, "\n".join(found).encode())
        finally:
            os._exit(0)
    found = [policy.ask(AGNES, f"p{number}", id=f"p{number}").id for number in range(10)]
    os.waitpid(child, 0)
    theirs = os.read(reading, 10_000).decode().split("\n")
    os.close(reading)
    os.close(writing)
    assert len({before.id, *found, *theirs}) == 21
    for number in range(10):
        assert policy.ask(AGNES, f"c{number}", id=f"c{number}").id == theirs[number]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://decisions.example.org", "plain_http=True"),
        ("decisions.example.org", "https://"),
        ("https://me:s3cret@example.org", "https://"),
        ("https://example.org/?token=s3cret", "https://"),
        ("http://[::1", "https://"),
        ("ftp://example.org", "https://"),
        (7777, "https://"),
    ],
)
def test_an_address_that_would_show_what_is_sent_is_refused(url: Any, said: str) -> None:
    with pytest.raises(InvalidParameter) as error:
        RemotePolicy(url, "offers", token="t")
    assert said in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("token", ["", "s3cret\r\nX: y", "s3cret ", "s3cret" * 100, None, b"s3cret"])
def test_a_token_that_is_none_is_refused_unseen(token: Any) -> None:
    with pytest.raises(InvalidParameter) as error:
        RemotePolicy("https://example.org", "offers", token=token)
    assert SECRET not in str(error.value)


def test_nothing_shows_the_token() -> None:
    import pickle

    policy = RemotePolicy("https://example.org", "offers", token=SECRET)
    awaited = AsyncRemotePolicy("https://example.org", "offers", token=SECRET)
    for one in (policy, awaited):
        assert SECRET not in repr(one) + str(vars(one) if one is awaited else "") + one._repr_html_()
    with pytest.raises(ProtocolError):
        pickle.dumps(policy)


CLIENT_ALONE = textwrap.dedent(
    """
    import sys

    class NoServer:
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            rooms = ("central", "outsourced", "lab", "audit", "adapters", "cli", "service")
            blocked = [f"dpbandits.{room}" for room in rooms]
            if name in blocked or any(name.startswith(f"{one}.") for one in blocked):
                raise ModuleNotFoundError(name)
            known = (*sys.stdlib_module_names, "numpy", "scipy", "dpbandits")
            if top not in known and not top.startswith("_sysconfigdata"):
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, NoServer())
    from dpbandits.client import RemotePolicy

    policy = RemotePolicy(sys.argv[1], "alone", token=sys.stdin.read(), queue=sys.argv[2])
    decision = policy.ask({"age": 44, "region": "west"}, "u")
    sys.stdout.write(f"{decision.arm} {policy.tell(decision.id, True).value}")
    """
)


def test_it_imports_no_server(server: ServerProcess, tmp_path: Path) -> None:
    begun(server, "alone")
    done = subprocess.run(
        [sys.executable, "-c", CLIENT_ALONE, server.url, str(tmp_path / "queue")],
        input=server.token,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    arm, receipt = done.stdout.split()
    assert arm in OFFERS["arms"]
    assert receipt == "counted"


def test_tokens_are_made_listed_rotated_and_withdrawn(server: ServerProcess) -> None:
    name = begun(server, "rotated")
    admin = RemoteTokens(server.url, token=server.token)
    made = admin.make("the till", ["decide"], policies=[name], seconds=600)
    [listed] = [one for one in admin.listed() if one["id"] == made["id"]]
    assert (listed["label"], listed["policies"], listed["populations"]) == ("the till", [name], None)
    old = remote(server, name, token=made["token"])
    decision = old.ask(AGNES, "u1", id="v1")
    rotated = admin.rotate(made["id"], overlap_seconds=600)
    assert rotated["token"] not in (made["token"], str(admin.listed()))
    new = remote(server, name, token=rotated["token"])
    assert old.ask(AGNES, "u1", id="v1").id == new.ask(AGNES, "u1", id="v1").id == decision.id
    with pytest.raises(InvalidParameter, match="no policy of this name"):
        remote(server, begun(server, "others"), token=rotated["token"]).ask(AGNES, "u1")
    admin.withdraw(made["id"])
    for one in (old, new):
        with pytest.raises(InvalidParameter, match="with a valid token"):
            one.ask(AGNES, "u2")
    with pytest.raises(InvalidParameter, match="no such token"):
        admin.withdraw(made["id"])
    with pytest.raises(InvalidData):
        admin.make("x", ["root"])
    before = len(admin.listed())
    for wrong in ({"policies": {name}}, {"populations": name}, {"seconds": float("nan")}, {"seconds": -1}):
        with pytest.raises((InvalidData, InvalidParameter), match="expected"):
            admin.make("x", ["decide"], **wrong)  # none of them is a token without limits, or without an end
    with pytest.raises(InvalidParameter):
        admin.rotate(made["id"], seconds=float("inf"))
    assert len(admin.listed()) == before


def test_metrics_reach_the_readout_one_by_one_and_in_a_batch(server: ServerProcess) -> None:
    people = {"name": "close", "privacy": {"epsilon": 49, "delta": 1e-5}}
    server.post("/v1/populations", people)
    asked = {**OFFERS, "name": "read", "population": "close", "horizon": 90}
    asked["tuning"] = {"n_features": 3, "reporting_delay": 4}
    asked["privacy"] = {"epsilon": 45, "delta": 1e-6}
    metrics = {"complaint": "bool", "revenue": {"low": 0, "high": 10}}
    control = {"arm": "nothing", "share": 0.3}
    server.post("/v1/policies", asked | {"readout": {"control": control, "metrics": metrics, "looks": 2}})
    policy = remote(server, "read")
    assert policy.readout()["result"] is None
    groups = set()
    for first in range(0, 36, 2):
        asks = [policy.ask(AGNES, f"u{number}") for number in (first, first + 1)]
        groups |= {one.group for one in asks}
        one, two = (each.id for each in asks)
        assert policy.tell(one, 1, complaint=True, revenue=np.float64(10)) is Receipt.COUNTED
        both = {"complaint": [1], "revenue": [10]}
        assert policy.tell_batch([two], [1], metrics=both) == [Receipt.COUNTED]
    for number in range(36, 50):
        policy.tell(policy.ask(AGNES, f"u{number}").id, 1, complaint=True, revenue=10)
    assert groups == {"policy", "control"}
    for _ in range(200):
        if policy.readout()["looks"]:
            break
        time.sleep(0.05)
    means = [(one["policy"], one["control"]) for one in policy.readout()["result"]["readings"]["metrics"]]
    assert np.array(means).T == pytest.approx(np.array([[1, 1, 10]] * 2), rel=0.35)
    with pytest.raises(InvalidData):
        policy.tell_batch(["a", "b"], [1, 1], metrics={"complaint": [True]})
    with pytest.raises(InvalidData):
        policy.tell(policy.ask(AGNES, "u99").id, 1, complain=True)


def test_metrics_in_a_queue_and_files_that_are_no_reward() -> None:
    stored = json.dumps(["d1-0", 1.0, {"complaint": True}]).encode()
    assert queued_reward(stored) == ("d1-0", 1.0, {"complaint": True})
    for other in ("7", '["d1-0", null]', "not JSON"):
        with pytest.raises(CorruptState, match="a file that is not a reward"):
            queued_reward(other.encode())
    assert metric_values({"a": np.int64(2), "b": np.nan, "c": "text", "d": 10**400, "e": False}) == {
        "a": 2,
        "b": None,
        "c": None,
        "d": None,
        "e": False,
    }
