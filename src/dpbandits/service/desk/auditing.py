"""`Audits`: attacks on a live policy's configuration, in a process of their own, while the service goes on.

What is attacked is the configuration, which is public, with people who are made up: no audit reads the store,
a state or a report. One is made at a time, behind everything else that this machine does, and ended where it
takes too long. Results are in memory, one a policy, until the service stops.
"""

import atexit
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpbandits import __version__

__all__ = ["SAMPLES", "Audited", "Audits", "bundled"]

SAMPLES = 30_000
"""Of each audit, before its own share: what is costly takes some seconds."""

LONGEST, MOST_MEMORY = 300.0, 4 << 30
"""Seconds in which an audit ends, and bytes of address space that it has."""

MOST = 100
"""Policies whose last audit is remembered."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of the files in a bundle, so that the same audit gives the same bytes."""

README = """The audit of one policy of a dpbandits service, version {version}.

configuration.json  what was attacked: public, and nobody's data
audit.json          what was proved; `holds` says that no attack got above the claim, and no more
statement.txt       what is promised, as prose; guarantee.json the same as JSON
releases.json       what was released, and when
charge.json         what the population was charged

`dpbandits audit --configuration configuration.json --samples {samples}` does it again, on any machine.
"""


@dataclass(eq=False)
class Audited:
    """An audit, made or under way.

    Attributes:
        began_at: seconds since 1970.
        config: what is attacked.
        rows: what was proved, as `AuditRow.to_json` has it; None while it is under way.
        failed: why there are no rows, in fixed words; empty where there are.
    """

    began_at: float
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] | None = field(default=None)
    failed: str = field(default="")

    @property
    def under_way(self) -> bool:
        """Whether it is not ended yet."""
        return self.rows is None and not self.failed


class Audits:
    """See the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Audited] = {}
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"Audits({len(self._made)} made)"

    def of(self, subject: str) -> Audited | None:
        """The last audit of a policy, by its id."""
        return self._made.get(subject)

    def begin(self, subject: str, config: Callable[[], Mapping[str, Any]], now: float) -> bool:
        """Begin one; False where another is under way.

        Args:
            subject: id of the policy.
            config: gives that of a `GPBandit` or a `Spec`; called beside the answers.
            now: seconds since 1970.
        """
        with self._lock:
            if any(one.under_way for one in self._made.values()):
                return False
            self._made.pop(subject, None)
            while len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
            audited = self._made[subject] = Audited(now)
        made = (audited, config)
        threading.Thread(target=self._make, args=made, name="dpbandits audit", daemon=True).start()
        return True

    def close(self) -> None:
        """End what is under way."""
        if self._child is not None:
            with suppress(OSError):
                self._child.kill()

    def _make(self, audited: Audited, config: Callable[[], Mapping[str, Any]]) -> None:
        try:
            audited.config = dict(config())
            audited.rows = self._proved(audited.config)
        except subprocess.TimeoutExpired:
            audited.failed = "It did not end in its time."
        except Exception:  # noqa: BLE001 - whatever it is, the page says no more
            audited.failed = "It cannot be made of this configuration, or broke off."

    def _proved(self, config: dict[str, Any]) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="dpbandits-audit-") as folder:
            file = Path(folder) / "configuration.json"
            file.write_text(json.dumps(config))
            command = [sys.executable, "-m", "dpbandits", "audit", "--configuration", str(file)]
            self._child = subprocess.Popen(  # noqa: S603 - its arguments are ours
                [*command, "--samples", str(SAMPLES), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                text=True,
            )
            with self._child as child:
                with suppress(OSError, AttributeError, ImportError):  # Linux has both
                    import resource

                    os.setpriority(os.PRIO_PROCESS, child.pid, 10)
                    resource.prlimit(child.pid, resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
                try:
                    told, _ = child.communicate(timeout=LONGEST)
                except subprocess.TimeoutExpired:
                    child.kill()
                    raise
        rows: list[dict[str, Any]] = json.loads(told)
        return rows


def bundled(audited: Audited, *, statement: str, guarantee: str, more: Mapping[str, Any]) -> bytes:
    """An audit to take along, as a zip.

    Args:
        audited: it, ended.
        statement, guarantee: the policy's, as prose and as JSON.
        more: further files of JSON, by name.
    """
    audit = {
        "version": __version__,
        "began_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(audited.began_at)),
        "samples": SAMPLES,
        "rows": audited.rows,
    }
    files = {
        "README.txt": README.format(version=__version__, samples=SAMPLES),
        "configuration.json": _written(audited.config),
        "audit.json": _written(audit),
        "statement.txt": statement,
        "guarantee.json": _written(json.loads(guarantee)),
        **{name: _written(value) for name, value in more.items()},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in files.items():
            bundle.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _written(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"
