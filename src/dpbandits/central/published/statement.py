"""What the published tree policy really promises, also with its printed constants."""

from dataclasses import replace

from dpbandits.central.published.printed import Formula
from dpbandits.central.statement import release_guarantee
from dpbandits.privacy.calibration import GaussianDP, ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, Status
from dpbandits.privacy.prefix_sums import TreeRelease

__all__ = ["tree_guarantee"]

ATTACK = (
    "likelihood-ratio test on the stacked tree nodes between two neighbours that the promise covers, "
    "features e_1 and -e_1 with reward 1, which reaches the real epsilon stated below "
    "(dpbandits.privacy.prefix_sums.tree, tests of attacks on adaptive streams). A feature map "
    "without opposite vectors gives away less: what its own vectors can move."
)

DOUBLING_NOTE = (
    "The horizon is unknown: epochs double in length and each has a tree of its own with the scale that "
    "its own number of levels needs (the one shown is the current epoch's). A user with k_e of k rounds "
    "in epoch e spends the share (k_e/k)^2 of the squared privacy loss there, and the shares sum to at "
    "most one."
)


def tree_guarantee(
    privacy: JointDP,
    release: TreeRelease,
    *,
    status: Status,
    user_ids: bool,
    witnessed: bool,
    paper_constants: Formula | None,
    doubling: bool,
) -> Guarantee:
    """The guarantee of `Dubey2021`.

    With `paper_constants` it states the epsilon that the printed scale really gives at this delta; it
    is `broken`, with the attack named, where that is more than was promised.

    Args:
        release: with `paper_constants` and doubling that of the first epoch, where the printed scales fall
            shortest; else the current one's.
    """
    notes = (DOUBLING_NOTE,) if doubling else ()
    if paper_constants is None:
        return release_guarantee(
            privacy,
            release.record(),
            status=status,
            user_ids=user_ids,
            witnessed=witnessed,
            public_decision_sets=False,
            notes=notes,
        )
    distance = release.sensitivity / release.sigma
    certificate = ZeroConcentratedDP(0.5 * distance**2) if status == "enforced" else GaussianDP(distance)
    real = certificate.epsilon_at(privacy.delta)
    notes = (
        *notes,
        f"The noise scale is the printed formula {paper_constants!r} of Dubey2021, "
        f"{release.noise_sd:.6g} a node. "
        f"At delta = {privacy.delta:g} it really gives epsilon = {real:.4g}, where {privacy.epsilon:g} was "
        "claimed, for features and rewards of norm at most 1.",
    )
    return release_guarantee(
        privacy,
        replace(release.record(), certificate=certificate),
        status=status,
        user_ids=user_ids,
        witnessed=witnessed,
        public_decision_sets=False,
        notes=notes,
        broken_by=ATTACK if certificate.delta_at(privacy.epsilon) > privacy.delta else None,
    )
