"""`ReportKey`: authentication tags on reports, which only clients with a shared secret can make.

Without a key, anybody who knows the public contract can send reports. With one, each report ends with a tag
of 16 bytes over the whole contract and every byte of the report. A server with the key drops all other
reports: without the key, nobody can make a report, or change its version, its nonce or any other part.

The key's owner can forge reports. One key for all clients excludes strangers and does not tell users apart;
an attacker who breaks into one device learns it. A tag does not change the user's guarantee: it is computed
from the report after its noise, and the server only learns that the key was used.
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
    """A secret that clients and their server share. It is never printed.

    Args:
        secret: 16 to 64 random bytes, such as `secrets.token_bytes(32)`.

    Raises:
        InvalidParameter: the secret is not of type bytes, or has another length.

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
        """Return the report followed by its tag, as a client sends it."""
        return report + bytes(self._begun(spec, report).digest())

    def genuine(self, records: Records, spec: Contract[Any]) -> BoolArray:
        """Return True for each of n reports of one length that ends with its right tag, shape (n,)."""
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
