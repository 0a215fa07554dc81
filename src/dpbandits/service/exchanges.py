"""Exchanges: what a curator and a modeler, who are strangers, say to each other about one released table.

The table never comes here. Its curator draws the release where the table is, with `outsourced.Curator`, and
uploads it, or says where it lies; the modeler fetches it and asks for rows; the curator's workers fetch what
was asked and bring answers. Who asks again gets what is open already, in Vizier's manner: a row is one
question however often it is asked, and a worker that comes back gets its own open rows first.

| status | of an exchange |
|---|---|
| `awaited` | paid for; the curator may draw and upload |
| `open` | the release is here; rows are asked for and answered |
| `ended` | release and answers were erased; its name stays taken, and what was paid stays paid |

| status | of a question |
|---|---|
| `open` | asked; the curator has yet to answer |
| `answered` | each row once, and never otherwise |
| `none` | no answer was given; only where answers are exact, and for whatever reason |
| `erased` | it was answered, and the answer erased after the retention time |

*Budget.* The population pays for the positions and for all answers before the curator draws: the promise is
named at the beginning. A release that says that it promises anything else, or less, is refused. What a
release says of itself is the curator's word: nothing here can see what noise was drawn.

*What the modeler learns.* What it is told rests on public numbers (the release's rows, the cap), on what it
asked itself, and on the answers. Where answers are noised, a failed evaluation must be answered as
`outsourced.Curator` does, as the middle of the bounds with noise; that there was none is refused here.
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
    """A row of the table."""

    id: str
    name: str
    population: str
    asked: dict[str, Any]
    status: str
    description: dict[str, Any]
    at: str | None
    made_at: float


def _exchange(reads: Reads, name: str) -> _Exchange:
    """An exchange; who may change it has it alone until the commit."""
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
    """The inputs.npy of a release, where it lies here."""
    return reads.large("SELECT inputs AS value FROM exchanges WHERE id = ?", exchange.id)


def _opened(reads: Reads, name: str) -> _Exchange:
    """An exchange whose release is here."""
    found = _exchange(reads, name)
    if found.status != "open":
        said = "awaits its release" if found.status == "awaited" else "has ended, and was erased"
        raise Problem("conflict", f"The exchange {said}.")
    return found


# -- what it costs --------------------------------------------------------------------------------------


def _terms(asked: dict[str, Any]) -> tuple[RowDP, AnswerLaplace | None, Cost]:
    """Return the promise, the noise on answers, and the cost of both, added up as the curator does."""
    privacy = promise_of({"kind": "RowDP", **asked["privacy"]})
    if not isinstance(privacy, RowDP):
        raise InvalidParameter("privacy: an outsourced table promises RowDP")
    noise = None if asked["answers"] is None else AnswerLaplace(**asked["answers"])
    return privacy, noise, cost_of_rows(privacy, noise)


def _previewed(ledger: Ledger, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what an exchange would cost its population, and leave it; raises as `policies.preview`."""
    return previewed(ledger, asked["population"], _terms(asked)[2])


def _begun(writes: Writes, ledger: Ledger, asked: dict[str, Any], now: float, by: str) -> dict[str, Any]:
    """Begin an exchange, whose population pays for all of it now, asked by a token; the same request changes
    nothing.

    Raises:
        BudgetExceeded, InvalidParameter, Problem: it cannot be; nothing was kept.
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
    """A release that was checked: its description, and its inputs.npy or the address where it lies."""

    description: str
    inputs: bytes | None
    at: str | None


def _checked(
    reads: Reads, name: str, *, description: dict[str, Any], inputs: str | None, at: str | None
) -> Upload:
    """A curator's release, held against what was paid for; that takes long, and needs no transaction.

    Where the inputs lie at an address, nothing is fetched from there.

    Raises:
        Problem: it is no release, or promises something else than was paid for.
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
    """Take a release that was checked, from a token; Problem if there is another, or it has ended."""
    found = _exchange(writes, name)
    check_open(writes, found.population)
    if found.status == "ended":
        raise Problem("conflict", "The exchange has ended, and was erased.")
    if found.status == "open":
        if Upload(canonical(found.description), _inputs(writes, found), found.at) != new:
            raise Problem("conflict", "The exchange has another release: begin another one, which pays anew.")
        return _described(writes, name)
    opening = "UPDATE exchanges SET status = 'open', description = ?, inputs = ?, at = ? WHERE id = ?"
    writes.run(opening, *new, found.id)
    note_event(writes, now, "release-uploaded", f"exchange {name}", by=by)
    return _described(writes, name)


def _check_release(exchange: _Exchange, description: dict[str, Any], data: bytes | None) -> None:
    """Problem unless it is a release on the terms that were paid for."""
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
            "The release promises something else than its population has paid for: nothing was kept.",
        )
    if not (type(rows) is int and type(cap) is int and 1 <= cap <= min(rows, exchange.asked["cap"])):
        raise Problem("conflict", "The release answers more rows than its population has paid for.")


def _fetched(reads: Reads, name: str) -> dict[str, Any]:
    """The release: what the curator published, and the modeler may see."""
    found = _opened(reads, name)
    data = _inputs(reads, found)
    inputs = None if data is None else base64.b64encode(data).decode("ascii")
    return {"description": found.description, "inputs": inputs, "at": found.at}


def _ended(writes: Writes, name: str, now: float, by: str) -> None:
    """Erase release and answers, asked by a token; again, it changes nothing."""
    found = _exchange(writes, name)
    if found.status != "ended":
        note_event(writes, now, "exchange-ended", f"exchange {name}", by=by)
    erased = "status = 'ended', description = NULL, inputs = NULL, at = NULL"
    writes.run(f"UPDATE exchanges SET {erased} WHERE id = ?", found.id)  # noqa: S608 - SQL of ours
    writes.run("UPDATE questions SET status = 'erased', answer = NULL WHERE exchange = ?", found.id)


