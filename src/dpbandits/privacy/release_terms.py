"""Terms of the noise of each release in a log, and their comparison with the promised terms.

The terms of a release are the distribution, scale, sensitivity and certificate of its noise.
`state.release_log` stores them without knowing any mechanism. This module makes the entries from the
`MechanismRecord` that a policy's statement shows, and compares the log with that record when a state is
loaded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbandits._reading import reading
from dpbandits.errors import CorruptState
from dpbandits.privacy import certificates
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.definitions import Definition
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource

__all__ = ["Release", "are_weaker", "check_releases", "terms_of_release"]

_ROUNDING = 1e-6
"""Relative difference in a calibrated scale or certificate up to which another processor may be the cause."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One purpose of noise, and the number of releases made for it.

    Args:
        purpose: Name of the purpose in the log.
        record: Mechanism as the configuration calibrates it; its `releases` bounds the number of releases.
        noise: Noise source.
        drawn: Number of releases that a state contains.
        charge: Charge to a privacy budget; see `Holder.record`.
    """

    purpose: str
    record: MechanismRecord
    noise: NoiseSource
    drawn: int
    charge: str | None = None


def terms_of_release(record: MechanismRecord, noise: NoiseSource) -> dict[str, Any]:
    """Return the terms of a release, as JSON for the log.

    Example:
        >>> from dpbandits.privacy import PureDP, SecureNoise
        >>> record = MechanismRecord(name="counts", law="discrete Laplace", scale=2.0, sensitivity=2.0,
        ...     certificate=PureDP(1.0), releases=1)
        >>> terms = terms_of_release(record, SecureNoise())
        >>> terms["certificate"], terms["source"], terms["status"]
        ({'kind': 'PureDP', 'epsilon': 1.0}, 'SecureNoise', 'enforced')
    """
    certificate = record.certificate
    return {
        "law": record.law,
        "scale": float(record.scale),
        "sensitivity": float(record.sensitivity),
        "unit": record.unit,
        "certificate": None if certificate is None else certificate.to_config(),
        "releases": record.releases,
        "source": noise.to_config()["kind"],
        "status": noise.status,
    }


def check_releases(
    log: Iterable[Mapping[str, Any]], expected: Iterable[Release], *, privacy: Definition | None
) -> None:
    """Check a log against the mechanisms that the configuration calibrates.

    Args:
        log: Entries of a `ReleaseLog`.
        expected: All purposes for which the object makes releases.
        privacy: Promise at whose delta certificates are compared.

    Raises:
        CorruptState: A release of the state is missing in the log, the configuration does not know an entry,
            or an entry has weaker terms than the configuration (see `are_weaker`). A release of simulated
            noise is no error: it makes the whole guarantee simulated.
    """
    known = {one.purpose: one for one in expected}
    entered = dict.fromkeys(known, 0)
    for entry in log:
        with reading("an entry of the log of releases", CorruptState):
            one = known.get(entry["purpose"])
            if one is None:
                raise CorruptState("the log has releases that the saved configuration does not make")
            entered[one.purpose] += int(entry["count"])
            status, needed = entry["status"], terms_of_release(one.record, one.noise)
            if status == "simulated" and one.noise.status == "enforced":
                continue  # the guarantee then has the status `simulated`
            if status != one.noise.status or are_weaker(entry, needed, privacy=privacy):
                raise CorruptState(
                    f"a release of {one.purpose} was made on weaker terms than the saved configuration "
                    "promises: file and configuration do not belong together"
                )
    for purpose, one in known.items():
        if not one.drawn <= entered[purpose] <= one.record.releases:
            raise CorruptState(
                f"the state holds {one.drawn} release(s) of {purpose}, its log {entered[purpose]} and its "
                f"configuration {one.record.releases} at most: what was released is not known"
            )


def are_weaker(entry: Mapping[str, Any], needed: Mapping[str, Any], *, privacy: Definition | None) -> bool:
    """Return True if an entry's terms promise less than the needed terms; the source is ignored.

    Weaker terms are: another distribution or unit, a smaller scale, a larger sensitivity, more releases, or
    a certificate that proves less at the delta of `privacy`. Differences from rounding are ignored.
    """
    proven, asked = (
        None if one["certificate"] is None else certificates.from_config(one["certificate"])
        for one in (entry, needed)
    )
    return (
        entry["law"] != needed["law"]
        or entry["unit"] != needed["unit"]
        or not float(entry["scale"]) >= needed["scale"] * (1.0 - _ROUNDING)
        or not float(entry["sensitivity"]) <= needed["sensitivity"] * (1.0 + _ROUNDING)
        or int(entry["releases"]) > needed["releases"]
        or not _as_strong(proven, asked, privacy)
    )


def _as_strong(proven: Certificate | None, needed: Certificate | None, privacy: Definition | None) -> bool:
    if needed is None or privacy is None or proven == needed:
        return True
    if proven is None:
        return False
    delta = privacy.delta
    return proven.epsilon_at(delta) <= needed.epsilon_at(delta) * (1.0 + _ROUNDING)
