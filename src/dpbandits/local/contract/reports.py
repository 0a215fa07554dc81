"""The byte format of a report, published versions, and the contract of clients and servers.

A report is a header and a payload, whose length the version determines: see `docs/reference/byte-formats.md`.
The header holds the format, a digest of the spec, the answered version, a nonce, and a class of epsilon if
the spec has several.

A client sends nothing else. The nonce is drawn independently of the user's data and reveals nothing about it;
the server uses it to drop duplicates.

`Client` and `Server` work with every `Contract`: `Spec` (bins) and `GPSpec` (Gaussian processes). A contract
defines the choice for a context, the private payload for choice and reward, and the counting of payloads.
This module needs only NumPy and the standard library, as clients import it.
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
    "a_text",
    "check_points",
    "pack",
    "parse",
    "read_only",
    "read_points",
]

DIGEST, VERSION, NONCE = slice(1, 5), slice(5, 9), slice(9, 17)
NONCE_BYTES = 8
HEADER_BYTES = 17

DEADLINE = 86_400.0
"""Default time in seconds after which a choice without a reward is reported: one day."""

Records = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""Array of n reports of one length, shape (n, bytes)."""


@dataclass(repr=False, kw_only=True)
class Chosen:
    """Private data that a client remembers between choosing and reporting. It is never printed.

    Attributes:
        version: Number of the published version.
        arm: The chosen arm, or the chosen row of the candidates.
        about: Further data from which the contract makes the report.
        missing: True if the context could not be read; the report is then independent of it.
        clipped: True if the context was clipped to the domain.
        unavailable: True if the user gets another arm than a report would be about, because `available`
            excluded that arm or could not be read. The report is then independent of the user's data.
    """

    version: int
    arm: int
    about: Any
    missing: bool = False
    clipped: bool = False
    unavailable: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Published(Seen, Configured):
    """Version that a server publishes. It is public, and can be used for decisions at any later time.

    Attributes:
        kind: Name of the class in files.
        aside: Names of fields that do not affect decisions. They do not enter `lineage`, and JSON omits them
            if they are None.
        unwritten: Names of fields that do not enter `lineage` if they are empty.
        version: Number of the version, from 0.
    """

    kind: ClassVar[str]
    aside: ClassVar[frozenset[str]] = frozenset()
    unwritten: ClassVar[frozenset[str]] = frozenset()
    version: int

    def recommend_batch(self, spec: Any, contexts: Any) -> tuple[Any, ...]:
        """Return the best arm of each person, as labels of the spec, to decide without a client.

        Args:
            spec: The contract that the version belongs to.
            contexts: Contexts of n people, in any form that `Menu.encode` takes; points (n, dim) for a box.

        Raises:
            IncompatibleState: the version does not fit the spec.
            InvalidData: a context cannot be read; the message names columns and never a value.
        """
        raise NotImplementedError

    @worded
    def recommend(self, spec: Any, context: Any) -> Any:
        """Return the best arm of one person; see `recommend_batch`.

        Raise InvalidData also for several people.
        """
        best = self.recommend_batch(spec, context)
        if len(best) != 1:
            raise InvalidData(f"recommend: {len(best)} people, expected one: use recommend_batch")
        return best[0]

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, {"save": "to_json(spec)", "guarantee": "statement() of its spec"})

    def lineage(self, spec: "Contract[Any]") -> bytes:
        """Return 16 bytes that are equal only for equal versions under equal specs.

        The result is cached for one spec, as versions do not change.

        Raises:
            IncompatibleState: the version does not fit the spec, or was used with another one before.
        """
        known: tuple[str, bytes] | None = self.__dict__.get("_lineage")
        whose = an(spec, Contract, name="spec", pass_=_SPEC).fingerprint
        publishes = spec.protocol.publishes
        if not isinstance(self, publishes):
            raise IncompatibleState(
                f"got a {type(self).__name__} with a {type(spec).__name__}, whose server publishes a "
                f"{publishes.__name__}: ask the server for both again"
            )
        if known is not None and known[0] != whose:
            raise IncompatibleState("the version belongs to another spec: ask the server for both again")
        if known is None:
            spec.protocol.fits(self)
            digest = hashlib.blake2b(f"{self.kind}|{whose}".encode(), digest_size=16)
            left_out = self.aside | {name for name in self.unwritten if not getattr(self, name)}
            named = [one.name for one in fields(self) if one.name not in left_out]
            for name, value in ((name, getattr(self, name)) for name in named):
                value = value.item() if isinstance(value, np.generic) else value  # the same as after JSON
                said = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                shape = getattr(value, "shape", None)
                digest.update(f"|{name}|{shape}|{len(said)}|".encode() + said)
            known = whose, digest.digest()
            assign(self, _lineage=known)
        return known[1]

    def to_config(self) -> dict[str, Any]:
        """Return the JSON-ready configuration."""
        config = super().to_config()
        return {name: value for name, value in config.items() if value is not None or name not in self.aside}

    @worded
    def to_json(self, spec: "Contract[Any]") -> str:
        """Return the version as JSON, with the digest of the spec that it belongs to."""
        whose = {"kind": self.kind, "spec": spec.digest.hex()}
        return json.dumps(whose | self.to_config(), sort_keys=True)

    @classmethod
    @worded
    def from_json(cls, text: str, spec: "Contract[Any]") -> Self:
        """Read a published version, and check that it belongs to the spec and is complete.

        Raises:
            IncompatibleState: the text is not a complete version of this spec.
        """
        what = f"the JSON of a {cls.__name__}"
        an(spec, Contract, name="spec", pass_="the Spec or GPSpec that the version was published for")
        with reading(what, IncompatibleState):
            a_text(text)
            config = json_object(text, what, IncompatibleState)
            if (config.pop("kind"), config.pop("spec")) != (cls.kind, spec.digest.hex()):
                raise IncompatibleState("the version belongs to another spec: ask the server for both again")
            published = cls.from_config(config)
        published.lineage(spec)
        return published


