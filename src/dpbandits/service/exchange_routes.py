"""Routes of outsourced tables: what a curator and a modeler say to each other; see `exchanges`."""

import asyncio
from asyncio import wrap_future
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Response

from dpbandits.service import exchanges
from dpbandits.service.core import Service
from dpbandits.service.documented import Admin, AdminWithin, Curator, Modeler, Needs, ReaderWithin, Routes
from dpbandits.service.messages import (
    IN_PATH,
    AnswerRequest,
    ExchangeRequest,
    QuestionsRequest,
    ReleaseRequest,
    WorkRequest,
)
from dpbandits.service.store import Writes
from dpbandits.service.tokens import Token

__all__ = ["add_exchanges"]

_Name = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["doses"])]
_Row = Annotated[int, Path(ge=0, le=1 << 48, examples=[2])]
_Party = Annotated[Token, Depends(Needs("curate", "model"))]
_Anybody = Annotated[Token, Depends(Needs("admin", "read", "curate", "model"))]


def add_exchanges(app: FastAPI, service: Service) -> None:
    """The routes."""
    route = Routes(app, "outsourced", "/v1/outsourced")

    async def written(call: Callable[[Writes], dict[str, Any]]) -> dict[str, Any]:
        return await wrap_future(service.write(call))

    @route("POST :preview", "What an exchange would cost", "Preview", "not-found")
    def preview_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """Nothing is kept or charged."""
        token.refuse_new(message.name, message.population)
        return exchanges.preview_exchange(service.ledger, _asked(message))

    @route("POST ", "Begin an exchange", "Exchange", "not-found", "conflict", "budget-exceeded", status=201)
    async def begin_exchange(message: ExchangeRequest, token: AdminWithin) -> dict[str, Any]:
        """Its population pays for the release and all answers, before the curator draws anything."""
        token.refuse_new(message.name, message.population)
        asked = _asked(message)
        return await written(
            lambda writes: exchanges.begin_exchange(writes, service.ledger, asked, service.now(), token.id)
        )

    @route("GET ", "All exchanges", "Exchanges")
    def list_exchanges(token: ReaderWithin) -> dict[str, Any]:
        with service.store.reading() as reads:
            names = exchanges.exchange_names(reads)
            found = [exchanges.described_exchange(reads, name) for name in names]
        reach = token.limits.reach
        return {"exchanges": [one for one in found if reach(one["name"], one["population"])]}

    @route("GET /{exchange}", "One exchange, and the statement of its release", "Exchange")
    def get_exchange(exchange: _Name, token: _Anybody) -> dict[str, Any]:
        return service.read(partial(exchanges.described_exchange, name=exchange))

    @route("DELETE /{exchange}", "Erase an exchange's release and answers", None, status=204)
    async def end_exchange(exchange: _Name, token: Admin) -> Response:
        """For good; what was paid stays paid, and whoever has fetched it has it."""
        how: dict[str, Any] = {"name": exchange, "now": service.now(), "by": token.id}
        await wrap_future(service.write(partial(exchanges.end_exchange, **how)))
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
        new = await asyncio.to_thread(service.read, partial(exchanges.checked_upload, name=exchange, **given))
        return await written(lambda writes: exchanges.upload(writes, exchange, new, service.now(), token.id))

    @route("GET /{exchange}/release", "The release", "Release", "conflict")
    def get_release(exchange: _Name, token: _Party) -> dict[str, Any]:
        """`description` is release.json, and `inputs` inputs.npy: `PublishedRows.load` checks them."""
        return service.read(partial(exchanges.fetched, name=exchange))

    @route("POST /{exchange}/questions", "Ask for rows", "Questions", "conflict", "no-rounds-left")
    async def ask_rows(exchange: _Name, message: QuestionsRequest, token: Modeler) -> dict[str, Any]:
        """All of them or none; a row that was asked for before is the same question, with its answer."""
        return await written(lambda writes: exchanges.ask(writes, exchange, message.rows))

    @route(
        "GET /{exchange}/questions", "What was asked, in that order, and answered", "Questions", "conflict"
    )
    def list_questions(exchange: _Name, token: Modeler) -> dict[str, Any]:
        """A modeler that starts again takes up its work from this."""
        return service.read(partial(exchanges.questions, name=exchange))

    @route(
        "POST /{exchange}/work",
        "Rows for one of the curator's workers to answer",
        {"rows": [2, 0]},
        "conflict",
    )
    async def take_work(exchange: _Name, message: WorkRequest, token: Curator) -> dict[str, Any]:
        """A worker that comes back gets its own open rows first, then those that no worker has."""
        how = message.model_dump()
        return await written(lambda writes: exchanges.open_work(writes, service.keys, exchange, **how))

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
        return await written(lambda writes: exchanges.answer(writes, exchange, row, value, service.now()))


def _asked(message: ExchangeRequest) -> dict[str, Any]:
    """The request as it is kept: what was left out is left out of the promise."""
    return {"answers": None, **message.model_dump(exclude_none=True)}
