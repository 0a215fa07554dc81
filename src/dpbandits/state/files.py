"""File operations that survive a crash: each returns when its effect is on disk.

Reading works on every platform. A file or folder that several processes may write needs the locks of POSIX
(`fcntl`), which Windows and Pyodide lack: `refuse_without_locks` says so.
"""

import errno
import os
import shlex
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dpbandits.errors import CorruptState, MissingState, StateError

try:
    import fcntl
except ImportError:  # Windows and Pyodide
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "found",
    "locked",
    "open_regular",
    "open_to_read",
    "open_to_write",
    "private_folder",
    "refuse_if_others_write",
    "refuse_without_locks",
    "replace_durably",
    "sync_directory",
    "write_durably",
    "write_folder",
    "write_through",
]

# A directory's fsync is refused with these by file systems that have no such notion.
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}

# Flags that a platform lacks are zero there. Windows alone has O_BINARY, without which it changes line ends.
_EVERY_FILE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)

_LOCKS: dict[object, int] = {}
"""Open lock files: their descriptors, by what holds each."""

_OPENING = threading.RLock()
"""Held from the opening of a lock file until it is in `_LOCKS`, and over every fork."""


def _leave_locks_to_the_parent() -> None:
    """In a forked child: a lock is freed when nobody has its file open, and the parent may die first."""
    while _LOCKS:
        os.close(_LOCKS.popitem()[1])
    _OPENING.release()


if hasattr(os, "register_at_fork"):  # else processes are never forked
    os.register_at_fork(
        before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_leave_locks_to_the_parent
    )


def refuse_without_locks(what: str) -> None:
    """Raise StateError if this platform has no POSIX locks, which keeping `what` on disk needs."""
    if fcntl is None:
        raise StateError(
            f"{what} needs POSIX file locks, which this platform does not have: keep it in memory, or use "
            "Linux, macOS or WSL"
        )


def open_to_write(path: Path, flags: int) -> int:
    """A descriptor of the file, of mode 0600 if it is new. A symbolic link is refused, never followed."""
    return os.open(path, flags | _EVERY_FILE | _NO_LINK, 0o600)


def open_to_read(path: str | os.PathLike[str]) -> int:
    """A descriptor of the file. A pipe in its place cannot hang the reader."""
    return os.open(path, os.O_RDONLY | _EVERY_FILE | _NO_WAIT)


def write_durably(path: Path, data: bytes, *, exclusive: bool = False, renamed: bool = False) -> None:
    """Write a file of mode 0600 and its directory entry through to disk.

    Not atomic: a crash leaves a file that is missing, torn or complete. A symbolic link in its place is
    refused, never followed.

    `exclusive`: the file must not exist. `renamed`: `replace_durably` follows at once, and makes the entry
    durable under its last name.
    """
    descriptor = open_to_write(path, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_TRUNC))
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)  # a file that was there may have been more open
        write_through(descriptor, data)
    finally:
        os.close(descriptor)
    if not renamed:
        sync_directory(path.parent)


def write_through(descriptor: int, data: bytes) -> None:
    """Write all of it where the descriptor stands, through to disk."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    os.fsync(descriptor)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a new folder with these files, for everybody whom the umask lets read, through to disk.

    Raises:
        FileExistsError: there is something at its path.
    """
    folder.mkdir()
    for name, data in files.items():
        with (folder / name).open("xb", buffering=0) as file:
            write_through(file.fileno(), data)
    sync_directory(folder)
    sync_directory(folder.parent)


def private_folder(folder: Path, *, what: str) -> Path:
    """The folder, made with mode 0700 where it does not exist; see `refuse_if_others_write`.

    Raises:
        StateError: it cannot be made, others can write to it, or the platform has no POSIX locks.
    """
    refuse_without_locks(what)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{what} cannot be made: {error.strerror}") from None
    refuse_if_others_write(folder, what=what)
    return folder


def replace_durably(source: Path, target: Path) -> None:
    """Rename atomically over `target`, through to disk."""
    os.replace(source, target)  # noqa: PTH105 - the one call whose atomicity everything rests on
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and removals in `directory` durable, where the file system can."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no directories
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | _EVERY_FILE)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def refuse_if_others_write(path: Path, *, what: str) -> None:
    """Refuse what others than its owner may write to, or may replace because its folder is theirs to write.

    A folder with the sticky bit, as /tmp has it, lets nobody replace what is another's. What cannot be asked
    is left to whoever opens it. Lists of access rights beyond the mode are not read. Windows has no modes.

    Raises:
        StateError: with the command that mends it.
    """
    if os.name == "nt":
        return
    for place, named, excused in ((path.parent, f"the folder of {what}", stat.S_ISVTX), (path, what, 0)):
        try:
            mode = place.stat().st_mode
        except OSError:
            continue
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & excused:
            raise StateError(
                f"{named} can be written by others (mode {stat.S_IMODE(mode):04o}), who could forge or undo "
                f"what it holds: look at what they did, then run chmod go-w {shlex.quote(str(place))}"
            )


@contextmanager
def found(otherwise: str) -> Iterator[None]:
    """Say `otherwise`, as a `MissingState`, where a file or folder is not there."""
    try:
        yield
    except MissingState:
        raise
    except FileNotFoundError:
        raise MissingState(otherwise) from None


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size in bytes.

    Raises:
        FileNotFoundError: there is none.
        CorruptState: a directory, a pipe or a device is in its place.
    """
    descriptor = open_to_read(path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CorruptState("not a state file: the path is a directory, a pipe or a device")
        with open(descriptor, "rb", closefd=False) as file:
            yield file, status.st_size
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the exclusive lock file `path`; the system frees it when the process dies. No forked child has it.

    Raises:
        StateError: the platform or the file system has no locks; or another holds this one, and `wait` is
            False.
    """
    refuse_without_locks("a state on disk")
    holder = object()
    with _OPENING:
        descriptor = open_to_write(path, os.O_RDWR | os.O_CREAT)
        _LOCKS[holder] = descriptor
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError("another server or process uses this folder: close it first") from None
        except OSError as error:
            raise StateError(
                f"this file system refuses locks ({errno.errorcode.get(error.errno or 0, 'unknown error')}): "
                "keep states on one that has them, or two processes could overwrite each other"
            ) from None
        yield
    finally:
        if _LOCKS.pop(holder, None) is not None:  # else a forked child's: closed, and its number is another's
            os.close(descriptor)
