"""Tables of `evidence/audits.md`."""

from IPython.display import Markdown
from pages import Row, load, table


def summary() -> Markdown:
    """Count the honest claims that held and the false claims that were caught."""
    rows: list[Row] = load("audit")
    honest, broken = ([row for row in rows if row["known_broken"] is known] for known in (False, True))
    held = sum(row["verdict"] == "holds" for row in honest)
    caught = sum(row["verdict"] == "exceeded" for row in broken)
    return Markdown(
        f"**{held} of {len(honest)} honest claims held; {caught} of {len(broken)} false ones were caught.**"
    )


def audits(scope: str) -> Markdown:
    """Show the audits of one scope; `broken` has the claims that are known to be false."""
    lines = []
    for row in load("audit"):
        if scope != ("broken" if row["known_broken"] else row["scope"]):
            continue
        free = row["unconditional_bound"]
        lines.append(
            [
                f"`{row['name']}`",
                row["sees"],
                f"{row['claimed_epsilon']:g}" + (f", {row['delta']:g}" if row["delta"] else ""),
                f"{float(row['lower_bound']):.4f}" + "*" * bool(row["conditional_on"]),
                f"{float(row['tightness']):.2f}",
                "" if free is None else f"{free:.2f}",
                row["verdict"],
                f"{row['samples']:,}" if row["samples"] else "exact",
                f"{row['fewest_samples']:,}",
            ]
        )
    heads = ["audit", "the attacker sees", "claim", "proved", "share", "any law", "verdict", "samples"]
    return table([*heads, "`--samples` from"], lines)
