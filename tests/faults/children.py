"""Tasks in forked processes, and what they say."""

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Child", "in_child"]

PATIENCE = 600
"""Seconds that a child may take: a task that waits for ever is ended by SIGALRM."""


class Child:
    """A process that runs a task and says its result as JSON, or the traceback that ended it.

    Args:
        task: what it does; the process ends without cleaning up after it.
        closing: descriptors that it must not keep open.
    """

    def __init__(self, task: Callable[[], Any], *, closing: tuple[int, ...] = ()) -> None:
        self._reading, writing = os.pipe()
        write = os.write  # before a failpoint stands in its way
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                signal.alarm(PATIENCE)
                for descriptor in closing:
                    os.close(descriptor)
                write(writing, json.dumps(task()).encode())
                code = 0
            except BaseException:  # noqa: BLE001 - told to the parent
                write(writing, json.dumps(traceback.format_exc()[-1500:]).encode())
            finally:
                os._exit(code)
        os.close(writing)

    def kill(self) -> None:
        """kill -9, wherever it is."""
        os.kill(self._pid, signal.SIGKILL)

    def result(self) -> tuple[int, Any]:
        """Exit status (negative: signal) and what it said; None where it said nothing."""
        with os.fdopen(self._reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status), json.loads(said) if said else None


def in_child(task: Callable[[], Any]) -> tuple[int, Any]:
    """Exit status and result of a task in a process of its own."""
    return Child(task).result()
