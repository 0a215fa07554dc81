"""Statement of what one report promises, of a bin and of a Gaussian-process device."""

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
from dpbandits.privacy.guarantee import LOG_RATIOS, Assumption, Guarantee, MechanismRecord, Status
from dpbandits.privacy.prefix_sums import BlockRelease
from dpbandits.privacy.release_terms import are_weaker
from dpbandits.privacy.sentences import REPORT_STORED, kept, protected_from, reason, shown_to, trusted

__all__ = ["gp_report_guarantee", "report_guarantee", "weakest"]

_NAMES = {"auto": "signed ternary or k-ary"}

_ONCE = (
    "For one choice the device charges its account once, then draws the report once, then stores it. Other "
    "threads wait, and a forked process is refused."
)
_BLIND = (
    "Refusals depend on the spec, on what was published and on the device's budget alone and come before a "
    "context is read. A number or date outside its bounds is clipped. A category that is not listed cannot "
    "be read, unless its column has `unknown`."
)
_MISSING = (
    "What cannot be read or was not available, and a reward that never came, is replaced by a fixed input "
    "that does not depend on the user, under the same noise. An earlier choice is reported before the next."
)
_BOUND = "The device's account and outbox are bound to the full digest of this spec."

_OWN_COUNTS = (
    "after the report it keeps counts of what was clipped, missing or not available, and nothing else of them"
)
_OWN_STORE = (
    "The device's ledger and outbox are durable, and no older copy of them is put back: after losing them it "
    "reports anew with a fresh budget."
)
_NOTHING_ELSE = (
    "Nothing else that depends on the user's data leaves the device, unless its promise is added to "
    "this one. "
    "(Each spec has an account of its own: nobody adds up what reports under several specs lose.)"
)
_ON_TIME = (
    "The app reports every choice by the spec's deadline, with a reward or without, and when a report is "
    "sent does not depend on context or reward: one that leaves as soon as a reward comes tells that it "
    "came. (A report can wait in the outbox until the deadline.) Nobody measures how long the device "
    "computes."
)
_AUTHENTIC = (
    "Reports come from devices of the spec. Without a `ReportKey` nothing proves this, and forged reports "
    "distort what is learned. Nobody's privacy depends on it."
)


