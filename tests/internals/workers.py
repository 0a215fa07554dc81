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


def die_at_looks(folder: Path) -> None:
    """Kill one process that has computed a look, and one that has stored it, if it is this process.

    The look's numbers go to files of the folder, "computed-1" and "stored-1" for the first look.
    """
    folded, fold, looks = Folding._folded, Folding.fold, list[Any]()

    def first(what: str) -> bool:
        path = folder / f"{what}-{len(looks)}"
        if not looks or path.exists():
            return False
        path.write_text(json.dumps(looks[-1]))
        return True

    def computed(own: Folding, *given: Any) -> Any:
        found = folded(own, *given)
        looks[:] = [] if found.looks is None else found.looks["looks"]
        if first("computed"):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def stored(own: Folding, *given: Any, **more: Any) -> int:
        looks.clear()
        made = fold(own, *given, **more)
        if first("stored"):
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    Folding._folded, Folding.fold = computed, stored  # type: ignore[method-assign]
