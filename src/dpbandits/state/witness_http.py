r"""`HTTPWitness`: an append-only witness behind HTTP.

Protocol
--------
``URL/LINEAGE``, the lineage percent-encoded, with ``Authorization: Bearer TOKEN``; bodies are JSON.

=======  ===================================  ======  ===================================================
request  body                                 answer  body
=======  ===================================  ======  ===================================================
GET                                           200     ``{"last": {"position": 7, "digest": "ab"}}``, or
                                                      ``{"last": null}`` for a lineage never seen
POST     ``{"position": 8, "digest": "cd"}``  200     ``{"last": ...}``, the one that was sent: durable
                                                      before it is answered
POST     a position that is neither the last  409     ``{"last": ...}``, unchanged
         one repeated nor one further
any      anything else                        others  not read
=======  ===================================  ======  ===================================================

Compare and set are one step of the service. A repeated POST is harmless. A redirect is an error: it would
carry the token elsewhere.

The client waits at most `timeout` for each piece of an answer, so a service that sends one byte at a time can
hold it longer: it may stop the ledger's users anyway, and gains nothing else by it. What it does gain is said
in `dpbandits.state.witness`.
"""

import json
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from dpbandits import _checks
from dpbandits.errors import ForkedState, InvalidParameter, ProtocolError, StateError
from dpbandits.state.ledger import Witness, new_witness

__all__ = ["HTTPWitness"]

_LONGEST_ANSWER = 1 << 16
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_OK, _CONFLICT = 200, 409


class HTTPWitness:
    """A witness behind HTTP; the module's page has the protocol.

    Args:
        url: where the lineages are; https, or http to this very machine.
        token: sent as a bearer token. It stays out of messages and reprs.
        timeout: seconds of silence after which the service is taken to be unreachable.

    Raises:
        InvalidParameter: the url is not one, or would send the token in the clear.
    """

    def __init__(self, url: str, *, token: str, timeout: float = 10.0) -> None:
        self._url = _checked_url(url).rstrip("/")
        self._token = _checked_token(token)
        self._timeout = _checks.number(timeout, name="timeout")
        # Proxies of the environment are not used: an http address is this machine, and https needs none of
        # them to be trusted with the token.
        self._opener: OpenerDirector = build_opener(ProxyHandler({}), _NoRedirects())

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "an HTTPWitness cannot be copied or pickled: it holds a token. Build one where it is needed"
        )

    def last(self, lineage: str) -> Witness | None:
        """See `AppendOnlyWitness.last`."""
        new_witness(lineage, 0, "-")  # checks the name
        status, answer = self._ask("GET", lineage, None)
        if status != _OK:
            raise _refused(status)
        return _witness_in(answer, lineage)

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """See `AppendOnlyWitness.advance`."""
        new = new_witness(lineage, position, digest)
        status, answer = self._ask("POST", lineage, new._asdict())
        if status == _CONFLICT:
            last = _witness_in(answer, lineage)
            seen = "another state" if last is None else f"position {last.position}"
            raise ForkedState(
                f"the witness has seen {seen} and cannot take position {position}: another copy has gone on"
            )
        if status != _OK:
            raise _refused(status)
        if _witness_in(answer, lineage) != new:
            raise StateError("the witness answered with something else than it was told: look at its service")

    def __repr__(self) -> str:
        return "HTTPWitness()"

    def _ask(self, method: str, lineage: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        request = Request(  # noqa: S310 - the scheme was checked
            f"{self._url}/{quote(lineage, safe='')}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            try:
                answer = self._opener.open(request, timeout=self._timeout)
            except HTTPError as refusal:
                answer = refusal
            with answer:
                return int(answer.status), answer.read(_LONGEST_ANSWER)
        except (OSError, HTTPException) as error:  # URLError and time-outs are OSErrors
            raise StateError(
                f"the witness did not answer ({type(error).__name__}): nothing may leave before it does; "
                "repeat the call, which is safe"
            ) from None


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an answer with a status that is not 200."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Never follow."""


def _checked_url(url: str) -> str:
    if not isinstance(url, str):
        raise InvalidParameter(f"url is a {type(url).__name__}, expected https://HOST/PATH")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise InvalidParameter("url: expected https://HOST/PATH") from None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidParameter("url: expected https://HOST/PATH")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise InvalidParameter("url: http would send the token in the clear; use https")
    if parts.query or parts.fragment or parts.username is not None:
        raise InvalidParameter("url: expected no user, query or fragment; the token is an argument")
    return url


def _checked_token(token: object) -> str:
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InvalidParameter("token must be a non-empty string of printable ASCII characters")
    return token


def _refused(status: int) -> StateError:
    return StateError(
        f"the witness refused (status {status}): look at its address and token; nothing may leave "
        "before it agrees"
    )


def _witness_in(answer: bytes, lineage: str) -> Witness | None:
    try:
        last = json.loads(answer)["last"]
        return None if last is None else new_witness(lineage, last["position"], last["digest"])
    except (ValueError, TypeError, LookupError, RecursionError):
        raise StateError(
            "the witness answered with something that is no witness: look at its address"
        ) from None
