"""Tables and pictures of `evidence/ma2025.md`."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from IPython.display import HTML, Markdown
from pages import Row, draw, load, shown, table

from dpbandits.lab import plot
from measured.papers import paper_picture
from reproduction.ma2025.methods import CODE_WORLD, PRINTED_CONSTANTS
from reproduction.ma2025.published import AGREES, welch


def ma(name: str) -> Any:
    return load(f"ma2025-{name}")


def number(row: Row) -> str:
    return f"{row['regret']:.4f} ({row['standard_error']:.4f})"


def ma_picture() -> HTML:
    """Show rank sums at n over all pairs."""
    totals: dict[str, float] = {}
    for row in ma("table-2-questions")["rank_sums"]:
        if row["moment"] == "n":
            totals[row["row"]] = totals.get(row["row"], 0.0) + row["rank_sum"]
    names = sorted(totals, key=totals.__getitem__)
    colours = [
        plot.PALETTE["blue" if name.startswith(("questions", "smooth", "tree")) else "grey"] for name in names
    ]
    figure, (axes,) = draw(height=0.28 * len(names) + 0.9)
    axes.barh(names, [totals[name] for name in names], height=0.65, color=colours)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("sum of ranks over four tables and all pairs of epsilons; smaller is better")
    return shown(figure, "Sums of ranks of seven methods; this library's learners in blue.")


def ma_references() -> Markdown:
    found = ma("table-2-questions")
    lines = []
    for row in found["cells"]:
        if row["method"] == "abse":
            known = found["references"][row["world"]]
            quarter = f"{row['regret_at_quarter']:.4f} ({row['standard_error_at_quarter']:.4f})"
            arms = [f"{known[name]:.4f}" for name in ("best_constant", "random")]
            lines.append([row["world"], quarter, number(row), *arms])
    return table(["table", "ABSE at n/4", "ABSE at n", "best constant arm", "random arm"], lines)


def ma_ratios(moment: str) -> list[Markdown]:
    """Show regret over that of ABSE at n or n/4, a table for each table of people."""
    found = ma("table-2-questions")["ratios"]
    out = []
    for name in dict.fromkeys(row["table"] for row in found):
        rows = [row for row in found if row["table"] == name and row["moment"] == moment]
        pairs = list(dict.fromkeys((row["epsilon"], row["source_epsilon"]) for row in rows))
        lines = []
        for label in dict.fromkeys(row["row"] for row in rows):
            cells = [
                f"{row['ratio']:.3f} ({row['standard_error']:.3f})"
                for pair in pairs
                for row in rows
                if row["row"] == label and (row["epsilon"], row["source_epsilon"]) == pair
            ]
            lines.append([label, *cells])
        out.append(table([f"{name}, {moment}", *(f"({e:g}, {own:g})" for e, own in pairs)], lines))
    return out


def ma_ranks(moment: str) -> Markdown:
    rows = [row for row in ma("table-2-questions")["rank_sums"] if row["moment"] == moment]
    pairs = list(dict.fromkeys((row["epsilon"], row["source_epsilon"]) for row in rows))
    totals: dict[str, dict[Any, float]] = {}
    for row in rows:
        totals.setdefault(row["row"], {})[row["epsilon"], row["source_epsilon"]] = row["rank_sum"]
    lines = [
        [label, *(f"{own[pair]:g}" for pair in pairs), f"{sum(own.values()):g}"]
        for label, own in sorted(totals.items(), key=lambda item: sum(item[1].values()))
    ]
    return table([moment, *(f"({e:g}, {own:g})" for e, own in pairs), "all"], lines)


def ma_tests() -> Markdown:
    tests, lines = ma("table-2-questions")["tests"], []
    for ours, other in dict.fromkeys((test["ours"], test["other"]) for test in tests):
        own = [test for test in tests if (test["ours"], test["other"]) == (ours, other)]
        sure = [test for test in own if test["p_holm"] < 0.05]
        better = sum(test["gap"] < 0 for test in sure)
        lines.append([ours, other, better, len(sure) - better, len(own) - len(sure)])
    return table(["ours", "other", "better", "worse", "not told apart"], lines)


def ma_tuning() -> Markdown:
    rows, lines = ma("tuning"), []
    for entry, stage in sorted({(row["entry"], row["stage"]) for row in rows}):
        own = [row for row in rows if (row["entry"], row["stage"]) == (entry, stage)]
        own.sort(key=lambda row: row["score"])
        constants = ", ".join(f"{key} {value:g}" for key, value in own[0]["constants"].items()) or "defaults"
        best = f"{own[0]['score']:.4f} ({own[0]['stderr']:.4f})"
        lines.append([entry, stage, best, constants, f"{own[-1]['score']:.4f}"])
    return table(
        ["method (+: with sources)", "stage", "best of nine", "its constants", "worst of nine"], lines
    )


_PARTS = {
    "ma2025-code": ("visited bins: not private", "again with every batch"),
    "ma2025-code-once": ("visited bins: not private", "once"),
    "ma2025-code-again": ("every bin", "again with every batch"),
    "ma2025-code-honest": ("every bin", "once"),
}


def ma_code_parts() -> Markdown:
    """Show the public code with its faults undone, beside the published runs."""
    rows = ma("code-parts")
    places = list(dict.fromkeys((row["epsilon"], row["n_users"], len(row["sources"])) for row in rows))
    found = {(row["method"], row["epsilon"], row["n_users"], len(row["sources"])): row for row in rows}
    names = [f"{'7b' if m else '7a'}, epsilon {e:g}, n {n:,}" for e, n, m in places]
    published = [found["ma2025-code", *place] for place in places]
    lines = [
        ["published", "", *(f"{row['published']:.4f} ({row['published_error']:.4f})" for row in published)]
    ]
    for method, said in _PARTS.items():
        lines.append([*said, *(number(found[method, *place]) for place in places)])
    return table(["noise in", "earlier users are added", *names], lines)


_FIGURES = ("6", "7a", "7b", "8", "9a", "9b", "9c")


def _pairs(figure: str) -> list[tuple[Row, Row | None]]:
    """Return a table of the public code and of ours at every published place where the code was run."""
    found: dict[str, dict[str, Row]] = {}
    for row in ma(f"figure-{figure}"):
        if row["world"] == CODE_WORLD:
            place = str((row["epsilon"], row["n_users"], row["sources"]))
            found.setdefault(place, {})[row["method"]] = row
    return [(own["ma2025-code"], own.get("tree")) for own in found.values() if "ma2025-code" in own]


def _apart(code: Row, ours: Row) -> int:
    """Return what `welch` says of ours and the published runs. A single run is given the spread of ours."""
    single = code["standard_error"] * math.sqrt(code["reps"])
    errors = (code["published_error"] or single, ours["standard_error"])
    reps = (code["published_reps"] if code["published_error"] else code["reps"], ours["reps"])
    return welch(code["published"], ours["regret"], errors=errors, reps=reps)


def _counts(rows: Iterable[Row], name: str) -> str:
    return ", ".join(map(str, sorted({row[name] for row in rows}))) or "not run"


def ma_counted() -> Markdown:
    """Show for every figure how near the code is to its published runs, and where ours is ahead of them."""
    lines = []
    for figure in _FIGURES:
        pairs = _pairs(figure)
        code, ours = [own for own, _ in pairs], [own for _, own in pairs if own is not None]
        ratios = sorted(row["regret"] / row["published"] for row in code)
        near = sum(abs(ratio - 1.0) <= AGREES for ratio in ratios)
        apart = sum(abs(_apart(row, row)) for row in code)
        signs = [_apart(own, tree) for own, tree in pairs if tree is not None]
        spread = f"{near} of {len(code)} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if code else "not run"
        lines.append(
            [
                figure,
                _counts(code, "published_reps"),
                _counts(code, "reps"),
                spread,
                f"{apart} of {len(code)}",
                _counts(ours, "reps"),
                f"{signs.count(-1)} of {len(signs)}",
                signs.count(1),
            ]
        )
    heads = ["figure", "published runs", "our runs of the code", "code within 15% of them (ratios)"]
    heads.append("code told apart from them")
    return table([*heads, "runs of ours", "ours is ahead at", "behind at"], lines)


def _source(row: Row, name: str) -> Any:
    return row["sources"][0][name] if row["sources"] else None


def _order(row: Row) -> str:
    return " then ".join(f"{source['epsilon']:,g}" for source in row["sources"])


_LINES: dict[str, tuple[str, Callable[[Row], Any], Callable[[Row], str]]] = {
    "7a": ("n", lambda row: row["n_users"], lambda row: f"epsilon {row['epsilon']:,g}"),
    "7b": ("n", lambda row: row["n_users"], lambda row: f"epsilon {row['epsilon']:,g}"),
    "8": (
        "users of each source",
        lambda row: _source(row, "n_users") or 0,
        lambda row: (
            f"gamma {_source(row, 'gamma'):g}, sources at {_source(row, 'epsilon'):,g}"
            if row["sources"]
            else "no source"
        ),
    ),
    "9a": (
        "kappa",
        lambda row: _source(row, "kappa"),
        lambda row: (
            f"{_source(row, 'n_users'):,} at {_source(row, 'epsilon'):g}" if row["sources"] else "no source"
        ),
    ),
    "9b": (
        "gamma",
        lambda row: _source(row, "gamma"),
        lambda row: (
            f"{_source(row, 'n_users'):,} at {_source(row, 'epsilon'):g}" if row["sources"] else "no source"
        ),
    ),
    "9c": (
        "users of each source",
        lambda row: _source(row, "n_users") or 0,
        lambda row: (
            f"n {row['n_users']:,}, epsilon {row['epsilon']:g}"
            + (f", sources at {_order(row)}, gamma {_source(row, 'gamma'):g}" if row["sources"] else "")
        ),
    ),
}


def ma_places(figure: str) -> Markdown:
    """Show every published place of a figure: published, as the code runs here, ours."""
    along, place, line = _LINES[figure]
    pairs = _pairs(figure)
    heads = sorted({place(code) for code, _ in pairs if place(code) is not None})
    lines: dict[str, dict[Any, str]] = {}
    for code, ours in pairs:
        own = "–" if ours is None else f"{ours['regret']:.3f}"
        said = f"{code['published']:.3f} / {code['regret']:.3f} / {own}"
        where = (place(code),) if place(code) is not None else heads
        lines.setdefault(line(code), {}).update(dict.fromkeys(where, said))
    return table(
        [f"line, by {along}", *(f"{head:,}" for head in heads)],
        [[name, *(own.get(head, "") for head in heads)] for name, own in lines.items()],
    )


FIGURES = {
    "6": "regret of all, regret and arms at (1/3, 1/3)",
    "7a": "regret against n without a source",
    "7b": "regret against n with one source of 5,000 at epsilon 8",
    "8": "regret against the size of two sources, n = 80,000, epsilon 1",
    "9a": "regret against the exploration of two sources, n = 40,000, epsilon 2",
    "9b": "regret against the shift of two sources, n = 40,000, epsilon 2",
    "9c": "regret against the order of two sources",
}
"""Figure -> what it shows."""


def ma_pictures() -> HTML:
    """Draw all figures but 7a, which the page shows at its beginning."""
    drawn = {f"figure-{name}": f"Figure {name}: {words}" for name, words in FIGURES.items() if name != "7a"}
    drawn["constants"] = "Regret of the paper's rule against its constant"
    return HTML("".join(str(paper_picture("ma2025", item, alt).data) for item, alt in drawn.items()))


def ma_all_places() -> Markdown:
    """Show every published place, a table for each figure."""
    shown_here = {name: words for name, words in FIGURES.items() if name in _LINES}
    return Markdown(
        "\n\n".join(
            f"**Figure {one}: {words}**\n\n{ma_places(one).data}" for one, words in shown_here.items()
        )
    )


def ma_coverage() -> Markdown:
    """Show the share of runs that each constant covers (Proposition 2.7), and which constants runs need."""
    lines = []
    for row in ma("coverage"):
        shares = [f"{row[name] / row['reps']:.2f}" for name in PRINTED_CONSTANTS]
        needed = [f"{row[name]:.0f}" for name in ("needed_50", "needed_95", "needed_most")]
        lines.append([f"{row['epsilon']:g}", row["depth"], *shares, *needed, row["reps"]])
    heads = ["epsilon", "depth of the bins", *(f"covered at {name[7:]}" for name in PRINTED_CONSTANTS)]
    return table([*heads, "c that half of the runs need", "95%", "all", "runs"], lines)
