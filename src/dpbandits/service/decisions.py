"""Decisions: who asked, what was answered, and what became of it.

| status | how it came there | a reward is then |
|---|---|---|
| `deferred` | asked with `deferred`: answered, and not yet shown to anybody | `counted`, and so shown |
| `pending` | shown; a reward is awaited | `counted` |
| `counted` | its reward came | `duplicate` |
| `defaulted` | the wait was over, and the default reward was counted | `duplicate` |
| `late` | a reward came after its block was released, and counts nothing | `duplicate` |
| `abandoned` | somebody said that it was not used | `duplicate` |
| `expired` | it was deferred, and nobody activated it before the wait was over | `late` |
| `lost` | it was shown, the wait was over, and there is no default reward | `late` |
| `refused` | what was brought could not be answered: the round is taken, and counts nothing | `late` |
| `fallback` | no round was left for this user, or at all: answered without one | `late` |

Only `counted` and `defaulted` contribute a reward. Whatever happens, the round stays taken: it is the ask
that counts, and never what follows.

An answer without a round has a `reason`, in fixed words; the rules broken by a context are its `faults`:

| reason | what it rests on |
|---|---|
| `context` | the context that was sent, and the policy's columns, which are public |
| `available` | the list that was sent, and the arms, which are public |
| `user` | the user id that was sent: it is missing, or none |
| `user-has-had-all` | how often this user was asked for; a policy without a fallback says it with a 409 |
| `no-rounds-left` | the number of rounds that were asked, which is public |

So a reason tells its caller nothing that the request and public numbers do not hold, and nothing of anybody
else. It is part of the stored answer, and the same in every repetition. It is neither logged nor counted: how
many contexts could not be read is a number of people. `check` finds the same faults and keeps nothing.

All methods of `Decisions` but `status` run in the writer's transaction. A repeated id is judged before
anything is looked at, once no other worker can answer for the policy until the commit. The same body gives
the stored answer, and another one is a conflict. A token that tries others too often gets no answer to any
repetition for a while, so that replaying guesses of a context confirms a few of them an hour at most.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from dpbandits.domains.arms import Label
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    DPBanditsError,
    HorizonExceeded,
    InvalidData,
    StateError,
)
from dpbandits.policy.decision import Receipt
from dpbandits.policy.rounds import round_taken
from dpbandits.service.engines import Engine, Engines, Kept
from dpbandits.service.keys import Keys, canonical
from dpbandits.service.policies import kept_policy
from dpbandits.service.problems import Problem, problem_of
from dpbandits.service.round_log import slot_of
from dpbandits.service.store import NUMBER, Ahead, Reads, Row, TryAgain, Writes, note_event
from dpbandits.tables import Schema
from dpbandits.tables.checking import Finding
from dpbandits.tables.menu import Menu

__all__ = ["Decisions", "Outcome", "check", "overdue"]

Outcome = Literal["counted", "late", "duplicate"]

_HOUR = 3600.0

_SETTLED = ("counted", "defaulted", "late", "abandoned")
_GONE = ("expired", "lost", "refused", "fallback")
_OPEN = ("deferred", "pending")


_COLUMNS = "policy, token, asked_as, body, ask, status, answer, asked_at, due_at"


def _finished(
    engine: Engine, kept: Kept, answer: dict[str, Any], status: str, now: float
) -> tuple[str, float | None]:
    """An answer as it is kept, and until when its reward is awaited."""
    if "problem" not in answer:
        answer["release"] = engine.version  # by now: the ask may have made one, and decided by it
    wait = kept.settings.get("wait_seconds")
    due = now + wait if wait is not None and status in ("pending", "deferred") else None
    if due is not None:
        answer["expires_at"] = due
    return canonical(answer), due


_PLAIN = frozenset({"id", "user", "context", "deferred"})
"""Members of a request that shares a pass with others."""


def _unreadable(
    engine: Engine, kept: Kept, body: dict[str, Any], slot: int
) -> tuple[dict[str, Any], str | None, str]:
    """Do what `_answer` does, for a context that was refused; its round is taken."""
    menu = engine.policy.menu
    try:
        with round_taken():
            if menu is not None:
                menu.refuse(body["context"], None)
    except InvalidData as error:
        ask, why = f"{kept.id[:8]}-{slot}-refused", _why(menu, body["context"])
        return _without(kept, body, problem_of(error), "refused", ask=ask, why=why)
    raise StateError("a context was refused that can be read")


_KNOWN = (
    "SELECT p.id, p.status, p.revision, d.number, d.body, d.answer FROM policies p "
    "LEFT JOIN decisions d ON d.policy = p.id AND d.token = ? AND d.asked_as = ? WHERE p.name = ?"
)


def _check_shape(kept: Kept, body: dict[str, Any]) -> None:
    """Check what every request for this policy must have, without its contents: nothing is taken."""
    people, shadow = "arms" in kept.asked, kept.settings["mode"] == "shadow"
    if people and body.get("candidates") is not None:
        raise Problem("invalid", "The policy has arms: send a context, and no candidates.")
    if not people and (body.get("context") is not None or body.get("available") is not None):
        raise Problem(
            "invalid", "The policy chooses among candidates: send no context, and nothing available."
        )
    if shadow and not people:
        raise Problem("conflict", "A policy of candidates has no shadow mode.")
    if shadow != (body.get("arm") is not None):
        needed = "send the arm that was chosen" if shadow else "leave arm out: the policy chooses"
        raise Problem("invalid", f"The policy's mode is {kept.settings['mode']}: {needed}.")
    if shadow and body.get("available") is not None:
        raise Problem("invalid", "The policy's mode is shadow: leave available out.")


def _answer(engine: Engine, kept: Kept, body: dict[str, Any]) -> tuple[dict[str, Any], str | None, str]:
    """Return the answer, the policy's own id of the decision, and the decision's status."""
    policy, before = engine.policy, engine.book.entered
    shadow = kept.settings["mode"] == "shadow"
    brought: Any = body.get("context")
    if policy.menu is None:
        brought = None if body.get("candidates") is None else _matrix(body["candidates"])
    elif brought is None:
        brought = {}  # unreadable, and refused as any other: the round is taken
    available = [body["arm"]] if shadow else body.get("available")
    user = body.get("user")
    try:
        if policy.menu is None and brought is None:
            decision = policy.ask(user=user)
        else:
            decision = policy.ask(brought, user, available=available)
    except (HorizonExceeded, ContributionExceeded) as error:
        problem = problem_of(error)
        return _without(kept, body, problem, "fallback", ask=None, why={"reason": problem.slug})
    except InvalidData as error:
        ask = None
        if engine.book.entered > before:  # it has its slot, as any other round, for whatever goes by slots
            ask = f"{kept.id[:8]}-{policy.rounds_asked - 1}-refused"
        why = {"reason": "user"} if ask is None else _why(policy.menu, brought)
        return _without(kept, body, problem_of(error), "refused", ask=ask, why=why)
    answer: dict[str, Any] = {"fallback": False, "propensity": None if shadow else decision.propensity}
    if policy.menu is None:
        answer |= {"index": decision.index, "action": decision.action.tolist()}
    else:
        answer["arm"] = decision.arm
    if shadow:
        answer["would_choose"] = policy.recommend(brought)
    return answer, decision.id, "deferred" if body.get("deferred") else "pending"


def _matrix(candidates: Any) -> Any:
    """Candidates as an array (n, d), or as they came: then the policy says what is wrong with them."""
    try:
        return np.array(candidates, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full((1, 1), np.nan)


def _without(
    kept: Kept, body: dict[str, Any], problem: Problem, status: str, *, ask: str | None, why: dict[str, Any]
) -> tuple[dict[str, Any], str | None, str]:
    """The fallback where it may be given; else the refusal, which is recorded where a round was taken."""
    arm: Label | None = kept.settings.get("fallback")
    if arm is not None and arm in (body.get("available") or [arm]):
        return {"fallback": True, "propensity": None, "arm": arm, **why}, ask, status
    if ask is None:
        raise problem
    return {"problem": problem.slug, "detail": problem.detail, **why}, ask, status


def _why(menu: Menu | None, brought: Any) -> dict[str, Any]:
    """Return the reason why what was brought could not be answered; see the module."""
    if menu is None:
        return {"reason": "candidates"}
    faults = _told([one for one in menu.findings([brought])[0] if one.refused])
    return {"reason": "context", "faults": faults} if faults else {"reason": "available"}


def _told(findings: list[Finding]) -> list[dict[str, str]]:
    return [{"column": one.column, "rule": one.rule} for one in findings]


def check(reads: Reads, *, policy: str, contexts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return of each context whether the policy can read it, and what breaks which rule; nothing is kept.

    Raises:
        Problem: there is no such policy, or it chooses among candidates.
    """
    asked = kept_policy(reads, policy).asked
    if "arms" not in asked:
        raise Problem("invalid", "The policy chooses among candidates: it has no columns to check.")
    columns = Schema.from_config({"type": "Schema", "columns": asked.get("contexts") or []})
    found, known = Menu(contexts=columns, arms=asked["arms"]).findings(contexts), set(columns.names)
    return [
        {
            "fits": not any(one.refused for one in own),
            "faults": _told([one for one in own if one.refused]),
            "replaced": _told([one for one in own if not one.refused]),
            "ignored": len(context.keys() - known),
        }
        for own, context in zip(found, contexts, strict=True)
    ]


