"""The bytes of a report, what it answers, and what a contract says to devices and servers alike.

| bytes | what |
|---|---|
| 1 | format: 0xD1 for bins, 0xD2 for Gaussian processes |
| 4 | digest of the spec |
| 4 | version of what was published and is answered, little-endian |
| 8 | nonce from the operating system |
| 1 | class of epsilon, only where the spec lets users choose one |
| rest | the payload, of a length that the version fixes |

Nothing else leaves a device. The nonce is drawn independently of the user's data and says nothing
about it; it lets the server drop repeated sendings.

One `Client` and one `Server` work for every `Contract`: `Spec` (bins) and `GPSpec` (Gaussian processes). A
contract says how a context becomes a choice, how choice and reward become a private payload, and how payloads
are counted. NumPy and the standard library only: devices read it.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._reading import json_object, reading
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import IncompatibleState
from dpbandits.privacy.definitions import JointDP, LocalDP

if TYPE_CHECKING:
    from dpbandits.local.contract.spec import Spec
    from dpbandits.privacy.guarantee import Guarantee

__all__ = [
    "HEADER_BYTES",
    "NONCE_BYTES",
    "Choice",
    "Contract",
    "Countable",
    "Published",
    "PublishedArms",
    "Records",
    "pack",
    "parse",
]

_DIGEST, _VERSION, _NONCE = slice(1, 5), slice(5, 9), slice(9, 17)
NONCE_BYTES = 8
HEADER_BYTES = 17

Records = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""(n, bytes) reports of one length."""


@dataclass(repr=False, kw_only=True)
class Choice:
    """What a device remembers between choosing and reporting. Never printed: it is the user's data.

    Attributes:
        version: of what was published.
        arm: the arm, or the row of the candidates, that was chosen.
        about: what else the contract needs to make a report.
    """

    version: int
    arm: int
    about: Any


class Published(Protocol):
    """What a server publishes: anybody may read it, and decide with it for ever."""

    @property
    def version(self) -> int:
        """Counts up from 0."""

    def to_json(self, spec: Any) -> str:
        """JSON, with the digest of the spec it belongs to."""

    def check(self, spec: Any) -> None:
        """Refuse what does not fit the spec, with `IncompatibleState`."""


class Countable(Protocol):
    """How payloads of one length are counted: a report mechanism, or integers that add up."""

    @property
    def report_bytes(self) -> int:
        """Bytes of one payload."""

    def valid(self, payloads: Any, /) -> BoolArray:
        """(n,) which payloads a device could have sent."""

    def aggregate(self, payloads: Any, /) -> IntArray:
        """Integer sums of valid payloads; sums of shards add."""


PublishedT_contra = TypeVar("PublishedT_contra", bound=Published, contravariant=True)


class Contract(Protocol[PublishedT_contra]):
    """What devices and server agree on before anyone reports. The first five are the device's part."""

    def own(self, privacy: Any, /) -> LocalDP | JointDP:
        """The promise of one device's reports; None: the contract's own. InvalidParameter for no such."""

    def choose(self, published: PublishedT_contra, context: ArrayLike, privacy: Any, /) -> Choice:
        """The choice of a device with this context; InvalidData for a bad context, nothing is remembered."""

    def exact(self, choice: Choice, reward: Any, /) -> Any:
        """What the report is about, bounded and not yet noised; InvalidData for a reward that is none."""

    def noised(self, choice: Choice, exact: Any, privacy: Any, /) -> bytes:
        """The payload: the one place where raw data meets noise."""

    def statement(self, privacy: Any = None, /) -> "Guarantee":
        """What one report promises."""

    @property
    def report_format(self) -> int:
        """First byte of a report."""

    @property
    def digest(self) -> bytes:
        """Four bytes that every report carries."""

    @property
    def classes(self) -> int:
        """Number of classes that a report may name in the open; 0: it names none."""

    @property
    def window(self) -> int | None:
        """How many versions before the current one are still accepted; None: all."""

    @property
    def reports_per_version(self) -> int:
        """A new version is published after so many reports; 0: whenever the server publishes."""

    @property
    def seed(self) -> int:
        """Public randomness of the server."""

    def counted_by(self, published: PublishedT_contra, /) -> tuple[Countable, ...]:
        """How reports that answer this are counted, one a class."""

    def read_published(self, text: str, /) -> Any:
        """What `Published.to_json` wrote."""

    def to_json(self) -> str:
        """Canonical JSON."""


def pack(*, spec: Contract[Any], version: int, nonce: bytes, payload: bytes) -> bytes:
    """One report."""
    return bytes([spec.report_format]) + spec.digest + version.to_bytes(4, "little") + nonce + payload


def parse(
    records: Records, spec: Contract[Any]
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
    head = np.frombuffer(bytes([spec.report_format]) + spec.digest, dtype=np.uint8)
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

    def to_json(self, spec: "Spec") -> str:
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
    def from_json(cls, text: str, spec: "Spec") -> Self:
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

    def check(self, spec: "Spec") -> None:
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
