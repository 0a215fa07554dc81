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

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.central.published.printed import (
    Formula,
    correct_scale,
    printed_local_scales,
    printed_scale,
)
from dpbandits.lab.papers.dubey2021.theory import features_asked, quadrature_error
from dpbandits.lab.papers.kharkovskii2020.cells import PAPER
from dpbandits.lab.papers.kharkovskii2020.methods import (
    GP_UCB,
    GP_UCB_FIFTH,
    LIKELY,
    PUBLISHED,
    PUBLISHED_DIMENSION,
    PUBLISHED_FIFTH,
)
from dpbandits.lab.papers.ma2025.cells import LARGEST_EPSILON, PRINTED_WORLD
from dpbandits.lab.papers.ma2025.local import reference_regrets
from dpbandits.lab.papers.ma2025.methods import PRINTED_CONSTANTS
from dpbandits.lab.papers.ma2025.table_2 import PAPERS_NAMES, PRINTED, PRINTED_PAIRS
from dpbandits.lab.papers.ma2025.theory import slope
from dpbandits.lab.papers.results import ResultFolder
from dpbandits.lab.study import Row
from dpbandits.lab.worlds.rkhs import BOUND
from dpbandits.privacy.calibration import gaussian_mu

__all__ = ["COLUMNS", "NOT_RUN", "explained", "verdicts"]

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
    held = ResultFolder(results)
    return {
        "Dubey2021": [*_dubey_figures(held), *_dubey_table(held), *_dubey_theory()],
        "Ma2025": [*_ma_figures(held), *_ma_tables(held), *_ma_theory(held)],
        "Pavlovic2025": list(_pavlovic(held)),
        "Kharkovskii2020": list(_kharkovskii(held)),
    }


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
        ("lengthscale 5", "projections-5", GP_UCB, PUBLISHED),
        ("Branin as printed", "branin31", GP_UCB, PUBLISHED),
        ("kernels five times as wide", "branin31-wide", GP_UCB, PUBLISHED),
        ("a fifth of beta_t", "branin31-fifth", GP_UCB_FIFTH, PUBLISHED_FIFTH),
        ("a fifth of beta_t, log of 1 + f", "branin31-log1p", GP_UCB_FIFTH, PUBLISHED_FIFTH),
    ):
        stem = f"kharkovskii2020-{item}"
        line = {"setting": setting, "GP-UCB": _number(held.row(stem, method=plain), form=".3f")}
        shown = []
        for number, ((world, power), along) in enumerate(PAPER.items(), start=1):
            if world != _TABLES_OF[item.partition("-")[0]]:
                continue
            found = [_searched(held, stem, method=method, dimension=r, power=power) for r in along]
            if not any(found):
                continue
            near = sum(
                _is_near(row, printed, PAPERS_REPS)
                for row, printed in zip(found, along.values(), strict=True)
            )
            numbers = " ".join(NOT_RUN if row is None else f"{row['regret']:.3f}" for row in found)
            shown.append(f"Table {number}: {numbers}, {near} of {len(along)}")
        line["regret along r"] = "; ".join(shown) or NOT_RUN
        lines.append(line | {"run": _study("kharkovskii2020", item)})
    return lines


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
    return "dpbandits lab study " + " ".join(filter(None, words)).strip()


# -- Dubey2021 ------------------------------------------------------------------------------------

_DUBEY_TABLE = {
    "camelback": (519, 775, 1029, 3324),
    "styblinski-tang-20": (885, 1667, 2680, 4493),
    "michalewicz-10": (901, 1558, 2883, 5002),
}
"""Table 1: non-private, alpha 10, 1, .1."""


def _dubey_figures(held: ResultFolder) -> Iterator[Row]:
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
                run=_study("dubey2021", f"{item}-printed", f"--epsilon {epsilon:g} --where delta={delta:g}"),
            )


