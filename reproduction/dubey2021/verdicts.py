"""Lines of Dubey2021 on the page of verdicts; see `reproduction.verdicts`."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from dpbandits.central.published.printed import (
    Formula,
    correct_scale,
    printed_local_scales,
    printed_scale,
)
from dpbandits.lab.study import Row
from dpbandits.privacy.calibration import gaussian_mu
from reproduction.dubey2021.theory import features_asked, quadrature_error
from reproduction.lines import NOT_RUN, command_of, computed, line_of, number_of, seeds_of
from reproduction.result_folder import ResultFolder

__all__ = ["dubey_lines"]

_PRINTED_TABLE = {
    "camelback": (519, 775, 1029, 3324),
    "styblinski-tang-20": (885, 1667, 2680, 4493),
    "michalewicz-10": (901, 1558, 2883, 5002),
}
"""Table 1: non-private, alpha 10, 1, .1."""


def dubey_lines(held: ResultFolder) -> list[Row]:
    """All of them, from the result files in a folder."""
    return [*_figures(held), *_table(held), *_algorithms(held), *_theory()]


def _figures(held: ResultFolder) -> Iterator[Row]:
    for item, promises in (
        ("figure-1", [(epsilon, 0.1) for epsilon in (0.1, 0.5, 1.0, 10.0)]),
        ("figure-2", [(1.0, delta) for delta in (0.01, 0.1, 0.5, 0.99)]),
    ):
        stem = f"dubey2021-{item}"
        for epsilon, delta in promises:
            at = partial(held.row, stem, epsilon=epsilon, delta=delta)
            tree, printed, ours = (
                at(column=column)
                for column in ("tree, right noise", "tree, printed Lemma 2", "block release")
            )
            alone = partial(held.row, stem, epsilon=None)
            if tree is None or ours is None:
                verdict = NOT_RUN
            else:
                verdict = "cannot be compared: the paper has curves without numbers"
            yield line_of(
                f"Figure {item[-1]}, alpha {epsilon:g}, beta {delta:g}",
                printed="curve",
                honest=number_of(tree),
                as_printed=number_of(printed),
                ours=number_of(ours),
                non_private=number_of(alone(column="non-private")),
                random=number_of(alone(column="random")),
                seeds=seeds_of(tree, ours),
                verdict=verdict,
                run=command_of("dubey2021", item, f"--epsilon {epsilon:g} --where delta={delta:g}"),
            )


def _table(held: ResultFolder) -> Iterator[Row]:
    for world, (plain, *private) in _PRINTED_TABLE.items():
        for epsilon, number in zip((None, 10.0, 1.0, 0.1), (plain, *private), strict=True):
            at = {"world": world}

            def found(
                column: str, *, own: bool = True, at: Row = at, epsilon: float | None = epsilon
            ) -> Row | None:
                promise = (
                    {"epsilon": epsilon, "delta": 0.1} if own and epsilon is not None else {"epsilon": None}
                )
                return held.row("dubey2021-table-1", column=column, **at, **promise)

            tree = None if epsilon is None else found("tree, right noise")
            printed = None if epsilon is None else found("tree, printed Lemma 2")
            ours = None if epsilon is None else found("block release")
            random, alone = found("random", own=False), found("non-private", own=False)
            what = "non-private" if epsilon is None else f"alpha {epsilon:g}"
            if epsilon is None:
                verdict = "cannot be compared: decision sets and the function's scale are not printed"
            elif tree is None or alone is None:
                verdict = NOT_RUN
            else:
                here = tree["regret"] / alone["regret"]
                verdict = (
                    f"not reproduced: {number / plain:.2f} times non-private as printed, {here:.2f} here, "
                )
                verdict += "at whatever scale"
                if random is not None and random["regret"] / alone["regret"] < number / plain:
                    verdict += f"; a random arm has {random['regret'] / alone['regret']:.2f}: none fits"
                if random is not None and random["regret"] < tree["regret"]:
                    verdict += "; worse than a random arm"
            yield line_of(
                f"Table 1, {world}, {what}",
                printed=f"{number:,}",
                honest="is non-private" if epsilon is None else number_of(tree),
                as_printed="is non-private" if epsilon is None else number_of(printed),
                ours="is non-private" if epsilon is None else number_of(ours),
                non_private=number_of(alone),
                random=number_of(random),
                seeds=seeds_of(tree, alone, random),
                verdict=verdict,
                run=command_of(
                    "dubey2021",
                    f"table-1 --world {world}",
                    "--column non-private" if epsilon is None else f"--epsilon {epsilon:g}",
                ),
            )


def _algorithms(held: ResultFolder) -> Iterator[Row]:
    yield line_of(
        "Algorithms 1, 2",
        printed="GP-UCB, the tree",
        **computed("built as printed, three terms of beta_t left out; run in the lines above", "those lines"),
    )
    at = partial(held.row, "dubey2021-algorithm-3", world="printed")
    private = partial(at, epsilon=10.0, delta=1e-5)
    theirs, ours = private(column="local, as published"), private(column="local")
    yield line_of(
        "Algorithm 3 (local) at (10, 1e-5), in Figure 1's world",
        printed="no number",
        honest=number_of(theirs),
        as_printed="not private, see Lemma 5",
        ours=number_of(ours),
        non_private=number_of(at(column="non-private")),
        random=number_of(at(column="random")),
        seeds=seeds_of(theirs, ours),
        verdict="no experiment of the paper to repeat" if theirs else NOT_RUN,
        run=command_of("dubey2021", "algorithm-3 --epsilon 10"),
    )


def _theory() -> Iterator[Row]:
    page = "computed: the page dubey2021"
    theory = "computed: reproduction.dubey2021.theory"

    def over(formula: Formula, epsilon: float) -> str:
        at: dict[str, Any] = {"levels": 11, "epsilon": epsilon, "delta": 1e-5}
        return f"{printed_scale(formula, **at) / correct_scale(**at):,.3g} at ({epsilon:g}, 1e-5)"

    printed_in: dict[str, Formula] = {
        "Lemma 2, sketch": "lemma-2",
        "Lemma 2, statement": "lemma-2-statement",
        "Lemma 12, statement": "lemma-12",
        "Lemma 12, proof": "lemma-12-proof",
    }
    for words, formula in printed_in.items():
        noise = f"over the needed noise: {over(formula, 1.0)}, {over(formula, 0.05)}"
        at: dict[str, Any] = {"levels": 11, "epsilon": 0.05, "delta": 1e-5}
        kept = printed_scale(formula, **at) >= correct_scale(**at)
        yield line_of(
            words, printed=noise, **computed("private" if kept else "not private at (.05, 1e-5)", page)
        )
    gram = math.sqrt(2.0) / printed_local_scales(epsilon=10.0, delta=1e-5).gram
    allowed = gaussian_mu(5.0, 5e-6)
    yield line_of(
        "Lemma 5, (10, 1e-5)",
        printed=f"the Gram's half is {gram:.3f}-GDP, {allowed:.3f} allowed",
        **computed("not private: a half fails" if gram > allowed else "private", page),
    )
    asked, own = (features_asked(rounds=1024, dim=2, own_gain=gain) for gain in (False, True))
    error = quadrature_error(dim=2, nodes=8, lengthscale=0.25)
    none = "no experiment of the paper to repeat"
    for item, printed, verdict, where in (
        ("Theorem 1", "beta_t", "calculator; the policy leaves three terms out, counted on the page", page),
        ("Lemmas 3, 6", "spectrum of the noise", "calculators", theory),
        ("Theorem 2", f"{error:.1f} for 8 nodes a column in Figure 1's world", "measured on the page", page),
        ("Theorem 3", "a bound", "calculator; above T in the cases of the page", page),
        ("Corollary 1", f"{asked:,.0f} features at T = 1,024", f"{none}; more features than rounds", page),
        (
            "Remark 3",
            f"{own:,.0f} features at T = 1,024",
            f"{none}; a round would release {math.comb(round(own) + 1, 2):,} noisy sums",
            page,
        ),
        ("Corollaries 2, 3", "rates", "calculators; no number to compare", theory),
    ):
        yield line_of(item, printed=printed, **computed(verdict, where))
