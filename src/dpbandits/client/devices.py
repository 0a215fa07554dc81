"""`RemoteServer`: a local policy of a service, for people's own devices."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbandits._calls import worded
from dpbandits.client.connection import SENT_TOGETHER, Remote, strange
from dpbandits.errors import InvalidData

if TYPE_CHECKING:
    from dpbandits.local.contract.bins import PublishedArms
    from dpbandits.local.contract.spec import Spec

__all__ = ["RemoteServer"]

_LONGEST_REPORT = 0xFFFF


@worded
class RemoteServer(Remote):
    """A local policy of a service, for people's own devices.

    What is published comes from it, and reports go to it. Each report is private before it leaves the device:
    `local.Client` makes it, and keeps it in its outbox until it was sent.

    Arguments and errors are those of `RemotePolicy`, without a queue; the token has the scope `report`.

    Example:
        >>> RemoteServer("http://127.0.0.1:8080", "tips", token="dpb_of_yours")
        RemoteServer('tips')
    """

    def __init__(self, url: str, name: str, *, token: str, **options: Any) -> None:
        super().__init__("local", url, name, token=token, **options)

    def publish(self) -> "tuple[Spec, PublishedArms]":
        """The contract, and the latest version of it that was published.

        Pin the contract where devices are built: a service that sends another one is refused by whoever does.

        Raises:
            ServiceUnavailable: no answer came.
            InvalidParameter: there is no such local policy, or the token may not ask.
            IncompatibleState: what came is no contract, or does not fit it.
        """
        from dpbandits.local.contract.spec import Spec

        answer = self._made("GET", "/policy", None)
        try:
            spec = Spec.from_json(json.dumps(answer["spec"]))
            return spec, spec.protocol.publishes.from_json(json.dumps(answer["published"]), spec)
        except KeyError:
            raise strange() from None

    def absorb(self, reports: Sequence[bytes]) -> int:
        """Send reports; how many of them were accepted, when they are on the service's disk.

        Those that were not came before, answer a version that is closed, or are no reports of this contract.
        Whatever is raised, send them again: a report that comes twice counts once.

        Raises:
            InvalidData: no reports, or one longer than 65,535 bytes.
            ServiceUnavailable, InvalidParameter: as `publish`.
        """
        accepted = 0
        for first in range(0, len(reports), SENT_TOGETHER):
            part = reports[first : first + SENT_TOGETHER]
            if not {bytes} >= {*map(type, part)} or max(map(len, part)) > _LONGEST_REPORT:
                raise InvalidData(f"absorb: expected reports as bytes, each of at most {_LONGEST_REPORT}")
            body = b"".join(len(one).to_bytes(2, "little") + one for one in part)
            accepted += int(self._made("POST", "/reports", body)["accepted"])
        return accepted
