"""Lines of Pavlovic2025 on the page of verdicts; see `reproduction.verdicts`."""

import math
from collections.abc import Iterator
from functools import partial

from dpbandits.lab.study import Row
from reproduction.lines import CITED, NOT_RUN, command_of, line_of, number_of, told
from reproduction.pavlovic2025.rkhs import BOUND
from reproduction.result_folder import ResultFolder

__all__ = ["pavlovic_lines"]


def pavlovic_lines(held: ResultFolder) -> list[Row]:
    """All of them, from the result files in a folder."""
    return [*_lemmas(held), *_privacy(held), *_volume(held), *_continuum(held), *_statements()]


def _lemmas(held: ResultFolder) -> Iterator[Row]:
    row = held.row("pavlovic2025-lemmas", T=300)
    own: dict[str, str] = {"as_printed": "the same", "ours": "none", "non_private": "none", "random": "none"}
    own["run"] = command_of("pavlovic2025", "lemmas")
    own["seeds"] = NOT_RUN if row is None else f"{row['worlds']} from {row['first seed']:,}"
    for item, bound, measured, most in (
        ("Lemma 4.3 (6.3), T = 300, sup |mu-bar - f|", "bound 4.3", "error Z", 2.0 * BOUND),
        ("Lemma 4.4 (6.1), T = 300", "bound 4.4", "inverse Z", math.inf),
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
        verdict="rate only; runs the population covariance, not that of Z; exponents are on the page "
        "evidence/pavlovic2025"
        if answer
        else NOT_RUN,
        run=command_of("pavlovic2025", "errors --rounds 10000 --epsilon 1 --world 'SE .2 in 1+1'"),
    )


def _privacy(held: ResultFolder) -> Iterator[Row]:
    """Theorem 7.3 and what it rests on: exact ratios of `USCA`'s answers, its covariance that of Z."""
    rows = held.rows("pavlovic2025-ratios-published")
    run = command_of("pavlovic2025", "ratios-published")
    worst = max((row["ratio"] for row in rows), default=math.inf)
    moved = max((row["moved"] for row in rows), default=math.inf)
    for item, printed, found, share in (
        ("Lemma 4.2 (7.1), what one row moves", "at most 2 B sup sigma-bar^2", "of it", moved),
        ("Theorem 7.3 with Lemma 7.2, epsilon .1 to 5", "the answer is epsilon-private", "of epsilon", worst),
    ):
        # scores are rounded to integers: the last digits of a ratio are those of floats that compare them
        holds = "holds" if share <= 1.0 + 1e-9 else "not private: above its bound"
        yield line_of(
            item,
            printed=printed,
            honest=f"at most {share:.3f} {found}" if rows else NOT_RUN,
            as_printed="the same",
            ours="the line of `ratios`: " + _ours_of(held),
            non_private="none",
            random="none",
            seeds="none: exact laws" if rows else NOT_RUN,
            verdict=f"{holds} for every Z, whatever its size" if rows else NOT_RUN,
            run=run,
        )


def _ours_of(held: ResultFolder) -> str:
    rows = held.rows("pavlovic2025-ratios")
    return f"at most {max(row['ratio'] for row in rows):.3f} of epsilon" if rows else NOT_RUN


def _volume(held: ResultFolder) -> Iterator[Row]:
    rows = held.rows("pavlovic2025-volumes")
    least = min((row["smallest"] for row in rows), default=0.0)
    first = rows[0] if rows else None
    yield line_of(
        "Lemma 8.1, shares of an interval within r of the best action",
        printed="at least min(1, (r/(D_0 L))^d)",
        honest=NOT_RUN if first is None else f"at least {least:.2f} times it, over worlds, contexts and r",
        as_printed="the same",
        ours="none",
        non_private="none",
        random="none",
        seeds=NOT_RUN if first is None else f"{first['worlds']} from {first['first seed']:,}",
        verdict=NOT_RUN
        if first is None
        else "holds; the policy's actions are finite, and need no volume"
        if least >= 1.0 - 1e-9
        else "not reproduced: below its bound",
        run=command_of("pavlovic2025", "volumes"),
    )


def _statements() -> list[Row]:
    theory = "computed: reproduction.pavlovic2025.theory"
    return told(
        ("Theorem 2.1", "Mercer's expansion", CITED, "none"),
        (
            "Lemma 3.1 (9.1)",
            "estimator and variance by the kernel alone",
            "holds: `USCA` computes by it, and a test compares it with the features' form",
            "pytest tests/central/published/test_pavlovic2025.py -k kernel_trick",
        ),
        ("Theorem 8.2", "a bound", "calculator", theory),
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
