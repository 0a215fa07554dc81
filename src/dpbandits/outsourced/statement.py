"""Statement of the guarantee of a curator's release of rows and answers."""

import math
from collections.abc import Iterator

from dpbandits.budget import Cost
from dpbandits.budget.amounts import exact
from dpbandits.budget.units import unit_of
from dpbandits.outsourced.scaling import RADIUS, PublicScaling
from dpbandits.privacy.certificates import GaussianDP, NearGaussianDP, PureBeside, PureDP, rounded_up
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import LOG_RATIOS, Assumption, Guarantee, MechanismRecord, Status
from dpbandits.privacy.rows import AnswerLaplace, CellResponse, GaussianRows, L2Laplace, RowMechanism
from dpbandits.privacy.rows.base import LatticeMechanism
from dpbandits.privacy.sentences import (
    LEDGER_CHECKS_COPIES,
    LEDGER_IS_ONE,
    check_noise_status,
    enforced,
    in_order,
    protected_from,
    reason,
    shown_to,
    unchecked,
)
from dpbandits.tables import DateRange

__all__ = ["RELEASES", "cost_of_rows", "rows_guarantee"]

RELEASES = ("positions", "answers")
"""Purposes in a log of releases of a guarantee's mechanisms, in their order."""

_THEOREMS = {
    "l2_laplace": (
        "The noise on the lattice has probabilities proportional to exp(-a |k|) with one normaliser for all "
        "rows, so by the triangle inequality no output is more than exp(a |x - x'|) times as likely under "
        "one position as under another (metric differential privacy, Chatzikokolakis et al. 2013); rounding "
        "to the lattice is counted in a (derivation: dpbandits.privacy.rows)."
    ),
    "gaussian": (
        "Gaussian noise, as stated, on an integer vector whose centre changes by at most the stated "
        "sensitivity, rounding included (Canonne, Kamath, Steinke 2020, Theorem 14, of "
        "discrete noise; Dong, Roth, Su 2022 of real-valued noise that is rounded)."
    ),
    "randomised_response": (
        "The true cell is reported with a probability at most e^epsilon times that of any other cell; the "
        "probability is an integer over 2^64, rounded down (Warner 1965)."
    ),
}

_ANSWER_THEOREM = (
    " An answer is rounded to a lattice and has Laplace noise of the stated scale on it, whose probabilities "
    "are proportional to exp(-a |k|): two answers as far apart as stated give any output with probabilities "
    "within a factor of exp of the stated epsilon of answers."
)
_ONE_ROW = (
    " Neighbouring tables differ in one row, which is answered at most once, so that its position and its "
    "answer add up by basic composition."
)
_ROWS_THEOREM = (
    " The noise of each row satisfies epsilon and delta divided by {most}, and the at most {most} rows "
    "in which neighbouring tables differ add up by basic composition."
)
_SEVERAL_ROWS = (
    " Neighbouring tables differ in at most {most} rows, each of which is answered at most once, so that "
    "their positions and their answers add up by basic composition."
)
_DELTA_LIMIT = "Delta is so large that publishing one of {rows} raw rows would satisfy this promise."
_DELTA_NOTE = (
    "This mechanism adds its noise to every row, but with a delta of {delta:g} the promise by itself says "
    "little: choose a delta well below one over the number of rows."
)
_ROWS_NOTE = (
    "The losses above are for one row. A person with {most} rows loses at most {most} times as much in "
    "total; the promise states this total."
)


def cost_of_rows(privacy: RowDP, answers: AnswerLaplace | None) -> Cost:
    """Return the cost for an account of a release of rows and of its answers.

    Neighbouring tables differ in the rows of one person. Each row's position changes by at most
    `privacy.distance` and, if answers have noise, each row's answer by at most `answers.distance`. The
    losses of a row's position and of its one answer add up by basic composition.
    """
    epsilon, apart = exact(privacy.epsilon, name="epsilon"), 0.0
    if answers is not None:
        epsilon += privacy.rows_per_user * exact(answers.epsilon, name="epsilon of answers")
        apart = answers.distance
    return Cost(unit=unit_of(privacy, answers=apart), epsilon=epsilon, delta=privacy.delta)


