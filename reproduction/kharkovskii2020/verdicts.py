"""Lines of Kharkovskii2020 on the page of verdicts; see `reproduction.verdicts`."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.lab.study import Row
from reproduction.kharkovskii2020.cells import PAPER, PAPERS_REPS, SMALL_R, SMALL_R_PLACES
from reproduction.kharkovskii2020.methods import (
    GP_UCB,
    GP_UCB_CODE,
    GP_UCB_FIFTH,
    LIKELY,
    PUBLISHED,
    PUBLISHED_CODE,
    PUBLISHED_DIMENSION,
    PUBLISHED_FIFTH,
)
from reproduction.kharkovskii2020.theory import guideline_dimension
from reproduction.kharkovskii2020.worlds import WORLDS
from reproduction.lines import CITED, NOT_RUN, command_of, line_of, number_of, seeds_of, told
from reproduction.result_folder import ResultFolder

__all__ = ["explained", "kharkovskii_lines", "run_often", "small_r"]

_EXCESS = """synthetic e^1.1 .011, e^.9 .069, e^0 .099; loans e^2.9 .003, e^2 .019, e^1 .05
property e^2.8 .051, e^1 .017, e^.5 .082; Branin e^2.3 .004, e^2 .023, e^1.8 .051"""
_SEARCHES = {
    "synthetic": ("synthetic", "projections"),
    "loans": ("loans", "loans-printed"),
    "ames": ("property", "ames-printed"),
    "branin31": ("Branin", "branin31"),
}
"""Our world -> the paper's name of it, and our item."""

_OURS_AT = {"synthetic": 1.1, "Branin": 2.3, "loans": 2.9, "property": 2.8}
"""ln epsilon of ours beside the tables: the largest that its curves have."""

_TABLES_OF = {"projections": "synthetic", "branin31": "branin31"}

_CODE_ITEMS = {"synthetic": "projections-code", "branin31": "branin31-code-raw-shifted"}
"""Our world -> the item that runs its tables as the authors' public code does."""

_OTHER_TABLES = {"loans": "another table of loans", "property": "houses in Ames; 50 rows, the paper 100"}


def kharkovskii_lines(held: ResultFolder) -> list[Row]:
    """All of them, from the result files in a folder."""
    return [*_tables(held), *_excesses(held), *_theory()]


def _tables(held: ResultFolder) -> Iterator[Row]:
    form, searched = partial(number_of, form=".3f"), partial(_searched, held)
    for number, ((world, power), along) in enumerate(PAPER.items(), start=1):
        table, item = _SEARCHES[world]
        stem, grid = f"kharkovskii2020-{item}", ", ".join(map(str, along))
        values = [f"{value:g}" for value in along.values()]
        found = [searched(stem, method=PUBLISHED, dimension=r, power=power) for r in along]
        rows = [row for row in found if row is not None]
        near, told = (_agreeing(found, along.values(), reps) for reps in (math.inf, PAPERS_REPS))
        verdict = f"not private; {near} of {len(values)} within two standard errors"
        verdict += f", {told} of the difference"
        if world in _CODE_ITEMS:
            stem_of_code = f"kharkovskii2020-{_CODE_ITEMS[world]}"
            code = [searched(stem_of_code, method=PUBLISHED_CODE, dimension=r, power=power) for r in along]
            if any(code):
                agree = _agreeing(code, along.values())
                verdict += f"; {agree} as its public code runs"
        if table in _OTHER_TABLES:
            verdict = f"not private; cannot be compared: {_OTHER_TABLES[table]}"
        own, ours_at = searched(stem, method=LIKELY, power=_OURS_AT[table]), f"e^{_OURS_AT[table]:g}"
        if own is None and table == "synthetic":
            own, ours_at = searched("kharkovskii2020-synthetic", method=LIKELY, epsilon=3.0), "3"
        yield line_of(
            f"Table {number}, {table}, epsilon e^{power:g}, r = {grid}",
            printed=" ".join(values),
            honest="none: it is not private",
            as_printed=" ".join(map(form, rows)) if rows else NOT_RUN,
            ours=f"at {ours_at}: {form(own)} in {own['reps']}" if own else NOT_RUN,
            non_private=form(searched(stem, method=GP_UCB)),
            random=form(searched(stem, method="random rows")),
            seeds=seeds_of(*rows),
            verdict=verdict if rows else NOT_RUN,
            run=command_of("kharkovskii2020", f"{item} --epsilon {math.exp(power)!r}"),
        )


