"""Lines of Pavlovic2025 on the page of verdicts; see `reproduction.verdicts`."""

import math
from collections.abc import Iterator
from functools import partial

from dpbandits.lab.study import Row
from reproduction.lines import NOT_RUN, command_of, computed, line_of, number_of
from reproduction.pavlovic2025.rkhs import BOUND
from reproduction.result_folder import ResultFolder

__all__ = ["pavlovic_lines"]


def pavlovic_lines(held: ResultFolder) -> list[Row]:
    """All of them, from the result files in a folder."""
    return [*_lemmas(held), *_continuum(held)]


def _lemmas(held: ResultFolder) -> Iterator[Row]:
    row = held.row("pavlovic2025-lemmas", T=300)
    own: dict[str, str] = {"as_printed": "the same", "ours": "none", "non_private": "none", "random": "none"}
    own["run"] = command_of("pavlovic2025", "lemmas")
    own["seeds"] = NOT_RUN if row is None else f"{row['worlds']} from {row['first seed']:,}"
    for item, bound, measured, most in (
        ("Lemma 4.3, T = 300, sup |mu-bar - f|", "bound 4.3", "error Z", 2.0 * BOUND),
        ("Lemma 4.4, T = 300", "bound 4.4", "inverse Z", math.inf),
        ("Lemma 6.2, T = 300, |mu - mu-bar|", "bound 6.2", "gap", 2.0 * BOUND),
        ("Lemma 7.1, T = 300, sup sigma-bar^2", "bound 7.1", "variance", 1.0),
    ):
        if row is None or bound not in row:
            yield line_of(item, printed="a bound", **own | {"verdict": NOT_RUN})
            continue
        verdict = "holds" if row[measured] <= row[bound] else "not reproduced: above its bound"
        if row[bound] > most:
            verdict += "; says nothing, nothing can be above it"
        if bound == "bound 4.4" and not row["holds 4.4"]:
            verdict += "; outside its own condition"
        yield line_of(
            item,
            printed=f"at most {row[bound]:,.3g}",
            honest=number_of(row, measured, f"{measured} s.e.", ".3f"),
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
    error = partial(number_of, name="error", form=".4f")
    yield line_of(
        "Theorem 4.1, T = 10,000, epsilon 1, SE .2",
        printed="rate, no number",
        honest=error(answer),
        as_printed="the same",
        ours=error(ours),
        non_private=error(plain),
        random=error(random),
        seeds=NOT_RUN if answer is None else f"{answer['worlds']} from {answer['first seed']:,}",
        verdict="rate only; exponents are on the page results-pavlovic2025" if answer else NOT_RUN,
        run=command_of("pavlovic2025", "errors"),
    )
    theory = "computed: reproduction.pavlovic2025.theory"
    yield line_of(
        "Theorem 8.2",
        printed="a bound",
        **computed("calculator", theory),
    )


def _continuum(held: ResultFolder) -> Iterator[Row]:
    """Actions from a continuum, as ever finer cells; and rewards clipped as the paper suggests."""
    rows = held.rows("pavlovic2025-continuum")
    run = command_of("pavlovic2025", "continuum")
    form = ".4f"

    def finest(name: str, row: Row | None) -> str:
        return number_of(row, name, f"{name} s.e.", form)

    last = rows[-1] if rows else None
    seeds = NOT_RUN if last is None else f"{last['worlds']} from {last['first seed']:,}"
    common = {"as_printed": "the same", "non_private": "none", "seeds": seeds, "run": run}
    common["random"] = finest("random", last)
    cells = [row["setting"].rsplit(", ", 1)[1] for row in rows]
    yield line_of(
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
    yield line_of(
        "Reward clip B + R ln(T/delta), the same at the finest cells",
        printed="a formula" if last is None else f"{last['clip']:.2f} for |rewards| up to 1.2",
        honest=finest("clipped", last),
        ours=finest("ours", last),
        verdict=f"the error is {last['clipped'] / last['answer']:.1f} times that at the range's own bound"
        if last
        else NOT_RUN,
        **common,
    )