def rows_guarantee(
    mechanism: RowMechanism,
    *,
    privacy: RowDP,
    scaling: PublicScaling,
    counted: bool,
    rows: int,
    status: Status,
    answers: AnswerLaplace | None,
    cap: int,
    pace: float | None,
    durable: bool,
    witnessed: bool,
    budgeted: bool,
    evaluated: bool,
) -> Guarantee:
    """Return the guarantee of a release and of the answers that follow it.

    Args:
        mechanism: mechanism that satisfies `privacy.each_row` for each released input.
        privacy: the promise.
        scaling: public scaling of the columns.
        counted: True if each person's rows were counted, and rows above `rows_per_user` left out.
        rows: number of rows of the table.
        status: status of the noise source.
        answers: the noise on answers, or None if they are exact.
        cap: largest number of evaluations.
        pace: time in seconds after which an answer is given; None if it is given as soon as it is known.
        durable: True if state and log of answers are on disk.
        witnessed: True if a ledger refuses a second copy of state and log.
        budgeted: True if an account is charged for every release of this table.
        evaluated: True if answers come from a function or a program, which may fail, and not from a column.
    """
    check_noise_status(status)
    definition, most = privacy, privacy.rows_per_user
    place = {"witnessed": witnessed, "budgeted": budgeted, "durable": durable}
    loss = mechanism.definition.epsilon
    scale, moved, in_unit = loss, loss, LOG_RATIOS
    if isinstance(mechanism, LatticeMechanism):
        scale, moved, in_unit = (
            mechanism.scale,
            mechanism.reach,
            "in public coordinates, L2, rounding included",
        )
    of_each = "" if most == 1 else " (sensitivity and certificate are those of one row)"
    records = [
        MechanismRecord(
            name="positions of all rows, each on its own" + of_each,
            law=mechanism.describe(),
            scale=scale,
            sensitivity=moved,
            certificate=mechanism.certificate,
            releases=1,
            unit=in_unit,
        )
    ]
    certificate, epsilon = mechanism.certificate, definition.epsilon
    theorem = reason(_THEOREMS[mechanism.name], mechanism.certificate)
    if most > 1:
        pure = isinstance(certificate, PureDP)
        certificate = PureDP(epsilon) if pure else certificate.compose(*[certificate] * (most - 1))
        theorem += _ROWS_THEOREM.format(most=most)
    neighbours, unit = definition.neighbours, definition.unit
    sees = "the released positions (not the exact answers)"
    if answers is not None:
        paid = PureDP(most * answers.epsilon)
        pure = isinstance(certificate, PureDP)
        certificate = paid.beside(certificate) if pure else PureBeside(paid.epsilon, certificate)
        epsilon = definition.epsilon + paid.epsilon
        theorem += _ANSWER_THEOREM + (_ONE_ROW if most == 1 else _SEVERAL_ROWS.format(most=most))
        sees = "the released positions and the noised answers"
        changed, whose = "one", "that row's"
        if most > 1:
            changed, whose = f"those of one person, at most {most}", "each of these rows'"
        neighbours = (
            f"two tables are neighbouring if they have the same rows except {changed}, {whose} two positions "
            f"are at most {definition.distance:g} apart (Euclidean distance after public scaling), and its "
            f"two answers differ by at most {answers.distance:g}"
        )
        whose = "its answer" if most == 1 else "their answers"
        unit = f"{definition.unit}, together with a change of {whose} by up to {answers.distance:g}"
        records.append(
            MechanismRecord(
                name="the answer of each row that is asked for, each row once" + of_each,
                law="Laplace on a lattice",
                scale=answers.sd / 2**0.5,
                sensitivity=answers.distance + answers.step,
                certificate=PureDP(answers.epsilon),
                releases=cap,
                unit="in the answer's unit, rounding included; a row is in one of the releases only",
            )
        )
    large_delta = definition.delta * rows >= 1.0
    error = (
        "Each row's cell is published, wrong with the stated probability."
        if isinstance(mechanism, CellResponse)
        else f"Each row's position is published with an error of about {mechanism.law.sd:.3g} per coordinate."
        f" Opposite corners lose epsilon {rounded_up(mechanism.epsilon_at(2 * RADIUS))}."
    )
    return Guarantee(
        definition=definition,
        observers=(
            shown_to("the curator", "the whole table"),
            protected_from("the modeler and everybody else", sees),
        ),
        mechanisms=tuple(records),
        assumptions=in_order(
            (
                *_kept(enforced_noise=status == "enforced", **place),
                *_whose(most, counted=counted),
                *_trusted(**place),
                *_answering(cap, noised=answers is not None, pace=pace, evaluated=evaluated),
            )
        ),
        theorem=theorem,
        status=status,
        certificate=certificate,
        epsilon=epsilon,
        delta=definition.delta,
        unit=unit,
        neighbours=neighbours,
        limits=(
            f"{error} Other knowledge may show whose row it is.",
            *([EXACT_ANSWERS] if answers is None else []),
            *([_DELTA_LIMIT.format(rows=rows)] if large_delta else []),
        ),
        notes=(
            _distance_note(mechanism, mechanism.definition),
            *([] if most == 1 else [_ROWS_NOTE.format(most=most)]),
            _answers_note(answers, mechanism, evaluated=evaluated),
            "An attacker may still learn: the number of rows; the shape of the whole cloud of "
            "rows, since noise averages out over many; for each row, a position with an error of about "
            f"{mechanism.law.sd:.3g} a coordinate (public coordinates); and with an answer, or with "
            "knowledge about the person, the released row that is likely that person's.",
            _units_note(mechanism, scaling, definition.distance),
            *([_DELTA_NOTE.format(delta=definition.delta)] if large_delta else []),
        ),
    )


