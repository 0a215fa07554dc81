"""Sentences that statements of several trust models share, and helpers that put a statement together.

A statement is a `Guarantee` built from parts: observers (`shown_to`, `protected_from`) and assumptions
(`enforced`, `unchecked`, `enforced_if`), each with a short name and a text. Sentences that only one trust
model uses are in the `statement` module of that trust model. A privacy officer signs these sentences, so
each must be true in every statement that uses it.
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
    "enforced",
    "enforced_if",
    "in_order",
    "one_copy",
    "protected_from",
    "reason",
    "shown_to",
    "unchecked",
]


def enforced(name: str, text: str) -> Assumption:
    """Return an assumption that the software enforces."""
    return Assumption(name=name, text=text, enforced=True)


def unchecked(name: str, text: str) -> Assumption:
    """Return an assumption that the software does not check and the operator must make hold."""
    return Assumption(name=name, text=text, enforced=False)


def enforced_if(
    checked: bool,  # noqa: FBT001
    name: str,
    text: str,
    *,
    how: str,
    otherwise: str,
) -> Assumption:
    """Return an assumption that the software enforces only in some settings.

    Args:
        checked: True if it is enforced in the present setting.
        name: short name of the assumption.
        text: beginning of the text.
        how: end of the text if it is enforced.
        otherwise: end of the text if it is not.
    """
    return Assumption(name=name, text=text + (how if checked else otherwise), enforced=checked)


SERVER_OUT_OF_REACH = unchecked(
    "server security",
    "No attacker reaches the server, its memory, state, randomness or response times. State "
    "means the saved state, and randomness the random numbers of the operating system.",
)

LEDGER_CHECKS_COPIES = ". Attach a ledger before the first save to have this checked."

LEDGER_IS_ONE = unchecked(
    "one ledger",
    "No older copy replaces the ledger, and no second copy is used. A ledger with an external "
    "counter (`Witness`) refuses both.",
)
"""Assumption to add to a statement wherever a ledger enforces another assumption."""

REPORT_STORED = enforced(
    "stored reports", "A report is stored before it is sent, and a retry sends the same bytes."
)

NEAR_GAUSSIAN = (
    " The scale rests on a closer certificate: the draws that one protected unit can touch are, all "
    "together, within the stated total variation of rounded real-valued Gaussian noise{which}. Its delta "
    "plus (1 + e^epsilon) times that distance is at most the promised delta."
)
"""Text that `reason` adds if the certificate of a release is `NearGaussianDP`."""


def reason(theorem: str, certificate: Certificate | None, *, which: str = "") -> str:
    """Return the text on why a promise holds: the theorem, and a further text for `NearGaussianDP`.

    Args:
        theorem: text on why the noise keeps the promise.
        certificate: certificate of the release.
        which: words that follow "rounded real-valued Gaussian noise" in the further text.
    """
    if not isinstance(certificate, NearGaussianDP):
        return theorem
    return theorem + NEAR_GAUSSIAN.format(which=which)


def shown_to(who: str, sees: str) -> Observer:
    """Return an observer whom the promise does not cover."""
    return Observer(who=who, sees=sees, protected=False)


def protected_from(who: str, sees: str) -> Observer:
    """Return an observer whom the promise covers."""
    return Observer(who=who, sees=sees, protected=True)


def one_copy(*, witnessed: bool) -> Assumption:
    """Return the assumption that nobody continues a saved state twice; it is enforced if `witnessed` by a
    ledger.
    """
    return enforced_if(
        witnessed,
        "single copy",
        "Only one copy of a saved state is continued",
        how=": the ledger refuses a second one.",
        otherwise=LEDGER_CHECKS_COPIES,
    )


def in_order(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Return the assumptions with the enforced ones first, otherwise in the given order."""
    return tuple(sorted(assumptions, key=attrgetter("enforced"), reverse=True))


def check_noise_status(status: Status) -> None:
    """Raise InvalidParameter for a status that no noise source has."""
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(f"status is {status!r}: a release is enforced or simulated")
