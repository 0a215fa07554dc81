"""Statement of a policy with a readout: what the control group adds, and on what it rests."""

from dataclasses import replace

from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.run import ReadoutRun
from dpbandits.privacy import sentences
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import enforced, shown_to, unchecked

__all__ = ["with_readout"]

GROUPS = enforced(
    "separate groups",
    "No user is in both groups, the policy's and the control's. A public coin decides which, by the keyed "
    "digest of the user's id, or without ids by the number of the round. Rounds of the control group enter "
    "the sums of the control group at their look and no other release. The control's arms follow from public "
    "coins, public functions and the user's own context.",
)
OUTCOMES = enforced(
    "bounded outcomes",
    "Every metric lies in its public range and becomes an integer before it is summed. A round whose reward "
    "does not count, or whose metric is missing, adds the integer of a public default. Where this statement "
    "says that a round contributes nothing, it adds these public integers to the sums of a look.",
)
LOOKS = enforced(
    "looks by asks",
    "Every round is in at most one look, fixed by the number of its ask. A look is released once, after a "
    "deadline in numbers or times of asks, and is stored before it is shown.",
)
FIXED_IDS = unchecked(
    "fixed ids and times",
    "Which ids ask, and when, does not depend on private data. Group, look and number of rounds of a user "
    "follow from them alone. Times of calls of readout() and end_readout() depend on public facts and "
    "releases alone.",
)
OTHER_PEOPLE = unchecked(
    "other people's function",
    "No user of this policy is among those from whom the control's published function was learned. (For "
    "somebody who is, both promises together hold.)",
)
SEGMENTS = enforced(
    "segments",
    "A round adds to the sums of one segment at most. The segment follows from the round's own context and "
    "public edges or categories. A round whose context cannot be read adds nothing. Sums in segments are "
    "kept with their noise from the first look on, and released once, when no look follows.",
)
IN_SEGMENTS = (
    " Replacing a round may move two segments, which the sensitivity of the sums in segments counts "
    "(derivation: dpbandits.central.readout.segments). In both groups, these sums and those of the looks add "
    "up by composition."
)
THEOREM = (
    " With a readout, every user's data enters one group only, fixed by public coins. The loss of a user is "
    "that of the user's own group (parallel composition). In the policy group learning and the sums of "
    "outcomes add up by composition. In the control group the sums alone spend the promise. The sensitivity "
    "of the sums holds for all looks together (derivation: dpbandits.central.readout.lattice)."
)
NOTE = (
    "The readout has a control group with {share:g} of the users, {looks} looks and the metrics {names}. "
    "Where this statement says reward, it means the metrics told with it, too. The numbers of rounds and "
    "users of a group at a look are public, as ids and times of asks are."
)

SEGMENT_NOTE = (
    "Rewards are also summed in segments of the column {column}. The number of rounds in a segment is "
    "private, and is released with noise."
)


def with_readout(found: Guarantee, run: ReadoutRun) -> Guarantee:
    """Return the guarantee of a policy with this readout, given that of its learning alone."""
    readout, noises = run.readout, run.noises
    names = ", ".join(one.name for one in run.outcomes)
    others = (OTHER_PEOPLE,) if isinstance(readout.control.arm, PublishedPosterior) else ()
    if run.segments is not None:
        others = (SEGMENTS, *others)
    return replace(
        found,
        observers=(
            *found.observers,
            shown_to("each user", "the user's own group, as far as decisions show it"),
        ),
        mechanisms=(*found.mechanisms, *run.records),
        assumptions=sentences.in_order((*found.assumptions, GROUPS, OUTCOMES, LOOKS, FIXED_IDS, *others)),
        theorem=found.theorem + THEOREM + ("" if run.segments is None else IN_SEGMENTS),
        certificate=noises.certificate,
        notes=(
            *found.notes,
            NOTE.format(share=readout.control.share, looks=readout.looks, names=names),
            *(() if run.segments is None else (SEGMENT_NOTE.format(column=run.segments.column),)),
        ),
    )
