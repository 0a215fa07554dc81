"""`Guarantee`: what a policy promises, on what it stands, and how that reads to a privacy officer.

A guarantee is public: it is computed from the parameters of a policy, never from data.
"""

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from dpbandits._config import Configured, parse_fields, plain
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits.errors import InvalidParameter
from dpbandits.privacy import certificates, definitions
from dpbandits.privacy.calibration import membership_bound
from dpbandits.privacy.certificates import Certificate, rounded_up
from dpbandits.privacy.definitions import Definition, NoPrivacy

__all__ = ["LOG_RATIOS", "Assumption", "Guarantee", "MechanismRecord", "Observer", "Status"]

Status = Literal["enforced", "simulated", "broken", "none"]
"""enforced: the software keeps the promise, under the assumptions; simulated: the noise can be repeated,
so nobody is protected; broken: published with a promise that an attack refutes; none: no promise."""

_FORMAT = 1
"""Version of the JSON form."""

_WIDTH = 100

LOG_RATIOS = "in log-likelihood ratios"
"""Unit of the records of randomised responses, to which no noise is added."""


@dataclass(frozen=True, kw_only=True)
class Observer(Configured):
    """Somebody who sees something.

    Args:
        who: a noun phrase, such as "the server".
        sees: what they see, a noun phrase, such as "every decision set and reward".
        protected: whether the guarantee holds against what this observer sees.
    """

    who: str
    sees: str
    protected: bool


@dataclass(frozen=True, kw_only=True)
class Assumption(Configured):
    """Something the guarantee stands on.

    Args:
        text: a full sentence.
        enforced: True where the software makes it so; False where the operator must see to it.
    """

    text: str
    enforced: bool


@dataclass(frozen=True, kw_only=True)
class MechanismRecord(Configured):
    """One use of noise.

    Args:
        name: what is released.
        law: the noise's law, such as "discrete Gaussian".
        scale: its scale parameter, in `unit`.
        sensitivity: what one privacy unit can move, over all releases together, in `unit`.
        certificate: what all releases of this mechanism together give away; None where nothing is proven.
        releases: how many releases there are at most.
        unit: what scale and sensitivity count.
    """

    name: str
    law: str
    scale: float
    sensitivity: float
    certificate: Certificate | None
    releases: int
    unit: str = "in units of the released numbers"
    config_parsers: ClassVar[Mapping[str, Any]] = {"certificate": certificates.from_config}


