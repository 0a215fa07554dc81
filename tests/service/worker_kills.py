"""Kills, stops and cuts off workers of one database under load, and looks at what is left.

    python tests/service/worker_kills.py FAULTS SEED FOLDER

Four workers, each a forked process, decide and reward for the same policies; two of them reach the database
through a proxy. One after another a worker is killed, or stopped for longer than the database waits for it
and then waked or killed; connections are ended in the middle of a transaction; the proxy is stopped, or cuts
everything and lets nobody in for a while. Policies begin meanwhile, so that a kill may fall between a charge
and its answer. Whoever gets no answer asks again. Reports of devices go to a local policy meanwhile, the same
ones by several workers, and any of them publishes its versions.

Afterwards everything that was acknowledged must be there, and what was released must be, number for number,
what one policy in one process releases given the same rounds and rewards (its noise is simulated, so that it
can be drawn again). The local policy must be what one server makes of the same reports. Prints what was
found, as JSON; exits with 1 at the first contradiction.
"""

import hashlib
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import dpbandits as dpb
from dpbandits.central import GPBandit
from dpbandits.errors import StateError
from dpbandits.local import Server
from dpbandits.local.contract.reports import parse
from dpbandits.local.server.durable import counts_for
from dpbandits.policy import kept
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.service import postgres, surveys
from dpbandits.service.budgets import promise_of
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from dpbandits.service.surveys import begin_survey
from dpbandits.state.format import read_state

sys.path.insert(0, str(Path(__file__).parents[1]))
from flat import spec_with
from service import databases
from service.kills import ON_THEIR_WAY, checked, demand, in_a_child, in_small_parts, opened, prepared
from service.processes import packed_reports

LEASE = 0.6
"""Seconds that the database waits for a worker here."""
ANSWERS = 6
"""Answers that come between one fault and the next, however busy the machine is."""
WORKERS = 4
REPORTS = 600
TIPS = spec_with(
    contexts=dpb.Schema(x=dpb.Range(0, 1)),
    arms=["a", "b"],
    privacy=dpb.LocalDP(epsilon=1),
    reports_per_version=50,
)


def repeatable() -> None:
    """Noise that can be drawn again, and reports that stay."""
    kept.SecureNoise = lambda: SimulatedNoise(7)  # type: ignore[misc, assignment]
    surveys.TAIL_ROWS = 10**9  # all rows stay, to be looked at


