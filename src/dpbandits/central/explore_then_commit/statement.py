"""The statement that a trusted server makes about USCA, part by part."""

from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.privacy.certificates import Certificate, PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer, Status
from dpbandits.privacy.mixed import PureBeside

__all__ = ["usca_guarantee"]

ANSWER_THEOREM = (
    "For every context, the scores of actions are exact integer sums of each row's capped reward times a "
    "public influence, so replacing one user's rows changes them by a vector whose spread is at most the "
    "computed range; permute-and-flip at that range is epsilon-differentially private (McKenna, Sheldon "
    "2020; the argument for ranges stands in dpbandits.privacy.selection)."
)
RELEASE_THEOREM = (
    "The released vector is an exact integer sum of each row's capped reward times a public vector; "
    "replacing one user's rows moves it by at most the computed Euclidean distance, against which the noise "
    "is calibrated. Predictions from it are post-processing."
)
COMPOSITION = (
    "Answers, the release and the histogram, if any, add up by basic composition, and the server refuses "
    "what would go beyond the promise. Explored actions come from public coins and tell nothing; an answer "
    "to one user is computed from the others' data through these mechanisms only (billboard lemma)."
)
PHASES = (
    "Each phase releases the sums of its own explored rounds. A user of one round is in one release at most, "
    "so phases compose in parallel; over users who spread k rounds, squares of their shares add up to no "
    "more than k rounds in one phase would cost. Which rounds explore is decided by public coins; an action "
    "is computed from past releases, public coins and the user's own context only (billboard lemma)."
)


def usca_guarantee(
    privacy: JointDP,
    *,
    contexts: ContextLaw,
    status: Status,
    unit_ids: bool,
    witnessed: bool,
    charged: bool,
    answers: tuple[int, float] | None,
    release: MechanismRecord | None,
    release_epsilon: float,
    phased: bool = False,
) -> Guarantee:
    """The guarantee of a whole `ExploreThenCommit`, or `PhasedExploreThenCommit`, before any data.

    Args:
        privacy: the total promise.
        contexts: the law of contexts, which may have spent epsilon.
        status: of the noise.
        unit_ids: whether rows name their unit.
        witnessed: whether a ledger refuses a second copy of a saved state.
        charged: whether a ledger's account pays.
        answers: (how many at most, epsilon of each).
        release: the record of the release, where one is planned.
        release_epsilon: its share of the promise.
        phased: whether there is a release a phase, and decisions instead of answers.
    """
    records = []
    pure = privacy.epsilon - release_epsilon
    if contexts.epsilon > 0.0:
        records.append(
            MechanismRecord(
                name="counts of contexts per cell",
                law="discrete Laplace",
                scale=2.0 * contexts.rounds_per_user / contexts.epsilon,
                sensitivity=2.0 * contexts.rounds_per_user,
                certificate=PureDP(contexts.epsilon),
                releases=1,
                unit="in counts, summed over cells",
            )
        )
    if answers is not None:
        count, epsilon = answers
        records.append(
            MechanismRecord(
                name=f"answers, the best action at a context, epsilon {epsilon:g} each",
                law="permute-and-flip: exponential",
                scale=1.0 / epsilon,
                sensitivity=float(count),
                certificate=PureDP(count * epsilon),
                releases=count,
                unit="in ranges of an answer's scores, each computed exactly",
            )
        )
    certificate: Certificate
    if release is not None and release.certificate is not None:
        records.append(release)
        certificate = PureBeside(pure, release.certificate) if pure > 0.0 else release.certificate
    else:
        certificate = PureDP(privacy.epsilon)
    theorem = " ".join(
        [
            *([ANSWER_THEOREM] if answers is not None else []),
            *([RELEASE_THEOREM] if release is not None else []),
            PHASES if phased else COMPOSITION,
        ]
    )
    return Guarantee(
        definition=privacy,
        observers=(
            Observer(who="the server", sees="every context, action and reward", protected=False),
            Observer(
                who="everyone else, users and outsiders",
                sees="all others' actions, the releases and everything computed from them"
                if phased
                else "all answers, the released policy and everything computed from them",
                protected=True,
            ),
        ),
        mechanisms=tuple(records),
        assumptions=_assumptions(
            privacy,
            contexts,
            unit_ids=unit_ids,
            witnessed=witnessed,
            enforced=_phased_rules()
            if phased
            else _rules(answers=answers is not None, releases=release is not None, charged=charged),
            decides=phased or answers is not None,
        ),
        theorem=theorem,
        status="simulated" if contexts.status == "simulated" else status,
        certificate=certificate,
        notes=(
            contexts.describe() + " Where it is wrong, answers are worse; the promise holds all the same.",
            *([] if phased else [PROPENSITIES]),
        ),
    )


PROPENSITIES = (
    "Propensities, where rows have them, should be a public function of public strata: a wrong one makes "
    "answers worse. What a row can change is bounded whatever it says."
)


def _rules(*, answers: bool, releases: bool, charged: bool) -> list[str]:
    counted = "charged to the ledger before it is drawn" if charged else "counted before it leaves"
    return [
        *([f"Answers beyond the promise are refused; each is {counted}."] if answers else []),
        *(
            ["The release is drawn once and never again, also after a restart from a saved state."]
            if releases
            else []
        ),
    ]


def _phased_rules() -> list[str]:
    return [
        "Every phase is released once and never again, also after a restart from a saved state.",
        "A round belongs to the phase of its ask; a reward that comes after that phase's release is dropped, "
        "and a missing one contributes zero and shifts nobody.",
    ]


def _assumptions(
    privacy: JointDP,
    contexts: ContextLaw,
    *,
    unit_ids: bool,
    witnessed: bool,
    enforced: list[str],
    decides: bool,
) -> tuple[Assumption, ...]:
    rounds = "1 row" if privacy.rounds_per_user == 1 else f"{privacy.rounds_per_user} rows"
    checked = [
        "Every reward is clipped to the public cap of its cell and turned into an integer before it is added "
        "up; all sensitivities are computed on these integers.",
        *enforced,
    ]
    unchecked = [
        "Kernel, actions, reward range, horizon and every other parameter were chosen without looking at the "
        "private data.",
        "The number of rows is public: neighbours have equally many, and all of them are accepted.",
        *(
            [
                "An action reaches the user whose context it is for; that user's own context is not "
                "protected from whoever sees it."
            ]
            if decides
            else []
        ),
        "The server, its memory, its saved state and the operating system's random numbers are out of the "
        "attacker's reach, and so are response times.",
    ]
    if contexts.source == "private histogram":
        held = f"The histogram of contexts counted no unit with more than {contexts.rounds_per_user} row(s)"
        (checked if contexts.counted_units else unchecked).append(
            f"{held}: more are refused." if contexts.counted_units else f"{held} (it was given no unit ids)."
        )
    else:
        unchecked.append("The law of contexts does not come from the protected people.")
    bound = f"No unit has more than {rounds}"
    (checked if unit_ids else unchecked).append(
        f"{bound}: more are refused." if unit_ids else f"{bound} (rows carry no unit id)."
    )
    copies = "Only one copy of a saved state goes on"
    (checked if witnessed else unchecked).append(
        f"{copies}: the ledger refuses a second one."
        if witnessed
        else f"{copies} (attach a ledger to have this checked)."
    )
    return (
        *(Assumption(text=text, enforced=True) for text in checked),
        *(Assumption(text=text, enforced=False) for text in unchecked),
    )
