"""Files changed at rest, after a finished run: cut, emptied, flipped, removed.

Whoever opens a damaged folder must refuse it with an error of the library, or find everything as it was.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from dpbandits.errors import DPBanditsError
from faults.subjects import Act, Subject

__all__ = ["DAMAGES", "spread"]

MOST_CUTS, MOST_FLIPS = 32, 150

Case = TypeVar("Case")
Changes = Iterator[tuple[str, bytes | None]]
"""What was done, and the file's new content (None: no file)."""


def cuts(whole: bytes) -> Changes:
    """Shorter by one byte, empty, and lengths between."""
    for length in sorted({0, len(whole) - 1, *range(0, len(whole), max(1, len(whole) // MOST_CUTS))}):
        yield f"cut to {length} bytes", whole[:length]


def flips(whole: bytes) -> Changes:
    """One bit, all over the file; where it holds more than zeros, which a database mostly is."""
    places = [at for at, byte in enumerate(whole) if byte]
    for at in places[:: max(1, len(places) // MOST_FLIPS)]:
        bit = 1 << at % 8
        yield f"bit {bit} of byte {at} flipped", whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]


def removals(whole: bytes) -> Changes:
    """No file."""
    yield "removed", None


def spread(cases: list[Case], most: int | None) -> list[Case]:
    """At most so many of the cases, evenly."""
    if most is None or len(cases) <= most:
        return cases
    return [cases[index * len(cases) // most] for index in range(most)]


def _damaged(
    changes: Callable[[bytes], Changes], *, removed: bool = False
) -> Callable[..., tuple[int, list[str]]]:
    """`most` of the changes of each file; None: all."""

    def damage(subject: Subject, folder: Path, acts: list[Act], most: int | None) -> tuple[int, list[str]]:
        injected, found = 0, []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder)
            if path.name in subject.not_state or path.name.endswith("lock") or path.stat().st_size == 0:
                continue
            if removed and path.name.endswith(subject.unguarded or "/"):
                continue
            for what, content in spread(list(changes(path.read_bytes())), most):
                victim = folder.with_name("victim")
                shutil.copytree(folder, victim)
                (victim / name).unlink() if content is None else (victim / name).write_bytes(content)
                injected += 1
                try:
                    broken = subject.check(victim, acts)
                except (DPBanditsError, FileNotFoundError):
                    broken = []  # refused
                except Exception as error:  # noqa: BLE001 - whatever else comes is a finding
                    broken = [f"{type(error).__name__}: {error}"[:200]]
                found += [f"{name} {what}: {text}" for text in broken]
                shutil.rmtree(victim)
        return injected, found

    return damage


DAMAGES = {
    "file cut at rest": _damaged(cuts),
    "bit flipped at rest": _damaged(flips),
    "file removed": _damaged(removals, removed=True),
}
