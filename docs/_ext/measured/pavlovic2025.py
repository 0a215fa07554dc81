"""Tables and pictures of `evidence/pavlovic2025.md`."""

from IPython.display import HTML, Markdown
from pages import Row, draw, grid, load, shown, table

from dpbandits.lab import plot
from reproduction.pavlovic2025.errors import METHODS, features_of, slopes
from reproduction.pavlovic2025.rkhs import rkhs_setting
from reproduction.pavlovic2025.trials import ITEM

_ORDER = [
    "published calibration",
    "USCA answer",
    "USCA answer, ridge in hindsight",
    "USCA release",
    "non-private",
    "random",
]
_SHOWN = {"USCA answer, ridge in hindsight": "answer, ridge in hindsight (a bound)"}


def doses(name: str) -> list[Row]:
    return list(load(f"pavlovic2025-{name}"))


def _loss(row: Row) -> str:
    digits = 5 if row["error"] < 0.001 else 4
    return f"{row['error']:.{digits}f} ± {row['standard_error']:.{digits}f}"


def pavlovic_picture(setting: str = "SE .2 in 1+1") -> HTML:
    figure, (axes,) = draw(height=3.2)
    looks = (("published calibration", "orange"), ("USCA answer", "blue"), ("USCA release", "green"))
    for method, colour in (*looks, ("non-private", "grey"), ("random", "black")):
        wanted = 1.0 if method in dict(looks) else None
        own = [
            r
            for r in doses("errors")
            if (r["setting"], r["method"], r["epsilon"]) == (setting, method, wanted)
        ]
        own.sort(key=lambda row: row["rounds"])
        columns = ([row[key] for row in own] for key in ("rounds", "error", "standard_error"))
        plot.draw_points(axes, *columns, colour=colour, label=method.replace("USCA", "our"))
    axes.set(xscale="log", yscale="log", xlabel="rows of the log, at epsilon = 1", ylabel="mean loss")
    plot.add_legend(axes)
    return shown(
        figure,
        "Mean loss along the rows of a log: our answer and release fall faster than the published one.",
    )


def pavlovic_errors() -> Markdown:
    """Show errors by rows, epsilon and method, a table for each setting."""
    settings = dict.fromkeys(row["setting"] for row in doses("errors"))
    return Markdown("\n\n".join(f"**{one}**\n\n{_errors(one).data}" for one in settings))


def _errors(setting: str) -> Markdown:
    found = [row for row in doses("errors") if row["setting"] == setting]
    counts = sorted({row["rounds"] for row in found})
    lines = []
    for epsilon in [*sorted({row["epsilon"] for row in found if row["epsilon"] is not None}), None]:
        for method in _ORDER:
            own = {
                row["rounds"]: row for row in found if (row["method"], row["epsilon"]) == (method, epsilon)
            }
            if own:
                first = "" if epsilon is None else f"{epsilon:g}"
                lines.append([first, _SHOWN.get(method, method), *(_loss(own[t]) for t in counts)])
    return table(["epsilon", "method", *(f"T = {t:,}" for t in counts)], lines)


def pavlovic_summary() -> Markdown:
    found = {(r["setting"], r["method"], r["rounds"], r["epsilon"]): r["error"] for r in doses("errors")}

    def of(
        method: str, setting: str = "SE .2 in 1+1", rounds: int = 10_000, epsilon: float | None = 1.0
    ) -> float:
        return float(found[setting, method, rounds, epsilon])

    settings = dict.fromkeys(setting for setting, *_ in found)
    shares = [
        min(of(method, one, 1000, 0.1) for method in ("USCA answer", "USCA release"))
        / of("random", one, 1000, None)
        for one in settings
    ]
    return Markdown(
        f"At T = 10,000, epsilon = 1, SE .2: an answer of ours loses {of('USCA answer'):.4f} (target .006), "
        f"where the published calibration loses {of('published calibration'):.4f}; the release, good for any "
        f"number of predictions, loses {of('USCA release'):.4f} (target .004). At T epsilon = 100 even the "
        f"better of the two loses {min(shares):.0%} to {max(shares):.0%} of what a random action "
        "loses, by setting."
    )


def pavlovic_slopes() -> Markdown:
    held, lines = doses("errors"), []
    terms = ("T", "sqrt(gamma/T)", "gamma/(T epsilon)")
    for setting in dict.fromkeys(row["setting"] for row in held):
        features = features_of(rkhs_setting(setting))
        for method in METHODS[:3]:
            found = slopes([row for row in held if row["setting"] == setting], features, method)
            lines.append([setting, method, *(f"{found[term]:.2f}" for term in terms)])
    return table(["setting", "method", *terms], lines)


_LEMMAS = {
    "T": "T",
    "Z": "size of Z",
    "gamma": "gamma_T",
    "gap": "sup gap",
    "bound 6.2": "Lemma 6.2",
    "error Z": "sup error with Z",
    "bound 4.3": "Lemma 4.3",
    "error": "sup error of kernel ridge",
    "inverse Z": "spectral, Z",
    "bound 4.4": "Lemma 4.4",
    "spectral data": "spectral, data",
    "variance": "sup sigma-bar^2",
    "bound 7.1": "Lemma 7.1",
}
"""Column of the result file -> its name on the page."""


def pavlovic_lemmas() -> Markdown:
    """Show what the lemmas bound beside their bounds, with standard errors."""

    def text(row: Row, key: str) -> str:
        value = row[key]
        if f"{key} s.e." in row:
            return f"{value:.4f} ± {row[f'{key} s.e.']:.4f}"
        if isinstance(value, float) and not value.is_integer():
            return f"{value:.3g}"
        return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)

    return table(list(_LEMMAS.values()), [[text(row, key) for key in _LEMMAS] for row in doses("lemmas")])


def pavlovic_trials() -> Markdown:
    return table(
        ["trial", "epsilon", "policy", "value", "s.d. over splits"], map(ITEM.text_of, doses("trials"))
    )


def pavlovic_kept() -> Markdown:
    kept = {(row["trial"], row["epsilon"], row["policy"]): row["value"] for row in doses("trials")}
    parts = []
    for trial in dict.fromkeys(trial for trial, *_ in kept):
        best, random = (kept[trial, 1.0, name] for name in ("best constant arm", "uniform"))
        shares = ", ".join(
            f"{(kept[trial, e, 'private'] - random) / (best - random):.0%}" for e in (0.5, 1.0, 5.0)
        )
        parts.append(f"{trial} {shares}")
    return Markdown(
        "Share of the best constant arm's gain over random choice that the private policy keeps, at "
        "epsilon = .5, 1, 5: " + "; ".join(parts) + "."
    )


def pavlovic_log_ratios() -> Markdown:
    return grid(
        sorted(doses("ratios"), key=lambda row: row["epsilon"]),
        down=lambda row: row["kernel"],
        across=lambda row: f"epsilon = {row['epsilon']:g}",
        cell=lambda row: f"{row['ratio']:.4f}",
        head="kernel",
    )