def _dubey_table(held: ResultFolder) -> Iterator[Row]:
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
            if epsilon is None:
                verdict = "cannot be compared: decision sets and the function's scale are not printed"
            elif tree is None or alone is None:
                verdict = NOT_RUN
            else:
                here = tree["regret"] / alone["regret"]
                verdict = (
                    f"not reproduced: {number / plain:.2f} times non-private as printed, {here:.2f} here, "
                )
                verdict += "at whatever scale"
                if random is not None and random["regret"] / alone["regret"] < number / plain:
                    verdict += f"; a random arm has {random['regret'] / alone['regret']:.2f}: none fits"
                if random is not None and random["regret"] < tree["regret"]:
                    verdict += "; worse than a random arm"
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
                run=_study(
                    "dubey2021",
                    f"table1-printed --world {world}",
                    "--column non-private" if epsilon is None else f"--epsilon {epsilon:g}",
                ),
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
    none = "no experiment of the paper to repeat"
    for item, printed, verdict, where in (
        ("Theorem 1", "beta_t", "calculator; the policy leaves three terms out, counted on the page", page),
        ("Lemmas 3, 6", "spectrum of the noise", "calculators", theory),
        ("Theorem 2", f"{error:.1f} for 8 nodes a column in Figure 1's world", "measured on the page", page),
        ("Theorem 3", "a bound", "calculator; above T in the cases of the page", page),
        ("Corollary 1", f"{asked:,.0f} features at T = 1,024", f"{none}; more features than rounds", page),
        (
            "Remark 3",
            f"{own:,.0f} features at T = 1,024",
            f"{none}; a round would release {math.comb(round(own) + 1, 2):,} noisy sums",
            page,
        ),
        ("Corollaries 2, 3", "rates", "calculators; no number to compare", theory),
    ):
        yield _line(item, printed=printed, **_computed(verdict, where))


def _computed(verdict: str, run: str) -> dict[str, str]:
    names = ("honest", "as_printed", "ours", "non_private", "random", "seeds")
    return dict.fromkeys(names, "none") | {"verdict": verdict, "run": run}


# -- Ma2025 ---------------------------------------------------------------------------------------

_TWO_LOG2 = "ma2025-2log2"


def _ma_figures(held: ResultFolder) -> Iterator[Row]:
    form = partial(_number, form=".3f")
    random, _ = reference_regrets(PRINTED_WORLD)
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
            non_private="none in the figure",
            random=f"{random:.3f}",
            seeds=_seeds(ours),
            verdict=NOT_RUN
            if ours is None
            else "not reproduced at the constants that were tried: close to a random arm, or worse",
            run=_study("ma2025", "figure6-printed", _sources_of(ours, ("epsilon",))),
        )
    for item, stands, named, fields in _MA_PLACES:
        run = [row for row in held.rows(f"ma2025-{item}-printed") if stands(row)]
        for place in list(dict.fromkeys(map(named, run))) or [_MA_NOT_RUN[item]]:
            here = {row["method"]: row for row in run if named(row) == place}
            methods = [here[method] for method in PRINTED_CONSTANTS if method in here]
            yield _line(
                f"Figure {item.removeprefix('figure')}, {place}",
                printed="curve",
                honest="; ".join(f"{row['method'][7:]} {form(row)}" for row in methods) or NOT_RUN,
                as_printed="the same: its noise is as printed",
                ours=form(here.get("tree")),
                non_private="none in the figure",
                random=f"{random:.3f}",
                seeds=_seeds(*methods),
                verdict=_ma_verdict(methods, random) if methods else NOT_RUN,
                run=_study("ma2025", f"{item}-printed", _options(methods[0], fields) if methods else ""),
            )


def _options(row: Row, fields: Sequence[str]) -> str:
    """Options of the command that choose a row's place in its figure."""
    return f"--epsilon {row['epsilon']:g} --rounds {row['n_users']} {_sources_of(row, fields)}"


