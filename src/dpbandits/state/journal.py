"""`Journal`: an append-only log that detects crashes, changes, cuts and, with a ledger, rollbacks.

The log is a file of records. The digest of each record includes the digest of the record before. The end
file `NAME.end` in the same folder has the number of records and the last digest; a ledger stores both, too.
Records are read one at a time, so that a log need not fit into memory. A journal that is opened `after` a
place does not read the records before that place.

A journal does not lock: its caller must hold a lock file during `settle` and `append`. An append is refused
if `settle` was not called and bytes follow the last known record, as it could overwrite a record that
counts.

Crashes and changes
-------------------
A record counts after three steps, each durable before the next:

1. **write**: the record follows the last one in the file;
2. **witness**: `ledger.advance(lineage, number, digest)`, compare-and-set;
3. **end**: the end file is replaced.

`settle` must precede every append, and finds one of these cases. E is the number of records in the end file:

| log | ledger | cause | result |
|---|---|---|---|
| E | E | none | continue |
| E, and bytes that are no record | E | crash during write | the bytes are cut off: they never counted |
| E + 1, chained | E | crash before witness | the ledger is told now: the record counts |
| E + 1, chained | E + 1, this one | crash before end | the end file is replaced: the record counts |
| E + k, chained | E + k, or one less | the end file is an old one | as above: no record is lost |
| E | E + 1 or more | another copy has continued, or a rollback | `ForkedState` |
| E + 1, chained | E + 1, another one | two copies wrote, and this one was slower | `ForkedState` |
| less than E, or changed | any | a cut or altered log | `CorruptState` |

So after an append that raised an error, either its record does not count, or the next `settle` returns the
record. Without a ledger, a rollback of both files to an older copy is not detected.

Lazy journals
-------------
A *lazy* journal replaces the end file when it is settled or closed, not at every append. An append then
costs one write-through, and a crash leaves the case "E + k", which loses no record. Until the end file is
replaced, a log whose last records were cut off is not detected. A damaged record with others behind it is
`CorruptState`. A lazy journal also keeps the log open between appends. Each append checks that the path
still leads to the open file, and otherwise opens the path again.
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
"""Version of the layout of a log file."""

_LONGEST_HEADER = 1 << 12
"""Largest length of a header in bytes. All of it is read, to
distinguish another subject's header from a damaged one.
"""

_CHUNK = 1 << 20
"""Number of bytes that are read from a log at a time."""

_FRAME = struct.Struct("<Qc")
_DIGEST_BYTES = hashlib.sha256().digest_size
_END = struct.Struct(f"<QQ{_DIGEST_BYTES}s")


class Record(NamedTuple):
    """Record of a log: a kind of one byte, and content that the journal does not interpret."""

    kind: bytes
    content: bytes


class Place(NamedTuple):
    """Place between two records of a log: records and bytes before it, and digest of the last record."""

    records: int
    length: int
    digest: bytes


class _Appending(NamedTuple):
    """Log file that is open for appending: descriptor, device, inode, and a function that closes it once."""

    descriptor: int
    identity: tuple[int, int]
    closing: Callable[[], object]


class Journal:
    """Append-only log in one file, with an end file in the same folder.

    Args:
        path: Path of an existing log; use `create` for a new log.
        kind: Name of the logged events. Public.
        subject: Id of the object that the log belongs to, such as a release or the digest of a spec. Public.
        ledger: Ledger that detects forks and rollbacks. A log that was made with a ledger needs it.
        lineage: Name of the log at the ledger. Default: `subject`.
        after: Place from which `settle` and `stream` read. Default: the first record.
        lazy: True for a lazy journal; see the module. Ignored with a ledger.

    Raises:
        IncompatibleState: The log belongs to another subject or has another format; or it was made with a
            ledger and none is passed, or the reverse; or the ledger has never seen the log.
        CorruptState: The log or its end file is missing, cut or changed.

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
        """Create a log. The call can be repeated as long as the log has no record.

        Raises:
            CorruptState: The log already has records, or it exists and its end file is missing.
            IncompatibleState: The path has another subject's log.
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
        if begun or b"\n" in held:  # an earlier call wrote at least a whole header
            _compare(held, header, kind)
            if size > len(header):
                raise CorruptState(
                    f"the log of {kind} has records already: open it. If the state does not know of them, it "
                    "is an old copy: restore the newest"
                )
        elif size > len(header):
            raise _damaged(kind)
        if begun and _read_end(end, kind) != first:
            raise _damaged(kind)  # the log had records and was cut
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
        """Digest of the last record, in hexadecimal. It depends on all records; a ledger stores it."""
        return self._mark.digest.hex()

    @property
    def place(self) -> Place:
        """Place after the last record that was settled or appended."""
        return self._mark

    def digest_after(self, records: int) -> str | None:
        """Return the digest after the first `records` records; None if the log has fewer intact records."""
        first = _first(self._header)
        with self._opened(first) as (file, size):
            places = chain((first,), _places(file, size, first))
            return next((place.digest.hex() for place in places if place.records == records), None)

    def settle(self) -> list[Record]:
        """Finish or drop an interrupted append, and return the new records of `stream` as a list."""
        return list(self.stream())

    def stream(self) -> Iterator[Record]:
        """Finish or drop an interrupted append, and return the records that this object has not seen.

        Such records count, and come from other processes or from an append that raised an error after
        writing. All checks are made before the iterator is returned. A record is read when the iterator
        reaches it.

        Raises:
            ForkedState: Another copy has continued; nothing was changed.
            CorruptState: The log was cut or altered; nothing was changed.
            IncompatibleState: The ledger has never seen this log.
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
            # The writer may have died before the record was on disk, and the ledger must not be ahead of it.
            _sync(self._path)
        self._check_witness(before if mark != end else mark, mark)
        if mark.length < size:
            os.truncate(self._path, mark.length)  # these bytes were never witnessed, so they never counted
        if mark != end:
            _write_end(end_path(self._path), mark)
        self._mark = mark
        return self._between(first, mark)

    def append(self, kind: bytes, content: bytes) -> None:
        """Append a record, which counts when this returns. Call `settle` before.

        Act on the event of the record only after this has returned.

        Raises:
            ProtocolError: Bytes follow the last settled record, from another process or a failed append;
                nothing was changed.
            ForkedState: Another copy was faster; the record never counts.
            OSError: Writing failed; the next `settle` finds out whether the record counts.
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
        """Close the log file; a lazy journal also replaces its end file."""
        self._let_go()
        if self._lazy:
            _write_end(end_path(self._path), self._mark)

    # -- inside ------------------------------------------------------------------------------------

    def _check_witness(self, before: Place, here: Place) -> None:
        """Compare the log with the ledger; advance the ledger if it lacks just the last record."""
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
        """Return a context manager that opens the log at a place and yields the file and its size."""
        try:
            with open_regular(self._path) as (file, size):
                if size < at.length:
                    raise self._shorter()
                file.seek(at.length)
                yield file, size
        except FileNotFoundError:
            raise self._shorter() from None

    def _between(self, first: Place, last: Place) -> Iterator[Record]:
        """Yield the records between two places, whose digests were checked before."""
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
        """Write data after the last record, through to disk; if this fails, cut off what was written, if
        possible.
        """
        kept = False
        try:
            descriptor, size = self._appending()
            if size != self._mark.length:
                raise ProtocolError(
                    f"the log of {self._kind} has bytes behind the last record that was settled: call settle "
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
        """Return a descriptor that appends to the file that is now at the path, and the size of this file."""
        if self._file is not None:
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._file.identity:
                return self._file.descriptor, status.st_size
            self._let_go()  # the path now leads to another file or to a link
        # No O_CREAT: a deleted log must not be created again.
        descriptor = open_to_write(self._path, os.O_WRONLY | os.O_APPEND)
        closing = weakref.finalize(self, os.close, descriptor)
        # Not closed at exit: an exit handler or a thread may append once more, and the number of a closed
        # descriptor could be another file's. The system closes it.
        closing.atexit = False
        status = os.fstat(descriptor)
        self._file = _Appending(descriptor, (status.st_dev, status.st_ino), closing)
        return descriptor, status.st_size

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.closing()
            self._file = None

    def _forked(self) -> ForkedState:
        return ForkedState(
            f"the ledger has witnessed other records of {self._kind} than this log has: another copy has "
            "continued, or an old one was restored; use the newest"
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
            f"the log of {kind} has another format than {FORMAT}: use the version of dpbandits that wrote it"
        )
    wanted = json.loads(header)
    if found == {**wanted, "witnessed": not wanted["witnessed"]}:
        made, remedy = ("without", "open it so") if wanted["witnessed"] else ("with", "pass that one")
        raise IncompatibleState(f"the log of {kind} was made {made} a ledger: {remedy}")
    raise IncompatibleState(f"the log of {kind} belongs to another subject: choose another folder")


def _places(file: BinaryIO, size: int, at: Place) -> Iterator[Place]:
    """Yield the place after each record from `at` on, up to the first bytes that are not an intact record."""
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
    """Return True if bytes follow the record at `at`, so that the record is damaged and not an interrupted
    append.
    """
    file.seek(at)
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return False
    length, _ = _FRAME.unpack(head)
    return bool(at + _FRAME.size + length + _DIGEST_BYTES < size)


def end_path(path: Path) -> Path:
    """Return the path of a log's end file."""
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
