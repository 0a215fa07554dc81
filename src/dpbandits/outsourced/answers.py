"""Answers: the append-only log, objectives that are programs, and the two ends of the pipe.

**Log.** One JSON line an answer, each with a hash chained to the line before. An answer is given only
after its line is on disk. A crash while writing leaves a line without its newline: it was never given and
is cut off at the next start. A changed or missing line breaks the chain and is refused.

**Pipe.** JSON lines both ways. The curator opens with
`{"release": ..., "answered": ..., "cap": ...}`. Then `{"ask": row}` gets `{"row": row, "answer": number}`,
`{"again": row}` the answer that was given before, and a refusal is
`{"row": row, "error": kind, "message": text}`. The end of input ends the curator's process; nothing is
lost, as the log has everything.
"""

import contextlib
import hashlib
import json
import math
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from dpbandits.errors import (
    CorruptState,
    DPBanditsError,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)

__all__ = ["AnswerLog", "Answering", "Command", "PipeAnswers", "serve"]

_HEADER = "dpbandits.answers.v1"


class Answering(Protocol):
    """What `serve` needs of a curator."""

    @property
    def release_id(self) -> str:
        """The release the answers belong to."""

    @property
    def cap(self) -> int | None:
        """Answers given at most."""

    @property
    def answered(self) -> list[tuple[int, float]]:
        """Answers given so far, in order."""

    def answer(self, row: int) -> float:
        """The answer of a row that was not asked for before."""

    def answer_again(self, row: int) -> float:
        """The answer that was given for a row before."""


