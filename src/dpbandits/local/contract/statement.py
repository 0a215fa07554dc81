"""Guarantees of one report of a device, for bins and for Gaussian processes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpbandits._reading import reading
from dpbandits.errors import CorruptState
from dpbandits.local.contract.reports import Contract
from dpbandits.privacy import definitions
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import JointDP, LocalDP
from dpbandits.privacy.guarantee import LOG_RATIOS, Assumption, Guarantee, MechanismRecord, Observer, Status
from dpbandits.privacy.prefix_sums import BlockRelease
from dpbandits.privacy.release_terms import are_weaker
from dpbandits.privacy.sentences import (
    REPORT_STORED,
    enforced,
    protected_from,
    reason,
    shown_to,
    unchecked,
)

__all__ = ["gp_report_guarantee", "readout_guarantee", "report_guarantee", "weakest"]

_NAMES = {"auto": "signed ternary or k-ary"}

_ONCE = enforced(
    "one report per choice",
    "For one choice the device charges its account once, then draws the report once, then stores it. Other "
    "threads wait, and a forked process is refused.",
)
_BLIND = enforced(
    "data-independent refusals",
    "Refusals depend on the spec, on published versions and on the device's budget alone and come before a "
    "context is read. A number or date outside its bounds is clipped. A category that is not listed cannot "
    "be read, unless its column has `unknown`.",
)
_MISSING = enforced(
    "missing inputs replaced",
    "An input that cannot be read or was not available, and a reward that never came, is replaced by a fixed "
    "input that does not depend on the user, under the same noise. An earlier choice is reported before the "
    "next.",
)
_EXACT = enforced(
    "exact sampling",
    "All draws have rational probabilities, made exactly from random 64-bit words, and the claimed ratio is "
    "theirs.",
)
_BOUND = enforced(
    "bound to the spec", "The device's account and outbox are bound to the full digest of this spec."
)

_OWN_COUNTS = (
    "after the report it keeps counts of clipped, missing and unavailable inputs, and nothing else of them"
)
_OWN_STORE = unchecked(
    "device storage",
    "The device's ledger and outbox are durable, and no older copy of them is restored. After losing them it "
    "reports anew with a fresh budget.",
)
_RANDOM = unchecked(
    "device randomness", "The operating system's random numbers on the device are unpredictable."
)
_NOTHING_ELSE = unchecked(
    "no other data",
    "Nothing else that depends on the user's data leaves the device, unless its promise is added to this "
    "one. Each spec has an account of its own: nobody adds up what reports under several specs lose.",
)
_ON_TIME = unchecked(
    "reporting times",
    "The app reports every choice by the spec's deadline, and the time of a report does not depend on "
    "context or reward. It reports with a reward or without: a report that is sent as soon as a reward comes "
    "tells that it came. (A report can wait in the outbox until the deadline.)",
)
_COMPUTING = unchecked("computing times", "Nobody measures how long the device computes.")
_AUTHENTIC = unchecked(
    "authentic reports",
    "Reports come from devices of the spec, on which accuracy depends, not privacy. Without a `ReportKey` "
    "nothing proves this, and forged reports distort what is learned.",
)
_SEVERAL = "The promise is for one report: k reports lose at most {lost} together."


def weakest(
    spec: Contract[Any], privacy: Any, released: Iterable[Mapping[str, Any]], *, status: Status = "enforced"
) -> Guarantee:
    """Return the weakest guarantee of one more report and of all earlier reports with the terms of a log.

    Args:
        spec: the contract.
        privacy: the device's own guarantee; None for the contract's.
        released: entries of a `ReleaseLog`.
        status: status of the noise in earlier reports, if it is known from elsewhere.

    Raises:
        CorruptState: an entry cannot be read, or promises less than the contract.
    """
    protocol = spec.protocol
    promises, simulated = [protocol.own(privacy)], status != "enforced"
    for entry in released:
        with reading("an entry of a device's log of releases", CorruptState):
            promise = protocol.own(definitions.from_config(entry["privacy"]))
            weaker = are_weaker(entry, protocol.terms(promise), privacy=promise)
            if entry["status"] == protocol.status and weaker:
                raise CorruptState(
                    "reports were made on weaker terms than the spec promises: it and the log of releases do "
                    "not belong together"
                )
            simulated |= entry["status"] != "enforced"
        promises.append(promise)
    guarantee = protocol.statement(max(promises, key=lambda promise: promise.epsilon))
    return replace(guarantee, status="simulated") if simulated else guarantee


def _observers(told: str) -> tuple[Observer, ...]:
    """Return who sees what of a report; `told` is the word for what the device is told, such as "reward"."""
    return (
        protected_from("the server", "the report's bytes"),
        protected_from("anyone on the wire or with access to the server", "the same"),
        shown_to("the user's own device", f"context, arm and {told}; {_OWN_COUNTS}"),
    )


def _assumptions(
    exact: Assumption, lost: str, fixed: str, missing: Assumption = _MISSING
) -> tuple[Assumption, ...]:
    """Return the assumptions on which guarantees of all kinds of report rest.

    Args:
        exact: property of the inputs or the noise that the software enforces.
        lost: largest loss of k reports.
        fixed: sentence on the parameters that were fixed without looking at the user's data.
        missing: rule that replaces missing inputs.
    """
    budget = enforced(
        "device budget",
        "Another report is drawn only when the device's own ledger has budget for it; k reports "
        f"lose at most {lost} together.",
    )
    kept = (exact, REPORT_STORED, budget, _ONCE, _BLIND, missing, _BOUND)
    parameters = unchecked("public parameters", fixed)
    return (*kept, _OWN_STORE, _RANDOM, parameters, _NOTHING_ELSE, _ON_TIME, _COMPUTING, _AUTHENTIC)


def _weight(people: str) -> str:
    """Return the sentence that says how much one forged report can change the server's sums."""
    return f"One forged report can move the server's sums as far as {people}."


