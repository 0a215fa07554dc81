"""`RemotePolicy`: a policy of a service, asked and told as one of this process; `AsyncRemotePolicy` awaits.
`RemoteServer` is a local one, for people's own devices; `RemoteTokens` makes, lists and rotates tokens.

*Retries.* Every ask has an id, the caller's or a random one, and is repeated with it: whichever attempt
arrived first took the one round, and all get its answer. An attempt is repeated where no answer came, where
the answer is none of the service's, or where the service asks for patience (408, 429, 502, 503, 504).

*Rewards while the service is away.* With `queue`, a reward that cannot be sent is written to this folder
(mode 0700), durably, and `tell` gives `Receipt.QUEUED`; it is sent behind the next one that gets through, or
by `flush`, and then deleted. Until then the folder holds rewards of people: keep it as you keep those.

*What travels.* The context, the user and the reward, to the service alone; so a URL of another machine needs
https, or `plain_http=True` where the network is private. No redirect is followed, the token is in a header
only, and no error repeats what was sent.
"""

import asyncio
import hashlib
import http.client
import json
import math
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._seen import Seen
from dpbandits.domains.arms import Label
from dpbandits.errors import (
    BudgetExceeded,
    ContributionExceeded,
    CorruptState,
    DPBanditsError,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    ServiceUnavailable,
    UnknownDecision,
)
from dpbandits.local.device.outbox import FileOutbox
from dpbandits.policy.decision import Decision, Receipt

if TYPE_CHECKING:
    from dpbandits.central.published_function import PublishedFunction
    from dpbandits.local.contract.bins import PublishedArms
    from dpbandits.local.contract.spec import Spec

__all__ = ["AsyncRemotePolicy", "RemoteDecision", "RemotePolicy", "RemoteServer", "RemoteTokens"]

_T = TypeVar("_T")
_P = ParamSpec("_P")

REPEATED = (408, 429, 502, 503, 504)
"""Statuses that ask for patience; of all others the answer is an answer."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""Seconds before the first repetition, doubled each time up to the second number; half of it is drawn."""

SENT_TOGETHER = 500
"""Rewards of the queue in one request; the service takes up to 1,000."""

MOST_AWAITED = 32
"""Calls of an `AsyncRemotePolicy` that are on their way at once; more of them wait."""

_LONGEST_REPORT = 0xFFFF

LARGEST_ANSWER = 256 << 20
"""Bytes: far more than a published function of 2,000 features has."""

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
"""Slug of a problem -> what is raised; ProtocolError for all others, ServiceUnavailable for `REPEATED`."""

_OUTCOMES = {"counted": Receipt.COUNTED, "late": Receipt.LATE, "duplicate": Receipt.REFUSED}


@dataclass(frozen=True, repr=False)
class RemoteDecision(Decision):
    """A decision of a service. Where the policy has arms, `index` is -1 and `action` is empty: `arm` says it.

    Attributes:
        release: how many releases it rests on.
        fallback: whether no round was left for it, or it was refused: the arm is the policy's fallback.
        reason: why there was no answer but the fallback, as "context"; None where there was one.
        faults: (column, rule) of each cell of the context that could not be read; never a value.
        expires_at: seconds since 1970 when its wait for a reward is over, or None.
        would_choose: of a policy that only watches, the arm that it would have chosen.
    """

    release: int = 0
    fallback: bool = False
    reason: str | None = None
    faults: tuple[tuple[str, str], ...] = ()
    expires_at: float | None = None
    would_choose: Label | None = None