def _excesses(held: ResultFolder) -> Iterator[Row]:
    form, searched = partial(number_of, form=".3f"), partial(_searched, held)
    items = dict(_SEARCHES.values())
    for line in _EXCESS.replace("\n", "; ").split("; "):
        table, rest = line.split(" ", 1)
        item = items[table]
        stem = f"kharkovskii2020-{item}"
        powers = [float(part.split()[0].removeprefix("e^")) for part in rest.split(", ")]
        base = searched(stem, method=GP_UCB)

        over = partial(_excess, partial(searched, stem), powers)
        theirs = over(PUBLISHED, dimension=PUBLISHED_DIMENSION)
        yield line_of(
            f"Figures 2, 3, {table}: excess over non-private at r = {PUBLISHED_DIMENSION}",
            printed=rest,
            honest="none: it is not private",
            as_printed=theirs,
            ours=over(LIKELY),
            non_private=form(base),
            random=form(searched(stem, method="random rows")),
            seeds=seeds_of(base),
            verdict=NOT_RUN
            if theirs == NOT_RUN
            else "not private; cannot be compared: " + _OTHER_TABLES[table]
            if table in _OTHER_TABLES
            else "not private; differences in their own standard errors",
            run=command_of(
                "kharkovskii2020",
                f"{item} --where dimension={PUBLISHED_DIMENSION}",
                *(f"--epsilon {math.exp(power)!r}" for power in powers),
            ),
        )


def _theory() -> Iterator[Row]:
    theory = "computed: reproduction.kharkovskii2020.theory"
    yield from told(
        (
            "Algorithm 1",
            "inflation to sqrt(s^2 + omega^2)",
            "built as printed; its public code adds omega to s",
            "the lines of Tables 1 to 12",
        ),
        (
            "Algorithm 2",
            "beta_t with delta' = .025, answers with variance 1e-5",
            "built as printed; its public code has delta' .1, and variances for deviations",
            "the lines of Tables 1 to 12",
        ),
        (
            "Largest r with sigma_min >= omega, of those tried",
            "synthetic and Branin 10, 15, 20",
            "reproduced: " + " and ".join(map(_guidelines, ("synthetic", "branin31"))),
            "computed: reproduction.kharkovskii2020.theory.guideline_dimension",
        ),
        (
            "Branin prepared: most likely lengthscales, isotropic, norm 25",
            "sigma_min from 173.7 to 205.3, by its largest r",
            f"reproduced: {_least_singular_value('branin31'):.1f}; "
            f"{_least_singular_value('branin31-code-raw'):.1f} as its public code scales rows",
            "computed: reproduction.kharkovskii2020.preparing",
        ),
        ("Figure 1", "a drawing of the setting", "nothing to run", "none"),
        (
            "Theorem 1",
            "the transformation is private",
            "not private: rows are recovered",
            command_of("kharkovskii2020", "attack"),
        ),
        (
            "Lemma 2",
            "a neighbour's column of Z has a density within a factor e^epsilon_0",
            "false for n > d + 1, and Theorem 1 rests on it: the two densities lie on different spaces",
            command_of("kharkovskii2020", "attack"),
        ),
        ("Definition 3", "diagonally dominant covariances", "calculator", theory),
        (
            "Lemma 1 with Theorem 4",
            "Johnson and Lindenstrauss: r for a given distortion",
            "calculator",
            theory,
        ),
        ("Theorem 2 with Lemma 7", "factors of squared distances", "calculator", theory),
        ("Theorem 3", "a bound on regret", "calculator", theory),
        ("Theorem 5", "relative error of covariances", "calculator", theory),
        ("Lemma 3", "beta_t", "calculator; it is what Algorithm 2 runs", theory),
        ("Lemma 4", "regret of a step", CITED, "none"),
        ("Lemma 5", "error of variances", "calculator", theory),
        ("Lemma 6", "error of means", "calculator", theory),
        *((f"Lemma {number}", "a norm of a covariance", CITED, "none") for number in range(8, 13)),
        (
            "Remark 1",
            "a smaller r is a less exact projection",
            "true of distances; Branin's regret follows it in the paper's tables alone, see Tables 10 to 12",
            command_of("kharkovskii2020", "branin31-small-r"),
        ),
        (
            "Remark 2 (6)",
            "where sigma_min < omega the bound is looser",
            "calculator: covariance_error",
            theory,
        ),
        ("Remark 3", "epsilon_ucb trades utility for privacy", "words; nothing to run", "none"),
        ("Remark 4", "how the bound depends on epsilon", "calculator: simple_regret_bound", theory),
        ("Remark 5", "one side of Theorem 5", "calculator: covariance_error", theory),
    )


