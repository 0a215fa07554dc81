"""The statement that a trusted server makes about block release, part by part."""

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import NearGaussianDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer, Status
from dpbandits.privacy.prefix_sums import BlockRelease

__all__ = ["block_release_guarantee", "release_guarantee"]

PUBLIC_SETS_NOTE = (
    "Decision sets are declared public: this promise covers rewards only. Everybody may learn what every "
    "user was offered and, since choices follow from releases and public coins, what every user was given."
)

THEOREM = (
    "Between two neighbours every release is discrete Gaussian noise on integer vectors whose distance is "
    "bounded on every path of past releases, so the losses add up by fully adaptive composition of "
    "zero-concentrated differential privacy (Canonne, Kamath, Steinke 2020); the bound is the largest "
    "column norm of the mixing matrix times one user's contribution, rounding included (the derivation "
    "stands in dpbandits.privacy.prefix_sums). Actions of other users, predictions and everything else are "
    "computed from releases, public coins and their own user's decision set, which gives joint "
    "differential privacy by the billboard lemma."
)

NEAR_GAUSSIAN_THEOREM = (
    " The scale rests on a closer certificate: all draws together are within the stated total variation of "
    "rounded real-valued Gaussian noise, whose stream of releases is a Gaussian matrix mechanism on an "
    "adaptive stream (Denisov et al. 2022; Smith, Thakurta 2022). Its delta, and 1 + e to the epsilon times "
    "that distance, add up to at most the promised delta."
)
"""Follows `THEOREM` where the certificate is `NearGaussianDP`."""

SIMULATED_THEOREM = (
    "With real-valued Gaussian noise from a secret source the stream of releases would be a Gaussian matrix "
    "mechanism on an adaptive stream (Denisov et al. 2022) and everything else post-processing."
)


def block_release_guarantee(
    privacy: JointDP,
    release: BlockRelease,
    *,
    status: Status,
    user_ids: bool,
    witnessed: bool,
    public_decision_sets: bool,
) -> Guarantee:
    """The guarantee of a policy whose only contact with raw data is `release`.

    Args:
        privacy: the definition and its numbers.
        release: the calibrated mechanism.
        status: of the noise source.
        user_ids: whether the policy counts each user's rounds.
        witnessed: whether a ledger refuses a second copy of a saved state.
        public_decision_sets: whether only rewards are protected.
    """
    what = "reward" if public_decision_sets else "decision set and reward"
    statistics = (
        "sums of centred rewards times features"
        if public_decision_sets
        else "sums of phi phi^T and of centred rewards times features"
    )
    record = MechanismRecord(
        name=f"{statistics} (the unit is one user's {what}), mixed over the blocks",
        law="discrete Gaussian" if status == "enforced" else "rounded Gaussian",
        scale=release.sigma,
        sensitivity=release.sensitivity,
        certificate=release.certificate,
        releases=release.factor.n_blocks,
        unit="in lattice units of 2^-20",
    )
    return release_guarantee(
        privacy,
        record,
        status=status,
        user_ids=user_ids,
        witnessed=witnessed,
        public_decision_sets=public_decision_sets,
    )


def release_guarantee(
    privacy: JointDP,
    record: MechanismRecord,
    *,
    status: Status,
    user_ids: bool,
    witnessed: bool,
    public_decision_sets: bool,
    notes: tuple[str, ...] = (),
    broken_by: str | None = None,
) -> Guarantee:
    """The guarantee of a central policy with one mechanism, whatever it releases.

    Args:
        privacy: the definition and its numbers.
        record: the mechanism, with its certificate.
        status: of the noise source.
        user_ids, witnessed, public_decision_sets: as in `block_release_guarantee`.
        notes: further sentences.
        broken_by: the attack, where the noise is less than the promise needs.
    """
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(f"status is {status!r}: block release is enforced or simulated")
    rounds = "1 round" if privacy.rounds_per_user == 1 else f"{privacy.rounds_per_user} rounds"
    reaches = "" if public_decision_sets else "Each decision reaches its own user only. "
    unchecked = [
        "Domain, reward range, horizon, blocks, kernel, features, public decision sets, data given to "
        "warm_start and every other parameter were chosen without looking at the private data.",
        "Users come in the same order, whatever one of them brings. A refused ask takes no round, and all "
        "who follow move up: check decision sets before a user's turn, or repair them and ask again.",
        f"{reaches}All of one person's rounds carry that person's one id." if user_ids else reaches.strip(),
        "Nothing else is computed from the same people's data, a fresh start of this policy included; or its "
        "promise is added to this one (an account of a ledger does so).",
        "The server, its memory, its saved state and the operating system's random numbers are out of the "
        "attacker's reach, and so are response times.",
    ]
    enforced = [
        "Feature vectors have norm at most 1 and rewards lie in the public range: both are bounded and "
        "turned into integers before they are summed, and the bound is checked on the integers.",
        "A round belongs to the block of its ask. A reward that is missing, refused, abandoned or late "
        "contributes nothing, and moves nobody else to another block.",
        "Noise is drawn once per release and never drawn again. From the first save on it is stored with its "
        "release before anything is computed from them, and a restart goes on from there.",
        "Every random choice made in public comes from coins keyed by (seed, purpose, round); nothing that "
        "is accepted from one user can shift anybody else's coins.",
    ]
    contribution = f"No user id takes part in more than {rounds}: one more ask is refused."
    if user_ids:
        enforced.append(contribution)
    else:
        unchecked.append(f"No user takes part in more than {rounds} (asks carry no user id).")
    copies = "Only one copy of a saved state goes on"
    if witnessed:
        enforced.append(f"{copies}: the ledger refuses a second one.")
    else:
        unchecked.append(f"{copies} (attach a ledger to have this checked).")
    return Guarantee(
        definition=privacy,
        observers=(
            Observer(who="the server", sees="every decision set and every reward", protected=False),
            Observer(who="each user", sees="the user's own decision", protected=False),
            Observer(
                who="everyone else, users and outsiders",
                sees="all other users' decisions, all releases, and everything computed from them",
                protected=True,
            ),
        ),
        mechanisms=(record,),
        assumptions=(
            *(Assumption(text=text, enforced=True) for text in enforced),
            *(Assumption(text=text, enforced=False) for text in unchecked if text),
        ),
        theorem=_theorem(record, status),
        status="broken" if broken_by else status,
        certificate=None if broken_by else record.certificate,
        attack=broken_by,
        unit=_reward_unit(privacy) if public_decision_sets else "",
        neighbours=_REWARD_NEIGHBOURS if public_decision_sets else "",
        notes=(PUBLIC_SETS_NOTE, *notes) if public_decision_sets else notes,
    )


_REWARD_NEIGHBOURS = (
    "two histories are neighbours when one user's rewards (and whether they were reported) are replaced "
    "by any others and all decision sets and everybody else's rewards are unchanged"
)


def _reward_unit(privacy: JointDP) -> str:
    rounds = "1 round" if privacy.rounds_per_user == 1 else f"{privacy.rounds_per_user} rounds"
    return f"one user: the rewards of at most {rounds}"


def _theorem(record: MechanismRecord, status: Status) -> str:
    if status != "enforced":
        return SIMULATED_THEOREM
    return THEOREM + NEAR_GAUSSIAN_THEOREM if isinstance(record.certificate, NearGaussianDP) else THEOREM
