"""Into a worker of the service: who folds in it, and what a ledger's event sees."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.postgres import PostgresStore
from dpbandits.service.row_ledger import RowLedger


def folding(service: Service) -> Folding:
    """What makes the releases of a worker."""
    return service._folding


def closed(service: Service, policy: str) -> int | None:
    """Let no reward of blocks that are due count, as a fold does first."""
    return folding(service)._closed(policy)


def impatient(store: PostgresStore) -> None:
    """Whoever asks for a connection from now on waits hardly at all."""
    store._timeout = 0.1


def event(ledger: RowLedger) -> AbstractContextManager[Any]:
    """An event, so that another can come in between."""
    return ledger._event()


def as_folded(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> None:
    """Make a call each time that a worker has computed releases and has not stored them yet."""
    real = Folding._folded

    def meanwhile(folding: Folding, *given: Any) -> Any:
        folded = real(folding, *given)
        call()
        return folded

    monkeypatch.setattr(Folding, "_folded", meanwhile)


def die_at_a_look(path: Path) -> None:
    """Kill this process once it has computed a look; its numbers, which nobody saw, go to a file."""
    real = Folding._folded

    def dies(folding: Folding, *given: Any) -> Any:
        found = real(folding, *given)
        if found.looks is not None and found.looks["looks"]:
            path.write_text(json.dumps(found.looks["looks"]))
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    Folding._folded = dies  # type: ignore[method-assign]
