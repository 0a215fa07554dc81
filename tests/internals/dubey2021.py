"""The inside of the printed tree policy, for tests that its tree holds what the paper says it holds."""

from dpbandits.privacy.prefix_sums import RELEASE_UNIT

__all__ = ["epoch_release", "go_to_epoch", "nodes", "released_statistics", "shifted_gram", "weights"]


def nodes(policy):
    """(levels, D) released nodes of the present tree."""
    return policy._nodes


def released_statistics(policy):
    """(Gram, half the vector) of all released sums."""
    released = (policy._carried + policy._nodes.sum(axis=0)) * RELEASE_UNIT
    return policy._mechanism.from_coordinates(released)


def epoch_release(policy):
    """What adds the noise of the present epoch."""
    return policy._epoch_release


def go_to_epoch(policy, epoch):
    """Take another epoch's tree, as a long run would."""
    policy._epoch_release = policy._release_of(epoch)


def weights(policy):
    """(m,) regression weights from the releases."""
    return policy._weights


def shifted_gram(policy):
    """(m, m) the Gram that weights and widths come from."""
    return policy._lower @ policy._lower.T