def _sources_of(row: Row | None, fields: Sequence[str]) -> str:
    if row is None or not fields:
        return ""
    if not row["sources"]:
        return "--where 'sources=[]'"
    return " ".join(f"--where sources.0.{name}={row['sources'][0][name]:g}" for name in fields)


def _ma_verdict(theirs: Sequence[Row], random: float) -> str:
    """Whether the paper's rule learns at any of its constants."""
    best = min(theirs, key=lambda row: float(row["regret"]))
    if best["regret"] < 0.9 * random:
        return f"cannot be compared: a curve without numbers; best at {best['method'][7:]}"
    return "not reproduced: at every constant at least nine tenths of a random arm's regret"


def _of_first(row: Row, name: str) -> float:
    return float(row["sources"][0][name])


_PRINTED_EPSILON: dict[float, float] = {LARGEST_EPSILON: 1024.0}
_MA_PLACES: tuple[tuple[str, Callable[[Row], bool], Callable[[Row], str], tuple[str, ...]], ...] = (
    *(
        (
            item,
            lambda row: row["n_users"] in (10_000, 160_000),
            lambda row: (
                f"n {row['n_users']:,}, epsilon {_PRINTED_EPSILON.get(row['epsilon'], row['epsilon']):g}"
            ),
            (),
        )
        for item in ("figure7a", "figure7b")
    ),
    (
        "figure8",
        lambda row: not row["sources"] or row["sources"][0]["n_users"] == 100_000,
        lambda row: (
            f"2 of 100,000, gamma {_of_first(row, 'gamma'):g}, epsilon {_of_first(row, 'epsilon'):g}"
            if row["sources"]
            else "no source"
        ),
        ("n_users", "epsilon", "gamma"),
    ),
    (
        "figure9a",
        lambda row: _of_first(row, "kappa") in (0.0, 1.0),
        lambda row: f"source epsilon {_of_first(row, 'epsilon'):g}, kappa {_of_first(row, 'kappa'):g}",
        ("epsilon", "kappa"),
    ),
    (
        "figure9b",
        lambda row: _of_first(row, "gamma") in (0.0, 2.0),
        lambda row: f"source epsilon {_of_first(row, 'epsilon'):g}, gamma {_of_first(row, 'gamma'):g}",
        ("epsilon", "gamma"),
    ),
    (
        "figure9c",
        lambda row: row["sources"][0]["n_users"] == 50_000,
        lambda row: (
            f"n {row['n_users']:,}, epsilon {row['epsilon']:g}, sources at "
            + " then ".join(f"{source['epsilon']:g}" for source in row["sources"])
        ),
        ("n_users", "epsilon"),
    ),
)
"""Item, which of its rows stand in a line, what the line is called, and what of a source chooses it."""

_MA_NOT_RUN = {
    "figure7a": "n to 160,000, epsilon 1 to 1,024",
    "figure7b": "the same with one source",
    "figure8": "size of two sources",
    "figure9a": "kappa",
    "figure9b": "gamma",
    "figure9c": "order of two sources",
}


