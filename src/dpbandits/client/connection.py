"""Connections to a service (one per thread), retries, and the exceptions for its problems."""

import http.client
import json
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from dpbandits import _checks
from dpbandits._seen import Seen
from dpbandits.errors import (
    BudgetExceeded,
    ContributionExceeded,
    DPBanditsError,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    ServiceUnavailable,
)

__all__ = ["SENT_TOGETHER", "Remote", "error_of", "strange", "waits"]

REPEATED = (408, 429, 502, 503, 504)
"""Statuses after which a request is repeated; every other status is final."""


FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""First and longest wait in seconds before a retry. The wait doubles each time; half of it is random."""


SENT_TOGETHER = 500
"""Number of rewards, contexts or reports in one request; the service accepts up to 1,000."""

LARGEST_ANSWER = 256 << 20
"""Largest answer in bytes, far more than a published function of 2,000 features needs."""


_HERE = ("127.0.0.1", "localhost", "::1")


_NAME, _TOKEN, _URL = (re.compile(one) for one in (r"[a-z0-9][a-z0-9._-]{0,63}", r"[!-~]{1,200}", "[!-~]*"))


_JSON, _PROBLEM, _BYTES = "application/json", "application/problem+json", "application/octet-stream"


_ERRORS: dict[str, type[DPBanditsError]] = {
    "budget-exceeded": BudgetExceeded,
    "defect": ServiceUnavailable,
    "invalid": InvalidData,
    "malformed": InvalidData,
    "no-rounds-left": HorizonExceeded,
    "no-token": InvalidParameter,
    "out-of-scope": InvalidParameter,
    "too-large": InvalidData,
    "user-has-had-all": ContributionExceeded,
}
"""Slug of a problem -> exception. All other slugs raise ProtocolError; `REPEATED` statuses take precedence
and raise ServiceUnavailable."""


class _Answer(NamedTuple):
    """Answer to one attempt: status, media type, body, and seconds of `Retry-After` (0 if absent)."""

    status: int
    media: str
    body: bytes
    retry_after: float

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise strange() from None


class Remote(Seen):
    """Resource of a service, such as a policy, with one connection per thread.

    `kind` is the part of the path before its `name`: `policies`, `local` or `tokens`.
    """

    def __init__(
        self,
        kind: str,
        url: str,
        name: str | None,
        *,
        token: str,
        timeout: float = 5.0,
        patience: float = 30.0,
        plain_http: bool = False,
    ) -> None:
        self._secure, self._host, self._port, self._path = _address(url, plain_http=plain_http)
        if name is not None and not _fits(name, _NAME):
            raise InvalidParameter("name: expected a policy's name, of small letters, digits and . _ -")
        if not _fits(token, _TOKEN):
            raise InvalidParameter("token: expected the text that the service showed once")
        self._timeout = _checks.number(timeout, name="timeout")
        self._patience = _checks.number(patience, name="patience", minimum=0.0)
        self._name, self._token, self._local = name, token, threading.local()
        self._under = f"{self._path}/v1/{kind}" + ("" if name is None else f"/{name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self._name is None else repr(self._name)})"

    def __reduce__(self) -> Any:
        raise ProtocolError(f"a {type(self).__name__} holds a token: build another one where it is needed")

    def close(self) -> None:
        """Close this thread's connection; the next call opens another."""
        vars(self._local).pop("held", None)

    # -- inside ------------------------------------------------------------------------------------

    def _made(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        missing: type[DPBanditsError] = InvalidParameter,
        patience: float | None = None,
    ) -> dict[str, Any]:
        """Send a request, with retries, and return the JSON object of the answer."""
        data, media = None if body is None else json.dumps(_plain(body), allow_nan=False).encode(), _JSON
        if isinstance(body, bytes):
            data, media = body, _BYTES
        until = time.monotonic() + (self._patience if patience is None else patience)
        waited = waits()
        while True:
            asked_for = 0.0
            try:
                answer = self._once(method, f"{self._under}{path}", data, media)
                if answer.status in (200, 201, 204):
                    found = {} if answer.status == 204 else answer.json()
                    if not isinstance(found, dict):
                        raise strange()
                    return found
                error, asked_for = _refusal(answer, missing), answer.retry_after
            except ServiceUnavailable as unreached:
                error = unreached
            if not isinstance(error, ServiceUnavailable):
                raise error
            pause = max(asked_for, next(waited) * (0.5 + secrets.randbelow(501) / 1000.0))
            if time.monotonic() + pause > until:
                raise error from None
            time.sleep(pause)

    def _once(self, method: str, path: str, data: bytes | None, media: str) -> _Answer:
        """Make one attempt. If the server has closed an idle connection, send it on a new one."""
        connection = self._connection()
        if connection.sock is not None:
            with suppress(OSError, http.client.HTTPException):
                return self._on(connection, method, path, data, media)
        try:
            return self._on(connection, method, path, data, media)
        except (OSError, http.client.HTTPException) as error:
            kind = type(error).__name__
            raise ServiceUnavailable(f"the service did not answer ({kind}): repeat the request") from None

    def _on(
        self, connection: http.client.HTTPConnection, method: str, path: str, data: bytes | None, sent: str
    ) -> _Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": _JSON}
        if data is not None:
            headers["Content-Type"] = sent
        whole = False
        try:
            connection.request(method, path, data, headers)
            reply = connection.getresponse()
            text = reply.read(LARGEST_ANSWER + 1)
            whole = len(text) <= LARGEST_ANSWER
        finally:
            if not whole:  # else the next request would read the rest of this answer
                connection.close()
        if not whole or (reply.length or 0) > 0:
            connection.close()
            raise http.client.IncompleteRead(b"")
        media = (reply.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        asked_for = reply.headers.get("Retry-After") or ""
        seconds = float(asked_for) if asked_for.isascii() and asked_for.isdigit() else 0.0
        return _Answer(reply.status, media, text, seconds)

    def _connection(self) -> http.client.HTTPConnection:
        """Return the connection of this thread and process; sharing one would mix up answers."""
        held: _Held | None = getattr(self._local, "held", None)
        if held is None or held.process != os.getpid():
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            held = self._local.held = _Held(kind(self._host, self._port, timeout=self._timeout))
        return held.connection


class _Held:
    """Connection that is closed when its last reference is gone."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection, self.process = connection, os.getpid()

    def __del__(self) -> None:
        self.connection.close()


def _address(url: object, *, plain_http: bool) -> tuple[bool, str, int | None, str]:
    wrong = InvalidParameter("url: expected the service's address, as https://decisions.example.org")
    if not _fits(url, _URL):
        raise wrong
    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise wrong
    if parts.scheme == "http" and host not in _HERE and not plain_http:
        raise InvalidParameter(
            "url: http shows contexts, rewards and the token to the network: use https, or pass "
            "plain_http=True where the network is private"
        )
    return parts.scheme == "https", host, port, parts.path.rstrip("/")


def waits() -> Iterator[float]:
    """Yield the seconds to wait before each retry, without end."""
    wait = FIRST_WAIT
    while True:
        yield wait
        wait = min(2.0 * wait, LONGEST_WAIT)


def _fits(text: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _refusal(answer: _Answer, missing: type[DPBanditsError]) -> DPBanditsError:
    """Return the exception for a status other than 200; it repeats only the service's own words."""
    problem: Any = None
    if answer.media == _PROBLEM:
        with suppress(ServiceUnavailable):
            problem = answer.json()
    return error_of(problem, answer.status, missing) if isinstance(problem, dict) else strange()


def error_of(problem: dict[str, Any], status: object, missing: type[DPBanditsError]) -> DPBanditsError:
    """Return the exception for a problem of the service."""
    slug = str(problem.get("type")).removeprefix("urn:dpbandits:")
    said = str(problem.get("detail") or problem.get("title"))[:1000]
    if status in REPEATED:
        return ServiceUnavailable(said)
    return (missing if slug == "not-found" else _ERRORS.get(slug, ProtocolError))(said)


def strange() -> ServiceUnavailable:
    """Return the error for an answer that the service cannot have sent."""
    return ServiceUnavailable(
        "the answer did not come from the service: check the address and any proxy before it"
    )


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it; values that it cannot hold become None, which means missing."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    with suppress(AttributeError, TypeError, ValueError):
        return str(value.isoformat())
    return None
