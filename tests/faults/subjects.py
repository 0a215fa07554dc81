"""The stateful objects: what each does while a fault strikes, and what must hold afterwards.

A subject prepares a folder once. A session opens what is there and works; it can be told to work again
after an error. Whatever leaves (an answer, a release, a confirmation) is written down as an act, a pair of
what it is and a digest of its content. `check` opens the folder in a new process, looks, finishes the work,
and returns the violations.
"""

import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

import dpbandits as dpb
from dpbandits.budget import MemoryLedger, SQLiteLedger, Terms
from dpbandits.budget.units import unit_of
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
    learn,
)
from dpbandits.central.logged.logged_table import LogColumns, LoggedTable
from dpbandits.central.logged.once import publish_once
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.central.published import Dubey2021
from dpbandits.errors import AlreadyTold, DPBanditsError, IncompatibleState, InvalidParameter
from dpbandits.local import Client, DurableServer, FileOutbox, GPSpec, MemoryOutbox, Server, Spec
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.outsourced import Curator, PublishedRows
from dpbandits.privacy import JointDP, SecureNoise
from dpbandits.privacy.rows import AnswerLaplace
from dpbandits.state.witness import FileWitness
from flat import spec_with
from internals.marginals import durable_blocks
from internals.policy import durable_looks, kept_nodes
from internals.server import held_back, snapshots_often

__all__ = ["SUBJECTS", "Act", "Session", "Subject", "TableSubject"]

Act = tuple[str, str]
Leave = Callable[[str, object], None]
"""Writes down that something has left: (what, content)."""

KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
BOX = dpb.Box(low=[0.0], high=[1.0])


class Session(Protocol):
    def work(self) -> None:
        """Do what is left to do."""


class Subject(Protocol):
    name: str
    not_state: tuple[str, ...]
    """Files of the folder that nothing is kept in."""
    unguarded: tuple[str, ...]
    """Ends of names of files whose removal nothing can notice; the documentation says so."""

    def prepare(self, folder: Path) -> None:
        """What is there before the fault."""

    def session(self, folder: Path, leave: Leave) -> Session:
        """Open what is there."""

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        """Violations; may finish the work."""


def digest(content: object) -> str:
    data = content if isinstance(content, bytes) else repr(content).encode()
    if isinstance(content, np.ndarray):
        data = content.tobytes()
    return hashlib.sha256(data).hexdigest()[:20]


def contradictions(acts: list[Act]) -> list[str]:
    """Things that left twice with different contents."""
    seen: dict[str, str] = {}
    return [
        f"{what} left twice, differently"
        for what, content in acts
        if seen.setdefault(what, content) != content
    ]


def finish(subject: Subject, folder: Path, acts: list[Act]) -> list[Act]:
    """Work to the end in a new process; everything that has left by then."""
    later = list(acts)
    subject.session(folder, lambda what, content: later.append((what, digest(content)))).work()
    return later


def ledger_in(folder: Path) -> SQLiteLedger:
    """The ledger of a folder; one that was prepared with a witness is opened with it."""
    witness = folder / "witness"
    return SQLiteLedger(folder / "ledger.db", witness=FileWitness(witness) if witness.is_dir() else None)


def witnessed_ledger_in(folder: Path) -> SQLiteLedger:
    """A new ledger that names a witness; in life it is kept elsewhere, here faults must find it, too."""
    (folder / "witness").mkdir()
    return ledger_in(folder)


# -- the ledger ------------------------------------------------------------------------------------


class LedgerSubject:
    """Charges and witnesses in a ledger that many processes share."""

    name = "SQLiteLedger"
    not_state, unguarded = (), ("ledger.db",)
    charges, each, positions = 3, Decimal("0.25"), 3

    def prepare(self, folder: Path) -> None:
        ledger_in(folder).open_account("purse", privacy=JointDP(1))

    def session(self, folder: Path, leave: Leave) -> "Session":
        return _LedgerSession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        ledger, found = ledger_in(folder), []
        charged = {what for what, _ in acts if what.startswith("charge")}
        spent = ledger.balance("purse").spent_epsilon
        if not self.each * len(charged) <= spent <= self.each * (len(charged) + 1):
            found.append(f"{len(charged)} charges were acknowledged, and {spent} is spent")
        witnessed = [int(what.split()[1]) for what, _ in acts if what.startswith("position")]
        last = ledger.last("life")
        if witnessed and (last is None or last.position not in (max(witnessed), max(witnessed) + 1)):
            found.append("an acknowledged position was lost")
        if last is not None and last.digest != f"state-{last.position}":
            found.append("a witness holds another state's digest")
        finish(self, folder, acts)
        if ledger.balance("purse").spent_epsilon != self.each * self.charges:
            found.append("repeated charges were spent again")
        if ledger.last("life") != (self.positions - 1, f"state-{self.positions - 1}"):
            found.append("the lineage did not reach its last position")
        return found


