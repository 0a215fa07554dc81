"""What baselines promise: nothing, for one of two reasons."""

from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to

__all__ = ["no_privacy", "uses_no_data"]


def no_privacy() -> Guarantee:
    """For policies that learn from raw rewards."""
    return Guarantee.without_privacy(
        observers=(
            shown_to("every other user", "actions computed from everybody's raw decision sets and rewards"),
            shown_to("anyone who asks", "predictions computed from the same"),
        ),
        notes=("This policy is a yardstick for private ones. Use it on data that everyone may know.",),
    )


def uses_no_data(reason: str) -> Guarantee:
    """For policies that learn nothing: no promise is needed."""
    return Guarantee.without_privacy(
        observers=(shown_to("every other user", "choices that depend on nobody's data"),),
        notes=(
            f"No promise is needed either: {reason}; no reward and nobody else's decision set enters any "
            "choice.",
        ),
    )
