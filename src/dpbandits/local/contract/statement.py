"""What one report promises, in the library's own words."""

from dpbandits.local.contract.spec import Spec
from dpbandits.privacy.calibration import PureDP
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer

__all__ = ["report_guarantee"]

_NAMES = {"auto": "signed ternary or k-ary"}


def report_guarantee(spec: Spec, *, epsilon: float | None = None) -> Guarantee:
    """The guarantee of one report under the spec; `epsilon` is a user's own, None the spec's.

    The certificate is the largest that any number of bins up to `max_leaves` gives: of two bins, of all,
    and of powers of two between. Every one of them is enumerated, and at most the spec's epsilon.
    """
    sizes = {1, spec.max_leaves} | {2**k for k in range(1, spec.max_leaves.bit_length())}
    epsilon = spec.epsilon if epsilon is None else epsilon
    exact = max(spec.mechanism_for(size, epsilon).exact_epsilon for size in sizes if size <= spec.max_leaves)
    hidden = "the bin of the context and the reward"
    if spec.arms == "user":
        hidden = "the bin of the context, the arm and the reward"
    notes = []
    if spec.arms == "server":
        notes.append("Which arms a bin pulls is public where the server assigns them.")
    if spec.epsilons:
        notes.append(
            "A report names its class of epsilon in the open: one of the spec's, each kept as it says."
        )
    return Guarantee(
        definition=LocalDP(epsilon=epsilon),
        observers=(
            Observer(who="the server", sees="the report's bytes", protected=True),
            Observer(who="anyone on the wire or with access to the server", sees="the same", protected=True),
            Observer(
                who="the user's own device",
                sees="context, arm and reward; it keeps none of them after the report",
                protected=False,
            ),
        ),
        mechanisms=(
            MechanismRecord(
                name=f"one report ({spec.mechanism})",
                law=f"{_NAMES.get(spec.mechanism, spec.mechanism)} randomised report over (cell, sign), "
                f"hiding {hidden}; its",
                scale=epsilon,
                sensitivity=epsilon,
                certificate=PureDP(epsilon=exact),
                releases=1,
                unit="in log-likelihood ratios",
            ),
        ),
        assumptions=(
            Assumption(
                text="Every probability is a multiple of 2^-64, and the ratio claimed is theirs.",
                enforced=True,
            ),
            Assumption(
                text="The report is stored before it is sent, and a retry sends the same bytes.",
                enforced=True,
            ),
            Assumption(
                text="Another report is drawn only when the device's own ledger has budget for it; k reports "
                "lose at most k epsilon together.",
                enforced=True,
            ),
            Assumption(
                text="The ledger and the outbox of the device are durable: after losing them it reports anew "
                "with a fresh budget.",
                enforced=False,
            ),
            Assumption(
                text="The operating system's random numbers on the device are unpredictable.", enforced=False
            ),
            Assumption(
                text="Spec, epsilon and taking part were fixed without looking at context or reward.",
                enforced=False,
            ),
        ),
        theorem="Any two inputs give any report with probabilities within exp(epsilon): the maximum over "
        "inputs and reports is enumerated over the rational probabilities in use. Whatever server and "
        "operator compute from reports is post-processing.",
        status="enforced",
        certificate=PureDP(epsilon=epsilon),
        notes=tuple(notes),
    )