class _LedgerSession:
    def __init__(self, subject: LedgerSubject, folder: Path, leave: Leave) -> None:
        self.subject, self.leave = subject, leave
        self.ledger = ledger_in(folder)

    def work(self) -> None:
        for index in range(self.subject.charges):
            self.ledger.charge("purse", charge_id=f"c{index}", cost=JointDP(float(self.subject.each)))
            self.leave(f"charge {index}", "paid")
        last = self.ledger.last("life")
        for position in range(0 if last is None else last.position, self.subject.positions):
            self.ledger.advance("life", position=position, digest=f"state-{position}")
            self.leave(f"position {position}", "witnessed")


class WitnessedLedgerSubject(LedgerSubject):
    """The same with a witness, which misses the ledger when it is gone."""

    name = "SQLiteLedger with FileWitness"
    unguarded = ()

    def prepare(self, folder: Path) -> None:
        witnessed_ledger_in(folder).open_account("purse", privacy=JointDP(1))


class NewLedgerSubject(LedgerSubject):
    """The same, from the first moment of the file on."""

    name = "SQLiteLedger, created"
    charges, positions = 1, 1

    def prepare(self, folder: Path) -> None:
        pass

    def session(self, folder: Path, leave: Leave) -> Session:
        session = _LedgerSession(self, folder, leave)
        session.ledger.open_account("purse", privacy=JointDP(1))
        return session

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        if not (folder / "ledger.db").exists():
            return ["an acknowledged ledger is gone"] if acts else []
        SQLiteLedger(folder / "ledger.db").open_account("purse", privacy=JointDP(1))
        return super().check(folder, acts)


# -- policies that are asked -----------------------------------------------------------------------


class PolicySubject:
    """A policy that decides, learns and releases; what leaves are decisions' ids and releases."""

    name = "GPBandit"
    not_state, unguarded = (), ()
    rounds_before, rounds = 3, 10
    epsilon, delta = 4.0, 1e-6
    metrics: ClassVar[dict[str, object]] = {}

    def build(self, ledger: SQLiteLedger) -> Any:
        return GPBandit(
            kernel=KERNEL, domain=BOX, reward_range=(0, 1), horizon=40,
            tuning=GPTuning(n_features=3, blocks=(4, 8, 12, 16)),
            privacy=JointDP(epsilon=self.epsilon, delta=self.delta), noise=SecureNoise(),
            account=ledger.account("people"),
        )  # fmt: skip

    def load(self, folder: Path) -> Any:
        return GPBandit.load(folder / "state", ledger=ledger_in(folder))

    def releases(self, policy: Any) -> dict[str, object]:
        return {f"release {number}": release for number, release in enumerate(policy.released)}

    def asked(self, policy: Any) -> int:
        return int(policy.diagnostics()["rounds_asked"])

    def ask(self, policy: Any, user: str) -> str:
        """The id of a decision."""
        return str(policy.ask(np.linspace(0.0, 1.0, 3)[:, None], user=user).id)

    def prepare(self, folder: Path) -> None:
        ledger = ledger_in(folder)
        ledger.open_account("people", privacy=JointDP(self.epsilon, self.delta))
        policy = self.build(ledger)
        policy.save(folder / "state")
        for index in range(self.rounds_before):
            policy.tell(self.ask(policy, f"before-{index}"), 0.5)
        policy.save(folder / "state")

    def session(self, folder: Path, leave: Leave) -> Session:
        return _PolicySession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        policy = self.load(folder)
        kept = {what: digest(content) for what, content in self.releases(policy).items()}
        found = [
            f"{what} was seen and is not the same in the state"
            for what, content in acts
            if self.must_be_kept(policy, what) and kept.get(what) != content
        ]
        found += self.forgotten(policy, acts)
        policy.close()
        later = finish(self, folder, acts)
        found += contradictions(later)
        balance = ledger_in(folder).balance("people")
        if (balance.spent_epsilon, balance.spent_delta) != (
            Decimal(str(self.epsilon)),
            Decimal(str(self.delta)),
        ):
            found.append(f"{balance.spent_epsilon} and {balance.spent_delta} are spent")
        if not any(what.startswith("release") for what, _ in later):
            found.append("nothing was released: the test means nothing")
        return found

    def must_be_kept(self, policy: Any, what: str) -> bool:
        return what.startswith("release")

    def forgotten(self, policy: Any, acts: list[Act]) -> list[str]:
        """Asks and tells that were acknowledged and are gone: since the last commit, as is promised."""
        return []


