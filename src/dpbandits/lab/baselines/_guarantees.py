"""What baselines promise: nothing, for one of two reasons."""

from dpbandits.privacy.guarantee import Guarantee, Observer

__all__ = ["no_privacy", "uses_no_data"]


def no_privacy() -> Guarantee:
    """For policies that learn from raw rewards."""
    return Guarantee.without_privacy(
        observers=(
            Observer(
                who="every other user",
                sees="actions computed from everybody's raw decision sets and rewards",
                protected=False,
            ),
            Observer(who="anyone who asks", sees="predictions computed from the same", protected=False),
        ),
        notes=("This policy is a yardstick for private ones. Use it on data that everyone may know.",),
    )


def uses_no_data(reason: str) -> Guarantee:
    """For policies that learn nothing: no promise is needed."""
    return Guarantee.without_privacy(
        observers=(
            Observer(who="every other user", sees="choices that depend on nobody's data", protected=False),
        ),
        notes=(
            f"No promise is needed either: {reason}; no reward and nobody else's decision set enters any "
            "choice.",
        ),
    )
