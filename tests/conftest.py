"""Settings every test shares."""

import gc
import os

import pytest
from hypothesis import settings

# What tests share asserts too, also under `python -O`, which strips asserts that pytest has not rewritten.
pytest.register_assert_rewrite("contracts.canaries", "contracts.driving")

# Help texts are compared as plain text; CI services and pytest wrappers set these, and typer obeys.
for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
    os.environ.pop(name, None)

# The same examples on every run and machine; no deadline, as CI machines stall.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("fixed")


def pytest_collection_finish() -> None:
    """The collected tests stay to the end, so the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()
