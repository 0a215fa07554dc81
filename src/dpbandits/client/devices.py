"""`RemoteServer`: a local policy of a service, for users' own devices."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbandits._calls import worded
from dpbandits.client.connection import SENT_TOGETHER, Remote, strange
from dpbandits.errors import InvalidData

if TYPE_CHECKING:
    from dpbandits.local.contract.bins import PublishedArms
    from dpbandits.local.contract.readout import ReadoutSpec
    from dpbandits.local.contract.spec import Spec

__all__ = ["RemoteServer"]

_LONGEST_REPORT = 0xFFFF


@worded
class RemoteServer(Remote):
    """Local policy of a service, for users' own devices.

    A device fetches the published version and sends reports. `local.Client` makes each report private on the
    device and stores it in its outbox until it is sent.

    Arguments and errors are those of `RemotePolicy`, without a queue. The token needs the scope `report`.

    Example:
        >>> RemoteServer("http://127.0.0.1:8080", "tips", token="dpb_of_yours")
        RemoteServer('tips')
    """

    def __init__(self, url: str, name: str, *, token: str, **options: Any) -> None:
        super().__init__("local", url, name, token=token, **options)

    def publish(self) -> "tuple[Spec | ReadoutSpec, PublishedArms]":
        """Return the contract and the latest published version.

        Build the contract into devices: they then refuse a service that sends another one.

        Raises:
            ServiceUnavailable: no answer came.
            InvalidParameter: there is no such local policy, or the token lacks the scope.
            IncompatibleState: the answer is not a contract, or the published version does not fit it.
        """
        from dpbandits.local.contract.readout import read_spec

        answer = self._made("GET", "/policy", None)
        try:
            spec = read_spec(json.dumps(answer["spec"]))
            return spec, spec.protocol.publishes.from_json(json.dumps(answer["published"]), spec)
        except KeyError:
            raise strange() from None

    def absorb(self, reports: Sequence[bytes]) -> int:
        """Send reports; return the number accepted, once they are durable on the service's disk.

        The other reports are repetitions, answer a closed version, or do not fit this contract. After any
        error send all reports again: a repeated report counts once.

        Raises:
            InvalidData: an entry is not bytes, or has more than 65,535 bytes.
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