class _PolicySession:
    def __init__(self, subject: PolicySubject, folder: Path, leave: Leave) -> None:
        self.subject, self.folder, self.leave = subject, folder, leave
        self.policy = subject.load(folder)
        self.seen: set[str] = set()
        self.closed = False

    def work(self) -> None:
        if self.closed:  # and the disk refused: the policy has left its folder all the same
            self.policy, self.closed = self.subject.load(self.folder), False
        self.show()  # after a crash, whoever comes first sees what there is
        for late in self.policy.pending[:1]:
            self.tell(late)
        while self.subject.asked(self.policy) < self.subject.rounds:
            decision = self.subject.ask(self.policy, user := secrets.token_hex(8))
            self.leave(f"asked {decision}", user)
            if self.subject.asked(self.policy) % 3:
                self.tell(decision)
            self.show()
        self.closed = True
        self.policy.close()

    def tell(self, decision: str) -> None:
        self.policy.tell(decision, 0.5, **self.subject.metrics)
        self.leave(f"told {decision}", "")

    def show(self) -> None:
        for what, content in self.subject.releases(self.policy).items():
            if what not in self.seen:
                self.leave(what, content)
                self.seen.add(what)


class CellSubject(PolicySubject):
    """Sums in cells: a design is made anew after a restart, and what was drawn by it is not."""

    name = "GPBandit of cells"
    delta = 0.0

    def build(self, ledger: SQLiteLedger) -> Any:
        return GPBandit(
            kernel=KERNEL, domain=BOX, reward_range=(0, 1), horizon=40,
            tuning=GPTuning(release="cells", n_features=3, blocks=(4, 8, 12, 16)),
            privacy=JointDP(epsilon=self.epsilon), noise=SecureNoise(), account=ledger.account("people"),
        )  # fmt: skip


class MarginalSubject(PolicySubject):
    """Marginal tables: sums and counts, under noise of two laws, of sizes that earlier releases chose."""

    name = "GPBandit of marginals"

    def build(self, ledger: SQLiteLedger) -> Any:
        return GPBandit(
            contexts=dpb.Schema(**{name: dpb.Categories(["no", "yes"]) for name in ("old", "near", "new")}),
            arms=["mail", "call"], reward_range=(0, 1), horizon=40,
            tuning=GPTuning(release="marginals", blocks=(4, 8, 12, 16)),
            privacy=JointDP(epsilon=self.epsilon, delta=self.delta), noise=SecureNoise(),
            account=ledger.account("people"),
        )  # fmt: skip

    def releases(self, policy: Any) -> dict[str, object]:
        return {f"release {number}": release for number, release in enumerate(durable_blocks(policy))}

    def ask(self, policy: Any, user: str) -> str:
        return str(policy.ask(["no", "yes", "yes"], user=user).id)


class TreeSubject(PolicySubject):
    """Dubey2021: every round is a release."""

    name = "Dubey2021"
    rounds_before, rounds = 1, 6

    def build(self, ledger: SQLiteLedger) -> Any:
        return Dubey2021(
            features=QuadratureFourierFeatures(kernel=KERNEL, dim=1, nodes=3),
            domain=BOX, reward_range=(0, 1), horizon=16,
            privacy=JointDP(epsilon=self.epsilon, delta=self.delta),
            noise=SecureNoise(), account=ledger.account("people"),
        )  # fmt: skip

    def load(self, folder: Path) -> Any:
        return Dubey2021.load(folder / "state", ledger=ledger_in(folder))

    def releases(self, policy: Any) -> dict[str, object]:
        """Nodes of the present prefix; a node is named by the round that completed it."""
        released, nodes = kept_nodes(policy)
        return {
            f"release {released >> level << level}": node
            for level, node in enumerate(nodes)
            if released >> level & 1
        }

    def must_be_kept(self, policy: Any, what: str) -> bool:
        """Nodes that a larger one has replaced are gone, as they should be."""
        return what.startswith("release") and (
            what in self.releases(policy) or int(what.split()[1]) > kept_nodes(policy)[0]
        )