def weakest(
    spec: Contract[Any], privacy: Any, released: Iterable[Mapping[str, Any]], *, status: Status = "enforced"
) -> Guarantee:
    """Return the weakest guarantee of one more report and of all that were made on the terms of a log.

    Args:
        spec: the contract.
        privacy: the device's own promise; None: the contract's.
        released: entries of a `ReleaseLog`.
        status: what else is known of the noise in what was released.

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


def _assumptions(exact: str, lost: str, fixed: str) -> tuple[Assumption, ...]:
    """Return the assumptions of reports of both kinds.

    Args:
        exact: what the software sees to before or in the noise.
        lost: what k reports lose at most.
        fixed: what was fixed without looking at the user's data.
    """
    return (
        *kept(
            exact,
            REPORT_STORED,
            "Another report is drawn only when the device's own ledger has budget for it; k reports "
            f"lose at most {lost} together.",
            _ONCE,
            _BLIND,
            _MISSING,
            _BOUND,
        ),
        *trusted(
            _OWN_STORE,
            "The operating system's random numbers on the device are unpredictable.",
            fixed,
            _NOTHING_ELSE,
            _ON_TIME,
            _AUTHENTIC,
        ),
    )


def _weight(people: str) -> str:
    """Return the sentence on how far one forged report can move the sums."""
    return f"One forged report can move the server's sums as far as {people}."


def _people(n: float) -> str:
    """Rounded up, so that the sentence stays true."""
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
    """The guarantee of one report under a `Spec`.

    Args:
        mechanism: name of the report.
        epsilon: that the report keeps.
        exact: the largest epsilon that a version's mechanism has, at most `epsilon`.
        weights: of every class of epsilon, how many honest people a forged report weighs in one cell, and
            over all.
        most: bins at most, or parts of a question.
        asks: whether versions are questions.
        chooser: who chooses among the arms.
        classes: whether a report names a class of epsilon.
    """
    hidden, notes = "the bin of the context, the arm and the reward", []
    if asks:
        hidden = "whatever a version asks of the context and the reward"
        notes.append(
            "The server assigns arms, and which arm a cell of the grid gives is public: whoever sees the "
            "action that is taken learns that the context lies in one of the cells that give it, or that the "
            "cell's own arm was not available, whatever the report hides."
        )
        notes.append(
            "A server may write what a version asks after seeing every earlier report, this user's included: "
            "to whoever does not see the action, k reports tell at most k epsilon about their user, whatever "
            "was asked."
        )
    elif chooser == "server":
        hidden = "the bin of the context and the reward"
        notes.append(
            "The server assigns arms, and which arm a bin pulls is public: whoever sees the action that is "
            "taken learns that the context lies in one of the bins that pull it, or that the bin's own arm "
            "was not available, whatever the report hides."
        )
    else:
        notes.append(
            "The device draws the arm, among those that are available, with its bin's probabilities, which "
            "are public; or the arm was pulled elsewhere (SourceClient.observe). Whoever sees the action "
            "that is taken learns of the context what these choices tell, whatever the report hides."
        )
    # a forger takes the class that weighs most
    in_one, over_all = (max(kind) for kind in zip(*weights, strict=True))
    where = f"{_people(in_one)} in any one bin and arm, where there are {most} bins, the most"
    if asks:
        where = f"{_people(in_one)} in any one of the {most} part(s) of a question"
    notes.append(_weight(f"{_people(over_all)} honest people do on average, {where}"))
    if classes:
        notes.append(
            "A report names its class of epsilon in the open: one of the spec's, each kept as it says."
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
        observers=(
            protected_from("the server", "the report's bytes"),
            protected_from("anyone on the wire or with access to the server", "the same"),
            shown_to("the user's own device", f"context, arm and reward; {_OWN_COUNTS}"),
        ),
        mechanisms=(record,),
        assumptions=_assumptions(
            "All that is drawn has rational probabilities, made exactly of random 64-bit words, and the "
            "ratio claimed is theirs.",
            "k epsilon",
            "Spec, epsilon and taking part were fixed without looking at context or reward.",
        ),
        theorem="Any two inputs give any report with probabilities within exp(epsilon): the largest ratio "
        "over inputs and reports follows from the rational probabilities in use, and is rounded up. "
        "Whatever server and operator compute from reports is post-processing.",
        status="enforced",
        certificate=PureDP(epsilon=epsilon),
        notes=tuple(notes),
    )


def gp_report_guarantee(
    privacy: JointDP, release: BlockRelease, *, weight: float, status: Status
) -> Guarantee:
    """The guarantee of one report whose only contact with raw data is `release`; `weight` is its most."""
    sums = "z phi" if release.mechanism.vector_only else "phi phi^T and z phi"
    return Guarantee(
        definition=privacy,
        observers=(
            protected_from("the server", "the report's bytes"),
            protected_from("everyone else", "policies computed from reports"),
            shown_to("the user's own device", f"decision set, choice and reward; {_OWN_COUNTS}"),
        ),
        mechanisms=(replace(release.record(), name=f"one report: {sums} of its one choice"),),
        assumptions=_assumptions(
            "Features and reward are bounded and turned into integers before noise is added.",
            "k epsilon and k delta",
            "Spec, and taking part, were fixed without looking at the user's data.",
        ),
        theorem=reason(
            "One Gaussian release of an integer vector whose largest move under any two data of the user is "
            "bounded (dpbandits.privacy.gram_vector): the report is private whatever the server does; "
            "choices of other users are post-processing of reports. This is local differential privacy "
            "with delta, which Dubey2021 calls local joint differential privacy.",
            release.certificate,
        ),
        status=status,
        certificate=release.certificate,
        notes=(
            "The server sees only the report, so the promise also holds against the server.",
            LocalDP.left_out[0],  # joint DP does not say it
            _weight(f"{_people(weight)} of the largest contributions of honest people"),
        ),
    )
