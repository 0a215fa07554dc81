"""`Service`: the state of the service, opened by one or several processes, and its operations.

All state but the key is in the tables of a `Store`: the SQLite file `service.db` in the service's folder, or
a PostgreSQL database that several processes share. The folder also has `service.key`, the secret of all
digests and ids; `service.lock`, which the only process with `service.db` locks; and `under-way/`, with a
policy's state while a block is folded.

| operation | parts of its transaction |
|---|---|
| a decision | its slot, one of the user's rounds, the answer under the caller's id |
| a reward | the status of the round and of the decision |
| a release | the new position in the ledger, the state, the function, removing or marking its rounds |
| creating a policy | its row, the charge, its first state |
| creating an exchange or a local policy | its row and the charge |

Results are visible after the commit. After a crash a transaction is there as a whole or not at all. If it is
there, an idempotent request gets the stored answer; if not, nothing was answered and no round is taken. Noise
that is in no committed state was in no answer either, and is drawn again. A committed state keeps its noise
for ever; see `dpbandits.service.folding`. A crash does not change the next decision, which depends on
releases and public coins only.

Privacy: guarantees, noise and budgets are those of the other packages; nothing is decided here.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpbandits._memory import memory_limit, set_memory_limit
from dpbandits.errors import StateError
from dpbandits.policy.beside import Beside
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.service import decisions, policies, tokens
from dpbandits.service.backups import name_instance, opened_store, why_copy
from dpbandits.service.clock import Clock
from dpbandits.service.engines import Engines, Kept, ServedBandit, configured
from dpbandits.service.folding import Folding
from dpbandits.service.keys import Keys, adoptions, canonical, check_key
from dpbandits.service.logs import log
from dpbandits.service.problems import Problem
from dpbandits.service.retention import erase
from dpbandits.service.round_log import swept
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads, TryAgain, Writes
from dpbandits.service.surveys import Surveys
from dpbandits.service.writer import LooksAhead, Pass, Writer
from dpbandits.state.files import private_folder

__all__ = ["Service"]

_T = TypeVar("_T")

DAY = 86400.0

FOLD_SECONDS = 0.1
"""Number of seconds between two searches of a worker for due releases."""


def _not_folded(error: Exception) -> None:
    log.error("a release that is due failed: %s", type(error).__name__)


class Service:
    """An opened service: its files, transactions and operations; see the module.

    Args:
        folder: folder of the service, created with mode 0700 if it does not exist. With a database it has
            only the key, and all workers share it.
        settings: settings; default `Settings()`.

    Attributes:
        folder: folder of the service.
        read_only: True for a copy that was not adopted; see `backups`.
        why_copy: reason why the store is a copy; empty otherwise.
        first_token: text of the first token of a new store, with all scopes, which is not shown again. None
            for an existing store.

    Raises:
        StateError: another process uses the folder, or other users of the machine may write to it.
        CorruptState, IncompatibleState, ForkedState: the store cannot be used.
    """

    def __init__(self, folder: Path, *, settings: Settings | None = None) -> None:
        self.settings = Settings() if settings is None else settings
        set_memory_limit(max(memory_limit(), self.settings.policy_memory))  # one policy may take all of it
        folder = private_folder(folder, what="the service's folder").resolve()
        with ExitStack() as files:
            self.store = files.enter_context(opened_store(folder, self.settings))
            self.why_copy = why_copy(folder, self.store, self.settings)
            self.read_only = bool(self.why_copy)
            self.clock = Clock(self.store)
            self.clock.begin()
            self.ledger = RowLedger(self.store, witness=self.settings.file_witness())
            self.folder, under_way = folder, folder / "under-way"
            swept(under_way)
            most = self.settings.policy_memory
            self.engines = Engines(self.store, self.ledger, under_way, most=most)
            how: dict[str, Any] = {"clock": self.clock, "made": self.engines.take, "failed": _not_folded}
            self._folding = Folding(self.store, self.ledger, under_way, **how)
            self.engines.is_due = self._folding.wake
            self.keys = Keys(folder / "service.key", self.read(adoptions))
            self.surveys = Surveys(self.store, self.ledger)
            most = self.settings.mismatches_per_hour
            self.decisions = decisions.Decisions(self.engines, self.keys, self.now, mismatches=most)
            self.first_token: str | None = None
            if self.read_only:
                self.ledger.check()
            else:
                self._begin_at_last()
                self.clock.look()
            self._files = files.pop_all()
        self.writer = Writer(self.store)
        self._beside = Beside()
        if not self.read_only:
            self._folding.begin(every=FOLD_SECONDS)

    def __repr__(self) -> str:
        return "Service()"

    def _begin_at_last(self) -> None:
        """Initialise a new store. If several workers try at the same time, only one of them succeeds."""
        for attempt in range(10):
            try:
                self.ledger.begin()
                with self.store.writing() as writes:
                    self._begin(writes)
            except TryAgain:
                time.sleep(0.02 * (attempt + 1))
            else:
                return
        raise StateError("another worker has been starting for too long: start this one again")

    def _begin(self, writes: Writes) -> None:
        writes.locked("SELECT value FROM facts WHERE name = 'version'")  # one worker at a time
        check_key(writes, self.keys)
        name_instance(writes, self.settings)
        if writes.one("SELECT id FROM tokens") is None:
            _, text = tokens.make_token(
                writes, self.keys, label="the first", scopes=tokens.SCOPES, now=self.now()
            )
            writes.when(kept=lambda: setattr(self, "first_token", text))

    def now(self) -> float:
        """Return the time in seconds since 1970; see `clock.Clock`."""
        return self.clock.now()

    def close(self) -> None:
        """Finish the calls that wait or run, and close the store."""
        self._folding.close()
        self._beside.begin(lambda: None).result()  # after the calls under way
        self.writer.close()
        self._files.close()

    def write(
        self, call: Callable[[Writes], _T], *, about: str = "", ahead: LooksAhead | None = None, **how: Any
    ) -> Future[_T]:
        """Run a call in the writer's transaction; see `Writer.submit`.

        Raises:
            Problem: the service is a copy that was not adopted.
        """
        self.refuse_in_a_copy()
        return self.writer.submit(call, about=about, ahead=ahead, **how)

    def refuse_in_a_copy(self) -> None:
        """Raise Problem if the store is a copy that was not adopted."""
        if self.read_only:
            raise Problem("read-only", "This is a copy that was not adopted, so it is read-only.")

    def read(self, call: Callable[[Reads], _T]) -> _T:
        """Run a call in a read transaction."""
        with self.store.reading() as reads:
            return call(reads)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, policy: str, token: str, body: dict[str, Any]) -> Future[str]:
        """Run `Decisions.decide` in the writer's transaction."""
        together = partial(self.decisions.decide_together, policy=policy, token=token)
        return self.write(
            partial(self.decisions.decide, policy=policy, token=token, body=body),
            about=policy,
            ahead=partial(self.decisions.ahead_of_decision, policy=policy, token=token, body=body),
            share=Pass(("decide", policy, token), body, together),
            by=token,
        )

    def decide_together(
        self, policy: str, token: str, bodies: Sequence[dict[str, Any]]
    ) -> Future[list[str | Problem | None]]:
        """Run `Decisions.decide_together` in the writer's transaction."""
        together = partial(self.decisions.decide_together, bodies=bodies, policy=policy, token=token)
        ahead = partial(self.decisions.ahead_of_policy, policy=policy)
        return self.write(together, about=policy, ahead=ahead, by=token, count=len(bodies))

    def reward(
        self,
        policy: str,
        decision_id: str,
        value: float,
        metrics: Mapping[str, float] | None = None,
        *,
        by: str = "",
    ) -> Future[decisions.Outcome]:
        """Run `Decisions.reward` in the writer's transaction."""
        together = partial(self.decisions.reward_together, policy=policy)
        return self.write(
            partial(
                self.decisions.reward, policy=policy, decision_id=decision_id, value=value, metrics=metrics
            ),
            about=f"{policy} told",
            ahead=partial(self.decisions.ahead_of_reward, policy=policy, decision_id=decision_id),
            share=Pass(("reward", policy), (decision_id, value, metrics or {}), together),
            by=by,
        )

    def reward_together(
        self, policy: str, told: Sequence[decisions.Told], *, by: str = ""
    ) -> Future[list[decisions.Outcome | None]]:
        """Run `Decisions.reward_together` in the writer's transaction."""
        together = partial(self.decisions.reward_together, told=told, policy=policy)
        nothing: LooksAhead = lambda _: iter(())  # noqa: E731 - so that it runs with the calls that look ahead
        return self.write(together, about=f"{policy} told", ahead=nothing, by=by, count=len(told))

    def activate(self, policy: str, decision_id: str, *, by: str = "") -> Future[str]:
        """Run `Decisions.activate` in the writer's transaction."""
        return self.write(partial(self.decisions.activate, policy=policy, decision_id=decision_id), by=by)

    def abandon(self, policy: str, decision_id: str, *, by: str = "") -> Future[str]:
        """Run `Decisions.abandon` in the writer's transaction."""
        return self.write(partial(self.decisions.abandon, policy=policy, decision_id=decision_id), by=by)

    # -- policies ----------------------------------------------------------------------------------

    def begin_policy(self, asked: dict[str, Any], by: str) -> Kept:
        """Create a policy; see `policies.begin`. Its slow steps run outside of the writer's transaction."""
        built = [policies.built(self.ledger, asked)]
        configured(canonical(built[0].to_config()))  # fills a cache, so that the writer can do it quickly

        def new() -> ServedBandit:
            return built.pop() if built else policies.built(self.ledger, asked)

        return self.write(
            lambda writes: policies.begin(writes, self.engines, self.ledger, asked, new, self.now(), by)
        ).result()

    def published(self, name: str) -> tuple[str, str]:
        """Return a policy's latest published function as JSON, and its ETag."""
        with self.store.reading() as reads:
            kept = policies.kept_policy(reads, name)
            last = reads.one("SELECT MAX(version) FROM releases WHERE policy = ?", kept.id)
        version = int((last[0] if last else None) or 0)
        return self.written_down(kept.id, [version])[0], f'"{kept.id[:8]}-{version}"'

    def written_down(self, policy: str, versions: Sequence[int]) -> list[str]:
        """Return published functions of a policy as JSON, given the policy's id and the functions' versions.

        The witness is told of the releases before.

        Raises:
            Problem: one of the versions does not exist any more.
            StateError: the witness does not answer, or knows another database.
        """
        query = "SELECT version, published FROM releases WHERE policy = ? AND version IN "
        found: dict[int, str] = dict(self.read(lambda reads: reads.among(query, versions, policy)))
        if not self.read_only:
            self.ledger.settle()
        if len(found) < len({*versions}):
            raise Problem("not-found", "This release is not there any more.")
        return [found[version] for version in versions]

    def readout(self, name: str) -> dict[str, Any]:
        """Return the released looks of a policy's readout; see `policies.readout_of`.

        The witness is told of the looks before.
        """
        found = self.read(lambda reads: policies.readout_of(reads, policies.kept_policy(reads, name)))
        if not self.read_only:
            self.ledger.settle()
        return found

    def guarantee(self, name: str) -> dict[str, Any]:
        """Return a policy's guarantee as text (`statement`) and as JSON (`guarantee`)."""
        stated = json.dumps(json.loads(self.published(name)[0])["guarantee"])
        return {"statement": Guarantee.from_json(stated).explain(), "guarantee": stated}

    # -- beside the answers ------------------------------------------------------------------------

    def tick(self) -> Future[None]:
        """Start the periodic work, and return a future of its end.

        It compares the clock, erases old data, and settles decisions whose wait for a reward is over. A
        failure of one policy does not stop the others: the first error is raised at the end.

        Raises:
            Problem: the service is a copy that was not adopted.
        """
        self.refuse_in_a_copy()
        return self._beside.begin(self._tick)

    def _tick(self) -> None:
        self.clock.look()
        over = self.clock.over()
        if over > -math.inf and (failed := self.write(partial(self._swept, now=over)).result()):
            raise failed[0]

    def _swept(self, writes: Writes, *, now: float) -> list[Exception]:
        """Erase old data and settle overdue decisions in the writer's transaction.

        Return the errors of these parts.
        """
        sweep = partial(self.decisions.sweep, writes)
        keep = self.settings.retention_days * DAY
        old_ones = partial(erase, writes, before=now - keep, now=now, rounds_at=now + keep / 100)
        failed = [writes.apart(old_ones)]
        late = decisions.overdue(writes, now=now)
        failed += [writes.apart(partial(sweep, policy=one, now=now)) for one in late]
        return [error for error in failed if error is not None]
