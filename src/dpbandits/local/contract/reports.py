"""The bytes of a report, what it answers, and what a contract says to devices and servers alike.

A report is a header (format, digest of the spec, version that is answered, nonce, and a class of epsilon
where the spec has several) and a payload, of a length that the version fixes:
see `docs/reference/byte-formats.md`.

Nothing else leaves a device. The nonce is drawn independently of the user's data and says nothing
about it; it lets the server drop repeated sendings.

One `Client` and one `Server` work for every `Contract`: `Spec` (bins) and `GPSpec` (Gaussian processes). A
contract says how a context becomes a choice, how choice and reward become a private payload, and how payloads
are counted. NumPy and the standard library only: devices read it.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._calls import worded
from dpbandits._checks import an, as_points, assign
from dpbandits._config import Configured
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, no_such
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.box import Box
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import IncompatibleState, InvalidData, InvalidParameter

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee, Status

__all__ = [
    "DEADLINE",
    "DIGEST",
    "HEADER_BYTES",
    "NONCE",
    "NONCE_BYTES",
    "VERSION",
    "Chosen",
    "Contract",
    "Published",
    "PublishedT",
    "Records",
    "ReportProtocol",
    "Written",
    "check_points",
    "pack",
    "parse",
    "read_only",
    "read_points",
    "read_reward",
]

DIGEST, VERSION, NONCE = slice(1, 5), slice(5, 9), slice(9, 17)
NONCE_BYTES = 8
HEADER_BYTES = 17

DEADLINE = 86_400.0
"""Seconds after which a choice without a reward is reported, where a spec says nothing: one day."""

Records = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""(n, bytes) reports of one length."""


