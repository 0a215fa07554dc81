"""The statement a curator makes about a release, part by part."""

from dpbandits.errors import InvalidParameter
from dpbandits.outsourced.scaling import RADIUS
from dpbandits.privacy.accounting import PureDP
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer, Status
from dpbandits.privacy.row_mechanisms import AnswerLaplace, RandomisedResponse, RowMechanism

__all__ = ["release_guarantee"]

_THEOREMS = {
    "l2_laplace": (
        "The noise on the lattice has probabilities proportional to exp(-a |k|) with one normaliser for all "
        "rows, so by the triangle inequality no output is more than exp(a |x - x'|) times as likely under "
        "one "
        "position as under another (metric differential privacy, Chatzikokolakis et al. 2013); rounding to "
        "the "
        "lattice is counted in a. The derivation stands in dpbandits.privacy.row_mechanisms."
    ),
    "gaussian": (
        "Discrete Gaussian noise on an integer vector whose centre moves by at most the stated sensitivity "
        "(Canonne, Kamath, Steinke 2020, Theorem 14), rounding and projection counted in."
    ),
    "randomised_response": (
        "The true cell is reported with a probability at most e^epsilon times that of any other cell; the "
        "probability is an integer over 2^64, rounded down (Warner 1965)."
    ),
}


def release_guarantee(
    *,
    definition: RowDP,
    mechanism: RowMechanism,
    rows: int,
    status: Status,
    answers: AnswerLaplace | None,
    cap: int | None,
    witnessed: bool,
    budgeted: bool,
) -> Guarantee:
    """The guarantee of a release and of the answers that follow it.

    Args:
        definition: what was asked for, for the released inputs.
        mechanism: what keeps it.
        rows: rows of the table.
        status: of the noise source.
        answers: the noise on answers, or None where they are public.
        cap: answers given at most.
        witnessed: whether a ledger refuses a second copy of the curator's state.
        budgeted: whether a ledger account pays for every release of this table.
    """
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(f"status is {status!r}: a release is enforced or simulated")
    records = [
        MechanismRecord(
            name="positions of all rows, each on its own",
            law=mechanism.describe(),
            scale=mechanism.scale,
            sensitivity=definition.distance,
            certificate=mechanism.certificate,
            releases=1,
            unit="in public coordinates",
        )
    ]
    certificate = mechanism.certificate
    epsilon = definition.epsilon
    neighbours = definition.neighbours
    unit = definition.unit
    if answers is not None:
        paid = PureDP(answers.epsilon)
        certificate = certificate.compose(paid)
        epsilon = max(definition.epsilon + answers.epsilon, certificate.epsilon_at(definition.delta))
        neighbours = (
            "two tables are neighbours when they have the same rows except one, that row's two positions "
            "are at "
            f"most {definition.distance:g} apart (Euclidean distance after public scaling), and its two "
            "answers "
            f"differ by at most {answers.distance:g}"
        )
        unit = f"{definition.unit}, together with a change of its answer by up to {answers.distance:g}"
        records.append(
            MechanismRecord(
                name="the answer of each row that is asked for, each row once",
                law="Laplace on a lattice",
                scale=answers.sd / 2**0.5,
                sensitivity=answers.distance,
                certificate=paid,
                releases=cap if cap is not None else rows,
                unit="in the answer's unit; a row is in one of the releases only",
            )
        )
    return Guarantee(
        definition=definition,
        observers=(
            Observer(who="the curator", sees="the whole table", protected=False),
            Observer(
                who="the modeler and everybody else",
                sees=(
                    "the released positions and the noised answers"
                    if answers is not None
                    else (
                        "the released positions (exact answers come on top, and this promise says "
                        "nothing of them)"
                    )
                ),
                protected=True,
            ),
        ),
        mechanisms=tuple(records),
        assumptions=(
            *(
                Assumption(text=text, enforced=True)
                for text in _enforced(status=status, witnessed=witnessed, budgeted=budgeted)
            ),
            *(
                Assumption(text=text, enforced=False)
                for text in _unchecked(witnessed=witnessed, budgeted=budgeted)
            ),
        ),
        theorem=_THEOREMS[mechanism.name],
        status=status,
        certificate=certificate,
        epsilon=epsilon,
        delta=definition.delta,
        unit=unit,
        neighbours=neighbours,
        notes=(
            _distance_note(mechanism, definition),
            _answers_note(answers, definition),
            _attacker_note(mechanism),
        ),
    )


def _enforced(*, status: Status, witnessed: bool, budgeted: bool) -> list[str]:
    texts = [
        "Rows are scaled by the declared public bounds only, and rows outside are refused or clipped.",
        "Noise is drawn once, is durable before the release leaves, and publishing again gives the same "
        "release.",
        "Each row is answered at most once, and an answer is durable before it is given.",
    ]
    if status == "enforced":
        texts.append(
            "Rows are shuffled by random numbers of the operating system before they get their numbers."
        )
        texts.append(
            "The noise is drawn from exactly the stated law, on integers, from secure random numbers."
        )
    if witnessed:
        texts.append("Only one copy of the curator's state goes on: the ledger refuses a second one.")
    if budgeted:
        texts.append("Another release of the same population is refused when its ledger account is empty.")
    return texts


def _unchecked(*, witnessed: bool, budgeted: bool) -> list[str]:
    texts = [
        "Bounds, columns, mechanism, distance and every other parameter were chosen without looking at the "
        "table.",
        "One person has one row. A person with k rows, or whose relatives' rows say the same, loses k times "
        "as much.",
        "The curator's directory and process are out of the attacker's reach, and so are response times.",
    ]
    if not budgeted:
        texts.append("The table is released once (name a ledger account to have further releases paid for).")
    if not witnessed:
        texts.append(
            "Only one copy of the curator's directory goes on (attach a ledger to have this checked)."
        )
    return texts


def _distance_note(mechanism: RowMechanism, definition: RowDP) -> str:
    if isinstance(mechanism, RandomisedResponse):
        return (
            "Distant rows: the loss is epsilon between any two positions in the public cube, near or far. "
            "What a "
            "cell hides is which cell, with the probability stated."
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
        "apart two "
        "positions are, the easier they are told apart from the release (" + "; ".join(rows) + "). "
        "The release hides where in its neighbourhood a row lies, not which neighbourhood it lies in."
    )


def _answers_note(answers: AnswerLaplace | None, definition: RowDP) -> str:
    if answers is None:
        return (
            "Answers are public and exact, and no part of this promise covers them: an answer f(x) tells "
            "about x by "
            "itself, and whoever knows the answer of a person's row from elsewhere finds the row by it, "
            "with its "
            "released position and the fact that it was asked for. Noise on the answers is the remedy "
            "(AnswerLaplace)."
        )
    return (
        f"Answers are noised: epsilon {answers.epsilon:g} of the total pays for two answers at most "
        f"{answers.distance:g} apart; answers further apart by a factor lose that factor more. For a row "
        "that moves by D "
        f"and whose answer changes by u the loss is at most {definition.epsilon:g} "
        f"D/{definition.distance:g} + "
        f"{answers.epsilon:g} u/{answers.distance:g} (Laplace rows). Rows that are never asked for lose "
        "nothing on "
        "their answers."
    )


def _attacker_note(mechanism: RowMechanism) -> str:
    return (
        "What an attacker may still learn: how many rows there are; the shape of the whole cloud of rows, "
        "since noise "
        f"averages out over many; for each row, a position with an error of about {mechanism.law.sd:.3g} a "
        "coordinate "
        "(public coordinates); and with an answer, or with knowledge about the person, which released row "
        "is likely "
        "that person's."
    )