_SPEC = "the Spec or GPSpec that the version was published for, as the first argument"

PublishedT = TypeVar("PublishedT", bound=Published)


class Written(Configured):
    """A contract with canonical JSON: equal contracts have equal JSON on every machine.

    Attributes:
        written_format: Format number in the JSON; None if there is none.
    """

    written_format: ClassVar[int | None] = None

    def to_config(self) -> dict[str, Any]:
        """Return the complete JSON-ready configuration."""
        config = super().to_config()
        return config if self.written_format is None else config | {"format": self.written_format}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a configuration describes. Raise InvalidParameter for another format."""
        fields = dict(config)
        if fields.get(cls.config_label) != cls.config_type:
            which = "" if cls.written_format is None else f" of format {cls.written_format}"
            raise InvalidParameter(
                f"expected {cls.config_label} {cls.config_type!r} of a {cls.__name__}{which}, "
                "got one of another kind"
            )
        if cls.written_format is not None and fields.pop("format", None) != cls.written_format:
            raise InvalidParameter(
                f"expected a {cls.__name__} of format {cls.written_format}: fetch it from its server again"
            )
        return super().arguments(fields)

    def to_json(self) -> str:
        """Return canonical JSON of `to_config`."""
        return json.dumps(self.to_config(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild a contract from the text of `to_json`. Raise IncompatibleState for any other text."""
        what = f"the JSON of a {cls.__name__}"
        with reading(what, IncompatibleState):
            a_text(text)
            return cls.from_config(json_object(text, what, IncompatibleState))


class Contract(Written, ABC, Generic[PublishedT]):
    """Contract of clients and server, fixed before any report. It cannot be changed.

    Attributes:
        reward_range: Public bounds of rewards.
        deadline: Seconds after a choice at which a client reports it, with or without a reward.
        epsilons: Classes of epsilon, one of which each report names openly; empty if there is only one
            epsilon.
        seed: Public seed of the server.
    """

    reward_range: RewardRange
    deadline: float
    epsilons: Sequence[float] = ()
    seed: int

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, {"guarantee": "statement()"})

    @property
    def kinds(self) -> int:
        """Number of kinds of report that a byte after the header tells apart; 0 if there is no such byte."""
        return len(self.epsilons)

    @cached_property
    def digest(self) -> bytes:
        """Digest of the spec, four bytes, in every report.

        A server drops reports with the digest of another spec.
        """
        return hashlib.blake2b(self.to_json().encode(), digest_size=4).digest()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the whole spec, 64 hexadecimal digits, to which a client's account is bound."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32).hexdigest()

    @property
    @abstractmethod
    def protocol(self) -> "ReportProtocol[PublishedT]":
        """Implementation for the library's own clients and servers."""

    def check(self, context: Any) -> None:
        """Raise an error for a context that a client would clip or count as missing.

        Use it to test an integration.

        For a box, the message names the columns with problems, as `Schema.check` does for a table.

        Never call this with a real user's context where somebody else sees whether it fails.

        Raises:
            InvalidData: the context has another shape or type, has NaN, or lies outside the domain.
        """
        self.protocol.check(context)

    def statement(self, privacy: Any = None) -> "Guarantee":
        """Return the guarantee of one report, by the contract or by a client's own `privacy`."""
        return self.protocol.statement(self.protocol.own(privacy))


