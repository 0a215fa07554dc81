"""`Guarantee`: a promise of privacy, what it rests on, and its statement.

The statement has a page to sign (`explain`) and an annex for experts (`annex`). A guarantee is public: it is
computed from the parameters of a policy, never from data.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from dpbandits._config import Configured, parse_fields, plain
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits.errors import InvalidParameter
from dpbandits.privacy import certificates, definitions, pages
from dpbandits.privacy.calibration import membership_bound
from dpbandits.privacy.certificates import Certificate, PureDP, rounded_up
from dpbandits.privacy.definitions import Definition, NoPrivacy
from dpbandits.privacy.pages import Page, Paper, Section

__all__ = ["LOG_RATIOS", "Assumption", "Guarantee", "MechanismRecord", "Observer", "Status"]

Status = Literal["enforced", "simulated", "broken", "none"]
"""Status of a guarantee. `enforced`: the software keeps the promise, under the stated assumptions.
`simulated`: the noise can be repeated, so nobody is protected. `broken`: a mechanism was published with a
promise that an attack refutes. `none`: nothing is promised.
"""

_FORMAT = 1
"""Version of the JSON form of a guarantee."""

LOG_RATIOS = "in log-likelihood ratios"
"""Unit of scale and sensitivity in the records of randomised responses, which have no added noise."""

_FIRST_SENTENCE = re.compile(r"(.*?[.?!])(\s|$)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Observer(Configured):
    """A party, the data that it sees, and whether the guarantee protects against it.

    Args:
        who: a noun phrase, such as "the server".
        sees: a noun phrase for the data that this party sees, such as "every decision set and reward".
        protected: True if the guarantee holds against what this observer sees.
    """

    who: str
    sees: str
    protected: bool

    def __post_init__(self) -> None:
        _check_kinds(self, who=str, sees=str, protected=bool)


@dataclass(frozen=True, kw_only=True)
class Assumption(Configured):
    """A condition on which the guarantee rests.

    Args:
        name: two or three words by which the statement refers to the assumption.
        text: full sentences. The first sentence alone states the condition, as the page to sign shows only
            it.
        enforced: True if the software makes the condition hold; False if the operator must.
        part: the part of the statement to which the assumption belongs, such as "published function"; empty
            for assumptions of the policy itself.
    """

    name: str
    text: str
    enforced: bool
    part: str = ""

    def __post_init__(self) -> None:
        _check_kinds(self, name=str, text=str, enforced=bool, part=str)

    @property
    def line(self) -> str:
        """First sentence of the text."""
        found = _FIRST_SENTENCE.match(self.text)
        return self.text if found is None else found[1]


@dataclass(frozen=True, kw_only=True)
class MechanismRecord(Configured):
    """Description of one use of noise.

    Args:
        name: the released quantity.
        law: the noise's distribution, such as "discrete Gaussian".
        scale: scale parameter of the noise, in `unit`.
        sensitivity: largest change that neighbouring inputs make to all releases together, in `unit`.
        certificate: privacy loss of all releases of this mechanism together; None if nothing is proven.
        releases: largest number of releases.
        unit: the exact unit of scale and sensitivity, often a step of a lattice of integers.
        step: value of one `unit` in the unit `shown_in`.
        shown_in: the unit in which a statement shows scale and sensitivity; by default `unit`.
    """

    name: str
    law: str
    scale: float
    sensitivity: float
    certificate: Certificate | None
    releases: int
    unit: str = "in units of the released numbers"
    step: float = 1.0
    shown_in: str = ""
    config_parsers: ClassVar[Mapping[str, Any]] = {"certificate": certificates.from_config}

    def __post_init__(self) -> None:
        _check_kinds(self, name=str, law=str, unit=str, shown_in=str)
        if not (self.scale >= 0.0 and self.sensitivity >= 0.0 and self.step > 0.0 and self.releases >= 1):
            raise InvalidParameter("a mechanism's scale, sensitivity, step or number of releases is negative")

    def describe(self) -> str:
        """Return a line with name, noise and certificate, in the unit `shown_in`."""
        releases = "1 release" if self.releases == 1 else f"at most {self.releases} releases"
        proven = "nothing is proven" if self.certificate is None else self.certificate.describe()
        noise, unit = self.law, self.shown_in or self.unit
        if self.unit != LOG_RATIOS:
            moved = rounded_up(self.sensitivity * self.step, 6)
            noise += f" noise of scale {self.scale * self.step:.6g} (rounded); sensitivity at most {moved}"
            noise += f", all releases together ({unit})"
        return f"{_capital(self.name)}: {releases}; {noise}. Certificate: {proven}."


@dataclass(frozen=True, kw_only=True)
class Guarantee(Seen):
    """A promise of privacy, the observers that it covers, and the reasons why it holds.

    Args:
        definition: the definition of privacy, with its numbers.
        observers: parties and what they see; a promise covers at least one of them.
        mechanisms: every use of noise.
        assumptions: every condition on which the guarantee rests.
        theorem: the reason why it holds, with its source.
        status: see `Status`.
        certificate: the strongest proven bound on the privacy loss. `enforced` and `simulated` need one that
            implies (epsilon, delta); `broken` and `none` have None.
        epsilon, delta: the promise, or the claim of a `broken` guarantee; by default the definition's.
        unit, neighbours: privacy unit and adjacency; by default the definition's.
        attack: the attack that refutes a `broken` guarantee.
        limits: further sentences for the page to sign on what is not promised, after the definition's.
        notes: further sentences for the annex.

    Raises:
        InvalidParameter: the status is unknown, or the parts contradict each other: a certificate that does
            not prove the promise, a broken guarantee without an attack, a promise that covers no observer.

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
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, getattr(self.definition, name))
        for name in ("unit", "neighbours"):
            object.__setattr__(self, name, getattr(self, name) or getattr(self.definition, name))
        for name in ("observers", "mechanisms", "assumptions", "limits", "notes"):
            if isinstance(getattr(self, name), str):
                raise InvalidParameter(f"{name}: expected a sequence, got one text")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if isinstance(self.delta, bool) or not 0.0 <= self.delta <= 1.0:
            raise InvalidParameter("delta: expected a probability")
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
            raise InvalidParameter("a promise needs an observer whom it covers")
        if self.certificate.delta_at(self.epsilon) > self.delta:
            raise InvalidParameter(
                f"the certificate ({self.certificate.describe()}) does not prove "
                f"(epsilon, delta) = ({self.epsilon:g}, {self.delta:g})"
            )

    @classmethod
    def without_privacy(cls, *, observers: Sequence[Observer] = (), notes: Sequence[str] = ()) -> "Guarantee":
        """Return the guarantee of a baseline that promises nothing."""
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
        """Return the smallest epsilon that is proven at another delta; infinity if nothing is proven."""
        return math.inf if self.certificate is None else self.certificate.epsilon_at(delta)

    def membership_bound(self) -> float:
        """Return a bound on the success rate of a guess between two equally likely neighbouring data sets.

        It is 1 if nothing is proven. For simulated noise it is the bound that would hold if the noise were
        secret.
        """
        if self.certificate is None:
            return 1.0
        return min(self.certificate.membership_bound(), membership_bound(self.epsilon, self.delta))

    def explain(self) -> str:
        """Return the page to sign as text: promise, observers, limits and assumptions to check."""
        return pages.as_text(self.pages()[0])

    def annex(self) -> str:
        """Return the annex for experts as text: mechanisms, composition, theorem and all assumptions."""
        return pages.as_text(self.pages()[1])

    def to_html(self) -> str:
        """Return page to sign and annex as one self-contained HTML document, for A4 or Letter paper."""
        return pages.as_document(self.pages())

    def to_pdf(self, *, paper: Paper = "A4") -> bytes:
        """Return the page to sign and the annex as a PDF file; this needs the extra `pdf`.

        Args:
            paper: "A4" or "Letter".

        Raises:
            InvalidParameter: reportlab is not installed, or the paper size is unknown.
        """
        return pages.as_pdf(self.pages(), paper=paper)

    @property
    def digest(self) -> str:
        """SHA-256 of `to_json()`, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def pages(self) -> tuple[Page, Page]:
        """Return the page to sign and the annex; `dpbandits.privacy.pages` formats them."""
        build = {"none": self._unprotected, "broken": self._broken}.get(self.status, self._promised)
        sections = tuple(one for one in build() if one.texts or one.items)
        annex = tuple(one for one in (*self._warned(), *self._annex()) if one.texts or one.items)
        if self.status == "enforced":  # what is signed names the annex and the JSON form
            sections = (*sections, Section("Statement SHA-256", (self.digest,)))
        page = Page("Privacy statement", sections, signed=self.status == "enforced")
        return page, Page("Annex to the privacy statement", annex)

    def _warned(self) -> tuple[Section, ...]:
        """Return a warning as a section for each page of a statement that protects nobody; () for others."""
        return (Section("", (_HEADLINES[self.status],)),) if self.status in _HEADLINES else ()

    # -- the page to sign -----------------------------------------------------------------------

    def _unprotected(self) -> list[Section]:
        return [*self._warned(), self._observers(), Section("", self.notes)]

    def _broken(self) -> list[Section]:
        return [
            *self._warned(),
            Section("Claim", (f"{self._numbers()}.",)),
            Section("Attack", (self.attack or "",)),
            Section("Unit", (f"{_capital(self.unit)}.",)),
            self._observers(),
        ]

    def _promised(self) -> list[Section]:
        percent = math.ceil(1000.0 * self.membership_bound()) / 10.0  # rounded up, so that it stays true
        meaning = (
            f"{self._numbers()}. Whoever sees everything covered below, and knows everything else, guesses "
            "right between two equally likely possibilities for the protected data at most "
            f"{percent:.1f}% of the time (blind guessing: 50%)."
        )
        unchecked = [one for one in self.assumptions if not one.enforced]
        boxes = [f"{_capital(one.name)}: {one.line}" for one in unchecked if not one.part]
        for part in dict.fromkeys(one.part for one in unchecked if one.part):
            names = ", ".join(one.name for one in unchecked if one.part == part)
            boxes.append(f"{part}: Its assumptions hold ({names}).")
        enforced = ", ".join(one.name for one in self.assumptions if one.enforced)
        return [
            *self._warned(),
            Section("Promise", (meaning,)),
            Section("Who is protected", (f"{_capital(self.unit)}.",)),
            self._observers(),
            Section("What is not promised", (), (*self.definition.left_out, *self.limits)),
            Section("Check each: the promise needs all", (), tuple(boxes), names=True, boxes=True),
            Section("Enforced by software", (f"{_capital(enforced)}.",) if enforced else ()),
        ]

    def _numbers(self) -> str:
        title = self.definition.title
        return (
            f"{title[0].upper()}{title[1:]}, epsilon = {_exact(self.epsilon)}, delta = {_exact(self.delta)}"
        )

    def _observers(self) -> Section:
        promised = self.status in ("enforced", "simulated")
        lines = []
        for one in self.observers:
            covered = "covered" if one.protected else "not covered"
            lines.append(f"{_capital(one.who)}: {one.sees}" + (f" ({covered})" if promised else ""))
        return Section("Who sees what", (), tuple(lines), names=True)

    # -- the annex ------------------------------------------------------------------------------

    def _annex(self) -> list[Section]:
        records = tuple(record.describe() for record in self.mechanisms)
        parts = [Section("Mechanisms", (), records, names=True)]
        if self.certificate is not None:
            parts = [self._definition(), *parts, self._composition(self.certificate)]
            parts.append(Section("Theorem", (self.theorem,)))
        elif self.status == "broken":
            parts.insert(0, Section("Adjacency", (f"{self.neighbours}.",)))
        for title, enforced in (("Assumptions that are enforced", True), ("Assumptions to check", False)):
            held = [one for one in self.assumptions if one.enforced == enforced]
            texts = [f"{_capital(', '.join(filter(None, (one.part, one.name))))}: {one.text}" for one in held]
            parts.append(Section(title, (), tuple(texts), names=True))
        if self.status != "none":
            parts.append(Section("Notes", (), self.notes))
        return [*parts, Section("SHA-256 of the statement as JSON", (self.digest,))]

    def _definition(self) -> Section:
        covered = " and ".join(observer.who for observer in self.observers if observer.protected)
        extra = f", plus {_exact(self.delta)}" if self.delta else ""
        bound = (
            f"Take two neighbouring inputs, and any event about everything seen by {covered}. Its "
            f"probability under one input is at most {_factor(self.epsilon)} (e to the epsilon) times its "
            f"probability under the other{extra}."
        )
        return Section("Definition", (f"{self._numbers()}.", f"Adjacency: {self.neighbours}.", bound))

    def _composition(self, certificate: Certificate) -> Section:
        texts = [f"All mechanisms together: {certificate.describe()}.", f"Rule: {certificate.rule}."]
        if not isinstance(certificate, PureDP):
            losses = [f"{rounded_up(self.epsilon_at(delta))} at delta = {delta:g}" for delta in _DELTAS]
            rho = rounded_up(certificate.to_zcdp().rho)
            texts.append(f"This implies rho-zCDP with rho = {rho}, and epsilon = {', '.join(losses)}.")
        return Section("Composition", tuple(texts))

    def to_json(self) -> str:
        """Return the complete guarantee as JSON text: `from_json` gives an equal guarantee."""
        fields = {"format": _FORMAT} | {name: plain(getattr(self, name)) for name in (*_PROMISE, *_GROUNDS)}
        if math.isinf(self.epsilon):
            fields["epsilon"] = None
        return json.dumps(fields, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Guarantee":
        """Rebuild a guarantee from `to_json()`; its parts are checked against each other again.

        Nothing proves that a policy made the text: a consistent change of it is not noticed. Compare
        `digest` with the digest of the policy's guarantee, or with the one on the signed page.

        Raises:
            InvalidParameter: the text is not from `to_json()`, has another format version, or contradicts
                itself.
        """
        fields = json_object(text, "the JSON form of a guarantee")
        with reading("the JSON form of a guarantee"):
            if fields.pop("format") != _FORMAT:
                raise InvalidParameter(f"a guarantee of another format, expected {_FORMAT}")
            for name in (*_PROMISE, *_GROUNDS):
                fields[name]  # all are there: a default is not what was written
            fields["epsilon"] = math.inf if fields["epsilon"] is None else fields["epsilon"]
            guarantee = cls(**parse_fields(fields, _JSON_PARSERS))
            guarantee.explain(), guarantee.annex()  # every field is of the kind that its pages need
            return guarantee


_PROMISE = ("definition", "epsilon", "delta", "certificate", "unit", "neighbours")
_GROUNDS = ("observers", "limits", "mechanisms", "assumptions", "theorem", "status", "attack", "notes")

_DELTAS = (1e-9, 1e-6)
"""Further values of delta at which an annex states epsilon."""

_JSON_PARSERS: dict[str, Callable[[Any], Any]] = {
    "definition": definitions.from_config,
    "certificate": certificates.from_config,
    "observers": lambda parts: tuple(map(Observer.from_config, parts)),
    "mechanisms": lambda parts: tuple(map(MechanismRecord.from_config, parts)),
    "assumptions": lambda parts: tuple(map(Assumption.from_config, parts)),
}

_HEADLINES = {
    "simulated": ("NOT A PROTECTION: the noise is simulated. With secret noise the rest would hold."),
    "broken": (
        "BROKEN: this mechanism does not keep its published promise. It is here to be studied; no person's "
        "data may be given to it."
    ),
    "none": "NO PRIVACY IS PROMISED: the results may reveal any part of the data.",
}


def _check_kinds(thing: object, **kinds: type) -> None:
    for name, kind in kinds.items():
        if not isinstance(getattr(thing, name), kind):
            raise InvalidParameter(f"{name}: expected {'True or False' if kind is bool else 'text'}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _factor(epsilon: float) -> str:
    """Return e^epsilon in words; a number beyond the range of floats is described without its digits."""
    return rounded_up(math.exp(epsilon)) if epsilon < 700.0 else "a number of more than three hundred digits"


def _exact(value: float) -> str:
    return repr(value).removesuffix(".0")