def _answered(decision_id: str, stored: str) -> str:
    """An answer as JSON, from the one that is kept: an object with a member at least."""
    if '"problem":' in stored and "problem" in (answer := json.loads(stored)):
        slug, detail = answer.pop("problem"), answer.pop("detail")
        raise Problem(slug, detail, more={"id": decision_id, **answer})
    return f'{{"id":"{decision_id}",{stored[1:]}'


# -- what becomes of it -------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A decision as it is kept."""

    number: int
    policy: str
    ask: str | None
    status: str


_FOUND = (
    "SELECT number, policy, ask, status FROM decisions "
    "WHERE policy = (SELECT id FROM policies WHERE name = ?) AND number = ?"
)
_FOUND_MANY = (  # with the policy in the condition SQLite would look through all decisions of the policy
    "SELECT number, policy, ask, status, (SELECT id FROM policies WHERE name = ?) FROM decisions "
    "WHERE number IN "
)
_BECAME = (
    "UPDATE decisions SET status = told.column2, due_at = NULL, "
    "reward = CASE WHEN answer IS NULL THEN NULL ELSE CAST(told.column3 AS DOUBLE PRECISION) END "
    "FROM ({rows}) AS told WHERE number = told.column1"
)


def _becomes(
    writes: Writes, row: _Row, status: str, told: float | None = None, due: float | None = None
) -> None:
    kept = "CASE WHEN answer IS NULL THEN NULL ELSE CAST(? AS DOUBLE PRECISION) END"  # erased stays erased
    change = f"UPDATE decisions SET status = ?, due_at = ?, reward = {kept} WHERE number = ?"  # noqa: S608
    writes.later(change, status, due, told, row.number)


