"""Tables of `evidence/hostile-input.md` and `evidence/mutations-and-faults.md`."""

from IPython.display import Markdown
from pages import load, table


def fuzzing() -> Markdown:
    """Show how many inputs each parser has read under the fuzzer."""
    lines = [
        [
            f"`{row['parser']}`",
            f"{row['executions']:,}",
            f"{row['before']:,}" if row.get("before") else "",
            f"{row['seconds']:.0f}",
            row["peak_mb"],
            "one" if row["failed"] else "none",
        ]
        for row in load("fuzzing")
    ]
    return table(["parser", "inputs", "on earlier code", "seconds", "peak memory in MB", "failures"], lines)


def constructors() -> Markdown:
    """Show what each class did with hostile arguments."""
    rows = load("hostile")
    parts = ("arguments", "tried", "refused", "another_kind", "built")
    lines = [[f"`{row['class']}`", *(f"{row[part]:,}" for part in parts)] for row in rows]
    lines.append(["all", *(f"{sum(row[part] for row in rows):,}" for part in parts)])
    heads = [
        "class",
        "arguments",
        "values tried",
        "refused by the library",
        "refused by Python, another kind",
    ]
    return table([*heads, "built"], lines)


def mutations() -> Markdown:
    """Show the seeded bugs and the test that caught each."""
    found = load("mutations")
    lines = []
    for row in found["rows"]:
        test = row["by"].rpartition("::")[2].partition("[")[0]
        lines.append(
            [row["name"], row["says"], f"`{row['file']}`", f"`{test}`" if row["caught"] else "**not caught**"]
        )
    shown = table(["bug", "effect", "file", "caught by"], lines).data
    return Markdown(f"**{found['caught']} of {found['seeded']} are caught.**\n\n{shown}")


def faults() -> Markdown:
    """Show the number of injected faults by kind and object."""
    found = load("faults")
    objects, kinds = (list(dict.fromkeys(row[part] for row in found["rows"])) for part in ("object", "fault"))
    counts = {(row["object"], row["fault"]): f"{row['injected']:,}" for row in found["rows"]}
    lines = [[kind, *(counts.get((name, kind), "") for name in objects)] for kind in kinds]
    shown = table(["fault", *objects], lines).data
    return Markdown(
        f"`{found['command']}`: **{found['injected']:,} faults injected, {found['violations']} violations.**"
        f"\n\n{shown}"
    )
