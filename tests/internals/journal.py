"""The files of a `Journal`, for tests that damage them on purpose, and the steps at which a disk can fail."""

import contextlib
import hashlib
import os
from pathlib import Path

from dpbandits.state import journal as module

__all__ = ["copy_of", "end_of", "failing", "files_of", "only_written", "put_back", "with_record"]


def end_of(path: Path) -> Path:
    """The file that says how far the log reaches."""
    return path.with_name(path.name + ".end")


def files_of(path: Path) -> tuple[bytes, bytes]:
    """Content of the log and of its end."""
    return path.read_bytes(), end_of(path).read_bytes()


def put_back(path: Path, files: tuple[bytes, bytes]) -> None:
    """Restore what `files_of` gave."""
    path.write_bytes(files[0])
    end_of(path).write_bytes(files[1])


def copy_of(path: Path, name: str) -> Path:
    """Another pair of files with the same content, beside."""
    other = path.with_name(name)
    put_back(other, files_of(path))
    return other


def with_record(files: tuple[bytes, bytes], kind: bytes, content: bytes) -> tuple[bytes, bytes]:
    """What `files_of` gave, after a record that counts."""
    log, end = files
    mark = module.Place(*module._END.unpack(end))
    record = module._FRAME.pack(len(content), kind) + content
    digest = hashlib.sha256(mark.digest + record).digest()
    longer = log + record + digest
    return longer, module._END.pack(mark.records + 1, len(longer), digest)


STEPS = {"write": (os, "write"), "sync": (os, "fsync"), "end": (module, "_write_end")}


@contextlib.contextmanager
def failing(monkeypatch, step, *, half=False):
    """The disk refuses a step of an append; with `half`, after half of what it was given to write."""
    owner, name = STEPS[step]
    real = getattr(owner, name)

    def refused(*arguments):
        if half:
            descriptor, data = arguments
            real(descriptor, data[: len(data) // 2])
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, refused)
        yield


def only_written(journal, kind, content):
    """Append a record and die before the ledger and the end hear of it."""
    path, ledger = journal._path, journal._ledger
    end = end_of(path).read_bytes()
    journal._ledger = None
    journal.append(kind, content)
    journal._ledger = ledger
    end_of(path).write_bytes(end)
