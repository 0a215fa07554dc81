"""`OpenExploreThenCommit`: `central.ExploreThenCommit` with almost no noise, as a non-private baseline.

It gives no guarantee. It is calibrated to the largest epsilon for which calibration is exact
(`privacy.calibration.LARGEST_EPSILON`), where the noise of a release is smaller than one user's contribution.
"""

from dpbandits.central import ExploreThenCommit
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to

__all__ = ["OpenExploreThenCommit"]


class OpenExploreThenCommit(ExploreThenCommit):
    """Explore-then-commit without privacy; see `lab.twin`.

    Args: See `ExploreThenCommit`. `privacy` only determines how noise is divided between releases. It is not
        guaranteed.

    Privacy: none.
    """

    kind = "baselines.OpenExploreThenCommit"

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee without privacy."""
        return Guarantee.without_privacy(
            observers=(
                shown_to("whoever sees an answer or a release", "what is as good as everybody's raw sums"),
            ),
            notes=("This policy is a yardstick for private ones. Use it on data that everyone may know.",),
        )
