"""Count what constructors answer to hostile values.

    python -m hostile.run --out ../reproduction/results/hostile.json

run in `tests`. `test_constructors.py` fails where an answer is none of the three that are counted here.
"""

from collections import Counter

from hostile.attempts import attempt
from hostile.cases import CASES
from hostile.values import HOSTILE
from results import publish, results_parser


def tally(name: str) -> dict[str, object]:
    """How often a class refused with its own error, let Python refuse another kind of value, or was built."""
    arguments = CASES[name].arguments
    answers = Counter(attempt(name, argument, bad)[0] for argument in arguments for bad in HOSTILE)
    row: dict[str, object] = {"class": name, "arguments": len(arguments), "tried": answers.total()}
    return row | {kind: answers[kind] for kind in ("refused", "another_kind", "built")}


def main() -> None:
    """Count, print, write."""
    options = results_parser(__doc__).parse_args()
    rows = [tally(name) for name in CASES]
    publish(rows, options, "\n".join(str(row) for row in rows))


if __name__ == "__main__":
    main()
