"""Count what constructors answer to hostile values.

    python -m hostile.run --out ../docs/_results/hostile.json

run in `tests`. `test_constructors.py` fails where an answer is none of the three that are counted here.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

from dpbandits.errors import DPBanditsError
from hostile.cases import CASES
from hostile.values import HOSTILE


def tally(name: str) -> dict[str, object]:
    """How often a class refused with its own error, let Python refuse another kind of value, or was built."""
    case = CASES[name]
    row: dict[str, object] = {"class": name, "arguments": len(case.arguments)}
    counts = {"tried": 0, "refused": 0, "another_kind": 0, "built": 0}
    for argument in case.arguments:
        for bad in HOSTILE:
            counts["tried"] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    repr(case.build(**{**case.arguments, argument: bad}))
                except DPBanditsError:
                    counts["refused"] += 1
                except (TypeError, AttributeError, FileNotFoundError):
                    counts["another_kind"] += 1
                else:
                    counts["built"] += 1
    return row | counts


def main() -> None:
    """Count, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = [tally(name) for name in CASES]
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