@dataclass(frozen=True, kw_only=True)
class Guarantee(Seen):
    """What is promised to whom, against whom, and why it holds.

    Args:
        definition: the definition of privacy, with its numbers.
        observers: who sees what; with a promise, at least one of them is protected against.
        mechanisms: every use of noise.
        assumptions: all that the guarantee stands on.
        theorem: the reason why it holds, with its source.
        status: see `Status`.
        certificate: the strongest statement that is proven; needed by `enforced` and `simulated`, from
            which it must prove (epsilon, delta); None for `broken` and `none`.
        epsilon, delta: the promise; by default the definition's. Claimed, not kept, when broken.
        unit, neighbours: by default the definition's.
        attack: names the attack that refutes a `broken` guarantee.
        notes: further full sentences for the reader.

    Raises:
        InvalidParameter: the parts contradict each other: an unknown status, a certificate that does not
            prove the promise, a broken guarantee without an attack, a promise that nobody is held to.

    Example:
        >>> guarantee = Guarantee.without_privacy(observers=(
        ...     Observer(who="anyone who asks", sees="what the policy learned", protected=False),))
        >>> guarantee.status, guarantee.epsilon
        ('none', inf)
    """

    definition: Definition
    observers: tuple[Observer, ...]
    mechanisms: tuple[MechanismRecord, ...]
    assumptions: tuple[Assumption, ...]
    theorem: str
    status: Status
    certificate: Certificate | None = None
    epsilon: float = math.nan
    delta: float = math.nan
    unit: str = ""
    neighbours: str = ""
    attack: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, getattr(self.definition, name))
        for name in ("unit", "neighbours"):
            object.__setattr__(self, name, getattr(self, name) or getattr(self.definition, name))
        for name in ("observers", "mechanisms", "assumptions", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.status not in get_args(Status):
            raise InvalidParameter(f"status is {self.status!r}, expected one of {get_args(Status)}")
        if (self.status == "none") != isinstance(self.definition, NoPrivacy):
            raise InvalidParameter("status none goes with NoPrivacy(), and the other statuses do not")
        if (self.status == "broken") != bool(self.attack):
            raise InvalidParameter("a broken guarantee names its attack, and no other names one")
        if self.status in ("enforced", "simulated"):
            self._check_promise()
        elif self.certificate is not None:
            raise InvalidParameter(f"status {self.status}: nothing is proven, so there is no certificate")

    def _check_promise(self) -> None:
        if self.certificate is None:
            raise InvalidParameter(f"status {self.status} needs a certificate")
        if not any(observer.protected for observer in self.observers):
            raise InvalidParameter("a promise needs an observer against whom it holds")
        if self.certificate.delta_at(self.epsilon) > self.delta:
            raise InvalidParameter(
                f"the certificate ({self.certificate.describe()}) does not prove "
                f"(epsilon, delta) = ({self.epsilon:g}, {self.delta:g})"
            )

    @classmethod
    def without_privacy(cls, *, observers: Sequence[Observer] = (), notes: Sequence[str] = ()) -> "Guarantee":
        """The guarantee of a baseline that promises nothing."""
        return cls(
            definition=NoPrivacy(),
            observers=tuple(observers),
            mechanisms=(),
            assumptions=(),
            theorem="",
            status="none",
            notes=tuple(notes),
        )

    def __repr__(self) -> str:
        promise = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit or None}
        return said(self, status=self.status, **promise)

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon proven at another delta; infinite where nothing is proven."""
        return math.inf if self.certificate is None else self.certificate.epsilon_at(delta)

    def membership_bound(self) -> float:
        """Best success rate of a guess between two equally likely neighbours; 1 where nothing is proven.

        For simulated noise, what it would be if the noise were secret.
        """
        if self.certificate is None:
            return 1.0
        return min(self.certificate.membership_bound(), membership_bound(self.epsilon, self.delta))

    def explain(self) -> str:
        """The guarantee in prose: for whom, against whom, what, how, and on which assumptions."""
        return "\n".join(
            textwrap.fill(line, _WIDTH, subsequent_indent="  " if line.startswith("- ") else "")
            for line in self._prose().split("\n")
        )

    def _prose(self) -> str:
        """The same, in lines of any length."""
        if self.status == "none":
            parts = [_HEADLINES["none"], self._observers(), *self.notes]
        elif self.status == "broken":
            claim = f"What was claimed: {self.definition.title} at {self._numbers()}."
            parts = [_HEADLINES["broken"], f"The attack: {self.attack}", claim, self._protected()]
            parts += [self._observers(), self._mechanisms(), *self.notes]
        else:
            parts = [_HEADLINES[self.status]]
            parts += [f"The promise: {self.definition.title} at {self._numbers()}.", self._protected()]
            parts += [self._observers(), self._meaning()]
            left_out = [f"- {text}" for text in self.definition.left_out]
            parts += ["\n".join(["What is not promised:", *left_out]), self._mechanisms()]
            parts += [self._assumptions(), f"Why it holds: {self.theorem}", *self.notes]
        return "\n\n".join(part for part in parts if part)

    def _numbers(self) -> str:
        return f"epsilon = {_exact(self.epsilon)}, delta = {_exact(self.delta)}"

    def _protected(self) -> str:
        return f"Who is protected: {self.unit}. Precisely, {self.neighbours}."

    def _observers(self) -> str:
        if not self.observers:
            return ""
        promised = self.status in ("enforced", "simulated")
        lines = ["Who sees what:"]
        for observer in self.observers:
            covered = "covered by the promise" if observer.protected else "not covered by the promise"
            lines.append(f"- {observer.who}: {observer.sees}" + (f" ({covered})." if promised else "."))
        return "\n".join(lines)

    def _meaning(self) -> str:
        certificate = self.certificate
        if certificate is None:
            return ""
        covered = " and ".join(observer.who for observer in self.observers if observer.protected)
        extra = f", plus {_exact(self.delta)}" if self.delta else ""
        # rounded up, so that the sentence stays true
        percent = math.ceil(1000.0 * self.membership_bound()) / 10.0
        return (
            "What cannot be learned: take two neighbours, and any event about what is listed as seen by "
            f"{covered}, all of it together. The event's probability under one neighbour is at most "
            f"{_factor(self.epsilon)} (e to the epsilon) times its probability under the "
            f"other{extra}. "
            "So somebody who knows everything else, and knows that the protected part is one of two "
            "possibilities which are equally likely beforehand, names the right one with probability at "
            f"most {percent:.1f}%, by whatever computation (blind guessing: 50%)."
        )

    def _mechanisms(self) -> str:
        if not self.mechanisms:
            return ""
        lines = ["The noise:"]
        for record in self.mechanisms:
            releases = "1 release" if record.releases == 1 else f"at most {record.releases} releases"
            proven = "nothing is proven" if record.certificate is None else record.certificate.describe()
            noise = (
                f" noise of scale {record.scale:.6g} (rounded); sensitivity over all releases together: at "
                f"most {rounded_up(record.sensitivity, 6)} ({record.unit})"
            )
            drawn = record.law + ("" if record.unit == LOG_RATIOS else noise)
            lines.append(f"- {record.name}, {releases}: {drawn}. Certificate: {proven}.")
        if self.certificate is not None and len(self.mechanisms) > 1:
            lines.append(f"All together: {self.certificate.describe()}.")
        return "\n".join(lines)

    def _assumptions(self) -> str:
        kept = [f"- {assumption.text}" for assumption in self.assumptions if assumption.enforced]
        trusted = [f"- {assumption.text}" for assumption in self.assumptions if not assumption.enforced]
        lines = ["Kept by the software:", *kept] if kept else []
        if trusted:
            lines += ["NOT checked by the software; the promise fails where one of these fails:", *trusted]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The guarantee as JSON text, complete: `from_json` gives an equal guarantee."""
        fields = {"format": _FORMAT} | {name: plain(getattr(self, name)) for name in (*_PROMISE, *_GROUNDS)}
        if math.isinf(self.epsilon):
            fields["epsilon"] = None
        return json.dumps(fields, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Guarantee":
        """Rebuild a guarantee from `to_json()`; its parts are checked against each other again.

        Raises:
            InvalidParameter: not such a text, of another format version, or contradictory.
        """
        fields = json_object(text, "the JSON form of a guarantee")
        with reading("the JSON form of a guarantee"):
            if fields.pop("format") != _FORMAT:
                raise InvalidParameter(f"a guarantee of another format, expected {_FORMAT}")
            fields["epsilon"] = math.inf if fields["epsilon"] is None else fields["epsilon"]
            guarantee = cls(**parse_fields(fields, _JSON_PARSERS))
            guarantee._prose()  # every field is of the kind that its prose needs
            return guarantee


_PROMISE = ("definition", "epsilon", "delta", "certificate", "unit", "neighbours")
_GROUNDS = ("observers", "mechanisms", "assumptions", "theorem", "status", "attack", "notes")

_JSON_PARSERS: dict[str, Callable[[Any], Any]] = {
    "definition": definitions.from_config,
    "certificate": certificates.from_config,
    "observers": lambda parts: tuple(map(Observer.from_config, parts)),
    "mechanisms": lambda parts: tuple(map(MechanismRecord.from_config, parts)),
    "assumptions": lambda parts: tuple(map(Assumption.from_config, parts)),
}

_HEADLINES = {
    "enforced": "This guarantee is kept by the software, under the assumptions listed below.",
    "simulated": (
        "NOT A PROTECTION: the noise is simulated. It comes from a seed, and whoever has the seed can "
        "compute the noise and take it away. Nobody's data may be treated as protected by it. What "
        "follows would be true if the same noise came from a secret and perfect source."
    ),
    "broken": (
        "BROKEN: this mechanism does not keep the promise it was published with. It is here to be "
        "studied; no person's data may be given to it."
    ),
    "none": "NO PRIVACY IS PROMISED: what is computed here may reveal any part of the data.",
}


def _factor(epsilon: float) -> str:
    """e^epsilon in words; beyond floats it is no restriction that needs its digits."""
    return rounded_up(math.exp(epsilon)) if epsilon < 700.0 else "a number of more than three hundred digits"


def _exact(value: float) -> str:
    """The shortest decimal that is this number."""
    return repr(value).removesuffix(".0")
