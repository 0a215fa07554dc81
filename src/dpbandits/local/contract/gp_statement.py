"""What one report of a Gaussian-process device promises."""

from typing import Literal

from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, Observer
from dpbandits.privacy.prefix_sums import BlockRelease

__all__ = ["gp_report_guarantee"]


def gp_report_guarantee(
    privacy: JointDP, release: BlockRelease, *, status: Literal["enforced", "simulated"]
) -> Guarantee:
    """The guarantee of one report whose only contact with raw data is `release`."""
    return Guarantee(
        definition=privacy,
        observers=(
            Observer(who="the server", sees="the report's bytes", protected=True),
            Observer(who="everyone else", sees="policies computed from reports", protected=True),
            Observer(who="the user's own device", sees="decision set, choice and reward", protected=False),
        ),
        mechanisms=(release.record(),),
        assumptions=(
            Assumption(
                text="Features and reward are bounded and turned into integers before noise is added.",
                enforced=True,
            ),
            Assumption(
                text="The report is stored before it is sent; a retry sends the same bytes.", enforced=True
            ),
            Assumption(
                text="A device draws one report, and another only with budget in its own ledger.",
                enforced=True,
            ),
            Assumption(
                text="The device's ledger and outbox are durable, and its random numbers unpredictable.",
                enforced=False,
            ),
            Assumption(
                text="Spec, and taking part, were fixed without looking at the user's data.", enforced=False
            ),
        ),
        theorem=(
            "One Gaussian release of an integer vector whose largest move under any two data of the user is "
            "bounded (dpbandits.privacy.gram_vector): the report is private whatever the server does; "
            "choices of other users are post-processing of reports. This is local differential privacy "
            "with delta, which Dubey2021 calls local joint differential privacy."
        ),
        status=status,
        certificate=release.certificate,
        notes=(
            "The unit is whatever the device holds: the server, too, sees the report alone.",
            "That a device took part, when and from where it sent its report, and which published version "
            "it answered, is not hidden.",
        ),
    )