def _ma_tables(held: ResultFolder) -> Iterator[Row]:
    yield _line(
        "Table 1, Adult",
        printed="41,292 target users, largest source 3,930",
        **_computed(
            "reproduced: complete cases of UCI Adult by country of birth; which seven sources is not printed",
            "classification_table('adult-birth')",
        ),
    )
    yield _line(
        "Table 1, Jobs",
        printed="57,773 target users, largest source 14,318",
        **_computed("cannot be had: the paper's Jobs is not public", "none"),
    )
    yield _line(
        "Table 1, Taxi",
        printed="621,957 target users, largest source 18,945",
        **_computed("cannot be compared: another taxi table is at hand", "none"),
    )
    ratios = held.part("ma2025-table2-printed", "ratios")
    names = {table: here for here, table in PAPERS_NAMES.items()}
    for (own, theirs), table, moment in product(PRINTED_PAIRS, ("adult", "jobs", "taxi"), ("n/4", "n")):
        item = f"Table 2, {table} ({own:g}, {theirs:g}) at {moment}, with and without sources"
        printed = {
            name: [PRINTED[table, own, theirs, moment, method + kind] for kind in (" with sources", "")]
            for name, method in (("its rule", "ldpmab"), ("linear", "linear"), ("neural", "neural"))
        }
        said = "; ".join(f"{name} " + ", ".join(f"{x:.3f}" for x in two) for name, two in printed.items())
        if table not in names:
            yield _line(
                item, printed=said, **_computed("cannot be had: the paper's Jobs is not public", "none")
            )
            continue
        place = {"table": names[table], "epsilon": own, "source_epsilon": theirs, "moment": moment}
        rows = {row["row"]: row for row in ratios if all(row[name] == value for name, value in place.items())}
        ratio = partial(_number, name="ratio", form=".3f")

        def both(method: str, rows: dict[str, Row] = rows) -> str:
            found = [rows.get(method + kind) for kind in (" with sources", "")]
            return ", ".join(_number(row, "ratio", form=".3f") for row in found)

        kept = [rows.get(f"{method} with sources") for method in PRINTED_CONSTANTS]
        ratio_said = printed["its rule"][0]
        near = [row for row in kept if row and abs(row["ratio"] - ratio_said) <= 2.0 * row["standard_error"]]
        verdict = "not told apart: too few repetitions" if near else "not reproduced"
        if any(row["standard_error"] <= _TOLD * ratio_said for row in near):
            verdict = "reproduced with sources"
        if table == "taxi":
            verdict = "cannot be compared: another taxi table"
        best = next((row for row in rows.values() if row.get("best")), None)
        if best is not None:
            sure = "surely" if best["significant"] else "not surely"
            verdict += f"; best here: {best['row']}, {sure} (Wilcoxon, .05)"
        yield _line(
            item,
            printed=said,
            honest="; ".join(
                f"{method.removeprefix('ma2025-')} {both(method)}"
                for method in (*PRINTED_CONSTANTS, "linear", "neural")
            )
            if rows
            else NOT_RUN,
            as_printed="the same: its noise is as printed",
            ours=both("tree") if rows else NOT_RUN,
            non_private=f"1 (ABSE); at our width {ratio(rows.get('abse'))}",
            random=ratio(rows.get("random")),
            seeds=str(next(iter(rows.values()))["reps"]) if rows else NOT_RUN,
            verdict=verdict if rows else NOT_RUN,
            run=_study("ma2025", "table2-printed", f"--world {names[table]}"),
        )
    yield _rank_sums(ratios)


_TOLD = 0.05
"""A ratio whose standard error is a larger share of the printed one cannot reproduce it."""


def _rank_sums(ratios: Sequence[Row]) -> Row:
    """Of the six methods of Table 2 at 2 log2 n, over the tables and pairs that were run."""
    from scipy.stats import rankdata

    said = "n/4: 15 45|55 52|37 43; n: 22 44|54 56|33 36, over three tables"
    rows = [f"{method}{kind}" for method in (_TWO_LOG2, "linear", "neural") for kind in (" with sources", "")]
    sums: dict[str, np.ndarray[Any, Any]] = {moment: np.zeros(len(rows)) for moment in ("n/4", "n")}
    places = list(dict.fromkeys((r["table"], r["epsilon"], r["source_epsilon"], r["moment"]) for r in ratios))
    for place in places:
        own = {
            r["row"]: r["ratio"]
            for r in ratios
            if (r["table"], r["epsilon"], r["source_epsilon"], r["moment"]) == place
        }
        if not set(rows) <= set(own):
            return _line("Table 2, sums of ranks", printed=said, **_computed(NOT_RUN, "none"))
        sums[place[-1]] += rankdata([-own[row] for row in rows], method="min")
    if not places:
        return _line("Table 2, sums of ranks", printed=said, **_computed(NOT_RUN, "none"))
    found = "; ".join(
        f"{moment}: " + "|".join(f"{a:g} {b:g}" for a, b in total.reshape(-1, 2))
        for moment, total in sums.items()
    )
    order = [rows[index] for index in np.argsort(sums["n"])]
    return _line(
        "Table 2, sums of ranks",
        printed=said,
        **_computed(f"over two tables, at 2 log2 n; least at n: {order[0]}", "the lines above")
        | {"honest": found},
    )