EXACT_ANSWERS = "Answers are public and exact: this promise does not cover them."


def _kept(*, enforced_noise: bool, witnessed: bool, budgeted: bool, durable: bool) -> Iterator[Assumption]:
    yield enforced(
        "public scaling",
        "Rows are scaled by the declared public bounds only. Rows outside are clipped or released as "
        "the centre would be, and so are rows that cannot be read. If rows have ids of their own, the "
        "evaluation of a row fails if its id is missing or another row has it too.",
    )
    if durable:
        yield enforced(
            "noise drawn once",
            "Noise is drawn once, is durable before the release is shown, and publishing again gives the "
            "same release.",
        )
        text = "Each row is answered at most once, and an answer is durable before it is given."
        yield enforced("one answer per row", text)
    else:
        yield enforced(
            "noise drawn once",
            "While the curator's process runs, noise is drawn once, publishing again gives the same "
            "release, and each row is answered at most once.",
        )
    text = "A curator is not copied, pickled, used behind a fork or by two threads at once."
    yield enforced("single process", text)
    if enforced_noise:
        text = "Rows are shuffled by random numbers of the operating system before they get their numbers."
        yield enforced("shuffled rows", text)
        text = "The noise is drawn from exactly the stated law, on integers, from secure random numbers."
        yield enforced("exact sampling", text)
    if witnessed:
        yield enforced(
            "single copy",
            "Only one copy of the curator's directory is continued: the ledger refuses a second one, a "
            "restored backup and a shortened log of answers before anything is evaluated, and the directory "
            "opens with the ledger only.",
        )
    if budgeted:
        text = "A release is charged to this account only if the account can pay for all of it."
        yield enforced("privacy budget", text)