def life(folder: Path, address: str, number: int, say: Callable[[dict[str, Any]], None]) -> None:
    """Start a worker that runs until it is killed, with a shorter lease than the process that prepares."""
    postgres.IDLE_SECONDS = LEASE
    while True:
        try:
            service = Service(folder, settings=Settings(database=address))
            break
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - cut off
            time.sleep(0.1)
    rng = random.Random(number)  # noqa: S311 - of a test
    free = threading.Semaphore(ON_THEIR_WAY)
    say({"open": number})

    def tried(call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Repeat the call until there is an answer."""

        def came(future: Any) -> None:
            if future.exception() is None:
                done(future.result())
            else:
                threading.Timer(0.05, lambda: call().add_done_callback(came)).start()

        call().add_done_callback(came)

    if number % 3 == 0:
        with suppress(Exception):
            opened(service, f"p{number}")
            say({"begun": f"p{number}"})
    reports = [bytes.fromhex(line) for line in (folder.parent / "reports").read_text().split()]
    threading.Thread(
        target=reporting, args=(service, reports, rng.randrange(10**6), say), daemon=True
    ).start()
    told = 0
    while True:
        free.acquire()
        policy = rng.choice(("beside", "waits"))
        value = rng.random() if rng.random() < 0.7 else None
        body = {"id": f"{number}-{told}", "user": f"{number}-{told}", "context": {"x": rng.random()}}
        told += 1
        say({"asks": [policy, body, value]})

        def answered(
            text: str, policy: str = policy, body: dict[str, Any] = body, value: float | None = value
        ) -> None:
            answer = json.loads(text)
            say({"answer": [policy, body, answer]})
            free.release()
            if value is not None and answer.get("arm") is not None and not answer["fallback"]:
                tried(
                    lambda: service.reward(policy, answer["id"], value),
                    lambda outcome: say({"paid": [policy, answer["id"], outcome]}),
                )

        tried(lambda policy=policy, body=body: service.decide(policy, "t", body), answered)
        if told % 20 == 0:
            with suppress(Exception):
                text, etag = service.published(policy)
                say({"published": [policy, etag, hashlib.sha256(text.encode()).hexdigest()]})


def tips(folder: Path, address: str) -> None:
    """Begin the local policy, and write down reports that its devices send, some to several workers."""
    service = Service(folder, settings=Settings(database=address))
    try:
        promise = {"kind": "LocalDP", "epsilon": 1}
        service.ledger.open_account("devices", privacy=promise_of(promise))
        asked = {"name": "tips", "population": "devices", "spec": json.loads(TIPS.to_json())}
        for _ in range(20):  # a busy machine is no fault
            with suppress(StateError):
                service.write(lambda writes: begin_survey(writes, service.ledger, asked, 0.0)).result()
                break
        published, made = service.surveys.server("tips").publish(), []
        for number in range(REPORTS):
            device = dpb.local.Client(TIPS)
            device.choose(published, {"x": number / REPORTS})
            made.append(device.report(float(number % 3 == 0)))
        (folder.parent / "reports").write_text("\n".join(report.hex() for report in made))
    finally:
        service.close()


def reporting(
    service: Service, reports: list[bytes], seed: int, say: Callable[[dict[str, Any]], None]
) -> None:
    """Send some of the reports, again and again, and ask for what is published."""
    rng = random.Random(seed)  # noqa: S311 - of a test
    while True:
        batch = [rng.randrange(len(reports)) for _ in range(4)]
        with suppress(Exception):  # which says that it is not known, or not done
            (tally,) = service.surveys.absorb_each("tips", [packed_reports([reports[one] for one in batch])])
            say({"reported": batch, "accepted": tally["accepted"]})
            text, _ = service.surveys.published("tips")
            say({"tips": text})
        time.sleep(0.05)


class Worker:
    """A forked worker, and what it has said."""

    def __init__(self, folder: Path, address: str, number: int) -> None:
        self.path = folder / f"said-{number}"
        self.process = os.fork()
        if self.process == 0:
            lock = threading.Lock()
            with self.path.open("ab", buffering=0) as said:

                def say(line: dict[str, Any]) -> None:
                    with lock:
                        said.write(json.dumps(line).encode() + b"\n")

                try:
                    life(folder / "data", address, number, say)
                finally:
                    os._exit(3)

    def send(self, which: int) -> None:
        os.kill(self.process, which)

    def end(self) -> None:
        self.send(signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        demand(os.WIFSIGNALED(status), f"a worker ended by itself: {status}")

    @property
    def answers(self) -> int:
        """How many answers it has had."""
        return self.path.read_bytes().count(b'{"answer"') if self.path.exists() else 0

    @property
    def said(self) -> list[dict[str, Any]]:
        lines = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        return [json.loads(line) for line in lines[:-1]]


class Proxy:
    """A process between TCP on loopback and the database's socket. It can be stopped; SIGUSR1 cuts."""

    def __init__(self, address: str) -> None:
        info = psycopg.conninfo.conninfo_to_dict(address)
        behind = f"{info['host']}/.s.PGSQL.5432"
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        self.address = f"postgresql://{info['user']}@127.0.0.1:{port}/postgres?{address.partition('&')[2]}"
        self.process = os.fork()
        if self.process == 0:
            try:
                _forward(listening, behind)
            finally:
                os._exit(3)
        listening.close()

    def send(self, which: int) -> None:
        os.kill(self.process, which)

    def end(self) -> None:
        self.send(signal.SIGKILL)
        os.waitpid(self.process, 0)


def _forward(listening: socket.socket, behind: str) -> None:
    pairs: list[socket.socket] = []
    deaf_until = 0.0

    def cut(*_: object) -> None:
        nonlocal deaf_until
        deaf_until = time.monotonic() + 0.5
        for one in pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        pairs.clear()

    signal.signal(signal.SIGUSR1, cut)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    while True:
        caller, _ = listening.accept()
        if time.monotonic() < deaf_until:
            caller.close()
            continue
        server = socket.socket(socket.AF_UNIX)
        server.connect(behind)
        pairs += [caller, server]
        for pair in ((caller, server), (server, caller)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


def fault(rng: random.Random, workers: list[Worker], proxy: Proxy, other: Any, again: Any) -> str:
    """One of them; the worker that it fell on is replaced where it is dead."""
    place = rng.randrange(len(workers))
    what = rng.choices(("kill", "stop", "stop and kill", "end", "hold", "cut"), (6, 2, 1, 4, 1, 2))[0]
    if what == "kill":
        workers[place] = again(place)
    elif what == "stop" or what == "stop and kill":
        workers[place].send(signal.SIGSTOP)
        time.sleep(1.5 * LEASE)
        workers[place].send(signal.SIGCONT)
        if what == "stop and kill":
            time.sleep(rng.random() * 0.02)
            workers[place] = again(place)
    elif what == "end":
        rows = other.execute(
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> 'idle' "
            "AND backend_type = 'client backend'"
        ).fetchall()
        for (pid,) in rows[:2]:
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    elif what == "hold":
        proxy.send(signal.SIGSTOP)
        time.sleep(1.5 * LEASE)
        proxy.send(signal.SIGCONT)
    else:
        proxy.send(signal.SIGUSR1)
    return what


def same_as_one(folder: Path, address: str, lines: list[dict[str, Any]]) -> int:
    """One policy in one process, given the same rounds and rewards, answers and releases the same."""
    asked = {line["asks"][1]["id"]: line["asks"] for line in lines if "asks" in line}
    service, compared = Service(folder, settings=Settings(database=address)), 0
    try:
        with service.store.reading() as reads:
            found = reads.rows(
                "SELECT p.id, p.name, g.config, s.content FROM policies p JOIN progress g ON g.policy = p.id "
                "JOIN states s ON s.policy = p.id WHERE p.name IN ('beside', 'waits')"
            )
            for policy, name, config, content in found:
                known = {service.keys.digest("asked as", policy, "t", key): key for key in asked}
                rows = reads.rows(
                    "SELECT ask, asked_as, status, answer FROM decisions WHERE policy = ?", policy
                )
                rounds = sorted((int(row[0].split("-")[1]), *row[1:]) for row in rows)
                one = GPBandit.from_config(json.loads(config))
                told: list[tuple[str, float]] = []
                for slot, key, status, answer in rounds:
                    _, body, value = asked[known[bytes(key)]]
                    if slot in one.blocks:  # what counted was told before its block was closed
                        one.tell_batch([each for each, _ in told], [each for _, each in told])
                        told = []
                    decision = one.ask(body["context"], body["user"])
                    demand(decision.arm == json.loads(answer)["arm"], f"{name}: another answer at {slot}")
                    if status == "counted":
                        told.append((decision.id, value))
                compared += same_sums(folder, one, content, name)
    finally:
        service.close()
    return compared


def same_sums(folder: Path, one: GPBandit, content: bytes, name: str) -> int:
    """The sums of blocks before noise, and what was released, are the same here and there; releases."""
    here, there = folder / "here.state", folder / "there.state"
    one.save(here)
    there.touch(mode=0o600)
    there.write_bytes(content)
    count = 0
    states = [read_state(path).arrays for path in (here, there)]
    parts = ("raw_sums", "released") if "released" in states[0] else ("design", "counts", "sums")
    for part in parts:
        mine, theirs = (released_in(arrays, part) for arrays in states)
        count = min(len(mine), len(theirs))
        demand(count >= max(len(mine), len(theirs)) - 1, f"{name}: {len(theirs)} releases, not {len(mine)}")
        same = map(np.array_equal, mine[:count], theirs[:count])
        demand(all(same), f"{name}: other {part}")
    for path in (here, there):
        path.unlink()
    return count


def released_in(arrays: dict[str, Any], part: str) -> list[Any]:
    """One array of a state for each release; releases of marginal tables are apart there."""
    if part in arrays:
        return list(arrays[part])
    return [arrays[f"{part}_{number}"] for number in range(len(arrays)) if f"{part}_{number}" in arrays]


def same_as_one_server(folder: Path, address: str, lines: list[dict[str, Any]]) -> dict[str, int]:
    """Given the same reports and asked as often, one server publishes the same and knows the same."""
    reports = [bytes.fromhex(line) for line in (folder.parent / "reports").read_text().split()]
    records = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), -1)
    numbers = {int(nonce): number for number, nonce in enumerate(parse(records, TIPS)[2])}
    service, alone = Service(folder, settings=Settings(database=address)), Server(TIPS)
    published, counted = [alone.publish().to_json(TIPS)], set()
    try:
        shared = service.surveys.server("tips").server
        with service.store.reading() as reads:
            rows = reads.rows("SELECT number, kind, content FROM survey_log ORDER BY number")
        demand([row[0] for row in rows] == list(range(1, len(rows) + 1)), "a row of the local policy is gone")
        for _, kind, content in rows[1:]:
            if kind == "published":
                published.append(alone.publish().to_json(TIPS))
                demand(published[-1].encode() == bytes(content), "workers published another version")
                continue
            nonces = counts_for(alone, bytes(content)).nonces()
            batch = [numbers[int(nonce)] for nonce in nonces]
            demand(not counted & set(batch), "a report was counted twice")
            counted |= set(batch)
            demand(alone.absorb([reports[one] for one in batch]).accepted == len(batch), "a report is none")
        mine, theirs = alone.to_arrays(), shared.to_arrays()
        for name in mine.keys() - {"numbers", "nonces.young", "nonces.old"}:
            demand(np.array_equal(mine[name], theirs[name]), f"the local policy knows another {name}")
        demand(np.array_equal(alone.nonces(), shared.nonces()), "the local policy has other nonces")
    finally:
        service.close()
    told = {one for line in lines if "reported" in line for one in line["reported"]}
    demand(told <= counted, "a report that was confirmed is gone")
    accepted = sum(line.get("accepted", 0) for line in lines)
    demand(accepted <= len(counted), "a report was accepted twice")
    shown = {line["tips"] for line in lines if "tips" in line}
    demand(
        all(json.loads(text)["published"] in map(json.loads, published) for text in shown), "not published"
    )
    return {"reports": len(counted), "sent": sum(4 for line in lines if "reported" in line)} | {
        "versions": len(published)
    }


