"""The statements that a trusted server makes, part by part: of blocks, trees, and explore then commit."""

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
from dpbandits.privacy.sentences import kept, kept_if, protected_from, shown_to, trusted
from dpbandits.state.holder import Holder
from dpbandits.state.live import WITNESSED_EVERY

__all__ = [
    "ANSWER_TIMES",
    "DRAWN_ONCE",
    "OF_OTHERS",
    "OF_THE_SAME",
    "OWN_CONTEXT",
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
"""Purposes, in the log of releases, of a published function that a policy began from: a state cannot turn
one into the other."""

PAID_BEFORE = ("histogram", OF_OTHERS, OF_THE_SAME)
"""Purposes of what is drawn, and charged, before there is a policy."""


class Setting(NamedTuple):
    """How a policy runs, as far as its statement depends on it."""

    status: Status  # of the noise source
    user_ids: bool  # whether the policy counts each user's rounds
    witnessed: bool  # whether a ledger refuses every second copy of a saved state
    charged: bool  # whether a ledger's account pays
    live: bool = False  # whether it lives in a folder, which has every ask and tell

    @classmethod
    def of(cls, holder: Holder, *, noise: NoiseSource, user_ids: bool) -> "Setting":
        """How a policy runs, and ran: what its log of releases says of the past counts as well."""
        past = tuple(holder.log)
        return cls(
            status="simulated" if any(one["status"] == "simulated" for one in past) else noise.status,
            user_ids=user_ids,
            witnessed=holder.witnessed and not holder.adopted and all(one["witnessed"] for one in past),
            charged=holder.charged
            and all(one["charge"] is not None for one in past if one["purpose"] not in PAID_BEFORE),
            live=holder.live,
        )


# -- what every promise of this room rests on -----------------------------------------------------

EVERY_ASK = (
    "Every ask takes one round of the horizon{one_of_users}, whatever the user brings, and belongs to the "
    "block of its round. A decision set or context that cannot be used takes its round and contributes "
    "nothing. A reward that is missing, off the range where rewards are not clipped, abandoned, late or "
    "told before contributes nothing. None of these changes another user's answer, round or contribution. "
    "{visitors}Other calls are refused as a whole and take nothing: too few rounds left; {asks}a table or "
    "array of another shape; a batch in which no decision set has the right shape (if some have, the others "
    "are refused alone, and take their rounds); a decision id that this policy did not issue, or a time "
    "that is none, also if it is one of a batch. Such a refusal depends on how the caller sent the call; "
    "show it to nobody but the caller."
)
DRAWN_ONCE = (
    "Noise is drawn once for a release. From the first save on a release is stored before anything that is "
    "computed from it leaves. A restart continues from what was stored: a release of which anything was "
    "shown is never drawn again."
)
PUBLIC_COINS = "Public random choices are keyed by (seed, purpose, round) alone: no user's data moves them."
CELLS_AS_THEY_ARE = (
    "Cells of a table reach the library as the data spells them. Readers of files break this for a whole "
    "column because of one cell: they round integers above 2^53 beside a blank, and convert dates that are "
    "not ISO 8601, decimal commas, thousands separators and numbers with an exponent only if every cell "
    "fits. Read such columns as text, and write plain numbers and ISO dates."
)
OWN_DECISION = "Each decision reaches its own user only."
EVERY_ROW = (
    "A row takes one of the horizon's places{one_of_users}, whatever else stands in it, as long as places "
    "are left. Rows beyond that are dropped and take no place. {rows}A row that cannot be read takes its "
    "place and counts zero. No noise scale depends on how many rows there were, except through noisy counts "
    "of contexts, if there are any."
)
WHEN_ASKED = "how many asks there were, and when: that somebody took part is not hidden"


WITH_IDS = {
    "one_of_users": " and one of its user's",
    "visitors": "In a batch, a visitor without an id or without rounds left takes a round of the horizon and "
    "contributes nothing. ",
    "asks": "a single ask without an id or beyond the user's rounds; ",
    "rows": "A row without a readable id is dropped too, and a later row may take its place. ",
}
"""Parts of `EVERY_ASK` and `EVERY_ROW` that hold only if user ids are counted."""


NOT_PUT_BACK = (
    "No older copy of the state or its folder is put back between two releases. Rounds asked since would be "
    "asked again, beyond a user's bound. A ledger notices this at openings and releases only, unless the "
    "policy lives in a folder. Without a folder a crash has the same effect: it loses what was asked since "
    "the last release."
)
PUT_BACK_REFUSED = (
    "An older copy of the folder that is put back is refused at opening if it lacks anything that the ledger "
    "has witnessed: a release, a closing at which the ledger answered, or a call of ask, tell or abandon (a "
    f"batch is one call) before the last {WITNESSED_EVERY}."
)
LAST_CALLS = (
    f"No copy of the folder is put back that lacks only some of the last {WITNESSED_EVERY} calls. The ledger "
    "does not notice this, and rounds in these calls would be asked again, beyond a user's bound."
)


def room_assumptions(
    privacy: JointDP,
    setting: Setting,
    *,
    keeps: Iterable[str],
    trusts: Iterable[str],
    chosen: str,
    asks: bool,
    saved: bool = True,
) -> tuple[Assumption, ...]:
    """The one list of what a promise of a trusted server rests on, enforced first.

    Args:
        keeps, trusts: what this policy alone enforces, and what must be seen to for it.
        chosen: its parameters, continued by "and every other parameter".
        asks: whether users ask, or come as rows of a log.
        saved: whether it keeps a state.
    """
    most = counted(privacy.rounds_per_user, "round" if asks else "row")
    bound = kept_if(
        setting.user_ids,
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
    one_id = (
        f"All of one person's {which} carry that person's one id, and no other person's {which} carry it."
    )
    return sentences.in_order(
        (
            *kept(*keeps, rule, *([PUT_BACK_REFUSED] if witnessed_rounds else [])),
            *trusted(
                f"{chosen} and every other parameter were chosen without looking at the private data.",
                CELLS_AS_THEY_ARE,
                *trusts,
                *([one_id] if setting.user_ids else []),
                *([put_back] if asks and saved else []),
                *([sentences.LEDGER_IS_ONE] if setting.witnessed or setting.charged else []),
                "Nothing else is computed from the same people's data, also by a new run of this policy, "
                "unless its promise is added to this one. (A ledger account does this.)",
                sentences.SERVER_OUT_OF_REACH,
            ),
            bound,
            *([sentences.one_copy(witnessed=setting.witnessed)] if saved else []),
        )
    )


PUBLIC_CLOCK = (
    "The times that asks are given are those of a public clock: nobody's data moves them. (A reward's own "
    "time decides whether that reward counts, and nothing else.)"
)


def on_a_public_clock(found: Guarantee) -> Guarantee:
    """The same, where releases wait for a time."""
    assumptions = (*found.assumptions, *trusted(PUBLIC_CLOCK))
    return replace(found, assumptions=sentences.in_order(assumptions))


# -- sums that a policy releases as it goes -------------------------------------------------------

PUBLIC_SETS_NOTE = (
    "Decision sets are declared public: this promise covers rewards only. Everybody may learn what every "
    "user was offered and, since choices follow from releases and public coins, what every user was given."
)

WHOLE_DOMAIN = (
    "Who brings no candidates is offered the whole public domain, and is given a point of it that is "
    "computed from releases and public coins alone (post-processing): whoever knows these knows the point. "
    "To bring none is to bring a decision set like any other."
)

REWARD_NEIGHBOURS = (
    "two histories are neighbours when one user's rewards (and whether they were reported) are replaced "
    "by any others and all decision sets and everybody else's rewards are unchanged"
)

THEOREM = (
    "Between two neighbours every release is discrete Gaussian noise on integer vectors whose distance is "
    "bounded on every path of past releases, so the losses add up by fully adaptive composition of "
    "zero-concentrated differential privacy (Canonne, Kamath, Steinke 2020); the bound is how far one user's "
    "largest contributions move all releases together, mixing and rounding included (the derivation "
    "stands in dpbandits.privacy.prefix_sums). Actions of other users, predictions and everything else are "
    "computed from releases, public coins and their own user's decision set, which gives joint "
    "differential privacy by the billboard lemma."
)

ON_A_STREAM = (
    ", whose stream of releases is a Gaussian matrix mechanism on an adaptive stream (Denisov et al. 2022; "
    "Smith, Thakurta 2022)"
)

FEATURES_KEPT = (
    "Feature vectors have norm at most 1 and rewards lie in the public range: both are bounded and turned "
    "into integers before they are summed, and the bound is checked on the integers. A user's contribution "
    "depends on that user's data, public parameters and earlier releases, and on nothing that other users "
    "bring: every cell of a table is read by itself. Exceptions are calls that are refused as a whole, "
    "listed below."
)

CELLS_THEOREM = (
    "Every round adds to at most one public cell of its block, and replacing it moves the block's sums by "
    "at most the stated distance, counted in absolute values. The division into cells is chosen from past "
    "releases alone. So every release is a discrete Laplace mechanism (Ghosh, Roughgarden, Sundararajan "
    "2009), a user of one round is in one release at most, and over users who spread k rounds the losses "
    "add up to no more than k rounds in one block would cost: pure epsilon for any number of blocks (the "
    "derivation stands in dpbandits.privacy.cell_sums). Actions of other users, predictions and everything "
    "else are computed from releases, public coins and their own user's decision set, which gives joint "
    "differential privacy by the billboard lemma."
)

CELLS_KEPT = (
    "Rewards lie in the public range and become integers before they are summed. A user's contribution, and "
    "the cell to which it is added, depend on that user's data, public parameters and earlier releases, and "
    "on nothing that other users bring: every cell of a table is read by itself. Exceptions are calls that "
    "are refused as a whole, listed below."
)

RELEASE_NOTE = (
    "The promise has delta = 0: what is released is of the kind {release!r}, whose noise needs no delta."
)

PURE_NOTE = "What is released here is pure epsilon. The allowed delta of {delta:g} is not used."

SIMULATED_THEOREM = (
    "With real-valued Gaussian noise from a secret source the stream of releases would be a Gaussian matrix "
    "mechanism on an adaptive stream (Denisov et al. 2022) and everything else post-processing."
)

TREE_ATTACK = (
    "likelihood-ratio test on the stacked tree nodes between two neighbours that the promise covers, "
    "features e_1 and -e_1 with reward 1, which reaches the epsilon stated below "
    "(dpbandits.privacy.prefix_sums.tree, tests of attacks on adaptive streams). A feature map "
    "without opposite vectors gives away less: what its own vectors can move."
)

TREE_UNPROVEN = (
    "none: the likelihood-ratio test reaches no more than was promised. But nothing proves the promise at "
    "this scale either: how far a user moves the releases at most is known up to rounding, and less closely "
    "of doubling epochs, and for users of more than half the rounds."
)

DOUBLING_NOTE = (
    "The horizon is unknown: epochs double in length and each has a tree of its own with a scale for its own "
    "number of levels (shown is the {shown} epoch's alone). A user with k_e of k rounds "
    "in epoch e spends at most the share k_e/k of the squared privacy loss there, and the shares sum to at "
    "most one."
)


def block_release_guarantee(
    privacy: JointDP, release: BlockRelease, *, setting: Setting, public_decision_sets: bool
) -> Guarantee:
    """The guarantee of a policy whose only contact with raw data is `release`.

    Args:
        privacy: the definition and its numbers.
        release: the calibrated mechanism.
        public_decision_sets: whether only rewards are protected.
    """
    what, statistics = "decision set and reward", "sums of phi phi^T and of centred rewards times features"
    if public_decision_sets:
        what, statistics = "reward", "sums of centred rewards times features"
    mixed = "mixed over the blocks" if release.factor.touched > 1 else "of every block by itself"
    record = replace(
        release.record(),
        name=f"{statistics} (the unit is one user's {what}), {mixed}",
        unit="in lattice units of 2^-20",
    )
    return _sums_guarantee(privacy, record, setting=setting, public_decision_sets=public_decision_sets)


def tree_guarantee(
    privacy: JointDP, release: TreeRelease, *, setting: Setting, paper_constants: str | None, doubling: bool
) -> Guarantee:
    """The guarantee of `Dubey2021`.

    With `paper_constants` it states the epsilon that the printed scale keeps at this delta, and the one that
    an attack reaches; it is `broken`, with the attack named, where it keeps less than was promised.

    Args:
        release: with `paper_constants` and doubling that of the first epoch, where the printed scales fall
            shortest; else the current one's.
    """
    record, broken_by = release.record(), None
    shown = "current" if paper_constants is None else "first"
    notes = [DOUBLING_NOTE.format(shown=shown)] if doubling else []
    if paper_constants is not None:
        certificate = release.kept_by_scale()
        proven = certificate.epsilon_at(privacy.delta)
        reached = GaussianDP(release.reached / release.sigma).epsilon_at(privacy.delta)
        notes.append(
            f"The noise scale is the printed formula {paper_constants!r} of Dubey2021, "
            f"{release.noise_sd:.6g} a node, for features and rewards of norm at most 1, where epsilon = "
            f"{privacy.epsilon:g} was claimed. At delta = {privacy.delta:g} it keeps epsilon = "
            f"{rounded_up(proven)}, and a likelihood-ratio test between features e_1 and -e_1 in a user's "
            f"first rounds reaches {reached:.4g}."
        )
        record = replace(record, certificate=certificate)
        if certificate.delta_at(privacy.epsilon) > privacy.delta:
            broken_by = TREE_ATTACK if reached > privacy.epsilon else TREE_UNPROVEN
    return _sums_guarantee(
        privacy, record, setting=setting, public_decision_sets=False, notes=tuple(notes), broken_by=broken_by
    )


def cell_release_guarantee(privacy: JointDP, record: MechanismRecord, *, setting: Setting) -> Guarantee:
    """The guarantee of a policy whose only contact with raw data is `CellSums.release`: pure epsilon.

    Args:
        privacy: what was asked for; a delta in it is not used, and not stated.
        record: of the release.
    """
    return _sums_guarantee(
        replace(privacy, delta=0.0),
        replace(record, name=f"{record.name} (the unit is one user's decision set and reward)"),
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
    kept: str = FEATURES_KEPT,
    theorem: str | None = None,
) -> Guarantee:
    """The guarantee of a policy with one mechanism; `broken_by` names the attack on too little noise.

    Args:
        kept: what is seen to before anything is summed.
        theorem: why it holds whatever the source of the noise; by default that of mixed sums.
    """
    sentences.check_noise_status(setting.status)
    assumptions = room_assumptions(
        privacy,
        setting,
        keeps=[kept, DRAWN_ONCE, PUBLIC_COINS],
        trusts=[] if public_decision_sets else [OWN_DECISION],
        chosen="Domain, reward range, horizon, blocks, kernel, features, public decision sets, data given to "
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
                "everyone else, users and outsiders",
                "all other users' decisions, all releases, and everything computed from them",
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
    "replacing one user's rows moves it by at most the computed Euclidean distance, against which the noise "
    "is calibrated. Predictions from it are post-processing."
)
COMPOSITION = (
    "Answers, the release and the histogram, if any, add up by basic composition, and the server refuses "
    "what would go beyond the promise. Explored actions come from public coins and tell nothing; an answer "
    "to one user is computed from the others' data through these mechanisms only (billboard lemma). If a "
    "user has more or fewer rows, up to as many rows of others enter or leave at the end of the horizon. In "
    "total no more rows change than if that user's rows were replaced, and the same bound applies to each."
)
PROPENSITIES = (
    "Propensities, where rows have them, should be a public function of public strata: a wrong one makes "
    "answers worse. What a row can change is bounded whatever it says."
)
PARTS_OF_LOGS = (
    "Where a log is learned in parts, all rows of one person are in one part, and all parts together have no "
    "more rows than the horizon: a part that does not fit is refused as a whole."
)
ANSWER_TIMES = (
    "How long an answer takes depends on the scores, which are private: only the server can measure it."
)
HISTOGRAM_CHARGED = "Whoever drew the histogram of contexts has charged it to the account."
OWN_CONTEXT = (
    "An action reaches the user whose context it is for; that user's own context is not protected from "
    "whoever sees it."
)


def explore_records(
    contexts: ContextLaw, *, answers: tuple[int, float] | None, release: MechanismRecord | None
) -> dict[str, MechanismRecord]:
    """Every use of noise of an `ExploreThenCommit`: "histogram", "answer", "release", where there is one.

    Args:
        contexts: the law of contexts, which may have spent epsilon.
        answers: (how many at most, epsilon of each).
        release: the record of the release, where one is planned.
    """
    records = {}
    if contexts.epsilon > 0.0:
        records["histogram"] = MechanismRecord(
            name="counts of contexts per cell",
            law="discrete Laplace",
            scale=2.0 * contexts.rounds_per_user / contexts.epsilon,
            sensitivity=2.0 * contexts.rounds_per_user,
            certificate=PureDP(contexts.epsilon),
            releases=1,
            unit="in counts, summed over cells",
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
            unit="in ranges of an answer's scores, each computed exactly",
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
    """The guarantee of a whole `ExploreThenCommit`, before any data.

    Args:
        privacy: the total promise.
        contexts: the law of contexts, which may have spent epsilon.
        records: every use of noise, from `explore_records`.
        publish_epsilon: share of the promise that the release has.
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
            "charged to the ledger before it is drawn" if setting.charged else "counted before it leaves"
        )
        rules.append(f"Answers beyond the promise are refused; each, for any context, is {counting}.")
    if release is not None:
        rules.append(DRAWN_ONCE)
    in_common = room_assumptions(
        privacy,
        setting,
        keeps=[
            "Every reward is clipped to the public cap of its cell and turned into an integer before it is "
            "added up; all sensitivities are computed on these integers.",
            *rules,
        ],
        trusts=[
            *([OWN_CONTEXT] if answers is not None else []),
            *([ANSWER_TIMES] if answers is not None else []),
            *([HISTOGRAM_CHARGED] if setting.charged and "histogram" in records else []),
            PARTS_OF_LOGS,
        ],
        chosen="Kernel, actions, reward range, horizon",
        asks=False,
    )
    assumptions = sentences.in_order((*in_common, _contexts_assumption(contexts)))
    return Guarantee(
        definition=privacy,
        observers=(
            shown_to("the server", "every context, action and reward"),
            *([shown_to("everyone", WHEN_ASKED)] if answers is not None else []),
            protected_from(
                "everyone else, users and outsiders",
                "all answers, the released policy and everything computed from them",
            ),
        ),
        mechanisms=tuple(records.values()),
        assumptions=assumptions,
        theorem=" ".join(parts),
        status=setting.status,
        certificate=certificate,
        notes=(
            contexts.describe() + " Where it is wrong, answers are worse; the promise holds all the same.",
            PROPENSITIES,
        ),
    )


def _contexts_assumption(contexts: ContextLaw) -> Assumption:
    if contexts.source != "private histogram":
        return Assumption(text="The law of contexts does not come from the protected people.", enforced=False)
    return kept_if(
        contexts.counted_units,
        f"The histogram of contexts counts at most {counted(contexts.rounds_per_user, 'row')} of a user",
        how=": the first ones count, further ones are dropped.",
        otherwise=" (it was given no user ids).",
    )