def _trusted(*, witnessed: bool, budgeted: bool, durable: bool) -> Iterator[Assumption]:
    yield unchecked(
        "public parameters",
        "No parameter was chosen by looking at the table. This means bounds, columns, mechanism, "
        "distance and every other parameter.",
    )
    yield unchecked(
        "public existence",
        "That there is a release reveals nothing private. A table is refused only for its form (a missing "
        "column, columns of different lengths), or if it has fewer rows than two or than `cap`, or does "
        "not fit into memory. Rows that are left out do not count.",
    )
    yield unchecked(
        "curator security",
        "The curator's directory, process and random numbers are out of the attacker's reach. Random numbers "
        "come from the operating system.",
    )
    if budgeted:
        yield unchecked(
            "no other release",
            "Nothing else computed from the same rows is released, unless the account pays for it.",
        )
    else:
        yield unchecked(
            "no other release",
            "Nothing else computed from the same rows is released, and the table is released once. (Name a "
            "ledger account to have further releases paid for.)",
        )
    if witnessed or budgeted:
        yield LEDGER_IS_ONE
    if not durable:
        yield unchecked(
            "one curator",
            "The curator is made once. It has no secret directory: made again, it would draw and answer anew."
            "",
        )
    elif not witnessed:
        yield unchecked(
            "single copy",
            "Only one copy of the curator's directory is continued, with its whole log of answers"
            + LEDGER_CHECKS_COPIES,
        )


def _whose(most: int, *, counted: bool) -> Iterator[Assumption]:
    if not counted:
        yield unchecked(
            "one row per person",
            "One person has one row. A person with k rows, or with k rows of relatives that have the same "
            "content, loses k times as much.",
        )
        return
    yield enforced(
        "contribution bound",
        f"At most {most} row(s) of one person are released and answered: further ones are left out, by the "
        "column that names the person, and so are rows whose person has no readable id and, in a database, "
        "rows that have no id of their own or share it. The number of released rows shows how many are left; "
        "the promise does not hide it.",
    )
    yield unchecked(
        "named rows",
        "A row belongs to the person that its column names. A person whose relatives have rows with the "
        "same content loses as much again for each such row.",
    )


def _answering(cap: int, *, noised: bool, pace: float | None, evaluated: bool) -> Iterator[Assumption]:
    yield enforced(
        "evaluations counted",
        f"At most {cap} answers are given or evaluations begun, those that fail included; each is counted "
        "before it begins.",
    )
    if not evaluated:
        text = "The time that an answer takes does not depend on private data. It is read from a column."
        yield unchecked("answer times", text)
        return
    if noised:
        yield enforced(
            "failures look alike",
            "An evaluation that fails, is stopped or gives no finite number is answered once, as the middle "
            "of the public bounds and under the same noise: no reply tells it from another.",
        )
        yield unchecked(
            "independent answers",
            "An answer depends on its own row alone. One exception: rows with the same id of their own all "
            "fail.",
        )
    if pace is None:
        yield unchecked(
            "evaluation times",
            "Evaluation times, and whether the curator's process outlives each, do not depend on private "
            "data. The modeler can measure both (answer_after gives every answer the same time).",
        )
        return
    yield enforced(
        "answer times",
        f"An answer, or the reply that there is none, is given {pace:g} seconds after its evaluation began; "
        "a program is stopped, and has failed, at half of that.",
    )
    yield unchecked(
        "evaluation times",
        f"No function takes longer than {pace:g} seconds, and the curator's process outlives every "
        f"evaluation. (A late answer is given at the next multiple of {pace:g} seconds, which the modeler "
        "can measure.)",
    )


