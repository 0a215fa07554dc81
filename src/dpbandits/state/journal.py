"""`Journal`: an append-only log that no crash, copy or knife can rewrite unnoticed.

One file of records, each with a digest chained to the record before, and beside it `NAME.end`: how far the
log reaches and its last digest. With a ledger, number and digest of the records are witnessed too. A record
counts when three things have happened, each durable before the next:

1. **write**: the record stands behind the last one;
2. **witness**: `ledger.advance(lineage, number, digest)`, compare-and-set;
3. **end**: the end file is replaced.

`settle` comes before every append and finds one of these, E being the end file's number of records:

| log | ledger | what happened | what follows |
|---|---|---|---|
| E | E | nothing | go on |
| E, and bytes that are no record | E | died while writing | they are cut off: they never counted |
| E + 1, chained | E | died before the witness | witnessed now: the record counts |
| E + 1, chained | E + 1, this one | died before the end | the end is moved: the record counts |
| E + k, chained | E + k, or one less | the end file is an old one | as above: no record is lost |
| E | E + 1 or further | a copy has gone on, or an old one was restored | `ForkedState` |
| E + 1, chained | E + 1, another one | two copies wrote: this one was slower | `ForkedState` |
| less than E, or changed | any | a cut or altered log | `CorruptState` |

So an append that raised has either not happened, or the next `settle` returns its record as one that counts.
Without a ledger, an old copy of both files cannot be told from the newest one.

Whoever keeps elsewhere what the records up to a place say opens the journal `after` that place: what lies
before it is not read again. Records are read one at a time, so that no log need fit into memory.

A *lazy* journal replaces the end file when it is settled or closed, and not at every append, which then costs
one write-through: what happened since is the row "E + k". A crash loses nothing by it. What goes unnoticed
until then is a log whose last records were cut off; a damaged record with others behind it is `CorruptState`.
A lazy journal also keeps the log open between appends. Each append checks that the path still leads to the
open file, and otherwise opens the path again.

A journal does not lock: whoever appends holds a lock file over `settle` and `append`. An append that no
`settle` went before, while something lies behind the last record, is refused: it could lie over a record
that counts.
"""

import hashlib
import json
import os
import struct
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError
from dpbandits.state.files import (
    open_regular,
    open_to_write,
    replace_durably,
    write_durably,
    write_through,
)
from dpbandits.state.witness import Payer, Witness

__all__ = ["Journal", "Place", "Record", "end_path"]

FORMAT = 1
"""Version of the file's layout."""

_LONGEST_HEADER = 1 << 12
"""Bytes in which another subject's header ends, so that it is told from a damaged one."""

_CHUNK = 1 << 20
"""Bytes that are read at a time."""

_FRAME = struct.Struct("<Qc")
_DIGEST_BYTES = hashlib.sha256().digest_size
_END = struct.Struct(f"<QQ{_DIGEST_BYTES}s")


class Record(NamedTuple):
    """One entry: a kind of one byte, and content that the journal does not read."""

    kind: bytes
    content: bytes


class Place(NamedTuple):
    """A place in the log: records before it, bytes before it, digest of the last record."""

    records: int
    length: int
    digest: bytes


class _Appending(NamedTuple):
    """Open log: its descriptor, device and inode, and the function that closes it once."""

    descriptor: int
    identity: tuple[int, int]
    closing: Callable[[], object]


