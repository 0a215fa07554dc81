"""Statement of the guarantee of a private evaluation of published policies."""

from dataclasses import replace
from typing import NamedTuple

from dpbandits.central.marginals.statement import AND_ENGINE, ENGINE
from dpbandits.central.statement import (
    CELLS_AS_THEY_ARE,
    DRAWN_ONCE,
    KNOWN_PROPENSITIES,
    NOTHING_ELSE,
    PURE_NOTE,
)
from dpbandits.privacy import sentences
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import JointDP, counted
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.moments import MomentRelease
from dpbandits.privacy.sentences import enforced, enforced_if, protected_from, shown_to, unchecked

__all__ = ["Evaluated", "evaluation_guarantee"]

THEOREM = (
    "A person adds bounded integers to sums, sums of squares and a count, and changes no other person's "
    "integers. Replacing the person changes them by at most the stated distance, to which the noise is "
    "calibrated (derivation: dpbandits.privacy.moments). Values and intervals are computed from the release."
)
SIMULATED = "With noise from a secret source this would hold: "
OTHER_PEOPLE = (
    "The loss from other releases about the same people: if a policy was learned from people of this log, "
    "both losses add up."
)
FRESH = unchecked(
    "fresh log",
    "No person of this log is among those from whom the policies were learned. Otherwise values are too "
    "high, and the promises of both releases add up: open an account for both.",
)


class Evaluated(NamedTuple):
    """Facts about an evaluation on which its statement depends."""

    user_ids: bool  # whether rows name their person
    weighted: bool  # whether rows have propensities
    policies: int  # number of policies
    largest_weight: float  # public bound of inverse propensities
    engine: bool = False  # whether an engine adds up the rows


def evaluation_guarantee(privacy: JointDP, mechanism: MomentRelease, facts: Evaluated) -> Guarantee:
    """Return the guarantee of one release of values.

    Args:
        privacy: Promise.
        mechanism: Mechanism of the release.
        facts: Facts about the evaluation.
    """
    certificate, status = mechanism.certificate, mechanism.noise.status
    sentences.check_noise_status(status)
    pure = isinstance(certificate, PureDP)
    most = counted(privacy.rounds_per_user, "row")
    bound = enforced_if(
        facts.user_ids,
        "contribution bound",
        "",
        how=f"No user id contributes more than {most}, which an order with a secret key chooses from the "
        "user's own. A person's numbers are means over them. A row without a readable id is dropped.",
        otherwise="No user has more than 1 row (rows carry no user id).",
    )
    keeps = [
        enforced(
            "bounded contributions",
            "A person's numbers are cut at public bounds and turned into integers before they are added up. "
            "They depend on that person's rows, the published policies and public parameters: every cell of "
            "a table is read by itself. A row with a cell that cannot be read counts as no row.",
        ),
        DRAWN_ONCE,
        bound,
    ]
    trusts = [
        FRESH,
        *([KNOWN_PROPENSITIES] if facts.weighted else []),
        unchecked(
            "public parameters",
            "No parameter was chosen by looking at private data. This means columns, arms, reward range, the "
            "policies and their number, the arm to compare with, method, bound of weights and law of noise.",
        ),
        CELLS_AS_THEY_ARE,
        *(
            [
                unchecked(
                    "one id per person",
                    "All rows of one person, and no others, carry one id. A person has no second id, and "
                    "nobody else uses it.",
                )
            ]
            if facts.user_ids
            else []
        ),
        *([ENGINE] if facts.engine else []),
        NOTHING_ELSE,
        sentences.SERVER_OUT_OF_REACH,
        sentences.one_copy(witnessed=False),
    ]
    limit, numbers = f"{facts.largest_weight:g}", 1 + 2 * facts.policies
    several = (
        f"{numbers} numbers share this noise: the arm's value, and each policy's value and difference. Its "
        f"deviation grows in proportion to {'their number' if pure else 'the square root of their number'}."
    )
    theorem = sentences.reason(THEOREM, certificate)
    return Guarantee(
        definition=replace(privacy, delta=0.0, user_ids=facts.user_ids)
        if pure
        else replace(privacy, user_ids=facts.user_ids),
        observers=(
            shown_to(
                f"the server{AND_ENGINE if facts.engine else ''}", "every context, arm, propensity and reward"
            ),
            protected_from("everybody else", "the released values and intervals"),
        ),
        mechanisms=(mechanism.record("sums, sums of squares and number of people, as one vector"),),
        assumptions=sentences.in_order((*keeps, *trusts)),
        theorem=theorem if status == "enforced" else SIMULATED + theorem,
        status=status,
        certificate=certificate,
        limits=(OTHER_PEOPLE,),
        notes=(
            *([PURE_NOTE.format(delta=privacy.delta)] if pure and privacy.delta else []),
            f"Inverse propensities above {limit} count as {limit}. Rarer arms then count less than they "
            "should, and the values hide what they earn.",
            several,
        ),
    )