def _ma_theory(held: ResultFolder) -> Iterator[Row]:
    bound = f"exponent of regret per user {slope(dim=2, margin=1.0):.2f} (d = 2, margin 1)"

    def measured(method: str) -> tuple[str, list[Row]]:
        rows = [
            row
            for row in held.rows("ma2025-figure7a-printed")
            if (row["method"], row["epsilon"]) == (method, 1.0)
        ]
        if len(rows) < 2:
            return NOT_RUN, rows
        at, regret = (np.log([row[name] for row in rows]) for name in ("n_users", "regret"))
        return f"{np.polyfit(at, regret, 1)[0]:.2f}", rows

    theirs = {method: measured(method)[0] for method in PRINTED_CONSTANTS}
    ours, rows = measured("tree")
    yield _line(
        "Theorem 2.6, slope at epsilon 1, n 10,000 to 160,000",
        printed=bound,
        honest="; ".join(f"{method[7:]} {found}" for method, found in theirs.items()),
        as_printed="the same: its noise is as printed",
        ours=ours,
        non_private="none in the paper",
        random="0",
        seeds=_seeds(*rows),
        verdict="not reproduced at these n: the rule hardly learns" if rows else NOT_RUN,
        run=_study("ma2025", "figure7a-printed"),
    )
    yield _line(
        "Theorems 2.5, 3.3, 3.4",
        printed="rates",
        **_computed(
            "calculators; what sources bring is in the lines of Figures 8 and 9",
            "computed: lab.papers.ma2025.theory",
        ),
    )


# -- Pavlovic2025 ---------------------------------------------------------------------------------


def _pavlovic(held: ResultFolder) -> Iterator[Row]:
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
    yield from _continuum(held)


def _continuum(held: ResultFolder) -> Iterator[Row]:
    """Actions from a continuum, as ever finer cells; and rewards clipped as the paper suggests."""
    rows = held.rows("pavlovic2025-continuum")
    run = _study("pavlovic2025", "continuum")
    form = ".4f"

    def finest(name: str, row: Row | None) -> str:
        return _number(row, name, f"{name} s.e.", form)

    last = rows[-1] if rows else None
    seeds = NOT_RUN if last is None else f"{last['worlds']} from {last['first seed']:,}"
    common = {"as_printed": "the same", "non_private": "none", "seeds": seeds, "run": run}
    common["random"] = finest("random", last)
    cells = [row["setting"].rsplit(", ", 1)[1] for row in rows]
    yield _line(
        "Algorithm 1 on continuous actions, an interval; T = 10,000, epsilon 1",
        printed="no number",
        honest="; ".join(
            f"{name} {finest('answer', row)}" for name, row in zip(cells[-3:], rows[-3:], strict=True)
        )
        or NOT_RUN,
        ours=finest("ours", last),
        verdict="the error settles as cells become finer; cells alone are drawn exactly, see USCA"
        if rows
        else NOT_RUN,
        **common,
    )
    yield _line(
        "Reward clip B + R ln(T/delta), the same at the finest cells",
        printed="a formula" if last is None else f"{last['clip']:.2f} for |rewards| up to 1.2",
        honest=finest("clipped", last),
        ours=finest("ours", last),
        verdict=f"the error is {last['clipped'] / last['answer']:.1f} times that at the range's own bound"
        if last
        else NOT_RUN,
        **common,
    )


