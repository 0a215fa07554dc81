"""Exchanges: messages between a curator and a modeler, who do not trust each other, about one released table.

The table itself is never uploaded. The curator makes the release with `outsourced.Curator` and uploads it, or
its address. The modeler fetches the release and asks for rows. The curator's workers fetch the questions and
send answers. As in Vizier, a row is one question however often it is asked, and a worker that restarts gets
its own open rows first.

| status of an exchange | meaning |
|---|---|
| `awaited` | the budget is charged; the curator may make and upload the release |
| `open` | the release is here; rows are asked for and answered |
| `ended` | release and answers were erased; the name stays taken and the budget spent |

| status of a question | meaning |
|---|---|
| `open` | the curator has not answered yet |
| `answered` | the curator has answered, once |
| `none` | the curator gave no answer, for any reason; possible if answers are exact |
| `erased` | the answer was erased after the retention time |

*Budget.* The population is charged for the positions and for all answers before the curator makes the
release, whose guarantee is fixed at that time. A release that states another guarantee is refused. The
service cannot check which noise the curator used.

*Privacy towards the modeler.* Answers to the modeler depend on public numbers (rows of the release, the cap),
on its own requests, and on the curator's answers. If answers have noise, a failed evaluation must be answered
like those of `outsourced.Curator`, with the middle of the bounds and noise. A missing answer is refused then.
"""

import asyncio
import base64
import json
import math
import uuid
from asyncio import wrap_future
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, FastAPI, Path, Response

from dpbandits._reading import reading
from dpbandits.budget import Cost, Ledger
from dpbandits.errors import CorruptState, IncompatibleState, InvalidParameter
from dpbandits.outsourced.publish import PublishedRows, read_description
from dpbandits.outsourced.statement import cost_of_rows
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.rows import AnswerLaplace
from dpbandits.service.budgets import previewed, promise_of, standing
from dpbandits.service.core import Service
from dpbandits.service.documented import Admin, AdminWithin, Curator, Modeler, Needs, ReaderWithin, Routes
from dpbandits.service.keys import Keys, canonical
from dpbandits.service.messages import (
    IN_PATH,
    AnswerRequest,
    ExchangeRequest,
    QuestionsRequest,
    ReleaseRequest,
    WorkRequest,
)
from dpbandits.service.policies import check_open
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Writes, note_event
from dpbandits.service.tokens import Token

__all__ = ["add_exchanges", "answer", "ask", "open_work"]

_Name = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["doses"])]
_Row = Annotated[int, Path(ge=0, le=1 << 48, examples=[2])]
_Party = Annotated[Token, Depends(Needs("curate", "model"))]
_Anybody = Annotated[Token, Depends(Needs("admin", "read", "curate", "model"))]


class _Exchange(NamedTuple):
    id: str
    name: str
    population: str
    asked: dict[str, Any]
    status: str
    description: dict[str, Any]
    at: str | None
    made_at: float


def _exchange(reads: Reads, name: str) -> _Exchange:
    reads.locked("SELECT id FROM exchanges WHERE name = ?", name)
    row = reads.one(
        "SELECT id, name, population, asked, status, description, at, made_at FROM exchanges WHERE name = ?",
        name,
    )
    if row is None:
        raise Problem("not-found", "There is no exchange of this name.")
    described = {} if row[5] is None else json.loads(row[5])
    return _Exchange(row[0], row[1], row[2], json.loads(row[3]), row[4], described, row[6], row[7])


def _inputs(reads: Reads, exchange: _Exchange) -> bytes | None:
    """Return the content of a release's inputs.npy; None if the file is stored at another address."""
    return reads.large("SELECT inputs AS value FROM exchanges WHERE id = ?", exchange.id)


def _opened(reads: Reads, name: str) -> _Exchange:
    """Return the exchange with this name; raise Problem if it is not open."""
    found = _exchange(reads, name)
    if found.status != "open":
        said = "awaits its release" if found.status == "awaited" else "has ended, and was erased"
        raise Problem("conflict", f"The exchange {said}.")
    return found


