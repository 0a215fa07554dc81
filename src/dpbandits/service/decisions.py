"""`Decisions`: requests for decisions, their answers and their rewards.

| status | reached by | outcome of a reward |
|---|---|---|
| `deferred` | a request with `deferred`: answered, and not yet shown | `counted`, which also activates it |
| `pending` | the decision was shown; a reward is awaited | `counted` |
| `counted` | a reward | `duplicate` |
| `defaulted` | the end of the wait, with a default reward | `duplicate` |
| `late` | a reward after its block was released, which does not count | `duplicate` |
| `abandoned` | `:abandon`: the decision was not used | `duplicate` |
| `expired` | the end of the wait for a deferred decision | `late` |
| `lost` | the end of the wait for a pending decision, without a default reward | `late` |
| `refused` | an invalid request: its round is taken and contributes zero | `late` |
| `fallback` | an answer without a round: the user, or the policy, has none left | `late` |

Only `counted` and `defaulted` contribute a reward. The round stays taken in every case: the request counts
against the contribution bound, whatever follows.

An answer without a decision has a `reason` in fixed words. The rules that a context breaks are its `faults`:

| reason | depends on |
|---|---|
| `context` | the context of the request, and the policy's columns, which are public |
| `available` | the list in the request, and the arms, which are public |
| `user` | the user id of the request, which is missing or invalid |
| `user-has-had-all` | the number of this user's rounds; a policy without a fallback answers 409 |
| `no-rounds-left` | the number of the policy's rounds, which is public |

Privacy: a reason depends on the request and public numbers only, and on no other user. It is part of the
stored answer, so it is the same for an idempotent request. It is neither logged nor counted: the number of
unreadable contexts is a count over users. `check` finds the same faults and stores nothing.

All methods of `Decisions` but `status` run in the writer's transaction. The caller's id is checked first,
under a lock on the policy's rounds. The same body gets the stored answer, and another body is a conflict. A
token that sends too many other bodies gets no answers to repeated ids for a while: so replaying guesses of a
context confirms only a few of them an hour.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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

__all__ = ["Decisions", "Outcome", "Told", "check", "overdue"]

Outcome = Literal["counted", "late", "duplicate"]

Told = tuple[str, float, Mapping[str, float]]
"""Id of a decision, its reward, and further metrics by name."""

_HOUR = 3600.0

_SETTLED = ("counted", "defaulted", "late", "abandoned")
_GONE = ("expired", "lost", "refused", "fallback")
_OPEN = ("deferred", "pending")


_COLUMNS = "policy, token, asked_as, body, ask, status, answer, asked_at, due_at"


def _finished(
    engine: Engine, kept: Kept, answer: dict[str, Any], status: str, now: float
) -> tuple[str, float | None]:
    """Return an answer as the JSON text that is stored, and the time until which its reward is awaited."""
    if "problem" not in answer:
        answer["release"] = engine.version  # read after the ask, which may take up a new release
    wait = kept.settings.get("wait_seconds")
    due = now + wait if wait is not None and status in ("pending", "deferred") else None
    if due is not None:
        answer["expires_at"] = due
    return canonical(answer), due


_PLAIN = frozenset({"id", "user", "context", "deferred"})
"""Members that a request may have if `decide_together` is to answer it."""


def _unreadable(
    engine: Engine, kept: Kept, body: dict[str, Any], slot: int
) -> tuple[dict[str, Any], str | None, str]:
    """Return the result of `_answer` for a request whose context was refused. Its round is taken."""
    menu = engine.policy.menu
    try:
        with round_taken():
            if menu is not None:
                menu.refuse(body["context"], None)
    except InvalidData as error:
        ask, why = f"{kept.id[:8]}-{slot}-refused", _why(menu, body["context"])
        return _without(engine, kept, body, problem_of(error), "refused", ask=ask, why=why)
    raise StateError("a valid context was refused")


_KNOWN = (
    "SELECT p.id, p.status, p.revision, d.number, d.body, d.answer FROM policies p "
    "LEFT JOIN decisions d ON d.policy = p.id AND d.token = ? AND d.asked_as = ? WHERE p.name = ?"
)


def _check_shape(kept: Kept, body: dict[str, Any]) -> None:
    """Raise Problem if a request has members that do not fit this policy, or lacks some.

    It takes no round then.
    """
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
    """Return the answer to a request, the policy's own id of the decision (or None), and the decision's
    status.
    """
    policy, before = engine.policy, engine.book.entered
    shadow = kept.settings["mode"] == "shadow"
    brought: Any = body.get("context")
    if policy.menu is None:
        brought = None if body.get("candidates") is None else _matrix(body["candidates"])
    elif brought is None:
        brought = {}  # an unreadable context, so that the round is taken
    available = [body["arm"]] if shadow else body.get("available")
    user = body.get("user")
    try:
        if policy.menu is None and brought is None:
            decision = policy.ask(user=user)
        else:
            decision = policy.ask(brought, user, available=available)
    except (HorizonExceeded, ContributionExceeded) as error:
        problem = problem_of(error)
        return _without(engine, kept, body, problem, "fallback", ask=None, why={"reason": problem.slug})
    except InvalidData as error:
        ask = None
        if engine.book.entered > before:  # the id has the slot of the taken round
            ask = f"{kept.id[:8]}-{policy.rounds_asked - 1}-refused"
        why = {"reason": "user"} if ask is None else _why(policy.menu, brought)
        return _without(engine, kept, body, problem_of(error), "refused", ask=ask, why=why)
    answer: dict[str, Any] = {"fallback": False, "propensity": None if shadow else decision.propensity}
    if decision.group is not None:
        answer["group"] = decision.group
    if policy.menu is None:
        answer |= {"index": decision.index, "action": decision.action.tolist()}
    else:
        answer["arm"] = decision.arm
        if policy.actions is not None:
            answer["action"] = decision.action
    if shadow:
        answer["would_choose"] = policy.recommend(brought)
    return answer, decision.id, "deferred" if body.get("deferred") else "pending"


def _matrix(candidates: Any) -> Any:
    """Return candidates as an array (n, d). Invalid candidates become NaN, which the policy refuses."""
    try:
        return np.array(candidates, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full((1, 1), np.nan)


def _without(
    engine: Engine,
    kept: Kept,
    body: dict[str, Any],
    problem: Problem,
    status: str,
    *,
    ask: str | None,
    why: dict[str, Any],
) -> tuple[dict[str, Any], str | None, str]:
    """Return the result of `_answer` for a request that gets no decision."""
    arm: Label | None = kept.settings.get("fallback")
    if arm is not None and arm in (body.get("available") or [arm]):
        chosen: dict[str, Any] = {"arm": arm}
        if (actions := engine.policy.actions) is not None:
            chosen["action"] = actions.choice(actions.arms.code(arm))
        return {"fallback": True, "propensity": None, **chosen, **why}, ask, status
    if ask is None:
        raise problem
    return {"problem": problem.slug, "detail": problem.detail, **why}, ask, status


def _why(menu: Menu | None, brought: Any) -> dict[str, Any]:
    """Return the reason why a request could not be answered, and the faults of its context.

    See the module.
    """
    if menu is None:
        return {"reason": "candidates"}
    faults = _told([one for one in menu.findings([brought])[0] if one.refused])
    return {"reason": "context", "faults": faults} if faults else {"reason": "available"}


def _told(findings: list[Finding]) -> list[dict[str, str]]:
    return [{"column": one.column, "rule": one.rule} for one in findings]


def check(reads: Reads, *, policy: str, contexts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Validate contexts for a policy. Return for each whether it is valid, and its faults. Nothing is stored.

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
    """Return a stored answer as JSON with the decision's id."""
    if '"problem":' in stored and "problem" in (answer := json.loads(stored)):
        slug, detail = answer.pop("problem"), answer.pop("detail")
        raise Problem(slug, detail, more={"id": decision_id, **answer})
    return f'{{"id":"{decision_id}",{stored[1:]}'