@dataclass(repr=False, kw_only=True)
class Chosen:
    """Data that a device remembers between choosing and reporting. It is the user's data and is never
    printed.

    Attributes:
        version: of what was published.
        arm: the arm, or the row of the candidates, that was chosen.
        about: what else the contract needs to make a report.
        missing: whether the context could not be read: the report then says nothing of it.
        clipped: whether it was moved into the domain.
        unavailable: whether another arm is given than the one that a report would be of: what is available
            left that out, or could not be read. The report then says nothing of it either.
    """

    version: int
    arm: int
    about: Any
    missing: bool = False
    clipped: bool = False
    unavailable: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Published(Seen, Configured):
    """Version that a server publishes: anybody may read it, and decide with it for ever.

    Attributes:
        kind: what files call it.
        aside: fields that decide nothing: left out of `lineage`, and of JSON where they are None.
        unwritten: fields that are left out of `lineage` where they are empty.
        version: counts up from 0.
    """

    kind: ClassVar[str]
    aside: ClassVar[frozenset[str]] = frozenset()
    unwritten: ClassVar[frozenset[str]] = frozenset()
    version: int

    def recommend_batch(self, spec: Any, contexts: Any) -> tuple[Any, ...]:
        """Return the best arms for everybody, as `spec.label` calls them, for deciding without a device.

        Args:
            spec: that it belongs to.
            contexts: of n people, in any form that `Menu.encode` takes; points (n, dim) of a box.

        Raises:
            IncompatibleState: it does not fit the spec.
            InvalidData: contexts that cannot be read; the message names columns and never a value.
        """
        raise NotImplementedError

    @worded
    def recommend(self, spec: Any, context: Any) -> Any:
        """See `recommend_batch`, for one person; InvalidData also for several people."""
        best = self.recommend_batch(spec, context)
        if len(best) != 1:
            raise InvalidData(f"recommend: {len(best)} people, expected one: use recommend_batch")
        return best[0]

    if not TYPE_CHECKING:  # who checks types is told of every name that is not here

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, {"save": "to_json(spec)", "guarantee": "statement() of its spec"})

    def lineage(self, spec: "Contract[Any]") -> bytes:
        """16 bytes, equal for equal versions under equal specs only.

        Of one spec this is checked and computed once: nothing published changes.

        Raises:
            IncompatibleState: it does not fit the spec, or has been used with another one.
        """
        known: tuple[str, bytes] | None = self.__dict__.get("_lineage")
        whose = an(spec, Contract, name="spec", pass_=_SPEC).fingerprint
        publishes = spec.protocol.publishes
        if not isinstance(self, publishes):
            raise IncompatibleState(
                f"a {type(self).__name__} came with a {type(spec).__name__}, whose server publishes a "
                f"{publishes.__name__}: ask it for both again"
            )
        if known is not None and known[0] != whose:
            raise IncompatibleState("it was published for another spec: ask the server for both again")
        if known is None:
            spec.protocol.fits(self)
            digest = hashlib.blake2b(f"{self.kind}|{whose}".encode(), digest_size=16)
            left_out = self.aside | {name for name in self.unwritten if not getattr(self, name)}
            named = [one.name for one in fields(self) if one.name not in left_out]
            for name, value in ((name, getattr(self, name)) for name in named):
                value = value.item() if isinstance(value, np.generic) else value  # as JSON gives it back
                said = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                shape = getattr(value, "shape", None)
                digest.update(f"|{name}|{shape}|{len(said)}|".encode() + said)
            known = whose, digest.digest()
            assign(self, _lineage=known)
        return known[1]

    def to_config(self) -> dict[str, Any]:
        """JSON-ready."""
        config = super().to_config()
        return {name: value for name, value in config.items() if value is not None or name not in self.aside}

    @worded
    def to_json(self, spec: "Contract[Any]") -> str:
        """JSON, with the digest of the spec it belongs to."""
        whose = {"kind": self.kind, "spec": spec.digest.hex()}
        return json.dumps(whose | self.to_config(), sort_keys=True)

    @classmethod
    @worded
    def from_json(cls, text: str, spec: "Contract[Any]") -> Self:
        """Read what was published, and check that it belongs to the spec and is whole.

        Raises:
            IncompatibleState: anything else.
        """
        what = f"the JSON of a {cls.__name__}"
        an(spec, Contract, name="spec", pass_="the Spec or GPSpec that it was published for")
        with reading(what, IncompatibleState):
            _a_text(text)
            config = json_object(text, what, IncompatibleState)
            if (config.pop("kind"), config.pop("spec")) != (cls.kind, spec.digest.hex()):
                raise IncompatibleState("it was published for another spec: ask the server for both again")
            published = cls.from_config(config)
        published.lineage(spec)
        return published


_SPEC = "the Spec or GPSpec that it was published for, and then what is asked about"

PublishedT = TypeVar("PublishedT", bound=Published)


