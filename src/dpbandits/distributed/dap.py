"""Sums of two aggregators that speak DAP-09, fetched and decoded for the collector (`DapCollector`).

It is experimental. A version is one DAP task: a Prio3Histogram of the spec's L buckets (VDAF-08), and one
batch, which is all of the task's reports. Reports carry time zero, because the task's time precision exceeds
every clock. The leader answers with two shares of the noisy sum, each encrypted for the collector (HPKE, RFC
9180, base mode, with X25519, HKDF-SHA256 and AES-128-GCM). A share is L integers below `MODULUS`, 16 bytes
each, little-endian. The shares add up to the noisy sum, where values above half of the modulus are negative.

Both drafts will change before they are standards, and the standards will not understand these messages.
"""

import hashlib
import hmac
import json
import math
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an, integer, number
from dpbandits._lazy import needing
from dpbandits._seen import Seen, said
from dpbandits._typing import IntArray
from dpbandits.distributed.aggregation import Aggregate
from dpbandits.distributed.published import PublishedCellArms, PublishedVersion
from dpbandits.distributed.spec import MOST_REPORTS, DistributedSpec
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError, ServiceUnavailable

__all__ = ["DapCollector", "DapTask", "decode_sums", "open_sealed"]

MODULUS = 2**66 * 4611686018427387897 + 1
"""Number of elements of VDAF's Field128."""

ELEMENT = 16
"""Bytes of a field element."""

DURATION = 2**32
"""Time precision and length of a task's only interval, in seconds: later than every clock."""

TIMEOUT = 30.0
"""Seconds to wait for one answer of the leader."""

_PAUSE = 0.2  # seconds between two questions for one batch
_KEY = 32  # bytes of an X25519 key
_TIME_INTERVAL = b"\x01"
_LARGEST = 1 << 20  # bytes of an answer: two shares of 2,049 buckets need 66 kB


class DapTask(NamedTuple):
    """Public parameters of one version's task, for devices and aggregators.

    Attributes:
        id: Identifier of the task, 32 bytes, which depends on the spec and the version alone.
        length: Number L of buckets.
        chunk: Chunk length of the proof, the integer root of L.
        min_batch: Smallest number of reports in a released sum.
        rate: Rate of each aggregator's noise as a fraction (numerator, denominator).
    """

    id: bytes
    length: int
    chunk: int
    min_batch: int
    rate: tuple[int, int]

    @classmethod
    def of(cls, spec: DistributedSpec, version: int) -> "DapTask":
        """Return the task of a version. Raise InvalidParameter if its devices do not report."""
        task = spec.task(version)
        text = f"dpbandits dap-09 task {spec.fingerprint} {task.version}".encode()
        rate = spec.histogram.rate.as_integer_ratio()
        return cls(hashlib.sha256(text).digest(), task.length, math.isqrt(task.length), task.min_batch, rate)

    @property
    def name(self) -> str:
        """Identifier in the base64 of URLs, 43 letters."""
        return _named(self.id)


