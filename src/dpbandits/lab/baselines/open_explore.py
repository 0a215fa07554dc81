"""`central.ExploreThenCommit` without privacy: the same calls, and as good as no noise.

It promises nothing, and is calibrated to the largest epsilon that calibration is exact for
(`privacy.calibration.LARGEST_EPSILON`), where the noise of a release is small beside one person's part of it.
"""

from dpbandits.central import ExploreThenCommit
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to

__all__ = ["OpenExploreThenCommit"]


class OpenExploreThenCommit(ExploreThenCommit):
    """Explore, then answer or publish, without privacy; see `lab.twin`.

    Args: as for `ExploreThenCommit`; `privacy` says how noise is divided, and is no promise.

    Privacy: none.
    """

    kind = "baselines.OpenExploreThenCommit"

    @property
    def guarantee(self) -> Guarantee:
        """None is given."""
        return Guarantee.without_privacy(
            observers=(
                shown_to("whoever sees an answer or a release", "what is as good as everybody's raw sums"),
            ),
            notes=("This policy is a yardstick for private ones. Use it on data that everyone may know.",),
        )