class ReportProtocol(ABC, Generic[PublishedT]):
    """Implementation of a contract for clients and servers. There is one for each kind of report.

    Attributes:
        report_format: First byte of a report.
        publishes: Class of the published versions.
        window: Number of versions before the current one that are still accepted; None for all.
        reports_per_version: Number of reports after which a version is published; 0 if only calls publish.
        most_reports: Largest number of reports of one client; None for as many as its budget covers.
        status: "enforced", or "simulated" for simulated noise.
        domain: Set that contains points of contexts, or candidates.
        menu: Columns and arms as clients read them; None if contexts are points.
    """

    report_format: ClassVar[int]
    publishes: type[PublishedT]
    window: int | None = None
    reports_per_version: int = 0
    most_reports: int | None = None
    status: "Status" = "enforced"
    domain: Any
    menu: Any = None

    @property
    @abstractmethod
    def weight(self) -> float:
        """Largest effect of one forged report on the sums, as a number of honest users."""

    @abstractmethod
    def fits(self, published: PublishedT) -> None:
        """Raise IncompatibleState for a version with impossible shapes, arms or probabilities."""

    @abstractmethod
    def own(self, privacy: Any) -> Any:
        """Return the guarantee of one client's reports; None stands for the contract's.

        Raise InvalidParameter if the contract does not allow it.
        """

    @abstractmethod
    def choose(self, published: PublishedT, context: Any, privacy: Any, available: Any = None) -> Chosen:
        """Return a client's choice in this context. Nothing is stored, and no context is refused.

        Args:
            published: Version from the server.
            context: Context as the spec's `contexts` read it; (dim,) for a box, candidates (n, dim) for a
                `GPSpec`. Numbers outside the domain are clipped; an unreadable context counts as missing.
            privacy: The client's own guarantee.
            available: Arms that may be given; None for all.

        Raises:
            IncompatibleState: the version does not fit the spec.
            InvalidParameter: `available` was passed for a spec without arms.
        """

    def decide(self, published: PublishedT, context: Any, privacy: Any, available: Any = None) -> Chosen:
        """Return a choice that no report follows; arguments and errors are those of `choose`."""
        return self.choose(published, context, privacy, available)

    @abstractmethod
    def label(self, arm: int) -> Any:
        """Return a client's answer for the arm number `arm`.

        It is the arm's label, or the number of the candidates' row.
        """

    @abstractmethod
    def check(self, context: Any) -> None:
        """Raise an error for a context that a client would clip or count as missing; see `Contract.check`."""

    @abstractmethod
    def exact(self, choice: Chosen, reward: float | None) -> Any:
        """Return the content of the report, bounded and without noise.

        Args:
            choice: Result of `choose`.
            reward: Result of `read_reward`. If it is None, or the context is missing, the content is
                independent of the user.
        """

    @abstractmethod
    def noised(self, choice: Chosen, exact: Any, privacy: Any) -> bytes:
        """Return the payload. This is the only place where raw data meets noise."""

    @abstractmethod
    def terms(self, privacy: Any) -> dict[str, Any]:
        """Return the `ReleaseLog` entry of reports with this guarantee."""

    @abstractmethod
    def statement(self, privacy: Any) -> "Guarantee":
        """Return the guarantee of one report, given the client's `privacy` as returned by `own`."""

    @abstractmethod
    def counted_by(self, published: PublishedT) -> tuple[Any, ...]:
        """Return the mechanisms that check and add payloads on this version, one for each kind of report.

        They implement `ReportMechanism`.
        """


def a_text(text: object) -> None:
    """Raise InvalidParameter unless a contract or a version came as text."""
    if not isinstance(text, str | bytes):
        raise InvalidParameter(f"a {type(text).__name__} came, expected the text that to_json() wrote")


def read_points(values: Any, *, dim: int, ndim: int) -> FloatArray | None:
    """Return a private context as an array with `ndim` axes; None if it cannot be read.

    The last axis has length `dim`.
    """
    try:
        points = as_points(values, dim, name="context")
    except Exception:  # noqa: BLE001 - an exception from the app's object could reveal its content
        return None
    return points if points.ndim == ndim else None


def check_points(box: Box, context: Any, *, ndim: int) -> None:
    """Raise InvalidData for points that a client would clip or count as missing; see `Contract.check`."""
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
    numbers = np.nan_to_num(np.atleast_2d(points), nan=np.nan)  # clients clip infinite values
    report = schema.check(dict(zip(names, numbers.T, strict=True)))
    if not (report.rows and report.sound):
        raise InvalidData(f"context: {report}")


def read_only(values: Any, kind: Any) -> NDArray[Any]:
    """Return a read-only copy of `values` with the type `kind`."""
    array = np.array(values, dtype=kind)
    array.flags.writeable = False
    return array


def pack(*, spec: Contract[Any], version: int, nonce: bytes, payload: bytes) -> bytes:
    """Return the bytes of one report: header, nonce and payload."""
    kind = bytes([spec.protocol.report_format])
    return kind + spec.digest + version.to_bytes(4, "little") + nonce + payload


def parse(records: Records, spec: Contract[Any]) -> tuple[BoolArray, IntArray, NDArray[np.uint64], Records]:
    """Split n reports of one length, at least `HEADER_BYTES`, into headers and payloads.

    Returns:
        Four arrays: True if format and spec digest are right (n,), versions (n,), nonces (n,), and payloads
            (n, rest).
    """
    head = np.frombuffer(bytes([spec.protocol.report_format]) + spec.digest, dtype=np.uint8)
    sound = (records[:, :5] == head).all(axis=1)
    versions = np.ascontiguousarray(records[:, VERSION]).view("<u4")[:, 0].astype(np.int64)
    nonces = np.ascontiguousarray(records[:, NONCE]).view("<u8")[:, 0].astype(np.uint64)
    return np.asarray(sound), versions, nonces, records[:, HEADER_BYTES:]