# -- what becomes of it -------------------------------------------------------------------------------


class _Row(NamedTuple):
    number: int
    policy: str
    ask: str | None
    status: str


_FOUND = (
    "SELECT number, policy, ask, status FROM decisions "
    "WHERE policy = (SELECT id FROM policies WHERE name = ?) AND number = ?"
)
_FOUND_MANY = (  # with the policy in WHERE, SQLite would scan all decisions of the policy
    "SELECT number, policy, ask, status, (SELECT id FROM policies WHERE name = ?) FROM decisions "
    "WHERE number IN "
)
_BECAME = (
    "UPDATE decisions SET status = told.column2, due_at = NULL, "
    "reward = CASE WHEN answer IS NULL THEN NULL ELSE CAST(told.column3 AS DOUBLE PRECISION) END, "
    "metrics = CASE WHEN answer IS NULL THEN NULL ELSE CAST(told.column4 AS TEXT) END "
    "FROM ({rows}) AS told WHERE number = told.column1"
)


_BECOMES = (  # an erased decision, which has no answer, keeps no reward and no metrics
    "UPDATE decisions SET status = ?, due_at = ?, "
    "reward = CASE WHEN answer IS NULL THEN NULL ELSE CAST(? AS DOUBLE PRECISION) END, "
    "metrics = CASE WHEN answer IS NULL THEN NULL ELSE CAST(? AS TEXT) END WHERE number = ?"
)


