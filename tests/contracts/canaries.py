"""Canaries: values that go in as private data and must come out nowhere.

`Lint` collects everything a person or a log could see (texts, files, errors with their causes) and looks
for the canaries in it: numbers as they could be printed, in any of several roundings, and as the eight
bytes of a double; names as they are.
"""

import logging
import struct
import traceback
from pathlib import Path

import numpy as np

from dpbandits.errors import DPBanditsError

USER = "canary-4711-user"
REWARD = 0.81726354
FEATURE = 0.59384756
OUTSIDE = 73.62518439
"""Off every public range: what error messages are about."""

NUMBERS = (REWARD, FEATURE, 1.0 + REWARD, 1.0 + FEATURE, OUTSIDE)

_DEPTH = 4


def traces(number):
    """Ways in which a number could be printed, six digits and more."""
    return {f"{number:.6f}", f"{number:.7g}", repr(number), f"{number:.6e}"}


class Lint:
    """Everything that was seen.

    Args:
        caplog: pytest's log capture; everything from DEBUG up is looked at.
    """

    def __init__(self, caplog):
        caplog.set_level(logging.DEBUG)
        self._caplog = caplog
        self._texts, self._bytes = [], []

    def see(self, *things):
        """Texts and bytes as they are; objects by repr, str and format, with what hangs on them."""
        for thing in things:
            if isinstance(thing, str):
                self._texts.append(thing)
            elif isinstance(thing, bytes):
                self._bytes.append(thing)
            elif isinstance(thing, np.ndarray):
                self._bytes.append(np.ascontiguousarray(thing, dtype=np.float64).tobytes())
            else:
                self._object(thing, _DEPTH)

    def _object(self, thing, depth):
        self._texts += [repr(thing), str(thing), f"{thing}"]
        for part in getattr(thing, "__dict__", {}).values():
            if depth and type(part).__module__.startswith("dpbandits"):
                self._object(part, depth - 1)

    def refuse(self, call, *arguments, **options):
        """A call that must be refused; its error is seen whole, with causes and contexts."""
        try:
            call(*arguments, **options)
        except DPBanditsError as error:
            self.error(error)
        else:
            raise AssertionError("this call should have been refused")

    def error(self, error):
        """An exception as a log would show it, and its arguments; what it hides on purpose stays hidden."""
        self._texts.append("".join(traceback.format_exception_only(error)))
        while error is not None:
            self._texts.append(f"{error!r} {error.args}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def files(self, path):
        """A file, or all files of a folder, as text and as bytes."""
        path = Path(path)
        found = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        assert found
        for each in found:
            data = each.read_bytes()
            self._bytes.append(data)
            self._texts += [each.name, data.decode("utf-8", errors="replace")]

    def check(self, *, numbers=NUMBERS, names=(USER,)):
        """No canary in anything that was seen."""
        text = "\n".join([*self._texts, self._caplog.text])
        data = b"\n".join(self._bytes)
        assert text
        for name in names:
            assert name not in text
            assert name.encode() not in data
        for number in numbers:
            for trace in traces(number):
                assert trace not in text
                assert trace.encode() not in data
            assert struct.pack("<d", number) not in data
            assert struct.pack(">d", number) not in data
