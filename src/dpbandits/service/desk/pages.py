"""Routes of the desk: pages and files for a token with the scope `read` or `admin`.

Without a login every page is the login form. The token is sent once, in the body of the form. From then on a
cookie stands for it, which scripts and pages of other sites cannot use. A form sent by another site is
refused.
"""

import asyncio
import csv
import hashlib
import hmac
import io
import json
import re
import secrets
from asyncio import wrap_future
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import combinations
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from dpbandits import __version__
from dpbandits.budget.accountants import ACCOUNTANTS, SUM_NAMES
from dpbandits.errors import ProtocolError
from dpbandits.local import ReadoutSpec, Server
from dpbandits.local.contract.readout import read_spec
from dpbandits.local.server.readout import LocalReadoutResult
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.pages import as_fragment
from dpbandits.service import policies
from dpbandits.service.budgets import balance_to_json, population_names
from dpbandits.service.core import Service
from dpbandits.service.decisions import OTHER_CONTEXT
from dpbandits.service.desk.pictures import Learned, Line, columns_of, drawn_map, learned, line, shares
from dpbandits.service.desk.sessions import (
    SECONDS,
    begin_session,
    end_session,
    form_field,
    named,
    session_token,
)
from dpbandits.service.engines import Kept
from dpbandits.service.gate import Doorkeeper, written_json
from dpbandits.service.keys import Keys
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Writes
from dpbandits.service.tokens import UNLIMITED, Limits, Token, token_of

__all__ = ["add_desk"]

SCOPES = frozenset({"read", "admin"})

MOST_SHOWN = 60
"""Largest number of releases in a picture. If there are more, evenly spread ones and the last are shown."""

MOST_MAPPED = 6
"""Largest number of columns of a local policy for which the desk draws maps; they are the first ones."""

REMEMBERED = 2000
"""Largest number of cached summaries of releases."""

_MOST_FORM = 1000
"""Largest size in bytes of a submitted form."""


class Charged(NamedTuple):
    """Row of the ledger's page: the charge of one policy, which is `central` or `local`."""

    population: str
    policy: str
    room: str
    status: str
    made_at: float
    promise: str
    sums: dict[str, str]
    simulated: bool

    @property
    def amounts(self) -> list[tuple[str, str]]:
        """Name and amount of each sum that the charge increases."""
        return [(name, amount) for name, amount in self.sums.items() if amount]

    def exported(self) -> dict[str, Any]:
        """Return the fields as a dictionary, with one entry for each sum of an account."""
        fields = {name: value for name, value in self._asdict().items() if name != "sums"}
        return fields | self.sums


def add_desk(app: FastAPI, service: Service, door: Doorkeeper) -> None:
    """Add the desk's pages to the application. `door` checks rates and limits of tokens."""
    desk = _Desk(service, door)
    for path, show in (
        ("/", desk.overview),
        ("/desk/populations/{population}", desk.population),
        ("/desk/policies/{policy}", desk.policy),
        ("/desk/policies/{policy}/statement", desk.statement),
        ("/desk/local/{survey}", desk.local),
        ("/desk/local/{survey}/by/{across}/{up}", desk.local),
        ("/desk/local/{survey}/statement", desk.local_statement),
        ("/desk/events", desk.events),
        ("/desk/ledger", desk.ledger),
        ("/desk/ledger.csv", desk.ledger_csv),
        ("/desk/ledger.json", desk.ledger_json),
    ):
        app.add_api_route(path, desk.behind_login(show), methods=["GET"], include_in_schema=False)

    @cache  # slow, and open without a token
    def interface() -> bytes:
        return bytes(desk.page("interface.html", document=app.openapi()).body)

    @cache
    def document() -> bytes:
        return written_json(app.openapi())

    def shown(written: Callable[[], bytes], media: str) -> Callable[[], Response]:
        return lambda: Response(written(), media_type=media)

    for path, written, media in (
        ("/docs", interface, "text/html"),
        ("/openapi.json", document, "application/json"),
    ):
        app.add_api_route(path, shown(written, media), methods=["GET"], include_in_schema=False)
    app.add_api_route("/desk/desk.css", _style, methods=["GET"], include_in_schema=False)
    app.add_api_route("/login", desk.log_in, methods=["POST"], include_in_schema=False)
    app.add_api_route("/logout", desk.log_out, methods=["POST"], include_in_schema=False)