# -- policies that live in a folder ------------------------------------------------------------------


class _Living(PolicySubject):
    """A policy in a folder of its own: every ask and tell that was answered is there after a crash."""

    def prepare(self, folder: Path) -> None:
        ledger = ledger_in(folder)
        ledger.open_account("people", privacy=JointDP(self.epsilon, self.delta))
        new = self.build(ledger)
        with type(new).open(folder / "policy", new=new) as policy:
            for index in range(self.rounds_before):
                policy.tell(self.ask(policy, f"before-{index}"), 0.5)

    def load(self, folder: Path) -> Any:
        ledger = ledger_in(folder)
        new = self.build(ledger)
        return type(new).open(folder / "policy", new=new, ledger=ledger)

    def forgotten(self, policy: Any, acts: list[Act]) -> list[str]:
        asked = {what.split()[1] for what, _ in acts if what.startswith("asked")}
        told = {what.split()[1] for what, _ in acts if what.startswith("told")}
        found = []
        if self.asked(policy) < self.rounds_before + len(asked):
            found.append(f"{len(asked)} asks were answered, and {self.asked(policy)} are known")
        waiting = set(policy.pending)
        for decision in sorted(asked | told):
            if decision in told & waiting:
                found.append(f"{decision} was told, and waits for its reward")
            if decision in waiting:
                continue
            try:
                policy.tell(decision, 0.5)
            except AlreadyTold:
                continue
            except DPBanditsError as error:
                found.append(f"{decision} was answered, and then {type(error).__name__}")
            else:  # of a round that was released without its reward: it is late, and counts zero
                found += [f"{decision} was told, and told again"] * (decision in told)
        return found


class LivingSubject(_Living):
    """Many rounds a release, so that the log grows; and a ledger with a witness."""

    name = "GPBandit in a folder, with FileWitness"

    def prepare(self, folder: Path) -> None:
        witnessed_ledger_in(folder)
        super().prepare(folder)


class ReadoutSubject(_Living, MarginalSubject):
    """A readout beside the tables: looks come between blocks, of both groups, and no metric is gone."""

    name = "GPBandit with a readout, in a folder"
    metrics: ClassVar[dict[str, object]] = {"complaint": True, "revenue": 20.0}

    def build(self, ledger: SQLiteLedger) -> Any:
        return GPBandit(
            contexts=dpb.Schema(**{name: dpb.Categories(["no", "yes"]) for name in ("old", "near", "new")}),
            arms=["mail", "call"], reward_range=(0, 1), horizon=40,
            tuning=GPTuning(release="marginals", blocks=(4, 8, 12, 16)),
            privacy=JointDP(epsilon=self.epsilon, delta=self.delta), noise=SecureNoise(),
            account=ledger.account("people"),
            readout=dpb.Readout(
                control=dpb.Control(arm="call", share=0.4), looks=13,
                metrics={"complaint": bool, "revenue": (0, 500)},
            ),
        )  # fmt: skip

    def releases(self, policy: Any) -> dict[str, object]:
        looks = {f"release of look {number}": look for number, look in enumerate(durable_looks(policy))}
        return super().releases(policy) | looks


class LivingTreeSubject(_Living, TreeSubject):
    """A release a round, so that logs come and go."""

    name = "Dubey2021 in a folder"


# -- USCA: answers and one release -----------------------------------------------------------------


