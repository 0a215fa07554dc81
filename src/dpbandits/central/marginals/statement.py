"""Statements of the guarantees of marginal tables, for online policies and for logs."""

from collections.abc import Sequence
from dataclasses import replace

from dpbandits.central.marginals.noise import TableNoise, VectorNoise
from dpbandits.central.statement import (
    DRAWN_ONCE,
    KNOWN_PROPENSITIES,
    OWN_DATA,
    OWN_DECISION,
    PARTS_OF_LOGS,
    PROPENSITIES,
    PUBLIC_COINS,
    PURE_NOTE,
    WHEN_ASKED,
    Setting,
    room_assumptions,
)
from dpbandits.privacy import sentences
from dpbandits.privacy.certificates import Certificate, PureDP
from dpbandits.privacy.definitions import JointDP, counted
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord
from dpbandits.privacy.sentences import enforced, protected_from, shown_to, unchecked

__all__ = [
    "AND_ENGINE",
    "ENGINE",
    "changed_arms",
    "logged_tables_guarantee",
    "marginals_guarantee",
    "of_whole_table",
]

THEOREM = (
    "Each round enters one block. Given earlier releases, replacing one user's rounds changes the sums and "
    "counts of their blocks by bounded integers, and no other user's contribution, so discrete Laplace "
    "noise calibrated to the bounds loses at most the stated epsilon over all blocks (parallel composition; "
    "the derivation is in dpbandits.central.marginals.release){counts}.{census} "
    "Actions of other users, predictions and everything else are computed from releases, public coins and "
    "their own user's context, which gives joint differential privacy by the billboard lemma."
)
GAUSSIAN_COUNTS = ", and Gaussian noise on the counts adds its own loss (adaptive composition)"
CENSUS = (
    " The first block is a census: it releases counts of its people in each bin of every range and nothing "
    "else, with noise for the epsilon of the sums, which its rounds use in no other block."
)
SIMULATED_THEOREM = "With noise from a secret source this would hold: {theorem}"


