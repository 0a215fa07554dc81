"""Kills a service under load, again and again, and looks at what is left.

    python tests/service/kills.py KILLS SEED FOLDER [arms|actions]

Each life is a forked child that opens the folder, decides and rewards with several requests on their way,
begins a policy now and then, and writes a line for everything that was acknowledged. It is killed at a random
moment, some of them while a release is made. Afterwards everything that any life acknowledged must be there.
Prints what was found, as JSON; exits with 1 at the first contradiction.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpbandits.service import folding, round_log
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore

EPSILON = 0.5
POLICY = {
    "population": "people",
    "contexts": [{"name": "x", "type": "Range", "low": 0, "high": 1}],
    "arms": ["a", "b"],
    "reward_range": [0, 1],
    "horizon": 6000,
    "privacy": {"epsilon": EPSILON, "delta": 1e-6},
    "tuning": {"blocks": list(range(40, 6001, 40)), "n_features": 3, "lag": 3},
}
ON_THEIR_WAY = 6

PRICES = {
    "columns": [{"name": "price", "type": "Range", "low": 1, "high": 9, "steps": 9}],
    "value": {"type": "Revenue", "cost": 1},
    "shape": {"price": "decreasing"},
    "bounds": {
        "type": "Within",
        "action": "price",
        "high": {"type": "Linear", "column": "x", "at_zero": 5, "slope": 4},
    },
    "explore": {"price": [2, 4]},
    "step": {"price": [0, 1]},
}
TUNING = {"blocks": POLICY["tuning"]["blocks"], "lag": 3}
KINDS = {
    "arms": POLICY,
    "actions": POLICY
    | {"actions": PRICES, "arms": [float(price) for price in range(1, 10)], "tuning": TUNING},
}
"""Requests that begin a policy, by the kind of its decisions."""


def opened(service: Service, name: str, kind: str = "arms") -> None:
    asked: dict[str, Any] = {**KINDS[kind], "name": name, "settings": {}}
    if name == "waits":  # its releases are made by the ask that is due
        asked["tuning"] = {**asked["tuning"], "lag": 0}
    service.begin_policy(asked, by="")


def prepared(folder: Path, *, database: str = "", kind: str = "arms") -> None:
    service = Service(folder, settings=Settings(database=database))
    try:
        from dpbandits.service.budgets import promise_of

        promise = {"epsilon": 10_000, "delta": 1e-3}
        service.ledger.open_account("people", privacy=promise_of(promise))
        opened(service, "beside", kind)
        opened(service, "waits", kind)
    finally:
        service.close()


def life(folder: Path, number: int, say: Callable[[dict[str, Any]], None], kind: str) -> None:
    """Until it is killed."""
    service = Service(folder)
    rng = random.Random(number)  # noqa: S311 - of a test
    free = threading.Semaphore(ON_THEIR_WAY)

    def look(policy: str) -> None:
        text, etag = service.published(policy)
        say({"published": [policy, etag, hashlib.sha256(text.encode()).hexdigest()]})

    say({"open": number})
    for policy in ("beside", "waits"):
        look(policy)
    if number % 10 == 3:
        opened(service, f"p{number}", kind)
        say({"begun": f"p{number}"})
    told = 0
    while True:
        free.acquire()
        policy = rng.choice(("beside", "waits"))
        body = {"id": f"{number}-{told}", "user": f"{number}-{told}", "context": {"x": rng.random()}}
        told += 1

        def answered(future: Any, policy: str = policy, body: dict[str, Any] = body) -> None:
            answer = json.loads(future.result())
            say({"answer": [policy, body, answer]})
            if answer.get("arm") is not None and rng.random() < 0.7:
                paid = service.reward(policy, answer["id"], rng.random())
                paid.add_done_callback(lambda done: say({"paid": [policy, answer["id"], done.result()]}))
            free.release()

        service.decide(policy, "t", body).add_done_callback(answered)
        if told % 25 == 0:
            look(policy)


def killed(folder: Path, number: int, rng: random.Random, kind: str) -> list[dict[str, Any]]:
    """What one life acknowledged before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        lock = threading.Lock()

        def say(line: dict[str, Any]) -> None:
            with lock:
                os.write(writing, json.dumps(line).encode() + b"\n")

        try:
            life(folder, number, say, kind)
        finally:
            os._exit(3)
    os.close(writing)
    wanted, parts, began = rng.randrange(0, 60), [], time.monotonic()
    with os.fdopen(reading, "rb") as lines:
        if rng.random() < 0.15:  # while it opens
            time.sleep(rng.random() * 0.05)
        else:
            while len(parts) < wanted and time.monotonic() - began < 60.0:
                line = lines.readline()
                if not line:
                    break
                parts.append(line)
            time.sleep(rng.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        parts += lines.readlines()
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"life {number} ended by itself")
    return [json.loads(part) for part in parts if part.endswith(b"\n")]