def _becomes(
    writes: Writes,
    row: _Row,
    status: str,
    told: float | None = None,
    due: float | None = None,
    metrics: str | None = None,
) -> None:
    writes.later(_BECOMES, status, due, told, metrics, row.number)


def _kept_metrics(told: Mapping[str, float]) -> str | None:
    """Return told metrics as JSON for the raw export: null for a value that is no number."""
    if not told:
        return None
    return canonical({name: value if math.isfinite(value) else None for name, value in told.items()})


def overdue(reads: Reads, *, now: float) -> list[str]:
    """Return the ids of policies that have decisions whose wait for a reward is over."""
    due = "SELECT 1 FROM decisions WHERE policy = policies.id AND due_at <= ?"
    found = reads.rows(f"SELECT id FROM policies WHERE EXISTS ({due})", now)  # noqa: S608 - SQL of ours
    return [str(row[0]) for row in found]


FLAG_ID, OTHER_CONTEXT = "flag ", "other-context"
"""Prefix of the ids of requests for flags, and name of the event "a flag's id was sent again with another
context".
"""

FLAGS_A_TOKEN = 100
"""Largest number of mismatches of a token over all flags, as a multiple of the bound for one flag.

A mismatch is an id that is sent again with another context.
"""


class Decisions:
    """Operations on decisions; see the module.

    Args:
        engines: open policies of the service.
        keys: secret of the service.
        now: function that returns the time.
        mismatches: number of times in an hour that a token may send an id again with another body. Each such
            time is an event in the store, so that the number includes other processes and survives restarts.
    """

    def __init__(self, engines: Engines, keys: Keys, now: Callable[[], float], *, mismatches: int) -> None:
        self._engines, self._keys, self._now, self._most = engines, keys, now, mismatches

    def decide(self, writes: Writes, *, policy: str, token: str, body: dict[str, Any]) -> str:
        """Answer one request for a decision, as JSON. An idempotent request gets the stored answer.

        `token` is the id of the token. `body["id"]` is the caller's id of the request, unique for this
        token.

        Raises:
            Problem: the request was refused; a round that it took stays taken.
        """
        now = self._now()
        kept, asked_as, earlier = self._known(writes, policy, token, body["id"])
        if earlier is None and self._engines.opened(kept.id) is None and kept.status == "active":
            self._engines.use(writes, kept.id).book.hold()  # another worker may answer the same request now
            kept, asked_as, earlier = self._known(writes, policy, token, body["id"])
        digest = self._keys.digest("body", canonical(body))
        if earlier is not None:
            number, stored_body, stored = earlier
            self._refuse_guesses(writes, token, body["id"], now)
            if stored is None:
                raise Problem(
                    "erased", "The decision was erased after the retention time; its id cannot be used again."
                )
            if bytes(stored_body) != digest:
                told = "an id was used again for another request"
                for what, subject, _ in self._bounds(token, body["id"]):
                    note_event(writes, now, what, subject, told, by=token)
                raise Problem("other-body", "This id was used for another request: send a new id.")
            return _answered(self._keys.decision_id(int(number)), stored)
        if kept.status != "active":
            raise Problem("conflict", f"The policy is {kept.status}: it makes no decisions now.")
        _check_shape(kept, body)
        engine = self._engines.use(writes, kept.id)
        engine.know(kept)
        answer, ask, status = _answer(engine, kept, body)
        text, due = _finished(engine, kept, answer, status, now)
        row = kept.id, token, asked_as, digest, ask, status, text, now, due
        (new,) = writes.enter_many("decisions", _COLUMNS, [row])
        return _answered(self._keys.decision_id(new), text)

    def decide_together(
        self, writes: Writes, bodies: Sequence[dict[str, Any]], *, policy: str, token: str
    ) -> list[str | Problem | None]:
        """Answer several requests in one pass, as `decide` would; None for those that `decide` has to answer.

        A single request has None if its id was used before or its user has no round left. If one request

        - lacks a context or has a member outside `_PLAIN`,
        - depends on an earlier request of the same user, or
        - would be decided by a later release,

        then it and all later requests have None. So rounds are taken in the order of the requests, and no
        user's data moves another user to another round. All requests have None if the policy is not active,
        its mode is not live, or it has no arms.
        """
        found: list[str | Problem | None] = [None] * len(bodies)
        now, kept = self._now(), self._read_last(writes, policy)
        if kept.status != "active" or "arms" not in kept.asked or kept.settings["mode"] != "live":
            return found
        engine = self._engines.use(writes, kept.id)
        engine.book.hold()  # first: the policy may be paused while this waits for the lock
        now_is = writes.one("SELECT id, status, revision FROM policies WHERE name = ?", policy)
        if now_is != (kept.id, kept.status, kept.revision):
            self._engines.not_so(policy)
            return found
        engine.know(kept)
        asked_as: dict[bytes, int] = {}  # digest of the caller's id -> place of its first request
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
        shared: dict[tuple[Any, ...], tuple[str, float | None]] = {}  # stored answers are shared
        rows: list[Row] = []
        odds = [None] * len(batch) if batch.propensities is None else batch.propensities.tolist()
        odds = [None if one is None or math.isnan(one) else one for one in odds]
        labelled: list[dict[str, Any]] = [{"arm": arm} for arm in batch.arms]
        if batch.choices:
            labelled = [one | {"action": action} for one, action in zip(labelled, batch.chosen, strict=True)]
        if batch.groups:
            groups = [{} if group is None else {"group": group} for group in batch.groups]
            labelled = [one | group for one, group in zip(labelled, groups, strict=True)]
        answers = zip(batch.ids, batch.indices.tolist(), labelled, odds, strict=True)
        for (digest, place), (ask, index, arm, propensity) in zip(chosen, answers, strict=True):
            body = bodies[place]
            round_of: str | None = ask
            status = "deferred" if body.get("deferred") else "pending"
            if index < 0:
                answer, round_of, status = _unreadable(engine, kept, body, slot_of(ask))
                text, due = _finished(engine, kept, answer, status, now)
            elif (known := shared.get(alike := (index, propensity, arm.get("group"), status))) is None:
                answer = {"fallback": False, "propensity": propensity, **arm}
                text, due = shared[alike] = _finished(engine, kept, answer, status, now)
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
        """Return a policy, the digest of a caller's id, and the decision with this id."""
        while True:
            kept = self._read_last(writes, policy)
            if (engine := self._engines.opened(kept.id)) is not None:
                engine.book.hold()  # first: wait for a worker that answers the same request
            digest = self._keys.digest("asked as", kept.id, token, asked_as)
            row = writes.one(_KNOWN, token, digest, policy)
            if row is not None and row[:3] == (kept.id, kept.status, kept.revision):
                return kept, digest, None if row[3] is None else row[3:]
            self._engines.not_so(policy)

    def _read_last(self, writes: Writes, policy: str) -> Kept:
        """Return the cached row of a policy; read it from the store if it is not cached."""
        kept = self._engines.kept.get(policy)
        if kept is None:
            kept = self._engines.kept[policy] = kept_policy(writes, policy)
            writes.when(lost=partial(self._engines.not_so, policy))
        return kept

    def ahead_of_policy(self, writes: Writes, *, policy: str) -> Iterator[list[Ahead]]:
        """Yield the query that locks a policy's rounds."""
        if (kept := self._engines.kept.get(policy)) and (engine := self._engines.opened(kept.id)):
            yield engine.book.ahead(None)

    def ahead_of_decision(
        self, writes: Writes, *, policy: str, token: str, body: dict[str, Any]
    ) -> Iterator[list[Ahead]]:
        """Yield the queries that `decide` will make, as far as they are known in advance."""
        if (kept := self._engines.kept.get(policy)) and (engine := self._engines.opened(kept.id)):
            digest = self._keys.digest("asked as", kept.id, token, body["id"])
            known = Ahead(("then", 0), _KNOWN, (token, digest, policy))
            yield [known, *engine.book.ahead(body.get("user")), NUMBER]

    def ahead_of_reward(self, writes: Writes, *, policy: str, decision_id: str) -> Iterator[list[Ahead]]:
        """Yield the queries that `reward` will make: for its decision, and then for the decision's round."""
        number = self._keys.number_of(decision_id)
        if number is None:
            return
        found = Ahead(("round", number), _FOUND, (policy, number), lock=True)
        yield [found]
        for row in map(_Row._make, writes.seen(found) or ()):
            engine = self._engines.opened(row.policy)
            if engine is not None and row.ask is not None and row.status in _OPEN:
                yield engine.book.ahead_of_round(row.ask)

    def reward(
        self,
        writes: Writes,
        *,
        policy: str,
        decision_id: str,
        value: float,
        metrics: Mapping[str, float] | None = None,
    ) -> Outcome:
        """Record a reward with further `metrics` of the readout, and return its outcome.

        A value outside the reward range is refused, and the decision stays open. A metric that is left out,
        or is not a number in its range, counts as its public default. No answer depends on its value.
        """
        row = self._found(writes, policy, decision_id)
        if row.status in _SETTLED:
            return "duplicate"
        if row.status in _GONE or row.ask is None:
            _becomes(writes, row, row.status)
            return "late"
        return self._tell(writes, row, value, counted="counted", metrics=metrics)

    def reward_together(self, writes: Writes, told: Sequence[Told], *, policy: str) -> list[Outcome | None]:
        """Record several rewards in one pass, as `reward` does for each.

        Return their outcomes. None stands for a reward that `reward` has to record: the value is invalid,
        the policy lacks one of the metrics, the decision is not open, or its id occurs twice.
        """
        found: list[Outcome | None] = [None] * len(told)
        places: dict[int, int] = {}  # number -> place
        for place, (decision_id, _, _) in enumerate(told):
            number = self._keys.number_of(decision_id)
            if number is not None:
                places.setdefault(number, place)
        among = writes.among(_FOUND_MANY, sorted(places), policy, lock="number")
        own = [_Row._make(row[:4]) for row in among if row[1] == row[4]]
        rows = [row for row in own if row.ask is not None and row.status in _OPEN]
        names = self._engines.use(writes, rows[0].policy).policy.metric_names if rows else ()
        rows = [row for row in rows if told[places[row.number]][2].keys() <= {*names}]
        if rows:
            values = [told[places[row.number]][1] for row in rows]
            engine = self._engines.use(writes, rows[0].policy)
            beside = {
                name: [told[places[row.number]][2].get(name, math.nan) for row in rows] for name in names
            }
            receipts = engine.policy.tell_batch(
                [row.ask or "" for row in rows], values, metrics=beside or None
            )
            became: list[Row] = []
            for row, value, receipt in zip(rows, values, receipts, strict=True):
                if receipt is not Receipt.REFUSED:
                    counted = receipt is Receipt.COUNTED
                    outcome: Outcome = "counted" if counted else "late"
                    found[places[row.number]] = outcome
                    kept = _kept_metrics(told[places[row.number]][2]) if counted else None
                    became.append((row.number, outcome, value if counted else None, kept))
            writes.later_rows(_BECAME, became)
        writes.forget_ahead()
        return found

    def activate(self, writes: Writes, *, policy: str, decision_id: str) -> str:
        """Activate a deferred decision, which was shown and now awaits a reward. Return its status."""
        row = self._found(writes, policy, decision_id)
        if row.status != "deferred":
            return row.status
        wait = kept_policy(writes, policy).settings.get("wait_seconds")
        _becomes(writes, row, "pending", due=None if wait is None else self._now() + wait)
        return "pending"

    def abandon(self, writes: Writes, *, policy: str, decision_id: str) -> str:
        """Abandon a decision, which was not used and gets no reward; return its status."""
        row = self._found(writes, policy, decision_id)
        if row.status not in _OPEN or row.ask is None:
            return row.status
        return self._give_up(writes, row, "abandoned")

    def status(self, reads: Reads, *, policy: str, decision_id: str) -> str:
        """Return the status of a decision."""
        return self._found(reads, policy, decision_id).status

    def sweep(self, writes: Writes, *, policy: str, now: float) -> int:
        """Settle all decisions of a policy whose wait for a reward is over, oldest first.

        Return their number.

        Privacy: there is no bound on the number. Decisions with a reward do not wait, so with a bound the
        rewards of others would affect whether a default reward counts before its block is released.
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
        """Return the decision with this id, and lock its row. Raise Problem if the policy has none."""
        number = self._keys.number_of(decision_id)
        rows = [] if number is None else reads.locked(_FOUND, policy, number)
        if not rows:
            raise Problem("not-found", "This policy has no decision with this id.")
        return _Row._make(rows[0])

    def _tell(
        self,
        writes: Writes,
        row: _Row,
        value: float,
        *,
        counted: str,
        metrics: Mapping[str, float] | None = None,
    ) -> Outcome:
        engine = self._engines.use(writes, row.policy)
        told = dict(metrics or {})
        if not told.keys() <= {*engine.policy.metric_names}:
            raise Problem("invalid", "The policy's readout does not have a metric that was sent.")
        try:
            receipt = engine.policy.tell(row.ask or "", value, **told)
        except AlreadyTold:
            return "duplicate"
        except StateError:  # rolls back, and may be tried again
            raise
        except DPBanditsError as error:
            if counted != "defaulted":
                raise problem_of(error) from None
            receipt = Receipt.LATE  # its round was erased before the end of the wait was noticed
        if receipt is not Receipt.COUNTED:
            _becomes(writes, row, "late")
            return "late"
        _becomes(writes, row, counted, value, metrics=_kept_metrics(told))
        return "counted"

    def _give_up(self, writes: Writes, row: _Row, status: str) -> str:
        engine = self._engines.use(writes, row.policy)
        with suppress(AlreadyTold):  # the block was released meanwhile
            engine.policy.abandon(row.ask or "")
        _becomes(writes, row, status)
        return status

    def _bounds(self, token: str, asked_as: str) -> list[tuple[str, str, int]]:
        """Return the bounds on mismatches of a caller's id: an event, its subject and the largest number in
        an hour.

        A mismatch is an id that is sent again with another body. Callers choose ids at random, so a mismatch
        is a caller's error or a guess. The id of a flag is derived from the user, so a mismatch also occurs
        when a user's attributes change. It counts for this user, so that it delays no other user, and with a
        much larger bound for the token. These events are not shown: they would be a count over users.
        """
        if not asked_as.startswith(FLAG_ID):
            return [("other-body", f"token {token}", self._most)]
        own = self._keys.digest("flag", f"{token} {asked_as}").hex()
        return [
            (OTHER_CONTEXT, f"flag {own}", self._most),
            (OTHER_CONTEXT, f"flags of token {token}", FLAGS_A_TOKEN * self._most),
        ]

    def _refuse_guesses(self, writes: Writes, token: str, asked_as: str, now: float) -> None:
        """Raise Problem after too many mismatches.

        Lock the token until the commit. A concurrent comparison for the same token raises TryAgain.
        """
        known = "SELECT id FROM tokens WHERE id = ?"
        if not writes.locked(known, token, skip=True) and writes.one(known, token) is not None:
            raise TryAgain("another worker checks this token's ids")
        query = "SELECT COUNT(*), MIN(at) FROM events WHERE what = ? AND subject = ? AND at >= ?"
        for what, subject, most in self._bounds(token, asked_as):
            seen = writes.one(query, what, subject, now - _HOUR)
            if seen is None or seen[0] < most:
                continue
            said = "Ids were repeated with other bodies too often: this used id is not compared now."
            after = str(max(math.ceil(seen[1] + _HOUR - now), 1))
            raise Problem("too-many-requests", said, headers={"Retry-After": after})
