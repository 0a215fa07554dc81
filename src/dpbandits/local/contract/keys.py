"""`ReportKey`: tags that only who holds a secret can make, for reports that may not be forged.

Without a key anybody who knows the public contract can send reports. With one, a device's report ends with
a tag of 16 bytes over the whole contract and every byte of the report, and a server with the key drops all
others: a report cannot be altered, given another version or another nonce, or made by who has no key.

Who holds the key can forge. One key for all devices keeps strangers out and says nothing of who reports; a
device that is broken into gives it away. A tag is no part of the promise to the user: it is computed from
the report after its noise, and the server learns from it that the key was used.
"""

import hashlib
import hmac
from typing import Any

import numpy as np

from dpbandits._calls import worded
from dpbandits._typing import BoolArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.reports import Contract, Records

__all__ = ["TAG_BYTES", "ReportKey"]

TAG_BYTES = 16

_LEAST, _MOST = 16, hashlib.blake2b.MAX_KEY_SIZE


@worded
class ReportKey:
    """A secret that devices and their server share. Never printed.

    Args:
        secret: from 16 to 64 random bytes, such as `secrets.token_bytes(32)`.

    Raises:
        InvalidParameter: anything else.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
        >>> key = ReportKey(bytes(32))
        >>> client, server = dpb.local.Client(spec), dpb.local.Server(spec, key=key)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> report = client.report(1.0)
        >>> server.absorb([report]).accepted, server.absorb([key.signed(report, spec)]).accepted
        (0, 1)
    """

    def __init__(self, secret: bytes) -> None:
        given: object = secret
        if not isinstance(given, bytes) or not _LEAST <= len(given) <= _MOST:
            raise InvalidParameter(f"secret: expected {_LEAST} to {_MOST} random bytes")
        self._secret = given

    def signed(self, report: bytes, spec: Contract[Any]) -> bytes:
        """The report and its tag: what a device sends."""
        return report + bytes(self._begun(spec, report).digest())

    def genuine(self, records: Records, spec: Contract[Any]) -> BoolArray:
        """(n,) which of n reports of one length end with their tag."""
        bodies, tags = records[:, :-TAG_BYTES], records[:, -TAG_BYTES:]
        begun = self._begun(spec)

        def right(body: Any, tag: Any) -> bool:
            one = begun.copy()
            one.update(body.tobytes())
            return hmac.compare_digest(one.digest(), tag.tobytes())

        return np.fromiter(map(right, bodies, tags), dtype=np.bool_, count=len(records))

    def __repr__(self) -> str:
        return "ReportKey()"

    def _begun(self, spec: Contract[Any], data: bytes = b"") -> Any:
        contract = bytes.fromhex(spec.fingerprint)
        return hashlib.blake2b(contract + data, key=self._secret, digest_size=TAG_BYTES)