# -- what it costs --------------------------------------------------------------------------------------


def _terms(asked: dict[str, Any]) -> tuple[RowDP, AnswerLaplace | None, Cost]:
    """Return a request's privacy definition, its noise on answers, and their total cost."""
    privacy = promise_of({"kind": "RowDP", **asked["privacy"]})
    if not isinstance(privacy, RowDP):
        raise InvalidParameter("privacy: expected RowDP for an outsourced table")
    noise = None if asked["answers"] is None else AnswerLaplace(**asked["answers"])
    return privacy, noise, cost_of_rows(privacy, noise)


def _previewed(ledger: Ledger, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the cost of an exchange and the budget that it would leave."""
    return previewed(ledger, asked["population"], _terms(asked)[2])


def _begun(writes: Writes, ledger: Ledger, asked: dict[str, Any], now: float, by: str) -> dict[str, Any]:
    """Create an exchange, and charge its population for all of it. An idempotent request changes nothing.

    Raises:
        BudgetExceeded: the population cannot pay; nothing is stored.
        InvalidParameter, Problem: the request is invalid; nothing is stored.
    """
    _, _, cost = _terms(asked)
    name, population = asked["name"], asked["population"]
    text = canonical({key: asked[key] for key in ("privacy", "answers", "cap")})
    row = writes.one("SELECT population, asked FROM exchanges WHERE name = ?", name)
    if row is not None and tuple(row) != (population, text):
        raise Problem("conflict", "There is another exchange of this name: choose another name.")
    if row is None:
        check_open(writes, population)
        standing(ledger, population)
        identity = uuid.uuid4().hex
        ledger.charge(population, charge_id=f"outsourced:{identity}", cost=cost)
        entering = "INSERT INTO exchanges VALUES (?, ?, ?, ?, 'awaited', NULL, NULL, NULL, ?)"
        writes.run(entering, identity, name, population, text, now)
        note_event(writes, now, "exchange-begun", f"exchange {name}", f"population {population}", by=by)
    return _described(writes, name)


# -- the release ----------------------------------------------------------------------------------------


class Upload(NamedTuple):
    """A checked release: its description, and either the content of its inputs.npy or the address of
    that file.
    """

    description: str
    inputs: bytes | None
    at: str | None


def _checked(
    reads: Reads, name: str, *, description: dict[str, Any], inputs: str | None, at: str | None
) -> Upload:
    """Check a curator's release against the exchange, and return it.

    Run outside of the writer, because it is slow.

    If the release names an address, nothing is fetched from it.

    Raises:
        Problem: the release is invalid, or states another guarantee than the one that was charged.
    """
    found = _exchange(reads, name)
    if (inputs is None) == (at is None):
        raise Problem("invalid", "Send the inputs, or the address where they lie: one of the two.")
    try:
        data = None if inputs is None else base64.b64decode(inputs, validate=True)
    except ValueError:
        raise Problem("invalid", "inputs: expected Base64 of inputs.npy.") from None
    _check_release(found, description, data)
    return Upload(canonical(description), data, at)


def upload(writes: Writes, name: str, new: Upload, now: float, by: str) -> dict[str, Any]:
    """Store a checked release. Raise Problem if the exchange has another release or has ended."""
    found = _exchange(writes, name)
    check_open(writes, found.population)
    if found.status == "ended":
        raise Problem("conflict", "The exchange has ended, and was erased.")
    if found.status == "open":
        if Upload(canonical(found.description), _inputs(writes, found), found.at) != new:
            raise Problem(
                "conflict",
                "The exchange has another release: create another exchange, which is charged again.",
            )
        return _described(writes, name)
    opening = "UPDATE exchanges SET status = 'open', description = ?, inputs = ?, at = ? WHERE id = ?"
    writes.run(opening, *new, found.id)
    note_event(writes, now, "release-uploaded", f"exchange {name}", by=by)
    return _described(writes, name)


def _check_release(exchange: _Exchange, description: dict[str, Any], data: bytes | None) -> None:
    """Raise Problem unless the release has the guarantee and the cap that the population was charged for."""
    try:
        with reading("a release", CorruptState):
            body = read_description(json.dumps(description))
            if data is not None:
                PublishedRows.from_files(body, data)
            guarantee = Guarantee.from_json(json.dumps(body["guarantee"]))
            rows, cap, answers = body["rows"], body["cap"], body["answers"]
            noise = None if answers == {"type": "public"} else AnswerLaplace.from_config(answers)
    except (CorruptState, IncompatibleState, InvalidParameter) as error:
        raise Problem("invalid", f"The release cannot be taken: {error}") from None
    privacy, promised, _ = _terms(exchange.asked)
    if guarantee.status != "enforced" or guarantee.definition != privacy or noise != promised:
        raise Problem(
            "conflict",
            "The guarantee of the release is not the one that was charged: nothing was stored.",
        )
    if not (type(rows) is int and type(cap) is int and 1 <= cap <= min(rows, exchange.asked["cap"])):
        raise Problem("conflict", "The release answers more rows than were charged.")


def _fetched(reads: Reads, name: str) -> dict[str, Any]:
    found = _opened(reads, name)
    data = _inputs(reads, found)
    inputs = None if data is None else base64.b64encode(data).decode("ascii")
    return {"description": found.description, "inputs": inputs, "at": found.at}


def _ended(writes: Writes, name: str, now: float, by: str) -> None:
    """End an exchange: erase its release and its answers. An idempotent request changes nothing."""
    found = _exchange(writes, name)
    if found.status != "ended":
        note_event(writes, now, "exchange-ended", f"exchange {name}", by=by)
    erased = "status = 'ended', description = NULL, inputs = NULL, at = NULL"
    writes.run(f"UPDATE exchanges SET {erased} WHERE id = ?", found.id)  # noqa: S608 - SQL of ours
    writes.run("UPDATE questions SET status = 'erased', answer = NULL WHERE exchange = ?", found.id)


# -- questions and answers ------------------------------------------------------------------------------


def ask(writes: Writes, name: str, rows: Sequence[int]) -> dict[str, Any]:
    """Ask for all of these rows, or for none. A row that was asked for before is the same question.

    Raises:
        Problem: a number is not that of a row, or there are more rows than the cap. Both numbers are public.
    """
    found = _opened(writes, name)
    check_open(writes, found.population)
    count = int(found.description["rows"])
    if not all(0 <= row < count for row in rows):
        raise Problem("invalid", f"The release has rows 0 to {count - 1}: nothing was asked.")
    known = writes.rows("SELECT number FROM questions WHERE exchange = ?", found.id)
    have, cap = {int(row[0]) for row in known}, int(found.description["cap"])
    new = [row for row in dict.fromkeys(rows) if row not in have]
    if len(have) + len(new) > cap:
        raise Problem(
            "no-rounds-left",
            f"{len(have)} of {cap} rows were asked for, {len(new)} more do not fit: nothing was asked.",
        )
    for place, row in enumerate(new, start=len(have)):
        writes.run("INSERT INTO questions VALUES (?, ?, ?, NULL, 'open', NULL, NULL)", found.id, row, place)
    told = {one["row"]: one for one in _told(writes, found)}
    return {"questions": [told[row] for row in rows]}


def questions(reads: Reads, name: str) -> dict[str, Any]:
    """Return all questions in the order in which they were asked, with their answers."""
    return {"questions": _told(reads, _opened(reads, name))}


def _told(reads: Reads, exchange: _Exchange) -> list[dict[str, Any]]:
    query = "SELECT number, status, answer FROM questions WHERE exchange = ? ORDER BY place"
    return [
        {"row": int(row[0]), "status": row[1], "answer": row[2]} for row in reads.rows(query, exchange.id)
    ]


def open_work(writes: Writes, keys: Keys, name: str, *, worker: str, most: int) -> dict[str, Any]:
    """Assign rows to a worker, and return them: first its own open rows, then unassigned ones, oldest first.

    The worker's name is stored as a digest. A worker that crashed continues under the same name.
    """
    found = _opened(writes, name)
    check_open(writes, found.population)
    own = keys.digest("worker", found.id, worker)
    still_open = "SELECT number FROM questions WHERE exchange = ? AND status = 'open' AND worker"
    mine = writes.rows(f"{still_open} = ? ORDER BY place LIMIT ?", found.id, own, most)
    free = writes.rows(f"{still_open} IS NULL ORDER BY place LIMIT ?", found.id, most - len(mine))
    for (number,) in free:
        writes.run("UPDATE questions SET worker = ? WHERE exchange = ? AND number = ?", own, found.id, number)
    return {"rows": [int(row[0]) for row in (*mine, *free)]}


def answer(writes: Writes, name: str, row: int, value: float | None, now: float) -> dict[str, Any]:
    """Record the answer of a row, once; `value` is None if there is no answer.

    Raise Problem if the row was not asked for or the answer is invalid.
    """
    found = _opened(writes, name)
    check_open(writes, found.population)
    query = "SELECT status, answer FROM questions WHERE exchange = ? AND number = ?"
    asked = writes.one(query, found.id, row)
    if asked is None:
        raise Problem("not-found", "Nobody has asked for this row: it is not answered.")
    if value is None and found.asked["answers"] is not None:
        raise Problem(
            "invalid",
            "Answers are noised here, so that none must be missing: answer as outsourced.Curator does, with "
            "the middle of the bounds and noise.",
        )
    status = "none" if value is None else "answered"
    if asked[0] == "erased":
        raise Problem("erased", "The answer was erased after the retention time; the row stays answered.")
    if asked[0] != "open":
        if (asked[0], asked[1]) != (status, value):
            raise Problem("conflict", "The row has another answer: each row is answered once.")
    else:
        if value is not None and not math.isfinite(value):
            raise Problem("invalid", "answer: expected a finite number.")
        change = (
            "UPDATE questions SET status = ?, answer = ?, answered_at = ? WHERE exchange = ? AND number = ?"
        )
        writes.run(change, status, value, now, found.id, row)
    return {"row": row, "status": status}


# -- what is shown --------------------------------------------------------------------------------------


def _names(reads: Reads) -> list[str]:
    return [name for (name,) in reads.rows("SELECT name FROM exchanges ORDER BY name")]


def _described(reads: Reads, name: str) -> dict[str, Any]:
    """Return an exchange as public JSON, with the statement of its release if there is one."""
    found = _exchange(reads, name)
    shown = {
        "name": found.name,
        "population": found.population,
        "status": found.status,
        **found.asked,
        "made_at": found.made_at,
        "rows": found.description.get("rows"),
        "release": found.description.get("release"),
        "statement": None,
    }
    if found.description:
        stated = Guarantee.from_json(json.dumps(found.description["guarantee"]))
        shown["statement"] = stated.explain()
    return shown


# -- routes ---------------------------------------------------------------------------------------------


def add_exchanges(app: FastAPI, service: Service) -> None:
    """Add the routes of outsourced tables to an application."""
    route = Routes(app, "outsourced", "/v1/outsourced")

    async def written(call: Callable[[Writes], dict[str, Any]]) -> dict[str, Any]:
        return await wrap_future(service.write(call))

    @route("POST :preview", "Preview the cost of an exchange", "Preview", "not-found")
    def preview_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """The answer has the cost of the exchange. Nothing is stored or charged."""
        token.refuse_new(message.name, message.population)
        return _previewed(service.ledger, _asked(message))

    @route("POST ", "Create an exchange", "Exchange", "not-found", "conflict", "budget-exceeded", status=201)
    async def begin_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """The exchange's population is charged for the release and all answers, before the curator makes the
        release.
        """
        token.refuse_new(message.name, message.population)
        asked = _asked(message)
        return await written(lambda writes: _begun(writes, service.ledger, asked, service.now(), token.id))

    @route("GET ", "List the exchanges", "Exchanges")
    def list_exchanges(token: ReaderWithin) -> dict[str, Any]:
        with service.store.reading() as reads:
            names = _names(reads)
            found = [_described(reads, name) for name in names]
        reach = token.limits.reach
        return {"exchanges": [one for one in found if reach(one["name"], one["population"])]}

    @route("GET /{exchange}", "Get an exchange and the statement of its release", "Exchange")
    def get_exchange(exchange: _Name, token: _Anybody) -> dict[str, Any]:
        return service.read(partial(_described, name=exchange))

    @route("DELETE /{exchange}", "Erase an exchange's release and answers", None, status=204)
    async def end_exchange(exchange: _Name, token: Admin) -> Response:
        """Release and answers are erased, which cannot be undone.

        The budget stays spent, and copies that were fetched are not affected.
        """
        how: dict[str, Any] = {"name": exchange, "now": service.now(), "by": token.id}
        await wrap_future(service.write(partial(_ended, **how)))
        return Response(status_code=204)

    @route(
        "PUT /{exchange}/release",
        "Upload the curator's release, or its address",
        "Exchange",
        "conflict",
    )
    async def upload_release(exchange: _Name, message: ReleaseRequest, token: Curator) -> dict[str, Any]:
        """The release is refused if it has another guarantee than the one that the population was
        charged for.
        """
        service.refuse_in_a_copy()
        given = message.model_dump()
        new = await asyncio.to_thread(service.read, partial(_checked, name=exchange, **given))
        return await written(lambda writes: upload(writes, exchange, new, service.now(), token.id))

    @route("GET /{exchange}/release", "Get the release", "Release", "conflict")
    def get_release(exchange: _Name, token: _Party) -> dict[str, Any]:
        """`description` is the content of release.json and `inputs` that of inputs.npy, which
        `PublishedRows.load` checks.
        """
        return service.read(partial(_fetched, name=exchange))

    @route("POST /{exchange}/questions", "Ask for rows", "Questions", "conflict", "no-rounds-left")
    async def ask_rows(exchange: _Name, message: QuestionsRequest, token: Modeler) -> dict[str, Any]:
        """All rows or none are asked for.

        A row that was asked for before is the same question, with its answer.
        """
        return await written(lambda writes: ask(writes, exchange, message.rows))

    @route(
        "GET /{exchange}/questions", "List the questions and answers in their order", "Questions", "conflict"
    )
    def list_questions(exchange: _Name, token: Modeler) -> dict[str, Any]:
        """The list has all questions with their answers. A modeler that restarts continues from it."""
        return service.read(partial(questions, name=exchange))

    @route(
        "POST /{exchange}/work",
        "Assign rows to one of the curator's workers",
        {"rows": [2, 0]},
        "conflict",
    )
    async def take_work(exchange: _Name, message: WorkRequest, token: Curator) -> dict[str, Any]:
        """A worker that restarts gets its own open rows first, then unassigned ones."""
        how = message.model_dump()
        return await written(lambda writes: open_work(writes, service.keys, exchange, **how))

    @route(
        "PUT /{exchange}/questions/{row}/answer",
        "Answer a row",
        {"row": 2, "status": "answered"},
        "conflict",
        "erased",
    )
    async def answer_row(
        exchange: _Name, row: _Row, message: AnswerRequest, token: Curator
    ) -> dict[str, Any]:
        """Each row is answered once. The same answer again changes nothing."""
        value = None if message.answer is None else float(message.answer)
        return await written(lambda writes: answer(writes, exchange, row, value, service.now()))


def _asked(message: ExchangeRequest) -> dict[str, Any]:
    """Return the request in the form in which it is stored, without members that the caller left out."""
    return {"answers": None, **message.model_dump(exclude_none=True)}
