"""Lines of the page of verdicts, and the format of their numbers."""

from dpbandits.lab.study import Row

__all__ = [
    "CITED",
    "COLUMNS",
    "NOT_RUN",
    "command_of",
    "computed",
    "line_of",
    "number_of",
    "seeds_of",
    "told",
]

COLUMNS = (
    "item",
    "printed",
    "honest",
    "as printed",
    "ours",
    "non-private",
    "random",
    "seeds",
    "verdict",
    "run",
)
NOT_RUN = "not run"
CITED = "a step of a proof, which is about regret and not about privacy; nothing to run"
"""Verdict on an element that has no number and that no promise rests on."""


def line_of(item: str, **known: str) -> Row:
    """A line; what is not known was not run."""
    missing = set(known) - set(COLUMNS) - {"as_printed", "non_private"}
    if missing:
        raise KeyError(*missing)
    named = {
        name.replace("as_printed", "as printed").replace("non_private", "non-private"): text
        for name, text in known.items()
    }
    return {name: named.get(name, NOT_RUN) for name in COLUMNS} | {"item": item}


def number_of(row: Row | None, name: str = "regret", error: str = "standard_error", form: str = ".0f") -> str:
    """A number of a row with its standard error in brackets."""
    if row is None:
        return NOT_RUN
    return f"{row[name]:{form}} ({row[error]:{form if form != '.0f' else '.1f'}})"


def seeds_of(*rows: Row | None, **named: Row | None) -> str:
    """Repetitions and first seed of rows; each row that has a name says its own if they differ."""
    found = {name: row for name, row in named.items() if row is not None}
    every = [*(row for row in rows if row is not None), *found.values()]
    if not every:
        return NOT_RUN
    reps, first = ({row[name] for row in every} for name in ("reps", "first_seed"))
    said = f"{min(reps)}" if len(reps) == 1 else f"{min(reps)} to {max(reps)}"
    if found and len(reps) > 1:
        said = ", ".join(f"{name} {row['reps']}" for name, row in found.items())
    return f"{said} from {' and '.join(f'{seed:,}' for seed in sorted(first))}"


def command_of(*words: str) -> str:
    """Return the command that runs a line's cells."""
    return "python -m reproduction " + " ".join(filter(None, words)).strip()


def computed(verdict: str, run: str) -> dict[str, str]:
    """Columns of a line where nothing is run."""
    names = ("honest", "as_printed", "ours", "non_private", "random", "seeds")
    return dict.fromkeys(names, "none") | {"verdict": verdict, "run": run}


def told(*elements: tuple[str, str, str, str]) -> list[Row]:
    """Lines of (item, printed, verdict, run) where nothing is run."""
    return [
        line_of(item, printed=printed, **computed(verdict, run)) for item, printed, verdict, run in elements
    ]
