"""Tables of `evidence/products.md`."""

from IPython.display import Markdown
from pages import load, pm, table

POLICIES = {
    "random": "random product",
    "constant": "best constant product",
    "kinds": "`kinds`",
    "arms": "`arms`",
    "products": "`products`",
    "open": "`open`",
}
LEAST_SHARE, MOST_BELOW, SEEDS = 0.6, 0.02, 20


def products_missed() -> Markdown:
    """State for every aim whether it was met, with its number."""
    worlds = load("products")["worlds"]
    half, nothing = worlds["half"], worlds["nothing"]
    ahead, error = half["constant"]["products less it, second half"]
    share, share_error = half["share of the uplift of open, last tenth"]
    below, below_error = nothing["arms"]["products less it, all"]
    found = [
        (ahead > 0, f"after 10,000 people `products` less the best constant product is {pm(ahead, error)}"),
        (
            share >= LEAST_SHARE,
            f"at the end, the share of the uplift of `open` is {pm(share, share_error)} (aim .6)",
        ),
        (
            below >= -MOST_BELOW,
            f"if features say nothing, `products` less `arms` is {pm(below, below_error)} (aim: from -.02)",
        ),
    ]
    found.sort(key=lambda one: one[0])
    lines = [f"- {'Met' if met else '**Missed**'}: {said}." for met, said in found]
    seeds = len(load("products")["seeds"])
    if seeds < SEEDS:
        lines.append(f"- **Missed**: the study ran {seeds} of {SEEDS} seeds.")
    return Markdown("\n".join(lines))


def products_table() -> Markdown:
    """Show the chance to buy of every policy in every world."""
    rows = [
        [
            f"`{world}`",
            said,
            *(pm(*own[name][part], digits=3) for part in ("all", "second half", "last tenth")),
        ]
        for world, own in load("products")["worlds"].items()
        for name, said in POLICIES.items()
    ]
    return table(["world", "policy", "all people", "second half", "last tenth"], rows)


def products_added() -> Markdown:
    """Show how often a product that is added half way is chosen, and state the number of seeds."""
    study = load("products-change")
    rows = [
        [
            row["world"],
            row["policy"],
            *(pm(*row["shares"][place], digits=3) for place in (0, 2, 3, -1)),
            pm(*row["chance"], digits=3),
        ]
        for row in study["rows"]
    ]
    heads = ["product", "policy", "at first", "two releases", "three", "at the end", "chance to buy"]
    shown = table(heads, rows)
    seeds = len(study["seeds"])
    missed = f"\n\n**Missed**: the study ran {seeds} of {SEEDS} seeds." if seeds < SEEDS else ""
    return Markdown(f"{shown.data}{missed}")