def public_functions(names: Sequence[str]) -> Assumption:
    """Return the assumption on the named functions of actions, which nothing can check."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return unchecked(
        "public functions",
        f"The {listed} of actions: public functions that read no private data and treat each user apart from "
        "all others. They read only what they are given.",
    )


def public_products() -> Assumption:
    """Return the assumption on the features of arms, which nothing can check."""
    return unchecked(
        "public features of arms",
        "The table with the features of the arms is public: nothing in it was computed from private data.",
    )


def changed_arms(count: int) -> Assumption:
    """Return the assumption on changes of arms, which nothing can check; `count` is their number."""
    return unchecked(
        "changes of arms",
        "Which arms are added and retired, how and when, does not depend on private data. It may depend on "
        f"releases. The log of releases lists the {'change' if count == 1 else f'{count} changes'} so far.",
    )


def marginals_guarantee(
    privacy: JointDP,
    records: Sequence[MechanismRecord],
    *,
    certificate: Certificate,
    setting: Setting,
    census: bool = False,
    functions: Sequence[str] = (),
    products: bool = False,
) -> Guarantee:
    """Return the guarantee of a policy whose raw data enters these tables, and a census, and nothing else.

    Args:
        privacy: the promise.
        records: uses of noise; noise on counts of contexts is the last.
        certificate: certificate of all of them together.
        setting: facts about how the policy runs.
        census: True if the first block is a census, whose record is the first.
        functions: public functions of actions that the policy applies: value, shape, bounds.
        products: True if arms have public features.
    """
    sentences.check_noise_status(setting.status)
    pure = isinstance(certificate, PureDP)
    theorem = THEOREM.format(counts="" if pure else GAUSSIAN_COUNTS, census=CENSUS if census else "")
    theorem = sentences.reason(theorem, records[-1].certificate, which=" on the counts")
    notes = (PURE_NOTE.format(delta=privacy.delta),) if pure and privacy.delta else ()
    assumptions = room_assumptions(
        privacy,
        setting,
        keeps=[
            enforced(
                "bounded contributions",
                "Rewards lie in the public range, contexts in public columns; both are turned into integers "
                "and places in tables before they are summed. A user's contributions " + OWN_DATA,
            ),
            DRAWN_ONCE,
            PUBLIC_COINS,
        ],
        trusts=[
            OWN_DECISION,
            *([public_functions(functions)] if functions else []),
            *([public_products()] if products else []),
        ],
        chosen="columns, arms or actions, reward range, horizon, blocks, data given to warm_start",
        asks=True,
    )
    return Guarantee(
        definition=replace(privacy, delta=0.0) if pure else privacy,
        observers=(
            shown_to("the server", "every context and every reward"),
            shown_to("each user", "the user's own decision"),
            shown_to("everyone", WHEN_ASKED),
            protected_from(
                "everybody else",
                "other users' decisions, all releases, and everything computed from them",
            ),
        ),
        mechanisms=tuple(records),
        assumptions=assumptions,
        theorem=theorem if setting.status == "enforced" else SIMULATED_THEOREM.format(theorem=theorem),
        status=setting.status,
        certificate=certificate,
        notes=notes,
    )


LOG_THEOREM = (
    "Every row adds a bounded integer to sums and to counts, so that replacing one user's rows changes them "
    "by bounded amounts; {noise} (derivation: dpbandits.central.logged.tables){counts}. Which "
    "tables there are is fixed before any data. The counts of each column alone are released first, and "
    "the cuts of ranges in all other tables are computed from them; predictions are computed from the "
    "release."
)
AT_THE_END = (
    " If a user has more or fewer rows, up to as many rows of others enter or leave at the end of the "
    "horizon. In total no more rows change than if that user's rows were replaced, and the same bound "
    "applies to each."
)
OWN_ROWS = (
    " Which rows of a user count depends on this user's rows and a secret key alone. So replacing a user "
    "changes which rows of this user count, and no row of others."
)
WHOLE_TABLE = (
    "All rows of the table may count, also beyond the horizon, and each is read by itself. {ids}A row that "
    "cannot be read counts zero. No noise scale depends on the number of rows, except through noisy counts "
    "of contexts."
)
WHOLE_TABLE_OF_IDS = (
    "Of one id's rows, readable or not, an order with a secret key chooses those that count, without looking "
    "at other rows. A row without a readable id counts zero. "
)
ENGINE = unchecked(
    "engine",
    "The engine computes what each statement says, from one state of the table. Each row of a view or an "
    "expression is made from one person's data. Nobody else sees the rows, the engine's errors, logs or "
    "temporary files. It reads ids by a narrower rule: a row counts zero if its id is not printable ASCII, "
    "or is a fraction, a number with an exponent, a date, a time or a boolean.",
)
AND_ENGINE = " and the engine that reads the table"
LAPLACE_NOISE = "discrete Laplace noise calibrated to the bounds loses at most the stated epsilon"
VECTOR_NOISE = "Gaussian noise on both together, as one vector, is calibrated to the Euclidean bound"


DRAWN = {
    "steps": "The log was declared to hold steps of the grid that were all equally likely: rows are not "
    "weighted.",
    "numbers": "The log was declared to hold numbers drawn evenly between low and high: rows are not "
    "weighted, and a number counts as the nearer step.",
    "propensities": "Every row is weighted by 1/K over the chance of its step, K the number of actions. A "
    "row whose chance is missing or outside (0, 1] counts zero.",
    "densities": "Every row is weighted by the even density over its own density, and its number counts as "
    "the nearer step. A row whose density is missing, not positive or not finite counts zero.",
}
"""Notes on the weights of rows with actions, by `ExploreTuning.logged`."""

OWN_WEIGHTS = unchecked(
    "known densities",
    "Propensities or densities of rows are not estimated from the log. Otherwise one user's data would "
    "change how other users' rows count. Each one is that of the draw of its own row's action.",
)


def logged_tables_guarantee(
    privacy: JointDP,
    shares: TableNoise | VectorNoise,
    *,
    records: Sequence[MechanismRecord],
    setting: Setting,
    logged: str | None = None,
    functions: Sequence[str] = (),
    products: bool = False,
) -> Guarantee:
    """Return the guarantee of a log from which one release of tables is the only output.

    Args:
        privacy: Promise.
        shares: Noise.
        records: Uses of noise.
        setting: Facts about how the policy runs.
        logged: `ExploreTuning.logged` of a log of actions; None for arms.
        functions: Public functions of actions that the policy applies: value, shape, bounds.
        products: True if arms have public features.
    """
    sentences.check_noise_status(setting.status)
    certificate = shares.certificate
    pure, vector = isinstance(certificate, PureDP), isinstance(shares, VectorNoise)
    why = (LOG_THEOREM + AT_THE_END).format(
        noise=VECTOR_NOISE if vector else LAPLACE_NOISE, counts="" if pure or vector else GAUSSIAN_COUNTS
    )
    why = sentences.reason(why, records[-1].certificate, which="" if vector else " on the counts")
    assumptions = room_assumptions(
        privacy,
        setting,
        keeps=[
            enforced(
                "bounded contributions",
                "Every reward is weighted, cut at a public bound and turned into an integer before it is "
                "added up. Every cell of a table is read by itself, so that no cell changes how another row "
                "is read.",
            ),
            DRAWN_ONCE,
        ],
        trusts=[
            PARTS_OF_LOGS,
            *([public_products()] if products else []),
            *([KNOWN_PROPENSITIES] if logged is None else []),
            *([OWN_WEIGHTS] if logged in ("propensities", "densities") else []),
            *([public_functions(functions)] if functions else []),
        ],
        chosen="columns, arms or actions, reward range, reference, bound, horizon",
        asks=False,
    )
    notes = (PURE_NOTE.format(delta=privacy.delta),) if pure and privacy.delta else ()
    return Guarantee(
        definition=replace(privacy, delta=0.0) if pure else privacy,
        observers=(
            shown_to("the server", "every context, arm and reward"),
            protected_from("everybody else", "the released function"),
        ),
        mechanisms=tuple(records),
        assumptions=assumptions,
        theorem=why if setting.status == "enforced" else SIMULATED_THEOREM.format(theorem=why),
        status=setting.status,
        certificate=certificate,
        notes=(*notes, PROPENSITIES if logged is None else DRAWN[logged]),
    )


def of_whole_table(found: Guarantee, *, rows: int | None, engine: bool = False) -> Guarantee:
    """Return the guarantee of a log of which all rows are read at once, given that of a log in parts.

    Args:
        found: Result of `logged_tables_guarantee`.
        rows: Largest number of rows of a user id that count; None if rows carry no id.
        engine: True if an engine adds up the rows.
    """
    parts = {
        "one place per row": (
            enforced("whole table", WHOLE_TABLE.format(ids="" if rows is None else WHOLE_TABLE_OF_IDS)),
        ),
        PARTS_OF_LOGS.name: (ENGINE,) if engine else (),
    }
    if rows is not None:
        bound = f"No more than {counted(rows, 'row')} of a user id count, and further ones are dropped."
        parts["contribution bound"] = (enforced("contribution bound", bound),)
    seen, *others = found.observers
    who = f"{seen.who}{AND_ENGINE}" if engine else seen.who
    return replace(
        found,
        observers=(replace(seen, who=who), *others),
        assumptions=tuple(new for one in found.assumptions for new in parts.get(one.name, (one,))),
        theorem=found.theorem.replace(AT_THE_END, OWN_ROWS),
    )
