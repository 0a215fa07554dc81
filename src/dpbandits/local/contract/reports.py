"""The bytes of a report, and of the policy it answers.

| bytes | what |
|---|---|
| 1 | format, 0xD1 |
| 4 | digest of the spec |
| 4 | version of the policy answered, little-endian |
| 8 | nonce from the operating system |
| 1 | class of epsilon, only where the spec lets users choose one |
| rest | the mechanism's payload, of a length that the version fixes |

Nothing else leaves a device. The nonce is drawn independently of the user's data and says nothing
about it; it lets the server drop repeated sendings.
"""

import json
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState
from dpbandits.local.contract.spec import Spec

__all__ = ["HEADER_BYTES", "NONCE_BYTES", "PublishedArms", "Records", "pack", "parse"]

_FORMAT = 0xD1
_DIGEST, _VERSION, _NONCE = slice(1, 5), slice(5, 9), slice(9, 17)
NONCE_BYTES = 8
HEADER_BYTES = 17

Records = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""(n, bytes) reports of one length."""


def pack(*, digest: bytes, version: int, nonce: bytes, payload: bytes) -> bytes:
    """One report."""
    return bytes([_FORMAT]) + digest + version.to_bytes(4, "little") + nonce + payload


def parse(
    records: Records, digest: bytes
) -> tuple[
    "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    IntArray,
    "np.ndarray[tuple[int], np.dtype[np.uint64]]",
    Records,
]:
    """Headers of n records of one length, at least `HEADER_BYTES`.

    Returns:
        (n,) whether format and spec digest are right, (n,) versions, (n,) nonces, (n, rest) payloads.
    """
    head = np.frombuffer(bytes([_FORMAT]) + digest, dtype=np.uint8)
    sound = (records[:, :5] == head).all(axis=1)
    versions = np.ascontiguousarray(records[:, _VERSION]).view("<u4")[:, 0].astype(np.int64)
    nonces = np.ascontiguousarray(records[:, _NONCE]).view("<u8")[:, 0].astype(np.uint64)
    return np.asarray(sound), versions, nonces, records[:, HEADER_BYTES:]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedArms:
    """What the server tells everyone: bins and, for each, an arm or probabilities of arms.

    Attributes:
        version: counts up from 0.
        splits: split nodes in order; `spec.partition(splits)` rebuilds the bins.
        arms: (L,) the arm every bin pulls (server-assigned arms), or None.
        weights: (L, K) probabilities of arms (arms chosen by users), or None.
    """

    version: int
    splits: tuple[int, ...]
    arms: IntArray | None = None
    weights: FloatArray | None = None

    def to_json(self, spec: Spec) -> str:
        """JSON, with the digest of the spec it belongs to."""
        return json.dumps(
            {
                "kind": "PublishedPolicy",
                "spec": spec.digest.hex(),
                "version": self.version,
                "splits": list(self.splits),
                "arms": None if self.arms is None else self.arms.tolist(),
                "weights": None if self.weights is None else self.weights.tolist(),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str, spec: Spec) -> Self:
        """Read a policy and check that it belongs to the spec and is whole.

        Raises:
            IncompatibleState: anything else.
        """
        config = json_object(text, "the JSON of a PublishedArms", IncompatibleState)
        with reading("the JSON of a PublishedArms", IncompatibleState):
            if config["kind"] != "PublishedPolicy" or config["spec"] != spec.digest.hex():
                raise IncompatibleState("the policy belongs to another spec: ask the server for both again")
            arms, weights = config["arms"], config["weights"]
            policy = cls(
                version=int(config["version"]),
                splits=tuple(int(node) for node in config["splits"]),
                arms=None if arms is None else np.array(arms, dtype=np.int64),
                weights=None if weights is None else np.array(weights, dtype=np.float64),
            )
        policy.check(spec)
        return policy

    def check(self, spec: Spec) -> None:
        """Refuse a policy that does not fit the spec.

        Raises:
            IncompatibleState: the shapes, arms or probabilities are impossible.
        """
        n_leaves = len(self.splits) + 1
        if not 0 <= self.version < 1 << 32 or n_leaves > spec.max_leaves:
            raise IncompatibleState("the policy's version or number of bins is outside what the spec allows")
        if spec.arms == "server":
            good = self.arms is not None and self.weights is None and self.arms.shape == (n_leaves,)
            good = (
                good and self.arms is not None and bool(((self.arms >= 0) & (self.arms < spec.n_arms)).all())
            )
        else:
            good = self.weights is not None and self.arms is None
            if good and self.weights is not None:
                good = self.weights.shape == (n_leaves, spec.n_arms)
                good = good and bool(
                    (self.weights >= 0).all() and np.allclose(self.weights.sum(axis=-1), 1.0)
                )
        if not good:
            raise IncompatibleState("the policy's arms do not fit the spec and its bins")