def _least_singular_value(world: str) -> float:
    """sigma_min of the rows that the published algorithms work on."""
    return float(np.linalg.svd(WORLDS[world](0).prepared.points, compute_uv=False)[-1])


def _guidelines(world: str) -> str:
    """Return, for each of a world's tables, the largest r that inflates nothing."""
    smallest, delta = _least_singular_value(world), WORLDS[world](0).delta
    found = []
    for (name, power), along in PAPER.items():
        if name == world:
            largest = guideline_dimension(smallest, epsilon=math.exp(power), delta=delta)
            found.append(max(r for r in along if r <= largest))
    return ", ".join(map(str, found))


def _searched(held: ResultFolder, stem: str, *, power: float | None = None, **where: Any) -> Row | None:
    """The row that has these values, and epsilon e^power."""
    return next(
        (
            row
            for row in held.rows(stem)
            if all(row[name] == value for name, value in where.items())
            and (power is None or math.isclose(row["epsilon"] or 0.0, math.exp(power)))
        ),
        None,
    )


def _excess(searched: Callable[..., Row | None], powers: Sequence[float], method: str, **where: Any) -> str:
    """Regret of a method at these ln epsilon over that of non-private GP-UCB."""
    base = searched(method=GP_UCB)
    rows = [searched(method=method, power=power, **where) for power in powers]
    if base is None or None in rows:
        return NOT_RUN
    return " ".join(
        f"{row['regret'] - base['regret']:.3f} "
        f"({math.hypot(row['standard_error'], base['standard_error']):.3f})"
        for row in rows
        if row is not None
    )


def _agreeing(rows: Sequence[Row | None], printed: Collection[float], reps: float = PAPERS_REPS) -> int:
    """How many of the rows are near what is printed; see `_is_near`."""
    return sum(_is_near(row, number, reps) for row, number in zip(rows, printed, strict=True))


def _is_near(row: Row | None, printed: float, reps: float) -> bool:
    """Return True if a printed mean of `reps` runs and ours differ by at most two standard errors.

    A mean that is printed without an error is given the spread of ours; with infinite `reps` it has none.
    """
    if row is None:
        return False
    error = float(row["standard_error"]) * math.sqrt(1.0 + float(row["reps"]) / reps)
    return abs(float(row["regret"]) - printed) <= 2.0 * error


def explained(results: Path) -> list[Row]:
    """Tables under other settings of the published algorithms: what differences come from.

    Returns:
        Lines of setting, GP-UCB's regret, and for each table that was run the regrets along r and how many of
        them are within two standard errors of the difference from the printed ones.
    """
    held = ResultFolder(results)
    lines: list[Row] = []
    for setting, item, plain, method in (
        ("synthetic as printed but for lengthscale 6.25", "projections", GP_UCB, PUBLISHED),
        ("lengthscale 1.25, as the text states it", "projections-1.25", GP_UCB, PUBLISHED),
        ("lengthscale 5", "projections-5", GP_UCB, PUBLISHED),
        ("Branin as printed", "branin31", GP_UCB, PUBLISHED),
        ("kernels five times as wide", "branin31-wide", GP_UCB, PUBLISHED),
        ("a fifth of beta_t", "branin31-fifth", GP_UCB_FIFTH, PUBLISHED_FIFTH),
        ("a fifth of beta_t, log of 1 + f", "branin31-log1p", GP_UCB_FIFTH, PUBLISHED_FIFTH),
        ("synthetic as the authors' code runs", "projections-code", GP_UCB_CODE, PUBLISHED_CODE),
        ("the same, noise in the table", "projections-code-noisy", GP_UCB_CODE, PUBLISHED_CODE),
        ("Branin as the authors' code runs", "branin31-code", GP_UCB_CODE, PUBLISHED_CODE),
        ("the same, log of 28.5 + f", "branin31-code-shifted", GP_UCB_CODE, PUBLISHED_CODE),
        ("as that code runs and scales", "branin31-code-raw", GP_UCB_CODE, PUBLISHED_CODE),
        ("the same, log of 3.33 + f", "branin31-code-raw-shifted", GP_UCB_CODE, PUBLISHED_CODE),
        ("log of 2 + f", "branin31-code-raw-two", GP_UCB_CODE, PUBLISHED_CODE),
        ("log of 5 + f", "branin31-code-raw-five", GP_UCB_CODE, PUBLISHED_CODE),
        ("the text's algorithms, log of 3.33 + f", "branin31-text-raw-shifted", GP_UCB, PUBLISHED),
        ("the text's algorithms, log of 5 + f", "branin31-text-raw-five", GP_UCB, PUBLISHED),
    ):
        stem = f"kharkovskii2020-{item}"
        line = {"setting": setting, "GP-UCB": number_of(held.row(stem, method=plain), form=".3f")}
        shown = []
        for number, ((world, power), along) in enumerate(PAPER.items(), start=1):
            if world != _TABLES_OF[item.partition("-")[0]]:
                continue
            found = [_searched(held, stem, method=method, dimension=r, power=power) for r in along]
            if not any(found):
                continue
            near = _agreeing(found, along.values())
            numbers = " ".join(NOT_RUN if row is None else f"{row['regret']:.3f}" for row in found)
            shown.append(f"Table {number}: {numbers}, {near} of {len(along)}")
        line["regret along r"] = "; ".join(shown) or NOT_RUN
        lines.append(line | {"run": command_of("kharkovskii2020", item)})
    return lines