class USCASubject:
    """Answers are numbered and leave once; the release is one."""

    name = "ExploreThenCommit"
    not_state, unguarded = (), ()
    answers, each = 4, Decimal("0.5")
    CELLS = CellMeasure.uniform(low=0, high=1, cells=4)

    def prepare(self, folder: Path) -> None:
        ledger = SQLiteLedger(folder / "ledger.db")
        ledger.open_account("people", privacy=JointDP(4, 1e-6))
        usca = ExploreThenCommit(
            kernel=KERNEL, actions=self.CELLS, contexts=self.CELLS, reward_range=(0.0, 1.0), horizon=4000,
            privacy=JointDP(epsilon=4.0, delta=1e-6, user_ids=False),
            tuning=ExploreTuning(publish_epsilon=2.0, answer_epsilon=float(self.each)),
            noise=SecureNoise(), account=ledger.account("people"),
        )  # fmt: skip
        rng = np.random.default_rng(1)
        usca.learn(rng.random(4000), usca.explore(0, 4000), rng.random(4000))
        usca.save(folder / "state")

    def session(self, folder: Path, leave: Leave) -> Session:
        return _USCASession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        ledger = SQLiteLedger(folder / "ledger.db")
        usca = ExploreThenCommit.load(folder / "state", ledger=ledger)
        given = [int(what.split()[1]) for what, _ in acts if what.startswith("answer")]
        used = self.answers - usca.remaining_answers
        found = [] if used >= len(given) else [f"{len(given)} answers left, {used} are counted"]
        spent = ledger.balance("people").spent_epsilon
        released = any(what == "release" for what, _ in acts)
        if spent < self.each * len(given) + 2 * released:
            found.append(f"{spent} is spent for {len(given)} answers")
        later = finish(self, folder, acts)
        numbers = [what for what, _ in later if what.startswith("answer")]
        if len(set(numbers)) != len(numbers):
            found.append("one number was answered twice")
        if ledger.balance("people").spent_epsilon != 4:
            found.append("the budget does not add up")
        return found + contradictions([act for act in later if act[0] == "release"])


class _USCASession:
    def __init__(self, subject: USCASubject, folder: Path, leave: Leave) -> None:
        self.leave = leave
        self.usca = ExploreThenCommit.load(folder / "state", ledger=SQLiteLedger(folder / "ledger.db"))

    def work(self) -> None:
        while self.usca.remaining_answers > 2:
            answer = self.usca.answer([0.3])
            self.leave(f"answer {answer.number}", answer.index)
        self.leave("release", self.usca.publish().mean)
        while self.usca.remaining_answers:
            answer = self.usca.answer([0.7])
            self.leave(f"answer {answer.number}", answer.index)


