"""The two ends of a pipe of row numbers and answers, as JSON lines in both directions.

The curator starts with `{"release": ..., "answered": ..., "cap": ...}`. The reply to `{"ask": row}` is
`{"row": row, "answer": number}`, and the reply to `{"again": row}` repeats the answer that was given before.
A refusal is `{"row": row, "error": kind, "message": text}`. The curator's process ends at the end of its
input; nothing is lost, as all answers are in the log.

A refusal contains public facts only: the row's number, whether the row was answered, the cap, the protocol.
The reason why an objective failed may depend on the row's data, so all such failures have one text here. The
reason is written to a file of the curator, and not to standard error, which ssh passes on to the modeler.
"""

import contextlib
import io
import json
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self, cast

from dpbandits import _checks
from dpbandits._lines import finite_number, json_line
from dpbandits.errors import (
    AlreadyTold,
    DPBanditsError,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    ProtocolError,
    UnknownDecision,
)

if TYPE_CHECKING:
    from dpbandits.outsourced.curator.curator import Curator

__all__ = ["PipeAnswers", "StreamAnswers", "request_lines", "serve"]

_LONGEST_LINE = 1 << 16
"""Largest number of characters of a line of the pipe; normal lines have about a hundred."""

_ENDED = "the answers have ended: start again with the same log; the curator's log has every answer too"


def serve(
    curator: "Curator",
    requests: Iterable[str],
    replies: IO[str],
    *,
    report: Callable[[str], object] | None = None,
) -> int:
    """Answer requests line by line until they end, and return the number of answers.

    Args:
        curator: Curator that answers.
        requests: Lines of requests; see the module.
        replies: Stream for replies, one line each, flushed. The function returns when nobody reads it any
            more.
        report: Function that receives the reason of a failed answer, which only the curator may see.
    """

    def reply(**fields: Any) -> None:
        replies.write(json.dumps(fields) + "\n")
        replies.flush()

    given = 0
    with contextlib.suppress(BrokenPipeError):
        reply(release=curator.release_id, answered=len(curator.answered), cap=curator.cap)
        for text in requests:
            if not text.strip():
                continue
            row: int | None = None
            try:
                kind, row = _request(text)
                value = curator.answer(row) if kind == "ask" else curator.answer_again(row)
            except (DPBanditsError, OSError) as error:
                if row is None or type(error) in (AlreadyTold, UnknownDecision, HorizonExceeded):
                    reply(row=row, error=type(error).__name__, message=str(error))
                    continue
                if report is not None:
                    with contextlib.suppress(OSError):  # a full disk must not change what the modeler sees
                        report(f"row {row} was not answered: {type(error).__name__}: {error}")
                reply(row=row, error="ProtocolError", message="no answer was given")
            else:
                given += kind == "ask"
                reply(row=row, answer=value)
    return given


def request_lines(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a byte stream as text; lines too long or not UTF-8 become invalid requests."""
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := stream.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            line = b"too long"
        yield line.decode("utf-8", errors="replace")


def _request(text: str) -> tuple[str, int]:
    request = json_line(text)
    if isinstance(request, dict) and len(request) == 1:
        ((kind, row),) = request.items()
        if kind in ("ask", "again") and type(row) is int:
            return str(kind), row
    raise InvalidData('request: expected one line of JSON: {"ask": row} or {"again": row}')


class StreamAnswers:
    """Source of answers that writes requests to one stream and reads replies from another.

    Args:
        lines: Lines of replies, from a curator's process or a person. The first line of a curator is
            checked, and a plain number is accepted as an answer.
        questions: Stream for requests, one line each.
        release_id: Id of the modeler's release.

    Raises:
        ProtocolError: the other end does not speak the protocol.
        IncompatibleState: the other end answers for another release.
    """

    def __init__(self, lines: Iterator[str], questions: IO[str], *, release_id: str) -> None:
        self._lines, self._questions, self._release_id = lines, questions, release_id

    def ask(self, row: int) -> float:
        """Return a row's answer; if it was given before a crash of the modeler, return the same answer again.

        Raises:
            HorizonExceeded: the curator's cap is reached.
            ProtocolError: the curator refused, with its reason, or sent no number, or has ended.
        """
        reply = self._exchange({"ask": int(row)})
        if reply.get("error") == "AlreadyTold":
            reply = self._exchange({"again": int(row)})
        if "error" in reply:
            kind = HorizonExceeded if reply["error"] == "HorizonExceeded" else ProtocolError
            raise kind(f"the curator refused: {reply.get('message', reply['error'])}")
        answer = finite_number(reply.get("answer"))
        if reply.get("row") != row or answer is None:
            raise ProtocolError("expected a number as the answer of this row")
        return answer

    def close(self) -> None:
        """End the exchange. This class has nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _exchange(self, request: dict[str, int]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError, ValueError):  # one end was closed
            print(json.dumps(request), file=self._questions, flush=True)
            for line in self._lines:
                reply = json_line(line)
                if not isinstance(reply, dict):
                    return {"row": next(iter(request.values())), "answer": reply}
                if "release" not in reply:
                    return reply
                self._greeted(reply)
        raise ProtocolError(_ENDED)

    def _greeted(self, hello: dict[str, Any]) -> None:
        if type(hello.get("answered", 0)) is not int or not isinstance(hello.get("cap"), int | None):
            raise ProtocolError("the answers process does not speak the protocol: its greeting is malformed")
        if hello.get("release") != self._release_id:
            raise IncompatibleState(
                "the curator's process answers for another release: start it with the secret of this one"
            )


class PipeAnswers(StreamAnswers):
    """Modeler's end of the pipe: it starts the curator's command, sends requests and checks replies.

    Args:
        command: Command that starts the curator's process, such as `dpbandits outsourced answer secret/`,
            or `ssh` to its host. It is split like a shell command; no shell is involved.
        release_id: Id of the modeler's release.

    Raises:
        InvalidParameter: the command is not a text.
        ProtocolError: the process does not start or does not speak the protocol.
        IncompatibleState: the process answers for another release.
    """

    def __init__(self, command: str, *, release_id: str) -> None:
        _checks.an(command, str, name="command", pass_="command='ssh hospital'")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the modeler's own command, without a shell
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except (OSError, ValueError, IndexError) as error:
            raise ProtocolError(
                f"the answers command could not be started ({type(error).__name__})"
            ) from None
        self._output, self._input = cast(BinaryIO, self._process.stdout), cast(BinaryIO, self._process.stdin)
        questions = io.TextIOWrapper(self._input, encoding="utf-8")
        super().__init__(map(_object_line, request_lines(self._output)), questions, release_id=release_id)
        try:
            hello = next(self._lines, None)
            if hello is None:
                raise ProtocolError(_ENDED)
            self._greeted(json.loads(hello))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the exchange; the curator's process ends with its input."""
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


def _object_line(line: str) -> str:
    """Return the line if it is a JSON object, as a program, unlike a person, must write nothing else."""
    if not isinstance(json_line(line), dict):
        raise ProtocolError("the answers process does not speak the protocol: expected a line of JSON")
    return line
