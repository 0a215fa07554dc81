"""`Service`: a folder with everything the service keeps, held by one process, and what is done in it.

What is in the folder, and which is written first
-------------------------------------------------
| file | holds | written |
|---|---|---|
| `service.lock` | nothing: it is held while the service runs | |
| `service.key` | the secret of all digests and ids | once |
| `service.db` | tokens, policies, decisions, logs of rounds: the `Store` | in every transaction |
| `budget.ledger` | accounts of populations, and how far each policy's state has gone | before what it pays |
| `policies/ID/policy.state` | a policy's state at its last release | before anything made of it leaves |
| `local/ID/` | a local policy's reports: a `DurableServer` | before a report is confirmed |

*A decision* is one transaction of the store: the record of its round (`rounds`) and the answer under the
caller's id (`decisions`). It is answered after the commit. Both are there after a crash or neither: if they
are, a repetition gets the stored answer; if not, nothing was answered and no round is taken.

*A reward* is one transaction, too: the record of the tell, and the decision's status.

*A release* goes beyond the store, and everything that it rests on comes before it, each durable before the
next: the rounds noted so far (the transaction is committed first), the ledger's witness of the new state, the
state. Then the rounds that the state holds are removed from the store, in the transaction of the decision
that needed the release. Whatever interrupts: noise that was drawn and is not in a state has left in no
answer, and is drawn anew; a state that is there holds its noise for ever. Rounds that are still in the store,
though the state holds them, are passed over when they are played back; see `dpbandits.service.round_log`.

*A policy's beginning* is a row with the status `beginning`, committed; then the charge, under the policy's
id; then its first state; then the row says `active`. A row that is found `beginning` at the start was
answered to nobody: if it was charged it is finished, else it is removed. One that cannot be finished stays,
with an event, until the same request is made again.

So after `kill -9` at any instruction every acknowledged decision and reward is there; the next decision is
what it would have been, as it is computed from the state, the log and public coins; every account has paid
once.

Nothing here decides about privacy: the promises, the noise, the budgets and the rules of counting are the
rooms'.
"""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dpbandits._memory import memory_limit, set_memory_limit
from dpbandits.budget import Ledger, SQLiteLedger
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import DPBanditsError, StateError
from dpbandits.policy.beside import Beside
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.service import decisions, policies, tokens
from dpbandits.service.backups import LEDGER, LOCK, MARK, MOVED, STORE, refuse_moved
from dpbandits.service.budgets import OwnLedger
from dpbandits.service.engines import Engines, Kept, is_closed
from dpbandits.service.gate import log
from dpbandits.service.keys import Keys, adoptions, check_key
from dpbandits.service.problems import Problem
from dpbandits.service.retention import erase, old_rounds
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.shared import Folding, SharedEngines, swept
from dpbandits.service.store import Reads, SQLiteStore, Store, TryAgain, Writes
from dpbandits.service.surveys import Surveys
from dpbandits.service.writer import LooksAhead, Writer
from dpbandits.state.files import locked, private_folder

__all__ = ["Service"]

_T = TypeVar("_T")

DAY = 86400.0

FOLD_SECONDS = 0.1
"""How often a worker looks for releases that are due."""


def _not_folded(error: Exception) -> None:
    log.error("a release that is due: %s", type(error).__name__)


class _Function(NamedTuple):
    """A function that a policy has published, or its JSON where it is written down."""

    policy: str
    version: int
    function: PublishedPosterior | str