# -- Kharkovskii2020 ------------------------------------------------------------------------------

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

PAPERS_REPS = 50
"""Runs behind every number that Kharkovskii2020 prints."""

_OTHER_TABLES = {"loans": "another table of loans", "property": "houses in Ames; 50 rows, the paper 100"}


def _kharkovskii(held: ResultFolder) -> Iterator[Row]:
    form, searched = partial(_number, form=".3f"), partial(_searched, held)
    for number, ((world, power), along) in enumerate(PAPER.items(), start=1):
        table, item = _SEARCHES[world]
        stem, grid = f"kharkovskii2020-{item}", ", ".join(map(str, along))
        values = [f"{value:g}" for value in along.values()]
        found = [searched(stem, method=PUBLISHED, dimension=r, power=power) for r in along]
        rows = [row for row in found if row is not None]
        near, told = (
            sum(_is_near(row, number, reps) for row, number in zip(found, along.values(), strict=True))
            for reps in (math.inf, PAPERS_REPS)
        )
        verdict = f"not private; {near} of {len(values)} within two standard errors"
        verdict += f", {told} of the difference"
        if table in _OTHER_TABLES:
            verdict = f"not private; cannot be compared: {_OTHER_TABLES[table]}"
        own, ours_at = searched(stem, method=LIKELY, power=_OURS_AT[table]), f"e^{_OURS_AT[table]:g}"
        if own is None and table == "synthetic":
            own, ours_at = searched("kharkovskii2020-synthetic", method=LIKELY, epsilon=3.0), "3"
        yield _line(
            f"Table {number}, {table}, epsilon e^{power:g}, r = {grid}",
            printed=" ".join(values),
            honest="none: it is not private",
            as_printed=" ".join(map(form, rows)) if rows else NOT_RUN,
            ours=f"at {ours_at}: {form(own)} in {own['reps']}" if own else NOT_RUN,
            non_private=form(searched(stem, method=GP_UCB)),
            random=form(searched(stem, method="random rows")),
            seeds=_seeds(*rows),
            verdict=verdict if rows else NOT_RUN,
            run=_study("kharkovskii2020", f"{item} --epsilon {math.exp(power)!r}"),
        )
    items = dict(_SEARCHES.values())
    for line in _EXCESS.replace("\n", "; ").split("; "):
        table, rest = line.split(" ", 1)
        item = items[table]
        stem = f"kharkovskii2020-{item}"
        powers = [float(part.split()[0].removeprefix("e^")) for part in rest.split(", ")]
        base = searched(stem, method=GP_UCB)

        over = partial(_excess, partial(searched, stem), powers)
        theirs = over(PUBLISHED, dimension=PUBLISHED_DIMENSION)
        yield _line(
            f"Figures 2, 3, {table}: excess over non-private at r = {PUBLISHED_DIMENSION}",
            printed=rest,
            honest="none: it is not private",
            as_printed=theirs,
            ours=over(LIKELY),
            non_private=form(base),
            random=form(searched(stem, method="random rows")),
            seeds=_seeds(base),
            verdict=NOT_RUN
            if theirs == NOT_RUN
            else "not private; cannot be compared: " + _OTHER_TABLES[table]
            if table in _OTHER_TABLES
            else "not private; differences in their own standard errors",
            run=_study(
                "kharkovskii2020",
                f"{item} --where dimension={PUBLISHED_DIMENSION}",
                *(f"--epsilon {math.exp(power)!r}" for power in powers),
            ),
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


def _is_near(row: Row | None, printed: float, reps: float) -> bool:
    """Whether a printed mean of that many runs is told apart from ours by two standard errors.

    What it prints without an error is given the spread of ours; with infinitely many runs it has none.
    """
    if row is None:
        return False
    error = float(row["standard_error"]) * math.sqrt(1.0 + float(row["reps"]) / reps)
    return abs(float(row["regret"]) - printed) <= 2.0 * error
