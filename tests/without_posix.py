"""A plugin that runs the tests as on Windows: POSIX modules and functions are hidden from the library.

    python -m pytest -p without_posix tests/privacy tests/models ...

A test in which the library refuses a folder because there are no POSIX file locks counts as skipped. Every
other failure stays one. Where fewer than four of five tests pass, the run fails.
"""

import os
import sys
import traceback
from typing import Any

import pytest

HIDDEN_MODULES = ("fcntl", "grp", "msvcrt", "pwd", "resource", "termios")
HIDDEN_NAMES = (
    "fork",
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "fchmod",
    "killpg",
    "register_at_fork",
)
REFUSAL = "POSIX file locks"
LEAST = 0.8

for module in HIDDEN_MODULES:
    sys.modules[module] = None  # type: ignore[assignment]
for name in HIDDEN_NAMES:
    if hasattr(os, name):
        delattr(os, name)

if "dpbandits.state.files" in sys.modules or "dpbandits.privacy.noise" in sys.modules:
    raise pytest.UsageError("the library was imported before POSIX was hidden")


def refused(error: BaseException | None) -> bool:
    """Return True if this error, or its cause, is the library's refusal without file locks.

    A test that calls a hidden function itself counts as refused, too; the library may not call one.
    """
    while error is not None:
        if REFUSAL in str(error) or (
            isinstance(error, AttributeError) and error.obj is os and not by_library(error)
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def by_library(error: BaseException) -> bool:
    """Return True if a line of the library raised this error."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and f"{os.sep}dpbandits{os.sep}" in frames[-1].filename


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Count a test that meets the refusal as skipped."""
    made = yield
    report = made.get_result()
    if report.failed and call.excinfo is not None and refused(call.excinfo.value):
        path, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (path, line or 0, f"Skipped: needs {REFUSAL}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too few tests passed."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or session.config.option.collectonly:  # in a worker process, the other one counts
        return
    passed, skipped = (len(terminal.stats.get(outcome, [])) for outcome in ("passed", "skipped"))
    share = passed / max(passed + skipped, 1)
    terminal.write_line(f"without POSIX: {passed} of {passed + skipped} tests passed ({share:.1%})")
    if share < LEAST:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
