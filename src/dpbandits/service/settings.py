"""`Settings` of the service, from `service.toml` or the environment; every value has a default."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from dpbandits import _checks
from dpbandits._reading import reading
from dpbandits.errors import InvalidParameter
from dpbandits.state.witness import FileWitness

__all__ = ["COUNTERS", "Settings"]

COUNTERS = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable that names the folder in which the workers of one service store their counters."""

PREFIX = "DPBANDITS_"
"""Prefix of the environment variables that set a field: `DPBANDITS_PORT` sets `port`."""

NO_SETTINGS = frozenset({"DPBANDITS_DATA", "DPBANDITS_TRACEBACK"})
"""Environment variables with the prefix `PREFIX` that are no settings.

Other parts of the package read them.
"""

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
"""Pattern of an origin: scheme, host and port, without a path."""

_MINIMA = {
    "largest_body": 1024,
    "connections_per_address": 1,
    "mismatches_per_hour": 1,
    "policy_memory": 1 << 20,
}
"""Smallest values of the settings that are whole numbers, where this is not 0. Other numbers are positive."""

_SAID: dict[type, str] = {str: "a text", bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the service. They do not change any guarantee.

    Args:
        host, port: address and port on which the service listens.
        proxies: addresses and networks, with commas between, whose X-Forwarded-For and X-Forwarded-Proto are
            believed. A proxy among them must replace these headers; otherwise a client chooses its own
            address.
        requests_per_second: requests of one token a second, on average; a second's worth may come at once.
            Each decision and each reward of a batch counts as a request.
        requests_per_address: requests a second of one address, or of one network /64 of IPv6, with a token
            whose only scope is `report`. Such a token is in every device, so anybody may have it. Behind one
            of `proxies` the address is the one that the proxy names. Beyond the rate the answer is 429.
        largest_body: largest size of a request's body in bytes.
        bytes_at_once: bytes of all requests that one worker reads or answers at a time. Beyond them the
            answer is 503.
        longest_request: seconds within which a request has to arrive.
        connections_per_address: connections of one address, or of one network /64 of IPv6. When there are
            more, the oldest idle one is closed. Addresses of `proxies` may have any number.
        mismatches_per_hour: repetitions of an id with another body that a token may send in an hour. After
            them its repetitions are refused for a while.
        retention_days: days after which decisions are erased, except for their ids, and rounds that no
            release holds.
        database: address `postgresql://...` of the database that keeps everything but the key; empty for the
            folder. It may hold a password, and is not shown.
        policy_memory: bytes that open policies may take together. Each counts with its estimated peak
            memory, from public numbers. The service closes those that were used least recently, and opens a
            closed policy when it is asked, which takes some tens of milliseconds. A policy that needs more
            alone cannot begin.
        log_format: "text", or "json" for a JSON object in each line.
        disk_floor: bytes that must be free on the disk of the folder; with fewer the service is not ready.
        instance: name of this deployment, the same at every start. A store that has another name was copied
            or restored from another deployment, and only reads until it is adopted. Set it where a copy of
            the folder does not take it along, such as in the environment of the machine.
        witness: folder, on another disk, of a `FileWitness` that remembers how far the ledger has gone;
            empty for none. All workers of a database have the same one, never copies.
        cors_origins: origins, such as "https://shop.example.org", whose pages may use the routes of devices,
            decisions and flags from a browser.
        behind_tls: true if browsers reach the service over HTTPS alone, by a proxy before it. Cookies of the
            desk are then Secure and have the prefix `__Host-`, even if the proxy does not say how it was
            reached.
        hsts_seconds: `max-age` of `Strict-Transport-Security`, the seconds for which browsers come over
            HTTPS alone. Browsers ignore it over plain HTTP. With 0 it is not sent.

    Raises:
        InvalidParameter: a number out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    proxies: str = "127.0.0.1,::1"
    requests_per_second: float = 1000.0
    requests_per_address: float = 50.0
    largest_body: int = 4 << 20
    bytes_at_once: int = 64 << 20
    longest_request: float = 30.0
    connections_per_address: int = 500
    mismatches_per_hour: int = 10
    retention_days: float = 30.0
    policy_memory: int = 4 << 30
    log_format: str = "text"
    disk_floor: int = 256 << 20
    instance: str = ""
    witness: str = ""
    database: str = field(default="", repr=False)
    cors_origins: tuple[str, ...] = ()
    behind_tls: bool = False
    hsts_seconds: int = 0

    def __post_init__(self) -> None:
        for name, kind in ((one.name, one.type) for one in fields(self)):
            value = getattr(self, name)
            if kind is int:
                _checks.integer(value, name=name, minimum=_MINIMA.get(name, 0))
            elif kind is float:
                _checks.number(value, name=name)
            elif isinstance(kind, type) and kind in _SAID and not isinstance(value, kind):
                raise InvalidParameter(f"{name}: expected {_SAID[kind]}")
        origins: Any = self.cors_origins
        listed = isinstance(origins, list | tuple)
        if not listed or not all(isinstance(one, str) and _ORIGIN.fullmatch(one) for one in origins):
            raise InvalidParameter(
                'cors_origins: expected a list of origins, as ["https://shop.example.org"], without paths '
                "or wildcards"
            )
        _checks.assign(self, cors_origins=tuple(origins))
        try:
            for one in filter(None, self.proxies.split(",")):
                ip_network(one.strip())
        except ValueError:
            raise InvalidParameter("proxies: expected IP addresses and networks, commas between") from None
        _checks.integer(self.bytes_at_once, name="bytes_at_once", minimum=self.largest_body)
        if self.log_format not in ("text", "json"):
            raise InvalidParameter("log_format: expected text or json")

    def file_witness(self) -> FileWitness | None:
        """Return the witness of the ledger, or None."""
        return FileWitness(Path(self.witness)) if self.witness else None

    @classmethod
    def read(
        cls, path: Path | None = None, environ: Mapping[str, str] = os.environ, **given: object
    ) -> "Settings":
        """Return the settings.

        `given` takes precedence over the environment, and the environment over the file.

        The variable `DPBANDITS_<FIELD>` holds a value in the form that it has in the file, but a text
        without quotes. `DPBANDITS_<FIELD>_FILE` names a file that holds the value, such as a mounted secret.
        An error about a variable contains its name and what is expected, never its value, which may be a
        misplaced password.

        Args:
            path: `service.toml`; None for no file.
            environ: environment variables.
            **given: fields by name; a value of None is ignored.

        Raises:
            InvalidParameter: the file is not TOML, a key or variable is unknown, or a value is invalid.
        """
        kinds = {one.name: one.type for one in fields(cls)}
        values = _of_environment(environ, kinds)
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return cls(**{**_of_file(path, list(kinds)), **values, **chosen})
        except InvalidParameter as misfit:
            said, _, expected = str(misfit).partition("expected ")
            name = said.partition(" ")[0].rstrip(":")
            if name not in values.keys() - chosen.keys():
                raise
            shown = expected if f" {values[name]} " not in f" {expected} " else "another value"
            raise InvalidParameter(f"{PREFIX}{name.upper()}: expected {shown}") from None


def _of_file(path: Path | None, known: list[str]) -> dict[str, Any]:
    if path is None:
        return {}
    with reading(f"{path.name}"):
        try:
            found = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"{path.name} is not valid TOML: {error}") from None
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InvalidParameter(f"{path.name}: {unknown} are not known; expected some of {known}")
    return found


def _of_environment(environ: Mapping[str, str], kinds: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable in sorted(one for one in environ if one.startswith(PREFIX) and one not in NO_SETTINGS):
        name, text = variable.removeprefix(PREFIX).lower(), environ[variable]
        of_file = name.removesuffix("_file") if name not in kinds else ""
        name = of_file or name
        if name not in kinds or name in values:
            known = ", ".join(PREFIX + one.upper() for one in kinds)
            raise InvalidParameter(
                f"{variable}: unknown, or set twice; expected one of these, by itself or with _FILE: {known}"
            )
        try:
            text = Path(text).read_text().strip() if of_file else text
            [[values[name]]] = [[text]] if kinds[name] is str else tomllib.loads(f"it = [{text}\n]").values()
        except (OSError, ValueError) as error:
            why = type(error).__name__
            raise InvalidParameter(f"{variable}: expected a value as service.toml has it ({why})") from None
    return values
