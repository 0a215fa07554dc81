"""Evaluate an exported policy from the wheel where there is no NumPy, and compare with the library."""

import json
import sys

from dpbandits.export import decide_by

given = json.loads(cases)  # noqa: F821 - a global that run.mjs sets
found = [decide_by(given["policy"], context) for context, _ in given["cases"]]
wrong = sum(arm != expected for arm, (_, expected) in zip(found, given["cases"], strict=True))
assert wrong == 0, f"{wrong} of {len(found)} decisions differ"
assert "numpy" not in sys.modules
f"{len(found)} decisions equal the library's, Python {sys.version.split()[0]} on {sys.platform}"