class _Desk:
    """Pages of the desk, and their queries."""

    def __init__(self, service: Service, door: Doorkeeper) -> None:
        self._service, self._door = service, door
        self._known: dict[bytes, Learned] = {}
        self._templates = Environment(
            loader=PackageLoader("dpbandits.service.desk"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"time": _time, "number": _number, "interval": _interval}

    # -- who may -----------------------------------------------------------------------------------

    def behind_login(self, show: Callable[..., Response]) -> Callable[..., Response]:
        """Return a route that calls `show` after a login, and shows the login form otherwise."""

        def shown(request: Request) -> Response:
            cookie = self._cookie(request, "desk")
            token = self._read(session_token, cookie) if cookie else None
            if token is None:
                return self._form(request, 401, "")
            try:
                self._allow(token)
                if not request.path_params:
                    return show(token)
                self._door.refuse_beyond(token, request.path_params)
                beside = {"token": token} if show == self.population else {}
                return show(**request.path_params, **beside)
            except Problem as problem:
                return self.page("problem.html", problem.status, problem=problem.to_json())

        return shown

    def _read(self, call: Callable[[Reads, Keys, str, float], Token | None], secret: str) -> Token | None:
        keys, now = self._service.keys, self._service.now()
        return self._service.read(lambda reads: call(reads, keys, secret, now))

    def _allow(self, token: Token | None) -> Token:
        """Return the token."""
        if token is None:
            raise Problem("no-token", "This token is invalid, has ended, or was withdrawn.")
        self._door.slow_down(token.id)
        if token.scopes.isdisjoint(SCOPES):
            raise Problem("out-of-scope", "This token has neither the scope read nor admin.")
        return token

    async def log_in(self, request: Request) -> Response:
        """Check the token that a form sends, and set a cookie that stands for it."""
        _refuse_other_sites(request)
        body, form = await request.body(), self._cookie(request, "form")
        sent, due = _field(body, "form").encode(), form_field(self._service.keys, form).encode()
        if not form or not hmac.compare_digest(sent, due):
            return self._form(request, 403, "This form was old, or your browser keeps no cookies. Try again.")
        try:
            token = self._allow(await asyncio.to_thread(self._read, token_of, _field(body, "token")))
            keys, now = self._service.keys, self._service.now()
            # `writer` and not `Service.write`, because a read-only backup has sessions as well.
            beginning = self._service.writer.submit(lambda writes: begin_session(writes, keys, token, now))
            cookie = await wrap_future(beginning)
        except Problem as problem:
            return self._form(request, problem.status, problem.detail)
        answer = Response(status_code=303, headers={"Location": "/"})
        self._keep(request, answer, "desk", cookie)
        return answer

    def log_out(self, request: Request) -> Response:
        _refuse_other_sites(request)
        cookie, keys, now = self._cookie(request, "desk"), self._service.keys, self._service.now()
        self._service.writer.submit(lambda writes: end_session(writes, keys, cookie, now)).result()
        answer = Response(status_code=303, headers={"Location": "/"})
        self._keep(request, answer, "desk", "", seconds=0)
        return answer

    def _secure(self, request: Request) -> bool:
        return self._service.settings.behind_tls or request.url.scheme == "https"

    def _cookie(self, request: Request, what: str) -> str:
        return request.cookies.get(named(what, secure=self._secure(request)), "")

    def _keep(
        self, request: Request, answer: Response, what: str, cookie: str, *, seconds: int = SECONDS
    ) -> None:
        secure = self._secure(request)
        how: dict[str, Any] = {"max_age": seconds, "httponly": True, "samesite": "strict", "secure": secure}
        answer.set_cookie(named(what, secure=secure), cookie, **how)

    def _form(self, request: Request, status: int, said: str) -> Response:
        known = self._cookie(request, "form")  # a form in another tab may use it
        cookie = known if re.fullmatch(r"[\w-]{43}", known, re.ASCII) else secrets.token_urlsafe(32)
        answer = self.page("login.html", status, said=said, form=form_field(self._service.keys, cookie))
        self._keep(request, answer, "form", cookie)
        return answer

    def page(self, template: str, status: int = 200, **told: Any) -> Response:
        text = self._templates.get_template(template).render(version=__version__, **told)
        return Response(text, status_code=status, media_type="text/html")

    # -- pages -------------------------------------------------------------------------------------

    def overview(self, token: Token) -> Response:
        found, reach = self._service.read(policies.all_described), token.limits.reach
        return self.page(
            "overview.html",
            populations=self._balances(token.limits),
            policies=[one for one in found if reach(one["name"], one["population"])],
            local=[row for row in self._service.read(_local) if reach(row[1], row[2])],
            admin="admin" in token.scopes and token.limits == UNLIMITED,
        )

    def population(self, population: str, token: Token) -> Response:
        if population not in self._service.read(population_names):
            raise Problem("not-found", "There is no population of this name.")
        charged = [row for row in self._charged(token.limits) if row.population == population]
        balance = self._balance(population)
        adds = ACCOUNTANTS[balance["accountant"]]
        narrowed = token.limits.policies is not None
        told: dict[str, Any] = {"population": balance, "charged": charged, "adds": adds, "narrowed": narrowed}
        return self.page("population.html", **told)

    def policy(self, policy: str) -> Response:
        kept = self._service.read(lambda reads: policies.kept_policy(reads, policy))
        described = self._service.read(lambda reads: policies.described(reads, kept))
        asked: int | None = None
        ends: tuple[int, ...] = ()
        if not self._service.read_only:
            asked, ends = self._service.write(lambda writes: self._rounds(writes, kept)).result()
        releases = self._service.read(lambda reads: policies.releases_of(reads, kept.id))
        known = [(int(row[0]), int(row[1])) for row in releases]
        known = known[:: -(-len(known) // MOST_SHOWN)] + known[-1:] if len(known) > MOST_SHOWN else known
        texts = self._service.written_down(kept.id, [version for version, _ in known]) if known else []
        said = [(rounds, self._learned(text)) for (_, rounds), text in zip(known, texts, strict=True)]
        return self.page(
            "policy.html",
            policy=described,
            asked=asked,
            following=next((end - asked for end in ends if asked is not None and end > asked), None),
            planned=len(ends),
            releases=releases,
            picture=_picture(said, described["reward_range"]),
            said=said,
            latest=said[-1][1] if said else None,
            readout=self._service.readout(policy) if "readout" in described else None,
        )

    def statement(self, policy: str) -> Response:
        kept = self._service.read(lambda reads: policies.kept_policy(reads, policy))
        found = self._service.guarantee(policy)
        promised = Guarantee.from_json(found["guarantee"])
        return self._stated(kept.name, kept.population, kept.made_at, promised)

    def local(self, survey: str, across: str = "0", up: str = "1") -> Response:
        _, name, population, text, made_at = self._survey(survey)
        contract = read_spec(text)
        readout = isinstance(contract, ReadoutSpec)
        spec = contract.target if isinstance(contract, ReadoutSpec) else contract
        columns = columns_of(spec)
        pairs = [*combinations(range(min(len(columns), MOST_MAPPED)), 2)]
        pair: tuple[int, int | None] = (0, None)
        if pairs:
            pair = next((one for one in pairs if one == (_place(across), _place(up))), pairs[0])
        told: dict[str, Any] = {"published": None}
        if not self._service.read_only:
            server = self._service.surveys.server(name).server
            published = server.current
            told = {
                "published": published,
                "accepted": server.totals.accepted,
                "map": drawn_map(spec, published, *pair),
                "shares": shares(spec, published).tolist(),
                "columns": columns,
                "pairs": pairs,
                "across": pair[0],
                "up": pair[1],
            }
            if readout:
                told["answer"] = self._answer(server)
        shown = {"name": name, "population": population, "made_at": made_at, "spec": spec}
        return self.page("local.html", contract=contract, readout=readout, **shown, **told)

    @staticmethod
    def _answer(server: Server[Any]) -> LocalReadoutResult | None:
        """Return the answer of a readout; None while a group has no reports."""
        try:
            return server.readout()
        except ProtocolError:
            return None

    def local_statement(self, survey: str) -> Response:
        _, name, population, text, made_at = self._survey(survey)
        promised = read_spec(text).statement()
        return self._stated(name, population, made_at, promised)

    def _survey(self, name: str) -> tuple[Any, ...]:
        row = next((row for row in self._service.read(_local) if row[1] == name), None)
        if row is None:
            raise Problem("not-found", "There is no local policy of this name.")
        return row

    def _stated(self, name: str, population: str, made_at: float, promised: Guarantee) -> Response:
        statement, annex = promised.pages()
        return self.page(
            "statement.html",
            name=name,
            population=population,
            made_at=made_at,
            statement=as_fragment(statement),
            annex=as_fragment(annex, level=2),
            now=self._service.now(),
        )

    def ledger(self, token: Token) -> Response:
        return self.page("ledger.html", charged=self._charged(token.limits))

    def ledger_csv(self, token: Token) -> Response:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\r\n")
        charged = [{**row.exported(), "made_at": _time(row.made_at)} for row in self._charged(token.limits)]
        rows.writerow([name for name in Charged._fields if name != "sums"] + list(SUM_NAMES.values()))
        rows.writerows(row.values() for row in charged)
        return _file(text.getvalue(), "ledger.csv", "text/csv; charset=utf-8")

    def ledger_json(self, token: Token) -> Response:
        charges = [row.exported() for row in self._charged(token.limits)]
        told = {"populations": self._balances(token.limits), "charges": charges}
        return _file(json.dumps(told, indent=1), "ledger.json", "application/json")

    def events(self, token: Token) -> Response:
        if "admin" not in token.scopes or token.limits != UNLIMITED:
            raise Problem("out-of-scope", "Events need a token with the scope admin and without limits.")
        query = "SELECT e.at, e.what, e.subject, e.told, e.token, t.label FROM events e "
        query += "LEFT JOIN tokens t ON t.id = e.token WHERE e.what != ? ORDER BY e.number DESC LIMIT 200"
        found = self._service.read(lambda reads: reads.rows(query, OTHER_CONTEXT))
        return self.page("events.html", events=found)

    # -- what they ask -----------------------------------------------------------------------------

    def _balances(self, limits: Limits) -> list[dict[str, Any]]:
        names = self._service.read(population_names)
        return [self._balance(name) for name in names if limits.reach_population(name)]

    def _balance(self, name: str) -> dict[str, Any]:
        closed = self._service.read(
            lambda reads: reads.one("SELECT value FROM facts WHERE name = ?", f"closed {name}")
        )
        balance = balance_to_json(self._service.ledger.balance(name))
        return {"name": name, "closed": closed is not None, **balance}

    def _rounds(self, writes: Writes, kept: Kept) -> tuple[int | None, tuple[int, ...]]:
        """Return the number of rounds, and the round numbers of the releases."""
        row = writes.one("SELECT asked FROM progress WHERE policy = ?", kept.id)
        if row is None:
            return None, ()
        return int(row[0]), tuple(self._service.engines.use(writes, kept.id).policy.batch_boundaries)

    def _learned(self, text: str) -> Learned:
        """Return the summary of a function from its JSON.

        The cache is keyed by content, because a database that was rolled back may have another function
        under the same version.
        """
        digest = hashlib.sha256(text.encode()).digest()
        found = self._known.get(digest)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[digest] = learned(text)
        return found

    def _charged(self, limits: Limits) -> list[Charged]:
        rows = self._service.read(
            lambda reads: reads.rows(
                "SELECT id, name, population, status, made_at, asked FROM policies "
                "WHERE status <> 'beginning'"
            )
        )
        charges = [
            (identity, (population, name, "central", status, made_at), json.loads(asked)["privacy"])
            for identity, name, population, status, made_at, asked in rows
        ]
        for identity, name, population, spec, made_at in self._service.read(_local):
            promised = read_spec(spec).statement()
            privacy = {"epsilon": promised.epsilon, "delta": promised.delta or None}
            charges.append((f"local:{identity}", (population, name, "local", "active", made_at), privacy))
        found = []
        for identity, told, privacy in charges:
            charge = self._service.ledger.charged(told[0], identity)
            if charge is not None:
                amounts = zip(SUM_NAMES.values(), charge.amounts, strict=True)
                sums = {name: str(one) if one.is_finite() and one else "" for name, one in amounts}
                known = [name for name in ("epsilon", "delta") if privacy.get(name) is not None]
                promise = ", ".join(f"{name} {_number(privacy[name])}" for name in known)
                found.append(Charged(*told, promise, sums, charge.simulated))
        reached = [row for row in found if limits.reach(row.policy, row.population)]
        return sorted(reached, key=lambda row: (row.made_at, row.policy))


def _local(reads: Reads) -> list[tuple[Any, ...]]:
    """Return id, name, population, spec and creation time of each local policy."""
    return reads.rows("SELECT id, name, population, spec, made_at FROM surveys ORDER BY name")


def _picture(said: list[tuple[int, Learned]], reward_range: list[float]) -> Line | None:
    if not said:
        return None
    return line(
        [float(rounds) for rounds, _ in said],
        [one.reward for _, one in said],
        [one.sd for _, one in said],
        low=float(reward_range[0]),
        high=float(reward_range[1]),
    )


def _refuse_other_sites(request: Request) -> None:
    """Raise Problem if the browser says that another site sent the form.

    Clients that say nothing send no cookies.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem("out-of-scope", "Another site's page sent this form.")


def _place(text: str) -> int:
    """Return the number of a column, from its text in a path; -1 if invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1


def _field(body: bytes, name: str) -> str:
    try:
        found = parse_qs(body[:_MOST_FORM].decode("ascii"), max_num_fields=10)
    except ValueError:
        return ""
    return found.get(name, [""])[0].strip()


def _file(text: str, name: str, media: str) -> Response:
    return Response(text, media_type=media, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _style() -> Response:
    text = resources.files("dpbandits.service.desk").joinpath("desk.css").read_text()
    return Response(text, media_type="text/css")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _number(value: Any) -> str:
    return "unknown" if value is None else f"{float(value):.4g}"


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ("no bound" if one is None else f"{one:+.3g}" for one in ends)
    return f"{low} to {high}"