# -- questions and answers ------------------------------------------------------------------------------


def ask(writes: Writes, name: str, rows: Sequence[int]) -> dict[str, Any]:
    """Ask for rows, all of them or none; those that were asked before are the same questions still.

    Problem for a number that is no row, or for more rows than the curator answers: public numbers both.
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
    """All that was asked, in that order, with the answers that there are."""
    return {"questions": _told(reads, _opened(reads, name))}


def _told(reads: Reads, exchange: _Exchange) -> list[dict[str, Any]]:
    query = "SELECT number, status, answer FROM questions WHERE exchange = ? ORDER BY place"
    return [
        {"row": int(row[0]), "status": row[1], "answer": row[2]} for row in reads.rows(query, exchange.id)
    ]


def open_work(writes: Writes, keys: Keys, name: str, *, worker: str, most: int) -> dict[str, Any]:
    """Rows for a worker to answer: its own open ones first, then those that nobody has, the oldest first.

    The worker's name is kept as a digest; one that died begins again under it.
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
    """Answer a row once, with None for no answer; Problem if nobody asked, or if it is no valid answer."""
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
            raise Problem("conflict", "The row was answered otherwise: each row is answered once.")
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
    """Return the names of all exchanges."""
    return [name for (name,) in reads.rows("SELECT name FROM exchanges ORDER BY name")]


def _described(reads: Reads, name: str) -> dict[str, Any]:
    """An exchange as JSON: public; with the statement of its release, once it is here."""
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
    """Add the routes of outsourced tables."""
    route = Routes(app, "outsourced", "/v1/outsourced")

    async def written(call: Callable[[Writes], dict[str, Any]]) -> dict[str, Any]:
        return await wrap_future(service.write(call))

    @route("POST :preview", "What an exchange would cost", "Preview", "not-found")
    def preview_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """Nothing is kept or charged."""
        token.refuse_new(message.name, message.population)
        return _previewed(service.ledger, _asked(message))

    @route("POST ", "Begin an exchange", "Exchange", "not-found", "conflict", "budget-exceeded", status=201)
    async def begin_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """Its population pays for the release and all answers, before the curator draws anything."""
        token.refuse_new(message.name, message.population)
        asked = _asked(message)
        return await written(lambda writes: _begun(writes, service.ledger, asked, service.now(), token.id))

    @route("GET ", "All exchanges", "Exchanges")
    def list_exchanges(token: ReaderWithin) -> dict[str, Any]:
        with service.store.reading() as reads:
            names = _names(reads)
            found = [_described(reads, name) for name in names]
        reach = token.limits.reach
        return {"exchanges": [one for one in found if reach(one["name"], one["population"])]}

    @route("GET /{exchange}", "One exchange, and the statement of its release", "Exchange")
    def get_exchange(exchange: _Name, token: _Anybody) -> dict[str, Any]:
        return service.read(partial(_described, name=exchange))

    @route("DELETE /{exchange}", "Erase an exchange's release and answers", None, status=204)
    async def end_exchange(exchange: _Name, token: Admin) -> Response:
        """For good; what was paid stays paid, and whoever has fetched it has it."""
        how: dict[str, Any] = {"name": exchange, "now": service.now(), "by": token.id}
        await wrap_future(service.write(partial(_ended, **how)))
        return Response(status_code=204)

    @route(
        "PUT /{exchange}/release",
        "Upload the curator's release, or say where it lies",
        "Exchange",
        "conflict",
    )
    async def upload_release(exchange: _Name, message: ReleaseRequest, token: Curator) -> dict[str, Any]:
        """Refused where it promises anything else than was paid for; the same again changes nothing."""
        service.refuse_in_a_copy()
        given = message.model_dump()
        new = await asyncio.to_thread(service.read, partial(_checked, name=exchange, **given))
        return await written(lambda writes: upload(writes, exchange, new, service.now(), token.id))

    @route("GET /{exchange}/release", "The release", "Release", "conflict")
    def get_release(exchange: _Name, token: _Party) -> dict[str, Any]:
        """`description` is release.json, and `inputs` inputs.npy: `PublishedRows.load` checks them."""
        return service.read(partial(_fetched, name=exchange))

    @route("POST /{exchange}/questions", "Ask for rows", "Questions", "conflict", "no-rounds-left")
    async def ask_rows(exchange: _Name, message: QuestionsRequest, token: Modeler) -> dict[str, Any]:
        """All of them or none; a row that was asked for before is the same question, with its answer."""
        return await written(lambda writes: ask(writes, exchange, message.rows))

    @route(
        "GET /{exchange}/questions", "What was asked, in that order, and answered", "Questions", "conflict"
    )
    def list_questions(exchange: _Name, token: Modeler) -> dict[str, Any]:
        """A modeler that starts again takes up its work from this."""
        return service.read(partial(questions, name=exchange))

    @route(
        "POST /{exchange}/work",
        "Rows for one of the curator's workers to answer",
        {"rows": [2, 0]},
        "conflict",
    )
    async def take_work(exchange: _Name, message: WorkRequest, token: Curator) -> dict[str, Any]:
        """A worker that comes back gets its own open rows first, then those that no worker has."""
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
        """Once; the same answer again changes nothing."""
        value = None if message.answer is None else float(message.answer)
        return await written(lambda writes: answer(writes, exchange, row, value, service.now()))


def _asked(message: ExchangeRequest) -> dict[str, Any]:
    """The request as it is kept: what was left out is left out of the promise."""
    return {"answers": None, **message.model_dump(exclude_none=True)}
