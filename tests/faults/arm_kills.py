"""kill -9 at every durable operation of a change of arms: of a policy in a folder, and of a served one.

    python tests/faults/arm_kills.py

For each operation a copy of a prepared folder is opened in a process of its own, which adds one arm and
retires another until it is killed. Another process opens what is left, and repeats both calls. Prints, for
each kill, what was acknowledged before it, and which changes were there before and after the repetition.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.service import policies
from dpbandits.service.core import Service
from faults.children import in_child
from faults.failpoints import Failpoint

SERVED = {
    "name": "offers",
    "population": "people",
    "contexts": [{"name": "x", "type": "Range", "low": 0, "high": 1}],
    "arms": ["mail", "call"],
    "reward_range": [0, 1],
    "horizon": 100,
    "privacy": {"epsilon": 1, "delta": 1e-6},
    "tuning": {"blocks": [20, 40, 60, 80]},
    "settings": {},
}
ROUNDS = 30


class InFolder:
    """A policy in a folder."""

    def __init__(self, folder: Path) -> None:
        self.policy = GPBandit.open(folder)

    @classmethod
    def prepare(cls, folder: Path) -> None:
        policy = GPBandit.open(folder, new=_policy())
        for number in range(ROUNDS):
            policy.tell(policy.ask({"x": number / ROUNDS}, user=number).id, 1.0)
        policy.close()

    def add(self) -> None:
        self.policy.add_arm("chat", like="mail", at=1.0)

    def retire(self) -> None:
        self.policy.retire_arm("call", at=2.0)

    def changes(self) -> list[dict[str, Any]]:
        return [one.to_config() for one in self.policy.arm_changes]

    def close(self) -> None:
        self.policy.close()


class Served:
    """A policy of a service in a folder of its own, which SQLite keeps."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(folder)

    @classmethod
    def prepare(cls, folder: Path) -> None:
        from dpbandits.service.budgets import promise_of

        service = Service(folder)
        promise = promise_of({"epsilon": 10, "delta": 1e-3})
        service.ledger.open_account("people", privacy=promise)
        service.begin_policy(dict(SERVED), by="")
        for number in range(ROUNDS):
            body = {"id": f"v{number}", "user": f"u{number}", "context": {"x": number / ROUNDS}}
            service.decide("offers", "t", body).result(60.0)
        service.close()

    def _change(self, **how: Any) -> None:
        engines = self.service.engines
        self.service.write(lambda writes: policies.change_arms(writes, engines, "offers", **how)).result(60.0)

    def add(self) -> None:
        self._change(retire=False, asked={"arm": "chat", "like": "mail"}, now=1.0)

    def retire(self) -> None:
        self._change(retire=True, asked={"arm": "call"}, now=2.0)

    def changes(self) -> list[dict[str, Any]]:
        with self.service.store.reading() as reads:
            return list(json.loads(policies.kept_policy(reads, "offers").arm_changes))

    def close(self) -> None:
        self.service.close()


def _policy() -> GPBandit:
    return GPBandit(
        contexts=dpb.Schema(x=dpb.Range(0, 1)),
        arms=["mail", "call"],
        reward_range=(0, 1),
        horizon=100,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        tuning=GPTuning(release="marginals", census=False, blocks=[20, 40, 60, 80]),
    )


def changing(kind: Any, folder: Path, said: Path, at: int, mode: str) -> dict[str, Any]:
    """Add and retire, and write down what was acknowledged; return the kinds of the operations."""
    own, failpoint = kind(folder), Failpoint(at, mode, folder)
    lines = said.open("w", buffering=1)
    failpoint.install()
    own.add()
    lines.write("add\n")
    own.retire()
    lines.write("retire\n")
    failpoint.room()
    return {"kinds": failpoint.kinds, "changes": own.changes()}


def repeated(kind: Any, folder: Path) -> dict[str, Any]:
    own = kind(folder)
    before = own.changes()
    own.add()
    own.retire()
    after = own.changes()
    own.close()
    return {"before": before, "after": after}


def answered(task: Callable[[], Any]) -> Any:
    code, said = in_child(task)
    if code:
        raise SystemExit(f"a process ended by itself: {said}")
    return said


def kills(kind: Any, folder: Path) -> dict[str, Any]:
    """Return the changes of an undisturbed run, and a row for every kill."""
    sound, copy, said = folder / "sound", folder / "copy", folder / "said"
    in_child(lambda: kind.prepare(sound))
    shutil.copytree(sound, copy)
    whole, rows = answered(lambda: changing(kind, copy, said, 0, "kill")), []
    for at, what in enumerate(whole["kinds"], 1):
        for mode in ("kill", "torn") if what == "write" else ("kill",):
            shutil.rmtree(copy)
            shutil.copytree(sound, copy)
            code, _ = in_child(lambda at=at, mode=mode: changing(kind, copy, said, at, mode))
            row = {"at": at, "mode": mode, "code": code, "said": said.read_text().split()}
            rows.append(row | answered(lambda: repeated(kind, copy)))
    return {"changes": whole["changes"], "rows": rows}


if __name__ == "__main__":
    found = {}
    for one in (InFolder, Served):
        with tempfile.TemporaryDirectory() as scratch:
            found[one.__name__] = kills(one, Path(scratch))
    sys.stdout.write(json.dumps(found))
