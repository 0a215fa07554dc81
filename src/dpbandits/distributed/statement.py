"""Guarantees of everything that one user's device reports to two aggregators."""

from dataclasses import replace

from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import counted
from dpbandits.privacy.guarantee import Guarantee, Status
from dpbandits.privacy.histogram import ReportHistogram
from dpbandits.privacy.sentences import (
    SERVER_OUT_OF_REACH,
    enforced,
    in_order,
    protected_from,
    shown_to,
    unchecked,
)

__all__ = ["in_one_process", "reports_guarantee"]

_ASSUMPTIONS = (
    enforced(
        "device budget",
        "The device's account is charged before a report is made, and refuses more reports than the bound.",
    ),
    enforced(
        "one report per choice",
        "For one choice the device charges its account once and makes one report. Other threads wait, and a "
        "forked process is refused.",
    ),
    enforced(
        "data-independent refusals",
        "Refusals depend on the spec, on published versions, on the order of calls and on the device's "
        "budget alone. A call refuses before it reads context or reward.",
    ),
    enforced(
        "missing inputs replaced",
        "A context or reward that is missing, cannot be read or was not available is reported in a bucket of "
        "its own, under the same noise.",
    ),
    unchecked(
        "two aggregators",
        "The two aggregators are run by organisations that do not work together, and one of them is honest. "
        "It adds each report at most once, and shows nobody its shares or its noise.",
    ),
    unchecked(
        "secret sharing",
        "Reports leave the device as two encrypted shares only, each independent of the report for whoever "
        "cannot break the cryptography.",
    ),
    unchecked(
        "aggregators' noise",
        "Each aggregator adds discrete Laplace noise of the stated scale once for a version, from a secure "
        "generator, and releases nothing else. No older copy of its report ids, versions and noise is "
        "restored.",
    ),
    unchecked("device storage", "The device's ledger is durable, and no older copy of it is restored."),
    unchecked(
        "public parameters",
        "DistributedSpec, epsilon and taking part were fixed without looking at context or reward.",
    ),
    unchecked(
        "reporting times",
        "The app reports every choice by a deadline, and the time of a report does not depend on context or "
        "reward.",
    ),
    unchecked(
        "no other data",
        "Nothing else that depends on the user's data leaves the device, unless its promise is added to this "
        "one.",
    ),
)


def reports_guarantee(histogram: ReportHistogram, *, versions: int, min_batch: int) -> Guarantee:
    """Return the guarantee of everything that one user's device reports under a spec.

    Args:
        histogram: the mechanism of the aggregators.
        versions: number of versions, each with one released sum.
        min_batch: smallest number of reports in a released sum.
    """
    privacy = histogram.privacy
    seen = "noisy sums, versions, and its own shares and noise"
    reports = counted(privacy.reports_per_user, "report")
    return Guarantee(
        definition=privacy,
        observers=(
            protected_from("either aggregator, also together with the collector", seen),
            protected_from("the collector and everyone else", "noisy sums and versions"),
            shown_to("the user's own device", "context, arm and reward"),
        ),
        mechanisms=(histogram.record(versions),),
        assumptions=in_order(_ASSUMPTIONS),
        theorem="A report is one bucket, so that replacing it moves a sum by at most 2 in L1, and one "
        "aggregator's discrete Laplace noise covers this for every sum that the user's reports enter "
        "(dpbandits.privacy.histogram). The other aggregator's noise is not counted. The guarantee is "
        "computational: it holds for parties that cannot break the encryption and the expansion of shares "
        "from seeds. Versions and estimates are post-processing.",
        status="enforced",
        certificate=PureDP(epsilon=privacy.epsilon),
        limits=(
            "A deployment supplies two aggregators, and devices that split reports.",
            f"A user makes at most {reports}: more would cost more.",
            f"A sum has at least {counted(min_batch, 'report')}, unless aggregators accept fewer.",
        ),
        notes=(
            "A report is one bucket of weight one, so a forged report weighs as much as an honest one. A "
            "dishonest aggregator can falsify a sum: accuracy is not promised.",
            "This trust model is experimental. Protocols for it (VDAF, DAP) are drafts, and formats will "
            "change.",
        ),
    )


def in_one_process(found: Guarantee, *, status: Status) -> Guarantee:
    """Return the guarantee of `IdealAggregation`, which holds against everybody but its own process.

    Args:
        found: guarantee of the spec, from `reports_guarantee`.
        status: status of the noise.
    """
    process = shown_to("the process that holds both aggregators", "every report")
    collected = protected_from("the collector and everyone else", "noisy sums and versions")
    split = {"two aggregators", "secret sharing", "aggregators' noise"}
    kept = (assumption for assumption in found.assumptions if assumption.name not in split)
    return replace(
        found,
        observers=(process, collected, found.observers[-1]),
        assumptions=in_order((*kept, SERVER_OUT_OF_REACH)),
        status=status,
        limits=("One process sees every report: this is no more than a central server.", *found.limits[1:]),
    )
