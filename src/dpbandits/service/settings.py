"""`Settings`: what an operator decides, in `service.toml`; every value has a default."""

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

from dpbandits import _checks
from dpbandits._reading import reading
from dpbandits.errors import InvalidParameter
from dpbandits.state.witness import FileWitness

__all__ = ["COUNTERS", "Settings"]

COUNTERS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that names a folder where processes that serve together keep their counters."""

LONGEST_WAIT = 10 * 366 * 86400.0
"""Seconds: ten years."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the service. They do not change any promise.

    Args:
        host, port: where it listens.
        requests_per_second: of one token, on average; a second's worth may come at once.
        largest_body: bytes of a request.
        longest_request: seconds in which a request must have come.
        mismatches_per_hour: how often a token may send an id again with another body, before its repetitions
            are answered no more for a while.
        retention_days: after so many days decisions are erased, but for their ids, and with them rounds that
            no release holds.
        database: `postgresql://...`, where everything is kept but the key; empty for the folder. It may hold
            a password, and is not shown.
        policy_memory: bytes that open policies may take together; 4 GiB by default. Each counts with its
            estimated peak memory, from public numbers. The service closes those that were used least
            recently, and opens a closed policy when it is asked, which takes some tens of milliseconds. A
            policy that needs more alone cannot begin.
        witness: folder, on another disk, of a `FileWitness` that remembers how far the ledger has gone; empty
            for none. All workers of a database have the same one, never copies.

    Raises:
        InvalidParameter: a number out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    requests_per_second: float = 1000.0
    largest_body: int = 4 << 20
    longest_request: float = 30.0
    mismatches_per_hour: int = 10
    retention_days: float = 30.0
    policy_memory: int = 4 << 30
    witness: str = ""
    database: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in ("host", "witness", "database"):
            if not isinstance(getattr(self, name), str):
                raise InvalidParameter(f"{name}: expected a text")
        _checks.integer(self.port, name="port", minimum=0)
        _checks.number(self.requests_per_second, name="requests_per_second")
        _checks.integer(self.largest_body, name="largest_body", minimum=1024)
        _checks.number(self.longest_request, name="longest_request")
        _checks.integer(self.mismatches_per_hour, name="mismatches_per_hour", minimum=1)
        _checks.number(self.retention_days, name="retention_days")
        _checks.integer(self.policy_memory, name="policy_memory", minimum=1 << 20)

    def file_witness(self) -> FileWitness | None:
        """The witness of the ledger; None where there is none."""
        return FileWitness(Path(self.witness)) if self.witness else None

    @classmethod
    def from_toml(cls, path: Path | None) -> "Settings":
        """Return the settings in a file, or the defaults without one.

        Raises:
            InvalidParameter: no TOML, a key that is not known, or a value of another kind.
        """
        if path is None:
            return cls()
        with reading(f"{path.name}"):
            try:
                found = tomllib.loads(path.read_text())
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise InvalidParameter(f"{path.name} is no TOML: {error}") from None
        known = [one.name for one in fields(cls)]
        unknown = sorted(set(found) - set(known))
        if unknown:
            raise InvalidParameter(f"{path.name}: {unknown} are not known; expected some of {known}")
        return cls(**found)