def main(faults: int, seed: int, folder: Path) -> None:
    repeatable()
    in_small_parts()
    rng = random.Random(seed)  # noqa: S311 - of a test
    address = databases.any_kind()
    data = folder / "data"
    in_a_child(lambda: prepared(data, database=address))
    in_a_child(lambda: tips(data, address))
    proxy, everybody = Proxy(address), iter(range(10**6))
    reached = [address, address, proxy.address, proxy.address]
    done: list[Worker] = []

    def again(place: int) -> Worker:
        workers[place].end()
        done.append(workers[place])
        return Worker(folder, reached[place], next(everybody))

    workers = [Worker(folder, reached[place], next(everybody)) for place in range(WORKERS)]
    seen: dict[str, int] = {}
    with psycopg.connect(address, autocommit=True) as other:
        for number in range(faults):
            until = time.monotonic() + 60.0
            time.sleep(0.3 + 0.7 * rng.random())
            while sum(one.answers for one in (*done, *workers)) < ANSWERS * (number + 1):
                demand(time.monotonic() < until, "nobody is answered")
                time.sleep(0.05)
            what = fault(rng, workers, proxy, other, again)
            seen[what] = seen.get(what, 0) + 1
        time.sleep(0.5)
    for worker in workers:
        worker.end()
    proxy.end()
    lines = [line for worker in (*done, *workers) for line in worker.said]
    releases = 0

    def look() -> None:
        nonlocal releases
        releases = same_as_one(data, address, lines)
        local = same_as_one_server(data, address, lines)
        more = {"faults": seen, "compared": releases, "local": local}
        checked(data, lines, database=address, more=more)

    in_a_child(look)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
