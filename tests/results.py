"""What the runs of `mutations`, `faults`, `fuzz` and `hostile` write, and how."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["DOCUMENTED", "publish", "results_parser"]

DOCUMENTED = Path(__file__).resolve().parents[1] / "reproduction" / "results"
"""Results that the documentation shows."""


def results_parser(description: str | None) -> argparse.ArgumentParser:
    """Options that every run has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--out", type=Path, help="write the results there, such as into reproduction/results")
    return parser


def publish(results: Any, options: argparse.Namespace, line: str) -> None:
    """Write the results where they were asked for, and print them, or a line that sums them up."""
    text = json.dumps(results, indent=1) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    sys.stdout.write(text if options.json else line + "\n")