def released(folder: Path, policy: str) -> int:
    """Releases of a policy that a folder holds, before anybody serves it."""
    store = SQLiteStore(folder / "service.db")
    with store.reading() as reads:
        query = "SELECT MAX(r.version) FROM releases r JOIN policies p ON p.id = r.policy WHERE p.name = ?"
        (count,) = reads.one(query, policy) or (0,)
    store.close()
    return int(count or 0)


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"CONTRADICTION: {what}")


def same_next(folder: Path, scratch: Path) -> None:
    """Two copies of what a kill left answer alike, until a release that is yet to be drawn is due."""
    answers = []
    for copy in (scratch / "one", scratch / "two"):
        shutil.copytree(folder, copy)
        drawn = released(copy, "beside")
        service = Service(copy)
        try:
            bodies = [{"id": f"n{n}", "user": f"n{n}", "context": {"x": 0.1 * n}} for n in range(5)]
            found = [json.loads(service.decide("beside", "n", body).result()) for body in bodies]
            answers.append([one for one in found if one["release"] <= drawn])
        finally:
            service.close()
        shutil.rmtree(copy)
    demand(answers[0] == answers[1], "two copies of one folder decide differently")


def in_a_child(call: Callable[[], None]) -> None:
    """Threads of a service that was open here must not be forked later."""
    child = os.fork()
    if child == 0:
        try:
            call()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    demand(os.waitpid(child, 0)[1] == 0, "see above")


def checked(
    folder: Path,
    lines: list[dict[str, Any]],
    *,
    database: str = "",
    more: dict[str, Any] | None = None,
) -> None:
    service = Service(folder, settings=Settings(database=database))
    try:
        published: dict[tuple[str, str], str] = {}
        seen: dict[str, tuple[str, dict[str, Any]]] = {}
        for line in lines:
            if "published" in line:
                policy, etag, digest = line["published"]
                if not etag.endswith('-0"'):
                    demand(
                        published.setdefault((policy, etag), digest) == digest, f"{etag} had two functions"
                    )
            if "answer" in line:
                policy, body, answer = line["answer"]
                again = json.loads(service.decide(policy, "t", body).result())
                demand(again == answer, "an answer is another, or gone")
                demand(
                    seen.setdefault(answer["id"], (policy, body)) == (policy, body), "an id was given twice"
                )
            if "paid" in line:
                policy, decision, _ = line["paid"]
                demand(service.reward(policy, decision, 0.5).result() == "duplicate", "a reward is gone")
        with service.store.reading() as reads:
            policies = reads.rows("SELECT id, name, status FROM policies")
            for policy, name, status in policies:
                demand(status == "active", f"{name} is {status}")
                demand(service.ledger.charged("people", policy) is not None, f"{name} has not paid")
                asks = [row[0] for row in reads.rows("SELECT ask FROM decisions WHERE policy = ?", policy)]
                demand(len(set(asks)) == len(asks), "a round was given twice")
                rounds = sorted(int(ask.split("-")[1]) for ask in asks)
                demand(rounds == list(range(len(rounds))), "a round is nobody's")
        names = {name for _, name, _ in policies}
        demand({line["begun"] for line in lines if "begun" in line} <= names, "a policy is gone")
        spent = float(service.ledger.balance("people").spent.epsilon)
        demand(abs(spent - EPSILON * len(policies)) < 1e-9, "the account has not paid once for each policy")
        sys.stdout.write(
            json.dumps(
                {
                    "answers": len(seen),
                    "rewards": sum("paid" in line for line in lines),
                    "policies": len(policies),
                    "releases": len(published),
                    **(more or {}),
                }
            )
        )
        sys.stdout.flush()  # a child that was forked leaves without
    finally:
        service.close()


def in_small_parts() -> None:
    """Folds read, close and forget few rounds at once, so that kills come in between."""
    folding.TOGETHER = round_log.TOGETHER = 9


def main(kills: int, seed: int, folder: Path, kind: str = "arms") -> None:
    in_small_parts()
    rng = random.Random(seed)  # noqa: S311 - of a test
    data = folder / "data"
    in_a_child(lambda: prepared(data, kind=kind))
    lines: list[dict[str, Any]] = []
    for number in range(kills):
        lines += killed(data, number, rng, kind)
        if number % 10 == 0:
            in_a_child(lambda: same_next(data, folder))
    checked(data, lines)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