def small_r(results: Path) -> list[Row]:
    """Branin's small r in settings that the public code leaves open.

    Returns:
        Lines of setting, GP-UCB's regret, and the regret at each of `SMALL_R_PLACES`: mean, its standard
        error, median, and how many runs end above `cells.MISSED`; what is printed first.
    """
    held = ResultFolder(results)

    def form(row: Row | None) -> str:
        rest = "" if row is None else f"; {row['median']:.3f}; {row['missed']}"
        return number_of(row, form=".3f") + rest

    stem = "kharkovskii2020-branin31-small-r"
    names = {(r, power): f"r = {r}, e^{power:g}" for r, power in SMALL_R_PLACES}
    printed = {name: f"{PAPER['branin31', power][r]:g}" for (r, power), name in names.items()}
    lines: list[Row] = [{"setting": "printed", "GP-UCB": "about 0"} | printed]
    for setting, (world, method, plain) in SMALL_R.items():
        line = {"setting": setting, "GP-UCB": form(held.row(stem, world=world, method=plain))}
        for (r, power), name in names.items():
            place = {"world": world, "method": method, "dimension": r}
            line[name] = form(_searched(held, stem, power=power, **place))
        lines.append(line)
    return lines


_OFTEN_AS = {
    "projections-code-often": "as the authors' code runs",
    "branin31-code-raw-often": "so, log of 3.33 + f",
    "branin31-code-raw-five-often": "so, log of 5 + f",
}
"""Items that are run ten times as often -> what the table calls their setting."""


def run_often(results: Path) -> list[Row]:
    """Numbers that were run ten times as often as printed ones, which are means of fifty.

    Returns:
        Lines with the table, r, the printed mean, our mean, the least and largest mean of fifty runs, the
        worst run, and the difference of the printed mean from ours. Its unit is the standard error of a mean
        of fifty and of ours.
    """
    held, lines = ResultFolder(results), list[Row]()
    for item, setting in _OFTEN_AS.items():
        for row in held.rows(f"kharkovskii2020-{item}"):
            world = row["world"].partition("-")[0]
            number, along = next(
                (number, along)
                for number, ((name, power), along) in enumerate(PAPER.items(), start=1)
                if name == world and math.isclose(row["epsilon"], math.exp(power))
            )
            error = row["standard_error"] * math.sqrt(1.0 + row["reps"] / PAPERS_REPS)
            printed = along[row["dimension"]]
            lines.append(
                {
                    "table": number,
                    "setting": setting,
                    "r": row["dimension"],
                    "printed": f"{printed:g}",
                    "here": number_of(row, form=".4f"),
                    "runs": row["reps"],
                    "means of fifty": f"{min(row['fifties']):.3f} to {max(row['fifties']):.3f}",
                    "worst run": f"{row['worst']:.3f}",
                    "standard errors apart": f"{(printed - row['regret']) / error:.1f}",
                }
            )
    return lines