class Journal:
    """An append-only log in one file, with its end beside it.

    Args:
        path: the file; `create` makes it.
        kind: what is logged, public.
        subject: whose log it is: the id of a release, the digest of a spec. Public.
        ledger: witness of the records, under `lineage`; a log that was made with a ledger opens with it.
        lineage: its name at the ledger; by default the subject's.
        after: what lies before is known: `settle` and `stream` begin here.
        lazy: see the module; only without a ledger.

    Raises:
        IncompatibleState: the log is another subject's, another format's, was made with a ledger and none
            came (or the other way round), or the ledger has never seen it.
        CorruptState: log or end file are missing, cut or changed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "words.log"
        >>> journal = Journal.create(path, kind="words", subject="example")
        >>> journal.append(b"W", b"first")
        >>> Journal(path, kind="words", subject="example").settle()
        [Record(kind=b'W', content=b'first')]
    """

    def __init__(
        self,
        path: Path,
        *,
        kind: str,
        subject: str,
        ledger: Payer | None = None,
        lineage: str | None = None,
        after: Place | None = None,
        lazy: bool = False,
    ) -> None:
        self._path, self._kind, self._lazy = path, kind, lazy and ledger is None
        self._header = _header(kind, subject, witnessed=ledger is not None)
        self._ledger = ledger
        self._lineage = subject if lineage is None else lineage
        self._mark = _first(self._header) if after is None else after
        self._file: _Appending | None = None  # kept open by a lazy journal
        try:
            with open_regular(path) as (file, _):
                held = file.read(_LONGEST_HEADER)
        except FileNotFoundError:
            raise self._shorter() from None
        _compare(held, self._header, kind)

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        kind: str,
        subject: str,
        ledger: Payer | None = None,
        lineage: str | None = None,
        lazy: bool = False,
    ) -> "Journal":
        """Begin a log; repeatable as long as it holds no record.

        Raises:
            CorruptState: there are records already, or the end of a log that was begun is missing.
            IncompatibleState: the path holds another subject's log.
        """
        header = _header(kind, subject, witnessed=ledger is not None)
        first = _first(header)
        end = end_path(path)
        try:
            with open_regular(path) as (file, size):
                held = file.read(_LONGEST_HEADER)
        except FileNotFoundError:
            held, size = b"", 0
        begun = end.exists()
        if begun or b"\n" in held:  # somebody got as far as a whole header
            _compare(held, header, kind)
            if size > len(header):
                raise CorruptState(
                    f"the log of {kind} holds records already: open it; a state that says it was never begun "
                    "is an old copy, restore the newest"
                )
        elif size > len(header):
            raise _damaged(kind)
        if begun and _read_end(end, kind) != first:
            raise _damaged(kind)  # it held records, and was cut
        if not begun:
            write_durably(path, header)
            _write_end(end, first)
        if ledger is not None:
            ledger.advance(subject if lineage is None else lineage, position=0, digest=first.digest.hex())
        return cls(path, kind=kind, subject=subject, ledger=ledger, lineage=lineage, lazy=lazy)

    def __len__(self) -> int:
        return self._mark.records

    def __repr__(self) -> str:
        return f"Journal(kind={self._kind!r}, records={len(self)})"

    @property
    def digest(self) -> str:
        """Digest of the last record, which holds all before it: what a ledger witnesses."""
        return self._mark.digest.hex()

    @property
    def place(self) -> Place:
        """Behind the last record that was settled or appended."""
        return self._mark

    def digest_after(self, records: int) -> str | None:
        """Digest of the log's first `records` records; None where it has fewer that are whole."""
        first = _first(self._header)
        with self._opened(first) as (file, size):
            places = chain((first,), _places(file, size, first))
            return next((place.digest.hex() for place in places if place.records == records), None)

    def settle(self) -> list[Record]:
        """As `stream`, all at once."""
        return list(self.stream())

    def stream(self) -> Iterator[Record]:
        """Records that count and were not returned before, after finishing or dropping an interrupted append.

        All checks are made before this returns; a record is read when it is asked for.

        Those that another process appended, and those whose own append raised after they were written.

        Raises:
            ForkedState: another copy has gone on; nothing was changed.
            CorruptState: the log was cut or changed; nothing was changed.
            IncompatibleState: the ledger has never seen this log.
        """
        end = _read_end(end_path(self._path), self._kind)
        if self._lazy and end.records < self._mark.records:
            end = self._mark
        if end.records < self._mark.records or (end.records == self._mark.records and end != self._mark):
            raise self._shorter()
        first = before = mark = self._mark
        with self._opened(first) as (file, size):
            for after in _places(file, size, first):
                before, mark = mark, after
                if mark.records == end.records and mark != end:
                    raise _damaged(self._kind)
            followed = self._lazy and _goes_on(file, mark.length, size)
        if mark.records < end.records or followed:
            raise _damaged(self._kind)
        if mark != end:
            # Whoever wrote it may have died before it was on disk, and the ledger must not be ahead of that.
            _sync(self._path)
        self._check_witness(before if mark != end else mark, mark)
        if mark.length < size:
            os.truncate(self._path, mark.length)  # never witnessed, so it never counted
        if mark != end:
            _write_end(end_path(self._path), mark)
        self._mark = mark
        return self._between(first, mark)

    def append(self, kind: bytes, content: bytes) -> None:
        """Make a record durable, witnessed and counted, after `settle`. Act on it when this returns.

        Raises:
            ProtocolError: something lies behind the last settled record: another process's, or what an
                earlier append left; nothing was changed.
            ForkedState: another copy was faster; the record never counts.
            OSError: the disk refused; the next `settle` says whether the record counts.
        """
        record = _FRAME.pack(len(content), kind) + content
        digest = hashlib.sha256(self._mark.digest + record).digest()
        after = Place(self._mark.records + 1, self._mark.length + len(record) + len(digest), digest)
        self._write(record + digest)
        if self._ledger is not None:
            try:
                self._ledger.advance(self._lineage, position=after.records, digest=digest.hex())
            except ForkedState:
                raise self._forked() from None
        if not self._lazy:
            _write_end(end_path(self._path), after)
        self._mark = after

    def close(self) -> None:
        """Close the log; a lazy journal replaces its end file, which then has the log's length."""
        self._let_go()
        if self._lazy:
            _write_end(end_path(self._path), self._mark)

    # -- inside ------------------------------------------------------------------------------------

    def _check_witness(self, before: Place, here: Place) -> None:
        """Hold the log against the ledger, which may yet have to witness the last record."""
        if self._ledger is None:
            return
        last = self._ledger.last(self._lineage)
        if last is None:
            raise IncompatibleState(
                f"this ledger has never seen the log of {self._kind}: pass the one it was made with"
            )
        if last == Witness(here.records, here.digest.hex()):
            return
        if before == here or last != Witness(before.records, before.digest.hex()):
            raise self._forked()
        try:
            self._ledger.advance(self._lineage, position=here.records, digest=here.digest.hex())
        except ForkedState:
            raise self._forked() from None

    @contextmanager
    def _opened(self, at: Place) -> Iterator[tuple[BinaryIO, int]]:
        """The log, read from a place on, and its size."""
        try:
            with open_regular(self._path) as (file, size):
                if size < at.length:
                    raise self._shorter()
                file.seek(at.length)
                yield file, size
        except FileNotFoundError:
            raise self._shorter() from None

    def _between(self, first: Place, last: Place) -> Iterator[Record]:
        """Records that have been checked."""
        if first == last:
            return
        with self._opened(first) as (file, _):
            for _ in range(last.records - first.records):
                head = file.read(_FRAME.size)
                length, kind = _FRAME.unpack(head) if len(head) == _FRAME.size else (0, b"")
                content, digest = file.read(length), file.read(_DIGEST_BYTES)
                if len(content) + len(digest) != length + _DIGEST_BYTES:
                    raise _damaged(self._kind)
                yield Record(kind, content)

    def _write(self, data: bytes) -> None:
        """Behind the last record, through to disk; a failure is undone where the disk lets it."""
        kept = False
        try:
            descriptor, size = self._appending()
            if size != self._mark.length:
                raise ProtocolError(
                    f"the log of {self._kind} goes on behind the last record that was settled: call settle "
                    "before every append, both under one lock"
                )
            try:
                write_through(descriptor, data)
            except OSError:
                os.ftruncate(descriptor, self._mark.length)
                raise
            kept = self._lazy
        finally:
            if not kept:
                self._let_go()

    def _appending(self) -> tuple[int, int]:
        """Return a descriptor that appends to the file at the path, and the file's current size."""
        if self._file is not None:
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._file.identity:
                return self._file.descriptor, status.st_size
            self._let_go()  # the path leads to another file or to a link now
        # No O_CREAT: a log that was deleted must not be begun anew.
        descriptor = open_to_write(self._path, os.O_WRONLY | os.O_APPEND)
        closing = weakref.finalize(self, os.close, descriptor)
        # At exit the system closes it. Closed earlier, its number could be another file's when a handler of
        # exit or a thread appends once more.
        closing.atexit = False
        status = os.fstat(descriptor)
        self._file = _Appending(descriptor, (status.st_dev, status.st_ino), closing)
        return descriptor, status.st_size

    def _let_go(self) -> None:
        """Close the log if it is open."""
        if self._file is not None:
            self._file.closing()
            self._file = None

    def _forked(self) -> ForkedState:
        return ForkedState(
            f"the ledger has witnessed other records of {self._kind} than this log holds: another copy has "
            "gone on, or an old one was restored; use the newest"
        )

    def _shorter(self) -> CorruptState:
        return CorruptState(
            f"the log of {self._kind} is missing, empty or shorter than it was: restore it from a backup"
        )


