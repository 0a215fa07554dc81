"""What the statements of several rooms say: one wording for each thing, and how a statement is put together.

A statement is a `Guarantee` built from parts: who sees what (`shown_to`, `protected_from`), what the software
keeps (`kept`), what somebody must see to (`trusted`), what is one or the other (`kept_if`), and why it holds.
What only one room says stands in that room's `statement` file. A change of a sentence here changes what a
privacy officer signs: it must be true of every statement that uses it.
"""

from collections.abc import Iterable
from operator import attrgetter

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import Certificate, NearGaussianDP
from dpbandits.privacy.guarantee import Assumption, Observer, Status

__all__ = [
    "LEDGER_CHECKS_COPIES",
    "LEDGER_IS_ONE",
    "NEAR_GAUSSIAN",
    "REPORT_STORED",
    "SERVER_OUT_OF_REACH",
    "check_noise_status",
    "in_order",
    "kept",
    "kept_if",
    "one_copy",
    "protected_from",
    "reason",
    "shown_to",
    "trusted",
]

SERVER_OUT_OF_REACH = (
    "The server, its memory, its saved state and the operating system's random numbers are out of the "
    "attacker's reach, and so are response times."
)

LEDGER_CHECKS_COPIES = ". Attach a ledger before the first save to have this checked."

LEDGER_IS_ONE = (
    "There is one ledger: no older copy takes its place, and no second copy is used beside it. (A ledger "
    "with a witness elsewhere refuses both.)"
)
"""Belongs beside all that a ledger sees to."""

REPORT_STORED = "The report is stored before it is sent, and a retry sends the same bytes."

NEAR_GAUSSIAN = (
    " The scale rests on a closer certificate: the draws that one protected unit can touch are, all "
    "together, within the stated total variation of rounded real-valued Gaussian noise{which}. Its delta "
    "plus (1 + e^epsilon) times that distance is at most the promised delta."
)
"""Follows the reason why a release holds where its certificate is `NearGaussianDP`; see `reason`."""


def reason(theorem: str, certificate: Certificate | None, *, which: str = "") -> str:
    """Why a promise holds: the theorem, and the closer certificate where the scale rests on it.

    Args:
        theorem: why the noise keeps the promise at all.
        certificate: of the release.
        which: continues "rounded real-valued Gaussian noise".
    """
    if not isinstance(certificate, NearGaussianDP):
        return theorem
    return theorem + NEAR_GAUSSIAN.format(which=which)


def shown_to(who: str, sees: str) -> Observer:
    """Somebody who sees something that the promise does not cover."""
    return Observer(who=who, sees=sees, protected=False)


def protected_from(who: str, sees: str) -> Observer:
    """Somebody against whom the promise holds."""
    return Observer(who=who, sees=sees, protected=True)


def kept(*texts: str) -> tuple[Assumption, ...]:
    """What the software enforces."""
    return tuple(Assumption(text=text, enforced=True) for text in texts)


def trusted(*texts: str) -> tuple[Assumption, ...]:
    """What nobody checks and the operator must see to."""
    return tuple(Assumption(text=text, enforced=False) for text in texts)


def kept_if(checked: bool, text: str, *, how: str, otherwise: str) -> Assumption:  # noqa: FBT001
    """One fact that is enforced in some settings: `how` ends the sentence there, `otherwise` elsewhere."""
    return Assumption(text=text + (how if checked else otherwise), enforced=checked)


def one_copy(*, witnessed: bool) -> Assumption:
    """That a saved state is not continued twice: the ledger sees to it, or nobody."""
    return kept_if(
        witnessed,
        "Only one copy of a saved state is continued",
        how=": the ledger refuses a second one.",
        otherwise=LEDGER_CHECKS_COPIES,
    )


def in_order(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """The enforced ones first, else as they come."""
    return tuple(sorted(assumptions, key=attrgetter("enforced"), reverse=True))


def check_noise_status(status: Status) -> None:
    """Refuse a status that no noise source has."""
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(f"status is {status!r}: a release is enforced or simulated")