class Written(Configured):
    """Contract as canonical JSON: equal for equal contracts, on every machine.

    Attributes:
        written_format: of the JSON, where it names one.
    """

    written_format: ClassVar[int | None] = None

    def to_config(self) -> dict[str, Any]:
        """JSON-ready and complete."""
        config = super().to_config()
        return config if self.written_format is None else config | {"format": self.written_format}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """See `Configured.arguments`; InvalidParameter for another format."""
        fields = dict(config)
        if fields.get(cls.config_label) != cls.config_type:
            which = "" if cls.written_format is None else f" of format {cls.written_format}"
            raise InvalidParameter(
                f"expected {cls.config_label} {cls.config_type!r} of a {cls.__name__}{which}: of another kind"
            )
        if cls.written_format is not None and fields.pop("format", None) != cls.written_format:
            raise InvalidParameter(
                f"expected a {cls.__name__} of format {cls.written_format}: ask its server for it again"
            )
        return super().arguments(fields)

    def to_json(self) -> str:
        """Canonical JSON of `to_config`."""
        return json.dumps(self.to_config(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild what `to_json` described; IncompatibleState for anything else."""
        what = f"the JSON of a {cls.__name__}"
        with reading(what, IncompatibleState):
            _a_text(text)
            return cls.from_config(json_object(text, what, IncompatibleState))


class Contract(Written, ABC, Generic[PublishedT]):
    """Contract of devices and server before anyone reports; frozen.

    Attributes:
        reward_range: public bounds of rewards.
        deadline: seconds after a choice by which a device reports it, with a reward or without.
        epsilons: classes that a report may name in the open; empty: it names none.
        seed: public randomness of the server.
    """

    reward_range: RewardRange
    deadline: float
    epsilons: Sequence[float]
    seed: int

    if not TYPE_CHECKING:  # who checks types is told of every name that is not here

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, {"guarantee": "statement()"})

    @cached_property
    def digest(self) -> bytes:
        """Four bytes that every report carries: reports of another spec are dropped."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=4).digest()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the whole spec, 64 hexadecimal digits: what a device's account is bound to."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32).hexdigest()

    @property
    @abstractmethod
    def protocol(self) -> "ReportProtocol[PublishedT]":
        """Protocol of devices and servers under this contract, for the library's own clients and servers."""

    def check(self, context: Any) -> None:
        """Refuse a context that a device would clip or count as missing: to test an integration.

        The message says which columns of a box are, as `Schema.check` does for a whole table.

        Never call it with a real person's context where somebody sees whether it fails.

        Raises:
            InvalidData: another shape or type, NaN, or a point outside the domain.
        """
        self.protocol.check(context)

    def statement(self, privacy: Any = None) -> "Guarantee":
        """Return the guarantee of one report: the contract's, or that of a device with its own `privacy`."""
        return self.protocol.statement(self.protocol.own(privacy))


class ReportProtocol(ABC, Generic[PublishedT]):
    """Protocol of devices and servers under one contract: one implementation a kind of report.

    Attributes:
        report_format: first byte of a report.
        publishes: the class of what the server publishes.
        window: how many versions before the current one are still accepted; None: all.
        reports_per_version: a new version is published after so many; 0: whenever the server publishes.
        status: whether the noise of reports is enforced, or simulated.
        domain: where points of contexts, or candidates, lie.
        menu: columns and arms as devices read them; None where contexts are points.
    """

    report_format: ClassVar[int]
    publishes: type[PublishedT]
    window: int | None = None
    reports_per_version: int = 0
    status: "Status" = "enforced"
    domain: Any
    menu: Any = None

    @property
    @abstractmethod
    def weight(self) -> float:
        """How many honest people one forged report weighs at most."""

    @abstractmethod
    def fits(self, published: PublishedT) -> None:
        """Refuse what was published with impossible shapes, arms or probabilities, with IncompatibleState."""

    @abstractmethod
    def own(self, privacy: Any) -> Any:
        """The promise of one device's reports; None: the contract's. InvalidParameter for any other."""

    @abstractmethod
    def choose(self, published: PublishedT, context: Any, privacy: Any, available: Any = None) -> Chosen:
        """The choice of a device in this context; nothing is remembered, and no context is refused.

        Args:
            published: by the server.
            context: whatever the spec's `contexts` read; of a box (dim,), and of a `GPSpec` candidates
                (n, dim). Numbers outside the domain are clipped to it; what cannot be read counts as missing.
            privacy: the device's own.
            available: arms that may be given; None for all.

        Raises:
            IncompatibleState: what was published does not fit the spec.
            InvalidParameter: `available`, of a spec without arms.
        """

    @abstractmethod
    def label(self, arm: int) -> Any:
        """Return the answer of a device: the arm's label, or the row of the candidates."""

    @abstractmethod
    def check(self, context: Any) -> None:
        """See `Contract.check`."""

    @abstractmethod
    def exact(self, choice: Chosen, reward: float | None) -> Any:
        """Return the content of the report: bounded, and without noise.

        Args:
            choice: from `choose`.
            reward: from `read_reward`; None, as a missing context, for an input that depends on nobody.
        """

    @abstractmethod
    def noised(self, choice: Chosen, exact: Any, privacy: Any) -> bytes:
        """The payload: the one place where raw data meets noise."""

    @abstractmethod
    def terms(self, privacy: Any) -> dict[str, Any]:
        """Return the entry in a log of releases for reports that keep this promise; see `ReleaseLog`."""

    @abstractmethod
    def statement(self, privacy: Any) -> "Guarantee":
        """Return the guarantee of one report that keeps this promise, which `own` has read."""

    @abstractmethod
    def counted_by(self, published: PublishedT) -> tuple[Any, ...]:
        """Return the mechanisms that check and add up payloads that answer this, one a class; see
        `ReportMechanism`.
        """


def _a_text(text: object) -> None:
    if not isinstance(text, str | bytes):
        raise InvalidParameter(f"a {type(text).__name__} came, expected the text that to_json() wrote")


def read_points(values: Any, *, dim: int, ndim: int) -> FloatArray | None:
    """A private context as an array of this many axes, the last of `dim` columns; None for anything else."""
    try:
        points = as_points(values, dim, name="context")
    except Exception:  # noqa: BLE001 - whatever an object of the app raises would tell of what it holds
        return None
    return points if points.ndim == ndim else None


def check_points(box: Box, context: Any, *, ndim: int) -> None:
    """Refuse a context in a box that a device would clip or count as missing; see `Contract.check`."""
    from dpbandits.tables import Range, Schema

    names = [f"column {j}" for j in range(box.dim)]
    bounds = zip(names, box.low.tolist(), box.high.tolist(), strict=True)
    schema = Schema(**{name: Range(low, high, clip=True) for name, low, high in bounds})
    points = read_points(context, dim=box.dim, ndim=ndim)
    if points is None:
        said = f"context: expected numbers of {ndim} axes, the last of length {box.dim}"
        if ndim == 1 and isinstance(context, list | tuple) and len(context) == box.dim:
            said += f"; {schema.check(dict(zip(names, ([cell] for cell in context), strict=True)))}"
        raise InvalidData(said)
    numbers = np.nan_to_num(np.atleast_2d(points), nan=np.nan)  # a device clips what is infinite
    report = schema.check(dict(zip(names, numbers.T, strict=True)))
    if not (report.rows and report.sound):
        raise InvalidData(f"context: {report}")


def read_reward(bounds: RewardRange, reward: Any) -> tuple[float | None, bool]:
    """A private reward as a device takes it: whatever is not a number, NaN included, is missing.

    Returns:
        The reward inside the bounds or None, and whether it was clipped.
    """
    kinds = (int, float, np.bool_, np.integer, np.floating)
    try:
        if not isinstance(reward, kinds) or reward != reward:
            return None, False
        inside = float(min(max(reward, bounds.low), bounds.high))
        return inside, bool(inside != reward)
    except Exception:  # noqa: BLE001 - as in read_points
        return None, False


def read_only(values: Any, kind: Any) -> NDArray[Any]:
    """A copy that nobody changes any more."""
    array = np.array(values, dtype=kind)
    array.flags.writeable = False
    return array


def pack(*, spec: Contract[Any], version: int, nonce: bytes, payload: bytes) -> bytes:
    """One report."""
    kind = bytes([spec.protocol.report_format])
    return kind + spec.digest + version.to_bytes(4, "little") + nonce + payload


def parse(records: Records, spec: Contract[Any]) -> tuple[BoolArray, IntArray, NDArray[np.uint64], Records]:
    """Headers of n records of one length, at least `HEADER_BYTES`.

    Returns:
        (n,) whether format and spec digest are right, (n,) versions, (n,) nonces, (n, rest) payloads.
    """
    head = np.frombuffer(bytes([spec.protocol.report_format]) + spec.digest, dtype=np.uint8)
    sound = (records[:, :5] == head).all(axis=1)
    versions = np.ascontiguousarray(records[:, VERSION]).view("<u4")[:, 0].astype(np.int64)
    nonces = np.ascontiguousarray(records[:, NONCE]).view("<u8")[:, 0].astype(np.uint64)
    return np.asarray(sound), versions, nonces, records[:, HEADER_BYTES:]
