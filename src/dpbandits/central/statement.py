"""Statements of policies on a trusted server: block releases, trees, cells, and explore then commit.

Each `*_guarantee` function builds the `Guarantee` of one kind of policy; `room_assumptions` returns the
assumptions that all of them have in common.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.privacy import sentences
from dpbandits.privacy.certificates import Certificate, GaussianDP, PureBeside, PureDP, rounded_up
from dpbandits.privacy.definitions import JointDP, counted
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Status
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.prefix_sums import BlockRelease, TreeRelease
from dpbandits.privacy.sentences import enforced, enforced_if, protected_from, shown_to, unchecked
from dpbandits.state.holder import Holder
from dpbandits.state.live import WITNESSED_EVERY

__all__ = [
    "ANSWER_TIMES",
    "DRAWN_ONCE",
    "KNOWN_PROPENSITIES",
    "OF_OTHERS",
    "OF_THE_SAME",
    "OWN_CONTEXT",
    "OWN_DATA",
    "OWN_DECISION",
    "PARTS_OF_LOGS",
    "PROPENSITIES",
    "PUBLIC_COINS",
    "PURE_NOTE",
    "RELEASE_NOTE",
    "WHOLE_DOMAIN",
    "Setting",
    "block_release_guarantee",
    "cell_release_guarantee",
    "explore_guarantee",
    "explore_records",
    "on_a_public_clock",
    "room_assumptions",
    "tree_guarantee",
]


OF_OTHERS, OF_THE_SAME = "prior of others", "prior of the same"
"""Names, in the log of releases, for a published function passed to `warm_start`: of other users, or of
users who may be in both. A state cannot change one into the other.
"""

PAID_BEFORE = ("histogram", OF_OTHERS, OF_THE_SAME)
"""Purposes in the log of releases that were drawn, and charged, before the policy existed."""


class Setting(NamedTuple):
    """Facts about how a policy runs on which its statement depends."""

    status: Status  # status of the noise source
    user_ids: bool  # whether the policy counts each user's rounds
    witnessed: bool  # whether a ledger refuses every second copy of a saved state
    charged: bool  # whether a ledger's account pays
    live: bool = False  # whether a folder stores every ask and tell as it happens

    @classmethod
    def of(cls, holder: Holder, *, noise: NoiseSource, user_ids: bool) -> "Setting":
        """Return the setting of a policy, which also depends on the past releases in its log."""
        past = tuple(holder.log)
        return cls(
            status="simulated" if any(one["status"] == "simulated" for one in past) else noise.status,
            user_ids=user_ids,
            witnessed=holder.witnessed and not holder.adopted and all(one["witnessed"] for one in past),
            charged=holder.charged
            and all(one["charge"] is not None for one in past if one["purpose"] not in PAID_BEFORE),
            live=holder.live,
        )


# -- assumptions of every policy on a trusted server ----------------------------------------------

EVERY_ASK = (
    "Every ask takes one round of the horizon{one_of_users}, whatever the user brings, and belongs to the "
    "block of its round. A decision set or context that cannot be used takes its round and contributes "
    "nothing. A reward that is missing, off the range where rewards are not clipped, abandoned, late or "
    "told before contributes nothing. None of these changes another user's answer, round or contribution. "
    "{visitors}Other calls are refused as a whole and take nothing: too few rounds left; {asks}a table or "
    "array of another shape; a batch in which no decision set has the right shape (if some have, the others "
    "are refused alone, and take their rounds); a decision id that this policy did not issue, or a time "
    "that is none, also if it is one of a batch. Such a refusal depends on how the caller sent the call."
)
DRAWN_ONCE = enforced(
    "noise drawn once",
    "Noise is drawn once for a release. From the first save on, a release is stored before anything that is "
    "computed from it is shown. A restart continues from the stored releases: a release of which anything "
    "was shown is never drawn again.",
)
PUBLIC_COINS = enforced(
    "public coins",
    "Public random choices are keyed by (seed, purpose, round) alone: no user's data changes them.",
)
CELLS_AS_THEY_ARE = unchecked(
    "cells as written",
    "Table cells reach the library as the data spells them. Readers of files break this for a whole "
    "column because of one cell: they round integers above 2^53 beside a blank, and convert dates that are "
    "not ISO 8601, decimal commas, thousands separators and numbers with an exponent only if every cell "
    "fits. Read such columns as text, and write plain numbers and ISO dates.",
)
OWN_REFUSALS = unchecked(
    "private refusals",
    "Only the caller sees a refusal. Refusals of whole calls, as listed under 'one round per ask', depend on "
    "what the caller sent.",
)
OWN_DECISION = unchecked("private delivery", "Each decision reaches its own user only.")
EVERY_ROW = (
    "A row takes one of the horizon's places{one_of_users}, whatever else stands in it, as long as places "
    "are left. Rows beyond that are dropped and take no place. {rows}A row that cannot be read takes its "
    "place and counts zero. No noise scale depends on the number of rows, except through noisy counts "
    "of contexts, if there are any."
)
WHEN_ASKED = "number and times of asks (participation)"


WITH_IDS = {
    "one_of_users": " and one of its user's",
    "visitors": "In a batch, a visitor without an id or without rounds left takes a round of the horizon and "
    "contributes nothing. ",
    "asks": "a single ask without an id or beyond the user's rounds; ",
    "rows": "A row without a readable id is dropped too, and a later row may take its place. ",
}
"""Parts of the sentences `EVERY_ASK` and `EVERY_ROW` that hold only if user ids are counted."""


NOT_PUT_BACK = unchecked(
    "no rollback",
    "No older copy of the state or folder is restored between releases. Rounds asked since would be "
    "asked again, beyond a user's bound. A ledger notices this at openings and releases only, unless the "
    "policy runs in a folder. Without a folder a crash has the same effect: it loses every ask since the "
    "last release.",
)
PUT_BACK_REFUSED = enforced(
    "rollback detection",
    "A restored older copy of the folder is refused at opening if it lacks anything that the ledger has "
    "witnessed: a release, a closing at which the ledger answered, or a call of ask, tell or abandon (a "
    f"batch is one call) before the last {WITNESSED_EVERY}.",
)
LAST_CALLS = unchecked(
    "no rollback",
    f"No copy of the folder is restored that lacks only some of the last {WITNESSED_EVERY} calls. The ledger "
    "does not notice this, and rounds in these calls would be asked again, beyond a user's bound.",
)
NOTHING_ELSE = unchecked(
    "no other analysis",
    "Nothing else is computed from these people's data, unless promises are added up. A new run of this "
    "policy counts as something else. (A ledger account adds up promises.)",
)


def room_assumptions(
    privacy: JointDP,
    setting: Setting,
    *,
    keeps: Iterable[Assumption],
    trusts: Iterable[Assumption],
    chosen: str,
    asks: bool,
    saved: bool = True,
) -> tuple[Assumption, ...]:
    """Return every assumption of a policy on a trusted server, enforced ones first.

    Args:
        privacy: the promise.
        setting: facts about how the policy runs.
        keeps, trusts: further assumptions of this policy: enforced ones, and unchecked ones.
        chosen: names of the policy's parameters.
        asks: True if users ask, False if they are rows of a log.
        saved: True if the policy has a state that can be saved.
    """
    most = counted(privacy.rounds_per_user, "round" if asks else "row")
    bound = enforced_if(
        setting.user_ids,
        "contribution bound",
        "",
        how=f"No user id takes part in more than {most}: further asks are refused and contribute nothing."
        if asks
        else f"No user id has more than {most}: the first ones count, further ones are dropped.",
        otherwise=f"No user takes part in more than {most} (asks carry no user id)."
        if asks
        else f"No user has more than {most} (rows carry no user id).",
    )
    witnessed_rounds = setting.live and setting.witnessed
    put_back = LAST_CALLS if witnessed_rounds else NOT_PUT_BACK
    rule, which = (EVERY_ASK, "rounds") if asks else (EVERY_ROW, "rows")
    rule = rule.format(**(WITH_IDS if setting.user_ids else dict.fromkeys(WITH_IDS, "")))
    one_id = unchecked(
        "one id per person",
        f"All {which} of one person, and no others, carry one id. A person has no second id, and nobody else "
        "uses it.",
    )
    parameters = unchecked(
        "public parameters",
        "No parameter was chosen by looking at private data. "
        f"This means {chosen}, and every other parameter.",
    )
    return sentences.in_order(
        (
            *keeps,
            enforced("one round per ask" if asks else "one place per row", rule),
            *([PUT_BACK_REFUSED] if witnessed_rounds else []),
            parameters,
            CELLS_AS_THEY_ARE,
            *trusts,
            *([OWN_REFUSALS] if asks else []),
            *([one_id] if setting.user_ids else []),
            *([put_back] if asks and saved else []),
            *([sentences.LEDGER_IS_ONE] if setting.witnessed or setting.charged else []),
            NOTHING_ELSE,
            sentences.SERVER_OUT_OF_REACH,
            bound,
            *([sentences.one_copy(witnessed=setting.witnessed)] if saved else []),
        )
    )


PUBLIC_CLOCK = unchecked(
    "public clock",
    "Times of asks come from a public clock. Nobody's data changes them. (A reward's own time "
    "decides whether that reward counts, and nothing else.)",
)


def on_a_public_clock(found: Guarantee) -> Guarantee:
    """Return the guarantee with the assumption that is needed if releases wait for a time."""
    return replace(found, assumptions=sentences.in_order((*found.assumptions, PUBLIC_CLOCK)))


# -- sums that a policy releases as it goes -------------------------------------------------------

PUBLIC_SETS = "Decision sets and decisions are public: this promise covers rewards only."
PUBLIC_SETS_NOTE = (
    "Decision sets are declared public: everybody may learn every user's decision set and, since choices "
    "follow from releases and public coins, every user's decision."
)

WHOLE_DOMAIN = (
    "A user who brings no candidates is offered the whole public domain, and receives a point of it that is "
    "computed from releases and public coins alone (post-processing): whoever knows these knows the point. "
    "To bring none is to bring a decision set like any other."
)

REWARD_NEIGHBOURS = (
    "two histories are neighbouring if one user's rewards (and whether they were reported) are replaced "
    "by any others, and all decision sets and everybody else's rewards are unchanged"
)

THEOREM = (
    "Between two neighbouring histories every release is discrete Gaussian noise on integer vectors whose "
    "distance is bounded on every path of past releases. So the losses add up by fully adaptive composition "
    "of zero-concentrated differential privacy (Canonne, Kamath, Steinke 2020). The sensitivity is the "
    "largest change that one user's contributions make to all releases together, the matrix mechanism and "
    "rounding included (derivation: dpbandits.privacy.prefix_sums). Actions of other users, predictions and "
    "everything else are computed from releases, public coins and their own user's decision set, which gives "
    "joint differential privacy by the billboard lemma."
)

ON_A_STREAM = (
    ", whose stream of releases is a Gaussian matrix mechanism on an adaptive stream (Denisov et al. 2022; "
    "Smith, Thakurta 2022)"
)

OWN_DATA = (
    "depend on that user's data, public parameters and earlier releases, and on nothing that other users "
    "bring: every cell of a table is read by itself. Exceptions are calls that are refused as a whole, as "
    "listed under 'one round per ask'."
)

FEATURES_KEPT = enforced(
    "bounded contributions",
    "Feature vectors have norm at most 1 and rewards lie in the public range: both are bounded and turned "
    "into integers before they are summed, and the bound is checked on the integers. A user's contributions "
    + OWN_DATA,
)

CELLS_THEOREM = (
    "Every round adds to at most one public cell of its block, and replacing it changes the block's sums by "
    "at most the stated sensitivity in L1. The division into cells is chosen from past "
    "releases alone. So every release is a discrete Laplace mechanism (Ghosh, Roughgarden, Sundararajan "
    "2009), a user of one round is in one release at most, and for a user of k rounds in several blocks the "
    "losses add up to no more than k rounds in one block would cost: pure epsilon for any number of blocks "
    "(derivation: dpbandits.privacy.cell_sums). Actions of other users, predictions and everything "
    "else are computed from releases, public coins and their own user's decision set, which gives joint "
    "differential privacy by the billboard lemma."
)

CELLS_KEPT = enforced(
    "bounded contributions",
    "Rewards lie in the public range and become integers before they are summed. A user's contributions, and "
    "the cells to which they are added, " + OWN_DATA,
)

RELEASE_NOTE = "The promise has delta = 0: releases are of the kind {release!r}, whose noise needs no delta."

PURE_NOTE = "Releases are pure epsilon. The allowed delta of {delta:g} is not used."

SIMULATED_THEOREM = (
    "With real-valued Gaussian noise from a secret source the stream of releases would be a Gaussian matrix "
    "mechanism on an adaptive stream (Denisov et al. 2022) and everything else post-processing."
)

TREE_ATTACK = (
    "likelihood-ratio test on the stacked tree nodes between two neighbouring histories that the promise "
    "covers, features e_1 and -e_1 with reward 1, which reaches the epsilon in the annex "
    "(dpbandits.privacy.prefix_sums.tree, tests of attacks on adaptive streams). A feature map "
    "without opposite vectors loses less privacy: as much as its own vectors can change."
)

TREE_UNPROVEN = (
    "none: the likelihood-ratio test reaches no more than was promised. But nothing proves the promise at "
    "this scale either: the sensitivity is known up to rounding, and less closely "
    "of doubling epochs, and for users of more than half the rounds."
)

DOUBLING_NOTE = (
    "The horizon is unknown: epochs double in length and each has a tree of its own with a scale for its own "
    "number of levels (shown is the {shown} epoch's alone). A user with k_e of k rounds "
    "in epoch e spends at most the share k_e/k of the squared privacy loss there, and the shares sum to at "
    "most one."
)


def block_release_guarantee(
    privacy: JointDP, release: BlockRelease, *, width: float, setting: Setting, public_decision_sets: bool
) -> Guarantee:
    """Return the guarantee of a policy whose only contact with raw data is `release`.

    Args:
        privacy: the definition and its numbers.
        release: the calibrated mechanism.
        width: width of the reward range.
        setting: facts about how the policy runs.
        public_decision_sets: True if only rewards are protected.
    """
    record = release.record(width=width)
    return _sums_guarantee(privacy, record, setting=setting, public_decision_sets=public_decision_sets)


def tree_guarantee(
    privacy: JointDP,
    release: TreeRelease,
    *,
    width: float,
    setting: Setting,
    paper_constants: str | None,
    doubling: bool,
) -> Guarantee:
    """Return the guarantee of `Dubey2021`.

    With `paper_constants` the guarantee states the epsilon that the printed noise scale satisfies at this
    delta, and the epsilon that an attack reaches. It is `broken`, with the attack named, if the scale
    satisfies less than was promised.

    Args:
        privacy: the definition and its numbers.
        release: the first epoch's release with `paper_constants` and doubling, where the printed scales fall
            shortest; otherwise the current epoch's.
        width: width of the reward range.
        setting: facts about how the policy runs.
        paper_constants: name of the printed formula of the scale; None for the calibrated scale.
        doubling: True if epochs double in length.
    """
    record, broken_by = release.record(width=width), None
    shown = "current" if paper_constants is None else "first"
    notes = [DOUBLING_NOTE.format(shown=shown)] if doubling else []
    if paper_constants is not None:
        certificate = release.kept_by_scale()
        proven = certificate.epsilon_at(privacy.delta)
        reached = GaussianDP(release.reached / release.sigma).epsilon_at(privacy.delta)
        notes.append(
            f"The noise scale is the printed formula {paper_constants!r} of Dubey2021, "
            f"{release.noise_sd:.6g} a node, for features and rewards of norm at most 1, where epsilon = "
            f"{privacy.epsilon:g} was claimed. At delta = {privacy.delta:g} it satisfies epsilon = "
            f"{rounded_up(proven)}, and a likelihood-ratio test between features e_1 and -e_1 in a user's "
            f"first rounds reaches {reached:.4g}."
        )
        record = replace(record, certificate=certificate)
        if certificate.delta_at(privacy.epsilon) > privacy.delta:
            broken_by = TREE_ATTACK if reached > privacy.epsilon else TREE_UNPROVEN
    return _sums_guarantee(
        privacy, record, setting=setting, public_decision_sets=False, notes=tuple(notes), broken_by=broken_by
    )


def cell_release_guarantee(
    privacy: JointDP, record: MechanismRecord, *, width: float, setting: Setting
) -> Guarantee:
    """Return the pure epsilon guarantee of a policy whose one contact with raw data is `CellSums.release`.

    Args:
        privacy: the requested promise; a delta in it is not used, and not stated.
        record: record of the release, for a reward range of width 1.
        width: width of the reward range.
        setting: facts about how the policy runs.
    """
    return _sums_guarantee(
        replace(privacy, delta=0.0),
        replace(record, step=record.step * width),
        setting=setting,
        public_decision_sets=False,
        notes=(PURE_NOTE.format(delta=privacy.delta),) if privacy.delta else (),
        kept=CELLS_KEPT,
        theorem=CELLS_THEOREM,
    )


def _sums_guarantee(
    privacy: JointDP,
    record: MechanismRecord,
    *,
    setting: Setting,
    public_decision_sets: bool,
    notes: tuple[str, ...] = (),
    broken_by: str | None = None,
    kept: Assumption = FEATURES_KEPT,
    theorem: str | None = None,
) -> Guarantee:
    """Return the guarantee of a policy with one mechanism; `broken_by` names an attack on its noise.

    Args:
        kept: assumption on the bound of contributions, which is enforced before anything is summed.
        theorem: reason why the guarantee holds; by default that of the matrix mechanism.
    """
    sentences.check_noise_status(setting.status)
    assumptions = room_assumptions(
        privacy,
        setting,
        keeps=[kept, DRAWN_ONCE, PUBLIC_COINS],
        trusts=[] if public_decision_sets else [OWN_DECISION],
        chosen="domain, reward range, horizon, blocks, kernel, features, public decision sets, data given to "
        "warm_start",
        asks=True,
    )
    rounds = counted(privacy.rounds_per_user, "round")
    if theorem is None:
        theorem = sentences.reason(THEOREM, record.certificate, which=ON_A_STREAM)
        theorem = SIMULATED_THEOREM if isinstance(record.certificate, GaussianDP) else theorem
    return Guarantee(
        definition=privacy,
        observers=(
            shown_to("the server", "every decision set and every reward"),
            shown_to("each user", "the user's own decision"),
            shown_to("everyone", WHEN_ASKED),
            protected_from(
                "everybody else",
                "other users' decisions, all releases, and everything computed from them",
            ),
        ),
        mechanisms=(record,),
        assumptions=assumptions,
        theorem=theorem,
        status="broken" if broken_by else setting.status,
        certificate=None if broken_by else record.certificate,
        attack=broken_by,
        unit=f"one user: the rewards of at most {rounds}" if public_decision_sets else "",
        neighbours=REWARD_NEIGHBOURS if public_decision_sets else "",
        limits=(PUBLIC_SETS,) if public_decision_sets else (),
        notes=(PUBLIC_SETS_NOTE, *notes) if public_decision_sets else notes,
    )


# -- explore then commit ------------------------------------------------------------------------

ANSWER_THEOREM = (
    "For every context, the scores of actions are exact integer sums of each row's capped reward times a "
    "public influence, so replacing one user's rows changes them by a vector whose spread is at most the "
    "computed range; permute-and-flip at that range is epsilon-differentially private (McKenna, Sheldon "
    "2020; the argument for ranges stands in dpbandits.privacy.selection)."
)
RELEASE_THEOREM = (
    "The released vector is an exact integer sum of each row's capped reward times a public vector; "
    "replacing one user's rows changes it by at most the computed Euclidean distance, to which the noise "
    "is calibrated. Predictions from it are post-processing."
)
COMPOSITION = (
    "Answers, the release and the histogram, if any, add up by basic composition, and the server refuses "
    "everything beyond the promise. Explored actions come from public coins and reveal nothing; an answer "
    "to one user is computed from the others' data through these mechanisms only (billboard lemma). If a "
    "user has more or fewer rows, up to as many rows of others enter or leave at the end of the horizon. In "
    "total no more rows change than if that user's rows were replaced, and the same bound applies to each."
)
PROPENSITIES = (
    "A wrong propensity makes answers worse. The bound on one row's contribution holds for any propensity."
)
KNOWN_PROPENSITIES = unchecked(
    "known propensities",
    "Propensities, if rows have any, are not estimated from the log. Otherwise one user's data would change "
    "how other users' rows count. Propensities are a public function of public strata.",
)
PARTS_OF_LOGS = unchecked(
    "logs in parts",
    "The parts of a log fit into the horizon together, and all rows of one person are in one part. A part "
    "that does not fit is refused as a whole. A log that is learned at once is one part.",
)
ANSWER_TIMES = unchecked(
    "answer times",
    "Only the server can measure how long an answer takes. This time depends on the scores, which are "
    "private.",
)
HISTOGRAM_CHARGED = unchecked(
    "histogram charged", "The histogram of contexts was charged to the account, by whoever drew it."
)
OWN_CONTEXT = unchecked(
    "private delivery",
    "An action reaches the user whose context it is for. That user's own context is not protected from "
    "whoever sees the action.",
)
ROWS_KEPT = enforced(
    "bounded contributions",
    "Every reward is clipped to the public cap of its cell and turned into an integer before it is "
    "added up; all sensitivities are computed on these integers.",
)


def explore_records(
    contexts: ContextLaw, *, answers: tuple[int, float] | None, release: MechanismRecord | None
) -> dict[str, MechanismRecord]:
    """Return every use of noise of an `ExploreThenCommit`, by name: "histogram", "answer", "release".

    Args:
        contexts: the distribution of contexts, which may have spent epsilon.
        answers: (largest number of answers, epsilon of each); None for no answers.
        release: record of the release; None if none is planned.
    """
    records = {}
    if contexts.epsilon > 0.0:
        records["histogram"] = MechanismRecord(
            name="counts of contexts in each cell",
            law="discrete Laplace",
            scale=2.0 * contexts.rounds_per_user / contexts.epsilon,
            sensitivity=2.0 * contexts.rounds_per_user,
            certificate=PureDP(contexts.epsilon),
            releases=1,
            unit="in people, L1 over cells",
        )
    if answers is not None:
        count, epsilon = answers
        records["answer"] = MechanismRecord(
            name=f"answers, the best action at a context, epsilon {epsilon:g} each",
            law="permute-and-flip: exponential",
            scale=1.0 / epsilon,
            sensitivity=float(count),
            certificate=PureDP(count * epsilon),
            releases=count,
            unit="in ranges of an answer's scores, computed exactly",
        )
    if release is not None and release.certificate is not None:
        records["release"] = release
    return records


def explore_guarantee(
    privacy: JointDP,
    *,
    contexts: ContextLaw,
    setting: Setting,
    records: Mapping[str, MechanismRecord],
    publish_epsilon: float,
) -> Guarantee:
    """Return the guarantee of a whole `ExploreThenCommit`, before any data.

    Args:
        privacy: the total promise.
        contexts: the distribution of contexts, which may have spent epsilon.
        setting: facts about how the policy runs.
        records: every use of noise, from `explore_records`.
        publish_epsilon: epsilon of the release.
    """
    answers, release = records.get("answer"), records.get("release")
    certificate: Certificate = PureDP(privacy.epsilon)
    parts = [ANSWER_THEOREM] if answers is not None else []
    if release is not None and release.certificate is not None:
        parts.append(sentences.reason(RELEASE_THEOREM, release.certificate))
        pure = privacy.epsilon - publish_epsilon
        certificate = PureBeside(pure, release.certificate) if pure > 0.0 else release.certificate
    parts.append(COMPOSITION)
    rules = []
    if answers is not None:
        counting = (
            "charged to the ledger before it is drawn" if setting.charged else "counted before it is shown"
        )
        text = f"Answers beyond the promise are refused; each, for any context, is {counting}."
        rules.append(enforced("answers counted", text))
    if release is not None:
        rules.append(DRAWN_ONCE)
    in_common = room_assumptions(
        privacy,
        setting,
        keeps=[ROWS_KEPT, *rules],
        trusts=[
            *([OWN_CONTEXT] if answers is not None else []),
            *([ANSWER_TIMES] if answers is not None else []),
            *([HISTOGRAM_CHARGED] if setting.charged and "histogram" in records else []),
            PARTS_OF_LOGS,
            KNOWN_PROPENSITIES,
        ],
        chosen="kernel, actions, reward range, horizon",
        asks=False,
    )
    assumptions = sentences.in_order((*in_common, _contexts_assumption(contexts)))
    return Guarantee(
        definition=privacy,
        observers=(
            shown_to("the server", "every context, action and reward"),
            *([shown_to("everyone", WHEN_ASKED)] if answers is not None else []),
            protected_from(
                "everybody else",
                "all answers, the released policy and everything computed from them",
            ),
        ),
        mechanisms=tuple(records.values()),
        assumptions=assumptions,
        theorem=" ".join(parts),
        status=setting.status,
        certificate=certificate,
        notes=(
            contexts.describe() + " If it is wrong, answers are worse; the promise still holds.",
            PROPENSITIES,
        ),
    )


def _contexts_assumption(contexts: ContextLaw) -> Assumption:
    if contexts.source != "private histogram":
        text = "The distribution of contexts does not come from protected people."
        return unchecked("public distribution of contexts", text)
    return enforced_if(
        contexts.counted_units,
        "histogram rows",
        f"The histogram of contexts counts at most {counted(contexts.rounds_per_user, 'row')} of a user",
        how=": further ones are dropped.",
        otherwise=" (it was given no user ids).",
    )