class _Answer(NamedTuple):
    """Answer of the service itself; proxies between have no part in it."""

    status: int
    media: str
    body: bytes
    retry_after: float

    def json(self) -> Any:
        """The body; ServiceUnavailable where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise _strange() from None


def _strange() -> ServiceUnavailable:
    return ServiceUnavailable("what answered is not the service: check its address and what is before it")


class _Remote(Seen):
    """A named thing of a service, under `policies` or `local`, and each thread's one connection to it."""

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
        """A request until it is answered; what the answer holds, or what it refuses with."""
        data, media = None if body is None else json.dumps(_plain(body), allow_nan=False).encode(), _JSON
        if isinstance(body, bytes):
            data, media = body, _BYTES
        until = time.monotonic() + (self._patience if patience is None else patience)
        wait = FIRST_WAIT
        while True:
            asked_for = 0.0
            try:
                answer = self._once(method, f"{self._under}{path}", data, media)
                if answer.status in (200, 201, 204):
                    found = {} if answer.status == 204 else answer.json()
                    if not isinstance(found, dict):
                        raise _strange()
                    return found
                error, asked_for = _refusal(answer, missing), answer.retry_after
            except ServiceUnavailable as unreached:
                error = unreached
            if not isinstance(error, ServiceUnavailable):
                raise error
            pause = max(asked_for, wait * (0.5 + secrets.randbelow(501) / 1000.0))
            if time.monotonic() + pause > until:
                raise error from None
            time.sleep(pause)
            wait = min(2.0 * wait, LONGEST_WAIT)

    def _once(self, method: str, path: str, data: bytes | None, media: str) -> _Answer:
        """One attempt; where a connection that lay open was closed meanwhile, on a new one."""
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
            if not whole:  # whatever comes of this connection now would be another request's answer
                connection.close()
        if not whole or (reply.length or 0) > 0:
            connection.close()
            raise http.client.IncompleteRead(b"")
        media = (reply.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        asked_for = reply.headers.get("Retry-After") or ""
        seconds = float(asked_for) if asked_for.isascii() and asked_for.isdigit() else 0.0
        return _Answer(reply.status, media, text, seconds)

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's, and this process's: two that share one would get each other's answers."""
        held: _Held | None = getattr(self._local, "held", None)
        if held is None or held.process != os.getpid():
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            held = self._local.held = _Held(kind(self._host, self._port, timeout=self._timeout))
        return held.connection


@worded
class RemotePolicy(_Remote):
    """A policy of a service.

    Safe to share between threads and after a fork: each has its own connection.

    Args:
        url: of the service, as https://decisions.example.org.
        name: of the policy.
        token: with the scopes of what is called: `decide`, `reward`, `read`.
        queue: folder for rewards while the service is away; those of each address wait apart. Default none.
        timeout: seconds that the service may be silent during an attempt.
        patience: seconds in which an ask is repeated; a tell too, unless there is a queue.
        plain_http: whether http to another machine is fine.

    Raises:
        InvalidParameter: a URL, name or token that cannot be.
        StateError: others may write to the queue's folder.

    Example:
        >>> offers = RemotePolicy("http://127.0.0.1:8080", "offers", token="dpb_of_yours")
        >>> offers
        RemotePolicy('offers')
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str,
        queue: str | os.PathLike[str] | None = None,
        timeout: float = 5.0,
        patience: float = 30.0,
        plain_http: bool = False,
    ) -> None:
        waits = {"timeout": timeout, "patience": patience}
        super().__init__("policies", url, name, token=token, **waits, plain_http=plain_http)
        self._queue: FileOutbox | None = None
        if queue is not None:
            whose = f"{self._secure} {self._host} {self._port} {self._path} {name}"
            self._queue = FileOutbox(Path(queue) / hashlib.sha256(whose.encode()).hexdigest()[:16])

    def ask(
        self,
        brought: Any = None,
        user: object | None = None,
        *,
        available: Any = None,
        id: str | None = None,  # noqa: A002 - as the service calls it
        arm: Label | None = None,
        deferred: bool = False,
    ) -> RemoteDecision:
        """Choose an arm, or a row.

        What cannot be written as JSON is sent as missing: the service judges it, and its round is taken.

        Args:
            brought: a context by column, or candidates (n, d); None for the whole domain.
            user: a text or an integer.
            available: labels of arms that can be chosen; default all.
            id: names the request among those of this token; default a random one.
            arm: of a policy that only watches, what was chosen.
            deferred: it is not shown yet: tell its reward, or activate it, when it is.

        Raises:
            InvalidData: what was brought cannot be answered; the round is taken.
            ContributionExceeded, HorizonExceeded: no round is left for this user, or at all.
            ServiceUnavailable: no answer came. Ask again with the same id, if you gave one.
            ProtocolError: the id was used for another request, or the policy decides for nobody now.
            InvalidParameter: there is no such policy, or the token may not ask.
        """
        sent = _request(brought, user, available=available, name=id, arm=arm, deferred=deferred)
        return _decision(self._made("POST", "/decisions", sent))

    def ask_batch(
        self,
        brought: Sequence[Any],
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        ids: Sequence[str] | None = None,
        arms: Sequence[Label] | None = None,
        deferred: bool = False,
    ) -> list[RemoteDecision | DPBanditsError]:
        """Choose for several people. A refusal of one changes no other answer.

        Args:
            brought: of each what `ask` takes.
            users: one each.
            available: as of `ask`, for all of them.
            ids: one each, as of `ask`; default random ones.
            arms: of a policy that only watches, what was chosen, one each.
            deferred: as of `ask`, for all of them.

        Returns:
            In this order decisions; where there is none, the error that `ask` would have raised.

        Raises:
            InvalidData: not one of everything each; nothing was sent.
            InvalidParameter: the token may not ask.
        """
        count = len(brought)
        lists: list[Any] = [users, ids, arms]
        if any(one is not None and len(one) != count for one in lists):
            raise InvalidData(
                f"ask_batch: expected {count} users, ids and arms, one for each that was brought"
            )
        each = [[None] * count if one is None else one for one in lists]
        body = [
            _request(one, user, available=available, name=name, arm=arm, deferred=deferred)
            for one, user, name, arm in zip(brought, *each, strict=True)
        ]
        return self._batched("/decisions:batch", "decisions", body, lambda one: _decision(one["decision"]))

    def check(self, contexts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask what the policy would make of contexts. No round is taken, and nothing is written.

        Returns:
            Of each, in this order: `fits`, whether it can be read; `faults`, the column and the rule of each
            cell that cannot; `replaced`, the same of cells that a declared value stands for; and `ignored`,
            the number of members that are no column.

        Raises:
            InvalidData: no contexts, or the policy chooses among candidates.
            ServiceUnavailable, InvalidParameter: as `ask`.
        """
        body = {"contexts": [_brought(one) for one in contexts]}
        return _results(self._made("POST", "/decisions:check", body), len(contexts))

    def tell(self, decision_id: str, reward: float | None) -> Receipt:
        """Give a decision its reward; None or NaN say that it will not come, and need the scope `decide`.

        Returns:
            `REFUSED` where it was told before; after a repetition, perhaps by the attempt whose answer was
            lost. `QUEUED` where it waits in the queue.

        Raises:
            InvalidData: the reward is no number, or off the range.
            UnknownDecision: the id is not this policy's.
            ServiceUnavailable: no answer came, and there is no queue.
        """
        value = _number(reward)
        if self._queue is None:
            return self._told(decision_id, value, self._patience)
        key = hashlib.sha256(_text(decision_id).encode()).hexdigest()
        if self._queue.get(key) is not None:
            return Receipt.REFUSED
        try:
            receipt = self._told(decision_id, value, 0.0)
        except ServiceUnavailable:
            self._queue.put(key, json.dumps([decision_id, value]).encode())
            return Receipt.QUEUED
        with suppress(DPBanditsError):  # this one is told; `flush` by hand says what is wrong
            self.flush()
        return receipt

    def tell_batch(
        self, decision_ids: Sequence[str], rewards: Sequence[float]
    ) -> list[Receipt | DPBanditsError]:
        """Give decisions their rewards, each with a receipt of its own; none of them is queued.

        Returns:
            In this order receipts as `tell` gives them; where there is none, the error that it would raise.

        Raises:
            InvalidData: not one reward a decision, or one that is NaN, None or no number; nothing was sent.
            InvalidParameter: the token may not tell rewards.
        """
        values = [_number(one) for one in rewards]
        if len(values) != len(decision_ids) or None in values:
            raise InvalidData("tell_batch: expected one number for each decision; abandon those without")
        pairs = zip(decision_ids, values, strict=True)
        body = [{"decision": _text(one), "reward": value} for one, value in pairs]
        return self._batched("/rewards:batch", "rewards", body, _receipt, missing=UnknownDecision)

    def abandon(self, decision_id: str) -> Receipt:
        """Say that a decision will never have a reward; as `tell` of None."""
        return self.tell(decision_id, None)

    def flush(self) -> dict[Receipt, int]:
        """Send what waits in the queue, once; how many of each receipt there were.

        `REFUSED` are those told before, and those that the service will never take: they are deleted.

        Raises:
            ServiceUnavailable: no answer came; what was not answered waits on.
            InvalidParameter: the token may not tell rewards; all of them wait on.
        """
        made: Counter[Receipt] = Counter()
        if self._queue is not None:
            waiting = [*self._queue.pending().items()]
            for first in range(0, len(waiting), SENT_TOGETHER):
                part = [(key, *_kept(stored)) for key, stored in waiting[first : first + SENT_TOGETHER]]
                for key, receipt in self._sent(part):
                    self._queue.remove(key)
                    made[receipt] += 1
        return dict(made)

    @property
    def queued(self) -> int:
        """Rewards that wait on this disk."""
        return 0 if self._queue is None else len(self._queue.pending())

    def activate(self, decision_id: str) -> None:
        """A deferred decision was shown; see `ask`. Raises as `tell`."""
        self._made("POST", f"/decisions/{_quoted(decision_id)}:activate", {}, missing=UnknownDecision)

    def status(self, decision_id: str) -> str:
        """Return the status of a decision, in one word. Needs the scope `decide`; raises as `tell`."""
        path = f"/decisions/{_quoted(decision_id)}"
        return str(self._made("GET", path, None, missing=UnknownDecision).get("status"))

    def releases(self) -> list[dict[str, Any]]:
        """Return the releases: version, rounds in it, and when. Needs the scope `read`."""
        return list(self._made("GET", "/releases", None)["releases"])

    def publish(self) -> "PublishedFunction":
        """Return the policy's published function: it decides anywhere, for ever. Needs the scope `read`."""
        from dpbandits.central.published_function import PublishedFunction

        answer = self._made("GET", "/policy", None)
        return PublishedFunction.from_files({"policy.json": json.dumps(answer).encode()})

    def statement(self) -> str:
        """The policy's statement, as prose. Needs the scope `read`."""
        return str(self._made("GET", "/guarantee", None)["statement"])

    # -- inside ------------------------------------------------------------------------------------

    def _told(self, decision_id: str, value: float | None, patience: float) -> Receipt:
        path = f"/decisions/{_quoted(decision_id)}"
        if value is None:
            answer = self._made("POST", f"{path}:abandon", {}, missing=UnknownDecision, patience=patience)
            became = str(answer.get("status"))
            return {"abandoned": Receipt.ABANDONED, "late": Receipt.LATE}.get(became, Receipt.REFUSED)
        body = {"reward": value}
        answer = self._made("PUT", f"{path}/reward", body, missing=UnknownDecision, patience=patience)
        return _receipt(answer)

    def _batched(
        self,
        path: str,
        name: str,
        body: list[dict[str, Any]],
        read: Callable[[Any], _T],
        *,
        missing: type[DPBanditsError] = InvalidParameter,
    ) -> list[_T | DPBanditsError]:
        """Results of a batch in order; those for which the service asks for patience are sent again."""
        found: dict[int, _T | DPBanditsError] = {}
        until, wait = time.monotonic() + self._patience, FIRST_WAIT
        left = list(range(len(body)))
        while True:
            for first in range(0, len(left), SENT_TOGETHER):
                part = left[first : first + SENT_TOGETHER]
                patience = max(0.0, until - time.monotonic())
                sent = {name: [body[place] for place in part]}
                try:
                    answer = self._made("POST", path, sent, patience=patience)
                    results = _results(answer, len(part))
                    made = [_of_batch(one, read, missing) for one in results]
                except ServiceUnavailable as error:
                    made = [error] * len(part)
                found |= zip(part, made, strict=True)
            left = [place for place in left if isinstance(found[place], ServiceUnavailable)]
            if not left or time.monotonic() + wait > until:
                break
            time.sleep(wait)
            wait = min(2.0 * wait, LONGEST_WAIT)
        return [found[place] for place in range(len(body))]

    def _sent(self, part: list[tuple[str, str, float | None]]) -> Iterator[tuple[str, Receipt]]:
        """Send rewards in one request, and then what has none; yield key and receipt of what is done."""
        told = [one for one in part if one[2] is not None]
        if told:
            body = {"rewards": [{"decision": decision, "reward": value} for _, decision, value in told]}
            answer = self._made("POST", "/rewards:batch", body, patience=0.0)
            for (key, _, _), one in zip(told, _results(answer, len(told)), strict=True):
                problem = one.get("problem") if isinstance(one, dict) else None
                if problem is None:
                    yield key, _receipt(one)
                elif isinstance(problem, dict) and problem.get("status") in (404, 409, 410, 422):
                    yield key, Receipt.REFUSED
        for key, decision, _ in (one for one in part if one[2] is None):
            try:
                receipt = self._told(decision, None, 0.0)
            except UnknownDecision:
                receipt = Receipt.REFUSED
            yield key, receipt


class _Held:
    """A connection, closed when nobody holds it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection, self.process = connection, os.getpid()

    def __del__(self) -> None:
        self.connection.close()


def _awaited(
    call: Callable[Concatenate[RemotePolicy, _P], _T],
) -> Callable[Concatenate["AsyncRemotePolicy", _P], Coroutine[Any, Any, _T]]:
    """A method of `AsyncRemotePolicy` that runs this one of `RemotePolicy` in a thread."""

    @wraps(call)
    async def awaited(self: "AsyncRemotePolicy", *given: _P.args, **named: _P.kwargs) -> _T:
        work = partial(call, self._policy, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    return awaited  # type: ignore[return-value]  # mypy takes what `wraps` returns for no method


@worded
class AsyncRemotePolicy(Seen):
    """`RemotePolicy`, of the same arguments and errors, whose calls are awaited; each runs in a thread.

    An ask that is cancelled may have taken its round.
    """

    def __init__(self, url: str, name: str, **options: Any) -> None:
        self._policy = RemotePolicy(url, name, **options)
        self._threads = ThreadPoolExecutor(MOST_AWAITED, thread_name_prefix="dpbandits remote")

    def __repr__(self) -> str:
        return f"Async{self._policy!r}"

    ask = _awaited(RemotePolicy.ask)
    ask_batch = _awaited(RemotePolicy.ask_batch)
    check = _awaited(RemotePolicy.check)
    tell = _awaited(RemotePolicy.tell)
    tell_batch = _awaited(RemotePolicy.tell_batch)
    abandon = _awaited(RemotePolicy.abandon)
    flush = _awaited(RemotePolicy.flush)
    activate = _awaited(RemotePolicy.activate)
    status = _awaited(RemotePolicy.status)
    releases = _awaited(RemotePolicy.releases)
    publish = _awaited(RemotePolicy.publish)
    statement = _awaited(RemotePolicy.statement)


@worded
class RemoteServer(_Remote):
    """A local policy of a service, for people's own devices.

    What is published comes from it, and reports go to it. Each report is private before it leaves the device:
    `local.Client` makes it, and keeps it in its outbox until it was sent.

    Arguments and errors are those of `RemotePolicy`, without a queue; the token has the scope `report`.

    Example:
        >>> RemoteServer("http://127.0.0.1:8080", "tips", token="dpb_of_yours")
        RemoteServer('tips')
    """

    def __init__(self, url: str, name: str, *, token: str, **options: Any) -> None:
        super().__init__("local", url, name, token=token, **options)

    def publish(self) -> "tuple[Spec, PublishedArms]":
        """The contract, and the latest version of it that was published.

        Pin the contract where devices are built: a service that sends another one is refused by whoever does.

        Raises:
            ServiceUnavailable: no answer came.
            InvalidParameter: there is no such local policy, or the token may not ask.
            IncompatibleState: what came is no contract, or does not fit it.
        """
        from dpbandits.local.contract.spec import Spec

        answer = self._made("GET", "/policy", None)
        try:
            spec = Spec.from_json(json.dumps(answer["spec"]))
            return spec, spec.protocol.publishes.from_json(json.dumps(answer["published"]), spec)
        except KeyError:
            raise _strange() from None

    def absorb(self, reports: Sequence[bytes]) -> int:
        """Send reports; how many of them were accepted, when they are on the service's disk.

        Those that were not came before, answer a version that is closed, or are no reports of this contract.
        Whatever is raised, send them again: a report that comes twice counts once.

        Raises:
            InvalidData: no reports, or one longer than 65,535 bytes.
            ServiceUnavailable, InvalidParameter: as `publish`.
        """
        accepted = 0
        for first in range(0, len(reports), SENT_TOGETHER):
            part = reports[first : first + SENT_TOGETHER]
            if not {bytes} >= {*map(type, part)} or max(map(len, part)) > _LONGEST_REPORT:
                raise InvalidData(f"absorb: expected reports as bytes, each of at most {_LONGEST_REPORT}")
            body = b"".join(len(one).to_bytes(2, "little") + one for one in part)
            accepted += int(self._made("POST", "/reports", body)["accepted"])
        return accepted


@worded
class RemoteTokens(_Remote):
    """Tokens of a service, for a token with the scope `admin`. Arguments and errors: see `RemotePolicy`.

    Making is not repeated: where no answer came, `listed` says whether it is there, and `rotate` gives it a
    text.

    Example:
        >>> RemoteTokens("http://127.0.0.1:8080", token="dpb_of_yours")
        RemoteTokens()
    """

    def __init__(self, url: str, *, token: str, **options: Any) -> None:
        super().__init__("tokens", url, None, token=token, **options)

    def make(
        self,
        label: str,
        scopes: Sequence[str],
        *,
        policies: Sequence[str] | None = None,
        populations: Sequence[str] | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Make a token; its text is in `token` of the answer, and nowhere else.

        `policies` and `populations` are lists of names that it reaches, by default all: each narrows the
        other. It ends after `seconds`; by default it does not.
        """
        body = {"label": label, "scopes": scopes, "policies": policies, "populations": populations}
        return self._once_only("", body, seconds)

    def listed(self) -> list[dict[str, Any]]:
        """Return tokens that may be used, the latest first, without their texts."""
        return list(self._made("GET", "", None)["tokens"])

    def rotate(
        self, identity: str, *, overlap_seconds: float = 3600.0, seconds: float | None = None
    ) -> dict[str, Any]:
        """Give a token, by its id, a new text, in `token` of the answer; the old one ends after the overlap.

        `seconds` moves its end to so many from now. Repeat it where no answer came: the oldest text stays.
        """
        return self._once_only(f"/{_quoted(identity)}:rotate", {"overlap_seconds": overlap_seconds}, seconds)

    def withdraw(self, identity: str) -> None:
        """Withdraw a token, by its id."""
        self._made("DELETE", f"/{_quoted(identity)}", None, patience=0.0)

    def _once_only(self, path: str, body: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        """A request in which nothing is taken for missing: without limits or an end a token may do more."""
        lists = [body.get(name) for name in ("scopes", "policies", "populations")]
        if any(one is not None and not isinstance(one, list | tuple) for one in lists):
            raise InvalidData("scopes, policies and populations: expected lists of names")
        ends = None if seconds is None else _checks.number(seconds, name="seconds")
        self.close()  # on a connection that lay open a request may be sent twice
        return self._made("POST", path, body | {"seconds": ends}, patience=0.0)


def _request(
    brought: Any, user: object, *, available: Any, name: Any, arm: Any, deferred: bool
) -> dict[str, Any]:
    """The body of an ask."""
    if available is not None and (isinstance(available, str) or not isinstance(available, Iterable)):
        raise InvalidData(f"available: expected a list of labels, got {_checks.kind_of(available)}")
    body = {
        "id": secrets.token_hex(16) if name is None else name,
        "user": user,
        "available": None if available is None else list(available),
        "arm": arm,
        "deferred": deferred or None,
        "context" if isinstance(brought, Mapping) else "candidates": _brought(brought),
    }
    return {key: value for key, value in body.items() if value is not None}


def _decision(answer: Any) -> RemoteDecision:
    """Return the decision in the service's answer to an ask."""
    try:
        return RemoteDecision(
            id=str(answer["id"]),
            index=int(answer.get("index", -1)),
            action=np.array(answer.get("action", []), dtype=np.float64),
            propensity=answer["propensity"],
            arm=answer.get("arm"),
            release=int(answer["release"]),
            fallback=bool(answer["fallback"]),
            reason=answer.get("reason"),
            faults=tuple((str(one["column"]), str(one["rule"])) for one in answer.get("faults", ())),
            expires_at=answer.get("expires_at"),
            would_choose=answer.get("would_choose"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _strange() from None


def _results(answer: dict[str, Any], count: int) -> list[Any]:
    results = answer.get("results")
    if not isinstance(results, list) or len(results) != count:
        raise _strange()
    return results


def _of_batch(one: Any, read: Callable[[Any], _T], missing: type[DPBanditsError]) -> "_T | DPBanditsError":
    """One result of a batch, or what it was refused with."""
    problem = one.get("problem") if isinstance(one, dict) else None
    if problem is None:
        try:
            return read(one)
        except (KeyError, TypeError):
            raise _strange() from None
    if not isinstance(problem, dict):
        raise _strange()
    return _problem(problem, problem.get("status"), missing)


def _address(url: object, *, plain_http: bool) -> tuple[bool, str, int | None, str]:
    """Return whether it is https, host, port and path of a service's URL."""
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


def _fits(text: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _refusal(answer: _Answer, missing: type[DPBanditsError]) -> DPBanditsError:
    """Return the exception for a status other than 200; it repeats only the service's own words."""
    problem: Any = None
    if answer.media == _PROBLEM:
        with suppress(ServiceUnavailable):
            problem = answer.json()
    return _problem(problem, answer.status, missing) if isinstance(problem, dict) else _strange()


def _problem(problem: dict[str, Any], status: object, missing: type[DPBanditsError]) -> DPBanditsError:
    """Return the exception for a problem of the service."""
    slug = str(problem.get("type")).removeprefix("urn:dpbandits:")
    said = str(problem.get("detail") or problem.get("title"))[:1000]
    if status in REPEATED:
        return ServiceUnavailable(said)
    return (missing if slug == "not-found" else _ERRORS.get(slug, ProtocolError))(said)


def _receipt(answer: Any) -> Receipt:
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if outcome not in _OUTCOMES:
        raise _strange()
    return _OUTCOMES[outcome]


def _kept(stored: bytes) -> tuple[str, float | None]:
    """A decision's id and its reward, as they were queued."""
    try:
        decision, value = json.loads(stored)
    except ValueError:
        raise CorruptState("the queue holds something that is no reward: give every use its folder") from None
    return _text(decision), value


def _brought(brought: object) -> object:
    """A context or candidates; what is neither is refused by its type alone, and is not looked into."""
    if brought is None or isinstance(brought, Mapping | list | tuple | np.ndarray):
        return brought
    if hasattr(brought, "__array__"):
        return np.asarray(brought)
    raise InvalidData(
        f"ask: expected a context as a dict by column, or candidates as rows, got {_checks.kind_of(brought)}"
    )


def _number(reward: object) -> float | None:
    """A reward as JSON has it; None for one that will not come."""
    if isinstance(reward, np.generic):
        reward = reward.item()
    if reward is None or (isinstance(reward, float) and math.isnan(reward)):
        return None
    if isinstance(reward, bool | int | float):
        with suppress(OverflowError):
            if math.isfinite(reward):
                return float(reward)
    raise InvalidData(f"reward: expected a finite number, True or False, got {_checks.kind_of(reward)}")


def _text(decision_id: object) -> str:
    if not isinstance(decision_id, str):
        raise InvalidData(f"decision_id: expected a decision's id, got {_checks.kind_of(decision_id)}")
    return decision_id


def _quoted(decision_id: object) -> str:
    return quote(_text(decision_id)[:200], safe="", errors="replace")


def _plain(value: Any) -> Any:
    """Return what JSON can hold; None, which is missing, for what it cannot."""
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
