"""File operations that survive a crash. Each of them returns when its effect is on disk.

Reading works on every platform. Writing files and folders that several processes share needs POSIX locks
(`fcntl`), which Windows and Pyodide lack. `refuse_without_locks` raises an error there.
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

# Errors with which a file system refuses to sync a directory because it does not support that.
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}

# A flag is zero on platforms without it. Only Windows has O_BINARY, without which it converts line ends.
_EVERY_FILE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)

_LOCKS: dict[object, int] = {}
"""Descriptors of open lock files, by a token for each running use of `locked`."""

_OPENING = threading.RLock()
"""Lock that a thread holds until a lock file that it opened is in
`_LOCKS`, and that is held during every fork.
"""


def _leave_locks_to_the_parent() -> None:
    """Close the parent's lock files in a forked child.

    The system frees a lock when no process has its file open. If the child kept the files open, a lock would
    outlive the parent.
    """
    while _LOCKS:
        os.close(_LOCKS.popitem()[1])
    _OPENING.release()


if hasattr(os, "register_at_fork"):  # platforms without it cannot fork
    os.register_at_fork(
        before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_leave_locks_to_the_parent
    )


def refuse_without_locks(what: str) -> None:
    """Raise `StateError` if the platform has no POSIX locks; `what` says in the message what needs them."""
    if fcntl is None:
        raise StateError(
            f"{what} needs POSIX file locks, which this platform does not have: keep it in memory, or use "
            "Linux, macOS or WSL"
        )


def open_to_write(path: Path, flags: int) -> int:
    """Return a descriptor of the file, with mode 0600 if it is new. A symbolic link is refused."""
    return os.open(path, flags | _EVERY_FILE | _NO_LINK, 0o600)


def open_to_read(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of the file for reading. Opening a pipe does not block."""
    return os.open(path, os.O_RDONLY | _EVERY_FILE | _NO_WAIT)


def write_durably(path: Path, data: bytes, *, exclusive: bool = False, renamed: bool = False) -> None:
    """Write a file of mode 0600, and return when file and directory entry are on disk.

    This is not atomic: a crash leaves a file that is missing, torn or complete. A symbolic link at the path
    is refused.

    Args:
        path: Path of the file.
        data: Content of the file.
        exclusive: True if the file must not exist.
        renamed: True if `replace_durably` follows at once, which makes the directory entry durable under its
            new name.
    """
    descriptor = open_to_write(path, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_TRUNC))
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)  # an existing file may have another mode
        write_through(descriptor, data)
    finally:
        os.close(descriptor)
    if not renamed:
        sync_directory(path.parent)


def write_through(descriptor: int, data: bytes) -> None:
    """Write all the data at the descriptor's position, and return when they are on disk."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    os.fsync(descriptor)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create a folder with these files, and return when they are on disk. The umask sets their modes.

    Raises:
        FileExistsError: The path exists.
    """
    folder.mkdir()
    for name, data in files.items():
        with (folder / name).open("xb", buffering=0) as file:
            write_through(file.fileno(), data)
    sync_directory(folder)
    sync_directory(folder.parent)


def private_folder(folder: Path, *, what: str) -> Path:
    """Return the folder, created with mode 0700 if it is missing.

    Raises:
        StateError: The folder cannot be created, other users can write to it (`refuse_if_others_write`), or
            the platform has no POSIX locks.
    """
    refuse_without_locks(what)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{what} cannot be created: {error.strerror}") from None
    refuse_if_others_write(folder, what=what)
    return folder


def replace_durably(source: Path, target: Path) -> None:
    """Rename `source` over `target` atomically, and return when this is on disk."""
    os.replace(source, target)  # noqa: PTH105 - every crash table rests on the atomicity of this call
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and removals in `directory` durable, if the file system supports that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open directories
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
    """Raise `StateError` for a path that users other than its owner may write to or may replace.

    A path can be replaced if its folder is writable without the sticky bit, which /tmp has. A path whose
    mode cannot be read is not refused, because opening it will fail. Access control lists are not read.
    Windows has no modes.

    Raises:
        StateError: Others may write. The message has the command that corrects the mode.
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
                f"{named} can be written by others (mode {stat.S_IMODE(mode):04o}), who could forge or roll "
                f"back its content: check it for changes, then run chmod go-w {shlex.quote(str(place))}"
            )


@contextmanager
def found(otherwise: str) -> Iterator[None]:
    """Return a context manager that turns a missing file or folder into `MissingState` with the text
    `otherwise`.
    """
    try:
        yield
    except MissingState:
        raise
    except FileNotFoundError:
        raise MissingState(otherwise) from None


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading; yield it and its size in bytes.

    Raises:
        FileNotFoundError: The file does not exist.
        CorruptState: The path is a directory, a pipe or a device.
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
    """Return a context manager that holds an exclusive lock on the lock file `path`.

    The system frees the lock when the process dies. A forked child does not have it.

    Raises:
        StateError: The platform or file system has no locks; or `wait` is False and the lock is taken.
    """
    refuse_without_locks("a state on disk")
    token = object()
    with _OPENING:
        descriptor = open_to_write(path, os.O_RDWR | os.O_CREAT)
        _LOCKS[token] = descriptor
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError("another server or process uses this folder: close it first") from None
        except OSError as error:
            raise StateError(
                f"this file system refuses locks ({errno.errorcode.get(error.errno or 0, 'unknown error')}): "
                "put states on one with locks, or two processes could overwrite each other"
            ) from None
        yield
    finally:
        # In a forked child the descriptor was closed already, and its number may be another file's.
        if _LOCKS.pop(token, None) is not None:
            os.close(descriptor)
