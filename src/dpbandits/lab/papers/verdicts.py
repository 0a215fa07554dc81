"""For every figure, table, lemma and remark of the papers: what is printed, and what came out here.

Lines are made of committed results alone: a number that was not run is "not run". Nothing is read off a
picture of a paper: of a curve without numbers the paper's number is "curve".

| column | what |
|---|---|
| printed | the paper's number |
| honest | the paper's own method, with the noise that its promise needs |
| as printed | the same with its printed constants; labelled, since some do not keep the promise |
| ours | this library at the same promise |
| non-private, random | without privacy, and a uniformly random choice |
| seeds | repetitions and the first seed |
| verdict | reproduced, not reproduced, not private, or why the two cannot be compared |
| run | the command that makes the numbers |

Standard errors stand behind the numbers.
"""

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dpbandits.central.published.printed import (
    Formula,
    correct_scale,
    printed_local_scales,
    printed_scale,
)
from dpbandits.lab.papers.dubey2021.theory import features_asked, quadrature_error
from dpbandits.lab.papers.kharkovskii2020.methods import GP_UCB, PUBLISHED
from dpbandits.lab.papers.ma2025.local import reference_regrets
from dpbandits.lab.papers.ma2025.methods import PRINTED_CONSTANTS
from dpbandits.lab.papers.ma2025.table_2 import PAPERS_NAMES, PRINTED, PRINTED_PAIRS
from dpbandits.lab.papers.ma2025.theory import slope
from dpbandits.lab.study import Row
from dpbandits.lab.worlds.rkhs import BOUND
from dpbandits.privacy.calibration import gaussian_mu

__all__ = ["COLUMNS", "NOT_RUN", "verdicts"]

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


def verdicts(results: Path) -> dict[str, list[Row]]:
    """Paper -> its lines, from the result files in a folder."""
    held = _Held(results)
    return {
        "Dubey2021": [*_dubey_figures(held), *_dubey_table(held), *_dubey_theory()],
        "Ma2025": [*_ma_figures(held), *_ma_tables(held), *_ma_theory(held)],
        "Pavlovic2025": list(_pavlovic(held)),
        "Kharkovskii2020": list(_kharkovskii(held)),
    }