def _people(n: float) -> str:
    """Return a number of people as a text, rounded up so that a sentence with "at most" stays true."""
    return f"{math.ceil(n):,}" if n >= 100.0 else f"{math.ceil(10.0 * n) / 10.0:g}"


def report_guarantee(
    *,
    mechanism: str,
    epsilon: float,
    exact: float,
    weights: Sequence[tuple[float, float]],
    most: int,
    asks: bool,
    chooser: str,
    classes: bool,
) -> Guarantee:
    """Return the guarantee of one report under a `Spec`.

    Args:
        mechanism: name of the report's mechanism.
        epsilon: promised epsilon of the report.
        exact: largest epsilon of a version's mechanism, at most `epsilon`.
        weights: for every class of epsilon, the number of honest people whose reports have the effect of one
            forged report, in one cell and over all cells.
        most: largest number of bins, or of parts of a question.
        asks: True if versions are questions.
        chooser: "server" or "client", which chooses among the arms.
        classes: True if a report names a class of epsilon.
    """
    hidden, notes = "the bin of the context, the arm and the reward", []
    if asks:
        hidden = "everything that a version asks about the context and the reward"
        notes.append(
            "The server assigns arms, and the arm of each cell of the grid is public. Whoever sees the "
            "action learns that the context lies in one of the cells with this arm, or that the cell's own "
            "arm was not available, whatever the report hides."
        )
        notes.append(
            "A server may write the questions of a version after seeing every earlier report, this user's "
            "included: to whoever does not see the action, k reports reveal at most k epsilon about their "
            "user, whatever was asked."
        )
    elif chooser == "server":
        hidden = "the bin of the context and the reward"
        notes.append(
            "The server assigns arms, and the arm of each bin is public. Whoever sees the action learns that "
            "the context lies in one of the bins with this arm, or that the bin's own arm was not available, "
            "whatever the report hides."
        )
    else:
        notes.append(
            "The device draws the arm, among those that are available, with its bin's probabilities, which "
            "are public; or the arm was pulled elsewhere (SourceClient.observe). Whoever sees the action "
            "learns about the context as much as these choices reveal, whatever the report hides."
        )
    # a forger takes the class that weighs most
    in_one, over_all = (max(kind) for kind in zip(*weights, strict=True))
    where = f"{_people(in_one)} in any one bin and arm, where there are {most} bins, the most"
    if asks:
        where = f"{_people(in_one)} in any one of the {most} part(s) of a question"
    notes.append(_weight(f"{_people(over_all)} honest people do on average, {where}"))
    if classes:
        notes.append(
            "A report names its class of epsilon in the open: one of the spec's, each satisfied as it says."
        )
    record = MechanismRecord(
        name=f"one report ({mechanism})",
        law=f"{_NAMES.get(mechanism, mechanism)} randomised response over (cell, sign) that hides {hidden}",
        scale=epsilon,
        sensitivity=epsilon,
        certificate=PureDP(epsilon=exact),
        releases=1,
        unit=LOG_RATIOS,
    )
    return Guarantee(
        definition=LocalDP(epsilon=epsilon),
        observers=_observers("reward"),
        mechanisms=(record,),
        assumptions=_assumptions(
            _EXACT,
            "k epsilon",
            "Spec, epsilon and taking part were fixed without looking at context or reward.",
        ),
        theorem="Any two inputs give any report with probabilities within exp(epsilon): the largest ratio "
        "over inputs and reports follows from the rational probabilities in use, and is rounded up. "
        "Everything that server and operator compute from reports is post-processing.",
        status="enforced",
        certificate=PureDP(epsilon=epsilon),
        limits=(
            _SEVERAL.format(lost="k epsilon"),
            "Whoever sees the action may learn about the context: the rule that gives arms is public.",
            *(["A report names its class of epsilon in the open."] if classes else []),
        ),
        notes=tuple(notes),
    )