def overdue(reads: Reads, *, now: float) -> list[str]:
    """Ids of the policies that have decisions whose wait is over."""
    due = "SELECT 1 FROM decisions WHERE policy = policies.id AND due_at <= ?"
    found = reads.rows(f"SELECT id FROM policies WHERE EXISTS ({due})", now)  # noqa: S608 - SQL of ours
    return [str(row[0]) for row in found]


FLAG_ID, OTHER_CONTEXT = "flag ", "other-context"
"""Beginning of the ids of flags, and the event of a flag that was evaluated with another context."""

FLAGS_A_TOKEN = 100
"""A token may have so many times the mismatches of one flag."""


class Decisions:
    """Operations on decisions; see the module.

    Args:
        engines, keys: the service's.
        now: its time.
        mismatches: how often in an hour a token may send an id again with another body. They are events of
            the store, which a new start and other processes see as well.
    """

    def __init__(self, engines: Engines, keys: Keys, now: Callable[[], float], *, mismatches: int) -> None:
        self._engines, self._keys, self._now, self._most = engines, keys, now, mismatches

    def decide(self, writes: Writes, *, policy: str, token: str, body: dict[str, Any]) -> str:
        """Answer one request for a decision, as JSON, or repeat what was answered.

        `token` is the id of the token, and `body["id"]` the caller's id among those of this token.

        Raises:
            Problem: it was refused; what it took, if anything, is recorded.
        """
        now = self._now()
        kept, asked_as, earlier = self._known(writes, policy, token, body["id"])
        if earlier is None and self._engines.opened(kept.id) is None and kept.status == "active":
            self._engines.use(writes, kept.id).book.hold()  # another worker may be answering the same request
            kept, asked_as, earlier = self._known(writes, policy, token, body["id"])
        digest = self._keys.digest("body", canonical(body))
        if earlier is not None:
            number, stored_body, stored = earlier
            self._refuse_guesses(writes, token, body["id"], now)
            if stored is None:
                raise Problem(
                    "erased", "The decision was erased after the retention time; its id stays used."
                )
            if bytes(stored_body) != digest:
                told = "an id was used again for another request"
                for what, subject, _ in self._bounds(token, body["id"]):
                    note_event(writes, now, what, subject, told, by=token)
                raise Problem(
                    "other-body", "This id was used for another request: use a new one for another."
                )
            return _answered(self._keys.decision_id(int(number)), stored)
        if kept.status != "active":
            raise Problem("conflict", f"The policy is {kept.status}: it decides for nobody now.")
        _check_shape(kept, body)
        engine = self._engines.use(writes, kept.id)
        answer, ask, status = _answer(engine, kept, body)
        text, due = _finished(engine, kept, answer, status, now)
        row = kept.id, token, asked_as, digest, ask, status, text, now, due
        (new,) = writes.enter_many("decisions", _COLUMNS, [row])
        return _answered(self._keys.decision_id(new), text)

    def decide_together(
        self, writes: Writes, bodies: Sequence[dict[str, Any]], *, policy: str, token: str
    ) -> list[str | Problem | None]:
        """Answer in one pass those of several requests that bring a context alone, as `decide` answers each.

        None stands for each that `decide` has to answer: those that get no round, as they are repeated or
        their users have had all; and the first one that brings more than a context, comes after another one
        of its user, or is decided by another release, with all that follow it. So rounds are taken in the
        order of the requests: what somebody brings moves nobody else to another round.
        """
        found: list[str | Problem | None] = [None] * len(bodies)
        now, kept = self._now(), self._read_last(writes, policy)
        if kept.status != "active" or "arms" not in kept.asked or kept.settings["mode"] != "live":
            return found
        engine = self._engines.use(writes, kept.id)
        engine.book.hold()  # first: the policy may be paused while another worker is waited for
        now_is = writes.one("SELECT id, status, revision FROM policies WHERE name = ?", policy)
        if now_is != (kept.id, kept.status, kept.revision):
            self._engines.not_so(policy)
            return found
        asked_as: dict[bytes, int] = {}  # digest of the caller's id -> place of the first that has it
        for place, body in enumerate(bodies):
            if not (body.keys() <= _PLAIN and "context" in body):
                break
            asked_as.setdefault(self._keys.digest("asked as", kept.id, token, body["id"]), place)
        query = "SELECT asked_as FROM decisions WHERE policy = ? AND token = ? AND asked_as IN "
        for row in writes.among(query, list(asked_as), kept.id, token):
            del asked_as[bytes(row[0])]
        admitted = engine.book.admissible([bodies[place].get("user") for place in asked_as.values()])
        chosen: list[tuple[bytes, int]] = []
        users: list[bytes] = []
        room = engine.room
        for one, user in zip(asked_as.items(), admitted, strict=True):
            if user is None or len(chosen) == room:
                break
            if user is not False:
                chosen.append(one)
                users.append(user)
        if not chosen:
            return found
        named = users if engine.book.user_ids else None
        batch = engine.policy.ask_batch([bodies[place]["context"] for _, place in chosen], named)
        shared: dict[tuple[int, float | None], tuple[str, float | None]] = {}  # answers by what differs
        rows: list[Row] = []
        odds = [None] * len(batch) if batch.propensities is None else batch.propensities.tolist()
        answers = zip(batch.ids, batch.indices.tolist(), batch.arms, odds, strict=True)
        for (digest, place), (ask, index, arm, propensity) in zip(chosen, answers, strict=True):
            body = bodies[place]
            round_of: str | None = ask
            status = "deferred" if body.get("deferred") else "pending"
            if index < 0:
                answer, round_of, status = _unreadable(engine, kept, body, slot_of(ask))
                text, due = _finished(engine, kept, answer, status, now)
            elif (known := shared.get((index, propensity))) is None:
                answer = {"fallback": False, "propensity": propensity, "arm": arm}
                text, due = shared[index, propensity] = _finished(engine, kept, answer, status, now)
            else:
                text, due = known
            digest_of_body = self._keys.digest("body", canonical(body))
            rows.append((kept.id, token, digest, digest_of_body, round_of, status, text, now, due))
        numbers = writes.enter_many("decisions", _COLUMNS, rows)
        for (_, place), number, row in zip(chosen, numbers, rows, strict=True):
            try:
                found[place] = _answered(self._keys.decision_id(number), row[6])
            except Problem as problem:
                found[place] = problem
        writes.forget_ahead()
        return found

    def _known(
        self, writes: Writes, policy: str, token: str, asked_as: str
    ) -> tuple[Kept, bytes, Row | None]:
        """A policy; the digest of a caller's id; and (number, body, answer) of the decision that has it.

        It takes one query where the policy's row was read before and is the same still.
        """
        while True:
            kept = self._read_last(writes, policy)
            if (engine := self._engines.opened(kept.id)) is not None:
                engine.book.hold()  # first: who answers the same request meanwhile is waited for
            digest = self._keys.digest("asked as", kept.id, token, asked_as)
            row = writes.one(_KNOWN, token, digest, policy)
            if row is not None and row[:3] == (kept.id, kept.status, kept.revision):
                return kept, digest, None if row[3] is None else row[3:]
            self._engines.not_so(policy)

    def _read_last(self, writes: Writes, policy: str) -> Kept:
        """A policy as it was read last."""
        kept = self._engines.kept.get(policy)
        if kept is None:
            kept = self._engines.kept[policy] = kept_policy(writes, policy)
            writes.when(lost=partial(self._engines.not_so, policy))
        return kept

    def ahead_of_policy(self, writes: Writes, *, policy: str) -> Iterator[list[Ahead]]:
        """Yield the query that keeps a policy's rounds from others."""
        if (kept := self._engines.kept.get(policy)) and (engine := self._engines.opened(kept.id)):
            yield engine.book.ahead(None)

    def ahead_of_decision(
        self, writes: Writes, *, policy: str, token: str, body: dict[str, Any]
    ) -> Iterator[list[Ahead]]:
        """Yield the queries that `decide` will make, as far as they are known before its turn."""
        if (kept := self._engines.kept.get(policy)) and (engine := self._engines.opened(kept.id)):
            digest = self._keys.digest("asked as", kept.id, token, body["id"])
            known = Ahead(("then", 0), _KNOWN, (token, digest, policy))
            yield [known, *engine.book.ahead(body.get("user")), NUMBER]

    def ahead_of_reward(self, writes: Writes, *, policy: str, decision_id: str) -> Iterator[list[Ahead]]:
        """Yield the queries that `reward` will make: for its decision, and then for its round."""
        number = self._keys.number_of(decision_id)
        if number is None:
            return
        found = Ahead(("round", number), _FOUND, (policy, number), lock=True)
        yield [found]
        for row in map(_Row._make, writes.seen(found) or ()):
            engine = self._engines.opened(row.policy)
            if engine is not None and row.ask is not None and row.status in _OPEN:
                yield engine.book.ahead_of_round(row.ask)

    def reward(self, writes: Writes, *, policy: str, decision_id: str, value: float) -> Outcome:
        """Tell a decision's reward; returns its status. It stays open after a value out of range."""
        row = self._found(writes, policy, decision_id)
        if row.status in _SETTLED:
            return "duplicate"
        if row.status in _GONE or row.ask is None:
            _becomes(writes, row, row.status)
            return "late"
        return self._tell(writes, row, value, counted="counted")

    def reward_together(
        self, writes: Writes, told: Sequence[tuple[str, float]], *, policy: str
    ) -> list[Outcome | None]:
        """Tell several rewards, (id of a decision, value) each, in one pass, as `reward` tells each.

        None stands for each that `reward` has to tell: it does not fit, is of no open decision, or its id
        stands there twice.
        """
        found: list[Outcome | None] = [None] * len(told)
        places: dict[int, int] = {}  # number -> place
        for place, (decision_id, _) in enumerate(told):
            number = self._keys.number_of(decision_id)
            if number is not None:
                places.setdefault(number, place)
        among = writes.among(_FOUND_MANY, sorted(places), policy, lock="number")
        own = [_Row._make(row[:4]) for row in among if row[1] == row[4]]
        rows = [row for row in own if row.ask is not None and row.status in _OPEN]
        if rows:
            values = [told[places[row.number]][1] for row in rows]
            engine = self._engines.use(writes, rows[0].policy)
            receipts = engine.policy.tell_batch([row.ask or "" for row in rows], values)
            became: list[Row] = []
            for row, value, receipt in zip(rows, values, receipts, strict=True):
                if receipt is not Receipt.REFUSED:
                    counted = receipt is Receipt.COUNTED
                    outcome: Outcome = "counted" if counted else "late"
                    found[places[row.number]] = outcome
                    became.append((row.number, outcome, value if counted else None))
            writes.later_rows(_BECAME, became)
        writes.forget_ahead()
        return found

    def activate(self, writes: Writes, *, policy: str, decision_id: str) -> str:
        """A deferred decision was shown: from now on a reward is awaited; the status it has now."""
        row = self._found(writes, policy, decision_id)
        if row.status != "deferred":
            return row.status
        wait = kept_policy(writes, policy).settings.get("wait_seconds")
        _becomes(writes, row, "pending", due=None if wait is None else self._now() + wait)
        return "pending"

    def abandon(self, writes: Writes, *, policy: str, decision_id: str) -> str:
        """A decision was not used, and never has a reward; the status it has now."""
        row = self._found(writes, policy, decision_id)
        if row.status not in _OPEN or row.ask is None:
            return row.status
        return self._give_up(writes, row, "abandoned")

    def status(self, reads: Reads, *, policy: str, decision_id: str) -> str:
        """Return the status of a decision."""
        return self._found(reads, policy, decision_id).status

    def sweep(self, writes: Writes, *, policy: str, now: float) -> int:
        """Settle all decisions of a policy whose wait is over by now, the oldest first; how many.

        There is no bound on their number: what was told waits no longer, so with a bound the rewards of
        others would decide whether a default reward still counts, or comes after its block.
        """
        settings = writes.one("SELECT settings FROM policies WHERE id = ?", policy)
        default = None if settings is None else json.loads(settings[0]).get("default_reward")
        query = "SELECT number, ask, status FROM decisions WHERE due_at <= ? AND policy = ? ORDER BY due_at"
        rows = writes.locked(query, now, policy, skip=True)
        for number, ask, status in rows:
            row = _Row(int(number), policy, ask, str(status))
            if row.status == "deferred":
                self._give_up(writes, row, "expired")
            elif default is None:
                self._give_up(writes, row, "lost")
            else:
                self._tell(writes, row, float(default), counted="defaulted")
        return len(rows)

    def _found(self, reads: Reads, policy: str, decision_id: str) -> _Row:
        """The decision of an id, for nobody else to change; one of another policy is not found."""
        number = self._keys.number_of(decision_id)
        rows = [] if number is None else reads.locked(_FOUND, policy, number)
        if not rows:
            raise Problem("not-found", "This policy has no decision with this id.")
        return _Row._make(rows[0])

    def _tell(self, writes: Writes, row: _Row, value: float, *, counted: str) -> Outcome:
        engine = self._engines.use(writes, row.policy)
        try:
            receipt = engine.policy.tell(row.ask or "", value)
        except AlreadyTold:
            return "duplicate"
        except StateError:  # nothing of it is there: it is undone, and perhaps tried again
            raise
        except DPBanditsError as error:
            if counted != "defaulted":
                raise problem_of(error) from None
            receipt = Receipt.LATE  # its round was erased before its wait was looked at
        became = counted if receipt is Receipt.COUNTED else "late"
        _becomes(writes, row, became, value if receipt is Receipt.COUNTED else None)
        return "counted" if receipt is Receipt.COUNTED else "late"

    def _give_up(self, writes: Writes, row: _Row, status: str) -> str:
        engine = self._engines.use(writes, row.policy)
        with suppress(AlreadyTold):  # its block was released meanwhile
            engine.policy.abandon(row.ask or "")
        _becomes(writes, row, status)
        return status

    def _bounds(self, token: str, asked_as: str) -> list[tuple[str, str, int]]:
        """Return the bounds on mismatches that an id falls under: event, subject, and most in an hour.

        Callers choose ids at random, so that a mismatch is a fault of the caller, or a guess. The id of a
        flag follows from the user: a mismatch is also what happens when a user's attributes change. It counts
        for this user, so that it keeps nobody else waiting, and for the token far later. Nobody is shown
        these events: they would be a count over people.
        """
        if not asked_as.startswith(FLAG_ID):
            return [("other-body", f"token {token}", self._most)]
        own = self._keys.digest("flag", f"{token} {asked_as}").hex()
        return [
            (OTHER_CONTEXT, f"flag {own}", self._most),
            (OTHER_CONTEXT, f"flags of token {token}", FLAGS_A_TOKEN * self._most),
        ]

    def _refuse_guesses(self, writes: Writes, token: str, asked_as: str, now: float) -> None:
        """Refuse to compare anything after too many mismatches; nobody else compares for this token until the
        commit, and who comes meanwhile tries again.
        """
        known = "SELECT id FROM tokens WHERE id = ?"
        if not writes.locked(known, token, skip=True) and writes.one(known, token) is not None:
            raise TryAgain("another worker compares for this token")
        query = "SELECT COUNT(*), MIN(at) FROM events WHERE what = ? AND subject = ? AND at >= ?"
        for what, subject, most in self._bounds(token, asked_as):
            seen = writes.one(query, what, subject, now - _HOUR)
            if seen is None or seen[0] < most:
                continue
            said = "Ids were repeated with other bodies too often: this used id is not compared now."
            after = str(max(math.ceil(seen[1] + _HOUR - now), 1))
            raise Problem("too-many-requests", said, headers={"Retry-After": after})