class _Held:
    """Result files of a folder, each read once.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, dict[str, Any]()

    def rows(self, stem: str) -> list[Row]:
        """All rows of a file; none where it is not there."""
        if stem not in self._files:
            path = self._folder / f"{stem}.json"
            self._files[stem] = json.loads(path.read_text()) if path.exists() else []
        found: Any = self._files[stem]
        rows: list[Row] = found if isinstance(found, list) else []
        return rows

    def part(self, stem: str, name: str) -> list[Row]:
        """Rows under a name, of a file that compares all its cells; none where it is not there."""
        self.rows(stem)
        whole: Any = self._files[stem]
        rows: list[Row] = whole.get(name, []) if isinstance(whole, dict) else []
        return rows

    def row(self, stem: str, **where: Any) -> Row | None:
        """The row that has these values, if there is one."""
        return next(
            (row for row in self.rows(stem) if all(row.get(name) == value for name, value in where.items())),
            None,
        )


def _line(item: str, **known: str) -> Row:
    """A line; what is not known was not run."""
    missing = set(known) - set(COLUMNS) - {"as_printed", "non_private"}
    if missing:
        raise KeyError(*missing)
    named = {
        name.replace("as_printed", "as printed").replace("non_private", "non-private"): text
        for name, text in known.items()
    }
    return {name: named.get(name, NOT_RUN) for name in COLUMNS} | {"item": item}


def _number(row: Row | None, name: str = "regret", error: str = "standard_error", form: str = ".0f") -> str:
    if row is None:
        return NOT_RUN
    return f"{row[name]:{form}} ({row[error]:{form if form != '.0f' else '.1f'}})"


def _seeds(*rows: Row | None) -> str:
    found = next((row for row in rows if row is not None), None)
    return NOT_RUN if found is None else f"{found['reps']} from {found['first_seed']:,}"


def _study(*words: str) -> str:
    return "dpbandits lab study " + " ".join(words)


# -- Dubey2021 ------------------------------------------------------------------------------------

_DUBEY_TABLE = {
    "camelback": (519, 775, 1029, 3324),
    "styblinski-tang-20": (885, 1667, 2680, 4493),
    "michalewicz-10": (901, 1558, 2883, 5002),
}
"""Table 1: non-private, alpha 10, 1, .1."""


def _dubey_figures(held: _Held) -> Iterator[Row]:
    for item, promises in (
        ("figure1", [(epsilon, 0.1) for epsilon in (0.1, 0.5, 1.0, 10.0)]),
        ("figure2", [(1.0, delta) for delta in (0.01, 0.1, 0.5, 0.99)]),
    ):
        stem = f"dubey2021-{item}-printed"
        for epsilon, delta in promises:
            at = partial(held.row, stem, epsilon=epsilon, delta=delta)
            tree, printed, ours = (
                at(column=column)
                for column in ("tree, right noise", "tree, printed Lemma 2", "block release")
            )
            alone = partial(held.row, stem, epsilon=None)
            if tree is None or ours is None:
                verdict = NOT_RUN
            else:
                verdict = "cannot be compared: the paper has curves without numbers"
            yield _line(
                f"Figure {item[-1]}, alpha {epsilon:g}, beta {delta:g}",
                printed="curve",
                honest=_number(tree),
                as_printed=_number(printed),
                ours=_number(ours),
                non_private=_number(alone(column="non-private")),
                random=_number(alone(column="random")),
                seeds=_seeds(tree, ours),
                verdict=verdict,
                run=_study("dubey2021", f"{item}-printed", f"--epsilon {epsilon:g}"),
            )


def _dubey_table(held: _Held) -> Iterator[Row]:
    for world, (plain, *private) in _DUBEY_TABLE.items():
        for epsilon, number in zip((None, 10.0, 1.0, 0.1), (plain, *private), strict=True):
            at = {"world": world}

            def found(
                column: str, *, own: bool = True, at: Row = at, epsilon: float | None = epsilon
            ) -> Row | None:
                promise = (
                    {"epsilon": epsilon, "delta": 0.1} if own and epsilon is not None else {"epsilon": None}
                )
                return held.row("dubey2021-table1-printed", column=column, **at, **promise) or held.row(
                    "dubey2021-table1", column=column, **at, **promise
                )

            tree = None if epsilon is None else found("tree, right noise")
            printed = None if epsilon is None else found("tree, printed Lemma 2")
            ours = None if epsilon is None else found("block release")
            random, alone = found("random", own=False), found("non-private", own=False)
            what = "non-private" if epsilon is None else f"alpha {epsilon:g}"
            if random is None:
                verdict = NOT_RUN
            elif number > random["regret"]:
                verdict = "cannot be compared: the printed number is above what a random choice loses here"
            elif (alone if epsilon is None else tree) is None:
                verdict = NOT_RUN
            else:
                verdict = "cannot be compared: decision sets and scale of the function are not printed"
            yield _line(
                f"Table 1, {world}, {what}",
                printed=f"{number:,}",
                honest="is non-private" if epsilon is None else _number(tree),
                as_printed="is non-private" if epsilon is None else _number(printed),
                ours="is non-private" if epsilon is None else _number(ours),
                non_private=_number(alone),
                random=_number(random),
                seeds=_seeds(tree, alone, random),
                verdict=verdict,
                run=_study("dubey2021", "table1-printed", f"--world {world}"),
            )


def _dubey_theory() -> Iterator[Row]:
    page = "computed: the page dubey2021"
    theory = "computed: lab.papers.dubey2021.theory"

    def over(formula: Formula, epsilon: float) -> str:
        at: dict[str, Any] = {"levels": 11, "epsilon": epsilon, "delta": 1e-5}
        return f"{printed_scale(formula, **at) / correct_scale(**at):,.3g} at ({epsilon:g}, 1e-5)"

    printed_in: dict[str, Formula] = {
        "Lemma 2, sketch": "lemma-2",
        "Lemma 2, statement": "lemma-2-statement",
        "Lemma 12, statement": "lemma-12",
        "Lemma 12, proof": "lemma-12-proof",
    }
    for words, formula in printed_in.items():
        noise = f"over the needed noise: {over(formula, 1.0)}, {over(formula, 0.05)}"
        at: dict[str, Any] = {"levels": 11, "epsilon": 0.05, "delta": 1e-5}
        kept = printed_scale(formula, **at) >= correct_scale(**at)
        yield _line(
            words, printed=noise, **_computed("private" if kept else "not private at (.05, 1e-5)", page)
        )
    gram = math.sqrt(2.0) / printed_local_scales(epsilon=10.0, delta=1e-5).gram
    allowed = gaussian_mu(5.0, 5e-6)
    yield _line(
        "Lemma 5, (10, 1e-5)",
        printed=f"the Gram's half is {gram:.3f}-GDP, {allowed:.3f} allowed",
        **_computed("not private: a half fails" if gram > allowed else "private", page),
    )
    asked, own = (features_asked(rounds=1024, dim=2, own_gain=gain) for gain in (False, True))
    error = quadrature_error(dim=2, nodes=8, lengthscale=0.25)
    for item, printed, verdict, where in (
        ("Theorem 1", "beta_t", "calculator; the policy leaves three terms out, counted on the page", page),
        ("Lemmas 3, 6", "spectrum of the noise", "calculators", theory),
        ("Theorem 2", f"{error:.1f} for 8 nodes a column in Figure 1's world", "measured on the page", page),
        ("Theorem 3", "a bound", "calculator; above T in the cases of the page", page),
        ("Corollary 1", f"{asked:,.0f} features at T = 1,024", "not run: more features than rounds", page),
        ("Remark 3", f"{own:,.0f} features at T = 1,024", NOT_RUN, page),
        ("Corollaries 2, 3", "rates", "calculators; no number to compare", theory),
    ):
        yield _line(item, printed=printed, **_computed(verdict, where))


def _computed(verdict: str, run: str) -> dict[str, str]:
    names = ("honest", "as_printed", "ours", "non_private", "random", "seeds")
    return dict.fromkeys(names, "none") | {"verdict": verdict, "run": run}


# -- Ma2025 ---------------------------------------------------------------------------------------

_TWO_LOG2 = "ma2025-2log2"


def _ma_figures(held: _Held) -> Iterator[Row]:
    form = partial(_number, form=".3f")
    for sources, words in (
        ([], "no source"),
        ([(500, 8.0, 0.0)], "500 at epsilon 8"),
        ([(500, 0.5, 5.0)], "500 at epsilon .5, gamma 5"),
    ):

        def found(method: str, wanted: Sequence[tuple[int, float, float]] = tuple(sources)) -> Row | None:
            return next(
                (
                    row
                    for row in held.rows("ma2025-figure6-printed")
                    if row["method"] == method
                    and [(s["n_users"], s["epsilon"], s["gamma"]) for s in row["sources"]] == list(wanted)
                ),
                None,
            )

        printed = {method: found(method) for method in PRINTED_CONSTANTS}
        ours = found("tree")
        local = "" if ours is None else f"; at (1/3, 1/3) {ours['local_regret']:.3f}"
        theirs = printed[_TWO_LOG2]
        there = "" if theirs is None else f"; at (1/3, 1/3) {theirs['local_regret']:.3f}"
        yield _line(
            f"Figure 6, {words}",
            printed="curve of one run",
            honest="; ".join(f"{name[7:]} {form(row)}" for name, row in printed.items()) + there,
            as_printed="the same: its noise is as printed",
            ours=form(ours) + local,
            random=f"{reference_regrets('ma-edge')[0]:.3f}",
            seeds=_seeds(ours),
            verdict=NOT_RUN
            if ours is None
            else "not reproduced at the constants that were tried: close to a random arm, or worse",
            run=_study("ma2025", "figure6-printed"),
        )
    for item, what in (
        ("figure7a", "Figure 7a, n to 160,000, epsilon 1 to 1,024"),
        ("figure7b", "Figure 7b, the same with one source"),
        ("figure8", "Figure 8, size of two sources"),
        ("figure9a", "Figure 9a, kappa"),
        ("figure9b", "Figure 9b, gamma"),
        ("figure9c", "Figure 9c, order of two sources"),
    ):
        run = held.rows(f"ma2025-{item}-printed")
        yield _line(
            what,
            printed="curves",
            honest=NOT_RUN if not run else "see the results file",
            verdict=NOT_RUN if not run else "cannot be compared: curves without numbers",
            seeds=_seeds(*run[:1]),
            run=_study("ma2025", f"{item}-printed"),
        )


def _ma_tables(held: _Held) -> Iterator[Row]:
    yield _line(
        "Table 1, Adult",
        printed="41,292 target users, largest source 3,930",
        **_computed(
            "reproduced: complete cases of UCI Adult by country of birth; which seven sources is not printed",
            "classification_table('adult-birth')",
        ),
    )
    yield _line("Table 1, Jobs", printed="57,773", **_computed("cannot be had", "none"))
    yield _line(
        "Table 1, Taxi",
        printed="621,957",
        **_computed("cannot be compared: another taxi table is at hand", "none"),
    )
    ratios = held.part("ma2025-table2-printed", "ratios")
    for (own, theirs), (here, table), moment in product(PRINTED_PAIRS, PAPERS_NAMES.items(), ("n/4", "n")):
        place = {"table": here, "epsilon": own, "source_epsilon": theirs, "moment": moment}
        rows = {row["row"]: row for row in ratios if all(row[name] == value for name, value in place.items())}

        def both(method: str, rows: dict[str, Row] = rows) -> str:
            found = [rows.get(method + kind) for kind in (" with sources", "")]
            return ", ".join(_number(row, "ratio", form=".3f") for row in found)

        kept = [rows.get(f"{method} with sources") for method in PRINTED_CONSTANTS]
        printed = [PRINTED[table, own, theirs, moment, row] for row in ("ldpmab with sources", "ldpmab")]
        near = [
            row is not None and abs(row["ratio"] - printed[0]) <= 2.0 * row["standard_error"] for row in kept
        ]
        verdict = "reproduced with sources" if any(near) else "not reproduced"
        if table == "jobs":
            verdict = "cannot be compared: another table stands in for Jobs"
        yield _line(
            f"Table 2, {table} ({own:g}, {theirs:g}) at {moment}, with and without sources",
            printed=", ".join(f"{number:.3f}" for number in printed),
            honest="; ".join(f"{method[7:]} {both(method)}" for method in PRINTED_CONSTANTS)
            if rows
            else NOT_RUN,
            ours=both("tree") if rows else NOT_RUN,
            non_private="1: what all is a ratio to",
            seeds=str(next(iter(rows.values()))["reps"]) if rows else NOT_RUN,
            verdict=verdict if rows else NOT_RUN,
            run=_study("ma2025", "table2-printed", f"--world {here}"),
        )


def _ma_theory(held: _Held) -> Iterator[Row]:
    bound = f"exponent of regret per user {slope(dim=2, margin=1.0):.2f} (d = 2, margin 1)"

    def measured(method: str) -> tuple[str, list[Row]]:
        rows = [
            row
            for row in held.rows("ma2025-figure7a")
            if (row["method"], row["world"], row["epsilon"]) == (method, "ma", 1.0)
        ]
        if len(rows) < 2:
            return NOT_RUN, rows
        points = [(math.log(row["n_users"]), math.log(row["regret"])) for row in rows]
        middle = [sum(axis) / len(points) for axis in zip(*points, strict=True)]
        across = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
        return f"{across / sum((x - middle[0]) ** 2 for x, _ in points):.2f}", rows

    own, rows = measured("ma2025")
    ours, _ = measured("tree")
    yield _line(
        "Theorem 2.6, slope at epsilon 1, n 10,000 to 80,000",
        printed=bound,
        honest=f"{own} (with its code's additions, centres k/(K + 1))",
        ours=ours,
        random="0",
        seeds=_seeds(*rows),
        verdict="not reproduced at these n: the rule drops nothing" if rows else NOT_RUN,
        run=_study("ma2025", "figure7a"),
    )
    yield _line(
        "Theorems 2.5, 3.3, 3.4",
        printed="rates",
        **_computed(
            "calculators; slopes along a source's size not run", "computed: lab.papers.ma2025.theory"
        ),
    )


# -- Pavlovic2025 ---------------------------------------------------------------------------------


def _pavlovic(held: _Held) -> Iterator[Row]:
    row = held.row("pavlovic2025-lemmas", T=300)
    own: dict[str, str] = {"as_printed": "the same", "ours": "none", "non_private": "none", "random": "none"}
    own["run"] = _study("pavlovic2025", "lemmas")
    own["seeds"] = NOT_RUN if row is None else f"{row['worlds']} from {row['first seed']:,}"
    for item, bound, measured, most in (
        ("Lemma 4.3, T = 300, sup |mu-bar - f|", "bound 4.3", "error Z", 2.0 * BOUND),
        ("Lemma 4.4, T = 300", "bound 4.4", "inverse Z", math.inf),
        ("Lemma 6.2, T = 300, |mu - mu-bar|", "bound 6.2", "gap", 2.0 * BOUND),
        ("Lemma 7.1, T = 300, sup sigma-bar^2", "bound 7.1", "variance", 1.0),
    ):
        if row is None or bound not in row:
            yield _line(item, printed="a bound", **own | {"verdict": NOT_RUN})
            continue
        verdict = "holds" if row[measured] <= row[bound] else "not reproduced: above its bound"
        if row[bound] > most:
            verdict += "; says nothing, nothing can be above it"
        if bound == "bound 4.4" and not row["holds 4.4"]:
            verdict += "; outside its own condition"
        yield _line(
            item,
            printed=f"at most {row[bound]:,.3g}",
            honest=_number(row, measured, f"{measured} s.e.", ".3f"),
            verdict=verdict,
            **own,
        )
    answer = held.row(
        "pavlovic2025-errors",
        setting="SE .2 in 1+1",
        method="published calibration",
        rounds=10_000,
        epsilon=1.0,
    )
    ours, plain, random = (
        held.row("pavlovic2025-errors", setting="SE .2 in 1+1", method=method, rounds=10_000, epsilon=epsilon)
        for method, epsilon in (("USCA answer", 1.0), ("non-private", None), ("random", None))
    )
    error = partial(_number, name="error", form=".4f")
    yield _line(
        "Theorem 4.1, T = 10,000, epsilon 1, SE .2",
        printed="rate, no number",
        honest=error(answer),
        as_printed="the same",
        ours=error(ours),
        non_private=error(plain),
        random=error(random),
        seeds=NOT_RUN if answer is None else f"{answer['worlds']} from {answer['first seed']:,}",
        verdict="rate only; exponents are on the page results-pavlovic2025" if answer else NOT_RUN,
        run=_study("pavlovic2025", "errors"),
    )
    theory = "computed: lab.papers.pavlovic2025.theory"
    yield _line(
        "Theorem 8.2",
        printed="a bound",
        **_computed("calculator", theory),
    )
    yield _line("Reward clip B + R ln(T/delta)", printed="a formula", **_computed("calculator", theory))
    yield _line(
        "Algorithm 1 on continuous actions",
        printed="no number",
        **_computed("not built: finite cells alone, drawn exactly; see the docstring of USCA", "none"),
    )


# -- Kharkovskii2020 ------------------------------------------------------------------------------

_EXCESS = """synthetic e^1.1 .011, e^.9 .069, e^0 .099; loans e^2.9 .003, e^2 .019, e^1 .05
property e^2.8 .051, e^1 .017, e^.5 .082; Branin e^2.3 .004, e^2 .023, e^1.8 .051"""
_R = {1: "3, 6, 8, 10, 15, 20", 2: "3, 9, 12, 15, 20, 30", 3: "5, 10, 15, 20, 30, 50"}
_TABLES = """1 synthetic e^1.1 .073 .038 .018 .014 .118 .137
2 synthetic e^1.3 .091 .009 .019 .008 .127 .134
3 synthetic e^1.5 .05 .021 .003 .002 .094 .142
4 loans e^2.7 .083 .088 .078 .069 .081 .076
5 loans e^2.9 .091 .076 .078 .077 .1 .096
6 loans e^3.1 .097 .091 .069 .084 .104 .127
7 property e^2.6 .682 .516 .495 .485 .485 .493
8 property e^2.8 .567 .553 .479 .453 .493 .52
9 property e^3.0 .591 .523 .486 .482 .489 .488
10 Branin e^2.3 .53 .184 .038 0 .005 .024
11 Branin e^2.5 .259 .001 0 0 .014 .026
12 Branin e^2.7 .152 0 0 0 .005 .073"""


def _kharkovskii(held: _Held) -> Iterator[Row]:
    form = partial(_number, form=".3f")
    for number, world, epsilon, *values in map(str.split, _TABLES.splitlines()):
        grid = _R[(int(number) - 1) % 3 + 1]
        item = {"synthetic": "projections", "Branin": "branin31"}.get(world)
        stem = f"kharkovskii2020-{item}"
        promise = math.exp(float(epsilon.removeprefix("e^")))
        rows = [
            row
            for dimension in map(int, grid.split(", "))
            for row in held.rows(stem)
            if row["method"] == PUBLISHED
            and row["dimension"] == dimension
            and row["epsilon"] is not None
            and math.isclose(row["epsilon"], promise)
        ]
        near = sum(
            abs(row["regret"] - float(text)) <= 2.0 * row["standard_error"]
            for row, text in _paired(rows, values)
        )
        alone = partial(held.row, stem)
        yield _line(
            f"Table {number}, {world}, epsilon {epsilon}, r = {grid}",
            printed=" ".join(values),
            honest="none: it is not private",
            as_printed=" ".join(map(form, rows)) if rows else NOT_RUN,
            non_private=form(alone(method=GP_UCB)),
            random=form(alone(method="random rows")),
            seeds=_seeds(*rows),
            verdict=f"not private; {near} of {len(values)} within two standard errors" if rows else NOT_RUN,
            run="no item yet" if item is None else _study("kharkovskii2020", item),
        )
    for line in _EXCESS.replace("\n", "; ").split("; "):
        world, rest = line.split(" ", 1)
        yield _line(
            f"Figures 2, 3, {world}: excess over non-private",
            printed=rest,
            honest="none: it is not private",
            verdict=NOT_RUN,
            run="no item yet",
        )
    theory = "computed: lab.papers.kharkovskii2020.theory"
    yield _line(
        "Definition 3, Theorems 2, 3, 5, Lemmas 5, 6", printed="formulas", **_computed("calculators", theory)
    )
    yield _line(
        "Theorem 1",
        printed="the transformation is private",
        **_computed("not private: rows are recovered", _study("kharkovskii2020", "attack")),
    )


def _paired(rows: Sequence[Row], values: Sequence[str]) -> Iterator[tuple[Row, str]]:
    """Rows with the printed numbers of their places; none where some row is missing."""
    return zip(rows, values, strict=True) if len(rows) == len(values) else iter(())