def _loss(mechanism: RowMechanism) -> str:
    """Return the privacy loss between two positions at distance D as text, rounding included."""
    definition = mechanism.definition
    if isinstance(mechanism, L2Laplace):
        rounding = mechanism.step * math.sqrt(mechanism.dim)
        return (
            f"{definition.epsilon:g} (D + {rounding:.3g})/({definition.distance:g} + {rounding:.3g}), the "
            f"{rounding:.3g} for rounding to a lattice"
        )
    if isinstance(mechanism, GaussianRows):
        sigma, rounding = mechanism.scale, mechanism.step * (math.sqrt(mechanism.dim) + 1.0)
        ratio = f"(D + {rounding:.3g})/{sigma:.6g}"
        certificate = mechanism.certificate
        if isinstance(certificate, (GaussianDP, NearGaussianDP)):
            form = f"that of Gaussian differential privacy with mu = {ratio}"
            if isinstance(certificate, NearGaussianDP):
                form += f" (up to a total variation of {rounded_up(certificate.distance)})"
        else:
            form = f"that of zero-concentrated differential privacy with rho = ({ratio})^2/2"
        return f"{form}, at delta = {definition.delta:g}; the {rounding:.3g} is for rounding"
    return f"{definition.epsilon:g} at every distance"


def _distance_note(mechanism: RowMechanism, definition: RowDP) -> str:
    if isinstance(mechanism, CellResponse):
        return (
            "Distant rows: the loss is epsilon between any two positions in the public cube, near or far. "
            "The release hides the true cell, with the probability stated."
        )
    distance = definition.distance
    rows = [
        f"{multiple * distance:g} apart: epsilon {mechanism.epsilon_at(multiple * distance):.3g}"
        for multiple in (2, 10)
        if multiple * distance < 2 * RADIUS
    ]
    rows.append(f"{2 * RADIUS:g} apart, corner to corner: epsilon {mechanism.epsilon_at(2 * RADIUS):.3g}")
    return (
        f"Distant rows lose more: the promise is for two positions at most {distance:g} apart. The further "
        "apart two positions are, the easier they are told apart from the release (" + "; ".join(rows) + "). "
        f"For positions D apart the loss is {_loss(mechanism)}. "
        "The release hides the place of a row within its neighbourhood, not the neighbourhood."
    )


def _answers_note(answers: AnswerLaplace | None, mechanism: RowMechanism, *, evaluated: bool) -> str:
    if answers is None:
        told = ", and so does the reply that an evaluation gave no answer" if evaluated else ""
        return (
            "Answers are public and exact, and no part of this promise covers them: an answer f(x) reveals "
            f"something about x by itself{told}, and whoever knows the answer of a person's row from "
            "elsewhere finds the row by it, with its released position and the fact that it was asked for. "
            "Noise on the answers is the remedy (AnswerLaplace)."
        )
    return (
        f"Answers are noised: epsilon {answers.epsilon:g} of the total pays for two answers at most "
        f"{answers.distance:g} apart; answers u apart lose {answers.epsilon:g} (u + {answers.step:.3g})/"
        f"({answers.distance:g} + {answers.step:.3g}), the {answers.step:.3g} for rounding. A row "
        f"whose position changes by D also loses on its position: {_loss(mechanism)}. Rows that are never "
        "asked for lose nothing on their answers."
    )


def _units_note(mechanism: RowMechanism, scaling: PublicScaling, distance: float) -> str:
    if isinstance(mechanism, CellResponse):
        return f"In the columns' own units: a cell is {_along(scaling, mechanism.scale, joined='by')}."
    promised = f"a distance of {distance:g} is {_along(scaling, distance)}, where one column changes alone"
    error = f"a released position errs by about {_along(scaling, mechanism.law.sd, joined='and')}"
    return f"In the columns' own units: {promised}; {error}."


def _along(scaling: PublicScaling, distance: float, *, joined: str = "or") -> str:
    columns = scaling.schema.columns
    parts = [
        f"{value:.3g} {'days ' if isinstance(columns[name], DateRange) else ''}of {name!r}"
        for name, value in scaling.in_columns(distance).items()
    ]
    return f" {joined} ".join(parts)
