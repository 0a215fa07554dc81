"""What `results-ma2025.md` shows."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import Row, draw, grid, load, shown, table

from dpbandits.lab import plot


def ma(name: str) -> Any:
    return load(f"ma2025-{name}")


def number(row: Row) -> str:
    return f"{row['regret']:.4f} ({row['standard_error']:.4f})"


def source(row: Row, key: str) -> Any:
    return row["sources"][0][key] if row["sources"] else None


def ma_picture() -> HTML:
    """Sums of ranks at n over all pairs."""
    totals: dict[str, float] = {}
    for row in ma("table2")["rank_sums"]:
        if row["moment"] == "n":
            totals[row["row"]] = totals.get(row["row"], 0.0) + row["rank_sum"]
    names = sorted(totals, key=totals.__getitem__)
    colours = [plot.PALETTE["blue" if name.startswith(("smooth", "tree")) else "grey"] for name in names]
    figure, (axes,) = draw(height=0.28 * len(names) + 0.9)
    axes.barh(names, [totals[name] for name in names], height=0.65, color=colours)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("sum of ranks over four tables and all pairs of epsilons; smaller is better")
    return shown(figure, "Sums of ranks of eleven methods; this library's learners in blue.")


def ma_references() -> Markdown:
    found = ma("table2")
    lines = []
    for row in found["cells"]:
        if row["method"] == "abse":
            known = found["references"][row["world"]]
            quarter = f"{row['regret_at_quarter']:.4f} ({row['standard_error_at_quarter']:.4f})"
            arms = [f"{known[name]:.4f}" for name in ("best_constant", "random")]
            lines.append([row["world"], quarter, number(row), *arms])
    return table(["table", "ABSE at n/4", "ABSE at n", "best constant arm", "random arm"], lines)


def ma_ratios(moment: str) -> list[Markdown]:
    """A table a table of people: regret over ABSE's, at n or n/4."""
    found = ma("table2")["ratios"]
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


def ma_ranks(moment: str, item: str = "table2") -> Markdown:
    rows = [row for row in ma(item)["rank_sums"] if row["moment"] == moment]
    pairs = list(dict.fromkeys((row["epsilon"], row["source_epsilon"]) for row in rows))
    totals: dict[str, dict[Any, float]] = {}
    for row in rows:
        totals.setdefault(row["row"], {})[row["epsilon"], row["source_epsilon"]] = row["rank_sum"]
    lines = [
        [label, *(f"{own[pair]:g}" for pair in pairs), f"{sum(own.values()):g}"]
        for label, own in sorted(totals.items(), key=lambda item: sum(item[1].values()))
    ]
    return table([moment, *(f"({e:g}, {own:g})" for e, own in pairs), "all"], lines)


def ma_tests(item: str = "table2") -> Markdown:
    tests, lines = ma(item)["tests"], []
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


def ma_figure6() -> Markdown:
    lines = []
    for row in ma("figure6"):
        people = (
            f"{source(row, 'n_users')} at epsilon {source(row, 'epsilon'):g}" if row["sources"] else "none"
        )
        points = [f"{row['curve'][at]:.4f} ({row['curve_errors'][at]:.4f})" for at in (0, 4, 9, 19)]
        lines.append([row["method"], people, *points])
    return table(["method", "source", "n/20", "n/4", "n/2", "n"], lines)


def ma_figure7() -> list[Markdown]:
    return [
        grid(
            [row for row in ma(item) if row["world"] == world],
            down=lambda row: f"{row['method']}, epsilon {row['epsilon']:g}",
            across=lambda row: f"n = {row['n_users']:,}",
            cell=number,
            head=f"{item}, {world}",
        )
        for item in ("figure7a", "figure7b")
        for world in ("ma", "ma-symmetric")
    ]


def ma_log() -> Markdown:
    return table(
        ["epsilon", "n", "ma2025 with honest noise", "verdict"],
        [
            [f"{row['epsilon']:g}", f"{row['n_users']:,}", number(row), row["verdict"]]
            for row in ma("figure7a")
            if "log" in row["verdict"]
        ],
    )


def _source_of(row: Row) -> str:
    if not row["sources"]:
        return f"{row['method']}, alone"
    return f"{row['method']}, source epsilon {source(row, 'epsilon'):g}, gamma {source(row, 'gamma'):g}"


def ma_figure8() -> Markdown:
    return grid(
        ma("figure8"),
        down=_source_of,
        across=lambda row: f"{source(row, 'n_users') or 0:,} each",
        cell=number,
    )


def ma_figure9() -> list[Markdown]:
    return [
        grid(
            ma(item),
            down=lambda row: f"{row['world']}, {row['method']}, source epsilon {source(row, 'epsilon'):g}",
            across=lambda row, key=key: f"{key} {source(row, key):g}",
            cell=number,
            head=item,
        )
        for item, key in (("figure9a", "gamma"), ("figure9b", "kappa"))
    ]


def ma_figure9c() -> Markdown:
    return grid(
        ma("figure9c"),
        down=lambda row: (
            f"{row['method']}, epsilon {row['epsilon']:g}, "
            + " then ".join(f"{one['epsilon']:g}" for one in row["sources"])
        ),
        across=lambda row: f"{source(row, 'n_users'):,} each",
        cell=number,
        head="figure9c",
    )