class TablesSubject:
    """A log's marginal tables: one release of two kinds of numbers, and what was fitted to them."""

    name = "ExploreThenCommit of marginals"
    not_state, unguarded = (), ()

    def prepare(self, folder: Path) -> None:
        ledger = SQLiteLedger(folder / "ledger.db")
        ledger.open_account("people", privacy=JointDP(4, 1e-6))
        policy = ExploreThenCommit(
            contexts=dpb.Schema(**{name: dpb.Categories(["no", "yes"]) for name in ("old", "near", "new")}),
            arms=["mail", "call"], reward_range=(0, 1), horizon=4000,
            tuning=ExploreTuning(release="marginals"),
            privacy=JointDP(epsilon=4.0, delta=1e-6, user_ids=False),
            noise=SecureNoise(), account=ledger.account("people"),
        )  # fmt: skip
        rng = np.random.default_rng(1)
        contexts = {name: rng.choice(["no", "yes"], 4000).tolist() for name in ("old", "near", "new")}
        policy.learn(contexts, policy.explore(0, 4000), rng.random(4000))
        policy.save(folder / "state")

    def session(self, folder: Path, leave: Leave) -> Session:
        return _TablesSession(folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        balance = SQLiteLedger(folder / "ledger.db").balance
        found = ["a release left, and is not charged"] * bool(acts and balance("people").spent_epsilon < 4)
        later = finish(self, folder, acts)
        if balance("people").spent_epsilon != 4:
            found.append("the budget does not add up")
        return found + contradictions(later)


class _TablesSession:
    def __init__(self, folder: Path, leave: Leave) -> None:
        self.leave = leave
        self.policy = ExploreThenCommit.load(folder / "state", ledger=SQLiteLedger(folder / "ledger.db"))

    def work(self) -> None:
        self.leave("release", self.policy.publish().posterior.mean)


# -- people's devices and their server -------------------------------------------------------------

SPEC = spec_with(
    contexts=BOX,
    arms=range(2),
    privacy=dpb.LocalDP(epsilon=1.0),
    learner="tree",
    reports_per_version=4,
    window=30,
    seed=5,
)


GP_SPEC = GPSpec(
    domain=BOX,
    features=QuadratureFourierFeatures(kernel=KERNEL, dim=1, nodes=3),
    reward_range=(0.0, 1.0),
    privacy=JointDP(epsilon=1.0, delta=1e-6),
)


class DeviceSubject:
    """A device's reports: paid, stored, then sent; after a crash what is stored is sent again.

    Its account and its outbox are pinned to one spec.
    """

    name = "Client with FileOutbox"
    not_state, unguarded = (), ("ledger.db", ".report")
    choices = 3
    spec: Any = SPEC
    other: Any = Spec(contexts=BOX, arms=range(3), privacy=dpb.LocalDP(epsilon=1.0))
    context: Any = (0.3,)

    def prepare(self, folder: Path) -> None:
        self.device(folder)

    def device(self, folder: Path) -> Client:
        ledger, outbox = SQLiteLedger(folder / "ledger.db"), FileOutbox(folder / "outbox")
        return Client(self.spec, account=ledger.account("local-reports"), outbox=outbox, budget=64)

    def session(self, folder: Path, leave: Leave) -> Session:
        return _DeviceSession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        found = contradictions(acts)
        self.device(folder)  # a removed pin is made again, which says nothing against the device
        waiting = FileOutbox(folder / "outbox").pending()
        sent = {what.split()[1] for what, _ in acts if what.startswith("confirmed")}
        for what, content in acts:
            kind, _, key = what.partition(" ")
            if kind == "report" and key not in sent and digest(waiting.get(key, b"")) != content:
                found.append("a report that was returned is not waiting unchanged")
        begun = len([what for what, _ in acts if what.startswith("choice")])
        spent = SQLiteLedger(folder / "ledger.db").balance("local-reports").spent_epsilon
        reports = {what.split()[1] for what, _ in acts if what.startswith("report")} | set(waiting)
        if not len(reports) <= spent <= begun:
            found.append(f"{spent} is spent for {len(reports)} reports of {begun} choices")
        for ledger, outbox in (
            (SQLiteLedger(folder / "ledger.db"), MemoryOutbox()),
            (MemoryLedger(), FileOutbox(folder / "outbox")),
        ):
            try:
                Client(self.other, account=ledger.account("local-reports"), outbox=outbox, budget=64)
            except (InvalidParameter, IncompatibleState):
                continue
            found.append(f"another spec was let into the {type(ledger).__name__} or its outbox")
        return found


class GPDeviceSubject(DeviceSubject):
    """The same for a Gaussian process: the report is a noised vector."""

    name = "Client of a GPSpec"
    spec, other, context = GP_SPEC, SPEC, ((0.3,), (0.8,))


class _DeviceSession:
    def __init__(self, subject: DeviceSubject, folder: Path, leave: Leave) -> None:
        self.subject, self.leave, self.done, self.chosen = subject, leave, 0, False
        self.client = subject.device(folder)
        self.policy = Server(subject.spec).publish()

    def work(self) -> None:
        for report in self.client.unsent():
            self.leave(f"report {report[9:17].hex()}", report)
        while self.done < self.subject.choices:
            if not self.chosen:
                self.leave(f"choice {secrets.token_hex(8)}", "begun")
                self.client.choose(self.policy, self.subject.context)
                self.chosen = True
            report = self.client.report(0.5)
            self.leave(f"report {report[9:17].hex()}", report)
            if self.done == 0:
                self.leave(f"confirmed {report[9:17].hex()}", "")
                self.client.sent(report)
            self.done, self.chosen = self.done + 1, False


class ServerSubject:
    """A server that confirms batches and publishes versions, with a snapshot every few records."""

    name = "DurableServer"
    not_state, unguarded = ("reports",), ()
    batches = 4

    def prepare(self, folder: Path) -> None:
        with self.open(folder) as server:
            policy, reports = server.publish(), []
            for x in np.random.default_rng(3).random(3 * self.batches):
                client = Client(SPEC)
                client.choose(policy, [x])
                reports.append(client.report(float(x > 0.5)))
        (folder / "reports").write_bytes(b"".join(reports))

    def open(self, folder: Path) -> DurableServer:
        snapshots_often(3)
        return DurableServer.open(SPEC, folder / "server", least_open=0.0)

    def batch(self, folder: Path, number: int) -> list[bytes]:
        data = (folder / "reports").read_bytes()
        size = len(data) // (3 * self.batches)
        return [data[at : at + size] for at in range(3 * number * size, 3 * (number + 1) * size, size)]

    def session(self, folder: Path, leave: Leave) -> Session:
        return _ServerSession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        confirmed = [int(what.split()[1]) for what, _ in acts if what.startswith("batch")]
        found = []
        with self.open(folder) as server:
            again = [server.absorb(self.batch(folder, number)).repeated for number in confirmed]
            alone = [bytes.fromhex(what.split()[1]) for what, _ in acts if what.startswith("report")]
            again += [server.absorb([report]).repeated + 2 for report in alone]
        found += ["a confirmed report was lost"] * sum(repeated != 3 for repeated in again)
        later = finish(self, folder, acts)
        plain = Server(SPEC)
        for number in range(self.batches):
            plain.publish()
            plain.absorb(self.batch(folder, number))
        with self.open(folder) as server:
            if server.publish().to_json(SPEC) != plain.publish().to_json(SPEC):
                found.append("the server ended elsewhere than one that was never interrupted")
        return found + contradictions(later)


class _ServerSession:
    def __init__(self, subject: ServerSubject, folder: Path, leave: Leave) -> None:
        self.subject, self.folder, self.leave = subject, folder, leave
        self.server = subject.open(folder)

    def work(self) -> None:
        for number in range(self.subject.batches):
            policy = self.server.publish()
            self.leave(f"version {policy.version}", policy.to_json(SPEC))
            batch = self.subject.batch(self.folder, number)
            if number % 2:
                self.server.absorb(batch)
            else:  # no version follows it, so one that was refused in part may be told in two parts
                self.absorb_apart(batch)
            self.leave(f"batch {number}", "confirmed")
        self.server.close()

    def absorb_apart(self, batch: list[bytes]) -> None:
        """A thread a report, all at the same time: one record of the log holds them."""

        def absorb(place: int) -> None:
            self.server.absorb([batch[place]])
            self.leave(f"report {batch[place].hex()}", "confirmed")

        with ThreadPoolExecutor(len(batch)) as threads:
            with held_back(self.server, len(batch)):
                calls = [threads.submit(absorb, place) for place in range(len(batch))]
            for call in calls:
                call.result()


# -- the curator of a table --------------------------------------------------------------------------


class CuratorSubject:
    """One release of one table, paid once, and one noised answer a row; its ledger has a witness."""

    name = "Curator"
    not_state, unguarded = ("release.json", "inputs.npy"), ()
    rows = 6
    TABLE: ClassVar = {
        "age": [30, 41, 52, 63, 74, 35],
        "dose": [1.0, 2.0, 3.0, 2.5, 1.5, 4.0],
        "effect": [0.1, 0.7, 0.4, 0.9, 0.2, 0.6],
    }

    def prepare(self, folder: Path) -> None:
        witnessed_ledger_in(folder).open_account(
            "people", privacy=Terms(epsilon=10, unit=unit_of(dpb.RowDP(epsilon=1, distance=1), answers=0.1))
        )

    def session(self, folder: Path, leave: Leave) -> Session:
        return _CuratorSession(self, folder, leave)

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        spent = ledger_in(folder).balance("people").spent_epsilon
        found = [f"{spent} is spent"] if spent not in (0, 3) else []
        if acts and spent != 3:
            found.append("a release left that was not paid for")
        later = finish(self, folder, acts)
        if ledger_in(folder).balance("people").spent_epsilon != 3:
            found.append("the release was not paid for once")
        return found + contradictions(later)


class _CuratorSession:
    def __init__(self, subject: CuratorSubject, folder: Path, leave: Leave) -> None:
        self.subject, self.folder, self.leave = subject, folder, leave
        self.curator = Curator(
            subject.TABLE,
            contexts=dpb.Schema(age=dpb.Range(18, 90), dose=dpb.Range(0, 5)),
            privacy=dpb.RowDP(epsilon=1.0, distance=1.0),
            objective="effect",
            answers=AnswerLaplace(epsilon=2.0, distance=0.1, low=0.0, high=1.0),
            secret=dpb.outsourced.SecretDirectory(
                folder / "secret",
                account=ledger_in(folder).account("people"),
                resume=True,
            ),
        )

    def work(self) -> None:
        release = self.curator.publish(self.folder / "release")
        self.leave("release", release.inputs)
        self.leave("written release", PublishedRows.load(self.folder / "release").inputs)
        for row in range(self.subject.rows):
            try:
                reply = self.curator.answer(row)
            except AlreadyTold:
                reply = self.curator.answer_again(row)
            self.leave(f"reply {row}", reply)


# -- a table that is learned from once ----------------------------------------------------------------


class LearnSubject:
    """`dpbandits central learn`: one charge, one draw, one folder."""

    name = "central learn"
    not_state, unguarded = (), ()
    privacy, horizon = JointDP(epsilon=2.0, delta=1e-6), 400

    def prepare(self, folder: Path) -> None:
        ledger = witnessed_ledger_in(folder)
        ledger.open_account("people", privacy=JointDP(self.privacy.epsilon, self.privacy.delta))

    def session(self, folder: Path, leave: Leave) -> Session:
        return _LearnSession(self, folder, leave)

    def log(self) -> LoggedTable:
        rng = np.random.default_rng(5)
        table = {
            "age": rng.random(self.horizon),
            "arm": np.array(["mail", "call"], dtype=object)[rng.integers(0, 2, self.horizon)],
            "bought": rng.random(self.horizon),
        }
        columns = LogColumns(contexts=["age"], action="arm", reward="bought")
        return LoggedTable.read(table, columns, [(0.0, 1.0), (0.0, 1.0)], arms=["mail", "call"])

    def publish(self, folder: Path, *, horizon: int) -> PublishedTable:
        ledger = ledger_in(folder)
        return publish_once(
            self.log(), folder / "out", self.privacy, horizon=horizon, account=ledger.account("people")
        )

    def check(self, folder: Path, acts: list[Act]) -> list[str]:
        every, found = Decimal(str(self.privacy.epsilon)), []
        spent = ledger_in(folder).balance("people").spent_epsilon
        if spent not in (0, every) or (acts and not spent):
            found.append(f"{spent} is spent, and {len(acts)} times something left")
        if acts and not (folder / "out").is_dir():
            found.append("a release left, and is not in its folder")
        later = finish(self, folder, acts)
        if ledger_in(folder).balance("people").spent_epsilon != every:
            found.append("the release was not paid for once")
        if digest(PublishedTable.load(folder / "out").release_id) != later[-1][1]:
            found.append("the folder holds another release")
        try:
            self.publish(folder, horizon=self.horizon + 1)
        except InvalidParameter:
            return found + contradictions(later)
        return [*found, "another run took the folder"]


class TableSubject(LearnSubject):
    """`central.learn` from a file that an engine reads."""

    name = "central.learn"
    not_state = ("log.csv",)

    def __init__(self, release: Literal["features", "marginals"]) -> None:
        self.release = release

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        lines = [f"{row % 60},{('mail', 'call')[row % 2]},{row % 3}" for row in range(self.horizon)]
        (folder / "log.csv").write_text("\n".join(["age,arm,bought", *lines, ""]))

    def publish(self, folder: Path, *, horizon: int) -> PublishedTable:
        return learn(
            folder / "log.csv",
            contexts=dpb.Schema(age=dpb.Range(0, 60)),
            arms=["mail", "call"],
            action="arm",
            reward="bought",
            reward_range=(0, 2),
            release=self.release,
            privacy=self.privacy,
            horizon=horizon,
            directory=folder / "out",
            account=ledger_in(folder).account("people"),
            threads=1,
        )


class _LearnSession:
    def __init__(self, subject: LearnSubject, folder: Path, leave: Leave) -> None:
        self.subject, self.folder, self.leave = subject, folder, leave

    def work(self) -> None:
        published = self.subject.publish(self.folder, horizon=self.subject.horizon)
        self.leave("files", sorted(published.to_files().items()))
        self.leave("release", published.release_id)


SUBJECTS: tuple[Subject, ...] = (
    LedgerSubject(),
    NewLedgerSubject(),
    WitnessedLedgerSubject(),
    PolicySubject(),
    LivingSubject(),
    ReadoutSubject(),
    CellSubject(),
    MarginalSubject(),
    TreeSubject(),
    LivingTreeSubject(),
    USCASubject(),
    TablesSubject(),
    LearnSubject(),
    DeviceSubject(),
    GPDeviceSubject(),
    ServerSubject(),
    CuratorSubject(),
)

EXPECTED = (DPBanditsError, OSError)
"""What a full disk may raise."""