class AnswerLog:
    """Append-only answers of one release.

    Args:
        path: the file, mode 0600; None keeps the log in memory.
        release_id: the release it belongs to.

    Raises:
        IncompatibleState: the file belongs to another release.
        CorruptState: a line was changed, or one is missing.
    """

    def __init__(self, path: Path | None, release_id: str) -> None:
        self._path = path
        self._release_id = release_id
        self._entries: list[tuple[int, float]] = []
        self._answers: dict[int, float] = {}
        self._chain = hashlib.sha256(f"{_HEADER}|{release_id}".encode()).hexdigest()
        self._offset = 0
        if path is not None:
            self._open(path)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[tuple[int, float]]:
        """(row, answer) in the order they were given."""
        return list(self._entries)

    @property
    def digest(self) -> str:
        """The chained hash of everything in the log: what a ledger witnesses."""
        return self._chain

    def get(self, row: int) -> float | None:
        """The answer of a row, or None."""
        return self._answers.get(row)

    def refresh(self) -> None:
        """Read what another process has appended."""
        if self._path is not None and self._path.stat().st_size != self._offset:
            self._read(self._path)

    def append(self, row: int, answer: float) -> None:
        """Make an answer durable. Only when this returns may the answer be given."""
        chain = self._link(row, answer)
        if self._path is not None:
            line = json.dumps({"row": row, "answer": answer, "chain": chain}) + "\n"
            self._write(self._path, line.encode())
            self._offset += len(line)
        self._entries.append((row, answer))
        self._answers[row] = answer
        self._chain = chain

    def _link(self, row: int, answer: float) -> str:
        return hashlib.sha256(f"{self._chain}|{row}|{answer!r}".encode()).hexdigest()

    def _open(self, path: Path) -> None:
        if not path.exists():
            header = json.dumps({"log": _HEADER, "release": self._release_id}) + "\n"
            self._write(path, header.encode())
            _sync_directory(path.parent)
        self._read(path)

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # a torn last line was never given
            with path.open("r+b") as stream:
                stream.truncate(len(whole))
                os.fsync(stream.fileno())
        lines = whole.decode("utf-8", errors="replace").splitlines()
        try:
            header = json.loads(lines[0]) if lines else {}
        except json.JSONDecodeError:
            raise CorruptState("the log of answers does not begin with its header") from None
        if not lines:  # the header itself was torn
            self._write(path, (json.dumps({"log": _HEADER, "release": self._release_id}) + "\n").encode())
            self._offset = path.stat().st_size
            return
        if header.get("log") != _HEADER or header.get("release") != self._release_id:
            raise IncompatibleState("the log of answers belongs to another release")
        self._entries, self._answers = [], {}
        self._chain = hashlib.sha256(f"{_HEADER}|{self._release_id}".encode()).hexdigest()
        for number, text in enumerate(lines[1:], start=1):
            try:
                line = json.loads(text)
                row, answer = int(line["row"]), float(line["answer"])
                sound = line["chain"] == self._link(row, answer) and row not in self._answers
            except (KeyError, TypeError, ValueError):
                sound, row, answer = False, -1, math.nan
            if not sound:
                raise CorruptState(
                    f"line {number} of the log of answers was changed: restore it from a backup"
                )
            self._chain = self._link(row, answer)
            self._entries.append((row, answer))
            self._answers[row] = answer
        self._offset = len(whole)

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Command:
    """An objective that is a program: run with the row's own id as its last argument, prints one number.

    Args:
        line: program and arguments as a shell would split them; no shell is involved.
        timeout: seconds after which it counts as failed.
    """

    line: str
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if not shlex.split(self.line):
            raise InvalidParameter("the command is empty")

    def __call__(self, row_id: object) -> float:
        """Run it for one row.

        Raises:
            ProtocolError: it cannot be started, fails, takes too long or prints no number.
        """
        arguments = [*shlex.split(self.line), str(row_id)]
        try:
            done = subprocess.run(  # noqa: S603 - the curator's own command, without a shell
                arguments, capture_output=True, text=True, timeout=self.timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProtocolError(
                f"the answer command could not be run ({type(error).__name__}): nothing was logged"
            ) from None
        if done.returncode != 0:
            raise ProtocolError(
                f"the answer command failed with exit status {done.returncode}: nothing was logged, ask again"
            )
        try:
            return float(done.stdout.strip())
        except ValueError:
            raise ProtocolError(
                "the answer command printed no number: nothing was logged, ask again"
            ) from None


def serve(curator: Answering, requests: Iterator[str], replies: IO[str]) -> int:
    """Answer requests line by line until they end; returns how many were answered.

    Args:
        curator: whose table it is.
        requests: lines, see the module.
        replies: where replies go, one line each, flushed.
    """

    def reply(**fields: Any) -> None:
        replies.write(json.dumps(fields) + "\n")
        replies.flush()

    reply(release=curator.release_id, answered=len(curator.answered), cap=curator.cap)
    given = 0
    for text in requests:
        if not text.strip():
            continue
        row: object = None
        try:
            kind, row = _request(text)
            value = curator.answer(row) if kind == "ask" else curator.answer_again(row)
        except DPBanditsError as error:
            reply(row=row, error=type(error).__name__, message=str(error))
        else:
            given += kind == "ask"
            reply(row=row, answer=value)
    return given


def _request(text: str) -> tuple[str, int]:
    try:
        request = json.loads(text)
        (kind, row), *others = request.items()
        if kind in ("ask", "again") and isinstance(row, int) and not isinstance(row, bool) and not others:
            return str(kind), row
    except (ValueError, AttributeError):
        pass
    raise InvalidData('a request is one line of JSON: {"ask": row} or {"again": row}')


class PipeAnswers:
    """The modeler's end of the pipe: starts the curator's command, asks rows, checks replies.

    Args:
        command: what starts the curator's process, for instance `dpbandits answer secret/`, or `ssh` to where
            it runs. Split as a shell would; no shell is involved.
        release_id: the release that the modeler holds.

    Raises:
        ProtocolError: the process does not start or does not speak the protocol.
        IncompatibleState: it answers for another release.
    """

    def __init__(self, command: str, *, release_id: str) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the modeler's own command, without a shell
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except (OSError, ValueError, IndexError) as error:
            raise ProtocolError(
                f"the answers command could not be started ({type(error).__name__})"
            ) from None
        try:
            hello = self._receive()
            if hello.get("release") != release_id:
                raise IncompatibleState(
                    "the curator's process answers for another release: a secret of another one?"
                )
        except BaseException:
            self.close()
            raise
        cap = hello.get("cap")
        self.cap = None if cap is None else int(cap)
        self.answered = int(hello.get("answered", 0))

    def ask(self, row: int) -> float:
        """The answer of a row; after a crash of the modeler, the one that was given before.

        Raises:
            HorizonExceeded: the curator's cap is reached.
            ProtocolError: the curator refused, with its reason, or its process ended.
        """
        reply = self._exchange({"ask": int(row)})
        if reply.get("error") == "AlreadyTold":
            reply = self._exchange({"again": int(row)})
        if "error" in reply:
            kind = HorizonExceeded if reply["error"] == "HorizonExceeded" else ProtocolError
            raise kind(f"the curator refused: {reply.get('message', reply['error'])}")
        answer = reply.get("answer")
        if reply.get("row") != row or not isinstance(answer, int | float) or not math.isfinite(answer):
            raise ProtocolError("the curator's process gave no number for this row")
        return float(answer)

    def close(self) -> None:
        """End the conversation; the curator's process ends with its input."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _exchange(self, request: dict[str, int]) -> dict[str, Any]:
        try:
            if self._process.stdin is None:
                raise ProtocolError("the pipe is closed")
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ended, or closed on this side
            raise ProtocolError(
                "the answers process has ended: start again, its log has every answer"
            ) from None
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            raise ProtocolError("the answers process has ended: start again, its log has every answer")
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise ProtocolError("the answers process does not speak the protocol: expected a line of JSON")
        return reply
