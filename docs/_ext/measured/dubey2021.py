"""What `results-dubey2021.md` shows."""

from collections.abc import Callable

from IPython.display import HTML, Markdown
from pages import Row, draw, load, pm, shown, table

from dpbandits.lab import plot


def promise(row: Row) -> str | None:
    return None if row["epsilon"] is None else f"({row['epsilon']:g}, {row['delta']:g})"


def world_and_promise(row: Row) -> str | None:
    return None if row["epsilon"] is None else f"{row['world']} {promise(row)}"


def dubey_picture() -> HTML:
    """Figure 1 along epsilon: the default, the published tree with the noise it needs, local reports."""
    found = load("dubey2021-figure1")
    figure, (axes,) = draw(height=3.2)
    named = {
        "block release": ("blue", "GPBandit"),
        "tree, right noise": ("orange", "published tree, with the noise it needs"),
        "local": ("green", "local reports"),
    }
    for column, (colour, name) in named.items():
        own = [row for row in found if row["column"] == column]
        plot.draw_points(
            axes,
            [row["epsilon"] for row in own],
            [row["regret"] for row in own],
            [row["standard_error"] for row in own],
            colour=colour,
            label=name,
        )
    for column, style in (("random", "--"), ("non-private", ":")):
        (row,) = (row for row in found if row["column"] == column)
        axes.axhline(row["regret"], color=plot.PALETTE["grey"], linestyle=style, label=column)
    axes.set(xscale="log", xlabel="epsilon, at delta = 1e-5", ylabel="regret", ylim=(0, None))
    axes.set_xticks([0.5, 1, 10], ["0.5", "1", "10"])
    plot.add_legend(axes)
    return shown(
        figure,
        "Regret along epsilon: GPBandit falls towards the non-private line, the published tree stays high.",
    )


def dubey_table(name: str, along: Callable[[Row], str | None] = promise) -> Markdown:
    """One line a policy, one column a promise or world."""
    found = load(f"dubey2021-{name}")
    heads = list(dict.fromkeys(along(row) for row in found if along(row) is not None))
    alone = len({row["world"] for row in found}) == 1
    lines = []
    for column in dict.fromkeys(row["column"] for row in found):
        own = [row for row in found if row["column"] == column]
        cells = []
        for head in heads:
            hits = [
                row
                for row in own
                if along(row) == head
                or (row["epsilon"] is None and (alone or str(head).startswith(f"{row['world']} (")))
            ]
            cells.append(f"{hits[0]['regret']:.0f} ({hits[0]['standard_error']:.1f})" if hits else "")
        seconds = f"{own[0]['seconds']:.2f}" if own[0]["seconds"] else ""
        lines.append([column, *cells, "/".join(dict.fromkeys(str(row["reps"]) for row in own)), seconds])
    return table(["policy", *heads, "seeds", "seconds a run"], lines)


def dubey_targets() -> Markdown:
    return table(
        ["world", "policy", "promise", "regret", "median", "seeds", "aim"],
        [
            [
                row["world"],
                row["column"],
                promise(row),
                f"{row['regret']:.1f} ({row['standard_error']:.1f})",
                f"{row['median']:.0f}",
                f"{row['reps']} from {row['first_seed']:,}",
                f"{float(row['aim']):.0f}",
            ]
            for row in load("dubey2021-targets")
        ],
    )


def dubey_crude() -> Markdown:
    """The crude yardsticks in these worlds, from the runs of the page of releases."""
    crude = [
        row for row in load("cells") if row["group"] == "figures" and row["kind"] in ("ridge", "histogram")
    ]
    found = {(row["world"], row["kind"]): row for row in crude}
    lines = [
        [
            world,
            *(
                pm(found[world, kind]["regret"], found[world, kind]["standard_error"], digits=0)
                for kind in ("ridge", "histogram")
            ),
            f"{found[world, 'ridge']['random']:,.0f}",
            found[world, "ridge"]["seeds"],
        ]
        for world in dict.fromkeys(row["world"] for row in crude)
    ]
    return table(["world", "private ridge", "private histogram", "random", "seeds"], lines)