class Service:
    """The folder, held; see the module. Or, where the settings name a database, one worker of many; see
    `dpbandits.service.shared`.

    Args:
        folder: made where it does not exist, with mode 0700. With a database it holds the key, which all
            workers need, and any number of them share it.
        settings: see `Settings`.

    Attributes:
        read_only: whether it is a backup that was not adopted; see `backups`.
        first_token: of a new folder, with every scope: shown here and never again. Else None.

    Raises:
        StateError: another process uses the folder, or others may write to it.
        CorruptState, IncompatibleState, ForkedState: what is in it cannot be used.
    """

    def __init__(self, folder: Path, *, settings: Settings | None = None) -> None:
        self.settings = Settings() if settings is None else settings
        set_memory_limit(max(memory_limit(), self.settings.policy_memory))  # one policy may take all of it
        folder = private_folder(folder, what="the service's folder").resolve()
        self.store: Store
        self.ledger: Ledger
        self.engines: Engines
        self._rows: RowLedger | None = None
        self._folding: Folding | None = None
        with ExitStack() as files:
            if not self.settings.database:
                files.enter_context(locked(folder / LOCK, wait=False))
                refuse_moved(folder)
                self.read_only = (folder / MARK).exists()
                self.store = SQLiteStore(folder / STORE)
                self.ledger = OwnLedger(SQLiteLedger(folder / LEDGER, witness=self.settings.file_witness()))
                policies_at = private_folder(folder / "policies", what="policies")
                most = self.settings.policy_memory
                self.engines = Engines(self.store, self.ledger, policies_at, most=most)
            else:
                self._in_database(folder)
            files.callback(self.store.close)
            self.keys = Keys(folder / "service.key", self.read(adoptions))
            self.surveys = Surveys(self.store, self.ledger, folder / "local")
            self.mismatches = decisions.Mismatches(self.settings.mismatches_per_hour)
            self._latest = 0.0
            self.first_token: str | None = None
            if not self.read_only:
                self._begin_at_last()
            self._files = files.pop_all()
        self.writer = Writer(self.store)
        self._beside = Beside()
        if self._folding is not None:
            self._folding.begin(every=FOLD_SECONDS)

    def __repr__(self) -> str:
        return "Service()"

    def _in_database(self, folder: Path) -> None:
        from dpbandits.service.postgres import PostgresStore

        if (folder / STORE).exists() and not (folder / MOVED).exists():
            raise StateError("this folder is a service's own: move it with `dpbandits service copy`")
        under_way = folder / "under-way"
        swept(under_way)
        self.read_only = False
        self.store = PostgresStore(self.settings.database)
        self.ledger = self._rows = RowLedger(self.store, witness=self.settings.file_witness())
        most = self.settings.policy_memory
        self.engines = SharedEngines(self.store, self._rows, under_way, most=most)
        self._folding = Folding(self.store, self.ledger, under_way, now=self.now, failed=_not_folded)

    def _begin_at_last(self) -> None:
        """Tokens and keys of a new store; where another worker does the same, once."""
        for attempt in range(10):
            try:
                if self._rows is not None:
                    self._rows.begin()
                with self.store.writing() as writes:
                    self._begin(writes)
            except TryAgain:
                time.sleep(0.02 * (attempt + 1))
            else:
                return
        raise StateError("another worker has been beginning for too long: start again")

    def _begin(self, writes: Writes) -> None:
        writes.locked("SELECT value FROM facts WHERE name = 'version'")  # one worker at a time
        check_key(writes, self.keys)
        last = writes.one("SELECT asked_at FROM decisions ORDER BY number DESC LIMIT 1")
        self._latest = 0.0 if last is None else float(last[0])
        policies.finish_beginnings(writes, self.engines, self.ledger, self.now())
        if writes.one("SELECT id FROM tokens") is None:
            _, text = tokens.make_token(
                writes, self.keys, label="the first", scopes=tokens.SCOPES, now=self.now()
            )
            writes.when(kept=lambda: setattr(self, "first_token", text))

    def now(self) -> float:
        """Seconds since 1970, which never go back, whatever the machine's clock does."""
        self._latest = max(self._latest, time.time())
        return self._latest

    def close(self) -> None:
        """Finish what waits, and leave the folder to another process."""
        if self._folding is not None:
            self._folding.close()
        self._beside.begin(lambda: None).result()  # after what is under way
        self.writer.close()
        self.engines.close()
        self.surveys.close()
        self._files.close()

    def write(
        self, call: Callable[[Writes], _T], *, about: str = "", ahead: LooksAhead | None = None
    ) -> Future[_T]:
        """Do something in the writer's transaction; `about` and `ahead`: see `Writer.submit`.

        Raises:
            Problem: the folder is a backup that was not adopted.
        """
        self.refuse_in_a_copy()
        return self.writer.submit(call, about=about, ahead=ahead)

    def refuse_in_a_copy(self) -> None:
        """Problem in a backup that was not adopted."""
        if self.read_only:
            raise Problem("read-only", "This is a backup that was not adopted: it only reads.")

    def read(self, call: Callable[[Reads], _T]) -> _T:
        """Look at something."""
        with self.store.reading() as reads:
            return call(reads)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, policy: str, token: str, body: dict[str, Any]) -> Future[dict[str, Any]]:
        """See `decisions.decide`."""
        return self.write(
            lambda writes: decisions.decide(
                writes,
                self.engines,
                self.keys,
                self.mismatches,
                policy=policy,
                token=token,
                body=body,
                now=self.now(),
            ),
            about=policy,
            ahead=lambda writes: decisions.ahead_of_decision(
                writes, self.engines, self.keys, policy=policy, token=token, body=body
            ),
        )

    def reward(self, policy: str, decision_id: str, value: float) -> Future[decisions.Outcome]:
        """See `decisions.reward`."""
        return self.write(
            lambda writes: decisions.reward(
                writes,
                self.engines,
                self.keys,
                policy=policy,
                decision_id=decision_id,
                value=value,
                now=self.now(),
            ),
            about=f"{policy} told",
            ahead=lambda writes: decisions.ahead_of_reward(
                writes, self.engines, self.keys, policy=policy, decision_id=decision_id
            ),
        )

    def activate(self, policy: str, decision_id: str) -> Future[str]:
        """See `decisions.activate`."""
        return self.write(
            lambda writes: decisions.activate(
                writes, self.keys, policy=policy, decision_id=decision_id, now=self.now()
            )
        )

    def abandon(self, policy: str, decision_id: str) -> Future[str]:
        """See `decisions.abandon`."""
        return self.write(
            lambda writes: decisions.abandon(
                writes, self.engines, self.keys, policy=policy, decision_id=decision_id
            )
        )

    # -- policies ----------------------------------------------------------------------------------

    def begin_policy(self, asked: dict[str, Any]) -> Kept:
        """See `policies.begin`; what takes long is done before the writer's turn."""
        new = policies.built(self.ledger, asked)
        return self.write(
            lambda writes: policies.begin(writes, self.engines, self.ledger, asked, new, self.now())
        ).result()

    def published(self, name: str) -> tuple[str, str]:
        """Return a policy's published function as JSON, and its ETag; waits until it is written down."""
        kept = self.read(lambda reads: policies.kept_policy(reads, name))
        if self.only_reads(kept.id):
            version, text = self._written_down(kept.id)
        else:
            found = self.write(partial(self._function, kept.id)).result()
            version, text = found.version, self._write_down(found)
        return text, f'"{kept.id[:8]}-{version}"'

    def only_reads(self, policy: str) -> bool:
        """Return whether nothing may be made of a policy's state here, as its original may have made it; or
        others make it, and write it down.
        """
        return self.read_only or self.store.shared or self.read(partial(is_closed, policy=policy))

    def _written_down(self, policy: str) -> tuple[int, str]:
        """The latest function that was written down, where none can be made."""
        last = self.read(
            lambda reads: reads.one(
                "SELECT MAX(version) FROM releases WHERE policy = ? AND published IS NOT NULL", policy
            )
        )
        if last is None or last[0] is None:
            raise Problem("read-only", "Nothing of this policy was written down before the backup.")
        return int(last[0]), self.written_down(policy, [int(last[0])])[0]

    def written_down(self, policy: str, versions: Sequence[int]) -> list[str]:
        """Functions that a policy, by id, has published, as JSON. Where there is a witness, it knows of them
        before they are shown to anybody.

        Raises:
            Problem: one of them is not there any more.
            StateError: the witness does not answer, or knows another database.
        """
        marks = ", ".join("?" * len(versions))
        found: dict[int, str] = dict(
            self.read(
                lambda reads: reads.rows(
                    f"SELECT version, published FROM releases WHERE version IN ({marks}) "  # noqa: S608 - marks
                    "AND policy = ? AND published IS NOT NULL",
                    *versions,
                    policy,
                )
            )
        )
        if self._rows is not None:
            self._rows.settle()
        if len(found) < len({*versions}):
            raise Problem("not-found", "This release is not there any more.")
        return [found[version] for version in versions]

    def _function(self, policy: str, writes: Writes) -> _Function:
        """Return a policy's published function; its JSON, which takes long, is made outside of the writer's
        turn.
        """
        engine = self.engines.use(writes, policy)
        known = writes.one(
            "SELECT version, published FROM releases WHERE policy = ? ORDER BY version DESC LIMIT 1", policy
        )
        if known is not None and known[1] is not None and int(known[0]) == engine.version:
            return _Function(policy, engine.version, str(known[1]))
        function = engine.policy.publish(prior=True)  # which releases what is due
        self.engines.saw(writes, policy, engine, self.now())
        return _Function(policy, engine.version, function)

    def _write_down(self, found: _Function) -> str:
        """Keep a function's JSON, and give it."""
        if isinstance(found.function, str):
            return found.function
        text = found.function.to_json()

        def keeping(writes: Writes) -> None:
            writes.run(
                "UPDATE releases SET published = ? WHERE policy = ? AND version = ?",
                text,
                found.policy,
                found.version,
            )

        self.write(keeping).result()
        return text

    def guarantee(self, name: str) -> dict[str, Any]:
        """A policy's statement: in prose, and as JSON."""
        kept = self.read(lambda reads: policies.kept_policy(reads, name))
        if self.only_reads(kept.id):
            stated = json.dumps(json.loads(self._written_down(kept.id)[1])["guarantee"])
            return {"statement": Guarantee.from_json(stated).explain(), "guarantee": stated}
        return self.write(partial(self._guarantee, kept.id)).result()

    def _guarantee(self, policy: str, writes: Writes) -> dict[str, Any]:
        found = self.engines.use(writes, policy).policy.guarantee
        return {"statement": found.explain(), "guarantee": found.to_json()}

    # -- beside the answers ------------------------------------------------------------------------

    def tick(self) -> Future[None]:
        """Do the work beside the answers: erasure, waits that are over, and functions that were released.

        A policy that cannot be used stops nothing but its own: the first error is raised when all is done.

        Raises:
            Problem: the folder is a backup that was not adopted.
        """
        self.refuse_in_a_copy()
        return self._beside.begin(self._tick)

    def _tick(self) -> None:
        failed, functions = self.write(self._swept).result()
        for one in functions:
            try:
                self._write_down(one)
            except DPBanditsError as error:
                self.engines.unpublished.add(one.policy)
                failed.append(error)
        if failed:
            raise failed[0]

    def _swept(self, writes: Writes) -> tuple[list[Exception], list[_Function]]:
        """Errors of what was done in the writer's turn, and functions that are to be written down."""
        now, sweep = self.now(), partial(decisions.sweep, writes, self.engines)
        keep = self.settings.retention_days * DAY
        old_ones = partial(erase, writes, before=now - keep, now=now, rounds_at=now + keep / 100)
        failed = [writes.apart(old_ones)]
        if not self.store.shared:  # there whoever folds erases
            old = old_rounds(writes, now=now)
            failed += [writes.apart(partial(self.engines.erase, writes, one, now)) for one in old]
        late = decisions.overdue(writes, now=now)
        failed += [writes.apart(partial(sweep, policy=one, now=now)) for one in late]
        functions: list[_Function] = []
        unpublished = list(self.engines.unpublished)
        failed += [writes.apart(partial(self._publish, functions, one, writes)) for one in unpublished]
        return [error for error in failed if error is not None], functions

    def _publish(self, functions: list[_Function], policy: str, writes: Writes) -> None:
        functions.append(self._function(policy, writes))
        self.engines.unpublished.discard(policy)