def decode_sums(shares: Sequence[bytes], length: int) -> IntArray:
    """Return the sums (L,) that shares of 16 L bytes add up to; those above half of the modulus are negative.

    Raises:
        InvalidData: A share has another length or an element outside the field, or a sum exceeds 2^53.
    """
    total = [0] * length
    for share in shares:
        if len(share) != ELEMENT * length:
            raise InvalidData(f"share: {len(share)} bytes, expected {ELEMENT * length}")
        words = np.frombuffer(share, dtype="<u8").reshape(length, 2).tolist()
        elements = [low + (high << 64) for low, high in words]
        if max(elements) >= MODULUS:
            raise InvalidData("share: a number is not in the field")
        total = [before + one for before, one in zip(total, elements, strict=True)]
    sums = [(one + MODULUS // 2) % MODULUS - MODULUS // 2 for one in total]
    if max(map(abs, sums)) > MOST_REPORTS:
        raise InvalidData("shares: they do not belong together, or an aggregator falsified its own")
    return np.array(sums, dtype=np.int64)


def open_sealed(private_key: bytes, *, enc: bytes, info: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Decrypt one HPKE message: RFC 9180, base mode, X25519, HKDF-SHA256, AES-128-GCM.

    Raises:
        InvalidData: The message is not for this key, or was changed.
        MissingExtra: The package cryptography is not installed.
    """
    with needing("sums of aggregators need the package cryptography: pip install 'dpbandits[encryption]'"):
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    private = X25519PrivateKey.from_private_bytes(private_key)
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
        kem, hpke = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"
        context = enc + private.public_key().public_bytes_raw()
        secret = _expand(kem, _extract(kem, b"", b"eae_prk", shared), b"shared_secret", context, 32)
        schedule = (
            b"\x00" + _extract(hpke, b"", b"psk_id_hash", b"") + _extract(hpke, b"", b"info_hash", info)
        )
        derived = _extract(hpke, secret, b"secret", b"")
        key, nonce = (
            _expand(hpke, derived, b"key", schedule, 16),
            _expand(hpke, derived, b"base_nonce", schedule, 12),
        )
        return AESGCM(key).decrypt(nonce, ciphertext, aad)
    except (InvalidTag, ValueError):
        raise InvalidData(
            "the share cannot be decrypted: another key, another task, or changed bytes"
        ) from None


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """Return at most 32 bytes, so that HKDF needs one block."""
    text = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, text + b"\x01", "sha256")[:length]


class _Reader:
    """Reads a message of DAP from its start."""

    def __init__(self, message: bytes) -> None:
        self._left = message

    def take(self, count: int) -> bytes:
        if count > len(self._left):
            raise InvalidData("the leader's answer is too short")
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def opaque(self, size: int) -> bytes:
        return self.take(int.from_bytes(self.take(size), "big"))

    def end(self) -> None:
        if self._left:
            raise InvalidData("the leader's answer is too long")


class _NoRedirect(HTTPRedirectHandler):
    """Refuses to send the token to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


@worded
class DapCollector(Seen):
    """Fetches the noisy sums of a spec's versions from the leader of two aggregators. Experimental.

    Args:
        spec: The public contract.
        leader: Address of the leader: https, or http on this machine.
        token: Secret with which the collector is known to the leader. It is never printed.
        private_key: X25519 key of the collector, 32 bytes. The aggregators have its public key.

    Privacy: a share has its noise before it is encrypted, so what this object decrypts is a release. A
    version's sum is one job of the leader, whose identifier depends on the task alone. Asking again, after a
    crash too, returns the same sum.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.distributed.DistributedSpec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.DistributedDP(epsilon=1), horizon=1000)
        >>> sums = DapCollector(spec, leader="https://leader.example/", token="secret", private_key=bytes(32))
        >>> sums.task(0).length, sums.task(0).chunk
        (51, 7)
    """

    def __init__(self, spec: DistributedSpec, *, leader: str, token: str, private_key: bytes) -> None:
        self.spec = an(spec, DistributedSpec, name="spec", pass_="the DistributedSpec of the devices")
        an(token, str, name="token", pass_="the token that the leader knows")
        an(private_key, bytes, name="private_key", pass_="32 bytes")
        if not (token.isascii() and token.isprintable() and len(private_key) == _KEY):
            raise InvalidParameter(f"token, private_key: expected printable ASCII, and {_KEY} bytes")
        self._leader, self._token, self._key = _address(leader, "leader"), token, private_key

    def task(self, version: int) -> DapTask:
        """Return the task of a version. Raise InvalidParameter if its devices do not report."""
        return DapTask.of(self.spec, version)

    def policy(self, published: PublishedVersion, *, helper: str) -> str:
        """Return the public text that devices in browsers fetch: spec, version, and both aggregators.

        Serve it as `policy` below the `url` of the devices. The npm package `dpbandits/distributed` reads it.

        Args:
            published: The collector's present version.
            helper: Address of the helper: https, or http on this machine.

        Raises:
            IncompatibleState: The version does not fit the spec.
            InvalidParameter: The helper's address cannot be used, or the version has marginal tables, which
                devices in browsers do not read.
        """
        an(published, PublishedCellArms, name="published", pass_="a version with cells, for few columns")
        told = [self.spec.to_json(), published.to_json(self.spec)]
        told += map(json.dumps, (self._leader, _address(helper, "helper")))
        return '{{"spec":{},"published":{},"leader":{},"helper":{}}}'.format(*told)

    def collect(self, version: int, *, wait: float = 60.0) -> Aggregate:
        """Return the noisy sum of a version's reports. The first call closes a batch that is large enough.

        Args:
            version: Number of the version.
            wait: Longest time in seconds to wait for the aggregators.

        Raises:
            ProtocolError: The batch is too small or not ready yet, or the leader refuses.
            ServiceUnavailable: The leader does not answer.
            InvalidData: The answer is no pair of shares for this key.
        """
        until = time.monotonic() + number(wait, name="wait", minimum=0.0)
        task = self.task(integer(version, name="version", minimum=0))
        job = f"tasks/{task.name}/collection_jobs/{_named(hashlib.sha256(task.id).digest()[:16])}"
        self._ask("PUT", job, _selector() + bytes(4))
        while True:
            status, answer = self._ask("POST", job, b"")
            if status == 200:
                return self.read(version, answer)
            if time.monotonic() + _PAUSE > until:
                raise ProtocolError(
                    f"version {version} is not released yet: its batch needs {task.min_batch} valid reports. "
                    "Ask again, or leave the version out with Collector.skip()"
                )
            time.sleep(_PAUSE)

    def read(self, version: int, answer: bytes) -> Aggregate:
        """Return the sum in a leader's answer, DAP's `Collection`. Raise InvalidData if it cannot be read."""
        task, reader = self.task(version), _Reader(answer)
        if reader.take(1) != _TIME_INTERVAL:
            raise InvalidData("the leader answers for another kind of batch")
        reports = int.from_bytes(reader.take(8), "big")
        if reports > MOST_REPORTS:
            raise InvalidData("the leader counts more reports than there may be")
        reader.take(16)
        shares = []
        for role in (2, 3):
            reader.take(1)
            enc, ciphertext = reader.opaque(2), reader.opaque(4)
            info = b"dap-09 aggregate share" + bytes((role, 0))
            aad = task.id + bytes(4) + _selector()
            shares.append(open_sealed(self._key, enc=enc, info=info, aad=aad, ciphertext=ciphertext))
        reader.end()
        return Aggregate(version=version, sums=decode_sums(shares, task.length), reports=reports)

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"DAP-Auth-Token": self._token, "Content-Type": "application/dap-collect-req"}
        address = self._leader + path
        asked = Request(address, data=body, method=method, headers=headers)  # noqa: S310 - checked above
        try:
            # over http the leader is on this machine: a proxy of the environment would read the token
            proxies = [ProxyHandler({})] if urlsplit(address).scheme == "http" else []
            with build_opener(_NoRedirect, *proxies).open(asked, timeout=TIMEOUT) as answer:
                return answer.status, answer.read(_LARGEST)
        except HTTPError as error:
            error.close()
            if error.code >= 500:
                raise ServiceUnavailable(f"the leader answers {error.code}: try again later") from None
            raise ProtocolError(
                f"the leader refuses the sum of this version with status {error.code}"
            ) from None
        except (OSError, HTTPException):
            raise ServiceUnavailable("the leader does not answer: try again later") from None

    def __repr__(self) -> str:
        return said(self, epsilon=self.spec.privacy.epsilon, buckets=self.spec.length)


def _address(given: str, name: str) -> str:
    """Return an aggregator's address with a slash at its end. Raise InvalidParameter if it cannot be used."""
    an(given, str, name=name, pass_=f'{name}="https://{name}.example/"')
    with suppress(ValueError):
        address = urlsplit(given)
        here = address.scheme == "http" and address.hostname in ("127.0.0.1", "::1", "localhost")
        plain = json.dumps(given) == f'"{given}"' and not (
            address.query or address.fragment or address.username
        )
        if address.hostname and plain and (here or address.scheme == "https"):
            return given.rstrip("/") + "/"
    raise InvalidParameter(f"{name}: expected an address with https, or with http on this machine")


def _selector() -> bytes:
    """Return DAP's selector of a task's only batch: all times from 0 to `DURATION`."""
    return _TIME_INTERVAL + bytes(8) + DURATION.to_bytes(8, "big")


def _named(identifier: bytes) -> str:
    return urlsafe_b64encode(identifier).decode().rstrip("=")