def readout_guarantee(
    *, epsilon: float, exact: float, share: float, missing: float, weight: float
) -> Guarantee:
    """Return the guarantee of the one report under a `ReadoutSpec`.

    Args:
        epsilon: promised epsilon of the report.
        exact: exact epsilon of randomised response, at most `epsilon`.
        share: public share of devices in the control group.
        missing: outcome that stands for a missing one.
        weight: number of honest people whose reports have the effect of one forged report.
    """
    record = MechanismRecord(
        name="one report of a readout",
        law="randomised response over one bit, which is 1 with probability equal to the outcome's share of "
        "its range; the group is not hidden",
        scale=epsilon,
        sensitivity=epsilon,
        certificate=PureDP(epsilon=exact),
        releases=1,
        unit=LOG_RATIOS,
    )
    return Guarantee(
        definition=LocalDP(epsilon=epsilon),
        observers=_observers("outcome"),
        mechanisms=(record,),
        assumptions=_assumptions(
            _EXACT,
            "k epsilon",
            "Spec, epsilon, policy and taking part were fixed without looking at the user's data.",
            enforced(
                "missing outcomes replaced",
                f"An outcome that never came or cannot be read counts as {missing:g} before the noise. So "
                "the report hides whether there was one. The context and whether an arm was available do not "
                "enter the report.",
            ),
        ),
        theorem="The group is drawn by a coin that depends on no data. Given the group, any two outcomes, "
        "missing or not, give each report with probabilities within exp(epsilon). This is the exact ratio of "
        "the two rational probabilities of randomised response, rounded up. Everything that the server "
        "computes from reports is post-processing.",
        status="enforced",
        certificate=PureDP(epsilon=epsilon),
        limits=(
            "A device sends one report. Reports under other specs, that of the policy included, lose their "
            "own epsilon in addition.",
            "Whoever sees the action may learn about the context: the rule that gives arms is public.",
        ),
        notes=(
            f"A device is in the control group with probability {share:g}. Its report names the group in the "
            "open.",
            _weight(f"{_people(weight)} honest people of its group do on average"),
        ),
    )


def gp_report_guarantee(
    privacy: JointDP, release: BlockRelease, *, width: float, weight: float, status: Status
) -> Guarantee:
    """Return the guarantee of one report under a `GPSpec`; `release` is its only contact with raw data.

    Args:
        privacy: the promised guarantee.
        release: the calibrated mechanism, of one block.
        width: width of the reward range.
        weight: largest number of honest people whose reports have the effect of one forged report.
        status: status of the noise source.
    """
    sums = "centred reward times features"
    sums = sums if release.mechanism.vector_only else f"outer product of features, and {sums},"
    return Guarantee(
        definition=privacy,
        observers=(
            protected_from("the server", "the report's bytes"),
            protected_from("everyone else", "policies computed from reports"),
            shown_to("the user's own device", f"decision set, choice and reward; {_OWN_COUNTS}"),
        ),
        mechanisms=(replace(release.record(width=width), name=f"one report: {sums} of its one choice"),),
        assumptions=_assumptions(
            enforced(
                "bounded contributions",
                "Features and reward are bounded and turned into integers before noise is added.",
            ),
            "k epsilon and k delta",
            "Spec, and taking part, were fixed without looking at the user's data.",
        ),
        theorem=reason(
            "One Gaussian release of an integer vector whose largest change between any two data of the user "
            "is bounded (dpbandits.privacy.gram_vector): the report is private whatever the server does; "
            "choices of other users are post-processing of reports. This is local differential privacy "
            "with delta, which Dubey2021 calls local joint differential privacy.",
            release.certificate,
        ),
        status=status,
        certificate=release.certificate,
        limits=(
            _SEVERAL.format(lost="k epsilon and k delta"),
            LocalDP.left_out[0],
        ),  # joint DP lacks the second
        notes=(
            "The server sees only the report, so the promise also holds against the server.",
            _weight(f"{_people(weight)} of the largest contributions of honest people"),
        ),
    )