def _header(kind: str, subject: str, *, witnessed: bool) -> bytes:
    fields = {"journal": kind, "format": FORMAT, "subject": subject, "witnessed": witnessed}
    return (json.dumps(fields) + "\n").encode()


def _first(header: bytes) -> Place:
    return Place(0, len(header), hashlib.sha256(header).digest())


def _compare(held: bytes, header: bytes, kind: str) -> None:
    """Refuse a file that does not begin with the header."""
    if held.startswith(header):
        return
    try:
        found = json.loads(held.partition(b"\n")[0])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "journal" not in found:
        raise CorruptState(f"the log of {kind} does not begin with its header")
    if found.get("format") != FORMAT:
        raise IncompatibleState(
            f"the log of {kind} has another format than {FORMAT}: use the release of its writer"
        )
    wanted = json.loads(header)
    if found == {**wanted, "witnessed": not wanted["witnessed"]}:
        made, remedy = ("without", "open it so") if wanted["witnessed"] else ("with", "pass that one")
        raise IncompatibleState(f"the log of {kind} was made {made} a ledger: {remedy}")
    raise IncompatibleState(f"the log of {kind} belongs to another subject: choose another folder")


def _places(file: BinaryIO, size: int, at: Place) -> Iterator[Place]:
    """Yield the log's end after each record, up to the first bytes that are none."""
    while at.length + _FRAME.size + _DIGEST_BYTES <= size:
        head = file.read(_FRAME.size)
        left, _ = _FRAME.unpack(head)
        stop = at.length + _FRAME.size + left + _DIGEST_BYTES
        if stop > size:
            return
        digest = hashlib.sha256(at.digest + head)
        while left:
            part = file.read(min(left, _CHUNK))
            if not part:
                return
            digest.update(part)
            left -= len(part)
        if digest.digest() != file.read(_DIGEST_BYTES):
            return
        at = Place(at.records + 1, stop, digest.digest())
        yield at


def _goes_on(file: BinaryIO, at: int, size: int) -> bool:
    """Return whether there is more than an append that was interrupted: something lies behind its record."""
    file.seek(at)
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return False
    length, _ = _FRAME.unpack(head)
    return bool(at + _FRAME.size + length + _DIGEST_BYTES < size)


def end_path(path: Path) -> Path:
    """The end file beside a log."""
    return path.with_name(path.name + ".end")


def _read_end(path: Path, kind: str) -> Place:
    try:
        with open_regular(path) as (file, size):
            if size == _END.size:
                return Place(*_END.unpack(file.read()))
    except FileNotFoundError:
        pass
    raise _damaged(kind)


def _write_end(path: Path, mark: Place) -> None:
    beside = path.with_name(path.name + ".next")
    write_durably(beside, _END.pack(*mark), renamed=True)
    replace_durably(beside, path)


def _sync(path: Path) -> None:
    descriptor = open_to_write(path, os.O_WRONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(kind: str) -> CorruptState:
    return CorruptState(f"the log of {kind} was changed or cut: restore it and its end from a backup")
