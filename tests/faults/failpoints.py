"""Faults at the k-th durable operation of a process: kills, torn and garbled writes, full disks, clock jumps.

Operations are counted where they happen: calls of `os` in Python, and the system calls that SQLite makes
(its default VFS lets them be replaced one by one). A kill is a real SIGKILL. Everything here is for a
forked child: nothing is ever put back.
"""

import ctypes
import datetime as dt
import errno
import os
import re
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["KILLING", "MODES", "Failpoint"]

KILLING = ("kill", "torn", "garbled")
"""Modes that end the process: before the operation, in the middle of a write, and after a write of which
something else reached the disk."""

MODES = (*KILLING, "full", "full for long", "clock")

_CREATES = os.O_CREAT
_YEAR = 366 * 86_400.0
_NEEDS_ROOM = {"open", "write", "fsync", "replace", "link"}
_WRITES = {"write"}


class Failpoint:
    """Counts operations, and does its harm at number `at`.

    Args:
        at: number of the operation, from 1; 0 only counts.
        mode: one of `MODES`.
        folder: whose files a clock jump touches.
    """

    def __init__(self, at: int, mode: str, folder: Path) -> None:
        self.at, self.mode, self.folder = at, mode, folder
        self.kinds: list[str] = []
        self.fired = False
        self.active = True
        self._full = False

    def applies(self, kind: str) -> bool:
        """Whether the mode means anything at an operation of this kind."""
        if self.mode in ("torn", "garbled"):
            return kind in _WRITES
        if self.mode in ("full", "full for long"):
            return kind in _NEEDS_ROOM
        return True

    def before(self, kind: str, write: Callable[[bytes], Any] | None, data: bytes) -> None:
        """Called before every operation; returns where it may go on, raises OSError on a full disk."""
        if not self.active:
            return
        self.kinds.append(kind)
        if self._full and kind in _NEEDS_ROOM:
            raise OSError(errno.ENOSPC, "no space left on device")
        if len(self.kinds) != self.at:
            return
        self.fired = True
        if self.mode in ("full", "full for long"):
            self._full = self.mode == "full for long"
            if write is not None and len(data) > 1:
                write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left on device")
        if self.mode == "clock":
            self._jump()
            return
        if write is not None and self.mode == "torn":
            write(data[: len(data) // 2])
        if write is not None and self.mode == "garbled":
            write(bytes(byte ^ 0x5A for byte in data))
        os.kill(os.getpid(), signal.SIGKILL)

    def room(self) -> None:
        """The disk has room again, and nothing fails any more."""
        self.active = False

    def _jump(self) -> None:
        """Every clock that Python has goes back by a year, and files seem to come from the future."""
        for owner, name in ((time, "time"), (time, "monotonic"), (time, "perf_counter")):
            original = getattr(owner, name)
            setattr(owner, name, lambda original=original: original() - _YEAR)
            nanoseconds = getattr(owner, name + "_ns")
            setattr(owner, name + "_ns", lambda original=nanoseconds: original() - int(_YEAR * 1e9))

        class Earlier(dt.datetime):
            @classmethod
            def now(cls, tz=None):
                return super().now(tz) - dt.timedelta(seconds=_YEAR)

        dt.datetime = Earlier
        for path in self.folder.rglob("*"):
            os.utime(path, (2.0**32, 2.0**32))

    # -- putting it in the way ------------------------------------------------------------------------

    def install(self) -> None:
        """Stand in the way of this process's durable operations, for good."""
        self._python()
        self._sqlite()

    def _python(self) -> None:
        opened, wrote = os.open, os.write

        def guarded_open(path, flags, *rest, **named):
            if flags & _CREATES:
                self.before("open", None, b"")
            return opened(path, flags, *rest, **named)

        def guarded_write(descriptor, data):
            self.before("write", lambda part: wrote(descriptor, part), bytes(data))
            return wrote(descriptor, data)

        os.open, os.write = guarded_open, guarded_write
        kinds = {"fsync": "fsync", "replace": "replace", "rename": "replace", "link": "link"}
        kinds |= dict.fromkeys(("unlink", "remove"), "unlink")
        kinds |= {"ftruncate": "truncate", "truncate": "truncate", "mkdir": "open"}
        for name, kind in kinds.items():
            setattr(os, name, self._guarded(getattr(os, name), kind))

    def _guarded(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def guarded(*arguments, **named):
            self.before(kind, None, b"")
            return function(*arguments, **named)

        return guarded

    def _sqlite(self) -> None:
        vfs = _default_vfs()
        self._kept = []  # ctypes callbacks must outlive their use

        def replace(name: str, kind: str, prototype: Any, pick: Callable[..., tuple[Any, bytes]]) -> None:
            pointer = vfs.contents.xGetSystemCall(vfs, name.encode())
            if not pointer:
                return
            original = prototype(pointer)

            def guarded(*arguments):
                try:
                    write, data = pick(original, *arguments)
                    self.before(kind, write, data)
                except OSError as error:
                    ctypes.set_errno(error.errno or errno.EIO)
                    return -1
                return original(*arguments)

            callback = prototype(guarded)
            self._kept += [original, callback]
            vfs.contents.xSetSystemCall(vfs, name.encode(), ctypes.cast(callback, ctypes.c_void_p))

        def nothing(_original, *_arguments):
            return None, b""

        def writing(original, descriptor, buffer, size, *offset):
            def write(part: bytes) -> None:
                original(descriptor, ctypes.cast(ctypes.c_char_p(part), ctypes.c_void_p), len(part), *offset)

            return write, ctypes.string_at(buffer, size)

        c_int, c_long, c_size, void = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_void_p
        whole = ctypes.CFUNCTYPE(c_long, c_int, void, c_size, use_errno=True)
        placed = ctypes.CFUNCTYPE(c_long, c_int, void, c_size, ctypes.c_int64, use_errno=True)
        replace("write", "write", whole, writing)
        replace("pwrite", "write", placed, writing)
        replace("pwrite64", "write", placed, writing)
        replace("unlink", "unlink", ctypes.CFUNCTYPE(c_int, ctypes.c_char_p, use_errno=True), nothing)
        truncating = ctypes.CFUNCTYPE(c_int, c_int, ctypes.c_int64, use_errno=True)
        replace("ftruncate", "truncate", truncating, nothing)


class _VFS(ctypes.Structure):
    """sqlite3_vfs, as sqlite3.h has had it since version 3 of the structure."""


_VFS._fields_ = [
    ("iVersion", ctypes.c_int),
    ("szOsFile", ctypes.c_int),
    ("mxPathname", ctypes.c_int),
    ("pNext", ctypes.c_void_p),
    ("zName", ctypes.c_char_p),
    ("pAppData", ctypes.c_void_p),
    *((f"unused{number}", ctypes.c_void_p) for number in range(13)),
    (
        "xSetSystemCall",
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_VFS), ctypes.c_char_p, ctypes.c_void_p),
    ),
    ("xGetSystemCall", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_VFS), ctypes.c_char_p)),
    ("xNextSystemCall", ctypes.c_void_p),
]


def _default_vfs() -> Any:
    """The VFS of the very library that Python's sqlite3 uses."""
    sqlite3.connect(":memory:").close()
    maps = Path("/proc/self/maps").read_text()
    loaded = re.findall(r"(/\S*libsqlite3\S*)", maps) or re.findall(r"(/\S*_sqlite3\S*)", maps)
    library = ctypes.CDLL(loaded[0])
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_VFS)
    vfs = library.sqlite3_vfs_find(None)
    if not vfs or vfs.contents.iVersion < 3:
        raise RuntimeError("this SQLite does not let its system calls be replaced")
    return vfs


def limit_files(size: int) -> Callable[[], None]:
    """The kernel refuses to let files grow beyond `size` bytes; call what is returned to lift the limit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
