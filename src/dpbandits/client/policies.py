"""`RemotePolicy`: a policy of a service, with the interface of a policy in this process."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpbandits._calls import worded
from dpbandits.client.connection import SENT_TOGETHER, Remote, waits
from dpbandits.client.messages import (
    RemoteDecision,
    contexts_or_rows,
    id_text,
    metric_values,
    queued_reward,
    quoted_id,
    read_decision,
    read_receipt,
    read_result,
    read_results,
    request_body,
    reward_body,
    reward_number,
)
from dpbandits.domains.arms import Label
from dpbandits.errors import (
    DPBanditsError,
    InvalidData,
    InvalidParameter,
    ServiceUnavailable,
    UnknownDecision,
)
from dpbandits.local.device.outbox import FileOutbox
from dpbandits.policy.decision import Receipt

if TYPE_CHECKING:
    from dpbandits.central.published_function import PublishedFunction

__all__ = ["RemotePolicy"]

_T = TypeVar("_T")


@worded
class RemotePolicy(Remote):
    """Policy of a service.

    It is safe to share between threads and after a fork: each thread and process has its own connection.

    Args:
        url: URL of the service, such as https://decisions.example.org.
        name: name of the policy.
        token: token with the scopes of the methods that are called: `decide`, `reward`, `read`.
        queue: folder for rewards while the service is unreachable; default none. Policies can share it.
        timeout: longest silence of the service during an attempt, in seconds.
        patience: seconds in which an ask is repeated; a tell too, unless there is a queue.
        plain_http: True allows http to another machine.

    Raises:
        InvalidParameter: the URL, name or token is malformed.
        StateError: other users of the machine may write to the queue's folder.

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
        """Choose an arm, or a row of the candidates.

        Values that JSON cannot hold are sent as missing. The service validates them, and the round is taken.

        Args:
            brought: context as a dict by column, or candidates (n, d); None for the whole domain.
            user: id of the user, a text or an integer.
            available: labels of the arms that can be chosen; default all.
            id: idempotency key, unique among the requests of this token; default random.
            arm: arm that was chosen elsewhere, for a policy in shadow mode.
            deferred: True if the decision is not shown yet. Tell its reward, or call `activate`, once it is.

        Raises:
            InvalidData: the context or the candidates are invalid; the round is taken.
            ContributionExceeded: the user has no rounds left.
            HorizonExceeded: the policy has no rounds left.
            ServiceUnavailable: no answer came. Ask again with the same id, if you gave one.
            ProtocolError: the id was used for another request, or the policy is paused or retired.
            InvalidParameter: there is no such policy, or the token lacks the scope.
        """
        sent = request_body(brought, user, available=available, name=id, arm=arm, deferred=deferred)
        return read_decision(self._made("POST", "/decisions", sent))

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
        """Answer n requests. A refusal of one request does not change the answer to any other.

        Args:
            brought: n contexts or candidates, each as `ask` takes them.
            users: n users, or None.
            available: labels of the arms that can be chosen, for all requests.
            ids: n idempotency keys; default random.
            arms: n arms that were chosen elsewhere, for a policy in shadow mode.
            deferred: True if the decisions are not shown yet.

        Returns:
            n decisions in the same order. A refused request has the error that `ask` would raise in its
            place.

        Raises:
            InvalidData: the lengths differ; nothing was sent.
            InvalidParameter: the token lacks the scope.
        """
        count = len(brought)
        lists: list[Any] = [users, ids, arms]
        if any(one is not None and len(one) != count for one in lists):
            raise InvalidData(f"ask_batch: expected {count} users, ids and arms, one for each request")
        each = [[None] * count if one is None else one for one in lists]
        body = [
            request_body(one, user, available=available, name=name, arm=arm, deferred=deferred)
            for one, user, name, arm in zip(brought, *each, strict=True)
        ]
        return self._batched(
            "/decisions:batch", "decisions", body, lambda one: read_decision(one["decision"])
        )

    def check(self, contexts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Validate contexts against the policy's columns. It takes no round and writes nothing.

        Returns:
            One dict per context, in the same order. `fits` is True if the context is valid. `faults` lists
            column and rule of each invalid cell, `replaced` those of cells that a declared value replaces.
            `ignored` is the number of members that are not columns.

        Raises:
            InvalidData: an entry is not a context, or the policy chooses among candidates.
            ServiceUnavailable, InvalidParameter: see `ask`.
        """
        body = {"contexts": [contexts_or_rows(one) for one in contexts]}
        return read_results(self._made("POST", "/decisions:check", body), len(contexts))

    def tell(self, /, decision_id: str, reward: float | None, **metrics: Any) -> Receipt:
        """Record the reward of a decision. None or NaN abandon the decision, which needs the scope `decide`.

        Args:
            decision_id: id of the decision.
            reward: number in the reward range.
            **metrics: values of metrics of the policy's readout, by name. A value that is left out, or is no
                number, counts as the metric's public default.

        Returns:
            `REFUSED` if a reward was recorded before, perhaps by an earlier attempt of this call whose answer
            was lost. `QUEUED` if the reward waits in the queue.

        Raises:
            InvalidData: the reward is not a number, or outside the reward range.
            UnknownDecision: the policy has no decision with this id.
            ServiceUnavailable: no answer came, and there is no queue.
        """
        value, beside = reward_number(reward), metric_values(metrics)
        if self._queue is None:
            return self._told(decision_id, value, beside, self._patience)
        key = hashlib.sha256(id_text(decision_id).encode()).hexdigest()
        if self._queue.get(key) is not None:
            return Receipt.REFUSED
        try:
            receipt = self._told(decision_id, value, beside, 0.0)
        except ServiceUnavailable:
            self._queue.put(key, json.dumps([decision_id, value, beside]).encode())
            return Receipt.QUEUED
        with suppress(DPBanditsError):  # this reward is recorded; an explicit `flush` raises what is wrong
            self.flush()
        return receipt

    def tell_batch(
        self,
        decision_ids: Sequence[str],
        rewards: Sequence[float],
        *,
        metrics: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[Receipt | DPBanditsError]:
        """Record n rewards, each with its own receipt. No reward is queued.

        Args:
            decision_ids: ids of n decisions.
            rewards: n rewards.
            metrics: n values of each metric of the policy's readout, by name; see `tell`.

        Returns:
            n receipts of `tell` in the same order. A refused reward has the error that `tell` would raise in
            its place.

        Raises:
            InvalidData: the lengths differ, or a reward is NaN, None or not a number; nothing was sent.
            InvalidParameter: the token lacks the scope.
        """
        values = [reward_number(one) for one in rewards]
        if len(values) != len(decision_ids) or None in values:
            raise InvalidData(
                "tell_batch: expected one number for each decision; abandon decisions without a reward"
            )
        beside = {} if metrics is None else dict(metrics)
        if any(len(one) != len(values) for one in beside.values()):
            raise InvalidData(f"tell_batch: expected {len(values)} values of every metric")
        columns = [[(name, value) for value in own] for name, own in beside.items()]
        told = [metric_values(dict(row)) for row in zip(*columns, strict=True)] or [{}] * len(values)
        rows = zip(decision_ids, values, told, strict=True)
        body = [{"decision": id_text(one), **reward_body(value or 0.0, own)} for one, value, own in rows]
        return self._batched("/rewards:batch", "rewards", body, read_receipt, missing=UnknownDecision)

    def abandon(self, decision_id: str) -> Receipt:
        """Abandon a decision, which will never have a reward; the same as `tell` with None."""
        return self.tell(decision_id, None)

    def flush(self) -> dict[Receipt, int]:
        """Send the queued rewards once; return the number of rewards by receipt.

        `REFUSED` counts rewards that were recorded before or that the service will never accept; they are
        deleted.

        Raises:
            ServiceUnavailable: no answer came; unanswered rewards stay in the queue.
            InvalidParameter: the token lacks the scope; all rewards stay in the queue.
        """
        made: Counter[Receipt] = Counter()
        if self._queue is not None:
            waiting = [*self._queue.pending().items()]
            for first in range(0, len(waiting), SENT_TOGETHER):
                part = [
                    (key, *queued_reward(stored)) for key, stored in waiting[first : first + SENT_TOGETHER]
                ]
                for key, receipt in self._sent(part):
                    self._queue.remove(key)
                    made[receipt] += 1
        return dict(made)

    @property
    def queued(self) -> int:
        """Number of rewards in the queue."""
        return 0 if self._queue is None else len(self._queue.pending())

    def activate(self, decision_id: str) -> None:
        """Activate a deferred decision: it was shown. Errors are those of `tell`."""
        self._made("POST", f"/decisions/{quoted_id(decision_id)}:activate", {}, missing=UnknownDecision)

    def status(self, decision_id: str) -> str:
        """Return the status of a decision, such as "pending". The token needs the scope `decide`.

        Errors are those of `tell`.
        """
        path = f"/decisions/{quoted_id(decision_id)}"
        return str(self._made("GET", path, None, missing=UnknownDecision).get("status"))

    def add_arm(
        self,
        arm: Label,
        *,
        like: Label | None = None,
        features: Mapping[str, Any] | None = None,
        minimum: float | None = None,
    ) -> dict[str, Any]:
        """Add an arm from the next release on; see `GPBandit.add_arm`. The token needs the scope `admin`.

        Returns:
            The arms that the latest release offers (`arms`), and all changes (`changes`).

        Raises:
            ProtocolError: arms of this policy cannot change now, or the arm was added with other arguments.
            InvalidData: the label was used before, or another argument does not fit.
            InvalidParameter: the token lacks the scope.
        """
        asked: dict[str, Any] = {"arm": arm, "like": like, "minimum": minimum}
        asked["features"] = None if features is None else dict(features)
        return self._made("POST", "/arms", {key: own for key, own in asked.items() if own is not None})

    def retire_arm(self, arm: Label) -> dict[str, Any]:
        """Retire an arm from the next release on; see `add_arm` and `GPBandit.retire_arm`."""
        return self._made("POST", "/arms:retire", {"arm": arm})

    def readout(self) -> dict[str, Any]:
        """Return the released looks of the policy's readout. The token needs the scope `read`.

        Returns:
            The number of released `looks` and of `planned_looks`; the numbers of rounds at which looks end
            (`ends`); whether no look follows (`over`); and `result`, which is `GPBandit.readout().to_json()`,
            or None before the first look.

        Raises:
            ProtocolError: the policy was created without a readout.
            ServiceUnavailable, InvalidParameter: see `ask`.
        """
        return self._made("GET", "/readout", None)

    def end_readout(self) -> dict[str, Any]:
        """End the comparison with the rounds so far; see `GPBandit.end_readout`.

        The answer is that of `readout`. The last look is released soon: `over` is True then. The token needs
        the scope `admin`.

        Raises:
            ProtocolError: the policy was created without a readout, or no round has passed its delay.
            ServiceUnavailable, InvalidParameter: see `ask`.
        """
        return self._made("POST", "/readout:end", {})

    def releases(self) -> list[dict[str, Any]]:
        """Return version, number of rounds and time of each release. The token needs the scope `read`."""
        return list(self._made("GET", "/releases", None)["releases"])

    def publish(self) -> "PublishedFunction":
        """Return the policy's published function, which needs no service. Needs the scope `read`."""
        from dpbandits.central.published_function import PublishedFunction

        answer = self._made("GET", "/policy", None)
        return PublishedFunction.from_files({"policy.json": json.dumps(answer).encode()})

    def statement(self) -> str:
        """Return the policy's statement as prose. The token needs the scope `read`."""
        return str(self._made("GET", "/guarantee", None)["statement"])

    # -- inside ------------------------------------------------------------------------------------

    def _told(
        self, decision_id: str, value: float | None, metrics: Mapping[str, Any], patience: float
    ) -> Receipt:
        path = f"/decisions/{quoted_id(decision_id)}"
        if value is None:
            answer = self._made("POST", f"{path}:abandon", {}, missing=UnknownDecision, patience=patience)
            became = str(answer.get("status"))
            return {"abandoned": Receipt.ABANDONED, "late": Receipt.LATE}.get(became, Receipt.REFUSED)
        body = reward_body(value, metrics)
        answer = self._made("PUT", f"{path}/reward", body, missing=UnknownDecision, patience=patience)
        return read_receipt(answer)

    def _batched(
        self,
        path: str,
        name: str,
        body: list[dict[str, Any]],
        read: Callable[[Any], _T],
        *,
        missing: type[DPBanditsError] = InvalidParameter,
    ) -> list[_T | DPBanditsError]:
        """Return the results of a batch in order; requests that may be retried are sent again."""
        found: dict[int, _T | DPBanditsError] = {}
        until = time.monotonic() + self._patience
        left = list(range(len(body)))
        for wait in waits():
            for first in range(0, len(left), SENT_TOGETHER):
                part = left[first : first + SENT_TOGETHER]
                patience = max(0.0, until - time.monotonic())
                sent = {name: [body[place] for place in part]}
                try:
                    answer = self._made("POST", path, sent, patience=patience)
                    results = read_results(answer, len(part))
                    made = [read_result(one, read, missing) for one in results]
                except ServiceUnavailable as error:
                    made = [error] * len(part)
                found |= zip(part, made, strict=True)
            left = [place for place in left if isinstance(found[place], ServiceUnavailable)]
            if not left or time.monotonic() + wait > until:
                break
            time.sleep(wait)
        return [found[place] for place in range(len(body))]

    def _sent(
        self, part: list[tuple[str, str, float | None, dict[str, Any]]]
    ) -> Iterator[tuple[str, Receipt]]:
        """Send rewards in one request and then each abandonment; yield (key, receipt) of finished entries."""
        told = [one for one in part if one[2] is not None]
        if told:
            rows = [{"decision": one, **reward_body(value or 0.0, own)} for _, one, value, own in told]
            body = {"rewards": rows}
            answer = self._made("POST", "/rewards:batch", body, patience=0.0)
            for (key, *_), one in zip(told, read_results(answer, len(told)), strict=True):
                problem = one.get("problem") if isinstance(one, dict) else None
                if problem is None:
                    yield key, read_receipt(one)
                elif isinstance(problem, dict) and problem.get("status") in (404, 409, 410, 422):
                    yield key, Receipt.REFUSED
        for key, decision, _, _ in (one for one in part if one[2] is None):
            try:
                receipt = self._told(decision, None, {}, 0.0)
            except UnknownDecision:
                receipt = Receipt.REFUSED
            yield key, receipt
